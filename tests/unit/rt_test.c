// rt_test.c - the runtime without a GPU: what it says when there is no driver, and everything that
// it does with one, on the fake driver of fake_cuda.c: opening, assembling, arguments as
// the kernel sees them, tensor maps, limits, errors, times, and the public library on top.
//
//     rt_test [path of the fake libcuda.so.1]     (default: fake/libcuda.so.1 beside the program)
#include "fake_bench.h"

#include <pthread.h>

static void script(Test *t, const char *symbol, int code)
{
    reset(t);
    t->fake->fail = symbol;
    t->fake->fail_code = code;
}

// ---- opening -----------------------------------------------------------------------------------

static void test_no_driver(Test *t)
{
    RtError e = {0};
    RtDevice *d = (RtDevice *)t;
    baton_status s = rt_cuda_open("/nowhere/libcuda.so.1", 0, &d, NULL, &e);
    expect_fail(t, s, BATON_NO_DRIVER, &e, "no NVIDIA driver: /nowhere/libcuda.so.1");
    expect(t, !d, "a failed open gives no device", NULL);
    s = rt_cuda_open("libm.so.6", 0, &d, NULL, &e);
    expect_fail(t, s, BATON_NO_DRIVER, &e, "the driver library libm.so.6 has no cuInit");
    expect(t, rt_cuda_count("/nowhere/libcuda.so.1", &e) == 0 && e.status == BATON_NO_DRIVER,
           "without a driver no GPU is counted", e.text);
}

static void test_open(Test *t)
{
    static const struct {
        const char *symbol;
        int code;
        baton_status status;
        const char *sentence;
    } cases[] = {
        {"cuInit", 100, BATON_NO_DEVICE, "the NVIDIA driver is installed but sees no GPU"},
        {"cuInit", 803, BATON_NO_DRIVER,
         "starting the NVIDIA driver: an error without a name (803: no description)"},
        {"cuDeviceGetCount", 700, BATON_DRIVER_ERROR,
         "counting the GPUs: CUDA_ERROR_ILLEGAL_ADDRESS (700: an illegal memory access was "
         "encountered)"},
        {"cuDeviceGetName", 700, BATON_DRIVER_ERROR,
         "asking cuda:0 what it is: CUDA_ERROR_ILLEGAL"},
        {"cuDevicePrimaryCtxRetain", 2, BATON_OUT_OF_MEMORY,
         "making a context on cuda:0, Fake GPU: CUDA_ERROR_OUT_OF_MEMORY (2: out of memory)"},
    };
    RtError e = {0};
    RtDevice *d;
    for (int i = 0; i < COUNT(cases); i++) {
        script(t, cases[i].symbol, cases[i].code);
        baton_status s = rt_cuda_open(t->library, 0, &d, NULL, &e);
        expect_fail(t, s, cases[i].status, &e, cases[i].sentence);
    }
    reset(t);
    t->fake->devices = 0;
    expect_fail(t, rt_cuda_open(t->library, 0, &d, NULL, &e), BATON_NO_DEVICE, &e, "sees no GPU");
    t->fake->devices = 2;
    expect_fail(t, rt_cuda_open(t->library, 2, &d, NULL, &e), BATON_NO_DEVICE, &e,
                "there is no cuda:2; the driver sees 2 GPUs, from cuda:0 on");
    expect(t, rt_cuda_count(t->library, &e) == 2, "GPUs are counted", e.text);
    t->fake->major = 10;
    expect_fail(t, rt_cuda_open(t->library, 1, &d, NULL, &e), BATON_WRONG_DEVICE, &e, "10.0");
    t->fake->major = 8;
    t->fake->minor = 6;
    expect_fail(t, rt_cuda_open(t->library, 1, &d, NULL, &e), BATON_WRONG_DEVICE, &e,
                "cuda:1 is a Fake GPU of compute capability 8.6; baton needs 9.0");
    expect(t, t->fake->contexts == 0, "no failed open leaves a context", NULL);
    reset(t);
    RtTimes times = {0};
    baton_status s = rt_cuda_open(t->library, 0, &d, &times, &e);
    expect(t, !s, "a healthy device opens", e.text);
    if (s) return;
    expect(t, d->prop[PROP_SM_COUNT] == 132 && d->prop[PROP_SMEM_MAX] == 232448 && d->major == 9,
           "its properties are those of the driver", d->name);
    expect(t, times.driver > 0 && times.context > 0, "opening is timed", NULL);
    d->ops->close(d);
    expect(t, t->fake->contexts == 0 && t->fake->depth == 0, "closing gives the context back",
           NULL);
}

// ---- code ---------------------------------------------------------------------------------------

