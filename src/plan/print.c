// print.c - the launch plan as text, one item a line, exactly what read.c reads back.
//
//     plan NAME
//     options "TEXT"
//     param NAME: bf16[B, S, H, D] in out result align 16 @LINE:COLUMN
//     param NAME: f32 scalar in align 4
//     param NAME: s32[device.sms + B*H, 4] in workspace align 16
//     symbol NAME = extent PARAM DIM default 512      symbol NAME = scalar PARAM
//     check "TEXT": EXPR @LINE:COLUMN
//     kernel NAME grid (EXPR, EXPR, EXPR) block 384 cluster 1 smem 196608 when EXPR
//     tmap PARAM dim (EXPR, ...) stride (EXPR, ...) box (64, 128, ...) swizzle swz128 promote 64
//     arg tensor PARAM    arg value EXPR    arg float PARAM    arg tmap INDEX
//     memset PARAM byte 0 when EXPR
//     host FUNCTION into PARAM args (EXPR, ...)
//     end
//
// `tmap` and `arg` lines belong to the kernel line above them. A place is that of the .co source
// and is left out when unknown; so are an empty `options`, a missing default, a missing `when` and an
// L2 promotion that was not given.
#include "plan.h"

#include <inttypes.h>

// A plan that breaks the law is printed too, for the message about it: no index is trusted.
static const char *param_name(const Plan *p, int k)
{
    return k >= 0 && k < p->params.n ? p->params.at[k].name : "?";
}

// Text in double quotes; quote, backslash and control characters as \xx.
static void print_text(const char *s, Buf *out)
{
    buf_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c < 32 || c == 127)
            buf_printf(out, "\\%02x", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

// Line 0: nobody knows.
static void print_loc(Loc loc, Buf *out)
{
    if (loc.line) buf_printf(out, " @%u:%u", loc.line, (unsigned)loc.col);
}

// "WORD (e, e, e)"; `n` expressions.
static void print_list(const char *word, int n, const Expr *const *e, Buf *out)
{
    buf_printf(out, " %s (", word);
    for (int i = 0; i < n; i++) {
        if (i) buf_puts(out, ", ");
        expr_print(e[i], out);
    }
    buf_putc(out, ')');
}

static void print_when(const Expr *when, Buf *out)
{
    if (!when) return;
    buf_puts(out, " when ");
    expr_print(when, out);
}

// The words in the order in which read.c takes them.
static void print_param(const PlanParam *q, Buf *out)
{
    buf_printf(out, "param %s: %s", q->name, dtype_name[q->type]);
    if (q->kind == PLAN_SCALAR) {
        buf_puts(out, " scalar");
    } else {
        buf_putc(out, '[');
        for (int i = 0; i < q->rank; i++) {
            if (i) buf_puts(out, ", ");
            expr_print(q->dim[i], out);
        }
        buf_putc(out, ']');
    }
    if (q->in) buf_puts(out, " in");
    if (q->out) buf_puts(out, " out");
    if (q->result) buf_puts(out, " result");
    if (q->kind == PLAN_WORKSPACE) buf_puts(out, " workspace");
    buf_printf(out, " align %d", q->align);
    print_loc(q->loc, out);
}

// Where its value comes from, and the contract's default, which only the command line uses.
static void print_symbol(const Plan *p, const PlanSymbol *s, Buf *out)
{
    buf_printf(out, "symbol %s = ", s->name);
    if (s->source == SYM_EXTENT)
        buf_printf(out, "extent %s %d", param_name(p, s->param), s->dim);
    else
        buf_printf(out, "scalar %s", param_name(p, s->param));
    if (s->has_default) buf_printf(out, " default %" PRId64, s->default_value);
}

// All lists run from the innermost dimension outwards, as the driver takes them.
static void print_tmap(const Plan *p, const PlanTensorMap *t, Buf *out)
{
    buf_printf(out, "tmap %s", param_name(p, t->param));
    print_list("dim", t->rank, t->dim, out);
    print_list("stride", t->rank, t->stride, out);
    buf_puts(out, " box (");
    for (int i = 0; i < t->rank; i++) buf_printf(out, "%s%u", i ? ", " : "", t->box[i]);
    buf_printf(out, ") swizzle %s", smem_layout[t->swizzle].name);
    if (t->promote) buf_printf(out, " promote %d", t->promote);
}

// A value's width is not written: the kernel's own parameter says whether it is 32 or 64 bits.
static void print_arg(const Plan *p, const PlanArg *g, Buf *out)
{
    switch ((PlanArgKind)g->kind) {
    case ARG_TENSOR: buf_printf(out, "arg tensor %s", param_name(p, g->index)); break;
    case ARG_FLOAT: buf_printf(out, "arg float %s", param_name(p, g->index)); break;
    case ARG_TMAP: buf_printf(out, "arg tmap %d", g->index); break;
    case ARG_VALUE:
        buf_puts(out, "arg value ");
        expr_print(g->value, out);
        break;
    }
}

// A kernel's tensor maps come before its arguments, which name them by number.
static void print_step(const Plan *p, const PlanStep *s, const char *prefix, Buf *out)
{
    buf_puts(out, prefix);
    if (s->kind == STEP_MEMSET) {
        buf_printf(out, "memset %s byte %d", param_name(p, s->param), s->byte);
        print_when(s->when, out);
        buf_putc(out, '\n');
        return;
    }
    if (s->kind == STEP_HOST) {
        buf_printf(out, "host %s into %s", s->function, param_name(p, s->param));
        print_list("args", s->host_args.n, s->host_args.at, out);
        print_when(s->when, out);
        buf_putc(out, '\n');
        return;
    }
    buf_printf(out, "kernel %s", s->kernel);
    print_list("grid", 3, s->grid, out);
    buf_printf(out, " block %d cluster %d smem %" PRId64, s->block, s->cluster, s->smem_bytes);
    print_when(s->when, out);
    buf_putc(out, '\n');
    for (int i = 0; i < s->tmaps.n; i++) {
        buf_puts(out, prefix);
        print_tmap(p, &s->tmaps.at[i], out);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < s->args.n; i++) {
        buf_puts(out, prefix);
        print_arg(p, &s->args.at[i], out);
        buf_putc(out, '\n');
    }
}

// Params before symbols before steps: each line uses only what stands above it.
void plan_print(const Plan *p, const char *prefix, Buf *out)
{
    buf_printf(out, "%splan %s\n", prefix, p->name);
    if (p->options && *p->options) {
        buf_printf(out, "%soptions ", prefix);
        print_text(p->options, out);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < p->params.n; i++) {
        buf_puts(out, prefix);
        print_param(&p->params.at[i], out);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < p->symbols.n; i++) {
        buf_puts(out, prefix);
        print_symbol(p, &p->symbols.at[i], out);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < p->checks.n; i++) {
        const PlanCheck *c = &p->checks.at[i];
        buf_printf(out, "%scheck ", prefix);
        print_text(c->text, out);
        buf_puts(out, ": ");
        expr_print(c->cond, out);
        print_loc(c->loc, out);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < p->steps.n; i++) print_step(p, p->steps.at[i], prefix, out);
    buf_printf(out, "%send\n", prefix);
}
