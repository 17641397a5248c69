// write.h - a timeline as files and text.
#ifndef BATON_TRACE_WRITE_H
#define BATON_TRACE_WRITE_H

#include "trace.h"

// What titles say about the run.
typedef struct {
    const char *file;      // "kernels/attention/v4.co"
    const char *sizes;     // "B=1 H=2 S=512"
    const Diag *diag;      // names of source files; NULL: none
} TraceTitle;

// One line for each record, in the order of the log.
void trace_records(Arena *a, const TraceLog *log, Buf *out);

#endif
