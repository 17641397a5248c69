// build.c - records become lanes, spans and arrows.
//
// In: a log of either source. Out: a Trace. The order: phases that the source could not tell;
// records by time; lanes of roles (roles.c), of copies and products (units.c), of slots
// (slots.c); arrows.
//
// Invariant: spans of a lane do not overlap and stand by time.
#include "impl.h"

#include <stdlib.h>
#include <string.h>

// A wait that finds its phase complete takes some cycles all the same.
enum { AT_ONCE = 50 };

// ---- phases -------------------------------------------------------------------------------------

typedef struct {
    bool waited;
    i64 phase;             // of the last wait
    i64 arrivals;          // so far
    i64 expecting;         // phase of the last arrival that expected bytes
} Seen;

// Of one warp at one element of a ring.
static Seen *seen_at(Arena *a, Map *m, u8 warp, TracePlace p)
{
    u64 bits = ((u64)p.buffer + 1) << 32 | (u64)p.slot << 8 | warp;
    const void *key = (const void *)(uintptr_t)bits;
    Seen *s = map_get(m, key);
    if (!s) {
        s = ARENA_NEW(a, Seen);
        map_put(m, key, s);
    }
    return s;
}

// A fresh barrier lets parity 1 pass; afterwards the parity tells the last phase from the next one.
static i64 phase_of_wait(const Seen *s, i64 parity)
{
    i64 last = s->waited ? s->phase : -1;
    return ((last & 1) == (parity & 1)) ? last : last + 1;
}

void trace_phases(TraceLog *log)
{
    Map *m = map_new(log->arena);
    for (int i = 0; i < log->records.n; i++) {
        TraceRecord *r = &log->records.at[i];
        bool at_ring = r->at.buffer >= 0;
        Seen *s;
        switch (r->kind) {
        case TRACE_WAIT:
            if (!at_ring) break;
            s = seen_at(log->arena, m, r->warp, r->at);
            if (r->at.generation == TRACE_UNKNOWN) r->at.generation = phase_of_wait(s, r->n);
            s->phase = r->at.generation;
            s->waited = true;
            break;
        case TRACE_PASS:
            if (!at_ring) break;
            s = seen_at(log->arena, m, r->warp, r->at);
            if (r->at.generation == TRACE_UNKNOWN && s->waited) r->at.generation = s->phase;
            break;
        case TRACE_ARRIVE:
            if (!at_ring) break;
            s = seen_at(log->arena, m, r->warp, r->at);
            if (r->at.generation == TRACE_UNKNOWN) r->at.generation = s->arrivals;
            if (r->op && r->op->op == OP_MBAR_EXPECT) s->arrivals--; // expects, and does not arrive
            s->arrivals++;
            if (r->n) s->expecting = r->at.generation;
            break;
        case TRACE_LOAD:
        case TRACE_LANDED:
            if (r->other.buffer < 0 || r->other.generation != TRACE_UNKNOWN) break;
            r->other.generation = seen_at(log->arena, m, r->warp, r->other)->expecting;
            break;
        default: break;
        }
    }
}

// ---- order --------------------------------------------------------------------------------------

// Records of one time stay in the order of the log: pointers into one array.
static int by_time(const void *x, const void *y)
{
    const TraceRecord *a = *(const TraceRecord *const *)x, *b = *(const TraceRecord *const *)y;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void sort_records(TraceBuild *b)
{
    b->n = b->log->records.n;
    b->sorted = ARENA_ARRAY(b->arena, const TraceRecord *, b->n + 1);
    for (int i = 0; i < b->n; i++) b->sorted[i] = &b->log->records.at[i];
    qsort(b->sorted, (size_t)b->n, sizeof *b->sorted, by_time);
    b->trace->begin = b->sorted[0]->time;
    b->trace->end = b->sorted[b->n - 1]->time;
}

static void find_rings(TraceBuild *b)
{
    b->by_bytes = ARENA_ARRAY(b->arena, bool, b->fn->buffers.n + 1);
    b->early = ARENA_ARRAY(b->arena, bool, b->fn->buffers.n + 1);
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->kind == TRACE_LOAD && r->other.buffer >= 0) b->by_bytes[r->other.buffer] = true;
        if (r->kind == TRACE_WAIT && r->at.buffer >= 0 && r->at.generation == -1)
            b->early[r->at.buffer] = true;
    }
}

