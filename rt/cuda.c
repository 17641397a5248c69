// cuda.c - the runtime's device record for a GPU: memory, launches, marks. Everything goes through
// the table of driver.h; the context is the device's primary one, made current for the length of
// each call, so that any thread may call and the caller's own context survives.
//
// Invariant: the struct does not change after rt_cuda_open, so threads share it without locks.
#include "driver.h"

#include <stdio.h>
#include <string.h>

// RtDevice is the first member, so its address is the device's.
static CudaDevice *cuda(RtDevice *d) { return (CudaDevice *)d; }

baton_status cuda_enter(const CudaDevice *d, RtError *e)
{
    CuResult r = d->driver.context_push(d->context);
    return r ? rt_driver_fail(&d->driver, r, e, "entering the context of %s", d->base.name)
             : BATON_OK;
}

// Pops what cuda_enter pushed; that cannot fail in a way that would matter.
void cuda_leave(const CudaDevice *d)
{
    CuContext c;
    d->driver.context_pop(&c);
}

// ---- memory -------------------------------------------------------------------------------------

// Empty tensors get an address too: the driver refuses to allocate 0 bytes.
static baton_status cuda_alloc(RtDevice *device, size_t bytes, void **out, RtError *e)
{
    CudaDevice *d = cuda(device);
    *out = NULL;
    CuAddress p = 0;
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    CuResult r = d->driver.mem_alloc(&p, MAX(bytes, (size_t)1));
    cuda_leave(d);
    if (r)
        return rt_driver_fail(&d->driver, r, e, "allocating %zu bytes on %s", bytes, device->name);
    *out = (void *)(uintptr_t)p;
    return BATON_OK;
}

// cuMemFree waits for kernels that still run, so memory may be given back early.
static void cuda_release(RtDevice *device, void *p)
{
    CudaDevice *d = cuda(device);
    RtError ignored;
    if (!p || cuda_enter(d, &ignored)) return;
    d->driver.mem_free((CuAddress)(uintptr_t)p);
    cuda_leave(d);
}

// On the default stream. From ordinary memory it may return before the last bytes have arrived on
// the device; the source is free by then.
static baton_status cuda_copy_in(RtDevice *device, void *to, const void *from, size_t bytes,
                                 RtError *e)
{
    CudaDevice *d = cuda(device);
    if (!bytes) return BATON_OK;
    IN_CONTEXT(d, e, d->driver.copy_in((CuAddress)(uintptr_t)to, from, bytes),
               "copying %zu bytes to %s", bytes, device->name);
}

static baton_status cuda_copy_out(RtDevice *device, void *to, const void *from, size_t bytes,
                                  RtError *e)
{
    CudaDevice *d = cuda(device);
    if (!bytes) return BATON_OK;
    IN_CONTEXT(d, e, d->driver.copy_out(to, (CuAddress)(uintptr_t)from, bytes),
               "copying %zu bytes from %s", bytes, device->name);
}

// Asynchronous, in order with the kernels of the stream.
static baton_status cuda_fill(RtDevice *device, void *to, u8 byte, size_t bytes, void *stream,
                              RtError *e)
{
    CudaDevice *d = cuda(device);
    if (!bytes) return BATON_OK;
    IN_CONTEXT(d, e, d->driver.fill((CuAddress)(uintptr_t)to, byte, bytes, stream),
               "filling %zu bytes on %s", bytes, device->name);
}

// ---- kernels and launches -----------------------------------------------------------------------

static baton_status cuda_kernel(RtModule *m, const char *name, RtKernel **out, RtError *e)
{
    CudaDevice *d = cuda(m->device);
    CuFunction f = NULL;
    baton_status s = cuda_enter(d, e); // the driver may load the kernel only now
    if (s) return s;
    CuResult r = d->driver.module_function(&f, ((CudaModule *)m)->module, name);
    cuda_leave(d);
    *out = (RtKernel *)f;
    if (r == CU_ERROR_NOT_FOUND)
        return rt_fail(e, BATON_BAD_FILE, "the machine code has no kernel %s", name);
    return r ? rt_driver_fail(&d->driver, r, e, "looking for the kernel %s", name) : BATON_OK;
}

