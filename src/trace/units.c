// units.c - what is in flight beside the warps: bulk copies, and products of each warpgroup.
//
// A copy is in flight from its issue until it lands; where the source cannot see that, until
// somebody has waited for it. Products of a warpgroup run in order, so a group of them begins when
// it was issued or when the one before ended.
#include "impl.h"

// ---- copies -------------------------------------------------------------------------------------

typedef struct {
    TraceSpan span;
    u8 warp;
    int open;              // its boxes that have not landed
    bool told;             // the source says when copies land
} Flight;

typedef struct {
    TraceBuild *b;
    VEC(Flight) flights;
    Map *by_id;            // index + 1
    struct {
        VEC(int) member;   // flights
        TraceQueue groups;
    } stores[TRACE_MAX_WARPS];
} Copies;

static void issued(Copies *c, const TraceRecord *r)
{
    Arena *a = c->b->arena;
    bool load = r->kind == TRACE_LOAD;
    Flight *last = c->flights.n ? &c->flights.at[c->flights.n - 1] : NULL;
    // The boxes of one tile.
    if (load && last && last->open && last->span.kind == SPAN_LOAD && last->warp == r->warp &&
        trace_same(last->span.at, r->at) && trace_same(last->span.other, r->other)) {
        last->span.n += r->n;
        last->open++;
    } else {
        Flight f = {.warp = r->warp, .open = 1};
        f.span = (TraceSpan){.begin = r->time, .end = c->b->trace->end,
                             .kind = load ? SPAN_LOAD : SPAN_STORE, .latest = true, .at = r->at,
                             .other = r->other, .op = r->op, .round = r->round, .n = r->n,
                             .generation = load ? r->other.generation : TRACE_UNKNOWN,
                             .name = trace_place_name(a, c->b->fn, r->at)};
        vec_push(a, &c->flights, f);
        if (!load) vec_push(a, &c->stores[r->warp].member, c->flights.n - 1);
    }
    if (r->id) map_put(c->by_id, (void *)(uintptr_t)r->id, (void *)(uintptr_t)c->flights.n);
}

static void landed(Copies *c, const TraceRecord *r)
{
    uintptr_t k = (uintptr_t)map_get(c->by_id, (void *)(uintptr_t)r->id);
    if (!k) return;
    Flight *f = &c->flights.at[k - 1];
    f->told = true;
    if (--f->open > 0) return;
    f->span.end = MAX(f->span.begin, r->time);
    f->span.latest = false;
}

// The first wait for the phase that counts a load; waits for the groups of stores.
static void passed(Copies *c, const TraceRecord *r)
{
    for (int i = c->flights.n - 1; i >= 0 && r->at.buffer >= 0; i--) {
        Flight *f = &c->flights.at[i];
        if (!f->open || f->told || f->span.kind != SPAN_LOAD) continue;
        if (!trace_same(f->span.other, r->at)) continue;
        f->span.end = r->time;
        f->open = 0;
    }
    if (!r->op || (r->op->op != OP_BULK_WAIT && r->op->op != OP_BULK_WAIT_READ)) return;
    TraceQueue *q = &c->stores[r->warp].groups;
    int upto = trace_waited(q, r->n);
    for (; q->waited < upto; q->waited++) {
        TraceGroup g = q->groups.at[q->waited];
        for (int i = g.first; i < g.first + g.n; i++) {
            Flight *f = &c->flights.at[c->stores[r->warp].member.at[i]];
            if (f->open && !f->told) f->span.end = r->time;
        }
    }
}

// Each copy into the first lane that is free when it begins.
static void share_out(TraceBuild *b, const Copies *c)
{
    int first = b->trace->lanes.n;
    for (int i = 0; i < c->flights.n; i++) {
        TraceSpan *s = &c->flights.at[i].span;
        s->end = MAX(s->end, s->begin + 1); // some land at once
        int k = first;
        for (; k < b->trace->lanes.n; k++) {
            const TraceLane *l = &b->trace->lanes.at[k];
            if (l->spans.at[l->spans.n - 1].end <= s->begin) break;
        }
        if (k == b->trace->lanes.n)
            trace_lane_new(b, LANE_COPY, arena_printf(b->arena, "copy %d", k - first + 1));
        vec_push(b->arena, &b->trace->lanes.at[k].spans, *s);
    }
}

