// extract.c - executes each warp of a kernel with terms for values: what steers it becomes numbers,
// what it computes stays unknown. The result is one line of events and accesses for each warp.
//
// Where a bound or a condition depends on a size or on data, the case decides: its list of choices
// is followed, and numbers are found for sizes and data that lead there. So all roles, and all
// conditions behind, see one consistent set of numbers.
#include "exec.h"
#include "tables.h"
#include "whiles.h"

#include <string.h>

enum { MAX_LEAVES = 8, MAX_OPTIONS = 40, NEST_MAX = 200 };

// ---- operands -----------------------------------------------------------------------------------

static i64 affine(const Exec *x, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += o->term[i].coef * x->unroll[o->term[i].var];
    return v;
}

static int element_of(const Exec *x, const Operand *o, int k)
{
    i64 at = affine(x, o) + k;
    if (at < 0 || at >= x->m->fn->regs.at[o->reg].count) at = 0; // refused by the checker
    return x->base[o->reg] + (int)at;
}

static Term special(Exec *x, int reg, int lane)
{
    Terms *t = x->m->terms;
    int n = x->m->ctas;
    switch (reg) {
    case SR_TID: return term_const(t, (u64)(x->warp * LANES + lane));
    case SR_LANE: return term_const(t, (u64)lane);
    case SR_CLUSTER_RANK: return term_const(t, (u64)x->cta);
    case SR_SMEM: return term_const(t, 0);
    case SR_CTAID_X:
        if (n > 1) {
            // Blocks of a cluster are neighbours in x.
            ThreadOp mad = {.op = OP_MAD, .type = TT_U32};
            return term_op(t, &mad, 0, term_leaf(t, LEAF_SREG, SR_CTAID_X), term_const(t, (u64)n),
                           term_const(t, (u64)x->cta));
        }
        return term_leaf(t, LEAF_SREG, SR_CTAID_X);
    default: return term_leaf(t, LEAF_SREG, (u64)reg);
    }
}

Term exec_operand(Exec *x, const Operand *o, int lane, int k)
{
    int e;
    switch (o->kind) {
    case OPD_REG:
        e = element_of(x, o, k);
        return x->term[e * LANES + (x->uniform[e] ? 0 : lane)];
    case OPD_IMM: return term_const(x->m->terms, (u64)affine(x, o));
    case OPD_SREG: return special(x, o->reg, lane);
    case OPD_PARAM: return term_leaf(x->m->terms, LEAF_PARAM, (u64)o->reg);
    default: return TERM_UNKNOWN;
    }
}

static bool is_uniform(const Exec *x, const Operand *o)
{
    if (o->kind == OPD_REG) return x->uniform[element_of(x, o, 0)];
    return o->kind != OPD_SREG || (o->reg != SR_TID && o->reg != SR_LANE);
}

u64 exec_taint(Exec *x, const Operand *o)
{
    u64 all = 0;
    if (o->kind != OPD_REG) return 0;
    for (int k = 0; k < o->count; k++) all |= x->taint[element_of(x, o, k)];
    return all;
}

bool exec_number(Exec *x, const Operand *o, u32 mask, u64 *v)
{
    bool first = true;
    u64 one;
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1)) continue;
        if (!term_value(x->m->terms, exec_operand(x, o, i, 0), &one)) return false;
        if (first) *v = one;
        if (one != *v) return false;
        first = false;
        if (is_uniform(x, o)) break;
    }
    return !first;
}

static void set(Exec *x, const Operand *o, int k, u32 mask, const Term *v, bool uniform, u64 taint)
{
    int e = element_of(x, o, k);
    Term *at = &x->term[e * LANES];
    if (mask == ALL_LANES && uniform) {
        at[0] = v[0];
        x->uniform[e] = 1;
        x->taint[e] = taint;
        return;
    }
    if (x->uniform[e]) {
        for (int i = 1; i < LANES; i++) at[i] = at[0];
        x->uniform[e] = 0;
    }
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1) at[i] = v[uniform ? 0 : i];
    x->taint[e] = mask == ALL_LANES ? taint : x->taint[e] | taint;
}

static void set_unknown(Exec *x, const Operand *o, u32 mask, u64 taint)
{
    Term unknown = TERM_UNKNOWN;
    for (int k = 0; k < o->count; k++) set(x, o, k, mask, &unknown, true, taint);
}

// Destinations of an operation become unknown: it may or may not be carried out.
static void havoc(Exec *x, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    u64 taint = 0;
    if (op->op == OP_FOR && op->nopnd) set_unknown(x, &op->opnd[0], ALL_LANES, 0);
    for (int i = 0; sig[i] && sig[i] != '*' && i < op->nopnd; i++) taint |= exec_taint(x, &op->opnd[i]);
    for (int i = 0; sig[i] && sig[i] != '*' && i < op->nopnd; i++)
        if (sig[i] == 'd' || sig[i] == 'P' || sig[i] == 'F')
            set_unknown(x, &op->opnd[i], ALL_LANES, taint);
    for (int i = 0; i < op->body.n; i++) havoc(x, op->body.at[i]);
    for (int i = 0; i < op->other.n; i++) havoc(x, op->other.at[i]);
}

