// num.c - number formats: the conversions that Hopper's cvt instructions do, bit for bit.
//
// Input: bit patterns or floats; output: bit patterns or floats; no state, no dependence on the
// rounding mode of the host. All narrowing goes through one function on integers, so that the
// rules (nearest even, denormals kept, what overflow and NaN become) stand in one place: the row of
// the format. Widening is exact, always.
#include "base.h"

#include <string.h>

// A binary format narrower than f32 in the exponent too; bf16 and tf32, which share f32's exponent,
// need one addition only and have no row.
typedef struct {
    int exp_bits;  // width of the exponent field
    int frac_bits; // width of the fraction field
    u32 largest;   // magnitude of the largest finite number
    u32 overflow;  // magnitude of what rounds beyond it: infinity, or `largest` when it saturates
    u32 nan;       // the only NaN a conversion makes; positive
} Format;

static const Format format_f16 = {5, 10, 0x7bff, 0x7c00, 0x7fff};
static const Format format_e4m3 = {4, 3, 0x7e, 0x7e, 0x7f}; // no infinity: 0x7f is NaN
static const Format format_e5m2 = {5, 2, 0x7b, 0x7b, 0x7f};

// Nearest even from f32 to `f`. `x` is the bit pattern of the f32.
// Infinity becomes `overflow` like any large number: saturating formats have none.
static inline u32 narrow(u32 x, const Format *f)
{
    u32 mag = x & 0x7fffffff;
    u32 sign = (x >> 31) << (f->exp_bits + f->frac_bits);
    if (mag > 0x7f800000) return f->nan;
    if (mag == 0x7f800000) return sign | f->overflow;

    int bias = (1 << (f->exp_bits - 1)) - 1;
    int field = (int)(mag >> 23); // exponent field of f32; 0 for denormals, which weigh as field 1
    u32 significand = (mag & 0x7fffff) | (field ? 0x800000 : 0);
    int exponent = (field ? field : 1) - 127 + bias; // exponent field in `f`, if it were normal

    // Below the normal numbers the unit stays at the format's smallest one: more bits go away.
    int drop = 23 - f->frac_bits + (exponent < 1 ? 1 - exponent : 0);
    if (drop > 25) return sign; // less than half of the smallest denormal
    u32 kept = significand >> drop;
    u32 rest = significand & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));

    // `kept` holds the leading one of a normal number; adding it to the field below its own
    // carries into the exponent when rounding overflows the fraction or leaves the denormals.
    u32 result = kept;
    if (exponent > 1) result += (u32)(exponent - 1) << f->frac_bits;
    return sign | (result > f->largest ? f->overflow : result);
}

// f32 bits of a pattern of a format with IEEE rules (all-ones exponent: infinity and NaN). The
// payload of a NaN is lost: the result is the canonical NaN of f32.
static inline u32 widen_ieee(u32 h, int exp_bits, int frac_bits)
{
    u32 sign = (h >> (exp_bits + frac_bits) & 1) << 31;
    u32 ones = (1u << exp_bits) - 1;
    u32 field = h >> frac_bits & ones, frac = h & ((1u << frac_bits) - 1);
    int bias = (1 << (exp_bits - 1)) - 1;
    if (field == ones) return frac ? 0x7fffffff : sign | 0x7f800000;
    if (field) return sign | (field + 127 - (u32)bias) << 23 | frac << (23 - frac_bits);
    if (!frac) return sign;
    int top = 31 - __builtin_clz(frac); // position of the leading one: a normal number in f32
    return sign | (u32)(top - frac_bits + 1 - bias + 127) << 23 | ((frac << (23 - top)) & 0x7fffff);
}

// The upper half, rounded: half of the unit less one, plus the bit that becomes odd or even.
u16 bf16_from_f32(float x)
{
    u32 u = f32_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16); // the carry into infinity is the right one
}

float bf16_to_f32(u16 h)
{
    return f32_of_bits((u32)h << 16); // the same exponent: NaN payloads survive
}

u16 f16_from_f32(float x)
{
    return (u16)narrow(f32_bits(x), &format_f16);
}

float f16_to_f32(u16 h)
{
    return f32_of_bits(widen_ieee(h, 5, 10));
}

u8 e4m3_from_f32(float x)
{
    return (u8)narrow(f32_bits(x), &format_e4m3);
}

// Not IEEE at the top: only 0x7f and 0xff are NaN, the rest of that exponent are numbers.
float e4m3_to_f32(u8 b)
{
    if ((b & 0x7f) == 0x7f) return f32_of_bits(0x7fffffff);
    if ((b & 0x78) == 0x78) // the top exponent holds numbers here: 256 .. 448
        return f32_of_bits((u32)(b & 0x80) << 24 | (8u + 127) << 23 | (u32)(b & 7) << 20);
    return f32_of_bits(widen_ieee(b, 4, 3));
}

u8 e5m2_from_f32(float x)
{
    return (u8)narrow(f32_bits(x), &format_e5m2);
}

float e5m2_to_f32(u8 b)
{
    return f32_of_bits(widen_ieee(b, 5, 2));
}

u32 tf32_from_f32(float x)
{
    u32 u = f32_bits(x);
    // Half of the unit added to the magnitude: ties away from zero. Not so for infinity and NaN,
    // whose bits are only cut: a NaN with nothing above becomes infinity, as on the hardware.
    if ((u & 0x7f800000) != 0x7f800000) u += 0x1000;
    return u & ~0x1fffu;
}

// ---- element types -----------------------------------------------------------------------------
const char *const dtype_name[DT_COUNT] = {
#define X(id, name, bytes) name,
    DTYPES(X)
#undef X
};

const u8 dtype_bytes[DT_COUNT] = {
#define X(id, name, bytes) bytes,
    DTYPES(X)
#undef X
};

// Aliases are those of the language; the table's own names win.
int dtype_by_name(const char *name)
{
    static const struct {
        const char *name;
        DType type;
    } alias[] = {{"float", DT_F32},  {"double", DT_F64}, {"half", DT_F16},
                 {"bfp16", DT_BF16}, {"f8", DT_E4M3},    {"int", DT_S32}};
    for (int t = 0; t < DT_COUNT; t++)
        if (strcmp(name, dtype_name[t]) == 0) return t;
    for (int i = 0; i < COUNT(alias); i++)
        if (strcmp(name, alias[i].name) == 0) return (int)alias[i].type;
    return -1;
}
