// emulator.c - the runtime's device record for the emulator: the same plans run on host memory,
// from the thread IR instead of PTX. Launches have finished when they return; hazards are collected
// as reports, which the caller asks for.
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    RtDevice base;
    RtEmulatorOptions options;  // of the launches to come
    Arena *reports_arena;       // reports and the vector; replaced by rt_emulator_set
    VEC(EmuReport *) reports;
} EmulatorDevice;

typedef struct {
    RtModule base;
    const ThreadModule *thread; // the program; owned by who loaded it
} EmulatorModule;

// A mark is the time at which the stream, which is never behind, passed it.
typedef struct {
    double ms;
} Mark;

// Small structs only; running out of memory for those ends the process.
static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) BUG("out of memory asking for %zu bytes", bytes);
    return p;
}

// Nothing to compile: the thread IR is interpreted, kernels are found by name.
static baton_status emulator_load(RtDevice *d, const RtCode *c, RtModule **out, RtTimes *t,
                                  RtError *e)
{
    (void)t;
    if (!c->thread)
        return rt_fail(e, BATON_UNSUPPORTED,
                       "%s has no thread IR; the emulator cannot run PTX or machine code", c->name);
    EmulatorModule *m = allocate(sizeof *m);
    m->base = (RtModule){.device = d, .log = ""};
    m->thread = c->thread;
    *out = &m->base;
    return BATON_OK;
}

static void emulator_unload(RtModule *m) { free(m); }

static baton_status emulator_kernel(RtModule *m, const char *name, RtKernel **out, RtError *e)
{
    const ThreadModule *t = ((EmulatorModule *)m)->thread;
    for (int i = 0; i < t->fns.n; i++) {
        if (strcmp(t->fns.at[i]->name, name) != 0) continue;
        *out = (RtKernel *)t->fns.at[i];
        return BATON_OK;
    }
    return rt_fail(e, BATON_BAD_FILE, "the thread IR has no kernel %s", name);
}

static baton_status emulator_kernel_info(RtModule *m, RtKernel *k, RtKernelInfo *out, RtError *e)
{
    (void)m, (void)k, (void)e;
    *out = (RtKernelInfo){-1, -1, -1};
    return BATON_OK;
}

// ---- memory -------------------------------------------------------------------------------------

// Aligned to 256 bytes like the driver's memory: plans rely on it.
static baton_status emulator_alloc(RtDevice *d, size_t bytes, void **out, RtError *e)
{
    *out = NULL;
    if (bytes <= SIZE_MAX - 512)
        *out = aligned_alloc(256, (MAX(bytes, (size_t)1) + 255) & ~(size_t)255);
    return *out
               ? BATON_OK
               : rt_fail(e, BATON_OUT_OF_MEMORY, "allocating %zu bytes for the %s", bytes, d->name);
}

static void emulator_release(RtDevice *d, void *p)
{
    (void)d;
    free(p);
}

static baton_status emulator_copy(RtDevice *d, void *to, const void *from, size_t bytes, RtError *e)
{
    (void)d, (void)e;
    if (bytes) memcpy(to, from, bytes);
    return BATON_OK;
}

static baton_status emulator_fill(RtDevice *d, void *to, u8 byte, size_t bytes, void *stream,
                                  RtError *e)
{
    (void)d, (void)stream, (void)e;
    if (bytes) memset(to, byte, bytes);
    return BATON_OK;
}

// Launches have ended when they return, so every stream is the same.
static baton_status emulator_stream_new(RtDevice *d, void **out, RtError *e)
{
    (void)d, (void)e;
    *out = NULL;
    return BATON_OK;
}

static void emulator_stream_free(RtDevice *d, void *stream) { (void)d, (void)stream; }

// ---- launches -----------------------------------------------------------------------------------

