// run.c - runs a grid: cluster after cluster (most are one CTA), the warps of all its CTAs by a
// scheduler, operations by a table.
//
// A warp runs until it waits, gives way or has used its turn. Asynchronous effects that are pending
// run when the scheduler says so, and at the latest when a wait needs them. When every warp waits
// and nothing is pending, that is a deadlock. All choices come from one generator seeded by the
// launch and the CTA, so that a schedule can be replayed.
#include "state.h"

#include <string.h>

EmuHandler *const emu_handler[OP_COUNT] = {
#define X(id, name, sig, types, effect, scope, ptx, form) [OP_##id] = emu_op_##id,
    THREAD_OPS(X)
#undef X
};

// ---- chance -------------------------------------------------------------------------------------

// splitmix64, one state per CTA: a CTA's schedule does not depend on those before it. The upper
// half of the product scales to 0 .. n-1 without a division; its bias is below n / 2^32.
u32 emu_random(EmuCta *c, u32 n)
{
    c->rng += 0x9e3779b97f4a7c15ull;
    u64 z = c->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return n ? (u32)((z >> 32) * n >> 32) : 0;
}

// True with probability of_256 / 256. The certain cases draw nothing, so round-robin runs need no
// random numbers at all.
bool emu_chance(EmuCta *c, u32 of_256)
{
    return of_256 >= 256 || (of_256 && emu_random(c, 256) < of_256);
}

// Blocked warps that wait for this try their operation again; whether it passes is theirs to find.
void emu_wake(EmuCta *c, EmuWaitKind kind, u32 which)
{
    for (int i = 0; i < c->warps; i++) {
        EmuWarp *w = &c->warp[i];
        if (w->state != WARP_BLOCKED || w->wait != kind) continue;
        if (kind == WAIT_MBAR && w->wait_bar != which) continue;
        w->state = WARP_READY;
    }
}

// ---- control ------------------------------------------------------------------------------------

// A branch is a pinned use (O6): what stands behind it, the release too, depends on the value.
static void pin_condition(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards && mask) emu_read_regs(w, op, &op->o[0], mask, true);
}

// Divergence by masks: the taken lanes run first, then (else) the others, then (endif) all that
// came. A warp never splits into independently scheduled halves; programs that need that to make
// progress deadlock here, and may on the machine. The decoder bounds the depth.
EmuResult emu_op_IF(EmuWarp *w, const EmuOp *op, u32 mask)
{
    pin_condition(w, op, mask);
    u32 taken = mask & emu_pred(w, &op->o[0]);
    if ((op->flags & OPF_UNIFORM) && taken && taken != mask)
        emu_hazard(w, op, emu_first_lane(taken), HZ_ILLEGAL, NULL, 0,
                   "the condition of a uniform if differs between lanes: %08x of %08x take it",
                   taken, mask);
    w->saved[w->depth] = w->mask;
    w->other[w->depth++] = mask & ~taken;
    w->mask = taken;
    if (!taken) w->pc = op->target;
    return RUN_NEXT;
}

// `alive`: lanes may have left by exit inside the region.
EmuResult emu_op_else(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)mask;
    w->mask = w->other[w->depth - 1] & w->alive;
    if (!w->mask) w->pc = op->target;
    return RUN_NEXT;
}

EmuResult emu_op_endif(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)op, (void)mask;
    w->mask = w->saved[--w->depth] & w->alive;
    return RUN_NEXT;
}

// Lanes of a loop `lanes` whose counter is below their own bound.
static u32 running(EmuWarp *w, const EmuOp *op, const EmuOpnd *counter, u32 mask)
{
    const u32 *at = emu_reg(w, counter), *end = emu_reg(w, &op->o[2]);
    u32 left = 0;
    for (u32 rest = mask; rest; rest &= rest - 1) {
        int i = emu_first_lane(rest);
        if ((i32)at[i] < (i32)end[i]) left |= 1u << i;
    }
    return left;
}

static void write_counters(EmuWarp *w, const EmuOp *op, u32 mask, const u32 *value)
{
    u32 *r = emu_reg(w, &op->o[0]);
    if (w->cta->run->hazards) emu_write_regs(w, op, &op->o[0], mask);
    for (int i = 0; i < EMU_LANES; i++)
        if (mask >> i & 1) r[i] = value[i];
}

