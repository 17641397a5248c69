// roles.c - lanes of roles: which warps make a lane, and what its busiest warp did.
//
// A warpgroup that issues products is one lane, since its warps go together. Any other is cut where
// roles of the program begin and end, and warps that do nothing stand with their neighbours.
#include "impl.h"

#include <string.h>

enum { DOES_LOADS = 1, DOES_PRODUCTS = 2, DOES_STORES = 4, DOES_ANYTHING = 8 };

// ---- which warps --------------------------------------------------------------------------------

static void find_cuts(const ThreadBlock *block, bool *cut)
{
    for (int i = 0; i < block->n; i++) {
        const ThreadOp *op = block->at[i];
        if (op->op == OP_ROLE && op->imm + op->n <= TRACE_MAX_WARPS)
            cut[op->imm] = cut[op->imm + op->n] = true;
        find_cuts(&op->body, cut);
        find_cuts(&op->other, cut);
    }
}

static u8 does(const TraceRecord *r)
{
    switch (r->kind) {
    case TRACE_LOAD: return DOES_LOADS | DOES_ANYTHING;
    case TRACE_PRODUCT: return DOES_PRODUCTS | DOES_ANYTHING;
    case TRACE_STORE: return DOES_STORES | DOES_ANYTHING;
    case TRACE_ARRIVE:
    case TRACE_READ:
    case TRACE_WRITE: return DOES_ANYTHING;
    case TRACE_WAIT: return r->at.buffer >= 0 ? DOES_ANYTHING : 0;
    default: return 0;
    }
}

static const char *what_of(Arena *a, u8 bits)
{
    Buf b = {0};
    if (bits & DOES_LOADS) buf_puts(&b, "loads");
    if (bits & DOES_PRODUCTS) buf_printf(&b, "%sproducts", b.n ? ", " : "");
    if (bits & DOES_STORES) buf_printf(&b, "%sstores", b.n ? ", " : "");
    const char *what = b.n ? arena_strndup(a, b.s, b.n) : NULL;
    buf_free(&b);
    return what;
}

// Warps [first, first + n) become a lane.
static void new_lane(TraceBuild *b, int first, int n, const u8 *bits, const int *records)
{
    u8 all = 0;
    int shown = first;
    for (int w = first; w < first + n; w++) {
        all |= bits[w];
        if (records[w] > records[shown]) shown = w;
        b->lane_of[w] = b->trace->lanes.n;
    }
    b->shown[b->trace->lanes.n] = shown;
    const char *name = n == 1 ? arena_printf(b->arena, "warp %d", first)
                              : arena_printf(b->arena, "warps %d-%d", first, first + n - 1);
    TraceLane *l = trace_lane_new(b, LANE_ROLE, name);
    l->first = first;
    l->warps = n;
    l->what = what_of(b->arena, all);
}

static void make_lanes(TraceBuild *b)
{
    int warps = MIN(b->fn->threads / 32, (int)TRACE_MAX_WARPS), records[TRACE_MAX_WARPS] = {0};
    bool cut[TRACE_MAX_WARPS + 1] = {0};
    u8 bits[TRACE_MAX_WARPS] = {0};
    find_cuts(&b->fn->body, cut);
    for (int i = 0; i < b->n; i++) {
        const TraceRecord *r = b->sorted[i];
        if (r->warp >= warps) continue;
        bits[r->warp] |= does(r);
        records[r->warp]++;
    }
    for (int g = 0; g < warps; g += 4) {
        int end = MIN(g + 4, warps), from = g;
        u8 all = 0, mine = 0;
        for (int w = g; w < end; w++) all |= bits[w];
        for (int w = g; w < end; w++) {
            // A cut counts when there is work on both sides of it.
            bool rest = false;
            for (int k = w; k < end; k++) rest |= bits[k] != 0;
            if (w > from && cut[w] && mine && rest && !(all & DOES_PRODUCTS)) {
                new_lane(b, from, w - from, bits, records);
                from = w;
                mine = 0;
            }
            mine |= bits[w];
        }
        new_lane(b, from, end - from, bits, records);
    }
}

// ---- what the shown warp did --------------------------------------------------------------------

typedef struct {
    TraceBuild *b;
    TraceLane *lane;
    i64 at;                // everything before it is told
    const ThreadOp *since; // the operation at `at`, and its round
    u32 round;
    const TraceRecord *wait; // it is waiting; NULL
    const TraceRecord *issue; // first record of what it is issuing; NULL
    i64 issue_end, issued; // products, or bytes
    VEC(const TraceRecord *) products, stores;
    TraceQueue product_groups, store_groups;
} Teller;

static void push(Teller *t, TraceSpan s)
{
    if (s.end > s.begin) vec_push(t->b->arena, &t->lane->spans, s);
    t->at = MAX(t->at, s.end);
}

static void work_until(Teller *t, i64 time, const ThreadOp *op, u32 round)
{
    push(t, (TraceSpan){.begin = t->at, .end = MAX(time, t->at), .kind = SPAN_WORK,
                        .at = TRACE_NOWHERE, .other = TRACE_NOWHERE, .op = t->since, .upto = op,
                        .round = t->round, .generation = TRACE_UNKNOWN});
    t->since = op;
    t->round = round;
}

