// check.c - the law of the tile IR: what every pass may rely on. Text that was read back, or a pass
// with a mistake, is caught here and not as a crash further down.
//
// Names: every variable of an expression is a symbol of the plan, a device property, or bound
// around the place of use. Indices are in range. Views have their buffer's rank, shared ones
// constant extents. Types of scalar expressions follow their rows in TILE_MATHS. Fragment elements
// stand inside an apply of matching shape, whole-tile operations outside.
#include "tile.h"

#include <string.h>

enum { MAX_NESTING = 250 };

typedef struct {
    const TileModule *m;
    const TileFn *fn;
    const TileKernel *k;
    Map *bound;              // variable -> non-NULL while it is bound
    const TileOp *apply;     // the apply around us
    const TileOp *op;        // for messages
    const TileOp *broken_op; // the last one that broke a rule: one message each
    int level;               // innermost parallel
    int depth;
    bool ok;
} Checker;

static void broken(Checker *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void broken(Checker *c, const char *fmt, ...)
{
    c->ok = false;
    if (c->op && c->op == c->broken_op) return;
    c->broken_op = c->op;
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(c->m->arena, fmt, ap);
    va_end(ap);
    diag_error(c->m->diag, c->op ? c->op->loc : c->k->loc, NULL, "tile IR: %s: %s: %s", c->k->name,
               c->op && c->op->op < TOP_COUNT ? tile_op[c->op->op].name : "declarations", text);
}

// ---- expressions -------------------------------------------------------------------------------

// Device variables are bound by the operations around them, others by the plan.
static bool is_known(const Checker *c, const char *name)
{
    if (name[0] == '%') return map_get(c->bound, name) != NULL;
#define X(id, text)                                                                                \
    if (!strcmp(name, text)) return true;
    PLAN_DEVICE_PROPS(X)
#undef X
    const Plan *p = c->fn->plan;
    for (int i = 0; p && i < p->symbols.n; i++)
        if (!strcmp(p->symbols.at[i].name, name)) return true;
    return false;
}

static void names_of(Checker *c, const Expr *e)
{
    if (!e) return;
    if (e->op == EX_VAR && !is_known(c, e->name)) broken(c, "'%s' is not bound here", e->name);
    names_of(c, e->a);
    names_of(c, e->b);
    names_of(c, e->c);
}

static void index_expr(Checker *c, const Expr *e, const char *what)
{
    if (!e)
        broken(c, "%s is missing", what);
    else
        names_of(c, e);
}

static bool is_positive(const Expr *e)
{
    i64 v;
    return e && expr_is_const(e, &v) && v > 0;
}

// ---- views -------------------------------------------------------------------------------------

// A view has a place, an extent and a limit in every dimension of its buffer.
static bool check_view(Checker *c, const TileView *v, const char *what)
{
    if (v->buffer < 0 || v->buffer >= c->k->buffers.n) {
        broken(c, "%s names no buffer", what);
        return false;
    }
    const TileBuffer *b = &c->k->buffers.at[v->buffer];
    if (v->slot) {
        names_of(c, v->slot);
        i64 n;
        if (b->kind == TB_GLOBAL) broken(c, "%s has a slot of a global buffer", what);
        if (expr_is_const(v->slot, &n) && (n < 0 || n >= b->slots))
            broken(c, "%s has slot %lld of %d", what, (long long)n, b->slots);
    }
    if (v->rank < 0 || v->rank > b->rank) {
        broken(c, "%s has rank %d, its buffer %d", what, v->rank, b->rank);
        return false;
    }
    for (int d = 0; d < b->rank; d++) {
        index_expr(c, v->origin[d], "an origin");
        index_expr(c, v->extent[d], "an extent");
        index_expr(c, v->limit[d], "a limit");
    }
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] >= b->rank || (i && v->dim[i] <= v->dim[i - 1]))
            broken(c, "%s keeps dimensions in no ascending order", what);
    return true;
}

