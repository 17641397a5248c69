// resolve_frag.c - fragments: declarations, apply, reductions, matrix products and their stores.
//
// A fragment belongs to the warpgroup that encloses it. An accumulator may be declared without a
// shape; the first walk over the function records the shape that its product gives it.
#include "resolve.h"

#include <string.h>

enum { MMA_ROWS = 64, MMA_COLS_MAX = 256, FRAG_MAX_ELEMENTS = 64 * 512, FRAG_MAX_SLOTS = 16 };

// ---- declarations ------------------------------------------------------------------------------

// Fragments and products belong to a warpgroup. `level`: who must come here together: the whole
// warpgroup for a product, a warp for what moves values between lanes and registers only.
static bool need_group4(Resolve *r, Loc loc, const char *what, TileLevel level)
{
    if (!r->at) {
        resolve_error(r, loc, NULL, "%s can only stand inside `parallel`", what);
        return false;
    }
    if (resolve_group4(r) >= 0)
        return resolve_whole_groups(r, loc, what) && resolve_together(r, loc, what, level);
    resolve_error(r, loc, "enclose it in `parallel g by 1 : group-4`",
                  "%s needs a warpgroup of 128 threads", what);
    return false;
}

// Declares a fragment of the kernel; `decl` identifies it across the two walks.
static int add_frag(Resolve *r, const AstNode *decl, const char *name, TileFrag f)
{
    f.name = resolve_plain(r, name);
    f.level = LEVEL_GROUP4;
    vec_push(r->arena, &r->k->frags, f);
    vec_push(r->arena, &r->frag_node, decl);
    return r->k->frags.n - 1;
}

// Gives the fragment its name; an array of them needs an index before it can be used.
static void define_frag(Resolve *r, const char *name, Loc loc, int frag)
{
    Value v = {.kind = VAL_FRAG, .type = r->k->frags.at[frag].type, .frag = frag};
    scope_add(r, name, loc, v);
}

// All elements of one slot = v.
static void emit_fill(Resolve *r, int frag, int slot, Value v, Loc loc)
{
    v = resolve_convert(r, v, r->k->frags.at[frag].type, loc);
    if (v.kind == VAL_NONE || !product_free(r, frag, slot, true, loc)) return;
    TileOp *o = resolve_emit(r, TOP_FILL, loc);
    o->frag = frag;
    o->frag_slot = slot;
    o->value = value_tree(r, &v, loc);
}

static void fill_all(Resolve *r, int frag, const AstNode *value)
{
    Value v = resolve_expr(r, value);
    for (int s = 0; s < r->k->frags.at[frag].slots; s++) emit_fill(r, frag, s, v, value->loc);
}

// The shape of an accumulator that is declared without one, from the first walk.
static void take_shape(Resolve *r, const AstNode *decl, TileFrag *f)
{
    const AccShape *s = map_get(r->acc_shapes, decl);
    f->rank = 2;
    if (s) {
        f->dim[0] = s->rows;
        f->dim[1] = s->cols;
    } else if (!r->first_walk) {
        resolve_error(r, decl->loc,
                      "use it as the accumulator of an mma, or declare `frag f32 [64, N]`",
                      "cannot infer the shape of this accumulator");
    }
}

// Element types that registers can hold.
static bool frag_type(Resolve *r, const AstNode *type, DType *out)
{
    if (type->dtype < 0) {
        resolve_unsupported(r, type->loc, "fragments of type '%s'", type->name);
        return false;
    }
    *out = (DType)type->dtype;
    if (*out != DT_F64 && *out != DT_BOOL && dtype_bytes[*out] <= 4) return true;
    resolve_unsupported(r, type->loc, "fragments of type '%s'", type->name);
    return false;
}

// Extents: constants, one or two of them, small enough for the registers of 128 threads.
static bool frag_dims(Resolve *r, const AstNode *type, TileFrag *f)
{
    f->rank = type->list.n;
    if (f->rank < 1 || f->rank > 2) {
        resolve_error(r, type->loc, NULL, "a fragment of rank %d; it has 1 or 2 dimensions",
                      f->rank);
        return false;
    }
    for (int i = 0; i < f->rank; i++)
        if (!resolve_const(r, type->list.at[i], "the extent of a fragment", 1, 65536, &f->dim[i]))
            return false;
    if (f->rank == 2 && f->dim[0] * f->dim[1] > FRAG_MAX_ELEMENTS) {
        resolve_error(
            r, type->loc, NULL,
            "a fragment of %lld elements does not fit in the registers of a warpgroup (%d)",
            (long long)(f->dim[0] * f->dim[1]), FRAG_MAX_ELEMENTS);
        return false;
    }
    return true;
}

// `frag T[..] x[n][m]`: n * m fragments, each with registers of its own.
static bool frag_slots(Resolve *r, const AstNode *s, TileFrag *f, Value *v)
{
    f->slots = 1;
    if (s->list.n > 2) {
        resolve_error(r, s->loc, NULL, "an array of fragments has at most 2 dimensions");
        return false;
    }
    for (int i = 0; i < s->list.n; i++) {
        i64 n = 1;
        if (!resolve_const(r, s->list.at[i], "the length of a fragment array", 1,
                           FRAG_MAX_SLOTS / f->slots, &n))
            return false;
        f->slots *= (int)n;
        v->count[v->ncount++] = (int)n;
    }
    if (v->ncount) v->slot = -1;
    return true;
}

