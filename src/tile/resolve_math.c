// resolve_math.c - arithmetic on scalars: types of results, folding of constants, built-in
// functions.
//
// Integers stay Expr as long as all operands are; what comes from memory or from bits becomes a
// TX_MATH tree. Floats narrower than f32 are computed in f32 and rounded back when both operands
// have that type, so TX_MATH only ever has type f32, a 32- or 64-bit integer, or bool.
#include "resolve.h"

#include <math.h>
#include <string.h>

// Constants are rounded where they are written, as the machine would round them.
double math_round(DType t, double v)
{
    switch (t) {
    case DT_F32: return (double)(float)v;
    case DT_F16: return f16_to_f32(f16_from_f32((float)v));
    case DT_BF16: return bf16_to_f32(bf16_from_f32((float)v));
    case DT_TF32: return f32_of_bits(tf32_from_f32((float)v));
    case DT_E4M3: return e4m3_to_f32(e4m3_from_f32((float)v));
    case DT_E5M2: return e5m2_to_f32(e5m2_from_f32((float)v));
    default: return v;
    }
}

// Constants adapt to the type that they meet.
static bool is_literal(const Value *v, double *out)
{
    i64 n;
    if (v->x && v->x->kind == TX_FLOAT) {
        *out = v->x->fvalue;
        return true;
    }
    if (v->index && expr_is_const(v->index, &n)) {
        *out = (double)n;
        return true;
    }
    return false;
}

static const TExpr *float_const(Resolve *r, DType t, double v, Loc loc)
{
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_FLOAT, .type = t, .loc = loc, .fvalue = v};
    return x;
}

// a as type t; constants are converted now.
static const TExpr *cast_tree(Resolve *r, const TExpr *a, DType t, Loc loc)
{
    if (a->type == t) return a;
    if (a->kind == TX_FLOAT && dtype_is_float(t))
        return float_const(r, t, math_round(t, a->fvalue), loc);
    i64 n;
    if (a->kind == TX_INDEX && expr_is_const(a->index, &n) && dtype_is_float(t))
        return float_const(r, t, math_round(t, (double)n), loc);
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_CAST, .type = t, .loc = loc, .a = a};
    return x;
}

// Folds f32 arithmetic on constants as the machine would round it. NAN result: not folded here.
static bool fold_float(TileMath m, double a, double b, double *out)
{
    float x = (float)a, y = (float)b, v;
    switch (m) {
    case TM_NEG: v = -x; break;
    case TM_ADD: v = x + y; break;
    case TM_SUB: v = x - y; break;
    case TM_MUL: v = x * y; break;
    case TM_DIV: v = x / y; break;
    case TM_MIN: v = fminf(x, y); break;
    case TM_MAX: v = fmaxf(x, y); break;
    case TM_ABS: v = fabsf(x); break;
    default: return false;
    }
    *out = v;
    return !isnan(v);
}

// An operation, folded when all operands are f32 constants.
static const TExpr *math_tree(Resolve *r, TileMath m, DType t, const TExpr *a, const TExpr *b,
                              const TExpr *c, Loc loc)
{
    double v;
    bool constant = a->kind == TX_FLOAT && (!b || b->kind == TX_FLOAT) && !c;
    if (constant && t == DT_F32 && fold_float(m, a->fvalue, b ? b->fvalue : 0, &v))
        return float_const(r, t, v, loc);
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_MATH, .math = (u8)m, .type = t, .loc = loc, .a = a, .b = b, .c = c};
    return x;
}

// ---- types of operands -------------------------------------------------------------------------

static bool need_scalar(Resolve *r, const Value *v, Loc loc)
{
    if (v->kind == VAL_NONE) return false;
    if (v->kind == VAL_SCALAR) return true;
    resolve_error(r, loc, NULL, "found %s where a number is required", value_describe(r, v));
    return false;
}

static bool need_number(Resolve *r, const Value *v, Loc loc)
{
    if (!need_scalar(r, v, loc)) return false;
    if (v->type != DT_BOOL) return true;
    resolve_error(r, loc, "select with `c ? 1 : 0`", "found a bool where a number is required");
    return false;
}

// The usual rule for 32 and 64 bits: the wider wins, then the unsigned. Smaller types become s32.
static DType int_type(DType a, DType b)
{
    if (a == DT_U64 || b == DT_U64) return DT_U64;
    if (a == DT_S64 || b == DT_S64) return DT_S64;
    if (a == DT_U32 || b == DT_U32) return DT_U32;
    return DT_S32;
}