// ---- choices ------------------------------------------------------------------------------------

static void refuse(Exec *x, const ThreadOp *op, const char *why)
{
    if (x->m->refused) return;
    x->m->refused = why;
    x->m->refused_at = op;
}

typedef struct {
    i64 value;
    int n;
    Term leaf[MAX_LEAVES];
    u64 number[MAX_LEAVES];
} Option;

// How many rounds a loop makes, or the truth of a condition (hi TERM_UNKNOWN, step 0).
static bool outcome(Exec *x, Term lo, Term hi, i64 step, i64 *v)
{
    u64 a, b;
    if (!term_value(x->m->terms, lo, &a)) return false;
    if (!step) return *v = (i64)(a & 1), true;
    if (!term_value(x->m->terms, hi, &b)) return false;
    i64 span = (i64)(i32)(u32)b - (i32)(u32)a;
    return *v = span <= 0 ? 0 : (span + step - 1) / step, true;
}

// A symbol of the plan, where the parameter that carries it has a number.
static bool symbol_value(void *ctx, const char *name, i64 *value)
{
    Exec *x = ctx;
    const PlanStep *s = x->m->step;
    u64 v;
    for (int i = 0; i < s->args.n; i++) {
        const PlanArg *a = &s->args.at[i];
        if (a->kind != ARG_VALUE || a->value->op != EX_VAR || strcmp(a->value->name, name)) continue;
        if (!term_value(x->m->terms, term_leaf(x->m->terms, LEAF_PARAM, (u64)i), &v)) return false;
        return *value = (i32)(u32)v, true;
    }
    return false;
}

// Would there be such a launch? The kernel's variant, its grid, and the block in it.
static bool launched(Exec *x)
{
    const PlanStep *s = x->m->step;
    i64 v;
    u64 block;
    if (!s) return true;
    if (s->when && !expr_eval(s->when, symbol_value, x, &v) && !v) return false;
    for (int d = 0; d < 3; d++) {
        if (!s->grid[d] || expr_eval(s->grid[d], symbol_value, x, &v)) continue;
        if (v < 1) return false;
        Term at = term_leaf(x->m->terms, LEAF_SREG, (u64)(SR_CTAID_X + d));
        if (!term_value(x->m->terms, at, &block)) continue;
        if ((i64)block * (d ? 1 : x->m->ctas) >= v) return false;
    }
    return true;
}

// Bounds that lie the wrong way round are no size that anybody meant.
static bool backwards(Exec *x, Term lo, Term hi, i64 step)
{
    u64 a, b;
    return step && term_value(x->m->terms, lo, &a) && term_value(x->m->terms, hi, &b) &&
           (i32)(u32)b < (i32)(u32)a;
}

// Data is the least that it can be where it is not the thing that varies, and a device has one
// multiprocessor, so that one block gets all the work.
static u64 number_of(Exec *x, Term leaf, u64 others)
{
    const PlanStep *s = x->m->step;
    u8 kind = term_leaf_kind(x->m->terms, leaf);
    u64 key = term_leaf_key(x->m->terms, leaf);
    if (kind == LEAF_LOAD) return tables_least(x->m, leaf);
    if (kind == LEAF_SREG) return 0;
    if (kind != LEAF_PARAM || !s || (int)key >= s->args.n) return others;
    const PlanArg *a = &s->args.at[key];
    bool device = a->kind == ARG_VALUE && a->value->op == EX_VAR &&
                  strncmp(a->value->name, "device.", 7) == 0;
    return device ? 1 : others;
}

