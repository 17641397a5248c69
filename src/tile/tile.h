// tile.h - the tile IR: a kernel as operations on whole tiles, fragments and scalars, with its
// parallel structure. Made from the typed AST (from_ast.c), changed by the passes of src/pass.c,
// lowered to thread IR (src/lower). No machine registers, no barriers that the machine knows, no
// addresses.
//
// Integers are Expr (base/expr.h). Variables in them: plan symbols by plain name (M, S); everything
// bound inside the kernel with a leading '%': block and parallel variables, loop variables, apply
// variables and mutable integer scalars. Names are unique in a kernel (a second `i` is `%i.2`).
// Immutable integer names of the source do not exist here: they are their expression.
//
// Out of bounds: a view may run over its limits. Reading there gives zero, writing does nothing;
// this holds for copies and mma.store. Element accesses (TX_ELEM, STORE) must be inside.
#ifndef BATON_TILE_H
#define BATON_TILE_H

#include "../plan/plan.h"
#include "ops.h"

enum { TILE_MAX_RANK = 6 };
// In place of an apply variable: the element is the thread's own at[1], in the order of registers.
enum { TILE_AT_REG = 255 };

// Levels of parallelism, outer to inner, with their threads: block (all), warpgroup 128, warp 32.
typedef enum { LEVEL_BLOCK, LEVEL_GROUP4, LEVEL_WARP, LEVEL_THREAD, LEVEL_COUNT } TileLevel;
extern const char *const tile_level_name[LEVEL_COUNT]; // "block" "group-4" "group" "thread"

// What stands before the trigger that hands back a slot whose values threads have read: the proxy
// fence; nothing, since a use that the assembler cannot move binds them; a fence of the block, or
// nothing. The last two are unsound, they exist to show the race (docs/verification.md).
typedef enum {
    HANDOFF_DEFAULT, HANDOFF_PROXY, HANDOFF_DELAY, HANDOFF_MEMBAR, HANDOFF_NONE, HANDOFF_COUNT
} TileHandoff;
extern const char *const tile_handoff_name[HANDOFF_COUNT]; // "default" "proxy" "delay" ...

// TB_LOCAL: every thread has one of its own.
typedef enum { TB_GLOBAL, TB_SHARED, TB_LOCAL } TileBufferKind;
typedef struct {
    const char *name;              // of the source; unique
    u8 kind;                       // TileBufferKind
    DType type;
    int rank;
    const Expr *dim[TILE_MAX_RANK]; // extents in elements; shared: constants
    const Expr *stride[TILE_MAX_RANK]; // TB_GLOBAL: elements from one index to the next; NULL: dense.
                                   // A dimension may be there for the place of a view alone
    int param;                     // TB_GLOBAL: index in plan->params
    int slots;                     // not TB_GLOBAL: elements of an array of buffers, 1: plain
    SmemLayout layout;             // TB_SHARED: by the copies that fill it (one swizzle per buffer)
    u8 handoff;                    // TileHandoff; HANDOFF_DEFAULT: the module's
    int alias;                     // TB_SHARED: 1 + the buffer whose elements these are, in the same
                                   // order under another shape; 0: memory of its own
    Loc loc;
} TileBuffer;

typedef struct {
    const char *name;
    DType type;
    int rank;                      // 1 or 2
    i64 dim[2];                    // rows, columns of the logical tile of one instance of `level`
    int slots;                     // array of fragments, 1: plain; slot indices are constants
    u8 level;                      // scope that it is distributed over (LEVEL_GROUP4: 128 threads)
    u8 layout;                     // FragKind; FL_NONE until tile/infer.c
    Loc loc;
} TileFrag;

typedef struct {
    const char *name;              // with its '%', unique; without: the float parameter of that name
    DType type;
    Loc loc;
} TileScalar;                      // a per-thread variable (mutable, or of a float or loaded value);
                                   // a name without '%': the f32 parameter of that name, never set

