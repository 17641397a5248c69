// text.c - the files of a package that are for people and shells: templates of the folder
// package/ with @WORD@ replaced by what belongs to the kernels at hand.
#include "package.h"

#include "../../include/baton.h"

#include <string.h>

static void fill_op(const Package *p, Buf *out) { buf_puts(out, p->kernels.at[0].contract->op); }

// "v1,v4", as --backends takes them.
static void fill_names(const Package *p, Buf *out)
{
    for (int i = 0; i < p->kernels.n; i++)
        buf_printf(out, "%s%s", i ? "," : "", p->kernels.at[i].name);
}

static void fill_first(const Package *p, Buf *out) { buf_puts(out, p->kernels.at[0].name); }

// One line a kernel, in Markdown.
static void fill_list(const Package *p, Buf *out)
{
    for (int i = 0; i < p->kernels.n; i++) {
        const PackageKernel *k = &p->kernels.at[i];
        buf_printf(out, "%s- [%s](kernels/%s.co)", i ? "\n" : "", k->name, k->name);
        if (*k->title) buf_printf(out, ": %s", k->title);
        if (*k->options) buf_printf(out, " (`%s`)", k->options);
    }
}

// The words for `baton package` that make this package from its own sources. A word of a kernel
// with options stands between single quotes, and so no quote of its own may.
static void fill_items(const Package *p, Buf *out)
{
    for (int i = 0; i < p->kernels.n; i++) {
        const PackageKernel *k = &p->kernels.at[i];
        buf_printf(out, "%s'kernels/%s.co%s", i ? " " : "", k->name, *k->options ? " " : "");
        for (const char *s = k->options; *s; s++)
            buf_puts(out, *s == '\'' ? "'\\''" : (char[]){*s, 0});
        buf_putc(out, '\'');
    }
}

static void fill_version(const Package *p, Buf *out)
{
    (void)p;
    buf_puts(out, BATON_VERSION_TEXT);
}

// What made the package, for VERSIONS.
static void fill_made_by(const Package *p, Buf *out)
{
    for (int i = 0; i < p->kernels.n; i++) {
        const PackageKernel *k = &p->kernels.at[i];
        buf_printf(out, "%skernel %s: kernels/%s.co%s%s", i ? "\n" : "", k->name, k->name,
                   *k->options ? " " : "", k->options);
    }
    if (p->assembler) buf_printf(out, "\nptxas %s", p->assembler);
}

static const struct {
    const char *word;
    void (*fill)(const Package *p, Buf *out);
} fills[] = {
    {"OP", fill_op},       {"NAMES", fill_names}, {"FIRST", fill_first},     {"LIST", fill_list},
    {"ITEMS", fill_items}, {"VERSION", fill_version}, {"MADE_BY", fill_made_by},
};

// Which row of `fills` stands at an '@'; -1: it is a letter like others.
static int fill_at(const char *at, const char *end)
{
    size_t n = 1;
    while (at + n < end && (at[n] == '_' || (at[n] >= 'A' && at[n] <= 'Z'))) n++;
    if (n == 1 || at + n == end || at[n] != '@') return -1;
    for (int i = 0; i < COUNT(fills); i++)
        if (strlen(fills[i].word) == n - 1 && memcmp(at + 1, fills[i].word, n - 1) == 0) return i;
    BUG("a template of a package has no word %.*s", (int)n + 1, at);
}

void package_fill(const Package *p, const PackageSource *template, Buf *out)
{
    const char *s = template->data, *end = s + template->bytes;
    for (const char *at; (at = memchr(s, '@', (size_t)(end - s)));) {
        int i = fill_at(at, end);
        buf_write(out, s, (size_t)(at - s) + (i < 0));
        s = at + 1;
        if (i < 0) continue;
        fills[i].fill(p, out);
        s += strlen(fills[i].word) + 1;
    }
    buf_write(out, s, (size_t)(end - s));
}
