// infer.c - pass: which register layout every fragment has, and whether the shared operands of
// matrix products lie as the hardware reads them.
//
// Evidence, strongest first: the operand of a matrix product; destination of a reduction; a vector
// indexed by the row or the column variable of an apply; fragments that share an apply or a copy
// agree. Rounds run until nothing changes (each round fixes at least one fragment). A fragment of
// 64 rows without any evidence is laid out like an accumulator. Slots of an array share a layout.
#include "from_ast.h"

typedef struct {
    TileModule *m;
    TileKernel *k;
    u8 *layout; // per fragment, FL_NONE: not known yet
    Loc *why;   // where the layout was decided
    bool changed, failed;
    // inside an apply
    const TileOp *apply;
} Infer;

static const char *describe(FragKind l)
{
    switch (l) {
    case FL_ACC: return "an accumulator";
    case FL_A16:
    case FL_A8:
    case FL_A32: return "the first operand of an mma";
    case FL_ROW: return "a vector along the rows";
    case FL_COL: return "a vector along the columns";
    default: return "nothing";
    }
}

// Evidence that fragment `frag` has layout l. Contradicting evidence is the user's error.
static void decide(Infer *f, int frag, FragKind l, Loc loc)
{
    if (frag < 0 || frag >= f->k->frags.n || l == FL_NONE) return;
    if (f->layout[frag] == l) return;
    if (f->layout[frag] == FL_NONE) {
        f->layout[frag] = (u8)l;
        f->why[frag] = loc;
        f->changed = true;
        return;
    }
    if (f->failed) return;
    diag_error(f->m->diag, loc, "copy it to a second fragment in an apply",
               "fragment '%s' is %s here, but %s in line %u", f->k->frags.at[frag].name,
               describe(l), describe(f->layout[frag]), f->why[frag].line);
    f->failed = true;
}

// The layout of a two-dimensional fragment whose threads own what an accumulator's own.
static FragKind like_acc(const TileFrag *f)
{
    return dtype_bytes[f->type] == 2 && f->dim[1] % 16 == 0 ? FL_A16 : FL_ACC;
}

// Both give a thread the same elements of a tile, so values move between them without a shuffle.
static bool owns_like_acc(int l) { return l == FL_ACC || l == FL_A16; }

// ---- one round over the operations -------------------------------------------------------------

// A fragment element inside an apply. A vector follows the variable that indexes it.
static void element(Infer *f, int frag, const u8 *at, Loc loc)
{
    if (frag < 0 || frag >= f->k->frags.n) return;
    const TileOp *a = f->apply;
    if (at[0] == TILE_AT_REG || !a || a->frag < 0 || a->frag >= f->k->frags.n) return;
    const TileFrag *e = &f->k->frags.at[frag], *over = &f->k->frags.at[a->frag];
    if (over->rank == 2 && e->rank == 1) {
        if (f->layout[frag] == FL_NONE || owns_like_acc(f->layout[a->frag]))
            decide(f, frag, at[0] == 0 ? FL_ROW : FL_COL, loc);
    } else if (over->rank == 2) {
        if (f->layout[frag] == FL_NONE && owns_like_acc(f->layout[a->frag]))
            decide(f, frag, like_acc(e), loc);
        if (f->layout[a->frag] == FL_NONE && owns_like_acc(f->layout[frag]))
            decide(f, a->frag, like_acc(over), loc);
    } else {
        decide(f, frag, f->layout[a->frag], loc);
        decide(f, a->frag, f->layout[frag], loc);
    }
}

static void expression(Infer *f, const TExpr *x)
{
    if (!x) return;
    if (x->kind == TX_FRAG) element(f, x->frag, x->at, x->loc);
    expression(f, x->a);
    expression(f, x->b);
    expression(f, x->c);
}

// The first operand of a product in registers, by its element size.
static FragKind operand_layout(DType t)
{
    return dtype_bytes[t] == 2 ? FL_A16 : dtype_bytes[t] == 1 ? FL_A8 : FL_A32;
}

static void reduction(Infer *f, const TileOp *o)
{
    FragKind vector = o->imm & 1 ? FL_ROW : FL_COL;
    if (o->imm >> 1 == REDUCE_ALL_SUM) {
        return; // in place, whatever the vector runs along
    }
    decide(f, o->frag, vector, o->loc);
    if (f->layout[o->frag2] == FL_NONE)
        decide(f, o->frag2, like_acc(&f->k->frags.at[o->frag2]), o->loc);
}

