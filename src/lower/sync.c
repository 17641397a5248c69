// sync.c - where barriers of the block stand.
//
// Tile operations of the source have no barriers between them; the order they are written in is
// the meaning. The lowering keeps, per shared buffer, whether it was read or written since the last
// barrier, and puts a barrier before an operation only where it would overtake one of those: a read
// of what others wrote, a write over what others read or wrote. Before the barrier each thread
// waits for its own cp.async copies and fences the generic against the async proxy, if it made
// ordinary accesses to a buffer that wgmma or the TMA unit, which use the latter, access too.
//
// Data that the TMA unit brings needs no barrier to be read: every thread waits on its mbarrier,
// and not before the first operation that needs the data. Loops are brought to a fixed point first:
// the state at their head covers what the end of the body left.
//
// A buffer of which each warpgroup accesses only a part of its own needs no more than a barrier of
// the warpgroup.
#include "impl.h"

#include <string.h>

typedef struct {
    u8 buf[LOWER_MAX_BUFFERS]; // BUF_READ / BUF_WRITTEN by this operation
    bool generic[LOWER_MAX_BUFFERS]; // by ordinary loads and stores (cp.async among them)
    bool cp_async;
    u8 loose[LOWER_MAX_BUFFERS]; // LOOSE_*: ordinary accesses
} Access;

// Notes an access of an operation. Buffers that events hand over are left out: the source says when
// they change hands, and their proxy fence stands before the trigger (event.c).
static void touch(Lower *l, Access *a, int buffer, u8 how, bool generic)
{
    if (buffer < 0 || l->k->buffers.at[buffer].kind != TB_SHARED) return;
    buffer = tile_memory(l->k, buffer);
    if (generic) a->loose[buffer] |= how & BUF_READ ? LOOSE_READ : LOOSE_WRITTEN;
    if (l->event_buf[buffer]) return; // handed over by events, not by barriers
    a->buf[buffer] |= how;
    a->generic[buffer] |= generic;
}

static void touch_value(Lower *l, Access *a, const TExpr *e)
{
    if (!e) return;
    if (e->kind == TX_ELEM) touch(l, a, e->view->buffer, BUF_READ, true);
    touch_value(l, a, e->a);
    touch_value(l, a, e->b);
    touch_value(l, a, e->c);
}

static void touch_block(Lower *l, Access *a, const TileBlock *b);

// Of the operation alone, without its regions.
static void touch_op(Lower *l, Access *a, const TileOp *op)
{
    switch ((TileOpcode)op->op) {
    case TOP_COPY: {
        CopyCarrier by = lower_carrier(l, op);
        touch(l, a, op->src.buffer, BUF_READ, by != CARRY_TMA);
        touch(l, a, op->dst.buffer, BUF_WRITTEN, by != CARRY_TMA);
        a->cp_async |= by == CARRY_CP_ASYNC;
        return;
    }
    case TOP_MMA:
        if (op->a.frag < 0) touch(l, a, op->a.view.buffer, BUF_READ, false);
        touch(l, a, op->b.view.buffer, BUF_READ, false);
        return;
    case TOP_MMA_STORE: touch(l, a, op->dst.buffer, BUF_WRITTEN, true); return;
    case TOP_ATOMIC:
    case TOP_STORE:
        touch(l, a, op->elem.buffer, op->op == TOP_STORE ? BUF_WRITTEN : BUF_ATOMIC, true);
        touch_value(l, a, op->cond);
        touch_value(l, a, op->value);
        return;
    default:
        touch_value(l, a, op->value);
        touch_value(l, a, op->cond);
        return;
    }
}

static void touch_block(Lower *l, Access *a, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        touch_op(l, a, b->at[i]);
        touch_block(l, a, &b->at[i]->body);
        touch_block(l, a, &b->at[i]->other);
    }
}

// Operations that are synchronised as one: no barrier may stand inside them.
static bool is_unit(const Lower *l, const TileOp *op)
{
    return op->op == TOP_APPLY ||
           (op->op == TOP_IF && lower_value_thread_dependent(l, op->cond));
}

static Access access_of(Lower *l, const TileOp *op)
{
    Access a = {0};
    touch_op(l, &a, op);
    if (is_unit(l, op)) {
        touch_block(l, &a, &op->body);
        touch_block(l, &a, &op->other);
    }
    return a;
}

