// trace_test.c - timelines from records: an observed run of the emulator, and what is left of its
// records when they come from a machine that tells no phases, landings or ends of products.
#include "../../src/emu/observe.h"
#include "../../src/trace/trace.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
    Arena *arena;
    float src[24 * 32], dst[3 * 32];
} Test;

static void expect(Test *t, bool ok, const char *what)
{
    if (ok) t->passed++;
    else t->failed++;
    if (!ok) printf("FAILED %s\n", what);
}

static void expect_number(Test *t, i64 found, i64 wanted, const char *what)
{
    expect(t, found == wanted,
           arena_printf(t->arena, "%s: %lld, expected %lld", what, (long long)found,
                        (long long)wanted));
}

// ---- the ring of tests/trace/ring.thr, observed ------------------------------------------------

static TraceLog *observe(Test *t, bool observed)
{
    Buf text = {0};
    Diag *d = diag_new(t->arena);
    const char *why = file_read("tests/trace/ring.thr", &text, 1 << 20);
    if (why) BUG("tests/trace/ring.thr: %s", why);
    u16 file = diag_add_file(d, "ring.thr", arena_strndup(t->arena, text.s, text.n), text.n);
    ExprPool *pool = expr_pool_new(t->arena, intern_new(t->arena));
    ThreadModule *m = thread_read(t->arena, pool, d, file, text.s, text.n);
    buf_free(&text);
    if (!m) BUG("ring.thr is not read");
    for (int i = 0; i < COUNT(t->src); i++) t->src[i] = (float)i;
    for (int i = 0; i < COUNT(t->dst); i++) t->dst[i] = -1;
    EmuArg args[2] = {
        {.kind = PARAM_TMAP, .tmap_bytes = sizeof t->src,
         .tmap = {.base = t->src, .type = DT_F32, .rank = 2, .dim = {32, 24}, .stride = {4, 128},
                  .box = {32, 8}, .swizzle = SL_ROW}},
        {.kind = PARAM_PTR, .ptr = t->dst, .bytes = sizeof t->dst},
    };
    TraceLog *log = ARENA_NEW(t->arena, TraceLog);
    log->arena = t->arena;
    EmuObserver o = {.log = log};
    EmuLaunch l = {.fn = m->fns.at[0], .mod = m, .grid = {1, 1, 1}, .args = args, .hazards = true,
                   .observer = observed ? &o : NULL};
    EmuReport *r = emu_run(t->arena, &l);
    expect(t, r->ok, "an observed run has no hazard");
    expect(t, o.seen == observed, "the CTA was seen");
    bool right = true;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 32; k++) right &= t->dst[32 * i + k] == t->src[256 * i + k];
    expect(t, right, "an observed run computes the same");
    return log;
}

static const TraceLane *lane_named(const Trace *t, int kind, const char *name)
{
    for (int i = 0; i < t->lanes.n; i++)
        if (t->lanes.at[i].kind == kind && strcmp(t->lanes.at[i].name, name) == 0)
            return &t->lanes.at[i];
    return NULL;
}

// The span of a kind with a generation; a lane without it ends the test.
static TraceSpan span_of(const TraceLane *l, int kind, i64 generation)
{
    for (int i = 0; l && i < l->spans.n; i++)
        if (l->spans.at[i].kind == kind && l->spans.at[i].generation == generation)
            return l->spans.at[i];
    BUG("no span of kind %d and generation %lld", kind, (long long)generation);
}

