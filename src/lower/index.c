// index.c - integer expressions to registers.
//
// A register that holds an expression is remembered until its region closes, so that one address is
// computed once per scope; expressions over mutable scalars are never remembered. Unroll variables
// are constants after unrolling: they go into immediates wherever the expression is affine in them.
#include "impl.h"

#include <string.h>

const Expr *lower_const(Lower *l, i64 v) { return expr_const(l->x, v); }

const Expr *lower_reg_expr(Lower *l, int reg)
{
    return expr_var(l->x, intern_printf(l->m->names, "%%%s", l->tf->regs.at[reg].name));
}

static Operand lower_symbol(Lower *l, const Expr *e);

// A property of the device has no name in the thread IR: its register stands for it.
static const Expr *subst_var(void *ctx, const Expr *var)
{
    Lower *l = ctx;
    if (strncmp(var->name, "device.", 7) == 0)
        return lower_loop_var(l, lower_symbol(l, var).reg, 1, INT32_MAX);
    return map_get(l->subst, var->name);
}

const Expr *lower_subst(Lower *l, const Expr *e) { return expr_subst(l->x, e, subst_var, l); }

// ---- affine parts -------------------------------------------------------------------------------

// Adds k * e to *imm (constants and unroll variables) and *rest (everything else). A term that does
// not fit an operand (its coefficient, or more than INDEX_TERMS variables) stays in the rest.
static void collect(Lower *l, const Expr *e, i64 k, Operand *imm, const Expr **rest)
{
    i64 c;
    switch (e->op) {
    case EX_CONST:
        imm->base += k * e->value;
        return;
    case EX_VAR: {
        void *var = e->name[0] == '$' ? map_get(l->unroll_of, e->name) : NULL;
        if (var && imm->nterms < INDEX_TERMS && k >= INT32_MIN && k <= INT32_MAX) {
            *imm = opd_plus(*imm, (int)(intptr_t)var - 1, (i32)k);
            return;
        }
        break;
    }
    case EX_ADD:
        collect(l, e->a, k, imm, rest);
        collect(l, e->b, k, imm, rest);
        return;
    case EX_SUB:
        collect(l, e->a, k, imm, rest);
        collect(l, e->b, -k, imm, rest);
        return;
    case EX_MUL:
        if (expr_is_const(e->b, &c) && c >= INT32_MIN && c <= INT32_MAX) {
            collect(l, e->a, k * c, imm, rest);
            return;
        }
        break;
    default: break;
    }
    const Expr *term = expr_mul(l->x, e, lower_const(l, k));
    *rest = *rest ? expr_add(l->x, *rest, term) : term;
}

// Is there anything in the sum e for collect to take out?
static bool has_affine(const Lower *l, const Expr *e)
{
    switch (e->op) {
    case EX_CONST: return true;
    case EX_VAR: return e->name[0] == '$' && map_get(l->unroll_of, e->name);
    case EX_ADD:
    case EX_SUB: return has_affine(l, e->a) || has_affine(l, e->b);
    case EX_MUL: return e->b->op == EX_CONST && has_affine(l, e->a);
    default: return false;
    }
}

Operand lower_split(Lower *l, const Expr *e, const Expr **rest)
{
    Operand imm = opd_imm(0);
    *rest = e;
    if (!has_affine(l, e)) return imm;
    *rest = NULL;
    collect(l, e, 1, &imm, rest);
    return imm;
}

// ---- the register cache -------------------------------------------------------------------------

// Remembered for each node: expressions that grow name by name share their parts. Sound since a
// variable is known to be mutable before anything is made of it.
bool lower_uses_mutable(const Lower *l, const Expr *e)
{
    if (e->op == EX_CONST) return false;
    if (e->op == EX_VAR) return map_get(l->mutables, e->name) != NULL;
    intptr_t known = (intptr_t)map_get(l->varies, e);
    if (known) return known == 2;
    bool uses = lower_uses_mutable(l, e->a) || lower_uses_mutable(l, e->b) ||
                (e->c && lower_uses_mutable(l, e->c));
    map_put(l->varies, e, (void *)(intptr_t)(uses ? 2 : 1));
    return uses;
}

// Expressions are aligned, so the lowest bit of the address is free for the width.
static const void *cache_key(const Expr *e, bool wide)
{
    return (const void *)((uintptr_t)e | (uintptr_t)wide);
}