// All threads of the role: the block's barrier 0, or a named one for a part of the block. Each role
// keeps its id until its end; ids are not given back, since a later role on other warps might meet
// a straggler of the first one.
static void role_barrier(Lower *l)
{
    int threads = l->role.hi - l->role.lo, id = 0;
    if (threads != l->tf->threads) {
        if (l->role_id < 0 && l->named_low + 1 < l->named_high) l->role_id = ++l->named_low;
        if (l->role_id < 0 || threads % 32 || l->role.lo % 32)
            lower_error(l, l->b.loc, NULL,
                        "not supported yet: a barrier for this role; none of the 15 is left, "
                        "or it is no whole number of warps");
        id = l->role_id;
    }
    EMIT(&l->b, OP_BAR_SYNC, TT_NONE, opd_imm(id), opd_imm(threads));
}

Operand sync_group_leader(Lower *l)
{
    if (!l->group_leader) {
        PrologueMark m = lower_enter_prologue(l);
        const Expr *t = expr_bin(l->x, EX_MOD, lower_reg_expr(l, lower_tid(l)), lower_const(l, 128));
        l->group_leader = lower_compare(l, CMP_EQ, t, lower_const(l, 0)).reg + 1;
        lower_leave_prologue(l, m);
    }
    return opd_reg(l->group_leader - 1, 0);
}

// The warpgroup's own named barrier: ids that follow one another for the warpgroups of the block.
static void emit_group_barrier(Lower *l)
{
    if (!l->group_id) {
        int groups = l->tf->threads / 128;
        if (l->named_low + groups >= l->named_high) {
            lower_error(l, l->b.loc, NULL,
                        "not supported yet: a barrier for each warpgroup; too few of the 15 are "
                        "left");
            return;
        }
        PrologueMark m = lower_enter_prologue(l);
        const Expr *id = expr_bin(l->x, EX_DIV, lower_reg_expr(l, lower_tid(l)),
                                  lower_const(l, 128));
        id = expr_add(l->x, id, lower_const(l, l->named_low + 1));
        l->group_id = lower_index(l, id).reg + 1;
        l->named_low += groups;
        lower_leave_prologue(l, m);
    }
    EMIT(&l->b, OP_BAR_SYNC, TT_NONE, opd_reg(l->group_id - 1, 0), opd_imm(128));
}

// All threads of this warpgroup, which come here together.
void sync_group(Lower *l)
{
    if (!l->dry) emit_group_barrier(l);
}

// The unit has read all tiles that this thread gave it to store.
static void wait_stores(Lower *l)
{
    bool any = false;
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) {
        any |= (l->sync.buf[i] & BUF_STORING) != 0;
        l->sync.buf[i] &= (u8)~BUF_STORING;
    }
    if (!any || l->dry) return;
    ThreadBlock *saved;
    int mark = lower_cache_mark(l);
    thread_open_if(&l->b, sync_group_leader(l), &saved);
    thread_emit0(&l->b, OP_BULK_WAIT_READ, 0);
    lower_close(l, saved, mark);
}

// What each thread does before it arrives: its own cp.async copies have landed (nobody else can
// wait for them), and its ordinary accesses are fenced against the async proxy; the barrier then
// carries both to all others. A dry run changes the state only.
static void before_barrier(Lower *l)
{
    wait_stores(l);
    if (!l->dry && l->sync.cp_async) {
        thread_emit0(&l->b, OP_CPASYNC_COMMIT, 0);
        thread_emit0(&l->b, OP_CPASYNC_WAIT, 0);
    }
    if (!l->dry && l->sync.generic) thread_emit0(&l->b, OP_FENCE_PROXY, 0);
    if (l->sync.generic) sync_fenced(l);
    l->sync.generic = l->sync.cp_async = false;
}

// Between accesses of a warpgroup to what is its own.
static void group_barrier(Lower *l)
{
    before_barrier(l);
    if (!l->dry) emit_group_barrier(l);
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) {
        if (!l->own_buf[i]) continue;
        l->sync.buf[i] &= BUF_PENDING;
        l->beside.buf[i] &= BUF_PENDING;
    }
}

void sync_barrier(Lower *l)
{
    before_barrier(l);
    if (!l->dry) role_barrier(l);
    // no barrier ends a load
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) l->sync.buf[i] &= BUF_PENDING;
}

