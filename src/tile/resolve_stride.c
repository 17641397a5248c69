// resolve_stride.c - views with strides of their own: `.view(n.. : s..)`, `.subspan(n.. : s..)`.
//
// Input: the view that is cut, the box's start and extents, and the strides as written, in elements
// of memory. Output: a view of the same array under another shape. A dimension whose stride is the
// one that it had stays; another becomes a new dimension, in front of which the old one remains for
// the place alone. So places keep one coordinate for each dimension of the array, whose multiples
// and bounds are known, and the TMA unit gets a map of it all.
#include "resolve.h"

// Elements from one index of dimension d of a buffer to the next.
static const Expr *own_stride(Resolve *r, const TileBuffer *b, int d)
{
    if (b->stride[0]) return b->stride[d];
    const Expr *s = expr_const(r->x, 1);
    for (int i = d + 1; i < b->rank; i++) s = expr_mul(r->x, s, b->dim[i]);
    return s;
}

// s = c * own with a constant c: c, else 0.
static i64 multiple_of(Resolve *r, const Expr *s, const Expr *own)
{
    i64 n, m;
    if (expr_is_const(s, &n) && expr_is_const(own, &m)) return m > 0 && n % m == 0 ? n / m : 0;
    if (s == own) return 1;
    if (s->op != EX_MUL || !expr_is_const(s->b, &n)) return 0;
    return expr_mul(r->x, own, expr_const(r->x, n)) == s ? n : 0;
}

typedef struct {
    TileBuffer buffer; // the array under the shape that the view needs
    TileView view;
    const Expr *last;  // elements from the array's first to the view's last
    bool leaves;       // a step leaves the dimension: bounds are those of the whole array
} Strided;

static bool push(Resolve *r, Strided *s, const Expr *dim, const Expr *stride, const Expr *origin,
                 const Expr *extent, const Expr *limit, bool keep, Loc loc)
{
    int d = s->buffer.rank++;
    if (d == TILE_MAX_RANK) {
        resolve_unsupported(r, loc, "a view with strides that needs more than %d dimensions, with "
                                    "those of its array", TILE_MAX_RANK);
        return false;
    }
    s->buffer.dim[d] = dim;
    s->buffer.stride[d] = stride;
    s->view.origin[d] = origin;
    s->view.extent[d] = extent;
    s->view.limit[d] = limit;
    if (keep) s->view.dim[s->view.rank++] = (u8)d;
    s->last = expr_add(r->x, s->last, expr_mul(r->x, origin, stride));
    return true;
}

// What is there for the place alone: nothing if that is the first.
static bool push_place(Resolve *r, Strided *s, const TileBuffer *b, int d, const Expr *origin,
                       const Expr *limit, Loc loc)
{
    i64 n;
    if (expr_is_const(origin, &n) && n == 0) return true;
    return push(r, s, b->dim[d], own_stride(r, b, d), origin, expr_const(r->x, 1), limit, false,
                loc);
}

// One kept dimension with the stride `by`. Where the step stays in the dimension, elements beyond
// its end are outside as those of other tiles are, but a box that provably ends there is an error.
static bool push_kept(Resolve *r, Strided *s, const Value *v, int d, const Expr *start,
                      const Expr *n, const Expr *by, Loc loc)
{
    const TileBuffer b = r->k->buffers.at[v->view.buffer];
    const Expr *own = own_stride(r, &b, d), *one = expr_const(r->x, 1), *zero = expr_const(r->x, 0);
    const Expr *origin = expr_add(r->x, v->view.origin[d], start);
    const Expr *end = expr_add(r->x, v->view.origin[d], v->view.extent[d]);
    end = expr_bin(r->x, EX_MIN, v->view.limit[d], end);
    i64 c = multiple_of(r, by, own), whole, lo, hi;
    if (expr_is_const(v->view.extent[d], &whole) && whole > 1 && c >= whole) c = 0;
    const Expr *reach = expr_sub(r->x, n, one);
    if (c > 0) {
        const Expr *at = expr_add(r->x, start, expr_mul(r->x, reach, expr_const(r->x, c)));
        expr_range(r->x, expr_sub(r->x, at, v->view.extent[d]), &lo, &hi);
        if (lo != INT64_MIN && lo >= 0) {
            resolve_error(r, loc, "take fewer elements or a smaller stride",
                          "the last of %s elements with stride %s is at %s; the dimension has %s",
                          resolve_text(r, n), resolve_text(r, by), resolve_text(r, at),
                          resolve_text(r, v->view.extent[d]));
            return false;
        }
    }
    if (c == 1) {
        s->last = expr_add(r->x, s->last, expr_mul(r->x, reach, own));
        return push(r, s, b.dim[d], own, origin, n, end, true, loc);
    }
    const Expr *limit = n;
    if (c > 1) { // elements that begin in front of the end
        const Expr *left = expr_sub(r->x, end, origin), *step = expr_const(r->x, c);
        left = expr_add(r->x, left, expr_const(r->x, c - 1));
        left = expr_bin(r->x, EX_DIV, expr_bin(r->x, EX_MAX, left, zero), step);
        limit = expr_bin(r->x, EX_MIN, n, left);
    }
    s->leaves |= c == 0;
    s->last = expr_add(r->x, s->last, expr_mul(r->x, reach, by));
    // Known at launch, the number of elements inside is the extent that a tensor map has.
    const Expr *dim = resolve_host_only(r, limit) ? limit : n;
    return push_place(r, s, &b, d, origin, v->view.limit[d], loc) &&
           push(r, s, dim, by, zero, n, limit, true, loc);
}