static const char ptx_text[] =
    "//@ plan f\n"
    "//@ options \"handoff=proxy\"\n"
    "//@ param x: bf16[M, K] in align 16\n"
    "//@ param y: f32[M, K] out align 16\n"
    "//@ param a: f32 scalar in align 4\n"
    "//@ param n: s64 scalar in align 8\n"
    "//@ symbol M = extent x 0\n"
    "//@ symbol K = extent x 1\n"
    "//@ symbol n = scalar n\n"
    "//@ check \"K is a multiple of 8\": K % 8 == 0\n"
    "//@ memset y byte 255 when n < 0\n"
    "//@ kernel f_main grid (M, n, 1) block 128 cluster 2 smem 100000\n"
    "//@ tmap x dim (K, M) stride (2, K*2) box (64, 8) swizzle swz128\n"
    "//@ arg tmap 0\n"
    "//@ arg tensor y\n"
    "//@ arg float a\n"
    "//@ arg value M\n"
    "//@ arg value n*K\n"
    "//@ kernel f_tail grid (1, 1, 1) block 32 cluster 1 smem 0 when n == 3\n"
    "//@ end\n"
    ".entry f_main(.param .align 64 .b8 t[128], .param .u64 y, .param .f32 a, .param .u32 m, "
    ".param .u64 k)\n"
    ".entry f_tail()\n";

static bool load(Test *t, Loaded *l) { return load_text(t, l, ptx_text); }


static void test_assemble(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m = NULL;
    RtTimes times = {0};
    RtCode code = code_of(".entry first()\n");
    reset(t);
    if (rt_cuda_open(t->library, 0, &d, NULL, &e)) return;
    baton_status s = rt_load(d, &code, &m, &times, &e);
    expect(t, !s && t->fake->assembled == 1 && times.load > 0, "loading PTX assembles it", e.text);
    expect(t, !s && strcmp(m->log, "fake info: 32 registers, 0 bytes spilled") == 0,
           "the assembler's log is kept", m ? m->log : NULL);
    RtKernelInfo info;
    s = rt_kernel_info(m, "first", &info, &e);
    expect(t, !s && info.registers == 32 && info.local_bytes == 0, "a kernel's registers", e.text);
    s = rt_kernel_info(m, "never", &info, &e);
    expect_fail(t, s, BATON_BAD_FILE, &e, "the machine code has no kernel never");
    rt_unload(m);

    // A log longer than the room for it is cut, never overrun.
    char *log = arena_alloc(t->arena, 100001);
    memset(log, 'x', 100000);
    t->fake->info_log = log;
    s = rt_load(d, &code, &m, &times, &e);
    expect(t, !s && strlen(m->log) == 32 * 1024 - 1, "a long log is cut", e.text);
    rt_unload(m);

    code = (RtCode){.name = "f.cubin", .cubin = "FAKE-CUBIN .entry first()", .cubin_bytes = 26};
    s = rt_load(d, &code, &m, &times, &e);
    expect(t, !s && t->fake->assembled == 2 && !*m->log, "ready machine code is not assembled",
           e.text);
    rt_unload(m);
    expect(t, t->fake->loaded == 3 && t->fake->unloaded == 3 && t->fake->outside_context == 0,
           "modules come and go inside the context", NULL);
    d->ops->close(d);
}

static void test_bad_code(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m = NULL;
    RtCode code = code_of(".entry broken()\n");
    reset(t);
    if (rt_cuda_open(t->library, 0, &d, NULL, &e)) return;
    script(t, "cuModuleLoadDataEx", 218);
    t->fake->error_log = "ptxas test.ptx, line 1; error : Parsing error\n\n";
    baton_status s = rt_load(d, &code, &m, NULL, &e);
    expect_fail(t, s, BATON_NOT_ASSEMBLED, &e,
                "the driver's assembler refused test.ptx:\nptxas test.ptx, line 1; error : Parsing "
                "error");
    expect(t, !m && e.text[strlen(e.text) - 1] != '\n', "no module, no empty line", e.text);
    t->fake->error_log = NULL;
    s = rt_load(d, &code, &m, NULL, &e);
    expect_fail(t, s, BATON_NOT_ASSEMBLED, &e,
                "assembling and loading test.ptx: an error without a name (218");
    script(t, "cuModuleLoadDataEx", 2);
    s = rt_load(d, &code, &m, NULL, &e);
    expect_fail(t, s, BATON_OUT_OF_MEMORY, &e,
                "assembling and loading test.ptx: CUDA_ERROR_OUT_OF_MEMORY");
    script(t, "cuModuleLoadDataEx", 700);
    s = rt_load(d, &code, &m, NULL, &e);
    expect_fail(t, s, BATON_DRIVER_ERROR, &e,
                "assembling and loading test.ptx: CUDA_ERROR_ILL");
    expect(t, t->fake->depth == 0, "a failed load leaves nothing", NULL);

    reset(t);
    code = (RtCode){.name = "empty.ptx"};
    expect_fail(t, rt_load(d, &code, &m, NULL, &e), BATON_BAD_FILE, &e,
                "empty.ptx has neither PTX nor machine code for a GPU");
    code = (RtCode){.name = "z.ptx", .ptx = "a\0b", .ptx_bytes = 3};
    expect_fail(t, rt_load(d, &code, &m, NULL, &e), BATON_BAD_FILE, &e, "zero byte");
    code = (RtCode){.name = "z.cubin", .cubin = "not code", .cubin_bytes = 9};
    expect_fail(t, rt_load(d, &code, &m, NULL, &e), BATON_DRIVER_ERROR, &e,
                "loading the machine code of z.cubin");
    d->ops->close(d);
}

