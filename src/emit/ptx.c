// ptx.c - frame, registers, control flow and the table of the PTX printer (ptx.h). Unroll regions
// are expanded here; loops, ifs and roles become labels and branches.
//
// Invariant: every float operation is written with its rounding, so that no assembler contracts or
// relaxes anything.
#include "ptx_impl.h"

#include <stdio.h>
#include <string.h>

// ---- lines and operands -------------------------------------------------------------------------

// Without folders: the text must not depend on where it was built.
static const char *file_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// A comment when the source line changes.
static void source_line(Ptx *x, Loc loc)
{
    if (!loc.file || !loc.line || (loc.file == x->last.file && loc.line == x->last.line)) return;
    x->last = loc;
    const char *name = x->mod->diag ? file_base(diag_file_name(x->mod->diag, loc.file)) : "?";
    buf_printf(x->out, "    // %s:%u\n", name, loc.line);
}

// `op` may be NULL: lines of control flow have no guard.
void ptx_line(Ptx *x, const ThreadOp *op, const char *fmt, ...)
{
    buf_puts(x->out, "    ");
    if (op && op->guard.kind != OPD_NONE) {
        PtxText g = ptx_element(x, &op->guard, 0);
        buf_printf(x->out, "@%s%s ", op->guard.negate ? "!" : "", g.s);
    }
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(x->out, fmt, ap);
    va_end(ap);
    buf_putc(x->out, '\n');
}

// The value of an index or immediate in the round of the unroll regions that is being printed.
static i64 affine_value(Ptx *x, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += o->term[i].coef * x->value[o->term[i].var];
    return v;
}

// Copies a text with its NUL; returns where the NUL is.
static char *put_text(char *at, const char *s)
{
    size_t n = strlen(s);
    memcpy(at, s, n + 1);
    return at + n;
}

static char *put_decimal(char *at, i64 v)
{
    char digit[24], *d = digit + sizeof digit - 1;
    u64 left = v < 0 ? 0 - (u64)v : (u64)v;
    *d = 0;
    do *--d = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0) *--d = '-';
    return put_text(at, d);
}

// Element k of a register operand. A single register has its name; one of an array the name with
// the element's number, since PTX declares `name<count>` as name0 to name(count - 1). Such names are
// most of the text of an unrolled kernel, hence no printf. A name has at most 41 characters
// (name_registers), a number 20.
PtxText ptx_element(Ptx *x, const Operand *o, int k)
{
    PtxText t;
    const char *name = x->reg_name[o->reg];
    char *end = put_text(t.s, name);
    if (x->fn->regs.at[o->reg].count != 1) put_decimal(end, affine_value(x, o) + k);
    return t;
}

// A source as text. Immediates are cut to the width of their class and printed as signed: the
// assembler refuses numbers that a type cannot hold. Float immediates go by their bits, so that no
// decimal rounding comes in.
PtxText ptx_operand(Ptx *x, const Operand *o, ThreadType type)
{
    static const char *const special[SR_COUNT] = {
#define X(id, text, ptx) ptx,
        SPECIAL_REGS(X)
#undef X
    };
    PtxText t;
    i64 v;
    switch (o->kind) {
    case OPD_REG: return ptx_element(x, o, 0);
    case OPD_FIMM: snprintf(t.s, sizeof t.s, "0f%08X", (u32)o->base); return t;
    case OPD_SREG:
        if (o->reg == SR_SMEM) x->uses_smem = true;
        snprintf(t.s, sizeof t.s, "%s", o->reg == SR_SMEM ? "baton_smem" : special[o->reg]);
        return t;
    default:
        v = affine_value(x, o);
        if (thread_type_class[type] == RC_B32) v = (i32)v;
        if (thread_type_class[type] == RC_B16) v = (int16_t)v;
        put_decimal(t.s, v);
        return t;
    }
}

PtxText ptx_address(Ptx *x, const Operand *o)
{
    PtxText t;
    i64 offset = affine_value(x, &o[1]);
    char *end = put_text(put_text(t.s, "["), ptx_element(x, &o[0], 0).s);
    if (offset) end = put_decimal(put_text(end, "+"), offset);
    put_text(end, "]");
    return t;
}

