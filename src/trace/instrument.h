// instrument.h - a kernel with clock reads at its event operations, and what its buffer says.
//
// Lane 0 of each warp of one CTA writes a record of 8 bytes at each point: what lane 0 does not do
// is not seen. Only the operations themselves are seen: a bulk copy is taken as landed when the
// first warp gets past a wait on its barrier, a product as done when the wait that covers it has
// passed (trace.h calls the records that a GPU cannot have optional).
#ifndef BATON_TRACE_INSTRUMENT_H
#define BATON_TRACE_INSTRUMENT_H

#include "../plan/plan.h"
#include "trace.h"

// The buffer, of less than 2^30 records: TRACE_WORDS words a record, those of the warps in turns,
// record k of warp w at k * warps + w. Record 0 of a warp is written last: {index behind its last
// record, clock}. The others: {point + 1 | what lies above it, clock}, then the further words of
// the point.
enum { TRACE_WORDS = 2, TRACE_MIN_RECORDS = 3, TRACE_MAX_POINTS = 0xfffe }; // MIN: of a warp

// Where the slot of a place comes from.
typedef enum {
    SLOT_FIXED,            // `slot`
    SLOT_FIRST,            // the shared address / 8 in bits 16 to 30 of the first word
    SLOT_NUMBER,           // the number in those bits
    SLOT_ADDRESS,          // further word `word` holds the shared address
    SLOT_DESCRIPTOR,       // further word `word` holds the low half of a matrix descriptor
} TraceSlotFrom;
typedef struct {
    u8 from;               // TraceSlotFrom
    i32 buffer;            // -1: none
    i32 slot;
    int word;
} TraceSlot;

typedef struct {
    const ThreadOp *op;
    TraceSlot a, b;
} TraceOperands;           // of one product

// A point of the program. Its index is what records hold.
typedef struct {
    const ThreadOp *op;    // of the program without clock reads; NULL: TRACE_BEGIN
    u8 kind;               // TraceKind; TRACE_KIND_COUNT: a loop is entered, no record
    bool parity;           // of a wait: it is bit 31 of the first word
    int words;             // further ones
    int loop, branch;      // innermost ones around it; -1: none
    TraceSlot at, other;
    i64 n;                 // of the record
    int bytes_word;        // further word that holds n; -1: none
    VEC(TraceOperands) products;
} TracePoint;

// A loop, or an unroll region: the points in it come again and again.
typedef struct {
    int parent;            // around it; -1: none
    bool unrolled;
} TraceLoop;

// One side of an `if`: points of both sides never follow each other in one round.
typedef struct {
    int parent;            // -1: none
    const ThreadOp *op;
    bool other;
} TraceBranch;

typedef struct {
    ThreadModule *thread;  // the program with clock reads; its other kernels are those of before
    Plan *plan;
    const ThreadFn *plain; // the kernel of before
    int warps;             // of a CTA
    int buffer, cta;       // plan parameters: u32[records, TRACE_WORDS], which CTA (x first)
    VEC(TracePoint) points;
    VEC(TraceLoop) loops;
    VEC(TraceBranch) branches;
    i64 dropped;           // points beyond TRACE_MAX_POINTS, which have no code
} TraceProgram;

// ---- instrument.c -------------------------------------------------------------------------------
// Puts clock reads into a copy of kernel `fn` of the module and their parameters into a copy of the
// plan, both in the module's arena; `m` and `p` stay as they are. What the kernel computes stays
// the same, and the result keeps the law (thread_check, plan_check).
void trace_instrument(const ThreadModule *m, const Plan *p, const ThreadFn *fn, TraceProgram *out);

// ---- decode.c -----------------------------------------------------------------------------------
// Appends the records that a launch left in a buffer of `records` records, zero before. log->fn,
// unit, lost are set; phases are filled in. NULL, or why the buffer cannot be right.
const char *trace_decode(const TraceProgram *p, const u32 *buffer, i64 records, TraceLog *log);

#endif
