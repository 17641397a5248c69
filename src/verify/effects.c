// effects.c - memory and synchronisation of one warp: accesses with their windows, and events.
//
// An access is carried out in the segment in which it stands, between two events. Towards other
// agents it stays open until what the machine model asks for has happened: a proxy fence or a
// pinned use (O4, O6), the wait of products (O5), of bulk stores (O7), of cp.async (O13). All of
// that is the warp's own doing, so windows are spans of its positions and cost no state.
//
// Invariant: accesses of the segment under way stand behind seg_first; their bytes are collected
// in `pending` and become a set when the segment ends.
#include "exec.h"

#include <stdlib.h>
#include <string.h>

static Agent *me(Exec *x) { return &x->m->agents.at[x->agent]; }
static i32 position(Exec *x) { return me(x)->events.n; }

static i32 iteration(const Exec *x, const ThreadOp *op)
{
    // A loop with the place of the operation itself is the compiler's own, over pieces of a tile.
    for (int i = x->loops - 1; i >= 0; i--) {
        Loc l = x->loop[i].op->loc;
        if (l.line != op->loc.line || l.col != op->loc.col) return x->loop[i].iter;
    }
    return -1;
}

static void refuse(Exec *x, const ThreadOp *op, const char *why)
{
    if (x->m->refused) return;
    x->m->refused = why;
    x->m->refused_at = op;
}

static void fault(Exec *x, const char *rule, const char *text, int first, int second,
                  const ThreadOp *op)
{
    vec_push(x->m->arena, &me(x)->faults, ((SelfFault){rule, text, position(x), first, second, op}));
}

// ---- accesses -----------------------------------------------------------------------------------

static bool coordinate(void *ctx, const char *name, i64 *value)
{
    Exec *x = ctx;
    if (strcmp(name, "tid") == 0) return *value = x->warp * LANES, true;
    if (name[0] == '$') {
        for (int i = 0; i < x->m->fn->unrolls.n; i++)
            if (strcmp(x->m->fn->unrolls.at[i], name + 1) == 0)
                return *value = x->unroll[i], true;
        return false;
    }
    if (name[0] != '%') return false;
    const char *key = intern(expr_pool_names(x->m->module->exprs), name + 1);
    int reg = (int)(uintptr_t)map_get(x->m->names, key) - 1;
    if (reg < 0) return false;
    Operand o = opd_reg(reg, 0);
    u64 v;
    if (!term_value(x->m->terms, exec_operand(x, &o, 0, 0), &v)) return false;
    return *value = (i32)(u32)v, true;
}

static i32 slot_of(Exec *x, const ThreadOp *op, int mem)
{
    i64 v;
    if (mem >= op->nmem) return -1;
    const ThreadBuffer *b = &x->m->fn->buffers.at[op->mem[mem].buffer];
    if (!op->mem[mem].ncoord || (b->kind == BUF_SHARED && b->rank < 3)) return -1;
    return expr_eval(op->mem[mem].coord[0], coordinate, x, &v) ? -1 : (i32)v;
}

static void add_span(Exec *x, int access, i64 from, i64 bytes)
{
    i64 at = x->cta * x->m->arena_bytes + from;
    vec_push(x->m->arena, &x->pending, ((Pending){access, {(i32)at, (i32)(at + bytes)}}));
}

static int by_access(const void *a, const void *b)
{
    const Pending *p = a, *q = b;
    if (p->access != q->access) return p->access < q->access ? -1 : 1;
    return p->s.from < q->s.from ? -1 : p->s.from > q->s.from;
}

