// write.h - a timeline as files and text. All three say the same; none asks which source it was.
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

// Chrome's trace event format, which Perfetto and chrome://tracing read: a track for each lane, an
// arrow for each hand-over that somebody waited for. A step or cycle is shown as a microsecond.
void trace_json(const Trace *t, const TraceTitle *title, Buf *out);

// What part of the time a picture shows.
typedef struct {
    i64 from, to;          // from < to
} TraceWindow;
// The whole time, or what is given of it (-1: not); `to` may lie behind the end, for pictures of one
// scale. `rounds` ends it where the busiest role begins round `rounds` of its loop.
TraceWindow trace_window(const Trace *t, i64 from, i64 to, i64 rounds);
// One page wide.
void trace_svg(Arena *a, const Trace *t, const TraceTitle *title, TraceWindow w, Buf *out);

// How busy each lane was, and the longest stalls by what they wait for.
void trace_summary(Arena *a, const Trace *t, const TraceTitle *title, Buf *out);

// ---- share.c: sums over spans ---------------------------------------------------------------
// Time in [from, to] during which any lane of this kind has a span of a kind in `kinds`
// (1 << TraceSpanKind).
i64 trace_covered(const Trace *t, TraceLaneKind kind, u32 kinds, i64 from, i64 to);
// The same for one lane.
i64 trace_lane_time(const TraceLane *l, u32 kinds, i64 from, i64 to);
enum {
    TRACE_BUSY = 1 << SPAN_WORK | 1 << SPAN_ISSUE,
    TRACE_COPYING = 1 << SPAN_LOAD | 1 << SPAN_STORE,
};

// Stalls of one lane on one thing: mbarriers of a ring, products, one barrier ...
typedef struct {
    const TraceLane *lane;
    const char *name;      // "k_full", "acc_s += q_s x k_s", "barrier 1"
    i64 time;
    int times;
} TraceStall;
// Longest first; returns how many of `most` there are.
int trace_stalls(Arena *a, const Trace *t, TraceStall *out, int most);

const char *trace_commas(Arena *a, i64 n); // "11,956"; not negative
// "waits for k_full[1], generation 3", "k_s[1], generation 3", "lines 99 to 112".
const char *trace_span_text(Arena *a, const TraceSpan *s);

#endif
