// pipeline.c - pass: loops with [[pipeline(S)]] become a producer and consumers.
//
// Input: a program without roles whose loops copy tiles and compute. Output: the same computation
// by two roles. The producer (pipeline_slice.c) brings the tiles through the TMA unit; the
// consumers run the program as it was written, where each copy has become a wait for its tile in
// front of the first operation that uses it, and a trigger behind the last one that hands the
// slot back. A copied buffer has S slots; its orders are counted by both sides alike, and go on
// from one loop to the next. What the trigger needs in front of it (the handoff policy) is the
// lowering's (src/lower/handoff.c).
//
// Three rules keep it right. Both sides execute the loads in the same order, under the same
// conditions. All uses of a tile stand behind its load in the same round. Loads come first: nothing
// that the producer computes depends on the consumers (pipeline_find.c refuses such loads).
//
// Copies that cannot be brought ahead stay where they are, with a warning that says why; what the
// consumers write to shared memory themselves keeps the barriers that the lowering gives it.
#include "passes.h"
#include "pipeline.h"

enum { MAX_EVENT_BYTES = 1 << 20, PRODUCER_REGS = 24, MAX_REGS = 240 };
// Of a multiprocessor; those of a thread beside its fragments, about.
enum { REGISTERS = 65536, OTHER_REGS = 32 };

const Expr *pipeline_scalar(const Pipe *p, int scalar)
{
    return expr_var(p->m->exprs, p->k->scalars.at[scalar].name);
}

TileOp *pipeline_op(Pipe *p, TileOpcode op, Loc loc, TileBlock *to)
{
    TileOp *o = ARENA_NEW(p->m->arena, TileOp);
    o->op = (u8)op;
    o->loc = loc;
    o->frag = o->frag2 = o->scalar = o->future = o->event = o->a.frag = o->b.frag = -1;
    o->dst.buffer = o->src.buffer = o->elem.buffer = -1;
    o->a.view.buffer = o->b.view.buffer = -1;
    vec_push(p->m->arena, to, o);
    return o;
}

void pipeline_event(Pipe *p, TileOpcode op, const Ring *r, int event, int side, Loc loc,
                    TileBlock *to)
{
    TileOp *o = pipeline_op(p, op, loc, to);
    o->event = event;
    if (!p->k->events.at[event].scalar)
        o->order = pipeline_scalar(p, p->classes.at[r->class].order[side]);
}

static void set_index(Pipe *p, int scalar, const Expr *value, Loc loc, TileBlock *to)
{
    TExpr *x = ARENA_NEW(p->m->arena, TExpr);
    *x = (TExpr){.kind = TX_INDEX, .type = DT_U32, .loc = loc, .index = value};
    TileOp *o = pipeline_op(p, TOP_SET, loc, to);
    o->scalar = scalar;
    o->value = x;
}

// order = order + 1
void pipeline_step(Pipe *p, const Class *c, int side, Loc loc, TileBlock *to)
{
    if (c->order[side] < 0) return;
    const Expr *one = expr_const(p->m->exprs, 1);
    const Expr *order = pipeline_scalar(p, c->order[side]);
    set_index(p, c->order[side], expr_add(p->m->exprs, order, one), loc, to);
}

// slot = order % stages
void pipeline_slot(Pipe *p, const Class *c, int side, Loc loc, TileBlock *to)
{
    if (c->slot[side] < 0) return;
    const Expr *order = pipeline_scalar(p, c->order[side]);
    const Expr *slots = expr_const(p->m->exprs, c->stages);
    set_index(p, c->slot[side], expr_bin(p->m->exprs, EX_MOD, order, slots), loc, to);
}

static bool counts_in(const Class *c, const TileBlock *list)
{
    for (int i = 0; i < c->lists.n && c->single; i++)
        if (c->lists.at[i] == list) return true;
    return false;
}

void pipeline_begin_list(Pipe *p, const TileBlock *list, int side, TileBlock *to)
{
    for (int i = 0; i < p->classes.n; i++)
        if (counts_in(&p->classes.at[i], list))
            pipeline_slot(p, &p->classes.at[i], side, p->loop->loc, to);
}

void pipeline_end_list(Pipe *p, const TileBlock *list, int side, TileBlock *to)
{
    for (int i = 0; i < p->classes.n; i++)
        if (counts_in(&p->classes.at[i], list))
            pipeline_step(p, &p->classes.at[i], side, p->loop->loc, to);
}