// Gives the accesses of the segment their sets of bytes. An older open access of the same warp to
// the same bytes is then told by the newer one.
void exec_flush(Exec *x)
{
    Agent *a = me(x);
    int n = x->pending.n;
    if (!n) {
        x->seg_first = a->access.n;
        return;
    }
    Pending *p = x->pending.at;
    qsort(p, (size_t)n, sizeof *p, by_access);
    for (int i = 0; i < n;) {
        int k = i, access = p[i].access;
        Span *s = ARENA_ARRAY(x->m->arena, Span, 1);
        while (k < n && p[k].access == access) k++;
        if (k - i > 1) s = ARENA_ARRAY(x->m->arena, Span, k - i);
        for (int j = i; j < k; j++) s[j - i] = p[j].s;
        a->access.at[access].set = bytes_set(x->m->bytes, s, k - i);
        i = k;
    }
    for (int i = x->seg_first; i < a->access.n; i++) {
        Access *now = &a->access.at[i];
        if (now->kind > ACCESS_ATOMIC || now->lanes != ALL_LANES) continue;
        for (int k = 0; k < x->seg_first; k++) {
            Access *old = &a->access.at[k];
            if (old->until == NEVER && old->set == now->set &&
                (old->kind == now->kind || (now->kind == ACCESS_WRITE && old->kind == ACCESS_READ)))
                old->until = now->at;
        }
    }
    x->pending.n = 0;
    x->seg_first = a->access.n;
}

// The record of the operation in this segment. An asynchronous access, or one that meets what the
// warp itself has in flight, is noted for the check of the warp alone.
static int record(Exec *x, const ThreadOp *op, int mem, AccessKind kind, u32 lanes, i32 group)
{
    Agent *a = me(x);
    i32 iter = iteration(x, op), slot = slot_of(x, op, mem);
    for (int i = a->access.n - 1; i >= x->seg_first; i--) {
        Access *r = &a->access.at[i];
        if (r->op != op || r->kind != kind || r->mem != mem || r->group != group ||
            r->until != NEVER || r->fenced || r->slot != slot)
            continue;
        r->lanes |= lanes;
        r->who |= lanes;
        return i;
    }
    vec_push(x->m->arena, &a->access,
             ((Access){.kind = (u8)kind, .agent = x->agent, .at = position(x), .until = NEVER,
                       .held = NEVER, .lanes = lanes, .who = lanes, .set = -1, .group = group, .iter = iter, .slot = slot,
                       .op = op, .mem = mem}));
    return a->access.n - 1;
}

// The warp's own open accesses against the one that it has just made. Sets must be there.
static void check_self(Exec *x, int access)
{
    Agent *a = me(x);
    for (int i = 0; i < a->access.n; i++) {
        const Access *y = &a->access.at[i], *now = &a->access.at[access];
        if (i == access || y->until != NEVER || y->fenced || y->set < 0 || y->op == now->op) continue;
        if (y->kind == ACCESS_INIT || now->set < 0) continue;
        const char *rule = model_conflict(now, y, false);
        if (rule && bytes_meet(x->m->bytes, y->set, now->set))
            fault(x, rule, "the same warp has not waited or fenced", access, i, now->op);
    }
}

static int bytes_of(const ThreadOp *op)
{
    switch (op->type) {
    case TT_B8: return 1;
    case TT_B16: return 2;
    case TT_B64: return 8;
    default: return 4;
    }
}

// A place that depends on the block's number is looked at in the first block (or cluster).
static bool address(Exec *x, const Operand *o, int lane, i64 *at)
{
    u64 base, off;
    Terms *t = x->m->terms;
    Term b = exec_operand(x, &o[0], lane, 0), leaf[4];
    if (!term_value(t, exec_operand(x, &o[1], lane, 0), &off)) return false;
    if (!term_value(t, b, &base)) {
        for (int n = term_leaves(t, b, leaf, COUNT(leaf)); n > 0; n--)
            if (term_leaf_kind(t, leaf[n - 1]) == LEAF_SREG) term_bind(t, leaf[n - 1], 0);
        if (!term_value(t, b, &base)) return false;
    }
    *at = (i64)(i32)(u32)(base + off);
    return *at >= 0 && *at <= x->m->fn->smem_bytes;
}

static void unknown_address(Exec *x, const ThreadOp *op)
{
    if (!x->m->n_unknown_address++) x->m->unknown_address = op;
}

