// resolve_select.c - tiles that are known only when the kernel runs: select, and futures whose
// names turn with swap and rotate.
//
// A tile of the tile IR lies in one buffer. Buffers that are candidates of one select, or of names
// that turn, therefore become the slots of one array: the first walk over the function finds them,
// the second one declares them so. The chosen tile then differs from the others in numbers only;
// the slot of a name that turns is a variable.
#include "resolve.h"

typedef struct BufferMember BufferMember;
typedef struct {
    VEC(BufferMember *) members;
    const TileKernel *kernel; // that has the array already ...
    int buffer;               // ... as this buffer
    bool turns;               // by swap or rotate
    bool tma;                 // ... and the TMA unit brings the tiles ...
    int event;                // ... with this event
} BufferGroup;
struct BufferMember {
    BufferGroup *group;
    int slot;
    TileBuffer shape; // of a placeholder, once a copy filled it; rank 0: not yet
};

// ---- buffers that become one array -------------------------------------------------------------

static BufferMember *member_of(Resolve *r, const AstNode *decl)
{
    BufferMember *m = map_get(r->acc_shapes, decl);
    if (m) return m;
    m = ARENA_NEW(r->arena, BufferMember);
    m->group = ARENA_NEW(r->arena, BufferGroup);
    vec_push(r->arena, &m->group->members, m);
    map_put(r->acc_shapes, decl, m);
    return m;
}

// In the first walk: the two declarations are slots of one array from now on.
static void join(Resolve *r, const AstNode *a, const AstNode *b)
{
    BufferGroup *to = member_of(r, a)->group, *from = member_of(r, b)->group;
    if (to == from) return;
    for (int i = 0; i < from->members.n; i++) {
        BufferMember *m = from->members.at[i];
        m->group = to;
        m->slot = to->members.n;
        vec_push(r->arena, &to->members, m);
    }
    to->turns |= from->turns;
    to->tma |= from->tma;
}

bool resolve_turns(const Resolve *r, const AstNode *decl)
{
    const BufferMember *m = r->first_walk ? NULL : map_get(r->acc_shapes, decl);
    return m && m->group->turns;
}

Value resolve_declare_buffer(Resolve *r, const AstNode *decl, TileBuffer b)
{
    BufferMember *m = r->first_walk ? NULL : map_get(r->acc_shapes, decl);
    BufferGroup *g = m ? m->group : NULL;
    int id = g && g->kernel == r->k ? g->buffer : -1;
    if (id < 0) {
        if (g) b.slots = g->members.n;
        id = resolve_add_buffer(r, b);
        r->uses.at[id].decl = decl;
    }
    Value v = view_of_buffer(r, id);
    if (!g) return v;
    if (g->kernel != r->k) g->event = -1;
    g->kernel = r->k;
    g->buffer = id;
    v.view.slot = expr_const(r->x, m->slot);
    if (!g->turns) return v;
    int slot = resolve_new_scalar(r, intern(r->m->names, "slot"), DT_S32, decl->loc);
    const char *name = r->k->scalars.at[slot].name;
    Value first = value_index(r, v.view.slot, DT_S32);
    resolve_set(r, slot, value_tree(r, &first, decl->loc), decl->loc);
    map_put(r->mutables, name, r);
    expr_set_range(r->x, name, 0, g->members.n - 1);
    v.view.slot = expr_var(r->x, name);
    return v;
}

// Type and extents, which are constants. The walks have expressions of their own.
static bool same_shape(const TileBuffer *a, const TileBuffer *b)
{
    bool same = a->type == b->type && a->rank == b->rank && a->kind == b->kind;
    i64 x, y;
    for (int i = 0; same && i < a->rank; i++)
        same = expr_is_const(a->dim[i], &x) && expr_is_const(b->dim[i], &y) && x == y;
    return same;
}

// ---- swap and rotate ---------------------------------------------------------------------------

