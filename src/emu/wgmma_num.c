// wgmma_num.c - the arithmetic of one wgmma instruction (the rules stand in wgmma_num.h).
//
// Two accounts of the same rules. wgmma_reference works on one element with 64-bit integers and
// covers everything. rows_body works on 16 columns at a time in float and int32 and relies on:
//   * a product of two operands is exact in float (at most 11 bits times 11 bits);
//   * scaled by 2^(window - e) it is below 2^27, and float -> int conversion cuts toward zero, which
//     is exactly the rule, sign included; 16 of them stay below 2^31;
//   * the last sum of two int32 is exact in double, and clearing low bits of a double cuts toward 0.
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

int wgmma_k(DType ab)
{
    const Rule *r = rule_of(ab);
    return r ? r->k : 0;
}

// ---- one operand element -------------------------------------------------------------------------
typedef enum { ELEMENT_FINITE, ELEMENT_INFINITE, ELEMENT_NAN } ElementKind;

// value = (-1)^negative * significand * 2^(exponent - frac_bits). Denormals have the exponent of the
// smallest normal number and no leading one.
typedef struct {
    ElementKind kind;
    bool negative;
    int exponent;
    u32 significand;
} Element;

static inline u32 raw_bits(DType t, const void *p, int i)
{
    switch (dtype_bytes[t]) {
    case 1: return ((const u8 *)p)[i];
    case 2: return ((const u16 *)p)[i];
    default: return ((const u32 *)p)[i] >> 13; // tf32: the low 13 bits are not looked at
    }
}

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

// ---- the reference -------------------------------------------------------------------------------
static const u32 nan_bits = 0x7fffffff;

// significand * 2^exponent cut to a multiple of 2^lsb, as that multiple.
static i64 cut(i64 significand, int exponent, int lsb)
{
    int shift = exponent - lsb;
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

// ---- the fast path -------------------------------------------------------------------------------
enum {
    LANES = 16,
    NO_EXPONENT = -4096, // of a zero: below every sum of two exponents, and so is the sum of two
    LOW_EXPONENT = -100, // below: the reference
    HIGH_OPERAND = 60,   // operands above: the reference
    HIGH_C = 100,
};

// B by k, then columns; columns are padded with zeros to a multiple of LANES.
typedef struct {
    int k, columns;
    float value[WGMMA_MAX_K * WGMMA_MAX_N];
    i16 exponent[WGMMA_MAX_K * WGMMA_MAX_N];
    u8 wild[WGMMA_MAX_N]; // the column has an operand that the fast path must not see
} Panel;

// One row of A.
typedef struct {
    float value[WGMMA_MAX_K];
    i32 exponent[WGMMA_MAX_K];
    bool wild;
} RowOperand;

// What the vector loops see of one finite element; false when it is for the reference only (it then
// counts as zero here).
static bool fast_operand(DType t, const Rule *r, u32 bits, float *value, int *exponent)
{
    Element x = decode(t, r, bits);
    bool tame = x.kind == ELEMENT_FINITE && x.exponent <= HIGH_OPERAND;
    *value = 0;
    *exponent = NO_EXPONENT;
    if (!tame || !x.significand) return tame;
    float scale = f32_of_bits((u32)(x.exponent + 127) << 23);
    *value = (float)x.significand / (float)(1u << r->frac_bits) * scale * (x.negative ? -1 : 1);
    *exponent = x.exponent;
    return true;
}