// A loop whose lanes run different numbers of rounds: the warp goes on while any lane does.
static EmuResult lanes_enter(EmuWarp *w, const EmuOp *op, u32 mask)
{
    write_counters(w, op, mask, emu_reg(w, &op->o[1]));
    u32 left = running(w, op, &op->o[0], mask);
    if (!left) {
        w->pc = op->target;
        return RUN_NEXT;
    }
    w->saved[w->depth++] = w->mask;
    w->mask = left;
    w->loop_op[w->loops] = op;
    w->loop_iter[w->loops++] = 0;
    return RUN_NEXT;
}

static EmuResult lanes_next(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 next[EMU_LANES], left = 0;
    const u32 *at = emu_reg(w, &op->o[0]);
    for (int i = 0; i < EMU_LANES; i++) {
        i64 n = (i64)(i32)at[i] + op->o[3].imm; // a lane whose counter would wrap leaves
        next[i] = (u32)n;
        if (mask >> i & 1 && n <= INT32_MAX) left |= 1u << i;
    }
    write_counters(w, op, mask, next);
    left = running(w, op, &op->o[0], left);
    if (left) {
        w->mask = left;
        w->loop_iter[w->loops - 1]++;
        w->pc = op->target;
        return RUN_NEXT;
    }
    w->loops--;
    w->mask = w->saved[--w->depth] & w->alive;
    return RUN_NEXT;
}

// The first lane's value; a loop whose lanes disagree about the bound is reported, then follows
// that.
static u32 uniform(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 mask)
{
    const u32 *v = emu_reg(w, o);
    u32 first = v[emu_first_lane(mask)];
    for (u32 rest = mask; rest; rest &= rest - 1)
        if (v[emu_first_lane(rest)] != first) {
            emu_hazard(w, op, emu_first_lane(rest), HZ_ILLEGAL, NULL, 0,
                       "a loop bound differs between lanes of a warp: %d and %d", (i32)first,
                       (i32)v[emu_first_lane(rest)]);
            break;
        }
    return first;
}

static void set_counter(EmuWarp *w, const EmuOp *op, u32 mask, u32 value)
{
    u32 *r = emu_reg(w, &op->o[0]);
    if (w->cta->run->hazards) emu_write_regs(w, op, &op->o[0], mask);
    for (int i = 0; i < EMU_LANES; i++)
        if (mask >> i & 1) r[i] = value;
}

// for reg = lo while reg < hi step: s32, bounds read once per trip and equal in all lanes. The
// counter is written even when the loop does not run.
EmuResult emu_op_FOR(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (!mask) {
        w->pc = op->target;
        return RUN_NEXT;
    }
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[1], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
    }
    if (op->flags & OPF_LANES) return lanes_enter(w, op, mask);
    u32 low = uniform(w, op, &op->o[1], mask);
    set_counter(w, op, mask, low);
    if ((i32)low >= (i32)uniform(w, op, &op->o[2], mask)) {
        w->pc = op->target;
        return RUN_NEXT;
    }
    w->loop_op[w->loops] = op;
    w->loop_iter[w->loops++] = 0;
    return RUN_NEXT;
}

EmuResult emu_op_next(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (mask && w->cta->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
    }
    if (op->flags & OPF_LANES) return lanes_next(w, op, mask);
    if (mask) {
        // In 64 bits: a counter near INT32_MAX ends the loop instead of wrapping.
        i64 next = (i64)(i32)emu_reg(w, &op->o[0])[emu_first_lane(mask)] + op->o[3].imm;
        bool more = next <= INT32_MAX && next < (i32)uniform(w, op, &op->o[2], mask);
        set_counter(w, op, mask, (u32)next);
        if (more) {
            w->loop_iter[w->loops - 1]++;
            w->pc = op->target;
            return RUN_NEXT;
        }
    }
    w->loops--;
    return RUN_NEXT;
}

// A role region runs in warps [imm, imm + n); the others skip it whole, with all barriers inside.
EmuResult emu_op_ROLE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)mask;
    if (w->id < op->src->imm || w->id >= op->src->imm + op->n) w->pc = op->target;
    return RUN_NEXT;
}

// The decoder expands unroll regions; none is left.
EmuResult emu_op_UNROLL(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)w, (void)op, (void)mask;
    BUG("an unroll region in a decoded program");
}

