// event.c - events, roles and asynchronous products.
//
// An event becomes a ring of mbarriers. Generation g of a slot is the phase g of its barrier, so a
// wait for order n asks for parity (n / slots) & 1, turned over for an event that starts ready.
// Arrivals are counted from the program, never written by hand: one by the bytes of the copies
// bound to the event, or one per warp that triggers it (a lane, after the warp has converged), or
// one per thread where a role is no whole number of warps.
//
// A scalar event that starts ready, and that whole warps trigger and other whole warps wait for,
// becomes a named barrier: a wait is bar.sync, a trigger bar.arrive, and the triggering threads
// arrive once at the start for the generation that is ready.
#include "impl.h"

enum { NAMED_BARRIERS = 15 }; // ids 1..15; roles take them from below, events from above

// ---- what the program does with events ---------------------------------------------------------

// Adds threads to a set, once. Overlap in part is refused: it would make the number of arrivals
// depend on the place in the program.
static void add_range(Lower *l, ThreadRanges *set, ThreadRange who, const TileOp *op)
{
    for (int i = 0; i < set->n; i++) {
        const ThreadRange *r = &set->at[i];
        if (r->lo == who.lo && r->hi == who.hi) return;
        if (r->lo < who.hi && who.lo < r->hi) {
            lower_error(l, op->loc, "trigger it in roles that are equal or apart",
                        "not supported yet: event %s in roles that overlap in part",
                        l->k->events.at[op->event].name);
            return;
        }
    }
    vec_push(l->m->arena, set, who);
}

// A trigger of a ring: all threads of the role for every slot, unless each warpgroup of it meets one
// slot only, always the same.
static void add_trigger(Lower *l, EventState *e, const TileOp *op)
{
    int slots = l->k->events.at[op->event].slots, first = l->role.lo / 128, end = l->role.hi / 128;
    if (!op->order || slots < 2 || slots > 64) {
        add_range(l, &e->triggers, l->role, op);
        return;
    }
    vec_push(l->m->arena, &e->triggers, l->role);
    if (!e->by_slot) e->by_slot = ARENA_ARRAY(l->m->arena, ThreadRanges, slots);
    bool turns = l->role.lo % 128 == 0 && l->role.hi % 128 == 0 && end > first;
    u64 met[8] = {0}; // a block has at most 1024 threads
    for (int g = first; turns && g < end; g++) {
        met[g] = slots_of_group(l, op->order, slots, g);
        turns = met[g] && !(met[g] & (met[g] - 1));
    }
    for (int s = 0; s < slots; s++) {
        if (!turns) add_range(l, &e->by_slot[s], l->role, op);
        for (int g = first; turns && g < end; g++)
            if (met[g] >> s & 1)
                add_range(l, &e->by_slot[s], (ThreadRange){g * 128, g * 128 + 128}, op);
    }
}

// Who waits for, triggers and loads for each event: the arrival counts are made of this before any
// code is.
static void find_uses(Lower *l, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        ThreadRange outer = l->role;
        if (op->op == TOP_ROLE) l->role = (ThreadRange){(int)op->lo->value, (int)op->hi->value};
        if (op->op == TOP_MMA && op->future >= 0) l->future_mma[op->future] = true;
        if (op->op == TOP_SETREG) l->moves_registers = true;
        if (op->event >= 0) {
            EventState *e = &l->events[op->event];
            bool peers = op->cluster && l->tf->cluster > 1;
            if (op->op == TOP_EVENT_WAIT) add_range(l, &e->waits, l->role, op);
            if (op->op == TOP_TRIGGER && e->triggers.n && e->cluster != peers)
                lower_error(l, op->loc, "use one of them everywhere",
                            "event %s is triggered here and in the whole cluster",
                            l->k->events.at[op->event].name);
            if (op->op == TOP_TRIGGER) e->cluster = peers;
            if (op->op == TOP_TRIGGER) add_trigger(l, e, op);
            if (op->op == TOP_COPY) {
                add_range(l, &e->copies, l->role, op);
                e->fills = tile_memory(l->k, op->dst.buffer);
                const TileEvent *event = &l->k->events.at[op->event];
                l->event_buf[e->fills] |= !event->turns && !event->gives;
            }
        }
        find_uses(l, &op->body);
        find_uses(l, &op->other);
        l->role = outer;
    }
}

// A named barrier counts threads in whole warps: a role that splits one cannot use it.
static bool whole_warps(const ThreadRanges *set)
{
    for (int i = 0; i < set->n; i++)
        if (set->at[i].lo % 32 || set->at[i].hi % 32) return false;
    return set->n > 0;
}

