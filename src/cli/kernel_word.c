// kernel_word.c - one word of a command line that names a kernel with its options, and what a
// source says of itself.
#include "kernel_word.h"

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

bool cli_kernel_word(const char *command, const char *item, KernelWord *k, Arena *a, Diag *d)
{
    *k = (KernelWord){0};
    int n = 0, before = diag_errors(d);
    char **words = split(a, item, &n);
    if (!words) {
        diag_error(d, (Loc){0}, NULL, "a quote is not closed in `%s`", item);
        return false;
    }
    CliArgs args = {n, words, 0, false, options, COUNT(options), command, a, d};
    const char *value;
    for (int o; (o = cli_next(&args, &value)) != CLI_END;) {
        switch (o) {
        case CLI_BAD: break; // reported
        case CLI_POSITIONAL:
            if (k->name)
                diag_error(d, (Loc){0},
                           "each file is a word of its own, with its options "
                           "behind it between the same quotes",
                           "a kernel is one file, found `%s` after %s", value, k->source.path);
            else
                k->name = take_name(a, value, &k->source.path);
            break;
        case OPT_ENTRY: k->source.entry = value; break;
        case OPT_DEFINE:
            cli_define(&k->source, value, a, d);
            break;
            CLI_PROGRAM_CASES(&k->source, value, a, d);
        default: BUG("option without a case");
        }
    }
    if (diag_errors(d) > before) return false;
    if (!k->name)
        diag_error(d, (Loc){0}, "for example: 'kernels/gemm/gemm.co -D ELEM=f16'",
                   "`%s` names no .co file", item);
    k->options = options_of(a, &k->source);
    return k->name != NULL;
}

// ---- the source ---------------------------------------------------------------------------------
// Lines of one sentence are joined.
const char *cli_kernel_title(Arena *a, const char *text)
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
