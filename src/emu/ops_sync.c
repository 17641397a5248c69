// ops_sync.c - what orders agents: mbarriers, named barriers, fences, register shares.
//
// An mbarrier phase completes when all its arrivals are in and its byte balance is zero, whichever
// comes last; the balance may go below zero in between. A wait for parity P passes when the current
// phase's parity is not P. Everything else here checks that programs use them the way that works on
// every schedule (O8, O10, O11, O12).
#include "state.h"

#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

// For the .sync.aligned operations: the hardware's behaviour is undefined when lanes are missing,
// so the hazard is reported and the operation then proceeds as if the lanes at hand were all.
bool emu_converged(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (mask == (u32)EMU_FULL) return true;
    emu_hazard(w, op, emu_first_lane(mask), HZ_ILLEGAL, NULL, 0,
               "%s needs all 32 lanes of the warp; only those of the mask %08x came",
               thread_op[op->op].name, mask);
    return false;
}

// An mbarrier operation counts once per lane. Lanes with equal addresses are taken together, so
// that the usual case (a whole warp on one barrier) does one look-up and one join of clocks.
u32 emu_same_address(EmuWarp *w, const EmuOpnd *o, u32 lanes)
{
    u64 first = emu_address(w, o, emu_first_lane(lanes));
    u32 same = 0;
    LANES if ((lanes >> i & 1) && emu_address(w, o, i) == first) same |= 1u << i;
    return same;
}

// Index into the arrays of its CTA.
static u32 bar_index(const EmuCta *c, const EmuBar *b) { return (u32)(b - c->bar); }

// ---- mbarriers ----------------------------------------------------------------------------------

// The barrier at a lane's address, initialised or not; NULL after a report. mbarriers are declared
// buffers of the kernel: one anywhere else in the arena cannot be named in a report and is
// refused.
static EmuBar *bar_at(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, int mem, int lane)
{
    u32 offset = emu_shared_offset(w, op, o, mem, lane, 8, 8);
    if (offset == UINT32_MAX) return NULL;
    i32 index = w->at->bar_at[offset / 8];
    if (index >= 0) return &w->at->bar[index];
    emu_hazard(w, op, lane, HZ_MBARRIER, "O8", 0, "no mbarrier is declared at arena offset %u",
               offset);
    return NULL;
}

// The barrier for an agent that is about to use it; reports one that is not initialised, or whose
// initialisation the agent cannot rely on.
EmuBar *emu_bar_use(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, int mem, int lane)
{
    EmuCta *c = w->at;
    EmuBar *b = bar_at(w, op, o, mem, lane);
    if (!b) return NULL;
    Buf name = {0};
    if (!b->init) {
        emu_bar_text(c, bar_index(c, b), &name);
        emu_hazard(w, op, lane, HZ_MBARRIER, "O8", 0, "uses mbarrier %s before mbar.init", name.s);
        buf_free(&name);
        return NULL;
    }
    if (!c->run->hazards || !b->init_access) return b;
    const EmuAccess *a = &c->access.at[b->init_access];
    const EmuClock *k = emu_clock_of(w, lane);
    // O8 has two halves. "known": a barrier stands between the initialisation and this agent.
    // "fenced": fence.mbarrier_init by the initialising thread stands before that barrier. A
    // thread sees its own initialisation without either, but the TMA unit that it starts is
    // another agent.
    bool same = a->warp == w->index && a->lane == lane;
    bool known = same || emu_covers(&k->g[a->warp], a->epoch, a->lane, a->mask);
    bool fenced =
        b->fence_epoch && (same || emu_covers(&k->g[a->warp], b->fence_epoch, a->lane, a->mask));
    if ((same && op->op != OP_TMA_LOAD) || (known && fenced)) return b;
    emu_bar_text(c, bar_index(c, b), &name);
    if (c != w->cta) buf_printf(&name, " of CTA (%lld,%lld,%lld)", (long long)c->id[0],
                                (long long)c->id[1], (long long)c->id[2]);
    emu_hazard(w, op, lane, HZ_MBARRIER, "O8", b->init_access,
               "uses mbarrier %s, initialised by warp"
               " %u lane %u: %s",
               name.s, a->warp % c->run->warp_stride, a->lane,
               !known
                   ? "no barrier stands between the initialisation and this use"
                   : "no fence.mbar.init by the initialising thread stands before the barrier that"
                     " orders the two");
    buf_free(&name);
    return b;
}

