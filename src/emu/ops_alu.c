// ops_alu.c - the PURE operations and shuffles: values of 32 lanes at a time.
//
// Results are computed for all lanes into a local array (which the compiler can vectorise, since
// nothing aliases it) and stored for the lanes of the mask. Register state is tracked by the
// caller. Float rules are Hopper's: a NaN result is always 0x7fffffff, max and min drop a single
// NaN, denormals are kept, mad is fused.
#include "approx.h"
#include "state.h"

#include <math.h>
#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

// The full mask is one memcpy: nearly all operations of a kernel run with all lanes.
static inline void put32(u32 *to, const u32 *v, u32 mask)
{
    if (mask == (u32)EMU_FULL) {
        memcpy(to, v, 4 * EMU_LANES);
        return;
    }
    LANES if (mask >> i & 1) to[i] = v[i];
}

static inline void put64(EmuU64 *to, const u64 *v, u32 mask)
{
    if (mask == (u32)EMU_FULL) {
        memcpy(to, v, 8 * EMU_LANES);
        return;
    }
    LANES if (mask >> i & 1) to[i] = v[i];
}

// A predicate register is one word with a bit per lane, not 32 words.
static inline void put_pred(u32 *to, u32 bits, u32 mask) { *to = (*to & ~mask) | (bits & mask); }

// Bits of an arithmetic result. The machine loses NaN payloads and signs; the host would keep
// them.
static inline u32 float_bits(float x) { return x != x ? 0x7fffffffu : f32_bits(x); }

// Sources a, b, c of a handler in the three views of a register, and the loops that write its
// destination. Operand 0 is the destination.
#define A32 const u32 *a = emu_reg(w, &op->o[1])
#define B32 const u32 *b = emu_reg(w, &op->o[2])
#define C32 const u32 *c = emu_reg(w, &op->o[3])
#define A64 const EmuU64 *a = emu_reg64(w, &op->o[1])
#define B64 const EmuU64 *b = emu_reg64(w, &op->o[2])
#define C64 const EmuU64 *c = emu_reg64(w, &op->o[3])
#define AF const EmuF32 *a = (const EmuF32 *)emu_reg(w, &op->o[1])
#define BF const EmuF32 *b = (const EmuF32 *)emu_reg(w, &op->o[2])
#define CF const EmuF32 *c = (const EmuF32 *)emu_reg(w, &op->o[3])
#define OUT32(expr)                             \
    do {                                        \
        u32 v[EMU_LANES];                       \
        LANES v[i] = (expr);                    \
        put32(emu_reg(w, &op->o[0]), v, mask);  \
    } while (0)
#define OUT64(expr)                              \
    do {                                         \
        u64 v[EMU_LANES];                        \
        LANES v[i] = (expr);                     \
        put64(emu_reg64(w, &op->o[0]), v, mask); \
    } while (0)

// 64-bit values are arrays of 32 u64 over two units, so they have loops of their own.
static bool is_wide(u8 type) { return thread_type_class[type] == RC_B64; }
static bool is_signed(u8 type) { return type == TT_S32 || type == TT_S64 || type == TT_S16; }

// Arithmetic that is the same for both signs.
#define ARITHMETIC(name, float_expr, int_expr)                              \
    EMU_VECTOR EmuResult emu_op_##name(EmuWarp *w, const EmuOp *op, u32 mask) \
    {                                                                       \
        if (op->type == TT_F32) {                                           \
            AF; BF;                                                         \
            OUT32(float_bits(float_expr));                                  \
        } else if (is_wide(op->type)) {                                     \
            A64; B64;                                                       \
            OUT64(int_expr);                                                \
        } else {                                                            \
            A32; B32;                                                       \
            OUT32(int_expr);                                                \
        }                                                                   \
        return RUN_NEXT;                                                    \
    }
ARITHMETIC(ADD, a[i] + b[i], a[i] + b[i])
ARITHMETIC(SUB, a[i] - b[i], a[i] - b[i])
ARITHMETIC(MUL, a[i] * b[i], a[i] * b[i])