// An accumulator of f16 is kept in f32, at the same speed: its values are those of f16 sums or
// better ones, and a store converts. The first walk finds which fragments accumulate.
static void wide_accumulator(const Resolve *r, const AstNode *decl, bool shaped, TileFrag *f)
{
    const AccShape *s = map_get(r->acc_shapes, decl);
    if (f->type == DT_F16 && (!shaped || (s && s->f16))) f->type = DT_F32;
}

// frag T [M, N] x[n] {v};  frag x {v};  frag.f32 x {v};
void resolve_frag_decl(Resolve *r, const AstNode *s)
{
    TileFrag f = {.type = DT_F32, .loc = s->loc};
    Value v = {.kind = VAL_FRAG};
    bool shaped = s->type && s->type->flags & AST_F_SPANNED;
    bool ok = need_group4(r, s->loc, "a fragment", LEVEL_GROUP4) &&
              (!s->type || frag_type(r, s->type, &f.type)) &&
              (!shaped || frag_dims(r, s->type, &f)) && frag_slots(r, s, &f, &v);
    if (ok && s->type && s->type->flags & AST_F_AUTO_DIMS) {
        resolve_unsupported(r, s->type->loc, "`[auto]` dimensions");
        ok = false;
    }
    if (!ok) {
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    wide_accumulator(r, s, shaped, &f);
    if (!shaped) take_shape(r, s, &f);
    v.type = f.type;
    v.frag = add_frag(r, s, s->name, f);
    if (s->value) fill_all(r, v.frag, s->value);
    scope_add(r, s->name, s->loc, v);
}

// An expression that must name one fragment.
static bool need_frag(Resolve *r, const AstNode *e, const char *what, Value *out)
{
    *out = resolve_expr(r, e);
    if (out->kind == VAL_NONE) return false;
    if (out->kind == VAL_FRAG && out->slot >= 0) return true;
    resolve_error(r, e->loc, NULL, "%s must be a fragment, found %s", what, value_describe(r, out));
    return false;
}

static const char *frag_text(Resolve *r, const TileFrag *f)
{
    if (f->rank == 1)
        return arena_printf(r->arena, "%s [%lld]", dtype_name[f->type], (long long)f->dim[0]);
    return arena_printf(r->arena, "%s [%lld, %lld]", dtype_name[f->type], (long long)f->dim[0],
                        (long long)f->dim[1]);
}

// ---- apply -------------------------------------------------------------------------------------

// Which apply variable indexes each dimension of the fragment.
bool frag_element(Resolve *r, const Value *frag, const AstNode *e, u8 *which)
{
    const TileFrag *f = &r->k->frags.at[frag->frag];
    which[0] = 0;
    which[1] = 1;
    if (!r->in_apply) {
        resolve_error(r, e->loc, "write `apply {i, j} in x.span { x.at(i, j) = ...; }`",
                      "an element of the fragment '%s' can only be used inside apply", f->name);
        return false;
    }
    if (e->list.n != f->rank) {
        resolve_error(r, e->loc, NULL, "'%s' has rank %d, found %d ind%s", f->name, f->rank,
                      e->list.n, e->list.n == 1 ? "ex" : "ices");
        return false;
    }
    const TileFrag *over = &r->k->frags.at[r->apply_frag];
    for (int i = 0; i < f->rank; i++) {
        Value v = resolve_expr(r, e->list.at[i]);
        if (v.kind == VAL_NONE) return false;
        int var = -1;
        for (int k = 0; k < r->apply_rank; k++)
            if (v.kind == VAL_SCALAR && v.index && v.index == r->apply_var[k]) var = k;
        if (var < 0 || (f->rank == 2 && var != i)) {
            resolve_error(r, e->list.at[i]->loc,
                          "a thread holds only its own elements of a fragment",
                          "a fragment of rank %d is indexed with %s", f->rank,
                          f->rank == 2 ? "both variables of the apply, in their order"
                                       : "a variable of the apply");
            return false;
        }
        if (f->dim[i] && over->dim[var] && f->dim[i] != over->dim[var]) {
            resolve_error(r, e->list.at[i]->loc, NULL,
                          "'%s' is %s, but the apply runs over %lld here", f->name, frag_text(r, f),
                          (long long)over->dim[var]);
            return false;
        }
        which[i] = (u8)var;
    }
    return true;
}

// One variable of an apply: a bounded integer that differs between threads.
static void apply_var(Resolve *r, const AstNode *name, const char *var, i64 extent)
{
    const Expr *e = expr_var(r->x, var);
    map_put(r->var_level, var, (void *)(intptr_t)(LEVEL_THREAD + 1));
    expr_set_range(r->x, var, 0, extent ? extent - 1 : FRAG_MAX_ELEMENTS);
    r->apply_var[r->apply_rank++] = e;
    Value v = value_index(r, e, DT_S32);
    v.bound = extent ? expr_const(r->x, extent) : NULL;
    scope_add(r, name->name, name->loc, v);
}

// What each thread does with its own elements of a matrix may stand under any condition. The four
// lanes of a row hold copies of a vector's element, which must stay equal.
static bool lanes_agree(Resolve *r, const Value *v, const char *what, Loc loc)
{
    return r->k->frags.at[v->frag].rank == 2 || resolve_together(r, loc, what, LEVEL_WARP);
}

// apply {i, j} in x.span S: S for every element of x that the thread owns.
void resolve_apply(Resolve *r, const AstNode *s)
{
    Value v;
    if (!need_group4(r, s->loc, "apply", LEVEL_THREAD) ||
        !need_frag(r, s->value, "what apply runs over", &v) || !lanes_agree(r, &v, "apply", s->loc))
        return;
    const TileFrag *f = &r->k->frags.at[v.frag];
    if (r->in_apply) {
        resolve_error(r, s->loc, NULL, "an apply inside an apply");
        return;
    }
    if (s->list.n != f->rank) {
        resolve_error(r, s->loc, NULL, "apply has %d variable%s, but '%s' has rank %d", s->list.n,
                      s->list.n == 1 ? "" : "s", f->name, f->rank);
        return;
    }
    TileOp *o = resolve_emit(r, TOP_APPLY, s->loc);
    o->frag = v.frag;
    o->frag_slot = v.slot;
    int mark = scope_push(r);
    r->in_apply = true;
    r->apply_frag = v.frag;
    r->apply_rank = 0;
    o->var = resolve_var(r, s->list.at[0]->name);
    apply_var(r, s->list.at[0], o->var, f->dim[0]);
    if (f->rank == 2) {
        o->var2 = resolve_var(r, s->list.at[1]->name);
        apply_var(r, s->list.at[1], o->var2, r->k->frags.at[v.frag].dim[1]);
    }
    TileBlock *saved = r->at;
    LoopPath *loop = r->loop;
    bool tail = r->tail;
    r->loop = NULL;
    r->tail = false;
    r->at = &o->body;
    resolve_block(r, s->body);
    r->at = saved;
    r->loop = loop;
    r->tail = tail;
    r->in_apply = false;
    scope_pop(r, mark);
}

// ---- reductions and copies ---------------------------------------------------------------------

// to = from, element by element, converted; both have the shape of `from`.
static void convert_fragment(Resolve *r, int to, int to_slot, int from, int from_slot, Loc loc)
{
    const TileFrag f = r->k->frags.at[from];
    TileOp *apply = resolve_emit(r, TOP_APPLY, loc);
    apply->frag = from;
    apply->frag_slot = from_slot;
    apply->var = resolve_var(r, intern(r->m->names, "row"));
    if (f.rank == 2) apply->var2 = resolve_var(r, intern(r->m->names, "col"));
    expr_set_range(r->x, apply->var, 0, f.dim[0] - 1);
    if (f.rank == 2) expr_set_range(r->x, apply->var2, 0, f.dim[1] - 1);
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_FRAG, .type = f.type, .loc = loc, .frag = from, .slot = from_slot,
                 .at = {0, 1}};
    Value v = resolve_cast(r, value_texpr(x), r->k->frags.at[to].type, loc);
    TileBlock *saved = r->at;
    r->at = &apply->body;
    TileOp *set = resolve_emit(r, TOP_FSET, loc);
    r->at = saved;
    set->frag = to;
    set->frag_slot = to_slot;
    set->elem_at[1] = 1;
    set->value = value_tree(r, &v, loc);
}

