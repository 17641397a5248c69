// thread_file.c - reads kernels in the thread IR; see thread_file.h.
#include "thread_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MAX_TEXT = (size_t)16 << 20; // bytes

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
    for (s += 4; *s && *s != ']' && map.rank < TMA_MAX_RANK; s += *s == ',') {
        const char *digits = s;
        extent[map.rank++] = (u32)strtoul(s, (char **)(uintptr_t)&s, 10);
        if (s == digits) return (PlanTensorMap){.rank = 0};
    }
    for (int i = 0; i < map.rank; i++) map.box[i] = extent[map.rank - 1 - i];
    return map;
}

// The blocks of the launch, as emu_tool reads them; one where nothing is said.
static void read_grid(ExprPool *e, const char *text, const Expr **grid)
{
    const char *s = strstr(text, "# grid:");
    if (s) s += strlen("# grid:");
    for (int k = 0; k < 3; k++) {
        char *end = NULL;
        long n = s ? strtol(s, &end, 10) : 0;
        grid[k] = expr_const(e, s && end > s && n > 0 ? n : 1);
        s = end;
    }
}

// One step that launches the kernel.
static PlanStep *make_step(Arena *a, ExprPool *e, const ThreadFn *fn, const char *text)
{
    PlanStep *s = ARENA_NEW(a, PlanStep);
    s->kind = STEP_KERNEL;
    s->kernel = fn->name;
    read_grid(e, text, s->grid);
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
    return s;
}

bool cli_read_thread(const char *path, Arena *a, Diag *d, ThreadModule **module, Plan **plan)
{
    Buf b = {0};
    const char *why = file_read(path, &b, MAX_TEXT);
    if (why) diag_error(d, (Loc){0}, NULL, "cannot read %s: %s", path, why);
    size_t n = b.n;
    const char *text = arena_strndup(a, b.s ? b.s : "", n);
    buf_free(&b);
    if (why) return false;
    u16 file = diag_add_file(d, path, text, n);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    ThreadModule *m = *module = thread_read(a, e, d, file, text, n);
    if (!m || diag_errors(d)) return false;
    if (strncmp(text, "//@ ", 4) == 0 || strstr(text, "\n//@ ")) {
        *plan = plan_read(a, e, d, file, "//@ ", text, n);
        return *plan && !diag_errors(d);
    }
    Plan *p = *plan = ARENA_NEW(a, Plan);
    p->name = m->fns.n ? m->fns.at[0]->name : "";
    for (int i = 0; i < m->fns.n; i++) vec_push(a, &p->steps, make_step(a, e, m->fns.at[i], text));
    return true;
}