// Lanes of one warp are threads of their own: what one writes and another one reads or writes needs
// bar.warp between. Remembered per 4 bytes, since the lanes have last met.
static void lane_race(Exec *x, const ThreadOp *op, int lane, i64 at, i64 bytes, bool write)
{
    u32 other = ~(1u << lane);
    bool wrong = false;
    for (i64 g = at / 4; g <= (at + bytes - 1) / 4 && g < x->granules; g++) {
        LaneUse *u = &x->lane_use[g];
        if (u->meeting != x->meeting) *u = (LaneUse){.meeting = x->meeting};
        // Two bytes each of one word are no conflict.
        bool whole = bytes >= 4 && u->whole;
        wrong |= whole && ((u->wrote & other) || (write && (u->read & other)));
        u->whole = bytes >= 4 && (u->whole || !(u->wrote | u->read));
        if (write) u->wrote |= 1u << lane;
        else u->read |= 1u << lane;
    }
    if (wrong && x->lane_fault != op) {
        fault(x, "O2", "two lanes of the warp touch the bytes and no bar.warp orders them", -1, -1, op);
        x->lane_fault = op;
    }
}

// Ordinary accesses, lane by lane; equal addresses once.
static int touch(Exec *x, const ThreadOp *op, const Operand *o, AccessKind kind, u32 mask, i64 bytes,
                 int lanes)
{
    int r = -1;
    i64 at, last = -1;
    for (int i = 0; i < lanes; i++) {
        if (!(mask >> i & 1)) continue;
        if (!address(x, o, i, &at)) {
            unknown_address(x, op);
            continue;
        }
        if (r < 0) r = record(x, op, 0, kind, mask, kind == ACCESS_CP ? x->copies + 1 : 0);
        if (at != last) add_span(x, r, at, bytes);
        if ((op->op == OP_LDS || op->op == OP_STS) && at != last)
            lane_race(x, op, i, at, bytes, kind == ACCESS_WRITE);
        last = at;
    }
    return r;
}

// ---- values that are still on their way (O6) ----------------------------------------------------

static void bound(Exec *x, int token)
{
    Access *r = &me(x)->access.at[x->token[token].access];
    x->tokens &= ~((u64)1 << token);
    if (--r->unbound == 0 && r->until == NEVER) r->until = position(x);
}

void exec_pin(Exec *x, u64 tokens)
{
    for (tokens &= x->tokens; tokens; tokens &= tokens - 1) bound(x, __builtin_ctzll(tokens));
}

// More than 64 loads alive: the oldest place is taken over, its load counts as bound.
u64 exec_token(Exec *x, int access)
{
    int t = x->tokens == ~(u64)0 ? access % TOKENS : __builtin_ctzll(~x->tokens);
    if (x->tokens >> t & 1) bound(x, t);
    x->tokens |= (u64)1 << t;
    x->token[t].access = access;
    me(x)->access.at[access].unbound++;
    return (u64)1 << t;
}

static void loaded(Exec *x, const ThreadOp *op, u32 mask, u64 taint)
{
    const Operand *o = &op->opnd[0];
    for (int k = 0; k < o->count; k++) {
        int e = x->base[o->reg];
        i64 index = o->base + k;
        for (int i = 0; i < o->nterms; i++) index += o->term[i].coef * x->unroll[o->term[i].var];
        if (index < 0 || index >= x->m->fn->regs.at[o->reg].count) continue;
        e += (int)index;
        x->uniform[e] = 1;
        x->term[e * LANES] = TERM_UNKNOWN;
        x->taint[e] = mask == ALL_LANES ? taint : x->taint[e] | taint;
    }
}

