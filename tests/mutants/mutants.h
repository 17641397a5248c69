// mutants.h - takes a kernel's thread IR, breaks one synchronising operation in one way, and asks
// the verifier: `make mutants`.
//
//   operators.c   the table of ways to break an operation, and the edits
//   flow.c        registers and accesses of operations, for edits that move some
//   tiers.c       the table of what looks at a mutant, cheapest first
//   harmless.c    the table of reasons why a mutant that nothing objects to is right
//   kernels.c     the kernels and their sizes
//   mutants.c     the run over all of them, and the tables for docs/verification.md
#ifndef BATON_MUTANTS_H
#define BATON_MUTANTS_H

#include "../../rt/rt.h"
#include "../../src/cli/run.h"
#include "../../src/verify/quick.h"
#include "../../src/verify/verify.h"

// ---- flow.c -------------------------------------------------------------------------------------
// Sets of registers of a kernel, one byte for each array.
typedef struct { u8 *reads, *writes; } Registers;
// Adds those of the operation and, for a region, of all in it.
void flow_registers(const ThreadOp *op, Registers *r);
// Operands begin at `*operand` for the k-th operand with letter `c` of the signature (ops.h), and
// its MemRef is `*mem`, -1 when it has none. False: there is none.
bool flow_operand(const ThreadOp *op, char c, int k, int *operand, int *mem);

// What an operation, or any in a region, does.
enum {
    DOES_READ = 1,     // of shared memory, by ordinary loads
    DOES_WRITE = 2,    // by ordinary stores and atomics
    DOES_ASYNC = 4,    // begins a copy or a product
    DOES_WAIT = 8,     // mbarriers and groups
    DOES_ARRIVE = 16,
    DOES_BARRIER = 32, // bar.*
    DOES_INIT = 64,
    DOES_FENCE = 128,
    DOES_COMMIT = 256,
    DOES_REGISTERS = 512,
    DOES_EXPECT = 1024,
    DOES_ACCESS = DOES_READ | DOES_WRITE | DOES_ASYNC,
};
u32 flow_does(const ThreadOp *op);
// Of products: an operand register, or the accumulator, of any product of the kernel.
void flow_product_registers(const ThreadBlock *b, u8 *set);

// The way of one warp through a kernel: a node per operation, regions with their ways in and out.
// Loops may have no rounds, conditions may go either way, roles are those of the warp.
typedef struct { const ThreadOp *op; int next[2]; } FlowNode; // -1: none
typedef struct { VEC(FlowNode) nodes; int entry; } Flow;
void flow_graph(Arena *a, const ThreadFn *fn, int warp, Flow *out);
// Every way from behind `from` meets an operation that `ends` likes before one that `breaks` likes.
// A way that ends with the kernel counts as `at_end`. Backwards: every way that leads to `from`.
typedef bool FlowTest(void *ctx, const ThreadOp *op);
bool flow_always(const Flow *f, const ThreadOp *from, bool backwards, FlowTest *ends,
                 FlowTest *breaks, void *ctx, bool at_end);

// ---- operators.c --------------------------------------------------------------------------------
// One kernel while it is being changed: `fn` is a copy, `op` stands in it at block->at[at].
enum { EDIT_DEPTH = 64 };
typedef struct {
    Arena *arena;            // of the copy
    ThreadModule module;     // with the copy alone
    ThreadFn *fn;
    ThreadOp *op;
    ThreadBlock *block;
    int at;
    // regions around, outermost first: the region, and its place
    struct { ThreadOp *op; ThreadBlock *block; int at; } around[EDIT_DEPTH];
    int depth;
} Edit;

typedef struct {
    const char *name;        // "count + 1"
    u32 applies;             // to operations that do one of these; 0: `make` decides
    bool (*make)(Edit *e, int mem); // mem: which MemRef; false: does not apply here
    bool each_mem;           // once for each MemRef, else once
    const char *how;
} Operator;
extern const Operator operator_table[];
extern const int operator_count;

// A copy of kernel `fn`, with the operation number `site` in textual order to change. False: there
// are not so many.
bool edit_begin(Edit *e, Arena *a, const ThreadModule *m, const ThreadFn *fn, int site);

// Moves the operation in front of the nearest product before it in its block. False: there is none,
// or something that it needs is in the way.
bool edit_move_before_product(Edit *e);

// ---- kernels.c ----------------------------------------------------------------------------------
typedef struct {
    const char *name;        // "gemm/persistent, clusters"
    const char *file;        // under kernels/
    const char *fn;          // the kernel of the file that these sizes launch
    const char *sizes[4];    // "M", "260" in turn
    const char *values[4];
    int sms;
    AstDefine define;        // as -D; name NULL: none
} Kernel;
extern const Kernel kernel_table[];
extern const int kernel_count;

// A kernel compiled, with inputs, and the bits that it computes when it is left as it is.
typedef struct {
    const Kernel *kernel;
    Compilation comp;
    Arena *arena;
    JobOptions options;
    Job run;
    const ThreadFn *fn;
    PlanValue *values;       // of the arguments, on the emulated card
    Buf text;
    bool right;              // run.array[].first holds the right bits
    int check_broken, check_open; // what `check` says of the kernel as it is
} Bench;
// Compiles and prepares. NULL, or why not.
const char *bench_open(Bench *b, const Kernel *k, const char *root);
void bench_close(Bench *b);

// ---- tiers.c ------------------------------------------------------------------------------------
// One mutant in front of the tiers.
typedef struct {
    Bench *bench;
    Edit *edit;
    Arena *arena;            // of this mutant
    Buf why;                 // what the tier said
    bool proved;             // `check` left nothing open
    bool explored;           // `explore` called it clean
} Trial;
typedef struct {
    const char *name;
    bool (*catches)(Trial *t);
} Tier;
extern const Tier tier_table[];
extern const int tier_count;
// The kernel as it is: keeps its bits, and what `check` leaves open. NULL, or what a tier reports.
const char *bench_settle(Bench *b);
// No tier catches it.
bool trial_clean(Trial *t);
// The bits under many more schedules: true when none shows anything.
bool trial_many_schedules(Trial *t);

// Does `baton check --thorough` prove the order of the mutant for all sizes? Half a minute and more.
bool tiers_prove(Trial *t);

// ---- harmless.c ---------------------------------------------------------------------------------
// Why the mutant is as right as the kernel, whose operation number `site` was changed by `o`; NULL:
// no reason that this program knows.
const char *harmless_reason(Trial *t, const Operator *o, int site);

// ---- mutants.c, page.c --------------------------------------------------------------------------
typedef struct {
    int kernel, site, oper, mem;
    u8 op;
    Loc loc;
    const char *buffer;      // that the operation names; NULL
} Mutant;

typedef enum { OPEN, CAUGHT, HARMLESS, SURVIVED, CRASHED } Fate;
// In memory that the workers share.
typedef struct {
    u8 fate, tier;
    char why[400];           // a report, or the reason
} Result;
typedef struct {
    int next;                // the mutant that is taken next
    int done;
    int at[64];              // of each worker: its mutant, -1
    Result result[];
} Board;

typedef struct {
    const char *root;
    int jobs;
    bool verbose, write, check;
    const char *tier;        // the only one that is asked; NULL: all
    VEC(const char *) only;
    Arena *arena;
    Bench *bench;            // one per kernel
    VEC(Mutant) mutants;
    Board *board;
} Session;

// page.c: the tables of docs/verification.md, written or compared. False: it was told what is
// wrong.
bool page_write(const Session *s);
bool page_check(const Session *s);

#endif
