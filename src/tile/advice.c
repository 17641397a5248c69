// advice.c - pass: warnings about pipelines that compile and are old-fashioned or cannot work: slots
// of a ring that are made free by hand, a first round that multiplies zeros, orders that start again
// in each round of a loop, a slot that a single lane hands back for all. Changes nothing.
//
// A role that triggers an event before it has waited for anything can only say "free from the start",
// which is what `= ready` says. Handing on a turn looks alike but completes fewer generations than
// the event has slots, and is left alone.
#include "passes.h"

#include <string.h>

typedef struct {
    const TileModule *m;
    const TileKernel *k;
    int *by_hand;      // per event: generations that this role completed before it waited
    bool *zero;        // per fragment: all zeros here, by a fill
    bool waited;       // this role has waited for something
    int loops;
} Advice;

// ---- events ---------------------------------------------------------------------------------------

static bool waits_inside(const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_EVENT_WAIT || op->op == TOP_WAIT) return true;
        if (waits_inside(&op->body) || waits_inside(&op->other)) return true;
    }
    return false;
}

static void by_hand(Advice *a, const TileOp *op, i64 times)
{
    const TileEvent *e = &a->k->events.at[op->event];
    if (e->ready) {
        diag_warning(a->m->diag, op->loc, "leave this trigger out",
                     "'%s' is `= ready`, and before it waited for anything this role completes a "
                     "generation of it again", e->name);
        return;
    }
    int before = a->by_hand[op->event];
    a->by_hand[op->event] = (int)MIN(before + times, (i64)1 << 20);
    if (e->scalar || before >= e->slots || a->by_hand[op->event] < e->slots) return;
    diag_warning(a->m->diag, op->loc,
                 arena_printf(a->m->arena,
                              "write `shared event %s[%d] = ready` and leave the triggers out",
                              e->name, e->slots),
                 "the slots of '%s' are made free by hand", e->name);
}

static bool orders_by(const TileKernel *k, const TileBlock *b, const char *name)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        bool event = op->op == TOP_EVENT_WAIT || op->op == TOP_TRIGGER;
        event &= op->event >= 0 && !k->events.at[op->event].turns; // those orders are slots
        if (event && op->order && expr_uses(op->order, name)) return true;
        if (orders_by(k, &op->body, name) || orders_by(k, &op->other, name)) return true;
    }
    return false;
}

// Generations go on where a loop around them begins its next round.
static void starts_again(Advice *a, const TileBlock *body)
{
    i64 v;
    for (int i = 0; i < body->n; i++) {
        const TileOp *op = body->at[i];
        if (op->op != TOP_SET || op->value->kind != TX_INDEX || !expr_is_const(op->value->index, &v))
            continue;
        const char *name = a->k->scalars.at[op->scalar].name;
        if (!orders_by(a->k, body, name)) continue;
        diag_warning(a->m->diag, op->loc, "declare the counter in front of all loops of the role",
                     "this order of events starts at %lld again in each round; their generations go "
                     "on", (long long)v);
    }
}

// What the lanes of a warp have read is handed back by each of them, or by one behind a barrier.
static void single_lane(Advice *a, const TileBlock *b, int at)
{
    const TileOp *role = b->at[at];
    if (role->hi->value - role->lo->value >= 32) return;
    if (at > 0 && (b->at[at - 1]->op == TOP_BARRIER || b->at[at - 1]->op == TOP_BAR)) return;
    for (int i = 0; i < role->body.n; i++) {
        const TileOp *op = role->body.at[i];
        if (op->op != TOP_TRIGGER || op->cluster) continue;
        diag_warning(a->m->diag, op->loc, "let all threads that read the slot trigger the event",
                     "fewer threads than a warp trigger '%s'; the others of the role may still be "
                     "reading", a->k->events.at[op->event].name);
    }
}

// ---- zeros ----------------------------------------------------------------------------------------

static bool is_zero(const TExpr *x)
{
    i64 v;
    if (x->kind == TX_CAST) return is_zero(x->a);
    if (x->kind == TX_INDEX) return expr_is_const(x->index, &v) && v == 0;
    return x->kind == TX_FLOAT && x->fvalue == 0;
}

static void written(Advice *a, const TileOp *op)
{
    switch ((TileOpcode)op->op) {
    case TOP_FILL: a->zero[op->frag] = is_zero(op->value); break;
    case TOP_FSET:
    case TOP_MMA:
    case TOP_REDUCE:
    case TOP_FCOPY: a->zero[op->frag] = false; break;
    default: break;
    }
}

// What is written somewhere in a branch is no longer surely zero behind it.
static void forget(Advice *a, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->at[i]->op != TOP_FILL) written(a, b->at[i]);
        else a->zero[b->at[i]->frag] = false;
        forget(a, &b->at[i]->body);
        forget(a, &b->at[i]->other);
    }
}

static void product(Advice *a, const TileOp *op)
{
    int frag = op->a.frag;
    if (!a->loops || frag < 0 || !a->zero[frag]) return;
    diag_warning(a->m->diag, op->loc,
                 "take the first round out of the loop: a prologue without this product, and an "
                 "epilogue with the last one",
                 "the first round multiplies '%s' while it is all zeros", a->k->frags.at[frag].name);
    a->zero[frag] = false;
}

// ---- the walk -------------------------------------------------------------------------------------

static void walk(Advice *a, const TileBlock *b, bool role, i64 times);

static void walk_region(Advice *a, const TileOp *op, bool role, i64 times)
{
    i64 lo, hi;
    switch ((TileOpcode)op->op) {
    case TOP_ROLE: {
        bool waited = a->waited;
        if (!role) { // threads within a role go on from where it is
            a->waited = false;
            memset(a->by_hand, 0, sizeof *a->by_hand * (size_t)a->k->events.n);
        }
        walk(a, &op->body, true, 1);
        a->waited = waited;
        return;
    }
    case TOP_FOR:
        // What a loop triggers in front of its own wait is a protocol, not a start.
        a->waited |= waits_inside(&op->body);
        if (role) starts_again(a, &op->body);
        a->loops++;
        times = expr_is_const(op->lo, &lo) && expr_is_const(op->hi, &hi) && hi > lo ? hi - lo : 0;
        walk(a, &op->body, role, times);
        a->loops--;
        forget(a, &op->body);
        return;
    case TOP_IF: // may be there to keep the first round out
        a->waited |= waits_inside(&op->body) || waits_inside(&op->other);
        forget(a, &op->body);
        forget(a, &op->other);
        return;
    default: walk(a, &op->body, role, times); return;
    }
}

static void walk(Advice *a, const TileBlock *b, bool role, i64 times)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_EVENT_WAIT || op->op == TOP_WAIT) a->waited = true;
        if (op->op == TOP_TRIGGER && role && !a->waited) by_hand(a, op, times);
        if (op->op == TOP_ROLE && role && a->waited) single_lane(a, b, i);
        if (op->op == TOP_MMA) product(a, op);
        written(a, op);
        if (op->body.n || op->other.n) walk_region(a, op, role, times);
    }
}

bool tile_advise(TileModule *m)
{
    for (int f = 0; f < m->fns.n; f++)
        for (int i = 0; i < m->fns.at[f]->kernels.n; i++) {
            Advice a = {.m = m, .k = m->fns.at[f]->kernels.at[i]};
            a.by_hand = ARENA_ARRAY(m->arena, int, a.k->events.n + 1);
            a.zero = ARENA_ARRAY(m->arena, bool, a.k->frags.n + 1);
            walk(&a, &a.k->body, false, 1);
        }
    return true;
}
