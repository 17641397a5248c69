// state.c - one state of the system and its steps: mbarriers with phases, arrivals and bytes, named
// barriers, the cluster's barrier, the pool of registers.
//
// A state is a row of words: positions of all entities (agents, then loads), what an agent
// remembers while it waits, and the shared objects. Steps are total: what breaks a rule is noted as
// a fault and then done as the machine would, as far as it can be.
#include "model.h"

#include <string.h>

enum { BAR_WORDS = 4, NAMED_WORDS = 3 };
enum { PHASE, PENDING, BYTES, ARRIVALS };   // words of an mbarrier; ARRIVALS 0: no mbar.init yet
enum { CAME, THREADS, ROUND };              // words of a named barrier
enum { LOAD_NONE, LOAD_OUT, LOAD_LANDED };

StateLayout state_layout(const Model *m)
{
    StateLayout l = {.entities = m->agents.n + m->loads.n};
    l.note = l.pos + l.entities;
    l.bar = l.note + m->agents.n;
    l.named = l.bar + m->bars.n * BAR_WORDS;
    l.cluster = l.named + m->ctas * NAMED_BARRIERS * NAMED_WORDS;
    l.pool = l.cluster + 2;
    l.words = l.pool + m->ctas;
    return l;
}

void state_start(const Model *m, const StateLayout *l, u32 *w)
{
    (void)m;
    memset(w, 0, sizeof *w * (size_t)l->words);
}

static const Event *next_event(const Model *m, const StateLayout *l, const u32 *w, int agent)
{
    const Agent *a = &m->agents.at[agent];
    i32 p = (i32)w[l->pos + agent];
    return p < a->events.n ? &a->events.at[p] : NULL;
}

bool state_done(const Model *m, const StateLayout *l, const u32 *w, int entity)
{
    if (entity >= m->agents.n) return w[l->pos + entity] != LOAD_OUT;
    return (i32)w[l->pos + entity] >= m->agents.at[entity].events.n;
}

bool state_enabled(const Model *m, const StateLayout *l, const u32 *w, int entity)
{
    if (entity >= m->agents.n) return w[l->pos + entity] == LOAD_OUT;
    const Event *e = next_event(m, l, w, entity);
    if (!e) return false;
    const u32 *b;
    switch (e->kind) {
    case EV_WAIT:
        b = &w[l->bar + e->bar * BAR_WORDS];
        return !b[ARRIVALS] || (b[PHASE] & 1) != (e->arg & 1);
    case EV_BAR_PASS: return w[l->named + e->bar * NAMED_WORDS + ROUND] != w[l->note + entity];
    case EV_CLUSTER_PASS: return w[l->cluster + 1] != w[l->note + entity];
    case EV_REGS:
        return e->arg <= e->count ||
               (i32)w[l->pool + m->agents.at[entity].cta] >= (i32)(e->arg - e->count);
    default: return true;
    }
}

static void set_fault(StepFault *f, const char *rule, const char *text, int bar, int victim)
{
    if (!f->rule) *f = (StepFault){rule, text, bar, victim};
}

// The phase ends when all arrivals and all bytes are in. Whoever stands at a wait that was open for
// the phase before has missed it.
static void flip(const Model *m, const StateLayout *l, u32 *w, int bar, StepFault *f)
{
    u32 *b = &w[l->bar + bar * BAR_WORDS];
    if (!b[ARRIVALS] || b[PENDING]) return;
    if ((i32)b[BYTES] < 0)
        set_fault(f, "O10", "all arrivals are in, but more bytes landed than were expected", bar, -1);
    if (b[BYTES]) return;
    for (int i = 0; i < m->agents.n; i++) {
        const Event *e = next_event(m, l, w, i);
        if (e && e->kind == EV_WAIT && e->bar == bar && (b[PHASE] & 1) != (e->arg & 1))
            set_fault(f, "O10", "a waiter is two phases behind: the parity it asks for now means "
                                "another generation", bar, i);
    }
    b[PHASE]++;
    b[PENDING] = b[ARRIVALS];
}

static void arrive(const Model *m, const StateLayout *l, u32 *w, const Event *e, StepFault *f)
{
    u32 *b = &w[l->bar + e->bar * BAR_WORDS];
    for (int i = 0; i < e->count; i++) {
        b[BYTES] += (u32)e->arg;
        if (!b[PENDING]) {
            set_fault(f, "O10", "one arrival more than the count while the phase waits for bytes",
                      e->bar, -1);
            return;
        }
        b[PENDING]--;
        flip(m, l, w, e->bar, f);
    }
}

static void come(const Model *m, const StateLayout *l, u32 *w, const Event *e, int agent,
                 StepFault *f)
{
    (void)m;
    u32 *b = &w[l->named + e->bar * NAMED_WORDS];
    w[l->note + agent] = b[ROUND];
    if (e->arg % LANES || e->arg <= 0)
        set_fault(f, "O11", "the thread count is no multiple of 32", -1, -1);
    if (b[CAME] && b[THREADS] != (u32)e->arg)
        set_fault(f, "O11", "the thread count differs from that of the others who came", -1, -1);
    b[THREADS] = (u32)e->arg;
    b[CAME] += LANES;
    if (b[CAME] < b[THREADS]) return;
    b[ROUND]++;
    b[CAME] = b[THREADS] = 0;
}

