// replay.c - loops over the pieces of a tile, counted or unrolled. A warp without the TMA unit
// copies a tile by hundreds of rounds of ordinary stores, and does so for each slot again and
// again: what such a loop touches depends on the registers that it reads, so it is executed once
// for each of their values, and its accesses are kept for the kernel.
//
// Only loops without events and conditions that data decides are kept. Reads that have not bound
// (O6) stay so: the registers that hold what they fetched are noted.
#include "exec.h"

#include <string.h>

typedef struct Replays Replays;
struct Replays {
    Arena *arena;
    Map *by_key; // Kept
    Map *loops;  // of each loop: Shape
};

typedef struct {
    bool simple;
    RegVec reads, writes;
    const u32 *bits;
} Shape;
typedef struct {
    int reg;
    u8 uniform;
    Term term[LANES];
} Result;
typedef struct {
    int element, access;
} Holder; // access: counted from the loop's first
typedef struct {
    VEC(Access) access;
    VEC(Result) results;
    VEC(Holder) holders;
} Kept;

Replays *replays_new(Arena *a)
{
    Replays *r = ARENA_NEW(a, Replays);
    r->arena = a;
    r->by_key = map_new(a);
    r->loops = map_new(a);
    return r;
}

static bool is_simple(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool store = op->op == OP_STS || op->op == OP_STMATRIX || op->op == OP_LDG ||
                     op->op == OP_LDS || op->op == OP_LDMATRIX || op->op == OP_STG;
        bool region = op->op == OP_FOR || op->op == OP_UNROLL || op->op == OP_IF;
        if (thread_op[op->op].effect != EFF_PURE && !store && !region) return false;
        if (!is_simple(&op->body) || !is_simple(&op->other)) return false;
    }
    return true;
}

static Shape *shape_of(Exec *x, const ThreadOp *loop)
{
    Replays *r = x->m->replays;
    Shape *s = map_get(r->loops, loop);
    if (s) return s;
    s = ARENA_NEW(r->arena, Shape);
    s->simple = is_simple(&loop->body);
    if (s->simple) s->bits = exec_flow(r->arena, x->m->fn, x->needed, loop, &s->reads, &s->writes);
    for (int i = 0; i < s->reads.n; i++) s->simple &= x->m->fn->regs.at[s->reads.at[i]].count == 1;
    for (int i = 0; i < s->writes.n; i++)
        s->simple &= x->m->fn->regs.at[s->writes.at[i]].count == 1;
    map_put(r->loops, loop, s);
    return s;
}

// False: a value that the loop reads is not known.
static bool key_of(Exec *x, const ThreadOp *loop, u32 mask, const Shape *s, u64 *key)
{
    i64 head[3] = {x->warp, x->cta, mask};
    u64 v, h = hash_bytes(&loop, sizeof loop, hash_bytes(head, sizeof head, 3));
    for (int i = 0; i < x->m->fn->unrolls.n; i++)
        h = hash_bytes(&x->unroll[i], sizeof x->unroll[i], h);
    for (int i = 0; i < s->reads.n; i++) {
        int e = x->base[s->reads.at[i]];
        if (x->taint[e]) return false;
        for (int k = 0; k < (x->uniform[e] ? 1 : LANES); k++) {
            Term t = x->term[e * LANES + k];
            bool known = t && term_value(x->m->terms, t, &v);
            if (t && !known) return false;
            if (known && s->bits[s->reads.at[i]] != ~(u32)0) v &= s->bits[s->reads.at[i]];
            h = hash_bytes(&v, known ? sizeof v : 0, h ^ (u64)known);
        }
    }
    *key = h | 1;
    return true;
}

// Puts down again what the loop did. Accesses stand at the present place.
static void put_down(Exec *x, const Kept *k)
{
    Agent *a = &x->m->agents.at[x->agent];
    for (int i = 0; i < k->access.n; i++) {
        Access r = k->access.at[i];
        r.agent = x->agent;
        r.at = a->events.n;
        r.until = r.until == NEVER ? NEVER : r.at;
        r.held = NEVER;
        vec_push(x->m->arena, &a->access, r);
    }
    x->seg_first = a->access.n;
    for (int i = 0; i < k->results.n; i++) {
        const Result *r = &k->results.at[i];
        int e = x->base[r->reg];
        x->uniform[e] = r->uniform;
        x->taint[e] = 0;
        memcpy(&x->term[e * LANES], r->term, sizeof r->term);
    }
    // One register holds the last of what an access fetched: it binds no more than that.
    int first = a->access.n - k->access.n;
    for (int i = 0; i < k->holders.n; i++) {
        const Holder *h = &k->holders.at[i];
        Access *r = &x->m->agents.at[x->agent].access.at[first + h->access];
        r->unbound--;
        x->taint[h->element] = exec_token(x, first + h->access);
    }
}

// Registers that hold what accesses from `first` on have fetched.
static void keep_holders(Exec *x, Kept *k, int first)
{
    const ThreadFn *fn = x->m->fn;
    int elements = fn->regs.n ? x->base[fn->regs.n - 1] + fn->regs.at[fn->regs.n - 1].count : 0;
    for (int t = 0; t < TOKENS; t++) {
        if (!(x->tokens >> t & 1) || x->token[t].access < first) continue;
        for (int e = 0; e < elements; e++)
            if (x->taint[e] >> t & 1)
                vec_push(x->m->replays->arena, &k->holders,
                         ((Holder){e, x->token[t].access - first}));
    }
}

// Constants only: other terms mean something else in another case.
static bool keep_results(Exec *x, const Shape *s, Kept *k)
{
    for (int i = 0; i < s->writes.n; i++) {
        Result r = {.reg = s->writes.at[i]};
        int e = x->base[r.reg];
        r.uniform = x->uniform[e];
        memcpy(r.term, &x->term[e * LANES], sizeof r.term);
        for (int j = 0; j < (r.uniform ? 1 : LANES); j++)
            if (r.term[j] && !term_is_const(x->m->terms, r.term[j])) return false;
        vec_push(x->m->replays->arena, &k->results, r);
    }
    return true;
}

bool exec_replay(Exec *x, const ThreadOp *loop, u32 mask, int *first, u64 *key)
{
    *first = -1;
    if (!x->m->replays) return false;
    const Shape *s = shape_of(x, loop);
    if (!s->simple || !key_of(x, loop, mask, s, key)) return false;
    exec_flush(x);
    *first = x->m->agents.at[x->agent].access.n;
    const Kept *k = map_get(x->m->replays->by_key, (const void *)(uintptr_t)*key);
    if (!k) return false;
    put_down(x, k);
    return true;
}

void exec_keep(Exec *x, const ThreadOp *loop, int first, u64 key)
{
    if (first < 0 || x->m->refused) return;
    Replays *r = x->m->replays;
    const Agent *a = &x->m->agents.at[x->agent];
    Kept *k = ARENA_NEW(r->arena, Kept);
    exec_flush(x);
    for (int i = first; i < a->access.n; i++) vec_push(r->arena, &k->access, a->access.at[i]);
    keep_holders(x, k, first);
    if (keep_results(x, shape_of(x, loop), k)) map_put(r->by_key, (const void *)(uintptr_t)key, k);
}