static void block(Infer *f, const TileBlock *b);

static void operation(Infer *f, const TileOp *o)
{
    expression(f, o->cond);
    expression(f, o->value);
    switch (o->op) {
    case TOP_MMA:
        decide(f, o->frag, FL_ACC, o->loc);
        if (o->a.frag < 0) break;
        decide(f, o->a.frag, operand_layout(f->k->frags.at[o->a.frag].type), o->loc);
        break;
    case TOP_MMA_STORE:
        if (f->layout[o->frag] == FL_NONE) decide(f, o->frag, FL_ACC, o->loc);
        break;
    case TOP_REDUCE: reduction(f, o); break;
    case TOP_FCOPY:
        decide(f, o->frag, f->layout[o->frag2], o->loc);
        decide(f, o->frag2, f->layout[o->frag], o->loc);
        break;
    case TOP_FSET: element(f, o->frag, o->elem_at, o->loc); break;
    case TOP_APPLY:
        f->apply = o;
        block(f, &o->body);
        f->apply = NULL;
        return;
    default: break;
    }
    block(f, &o->body);
    block(f, &o->other);
}

static void block(Infer *f, const TileBlock *b)
{
    for (int i = 0; i < b->n && !f->failed; i++) operation(f, b->at[i]);
}

// Each round that changes something fixes a fragment, so there are at most as many as fragments.
static void rounds(Infer *f)
{
    do {
        f->changed = false;
        block(f, &f->k->body);
    } while (f->changed && !f->failed);
}

// ---- the result --------------------------------------------------------------------------------

// Shapes that a layout can have: whole atoms of it.
static bool fits(const TileFrag *f, FragKind l)
{
    const FragLayout *a = &frag_layout[l];
    if (l == FL_ROW) return f->rank == 1 && f->dim[0] == 64;
    if (l == FL_COL) return f->rank == 1 && f->dim[0] % 8 == 0;
    return f->rank == 2 && f->dim[0] == a->rows && f->dim[1] % a->cols == 0;
}

static const char *shape_rule(FragKind l)
{
    switch (l) {
    case FL_ROW: return "a vector along the rows has 64 elements";
    case FL_COL: return "a vector along the columns has a multiple of 8 elements";
    case FL_ACC: return "an accumulator has 64 rows and a multiple of 8 columns";
    case FL_A16: return "a 16-bit operand has 64 rows and a multiple of 16 columns";
    case FL_A8: return "an 8-bit operand has 64 rows and a multiple of 32 columns";
    default: return "a tf32 operand has 64 rows and a multiple of 8 columns";
    }
}

// Without evidence a fragment of 64 rows is laid out like an accumulator, a vector of 64 along its
// rows, and any other vector along columns.
static void guess(Infer *f)
{
    for (int i = 0; i < f->k->frags.n; i++) {
        const TileFrag *t = &f->k->frags.at[i];
        if (f->layout[i] != FL_NONE || (t->rank == 2 && t->dim[0] != 64)) continue;
        FragKind l = t->rank == 2 ? like_acc(t) : t->dim[0] == 64 ? FL_ROW : FL_COL;
        if (!fits(t, l)) continue;
        decide(f, i, l, t->loc);
        rounds(f); // its partners follow before the next guess
        if (f->failed) return;
    }
}

// Every fragment has a layout now, and its shape is made of whole atoms of it.
static void settle(Infer *f)
{
    for (int i = 0; i < f->k->frags.n && !f->failed; i++) {
        TileFrag *t = &f->k->frags.at[i];
        FragKind l = (FragKind)f->layout[i];
        if (l == FL_NONE) {
            diag_error(f->m->diag, t->loc, "a fragment has 64 rows, one warpgroup's",
                       "cannot infer the layout of fragment '%s'", t->name);
            f->failed = true;
        } else if (!fits(t, l)) {
            if (t->rank == 2)
                diag_error(f->m->diag, t->loc, shape_rule(l),
                           "fragment '%s' of [%lld, %lld] cannot be %s", t->name,
                           (long long)t->dim[0], (long long)t->dim[1], describe(l));
            else
                diag_error(f->m->diag, t->loc, shape_rule(l),
                           "fragment '%s' of [%lld] cannot be %s", t->name, (long long)t->dim[0],
                           describe(l));
            f->failed = true;
        }
        t->layout = (u8)l;
    }
}

// ---- applies whose fragments lie differently ---------------------------------------------------

