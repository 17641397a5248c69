// observe.c - the rounds of an observed CTA (with the others of its cluster), and its records.
//
// In: the operation that each warp is about to execute, and its state before and after. Out:
// records of trace/trace.h. What happens beside the warps (copies, products, phases) is told by the
// operations' own files through the emu_saw functions.
//
// Invariant: the program does what it does unobserved under a schedule that is legal for the
// machine: effects are performed inside their window, only later or earlier in it.
#include "observe.h"
#include "state.h"

#include <string.h>

// How long asynchronous work takes on an H200, in cycles, from measurements of single operations:
// a bulk load of n bytes out of L2 is seen LOAD_LATENCY + n / LOAD_RATE cycles after its issue, and
// the next one of the same SM can begin after BOX_COST + n / BOX_RATE. One wgmma with N columns
// keeps the tensor cores busy for max(N / 2, 16 + N / 4) cycles (N / 2 when A lies in registers),
// and its result can be used PRODUCT_LATENCY later.
enum { LOAD_LATENCY = 450, LOAD_RATE = 113, BOX_COST = 78, BOX_RATE = 56, PRODUCT_LATENCY = 54 };

typedef struct {
    i64 wake;              // step at which the warp may try again; 0: not by time
    bool waiting;          // its wait has a record
    TracePlace wait;       // what it waits for
    int access[2];         // first and last record of a run of accesses; -1: none
    TracePlace place;      // of that run ...
    u8 kind;               // ... and TRACE_READ or TRACE_WRITE
} Eye;

typedef struct {
    i64 copy_free, tensor_free; // steps from which the units can begin something new
    VEC(i64) done[EMU_MAX_WARPS / 4]; // per product of a group: its end
} Units;

struct EmuObserved {
    TraceLog *log;
    EmuCta *cta;           // the observed one
    i64 now;
    bool rounds;           // round-robin: all warps move together
    u32 ids;
    Eye *eye;              // per warp of the cluster
    Units unit[THREAD_MAX_CLUSTER];
};

// ---- records ------------------------------------------------------------------------------------

static bool sees(const EmuCta *c) { return c->run->observed && c->run->observed->cta == c; }

static Eye *eye_of(const EmuWarp *w) { return &w->cta->run->observed->eye[w->index]; }

static void put(EmuObserved *o, TraceRecord r)
{
    vec_push(o->log->arena, &o->log->records, r);
}

static void put_warp(EmuWarp *w, TraceKind kind, const EmuOp *op, TracePlace at, i64 n)
{
    EmuObserved *o = w->cta->run->observed;
    u32 round = w->loops ? w->loop_iter[w->loops - 1] : 0;
    eye_of(w)->access[0] = -1;
    put(o, (TraceRecord){.time = o->now, .op = op ? op->src : NULL, .kind = (u8)kind,
                         .warp = w->id, .round = round, .at = at, .other = TRACE_NOWHERE, .n = n});
}

// The slot of the tile that a memory reference names, at an arena offset.
static TracePlace slot_at(const EmuCta *c, i32 buffer, u32 offset)
{
    if (buffer < 0) return TRACE_NOWHERE;
    const ThreadBuffer *b = &c->run->fn->buffers.at[buffer];
    i64 bytes = thread_buffer_bytes(b);
    u32 slots = (u32)trace_slots(b);
    if (b->kind != BUF_SHARED || bytes < slots) return TRACE_NOWHERE;
    i64 slot = ((i64)offset - b->offset) / (bytes / slots);
    if (slot < 0 || slot >= slots) return TRACE_NOWHERE;
    return (TracePlace){buffer, (i32)slot, TRACE_UNKNOWN};
}

static TracePlace phase_of(const EmuBar *b, i64 phase)
{
    return (TracePlace){b->buffer, b->slot, phase};
}

