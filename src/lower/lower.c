// lower.c - kernels, parameters, the block's parallel structure and regions.
//
// A kernel is lowered in one walk over its tile operations. Values that every thread needs once
// (thread index, symbols, base addresses, strides) go to the prologue, which is put in front at the
// end, followed by the initialisation of mbarriers. Shared memory is laid out last: tiles first,
// swizzled ones at multiples of 1024 bytes, then the barriers.
#include "impl.h"

#include <string.h>

// The barrier analysis walks a loop's body until its state is stable, and does so again for every
// loop around it: the work is a power of this depth.
enum { LOOP_DEPTH_MAX = 8 }; // of serial loops: the barrier analysis repeats bodies per level

void lower_error(Lower *l, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(l->m->arena, fmt, ap);
    va_end(ap);
    if (!l->failed) diag_error(l->m->diag, loc, hint, "%s", text);
    l->failed = true;
}

int lower_new_reg(Lower *l, const char *name, RegClass c, int count)
{
    if (name[0] == '%') name++;
    int reg = thread_add_reg(&l->b, name, c, count);
    // Pools outlive kernels: what an earlier kernel said of a register of this name does not hold.
    const char *text = lower_reg_expr(l, reg)->name;
    expr_set_range(l->x, text, INT64_MIN, INT64_MAX);
    if (count == 1) map_put(l->reg_of, text, (void *)(intptr_t)(reg + 1));
    return reg;
}

// The range lets index.c divide by shifts, drop bound checks and narrow 64-bit products.
const Expr *lower_loop_var(Lower *l, int reg, i64 lo, i64 hi)
{
    const Expr *v = lower_reg_expr(l, reg);
    expr_set_range(l->x, v->name, lo, hi);
    return v;
}

int lower_param(Lower *l, const char *name, ParamKind kind, PlanArg arg)
{
    const void *key = intern(l->m->names, name);
    int known = (int)(intptr_t)map_get(l->param_of, key) - 1;
    if (known >= 0) return known;
    int k = thread_add_param(&l->b, name, kind);
    vec_push(l->m->arena, &l->step->args, arg);
    map_put(l->param_of, key, (void *)(intptr_t)(k + 1));
    return k;
}

// ---- the prologue -------------------------------------------------------------------------------

// The prologue runs in all threads before everything else, so what it computes dominates every use.
// It is one straight line: code there may use parameters and special registers only, under no
// guard. May be nested.
PrologueMark lower_enter_prologue(Lower *l)
{
    PrologueMark m = {l->b.at, l->b.guard};
    l->b.at = &l->prologue;
    l->b.guard = (Operand){0};
    l->in_prologue++;
    return m;
}

void lower_leave_prologue(Lower *l, PrologueMark m)
{
    l->b.at = m.at;
    l->b.guard = m.guard;
    l->in_prologue--;
}

// Thread index in the block, 0 to threads - 1: blocks are one-dimensional.
int lower_tid(Lower *l)
{
    if (l->tid >= 0) return l->tid;
    PrologueMark m = lower_enter_prologue(l);
    l->tid = lower_new_reg(l, "tid", RC_B32, 1);
    lower_loop_var(l, l->tid, 0, l->tf->threads - 1);
    EMIT(&l->b, OP_MOV, TT_U32, opd_reg(l->tid, 0), opd_sreg(SR_TID));
    lower_leave_prologue(l, m);
    return l->tid;
}

// A named prologue register that holds an expression over tid.
static int derived(Lower *l, const char *name, const Expr *e, i64 hi)
{
    PrologueMark m = lower_enter_prologue(l);
    Operand v = lower_index(l, e);
    int reg = lower_new_reg(l, name, RC_B32, 1);
    EMIT(&l->b, OP_MOV, TT_B32, opd_reg(reg, 0), v);
    lower_loop_var(l, reg, 0, hi);
    lower_leave_prologue(l, m);
    return reg;
}

// tid / div % mod; mod 0: no remainder is taken.
static const Expr *tid_part(Lower *l, i64 div, i64 mod)
{
    const Expr *t = lower_reg_expr(l, lower_tid(l));
    t = expr_bin(l->x, EX_DIV, t, lower_const(l, div));
    return mod ? expr_bin(l->x, EX_MOD, t, lower_const(l, mod)) : t;
}

// Of an accumulator of 64 rows, warp w of the warpgroup holds rows 16w to 16w + 15, and lane l rows
// l / 4 and l / 4 + 8 of those: here the first of the two, so at most 48 + 7.
int lower_frag_row(Lower *l)
{
    if (l->frag_row >= 0) return l->frag_row;
    const Expr *warp = expr_mul(l->x, tid_part(l, 32, 4), lower_const(l, 16));
    const Expr *quad = tid_part(l, 4, 8);
    return l->frag_row = derived(l, "row", expr_add(l->x, warp, quad), 55);
}

// A lane holds two neighbouring columns of every eight: 2 * (lane % 4), at most 6.
int lower_frag_col(Lower *l)
{
    if (l->frag_col >= 0) return l->frag_col;
    return l->frag_col = derived(l, "col", expr_mul(l->x, tid_part(l, 1, 4), lower_const(l, 2)), 6);
}