// Lanes leave; the warp is done with its last one. What it left in flight is reported now, while
// its place in the program is known.
EmuResult emu_op_EXIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards && mask) emu_async_end(w, op, mask);
    w->alive &= ~mask;
    w->mask &= ~mask;
    if (w->alive) return RUN_NEXT;
    if (w->cta->run->hazards) emu_product_end(w, op);
    return RUN_DONE;
}

// Falling off the end of the kernel.
EmuResult emu_op_end(EmuWarp *w, const EmuOp *op, u32 mask)
{
    return emu_op_EXIT(w, op, mask | w->alive);
}

// ---- a warp's turn ------------------------------------------------------------------------------

// Lanes that the guard predicate leaves.
static u32 guard_mask(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 bits = w->regs[(size_t)op->guard * 32];
    EmuOpnd g = {.unit = (u32)op->guard, .count = 1, .class = RC_PRED, .kind = OPD_REG};
    // A guarded pure operation only inherits the condition; any other depends on it.
    if (w->cta->run->hazards && mask) emu_read_regs(w, op, &g, mask, !op->track);
    return mask & (op->guard_negate ? ~bits : bits);
}

// Runs one warp for at most `budget` operations, or until it blocks, yields or is done. A blocked
// operation has not happened: pc goes back to it, and handlers that block must be able to start
// again. Round-robin ignores yields: fewer switches, and nothing there tries to be nasty.
EmuResult emu_turn(EmuWarp *w, i64 budget)
{
    EmuCta *c = w->cta;
    const EmuOp *ops = c->run->prog->ops;
    bool hazards = c->run->hazards;
    i64 start = budget;
    EmuResult result = RUN_NEXT;
    while (budget-- > 0) {
        const EmuOp *op = &ops[w->pc++];
        u32 mask = w->mask;
        if (op->guard >= 0) mask = guard_mask(w, op, mask);
        if (!mask && !op->control) continue;
        if (op->track && hazards) emu_track(w, op, mask);
        result = op->run(w, op, mask);
        if (result == RUN_NEXT) continue;
        if (result == RUN_YIELD && c->run->launch->schedule == SCHED_ROUND_ROBIN) continue;
        if (result == RUN_BLOCK) w->pc--;
        break;
    }
    c->steps += start - MAX(budget, 0);
    return result;
}

static void take_turn(EmuWarp *w, i64 budget)
{
    EmuResult r = w->cta->run->observed ? emu_observed_turn(w, budget) : emu_turn(w, budget);
    if (r == RUN_BLOCK) w->state = WARP_BLOCKED;
    if (r == RUN_DONE) w->state = WARP_DONE;
}

// ---- schedulers ---------------------------------------------------------------------------------

// Sets how likely effects run early, and the warps' priorities. The adversarial scheduler prefers
// early overwrites and late reads, but draws its bias anew for each CTA: no single one finds all.
static void schedule_start(EmuCta *c)
{
    static const u16 bias[4] = {256, 192, 64, 0};
    switch (c->run->launch->schedule) {
    case SCHED_RANDOM:
        c->early_load = c->late_wgmma = c->late_store = c->late_cp = 128;
        break;
    case SCHED_ADVERSARIAL:
        c->early_load = bias[emu_random(c, 4)];
        c->late_wgmma = c->late_store = c->late_cp = 224;
        break;
    default:
        c->early_load = c->run->observed ? 0 : 256; // observed: when due
        c->late_store = c->late_cp = 0;
        c->late_wgmma = 256; // in one go at the wait: fastest
        break;
    }
    for (int i = 0; i < c->warps; i++) c->warp[i].priority = 1 + emu_random(c, 1u << 30);
    c->change_at = emu_random(c, 4096);
}

// Warp number n of the cluster, CTA after CTA.
static EmuWarp *warp_of(const EmuRun *r, int n)
{
    int warps = r->cta[0]->warps;
    return &r->cta[n / warps]->warp[n % warps];
}