// ---- rings --------------------------------------------------------------------------------------

static bool around(const Scope *outer, const Scope *inner)
{
    for (; inner; inner = inner->outer)
        if (inner == outer) return true;
    return false;
}

static bool same_memory(const TileBuffer *a, const TileBuffer *b)
{
    bool same = a->type == b->type && a->rank == b->rank && a->layout == b->layout &&
                a->handoff == b->handoff;
    for (int d = 0; same && d < a->rank; d++) same = a->dim[d] == b->dim[d];
    return same;
}

static bool has_alias(const TileKernel *k, int buffer)
{
    for (int i = 0; i < k->buffers.n; i++)
        if (k->buffers.at[i].alias == buffer + 1) return true;
    return false;
}

// Loops that follow one another share slots: what the one brings is used up in its rounds.
static bool may_share(const Pipe *p, const Ring *r, const Load *l)
{
    if (r->stages < 2 || r->stages != l->scope->stages || has_alias(p->k, r->buffer) ||
        has_alias(p->k, l->buffer) ||
        !same_memory(&p->k->buffers.at[r->buffer], &p->k->buffers.at[l->buffer]))
        return false;
    for (int i = 0; i < r->loads.n; i++) {
        const Scope *s = p->loads.at[r->loads.at[i]].scope;
        if (around(s, l->scope) || around(l->scope, s)) return false;
    }
    return true;
}

typedef struct {
    const Pipe *p;
    int from, to;
} Rename;

static void rename_view(void *ctx, const TileOp *op, TileView *v, int how)
{
    const Rename *n = ctx;
    (void)op, (void)how;
    if (v->buffer == n->from) v->buffer = n->to;
}

static int ring_of(Pipe *p, Load *l)
{
    for (int i = 0; i < p->rings.n; i++) {
        Ring *r = &p->rings.at[i];
        if (r->buffer != l->buffer) continue;
        r->stages = MAX(r->stages, l->scope->stages); // around the loop it uses its slots too
        return i;
    }
    for (int i = 0; i < p->rings.n; i++) {
        if (!may_share(p, &p->rings.at[i], l)) continue;
        Rename n = {p, l->buffer, p->rings.at[i].buffer};
        for (int k = 0; k < p->k->body.n; k++) tile_visit_all(p->k->body.at[k], rename_view, &n);
        for (int k = 0; k < p->loads.n; k++)
            if (p->loads.at[k].buffer == n.from) p->loads.at[k].buffer = n.to;
        return i;
    }
    Ring r = {.buffer = l->buffer, .stages = l->scope->stages, .gives = l->written,
              .class = -1, .full = -1, .empty = -1, .group = p->rings.n,
              .bytes = dtype_bytes[p->k->buffers.at[l->buffer].type]};
    i64 n = 1;
    for (int d = 0; d < p->k->buffers.at[l->buffer].rank; d++)
        if (expr_is_const(p->k->buffers.at[l->buffer].dim[d], &n)) r.bytes *= n;
    vec_push(p->m->arena, &p->rings, r);
    return p->rings.n - 1;
}

static void make_rings(Pipe *p)
{
    for (int i = 0; i < p->loads.n; i++) {
        Load *l = &p->loads.at[i];
        if (l->why) continue;
        l->ring = ring_of(p, l);
        Ring *r = &p->rings.at[l->ring];
        vec_push(p->m->arena, &r->loads, i);
        r->once = r->loads.n == 1 && l->scope->once;
    }
}

// ---- classes and groups -------------------------------------------------------------------------

static TileBlock *list_of(const Pipe *p, const Ring *r, int load)
{
    return p->loads.at[r->loads.at[load]].scope->list;
}

static bool same_lists(const Pipe *p, const Ring *r, const Class *c)
{
    if (r->once != c->once || r->stages != c->stages || r->loads.n != c->lists.n) return false;
    for (int i = 0; i < c->lists.n; i++)
        if (list_of(p, r, i) != c->lists.at[i]) return false;
    return true;
}

// Loads of the ring that stand in one list count one after the other, by themselves.
static bool one_in_each(const Pipe *p, const Ring *r)
{
    Map *seen = map_new(p->m->arena);
    for (int i = 0; i < r->loads.n; i++) {
        if (map_get(seen, list_of(p, r, i))) return false;
        map_put(seen, list_of(p, r, i), seen);
    }
    return true;
}

