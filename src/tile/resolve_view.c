// resolve_view.c - shapes and views: tilings, elements, extents.
//
// A view is a box of a buffer. Tiling a view narrows its box; the limit of the result is where the
// old box ends, so a tile that hangs over stays cut off there.
#include "resolve.h"

#include <string.h>

// For messages: "bf16 [128, 64]".
const char *view_text(Resolve *r, const Value *v)
{
    Buf b = {0};
    buf_printf(&b, "%s [", dtype_name[v->type]);
    for (int i = 0; i < v->view.rank; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", resolve_text(r, v->view.extent[v->view.dim[i]]));
    buf_puts(&b, "]");
    char *text = arena_strndup(r->arena, b.s, b.n);
    buf_free(&b);
    return text;
}

// The whole of a buffer.
Value view_of_buffer(Resolve *r, int buffer)
{
    const TileBuffer *b = &r->k->buffers.at[buffer];
    Value v = {.kind = VAL_VIEW, .type = b->type, .buffer = buffer};
    v.view.buffer = buffer;
    v.view.rank = b->rank;
    for (int i = 0; i < b->rank; i++) {
        v.view.origin[i] = expr_const(r->x, 0);
        v.view.extent[i] = v.view.limit[i] = b->dim[i];
        v.view.dim[i] = (u8)i;
    }
    return v;
}

// The shape of a tile or fragment.
Value view_span(Resolve *r, const Value *v, Loc loc)
{
    Value s = {.kind = VAL_LIST, .shape = true};
    if (v->kind == VAL_FRAG) {
        const TileFrag *f = &r->k->frags.at[v->frag];
        if (!f->dim[0]) {
            resolve_error(r, loc, "declare it with `frag T [rows, columns]`",
                          "the shape of '%s' is not known here", f->name);
            return value_none();
        }
        s.n = f->rank;
        for (int i = 0; i < f->rank; i++) s.item[i] = (ListItem){expr_const(r->x, f->dim[i]), NULL};
        return s;
    }
    s.n = v->view.rank;
    for (int i = 0; i < s.n; i++) s.item[i] = (ListItem){v->view.extent[v->view.dim[i]], NULL};
    return s;
}

// An expression that must be a tile in memory; `what` names its role.
bool resolve_need_view(Resolve *r, const AstNode *e, const char *what, Value *out)
{
    *out = resolve_expr(r, e);
    if (out->kind == VAL_NONE) return false;
    if (out->kind == VAL_VIEW) return true;
    resolve_error(r, e->loc, NULL, "%s must be a tile in memory, found %s", what,
                  value_describe(r, out));
    return false;
}

// What the kernel reads is an input, what it writes an output.
void view_used(Resolve *r, const TileView *v, bool write, Loc loc)
{
    if (v->buffer < 0) return;
    const TileBuffer *b = &r->k->buffers.at[v->buffer];
    if (b->kind != TB_GLOBAL) return;
    PlanParam *p = &r->plan->params.at[b->param];
    if (write && p->loc.line && !p->out && map_get(r->const_params, p->name))
        resolve_error(r, loc, "declare it `global`, or with `&`",
                      "'%s' is passed by value; the kernel cannot write to it", p->name);
    if (write && p->kind == PLAN_WORKSPACE) {
        resolve_error(r, loc, NULL, "the host fills the workspace '%s'; kernels only read it",
                      p->name);
        return;
    }
    if (write)
        p->out = true;
    else
        p->in = true;
}

// ---- what an index runs over -------------------------------------------------------------------

static const Expr *replace_one(void *ctx, const Expr *var)
{
    const Expr **pair = ctx;
    return var == pair[0] ? pair[1] : NULL;
}

// e with the indices of parallels replaced by variables that have the range of this role.
static const Expr *in_role(Resolve *r, const Expr *e)
{
    int first = r->role_lo, last = r->role_hi - 1; // threads of the role, within the level
    for (int i = 1; r->roles && i < r->npar; i++) {
        int lo = first / r->par[i].threads, hi = last / r->par[i].threads;
        const char *name = intern_printf(r->m->names, "%s@%d-%d", r->par[i].var, lo, hi);
        const Expr *pair[2] = {expr_var(r->x, r->par[i].var), expr_var(r->x, name)};
        expr_set_range(r->x, name, lo, hi);
        e = expr_subst(r->x, e, replace_one, pair);
        if (lo != hi) break; // inside of it everything runs over its whole range
        first -= lo * r->par[i].threads;
        last -= lo * r->par[i].threads;
    }
    return e;
}

// Does e take its least value (`low`) or its greatest? A sum of multiples of variables does, if each
// takes all values of its range: scalars only have the range of their type, and block indices of a
// grid of unknown size begin at 0 and may end anywhere.
static bool attains(const Resolve *r, const Expr *e, bool low)
{
    i64 lo, hi;
    switch (e->op) {
    case EX_CONST: return true;
    case EX_VAR:
        for (int i = 0; i < r->k->scalars.n; i++)
            if (r->k->scalars.at[i].name == e->name) return false;
        return expr_range(r->x, e, &lo, &hi) && (low ? e->name[0] == '%' : hi < 1 << 24);
    case EX_ADD: return attains(r, e->a, low) && attains(r, e->b, low);
    case EX_SUB: return attains(r, e->a, low) && attains(r, e->b, !low);
    case EX_MUL:
        return e->b->op == EX_CONST && attains(r, e->a, e->b->value >= 0 ? low : !low);
    default: return false;
    }
}

// Without a condition around it every value of an index is used: those below 0, and (`above`) those
// from `whole` on are errors. `what` names the index, `unit` what it counts.
static bool check_reach(Resolve *r, const Expr *i, const Expr *whole, bool above, const char *what,
                        const char *unit, Loc loc)
{
    i64 lo, hi, n = 0;
    if (r->guards || (r->loop && r->loop->end >= 0)) return true;
    const Expr *e = in_role(r, i);
    expr_range(r->x, e, &lo, &hi);
    above = above && expr_is_const(whole, &n);
    bool under = lo != INT64_MIN && lo < 0 && attains(r, e, true);
    bool over = above && hi != INT64_MAX && hi >= n && attains(r, e, false);
    if (!under && !over) return true;
    if (over)
        resolve_error(r, loc, "guard it with an `if`",
                      "%s %s runs from %lld to %lld; the dimension has %lld %s", what,
                      resolve_text(r, i), (long long)lo, (long long)hi, (long long)n, unit);
    else
        resolve_error(r, loc, "guard it with an `if`", "%s %s begins at %lld", what,
                      resolve_text(r, i), (long long)lo);
    return false;
}

bool view_slot_inside(Resolve *r, const Expr *i, i64 count, Loc loc)
{
    return check_reach(r, i, expr_const(r->x, count), true, "the index", "buffers", loc);
}

// No value of the place of an element may lie outside [0, count).
bool view_reach(Resolve *r, const Expr *i, const Expr *count, const char *what, Loc loc)
{
    return check_reach(r, i, count, true, what, "elements", loc);
}

bool view_inside(Resolve *r, const TileView *v, const char *what, Loc loc)
{
    const TileBuffer *b = &r->k->buffers.at[v->buffer];
    for (int d = 0; d < b->rank; d++) {
        const Expr *last = expr_add(r->x, v->origin[d],
                                    expr_sub(r->x, v->extent[d], expr_const(r->x, 1)));
        if (!check_reach(r, last, b->dim[d], true, arena_printf(r->arena, "the end of %s:", what),
                         "elements", loc))
            return false;
    }
    return true;
}

// ---- tilings -----------------------------------------------------------------------------------

static bool is_wild(const AstNode *e) { return e && e->kind == AST_WILD; }

// Lists of a tiling have one value per dimension that the tile keeps.
static bool need_rank(Resolve *r, const AstNode *e, const Value *v, const AstList *list,
                      const char *what)
{
    if (list->n == v->view.rank) return true;
    resolve_error(r, e->loc, NULL, "%s has %d value%s; the tile has rank %d (%s)", what, list->n,
                  list->n == 1 ? "" : "s", v->view.rank, view_text(r, v));
    return false;
}

// Extent of a tile in one dimension: at least 1, at most the extent that it cuts.
static bool check_extent(Resolve *r, const Expr *n, const Expr *whole, Loc loc)
{
    i64 a, b;
    if (!expr_is_const(n, &a)) return true;
    if (a <= 0) {
        resolve_error(r, loc, NULL, "a tile of extent %lld; it must be at least 1", (long long)a);
        return false;
    }
    if (expr_is_const(whole, &b) && a > b) {
        resolve_error(r, loc, NULL, "a tile of extent %lld in a dimension of extent %lld",
                      (long long)a, (long long)b);
        return false;
    }
    return true;
}

// `start` must not be provably outside [0, whole).
static bool check_start(Resolve *r, const Expr *start, const Expr *whole, const Expr *at, Loc loc)
{
    i64 lo, hi;
    expr_range(r->x, expr_sub(r->x, start, whole), &lo, &hi);
    if (lo != INT64_MIN && lo >= 0) {
        resolve_error(r, loc, NULL, "tile %s starts at %s, behind the end of the dimension (%s)",
                      resolve_text(r, at), resolve_text(r, start), resolve_text(r, whole));
        return false;
    }
    expr_range(r->x, start, &lo, &hi);
    if (hi != INT64_MAX && hi < 0) {
        resolve_error(r, loc, NULL, "tile %s starts before the dimension", resolve_text(r, at));
        return false;
    }
    return true;
}

// The same for each value that the place of a tile takes. An array may be left at its end, where
// tiles read zeros; a buffer of the block may not.
static bool check_tile(Resolve *r, const TileView *v, const Expr *start, const Expr *whole,
                       const Expr *at, Loc loc)
{
    bool above = r->k->buffers.at[v->buffer].kind != TB_GLOBAL;
    return check_start(r, start, whole, at, loc) &&
           check_reach(r, start, whole, above, "the tile's start", "elements", loc);
}

// Narrows dimension d of the buffer to [start, start + extent), relative to the view.
static void narrow(Resolve *r, TileView *v, int d, const Expr *start, const Expr *extent)
{
    const Expr *end = expr_add(r->x, v->origin[d], v->extent[d]);
    const Expr *limit = v->limit[d];
    bool known = limit->op == EX_MIN && (limit->a == end || limit->b == end);
    if (!known) v->limit[d] = expr_bin(r->x, EX_MIN, limit, end);
    v->origin[d] = expr_add(r->x, v->origin[d], start);
    v->extent[d] = extent;
}

// .subspan(n..)[.step(s..)][.at(i..)], .modspan: the i-th box of extent n.
static Value view_subspan(Resolve *r, const AstNode *e, Value v)
{
    const AstList *at = e->flags & AST_F_AT ? &e->list4 : NULL,
                  *step = e->list3.n ? &e->list3 : NULL;
    if (!need_rank(r, e, &v, &e->list, "the tiling") || (at && !need_rank(r, e, &v, at, "`.at`")) ||
        (step && !need_rank(r, e, &v, step, "`.step`")))
        return value_none();
    TileView out = v.view;
    const Expr *starts[TILE_MAX_RANK], *extents[TILE_MAX_RANK];
    for (int k = 0; k < v.view.rank; k++) {
        int d = v.view.dim[k];
        const AstNode *size = e->list.at[k];
        const Expr *whole = v.view.extent[d], *n = whole;
        if (!is_wild(size)) n = resolve_index(r, size, "the extent of a tile");
        if (!n || !check_extent(r, n, e->list2.n ? n : whole, size->loc)) return value_none();
        const Expr *unit = n, *i = expr_const(r->x, 0);
        if (step && !is_wild(step->at[k])) unit = resolve_index(r, step->at[k], "a step");
        if (at && !is_wild(at->at[k])) i = resolve_index(r, at->at[k], "the index of a tile");
        if (!unit || !i) return value_none();
        const Expr *start = starts[k] = expr_mul(r->x, i, unit);
        extents[k] = n;
        if (is_wild(size) && start->op == EX_CONST && start->value == 0) continue;
        if (!check_tile(r, &v.view, start, whole, i, at ? at->at[k]->loc : size->loc))
            return value_none();
        if (e->op == VIEW_MODSPAN) n = expr_bin(r->x, EX_MIN, n, expr_sub(r->x, whole, start));
        narrow(r, &out, d, start, extents[k] = n);
    }
    if (e->list2.n) return view_strided(r, e, &v, starts, extents);
    v.view = out;
    return v;
}

// .chunkat(e..): each dimension in as many blocks as e has values, block e of them.
// .chunk(f..).at(i..): the same with explicit counts.
static Value view_chunk(Resolve *r, const AstNode *e, Value v)
{
    bool chunkat = e->op == VIEW_CHUNKAT;
    if (!need_rank(r, e, &v, &e->list, "the tiling") ||
        (!chunkat && !need_rank(r, e, &v, &e->list4, "`.at`")))
        return value_none();
    TileView out = v.view;
    for (int k = 0; k < v.view.rank; k++) {
        const AstNode *item = e->list.at[k];
        if (is_wild(item)) continue;
        int d = v.view.dim[k];
        Value factor = resolve_expr(r, item);
        const Expr *i = value_to_index(r, factor, item->loc, "a block index"), *f = factor.bound;
        if (!i) return value_none();
        if (chunkat && !f) {
            resolve_error(r, item->loc, "use `.subspan(n).at(i)` for computed indices",
                          "`.chunkat` needs a bounded integer, found %s", resolve_text(r, i));
            return value_none();
        }
        if (!chunkat) {
            f = i;
            i = resolve_index(r, e->list4.at[k], "a block index");
            if (!i) return value_none();
        }
        i64 count, whole;
        bool known = expr_is_const(f, &count),
             whole_known = expr_is_const(v.view.extent[d], &whole);
        if (known && (count <= 0 || (whole_known && count > whole))) {
            resolve_error(r, item->loc, NULL, "%lld blocks in a dimension of extent %s",
                          (long long)count, resolve_text(r, v.view.extent[d]));
            return value_none();
        }
        const Expr *n = expr_bin(r->x, EX_DIV, v.view.extent[d], f);
        const Expr *start = expr_mul(r->x, i, n);
        if (!check_tile(r, &v.view, start, v.view.extent[d], i, item->loc)) return value_none();
        narrow(r, &out, d, start, n);
    }
    v.view = out;
    return v;
}

// .view(n..)[.from(o..)]: a box at an element offset.
static Value view_box(Resolve *r, const AstNode *e, Value v)
{
    const AstList *from = e->flags & AST_F_AT ? &e->list4 : NULL;
    if (!need_rank(r, e, &v, &e->list, "the box") ||
        (from && !need_rank(r, e, &v, from, "`.from`")))
        return value_none();
    TileView out = v.view;
    const Expr *starts[TILE_MAX_RANK], *extents[TILE_MAX_RANK];
    for (int k = 0; k < v.view.rank; k++) {
        int d = v.view.dim[k];
        const AstNode *size = e->list.at[k];
        const Expr *whole = v.view.extent[d], *start = expr_const(r->x, 0);
        const Expr *n = is_wild(size) ? whole : resolve_index(r, size, "the extent of a box");
        if (from && !is_wild(from->at[k])) start = resolve_index(r, from->at[k], "an offset");
        starts[k] = start;
        extents[k] = n;
        if (!n || !start || !check_extent(r, n, e->list2.n ? n : whole, size->loc) ||
            !check_tile(r, &v.view, start, whole, start, from ? from->at[k]->loc : size->loc))
            return value_none();
        narrow(r, &out, d, start, n);
    }
    if (e->list2.n) return view_strided(r, e, &v, starts, extents);
    v.view = out;
    return v;
}

// .sqz(): drops the dimensions of extent 1, but never all.
static Value view_squeeze(Value v)
{
    int rank = 0;
    for (int k = 0; k < v.view.rank; k++) {
        i64 n;
        bool one = expr_is_const(v.view.extent[v.view.dim[k]], &n) && n == 1;
        if (!one) v.view.dim[rank++] = v.view.dim[k];
    }
    v.view.rank = rank ? rank : MIN(v.view.rank, 1);
    return v;
}

// A box whose elements lie behind each other: below one dimension everything is whole, above it
// there is one index. In units of that dimension's rows: where the box begins, how many it has and
// how many the array has.
typedef struct {
    const Expr *begin, *rows, *all;
    const Expr *total; // elements
} Contiguous;

static bool contiguous(Resolve *r, const TileView *v, Contiguous *out)
{
    const TileBuffer *b = &r->k->buffers.at[v->buffer];
    int d = b->rank - 1;
    i64 n;
    if (b->stride[0]) return false;
    out->total = expr_const(r->x, 1);
    while (d > 0 && v->extent[d] == b->dim[d] && v->limit[d] == b->dim[d]) {
        out->total = expr_mul(r->x, out->total, v->extent[d]);
        d--;
    }
    out->rows = v->extent[d];
    out->total = expr_mul(r->x, out->total, out->rows);
    out->begin = expr_const(r->x, 0);
    out->all = expr_const(r->x, 1);
    for (int i = 0; i <= d; i++) {
        if (i < d && !(expr_is_const(v->extent[i], &n) && n == 1)) return false;
        out->begin = expr_add(r->x, expr_mul(r->x, out->begin, b->dim[i]), v->origin[i]);
        out->all = expr_mul(r->x, out->all, b->dim[i]);
    }
    return true;
}

// The same array under another shape: [how many such tiles, the shape..], or only the shape.
static int reshaped(Resolve *r, const TileView *v, const Value *shape, const Expr *tiles)
{
    int memory = tile_memory(r->k, v->buffer);
    TileBuffer b = r->k->buffers.at[memory];
    const char *name = b.kind == TB_GLOBAL ? r->plan->params.at[b.param].name : b.name;
    b.rank = 0;
    if (b.kind != TB_GLOBAL) b.alias = memory + 1;
    if (tiles) b.dim[b.rank++] = tiles;
    for (int i = 0; i < shape->n; i++) b.dim[b.rank++] = shape->item[i].index;
    for (int i = 0; i < r->k->buffers.n; i++) { // made before
        const TileBuffer *o = &r->k->buffers.at[i];
        bool same = o->kind == b.kind && o->rank == b.rank && !o->stride[0];
        same &= b.alias ? tile_memory(r->k, i) == memory : o->param == b.param;
        for (int d = 0; same && d < b.rank; d++) same = o->dim[d] == b.dim[d];
        if (same) return i;
    }
    // The number keeps the names apart: a kernel takes over those of the host level.
    b.name = intern_printf(r->m->names, "%s.as%d", name, r->k->buffers.n);
    return resolve_add_buffer(r, b);
}

// Arrays are stored in the order of their elements whatever fills them, a tile in shared memory only
// without a swizzle. A later copy with one is refused by the use noted here.
static bool in_order(Resolve *r, const Value *v, Loc loc)
{
    const TileBuffer *b = &r->k->buffers.at[v->view.buffer];
    if (b->kind == TB_GLOBAL) return true;
    if (b->kind != TB_SHARED) {
        resolve_unsupported(r, loc, "`.span_as` of a tile in local memory");
        return false;
    }
    BufferUse *use = &r->uses.at[tile_memory(r->k, v->view.buffer)];
    if (use->swizzle_loc.line) {
        resolve_error(r, loc, "fill a buffer without `.swiz` for it",
                      "`.span_as` needs elements in their order; the rows of '%s' are swizzled in "
                      "line %u", b->name, use->swizzle_loc.line);
        return false;
    }
    if (!use->plain_loc.line) use->plain_loc = loc;
    return true;
}

// .span_as(n..): another shape of as many elements. A tile must start at a multiple of its size.
static Value view_span_as(Resolve *r, const AstNode *e, Value v)
{
    Value shape = {.kind = VAL_LIST, .shape = true};
    const Expr *count = expr_const(r->x, 1);
    Contiguous box;
    bool shared = r->k->buffers.at[v.view.buffer].kind == TB_SHARED;
    if (!in_order(r, &v, e->loc)) return value_none();
    for (int i = 0; i < e->list.n; i++) {
        const Expr *n = resolve_index(r, e->list.at[i], "an extent");
        i64 c;
        if (!n) return value_none();
        if (i + 1 >= TILE_MAX_RANK || (expr_is_const(n, &c) && c < 1)) {
            resolve_error(r, e->list.at[i]->loc, NULL, "a shape has 1 to %d extents of at least 1",
                          TILE_MAX_RANK - 1);
            return value_none();
        }
        if (shared && !expr_is_const(n, &c)) {
            resolve_error(r, e->list.at[i]->loc, NULL,
                          "a tile in shared memory has constant extents, found %s",
                          resolve_text(r, n));
            return value_none();
        }
        shape.item[shape.n++] = (ListItem){n, NULL};
        count = expr_mul(r->x, count, n);
    }
    if (!contiguous(r, &v.view, &box)) {
        resolve_error(r, e->loc, NULL, "`.span_as` needs elements behind each other; %s has gaps",
                      view_text(r, &v));
        return value_none();
    }
    i64 n;
    const Expr *left = expr_sub(r->x, box.total, count);
    if (!expr_is_const(left, &n) && resolve_host_only(r, left)) {
        PlanCheck c = {expr_bin(r->x, EX_EQ, box.total, count),
                       arena_printf(r->arena, "%s == %s", resolve_text(r, box.total),
                                    resolve_text(r, count)),
                       e->loc};
        vec_push(r->arena, &r->plan->checks, c);
    } else if (!expr_is_const(left, &n) || n) {
        resolve_error(r, e->loc, NULL, "%s elements as a shape of %s",
                      resolve_text(r, box.total), resolve_text(r, count));
        return value_none();
    }
    bool whole = expr_is_const(box.begin, &n) && !n && box.all == box.rows;
    const Expr *rest = expr_bin(r->x, EX_MOD, box.begin, box.rows);
    if (!whole && !(expr_is_const(rest, &n) && !n)) {
        resolve_unsupported(r, e->loc, "`.span_as` of a tile that starts at %s, which is not known "
                                       "to be a multiple of its extent %s",
                            resolve_text(r, box.begin), resolve_text(r, box.rows));
        return value_none();
    }
    const Expr *tiles = whole ? NULL : expr_bin(r->x, EX_DIV, box.all, box.rows);
    Value out = view_of_buffer(r, reshaped(r, &v.view, &shape, tiles));
    out.view.slot = v.view.slot;
    if (whole) return out;
    out.view.origin[0] = expr_bin(r->x, EX_DIV, box.begin, box.rows);
    out.view.extent[0] = expr_const(r->x, 1);
    out.view.rank = shape.n;
    for (int i = 0; i < shape.n; i++) out.view.dim[i] = (u8)(i + 1);
    return out;
}

Value resolve_view(Resolve *r, const AstNode *e)
{
    Value v;
    if (!resolve_need_view(r, e->value, "what is tiled", &v)) return value_none();
    switch (e->op) {
    case VIEW_SUBSPAN:
    case VIEW_MODSPAN: return view_subspan(r, e, v);
    case VIEW_CHUNKAT:
    case VIEW_CHUNK: return view_chunk(r, e, v);
    case VIEW_VIEW: return view_box(r, e, v);
    case VIEW_SQZ: return view_squeeze(v);
    default: return view_span_as(r, e, v);
    }
}

// ---- brackets ----------------------------------------------------------------------------------

// buf[i] of an array of buffers. Two-dimensional arrays are numbered row by row.
static Value index_array(Resolve *r, const AstNode *e, Value v)
{
    const Expr *i = resolve_index(r, e->list.at[0], "the index of an array");
    if (!i) return value_none();
    i64 lo, hi;
    expr_range(r->x, i, &lo, &hi);
    if ((lo != INT64_MIN && lo >= v.count[0]) || (hi != INT64_MAX && hi < 0)) {
        resolve_error(r, e->list.at[0]->loc, NULL, "index %s is outside the array of %d",
                      resolve_text(r, i), v.count[0]);
        return value_none();
    }
    if (!view_slot_inside(r, i, v.count[0], e->list.at[0]->loc)) return value_none();
    if (i->op == EX_MOD && expr_is_const(i->b, &lo) && lo > v.count[0]) {
        resolve_error(r, e->list.at[0]->loc, NULL,
                      "an index modulo %lld runs over more than the %d elements of the array",
                      (long long)lo, v.count[0]);
        return value_none();
    }
    const Expr *slot = i;
    if (v.view.slot)
        slot = expr_add(r->x, expr_mul(r->x, v.view.slot, expr_const(r->x, v.count[0])), i);
    int left = v.ncount - 1, next = v.count[1];
    Value out = left ? v : view_of_buffer(r, v.buffer);
    out.view.slot = slot;
    out.ncount = left;
    out.count[0] = next;
    return out;
}

// s[(0), 4]: a shape made of dimensions of another, `(i)`, and numbers.
static Value index_shape(Resolve *r, const AstNode *e, Value v)
{
    Value out = {.kind = VAL_LIST, .shape = true};
    for (int k = 0; k < e->list.n; k++) {
        const AstNode *item = e->list.at[k];
        if (out.n == RESOLVE_MAX_LIST) {
            resolve_error(r, item->loc, NULL, "a shape has at most %d dimensions",
                          RESOLVE_MAX_LIST);
            return value_none();
        }
        Value x;
        if (item->flags & AST_F_PAREN) {
            AstNode *at[1] = {e->list.at[k]};
            AstList list = {at, 1};
            x = resolve_extent(r, v, &list, item->loc);
        } else {
            x = resolve_expr(r, item);
        }
        const Expr *i = value_to_index(r, x, item->loc, "a dimension");
        if (!i) return value_none();
        out.item[out.n++] = (ListItem){i, NULL};
    }
    return out;
}

// x[i]: a buffer or fragment of an array; s[(0), 4]: a shape from a shape.
Value resolve_index_of(Resolve *r, const AstNode *e)
{
    Value v = resolve_expr(r, e->value);
    if (v.kind == VAL_NONE || !e->list.n) return value_none();
    if (v.kind == VAL_LIST && v.shape) return index_shape(r, e, v);
    if (v.kind == VAL_EVENT) {
        resolve_error(r, e->loc, "events stand in `wait` and `trigger`",
                      "an event has no value");
        return value_none();
    }
    if (e->list.n != 1) {
        resolve_error(r, e->loc, NULL, "one index is required in '[]', found %d", e->list.n);
        return value_none();
    }
    if (v.kind == VAL_ARRAY) return index_array(r, e, v);
    if (v.kind == VAL_REGS || v.kind == VAL_POINTER)
        return call_element(r, v, e->list.at[0], e->loc);
    if (v.kind == VAL_FRAG && v.slot < 0) {
        i64 i;
        if (!resolve_const(r, e->list.at[0], "the index of a fragment array", 0, v.count[0] - 1,
                           &i))
            return value_none();
        v.part += (int)i;
        if (v.ncount == 1) {
            v.slot = v.part;
            return v;
        }
        v.part *= v.count[1];
        v.count[0] = v.count[1];
        v.ncount = 1;
        return v;
    }
    resolve_error(r, e->loc, v.kind == VAL_VIEW ? "an element is `.at(..)`" : NULL,
                  "'[]' needs an array, found %s", value_describe(r, &v));
    return value_none();
}

// x(i): element of a list, counted from the end when i is negative.
Value resolve_extent(Resolve *r, Value list, const AstList *args, Loc loc)
{
    if (list.kind == VAL_NONE) return list;
    if (list.kind != VAL_LIST) {
        resolve_error(r, loc, "a function is called with `call`",
                      "'x(i)' is an element of a tuple or shape, found %s",
                      value_describe(r, &list));
        return value_none();
    }
    i64 i;
    if (args->n != 1) {
        resolve_error(r, loc, NULL, "'x(i)' takes one index, found %d", args->n);
        return value_none();
    }
    if (!resolve_const(r, args->at[0], "the index of 'x(i)'", -list.n, list.n - 1, &i))
        return value_none();
    ListItem item = list.item[i < 0 ? i + list.n : i];
    Value v = value_index(r, item.index, DT_S32);
    v.bound = item.bound;
    return v;
}

// x.span, x.data
Value resolve_member(Resolve *r, const AstNode *e)
{
    Value v = resolve_expr(r, e->value);
    if (v.kind == VAL_NONE || !e->name) return value_none();
    bool memory = v.kind == VAL_VIEW;
    if (!strcmp(e->name, "data") && memory) return v;
    if (!strcmp(e->name, "span") && (memory || (v.kind == VAL_FRAG && v.slot >= 0)))
        return view_span(r, &v, e->loc);
    if (!strcmp(e->name, "span") && v.kind == VAL_ARRAY) {
        v = view_of_buffer(r, v.buffer);
        return view_span(r, &v, e->loc);
    }
    resolve_error(r, e->loc, NULL, "'.%s' is no member of %s", e->name, value_describe(r, &v));
    return value_none();
}

// ---- elements ----------------------------------------------------------------------------------

// One element: a view of extents 1 that keeps no dimension.
static Value memory_element(Resolve *r, const AstNode *e, Value v)
{
    if (!need_rank(r, e, &v, &e->list, "`.at`")) return value_none();
    TileView *one = ARENA_NEW(r->arena, TileView);
    *one = v.view;
    for (int k = 0; k < v.view.rank; k++) {
        int d = v.view.dim[k];
        const Expr *i = resolve_index(r, e->list.at[k], "the index of an element");
        Loc at = e->list.at[k]->loc;
        if (!i || !check_start(r, i, v.view.extent[d], i, at) ||
            !check_reach(r, i, v.view.extent[d], true, "the index", "elements", at))
            return value_none();
        one->origin[d] = expr_add(r->x, v.view.origin[d], i);
    }
    for (int d = 0; d < r->k->buffers.at[v.view.buffer].rank; d++)
        one->extent[d] = expr_const(r->x, 1);
    one->rank = 0;
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_ELEM, .type = v.type, .loc = e->loc, .view = one};
    return value_texpr(x);
}

