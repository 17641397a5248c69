// ast.h - the syntax tree of a .co file, and the one entry that makes it.
//
// Input: the bytes of a .co file and the -D definitions. Output: an AstFile: the contract lines,
// the host text (never parsed), and the tile functions and device helpers as trees of AstNode.
// Invariants: a tree is plain syntax: names are not looked up, types not computed. All nodes live
// in the caller's arena; names are interned, so they compare by pointer. A body is always an
// AST_BLOCK. A node has only the fields that its row below documents; all others are zero. A
// construct that did not parse is an AST_ERROR node (or is absent), and the Diag has an error.
#ifndef BATON_AST_H
#define BATON_AST_H

#include "../base/base.h"

// Operators and levels carry the prefix AST_: the thread IR has OP_ADD, the tile IR LEVEL_BLOCK.

// ---- kinds ----------------------------------------------------------------------------------
// Fields named in brackets may be NULL or empty. "v,*" = list of nodes of kind v.
typedef enum {
    AST_ERROR, // a place where parsing failed; skip silently, the error is in the Diag

    // -- functions
    AST_FUNC,  // name; type = return type; list = AST_PARAM,*; [list2] = template AST_PARAM,* of a
               // device helper; body; text,text_n = the source text of the whole function;
               // flags: AST_F_DEVICE for a __device__ helper (C dialect, as in AST_FOR)
    AST_PARAM, // [name]; type; storage (STOR_NONE or STOR_GLOBAL, STOR_SHARED/LOCAL are reported by
               // the parser, as is a misplaced '&'); flags: AST_F_REF for '&'. Device helpers: also
               // AST_F_POINTER, AST_F_CONST; list = array extents (`float x[4]`, may be empty:
               // `x[]`)
    AST_TYPE,  // name = as written; dtype = DType or -1 (void, auto, stream, or an element type
               // that the compiler has no arithmetic for); list = dims when spanned
               // (AST_F_SPANNED): expressions or AST_ANYDIM; AST_F_RANK_ONLY: `T mdspan<N>`, ivalue
               // = N. AST_F_AUTO_DIMS: `T [auto]`
    AST_ANYDIM, // `?` or `??` (AST_F_UNBOUNDED) in the dims of a parameter

    // -- declarations (one node per declared name; `int a, b;` gives two statements)
    AST_SCALAR_DECL, // name; [type] (NULL: `mutable x = e`); [value]; flags AST_F_MUTABLE;
                     // `stream s;` is one too, with type->name == "stream".
                     // C dialect: list = array extents (`float x[4]`), AST_F_POINTER, AST_F_CONST
    AST_BUFFER_DECL, // storage; type (spanned); name; list = array counts `name[N][M]`; [value] =
                     // {init}
    AST_FRAG_DECL,   // name; [type] (NULL: `frag x {v}`; not spanned: `frag.f32 x {v}`); list =
                     // array counts; [value] = {init}
    AST_EVENT_DECL,  // storage; name; list = array counts; [value] = N of event<N>; AST_F_READY
    AST_SPAN_DECL,   // name; value (`s : [a,b];` or `mdspan s : e;`)
    AST_TUPLE_DECL,  // name; value (`ituple t = e;`)

    // -- statements
    AST_BLOCK,    // list = statements
    AST_ASSIGN,   // op = AST_OP_ASSIGN or the operator of `op=`; target (AST_NAME, AST_AT,
                  // AST_INDEX); value. With an AST_NAME target and AST_OP_ASSIGN this declares an
                  // unseen name (scalar, tuple, view alias): the resolver decides.
    AST_EXPR,     // value: an expression for its effect (`n++`, `call f(..)`, `__atomic_add(..)`)
    AST_XFER,     // op = AstXferOp; [name] = the future; value = source; target = destination, or
                  // NULL and storage != STOR_NONE (`=> shared`); swizzle, evict, promote, sparse;
                  // flags AST_F_ASYNC ZFILL MULTICAST SPARSE SWIZ (swizzle written); [list3] =
                  // names after `after`; DMA_PAD: list, list2, list4 = hi, lo, mid, [cond] = pad
                  // value; DMA_TRANSP: list = permutation. XFER_ANY: only name and AST_F_TMA.
    AST_MMA,      // see AstMmaOp; attrs ([[schedule(k_tiles(..))]])
    AST_APPLY,    // list = AST_NAME,*; value = the fragment (AST_NAME or AST_INDEX) before `.span`;
                  // body
    AST_REDUCE,   // op = AST_OP_MAX or AST_OP_ADD; list = dst, src, dim
    AST_ALL_REDUCE, // op = AST_OP_ADD; list = fragment
    AST_COPY,     // list = dst, src
    AST_SWAP,     // list = names
    AST_ROTATE,   // list = names
    AST_WAIT,     // list = refs: AST_NAME, AST_INDEX, AST_AT
    AST_TRIGGER,  // list = refs to events; [list2] = refs after `after`; AST_F_CLUSTER
    AST_PARALLEL, // list = AST_PARBY,* outer to inner; body; AST_F_ASYNC; [name] = stream; [attrs]
    AST_PARBY,    // [name] (`p = {x,y}`); list = AST_NAME,* (may be empty); list2 = bounds;
                  // level (AST_LEVEL_NONE: not written); AST_F_COOPERATIVE
    AST_WITH,     // list = AST_WITHIN,*; [list2] = `a <-> b`: AST_BINARY with AST_OP_BIND,*; body
    AST_FOREACH,  // list = AST_WITHIN or AST_RANGE,*; [list2] = AST_SUFFIX,*; body; [attrs]
    AST_WITHIN,   // [name] (alias of the tuple); list = AST_NAME,*; value = bound(s): AST_SPAN for
                  // `[a,b]`, or any expression; AST_F_BRACED when `{..}` was written
    AST_RANGE,    // name = bounded variable; [target] = AST_NAME alias; list = lo, hi, step (each
                  // may be NULL), or empty when no range was written
    AST_SUFFIX,   // name = "unroll" or "vectorize"; list = arguments
    AST_INTHREADS, // cond; body; AST_F_ASYNC
    AST_WHILE,    // cond; body
    AST_IF,       // cond; body; [alt]
    AST_FOR,      // C dialect only: list = init statements, [cond], list2 = steps (statements),
                  // body; [attrs] = AST_SUFFIX unroll from `#pragma unroll`
    AST_SYNC,     // op = AstSyncOp; level; storage (`<global>` of a fence)
    AST_RETURN,   // [value]
    AST_BREAK,
    AST_CONTINUE,
    AST_YIELD,
    AST_ASSERT,   // cond; [text,text_n] = message
    AST_PRINT,    // list; AST_F_NEWLINE for println; AST_F_COMPILE_TIME for print!/println!
    AST_ASM,      // text,text_n = template; AST_F_VOLATILE; list = outputs, list2 = inputs
                  // (AST_ASM_OPERAND), list3 = clobbers (AST_STRING)
    AST_ASM_OPERAND, // text = constraint; [name] = [symbolic name]; value
    AST_CPP,      // `__cpp__("text")`: text,text_n
    AST_ATTR,     // `[[name(args)]]`: name; list = expressions; k_tiles(..) is an AST_CALL in list

    // -- expressions. AST_F_PAREN: it stood in parentheses.
    AST_NAME,     // name; a `::` in it when qualified
    AST_WILD,     // `_`
    AST_INT,      // ivalue (bits); dtype: DT_S32 DT_U32 DT_S64 DT_U64
    AST_FLOAT,    // fvalue; dtype: DT_F64 or DT_F32
    AST_BOOL,     // ivalue 0 or 1
    AST_INF,      // f32 infinity
    AST_NULLPTR,
    AST_STRING,   // text,text_n
    AST_SPAN,     // `[a,b]`: list
    AST_TUPLE,    // `{a,b}`: list
    AST_UNARY,    // op; value: AST_OP_NEG PLUS NOT BITNOT UBOUND PREINC PREDEC POSTINC
                  // POSTDEC; C dialect also DEREF ADDRESS
    AST_BINARY,   // op; list = left, right
    AST_SELECT,   // `c ? a : b`: cond, value, alt. (The call `select(i,..)` is an AST_CALL.)
    AST_COUNT,    // `|x|`: value, or type (`|f16|`)
    AST_CALL,     // name = callee (`__exp2f`, `cdiv`, `select`, `ns::f`); list = arguments; [list2]
                  // = template arguments (expressions or AST_TYPE). AST_F_CALL: written with
                  // `call`; AST_F_BUILTIN: cdiv, select, or a name that starts with `__`. Without
                  // both flags it is x(i): element of a tuple or extent of a shape, or an intrinsic
                  // under `#pragma croq intrinsic` (AST_F_INTRINSIC), or (C dialect) a call.
    AST_EXTENT,   // `e(i)` on something that is no plain name (`buf.span(0)`): value; list
    AST_INDEX,    // `e[i]`, `e[i][j]` nests; value; list (more than one only for shapes: `s[(0),
                  // 4]`)
    AST_AT,       // `e.at(i,j)` element, or slot of an event array: value; list
    AST_MEMBER,   // `e.span`, `e.data`: value; name
    AST_VIEW,     // op = AstViewOp; value = base; list = extents or factors (`_` allowed,
                  // AST_WILD); [list2] = strides after ':'; [list3] = .step(..); [list4] = .at(..)
                  // or .from(..); AST_F_AT when the .at/.from was written
    AST_CAST,     // `__to<T>(e)`: type, value; `__to<"ctype">(e)`: type NULL, text; C dialect
                  // `(T)e`
    AST_BITCAST,  // `__bitcast<T>(e)`: type, value
    AST_KIND_COUNT
} AstKind;

