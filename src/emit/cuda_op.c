// cuda_op.c - arithmetic, conversions and lane exchange of the CUDA printer, and the one function
// that wraps a PTX instruction as ops.h spells it. Every rounding is explicit, so that nothing is
// contracted.
//
// C's operators are used where they mean what the machine does for every value (wrapping unsigned
// sums, shifts by less than the width, division by a known positive number); otherwise the
// instruction itself, so that the text gives the same bits as the PTX.
#include "cuda_impl.h"

#include <string.h>

static ThreadType type_of(const CudaStmt *s) { return (ThreadType)s->op.type; }
static bool is_real(const CudaStmt *s) { return s->op.type == TT_F32; }
static bool is_signed(ThreadType t) { return t == TT_S16 || t == TT_S32 || t == TT_S64; }
static bool is_64(ThreadType t) { return thread_type_class[t] == RC_B64; }

// Operand k, a source of the operation's own type.
static const char *src(Cuda *x, const CudaStmt *s, int k)
{
    return cu_src(x, &s->op.opnd[k], type_of(s));
}

// ---- one PTX instruction as a function ----------------------------------------------------------

// What is collected of one operation while its helper is made.
typedef struct {
    Buf params, args, inputs;
    int operands; // of the assembly so far, the result included
    int inputs_n;
} Wrapper;

// Adds one input: parameter of the helper, argument of the call, operand of the assembly.
static void wrap_input(Wrapper *w, RegClass class, const char *name, const char *arg)
{
    w->operands++;
    // Barriers have a name; other operands are a, b, c in their order.
    const char letter[] = {(char)('a' + w->inputs_n++), 0};
    if (!*name) name = letter;
    buf_printf(&w->params, "%s%s %s", w->params.n ? ", " : "", cu_class[class], name);
    buf_printf(&w->args, "%s%s", w->args.n ? ", " : "", arg);
    buf_printf(&w->inputs, "%s\"%c\"(%s)", w->inputs.n ? ", " : "", cu_constraint[class], name);
}

// Reads the operands by the signature. Returns the class of the result, or -1.
static int wrap_operands(Cuda *x, const CudaStmt *s, Wrapper *w, char *address)
{
    const ThreadOp *op = &s->op;
    int result = -1, k = 0;
    for (const char *c = thread_op[op->op].sig; *c; c++) {
        switch (*c) {
        case 'd':
            result = thread_type_class[op->type];
            w->operands++;
            break;
        case 'B':
        case 'S':
            address[w->operands] = 1;
            wrap_input(w, RC_B32, *c == 'B' ? "barrier" : "at", cu_address(x, &op->opnd[k]));
            break;
        case 'x': wrap_input(w, RC_B32, "", cu_src(x, &op->opnd[k], TT_U32)); break;
        case 's': wrap_input(w, thread_type_class[op->type], "", src(x, s, k)); break;
        default: BUG("%s needs a CUDA spelling of its own", thread_op[op->op].name);
        }
        k += thread_sig_operands(op, *c);
    }
    return result;
}

// The spelling of ops.h with the operands of inline assembly.
static const char *assembly(Cuda *x, const ThreadOp *op, const char *form, const char *address,
                            int attribute)
{
    Buf b = {0};
    for (const char *f = form; *f; f++) {
        if (*f != '%' || !f[1]) {
            if (f[0] == '%') buf_putc(&b, '%');
            buf_putc(&b, *f);
            continue;
        }
        f++;
        if (*f == 't') buf_puts(&b, thread_type_name[op->type]);
        else if (*f == 'n') buf_printf(&b, "%%%d", attribute);
        else if (address[*f - '0']) buf_printf(&b, "[%%%c]", *f);
        else buf_printf(&b, "%%%c", *f);
    }
    const char *text = arena_strndup(x->arena, b.s ? b.s : "", b.n);
    buf_free(&b);
    return text;
}