// A run of accesses of one kind to one slot has two records, its first and its last.
// The address stands behind the destination, where there is one.
static void saw_access(EmuWarp *w, const EmuOp *op, u32 mask, bool write)
{
    EmuObserved *o = w->cta->run->observed;
    Eye *e = eye_of(w);
    bool first = op->op == OP_STS || op->op == OP_STMATRIX || op->op == OP_CPASYNC;
    u32 offset = (u32)emu_address(w, &op->o[!first], emu_first_lane(mask)) - EMU_SMEM_BASE;
    TracePlace at = slot_at(w->cta, emu_named(op, 0), offset);
    u8 kind = write ? TRACE_WRITE : TRACE_READ;
    if (at.buffer < 0) return;
    bool same = e->access[0] >= 0 && e->kind == kind && e->place.buffer == at.buffer &&
                e->place.slot == at.slot;
    if (same && e->access[1] >= 0) {
        o->log->records.at[e->access[1]].time = o->now;
        o->log->records.at[e->access[1]].op = op->src;
        return;
    }
    int begin = same ? e->access[0] : o->log->records.n;
    put_warp(w, (TraceKind)kind, op, at, 0);
    e->access[0] = begin;
    e->access[1] = same ? o->log->records.n - 1 : -1;
    e->place = at;
    e->kind = kind;
}

// ---- what happens beside the warps --------------------------------------------------------------

void emu_saw_load(EmuWarp *w, EmuEffect *e, const EmuBar *b, u32 bytes)
{
    EmuCta *c = w->at;
    EmuObserved *o = c->run->observed;
    Units *u = &o->unit[c->rank];
    i64 start = MAX(o->now, u->copy_free);
    u->copy_free = start + BOX_COST + bytes / BOX_RATE;
    e->due = start + LOAD_LATENCY + bytes / LOAD_RATE;
    e->id = ++o->ids;
    if (!sees(c)) return;
    u32 round = w->loops ? w->loop_iter[w->loops - 1] : 0;
    put(o, (TraceRecord){.time = o->now, .op = e->op->src, .kind = TRACE_LOAD, .warp = w->id,
                         .round = round, .id = e->id, .n = bytes,
                         .at = slot_at(c, emu_named(e->op, 0), e->smem),
                         .other = phase_of(b, b->phase)});
}

void emu_saw_landed(EmuCta *c, const EmuEffect *e, const EmuBar *b, u32 bytes)
{
    EmuObserved *o = c->run->observed;
    if (!sees(c)) return;
    put(o, (TraceRecord){.time = o->now, .op = e->op->src, .kind = TRACE_LANDED, .warp = e->warp,
                         .id = e->id, .n = bytes, .at = slot_at(c, emu_named(e->op, 0), e->smem),
                         .other = phase_of(b, b->phase)});
}

// The store is complete after the same time as a load; its source has been read when the next copy
// can begin.
void emu_saw_store(EmuWarp *w, EmuEffect *e, u32 bytes)
{
    EmuCta *c = w->cta;
    EmuObserved *o = c->run->observed;
    Units *u = &o->unit[c->rank];
    i64 start = MAX(o->now, u->copy_free);
    u->copy_free = e->read_due = start + BOX_COST + bytes / BOX_RATE;
    e->due = MAX(e->read_due, start + LOAD_LATENCY + bytes / LOAD_RATE);
    e->id = ++o->ids;
    if (!sees(c)) return;
    put_warp(w, TRACE_STORE, e->op, slot_at(c, emu_named(e->op, 0), e->smem), bytes);
    TraceRecord *r = &o->log->records.at[o->log->records.n - 1];
    r->id = e->id;
    TraceRecord stored = *r;
    stored.kind = TRACE_STORED;
    stored.time = e->due;
    if (o->rounds) put(o, stored);
}

// Where the first row of an operand lies, by its descriptor.
static TracePlace operand_at(const EmuCta *c, const EmuOp *op, int mem, u64 desc)
{
    return slot_at(c, emu_named(op, mem), (u32)((desc & 0x3fff) << 4) - EMU_SMEM_BASE);
}

