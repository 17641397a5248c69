// print.c - tile IR as text. The form stands in text.h; read.c reads it back to the same text.
#include "text.h"

#include <math.h>

const char *const tile_engine_name[2] = {"dma", "tma"};
const char *const tile_hint_name[3] = {"-", "evict_first", "evict_last"};
const char *const tile_frag_layout_name[FL_COUNT] = {"none", "acc", "a16", "a8",
                                                     "a32",  "row", "col"};

typedef struct {
    const TileKernel *k;
    Buf *out;
    int indent;
} Printer;

static void print_expr(Printer *p, const Expr *e)
{
    if (e)
        expr_print(e, p->out);
    else
        buf_puts(p->out, "?");
}

// BUFFER [slot (EXPR)] [ORIGIN : EXTENT : LIMIT, ...], dropped dimensions with '!'.
static void print_view(Printer *p, const TileView *v)
{
    if (v->buffer < 0 || v->buffer >= p->k->buffers.n) {
        buf_puts(p->out, "none");
        return;
    }
    const TileBuffer *b = &p->k->buffers.at[v->buffer];
    buf_puts(p->out, b->name);
    if (v->slot) {
        buf_puts(p->out, " slot (");
        print_expr(p, v->slot);
        buf_puts(p->out, ")");
    }
    buf_puts(p->out, " [");
    int kept = 0;
    for (int i = 0; i < b->rank; i++) {
        if (i) buf_puts(p->out, ", ");
        bool keep = kept < v->rank && v->dim[kept] == i;
        if (keep)
            kept++;
        else
            buf_puts(p->out, "!");
        print_expr(p, v->origin[i]);
        buf_puts(p->out, " : ");
        print_expr(p, v->extent[i]);
        buf_puts(p->out, " : ");
        print_expr(p, v->limit[i]);
    }
    buf_puts(p->out, "]");
}

static const char *frag_name(Printer *p, int f)
{
    return f >= 0 && f < p->k->frags.n ? p->k->frags.at[f].name : "?";
}

static void print_frag(Printer *p, int frag, int slot)
{
    buf_puts(p->out, frag_name(p, frag));
    if (slot) buf_printf(p->out, " slot %d", slot);
}

static void print_at(Printer *p, int frag, const u8 *at)
{
    int rank = frag >= 0 && frag < p->k->frags.n ? p->k->frags.at[frag].rank : 0;
    if (rank == 2 || at[0] == TILE_AT_REG)
        buf_printf(p->out, " at(%d, %d)", at[0], at[1]);
    else
        buf_printf(p->out, " at(%d)", at[0]);
}

// 17 digits bring back every double.
static void print_float(Printer *p, double v)
{
    if (isnan(v))
        buf_puts(p->out, "nan");
    else if (isinf(v))
        buf_puts(p->out, v < 0 ? "-inf" : "inf");
    else
        buf_printf(p->out, "%.17g", v);
}

// Prefix form; the type stands behind the operator's name.
static void print_texpr(Printer *p, const TExpr *x)
{
    if (!x) {
        buf_puts(p->out, "?");
        return;
    }
    const char *type = dtype_name[x->type];
    switch (x->kind) {
    case TX_FLOAT:
        buf_printf(p->out, "float.%s ", type);
        print_float(p, x->fvalue);
        break;
    case TX_INDEX:
        buf_printf(p->out, "int.%s (", type);
        print_expr(p, x->index);
        buf_puts(p->out, ")");
        break;
    case TX_SCALAR:
        buf_printf(p->out, "scalar %s",
                   x->scalar >= 0 && x->scalar < p->k->scalars.n ? p->k->scalars.at[x->scalar].name
                                                                 : "?");
        break;
    case TX_FRAG:
        buf_puts(p->out, "frag ");
        print_frag(p, x->frag, x->slot);
        print_at(p, x->frag, x->at);
        break;
    case TX_ELEM:
        buf_printf(p->out, "elem.%s ", type);
        print_view(p, x->view);
        break;
    case TX_CAST:
    case TX_BITCAST:
        buf_printf(p->out, "%s.%s(", x->kind == TX_CAST ? "cast" : "bitcast", type);
        print_texpr(p, x->a);
        buf_puts(p->out, ")");
        break;
    default: {
        const TExpr *arg[3] = {x->a, x->b, x->c};
        buf_printf(p->out, "%s.%s(", x->math < TM_COUNT ? tile_math[x->math].name : "?", type);
        for (int i = 0; x->math < TM_COUNT && i < tile_math[x->math].args; i++) {
            if (i) buf_puts(p->out, ", ");
            print_texpr(p, arg[i]);
        }
        buf_puts(p->out, ")");
    }
    }
}