// An element is a view of extents 1.
static void check_element(Checker *c, const TileView *v)
{
    check_view(c, v, "an element");
    if (v->buffer < 0 || v->buffer >= c->k->buffers.n) return;
    i64 n;
    for (int d = 0; d < c->k->buffers.at[v->buffer].rank; d++)
        if (!v->extent[d] || !expr_is_const(v->extent[d], &n) || n != 1)
            broken(c, "an element has an extent that is not 1");
}

// ---- fragments ---------------------------------------------------------------------------------

static bool check_frag(Checker *c, int frag, int slot, const char *what)
{
    if (frag < 0 || frag >= c->k->frags.n) {
        broken(c, "%s names no fragment", what);
        return false;
    }
    if (slot < 0 || slot >= c->k->frags.at[frag].slots) {
        broken(c, "%s has slot %d of %d", what, slot, c->k->frags.at[frag].slots);
        return false;
    }
    return true;
}

// Elements follow the variables of the apply around them, in their order.
static void check_frag_element(Checker *c, int frag, int slot, const u8 *at)
{
    if (!check_frag(c, frag, slot, "a fragment element") || at[0] == TILE_AT_REG) return;
    if (!c->apply) {
        broken(c, "a fragment element stands outside of apply");
        return;
    }
    if (c->apply->frag < 0 || c->apply->frag >= c->k->frags.n) return;
    const TileFrag *f = &c->k->frags.at[frag], *over = &c->k->frags.at[c->apply->frag];
    for (int i = 0; i < f->rank; i++) {
        if (at[i] >= over->rank)
            broken(c, "'%s' is indexed by variable %d of the apply", f->name, at[i]);
        else if (f->dim[i] != over->dim[at[i]])
            broken(c, "'%s' has another extent than the apply", f->name);
    }
    if (f->rank == 2 && (at[0] != 0 || at[1] != 1))
        broken(c, "'%s' is indexed with the variables in another order", f->name);
}

// ---- scalar expressions ------------------------------------------------------------------------

// Types that values are computed in; others are converted before and after.
static bool is_math_type(DType t)
{
    return t == DT_F32 || t == DT_S32 || t == DT_U32 || t == DT_S64 || t == DT_U64;
}

static void check_texpr(Checker *c, const TExpr *x, const char *what);

// Operands have the type of the result; comparisons have one type and give a bool.
static void check_math(Checker *c, const TExpr *x)
{
    if (x->math >= TM_COUNT) {
        broken(c, "an unknown operator");
        return;
    }
    const TileMathInfo *info = &tile_math[x->math];
    const TExpr *arg[3] = {x->a, x->b, x->c};
    for (int i = 0; i < info->args; i++) {
        check_texpr(c, arg[i], "an operand");
        if (!arg[i]) return;
    }
    bool logic = x->math == TM_LNOT || x->math == TM_LAND || x->math == TM_LOR ||
                 x->math == TM_ANY;
    bool select = x->math == TM_SELECT, bits = x->math >= TM_AND && x->math <= TM_XOR;
    bool compares = info->result == 'b';
    if (compares != (x->type == DT_BOOL) && !(x->type == DT_BOOL && (select || bits)))
        broken(c, "'%s' has type %s", info->name, dtype_name[x->type]);
    if (!compares && x->type != DT_BOOL && !is_math_type(x->type))
        broken(c, "'%s' computes in %s; that is no type to compute in", info->name,
               dtype_name[x->type]);
    DType want = logic ? DT_BOOL : compares ? x->a->type : x->type;
    bool shift = x->math == TM_SHL || x->math == TM_SHR;
    for (int i = 0; i < info->args; i++) {
        DType t = select && i == 0 ? DT_BOOL : want;
        if (shift && i == 1) continue; // the count may have another integer type
        if (arg[i]->type != t)
            broken(c, "operand %d of '%s' is %s; %s is required", i, info->name,
                   dtype_name[arg[i]->type], dtype_name[t]);
    }
    bool integers = bits || shift || x->math == TM_REM || x->math == TM_NOT;
    bool floats = x->math == TM_FMA || (x->math >= TM_EXP2 && x->math <= TM_TANH);
    if ((integers && dtype_is_float(x->type)) || (floats && x->type != DT_F32))
        broken(c, "'%s' has type %s", info->name, dtype_name[x->type]);
}

