// trace_gpu.c - records of one CTA from a device, by a copy of the kernel with clock reads, and
// what these cost in time.
//
// Works on every device record: on the emulator, where a clock read gives steps and times mean
// nothing, it is how the tests see that both sources tell the same.
#include "../emit/ptx.h"
#include "../thread/check.h"
#include "../trace/instrument.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECORDS = 1 << 16,     // for each warp, 8 bytes each
    TURNS = 3,             // the plain kernel and the other take turns at the device
    WARMUP = 5, RUNS = 30, // launches of one turn
};

// The program with clock reads beside the job's own.
typedef struct {
    Job *r;
    const TraceWanted *q;
    TraceProgram program;
    Buf ptx;
    i64 records;           // of the buffer
    void *buffer;          // on the device
    RtModule *module;
    RtLaunch *launch;
} Traced;

static int fail(Traced *t, const RtError *e, const char *doing)
{
    return job_device_error(t->r, e, doing);
}

// ---- the program --------------------------------------------------------------------------------

static bool make_program(Traced *t)
{
    Job *r = t->r;
    const ThreadModule *m = r->code.thread;
    const RtKernelLaunch *k = &r->launch->steps[t->q->step].kernel;
    const ThreadFn *fn = NULL;
    for (int i = 0; i < m->fns.n; i++)
        if (strcmp(m->fns.at[i]->name, k->name) == 0) fn = m->fns.at[i];
    if (!fn) BUG("the plan launches %s, which the module lacks", k->name);
    if (r->code.cubin) {
        diag_error(r->diag, (Loc){0}, "--device=emu shows it in steps",
                   "the handoffs of %s are right in the machine code that was audited, and clock "
                   "reads would change it", k->name);
        return false;
    }
    trace_instrument(m, r->plan, fn, &t->program);
    if (!thread_check(t->program.thread, r->diag) ||
        !plan_check(t->program.plan, t->program.thread, r->diag)) {
        cli_flush(r->diag);
        BUG("the program with clock reads breaks the rules");
    }
    if (!ptx_print(t->program.thread, t->program.plan, r->diag, &t->ptx)) return false;
    buf_putc(&t->ptx, '\0'); // ends the text for the driver
    return true;
}

// The assembler's word is in the log; code that it found in its cache has none.
static void warn(const Traced *t)
{
    RtKernelInfo info;
    RtError e = {0};
    const RtKernelLaunch *k = &t->launch->steps[t->q->step].kernel;
    if (strstr(t->module->log, "serialized"))
        diag_warning(t->r->diag, (Loc){0}, NULL,
                     "with clock reads the assembler serialised the products of %s: the times show "
                     "waits that the kernel does not have", k->name);
    if (t->r->device->ops->kernel_info(t->module, k->kernel, &info, &e) == BATON_OK &&
        info.local_bytes > 0)
        diag_warning(t->r->diag, (Loc){0}, NULL,
                     "with clock reads each thread of %s spills %d bytes to memory", k->name,
                     info.local_bytes);
}

// Loads it and binds the job's arrays, the buffer and the CTA.
static int prepare(Traced *t)
{
    Job *r = t->r;
    RtError e = {0};
    const Plan *p = t->program.plan;
    const u32 *grid = r->launch->steps[t->q->step].kernel.grid;
    const i64 *at = t->q->cta;
    RtCode code = {.name = r->path, .ptx = t->ptx.s, .ptx_bytes = t->ptx.n - 1,
                   .thread = t->program.thread};
    t->records = (i64)RECORDS * t->program.warps;
    if (r->device->ops->alloc(r->device, (size_t)t->records * TRACE_WORDS * sizeof(u32),
                              &t->buffer, &e) != BATON_OK)
        return fail(t, &e, "memory for records");
    if (rt_load(r->device, &code, &t->module, NULL, &e) != BATON_OK) return fail(t, &e, "loading");
    PlanValue *values = ARENA_ARRAY(r->arena, PlanValue, plan_arguments(p));
    for (int i = 0; i < r->narrays; i++) values[i] = r->array[i].value;
    i64 cta = at[0] + (i64)grid[0] * (at[1] + (i64)grid[1] * at[2]);
    values[t->program.buffer] = (PlanValue){.data = t->buffer, .type = DT_U32, .rank = 2,
                                            .dim = {t->records, TRACE_WORDS}};
    values[t->program.cta] = (PlanValue){.type = DT_S32, .int_value = cta,
                                         .float_value = (double)cta};
    if (rt_prepare(r->arena, t->module, p, values, &t->launch, NULL, &e) != BATON_OK)
        return fail(t, &e, "preparing the launch");
    warn(t);
    return EXIT_RIGHT;
}

