// periodic.h - which loops do to barriers and shared memory the same again and again, so that cases
// with few rounds say all about cases with many.
//
// Round r of R rounds (r from 0) of a periodic loop steers by nothing but
//   - what stood in the registers before the loop,
//   - r mod `modulus`,
//   - which of the first `first` rounds it is, if it is one of them,
//   - which of the last `last` rounds it is, if it is one of them (R - 1 - r < last),
//   - what inner loops and conditions on data chose (`data`): their outcomes are the caller's to
//     choose for each round; with `sums`, orders that are carried from round to round have grown by
//     what the inner loops added, and `modulus` rounds with equal choices bring all back.
// So a run of the loop with R >= first + last + modulus rounds steers, from its round `first` +
// modulus on, as one with R - modulus rounds does from its round `first` on, and what stands in the
// registers that steer behind the loop is the same modulo what is asked of it there.
//
// The last round of a loop with step s is told by its span (hi - lo), not by its rounds: with
// step 2, spans 3 and 4 both make two rounds and may differ in the last one. Cases are spans.
//
// Bounds and conditions of what steers are taken as chosen by the caller where they come from data
// that was loaded (tables of tasks); an order, a parity or an address that does is refused.
#ifndef BATON_VERIFY_PERIODIC_H
#define BATON_VERIFY_PERIODIC_H

#include "../thread/thread.h"

enum { PERIODIC_MODULUS_MAX = 4096 };

typedef struct {
    const ThreadOp *loop;    // OP_FOR
    const ThreadOp *outer;   // the loop around; NULL
    bool periodic;
    bool steers;             // synchronisation or shared memory inside; else its results steer
    bool conditional;        // a while loop: the body writes the bound
    bool data, sums;         // see above
    bool few;                // holds for less than 2^31 rounds (a modulus that is no power of two,
                             // a comparison); without it, for every number, wrapped orders included
    bool fixed;              // bounds are numbers, or follow from the thread alone: every case has
                             // all rounds. Then it is periodic, and what follows says nothing
    i64 step;
    i64 modulus;             // at least 1
    i64 first, last;         // in rounds
    const ThreadOp *why_at;  // not periodic: what is steered by the round otherwise,
    const char *why;         // and how, one sentence without a full stop
    const ThreadOp *use_at;  // a condition or bound around stores to global memory (uses that bind
                             // loaded values, O6) that is not periodic; such uses prove nothing.
                             // NULL: all are periodic
} LoopPeriod;
typedef VEC(LoopPeriod) LoopPeriods;

// Appends every loop that contains synchronisation or accesses to shared memory, or whose results
// steer, in the order of the text. Texts and loops live in `a`.
void periodic_loops(Arena *a, const ThreadFn *fn, LoopPeriods *out);

// ---- loops that belong together (matched.c) -----------------------------------------------------

// The loops make, in one launch and in the same round of the loops around them, spans that stand in
// one relation whatever the sizes are: times_a * span(a) == times_b * span(b) + plus. Of while
// loops, times are 1, plus is 0, and the number of rounds is the same.
typedef struct {
    const ThreadOp *a, *b;
    i64 times_a, times_b, plus;
} LoopMatch;
typedef VEC(LoopMatch) LoopMatches;

// A loop that hands over to other threads, or takes from them, and is not shown to keep step with
// them: the answer for it can only be "not proved, explored up to N rounds".
typedef struct {
    const ThreadOp *loop;
    const ThreadOp *other;   // the handoff of others that no matched loop of theirs contains; NULL
    const char *why;         // one sentence without a full stop
} LoopAlone;
typedef VEC(LoopAlone) LoopsAlone;

// Appends all pairs (a before b in the text) of different threads whose spans stand in a relation,
// and the loops that are alone. Loops with rounds that are fixed need no partner and are left out.
void periodic_matches(Arena *a, const ThreadFn *fn, LoopMatches *matches, LoopsAlone *alone);

#endif
