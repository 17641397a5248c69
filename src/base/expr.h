// expr.h - the one integer expression of baton: shapes, coordinates, grid sizes, checks.
//
// Immutable and hash-consed: two equal expressions of a pool are the same pointer. Construction
// brings sums into one order and folds what can be folded, so pointer equality proves equality
// (never the opposite). 64-bit signed arithmetic; division and remainder truncate toward zero like
// C and PTX. Overflow and division by zero are reported by evaluation, never undefined.
//
// Variables are interned names with a sigil that tells who binds them:
//   M, S, n        a symbol of the launch plan (an extent or a scalar argument)
//   ctaid.x tid ...  a special register of the machine (tid: thread of the CTA, one-dimensional)
//   %i             a register of the thread IR / a run-time scalar of the tile IR
//   $u             an unroll variable (a constant after unrolling)
#ifndef BATON_EXPR_H
#define BATON_EXPR_H

#include "base.h"

//          id        text   precedence (0: call form)
#define EXPR_OPS(X)           \
    X(EX_CONST, "", 9)        \
    X(EX_VAR, "", 9)          \
    X(EX_ADD, "+", 6)         \
    X(EX_SUB, "-", 6)         \
    X(EX_MUL, "*", 7)         \
    X(EX_DIV, "/", 7)         \
    X(EX_MOD, "%", 7)         \
    X(EX_MIN, "min", 0)       \
    X(EX_MAX, "max", 0)       \
    X(EX_AND, "&", 4)         \
    X(EX_OR, "|", 2)          \
    X(EX_XOR, "^", 3)         \
    X(EX_SHL, "<<", 5)        \
    X(EX_SHR, ">>", 5)        \
    X(EX_EQ, "==", 1)         \
    X(EX_NE, "!=", 1)         \
    X(EX_LT, "<", 1)          \
    X(EX_LE, "<=", 1)         \
    X(EX_LAND, "and", 0)      \
    X(EX_LOR, "or", 0)        \
    X(EX_SELECT, "select", 0)
typedef enum {
#define X(id, text, prec) id,
    EXPR_OPS(X)
#undef X
    EX_COUNT
} ExprOp;

typedef struct Expr Expr;
struct Expr {
    u8 op;                // ExprOp
    u32 id;               // order of creation in the pool; operands of + and * are sorted by it
    i64 value;            // EX_CONST
    const char *name;     // EX_VAR, interned
    const Expr *a, *b, *c; // operands; c only for EX_SELECT (a ? b : c)
};

typedef struct ExprPool ExprPool;
// A pool lives in the arena; so do all its expressions. Expressions of two pools must not be
// mixed.
ExprPool *expr_pool_new(Arena *a, Intern *names);
Intern *expr_pool_names(ExprPool *p);

// Constructors: they never fail. Operands belong to the same pool; so does the result, for good.
const Expr *expr_const(ExprPool *p, i64 v);
const Expr *expr_var(ExprPool *p, const char *name);
// Says that lo <= var <= hi always holds; folding and expr_range use it.
void expr_set_range(ExprPool *p, const char *name, i64 lo, i64 hi);
const Expr *expr_bin(ExprPool *p, ExprOp op, const Expr *a, const Expr *b);
const Expr *expr_select(ExprPool *p, const Expr *c, const Expr *a, const Expr *b);
static inline const Expr *expr_add(ExprPool *p, const Expr *a, const Expr *b)
{
    return expr_bin(p, EX_ADD, a, b);
}
static inline const Expr *expr_sub(ExprPool *p, const Expr *a, const Expr *b)
{
    return expr_bin(p, EX_SUB, a, b);
}
static inline const Expr *expr_mul(ExprPool *p, const Expr *a, const Expr *b)
{
    return expr_bin(p, EX_MUL, a, b);
}
const Expr *expr_cdiv(ExprPool *p, const Expr *a, const Expr *b); // (a + b - 1) / b, b > 0

static inline bool expr_is_const(const Expr *e, i64 *v)
{
    if (e->op != EX_CONST) return false;
    if (v) *v = e->value;
    return true;
}
// Bounds of e over the known ranges of its variables; false when one side is unbounded (then *lo or
// *hi is INT64_MIN or INT64_MAX and the other side is still valid).
bool expr_range(const ExprPool *p, const Expr *e, i64 *lo, i64 *hi);
// Largest power of two known to divide e (1 when nothing is known; 1 << 40 for the constant 0).
i64 expr_pow2_divisor(const ExprPool *p, const Expr *e);
bool expr_uses(const Expr *e, const char *name);
// Replaces variables: `value` returns the replacement or NULL to keep the variable.
typedef const Expr *ExprSubst(void *ctx, const Expr *var);
const Expr *expr_subst(ExprPool *p, const Expr *e, ExprSubst *value, void *ctx);

// Evaluation: `lookup` gives the value of a variable or false. Returns NULL and *out, or a reason:
// "division by zero", "overflow", "unknown variable S".
typedef bool ExprLookup(void *ctx, const char *name, i64 *value);
const char *expr_eval(const Expr *e, ExprLookup *lookup, void *ctx, i64 *out);

// Text: C-like infix, `min(a, b)`, `max(a, b)`, `and(a, b)`, `or(a, b)`, `select(c, a, b)`; prints
// and reads back to the same pointer. Also reads `cdiv(a, b)`, which is expr_cdiv. expr_read advances *s past the expression; NULL on a syntax
// error, with *err set to a static text.
void expr_print(const Expr *e, Buf *out);
const Expr *expr_read(ExprPool *p, const char **s, const char **err);

#endif