// Local memory is spills and stack; a kernel of ours should have none.
static baton_status cuda_kernel_info(RtModule *m, RtKernel *k, RtKernelInfo *out, RtError *e)
{
    CudaDevice *d = cuda(m->device);
    CuFunction f = (CuFunction)k;
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    CuResult r = d->driver.function_get(&out->registers, CU_FUNC_REGISTERS, f);
    if (!r) r = d->driver.function_get(&out->local_bytes, CU_FUNC_LOCAL_BYTES, f);
    if (!r) r = d->driver.function_get(&out->static_shared, CU_FUNC_SHARED_BYTES, f);
    cuda_leave(d);
    return r ? rt_driver_fail(&d->driver, r, e, "asking for a kernel's registers") : BATON_OK;
}

// The driver's numbers for element types (rows of DTYPES) and swizzles. Copies move bits, so types
// that the driver does not know travel as others of their size, and tf32 as f32: no rounding.
static const u8 tmap_type[DT_COUNT] = {
    [DT_F32] = 7,  [DT_F16] = 6, [DT_BF16] = 9, [DT_TF32] = 7, [DT_E4M3] = 0, [DT_E5M2] = 0,
    [DT_S32] = 3,  [DT_U32] = 2, [DT_S64] = 5,  [DT_U64] = 4,  [DT_S16] = 1,  [DT_U16] = 1,
    [DT_S8] = 0,   [DT_U8] = 0,  [DT_F64] = 8,  [DT_BOOL] = 0,
};
static const u8 tmap_swizzle[SL_COUNT] = {
    [SL_ROW] = 0, [SL_SWZ32] = 1, [SL_SWZ64] = 2, [SL_SWZ128] = 3,
};

// The limits were checked by name before (target/tma.h): the driver says only "invalid value". L2
// promotion made no difference in measurements: 256 bytes where none was asked for. Elements out of
// bounds are zero.
static baton_status encode_tmap(const CudaDevice *d, const TensorMap *m, const char *kernel,
                                int arg, CuTensorMap *out, RtError *e)
{
    static const u32 ones[TMA_MAX_RANK] = {1, 1, 1, 1, 1};
    u32 promotion = m->promote == 64    ? CU_TMAP_L2_PROMOTION_64B
                    : m->promote == 128 ? CU_TMAP_L2_PROMOTION_128B
                                        : CU_TMAP_L2_PROMOTION_256B;
    // The driver takes the strides from dimension 1 on; that of dimension 0 is the element.
    CuResult r = d->driver.encode_tiled(out, tmap_type[m->type], (u32)m->rank, m->base, m->dim,
                                        m->stride + 1, m->box, ones, CU_TMAP_INTERLEAVE_NONE,
                                        tmap_swizzle[m->swizzle], promotion,
                                        CU_TMAP_FILL_ZERO);
    return r ? rt_driver_fail(&d->driver, r, e, "encoding the tensor map of argument %d of %s", arg,
                              kernel)
             : BATON_OK;
}

// What a launch hands to the driver: one pointer per argument, and the values that they point to.
typedef struct {
    void **params;
} Packed;

