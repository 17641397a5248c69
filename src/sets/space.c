// space.c - the unknowns of a kernel and the expressions over them (space.h).
#include "space.h"

#include <string.h>

static const i64 MOST_SIZE = INT32_MAX;

// ---- unknowns -----------------------------------------------------------------------------------

static Unknown *add_unknown(Space *s, UnknownKind kind, const char *name, const char *shown, i64 lo,
                            i64 hi)
{
    Unknown *u = ARENA_NEW(s->arena, Unknown);
    expr_set_range(s->pool, name, lo, hi);
    *u = (Unknown){.var = expr_var(s->pool, name), .kind = (u8)kind, .shown = shown, .buffer = -1};
    map_put(s->by_name, u->var->name, u);
    vec_push(s->arena, &s->unknowns, u);
    return u;
}

// The name in the pool is one that no program can write.
Unknown *space_fresh(Space *s, UnknownKind kind, const char *shown, i64 lo, i64 hi)
{
    const char *name = intern_printf(s->names, "%s#%d", shown, s->fresh++);
    return add_unknown(s, kind, name, shown, lo, hi);
}

void space_fact(Space *s, Unknown *u, const Expr *cond)
{
    i64 v;
    if (expr_is_const(cond, &v) && v) return;
    vec_push(s->arena, &u->facts, cond);
}

Unknown *space_find(const Space *s, const Expr *var) { return map_get(s->by_name, var->name); }

void space_collect(Space *s, const Expr *e, UnknownList *out)
{
    if (e->op == EX_CONST) return;
    if (e->op == EX_VAR) {
        Unknown *u = space_find(s, e);
        for (int i = 0; i < out->n; i++)
            if (out->at[i] == u) return;
        if (u) vec_push(s->arena, out, u);
        return;
    }
    space_collect(s, e->a, out);
    space_collect(s, e->b, out);
    if (e->c) space_collect(s, e->c, out);
}

bool space_uses(Space *s, const Expr *e, UnknownKind kind)
{
    UnknownList in = {0};
    space_collect(s, e, &in);
    for (int i = 0; i < in.n; i++)
        if (in.at[i]->kind == kind) return true;
    return false;
}

const Expr *space_put(Space *s, const Expr *e, const Expr *what, const Expr *by)
{
    if (e == what) return by;
    if (e->op == EX_CONST || e->op == EX_VAR) return e;
    const Expr *a = space_put(s, e->a, what, by), *b = space_put(s, e->b, what, by);
    if (e->c) return expr_select(s->pool, a, b, space_put(s, e->c, what, by));
    if (a == e->a && b == e->b) return e;
    return expr_bin(s->pool, e->op, a, b);
}

// ---- conditions ---------------------------------------------------------------------------------

// Pushed inward, so that no comparison stands under a negation.
const Expr *space_not(Space *s, const Expr *c)
{
    ExprPool *p = s->pool;
    switch ((ExprOp)c->op) {
    case EX_CONST: return expr_const(p, !c->value);
    case EX_LT: return expr_bin(p, EX_LE, c->b, c->a);
    case EX_LE: return expr_bin(p, EX_LT, c->b, c->a);
    case EX_EQ: return expr_bin(p, EX_NE, c->a, c->b);
    case EX_NE: return expr_bin(p, EX_EQ, c->a, c->b);
    case EX_LAND: return expr_bin(p, EX_LOR, space_not(s, c->a), space_not(s, c->b));
    case EX_LOR: return expr_bin(p, EX_LAND, space_not(s, c->a), space_not(s, c->b));
    default: return expr_bin(p, EX_EQ, c, expr_const(p, 0));
    }
}

// ---- sizes --------------------------------------------------------------------------------------

const Expr *space_size(Space *s, const Expr *e)
{
    if (e->op == EX_CONST) return expr_const(s->pool, e->value);
    if (e->op == EX_VAR) return map_get(s->globals, intern(s->names, e->name));
    const Expr *a = space_size(s, e->a), *b = space_size(s, e->b), *c = NULL;
    if (e->c && !(c = space_size(s, e->c))) return NULL;
    if (!a || !b) return NULL;
    return e->op == EX_SELECT ? expr_select(s->pool, a, b, c) : expr_bin(s->pool, e->op, a, b);
}

static void add_global(Space *s, const char *name, const Expr *value)
{
    map_put(s->globals, intern(s->names, name), (void *)(uintptr_t)value);
}

static Unknown *add_size(Space *s, const char *name, i64 lo, i64 hi)
{
    const char *kept = intern(s->names, name);
    Unknown *u = add_unknown(s, UNKNOWN_SIZE, kept, kept, lo, hi);
    add_global(s, kept, u->var);
    return u;
}