// The first thread of the role, not elect.sync: the same thread must issue a bulk copy and later
// wait for its group, and a comparison with a constant costs one predicate for the whole kernel.
int lower_elect(Lower *l)
{
    const void *key = (const void *)(intptr_t)(l->role.lo + 1);
    int reg = (int)(intptr_t)map_get(l->elect, key) - 1;
    if (reg >= 0) return reg;
    PrologueMark m = lower_enter_prologue(l);
    const Expr *tid = lower_reg_expr(l, lower_tid(l));
    reg = lower_compare(l, CMP_EQ, tid, lower_const(l, l->role.lo)).reg;
    lower_leave_prologue(l, m);
    map_put(l->elect, key, (void *)(intptr_t)(reg + 1));
    return reg;
}

// wgmma takes "accumulate or not" as a predicate register, never as an immediate.
int lower_pred_const(Lower *l, bool value)
{
    int *reg = value ? &l->one : &l->zero;
    if (*reg >= 0) return *reg;
    PrologueMark m = lower_enter_prologue(l);
    *reg = lower_new_reg(l, value ? "true" : "false", RC_PRED, 1);
    EMIT(&l->b, OP_MOV, TT_PRED, opd_reg(*reg, 0), opd_imm(value));
    lower_leave_prologue(l, m);
    return *reg;
}

// A scalar whose name has no '%' is the float parameter of that name.
static int scalar_param(Lower *l, const TileScalar *s)
{
    const Plan *p = l->fn->plan;
    int index = 0;
    while (index < p->params.n && p->params.at[index].name != s->name) index++;
    ASSERT(index < p->params.n);
    PrologueMark m = lower_enter_prologue(l);
    int param = lower_param(l, s->name, PARAM_F32, (PlanArg){.kind = ARG_FLOAT, .index = index});
    int reg = lower_new_reg(l, s->name, RC_F32, 1);
    EMIT(&l->b, OP_LDPARAM, TT_F32, opd_reg(reg, 0), opd_param(param));
    lower_leave_prologue(l, m);
    return reg;
}

// The register of a scalar variable. It is written more than once, so no register that was computed
// from it may be cached: it is noted as mutable.
int lower_scalar(Lower *l, int scalar)
{
    if (l->scalar_reg[scalar] >= 0) return l->scalar_reg[scalar];
    const TileScalar *s = &l->k->scalars.at[scalar];
    if (s->name[0] != '%') return l->scalar_reg[scalar] = scalar_param(l, s);
    i64 lo, hi;
    expr_range(l->x, expr_var(l->x, s->name), &lo, &hi);
    int reg = lower_new_reg(l, s->name, lower_class(s->type), 1);
    const Expr *e = lower_reg_expr(l, reg);
    expr_set_range(l->x, e->name, lo, hi); // what is known of the variable holds for its register
    map_put(l->subst, s->name, (void *)(uintptr_t)e);
    map_put(l->mutables, e->name, (void *)1);
    return l->scalar_reg[scalar] = reg;
}

// ---- dependence on the thread -------------------------------------------------------------------

// Does e use a scalar that is not the `same`?
static bool uses_differing(const Lower *l, const Expr *e, const bool *same)
{
    if (!e || e->op == EX_CONST) return false;
    if (e->op != EX_VAR)
        return uses_differing(l, e->a, same) || uses_differing(l, e->b, same) ||
               uses_differing(l, e->c, same);
    int scalar = (int)(intptr_t)map_get(l->scalar_of, e->name) - 1;
    return scalar >= 0 && !same[scalar];
}

// Conservative: true when threads of a role might disagree about e. A value loaded from global
// memory at a uniform address counts as uniform, one from shared memory or a fragment does not.
bool lower_thread_dependent(const Lower *l, const Expr *e)
{
    for (int level = LEVEL_GROUP4; level < LEVEL_COUNT; level++)
        for (int i = 0; i < l->par_vars[level].n; i++)
            if (expr_uses(e, l->par_vars[level].at[i])) return true;
    const ApplyState *a = &l->apply;
    if (a->op && expr_uses(e, a->op->var)) return true;
    if (a->op && a->op->var2 && expr_uses(e, a->op->var2)) return true;
    return uses_differing(l, e, l->scalar_uniform);
}

static bool view_thread_dependent(const Lower *l, const TileView *v)
{
    for (int d = 0; d < l->k->buffers.at[v->buffer].rank; d++)
        if (lower_thread_dependent(l, v->origin[d])) return true;
    return v->slot && lower_thread_dependent(l, v->slot);
}

bool lower_value_thread_dependent(const Lower *l, const TExpr *e)
{
    if (!e) return false;
    if (e->kind == TX_FRAG) return true;
    if (e->kind == TX_SCALAR) return !l->scalar_uniform[e->scalar];
    if (e->kind == TX_ELEM)
        return l->k->buffers.at[e->view->buffer].kind != TB_GLOBAL ||
               view_thread_dependent(l, e->view);
    if (e->kind == TX_INDEX) return lower_thread_dependent(l, e->index);
    return lower_value_thread_dependent(l, e->a) || lower_value_thread_dependent(l, e->b) ||
           lower_value_thread_dependent(l, e->c);
}