// A wait for one of such loads must not wait for the others: each slot has a barrier of its own.
int resolve_turn_event(Resolve *r, const AstNode *decl)
{
    enum { TURN_SLOTS = 31 };
    const BufferMember *m = r->first_walk ? NULL : map_get(r->acc_shapes, decl);
    BufferGroup *g = m && m->group->turns && m->group->tma ? m->group : NULL;
    if (!g || g->kernel != r->k) return -1;
    if (g->event >= 0) return g->event;
    if (g->members.n > TURN_SLOTS) {
        resolve_unsupported(r, decl->loc, "more than %d names of tma loads that turn", TURN_SLOTS);
        return -1;
    }
    const char *name = intern_printf(r->m->names, "%s_full", r->k->buffers.at[g->buffer].name);
    TileEvent e = {.name = resolve_plain(r, name), .slots = g->members.n, .turns = true,
                   .loc = decl->loc};
    vec_push(r->arena, &r->k->events, e);
    vec_push(r->arena, &r->event_uses, ((EventUse){true, true}));
    return g->event = r->k->events.n - 1;
}

TileOp *resolve_turn_wait(Resolve *r, const Symbol *f, int event, Loc loc)
{
    TileOp *o = resolve_emit(r, TOP_EVENT_WAIT, loc);
    o->event = event;
    o->order = f->value.view.slot;
    return o;
}

// Every thread of the role counts the waits for each slot, so all that is done with such a name is
// done by the same threads.
bool resolve_turn_here(Resolve *r, const Symbol *f, Loc loc)
{
    if (f->roles == r->roles) return true;
    resolve_error(r, loc, "declare it in the role", "'%s' is declared outside of this inthreads",
                  f->name);
    return false;
}

// f = dma.any: a name for what copies fill later; the first of them gives it its shape.
void resolve_placeholder(Resolve *r, const AstNode *s)
{
    BufferMember *m = member_of(r, s);
    Value v = value_none();
    if (!r->at) {
        resolve_error(r, s->loc, NULL, "a placeholder can only stand inside `parallel`");
    } else if (m->shape.rank && !r->first_walk) {
        TileBuffer b = m->shape;
        i64 n;
        for (int i = 0; i < b.rank; i++)
            if (expr_is_const(b.dim[i], &n)) b.dim[i] = expr_const(r->x, n);
        v = resolve_declare_buffer(r, s, b);
    } else if (!r->first_walk) {
        resolve_error(r, s->loc, "fill it: `f = dma.copy.async src => shared;`",
                      "no copy fills the placeholder '%s'", s->name);
    }
    Symbol *f = scope_add(r, s->name, s->loc, v);
    if (!f) return;
    f->is_future = true;
    f->waited = true; // nothing was started yet
    f->placeholder = s;
    f->turns = resolve_turns(r, s);
}

bool resolve_fill_placeholder(Resolve *r, const AstNode *s, Symbol *f, TileBuffer b, Value *out)
{
    BufferMember *m = member_of(r, f->placeholder);
    if (r->first_walk && !m->shape.rank) m->shape = b;
    if (f->value.kind == VAL_NONE && r->first_walk)
        f->value = resolve_declare_buffer(r, f->placeholder, b);
    *out = f->value;
    if (out->kind == VAL_NONE) return false;
    bool same = same_shape(&r->k->buffers.at[out->view.buffer], &b);
    if (!same)
        resolve_error(r, s->loc, "all copies into one placeholder have one type and shape",
                      "'%s' is %s", f->name, view_text(r, out));
    return same;
}

// A name that can turn: a future of a copy into a shared buffer of its own.
static Symbol *turning(Resolve *r, const AstNode *e)
{
    Symbol *f = e->kind == AST_NAME ? scope_find(r, e->name) : NULL;
    if (f && f->value.kind == VAL_NONE && !f->placeholder) return NULL;
    const AstNode *decl = !f ? NULL : f->placeholder;
    if (f && !decl && f->is_future && f->value.kind == VAL_VIEW)
        decl = r->uses.at[f->value.view.buffer].decl;
    if (decl && decl->kind == AST_XFER) return f;
    resolve_error(r, e->loc, "such as `f = dma.copy.async src => shared;` or `f = dma.any;`",
                  "what turns must be a future of a copy into new shared memory");
    return NULL;
}

static const AstNode *declared_by(const Resolve *r, const Symbol *f)
{
    return f->placeholder ? f->placeholder : r->uses.at[f->value.view.buffer].decl;
}