// ---- launches -----------------------------------------------------------------------------------

static PlanValue tensor(void *data, DType type, i64 d0, i64 d1)
{
    return (PlanValue){.data = data, .type = type, .rank = 2, .dim = {d0, d1}};
}

static char *const x_at = (char *)0x40000, *const y_at = (char *)0x80000;

// Arguments of the test's plan: x[M, K], y[M, K], a, n.
static void fill_values(PlanValue *v, i64 m, i64 k, i64 n)
{
    v[0] = tensor(x_at, DT_BF16, m, k);
    v[1] = tensor(y_at, DT_F32, m, k);
    v[2] = (PlanValue){.type = DT_F32, .float_value = 0.5};
    v[3] = (PlanValue){.type = DT_S64, .int_value = n};
}

static void test_launch(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    RtTimes times = {0};
    PlanValue v[4];
    if (!load(t, &l)) return;
    fill_values(v, 6, 64, 3);
    baton_status s = rt_prepare(t->arena, l.module, l.plan, v, &launch, &times, &e);
    expect(t, !s && launch->nsteps == 2, "the steps that run are those whose condition holds",
           e.text);
    expect(t, t->fake->nlaunches == 0, "preparing launches nothing", NULL);
    if (!s) s = rt_launch(launch, (void *)0x77, &e);
    expect(t, !s && t->fake->nlaunches == 2 && t->fake->fills == 0, "one launch per kernel step",
           e.text);
    const FakeLaunch *k = &t->fake->launch[0];
    expect(t,
           strcmp(k->kernel, "f_main") == 0 && k->grid[0] == 6 && k->grid[1] == 3 &&
               k->grid[2] == 1 && k->block[0] == 128 && k->block[1] == 1 && k->block[2] == 1,
           "the grid and the block", k->kernel);
    expect(t, k->cluster == 2 && k->shared_bytes == 100000 && t->fake->max_dynamic_shared == 100000,
           "the cluster, and shared memory that was asked for", NULL);
    expect(t, k->stream == (void *)0x77, "the caller's stream", NULL);
    void *y;
    float a;
    i32 m;
    i64 nk;
    memcpy(&y, k->param[1], sizeof y);
    memcpy(&a, k->param[2], sizeof a);
    memcpy(&m, k->param[3], sizeof m);
    memcpy(&nk, k->param[4], sizeof nk);
    expect(t, k->nparams == 5 && y == y_at && a == 0.5f && m == 6 && nk == 192,
           "each argument as the kernel reads it", NULL);
    int which = -1;
    memcpy(&which, k->param[0], sizeof which);
    expect(t, which == 0 && k->param[0][100] == 0x5a, "a tensor map travels whole", NULL);
    const FakeMap *map = &t->fake->map[0];
    expect(t, t->fake->nmaps == 1 && map->aligned && map->type == 9 && map->rank == 2 &&
                  map->swizzle == 3 && map->base == x_at && map->dim[0] == 64 && map->dim[1] == 6 &&
                  map->stride[0] == 128 && map->box[0] == 64 && map->box[1] == 8,
           "the tensor map as the driver sees it", NULL);
    k = &t->fake->launch[1];
    expect(t, strcmp(k->kernel, "f_tail") == 0 && k->cluster == 0 && k->nparams == 0,
           "no cluster attribute without a cluster", k->kernel);
    unload(t, &l);
}

static void test_memset_and_empty(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    PlanValue v[4];
    if (!load(t, &l)) return;
    RtDevice *d = l.device;
    void *y = NULL;
    u8 host[8 * 8 * 4] = {0};
    baton_status s = d->ops->alloc(d, sizeof host, &y, &e);
    if (!s) s = d->ops->copy_in(d, y, host, sizeof host, &e);
    // n < 0 runs the memset and would make the grid negative.
    fill_values(v, 8, 8, -1);
    v[1].data = y;
    if (!s) s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    expect_fail(t, s, BATON_BAD_ARGUMENT, &e,
                "grid y of kernel f_main is -1; the device allows 0 to 65535");
    // Without work nothing is launched: an empty grid, and a memset of no bytes.
    fill_values(v, 8, 8, 0);
    s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    if (!s) s = rt_launch(launch, NULL, &e);
    expect(t, !s && launch->nsteps == 0 && t->fake->nlaunches == 0 && t->fake->nmaps == 0,
           "a grid with a 0 launches nothing", e.text);
    fill_values(v, 0, 8, 3);
    v[0].data = NULL;
    s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    expect(t, !s && launch->nsteps == 1, "an empty tensor needs no address and no map", e.text);
    l.plan->steps.n = 1;
    fill_values(v, 0, 8, -1);
    s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    expect(t, !s && launch->nsteps == 0, "an empty tensor needs no memset", e.text);
    // The memset alone, on memory that the fake really fills.
    fill_values(v, 8, 8, -1);
    v[1].data = y;
    s = rt_run_plan(l.module, l.plan, v, NULL, NULL, &e);
    if (!s) s = d->ops->copy_out(d, host, y, sizeof host, &e);
    int wrong = 0;
    for (size_t i = 0; i < sizeof host; i++) wrong += host[i] != 255;
    expect(t, !s && !wrong && t->fake->last_fill == y && t->fake->last_fill_bytes == sizeof host,
           "a memset step fills the whole tensor", e.text);
    d->ops->release(d, y);
    d->ops->release(d, NULL);
    unload(t, &l);
}