// mbar.init [B], count: phase 0 is open, `count` arrivals pending, no bytes. Initialising a live
// barrier again is a hazard (waiters of the old life could see the new one), and then does it.
EmuResult emu_op_MBAR_INIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuCta *c = w->cta;
    bool hazards = c->run->hazards;
    if (hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
    }
    LANES {
        if (!(mask >> i & 1)) continue;
        EmuBar *b = bar_at(w, op, &op->o[0], 0, i);
        if (!b) continue;
        u32 count = emu_reg(w, &op->o[2])[i];
        Buf name = {0};
        emu_bar_text(c, bar_index(c, b), &name);
        if (b->init)
            emu_hazard(w, op, i, HZ_MBARRIER, "O8", b->init_access,
                       "initialises mbarrier %s, which is live already", name.s);
        // The hardware keeps the pending count in 20 bits.
        if (count < 1 || count > (1u << 20) - 1)
            emu_hazard(w, op, i, HZ_MBARRIER, "O10", 0,
                       "mbarrier %s gets the arrival count %u; it must be 1 to 1048575", name.s,
                       count);
        buf_free(&name);
        EmuClock *clock = b->clock, *complete = b->complete;
        // A count of 0 was reported above; 1 keeps `pending` from being complete before anybody
        // came.
        EmuBar fresh = {.offset = b->offset, .buffer = b->buffer, .slot = b->slot, .clock = clock,
                        .complete = complete, .waited = b->waited, .count = count ? count : 1};
        memset(b->waited, 0, sizeof b->waited[0] * (size_t)c->warps);
        emu_clock_clear(c->run, clock);
        emu_clock_clear(c->run, complete);
        // Not live while its own bytes are noted, or the note would clash with the live barrier.
        b->init = false;
        fresh.pending = fresh.count;
        fresh.init_access = hazards ? emu_access_new(w, ACC_WRITE, op, i, 1u << i, 0) : 0;
        emu_touch(w, fresh.init_access, b->offset, 8, i, true, true);
        fresh.init = true;
        *b = fresh;
    }
    return RUN_NEXT;
}

// The lanes have fenced: barriers that they initialised become usable to whoever is ordered after
// the fence. fence.proxy.async is taken as well as fence.mbarrier_init; both are in use for this.
static void fence_bars(EmuWarp *w, u32 mask)
{
    EmuCta *c = w->cta;
    for (int i = 0; i < c->bars_n && c->run->hazards; i++) {
        EmuBar *b = &c->bar[i];
        if (!b->init || b->fence_epoch || !b->init_access) continue;
        const EmuAccess *a = &c->access.at[b->init_access];
        if (a->warp == w->index && (mask >> a->lane & 1)) b->fence_epoch = w->epoch;
    }
}

EmuResult emu_op_FENCE_MBAR_INIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)op;
    fence_bars(w, mask);
    return RUN_NEXT;
}

void emu_bar_settle(const EmuCta *c, EmuBar *b, const EmuClock *known)
{
    for (int i = 0; i < c->warps; i++) {
        const EmuEpoch *e = &known->x[c->warp[i].index];
        if (b->waited[i].op && MAX(e->all, e->part) >= b->waited[i].epoch) b->waited[i].op = NULL;
    }
}

// The completed phase is the one behind what some warp has waited for. Had that warp been slower,
// it would find the parity of its phase taken by the phase that is open now, and sleep: so all that
// completed this phase must come after its wait (an arrival, or the issue of a load).
static void check_waiters(EmuCta *c, EmuBar *b, const EmuOp *op)
{
    emu_bar_settle(c, b, b->clock);
    for (int i = 0; i < c->warps; i++) {
        const EmuWaited *v = &b->waited[i];
        if (!v->op || v->next != b->phase) continue;
        Buf name = {0};
        emu_bar_text(c, bar_index(c, b), &name);
        emu_hazard_cta(c, v->op, HZ_MBARRIER, "O10",
                       "a warp that waits here for mbarrier %s may still wait when the phase behind"
                       " completes as well, by line %u: nothing orders that behind the wait, and two"
                       " phases on the parity tells the opposite",
                       name.s, op->src ? op->src->loc.line : 0);
        buf_free(&name);
        return;
    }
}