// An f64 constant takes the type of the float that it meets; f64 values do not exist otherwise.
static DType float_type(const Value *a, const Value *b)
{
    bool fa = dtype_is_float(a->type), fb = dtype_is_float(b->type);
    double v;
    if (fa && fb) {
        if (a->type == b->type) return a->type;
        if (a->type == DT_F64 && !is_literal(a, &v)) return DT_F64;
        if (b->type == DT_F64 && !is_literal(b, &v)) return DT_F64;
        return DT_F32;
    }
    return fa ? a->type : b->type;
}

// f64 exists for constants only.
static bool no_f64(Resolve *r, DType t, Loc loc)
{
    if (t != DT_F64) return true;
    resolve_unsupported(r, loc, "arithmetic in f64");
    return false;
}

// One operand at least is a float. Computes in f32; see the head of the file.
static Value float_binary(Resolve *r, TileMath m, Value a, Value b, Loc loc)
{
    DType t = float_type(&a, &b);
    double va, vb;
    if (t == DT_F64 && is_literal(&a, &va) && is_literal(&b, &vb)) {
        double v = m == TM_ADD   ? va + vb
                   : m == TM_SUB ? va - vb
                   : m == TM_MUL ? va * vb
                   : m == TM_DIV ? va / vb
                                 : NAN;
        if (!isnan(v)) return value_texpr(float_const(r, DT_F64, v, loc));
    }
    if (!no_f64(r, t, loc)) return value_none();
    a = resolve_convert(r, a, DT_F32, loc);
    b = resolve_convert(r, b, DT_F32, loc);
    if (a.kind == VAL_NONE || b.kind == VAL_NONE) return value_none();
    bool compares = tile_math[m].result == 'b';
    const TExpr *x = math_tree(r, m, compares ? DT_BOOL : DT_F32, value_tree(r, &a, loc),
                               value_tree(r, &b, loc), NULL, loc);
    return value_texpr(compares ? x : cast_tree(r, x, t, loc));
}

// The same operation on expressions; > and >= are < and <= with sides exchanged.
static const Expr *index_binary(Resolve *r, AstOp op, const Expr *a, const Expr *b)
{
    ExprPool *p = r->x;
    switch (op) {
    case AST_OP_ADD: return expr_bin(p, EX_ADD, a, b);
    case AST_OP_SUB: return expr_bin(p, EX_SUB, a, b);
    case AST_OP_MUL: return expr_bin(p, EX_MUL, a, b);
    case AST_OP_DIV: return expr_bin(p, EX_DIV, a, b);
    case AST_OP_MOD: return expr_bin(p, EX_MOD, a, b);
    case AST_OP_AND: return expr_bin(p, EX_AND, a, b);
    case AST_OP_OR: return expr_bin(p, EX_OR, a, b);
    case AST_OP_XOR: return expr_bin(p, EX_XOR, a, b);
    case AST_OP_SHL: return expr_bin(p, EX_SHL, a, b);
    case AST_OP_SHR: return expr_bin(p, EX_SHR, a, b);
    case AST_OP_EQ: return expr_bin(p, EX_EQ, a, b);
    case AST_OP_NE: return expr_bin(p, EX_NE, a, b);
    case AST_OP_LT: return expr_bin(p, EX_LT, a, b);
    case AST_OP_LE: return expr_bin(p, EX_LE, a, b);
    case AST_OP_GT: return expr_bin(p, EX_LT, b, a);
    case AST_OP_GE: return expr_bin(p, EX_LE, b, a);
    case AST_OP_LAND: return expr_bin(p, EX_LAND, a, b);
    case AST_OP_LOR: return expr_bin(p, EX_LOR, a, b);
    default: return NULL;
    }
}

static int math_of_op(AstOp op)
{
    switch (op) {
    case AST_OP_ADD: return TM_ADD;
    case AST_OP_SUB: return TM_SUB;
    case AST_OP_MUL: return TM_MUL;
    case AST_OP_DIV: return TM_DIV;
    case AST_OP_MOD: return TM_REM;
    case AST_OP_AND: return TM_AND;
    case AST_OP_OR: return TM_OR;
    case AST_OP_XOR: return TM_XOR;
    case AST_OP_SHL: return TM_SHL;
    case AST_OP_SHR: return TM_SHR;
    case AST_OP_EQ: return TM_EQ;
    case AST_OP_NE: return TM_NE;
    case AST_OP_LT: return TM_LT;
    case AST_OP_LE: return TM_LE;
    case AST_OP_GT: return TM_GT;
    case AST_OP_GE: return TM_GE;
    case AST_OP_LAND: return TM_LAND;
    case AST_OP_LOR: return TM_LOR;
    default: return -1;
    }
}