static void check_texpr(Checker *c, const TExpr *x, const char *what)
{
    if (!x) {
        broken(c, "%s is missing", what);
        return;
    }
    if (x->type >= DT_COUNT || ++c->depth > MAX_NESTING) {
        broken(c, x->type >= DT_COUNT ? "%s has no type" : "%s nests too deeply", what);
        return;
    }
    switch (x->kind) {
    case TX_FLOAT:
        if (!dtype_is_float(x->type)) broken(c, "a float constant of type %s", dtype_name[x->type]);
        break;
    case TX_INDEX:
        if (dtype_is_float(x->type)) broken(c, "an integer of type %s", dtype_name[x->type]);
        index_expr(c, x->index, "an integer expression");
        break;
    case TX_SCALAR:
        if (x->scalar < 0 || x->scalar >= c->k->scalars.n)
            broken(c, "%s names no scalar", what);
        else if (c->k->scalars.at[x->scalar].type != x->type)
            broken(c, "scalar '%s' is not %s", c->k->scalars.at[x->scalar].name,
                   dtype_name[x->type]);
        break;
    case TX_FRAG:
        check_frag_element(c, x->frag, x->slot, x->at);
        if (x->frag >= 0 && x->frag < c->k->frags.n && c->k->frags.at[x->frag].type != x->type)
            broken(c, "fragment '%s' is not %s", c->k->frags.at[x->frag].name, dtype_name[x->type]);
        break;
    case TX_ELEM:
        if (!x->view) {
            broken(c, "an element without a view");
            break;
        }
        check_element(c, x->view);
        if (x->view->buffer >= 0 && x->view->buffer < c->k->buffers.n &&
            c->k->buffers.at[x->view->buffer].type != x->type)
            broken(c, "buffer '%s' is not %s", c->k->buffers.at[x->view->buffer].name,
                   dtype_name[x->type]);
        break;
    case TX_MATH: check_math(c, x); break;
    case TX_CAST:
    case TX_BITCAST:
        check_texpr(c, x->a, "an operand");
        if (x->a && x->kind == TX_BITCAST && dtype_bytes[x->a->type] != dtype_bytes[x->type])
            broken(c, "a bitcast between %s and %s", dtype_name[x->a->type], dtype_name[x->type]);
        break;
    default: broken(c, "%s of an unknown kind", what);
    }
    c->depth--;
}

static void check_value(Checker *c, const TExpr *x, DType type)
{
    check_texpr(c, x, "the value");
    if (x && x->type != type)
        broken(c, "a value of %s where %s is required", dtype_name[x->type], dtype_name[type]);
}

// ---- operations --------------------------------------------------------------------------------

static void check_block(Checker *c, const TileBlock *b);

// Binds a variable around a body. A name is bound once at a time.
static void bind(Checker *c, const char *name)
{
    if (!name || name[0] != '%')
        broken(c, "a variable without a name that begins with '%%'");
    else if (map_get(c->bound, name))
        broken(c, "'%s' is bound twice", name);
    else
        map_put(c->bound, name, c);
}

static void unbind(Checker *c, const char *name)
{
    if (name && name[0] == '%') map_put(c->bound, name, NULL);
}

// The event exists, and an order stands just where it is a ring.
static void check_event(Checker *c, const TileOp *o)
{
    if (o->event < 0) return;
    if (o->event >= c->k->events.n) {
        broken(c, "an unknown event");
        return;
    }
    const TileEvent *e = &c->k->events.at[o->event];
    if (e->turns && (e->scalar || e->ready || e->slots > 31 || o->op == TOP_TRIGGER))
        broken(c, "event '%s' of loads that turn is triggered, ready or too long", e->name);
    if (e->slots < 1 || (e->scalar && e->slots != 1)) broken(c, "event '%s' of %d slots", e->name, e->slots);
    if (e->scalar != (o->order == NULL))
        broken(c, e->scalar ? "an order on the scalar event '%s'" : "no order on the event '%s'", e->name);
    if (o->order) index_expr(c, o->order, "the order of an event");
    if (o->cluster && c->k->cluster < 2) broken(c, "the kernel has no cluster");
}

