// launch.c - a launch plan becomes launches: symbols bound, grids and arguments as numbers, the
// limits of the device checked by name, and the result repeated as often as wanted.
//
// The same code serves the GPU and the emulator; what differs is behind RtDeviceOps. Invariant of
// an RtLaunch: every step in it runs, no grid extent is 0, no limit is exceeded.
#include "rt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// What the device makes of the code, and beside it the module's store of host results.
baton_status rt_load(RtDevice *d, const RtCode *c, RtModule **out, RtTimes *t, RtError *e)
{
    RtTimes ignored = {0};
    *out = NULL;
    RtModule *m = NULL;
    baton_status s = d->ops->load(d, c, &m, t ? t : &ignored, e);
    if (s) return s;
    m->host = rt_host_open();
    if (!m->host) {
        d->ops->unload(m);
        return rt_fail(e, BATON_OUT_OF_MEMORY, "host memory for the module %s", c->name);
    }
    *out = m;
    return BATON_OK;
}

// Results live on the device, so they go before the device's part of the module.
void rt_unload(RtModule *m)
{
    if (!m) return;
    rt_host_close(m->device, m->host);
    m->device->ops->unload(m);
}

baton_status rt_kernel_info(RtModule *m, const char *kernel, RtKernelInfo *out, RtError *e)
{
    RtKernel *k;
    *out = (RtKernelInfo){-1, -1, -1};
    baton_status s = m->device->ops->kernel(m, kernel, &k, e);
    return s ? s : m->device->ops->kernel_info(m, k, out, e);
}

// ---- plan to numbers ----------------------------------------------------------------------------

typedef struct {
    Arena *arena;
    RtModule *module;
    PlanValue *values;     // one per parameter, workspaces included
    RtLaunch *launch;
    RtTimes *times;
    RtError *error;
} Preparation;

// The reasons of plan_* functions are whole sentences already.
static baton_status invalid(Preparation *p, const char *why)
{
    return rt_fail(p->error, BATON_BAD_ARGUMENT, "%s", why);
}

// Bytes of a tensor argument; its extents were checked when the plan was bound.
// Dense, so elements times size.
static size_t tensor_bytes(const Preparation *p, int param)
{
    const PlanValue *v = &p->values[param];
    size_t n = dtype_bytes[v->type];
    for (int i = 0; i < v->rank; i++) n *= (size_t)v->dim[i];
    return n;
}

// A result with extents but no data is an empty tensor; one with neither was not passed.
static baton_status check_results(Preparation *p)
{
    const Plan *plan = p->launch->plan;
    for (int i = 0; i < plan_arguments(plan); i++) {
        const PlanParam *q = &plan->params.at[i];
        const PlanValue *v = &p->values[i];
        if (q->result && !v->data && v->rank == 0)
            return rt_fail(p->error, BATON_BAD_ARGUMENT, "the result %s has no memory", q->name);
    }
    return BATON_OK;
}

// Number `index` of a kernel's arguments, evaluated; a tensor map also against the limits of TMA.
static baton_status prepare_arg(Preparation *p, const PlanStep *s, int index, RtArg *out)
{
    const PlanArg *g = &s->args.at[index];
    const char *why = NULL;
    out->kind = g->kind;
    switch ((PlanArgKind)g->kind) {
    case ARG_TENSOR:
        out->ptr = p->values[g->index].data;
        out->bytes = tensor_bytes(p, g->index);
        break;
    case ARG_FLOAT: out->f32 = (float)p->values[g->index].float_value; break;
    case ARG_VALUE:
        why = plan_eval(p->arena, &p->launch->binding, g->value, &out->value);
        if (why)
            why = arena_printf(p->arena, "argument %d of kernel %s: %s", index, s->kernel, why);
        break;
    case ARG_TMAP: {
        const PlanTensorMap *t = &s->tmaps.at[g->index];
        out->bytes = tensor_bytes(p, t->param);
        why =
            plan_tensor_map(p->arena, &p->launch->binding, t, p->values[t->param].data, &out->tmap);
        break;
    }
    }
    return why ? invalid(p, why) : BATON_OK;
}