// Vectors of loads and products stand in braces; a product's registers even when it is only one.
void ptx_range(Ptx *x, const Operand *o, bool braces_for_one, Buf *out)
{
    bool braces = o->count > 1 || braces_for_one;
    if (braces) buf_putc(out, '{');
    for (int i = 0; i < o->count; i++) {
        if (i) buf_puts(out, ", ");
        buf_puts(out, ptx_element(x, o, i).s);
    }
    if (braces) buf_putc(out, '}');
}

const char *ptx_type(ThreadType t) { return thread_type_name[t]; }

// ---- the table ----------------------------------------------------------------------------------

// Operations whose spelling depends on more than their row of ops.h; all others go by its format.
static PtxHandler *const handler[OP_COUNT] = {
    [OP_ADD] = ptx_add,           [OP_SUB] = ptx_add,
    [OP_MUL] = ptx_multiply,      [OP_MAD] = ptx_multiply,
    [OP_MULWIDE] = ptx_mulwide,   [OP_DIV] = ptx_divide,
    [OP_CVT] = ptx_cvt,           [OP_CVTPACK] = ptx_cvtpack,
    [OP_PACK] = ptx_pack,         [OP_UNPACK] = ptx_unpack,
    [OP_SHFL] = ptx_shfl,         [OP_LDPARAM] = ptx_ldparam,
    [OP_LDS] = ptx_load,          [OP_LDG] = ptx_load,
    [OP_STS] = ptx_store,         [OP_STG] = ptx_store,
    [OP_ATOMS] = ptx_atomic,      [OP_ATOMG] = ptx_atomic,
    [OP_CASS] = ptx_atomic,       [OP_CASG] = ptx_atomic,
    [OP_PRINT_ARG] = ptx_print_arg, [OP_PRINT] = ptx_print_text,
    [OP_LDMATRIX] = ptx_ldmatrix, [OP_STMATRIX] = ptx_stmatrix,
    [OP_CPASYNC] = ptx_cpasync,   [OP_TMA_LOAD] = ptx_tma_load,
    [OP_TMA_STORE] = ptx_tma_store, [OP_TMA_PREFETCH] = ptx_tma_prefetch,
    [OP_MBAR_WAIT] = ptx_mbar_wait, [OP_MBAR_ARRIVE_CLUSTER] = ptx_mbar_arrive_cluster,
    [OP_PIN] = ptx_pin,           [OP_DELAY] = ptx_delay,
    [OP_CLOCK] = ptx_clock,
    [OP_WGMMA_SS] = ptx_wgmma,
    [OP_WGMMA_RS] = ptx_wgmma,
};

// Comparison as PTX spells it: "not equal" is true on NaN.
static const char *comparison(const ThreadOp *op)
{
    if (op->cmp == CMP_NE && op->type == TT_F32) return "neu";
    return thread_cmp_name[op->cmp];
}

// neg and abs know signed types only; for negation the bits are the same.
static const char *form_type(const ThreadOp *op)
{
    if (op->op == OP_NEG && op->type == TT_U32) return "s32";
    if (op->op == OP_NEG && op->type == TT_U64) return "s64";
    return ptx_type((ThreadType)op->type);
}

// Type of the immediate that stands for a signature letter.
static ThreadType letter_type(const ThreadOp *op, char letter)
{
    return letter == 'x' ? TT_S32 : (ThreadType)op->type;
}

// Writes an operation by the format of its row.
// The format of a row names its operands by %0 to %9 in the order of the signature, where an
// address is one operand; %t, %u are the types, %n the attribute, %c the comparison.
static void print_form(Ptx *x, const ThreadOp *op)
{
    PtxText operand[8];
    int n = 0, k = 0;
    // The operands as text first; an address takes two of op->opnd and is one of the format.
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        bool address = *s == 'S' || *s == 'G' || *s == 'B';
        operand[n++] = address ? ptx_address(x, &op->opnd[k])
                               : ptx_operand(x, &op->opnd[k], letter_type(op, *s));
        k += address ? 2 : 1;
    }
    Buf text = {0};
    for (const char *f = thread_op[op->op].form; *f; f++) {
        if (*f != '%') {
            buf_putc(&text, *f);
            continue;
        }
        f++;
        switch (*f) {
        case 't': buf_puts(&text, form_type(op)); break;
        case 'u': buf_puts(&text, ptx_type((ThreadType)op->type2)); break;
        case 'n': buf_printf(&text, "%d", op->n); break;
        case 'c': buf_puts(&text, comparison(op)); break;
        default: buf_puts(&text, operand[*f - '0'].s); break;
        }
    }
    ptx_line(x, op, "%s", text.s);
    buf_free(&text);
}

