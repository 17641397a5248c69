// handoff.c - pass: what stands before the trigger that hands back a slot (TileHandoff), bound to
// the slot that it protects and not to a place of the source.
//
// An event that is waited for in front of loads into a buffer hands that buffer back. Where
// threads have read values of it by ordinary loads, those must have bound before the trigger: a
// buffer's own policy says how, else the one of the command line, else the proxy fence. The pass
// writes the policy into the trigger and refuses what is not sound: `membar` and `none` unless
// --unsafe, which makes them warnings, and `delay` where a value has no pinned use before the
// trigger. The lowering emits.
#include "passes.h"
#include "visit.h"

typedef struct {
    TileModule *m;
    TileKernel *k;
    const bool *protects;          // event * buffers + buffer
    bool *read;                    // per buffer: by ordinary loads somewhere
    Loc *where;                    // ... there
    Map *covered;                  // reads that stand before the trigger that hands them back
} Handoff;

static void note_read(void *ctx, const TileOp *op, TileView *v, int how)
{
    Handoff *h = ctx;
    if (!(how & ACCESS_GENERIC) || !(how & ACCESS_READ) || v->buffer < 0) return;
    int memory = tile_memory(h->k, v->buffer);
    if (!h->read[memory]) h->where[memory] = op->loc;
    h->read[memory] = true;
}

static u8 asked_policy(const TileModule *m, const TileBuffer *b)
{
    u8 policy = b->handoff ? b->handoff : m->options.handoff;
    return policy ? policy : HANDOFF_PROXY;
}

u8 tile_policy(const TileModule *m, const TileBuffer *b)
{
    u8 policy = asked_policy(m, b);
    return policy == HANDOFF_DELAY && !m->options.assembled ? HANDOFF_PROXY : policy;
}

static void unsound(Handoff *h, const TileOp *t, int buffer, u8 policy)
{
    const TileBuffer *b = &h->k->buffers.at[buffer];
    const char *what = policy == HANDOFF_MEMBAR
                           ? "a fence of the block does not bind the reads before it"
                           : "nothing binds the reads before it";
    const char *text = arena_printf(h->m->arena,
                                    "'%s' is handed back with the policy `%s`: %s (line %u), and "
                                    "the next tile may overtake them (O6)",
                                    b->name, tile_handoff_name[policy], what,
                                    h->where[buffer].line);
    h->m->unsound++;
    if (h->m->options.unsafe)
        diag_warning(h->m->diag, t->loc, "use proxy", "%s", text);
    else
        diag_error(h->m->diag, t->loc, "use proxy; --unsafe allows it, to show the race", "%s",
                   text);
}

typedef struct {
    const Handoff *h;
    int buffer;
    int found;
} Count;

static void count_read(void *ctx, const TileOp *op, TileView *v, int how)
{
    Count *c = ctx;
    (void)op;
    if ((how & ACCESS_GENERIC) && (how & ACCESS_READ) && v->buffer >= 0 &&
        tile_memory(c->h->k, v->buffer) == c->buffer)
        c->found++;
}

// All reads of the buffer stand in front of the trigger in its list, and their values are pinned
// there. A second trigger of the event elsewhere covers reads of its own, which is asked behind.
static bool delayed(Handoff *h, const TileBlock *list, int at, int buffer)
{
    int first = -1, last = -1;
    for (int i = 0; i < at; i++) {
        Count c = {h, buffer, 0};
        tile_visit_all(list->at[i], count_read, &c);
        if (!c.found) continue;
        if (first < 0) first = i;
        last = i;
        map_put(h->covered, list->at[i], h);
    }
    if (first < 0) return false;
    int place = tile_pinned_at(h->m, h->k, list, first, last, buffer);
    return place >= 0 && place < at;
}

static void refuse_delay(Handoff *h, const TileOp *t, int buffer)
{
    diag_error(h->m->diag, t->loc,
               "store the values, or multiply them from registers, before the slot is handed back; "
               "or use proxy",
               "'%s' cannot be handed back with the policy `delay`: values that were read from it "
               "(line %u) have no pinned use before", h->k->buffers.at[buffer].name,
               h->where[buffer].line);
}