// Times as in tests/trace/ring.thr.golden.
static void test_observed(Test *t)
{
    Trace *x = trace_build(t->arena, observe(t, true));
    const TraceLane *slot = lane_named(x, LANE_SLOT, "s[0]");
    const TraceLane *role = lane_named(x, LANE_ROLE, "warp 0");
    expect_number(t, span_of(slot, SPAN_FILLING, 0).begin, 27, "a slot is filled from the issue");
    expect_number(t, span_of(slot, SPAN_FILLING, 0).end, 486, "until its bytes have landed");
    expect_number(t, span_of(slot, SPAN_READING, 0).begin, 487, "it is read from the first load");
    expect_number(t, span_of(slot, SPAN_READING, 0).end, 491, "until the arrival that frees it");
    expect_number(t, span_of(slot, SPAN_FREE, 0).end, 495, "and free until it is filled again");
    expect_number(t, span_of(slot, SPAN_FILLING, 1).end, 954, "the next generation");
    // Order 2 is generation 1 of slot 0, which waits for phase 0 of a ring that starts ready.
    TraceSpan stall = span_of(role, SPAN_STALL, 1);
    expect(t, strcmp(stall.name, "empty[0]") == 0, "the producer waits for the slot by its name");
    expect_number(t, stall.begin, 52, "from the moment it asked");
    expect_number(t, stall.end, 492, "to the step after the arrival");
    int full = 0, empty = 0;
    for (int i = 0; i < x->arrows.n; i++) {
        full += x->arrows.at[i].kind == ARROW_FULL && x->arrows.at[i].waited;
        empty += x->arrows.at[i].kind == ARROW_FREE && x->arrows.at[i].waited;
    }
    expect_number(t, full, 3, "each copy ends a wait of the consumer");
    expect_number(t, empty, 1, "one arrival ends a wait of the producer");
}

// ---- the same records as a machine with a clock would give them --------------------------------

static TraceLog *as_from_gpu(Test *t, const TraceLog *all)
{
    TraceLog *log = ARENA_NEW(t->arena, TraceLog);
    *log = (TraceLog){.arena = t->arena, .fn = all->fn, .unit = TRACE_CYCLES, .device = "GPU"};
    for (int i = 0; i < all->records.n; i++) {
        TraceRecord r = all->records.at[i];
        bool optional = r.kind == TRACE_COMPLETE || r.kind == TRACE_LANDED ||
                        r.kind == TRACE_READ || r.kind == TRACE_WRITE;
        if (optional) continue;
        if (r.kind == TRACE_WAIT && r.at.buffer >= 0) r.n = r.at.generation & 1;
        r.at.generation = r.other.generation = TRACE_UNKNOWN;
        r.id = 0;
        vec_push(t->arena, &log->records, r);
    }
    return log;
}

static void test_gpu(Test *t)
{
    TraceLog *all = observe(t, true), *log = as_from_gpu(t, all);
    trace_phases(log);
    bool same = true;
    for (int i = 0, k = 0; i < log->records.n; i++, k++) {
        const TraceRecord *r = &log->records.at[i];
        while (all->records.at[k].kind != r->kind || all->records.at[k].time != r->time ||
               all->records.at[k].warp != r->warp)
            k++;
        same &= r->at.generation == all->records.at[k].at.generation &&
                r->other.generation == all->records.at[k].other.generation;
    }
    expect(t, same, "phases follow from parities and from counting");
    Trace *x = trace_build(t->arena, log);
    const TraceLane *slot = lane_named(x, LANE_SLOT, "s[0]");
    TraceSpan filling = span_of(slot, SPAN_FILLING, 0);
    expect_number(t, filling.end, 486, "without landings a slot is full when a wait ends");
    expect(t, filling.latest, "and that is said");
    const TraceLane *copy = lane_named(x, LANE_COPY, "copy 1");
    expect(t, copy && copy->spans.at[0].latest && copy->spans.at[0].end == 486,
           "a copy is in flight until somebody waited for it");
    expect_number(t, span_of(slot, SPAN_FILLING, 1).begin, 495, "generations are the same");
}

// ---- products without their ends ----------------------------------------------------------------