// ---- control ------------------------------------------------------------------------------------

static void print_block(Ptx *x, const ThreadBlock *b);

// A loop. The test stands at both ends, so that an iteration has one branch. `bra.uni` says that no
// warp splits here: bounds are equal in all lanes but in a loop `lanes`.
static void print_for(Ptx *x, const ThreadOp *op)
{
    int label = x->labels++, loop = x->loops++;
    const char *branch = op->flags & OPF_LANES ? "bra" : "bra.uni";
    PtxText k = ptx_element(x, &op->opnd[0], 0);
    PtxText lo = ptx_operand(x, &op->opnd[1], TT_S32), hi = ptx_operand(x, &op->opnd[2], TT_S32);
    ptx_line(x, NULL, "mov.b32 %s, %s;", k.s, lo.s);
    // A loop whose bounds are empty at entry runs no round.
    ptx_line(x, NULL, "setp.ge.s32 %%$loop%d, %s, %s;", loop, k.s, hi.s);
    ptx_line(x, NULL, "@%%$loop%d %s $end%d;", loop, branch, label);
    buf_printf(x->out, "$for%d:\n", label);
    // Unrolling is a decision of the program (unroll regions); the assembler's own would cost a
    // role with few registers its loop, in spills.
    ptx_line(x, NULL, ".pragma \"nounroll\";");
    print_block(x, &op->body);
    ptx_line(x, NULL, "add.s32 %s, %s, %lld;", k.s, k.s, (long long)op->opnd[3].base);
    ptx_line(x, NULL, "setp.lt.s32 %%$loop%d, %s, %s;", loop, k.s, hi.s);
    ptx_line(x, NULL, "@%%$loop%d %s $for%d;", loop, branch, label);
    buf_printf(x->out, "$end%d:\n", label);
}

// `.uni` only where the program says so: on a branch that does split a warp it is undefined.
static void print_if(Ptx *x, const ThreadOp *op)
{
    int label = x->labels++;
    const Operand *p = &op->opnd[0];
    const char *branch = op->flags & OPF_UNIFORM ? "bra.uni" : "bra";
    ptx_line(x, NULL, "@%s%s %s $%s%d;", p->negate ? "" : "!", ptx_element(x, p, 0).s, branch,
             op->other.n ? "else" : "end", label);
    print_block(x, &op->body);
    if (op->other.n) {
        ptx_line(x, NULL, "bra.uni $end%d;", label);
        buf_printf(x->out, "$else%d:\n", label);
        print_block(x, &op->other);
    }
    buf_printf(x->out, "$end%d:\n", label);
}

// A role is a range of whole warps, so its branch splits none. The unsigned difference tests both
// ends at once. The role of all warps needs no branch.
static void print_role(Ptx *x, const ThreadOp *op)
{
    if (op->imm == 0 && op->n == x->fn->threads / 32) {
        print_block(x, &op->body);
        return;
    }
    int label = x->labels++, test = x->loops++;
    x->uses_warp = true;
    buf_printf(x->out, "    // warps %d..%d\n", op->imm, op->imm + op->n);
    ptx_line(x, NULL, "sub.u32 %%$role, %%$warp, %d;", op->imm);
    ptx_line(x, NULL, "setp.ge.u32 %%$loop%d, %%$role, %d;", test, op->n);
    ptx_line(x, NULL, "@%%$loop%d bra.uni $end%d;", test, label);
    print_block(x, &op->body);
    buf_printf(x->out, "$end%d:\n", label);
}

// An unroll region is printed once per round, with its variable's value in x->value.
static void print_op(Ptx *x, const ThreadOp *op)
{
    source_line(x, op->loc);
    switch (op->op) {
    case OP_FOR: print_for(x, op); break;
    case OP_IF: print_if(x, op); break;
    case OP_ROLE: print_role(x, op); break;
    case OP_UNROLL:
        for (int i = 0; i < op->n; i++) {
            x->value[op->imm] = i;
            print_block(x, &op->body);
        }
        break;
    default:
        if (handler[op->op]) handler[op->op](x, op);
        else if (thread_op[op->op].form[0] != '!') print_form(x, op);
        else BUG("no PTX for %s", thread_op[op->op].name);
        break;
    }
}

static void print_block(Ptx *x, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) print_op(x, b->at[i]);
}

