// trace.h - a timeline of one CTA: what each role did and waited for, what each slot held, what the
// copy unit and the tensor cores had in flight.
//
// Two sources write the same records: the emulator, in steps (src/emu/observe.c), and a GPU, in
// cycles (a program with clock reads at its event operations). build.c makes lanes and spans
// of them, and json.c, svg.c and text.c write these; from there on nobody asks which source it was.
//
//     TraceLog log = {.arena = a, .fn = fn, .unit = TRACE_STEPS};
//     ...                          the source appends records
//     Trace *t = trace_build(a, &log);
//     trace_json(t, diag, &out); trace_svg(t, &look, diag, &out); trace_summary(t, diag, &out);
//
// Names are those of the thread IR: a record has its operation, so buffers, lines and roles follow.
#ifndef BATON_TRACE_H
#define BATON_TRACE_H

#include "../thread/thread.h"

typedef enum { TRACE_STEPS, TRACE_CYCLES } TraceUnit;
extern const char *const trace_unit_name[2]; // "steps", "cycles"

// ---- records ------------------------------------------------------------------------------------

// What can happen. `by` is who does it: a warp, or what works beside the warps for it.
// `at` and `other` are the places, `n` a number; columns that a kind does not name are
// TRACE_NOWHERE and 0. Kinds marked (o) are optional: without them build.c takes what is known from
// the waits, and says "at latest".
//    id               text        by             at, other; n
#define TRACE_KINDS(X)                                                                    \
    X(TRACE_BEGIN,     "begin",     BY_WARP)    /* - */                                       \
    X(TRACE_END,       "end",       BY_WARP)    /* - */                                       \
    X(TRACE_WAIT,      "wait",      BY_WARP)    /* see below */                               \
    X(TRACE_PASS,      "pass",      BY_WARP)    /* the same */                                \
    X(TRACE_ARRIVE,    "arrive",    BY_WARP)    /* mbarrier; bytes that it expects */         \
    X(TRACE_COMPLETE,  "complete",  BY_BARRIER) /* mbarrier (o) */                            \
    X(TRACE_LOAD,      "load",      BY_COPY)    /* slot filled, mbarrier; bytes */            \
    X(TRACE_LANDED,    "landed",    BY_COPY)    /* the same (o) */                            \
    X(TRACE_STORE,     "store",     BY_COPY)    /* slot read; bytes */                        \
    X(TRACE_STORED,    "stored",    BY_COPY)    /* the same (o) */                            \
    X(TRACE_PRODUCT,   "product",   BY_TENSOR)  /* A (nowhere: in registers), B */            \
    X(TRACE_STARTED,   "started",   BY_TENSOR)  /* the same (o) */                            \
    X(TRACE_DONE,      "done",      BY_TENSOR)  /* the same (o) */                            \
    X(TRACE_COMMIT,    "commit",    BY_WARP)    /* - (of products, stores or cp.async) */     \
    X(TRACE_READ,      "read",      BY_WARP)    /* slot, by ordinary loads (o) */             \
    X(TRACE_WRITE,     "write",     BY_WARP)    /* slot, by ordinary stores (o) */            \
    X(TRACE_REGISTERS, "registers", BY_WARP)    /* -; registers a thread from now on */
typedef enum {
#define X(id, text, by) id,
    TRACE_KINDS(X)
#undef X
    TRACE_KIND_COUNT
} TraceKind;
typedef enum { BY_WARP, BY_BARRIER, BY_COPY, BY_TENSOR } TraceBy;

// A place: an mbarrier of a ring, or a slot of a shared tile (its first index when it has three
// dimensions or more, else 0), and the generation of it.
// - Generations count from 0. Of an mbarrier it is the phase that an arrival counts for or that a
//   wait waits for; -1: the phase "before the first", which lets a ring's producer start.
// - Of a slot the source need not know it (TRACE_UNKNOWN): build.c counts. A bulk load
//   begins a generation when the mbarrier phase that counts it is another one than that of the load
//   before; a write does when the slot was read since the last write.
enum { TRACE_UNKNOWN = -2 };
typedef struct {
    i32 buffer; // index into fn->buffers; -1: none
    i32 slot;
    i64 generation;
} TracePlace;
#define TRACE_NOWHERE ((TracePlace){-1, 0, TRACE_UNKNOWN})

int trace_slots(const ThreadBuffer *b); // of a ring or a tile, as places count them

// What a wait waits for follows from its operation:
//   mbar.wait                        at = the mbarrier and the phase
//   bar.sync                         at = {-1, the barrier's number, unknown}
//   bar.cluster, setmaxnreg.inc      nowhere; n = registers
//   wgmma.wait, bulk.wait, bulk.wait.read, cp.async.wait
//                                    nowhere; n = newest groups of the warp that may stay
// A wait that passes at once has both records all the same. Where a source cannot tell phases,
// it gives TRACE_UNKNOWN and, for waits, the parity in n: trace_phases fills them in.