// An index expression is of any integer type; a run-time value is converted.
static const TExpr *int_tree(Resolve *r, const Value *v, DType t, Loc loc)
{
    if (!v->index) return cast_tree(r, v->x, t, loc);
    Value typed = value_index(r, v->index, t);
    return value_tree(r, &typed, loc);
}

// Expressions are lowered in 32 bits but for variables of 64, so a result of a 64-bit type that may
// need them becomes one.
static Value wide_value(Resolve *r, Value v, Loc loc)
{
    i64 lo, hi;
    if (!r->at || dtype_bytes[v.type] != 8 || v.index->op == EX_CONST) return v;
    if (expr_range(r->x, v.index, &lo, &hi) && lo >= INT32_MIN && hi <= INT32_MAX) return v;
    int s = resolve_new_scalar(r, intern(r->m->names, "wide"), v.type, loc);
    resolve_set(r, s, value_tree(r, &v, loc), loc);
    resolve_keep_range(r, s, v.index);
    return resolve_scalar_read(r, s, loc);
}

// Two integers. Comparisons keep both forms: the expression for folding and for the host, the tree
// for the device.
static Value int_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc)
{
    TileMath m = (TileMath)math_of_op(op);
    DType t = int_type(a.type, b.type);
    if (op == AST_OP_SHL || op == AST_OP_SHR) t = int_type(a.type, a.type);
    bool compares = tile_math[m].result == 'b';
    i64 n;
    if ((op == AST_OP_DIV || op == AST_OP_MOD) && b.index && expr_is_const(b.index, &n) && !n) {
        resolve_error(r, loc, NULL, "division by zero");
        return value_none();
    }
    bool shift = op == AST_OP_SHL || op == AST_OP_SHR;
    if (shift && b.index && expr_is_const(b.index, &n) && (n < 0 || n >= 8 * dtype_bytes[t])) {
        resolve_error(r, loc, NULL, "the shift is %lld; 0 to %d is required for %s", (long long)n,
                      8 * dtype_bytes[t] - 1, dtype_name[t]);
        return value_none();
    }
    Value v = {.kind = VAL_SCALAR, .type = compares ? DT_BOOL : t};
    if (a.index && b.index) v.index = index_binary(r, op, a.index, b.index);
    if (v.index && !compares) return wide_value(r, v, loc);
    if (v.index && v.index->op == EX_CONST) return v;
    const TExpr *xa = int_tree(r, &a, t, loc), *xb = int_tree(r, &b, t, loc);
    v.x = math_tree(r, m, v.type, xa, xb, NULL, loc);
    return v;
}

// &&, ||, == and != of bools.
static Value bool_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc)
{
    if (a.type != DT_BOOL || b.type != DT_BOOL) {
        const Value *bad = a.type != DT_BOOL ? &a : &b;
        resolve_error(r, loc, "compare it: `x != 0`", "'%s' needs bools, found %s", ast_op_text(op),
                      value_describe(r, bad));
        return value_none();
    }
    Value v = {.kind = VAL_SCALAR, .type = DT_BOOL};
    if (a.index && b.index) v.index = index_binary(r, op, a.index, b.index);
    if (v.index && v.index->op == EX_CONST) return v;
    i64 n;
    // One side known: the other decides, or this one does.
    bool and_op = op == AST_OP_LAND;
    if (and_op || op == AST_OP_LOR) {
        if (a.index && expr_is_const(a.index, &n)) return (n != 0) == and_op ? b : a;
        if (b.index && expr_is_const(b.index, &n)) return (n != 0) == and_op ? a : b;
    }
    // Two bools differ when their exclusive or holds.
    bool compares = op == AST_OP_EQ || op == AST_OP_NE;
    TileMath m = compares ? TM_XOR : (TileMath)math_of_op(op);
    v.x = math_tree(r, m, DT_BOOL, value_tree(r, &a, loc), value_tree(r, &b, loc), NULL, loc);
    if (op == AST_OP_EQ) v.x = math_tree(r, TM_LNOT, DT_BOOL, v.x, NULL, NULL, loc);
    return v;
}

// ---- lists: element by element -----------------------------------------------------------------

