// workspace_test.c - plans with a task list: the host function runs once per set of sizes, its
// result reaches the kernel whole, is kept and shared, and goes when nobody needs it; on the fake
// driver of fake_cuda.c, through the public library, and on the emulator.
//
//     workspace_test [path of the fake libcuda.so.1]   (default: fake/libcuda.so.1 beside it)
#include "../../ops/schedule.h"
#include "fake_bench.h"

#include <pthread.h>

// `fail`: the driver's function that fails from now on, with `code`; NULL: none.
static void script(Test *t, const char *fail, int code)
{
    t->fake->fail = fail;
    t->fake->fail_code = code;
    t->fake->nlaunches = 0;
}

// q[B, H, N]: as many tiles as the third extent says.
static const char ptx_text[] =
    "//@ plan f\n"
    "//@ param q: f32[B, H, N] in align 4\n"
    "//@ param list: s32[device.sms + B*H*N, 4] in workspace align 16\n"
    "//@ symbol B = extent q 0\n"
    "//@ symbol H = extent q 1\n"
    "//@ symbol N = extent q 2\n"
    "//@ host causal_tasks into list args (device.sms, B, H, N, 4, 0)\n"
    "//@ kernel f_main grid (device.sms, 1, 1) block 128 cluster 1 smem 0\n"
    "//@ arg tensor q\n"
    "//@ arg tensor list\n"
    "//@ end\n"
    ".entry f_main(.param .u64 q, .param .u64 list)\n";

static char *const q_at = (char *)0x40000;

static PlanValue q_of(i64 b, i64 h, i64 n)
{
    return (PlanValue){.data = q_at, .type = DT_F32, .rank = 3, .dim = {b, h, n}};
}

static bool load(Test *t, Loaded *l) { return load_text(t, l, ptx_text); }

// The list that a kernel for these sizes must see.
static i32 *right_list(Test *t, i64 ctas, i64 b, i64 h, i64 n, OpsScheduleSize *size)
{
    OpsScheduleJob job = {.ctas = ctas, .batches = b, .heads = h, .tiles = n,
                          .fixed_cost = OPS_SCHEDULE_FIXED_COST};
    if (ops_schedule_size(&job, size)) abort();
    i32 *rows = arena_alloc(t->arena, size->list_bytes);
    void *scratch = arena_alloc(t->arena, size->scratch_bytes + 1);
    if (ops_schedule(&job, scratch, rows, NULL)) abort();
    return rows;
}

// The address of the list in launch `index` of the fake.
static i32 *launched_list(Test *t, int index)
{
    i32 *p;
    memcpy(&p, t->fake->launch[index].param[1], sizeof p);
    return p;
}

// ---- one result, kept ---------------------------------------------------------------------------

static void test_kept(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *first, *second, *other;
    RtTimes times = {0}, again = {.host = 9, .upload = 9};
    OpsScheduleSize size;
    if (!load(t, &l)) return;
    PlanValue v = q_of(2, 3, 40), w = q_of(2, 3, 41);
    baton_status s = rt_prepare(t->arena, l.module, l.plan, &v, &first, &times, &e);
    expect(t, !s && t->fake->nlaunches == 0 && first->nsteps == 1, "a host step is no launch",
           e.text);
    expect(t, times.host > 0 && times.upload > 0 && times.prepare >= times.host + times.upload,
           "building and uploading are timed", NULL);
    if (!s) s = rt_prepare(t->arena, l.module, l.plan, &v, &second, &again, &e);
    expect(t, !s && t->fake->allocations == 1 && again.host == 0 && again.upload == 0,
           "the same sizes use the kept list", e.text);
    if (!s) s = rt_prepare(t->arena, l.module, l.plan, &w, &other, NULL, &e);
    expect(t, !s && t->fake->allocations == 2, "other sizes have their own", e.text);
    if (!s) s = rt_launch(first, NULL, &e);
    if (!s) s = rt_launch(second, NULL, &e);
    if (!s) s = rt_launch(other, NULL, &e);
    expect(t, !s && t->fake->nlaunches == 3 && t->fake->launch[0].grid[0] == 132, "launches",
           e.text);
    i32 *a = launched_list(t, 0), *b = launched_list(t, 2);
    expect(t, a == launched_list(t, 1) && a != b, "one list for each set of sizes", NULL);
    i32 *right = right_list(t, 132, 2, 3, 40, &size);
    expect(t, !memcmp(a, right, size.list_bytes), "the kernel sees the whole list", NULL);
    right = right_list(t, 132, 2, 3, 41, &size);
    expect(t, !memcmp(b, right, size.list_bytes), "and that of the other sizes", NULL);
    rt_release(first);
    rt_release(first);
    rt_release(NULL);
    unload(t, &l);
}