// ---- launches -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Medians of the same turn are compared, so that a clock that drifts falls on both.
static int measure(Traced *t, double *slowdown)
{
    double ratio[TURNS];
    RtError e = {0};
    for (int i = 0; i < TURNS; i++) {
        RtTiming plain, traced;
        if (rt_time(t->r->launch, NULL, WARMUP, RUNS, &plain, &e) != BATON_OK ||
            rt_time(t->launch, NULL, WARMUP, RUNS, &traced, &e) != BATON_OK)
            return fail(t, &e, "timing");
        ratio[i] = plain.median_ms > 0 ? traced.median_ms / plain.median_ms : 0;
    }
    qsort(ratio, TURNS, sizeof *ratio, by_value);
    *slowdown = ratio[TURNS / 2];
    return EXIT_RIGHT;
}

// May the kernel run twice on the same arrays with the same results?
static bool is_repeatable(const Job *r)
{
    for (int i = 0; i < r->narrays; i++)
        if (r->array[i].param->in && r->array[i].param->out) return false;
    return true;
}

// The steps up to the wanted one, so that no later launch of the same kernel writes over it; on a
// GPU behind a launch that brings code and arrays near, where that changes no result.
static int launch_traced(Traced *t)
{
    Job *r = t->r;
    const RtDeviceOps *ops = r->device->ops;
    size_t bytes = (size_t)t->records * TRACE_WORDS * sizeof(u32);
    bool warm = !job_on_emulator(r) && is_repeatable(r);
    RtError e = {0};
    RtLaunch upto = *t->launch;
    upto.nsteps = t->q->step + 1;
    int status = job_copy_in(r);
    if (status != EXIT_RIGHT) return status;
    if ((warm && rt_launch(t->launch, NULL, &e)) ||
        ops->fill(r->device, t->buffer, 0, bytes, NULL, &e) || rt_launch(&upto, NULL, &e) ||
        ops->sync(r->device, NULL, &e))
        return fail(t, &e, "running with clock reads");
    return EXIT_RIGHT;
}

static int decode(Traced *t, TraceLog *log)
{
    Job *r = t->r;
    RtError e = {0};
    size_t bytes = (size_t)t->records * TRACE_WORDS * sizeof(u32);
    u32 *words = arena_alloc(r->arena, bytes);
    if (r->device->ops->copy_out(r->device, words, t->buffer, bytes, &e) != BATON_OK)
        return fail(t, &e, "fetching the records");
    const char *why = trace_decode(&t->program, words, t->records, log);
    if (!why) return EXIT_RIGHT;
    diag_error(r->diag, (Loc){0}, NULL, "the records of the kernel make no sense: %s", why);
    return EXIT_DEVICE;
}

int trace_on_gpu(Job *r, const TraceWanted *q, TraceLog *log)
{
    Traced t = {.r = r, .q = q};
    int status = make_program(&t) ? prepare(&t) : EXIT_INPUT;
    if (status == EXIT_RIGHT && !job_on_emulator(r)) status = measure(&t, &log->slowdown);
    if (status == EXIT_RIGHT) status = launch_traced(&t);
    if (status == EXIT_RIGHT) status = decode(&t, log);
    memcpy(log->cta, q->cta, sizeof log->cta);
    log->device = r->device->name;
    log->note = arena_printf(r->arena, "clock reads by lane 0 of each warp at %d points",
                             t.program.points.n);
    if (t.module) {
        rt_release(t.launch);
        rt_unload(t.module);
    }
    if (t.buffer) r->device->ops->release(r->device, t.buffer);
    buf_free(&t.ptx);
    return status;
}
