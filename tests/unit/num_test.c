// num_test.c - the number formats of base/num.c against an independent account of them: the value
// of every pattern is computed with ldexp, and nearest even is decided by comparing distances in
// double, never by the bit tricks under test.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
} Tally;

static void check(Tally *t, bool ok, const char *what, u32 input, u32 got, u32 want)
{
    if (ok) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20) printf("%s of %08x: got %08x, want %08x\n", what, input, got, want);
}

// One narrow format as the test sees it; `to` and `from` are the functions under test.
typedef struct {
    const char *name;
    int exp_bits, frac_bits;
    bool has_infinity, saturates;
    u32 nan;                // what a NaN narrows to
    u32 (*narrow)(float);
    float (*widen)(u32);
} Row;

static u32 narrow_bf16(float x) { return bf16_from_f32(x); }
static u32 narrow_f16(float x) { return f16_from_f32(x); }
static u32 narrow_e4m3(float x) { return e4m3_from_f32(x); }
static u32 narrow_e5m2(float x) { return e5m2_from_f32(x); }
static float widen_bf16(u32 h) { return bf16_to_f32((u16)h); }
static float widen_f16(u32 h) { return f16_to_f32((u16)h); }
static float widen_e4m3(u32 b) { return e4m3_to_f32((u8)b); }
static float widen_e5m2(u32 b) { return e5m2_to_f32((u8)b); }

static const Row rows[] = {
    {"bf16", 8, 7, true, false, 0x7fff, narrow_bf16, widen_bf16},
    {"f16", 5, 10, true, false, 0x7fff, narrow_f16, widen_f16},
    {"e4m3", 4, 3, false, true, 0x7f, narrow_e4m3, widen_e4m3},
    {"e5m2", 5, 2, true, true, 0x7f, narrow_e5m2, widen_e5m2},
};

// Value of the magnitude pattern `m` (no sign), also one beyond the largest finite number, where
// infinity counts as the next power of two, as rounding needs it.
static double value(const Row *r, u32 m)
{
    int bias = (1 << (r->exp_bits - 1)) - 1;
    int field = (int)(m >> r->frac_bits);
    double frac = m & ((1u << r->frac_bits) - 1);
    double one = ldexp(1, r->frac_bits);
    return field ? ldexp(one + frac, field - bias - r->frac_bits)
                 : ldexp(frac, 1 - bias - r->frac_bits);
}

static u32 largest(const Row *r)
{
    u32 ones = (1u << (r->exp_bits + r->frac_bits)) - 1;
    return r->has_infinity ? ones - (1u << r->frac_bits) : ones - 1;
}

// Nearest even by search over the patterns: the reference.
static u32 reference(const Row *r, float x)
{
    u32 sign = (f32_bits(x) >> 31) << (r->exp_bits + r->frac_bits);
    double v = fabs((double)x);
    if (v != v) return r->nan;
    u32 low = 0, high = largest(r) + 1; // value(low) <= v, v < value(high) unless it overflows
    u32 beyond = r->saturates ? largest(r) : high;
    if (v >= value(r, high)) return sign | beyond;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (value(r, middle) <= v) low = middle; else high = middle;
    }
    double below = v - value(r, low), above = value(r, high) - v; // exact: few bits, close by
    u32 m = below < above || (below == above && !(low & 1)) ? low : high;
    return sign | (m > largest(r) ? beyond : m);
}

// Every pattern: its value, back again, and the floats around it and around the two midpoints.
static void exhaustive(Tally *t, const Row *r)
{
    u32 count = 2u << (r->exp_bits + r->frac_bits), sign = count / 2;
    for (u32 p = 0; p < count; p++) {
        u32 m = p & (sign - 1);
        float x = r->widen(p);
        if (m > largest(r) + r->has_infinity) {
            check(t, x != x, "widen NaN", p, f32_bits(x), 0x7fffffff);
            check(t, r->narrow(x) == r->nan, "narrow NaN", p, r->narrow(x), r->nan);
            continue;
        }
        if (m > largest(r)) {
            u32 want = (p & sign ? 0xff800000 : 0x7f800000);
            u32 back = r->saturates ? p - 1 : p;
            check(t, f32_bits(x) == want, "widen infinity", p, f32_bits(x), want);
            check(t, r->narrow(x) == back, "narrow infinity", p, r->narrow(x), back);
            continue;
        }
        double want = p & sign ? -value(r, m) : value(r, m);
        check(t, (double)x == want && (signbit(x) != 0) == (p >= sign), r->name, p, f32_bits(x),
              f32_bits((float)want));
        check(t, r->narrow(x) == p, "back", p, r->narrow(x), p);
        double middle = (value(r, m) + value(r, m + 1)) / 2 * (p & sign ? -1 : 1);
        u32 near[] = {f32_bits(x), f32_bits((float)middle)};
        for (int i = 0; i < COUNT(near); i++)
            for (int d = -1; d <= 1; d++) {
                float y = f32_of_bits(near[i] + (u32)d);
                if (fabs(y) > 3e38f || y != y) continue;
                check(t, r->narrow(y) == reference(r, y), r->name, f32_bits(y), r->narrow(y),
                      reference(r, y));
            }
    }
}

