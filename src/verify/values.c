// values.c - registers that are read though no path to the read writes them: a value that one role
// computes and another one needs, say. A register that only some paths write is left alone, since
// their conditions may be those of the read.
#include "flow.h"

#include <stdio.h>
#include <string.h>

enum { OPERANDS = 24 };

typedef struct {
    const CheckJob *job;
    Arena *arena;
    int *first;              // per register: its first place in the state
    int units;
    VEC(const ThreadOp *) found;
} Values;

// One byte per machine register: written on some path.
typedef u8 State;

static bool wants(const Flow *f, const ThreadOp *op)
{
    (void)f;
    return op->nopnd > 0 || op->guard.kind == OPD_REG;
}

static void read_operand(Flow *f, const State *s, const ThreadOp *op, const Operand *o)
{
    Values *x = f->ctx;
    if (o->kind != OPD_REG) return;
    i64 at = flow_index(f, o);
    const ThreadReg *r = &x->job->fn->regs.at[o->reg];
    int k = 0;
    while (k < o->count && s[x->first[o->reg] + at + k]) k++;
    if (k == o->count) return;
    for (int i = 0; i < x->found.n; i++)
        if (x->found.at[i] == op) return;
    vec_push(x->arena, &x->found, op);
    char text[200];
    if (r->count == 1)
        snprintf(text, sizeof text, "reads %%%.100s, which nothing has written", r->name);
    else
        snprintf(text, sizeof text, "reads %%%.100s[%lld], which nothing has written", r->name,
                 (long long)at + k);
    check_broken(x->job, "uninitialised read", op->loc, text)->hint =
        "every role that reads a register writes it first";
}

static void write_operand(Flow *f, State *s, const Operand *o)
{
    const Values *x = f->ctx;
    if (o->kind == OPD_REG) memset(s + x->first[o->reg] + flow_index(f, o), 1, o->count);
}

// The accumulators of a product are not read where it does not add to them, which is not known
// here: they count as written.
static void step(Flow *f, void *state, const ThreadOp *op)
{
    State *s = state;
    if (op->op == OP_FOR) {
        write_operand(f, s, &op->opnd[0]);
        return;
    }
    u8 use[OPERANDS] = {USE_NONE};
    flow_uses(op, use, OPERANDS);
    int n = MIN(op->nopnd, (int)OPERANDS);
    read_operand(f, s, op, &op->guard);
    for (int i = 0; i < n; i++)
        if (use[i] == USE_READ) read_operand(f, s, op, &op->opnd[i]);
    for (int i = 0; i < n; i++)
        if (use[i] == USE_WRITE || use[i] == USE_BOTH) write_operand(f, s, &op->opnd[i]);
}

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    const Values *x = f->ctx;
    State *s = into;
    const State *t = from;
    bool changed = false;
    (void)how;
    for (int i = 0; i < x->units; i++) {
        changed |= t[i] && !s[i];
        s[i] |= t[i];
    }
    return changed;
}

void check_values(const CheckJob *job)
{
    const ThreadFn *fn = job->fn;
    Arena *a = arena_new(0);
    Values x = {.job = job, .arena = a, .first = ARENA_ARRAY(a, int, fn->regs.n + 1)};
    for (int i = 0; i < fn->regs.n; i++) {
        x.first[i] = x.units;
        x.units += fn->regs.at[i].count;
    }
    FlowRules rules = {(size_t)x.units + 1, wants, step, join, NULL};
    int warp[FLOW_WARPS], n = flow_warps(fn, warp, NULL);
    bool done = true;
    void *start = arena_alloc(a, rules.bytes);
    for (int i = 0; i < n; i++) done &= flow_run(job, &rules, &x, warp[i], NULL, 0, start);
    if (!done)
        check_open(job, "uninitialised read", (Loc){0},
                   "the kernel is too large for the check of registers");
    else if (!x.found.n)
        check_proved(job, "values", "every register is written on some path to each of its reads");
    arena_free(a);
}