static bool apart(const ThreadRanges *a, const ThreadRanges *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->at[i].lo < b->at[k].hi && b->at[k].lo < a->at[i].hi) return false;
    return true;
}

static int threads_of(const ThreadRanges *set)
{
    int n = 0;
    for (int i = 0; i < set->n; i++) n += set->at[i].hi - set->at[i].lo;
    return n;
}

// mbarrier arrivals of one generation: one per warp, or per thread where a role splits a warp.
static int arrivals_of(const ThreadRanges *set)
{
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        int threads = set->at[i].hi - set->at[i].lo;
        n += set->at[i].lo % 32 || threads % 32 ? threads : threads / 32;
    }
    return n;
}

// Arrivals of one generation of a ring: the same for each slot that is triggered at all.
static int slot_arrivals(Lower *l, const TileEvent *t, const EventState *e, int *threads)
{
    int n = 0;
    for (int s = 0; s < t->slots; s++) {
        int here = arrivals_of(&e->by_slot[s]);
        if (here && n && here != n) {
            lower_error(l, t->loc, "let each slot be triggered by the same number of warps",
                        "not supported yet: %d warps trigger one slot of event %s and %d slot %d", n,
                        t->name, here, s);
            return n;
        }
        if (here) n = here, *threads = threads_of(&e->by_slot[s]);
    }
    return n;
}

// Chooses the machine barrier of an event: a named barrier where that is possible (bar.sync costs
// 30 to 50 cycles and no polling), else a ring of mbarriers. A named barrier holds one generation
// at a time: whoever would arrive twice before the others have synced would corrupt it, so it is
// used only for scalar events, where wait and trigger alternate.
static void make_event(Lower *l, int index)
{
    const TileEvent *t = &l->k->events.at[index];
    EventState *e = &l->events[index];
    e->buffer = e->phase = -1;
    if (!e->waits.n && !e->triggers.n && !e->copies.n) return;
    if (e->copies.n && e->triggers.n) {
        lower_error(l, t->loc, "use one event for the loads and one for the threads",
                    "not supported yet: event %s is completed by loads and by threads", t->name);
        return;
    }
    if (e->waits.n && !e->copies.n && !e->triggers.n) {
        lower_error(l, t->loc, "trigger it, or leave out the wait",
                    "event %s is waited for, and nothing triggers it", t->name);
        return;
    }
    // Without the TMA unit the threads of the role bring the bytes, and arrive.
    e->count = e->copies.n;
    if (!e->copies.n || l->plain) e->count = arrivals_of(e->copies.n ? &e->copies : &e->triggers);
    int written = e->copies.n ? e->copies.n : threads_of(&e->triggers);
    if (!e->copies.n && e->by_slot) e->count = slot_arrivals(l, t, e, &written);
    if (e->cluster) e->count *= l->tf->cluster, written *= l->tf->cluster; // from all blocks
    if (t->count && t->count != written) {
        lower_error(l, t->loc, "leave out <N>: the count is computed",
                    "event %s declares %d arrivals; its triggers make %d", t->name, t->count,
                    written);
        return;
    }
    e->named = t->scalar && t->ready && !t->count && !e->copies.n && !e->cluster &&
               whole_warps(&e->triggers) && whole_warps(&e->waits) &&
               apart(&e->triggers, &e->waits) && l->named_high - 1 > l->named_low;
    if (e->named) {
        e->id = l->named_high--;
        e->threads = threads_of(&e->triggers) + threads_of(&e->waits);
        return;
    }
    ThreadBuffer b = {.name = t->name, .kind = BUF_MBAR, .rank = 1, .loc = t->loc};
    b.dim[0] = lower_const(l, t->slots);
    e->buffer = thread_add_buffer(&l->b, b);
    vec_push(l->m->arena, &l->mbars, ((MbarInit){e->buffer, t->slots, e->count}));
    if (!t->scalar && !t->turns) return;
    PrologueMark mark = lower_enter_prologue(l);
    e->phase = lower_new_reg(l, intern_printf(l->m->names, "%s_phase", t->name), RC_B32, 1);
    // A wait for parity 1 passes on a fresh barrier: that is the generation which is ready at the
    // start.
    EMIT(&l->b, OP_MOV, TT_B32, opd_reg(e->phase, 0), opd_imm(t->ready));
    if (t->turns) map_put(l->mutables, lower_reg_expr(l, e->phase)->name, l);
    lower_leave_prologue(l, mark);
}

