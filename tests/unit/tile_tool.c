// tile_tool.c - the tile IR's passes on a file, for tests:
//
//   tile_tool print FILE    reads and prints the module
//   tile_tool check FILE    reads and checks it; prints "clean"
//   tile_tool layouts FILE  reads, checks, infers the layouts of fragments, checks, prints
//   tile_tool fuse FILE     reads, checks, makes multiply-adds, checks, prints
//   tile_tool trip FILE     reads, prints, reads that: fails unless both print the same
//
// Errors of the program go to standard error, exit status 2; a wrong call or file is status 1.
#include "../../src/tile/passes.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Diag *diag;
    Intern *names;
    ExprPool *exprs;
} Tool;

static TileModule *read_module(Tool *t, const char *name, const Buf *text)
{
    u16 file = diag_add_file(t->diag, name, text->s, text->n);
    return tile_read(t->arena, t->names, t->exprs, t->diag, file, text->s, text->n);
}

static bool round_trip(Tool *t, const Buf *first)
{
    Buf second = {0};
    TileModule *again = read_module(t, "printed", first);
    if (again) tile_print(again, &second);
    bool same = again && strcmp(first->s, second.s) == 0;
    if (again && !same) diag_error(t->diag, (Loc){0}, NULL, "printing what was read differs");
    buf_free(&second);
    return same;
}

static bool run(Tool *t, const char *what, TileModule *m, Buf *out)
{
    bool plain = strcmp(what, "print") == 0 || strcmp(what, "trip") == 0;
    if (!plain && !tile_check(m)) return false;
    if (strcmp(what, "layouts") == 0 && !tile_infer_layouts(m)) return false;
    if (strcmp(what, "fuse") == 0 && !tile_fuse(m)) return false;
    if (!plain && !tile_check(m)) return false;
    if (strcmp(what, "check") == 0)
        buf_puts(out, "clean\n");
    else
        tile_print(m, out);
    return strcmp(what, "trip") != 0 || round_trip(t, out);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: tile_tool print|check|layouts|fuse|trip FILE\n", stderr);
        return 1;
    }
    Arena *a = arena_new((size_t)1 << 30);
    Tool t = {.arena = a, .diag = diag_new(a), .names = intern_new(a)};
    t.exprs = expr_pool_new(a, t.names);
    Buf text = {0}, out = {0}, messages = {0};
    const char *why = file_read(argv[2], &text, 64 << 20);
    if (why) {
        fprintf(stderr, "%s: %s\n", argv[2], why);
        return 1;
    }
    buf_puts(&text, ""); // an empty file still has its NUL
    TileModule *m = read_module(&t, argv[2], &text);
    bool ok = m && run(&t, argv[1], m, &out);
    if (ok && out.s) fputs(out.s, stdout);
    diag_print(t.diag, &messages);
    if (messages.s) fputs(messages.s, stderr);
    buf_free(&messages);
    buf_free(&text);
    buf_free(&out);
    arena_free(a);
    return ok ? 0 : 2;
}
