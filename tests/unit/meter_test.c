// meter_test.c - the management library without a GPU: what is said when it, one of its functions
// or the GPU is missing, the units of what it answers, and the watching thread. On the fake of
// fake_nvml.c.
//
//     meter_test [folder of the fakes]     (default: fake/ beside the program)
#include "../../rt/meter.h"
#include "../../rt/rt.h"
#include "fake_nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int passed, failed;
    const char *folder, *nvml, *old;
    FakeNvml *fake, *fake_old;
    Arena *arena;
} Test;

static void expect(Test *t, bool ok, const char *what, const char *detail)
{
    t->passed += ok;
    t->failed += !ok;
    if (!ok) printf("FAILED %s: %s\n", what, detail ? detail : "(nothing)");
}

static const FakeNvml healthy = {
    .gpus = 1, .millijoules = 1234567, .reasons = 4, .sm_mhz = 1485, .memory_mhz = 3201,
    .max_mhz = 1980, .milliwatts = 699500, .limit_milliwatts = 700000, .celsius = 61,
};

static void test_values(Test *t)
{
    *t->fake = healthy;
    RtMeter *m = rt_meter_open(t->nvml, "0000:17:00.0");
    expect(t, !rt_meter_missing(m), "nothing is missing", rt_meter_missing(m));
    double before = rt_now_ms();
    RtReading r = rt_meter_read(m);
    expect(t, r.ms >= before && r.ms <= rt_now_ms(), "the time of a reading", NULL);
    expect(t, r.sm_mhz == 1485 && r.memory_mhz == 3201, "clocks in MHz", NULL);
    expect(t, fabs(r.watts - 699.5) < 1e-9 && fabs(r.joules - 1234.567) < 1e-9,
           "W from mW and J from mJ", NULL);
    expect(t, r.celsius == 61 && r.has_reasons && r.reasons == RT_REASON_POWER,
           "temperature and limits", NULL);
    expect(t, !strcmp(rt_meter_driver(m), "580.1") && !strcmp(rt_meter_uuid(m), "GPU-fake-0"),
           "driver and identity", rt_meter_driver(m));
    expect(t, rt_meter_power_limit(m) == 700 && rt_meter_max_sm_mhz(m) == 1980,
           "the limits of the card", NULL);
    rt_meter_close(m);
    expect(t, t->fake->starts == 1 && t->fake->ends == 1, "the library is started and ended", NULL);
}

static bool blind(RtMeter *m)
{
    RtReading r = rt_meter_read(m);
    return isnan(r.sm_mhz) && isnan(r.memory_mhz) && isnan(r.watts) && isnan(r.celsius) &&
           isnan(r.joules) && !r.has_reasons && !r.reasons && r.ms > 0 &&
           isnan(rt_meter_power_limit(m)) && isnan(rt_meter_max_sm_mhz(m)) && !*rt_meter_uuid(m);
}

// Without a GPU everything answers and nothing is known.
static void expect_blind(Test *t, RtMeter *m, const char *sentence)
{
    const char *why = rt_meter_missing(m);
    expect(t, why && strstr(why, sentence), sentence, why);
    expect(t, blind(m), "without a GPU nothing is known", sentence);
    i64 n = -1;
    expect(t, rt_meter_watch(m, 1) && !rt_meter_watch_end(m, &n) && n == 0,
           "and a watch has no readings", sentence);
    rt_meter_close(m);
}

static void test_missing(Test *t)
{
    *t->fake = healthy;
    expect_blind(t, rt_meter_open("/nowhere/libnvidia-ml.so.1", NULL),
                 "no management library: /nowhere/libnvidia-ml.so.1");
    expect_blind(t, rt_meter_open("libm.so.6", NULL),
                 "the management library libm.so.6 has no nvmlInit_v2");
    t->fake->fail = "nvmlInit_v2";
    t->fake->fail_code = 9;
    expect_blind(t, rt_meter_open(t->nvml, NULL),
                 "starting: the management library answers 9 (Unknown Error)");
    expect(t, t->fake->ends == 0, "what did not start is not ended", NULL);
    t->fake->fail = NULL;
    expect_blind(t, rt_meter_open(t->nvml, "0000:18:00.0"),
                 "the GPU at 0000:18:00.0: the management library answers 6");
    t->fake->gpus = 3;
    expect_blind(t, rt_meter_open(t->nvml, NULL), "sees 3 GPUs, and which one is meant is not");
    RtMeter *m = rt_meter_open(t->nvml, "00000000:19:00.0");
    expect(t, !strcmp(rt_meter_uuid(m), "GPU-fake-2"), "one of several by its address",
           rt_meter_uuid(m));
    rt_meter_close(m);
    t->fake->gpus = 0;
    expect_blind(t, rt_meter_open(t->nvml, NULL), "sees 0 GPUs");
    t->fake->gpus = 1;
    m = rt_meter_open(t->nvml, NULL);
    expect(t, !rt_meter_missing(m) && !strcmp(rt_meter_uuid(m), "GPU-fake-0"),
           "the only one without an address", rt_meter_missing(m));
    rt_meter_close(m);
    rt_meter_close(NULL);
}