// Steering data (tasks, flags) has one address for the whole warp. A narrow load fills its register
// with zeros, whatever number the leaf gets.
static void load_global(Exec *x, const ThreadOp *op, u32 mask)
{
    Terms *t = x->m->terms;
    int first = __builtin_ctz(mask);
    Term base = exec_operand(x, &op->opnd[1], first, 0);
    u64 off = 0;
    exec_pin(x, exec_taint(x, &op->opnd[1]));
    loaded(x, op, mask, 0);
    bool narrow = op->type == TT_B8 || op->type == TT_B16;
    if (op->type != TT_B32 && op->type != TT_B64 && !narrow) return;
    if (!base || !term_value(t, exec_operand(x, &op->opnd[2], first, 0), &off)) return;
    for (int i = first; i < LANES; i++)
        if ((mask >> i & 1) && exec_operand(x, &op->opnd[1], i, 0) != base) return;
    const Operand *o = &op->opnd[0];
    u64 at;
    if (term_value(t, base, &at)) base = term_const(t, at + off), off = 0;
    for (int k = 0; k < o->count; k++) {
        Term place = term_tuple(t, base, term_const(t, off + (u64)(k * bytes_of(op))));
        i64 index = o->base + k;
        for (int i = 0; i < o->nterms; i++) index += o->term[i].coef * x->unroll[o->term[i].var];
        if (index < 0 || index >= x->m->fn->regs.at[o->reg].count) continue;
        Term leaf = term_leaf(t, LEAF_LOAD, place);
        const ThreadOp cut = {.op = OP_CVT, .type = TT_U16, .type2 = op->type};
        x->term[(x->base[o->reg] + (int)index) * LANES] =
            narrow ? term_op(t, &cut, 0, leaf, 0, 0) : leaf;
    }
}

// ---- windows ------------------------------------------------------------------------------------

static void close_groups(Exec *x, AccessKind kind, i32 done)
{
    Agent *a = me(x);
    for (int i = 0; i < a->access.n; i++)
        if (a->access.at[i].kind == kind && a->access.at[i].until == NEVER &&
            a->access.at[i].group <= done)
            a->access.at[i].until = position(x);
}

// What cp.async wrote is from now on an ordinary write of the warp.
static void copies_done(Exec *x, i32 done)
{
    exec_flush(x);
    Agent *a = me(x);
    for (int i = 0, n = a->access.n; i < n; i++) {
        Access r = a->access.at[i];
        if (r.kind != ACCESS_CP || r.until != NEVER || r.group > done) continue;
        a->access.at[i].until = position(x);
        r.kind = ACCESS_WRITE;
        r.at = position(x);
        r.held = NEVER;
        r.group = 0;
        vec_push(x->m->arena, &a->access, r);
    }
    x->seg_first = a->access.n;
}

// A fence is its lane's own: whoever is let go by another lane does not know of it before the lanes
// have met. Within the warp it counts at once.
static void fence(Exec *x, u32 mask, bool data)
{
    Agent *a = me(x);
    for (int i = 0; i < a->access.n; i++) {
        Access *r = &a->access.at[i];
        if (r->until != NEVER || r->fenced) continue;
        if (r->kind > ACCESS_ATOMIC && r->kind != ACCESS_INIT) continue;
        if (!data && r->kind != ACCESS_INIT) continue;
        r->lanes &= ~mask;
        if (r->lanes) continue;
        r->fenced = true;
        vec_push(x->m->arena, &x->fenced, i);
    }
}

// ---- events -------------------------------------------------------------------------------------

// The lanes of `mask` come to an event that publishes, or meet at bar.warp in front of the next one:
// what they alone have made is published with it. Products belong to the warp. (A warp that has
// published with all lanes counts as having met: a later event of one lane publishes it too.)
static void hold(Exec *x, u32 mask)
{
    Agent *a = me(x);
    if (mask == ALL_LANES) x->meeting++;
    while (x->unheld < a->access.n && a->access.at[x->unheld].held != NEVER) x->unheld++;
    for (int i = x->unheld; i < a->access.n; i++) {
        Access *r = &a->access.at[i];
        if (r->held == NEVER && (r->kind == ACCESS_WGMMA || !(r->who & ~mask))) r->held = position(x);
    }
    int kept = 0;
    for (int i = 0; i < x->fenced.n; i++) {
        Access *r = &a->access.at[x->fenced.at[i]];
        if (r->who & ~mask) x->fenced.at[kept++] = x->fenced.at[i];
        else if (r->until == NEVER) r->until = position(x);
    }
    x->fenced.n = kept;
}

static void event(Exec *x, Event e, u32 mask)
{
    exec_flush(x);
    if (e.kind != EV_WAIT && e.kind != EV_EXPECT) hold(x, mask);
    e.iter = iteration(x, e.op);
    if (me(x)->events.n >= MODEL_MAX_EVENTS) refuse(x, e.op, "a warp has more than 20000 events");
    else vec_push(x->m->arena, &me(x)->events, e);
}