// A fragment of f32 with the shape of `like`, under no name.
static int f32_fragment(Resolve *r, int like, Loc loc)
{
    TileFrag f = r->k->frags.at[like];
    f.type = DT_F32;
    f.slots = 1;
    f.layout = FL_NONE;
    f.loc = loc;
    return add_frag(r, NULL, f.name, f);
}

// reduce_max(dst, src, dim), reduce_sum(dst, src, dim), all_reduce_sum(v).
void resolve_reduce(Resolve *r, const AstNode *s)
{
    bool all = s->kind == AST_ALL_REDUCE;
    const char *name = all ? "all_reduce_sum" : s->op == AST_OP_MAX ? "reduce_max" : "reduce_sum";
    if (!need_group4(r, s->loc, name, LEVEL_WARP)) return;
    if (r->in_apply) {
        resolve_error(r, s->loc, "put it behind the apply", "%s inside an apply", name);
        return;
    }
    if (s->list.n != (all ? 1 : 3)) {
        resolve_error(r, s->loc, NULL, "%s takes %d argument%s, found %d", name, all ? 1 : 3,
                      all ? "" : "s", s->list.n);
        return;
    }
    Value dst, src;
    if (!need_frag(r, s->list.at[0], "what is reduced into", &dst)) return;
    const TileFrag *d = &r->k->frags.at[dst.frag];
    if (d->rank != 1) {
        resolve_error(r, s->list.at[0]->loc, NULL,
                      "%s reduces into a fragment of rank 1; '%s' is %s", name, d->name,
                      frag_text(r, d));
        return;
    }
    i64 axis = 1;
    if (!all) {
        if (!need_frag(r, s->list.at[1], "what is reduced", &src) ||
            !resolve_const(r, s->list.at[2], "the dimension of the reduction", 0, 1, &axis))
            return;
        const TileFrag *f = &r->k->frags.at[src.frag];
        if (f->rank != 2 || (f->type != d->type && d->type != DT_F32) ||
            (f->dim[0] && f->dim[axis == 1 ? 0 : 1] != d->dim[0])) {
            resolve_error(r, s->list.at[1]->loc, NULL,
                          "%s over dimension %d of '%s' (%s) does not fit into '%s' (%s)", name,
                          (int)axis, f->name, frag_text(r, f), d->name, frag_text(r, d));
            return;
        }
    }
    bool small = !all && dtype_is_float(d->type) && dtype_is_float(r->k->frags.at[src.frag].type) &&
                 (d->type != DT_F32 || r->k->frags.at[src.frag].type != DT_F32);
    if (d->type != DT_F32 && !small) {
        resolve_unsupported(r, s->list.at[0]->loc, "%s of %s", name, dtype_name[d->type]);
        return;
    }
    if (!product_free(r, dst.frag, dst.slot, true, s->list.at[0]->loc) ||
        (!all && !product_free(r, src.frag, src.slot, false, s->list.at[1]->loc)))
        return;
    // Fragments of smaller types are reduced in f32.
    Value out = dst;
    if (small && r->k->frags.at[src.frag].type != DT_F32) {
        int wide = f32_fragment(r, src.frag, s->loc);
        convert_fragment(r, wide, 0, src.frag, src.slot, s->loc);
        src.frag = wide;
        src.slot = 0;
    }
    if (small && d->type != DT_F32) {
        dst.frag = f32_fragment(r, dst.frag, s->loc);
        dst.slot = 0;
    }
    TileOp *o = resolve_emit(r, TOP_REDUCE, s->loc);
    TileReduce kind = all ? REDUCE_ALL_SUM : s->op == AST_OP_MAX ? REDUCE_MAX : REDUCE_SUM;
    o->frag = dst.frag;
    o->frag_slot = dst.slot;
    o->frag2 = all ? dst.frag : src.frag;
    o->frag2_slot = all ? dst.slot : src.slot;
    o->imm = (i64)kind * 2 + axis;
    o->level = (u8)r->control; // infer.c: over rows the whole warpgroup meets
    if (dst.frag != out.frag) convert_fragment(r, out.frag, out.slot, dst.frag, 0, s->loc);
}

