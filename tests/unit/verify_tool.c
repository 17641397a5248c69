// verify_tool.c - the explorer on a file of the thread IR, for tests:
//
//   verify_tool FILE.thr   reads one kernel and explores it; prints the report.
//
// A kernel in the thread IR has no launch plan. What the explorer needs of one, the boxes of the
// tensor maps, stands in the comments that emu_tool reads:
//
//   # tmap tmap_a: a box[64,32] swz128
//
// Scalars are left open. Exit status: 0 clean, 1 a violation or a deadlock, 2 cannot be read, or is
// not supported.
#include "../../src/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 100, MOST_STATES = 1000000, TRIPS = 5 }; // the rings have two slots

// The box of one map, innermost extent first as in a plan; rank 0 when the text has none.
static PlanTensorMap read_map(const char *text, const char *name)
{
    PlanTensorMap map = {.rank = 0};
    char key[128];
    snprintf(key, sizeof key, "# tmap %.100s:", name);
    const char *s = strstr(text, key);
    s = s ? strstr(s, "box[") : NULL;
    if (!s) return map;
    u32 extent[TMA_MAX_RANK];
    for (s += 4; *s && *s != ']' && map.rank < TMA_MAX_RANK; s += *s == ',')
        extent[map.rank++] = (u32)strtoul(s, (char **)(uintptr_t)&s, 10);
    for (int i = 0; i < map.rank; i++) map.box[i] = extent[map.rank - 1 - i];
    return map;
}

// One step that launches the kernel.
static Plan *make_plan(Arena *a, ExprPool *e, const ThreadFn *fn, const char *text)
{
    Plan *p = ARENA_NEW(a, Plan);
    PlanStep *s = ARENA_NEW(a, PlanStep);
    s->kind = STEP_KERNEL;
    s->kernel = p->name = fn->name;
    for (int i = 0; i < fn->params.n; i++) {
        PlanArg arg = {.kind = ARG_TENSOR};
        if (fn->params.at[i].kind == PARAM_TMAP) {
            arg = (PlanArg){.kind = ARG_TMAP, .index = s->tmaps.n};
            vec_push(a, &s->tmaps, read_map(text, fn->params.at[i].name));
        } else if (fn->params.at[i].kind != PARAM_PTR) {
            arg = (PlanArg){.kind = ARG_VALUE, .value = expr_var(e, fn->params.at[i].name)};
        }
        vec_push(a, &s->args, arg);
    }
    vec_push(a, &p->steps, s);
    return p;
}

static ExploreVerdict explore_file(const char *path, Arena *a, Diag *d, Buf *out)
{
    Buf text = {0};
    const char *why = file_read(path, &text, 1 << 24);
    if (why) {
        buf_printf(out, "%s: %s\n", path, why);
        return EXPLORE_REFUSED;
    }
    buf_putc(&text, '\0');
    text.n--;
    u16 file = diag_add_file(d, path, text.s, text.n);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    ThreadModule *m = thread_read(a, e, d, file, text.s, text.n);
    ExploreVerdict v = EXPLORE_REFUSED;
    if (m && !diag_errors(d) && m->fns.n == 1) {
        ExploreOptions o = {.cases = MOST_CASES, .states = MOST_STATES, .trips = TRIPS};
        v = explore_module(m, make_plan(a, e, m->fns.at[0], text.s), d, &o, out);
    }
    diag_print(d, out);
    buf_free(&text);
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
