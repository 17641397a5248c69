// host.c - host steps for the compiler: a workspace of a plan together with the step that fills it,
// from the name of a host function and its arguments as expressions.
#include "plan.h"

#include <string.h>

// "causal_tasks, other_function": what could have been meant.
static const char *known_functions(Arena *a)
{
    const char *all = ops_host_name(0);
    for (int i = 1; ops_host_name(i); i++) all = arena_printf(a, "%s, %s", all, ops_host_name(i));
    return all;
}

// A host step takes place before all kernels, so it stands before all other steps.
static void insert_first(Arena *a, Plan *p, PlanStep *s)
{
    vec_push(a, &p->steps, s);
    memmove(p->steps.at + 1, p->steps.at, (size_t)(p->steps.n - 1) * sizeof *p->steps.at);
    p->steps.at[0] = s;
}

int plan_bounds(ExprPool *e, const Plan *p, int param, OpsHostBound *out)
{
    for (int i = 0; i < p->steps.n; i++) {
        const PlanStep *s = p->steps.at[i];
        const OpsHostFunction *f = s->kind == STEP_HOST && s->param == param
                                       ? ops_host_find(s->function) : NULL;
        if (f && f->bounds && s->host_args.n == f->nargs) return f->bounds(e, s->host_args.at, out);
    }
    return 0;
}

int plan_add_workspace(Arena *a, ExprPool *e, Diag *d, Plan *p, const char *name,
                       const char *function, const Expr *const *args, int nargs, Loc loc)
{
    const OpsHostFunction *f = ops_host_find(function);
    if (!f) {
        diag_error(d, loc, arena_printf(a, "there is: %s", known_functions(a)),
                   "there is no host function %s", function);
        return -1;
    }
    if (nargs != f->nargs) {
        diag_error(d, loc, arena_printf(a, "%s(%s)", f->name, f->args),
                   "%d argument%s for the host function %s, which takes %d", nargs,
                   nargs == 1 ? "" : "s", f->name, f->nargs);
        return -1;
    }
    // Workspaces are as aligned as tensors of the caller must be, so kernels may treat both alike.
    PlanParam q = {.name = intern(expr_pool_names(e), name), .kind = PLAN_WORKSPACE,
                   .type = f->type, .in = true, .rank = f->rank, .align = 16, .loc = loc};
    f->extents(e, args, q.dim);
    PlanStep *s = ARENA_NEW(a, PlanStep);
    s->kind = STEP_HOST;
    s->function = f->name;
    s->param = p->params.n;
    for (int i = 0; i < nargs; i++) vec_push(a, &s->host_args, args[i]);
    vec_push(a, &p->params, q);
    insert_first(a, p, s);
    return s->param;
}
