// value.c - scalar expressions to registers.
//
// A value of a 16-bit or 8-bit float type lives in an f32 register that holds exactly that value:
// loads widen, every operation on such a type rounds its f32 result to the type. Integers up to 32
// bits live in b32, 64-bit ones in b64, bool in a predicate.
#include "impl.h"

// Class and sign of the register that holds a value, not its size in memory.
ThreadType lower_type(DType t)
{
    switch (t) {
    case DT_BOOL: return TT_PRED;
    case DT_S64: return TT_S64;
    case DT_U64: return TT_U64;
    case DT_U32:
    case DT_U16:
    case DT_U8: return TT_U32;
    case DT_S32:
    case DT_S16:
    case DT_S8: return TT_S32;
    default: return TT_F32;
    }
}

RegClass lower_class(DType t) { return (RegClass)thread_type_class[lower_type(t)]; }

// Loads and stores move bits: the type only says how many, but for f32, which has registers of its
// own.
ThreadType lower_memory_type(DType t)
{
    if (t == DT_F32) return TT_F32;
    switch (dtype_bytes[t]) {
    case 1: return TT_B8;
    case 2: return TT_B16;
    case 8: return TT_B64;
    default: return TT_B32;
    }
}

ThreadType lower_narrow_type(DType t)
{
    switch (t) {
    case DT_F16: return TT_F16;
    case DT_BF16: return TT_BF16;
    case DT_E4M3: return TT_E4M3;
    case DT_E5M2: return TT_E5M2;
    case DT_S16: return TT_S16;
    case DT_U16: return TT_U16;
    default: return lower_type(t);
    }
}

static Operand new_value(Lower *l, DType t)
{
    return opd_reg(lower_new_reg(l, "v", lower_class(t), 1), 0);
}

static Operand new_word(Lower *l) { return opd_reg(lower_new_reg(l, "v", RC_B32, 1), 0); }

static ThreadOp *convert(Lower *l, Operand d, ThreadType to, Operand s, ThreadType from)
{
    ThreadOp *op = EMIT(&l->b, OP_CVT, to, d, s);
    op->type2 = (u8)from;
    return op;
}

Operand lower_round(Lower *l, Operand v, DType to)
{
    Operand h = opd_reg(lower_new_reg(l, "h", RC_B16, 1), 0);
    if (v.kind != OPD_REG) {
        Operand r = opd_reg(lower_new_reg(l, "v", RC_F32, 1), 0);
        EMIT(&l->b, OP_MOV, TT_F32, r, v);
        v = r;
    }
    convert(l, h, lower_narrow_type(to), v, TT_F32);
    return h;
}

static Operand cut_to(Lower *l, Operand v, DType to);

// Bits as loaded to the f32 or 32-bit register that holds the same value; always exact.
static Operand widen(Lower *l, Operand h, DType from)
{
    if (from == DT_S8 || from == DT_U8) { // a byte load fills the register with zeros
        Operand word = opd_reg(lower_new_reg(l, "v", RC_B32, 1), 0);
        convert(l, word, TT_U32, h, TT_U16);
        return from == DT_S8 ? cut_to(l, word, from) : word;
    }
    Operand v = new_value(l, from);
    convert(l, v, lower_type(from), h, lower_narrow_type(from));
    return v;
}

static bool is_small_float(DType t)
{
    return t == DT_F16 || t == DT_BF16 || t == DT_E4M3 || t == DT_E5M2;
}

bool lower_is_tf32(const TExpr *x)
{
    while (x->kind == TX_CAST && x->type == DT_F32) x = x->a;
    return is_small_float(x->type) || (x->kind == TX_CAST && x->type == DT_TF32);
}

// Rounds an f32 register to the values of a narrower float type.
static Operand settle(Lower *l, Operand v, DType t)
{
    if (t != DT_TF32) return is_small_float(t) ? widen(l, lower_round(l, v, t), t) : v;
    Operand bits = new_word(l), d = new_value(l, t);
    convert(l, bits, TT_TF32, v, TT_F32);
    EMIT(&l->b, OP_MOV, TT_B32, d, bits);
    return d;
}

