// impl.h - shared state of the lowering; private to src/lower.
//
//   lower.c  kernels, parameters, regions, the dispatch table   sync.c   where barriers stand
//   index.c  integer expressions to registers                   value.c  scalar expressions
//   memory.c addresses of buffer elements                       copy.c   tile copies
//   mma.c    matrix products and their stores                   frag.c   fragments: apply, reduce
//   event.c  events, roles, products in flight                  cluster.c  clusters of blocks
//   handoff.c what stands before a trigger
#ifndef BATON_LOWER_IMPL_H
#define BATON_LOWER_IMPL_H

#include "lower.h"

// SyncState is copied and compared whole at each region, so its table has a fixed size.
enum { LOWER_MAX_BUFFERS = 64 };

// What happened to a shared buffer since the last barrier of the block (bits). BUF_PENDING: the TMA
// unit is filling it and nobody has waited for that yet; a barrier does not end that, only a wait
// on the load's mbarrier does. BUF_STORING: the TMA unit may still be reading it for a store.
// BUF_ATOMIC: atomic operations, which need no barrier among each other.
enum { BUF_READ = 1, BUF_WRITTEN = 2, BUF_PENDING = 4, BUF_STORING = 8, BUF_ATOMIC = 16 };
enum { LOOSE_READ = 1, LOOSE_WRITTEN = 2 };
enum { USED_BY_SEVERAL = 255 };
// What threads may still owe each other at a place of the program. It only grows between barriers;
// where control flow joins, the union of the branches holds (sync_merge).
typedef struct {
    u8 buf[LOWER_MAX_BUFFERS]; // BUF_* per tile buffer
    bool generic;              // generic accesses since the last barrier to a buffer that the async
                               // proxy accesses too: a proxy fence is due
    bool cp_async;             // cp.async copies not waited for
    u8 loose[LOWER_MAX_BUFFERS]; // LOOSE_*: generic accesses since the last proxy fence
} SyncState;

typedef struct {
    int lo, hi;                // threads lo <= tid < hi of the block
} ThreadRange;
// Of a set: ranges are equal or disjoint, never overlapping in part (event.c refuses that).
typedef VEC(ThreadRange) ThreadRanges;

typedef struct {               // registers of a thread after a setmaxnreg
    ThreadRange threads;
    int count;
    Loc loc;
} RegisterShare;

typedef struct {               // an event of the kernel, as a machine barrier
    ThreadRanges waits, triggers, copies; // roles that do so
    bool named;                // a named barrier ...
    int id, threads;           // ... its id, and how many threads meet at it
    bool cluster;              // triggered in all blocks of the cluster
    int buffer;                // else: thread buffer of its mbarriers; -1: the event is not used
    ThreadRanges *by_slot;     // rings of up to 64 slots: the triggers of each slot
    int count;                 // arrivals of a generation
    i64 left;                  // without the TMA unit: bytes that its copies still have to bring
    int phase;                 // register with the parity of the next wait: scalar events, and a bit
                               // for each slot of loads that turn
    int fills;                 // loads that turn: the tile buffer of their slots
} EventState;

typedef struct {               // mbarriers to initialise
    int buffer, slots, count;
} MbarInit;

typedef struct {               // a product that was committed and not waited for
    int future, acc, a;        // fragments; a: -1 when A is a shared tile
} InFlight;
enum { PIN_MAX = 8 };          // row vectors written while products are in flight

// Registers that hold expressions, innermost scope last. Expressions are interned in their pool, so
// equal ones are one pointer, and `newest` finds the last entry of each by it.
typedef struct {
    const void *key;           // the expression, and whether it is held in 64 bits
    Operand value;
    int older;                 // entry + 1 with the same key in an outer scope; 0: none
} IndexEntry;
typedef struct {
    VEC(IndexEntry) entries;
    Map *newest;               // key -> (void *)(entry + 1)
} IndexCache;

// The apply that is being lowered: loops over column blocks, row halves and pairs of columns.
typedef struct {
    const TileOp *op;          // NULL: none
    u8 layout;                 // FragKind of the fragment that it runs over
    int block, half, pair;     // unroll variables, -1: that loop does not exist
    int part, byte;            // of operands of 8 and 32 bits: half of an atom's columns, element
    const Operand *pair_regs;  // staged f32 pairs of packed destinations, by fset
    VEC(const TileOp *) packed; // the fsets they belong to
} ApplyState;