// The lanes of a warp agree on an integer: it depends on nothing below the warpgroup and the warp.
static bool index_same_in_warp(const Lower *l, const Expr *e)
{
    const ApplyState *a = &l->apply;
    for (int i = 0; i < l->par_vars[LEVEL_THREAD].n; i++)
        if (expr_uses(e, l->par_vars[LEVEL_THREAD].at[i])) return false;
    if (uses_differing(l, e, l->scalar_in_warp)) return false;
    if (a->op && expr_uses(e, a->op->var)) return false;
    return !a->op || !a->op->var2 || !expr_uses(e, a->op->var2);
}

// The same for any value.
static bool same_in_warp(const Lower *l, const TExpr *e)
{
    if (!e) return true;
    if (e->kind == TX_MATH && e->math == TM_ANY) return true;
    if (e->kind == TX_FRAG || (e->kind == TX_SCALAR && !l->scalar_in_warp[e->scalar])) return false;
    if (e->kind == TX_ELEM) return !lower_value_thread_dependent(l, e);
    if (e->kind == TX_INDEX && !index_same_in_warp(l, e->index)) return false;
    return same_in_warp(l, e->a) && same_in_warp(l, e->b) && same_in_warp(l, e->c);
}

// A scalar stays the same in all threads of a role (or of a warp, `in_warp`) while every value that
// it is given is, and no condition on which they disagree decides whether it is given. Returns true
// when it found one that is not.
static bool find_divergent(Lower *l, const TileBlock *b, bool in_warp, bool backward,
                           bool divergent)
{
    bool *same = in_warp ? l->scalar_in_warp : l->scalar_uniform;
    bool found = false;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[backward ? b->n - 1 - i : i];
        // The lanes of a warp go through an apply together, each with elements of its own.
        bool inner = divergent || (op->op == TOP_APPLY && !in_warp);
        const TileOp *outer = l->apply.op;
        if (op->op == TOP_APPLY) l->apply.op = op;
        if (op->op == TOP_IF)
            inner |= in_warp ? !same_in_warp(l, op->cond)
                             : lower_value_thread_dependent(l, op->cond);
        if (op->op == TOP_FOR)
            inner |= in_warp ? !index_same_in_warp(l, op->lo) || !index_same_in_warp(l, op->hi)
                             : lower_thread_dependent(l, op->lo) ||
                                   lower_thread_dependent(l, op->hi);
        if (op->op == TOP_SET && same[op->scalar] &&
            (divergent || (in_warp ? !same_in_warp(l, op->value)
                                   : lower_value_thread_dependent(l, op->value)))) {
            same[op->scalar] = false;
            found = true;
        }
        if (op->op == TOP_ATOMIC && same[op->scalar]) {
            same[op->scalar] = false; // each thread finds another value
            found = true;
        }
        found |= find_divergent(l, &op->body, in_warp, backward, inner);
        found |= find_divergent(l, &op->other, in_warp, backward, inner);
        l->apply.op = outer;
    }
    return found;
}

// The greatest fixed points: all scalars are uniform until one is found that cannot be. Each round
// turns at least one, so there are at most as many rounds as scalars; since every other round goes
// backward, values that are handed on through a loop's rounds do not need one for each.
static void find_uniform(Lower *l)
{
    for (int i = 0; i < l->k->scalars.n; i++) l->scalar_uniform[i] = l->scalar_in_warp[i] = true;
    for (int in_warp = 0; in_warp < 2; in_warp++) {
        bool backward = false, found = true;
        for (int quiet = 0; quiet < 2; quiet = found ? 0 : quiet + 1) {
            found = find_divergent(l, &l->k->body, in_warp, backward, false);
            backward = !backward;
        }
    }
}

// ---- structure ----------------------------------------------------------------------------------

typedef void LowerOp(Lower *l, const TileOp *op);
static LowerOp *const lower_op[TOP_COUNT] = {
#define X(id, name, fields, meaning) [TOP_##id] = lower_op_##id,
    TILE_OPS(X)
#undef X
};

void lower_block(Lower *l, const TileBlock *block)
{
    for (int i = 0; i < block->n && !l->failed; i++) {
        const TileOp *op = block->at[i];
        l->b.loc = op->loc;
        sync_before(l, op);
        lower_op[op->op](l, op);
        sync_after(l, op);
    }
}

// Threads of one instance of `level` inside the innermost enclosing level.
static int instance_threads(const Lower *l, TileLevel level)
{
    (void)l;
    return level == LEVEL_GROUP4 ? 128 : level == LEVEL_WARP ? 32 : 1;
}