// No tasks is a list too: every CTA has an empty range.
static void test_no_tasks(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    if (!load(t, &l)) return;
    PlanValue v = q_of(0, 3, 40);
    baton_status s = rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e);
    if (!s) s = rt_launch(launch, NULL, &e);
    expect(t, !s && t->fake->nlaunches == 1, "sizes without work", e.text);
    bool empty = !s;
    for (int c = 0; c < 132 && empty; c++)
        empty = launched_list(t, 0)[4 * c] == 132 && launched_list(t, 0)[4 * c + 1] == 132;
    expect(t, empty, "give empty ranges", NULL);
    unload(t, &l);
}

// ---- many results -------------------------------------------------------------------------------

static void test_dropped(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *held[100], *launch;
    OpsScheduleSize size;
    if (!load(t, &l)) return;
    int most = 0;
    baton_status s = BATON_OK;
    for (int i = 1; i <= 300 && !s; i++) {
        PlanValue v = q_of(1, 1, i);
        s = rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e);
        if (!s) rt_release(launch);
        most = MAX(most, t->fake->allocations);
    }
    expect(t, !s && most == 64, "lists that nobody uses are dropped, the others kept", e.text);
    // Those that a launch holds stay, however many.
    for (int i = 0; i < COUNT(held) && !s; i++) {
        PlanValue v = q_of(2, 1, i + 1);
        s = rt_prepare(t->arena, l.module, l.plan, &v, &held[i], NULL, &e);
    }
    expect(t, !s && t->fake->allocations == COUNT(held), "lists in use stay", e.text);
    bool right = !s;
    for (int i = 0; i < COUNT(held) && right; i += 33) {
        script(t, NULL, 0);
        right = !rt_launch(held[i], NULL, &e) &&
                !memcmp(launched_list(t, 0), right_list(t, 132, 2, 1, i + 1, &size), 132 * 16);
    }
    expect(t, right, "and are what they were", e.text);
    for (int i = 0; i < COUNT(held) && !s; i++) rt_release(held[i]);
    PlanValue v = q_of(3, 1, 1);
    if (!s) s = rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e);
    expect(t, !s && t->fake->allocations == 64, "until they are given back", e.text);
    unload(t, &l);
}

// 40 MB each: two are more than the limit of bytes, and the older goes; the small one stays.
static void test_large(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    static const i64 tiles[] = {2500000, 3, 2500001, 3, 2500001, 2500000};
    static const bool built[] = {true, true, true, false, false, true};
    if (!load(t, &l)) return;
    for (int i = 0; i < COUNT(tiles); i++) {
        PlanValue v = q_of(1, 1, tiles[i]);
        RtTimes times = {0};
        baton_status s = rt_prepare(t->arena, l.module, l.plan, &v, &launch, &times, &e);
        expect(t, !s && (times.host > 0) == built[i], "large lists push others out", e.text);
        if (!s) rt_release(launch);
    }
    expect(t, t->fake->allocations == 2, "and are few", NULL);
    unload(t, &l);
}

enum { THREADS = 4, ROUNDS = 200 };
typedef struct {
    Loaded *l;
    int failed;
} Worker;