// Element of a fragment or of memory. As a value it is a read; the caller of an assignment takes
// the TX_ELEM or TX_FRAG apart and marks the write itself.
Value resolve_element(Resolve *r, const AstNode *e)
{
    Value v = resolve_expr(r, e->value);
    if (v.kind == VAL_NONE) return v;
    if (v.kind == VAL_FRAG && v.slot >= 0) {
        u8 at[2];
        if (!frag_element(r, &v, e, at) || !product_free(r, v.frag, v.slot, r->is_target, e->loc))
            return value_none();
        TExpr *x = ARENA_NEW(r->arena, TExpr);
        *x = (TExpr){.kind = TX_FRAG,
                     .type = v.type,
                     .loc = e->loc,
                     .frag = v.frag,
                     .slot = v.slot,
                     .at = {at[0], at[1]}};
        return value_texpr(x);
    }
    if (v.kind != VAL_VIEW) {
        resolve_error(r, e->loc, NULL, "'.at' needs a tile or a fragment, found %s",
                      value_describe(r, &v));
        return value_none();
    }
    if (!r->at) {
        resolve_error(r, e->loc, "read it inside `parallel`",
                      "an element of an array cannot be read on the host");
        return value_none();
    }
    bool target = r->is_target; // the element is; what its indices read is not
    r->is_target = false;
    Value x = memory_element(r, e, v);
    r->is_target = target;
    if (x.kind == VAL_NONE) return x;
    if (!target) {
        resolve_pending(r, x.x->view, e->loc);
        view_used(r, &v.view, false, e->loc);
    }
    return x;
}