// A parallel level becomes arithmetic on the thread index, and no code of its own: var = tid part /
// (threads of one instance) % count; inside a role the tid counts from the role's first thread. Level
// BLOCK never comes here (block_variables).
void lower_op_PAR(Lower *l, const TileOp *op)
{
    TileLevel level = (TileLevel)op->level;
    u8 outer = l->level;
    i64 count = 0, inner = 1;
    bool known = expr_is_const(op->hi, &count);
    if (!known || level == LEVEL_BLOCK) BUG("parallel level without a constant count");
    // Several variables of one level are nested; the outer one moves slowest.
    for (const TileBlock *b = &op->body;
         b->n == 1 && b->at[0]->op == TOP_PAR && b->at[0]->level == level; b = &b->at[0]->body) {
        i64 c = 1;
        expr_is_const(b->at[0]->hi, &c);
        inner *= c;
    }
    i64 unit = inner * instance_threads(l, level), first = 0;
    i64 enclosing = outer == LEVEL_GROUP4 ? 128 : outer == LEVEL_WARP ? 32 : l->tf->threads;
    if (outer == LEVEL_BLOCK) first = l->role.lo, enclosing = l->role.hi - l->role.lo;
    // Threads outside of the role compute something here that nobody reads.
    const Expr *e = first ? expr_sub(l->x, tid_part(l, 1, 0), lower_const(l, first))
                          : tid_part(l, 1, enclosing);
    if (first % unit == 0 && first)
        e = expr_sub(l->x, tid_part(l, unit, 0), lower_const(l, first / unit));
    else
        e = expr_bin(l->x, EX_DIV, e, lower_const(l, unit));
    if (unit * count < enclosing || !first) e = expr_bin(l->x, EX_MOD, e, lower_const(l, count));
    if (count == 1) e = lower_const(l, 0);
    i64 ignored;
    if (!expr_is_const(e, &ignored)) e = lower_reg_expr(l, derived(l, op->var, e, count - 1));
    map_put(l->subst, op->var, (void *)(uintptr_t)e);
    bool last = inner == 1;
    if (last) l->level = (u8)level;
    l->groups += level == LEVEL_GROUP4;
    lower_block(l, &op->body);
    lower_flush_zeros(l);
    l->groups -= level == LEVEL_GROUP4;
    l->level = outer;
}

static bool sets_scalar(const Lower *l, const TileBlock *b, const Expr *var)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_SET && l->k->scalars.at[op->scalar].name == var->name) return true;
        if (sets_scalar(l, &op->body, var) || sets_scalar(l, &op->other, var)) return true;
    }
    return false;
}

// A serial loop. Order matters: the barrier analysis first (it assumes the state at entry), then
// pending zero fills and products, since the body may run any number of times, and only then the
// bounds, which are read before the first round.
static void serial_loop(Lower *l, const TileOp *op)
{
    bool apart = !l->apply.op; // an apply is synchronised as a whole, and no product stands in it
    if (++l->depth > LOOP_DEPTH_MAX) {
        lower_error(l, op->loc, "join some of the loops", "loops nested deeper than %d",
                    LOOP_DEPTH_MAX);
        return;
    }
    const Expr *lo = lower_subst(l, op->lo), *hi = lower_subst(l, op->hi);
    i64 step = 1, first, last, unused;
    if (op->step && !expr_is_const(op->step, &step)) BUG("loop step is not constant");
    bool divergent = lower_thread_dependent(l, op->lo) || lower_thread_dependent(l, op->hi);
    bool lanes = divergent && (!index_same_in_warp(l, op->lo) || !index_same_in_warp(l, op->hi));
    if (apart) sync_loop(l, op);
    SyncState entry = l->sync;
    lower_flush_zeros(l);
    if (apart) product_flush(l); // depths of waits are counted within one round
    int reg = lower_new_reg(l, op->var, RC_B32, 1);
    expr_range(l->x, lo, &first, &unused);
    expr_range(l->x, hi, &unused, &last);
    lower_loop_var(l, reg, first, last == INT64_MAX ? last : last - 1);
    map_put(l->subst, op->var, (void *)(uintptr_t)lower_reg_expr(l, reg));
    Operand from = lower_index(l, lo), to = lower_index(l, hi);
    // The bound is the value at entry, but for a loop that its own body ends by setting the bound.
    if (hi->op == EX_VAR && lower_uses_mutable(l, hi) && !sets_scalar(l, &op->body, op->hi)) {
        Operand bound = opd_reg(lower_new_reg(l, "bound", RC_B32, 1), 0);
        EMIT(&l->b, OP_MOV, TT_B32, bound, to);
        to = bound;
    }
    lower_hoist(l, op);
    ThreadBlock *saved;
    int mark = lower_cache_mark(l);
    ThreadOp *made = thread_open_for(&l->b, reg, from, to, step, &saved);
    if (lanes) made->flags |= OPF_LANES;
    l->uniform_depth += divergent;
    l->lane_depth += lanes;
    lower_block(l, &op->body);
    lower_flush_zeros(l);
    if (apart) product_flush(l);
    if (apart) sync_join(l);
    if (apart) sync_leave(l, &entry);
    l->uniform_depth -= divergent;
    l->lane_depth -= lanes;
    lower_close(l, saved, mark);
    if (apart) sync_merge(&l->sync, &entry);
    l->depth--;
}

// In an apply a condition is a guard, and a loop takes none: it becomes an `if` around the loop.
void lower_op_FOR(Lower *l, const TileOp *op)
{
    Operand guard = l->b.guard;
    if (guard.kind == OPD_NONE) {
        serial_loop(l, op);
        return;
    }
    ThreadBlock *saved;
    int mark = lower_cache_mark(l);
    l->b.guard = (Operand){0};
    thread_open_if(&l->b, guard, &saved);
    l->lane_depth++;
    serial_loop(l, op);
    l->lane_depth--;
    lower_close(l, saved, mark);
    l->b.guard = guard;
}