// Evaluates the grid. *empty: some extent is 0, so nothing is launched.
// Limits of the device: 2^31 - 1 CTAs in x, 65,535 in y and z; a grid is whole clusters.
static baton_status prepare_grid(Preparation *p, const PlanStep *s, u32 *grid, bool *empty)
{
    static const i64 limit[3] = {INT32_MAX, 65535, 65535};
    *empty = false;
    for (int i = 0; i < 3; i++) {
        i64 v;
        const char *why = plan_eval(p->arena, &p->launch->binding, s->grid[i], &v);
        if (why)
            return rt_fail(p->error, BATON_BAD_ARGUMENT, "grid %c of kernel %s: %s", "xyz"[i],
                           s->kernel, why);
        if (v < 0 || v > limit[i])
            return rt_fail(p->error, BATON_BAD_ARGUMENT,
                           "grid %c of kernel %s is %" PRId64 "; the device allows 0 to %" PRId64,
                           "xyz"[i], s->kernel, v, limit[i]);
        grid[i] = (u32)v;
        if (!v) *empty = true;
    }
    if (!*empty && grid[0] % (u32)s->cluster)
        return rt_fail(p->error, BATON_BAD_ARGUMENT,
                       "grid x of kernel %s is %u, no multiple of its cluster of %d CTAs",
                       s->kernel, grid[0], s->cluster);
    return BATON_OK;
}

// An empty grid is left as it is, without arguments: the caller drops the step.
static baton_status prepare_kernel(Preparation *p, const PlanStep *s, RtKernelLaunch *k)
{
    RtDevice *d = p->module->device;
    *k = (RtKernelLaunch){.module = p->module, .name = s->kernel, .block = s->block,
                          .cluster = s->cluster, .smem_bytes = s->smem_bytes,
                          .nargs = s->args.n};
    bool empty;
    baton_status status = prepare_grid(p, s, k->grid, &empty);
    if (status || empty) return status;
    if (s->smem_bytes > d->prop[PROP_SMEM_MAX])
        return rt_fail(p->error, BATON_BAD_ARGUMENT,
                       "kernel %s needs %" PRId64 " bytes of shared memory; %s has %" PRId64,
                       s->kernel, s->smem_bytes, d->name, d->prop[PROP_SMEM_MAX]);
    RtArg *args = ARENA_ARRAY(p->arena, RtArg, k->nargs + 1);
    k->args = args;
    for (int i = 0; i < k->nargs && !status; i++) status = prepare_arg(p, s, i, &args[i]);
    if (!status) status = d->ops->kernel(p->module, s->kernel, &k->kernel, p->error);
    if (!status) status = d->ops->pack(d, p->arena, k, p->error);
    return status;
}

// The numbers of a host step, and what the function makes of them.
// Plan and function state the workspace's type and extents independently; a difference means that
// they belong to different versions, and the kernel would read past the end.
static baton_status size_host_step(Preparation *p, const PlanStep *s, const OpsHostFunction *f,
                                   i64 *args, OpsHostSize *size)
{
    const char *name = p->launch->plan->params.at[s->param].name, *why = NULL;
    PlanValue *v = &p->values[s->param];
    if (s->host_args.n != f->nargs)
        return rt_fail(p->error, BATON_BAD_FILE, "%s takes %d arguments, the plan gives %d",
                       f->name, f->nargs, s->host_args.n);
    for (int i = 0; i < f->nargs && !why; i++)
        why = plan_eval(p->arena, &p->launch->binding, s->host_args.at[i], &args[i]);
    if (!why) why = f->size(args, size);
    if (why) return rt_fail(p->error, BATON_BAD_ARGUMENT, "%s: %s", f->name, why);
    why = plan_workspace(p->arena, &p->launch->binding, s->param, v);
    if (why) return invalid(p, why);
    bool same = v->rank == f->rank && v->type == f->type;
    for (int i = 0; i < f->rank && same; i++) same = v->dim[i] == size->dim[i];
    if (same) return BATON_OK;
    return rt_fail(p->error, BATON_BAD_FILE,
                   "%s makes %" PRId64 " x %" PRId64 " elements; the plan gives the workspace %s "
                   "%" PRId64 " x %" PRId64,
                   f->name, size->dim[0], f->rank > 1 ? size->dim[1] : 1, name, v->dim[0],
                   v->rank > 1 ? v->dim[1] : 1);
}