static void print_operand(Printer *p, const TileOperand *o)
{
    if (o->frag >= 0) {
        buf_puts(p->out, "reg ");
        print_frag(p, o->frag, o->frag_slot);
    } else {
        buf_puts(p->out, "tile ");
        print_view(p, &o->view);
    }
    if (o->trans) buf_puts(p->out, " trans");
}

static void print_block(Printer *p, const TileBlock *b);

static void print_indent(Printer *p)
{
    for (int i = 0; i < p->indent; i++) buf_puts(p->out, "  ");
}

static void print_body(Printer *p, const TileBlock *b)
{
    buf_puts(p->out, "{\n");
    p->indent++;
    print_block(p, b);
    p->indent--;
    print_indent(p);
    buf_puts(p->out, "}");
}

// One field of an operation, by its letter in ops.h.
static void print_field(Printer *p, const TileOp *o, char letter)
{
    switch (letter) {
    case 'v':
        buf_puts(p->out, o->var ? o->var : "-");
        if (o->var2) buf_printf(p->out, ", %s", o->var2);
        break;
    case 'l': buf_puts(p->out, o->level < LEVEL_COUNT ? tile_level_name[o->level] : "?"); break;
    case 'n':
        buf_puts(p->out, "(");
        if (o->op != TOP_PAR) {
            print_expr(p, o->lo);
            buf_puts(p->out, ", ");
        }
        print_expr(p, o->hi);
        if (o->op != TOP_PAR) {
            buf_puts(p->out, ", ");
            print_expr(p, o->step);
        }
        buf_puts(p->out, ")");
        break;
    case 'c': print_texpr(p, o->cond); break;
    case 'x':
        buf_puts(p->out, "= ");
        print_texpr(p, o->value);
        break;
    case 'd':
        buf_puts(p->out, "dst ");
        print_view(p, &o->dst);
        break;
    case 's':
        buf_puts(p->out, "src ");
        print_view(p, &o->src);
        break;
    case 'f': print_frag(p, o->frag, o->frag_slot); break;
    case 'g': print_frag(p, o->frag2, o->frag2_slot); break;
    case 'k':
        buf_puts(p->out, o->scalar >= 0 && o->scalar < p->k->scalars.n
                             ? p->k->scalars.at[o->scalar].name
                             : "?");
        break;
    case 'e':
        if (o->future >= 0 && o->future < p->k->futures.n)
            buf_printf(p->out, "future %s", p->k->futures.at[o->future]);
        else
            buf_puts(p->out, "sync");
        break;
    case 'a': print_operand(p, &o->a); break;
    case 'b': print_operand(p, &o->b); break;
    case 'E':
        if (o->op == TOP_FSET)
            print_at(p, o->frag, o->elem_at);
        else
            print_view(p, &o->elem);
        break;
    case 'y':
        buf_printf(p->out, "%s %s %s%s", tile_engine_name[o->engine & 1],
                   smem_layout[o->swizzle].name, tile_hint_name[o->hint % 3],
                   o->cluster ? " multicast" : "");
        if (o->promote) buf_printf(p->out, " promote %d", o->promote);
        break;
    case 'm': buf_printf(p->out, "%lld", (long long)o->imm); break;
    case 'q':
        if (o->imm) buf_printf(p->out, "order %lld", (long long)o->imm);
        break;
    case 'P':
        buf_printf(p->out, "pipeline %d %d %d", o->stages, o->load_regs, o->compute_regs);
        break;
    case 'p': buf_printf(p->out, "from %lld", (long long)o->imm); break;
    case 'r':
        buf_puts(p->out, "(");
        print_expr(p, o->lo);
        buf_puts(p->out, ", ");
        print_expr(p, o->hi);
        buf_puts(p->out, ")");
        break;
    case 't':
        buf_printf(p->out, "on %s", o->event < p->k->events.n ? p->k->events.at[o->event].name : "?");
        if (o->order) {
            buf_puts(p->out, " (");
            print_expr(p, o->order);
            buf_puts(p->out, ")");
        }
        if (o->op == TOP_TRIGGER && o->cluster) buf_puts(p->out, " cluster");
        if (o->op == TOP_TRIGGER && o->handoff)
            buf_printf(p->out, " handoff %s", tile_handoff_name[o->handoff]);
        break;
    case 'T':
        buf_putc(p->out, '"');
        for (const char *c = o->text; *c; c++) {
            if ((u8)*c < 32 || (u8)*c > 126 || *c == '"' || *c == '\\')
                buf_printf(p->out, "\\x%02x", (u8)*c);
            else
                buf_putc(p->out, *c);
        }
        buf_putc(p->out, '"');
        break;
    case 'B': print_body(p, &o->body); break;
    case 'O':
        if (o->other.n) {
            buf_puts(p->out, "else ");
            print_body(p, &o->other);
        }
        break;
    default: BUG("field letter %c of the tile IR", letter);
    }
}

