// flow.h - all paths of one warp through a structured kernel, with a state that the caller defines.
// The quick parts of the check are built on it.
//
// An `if` is walked both ways and its ends are merged; a loop is walked until its state no longer
// changes, an unrolled region once for each of its trips. Predicates are not evaluated, apart from
// those that the caller takes for known. What a state says must therefore only grow in a merge, and
// its caller decides what a difference between two paths means: `FlowMerge` says which paths meet.
#ifndef BATON_VERIFY_FLOW_H
#define BATON_VERIFY_FLOW_H

#include "check.h"

typedef struct Flow Flow;

typedef enum {
    FLOW_IF,   // the two ways of a condition: one of them is taken
    FLOW_BACK, // a further round joins what stands at the head of a loop: both happen
    FLOW_SKIP, // a loop without a round joins what its rounds leave: perhaps it never happens
} FlowMerge;

// How to walk. States are plain memory: the walk copies them.
typedef struct {
    size_t bytes;
    // Is the operation (never a region) of interest? Regions without any are not walked.
    bool (*wants)(const Flow *f, const ThreadOp *op);
    void (*step)(Flow *f, void *state, const ThreadOp *op);
    // Merges `from` into `into`; true when `into` changed.
    bool (*join)(Flow *f, void *into, const void *from, FlowMerge how);
    // The thread ends at an exit, or (NULL) at the end of the kernel. May be NULL itself.
    void (*end)(Flow *f, void *state, const ThreadOp *exit);
} FlowRules;

// A register whose value is known: of a predicate 0 or 1.
typedef struct { int reg; u32 value; } FlowFact;

struct Flow {
    const CheckJob *job;
    const FlowRules *rules;
    void *ctx;           // the caller's
    int warp;            // that walks
    i32 *unroll;         // value of each unroll variable
    const FlowFact *fact;
    int nfacts;
    i64 steps;           // so far
    int divergent;       // enclosing conditions that are not known and may differ between lanes
    bool gave_up;        // more steps than a quick rule may take: nothing is known
    // the walk's own
    Arena *arena;
    void **spare;        // states, by depth
    int nspare, depth;
};

// Walks the kernel as `warp` from the state `start`. False when it gave up.
bool flow_run(const CheckJob *job, const FlowRules *rules, void *ctx, int warp,
              const FlowFact *fact, int nfacts, const void *start);

// 1: the predicate operand (a guard, the condition of an if) is known to be true, 0: false, -1: not
// known.
int flow_known(const Flow *f, const Operand *predicate);

// The value of an operand: an immediate, or a register that is known. False: not known.
bool flow_value(const Flow *f, const Operand *o, i64 *value);

// One warp for each set of roles that some warp is in: the others do the same. Writes at most
// FLOW_WARPS warps, and into `count`, when not NULL, how many warps each stands for.
enum { FLOW_WARPS = 32 };
int flow_warps(const ThreadFn *fn, int *warp, int *count);

// The roles that a warp is in, as one number.
u64 flow_roles(const ThreadFn *fn, int warp);

// The position of an operand's first register, or the value of an immediate.
i64 flow_index(const Flow *f, const Operand *o);

// Threads that take the same way: of the same roles, and with the same values in all predicates and
// numbers of named barriers that follow from the thread's number alone.
typedef struct {
    int tid;             // the first of them
    int count;           // how many
    int lanes;           // how many of them in one warp, at most
    u32 warps;           // their warps
    const FlowFact *fact;
    int nfacts;
} FlowThreads;
// threads.c: all classes of a kernel, in `a`; *n = 0 when there are too many.
FlowThreads *flow_threads(Arena *a, const ThreadFn *fn, int *n);

// Per register, in `a`: may its value differ between the lanes of this warp? Counted as the same
// are constants, parameters, block numbers, loop registers and what is computed from them.
bool *flow_varying(Arena *a, const ThreadFn *fn, int warp);

// What an operation does with the k-th operand, for the letters of its signature.
typedef enum { USE_NONE, USE_READ, USE_WRITE, USE_BOTH } OperandUse;
// Fills use[0..nopnd) of an operation that is no region; at most `most` entries.
void flow_uses(const ThreadOp *op, u8 *use, int most);

#endif