static bool block_over(const Model *m, const StateLayout *l, const u32 *w, int cta)
{
    for (int i = 0; i < m->warps; i++)
        if (!state_done(m, l, w, cta * m->warps + i)) return false;
    return true;
}

static void issue(const Model *m, const StateLayout *l, u32 *w, const Event *e, int agent,
                  StepFault *f)
{
    for (int i = 0; i < e->count; i++) {
        const Load *load = &m->loads.at[e->load + i];
        int cta = m->bars.at[load->bar].cta;
        if (!w[l->bar + load->bar * BAR_WORDS + ARRIVALS])
            set_fault(f, "O8", "uses an mbarrier before mbar.init", load->bar, -1);
        if (cta != m->agents.at[agent].cta && block_over(m, l, w, cta))
            set_fault(f, "O15", "loads into a block that has ended", load->bar, -1);
        w[l->pos + m->agents.n + e->load + i] = LOAD_OUT;
    }
}

static void cluster_arrive(const Model *m, const StateLayout *l, u32 *w, int agent)
{
    w[l->note + agent] = w[l->cluster + 1];
    if (++w[l->cluster] < (u32)m->agents.n) return;
    w[l->cluster] = 0;
    w[l->cluster + 1]++;
}

void state_step(const Model *m, const StateLayout *l, u32 *w, int entity, StepFault *f)
{
    if (entity >= m->agents.n) {
        const Load *load = &m->loads.at[entity - m->agents.n];
        w[l->pos + entity] = LOAD_LANDED;
        w[l->bar + load->bar * BAR_WORDS + BYTES] -= (u32)load->bytes;
        flip(m, l, w, load->bar, f);
        return;
    }
    const Event *e = next_event(m, l, w, entity);
    u32 *b = e->bar >= 0 ? &w[l->bar + e->bar * BAR_WORDS] : NULL;
    bool mbarrier = e->kind <= EV_WAIT;
    w[l->pos + entity]++;
    if (mbarrier && e->kind != EV_INIT && !b[ARRIVALS]) {
        set_fault(f, "O8", "uses an mbarrier before mbar.init", e->bar, -1);
        return;
    }
    switch (e->kind) {
    case EV_INIT:
        if (b[ARRIVALS]) set_fault(f, "O8", "initialises a live mbarrier again", e->bar, -1);
        if (e->arg < 1 || e->arg >= 1 << 20)
            set_fault(f, "O10", "the count of arrivals must be 1 to 1048575", e->bar, -1);
        b[ARRIVALS] = b[PENDING] = (u32)MAX(e->arg, 1);
        b[PHASE] = b[BYTES] = 0;
        break;
    case EV_ARRIVE:
        if (e->remote && block_over(m, l, w, m->bars.at[e->bar].cta))
            set_fault(f, "O15", "arrives at a block that has ended", e->bar, -1);
        arrive(m, l, w, e, f);
        break;
    case EV_EXPECT:
        b[BYTES] += (u32)e->arg * (u32)e->count;
        flip(m, l, w, e->bar, f);
        break;
    case EV_LOAD: issue(m, l, w, e, entity, f); break;
    case EV_BAR_ARRIVE: come(m, l, w, e, entity, f); break;
    case EV_CLUSTER_ARRIVE: cluster_arrive(m, l, w, entity); break;
    case EV_REGS: w[l->pool + m->agents.at[entity].cta] += (u32)(e->count - (i32)e->arg); break;
    default: break; // waits only pass
    }
}

i64 state_generation(const Model *m, const StateLayout *l, const u32 *w, int entity)
{
    if (entity >= m->agents.n) {
        if (w[l->pos + entity] != LOAD_OUT) return -1;
        return w[l->bar + m->loads.at[entity - m->agents.n].bar * BAR_WORDS + PHASE];
    }
    const Event *e = next_event(m, l, w, entity);
    if (!e) return -1;
    if (e->kind <= EV_WAIT && e->kind != EV_INIT)
        return state_enabled(m, l, w, entity) ? (i64)w[l->bar + e->bar * BAR_WORDS + PHASE] : -1;
    if (e->kind == EV_BAR_ARRIVE) return w[l->named + e->bar * NAMED_WORDS + ROUND];
    return -1;
}

void state_barrier(const StateLayout *l, const u32 *w, int bar, BarrierState *out)
{
    const u32 *b = &w[l->bar + bar * BAR_WORDS];
    *out = (BarrierState){b[PHASE], b[ARRIVALS] - b[PENDING], b[ARRIVALS], (i32)b[BYTES]};
}

void state_named(const StateLayout *l, const u32 *w, int bar, u32 *came, u32 *threads)
{
    const u32 *b = &w[l->named + bar * NAMED_WORDS];
    *came = b[CAME];
    *threads = b[THREADS];
}