// ---- one kernel ---------------------------------------------------------------------------------

// Is %name one of the machine's own registers? Their list grows from version to version; these are
// the families. A register of the program with such a name gets a $ behind it.
static bool is_machine_name(const char *name)
{
    static const char *const prefix[] = {
        "tid",    "ntid",   "laneid",   "warp",     "nwarp",       "ctaid",    "nctaid", "smid",
        "nsmid",  "grid",   "cluster",  "ncluster", "is_explicit", "lanemask", "clock",  "pm",
        "envreg", "global", "reserved", "total",    "aggr",        "dynamic",  "current"};
    for (int i = 0; i < COUNT(prefix); i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0) return true;
    return false;
}

// Spelling of every register. Arrays get a $ at the end, so that `a` of 12 elements and a register
// `a1` cannot meet; long names are made unique by their number.
static void name_registers(Ptx *x)
{
    const ThreadFn *f = x->fn;
    Arena *a = x->mod->arena;
    x->reg_name = ARENA_ARRAY(a, const char *, f->regs.n);
    for (int i = 0; i < f->regs.n; i++) {
        const ThreadReg *r = &f->regs.at[i];
        // Long names are cut and numbered, so that every operand fits its text.
        if (strlen(r->name) > 28) x->reg_name[i] = arena_printf(a, "%%%.28s$%d$", r->name, i);
        else if (r->count > 1 || is_machine_name(r->name))
            x->reg_name[i] = arena_printf(a, "%%%s$", r->name);
        else x->reg_name[i] = arena_printf(a, "%%%s", r->name);
    }
}

// `.reqntid` together with `.maxnreg` (or a number of CTAs) fixes how many registers a thread has
// at entry: without it the assembler ignores setmaxnreg. A tensor map is 128 bytes at a multiple of
// 64 and is passed by value, since the TMA unit reads it from the kernel's parameters.
static void print_params(Ptx *x, Buf *out)
{
    static const char *const type[] = {".u64", ".u32", ".u64", ".f32"};
    const ThreadFn *f = x->fn;
    buf_printf(out, "\n.visible .entry %s(", f->name);
    for (int i = 0; i < f->params.n; i++) {
        const ThreadParam *p = &f->params.at[i];
        buf_puts(out, i ? ",\n" : "\n");
        if (p->kind == PARAM_TMAP) buf_printf(out, "    .param .align 64 .b8 p_%s[128]", p->name);
        else buf_printf(out, "    .param %s p_%s", type[p->kind], p->name);
    }
    buf_puts(out, f->params.n ? "\n)\n" : ")\n");
    buf_printf(out, ".reqntid %d, 1, 1\n", f->threads);
    if (f->maxnreg) buf_printf(out, ".maxnreg %d\n", f->maxnreg);
    if (f->min_ctas) buf_printf(out, ".minnctapersm %d\n", f->min_ctas);
    if (f->cluster > 1)
        buf_printf(out, ".explicitcluster\n.reqnctapercluster %d, 1, 1\n", f->cluster);
}

// One declaration for up to eight neighbours of a class.
static void print_registers(Ptx *x, Buf *out)
{
    const ThreadFn *f = x->fn;
    int class = -1, on_line = 0;
    for (int i = 0; i < f->regs.n; i++) {
        const ThreadReg *r = &f->regs.at[i];
        bool fresh = class != r->class || on_line == 8;
        if (fresh) buf_printf(out, "%s    .reg .%s ", i ? ";\n" : "", reg_class_name[r->class]);
        on_line = fresh ? 1 : on_line + 1;
        class = r->class;
        buf_printf(out, "%s%s", fresh ? "" : ", ", x->reg_name[i]);
        if (r->count > 1) buf_printf(out, "<%d>", r->count);
    }
    if (f->regs.n) buf_puts(out, ";\n");
    if (x->loops) buf_printf(out, "    .reg .pred %%$loop<%d>;\n", x->loops);
}