// fma.rn.f32: one rounding. The fma clone makes the built-in one instruction instead of a libm
// call.
EMU_VECTOR_FMA EmuResult emu_op_MAD(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->type == TT_F32) {
        AF; BF; CF;
        OUT32(float_bits(__builtin_fmaf(a[i], b[i], c[i])));
    } else if (is_wide(op->type)) {
        A64; B64; C64;
        OUT64(a[i] * b[i] + c[i]);
    } else {
        A32; B32; C32;
        OUT32(a[i] * b[i] + c[i]);
    }
    return RUN_NEXT;
}

// 32 bits by 32 bits to 64; the type is that of the result, its sign says how to extend.
EMU_VECTOR EmuResult emu_op_MULWIDE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    A32; B32;
    if (is_signed(op->type)) OUT64((u64)((i64)(i32)a[i] * (i64)(i32)b[i]));
    else OUT64((u64)a[i] * b[i]);
    return RUN_NEXT;
}

// Division by zero gives all ones, and so does its remainder (as on an H200); no trap on any input.
// INT_MIN / -1 would trap on the host: negation wraps instead, and its remainder is 0.
static i64 divide_signed(i64 a, i64 b) { return b == 0 ? -1 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
static i64 modulo_signed(i64 a, i64 b) { return b == 0 ? -1 : b == -1 ? 0 : a % b; }

// The f32 form is div.rn: correctly rounded, as the host's division is.
EmuResult emu_op_DIV(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->type == TT_F32) {
        AF; BF;
        OUT32(float_bits(a[i] / b[i]));
    } else if (is_wide(op->type)) {
        A64; B64;
        if (is_signed(op->type)) OUT64((u64)divide_signed((i64)a[i], (i64)b[i]));
        else OUT64(b[i] ? a[i] / b[i] : ~0ull);
    } else {
        A32; B32;
        if (is_signed(op->type)) OUT32((u32)divide_signed((i32)a[i], (i32)b[i]));
        else OUT32(b[i] ? a[i] / b[i] : ~0u);
    }
    return RUN_NEXT;
}

EmuResult emu_op_REM(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (is_wide(op->type)) {
        A64; B64;
        if (is_signed(op->type)) OUT64((u64)modulo_signed((i64)a[i], (i64)b[i]));
        else OUT64(b[i] ? a[i] % b[i] : ~0ull);
    } else {
        A32; B32;
        if (is_signed(op->type)) OUT32((u32)modulo_signed((i32)a[i], (i32)b[i]));
        else OUT32(b[i] ? a[i] % b[i] : ~0u);
    }
    return RUN_NEXT;
}

// The larger one; a NaN gives way, two make the canonical one; +0 is larger than -0.
// Selections instead of branches, for the vectoriser. Equal operands differ at most in the sign of
// zero, so AND of the bits gives +0 and OR (in min) gives -0.
static inline u32 max_bits(float a, float b)
{
    u32 x = f32_bits(a), y = f32_bits(b), r = a > b ? x : y;
    r = a == b ? x & y : r;
    r = b != b ? x : r;
    y = b != b ? 0x7fffffffu : y;
    return a != a ? y : r;
}

static inline u32 min_bits(float a, float b)
{
    u32 x = f32_bits(a), y = f32_bits(b), r = a < b ? x : y;
    r = a == b ? x | y : r;
    r = b != b ? x : r;
    y = b != b ? 0x7fffffffu : y;
    return a != a ? y : r;
}

#define SELECTION(name, float_expr, compare)                                \
    EMU_VECTOR EmuResult emu_op_##name(EmuWarp *w, const EmuOp *op, u32 mask) \
    {                                                                       \
        if (op->type == TT_F32) {                                           \
            AF; BF;                                                         \
            OUT32(float_expr);                                              \
        } else if (is_wide(op->type)) {                                     \
            A64; B64;                                                       \
            if (is_signed(op->type)) OUT64((i64)a[i] compare (i64)b[i] ? a[i] : b[i]); \
            else OUT64(a[i] compare b[i] ? a[i] : b[i]);                    \
        } else {                                                            \
            A32; B32;                                                       \
            if (is_signed(op->type)) OUT32((i32)a[i] compare (i32)b[i] ? a[i] : b[i]); \
            else OUT32(a[i] compare b[i] ? a[i] : b[i]);                    \
        }                                                                   \
        return RUN_NEXT;                                                    \
    }