// An event of shared memory: a ring of slots, each with generations 0, 1, 2 ... An order n names slot
// n % slots and generation n / slots; a wait returns once that generation is complete. A generation
// completes by the bytes of the copies bound to it, or by an arrival of every thread that triggers it.
typedef struct {
    const char *name;
    int slots;
    bool ready;                    // generation -1 is complete at the start: the first wait passes
    bool scalar;                   // declared without [N]: waits and triggers carry no order
    bool turns;                    // of loads whose names turn: an order is a slot, whose generations
                                   // the waits for it count
    bool hands;                    // made by a pipeline: it hands back slots, and is for nothing else
    bool gives;                    // made by a pipeline, for a buffer that is filled once: behind the
                                   // wait it belongs to those who waited, who write to it as well
    int count;                     // event<N>: arrivals as written, checked against the computed ones; 0: none
    Loc loc;
} TileEvent;

typedef struct {                   // a box of a buffer
    int buffer;                    // index into TileKernel.buffers; -1: no view
    const Expr *slot;              // arrays of shared buffers; NULL: slot 0
    const Expr *origin[TILE_MAX_RANK]; // per dimension of the buffer: first element
    const Expr *extent[TILE_MAX_RANK]; // elements; 1 where the dimension was dropped
    const Expr *limit[TILE_MAX_RANK];  // first element that is no longer inside (<= buffer extent)
    int rank;                      // dimensions that the view keeps ...
    u8 dim[TILE_MAX_RANK];         // ... and which dimensions of the buffer they are, ascending
} TileView;

// Typed scalar expressions.
typedef enum {
    TX_FLOAT,   // fvalue, of `type` (a float type)
    TX_INDEX,   // index: integer expression, type s32 (or s64, u32 ...)
    TX_SCALAR,  // scalar: index into TileKernel.scalars (integer scalars may also be TX_INDEX "%n")
    TX_FRAG,    // frag.at(...): frag, slot, at[0..rank): which apply variable indexes it (0 or 1),
                // or TILE_AT_REG and a number
    TX_ELEM,    // memory element: view (a single element: all extents 1), type = element type
    TX_MATH,    // math on a, b, c; comparison operands may be any type, result bool
    TX_CAST,    // value of a converted to type; round to nearest even, to integers toward zero
    TX_BITCAST, // bits of a as type
} TExprKind;
typedef struct TExpr TExpr;
struct TExpr {
    u8 kind;
    u8 math;                       // TileMath
    DType type;
    Loc loc;
    double fvalue;
    const Expr *index;
    int scalar, frag, slot;
    u8 at[2];
    TileView *view;
    const TExpr *a, *b, *c;
};

typedef struct {                   // operand of a matrix product
    int frag;                      // >= 0: register operand (A only) ...
    int frag_slot;
    TileView view;                 // ... else shared tile
    bool trans;                    // A given as [K, M] ("col" first word); B given as [K, N] ("col" second)
} TileOperand;

typedef enum { ENGINE_DMA, ENGINE_TMA } TileEngine;
typedef enum { HINT_NONE, HINT_EVICT_FIRST, HINT_EVICT_LAST } TileHint;
typedef enum { REDUCE_MAX, REDUCE_SUM, REDUCE_ALL_SUM } TileReduce; // ALL_SUM: in place, over the quad