// Equal types and ranks, a pair of memories that a copy exists for, one swizzle per buffer.
static void check_copy(Checker *c, const TileOp *o)
{
    if (!check_view(c, &o->dst, "the destination") || !check_view(c, &o->src, "the source")) return;
    const TileBuffer *d = &c->k->buffers.at[o->dst.buffer], *s = &c->k->buffers.at[o->src.buffer];
    if (d->type != s->type)
        broken(c, "a copy from %s to %s", dtype_name[s->type], dtype_name[d->type]);
    if (o->dst.rank != o->src.rank)
        broken(c, "a copy from rank %d to rank %d", o->src.rank, o->dst.rank);
    if (d->kind == TB_GLOBAL && s->kind == TB_GLOBAL) broken(c, "a copy from global to global");
    if (o->engine > ENGINE_TMA || o->hint > HINT_EVICT_LAST || o->swizzle >= SL_COUNT)
        broken(c, "an unknown engine, hint or swizzle");
    if (o->promote && (o->engine != ENGINE_TMA || !tma_promotes(o->promote)))
        broken(c, "an L2 promotion of %d bytes, or of a copy by threads", o->promote);
    bool local = d->kind == TB_LOCAL || s->kind == TB_LOCAL;
    if (o->engine == ENGINE_TMA && (d->kind == s->kind || local))
        broken(c, "a tma copy that is not between global and shared memory");
    if (o->future >= c->k->futures.n) broken(c, "an unknown future");
    check_event(c, o);
    if (o->event >= 0 && (o->engine != ENGINE_TMA || d->kind != TB_SHARED || o->future >= 0))
        broken(c, "an event completed by a copy that is not a plain tma load");
    if (o->cluster && (o->engine != ENGINE_TMA || o->hint != HINT_NONE || o->dst.rank != 2))
        broken(c, "a multicast by threads, with a hint, or of a tile that is not of rank 2");
    if (o->cluster && c->k->cluster < 2) broken(c, "the kernel has no cluster");
    if (o->future >= 0 && (d->kind != TB_SHARED || s->kind != TB_GLOBAL))
        broken(c, "an asynchronous copy that is not from global to shared");
    if (o->swizzle != SL_ROW && (d->kind == TB_SHARED ? d : s)->layout != o->swizzle)
        broken(c, "the swizzle differs from the buffer's");
}

// Shape and type of an operand; *rows stays 0 when it has none.
static void check_operand(Checker *c, const TileOperand *o, bool is_a, i64 *rows, i64 *cols,
                          DType *type)
{
    *rows = *cols = 0;
    if (o->frag >= 0) {
        if (!is_a) broken(c, "the second operand is a fragment");
        if (!check_frag(c, o->frag, o->frag_slot, "an operand")) return;
        const TileFrag *f = &c->k->frags.at[o->frag];
        if (f->rank != 2 || o->trans) broken(c, "a fragment operand of this shape");
        *rows = f->dim[0], *cols = f->dim[1], *type = f->type;
        return;
    }
    if (!check_view(c, &o->view, "an operand")) return;
    const TileBuffer *b = &c->k->buffers.at[o->view.buffer];
    if (b->kind != TB_SHARED || o->view.rank != 2) {
        broken(c, "an operand that is no shared tile of rank 2");
        return;
    }
    if (!expr_is_const(o->view.extent[o->view.dim[0]], rows) ||
        !expr_is_const(o->view.extent[o->view.dim[1]], cols))
        broken(c, "an operand without constant extents");
    *type = b->type;
}

