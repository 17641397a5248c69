// pipeline_find.c - which copies of a kernel a producer can bring.
//
// A copy from global to shared memory by the whole block becomes a load when the TMA unit can
// take it, everything that it depends on can be computed by another thread, nothing in the kernel
// writes to its source, and its buffer is filled by such copies alone and used only behind them
// in the same round. The rules are asked one after the other; the first that is broken is the
// reason told.
#include "pipeline.h"

#include <string.h>

static void refuse(Load *l, Loc where, const char *hint, const char *why)
{
    if (l->why) return;
    l->why = why;
    l->where = where;
    l->hint = hint;
}

// ---- candidates ---------------------------------------------------------------------------------

static bool has_pipeline(const TileBlock *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i]->stages || has_pipeline(&b->at[i]->body) || has_pipeline(&b->at[i]->other))
            return true;
    return false;
}

static Scope *inner_scope(Pipe *p, const Scope *outer, TileOp *owner, TileBlock *list)
{
    Scope *s = ARENA_NEW(p->m->arena, Scope);
    *s = *outer;
    s->outer = outer;
    s->owner = owner;
    s->list = list;
    if (owner->op == TOP_FOR) {
        s->once = false;
        if (owner->stages) s->stages = owner->stages;
    }
    return s;
}

static void find_loads(Pipe *p, Scope *s, bool inside)
{
    for (int i = 0; i < s->list->n; i++) {
        TileOp *op = s->list->at[i];
        if (op->op == TOP_PAR && op->level != LEVEL_BLOCK) map_put(p->parallel, op->var, p);
        if (op->op == TOP_COPY && p->k->buffers.at[op->dst.buffer].kind == TB_SHARED &&
            p->k->buffers.at[op->src.buffer].kind == TB_GLOBAL) {
            vec_push(p->m->arena, &p->loads,
                     ((Load){.op = op, .scope = s, .at = i, .first = i, .last = i, .ring = -1,
                             .buffer = tile_memory(p->k, op->dst.buffer)}));
            map_put(p->candidates, op, (void *)(intptr_t)p->loads.n);
        }
        bool in = inside || op->stages;
        for (int k = 0; k < 2; k++) {
            TileBlock *list = k ? &op->other : &op->body;
            if (op->op != TOP_APPLY && list->n && (in || has_pipeline(list)))
                find_loads(p, inner_scope(p, s, op, list), in);
        }
    }
}

// ---- the TMA unit -------------------------------------------------------------------------------

// Whether a view may end before its box does without being at the array's edge.
static bool cut_short(const Pipe *p, const TileView *v)
{
    const TileBuffer *t = &p->k->buffers.at[v->buffer];
    for (int d = 0; d < t->rank; d++) {
        if (v->limit[d] == t->dim[d]) continue;
        i64 lo, hi;
        const Expr *end = expr_add(p->m->exprs, v->origin[d], v->extent[d]);
        expr_range(p->m->exprs, expr_sub(p->m->exprs, v->limit[d], end), &lo, &hi);
        if (lo == INT64_MIN || lo < 0) return true;
    }
    return false;
}

// The rules of a tensor map that do not depend on sizes (src/lower/copy.c has them all).
static const char *tma_rule(const Pipe *p, const TileOp *op)
{
    enum { MAX_RANK = 5, MAX_LEAD = 64, MAX_COLUMNS = 256 };
    const TileView *v = &op->src;
    const TileBuffer *t = &p->k->buffers.at[v->buffer], *s = &p->k->buffers.at[op->dst.buffer];
    i64 cols = 0, n = 1, lead = 1, elem = dtype_bytes[t->type];
    if (!v->rank || t->rank > MAX_RANK) return "its array has more than 5 dimensions";
    int last = v->dim[v->rank - 1];
    if (last != t->rank - 1 ||
        (t->stride[last] && !(expr_is_const(t->stride[last], &n) && n == 1)))
        return "its rows are not elements side by side";
    for (int i = 0; i < v->rank; i++) {
        if (!expr_is_const(v->extent[v->dim[i]], &n)) return "its extents are not constants";
        if (i + 2 < v->rank) lead *= n;
        cols = n;
    }
    if (cols * elem % 16 || expr_pow2_divisor(p->m->exprs, v->origin[last]) * elem % 16)
        return "its rows do not start and end at multiples of 16 bytes";
    if (cut_short(p, v)) return "it may run over the edge of a part of its array";
    if (lead > MAX_LEAD) return "it is more than 64 boxes";
    int span = smem_layout[s->layout].span;
    if (!span && cols > MAX_COLUMNS) return "a row of more than 256 elements without a swizzle";
    if (span && cols * elem > span && cols * elem % span)
        return "its rows are no multiple of the swizzle";
    return NULL;
}