typedef struct TileOp TileOp;
typedef VEC(TileOp *) TileBlock;
struct TileOp {
    u8 op;                         // TileOpcode
    u8 level;
    Loc loc;
    const char *var, *var2;        // bound variables with '%' (var2: second of apply; NULL for 1-D)
    const Expr *lo, *hi, *step;    // for; par: hi; role: threads lo .. hi
    const TExpr *cond, *value;
    TileView dst, src;             // copy, mma.store (dst)
    TileView elem;                 // store: the memory element
    u8 elem_at[2];                 // fset: apply variables that index the element of frag
    int frag, frag_slot, frag2, frag2_slot;
    int scalar;
    int future;                    // copy, mma: future it makes (-1: synchronous); wait: future
    int event;                     // event.wait, trigger; copy: the event it completes, or -1
    bool cluster;                  // copy: each block of the cluster brings a part of the tile to
                                   // all of them; trigger: arrives in all of them
    u8 handoff;                    // trigger: TileHandoff of the slot; DEFAULT: nobody read it
    const Expr *order;             // of the event; NULL for a scalar event
    TileOperand a, b;
    u8 engine, hint;
    SmemLayout swizzle;            // copy to shared, as written
    int promote;                   // tma: bytes that the L2 cache fetches at least, 0: not said
    i64 imm;
    int stages;                    // for: slots of the copies inside ([[pipeline]]), 0: no pipeline
    int load_regs, compute_regs;   // for: registers of the roles that it asks for, 0: not said
    const char *text;              // print: %lld, %llu and %g stand for its values
    TileBlock body, other;
};

typedef struct {
    const char *name;              // kernel name: function, or function_2 for its second parallel
    const Expr *when;              // host-level condition, or NULL
    int ngrid;
    const char *grid_var[3];       // with '%'; x first
    const Expr *grid[3];
    int cluster;                   // blocks of a cluster, neighbours in x; 0: no cluster level
    int threads;                   // of the block: product of the inner levels
    int max_threads, min_blocks, maxnreg; // attributes; 0: not given
    bool sequential;               // attribute: its pipelines stay loops
    VEC(TileBuffer) buffers;
    VEC(TileFrag) frags;
    VEC(TileScalar) scalars;
    VEC(const char *) futures;     // names, for messages
    VEC(TileEvent) events;
    TileBlock body;
    Loc loc;
} TileKernel;

// The buffer whose memory this is.
static inline int tile_memory(const TileKernel *k, int buffer)
{
    return buffer >= 0 && k->buffers.at[buffer].alias ? k->buffers.at[buffer].alias - 1 : buffer;
}

typedef struct {
    const char *name;
    Plan *plan;                    // parameters, symbols and checks; steps come with the lowering
    VEC(TileKernel *) kernels;     // in program order
    Loc loc;
} TileFn;

// What the command line asks of a program beside its source.
typedef struct {
    bool sequential;               // no pipelines: loops that ask for one stay as they are written
    u8 handoff;                    // TileHandoff of buffers that say nothing; 0: proxy
    bool unsafe;                   // unsound policies are allowed
    bool assembled;                // machine code is made here and audited, so `delay` may be used
} TileOptions;

typedef struct {
    Arena *arena;
    Intern *names;
    ExprPool *exprs;
    Diag *diag;
    TileOptions options;
    int unsound, delayed;          // triggers with an unsound policy, with `delay` (handoff.c)
    VEC(TileFn *) fns;
} TileModule;

typedef struct {
    const char *name, *fields, *meaning;
} TileOpInfo;
extern const TileOpInfo tile_op[TOP_COUNT];
typedef struct {
    const char *name;
    u8 args;
    char result;
} TileMathInfo;
extern const TileMathInfo tile_math[TM_COUNT];

// protects[event * buffers + memory] becomes true where the event hands that buffer back; protect.c.
void tile_protections(const TileKernel *k, bool *protects);
// ---- handoff.c
// Of its slots, as it will be: `delay` only where machine code is made.
u8 tile_policy(const TileModule *m, const TileBuffer *b);
// ---- pin.c
// Place of the list, at least `last`, behind whose operation all values that operations first .. last
// read from the buffer have a pinned use; -1: there is none.
int tile_pinned_at(const TileModule *m, const TileKernel *k, const TileBlock *list, int first,
                   int last, int buffer);

// ---- print.c, read.c: text, exact in both directions; check.c: the law ---------------------------
void tile_print(const TileModule *m, Buf *out);
TileModule *tile_read(Arena *a, Intern *names, ExprPool *p, Diag *d, u16 file, const char *text, size_t n);
bool tile_check(const TileModule *m);             // errors go to m->diag; true when there is none

#endif