// Product `index` of the group has been issued by a warp. It runs once all four have.
void emu_saw_product(EmuWarp *w, const EmuOp *op, const EmuProduct *p, u32 index)
{
    EmuCta *c = w->cta;
    EmuObserved *o = c->run->observed;
    Units *u = &o->unit[c->rank];
    u32 group = w->id / 4u, id = (index + 1) * (EMU_MAX_WARPS / 4) + group;
    bool rs = op->op == OP_WGMMA_RS;
    TraceRecord r = {.time = o->now, .op = op->src, .kind = TRACE_PRODUCT, .warp = w->id, .id = id,
                     .round = w->loops ? w->loop_iter[w->loops - 1] : 0,
                     .at = rs ? TRACE_NOWHERE : operand_at(c, op, 0, p->desc_a),
                     .other = operand_at(c, op, rs ? 0 : 1, p->desc_b)};
    if (sees(c)) {
        eye_of(w)->access[0] = -1;
        put(o, r);
    }
    if (p->issued != 15 || !o->rounds) return;
    u32 cycles = rs ? op->n / 2u : MAX(op->n / 2u, 16 + op->n / 4u);
    i64 start = MAX(o->now, u->tensor_free);
    u->tensor_free = start + cycles;
    while ((u32)u->done[group].n <= index) vec_push(c->run->arena, &u->done[group], 0);
    u->done[group].at[index] = start + cycles + PRODUCT_LATENCY;
    if (!sees(c)) return;
    r.kind = TRACE_STARTED;
    r.time = start;
    put(o, r);
    r.kind = TRACE_DONE;
    r.time = start + cycles + PRODUCT_LATENCY;
    put(o, r);
}

void emu_saw_phase(EmuCta *c, const EmuBar *b)
{
    EmuObserved *o = c->run->observed;
    if (!sees(c)) return;
    put(o, (TraceRecord){.time = o->now, .kind = TRACE_COMPLETE, .at = phase_of(b, b->phase),
                         .other = TRACE_NOWHERE});
}

// ---- an operation of a warp ---------------------------------------------------------------------

static u32 mask_of(const EmuWarp *w, const EmuOp *op)
{
    if (op->guard < 0) return w->mask;
    u32 bits = w->regs[(size_t)op->guard * 32];
    return w->mask & (op->guard_negate ? ~bits : bits);
}

// The mbarrier of the first lane, in its own CTA; NULL where there is none.
static const EmuBar *bar_of(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u64 offset = emu_address(w, &op->o[0], emu_first_lane(mask)) - EMU_SMEM_BASE;
    const EmuCta *c = w->cta;
    if (offset >= c->smem_bytes || c->bar_at[offset / 8] < 0) return NULL;
    return &c->bar[c->bar_at[offset / 8]];
}

// The step until which a wait for asynchronous work must last; 0: until it passes by itself.
static i64 last_due(const EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuCta *c = w->cta;
    i64 due = 0;
    if (op->op == OP_WGMMA_WAIT) {
        int commit = w->commits.n - 1 - op->n;
        u32 upto = commit >= 0 ? w->commits.at[commit] : 0;
        const Units *u = &c->run->observed->unit[c->rank];
        if (upto > w->waited && upto <= (u32)u->done[w->id / 4].n)
            due = u->done[w->id / 4].at[upto - 1];
        return due;
    }
    if (op->op != OP_BULK_WAIT && op->op != OP_BULK_WAIT_READ) return 0;
    for (const EmuEffect *e = c->fx_first; e; e = e->next)
        if (e->kind == FX_BULK_STORE && e->warp == w->id && (mask >> e->lane & 1) &&
            e->group + op->n < w->bulk_group[e->lane])
            due = MAX(due, op->op == OP_BULK_WAIT ? e->due : e->read_due);
    return due;
}

static bool is_wait(const EmuOp *op)
{
    switch (op->op) {
    case OP_MBAR_WAIT:
    case OP_BAR_SYNC:
    case OP_BAR_CLUSTER:
    case OP_WGMMA_WAIT:
    case OP_BULK_WAIT:
    case OP_BULK_WAIT_READ:
    case OP_CPASYNC_WAIT:
    case OP_SETMAXNREG_INC: return true;
    default: return false;
    }
}