// Bytes of the whole buffer, and whether copies of it may follow one another as slots.
static i64 slot_bytes(const Pipe *p, int buffer, bool *aligned)
{
    const TileBuffer *b = &p->k->buffers.at[buffer];
    i64 bytes = dtype_bytes[b->type], n = 1;
    for (int d = 0; d < b->rank; d++)
        if (expr_is_const(b->dim[d], &n)) bytes *= n;
    int span = smem_layout[b->layout].span;
    *aligned = bytes % (span ? 8 * span : 128) == 0;
    return bytes;
}

static bool whole_buffer(const Pipe *p, const TileView *v)
{
    const TileBuffer *b = &p->k->buffers.at[v->buffer];
    i64 at;
    for (int d = 0; d < b->rank; d++)
        if (!expr_is_const(v->origin[d], &at) || at || v->extent[d] != b->dim[d]) return false;
    return true;
}

// What the copy itself must be.
static void check_copy(Pipe *p, Load *l)
{
    const TileOp *op = l->op;
    const TileBuffer *d = &p->k->buffers.at[op->dst.buffer];
    bool aligned;
    const char *why = NULL, *hint = NULL;
    if (op->dst.slot || d->slots > 1)
        why = "its buffer has slots of its own",
        hint = "declare one buffer; the pipeline has slots";
    else if (!whole_buffer(p, &op->dst))
        why = "it fills a part of its buffer", hint = "copy tiles of the buffer's shape";
    else if (op->cluster)
        why = "not supported yet: .multicast";
    else if (p->written[p->k->buffers.at[op->src.buffer].param])
        why = "the kernel writes to the array that it reads, and it would read earlier";
    else
        why = tma_rule(p, op), hint = "the TMA unit cannot bring it";
    if (!why && l->scope->stages > 1 && (slot_bytes(p, l->buffer, &aligned), !aligned))
        why = "slots of this size would not begin where its swizzle does",
        hint = "take a multiple of 8 rows of the swizzle's width";
    if (why) refuse(l, op->loc, hint, why);
}

// ---- the buffer ---------------------------------------------------------------------------------

typedef struct {
    Pipe *p;
    int buffer;
    const TileOp *load;            // the copy that covers what is looked at; NULL: none yet
    bool written;                  // by the threads, behind the only copy into it
    const char *why;
    Loc where;
} Cover;

static Load *candidate(const Pipe *p, const TileOp *op)
{
    intptr_t i = (intptr_t)map_get(p->candidates, op);
    return i ? &p->loads.at[i - 1] : NULL;
}

// The copy is the only one into its buffer, and is executed once: behind it the buffer is the
// threads' own.
static bool gives(const Pipe *p, const TileOp *op)
{
    const Load *l = op ? candidate(p, op) : NULL;
    if (!l || !l->scope->once) return false;
    for (int i = 0; i < p->loads.n; i++)
        if (p->loads.at[i].buffer == l->buffer && &p->loads.at[i] != l) return false;
    return true;
}

static void cover_view(void *ctx, const TileOp *op, TileView *v, int how)
{
    Cover *c = ctx;
    if (v->buffer < 0 || tile_memory(c->p->k, v->buffer) != c->buffer || c->why) return;
    if ((how & ACCESS_WRITE) && gives(c->p, c->load))
        c->written = true;
    else if (how & ACCESS_WRITE)
        c->why = "the threads write to its buffer, too";
    else if (!c->load)
        c->why = "its buffer is read where no copy of the same round stands in front";
    c->where = op->loc;
}

static bool fills(const Pipe *p, const TileOp *op, int buffer)
{
    const Load *l = op->op == TOP_COPY ? candidate(p, op) : NULL;
    return l && l->buffer == buffer;
}

static bool fills_inside(const Pipe *p, const TileOp *op, int buffer)
{
    for (int k = 0; k < 2; k++) {
        const TileBlock *b = k ? &op->other : &op->body;
        for (int i = 0; i < b->n; i++)
            if (fills(p, b->at[i], buffer) || fills_inside(p, b->at[i], buffer)) return true;
    }
    return false;
}

// Every read stands behind a copy in the same list or in one around it, and nobody else writes. A
// loop or branch with copies into the buffer ends what was copied in front of it.
static void cover_list(Cover *c, const TileBlock *b)
{
    const TileOp *outer = c->load;
    for (int i = 0; i < b->n && !c->why; i++) {
        TileOp *op = b->at[i];
        if (fills(c->p, op, c->buffer)) {
            c->load = op;
            continue;
        }
        tile_visit_views(op, cover_view, c);
        if (fills_inside(c->p, op, c->buffer)) c->load = NULL;
        cover_list(c, &op->body);
        cover_list(c, &op->other);
    }
    c->load = outer;
}