// copy(dst, src): register to register, so shapes and types are equal.
void resolve_frag_copy(Resolve *r, const AstNode *s)
{
    Value dst, src;
    if (!need_group4(r, s->loc, "copy", LEVEL_THREAD)) return;
    if (s->list.n != 2) {
        resolve_error(r, s->loc, NULL, "copy takes 2 arguments, found %d", s->list.n);
        return;
    }
    if (!need_frag(r, s->list.at[0], "the destination of copy", &dst) ||
        !need_frag(r, s->list.at[1], "the source of copy", &src))
        return;
    if (!lanes_agree(r, &dst, "copy", s->loc)) return;
    const TileFrag *d = &r->k->frags.at[dst.frag], *f = &r->k->frags.at[src.frag];
    bool known = d->dim[0] && f->dim[0];
    if (r->in_apply || d->rank != f->rank || d->type != f->type ||
        (known && (d->dim[0] != f->dim[0] || (d->rank == 2 && d->dim[1] != f->dim[1])))) {
        resolve_error(r, s->loc, r->in_apply ? "put it behind the apply" : "convert in an apply",
                      "copy from '%s' (%s) to '%s' (%s)%s", f->name, frag_text(r, f), d->name,
                      frag_text(r, d),
                      r->in_apply ? " inside an apply" : "; equal shapes and types are required");
        return;
    }
    if (!product_free(r, dst.frag, dst.slot, true, s->list.at[0]->loc) ||
        !product_free(r, src.frag, src.slot, false, s->list.at[1]->loc))
        return;
    TileOp *o = resolve_emit(r, TOP_FCOPY, s->loc);
    o->frag = dst.frag;
    o->frag_slot = dst.slot;
    o->frag2 = src.frag;
    o->frag2_slot = src.slot;
}

// ---- matrix products ---------------------------------------------------------------------------

// acc = mma.fill.f32 v declares an accumulator; mma.fill acc, v fills one that exists.
static void mma_fill(Resolve *r, const AstNode *s)
{
    if (!need_group4(r, s->loc, "mma", LEVEL_GROUP4)) {
        if (s->flags & AST_F_DECLARES && s->target->kind == AST_NAME)
            scope_add(r, s->target->name, s->loc, value_none());
        return;
    }
    Value v = resolve_expr(r, s->value);
    if (s->flags & AST_F_DECLARES && s->target->kind == AST_NAME) {
        TileFrag f = {.type = DT_F32, .slots = 1, .loc = s->loc};
        bool ok = !s->type || frag_type(r, s->type, &f.type);
        if (ok && f.type == DT_F16) f.type = DT_F32; // see wide_accumulator
        if (ok && f.type != DT_F32 && f.type != DT_S32)
            resolve_unsupported(r, s->loc, "accumulators of type %s", dtype_name[f.type]);
        const Symbol *outer = scope_find(r, s->target->name);
        if (outer && outer->value.kind == VAL_FRAG && outer->depth != r->depth)
            resolve_warning(r, s->loc, "`mma.fill acc, v` fills the one that exists",
                            "'%s' is a new accumulator here; it hides the one of line %u",
                            s->target->name, outer->loc.line);
        take_shape(r, s, &f);
        int frag = add_frag(r, s, s->target->name, f);
        emit_fill(r, frag, 0, v, s->value->loc);
        define_frag(r, s->target->name, s->target->loc, frag);
        return;
    }
    Value acc;
    if (need_frag(r, s->target, "what mma.fill fills", &acc))
        emit_fill(r, acc.frag, acc.slot, v, s->value->loc);
}

// Elements of K that one hardware product takes, 0: no such type.
static int mma_atom(DType t)
{
    switch (t) {
    case DT_F16:
    case DT_BF16: return 16;
    case DT_TF32: return 8;
    case DT_E4M3:
    case DT_E5M2:
    case DT_S8:
    case DT_U8: return 32;
    default: return 0;
    }
}

typedef struct {
    i64 rows, cols; // as written
    DType type;
    bool in_registers;
    const AstNode *e;
} OperandShape;

