// diagnose.h - for commands that have wrong outputs of a kernel and its inputs at hand.
#ifndef BATON_CLI_DIAGNOSE_H
#define BATON_CLI_DIAGNOSE_H

#include "../emu/diagnose.h"
#include "run.h"

typedef struct {
    const char *name;        // of the buffer, for the report
    NpyArray array;          // what it should have held, tile after tile
} DiagnoseDump;

typedef struct {
    const u8 *const *wrong;  // [narrays of the run]: contents as bytes, NULL where not given
    const u8 *const *right;  // the same, or NULL: what the calm run on the emulator gives is right
    int runs;                // at most so many on the emulator
    int ndumps;              // compared directly with the wrong values, as the inputs are
    const DiagnoseDump *dump;
} DiagnoseRequest;

// Looks for the generation of a slot that the wrong values come from, and appends the report.
// `r`: sizes bound and arrays filled (job_bind_sizes, job_fill_arrays); its device is not used, the
// emulator is opened for this. EXIT_RIGHT: every wrong element is explained, or none is wrong;
// EXIT_WRONG: some are not; else the reason is in the Diag.
int diagnose_run(const Job *r, const DiagnoseRequest *q, Buf *out);

#endif