// A condition that depends on lanes inside an apply becomes a guard, so that unrolled element code
// stays free of branches; elsewhere it is a region.
static void guarded_block(Lower *l, Operand p, const TileBlock *b)
{
    if (!b->n) return;
    Operand outer = l->b.guard;
    if (outer.kind != OPD_NONE) {
        // `p` was computed under the outer guard, so it is read there only: false elsewhere.
        l->b.guard = (Operand){0};
        Operand all = opd_reg(lower_and(l, outer, outer), 0);
        l->b.guard = outer;
        if (p.negate) {
            Operand plain = p;
            plain.negate = false;
            p = opd_reg(lower_new_reg(l, "p", RC_PRED, 1), 0);
            EMIT(&l->b, OP_NOT, TT_PRED, p, plain);
        }
        EMIT(&l->b, OP_AND, TT_PRED, all, all, p);
        p = all;
    }
    l->b.guard = p;
    int mark = lower_cache_mark(l);
    lower_block(l, b);
    lower_cache_cut(l, mark);
    l->b.guard = outer;
}

static bool block_has_product(const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_MMA || op->op == TOP_WAIT) return true;
        if (block_has_product(&op->body) || block_has_product(&op->other)) return true;
    }
    return false;
}

// At the end of a branch: products that it started are waited for.
static void product_flush_new(Lower *l, int before)
{
    if (l->inflight.n > before) product_flush(l);
}

// An `if`. Uniform: all threads of the role agree, so barriers may stand inside and the branch is
// printed as one that does not split a warp. Products in flight are waited for before a branch that
// issues or waits for some, so that their count is the same on both ways.
static void region_block(Lower *l, Operand p, const TileOp *op, bool divergent)
{
    ThreadBlock *saved;
    int mark = lower_cache_mark(l);
    if (!divergent) sync_enter(l, op);
    if (block_has_product(&op->body) || block_has_product(&op->other)) product_flush(l);
    SyncState entry = l->sync;
    int waiting = l->inflight.n, written = l->nwritten;
    ThreadOp *made = thread_open_if(&l->b, p, &saved);
    bool lanes = divergent && !same_in_warp(l, op->cond);
    if (!lanes && (!divergent || !l->lane_depth)) made->flags |= OPF_UNIFORM;
    l->lane_depth += lanes;
    l->uniform_depth += divergent;
    lower_block(l, &op->body);
    lower_flush_zeros(l);
    sync_leave(l, &entry);
    product_flush_new(l, waiting);
    SyncState first = l->sync;
    lower_cache_cut(l, mark);
    l->sync = entry;
    l->b.at = &made->other;
    lower_block(l, &op->other);
    lower_flush_zeros(l);
    product_flush_new(l, waiting);
    sync_leave(l, &entry);
    l->lane_depth -= lanes;
    l->uniform_depth -= divergent;
    l->nwritten = MIN(l->nwritten, written); // behind it only what both ways have written
    lower_close(l, saved, mark);
    sync_merge(&l->sync, &first);
}

// Inside an apply the branches become guards (the `else` has the negated one), so that unrolled
// element code stays free of branches.
void lower_op_IF(Lower *l, const TileOp *op)
{
    bool divergent = lower_value_thread_dependent(l, op->cond);
    Operand outer = l->b.guard;
    lower_flush_zeros(l);
    l->b.guard = (Operand){0}; // the predicate itself is computed in all lanes
    if (outer.kind != OPD_NONE) l->b.guard = outer;
    Operand p = lower_value(l, op->cond);
    if (p.kind == OPD_IMM) { // known at compile time
        lower_block(l, p.base ? &op->body : &op->other);
        return;
    }
    if (!l->apply.op) {
        region_block(l, p, op, divergent);
        return;
    }
    Operand not_p = p;
    not_p.negate = !not_p.negate;
    guarded_block(l, p, &op->body);
    guarded_block(l, not_p, &op->other);
}

// ---- small operations ---------------------------------------------------------------------------

// A scalar variable gets a value: a plain move, since the register outlives the expression's.
void lower_op_SET(Lower *l, const TileOp *op)
{
    const TileScalar *s = &l->k->scalars.at[op->scalar];
    Operand v = lower_value(l, op->value);
    int reg = lower_scalar(l, op->scalar);
    ThreadType t = lower_type(s->type);
    if (thread_type_class[t] == RC_B32) t = TT_B32;
    if (thread_type_class[t] == RC_B64) t = TT_B64;
    bool not = v.negate; // a move takes no negated predicate
    v.negate = false;
    EMIT(&l->b, not ? OP_NOT : OP_MOV, t, opd_reg(reg, 0), v);
}

// In an apply over a vector the lanes that hold copies leave the store to one of them.
static Operand owner_guard(Lower *l)
{
    if (l->apply.layout == FL_ROW)
        return lower_compare(l, CMP_EQ, lower_reg_expr(l, lower_frag_col(l)), lower_const(l, 0));
    const Expr *group = tid_part(l, 4, 32); // lane / 4 and the warp of the group
    return lower_compare(l, CMP_EQ, group, lower_const(l, 0));
}

// One element, by every thread that reaches it. In an apply over a row vector four lanes hold each
// row, over a column vector eight lanes and four warps hold each column: one of them stores.
// The guard from here on; returns the one to restore.
Operand lower_guard_owner(Lower *l, const TileBuffer *t)
{
    Operand outer = l->b.guard;
    bool shares = l->apply.layout == FL_ROW || l->apply.layout == FL_COL;
    if (!l->apply.op || !shares || t->kind == TB_LOCAL) return outer;
    l->b.guard = (Operand){0}; // predicates are computed in all lanes, else they stay stale
    Operand own = owner_guard(l);
    l->b.guard = outer.kind == OPD_NONE ? own : opd_reg(lower_and(l, outer, own), 0);
    return outer;
}