static void print_block(Printer *p, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        print_indent(p);
        if (o->op >= TOP_COUNT) {
            buf_puts(p->out, "?\n");
            continue;
        }
        buf_puts(p->out, tile_op[o->op].name);
        for (const char *f = tile_op[o->op].fields; *f; f++) {
            if (*f == 'O' && !o->other.n) continue;
            if (*f == 't' && o->event < 0) continue;
            if (*f == 'p' && !o->imm) continue;
            if (*f == 'P' && !o->stages) continue;
            if (*f == 'e' && o->op == TOP_MMA && o->future < 0) continue;
            if (!(*f == 'E' && o->op == TOP_FSET)) buf_putc(p->out, ' ');
            print_field(p, o, *f);
        }
        buf_putc(p->out, '\n');
    }
}

static void print_dims(Printer *p, const Expr *const *dim, int rank)
{
    buf_puts(p->out, "[");
    for (int i = 0; i < rank; i++) {
        if (i) buf_puts(p->out, ", ");
        print_expr(p, dim[i]);
    }
    buf_puts(p->out, "]");
}

static void print_decls(Printer *p)
{
    const TileKernel *k = p->k;
    for (int i = 0; i < k->buffers.n; i++) {
        static const char *const kind[] = {"global", "shared", "local"};
        const TileBuffer *b = &k->buffers.at[i];
        buf_printf(p->out, "  %s %s %s ", kind[b->kind], b->name,
                   dtype_name[b->type]);
        print_dims(p, b->dim, b->rank);
        if (b->kind == TB_GLOBAL)
            buf_printf(p->out, " param %d", b->param);
        else
            buf_printf(p->out, " %s slots %d", smem_layout[b->layout].name, b->slots);
        if (b->handoff) buf_printf(p->out, " handoff %s", tile_handoff_name[b->handoff]);
        if (b->alias) buf_printf(p->out, " as %s", k->buffers.at[b->alias - 1].name);
        if (b->stride[0]) {
            buf_puts(p->out, " stride ");
            print_dims(p, b->stride, b->rank);
        }
        buf_putc(p->out, '\n');
    }
    for (int i = 0; i < k->frags.n; i++) {
        const TileFrag *f = &k->frags.at[i];
        buf_printf(p->out, "  frag %s %s [%lld", f->name, dtype_name[f->type],
                   (long long)f->dim[0]);
        if (f->rank == 2) buf_printf(p->out, ", %lld", (long long)f->dim[1]);
        buf_printf(p->out, "] %s %s slots %d\n", tile_level_name[f->level],
                   tile_frag_layout_name[f->layout], f->slots);
    }
    for (int i = 0; i < k->scalars.n; i++)
        buf_printf(p->out, "  scalar %s %s\n", k->scalars.at[i].name,
                   dtype_name[k->scalars.at[i].type]);
    for (int i = 0; i < k->futures.n; i++) buf_printf(p->out, "  future %s\n", k->futures.at[i]);
    for (int i = 0; i < k->events.n; i++) {
        const TileEvent *e = &k->events.at[i];
        buf_printf(p->out, "  event %s %s slots %d %s count %d%s\n", e->name,
                   e->scalar ? "scalar" : "ring", e->slots, e->ready ? "ready" : "empty", e->count,
                   e->turns ? " turns" : e->hands ? " hands" : e->gives ? " gives" : "");
    }
}

static void print_kernel(const TileKernel *k, Buf *out)
{
    Printer p = {k, out, 1};
    buf_printf(out, "kernel %s {\n", k->name);
    if (k->when) {
        buf_puts(out, "  when ");
        print_expr(&p, k->when);
        buf_puts(out, "\n");
    }
    buf_puts(out, "  grid");
    for (int i = 0; i < k->ngrid; i++) {
        buf_printf(out, "%s %s = ", i ? "," : "", k->grid_var[i]);
        print_expr(&p, k->grid[i]);
    }
    if (k->cluster > 1) buf_printf(out, "\n  cluster %d", k->cluster);
    buf_printf(out, "\n  threads %d max %d min %d maxnreg %d%s\n", k->threads, k->max_threads,
               k->min_blocks, k->maxnreg, k->sequential ? " sequential" : "");
    print_decls(&p);
    buf_puts(out, "body ");
    p.indent = 0;
    print_body(&p, &k->body);
    buf_puts(out, "\n}\n");
}

void tile_print(const TileModule *m, Buf *out)
{
    for (int i = 0; i < m->fns.n; i++) {
        const TileFn *f = m->fns.at[i];
        if (i) buf_puts(out, "\n");
        buf_printf(out, "fn %s {\n", f->name);
        if (f->plan) plan_print(f->plan, TILE_PLAN_PREFIX, out);
        for (int k = 0; k < f->kernels.n; k++) print_kernel(f->kernels.at[k], out);
        buf_puts(out, "}\n");
    }
}