// The next warp of the cluster to run, NULL when none is ready. Adversarial: strictly by priority,
// so that one warp runs as far ahead as the barriers let it (ring slots are refilled at the
// earliest moment).
static EmuWarp *pick(const EmuRun *r, int *turn_of)
{
    EmuWarp *best = NULL;
    EmuCta *c = r->cta[0];
    int all = (int)r->ctas * c->warps;
    u32 ready = 0;
    for (int i = 0; i < all; i++) ready += warp_of(r, i)->state == WARP_READY;
    if (!ready) return NULL;
    EmuSchedule schedule = r->launch->schedule;
    if (schedule == SCHED_ADVERSARIAL) {
        for (int i = 0; i < all; i++) {
            EmuWarp *w = warp_of(r, i);
            if (w->state == WARP_READY && (!best || w->priority > best->priority)) best = w;
        }
        return best;
    }
    u32 skip = schedule == SCHED_RANDOM ? emu_random(c, ready) : 0;
    for (int n = 0; n < all; n++) {
        int i = (*turn_of + n) % all;
        EmuWarp *w = warp_of(r, i);
        if (w->state != WARP_READY || skip--) continue;
        *turn_of = (i + 1) % all;
        return w;
    }
    return NULL;
}

// Operations of a turn. Random: mostly long, in one of four cases very short, which is where the
// interleavings between two neighbouring operations come from.
static i64 turn_length(EmuCta *c, EmuWarp *w)
{
    switch (c->run->launch->schedule) {
    case SCHED_RANDOM: return 1 + emu_random(c, emu_chance(c, 64) ? 8 : 256);
    case SCHED_ADVERSARIAL:
        // A priority change: the running warp becomes the last one.
        if (c->steps >= c->change_at) {
            w->priority = emu_random(c, 1u << 10);
            // Gaps of 16 to 32,768 steps, all orders of magnitude alike: bugs need few, well
            // placed switches.
            c->change_at = c->steps + 1 + emu_random(c, 1u << (4 + emu_random(c, 12)));
        }
        return MAX(1, MIN(c->change_at - c->steps, 4096));
    default: return 4096;
    }
}

// Performs something that is pending in one of the CTAs, the first one by chance.
static bool perform_any(EmuRun *r, bool loads, bool products)
{
    u32 first = r->ctas > 1 ? emu_random(r->cta[0], r->ctas) : 0;
    for (u32 k = 0; k < r->ctas; k++) {
        EmuCta *c = r->cta[(first + k) % r->ctas];
        if ((loads && emu_effect_any(c)) || (products && emu_product_any(c))) return true;
    }
    return false;
}

// Notes that a CTA has ended with its last warp. A warp that has left is not waited for.
static void warp_left(EmuCta *c)
{
    c->over = true;
    for (int i = 0; i < c->warps; i++) c->over &= c->warp[i].state == WARP_DONE;
    emu_cluster_meet(c->run);
}

// A CTA (or all of its cluster) that does not come to an end. A warp that is done stands behind the
// last operation.
static void endless(EmuRun *r, EmuWarp *w, i64 limit)
{
    const EmuOp *op = w->state == WARP_DONE ? NULL : &r->prog->ops[w->pc];
    emu_hazard(w, op, -1, HZ_DEADLOCK, NULL, 0,
               "more than %lld warp operations in one CTA: a loop that does not end?",
               (long long)limit);
    for (u32 k = 0; k < r->ctas; k++) r->cta[k]->dead = true;
}

// Until all warps of the cluster are done, or it is dead. Pending effects run here at the latest:
// when no warp can move, one of them is performed, and only when there is none either is it a
// deadlock.
static void run_warps(EmuRun *r)
{
    EmuCta *first = r->cta[0];
    i64 limit = r->launch->step_limit ? r->launch->step_limit : (i64)1 << 40;
    int turn_of = 0, all = (int)r->ctas * first->warps;
    while (!first->dead) {
        EmuWarp *w = pick(r, &turn_of);
        if (!w) {
            if (perform_any(r, true, true)) continue;
            bool done = true;
            for (int i = 0; i < all; i++) done &= warp_of(r, i)->state == WARP_DONE;
            if (done) return;
            emu_deadlock(first);
            return;
        }
        take_turn(w, turn_length(w->cta, w));
        if (w->state == WARP_DONE) warp_left(w->cta);
        if (r->launch->schedule == SCHED_RANDOM && emu_chance(first, 64)) {
            bool loads = emu_chance(first, 128);
            perform_any(r, loads, !loads);
        }
        if (w->cta->steps > limit) endless(r, w, limit);
    }
}