// [M, K] times [K, N] into [M, N], in shapes that the hardware has.
static void check_mma(Checker *c, const TileOp *o)
{
    i64 ar, ac, br, bc;
    DType ta = DT_F32, tb = DT_F32;
    if (!check_frag(c, o->frag, o->frag_slot, "the accumulator")) return;
    check_operand(c, &o->a, true, &ar, &ac, &ta);
    check_operand(c, &o->b, false, &br, &bc, &tb);
    if (!ar || !br) return;
    const TileFrag *f = &c->k->frags.at[o->frag];
    i64 m = o->a.trans ? ac : ar, ka = o->a.trans ? ar : ac, n = o->b.trans ? bc : br,
        kb = o->b.trans ? br : bc;
    if (f->rank != 2 || f->dim[0] != m || f->dim[1] != n || ka != kb)
        broken(c, "[%lld, %lld] times [%lld, %lld] into '%s'", (long long)m, (long long)ka,
               (long long)kb, (long long)n, f->name);
    if (m != 64 || n % 8 || n < 8 || n > 256)
        broken(c, "a product that the hardware does not have");
    if (dtype_bytes[ta] != dtype_bytes[tb] || (dtype_bytes[ta] > 1 && ta != tb))
        broken(c, "operands of types %s and %s", dtype_name[ta], dtype_name[tb]);
    if (f->level != LEVEL_GROUP4) broken(c, "an accumulator that is not of a warpgroup");
}

// A matrix into a vector along the other dimension, or a vector in place.
static void check_reduce(Checker *c, const TileOp *o)
{
    int kind = (int)(o->imm >> 1), axis = (int)(o->imm & 1);
    if (o->imm < 0 || kind > REDUCE_ALL_SUM) broken(c, "an unknown kind of reduction");
    if (!check_frag(c, o->frag, o->frag_slot, "the destination") ||
        !check_frag(c, o->frag2, o->frag2_slot, "the source"))
        return;
    const TileFrag *d = &c->k->frags.at[o->frag], *s = &c->k->frags.at[o->frag2];
    bool fits = kind == REDUCE_ALL_SUM
                    ? o->frag == o->frag2 && d->rank == 1
                    : d->rank == 1 && s->rank == 2 && s->dim[axis ? 0 : 1] == d->dim[0];
    if (!fits || d->type != s->type) broken(c, "'%s' does not fit into '%s'", s->name, d->name);
}

static void check_loop(Checker *c, const TileOp *o)
{
    i64 step;
    index_expr(c, o->lo, "the lower bound");
    index_expr(c, o->hi, "the upper bound");
    if (!o->step || !expr_is_const(o->step, &step) || step <= 0)
        broken(c, "the step is no positive constant");
    bind(c, o->var);
    check_block(c, &o->body);
    unbind(c, o->var);
}

static void check_par(Checker *c, const TileOp *o)
{
    int outer = c->level;
    if (o->level >= LEVEL_COUNT || o->level <= outer) {
        broken(c, "the level is not inside the one around it");
        return;
    }
    if (!is_positive(o->hi)) broken(c, "the count is no positive constant");
    bind(c, o->var);
    c->level = o->level;
    check_block(c, &o->body);
    c->level = outer;
    unbind(c, o->var);
}

// Both variables are bound around the body; no apply stands in another.
static void check_apply(Checker *c, const TileOp *o)
{
    if (!check_frag(c, o->frag, o->frag_slot, "the apply")) return;
    bool two = c->k->frags.at[o->frag].rank == 2;
    if (two != (o->var2 != NULL)) broken(c, "the number of variables is not the rank");
    if (o->var == o->var2) broken(c, "both variables have one name");
    bind(c, o->var);
    if (o->var2) bind(c, o->var2);
    c->apply = o;
    check_block(c, &o->body);
    c->apply = NULL;
    unbind(c, o->var);
    unbind(c, o->var2);
}

