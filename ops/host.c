// host.c - the table of host.h: launch-plan functions as thin covers of the operators' own C.
#include "host.h"
#include "schedule.h"

#include <string.h>

// ---- causal_tasks: the list of schedule.h for causal attention with square tiles ----------------

static OpsScheduleJob causal_job(const i64 *args)
{
    return (OpsScheduleJob){.ctas = args[0], .batches = args[1], .heads = args[2],
                            .tiles = args[3], .fixed_cost = args[4], .together = args[5]};
}

static void causal_extents(ExprPool *e, const Expr *const *args, const Expr **dim)
{
    const Expr *tasks = expr_mul(e, expr_mul(e, args[1], args[2]), args[3]);
    dim[0] = expr_add(e, args[0], tasks);
    dim[1] = expr_const(e, OPS_SCHEDULE_ROW);
}

static const char *causal_size(const i64 *args, OpsHostSize *out)
{
    OpsScheduleJob job = causal_job(args);
    OpsScheduleSize size;
    const char *why = ops_schedule_size(&job, &size);
    *out = (OpsHostSize){{size.rows, OPS_SCHEDULE_ROW}, size.list_bytes, size.scratch_bytes};
    return why;
}

static const char *causal_fill(const i64 *args, void *scratch, void *out)
{
    OpsScheduleJob job = causal_job(args);
    return ops_schedule(&job, scratch, out, NULL);
}

// Is a <= b whatever the names in them stand for? False: not seen.
static bool never_more(const Expr *a, const Expr *b)
{
    if (a == b || (a->op == EX_CONST && b->op == EX_CONST && a->value <= b->value)) return true;
    return a->op == EX_MIN && (never_more(a->a, b) || never_more(a->b, b));
}

static int causal_bounds(ExprPool *e, const Expr *const *args, OpsHostBound *out)
{
    const Expr *none = expr_const(e, 0), *one = expr_const(e, 1), *ctas = args[0];
    const Expr *tasks = expr_mul(e, expr_mul(e, args[1], args[2]), args[3]);
    const Expr *rows = expr_add(e, ctas, tasks);
    // Units go to the CTA with the least cost, and all cost something: no CTA stays without one
    // while there are as many. Units of more than one entry may be fewer than the tasks.
    bool single = args[5]->op == EX_CONST && args[5]->value <= 1;
    bool all_work = single && never_more(ctas, tasks);
    const OpsHostBound bounds[] = {
        {0, -1, none, ctas, ctas, rows},                      // first row of the CTA
        {1, 0, none, ctas, all_work ? one : none, tasks},     // how many there are
        {0, -1, ctas, rows, none, NULL},                      // query tile
        {1, -1, ctas, rows, none, NULL},                      // head
        {2, -1, ctas, rows, none, NULL},                      // batch
        {3, 0, ctas, rows, one, one},                         // key tiles: one more than the tile
        {3, -1, ctas, rows, one, args[3]},
    };
    _Static_assert(COUNT(bounds) <= OPS_HOST_MAX_BOUNDS, "room for all");
    memcpy(out, bounds, sizeof bounds);
    return COUNT(bounds);
}

// ---- the table ----------------------------------------------------------------------------------

static const OpsHostFunction functions[] = {
    {"causal_tasks", 6, "ctas, batches, heads, tiles, fixed cost, together", DT_S32, 2,
     causal_extents, causal_size, causal_fill, causal_bounds},
};

const OpsHostFunction *ops_host_find(const char *name)
{
    for (int i = 0; i < COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    return NULL;
}

static bool no_names(void *ctx, const char *name, i64 *value)
{
    (void)ctx, (void)name, (void)value;
    return false;
}

static i64 value_or(const Expr *x, i64 other)
{
    i64 v;
    return x && !expr_eval(x, no_names, NULL, &v) ? v : other;
}

const char *ops_host_check(const OpsHostFunction *f, const i64 *args, const OpsHostSize *size,
                           const void *result)
{
    Arena *a = arena_new(0);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    const Expr *arg[OPS_HOST_MAX_ARGS];
    OpsHostBound bound[OPS_HOST_MAX_BOUNDS];
    const i32 *at = result;
    const char *why = NULL;
    for (int i = 0; i < f->nargs; i++) arg[i] = expr_const(e, args[i]);
    int n = f->bounds && f->type == DT_S32 && f->rank == 2 ? f->bounds(e, arg, bound) : 0;
    for (int i = 0; i < n && !why; i++) {
        const OpsHostBound *b = &bound[i];
        i64 from = value_or(b->from, 0), to = MIN(value_or(b->to, size->dim[0]), size->dim[0]);
        i64 least = value_or(b->least, INT64_MIN), most = value_or(b->most, INT64_MAX);
        for (i64 row = from; row < to && !why; row++) {
            i64 v = at[row * size->dim[1] + b->column];
            if (b->minus >= 0) v -= at[row * size->dim[1] + b->minus];
            if (v < least || v > most) why = "the result breaks a bound that the function states";
        }
    }
    arena_free(a);
    return why;
}

const char *ops_host_name(int index)
{
    return index >= 0 && index < COUNT(functions) ? functions[index].name : NULL;
}