// The barrier at the address, or -1 after a note.
static int barrier(Exec *x, const ThreadOp *op, const Operand *o, int lane, int cta)
{
    i64 at;
    if (!address(x, o, lane, &at) || at % 8 || at >= x->m->fn->smem_bytes ||
        x->m->bar_at[at / 8] < 0) {
        refuse(x, op, "an mbarrier whose slot depends on data");
        return -1;
    }
    return x->m->bar_at[at / 8] + cta * x->m->bars_each;
}

static void use_barrier(Exec *x, const ThreadOp *op, int mem, int bar, AccessKind kind, u32 lanes)
{
    const Barrier *b = &x->m->bars.at[bar];
    i64 offset = x->m->fn->buffers.at[b->buffer].offset + b->slot * 8;
    int r = record(x, op, mem, kind, lanes, bar);
    add_span(x, r, offset + (b->cta - x->cta) * x->m->arena_bytes, 8);
    if (kind == ACCESS_USE) me(x)->access.at[r].until = position(x);
}

static void mbarrier(Exec *x, const ThreadOp *op, u32 mask)
{
    static const u8 kinds[] = {[OP_MBAR_INIT] = EV_INIT, [OP_MBAR_ARRIVE] = EV_ARRIVE,
                               [OP_MBAR_ARRIVE_CLUSTER] = EV_ARRIVE, [OP_CPASYNC_ARRIVE] = EV_ARRIVE,
                               [OP_MBAR_ARRIVE_EXPECT] = EV_ARRIVE, [OP_MBAR_EXPECT] = EV_EXPECT,
                               [OP_MBAR_WAIT] = EV_WAIT};
    bool remote = op->op == OP_MBAR_ARRIVE_CLUSTER;
    for (int i = 0; i < op->nopnd; i++) exec_pin(x, exec_taint(x, &op->opnd[i]));
    while (mask && !x->m->refused) {
        int lane = __builtin_ctz(mask), bar, cta = x->cta;
        u64 arg = 0, v = 0;
        u32 same = 0;
        bool has = op->nopnd > 2;
        if (has && !exec_number(x, &op->opnd[2], 1u << lane, &arg)) {
            refuse(x, op, "a parity, count or block that depends on data");
            return;
        }
        if (remote) cta = (int)arg;
        if (cta < 0 || cta >= x->m->ctas) {
            refuse(x, op, "an arrival at a block that the cluster does not have");
            return;
        }
        if ((bar = barrier(x, op, &op->opnd[0], lane, cta)) < 0) return;
        for (int i = lane; i < LANES; i++)
            if ((mask >> i & 1) && (!has || (exec_number(x, &op->opnd[2], 1u << i, &v) && v == arg)) &&
                barrier(x, op, &op->opnd[0], i, cta) == bar)
                same |= 1u << i;
        mask &= ~same;
        use_barrier(x, op, 0, bar, op->op == OP_MBAR_INIT ? ACCESS_INIT : ACCESS_USE, same);
        event(x, (Event){.kind = kinds[op->op], .remote = cta != x->cta, .bar = bar,
                         .count = __builtin_popcount(same), .arg = remote ? 0 : (i64)arg, .op = op}, same);
    }
}

static i64 box_bytes(const Model *m, const ThreadOp *op, int param)
{
    const PlanArg *a = m->step && param < m->step->args.n ? &m->step->args.at[param] : NULL;
    if (!a || a->kind != ARG_TMAP || a->index >= m->step->tmaps.n || !op->nmem) return -1;
    const PlanTensorMap *t = &m->step->tmaps.at[a->index];
    i64 n = dtype_bytes[m->fn->buffers.at[op->mem[0].buffer].type];
    for (int i = 0; i < t->rank && n < 1 << 24; i++) n *= t->box[i];
    return n;
}

