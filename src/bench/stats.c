// stats.c - what samples and readings come to: medians, deciles, joules. Everything that tables,
// guards, plots and comparisons show is computed here, from the record alone.
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

double bench_quantile(Arena *a, const double *x, i64 n, double q)
{
    if (n <= 0) return NAN;
    double *sorted = ARENA_ARRAY(a, double, n);
    memcpy(sorted, x, sizeof(double) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(double), by_value);
    double at = q * (double)(n - 1);
    i64 i = (i64)at;
    if (i >= n - 1) return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

double bench_median(Arena *a, const double *x, i64 n) { return bench_quantile(a, x, n, 0.5); }

static double mean(const double *x, i64 n)
{
    double sum = 0;
    for (i64 i = 0; i < n; i++) sum += x[i];
    return n ? sum / (double)n : NAN;
}

double bench_decile_change(const double *x, i64 n)
{
    if (n <= 0) return NAN;
    i64 tenth = MAX(n / 10, (i64)1);
    return mean(x + n - tenth, tenth) / mean(x, tenth) - 1;
}

// A counter that went back was reset meanwhile: nothing can be said then.
double bench_watts(const RtReading *r, i64 n)
{
    const RtReading *last = NULL, *from = NULL, *to = NULL;
    for (const RtReading *x = r; x < r + n; x++) {
        if (isnan(x->joules)) continue;
        if (last && x->joules < last->joules) return NAN;
        if (last && x->joules > last->joules) {
            if (!from) from = x;
            to = x;
        }
        last = x;
    }
    if (!from || to == from || !(to->ms > from->ms)) return NAN;
    return (to->joules - from->joules) / (to->ms - from->ms) * 1e3;
}

// 132 SMs at 1.83 GHz, 4096 operations in a clock on each; a part with fewer SMs has its share.
double bench_peak_tflops(const Bench *b)
{
    enum { DATA_SHEET_SMS = 132 };
    const BenchMachine *m = &b->machine;
    if (!strstr(m->name, "H100") && !strstr(m->name, "H200")) return NAN;
    return 989.5 * b->product_rate * (m->sms > 0 ? m->sms : DATA_SHEET_SMS) / DATA_SHEET_SMS;
}

// Measured with 16-bit operands.
double bench_ceiling_tflops(const Bench *b) { return b->machine.ceiling_tflops * b->product_rate; }

const BenchCase *bench_case(const Bench *b, int impl, int size)
{
    for (int i = 0; i < b->cases.n; i++)
        if (b->cases.at[i].impl == impl && b->cases.at[i].size == size) return &b->cases.at[i];
    return NULL;
}

bool bench_has(const Bench *b, BenchRegime regime)
{
    for (int i = 0; i < b->turns.n; i++)
        if (b->turns.at[i].regime == regime && b->turns.at[i].ms.n) return true;
    return false;
}

static bool is_of(const BenchTurn *t, int impl, int size, BenchRegime regime)
{
    return t->impl == impl && t->size == size && t->regime == regime && t->ms.n;
}

// Of all samples of the turns of one round (-1: of all rounds).
static double median_of(const Bench *b, int impl, int size, BenchRegime regime, int round)
{
    VEC(double) all = {0};
    for (int i = 0; i < b->turns.n; i++) {
        const BenchTurn *t = &b->turns.at[i];
        if (!is_of(t, impl, size, regime) || (round >= 0 && t->round != round)) continue;
        for (int k = 0; k < t->ms.n; k++) vec_push(b->arena, &all, t->ms.at[k]);
    }
    return bench_median(b->arena, all.at, all.n);
}

// A fold of numbers of which some are not known.
static double least(double a, double b) { return !(b < a) && !isnan(a) ? a : b; }
static double largest(double a, double b) { return !(b > a) && !isnan(a) ? a : b; }

// The rounds: extremes of their medians, and of their ratios to the yardstick in the same round, so
// that what drifts for both falls out.
static void sum_rounds(const Bench *b, int impl, int size, BenchRegime regime, BenchSummary *s)
{
    int last = -1;
    for (int i = 0; i < b->turns.n; i++)
        if (is_of(&b->turns.at[i], impl, size, regime)) last = MAX(last, b->turns.at[i].round);
    for (int round = 0; round <= last; round++) {
        double own = median_of(b, impl, size, regime, round);
        if (isnan(own)) continue;
        s->rounds++;
        s->low = least(s->low, own);
        s->high = largest(s->high, own);
        if (b->yardstick < 0) continue;
        double ratio = median_of(b, b->yardstick, size, regime, round) / own;
        s->ratio_low = least(s->ratio_low, ratio);
        s->ratio_high = largest(s->ratio_high, ratio);
    }
    if (b->yardstick >= 0)
        s->ratio = median_of(b, b->yardstick, size, regime, -1) / s->median;
}

// Joules of a launch are the watts of a turn times the mean time of its launches. Not with a cold
// cache: the counter then also counts what overwrote the cache between the launches.
static void sum_power(const Bench *b, int impl, int size, BenchRegime regime, BenchSummary *s)
{
    VEC(double) watts = {0}, joules = {0}, mhz = {0}, celsius = {0};
    i64 readings = 0, with[64] = {0};
    for (int i = 0; i < b->turns.n; i++) {
        const BenchTurn *t = &b->turns.at[i];
        if (!is_of(t, impl, size, regime)) continue;
        double w = bench_watts(t->during.at, t->during.n);
        if (!isnan(w)) {
            vec_push(b->arena, &watts, w);
            vec_push(b->arena, &joules, w * mean(t->ms.at, t->ms.n) / 1e3);
        }
        for (int k = 0; k < t->during.n; k++) {
            const RtReading *r = &t->during.at[k];
            if (!isnan(r->sm_mhz)) vec_push(b->arena, &mhz, r->sm_mhz);
            if (!isnan(r->celsius)) vec_push(b->arena, &celsius, r->celsius);
            readings += r->has_reasons;
            for (int bit = 0; r->has_reasons && bit < 64; bit++) with[bit] += r->reasons >> bit & 1;
        }
    }
    s->watts = mean(watts.at, watts.n);
    if (b->cache == BENCH_WARM) s->joules = mean(joules.at, joules.n);
    s->sm_mhz = bench_median(b->arena, mhz.at, mhz.n);
    s->celsius = bench_median(b->arena, celsius.at, celsius.n);
    for (int bit = 0; bit < 64; bit++)
        if (2 * with[bit] > readings) s->limits |= (u64)1 << bit;
}

BenchSummary bench_summary(const Bench *b, int impl, int size, BenchRegime regime)
{
    BenchSummary s = {.median = NAN, .min = NAN, .max = NAN, .low = NAN, .high = NAN,
                      .tflops = NAN, .tbs = NAN, .ratio = NAN, .ratio_low = NAN,
                      .ratio_high = NAN, .joules = NAN, .watts = NAN, .tflops_per_watt = NAN,
                      .sm_mhz = NAN, .celsius = NAN};
    for (int i = 0; i < b->turns.n; i++) {
        const BenchTurn *t = &b->turns.at[i];
        if (!is_of(t, impl, size, regime)) continue;
        s.samples += t->ms.n;
        for (int k = 0; k < t->ms.n; k++) {
            s.min = least(s.min, t->ms.at[k]);
            s.max = largest(s.max, t->ms.at[k]);
        }
    }
    if (!s.samples) return s;
    const BenchSize *job = &b->sizes.at[size];
    s.median = median_of(b, impl, size, regime, -1);
    if (job->flops > 0) s.tflops = job->flops / s.median / 1e9;
    if (job->bytes > 0) s.tbs = job->bytes / s.median / 1e9;
    sum_rounds(b, impl, size, regime, &s);
    sum_power(b, impl, size, regime, &s);
    if (job->flops > 0) s.tflops_per_watt = job->flops / s.joules / 1e12;
    return s;
}
