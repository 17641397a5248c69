// print.c - thread IR as text (the grammar stands in read.c). Prints any module, also a wrong one,
// so that a program can be looked at when the checker refuses it; what it prints of a checked
// module reads back to the same module.
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const ThreadModule *mod;
    const ThreadFn *fn;
    Buf *out;
    VEC(u16) files; // Diag indices in order of first use; position + 1 is the number in the text
} Printer;

static void indent(Printer *p, int depth)
{
    for (int i = 0; i < depth; i++) buf_puts(p->out, "  ");
}

// ---- places ------------------------------------------------------------------------------------

// Numbers files in the order in which they are met, so that the text does not depend on how many
// others the Diag knows.
static void note_file(Printer *p, Loc loc)
{
    if (!loc.file) return;
    for (int i = 0; i < p->files.n; i++)
        if (p->files.at[i] == loc.file) return;
    vec_push(p->mod->arena, &p->files, loc.file);
}

static void note_block_files(Printer *p, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        note_file(p, b->at[i]->loc);
        note_block_files(p, &b->at[i]->body);
        note_block_files(p, &b->at[i]->other);
    }
}

// " !file:line:col", nothing for an unknown place; file 0 is "no file".
static void print_loc(Printer *p, Loc loc)
{
    if (!loc.file && !loc.line && !loc.col) return;
    int number = 0;
    for (int i = 0; i < p->files.n; i++)
        if (p->files.at[i] == loc.file) number = i + 1;
    buf_printf(p->out, " !%d:%u:%u", number, loc.line, loc.col);
}

// `source none` says that places are left out on purpose; else a reader would put in its own.
static void print_sources(Printer *p)
{
    if (!p->files.n) buf_puts(p->out, "source none\n");
    for (int i = 0; i < p->files.n; i++) {
        buf_puts(p->out, "source \"");
        const char *name = p->mod->diag ? diag_file_name(p->mod->diag, p->files.at[i]) : "?";
        for (; *name; name++) // a quote, a backslash or a control character cannot stand in a name
            buf_putc(p->out, *name == '"' || *name == '\\' || (u8)*name < 32 ? '?' : *name);
        buf_puts(p->out, "\"\n");
    }
}

// ---- operands ----------------------------------------------------------------------------------

// base + sum of coef * $variable, `shift` added to the base.
// The sigil tells a variable from a parameter of the same name.
static void print_affine(Printer *p, const Operand *o, i64 shift)
{
    i64 base = o->base + shift;
    for (int i = 0; i < o->nterms; i++) {
        i32 coef = o->term[i].coef;
        int var = o->term[i].var;
        const char *name = var < p->fn->unrolls.n ? p->fn->unrolls.at[var] : "?";
        if (i && coef >= 0) buf_putc(p->out, '+');
        if (coef == 1) buf_printf(p->out, "$%s", name);
        else buf_printf(p->out, "%d*$%s", coef, name);
    }
    if (!o->nterms) buf_printf(p->out, "%lld", (long long)base);
    else if (base) buf_printf(p->out, "%+lld", (long long)base);
}

// Nine digits give every finite float back exactly; infinities and NaN are printed as bits.
static void print_float(Printer *p, u32 bits)
{
    float f = f32_of_bits(bits);
    char text[40];
    if (!isfinite(f)) {
        buf_printf(p->out, "0f%08x", bits);
        return;
    }
    snprintf(text, sizeof text, "%.9g", (double)f);
    buf_puts(p->out, text);
    if (!strpbrk(text, ".e")) buf_puts(p->out, ".0");
}

