// verify_tool.c - the explorer on a file of the thread IR, for tests:
//
//   verify_tool FILE.thr   reads one kernel and explores it; prints the report.
//
// Scalars are left open. Exit status: 0 clean, 1 a violation or a deadlock, 2 cannot be read, or is
// not supported.
#include "../../src/cli/thread_file.h"
#include "../../src/verify/verify.h"

#include <stdio.h>

enum { MOST_CASES = 100, MOST_STATES = 1000000, TRIPS = 5 }; // the rings have two slots

static ExploreVerdict explore_file(const char *path, Arena *a, Diag *d, Buf *out)
{
    ThreadModule *m;
    Plan *plan;
    ExploreVerdict v = EXPLORE_REFUSED;
    if (cli_read_thread(path, a, d, &m, &plan) && m->fns.n == 1) {
        ExploreOptions o = {.cases = MOST_CASES, .states = MOST_STATES, .trips = TRIPS};
        v = explore_module(m, plan, d, &o, out);
    }
    diag_print(d, out);
    return v;
}

int main(int argc, char **argv)
{
    static const int status[] = {
        [EXPLORE_CLEAN] = 0, [EXPLORE_VIOLATION] = 1, [EXPLORE_REFUSED] = 2};
    if (argc != 2) {
        fprintf(stderr, "usage: verify_tool FILE.thr\n");
        return 2;
    }
    Arena *a = arena_new(0);
    Buf out = {0};
    ExploreVerdict v = explore_file(argv[1], a, diag_new(a), &out);
    if (out.s) fputs(out.s, stdout);
    buf_free(&out);
    arena_free(a);
    return status[v];
}
