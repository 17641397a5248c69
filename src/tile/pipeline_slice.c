// pipeline_slice.c - the producer's program: the loads, the loops and branches that they stand
// in, and the scalars that decide where they go and how often.
//
// The producer runs ahead of the consumers, so it may use only what it can compute by itself:
// sizes, block indices, loops, scalars made of those and of global memory that the kernel does
// not write. What comes from fragments, shared or local memory, a vote or an atomic stays with
// the consumers, and so do the loads that depend on it.
#include "pipeline.h"

typedef struct {
    Pipe *p;
    const Load *only;              // NULL: all that were accepted
    const char *why;               // first thing that a producer cannot compute
    Loc where;
    bool grew;
} Need;

static void fail(Need *n, Loc where, const char *why)
{
    if (n->why) return;
    n->why = why;
    n->where = where;
}

static void need_expr(Need *n, const Expr *e, Loc loc)
{
    if (!e) return;
    if (e->op == EX_VAR && e->name[0] == '%') {
        intptr_t scalar = (intptr_t)map_get(n->p->scalar_of, e->name);
        if (map_get(n->p->parallel, e->name)) fail(n, loc, "its place depends on the thread");
        if (scalar && !n->p->needed[scalar - 1]) n->p->needed[scalar - 1] = n->grew = true;
    }
    need_expr(n, e->a, loc);
    need_expr(n, e->b, loc);
    need_expr(n, e->c, loc);
}

static void need_view(Need *n, const TileView *v, Loc loc)
{
    const TileBuffer *b = &n->p->k->buffers.at[v->buffer];
    for (int d = 0; d < b->rank; d++) {
        need_expr(n, v->origin[d], loc);
        need_expr(n, v->extent[d], loc);
        need_expr(n, v->limit[d], loc);
    }
    need_expr(n, v->slot, loc);
}

static void need_value(Need *n, const TExpr *x, Loc loc)
{
    if (!x) return;
    if (x->kind == TX_FRAG) fail(n, loc, "it depends on values of a fragment");
    if (x->kind == TX_MATH && x->math == TM_ANY) fail(n, loc, "it depends on a vote");
    if (x->kind == TX_INDEX) need_expr(n, x->index, loc);
    if (x->kind == TX_SCALAR && n->p->k->scalars.at[x->scalar].name[0] == '%')
        need_expr(n, expr_var(n->p->m->exprs, n->p->k->scalars.at[x->scalar].name), loc);
    if (x->kind == TX_ELEM) {
        const TileBuffer *b = &n->p->k->buffers.at[x->view->buffer];
        if (b->kind != TB_GLOBAL)
            fail(n, loc, "it depends on values in shared or local memory");
        else if (n->p->written[b->param])
            fail(n, loc, "it depends on an array that the kernel writes to");
        need_view(n, x->view, loc);
    }
    need_value(n, x->a, loc);
    need_value(n, x->b, loc);
    need_value(n, x->c, loc);
}

static bool is_load(const Need *n, const TileOp *op)
{
    return n->only ? op == n->only->op : pipeline_load(n->p, op) != NULL;
}

// Marks what the kept operations of a list need. Returns whether any is kept.
static bool need_list(Need *n, const TileBlock *b)
{
    bool kept = false;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        bool sets = (op->op == TOP_SET || op->op == TOP_ATOMIC) && n->p->needed[op->scalar];
        bool inside = need_list(n, &op->body) | need_list(n, &op->other);
        bool keep = inside || sets || (op->op == TOP_COPY && is_load(n, op));
        if (!keep) continue;
        kept = true;
        switch ((TileOpcode)op->op) {
        case TOP_COPY: need_view(n, &op->src, op->loc); break;
        case TOP_SET: need_value(n, op->value, op->loc); break;
        case TOP_ATOMIC: fail(n, op->loc, "it depends on the result of an atomic"); break;
        case TOP_APPLY: fail(n, op->loc, "it depends on what an apply computes"); break;
        case TOP_IF: need_value(n, op->cond, op->loc); break;
        case TOP_FOR:
            need_expr(n, op->lo, op->loc);
            need_expr(n, op->hi, op->loc);
            break;
        default: break;
        }
    }
    return kept;
}