// The plan's argument as the emulator takes it, by the kernel's parameter.
static baton_status convert_arg(const ThreadParam *q, const RtArg *a, const char *kernel,
                                EmuArg *out, RtError *e)
{
    static const u8 wants[] = {
        [PARAM_PTR] = ARG_TENSOR, [PARAM_S32] = ARG_VALUE,  [PARAM_S64] = ARG_VALUE,
        [PARAM_F32] = ARG_FLOAT,  [PARAM_TMAP] = ARG_TMAP,
    };
    if (wants[q->kind] != a->kind)
        return rt_fail(e, BATON_BAD_FILE,
                       "parameter %s of kernel %s and the plan's argument differ", q->name, kernel);
    if (q->kind == PARAM_S32 && a->value != (i32)a->value)
        return rt_fail(e, BATON_BAD_ARGUMENT,
                       "argument %s of kernel %s is %lld, which 32 bits cannot hold", q->name,
                       kernel, (long long)a->value);
    *out = (EmuArg){.kind = q->kind};
    switch ((ParamKind)q->kind) {
    case PARAM_PTR:
        out->ptr = a->ptr;
        out->bytes = a->bytes;
        break;
    case PARAM_S32:
    case PARAM_S64: out->value = a->value; break;
    case PARAM_F32: out->f32 = a->f32; break;
    case PARAM_TMAP:
        out->tmap = a->tmap;
        out->tmap_bytes = a->bytes;
        break;
    }
    return BATON_OK;
}

// Holds the plan against the kernel, as the driver's account of parameters does on a GPU.
static baton_status emulator_pack(RtDevice *d, Arena *a, RtKernelLaunch *k, RtError *e)
{
    (void)d;
    const ThreadFn *fn = (const ThreadFn *)k->kernel;
    if (fn->params.n != k->nargs)
        return rt_fail(e, BATON_BAD_FILE, "kernel %s has %d parameters, the plan gives %d", k->name,
                       fn->params.n, k->nargs);
    if (fn->threads != k->block)
        return rt_fail(e, BATON_BAD_FILE, "kernel %s is made for %d threads, the plan launches %d",
                       k->name, fn->threads, k->block);
    EmuArg *args = ARENA_ARRAY(a, EmuArg, k->nargs + 1);
    k->packed = args;
    for (int i = 0; i < k->nargs; i++) {
        baton_status s = convert_arg(&fn->params.at[i], &k->args[i], k->name, &args[i], e);
        if (s) return s;
    }
    return BATON_OK;
}

// Hazards do not fail the launch: results stay comparable, and the caller asks for the reports.
static baton_status emulator_launch(RtDevice *device, const RtKernelLaunch *k, void *stream,
                                    RtError *e)
{
    (void)stream, (void)e;
    EmulatorDevice *d = (EmulatorDevice *)device;
    const RtEmulatorOptions *o = &d->options;
    Buf printed = {0};
    EmuLaunch l = {
        .fn = (const ThreadFn *)k->kernel,
        .mod = ((const EmulatorModule *)k->module)->thread,
        .grid = {k->grid[0], k->grid[1], k->grid[2]},
        .args = k->packed,
        .schedule = o->schedule,
        .seed = o->seed,
        .hazards = o->hazards,
        .step_limit = o->step_limit,
        .progress = o->progress,
        .progress_ctx = o->progress_ctx,
        .printed = o->printed ? o->printed : &printed,
        .history = o->history,
        .fault = o->fault,
        .observer = o->observer,
        .number = d->reports.n,
    };
    EmuReport *r = emu_run(d->reports_arena, &l);
    if (printed.n) fwrite(printed.s, 1, printed.n, stdout);
    buf_free(&printed);
    vec_push(d->reports_arena, &d->reports, r);
    return BATON_OK;
}

static baton_status emulator_sync(RtDevice *d, void *stream, RtError *e)
{
    (void)d, (void)stream, (void)e;
    return BATON_OK;
}

// ---- time ---------------------------------------------------------------------------------------

static baton_status emulator_mark_new(RtDevice *d, void **out, RtError *e)
{
    (void)d, (void)e;
    *out = allocate(sizeof(Mark));
    return BATON_OK;
}

static baton_status emulator_mark(RtDevice *d, void *mark, void *stream, RtError *e)
{
    (void)d, (void)stream, (void)e;
    ((Mark *)mark)->ms = rt_now_ms();
    return BATON_OK;
}

