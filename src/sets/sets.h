// sets.h - the questions of `baton check` about integers: does every access stay inside its buffer,
// is every element of an output written once. Asked for all sizes at once: extents, scalars, block
// numbers, threads and rounds are unknowns, and libisl says whether any of them break the rule.
//
// This folder is part of the command, never of the library: libisl (MIT) and libgmp are linked into
// `baton` statically where they are installed. Elsewhere without.c stands in, which leaves both
// questions open and says so.
#ifndef BATON_SETS_SETS_H
#define BATON_SETS_SETS_H

#include "../verify/check.h"

// "bounds": every shared and global access, copy, operand of a product and barrier stays inside its
// buffer, bulk copies start where the TMA unit allows it.
void check_bounds(const CheckJob *job);
// "output": every element of every output is written, and by one block only. Atomic operations are
// left out, and named.
void check_output(const CheckJob *job);
// False in a build without libisl.
bool sets_are_asked(void);

#endif
