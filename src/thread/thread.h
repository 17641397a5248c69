// thread.h - the thread IR: one structured program per kernel over typed virtual registers, with
// the machine operations of Hopper. All back ends, the emulator and the verifier read this and
// nothing above it.
//
// Structure, not SSA: regions (for, if, unroll, role) nest; a virtual register may be written many
// times; wgmma accumulators are updated in place. A register is an array of `count` machine
// registers; an operand names one element or a range of it, at a constant position that may depend
// on the variables of enclosing `unroll` regions (an affine index). Unrolling is how 64 accumulator
// registers are one line of text; printers and the emulator expand it.
//
// Memory operations carry the flat address that the machine uses, and beside it a MemRef: buffer,
// and one coordinate per dimension. The checker proves that both name the same bytes.
//
// Invariants (thread/check.c states all): operand kinds and classes fit the row in ops.h; every
// unroll variable in an index is bound by an enclosing region; register indices stay in range for
// all values of the unroll variables; collective operations do not stand under a lane-dependent
// `if`; barrier ids are 1..15 (0 is the CTA's), counts multiples of 32; role ranges are disjoint.
#ifndef BATON_THREAD_H
#define BATON_THREAD_H

#include "../base/expr.h"
#include "../target/layout.h"
#include "ops.h"

// Register classes and the types of operations on them.
// A class is what PTX declares a register as; types are what operations make of its bits.
typedef enum { RC_PRED, RC_B16, RC_B32, RC_B64, RC_F32, RC_COUNT } RegClass;
//              id         text     class
#define THREAD_TYPES(X)              \
    X(TT_NONE, "", RC_B32)           \
    X(TT_PRED, "pred", RC_PRED)      \
    X(TT_B8, "b8", RC_B16)           \
    X(TT_B16, "b16", RC_B16)         \
    X(TT_B32, "b32", RC_B32)         \
    X(TT_B64, "b64", RC_B64)         \
    X(TT_S32, "s32", RC_B32)         \
    X(TT_U32, "u32", RC_B32)         \
    X(TT_S64, "s64", RC_B64)         \
    X(TT_U64, "u64", RC_B64)         \
    X(TT_F32, "f32", RC_F32)         \
    X(TT_S16, "s16", RC_B16)         \
    X(TT_U16, "u16", RC_B16)         \
    X(TT_F16, "f16", RC_B16)         \
    X(TT_BF16, "bf16", RC_B16)       \
    X(TT_TF32, "tf32", RC_B32)       \
    X(TT_E4M3, "e4m3", RC_B16)       \
    X(TT_E5M2, "e5m2", RC_B16)       \
    X(TT_F16X2, "f16x2", RC_B32)     \
    X(TT_BF16X2, "bf16x2", RC_B32)   \
    X(TT_E4M3X2, "e4m3x2", RC_B16)   \
    X(TT_E5M2X2, "e5m2x2", RC_B16)   \
    X(TT_S8, "s8", RC_B16)           \
    X(TT_U8, "u8", RC_B16)
typedef enum {
#define X(id, text, class) id,
    THREAD_TYPES(X)
#undef X
    TT_COUNT
} ThreadType;
// Meaning of types in single operations: b8 loads zero-extend into a b16 register and b8 stores
// write its low byte; cvt from s16/u16 widens; cvt to e4m3/e5m2 saturates and leaves the high byte
// 0. cvt.pack.bf16x2 d, a, b (a, b: f32) puts a into the HIGH half and b into the low half, as PTX
// does; so do f16x2, e4m3x2, e5m2x2 (the last two in b16, saturating). pack.b32 d, a, b (b16 a, b;
// b64: b32 a, b) has a in the LOW half, and unpack.b32 a, b, s gives the low half to a. tf32 in a
// register is b32. wgmma: `type` is f32, of the accumulators; `type2` the type of A and B.

typedef enum { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_COUNT } ThreadCmp;
// f32 comparisons are ordered (false on NaN) except NE, which is true on NaN (setp.neu).

// CTAs of a cluster: the size that every device of sm_90 takes.
enum { THREAD_MAX_CLUSTER = 8 };

// Unroll variables in one index: tile loops nest three deep at most, one more is spare.
enum { INDEX_TERMS = 4 };
typedef struct {
    u16 var;  // index into ThreadFn.unrolls
    i32 coef; // what one step of the variable adds
} IndexTerm;