// Completes the phase when it is complete.
// Three states when all arrivals are in. Balance 0: complete. Above 0: bytes are still under way.
// Below 0: more bytes landed than were expected and no arrival is left that could expect more.
static void flip(EmuCta *c, EmuBar *b, const EmuOp *op)
{
    if (b->pending) return;
    if (b->tx == 0) {
        if (c->run->hazards) check_waiters(c, b, op);
        if (c->run->observed) emu_saw_phase(c, b);
        b->phase++;
        b->pending = b->count;
        b->expected = b->landed = 0;
        b->clock->phases[emu_bar_clock(c, bar_index(c, b))] = b->phase;
        // A waiter of this phase may wake after arrivals of the next one were joined into `clock`;
        // it must learn only what this phase released.
        emu_clock_copy(c->run, b->complete, b->clock);
        emu_wake(c, WAIT_MBAR, bar_index(c, b));
        return;
    }
    if (b->tx > 0) return;
    Buf name = {0};
    emu_bar_text(c, bar_index(c, b), &name);
    emu_hazard_cta(
        c, op, HZ_MBARRIER, "O10",
        "all arrivals of phase %u of mbarrier %s are in, but %llu bytes landed and %llu were"
        " expected: the phase cannot complete",
        b->phase, name.s, (unsigned long long)b->landed, (unsigned long long)b->expected);
    buf_free(&name);
}

// complete_tx of a bulk load: `bytes` are the whole box, also where it was clipped at the tensor's
// edge, since the hardware fills with zeros and counts them. Legal before the matching expect_tx.
void emu_bar_landed(EmuCta *c, EmuBar *b, u32 bytes, const EmuOp *op)
{
    b->tx -= bytes;
    b->landed += bytes;
    if (b->loads) b->loads--;
    flip(c, b, op);
}

// Arrivals of `lanes`, each with its expected bytes first.
// Arrivals are counted one by one: a barrier of count 1 that two lanes arrive at runs two phases.
// "Blind" arrivals (O10): whoever arrives at phase n must know that n - 1 is complete; otherwise
// on another schedule the same arrival would count for n - 1 and let a waiter go too early.
// At another CTA (w->at) an arrival releases only if it says so.
void emu_bar_arrive(EmuWarp *w, const EmuOp *op, EmuBar *b, u32 lanes, u64 expect_each)
{
    EmuCta *c = w->at;
    u32 index = bar_index(c, b);
    const EmuClock *k = emu_clock_of(w, emu_first_lane(lanes));
    u32 observed = k->phases[emu_bar_clock(c, index)];
    bool blind = false;
    Buf name = {0};
    if (c == w->cta || op->flags & OPF_RELEASE) emu_release(w, lanes, b->clock);
    else emu_release_done(w, lanes, b->clock);
    for (u32 rest = lanes; rest; rest &= rest - 1) {
        if (c->run->hazards && observed < b->phase && !blind) {
            if (!name.s) emu_bar_text(c, index, &name);
            emu_hazard(
                w, op, emu_first_lane(rest), HZ_MBARRIER, "O10", 0,
                "arrives at phase %u of mbarrier %s (count %u) without having observed that phase"
                " %u completed: the arrival counts for a phase that it does not belong to",
                b->phase, name.s, b->count, b->phase - 1);
            blind = true;
        }
        b->tx += (i64)expect_each;
        b->expected += expect_each;
        if (expect_each) b->expect_op = op;
        // Only reachable while bytes hold the phase open. The hardware answers with "unspecified
        // launch failure".
        if (!b->pending) {
            if (!name.s) emu_bar_text(c, index, &name);
            emu_hazard(w, op, emu_first_lane(rest), HZ_MBARRIER, "O10", 0,
                       "one arrival more than the count %u of mbarrier %s while phase %u waits for"
                       " %lld bytes: the launch would die", b->count, name.s, b->phase,
                       (long long)b->tx);
            break;
        }
        b->pending--;
        flip(c, b, op);
    }
    buf_free(&name);
}

// The transaction count of an mbarrier is a signed number of 21 bits: at most 2^20 - 1 bytes.
static bool expect_fits(EmuWarp *w, const EmuOp *op, u64 bytes, int lane)
{
    if (bytes < 1u << 20) return true;
    emu_hazard(w, op, lane, HZ_MBARRIER, "O10", 0, "expects %llu bytes; the limit is 1048575",
               (unsigned long long)bytes);
    return false;
}