// The same for an observed CTA under the round-robin schedule: in every round each warp that can run
// executes one operation, and effects happen when they are due.
static void run_rounds(EmuRun *r)
{
    EmuCta *first = r->cta[0];
    i64 limit = r->launch->step_limit ? r->launch->step_limit : (i64)1 << 40;
    int all = (int)r->ctas * first->warps;
    while (!first->dead) {
        bool moved = false, done = true;
        emu_observed_due(r);
        for (int i = 0; i < all; i++) {
            EmuWarp *w = warp_of(r, i);
            if (w->state == WARP_READY) {
                moved = true;
                take_turn(w, 1);
                if (w->state == WARP_DONE) warp_left(w->cta);
                if (w->cta->steps > limit) endless(r, w, limit);
            }
            done &= w->state == WARP_DONE;
        }
        if (done) return;
        if (emu_observed_step(r, moved)) continue;
        emu_deadlock(first);
        return;
    }
}

// ---- one CTA ------------------------------------------------------------------------------------

// A warp at the kernel's entry. Its allocations are kept from CTA to CTA; registers are zero and
// count as unwritten; constants behind them were laid down once by new_warps.
static void start_warp(EmuCta *c, EmuWarp *w)
{
    const EmuProgram *p = c->run->prog;
    u32 *regs = w->regs;
    EmuUnit *unit = w->unit;
    u8 *flags = w->flags, id = w->id;
    EmuClock *clock = w->clock, *part = w->part;
    EmuWarp old = *w;
    *w = (EmuWarp){.regs = regs, .unit = unit, .flags = flags, .cta = c, .at = c, .id = id,
                   .index = old.index, .sent = old.sent, .clock = clock, .part = part,
                   .mask = (u32)EMU_FULL, .alive = (u32)EMU_FULL, .epoch = 1, .clean = ~0ull,
                   .commits = old.commits, .flight = old.flight, .token = old.token,
                   .late = old.late, .late_lanes = old.late_lanes};
    w->commits.n = w->flight.n = 0;
    emu_clock_clear(c->run, clock);
    if (w->sent) memset(w->sent, 0, sizeof *w->sent * c->run->ctas);
    memset(unit, 0, sizeof *unit * p->units);
    memset(flags, 0, p->all_units);
    memset(w->late_lanes, 0, sizeof *w->late_lanes * p->all_units);
    memset(regs, 0, (size_t)p->units * 128);
    for (int s = 0; s < SR_COUNT; s++) {
        static const u32 none = 0;
        u32 *r = regs + (size_t)(p->special + (u32)s) * 32;
        const i64 *grid = c->run->launch->grid;
        for (int i = 0; i < EMU_LANES; i++) {
            switch (s) {
            case SR_TID: r[i] = (u32)(id * 32 + i); break;
            case SR_CTAID_X:
            case SR_CTAID_Y:
            case SR_CTAID_Z: r[i] = (u32)c->id[s - SR_CTAID_X]; break;
            case SR_NCTAID_X:
            case SR_NCTAID_Y:
            case SR_NCTAID_Z: r[i] = (u32)grid[s - SR_NCTAID_X]; break;
            case SR_LANE: r[i] = (u32)i; break;
            case SR_SMEM: r[i] = EMU_SMEM_BASE; break;
            case SR_CLUSTER_RANK: r[i] = c->rank; break;
            default: r[i] = none; break;
            }
        }
    }
    w->regs_now = (u32)c->run->fn->maxnreg;
    w->regs_op = NULL;
}

// CTA `index` in x, y, z order. The CTA objects are those of one cluster for the whole grid and are
// made new here, so the work per CTA is proportional to its shared memory, not to what earlier CTAs
// did.
static void start_cta(EmuCta *c, i64 index)
{
    EmuRun *r = c->run;
    const i64 *grid = r->launch->grid;
    c->index = index;
    c->id[0] = index % grid[0];
    c->id[1] = index / grid[0] % grid[1];
    c->id[2] = index / grid[0] / grid[1];
    c->dead = c->over = false;
    c->steps = c->clock_reads = 0;
    c->rng = hash_bytes(&index, sizeof index, r->launch->seed * 0x9e3779b97f4a7c15ull + 1);
    memset(c->smem, 0xff, c->smem_bytes); // NaN for what nobody writes
    for (int i = 0; i < c->bars_n; i++) {
        EmuBar *b = &c->bar[i];
        *b = (EmuBar){.offset = b->offset, .buffer = b->buffer, .slot = b->slot, .clock = b->clock,
                      .complete = b->complete, .waited = b->waited};
        memset(b->waited, 0, sizeof b->waited[0] * (size_t)c->warps);
    }
    for (int i = 0; i < EMU_NAMED_BARS; i++) {
        EmuClock *clock = c->named[i].clock;
        emu_clock_clear(r, clock);
        c->named[i] = (EmuNamed){.clock = clock};
    }
    for (int i = 0; i < EMU_MAX_WARPS / 4; i++) c->group[i].q.n = c->group[i].done = 0;
    emu_shadow_reset(c);
    for (int i = 0; i < c->warps; i++) start_warp(c, &c->warp[i]);
    c->regs_used = c->regs_limit = (u32)(c->warps * r->fn->maxnreg);
    schedule_start(c);
    emu_watch_start(c);
}