// Prints the call of a helper around one PTX instruction and, at its first use, the helper. Pure
// operations are not volatile, so that the compiler may join and move them; all others keep their
// order among each other and against memory. Attributes are template arguments: the assembly needs
// constants.
static void wrap(Cuda *x, const CudaStmt *s, const char *form)
{
    const ThreadOp *op = &s->op;
    const ThreadOpInfo *row = &thread_op[op->op];
    Wrapper w = {0};
    char address[12] = {0};
    int result = wrap_operands(x, s, &w, address);
    bool pure = row->effect == EFF_PURE, attribute = strstr(form, "%n") != NULL;
    Buf name = {0};
    buf_puts(&name, "ptx_");
    for (const char *c = row->name; *c; c++) buf_putc(&name, *c == '.' ? '_' : *c);
    // One letter may stand for several types; only floats and nothing are one.
    bool one_type = strcmp(row->types, "f") == 0 || strcmp(row->types, "-") == 0;
    if (!one_type) buf_printf(&name, "_%s", thread_type_name[op->type]);
    if (cu_need(x, name.s)) {
        const char *type = result >= 0 ? cu_class[result] : "void";
        if (attribute)
            buf_printf(&w.inputs, "%s\"n\"(N)", w.inputs.n ? ", " : "");
        cu_define(x, "%s" CUDA_FUNCTION "%s %s(%s)\n{\n", attribute ? "template <int N> " : "",
                  type, name.s, w.params.s ? w.params.s : "");
        if (result >= 0) cu_define(x, "    %s d;\n", type);
        cu_define(x, "    asm%s(\"%s\" :", pure ? "" : " volatile",
                  assembly(x, op, form, address, w.operands));
        if (result >= 0) cu_define(x, " \"=%c\"(d) ", cu_constraint[result]);
        cu_define(x, ":%s%s%s);\n%s}\n", w.inputs.n ? " " : "", w.inputs.s ? w.inputs.s : "",
                  pure ? "" : " : \"memory\"", result >= 0 ? "    return d;\n" : "");
    }
    const char *given = attribute ? cu_text(x, "<%d>", op->n) : "";
    const char *args = w.args.s ? w.args.s : "";
    if (result >= 0) cu_assign(x, s, "%s%s(%s)", name.s, given, args);
    else cu_call(x, s, "%s%s(%s)", name.s, given, args);
    buf_free(&name);
    buf_free(&w.params);
    buf_free(&w.args);
    buf_free(&w.inputs);
}

void cu_asm(Cuda *x, const CudaStmt *s) { wrap(x, s, thread_op[s->op.op].form); }

// ---- moves and arithmetic -----------------------------------------------------------------------

// Also the way to special registers. CUDA's own names serve where there are some; the address of
// the dynamic shared memory is that of the array which the file declares.
void cu_mov(Cuda *x, const CudaStmt *s)
{
    static const char *const special[SR_COUNT] = {
        [SR_TID] = "threadIdx.x",     [SR_CTAID_X] = "blockIdx.x",  [SR_CTAID_Y] = "blockIdx.y",
        [SR_CTAID_Z] = "blockIdx.z",  [SR_NCTAID_X] = "gridDim.x",  [SR_NCTAID_Y] = "gridDim.y",
        [SR_NCTAID_Z] = "gridDim.z",  [SR_LANE] = "ptx_lane()",
        [SR_CLUSTER_RANK] = "ptx_cluster_rank()",
        [SR_SMEM] = "(uint32_t)__cvta_generic_to_shared(baton_smem)",
    };
    const Operand *o = &s->op.opnd[1];
    if (o->kind != OPD_SREG) {
        cu_assign(x, s, "%s", src(x, s, 1));
        return;
    }
    if (!special[o->reg])
        BUG("no CUDA spelling of the special register %s", special_reg_name[o->reg]);
    if (o->reg == SR_SMEM) x->uses_smem = true;
    bool lane = o->reg == SR_LANE;
    if ((lane || o->reg == SR_CLUSTER_RANK) && cu_need(x, special[o->reg]))
        cu_define(x, CUDA_FUNCTION "uint32_t %s\n{\n    uint32_t d;\n"
                    "    asm(\"mov.u32 %%0, %%%%%s;\" : \"=r\"(d));\n    return d;\n}\n",
                    special[o->reg], lane ? "laneid" : "cluster_ctarank");
    cu_assign(x, s, "%s", special[o->reg]);
}

// A number that does not depend on the round of an unroll region.
static bool is_plain_imm(const Operand *o) { return o->kind == OPD_IMM && !o->nterms; }

