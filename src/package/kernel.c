// kernel.c - one kernel of a package: reads its words, compiles its source to all forms that the
// package holds, and refuses what could not be checked or must not be given away.
#include "package.h"

#include "../cli/machine.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { OPT_ENTRY, OPT_DEFINE, CLI_PROGRAM_ENUM };
static const CliOption options[] = {
    {"-e", "ENTRY", ""},
    {"-D", "NAME=VALUE", ""},
    CLI_PROGRAM_OPTIONS,
};

// ---- words --------------------------------------------------------------------------------------
// The words of a text, by blanks; between quotes of either kind a blank is a letter. NULL: a quote
// is not closed. There are *n of them, copies in the arena, and a NULL behind them.
static char **split(Arena *a, const char *text, int *n)
{
    VEC(char *) words = {0};
    for (const char *s = text;;) {
        while (isspace((unsigned char)*s)) s++;
        if (!*s) break;
        char *word = arena_strndup(a, s, strlen(s)), *out = word, quote = 0;
        for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
            if (quote ? *s == quote : *s == '\'' || *s == '"')
                quote = quote ? 0 : *s;
            else
                *out++ = *s;
        }
        if (quote) return NULL;
        *out = 0;
        vec_push(a, &words, word);
    }
    *n = words.n;
    vec_push(a, &words, NULL);
    return words.at;
}

// Appends a word so that a shell, and split(), read it as one.
static void quote(const char *word, Buf *out)
{
    bool plain = *word != 0;
    for (const char *s = word; *s; s++)
        plain = plain && (isalnum((unsigned char)*s) || strchr("_./=+:,@%-", *s));
    if (plain) {
        buf_puts(out, word);
        return;
    }
    // A single quote stands between double ones.
    buf_putc(out, '\'');
    for (const char *s = word; *s; s++) buf_puts(out, *s == '\'' ? "'\"'\"'" : (char[]){*s, 0});
    buf_putc(out, '\'');
}