// ---- arrows -------------------------------------------------------------------------------------

// What completed a phase last, as far as the records tell.
typedef struct {
    int lane;              // -1: nothing yet
    i64 time;
    bool copy;
} Source;

static Source *source_of(TraceBuild *b, Map *m, TracePlace p)
{
    Source *s = map_get(m, trace_key(p));
    if (!s) {
        s = ARENA_NEW(b->arena, Source);
        s->lane = -1;
        map_put(m, trace_key(p), s);
    }
    return s;
}

// Copies first, then arrivals: a phase that bytes complete is a copy's.
static void find_sources(TraceBuild *b, Map *m)
{
    for (int i = 0; i < b->trace->lanes.n; i++) {
        const TraceLane *l = &b->trace->lanes.at[i];
        for (int k = 0; k < l->spans.n && l->kind == LANE_COPY; k++) {
            const TraceSpan *s = &l->spans.at[k];
            if (s->kind != SPAN_LOAD || s->other.buffer < 0) continue;
            Source *from = source_of(b, m, s->other);
            if (from->lane < 0 || s->end > from->time) *from = (Source){i, s->end, true};
        }
    }
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->kind != TRACE_ARRIVE || r->at.buffer < 0) continue;
        Source *from = source_of(b, m, r->at);
        if (!from->copy) *from = (Source){b->lane_of[r->warp], r->time, false};
    }
}

// A wait of the warp that a lane shows, with the last thing that it waited for.
static void add_arrow(TraceBuild *b, Map *m, const TraceRecord *wait, const TraceRecord *pass)
{
    if (wait->at.buffer < 0 || wait->at.generation < 0) return;
    int lane = b->lane_of[wait->warp];
    const Source *from = source_of(b, m, wait->at);
    if (from->lane < 0 || from->time > pass->time || from->lane == lane) return;
    const TraceLane *l = &b->trace->lanes.at[lane];
    bool fills = l->what && strstr(l->what, "loads");
    i64 brief = b->log->unit == TRACE_CYCLES ? AT_ONCE : 1;
    TraceArrow a = {.kind = from->copy ? ARROW_FULL : fills ? ARROW_FREE : ARROW_OTHER,
                    .from_lane = from->lane, .to_lane = lane, .from = from->time,
                    .to = pass->time, .at = wait->at,
                    .waited = pass->time - wait->time > brief};
    vec_push(b->arena, &b->trace->arrows, a);
}

static void find_arrows(TraceBuild *b)
{
    Map *m = map_new(b->arena);
    const TraceRecord *wait[TRACE_MAX_WARPS] = {0};
    find_sources(b, m);
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->warp >= TRACE_MAX_WARPS || b->shown[b->lane_of[r->warp]] != r->warp) continue;
        if (r->kind == TRACE_WAIT) wait[r->warp] = r;
        if (r->kind == TRACE_PASS && wait[r->warp]) add_arrow(b, m, wait[r->warp], r);
    }
}

// ---- all of it ----------------------------------------------------------------------------------

TraceLane *trace_lane_new(TraceBuild *b, TraceLaneKind kind, const char *name)
{
    TraceLane l = {.kind = (u8)kind, .name = name, .at = TRACE_NOWHERE};
    vec_push(b->arena, &b->trace->lanes, l);
    return &b->trace->lanes.at[b->trace->lanes.n - 1];
}

Trace *trace_build(Arena *a, const TraceLog *log)
{
    if (!log->records.n) return NULL;
    TraceBuild b = {.arena = a, .log = log, .fn = log->fn, .trace = ARENA_NEW(a, Trace)};
    b.trace->log = log;
    sort_records(&b);
    find_rings(&b);
    trace_roles(&b);
    trace_copies(&b);
    trace_products(&b);
    trace_slot_lanes(&b);
    find_arrows(&b);
    return b.trace;
}
