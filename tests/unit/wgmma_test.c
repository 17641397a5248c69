// wgmma_test.c - the wgmma arithmetic: the fast path against the reference (both vector variants,
// all types, all families of exponents, every width), and the reference against facts that were
// measured on the hardware.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/emu/wgmma_num.h"
#include "wgmma_cases.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct {
    int passed, failed;
} Tally;

static const DType types[CASE_TYPES] = {DT_BF16, DT_F16, DT_TF32, DT_E4M3, DT_E5M2};

static void check(Tally *t, const char *what, int index, float got, float want)
{
    if (f32_bits(got) == f32_bits(want)) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20)
        printf("%s %d: got %08x, want %08x\n", what, index, f32_bits(got), f32_bits(want));
}

// ---- fast against reference --------------------------------------------------------------------
typedef void StepFn(DType, int, int, const void *, const void *, float *, bool, bool, bool);

static void against_reference(Tally *t, StepFn *step, int type, int family, u32 number)
{
    static Case operand;
    static float got[CASE_ROWS * CASE_COLUMNS];
    case_make(&operand, type, family, number);
    int k = wgmma_k(types[type]);
    bool scale_d = number % 5 != 0, neg_a = number % 3 == 1, neg_b = number % 4 == 1;
    memcpy(got, operand.c, sizeof got);
    step(types[type], CASE_COLUMNS, k, operand.a, operand.b, got, scale_d, neg_a, neg_b);
    for (int i = 0; i < CASE_ROWS * CASE_COLUMNS; i++) {
        float want = wgmma_reference(types[type], k,
                                     operand.a + i / CASE_COLUMNS * CASE_STEP_BYTES,
                                     operand.b + i % CASE_COLUMNS * CASE_STEP_BYTES, operand.c[i],
                                     scale_d, neg_a != neg_b);
        check(t, case_types[type].name, i, got[i], want);
    }
}

// Wider instructions: column j of an n-wide one is column j % 8 of case j / 8 on the same A.
static void widths(Tally *t, StepFn *step, int type, int family)
{
    static Case first, other;
    static u8 b[WGMMA_MAX_N * CASE_STEP_BYTES];
    static float c[CASE_ROWS * WGMMA_MAX_N], d[CASE_ROWS * CASE_COLUMNS];
    case_make(&first, type, family, 1000);
    for (int n = 8; n <= WGMMA_MAX_N; n += n < 32 ? 8 : 56) {
        for (int g = 0; g < n / 8; g++) {
            case_make(&other, type, family, 1000 + (u32)g);
            memcpy(b + g * 8 * CASE_STEP_BYTES, other.b, sizeof other.b);
            for (int i = 0; i < CASE_ROWS * 8; i++) c[i / 8 * n + g * 8 + i % 8] = other.c[i];
        }
        step(types[type], n, wgmma_k(types[type]), first.a, b, c, true, false, false);
        for (int g = 0; g < n / 8; g++) {
            case_make(&other, type, family, 1000 + (u32)g);
            memcpy(d, other.c, sizeof d);
            step(types[type], 8, wgmma_k(types[type]), first.a, other.b, d, true, false, false);
            for (int i = 0; i < CASE_ROWS * 8; i++)
                check(t, "width", n, c[i / 8 * n + g * 8 + i % 8], d[i]);
        }
    }
}

// ---- results of a card -------------------------------------------------------------------------
// Digests of the results that an H200 gave for the first 60 cases of each type and family
// (tools/number_check.cu prints them).
static void against_card(Tally *t)
{
    static const u64 digests[CASE_TYPES][FAMILIES] = {
        {0xb573fc5b15139b41, 0xc83109dc210bda1c, 0x904b19f4e7eac3a6,
         0xadb9eac0b90716bc, 0xcb5fb9f936d3479e}, // bf16
        {0xfececc5e5798e4c2, 0xeb36df852636417a, 0x841b3d5ca323560e,
         0x1d02e8e385282ac1, 0xc524eeaa26a44014}, // f16
        {0xd5470b39094ae0a8, 0x1611ce47bbdef931, 0xdc3763d6badb8583,
         0xf7035fd71847395f, 0x5b43cacf24f6cd99}, // tf32
        {0x74ffbe7c8014dff9, 0xfaeb6904c62be4ac, 0x635d5175cb0ff776,
         0xdd7b11ec499cb88a, 0x252939c89dad1b40}, // e4m3
        {0x2c2150aa3fd3a552, 0x42f6d40ad19bfc91, 0x3968c227731f65b0,
         0xe2f0a1314eaef5e4, 0x996b9f2709291e31}, // e5m2
    };
    static Case operand;
    for (int type = 0; type < CASE_TYPES; type++)
        for (int family = 0; family < FAMILIES; family++) {
            u64 digest = CASE_DIGEST_START;
            for (u32 i = 0; i < 60; i++) {
                case_make(&operand, type, family, i);
                wgmma_step(types[type], CASE_COLUMNS, wgmma_k(types[type]), operand.a, operand.b,
                           operand.c, i % 5 != 0, i % 3 == 1, i % 4 == 1);
                digest = case_digest(digest, operand.c, COUNT(operand.c));
            }
            bool same = digest == digests[type][family];
            check(t, "card's digest", type * 10 + family, same, 1);
        }
}

// ---- measured facts ----------------------------------------------------------------------------
// bf16, one row: `count` products of value x * y, one more product extra * y, and c.
typedef struct {
    float x, y;
    int count;
    float extra, c;
    u32 want;
} Fact;