SELECTION(MIN, min_bits(a[i], b[i]), <)
SELECTION(MAX, max_bits(a[i], b[i]), >)

// On bits, so that the host's negation of NaN does not matter; NaN becomes the canonical one.
EMU_VECTOR EmuResult emu_op_NEG(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->type == TT_F32) {
        A32;
        OUT32(f32_of_bits(a[i]) != f32_of_bits(a[i]) ? 0x7fffffffu : a[i] ^ 0x80000000u);
    } else if (is_wide(op->type)) {
        A64;
        OUT64(0 - a[i]);
    } else {
        A32;
        OUT32(0 - a[i]);
    }
    return RUN_NEXT;
}

EMU_VECTOR EmuResult emu_op_ABS(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->type == TT_F32) {
        A32;
        OUT32(f32_of_bits(a[i]) != f32_of_bits(a[i]) ? 0x7fffffffu : a[i] & 0x7fffffffu);
    } else if (is_wide(op->type)) {
        A64;
        OUT64((i64)a[i] < 0 ? 0 - a[i] : a[i]);
    } else {
        A32;
        OUT32((i32)a[i] < 0 ? 0 - a[i] : a[i]);
    }
    return RUN_NEXT;
}

#define BITWISE(name, operator)                                             \
    EMU_VECTOR EmuResult emu_op_##name(EmuWarp *w, const EmuOp *op, u32 mask) \
    {                                                                       \
        if (op->type == TT_PRED) {                                          \
            put_pred(emu_reg(w, &op->o[0]),                                 \
                     emu_pred(w, &op->o[1]) operator emu_pred(w, &op->o[2]), mask); \
        } else if (is_wide(op->type)) {                                     \
            A64; B64;                                                       \
            OUT64(a[i] operator b[i]);                                      \
        } else {                                                            \
            A32; B32;                                                       \
            OUT32(a[i] operator b[i]);                                      \
        }                                                                   \
        return RUN_NEXT;                                                    \
    }
BITWISE(AND, &)
BITWISE(OR, |)
BITWISE(XOR, ^)

// 16-bit registers live in words whose upper half stays zero; NOT and SHL would fill it.
static u32 width_mask(u8 type) { return thread_type_class[type] == RC_B16 ? 0xffffu : ~0u; }

EmuResult emu_op_NOT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->type == TT_PRED) {
        put_pred(emu_reg(w, &op->o[0]), ~emu_pred(w, &op->o[1]), mask);
    } else if (is_wide(op->type)) {
        A64;
        OUT64(~a[i]);
    } else {
        A32;
        u32 keep = width_mask(op->type);
        OUT32(~a[i] & keep);
    }
    return RUN_NEXT;
}

// Shift amounts beyond the width give zero, or the sign.
EMU_VECTOR EmuResult emu_op_SHL(EmuWarp *w, const EmuOp *op, u32 mask)
{
    B32;
    if (is_wide(op->type)) {
        A64;
        OUT64(b[i] > 63 ? 0 : a[i] << (b[i] & 63));
    } else {
        A32;
        u32 keep = width_mask(op->type);
        OUT32(b[i] > 31 ? 0 : a[i] << (b[i] & 31) & keep);
    }
    return RUN_NEXT;
}

EMU_VECTOR EmuResult emu_op_SHR(EmuWarp *w, const EmuOp *op, u32 mask)
{
    B32;
    if (is_wide(op->type)) {
        A64;
        if (is_signed(op->type)) OUT64((u64)((i64)a[i] >> (b[i] > 63 ? 63 : b[i])));
        else OUT64(b[i] > 63 ? 0 : a[i] >> (b[i] & 63));
    } else {
        A32;
        if (is_signed(op->type)) OUT32((u32)((i32)a[i] >> (b[i] > 31 ? 31 : b[i])));
        else OUT32(b[i] > 31 ? 0 : a[i] >> (b[i] & 31));
    }
    return RUN_NEXT;
}