// Whether the source tells when stores end is known from the first STORED.
void trace_copies(TraceBuild *b)
{
    Copies c = {.b = b, .by_id = map_new(b->arena)};
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->warp >= TRACE_MAX_WARPS) continue;
        switch (r->kind) {
        case TRACE_LOAD:
        case TRACE_STORE: issued(&c, r); break;
        case TRACE_LANDED:
        case TRACE_STORED: landed(&c, r); break;
        case TRACE_PASS: passed(&c, r); break;
        case TRACE_COMMIT:
            if (r->op && r->op->op == OP_BULK_COMMIT)
                trace_commit(b->arena, &c.stores[r->warp].groups, c.stores[r->warp].member.n);
            break;
        default: break;
        }
    }
    share_out(b, &c);
}

// ---- products -----------------------------------------------------------------------------------

typedef struct {
    i64 started, done;     // -1: not told
} Told;

static Told *told_of(TraceBuild *b, Map *m, u32 id)
{
    Told *t = id ? map_get(m, (void *)(uintptr_t)id) : NULL;
    if (t) return t;
    t = ARENA_NEW(b->arena, Told);
    *t = (Told){-1, -1};
    if (id) map_put(m, (void *)(uintptr_t)id, t);
    return t;
}

typedef struct {
    TraceBuild *b;
    Map *told;
    VEC(const TraceRecord *) member;
    TraceQueue groups;
    VEC(TraceSpan) spans;
} Products;

// A group: from its first product to its last.
static void add_group(Products *p, TraceGroup g, i64 waited)
{
    TraceBuild *b = p->b;
    if (!g.n) return;
    const TraceRecord *first = p->member.at[g.first], *last = p->member.at[g.first + g.n - 1];
    const Told *begin = told_of(b, p->told, first->id), *end = told_of(b, p->told, last->id);
    i64 before = p->spans.n ? p->spans.at[p->spans.n - 1].end : b->trace->begin;
    TraceSpan s = {.begin = MAX(before, begin->started >= 0 ? begin->started : first->time),
                   .end = end->done >= 0 ? end->done : waited, .kind = SPAN_PRODUCT,
                   .latest = end->done < 0, .at = first->at, .other = first->other,
                   .op = first->op, .round = first->round, .n = g.n,
                   .name = trace_product_name(b->arena, b->fn, first),
                   .generation = TRACE_UNKNOWN};
    s.end = MAX(s.begin, s.end);
    vec_push(b->arena, &p->spans, s);
}

static void follow(Products *p, const TraceRecord *r)
{
    if (r->kind == TRACE_PRODUCT) vec_push(p->b->arena, &p->member, r);
    if (!r->op) return;
    if (r->kind == TRACE_COMMIT && r->op->op == OP_WGMMA_COMMIT)
        trace_commit(p->b->arena, &p->groups, p->member.n);
    if (r->kind != TRACE_PASS || r->op->op != OP_WGMMA_WAIT) return;
    for (int upto = trace_waited(&p->groups, r->n); p->groups.waited < upto; p->groups.waited++)
        add_group(p, p->groups.groups.at[p->groups.waited], r->time);
}

void trace_products(TraceBuild *b)
{
    Map *told = map_new(b->arena);
    int warp[TRACE_MAX_WARPS / 4]; // the one of each group that is followed
    for (int g = 0; g < TRACE_MAX_WARPS / 4; g++) warp[g] = TRACE_MAX_WARPS;
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->warp >= TRACE_MAX_WARPS) continue;
        if (r->kind == TRACE_STARTED) told_of(b, told, r->id)->started = r->time;
        if (r->kind == TRACE_DONE) told_of(b, told, r->id)->done = r->time;
        if (r->kind == TRACE_PRODUCT) warp[r->warp / 4] = MIN(warp[r->warp / 4], (int)r->warp);
    }
    for (int g = 0; g < TRACE_MAX_WARPS / 4; g++) {
        if (warp[g] == TRACE_MAX_WARPS) continue;
        Products p = {.b = b, .told = told};
        for (int i = 0; i < b->log->records.n; i++)
            if (b->log->records.at[i].warp == warp[g]) follow(&p, &b->log->records.at[i]);
        for (; p.groups.waited < p.groups.groups.n; p.groups.waited++)
            add_group(&p, p.groups.groups.at[p.groups.waited], b->trace->end);
        TraceLane *l = trace_lane_new(
            b, LANE_TENSOR, arena_printf(b->arena, "warps %d-%d", 4 * g, 4 * g + 3));
        l->first = 4 * g;
        l->warps = 4;
        for (int i = 0; i < p.spans.n; i++) vec_push(b->arena, &l->spans, p.spans.at[i]);
    }
}
