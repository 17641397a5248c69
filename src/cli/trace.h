// trace.h - `baton trace`: what its two devices have in common.
#ifndef BATON_CLI_TRACE_H
#define BATON_CLI_TRACE_H

#include "../trace/trace.h"
#include "run.h"

// One CTA of one launch; trace.c has seen that both are there.
typedef struct {
    int step;              // index into r->launch->steps, a kernel
    int number;            // of that step among those that launch kernels
    i64 cta[3];
    Buf *hazards;          // gets the emulator's report when it found any
} TraceWanted;

// Both run the job and append the records of that CTA to a log in which only the arena is set. `r`:
// device open, arrays filled, launch prepared (job_prepare). Exit status, with the reason in the
// Diag; a run with hazards is EXIT_WRONG, and its records are there.
int trace_on_emulator(Job *r, const TraceWanted *q, TraceLog *log); // trace_emu.c
int trace_on_gpu(Job *r, const TraceWanted *q, TraceLog *log);      // trace_gpu.c

#endif