static void *work(void *arg)
{
    Worker *w = arg;
    RtError e;
    for (int i = 0; i < ROUNDS; i++) {
        PlanValue v = q_of(1, 2, 1 + i % 90);
        w->failed += rt_run_plan(w->l->module, w->l->plan, &v, NULL, NULL, &e) != BATON_OK;
    }
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
    expect(t, !failed && t->fake->nlaunches == THREADS * ROUNDS, "threads share the lists", NULL);
    expect(t, t->fake->allocations >= 64 && t->fake->allocations <= 64 + THREADS,
           "and keep the limit", NULL);
    unload(t, &l);
}

// ---- what can go wrong --------------------------------------------------------------------------

static void test_failures(Test *t)
{
    static const struct {
        const char *symbol;
        int code;
        baton_status status;
        const char *sentence;
    } driver[] = {
        {"cuMemAlloc_v2", 2, BATON_OUT_OF_MEMORY, "allocating 2208 bytes on Fake GPU"},
        {"cuMemcpyHtoD_v2", 700, BATON_DRIVER_ERROR, "copying 2208 bytes to Fake GPU"},
        {"cuStreamSynchronize", 700, BATON_DRIVER_ERROR, "waiting for the kernels"},
    };
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    if (!load(t, &l)) return;
    PlanValue v = q_of(1, 2, 3);
    for (int i = 0; i < COUNT(driver); i++) {
        script(t, driver[i].symbol, driver[i].code);
        baton_status s = rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e);
        expect_fail(t, s, driver[i].status, &e, driver[i].sentence);
        script(t, NULL, 0);
        expect(t, !launch && t->fake->allocations == 0, "a failed upload leaves nothing", NULL);
    }
    v = q_of((i64)1 << 30, 1, 2);
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e),
                BATON_BAD_ARGUMENT, &e,
                "causal_tasks: the task list would have more than 2^31 - 1 rows");
    v = q_of(1, 2, 3);
    PlanStep *host = l.plan->steps.at[0];
    host->host_args.at[3] = expr_const(l.exprs, 7);
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e), BATON_BAD_FILE,
                &e, "causal_tasks makes 146 x 4 elements; the plan gives the workspace list 138");
    host->host_args.n--;
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e), BATON_BAD_FILE,
                &e, "causal_tasks takes 6 arguments, the plan gives 5");
    host->function = "unheard_of";
    expect_fail(t, rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e), BATON_BAD_FILE,
                &e, "there is no host function unheard_of");
    expect(t, t->fake->allocations == 0, "a refused launch leaves nothing", NULL);
    unload(t, &l);
}

// A launch that fails behind its host step gives the list back.
static void test_failure_later(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtLaunch *launch;
    if (!load(t, &l)) return;
    const char *kernel = l.plan->steps.at[1]->kernel;
    int failed = 0;
    for (int i = 1; i <= 100; i++) {
        PlanValue v = q_of(1, 1, i);
        l.plan->steps.at[1]->kernel = "nowhere";
        failed += rt_prepare(t->arena, l.module, l.plan, &v, &launch, NULL, &e) == BATON_BAD_FILE;
    }
    expect(t, failed == 100 && t->fake->allocations == 64, "failed launches hold no list", e.text);
    l.plan->steps.at[1]->kernel = kernel;
    unload(t, &l);
}

// ---- the public library -------------------------------------------------------------------------

