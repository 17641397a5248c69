// slots.c - lanes of slots: who holds each generation of a slot.
//
// A slot is being filled from the first copy or write of a generation until the bytes are there,
// full until somebody reads, being read until its readers have handed it back, then free. It is
// handed back when the phase completes that its filler waits for before the next generation;
// where no mbarrier guards it, when the last read is over.
#include "impl.h"

typedef struct {
    TracePlace place;      // generation: the current one, -1 before the first
    i64 fill, full;        // times; full is -1 while not known
    i64 read, last;        // first and last read, -1: none
    i64 handed;            // time of the hand-back, -1: not known
    bool latest;           // `full` is a wait's end
    bool stored;           // its last bulk store has read it
    int loads;             // not landed
    TracePlace full_bar;   // mbarrier phase of its loads
    TracePlace gate;       // that the filler waited for, with the phase; nowhere: none
    const ThreadOp *op;    // that began to fill it
    u32 readers;           // warps, one bit each
    VEC(TraceSpan) spans;
} Slot;

typedef struct {
    TraceBuild *b;
    Slot **slot;           // per buffer: its slots, NULL before the first use
    Map *loads;            // id -> Slot
    TracePlace gate[TRACE_MAX_WARPS]; // last mbarrier that a warp passed and no copy completes
    Map *complete;         // mbarrier phase -> time + 1
    bool writes;           // the source tells ordinary writes
    struct {
        VEC(const TraceRecord *) product, store;
        TraceQueue products, stores;
    } warp[TRACE_MAX_WARPS];
} Slots;

static Slot *slot_of(Slots *s, TracePlace p)
{
    const ThreadFn *fn = s->b->fn;
    if (p.buffer < 0 || p.buffer >= fn->buffers.n) return NULL;
    int n = trace_slots(&fn->buffers.at[p.buffer]);
    if (p.slot < 0 || p.slot >= n) return NULL;
    if (!s->slot[p.buffer]) {
        s->slot[p.buffer] = ARENA_ARRAY(s->b->arena, Slot, n);
        for (int i = 0; i < n; i++)
            s->slot[p.buffer][i] = (Slot){.place = {p.buffer, i, -1}, .full = -1, .read = -1,
                                          .last = -1, .handed = -1, .full_bar = TRACE_NOWHERE,
                                          .gate = TRACE_NOWHERE};
    }
    return &s->slot[p.buffer][p.slot];
}

// Time at which an mbarrier's phase was complete, as far as the records tell; -1.
static i64 completed(const Slots *s, TracePlace p)
{
    if (p.buffer < 0 || p.generation < 0) return -1;
    return (i64)(intptr_t)map_get(s->complete, trace_key(p)) - 1;
}

// ---- generations --------------------------------------------------------------------------------

static void span(Slots *s, Slot *t, TraceSpanKind kind, i64 begin, i64 end, i64 n)
{
    if (end <= begin) return;
    TraceSpan x = {.begin = begin, .end = end, .kind = (u8)kind, .at = t->place,
                   .latest = kind == SPAN_FILLING && t->latest, .other = t->full_bar,
                   .generation = t->place.generation, .op = t->op, .n = n,
                   .name = trace_place_name(s->b->arena, s->b->fn, t->place)};
    vec_push(s->b->arena, &t->spans, x);
}

// The current generation ends at `end`, the next fill or the end of the record; `gate` is the phase
// that let its filler go, nowhere when nobody knows.
static void close_generation(Slots *s, Slot *t, i64 end, TracePlace gate)
{
    if (t->place.generation < 0) return;
    i64 full = t->full >= 0 ? MIN(t->full, end) : t->read >= 0 ? t->read : end;
    i64 read = t->read >= 0 ? MAX(full, MIN(t->read, end)) : end;
    i64 held = MAX(read, MIN(t->last, end));
    i64 handed = completed(s, gate);
    if (t->read >= 0 && handed >= held && handed <= end) held = handed;
    span(s, t, SPAN_FILLING, t->fill, full, 0);
    span(s, t, SPAN_FULL, full, read, 0);
    span(s, t, SPAN_READING, read, held, t->readers);
    span(s, t, SPAN_FREE, held, end, 0);
}

