// weaken.c - a program without the protection of its releases, for a stress run that must be able
// to fail; and what no comparison of bits can judge.
#include "stress.h"

// What a thread did since the last proxy fence, as the text of the program has it. A loop is
// entered with what stands in front of it.
typedef struct {
    ThreadModule *mod;
    const ThreadFn *fn;
    StressPlaces *at;
    u8 *filled;            // per buffer: bulk copies write it
    bool reads, writes;    // ordinary reads of filled buffers; ordinary writes of shared memory
    int taken;
} Weaken;

static void find_filled(Weaken *w, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_TMA_LOAD && op->nmem && op->mem[0].buffer >= 0 &&
            op->mem[0].buffer < w->fn->buffers.n)
            w->filled[op->mem[0].buffer] = 1;
        find_filled(w, &op->body);
        find_filled(w, &op->other);
    }
}

// Fences that order writes too stay: without them another rule (O4) would be broken as well, and a
// failure would prove nothing about the reads.
static bool take_fence(Weaken *w)
{
    bool take = w->reads && !w->writes;
    w->reads = w->writes = false;
    return take;
}

static void weaken_block(Weaken *w, ThreadBlock *b)
{
    int kept = 0;
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        int buffer = op->nmem ? op->mem[0].buffer : -1;
        bool filled = buffer >= 0 && buffer < w->fn->buffers.n && w->filled[buffer];
        w->reads |= (op->op == OP_LDS || op->op == OP_LDMATRIX) && filled;
        w->writes |= op->op == OP_STS || op->op == OP_STMATRIX || op->op == OP_ATOMS ||
                     op->op == OP_CASS || op->op == OP_CPASYNC;
        weaken_block(w, &op->body);
        weaken_block(w, &op->other);
        if (op->op == OP_FENCE_PROXY && take_fence(w)) {
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
        find_filled(&w, &w.fn->body);
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
