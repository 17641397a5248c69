// quick.h - the parts of the check that run in every `baton build`: milliseconds together, no
// integer sets, and no verdict where a rule needs more than the shape of the program.
#ifndef BATON_VERIFY_QUICK_H
#define BATON_VERIFY_QUICK_H

#include "check.h"

extern const CheckPart quick_parts[];
extern const int quick_parts_n;

// Runs them and reports what they find broken as errors, with the hint and a note at the second
// place. What they cannot decide is left to `baton check`. False when there was any.
bool quick_check(const ThreadModule *m, const Plan *plan, Diag *d);

#endif