static int new_scalar(Pipe *p, const char *what, int side, i64 hi)
{
    static const char *const role[2] = {"load", "use"};
    const char *name = intern_printf(p->m->names, "%%%s.%s", what, role[side]);
    for (int n = 2; map_get(p->scalar_of, name); n++)
        name = intern_printf(p->m->names, "%%%s.%s.%d", what, role[side], n);
    TileScalar s = {.name = name, .type = DT_U32, .loc = p->loop->loc};
    vec_push(p->m->arena, &p->k->scalars, s);
    map_put(p->scalar_of, name, (void *)(intptr_t)p->k->scalars.n);
    expr_set_range(p->m->exprs, name, 0, hi);
    return p->k->scalars.n - 1;
}

static void make_classes(Pipe *p)
{
    for (int i = 0; i < p->rings.n; i++) {
        Ring *r = &p->rings.at[i];
        bool single = one_in_each(p, r);
        for (int k = 0; k < p->classes.n && single; k++)
            if (p->classes.at[k].single && same_lists(p, r, &p->classes.at[k])) r->class = k;
        if (r->class >= 0) continue;
        Class c = {.single = single, .once = r->once, .stages = r->stages,
                   .order = {-1, -1}, .slot = {-1, -1}};
        for (int k = 0; k < r->loads.n; k++) vec_push(p->m->arena, &c.lists, list_of(p, r, k));
        for (int side = 0; side < 2 && !r->once; side++) {
            c.order[side] = new_scalar(p, "order", side, UINT32_MAX);
            if (c.stages > 1) c.slot[side] = new_scalar(p, "slot", side, c.stages - 1);
        }
        r->class = p->classes.n;
        vec_push(p->m->arena, &p->classes, c);
    }
}

// Between the loads of two rings in a list stand loads of the same group only.
static bool adjacent(const Pipe *p, const Load *a, const Load *b, int group)
{
    for (int i = 0; i < p->loads.n; i++) {
        const Load *l = &p->loads.at[i];
        if (l->why || l->scope != a->scope || l->at <= a->at || l->at >= b->at) continue;
        if (p->rings.at[l->ring].group != group) return false;
    }
    return true;
}

static bool joins(const Pipe *p, const Ring *r, int group, i64 bytes)
{
    const Ring *lead = &p->rings.at[group];
    if (lead->group != group || lead->class != r->class || !p->classes.at[r->class].single)
        return false;
    const TileBuffer *b = p->k->buffers.at;
    if (bytes + r->bytes >= MAX_EVENT_BYTES ||
        tile_policy(p->m, &b[r->buffer]) != tile_policy(p->m, &b[lead->buffer]))
        return false;
    for (int i = 0; i < r->loads.n; i++) {
        const Load *x = &p->loads.at[lead->loads.at[i]], *y = &p->loads.at[r->loads.at[i]];
        if (x->first != y->first || x->last != y->last || x->first == x->at ||
            !adjacent(p, x, y, group))
            return false;
    }
    return true;
}

static i64 group_bytes(const Pipe *p, int group)
{
    i64 bytes = 0;
    for (int i = 0; i < p->rings.n; i++)
        if (p->rings.at[i].group == group) bytes += p->rings.at[i].bytes;
    return bytes;
}

static int new_event(Pipe *p, const Ring *r, const char *what, bool ready)
{
    TileEvent e = {.slots = r->stages, .ready = ready, .scalar = r->once, .hands = ready,
                   .gives = r->gives, .loc = p->loop->loc};
    e.name = intern_printf(p->m->names, "%s_%s", p->k->buffers.at[r->buffer].name, what);
    vec_push(p->m->arena, &p->k->events, e);
    return p->k->events.n - 1;
}

static void make_events(Pipe *p)
{
    for (int i = 0; i < p->rings.n; i++) {
        Ring *r = &p->rings.at[i];
        for (int k = 0; k < i && r->group == i; k++)
            if (joins(p, r, k, group_bytes(p, k))) r->group = k;
        if (r->group != i) continue;
        r->full = new_event(p, r, "full", false);
        if (!r->once) r->empty = new_event(p, r, "empty", true);
    }
}