// The tables of approx.c work on arrays of floats; registers are words.
#define APPROX(name, function)                                        \
    EmuResult emu_op_##name(EmuWarp *w, const EmuOp *op, u32 mask)    \
    {                                                                 \
        float in[EMU_LANES], out[EMU_LANES];                          \
        u32 v[EMU_LANES];                                             \
        memcpy(in, emu_reg(w, &op->o[1]), sizeof in);                 \
        function(out, in, EMU_LANES);                                 \
        memcpy(v, out, sizeof v);                                     \
        put32(emu_reg(w, &op->o[0]), v, mask);                        \
        return RUN_NEXT;                                              \
    }
APPROX(LG2, approx_lg2_ftz_n)
APPROX(RCP, approx_rcp_ftz_n)
APPROX(RSQRT, approx_rsqrt_ftz_n)
APPROX(TANH, approx_tanh_n)
APPROX(EX2, approx_ex2_ftz_n)

// sqrt.rn, not the approximate one.
EmuResult emu_op_SQRT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    AF;
    OUT32(float_bits(sqrtf(a[i])));
    return RUN_NEXT;
}

// ---- comparisons, moves -------------------------------------------------------------------------

// One byte per lane first, then 32 bits: the compare loop vectorises, a loop of shifts would not.
// Float comparisons are C's: ordered, but NE true on NaN, which is what setp.neu does.
#define COMPARE(v)                                          \
    do {                                                    \
        u8 t[EMU_LANES];                                    \
        switch (op->cmp) {                                  \
        case CMP_EQ: LANES t[i] = (v) a[i] == (v) b[i]; break; \
        case CMP_NE: LANES t[i] = (v) a[i] != (v) b[i]; break; \
        case CMP_LT: LANES t[i] = (v) a[i] < (v) b[i]; break;  \
        case CMP_LE: LANES t[i] = (v) a[i] <= (v) b[i]; break; \
        case CMP_GT: LANES t[i] = (v) a[i] > (v) b[i]; break;  \
        default: LANES t[i] = (v) a[i] >= (v) b[i]; break;     \
        }                                                   \
        LANES bits |= (u32)t[i] << i;                       \
    } while (0)

EMU_VECTOR EmuResult emu_op_SETP(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 bits = 0;
    if (op->type == TT_F32) {
        AF; BF;
        COMPARE(float);
    } else if (is_wide(op->type)) {
        A64; B64;
        if (is_signed(op->type)) COMPARE(i64);
        else COMPARE(u64);
    } else {
        A32; B32;
        if (is_signed(op->type)) COMPARE(i32);
        else COMPARE(u32);
    }
    put_pred(emu_reg(w, &op->o[0]), bits, mask);
    return RUN_NEXT;
}

// Both sources count as read by tracking, also the one that is not chosen: the machine reads both.
EMU_VECTOR EmuResult emu_op_SELP(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 p = emu_pred(w, &op->o[3]);
    if (is_wide(op->type)) {
        A64; B64;
        OUT64(p >> i & 1 ? a[i] : b[i]);
    } else {
        A32; B32;
        OUT32(p >> i & 1 ? a[i] : b[i]);
    }
    return RUN_NEXT;
}

// 32 to 64 bits (special registers into address arithmetic) extends with zeros.
EmuResult emu_op_MOV(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *to = &op->o[0], *from = &op->o[1];
    if (to->class == RC_PRED) {
        put_pred(emu_reg(w, to), emu_pred(w, from), mask);
    } else if (to->class == RC_B64) {
        if (from->class == RC_B64) {
            A64;
            OUT64(a[i]);
        } else {
            A32;
            OUT64(a[i]);
        }
    } else {
        put32(emu_reg(w, to), emu_reg(w, from), mask);
    }
    return RUN_NEXT;
}

// Parameters were decoded to constants in the register file.
EmuResult emu_op_LDPARAM(EmuWarp *w, const EmuOp *op, u32 mask) { return emu_op_MOV(w, op, mask); }

// ---- conversions --------------------------------------------------------------------------------

// A scalar between two types: an exact integer, or a float.
typedef struct {
    bool is_float;
    i64 i;                     // unsigned 64-bit values keep their bits
    float f;
} Number;