static void tma_load(Exec *x, const ThreadOp *op, u32 mask)
{
    Model *m = x->m;
    i64 bytes = box_bytes(m, op, op->opnd[2].reg), at;
    bool all = op->flags & OPF_MULTICAST;
    for (; mask && !m->refused; mask &= mask - 1) {
        int lane = __builtin_ctz(mask), first = m->loads.n;
        if (bytes < 0 || !address(x, op->opnd, lane, &at)) {
            refuse(x, op, "a bulk load to a place that depends on data");
            return;
        }
        for (int i = 0; i < op->nopnd; i++) exec_pin(x, exec_taint(x, &op->opnd[i]));
        for (int c = all ? 0 : x->cta; c <= (all ? m->ctas - 1 : x->cta); c++) {
            int bar = barrier(x, op, &op->opnd[op->nopnd - 2], lane, c);
            if (bar < 0) return;
            use_barrier(x, op, op->nmem - 1, bar, ACCESS_USE, 1u << lane);
            int r = record(x, op, 0, ACCESS_LOAD, 1u << lane, m->loads.n);
            add_span(x, r, at + (c - x->cta) * m->arena_bytes, bytes);
            me(x)->access.at[r].until = position(x);
            Load l = {.agent = x->agent, .bar = bar, .event = position(x), .bytes = (i32)bytes,
                      .iter = iteration(x, op), .slot = slot_of(x, op, 0), .op = op, .set = -1};
            int from = r;
            vec_push(m->arena, &m->loads, l);
            exec_flush(x);
            m->loads.at[m->loads.n - 1].set = me(x)->access.at[from].set;
            check_self(x, from);
        }
        event(x, (Event){.kind = EV_LOAD, .bar = -1, .load = first, .count = m->loads.n - first,
                         .arg = bytes, .op = op}, 1u << lane);
    }
}

static void tma_store(Exec *x, const ThreadOp *op, u32 mask)
{
    i64 bytes = box_bytes(x->m, op, op->opnd[0].reg), at;
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        if (bytes < 0 || !address(x, &op->opnd[op->nopnd - 2], lane, &at)) {
            unknown_address(x, op);
            continue;
        }
        int r = record(x, op, 0, ACCESS_STORE, 1u << lane, x->stores + 1);
        add_span(x, r, at, bytes);
        exec_flush(x);
        check_self(x, r);
    }
}

// The bytes of `rows` x `cols` elements at the coordinates, 16 at a time.
static int operand_bytes(Exec *x, int buffer, const i64 *origin, i64 rows, i64 cols)
{
    const ThreadBuffer *b = &x->m->fn->buffers.at[buffer];
    i64 at[6], key[10] = {buffer, rows, cols, x->cta};
    memcpy(at, origin, sizeof at);
    for (int i = 0; i < b->rank; i++) key[4 + i] = at[i];
    u64 hash = hash_bytes(key, sizeof key, 5) | (u64)1 << 63;
    int set = bytes_recall(x->m->bytes, hash), n = 0;
    if (set >= 0) return set;
    i64 chunk = MAX(16 / dtype_bytes[b->type], 1), base = x->cta * x->m->arena_bytes + b->offset;
    Span *s = ARENA_ARRAY(x->m->arena, Span, rows * ((cols + chunk - 1) / chunk));
    for (i64 i = 0; i < rows; i++)
        for (i64 k = 0; k < cols; k += chunk) {
            at[b->rank - 2] = origin[b->rank - 2] + i;
            at[b->rank - 1] = origin[b->rank - 1] + k;
            i64 from = base + thread_buffer_offset(b, at);
            s[n++] = (Span){(i32)from, (i32)from + 16};
        }
    set = bytes_set(x->m->bytes, s, n);
    bytes_remember(x->m->bytes, hash, set);
    return set;
}

