// early.c - pass: tile copies start as early as their order allows.
//
// A copy by the threads themselves (dma.copy) is waited for where its data is first needed
// (src/lower/sync.c), so whatever stands between the copy and that place hides its latency. This pass
// moves such a copy up over fragment arithmetic, which touches neither its source nor its
// destination, and stops at everything else: products (they free the slot), other copies, stores,
// scalars, loops. The order of all memory accesses stays what the source says.
#include "passes.h"

// Reads an element of `buffer` (any buffer when it is written to: then order matters).
static bool value_reads(const TExpr *e, int buffer)
{
    if (!e) return false;
    if (e->kind == TX_ELEM && e->view->buffer == buffer) return true;
    return value_reads(e->a, buffer) || value_reads(e->b, buffer) || value_reads(e->c, buffer);
}

static bool is_arithmetic(const TileOp *op, int buffer);

static bool block_is_arithmetic(const TileBlock *b, int buffer)
{
    for (int i = 0; i < b->n; i++)
        if (!is_arithmetic(b->at[i], buffer)) return false;
    return true;
}

static bool is_arithmetic(const TileOp *op, int buffer)
{
    if (value_reads(op->value, buffer) || value_reads(op->cond, buffer)) return false;
    switch ((TileOpcode)op->op) {
    case TOP_FILL:
    case TOP_FSET:
    case TOP_FCOPY:
    case TOP_REDUCE: return true;
    case TOP_APPLY:
    case TOP_IF: return block_is_arithmetic(&op->body, buffer) && block_is_arithmetic(&op->other, buffer);
    default: return false;
    }
}

static bool starts_early(const TileKernel *k, const TileOp *op)
{
    return op->op == TOP_COPY && op->engine == ENGINE_DMA &&
           k->buffers.at[op->src.buffer].kind == TB_GLOBAL &&
           k->buffers.at[op->dst.buffer].kind == TB_SHARED;
}

static void early_block(const TileKernel *k, TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        TileOp *op = b->at[i];
        early_block(k, &op->body);
        early_block(k, &op->other);
        if (!starts_early(k, op)) continue;
        int to = i;
        while (to > 0 && is_arithmetic(b->at[to - 1], op->dst.buffer)) to--;
        for (int j = i; j > to; j--) b->at[j] = b->at[j - 1];
        b->at[to] = op;
    }
}

bool tile_start_copies_early(TileModule *m)
{
    for (int f = 0; f < m->fns.n; f++) {
        for (int i = 0; i < m->fns.at[f]->kernels.n; i++) {
            TileKernel *k = m->fns.at[f]->kernels.at[i];
            early_block(k, &k->body);
        }
    }
    return true;
}