// A question mark stands for what is out of range.
static void print_operand(Printer *p, const Operand *o)
{
    switch (o->kind) {
    case OPD_REG: {
        const ThreadReg *r = o->reg >= 0 && o->reg < p->fn->regs.n ? &p->fn->regs.at[o->reg] : NULL;
        buf_printf(p->out, "%s%%%s", o->negate ? "!" : "", r ? r->name : "?");
        if (r && r->count == 1 && o->count == 1 && !o->base && !o->nterms) break;
        buf_putc(p->out, '[');
        print_affine(p, o, 0);
        if (o->count != 1) {
            buf_putc(p->out, ':');
            print_affine(p, o, o->count);
        }
        buf_putc(p->out, ']');
        break;
    }
    case OPD_IMM: print_affine(p, o, 0); break;
    case OPD_FIMM: print_float(p, (u32)o->base); break;
    case OPD_SREG:
        buf_puts(p->out, o->reg >= 0 && o->reg < SR_COUNT ? special_reg_name[o->reg] : "?");
        break;
    case OPD_PARAM:
        buf_puts(p->out,
                 o->reg >= 0 && o->reg < p->fn->params.n ? p->fn->params.at[o->reg].name : "?");
        break;
    default: buf_putc(p->out, '?'); break;
    }
}

// "[base]" or "[base + offset]".
static void print_address(Printer *p, const Operand *base, const Operand *offset)
{
    buf_putc(p->out, '[');
    print_operand(p, base);
    if (offset->kind != OPD_IMM || offset->base || offset->nterms) {
        buf_puts(p->out, " + ");
        print_operand(p, offset);
    }
    buf_putc(p->out, ']');
}

// By the signature, which says where addresses and coordinates are grouped.
static void print_operands(Printer *p, const ThreadOp *op)
{
    int k = 0;
    const char *between = " ";
    for (const char *c = thread_op[op->op].sig; *c; c++) {
        int n = thread_sig_operands(op, *c);
        buf_puts(p->out, between);
        between = ", ";
        if (k + n > op->nopnd) {
            buf_putc(p->out, '?');
            break;
        }
        if (n == 2 && *c != 'C') {
            print_address(p, &op->opnd[k], &op->opnd[k + 1]);
        } else {
            if (*c == 'C') buf_putc(p->out, '{');
            for (int i = 0; i < n; i++) {
                if (i) buf_puts(p->out, ", ");
                print_operand(p, &op->opnd[k + i]);
            }
            if (*c == 'C') buf_putc(p->out, '}');
        }
        k += n;
    }
}

// " ; buffer(coordinates), ..." behind the operands.
static void print_mems(Printer *p, const ThreadOp *op)
{
    for (int i = 0; i < op->nmem; i++) {
        const MemRef *m = &op->mem[i];
        bool known = m->buffer >= 0 && m->buffer < p->fn->buffers.n;
        buf_printf(p->out, "%s%s(", i ? ", " : " ; ",
                   known ? p->fn->buffers.at[m->buffer].name : "?");
        for (int k = 0; k < m->ncoord; k++) {
            if (k) buf_puts(p->out, ", ");
            expr_print(m->coord[k], p->out);
        }
        buf_putc(p->out, ')');
    }
}

// ---- operations --------------------------------------------------------------------------------

// In one fixed order: comparison, attribute, flags, types.
static void print_suffixes(Printer *p, const ThreadOp *op)
{
    if (op->op == OP_SETP) buf_printf(p->out, ".%s", thread_cmp_name[op->cmp % CMP_COUNT]);
    switch (thread_attr(op->op)) {
    case ATTR_VECTOR:
        if (op->n != 1) buf_printf(p->out, ".v%d", op->n);
        break;
    case ATTR_MATRICES: buf_printf(p->out, ".x%d", op->n); break;
    case ATTR_BYTES: buf_printf(p->out, ".%d", op->n); break;
    case ATTR_EXTENT: buf_printf(p->out, ".n%d", op->n); break;
    case ATTR_PLACE: buf_printf(p->out, ".a%d", op->n); break;
    case ATTR_ATOMIC: buf_printf(p->out, ".%s", atomic_name[op->n % ATOM_COUNT]); break;
    case ATTR_SHFL: buf_printf(p->out, ".%s", shfl_mode_name[op->n % 4]); break;
    default: break;
    }
    for (int i = 0; i < thread_flags_n; i++)
        if (thread_flag[i].op == op->op && (op->flags & thread_flag[i].flag))
            buf_printf(p->out, ".%s", thread_flag[i].text);
    bool wgmma = op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
    bool implied = wgmma && op->type == TT_F32 && op->type2; // one type means f32 and that one
    if (op->type && op->type < TT_COUNT && !implied)
        buf_printf(p->out, ".%s", thread_type_name[op->type]);
    if (op->type2 && op->type2 < TT_COUNT) buf_printf(p->out, ".%s", thread_type_name[op->type2]);
}