// Elements of one apply are held by the same threads, or copied along a row or column.
static void check_element(Infer *f, const TileOp *apply, int frag, Loc loc)
{
    const TileFrag *e = &f->k->frags.at[frag], *over = &f->k->frags.at[apply->frag];
    bool same = e->layout == over->layout;
    bool alike = owns_like_acc(over->layout) &&
                 (owns_like_acc(e->layout) || e->layout == FL_ROW || e->layout == FL_COL);
    if (same || alike || f->failed) return;
    diag_error(f->m->diag, loc, NULL,
               "not supported yet: fragment '%s' (%s) in an apply over '%s' (%s), whose elements "
               "other threads hold",
               e->name, describe(e->layout), over->name, describe(over->layout));
    f->failed = true;
}

// Element by its number: how many a thread has depends on the layout.
static void check_register(Infer *f, int frag, int number, Loc loc)
{
    const TileFrag *e = &f->k->frags.at[frag];
    if (f->failed || e->layout == FL_NONE) return;
    const FragLayout *y = &frag_layout[e->layout];
    i64 cols = e->rank == 2 ? e->dim[1] : e->layout == FL_COL ? e->dim[0] : 1;
    i64 n = y->regs * y->elems * (cols / y->cols);
    if (number < n) return;
    diag_error(f->m->diag, loc, NULL, "the index is %d; a thread has %lld elements of '%s'", number,
               (long long)n, e->name);
    f->failed = true;
}

static void check_expression(Infer *f, const TileOp *apply, const TExpr *x)
{
    if (!x) return;
    if (x->kind == TX_FRAG && x->at[0] == TILE_AT_REG)
        check_register(f, x->frag, x->at[1], x->loc);
    else if (x->kind == TX_FRAG && apply)
        check_element(f, apply, x->frag, x->loc);
    check_expression(f, apply, x->a);
    check_expression(f, apply, x->b);
    check_expression(f, apply, x->c);
}

// The hardware reads a shared operand through a swizzle; other layouts do not exist for it.
static void check_operand(Infer *f, const TileOperand *o, Loc loc)
{
    if (o->frag >= 0 || o->view.buffer < 0 || o->view.buffer >= f->k->buffers.n) return;
    const TileBuffer *b = &f->k->buffers.at[o->view.buffer];
    if (b->kind != TB_SHARED || b->layout != SL_ROW) return;
    diag_error(f->m->diag, loc, "fill it with `dma.copy.swiz<128>` or `tma.load.swiz<128>`",
               "the mma operand '%s' has no swizzle; one is required", b->name);
    f->failed = true;
}

static void check_block(Infer *f, const TileOp *apply, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        const TileOp *inner = o->op == TOP_APPLY ? o : apply;
        check_expression(f, apply, o->cond);
        check_expression(f, apply, o->value);
        if (o->op == TOP_FSET && o->elem_at[0] == TILE_AT_REG)
            check_register(f, o->frag, o->elem_at[1], o->loc);
        else if (o->op == TOP_FSET && apply)
            check_element(f, apply, o->frag, o->loc);
        if (o->op == TOP_REDUCE && f->k->frags.at[o->frag].layout == FL_COL &&
            o->level > LEVEL_GROUP4 && !f->failed) {
            diag_error(f->m->diag, o->loc, "move it out of the condition",
                       "a reduction over rows concerns the whole warpgroup, but stands under a "
                       "condition of its warps");
            f->failed = true;
        }
        if (o->op == TOP_MMA) {
            check_operand(f, &o->a, o->loc);
            check_operand(f, &o->b, o->loc);
        }
        check_block(f, inner, &o->body);
        check_block(f, inner, &o->other);
    }
}

bool tile_infer_layouts(TileModule *m)
{
    int before = diag_errors(m->diag);
    for (int i = 0; i < m->fns.n; i++) {
        for (int k = 0; k < m->fns.at[i]->kernels.n; k++) {
            TileKernel *kernel = m->fns.at[i]->kernels.at[k];
            int n = kernel->frags.n;
            Infer f = {.m = m,
                       .k = kernel,
                       .layout = ARENA_ARRAY(m->arena, u8, n + 1),
                       .why = ARENA_ARRAY(m->arena, Loc, n + 1)};
            for (int j = 0; j < n; j++) f.layout[j] = kernel->frags.at[j].layout;
            rounds(&f);
            if (!f.failed) guess(&f);
            if (!f.failed) settle(&f);
            check_block(&f, NULL, &kernel->body);
        }
    }
    return diag_errors(m->diag) == before && tile_check_partial(m);
}
