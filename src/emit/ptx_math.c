// ptx_math.c - arithmetic, conversions, lane exchange and products of the PTX printer.
//
// Float arithmetic is always written with its rounding: without one the assembler may contract a
// product and a sum into one operation, and the result would depend on its version. Denormals are
// kept (no .ftz) but where the row of ops.h says otherwise.
#include "ptx_impl.h"

#include <stdio.h>

static ThreadType type_of(const ThreadOp *op) { return (ThreadType)op->type; }

// add and sub: integers wrap, floats round to nearest even.
void ptx_add(Ptx *x, const ThreadOp *op)
{
    ThreadType t = type_of(op);
    ptx_line(x, op, "%s%s.%s %s, %s, %s;", thread_op[op->op].name, t == TT_F32 ? ".rn" : "",
             ptx_type(t), ptx_element(x, &op->opnd[0], 0).s, ptx_operand(x, &op->opnd[1], t).s,
             ptx_operand(x, &op->opnd[2], t).s);
}

// mul and mad: low half of integers; a float mad is fused.
void ptx_multiply(Ptx *x, const ThreadOp *op)
{
    ThreadType t = type_of(op);
    bool mad = op->op == OP_MAD, real = t == TT_F32;
    const char *name = !mad ? "mul" : real ? "fma" : "mad";
    PtxText c = {""};
    if (mad) c = ptx_operand(x, &op->opnd[3], t);
    ptx_line(x, op, "%s.%s.%s %s, %s, %s%s%s;", name, real ? "rn" : "lo", ptx_type(t),
             ptx_element(x, &op->opnd[0], 0).s, ptx_operand(x, &op->opnd[1], t).s,
             ptx_operand(x, &op->opnd[2], t).s, mad ? ", " : "", c.s);
}

// Twice the width: both factors are 32 bits wide, the type is that of the product.
void ptx_mulwide(Ptx *x, const ThreadOp *op)
{
    ThreadType half = op->type == TT_U64 ? TT_U32 : TT_S32;
    ptx_line(x, op, "mul.wide.%s %s, %s, %s;", ptx_type(half), ptx_element(x, &op->opnd[0], 0).s,
             ptx_operand(x, &op->opnd[1], half).s, ptx_operand(x, &op->opnd[2], half).s);
}

// Float division is the correctly rounded one, which the assembler makes a short routine of.
void ptx_divide(Ptx *x, const ThreadOp *op)
{
    ThreadType t = type_of(op);
    ptx_line(x, op, "div%s.%s %s, %s, %s;", t == TT_F32 ? ".rn" : "", ptx_type(t),
             ptx_element(x, &op->opnd[0], 0).s, ptx_operand(x, &op->opnd[1], t).s,
             ptx_operand(x, &op->opnd[2], t).s);
}

// ---- conversions --------------------------------------------------------------------------------

// Eight-bit floats have no registers of their own and convert in pairs.
static bool is_eight_bit(ThreadType t) { return t == TT_E4M3 || t == TT_E5M2; }

// Rounding between the two types of a plain cvt; "" where the conversion is exact or between
// integers and PTX allows none. tf32 has only round to nearest, ties away; an integer result is
// rounded to nearest even unless the program asks for toward zero.
static const char *rounding(const ThreadOp *op)
{
    ThreadType to = type_of(op), from = (ThreadType)op->type2;
    if (to == TT_TF32) return ".rna";
    if (from == TT_F32 && (to == TT_F16 || to == TT_BF16)) return ".rn";
    if (from == TT_F32) return op->flags & OPF_RZI ? ".rzi" : ".rni";
    bool integer_source = from != TT_F16 && from != TT_BF16;
    return to == TT_F32 && integer_source ? ".rn" : "";
}

// A conversion within one register; pairs are ptx_cvtpack's.
void ptx_cvt(Ptx *x, const ThreadOp *op)
{
    ThreadType to = type_of(op), from = (ThreadType)op->type2;
    PtxText d = ptx_element(x, &op->opnd[0], 0), s = ptx_operand(x, &op->opnd[1], from);
    if (is_eight_bit(to)) { // there are pairs only: a zero goes into the high byte
        ptx_line(x, op, "cvt.rn.satfinite.%sx2.f32 %s, 0f00000000, %s;", ptx_type(to), d.s, s.s);
    } else if (is_eight_bit(from)) { // by way of f16, which holds every value
        ptx_line(x, NULL, "{ .reg .b32 %%$pair; .reg .b16 %%$low, %%$high;");
        ptx_line(x, op, "cvt.rn.f16x2.%sx2 %%$pair, %s;", ptx_type(from), s.s);
        ptx_line(x, NULL, "mov.b32 {%%$low, %%$high}, %%$pair;");
        ptx_line(x, op, "cvt.f32.f16 %s, %%$low;", d.s);
        ptx_line(x, NULL, "}");
    } else if (to == from) {
        ptx_line(x, op, "mov.%s %s, %s;", ptx_type(to), d.s, s.s);
    } else {
        ptx_line(x, op, "cvt%s.%s.%s %s, %s;", rounding(op), ptx_type(to), ptx_type(from), d.s,
                 s.s);
    }
}