// Common body of arrive, arrive.expect_tx and expect_tx. Address and byte count are pinned uses
// (O6): the assembler cannot move a load behind the arrive that needs its value. Yields, so that a
// waiter can run between this and what the arriving warp does next.
static EmuResult arrive(EmuWarp *w, const EmuOp *op, u32 mask, bool expects, bool arrives)
{
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        if (expects) emu_read_regs(w, op, &op->o[2], mask, true);
    }
    for (u32 rest = mask; rest;) {
        u32 lanes = emu_same_address(w, &op->o[0], rest);
        int lane = emu_first_lane(lanes);
        EmuBar *b = emu_bar_use(w, op, &op->o[0], 0, lane);
        u64 bytes = expects ? emu_reg(w, &op->o[2])[lane] : 0;
        rest &= ~lanes;
        if (!b || !expect_fits(w, op, bytes, lane)) continue;
        if (arrives) {
            emu_bar_arrive(w, op, b, lanes, bytes);
        } else {
            b->tx += (i64)bytes * __builtin_popcount(lanes);
            b->expected += bytes * (u64)__builtin_popcount(lanes);
            b->expect_op = op;
            flip(w->cta, b, op);
        }
    }
    return RUN_YIELD;
}

EmuResult emu_op_MBAR_ARRIVE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    return arrive(w, op, mask, false, true);
}

// ---- clusters -----------------------------------------------------------------------------------

// A CTA's shared memory may be given to another one when it ends, so nothing may go there then.
// Whether it ends too early is asked of the clocks at the end, whatever the schedule was; here only
// what would really happen is held back.
bool emu_enter_peer(EmuWarp *w, const EmuOp *op, u32 rank, int lane, const char *what)
{
    EmuRun *r = w->cta->run;
    if (rank >= r->ctas) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0, "CTA %u of a cluster of %u", rank, r->ctas);
        return false;
    }
    const EmuCta *c = r->cta[rank];
    if (!c->over) {
        w->at = r->cta[rank];
        return true;
    }
    emu_hazard(w, op, lane, HZ_CLUSTER, "O15", 0,
               "%s CTA (%lld,%lld,%lld) of the cluster, which has ended", what,
               (long long)c->id[0], (long long)c->id[1], (long long)c->id[2]);
    return false;
}

// mbar.arrive.cluster [B], rank: one arrival at the same place of CTA `rank`, which may be the own
// one.
EmuResult emu_op_MBAR_ARRIVE_CLUSTER(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
    }
    LANES {
        if (!(mask >> i & 1)) continue;
        u32 rank = emu_reg(w, &op->o[2])[i];
        if (!emu_enter_peer(w, op, rank, i, "arrives at an mbarrier of")) continue;
        EmuBar *b = emu_bar_use(w, op, &op->o[0], 0, i);
        if (b && w->at != w->cta)
            w->sent[rank] = (EmuSent){.op = op, .epoch = w->epoch, .bar = bar_index(w->at, b)};
        if (b) emu_bar_arrive(w, op, b, 1u << i, 0);
        w->at = w->cta;
    }
    return RUN_YIELD;
}

// Everybody who still runs waits there: what each released, all acquire.
void emu_cluster_meet(EmuRun *r)
{
    u32 alive = 0;
    for (u32 k = 0; k < r->ctas; k++)
        for (int i = 0; i < r->cta[k]->warps; i++) alive += r->cta[k]->warp[i].state != WARP_DONE;
    if (!r->met || r->met < alive) return;
    r->met = 0;
    for (u32 k = 0; k < r->ctas; k++)
        for (int i = 0; i < r->cta[k]->warps; i++) {
            EmuWarp *w = &r->cta[k]->warp[i];
            if (w->state == WARP_DONE) continue;
            emu_acquire(w, (u32)EMU_FULL, r->meeting);
            w->released = true;
            if (w->state == WARP_BLOCKED) w->state = WARP_READY;
        }
    emu_clock_clear(r, r->meeting);
}

// bar.cluster: like bar.sync of all threads of all CTAs.
EmuResult emu_op_BAR_CLUSTER(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuRun *r = w->cta->run;
    if (w->released) {
        w->released = false;
        return RUN_NEXT;
    }
    emu_converged(w, op, mask);
    emu_warp_sync(w);
    emu_release(w, (u32)EMU_FULL, r->meeting);
    r->met++;
    w->wait = WAIT_CLUSTER;
    emu_cluster_meet(r);
    if (w->released) {
        w->released = false;
        return RUN_YIELD;
    }
    return RUN_BLOCK;
}