typedef struct {
    i64 time;             // steps or cycles since the CTA's first record
    const ThreadOp *op;   // of the program without instrumentation; NULL: begin, end, complete
    u8 kind;              // TraceKind
    u8 warp;              // of the CTA; BY_COPY, BY_TENSOR: that issued it
    u32 round;            // of the innermost loop around it, from 0
    u32 id;               // the same for load and landed, store and stored, and for a product of
                          // all four warps until it is done; 0: unknown
    TracePlace at, other;
    i64 n;
} TraceRecord;

// Records of one warp are in the order of its program, with times that never fall; those of
// different warps may be mixed in any way. All four warps of a group write their products, commits
// and waits, or only one of them does. What several lanes do at once is one record.
typedef struct {
    Arena *arena;         // owns the records and everything that the source adds
    const ThreadFn *fn;   // the program without instrumentation
    u8 unit;              // TraceUnit
    i64 cta[3];
    const char *device;   // "emulator, round-robin schedule", "NVIDIA H200"
    const char *note;     // one sentence on what the times are, for titles; NULL
    double slowdown;      // time with clock reads / time without; 0: does not apply
    i64 lost;             // records that found no place
    VEC(TraceRecord) records;
} TraceLog;

// Fills in phases that are TRACE_UNKNOWN. Waits: from the parity in n, since a warp is never two
// phases behind. Arrivals and loads: a warp's n-th arrival at an mbarrier counts for phase n (each
// warp arrives once a phase, by one lane or all), and its loads for the phase of its last arrival
// that expected bytes there.
void trace_phases(TraceLog *log);

// ---- lanes and spans ----------------------------------------------------------------------------

typedef enum {
    LANE_ROLE,            // warps of one warpgroup in one role; shows its busiest warp
    LANE_COPY,            // bulk copies in flight; as many lanes as there are copies at a time
    LANE_TENSOR,          // products in flight of one warpgroup
    LANE_SLOT,            // one slot of a shared tile
    LANE_KINDS
} TraceLaneKind;

//    id               text              lanes
#define TRACE_SPANS(X)                                                                       \
    X(SPAN_WORK,       "work",           LANE_ROLE) /* between two events of the warp */         \
    X(SPAN_ISSUE,      "issue",          LANE_ROLE) /* of copies, of a group of products */      \
    X(SPAN_STALL,      "stall",          LANE_ROLE) /* waits */                                  \
    X(SPAN_LOAD,       "load",           LANE_COPY)                                              \
    X(SPAN_STORE,      "store",          LANE_COPY)                                              \
    X(SPAN_PRODUCT,    "product",        LANE_TENSOR) /* one group, behind the one before it */  \
    X(SPAN_FILLING,    "being filled",   LANE_SLOT)                                              \
    X(SPAN_FULL,       "full",           LANE_SLOT)   /* nobody reads it yet */                  \
    X(SPAN_READING,    "being read",     LANE_SLOT)   /* until the last reader lets go */        \
    X(SPAN_FREE,       "free",           LANE_SLOT)
typedef enum {
#define X(id, text, lane) id,
    TRACE_SPANS(X)
#undef X
    SPAN_KINDS
} TraceSpanKind;
extern const char *const trace_span_name[SPAN_KINDS];

typedef struct {
    i64 begin, end;       // begin <= end
    u8 kind;              // TraceSpanKind
    bool latest;          // the end is when it was known, not when it was
    const char *name;     // stall: what is waited for, without generation: "k_full[1]"; "k_s[0]";
                          // "acc_s += q_s x k_s[1]"
    i64 generation;       // of what the name says, as the source counts; TRACE_UNKNOWN: none
    TracePlace at, other; // as in the records that it was made of
    const ThreadOp *op;   // that began it; NULL: none
    const ThreadOp *upto; // work: the operation at its end
    u32 round;
    i64 n;                // bytes, instructions
} TraceSpan;

typedef struct {
    u8 kind;              // TraceLaneKind
    const char *name;     // "warps 4-7", "k_s[1]"
    const char *what;     // what it does: "loads", "products"; NULL
    int first, warps;     // LANE_ROLE, LANE_TENSOR
    TracePlace at;        // LANE_SLOT
    VEC(TraceSpan) spans; // by begin; none overlaps another
} TraceLane;

// Generations in spans are those of the source: at a ring whose slots start out free, order
// slots * g + slot waits for "generation g", which is phase g - 1 of the mbarrier, and releases
// generation g.
//
// From the end of one span to the end of another: a copy or an arrival, and the wait that it ended.
typedef struct {
    u8 kind;              // ARROW_*
    int from_lane, to_lane;
    i64 from, to;         // times
    bool waited;          // the wait did not pass at once
    TracePlace at;        // the mbarrier and its phase
} TraceArrow;
enum { ARROW_FULL, ARROW_FREE, ARROW_OTHER }; // copy -> reader; reader -> filler; any other arrival

typedef struct {
    const TraceLog *log;
    i64 begin, end;
    VEC(TraceLane) lanes; // roles, copies, products, slots
    VEC(TraceArrow) arrows;
} Trace;

// Lives in `a`, refers to the log. NULL when the log has no record.
Trace *trace_build(Arena *a, const TraceLog *log);

#endif