static Number number_of(u8 type, u64 bits)
{
    switch (type) {
    case TT_F32: case TT_TF32: return (Number){true, 0, f32_of_bits((u32)bits)};
    case TT_F16: return (Number){true, 0, f16_to_f32((u16)bits)};
    case TT_BF16: return (Number){true, 0, bf16_to_f32((u16)bits)};
    case TT_E4M3: return (Number){true, 0, e4m3_to_f32((u8)bits)};
    case TT_E5M2: return (Number){true, 0, e5m2_to_f32((u8)bits)};
    case TT_S16: return (Number){false, (int16_t)bits, 0};
    case TT_U16: case TT_B16: return (Number){false, (u16)bits, 0};
    case TT_B8: return (Number){false, (u8)bits, 0};
    case TT_S32: return (Number){false, (i32)bits, 0};
    case TT_U32: case TT_B32: return (Number){false, (u32)bits, 0};
    default: return (Number){false, (i64)bits, 0};
    }
}

// Float to integer saturates; NaN gives 0 (64 bits: the sign bit).
static u64 float_to_int(float f, u8 type, bool toward_zero)
{
    static const struct { double low, high; } range[TT_COUNT] = {
        [TT_S16] = {-32768.0, 32767.0}, [TT_U16] = {0, 65535.0},
        [TT_S32] = {-2147483648.0, 2147483647.0}, [TT_U32] = {0, 4294967295.0},
        [TT_B32] = {0, 4294967295.0}, [TT_B16] = {0, 65535.0}, [TT_B8] = {0, 255.0},
    };
    // The host rounds to nearest even here: baton never changes the rounding mode.
    double x = toward_zero ? trunc((double)f) : nearbyint((double)f);
    if (type == TT_S64) {
        if (x != x) return 1ull << 63;
        return x >= 0x1p63 ? (u64)INT64_MAX : x < -0x1p63 ? 1ull << 63 : (u64)(i64)x;
    }
    if (type == TT_U64 || type == TT_B64) {
        if (x != x) return 1ull << 63;
        return x >= 0x1p64 ? UINT64_MAX : x <= 0 ? 0 : (u64)x;
    }
    if (x != x) return 0;
    x = x < range[type].low ? range[type].low : x > range[type].high ? range[type].high : x;
    u64 v = (u64)(i64)x;
    return type == TT_S16 ? v & 0xffff : v;
}

// Nearest even in one step, from 64 bits too.
static float int_to_float(i64 v, u8 from) { return from == TT_U64 ? (float)(u64)v : (float)v; }

// Bits of `n`, which came from type `from`, in `type`. Narrow floats saturate or overflow as the
// cvt of their format does (base/num.c); integers between integers are cut.
static u64 bits_of(u8 type, u8 from, Number n, bool toward_zero)
{
    float f = n.is_float ? n.f : int_to_float(n.i, from);
    switch (type) {
    case TT_F32:
        if (from == TT_BF16) return f32_bits(f); // the same bits, moved: a NaN keeps its payload
        if (!n.is_float || from != TT_F32) return float_bits(f);
        return float_bits(toward_zero ? truncf(f) : f);
    case TT_TF32: return tf32_from_f32(f);
    case TT_F16: return f16_from_f32(f);
    case TT_BF16: return bf16_from_f32(f);
    case TT_E4M3: return e4m3_from_f32(f);
    case TT_E5M2: return e5m2_from_f32(f);
    default: break;
    }
    u64 v = n.is_float ? float_to_int(n.f, type, toward_zero) : (u64)n.i;
    switch (type) {
    case TT_B8: return v & 0xff;
    case TT_S16: case TT_U16: case TT_B16: return v & 0xffff;
    case TT_S64: case TT_U64: case TT_B64: return v;
    default: return v & 0xffffffffu;
    }
}

// Element type of a packed pair, TT_NONE (0) for all others.
static u8 half_type(u8 type)
{
    switch (type) {
    case TT_F16X2: return TT_F16;
    case TT_BF16X2: return TT_BF16;
    case TT_E4M3X2: return TT_E4M3;
    case TT_E5M2X2: return TT_E5M2;
    default: return TT_NONE;
    }
}
static int half_bits(u8 half) { return half == TT_E4M3 || half == TT_E5M2 ? 8 : 16; }

