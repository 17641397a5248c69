// steer.h - what steers a kernel, as terms: the operands of synchronisation and of accesses to
// shared memory, and the conditions and bounds of the code around them, for all roles at once and
// for any number of rounds of every loop.
//
// A register that a loop changes has a leaf for its value at the start of a round (LEAF_HEAD), the
// same leaf for all rounds, and one for its value behind the loop (LEAF_EXIT). Beside them stand
// the terms of its value before the loop and at the end of a round: what is said about rounds is
// read off those (periodic.c, matched.c).
#ifndef BATON_VERIFY_STEER_H
#define BATON_VERIFY_STEER_H

#include "terms.h"

// A register (one element of it) that the body of a loop writes.
typedef struct {
    int reg;             // index into ThreadFn.regs
    Term head, exit;     // the leaves
    Term first, next;    // before the loop; at the end of a round
} SteerCarried;

typedef struct { Term term; bool is; } SteerFact; // a condition and what it is in this place

typedef struct {
    const ThreadOp *op;  // OP_FOR
    const ThreadOp *role; // innermost role around; NULL: all warps
    int outer;           // index of the loop around; -1
    Term lo, hi;         // bounds at entry
    i64 step;
    int counter;         // entries of `carried`: the loop's register,
    int bound;           // and the upper bound where the body writes it (while); else -1
    VEC(SteerCarried) carried;
    i64 rounds;          // where it is a number; -1
    bool steers;         // synchronisation or shared memory inside
    bool counter_written; // by the body
    const ThreadOp *leaves; // a thread ends inside; NULL
    VEC(SteerFact) facts; // what holds inside, from the conditions around it
} SteerLoop;

// An operation on a barrier.
typedef struct {
    const ThreadOp *op;
    const ThreadOp *role; // innermost role around; NULL: all warps
    int inside;          // innermost loop around; -1
    int buffer;          // mbarrier: index into ThreadFn.buffers; -1: a named barrier,
    Term id;             // of this number
    VEC(SteerFact) facts; // conditions on the thread's number around it
} SteerHandoff;

typedef enum {
    ROOT_VALUE,          // an address, a parity, a count
    ROOT_CHOICE,         // a condition or a bound around what steers
    ROOT_USE,            // a condition around a use of values only: stores to global memory
} SteerRootKind;
typedef struct {
    Term term;           // TERM_UNKNOWN: nothing is known about it (ROOT_VALUE only)
    u8 kind;
    int inside;          // innermost loop around; -1
    int own;             // the loop whose own bound this is; -1
    const ThreadOp *op;
} SteerRoot;

// A value that is data: what an operation yields that follows from no term.
typedef struct { const ThreadOp *op; int inside; } SteerData;

typedef struct {
    Arena *arena;
    const ThreadFn *fn;
    Terms *terms;
    VEC(SteerLoop) loops;    // in the order of the text; outer ones first
    VEC(SteerRoot) roots;
    VEC(SteerData) data;     // keys of LEAF_DATA
    VEC(SteerHandoff) handoffs; // but for mbar.init
    bool *by_thread;         // per term below by_thread_end
    Term by_thread_end;
    const ThreadOp *refused; // code that is too large or too deep for this; NULL
} Steer;

Steer *steer_new(Arena *a, const ThreadFn *fn);
// Synchronisation, shared memory or the end of a thread: what order and hazards are about.
bool steer_matters(const ThreadOp *op);
static inline u64 steer_key(int loop, int carried) { return (u64)loop << 32 | (u32)carried; }
// Does the value differ between threads of a role, or between blocks of a cluster, by their number?
bool steer_by_thread(const Steer *s, Term x);
// The entry that a LEAF_HEAD or LEAF_EXIT stands for.
SteerCarried *steer_carried(const Steer *s, Term leaf, int *loop);

#endif