void lower_op_STORE(Lower *l, const TileOp *op)
{
    const TileBuffer *t = &l->k->buffers.at[op->elem.buffer];
    Operand outer = lower_guard_owner(l, t);
    lower_store(l, lower_address(l, &op->elem, l->zeros), t->type, op->value);
    l->b.guard = outer;
}

void lower_op_BARRIER(Lower *l, const TileOp *op)
{
    if (l->uniform_depth) {
        lower_error(l, op->loc, NULL, "a barrier under a condition that depends on the thread");
        return;
    }
    sync_barrier(l);
}

// setmaxnreg: every warp of the warpgroup must come here together, and at each moment the counts of
// all warpgroups must fit what the block had at entry (register_budget), or the increase never
// returns. Here imm > 0 means take, < 0 give back; the front end saw to the participants.
void lower_op_SETREG(Lower *l, const TileOp *op)
{
    int count = (int)(op->imm > 0 ? op->imm : -op->imm);
    thread_emit0(&l->b, op->imm > 0 ? OP_SETMAXNREG_INC : OP_SETMAXNREG_DEC, count);
    RegisterShare share = {l->role.hi ? l->role : (ThreadRange){0, l->tf->threads}, count, op->loc};
    vec_push(l->m->arena, &l->shares, share);
}

Address lower_mbar_address(Lower *l, int buffer)
{
    Address a = {.offset = opd_imm(0), .ref = {.buffer = buffer, .ncoord = 1}};
    a.ref.coord[0] = lower_const(l, 0);
    a.base = opd_reg(lower_shared_base(l, buffer), 0);
    return a;
}

// ---- kernels ------------------------------------------------------------------------------------

// Registers and buffers are made at first use: -1 means not yet. The two variants of a kernel are
// lowered independently, each from a state of its own.
static void init_state(Lower *l, const TileModule *m, const TileFn *fn, const TileKernel *k,
                       ThreadModule *out, bool plain)
{
    Arena *a = m->arena;
    *l = (Lower){.m = m, .fn = fn, .k = k, .out = out, .x = m->exprs, .plain = plain};
    l->rank = l->peer_lane = l->peer_lanes = -1;
    l->tid = l->one_lane = l->frag_row = l->frag_col = l->smem = l->one = l->zero = -1;
    l->role_id = -1;
    l->elect = map_new(a);
    l->events = ARENA_ARRAY(a, EventState, k->events.n + 1);
    l->future_mma = ARENA_ARRAY(a, bool, k->futures.n + 1);
    l->scalar_uniform = ARENA_ARRAY(a, bool, k->scalars.n + 1);
    l->scalar_in_warp = ARENA_ARRAY(a, bool, k->scalars.n + 1);
    l->apply = (ApplyState){.op = NULL, .block = -1, .half = -1, .pair = -1};
    l->reg_of = map_new(a), l->subst = map_new(a), l->unroll_of = map_new(a);
    l->param_of = map_new(a), l->symbol_reg = map_new(a);
    l->mutables = map_new(a), l->varies = map_new(a);
    l->scalar_of = map_new(a);
    for (int i = 0; i < k->scalars.n; i++)
        map_put(l->scalar_of, intern(m->names, k->scalars.at[i].name), (void *)(intptr_t)(i + 1));
    l->cache.newest = map_new(a), l->prologue_cache.newest = map_new(a);
    l->frag_reg = ARENA_ARRAY(a, int, k->frags.n + 1);
    l->frag_zero = ARENA_ARRAY(a, bool, k->frags.n + 1);
    l->scalar_reg = ARENA_ARRAY(a, int, k->scalars.n + 1);
    l->buffer = ARENA_ARRAY(a, int, k->buffers.n + 1);
    l->future_mbar = ARENA_ARRAY(a, int, k->futures.n + 1);
    l->future_phase = ARENA_ARRAY(a, int, k->futures.n + 1);
    l->future_dst = ARENA_ARRAY(a, int, k->futures.n + 1);
    l->pending_mbar = ARENA_ARRAY(a, int, k->buffers.n + 1);
    l->pending_phase = ARENA_ARRAY(a, int, k->buffers.n + 1);
    l->carrier = map_new(a);
    for (int i = 0; i <= k->frags.n; i++) l->frag_reg[i] = -1;
    for (int i = 0; i <= k->scalars.n; i++) l->scalar_reg[i] = -1;
    for (int i = 0; i <= k->buffers.n; i++) l->buffer[i] = -1;
    for (int i = 0; i <= k->futures.n; i++) l->future_mbar[i] = l->future_dst[i] = -1;
    for (int i = 0; i < TILE_MAX_RANK; i++) l->zeros[i] = expr_const(m->exprs, 0);
    ThreadFn *tf = ARENA_NEW(a, ThreadFn);
    tf->name = plain ? intern_printf(m->names, "%s_plain", k->name) : k->name;
    tf->threads = k->threads;
    tf->maxnreg = k->maxnreg;
    tf->min_ctas = k->min_blocks;
    tf->cluster = plain ? 1 : MAX(k->cluster, 1); // no multicast, so nothing goes to other blocks
    l->tf = tf;
    l->b = (ThreadBuilder){.mod = out, .fn = tf, .at = &tf->body, .loc = k->loc};
    PlanStep *s = ARENA_NEW(a, PlanStep);
    s->kind = STEP_KERNEL;
    s->kernel = tf->name;
    s->block = k->threads;
    s->cluster = tf->cluster;
    l->step = s;
}