// Shapes and tuples of equal rank, or a list and a number.
static Value list_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc)
{
    if (a.kind == VAL_LIST && b.kind == VAL_LIST && a.n != b.n) {
        resolve_error(r, loc, NULL,
                      "'%s' joins lists of %d and %d elements; equal ranks are required",
                      ast_op_text(op), a.n, b.n);
        return value_none();
    }
    Value out = a.kind == VAL_LIST ? a : b;
    for (int i = 0; i < out.n; i++) {
        const Expr *x = a.kind == VAL_LIST ? a.item[i].index : a.index;
        const Expr *y = b.kind == VAL_LIST ? b.item[i].index : b.index;
        if (!x || !y) {
            resolve_error(r, loc, NULL, "the elements of a list are integers; found %s",
                          value_describe(r, a.kind == VAL_LIST ? &b : &a));
            return value_none();
        }
        Value v = int_binary(r, op, value_index(r, x, DT_S32), value_index(r, y, DT_S32), loc);
        if (v.kind == VAL_NONE) return v;
        out.item[i] = (ListItem){v.index, NULL};
    }
    return out;
}

// ---- bounded integers --------------------------------------------------------------------------

// a # b numbers pairs row by row; x #+ k and x #- k move the bound only.
static Value bound_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc)
{
    if (op == AST_OP_UB_MUL || op == AST_OP_UB_DIV || op == AST_OP_UB_MOD) {
        resolve_error(r, loc, "`#+` and `#-` exist", "'%s' has no meaning for bounds",
                      ast_op_text(op));
        return value_none();
    }
    bool join = op == AST_OP_JOIN;
    if (!a.index || !a.bound || !b.index || (join && !b.bound)) {
        resolve_error(r, loc, "variables of parallel and foreach are bounded", "'%s' needs %s",
                      ast_op_text(op),
                      join ? "bounded integers on both sides" : "a bounded integer on its left");
        return value_none();
    }
    Value v = {.kind = VAL_SCALAR, .type = DT_S32};
    if (join) {
        v.index = expr_add(r->x, expr_mul(r->x, a.index, b.bound), b.index);
        v.bound = expr_mul(r->x, a.bound, b.bound);
    } else {
        v.index = a.index;
        v.bound = expr_bin(r->x, op == AST_OP_UB_ADD ? EX_ADD : EX_SUB, a.bound, b.index);
    }
    return v;
}

// ---- entry points ------------------------------------------------------------------------------

// Any binary operator on any two values.
Value math_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc)
{
    if (a.kind == VAL_NONE || b.kind == VAL_NONE) return value_none();
    if (op == AST_OP_JOIN || (op >= AST_OP_UB_ADD && op <= AST_OP_UB_MOD)) {
        if (!need_number(r, &a, loc) || !need_number(r, &b, loc)) return value_none();
        return bound_binary(r, op, a, b, loc);
    }
    if (math_of_op(op) < 0) {
        resolve_error(r, loc, NULL, "'%s' cannot stand in this expression", ast_op_text(op));
        return value_none();
    }
    bool lists = a.kind == VAL_LIST || b.kind == VAL_LIST;
    if (lists && op >= AST_OP_ADD && op <= AST_OP_MOD &&
        (a.kind == VAL_LIST || a.kind == VAL_SCALAR) &&
        (b.kind == VAL_LIST || b.kind == VAL_SCALAR))
        return list_binary(r, op, a, b, loc);
    if (!need_scalar(r, &a, loc) || !need_scalar(r, &b, loc)) return value_none();
    if (op == AST_OP_LAND || op == AST_OP_LOR) return bool_binary(r, op, a, b, loc);
    if (a.type == DT_BOOL && b.type == DT_BOOL &&
        (op == AST_OP_EQ || op == AST_OP_NE || (op >= AST_OP_AND && op <= AST_OP_XOR)))
        return bool_binary(r, op, a, b, loc);
    if (r->helper && a.type == DT_BOOL) a = resolve_convert(r, a, DT_S32, loc); // as C does
    if (r->helper && b.type == DT_BOOL) b = resolve_convert(r, b, DT_S32, loc);
    if (!need_number(r, &a, loc) || !need_number(r, &b, loc)) return value_none();
    if (dtype_is_float(a.type) || dtype_is_float(b.type)) {
        if (op == AST_OP_MOD || (op >= AST_OP_AND && op <= AST_OP_SHR)) {
            resolve_error(r, loc, "`__bitcast<s32>(x)` gives the bits of a float",
                          "'%s' needs integers, found %s", ast_op_text(op),
                          value_describe(r, dtype_is_float(a.type) ? &a : &b));
            return value_none();
        }
        return float_binary(r, (TileMath)math_of_op(op), a, b, loc);
    }
    return int_binary(r, op, a, b, loc);
}

