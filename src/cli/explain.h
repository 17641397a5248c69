// explain.h - `baton build --explain`: what the compiler made of each kernel, one page for people.
//
// Input: the thread IR and the launch plan, after their checkers; nothing above them, so the page
// tells what will run and not what was meant. explain_facts.c walks the program and writes down
// what it sees as one table of facts; explain.c prints the table; explain_ptxas.c asks the
// assembler, where there is one.
//
// Invariant: the page of explain_print is the same for the same program, on every machine.
#ifndef BATON_CLI_EXPLAIN_H
#define BATON_CLI_EXPLAIN_H

#include "../plan/plan.h"

// Shared memory of an SM of Hopper in bytes: what one CTA may have (227 KB), what there is in all,
// and what each CTA takes besides its own.
enum { SMEM_CTA_MAX = 232448, SMEM_SM = 233472, SMEM_RESERVED = 1024 };
// 32-bit registers of an SM, and how many CTAs it holds at most.
enum { SM_REGISTERS = 65536, SM_CTAS = 32 };

// Who and where, for all kinds: `role` and `loc`. Columns: kind, subject, object, n.
typedef enum {
    FACT_TMA_LOAD,     // shared buffer, its mbarrier ring, loads per execution; param: tensor map
    FACT_TMA_STORE,    // shared buffer, -, stores; param: tensor map
    FACT_PRODUCT,      // N of the instruction, type of its operands, instructions
    FACT_WGMMA_READ,   // shared buffer
    FACT_READ,         // shared buffer, by ordinary loads
    FACT_WRITE,        // shared buffer, by ordinary stores
    FACT_CPASYNC,      // shared buffer, written by cp.async
    FACT_GLOBAL_READ,  // global buffer, by ordinary loads and cp.async
    FACT_GLOBAL_WRITE, // global buffer, by ordinary stores
    FACT_EXPECT,       // ring, -, bytes (EXPECT_UNKNOWN: in a register)
    FACT_ARRIVE,       // ring: an arrival that brings no bytes
    FACT_WAIT,         // ring
    FACT_BAR_SYNC,     // barrier id (-1: in a register), -, threads (-1 likewise)
    FACT_BAR_ARRIVE,   // the same
    FACT_REFILL,       // shared buffer, gate in front of a fill inside a loop; loc of the gate
    FACT_RELEASE,      // shared buffer, gate, RELEASE_* bits
    FACT_FENCE,        // shared buffer: ordinary writes in front of a proxy fence
    FACT_STORE_WAIT,   // shared buffer: TMA stores out of it have read it
} FactKind;
enum { EXPECT_UNKNOWN = -1 };

// What holds for the readers of a buffer where they release it.
enum {
    RELEASE_WAITED = 1,   // read by products, all of them waited for
    RELEASE_NEWER = 2,    // products that were issued last still run (on other slots)
    RELEASE_FENCED = 4,   // accessed by ordinary instructions, a proxy fence stands behind them
    RELEASE_UNFENCED = 8, // the same without a fence
};

typedef struct {
    u8 kind; // FactKind
    bool loop; // seen inside a loop
    int subject, object, param, role;
    i64 n;
    Loc loc;
} Fact;

// A gate is what a role passes before it fills a buffer again: a ring (its buffer index), or a
// named barrier. Those whose number is in a register (one for each warpgroup) count as one.
enum { EXPLAIN_CHOSEN_BARRIER = 16 };
static inline int gate_of_barrier(i64 id) { return -1 - (int)id; }

typedef struct {
    int first, warps, parent; // parent: index of the enclosing role, -1 for all warps (role 0)
    int nreg;                 // after setmaxnreg; 0: none in this role
    Loc loc;
} ExplainRole;

typedef struct {
    Arena *arena;
    const ThreadModule *module;
    const ThreadFn *fn;
    VEC(ExplainRole) roles;
    VEC(Fact) facts;          // in the order of the program, equal ones once
    i64 *arrivals;            // per buffer: count that its mbarriers start with; 0: unknown
    bool *by_bytes;           // per buffer: a ring that loads complete
    bool *peers;              // per buffer: a ring at which all blocks of the cluster arrive, a
                              // tile that all of them fill
} Explained;

Explained *explain_collect(Arena *a, const ThreadModule *m, const ThreadFn *fn);

// The page about all kernels of the module, in the order of the plan's steps.
void explain_print(Arena *a, const ThreadModule *m, const Plan *plan, const Diag *d, Buf *out);
// What ptxas says to the PTX: registers, spills, barriers, and the CTAs that fit an SM; one line
// that it is not here when it is not on PATH.
void explain_assemble(Arena *a, const ThreadModule *m, const char *ptx, size_t n, Buf *out);

#endif
