// wgmma_num.c - the arithmetic of one wgmma instruction (the rules stand in wgmma_num.h).
//
// Two accounts of the same rules. wgmma_reference works on one element with 64-bit integers and
// covers everything. rows_body works on 16 columns at a time in float and int32 and relies on:
//   * a product of two operands is exact in float (at most 11 bits times 11 bits);
//   * scaled by 2^(window - e) it is below 2^27, and float -> int conversion cuts toward zero,
//     which is exactly the rule, sign included; 16 of them stay below 2^31;
//   * the last sum of two int32 is exact in double, and clearing low bits there cuts toward 0.
// That holds while nothing overflows or becomes denormal, so operands above 2^60, special values,
// and sums whose e is below -100 are left out of it and redone by the reference.
#include "wgmma_num.h"

#include <string.h>

#pragma GCC optimize("O3") // the loops over 16 columns must become vector code

typedef struct {
    int exp_bits, frac_bits;
    int k;
    int window;   // bits kept below the largest exponent
    int fraction; // fraction bits of the result
} Rule;

// 8-bit products are added in a window of 13 bits and the accumulator is cut to it by every
// instruction: a long K loop in e4m3 loses what a sum in f32 would keep.
static const Rule *rule_of(DType t)
{
    static const Rule bf16 = {8, 7, 16, 25, 23}, f16 = {5, 10, 16, 25, 23};
    static const Rule tf32 = {8, 10, 8, 25, 23};
    static const Rule e4m3 = {4, 3, 32, 13, 13}, e5m2 = {5, 2, 32, 13, 13};
    switch (t) {
    case DT_BF16: return &bf16;
    case DT_F16: return &f16;
    case DT_TF32: return &tf32;
    case DT_E4M3: return &e4m3;
    case DT_E5M2: return &e5m2;
    default: return NULL;
    }
}

// 32 bytes of operand for every type: the k step of a descriptor is the same number of bytes.
int wgmma_k(DType ab)
{
    const Rule *r = rule_of(ab);
    return r ? r->k : 0;
}

// ---- one operand element -----------------------------------------------------------------------
typedef enum { ELEMENT_FINITE, ELEMENT_INFINITE, ELEMENT_NAN } ElementKind;

// value = (-1)^negative * significand * 2^(exponent - frac_bits). Denormals have the exponent of
// the smallest normal number and no leading one.
typedef struct {
    ElementKind kind;
    bool negative;
    int exponent;
    u32 significand;
} Element;

// Element i as bits of its own format.
static inline u32 raw_bits(DType t, const void *p, int i)
{
    switch (dtype_bytes[t]) {
    case 1: return ((const u8 *)p)[i];
    case 2: return ((const u16 *)p)[i];
    default: return ((const u32 *)p)[i] >> 13; // tf32: the low 13 bits are not looked at
    }
}

// Exponents are not normalised: 1.5 * 1.5 counts as exponent 0, and so do denormals by their
// field.
static Element decode(DType t, const Rule *r, u32 bits)
{
    int bias = (1 << (r->exp_bits - 1)) - 1;
    u32 ones = (1u << r->exp_bits) - 1;
    u32 field = bits >> r->frac_bits & ones, frac = bits & ((1u << r->frac_bits) - 1);
    Element e = {.kind = ELEMENT_FINITE, .negative = bits >> (r->exp_bits + r->frac_bits) & 1};
    if (field == ones && t == DT_E4M3) {
        if (frac == 7) e.kind = ELEMENT_NAN; // the only one; there is no infinity
    } else if (field == ones) {
        e.kind = frac ? ELEMENT_NAN : ELEMENT_INFINITE;
    }
    e.exponent = (field ? (int)field : 1) - bias;
    e.significand = frac | (field ? 1u << r->frac_bits : 0);
    return e;
}

// ---- the reference -----------------------------------------------------------------------------
static const u32 nan_bits = 0x7fffffff;

// significand * 2^exponent cut to a multiple of 2^lsb, as that multiple.
static i64 cut(i64 significand, int exponent, int lsb)
{
    int shift = exponent - lsb;
    if (significand == 0) return 0;
    if (shift >= 0) return significand << shift; // at most window - 2 * frac_bits: 11
    return shift < -62 ? 0 : significand >> -shift;
}