static void end_issue(Teller *t, i64 time)
{
    const TraceRecord *r = t->issue;
    if (!r) return;
    t->issue = NULL;
    bool product = r->kind == TRACE_PRODUCT;
    TraceSpan s = {.begin = MAX(t->at, r->time), .end = MAX(time, r->time), .kind = SPAN_ISSUE,
                   .at = r->at, .other = r->other, .op = r->op, .round = r->round, .n = t->issued,
                   .generation = TRACE_UNKNOWN};
    s.name = product ? trace_product_name(t->b->arena, t->b->fn, r)
                     : trace_place_name(t->b->arena, t->b->fn, r->at);
    push(t, s);
    t->since = r->op;
    t->round = r->round;
}

// The members of the last group that a wait waits for.
static const TraceRecord *last_member(const TraceQueue *q, const TraceRecord *const *member,
                                      i64 keep)
{
    int upto = trace_waited(q, keep);
    if (upto <= q->waited) return NULL;
    TraceGroup g = q->groups.at[upto - 1];
    return g.n ? member[g.first] : NULL;
}

static const char *wait_name(const Teller *t, const TraceRecord *r)
{
    Arena *a = t->b->arena;
    const ThreadFn *fn = t->b->fn;
    const TraceRecord *m;
    switch (r->op ? r->op->op : OP_COUNT) {
    case OP_BAR_SYNC: return arena_printf(a, "barrier %d", r->at.slot);
    case OP_BAR_CLUSTER: return "the cluster";
    case OP_SETMAXNREG_INC: return arena_printf(a, "%d registers", r->op->n);
    case OP_CPASYNC_WAIT: return "cp.async";
    case OP_WGMMA_WAIT:
        m = last_member(&t->product_groups, t->products.at, r->n);
        return m ? trace_product_name(a, fn, m) : "products";
    case OP_BULK_WAIT:
    case OP_BULK_WAIT_READ:
        m = last_member(&t->store_groups, t->stores.at, r->n);
        return m ? arena_printf(a, "store of %s", trace_place_name(a, fn, m->at)) : "stores";
    default: return trace_place_name(a, fn, r->at);
    }
}

static void pass(Teller *t, const TraceRecord *r)
{
    const TraceRecord *w = t->wait;
    t->wait = NULL;
    if (!w) return;
    push(t, (TraceSpan){.begin = MAX(t->at, w->time), .end = MAX(t->at, r->time),
                        .kind = SPAN_STALL, .at = w->at, .other = TRACE_NOWHERE, .op = w->op,
                        .round = w->round, .name = wait_name(t, w),
                        .generation = trace_generation(t->b, w->at)});
    t->since = r->op;
    t->round = r->round;
    if (r->op && r->op->op == OP_WGMMA_WAIT)
        t->product_groups.waited = trace_waited(&t->product_groups, r->n);
    if (r->op && (r->op->op == OP_BULK_WAIT || r->op->op == OP_BULK_WAIT_READ))
        t->store_groups.waited = trace_waited(&t->store_groups, r->n);
}

// Copies that follow one another are issued in one go; so is a group of products up to its commit.
static void begin_issue(Teller *t, const TraceRecord *r)
{
    bool product = r->kind == TRACE_PRODUCT;
    if (t->issue && product != (t->issue->kind == TRACE_PRODUCT)) end_issue(t, t->issue_end);
    if (!t->issue) {
        work_until(t, r->time, r->op, r->round);
        t->issue = r;
        t->issued = 0;
    }
    t->issued += product ? 1 : r->n;
    t->issue_end = r->time + 1;
}

static void tell(Teller *t, const TraceRecord *r)
{
    Arena *a = t->b->arena;
    switch (r->kind) {
    case TRACE_BEGIN: t->at = r->time; break;
    case TRACE_PRODUCT:
        vec_push(a, &t->products, r);
        begin_issue(t, r);
        break;
    case TRACE_STORE: vec_push(a, &t->stores, r); begin_issue(t, r); break;
    case TRACE_LOAD: begin_issue(t, r); break;
    case TRACE_COMMIT:
        if (r->op && r->op->op == OP_WGMMA_COMMIT)
            trace_commit(a, &t->product_groups, t->products.n);
        if (r->op && r->op->op == OP_BULK_COMMIT) trace_commit(a, &t->store_groups, t->stores.n);
        end_issue(t, MAX(r->time, t->issue_end));
        break;
    case TRACE_WAIT:
        end_issue(t, t->issue_end);
        work_until(t, r->time, r->op, r->round);
        t->wait = r;
        break;
    case TRACE_PASS: pass(t, r); break;
    case TRACE_END:
        end_issue(t, t->issue_end);
        work_until(t, r->time, r->op, r->round);
        break;
    default: break;
    }
}

// A warp that never ends (a deadlock) waits until the end of the record.
static void finish(Teller *t)
{
    if (t->wait) {
        TraceRecord end = *t->wait;
        end.time = t->b->trace->end;
        pass(t, &end);
    }
    end_issue(t, t->issue_end);
}

void trace_roles(TraceBuild *b)
{
    make_lanes(b);
    for (int i = 0; i < b->trace->lanes.n; i++) {
        Teller t = {.b = b, .lane = &b->trace->lanes.at[i], .at = b->trace->begin};
        for (int k = 0; k < b->log->records.n; k++) {
            const TraceRecord *r = &b->log->records.at[k];
            bool beside = r->kind == TRACE_COMPLETE || r->kind == TRACE_LANDED ||
                          r->kind == TRACE_STORED || r->kind == TRACE_STARTED ||
                          r->kind == TRACE_DONE;
            if (!beside && r->warp == b->shown[i]) tell(&t, r);
        }
        finish(&t);
    }
}