// Floats with every exponent and arbitrary fractions.
static void scattered(Tally *t, const Row *r)
{
    u32 state = 12345;
    for (int i = 0; i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        u32 u = state ^ state >> 15;
        if ((u & 0x7f800000) == 0x7f800000) continue;
        float x = f32_of_bits(u);
        check(t, r->narrow(x) == reference(r, x), r->name, u, r->narrow(x), reference(r, x));
    }
}

// Facts measured on the hardware, and the corners one would write down by hand.
static void directed(Tally *t)
{
    static const struct {
        int row;      // of `rows`; -1: tf32
        u32 input, want;
    } cases[] = {
        {0, 0x7fc12345, 0x7fff}, {0, 0xffc12345, 0x7fff}, {0, 0x7f7fffff, 0x7f80},
        {0, 0x3f808000, 0x3f80}, {0, 0x3f818000, 0x3f82}, {0, 0x00008000, 0x0000},
        {0, 0x00018000, 0x0002}, {0, 0x80000001, 0x8000}, {0, 0x00010000, 0x0001},
        {1, 0x7fc12345, 0x7fff}, {1, 0x4788b800, 0x7c00}, {1, 0x477fefff, 0x7bff},
        {1, 0x477ff000, 0x7c00}, {1, 0x33000000, 0x0000}, {1, 0x33000001, 0x0001},
        {1, 0x33c00000, 0x0002}, {1, 0x387fe000, 0x0400}, {1, 0xff800000, 0xfc00},
        {2, 0x7fc12345, 0x7f},   {2, 0xffc12345, 0x7f},   {2, 0x447a0000, 0x7e},
        {2, 0x43e00000, 0x7e},   {2, 0x43e80000, 0x7e},   {2, 0xff800000, 0xfe},
        {2, 0x3a800000, 0x00},   {2, 0x3a800001, 0x01},   {2, 0x3b400000, 0x02},
        {3, 0x7f800000, 0x7b},   {3, 0xff7fffff, 0xfb},   {3, 0x7fffffff, 0x7f},
        {3, 0x37000000, 0x00},   {3, 0x37000001, 0x01},   {3, 0x47700000, 0x7b},
        {-1, 0x3f801000, 0x3f802000}, {-1, 0xbf801000, 0xbf802000}, {-1, 0x3f800fff, 0x3f800000},
        {-1, 0x7fc12345, 0x7fc12000}, {-1, 0x7f800000, 0x7f800000}, {-1, 0x7f7fffff, 0x7f800000},
        {-1, 0x00001000, 0x00002000}, {-1, 0x00000fff, 0x00000000}, {-1, 0x80000000, 0x80000000},
        {-1, 0x7f801fff, 0x7f800000}, {-1, 0xffffffff, 0xffffe000}, {-1, 0xff7ff000, 0xff800000},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        float x = f32_of_bits(cases[i].input);
        u32 got = cases[i].row < 0 ? tf32_from_f32(x) : rows[cases[i].row].narrow(x);
        check(t, got == cases[i].want, cases[i].row < 0 ? "tf32" : rows[cases[i].row].name,
              cases[i].input, got, cases[i].want);
    }
}

static void types(Tally *t)
{
    for (int i = 0; i < DT_COUNT; i++)
        check(t, dtype_by_name(dtype_name[i]) == i, "dtype", (u32)i, 0, (u32)i);
    static const struct {
        const char *name;
        int want;
    } names[] = {{"float", DT_F32}, {"half", DT_F16},   {"bfp16", DT_BF16}, {"f8", DT_E4M3},
                 {"int", DT_S32},   {"double", DT_F64}, {"bf1", -1},        {"", -1}};
    for (int i = 0; i < COUNT(names); i++) {
        int got = dtype_by_name(names[i].name);
        check(t, got == names[i].want, names[i].name, 0, (u32)got, (u32)names[i].want);
    }
    check(t, dtype_bytes[DT_BF16] == 2 && dtype_bytes[DT_TF32] == 4 && dtype_bytes[DT_E4M3] == 1,
          "dtype_bytes", 0, 0, 0);
}

int main(void)
{
    Tally t = {0, 0};
    for (int i = 0; i < COUNT(rows); i++) {
        exhaustive(&t, &rows[i]);
        scattered(&t, &rows[i]);
    }
    directed(&t);
    types(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed ? 1 : 0;
}