// A subexpression of an apply that depends on the row only, and the f32 register that holds it.
typedef struct {
    const TExpr *e;
    Operand value;
} Hoisted;

typedef struct Lower Lower;
struct Lower {
    // Input, and where the output goes. `tf` and `step` are this kernel's: its program, its launch.
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
    Map *mutables;             // '%' names that are written more than once: never cached
    Map *varies;               // expression -> (void *)1: uses none of them, 2: uses one

    IndexCache cache;
    IndexCache prologue_cache; // the same for the kernel's entry, valid everywhere
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
    // wgmma or the TMA unit accesses this shared buffer somewhere
    bool async_buf[LOWER_MAX_BUFFERS];
    VEC(MbarInit) mbars;
    EventState *events;        // per event
    Map *residues, *scalar_index; // of slot.c: its fixed points; scalars by name
    Map *differs;              // '%' names that may differ between the blocks of a cluster
    bool uses_peers;           // something goes to other blocks of the cluster
    bool event_buf[LOWER_MAX_BUFFERS]; // shared buffers that events hand over
    bool *protects;            // event * buffers + memory: it hands that buffer back; NULL: no events
    u8 used_by[LOWER_MAX_BUFFERS]; // role (1: none) that uses it, 0: unused, USED_BY_SEVERAL
    int roles_seen;            // so far, by handoff_init
    // Shared buffers of which every warpgroup has a part that nobody else accesses: a barrier of the
    // warpgroup is enough between accesses.
    bool own_buf[LOWER_MAX_BUFFERS];
    int group_leader;          // predicate register + 1: first thread of its warpgroup; 0: not made
    int group_id;              // register + 1 with the named barrier of the warpgroup; 0: none yet
    bool *future_mma;          // the future is a product's
    Map *scalar_of;            // name of a scalar -> (void *)(scalar + 1)
    bool *scalar_uniform;      // the same in all threads of a role
    bool *scalar_in_warp;      // the same in all lanes of a warp
    bool moves_registers;      // setmaxnreg is used ...
    VEC(RegisterShare) shares; // ... by these threads, in program order
    VEC(InFlight) inflight;    // in order of commit
    int written[PIN_MAX], nwritten; // row vectors written since the last commit or wait
    ThreadRange role;          // threads that run what is being lowered
    int role_id;               // named barrier of the role, -1: none yet
    // Named barriers: ids 1 to named_low are given to roles, ids above named_high to events. They
    // meet in the middle, so neither kind has a share of its own.
    int named_low, named_high;

    ApplyState apply;
    VEC(Hoisted) hoisted;      // row-only subexpressions, computed before the loop over columns
    const Expr *zeros[TILE_MAX_RANK]; // coordinates of the origin

    // Where we are.
    u8 level;                  // innermost PAR level
    VEC(const char *) par_vars[LEVEL_COUNT]; // variables of each level, with '%'
    int lane_depth;            // regions that only some lanes of a warp enter
    int uniform_depth;         // regions whose condition depends on the thread: no barrier inside
    int depth;
    SyncState sync;
    // What roles of this level did since the last barrier that all pass: other roles do not wait for
    // it, what follows the roles does.
    SyncState beside;
    bool dry;                  // sync analysis of a loop body: nothing is emitted
    // Each is computed at the kernel's entry once it is asked for, so all code may read it.
    int rank, peer_lane, peer_lanes; // clusters: place of the block; lane; lane < blocks
    int tid, one_lane, frag_row, frag_col, smem, one, zero; // prologue registers, -1: not made
    Map *elect;                // leader thread + 1 -> predicate register + 1
    int groups;                // enclosing PAR levels of warpgroups
    ThreadBlock prologue;
};

