// order.c - happens-before on one case: the warps run once, with clocks.
//
// Every warp is one line of events, so as long as each arrival counts for one phase on all
// schedules and each wait means one phase, the order that barriers make is the same on all
// schedules, and one schedule shows it. Whether that holds is checked on the way (O10, O11: whoever
// arrives knows that the phase before is over; whoever completes a phase comes after all waits for
// the one before; a wait knows all phases before its own). Then two accesses race on some schedule
// exactly when no chain of events orders them here, and if this schedule comes to its end, all do.
//
// Clocks count events of warps, phases of mbarriers and rounds of named barriers. There are two of
// each: what is known with all data, and what an arrival at another block without .release tells,
// which is that products were waited for and phases seen (O5, O10).
//
// Bulk loads land at once on this schedule: whoever touches the bytes must know of the phase
// anyway. The memory is remembered by sets of bytes: the accesses since the last write that covers
// them.
#include "order.h"

#include <string.h>

enum { FAULTS_MAX = 12, BARRIERS_EACH = NAMED_BARRIERS };

// An access that a later one must come after: of an agent, or a bulk load.
typedef struct {
    int agent, access, load;
    i32 phase; // of the load's mbarrier
} Record;

typedef VEC(Record) Records;
typedef struct {
    i32 event, generation;
} LastWait; // event -1: none

typedef struct {
    Model *m;
    OrderRun *out;
    StateLayout l;
    u32 *w;              // the state of barriers, see state.c
    int n, nb, nn;       // agents, mbarriers, named barriers
    int length, async;   // words of a clock; where its second part begins
    i32 *clock;          // per agent
    i32 *carry, *done;   // per mbarrier: of those who arrived in this phase; of the phase before
    i32 *ncarry, *ndone; // per named barrier
    i32 *ccarry, *cdone; // of the cluster's barrier
    i32 *round;          // per named barrier
    LastWait *last;      // per mbarrier and agent
    u8 *waits;           // per mbarrier and agent: is there a wait in its code?
    i32 *next_access;    // per agent
    i32 *next_head;
    Records *records; // per set of bytes
    int nsets;
    u64 *written; // bit per byte of shared memory
    u8 *whole;    // per set: all of it has been written
    u64 written_hash;
    OrderFault unwritten; // the first read of what nobody has written until then
} Order;

// ---- clocks -------------------------------------------------------------------------------------
// events of agents, phases of mbarriers, rounds of named barriers; then events and phases again, as
// known without data.

static i32 *clock_of(Order *o, int agent) { return o->clock + (i64)agent * o->length; }
static i32 *carry_of(Order *o, int bar) { return o->carry + (i64)bar * o->length; }
static i32 *done_of(Order *o, int bar) { return o->done + (i64)bar * o->length; }

static i32 known_event(const Order *o, const i32 *c, int agent, bool data)
{
    return c[data ? agent : o->async + agent];
}

static i32 known_phase(const Order *o, const i32 *c, int bar, bool data)
{
    return c[(data ? o->n : o->async + o->n) + bar];
}

static i32 *known_round(const Order *o, i32 *c, int named) { return c + o->n + o->nb + named; }