static void begin_generation(Slots *s, Slot *t, const TraceRecord *r, TracePlace gate)
{
    close_generation(s, t, r->time, gate);
    t->place.generation++;
    t->fill = r->time;
    t->full = t->read = t->last = -1;
    t->latest = t->stored = false;
    t->loads = 0;
    t->readers = 0;
    t->op = r->op;
    t->gate = gate;
    t->full_bar = TRACE_NOWHERE;
}

static void load(Slots *s, const TraceRecord *r)
{
    Slot *t = slot_of(s, r->at);
    if (!t) return;
    if (t->place.generation < 0 || !trace_same(t->full_bar, r->other) || t->read >= 0) {
        begin_generation(s, t, r, s->gate[r->warp]);
        t->full_bar = r->other;
    }
    t->loads++;
    if (r->id) map_put(s->loads, (void *)(uintptr_t)r->id, t);
}

static void landed(Slots *s, const TraceRecord *r)
{
    Slot *t = r->id ? map_get(s->loads, (void *)(uintptr_t)r->id) : NULL;
    if (!t || --t->loads) return;
    t->full = r->time;
    t->latest = false;
}

static void wrote(Slots *s, const TraceRecord *r)
{
    Slot *t = slot_of(s, r->at);
    if (!t) return;
    if (t->place.generation < 0 || t->read >= 0) begin_generation(s, t, r, TRACE_NOWHERE);
    t->full = r->time;
}

static void read_by(Slots *s, TracePlace p, u8 warp, i64 time)
{
    Slot *t = slot_of(s, p);
    if (!t || t->place.generation < 0) return;
    if (t->read < 0) t->read = time;
    t->last = MAX(t->last, time);
    t->readers |= 1u << warp;
}

// A slot may have moved on when an asynchronous read is known to be over only later.
static void read_until(Slots *s, TracePlace p, i64 issued, i64 time)
{
    Slot *t = slot_of(s, p);
    if (t && t->read >= 0 && t->fill <= issued) t->last = MAX(t->last, time);
}

// ---- records ------------------------------------------------------------------------------------

static void passed(Slots *s, const TraceRecord *r)
{
    if (r->at.buffer >= 0 && !s->b->by_bytes[r->at.buffer]) s->gate[r->warp] = r->at;
    for (int i = 0; i < s->b->fn->buffers.n && r->at.buffer >= 0; i++) {
        int n = s->slot[i] ? trace_slots(&s->b->fn->buffers.at[i]) : 0;
        for (int k = 0; k < n; k++) {
            Slot *t = &s->slot[i][k];
            if (t->full >= 0 || !trace_same(t->full_bar, r->at)) continue;
            t->full = r->time;
            t->latest = true;
        }
    }
    if (!r->op) return;
    if (r->op->op == OP_WGMMA_WAIT) {
        TraceQueue *q = &s->warp[r->warp].products;
        for (int upto = trace_waited(q, r->n); q->waited < upto; q->waited++)
            for (int i = 0; i < q->groups.at[q->waited].n; i++) {
                const TraceRecord *m =
                    s->warp[r->warp].product.at[q->groups.at[q->waited].first + i];
                read_until(s, m->at, m->time, r->time);
                read_until(s, m->other, m->time, r->time);
            }
    }
    if (r->op->op == OP_BULK_WAIT || r->op->op == OP_BULK_WAIT_READ) {
        TraceQueue *q = &s->warp[r->warp].stores;
        for (int upto = trace_waited(q, r->n); q->waited < upto; q->waited++)
            for (int i = 0; i < q->groups.at[q->waited].n; i++) {
                const TraceRecord *m = s->warp[r->warp].store.at[q->groups.at[q->waited].first + i];
                read_until(s, m->at, m->time, r->time);
                Slot *t = slot_of(s, m->at);
                if (t) t->stored = true;
            }
    }
}

