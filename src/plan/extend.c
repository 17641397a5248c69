// extend.c - parameters that a pass adds to a finished plan. They stand behind those of the caller
// and in front of the workspaces, so everything that names a workspace by its index moves.
#include "plan.h"

#include <string.h>

const char *plan_free_name(const Plan *p, ExprPool *e, const char *wanted)
{
    Intern *names = expr_pool_names(e);
    const char *name = intern(names, wanted);
    for (int k = 0, i = 0; i < p->params.n + p->symbols.n; i++) {
        const char *taken =
            i < p->params.n ? p->params.at[i].name : p->symbols.at[i - p->params.n].name;
        if (strcmp(taken, name) != 0) continue;
        name = intern_printf(names, "%s_%d", wanted, ++k);
        i = -1;
    }
    return name;
}

// Parameters from `at` on have moved one place.
static void move_params(Plan *p, int at)
{
    for (int i = 0; i < p->symbols.n; i++) p->symbols.at[i].param += p->symbols.at[i].param >= at;
    for (int i = 0; i < p->steps.n; i++) {
        PlanStep *s = p->steps.at[i];
        if (s->kind != STEP_KERNEL) s->param += s->param >= at;
        for (int k = 0; k < s->args.n; k++) {
            PlanArg *g = &s->args.at[k];
            if (g->kind == ARG_TENSOR || g->kind == ARG_FLOAT) g->index += g->index >= at;
        }
        for (int k = 0; k < s->tmaps.n; k++) s->tmaps.at[k].param += s->tmaps.at[k].param >= at;
    }
}

int plan_add_argument(Arena *a, ExprPool *e, Plan *p, PlanParam q)
{
    int at = plan_arguments(p), old = p->params.n;
    q.name = plan_free_name(p, e, q.name);
    move_params(p, at);
    vec_push(a, &p->params, q);
    memmove(&p->params.at[at + 1], &p->params.at[at],
            sizeof p->params.at[0] * (size_t)(old - at));
    p->params.at[at] = q;
    if (q.kind == PLAN_SCALAR)
        vec_push(a, &p->symbols,
                 ((PlanSymbol){.name = q.name, .source = SYM_SCALAR, .param = at}));
    return at;
}