// An operand: a shared tile, or for A also a fragment. *o gets its place, *s its shape as written.
static bool need_mma_operand(Resolve *r, const AstNode *e, bool is_a, TileOperand *o,
                             OperandShape *s)
{
    const char *which = is_a ? "the first operand of mma" : "the second operand of mma";
    Value v = resolve_expr(r, e);
    s->e = e;
    s->type = v.type;
    o->frag = -1;
    o->view.buffer = -1;
    if (v.kind == VAL_NONE) return false;
    if (v.kind == VAL_FRAG && v.slot >= 0) {
        const TileFrag *f = &r->k->frags.at[v.frag];
        if (!is_a || f->rank != 2) {
            resolve_error(r, e->loc, NULL,
                          is_a ? "%s must have rank 2"
                               : "%s must be in shared memory, found a fragment",
                          which);
            return false;
        }
        o->frag = v.frag;
        o->frag_slot = v.slot;
        s->in_registers = true;
        s->rows = f->dim[0];
        s->cols = f->dim[1];
        return true;
    }
    if (v.kind != VAL_VIEW || r->k->buffers.at[v.view.buffer].kind != TB_SHARED) {
        resolve_error(r, e->loc, "bring it there with `x = dma.copy.swiz<128> src => shared;`",
                      "%s must be in shared memory%s, found %s", which,
                      is_a ? " or a fragment" : "",
                      v.kind == VAL_VIEW ? "global memory" : value_describe(r, &v));
        return false;
    }
    bool constant = v.view.rank == 2;
    if (constant)
        constant = expr_is_const(v.view.extent[v.view.dim[0]], &s->rows) &&
                   expr_is_const(v.view.extent[v.view.dim[1]], &s->cols);
    if (!constant) {
        resolve_error(r, e->loc, v.view.rank > 2 ? "`.sqz()` drops dimensions of extent 1" : NULL,
                      "%s must have two constant dimensions; it is %s", which, view_text(r, &v));
        return false;
    }
    if (!view_inside(r, &v.view, which, e->loc)) return false;
    resolve_pending(r, &v.view, e->loc);
    o->view = v.view;
    return true;
}

// Types and extents that the hardware multiplies. M, N and K are of the product.
static bool check_product(Resolve *r, const AstNode *s, const TileFrag *acc, const OperandShape *a,
                          const OperandShape *b, i64 m, i64 n, i64 k, i64 kb)
{
    bool a8 = a->type == DT_E4M3 || a->type == DT_E5M2,
         b8 = b->type == DT_E4M3 || b->type == DT_E5M2;
    int atom = mma_atom(a->type);
    if (!atom || (a->type != b->type && !(a8 && b8))) {
        resolve_error(r, a->e->loc, NULL,
                      "no product of %s and %s; equal types out of f16, bf16, tf32, the f8 types, s8 "
                      "and u8 are required",
                      dtype_name[a->type], dtype_name[b->type]);
        return false;
    }
    bool whole = a->type == DT_S8 || a->type == DT_U8;
    if (whole && acc->type != DT_S32) {
        resolve_error(r, s->loc, "declare it `frag s32 [64, N]` or `mma.fill.s32 0`",
                      "a product of %s is summed in s32, the accumulator is %s",
                      dtype_name[a->type], dtype_name[acc->type]);
        return false;
    }
    if (whole && n % 16 && n != 8 && n != 24) {
        resolve_error(r, b->e->loc, NULL,
                      "N is %lld; 8, 24 or a multiple of 16 is required for %s", (long long)n,
                      dtype_name[a->type]);
        return false;
    }
    if (whole && a->in_registers) {
        resolve_unsupported(r, a->e->loc, "a first operand of %s in registers",
                            dtype_name[a->type]);
        return false;
    }
    if (!whole && acc->type != DT_F32 && !(acc->type == DT_F16 && r->first_walk)) {
        resolve_unsupported(r, s->loc, "products into %s", dtype_name[acc->type]);
        return false;
    }
    bool a_col = s->flags & AST_F_A_COL, b_col = s->flags & AST_F_B_COL;
    if ((a_col || b_col) && dtype_bytes[a->type] != 2) {
        resolve_error(r, (a_col ? a : b)->e->loc, "transpose the tile when it is brought in",
                      "only 16-bit operands can be '.col'; this one is %s", dtype_name[a->type]);
        return false;
    }
    if (k != kb) {
        resolve_error(r, b->e->loc, "row.row takes A[M, K] and B[N, K]; row.col takes B[K, N]",
                      "the first operand has K = %lld, the second K = %lld", (long long)k,
                      (long long)kb);
        return false;
    }
    if (m != MMA_ROWS) {
        resolve_error(r, a->e->loc, "give each warpgroup 64 rows: `.subspan(64, ..).at(wg, ..)`",
                      "a warpgroup multiplies %d rows; the first operand has %lld", MMA_ROWS,
                      (long long)m);
        return false;
    }
    if (n % 8 || n < 8 || n > MMA_COLS_MAX) {
        resolve_error(r, b->e->loc, NULL, "N is %lld; a multiple of 8 from 8 to %d is required",
                      (long long)n, MMA_COLS_MAX);
        return false;
    }
    if (k % atom) {
        resolve_error(r, a->e->loc, NULL, "K is %lld; a multiple of %d is required for %s",
                      (long long)k, atom, dtype_name[a->type]);
        return false;
    }
    return true;
}

enum { SCHEDULE_STEPS = 16 };