void event_init(Lower *l)
{
    l->role = (ThreadRange){0, l->tf->threads};
    l->named_high = NAMED_BARRIERS;
    device_init(l);
    l->residues = map_new(l->m->arena), l->scalar_index = map_new(l->m->arena);
    for (int i = 0; i < l->k->scalars.n; i++)
        map_put(l->scalar_index, l->k->scalars.at[i].name, (void *)(intptr_t)(i + 1));
    find_uses(l, &l->k->body);
    for (int i = 0; i < l->k->events.n && !l->failed; i++) make_event(l, i);
}

// Neighbouring roles of the thread IR are disjoint: one that runs after another on the same warps
// gets an operation of all warps in front. [first, first + n): its warps.
static void role_apart(Lower *l, int first, int n)
{
    const ThreadBlock *at = l->b.at;
    for (int i = at->n - 1; i >= 0 && at->at[i]->op == OP_ROLE; i--) {
        const ThreadOp *other = at->at[i];
        if (first >= other->imm + other->n || other->imm >= first + n) continue;
        thread_emit0(&l->b, OP_BAR_WARP, 0);
        return;
    }
}

// The generation of a named barrier that is ready at the start: its triggering threads arrive once.
void event_prime(Lower *l)
{
    for (int i = 0; i < l->k->events.n; i++) {
        const EventState *e = &l->events[i];
        for (int k = 0; e->named && k < e->triggers.n; k++) {
            ThreadBlock *saved;
            const ThreadRange *r = &e->triggers.at[k];
            thread_open_role(&l->b, r->lo / 32, (r->hi - r->lo) / 32, &saved);
            EMIT(&l->b, OP_BAR_ARRIVE, TT_NONE, opd_imm(e->id), opd_imm(e->threads));
            thread_close(&l->b, saved);
            role_apart(l, 0, l->tf->threads / 32);
        }
    }
}

// ---- waits and triggers -------------------------------------------------------------------------

// Barrier of the slot that an order falls on, order % slots; 8 bytes each.
Address event_address(Lower *l, const TileOp *op)
{
    const TileEvent *t = &l->k->events.at[op->event];
    const Expr *slot = lower_const(l, 0), *rest;
    if (op->order)
        slot = expr_bin(l->x, EX_MOD, lower_subst(l, op->order), lower_const(l, t->slots));
    int buffer = l->events[op->event].buffer, base = lower_shared_base(l, buffer);
    Address a = {.ref = {.buffer = buffer, .ncoord = 1}};
    a.ref.coord[0] = slot;
    a.offset = lower_split(l, expr_mul(l->x, slot, lower_const(l, 8)), &rest);
    a.base = opd_reg(base, 0);
    if (rest) a.base = lower_index(l, expr_add(l->x, lower_reg_expr(l, base), rest));
    return a;
}

// Parity of the generation order / slots. wait(p) passes when the barrier's current phase does not
// have parity p, that is, when the phase before it (of parity p) is complete.
static Operand event_parity(Lower *l, const TileOp *op)
{
    const TileEvent *t = &l->k->events.at[op->event];
    if (t->turns) {
        const Expr *bits = lower_reg_expr(l, l->events[op->event].phase);
        bits = expr_bin(l->x, EX_SHR, bits, lower_subst(l, op->order));
        return lower_index(l, expr_bin(l->x, EX_AND, bits, lower_const(l, 1)));
    }
    const Expr *g = expr_bin(l->x, EX_DIV, lower_subst(l, op->order), lower_const(l, t->slots));
    const Expr *p = expr_bin(l->x, EX_MOD, g, lower_const(l, 2));
    if (t->ready) p = expr_bin(l->x, EX_XOR, p, lower_const(l, 1));
    return lower_index(l, p);
}

// Every thread of the role waits for itself. Without an order the generation is counted by the
// waits: a phase register turns over with each.
void lower_op_EVENT_WAIT(Lower *l, const TileOp *op)
{
    const EventState *e = &l->events[op->event];
    if (e->named) {
        EMIT(&l->b, OP_BAR_SYNC, TT_NONE, opd_imm(e->id), opd_imm(e->threads));
        return;
    }
    Address a = event_address(l, op);
    Operand parity = op->order ? event_parity(l, op) : opd_reg(e->phase, 0);
    ThreadOp *w = EMIT(&l->b, OP_MBAR_WAIT, TT_NONE, a.base, a.offset, parity);
    thread_mem(&l->b, w, a.ref);
    Operand turned = opd_imm(1); // the slot's parity
    if (l->k->events.at[op->event].turns)
        turned = lower_index(l, expr_bin(l->x, EX_SHL, lower_const(l, 1),
                                         lower_subst(l, op->order)));
    else if (op->order)
        return;
    EMIT(&l->b, OP_XOR, TT_B32, opd_reg(e->phase, 0), opd_reg(e->phase, 0), turned);
}