const char *pipeline_needs(Pipe *p, const Load *only, Loc *where)
{
    Need n = {.p = p, .only = only};
    for (int i = 0; i < p->k->scalars.n; i++) p->needed[i] = false;
    do {
        n.grew = false;
        need_list(&n, &p->k->body);
    } while (n.grew && !n.why);
    if (n.why) *where = n.where;
    return n.why;
}

// ---- copying ------------------------------------------------------------------------------------

typedef struct {
    Pipe *p;
    Map *renamed;                  // loop variable -> its name in the producer's program
} Slice;

static const Expr *new_name(void *ctx, const Expr *var)
{
    const Slice *s = ctx;
    const char *name = map_get(s->renamed, var->name);
    return name ? expr_var(s->p->m->exprs, name) : NULL;
}

static const Expr *sliced_expr(Slice *s, const Expr *e)
{
    return e ? expr_subst(s->p->m->exprs, e, new_name, s) : NULL;
}

static TileView sliced_view(Slice *s, const TileView *v)
{
    TileView to = *v;
    for (int d = 0; d < s->p->k->buffers.at[v->buffer].rank; d++) {
        to.origin[d] = sliced_expr(s, v->origin[d]);
        to.extent[d] = sliced_expr(s, v->extent[d]);
        to.limit[d] = sliced_expr(s, v->limit[d]);
    }
    return to;
}

static const TExpr *sliced_value(Slice *s, const TExpr *x)
{
    if (!x) return NULL;
    TExpr *to = ARENA_NEW(s->p->m->arena, TExpr);
    *to = *x;
    to->index = sliced_expr(s, x->index);
    if (x->kind == TX_ELEM) {
        to->view = ARENA_NEW(s->p->m->arena, TileView);
        *to->view = sliced_view(s, x->view);
    }
    to->a = sliced_value(s, x->a);
    to->b = sliced_value(s, x->b);
    to->c = sliced_value(s, x->c);
    return to;
}

// ---- loads --------------------------------------------------------------------------------------

// +1: the tile's place moves with the block index by itself; -1: through a division or the like, so
// that several blocks may read one tile; 0: not at all.
static int moves_with(const Expr *e, const char *var)
{
    if (!e || !expr_uses(e, var)) return 0;
    if (e->op == EX_VAR) return 1;
    i64 unused;
    bool scaled = e->op == EX_MUL &&
                  (expr_is_const(e->a, &unused) || expr_is_const(e->b, &unused));
    if (e->op != EX_ADD && e->op != EX_SUB && !scaled) return -1;
    int a = moves_with(e->a, var), b = moves_with(e->b, var);
    return a < 0 || b < 0 ? -1 : 1;
}

// A tile whose place depends on every block index and loop is read once: the cache need not keep
// it. One that does not will be read again, by this block or by others.
static TileHint hint_of(const Pipe *p, const Load *l)
{
    const TileOp *op = l->op;
    const TileBuffer *t = &p->k->buffers.at[op->src.buffer];
    bool shared = false;
    for (const Scope *s = l->scope; s; s = s->outer) {
        bool moves = !s->owner || s->owner->op != TOP_FOR;
        for (int d = 0; d < t->rank && !moves; d++)
            moves = expr_uses(op->src.origin[d], s->owner->var);
        shared |= !moves;
    }
    for (int d = 0; d < t->rank; d++)
        for (int i = 0; i < p->k->scalars.n; i++)
            if (expr_uses(op->src.origin[d], p->k->scalars.at[i].name)) return HINT_NONE;
    for (int g = 0; g < p->k->ngrid; g++) {
        i64 count;
        int moves = 0;
        if (expr_is_const(p->k->grid[g], &count) && count == 1) continue;
        for (int d = 0; d < t->rank && moves >= 0; d++) {
            int m = moves_with(op->src.origin[d], p->k->grid_var[g]);
            moves = m < 0 ? m : MAX(m, moves);
        }
        if (moves < 0) return HINT_NONE;
        shared |= moves == 0;
    }
    return shared ? HINT_EVICT_LAST : HINT_EVICT_FIRST;
}