// sum * 2^lsb as a float, cut toward zero to `fraction` bits after the leading one.
static float assemble(i64 sum, int lsb, int fraction)
{
    if (sum == 0) return 0;
    u64 m = (u64)(sum < 0 ? -sum : sum);
    int top = 63 - __builtin_clzll(m);
    int exponent = top + lsb; // of the leading one
    // Bit position, in m, of the last bit that stays.
    int last = MAX(top - fraction, -149 - lsb);
    if (last > top) return 0; // all of it below 2^-149; the sign is lost too
    if (last > 0) m = m >> last << last;
    u32 sign = sum < 0 ? 0x80000000u : 0;
    if (exponent > 127) return f32_of_bits(sign | 0x7f800000);
    if (exponent < -126) {
        int shift = lsb + 149;
        return f32_of_bits(sign | (u32)(shift >= 0 ? m << shift : m >> -shift));
    }
    u32 frac = (u32)(top >= 23 ? m >> (top - 23) : m << (23 - top)) & 0x7fffff;
    return f32_of_bits(sign | (u32)(exponent + 127) << 23 | frac);
}

// Infinities and NaN among the addends: true when they decide the result.
typedef struct {
    bool nan, plus, minus;
} Specials;

// Infinity times zero is NaN, like any product with NaN.
static void note_product(Specials *s, const Element *x, const Element *y, bool negate)
{
    if (x->kind == ELEMENT_FINITE && y->kind == ELEMENT_FINITE) return;
    bool x_zero = x->kind == ELEMENT_FINITE && !x->significand;
    bool y_zero = y->kind == ELEMENT_FINITE && !y->significand;
    if (x->kind == ELEMENT_NAN || y->kind == ELEMENT_NAN || x_zero || y_zero) s->nan = true;
    else if (x->negative ^ y->negative ^ negate) s->minus = true;
    else s->plus = true;
}

float wgmma_reference(DType ab, int k, const void *a, const void *b, float c, bool scale_d,
                      bool negate)
{
    // Exponent of "no addend": below every sum of two exponents.
    enum { NONE = -100000 };
    const Rule *r = rule_of(ab);
    u32 c_bits = scale_d ? f32_bits(c) : 0;
    int c_field = (int)(c_bits >> 23 & 255);
    i64 c_significand = (c_bits & 0x7fffff) | (c_field ? 0x800000 : 0);
    int c_exponent = (c_field ? c_field : 1) - 127;
    Element x[WGMMA_MAX_K], y[WGMMA_MAX_K];
    Specials special = {false, false, false};

    int e = c_significand ? c_exponent : NONE;
    for (int i = 0; i < k; i++) {
        x[i] = decode(ab, r, raw_bits(ab, a, i));
        y[i] = decode(ab, r, raw_bits(ab, b, i));
        note_product(&special, &x[i], &y[i], negate);
        if (x[i].significand && y[i].significand) e = MAX(e, x[i].exponent + y[i].exponent);
    }
    if (c_field == 255) {
        if (c_bits & 0x7fffff) special.nan = true;
        else if (c_bits >> 31) special.minus = true;
        else special.plus = true;
    }
    if (special.nan || (special.plus && special.minus)) return f32_of_bits(nan_bits);
    if (special.plus) return f32_of_bits(0x7f800000);
    if (special.minus) return f32_of_bits(0xff800000);
    // Zeros only: +0, also when c is -0.
    if (e == NONE) return 0;

    int lsb = e - r->window;
    i64 sum = cut(c_significand, c_exponent - 23, lsb);
    if (c_bits >> 31) sum = -sum;
    for (int i = 0; i < k; i++) {
        i64 product = (i64)x[i].significand * y[i].significand;
        if (!product) continue;
        i64 part = cut(product, x[i].exponent + y[i].exponent - 2 * r->frac_bits, lsb);
        sum += x[i].negative ^ y[i].negative ^ negate ? -part : part;
    }
    return assemble(sum, lsb, r->fraction);
}

// ---- the fast path -----------------------------------------------------------------------------
enum {
    LANES = 16,
    NO_EXPONENT = -4096, // of a zero; a sum with one is below NO_EXPONENT / 2, every other is above
    LOW_EXPONENT = -100, // below: the reference
    HIGH_OPERAND = 60,   // operands above: the reference
    HIGH_C = 100,
};

// k finite operands as the vector loops want them: value and exponent. One that is infinite, NaN or
// too large counts as zero here and makes the row "wild": it is for the reference.
typedef struct {
    float value[WGMMA_MAX_K];
    i32 exponent[WGMMA_MAX_K]; // NO_EXPONENT for zero
    bool wild;
} RowOperand;