typedef enum {
    AST_OP_NONE,
    AST_OP_ASSIGN,
    AST_OP_ADD, AST_OP_SUB, AST_OP_MUL, AST_OP_DIV, AST_OP_MOD,
    AST_OP_AND, AST_OP_OR, AST_OP_XOR, AST_OP_SHL, AST_OP_SHR,   // bitwise
    AST_OP_LAND, AST_OP_LOR,
    AST_OP_EQ, AST_OP_NE, AST_OP_LT, AST_OP_LE, AST_OP_GT, AST_OP_GE,
    AST_OP_JOIN,                                 // a # b
    AST_OP_UB_ADD, AST_OP_UB_SUB, AST_OP_UB_MUL, AST_OP_UB_DIV, AST_OP_UB_MOD, // #+ #- #* #/ #%
    AST_OP_BIND,                                 // a <-> b
    AST_OP_MAX,                                  // reduce_max only
    AST_OP_NEG, AST_OP_PLUS, AST_OP_NOT, AST_OP_BITNOT, AST_OP_UBOUND, // unary - + ! ~ #
    AST_OP_PREINC, AST_OP_PREDEC, AST_OP_POSTINC, AST_OP_POSTDEC,
    AST_OP_DEREF, AST_OP_ADDRESS,
    AST_OP_COUNT_
} AstOp;

