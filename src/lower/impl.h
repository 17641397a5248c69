// impl.h - shared state of the lowering; private to src/lower.
//
//   lower.c  kernels, parameters, regions, the dispatch table   sync.c   where barriers stand
//   index.c  integer expressions to registers                   value.c  scalar expressions
//   memory.c addresses of buffer elements                       copy.c   tile copies
//   mma.c    matrix products and their stores                   frag.c   fragments: apply, reduce
#ifndef BATON_LOWER_IMPL_H
#define BATON_LOWER_IMPL_H

#include "lower.h"

enum { LOWER_MAX_BUFFERS = 64, LOWER_MAX_DEPTH = 24, LOWER_MAX_PEELED = 64 };

// What happened to a shared buffer since the last barrier of the block (bits).
// BUF_PENDING: the TMA unit is filling it and nobody has waited for that yet.
enum { BUF_READ = 1, BUF_WRITTEN = 2, BUF_PENDING = 4 };
typedef struct {
    u8 buf[LOWER_MAX_BUFFERS]; // BUF_* per tile buffer
    bool generic;              // generic accesses since the last barrier to a buffer that the async
                               // proxy accesses too: a proxy fence is due
    bool cp_async;             // cp.async copies not waited for
    bool unfenced;             // any generic shared accesses since the last proxy fence
} SyncState;

typedef struct {
    int lo, hi;                // threads lo <= tid < hi of the block
} ThreadRange;
typedef VEC(ThreadRange) ThreadRanges;

typedef struct {               // an event of the kernel, as a machine barrier
    ThreadRanges waits, triggers, copies; // roles that do so
    bool named;                // a named barrier ...
    int id, threads;           // ... its id, and how many threads meet at it
    int buffer;                // else: thread buffer of its mbarriers; -1: the event is not used
    int count;                 // arrivals of a generation
    int phase;                 // scalar events: register with the parity of the next wait
} EventState;

typedef struct {               // mbarriers to initialise
    int buffer, slots, count;
} MbarInit;

typedef struct {               // a product that was committed and not waited for
    int future, acc, a;        // fragments; a: -1 when A is a shared tile
} InFlight;
enum { PIN_MAX = 8 };          // row vectors written while products are in flight

typedef struct {               // a cached register that holds an expression
    const Expr *e;
    Operand value;
    bool wide;
} IndexEntry;

typedef struct {               // the apply that is being lowered: loops over blocks, row halves, pairs
    const TileOp *op;          // NULL: none
    u8 layout;                 // FragKind of the fragment that it runs over
    int block, half, pair;     // unroll variables, -1: that loop does not exist
    const Operand *pair_regs;  // staged f32 pairs of packed destinations, by fset
    VEC(const TileOp *) packed; // the fsets they belong to
} ApplyState;

typedef struct {
    const TExpr *e;
    Operand value;
} Hoisted;

typedef struct Lower Lower;
struct Lower {
    const TileModule *m;
    const TileFn *fn;
    const TileKernel *k;
    ThreadModule *out;
    ThreadFn *tf;
    ThreadBuilder b;
    ExprPool *x;
    PlanStep *step;
    bool plain;                // the twin without the TMA unit
    bool failed;               // an error was reported for this kernel

    // Names: thread register of a tile variable ("%i" -> register + 1).
    Map *reg_of;               // interned name with '%' -> (void *)(reg + 1)
    Map *subst;                // apply variables: name -> Expr
    Map *unroll_of;            // "$u" -> (void *)(var + 1)
    Map *param_of;             // symbol or tensor name -> (void *)(param + 1)
    Map *symbol_reg;           // symbol -> (void *)(register + 1)
    VEC(const char *) mutables; // '%' names that are written more than once: never cached

    VEC(IndexEntry) cache;     // registers that hold expressions, innermost scope last
    VEC(IndexEntry) prologue_cache; // the same for the kernel's entry, valid everywhere
    int in_prologue;
    const Expr *tma_when;      // what must hold for the TMA variant; NULL: nothing
    VEC(const Expr *) tma_conds; // its parts