// The policy of one buffer, as it will be.
static u8 policy_of(Handoff *h, const TileOp *t, int buffer)
{
    const TileBuffer *b = &h->k->buffers.at[buffer];
    if (asked_policy(h->m, b) == HANDOFF_DELAY && !h->m->options.assembled)
        diag_warning(h->m->diag, t->loc, NULL,
                     "'%s' gets the policy `proxy` instead of `delay`: a driver assembles this "
                     "PTX, and nobody looks at the machine code", b->name);
    return tile_policy(h->m, b);
}

// Of several buffers that one trigger hands back the strongest policy holds.
static void set_policy(Handoff *h, const TileBlock *list, int at)
{
    TileOp *t = list->at[at];
    const bool *mine = &h->protects[t->event * h->k->buffers.n];
    u8 policy = HANDOFF_DEFAULT;
    for (int b = 0; b < h->k->buffers.n; b++) {
        if (!mine[b] || !h->read[b]) continue;
        u8 asked = policy_of(h, t, b);
        policy = policy ? MIN(policy, asked) : asked;
    }
    for (int b = 0; b < h->k->buffers.n && policy > HANDOFF_PROXY; b++) {
        if (!mine[b] || !h->read[b]) continue;
        if (policy != HANDOFF_DELAY) unsound(h, t, b, policy);
        else if (!delayed(h, list, at, b)) refuse_delay(h, t, b);
    }
    for (int b = 0; b < h->k->buffers.n && policy == HANDOFF_PROXY; b++)
        if (mine[b] && h->read[b]) delayed(h, list, at, b); // its reads are covered
    h->m->delayed += policy == HANDOFF_DELAY;
    t->handoff = policy;
}

static void walk(Handoff *h, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->at[i]->op == TOP_TRIGGER) set_policy(h, b, i);
        walk(h, &b->at[i]->body);
        walk(h, &b->at[i]->other);
    }
}

// Reads of buffers with `delay` that stand in front of no trigger in their list.
static void check_covered(Handoff *h, const TileBlock *list, const bool *delay, bool covered)
{
    for (int i = 0; i < list->n; i++) {
        TileOp *op = list->at[i];
        bool here = covered || map_get(h->covered, op);
        for (int b = 0; b < h->k->buffers.n && !here; b++) {
            Count c = {h, b, 0};
            tile_visit_views(op, count_read, &c);
            if (delay[b] && c.found) refuse_delay(h, op, b);
        }
        check_covered(h, &op->body, delay, here);
        check_covered(h, &op->other, delay, here);
    }
}

static bool is_delayed(const Handoff *h, int buffer)
{
    const TileBuffer *b = &h->k->buffers.at[buffer];
    bool handed = false;
    for (int e = 0; e < h->k->events.n; e++)
        handed |= h->protects[e * h->k->buffers.n + buffer];
    return handed && h->read[buffer] && tile_policy(h->m, b) == HANDOFF_DELAY;
}

static void handoff_kernel(TileModule *m, TileKernel *k)
{
    if (!k->events.n) return;
    bool *protects = ARENA_ARRAY(m->arena, bool, (size_t)k->events.n * (size_t)k->buffers.n + 1);
    bool *delay = ARENA_ARRAY(m->arena, bool, k->buffers.n + 1);
    tile_protections(k, protects);
    Handoff h = {.m = m, .k = k, .protects = protects, .covered = map_new(m->arena)};
    h.read = ARENA_ARRAY(m->arena, bool, k->buffers.n + 1);
    h.where = ARENA_ARRAY(m->arena, Loc, k->buffers.n + 1);
    for (int i = 0; i < k->body.n; i++) tile_visit_all(k->body.at[i], note_read, &h);
    walk(&h, &k->body);
    bool any = false;
    for (int b = 0; b < k->buffers.n; b++) any |= delay[b] = is_delayed(&h, b);
    if (any) check_covered(&h, &k->body, delay, false);
}

bool tile_handoff(TileModule *m)
{
    m->unsound = m->delayed = 0;
    for (int f = 0; f < m->fns.n; f++)
        for (int i = 0; i < m->fns.at[f]->kernels.n; i++)
            handoff_kernel(m, m->fns.at[f]->kernels.at[i]);
    return diag_errors(m->diag) == 0;
}
