// resolve_select.c - tiles chosen by an index that is known when the kernel runs.
//
// A tile of the tile IR lies in one buffer. Buffers that are candidates of one select therefore
// become the slots of one array: the first walk over the function finds them, the second one
// declares them so. The chosen tile then differs from the others in numbers only.
#include "resolve.h"

typedef struct BufferMember BufferMember;
typedef struct {
    VEC(BufferMember *) members;
    const TileKernel *kernel; // that has the array already ...
    int buffer;               // ... as this buffer
} BufferGroup;
struct BufferMember {
    BufferGroup *group;
    int slot;
};

// ---- buffers that become one array ---------------------------------------------------------------

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
    g->kernel = r->k;
    g->buffer = id;
    v.view.slot = expr_const(r->x, m->slot);
    return v;
}

// ---- select --------------------------------------------------------------------------------------

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
