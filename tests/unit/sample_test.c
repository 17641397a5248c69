// sample_test.c - one turn of samples on the fake driver, whose device works off its queue on a
// clock of its own: what is between the marks and what is not, the group, graphs, a cold cache,
// load and idle time, and when the host was too slow. The operations of the device record that only
// measuring needs, too. And the same on the emulator.
//
//     sample_test [path of the fake libcuda.so.1]   (default: fake/libcuda.so.1 beside the program)
#include "../../rt/sample.h"
#include "fake_bench.h"

#include <math.h>

static const char ptx_text[] = "//@ plan f\n"
                               "//@ param n: s64 scalar in align 8\n"
                               "//@ symbol n = scalar n\n"
                               "//@ kernel f grid (n, 1, 1) block 32 cluster 1 smem 0\n"
                               "//@ end\n"
                               ".entry f()\n";

static RtLaunch *prepare(Test *t, Loaded *l, i64 n)
{
    RtError e = {0};
    RtLaunch *launch = NULL;
    PlanValue v = {.type = DT_S64, .int_value = n};
    baton_status s = rt_prepare(t->arena, l->module, l->plan, &v, &launch, NULL, &e);
    expect(t, !s, "the test's launch is prepared", e.text);
    return launch;
}

static bool all_near(const double *ms, int n, double want)
{
    for (int i = 0; i < n; i++)
        if (fabs(ms[i] - want) > 1e-6 * want) return false;
    return n > 0;
}

static char *text_of(Test *t, const RtSamples *s)
{
    return arena_printf(t->arena, "ms[0] %g group %d load %g host %g late %d span %g", s->ms[0],
                        s->group, s->load_ms, s->host_ms, s->late, s->t1 - s->t0);
}

enum { ROOM = 2000 };

// The fake with launches of `launch_ns`, while the host needs 100 ns for a call.
static RtLaunch *open_turn(Test *t, Loaded *l, u64 launch_ns, RtSamples *out)
{
    if (!load_text(t, l, ptx_text)) return NULL;
    t->fake->launch_ns = launch_ns;
    t->fake->call_ns = 100;
    *out = (RtSamples){.ms = ARENA_ARRAY(t->arena, double, ROOM)};
    return prepare(t, l, 1);
}

static void test_samples(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 300000, &out);
    if (!launch) return;
    RtSampling o = {.warmup = 7, .repeat = 600, .group = 1};
    double before = rt_now_ms();
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && all_near(out.ms, 600, 0.3), "the time of one launch, across batches", e.text);
    expect(t, out.group == 1 && !out.host_bound && !out.late, "the host was ahead",
           text_of(t, &out));
    expect(t, fabs(out.load_ms - 7 * 0.3) < 1e-4, "the load lasted 7 launches", text_of(t, &out));
    // The span has no gap: 600 launches and the host's calls, which hide behind them.
    expect(t, fabs(out.t1 - out.t0 - 180) < 1e-3, "samples follow each other", text_of(t, &out));
    expect(t, out.t1 >= before && out.t1 <= out.t2 && out.t2 <= rt_now_ms() && out.host_ms > 0,
           "times of the host",
           text_of(t, &out));
    // One and three to find out, 7, 600; the hold is none of them.
    expect(t, t->fake->nlaunches == 611 && t->fake->holds == 2, "launches", NULL);
    unload(t, &l);
}

// Each launch its own time, in the order of the launches.
static void test_order(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 1000000, &out);
    if (!launch) return;
    t->fake->launch_step_ns = 100000;
    RtSampling o = {.repeat = 5, .group = 1};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    bool right = !s && out.load_ms == 0;
    // Four launches came before.
    for (int i = 0; i < 5; i++) right &= fabs(out.ms[i] - (1 + 0.1 * ((i + 4) % 5))) < 1e-6;
    expect(t, right, "samples in order, without load", e.text);
    o.group = 2;
    o.warmup = 3; // two groups
    t->fake->nlaunches = 0;
    s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && out.group == 2 && t->fake->nlaunches == 1 + 3 * 2 + 4 + 10,
           "whole groups warm up", e.text);
    unload(t, &l);
}

static void test_group(Test *t)
{
    static const struct {
        u64 ns;
        int group;
    } row[] = {{200000, 1}, {199999, 2}, {70000, 3}, {1000, 200}, {7, 20000}};
    for (int i = 0; i < COUNT(row); i++) {
        Loaded l;
        RtError e = {0};
        RtSamples out;
        RtLaunch *launch = open_turn(t, &l, row[i].ns, &out);
        if (!launch) return;
        t->fake->call_ns = 1;
        RtSampling o = {.repeat = 3};
        baton_status s = rt_sample(launch, NULL, &o, &out, &e);
        expect(t, !s && out.group == row[i].group && all_near(out.ms, 3, (double)row[i].ns / 1e6),
               "the fewest launches that last 0.2 ms", s ? e.text : text_of(t, &out));
        unload(t, &l);
    }
}