static void print_block(Printer *p, const ThreadBlock *b, int depth);

// The head of a region up to its brace.
// "for %i = 0 to %n step 1", "unroll u 8", "role 0..4", "if %p"
static void print_region_head(Printer *p, const ThreadOp *op)
{
    switch (op->op) {
    case OP_FOR:
        for (int i = 0; i < 4 && i < op->nopnd; i++) {
            static const char *const word[] = {" ", " = ", " to ", " step "};
            buf_puts(p->out, word[i]);
            print_operand(p, &op->opnd[i]);
        }
        break;
    case OP_UNROLL:
        buf_printf(p->out, " %s %d",
                   op->imm >= 0 && op->imm < p->fn->unrolls.n ? p->fn->unrolls.at[op->imm] : "?",
                   op->n);
        break;
    case OP_ROLE: buf_printf(p->out, " %d..%d", op->imm, op->imm + op->n); break;
    case OP_IF: print_operands(p, op); break;
    default: BUG("region %d", op->op);
    }
}

// Regions have a block; all other operations are one line.
static bool is_region(const ThreadOp *op)
{
    return op->op == OP_FOR || op->op == OP_UNROLL || op->op == OP_IF || op->op == OP_ROLE;
}

// [@guard] name suffixes operands [; places] [!place], or a region with its blocks.
static void print_op(Printer *p, const ThreadOp *op, int depth)
{
    indent(p, depth);
    if (op->guard.kind != OPD_NONE) {
        buf_putc(p->out, '@');
        print_operand(p, &op->guard);
        buf_putc(p->out, ' ');
    }
    buf_puts(p->out, thread_op[op->op].name);
    print_suffixes(p, op);
    if (!is_region(op)) {
        if (thread_attr(op->op) == ATTR_OPERAND) buf_printf(p->out, " %d", op->n);
        print_operands(p, op);
        print_mems(p, op);
        print_loc(p, op->loc);
        buf_putc(p->out, '\n');
        return;
    }
    print_region_head(p, op);
    print_loc(p, op->loc);
    buf_puts(p->out, " {\n");
    print_block(p, &op->body, depth + 1);
    if (op->other.n) {
        indent(p, depth);
        buf_puts(p->out, "} else {\n");
        print_block(p, &op->other, depth + 1);
    }
    indent(p, depth);
    buf_puts(p->out, "}\n");
}

static void print_block(Printer *p, const ThreadBlock *b, int depth)
{
    for (int i = 0; i < b->n; i++) print_op(p, b->at[i], depth);
}

// ---- declarations ------------------------------------------------------------------------------

// "[a, b]": extents or strides.
static void print_exprs(Printer *p, const Expr *const *e, int n)
{
    buf_putc(p->out, '[');
    for (int i = 0; i < n; i++) {
        if (i) buf_puts(p->out, ", ");
        if (e[i]) expr_print(e[i], p->out);
        else buf_putc(p->out, '?');
    }
    buf_putc(p->out, ']');
}

