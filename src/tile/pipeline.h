// pipeline.h - automatic warp specialisation: what its three parts share. Private to src/tile.
//
//   pipeline.c        the pass: rings, events, roles; rewrites the program of the consumers
//   pipeline_find.c   which copies a producer can bring, and why it cannot bring the others
//   pipeline_slice.c  the producer's program: these copies and what they depend on
//
// Words. A *load* is a copy that becomes the producer's. It stands in a *scope*: a list of
// operations, executed as often as the load. All loads into one buffer are a *ring*: the buffer has
// S slots, and each execution of a load is an order of the ring, counted on over all loops. Rings
// whose loads stand in the same scopes, one in each, count alike and share their counters: a
// *class*. Rings of a class whose slots are first used by one operation and last used by one have
// one pair of events, full and empty.
//
// In its scope a load is followed by all uses of what it brings, up to the next load of the ring or
// the end: so the producer, which executes the loads in the same order, never waits for a slot that
// the consumers cannot hand back before they wait for it.
#ifndef BATON_TILE_PIPELINE_H
#define BATON_TILE_PIPELINE_H

#include "visit.h"

typedef struct Scope Scope;
struct Scope {
    const Scope *outer;            // NULL: the kernel's body
    TileOp *owner;                 // the operation whose list this is
    TileBlock *list;
    int stages;                    // of the [[pipeline]] around it; 1: there is none
    bool once;                     // no loop around it
};

typedef struct {
    TileOp *op;
    Scope *scope;
    int at;                        // place in the scope's list
    int buffer;                    // memory of the destination
    int first, last;               // places in the list of the first and last use; `at`: unused
    int ring;
    bool written;                  // its buffer is the threads' own later, see TileEvent.gives
    const TileOp *fence;           // of the block, behind reads of what it brings; or NULL
    const char *why, *hint;        // it cannot be the producer's; NULL: it can
    Loc where;                     // place that `why` is about, or line 0
} Load;

typedef struct {
    int buffer, stages;
    bool once;                     // filled once: nobody hands it back
    bool gives;                    // then the threads write to it
    VEC(int) loads;                // in program order
    int class;
    int group;                     // ring whose events it shares: the first of them, maybe itself
    int full, empty;               // events of the kernel; empty -1: filled once
    i64 bytes;                     // of a slot
} Ring;

typedef struct {
    VEC(TileBlock *) lists;        // with a load of each of its rings
    bool single;                   // one load of a ring in each list: counted at the list's end
    bool once;
    int stages;
    int order[2], slot[2];         // scalars of the producer and the consumers; -1: none
} Class;

typedef struct {
    TileModule *m;
    TileKernel *k;
    TileOp *loop;                  // the first one with [[pipeline]]
    VEC(Load) loads;
    VEC(Ring) rings;
    VEC(Class) classes;
    Map *candidates;               // operation -> index of its load + 1
    Map *load_of;                  // operation -> index of its load + 1, of accepted ones
    Map *parallel;                 // '%' names of parallel levels below the block
    Map *scalar_of;                // '%' name of a scalar -> index + 1
    bool *written;                 // per parameter: this kernel writes to it
    bool *needed;                  // per scalar: the producer needs it (pipeline_slice.c)
} Pipe;

// ---- pipeline_find.c
// Fills p->loads with the copies of scopes that contain or are inside of a pipeline; `why` tells
// those that are not the producer's. NULL, or why the kernel has no producer at all.
const char *pipeline_find(Pipe *p, Loc *where);
Load *pipeline_load(const Pipe *p, const TileOp *op); // accepted ones; or NULL

// ---- pipeline_slice.c
// What the loads (or, `only`, one of them) depend on; marks p->needed. NULL, or why the producer
// cannot compute it, and where.
const char *pipeline_needs(Pipe *p, const Load *only, Loc *where);
// The producer's program. Names of loops get a suffix, scalars are each thread's own.
void pipeline_slice(Pipe *p, TileBlock *to);

// ---- pipeline.c
// Parts of both programs. side 0: the producer, 1: the consumers.
void pipeline_begin_list(Pipe *p, const TileBlock *list, int side, TileBlock *to);
void pipeline_end_list(Pipe *p, const TileBlock *list, int side, TileBlock *to);
TileOp *pipeline_op(Pipe *p, TileOpcode op, Loc loc, TileBlock *to);
void pipeline_event(Pipe *p, TileOpcode op, const Ring *r, int event, int side, Loc loc,
                    TileBlock *to);
void pipeline_step(Pipe *p, const Class *c, int side, Loc loc, TileBlock *to);
void pipeline_slot(Pipe *p, const Class *c, int side, Loc loc, TileBlock *to);
const Expr *pipeline_scalar(const Pipe *p, int scalar); // as an expression

#endif