// Prologue registers hold everywhere; those of open regions only outside the prologue, which runs
// before them.
static bool cache_find(Lower *l, const Expr *e, bool wide, Operand *out)
{
    const void *key = cache_key(e, wide);
    for (int pass = l->in_prologue ? 1 : 0; pass < 2; pass++) {
        const IndexCache *c = pass ? &l->prologue_cache : &l->cache;
        int i = (int)(intptr_t)map_get(c->newest, key) - 1;
        if (i < 0) continue;
        *out = c->entries.at[i].value;
        return true;
    }
    return false;
}

// Under a guard a register is written in some lanes only: not remembered.
static Operand cache_put(Lower *l, const Expr *e, bool wide, Operand v)
{
    if (l->b.guard.kind != OPD_NONE || lower_uses_mutable(l, e)) return v;
    IndexCache *c = l->in_prologue ? &l->prologue_cache : &l->cache;
    const void *key = cache_key(e, wide);
    IndexEntry entry = {key, v, (int)(intptr_t)map_get(c->newest, key)};
    vec_push(l->m->arena, &c->entries, entry);
    map_put(c->newest, key, (void *)(intptr_t)c->entries.n);
    return v;
}

int lower_cache_mark(const Lower *l) { return l->cache.entries.n; }

void lower_cache_cut(Lower *l, int mark)
{
    IndexCache *c = &l->cache;
    while (c->entries.n > mark) {
        const IndexEntry *entry = &c->entries.at[--c->entries.n];
        map_put(c->newest, entry->key, (void *)(intptr_t)entry->older);
    }
}

int lower_open_unroll(Lower *l, const char *name, int trips, const Expr **var, ThreadBlock **saved)
{
    int id;
    thread_open_unroll(&l->b, name, trips, &id, saved);
    const char *text = intern_printf(l->m->names, "$%s", l->tf->unrolls.at[id]);
    expr_set_range(l->x, text, 0, trips > 0 ? trips - 1 : 0);
    map_put(l->unroll_of, text, (void *)(intptr_t)(id + 1));
    *var = expr_var(l->x, text);
    return lower_cache_mark(l);
}

void lower_close(Lower *l, ThreadBlock *saved, int mark)
{
    thread_close(&l->b, saved);
    lower_cache_cut(l, mark);
}

// ---- 32 bits ------------------------------------------------------------------------------------

static Operand new_b32(Lower *l) { return opd_reg(lower_new_reg(l, "i", RC_B32, 1), 0); }

static Operand binary(Lower *l, ThreadOpcode op, ThreadType t, Operand a, Operand b)
{
    Operand d = new_b32(l);
    EMIT(&l->b, op, t, d, a, b);
    return d;
}

static bool nonnegative(Lower *l, const Expr *e)
{
    i64 lo, hi;
    expr_range(l->x, e, &lo, &hi);
    return lo >= 0;
}

// Not negative, and perhaps beyond 31 bits: an unsigned value, whose sign bit is a digit.
static bool is_unsigned(Lower *l, const Expr *e)
{
    i64 lo, hi;
    expr_range(l->x, e, &lo, &hi);
    return lo >= 0 && hi > INT32_MAX;
}

// The type of an operation that depends on the sign.
static ThreadType signed_type(Lower *l, const Expr *a, const Expr *b)
{
    bool plain = !is_unsigned(l, a) && !is_unsigned(l, b);
    return plain || !nonnegative(l, a) || !nonnegative(l, b) ? TT_S32 : TT_U32;
}

static bool uses_wide(Lower *l, const Expr *e)
{
    if (!e) return false;
    if (e->op != EX_VAR) return uses_wide(l, e->a) || uses_wide(l, e->b) || uses_wide(l, e->c);
    int reg = (int)(intptr_t)map_get(l->reg_of, e->name) - 1;
    return reg >= 0 && l->tf->regs.at[reg].class == RC_B64;
}

// Whether e has variables of 64 bits; only s64 and u64 of the source become such.
static bool is_wide(Lower *l, const Expr *e)
{
    for (int i = 0; i < l->k->scalars.n; i++)
        if (dtype_bytes[l->k->scalars.at[i].type] == 8) return uses_wide(l, e);
    return false;
}

static int log2_exact(i64 c)
{
    for (int k = 0; k < 31; k++)
        if (c == (i64)1 << k) return k;
    return -1;
}

// A size that is known only at launch: a kernel parameter of 32 bits, loaded once.
static Operand lower_symbol(Lower *l, const Expr *e)
{
    int reg = (int)(intptr_t)map_get(l->symbol_reg, e->name) - 1;
    if (reg < 0) {
        PrologueMark mark = lower_enter_prologue(l);
        int param = lower_param(l, e->name, PARAM_S32, (PlanArg){.kind = ARG_VALUE, .value = e});
        reg = lower_new_reg(l, e->name, RC_B32, 1);
        EMIT(&l->b, OP_LDPARAM, TT_S32, opd_reg(reg, 0), opd_param(param));
        map_put(l->symbol_reg, e->name, (void *)(intptr_t)(reg + 1));
        lower_leave_prologue(l, mark);
    }
    return opd_reg(reg, 0);
}