static void join(const Order *o, i32 *to, const i32 *from, bool data)
{
    for (int i = data ? 0 : o->async; i < o->length; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

static void clear(const Order *o, i32 *c) { memset(c, 0, sizeof *c * (size_t)o->length); }

static void see_phase(Order *o, int agent, int bar, i32 phases)
{
    i32 *c = clock_of(o, agent);
    c[o->n + bar] = MAX(c[o->n + bar], phases);
    c[o->async + o->n + bar] = MAX(c[o->async + o->n + bar], phases);
}

// ---- faults -------------------------------------------------------------------------------------

static void fault(Order *o, OrderFault f)
{
    OrderRun *r = o->out;
    for (int i = 0; i < r->faults.n; i++) {
        const OrderFault *g = &r->faults.at[i];
        bool same = (g->op == f.op && g->op2 == f.op2) || (g->op == f.op2 && g->op2 == f.op);
        if (same && strcmp(g->rule, f.rule) == 0) return;
    }
    if (r->faults.n < FAULTS_MAX) vec_push(o->m->arena, &r->faults, f);
}

static void fault_at(Order *o, const char *rule, const char *text, int agent, int bar,
                     const ThreadOp *op)
{
    fault(o, (OrderFault){.rule = rule,
                          .text = text,
                          .who = agent,
                          .x = -1,
                          .other = -1,
                          .y = -1,
                          .load = -1,
                          .bar = bar,
                          .op = op});
}

static i32 position(const Order *o, int agent) { return (i32)o->w[o->l.pos + agent]; }

static i32 phase_of(const Order *o, int bar)
{
    BarrierState s;
    state_barrier(&o->l, o->w, bar, &s);
    return (i32)s.phase;
}

// ---- memory -------------------------------------------------------------------------------------

// What is broken when the access comes after the record on this schedule; NULL: nothing.
static const char *broken(Order *o, const Access *x, const i32 *c, const Record *r)
{
    if (r->load >= 0) {
        bool data = x->kind != ACCESS_LOAD;
        int bar = o->m->loads.at[r->load].bar;
        if (x->kind == ACCESS_USE || x->kind == ACCESS_INIT) return NULL;
        return known_phase(o, c, bar, data) > r->phase ? NULL : "O3";
    }
    const Access *y = &o->m->agents.at[r->agent].access.at[r->access];
    i32 known = known_event(o, c, r->agent, y->kind != ACCESS_WGMMA);
    if (known <= y->held) return model_conflict(x, y, true);
    return known <= y->until ? model_conflict(x, y, false) : NULL;
}

static void race(Order *o, int agent, int access, const Record *r, const char *rule)
{
    const Model *m = o->m;
    bool load = r->load >= 0;
    fault(o, (OrderFault){.rule = rule,
                          .who = agent,
                          .x = access,
                          .other = r->agent,
                          .y = load ? -1 : r->access,
                          .load = r->load,
                          .bar = -1,
                          .op = m->agents.at[agent].access.at[access].op,
                          .op2 = load ? m->loads.at[r->load].op
                                      : m->agents.at[r->agent].access.at[r->access].op});
}

// A newer access of the same kind says all that the older one does.
static bool outdone(const Order *o, const Record *old, const Record *now)
{
    if (old->agent != now->agent || (old->load >= 0) != (now->load >= 0)) return false;
    if (now->load >= 0)
        return o->m->loads.at[old->load].bar == o->m->loads.at[now->load].bar &&
               old->phase <= now->phase;
    const Access *x = &o->m->agents.at[old->agent].access.at[old->access];
    const Access *y = &o->m->agents.at[now->agent].access.at[now->access];
    return x->kind == y->kind && x->held <= y->held && x->until <= y->until;
}

static void remember(Order *o, int set, bool is_write, Record now)
{
    const Neighbours *near = bytes_near(o->m->bytes, set);
    for (int i = 0; i < near->n; i++) {
        if (near->at[i].set >= o->nsets) continue;
        int kept = 0;
        for (int k = 0; k < o->records[near->at[i].set].n; k++) {
            Record *r = &o->records[near->at[i].set].at[k];
            bool gone =
                is_write ? near->at[i].within : near->at[i].set == set && outdone(o, r, &now);
            if (!gone) o->records[near->at[i].set].at[kept++] = *r;
        }
        o->records[near->at[i].set].n = kept;
    }
    vec_push(o->m->arena, &o->records[set], now);
}

static void mark_written(Order *o, int set)
{
    if (o->whole[set]) return;
    const ByteSet *b = &o->m->bytes->sets.at[set];
    for (int i = 0; i < b->n; i++) {
        const Span *s = &o->m->bytes->spans.at[b->first + i];
        for (i32 at = s->from; at < s->to; at++) o->written[at / 64] |= (u64)1 << at % 64;
    }
    o->whole[set] = 1;
    o->written_hash += ((u64)set + 1) * 0x9e3779b97f4a7c15u;
}

static bool all_written(Order *o, int set)
{
    if (o->whole[set]) return true;
    const ByteSet *b = &o->m->bytes->sets.at[set];
    for (int i = 0; i < b->n; i++) {
        const Span *s = &o->m->bytes->spans.at[b->first + i];
        for (i32 at = s->from; at < s->to; at++)
            if (!(o->written[at / 64] >> at % 64 & 1)) return false;
    }
    o->whole[set] = 1;
    o->written_hash += ((u64)set + 1) * 0x9e3779b97f4a7c15u;
    return true;
}

static void touch(Order *o, int agent, int access, int load, i32 phase)
{
    Model *m = o->m;
    const Access *x = &m->agents.at[agent].access.at[access];
    const i32 *c = clock_of(o, agent);
    int set = load >= 0 ? m->loads.at[load].set : x->set;
    bool clean = true;
    if (set < 0) return;
    const Neighbours *near = bytes_near(m->bytes, set);
    for (int i = 0; i < near->n; i++) {
        if (near->at[i].set >= o->nsets) continue;
        for (int k = 0; k < o->records[near->at[i].set].n; k++) {
            const Record *r = &o->records[near->at[i].set].at[k];
            if (r->agent == agent && r->load < 0) continue; // see Agent.faults
            const char *rule = broken(o, x, c, r);
            if (rule) race(o, agent, access, r, rule);
            clean = clean && !rule;
        }
    }
    if (x->kind == ACCESS_USE) return;
    bool reads = x->kind == ACCESS_READ || x->kind == ACCESS_WGMMA || x->kind == ACCESS_STORE ||
                 x->kind == ACCESS_ATOMIC;
    if (reads && clean && !all_written(o, set) && !o->unwritten.rule)
        o->unwritten = ((OrderFault){.rule = "uninitialised read",
                                     .text = "reads what nobody has written",
                                     .who = agent,
                                     .x = access,
                                     .other = -1,
                                     .y = -1,
                                     .load = -1,
                                     .bar = -1,
                                     .op = x->op});
    if (model_is_write(x->kind)) mark_written(o, set);
    remember(o, set, model_is_write(x->kind) && clean,
             (Record){agent, load >= 0 ? -1 : access, load, phase});
}

static bool at_head(const Order *o, int agent)
{
    const Agent *a = &o->m->agents.at[agent];
    int next = o->next_head[agent];
    return next < a->heads.n && a->heads.at[next].at == position(o, agent);
}

// The accesses in front of the next event, or of the next round.
static void segment(Order *o, int agent)
{
    const Agent *a = &o->m->agents.at[agent];
    i32 *i = &o->next_access[agent];
    i32 end = at_head(o, agent) ? a->heads.at[o->next_head[agent]].access : a->access.n;
    for (; *i < end && a->access.at[*i].at <= position(o, agent); (*i)++)
        if (a->access.at[*i].kind != ACCESS_LOAD) touch(o, agent, *i, -1, 0);
}

// ---- events -------------------------------------------------------------------------------------

// All arrivals and bytes of a phase are in: `phase` is over.
static void completed(Order *o, int bar, i32 phase, int agent, const ThreadOp *op)
{
    i32 *carry = carry_of(o, bar), *done = done_of(o, bar);
    memcpy(done, carry, sizeof *done * (size_t)o->length);
    clear(o, carry);
    for (int i = 0; i < o->n; i++) {
        const LastWait *w = &o->last[bar * o->n + i];
        if (w->event < 0 || w->generation != phase - 1) continue;
        if (known_event(o, done, i, false) <= w->event)
            fault(o,
                  (OrderFault){
                      .rule = "O10",
                      .who = i,
                      .x = -1,
                      .other = agent,
                      .y = -1,
                      .load = -1,
                      .bar = bar,
                      .op = o->m->agents.at[i].events.at[w->event].op,
                      .op2 = op,
                      .text = "the wait may come too late: the next phase can be complete by then, "
                              "since nobody who arrives has waited for this warp"});
    }
}

static void check_phase(Order *o, int agent, int bar, i32 phase, const ThreadOp *op)
{
    if (known_phase(o, clock_of(o, agent), bar, false) < phase)
        fault_at(o, "O10",
                 "counts for this phase or for the one before: nothing has told the warp "
                 "that the phase before is over",
                 agent, bar, op);
}

static void step_fault(Order *o, const StepFault *f, int agent, const ThreadOp *op)
{
    if (f->rule) fault_at(o, f->rule, f->text, agent, f->bar, op);
}

static void land(Order *o, int load, int agent, const ThreadOp *op)
{
    int bar = o->m->loads.at[load].bar;
    i32 before = phase_of(o, bar);
    StepFault f = {0};
    // Bytes that are there tell that their load was issued, and no more.
    join(o, carry_of(o, bar), clock_of(o, agent), false);
    state_step(o->m, &o->l, o->w, o->n + load, &f);
    step_fault(o, &f, agent, op);
    if (phase_of(o, bar) != before) completed(o, bar, before, agent, op);
}

// The access records of the event's loads stand in front of it.
static void issue(Order *o, int agent, const Event *e)
{
    const Agent *a = &o->m->agents.at[agent];
    for (int k = 0; k < e->count; k++) {
        int load = e->load + k, bar = o->m->loads.at[load].bar;
        i32 phase = phase_of(o, bar);
        check_phase(o, agent, bar, phase, e->op);
        for (int i = o->next_access[agent] - 1; i >= 0; i--) {
            if (a->access.at[i].kind != ACCESS_LOAD || a->access.at[i].group != load) continue;
            touch(o, agent, i, load, phase);
            break;
        }
        land(o, load, agent, e->op);
    }
}

static void named_barrier(Order *o, int agent, const Event *e)
{
    i32 *c = clock_of(o, agent), *round = &o->round[e->bar];
    u32 came, threads;
    if (*known_round(o, c, e->bar) < *round)
        fault_at(o, "O11", "comes to the next round before it knows that all have come to this one",
                 agent, -1, e->op);
    join(o, o->ncarry + (i64)e->bar * o->length, c, true);
    state_named(&o->l, o->w, e->bar, &came, &threads);
    if (came) return; // more are to come
    i32 *carry = o->ncarry + (i64)e->bar * o->length;
    memcpy(o->ndone + (i64)e->bar * o->length, carry, sizeof *carry * (size_t)o->length);
    clear(o, carry);
    ++*round;
}

static void wait_passed(Order *o, int agent, const Event *e, i32 at)
{
    i32 generation = phase_of(o, e->bar) - 1;
    if (known_phase(o, clock_of(o, agent), e->bar, false) < generation)
        fault_at(o, "O10",
                 "the wait may pass too early: the parity fits a generation before, and "
                 "nothing has told the warp that it is over",
                 agent, e->bar, e->op);
    join(o, clock_of(o, agent), done_of(o, e->bar), true);
    see_phase(o, agent, e->bar, generation + 1);
    o->last[e->bar * o->n + agent] = (LastWait){at, generation};
}

// The event of the agent that can be made now.
static void step(Order *o, int agent)
{
    const Agent *a = &o->m->agents.at[agent];
    i32 at = position(o, agent);
    const Event *e = &a->events.at[at];
    i32 *c = clock_of(o, agent);
    bool mbarrier = e->kind <= EV_WAIT, data = !e->remote || (e->op->flags & OPF_RELEASE);
    i32 before = mbarrier ? phase_of(o, e->bar) : 0;
    StepFault f = {0};
    segment(o, agent);
    if (e->kind == EV_ARRIVE || e->kind == EV_EXPECT) check_phase(o, agent, e->bar, before, e->op);
    state_step(o->m, &o->l, o->w, agent, &f);
    step_fault(o, &f, agent, e->op);
    c[agent] = c[o->async + agent] = at + 1;
    switch (e->kind) {
    case EV_ARRIVE: join(o, carry_of(o, e->bar), c, data); break;
    case EV_WAIT: wait_passed(o, agent, e, at); break;
    case EV_LOAD: issue(o, agent, e); break;
    case EV_BAR_ARRIVE: named_barrier(o, agent, e); break;
    case EV_BAR_PASS:
        join(o, c, o->ndone + (i64)e->bar * o->length, true);
        *known_round(o, c, e->bar) = MAX(*known_round(o, c, e->bar), o->round[e->bar]);
        break;
    case EV_CLUSTER_ARRIVE:
        join(o, o->ccarry, c, true);
        if (o->w[o->l.cluster]) break;
        memcpy(o->cdone, o->ccarry, sizeof *c * (size_t)o->length);
        clear(o, o->ccarry);
        break;
    case EV_CLUSTER_PASS: join(o, c, o->cdone, true); break;
    default: break;
    }
    // An arrival that completes the phase; several phases at once are a fault already.
    if ((e->kind == EV_ARRIVE || e->kind == EV_EXPECT) && phase_of(o, e->bar) != before)
        completed(o, e->bar, before, agent, e->op);
    segment(o, agent);
}

// ---- the ends -----------------------------------------------------------------------------------

static i32 known_in_block(Order *o, int cta, int word)
{
    i32 most = 0;
    for (int i = 0; i < o->m->warps; i++)
        most = MAX(most, clock_of(o, cta * o->m->warps + i)[word]);
    return most;
}

static void stuck(Order *o)
{
    const Model *m = o->m;
    for (int i = 0; i < o->n; i++) {
        if (state_done(m, &o->l, o->w, i)) continue;
        const Event *e = &m->agents.at[i].events.at[position(o, i)];
        bool registers = e->kind == EV_REGS;
        o->out->deadlock = true;
        fault_at(o, registers ? "O12" : "deadlock",
                 registers ? "the registers that it asks for are never given back"
                           : "waits for ever on every schedule",
                 i, e->kind <= EV_WAIT ? e->bar : -1, e->op);
    }
}

static void ends(Order *o)
{
    Model *m = o->m;
    stuck(o);
    if (o->out->deadlock) return;
    for (int b = 0; b < o->nb; b++) {
        BarrierState s;
        state_barrier(&o->l, o->w, b, &s);
        if (s.bytes)
            fault_at(o, "O10", "the kernel ends in a phase whose bytes do not add up", -1, b, NULL);
    }
    for (int i = 0; i < m->agents.n; i++)
        for (int k = 0; k < m->agents.at[i].events.n; k++) {
            const Event *e = &m->agents.at[i].events.at[k];
            if (!e->remote) continue;
            if (known_in_block(o, m->bars.at[e->bar].cta, o->async + i) <= k)
                fault_at(o, "O15", "arrives at a block that may have ended", i, e->bar, e->op);
        }
    for (int i = 0; i < o->nsets; i++)
        for (int k = 0; k < o->records[i].n; k++) {
            const Record *r = &o->records[i].at[k];
            if (r->load < 0) continue;
            int bar = m->loads.at[r->load].bar;
            if (known_in_block(o, m->bars.at[bar].cta, o->n + bar) <= r->phase)
                fault(o, (OrderFault){.rule = "O3",
                                      .who = r->agent,
                                      .x = -1,
                                      .other = -1,
                                      .y = -1,
                                      .load = r->load,
                                      .bar = -1,
                                      .op = m->loads.at[r->load].op,
                                      .text = "the block may end while the load is on the way: "
                                              "nobody waits for it"});
        }
}

// Faults of a warp with itself, and TMA loads on barriers that their own thread has not fenced.
static void own_faults(Order *o)
{
    Model *m = o->m;
    for (int i = 0; i < m->agents.n; i++) {
        const Agent *a = &m->agents.at[i];
        for (int k = 0; k < a->faults.n; k++) {
            const SelfFault *f = &a->faults.at[k];
            fault(o, (OrderFault){.rule = f->rule,
                                  .text = f->text,
                                  .who = i,
                                  .x = f->x,
                                  .other = f->y >= 0 ? i : -1,
                                  .y = f->y,
                                  .load = -1,
                                  .bar = -1,
                                  .op = f->op,
                                  .op2 = f->y >= 0 ? a->access.at[f->y].op : NULL});
        }
        for (int k = 0; k < a->access.n; k++) {
            const Access *x = &a->access.at[k];
            if (x->kind != ACCESS_USE || x->op->op != OP_TMA_LOAD) continue;
            for (int j = 0; j < k; j++) {
                const Access *y = &a->access.at[j];
                if (y->kind == ACCESS_INIT && y->until > x->at &&
                    bytes_meet(m->bytes, x->set, y->set))
                    race(o, i, k, &(Record){i, j, -1, 0}, "O8");
            }
        }
    }
}

// ---- states -------------------------------------------------------------------------------------

static u64 mix(u64 h, u64 v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

enum { PATH_MAX = 8 };
typedef struct {
    int n;
    const Head *at[PATH_MAX];
} Path; // outermost first

static Path path_of(const Order *o, int agent, int head)
{
    const HeadVec *h = &o->m->agents.at[agent].heads;
    Path p = {0};
    for (int i = head; i >= 0 && p.n < PATH_MAX; i = h->at[i].outer) p.at[p.n++] = &h->at[i];
    for (int i = 0; i < p.n / 2; i++) {
        const Head *t = p.at[i];
        p.at[i] = p.at[p.n - 1 - i];
        p.at[p.n - 1 - i] = t;
    }
    return p;
}

// Earlier in the order of loops and rounds.
static int compare(const Path *p, const Path *q)
{
    for (int i = 0; i < MIN(p->n, q->n); i++) {
        if (p->at[i]->decision != q->at[i]->decision)
            return p->at[i]->decision < q->at[i]->decision ? -1 : 1;
        i32 a = p->at[i]->k * p->at[i]->scale, b = q->at[i]->k * q->at[i]->scale;
        if (a != b) return a < b ? -1 : 1;
        if (p->at[i]->follows != q->at[i]->follows) return p->at[i]->follows ? 1 : -1;
    }
    return p->n - q->n;
}

// Rounds of an agent as seen from those of the warps that go on next.
static u64 relation(const Order *o, u64 h, const Path *q, const Path *p)
{
    for (int i = 0; i < q->n; i++) {
        const Head *x = q->at[i];
        bool same = i < p->n && x->decision >= 0 && x->decision == p->at[i]->decision;
        h = mix(h, same ? (u64)(x->k * x->scale - p->at[i]->k * p->at[i]->scale) << 8 | 1
                        : (u64)(x->n - x->k) << 8 | 0x80);
        if (same && x->scale > 1) h = mix(h, (u64)(p->at[i]->k * p->at[i]->scale % x->scale));
        h = mix(h, (u64)MIN(x->k, o->m->first));
        h = mix(h, (u64)(uintptr_t)x->op);
    }
    return h;
}

static u64 agent_state(Order *o, int agent, const Path *p)
{
    const Agent *a = &o->m->agents.at[agent];
    int last = o->next_head[agent] - 1;
    u64 h = mix(7, (u64)agent);
    Path q = path_of(o, agent, last);
    h = relation(o, h, &q, p);
    h = mix(h, (u64)(position(o, agent) - (last >= 0 ? a->heads.at[last].at : 0)));
    if (last >= 0) h = mix(h, a->heads.at[last].carried);
    if (!at_head(o, agent)) {
        // What it still does in this round was decided when the round began.
        i32 end = last + 1 < a->heads.n ? a->heads.at[last + 1].at : a->events.n;
        for (i32 i = position(o, agent); i < end; i++) {
            const Event *e = &a->events.at[i];
            h = mix(mix(h, (u64)(uintptr_t)e->op), (u64)e->bar << 32 ^ (u64)e->arg);
        }
        return h;
    }
    q = path_of(o, agent, last + 1);
    return mix(relation(o, h, &q, p), a->heads.at[last + 1].carried);
}

// What is asked of a record by everybody who may meet it: does the clock cover it?
typedef struct {
    u64 what;
    int word[2];
    i32 least[2];
} Question;

static Question question(Order *o, int set, const Record *r)
{
    if (r->load >= 0) {
        const Load *l = &o->m->loads.at[r->load];
        u64 what = mix(mix(mix(11, (u64)set), (u64)(uintptr_t)l->op), (u64)l->bar);
        what = mix(what, (u64)MIN(phase_of(o, l->bar) - r->phase, 2));
        return (Question){what, {o->n + l->bar, o->async + o->n + l->bar}, {r->phase, r->phase}};
    }
    const Access *y = &o->m->agents.at[r->agent].access.at[r->access];
    i32 at = position(o, r->agent);
    u64 what = mix(mix(mix(13, (u64)set), (u64)(uintptr_t)y->op), (u64)r->agent << 8 | y->kind);
    // When an open access will be closed is in the future, which follows from the rest.
    what = mix(what, (u64)(y->held <= at) | (u64)(y->until <= at) << 1);
    int word = y->kind == ACCESS_WGMMA ? o->async + r->agent : r->agent;
    return (Question){what, {word, word}, {y->held, y->until}};
}

typedef VEC(Question) Questions;

// What everybody knows already has no consequences any more.
static void add_question(Order *o, Questions *q, Question x)
{
    for (int i = 0; i < o->n; i++) {
        const i32 *c = clock_of(o, i);
        if (c[x.word[0]] > x.least[0] && c[x.word[1]] > x.least[1]) continue;
        vec_push(o->m->arena, q, x);
        return;
    }
}

static void ask(Order *o, Questions *q)
{
    for (int i = 0; i < o->nsets; i++)
        for (int k = 0; k < o->records[i].n; k++)
            add_question(o, q, question(o, i, &o->records[i].at[k]));
    // Waits for the phase before this one: who completes this one must know of them.
    for (int b = 0; b < o->nb; b++)
        for (int i = 0; i < o->n; i++) {
            const LastWait *w = &o->last[b * o->n + i];
            if (w->event < 0 || w->generation != phase_of(o, b) - 1) continue;
            u64 what = mix(mix(17, (u64)b), (u64)i);
            add_question(o, q,
                         (Question){what, {o->async + i, o->async + i}, {w->event, w->event}});
        }
}

static u64 clock_state(Order *o, const i32 *c, const Questions *q)
{
    u64 h = 0;
    for (int i = 0; i < q->n; i++) {
        const Question *x = &q->at[i];
        u64 answer = (u64)(c[x->word[0]] > x->least[0]) | (u64)(c[x->word[1]] > x->least[1]) << 1;
        h += mix(x->what, answer);
    }
    for (int b = 0; b < o->nb; b++) {
        i32 phase = phase_of(o, b);
        h = mix(h, (u64)MIN(phase - known_phase(o, c, b, true), 2) << 2 |
                       (u64)MIN(phase - known_phase(o, c, b, false), 2));
    }
    for (int i = 0; i < o->nn; i++)
        if (o->round[i]) h = mix(h, (u64)MIN(o->round[i] - *known_round(o, (i32 *)c, i), 2));
    return h;
}

// Will anybody still pass a wait of the phase before this one, and learn what it tells?
static bool is_awaited(const Order *o, int bar)
{
    for (int i = 0; i < o->n; i++)
        if (o->waits[bar * o->n + i] &&
            o->last[bar * o->n + i].generation != phase_of(o, bar) - 1)
            return true;
    return false;
}

static bool named_awaited(const Order *o, int named)
{
    for (int i = 0; i < o->n; i++) {
        const Agent *a = &o->m->agents.at[i];
        i32 at = position(o, i);
        if (at < a->events.n && a->events.at[at].kind == EV_BAR_PASS &&
            a->events.at[at].bar == named)
            return true;
    }
    return false;
}

static u64 state(Order *o, const Path *p)
{
    Questions q = {0};
    u64 h = mix(o->written_hash, o->w[o->l.cluster]);
    ask(o, &q);
    for (int i = 0; i < p->n; i++) h = mix(h, (u64)MIN(p->at[i]->k, o->m->first));
    for (int i = 0; i < o->n; i++)
        h = mix(mix(h, agent_state(o, i, p)), clock_state(o, clock_of(o, i), &q));
    for (int b = 0; b < o->nb; b++) {
        BarrierState s;
        state_barrier(&o->l, o->w, b, &s);
        h = mix(h, (u64)(s.phase & 1) << 40 | (u64)s.came << 20 | s.arrivals);
        h = mix(mix(h, (u64)s.bytes), clock_state(o, carry_of(o, b), &q));
        if (is_awaited(o, b)) h = mix(h, clock_state(o, done_of(o, b), &q));
    }
    for (int i = 0; i < o->nn; i++) {
        u32 came, threads;
        state_named(&o->l, o->w, i, &came, &threads);
        if (!o->round[i] && !came) continue;
        h = mix(mix(h, (u64)came), clock_state(o, o->ncarry + (i64)i * o->length, &q));
        if (named_awaited(o, i)) h = mix(h, clock_state(o, o->ndone + (i64)i * o->length, &q));
    }
    if (o->m->ctas > 1)
        h = mix(mix(h, clock_state(o, o->ccarry, &q)), clock_state(o, o->cdone, &q));
    for (int c = 0; c < o->m->ctas; c++) h = mix(h, o->w[o->l.pool + c]);
    return h;
}

// ---- the run ------------------------------------------------------------------------------------

static void run_all(Order *o)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < o->n; i++)
            while (!at_head(o, i) && state_enabled(o->m, &o->l, o->w, i)) {
                step(o, i);
                more = true;
            }
    }
}