static bool is_name(const char *s, size_t n)
{
    if (!n || !isalpha((unsigned char)s[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '-') return false;
    return true;
}

// "mine=v4.co" names the kernel; a file of that name goes first.
static const char *take_name(Arena *a, const char *word, const char **path)
{
    const char *equals = strchr(word, '=');
    if (equals && is_name(word, (size_t)(equals - word)) && access(word, F_OK)) {
        *path = equals + 1;
        return arena_strndup(a, word, (size_t)(equals - word));
    }
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    *path = word;
    return arena_strndup(a, base, strcspn(base, "."));
}

static bool read_words(Package *p, PackageKernel *k, const char *item)
{
    int n = 0, before = diag_errors(p->diag);
    char **words = split(p->arena, item, &n);
    if (!words) {
        diag_error(p->diag, (Loc){0}, NULL, "a quote is not closed in `%s`", item);
        return false;
    }
    CliArgs args = {n, words, 0, false, options, COUNT(options), "package", p->arena, p->diag};
    const char *value;
    for (int o; (o = cli_next(&args, &value)) != CLI_END;) {
        switch (o) {
        case CLI_BAD: break; // reported
        case CLI_POSITIONAL:
            if (k->name)
                diag_error(p->diag, (Loc){0}, "each file is a word of its own, with its options "
                           "behind it between the same quotes",
                           "a kernel is one file, found `%s` after %s", value, k->source.path);
            else
                k->name = take_name(p->arena, value, &k->source.path);
            break;
        case OPT_ENTRY: k->source.entry = value; break;
        case OPT_DEFINE: cli_define(&k->source, value, p->arena, p->diag); break;
        CLI_PROGRAM_CASES(&k->source, value, p->arena, p->diag);
        default: BUG("option without a case");
        }
    }
    if (diag_errors(p->diag) > before) return false;
    if (!k->name)
        diag_error(p->diag, (Loc){0}, "for example: 'kernels/gemm/gemm.co -D ELEM=f16'",
                   "`%s` names no .co file", item);
    return k->name != NULL;
}

// What was given besides the file, in the way that any `baton` takes it.
static const char *options_of(Arena *a, const CliSource *s)
{
    Buf b = {0};
    if (s->entry) {
        buf_puts(&b, " -e ");
        quote(s->entry, &b);
    }
    for (int i = 0; i < s->defines.n; i++) {
        const AstDefine *d = &s->defines.at[i];
        buf_puts(&b, " -D ");
        quote(d->value ? arena_printf(a, "%s=%s", d->name, d->value) : d->name, &b);
    }
    if (s->options.sequential) buf_puts(&b, " --no-specialise");
    if (s->options.handoff) buf_printf(&b, " --handoff=%s", tile_handoff_name[s->options.handoff]);
    if (s->options.unsafe) buf_puts(&b, " --unsafe");
    const char *text = b.n ? arena_strndup(a, b.s + 1, b.n - 1) : "";
    buf_free(&b);
    return text;
}

// ---- the source ---------------------------------------------------------------------------------
// The first sentence of the comment at the head, without the file's name: "// v4.co - causal
// attention, forward: .." Lines of one sentence are joined.
static const char *title_of(Arena *a, const char *text)
{
    Buf b = {0};
    for (bool ended = false; !ended && strncmp(text, "//", 2) == 0 && text[2] != '!';) {
        size_t n = strcspn(text, "\n"), from = 2;
        while (from < n && text[from] == ' ') from++;
        if (from == n) break; // an empty line ends it as well
        if (b.n) buf_putc(&b, ' ');
        for (; from < n && !ended; from++) {
            ended = text[from] == '.' && (from + 1 == n || text[from + 1] == ' ');
            if (!ended) buf_putc(&b, text[from]);
        }
        text += n + (text[n] != 0);
    }
    const char *dash = b.n ? strstr(b.s, " - ") : NULL;
    const char *title = dash ? dash + 3 : b.n ? b.s : "";
    size_t n = strlen(title);
    while (n && strchr(" :,;", title[n - 1])) n--;
    title = arena_strndup(a, title, n);
    buf_free(&b);
    return title;
}

// ---- compiled -----------------------------------------------------------------------------------
// What a package says about its kernels is that they are right, so it must be able to look.
static bool can_be_checked(const Package *p, const PackageKernel *k, const Compilation *c)
{
    const char *why = !c->contract               ? "no contract"
                      : !c->contract->op         ? "no `op:` in its contract"
                      : !c->contract->reference  ? "no reference in its contract"
                                                 : NULL;
    if (why)
        diag_error(p->diag, (Loc){0},
                   "a package checks each kernel before it is timed; for example: "
                   "//! check: reference add; abs 0 rel 0",
                   "%s has %s", k->source.path, why);
    else if (c->tile->unsound)
        diag_error(p->diag, (Loc){0}, "--unsafe is for showing the race",
                   "%s hands back slots that may still be read; a package holds no such kernel",
                   k->source.path);
    return !why && !c->tile->unsound;
}

// As the user gave it, for the messages, and for what is known of the program.
static bool compile(Package *p, PackageKernel *k)
{
    Compilation c = {.until = FORM_PTX, .quick = true, .arena = p->arena, .diag = p->diag};
    bool ok = cli_read_source(&k->source, &c);
    c.options.assembled = true;
    ok = ok && pass_compile(&c) && can_be_checked(p, k, &c);
    buf_free(&c.ptx);
    if (!ok) return false;
    buf_write(&k->text, c.text, c.text_n);
    k->contract = c.contract;
    k->title = title_of(p->arena, c.text);
    k->audited = c.tile->delayed != 0;
    return true;
}

// Once more by the name that the source has in the package, since generated code names it. *c has
// the code; its messages were all told.
static bool compile_again(Package *p, const PackageKernel *k, PassForm until, bool assembled,
                          Compilation *c)
{
    *c = (Compilation){.until = until, .arena = p->arena, .diag = diag_new(p->arena),
                       .path = arena_printf(p->arena, "kernels/%s.co", k->name),
                       .text = k->text.s, .text_n = k->text.n, .entry = k->source.entry,
                       .defines = k->source.defines.at, .ndefines = k->source.defines.n,
                       .options = k->source.options};
    c->options.assembled = assembled;
    if (pass_compile(c)) return true;
    Buf text = {0};
    diag_print(c->diag, &text);
    diag_error(p->diag, (Loc){0}, NULL, "%s cannot become %s:\n%s", k->source.path,
               pass_form_name[until], text.s);
    buf_free(&text);
    return false;
}

// PTX, and machine code where there is an assembler. Where the handoff relies on what it makes, there
// must be one, and its code must pass the audit.
static bool make_ptx(Package *p, PackageKernel *k)
{
    Compilation c;
    bool ok = compile_again(p, k, FORM_PTX, true, &c);
    if (ok) buf_write(&k->ptx, c.ptx.s, c.ptx.n);
    c.diag = p->diag;
    if (ok && (k->audited || p->assembler)) ok = cli_machine_code(&c, &k->cubin);
    buf_free(&c.ptx);
    return ok;
}

// CUDA C++. Another assembler will take it, so its handoffs are protected by fences.
static bool make_cuda(Package *p, PackageKernel *k)
{
    Compilation c;
    bool ok = compile_again(p, k, FORM_CUDA, false, &c);
    if (ok) buf_write(&k->cuda, c.cuda.s, c.cuda.n);
    buf_free(&c.cuda);
    return ok;
}

// ---- together -----------------------------------------------------------------------------------
static bool fits_the_others(const Package *p, const PackageKernel *k)
{
    for (int i = 0; i < p->kernels.n; i++) {
        const PackageKernel *other = &p->kernels.at[i];
        if (!other->contract) continue; // it has its message
        if (strcmp(other->name, k->name) == 0) {
            diag_error(p->diag, (Loc){0},
                       arena_printf(p->arena, "give it one: %s2=%s", k->name, k->source.path),
                       "two kernels have the name %s: %s and %s", k->name, other->source.path,
                       k->source.path);
            return false;
        }
        if (strcmp(other->contract->op, k->contract->op) == 0) continue;
        diag_error(p->diag, (Loc){0}, "a package for each operation",
                   "the kernels of a package take turns at one operation; %s is %s, %s is %s",
                   other->source.path, other->contract->op, k->source.path, k->contract->op);
        return false;
    }
    return true;
}

bool package_add(Package *p, const char *item)
{
    PackageKernel k = {0};
    if (!read_words(p, &k, item)) return false;
    k.options = options_of(p->arena, &k.source);
    bool ok = compile(p, &k) && fits_the_others(p, &k) && make_ptx(p, &k) && make_cuda(p, &k);
    vec_push(p->arena, &p->kernels, k); // owns its texts from here on
    return ok;
}

void package_free(Package *p)
{
    for (int i = 0; i < p->kernels.n; i++) {
        PackageKernel *k = &p->kernels.at[i];
        buf_free(&k->text);
        buf_free(&k->ptx);
        buf_free(&k->cuda);
        buf_free(&k->cubin);
    }
}