// # - + ! ~
Value math_unary(Resolve *r, AstOp op, Value a, Loc loc)
{
    if (a.kind == VAL_NONE) return a;
    if (op == AST_OP_UBOUND) {
        if (a.kind == VAL_SCALAR && a.bound) return value_index(r, a.bound, DT_S32);
        resolve_error(r, loc, "variables of parallel and foreach are bounded",
                      "'#' needs a bounded integer, found %s", value_describe(r, &a));
        return value_none();
    }
    if (op == AST_OP_NOT) {
        if (!need_scalar(r, &a, loc)) return value_none();
        if (a.type != DT_BOOL) {
            resolve_error(r, loc, "compare it: `x == 0`", "'!' needs a bool, found %s",
                          value_describe(r, &a));
            return value_none();
        }
        Value v = {.kind = VAL_SCALAR, .type = DT_BOOL};
        if (a.index) v.index = expr_bin(r->x, EX_EQ, a.index, expr_const(r->x, 0));
        if (v.index && v.index->op == EX_CONST) return v;
        v.x = math_tree(r, TM_LNOT, DT_BOOL, value_tree(r, &a, loc), NULL, NULL, loc);
        return v;
    }
    if (!need_number(r, &a, loc)) return value_none();
    if (op == AST_OP_PLUS) return a;
    bool is_float = dtype_is_float(a.type);
    if (op == AST_OP_NEG && is_float) {
        const TExpr *x = value_tree(r, &a, loc);
        if (x->kind == TX_FLOAT) return value_texpr(float_const(r, x->type, -x->fvalue, loc));
        if (!no_f64(r, a.type, loc)) return value_none();
        x = math_tree(r, TM_NEG, DT_F32, cast_tree(r, x, DT_F32, loc), NULL, NULL, loc);
        return value_texpr(cast_tree(r, x, a.type, loc));
    }
    Value zero = value_index(r, expr_const(r->x, op == AST_OP_NEG ? 0 : -1), DT_S32);
    if (op == AST_OP_NEG) return int_binary(r, AST_OP_SUB, zero, a, loc);
    if (op == AST_OP_BITNOT && !is_float) return int_binary(r, AST_OP_XOR, zero, a, loc);
    resolve_error(r, loc, NULL, "'%s' needs an integer, found %s", ast_op_text(op),
                  value_describe(r, &a));
    return value_none();
}

// c ? a : b when both sides may be evaluated.
Value math_select(Resolve *r, Value c, Value a, Value b, Loc loc)
{
    if (!need_scalar(r, &c, loc) || !need_scalar(r, &a, loc) || !need_scalar(r, &b, loc))
        return value_none();
    if (c.type != DT_BOOL) {
        resolve_error(r, loc, "compare it: `x != 0`", "'?' needs a bool, found %s",
                      value_describe(r, &c));
        return value_none();
    }
    DType t = a.type;
    if (a.type != b.type) {
        if (a.type == DT_BOOL || b.type == DT_BOOL) {
            resolve_error(r, loc, NULL,
                          "the two values of '?:' are %s and %s; one type is required",
                          value_describe(r, &a), value_describe(r, &b));
            return value_none();
        }
        bool any_float = dtype_is_float(a.type) || dtype_is_float(b.type);
        t = any_float ? float_type(&a, &b) : int_type(a.type, b.type);
    }
    if (!no_f64(r, t, loc)) return value_none();
    a = resolve_convert(r, a, t, loc);
    b = resolve_convert(r, b, t, loc);
    if (a.kind == VAL_NONE || b.kind == VAL_NONE) return value_none();
    i64 n;
    if (c.index && expr_is_const(c.index, &n)) return n ? a : b;
    Value v = {.kind = VAL_SCALAR, .type = t};
    if (c.index && a.index && b.index) {
        v.index = expr_select(r->x, c.index, a.index, b.index);
        if (t != DT_BOOL) return v;
    }
    if (t == DT_BOOL) { // (c && a) || (!c && b)
        Value no = math_unary(r, AST_OP_NOT, c, loc);
        return bool_binary(r, AST_OP_LOR, bool_binary(r, AST_OP_LAND, c, a, loc),
                           bool_binary(r, AST_OP_LAND, no, b, loc), loc);
    }
    DType wide = dtype_is_float(t) ? DT_F32 : t;
    const TExpr *xa = cast_tree(r, value_tree(r, &a, loc), wide, loc);
    const TExpr *xb = cast_tree(r, value_tree(r, &b, loc), wide, loc);
    v.x = cast_tree(r, math_tree(r, TM_SELECT, wide, value_tree(r, &c, loc), xa, xb, loc), t, loc);
    return v;
}

// ---- built-in functions ------------------------------------------------------------------------