// [[schedule(k_tiles(..))]]: the order in which the steps of K are multiplied, four bits for each.
static bool schedule(Resolve *r, const AstNode *s, i64 steps, i64 *order)
{
    *order = 0;
    for (int i = 0; i < s->attrs.n; i++) {
        const AstNode *a = s->attrs.at[i];
        const AstNode *tiles = a->list.n == 1 ? a->list.at[0] : NULL;
        if (!a->name || strcmp(a->name, "schedule") || !tiles || tiles->kind != AST_CALL ||
            !tiles->name || strcmp(tiles->name, "k_tiles")) {
            resolve_error(r, a->loc, NULL,
                          "a product takes the attribute [[schedule(k_tiles(..))]]");
            return false;
        }
        if (steps > SCHEDULE_STEPS) {
            resolve_unsupported(r, a->loc, "k_tiles of more than %d steps", SCHEDULE_STEPS);
            return false;
        }
        u64 seen = 0, code = 0;
        for (int k = 0; k < tiles->list.n && k < SCHEDULE_STEPS; k++) {
            i64 n;
            if (!resolve_const(r, tiles->list.at[k], "a step of k_tiles", 0, steps - 1, &n))
                return false;
            seen |= 1ull << n;
            code |= (u64)n << (4 * k);
        }
        if (tiles->list.n != steps || seen != (1ull << steps) - 1) {
            resolve_error(r, tiles->loc, NULL,
                          "k_tiles must name each of the %lld steps of this product once, 0 to "
                          "%lld", (long long)steps, (long long)steps - 1);
            return false;
        }
        *order = (i64)code;
    }
    return true;
}

// mma.row.row acc, a, b and its three other orders. The first word is A's, the second B's: `col`
// says that the operand is given transposed.
static void mma_multiply(Resolve *r, const AstNode *s)
{
    bool async = s->flags & AST_F_ASYNC;
    Symbol *future = async && s->name ? scope_add(r, s->name, s->loc, value_none()) : NULL;
    static const struct {
        u32 flag;
        const char *name;
    } later[] = {
        {AST_F_SCALE, "mma .scale"}, {AST_F_SPARSE, "mma .sp"}};
    for (int i = 0; i < COUNT(later); i++) {
        if (!(s->flags & later[i].flag)) continue;
        resolve_unsupported(r, s->loc, "%s", later[i].name);
        return;
    }
    Value acc;
    TileOperand a = {0}, b = {0};
    OperandShape sa = {0}, sb = {0};
    if (s->list.n != 2 || !need_group4(r, s->loc, "mma", LEVEL_GROUP4) ||
        !need_frag(r, s->target, "the accumulator of mma", &acc))
        return;
    // Should this product be refused, then that is the error, and not that a shape is missing.
    const AstNode *declared = r->frag_node.at[acc.frag];
    if (declared && !r->k->frags.at[acc.frag].dim[0] && !map_get(r->acc_shapes, declared))
        map_put(r->acc_shapes, declared, ARENA_NEW(r->arena, AccShape));
    if (!need_mma_operand(r, s->list.at[0], true, &a, &sa) ||
        !need_mma_operand(r, s->list.at[1], false, &b, &sb))
        return;
    a.trans = s->flags & AST_F_A_COL;
    b.trans = s->flags & AST_F_B_COL;
    if (a.frag >= 0 && a.trans) {
        resolve_error(r, sa.e->loc, NULL, "an operand in registers cannot be '.col'");
        return;
    }
    if (!sa.rows) return; // the first walk does not know this fragment's shape yet
    i64 m = a.trans ? sa.cols : sa.rows, k = a.trans ? sa.rows : sa.cols;
    i64 n = b.trans ? sb.cols : sb.rows, kb = b.trans ? sb.rows : sb.cols;
    TileFrag *f = &r->k->frags.at[acc.frag];
    if (!check_product(r, s, f, &sa, &sb, m, n, k, kb)) return;
    if (f->rank != 2 || (f->dim[0] && (f->dim[0] != m || f->dim[1] != n))) {
        resolve_error(r, s->target->loc, NULL, "the product is [%lld, %lld], but '%s' is %s",
                      (long long)m, (long long)n, f->name, frag_text(r, f));
        return;
    }
    if (!f->dim[0] || f->type == DT_F16) {
        AccShape *shape = ARENA_NEW(r->arena, AccShape);
        *shape = (AccShape){m, n, f->type == DT_F16};
        map_put(r->acc_shapes, r->frag_node.at[acc.frag], shape);
        f->dim[0] = m;
        f->dim[1] = n;
    }
    if ((a.frag >= 0 && !product_free(r, a.frag, a.frag_slot, false, sa.e->loc)) ||
        !product_free_acc(r, acc.frag, acc.slot, s->target->loc))
        return;
    i64 order;
    if (!schedule(r, s, k / mma_atom(sa.type), &order)) return;
    TileOp *o = resolve_emit(r, TOP_MMA, s->loc);
    o->imm = order;
    o->frag = acc.frag;
    o->frag_slot = acc.slot;
    o->a = a;
    o->b = b;
    if (future) {
        future->value = (Value){.kind = VAL_OTHER, .what = "a product in flight"};
        product_issue(r, future, o);
    } else if (async) {
        resolve_error(r, s->loc, "write `f = mma.row.row.async ...; wait f;`",
                      "an asynchronous product needs a name to wait for");
    }
}

// .mask acc, dst, rows[, cols]: rows and columns from there on are not written.
static bool mask_store(Resolve *r, const AstNode *s, TileView *dst)
{
    for (int i = 0; i < s->list.n && i < 2; i++) {
        const Expr *n = resolve_index(r, s->list.at[i], "a mask of mma.store");
        if (!n) return false;
        int d = dst->dim[i];
        dst->limit[d] = expr_bin(r->x, EX_MIN, dst->limit[d], expr_add(r->x, dst->origin[d], n));
    }
    return true;
}

