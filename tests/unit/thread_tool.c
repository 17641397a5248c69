// thread_tool.c - the thread IR's passes on a file, for tests:
//
//   thread_tool print FILE   reads and prints the module
//   thread_tool check FILE   reads and checks it; prints "clean" or the errors
//   thread_tool ptx FILE     reads, checks and prints PTX
//   thread_tool cuda FILE    reads, checks and prints CUDA C++
//   thread_tool rename FILE  reads, checks, runs the pass `rename`, checks again; prints the module,
//                            and the pass's notes to standard error
//   thread_tool trip FILE    reads, prints, reads again: fails unless both texts are equal
//
// With a fourth word the output goes to that file. Errors of the program go to standard error, exit
// status 2; a file that cannot be read or written is status 1.
#include "../../src/emit/cuda.h"
#include "../../src/emit/ptx.h"
#include "../../src/thread/rename.h"
#include "../../src/thread/thread.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Diag *diag;
    ExprPool *exprs;
    u16 file;
} Tool;

static int fail(Tool *t)
{
    Buf text = {0};
    diag_print(t->diag, &text);
    fputs(text.s ? text.s : "failed without a message\n", stderr);
    buf_free(&text);
    arena_free(t->arena);
    return 2;
}

static bool round_trip(Tool *t, const Buf *first)
{
    Buf second = {0};
    ThreadModule *again = thread_read(t->arena, t->exprs, t->diag, t->file, first->s, first->n);
    if (again) thread_print(again, &second);
    bool same = again && strcmp(first->s, second.s) == 0;
    if (again && !same) diag_error(t->diag, (Loc){0}, NULL, "printing what was read differs");
    buf_free(&second);
    return same;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fputs("usage: thread_tool print|check|ptx|cuda|rename|trip FILE [OUT]\n", stderr);
        return 1;
    }
    Tool t = {.arena = arena_new((size_t)1 << 30)};
    t.diag = diag_new(t.arena);
    t.exprs = expr_pool_new(t.arena, intern_new(t.arena));
    Buf text = {0}, out = {0}, notes = {0};
    const char *why = file_read(argv[2], &text, 64 << 20), *what = argv[1];
    if (why) {
        fprintf(stderr, "%s: %s\n", argv[2], why);
        return 1;
    }
    t.file = diag_add_file(t.diag, argv[2], text.s, text.n);
    ThreadModule *m = thread_read(t.arena, t.exprs, t.diag, t.file, text.s, text.n);
    bool good = m != NULL;
    if (good && strcmp(what, "print") != 0) good = thread_check(m, t.diag);
    if (good && strcmp(what, "rename") == 0) {
        thread_rename(m, t.diag);
        good = thread_check(m, t.diag);
        diag_print(t.diag, &notes);
        fwrite(notes.s ? notes.s : "", 1, notes.n, stderr);
        buf_free(&notes);
    }
    CudaSource source = {
        .module = m, .path = argv[2], .text = text.s, .text_n = text.n, .entry = "test"};
    if (good && strcmp(what, "ptx") == 0) good = ptx_print(m, NULL, t.diag, &out);
    else if (good && strcmp(what, "cuda") == 0) good = cuda_print(&source, t.diag, &out);
    else if (good && strcmp(what, "check") == 0) buf_puts(&out, "clean\n");
    else if (good) thread_print(m, &out);
    if (good && strcmp(what, "trip") == 0) good = round_trip(&t, &out);
    if (!good) return fail(&t);
    if (argc == 4) why = file_write(argv[3], out.s, out.n);
    else fwrite(out.s, 1, out.n, stdout);
    if (why) fprintf(stderr, "%s: %s\n", argv[3], why);
    buf_free(&text);
    buf_free(&out);
    arena_free(t.arena);
    return why != NULL;
}
