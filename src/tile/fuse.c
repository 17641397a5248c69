// fuse.c - pass: a product that is only added to something becomes one fused multiply-add.
//
// Contraction changes rounding, so it is done here, once and visibly, and never by a printer or an
// assembler: all back ends then compute the same bits. x*y + z -> fma(x, y, z);
// x*y - z -> fma(x, y, -z); z - x*y -> fma(-x, y, z). Only f32, the type that is not rounded again.
#include "passes.h"

static bool is_math(const TExpr *e, TileMath m)
{
    return e->kind == TX_MATH && e->math == m && e->type == DT_F32;
}

static TExpr *math(TileModule *m, Loc loc, TileMath op, const TExpr *a, const TExpr *b, const TExpr *c)
{
    TExpr *e = ARENA_NEW(m->arena, TExpr);
    *e = (TExpr){.kind = TX_MATH, .math = (u8)op, .type = DT_F32, .loc = loc, .a = a, .b = b, .c = c};
    return e;
}

static const TExpr *negated(TileModule *m, const TExpr *e)
{
    return math(m, e->loc, TM_NEG, e, NULL, NULL);
}

static const TExpr *fuse(TileModule *m, const TExpr *e)
{
    if (!e) return NULL;
    TExpr *n = ARENA_NEW(m->arena, TExpr);
    *n = *e;
    n->a = fuse(m, e->a);
    n->b = fuse(m, e->b);
    n->c = fuse(m, e->c);
    if (is_math(n, TM_ADD)) {
        if (is_math(n->a, TM_MUL)) return math(m, n->loc, TM_FMA, n->a->a, n->a->b, n->b);
        if (is_math(n->b, TM_MUL)) return math(m, n->loc, TM_FMA, n->b->a, n->b->b, n->a);
    }
    if (is_math(n, TM_SUB)) {
        if (is_math(n->a, TM_MUL)) return math(m, n->loc, TM_FMA, n->a->a, n->a->b, negated(m, n->b));
        if (is_math(n->b, TM_MUL))
            return math(m, n->loc, TM_FMA, negated(m, n->b->a), n->b->b, n->a);
    }
    return n;
}

static void fuse_block(TileModule *m, TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        TileOp *op = b->at[i];
        op->value = fuse(m, op->value);
        op->cond = fuse(m, op->cond);
        fuse_block(m, &op->body);
        fuse_block(m, &op->other);
    }
}

bool tile_fuse(TileModule *m)
{
    for (int f = 0; f < m->fns.n; f++)
        for (int k = 0; k < m->fns.at[f]->kernels.n; k++) fuse_block(m, &m->fns.at[f]->kernels.at[k]->body);
    return true;
}