// By the first character: $ an unroll variable, % a register, else a symbol of the launch plan.
static Operand lower_variable(Lower *l, const Expr *e)
{
    void *var = map_get(l->unroll_of, e->name);
    if (var) return opd_plus(opd_imm(0), (int)(intptr_t)var - 1, 1);
    void *reg = map_get(l->reg_of, e->name);
    if (reg) return opd_reg((int)(intptr_t)reg - 1, 0);
    if (e->name[0] == '%' || e->name[0] == '$') BUG("variable %s has no register", e->name);
    return lower_symbol(l, e);
}

static Operand lower_product(Lower *l, const Expr *e)
{
    i64 c;
    Operand a = lower_index(l, e->a);
    if (expr_is_const(e->b, &c) && log2_exact(c) > 0)
        return binary(l, OP_SHL, TT_B32, a, opd_imm(log2_exact(c)));
    return binary(l, OP_MUL, TT_S32, a, lower_index(l, e->b));
}

// Division truncates, as in C. For dividends that are never negative a shift and a mask are the
// same; otherwise they would round the other way.
static Operand lower_quotient(Lower *l, const Expr *e)
{
    i64 c;
    Operand a = lower_index(l, e->a);
    bool plus = nonnegative(l, e->a);
    if (plus && expr_is_const(e->b, &c) && log2_exact(c) >= 0) {
        if (e->op == EX_DIV) return binary(l, OP_SHR, TT_U32, a, opd_imm(log2_exact(c)));
        return binary(l, OP_AND, TT_B32, a, opd_imm(c - 1));
    }
    ThreadType t = plus && nonnegative(l, e->b) ? TT_U32 : TT_S32;
    return binary(l, e->op == EX_DIV ? OP_DIV : OP_REM, t, a, lower_index(l, e->b));
}

static Operand pred_to_int(Lower *l, Operand p)
{
    Operand d = new_b32(l);
    EMIT(&l->b, OP_SELP, TT_S32, d, opd_imm(1), opd_imm(0), p);
    return d;
}

static ThreadCmp compare_of(ExprOp op)
{
    switch (op) {
    case EX_EQ: return CMP_EQ;
    case EX_NE: return CMP_NE;
    case EX_LT: return CMP_LT;
    default: return CMP_LE;
    }
}

static Operand lower_node(Lower *l, const Expr *e);

// An operand of a sum from which everything affine was taken: not searched for more, so that a sum
// of n terms takes n steps.
static Operand lower_term(Lower *l, const Expr *e)
{
    Operand found;
    if (e->op != EX_ADD && e->op != EX_SUB) return lower_index(l, e);
    if (cache_find(l, e, false, &found)) return found;
    return cache_put(l, e, false, lower_node(l, e));
}

// One operator over operands that are lowered first. Comparisons give 0 or 1. && and || evaluate
// both sides: expressions have no effects, and division by zero does not trap on the GPU.
static Operand lower_node(Lower *l, const Expr *e)
{
    switch ((ExprOp)e->op) {
    case EX_VAR: return lower_variable(l, e);
    case EX_ADD: return binary(l, OP_ADD, TT_S32, lower_term(l, e->a), lower_term(l, e->b));
    case EX_SUB: return binary(l, OP_SUB, TT_S32, lower_term(l, e->a), lower_term(l, e->b));
    case EX_MUL: return lower_product(l, e);
    case EX_DIV:
    case EX_MOD: return lower_quotient(l, e);
    case EX_MIN:
    case EX_MAX:
        return binary(l, e->op == EX_MIN ? OP_MIN : OP_MAX, signed_type(l, e->a, e->b),
                      lower_index(l, e->a), lower_index(l, e->b));
    case EX_AND: return binary(l, OP_AND, TT_B32, lower_index(l, e->a), lower_index(l, e->b));
    case EX_OR: return binary(l, OP_OR, TT_B32, lower_index(l, e->a), lower_index(l, e->b));
    case EX_XOR: return binary(l, OP_XOR, TT_B32, lower_index(l, e->a), lower_index(l, e->b));
    case EX_SHL: return binary(l, OP_SHL, TT_B32, lower_index(l, e->a), lower_index(l, e->b));
    case EX_SHR:
        return binary(l, OP_SHR, is_unsigned(l, e->a) ? TT_U32 : TT_S32, lower_index(l, e->a),
                      lower_index(l, e->b));
    case EX_EQ:
    case EX_NE:
    case EX_LT:
    case EX_LE: return pred_to_int(l, lower_compare(l, compare_of(e->op), e->a, e->b));
    case EX_LAND:
    case EX_LOR: {
        Operand a = pred_to_int(l, lower_compare(l, CMP_NE, e->a, lower_const(l, 0)));
        Operand b = pred_to_int(l, lower_compare(l, CMP_NE, e->b, lower_const(l, 0)));
        return binary(l, e->op == EX_LAND ? OP_AND : OP_OR, TT_B32, a, b);
    }
    case EX_SELECT: {
        Operand p = lower_compare(l, CMP_NE, e->a, lower_const(l, 0));
        Operand d = new_b32(l), b = lower_index(l, e->b), c = lower_index(l, e->c);
        EMIT(&l->b, OP_SELP, TT_S32, d, b, c, p);
        return d;
    }
    default: BUG("index operator %d", e->op);
    }
}