// The first source becomes the upper half. Eight-bit types saturate: PTX has no other form.
void ptx_cvtpack(Ptx *x, const ThreadOp *op)
{
    bool saturate = op->type == TT_E4M3X2 || op->type == TT_E5M2X2;
    ptx_line(x, op, "cvt.rn%s.%s.f32 %s, %s, %s;", saturate ? ".satfinite" : "",
             ptx_type(type_of(op)), ptx_element(x, &op->opnd[0], 0).s,
             ptx_operand(x, &op->opnd[1], TT_F32).s, ptx_operand(x, &op->opnd[2], TT_F32).s);
}

// The first source is the lower half, unlike cvt's.
void ptx_pack(Ptx *x, const ThreadOp *op)
{
    ptx_line(x, op, "mov.%s %s, {%s, %s};", ptx_type(type_of(op)),
             ptx_element(x, &op->opnd[0], 0).s, ptx_element(x, &op->opnd[1], 0).s,
             ptx_element(x, &op->opnd[2], 0).s);
}

// The first result is the lower half.
void ptx_unpack(Ptx *x, const ThreadOp *op)
{
    ptx_line(x, op, "mov.%s {%s, %s}, %s;", ptx_type(type_of(op)),
             ptx_element(x, &op->opnd[0], 0).s, ptx_element(x, &op->opnd[1], 0).s,
             ptx_element(x, &op->opnd[2], 0).s);
}

// The last operand but one clamps: the highest lane, for `up` the lowest. The mask names all lanes:
// the program shuffles only where a whole warp runs.
void ptx_shfl(Ptx *x, const ThreadOp *op)
{
    ptx_line(x, op, "shfl.sync.%s.b32 %s, %s, %s, %d, 0xffffffff;", shfl_mode_name[op->n],
             ptx_element(x, &op->opnd[0], 0).s, ptx_element(x, &op->opnd[1], 0).s,
             ptx_operand(x, &op->opnd[2], TT_S32).s, op->n == SHFL_UP ? 0 : 31);
}

// ---- products -----------------------------------------------------------------------------------

// One row per operand type: depth of one instruction, and whether it takes transposed operands.
typedef struct {
    u8 type, depth;
    bool transposes;
} MmaType;
// Depth: elements of K in 32 bytes. The tensor cores take MN-major operands of 16-bit types only.
static const MmaType mma_type[] = {
    {TT_F16, 16, true},
    {TT_BF16, 16, true},
    {TT_TF32, 8, false},
    {TT_E4M3, 32, false},
    {TT_E5M2, 32, false},
    {TT_S8, 32, false},
    {TT_U8, 32, false},
};

// One product of 64 rows. D is in place; the predicate says whether its old values count. The
// scales of A and B are 1 or -1; the last numbers, where the type has them, say whether an operand
// lies transposed (MN-major), which a register operand cannot.
void ptx_wgmma(Ptx *x, const ThreadOp *op)
{
    const MmaType *row = mma_type;
    while (row->type != op->type2) row++; // the checker knows no other type
    const char *type = ptx_type((ThreadType)op->type2);
    bool shared_a = op->op == OP_WGMMA_SS;
    Buf text = {0};
    bool whole = op->type == TT_S32; // integers are not scaled
    buf_printf(&text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", op->n, row->depth,
               ptx_type(type_of(op)), type, type);
    ptx_range(x, &op->opnd[0], true, &text);
    buf_puts(&text, ", ");
    ptx_range(x, &op->opnd[1], !shared_a, &text);
    // Descriptor of B; predicate "accumulate"; scales of A and B.
    buf_printf(&text, ", %s, %s", ptx_element(x, &op->opnd[2], 0).s,
               ptx_element(x, &op->opnd[3], 0).s);
    if (!whole)
        buf_printf(&text, ", %d, %d", op->flags & OPF_NEG_A ? -1 : 1,
                   op->flags & OPF_NEG_B ? -1 : 1);
    // A register operand has no layout in memory that could be transposed, so it has no such
    // number.
    if (row->transposes && shared_a) buf_printf(&text, ", %d", op->flags & OPF_TRANS_A ? 1 : 0);
    if (row->transposes) buf_printf(&text, ", %d", op->flags & OPF_TRANS_B ? 1 : 0);
    ptx_line(x, op, "%s;", text.s);
    buf_free(&text);
}