static void test_launch_rules(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    PlanValue v[4];
    if (!load(t, &l)) return;
    static const struct {
        i64 m, k, n;
        const char *sentence;
    } cases[] = {
        {6, 12, 3, "f requires that K is a multiple of 8; here K = 12"},
        {5, 64, 3, "grid x of kernel f_main is 5, no multiple of its cluster of 2 CTAs"},
        {6, 64, 65536, "grid y of kernel f_main is 65536; the device allows 0 to 65535"},
        {(i64)1 << 31, 64, 1,
         "grid x of kernel f_main is 2147483648; the device allows 0 to 2147483647"},
        {6, (i64)1 << 40, 1,
         "tensor map of x: the extent of dimension 0 is 1099511627776; TMA takes"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        fill_values(v, cases[i].m, cases[i].k, cases[i].n);
        baton_status s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
        expect_fail(t, s, BATON_BAD_ARGUMENT, &e, cases[i].sentence);
    }
    fill_values(v, 6, 64, 3);
    v[0].data = x_at + 8;
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_BAD_ARGUMENT,
                &e, "argument x lies at address 0x40008; the kernel needs a multiple of 16");
    fill_values(v, 6, 64, 3);
    l.device->prop[PROP_SMEM_MAX] = 99999;
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_BAD_ARGUMENT,
                &e, "kernel f_main needs 100000 bytes of shared memory; Fake GPU has 99999");
    l.device->prop[PROP_SMEM_MAX] = 232448;
    fill_values(v, (i64)1 << 32, 64, 1);
    l.plan->steps.at[1]->grid[0] = expr_const(l.exprs, 2);
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e),
                BATON_BAD_ARGUMENT, &e,
                "argument 3 of kernel f_main is 4294967296, which 32 bits cannot hold");
    fill_values(v, 6, 64, 3);
    // A plan that does not belong to the code is found before the driver reads past an argument.
    PlanStep *main_step = l.plan->steps.at[1];
    main_step->args.n--;
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_BAD_FILE, &e,
                "kernel f_main has more parameters than the plan's 4");
    main_step->args.n++;
    PlanArg last = main_step->args.at[2];
    main_step->args.at[2] = main_step->args.at[1];
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_BAD_FILE, &e,
                "parameter 2 of kernel f_main has 4 bytes, the plan's argument has 8");
    main_step->args.at[2] = last;
    main_step->kernel = "g_main";
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_BAD_FILE, &e,
                "the machine code has no kernel g_main");
    unload(t, &l);
}

static void test_results(Test *t)
{
    static const char text[] = "//@ plan g\n"
                               "//@ param x: f32[n] in align 4\n"
                               "//@ param y: f32[n] out result align 4\n"
                               "//@ param z: f32[] out result align 4\n"
                               "//@ symbol n = extent x 0\n"
                               "//@ end\n";
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    if (!load(t, &l)) return;
    Plan *g = parse_plan(t, text, l.exprs);
    PlanValue v[3] = {{.data = x_at, .type = DT_F32, .rank = 1, .dim = {8}}};
    expect_fail(t, rt_prepare(t->arena, l.module, g, v, &launch, NULL, &e), BATON_BAD_ARGUMENT, &e,
                "the result y has no memory");
    v[1] = v[0];
    expect_fail(t, rt_prepare(t->arena, l.module, g, v, &launch, NULL, &e), BATON_BAD_ARGUMENT, &e,
                "the result z has no memory");
    v[2] = (PlanValue){.data = y_at, .type = DT_F32};
    baton_status s = rt_prepare(t->arena, l.module, g, v, &launch, NULL, &e);
    expect(t, !s && launch->nsteps == 0, "results with memory", e.text);
    unload(t, &l);
}