// Effects left over belong to reports that were made already; they must not land in the next CTA.
static void finish_cta(EmuCta *c)
{
    if (!c->dead) emu_sync_end(c);
    emu_watch_end(c);
    while (c->fx_first) {
        EmuEffect *e = c->fx_first;
        c->fx_first = e->next;
        e->next = c->fx_free;
        c->fx_free = e;
    }
    c->fx_last = &c->fx_first;
    c->fx_n = 0;
    c->run->report->warp_ops += c->steps;
    c->run->report->ctas++;
}

// ---- a run --------------------------------------------------------------------------------------

// Register files: [0, units) of the program, then special registers, then constants. Whatever is
// no register of the program counts as written.
static EmuWarp *new_warps(EmuRun *r, EmuCta *c)
{
    const EmuProgram *p = r->prog;
    u32 fixed = p->special + SR_COUNT + 1;
    EmuWarp *warps = ARENA_ARRAY(r->arena, EmuWarp, c->warps);
    for (int i = 0; i < c->warps; i++) {
        EmuWarp *w = &warps[i];
        w->id = (u8)i;
        w->regs = ARENA_ARRAY(r->arena, u32, (size_t)(p->all_units + 1) * 32);
        w->unit = ARENA_ARRAY(r->arena, EmuUnit, p->all_units + 1);
        w->flags = ARENA_ARRAY(r->arena, u8, p->all_units + 1);
        w->token = ARENA_ARRAY(r->arena, EmuToken, EMU_TOKENS);
        w->late_lanes = ARENA_ARRAY(r->arena, u32, p->all_units + 1);
        w->index = c->rank * r->warp_stride + (u32)i;
        if (r->ctas > 1) w->sent = ARENA_ARRAY(r->arena, EmuSent, r->ctas);
        w->clock = emu_clock_new(r);
        w->part = emu_clock_new(r);
        memcpy(w->regs + (size_t)fixed * 32, p->constants, (size_t)(p->all_units - fixed) * 128);
        for (u32 u = p->units; u <= p->all_units; u++) w->unit[u].init = ~0u;
    }
    return warps;
}

// One EmuBar per declared slot, found by arena offset / 8. False when there are more than 256: the
// clocks have a fixed array of phases, and real kernels have a dozen.
static bool new_bars(EmuRun *r, EmuCta *c)
{
    const ThreadFn *fn = r->fn;
    c->bar = ARENA_ARRAY(r->arena, EmuBar, EMU_MAX_BARS);
    c->bar_at = ARENA_ARRAY(r->arena, i32, c->smem_bytes / 8 + 1);
    memset(c->bar_at, 0xff, sizeof *c->bar_at * (c->smem_bytes / 8 + 1));
    c->bars_low = UINT32_MAX;
    for (int i = 0; i < fn->buffers.n; i++) {
        const ThreadBuffer *b = &fn->buffers.at[i];
        if (b->kind != BUF_MBAR) continue;
        i64 slots = thread_buffer_bytes(b) / 8;
        for (i64 k = 0; k < slots; k++) {
            if (c->bars_n == EMU_MAX_BARS) return false;
            u32 offset = (u32)(b->offset + 8 * k);
            c->bar_at[offset / 8] = c->bars_n;
            c->bar[c->bars_n++] = (EmuBar){.offset = offset, .buffer = i, .slot = (i32)k};
            c->bars_low = MIN(c->bars_low, offset);
            c->bars_high = MAX(c->bars_high, offset + 8);
        }
    }
    return true;
}