// B by k, then columns; columns are padded with zeros to a multiple of LANES.
typedef struct {
    int columns;
    float value[WGMMA_MAX_K * WGMMA_MAX_N];
    i32 exponent[WGMMA_MAX_K * WGMMA_MAX_N];
    bool wild[WGMMA_MAX_N];
    bool any_wild;
} Panel;

// `highest`: the largest exponent field that the float path takes. Without branches, so that the
// loop vectorises.
static void decode_row(DType t, const Rule *r, const void *raw, int k, bool negate, RowOperand *row)
{
    u32 bits[WGMMA_MAX_K];
    for (int i = 0; i < k; i++) bits[i] = raw_bits(t, raw, i);

    int width = r->exp_bits + r->frac_bits, bias = (1 << (r->exp_bits - 1)) - 1;
    int highest = MIN(bias + HIGH_OPERAND, (1 << r->exp_bits) - 1 - (t != DT_E4M3));
    u32 not_a_number = t == DT_E4M3 ? 0x7f : ~0u; // else NaN has a field above `highest`
    float unit = f32_of_bits((u32)(127 - r->frac_bits) << 23);
    i32 wild = 0;
    for (int i = 0; i < k; i++) {
        i32 field = (i32)(bits[i] >> r->frac_bits & ((1u << r->exp_bits) - 1));
        i32 normal = field != 0;
        i32 significand = (i32)(bits[i] & ((1u << r->frac_bits) - 1)) | normal << r->frac_bits;
        i32 exponent = field + !normal - bias;
        i32 bad = (field > highest) | ((bits[i] & 0x7f) == not_a_number);
        i32 zero = (significand == 0) | bad;
        i32 minus = (i32)(bits[i] >> width & 1) ^ (i32)negate;
        float magnitude = (float)significand * unit * f32_of_bits((u32)(exponent + 127) << 23);
        row->value[i] = zero ? 0 : minus ? -magnitude : magnitude;
        row->exponent[i] = zero ? NO_EXPONENT : exponent;
        wild |= bad;
    }
    row->wild = wild != 0;
}

// Transposes B while decoding: the inner loops run over neighbouring columns.
static void decode_panel(DType t, const Rule *r, const u8 *raw, int n, bool negate, Panel *p)
{
    int row_bytes = r->k * dtype_bytes[t];
    p->columns = (n + LANES - 1) / LANES * LANES;
    p->any_wild = false;
    for (int j = 0; j < p->columns; j++) {
        RowOperand row;
        if (j < n) decode_row(t, r, raw + (size_t)j * row_bytes, r->k, negate, &row);
        if (j < n) p->any_wild |= p->wild[j] = row.wild;
        for (int i = 0; i < r->k; i++) {
            p->value[i * p->columns + j] = j < n ? row.value[i] : 0;
            p->exponent[i * p->columns + j] = j < n ? row.exponent[i] : NO_EXPONENT;
        }
    }
}

// LANES numbers as one value, for the one loop that the compiler would not turn into vector code.
typedef float LaneFloats __attribute__((vector_size(LANES * sizeof(float))));
typedef i32 LaneInts __attribute__((vector_size(LANES * sizeof(i32))));

// LANES columns of one row: a is the row, value and exponent are columns of the panel. Returns
// whether some lane is for the reference; then redo[] says which.
static inline __attribute__((always_inline)) bool
lanes_body(const Rule *r, const RowOperand *a, const float *value, const i32 *exponent, int columns,
           const float *c, float *out, i32 *redo)
{
    i32 e[LANES], sum[LANES];
    float scale[LANES], scaled_c[LANES];
    const int k = r->k, window = r->window;

    for (int j = 0; j < LANES; j++) {
        u32 bits = f32_bits(c[j]);
        i32 field = (i32)(bits >> 23 & 255);
        i32 skip = (bits << 1 == 0) | (field >= HIGH_C + 127);
        e[j] = skip ? NO_EXPONENT : field - 127 + (field == 0);
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j < LANES; j++) {
            i32 product = a->exponent[i] + exponent[i * columns + j];
            e[j] = e[j] > product ? e[j] : product;
        }
    i32 any = 0;
    for (int j = 0; j < LANES; j++) {
        i32 wild_c = (i32)(f32_bits(c[j]) >> 23 & 255) >= HIGH_C + 127;
        redo[j] = wild_c | ((e[j] < LOW_EXPONENT) & (e[j] > NO_EXPONENT / 2));
        any |= redo[j];
        // Also for lanes of zeros, so that the scale below stays a normal float.
        e[j] = e[j] < LOW_EXPONENT ? LOW_EXPONENT : e[j];
        scale[j] = f32_of_bits((u32)(127 + window - e[j]) << 23);
        scaled_c[j] = wild_c ? 0 : c[j] * scale[j];
    }
    LaneFloats scales, values;
    LaneInts sums = {0};
    memcpy(&scales, scale, sizeof scales);
    for (int i = 0; i < k; i++) {
        memcpy(&values, value + i * columns, sizeof values);
        sums += __builtin_convertvector(a->value[i] * values * scales, LaneInts); // cuts toward 0
    }
    memcpy(sum, &sums, sizeof sum);

    u64 keep = ~0ull << (52 - r->fraction);
    for (int j = 0; j < LANES; j++) {
        union { double d; u64 u; } total = {.d = (double)sum[j] + (double)(i32)scaled_c[j]};
        total.u &= keep; // cut toward zero to 1 + fraction significant bits: exact in float
        out[j] = (float)total.d * f32_of_bits((u32)(127 - window + e[j]) << 23);
    }
    return any != 0;
}