static void test_driver_errors(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    PlanValue v[4];
    if (!load(t, &l)) return;
    fill_values(v, 6, 64, 3);
    script(t, "cuTensorMapEncodeTiled", 700);
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_DRIVER_ERROR,
                &e, "encoding the tensor map of argument 0 of f_main: CUDA_ERROR_ILLEGAL_ADDRESS");
    script(t, "cuFuncSetAttribute", 700);
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e), BATON_DRIVER_ERROR,
                &e, "asking for 100000 bytes of shared memory for kernel f_main: CUDA_ERROR");
    reset(t);
    baton_status s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    expect(t, !s, "and then it works", e.text);
    script(t, "cuLaunchKernelEx", 700);
    if (!s)
        expect_fail(
            t, rt_launch(launch, NULL, &e), BATON_DRIVER_ERROR, &e,
            "launching kernel f_main with a grid of 6 x 3 x 1 CTAs of 128 threads and 100000 "
            "bytes of shared memory: CUDA_ERROR_ILLEGAL_ADDRESS (700");
    script(t, "cuStreamSynchronize", 700);
    expect_fail(t, l.device->ops->sync(l.device, NULL, &e), BATON_DRIVER_ERROR, &e,
                "waiting for the kernels on Fake GPU: CUDA_ERROR_ILLEGAL_ADDRESS");
    script(t, "cuMemAlloc_v2", 2);
    void *p;
    expect_fail(t, l.device->ops->alloc(l.device, 1000, &p, &e), BATON_OUT_OF_MEMORY, &e,
                "allocating 1000 bytes on Fake GPU: CUDA_ERROR_OUT_OF_MEMORY");
    unload(t, &l);
}

static void test_time(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    RtTiming timing = {0};
    PlanValue v[4];
    if (!load(t, &l)) return;
    fill_values(v, 6, 64, 1);
    baton_status s = rt_prepare(t->arena, l.module, l.plan, v, &launch, NULL, &e);
    if (!s) s = rt_time(launch, NULL, 3, 100, &timing, &e);
    expect(t, !s && t->fake->nlaunches == 103, "warm-up and timed launches", e.text);
    // On the fake's clock a launch takes 1 to 5 ms in turn.
    expect(t,
           timing.runs == 100 && timing.median_ms == 3 && timing.min_ms == 1 && timing.max_ms == 5,
           "times are those between the marks", NULL);
    expect_fail(t, rt_time(launch, NULL, 0, 0, &timing, &e), BATON_BAD_ARGUMENT, &e,
                "0 timed runs");
    script(t, "cuLaunchKernelEx", 700);
    t->fake->fail_after = 10;
    expect_fail(t, rt_time(launch, NULL, 3, 100, &timing, &e), BATON_DRIVER_ERROR, &e,
                "launching kernel");
    unload(t, &l);
}

enum { THREADS = 4, LAUNCHES = 500 };
typedef struct {
    Loaded *l;
    int failed;
} Worker;

static void *work(void *arg)
{
    Worker *w = arg;
    PlanValue v[4];
    RtError e;
    fill_values(v, 6, 64, 1);
    for (int i = 0; i < LAUNCHES; i++)
        w->failed += rt_run_plan(w->l->module, w->l->plan, v, NULL, NULL, &e) != BATON_OK;
    return NULL;
}

static void test_threads(Test *t)
{
    Loaded l;
    if (!load(t, &l)) return;
    pthread_t thread[THREADS];
    Worker worker[THREADS];
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (Worker){.l = &l};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        failed += worker[i].failed;
    }
    expect(t, !failed && t->fake->nlaunches == THREADS * LAUNCHES, "threads share a module", NULL);
    unload(t, &l);
}

// ---- the emulator as a device -------------------------------------------------------------------

static void test_emulator(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m;
    RtEmulatorOptions options = {.hazards = true};
    baton_status s = rt_emulator_open(&options, &d, &e);
    expect(t, !s && strcmp(d->ops->kind, "emulator") == 0 && d->prop[PROP_SM_COUNT] == 132,
           "the emulator opens without a driver", e.text);
    RtCode code = code_of(ptx_text);
    expect_fail(t, rt_load(d, &code, &m, NULL, &e), BATON_UNSUPPORTED, &e,
                "test.ptx has no thread IR; the emulator cannot run PTX");
    void *p = NULL;
    s = d->ops->alloc(d, (size_t)-1, &p, &e);
    expect_fail(t, s, BATON_OUT_OF_MEMORY, &e, "bytes for the emulator");
    u32 in = 0x12345678, out = 0;
    s = d->ops->alloc(d, sizeof in, &p, &e);
    expect(t, !s && (uintptr_t)p % 256 == 0, "its memory is aligned as the GPU's", e.text);
    d->ops->copy_in(d, p, &in, sizeof in, &e);
    d->ops->fill(d, p, 0xab, 1, NULL, &e);
    d->ops->copy_out(d, &out, p, sizeof out, &e);
    expect(t, out == 0x123456ab, "copies and fills", NULL);
    d->ops->release(d, p);
    int n = -1;
    rt_emulator_reports(d, &n);
    expect(t, n == 0, "no launch, no report", NULL);
    d->ops->close(d);
}