// Fills the workspace of a host step, and gives it its address.
// The launch holds the result until rt_release, so that the memory cannot go while it is in use.
static baton_status prepare_host(Preparation *p, const PlanStep *s)
{
    RtLaunch *l = p->launch;
    const OpsHostFunction *f = ops_host_find(s->function);
    i64 args[OPS_HOST_MAX_ARGS];
    OpsHostSize size;
    if (!f)
        return rt_fail(p->error, BATON_BAD_FILE, "there is no host function %s", s->function);
    baton_status status = size_host_step(p, s, f, args, &size);
    RtHostResult *r = NULL;
    if (!status) status = rt_host_result(p->module, f, args, &size, &r, p->times, p->error);
    if (status) return status;
    l->results[l->nresults++] = r;
    p->values[s->param].data = rt_host_address(r);
    return BATON_OK;
}

// Before all other steps: kernels' arguments are addresses, which must be known then.
static baton_status prepare_workspaces(Preparation *p)
{
    const Plan *plan = p->launch->plan;
    baton_status s = BATON_OK;
    p->launch->results = ARENA_ARRAY(p->arena, RtHostResult *, plan->steps.n + 1);
    for (int i = 0; i < plan->steps.n && !s; i++)
        if (plan->steps.at[i]->kind == STEP_HOST) s = prepare_host(p, plan->steps.at[i]);
    return s;
}

// Adds the step to the launch unless it is switched off or has no work.
static baton_status prepare_step(Preparation *p, const PlanStep *s)
{
    RtLaunch *l = p->launch;
    // Done by prepare_workspaces.
    if (s->kind == STEP_HOST) return BATON_OK;
    i64 when = 1;
    const char *why = s->when ? plan_eval(p->arena, &l->binding, s->when, &when) : NULL;
    if (why) return rt_fail(p->error, BATON_BAD_ARGUMENT, "the condition of a step: %s", why);
    if (!when) return BATON_OK;
    // Counted only when it turns out to have work.
    struct RtStep *step = &l->steps[l->nsteps];
    step->kind = s->kind;
    if (s->kind == STEP_MEMSET) {
        step->ptr = p->values[s->param].data;
        step->byte = s->byte;
        step->bytes = tensor_bytes(p, s->param);
        l->nsteps += step->bytes != 0;
        return BATON_OK;
    }
    baton_status status = prepare_kernel(p, s, &step->kernel);
    bool empty = !step->kernel.grid[0] || !step->kernel.grid[1] || !step->kernel.grid[2];
    l->nsteps += !status && !empty;
    return status;
}

// `values` is copied, so that workspaces can be put behind the caller's parameters.
baton_status rt_prepare(Arena *a, RtModule *m, const Plan *plan, const PlanValue *values,
                        RtLaunch **out, RtTimes *t, RtError *e)
{
    double start = rt_now_ms();
    RtLaunch *l = ARENA_NEW(a, RtLaunch);
    RtTimes ignored = {0};
    Preparation p = {a, m, NULL, l, t ? t : &ignored, e};
    *out = NULL;
    p.times->host = p.times->upload = 0;
    p.values = ARENA_ARRAY(a, PlanValue, plan->params.n + 1);
    memcpy(p.values, values, (size_t)plan_arguments(plan) * sizeof *values);
    l->module = m;
    l->plan = plan;
    l->steps = ARENA_ARRAY(a, struct RtStep, plan->steps.n + 1);
    const char *why = plan_bind(a, plan, values, m->device->prop, &l->binding);
    if (why) return invalid(&p, why);
    baton_status s = check_results(&p);
    if (!s) s = prepare_workspaces(&p);
    for (int i = 0; i < plan->steps.n && !s; i++) s = prepare_step(&p, plan->steps.at[i]);
    if (t) t->prepare = rt_now_ms() - start;
    if (!s)
        *out = l;
    else
        rt_release(l);
    return s;
}