// Tries numbers for `leaf` while the others have one number each, and keeps those that lead to an
// outcome which is not there yet. Numbers that are multiples of tile sizes come first.
// `wanted`: only this outcome (-1: all).
static int try_leaf(Exec *x, Term lo, Term hi, i64 step, const Term *leaf, int n, int which,
                    u64 others, Option *out, int max, int wanted)
{
    static const int grain[] = {512, 256, 128, 64, 32, 16, 8, 1};
    Terms *t = x->m->terms;
    int found = 0;
    bool have[MAX_OPTIONS] = {false};
    int enough = wanted < 0 ? max : 1;
    for (int i = 0; i < n; i++)
        if (i != which) term_bind(t, leaf[i], number_of(x, leaf[i], others));
    // A variant for sizes that are no multiples needs one less than a multiple.
    for (int g = 0; g < (wanted < 0 ? 1 : 2) * COUNT(grain) && found < enough; g++)
        for (int k = wanted < 0 ? 0 : MAX(wanted - 2, 0); k <= max && found < enough; k++) {
            i64 v;
            u64 number = (u64)(k * grain[g % COUNT(grain)] - g / COUNT(grain));
            if (g >= COUNT(grain) && !k) continue;
            term_bind(t, leaf[which], number);
            if (!outcome(x, lo, hi, step, &v) || backwards(x, lo, hi, step) || v < 0 || v >= max ||
                have[v] || (wanted >= 0 && v != wanted) || !launched(x) ||
                !tables_allow(x->m, leaf, n))
                continue;
            have[v] = true;
            Option *o = &out[v];
            *o = (Option){.value = v, .n = n};
            for (int i = 0; i < n; i++) {
                o->leaf[i] = leaf[i];
                o->number[i] = i == which ? number : number_of(x, leaf[i], others);
            }
            found++;
        }
    for (int i = 0; i < n; i++) term_unbind(t, leaf[i]);
    // Close the gaps: options in the order of their outcome.
    int kept = 0;
    for (int v = 0; v < max; v++)
        if (have[v]) out[kept++] = out[v];
    return kept;
}

static const char *leaf_name(const Exec *x, Term leaf)
{
    const Model *m = x->m;
    u64 key = term_leaf_key(m->terms, leaf);
    switch (term_leaf_kind(m->terms, leaf)) {
    case LEAF_PARAM: return m->fn->params.at[key].name;
    case LEAF_SREG: return special_reg_name[key];
    case LEAF_LOAD: return "data";
    default: return "computed";
    }
}

static const char *option_text(const Exec *x, const Option *o)
{
    Buf b = {0};
    for (int i = 0; i < o->n; i++)
        buf_printf(&b, "%s%s=%lld", i ? " " : "", leaf_name(x, o->leaf[i]),
                   (long long)o->number[i]);
    const char *s = arena_strndup(x->m->arena, b.s ? b.s : "", b.n);
    buf_free(&b);
    return s;
}

static int leaves_of(Exec *x, Term lo, Term hi, i64 step, Term *leaf)
{
    Term more[MAX_LEAVES];
    int n = term_leaves(x->m->terms, lo, leaf, MAX_LEAVES);
    int k = step ? term_leaves(x->m->terms, hi, more, MAX_LEAVES) : 0;
    for (int i = 0; i < k; i++) {
        bool there = false;
        for (int j = 0; j < n; j++) there |= leaf[j] == more[i];
        if (!there && n < MAX_LEAVES) leaf[n++] = more[i];
    }
    return n;
}

// Small and large others: sums and products want them small, minima want them large.
static const u64 others[] = {64, 4096, 1, 0};

static void took(Exec *x, const ThreadOp *op, Term lo, Term hi, const Option *o, int options, int taken)
{
    Model *m = x->m;
    for (int i = 0; i < o->n; i++) term_bind(m->terms, o->leaf[i], o->number[i]);
    Decision d = {op, options, taken, o->value, o->n ? option_text(x, o) : NULL, lo, hi, !o->n, -1, 0};
    int around = x->loops ? x->loop[x->loops - 1].head : -1;
    if (around >= 0) {
        const Head *h = &m->agents.at[x->agent].heads.at[around];
        d.loop = h->follows ? -1 : h->decision;
        d.k = h->k;
    }
    vec_push(m->arena, &m->decisions, d);
    if (m->decisions.n > 64) refuse(x, op, "more than 64 loops and conditions depend on data");
}

static bool find_value(Exec *x, Term lo, Term hi, i64 step, const Term *leaf, int n, int value, Option *out)
{
    Option found[MAX_OPTIONS];
    for (int o = 0; o < COUNT(others); o++)
        for (int i = 0; i < n; i++)
            if (try_leaf(x, lo, hi, step, leaf, n, i, others[o], found, MAX_OPTIONS, value))
                return *out = found[0], true;
    return false;
}

// Model.by_value: the value that the case asks for, or the least one that a size leads to.
static i64 decide_value(Exec *x, const ThreadOp *op, Term lo, Term hi, i64 step)
{
    enum { SMALL_ONES = 4 }; // where none of them has a size, none has
    Model *m = x->m;
    Term leaf[MAX_LEAVES];
    Option o = {0};
    int n = leaves_of(x, lo, hi, step, leaf), k = m->decisions.n, least = 0;
    int max = step ? SMALL_ONES : 2, asked = k < m->plan_n ? m->plan_taken[k] : -1;
    if (asked >= 0 && find_value(x, lo, hi, step, leaf, n, asked, &o)) {
        took(x, op, lo, hi, &o, max, asked);
        return asked;
    }
    while (least < max && !find_value(x, lo, hi, step, leaf, n, least, &o)) least++;
    if (least < max && asked >= 0) {
        m->impossible = true;
        refuse(x, op, "no size leads to this number of rounds");
        return 0;
    }
    if (least == max) {
        if (step && !m->n_unknown_loop++) m->unknown_loop = op;
        if (!step && !m->n_unknown_branch++) m->unknown_branch = op;
        o = (Option){.value = MAX(asked, 0)};
    }
    took(x, op, lo, hi, &o, max, (int)o.value);
    return o.value;
}