// On the fake's clock the host is too slow for launches of 10 us, however far ahead it was let: its
// own clock is not the one that holds are made by.
static void test_host_bound(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 10000, &out);
    if (!launch) return;
    t->fake->call_ns = 2000000;
    RtSampling o = {.repeat = 30, .group = 1};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && out.host_bound && out.late > 20, "a host that is too slow is found out",
           s ? e.text : text_of(t, &out));
    expect(t, !s && out.ms[29] > 1, "its time is in the samples", text_of(t, &out));
    unload(t, &l);
}

// Launches that the host cannot outrun: batches with a hold in front of each, no gap in a sample.
static void test_batches(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 20, &out);
    if (!launch) return;
    t->fake->call_ns = 40;
    RtSampling o = {.repeat = 1000, .group = 1, .warmup = 10};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && !out.host_bound && all_near(out.ms, 1000, 20e-6), "short launches",
           s ? e.text : text_of(t, &out));
    // 133 launches with their marks are a batch; the first hold is in front of the span.
    expect(t, t->fake->holds == 1 + 8 && out.t1 - out.t0 > 7 * 0.5, "a hold for each batch",
           text_of(t, &out));
    unload(t, &l);
}

static void test_load(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 1000000, &out);
    if (!launch) return;
    RtSampling o = {.repeat = 20, .group = 1, .warmup = 5, .load_s = 0.5, .min_s = 0.3};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    // Two chunks of 10 ms may be on their way when the end is seen.
    expect(t, !s && out.load_ms >= 500 && out.load_ms <= 521, "half a second of load",
           s ? e.text : text_of(t, &out));
    expect(t, fabs(out.t1 - out.t0 - 20) < 1e-3, "the span is that of the samples alone",
           text_of(t, &out));
    int behind = t->fake->nlaunches - 4 - (int)lround(out.load_ms) - 20;
    expect(t, behind >= 280 && behind <= 320, "and launches behind it until 0.3 s",
           arena_printf(t->arena, "%d", behind));
    // Samples that last longer need no more than the chunk that hides the reading of them.
    o = (RtSampling){.repeat = 20, .group = 1, .min_s = 0.01};
    t->fake->nlaunches = 0;
    s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && t->fake->nlaunches == 4 + 20 + 10, "enough is enough", e.text);
    // Idling is the host's time.
    o = (RtSampling){.repeat = 1, .group = 1, .idle_s = 0.02};
    double before = rt_now_ms();
    s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && rt_now_ms() - before >= 20, "idle time", e.text);
    unload(t, &l);
}

static void test_cold(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 50000, &out);
    if (!launch) return;
    t->fake->fill_ns = 900000;
    RtSampling o = {.repeat = 300, .warmup = 2, .cold_bytes = 4096};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && out.group == 1 && all_near(out.ms, 300, 0.05) && !out.host_bound,
           "fills are outside the time", s ? e.text : text_of(t, &out));
    expect(t, t->fake->fills == 303 && t->fake->last_fill_bytes == 4096,
           "one in front of each timed launch, and of three to find out", NULL);
    expect(t, fabs(out.t1 - out.t0 - 300 * 0.95) < 1e-2, "the span has both", text_of(t, &out));
    o.graph = true;
    expect_fail(t, rt_sample(launch, NULL, &o, &out, &e), BATON_BAD_ARGUMENT, &e,
                "a graph cannot be timed with a cold cache");
    o = (RtSampling){.repeat = 1, .group = 2, .cold_bytes = 1};
    expect_fail(t, rt_sample(launch, NULL, &o, &out, &e), BATON_BAD_ARGUMENT, &e,
                "with a cold cache a sample is one launch");
    unload(t, &l);
}