// `e` over registers, symbols and unroll variables only (after lower_subst). Constants and unroll
// variables are split off and added last, so that what remains is the same expression in all
// rounds and is computed once.
Operand lower_index(Lower *l, const Expr *e)
{
    Operand found;
    if (cache_find(l, e, false, &found)) return found;
    if (is_wide(l, e)) {
        Operand d = new_b32(l);
        EMIT(&l->b, OP_CVT, TT_U32, d, lower_index64(l, e))->type2 = TT_U64;
        return cache_put(l, e, false, d);
    }
    const Expr *rest;
    Operand imm = lower_split(l, e, &rest);
    // Indices are 32 bits wide; such a number comes from constants that only exist multiplied out.
    if (imm.base < INT32_MIN || imm.base > UINT32_MAX) {
        lower_error(l, l->b.loc, "write it with smaller numbers",
                    "not supported yet: an index expression with the constant %lld, which 32 bits "
                    "do not hold", (long long)imm.base);
        return opd_imm(0);
    }
    if (!rest) return imm;
    bool moved = imm.base || imm.nterms;
    if (!moved) {
        Operand v = lower_node(l, e->op == EX_VAR ? e : rest);
        return e->op == EX_VAR ? v : cache_put(l, e, false, v);
    }
    Operand r = lower_index(l, rest);
    return cache_put(l, e, false, binary(l, OP_ADD, TT_S32, r, imm));
}

// ---- 64 bits ------------------------------------------------------------------------------------

static Operand new_b64(Lower *l) { return opd_reg(lower_new_reg(l, "d", RC_B64, 1), 0); }

static bool fits_s32(Lower *l, const Expr *e)
{
    if (is_wide(l, e) || is_unsigned(l, e)) return false;
    if (e->op == EX_VAR) return true; // symbols and other registers are 32 bits
    i64 lo, hi;
    return expr_range(l->x, e, &lo, &hi) && lo >= INT32_MIN && hi <= INT32_MAX;
}

static Operand in_register64(Lower *l, Operand v)
{
    if (v.kind == OPD_REG) return v;
    Operand d = new_b64(l);
    EMIT(&l->b, OP_MOV, TT_B64, d, v);
    return d;
}

// An operator over values of which one has 64 bits.
static Operand wide_node(Lower *l, const Expr *e)
{
    bool plus = nonnegative(l, e->a) && (!e->b || nonnegative(l, e->b));
    ThreadType t = plus ? TT_U64 : TT_S64;
    ThreadOpcode op;
    switch ((ExprOp)e->op) {
    case EX_DIV: op = OP_DIV; break;
    case EX_MOD: op = OP_REM; break;
    case EX_MIN: op = OP_MIN; break;
    case EX_MAX: op = OP_MAX; break;
    case EX_AND: op = OP_AND, t = TT_B64; break;
    case EX_OR: op = OP_OR, t = TT_B64; break;
    case EX_XOR: op = OP_XOR, t = TT_B64; break;
    case EX_SHL: op = OP_SHL, t = TT_B64; break;
    case EX_SHR: op = OP_SHR, t = nonnegative(l, e->a) ? TT_U64 : TT_S64; break;
    case EX_SELECT: {
        Operand p = lower_compare(l, CMP_NE, e->a, lower_const(l, 0));
        Operand b = lower_index64(l, e->b), c = lower_index64(l, e->c), d = new_b64(l);
        EMIT(&l->b, OP_SELP, TT_S64, d, b, c, p);
        return d;
    }
    default: { // comparisons and what joins them: 0 or 1
        Operand p = lower_node(l, e), d = new_b64(l);
        EMIT(&l->b, OP_CVT, TT_S64, d, p)->type2 = TT_S32;
        return d;
    }
    }
    bool shift = op == OP_SHL || op == OP_SHR;
    Operand a = in_register64(l, lower_index64(l, e->a));
    Operand b = shift ? lower_index(l, e->b) : lower_index64(l, e->b), d = new_b64(l);
    EMIT(&l->b, op, t, d, a, b);
    return d;
}