static bool waits_for(const TileOp *op, int future)
{
    if (op->op == TOP_WAIT && op->future == future) return true;
    for (int i = 0; i < op->body.n; i++)
        if (waits_for(op->body.at[i], future)) return true;
    for (int i = 0; i < op->other.n; i++)
        if (waits_for(op->other.at[i], future)) return true;
    return false;
}

typedef struct {
    const Pipe *p;
    int buffer;
    VEC(int) futures;              // products in flight that read it
    bool ordinary, others;         // loads of the threads read it; other buffers
} Readers;

static void note_reader(void *ctx, const TileOp *op, TileView *v, int how)
{
    Readers *r = ctx;
    (void)how;
    if (op->op == TOP_MMA && op->future >= 0 && v->buffer >= 0 &&
        tile_memory(r->p->k, v->buffer) == r->buffer)
        vec_push(r->p->m->arena, &r->futures, op->future);
}

static void note_ordinary(void *ctx, const TileOp *op, TileView *v, int how)
{
    Readers *r = ctx;
    (void)op;
    if (!(how & ACCESS_GENERIC) || !(how & ACCESS_READ) || v->buffer < 0 ||
        r->p->k->buffers.at[v->buffer].kind != TB_SHARED)
        return;
    if (tile_memory(r->p->k, v->buffer) == r->buffer) r->ordinary = true;
    else r->others = true;
}

// 1: ordinary loads in the operation read the buffer; -1: they read others only; 0: there are none.
static int reads_by_threads(const Pipe *p, TileOp *op, int buffer)
{
    Readers r = {.p = p, .buffer = buffer};
    tile_visit_all(op, note_ordinary, &r);
    return r.ordinary ? 1 : r.others ? -1 : 0;
}

// First and last place of the list that uses what the load brings. A product that runs on uses its
// operands until it is waited for.
static void find_uses(Pipe *p, Load *l)
{
    const TileBlock *b = l->scope->list;
    Readers readers = {.p = p, .buffer = l->buffer};
    bool read = false;
    for (int i = l->at + 1; i < b->n; i++) {
        TileOp *op = b->at[i];
        if (fills(p, op, l->buffer) || fills_inside(p, op, l->buffer)) break;
        bool uses = tile_accesses(p->k, op, l->buffer);
        int other = reads_by_threads(p, op, l->buffer);
        read = other == 1 || (read && other == 0);
        // Whoever writes a fence means it for the reads in front of it.
        if (op->op == TOP_FENCE && !op->imm && read) {
            l->fence = op;
            uses = true;
        }
        for (int k = 0; k < readers.futures.n; k++) {
            if (!waits_for(op, readers.futures.at[k])) continue;
            uses = true;
            readers.futures.at[k--] = readers.futures.at[--readers.futures.n];
        }
        tile_visit_all(op, note_reader, &readers);
        // One that is waited for inside of the same operation does not run on.
        for (int k = 0; k < readers.futures.n; k++)
            if (waits_for(op, readers.futures.at[k]))
                readers.futures.at[k--] = readers.futures.at[--readers.futures.n];
        if (!uses) continue;
        if (l->first == l->at) l->first = i;
        l->last = i;
    }
    if (l->fence && l->fence != b->at[l->last]) l->fence = NULL; // something else holds the slot
    if (readers.futures.n)
        refuse(l, l->op->loc, "wait for the product in the same round",
               "a product that reads it is not waited for in the same list of statements");
}

// An asynchronous copy is waited for in its own list: the wait goes, the event takes its place.
static void check_future(Load *l)
{
    if (l->op->future < 0) return;
    for (int i = l->at + 1; i < l->scope->list->n; i++) {
        const TileOp *op = l->scope->list->at[i];
        if (op->op == TOP_WAIT && op->future == l->op->future) return;
        if (waits_for(op, l->op->future)) break;
    }
    refuse(l, l->op->loc, "wait for it where it starts",
           "it is not waited for in the list of statements that it stands in");
}

// With the policy `delay` the slot is handed back behind pinned uses of what was read from it.
// Where there are none, handoff.c refuses the policy.
static void delay_release(Pipe *p, Load *l)
{
    if (tile_policy(p->m, &p->k->buffers.at[l->buffer]) != HANDOFF_DELAY || l->first == l->at)
        return;
    int place = tile_pinned_at(p->m, p->k, l->scope->list, l->first, l->last, l->buffer);
    l->last = MAX(l->last, place);
}

// Of a buffer, once for all of its loads.
static const Cover *covered(Pipe *p, Cover *all, int buffer)
{
    Cover *c = &all[buffer];
    if (c->p) return c;
    *c = (Cover){.p = p, .buffer = buffer};
    cover_list(c, &p->k->body);
    return c;
}