// Every arrival that came from another CTA must be known to be over when this one ends.
static void check_peers(const EmuCta *c)
{
    const EmuRun *r = c->run;
    for (u32 k = 0; k < r->ctas; k++) {
        for (int i = 0; i < r->cta[k]->warps; i++) {
            EmuWarp *v = &r->cta[k]->warp[i];
            const EmuSent *s = &v->sent[c->rank];
            bool known = !s->op;
            for (int n = 0; n < c->warps && !known; n++) {
                const EmuWarp *w = &c->warp[n];
                const EmuEpoch *e = &w->clock->x[v->index], *p = &w->part->x[v->index];
                known = MAX(e->all, e->part) >= s->epoch ||
                        (w->part_mask && MAX(p->all, p->part) >= s->epoch);
            }
            if (known) continue;
            Buf name = {0};
            emu_bar_text(c, s->bar, &name);
            emu_hazard(v, s->op, -1, HZ_CLUSTER, "O15", 0,
                       "arrives at mbarrier %s of CTA (%lld,%lld,%lld), which may have ended: no"
                       " cluster barrier stands between the arrival and the end",
                       name.s, (long long)c->id[0], (long long)c->id[1], (long long)c->id[2]);
            buf_free(&name);
        }
    }
}

EmuResult emu_op_MBAR_ARRIVE_EXPECT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    return arrive(w, op, mask, true, true);
}

EmuResult emu_op_MBAR_EXPECT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    return arrive(w, op, mask, true, false);
}

// The writes of the threads' earlier cp.async are in when this arrival counts.
// The .noinc form: one of the expected arrivals. (Without .noinc it would add one to the pending
// count first, so that its own arrival cancels out.)
EmuResult emu_op_CPASYNC_ARRIVE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    emu_cpasync_complete(w, mask, 0);
    return arrive(w, op, mask, false, true);
}

// A waiter that knows of `known` completed phases and waits for `parity` means phase known or, when
// that has the other parity, the one before. Two phases on, the parity says nothing any more.
static void check_generation(EmuWarp *w, const EmuOp *op, const EmuBar *b, int lane, u32 parity)
{
    u32 index = bar_index(w->cta, b);
    u32 known = emu_clock_of(w, lane)->phases[emu_bar_clock(w->cta, index)];
    i64 wanted = (known & 1) == parity ? (i64)known : (i64)known - 1;
    if ((i64)b->phase < wanted + 2) return;
    Buf name = {0};
    emu_bar_text(w->cta, index, &name);
    emu_hazard(w, op, lane, HZ_MBARRIER, "O10", 0,
               "waits for phase %lld of mbarrier %s, which is in phase %u already: the parity %u no"
               " longer tells the two apart (the waiter is two phases behind)", (long long)wanted,
               name.s, b->phase, parity);
    buf_free(&name);
}

// mbar.wait [B], parity: the spin loop on try_wait as one blocking operation. It passes when the
// current phase's parity is not `parity`; so a fresh barrier lets parity 1 pass ("the phase before
// the first is complete"), which is how a ring's producer starts. Lanes may wait at different
// barriers; all must pass, and only then is the knowledge of all of them acquired, so that a retry
// repeats nothing. Trips of the retry find `released` set and skip the generation check.
EmuResult emu_op_MBAR_WAIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    bool hazards = w->cta->run->hazards;
    if (hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
    }
    const u32 *parities = emu_reg(w, &op->o[2]);
    for (u32 rest = mask; rest;) {
        u32 lanes = emu_same_address(w, &op->o[0], rest);
        int lane = emu_first_lane(lanes);
        EmuBar *b = emu_bar_use(w, op, &op->o[0], 0, lane);
        rest &= ~lanes;
        if (!b) continue;
        u32 parity = parities[lane] & 1;
        LANES if ((lanes >> i & 1) && (parities[i] & 1) != parity) {
            emu_hazard(w, op, i, HZ_MBARRIER, "O10", 0,
                       "lanes wait for different parities at once");
            break;
        }
        if (hazards && !w->released) check_generation(w, op, b, lane, parity);
        // Still the phase that is waited for.
        if ((b->phase & 1) == parity) {
            w->wait = WAIT_MBAR;
            w->wait_bar = bar_index(w->cta, b);
            w->wait_parity = parity;
            w->released = true; // checked: not again when it is tried again
            return RUN_BLOCK;
        }
    }
    w->released = false;
    for (u32 rest = mask; rest;) {
        u32 lanes = emu_same_address(w, &op->o[0], rest);
        EmuBar *b = emu_bar_use(w, op, &op->o[0], 0, emu_first_lane(lanes));
        rest &= ~lanes;
        if (b) emu_acquire(w, lanes, b->complete);
        if (b && hazards) b->waited[w->id] = (EmuWaited){op, b->phase, w->epoch};
    }
    return RUN_NEXT;
}

// ---- fences -------------------------------------------------------------------------------------