// y[i] = a*x[i] for i < count, one CTA of 32 threads for each 32 elements.
static const char thread_text[] = "kernel scale\n"
                                  "  threads 32\n"
                                  "  param ptr x\n"
                                  "  param ptr y\n"
                                  "  param f32 a\n"
                                  "  param s32 count\n"
                                  "  global x : f32[count] param x\n"
                                  "  global y : f32[count] param y\n"
                                  "  reg b32 i, t, count\n"
                                  "  reg b64 px, py, off\n"
                                  "  reg f32 v, a\n"
                                  "  reg pred inside\n"
                                  "{\n"
                                  "  mov.b32 %t, tid\n"
                                  "  mov.b32 %i, ctaid.x\n"
                                  "  mad.s32 %i, %i, 32, %t\n"
                                  "  ld.param.s32 %count, count\n"
                                  "  ld.param.f32 %a, a\n"
                                  "  setp.lt.s32 %inside, %i, %count\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  ld.param.b64 %px, x\n"
                                  "  ld.param.b64 %py, y\n"
                                  "  add.s64 %px, %px, %off\n"
                                  "  add.s64 %py, %py, %off\n"
                                  "  @%inside ld.global.f32 %v, [%px] ; x(%i)\n"
                                  "  @%inside mul.f32 %v, %v, %a\n"
                                  "  @%inside st.global.f32 [%py], %v ; y(%i)\n"
                                  "}\n";

static const char thread_plan[] =
    "//@ plan scale\n"
    "//@ param x: f32[n] in align 4\n"
    "//@ param y: f32[n] out align 4\n"
    "//@ param a: f32 scalar in align 4\n"
    "//@ param extra: s64 scalar in align 8\n"
    "//@ symbol n = extent x 0\n"
    "//@ symbol extra = scalar extra\n"
    "//@ memset y byte 0\n"
    "//@ kernel scale grid ((n + 31)/32, 1, 1) block 32 cluster 1 smem 0\n"
    "//@ arg tensor x\n"
    "//@ arg tensor y\n"
    "//@ arg float a\n"
    "//@ arg value n + extra\n"
    "//@ end\n";

enum { ELEMENTS = 100 };

// Runs the plan on device memory made for it; the number of wrong elements is in *wrong.
static baton_status run_emulated(Test *t, RtModule *m, const Plan *p, i64 extra, int *wrong,
                                 RtError *e)
{
    RtDevice *d = m->device;
    float x[ELEMENTS], y[ELEMENTS];
    void *dx, *dy;
    RtTiming timing;
    RtLaunch *launch;
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)i;
    d->ops->alloc(d, sizeof x, &dx, e);
    d->ops->alloc(d, sizeof y, &dy, e);
    d->ops->copy_in(d, dx, x, sizeof x, e);
    PlanValue v[4] = {{.data = dx, .type = DT_F32, .rank = 1, .dim = {ELEMENTS}},
                      {.data = dy, .type = DT_F32, .rank = 1, .dim = {ELEMENTS}},
                      {.type = DT_F32, .float_value = 0.5},
                      {.type = DT_S64, .int_value = extra}};
    baton_status s = rt_prepare(t->arena, m, p, v, &launch, NULL, e);
    if (!s) s = rt_time(launch, NULL, 1, 3, &timing, e);
    if (!s) s = d->ops->copy_out(d, y, dy, sizeof y, e);
    *wrong = 0;
    for (int i = 0; i < ELEMENTS && !s; i++) *wrong += y[i] != 0.5f * (float)i;
    if (!s) *wrong += !(timing.min_ms > 0 && timing.min_ms <= timing.median_ms);
    d->ops->release(d, dx);
    d->ops->release(d, dy);
    return s;
}

static void test_emulated_plan(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m;
    RtEmulatorOptions options = {.hazards = true};
    int n = 0, wrong = -1;
    Diag *diag = diag_new(t->arena);
    ExprPool *pool = expr_pool_new(t->arena, intern_new(t->arena));
    u16 file = diag_add_file(diag, "scale.thr", thread_text, strlen(thread_text));
    ThreadModule *thread =
        thread_read(t->arena, pool, diag, file, thread_text, strlen(thread_text));
    Plan *p = parse_plan(t, thread_plan, pool);
    expect(t, thread && p && plan_check(p, thread, diag), "plan and thread IR fit", NULL);
    if (!thread || !p || rt_emulator_open(&options, &d, &e)) return;
    RtCode code = {.name = "scale.thr", .thread = thread};
    baton_status s = rt_load(d, &code, &m, NULL, &e);
    expect(t, !s, "the emulator loads thread IR", e.text);
    s = run_emulated(t, m, p, 0, &wrong, &e);
    EmuReport *const *report = rt_emulator_reports(d, &n);
    bool clean = n == 4;
    for (int i = 0; i < n; i++) clean = clean && report[i]->ok && report[i]->ctas == 4;
    expect(t, !s && wrong == 0 && clean, "a plan runs on the emulator", e.text);
    // One element too many: the report says so, and the run itself is no error.
    rt_emulator_set(d, &options);
    s = run_emulated(t, m, p, 1, &wrong, &e);
    report = rt_emulator_reports(d, &n);
    expect(t, !s && n == 4 && !report[0]->ok && report[0]->hazards.n > 0, "hazards are reported",
           e.text);
    s = run_emulated(t, m, p, (i64)1 << 31, &wrong, &e);
    expect_fail(t, s, BATON_BAD_ARGUMENT, &e,
                "argument count of kernel scale is 2147483748, which 32 bits cannot hold");
    p->steps.at[1]->args.at[0].kind = ARG_FLOAT;
    p->steps.at[1]->args.at[0].index = 2;
    expect(t, !plan_check(p, thread, diag), "the law sees an argument of another kind", NULL);
    expect_fail(t, run_emulated(t, m, p, 0, &wrong, &e), BATON_BAD_FILE, &e,
                "parameter x of kernel scale and the plan's argument differ");
    rt_unload(m);
    d->ops->close(d);
}