// What the case says about this loop or condition. The numbers that lead there are bound.
static i64 decide(Exec *x, const ThreadOp *op, Term lo, Term hi, i64 step)
{
    Model *m = x->m;
    Term leaf[MAX_LEAVES];
    Option best[MAX_OPTIONS], now[MAX_OPTIONS];
    int max = step ? MIN(m->trips_max + 1, (int)MAX_OPTIONS) : 2, options = 0;
    if (m->by_value) return decide_value(x, op, lo, hi, step);
    int n = leaves_of(x, lo, hi, step, leaf);
    for (int o = 0; o < COUNT(others) && options < max; o++)
        for (int i = 0; i < n && options < max; i++) {
            int got = try_leaf(x, lo, hi, step, leaf, n, i, others[o], now, max, -1);
            if (got > options) {
                memcpy(best, now, sizeof best);
                options = got;
            }
        }
    bool free_choice = options == 0; // nothing leads anywhere: a value that no size explains
    if (free_choice) {
        if (step && !m->n_unknown_loop++) m->unknown_loop = op;
        if (!step && !m->n_unknown_branch++) m->unknown_branch = op;
        options = step ? MIN(max, 3) : 2;
        for (int i = 0; i < options; i++) best[i] = (Option){.value = i};
    }
    int k = m->decisions.n, taken = k < m->plan_n ? m->plan_taken[k] : 0;
    if (taken >= options) taken = options - 1;
    took(x, op, lo, hi, &best[taken], options, taken);
    return best[taken].value;
}

// A condition on floats: one leaf for each place and occurrence, the same for all warps.
static Term chance(Exec *x, const ThreadOp *op)
{
    u64 key = hash_bytes(&op, sizeof op, 1) ^ (u64)x->chance++ << 1;
    return term_leaf(x->m->terms, LEAF_CHANCE, key);
}

// Lanes of `mask` in which the predicate holds; what is not known is decided.
static u32 lanes_where(Exec *x, const ThreadOp *op, const Operand *p, u32 mask)
{
    u32 yes = 0;
    Term unknown = TERM_UNKNOWN;
    for (int i = 0; i < LANES; i++) {
        u64 v;
        if (!(mask >> i & 1)) continue;
        Term t = exec_operand(x, p, i, 0);
        if (!t) t = unknown ? unknown : (unknown = chance(x, op));
        if (!term_value(x->m->terms, t, &v)) v = (u64)decide(x, op, t, TERM_UNKNOWN, 0);
        if ((v & 1) != p->negate) yes |= 1u << i;
        if (is_uniform(x, p)) return yes ? mask : 0;
    }
    return yes;
}

static bool all_known(Exec *x, const Operand *p, u32 mask)
{
    u64 v;
    for (int i = 0; i < LANES; i++)
        if ((mask >> i & 1) && !term_value(x->m->terms, exec_operand(x, p, i, 0), &v)) return false;
    return true;
}

// ---- arithmetic ---------------------------------------------------------------------------------

static void vote(Exec *x, const ThreadOp *op, u32 mask)
{
    u64 v, any = 0;
    Term t = TERM_UNKNOWN;
    bool known = true;
    for (int i = 0; i < LANES; i++) {
        known = known && term_value(x->m->terms, exec_operand(x, &op->opnd[1], i, 0), &v);
        if (known) any |= (v & 1) ^ op->opnd[1].negate;
    }
    if (known) t = term_const(x->m->terms, any);
    set(x, &op->opnd[0], 0, mask, &t, true, exec_taint(x, &op->opnd[1]));
}

static void arithmetic(Exec *x, const ThreadOp *op, u32 mask)
{
    int dests = op->op == OP_UNPACK ? 2 : 1;
    const Operand *src = &op->opnd[dests];
    int n = op->nopnd - dests;
    u64 taint = 0;
    bool uniform = true;
    for (int i = 0; i < n; i++) {
        taint |= exec_taint(x, &src[i]);
        uniform = uniform && is_uniform(x, &src[i]);
    }
    const Operand *to = &op->opnd[0];
    bool needed = to->kind != OPD_REG || x->needed[to->reg] ||
                  (dests > 1 && op->opnd[1].kind == OPD_REG && x->needed[op->opnd[1].reg]);
    if (!needed && dests > 1) set_unknown(x, &op->opnd[1], mask, taint);
    if (!needed || op->op == OP_SHFL || n > 3 || op->type == TT_F32) {
        set_unknown(x, &op->opnd[0], mask, taint);
        return;
    }
    if (op->op == OP_LDPARAM) {
        Term t = exec_operand(x, src, 0, 0);
        set(x, &op->opnd[0], 0, mask, &t, true, 0);
        return;
    }
    if (!uniform) x->m->steps += LANES;
    for (int d = 0; d < dests; d++) {
        Term v[LANES];
        for (int i = 0; i < (uniform ? 1 : LANES); i++) {
            Term s[3] = {0};
            for (int k = 0; k < n; k++) s[k] = exec_operand(x, &src[k], i, 0);
            bool lost = (n > 1 && !s[1]) || (n > 2 && !s[2]);
            // A predicate that is used negated has no term of its own.
            for (int k = 0; k < n; k++) lost |= src[k].negate;
            v[i] = lost ? TERM_UNKNOWN : term_op(x->m->terms, op, d, s[0], s[1], s[2]);
        }
        set(x, &op->opnd[d], 0, mask, v, uniform, taint);
    }
}

