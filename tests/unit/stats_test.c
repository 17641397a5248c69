// stats_test.c - medians, quantiles, deciles, joules from a counter that steps, and the summary of
// a figure, each against numbers worked out by hand.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

static void near(const char *what, double got, double want, double tolerance)
{
    bool ok = isnan(want) ? isnan(got) : fabs(got - want) <= tolerance * fabs(want);
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s: got %.12g, want %.12g\n", what, got, want);
}

static void equal(const char *what, double got, double want) { near(what, got, want, 1e-12); }

static void quantiles(Arena *a)
{
    const double x[] = {5, 1, 4, 2, 3}, y[] = {4, 1, 3, 2};
    equal("median of five", bench_median(a, x, 5), 3);
    equal("median of four", bench_median(a, y, 4), 2.5);
    equal("median of one", bench_median(a, x, 1), 5);
    equal("median of none", bench_median(a, x, 0), NAN);
    equal("least", bench_quantile(a, x, 5, 0), 1);
    equal("largest", bench_quantile(a, x, 5, 1), 5);
    equal("quarter", bench_quantile(a, x, 5, 0.25), 2);
    equal("tenth, between neighbours", bench_quantile(a, x, 5, 0.1), 1.4);
    equal("the input stays", x[0], 5);
}

static void deciles(void)
{
    double x[25];
    for (int i = 0; i < 25; i++) x[i] = 10;
    equal("level", bench_decile_change(x, 25) + 1, 1);
    // The tenth of 25 samples is two of them.
    x[0] = 9, x[1] = 11, x[23] = 10, x[24] = 12;
    equal("two and two", bench_decile_change(x, 25), 0.1);
    equal("of one", bench_decile_change(x, 1) + 1, 1);
    equal("of three: one and one", bench_decile_change((double[]){2, 7, 3}, 3), 0.5);
    equal("of none", bench_decile_change(x, 0), NAN);
}

// A load of `watts` whose counter steps every 100 ms, looked at every `period` ms for `n` times.
static double stepping(double watts, double period, int n, double first)
{
    RtReading r[1000];
    for (int i = 0; i < n; i++) {
        double ms = first + i * period;
        r[i] = (RtReading){.ms = ms, .joules = 1e6 + watts * 0.1 * floor(ms / 100)};
    }
    return bench_watts(r, n);
}

static void watts(void)
{
    equal("looked at when it steps", stepping(700, 20, 100, 0), 700);
    // A step is seen up to a period late: 7 ms of 1.8 s or more.
    near("looked at now and then", stepping(700, 7, 300, 3), 700, 0.004);
    near("the idle ends do not count", stepping(650, 9.7, 210, 55), 650, 0.006);
    equal("one step", stepping(700, 20, 8, 10), NAN);
    equal("no step", stepping(700, 2, 20, 10), NAN);
    equal("no reading", bench_watts(NULL, 0), NAN);
    RtReading r[] = {{.ms = 0, .joules = 5},
                     {.ms = 100, .joules = NAN},
                     {.ms = 200, .joules = 15},
                     {.ms = 300, .joules = NAN},
                     {.ms = 400, .joules = 35}};
    equal("what is not known is left out", bench_watts(r, 5), 100);
    r[4].joules = 2;
    equal("a counter that was reset", bench_watts(r, 5), NAN);
}

static double peak(BenchMachine m)
{
    return bench_peak_tflops(&(Bench){.machine = m, .product_rate = 1});
}

static void peaks(void)
{
    equal("8-bit operands",
          bench_peak_tflops(
              &(Bench){.machine = {.name = "NVIDIA H200", .sms = 132}, .product_rate = 2}),
          1979);
    equal("H200", peak((BenchMachine){.name = "NVIDIA H200", .sms = 132}), 989.5);
    equal("H100", peak((BenchMachine){.name = "NVIDIA H100 80GB HBM3", .sms = 132}), 989.5);
    equal("SMs not known", peak((BenchMachine){.name = "NVIDIA H200"}), 989.5);
    equal("66 SMs", peak((BenchMachine){.name = "NVIDIA H100", .sms = 66}), 494.75);
    equal("another", peak((BenchMachine){.name = "emulator", .sms = 1}), NAN);
}

