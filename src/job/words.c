// words.c - reads command lines by table, and says what was probably meant when a word is wrong.
//
// The table of a command is also its --help, so the two cannot disagree. Words are never copied:
// values point into argv. Numbers and sizes for people are formatted here too.
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 32 }; // words beyond this are not compared for likeness

// Number of insertions, deletions, replacements and swaps of neighbours that make a into b.
static int edit_distance(const char *a, const char *b)
{
    int na = (int)strlen(a), nb = (int)strlen(b);
    int d[LONGEST_WORD + 1][LONGEST_WORD + 1];
    if (na > LONGEST_WORD || nb > LONGEST_WORD) return LONGEST_WORD;
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        for (int j = 1; j <= nb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = MIN(best, d[i - 1][j] + 1);
            best = MIN(best, d[i][j - 1] + 1);
            // Two neighbours in the wrong order count as one mistake: they are the most common one.
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN(best, d[i - 2][j - 2] + 1);
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

// A word is close when fewer letters differ than it has, and no more than about a third of them.
const char *cli_closest(const char *word, const char *const *names, int n)
{
    const char *best = NULL;
    int best_distance = (int)strlen(word) / 3 + 2; // a third of the letters may be wrong
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(word, names[i]);
        if (distance < best_distance && distance < (int)strlen(names[i])) {
            best_distance = distance;
            best = names[i];
        }
    }
    return best;
}

// `word` may carry a value behind n characters: only the name is shown and compared.
static void unknown_option(CliArgs *a, const char *word, size_t n)
{
    const char *name = arena_strndup(a->arena, word, n);
    const char **names = ARENA_ARRAY(a->arena, const char *, a->noptions + 1);
    for (int i = 0; i < a->noptions; i++) names[i] = a->options[i].name;
    const char *meant = cli_closest(name, names, a->noptions);
    const char *program = strchr(a->command, '.') ? a->command
                                                  : arena_printf(a->arena, "baton %s", a->command);
    const char *hint = meant ? arena_printf(a->arena, "did you mean %s?", meant)
                             : arena_printf(a->arena, "`%s --help` lists all", program);
    diag_error(a->diag, (Loc){0}, hint, "%s has no option %s", program, name);
}

// A value may stand in the same word or the next; a next word that begins with -- is taken for an
// option that followed too early, not for a value.
int cli_next(CliArgs *a, const char **value)
{
    if (a->at >= a->argc) return CLI_END;
    const char *word = a->argv[a->at++];
    *value = word;
    if (!a->only_positionals && strcmp(word, "--") == 0) {
        a->only_positionals = true;
        return cli_next(a, value);
    }
    // A single - is a word: standard output.
    if (a->only_positionals || word[0] != '-' || !word[1]) return CLI_POSITIONAL;

    bool is_long = word[1] == '-';
    size_t n = is_long ? strcspn(word, "=") : 2;
    for (int i = 0; i < a->noptions; i++) {
        const CliOption *o = &a->options[i];
        if (strlen(o->name) != n || memcmp(o->name, word, n) != 0) continue;
        const char *rest = word[n] ? word + n + (is_long ? 1 : 0) : NULL;
        // For a flag of one letter this also catches several in one word (-hx), which are not taken
        // apart.
        if (!o->value && rest) {
            diag_error(a->diag, (Loc){0}, NULL, "%s takes no value, found `%s`", o->name, word);
            return CLI_BAD;
        }
        if (o->value && !rest) {
            if (a->at >= a->argc || strncmp(a->argv[a->at], "--", 2) == 0) {
                diag_error(a->diag, (Loc){0}, NULL, "%s needs a value: %s%s%s", o->name, o->name,
                           is_long ? "=" : " ", o->value);
                return CLI_BAD;
            }
            rest = a->argv[a->at++];
        }
        *value = rest;
        return i;
    }
    unknown_option(a, word, n);
    return CLI_BAD;
}

// Names in one column, help in the next; a name that is too wide has its help on the next line.
void cli_print_options(const CliOption *options, int n, Buf *out)
{
    enum { HELP_COLUMN = 26 };
    for (int i = 0; i < n; i++) {
        Buf left = {0};
        buf_printf(&left, "  %s", options[i].name);
        if (options[i].value)
            buf_printf(&left, "%s%s", options[i].name[1] == '-' ? "=" : " ", options[i].value);
        buf_puts(out, left.s);
        size_t width = left.n;
        buf_free(&left);
        if (width > HELP_COLUMN - 2) {
            buf_putc(out, '\n');
            width = 0;
        }
        for (const char *line = options[i].help; line;) {
            size_t len = strcspn(line, "\n");
            buf_printf(out, "%*s%.*s\n", (int)(HELP_COLUMN - width), "", (int)len, line);
            width = 0;
            line = line[len] ? line + len + 1 : NULL;
        }
    }
}

// The whole word, in 64 bits: no blanks in front, nothing behind, no overflow.
bool cli_integer(const char *s, i64 *out)
{
    char *end;
    if (!*s || *s == ' ' || *s == '\t') return false;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (*end || end == s || errno) return false;
    *out = v;
    return true;
}

// Decimal units (1 KB = 1000 bytes), as disks and bandwidths are given.
const char *cli_bytes(Arena *a, double bytes)
{
    static const char *const unit[] = {"bytes", "KB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 1000 && u + 1 < COUNT(unit)) {
        bytes /= 1000;
        u++;
    }
    return arena_printf(a, bytes < 10 && u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
}

const char *cli_count(Arena *a, i64 n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
    Buf b = {0};
    for (int i = 0; i < len; i++) {
        buf_putc(&b, digits[i]);
        if (digits[i] != '-' && i + 1 < len && (len - 1 - i) % 3 == 0) buf_putc(&b, ',');
    }
    const char *text = arena_strndup(a, b.s, b.n);
    buf_free(&b);
    return text;
}

// Standard output first, so that a message stands behind what it is about.
void cli_flush(const Diag *d)
{
    Buf b = {0};
    diag_print(d, &b);
    if (b.n) {
        fflush(stdout);
        fwrite(b.s, 1, b.n, stderr);
    }
    buf_free(&b);
}