// Extents are not negative; other scalars may be.
static void add_symbols(Space *s, const Plan *p)
{
    for (int i = 0; i < p->symbols.n; i++) {
        const PlanSymbol *y = &p->symbols.at[i];
        bool extent = y->source == SYM_EXTENT;
        add_size(s, y->name, extent ? 0 : -MOST_SIZE - 1, MOST_SIZE);
    }
    add_size(s, "device.sms", 1, 1 << 16);
    add_size(s, "device.smem_max", 1, 1 << 30);
}

// Does the extent of some buffer name this parameter?
static bool is_extent(const ThreadFn *fn, const char *name)
{
    for (int i = 0; i < fn->buffers.n; i++)
        for (int k = 0; k < fn->buffers.at[i].rank; k++)
            if (expr_uses(fn->buffers.at[i].dim[k], name)) return true;
    return false;
}

// What the plan passes; without a plan each is a size of its own.
static void add_params(Space *s)
{
    const ThreadFn *fn = s->job->fn;
    const PlanStep *step = s->job->step;
    for (int i = 0; i < fn->params.n; i++) {
        const ThreadParam *q = &fn->params.at[i];
        if (q->kind != PARAM_S32 && q->kind != PARAM_S64) continue;
        const Expr *value = NULL;
        if (step && i < step->args.n && step->args.at[i].kind == ARG_VALUE)
            value = space_size(s, step->args.at[i].value);
        if (value) {
            add_global(s, q->name, value);
            continue;
        }
        const char *name = intern(expr_pool_names(s->job->module->exprs), q->name);
        Unknown *u = add_size(s, q->name, is_extent(fn, name) ? 0 : -MOST_SIZE - 1, MOST_SIZE);
        u->loose = true;
    }
}

// A block number is below its extent of the grid, which is a size of its own when no plan gives it.
static void add_blocks(Space *s)
{
    static const char *const block[3] = {"ctaid.x", "ctaid.y", "ctaid.z"};
    static const char *const extent[3] = {"nctaid.x", "nctaid.y", "nctaid.z"};
    const PlanStep *step = s->job->step;
    for (int k = 0; k < 3; k++) {
        const Expr *n = step && step->grid[k] ? space_size(s, step->grid[k]) : NULL;
        s->grid[k] = n;
        if (n)
            add_global(s, extent[k], n);
        else
            add_size(s, extent[k], 1, MOST_SIZE);
        i64 v;
        const char *name = intern(s->names, block[k]);
        n = map_get(s->globals, intern(s->names, extent[k]));
        if (expr_is_const(n, &v) && v == 1) {
            add_global(s, name, expr_const(s->pool, 0));
            continue;
        }
        i64 lo, hi;
        expr_range(s->pool, n, &lo, &hi);
        Unknown *u = add_unknown(s, UNKNOWN_BLOCK, name, name, 0, MIN(hi, MOST_SIZE) - 1);
        space_fact(s, u, expr_bin(s->pool, EX_LT, u->var, n));
        add_global(s, name, u->var);
    }
}

// Plans of kernels in the thread IR may know neither tensors nor extents.
static int valid_tensor(const Space *s, int param)
{
    const Plan *p = s->job->plan;
    return p && param >= 0 && param < p->params.n && p->params.at[param].kind != PLAN_SCALAR ? param
                                                                                             : -1;
}

int space_tensor(const Space *s, int fn_param)
{
    const PlanStep *step = s->job->step;
    if (!step || fn_param < 0 || fn_param >= step->args.n ||
        step->args.at[fn_param].kind != ARG_TENSOR)
        return -1;
    return valid_tensor(s, step->args.at[fn_param].index);
}

int space_map_tensor(const Space *s, const PlanTensorMap *map)
{
    if (!map || !map->rank || !map->dim[0]) return -1;
    return valid_tensor(s, map->param);
}

Space *space_new(const CheckJob *job, Arena *a)
{
    Space *s = ARENA_NEW(a, Space);
    s->job = job;
    s->arena = a;
    s->names = intern_new(a);
    s->pool = expr_pool_new(a, s->names);
    s->by_name = map_new(a);
    s->globals = map_new(a);
    if (job->plan) add_symbols(s, job->plan);
    add_params(s);
    add_blocks(s);
    const char *tid = intern(s->names, "tid");
    add_global(s, tid, add_unknown(s, UNKNOWN_THREAD, tid, tid, 0, job->fn->threads - 1)->var);
    for (int i = 0; job->plan && i < job->plan->checks.n; i++) {
        const Expr *c = space_size(s, job->plan->checks.at[i].cond);
        if (c) vec_push(a, &s->sizes, c);
    }
    const Expr *when = job->step && job->step->when ? space_size(s, job->step->when) : NULL;
    if (when) vec_push(a, &s->sizes, when);
    return s;
}