typedef enum {
    XFER_DMA_COPY, XFER_DMA_PAD, XFER_DMA_TRANSP, XFER_TMA_COPY, XFER_TMA_LOAD, XFER_ANY
} AstXferOp;

// AST_MMA by op (target/value/list as follows):
typedef enum {
    MMA_FILL,  // target = accumulator; value; [type] (.f32); AST_F_DECLARES for `acc = mma.fill..`
    MMA_LOAD,  // target = fragment; value = source view; swizzle; AST_F_FRAG; AST_F_DECLARES for `a
               // = ..`
    MMA_MUL,   // target = accumulator; list = a, b [, scaleA, scaleB | meta]; AST_F_A_COL,
               // AST_F_B_COL for the layouts; AST_F_ASYNC with name = future; AST_F_SCALE,
               // AST_F_SPARSE
    MMA_SCALE, // target = accumulator; list = scaleA, scaleB
    MMA_STORE  // value = accumulator; target = destination view; AST_F_ASYNC, AST_F_TRANSP,
               // AST_F_MASK: list = rows [, cols]
} AstMmaOp;

typedef enum {
    VIEW_CHUNKAT, VIEW_CHUNK, VIEW_SUBSPAN, VIEW_MODSPAN, VIEW_VIEW, VIEW_SPAN_AS, VIEW_SQZ
} AstViewOp;
typedef enum { SYNC_BARRIER, SYNC_FENCE, SYNC_SHARED } AstSyncOp;
typedef enum { STOR_NONE, STOR_GLOBAL, STOR_SHARED, STOR_LOCAL } AstStorage;
typedef enum { EVICT_NONE, EVICT_FIRST, EVICT_LAST } AstEvict;
// Outer to inner. AST_LEVEL_DEVICE only for sync; AST_LEVEL_GROUP4 is the warpgroup (128 threads).
typedef enum {
    AST_LEVEL_NONE, AST_LEVEL_DEVICE, AST_LEVEL_CLUSTER, AST_LEVEL_BLOCK, AST_LEVEL_GROUP4,
    AST_LEVEL_GROUP, AST_LEVEL_THREAD
} AstLevel;

