// compile.c - reads the .co file and the definitions of a command line. Both commands compile
// through this, so that `run` compiles exactly what `build` would have written.
#include "compile.h"

#include <ctype.h>
#include <string.h>

// Sixteen megabytes: a source beyond that is not one that a person wrote.
static const size_t MAX_SOURCE = (size_t)16 << 20; // bytes

// As the preprocessor takes it: no word that it would split.
static bool is_name(const char *s, size_t n)
{
    if (!n || isdigit((unsigned char)s[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_') return false;
    return true;
}

// Without a value the macro is 1, as with C compilers.
bool cli_define(CliSource *s, const char *word, Arena *a, Diag *d)
{
    size_t n = strcspn(word, "=");
    if (!is_name(word, n)) {
        diag_error(d, (Loc){0}, "for example: -D ELEM=f16", "-D needs NAME=VALUE, found `%s`",
                   word);
        return false;
    }
    AstDefine def = {arena_strndup(a, word, n), word[n] ? word + n + 1 : NULL};
    vec_push(a, &s->defines, def);
    return true;
}

void cli_handoff(CliSource *s, const char *word, Arena *a, Diag *d)
{
    for (int i = HANDOFF_PROXY; i < HANDOFF_COUNT; i++) {
        if (strcmp(word, tile_handoff_name[i]) != 0) continue;
        s->options.handoff = (u8)i;
        return;
    }
    const char *meant = cli_closest(word, tile_handoff_name + 1, HANDOFF_COUNT - 1);
    diag_error(d, (Loc){0}, meant ? arena_printf(a, "did you mean %s?", meant) : NULL,
               "--handoff takes proxy, delay, membar or none, found `%s`", word);
}

// The text is copied into the arena, since the syntax tree and messages point into it.
bool cli_read_source(const CliSource *s, Compilation *c)
{
    Buf b = {0};
    const char *why = file_read(s->path, &b, MAX_SOURCE);
    if (why) {
        diag_error(c->diag, (Loc){0}, NULL, "cannot read %s: %s", s->path, why);
        buf_free(&b);
        return false;
    }
    c->path = s->path;
    c->text = arena_strndup(c->arena, b.s ? b.s : "", b.n);
    c->text_n = b.n;
    c->entry = s->entry;
    c->defines = s->defines.at;
    c->ndefines = s->defines.n;
    c->options = s->options;
    buf_free(&b);
    return true;
}
