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

// ---- the table ----------------------------------------------------------------------------------

static const OpsHostFunction functions[] = {
    {"causal_tasks", 6, "ctas, batches, heads, tiles, fixed cost, together", DT_S32, 2,
     causal_extents, causal_size, causal_fill},
};

const OpsHostFunction *ops_host_find(const char *name)
{
    for (int i = 0; i < COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    return NULL;
}

const char *ops_host_name(int index)
{
    return index >= 0 && index < COUNT(functions) ? functions[index].name : NULL;
}