// Those who are furthest behind begin their round. False: nobody stands in front of one.
static bool go_on(Order *o, bool states)
{
    int first = -1;
    Path least = {0}, p;
    for (int i = 0; i < o->n; i++) {
        if (!at_head(o, i)) continue;
        p = path_of(o, i, o->next_head[i]);
        if (first >= 0 && compare(&p, &least) >= 0) continue;
        first = i;
        least = p;
    }
    if (first < 0) return false;
    const Head *h = least.at[least.n - 1], *outer = least.n > 1 ? least.at[least.n - 2] : NULL;
    OrderStop stop = {h->follows ? -1 : h->decision,
                      h->k,
                      h->n,
                      outer ? outer->decision : -1,
                      outer ? outer->k : 0,
                      outer ? outer->n : -1,
                      least.n,
                      h->op,
                      0};
    if (states) stop.state = state(o, &least);
    vec_push(o->m->arena, &o->out->stops, stop);
    for (int i = 0; i < o->n; i++) {
        if (!at_head(o, i)) continue;
        p = path_of(o, i, o->next_head[i]);
        if (compare(&p, &least) == 0) {
            o->next_head[i]++;
            segment(o, i);
        }
    }
    return true;
}

// Which warps may wait for which mbarriers, in whatever case.
static void find_waits(Order *o, const ThreadBlock *b, int first, int warps)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        for (int k = 0; op->op == OP_MBAR_WAIT && k < o->nb; k++)
            for (int a = 0; a < o->n; a++) {
                int warp = o->m->agents.at[a].warp;
                if (o->m->bars.at[k].buffer == op->mem[0].buffer && warp >= first &&
                    warp < first + warps)
                    o->waits[k * o->n + a] = 1;
            }
        bool role = op->op == OP_ROLE;
        find_waits(o, &op->body, role ? op->imm : first, role ? op->n : warps);
        find_waits(o, &op->other, first, warps);
    }
}

