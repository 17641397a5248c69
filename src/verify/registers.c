// registers.c - shares of registers (O12). A block is launched with as many registers a thread as
// .maxnreg says; setmaxnreg moves them between its warpgroups and waits until there are enough. If
// what the groups hold at their ends is more than that together, the last increase never returns.
#include "flow.h"

#include <stdio.h>
#include <string.h>

enum { MOST_REGISTERS = 256 };

// Registers a thread, on all paths: at least and at most.
typedef struct { int low, high; } State;

typedef struct {
    const CheckJob *job;
    int end_low;         // what the warp ends with, at least; -1: it never ends
    const ThreadOp *last; // increase
    int ops;
    bool broken;
} Registers;

static bool wants(const Flow *f, const ThreadOp *op)
{
    (void)f;
    return op->op == OP_SETMAXNREG_INC || op->op == OP_SETMAXNREG_DEC;
}

static void step(Flow *f, void *state, const ThreadOp *op)
{
    Registers *x = f->ctx;
    State *s = state;
    bool inc = op->op == OP_SETMAXNREG_INC;
    if (inc ? op->n < s->low : op->n > s->high) {
        char text[160];
        snprintf(text, sizeof text, "setmaxnreg.%s to %d, but the warps have %d registers a thread",
                 inc ? "inc" : "dec", op->n, inc ? s->low : s->high);
        check_broken(x->job, "O12", op->loc, text)->hint =
            inc ? "an increase never lowers the count" : "a decrease never raises the count";
        x->broken = true;
    }
    if (inc) x->last = op;
    x->ops++;
    s->low = s->high = op->n;
}

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    (void)f, (void)how;
    State *s = into, before = *s;
    const State *t = from;
    s->low = MIN(s->low, t->low);
    s->high = MAX(s->high, t->high);
    return memcmp(s, &before, sizeof before) != 0;
}

static void end(Flow *f, void *state, const ThreadOp *exit)
{
    Registers *x = f->ctx;
    const State *s = state;
    (void)exit;
    x->end_low = x->end_low < 0 ? s->low : MIN(x->end_low, s->low);
}

static const FlowRules rules = {sizeof(State), wants, step, join, end};

void check_registers(const CheckJob *job)
{
    const ThreadFn *fn = job->fn;
    int warp[FLOW_WARPS], count[FLOW_WARPS], n = flow_warps(fn, warp, count), sum = 0, ops = 0;
    int share[MOST_REGISTERS + 1] = {0}; // warps that end with so many
    const ThreadOp *last = NULL;
    bool broken = false, ends = true;
    Buf shares = {0};
    for (int i = 0; i < n; i++) {
        Registers x = {.job = job, .end_low = -1};
        State start = {fn->maxnreg, fn->maxnreg ? fn->maxnreg : MOST_REGISTERS};
        if (!flow_run(job, &rules, &x, warp[i], NULL, 0, &start)) ends = false;
        ops += x.ops;
        broken |= x.broken;
        ends &= x.end_low >= 0;
        sum += count[i] * x.end_low;
        share[x.end_low < 0 ? 0 : x.end_low] += count[i];
        if (x.last) last = x.last;
    }
    for (int i = 0; i <= MOST_REGISTERS; i++)
        if (share[i])
            buf_printf(&shares, "%s%d warps with %d", shares.n ? ", " : "", share[i], i);
    int have = fn->threads / 32 * fn->maxnreg;
    Buf text = {0};
    buf_printf(&text, "%s registers a thread: %d of %d", shares.s ? shares.s : "", sum, have);
    if (ops && !fn->maxnreg) {
        check_open(job, "O12", (Loc){0},
                   "the kernel gives no maxnreg, so the count at entry is not known");
    } else if (ops && ends && sum > have && last) {
        Buf all = {0};
        buf_printf(&all, "the increase never returns: %s", text.s);
        check_broken(job, "O12", last->loc, all.s)->hint =
            "lower the largest count, or the one of a group that only copies";
        buf_free(&all);
    } else if (ops && ends && !broken) {
        check_proved(job, "registers", text.s);
    }
    buf_free(&text);
    buf_free(&shares);
}