// ---- the public library -------------------------------------------------------------------------

static void expect_error(Test *t, baton_status got, baton_status want, const char *sentence)
{
    RtError e;
    snprintf(e.text, sizeof e.text, "%s", baton_last_error());
    expect_fail(t, got, want, &e, sentence);
}

static void test_public_open(Test *t)
{
    baton_context *c = (baton_context *)t;
    baton_open_info info = {.size = sizeof info, .driver = "/nowhere/libcuda.so.1"};
    expect_error(t, baton_open(&info, &c), BATON_NO_DRIVER, "no NVIDIA driver");
    expect(t, !c, "a failed open sets NULL", NULL);
    expect_error(t, baton_open(&info, NULL), BATON_BAD_ARGUMENT,
                 "the place for the context is NULL");
    info.size = 0;
    expect_error(t, baton_open(&info, &c), BATON_BAD_ARGUMENT,
                 "the field size of a baton_open_info is 0; it must be sizeof(baton_open_info)");
    baton_close(NULL);
    baton_unload(NULL);
    expect_error(t, baton_launch(NULL, NULL, 0, NULL), BATON_BAD_ARGUMENT, "the module is NULL");
    expect_error(t, baton_synchronize(NULL, NULL), BATON_BAD_ARGUMENT, "the context is NULL");
    expect(t, strcmp(baton_status_name(BATON_NO_DRIVER), "no driver") == 0 &&
                  strcmp(baton_status_name((baton_status)99), "unknown status") == 0,
           "statuses have names", NULL);
    expect(t, strcmp(baton_version(), BATON_VERSION_TEXT) == 0, "the version", baton_version());
}

static baton_tensor public_tensor(void *data, baton_type type, i64 d0, i64 d1)
{
    return (baton_tensor){sizeof(baton_tensor), data, type, 2, {d0, d1}, 0, 0};
}

static void test_public_module(Test *t, baton_context *c, baton_module *m)
{
    expect(t, strcmp(baton_module_name(m), "f") == 0 && baton_parameter_count(m) == 4,
           "a module knows its function", baton_module_name(m));
    baton_parameter_info p = {.size = sizeof p};
    baton_status s = baton_get_parameter(m, 1, &p);
    expect(t,
           !s && strcmp(p.name, "y") == 0 && p.type == BATON_F32 && !p.in && p.out && p.rank == 2 &&
               p.align == 16,
           "and its parameters", baton_last_error());
    expect_error(t, baton_get_parameter(m, 4, &p), BATON_BAD_ARGUMENT,
                 "f has no parameter 4; it has 4");
    // A caller of an older header, whose struct ended after `type`.
    memset(&p, 0x33, sizeof p);
    p.size = offsetof(baton_parameter_info, scalar);
    s = baton_get_parameter(m, 0, &p);
    expect(t, !s && p.type == BATON_BF16 && p.align == 0x33333333, "no byte beyond an older struct",
           NULL);
    baton_device_info info = {.size = sizeof info};
    s = baton_get_device(c, &info);
    expect(t,
           !s && info.major == 9 && info.driver_version == 13000 && !strcmp(info.name, "Fake GPU"),
           "the device", info.name);
    baton_times times = {.size = sizeof times};
    s = baton_get_times(m, &times);
    expect(t, !s && times.driver > 0 && times.context > 0 && times.load > 0,
           "the times of loading", NULL);
}