static void wait_pending(Lower *l, int buffer)
{
    if (!l->dry && !l->failed) // a load that was refused has no barrier
        lower_wait_mbar(l, l->pending_mbar[buffer], l->pending_phase[buffer]);
    // Like a read: the next load must not begin before all threads have seen this one end, or its
    // barrier could run two phases ahead of one of them.
    l->sync.buf[buffer] = (u8)((l->sync.buf[buffer] & ~BUF_PENDING) | BUF_READ);
}

void sync_enter(Lower *l, const TileOp *region)
{
    Access a = {0};
    touch_block(l, &a, &region->body);
    touch_block(l, &a, &region->other);
    for (int i = 0; i < l->k->buffers.n; i++)
        if (a.buf[i] && (l->sync.buf[i] & BUF_PENDING)) wait_pending(l, i);
}

void sync_leave(Lower *l, const SyncState *before)
{
    for (int i = 0; i < l->k->buffers.n; i++)
        if ((l->sync.buf[i] & BUF_PENDING) && !(before->buf[i] & BUF_PENDING)) wait_pending(l, i);
}

// Read after write and write after anything need a barrier; reads among each other do not.
// A read of what was written, or a write over what was read or written, since the last barrier.
// `own`: of the buffers that warpgroups have parts of, else of the others.
static bool overtakes(const Lower *l, const Access *a, const SyncState *s, bool own)
{
    for (int i = 0; i < l->k->buffers.n; i++) {
        if (l->own_buf[i] != own) continue;
        if ((a->buf[i] & BUF_READ) && (s->buf[i] & (BUF_WRITTEN | BUF_ATOMIC))) return true;
        if ((a->buf[i] & BUF_WRITTEN) && (s->buf[i] & (BUF_READ | BUF_WRITTEN | BUF_ATOMIC)))
            return true;
        if ((a->buf[i] & BUF_ATOMIC) && (s->buf[i] & (BUF_READ | BUF_WRITTEN))) return true;
    }
    return false;
}

// Emits what must stand before op: waits for loads that it touches, then at most one barrier.
// Inside an apply or a divergent region nothing may stand; the unit around it was synchronised as a
// whole.
void sync_before(Lower *l, const TileOp *op)
{
    // A trigger releases what stands before it, loads among that.
    bool releases = op->op == TOP_TRIGGER || op->op == TOP_BAR;
    for (int i = 0; releases && i < l->k->buffers.n; i++)
        if (l->sync.buf[i] & BUF_PENDING) wait_pending(l, i);
    if (l->apply.op || l->uniform_depth) return; // covered by the enclosing unit
    if (op->op == TOP_ROLE) return; // sync_role_enter
    if (op->op == TOP_BARRIER) sync_join(l);
    Access a = access_of(l, op);
    for (int i = 0; i < l->k->buffers.n; i++)
        if (a.buf[i] && (l->sync.buf[i] & BUF_PENDING)) wait_pending(l, i);
    SyncState all = l->sync;
    sync_merge(&all, &l->beside);
    bool wide = overtakes(l, &a, &all, false), own = overtakes(l, &a, &all, true);
    if (own && !wide && l->role.lo % 128 == 0 && l->role.hi % 128 == 0 &&
        l->role.hi - l->role.lo > 128) {
        group_barrier(l);
        return;
    }
    if (!wide && !own) return;
    sync_join(l);
    sync_barrier(l);
}

void sync_join(Lower *l)
{
    sync_merge(&l->sync, &l->beside);
    l->beside = (SyncState){0};
}

// What the level did before must be complete where the role relies on it; what other roles did is
// between the roles.
RoleSync sync_role_enter(Lower *l, const TileOp *role)
{
    Access a = {0};
    sync_enter(l, role);
    touch_block(l, &a, &role->body);
    bool due = overtakes(l, &a, &l->sync, false) || overtakes(l, &a, &l->sync, true);
    if (!l->uniform_depth && due) sync_barrier(l);
    RoleSync outer = {l->sync, l->beside};
    l->beside = (SyncState){0};
    return outer;
}

// The level's own state is as before the role; what the role did is beside it, for whoever follows
// all the roles. Loads that it left pending were waited for by its own threads only.
void sync_role_leave(Lower *l, const RoleSync *outer)
{
    sync_leave(l, &outer->sync);
    sync_join(l);
    wait_stores(l);
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) l->sync.buf[i] &= (u8)~BUF_PENDING;
    SyncState left = l->sync;
    l->sync = outer->sync;
    l->beside = outer->beside;
    sync_merge(&l->beside, &left);
}