// ---- structure ----------------------------------------------------------------------------------

static void exec_block(Exec *x, const ThreadBlock *b, u32 mask, int depth);

bool exec_matters(const ThreadOp *op)
{
    if (op->op == OP_EXIT) return true;
    u8 e = thread_op[op->op].effect;
    if (e == EFF_ASYNC || (e == EFF_SYNC && op->op != OP_SHFL && op->op != OP_VOTE)) return true;
    if (op->op == OP_LDS || op->op == OP_STS || op->op == OP_LDMATRIX || op->op == OP_STMATRIX ||
        op->op == OP_ATOMS || op->op == OP_CASS)
        return true;
    for (int i = 0; i < op->body.n; i++)
        if (exec_matters(op->body.at[i])) return true;
    for (int i = 0; i < op->other.n; i++)
        if (exec_matters(op->other.at[i])) return true;
    return false;
}

// The term that all of the lanes have; TERM_UNKNOWN: they differ.
static Term one_term(Exec *x, const Operand *o, u32 mask)
{
    Term t = exec_operand(x, o, __builtin_ctz(mask), 0);
    for (int i = 0; i < LANES && !is_uniform(x, o); i++)
        if ((mask >> i & 1) && exec_operand(x, o, i, 0) != t) return TERM_UNKNOWN;
    return t;
}

// The bound of a `while` loop stays a term, so that its rounds are a matter of sizes. False: the
// condition is no term, or a constant.
static bool set_bound(Exec *x, const ThreadOp *op, u32 mask)
{
    const Operand *p = &op->opnd[0], *to = &op->body.at[0]->opnd[0];
    Terms *t = x->m->terms;
    Term c = one_term(x, p, mask), yes = term_const(t, INT32_MAX);
    Term no = term_const(t, (u32)INT32_MIN);
    ThreadOp selp = {.op = OP_SELP, .type = TT_B32};
    if (!c || term_is_const(t, c)) return false;
    Term v = p->negate ? term_op(t, &selp, 0, no, yes, c) : term_op(t, &selp, 0, yes, no, c);
    set(x, to, 0, mask, &v, true, exec_taint(x, p));
    return true;
}

static void exec_if(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    exec_pin(x, exec_taint(x, &op->opnd[0]));
    if (while_branch(op) && set_bound(x, op, mask)) return;
    if (!all_known(x, &op->opnd[0], mask) && !exec_matters(op)) {
        havoc(x, op);
        return;
    }
    u32 yes = lanes_where(x, op, &op->opnd[0], mask);
    if (yes) exec_block(x, &op->body, yes, depth);
    if (mask & ~yes & ~x->dead) exec_block(x, &op->other, mask & ~yes & ~x->dead, depth);
}

static void add_step(Exec *x, const Operand *reg, u32 mask, i64 step)
{
    ThreadOp add = {.op = OP_ADD, .type = TT_S32};
    Term v[LANES];
    bool uniform = is_uniform(x, reg);
    for (int i = 0; i < (uniform ? 1 : LANES); i++)
        v[i] = term_op(x->m->terms, &add, 0, exec_operand(x, reg, i, 0),
                       term_const(x->m->terms, (u64)(u32)step), 0);
    set(x, reg, 0, mask, v, uniform, 0);
}

// What the loop takes over from round to round, and what the loops around it do: that may steer in
// it and behind it.
static RegVec *carried_regs(Exec *x, const ThreadOp *op)
{
    Model *m = x->m;
    RegVec *regs = map_get(m->carried, op);
    if (regs) return regs;
    u8 *there = ARENA_ARRAY(m->arena, u8, m->fn->regs.n + 1);
    regs = ARENA_NEW(m->arena, RegVec);
    for (int l = x->loops; l >= 0; l--) {
        RegVec own = {0};
        const ThreadOp *loop = l == x->loops ? op : x->loop[l].op;
        if (loop == op && l < x->loops) continue;
        exec_carried(m->arena, m->fn, x->needed, loop, &own);
        for (int i = 0; i < own.n; i++) {
            if (!there[own.at[i]]++) vec_push(m->arena, regs, own.at[i]);
        }
    }
    map_put(m->carried, op, regs);
    return regs;
}

