// verify.h - what the command line asks of the verifier. Input: thread IR and launch plan, after
// their checkers, and nothing above them; no code is shared with the passes that made them.
#ifndef BATON_VERIFY_VERIFY_H
#define BATON_VERIFY_VERIFY_H

#include "../plan/plan.h"

typedef struct { const char *name; i64 value; } ExploreSize;
typedef struct { i64 cases, states, transitions; } ExploreCounts;
typedef struct {
    VEC(ExploreSize) sizes;  // symbols of the plan that are fixed
    int trips;               // rounds of a loop that depends on sizes or data; 0: two more than
                             // twice the slots, at most 9
    int cases;               // most cases for a kernel
    i64 states;              // most states that are kept at a time
    bool full;               // all interleavings, no reduction
    bool time;               // say how long it took
    ExploreCounts *counts;   // what was explored is added there; NULL: only the report tells
} ExploreOptions;

typedef enum { EXPLORE_CLEAN, EXPLORE_VIOLATION, EXPLORE_REFUSED } ExploreVerdict;
// Explores the ring protocol of each kernel and appends the report.
ExploreVerdict explore_module(const ThreadModule *m, const Plan *plan, const Diag *d,
                              const ExploreOptions *o, Buf *out);

#endif