static void test_public(Test *t)
{
    script(t, NULL, 0);
    baton_context *c = NULL;
    baton_module *m = NULL;
    baton_open_info info = {.size = sizeof info, .driver = t->library};
    baton_status s = baton_open(&info, &c);
    if (!s) s = baton_load_memory(c, "f.ptx", ptx_text, strlen(ptx_text), &m);
    expect(t, !s, "a file with a host step loads", baton_last_error());
    if (s) return;
    baton_tensor q = {sizeof q, q_at, BATON_F32, 3, {1, 2, 3}, 0, 0}, two[2] = {q, q};
    baton_parameter_info p = {.size = sizeof p};
    expect(t, baton_parameter_count(m) == 1 && baton_get_parameter(m, 1, &p) == BATON_BAD_ARGUMENT,
           "a workspace is no parameter of the caller", NULL);
    expect(t, baton_launch(m, two, 2, NULL) == BATON_BAD_ARGUMENT &&
                  strstr(baton_last_error(), "f takes 1 arguments, 2 were passed"),
           "nor may it be passed", baton_last_error());
    baton_times before = {.size = sizeof before}, first = before, second = before;
    s = baton_get_times(m, &before);
    if (!s) s = baton_launch(m, &q, 1, NULL);
    if (!s) s = baton_get_times(m, &first);
    if (!s) s = baton_launch(m, &q, 1, NULL);
    if (!s) s = baton_get_times(m, &second);
    expect(t, !s && t->fake->nlaunches == 2 && launched_list(t, 0) == launched_list(t, 1),
           "launches share the list", baton_last_error());
    expect(t, before.host == 0 && first.host > 0 && first.upload > 0 &&
                  second.host == first.host && second.upload == first.upload,
           "the times say what the first one cost", NULL);
    baton_unload(m);
    baton_close(c);
    expect(t, t->fake->allocations == 0 && t->fake->contexts == 0, "all is given back", NULL);
}

// ---- the emulator -------------------------------------------------------------------------------

// Thread t of CTA c takes the t-th task of its CTA and writes c + 1 to y[batch][head][tile].
static const char thread_text[] = "kernel walk\n"
                                  "  threads 32\n"
                                  "  param ptr y\n"
                                  "  param ptr list\n"
                                  "  param s32 words\n"
                                  "  param s32 count\n"
                                  "  param s32 heads\n"
                                  "  param s32 tiles\n"
                                  "  global y : s32[count] param y\n"
                                  "  global list : s32[words] param list\n"
                                  "  reg b32 i, row, end, tile, head, batch, heads, tiles\n"
                                  "  reg b64 py, plist, at, off\n"
                                  "  reg pred inside\n"
                                  "{\n"
                                  "  ld.param.b64 %py, y\n"
                                  "  ld.param.b64 %plist, list\n"
                                  "  ld.param.s32 %heads, heads\n"
                                  "  ld.param.s32 %tiles, tiles\n"
                                  "  mov.b32 %i, ctaid.x\n"
                                  "  mul.s32 %i, %i, 4\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %plist, %off\n"
                                  "  ld.global.b32 %row, [%at] ; list(%i)\n"
                                  "  add.s32 %i, %i, 1\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %plist, %off\n"
                                  "  ld.global.b32 %end, [%at] ; list(%i)\n"
                                  "  mov.b32 %i, tid\n"
                                  "  add.s32 %row, %row, %i\n"
                                  "  setp.lt.s32 %inside, %row, %end\n"
                                  "  mul.s32 %i, %row, 4\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %plist, %off\n"
                                  "  @%inside ld.global.b32 %tile, [%at] ; list(%i)\n"
                                  "  add.s32 %i, %i, 1\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %plist, %off\n"
                                  "  @%inside ld.global.b32 %head, [%at] ; list(%i)\n"
                                  "  add.s32 %i, %i, 1\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %plist, %off\n"
                                  "  @%inside ld.global.b32 %batch, [%at] ; list(%i)\n"
                                  "  @%inside mad.s32 %i, %batch, %heads, %head\n"
                                  "  @%inside mad.s32 %i, %i, %tiles, %tile\n"
                                  "  mul.wide.u64 %off, %i, 4\n"
                                  "  add.s64 %at, %py, %off\n"
                                  "  mov.b32 %row, ctaid.x\n"
                                  "  add.s32 %row, %row, 1\n"
                                  "  @%inside st.global.b32 [%at], %row ; y(%i)\n"
                                  "}\n";