// Adding 0 and subtracting negatives are printed as a reader would write them; wrapping arithmetic
// makes that the same value.
void cu_add(Cuda *x, const CudaStmt *s)
{
    bool minus = s->op.op == OP_SUB;
    const Operand *b = &s->op.opnd[2];
    if (is_real(s)) {
        cu_assign(x, s, "__f%s_rn(%s, %s)", minus ? "sub" : "add", src(x, s, 1), src(x, s, 2));
    } else if (is_plain_imm(b) && b->base < 0 && b->base > INT32_MIN) {
        cu_assign(x, s, "%s %c %lld", src(x, s, 1), minus ? '+' : '-', (long long)-b->base);
    } else if (is_plain_imm(b) && !b->base) {
        cu_assign(x, s, "%s", src(x, s, 1));
    } else if (b->kind == OPD_IMM && b->nterms && s->op.opnd[1].kind == OPD_REG) {
        // The register makes the sum unsigned.
        cu_assign(x, s, "%s %c (%s)", src(x, s, 1), minus ? '-' : '+', cu_index(x, b, 0));
    } else {
        cu_assign(x, s, "%s %c %s", src(x, s, 1), minus ? '-' : '+', src(x, s, 2));
    }
}

// Never `a * b + c` on floats: nvcc would contract or not as its options say.
void cu_multiply(Cuda *x, const CudaStmt *s)
{
    bool mad = s->op.op == OP_MAD;
    const char *a = src(x, s, 1), *b = src(x, s, 2), *c = mad ? src(x, s, 3) : "";
    if (is_real(s) && mad) cu_assign(x, s, "__fmaf_rn(%s, %s, %s)", a, b, c);
    else if (is_real(s)) cu_assign(x, s, "__fmul_rn(%s, %s)", a, b);
    else cu_assign(x, s, "%s * %s%s%s", a, b, mad ? " + " : "", c);
}

// One cast is enough in C: the other factor is widened with it.
void cu_mulwide(Cuda *x, const CudaStmt *s)
{
    const Operand *a = &s->op.opnd[1], *b = &s->op.opnd[2];
    if (s->op.type == TT_U64)
        cu_assign(x, s, "(uint64_t)%s * (uint32_t)%s", cu_src(x, a, TT_U32),
                    cu_src(x, b, TT_U32));
    else
        cu_assign(x, s, "(int64_t)%s * %s", cu_signed(x, a, TT_S32), cu_signed(x, b, TT_S32));
}

// A divisor that C and the machine agree about: positive and known.
void cu_divide(Cuda *x, const CudaStmt *s)
{
    const Operand *b = &s->op.opnd[2];
    const char *sign = s->op.op == OP_DIV ? "/" : "%";
    ThreadType t = type_of(s);
    bool known = is_plain_imm(b) && b->base > 0 && b->base <= INT32_MAX;
    if (is_real(s))
        cu_assign(x, s, "__fdiv_rn(%s, %s)", src(x, s, 1), src(x, s, 2));
    else if (known && is_signed(t))
        cu_assign(x, s, "%s %s %lld", cu_signed(x, &s->op.opnd[1], t), sign, (long long)b->base);
    else if (known)
        cu_assign(x, s, "%s %s %lldu", src(x, s, 1), sign, (long long)b->base);
    else
        wrap(x, s, s->op.op == OP_DIV ? "div.%t %0, %1, %2;" : "rem.%t %0, %1, %2;");
}

// fminf and fmaxf return the other operand of a NaN, as the machine's min and max do.
void cu_minmax(Cuda *x, const CudaStmt *s)
{
    bool low = s->op.op == OP_MIN;
    ThreadType t = type_of(s);
    const char *name = t == TT_F32 ? (low ? "fminf" : "fmaxf") : t == TT_S32 ? (low ? "min" : "max")
                       : t == TT_U32 ? (low ? "umin" : "umax")
                       : t == TT_S64 ? (low ? "llmin" : "llmax") : (low ? "ullmin" : "ullmax");
    const Operand *a = &s->op.opnd[1], *b = &s->op.opnd[2];
    if (is_signed(t)) cu_assign(x, s, "%s(%s, %s)", name, cu_signed(x, a, t), cu_signed(x, b, t));
    else cu_assign(x, s, "%s(%s, %s)", name, cu_src(x, a, t), cu_src(x, b, t));
}