// Where nobody tells ordinary writes, a store out of a slot that the one before has read shows that
// it was written again meanwhile.
static void store(Slots *s, const TraceRecord *r)
{
    Slot *t = slot_of(s, r->at);
    if (t && !s->writes && (t->place.generation < 0 || t->stored)) {
        begin_generation(s, t, r, TRACE_NOWHERE);
        t->full = r->time;
    }
    read_by(s, r->at, r->warp, r->time);
    vec_push(s->b->arena, &s->warp[r->warp].store, r);
}

static void committed(Slots *s, const TraceRecord *r)
{
    if (r->op && r->op->op == OP_WGMMA_COMMIT)
        trace_commit(s->b->arena, &s->warp[r->warp].products, s->warp[r->warp].product.n);
    if (r->op && r->op->op == OP_BULK_COMMIT)
        trace_commit(s->b->arena, &s->warp[r->warp].stores, s->warp[r->warp].store.n);
}

static void follow(Slots *s, const TraceRecord *r)
{
    switch (r->kind) {
    case TRACE_LOAD: load(s, r); break;
    case TRACE_LANDED: landed(s, r); break;
    case TRACE_WRITE: wrote(s, r); break;
    case TRACE_READ: read_by(s, r->at, r->warp, r->time); break;
    case TRACE_STORE: store(s, r); break;
    case TRACE_PRODUCT:
        read_by(s, r->at, r->warp, r->time);
        read_by(s, r->other, r->warp, r->time);
        vec_push(s->b->arena, &s->warp[r->warp].product, r);
        break;
    case TRACE_COMMIT: committed(s, r); break;
    case TRACE_PASS: passed(s, r); break;
    default: break;
    }
}

// The last arrival, or the completion itself where the source tells it.
static void find_completions(Slots *s)
{
    s->complete = map_new(s->b->arena);
    bool told = false;
    for (int i = 0; i < s->b->n; i++) told |= s->b->sorted[i]->kind == TRACE_COMPLETE;
    for (int i = 0; i < s->b->n; i++) {
        const TraceRecord *r = s->b->sorted[i];
        if (r->kind == (told ? TRACE_COMPLETE : TRACE_ARRIVE) && r->at.buffer >= 0)
            map_put(s->complete, trace_key(r->at), (void *)(intptr_t)(r->time + 1));
    }
}

void trace_slot_lanes(TraceBuild *b)
{
    Slots s = {.b = b, .loads = map_new(b->arena)};
    s.slot = ARENA_ARRAY(b->arena, Slot *, b->fn->buffers.n + 1);
    for (int i = 0; i < TRACE_MAX_WARPS; i++) s.gate[i] = TRACE_NOWHERE;
    find_completions(&s);
    for (int i = 0; i < b->n; i++) s.writes |= b->sorted[i]->kind == TRACE_WRITE;
    for (int i = 0; i < b->n; i++)
        if (b->sorted[i]->warp < TRACE_MAX_WARPS) follow(&s, b->sorted[i]);
    for (int i = 0; i < b->fn->buffers.n; i++) {
        int n = s.slot[i] ? trace_slots(&b->fn->buffers.at[i]) : 0;
        for (int k = 0; k < n; k++) {
            Slot *t = &s.slot[i][k];
            if (t->place.generation < 0) continue;
            TracePlace gate = t->gate;
            if (gate.buffer >= 0) gate.generation++;
            close_generation(&s, t, b->trace->end, gate);
            TraceLane *l = trace_lane_new(b, LANE_SLOT,
                                          trace_place_name(b->arena, b->fn, t->place));
            l->at = (TracePlace){i, k, TRACE_UNKNOWN};
            for (int j = 0; j < t->spans.n; j++) vec_push(b->arena, &l->spans, t->spans.at[j]);
        }
    }
}