// Element by element, dst[i, j] = acc[i, j], or dst[j, i] for .transp. What hangs over is not
// written.
static void store_elements(Resolve *r, const AstNode *s, const Value *acc, const Value *dst,
                           bool transposed)
{
    const TileFrag f = r->k->frags.at[acc->frag];
    TileOp *apply = resolve_emit(r, TOP_APPLY, s->loc);
    apply->frag = acc->frag;
    apply->frag_slot = acc->slot;
    apply->var = resolve_var(r, intern(r->m->names, "row"));
    apply->var2 = resolve_var(r, intern(r->m->names, "col"));
    expr_set_range(r->x, apply->var, 0, f.dim[0] - 1);
    expr_set_range(r->x, apply->var2, 0, f.dim[1] - 1);
    TileView one = dst->view;
    const Expr *inside = expr_const(r->x, 1);
    const char *const var[2] = {transposed ? apply->var2 : apply->var,
                                transposed ? apply->var : apply->var2};
    for (int i = 0; i < 2; i++) {
        int d = dst->view.dim[i];
        one.origin[d] = expr_add(r->x, one.origin[d], expr_var(r->x, var[i]));
        one.extent[d] = expr_const(r->x, 1);
        const Expr *in = expr_bin(r->x, EX_LT, one.origin[d], one.limit[d]);
        inside = expr_bin(r->x, EX_LAND, inside, in);
    }
    one.rank = 0;
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_FRAG, .type = f.type, .loc = s->loc, .frag = acc->frag,
                 .slot = acc->slot, .at = {0, 1}};
    Value v = resolve_cast(r, value_texpr(x), dst->type, s->loc);
    TileBlock *saved = r->at;
    r->at = &apply->body;
    i64 always;
    if (!expr_is_const(inside, &always)) {
        Value c = value_index(r, inside, DT_BOOL);
        TileOp *guard = resolve_emit(r, TOP_IF, s->loc);
        guard->cond = value_tree(r, &c, s->loc);
        r->at = &guard->body;
    }
    TileOp *o = resolve_emit(r, TOP_STORE, s->loc);
    o->elem = one;
    o->value = value_tree(r, &v, s->loc);
    r->at = saved;
}

// The columns that `acc.subspan(rows, n).at(0, i)` names: *cols of them from *first on. Registers have
// no addresses, so both are known here.
static bool stored_columns(Resolve *r, const AstNode *e, const TileFrag *f, i64 *first, i64 *cols)
{
    const AstList *n = &e->list, *at = &e->list4;
    const Expr *x[4] = {NULL, NULL, NULL, NULL}; // rows, columns, row tile, column tile
    i64 v[4] = {f->dim[0], f->dim[1], 0, 0};
    bool ok = n->n == 2 && !e->list2.n && !e->list3.n && (!at->n || at->n == 2);
    for (int i = 0; ok && i < 2 + at->n; i++) {
        const AstNode *part = i < 2 ? n->at[i] : at->at[i - 2];
        if (i < 2 && part->kind == AST_WILD) continue;
        x[i] = resolve_index(r, part, "a part of a fragment");
        if (!x[i]) return false;
        ok = expr_is_const(x[i], &v[i]) && v[i] >= 0 && v[i] <= FRAG_MAX_ELEMENTS;
    }
    *cols = v[1];
    *first = v[1] * v[3];
    if (ok && v[0] == f->dim[0] && !v[2] && v[1] > 0 && v[1] % 8 == 0 && *first + *cols <= f->dim[1])
        return true;
    resolve_error(r, e->loc, "such as acc.subspan(64, 128).at(0, 1)",
                  "a stored part of '%s' is all of its rows and a constant multiple of 8 columns "
                  "inside %s",
                  f->name, frag_text(r, f));
    return false;
}

// mma.store acc, dst: converts to the element type of dst.
static void mma_store(Resolve *r, const AstNode *s)
{
    bool transposed = s->flags & AST_F_TRANSP, part = s->value->kind == AST_VIEW;
    Value acc, dst;
    i64 first = 0, width;
    if (!need_group4(r, s->loc, "mma.store", LEVEL_GROUP4) ||
        !need_frag(r, part ? s->value->value : s->value, "what mma.store stores", &acc) ||
        !resolve_need_view(r, s->target, "the destination of mma.store", &dst))
        return;
    TileFrag stored = r->k->frags.at[acc.frag], *f = &stored;
    if (part && f->rank == 2 && f->dim[0]) {
        if (!stored_columns(r, s->value, f, &first, &width)) return;
        f->dim[1] = width;
    }
    // The registers of an f32 accumulator are stored in pairs; all else goes element by element.
    bool elements = transposed || f->type != DT_F32 ||
                    (dst.type != DT_F32 && dst.type != DT_F16 && dst.type != DT_BF16);
    if (part && elements) {
        resolve_unsupported(r, s->value->loc, "a part of this fragment in mma.store");
        return;
    }
    i64 rows = 0, cols = 0;
    bool fits = dst.view.rank == 2 && expr_is_const(dst.view.extent[dst.view.dim[0]], &rows) &&
                expr_is_const(dst.view.extent[dst.view.dim[1]], &cols);
    if (transposed) {
        i64 swap = rows;
        rows = cols, cols = swap;
    }
    if (!fits || (f->dim[0] && (rows != f->dim[0] || cols != f->dim[1]))) {
        resolve_error(
            r, s->target->loc,
            dst.view.rank > 2 ? "`.sqz()` drops dimensions of extent 1"
                              : "`.subspan(rows, columns).at(..)` cuts a tile of that shape",
            "'%s' is %s, but the destination is %s", f->name, frag_text(r, f), view_text(r, &dst));
        return;
    }
    bool same = dst.type == f->type;
    if (!same && !(dtype_is_float(f->type) && dtype_is_float(dst.type) && dst.type != DT_F64)) {
        resolve_error(r, s->target->loc, NULL, "mma.store cannot convert %s to %s",
                      dtype_name[f->type], dtype_name[dst.type]);
        return;
    }
    if (s->flags & AST_F_MASK && !mask_store(r, s, &dst.view)) return;
    if (!product_free(r, acc.frag, acc.slot, false, s->value->loc)) return;
    resolve_pending(r, &dst.view, s->target->loc);
    view_used(r, &dst.view, true, s->target->loc);
    if (elements) {
        if (f->dim[0]) store_elements(r, s, &acc, &dst, transposed);
        return;
    }
    TileOp *o = resolve_emit(r, TOP_MMA_STORE, s->loc);
    o->frag = acc.frag;
    o->frag_slot = acc.slot;
    o->imm = first;
    o->dst = dst.view;
}