// What a wait that begins now waits for.
static TracePlace wait_place(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (op->op == OP_BAR_SYNC)
        return (TracePlace){-1, (i32)*emu_reg(w, (EmuOpnd *)&op->o[0]), TRACE_UNKNOWN};
    if (op->op != OP_MBAR_WAIT) return TRACE_NOWHERE;
    const EmuBar *b = bar_of(w, op, mask);
    if (!b) return TRACE_NOWHERE;
    u32 parity = emu_reg(w, &op->o[2])[emu_first_lane(mask)] & 1;
    return phase_of(b, (b->phase & 1) == parity ? (i64)b->phase : (i64)b->phase - 1);
}

// Before the operation runs: what changes with it, and waits that begin.
static void before(EmuWarp *w, const EmuOp *op, u32 mask)
{
    Eye *e = eye_of(w);
    switch (op->op) {
    case OP_MBAR_ARRIVE:
    case OP_MBAR_ARRIVE_EXPECT:
    case OP_MBAR_EXPECT:
    case OP_CPASYNC_ARRIVE: {
        const EmuBar *b = bar_of(w, op, mask);
        if (!b) break;
        i64 bytes = 0;
        if (op->op == OP_MBAR_ARRIVE_EXPECT || op->op == OP_MBAR_EXPECT)
            bytes = emu_reg(w, &op->o[2])[emu_first_lane(mask)];
        put_warp(w, TRACE_ARRIVE, op, phase_of(b, b->phase), bytes);
        break;
    }
    case OP_MBAR_ARRIVE_CLUSTER: {
        const EmuBar *b = bar_of(w, op, mask);
        bool own = false; // an arrival at another CTA is none of this one's
        for (u32 rest = mask; rest; rest &= rest - 1)
            own |= emu_reg(w, &op->o[2])[emu_first_lane(rest)] == w->cta->rank;
        if (b && own) put_warp(w, TRACE_ARRIVE, op, phase_of(b, b->phase), 0);
        break;
    }
    case OP_BAR_ARRIVE:
        put_warp(w, TRACE_ARRIVE, op,
                 (TracePlace){-1, (i32)*emu_reg(w, &op->o[0]), TRACE_UNKNOWN}, 0);
        break;
    case OP_WGMMA_COMMIT:
    case OP_BULK_COMMIT:
    case OP_CPASYNC_COMMIT: put_warp(w, TRACE_COMMIT, op, TRACE_NOWHERE, 0); break;
    case OP_LDS:
    case OP_LDMATRIX: saw_access(w, op, mask, false); break;
    case OP_STS:
    case OP_STMATRIX:
    case OP_CPASYNC: saw_access(w, op, mask, true); break;
    case OP_ATOMS:
    case OP_CASS:
        saw_access(w, op, mask, false);
        saw_access(w, op, mask, true);
        break;
    default: break;
    }
    if (!is_wait(op) || e->waiting) return;
    e->wait = wait_place(w, op, mask);
    e->waiting = true;
    put_warp(w, TRACE_WAIT, op, e->wait, op->n);
}

static void after(EmuWarp *w, const EmuOp *op, EmuResult result)
{
    Eye *e = eye_of(w);
    if (result == RUN_BLOCK) return;
    if (e->waiting) put_warp(w, TRACE_PASS, op, e->wait, op->n);
    e->waiting = false;
    if (op->op == OP_SETMAXNREG_INC || op->op == OP_SETMAXNREG_DEC)
        put_warp(w, TRACE_REGISTERS, op, TRACE_NOWHERE, op->n);
    if (result == RUN_DONE) put_warp(w, TRACE_END, NULL, TRACE_NOWHERE, 0);
}

// One operation at a time. A wait for work that is not due yet is not tried at all.
EmuResult emu_observed_turn(EmuWarp *w, i64 budget)
{
    EmuObserved *o = w->cta->run->observed;
    EmuResult result = RUN_NEXT;
    while (budget-- > 0 && (result == RUN_NEXT || o->rounds)) {
        const EmuOp *op = &w->cta->run->prog->ops[w->pc];
        u32 mask = mask_of(w, op);
        bool told = sees(w->cta) && mask;
        i64 due = o->rounds && mask ? last_due(w, op, mask) : 0;
        if (told) before(w, op, mask);
        if (due > o->now) {
            eye_of(w)->wake = due;
            return RUN_BLOCK;
        }
        result = emu_turn(w, 1);
        if (told) after(w, op, result);
        if (result == RUN_BLOCK || result == RUN_DONE) break;
        if (!o->rounds) o->now++;
    }
    return result;
}