// ---- lower.c
// Lowers the operations of a block in order, each with the barriers that must stand before it.
// Stops at the first error.
void lower_block(Lower *l, const TileBlock *block);
// Reports at most one error per kernel: what follows the first one is mostly its consequence.
void lower_error(Lower *l, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
// The kernel parameter of that name, made at its first use; its value at launch is `arg`. Index
// into ThreadFn.params and into PlanStep.args, which run in step.
int lower_param(Lower *l, const char *name, ParamKind kind, PlanArg arg);
// `count` registers as an array; the thread IR makes the name unique. Single ones can be named by
// expressions (lower_reg_expr).
int lower_new_reg(Lower *l, const char *name, RegClass c, int count);
// Registers that are computed once at the kernel's entry.
int lower_tid(Lower *l);
int lower_frag_row(Lower *l);  // row of the lane's first element in a 64-row fragment
int lower_frag_col(Lower *l);  // 2 * (lane % 4)
int lower_elect(Lower *l);     // predicate: first thread of the role
int lower_pred_const(Lower *l, bool value);
int lower_thread_registers(const Lower *l); // what a thread has here, after setmaxnreg
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
// Both take variables of the tile IR only after lower_subst. The 32-bit form wraps; callers that
// need more than 31 bits (byte offsets in global memory) ask for 64.
Operand lower_index(Lower *l, const Expr *e);
Operand lower_index64(Lower *l, const Expr *e);
const Expr *lower_subst(Lower *l, const Expr *e); // apply variables replaced
// e = rest + imm, imm an affine function of unroll variables and constants; rest may be NULL (0).
Operand lower_split(Lower *l, const Expr *e, const Expr **rest);
const Expr *lower_reg_expr(Lower *l, int reg);    // "%name" of a scalar register
const Expr *lower_const(Lower *l, i64 v);
Operand lower_compare(Lower *l, ThreadCmp c, const Expr *a, const Expr *b); // a predicate
int lower_and(Lower *l, Operand p, Operand q);    // predicate register p && q
// Opens a region that is printed `trips` times; *var is its counter as an expression. Returns the
// height of the register cache, which lower_close cuts back to: what was computed inside is not
// defined outside.
int lower_open_unroll(Lower *l, const char *name, int trips, const Expr **var, ThreadBlock **saved);
void lower_close(Lower *l, ThreadBlock *saved, int mark);
// Height of the register cache, and the cut back to it without closing a region.
int lower_cache_mark(const Lower *l);
void lower_cache_cut(Lower *l, int mark);
bool lower_uses_mutable(const Lower *l, const Expr *e);
// Expression of a register that counts from lo to hi; names it in expressions.
const Expr *lower_loop_var(Lower *l, int reg, i64 lo, i64 hi);
void lower_hoist(Lower *l, const TileOp *loop);   // hoist.c: divisions of a loop that do not change
// TMA: one thread issues, the unit writes through the async proxy, and an mbarrier tells the end.
// CP_ASYNC: each thread copies chunks of 4, 8 or 16 bytes and waits for its own. REGISTERS: load
// and store, at any alignment and in both directions.
typedef enum { CARRY_TMA, CARRY_CP_ASYNC, CARRY_REGISTERS } CopyCarrier;
CopyCarrier lower_carrier(Lower *l, const TileOp *op); // who moves the bytes of a copy
void lower_wait_mbar(Lower *l, int buffer, int phase); // waits and turns the phase register

// ---- memory.c
typedef struct {
    Operand base, offset;      // address operands of a memory operation
    MemRef ref;
} Address;
int lower_buffer(Lower *l, int tile_buffer);      // thread buffer of a tile buffer
// at: per view dimension, elements from its origin
Address lower_address(Lower *l, const TileView *v, const Expr *const *at);
// Predicate operand that is true when the coordinates are inside the view's limits; kind OPD_NONE
// when that is always so. `width`: that many elements of the last dimension, all of them.
Operand lower_inside(Lower *l, const TileView *v, const Expr *const *at, int width);
bool lower_row_dense(const Lower *l, const TileView *v); // of a row: side by side
// bytes that every row start of the view is a multiple of
i64 lower_global_align(Lower *l, const TileView *v);
int lower_shared_base(Lower *l, int buffer);      // register with the address of a shared buffer
Address lower_mbar_address(Lower *l, int buffer); // of slot 0 of a barrier buffer
void lower_emit_mem(Lower *l, ThreadOpcode op, ThreadType t, int n, const Operand *regs, Address a);

// ---- value.c
// Value of an expression as an operand: a register, or an immediate (also for a comparison whose
// result is known). A predicate may come back negated; only guards and `if` take that.
Operand lower_value(Lower *l, const TExpr *e);    // f32 for all float types up to 32 bits
ThreadType lower_type(DType t);                   // of the register that holds a value of type t
RegClass lower_class(DType t);
ThreadType lower_narrow_type(DType t);            // spelling of a type as source or target of cvt
ThreadType lower_memory_type(DType t);            // of its load and store
Operand lower_load(Lower *l, Address a, DType t);
void lower_store(Lower *l, Address a, DType t, const TExpr *value);
const Operand *lower_hoisted(Lower *l, const TExpr *e); // NULL: compute it here
int lower_scalar(Lower *l, int scalar);           // its register
Operand lower_element(Lower *l, int frag, int slot, const u8 *at, Loc loc); // inside an apply
Operand lower_round(Lower *l, Operand v, DType to); // f32 value -> b16 bits of a 16-bit float type
// Whether nothing is left to round to tf32: a cast has, or all numbers of the type are tf32 numbers.
bool lower_is_tf32(const TExpr *x);

// ---- the operations, one function a row of tile/ops.h
#define X(id, name, fields, meaning) void lower_op_##id(Lower *l, const TileOp *op);
TILE_OPS(X)
#undef X
// index + coef * unroll variable
Operand lower_plus(Lower *l, Operand o, const Expr *var, i32 coef);
void lower_flush_zero(Lower *l, int frag);        // writes a pending zero fill
void lower_flush_zeros(Lower *l);
// Per thread: an accumulator of N columns has N/2, a packed 16-bit operand N/4, a row vector 2.
int lower_frag_regs(const TileFrag *f);           // machine registers of one slot
int lower_frag(Lower *l, int frag);               // its register array

// ---- event.c
// In an apply over a vector only one of the threads that hold an element goes on, but for what is
// its own (a local buffer). Returns the guard to restore.
Operand lower_guard_owner(Lower *l, const TileBuffer *t);

// ---- device.c
void device_init(Lower *l);                       // which named barriers are the program's own

void event_init(Lower *l);                        // counts participants, makes the barriers
// Slots that orders of a ring fall on when a warpgroup evaluates them (slot.c): bit s = slot s.
u64 slots_of_group(Lower *l, const Expr *order, int slots, int group);
void event_prime(Lower *l);                       // first arrivals of named barriers
void event_copied(Lower *l, const TileOp *op, i64 bytes); // a copy by threads for its event
Address event_address(Lower *l, const TileOp *op); // mbarrier of op's event and order
// A committed product reads its shared operands and owns its accumulator until it is waited for:
// until then nothing may read the accumulator or write either operand's registers.
void product_flush(Lower *l);                     // waits for all products in flight
void product_wait(Lower *l, int future);
void product_note(Lower *l, int frag);            // a row vector was written
// an error when a product still uses it
void product_check(Lower *l, int frag, bool write, Loc loc);

// ---- cluster.c
void cluster_init(Lower *l);                      // what differs between its blocks; the rules
const Expr *cluster_rank(Lower *l);
void cluster_arrive(Lower *l, Address a, bool warps, bool publishes);
void cluster_meet(Lower *l, const TileOp *load);  // before one that is not handed over by an event
void cluster_end(Lower *l);                       // behind the kernel's last operation

// ---- handoff.c
void handoff_init(Lower *l);
// Fences what the trigger lets go by; changes the state alike in a dry run.
void handoff_protect(Lower *l, const TileOp *trigger);
bool sync_is_loose(const Lower *l);               // a proxy fence would order something
void sync_fenced(Lower *l);                       // one was emitted

// ---- sync.c
void sync_init(Lower *l);                         // finds the buffers of the async proxy
void sync_before(Lower *l, const TileOp *op);     // barriers that must stand before op
void sync_after(Lower *l, const TileOp *op);
void sync_loop(Lower *l, const TileOp *loop);     // brings l->sync to the loop's fixed point
// Before a region: waits for pending loads that it touches. After it: for those it started.
void sync_enter(Lower *l, const TileOp *region);
void sync_leave(Lower *l, const SyncState *before);
void sync_merge(SyncState *a, const SyncState *b);
typedef struct {
    SyncState sync, beside;
} RoleSync;
RoleSync sync_role_enter(Lower *l, const TileOp *role); // before l->role changes
void sync_role_leave(Lower *l, const RoleSync *outer);
// What the roles did belongs to the level from here on.
void sync_join(Lower *l);
void sync_barrier(Lower *l);                      // waits, fences, barrier of the block
void sync_group(Lower *l);                        // plain barrier of the warpgroup
Operand sync_group_leader(Lower *l);              // predicate: the first thread of its warpgroup
// A store of the TMA unit that is waited for only where its tile is written again, or at the end of
// the role.
bool lower_store_runs_on(Lower *l, const TileOp *op);

#endif