// Adds what op did to the state.
void sync_after(Lower *l, const TileOp *op)
{
    if (l->apply.op || l->uniform_depth || op->op == TOP_ROLE) return;
    Access a = access_of(l, op);
    bool tma_in = op->op == TOP_COPY && lower_carrier(l, op) == CARRY_TMA;
    for (int i = 0; i < l->k->buffers.n; i++) {
        // What the TMA unit wrote is seen by whoever waited for it.
        l->sync.buf[i] |= tma_in ? a.buf[i] & BUF_READ : a.buf[i];
        if (tma_in && op->future < 0 && op->event < 0 && (a.buf[i] & BUF_WRITTEN))
            l->sync.buf[i] |= BUF_PENDING;
    }
    if (tma_in && lower_store_runs_on(l, op)) l->sync.buf[op->src.buffer] |= BUF_STORING;
    if (tma_in && op->future >= 0)
        l->future_dst[op->future] = tile_memory(l->k, op->dst.buffer);
    if (op->op == TOP_WAIT && l->future_dst[op->future] >= 0)
        l->sync.buf[l->future_dst[op->future]] |= BUF_READ; // as in wait_pending
    if (op->op == TOP_EVENT_WAIT && l->k->events.at[op->event].turns)
        l->sync.buf[l->events[op->event].fills] |= BUF_READ; // likewise
    for (int i = 0; i < l->k->buffers.n; i++) l->sync.generic |= a.generic[i] && l->async_buf[i];
    l->sync.cp_async |= a.cp_async;
    for (int i = 0; i < l->k->buffers.n; i++) l->sync.loose[i] |= a.loose[i];
}

// Before anything is lowered: a generic access needs a fence also when the async proxy's access to
// the buffer comes later in the program, or in the next round of a loop.
static void find_async(Lower *l, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        bool tma = op->op == TOP_COPY && lower_carrier(l, op) == CARRY_TMA;
        if (tma) {
            l->async_buf[tile_memory(l->k, op->src.buffer)] = true;
            l->async_buf[tile_memory(l->k, op->dst.buffer)] = true;
        }
        if (op->op == TOP_MMA) {
            if (op->a.frag < 0) l->async_buf[op->a.view.buffer] = true;
            l->async_buf[op->b.view.buffer] = true;
        }
        find_async(l, &op->body);
        find_async(l, &op->other);
    }
}

// ---- parts that belong to warpgroups ------------------------------------------------------------

// How warpgroup g's part of a buffer lies: from at + step * g in one dimension, or in the slots of
// an array (dimension -1). Equal in all accesses, else nobody owns a part.
typedef struct {
    bool seen, shared;         // shared: some access is of no such part, or of another one
    int dim;
    i64 at, step;
} OwnPart;

static const Expr *group_to_number(void *ctx, const Expr *var)
{
    const Expr **pair = ctx; // the variable, and its value
    return var == pair[0] ? pair[1] : NULL;
}

// e = at + step * g with constants, and step elements are at least `extent`?
static bool steps_by_group(Lower *l, const Expr *e, const Expr *extent, OwnPart *p)
{
    i64 first, n;
    const Expr *g = expr_var(l->x, l->par_vars[LEVEL_GROUP4].at[0]);
    const Expr *zero[2] = {g, lower_const(l, 0)}, *one[2] = {g, lower_const(l, 1)};
    if (!e || !expr_is_const(extent, &n)) return false;
    if (!expr_is_const(expr_subst(l->x, e, group_to_number, zero), &p->at) ||
        !expr_is_const(expr_subst(l->x, e, group_to_number, one), &first))
        return false;
    p->step = first - p->at;
    const Expr *again = expr_mul(l->x, g, lower_const(l, p->step));
    again = expr_add(l->x, again, lower_const(l, p->at));
    return again == e && p->step >= n;
}

static void note_part(Lower *l, OwnPart *parts, const TileView *v)
{
    if (v->buffer < 0 || l->k->buffers.at[v->buffer].kind != TB_SHARED) return;
    if (l->k->buffers.at[v->buffer].alias) {
        parts[tile_memory(l->k, v->buffer)].shared = true;
        return;
    }
    OwnPart *p = &parts[v->buffer], found = {.dim = -1};
    bool own = steps_by_group(l, v->slot, lower_const(l, 1), &found);
    for (int d = 0; !own && d < l->k->buffers.at[v->buffer].rank; d++) {
        found.dim = d;
        own = steps_by_group(l, v->origin[d], v->extent[d], &found);
    }
    bool same = p->dim == found.dim && p->at == found.at && p->step == found.step;
    if (!own || (p->seen && !same)) p->shared = true;
    found.seen = true, found.shared = p->shared;
    *p = found;
}