// One arrival for each warp, by lane 0, once all lanes have done what the trigger releases.
static Operand arriving_lane(Lower *l)
{
    if (l->one_lane < 0) {
        PrologueMark m = lower_enter_prologue(l);
        const Expr *lane = expr_bin(l->x, EX_MOD, lower_reg_expr(l, lower_tid(l)),
                                    lower_const(l, 32));
        l->one_lane = lower_compare(l, CMP_EQ, lane, lower_const(l, 0)).reg;
        lower_leave_prologue(l, m);
    }
    return opd_reg(l->one_lane, 0);
}

// Releases what the role did so far. bar.warp.sync makes the other lanes' accesses happen before
// the one lane's arrive. The proxy fence orders generic reads and writes of shared memory before an
// asynchronous overwrite of the same bytes by whoever is let go: without it a slot's next load may
// land before a read has bound. An arrive under a divergent condition would come too few times.
static void arrive(Lower *l, const TileOp *op, bool publishes)
{
    bool warps = l->role.lo % 32 == 0 && l->role.hi % 32 == 0;
    Address a = event_address(l, op);
    Operand outer = l->b.guard;
    if (op->op == TOP_TRIGGER && l->events[op->event].cluster) {
        cluster_arrive(l, a, warps, publishes);
        return;
    }
    if (warps) {
        Operand lane = arriving_lane(l);
        thread_emit0(&l->b, OP_BAR_WARP, 0);
        l->b.guard = lane;
    }
    ThreadOp *x = EMIT(&l->b, OP_MBAR_ARRIVE, TT_NONE, a.base, a.offset);
    thread_mem(&l->b, x, a.ref);
    l->b.guard = outer;
}

void lower_op_TRIGGER(Lower *l, const TileOp *op)
{
    const EventState *e = &l->events[op->event];
    if (l->uniform_depth && !(l->role.lo % 32 || l->role.hi % 32)) {
        lower_error(l, op->loc, "use inthreads (...) to choose the threads that trigger it",
                    "event %s is triggered under a condition that depends on the thread",
                    l->k->events.at[op->event].name);
        return;
    }
    bool publishes = sync_is_loose(l) || l->sync.cp_async;
    if (l->sync.cp_async) { // its own copies have landed
        thread_emit0(&l->b, OP_CPASYNC_COMMIT, 0);
        thread_emit0(&l->b, OP_CPASYNC_WAIT, 0);
        l->sync.cp_async = false;
    }
    // Ordinary accesses of this thread before the release, against the async proxy's after it.
    handoff_protect(l, op);
    if (e->named) {
        EMIT(&l->b, OP_BAR_ARRIVE, TT_NONE, opd_imm(e->id), opd_imm(e->threads));
        return;
    }
    arrive(l, op, publishes);
}

// A copy by the threads of the role for a generation of an event: with the last one its bytes are
// there, once each thread's own have landed and the async proxy may read them.
void event_copied(Lower *l, const TileOp *op, i64 bytes)
{
    EventState *e = &l->events[op->event];
    if (op->imm) e->left = op->imm;
    e->left -= bytes;
    if (e->left > 0) return;
    thread_emit0(&l->b, OP_CPASYNC_COMMIT, 0);
    thread_emit0(&l->b, OP_CPASYNC_WAIT, 0);
    thread_emit0(&l->b, OP_FENCE_PROXY, 0);
    arrive(l, op, true);
}

// ---- roles --------------------------------------------------------------------------------------

