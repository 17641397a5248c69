// whiles.h - `while` loops that count: a register grows by a constant in each round, and the loop
// goes on while it is below something that stays as it is. Such a loop makes as many rounds as
// `for x = x0 to bound step s`, and is looked at like one.
#ifndef BATON_VERIFY_WHILES_H
#define BATON_VERIFY_WHILES_H

#include "model.h"

// Once for a kernel. Lives in `a`.
struct Whiles *whiles_new(Arena *a, const ThreadFn *fn);
// Does the body of the loop write its upper bound?
bool while_is(const struct Whiles *w, const ThreadOp *loop);
// How much the register grows in a round; 0: the loop is none that counts.
i64 while_step(const struct Whiles *w, const ThreadOp *loop);
// The branch by which the bound is set: to the largest number where the condition holds, and to
// the least one where it does not.
bool while_branch(const ThreadOp *op);
// How many rounds there are, from the term of the bound in front of the loop. TERM_UNKNOWN: the
// condition there is no comparison.
Term while_rounds(Terms *t, Term bound, i64 step);

#endif
