// run.h - the parts of `baton run`: run.c has the command line and the order of everything, report.c what
// the user reads. Arrays, launches and the check are in src/job.
#ifndef BATON_CLI_RUN_H
#define BATON_CLI_RUN_H

#include "../job/job.h"
#include "compile.h"

typedef struct {             // the command line
    CliSource source;
    JobOptions job;
    bool time, help;
} RunOptions;

// round-robin, random, adversarial.
void run_choose_schedule(JobOptions *o, const char *word, Arena *a, Diag *d);

// ---- report.c -----------------------------------------------------------------------------------
bool run_is_right(const Job *r);
void run_report(const Job *r, Buf *out);

#endif