static void check_mma_store(Checker *c, const TileOp *o)
{
    i64 rows, cols;
    if (!check_view(c, &o->dst, "the destination") ||
        !check_frag(c, o->frag, o->frag_slot, "the source"))
        return;
    const TileFrag *f = &c->k->frags.at[o->frag];
    if (f->rank != 2 || o->dst.rank != 2 || !expr_is_const(o->dst.extent[o->dst.dim[0]], &rows) ||
        !expr_is_const(o->dst.extent[o->dst.dim[1]], &cols) || rows != f->dim[0] || cols < 0 ||
        o->imm < 0 || o->imm % 8 || cols % 8 || o->imm > f->dim[1] || cols > f->dim[1] - o->imm)
        broken(c, "'%s' does not fit into the destination", f->name);
}

static void check_set(Checker *c, const TileOp *o)
{
    if (o->scalar < 0 || o->scalar >= c->k->scalars.n) {
        broken(c, "names no scalar");
        return;
    }
    const TileScalar *s = &c->k->scalars.at[o->scalar];
    if (s->name[0] != '%') broken(c, "the parameter '%s' is set", s->name);
    check_value(c, o->value, s->type);
}

static void check_role(Checker *c, const TileOp *o)
{
    i64 lo, hi;
    if (!o->lo || !o->hi || !expr_is_const(o->lo, &lo) || !expr_is_const(o->hi, &hi) || lo < 0 ||
        lo >= hi || hi > c->k->threads)
        broken(c, "a role that is not a range of the block's threads");
    check_block(c, &o->body);
}

// An element of memory that others may see, and a scalar of its type for what was there.
static void check_atomic(Checker *c, const TileOp *o)
{
    check_element(c, &o->elem);
    if (o->elem.buffer < 0 || o->elem.buffer >= c->k->buffers.n) return;
    const TileBuffer *b = &c->k->buffers.at[o->elem.buffer];
    if (b->kind == TB_LOCAL) broken(c, "an atomic on a local buffer");
    if (dtype_bytes[b->type] < 4 || o->imm < 0 || o->imm >= ATOM_COUNT)
        broken(c, "atomic %lld of %s", (long long)o->imm, dtype_name[b->type]);
    if (o->scalar < 0 || o->scalar >= c->k->scalars.n ||
        c->k->scalars.at[o->scalar].type != b->type)
        broken(c, "the result is no scalar of the element's type");
    check_value(c, o->value, b->type);
    check_value(c, o->cond, b->type);
}

static bool allowed_in_apply(int op)
{
    return op == TOP_IF || op == TOP_FOR || op == TOP_SET || op == TOP_STORE || op == TOP_FSET ||
           op == TOP_ATOMIC || op == TOP_PRINT || op == TOP_PRINT_ARG;
}

