// exec.h - one warp while it is executed for its events (extract.c, effects.c).
#ifndef BATON_VERIFY_EXEC_H
#define BATON_VERIFY_EXEC_H

#include "model.h"

enum { TOKENS = 64, LOOP_DEPTH = 32 };
#define ALL_LANES 0xffffffffu

// Bytes of an access of the segment under way.
typedef struct { int access; Span s; } Pending;

// Who has touched 4 bytes since the lanes of the warp last met; `whole`: all of it each time.
typedef struct { u32 meeting, wrote, read; bool whole; } LaneUse;

typedef struct {
    Model *m;
    int agent, cta, warp;
    Term *term;          // per element of a register, LANES each; uniform: the first one counts
    u8 *uniform;
    const u8 *needed;    // per register: its value steers
    u64 *taint;          // per element: loads whose values went into it
    int *base;           // per register: its first element
    i64 *unroll;         // per unroll variable
    u32 dead;            // lanes that have left by exit
    int registers;       // of each thread now
    // loops around, innermost last
    struct { const ThreadOp *op; i32 iter, head; } loop[LOOP_DEPTH];
    int loops;
    // reads that have not bound: the record of each token
    struct { int access; } token[TOKENS];
    u64 tokens;          // in use
    u64 group_tokens;    // registers that products still read
    int seg_first;       // first access of the segment under way
    int unheld;          // all accesses in front of it are held
    VEC(int) fenced;     // accesses whose fences are not published yet
    i32 products, stores, copies; // commit groups so far
    u32 meeting;         // how often the lanes have met, over all warps
    LaneUse *lane_use;   // per 4 bytes of the block's shared memory
    i64 granules;
    const ThreadOp *lane_fault; // the last one that was told
    int chance;          // occurrences of conditions on floats
    VEC(Pending) pending;
} Exec;

Term exec_operand(Exec *x, const Operand *o, int lane, int element);
// The value in all of the lanes, when it is one number.
bool exec_number(Exec *x, const Operand *o, u32 mask, u64 *v);
u64 exec_taint(Exec *x, const Operand *o);
// Operations on memory and synchronisation.
void exec_effect(Exec *x, const ThreadOp *op, u32 mask);
// Ends the part of a segment under way: its accesses get their bytes, later ones are apart.
void exec_flush(Exec *x);
// A token for what the access has fetched: bits of it flow with the values, until they are pinned.
u64 exec_token(Exec *x, int access);
void exec_pin(Exec *x, u64 tokens);
// The end of the warp: what must not be open any more.
void exec_end(Exec *x);
// Shared memory or synchronisation: what the model is about.
bool exec_matters(const ThreadOp *op);
// needed.c: per register, does its value steer? `names`: register by name, + 1. With `bindings`, so do
// conditions on stores to global memory, which bind what they store (O6); without, such stores bind
// nothing.
u8 *exec_needed(Arena *a, const ThreadModule *m, const ThreadFn *fn, Map *names, bool bindings);

// Registers that steer and that a round of the loop takes over from the round before.
typedef VEC(int) RegVec;
void exec_carried(Arena *a, const ThreadFn *fn, const u8 *needed, const ThreadOp *loop, RegVec *out);
// Registers that steer: those whose values from before the loop it reads, and those that it writes.
// Returns, per register, the bits of its value that the loop looks at.
const u32 *exec_flow(Arena *a, const ThreadFn *fn, const u8 *needed, const ThreadOp *loop,
                     RegVec *reads, RegVec *written);

// replay.c: does now what the loop did with the same values before. False: it has to be executed;
// exec_keep then keeps what it did from access `first` on (-1: nothing is kept).
bool exec_replay(Exec *x, const ThreadOp *loop, u32 mask, int *first, u64 *key);
void exec_keep(Exec *x, const ThreadOp *loop, int first, u64 key);

#endif