// Where a step leaves its dimension, the last element must be one of the array: by the compiler
// where that is known, else at each launch if sizes alone decide it.
static bool check_last(Resolve *r, const Strided *s, Loc loc)
{
    const PlanParam *p = &r->plan->params.at[s->buffer.param];
    const Expr *total = expr_const(r->x, 1);
    i64 lo, hi;
    for (int d = 0; d < p->rank; d++) total = expr_mul(r->x, total, p->dim[d]);
    expr_range(r->x, expr_sub(r->x, s->last, total), &lo, &hi);
    if (lo != INT64_MIN && lo >= 0) {
        resolve_error(r, loc, "take fewer elements or a smaller stride",
                      "the view's last element is number %s of an array of %s",
                      resolve_text(r, s->last), resolve_text(r, total));
        return false;
    }
    if ((hi == INT64_MAX || hi >= 0) && !r->guards && resolve_host_only(r, s->last)) {
        PlanCheck c = {expr_bin(r->x, EX_LT, s->last, total),
                       arena_printf(r->arena, "%s < %s (the last element of a view)",
                                    resolve_text(r, s->last), resolve_text(r, total)),
                       loc};
        vec_push(r->arena, &r->plan->checks, c);
        return true;
    }
    return view_reach(r, s->last, total, "the last element:", loc);
}

// The stride of kept dimension k, as written; `_` keeps the one that it has.
static const Expr *stride_of(Resolve *r, const AstNode *e, const Value *v, int k)
{
    const AstNode *item = e->list2.at[k];
    i64 n;
    if (item->kind == AST_WILD)
        return own_stride(r, &r->k->buffers.at[v->view.buffer], v->view.dim[k]);
    const Expr *s = resolve_index(r, item, "a stride");
    if (!s) return NULL;
    if (expr_is_const(s, &n) && n < 1) {
        resolve_error(r, item->loc, NULL, "a stride of %lld elements; it must be at least 1",
                      (long long)n);
        return NULL;
    }
    if (!resolve_host_only(r, s)) {
        resolve_unsupported(r, item->loc, "a stride that is not known at launch");
        return NULL;
    }
    return s;
}

// The same array under this shape, made before or new.
static int shaped(Resolve *r, const TileBuffer *b)
{
    for (int i = 0; i < r->k->buffers.n; i++) {
        const TileBuffer *o = &r->k->buffers.at[i];
        bool same = o->kind == TB_GLOBAL && o->param == b->param && o->rank == b->rank;
        for (int d = 0; same && d < b->rank; d++)
            same = o->dim[d] == b->dim[d] && o->stride[d] == b->stride[d];
        if (same) return i;
    }
    TileBuffer made = *b;
    made.name = intern_printf(r->m->names, "%s.by%d", r->plan->params.at[b->param].name,
                              r->k->buffers.n);
    return resolve_add_buffer(r, made);
}

Value view_strided(Resolve *r, const AstNode *e, const Value *v, const Expr *const *start,
                   const Expr *const *extent)
{
    const TileBuffer b = r->k->buffers.at[v->view.buffer];
    Strided s = {.buffer = b, .last = expr_const(r->x, 0)};
    if (b.kind != TB_GLOBAL) {
        resolve_unsupported(r, e->list2.at[0]->loc, "strides of a tile in %s memory",
                            b.kind == TB_SHARED ? "shared" : "local");
        return value_none();
    }
    if (e->list2.n != v->view.rank) {
        resolve_error(r, e->list2.at[0]->loc, "`_` keeps the stride of a dimension",
                      "%d strides for a tile of rank %d (%s)", e->list2.n, v->view.rank,
                      view_text(r, v));
        return value_none();
    }
    s.buffer.rank = 0;
    for (int d = 0; d < b.rank; d++) {
        int k = 0;
        while (k < v->view.rank && v->view.dim[k] != d) k++;
        if (k == v->view.rank) {
            if (!push_place(r, &s, &b, d, v->view.origin[d], v->view.limit[d], e->loc))
                return value_none();
            continue;
        }
        Loc loc = e->list2.at[k]->loc;
        if (!resolve_host_only(r, extent[k])) {
            resolve_unsupported(r, e->list.at[k]->loc,
                                "an extent of a view with strides that is not known at launch");
            return value_none();
        }
        const Expr *by = stride_of(r, e, v, k);
        if (!by || !push_kept(r, &s, v, d, start[k], extent[k], by, loc)) return value_none();
    }
    if (s.leaves && !check_last(r, &s, e->list2.at[0]->loc)) return value_none();
    Value out = *v;
    out.view = s.view;
    out.view.buffer = out.buffer = shaped(r, &s.buffer);
    return out;
}