// The kernel's own account of its parameters against the arguments, where the driver gives it: a
// plan and machine code that do not belong together would make it read past the values.
// Asking for parameter nargs must fail: there is none. An integer of the plan has 64 bits and may
// be a 32-bit parameter of the kernel when its value fits.
static baton_status check_params(const CudaDevice *d, const RtKernelLaunch *k, RtError *e)
{
    static const u8 size_of_kind[] = {
        [ARG_TENSOR] = 8, [ARG_VALUE] = 8, [ARG_FLOAT] = 4, [ARG_TMAP] = 128,
    };
    if (!d->driver.function_param) return BATON_OK;
    for (int i = 0; i <= k->nargs; i++) {
        size_t offset, bytes;
        bool there = !d->driver.function_param((CuFunction)k->kernel, (size_t)i, &offset, &bytes);
        if (there != (i < k->nargs))
            return rt_fail(e, BATON_BAD_FILE, "kernel %s has %s parameters than the plan's %d",
                           k->name, there ? "more" : "fewer", k->nargs);
        if (!there) break;
        const RtArg *a = &k->args[i];
        bool small = a->kind == ARG_VALUE && bytes == 4;
        if (bytes != size_of_kind[a->kind] && !small)
            return rt_fail(e, BATON_BAD_FILE,
                           "parameter %d of kernel %s has %zu bytes, the plan's argument has %d", i,
                           k->name, bytes, size_of_kind[a->kind]);
        if (small && a->value != (i32)a->value)
            return rt_fail(e, BATON_BAD_ARGUMENT,
                           "argument %d of kernel %s is %lld, which 32 bits cannot hold", i,
                           k->name, (long long)a->value);
    }
    return BATON_OK;
}

// On the host the map needs 64 bytes of alignment, says the driver.
static CuTensorMap *alloc_tmap(Arena *a)
{
    // The arena aligns to 16 bytes only.
    uintptr_t align = _Alignof(CuTensorMap);
    uintptr_t p = (uintptr_t)arena_alloc(a, sizeof(CuTensorMap) + align);
    return (CuTensorMap *)((p + align - 1) & ~(align - 1));
}

// params[i] points at the i-th value, which lives in k->args or in the arena.
static baton_status pack_args(const CudaDevice *d, Arena *a, const RtKernelLaunch *k, Packed *p,
                              RtError *e)
{
    p->params = ARENA_ARRAY(a, void *, k->nargs + 1);
    for (int i = 0; i < k->nargs; i++) {
        const RtArg *g = &k->args[i];
        CuTensorMap *map;
        baton_status s;
        switch ((PlanArgKind)g->kind) {
        case ARG_TENSOR: p->params[i] = (void *)&g->ptr; break;
        // The driver copies as many bytes as the parameter has; little-endian, so the low 32 bits
        // of a 64-bit value are where a 32-bit parameter looks.
        case ARG_VALUE: p->params[i] = (void *)&g->value; break;
        case ARG_FLOAT: p->params[i] = (void *)&g->f32; break;
        case ARG_TMAP:
            map = alloc_tmap(a);
            s = encode_tmap(d, &g->tmap, k->name, i, map, e);
            if (s) return s;
            p->params[i] = map;
            break;
        }
    }
    return BATON_OK;
}

// Everything that can fail for the launch's numbers happens here, so that repeating it is one call
// of the driver. More than 48 KB of dynamic shared memory must be asked for on the function first.
static baton_status cuda_pack(RtDevice *device, Arena *a, RtKernelLaunch *k, RtError *e)
{
    CudaDevice *d = cuda(device);
    Packed *p = ARENA_NEW(a, Packed);
    k->packed = p;
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    s = check_params(d, k, e);
    if (!s) s = pack_args(d, a, k, p, e);
    if (!s && k->smem_bytes) {
        CuResult r = d->driver.function_set((CuFunction)k->kernel, CU_FUNC_MAX_DYNAMIC_SHARED,
                                            (int)k->smem_bytes);
        if (r)
            s = rt_driver_fail(&d->driver, r, e,
                               "asking for %lld bytes of shared memory for kernel %s",
                               (long long)k->smem_bytes, k->name);
    }
    cuda_leave(d);
    return s;
}