// ---- the consumers ------------------------------------------------------------------------------

// The wait of the first use, once for the loads that share their events.
static void wait_full(Pipe *p, const Load *l, Loc loc, TileBlock *to)
{
    const Ring *r = &p->rings.at[l->ring];
    const Class *c = &p->classes.at[r->class];
    if (!c->single) pipeline_slot(p, c, 1, loc, to);
    if (r == &p->rings.at[r->group]) pipeline_event(p, TOP_EVENT_WAIT, r, r->full, 1, loc, to);
}

static void hand_back(Pipe *p, const Load *l, Loc loc, TileBlock *to)
{
    const Ring *r = &p->rings.at[l->ring];
    const Class *c = &p->classes.at[r->class];
    if (r == &p->rings.at[r->group] && r->empty >= 0)
        pipeline_event(p, TOP_TRIGGER, r, r->empty, 1, loc, to);
    if (!c->single) pipeline_step(p, c, 1, loc, to);
}

typedef VEC(int) Loads;            // indices into p->loads

// The accepted loads of each list, in order.
static Map *loads_by_list(const Pipe *p)
{
    Map *by = map_new(p->m->arena);
    for (int i = 0; i < p->loads.n; i++) {
        const Load *l = &p->loads.at[i];
        if (l->why) continue;
        Loads *of = map_get(by, l->scope->list);
        if (!of) map_put(by, l->scope->list, of = ARENA_NEW(p->m->arena, Loads));
        vec_push(p->m->arena, of, i);
    }
    return by;
}

// Futures of accepted loads: what waits for them goes.
static bool *futures_of_loads(const Pipe *p)
{
    bool *of = ARENA_ARRAY(p->m->arena, bool, p->k->futures.n + 1);
    for (int i = 0; i < p->loads.n; i++)
        if (!p->loads.at[i].why && p->loads.at[i].op->future >= 0)
            of[p->loads.at[i].op->future] = true;
    return of;
}

typedef struct {
    Pipe *p;
    const Map *by_list;
    const bool *future_goes;
} Consume;

// Rewrites a list and those inside of it. Places of the loads are those of the list as it was.
static void consume(const Consume *c, TileBlock *list)
{
    Pipe *p = c->p;
    TileBlock to = {0};
    const Loads *here = map_get(c->by_list, list);
    Loads *first = here ? ARENA_ARRAY(p->m->arena, Loads, list->n) : NULL;
    Loads *last = here ? ARENA_ARRAY(p->m->arena, Loads, list->n) : NULL;
    for (int k = 0; here && k < here->n; k++) {
        vec_push(p->m->arena, &first[p->loads.at[here->at[k]].first], here->at[k]);
        vec_push(p->m->arena, &last[p->loads.at[here->at[k]].last], here->at[k]);
    }
    pipeline_begin_list(p, list, 1, &to);
    for (int i = 0; i < list->n; i++) {
        TileOp *op = list->at[i];
        consume(c, &op->body);
        consume(c, &op->other);
        for (int k = 0; here && k < first[i].n; k++)
            wait_full(p, &p->loads.at[first[i].at[k]], op->loc, &to);
        bool goes = pipeline_load(p, op) || (op->op == TOP_WAIT && c->future_goes[op->future]);
        if (!goes) vec_push(p->m->arena, &to, op);
        for (int k = 0; here && k < last[i].n; k++)
            hand_back(p, &p->loads.at[last[i].at[k]], op->loc, &to);
    }
    pipeline_end_list(p, list, 1, &to);
    *list = to;
}

static void set_slot(void *ctx, const TileOp *op, TileView *v, int how)
{
    const Pipe *p = ctx;
    (void)op, (void)how;
    for (int i = 0; i < p->rings.n && v->buffer >= 0; i++) {
        const Class *c = &p->classes.at[p->rings.at[i].class];
        if (tile_memory(p->k, v->buffer) == p->rings.at[i].buffer && c->slot[1] >= 0)
            v->slot = pipeline_scalar(p, c->slot[1]);
    }
}

// ---- roles --------------------------------------------------------------------------------------

static TileOp *new_role(Pipe *p, int lo, int hi, TileBlock *to)
{
    TileOp *o = pipeline_op(p, TOP_ROLE, p->loop->loc, to);
    o->lo = expr_const(p->m->exprs, lo);
    o->hi = expr_const(p->m->exprs, hi);
    return o;
}