static void test_graph(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 40000, &out);
    if (!launch) return;
    RtSampling o = {.repeat = 10, .group = 8, .warmup = 16, .graph = true};
    baton_status s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && out.group == 8 && all_near(out.ms, 10, 0.04), "a replay is eight launches",
           s ? e.text : text_of(t, &out));
    expect(t, t->fake->recorded == 8 && t->fake->replays == 3 + 2 + 10 && t->fake->nlaunches == 1,
           "one graph, replays only", NULL);
    o.group = 0;
    s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s && out.group == 5 && all_near(out.ms, 10, 0.04), "graphs choose their group, too",
           s ? e.text : text_of(t, &out));
    static const char *const calls[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    for (int i = 0; i < COUNT(calls); i++) {
        t->fake->fail = calls[i];
        t->fake->fail_code = 700;
        s = rt_sample(launch, NULL, &o, &out, &e);
        expect_fail(t, s, BATON_DRIVER_ERROR, &e, i == 3 ? "launching a graph: CUDA_ERROR_ILLEGAL"
                                                  : i ? "recording a graph: CUDA_ERROR_ILLEGAL"
                                                      : "beginning to record a graph: CUDA_ERROR");
        expect(t, t->fake->graphs == 0, "nothing is left of it", calls[i]);
    }
    // A launch that fails while it is recorded ends the recording.
    t->fake->fail = "cuLaunchKernelEx";
    t->fake->fail_after = 1;
    expect_fail(t, rt_sample(launch, NULL, &o, &out, &e), BATON_DRIVER_ERROR, &e,
                "launching kernel f");
    t->fake->fail = NULL;
    s = rt_sample(launch, NULL, &o, &out, &e);
    expect(t, !s, "and the next one works", e.text);
    unload(t, &l);
}

static void test_errors(Test *t)
{
    Loaded l;
    RtError e = {0};
    RtSamples out;
    RtLaunch *launch = open_turn(t, &l, 300000, &out);
    if (!launch) return;
    static const struct {
        RtSampling order;
        const char *sentence;
    } row[] = {
        {{.repeat = 0}, "0 samples; 1 to 100000 are possible"},
        {{.repeat = 1, .warmup = -1}, "-1 warm-up launches; 0 to 100000"},
        {{.repeat = 1, .group = 20001}, "20001 launches in a sample; 0 to 20000"},
        {{.repeat = 1, .load_s = -1}, "seconds of idling and of load are 0 or more"},
        {{.repeat = 1, .min_s = NAN}, "seconds of idling and of load are 0 or more"},
        {{.repeat = 1, .cold_bytes = -1}, "the bytes that make the cache cold are 0 or more"},
    };
    for (int i = 0; i < COUNT(row); i++)
        expect_fail(t, rt_sample(launch, NULL, &row[i].order, &out, &e), BATON_BAD_ARGUMENT, &e,
                    row[i].sentence);
    RtSampling o = {.repeat = 40, .group = 1, .load_s = 0.1, .min_s = 0.1, .warmup = 3};
    expect_fail(t, rt_sample(prepare(t, &l, 0), NULL, &o, &out, &e), BATON_BAD_ARGUMENT, &e,
                "nothing is launched for these sizes");
    static const char *const calls[] = {"cuLaunchKernelEx", "cuEventRecord", "cuEventSynchronize",
                                        "cuEventCreate", "cuModuleLoadDataEx", "cuEventQuery",
                                        "cuStreamSynchronize"};
    // Each call fails at many places of the turn, until it is late enough for none.
    for (int i = 0; i < COUNT(calls); i++) {
        int failures = 0;
        baton_status s = BATON_DRIVER_ERROR;
        for (int after = 0; s; after += 1 + after) {
            t->fake->fail = calls[i];
            t->fake->fail_code = 700;
            t->fake->fail_after = after;
            s = rt_sample(launch, NULL, &o, &out, &e);
            failures += s != BATON_OK;
            expect(t, !s || s == BATON_DRIVER_ERROR, calls[i], e.text);
        }
        expect(t, failures > 0 && t->fake->events == 0, "a failure is an error, and leaves nothing",
               calls[i]);
    }
    t->fake->fail = NULL;
    unload(t, &l);
}