// 0u - x, not -x: the lowest integer has no negative in C.
void cu_neg(Cuda *x, const CudaStmt *s)
{
    if (is_real(s)) cu_assign(x, s, "-%s", src(x, s, 1));
    else cu_assign(x, s, "0u - %s", src(x, s, 1));
}

void cu_abs(Cuda *x, const CudaStmt *s)
{
    if (is_real(s)) cu_assign(x, s, "fabsf(%s)", src(x, s, 1));
    else cu_asm(x, s); // of the lowest integer C does not say
}

void cu_sqrt(Cuda *x, const CudaStmt *s) { cu_assign(x, s, "__fsqrt_rn(%s)", src(x, s, 1)); }

// Between predicates (bool) & and | would be integers: && and || keep them bool, and no operand
// here has an effect that could be skipped.
void cu_bitwise(Cuda *x, const CudaStmt *s)
{
    bool truth = s->op.type == TT_PRED;
    const char *sign = s->op.op == OP_AND ? (truth ? "&&" : "&")
                       : s->op.op == OP_OR ? (truth ? "||" : "|") : (truth ? "!=" : "^");
    cu_assign(x, s, "%s %s %s", src(x, s, 1), sign, src(x, s, 2));
}

void cu_not(Cuda *x, const CudaStmt *s)
{
    cu_assign(x, s, "%c%s", s->op.type == TT_PRED ? '!' : '~', src(x, s, 1));
}

bool cu_same_in_warp(const Cuda *x, const ThreadOp *op)
{
    const Operand *a = &op->opnd[1], *by = &op->opnd[2];
    return op->op == OP_SHR && op->type == TT_U32 && a->kind == OPD_REG && a->reg == x->tid &&
           is_plain_imm(by) && by->base >= 5 && by->base < 32;
}

// Shifts by the width and more are defined on the machine and not in C. The index of a warpgroup goes
// through a reduction over the warp, once and where all lanes are together: the assembler puts the
// result into a uniform register, and descriptors that depend on it with it. Otherwise nvcc computes
// the index anew in loops, and each descriptor is moved to uniform registers (2 R2UR) there.
void cu_shift(Cuda *x, const CudaStmt *s)
{
    const Operand *by = &s->op.opnd[2];
    ThreadType t = type_of(s);
    int bits = is_64(t) ? 64 : thread_type_class[t] == RC_B16 ? 16 : 32;
    if (!is_plain_imm(by) || by->base < 0 || by->base >= bits) {
        cu_asm(x, s);
        return;
    }
    const char *a = is_signed(t) ? cu_signed(x, &s->op.opnd[1], t) : src(x, s, 1);
    if (x->depth == 1 && cu_same_in_warp(x, &s->op)) {
        cu_assign(x, s, "__reduce_max_sync(0xffffffffu, %s >> %lld)", a, (long long)by->base);
        return;
    }
    cu_assign(x, s, "%s %s %lld", a, s->op.op == OP_SHL ? "<<" : ">>", (long long)by->base);
}

// Float comparisons are those of C: false on NaN, but for !=.
void cu_setp(Cuda *x, const CudaStmt *s)
{
    static const char *const sign[CMP_COUNT] = {"==", "!=", "<", "<=", ">", ">="};
    const Operand *a = &s->op.opnd[1], *b = &s->op.opnd[2];
    ThreadType t = type_of(s);
    CudaStmt plain = *s;
    plain.op.type = TT_PRED; // the class of the result
    // Equality is the same for signed and unsigned bits; only order needs the cast.
    bool ordered = s->op.cmp >= CMP_LT;
    // A comparison of unsigned with 0 that is always true or false: nvcc would warn of it.
    bool zero = is_plain_imm(b) && !b->base && !is_signed(t) && t != TT_F32;
    if (zero && s->op.cmp == CMP_GE) cu_assign(x, &plain, "true");
    else if (zero && s->op.cmp == CMP_LT) cu_assign(x, &plain, "false");
    else if (ordered && is_signed(t))
        cu_assign(x, &plain, "%s %s %s", cu_signed(x, a, t), sign[s->op.cmp],
                    cu_signed(x, b, t));
    else
        cu_assign(x, &plain, "%s %s %s", cu_src(x, a, t), sign[s->op.cmp], cu_src(x, b, t));
}

