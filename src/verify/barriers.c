// barriers.c - named barriers (O11): as many threads can come to a barrier as it counts. A warp
// that leaves the kernel before it does not come. Which round an arrival is for is a matter of
// order.c.
#include "flow.h"

#include <stdio.h>

enum { SITES = 256 };

// All operations of one barrier with one thread count.
typedef struct {
    int id, threads;
    u32 warps;           // that come, on some path
    bool waits;          // some of them
    const ThreadOp *op;
} Use;

typedef struct {
    Arena *arena;
    VEC(Use) use;
    u32 members;         // the warps that the walk stands for
    const ThreadOp *exit, *dynamic; // dynamic: a barrier whose number is in a register
    bool many;
} Barriers;

static bool wants(const Flow *f, const ThreadOp *op)
{
    (void)f;
    return op->op == OP_BAR_SYNC || op->op == OP_BAR_ARRIVE;
}

// The walk has no state: it only collects what can be reached.
static void step(Flow *f, void *state, const ThreadOp *op)
{
    Barriers *x = f->ctx;
    (void)state;
    i64 id;
    if (!flow_value(f, &op->opnd[0], &id)) {
        x->dynamic = op;
        return;
    }
    int threads = (int)op->opnd[1].base, i = 0;
    while (i < x->use.n && (x->use.at[i].id != id || x->use.at[i].threads != threads)) i++;
    if (i == SITES) {
        x->many = true;
        return;
    }
    Use fresh = {.id = (int)id, .threads = threads, .op = op};
    if (i == x->use.n) vec_push(x->arena, &x->use, fresh);
    x->use.at[i].warps |= x->members;
    x->use.at[i].waits |= op->op == OP_BAR_SYNC;
}

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    (void)f, (void)into, (void)from, (void)how;
    return false;
}

static void end(Flow *f, void *state, const ThreadOp *exit)
{
    Barriers *x = f->ctx;
    (void)state;
    if (exit) x->exit = exit;
}

static const FlowRules rules = {1, wants, step, join, end};

// Arrivals that nobody waits for do no harm.
static bool somebody_waits(const Barriers *x, int id)
{
    for (int i = 0; i < x->use.n; i++)
        if (x->use.at[i].id == id && x->use.at[i].waits) return true;
    return false;
}

// Barriers that cannot fill, whatever the paths.
static int check_counts(const CheckJob *job, const Barriers *x)
{
    int broken = 0;
    for (int i = 0; i < x->use.n; i++) {
        const Use *u = &x->use.at[i];
        int come = 32 * __builtin_popcount(u->warps);
        if (come >= u->threads || !somebody_waits(x, u->id)) continue;
        char text[160];
        snprintf(text, sizeof text,
                 "barrier %d waits for %d threads, and only %d can come to it with that count",
                 u->id, u->threads, come);
        CheckFinding *c = check_broken(job, "O11", u->op->loc, text);
        c->hint = "all who arrive at a barrier give the number of threads of all of them";
        for (int k = 0; k < x->use.n; k++)
            if (k != i && x->use.at[k].id == u->id) c->other = x->use.at[k].op->loc;
        if (!c->other.line && x->exit) {
            c->other = x->exit->loc;
            c->hint = "a warp that leaves before a barrier does not count there";
        }
        broken++;
    }
    return broken;
}

void check_barriers(const CheckJob *job)
{
    Arena *a = arena_new(0);
    Barriers x = {.arena = a};
    int n;
    FlowThreads *t = flow_threads(a, job->fn, &n);
    bool done = n > 0;
    for (int i = 0; i < n; i++) {
        u8 start = 0;
        x.members = t[i].warps;
        done &= flow_run(job, &rules, &x, t[i].tid / 32, t[i].fact, t[i].nfacts, &start);
    }
    bool known = done && !x.many && !x.dynamic;
    int broken = known ? check_counts(job, &x) : 0;
    if (x.use.n + (x.dynamic != NULL) && !known)
        check_open(job, "O11", x.dynamic ? x.dynamic->loc : (Loc){0},
                   x.dynamic ? "the number of a barrier is computed: who comes to it is not known"
                             : "the kernel is too large for the check of barriers");
    else if (x.use.n && !broken)
        check_proved(job, "barriers",
                     arena_printf(a, "the threads that %d named barrier%s wait%s for can come",
                                  x.use.n, x.use.n == 1 ? "" : "s", x.use.n == 1 ? "s" : ""));
    arena_free(a);
}
