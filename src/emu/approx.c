// approx.c - the approximate functions of a Hopper GPU, to the last bit (approx.h).
//
// The hardware has one interpolator for all of them. The leading 6 bits of a 23-bit fraction (7 for
// rcp) choose a row of three integers; the rest, x, goes into
//     c0 + c1 * x + c2 * square(x) + bias
// in fixed point, cut to the digits of the result. square() leaves out the low half of its own
// array of bit products, and `bias` makes up for that on average: the last bits of the results hang
// on both. Rows, grid and bias were fitted to a card (tools/approx_fit.py); the unit test proves
// them by checksums of the card's tables over all fractions.
#include "approx.h"

#pragma GCC optimize("O3") // unrolls the squarer: 1.7 times as fast

// c0 has 26 bits, c1 17 with its sign, c2 11 with its sign.
typedef struct {
    i32 c0, c1, c2;
} ApproxRow;

// A row of tanh is in floating point: c0 in units of 2^(exponent - 23), c1 of 2^(exponent - 38),
// c2 of twice that.
typedef struct {
    i32 exponent, c0, c1, c2;
} TanhRow;

#include "approx_table.h"

enum {
    FRACTION_BITS = 23,
    FRACTION_MASK = (1 << FRACTION_BITS) - 1,
    X_BITS = 17, // of the squarer
};

static const u32 nan_bits = 0x7fffffff, infinity_bits = 0x7f800000, sign_bit = 0x80000000;

// x * x / 2^19 for 17-bit x, from the bit products x_i * x_j * 2^(i + j + 1), j < i, and
// x_i * 2^(2i), without those of weight below 2^19. For one i the products with all j are x itself
// below bit i, moved to its place.
static inline i32 square(u32 x)
{
    enum { CUT = 19 };
    u32 total = 0;
    for (int i = 10; i < X_BITS; i++) {
        u32 row = ((x & ((1u << i) - 1)) >> (CUT - 1 - i)) + (1u << (2 * i - CUT));
        total += row & -(x >> i & 1);
    }
    return (i32)total;
}

// The interpolator's sum in units of 2^-39 (ex2, lg2) or 2^-40 (rcp, rsqrt).
static inline i64 interpolate(const ApproxRow *rows, u32 fraction, int c0_shift, int c1_shift,
                              int c2_shift, i32 bias)
{
    const ApproxRow *r = &rows[fraction >> X_BITS];
    u32 x = fraction & ((1u << X_BITS) - 1);
    return ((i64)r->c0 << c0_shift) + (i64)r->c1 * ((i32)x << c1_shift) +
           (i64)r->c2 * (square(x) << c2_shift) + bias;
}

// 2^23 * 2^(fraction / 2^23), below 2^24.
// Always from 2^23: the exponent is added to it as a field, one too low.
static inline u32 ex2_fraction(u32 fraction)
{
    return (u32)(interpolate(ex2_rows, fraction, 14, 1, 1, 12228) >> 16);
}

// Only trunc(x * 2^23) matters: the hardware converts to fixed point first. Whole arguments are
// exact, |x| >= 128 is decided by the sign, and below -126 the result would be denormal: +0.
float approx_ex2_ftz(float x)
{
    u32 bits = f32_bits(x), magnitude = bits & ~sign_bit;
    if (magnitude > infinity_bits) return f32_of_bits(nan_bits);
    if (magnitude >= 0x43000000) // 128
        return f32_of_bits(bits & sign_bit ? 0 : infinity_bits);
    if (x < -126) return 0;
    // The argument in fixed point, cut toward zero to 23 fraction bits; a negative one then turns
    // into ones' complement, not two's, unless it is whole.
    i32 fixed = (i32)(x * 0x1p23f);
    if (fixed < 0) fixed = (-fixed & FRACTION_MASK) == 0 ? fixed : ~-fixed;
    i32 exponent = fixed >> FRACTION_BITS;
    u32 significand = ex2_fraction((u32)fixed & FRACTION_MASK);
    return f32_of_bits((u32)(exponent + 126) * (1u << FRACTION_BITS) + significand);
}

// sign and 2^shift * value / 2^24 as a float, where 2^23 <= value <= 2^24; zero when it would be
// denormal.
static inline float scaled(u32 sign, i32 shift, u32 value)
{
    i32 field = shift + 126 + (i32)(value >> 24); // 2^24 is one: the next exponent, no fraction
    if (field < 1) return f32_of_bits(sign);
    return f32_of_bits(sign | (u32)field << FRACTION_BITS | (value & FRACTION_MASK));
}

// The mantissa decides, the exponent is only negated. The table has 7 index bits: 1/x bends more.
float approx_rcp_ftz(float x)
{
    u32 bits = f32_bits(x), magnitude = bits & ~sign_bit, sign = bits & sign_bit;
    if (magnitude > infinity_bits) return f32_of_bits(nan_bits);
    if (magnitude == infinity_bits) return f32_of_bits(sign);
    if (magnitude < 0x00800000) return f32_of_bits(sign | infinity_bits);
    // Seven bits of index and 16 of x: the x of the squarer has a zero at its end.
    u32 fraction = magnitude & FRACTION_MASK;
    const ApproxRow *r = &rcp_rows[fraction >> 16];
    u32 x2 = (fraction & 0xffff) << 1;
    i64 sum = ((i64)r->c0 << 14) + (i64)r->c1 * (i32)x2 + (i64)r->c2 * (square(x2) << 1) + 4046;
    return scaled(sign, 127 - (i32)(magnitude >> FRACTION_BITS), (u32)(sum >> 16));
}