static u64 carried(Exec *x, const ThreadOp *op)
{
    Model *m = x->m;
    const RegVec *regs = carried_regs(x, op);
    u64 v, hash = 1;
    for (int i = 0; i < regs->n; i++)
        for (int k = 0; k < m->fn->regs.at[regs->at[i]].count; k++) {
            Operand o = opd_reg(regs->at[i], k);
            bool known = term_value(m->terms, exec_operand(x, &o, 0, 0), &v);
            if (known && m->modulus) v %= (u64)m->modulus;
            hash = (hash ^ (known ? v + 1 : 0)) * 0x100000001b3u;
        }
    return hash;
}

// Marks the beginning of round k; `outer` is the head of the loop around. h: decision and scale.
static int head(Exec *x, Head h, i64 k)
{
    Agent *a = &x->m->agents.at[x->agent];
    exec_flush(x);
    h.at = a->events.n;
    h.access = a->access.n;
    h.k = (i32)k;
    h.outer = -1;
    for (int i = x->loops - 1; i >= 0 && h.outer < 0; i--)
        if (x->loop[i].op != h.op) h.outer = x->loop[i].head;
    h.carried = carried(x, h.op);
    vec_push(x->m->arena, &a->heads, h);
    return a->heads.n - 1;
}

// Who decides about the loop: the latest decision with these bounds, or with bounds from which the
// number of rounds follows.
static void governed(const Exec *x, Term lo, Term hi, i64 step, Head *h)
{
    const Terms *t = x->m->terms;
    i64 a, b, factor;
    h->decision = -1;
    h->scale = (i32)MIN(step, 64);
    for (int i = x->m->decisions.n - 1; i >= 0; i--) {
        const Decision *d = &x->m->decisions.at[i];
        if (d->op->op == OP_FOR && d->lo == lo && d->hi == hi && d->op->opnd[3].base == step) {
            h->decision = i;
            return;
        }
    }
    h->follows = true;
    for (int i = x->m->decisions.n - 1; i >= 0; i--) {
        const Decision *d = &x->m->decisions.at[i];
        if (d->op->op != OP_FOR) continue;
        bool shifted = term_offset(t, lo, d->lo, &a) && term_offset(t, hi, d->hi, &b);
        bool divided = step == 1 && lo == d->lo && term_quotients(t, d->hi, hi, &factor);
        if (d->op->opnd[3].base != 1 || step > 64 || (!shifted && !divided)) continue;
        h->decision = i;
        if (!shifted) h->scale = (i32)factor;
        return;
    }
}

// A loop that sets its bound on the way, to numbers.
static void exec_while(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    enum { ROUNDS_MAX = 4096 };
    const Operand *reg = &op->opnd[0], *hi = &op->opnd[2];
    Term first = one_term(x, &op->opnd[1], mask);
    u64 at, end;
    if (x->loops == LOOP_DEPTH) {
        refuse(x, op, "loops nested deeper than 32");
        return;
    }
    set(x, reg, 0, mask, &first, true, 0);
    x->loop[x->loops].op = op;
    x->loop[x->loops].head = x->loops ? x->loop[x->loops - 1].head : -1;
    x->loops++;
    for (i64 k = 0; !x->m->refused && (mask & ~x->dead); k++) {
        bool known = exec_number(x, reg, mask, &at) && exec_number(x, hi, mask, &end);
        if (!known && !x->m->n_unknown_loop++) x->m->unknown_loop = op;
        if (!known || (i32)(u32)at >= (i32)(u32)end) break;
        if (k == ROUNDS_MAX)
            refuse(x, op, "a loop of more than 4096 rounds sets its bound on the way");
        x->loop[x->loops - 1].iter = (i32)k;
        exec_block(x, &op->body, mask & ~x->dead, depth);
        add_step(x, reg, mask, op->opnd[3].base);
    }
    x->loops--;
}

// The number of rounds of a `while` loop that counts as a term, or TERM_UNKNOWN.
static Term counted(Exec *x, const ThreadOp *op, u32 mask)
{
    i64 step = while_step(x->m->whiles, op);
    if (!step) return TERM_UNKNOWN;
    return while_rounds(x->m->terms, one_term(x, &op->opnd[2], mask), step);
}