// The fragment that mma.load fills: a new one of the tile's shape, or one that exists.
static bool load_target(Resolve *r, const AstNode *s, const TileFrag *shape, int *frag, int *slot)
{
    *slot = 0;
    if (s->flags & AST_F_DECLARES && s->target->kind == AST_NAME) {
        *frag = add_frag(r, s, s->target->name, *shape);
        define_frag(r, s->target->name, s->target->loc, *frag);
        return true;
    }
    Value v;
    if (!need_frag(r, s->target, "the destination of mma.load", &v)) return false;
    const TileFrag *f = &r->k->frags.at[v.frag];
    *frag = v.frag;
    *slot = v.slot;
    if (f->rank == 2 && f->type == shape->type && f->dim[0] == shape->dim[0] &&
        f->dim[1] == shape->dim[1])
        return true;
    resolve_error(r, s->target->loc, NULL, "the tile is %s, but '%s' is %s", frag_text(r, shape),
                  f->name, frag_text(r, f));
    return false;
}

// a = mma.load src: each thread reads the elements that it owns of an operand in registers.
static void mma_load(Resolve *r, const AstNode *s)
{
    Value src;
    TileFrag f = {.rank = 2, .slots = 1, .loc = s->loc};
    if (!need_group4(r, s->loc, "mma.load", LEVEL_GROUP4) ||
        !resolve_need_view(r, s->value, "the source of mma.load", &src))
        return;
    const TileBuffer *b = &r->k->buffers.at[src.view.buffer];
    if (b->kind != TB_SHARED || src.view.rank != 2 ||
        !expr_is_const(src.view.extent[src.view.dim[0]], &f.dim[0]) ||
        !expr_is_const(src.view.extent[src.view.dim[1]], &f.dim[1])) {
        resolve_error(r, s->value->loc, NULL,
                      "mma.load needs a shared tile of two constant dimensions; this is %s %s",
                      b->kind == TB_SHARED ? "shared" : "global", view_text(r, &src));
        return;
    }
    int span = smem_layout[b->layout].span, frag, slot;
    if (s->flags & AST_F_SWIZ && span && span != s->swizzle) {
        resolve_error(r, s->loc, "leave it out; the buffer knows", "'%s' has swizzle %d, not %d",
                      b->name, span, s->swizzle);
        return;
    }
    f.type = src.type;
    resolve_pending(r, &src.view, s->value->loc);
    if (!load_target(r, s, &f, &frag, &slot) || !product_free(r, frag, slot, true, s->loc)) return;
    TileOp *apply = resolve_emit(r, TOP_APPLY, s->loc);
    apply->frag = frag;
    apply->frag_slot = slot;
    apply->var = resolve_var(r, intern(r->m->names, "row"));
    apply->var2 = resolve_var(r, intern(r->m->names, "col"));
    expr_set_range(r->x, apply->var, 0, f.dim[0] - 1);
    expr_set_range(r->x, apply->var2, 0, f.dim[1] - 1);
    TileView *one = ARENA_NEW(r->arena, TileView);
    *one = src.view;
    const char *const var[2] = {apply->var, apply->var2};
    for (int i = 0; i < 2; i++) {
        int d = src.view.dim[i];
        one->origin[d] = expr_add(r->x, src.view.origin[d], expr_var(r->x, var[i]));
        one->extent[d] = expr_const(r->x, 1);
    }
    one->rank = 0;
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_ELEM, .type = src.type, .loc = s->value->loc, .view = one};
    TileBlock *saved = r->at;
    r->at = &apply->body;
    TileOp *set = resolve_emit(r, TOP_FSET, s->loc);
    r->at = saved;
    set->frag = frag;
    set->frag_slot = slot;
    set->elem_at[1] = 1;
    set->value = x;
}

// All statements that begin with `mma`.
void resolve_mma(Resolve *r, const AstNode *s)
{
    bool parsed = s->op == MMA_STORE ? s->value && s->target : s->target != NULL;
    if (!parsed) return;
    if (r->in_apply) {
        resolve_error(r, s->loc, "put it behind the apply", "mma inside an apply");
        return;
    }
    switch (s->op) {
    case MMA_FILL: mma_fill(r, s); break;
    case MMA_MUL: mma_multiply(r, s); break;
    case MMA_STORE: mma_store(r, s); break;
    case MMA_LOAD: {
        bool declares = s->flags & AST_F_DECLARES && s->target->kind == AST_NAME;
        int errors = diag_errors(r->diag);
        mma_load(r, s);
        if (declares && diag_errors(r->diag) != errors)
            scope_add(r, s->target->name, s->target->loc, value_none());
        break;
    }
    default: resolve_unsupported(r, s->loc, "mma.scale");
    }
}