static void check_op(Checker *c, const TileOp *o)
{
    c->op = o;
    if (o->op >= TOP_COUNT) {
        broken(c, "an unknown operation");
        return;
    }
    if (c->apply && !allowed_in_apply(o->op)) broken(c, "stands inside an apply");
    switch (o->op) {
    case TOP_PAR: check_par(c, o); break;
    case TOP_FOR: check_loop(c, o); break;
    case TOP_IF:
        check_value(c, o->cond, DT_BOOL);
        check_block(c, &o->body);
        check_block(c, &o->other);
        break;
    case TOP_SET: check_set(c, o); break;
    case TOP_STORE:
        check_element(c, &o->elem);
        if (o->elem.buffer >= 0 && o->elem.buffer < c->k->buffers.n)
            check_value(c, o->value, c->k->buffers.at[o->elem.buffer].type);
        break;
    case TOP_FSET:
        check_frag_element(c, o->frag, o->frag_slot, o->elem_at);
        if (o->frag >= 0 && o->frag < c->k->frags.n)
            check_value(c, o->value, c->k->frags.at[o->frag].type);
        break;
    case TOP_APPLY: check_apply(c, o); break;
    case TOP_FILL:
        if (check_frag(c, o->frag, o->frag_slot, "the fill"))
            check_value(c, o->value, c->k->frags.at[o->frag].type);
        break;
    case TOP_COPY: check_copy(c, o); break;
    case TOP_WAIT:
        if (o->future < 0 || o->future >= c->k->futures.n) broken(c, "an unknown future");
        break;
    case TOP_MMA: check_mma(c, o); break;
    case TOP_MMA_STORE: check_mma_store(c, o); break;
    case TOP_REDUCE: check_reduce(c, o); break;
    case TOP_FCOPY:
        if (check_frag(c, o->frag, o->frag_slot, "the destination") &&
            check_frag(c, o->frag2, o->frag2_slot, "the source")) {
            const TileFrag *a = &c->k->frags.at[o->frag], *b = &c->k->frags.at[o->frag2];
            if (a->rank != b->rank || a->type != b->type || a->dim[0] != b->dim[0] ||
                (a->rank == 2 && a->dim[1] != b->dim[1]))
                broken(c, "'%s' does not fit into '%s'", b->name, a->name);
        }
        break;
    case TOP_ATOMIC: check_atomic(c, o); break;
    case TOP_BAR: {
        i64 id = 0, n = 0;
        if (!o->lo || !o->hi || !expr_is_const(o->lo, &id) || !expr_is_const(o->hi, &n) ||
            id < 1 || id > 15 || n < 32 || n % 32 || n > 1024 || o->imm < 0 || o->imm > 1)
            broken(c, "barrier %lld of %lld threads", (long long)id, (long long)n);
        break;
    }
    case TOP_PRINT:
        if (!o->text) broken(c, "no text");
        break;
    case TOP_PRINT_ARG:
        if (!o->value || (o->value->type != DT_S64 && o->value->type != DT_U64 &&
                          o->value->type != DT_F32))
            broken(c, "a value that is no s64, u64 or f32");
        else
            check_value(c, o->value, o->value->type);
        if (o->imm < 0 || o->imm >= PRINT_MAX_ARGS) broken(c, "value %lld", (long long)o->imm);
        break;
    case TOP_FENCE:
        if (o->imm < 0 || o->imm > 1) broken(c, "an unknown fence");
        break;
    case TOP_USE: check_view(c, &o->src, "the use"); break;
    case TOP_BARRIER:
        if (o->level >= LEVEL_COUNT) broken(c, "an unknown level");
        break;
    case TOP_SETREG:
        if (o->imm % 8 || o->imm < -256 || o->imm > 256 || (o->imm < 24 && o->imm > -24))
            broken(c, "%lld registers", (long long)o->imm);
        break;
    case TOP_ROLE: check_role(c, o); break;
    case TOP_EVENT_WAIT:
    case TOP_TRIGGER:
        if (o->event < 0) broken(c, "an unknown event");
        check_event(c, o);
        break;
    default: BUG("operation %d of the tile IR has no rule", o->op);
    }
}

static void check_block(Checker *c, const TileBlock *b)
{
    const TileOp *outer = c->op;
    if (++c->depth > MAX_NESTING)
        broken(c, "nests too deeply");
    else
        for (int i = 0; i < b->n; i++) check_op(c, b->at[i]);
    c->depth--;
    c->op = outer;
}

// ---- declarations ------------------------------------------------------------------------------

static i64 elements(const TileBuffer *b)
{
    i64 n = 1, d = 0;
    for (int i = 0; i < b->rank; i++)
        if (!expr_is_const(b->dim[i], &d) || __builtin_mul_overflow(n, d, &n)) return -1;
    return n;
}

// Another shape of a buffer without swizzle that has memory of its own.
static void check_alias(Checker *c, const TileBuffer *b, const TileBuffer *of)
{
    if (of->kind != TB_SHARED || of->alias || of->layout != SL_ROW || b->layout != SL_ROW ||
        of->type != b->type || of->slots != b->slots || elements(b) < 1 ||
        elements(b) != elements(of))
        broken(c, "buffer '%s' is no other shape of '%s'", b->name, of->name);
}