// A pair is converted half by half, low half to low half.
static u64 convert(const EmuOp *op, u64 bits)
{
    u8 to = half_type(op->type), from = half_type(op->type2);
    bool zero = op->flags & OPF_RZI;
    if (!to || !from) return bits_of(op->type, op->type2, number_of(op->type2, bits), zero);
    u64 low = bits & ((1u << half_bits(from)) - 1), high = bits >> half_bits(from);
    high &= (1u << half_bits(from)) - 1;
    return bits_of(to, from, number_of(from, low), zero) |
           bits_of(to, from, number_of(from, high), zero) << half_bits(to);
}

EmuResult emu_op_CVT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *from = &op->o[1];
    u64 v[EMU_LANES];
    LANES {
        if (!(mask >> i & 1)) continue;
        v[i] = convert(op, from->class == RC_B64 ? emu_reg64(w, from)[i] : emu_reg(w, from)[i]);
    }
    if (op->o[0].class == RC_B64) {
        LANES if (mask >> i & 1) emu_reg64(w, &op->o[0])[i] = v[i];
    } else {
        LANES if (mask >> i & 1) emu_reg(w, &op->o[0])[i] = (u32)v[i];
    }
    return RUN_NEXT;
}

// Two floats to a pair. The first source becomes the high half, as in PTX.
EmuResult emu_op_CVTPACK(EmuWarp *w, const EmuOp *op, u32 mask)
{
    AF; BF;
    u8 half = half_type(op->type);
    u32 v[EMU_LANES];
    if (half == TT_BF16) {
        LANES v[i] = (u32)bf16_from_f32(a[i]) << 16 | bf16_from_f32(b[i]);
    } else {
        LANES v[i] = (u32)bits_of(half, TT_F32, (Number){true, 0, a[i]}, false) << half_bits(half) |
                     (u32)bits_of(half, TT_F32, (Number){true, 0, b[i]}, false);
    }
    put32(emu_reg(w, &op->o[0]), v, mask);
    return RUN_NEXT;
}

// pack puts the first source LOW, unlike cvt.pack.
EmuResult emu_op_PACK(EmuWarp *w, const EmuOp *op, u32 mask)
{
    A32; B32;
    if (op->o[0].class == RC_B64) OUT64((u64)b[i] << 32 | a[i]);
    else OUT32(b[i] << 16 | (a[i] & 0xffff));
    return RUN_NEXT;
}

EmuResult emu_op_UNPACK(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 low[EMU_LANES], high[EMU_LANES];
    const EmuOpnd *from = &op->o[2];
    if (from->class == RC_B64) {
        const EmuU64 *v = emu_reg64(w, from);
        LANES low[i] = (u32)v[i], high[i] = (u32)(v[i] >> 32);
    } else {
        const u32 *v = emu_reg(w, from);
        LANES low[i] = v[i] & 0xffff, high[i] = v[i] >> 16;
    }
    put32(emu_reg(w, &op->o[0]), low, mask);
    put32(emu_reg(w, &op->o[1]), high, mask);
    return RUN_NEXT;
}

// ---- shuffles -----------------------------------------------------------------------------------

// shfl.sync over the whole warp. Up and down leave the lane's own value where the source would lie
// outside. The lane operand may differ between lanes.
EmuResult emu_op_SHFL(EmuWarp *w, const EmuOp *op, u32 mask)
{
    A32; B32;
    emu_converged(w, op, mask);
    u32 v[EMU_LANES];
    LANES {
        int x = (int)(b[i] & 31), from = i;
        switch (op->n) {
        case SHFL_BFLY: from = i ^ x; break;
        case SHFL_IDX: from = x; break;
        case SHFL_UP: from = i - x < 0 ? i : i - x; break;
        default: from = i + x > 31 ? i : i + x; break;
        }
        v[i] = a[from];
    }
    put32(emu_reg(w, &op->o[0]), v, mask);
    return RUN_NEXT;
}

EmuResult emu_op_VOTE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    emu_converged(w, op, mask);
    put_pred(emu_reg(w, &op->o[0]), emu_pred(w, &op->o[1]) & mask ? ~0u : 0, mask);
    return RUN_NEXT;
}

EmuResult emu_op_TMA_PREFETCH(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)w, (void)op, (void)mask; // brings the descriptor nearer: no effect on values
    return RUN_NEXT;
}
