// lower.h - tile IR to thread IR and launch plan.
//
// Input: a checked TileModule with inferred fragment layouts. Output: one ThreadFn per kernel, and
// the steps of each function's launch plan. A kernel with TMA copies whose rules cannot be proved
// at compile time (strides of 16 bytes, extents above 0) becomes two: the one with the TMA unit,
// and a twin `<name>_plain` that copies through cp.async or registers; the plan picks by a
// condition.
#ifndef BATON_LOWER_H
#define BATON_LOWER_H

#include "../tile/tile.h"

// Errors ("not supported yet: ...") go to in->diag. Returns true when there is none. `out` needs
// its arena and expression pool set (those of `in`).
bool lower_module(const TileModule *in, ThreadModule *out);

#endif