// A tile of `rows` x `cols` elements at the operand's origin.
static void product_operand(Exec *x, const ThreadOp *op, int mem, i64 rows, i64 cols)
{
    const MemRef *ref = &op->mem[mem];
    const ThreadBuffer *b = &x->m->fn->buffers.at[ref->buffer];
    i64 at[6] = {0}, extent;
    for (int i = 0; i < ref->ncoord; i++)
        if (expr_eval(ref->coord[i], coordinate, x, &at[i])) {
            unknown_address(x, op);
            return;
        }
    if (b->rank < 2 || ref->ncoord != b->rank) return;
    for (int i = 0; i < b->rank; i++) {
        i64 need = i == b->rank - 1 ? cols : i == b->rank - 2 ? rows : 1;
        if (!expr_is_const(b->dim[i], &extent) || at[i] < 0 || at[i] + need > extent) {
            unknown_address(x, op);
            return;
        }
    }
    int r = record(x, op, mem, ACCESS_WGMMA, ALL_LANES, x->products + 1);
    Access *a = &me(x)->access.at[r];
    a->set = bytes_union(x->m->bytes, a->set, operand_bytes(x, ref->buffer, at, rows, cols));
}

static void product(Exec *x, const ThreadOp *op)
{
    bool both = op->op == OP_WGMMA_SS;
    int first = me(x)->access.n, b = both ? 1 : 0;
    i64 k = 32 / dtype_bytes[x->m->fn->buffers.at[op->mem[b].buffer].type];
    bool turned = op->flags & OPF_TRANS_B;
    if (both && (op->flags & OPF_TRANS_A)) product_operand(x, op, 0, k, 64);
    else if (both) product_operand(x, op, 0, 64, k);
    else x->group_tokens |= exec_taint(x, &op->opnd[1]);
    product_operand(x, op, b, turned ? k : op->n, turned ? op->n : k);
    exec_flush(x);
    for (int i = first; i < me(x)->access.n; i++) check_self(x, i);
    loaded(x, op, ALL_LANES, 0);
}

static void named(Exec *x, const ThreadOp *op, u32 mask)
{
    u64 id, threads;
    for (int i = 0; i < op->nopnd; i++) exec_pin(x, exec_taint(x, &op->opnd[i]));
    if (!exec_number(x, &op->opnd[0], mask, &id) || !exec_number(x, &op->opnd[1], mask, &threads) ||
        id >= NAMED_BARRIERS) {
        refuse(x, op, "a named barrier whose number depends on data");
        return;
    }
    i32 bar = x->cta * NAMED_BARRIERS + (i32)id;
    event(x, (Event){.kind = EV_BAR_ARRIVE, .bar = bar, .arg = (i64)threads, .op = op}, ALL_LANES);
    if (op->op == OP_BAR_SYNC)
        event(x, (Event){.kind = EV_BAR_PASS, .bar = bar, .arg = (i64)threads, .op = op}, ALL_LANES);
}

static void registers(Exec *x, const ThreadOp *op)
{
    bool more = op->op == OP_SETMAXNREG_INC;
    if (!x->m->fn->maxnreg)
        fault(x, "O12", "the count at entry is not known (no maxnreg)", -1, -1, op);
    else if (more ? op->n < x->registers : op->n > x->registers)
        fault(x, "O12", more ? "an increase to fewer registers than the warp has"
                             : "a decrease to more registers than the warp has", -1, -1, op);
    else
        event(x, (Event){.kind = EV_REGS, .bar = -1, .arg = op->n, .count = x->registers, .op = op},
              ALL_LANES);
    x->registers = op->n;
}

// Ordinary loads and stores of shared memory. A store pins what it stores.
static void shared(Exec *x, const ThreadOp *op, u32 mask)
{
    bool load = op->op == OP_LDS || op->op == OP_LDMATRIX;
    bool matrix = op->op == OP_LDMATRIX || op->op == OP_STMATRIX;
    bool atomic = op->op == OP_ATOMS || op->op == OP_CASS;
    const Operand *at = &op->opnd[load || atomic ? 1 : 0];
    for (int i = load || atomic ? 1 : 0; i < op->nopnd; i++)
        exec_pin(x, exec_taint(x, &op->opnd[i]));
    AccessKind kind = load ? ACCESS_READ : atomic ? ACCESS_ATOMIC : ACCESS_WRITE;
    i64 bytes = matrix ? 16 : bytes_of(op) * (i64)(atomic ? 1 : MAX((int)op->n, 1));
    int r = touch(x, op, at, kind, mask, bytes, matrix ? 8 * MAX((int)op->n, 1) : LANES);
    u64 token = load && r >= 0 ? exec_token(x, r) : 0;
    if (load || atomic) loaded(x, op, mask, token);
    // Products and stores of this warp that still read or write the bytes.
    for (int i = 0; r >= 0 && i < me(x)->access.n; i++) {
        u8 k = me(x)->access.at[i].kind;
        if (me(x)->access.at[i].until != NEVER || k < (load ? ACCESS_CP : ACCESS_WGMMA) || k > ACCESS_CP)
            continue;
        exec_flush(x);
        check_self(x, r);
        break;
    }
}