    int *frag_reg;             // thread register array per fragment, -1: not made yet
    bool *frag_zero;           // fragment is 0, not yet written to registers
    int *scalar_reg;
    int *buffer;               // ThreadFn buffer per tile buffer, -1: not made yet
    int *future_mbar;          // buffer index of the barrier of a future, -1
    int *future_dst;           // tile buffer that a TMA load with this future fills, -1
    int *future_phase;         // its phase register
    int *pending_mbar, *pending_phase; // per tile buffer: what BUF_PENDING waits for
    Map *carrier;              // per copy: its CopyCarrier + 1
    bool async_buf[LOWER_MAX_BUFFERS]; // wgmma or the TMA unit accesses this shared buffer somewhere
    VEC(MbarInit) mbars;
    EventState *events;        // per event
    bool event_buf[LOWER_MAX_BUFFERS]; // shared buffers that events hand over
    bool *future_mma;          // the future is a product's
    bool *scalar_uniform;      // the same in all threads of a role
    bool moves_registers;      // setmaxnreg is used
    VEC(InFlight) inflight;    // in order of commit
    int written[PIN_MAX], nwritten; // row vectors written since the last commit or wait
    ThreadRange role;          // threads that run what is being lowered
    int role_id;               // named barrier of the role, -1: none yet
    int named_low, named_high; // ids taken from below (up to low) and from above (from high + 1)

    ApplyState apply;
    VEC(Hoisted) hoisted;      // row-only subexpressions, computed before the loop over columns
    const Expr *zeros[TILE_MAX_RANK]; // coordinates of the origin

    // Where we are.
    u8 level;                  // innermost PAR level
    VEC(const char *) par_vars[LEVEL_COUNT]; // variables of each level, with '%'
    int uniform_depth;         // regions whose condition depends on the thread: no barrier inside
    int depth;
    SyncState sync;
    bool dry;                  // sync analysis of a loop body: nothing is emitted
    int tid, one_lane, frag_row, frag_col, smem, one, zero; // prologue registers, -1: not made
    Map *elect;                // leader thread + 1 -> predicate register + 1
    int groups;                // enclosing PAR levels of warpgroups
    ThreadBlock prologue;
};