// One function without an answer leaves the others alone.
static void test_partial(Test *t)
{
    *t->fake = healthy;
    t->fake->fail = "nvmlDeviceGetTotalEnergyConsumption";
    t->fake->fail_code = 3;
    RtMeter *m = rt_meter_open(t->nvml, NULL);
    const char *why = rt_meter_missing(m);
    expect(t, why && !strcmp(why, "energy: the management library answers 3 (Not Supported)"),
           "the counter has no answer", why);
    RtReading r = rt_meter_read(m);
    expect(t, isnan(r.joules) && r.sm_mhz == 1485, "the rest is known", NULL);
    rt_meter_close(m);

    *t->fake_old = healthy;
    t->fake_old->reasons = 0x20;
    m = rt_meter_open(t->old, NULL);
    why = rt_meter_missing(m);
    expect(t, why && strstr(why, "-old.so.1 has no nvmlDeviceGetTotalEnergyConsumption") &&
                  !strstr(why, "Reasons"),
           "an older library lacks the counter only", why);
    r = rt_meter_read(m);
    expect(t, isnan(r.joules) && r.has_reasons && r.reasons == RT_REASON_HEAT,
           "and has the limits under their older name", NULL);
    rt_meter_close(m);
}

static void sleep_ms(double ms)
{
    struct timespec pause = {.tv_nsec = (long)(ms * 1e6)};
    nanosleep(&pause, NULL);
}

static void test_watch(Test *t)
{
    *t->fake = healthy;
    RtMeter *m = rt_meter_open(t->nvml, NULL);
    i64 n = -1;
    expect(t, !rt_meter_watch_end(m, &n) && n == 0, "no watch, no readings", NULL);
    t->fake->energy_calls = 0;
    t->fake->step = 7000;
    t->fake->calls_a_step = 4;
    double start = rt_now_ms();
    expect(t, rt_meter_watch(m, 2), "a watch begins", NULL);
    sleep_ms(60);
    RtReading *r = rt_meter_watch_end(m, &n);
    double end = rt_now_ms();
    expect(t, r && n >= 4 && n <= (i64)((end - start) / 2) + 3 && n == t->fake->energy_calls,
           "readings by the period, and all are kept", NULL);
    bool ordered = r && r[0].ms >= start && r[n - 1].ms <= end, steps = r;
    for (i64 i = 0; r && i < n; i++) {
        if (i) ordered &= r[i].ms >= r[i - 1].ms;
        steps &= fabs(r[i].joules - (1234.567 + 7.0 * (double)((i + 1) / 4))) < 1e-6;
    }
    expect(t, ordered, "readings in order, inside the watch", NULL);
    expect(t, steps, "the counter's steps", NULL);
    free(r);

    // The end does not wait for the period, and a short watch has its two ends.
    start = rt_now_ms();
    expect(t, rt_meter_watch(m, 60000), "a second watch", NULL);
    r = rt_meter_watch_end(m, &n);
    expect(t, r && n == 2 && rt_now_ms() - start < 10000, "a watch ends at once", NULL);
    free(r);
    expect(t, rt_meter_watch(m, 1), "a watch that closing ends", NULL);
    rt_meter_close(m);
}

static void test_reasons(Test *t)
{
    static const struct {
        u64 bits;
        const char *text;
    } row[] = {{0, "none"}, {4, "power"}, {0x64, "power+heat+heat(hw)"}, {0x1, "idle"},
               {0x408, "hardware+0x400"}, {0x1ff, "idle+setting+power+hardware+sync+heat+heat(hw)"
                                                  "+brake+display"}};
    for (int i = 0; i < COUNT(row); i++) {
        const char *got = rt_meter_reasons(t->arena, row[i].bits);
        expect(t, !strcmp(got, row[i].text), row[i].text, got);
    }
}

static FakeNvml *state_of(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *get;
    get = handle ? dlsym(handle, "fake_nvml") : NULL;
    if (!get) return NULL;
    FakeNvmlState *state;
    memcpy(&state, &get, sizeof state);
    return state();
}

int main(int argc, char **argv)
{
    Test t = {.arena = arena_new(0)};
    const char *slash = strrchr(argv[0], '/');
    t.folder = argc > 1 ? argv[1]
                        : arena_printf(t.arena, "%.*s/fake", slash ? (int)(slash - argv[0]) : 1,
                                       slash ? argv[0] : ".");
    t.nvml = arena_printf(t.arena, "%s/libnvidia-ml.so.1", t.folder);
    t.old = arena_printf(t.arena, "%s/libnvidia-ml-old.so.1", t.folder);
    t.fake = state_of(t.nvml);
    t.fake_old = state_of(t.old);
    if (!t.fake || !t.fake_old) {
        printf("FAILED: no fake management library in %s\n", t.folder);
        return 1;
    }
    test_values(&t);
    test_missing(&t);
    test_partial(&t);
    test_watch(&t);
    test_reasons(&t);
    arena_free(t.arena);
    printf("meter: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