// Threads lo <= tid < hi run the body. Whole warps become a role of the thread IR (a branch that no
// warp splits on); anything else an `if` without barriers inside. The threads that do not take part
// go on at once, so the state behind is the union of both.
void lower_op_ROLE(Lower *l, const TileOp *op)
{
    ThreadRange outer = l->role;
    int outer_id = l->role_id;
    RoleSync entry = sync_role_enter(l, op);
    ThreadBlock *saved;
    int mark = lower_cache_mark(l);
    lower_flush_zeros(l);
    product_flush(l);
    l->role = (ThreadRange){(int)op->lo->value, (int)op->hi->value};
    l->role_id = -1; // a barrier id is taken when the role needs one
    bool warps = l->role.lo % 32 == 0 && l->role.hi % 32 == 0;
    if (warps) {
        role_apart(l, l->role.lo / 32, (l->role.hi - l->role.lo) / 32);
        thread_open_role(&l->b, l->role.lo / 32, (l->role.hi - l->role.lo) / 32, &saved);
    } else {
        const Expr *tid = lower_reg_expr(l, lower_tid(l));
        const Expr *in = expr_bin(l->x, EX_LAND, expr_bin(l->x, EX_LE, op->lo, tid),
                                  expr_bin(l->x, EX_LT, tid, op->hi));
        thread_open_if(&l->b, lower_compare(l, CMP_NE, in, lower_const(l, 0)), &saved);
        l->uniform_depth++;
        l->lane_depth++;
    }
    lower_block(l, &op->body);
    lower_flush_zeros(l);
    product_flush(l);
    l->lane_depth -= !warps;
    l->uniform_depth -= !warps;
    sync_role_leave(l, &entry);
    lower_close(l, saved, mark);
    l->role = outer;
    l->role_id = outer_id;
}

// ---- asynchronous products ----------------------------------------------------------------------

// Arithmetic that stands between the issue of a product and its wait is there to run meanwhile. The
// wait orders nothing but the tensor cores' registers, and the assembler moves it up, in front of
// the arithmetic, to reuse those registers sooner (seen in the machine code of this very pattern).
// A branch that depends on the results holds it back: row vectors are what such arithmetic ends in.
// Their sum is the result of an addition, whose NaN is 0x7fffffff, so its bits are never all ones.
static void pin_written(Lower *l)
{
    if (!l->nwritten) return;
    Operand sum = opd_reg(lower_new_reg(l, "pin", RC_F32, 1), 0), bits, p;
    EMIT(&l->b, OP_ADD, TT_F32, sum, opd_reg(lower_frag(l, l->written[0]), 0),
         opd_reg(lower_frag(l, l->written[0]), 1));
    for (int i = 1; i < l->nwritten; i++)
        for (int h = 0; h < 2; h++)
            EMIT(&l->b, OP_ADD, TT_F32, sum, sum, opd_reg(lower_frag(l, l->written[i]), h));
    bits = opd_reg(lower_new_reg(l, "bits", RC_B32, 1), 0);
    p = opd_reg(lower_new_reg(l, "never", RC_PRED, 1), 0);
    EMIT(&l->b, OP_MOV, TT_B32, bits, sum);
    EMIT(&l->b, OP_SETP, TT_S32, p, bits, opd_imm(-1))->cmp = CMP_EQ;
    EMIT(&l->b, OP_PIN, TT_NONE, p);
    l->nwritten = 0;
}

// Only what was written since the last commit or wait counts: older values are ready anyway. Beyond
// PIN_MAX vectors nothing is noted, which costs speed at most.
void product_note(Lower *l, int frag)
{
    const TileFrag *f = &l->k->frags.at[frag];
    if (!l->inflight.n || f->layout != FL_ROW || f->type != DT_F32 || f->slots != 1) return;
    for (int i = 0; i < l->nwritten; i++)
        if (l->written[i] == frag) return;
    if (l->nwritten < PIN_MAX) l->written[l->nwritten++] = frag;
}

// Groups complete in order of commit; the wait leaves the newest `later` running.
static void wait_groups(Lower *l, int later)
{
    pin_written(l);
    thread_emit0(&l->b, OP_WGMMA_WAIT, later);
}

void product_flush(Lower *l)
{
    if (l->inflight.n) wait_groups(l, 0);
    l->inflight.n = 0;
}

// Waits until product `future` is done: all but the groups committed after it.
void product_wait(Lower *l, int future)
{
    for (int i = 0; i < l->inflight.n; i++) {
        if (l->inflight.at[i].future != future) continue;
        int later = l->inflight.n - 1 - i;
        wait_groups(l, later);
        for (int k = 0; k < later; k++) l->inflight.at[k] = l->inflight.at[i + 1 + k];
        l->inflight.n = later;
        return;
    }
}

// Reading or writing the accumulator, or writing the register operand, of a product in flight is
// undefined for the hardware; the assembler would repair it silently by waiting, at the price of
// all overlap. So it is an error of the source.
void product_check(Lower *l, int frag, bool write, Loc loc)
{
    for (int i = 0; i < l->inflight.n; i++) {
        const InFlight *p = &l->inflight.at[i];
        if (p->acc != frag && !(write && p->a == frag)) continue;
        lower_error(l, loc, "wait for it first", "fragment %s is %s while product %s is in flight",
                    l->k->frags.at[frag].name, write ? "written" : "read",
                    l->k->futures.at[p->future]);
        return;
    }
}