// The operations themselves.
static void test_operations(Test *t)
{
    Loaded l;
    RtError e = {0};
    if (!load_text(t, &l, ptx_text)) return;
    RtDevice *d = l.device;
    expect(t, d->l2_bytes == 50 << 20 && d->sm_mhz == 1980 && !strcmp(d->pci, "0000:17:00.0"),
           "facts", d->pci);
    expect(t, d->ops->queues, "a GPU queues", NULL);
    u64 in = 42, out = 0;
    void *a, *b, *mark;
    d->ops->alloc(d, 8, &a, &e);
    d->ops->alloc(d, 8, &b, &e);
    d->ops->copy_in(d, a, &in, 8, &e);
    baton_status s = d->ops->copy(d, b, a, 8, NULL, &e);
    d->ops->copy_out(d, &out, b, 8, &e);
    expect(t, !s && out == 42 && !d->ops->copy(d, NULL, NULL, 0, NULL, &e),
           "copies inside the device", e.text);
    d->ops->release(d, a);
    d->ops->release(d, b);
    bool passed = true;
    d->ops->mark_new(d, &mark, &e);
    d->ops->mark(d, mark, NULL, &e);
    s = d->ops->passed(d, mark, &passed, &e);
    expect(t, !s && !passed, "a mark that has not passed", e.text);
    d->ops->sync(d, NULL, &e);
    s = d->ops->passed(d, mark, &passed, &e);
    expect(t, !s && passed, "and has", e.text);
    t->fake->fail = "cuEventQuery";
    t->fake->fail_code = 700;
    expect_fail(t, d->ops->passed(d, mark, &passed, &e), BATON_DRIVER_ERROR, &e,
                "asking for an event on Fake GPU: CUDA_ERROR_ILLEGAL_ADDRESS");
    t->fake->fail = NULL;
    d->ops->mark_free(d, mark);
    // The default stream cannot be recorded.
    expect_fail(t, d->ops->graph_begin(d, NULL, &e), BATON_DRIVER_ERROR, &e,
                "beginning to record a graph: an error without a name (900");
    d->ops->graph_free(d, NULL);
    unload(t, &l);
}

// ---- the emulator -------------------------------------------------------------------------------

static const char thread_text[] = "kernel f\n"
                                  "  threads 32\n"
                                  "  reg b32 i\n"
                                  "{\n"
                                  "  mov.b32 %i, tid\n"
                                  "}\n";

static void test_emulator(Test *t)
{
    RtError e = {0};
    RtDevice *d;
    RtModule *m;
    RtEmulatorOptions options = {.sms = 1};
    Diag *diag = diag_new(t->arena);
    u16 file = diag_add_file(diag, "test.thr", thread_text, strlen(thread_text));
    ExprPool *pool = expr_pool_new(t->arena, intern_new(t->arena));
    const ThreadModule *thread =
        thread_read(t->arena, pool, diag, file, thread_text, strlen(thread_text));
    RtCode code = {.name = "test.thr", .thread = thread};
    Loaded l = {.plan = parse_plan(t, ptx_text, pool)};
    baton_status s = rt_emulator_open(&options, &d, &e);
    if (!s) s = rt_load(d, &code, &m, NULL, &e);
    expect(t, !s, "the kernel loads on the emulator", e.text);
    if (s) return;
    l.device = d;
    l.module = m;
    RtLaunch *launch = prepare(t, &l, 1);
    double ms[20];
    RtSamples out = {.ms = ms};
    RtSampling o = {.repeat = 20, .group = 2, .warmup = 3, .load_s = 0.005, .min_s = 0.01,
                    .cold_bytes = 0};
    double before = rt_now_ms();
    s = rt_sample(launch, NULL, &o, &out, &e);
    double all = 0;
    bool positive = true;
    for (int i = 0; i < 20; i++) {
        positive &= ms[i] > 0;
        all += ms[i] * 2;
    }
    expect(t, !s && positive && !out.host_bound && out.group == 2, "samples on the emulator",
           e.text);
    expect(t, all <= out.t1 - out.t0 && out.t0 >= before + out.load_ms && out.load_ms >= 5 &&
                  rt_now_ms() - before >= out.load_ms + 10,
           "are its own time", text_of(t, &out));
    o = (RtSampling){.repeat = 3, .group = 1, .cold_bytes = 4096};
    expect(t, !rt_sample(launch, NULL, &o, &out, &e), "with a cold cache", e.text);
    o = (RtSampling){.repeat = 3};
    expect(t, !rt_sample(launch, NULL, &o, &out, &e) && out.group >= 1, "and groups", e.text);
    o.graph = true;
    expect_fail(t, rt_sample(launch, NULL, &o, &out, &e), BATON_UNSUPPORTED, &e,
                "the emulator has no graphs");
    expect(t, d->l2_bytes == -1 && !*d->pci && !d->ops->queues, "facts of the emulator", NULL);
    rt_unload(m);
    d->ops->close(d);
}

int main(int argc, char **argv)
{
    Test t;
    void *library;
    if (!bench_open(&t, argc, argv, &library)) return 1;
    test_operations(&t);
    test_samples(&t);
    test_order(&t);
    test_group(&t);
    test_host_bound(&t);
    test_batches(&t);
    test_load(&t);
    test_cold(&t);
    test_graph(&t);
    test_errors(&t);
    test_emulator(&t);
    return bench_close(&t, library, "sample");
}