typedef struct {
    const char *name;
    int args, math; // math -1: the language has it, this compiler does not; below: BY_*
} Builtin;

// Functions that the tile IR has no operator for are made of those that it has. Exponentials and
// logarithms go through base 2, like the fast functions of CUDA; __gelu is the form with tanh.
enum {
    BY_EXP = -2,
    BY_LOG = -3,
    BY_SIGN = -4,
    BY_FINITE = -5,
    BY_SIGMOID = -6,
    BY_SOFTPLUS = -7,
    BY_GELU = -8,
    BY_ALL = -9,     // __all(c) is !__any(!c)
    BY_LIBRARY = -10 // library.c
};

static const Builtin builtin[] = {
    {"__exp2f", 1, TM_EXP2},
    {"__exp2", 1, TM_EXP2},
    {"__log2f", 1, TM_LOG2},
    {"__log2", 1, TM_LOG2},
    {"__max", 2, TM_MAX},
    {"__min", 2, TM_MIN},
    {"__fabs", 1, TM_ABS},
    {"__sqrt", 1, TM_SQRT},
    {"__rsqrt", 1, TM_RSQRT},
    {"__frcp_rn", 1, TM_DIV},
    {"__fmaf", 3, TM_FMA},
    {"__tanh", 1, TM_TANH},
    {"__exp", 1, BY_EXP},
    {"__expm1", 1, BY_LIBRARY},
    {"__log", 1, BY_LOG},
    {"__log1p", 1, BY_LIBRARY},
    {"__pow", 2, BY_LIBRARY},
    {"__sin", 1, BY_LIBRARY},
    {"__cos", 1, BY_LIBRARY},
    {"__tan", 1, BY_LIBRARY},
    {"__sinh", 1, BY_LIBRARY},
    {"__cosh", 1, BY_LIBRARY},
    {"__asin", 1, BY_LIBRARY},
    {"__acos", 1, BY_LIBRARY},
    {"__atan", 1, BY_LIBRARY},
    {"__atan2", 2, BY_LIBRARY},
    {"__ceil", 1, BY_LIBRARY},
    {"__floor", 1, BY_LIBRARY},
    {"__round", 1, BY_LIBRARY},
    {"__sign", 1, BY_SIGN},
    {"__isfinite", 1, BY_FINITE},
    {"__gelu", 1, BY_GELU},
    {"__any", 1, TM_ANY},
    {"__all", 1, BY_ALL},
    {"__sigmoid", 1, BY_SIGMOID},
    {"__softplus", 1, BY_SOFTPLUS},
};

// __alignup(a, n), __aligndown(a, n): the multiple of n at or beside a.
static Value call_align(Resolve *r, const AstNode *e, bool up)
{
    const Expr *a = resolve_index(r, e->list.at[0], "the value to align");
    i64 n;
    if (!resolve_const(r, e->list.at[1], "the alignment", 1, INT32_MAX, &n) || !a)
        return value_none();
    const Expr *c = expr_const(r->x, n);
    const Expr *q = up ? expr_cdiv(r->x, a, c) : expr_bin(r->x, EX_DIV, a, c);
    return value_index(r, expr_mul(r->x, q, c), DT_S32);
}

static const TExpr *f32_math(Resolve *r, TileMath m, const TExpr *a, const TExpr *b, Loc loc)
{
    return math_tree(r, m, DT_F32, a, b, NULL, loc);
}

// exp2(x * k)
static const TExpr *exp_scaled(Resolve *r, const TExpr *x, double k, Loc loc)
{
    return f32_math(r, TM_EXP2, f32_math(r, TM_MUL, x, float_const(r, DT_F32, k, loc), loc), NULL,
                    loc);
}

static const TExpr *log_natural(Resolve *r, const TExpr *x, Loc loc)
{
    const TExpr *ln2 = float_const(r, DT_F32, (double)0.693147180559945f, loc);
    return f32_math(r, TM_MUL, f32_math(r, TM_LOG2, x, NULL, loc), ln2, loc);
}