typedef enum {
    OPD_NONE,
    OPD_REG,   // fn->regs[reg], elements [base + index, + count)
    OPD_IMM,   // integer base + index
    OPD_FIMM,  // f32 with bits (u32)base
    OPD_SREG,  // special register `reg` (SpecialReg); only in mov
    OPD_PARAM, // kernel parameter `reg`
} OperandKind;
typedef struct {
    u8 kind;      // OperandKind
    u8 nterms;    // entries of term[]
    bool negate;  // predicates only: !p
    u16 count;    // registers in a range operand; 1 otherwise
    i32 reg;      // OPD_REG, OPD_SREG, OPD_PARAM: index
    i64 base;     // constant part of the index, or the value
    IndexTerm term[INDEX_TERMS]; // affine part over unroll variables
} Operand;

//              id            text      PTX
#define SPECIAL_REGS(X)                            \
    X(SR_TID, "tid", "%tid.x")                     \
    X(SR_CTAID_X, "ctaid.x", "%ctaid.x")           \
    X(SR_CTAID_Y, "ctaid.y", "%ctaid.y")           \
    X(SR_CTAID_Z, "ctaid.z", "%ctaid.z")           \
    X(SR_NCTAID_X, "nctaid.x", "%nctaid.x")        \
    X(SR_NCTAID_Y, "nctaid.y", "%nctaid.y")        \
    X(SR_NCTAID_Z, "nctaid.z", "%nctaid.z")        \
    X(SR_LANE, "lane", "%laneid")                  \
    X(SR_CLUSTER_RANK, "cluster.rank", "%cluster_ctarank") \
    X(SR_SMEM, "smem", "") /* byte address of the dynamic shared arena */
typedef enum {
#define X(id, text, ptx) id,
    SPECIAL_REGS(X)
#undef X
    SR_COUNT
} SpecialReg;

// A place in a buffer: what the program means by the address beside it.
typedef struct {
    int buffer;            // index into ThreadFn.buffers
    int ncoord;            // equals the buffer's rank
    const Expr *coord[6];  // one per dimension of the buffer, in elements (barriers: the slot)
} MemRef;

// Buffers. A shared tile with several slots has the slot as its first dimension.
// Several shared buffers may lie on the same bytes when their lifetimes do not meet.
typedef enum { BUF_SHARED, BUF_GLOBAL, BUF_MBAR } BufferKind;
typedef struct {
    const char *name;      // from the source, interned
    u8 kind;               // BufferKind
    DType type;            // element type (not for BUF_MBAR)
    int rank;              // dimensions, 0 to 6
    const Expr *dim[6];    // extents, elements; constants for shared buffers and barriers
    // BUF_SHARED, BUF_MBAR: bytes from the start of the dynamic arena; layout of the last two
    // dimensions (SL_ROW: row-major in all). A barrier slot is 8 bytes.
    i64 offset;
    SmemLayout layout;
    // BUF_GLOBAL: kernel parameter that holds its address, and strides in elements.
    int param;
    const Expr *stride[6];
    Loc loc;
} ThreadBuffer;
i64 thread_buffer_bytes(const ThreadBuffer *b); // shared and mbar only; -1: not a constant, or too large
// Byte offset of an element from the start of the buffer (shared and mbar): leading dimensions count
// whole tiles, the last two are laid out by b->layout. Constant extents, coordinates in range.
i64 thread_buffer_offset(const ThreadBuffer *b, const i64 *coord);

typedef enum { PARAM_PTR, PARAM_S32, PARAM_S64, PARAM_F32, PARAM_TMAP } ParamKind;
typedef struct {
    const char *name;      // unique in the kernel; a tensor map is "tmap_<buffer>_<n>"
    u8 kind;               // ParamKind; PARAM_TMAP is 128 bytes, aligned to 64
} ThreadParam;

typedef struct {
    const char *name;
    u8 class;              // RegClass
    int count;             // machine registers, 1..1024
} ThreadReg;

typedef struct ThreadOp ThreadOp;
typedef VEC(ThreadOp *) ThreadBlock;