static void check_buffer(Pipe *p, Load *l, Cover *all)
{
    const Cover *c = covered(p, all, l->buffer);
    if (c->why) refuse(l, c->where, NULL, c->why);
    l->written = c->written;
    find_uses(p, l);
    delay_release(p, l);
    check_future(l);
}

// One load that is refused keeps the others of its buffer, and so do unequal slots.
static void refuse_together(Pipe *p)
{
    const Load **refused = ARENA_ARRAY(p->m->arena, const Load *, p->k->buffers.n + 1);
    int *stages = ARENA_ARRAY(p->m->arena, int, p->k->buffers.n + 1);
    for (int i = 0; i < p->loads.n; i++) {
        Load *l = &p->loads.at[i];
        int *s = &stages[l->buffer];
        if (*s > 1 && l->scope->stages > 1 && l->scope->stages != *s)
            refuse(l, l->op->loc, "give both loops the same number of slots",
                   "its buffer is filled in loops with different numbers of slots");
        *s = MAX(*s, l->scope->stages);
        if (l->why && !refused[l->buffer]) refused[l->buffer] = l;
    }
    for (int i = 0; i < p->loads.n; i++) {
        Load *l = &p->loads.at[i];
        if (refused[l->buffer])
            refuse(l, refused[l->buffer]->op->loc, NULL,
                   "another copy into its buffer cannot be brought ahead");
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

static void note_write(void *ctx, const TileOp *op, TileView *v, int how)
{
    Pipe *p = ctx;
    (void)op;
    if (!(how & ACCESS_WRITE) || v->buffer < 0) return;
    const TileBuffer *b = &p->k->buffers.at[v->buffer];
    if (b->kind == TB_GLOBAL) p->written[b->param] = true;
}

// What a kernel with a producer must not have: roles and events of its own.
static const char *forbidden(const TileBlock *b, Loc *where)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        *where = op->loc;
        switch ((TileOpcode)op->op) {
        case TOP_ROLE: return "the kernel has roles of its own";
        case TOP_EVENT_WAIT:
        case TOP_TRIGGER: return "the kernel has events of its own";
        case TOP_SETREG: return "the kernel moves registers itself";
        case TOP_PAR:
            if (op->level == LEVEL_WARP) return "not supported yet: a parallel of warps";
            break;
        default: break;
        }
        const char *why = forbidden(&op->body, where);
        if (!why) why = forbidden(&op->other, where);
        if (why) return why;
    }
    return NULL;
}

static const char *kernel_rule(const Pipe *p, Loc *where)
{
    const TileKernel *k = p->k;
    const char *why = forbidden(&k->body, where);
    if (why) return why;
    *where = k->loc;
    if (k->cluster > 1) return "not supported yet: blocks in clusters";
    if (k->threads % 128) return "its block is no whole number of warpgroups";
    if (k->threads + (k->threads > 128 ? 128 : 32) > 1024) return "no thread of the block is left";
    return NULL;
}

Load *pipeline_load(const Pipe *p, const TileOp *op)
{
    intptr_t i = (intptr_t)map_get(p->load_of, op);
    return i ? &p->loads.at[i - 1] : NULL;
}

static void accept(Pipe *p)
{
    p->load_of = map_new(p->m->arena);
    for (int i = 0; i < p->loads.n; i++)
        if (!p->loads.at[i].why) map_put(p->load_of, p->loads.at[i].op, (void *)(intptr_t)(i + 1));
}

const char *pipeline_find(Pipe *p, Loc *where)
{
    const char *why = kernel_rule(p, where);
    if (why) return why;
    Scope *body = ARENA_NEW(p->m->arena, Scope);
    *body = (Scope){.list = &p->k->body, .stages = 1, .once = true};
    for (int i = 0; i < p->k->body.n; i++) tile_visit_all(p->k->body.at[i], note_write, p);
    find_loads(p, body, false);
    Cover *all = ARENA_ARRAY(p->m->arena, Cover, p->k->buffers.n + 1);
    for (int i = 0; i < p->loads.n; i++) {
        check_copy(p, &p->loads.at[i]);
        check_buffer(p, &p->loads.at[i], all);
    }
    refuse_together(p);
    accept(p);
    // As a rule the producer can compute what all of them need; if not, each is asked for itself.
    Loc place;
    if (!pipeline_needs(p, NULL, &place)) return NULL;
    for (int i = 0; i < p->loads.n; i++) {
        Load *l = &p->loads.at[i];
        const char *needs = l->why ? NULL : pipeline_needs(p, l, &place);
        if (needs) refuse(l, place, NULL, needs);
    }
    refuse_together(p);
    accept(p);
    return NULL;
}