// The lanes' writes become visible to the async proxy, their reads have bound.
// fence.proxy.async.shared::cta. For O6 the fence is the one protection of a slot that PTX itself
// promises; it orders reads that came before it against async writes after the release.
EmuResult emu_op_FENCE_PROXY(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)op;
    fence_bars(w, mask);
    emu_fence_proxy(w, mask);
    // Every lane has fenced: no load of this warp is unbound. With fewer lanes the tokens live on,
    // and only the clocks tell which lanes are safe.
    if (mask == (u32)EMU_FULL) w->live = 0;
    return RUN_NEXT;
}

// Orders generic accesses that are ordered anyway once a barrier follows; binds no read.
// Measured: a membar.cta before the release does not keep an async write from overtaking an
// earlier load, because the assembler may sink the use of that load behind it. So it has no effect
// here.
EmuResult emu_op_MEMBAR(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)w, (void)op, (void)mask;
    return RUN_NEXT;
}

// The same for the whole device: global memory of this grid is ordered by it, and nothing else of
// the model looks at that.
EmuResult emu_op_MEMBAR_GPU(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)w, (void)op, (void)mask;
    return RUN_NEXT;
}

// A branch on the predicate, so a pinned use of what it depends on (O6). On the machine a lane with a
// true predicate would spin for ever.
EmuResult emu_op_PIN(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards && mask) emu_read_regs(w, op, &op->o[0], mask, true);
    u32 stuck = mask & emu_pred(w, &op->o[0]);
    if (stuck)
        emu_hazard(w, op, emu_first_lane(stuck), HZ_ILLEGAL, NULL, 0,
                   "the predicate of a pin is true in lanes %08x; it must never be", stuck);
    return RUN_NEXT;
}

// Time does not exist here; the turn ends, and under the adversarial schedule all others go first.
EmuResult emu_op_DELAY(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards && mask) emu_read_regs(w, op, &op->o[0], mask, false);
    u32 longest = 0;
    for (u32 m = mask; m; m &= m - 1)
        longest = MAX(longest, emu_reg(w, &op->o[0])[emu_first_lane(m)]);
    if (!longest) return RUN_NEXT;
    EmuReport *report = w->cta->run->report;
    report->delays++;
    report->delay_cycles += longest;
    w->priority = 0;
    return RUN_YIELD;
}

// In place of cycles, the operations of all warps of the block before this warp's turn began and
// the reads of the clock so far: it rises from read to read, and that is all that it says.
EmuResult emu_op_CLOCK(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 *d = emu_reg(w, &op->o[0]), now = (u32)(w->cta->steps + ++w->cta->clock_reads);
    for (u32 m = mask; m; m &= m - 1) d[emu_first_lane(m)] = now;
    return RUN_NEXT;
}

// bar.warp.sync with the full mask. Lanes run in lock step here, so it only merges what they know.
EmuResult emu_op_BAR_WARP(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (emu_converged(w, op, mask)) emu_warp_sync(w);
    return RUN_NEXT;
}

// ---- named barriers -----------------------------------------------------------------------------

// All threads came: the waiting warps acquire what all arrivals released, then the barrier is as
// new. `released` tells a warp that is tried again that it has been let go, since the barrier
// itself may be in its next use by then.
static void named_complete(EmuCta *c, EmuNamed *n)
{
    for (int i = 0; i < c->warps; i++) {
        if (!(n->waiting >> i & 1)) continue;
        EmuWarp *w = &c->warp[i];
        emu_acquire(w, (u32)EMU_FULL, n->clock);
        w->released = true;
        if (w->state == WARP_BLOCKED) w->state = WARP_READY;
    }
    n->before = n->expect;
    n->came_before = n->came;
    memcpy(n->epoch_before, n->epoch, sizeof n->epoch);
    n->waiting = n->arrived = n->expect = n->came = 0;
    emu_clock_clear(c->run, n->clock);
}

// The hardware counts threads and knows no rounds: a warp may come to the next round only when it
// knows that all warps of the round before have come, or its arrival may count for that one. Two
// groups that use one barrier without order between them are the usual case.
static void named_round_check(EmuWarp *w, const EmuOp *op, u32 id, const EmuNamed *n)
{
    u32 first = w->index - w->id;
    for (u32 left = n->came_before; left; left &= left - 1) {
        u32 other = (u32)__builtin_ctz(left), epoch = n->epoch_before[other];
        if (other == w->id || emu_covers(&w->clock->x[first + other], epoch, EMU_ANY_LANE,
                                         (u32)EMU_FULL))
            continue;
        if (w->part_mask &&
            emu_covers(&w->part->x[first + other], epoch, EMU_ANY_LANE, (u32)EMU_FULL))
            continue;
        emu_hazard(w, op, -1, HZ_BARRIER, "O11", 0,
                   "the warp arrives at barrier %u for its next round, but nothing orders it behind"
                   " the arrival of warp %u in the round before: the two rounds may mix",
                   id, other);
        return;
    }
}