void rt_release(RtLaunch *l)
{
    for (int i = 0; l && i < l->nresults; i++) rt_host_release(l->module, l->results[i]);
    if (l) l->nresults = 0;
}

// ---- launching ----------------------------------------------------------------------------------

// A failing step ends the launch; the steps before it stay in the stream.
baton_status rt_launch(const RtLaunch *l, void *stream, RtError *e)
{
    RtDevice *d = l->module->device;
    for (int i = 0; i < l->nsteps; i++) {
        const struct RtStep *step = &l->steps[i];
        baton_status s = step->kind == STEP_MEMSET
                             ? d->ops->fill(d, step->ptr, step->byte, step->bytes, stream, e)
                             : d->ops->launch(d, &step->kernel, stream, e);
        if (s) return s;
    }
    return BATON_OK;
}

enum { BATCH = 64 }; // launches between two waits: the marks of a batch are used again

// One batch: all launches are in the stream before the first wait, so that the host's own time does
// not show. Writes n times.
static baton_status time_batch(const RtLaunch *l, void *stream, void **marks, int n, double *ms,
                               RtError *e)
{
    RtDevice *d = l->module->device;
    baton_status s = BATON_OK;
    for (int i = 0; i < n && !s; i++) {
        s = d->ops->mark(d, marks[2 * i], stream, e);
        if (!s) s = rt_launch(l, stream, e);
        if (!s) s = d->ops->mark(d, marks[2 * i + 1], stream, e);
    }
    for (int i = 0; i < n && !s; i++)
        s = d->ops->mark_ms(d, marks[2 * i], marks[2 * i + 1], &ms[i], e);
    return s;
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

// The median of an even number is the mean of the middle two.
baton_status rt_time(const RtLaunch *l, void *stream, int warmup, int runs, RtTiming *out,
                     RtError *e)
{
    RtDevice *d = l->module->device;
    if (runs < 1 || runs > RT_MAX_RUNS || warmup < 0 || warmup > RT_MAX_RUNS)
        return rt_fail(e, BATON_BAD_ARGUMENT,
                       "%d warm-up and %d timed runs; 0 to %d and 1 to %d are "
                       "possible",
                       warmup, runs, RT_MAX_RUNS, RT_MAX_RUNS);
    void *marks[2 * BATCH] = {0};
    int nmarks = 2 * MIN(runs, (int)BATCH);
    Arena *scratch = arena_new(0);
    double *ms = ARENA_ARRAY(scratch, double, runs);
    baton_status s = BATON_OK;
    for (int i = 0; i < nmarks && !s; i++) s = d->ops->mark_new(d, &marks[i], e);
    for (int i = 0; i < warmup && !s; i++) s = rt_launch(l, stream, e);
    if (!s) s = d->ops->sync(d, stream, e);
    for (int done = 0; done < runs && !s; done += BATCH)
        s = time_batch(l, stream, marks, MIN((int)BATCH, runs - done), ms + done, e);
    for (int i = 0; i < nmarks; i++) d->ops->mark_free(d, marks[i]);
    if (!s) {
        qsort(ms, (size_t)runs, sizeof *ms, by_value);
        *out = (RtTiming){(ms[(runs - 1) / 2] + ms[runs / 2]) / 2, ms[0], ms[runs - 1], runs};
    }
    arena_free(scratch);
    return s;
}

// For the command line and tests: nothing is left behind.
baton_status rt_run_plan(RtModule *m, const Plan *plan, const PlanValue *values, void *stream,
                         RtTimes *t, RtError *e)
{
    Arena *a = arena_new(0);
    RtLaunch *l = NULL;
    baton_status s = rt_prepare(a, m, plan, values, &l, t, e);
    double start = rt_now_ms();
    if (!s) s = rt_launch(l, stream, e);
    if (t) t->launch = rt_now_ms() - start;
    if (!s) s = m->device->ops->sync(m->device, stream, e);
    rt_release(l);
    arena_free(a);
    return s;
}