static void note_elements(const TileKernel *k, OwnPart *parts, const TExpr *e)
{
    if (!e) return;
    if (e->kind == TX_ELEM) parts[tile_memory(k, e->view->buffer)].shared = true;
    note_elements(k, parts, e->a);
    note_elements(k, parts, e->b);
    note_elements(k, parts, e->c);
}

static void find_parts(Lower *l, OwnPart *parts, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_COPY) note_part(l, parts, &op->src);
        if (op->op == TOP_COPY || op->op == TOP_MMA_STORE) note_part(l, parts, &op->dst);
        if (op->op == TOP_MMA && op->a.frag < 0) note_part(l, parts, &op->a.view);
        if (op->op == TOP_MMA) note_part(l, parts, &op->b.view);
        if (op->op == TOP_STORE || op->op == TOP_ATOMIC)
            parts[tile_memory(l->k, op->elem.buffer)].shared = true;
        note_elements(l->k, parts, op->value);
        note_elements(l->k, parts, op->cond);
        find_parts(l, parts, &op->body);
        find_parts(l, parts, &op->other);
    }
}

void sync_init(Lower *l)
{
    OwnPart parts[LOWER_MAX_BUFFERS] = {0};
    find_async(l, &l->k->body);
    if (l->par_vars[LEVEL_GROUP4].n != 1) return;
    find_parts(l, parts, &l->k->body);
    for (int i = 0; i < l->k->buffers.n; i++) l->own_buf[i] = parts[i].seen && !parts[i].shared;
}

void sync_merge(SyncState *a, const SyncState *b)
{
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) a->buf[i] |= b->buf[i];
    a->generic |= b->generic;
    a->cp_async |= b->cp_async;
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) a->loose[i] |= b->loose[i];
}

// ---- loops --------------------------------------------------------------------------------------

static void walk(Lower *l, const TileBlock *b);

// The effect of an operation on the state, with nothing emitted: must make the same transitions as
// lower_block with the lower_op_ functions.
static void walk_op(Lower *l, const TileOp *op)
{
    sync_before(l, op);
    switch ((TileOpcode)op->op) {
    case TOP_FOR:
        sync_loop(l, op);
        {
            SyncState entry = l->sync;
            walk(l, &op->body);
            sync_join(l);
            sync_leave(l, &entry);
            sync_merge(&l->sync, &entry);
        }
        break;
    case TOP_IF:
        if (!is_unit(l, op)) {
            sync_enter(l, op);
            SyncState entry = l->sync, first;
            walk(l, &op->body);
            sync_leave(l, &entry);
            first = l->sync;
            l->sync = entry;
            walk(l, &op->other);
            sync_leave(l, &entry);
            sync_merge(&l->sync, &first);
        }
        break;
    case TOP_PAR: walk(l, &op->body); break;
    case TOP_ROLE: {
        RoleSync outer = sync_role_enter(l, op);
        ThreadRange role = l->role;
        l->role = (ThreadRange){(int)op->lo->value, (int)op->hi->value};
        walk(l, &op->body);
        sync_role_leave(l, &outer);
        l->role = role;
        break;
    }
    case TOP_BAR:
        sync_fenced(l);
        l->sync.cp_async = false;
        break;
    case TOP_TRIGGER:
        handoff_protect(l, op);
        l->sync.cp_async = false;
        break;
    case TOP_BARRIER: sync_barrier(l); break;
    default: break;
    }
    sync_after(l, op);
}

static void walk(Lower *l, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) walk_op(l, b->at[i]);
}

// The body is walked dry from the state at entry until nothing new comes back to its head; then the
// state covers every round, and the body is lowered once with it.
void sync_loop(Lower *l, const TileOp *loop)
{
    bool dry = l->dry;
    sync_enter(l, loop);
    l->dry = true;
    for (;;) { // the state only grows, so this ends
        SyncState entry = l->sync;
        walk(l, &loop->body);
        sync_join(l);
        sync_leave(l, &entry);
        sync_merge(&l->sync, &entry);
        if (memcmp(&l->sync, &entry, sizeof entry) == 0) break;
    }
    l->dry = dry;
}