// CTA `rank` of the cluster, without what holds clocks: their size depends on all of it. Cells only
// when hazards are tracked: shadow memory is eight times the arena.
static EmuCta *new_cta(EmuRun *r, u32 rank)
{
    EmuCta *c = ARENA_NEW(r->arena, EmuCta);
    c->run = r;
    c->rank = rank;
    c->warps = r->fn->threads / 32;
    c->groups = c->warps / 4;
    c->smem_bytes = (u32)r->fn->smem_bytes;
    c->smem = arena_alloc(r->arena, c->smem_bytes + 64);
    if (r->hazards) c->cell = ARENA_ARRAY(r->arena, EmuCell, c->smem_bytes / 4 + 2);
    c->fx_last = &c->fx_first;
    return new_bars(r, c) ? c : NULL;
}

// The CTAs of one cluster; a kernel without clusters has clusters of one.
static bool new_cluster(EmuRun *r)
{
    r->ctas = (u32)MAX(r->fn->cluster, 1);
    r->warp_stride = (u32)(r->fn->threads / 32 + 3) / 4 * 4;
    for (u32 k = 0; k < r->ctas; k++)
        if (!(r->cta[k] = new_cta(r, k))) return false;
    r->meeting = emu_clock_new(r);
    for (u32 k = 0; k < r->ctas; k++) {
        EmuCta *c = r->cta[k];
        for (int i = 0; i < EMU_NAMED_BARS; i++) c->named[i].clock = emu_clock_new(r);
        for (int i = 0; i < c->bars_n; i++) {
            c->bar[i].clock = emu_clock_new(r);
            c->bar[i].complete = emu_clock_new(r);
            c->bar[i].waited = ARENA_ARRAY(r->arena, EmuWaited, c->warps);
        }
        c->warp = new_warps(r, c);
    }
    return true;
}

// Parameters that show the same memory are one tensor; the written ones get an owner per element.
// Granule: the smallest element that any buffer of the tensor has, at most 4 bytes, so that two
// threads that write neighbouring bf16 do not look like a conflict.
static void new_owners(EmuRun *r)
{
    const EmuLaunch *l = r->launch;
    int n = r->fn->params.n;
    i64 budget = (i64)256 << 20; // bytes of bookkeeping; beyond it a tensor is not watched
    r->tensor = ARENA_ARRAY(r->arena, i32, n + 1);
    r->owner = ARENA_ARRAY(r->arena, EmuOwner *, n + 1);
    r->granule = ARENA_ARRAY(r->arena, u8, n + 1);
    for (int i = 0; i < n; i++) {
        r->tensor[i] = i;
        bool map = r->fn->params.at[i].kind == PARAM_TMAP;
        const u8 *base = map ? l->args[i].tmap.base : l->args[i].ptr;
        for (int k = 0; k < n; k++) {
            if (r->fn->params.at[k].kind != PARAM_PTR || (k >= i && !map)) continue;
            const u8 *other = l->args[k].ptr;
            if (!base || !other || base < other || base >= other + l->args[k].bytes) continue;
            r->tensor[i] = k;
            break;
        }
        r->granule[i] = 2;
    }
    for (int i = 0; i < r->fn->buffers.n; i++) {
        const ThreadBuffer *b = &r->fn->buffers.at[i];
        if (b->kind != BUF_GLOBAL || b->param < 0 || b->param >= n) continue;
        u8 bytes = dtype_bytes[b->type], log = bytes >= 4 ? 2 : bytes == 2 ? 1 : 0;
        i32 t = r->tensor[b->param];
        r->granule[t] = MIN(r->granule[t], log);
    }
    for (int i = 0; i < n; i++) {
        u8 kind = r->fn->params.at[i].kind;
        if ((kind != PARAM_PTR && kind != PARAM_TMAP) || !r->prog->stored_param[i]) continue;
        i32 t = r->tensor[i];
        bool map = r->fn->params.at[t].kind == PARAM_TMAP;
        if (map)
            r->granule[t] =
                dtype_bytes[l->args[t].tmap.type] >= 4 ? 2 : dtype_bytes[l->args[t].tmap.type] / 2;
        size_t granules = ((map ? l->args[t].tmap_bytes : l->args[t].bytes) >> r->granule[t]) + 1;
        if (r->owner[t] || granules > (size_t)budget / sizeof(EmuOwner)) continue;
        budget -= (i64)(granules * sizeof(EmuOwner));
        r->owner[t] = ARENA_ARRAY(r->arena, EmuOwner, granules);
    }
}