// The predicate is the last operand, as in PTX, and comes first in C.
void cu_selp(Cuda *x, const CudaStmt *s)
{
    cu_assign(x, s, "%s ? %s : %s", cu_element(x, &s->op.opnd[3], 0), src(x, s, 1), src(x, s, 2));
}

// ---- conversions --------------------------------------------------------------------------------

static bool is_integer(ThreadType t)
{
    return is_signed(t) || t == TT_U16 || t == TT_U32 || t == TT_U64;
}

static const char *integer_type(ThreadType t)
{
    switch (t) {
    case TT_S16: return "int16_t";
    case TT_U16: return "uint16_t";
    case TT_S32: return "int";
    case TT_U32: return "uint32_t";
    case TT_S64: return "int64_t";
    default: return "uint64_t";
    }
}

// A conversion that C has no word for: one instruction on registers.
static void convert_by_asm(Cuda *x, const CudaStmt *s, ThreadType to, ThreadType from)
{
    static const char *const eight_bit =
        "{ .reg .b32 pair; .reg .b16 low, high; cvt.rn.f16x2.%sx2 pair, %%1; "
        "mov.b32 {low, high}, pair; cvt.f32.f16 %%0, low; }";
    const char *t = thread_type_name[to], *f = thread_type_name[from], *text;
    if (to == TT_E4M3 || to == TT_E5M2)
        text = cu_text(x, "cvt.rn.satfinite.%sx2.f32 %%0, 0f00000000, %%1;", t);
    else if (from == TT_E4M3 || from == TT_E5M2)
        text = cu_text(x, eight_bit, f);
    else
        text = cu_text(x, "cvt%s.%s.%s %%0, %%1;",
                       to == TT_TF32    ? ".rna"
                       : from == TT_F32 ? ".rn"
                                        : "",
                       t, f);
    const char *name = cu_text(x, "ptx_cvt_%s_%s", t, f);
    RegClass d = thread_type_class[to], a = thread_type_class[from];
    if (cu_need(x, name))
        cu_define(x, CUDA_FUNCTION "%s %s(%s a)\n{\n    %s d;\n    asm(\"%s\" : \"=%c\"(d) : "
                    "\"%c\"(a));\n    return d;\n}\n",
                    cu_class[d], name, cu_class[a], cu_class[d], text, cu_constraint[d],
                    cu_constraint[a]);
    cu_assign(x, s, "%s(%s)", name, cu_src(x, &s->op.opnd[1], from));
}

// Integers by casts, which wrap; between floats and integers by the intrinsics with their rounding;
// everything else has no word in C++.
void cu_cvt(Cuda *x, const CudaStmt *s)
{
    ThreadType to = type_of(s), from = (ThreadType)s->op.type2;
    const Operand *o = &s->op.opnd[1];
    bool wide = is_64(from);
    if (is_integer(to) && is_integer(from)) {
        const char *a = is_signed(from) ? cu_signed(x, o, from) : cu_src(x, o, from);
        cu_assign(x, s, "(%s)%s", integer_type(to), a);
    } else if (is_integer(from)) {
        cu_assign(x, s, "__%s2float_rn(%s)",
                    is_signed(from) ? (wide ? "ll" : "int") : (wide ? "ull" : "uint"),
                    is_signed(from) ? cu_signed(x, o, from) : cu_src(x, o, from));
    } else if (is_integer(to)) {
        cu_assign(x, s, "__float2%s_%s(%s)",
                    is_signed(to) ? (is_64(to) ? "ll" : "int") : (is_64(to) ? "ull" : "uint"),
                    s->op.flags & OPF_RZI ? "rz" : "rn", cu_src(x, o, from));
    } else {
        convert_by_asm(x, s, to, from);
    }
}