// ---- rounds -------------------------------------------------------------------------------------

// A load leaves the list when it lands.
void emu_observed_due(EmuRun *r)
{
    EmuObserved *o = r->observed;
    for (u32 k = 0; k < r->ctas; k++) {
        EmuCta *c = r->cta[k];
        for (EmuEffect *e = c->fx_first, *next; e; e = next) {
            next = e->next;
            if (e->kind == FX_BULK_LOAD && e->due <= o->now) emu_effect_run(c, e);
        }
        for (int i = 0; i < c->warps; i++) {
            Eye *eye = eye_of(&c->warp[i]);
            if (!eye->wake || eye->wake > o->now) continue;
            eye->wake = 0;
            if (c->warp[i].state == WARP_BLOCKED) c->warp[i].state = WARP_READY;
        }
    }
}

// The next step; when no warp moved, the next one at which something is due. False: there is none.
bool emu_observed_step(EmuRun *r, bool moved)
{
    EmuObserved *o = r->observed;
    i64 next = INT64_MAX;
    for (u32 k = 0; k < r->ctas && !moved; k++) {
        const EmuCta *c = r->cta[k];
        for (const EmuEffect *e = c->fx_first; e; e = e->next)
            if (e->kind == FX_BULK_LOAD) next = MIN(next, e->due);
        for (int i = 0; i < c->warps; i++)
            if (eye_of(&c->warp[i])->wake) next = MIN(next, eye_of(&c->warp[i])->wake);
    }
    if (!moved && next == INT64_MAX) return false;
    o->now = moved ? o->now + 1 : MAX(next, o->now + 1);
    return true;
}

// ---- beginning and end --------------------------------------------------------------------------

// Linear index of the CTA, or -1: none of this launch.
static i64 wanted(const EmuRun *r)
{
    const EmuObserver *q = r->launch->observer;
    const i64 *g = r->launch->grid;
    if (!q || q->launch != r->launch->number) return -1;
    for (int i = 0; i < 3; i++)
        if (q->cta[i] < 0 || q->cta[i] >= g[i]) return -1;
    return q->cta[0] + g[0] * (q->cta[1] + g[1] * q->cta[2]);
}

bool emu_observed_begin(EmuRun *r, i64 first)
{
    i64 cta = wanted(r) - first;
    if (cta < 0 || cta >= r->ctas) return false;
    static const char *const names[] = {"round-robin", "random", "adversarial"};
    EmuObserver *q = r->launch->observer;
    EmuObserved *o = r->observed = ARENA_NEW(r->arena, EmuObserved);
    EmuCta *c = r->cta[cta];
    o->log = q->log;
    o->cta = c;
    o->rounds = r->launch->schedule == SCHED_ROUND_ROBIN;
    o->eye = ARENA_ARRAY(r->arena, Eye, r->ctas * r->warp_stride);
    q->seen = true;
    q->log->fn = r->fn;
    q->log->unit = TRACE_STEPS;
    q->log->note = o->rounds ? "A step: every warp that can run executes one operation; copies and "
                               "products last as many steps as cycles on an idle H200. Steps are "
                               "not cycles."
                             : "A step is one operation of one warp, chosen by the schedule. Steps "
                               "are not cycles.";
    memcpy(q->log->cta, q->cta, sizeof q->cta);
    q->log->device = arena_printf(q->log->arena, "emulator, %s schedule",
                                  names[r->launch->schedule]);
    for (int i = 0; i < c->warps; i++) {
        o->eye[c->warp[i].index].access[0] = -1;
        put(o, (TraceRecord){.kind = TRACE_BEGIN, .warp = (u8)i, .at = TRACE_NOWHERE,
                             .other = TRACE_NOWHERE});
    }
    return true;
}

bool emu_observed_end(EmuRun *r)
{
    bool all = r->observed && r->launch->observer->only;
    r->observed = NULL;
    return all;
}

bool emu_observed_before(const EmuLaunch *l)
{
    return !l->observer || !l->observer->only || l->number <= l->observer->launch;
}