// Two tables, for even and odd exponents: 1/sqrt(m) and 1/sqrt(2m).
float approx_rsqrt_ftz(float x)
{
    u32 bits = f32_bits(x), magnitude = bits & ~sign_bit, sign = bits & sign_bit;
    if (magnitude > infinity_bits) return f32_of_bits(nan_bits);
    if (magnitude < 0x00800000) return f32_of_bits(sign | infinity_bits);
    if (sign) return f32_of_bits(nan_bits);
    if (magnitude == infinity_bits) return 0;
    u32 fraction = magnitude & FRACTION_MASK;
    i32 exponent = (i32)(magnitude >> FRACTION_BITS) - 127, odd = exponent & 1;
    i64 sum = interpolate(odd ? rsqrt_odd_rows : rsqrt_even_rows, fraction, 14, 0, 2, 16383);
    // The rows would make the powers of four one unit too small; the hardware knows them.
    u32 value = fraction == 0 && !odd ? 1u << 24 : (u32)(sum >> 16);
    return scaled(0, -(exponent - odd) / 2, value);
}

// Absolute error 1.6e-7; near 1 the relative error has no bound, since the sum is in fixed point.
float approx_lg2_ftz(float x)
{
    u32 bits = f32_bits(x), magnitude = bits & ~sign_bit;
    if (magnitude > infinity_bits) return f32_of_bits(nan_bits);
    if (magnitude < 0x00800000) return f32_of_bits(sign_bit | infinity_bits);
    if (bits & sign_bit) return f32_of_bits(nan_bits);
    if (magnitude == infinity_bits) return f32_of_bits(infinity_bits);
    if (x == 1) return 0;
    u32 fraction = magnitude & FRACTION_MASK;
    i64 exponent = (i32)(magnitude >> FRACTION_BITS) - 127;
    i64 sum = interpolate(lg2_rows, fraction, 13, 1, 2, 1674);
    // Exponent and logarithm of the fraction side by side with 36 fraction bits; a negative number
    // is made positive by ones' complement. Then the leading 24 bits stay.
    i64 fixed = exponent * ((i64)1 << 36) + (sum >> 3);
    u64 value = (u64)(fixed < 0 ? ~fixed : fixed);
    int top = 63 - __builtin_clzll(value | 1);
    u32 significand = (u32)(top >= 23 ? value >> (top - 23) : value << (23 - top));
    u32 field = (u32)(top - 36 + 127);
    return f32_of_bits((fixed < 0 ? sign_bit : 0) | field << FRACTION_BITS |
                       (significand & FRACTION_MASK));
}

// Below 2^-8 it is x itself, from 8 on +-1; between, each octave has rows of its own.
float approx_tanh(float x)
{
    // For each exponent -8 .. 2 of the argument: how many bits of its fraction choose the row, and
    // the first row.
    static const struct {
        u8 index_bits, first;
    } octaves[11] = {{0, 0}, {0, 1},  {0, 2},  {1, 3},  {1, 5}, {2, 7},
                     {2, 11}, {2, 15}, {3, 19}, {4, 27}, {3, 43}};
    u32 bits = f32_bits(x), magnitude = bits & ~sign_bit, sign = bits & sign_bit;
    if (magnitude > infinity_bits) return f32_of_bits(nan_bits);
    if (magnitude < (u32)(127 - 8) << FRACTION_BITS) return x;
    if (magnitude >= (u32)(127 + 3) << FRACTION_BITS) return f32_of_bits(sign | 0x3f800000);
    u32 octave = (magnitude >> FRACTION_BITS) - (127 - 8), fraction = magnitude & FRACTION_MASK;
    u32 rest_bits = FRACTION_BITS - octaves[octave].index_bits;
    const TanhRow *r = &tanh_rows[octaves[octave].first + (fraction >> rest_bits)];
    // The row's first 17 bits count; those below are not looked at.
    u32 argument = (fraction & ((1u << rest_bits) - 1)) >> (rest_bits - X_BITS);
    i64 sum = ((i64)r->c0 << 15) + (i64)r->c1 * (i32)argument +
              (i64)r->c2 * (square(argument) << 1);
    u32 value = (u32)(sum >> 15), carry = value >> 24; // it may have passed into the next exponent
    return f32_of_bits(sign | (u32)(r->exponent + 127 + (i32)carry) << FRACTION_BITS |
                       (value >> carry & FRACTION_MASK));
}

#define LANES(name)                                                   \
    void name##_n(float *out, const float *in, int n)                 \
    {                                                                 \
        for (int i = 0; i < n; i++) out[i] = name(in[i]);             \
    }
LANES(approx_ex2_ftz)
LANES(approx_rcp_ftz)
LANES(approx_rsqrt_ftz)
LANES(approx_lg2_ftz)
LANES(approx_tanh)