struct ThreadOp {
    u8 op;                 // ThreadOpcode
    u8 type, type2;        // ThreadType suffix; source type of cvt; wgmma: type of A and B
    u8 cmp;                // setp: ThreadCmp
    // Attribute, by op: vector width of ld/st (1, 2, 4); matrices of ldmatrix/stmatrix (1, 2, 4);
    // bytes of cp.async (4, 8, 16); rank of tma.load/store; N of *.wait, setmaxnreg; N extent of
    // wgmma; shfl: ShflMode; unroll: trip count; for: unused; role: number of warps.
    u16 n;
    u16 flags;             // OPF_*
    i32 imm;               // role: first warp; unroll: index into fn->unrolls; for: register index
    Loc loc;               // in the .co source
    Operand guard;         // OPD_NONE, or a predicate register: lanes where it is false skip the op
    int nopnd;
    Operand *opnd;         // in the order of the row's signature
    // Address operands S, G, B take two operands: base (b32/b64 register, or OPD_IMM 0 never) and a
    // byte offset (OPD_IMM). mem[k] belongs to the k-th address operand, or to the k-th descriptor
    // of wgmma (A first): the tile [64, K] of A or [K, N] of B that it reads, at its origin.
    int nmem;
    MemRef *mem;
    ThreadBlock body, other; // regions; other: else branch of if
};
// for:  opnd[0] = register (written), opnd[1] = lo, opnd[2] = hi, opnd[3] = step (immediate > 0);
//       s32, body runs while reg < hi; bounds are equal in all lanes of a warp.
// if:   opnd[0] = predicate.

enum {
    // The bits mean different things in different operations; tables.c lists which has which.
    OPF_TRANS = 1,         // ldmatrix/stmatrix .trans
    OPF_TRANS_A = 1,       // wgmma: A is MN-major
    OPF_TRANS_B = 2,       // wgmma: B is MN-major
    OPF_NEG_A = 4,         // wgmma imm-scale -1
    OPF_NEG_B = 8,
    OPF_EVICT_FIRST = 1,   // tma.load cache hints
    OPF_EVICT_LAST = 2,
    OPF_MULTICAST = 4,     // tma.load: to the same place in all blocks of the cluster, bytes too
    OPF_RELEASE = 1,       // mbar.arrive.cluster: publishes data to the other block
    OPF_RZI = 1,           // cvt to integer toward zero (else nearest even where it rounds)
    OPF_UNIFORM = 1,       // if: the predicate is equal in all lanes of each warp
    OPF_LANES = 1,         // for: bounds may differ between lanes; each leaves after its own last
                           // round
};
// Source lane: own XOR x, x itself, own - x, own + x.
typedef enum { SHFL_BFLY, SHFL_IDX, SHFL_UP, SHFL_DOWN } ShflMode;
enum { PRINT_MAX_ARGS = 16 }; // values of one print
// What an atomic operation makes of the value in memory and its operand.
typedef enum {
    ATOM_ADD,
    ATOM_EXCH,
    ATOM_MIN,
    ATOM_MAX,
    ATOM_AND,
    ATOM_OR,
    ATOM_XOR,
    ATOM_CAS, // the rows cas.*; no attribute
    ATOM_COUNT
} AtomicKind;
extern const char *const atomic_name[ATOM_COUNT];

typedef struct {
    // One kernel. Indices into the vectors are the names that operands use; nothing is ever
    // removed.
    const char *name;      // kernel name in PTX, [A-Za-z_][A-Za-z0-9_]*
    int threads;           // of the CTA, a multiple of 32
    int maxnreg;           // 0: none given
    int min_ctas;          // 0: none given
    int cluster;           // CTAs of a cluster, 1: none
    i64 smem_bytes;        // dynamic shared memory
    VEC(ThreadParam) params; // the kernel's signature, in order
    VEC(ThreadBuffer) buffers;
    VEC(ThreadReg) regs;
    // Texts of `print`, with %lld, %llu and %g for the values of `print.arg`, in their order.
    VEC(const char *) texts;
    VEC(const char *) unrolls; // names of unroll variables ("i"), one per region that binds one
    ThreadBlock body;          // roles and what all warps do, in order
} ThreadFn;

typedef struct {
    Arena *arena;          // owns everything below
    ExprPool *exprs;       // of all coordinates, extents and strides; owns the names
    const Diag *diag;      // file names of Loc; may be NULL
    VEC(ThreadFn *) fns;   // kernels, in the order of the source
} ThreadModule;

typedef struct {
    // A row of ops.h as data; the columns are explained there.
    const char *name, *sig, *types, *form;
    u8 effect, scope, ptx;
} ThreadOpInfo;
// What an operation does besides writing its destinations, and whom it concerns. Passes may move,
// repeat or drop only EFF_PURE.
typedef enum { EFF_PURE, EFF_LOAD, EFF_STORE, EFF_ASYNC, EFF_SYNC, EFF_CTRL } OpEffect;
typedef enum { SCOPE_THREAD, SCOPE_WARP, SCOPE_GROUP, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU } OpScope;
extern const ThreadOpInfo thread_op[OP_COUNT];
extern const char *const thread_type_name[TT_COUNT];
extern const u8 thread_type_class[TT_COUNT];
extern const char *const thread_cmp_name[CMP_COUNT];
extern const char *const special_reg_name[SR_COUNT];