// The emulator's own time, which says nothing about a GPU.
static baton_status emulator_mark_ms(RtDevice *d, void *from, void *to, double *ms, RtError *e)
{
    (void)d, (void)e;
    *ms = ((Mark *)to)->ms - ((Mark *)from)->ms;
    return BATON_OK;
}

static void emulator_mark_free(RtDevice *d, void *mark)
{
    (void)d;
    free(mark);
}

static baton_status emulator_passed(RtDevice *d, void *mark, bool *out, RtError *e)
{
    (void)d, (void)mark, (void)e;
    *out = true;
    return BATON_OK;
}

static baton_status emulator_copy_inside(RtDevice *d, void *to, const void *from, size_t bytes,
                                         void *stream, RtError *e)
{
    (void)stream;
    return emulator_copy(d, to, from, bytes, e);
}

static baton_status no_graphs(RtError *e)
{
    return rt_fail(e, BATON_UNSUPPORTED, "the emulator has no graphs");
}

static baton_status emulator_graph_begin(RtDevice *d, void *stream, RtError *e)
{
    (void)d, (void)stream;
    return no_graphs(e);
}

static baton_status emulator_graph_end(RtDevice *d, void *stream, void **graph, RtError *e)
{
    (void)d, (void)stream;
    *graph = NULL;
    return no_graphs(e);
}

static baton_status emulator_graph_launch(RtDevice *d, void *graph, void *stream, RtError *e)
{
    (void)d, (void)graph, (void)stream;
    return no_graphs(e);
}

static void emulator_graph_free(RtDevice *d, void *graph) { (void)d, (void)graph; }

// ---- opening ------------------------------------------------------------------------------------

static void emulator_close(RtDevice *device)
{
    arena_free(((EmulatorDevice *)device)->reports_arena);
    free(device);
}

static const RtDeviceOps emulator_ops = {
    .kind = "emulator", .host_memory = true,
    .load = emulator_load, .unload = emulator_unload,
    .kernel = emulator_kernel, .kernel_info = emulator_kernel_info,
    .alloc = emulator_alloc, .release = emulator_release,
    .copy_in = emulator_copy, .copy_out = emulator_copy, .fill = emulator_fill,
    .stream_new = emulator_stream_new, .stream_free = emulator_stream_free,
    .pack = emulator_pack, .launch = emulator_launch, .sync = emulator_sync,
    .mark_new = emulator_mark_new, .mark = emulator_mark, .mark_ms = emulator_mark_ms,
    .mark_free = emulator_mark_free, .queues = false, .copy = emulator_copy_inside,
    .passed = emulator_passed, .graph_begin = emulator_graph_begin,
    .graph_end = emulator_graph_end, .graph_launch = emulator_graph_launch,
    .graph_free = emulator_graph_free, .close = emulator_close,
};

// Plans that size a persistent grid by the number of multiprocessors get the grid of a real card.
baton_status rt_emulator_open(const RtEmulatorOptions *o, RtDevice **out, RtError *e)
{
    (void)e;
    EmulatorDevice *d = allocate(sizeof *d);
    d->base.ops = &emulator_ops;
    snprintf(d->base.name, sizeof d->base.name, "emulator");
    // The emulated card is an H200.
    d->base.major = 9;
    d->base.prop[PROP_SMEM_MAX] = 227 * 1024;
    d->base.l2_bytes = -1;
    rt_emulator_set(&d->base, o);
    *out = &d->base;
    return BATON_OK;
}

void rt_emulator_set(RtDevice *device, const RtEmulatorOptions *o)
{
    EmulatorDevice *d = (EmulatorDevice *)device;
    arena_free(d->reports_arena);
    d->reports_arena = arena_new(0);
    memset(&d->reports, 0, sizeof d->reports);
    d->options = *o;
    d->base.prop[PROP_SM_COUNT] = o->sms ? o->sms : 132;
}

EmuReport *const *rt_emulator_reports(const RtDevice *device, int *n)
{
    const EmulatorDevice *d = (const EmulatorDevice *)device;
    *n = d->reports.n;
    return d->reports.at;
}