// One call, asynchronous. The attribute is passed only when there is a cluster.
static baton_status cuda_launch(RtDevice *device, const RtKernelLaunch *k, void *stream, RtError *e)
{
    CudaDevice *d = cuda(device);
    const Packed *p = k->packed;
    CuLaunchAttribute cluster = {.id = CU_LAUNCH_CLUSTER,
                                 .value.cluster = {(u32)k->cluster, 1, 1}};
    CuLaunchConfig config = {
        .grid = {k->grid[0], k->grid[1], k->grid[2]},
        .block = {(u32)k->block, 1, 1},
        .shared_bytes = (u32)k->smem_bytes,
        .stream = stream,
        .attributes = &cluster,
        .nattributes = k->cluster > 1,
    };
    IN_CONTEXT(
        d, e, d->driver.launch(&config, (CuFunction)k->kernel, p->params, NULL),
        "launching kernel %s with a grid of %u x %u x %u CTAs of %d threads and %lld bytes of "
        "shared memory",
        k->name, k->grid[0], k->grid[1], k->grid[2], k->block, (long long)k->smem_bytes);
}

static baton_status cuda_stream_new(RtDevice *device, void **out, RtError *e)
{
    CudaDevice *d = cuda(device);
    *out = NULL;
    IN_CONTEXT(d, e, d->driver.stream_create((CuStream *)out, CU_STREAM_NON_BLOCKING),
               "making a stream");
}

static void cuda_stream_free(RtDevice *device, void *stream)
{
    CudaDevice *d = cuda(device);
    RtError ignored;
    if (!stream || cuda_enter(d, &ignored)) return;
    d->driver.stream_destroy(stream);
    cuda_leave(d);
}

// ---- waiting and time ---------------------------------------------------------------------------

static baton_status cuda_sync(RtDevice *device, void *stream, RtError *e)
{
    CudaDevice *d = cuda(device);
    IN_CONTEXT(d, e, d->driver.stream_sync(stream), "waiting for the kernels on %s", device->name);
}

static baton_status cuda_mark_new(RtDevice *device, void **out, RtError *e)
{
    CudaDevice *d = cuda(device);
    *out = NULL;
    IN_CONTEXT(d, e, d->driver.event_create((CuEvent *)out, 0), "making an event");
}

static baton_status cuda_mark(RtDevice *device, void *mark, void *stream, RtError *e)
{
    CudaDevice *d = cuda(device);
    IN_CONTEXT(d, e, d->driver.event_record(mark, stream), "recording an event");
}

// Waits for `to`; an error of the kernels between shows up here.
static baton_status cuda_mark_ms(RtDevice *device, void *from, void *to, double *ms, RtError *e)
{
    CudaDevice *d = cuda(device);
    float f = 0;
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    CuResult r = d->driver.event_sync(to);
    if (!r) r = d->driver.event_ms(&f, from, to);
    cuda_leave(d);
    *ms = f;
    return r ? rt_driver_fail(&d->driver, r, e, "waiting for the kernels on %s", device->name)
             : BATON_OK;
}

static void cuda_mark_free(RtDevice *device, void *mark)
{
    CudaDevice *d = cuda(device);
    RtError ignored;
    if (!mark || cuda_enter(d, &ignored)) return;
    d->driver.event_destroy(mark);
    cuda_leave(d);
}

// ---- opening ------------------------------------------------------------------------------------

// Also for a device that failed to open: what was not reached is NULL.
static void cuda_close(RtDevice *device)
{
    CudaDevice *d = cuda(device);
    if (d->context) d->driver.context_release(d->device);
    rt_driver_close(&d->driver);
    arena_free(d->arena);
}

static const RtDeviceOps cuda_ops = {
    .kind = "cuda", .host_memory = false,
    .load = cuda_load, .unload = cuda_unload,
    .kernel = cuda_kernel, .kernel_info = cuda_kernel_info,
    .alloc = cuda_alloc, .release = cuda_release,
    .copy_in = cuda_copy_in, .copy_out = cuda_copy_out, .fill = cuda_fill,
    .stream_new = cuda_stream_new, .stream_free = cuda_stream_free,
    .pack = cuda_pack, .launch = cuda_launch, .sync = cuda_sync,
    .mark_new = cuda_mark_new, .mark = cuda_mark, .mark_ms = cuda_mark_ms,
    .mark_free = cuda_mark_free, .queues = true, .copy = cuda_copy, .passed = cuda_passed,
    .graph_begin = cuda_graph_begin, .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch, .graph_free = cuda_graph_free, .close = cuda_close,
};

