// sass.h - the machine code of sm_90, as far as the audit needs it: what kind of instruction one
// is, whether it runs, which scoreboards it sets and waits for, and where a branch leads.
//
// An instruction has 16 bytes, here two words of 64 bits (`low`, `high`). At fixed places in all:
//   low  0..11   operation: 9 bits say which, 3 the form of the operands
//   low 12..15   guard: predicate register, 7 is "always"; bit 15 negates it
//   low 16..23   destination register; low 24..31 the first source
//   high 41..44  stall count                 high 46..48  scoreboard that the result sets, 7: none
//   high 49..51  scoreboard that is set when the sources have been read, 7: none
//   high 52..57  scoreboards, one bit each, that must be clear before the instruction is issued
// Input: any 16 bytes. An operation, or a form of one that matters here, which is not in the table
// is SASS_UNKNOWN: the caller says so and never takes it for harmless.
#ifndef BATON_VERIFY_SASS_H
#define BATON_VERIFY_SASS_H

#include "../base/base.h"

typedef enum {
    SASS_UNKNOWN,
    SASS_PLAIN,         // arithmetic, and all else that the audit has no question about
    SASS_SHARED_LOAD,   // LDS, LDSM, an atomic operation on shared memory that gives a result
    SASS_GENERIC_LOAD,  // LD: may read shared memory
    SASS_BULK_LOAD,     // the async proxy will write shared memory
    SASS_ARRIVE,        // counts an arrival at an mbarrier
    SASS_EXPECT,        // changes the bytes that an mbarrier waits for, counts none
    SASS_TRY_WAIT,
    SASS_FENCE_SHARED,  // the proxy fence over shared memory
    SASS_FENCE_GLOBAL,  // the one over global memory alone
    SASS_MEMBAR,
    SASS_BARRIER,       // BAR: named barriers
    SASS_WGMMA,
    SASS_WGMMA_ARRIVE,  // wgmma.fence
    SASS_WGMMA_WAIT,    // count: groups that may still run
    SASS_DEPBAR,        // waits for scoreboards by itself
    SASS_BRANCH,
    SASS_CALL,          // inside the section of code: `target`
    SASS_CALL_OUTSIDE,
    SASS_RETURN,
    SASS_INDIRECT,      // a branch to a register
    SASS_CONVERGE_SET,  // BSSY: where the threads of a warp meet again
    SASS_CONVERGE,      // BSYNC: they go on at the place that was set
    SASS_EXIT,
    SASS_SPILL,         // LDL, STL
    SASS_SET_REGISTERS, // setmaxnreg
    SASS_KIND_COUNT
} SassKind;

enum { SASS_BYTES = 16, SASS_SCOREBOARDS = 6, SASS_NO_SCOREBOARD = 7, SASS_NO_REGISTER = 255 };

// One row of the table: an operation by its low 9 bits.
typedef struct {
    u16 operation;
    u8 kind;   // SassKind; of several that the operation has: the one that sass_decode refines
    const char *name;
} SassClass;
extern const SassClass sass_table[];
extern const int sass_table_count;

typedef struct {
    u8 kind;         // SassKind
    bool always;     // the guard is "always"
    bool never;      // the guard is "never": the instruction does nothing but wait
    u8 guard;        // predicate register, and in bit 3 whether it is negated
    u8 set, set_read; // scoreboards, SASS_NO_SCOREBOARD: none
    u8 wait;         // mask of scoreboards
    u8 dest, source; // registers
    u8 converge;     // number of the register of BSSY and BSYNC
    bool last;       // a WGMMA that ends its group
    bool fresh;      // a WGMMA whose accumulator begins at zero
    int count;       // SASS_WGMMA_WAIT: groups; SASS_DEPBAR: what may be left on its scoreboards
    i64 target;      // SASS_BRANCH, SASS_CALL, SASS_CONVERGE_SET: offset in the code, in bytes
    const char *name; // "LDS"
    const char *form; // ".128"; "" when there is nothing to add
    u16 operation;   // 12 bits
} SassInst;

// The instruction at `offset` of the code; `at` has 16 bytes.
SassInst sass_decode(const u8 *at, u64 offset);
// As a person would write it, in short: "@!P2 SYNCS.ARRIVE".
void sass_print(const SassInst *s, Buf *out);

#endif