// With bounds of each lane's own, the mask shrinks as lanes get through.
static void exec_for(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    const Operand *reg = &op->opnd[0], *lo = &op->opnd[1], *hi = &op->opnd[2];
    i64 step = op->opnd[3].base, trips[LANES], most = 0, v;
    u64 end;
    bool matters = exec_matters(op), uniform = is_uniform(x, lo) && is_uniform(x, hi);
    Term first[LANES], low = TERM_UNKNOWN, high = counted(x, op, mask);
    if (high) low = term_const(x->m->terms, 0);
    if (!high && matters && while_is(x->m->whiles, op) &&
        exec_number(x, hi, mask, &end)) {
        exec_while(x, op, mask, depth);
        return;
    }
    exec_pin(x, exec_taint(x, lo) | exec_taint(x, hi));
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1)) continue;
        Term a = exec_operand(x, lo, i, 0), b = exec_operand(x, hi, i, 0);
        first[i] = a;
        if (high) a = low, b = high;
        if (!outcome(x, a, b, step, &v)) {
            // Nothing shared inside: how often does not matter.
            if (!matters) {
                havoc(x, op);
                return;
            }
            v = decide(x, op, a, b, step);
        }
        trips[i] = v;
        most = MAX(most, v);
        if (!uniform) continue;
        for (int k = i + 1; k < LANES; k++) trips[k] = v, first[k] = first[i];
        break;
    }
    if (!matters && most > 256) { // values only
        havoc(x, op);
        return;
    }
    if (x->loops == LOOP_DEPTH) {
        refuse(x, op, "loops nested deeper than 32");
        return;
    }
    if (uniform) first[0] = first[__builtin_ctz(mask)];
    if (!high) {
        low = exec_operand(x, lo, __builtin_ctz(mask), 0);
        high = exec_operand(x, hi, __builtin_ctz(mask), 0);
    }
    bool heads = matters && !(term_is_const(x->m->terms, low) && term_is_const(x->m->terms, high));
    Head h = {.n = (i32)most, .op = op};
    if (heads) governed(x, low, high, step, &h);
    int kept = -1;
    u64 key = 0;
    if (matters && !heads && most > 8 && exec_replay(x, op, mask, &kept, &key)) return;
    set(x, reg, 0, mask, first, uniform, 0);
    x->loop[x->loops].op = op;
    x->loop[x->loops].head = x->loops ? x->loop[x->loops - 1].head : -1;
    x->loops++;
    for (i64 k = 0; k < most && !x->m->refused; k++) {
        u32 in = 0;
        for (int i = 0; i < LANES; i++)
            if ((mask & ~x->dead) >> i & 1 && k < trips[i]) in |= 1u << i;
        x->loop[x->loops - 1].iter = (i32)k;
        if (!in) break;
        if (heads) x->loop[x->loops - 1].head = head(x, h, k);
        exec_block(x, &op->body, in, depth);
        add_step(x, reg, in, step);
    }
    if (heads) head(x, h, most);
    x->loops--;
    exec_keep(x, op, kept, key);
}

static void exec_unroll(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    int kept = -1;
    u64 key = 0;
    if (op->n > 1 && exec_matters(op) && exec_replay(x, op, mask, &kept, &key)) return;
    for (int i = 0; i < op->n && !x->m->refused; i++) {
        x->unroll[op->imm] = i;
        exec_block(x, &op->body, mask, depth);
    }
    x->unroll[op->imm] = 0;
    exec_keep(x, op, kept, key);
}

static void exec_role(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    if (x->warp >= op->imm && x->warp < op->imm + op->n) exec_block(x, &op->body, mask, depth);
}

static void exec_op(Exec *x, const ThreadOp *op, u32 mask, int depth)
{
    if (++x->m->steps > MODEL_MAX_STEPS) refuse(x, op, "the case takes too many operations");
    if (op->guard.kind == OPD_REG) {
        u64 tokens = exec_taint(x, &op->guard);
        if (!all_known(x, &op->guard, mask) && !exec_matters(op)) {
            havoc(x, op);
            return;
        }
        if (exec_matters(op)) exec_pin(x, tokens);
        mask = lanes_where(x, op, &op->guard, mask);
        if (!mask) return;
    }
    switch (op->op) {
    case OP_IF: exec_if(x, op, mask, depth); return;
    case OP_FOR: exec_for(x, op, mask, depth); return;
    case OP_ROLE: exec_role(x, op, mask, depth); return;
    case OP_EXIT: x->dead |= mask; return;
    case OP_VOTE: vote(x, op, mask); return;
    case OP_UNROLL: exec_unroll(x, op, mask, depth); return;
    default: break;
    }
    if (thread_op[op->op].effect == EFF_PURE || op->op == OP_SHFL) {
        if (op->nopnd && op->op != OP_TMA_PREFETCH) arithmetic(x, op, mask);
        return;
    }
    exec_effect(x, op, mask);
}