enum {
    // By the kinds that have them; elsewhere they are zero.
    AST_F_DEVICE = 1 << 0,       // FUNC: a __device__ helper
    AST_F_REF = 1 << 1,          // PARAM, C SCALAR_DECL: '&'
    AST_F_POINTER = 1 << 2,      // the same: '*' or an array
    AST_F_CONST = 1 << 3,        // the same, TYPE of C text: const
    AST_F_SPANNED = 1 << 4,      // TYPE: has dims, one of the next two included
    AST_F_RANK_ONLY = 1 << 5,    // TYPE: mdspan<N>
    AST_F_AUTO_DIMS = 1 << 6,    // TYPE: [auto]
    AST_F_UNBOUNDED = 1 << 7,    // ANYDIM: `??`
    AST_F_MUTABLE = 1 << 8,      // SCALAR_DECL
    AST_F_READY = 1 << 9,        // EVENT_DECL: `= ready`
    AST_F_ASYNC = 1 << 10,       // XFER, MMA, PARALLEL, INTHREADS: .async
    AST_F_ZFILL = 1 << 11,       // XFER: .zfill
    AST_F_MULTICAST = 1 << 12,   // XFER: .multicast
    AST_F_SPARSE = 1 << 13,      // XFER, MMA: .sp
    AST_F_SWIZ = 1 << 14,        // XFER, MMA_LOAD, BUFFER_DECL: swizzle was written
    AST_F_TMA = 1 << 15,         // XFER: the word was tma
    AST_F_CLUSTER = 1 << 16,     // TRIGGER: .cluster
    AST_F_COOPERATIVE = 1 << 17, // PARBY: <cooperative>
    AST_F_BRACED = 1 << 18,      // WITHIN: names stood in braces
    AST_F_NEWLINE = 1 << 19,     // PRINT: println
    AST_F_COMPILE_TIME = 1 << 20,// PRINT: `!`
    AST_F_VOLATILE = 1 << 21,    // ASM
    AST_F_PAREN = 1 << 22,       // any expression: stood in parentheses
    AST_F_CALL = 1 << 23,        // CALL: with the word `call`
    AST_F_BUILTIN = 1 << 24,     // CALL: cdiv, select, __name
    AST_F_INTRINSIC = 1 << 25,   // CALL: under #pragma croq intrinsic
    AST_F_AT = 1 << 26,          // VIEW: .at or .from was written
    AST_F_DECLARES = 1 << 27,    // MMA: `x = mma.fill..` or `.load`
    AST_F_FRAG = 1 << 28,        // MMA_LOAD: .frag
    AST_F_TRANSP = 1 << 29,      // MMA_STORE: .transp
    AST_F_MASK = 1 << 30         // MMA_STORE: .mask
};
// Flags of AST_MMA only; they share bits with flags that no MMA node has.
enum { AST_F_A_COL = AST_F_REF, AST_F_B_COL = AST_F_POINTER, AST_F_SCALE = AST_F_CONST };

