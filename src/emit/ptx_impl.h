// ptx_impl.h - what the files of the PTX printer share: the state of one kernel, and how a line is
// written. ptx.c: frame, registers, control, the table; ptx_mem.c: memory and barriers; ptx_math.c:
// arithmetic, conversions, products.
//
// Names in the text: a register `x` is %x, element 3 of an array `acc` is %acc$3, a parameter `a`
// is p_a. What the printer adds starts with %$ or $; no name of the thread IR holds a $.
#ifndef BATON_PTX_IMPL_H
#define BATON_PTX_IMPL_H

#include "../thread/check.h"
#include "ptx.h"

typedef struct {
    const ThreadModule *mod;
    const ThreadFn *fn;
    // The text of the body is collected before its frame is written: printing it shows what the
    // frame must declare (uses_warp, policies, tensor maps).
    Buf *out;              // body of the kernel
    i64 *value;            // of the unroll variables
    const char **reg_name; // spelling of a register, without the element of an array
    u8 *tmap_used;         // per parameter: its address is needed
    int labels, loops;     // made so far
    bool uses_warp, uses_clock, uses_smem, policy_first, policy_last;
    Loc last;              // place that was written as a comment
} Ptx;

// Writes one instruction under the operation's guard: indent, guard, text, end of line.
void ptx_line(Ptx *x, const ThreadOp *op, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Operands as text, in one of a few buffers of the call.
typedef struct {
    char s[96];
} PtxText;
PtxText ptx_operand(Ptx *x, const Operand *o, ThreadType t);   // one register or an immediate
PtxText ptx_element(Ptx *x, const Operand *o, int k);          // element k of a range
PtxText ptx_address(Ptx *x, const Operand *o);                 // [base+offset] of two operands
void ptx_range(Ptx *x, const Operand *o, bool braces_for_one, Buf *out); // {a, b, ...}
const char *ptx_type(ThreadType t);

// Rows of ops.h whose form is "!".
typedef void PtxHandler(Ptx *x, const ThreadOp *op);
PtxHandler ptx_add, ptx_multiply, ptx_mulwide, ptx_divide, ptx_cvt, ptx_cvtpack, ptx_pack,
    ptx_unpack, ptx_shfl, ptx_wgmma;
PtxHandler ptx_ldparam, ptx_load, ptx_store, ptx_atomic, ptx_print_arg, ptx_print_text,
    ptx_ldmatrix, ptx_stmatrix, ptx_cpasync,
    ptx_tma_load, ptx_tma_store, ptx_tma_prefetch, ptx_mbar_wait, ptx_pin, ptx_delay,
    ptx_clock,
    ptx_mbar_arrive_cluster;

#endif
