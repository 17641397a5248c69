// trace.h - `baton trace`: what its two devices have in common.
#ifndef BATON_CLI_TRACE_H
#define BATON_CLI_TRACE_H

#include "../trace/trace.h"
#include "run.h"

// What to trace: the first launch of `kernel` (NULL: of any) in the plan, and one CTA of it.
typedef struct {
    const char *kernel;
    i64 cta[3];
} TraceWanted;

// Both run the job and append the records of that CTA to a log with nothing but its arena set. `r`:
// sizes bound, arrays filled, device open and prepared (run_prepare). Exit status, with the reason
// in the Diag.
int trace_on_emulator(Run *r, const TraceWanted *q, TraceLog *log); // trace_emu.c
int trace_on_gpu(Run *r, const TraceWanted *q, TraceLog *log);      // trace_gpu.c

#endif