// Waits for the slot, unless it is filled once or an earlier load of the same events did, and
// loads.
static void slice_load(Slice *s, const Load *l, TileBlock *to)
{
    Pipe *p = s->p;
    const Ring *r = &p->rings.at[l->ring], *lead = &p->rings.at[r->group];
    const Class *c = &p->classes.at[r->class];
    bool leads = r == lead;
    i64 bytes = 0;
    for (int i = 0; i < p->rings.n; i++)
        if (&p->rings.at[p->rings.at[i].group] == lead) bytes += p->rings.at[i].bytes;
    if (!c->single) pipeline_slot(p, c, 0, l->op->loc, to);
    if (leads && lead->empty >= 0)
        pipeline_event(p, TOP_EVENT_WAIT, lead, lead->empty, 0, l->op->loc, to);
    TileOp *o = pipeline_op(p, TOP_COPY, l->op->loc, to);
    o->dst = l->op->dst;
    if (c->slot[0] >= 0) o->dst.slot = pipeline_scalar(p, c->slot[0]);
    o->src = sliced_view(s, &l->op->src);
    o->engine = ENGINE_TMA;
    o->hint = l->op->hint ? l->op->hint : hint_of(p, l);
    o->swizzle = l->op->swizzle;
    o->promote = l->op->promote;
    o->event = lead->full;
    if (!p->k->events.at[lead->full].scalar) o->order = pipeline_scalar(p, c->order[0]);
    o->imm = leads ? bytes : 0;
    if (!c->single) pipeline_step(p, c, 0, l->op->loc, to);
}

static void slice_list(Slice *s, const TileBlock *from, TileBlock *to);

static void slice_loop(Slice *s, const TileOp *op, TileBlock *to)
{
    Pipe *p = s->p;
    TileBlock body = {0};
    i64 lo, hi;
    const char *name = intern_printf(p->m->names, "%s.load", op->var);
    expr_range(p->m->exprs, expr_var(p->m->exprs, op->var), &lo, &hi);
    expr_set_range(p->m->exprs, name, lo, hi);
    map_put(s->renamed, op->var, (void *)(uintptr_t)name);
    slice_list(s, &op->body, &body);
    if (!body.n) return;
    TileOp *o = pipeline_op(p, TOP_FOR, op->loc, to);
    o->var = name;
    o->lo = sliced_expr(s, op->lo);
    o->hi = sliced_expr(s, op->hi);
    o->step = op->step;
    o->body = body;
}

static void slice_list(Slice *s, const TileBlock *from, TileBlock *to)
{
    Pipe *p = s->p;
    pipeline_begin_list(p, from, 0, to);
    for (int i = 0; i < from->n; i++) {
        const TileOp *op = from->at[i];
        const Load *l = pipeline_load(p, op);
        TileBlock body = {0}, other = {0};
        TileOp *o;
        if (l) slice_load(s, l, to);
        switch ((TileOpcode)op->op) {
        case TOP_SET:
            if (!p->needed[op->scalar]) break;
            o = pipeline_op(p, TOP_SET, op->loc, to);
            o->scalar = op->scalar;
            o->value = sliced_value(s, op->value);
            break;
        case TOP_PAR: slice_list(s, &op->body, to); break; // its variables are not used
        case TOP_FOR: slice_loop(s, op, to); break;
        case TOP_IF:
            slice_list(s, &op->body, &body);
            slice_list(s, &op->other, &other);
            if (!body.n && !other.n) break;
            o = pipeline_op(p, TOP_IF, op->loc, to);
            o->cond = sliced_value(s, op->cond);
            o->body = body;
            o->other = other;
            break;
        default: break;
        }
    }
    pipeline_end_list(p, from, 0, to);
}

void pipeline_slice(Pipe *p, TileBlock *to)
{
    Slice s = {p, map_new(p->m->arena)};
    slice_list(&s, &p->k->body, to);
}