// Shared extents are constants; a global buffer is a parameter of its rank.
static void check_buffers(Checker *c)
{
    const TileKernel *k = c->k;
    for (int i = 0; i < k->buffers.n; i++) {
        const TileBuffer *b = &k->buffers.at[i];
        if (b->rank < 1 || b->rank > TILE_MAX_RANK || b->type >= DT_COUNT) {
            broken(c, "buffer '%s' has rank %d", b->name, b->rank);
            continue;
        }
        for (int d = 0; d < b->rank; d++) {
            index_expr(c, b->dim[d], "an extent");
            if (b->stride[0]) index_expr(c, b->stride[d], "a stride");
            if (!b->stride[d] != !b->stride[0] || (b->stride[d] && b->kind != TB_GLOBAL))
                broken(c, "buffer '%s' has strides of some dimensions", b->name);
            if (b->kind != TB_GLOBAL && !is_positive(b->dim[d]))
                broken(c, "shared buffer '%s' has an extent that is no positive constant", b->name);
        }
        if (b->kind == TB_LOCAL && b->layout != SL_ROW)
            broken(c, "'%s' is local and swizzled", b->name);
        if (b->kind != TB_GLOBAL && (b->slots < 1 || b->layout >= SL_COUNT))
            broken(c, "shared buffer '%s' has %d slots", b->name, b->slots);
        if (b->alias) check_alias(c, b, &k->buffers.at[b->alias - 1]);
        const Plan *p = c->fn->plan;
        if (b->kind == TB_GLOBAL &&
            (!p || b->param < 0 || b->param >= p->params.n ||
             p->params.at[b->param].kind == PLAN_SCALAR))
            broken(c, "global buffer '%s' is no parameter", b->name);
        for (int j = 0; j < i; j++)
            if (!strcmp(k->buffers.at[j].name, b->name)) broken(c, "two buffers '%s'", b->name);
    }
}

static void check_frags(Checker *c)
{
    const TileKernel *k = c->k;
    for (int i = 0; i < k->frags.n; i++) {
        const TileFrag *f = &k->frags.at[i];
        if (f->rank < 1 || f->rank > 2 || f->dim[0] < 1 || (f->rank == 2 && f->dim[1] < 1) ||
            f->slots < 1)
            broken(c, "fragment '%s' has no shape", f->name);
        if (f->level >= LEVEL_COUNT || f->layout >= FL_COUNT)
            broken(c, "fragment '%s' has no level", f->name);
        for (int j = 0; j < i; j++)
            if (!strcmp(k->frags.at[j].name, f->name)) broken(c, "two fragments '%s'", f->name);
    }
}

static void check_kernel(Checker *c)
{
    const TileKernel *k = c->k;
    if (k->ngrid < 1 || k->ngrid > 3) {
        broken(c, "a grid of %d dimensions", k->ngrid);
        return;
    }
    if (k->when) names_of(c, k->when);
    for (int i = 0; i < k->ngrid; i++) index_expr(c, k->grid[i], "a grid extent");
    for (int i = 0; i < k->ngrid; i++) bind(c, k->grid_var[i]);
    if (k->threads < 1 || k->threads > 1024) broken(c, "%d threads", k->threads);
    if (k->cluster < 0 || k->cluster > THREAD_MAX_CLUSTER) broken(c, "a cluster of %d", k->cluster);
    check_buffers(c);
    check_frags(c);
    for (int i = 0; i < k->scalars.n; i++) {
        const TileScalar *s = &k->scalars.at[i];
        if (s->name[0] == '%') bind(c, s->name);
    }
    check_block(c, &k->body);
}

bool tile_check(const TileModule *m)
{
    bool ok = true;
    for (int i = 0; i < m->fns.n; i++) {
        for (int j = 0; j < m->fns.at[i]->kernels.n; j++) {
            Checker c = {.m = m,
                         .fn = m->fns.at[i],
                         .k = m->fns.at[i]->kernels.at[j],
                         .bound = map_new(m->arena),
                         .level = LEVEL_BLOCK,
                         .ok = true};
            check_kernel(&c);
            ok = ok && c.ok;
        }
    }
    return ok;
}
