// audit.h - the check of machine code: is every read of a slot over before the slot is given away?
//
// A shared load gives its value to a register later than it is issued; the code says when by a
// scoreboard. A release (an arrival at an mbarrier, after which a bulk copy may overwrite the slot)
// does not wait for loads by itself. So on every path from a shared load to an arrival either the
// load's scoreboard has been waited for, or FENCE.VIEW.ASYNC has been issued behind the load and
// waited for. Rule O6 of docs/machine-model.md; it is checked here once more, behind the assembler,
// which may move a use of the value, and with it the wait, behind the arrival.
//
// Input: one section of code. Output: findings, and counts of what was seen. What the check cannot
// know it takes for the worse: which slot an arrival releases does not stand in the code, so each
// pending load counts at each arrival. Nothing that it does not understand passes as clean.
#ifndef BATON_VERIFY_AUDIT_H
#define BATON_VERIFY_AUDIT_H

#include "cubin.h"

typedef enum {
    AUDIT_RELEASE,   // a load that may be pending at an arrival
    AUDIT_REFILL,    // a load that may be pending where a bulk copy into shared memory is issued
    AUDIT_SERIAL,    // products of one accumulator that wait for each other (O9)
    AUDIT_UNKNOWN,   // an instruction that is not in the table
    AUDIT_INDIRECT,  // a branch whose target is not in the code
    AUDIT_TOO_LARGE, // more code than the check takes
    AUDIT_KIND_COUNT
} AuditKind;

typedef struct {
    u8 kind;        // AuditKind
    u64 at;         // offset in the code, in bytes
    u64 load;       // AUDIT_RELEASE, AUDIT_REFILL
} AuditFinding;

typedef struct {
    // The PTX of the code, NULL when it is not known: it tells where setmaxnreg was asked for.
    const char *ptx;
    // The code is all that there is: where no kernel issues a bulk copy into shared memory there
    // is no slot that one overwrites. Of a file from elsewhere this is not assumed.
    bool closed;
} AuditOptions;

typedef struct {
    const CubinText *text;
    int instructions, loads, fences, arrivals, bulk_loads, products, groups, set_registers;
    // What costs time and is not wrong:
    int spills;        // instructions that access local memory
    bool registers_left_out; // setmaxnreg was asked for and is not in the code
    int calls_outside; // to other sections, which are audited as if nothing were pending there
    int counts[AUDIT_KIND_COUNT];
    VEC(AuditFinding) findings; // in order of `at`; of each kind at most AUDIT_KEPT
} AuditKernel;

enum { AUDIT_KEPT = 12, AUDIT_INSTRUCTIONS_MAX = 1 << 18 };

void audit_text(Arena *a, const CubinText *t, const AuditOptions *options, AuditKernel *out);
int audit_findings(const AuditKernel *k);
// A line about the kernel, and the findings with offset, instructions and, where the code has a
// line table, source lines.
void audit_print(const AuditKernel *k, Buf *out);

#endif