// ---- build.c: the only way to make operations -----------------------------------------------
// One builder makes all declarations of a kernel: it remembers which names are taken.
typedef enum { NAMES_REGS, NAMES_BUFFERS, NAMES_PARAMS, NAMES_UNROLLS, NAMES_COUNT } ThreadNames;
typedef struct {
    ThreadModule *mod;
    ThreadFn *fn;
    ThreadBlock *at;       // where the next operation goes
    Loc loc;               // given to it
    Operand guard;         // given to it
    Map *taken[NAMES_COUNT]; // per name space: the names in use; NULL: none yet
} ThreadBuilder;
void thread_take_names(ThreadBuilder *b); // for a kernel that has declarations already
int thread_add_reg(ThreadBuilder *b, const char *name, RegClass c, int count); // makes name unique
int thread_add_buffer(ThreadBuilder *b, ThreadBuffer buf);
// Each returns the index of the new declaration; buffers and parameters get unique names too.
int thread_add_param(ThreadBuilder *b, const char *name, ParamKind k);
// Operands by value. `reg` is an index as thread_add_reg returns it; what an index may be is
// checked later, by thread_check.
static inline Operand opd_reg(int reg, i64 index)
{
    return (Operand){.kind = OPD_REG, .count = 1, .reg = reg, .base = index};
}
static inline Operand opd_range(int reg, i64 index, int count)
{
    return (Operand){.kind = OPD_REG, .count = (u16)count, .reg = reg, .base = index};
}
static inline Operand opd_imm(i64 v) { return (Operand){.kind = OPD_IMM, .count = 1, .base = v}; }
static inline Operand opd_f32(float f)
{
    return (Operand){.kind = OPD_FIMM, .count = 1, .base = (i64)f32_bits(f)};
}
static inline Operand opd_sreg(SpecialReg r) { return (Operand){.kind = OPD_SREG, .count = 1, .reg = r}; }
static inline Operand opd_param(int k) { return (Operand){.kind = OPD_PARAM, .count = 1, .reg = k}; }
Operand opd_plus(Operand o, int var, i32 coef);   // adds coef * unroll variable to the index
// Appends an operation; operands in the order of its signature. Returns it for attributes.
ThreadOp *thread_emit(ThreadBuilder *b, ThreadOpcode op, ThreadType t, int n, const Operand *o);
#define EMIT(b, op, t, ...)                                                              \
    thread_emit((b), (op), (t), COUNT(((Operand[]){__VA_ARGS__})), (Operand[]){__VA_ARGS__})
ThreadOp *thread_emit0(ThreadBuilder *b, ThreadOpcode op, int attr_n); // no operands, attribute n
void thread_mem(ThreadBuilder *b, ThreadOp *op, MemRef ref);           // appends a MemRef
// Regions: open makes it and moves `at` inside; close restores it.
ThreadOp *thread_open_for(ThreadBuilder *b, int reg, Operand lo, Operand hi, i64 step, ThreadBlock **saved);
ThreadOp *thread_open_unroll(ThreadBuilder *b, const char *name, int trips, int *var, ThreadBlock **saved);
ThreadOp *thread_open_if(ThreadBuilder *b, Operand pred, ThreadBlock **saved);
ThreadOp *thread_open_role(ThreadBuilder *b, int first_warp, int warps, ThreadBlock **saved);
static inline void thread_close(ThreadBuilder *b, ThreadBlock *saved) { b->at = saved; }

// ---- print.c, read.c: text, exact in both directions -----------------------------------------
void thread_print(const ThreadModule *m, Buf *out);
// Reads a module; errors go to `d` with places in `file` (already added to d). Returns NULL on error.
// The module refers to nothing in `text`.
ThreadModule *thread_read(Arena *a, ExprPool *p, Diag *d, u16 file, const char *text, size_t n);

// ---- check.c: the law -------------------------------------------------------------------------
// Reports every broken rule as an error "thread IR: <kernel>: <op>: <rule>". Returns true when
// there is none.
bool thread_check(const ThreadModule *m, Diag *d);

#endif