// A function of one f32, made of the operators of the tile IR.
static Value call_composed(Resolve *r, int how, const TExpr *x, Loc loc)
{
    const double log2e = (double)1.44269504088896f;
    const TExpr *one = float_const(r, DT_F32, 1, loc), *zero = float_const(r, DT_F32, 0, loc), *y;
    switch (how) {
    case BY_EXP: return value_texpr(exp_scaled(r, x, log2e, loc));
    case BY_LOG: return value_texpr(log_natural(r, x, loc));
    case BY_SIGN: {
        const TExpr *minus = float_const(r, DT_F32, -1, loc);
        const TExpr *up = math_tree(r, TM_GT, DT_BOOL, x, zero, NULL, loc);
        const TExpr *down = math_tree(r, TM_LT, DT_BOOL, x, zero, NULL, loc);
        y = math_tree(r, TM_SELECT, DT_F32, down, minus, zero, loc);
        return value_texpr(math_tree(r, TM_SELECT, DT_F32, up, one, y, loc));
    }
    case BY_FINITE:
        y = f32_math(r, TM_ABS, x, NULL, loc);
        return value_texpr(
            math_tree(r, TM_LT, DT_BOOL, y, float_const(r, DT_F32, INFINITY, loc), NULL, loc));
    case BY_SIGMOID: // 1 / (1 + exp(-x))
        y = f32_math(r, TM_ADD, one, exp_scaled(r, x, -log2e, loc), loc);
        return value_texpr(f32_math(r, TM_DIV, one, y, loc));
    case BY_SOFTPLUS: // max(x, 0) + log(1 + exp(-|x|)), which does not overflow
        y = exp_scaled(r, f32_math(r, TM_ABS, x, NULL, loc), -log2e, loc);
        y = log_natural(r, f32_math(r, TM_ADD, one, y, loc), loc);
        return value_texpr(f32_math(r, TM_ADD, f32_math(r, TM_MAX, x, zero, loc), y, loc));
    default: // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
        y = f32_math(r, TM_MUL, f32_math(r, TM_MUL, x, x, loc),
                     float_const(r, DT_F32, (double)0.044715f, loc), loc);
        y = f32_math(r, TM_MUL, f32_math(r, TM_ADD, y, one, loc), x, loc);
        y = f32_math(r, TM_MUL, y, float_const(r, DT_F32, (double)0.797884560802865f, loc), loc);
        y = f32_math(r, TM_ADD, f32_math(r, TM_TANH, y, NULL, loc), one, loc);
        x = f32_math(r, TM_MUL, x, float_const(r, DT_F32, 0.5, loc), loc);
        return value_texpr(f32_math(r, TM_MUL, x, y, loc));
    }
}

// __max and __min of integers stay expressions.
static Value call_int_minmax(Resolve *r, TileMath m, Value a, Value b, Loc loc)
{
    DType t = int_type(a.type, b.type);
    if (a.index && b.index)
        return value_index(r, expr_bin(r->x, m == TM_MIN ? EX_MIN : EX_MAX, a.index, b.index), t);
    a = resolve_convert(r, a, t, loc);
    b = resolve_convert(r, b, t, loc);
    return value_texpr(
        math_tree(r, m, t, value_tree(r, &a, loc), value_tree(r, &b, loc), NULL, loc));
}

// __any(c), __all(c): c in some lane, in every lane of the warp. All 32 lanes take part.
static Value call_vote(Resolve *r, const AstNode *e, bool all)
{
    Value v = resolve_expr(r, e->list.at[0]);
    if (!need_scalar(r, &v, e->loc)) return v;
    if (v.type != DT_BOOL) {
        resolve_error(r, e->loc, "compare it: `x != 0`", "'%s' takes a bool, found %s", e->name,
                      value_describe(r, &v));
        return value_none();
    }
    if (!r->at || !resolve_together(r, e->loc, e->name, LEVEL_WARP)) return value_none();
    if (all) v = math_unary(r, AST_OP_NOT, v, e->loc);
    v = value_texpr(math_tree(r, TM_ANY, DT_BOOL, value_tree(r, &v, e->loc), NULL, NULL, e->loc));
    return all ? math_unary(r, AST_OP_NOT, v, e->loc) : v;
}

