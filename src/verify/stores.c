// stores.c - bulk stores at the end of their threads (O7): the source of a store is shared memory,
// which is gone when the block ends, so on every path the thread that issued it waits for the
// unit's reads. What is written into a source before they are over is a matter of order.c.
#include "flow.h"

#include <string.h>

// Ages as those of products: 0 none, 1 not committed, 2 in the newest group. bulk.wait N leaves
// ages up to N + 1; larger N than AGE_MOST never appear.
enum { AGE_ISSUED = 1, AGE_COMMITTED = 2, AGE_MOST = 250 };

// The youngest store that the thread has not waited for: the older ones are over before it.
typedef struct {
    u8 any, sure;       // as in products.c
    const ThreadOp *op;
} State;

typedef struct {
    const ThreadOp *op;
    bool sure;
} Found;

typedef struct {
    Arena *arena;
    VEC(Found) found;
    int stores;
} Stores;

static bool wants(const Flow *f, const ThreadOp *op)
{
    (void)f;
    return op->op == OP_TMA_STORE || op->op == OP_BULK_COMMIT || op->op == OP_BULK_WAIT ||
           op->op == OP_BULK_WAIT_READ;
}

static u8 older(u8 age) { return age ? (u8)MIN(age + 1, (int)AGE_MOST) : 0; }

static u8 waited(u8 age, int left) { return age >= AGE_COMMITTED + left ? 0 : age; }

// An operation under a guard that is not known happens in some threads and not in others.
static void step(Flow *f, void *state, const ThreadOp *op)
{
    State *s = state;
    bool certain = op->guard.kind == OPD_NONE || flow_known(f, &op->guard) == 1;
    switch (op->op) {
    case OP_TMA_STORE:
        s->any = AGE_ISSUED;
        s->sure = certain ? AGE_ISSUED : s->sure;
        s->op = op;
        break;
    case OP_BULK_COMMIT:
        if (certain) s->any = older(s->any);
        s->sure = older(s->sure);
        break;
    default:
        if (certain) s->any = waited(s->any, op->n);
        s->sure = waited(s->sure, op->n);
    }
}

static u8 younger(u8 x, u8 y) { return !x ? y : !y ? x : MIN(x, y); }

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    (void)f;
    State *s = into, before = *s;
    const State *t = from;
    if (!s->any) s->op = t->op;
    s->any = younger(s->any, t->any);
    if (how == FLOW_BACK) s->sure = younger(s->sure, t->sure);
    if (how == FLOW_IF) s->sure = s->sure && t->sure ? MAX(s->sure, t->sure) : 0;
    return s->any != before.any || s->sure != before.sure;
}

static void end(Flow *f, void *state, const ThreadOp *exit)
{
    Stores *x = f->ctx;
    const State *s = state;
    (void)exit;
    if (!s->any) return;
    for (int i = 0; i < x->found.n; i++)
        if (x->found.at[i].op == s->op) {
            x->found.at[i].sure |= s->sure > 0;
            return;
        }
    vec_push(x->arena, &x->found, ((Found){s->op, s->sure > 0}));
}

static const FlowRules rules = {sizeof(State), wants, step, join, end};

static int count_stores(const ThreadBlock *b)
{
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += (b->at[i]->op == OP_TMA_STORE) + count_stores(&b->at[i]->body) +
             count_stores(&b->at[i]->other);
    return n;
}

void check_stores(const CheckJob *job)
{
    static const char hint[] = "bulk.commit and bulk.wait.read 0 by the thread that stores, where "
                               "it does not store any more";
    Arena *a = arena_new(0);
    Stores x = {.arena = a, .stores = count_stores(&job->fn->body)};
    int n = 0;
    bool done = true;
    FlowThreads *t = x.stores ? flow_threads(a, job->fn, &n) : NULL;
    for (int i = 0; i < n; i++) {
        State start = {0};
        done &= flow_run(job, &rules, &x, t[i].tid / 32, t[i].fact, t[i].nfacts, &start);
    }
    for (int i = 0; i < x.found.n; i++) {
        const Found *f = &x.found.at[i];
        CheckFinding *c =
            f->sure ? check_broken(job, "O7", f->op->loc,
                                   "the thread ends while a bulk store may still read its source")
                    : check_open(job, "O7", f->op->loc, "on some path the thread may end while a "
                                                        "bulk store still reads its source");
        c->hint = hint;
    }
    if (x.stores && (!n || !done))
        check_open(job, "O7", (Loc){0}, "the kernel is too large for the check of bulk stores");
    else if (x.stores && !x.found.n)
        check_proved(job, "stores",
                     "every thread waits until its bulk stores have read their source");
    arena_free(a);
}