// Narrow integers are extended by their sign or with zeros, small floats widened to f32.
Operand lower_load(Lower *l, Address a, DType t)
{
    ThreadOpcode op = l->tf->buffers.at[a.ref.buffer].kind == BUF_GLOBAL ? OP_LDG : OP_LDS;
    ThreadType mt = lower_memory_type(t);
    Operand raw = opd_reg(lower_new_reg(l, "raw", (RegClass)thread_type_class[mt], 1), 0);
    // A load that only some lanes make leaves the register's old value in the others: without a new
    // one first, the loads of unrolled rounds would wait for each other.
    if (l->b.guard.kind != OPD_NONE) {
        Operand outer = l->b.guard;
        l->b.guard = (Operand){0};
        ThreadType zero = mt == TT_B8 ? TT_B16 : mt;
        EMIT(&l->b, OP_MOV, zero, raw, mt == TT_F32 ? opd_f32(0.0f) : opd_imm(0));
        l->b.guard = outer;
    }
    lower_emit_mem(l, op, mt, 1, &raw, a);
    if (t == DT_TF32) { // the bits of an f32, in a register of that class
        Operand v = new_value(l, t);
        EMIT(&l->b, OP_MOV, TT_B32, v, raw);
        return v;
    }
    return dtype_bytes[t] < 4 && t != DT_BOOL ? widen(l, raw, t) : raw;
}

static Operand in_register(Lower *l, Operand v, DType t);

// Under a guard that the caller set. Narrow integers keep their low bits.
void lower_store(Lower *l, Address a, DType t, const TExpr *value)
{
    ThreadOpcode op = l->tf->buffers.at[a.ref.buffer].kind == BUF_GLOBAL ? OP_STG : OP_STS;
    // A conversion to the memory's own type is done by the store's rounding, once.
    bool cast = is_small_float(t) && value->kind == TX_CAST && value->type == t &&
                (value->a->type == DT_F32 || is_small_float(value->a->type));
    Operand v = lower_value(l, cast ? value->a : value);
    ThreadType mt = lower_memory_type(t);
    if (is_small_float(t)) {
        v = lower_round(l, v, t);
    } else if (v.kind != OPD_REG || v.count != 1 ||
               thread_type_class[mt] != l->tf->regs.at[v.reg].class) {
        Operand r = opd_reg(lower_new_reg(l, "v", (RegClass)thread_type_class[mt], 1), 0);
        if (thread_type_class[mt] == RC_B16 && v.kind == OPD_REG)
            convert(l, r, TT_U16, v, TT_U32);
        else if (thread_type_class[mt] == RC_B16)
            EMIT(&l->b, OP_MOV, TT_B16, r, opd_imm(v.base & 0xffff));
        else if (t == DT_TF32 && v.kind != OPD_REG) // an f32 constant
            EMIT(&l->b, OP_MOV, TT_B32, r, in_register(l, v, t));
        else
            EMIT(&l->b, OP_MOV, mt, r, v);
        v = r;
    }
    lower_emit_mem(l, op, mt, 1, &v, a);
}

// ---- operators ----------------------------------------------------------------------------------

static bool is_float_type(DType t) { return lower_type(t) == TT_F32; }

// A register that is not negated, for operations that take no immediate there.
static Operand in_register(Lower *l, Operand v, DType t)
{
    if (v.kind == OPD_REG && !v.negate) return v;
    Operand r = new_value(l, t);
    if (lower_type(t) == TT_PRED && v.kind == OPD_REG) {
        v.negate = false;
        EMIT(&l->b, OP_NOT, TT_PRED, r, v);
        return r;
    }
    ThreadType mt = lower_type(t);
    if (lower_class(t) == RC_B32) mt = TT_B32;
    if (lower_class(t) == RC_B64) mt = TT_B64;
    EMIT(&l->b, OP_MOV, mt, r, v);
    return r;
}

// Index expressions are compared as such, so that constants fold and cached registers serve.
static Operand lower_comparison(Lower *l, const TExpr *e)
{
    static const u8 cmp[] = {CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE};
    ThreadCmp c = (ThreadCmp)cmp[e->math - TM_EQ];
    if (e->a->kind == TX_INDEX && e->b->kind == TX_INDEX && lower_class(e->a->type) == RC_B32)
        return lower_compare(l, c, lower_subst(l, e->a->index), lower_subst(l, e->b->index));
    Operand a = in_register(l, lower_value(l, e->a), e->a->type), b = lower_value(l, e->b);
    Operand p = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
    EMIT(&l->b, OP_SETP, lower_type(e->a->type), p, a, b)->cmp = (u8)c;
    return p;
}

// x * y (+ z): the negated constant factor absorbs a minus sign, exactly.
static Operand lower_negated(Lower *l, const TExpr *e)
{
    if (e->kind == TX_MATH && e->math == TM_MUL && e->b->kind == TX_FLOAT) {
        Operand d = new_value(l, e->type), a = in_register(l, lower_value(l, e->a), e->type);
        EMIT(&l->b, OP_MUL, TT_F32, d, a, opd_f32((float)-e->b->fvalue));
        return d;
    }
    if (e->kind == TX_FLOAT) return opd_f32((float)-e->fvalue);
    Operand d = new_value(l, e->type), a = in_register(l, lower_value(l, e), e->type);
    EMIT(&l->b, OP_NEG, lower_type(e->type), d, a);
    return d;
}