// Products of 32-bit factors are widened by the multiplication itself, one instruction; only
// factors that may be larger pay for a 64-bit one.
static Operand node64(Lower *l, const Expr *e)
{
    Operand d;
    switch ((ExprOp)e->op) {
    case EX_ADD:
    case EX_SUB: {
        Operand a = in_register64(l, lower_index64(l, e->a)), b = lower_index64(l, e->b);
        d = new_b64(l);
        EMIT(&l->b, e->op == EX_ADD ? OP_ADD : OP_SUB, TT_S64, d, a, b);
        return d;
    }
    case EX_MUL: {
        if (fits_s32(l, e->a) && fits_s32(l, e->b)) {
            Operand a = lower_index(l, e->a), b = lower_index(l, e->b);
            if (a.kind == OPD_IMM) {
                Operand t = a;
                a = b, b = t;
            }
            d = new_b64(l);
            EMIT(&l->b, OP_MULWIDE, TT_S64, d, a, b);
            return d;
        }
        Operand a = in_register64(l, lower_index64(l, e->a)), b = lower_index64(l, e->b);
        d = new_b64(l);
        EMIT(&l->b, OP_MUL, TT_S64, d, a, b);
        return d;
    }
    default: {
        if (is_wide(l, e)) return wide_node(l, e);
        Operand a = lower_index(l, e);
        bool plus = is_unsigned(l, e);
        d = new_b64(l);
        EMIT(&l->b, OP_CVT, plus ? TT_U64 : TT_S64, d, a)->type2 = plus ? TT_U32 : TT_S32;
        return d;
    }
    }
}

Operand lower_index64(Lower *l, const Expr *e)
{
    Operand found;
    i64 c;
    if (expr_is_const(e, &c)) return opd_imm(c);
    if (e->op == EX_VAR && is_wide(l, e)) return lower_variable(l, e);
    if (cache_find(l, e, true, &found)) return found;
    return cache_put(l, e, true, node64(l, e));
}

// ---- predicates --------------------------------------------------------------------------------

// setp takes an immediate as its second source only: sides are swapped and the comparison mirrored.
Operand lower_compare(Lower *l, ThreadCmp c, const Expr *a, const Expr *b)
{
    if (is_wide(l, a) || is_wide(l, b)) {
        Operand x = in_register64(l, lower_index64(l, a)), y = lower_index64(l, b);
        Operand q = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
        bool plus = nonnegative(l, a) && nonnegative(l, b);
        EMIT(&l->b, OP_SETP, plus ? TT_U64 : TT_S64, q, x, y)->cmp = (u8)c;
        return q;
    }
    ThreadType t = signed_type(l, a, b);
    Operand x = lower_index(l, a), y = lower_index(l, b);
    if (x.kind == OPD_IMM) { // setp wants a register first
        static const u8 mirrored[CMP_COUNT] = {CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE};
        if (y.kind == OPD_IMM) {
            Operand r = new_b32(l);
            EMIT(&l->b, OP_MOV, TT_B32, r, x);
            x = r;
        } else {
            Operand swap = x;
            x = y, y = swap, c = mirrored[c];
        }
    }
    Operand p = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
    EMIT(&l->b, OP_SETP, t, p, x, y)->cmp = (u8)c;
    return p;
}

// Negated sides are written out first: the machine's `and` of predicates takes no negation here.
int lower_and(Lower *l, Operand p, Operand q)
{
    int d = lower_new_reg(l, "p", RC_PRED, 1);
    if (p.negate || q.negate) {
        Operand *n = p.negate ? &p : &q;
        int r = lower_new_reg(l, "p", RC_PRED, 1);
        Operand plain = *n;
        plain.negate = false;
        EMIT(&l->b, OP_NOT, TT_PRED, opd_reg(r, 0), plain);
        *n = opd_reg(r, 0);
        if (q.negate) return lower_and(l, p, q);
    }
    EMIT(&l->b, OP_AND, TT_PRED, opd_reg(d, 0), p, q);
    return d;
}