// The first source becomes the upper half, as in PTX.
void cu_cvtpack(Cuda *x, const CudaStmt *s)
{
    ThreadType t = type_of(s);
    const char *name = cu_text(x, "ptx_pack_%s", thread_type_name[t]);
    RegClass d = thread_type_class[t];
    bool saturate = t == TT_E4M3X2 || t == TT_E5M2X2;
    if (cu_need(x, name))
        cu_define(x, CUDA_FUNCTION "%s %s(float high, float low)\n{\n    %s d;\n"
                    "    asm(\"cvt.rn%s.%s.f32 %%0, %%1, %%2;\" : \"=%c\"(d) : \"f\"(high), "
                    "\"f\"(low));\n    return d;\n}\n",
                    cu_class[d], name, cu_class[d], saturate ? ".satfinite" : "",
                    thread_type_name[t], cu_constraint[d]);
    cu_assign(x, s, "%s(%s, %s)", name, cu_src(x, &s->op.opnd[1], TT_F32),
                cu_src(x, &s->op.opnd[2], TT_F32));
}

// Halves of b32 are b16, halves of b64 are b32.
void cu_pack(Cuda *x, const CudaStmt *s)
{
    bool wide = is_64(type_of(s));
    ThreadType half = wide ? TT_B32 : TT_B16;
    const char *name = wide ? "ptx_pack_b64" : "ptx_pack_b32";
    if (cu_need(x, name))
        cu_define(x,
                  CUDA_FUNCTION
                  "%s %s(%s low, %s high)\n{\n    %s d;\n"
                  "    asm(\"mov.%s %%0, {%%1, %%2};\" : \"=%c\"(d) : \"%c\"(low), \"%c\"(high));\n"
                  "    return d;\n}\n",
                  wide ? "uint64_t" : "uint32_t", name, wide ? "uint32_t" : "uint16_t",
                  wide ? "uint32_t" : "uint16_t", wide ? "uint64_t" : "uint32_t",
                  wide ? "b64" : "b32", wide ? 'l' : 'r', wide ? 'r' : 'h', wide ? 'r' : 'h');
    cu_assign(x, s, "%s(%s, %s)", name, cu_src(x, &s->op.opnd[1], half),
                cu_src(x, &s->op.opnd[2], half));
}

// Halves may be float registers: their bits are moved, so the helper's name tells which are.
void cu_unpack(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    RegClass whole = thread_type_class[op->type];
    RegClass low = (RegClass)x->fn->regs.at[op->opnd[0].reg].class;
    RegClass high = (RegClass)x->fn->regs.at[op->opnd[1].reg].class;
    const char *name = cu_text(x, "ptx_unpack_%s%s%s", thread_type_name[op->type],
                                 low == RC_F32 ? "_lf" : "", high == RC_F32 ? "_hf" : "");
    if (cu_need(x, name))
        cu_define(x, CUDA_FUNCTION "void %s(%s &low, %s &high, %s a)\n{\n"
                    "    asm(\"mov.%s {%%0, %%1}, %%2;\" : \"=%c\"(low), \"=%c\"(high) : "
                    "\"%c\"(a));\n}\n",
                    name, cu_class[low], cu_class[high], cu_class[whole],
                    thread_type_name[op->type], cu_constraint[low], cu_constraint[high],
                    cu_constraint[whole]);
    cu_call(x, s, "%s(%s, %s, %s)", name, cu_element(x, &op->opnd[0], 0),
              cu_element(x, &op->opnd[1], 0), cu_src(x, &op->opnd[2], type_of(s)));
}

// All 32 lanes take part (the full mask): the thread IR shuffles whole warps only.
void cu_shfl(Cuda *x, const CudaStmt *s)
{
    static const char *const mode[] = {"_xor", "", "_up", "_down"};
    const ThreadReg *regs = x->fn->regs.at;
    const Operand *o = s->op.opnd;
    // Between floats the bits need no other name.
    bool real = regs[o[0].reg].class == RC_F32 && regs[o[1].reg].class == RC_F32;
    CudaStmt typed = *s;
    if (real) typed.op.type = TT_F32;
    cu_assign(x, &typed, "__shfl%s_sync(0xffffffffu, %s, %s)", mode[s->op.n],
              cu_src(x, &o[1], (ThreadType)typed.op.type), cu_src(x, &o[2], TT_U32));
}

void cu_vote(Cuda *x, const CudaStmt *s)
{
    cu_assign(x, s, "__any_sync(0xffffffffu, %s)", cu_src(x, &s->op.opnd[1], TT_PRED));
}