static void add_turn(Bench *b, int impl, int round, double x, double y, double z, u64 reasons)
{
    BenchTurn t = {.impl = impl, .round = round, .regime = BENCH_SUSTAINED, .group = 1};
    vec_push(b->arena, &t.ms, x);
    vec_push(b->arena, &t.ms, y);
    vec_push(b->arena, &t.ms, z);
    for (int i = 0; i < 4; i++) {
        RtReading r = {.ms = i * 100,
                       .sm_mhz = 1500 + 10 * i,
                       .celsius = 60,
                       .joules = 50 * i,
                       .reasons = i ? reasons : 0,
                       .has_reasons = true};
        vec_push(b->arena, &t.during, r);
    }
    vec_push(b->arena, &b->turns, t);
}

static void summaries(Arena *a)
{
    Bench b = {.arena = a, .yardstick = 0, .cache = BENCH_WARM};
    BenchImpl impl = {.name = "y"};
    vec_push(a, &b.impls, impl);
    vec_push(a, &b.impls, impl);
    BenchSize size = {.flops = 4e9, .bytes = 2e6};
    vec_push(a, &b.sizes, size);
    add_turn(&b, 0, 0, 4.0, 4.1, 4.2, 0);
    add_turn(&b, 1, 0, 2.0, 2.1, 1.9, RT_REASON_POWER);
    add_turn(&b, 1, 1, 2.2, 2.3, 2.1, RT_REASON_POWER | RT_REASON_HEAT);
    add_turn(&b, 0, 1, 4.4, 4.5, 4.6, 0);
    BenchSummary s = bench_summary(&b, 1, 0, BENCH_SUSTAINED);
    equal("samples", (double)s.samples, 6);
    equal("rounds", (double)s.rounds, 2);
    equal("median of all", s.median, 2.1);
    equal("min", s.min, 1.9);
    equal("max", s.max, 2.3);
    equal("least round", s.low, 2.0);
    equal("largest round", s.high, 2.2);
    equal("TFLOPS", s.tflops, 4e9 / 2.1e-3 / 1e12);
    equal("TB/s", s.tbs, 2e6 / 2.1e-3 / 1e12);
    equal("ratio", s.ratio, 4.3 / 2.1);
    equal("ratio of a round", s.ratio_low, 4.5 / 2.2);
    equal("ratio of the other", s.ratio_high, 4.1 / 2.0);
    // 50 joules in 100 ms; the launches of the two turns take 2.0 and 2.2 ms.
    equal("watts", s.watts, 500);
    equal("joules", s.joules, (500 * 2.0e-3 + 500 * 2.2e-3) / 2);
    equal("TFLOPS/W", s.tflops_per_watt, 4e9 / 1.05 / 1e12);
    equal("MHz", s.sm_mhz, 1515);
    equal("Celsius", s.celsius, 60);
    equal("limits: power in 6 of 8, heat in 3 of 8", (double)s.limits, RT_REASON_POWER);
    equal("nothing in a burst", (double)bench_summary(&b, 1, 0, BENCH_BURST).samples, 0);
    equal("no median there", bench_summary(&b, 1, 0, BENCH_BURST).median, NAN);
    b.cache = BENCH_COLD;
    equal("cold: no joules of a launch", bench_summary(&b, 1, 0, BENCH_SUSTAINED).joules, NAN);
    b.yardstick = -1;
    equal("no yardstick", bench_summary(&b, 1, 0, BENCH_SUSTAINED).ratio, NAN);
}

int main(void)
{
    Arena *a = arena_new(0);
    quantiles(a);
    deciles();
    watts();
    peaks();
    summaries(a);
    printf("%d passed, %d failed\n", passed, failed);
    arena_free(a);
    return failed != 0;
}