// One warp arrives at barrier o[0] for o[1] threads. True when the warp may go on: the barrier
// completed, or the operation was illegal and counts as done. Arrivals count 32 threads a warp,
// whatever the mask: that is how the hardware counts.
static bool named_arrive(EmuWarp *w, const EmuOp *op, u32 mask, bool waits)
{
    u32 id = *emu_reg(w, &op->o[0]), count = *emu_reg(w, &op->o[1]);
    EmuCta *c = w->cta;
    if (mask != (u32)EMU_FULL)
        emu_hazard(w, op, emu_first_lane(mask), HZ_BARRIER, "O11", 0,
                   "%s under divergence: only the lanes of the mask %08x came",
                   thread_op[op->op].name, mask);
    if (id >= EMU_NAMED_BARS) {
        emu_hazard(w, op, -1, HZ_BARRIER, "O11", 0, "named barrier %u; there are 0 to 15", id);
        return true;
    }
    u32 threads = (u32)c->warps * 32;
    if (count % 32 || count < 32 || count > threads) {
        emu_hazard(w, op, -1, HZ_BARRIER, "O11", 0,
                   "barrier %u with %u threads; the count must be a multiple of 32 up to %u", id,
                   count, threads);
        return true;
    }
    EmuNamed *n = &c->named[id];
    if (n->expect && n->expect != count)
        emu_hazard(w, op, -1, HZ_BARRIER, "O11", 0,
                   "barrier %u with %u threads, but others came with %u", id, count, n->expect);
    // Not the next generation: the hardware cannot tell it from another warp's arrival.
    if (n->came >> w->id & 1)
        emu_hazard(w, op, -1, HZ_BARRIER, "O11", 0,
                   "the warp arrives at barrier %u a second time before it has completed", id);
    if (c->run->hazards) named_round_check(w, op, id, n);
    if (!n->expect) n->expect = count;
    n->came |= 1u << w->id;
    n->epoch[w->id] = w->epoch;
    n->op = op;
    emu_release(w, (u32)EMU_FULL, n->clock);
    n->arrived += 32;
    if (waits) n->waiting |= 1u << w->id;
    if (n->arrived < n->expect) return false;
    named_complete(c, n);
    return true;
}

// bar.sync id, threads. Runs twice when it blocks: once to arrive, once (with `released`) to pass.
EmuResult emu_op_BAR_SYNC(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->released) {
        w->released = false;
        return RUN_NEXT;
    }
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[1], mask, true);
    }
    emu_warp_sync(w);
    if (named_arrive(w, op, mask, true)) {
        w->released = false;
        return RUN_YIELD;
    }
    w->wait = WAIT_NAMED;
    w->wait_named = (u8)*emu_reg(w, &op->o[0]);
    return RUN_BLOCK;
}

// bar.arrive id, threads: releases what the warp knows and goes on.
EmuResult emu_op_BAR_ARRIVE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[1], mask, true);
    }
    named_arrive(w, op, mask, false);
    return RUN_YIELD;
}

// ---- registers ----------------------------------------------------------------------------------

// Without .maxnreg the assembler drops the instruction with a warning (C7508) and the kernel keeps
// its count, so a pass here would say nothing about the machine.
static bool setmaxnreg_legal(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const ThreadFn *fn = w->cta->run->fn;
    emu_converged(w, op, mask);
    if (!fn->maxnreg)
        emu_hazard(w, op, -1, HZ_REGISTERS, "O12", 0,
                   "setmaxnreg without .maxnreg: the count at entry is not known and the assembler"
                   " ignores it");
    if (!fn->maxnreg) return false;
    if (op->n >= 24 && op->n <= 256 && op->n % 8 == 0) return true;
    emu_hazard(w, op, -1, HZ_REGISTERS, "O12", 0,
               "setmaxnreg %u; the count must be a multiple of 8 from 24 to 256", op->n);
    return false;
}