// Two groups in flight at once, as in attention: the second begins where the first ended.
static void test_products(Test *t)
{
    ThreadOp product = {.op = OP_WGMMA_SS, .n = 128}, commit = {.op = OP_WGMMA_COMMIT},
             wait = {.op = OP_WGMMA_WAIT};
    Operand none[4] = {{0}};
    product.opnd = none;
    product.nopnd = 4;
    ThreadFn fn = {.name = "made", .threads = 128};
    TraceLog log = {.arena = t->arena, .fn = &fn, .unit = TRACE_CYCLES, .device = "GPU"};
    const struct {
        i64 time;
        u8 kind;
        const ThreadOp *op;
        i64 n;
    } row[] = {{0, TRACE_BEGIN, NULL, 0},       {10, TRACE_PRODUCT, &product, 0},
               {12, TRACE_PRODUCT, &product, 0}, {13, TRACE_COMMIT, &commit, 0},
               {20, TRACE_PRODUCT, &product, 0}, {21, TRACE_COMMIT, &commit, 0},
               {25, TRACE_WAIT, &wait, 1},       {60, TRACE_PASS, &wait, 1},
               {70, TRACE_WAIT, &wait, 0},       {95, TRACE_PASS, &wait, 0},
               {99, TRACE_END, NULL, 0}};
    for (int i = 0; i < COUNT(row); i++)
        vec_push(t->arena, &log.records,
                 ((TraceRecord){.time = row[i].time, .kind = row[i].kind, .op = row[i].op,
                                .n = row[i].n, .at = TRACE_NOWHERE, .other = TRACE_NOWHERE}));
    Trace *x = trace_build(t->arena, &log);
    const TraceLane *l = lane_named(x, LANE_TENSOR, "warps 0-3");
    if (!l || l->spans.n != 2) BUG("a group of products has no span");
    expect_number(t, l->spans.at[0].begin, 10, "a group begins with its first product");
    expect_number(t, l->spans.at[0].end, 60, "it ends with the wait that covers it");
    expect_number(t, l->spans.at[0].n, 2, "it has the products before its commit");
    expect_number(t, l->spans.at[1].begin, 60, "the next one runs behind it");
    expect_number(t, l->spans.at[1].end, 95, "up to its own wait");
    i64 stalls = 0;
    const TraceLane *role = lane_named(x, LANE_ROLE, "warps 0-3");
    for (int i = 0; role && i < role->spans.n; i++)
        if (role->spans.at[i].kind == SPAN_STALL)
            stalls += role->spans.at[i].end - role->spans.at[i].begin;
    expect_number(t, stalls, 60, "stalls of the role");
}

// Without records of ordinary writes, a slot that is stored, waited for and stored again has two
// generations.
static void test_stores(Test *t)
{
    ThreadOp stored = {.op = OP_TMA_STORE}, commit = {.op = OP_BULK_COMMIT},
             wait = {.op = OP_BULK_WAIT_READ};
    ThreadFn fn = {.name = "made", .threads = 128};
    ThreadBuffer tile = {.name = "o_s", .kind = BUF_SHARED};
    vec_push(t->arena, &fn.buffers, tile);
    TraceLog log = {.arena = t->arena, .fn = &fn, .unit = TRACE_CYCLES, .device = "GPU"};
    for (int i = 0; i < 2; i++) {
        const struct {
            i64 time;
            u8 kind;
            const ThreadOp *op;
        } row[] = {{10, TRACE_STORE, &stored},
                   {11, TRACE_STORE, &stored},
                   {12, TRACE_COMMIT, &commit},
                   {13, TRACE_WAIT, &wait},
                   {40, TRACE_PASS, &wait}};
        for (int k = 0; k < COUNT(row); k++) {
            TracePlace at = row[k].kind == TRACE_STORE ? (TracePlace){0, 0, TRACE_UNKNOWN}
                                                       : TRACE_NOWHERE;
            vec_push(t->arena, &log.records,
                     ((TraceRecord){.time = 100 * i + row[k].time, .kind = row[k].kind,
                                    .op = row[k].op, .at = at, .other = TRACE_NOWHERE}));
        }
    }
    const TraceLane *l = lane_named(trace_build(t->arena, &log), LANE_SLOT, "o_s");
    expect_number(t, span_of(l, SPAN_READING, 0).end, 40, "a slot is read until its store was");
    expect_number(t, span_of(l, SPAN_READING, 1).begin, 110, "the next store is another generation");
}

int main(void)
{
    Test t = {.arena = arena_new(0)};
    observe(&t, false);
    test_observed(&t);
    test_gpu(&t);
    test_products(&t);
    test_stores(&t);
    TraceLog empty = {.arena = t.arena};
    expect(&t, !trace_build(t.arena, &empty), "no record, no timeline");
    printf("%d passed, %d failed\n", t.passed, t.failed);
    arena_free(t.arena);
    return t.failed != 0;
}