// Finds GPU `number` and reads what must be known before a context is worth its time.
static baton_status identify(CudaDevice *d, int number, RtError *e)
{
    const RtDriver *v = &d->driver;
    RtDevice *base = &d->base;
    int count = 0, sms = 0, smem = 0;
    CuResult r = v->device_count(&count);
    if (r) return rt_driver_fail(v, r, e, "counting the GPUs");
    if (!count)
        return rt_fail(e, BATON_NO_DEVICE, "the NVIDIA driver is installed but sees no GPU");
    if (number < 0 || number >= count)
        return rt_fail(e, BATON_NO_DEVICE,
                       "there is no cuda:%d; the driver sees %d GPU%s, from cuda:0 on", number,
                       count, count == 1 ? "" : "s");
    r = v->device_get(&d->device, number);
    if (!r) r = v->device_name(base->name, sizeof base->name, d->device);
    if (!r) r = v->device_attribute(&base->major, CU_DEVICE_MAJOR, d->device);
    if (!r) r = v->device_attribute(&base->minor, CU_DEVICE_MINOR, d->device);
    if (!r) r = v->device_attribute(&sms, CU_DEVICE_SM_COUNT, d->device);
    if (!r) r = v->device_attribute(&smem, CU_DEVICE_SMEM_OPTIN, d->device);
    if (r) return rt_driver_fail(v, r, e, "asking cuda:%d what it is", number);
    base->prop[PROP_SM_COUNT] = sms;
    base->prop[PROP_SMEM_MAX] = smem;
    base->driver_version = v->version;
    cuda_facts(d);
    // Code for sm_90a runs on 9.0 and nowhere else: its "a" promises nothing to later GPUs.
    if (base->major != 9 || base->minor != 0)
        return rt_fail(e, BATON_WRONG_DEVICE,
                       "cuda:%d is a %s of compute capability %d.%d; baton needs 9.0 (Hopper)",
                       number, base->name, base->major, base->minor);
    return BATON_OK;
}

// Making the context is most of the time (about a quarter of a second), hence the order.
baton_status rt_cuda_open(const char *library, int number, RtDevice **out, RtTimes *t, RtError *e)
{
    *out = NULL;
    Arena *arena = arena_new(0);
    CudaDevice *d = ARENA_NEW(arena, CudaDevice);
    d->arena = arena;
    d->base.ops = &cuda_ops;
    double start = rt_now_ms();
    baton_status s = rt_driver_open(library, &d->driver, e);
    if (t) t->driver = rt_now_ms() - start;
    if (!s) s = identify(d, number, e);
    if (!s) {
        start = rt_now_ms();
        CuResult r = d->driver.context_retain(&d->context, d->device);
        if (t) t->context = rt_now_ms() - start;
        if (r) {
            d->context = NULL;
            s = rt_driver_fail(&d->driver, r, e, "making a context on cuda:%d, %s", number,
                               d->base.name);
        }
    }
    if (s) {
        cuda_close(&d->base);
        return s;
    }
    *out = &d->base;
    return BATON_OK;
}

int rt_cuda_count(const char *library, RtError *e)
{
    RtDriver d;
    if (rt_driver_open(library, &d, e)) return 0;
    int count = 0;
    CuResult r = d.device_count(&count);
    if (r) rt_driver_fail(&d, r, e, "counting the GPUs");
    else if (!count) rt_fail(e, BATON_NO_DEVICE, "the NVIDIA driver is installed but sees no GPU");
    rt_driver_close(&d);
    return r ? 0 : count;
}