// Gives registers back to the CTA's pool at once; never waits.
EmuResult emu_op_SETMAXNREG_DEC(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (!setmaxnreg_legal(w, op, mask)) return RUN_NEXT;
    if (op->n > w->regs_now) {
        emu_hazard(w, op, -1, HZ_REGISTERS, "O12", 0,
                   "setmaxnreg.dec to %u, but the warp has %u registers a thread", op->n,
                   w->regs_now);
        return RUN_NEXT;
    }
    w->cta->regs_used -= w->regs_now - op->n;
    w->regs_now = op->n;
    w->regs_op = op;
    emu_wake(w->cta, WAIT_REGISTERS, 0);
    return RUN_NEXT;
}

// Waits until the pool has enough. The pool is what the CTA was launched with (warps times the
// count at entry), so a split whose sum is larger never gets through: a deadlock, as on the
// machine.
EmuResult emu_op_SETMAXNREG_INC(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuCta *c = w->cta;
    if (!setmaxnreg_legal(w, op, mask)) return RUN_NEXT;
    if (op->n < w->regs_now) {
        emu_hazard(w, op, -1, HZ_REGISTERS, "O12", 0,
                   "setmaxnreg.inc to %u, but the warp has %u registers a thread", op->n,
                   w->regs_now);
        return RUN_NEXT;
    }
    if (c->regs_used - w->regs_now + op->n > c->regs_limit) {
        w->wait = WAIT_REGISTERS;
        w->wait_bar = op->n;
        return RUN_BLOCK;
    }
    c->regs_used += op->n - w->regs_now;
    w->regs_now = op->n;
    w->regs_op = op;
    return RUN_NEXT;
}

// ---- the end of a CTA ---------------------------------------------------------------------------

// Shared memory is given to the next CTA when this one ends: bytes still expected, or a bulk load
// that nobody observed, would land in a stranger's memory.
static void check_bar_end(EmuCta *c, const EmuBar *b)
{
    u32 index = bar_index(c, b), entry = emu_bar_clock(c, index), observed = 0;
    Buf name = {0};
    emu_bar_text(c, index, &name);
    if (b->tx)
        emu_hazard_cta(
            c, b->expect_op ? b->expect_op : b->load_op, HZ_MBARRIER, "O10",
            "the kernel ends in phase %u of mbarrier %s with %llu bytes expected and %llu"
            " landed",
            b->phase, name.s, (unsigned long long)b->expected, (unsigned long long)b->landed);
    for (int i = 0; i < c->warps; i++) {
        observed = MAX(observed, c->warp[i].clock->phases[entry]);
        if (c->warp[i].part_mask) observed = MAX(observed, c->warp[i].part->phases[entry]);
    }
    if (observed < b->last_load_phase && b->load_from_peer)
        emu_hazard_cta(
            c, b->load_op, HZ_CLUSTER, "O15",
            "the CTA ends while a bulk load of another CTA may still write to it: nobody here"
            " waited for phase %u of mbarrier %s",
            b->last_load_phase - 1, name.s);
    else if (observed < b->last_load_phase)
        emu_hazard_cta(
            c, b->load_op, HZ_RACE, "O3",
            "the kernel ends while a bulk load may still write: nobody waited for phase %u of"
            " mbarrier %s",
            b->last_load_phase - 1, name.s);
    buf_free(&name);
}

// Arrivals that nobody waits for are legal: the last release of a slot is one, and the named barriers
// end with the CTA. setmaxnreg acts on whole warpgroups; a group whose warps disagree at the end ran
// it in some only.
void emu_sync_end(EmuCta *c)
{
    for (int i = 0; i < EMU_NAMED_BARS; i++)
        if (c->named[i].waiting ||
            (c->named[i].arrived && c->named[i].before && c->named[i].before != c->named[i].expect))
            emu_hazard_cta(c, c->named[i].op, HZ_BARRIER, "O11",
                           "the kernel ends with %u of %u threads arrived at barrier %d",
                           c->named[i].arrived, c->named[i].expect, i);
    for (int i = 0; i < c->bars_n && c->run->hazards; i++)
        if (c->bar[i].init) check_bar_end(c, &c->bar[i]);
    if (c->run->ctas > 1 && c->run->hazards) check_peers(c);
    for (int i = 0; i + 3 < c->warps; i += 4)
        for (int k = 1; k < 4; k++)
            if (c->warp[i + k].regs_now != c->warp[i].regs_now) {
                const EmuOp *op = c->warp[i].regs_op ? c->warp[i].regs_op : c->warp[i + k].regs_op;
                emu_hazard_cta(
                    c, op, HZ_REGISTERS, "O12",
                    "warps %d and %d of one warpgroup end with %u and %u registers a thread:"
                    " setmaxnreg must be executed by all four",
                    i, i + k, c->warp[i].regs_now, c->warp[i + k].regs_now);
                break;
            }
}
