// impl.h - the inside of build.c and its neighbours; only they include it.
#ifndef BATON_TRACE_IMPL_H
#define BATON_TRACE_IMPL_H

#include "trace.h"

enum { TRACE_MAX_WARPS = 32 };

typedef struct {
    Arena *arena;
    const TraceLog *log;
    const ThreadFn *fn;
    Trace *trace;
    const TraceRecord **sorted; // all records by time
    int n;
    bool *by_bytes;        // per buffer: mbarriers that bulk loads complete
    bool *early;           // per buffer: mbarriers at which somebody waited for phase -1
    int lane_of[TRACE_MAX_WARPS]; // lane of a warp's role
    int shown[TRACE_MAX_WARPS];   // per lane of a role: the warp that it shows
} TraceBuild;

// ---- names.c ------------------------------------------------------------------------------------
// "k_s[1]"; without an index when there is only one slot. "" for nowhere.
const char *trace_place_name(Arena *a, const ThreadFn *fn, TracePlace p);
// "acc_s += q_s x k_s[1]" for a product record.
const char *trace_product_name(Arena *a, const ThreadFn *fn, const TraceRecord *r);
static inline bool trace_same(TracePlace a, TracePlace b)
{
    return a.buffer == b.buffer && a.slot == b.slot && a.generation == b.generation;
}
// Of a place with a generation, for a Map.
static inline const void *trace_key(TracePlace p)
{
    return (const void *)(uintptr_t)(((u64)p.buffer + 1) << 48 | (u64)p.slot << 32 |
                                     (u32)p.generation);
}
// Generation as the source counts it, of a wait at an mbarrier.
i64 trace_generation(const TraceBuild *b, TracePlace p);

// ---- roles.c, units.c, slots.c ------------------------------------------------------------------
TraceLane *trace_lane_new(TraceBuild *b, TraceLaneKind kind, const char *name);
void trace_roles(TraceBuild *b);
void trace_copies(TraceBuild *b);
void trace_products(TraceBuild *b);
void trace_slot_lanes(TraceBuild *b);

// Groups that a warp has committed and not waited for: of products, and of bulk stores.
typedef struct {
    int first, n;          // indices into the owner's list
} TraceGroup;
typedef struct {
    VEC(TraceGroup) groups; // all that were committed
    int open;              // members since the last commit, of the owner's list
    int waited;            // groups
} TraceQueue;
// The members so far become a group.
void trace_commit(Arena *a, TraceQueue *q, int members);
// A wait that lets the newest `keep` groups stay is over: groups [q->waited, returned) are done.
int trace_waited(const TraceQueue *q, i64 keep);

#endif