// Extents are not negative, and kernels hold symbols in 32 bits (the launch checks both).
static void symbol_ranges(Lower *l)
{
    const Plan *p = l->fn->plan;
    for (int i = 0; i < p->symbols.n; i++) {
        bool extent = p->symbols.at[i].source == SYM_EXTENT;
        expr_set_range(l->x, p->symbols.at[i].name, extent ? 0 : INT32_MIN, INT32_MAX);
    }
}

// Variables of the block level are the block's index; the grid's extents go to the launch plan.
// Their range is what the grid allows, which proves bounds without tests.
static void block_variables(Lower *l)
{
    static const SpecialReg ctaid[3] = {SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z};
    for (int i = 0; i < 3; i++) l->step->grid[i] = lower_const(l, 1);
    for (int i = 0; i < l->k->ngrid; i++) {
        l->step->grid[i] = l->k->grid[i];
        PrologueMark m = lower_enter_prologue(l);
        int reg = lower_new_reg(l, l->k->grid_var[i], RC_B32, 1);
        EMIT(&l->b, OP_MOV, TT_U32, opd_reg(reg, 0), opd_sreg(ctaid[i]));
        i64 lo, hi;
        expr_range(l->x, l->k->grid[i], &lo, &hi);
        lower_loop_var(l, reg, 0, hi == INT64_MAX ? INT32_MAX : hi - 1);
        map_put(l->subst, l->k->grid_var[i], (void *)(uintptr_t)lower_reg_expr(l, reg));
        lower_leave_prologue(l, m);
    }
}

// Shared memory of one block on Hopper, bytes: 228 KiB of the multiprocessor, less 1 KiB that the
// system keeps for each block.
enum { SMEM_MAX = 227 * 1024 };

// Lays out shared memory: tiles first, barriers behind them. A swizzled tile begins at a multiple
// of 1024, so that address bits 7 to 9, which the swizzle folds into bits 4 to 6, count its rows
// from zero; others at 128, as bulk copies want; an mbarrier is 8 bytes.
static void place_shared(Lower *l)
{
    i64 at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < l->tf->buffers.n; i++) {
            ThreadBuffer *b = &l->tf->buffers.at[i];
            if (b->kind != (pass ? BUF_MBAR : BUF_SHARED)) continue;
            i64 align = pass ? 8 : smem_layout[b->layout].span ? 1024 : 128;
            at = (at + align - 1) / align * align;
            b->offset = at;
            at += thread_buffer_bytes(b);
        }
    }
    l->tf->smem_bytes = l->step->smem_bytes = at;
    if (at > SMEM_MAX)
        lower_error(l, l->k->loc, "use smaller tiles or fewer slots",
                    "kernel %s needs %lld bytes of shared memory; a block has at most %d",
                    l->tf->name, (long long)at, SMEM_MAX);
    for (int i = 0; i < l->prologue.n; i++) { // the place holders of lower_shared_base
        ThreadOp *op = l->prologue.at[i];
        if (op->op != OP_ADD || !op->imm) continue;
        op->opnd[2] = opd_imm(l->tf->buffers.at[op->imm - 1].offset);
        op->imm = 0;
    }
}

// One thread makes the barriers and publishes them; nobody passes before that. The fence is for the
// async proxy, which signals them: it must see them initialised too.
static void init_mbars(Lower *l)
{
    if (!l->mbars.n) return;
    Operand leader = opd_reg(lower_elect(l), 0);
    PrologueMark m = lower_enter_prologue(l);
    for (int i = 0; i < l->mbars.n; i++) {
        const MbarInit *init = &l->mbars.at[i];
        Address a = lower_mbar_address(l, init->buffer);
        l->b.guard = leader;
        for (int s = 0; s < init->slots; s++) {
            a.offset = opd_imm(8 * s);
            a.ref.coord[0] = lower_const(l, s);
            ThreadOp *op = EMIT(&l->b, OP_MBAR_INIT, TT_NONE, a.base, a.offset,
                                opd_imm(init->count));
            thread_mem(&l->b, op, a.ref);
        }
        l->b.guard = (Operand){0};
    }
    l->b.guard = leader;
    thread_emit0(&l->b, OP_FENCE_MBAR_INIT, 0);
    l->b.guard = (Operand){0};
    if (l->uses_peers) thread_emit0(&l->b, OP_BAR_CLUSTER, 0); // of other blocks too
    else EMIT(&l->b, OP_BAR_SYNC, TT_NONE, opd_imm(0), opd_imm(l->tf->threads));
    lower_leave_prologue(l, m);
}

// setmaxnreg moves registers between warpgroups of a block that owns all 65,536 of its
// multiprocessor's: the count at entry must be known, a multiple of 8, and the same for all threads
// (384 threads: 168). Without a stated count the assembler ignores setmaxnreg. 255 is what one
// thread can address.
static void register_budget(Lower *l)
{
    int each = 65536 / l->tf->threads;
    if (l->moves_registers && !l->tf->maxnreg) l->tf->maxnreg = MIN(each, 255) / 8 * 8;
}