// What the body counts on: the warp's number, addresses of tensor maps, cache policies.
static void print_prologue(Ptx *x, Buf *out)
{
    if (x->uses_warp)
        // From lane 0, so that the assembler knows that it is equal in all lanes.
        buf_puts(out, "    .reg .b32 %$warp, %$role;\n"
                      "    mov.u32 %$warp, %tid.x;\n"
                      "    shr.u32 %$warp, %$warp, 5;\n"
                      "    shfl.sync.idx.b32 %$warp, %$warp, 0, 31, 0xffffffff;\n");
    if (x->uses_clock) buf_puts(out, "    .reg .b32 %$since, %$clock;\n");
    for (int i = 0; i < x->fn->params.n; i++) {
        const char *name = x->fn->params.at[i].name;
        if (!x->tmap_used[i]) continue;
        buf_printf(out, "    .reg .b64 %%$p_%s;\n    mov.b64 %%$p_%s, p_%s;\n", name, name, name);
        buf_printf(out, "    cvta.param.u64 %%$p_%s, %%$p_%s;\n", name, name);
    }
    static const char *const hint[] = {"evict_first", "evict_last"};
    for (int i = 0; i < 2; i++) {
        if (!(i ? x->policy_last : x->policy_first)) continue;
        buf_printf(out, "    .reg .b64 %%$%s;\n", hint[i]);
        buf_printf(out, "    createpolicy.fractional.L2::%s.b64 %%$%s, 0f3F800000;\n", hint[i],
                   hint[i]);
    }
}

// Texts of `print`, and once a module the function of the driver that prints them.
static void print_texts(const ThreadFn *f, Buf *out)
{
    for (int i = 0; i < f->texts.n; i++) {
        const char *c = f->texts.at[i];
        buf_printf(out, "\n.global .align 1 .b8 %s_text_%d[%zu] = {", f->name, i, strlen(c) + 1);
        for (; *c; c++) buf_printf(out, "%d, ", (u8)*c);
        buf_puts(out, "0};\n");
    }
}

// The body comes first: printing it shows which names of the prologue it needs.
static void print_kernel(Ptx *x, const ThreadFn *f, Buf *out)
{
    Arena *a = x->mod->arena;
    Buf body = {0};
    x->fn = f;
    x->out = &body;
    x->value = ARENA_ARRAY(a, i64, f->unrolls.n);
    x->tmap_used = ARENA_ARRAY(a, u8, f->params.n);
    x->uses_warp = x->uses_clock = x->policy_first = x->policy_last = false;
    x->labels = x->loops = 0;
    x->last = (Loc){0};
    name_registers(x);
    print_block(x, &f->body);
    print_texts(f, out);
    print_params(x, out);
    buf_puts(out, "{\n");
    if (f->texts.n)
        buf_printf(out, "    .local .align 8 .b8 $print[%d];\n", 8 * PRINT_MAX_ARGS);
    print_registers(x, out);
    print_prologue(x, out);
    buf_write(out, body.s, body.n);
    buf_puts(out, "    ret;\n}\n");
    buf_free(&body);
}

// ---- the module ---------------------------------------------------------------------------------

// The lowest PTX version that knows all operations: an older driver takes the text if it can. Tens
// and ones: 80 is 8.0, the first with sm_90a.
static int block_version(const ThreadBlock *b)
{
    int version = 80; // sm_90a
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        version = MAX(version, thread_op[op->op].ptx);
        version = MAX(version, MAX(block_version(&op->body), block_version(&op->other)));
    }
    return version;
}

// The plan first, then the head with the version that the kernels turned out to need. Shared memory
// is one array for all kernels, aligned so that swizzled tiles (1024 bytes) count from its start.
bool ptx_print(const ThreadModule *m, const Plan *plan, Diag *d, Buf *out)
{
    (void)d; // the thread IR holds nothing that PTX cannot say
    Ptx x = {.mod = m};
    Buf kernels = {0};
    int version = 80;
    for (int i = 0; i < m->fns.n; i++) {
        version = MAX(version, block_version(&m->fns.at[i]->body));
        print_kernel(&x, m->fns.at[i], &kernels);
    }
    if (plan) plan_print(plan, "//@ ", out);
    buf_printf(out, ".version %d.%d\n.target sm_90a\n.address_size 64\n", version / 10,
               version % 10);
    // `.extern` and without a size: the launch says how much there is.
    if (x.uses_smem) buf_puts(out, "\n.extern .shared .align 1024 .b8 baton_smem[];\n");
    bool prints = false;
    for (int i = 0; i < m->fns.n; i++) prints |= m->fns.at[i]->texts.n > 0;
    if (prints)
        buf_puts(out, "\n.extern .func (.param .b32 result) vprintf (.param .b64 text, "
                      ".param .b64 values);\n");
    buf_write(out, kernels.s, kernels.n);
    buf_free(&kernels);
    return true;
}
