// visit.c - the one place that knows which fields of which operation name memory.
#include "visit.h"

static void visit_value(const TileOp *op, const TExpr *x, TileViewFn *f, void *ctx)
{
    if (!x) return;
    if (x->kind == TX_ELEM) f(ctx, op, x->view, ACCESS_READ | ACCESS_GENERIC);
    visit_value(op, x->a, f, ctx);
    visit_value(op, x->b, f, ctx);
    visit_value(op, x->c, f, ctx);
}

void tile_visit_views(TileOp *op, TileViewFn *f, void *ctx)
{
    switch ((TileOpcode)op->op) {
    case TOP_COPY:
        f(ctx, op, &op->src, ACCESS_READ | (op->engine == ENGINE_DMA ? ACCESS_GENERIC : 0));
        f(ctx, op, &op->dst, ACCESS_WRITE);
        return;
    case TOP_USE: f(ctx, op, &op->src, ACCESS_READ); return;
    case TOP_MMA:
        if (op->a.frag < 0) f(ctx, op, &op->a.view, ACCESS_READ);
        f(ctx, op, &op->b.view, ACCESS_READ);
        return;
    case TOP_MMA_STORE: f(ctx, op, &op->dst, ACCESS_WRITE | ACCESS_GENERIC); return;
    case TOP_STORE:
        f(ctx, op, &op->elem, ACCESS_WRITE | ACCESS_GENERIC);
        visit_value(op, op->value, f, ctx);
        return;
    case TOP_ATOMIC:
        f(ctx, op, &op->elem, ACCESS_READ | ACCESS_WRITE | ACCESS_GENERIC);
        break;
    default: break;
    }
    visit_value(op, op->value, f, ctx);
    visit_value(op, op->cond, f, ctx);
}

void tile_visit_all(TileOp *op, TileViewFn *f, void *ctx)
{
    tile_visit_views(op, f, ctx);
    for (int i = 0; i < op->body.n; i++) tile_visit_all(op->body.at[i], f, ctx);
    for (int i = 0; i < op->other.n; i++) tile_visit_all(op->other.at[i], f, ctx);
}

typedef struct {
    const TileKernel *k;
    int buffer;
    bool found;
} Search;

static void look(void *ctx, const TileOp *op, TileView *v, int how)
{
    Search *s = ctx;
    (void)op, (void)how;
    s->found |= v->buffer >= 0 && tile_memory(s->k, v->buffer) == s->buffer;
}

bool tile_accesses(const TileKernel *k, TileOp *op, int buffer)
{
    Search s = {k, tile_memory(k, buffer), false};
    tile_visit_all(op, look, &s);
    return s.found;
}