// swap(f, g), rotate(f, g, h): f becomes what g was, g what h was, the last what f was.
void resolve_turn(Resolve *r, const AstNode *s)
{
    enum { TURN_MAX = 16 };
    Symbol *f[TURN_MAX];
    int n = s->list.n;
    if (!r->at || r->in_apply || n > TURN_MAX) {
        resolve_error(r, s->loc, NULL, n > TURN_MAX ? "more than 16 names that turn"
                                                    : "swap and rotate stand inside `parallel`");
        return;
    }
    for (int i = 0; i < n; i++) {
        if (!(f[i] = turning(r, s->list.at[i]))) return;
        if (f[i]->depth == f[0]->depth) continue;
        resolve_error(r, s->list.at[i]->loc, "declare them in one block",
                      "'%s' and '%s' are declared in different blocks", f[0]->name, f[i]->name);
        return;
    }
    if (!resolve_together(r, s->loc, "swap", LEVEL_BLOCK)) return;
    if (r->first_walk) {
        for (int i = 1; i < n; i++) { // those that do not fit stay apart, which is reported later
            bool known = f[0]->value.kind == VAL_VIEW && f[i]->value.kind == VAL_VIEW;
            if (known && same_shape(&r->k->buffers.at[f[0]->value.view.buffer],
                                    &r->k->buffers.at[f[i]->value.view.buffer]))
                join(r, declared_by(r, f[0]), declared_by(r, f[i]));
        }
        BufferGroup *g = member_of(r, declared_by(r, f[0]))->group;
        g->turns = true;
        for (int i = 0; i < n; i++) g->tma |= f[i]->op && f[i]->op->engine == ENGINE_TMA;
        return;
    }
    for (int i = 0; i < n; i++) {
        const TileView *v = &f[i]->value.view;
        bool turns = f[i]->value.kind == VAL_VIEW && v->slot && v->slot->op == EX_VAR;
        if (!turns || v->buffer != f[0]->value.view.buffer) {
            resolve_error(r, s->list.at[i]->loc, "all of them need one type and shape",
                          "'%s' and '%s' cannot turn", f[0]->name, f[i]->name);
            return;
        }
    }
    if (resolve_turn_event(r, declared_by(r, f[0])) >= 0)
        for (int i = 0; i < n; i++)
            if (!resolve_turn_here(r, f[i], s->list.at[i]->loc)) return;
    const Expr *slot[TURN_MAX]; // what they are now
    for (int i = 0; i < n; i++) {
        int now = resolve_new_scalar(r, intern(r->m->names, "was"), DT_S32, s->loc);
        Value v = value_index(r, f[i]->value.view.slot, DT_S32);
        resolve_set(r, now, value_tree(r, &v, s->loc), s->loc);
        slot[i] = expr_var(r->x, r->k->scalars.at[now].name);
        i64 lo, hi;
        if (expr_range(r->x, v.index, &lo, &hi)) expr_set_range(r->x, slot[i]->name, lo, hi);
    }
    Symbol was = *f[0]; // what is in flight turns too
    for (int i = 0; i < n; i++) {
        const Symbol *next = i + 1 < n ? f[i + 1] : &was;
        f[i]->waited = next->waited;
        f[i]->block = next->block;
        const char *name = f[i]->value.view.slot->name;
        for (int k = 0; k < r->k->scalars.n; k++) {
            if (r->k->scalars.at[k].name != name) continue;
            Value v = value_index(r, slot[(i + 1) % n], DT_S32);
            resolve_set(r, k, value_tree(r, &v, s->loc), s->loc);
        }
    }
}

// ---- select ------------------------------------------------------------------------------------

enum { SELECT_MAX = 16 };

// One of n numbers; the last one also for an index that is too large.
static const Expr *choose(Resolve *r, const Expr *index, const Expr *const *at, int n)
{
    bool same = true, counts = true;
    i64 first, k;
    for (int i = 1; i < n; i++) same &= at[i] == at[0];
    if (same) return at[0];
    counts = expr_is_const(at[0], &first);
    for (int i = 1; i < n && counts; i++) counts = expr_is_const(at[i], &k) && k == first + i;
    if (counts) return expr_add(r->x, index, expr_const(r->x, first));
    const Expr *e = at[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        const Expr *is = expr_bin(r->x, EX_EQ, index, expr_const(r->x, i));
        e = expr_select(r->x, is, at[i], e);
    }
    return e;
}