// Orders of a role begin at 0.
static void begin_role(Pipe *p, int side, TileBlock *to)
{
    for (int i = 0; i < p->classes.n; i++)
        if (p->classes.at[i].order[side] >= 0)
            set_index(p, p->classes.at[i].order[side], expr_const(p->m->exprs, 0), p->loop->loc,
                      to);
}

// From the count at entry to this one.
static void set_registers(Pipe *p, int entry, int count, TileBlock *to)
{
    if (count != entry)
        pipeline_op(p, TOP_SETREG, p->loop->loc, to)->imm = count > entry ? count : -count;
}

// Registers of a thread for all fragments.
static int fragment_registers(const TileKernel *k)
{
    i64 bits = 0;
    for (int i = 0; i < k->frags.n; i++) {
        const TileFrag *f = &k->frags.at[i];
        if (f->rank == 1) bits += 64 * f->slots;
        else bits += f->dim[0] * f->dim[1] * f->slots * dtype_bytes[f->type] * 8 / 128;
    }
    return (int)MIN(bits / 32, 1024);
}

// Registers move where a block has a multiprocessor to itself: the producer needs few, and the
// consumers take what it gives. That is so where it was asked for, and where two warpgroups or more
// hold so much in fragments that no two blocks would fit beside each other.
static bool moves_registers(const Pipe *p)
{
    const TileKernel *k = p->k;
    if (k->min_blocks > 1 || k->maxnreg) return false;
    if (p->loop->load_regs) return true;
    return k->threads >= 256 &&
           fragment_registers(k) + OTHER_REGS > REGISTERS / 2 / (k->threads + 32);
}

// Returns what every thread has at entry, as the lowering will choose it.
static int choose_registers(const Pipe *p, int groups, int *load, int *compute)
{
    int each = MIN(REGISTERS / (128 * (groups + 1)), 255) / 8 * 8;
    *load = p->loop->load_regs ? p->loop->load_regs : PRODUCER_REGS;
    *compute = p->loop->compute_regs;
    if (!*compute) *compute = MIN(((groups + 1) * each - *load) / groups / 8 * 8, (int)MAX_REGS);
    return each;
}

// The producer is a warpgroup in front of the others where registers move, since they move between
// warpgroups; else one warp behind them. One of its warps does the work.
static void make_roles(Pipe *p, const TileBlock *load, const TileBlock *use)
{
    TileKernel *k = p->k;
    int threads = k->threads, added = moves_registers(p) ? 128 : 32, first = 0, regs[2];
    int at = added == 128 ? 0 : threads;
    if (added == 128) first = added;
    int entry = choose_registers(p, threads / 128, &regs[0], &regs[1]);
    k->body = (TileBlock){0};
    TileOp *producer = new_role(p, at, at + added, &k->body);
    TileOp *consumer = new_role(p, first, first + threads, &k->body);
    consumer->body = *use;
    if (added == 128) {
        TileBlock body = {0};
        set_registers(p, entry, regs[0], &producer->body);
        producer = new_role(p, at, at + 32, &producer->body);
        set_registers(p, entry, regs[1], &body);
        for (int i = 0; i < use->n; i++) vec_push(p->m->arena, &body, use->at[i]);
        consumer->body = body;
        if (!k->min_blocks) k->min_blocks = 1;
    }
    producer->body = *load;
    k->threads += added;
    if (k->max_threads && k->max_threads < k->threads) k->max_threads = k->threads;
}

// ---- the pass -----------------------------------------------------------------------------------

static TileOp *first_loop(const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->at[i]->stages) return b->at[i];
        TileOp *inner = first_loop(&b->at[i]->body);
        if (!inner) inner = first_loop(&b->at[i]->other);
        if (inner) return inner;
    }
    return NULL;
}

static void forget_marks(TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        b->at[i]->stages = b->at[i]->load_regs = b->at[i]->compute_regs = 0;
        forget_marks(&b->at[i]->body);
        forget_marks(&b->at[i]->other);
    }
}

static bool in_pipeline(const Scope *s)
{
    for (; s; s = s->outer)
        if (s->owner && s->owner->stages) return true;
    return false;
}