// The last share that holds for all threads of the role; without one, an equal part of the block's.
int lower_thread_registers(const Lower *l)
{
    int count = 65536 / (l->tf->threads * MAX(l->tf->min_ctas, 1));
    if (l->tf->maxnreg) count = l->tf->maxnreg;
    for (int i = 0; i < l->shares.n; i++) {
        const RegisterShare *s = &l->shares.at[i];
        if (s->threads.lo <= l->role.lo && l->role.hi <= s->threads.hi) count = s->count;
    }
    return MIN(count, 255);
}

// What the warpgroups hold in the end must not be more than they had at entry: the last increase
// would wait for ever.
static void check_shares(Lower *l)
{
    int held = 0, groups = l->tf->threads / 128;
    if (!l->shares.n) return;
    Loc loc = l->k->loc;
    for (int g = 0; g < groups; g++) {
        int count = l->tf->maxnreg;
        for (int i = 0; i < l->shares.n; i++) {
            const RegisterShare *s = &l->shares.at[i];
            if (s->threads.lo > g * 128 || s->threads.hi < (g + 1) * 128) continue;
            if (s->count > l->tf->maxnreg) loc = s->loc;
            count = s->count;
        }
        held += count;
    }
    if (held <= groups * l->tf->maxnreg) return;
    lower_error(l, loc, "give registers back in the other warpgroups with setreg_dec",
                "the warpgroups take %d registers a lane together; at entry they have %d x %d = %d",
                held, groups, l->tf->maxnreg, groups * l->tf->maxnreg);
}

// The variables of all levels below the block, before anything asks what depends on them.
static void find_parallel(Lower *l, const TileBlock *b)
{
    i64 count;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_PAR && !(expr_is_const(op->hi, &count) && count == 1))
            vec_push(l->m->arena, &l->par_vars[op->level], op->var);
        find_parallel(l, &op->body);
        find_parallel(l, &op->other);
    }
}

// One variant of a kernel into l->tf and l->step. False after an error, which was reported.
// `plain`: without the TMA unit. Analyses that look at the whole body (levels, uniformity, events,
// buffers of the async proxy) come before the walk that emits.
static bool lower_kernel(Lower *l, const TileModule *m, const TileFn *fn, const TileKernel *k,
                         ThreadModule *out, bool plain)
{
    init_state(l, m, fn, k, out, plain);
    if (k->threads % 32 || k->threads <= 0) {
        lower_error(l, k->loc, "use a multiple of 32", "not supported yet: a block of %d threads",
                    k->threads);
        return false;
    }
    if (k->buffers.n > LOWER_MAX_BUFFERS) {
        lower_error(l, k->loc, NULL, "kernel %s has %d buffers; at most %d", k->name, k->buffers.n,
                    LOWER_MAX_BUFFERS);
        return false;
    }
    symbol_ranges(l);
    block_variables(l);
    for (int i = 0; i < k->scalars.n; i++) lower_scalar(l, i);
    find_parallel(l, &k->body);
    find_uniform(l);
    cluster_init(l);
    event_init(l);
    handoff_init(l);
    sync_init(l);
    register_budget(l);
    lower_block(l, &k->body);
    check_shares(l);
    cluster_end(l);
    l->role = (ThreadRange){0, l->tf->threads};
    init_mbars(l);
    PrologueMark mark = lower_enter_prologue(l);
    event_prime(l);
    lower_leave_prologue(l, mark);
    place_shared(l);
    ThreadBlock body = l->tf->body;
    l->tf->body = (ThreadBlock){0};
    for (int i = 0; i < l->prologue.n; i++) vec_push(m->arena, &l->tf->body, l->prologue.at[i]);
    for (int i = 0; i < body.n; i++) vec_push(m->arena, &l->tf->body, body.at[i]);
    return !l->failed;
}

static const Expr *both(ExprPool *x, const Expr *a, const Expr *b)
{
    return a ? expr_bin(x, EX_LAND, a, b) : b;
}

// A kernel is followed by its plain twin when a rule of the TMA unit depends on sizes. Their
// conditions exclude each other: exactly one of the two steps runs.
static bool lower_fn(const TileModule *m, const TileFn *fn, ThreadModule *out)
{
    for (int i = 0; i < fn->kernels.n; i++) {
        const TileKernel *k = fn->kernels.at[i];
        Lower *l = ARENA_NEW(m->arena, Lower);
        if (!lower_kernel(l, m, fn, k, out, false)) return false;
        l->step->when = l->tma_when ? both(m->exprs, k->when, l->tma_when) : k->when;
        vec_push(m->arena, &out->fns, l->tf);
        vec_push(m->arena, &fn->plan->steps, l->step);
        if (!l->tma_when) continue;
        Lower *p = ARENA_NEW(m->arena, Lower);
        if (!lower_kernel(p, m, fn, k, out, true)) return false;
        const Expr *no = expr_bin(m->exprs, EX_EQ, l->tma_when, expr_const(m->exprs, 0));
        p->step->when = both(m->exprs, k->when, no);
        vec_push(m->arena, &out->fns, p->tf);
        vec_push(m->arena, &fn->plan->steps, p->step);
    }
    return true;
}

bool lower_module(const TileModule *in, ThreadModule *out)
{
    bool ok = true;
    for (int i = 0; i < in->fns.n; i++) ok &= lower_fn(in, in->fns.at[i], out);
    return ok;
}