// "  shared tile : bf16[2, 64, 64] swz128 @0": the declaration that read.c takes.
static void print_buffer(Printer *p, const ThreadBuffer *b)
{
    static const char *const word[] = {"shared", "global", "mbar"};
    buf_printf(p->out, "  %s %s", word[b->kind], b->name);
    if (b->kind != BUF_MBAR) buf_printf(p->out, " : %s", dtype_name[b->type]);
    print_exprs(p, b->dim, b->rank);
    if (b->kind == BUF_SHARED) buf_printf(p->out, " %s", smem_layout[b->layout].name);
    if (b->kind == BUF_GLOBAL) {
        bool known = b->param >= 0 && b->param < p->fn->params.n;
        buf_printf(p->out, " param %s", known ? p->fn->params.at[b->param].name : "?");
        if (b->rank && b->stride[0]) {
            buf_puts(p->out, " stride");
            print_exprs(p, b->stride, b->rank);
        }
    } else {
        buf_printf(p->out, " @%lld", (long long)b->offset);
    }
    print_loc(p, b->loc);
    buf_putc(p->out, '\n');
}

// Registers in order, neighbours of one class on one line of up to eight.
static void print_regs(Printer *p)
{
    int class = -1, on_line = 0;
    for (int i = 0; i < p->fn->texts.n; i++) {
        buf_puts(p->out, "  text \"");
        for (const char *c = p->fn->texts.at[i]; *c; c++) {
            if (*c == '\n') buf_puts(p->out, "\\n");
            else if (*c == '\t') buf_puts(p->out, "\\t");
            else if (*c == '"' || *c == '\\') buf_printf(p->out, "\\%c", *c);
            else if ((u8)*c < 32 || (u8)*c > 126) buf_printf(p->out, "\\x%02x", (u8)*c);
            else buf_putc(p->out, *c);
        }
        buf_puts(p->out, "\"\n");
    }
    for (int i = 0; i < p->fn->regs.n; i++) {
        const ThreadReg *r = &p->fn->regs.at[i];
        bool fresh = r->class != class || on_line == 8;
        if (fresh) {
            buf_printf(p->out, "%s  reg %s ", i ? "\n" : "", reg_class_name[r->class]);
            class = r->class;
            on_line = 0;
        }
        on_line++;
        buf_printf(p->out, "%s%s", fresh ? "" : ", ", r->name);
        if (r->count != 1) buf_printf(p->out, "[%d]", r->count);
    }
    if (p->fn->regs.n) buf_putc(p->out, '\n');
}

// Attributes with their default value are left out: maxnreg, min_ctas, smem 0, cluster 1.
static void print_fn(Printer *p)
{
    const ThreadFn *f = p->fn;
    buf_printf(p->out, "kernel %s\n  threads %d\n", f->name, f->threads);
    if (f->maxnreg) buf_printf(p->out, "  maxnreg %d\n", f->maxnreg);
    if (f->min_ctas) buf_printf(p->out, "  min_ctas %d\n", f->min_ctas);
    if (f->cluster != 1) buf_printf(p->out, "  cluster %d\n", f->cluster);
    if (f->smem_bytes) buf_printf(p->out, "  smem %lld\n", (long long)f->smem_bytes);
    for (int i = 0; i < f->params.n; i++)
        buf_printf(p->out, "  param %s %s\n", param_kind_name[f->params.at[i].kind],
                   f->params.at[i].name);
    for (int i = 0; i < f->buffers.n; i++) print_buffer(p, &f->buffers.at[i]);
    print_regs(p);
    buf_puts(p->out, "{\n");
    print_block(p, &f->body, 1);
    buf_puts(p->out, "}\n");
}

// Files are numbered over the whole module before anything is printed.
void thread_print(const ThreadModule *m, Buf *out)
{
    Printer p = {.mod = m, .out = out};
    for (int i = 0; i < m->fns.n; i++) {
        const ThreadFn *f = m->fns.at[i];
        for (int k = 0; k < f->buffers.n; k++) note_file(&p, f->buffers.at[k].loc);
        note_block_files(&p, &f->body);
    }
    print_sources(&p);
    for (int i = 0; i < m->fns.n; i++) {
        p.fn = m->fns.at[i];
        print_fn(&p);
    }
}