static const char thread_plan[] =
    "//@ plan walk\n"
    "//@ param y: s32[B, H, N] out align 4\n"
    "//@ param list: s32[device.sms + B*H*N, 4] in workspace align 16\n"
    "//@ symbol B = extent y 0\n"
    "//@ symbol H = extent y 1\n"
    "//@ symbol N = extent y 2\n"
    "//@ host causal_tasks into list args (device.sms, B, H, N, 4, 0)\n"
    "//@ memset y byte 0\n"
    "//@ kernel walk grid (device.sms, 1, 1) block 32 cluster 1 smem 0\n"
    "//@ arg tensor y\n"
    "//@ arg tensor list\n"
    "//@ arg value 4*(device.sms + B*H*N)\n"
    "//@ arg value B*H*N\n"
    "//@ arg value H\n"
    "//@ arg value N\n"
    "//@ end\n";

enum { BATCHES = 3, HEADS = 70, TILES = 5, TASKS = BATCHES * HEADS * TILES };

static void walk(Test *t, RtModule *m, const Plan *p)
{
    RtDevice *d = m->device;
    RtError e = {0};
    RtTimes times = {0};
    i32 y[TASKS];
    void *dy;
    int n = 0;
    d->ops->alloc(d, sizeof y, &dy, &e);
    PlanValue v = {.data = dy, .type = DT_S32, .rank = 3, .dim = {BATCHES, HEADS, TILES}};
    baton_status s = rt_run_plan(m, p, &v, NULL, &times, &e);
    if (!s) s = d->ops->copy_out(d, y, dy, sizeof y, &e);
    expect(t, !s && times.host > 0, "a plan with a host step runs on the emulator", e.text);
    EmuReport *const *report = rt_emulator_reports(d, &n);
    expect(t, n == 1 && report[0]->ok, "without hazards", NULL);
    OpsScheduleSize size;
    const i32 *rows = right_list(t, 132, BATCHES, HEADS, TILES, &size);
    int wrong = 0;
    for (i32 c = 0; c < 132 && !s; c++)
        for (i32 r = rows[4 * c]; r < rows[4 * c + 1]; r++)
            wrong += y[(rows[4 * r + 2] * HEADS + rows[4 * r + 1]) * TILES + rows[4 * r]] != c + 1;
    expect(t, !wrong, "every CTA finds its tasks", NULL);
    d->ops->release(d, dy);
}

static void test_emulator(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m;
    RtEmulatorOptions options = {.hazards = true};
    Diag *diag = diag_new(t->arena);
    ExprPool *pool = expr_pool_new(t->arena, intern_new(t->arena));
    u16 file = diag_add_file(diag, "walk.thr", thread_text, strlen(thread_text));
    ThreadModule *thread =
        thread_read(t->arena, pool, diag, file, thread_text, strlen(thread_text));
    Plan *p = parse_plan(t, thread_plan, pool);
    bool fits = thread && p && plan_check(p, thread, diag);
    Buf b = {0};
    diag_print(diag, &b);
    expect(t, fits, "plan and thread IR fit", b.s);
    buf_free(&b);
    if (!fits || rt_emulator_open(&options, &d, &e)) return;
    RtCode code = {.name = "walk.thr", .thread = thread};
    baton_status s = rt_load(d, &code, &m, NULL, &e);
    expect(t, !s, "the emulator loads thread IR", e.text);
    if (!s) {
        walk(t, m, p);
        rt_unload(m);
    }
    d->ops->close(d);
}

// ---- main ---------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
    Test t;
    void *library;
    if (!bench_open(&t, argc, argv, &library)) return 1;
    test_kept(&t);
    test_no_tasks(&t);
    test_dropped(&t);
    test_large(&t);
    test_threads(&t);
    test_failures(&t);
    test_failure_later(&t);
    test_public(&t);
    test_emulator(&t);
    return bench_close(&t, library, "workspace");
}