// Statements nest at most this deep, and so do expressions: recursion over a tree is safe.
enum { AST_MAX_DEPTH = 200 };

typedef struct AstNode AstNode;
typedef struct {
    AstNode **at; // n entries, NULL only where the kind's row says so
    int n;
} AstList;

struct AstNode {
    u8 kind;    // AstKind
    u8 op;      // AstOp, AstXferOp, AstMmaOp, AstViewOp or AstSyncOp, by kind
    u8 storage; // AstStorage
    u8 level;   // AstLevel
    u8 evict;   // AstEvict
    i32 dtype;  // AST_TYPE, AST_INT, AST_FLOAT: DType, or -1
    u32 flags;            // AST_F_*
    int swizzle, promote; // bytes; 0 when not written
    u16 depth;            // height of an expression's tree: at most AST_MAX_DEPTH
    Loc loc;              // first token (binary, view, index: the operator); inside a macro: the
                          // place of use
    const char *name;     // interned
    const char *text;     // with text_n bytes; ends in NUL too
    size_t text_n;
    u64 ivalue;           // bits of an integer; 0 or 1 of a bool
    double fvalue;        // of AST_FLOAT, f32 ones rounded already
    AstNode *type, *target, *cond, *value, *body, *alt; // children, by kind
    AstList list, list2, list3, list4, attrs; // likewise
};

// ---- the file -------------------------------------------------------------------------------
typedef enum {
    PART_HOST,        // text between islands, verbatim, comments and directives included
    PART_TILE,        // a __co__ function: fn
    PART_DEVICE,      // a __device__ (or __co_device__) function: text; fn when its body stays
                      // within the C dialect that the compiler reads, else NULL and `why`
    PART_DEVICE_BLOCK // __cok__ { text }: text is what stands between the braces
} AstPartKind;

typedef struct {
    AstPartKind kind;
    Loc loc;          // first byte
    const char *text; // the source bytes of the part (points into the source)
    size_t text_n;
    AstNode *fn;      // AST_FUNC or NULL
    const char *name; // interned name of a function part, or NULL
    const char *why;  // PART_DEVICE without fn: what was found that is outside the dialect
    Loc why_loc;
} AstPart;

typedef struct { // one `//! key: value` line of the contract, continuation lines joined by a space
    const char *key, *value; // value without surrounding blanks; ends in NUL
    Loc loc, value_loc;
} AstContractLine;

typedef struct { // an object-like macro as it stands at the end of the file
    const char *name, *body;
    Loc loc;     // line 0 for -D
} AstMacro;

typedef struct AstFile {
    u16 file;       // Diag index
    AstPart *parts; // in order; their texts are the whole file (without `__cok__ {` and its `}`)
    int nparts;     // entries of parts
    AstContractLine *contract; // in order of the lines
    int ncontract;  // entries of contract
    AstMacro *macros; // in order of definition
    int nmacros; // entries of macros
} AstFile;

typedef struct {
    const char *name, *value; // -Dname=value; value NULL means 1
} AstDefine;

// Parses a whole file. Never returns NULL; what went wrong is in the Diag, and what could be read
// is in the tree. `text` must outlive the result and end in no particular way (NULs allowed).
AstFile *ast_parse(Arena *a, Intern *in, Diag *d, u16 file, const char *text, size_t n,
                   const AstDefine *defines, int ndefines);

// Indented dump, one node per line, same text for the same tree (--emit=ast).
void ast_print(const AstFile *f, Buf *out);
// The expression as compact source text with all parentheses that its tree needs: for messages.
void ast_expr_text(const AstNode *e, Buf *out);

extern const char *const ast_kind_name[AST_KIND_COUNT];
const char *ast_op_text(int op);       // "+", "<->" ...
const char *ast_storage_name(int s);   // "", "global", ...
const char *ast_level_name(int level); // "block", "group-4" ...

#endif