// Thread operation of each operator that needs no care; comparisons, ?:, negation and ! are lowered
// by hand.
static const u8 math_op[TM_COUNT] = {
    [TM_NEG] = OP_NEG,   [TM_NOT] = OP_NOT,     [TM_ADD] = OP_ADD, [TM_SUB] = OP_SUB,
    [TM_MUL] = OP_MUL,   [TM_DIV] = OP_DIV,     [TM_REM] = OP_REM, [TM_AND] = OP_AND,
    [TM_OR] = OP_OR,     [TM_XOR] = OP_XOR,     [TM_SHL] = OP_SHL, [TM_SHR] = OP_SHR,
    [TM_LAND] = OP_AND,  [TM_LOR] = OP_OR,      [TM_MIN] = OP_MIN, [TM_MAX] = OP_MAX,
    [TM_FMA] = OP_MAD,   [TM_ABS] = OP_ABS,     [TM_EXP2] = OP_EX2, [TM_LOG2] = OP_LG2,
    [TM_RCP] = OP_RCP,   [TM_RSQRT] = OP_RSQRT, [TM_SQRT] = OP_SQRT, [TM_TANH] = OP_TANH,
    [TM_LNOT] = OP_NOT,
};

static bool is_bitwise(TileMath m)
{
    return m == TM_AND || m == TM_OR || m == TM_XOR || m == TM_NOT || m == TM_SHL;
}

// `c` of a fused multiply-add may be negated for free: x * y - z is one operation with one
// rounding.
static Operand lower_math(Lower *l, const TExpr *e)
{
    TileMath m = (TileMath)e->math;
    if (m >= TM_EQ && m <= TM_GE) return lower_comparison(l, e);
    if (m == TM_SELECT) {
        Operand p = lower_value(l, e->a);
        Operand b = lower_value(l, e->b), c = lower_value(l, e->c), d = new_value(l, e->type);
        if (e->type == DT_BOOL) {
            lower_error(l, e->loc, NULL, "not supported yet: ?: with bool results");
            return d;
        }
        if (p.negate) {
            Operand t = b;
            b = c, c = t, p.negate = false;
        }
        EMIT(&l->b, OP_SELP, lower_type(e->type), d, b, c, p);
        return d;
    }
    if (m == TM_NEG) return settle(l, lower_negated(l, e->a), e->type);
    if (m == TM_LNOT) {
        Operand p = lower_value(l, e->a);
        p.negate = !p.negate;
        return p;
    }
    if (m == TM_ANY) {
        Operand d = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
        EMIT(&l->b, OP_VOTE, TT_PRED, d, in_register(l, lower_value(l, e->a), DT_BOOL));
        return d;
    }
    Operand o[4];
    int n = tile_math[m].args;
    o[1] = in_register(l, lower_value(l, e->a), e->type);
    if (n > 1) o[2] = lower_value(l, e->b);
    if (m == TM_LAND || m == TM_LOR) o[2] = in_register(l, o[2], e->type);
    if (n > 2) {
        bool minus = e->c->kind == TX_MATH && e->c->math == TM_NEG && is_float_type(e->type) &&
                     !lower_hoisted(l, e->c);
        o[3] = minus ? lower_negated(l, e->c->a) : lower_value(l, e->c);
    }
    o[0] = new_value(l, e->type);
    ThreadType t = lower_type(e->type);
    if (t == TT_PRED) {
        thread_emit(&l->b, (ThreadOpcode)math_op[m], TT_PRED, n + 1, o);
        return o[0];
    }
    if (is_bitwise(m)) t = lower_class(e->type) == RC_B64 ? TT_B64 : TT_B32;
    thread_emit(&l->b, (ThreadOpcode)math_op[m], t, n + 1, o);
    return settle(l, o[0], e->type);
}


static Operand low_word(Lower *l, Operand v, ThreadType from)
{
    if (thread_type_class[from] != RC_B64) return v;
    Operand d = new_word(l);
    convert(l, d, TT_U32, v, TT_U64);
    return d;
}

// The low bits of a word as a value of a narrow integer type: extended by their sign or by zeros.
static Operand cut_to(Lower *l, Operand v, DType to)
{
    int bits = 8 * dtype_bytes[to];
    Operand d = new_word(l);
    if (lower_type(to) == TT_U32) {
        EMIT(&l->b, OP_AND, TT_B32, d, v, opd_imm((1 << bits) - 1));
        return d;
    }
    Operand up = new_word(l);
    EMIT(&l->b, OP_SHL, TT_B32, up, v, opd_imm(32 - bits));
    EMIT(&l->b, OP_SHR, TT_S32, d, up, opd_imm(32 - bits));
    return d;
}

