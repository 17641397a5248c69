// cuda_impl.h - what the files of the CUDA printer share. cuda_tree.c copies a kernel into a tree
// of statements and decides where each register is declared; cuda_fold.c finds values that need no
// name; cuda_wgmma.c finds which registers the
// tensor cores hold at each place; cuda_op.c, cuda_mem.c and cuda_wgmma.c print operations;
// cuda_host.c prints the launcher; cuda.c the frame.
//
// Names in the text: registers, parameters and unroll variables keep theirs, but where C++ or
// another one has it; functions for single instructions start with ptx_, other things of the
// printer with baton_. Registers are unsigned bits (bool, uint16_t, uint32_t, uint64_t) or float;
// signed operations cast, so that integers wrap as the machine's do.
#ifndef BATON_CUDA_IMPL_H
#define BATON_CUDA_IMPL_H

#include "../thread/check.h"
#include "cuda.h"

// ---- the tree -----------------------------------------------------------------------------------
// A part of an array of registers: [first, first + count).
typedef struct {
    int reg, first, count;
} CudaRange;
typedef VEC(CudaRange) CudaRanges;

typedef struct CudaBlock CudaBlock;
// One operation. Guards are gone: operations in a row under one guard stand in an OP_IF.
typedef struct {
    ThreadOp op;
    CudaBlock *body, *other; // of a region
    CudaRanges hold;         // wgmma.fence, wgmma.wait, unroll: registers that uses must not move
                             // across it
    bool fresh;              // wgmma: the accumulator's old contents do not count
    bool folded;             // its value stands as an expression where it is used (cuda_fold.c)
} CudaStmt;
struct CudaBlock {
    CudaBlock *parent; // NULL: the kernel's body. The body of a `for` has the loop's scope above
    int at;                  // it, a block without statements: index of the region in its parent
    int depth;
    bool loop;               // body of a `for` or `unroll`
    bool scope;              // the scope of a `for`, where its variable may live
    VEC(CudaStmt) stmts;
    VEC(int) residents;      // registers whose home it may be, while that is found out
    VEC(int) declares;       // registers that live in this block, by the statement of first use
    int declared;            // how many of them are printed
};

typedef struct {
    const char *name;
    CudaBlock *home;         // where it is declared; NULL: never used
    int first;               // statement of `home` that uses it first, -1: not yet known
    int reads, writes;       // operations that do
    int constant;            // a predicate that is only ever 0 or 1; -1: none
    const char *text;        // of a folded value, from its statement on; NULL: it goes by its name
    bool late;               // its first value is folded; the statement of the second declares it
} CudaReg;

// ---- the printer --------------------------------------------------------------------------------
typedef struct {
    const CudaSource *source;
    const ThreadModule *mod;
    Arena *arena;
    Intern *names;
    Map *helpers_made;       // names of the functions in `helpers`
    Buf *helpers;
    const u32 *line_start;   // byte of each line of the source; [nlines] is its end
    int nlines;
    bool uses_smem;
    // of one kernel
    const ThreadFn *fn;
    Buf *out;
    int depth;               // of indentation
    int tid;                 // register that holds the thread's index all the time; -1: none
    CudaReg *reg;
    const char **param_name, **unroll_name;
    i64 *value;              // of unroll variables, while the tree is simulated
    int pending;             // register to be declared by the assignment that comes, or -1
    bool uses_warp, policy_first, policy_last;
    u32 last_line;           // written as a comment
    const char *print_arg[PRINT_MAX_ARGS]; // values of the print that follows
} Cuda;

// cuda_tree.c
typedef void CudaVisit(void *ctx, const Operand *o, bool write);
// Calls back for every register operand of an operation without its regions: reads first.
void cu_visit(const CudaStmt *s, CudaVisit *visit, void *ctx);
CudaBlock *cu_tree(Cuda *x);            // also fills x->reg but for the names
bool cu_whole_role(const ThreadFn *f, const ThreadOp *op); // do all warps run it?

// cuda_op.c: tid >> 5 or more, which all lanes of a warp agree on
bool cu_same_in_warp(const Cuda *x, const ThreadOp *op);

// cuda_fold.c
void cu_find_folded(Cuda *x, CudaBlock *body); // fills CudaStmt.folded

// cuda_names.c
void cu_name_kernel(Cuda *x, CudaBlock *body);
const char *cu_unique(Cuda *x, Map *taken, const char *name, const char *suffix);
Map *cu_reserved(Cuda *x);              // words that no name of the program may have

// cuda_wgmma.c
void cu_find_held(Cuda *x, CudaBlock *body); // fills CudaStmt.hold and .fresh
void cu_print_hold(Cuda *x, const CudaStmt *s);

// cuda.c
void cu_line(Cuda *x, const char *fmt, ...) PRINTF_LIKE(2, 3); // indented, with its end of line
// "name = value;" and the MemRefs of the operation as a comment; declares the register if it is
// due.
void cu_assign(Cuda *x, const CudaStmt *s, const char *fmt, ...) PRINTF_LIKE(3, 4);
void cu_call(Cuda *x, const CudaStmt *s, const char *fmt, ...) PRINTF_LIKE(3, 4); // statement
const char *cu_text(Cuda *x, const char *fmt, ...) PRINTF_LIKE(2, 3);             // in the arena
const char *cu_element(Cuda *x, const Operand *o, int k); // element k of a register operand
const char *cu_start(Cuda *x, const Operand *o);          // "acc + 16": pointer to a range
const char *cu_src(Cuda *x, const Operand *o, ThreadType t);    // unsigned bits, or float
const char *cu_signed(Cuda *x, const Operand *o, ThreadType t); // a signed integer
const char *cu_address(Cuda *x, const Operand *o);        // "at + 16 * b" of two operands
const char *cu_index(Cuda *x, const Operand *o, i64 plus); // affine position as text
extern const char *const cu_class[RC_COUNT];              // C type of a register
extern const char cu_constraint[RC_COUNT];                // of inline assembly
// True for the first use of a helper; then cu_define writes it.
bool cu_need(Cuda *x, const char *name);
void cu_define(Cuda *x, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define CUDA_FUNCTION "static __device__ __forceinline__ "

// ---- rows ---------------------------------------------------------------------------------------
typedef void CudaHandler(Cuda *x, const CudaStmt *s);
// cuda_op.c; cu_asm wraps the PTX spelling of ops.h.
CudaHandler cu_asm, cu_mov, cu_add, cu_multiply, cu_mulwide, cu_divide, cu_minmax,
    cu_neg, cu_abs, cu_bitwise, cu_not, cu_shift, cu_sqrt, cu_setp, cu_selp, cu_cvt,
    cu_cvtpack, cu_pack, cu_unpack, cu_shfl, cu_vote;
// cuda_mem.c
CudaHandler cu_ldparam, cu_load, cu_store, cu_atomic, cu_print_arg, cu_print_text,
    cu_matrix_load, cu_matrix_store, cu_cpasync,
    cu_tma_load, cu_tma_store, cu_tma_prefetch, cu_mbar_wait, cu_pin, cu_delay, cu_clock,
    cu_mbar_arrive_cluster;
// cuda_wgmma.c
CudaHandler cu_wgmma, cu_wgmma_fence, cu_wgmma_wait;
// cuda.c
CudaHandler cu_for, cu_unroll, cu_if, cu_role, cu_exit;

void cu_kernel(Cuda *x, const ThreadFn *f, Buf *out); // cuda.c: one whole kernel

// cuda_host.c: the launcher; its prototype goes to `prototype`.
void cu_print_launcher(Cuda *x, const Plan *p, Buf *prototype, Buf *out);

#endif
