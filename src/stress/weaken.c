// weaken.c - a program without the protection of its releases, for a stress run that must be able
// to fail; and what no comparison of bits can judge.
#include "stress.h"

#include <string.h>

// Order is taken from the text of the program: a loop is entered with what stands in front of it.
typedef struct {
    ThreadModule *mod;
    const ThreadFn *fn;
    StressPlaces *at;
    VEC(const ThreadOp *) all; // operations of the kernel in the order of the text
    int next;                  // the operation that the walk comes to, in `all`
    u8 *filled;                // per buffer: bulk copies write it
    // since the last proxy fence
    bool reads;                // ordinary reads of filled buffers
    u8 *written;               // per buffer: ordinary writes
    int taken;
} Weaken;

static void list(Weaken *w, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        vec_push(w->mod->arena, &w->all, op);
        if (op->op == OP_TMA_LOAD && op->nmem) w->filled[op->mem[0].buffer] = 1;
        list(w, &op->body);
        list(w, &op->other);
    }
}

static bool touches_written(const Weaken *w, const ThreadOp *op)
{
    for (int i = 0; i < op->nmem; i++)
        if (w->written[op->mem[i].buffer]) return true;
    return false;
}

// Do the writes in front have no other fence than this one? Then it stays: without it another rule
// (O4) would be broken as well, and a failure would prove nothing about the reads.
static bool orders_writes(const Weaken *w)
{
    bool any = false;
    for (int i = 0; i < w->fn->buffers.n; i++) any |= w->written[i];
    for (int i = w->next; any && i < w->all.n; i++) {
        const ThreadOp *op = w->all.at[i];
        bool async = op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS || op->op == OP_TMA_STORE ||
                     op->op == OP_TMA_LOAD;
        if (op->op == OP_FENCE_PROXY) return false;
        if (async && touches_written(w, op)) return true;
    }
    return any;
}

static void note(Weaken *w, const ThreadOp *op)
{
    bool loads = op->op == OP_LDS || op->op == OP_LDMATRIX;
    bool stores = op->op == OP_STS || op->op == OP_STMATRIX || op->op == OP_ATOMS ||
                  op->op == OP_CASS || op->op == OP_CPASYNC;
    // Behind the release a fence comes too late for the reads in front of it.
    if (op->op == OP_MBAR_ARRIVE || op->op == OP_MBAR_ARRIVE_CLUSTER || op->op == OP_BAR_ARRIVE ||
        op->op == OP_BAR_SYNC)
        w->reads = false;
    if (loads && op->nmem) w->reads |= w->filled[op->mem[0].buffer];
    if (stores && op->nmem) w->written[op->mem[0].buffer] = 1;
}

static void weaken_block(Weaken *w, ThreadBlock *b)
{
    int kept = 0;
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        w->next++;
        note(w, op);
        weaken_block(w, &op->body);
        weaken_block(w, &op->other);
        bool fence = op->op == OP_FENCE_PROXY;
        bool take = fence && w->reads && !orders_writes(w);
        if (fence) {
            w->reads = false;
            if (!take) memset(w->written, 0, (size_t)w->fn->buffers.n);
        }
        if (take) {
            if (w->at) vec_push(w->mod->arena, w->at, op->loc);
            w->taken++;
            continue;
        }
        b->at[kept++] = op;
    }
    b->n = kept;
}

int stress_weaken(ThreadModule *m, StressPlaces *at)
{
    int taken = 0;
    for (int i = 0; i < m->fns.n; i++) {
        Weaken w = {.mod = m, .fn = m->fns.at[i], .at = at};
        w.filled = ARENA_ARRAY(m->arena, u8, w.fn->buffers.n + 1);
        w.written = ARENA_ARRAY(m->arena, u8, w.fn->buffers.n + 1);
        list(&w, &w.fn->body);
        weaken_block(&w, &m->fns.at[i]->body);
        taken += w.taken;
    }
    return taken;
}

static const ThreadOp *find_unordered(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i], *inner;
        bool adds = (op->op == OP_ATOMS || op->op == OP_ATOMG) && op->n == ATOM_ADD;
        if (adds && op->type == TT_F32) return op;
        if ((inner = find_unordered(&op->body)) || (inner = find_unordered(&op->other)))
            return inner;
    }
    return NULL;
}

Loc stress_unordered(const ThreadModule *m)
{
    for (int i = 0; i < m->fns.n; i++) {
        const ThreadOp *op = find_unordered(&m->fns.at[i]->body);
        if (op) return op->loc;
    }
    return (Loc){0};
}