// A float toward zero, and to the nearest value of a narrow integer type.
static Operand clamp_to(Lower *l, Operand v, DType to)
{
    int bits = 8 * dtype_bytes[to];
    bool sign = lower_type(to) == TT_S32;
    i64 high = sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, low = sign ? -high - 1 : 0;
    Operand whole = new_word(l), below = new_word(l), d = new_word(l);
    convert(l, whole, TT_S32, v, TT_F32)->flags |= OPF_RZI;
    EMIT(&l->b, OP_MIN, TT_S32, below, whole, opd_imm(high));
    EMIT(&l->b, OP_MAX, TT_S32, d, below, opd_imm(low));
    return d;
}

// Float to integer rounds toward zero and saturates, as the machine's conversion does; integers to
// narrower ones are cut; between 32-bit integers the bits stay.
static Operand lower_cast(Lower *l, const TExpr *e)
{
    DType from = e->a->type, to = e->type;
    Operand v = lower_value(l, e->a);
    ThreadType tf = lower_type(from), tt = lower_type(to);
    if (from == DT_BOOL) {
        Operand d = new_value(l, to);
        if (to == DT_BOOL) return v;
        bool swap = v.negate;
        v.negate = false;
        Operand one = is_float_type(to) ? opd_f32(1.0f) : opd_imm(1);
        Operand none = is_float_type(to) ? opd_f32(0.0f) : opd_imm(0);
        EMIT(&l->b, OP_SELP, tt, d, swap ? none : one, swap ? one : none, v);
        return d;
    }
    v = in_register(l, v, from);
    if (to == DT_BOOL) {
        Operand p = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
        EMIT(&l->b, OP_SETP, tf, p, v, is_float_type(from) ? opd_f32(0) : opd_imm(0))->cmp = CMP_NE;
        return p;
    }
    bool kept = from == to || (to == DT_TF32 && lower_is_tf32(e->a));
    if (tf == TT_F32 && tt == TT_F32) return kept ? v : settle(l, v, to);
    if (thread_type_class[tf] == RC_B32 && thread_type_class[tt] == RC_B32 && dtype_bytes[to] == 4)
        return v;
    if (dtype_bytes[to] < 4 && !is_float_type(to))
        return tf == TT_F32 ? clamp_to(l, v, to) : cut_to(l, low_word(l, v, tf), to);
    Operand d = new_value(l, to);
    ThreadOp *op = convert(l, d, tt, v, tf);
    if (tf == TT_F32) op->flags |= OPF_RZI;
    return settle(l, d, to);
}

static Operand lower_bitcast(Lower *l, const TExpr *e)
{
    DType from = e->a->type, to = e->type;
    Operand v = in_register(l, lower_value(l, e->a), from), d = new_value(l, to);
    if (dtype_bytes[to] >= 4) {
        EMIT(&l->b, OP_MOV, dtype_bytes[to] == 8 ? TT_B64 : TT_B32, d, v);
        return d;
    }
    // Small floats are values in f32 registers: their bits are made, and made a value again.
    if (is_small_float(from)) {
        Operand bits = new_word(l);
        convert(l, bits, TT_U32, lower_round(l, v, from), TT_U16);
        v = bits;
    }
    if (!is_small_float(to)) return cut_to(l, v, to);
    Operand narrow = opd_reg(lower_new_reg(l, "h", RC_B16, 1), 0);
    convert(l, narrow, TT_U16, dtype_bytes[to] == 1 ? cut_to(l, v, DT_U8) : v, TT_U32);
    return widen(l, narrow, to);
}

// The order of the operands' evaluation is free: expressions have no effects but loads.
Operand lower_value(Lower *l, const TExpr *e)
{
    const Operand *known = lower_hoisted(l, e);
    if (known) return *known;
    if (l->failed) return opd_imm(0); // one error per kernel; the rest is not emitted
    switch ((TExprKind)e->kind) {
    case TX_FLOAT: return opd_f32((float)e->fvalue);
    case TX_INDEX: {
        const Expr *x = lower_subst(l, e->index);
        return lower_class(e->type) == RC_B64 ? lower_index64(l, x) : lower_index(l, x);
    }
    case TX_SCALAR: return opd_reg(lower_scalar(l, e->scalar), 0);
    case TX_FRAG: return lower_element(l, e->frag, e->slot, e->at, e->loc);
    case TX_ELEM: return lower_load(l, lower_address(l, e->view, l->zeros), e->type);
    case TX_MATH: return lower_math(l, e);
    case TX_CAST: return lower_cast(l, e);
    case TX_BITCAST: return lower_bitcast(l, e);
    }
    BUG("expression kind %d", e->kind);
}