static void facts(Tally *t)
{
    const float big = f32_of_bits(0x7f7fffff), nan = f32_of_bits(0x7fc12345);
    const Fact rows[] = {
        // 25 bits below the largest exponent are kept, and then cut to 24 significant ones
        {0x1p-23f, 1, 1, 0, 1, 0x3f800001}, {0x1p-24f, 1, 2, 0, 1, 0x3f800001},
        {0x1p-25f, 1, 4, 0, 1, 0x3f800001}, {0x1p-26f, 1, 8, 0, 1, 0x3f800000},
        {0x1p-24f, 1, 2, 1, 0, 0x3f800001}, {0x1p-25f, 1, 4, 1, 0, 0x3f800001},
        {0x1p-26f, 1, 8, 1, 0, 0x3f800000},
        // toward zero on magnitudes
        {0x1.cp-23f, 1, 1, 0, 1, 0x3f800001}, {-0x1.cp-23f, 1, 1, 0, -1, 0xbf800001},
        {-0x1p-24f, 1, 1, 0, 1, 0x3f7fffff}, {-0x1p-40f, 1, 15, 0, 1, 0x3f800000},
        // c and products cancel: what is left has the window of the largest
        {-0x1p24f, 1, 1, 1, 0x1p24f, 0x3f800000}, {-0x1p25f, 1, 1, 1, 0x1p25f, 0x3f800000},
        {-0x1p26f, 1, 1, 1, 0x1p26f, 0},
        // infinities, NaN, overflow
        {1, 1, 15, 0, -INFINITY, 0xff800000}, {1, 1, 15, 0, nan, 0x7fffffff},
        {INFINITY, 1, 1, 0, -INFINITY, 0x7fffffff}, {INFINITY, 1, 1, 0, 0, 0x7f800000},
        {-INFINITY, 1, 1, 0, 0, 0xff800000}, {INFINITY, 0, 1, 0, 0, 0x7fffffff},
        {0x1p127f, 1, 2, 0, 0, 0x7f800000}, {0x1p104f, 1, 1, 0, big, 0x7f800000},
        {0x1p103f, 1, 1, 0, big, 0x7f7fffff},
        // zero is +0
        {-0.0f, 1, 15, 0, -0.0f, 0}, {0, 1, 15, 0, -0.0f, 0}, {-1, 1, 1, 0, 1, 0},
        {1, 1, 1, 0, -1, 0},
        // denormals
        {0x1p-130f, 0x1p20f, 1, 0, 0, 0x08800000}, {0, 1, 1, 0, f32_of_bits(0x12345), 0x12345},
        {0, 1, 1, 0, f32_of_bits(0x80012345), 0x80012345}, {0x1p-100f, 0x1p-40f, 1, 0, 0, 0x200},
        {0x1.8p-100f, 0x1p-40f, 1, 0, 0, 0x300}, {0x1p-120f, 0x1p-40f, 1, 0, 0, 0},
        {0x1p-110f, 0x1p-40f, 2, 0, 0, 1}, {0x1p-110f, 0x1p-40f, 15, 0, 0, 7},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const Fact *f = &rows[i];
        u16 a[16], b[16];
        for (int j = 0; j < 16; j++) {
            a[j] = bf16_from_f32(j < f->count ? f->x : j == 15 ? f->extra : 0);
            b[j] = bf16_from_f32(f->y);
        }
        check(t, "fact", i, wgmma_reference(DT_BF16, 16, a, b, f->c, true, false),
              f32_of_bits(f->want));
    }
    u16 one[16] = {0x3f80};
    check(t, "old NaN unread", 0, wgmma_reference(DT_BF16, 16, one, one, nan, false, false), 1);
    check(t, "negated", 0, wgmma_reference(DT_BF16, 16, one, one, 3, true, true), 2);
    // 8-bit types keep 13 bits below the largest exponent, in the old accumulator too.
    u8 zero[32] = {0}, e4m3_one[32] = {0x38};
    check(t, "e4m3 c", 0, wgmma_reference(DT_E4M3, 32, zero, zero, 0x1.ffffp0f, true, false),
          0x1.fff8p0f);
    check(t, "e4m3 c", 1, wgmma_reference(DT_E4M3, 32, e4m3_one, e4m3_one, 0x1p-13f, true, false),
          1 + 0x1p-13f);
    check(t, "e4m3 c", 2, wgmma_reference(DT_E4M3, 32, e4m3_one, e4m3_one, 0x1p-14f, true, false),
          1);
}

// ---- speed, for the reader ---------------------------------------------------------------------
static void speed(void)
{
    static u16 a[64 * 16], b[128 * 16];
    static float c[64 * 128];
    for (int i = 0; i < COUNT(a); i++) a[i] = bf16_from_f32(sinf((float)i));
    for (int i = 0; i < COUNT(b); i++) b[i] = bf16_from_f32(cosf((float)i));
    clock_t start = clock();
    for (int i = 0; i < 320; i++) wgmma_step(DT_BF16, 128, 16, a, b, c, true, false, false);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("wgmma_step: %.1f ms for 42 million bf16 products\n", seconds * 1e3);
}

int main(void)
{
    Tally t = {0, 0};
    facts(&t);
    against_card(&t);
    StepFn *variants[] = {wgmma_step, wgmma_step_portable};
    for (int v = 0; v < COUNT(variants); v++)
        for (int type = 0; type < CASE_TYPES; type++)
            for (int family = 0; family < FAMILIES; family++) {
                for (u32 i = 0; i < 60; i++) against_reference(&t, variants[v], type, family, i);
                widths(&t, variants[v], type, family);
            }
    speed();
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed ? 1 : 0;
}