// ---- one body, compiled for each vector unit ---------------------------------------------------
// AVX-512 is worth a copy (2.6 times the portable one's speed); AVX2 was tried and gained nothing.
typedef bool LanesFn(const Rule *r, const RowOperand *a, const float *value, const i32 *exponent,
                     int columns, const float *c, float *out, i32 *redo);

static bool lanes_portable(const Rule *r, const RowOperand *a, const float *value,
                           const i32 *exponent, int columns, const float *c, float *out, i32 *redo)
{
    return lanes_body(r, a, value, exponent, columns, c, out, redo);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))) static bool
lanes_avx512(const Rule *r, const RowOperand *a, const float *value, const i32 *exponent,
             int columns, const float *c, float *out, i32 *redo)
{
    return lanes_body(r, a, value, exponent, columns, c, out, redo);
}
#endif

// Asked on every call: the processor's answer is cached by the compiler's runtime.
static LanesFn *lanes_fn(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return lanes_avx512;
#endif
    return lanes_portable;
}

// One row of the result: the fast path over blocks of LANES columns, then what it left.
static void step_row(DType t, const Rule *r, LanesFn *lanes, int n, const u8 *a_raw,
                     const u8 *b_raw, const Panel *p, float *c, bool scale_d, bool negate_a,
                     bool negate)
{
    RowOperand row;
    decode_row(t, r, a_raw, r->k, negate_a, &row);
    size_t row_bytes = (size_t)r->k * dtype_bytes[t];
    for (int j0 = 0; j0 < n; j0 += LANES) {
        float old[LANES] = {0}, new[LANES];
        i32 redo[LANES] = {0};
        int live = MIN(LANES, n - j0);
        if (scale_d) memcpy(old, c + j0, (size_t)live * sizeof(float));
        bool some = lanes(r, &row, p->value + j0, p->exponent + j0, p->columns, old, new, redo);
        if (some || row.wild || p->any_wild)
            for (int j = 0; j < live; j++)
                if (redo[j] || row.wild || p->wild[j0 + j])
                    new[j] = wgmma_reference(t, r->k, a_raw, b_raw + (size_t)(j0 + j) * row_bytes,
                                             old[j], scale_d, negate);
        memcpy(c + j0, new, (size_t)live * sizeof(float));
    }
}

// B is decoded once for all 64 rows.
static void step(DType ab, LanesFn *lanes, int n, int k, const u8 *a, const u8 *b, float *c,
                 bool scale_d, bool neg_a, bool neg_b)
{
    const Rule *r = rule_of(ab);
    ASSERT(r && k == r->k && n >= 8 && n <= WGMMA_MAX_N && n % 8 == 0);
    Panel panel;
    decode_panel(ab, r, b, n, neg_b, &panel);
    size_t row_bytes = (size_t)k * dtype_bytes[ab];
    for (int i = 0; i < WGMMA_ROWS; i++)
        step_row(ab, r, lanes, n, a + (size_t)i * row_bytes, b, &panel, c + (size_t)i * n, scale_d,
                 neg_a, neg_a != neg_b);
}

void wgmma_step(DType ab, int n, int k, const void *a, const void *b, float *c, bool scale_d,
                bool neg_a, bool neg_b)
{
    step(ab, lanes_fn(), n, k, a, b, c, scale_d, neg_a, neg_b);
}

void wgmma_step_portable(DType ab, int n, int k, const void *a, const void *b, float *c,
                         bool scale_d, bool neg_a, bool neg_b)
{
    step(ab, lanes_portable, n, k, a, b, c, scale_d, neg_a, neg_b);
}
