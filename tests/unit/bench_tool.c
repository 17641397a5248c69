// bench_tool.c - parts of src/bench on a results.json, without a GPU and without `baton bench`:
//   bench_tool json FILE           read and written again
//   bench_tool WHAT FILE           warnings | text | markdown | csv, after the guards have looked
//   bench_tool store FILE DIR [zh] the folder of results
//   bench_tool compare A B         exit status 1 when something became slower
//   bench_tool rules markdown      the table of the guards
// Exit status 2: a file could not be read, and why.
#include "../../src/bench/bench.h"

#include <stdio.h>
#include <string.h>

static void warnings(const Bench *b, Buf *out)
{
    for (int i = 0; i < b->warnings.n; i++) {
        const BenchWarning *w = &b->warnings.at[i];
        buf_printf(out, "%s %s %s %s%s: %s\n", bench_warning_name[w->kind],
                   w->impl < 0 ? "-" : b->impls.at[w->impl].name,
                   w->size < 0 ? "-" : b->sizes.at[w->size].label,
                   w->regime < 0 ? "-" : bench_regime_name[w->regime], w->refused ? " refused" : "",
                   w->text);
    }
}

static void rules(Buf *out)
{
    for (int i = 0; i < BENCH_WARNINGS; i++)
        buf_printf(out, "| %s | %s |\n", bench_warning_name[i], bench_warning_rule[i]);
}

static int run(int argc, char **argv, Arena *a, Diag *d, Buf *out)
{
    static const struct {
        const char *name;
        void (*print)(const Bench *, Buf *);
    } prints[] = {{"json", bench_json}, {"warnings", warnings}, {"text", bench_text},
                  {"markdown", bench_markdown}, {"csv", bench_csv}};
    const char *what = argv[1];
    if (strcmp(what, "rules") == 0) {
        rules(out);
        return 0;
    }
    Bench *b = bench_load_folder_or_file(a, argv[2], d);
    if (!b) return 2;
    if (strcmp(what, "json") != 0) bench_warn(b);
    for (int i = 0; i < COUNT(prints); i++)
        if (strcmp(what, prints[i].name) == 0) prints[i].print(b, out);
    if (argc < 4) return 0;
    if (strcmp(what, "store") == 0)
        return bench_store(b, argv[3], argc > 4 ? BENCH_CHINESE : BENCH_ENGLISH, NULL, d) ? 0 : 2;
    Bench *second = bench_load_folder_or_file(a, argv[3], d);
    if (!second) return 2;
    bench_warn(second);
    return bench_compare(b, second, out) > 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tool WHAT FILE ...\n");
        return 2;
    }
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf out = {0};
    int status = run(argc, argv, a, d, &out);
    diag_print(d, &out);
    fwrite(out.s ? out.s : "", 1, out.n, stdout);
    buf_free(&out);
    arena_free(a);
    return status;
}