// ---- lower.c
void lower_block(Lower *l, const TileBlock *block);
void lower_error(Lower *l, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
int lower_param(Lower *l, const char *name, ParamKind kind, PlanArg arg);
int lower_new_reg(Lower *l, const char *name, RegClass c, int count);
// Registers that are computed once at the kernel's entry.
int lower_tid(Lower *l);
int lower_frag_row(Lower *l);  // row of the lane's first element in a 64-row fragment
int lower_frag_col(Lower *l);  // 2 * (lane % 4)
int lower_elect(Lower *l);     // predicate: first thread of the role
int lower_pred_const(Lower *l, bool value);
// Emission goes to the prologue between these two.
typedef struct {
    ThreadBlock *at;
    Operand guard;
} PrologueMark;
PrologueMark lower_enter_prologue(Lower *l);
void lower_leave_prologue(Lower *l, PrologueMark m);
bool lower_thread_dependent(const Lower *l, const Expr *e); // on a variable below block level
bool lower_value_thread_dependent(const Lower *l, const TExpr *e);

// ---- index.c: 32-bit (or 64-bit) register or immediate that holds e, here
Operand lower_index(Lower *l, const Expr *e);
Operand lower_index64(Lower *l, const Expr *e);
const Expr *lower_subst(Lower *l, const Expr *e); // apply variables replaced
// e = rest + imm, imm an affine function of unroll variables and constants; rest may be NULL (0).
Operand lower_split(Lower *l, const Expr *e, const Expr **rest);
const Expr *lower_reg_expr(Lower *l, int reg);    // "%name" of a scalar register
const Expr *lower_const(Lower *l, i64 v);
Operand lower_compare(Lower *l, ThreadCmp c, const Expr *a, const Expr *b); // a predicate
int lower_and(Lower *l, Operand p, Operand q);    // predicate register p && q
int lower_open_unroll(Lower *l, const char *name, int trips, const Expr **var, ThreadBlock **saved);
void lower_close(Lower *l, ThreadBlock *saved, int ncache);
// Expression of a register that counts from lo to hi; names it in expressions.
const Expr *lower_loop_var(Lower *l, int reg, i64 lo, i64 hi);
typedef enum { CARRY_TMA, CARRY_CP_ASYNC, CARRY_REGISTERS } CopyCarrier;
CopyCarrier lower_carrier(Lower *l, const TileOp *op); // who moves the bytes of a copy
void lower_wait_mbar(Lower *l, int buffer, int phase); // waits and turns the phase register

// ---- memory.c
typedef struct {
    Operand base, offset;      // address operands of a memory operation
    MemRef ref;
} Address;
int lower_buffer(Lower *l, int tile_buffer);      // thread buffer of a tile buffer
Address lower_address(Lower *l, const TileView *v, const Expr *const *at); // at: per view dimension, elements from its origin
// Predicate operand that is true when the coordinates are inside the view's limits; kind OPD_NONE when
// that is always so. `width`: that many elements of the last dimension, all of them.
Operand lower_inside(Lower *l, const TileView *v, const Expr *const *at, int width);
i64 lower_global_align(Lower *l, const TileView *v); // bytes that every row start of the view is a multiple of
int lower_shared_base(Lower *l, int buffer);      // register with the address of a shared buffer
Address lower_mbar_address(Lower *l, int buffer); // of slot 0 of a barrier buffer
void lower_emit_mem(Lower *l, ThreadOpcode op, ThreadType t, int n, const Operand *regs, Address a);

// ---- value.c
Operand lower_value(Lower *l, const TExpr *e);    // f32 for all float types up to 32 bits
ThreadType lower_type(DType t);                   // of the register that holds a value of type t
RegClass lower_class(DType t);
ThreadType lower_memory_type(DType t);            // of its load and store
Operand lower_load(Lower *l, Address a, DType t);
void lower_store(Lower *l, Address a, DType t, const TExpr *value);
const Operand *lower_hoisted(Lower *l, const TExpr *e); // NULL: compute it here
int lower_scalar(Lower *l, int scalar);           // its register
Operand lower_element(Lower *l, int frag, int slot, const u8 *at, Loc loc); // inside an apply
Operand lower_round(Lower *l, Operand v, DType to); // f32 value -> b16 bits of a 16-bit float type

// ---- the operations, one function a row of tile/ops.h
#define X(id, name, fields, meaning) void lower_op_##id(Lower *l, const TileOp *op);
TILE_OPS(X)
#undef X
Operand lower_plus(Lower *l, Operand o, const Expr *var, i32 coef); // index + coef * unroll variable
void lower_flush_zero(Lower *l, int frag);        // writes a pending zero fill
void lower_flush_zeros(Lower *l);
int lower_frag_regs(const TileFrag *f);           // machine registers of one slot
int lower_frag(Lower *l, int frag);               // its register array

// ---- event.c
void event_init(Lower *l);                        // counts participants, makes the barriers
void event_prime(Lower *l);                       // first arrivals of named barriers
Address event_address(Lower *l, const TileOp *op); // mbarrier of op's event and order
void product_flush(Lower *l);                     // waits for all products in flight
void product_wait(Lower *l, int future);
void product_note(Lower *l, int frag);            // a row vector was written
void product_check(Lower *l, int frag, bool write, Loc loc); // an error when a product still uses it

// ---- sync.c
void sync_init(Lower *l);                         // finds the buffers of the async proxy
void sync_before(Lower *l, const TileOp *op);     // barriers that must stand before op
void sync_after(Lower *l, const TileOp *op);
void sync_loop(Lower *l, const TileOp *loop);     // brings l->sync to the loop's fixed point
// Before a region: waits for pending loads that it touches. After it: for those it started.
void sync_enter(Lower *l, const TileOp *region);
void sync_leave(Lower *l, const SyncState *before);
void sync_merge(SyncState *a, const SyncState *b);
void sync_barrier(Lower *l);                      // waits, fences, barrier of the block

#endif