void order_run(Model *m, bool states, OrderRun *out)
{
    Arena *a = m->arena;
    Order o = {.m = m,
               .out = out,
               .l = state_layout(m),
               .n = m->agents.n,
               .nb = m->bars.n,
               .nn = m->ctas * BARRIERS_EACH,
               .nsets = m->bytes->sets.n};
    o.async = o.n + o.nb + o.nn;
    o.length = o.async + o.n + o.nb;
    o.w = ARENA_ARRAY(a, u32, o.l.words);
    state_start(m, &o.l, o.w);
    o.clock = ARENA_ARRAY(a, i32, o.n * o.length);
    o.carry = ARENA_ARRAY(a, i32, o.nb * o.length + 1);
    o.done = ARENA_ARRAY(a, i32, o.nb * o.length + 1);
    o.ncarry = ARENA_ARRAY(a, i32, o.nn * o.length);
    o.ndone = ARENA_ARRAY(a, i32, o.nn * o.length);
    o.ccarry = ARENA_ARRAY(a, i32, o.length);
    o.cdone = ARENA_ARRAY(a, i32, o.length);
    o.round = ARENA_ARRAY(a, i32, o.nn);
    o.last = ARENA_ARRAY(a, LastWait, o.nb * o.n + 1);
    for (int i = 0; i < o.nb * o.n; i++) o.last[i].event = -1;
    o.waits = ARENA_ARRAY(a, u8, o.nb * o.n + 1);
    find_waits(&o, &m->fn->body, 0, m->warps);
    o.next_access = ARENA_ARRAY(a, i32, o.n);
    o.next_head = ARENA_ARRAY(a, i32, o.n);
    o.records = arena_alloc(a, sizeof *o.records * (size_t)(o.nsets + 1));
    o.written = ARENA_ARRAY(a, u64, m->ctas * m->arena_bytes / 64 + 2);
    o.whole = ARENA_ARRAY(a, u8, o.nsets + 1);
    own_faults(&o);
    for (int i = 0; i < o.n; i++) segment(&o, i);
    do run_all(&o);
    while (go_on(&o, states));
    ends(&o);
    // Where something else is wrong, that is why.
    if (o.unwritten.rule && !out->faults.n) fault(&o, o.unwritten);
}