void exec_effect(Exec *x, const ThreadOp *op, u32 mask)
{
    switch (op->op) {
    case OP_LDS: case OP_STS: case OP_LDMATRIX: case OP_STMATRIX: case OP_ATOMS: case OP_CASS:
        shared(x, op, mask);
        break;
    case OP_LDG: load_global(x, op, mask); break;
    case OP_CLOCK: loaded(x, op, mask, 0); break;
    case OP_STG:
    case OP_ATOMG:
    case OP_CASG:
        for (int i = 0; i < op->nopnd; i++) exec_pin(x, exec_taint(x, &op->opnd[i]));
        if (op->op != OP_STG) loaded(x, op, mask, 0);
        break;
    case OP_CPASYNC: touch(x, op, op->opnd, ACCESS_CP, mask, op->n, LANES); break;
    case OP_CPASYNC_COMMIT: x->copies++; break;
    case OP_CPASYNC_WAIT: copies_done(x, x->copies - op->n); break;
    case OP_CPASYNC_ARRIVE:
        copies_done(x, NEVER);
        mbarrier(x, op, mask);
        break;
    case OP_TMA_LOAD: tma_load(x, op, mask); break;
    case OP_TMA_STORE: tma_store(x, op, mask); break;
    case OP_BULK_COMMIT: x->stores++; break;
    case OP_BULK_WAIT:
    case OP_BULK_WAIT_READ: close_groups(x, ACCESS_STORE, x->stores - op->n); break;
    case OP_MBAR_INIT: case OP_MBAR_ARRIVE: case OP_MBAR_ARRIVE_EXPECT: case OP_MBAR_EXPECT:
    case OP_MBAR_WAIT: case OP_MBAR_ARRIVE_CLUSTER:
        mbarrier(x, op, mask);
        break;
    case OP_FENCE_PROXY: fence(x, mask, true); break;
    case OP_FENCE_MBAR_INIT: fence(x, mask, false); break;
    case OP_BAR_SYNC:
    case OP_BAR_ARRIVE: named(x, op, mask); break;
    case OP_BAR_CLUSTER:
        event(x, (Event){.kind = EV_CLUSTER_ARRIVE, .bar = -1, .op = op}, ALL_LANES);
        event(x, (Event){.kind = EV_CLUSTER_PASS, .bar = -1, .op = op}, ALL_LANES);
        break;
    case OP_BAR_WARP: hold(x, ALL_LANES); break;
    case OP_PIN: exec_pin(x, exec_taint(x, &op->opnd[0])); break;
    case OP_WGMMA_SS:
    case OP_WGMMA_RS: product(x, op); break;
    case OP_WGMMA_COMMIT: x->products++; break;
    case OP_WGMMA_WAIT:
        close_groups(x, ACCESS_WGMMA, x->products - op->n);
        if (!op->n) exec_pin(x, x->group_tokens), x->group_tokens = 0;
        break;
    case OP_SETMAXNREG_INC:
    case OP_SETMAXNREG_DEC: registers(x, op); break;
    default: break; // orders nothing in this model: membar, wgmma.fence
    }
}

void exec_end(Exec *x)
{
    Agent *a = me(x);
    exec_flush(x);
    for (int i = 0; i < a->access.n; i++) {
        if (a->access.at[i].kind == ACCESS_STORE && a->access.at[i].until == NEVER)
            fault(x, "O7", "the thread ends before the store has read its source (no bulk.wait)", i,
                  -1, a->access.at[i].op);
    }
}