// The copies of pipelines that stay where they are, each with its reason. Returns how many go.
static int tell_refused(const Pipe *p)
{
    int go = 0;
    for (int i = 0; i < p->loads.n; i++) {
        const Load *l = &p->loads.at[i];
        if (!in_pipeline(l->scope)) continue;
        go += !l->why;
        if (!l->why) continue;
        const char *place = "";
        if (l->where.line && l->where.line != l->op->loc.line)
            place = arena_printf(p->m->arena, " (line %u)", l->where.line);
        diag_warning(p->m->diag, l->op->loc, l->hint,
                     "'%s' is not brought ahead: %s%s; the computing threads copy it themselves",
                     p->k->buffers.at[l->op->dst.buffer].name, l->why, place);
    }
    return go;
}

// A fence of the block does not bind the reads in front of it, and with no tile to hold on to it
// would come to stand behind the trigger, which follows the last read: the trigger goes behind
// it.
static void tell_fences(const Pipe *p)
{
    for (int i = 0; i < p->loads.n; i++) {
        const Load *l = &p->loads.at[i];
        if (l->why || !l->fence) continue;
        diag_warning(p->m->diag, l->fence->loc,
                     "leave it out; to keep the slot up to some place, hand the tile to a helper "
                     "there: `call f(tile)`",
                     "this fence names no tile, so the slot of '%s' would be handed back behind "
                     "its last read, in front of the fence; it is handed back behind the fence. But a "
                     "fence of the block binds no read (O6): the policy of the slot does",
                     p->k->buffers.at[l->op->dst.buffer].name);
    }
}

static void specialise(Pipe *p)
{
    TileBlock load = {0}, use = {0}, body;
    Loc unused;
    make_rings(p);
    make_classes(p);
    make_events(p);
    p->needed = ARENA_ARRAY(p->m->arena, bool, p->k->scalars.n + 1);
    pipeline_needs(p, NULL, &unused);
    begin_role(p, 0, &load);
    pipeline_slice(p, &load);
    for (int i = 0; i < p->k->body.n; i++) tile_visit_all(p->k->body.at[i], set_slot, p);
    Consume c = {p, loads_by_list(p), futures_of_loads(p)};
    consume(&c, &p->k->body);
    body = p->k->body;
    begin_role(p, 1, &use);
    for (int i = 0; i < body.n; i++) vec_push(p->m->arena, &use, body.at[i]);
    for (int i = 0; i < p->k->buffers.n; i++)
        for (int r = 0; r < p->rings.n; r++)
            if (p->k->buffers.at[i].kind == TB_SHARED &&
                tile_memory(p->k, i) == p->rings.at[r].buffer)
                p->k->buffers.at[i].slots = p->rings.at[r].stages;
    make_roles(p, &load, &use);
}

static void pipeline_kernel(TileModule *m, TileFn *fn, TileKernel *k)
{
    TileOp *loop = first_loop(&k->body);
    if (!loop) return;
    Pipe p = {.m = m, .k = k, .loop = loop};
    p.candidates = map_new(m->arena);
    p.load_of = map_new(m->arena);
    p.parallel = map_new(m->arena);
    p.scalar_of = map_new(m->arena);
    p.written = ARENA_ARRAY(m->arena, bool, fn->plan->params.n + 1);
    p.needed = ARENA_ARRAY(m->arena, bool, k->scalars.n + 1);
    for (int i = 0; i < k->scalars.n; i++)
        map_put(p.scalar_of, intern(m->names, k->scalars.at[i].name), (void *)(intptr_t)(i + 1));
    Loc where = loop->loc;
    if (!k->sequential && !m->options.sequential) {
        const char *why = pipeline_find(&p, &where);
        if (why)
            diag_warning(m->diag, where, "leave out [[pipeline]], or write the roles by hand",
                         "the loop of line %u stays sequential: %s", loop->loc.line, why);
        else if (tell_refused(&p))
            tell_fences(&p), specialise(&p);
        else
            diag_warning(m->diag, loop->loc, NULL,
                         "the loop stays sequential: it has no copy that can be brought ahead");
    }
    forget_marks(&k->body);
}

bool tile_pipeline(TileModule *m)
{
    for (int f = 0; f < m->fns.n; f++)
        for (int i = 0; i < m->fns.at[f]->kernels.n; i++)
            pipeline_kernel(m, m->fns.at[f], m->fns.at[f]->kernels.at[i]);
    return diag_errors(m->diag) == 0;
}