// Why the launch cannot run at all, or NULL. The limits are the machine's: 1,024 threads, 227 KB
// of shared memory, grids of 2^31-1 by 65,535 by 65,535.
static const char *unfit(const EmuLaunch *l)
{
    const ThreadFn *fn = l->fn;
    if (fn->threads < 32 || fn->threads > 1024 || fn->threads % 32)
        return "the CTA must have 32 to 1024 threads, a multiple of 32";
    if (fn->smem_bytes < 0 || fn->smem_bytes > 232448)
        return "a CTA has at most 232,448 bytes of shared memory";
    if (fn->cluster > THREAD_MAX_CLUSTER) return "a cluster has at most 8 CTAs";
    if (fn->cluster > 1 && l->grid[0] % fn->cluster)
        return "the grid's first extent is no multiple of the cluster";
    for (int i = 0; i < 3; i++)
        if (l->grid[i] < 0 || l->grid[i] > (i ? 65535 : INT32_MAX))
            return "a grid extent is out of range";
    for (int i = 0; i < fn->buffers.n; i++) {
        const ThreadBuffer *b = &fn->buffers.at[i];
        if (b->kind == BUF_GLOBAL) continue;
        i64 bytes = thread_buffer_bytes(b);
        if (bytes < 0 || b->offset < 0 || b->offset > fn->smem_bytes - bytes)
            return "a shared buffer leaves the arena";
        if (b->kind == BUF_MBAR && b->offset % 8) return "an mbarrier is not aligned to 8 bytes";
    }
    return NULL;
}

// A launch that is not run is reported as one hazard, so that callers need only one way to look.
static void refuse(EmuRun *r, const char *why, Loc loc)
{
    EmuHazard h = {
        .kind = HZ_ILLEGAL, .loc = loc, .count = 1, .text = arena_printf(r->out, "%s", why)};
    vec_push(r->out, &r->report->hazards, h);
    r->report->ok = false;
}

static void run_grid(EmuRun *r)
{
    const EmuLaunch *l = r->launch;
    r->span = ARENA_ARRAY(r->arena, EmuSpan, r->fn->buffers.n + 1);
    for (int i = 0; i < r->fn->buffers.n; i++) {
        const ThreadBuffer *b = &r->fn->buffers.at[i];
        r->span[i] = (EmuSpan){0, (u32)r->fn->smem_bytes};
        if (b->kind != BUF_GLOBAL)
            r->span[i] = (EmuSpan){(u32)b->offset, (u32)(b->offset + thread_buffer_bytes(b))};
    }
    new_owners(r);
    if (!new_cluster(r)) {
        refuse(r, "more than 256 mbarriers", (Loc){0});
        return;
    }
    // CTAs of a cluster are neighbours in x, so their linear indices follow one another.
    i64 total = l->grid[0] * l->grid[1] * l->grid[2], n = r->ctas;
    for (i64 i = 0; i < total; i += n) {
        emu_clock_clear(r, r->meeting);
        r->met = 0;
        bool observed = l->observer && emu_observed_begin(r, i);
        for (i64 k = 0; k < n; k++) start_cta(r->cta[k], i + k);
        if (observed && l->schedule == SCHED_ROUND_ROBIN) run_rounds(r);
        else run_warps(r);
        for (i64 k = 0; k < n; k++) finish_cta(r->cta[k]);
        if (l->progress) l->progress(l->progress_ctx, i + n, total);
        if (observed && emu_observed_end(r)) break;
    }
    emu_watch_grid_end(r);
}

// Everything but the report lives in an arena of this run, which ends with it.
EmuReport *emu_run(Arena *a, const EmuLaunch *launch)
{
    EmuRun *r = ARENA_NEW(a, EmuRun);
    r->launch = launch;
    r->fn = launch->fn;
    r->out = a;
    r->report = ARENA_NEW(a, EmuReport);
    r->report->ok = true;
    r->hazards = launch->hazards;
    r->arena = arena_new(0);
    r->seen = map_new(r->arena);
    const char *why = unfit(launch);
    Loc where = {0};
    if (!why) r->prog = emu_decode(r->arena, launch, &why, &where);
    if (r->prog && emu_observed_before(launch)) run_grid(r);
    else if (!r->prog) refuse(r, why, where);
    EmuReport *report = r->report;
    arena_free(r->arena);
    return report;
}
