// order.h - happens-before on one case: order.c runs the warps once, on one fixed schedule, with
// clocks; closure.c chooses the cases so that every number of rounds is covered.
#ifndef BATON_VERIFY_ORDER_H
#define BATON_VERIFY_ORDER_H

#include "model.h"

// Something that goes wrong on this schedule or on another one.
typedef struct {
    const char *rule, *text;
    int who, x;          // agent and its access (-1: none) at which it shows
    int other, y;        // the other side: agent and access; -1
    int load;            // a bulk load concerned, -1
    int bar;             // mbarrier concerned, -1
    const ThreadOp *op, *op2;
} OrderFault;

// A moment in which every warp stands at a wait, at its end, or in front of a round that it has not
// begun. The warps that are furthest behind, all at the same round of the same loop, go on next.
typedef struct {
    int decision;        // of that loop, -1: none
    i32 k, n;            // the round, and how many there are
    int outer;           // decision of the loop around
    i32 outer_k, outer_n; // its round and their number; outer_n -1: there is none
    int depth;           // loops around, itself among them
    const ThreadOp *op;
    u64 state;           // all that the future depends on, but for how many rounds are left
} OrderStop;

typedef struct {
    VEC(OrderFault) faults;
    VEC(OrderStop) stops;
    bool deadlock;
} OrderRun;

// Runs the case. Everything lives in the model's arena. With `states`, stops get their states.
void order_run(Model *m, bool states, OrderRun *out);

#endif