static void exec_block(Exec *x, const ThreadBlock *b, u32 mask, int depth)
{
    if (depth > NEST_MAX) {
        refuse(x, b->n ? b->at[0] : NULL, "code nested deeper than 200");
        return;
    }
    for (int i = 0; i < b->n && !x->m->refused; i++) {
        u32 now = mask & ~x->dead;
        if (!now) return;
        exec_op(x, b->at[i], now, depth + 1);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

static void find_barriers(Model *m)
{
    i64 n = m->fn->smem_bytes / 8 + 1;
    m->bar_at = ARENA_ARRAY(m->arena, i32, n);
    for (i64 i = 0; i < n; i++) m->bar_at[i] = -1;
    for (int c = 0; c < m->ctas; c++) {
        for (int b = 0; b < m->fn->buffers.n; b++) {
            const ThreadBuffer *t = &m->fn->buffers.at[b];
            i64 bytes = t->kind == BUF_MBAR ? thread_buffer_bytes(t) : 0;
            for (i64 k = 0; k < bytes / 8 && t->offset / 8 + k < n; k++) {
                if (!c) m->bar_at[t->offset / 8 + k] = m->bars.n;
                vec_push(m->arena, &m->bars, ((Barrier){b, (int)k, c}));
            }
            if (t->kind == BUF_MBAR) m->slots_max = MAX(m->slots_max, (int)(bytes / 8));
        }
        if (!c) m->bars_each = m->bars.n;
    }
}

static bool same_events(const Agent *a, const Agent *b)
{
    if (a->events.n != b->events.n || a->cta != b->cta) return false;
    for (int i = 0; i < a->events.n; i++) {
        const Event *x = &a->events.at[i], *y = &b->events.at[i];
        if (x->kind != y->kind || x->bar != y->bar || x->count != y->count || x->arg != y->arg ||
            x->kind == EV_LOAD || x->op != y->op)
            return false;
    }
    return true;
}

// Warps of one block with equal events are of one kind.
static void find_kinds(Model *m)
{
    for (int i = 0; i < m->agents.n; i++) {
        m->agents.at[i].kind = m->kinds;
        for (int k = 0; k < i; k++)
            if (same_events(&m->agents.at[i], &m->agents.at[k])) {
                m->agents.at[i].kind = m->agents.at[k].kind;
                break;
            }
        if (m->agents.at[i].kind == m->kinds) m->kinds++;
    }
}

// Tensors lie far apart: equal addresses are equal elements, however they were computed.
void model_start(Model *m)
{
    terms_forget(m->terms);
    for (int i = 0; i < m->fn->params.n; i++)
        if (m->fn->params.at[i].kind == PARAM_PTR)
            term_bind(m->terms, term_leaf(m->terms, LEAF_PARAM, (u64)i), (u64)(i + 1) << 40);
}

bool model_extract(Model *m)
{
    const ThreadFn *fn = m->fn;
    int elements = 0;
    Exec x = {.m = m};
    m->ctas = MAX(fn->cluster, 1);
    m->warps = fn->threads / LANES;
    m->arena_bytes = (fn->smem_bytes + 1023) / 1024 * 1024;
    find_barriers(m);
    x.base = ARENA_ARRAY(m->arena, int, fn->regs.n + 1);
    for (int i = 0; i < fn->regs.n; i++) {
        x.base[i] = elements;
        elements += fn->regs.at[i].count;
    }
    m->carried = map_new(m->arena);
    m->names = map_new(m->arena);
    for (int i = 0; i < fn->regs.n; i++)
        map_put(m->names, intern(expr_pool_names(m->module->exprs), fn->regs.at[i].name),
                (void *)(uintptr_t)(i + 1));
    x.needed = exec_needed(m->arena, m->module, fn, m->names, !m->by_value);
    x.term = ARENA_ARRAY(m->arena, Term, (elements + 1) * LANES);
    x.uniform = ARENA_ARRAY(m->arena, u8, elements + 1);
    x.taint = ARENA_ARRAY(m->arena, u64, elements + 1);
    x.unroll = ARENA_ARRAY(m->arena, i64, fn->unrolls.n + 1);
    x.granules = m->by_value ? fn->smem_bytes / 4 + 1 : 0; // the explorer's agents are warps
    x.lane_use = ARENA_ARRAY(m->arena, LaneUse, x.granules + 1);
    for (int c = 0; c < m->ctas && !m->refused; c++)
        for (int w = 0; w < m->warps && !m->refused; w++) {
            memset(x.term, 0, sizeof *x.term * (size_t)(elements * LANES));
            memset(x.uniform, 1, (size_t)elements);
            memset(x.taint, 0, sizeof *x.taint * (size_t)elements);
            x.meeting++;
            x.agent = m->agents.n;
            x.cta = c;
            x.warp = w;
            x.dead = 0;
            x.tokens = x.group_tokens = 0;
            x.seg_first = x.unheld = x.fenced.n = x.products = x.stores = x.copies = x.chance = x.loops = 0;
            x.registers = fn->maxnreg;
            vec_push(m->arena, &m->agents, ((Agent){.cta = c, .warp = w}));
            exec_block(&x, &fn->body, ALL_LANES, 0);
            if (!m->refused) exec_end(&x);
        }
    if (!m->refused) find_kinds(m);
    return !m->refused;
}