static void test_public_launch(Test *t, baton_context *c, baton_module *m)
{
    baton_tensor arg[4] = {
        public_tensor(x_at, BATON_BF16, 6, 64),
        public_tensor(y_at, BATON_F32, 6, 64),
        {.size = sizeof *arg, .type = BATON_F32, .float_value = 0.5},
        {.size = sizeof *arg, .type = BATON_S64, .int_value = 1},
    };
    reset(t);
    baton_status s = baton_launch(m, arg, 4, (void *)0x55);
    expect(t, !s && t->fake->nlaunches == 1 && t->fake->launch[0].stream == (void *)0x55,
           "a launch on the caller's stream", baton_last_error());
    expect(t, baton_synchronize(c, (void *)0x55) == BATON_OK, "waiting", baton_last_error());
    baton_timing timing = {.size = sizeof timing};
    s = baton_time(m, arg, 4, NULL, 1, 5, &timing);
    expect(t, !s && timing.runs == 5 && timing.median_ms == 3, "timing", baton_last_error());
    expect_error(t, baton_launch(m, arg, 3, NULL), BATON_BAD_ARGUMENT,
                 "f takes 4 arguments, 3 were passed");
    expect_error(t, baton_launch(m, NULL, 4, NULL), BATON_BAD_ARGUMENT,
                 "the array of arguments is NULL");
    arg[1].dim[0] = 7;
    expect_error(t, baton_launch(m, arg, 4, NULL), BATON_BAD_ARGUMENT,
                 "extent 0 of argument y is 7; M is 6 by extent 0 of argument x");
    arg[1].rank = 7;
    expect_error(t, baton_launch(m, arg, 4, NULL), BATON_BAD_ARGUMENT,
                 "argument y has 7 dimensions");
    arg[1].size = 8;
    expect_error(t, baton_launch(m, arg, 4, NULL), BATON_BAD_ARGUMENT, "argument y says size 8");
    arg[0].type = (baton_type)77;
    arg[1] = public_tensor(y_at, BATON_F32, 6, 64);
    expect_error(t, baton_launch(m, arg, 4, NULL), BATON_BAD_ARGUMENT,
                 "argument x has no element type that exists");
    expect(t, t->fake->nlaunches == 7, "a refused launch launches nothing", NULL);
}

static void test_public(Test *t)
{
    reset(t);
    baton_context *c = NULL;
    baton_module *m = NULL;
    baton_open_info info = {.size = sizeof info, .driver = t->library};
    baton_status s = baton_open(&info, &c);
    expect(t, !s, "the library opens the fake", baton_last_error());
    if (s) return;
    expect_error(t, baton_load_file(c, "/nowhere/f.ptx", &m), BATON_BAD_FILE,
                 "/nowhere/f.ptx: No such file or directory");
    expect_error(t, baton_load_memory(c, "g.ptx", ".version 8.0\n", 13, &m), BATON_BAD_FILE,
                 "g.ptx: error: no launch plan was found");
    expect(t, !strstr(baton_last_error(), "1 error"), "no count of errors", baton_last_error());
    expect_error(t, baton_load_memory(c, "g.ptx", "//@ plan g\0", 11, &m), BATON_BAD_FILE,
                 "zero byte");
    expect_error(t, baton_load_memory(c, "g.ptx", "//@ plan g\n//@ what\n//@ end\n", 28, &m),
                 BATON_BAD_FILE,
                 "g.ptx:2:5: error: launch plan: no line of a plan starts like this");
    expect_error(t, baton_load_memory(c, "g.cubin", "\177ELF\0\0//@ plan g", 16, &m), BATON_BAD_FILE,
                 "g.cubin is machine code without a launch plan");
    expect(t, !m, "a failed load sets NULL", NULL);
    // An image, with a plan's words in it, and behind it the plan.
    Buf image = {0};
    buf_write(&image, "\177ELF\0\n//@ plan no\0\n", 19);
    buf_puts(&image, ptx_text);
    s = baton_load_memory(c, "f.cubin", image.s, image.n, &m);
    expect(t, !s && !strcmp(baton_module_name(m), "f"), "machine code with its plan loads",
           baton_last_error());
    buf_free(&image);
    baton_unload(m);
    s = baton_load_memory(c, "f.ptx", ptx_text, strlen(ptx_text), &m);
    expect(t, !s, "a file with its plan loads", baton_last_error());
    if (!s) {
        test_public_module(t, c, m);
        test_public_launch(t, c, m);
    }
    void *p = NULL;
    u64 in = 42, out = 0;
    s = baton_allocate(c, 8, &p);
    if (!s) s = baton_copy_to_device(c, p, &in, 8);
    if (!s) s = baton_copy_to_host(c, &out, p, 8);
    if (!s) s = baton_free(c, p);
    expect(t, !s && out == 42, "memory of the device", baton_last_error());
    baton_unload(m);
    baton_close(c);
    expect(t, t->fake->contexts == 0 && t->fake->depth == 0 && t->fake->allocations == 0,
           "closing gives everything back", NULL);
}

// ---- main ---------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
    Test t;
    void *library;
    if (!bench_open(&t, argc, argv, &library)) return 1;
    test_no_driver(&t);
    test_open(&t);
    test_assemble(&t);
    test_bad_code(&t);
    test_launch(&t);
    test_memset_and_empty(&t);
    test_launch_rules(&t);
    test_results(&t);
    test_driver_errors(&t);
    test_time(&t);
    test_threads(&t);
    test_emulator(&t);
    test_emulated_plan(&t);
    test_public_open(&t);
    test_public(&t);
    return bench_close(&t, library, "rt");
}
