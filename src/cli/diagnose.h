// diagnose.h - for commands that have wrong outputs of a kernel and its inputs at hand.
#ifndef BATON_CLI_DIAGNOSE_H
#define BATON_CLI_DIAGNOSE_H

#include "../emu/diagnose.h"
#include "run.h"

// Looks for the generation of a slot that the wrong values come from, and appends the report.
// `r`: sizes bound and arrays filled (run_bind_sizes, run_fill_arrays); its device is not used, the
// emulator is opened for this. wrong[i], right[i]: contents of array i as bytes, NULL where not
// given; without `right` the calm run on the emulator is right. At most `runs` runs. EXIT_RIGHT:
// every wrong element is explained, or none is wrong; EXIT_WRONG: some are not; else the reason is
// in the Diag.
int diagnose_run(const Run *r, const u8 *const *wrong, const u8 *const *right, int runs, Buf *out);

#endif