// Arguments become f32; equal narrow types come back as that type.
static Value call_math(Resolve *r, const AstNode *e, const Builtin *f)
{
    Value v[3];
    const TExpr *x[3] = {0};
    DType t = DT_F64;
    bool all_ints = true;
    for (int i = 0; i < f->args; i++) {
        v[i] = resolve_expr(r, e->list.at[i]);
        if (!need_number(r, &v[i], e->list.at[i]->loc)) return value_none();
        all_ints = all_ints && !dtype_is_float(v[i].type);
        // Equal small types stay what they are; everything else is f32.
        t = i == 0 || v[i].type == t ? v[i].type : DT_F32;
    }
    if ((f->math == TM_MIN || f->math == TM_MAX) && all_ints)
        return call_int_minmax(r, (TileMath)f->math, v[0], v[1], e->loc);
    if (!dtype_is_float(t) || t == DT_F64) t = DT_F32;
    for (int i = 0; i < f->args; i++) {
        v[i] = resolve_convert(r, v[i], DT_F32, e->list.at[i]->loc);
        if (v[i].kind == VAL_NONE) return v[i];
        x[i] = value_tree(r, &v[i], e->loc);
    }
    if (f->math == BY_LIBRARY) {
        Value y = call_library(r, f->name, v, f->args, e->loc);
        if (y.kind == VAL_NONE) return y;
        return value_texpr(cast_tree(r, value_tree(r, &y, e->loc), t, e->loc));
    }
    if (f->math < 0) {
        Value v0 = call_composed(r, f->math, x[0], e->loc);
        if (v0.type == DT_F32) v0 = value_texpr(cast_tree(r, v0.x, t, e->loc));
        return v0;
    }
    if (f->math == TM_DIV) { // the correctly rounded reciprocal
        x[1] = x[0];
        x[0] = float_const(r, DT_F32, 1.0, e->loc);
    }
    const TExpr *y = math_tree(r, (TileMath)f->math, DT_F32, x[0], x[1], x[2], e->loc);
    return value_texpr(cast_tree(r, y, t, e->loc));
}

// CUDA's names for conversions and for the bits of a value, in helpers.
static bool cuda_cast(Resolve *r, const AstNode *e, Value *out)
{
    static const struct {
        const char *name;
        DType to;
        bool value; // converted, else the bits are kept
    } casts[] = {
        {"__float_as_int", DT_S32, false},   {"__float_as_uint", DT_U32, false},
        {"__int_as_float", DT_F32, false},   {"__uint_as_float", DT_F32, false},
        {"__half2float", DT_F32, true},      {"__bfloat162float", DT_F32, true},
        {"__float2half", DT_F16, true},      {"__float2half_rn", DT_F16, true},
        {"__float2bfloat16", DT_BF16, true}, {"__float2bfloat16_rn", DT_BF16, true},
        {"__float2int_rz", DT_S32, true},    {"__int2float_rn", DT_F32, true},
    };
    for (int i = 0; r->helper && i < COUNT(casts); i++) {
        if (strcmp(casts[i].name, e->name) || e->list.n != 1) continue;
        Value v = resolve_expr(r, e->list.at[0]);
        if (v.kind == VAL_SCALAR && v.type == DT_F64) v = resolve_convert(r, v, DT_F32, e->loc);
        *out = casts[i].value ? resolve_cast(r, v, casts[i].to, e->loc) : value_none();
        if (v.kind == VAL_NONE || casts[i].value) return true;
        if (v.kind != VAL_SCALAR || dtype_bytes[v.type] != 4) {
            resolve_error(r, e->loc, NULL, "'%s' needs a value of 4 bytes, found %s", e->name,
                          value_describe(r, &v));
            return true;
        }
        TExpr *x = ARENA_NEW(r->arena, TExpr);
        *x = (TExpr){.kind = TX_BITCAST, .type = casts[i].to, .loc = e->loc,
                     .a = value_tree(r, &v, e->loc)};
        *out = value_texpr(x);
        return true;
    }
    return false;
}

// A built-in function by its row in the table above.
Value math_call(Resolve *r, const AstNode *e)
{
    Value bits;
    if (cuda_cast(r, e, &bits)) return bits;
    if (r->call && r->call->of_library && tile_library(e->name))
        return resolve_call_helper(r, e, false);
    if (!strcmp(e->name, "__alignup") || !strcmp(e->name, "__aligndown")) {
        if (e->list.n == 2) return call_align(r, e, !strcmp(e->name, "__alignup"));
        resolve_error(r, e->loc, NULL, "'%s' takes 2 arguments, found %d", e->name, e->list.n);
        return value_none();
    }
    Value device;
    if (resolve_device_call(r, e, &device)) return device;
    for (int i = 0; i < COUNT(builtin); i++) {
        const Builtin *f = &builtin[i];
        if (strcmp(f->name, e->name)) continue;
        if (f->math == -1) {
            resolve_unsupported(r, e->loc, "%s", e->name);
            return value_none();
        }
        if (e->list.n != f->args) {
            resolve_error(r, e->loc, NULL, "'%s' takes %d argument%s, found %d", e->name, f->args,
                          f->args == 1 ? "" : "s", e->list.n);
            return value_none();
        }
        if (f->math == TM_ANY || f->math == BY_ALL) return call_vote(r, e, f->math == BY_ALL);
        return call_math(r, e, f);
    }
    resolve_error(r, e->loc, NULL, "there is no built-in function '%s'", e->name);
    return value_none();
}