// Candidates have one type and shape.
static bool alike(Resolve *r, const AstNode *e, const Value *a, const Value *b)
{
    bool same = b->kind == VAL_VIEW && a->type == b->type && a->view.rank == b->view.rank;
    for (int i = 0; same && i < a->view.rank; i++)
        same = a->view.extent[a->view.dim[i]] == b->view.extent[b->view.dim[i]];
    if (same) return true;
    if (b->kind != VAL_NONE)
        resolve_error(r, e->loc, "all candidates need one type and shape",
                      "select of %s and %s", view_text(r, a),
                      b->kind == VAL_VIEW ? view_text(r, b) : value_describe(r, b));
    return false;
}

// They lie in one buffer, or in such as can become one.
static bool together(Resolve *r, const AstNode *e, const Value *a, const Value *b)
{
    const TileBuffer *x = &r->k->buffers.at[a->view.buffer], *y = &r->k->buffers.at[b->view.buffer];
    bool same = a->view.buffer == b->view.buffer, fits = x->kind == y->kind && x->rank == y->rank;
    for (int i = 0; same && i < a->view.rank; i++) same = a->view.dim[i] == b->view.dim[i];
    if (same) return true;
    for (int i = 0; fits && i < x->rank; i++) fits = x->dim[i] == y->dim[i];
    for (int i = 0; fits && i < a->view.rank; i++) fits = a->view.dim[i] == b->view.dim[i];
    const AstNode *p = r->uses.at[a->view.buffer].decl, *q = r->uses.at[b->view.buffer].decl;
    if (fits && r->first_walk && x->kind != TB_GLOBAL && x->slots == 1 && y->slots == 1 && p && q) {
        join(r, p, q);
        return true;
    }
    resolve_unsupported(r, e->loc, "select of tiles of different arrays: '%s' and '%s'", x->name,
                        y->name);
    return false;
}

// `v`: the candidates, n of them, of which the first is a tile.
static Value choose_tile(Resolve *r, const AstNode *e, const Expr *index, const Value *v, int n)
{
    for (int i = 1; i < n; i++) {
        const AstNode *at = e->list.at[i + 1];
        if (!alike(r, at, &v[0], &v[i]) || !together(r, at, &v[0], &v[i])) return value_none();
    }
    Value out = v[0];
    const Expr *part[SELECT_MAX];
    if (r->first_walk) return out;
    for (int d = 0; d < r->k->buffers.at[out.view.buffer].rank; d++) {
        for (int i = 0; i < n; i++) part[i] = v[i].view.origin[d];
        out.view.origin[d] = choose(r, index, part, n);
        for (int i = 0; i < n; i++) part[i] = v[i].view.limit[d];
        out.view.limit[d] = choose(r, index, part, n);
    }
    for (int i = 0; i < n; i++)
        part[i] = v[i].view.slot ? v[i].view.slot : expr_const(r->x, 0);
    if (r->k->buffers.at[out.view.buffer].slots > 1) out.view.slot = choose(r, index, part, n);
    return out;
}

// One of several numbers, the last for every larger index.
static Value choose_number(Resolve *r, const AstNode *e, const Expr *index, const Value *v, int n)
{
    Value out = v[n - 1];
    for (int i = n - 2; i >= 0 && out.kind == VAL_SCALAR; i--) {
        if (v[i].kind != VAL_SCALAR) {
            out = v[i];
            break;
        }
        const Expr *is = expr_bin(r->x, EX_EQ, index, expr_const(r->x, i));
        out = math_select(r, value_index(r, is, DT_BOOL), v[i], out, e->loc);
    }
    if (out.kind == VAL_NONE || out.kind == VAL_SCALAR) return out;
    resolve_error(r, e->loc, NULL, "select of %s by an index that is no constant",
                  value_describe(r, &out));
    return value_none();
}

Value resolve_select_among(Resolve *r, const AstNode *e, const Expr *index)
{
    int n = e->list.n - 1;
    Value v[SELECT_MAX];
    if (n > SELECT_MAX) {
        resolve_unsupported(r, e->loc, "select of more than %d candidates", SELECT_MAX);
        return value_none();
    }
    for (int i = 0; i < n; i++) {
        v[i] = resolve_expr(r, e->list.at[i + 1]);
        if (v[i].kind == VAL_NONE) return v[i];
    }
    if (!view_slot_inside(r, index, n, e->list.at[0]->loc)) return value_none();
    return v[0].kind == VAL_VIEW ? choose_tile(r, e, index, v, n)
                                 : choose_number(r, e, index, v, n);
}
