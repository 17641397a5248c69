// frag.c - fragments: fill, copy, apply and reductions. A fragment is an array of registers; its
// layout (target/layout.h) says which rows and columns a thread owns. An apply becomes nested
// unroll regions over column blocks b, row halves h and the two columns p of a pair:
//
//   accumulator element (row + 8h, col + 8b + p) is register 4b + 2h + p
//   packed 16-bit operand: register 2b + h, half p       row vector: h       column vector: 2b + p
//   operands of 8 and 32 bits: register 4b + 2c + h of 32 or 8 columns b, byte e
//
// where row = 16 * (warp % 4) + lane / 4 and col = 2 * (lane % 4).
#include "impl.h"

int lower_frag_regs(const TileFrag *f)
{
    const FragLayout *y = &frag_layout[f->layout];
    i64 cols = f->rank == 2 ? f->dim[1] : f->layout == FL_COL ? f->dim[0] : 1;
    return (int)(y->regs * (cols / y->cols));
}

// Packed operands are 32-bit registers of two or four elements, whatever their type.
static RegClass frag_class(const TileFrag *f)
{
    if (f->layout == FL_A16 || f->layout == FL_A8 || f->layout == FL_A32) return RC_B32;
    return lower_class(f->type);
}

// The register array, without looking at pending zeros.
static int frag_array(Lower *l, int frag)
{
    const TileFrag *f = &l->k->frags.at[frag];
    if (l->frag_reg[frag] < 0)
        l->frag_reg[frag] = lower_new_reg(l, f->name, frag_class(f), lower_frag_regs(f) * f->slots);
    return l->frag_reg[frag];
}

// A zero fill stays pending until something other than a product reads the fragment: the first
// instruction of a product can ignore the old accumulator, which saves its N/2 moves. Whoever
// reads, and every place where control flow splits or joins, flushes it.
void lower_flush_zero(Lower *l, int frag)
{
    if (!l->frag_zero[frag]) return;
    l->frag_zero[frag] = false;
    const Expr *r;
    ThreadBlock *saved;
    int reg = frag_array(l, frag);
    int mark = lower_open_unroll(l, "r", lower_frag_regs(&l->k->frags.at[frag]), &r, &saved);
    Operand d = lower_plus(l, opd_reg(reg, 0), r, 1);
    EMIT(&l->b, OP_MOV, TT_F32, d, opd_f32(0.0f));
    lower_close(l, saved, mark);
}

void lower_flush_zeros(Lower *l)
{
    for (int f = 0; f < l->k->frags.n; f++) lower_flush_zero(l, f);
}

int lower_frag(Lower *l, int frag)
{
    lower_flush_zero(l, frag);
    return frag_array(l, frag);
}

// o + coef * (the unroll variable that `var` is)
Operand lower_plus(Lower *l, Operand o, const Expr *var, i32 coef)
{
    return opd_plus(o, (int)(intptr_t)map_get(l->unroll_of, var->name) - 1, coef);
}

// ---- elements inside an apply -------------------------------------------------------------------

// Both halves of a packed register; the loop over pairs picks one as an array element.
static int unpack_halves(Lower *l, Operand packed)
{
    int half = lower_new_reg(l, "half", RC_B16, 2);
    EMIT(&l->b, OP_UNPACK, TT_B32, opd_reg(half, 0), opd_reg(half, 1), packed);
    return half;
}

// The value of one half, in an f32 register as all small floats are. `pair`: the loop over pairs,
// -1: `which` is meant.
static Operand unpack_element(Lower *l, const TileFrag *f, Operand packed, int pair, int which)
{
    Operand v = opd_reg(lower_new_reg(l, "v", lower_class(f->type), 1), 0);
    Operand half = opd_reg(unpack_halves(l, packed), which);
    if (pair >= 0) half = opd_plus(half, pair, 1);
    ThreadOp *op = EMIT(&l->b, OP_CVT, lower_type(f->type), v, half);
    op->type2 = (u8)lower_narrow_type(f->type);
    return v;
}

// Of an operand of 8 or 32 bits, behind its first register.
static Operand wide_register(Lower *l, Operand first)
{
    const ApplyState *a = &l->apply;
    return opd_plus(opd_plus(opd_plus(first, a->block, 4), a->part, 2), a->half, 1);
}

// What a thread holds, by number, from the fragment's first register on: packed operands number
// their halves.
static Operand numbered_element(Lower *l, const TileFrag *f, Operand first, int number)
{
    if (f->layout != FL_A16) {
        first.base += number;
        return first;
    }
    first.base += number / 2;
    return unpack_element(l, f, first, -1, number % 2);
}

// The register that holds element [at[0], at[1]] of a fragment for the current place of the apply,
// where `at` are indices of the apply's variables. A thread can name only elements that it owns: a
// transposed index, or a row vector by the column, belongs to another thread and is refused.
Operand lower_element(Lower *l, int frag, int slot, const u8 *at, Loc loc)
{
    const TileFrag *f = &l->k->frags.at[frag];
    const ApplyState *a = &l->apply;
    bool both = a->op && a->op->var2, fits = a->op != NULL;
    product_check(l, frag, false, loc);
    Operand o = opd_reg(lower_frag(l, frag), (i64)slot * lower_frag_regs(f));
    if (at[0] == TILE_AT_REG) return numbered_element(l, f, o, at[1]);
    // Which apply variable must index which dimension of this layout: rows are variable 0 of a 2-D
    // apply, columns variable 1; a 1-D apply has only variable 0.
    switch ((FragKind)f->layout) {
    case FL_ACC:
        fits &= both && at[0] == 0 && at[1] == 1;
        if (!fits) break;
        o = opd_plus(opd_plus(o, a->block, 4), a->half, 2);
        return opd_plus(o, a->pair, 1);
    case FL_ROW:
        fits &= at[0] == 0 && a->half >= 0;
        if (!fits) break;
        return opd_plus(o, a->half, 1);
    case FL_COL:
        fits &= at[0] == (both ? 1 : 0) && a->pair >= 0;
        if (!fits) break;
        return opd_plus(opd_plus(o, a->block, 2), a->pair, 1);
    case FL_A32: {
        fits &= both && at[0] == 0 && at[1] == 1 && a->layout == FL_A32;
        if (!fits) break;
        Operand v = opd_reg(lower_new_reg(l, "v", RC_F32, 1), 0);
        EMIT(&l->b, OP_MOV, TT_B32, v, wide_register(l, o));
        return v;
    }
    case FL_A16:
        fits &= both && at[0] == 0 && at[1] == 1;
        if (!fits) break;
        o = opd_plus(opd_plus(o, a->block, 2), a->half, 1);
        return unpack_element(l, f, o, a->pair, 0);
    default: break;
    }
    lower_error(l, loc,
                "index rows with the first variable of the apply and columns with the second",
                "not supported yet: this element of %s belongs to another thread or order",
                f->name);
    return opd_f32(0);
}

const Operand *lower_hoisted(Lower *l, const TExpr *e)
{
    for (int i = 0; i < l->hoisted.n; i++)
        if (l->hoisted.at[i].e == e) return &l->hoisted.at[i].value;
    return NULL;
}

static bool body_sets(const TileBlock *b, int frag)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_FSET && op->frag == frag) return true;
        if (body_sets(&op->body, frag) || body_sets(&op->other, frag)) return true;
    }
    return false;
}

// Depends on the row only, and on nothing that the apply writes.
static bool row_invariant(Lower *l, const TileOp *apply, const TExpr *e)
{
    if (!e) return true;
    switch ((TExprKind)e->kind) {
    case TX_FLOAT: return true;
    case TX_FRAG:
        return l->k->frags.at[e->frag].layout == FL_ROW && e->at[0] != TILE_AT_REG &&
               !body_sets(&apply->body, e->frag);
    case TX_MATH:
        return e->type == DT_F32 && row_invariant(l, apply, e->a) &&
               row_invariant(l, apply, e->b) && row_invariant(l, apply, e->c);
    default: return false;
    }
}

// Computes the largest row-only subexpressions of e before the loops over columns: two registers
// (one per row half) in place of one computation per element, such as a maximum's scaling in
// softmax.
static void hoist_expr(Lower *l, const TileOp *apply, const TExpr *e)
{
    if (!e || e->kind == TX_FLOAT || e->kind == TX_FRAG) return;
    if (e->kind != TX_MATH || !row_invariant(l, apply, e)) {
        hoist_expr(l, apply, e->a);
        hoist_expr(l, apply, e->b);
        hoist_expr(l, apply, e->c);
        return;
    }
    const Expr *h;
    ThreadBlock *saved;
    int reg = lower_new_reg(l, "row", RC_F32, 2), outer = l->apply.half;
    int mark = lower_open_unroll(l, "h", 2, &h, &saved);
    l->apply.half = (int)(intptr_t)map_get(l->unroll_of, h->name) - 1;
    Operand v = lower_value(l, e);
    EMIT(&l->b, OP_MOV, TT_F32, lower_plus(l, opd_reg(reg, 0), h, 1), v);
    lower_close(l, saved, mark);
    l->apply.half = outer;
    vec_push(l->m->arena, &l->hoisted, ((Hoisted){e, opd_reg(reg, 0)}));
}

static void hoist_block(Lower *l, const TileOp *apply, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        hoist_expr(l, apply, op->value);
        hoist_expr(l, apply, op->cond);
        hoist_block(l, apply, &op->body);
        hoist_block(l, apply, &op->other);
    }
}

// ---- apply --------------------------------------------------------------------------------------

static const Expr *row_expr(Lower *l, const Expr *half)
{
    const Expr *r = lower_reg_expr(l, lower_frag_row(l));
    return half ? expr_add(l->x, r, expr_mul(l->x, half, lower_const(l, 8))) : r;
}

static const Expr *col_expr(Lower *l, const Expr *block, const Expr *pair)
{
    const Expr *c = lower_reg_expr(l, lower_frag_col(l));
    c = expr_add(l->x, c, expr_mul(l->x, block, lower_const(l, 8)));
    return expr_add(l->x, c, pair);
}

static bool reads_frag(const TExpr *x, int frag)
{
    if (!x) return false;
    return (x->kind == TX_FRAG && x->frag == frag) || reads_frag(x->a, frag) ||
           reads_frag(x->b, frag) || reads_frag(x->c, frag);
}

// How often a block uses a fragment's elements.
static int uses_of(const TileBlock *b, int frag)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        n += (op->op == TOP_FSET && op->frag == frag) + reads_frag(op->value, frag) +
             reads_frag(op->cond, frag);
        n += uses_of(&op->body, frag) + uses_of(&op->other, frag);
    }
    return n;
}

// Collects the packed fragments that the body writes once in every element and does nothing else
// with, and gives each a staged pair of f32. Others are written half by half (set_half).
static void stage_packed(Lower *l, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        u8 layout = op->op == TOP_FSET ? l->k->frags.at[op->frag].layout : FL_NONE;
        if ((layout == FL_A16 || layout == FL_A8) &&
            op->elem_at[0] != TILE_AT_REG && dtype_is_float(l->k->frags.at[op->frag].type) && uses_of(b, op->frag) == 1)
            vec_push(l->m->arena, &l->apply.packed, op);
    }
}

// Four bytes of an 8-bit operand: two pairs, which become the halves of a register.
static void pack_bytes(Lower *l, const TileFrag *f, Operand d, Operand quad)
{
    ThreadType t = f->type == DT_E4M3 ? TT_E4M3X2 : TT_E5M2X2;
    int pair = lower_new_reg(l, "bytes", RC_B16, 2);
    for (int i = 0; i < 2; i++)
        EMIT(&l->b, OP_CVTPACK, t, opd_reg(pair, i), opd_reg(quad.reg, 2 * i + 1),
             opd_reg(quad.reg, 2 * i));
    EMIT(&l->b, OP_PACK, TT_B32, d, opd_reg(pair, 0), opd_reg(pair, 1));
}

// Rounds both columns of a pair with one instruction; the first source becomes the upper half.
static void pack_staged(Lower *l, int i)
{
    const TileOp *op = l->apply.packed.at[i];
    const TileFrag *f = &l->k->frags.at[op->frag];
    Operand d = opd_reg(lower_frag(l, op->frag), (i64)op->frag_slot * lower_frag_regs(f));
    if (f->layout == FL_A8) {
        pack_bytes(l, f, wide_register(l, d), l->apply.pair_regs[i]);
        return;
    }
    d = opd_plus(opd_plus(d, l->apply.block, 2), l->apply.half, 1);
    ThreadType t = f->type == DT_F16 ? TT_F16X2 : TT_BF16X2;
    Operand pair = l->apply.pair_regs[i];
    EMIT(&l->b, OP_CVTPACK, t, d, opd_reg(pair.reg, 1), opd_reg(pair.reg, 0)); // high half first
}

// The thread IR's number of an unroll variable, for operands; expressions know it by its name.
static int unroll_var(Lower *l, const Expr *e)
{
    return (int)(intptr_t)map_get(l->unroll_of, e->name) - 1;
}

// Over accumulator or packed fragments: all three loops, pairs innermost, so that the two halves of
// a packed register are computed one after the other and packed behind the innermost loop.
static void apply_matrix(Lower *l, const TileOp *op, const TileFrag *f)
{
    const Expr *b, *h, *p;
    ThreadBlock *s0, *s1, *s2;
    hoist_block(l, op, &op->body);
    stage_packed(l, &op->body);
    Operand *staged = ARENA_ARRAY(l->m->arena, Operand, l->apply.packed.n + 1);
    for (int i = 0; i < l->apply.packed.n; i++)
        staged[i] = opd_reg(lower_new_reg(l, "pair", RC_F32, 2), 0);
    l->apply.pair_regs = staged;
    int m0 = lower_open_unroll(l, "b", (int)(f->dim[1] / 8), &b, &s0);
    int m1 = lower_open_unroll(l, "h", 2, &h, &s1);
    l->apply.half = unroll_var(l, h);
    for (int i = 0; i < l->hoisted.n; i++)
        l->hoisted.at[i].value = lower_plus(l, opd_reg(l->hoisted.at[i].value.reg, 0), h, 1);
    int m2 = lower_open_unroll(l, "p", 2, &p, &s2);
    l->apply.block = unroll_var(l, b);
    l->apply.pair = unroll_var(l, p);
    map_put(l->subst, op->var, (void *)(uintptr_t)row_expr(l, h));
    map_put(l->subst, op->var2, (void *)(uintptr_t)col_expr(l, b, p));
    lower_block(l, &op->body);
    lower_close(l, s2, m2);
    for (int i = 0; i < l->apply.packed.n; i++) pack_staged(l, i);
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
}

// Over operands of 8 and 32 bits: blocks of columns, their halves, row halves, and the four bytes of
// a register innermost, so that they are packed behind that loop.
static void apply_wide(Lower *l, const TileOp *op, const TileFrag *f)
{
    const Expr *b, *c, *h, *e;
    ThreadBlock *s0, *s1, *s2, *s3;
    int elems = frag_layout[f->layout].elems, cols = frag_layout[f->layout].cols;
    stage_packed(l, &op->body);
    Operand *staged = ARENA_ARRAY(l->m->arena, Operand, l->apply.packed.n + 1);
    for (int i = 0; i < l->apply.packed.n; i++)
        staged[i] = opd_reg(lower_new_reg(l, "quad", RC_F32, 4), 0);
    l->apply.pair_regs = staged;
    int m0 = lower_open_unroll(l, "b", (int)(f->dim[1] / cols), &b, &s0);
    int m1 = lower_open_unroll(l, "c", 2, &c, &s1);
    int m2 = lower_open_unroll(l, "h", 2, &h, &s2);
    int m3 = lower_open_unroll(l, "e", elems, &e, &s3);
    l->apply.block = unroll_var(l, b);
    l->apply.part = unroll_var(l, c);
    l->apply.half = unroll_var(l, h);
    l->apply.byte = unroll_var(l, e);
    // 4 * (lane % 4) columns of one byte, lane % 4 columns of four.
    const Expr *col = lower_reg_expr(l, lower_frag_col(l));
    col = elems == 4 ? expr_mul(l->x, col, lower_const(l, 2))
                     : expr_bin(l->x, EX_DIV, col, lower_const(l, 2));
    col = expr_add(l->x, col, expr_mul(l->x, b, lower_const(l, cols)));
    col = expr_add(l->x, col, expr_mul(l->x, c, lower_const(l, cols / 2)));
    map_put(l->subst, op->var, (void *)(uintptr_t)row_expr(l, h));
    map_put(l->subst, op->var2, (void *)(uintptr_t)expr_add(l->x, col, e));
    lower_block(l, &op->body);
    lower_close(l, s3, m3);
    for (int i = 0; i < l->apply.packed.n; i++) pack_staged(l, i);
    lower_close(l, s2, m2);
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
}

static void apply_row(Lower *l, const TileOp *op)
{
    const Expr *h;
    ThreadBlock *s;
    int m = lower_open_unroll(l, "h", 2, &h, &s);
    l->apply.half = unroll_var(l, h);
    map_put(l->subst, op->var, (void *)(uintptr_t)row_expr(l, h));
    lower_block(l, &op->body);
    lower_close(l, s, m);
}

static void apply_col(Lower *l, const TileOp *op, const TileFrag *f)
{
    const Expr *b, *p;
    ThreadBlock *s0, *s1;
    int m0 = lower_open_unroll(l, "b", (int)(f->dim[0] / 8), &b, &s0);
    int m1 = lower_open_unroll(l, "p", 2, &p, &s1);
    l->apply.block = unroll_var(l, b);
    l->apply.pair = unroll_var(l, p);
    map_put(l->subst, op->var, (void *)(uintptr_t)col_expr(l, b, p));
    lower_block(l, &op->body);
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
}

// Runs the body for every element that the thread owns, as unrolled straight code. Zero fills are
// flushed first: the body may read any fragment, under guards, where flushing would be partial.
void lower_op_APPLY(Lower *l, const TileOp *op)
{
    const TileFrag *f = &l->k->frags.at[op->frag];
    if (l->apply.op) {
        lower_error(l, op->loc, NULL, "not supported yet: an apply inside an apply");
        return;
    }
    lower_flush_zeros(l);
    l->apply = (ApplyState){.op = op, .layout = f->layout, .block = -1, .half = -1, .pair = -1,
                            .part = -1, .byte = -1};
    l->hoisted.n = 0;
    if (f->layout == FL_ACC || f->layout == FL_A16)
        apply_matrix(l, op, f);
    else if (f->layout == FL_ROW)
        apply_row(l, op);
    else if (f->layout == FL_COL)
        apply_col(l, op, f);
    else if (f->layout == FL_A8 || f->layout == FL_A32)
        apply_wide(l, op, f);
    else
        lower_error(l, op->loc, NULL, "not supported yet: apply over fragment %s", f->name);
    l->apply = (ApplyState){.op = NULL, .block = -1, .half = -1, .pair = -1};
    l->hoisted.n = 0;
}

// 16 bits of a value that an f32 or, for integers, a 32-bit register holds.
static Operand half_of(Lower *l, Operand v, DType type)
{
    if (dtype_is_float(type)) return lower_round(l, v, type);
    Operand h = opd_reg(lower_new_reg(l, "h", RC_B16, 1), 0);
    if (v.kind == OPD_REG)
        EMIT(&l->b, OP_CVT, TT_U16, h, v)->type2 = TT_U32;
    else
        EMIT(&l->b, OP_MOV, TT_B16, h, opd_imm(v.base & 0xffff));
    return h;
}

// A fragment that is written half by half is 0 at the kernel's entry: the other half is read with
// the first one.
static void clear_halves(Lower *l, int frag)
{
    const char *key = intern_printf(l->m->names, "#halves%d", frag);
    if (map_get(l->reg_of, key)) return;
    map_put(l->reg_of, key, l);
    const TileFrag *f = &l->k->frags.at[frag];
    const Expr *r;
    ThreadBlock *saved;
    PrologueMark mark = lower_enter_prologue(l);
    int m = lower_open_unroll(l, "r", lower_frag_regs(f) * f->slots, &r, &saved);
    EMIT(&l->b, OP_MOV, TT_B32, lower_plus(l, opd_reg(frag_array(l, frag), 0), r, 1), opd_imm(0));
    lower_close(l, saved, m);
    lower_leave_prologue(l, mark);
}

// One half of a packed register is replaced, the other kept. Under a guard the register keeps both:
// only the last operation writes it.
static void set_half(Lower *l, const TileOp *op, const TileFrag *f, const TExpr *value)
{
    clear_halves(l, op->frag);
    Operand d = opd_reg(lower_frag(l, op->frag), (i64)op->frag_slot * lower_frag_regs(f));
    bool numbered = op->elem_at[0] == TILE_AT_REG;
    if (numbered) d.base += op->elem_at[1] / 2;
    else d = opd_plus(opd_plus(d, l->apply.block, 2), l->apply.half, 1);
    Operand v = half_of(l, lower_value(l, value), f->type);
    Operand half = opd_reg(unpack_halves(l, d), 0), changed = half;
    if (numbered) changed.base += op->elem_at[1] % 2;
    else changed = opd_plus(changed, l->apply.pair, 1);
    EMIT(&l->b, OP_MOV, TT_B16, changed, v);
    EMIT(&l->b, OP_PACK, TT_B32, d, half, opd_reg(half.reg, 1));
}

static Operand in_f32(Lower *l, Operand v)
{
    if (v.kind == OPD_REG) return v;
    Operand r = opd_reg(lower_new_reg(l, "v", RC_F32, 1), 0);
    EMIT(&l->b, OP_MOV, TT_F32, r, v);
    return r;
}

// One element. Packed operands hold two elements in a register; where all are written, they are
// staged as f32 and packed when both are there.
void lower_op_FSET(Lower *l, const TileOp *op)
{
    const TileFrag *f = &l->k->frags.at[op->frag];
    product_check(l, op->frag, true, op->loc);
    if (f->layout == FL_A32 && op->elem_at[0] != TILE_AT_REG) {
        Operand v = lower_value(l, op->value);
        Operand d = opd_reg(lower_frag(l, op->frag), (i64)op->frag_slot * lower_frag_regs(f));
        if (lower_is_tf32(op->value))
            EMIT(&l->b, OP_MOV, TT_B32, wide_register(l, d), in_f32(l, v));
        else
            EMIT(&l->b, OP_CVT, TT_TF32, wide_register(l, d), in_f32(l, v))->type2 = TT_F32;
        return;
    }
    if (f->layout != FL_A16 && f->layout != FL_A8) {
        product_note(l, op->frag);
        Operand v = lower_value(l, op->value);
        Operand d = lower_element(l, op->frag, op->frag_slot, op->elem_at, op->loc);
        ThreadType t = lower_type(f->type);
        EMIT(&l->b, OP_MOV, t == TT_S32 || t == TT_U32 ? TT_B32 : t, d, v);
        return;
    }
    // The pair's conversion rounds; a cast to the operand's type here would round nothing more.
    const TExpr *v = op->value;
    if (v->kind == TX_CAST && v->type == f->type && v->a->type == DT_F32) v = v->a;
    for (int i = 0; i < l->apply.packed.n; i++) {
        if (l->apply.packed.at[i] != op) continue;
        int element = f->layout == FL_A8 ? l->apply.byte : l->apply.pair;
        Operand d = opd_plus(l->apply.pair_regs[i], element, 1);
        Operand value = lower_value(l, v);
        EMIT(&l->b, OP_MOV, TT_F32, d, value);
        return;
    }
    if (f->layout == FL_A8)
        lower_error(l, op->loc, "write each element once and choose values with ?:",
                    "not supported yet: elements of the 8-bit operand %s that are written under a "
                    "condition, twice, or read", f->name);
    else
        set_half(l, op, f, v);
}

// ---- whole fragments ---------------------------------------------------------------------------

// Zero into an f32 accumulator is only noted (lower_flush_zero); everything else is written at
// once, packed operands with both halves of each register.
void lower_op_FILL(Lower *l, const TileOp *op)
{
    const TileFrag *f = &l->k->frags.at[op->frag];
    product_check(l, op->frag, true, op->loc);
    bool zero = op->value->kind == TX_FLOAT && op->value->fvalue == 0.0;
    // The product that follows may start from zero by itself (mma.c).
    if (zero && f->layout == FL_ACC && f->slots == 1 && f->type == DT_F32) {
        frag_array(l, op->frag);
        l->frag_zero[op->frag] = true;
        return;
    }
    const Expr *r;
    ThreadBlock *saved;
    int n = lower_frag_regs(f), reg = lower_frag(l, op->frag);
    Operand v;
    bool bytes = f->layout == FL_A8, tf32 = f->layout == FL_A32;
    if ((bytes || tf32) && op->value->kind != TX_FLOAT) {
        lower_error(l, op->loc, "fill it with a constant",
                    "not supported yet: filling the operand %s with a value", f->name);
        return;
    }
    if (bytes || tf32) {
        float c = (float)op->value->fvalue;
        u32 byte = f->type == DT_E4M3 ? e4m3_from_f32(c) : e5m2_from_f32(c);
        v = opd_imm((i64)(tf32 ? tf32_from_f32(c) : byte * 0x01010101u));
    } else if (f->layout == FL_A16) {
        if (op->value->kind == TX_FLOAT) {
            float c = (float)op->value->fvalue;
            u32 half = f->type == DT_F16 ? f16_from_f32(c) : bf16_from_f32(c);
            v = opd_imm((i64)(half | half << 16));
        } else {
            Operand half = half_of(l, lower_value(l, op->value), f->type);
            v = opd_reg(lower_new_reg(l, "v", RC_B32, 1), 0);
            EMIT(&l->b, OP_PACK, TT_B32, v, half, half);
        }
    } else {
        v = lower_value(l, op->value);
    }
    ThreadType t = frag_class(f) == RC_F32 ? TT_F32 : frag_class(f) == RC_B64 ? TT_B64 : TT_B32;
    int mark = lower_open_unroll(l, "r", n, &r, &saved);
    Operand d = lower_plus(l, opd_reg(reg, (i64)op->frag_slot * n), r, 1);
    EMIT(&l->b, OP_MOV, t, d, v);
    lower_close(l, saved, mark);
}

// Register by register, which moves elements to the right place only between equal layouts.
void lower_op_FCOPY(Lower *l, const TileOp *op)
{
    const TileFrag *d = &l->k->frags.at[op->frag], *s = &l->k->frags.at[op->frag2];
    product_check(l, op->frag, true, op->loc);
    product_check(l, op->frag2, false, op->loc);
    if (d->layout != s->layout || lower_frag_regs(d) != lower_frag_regs(s)) {
        lower_error(l, op->loc, NULL, "not supported yet: copy between layouts (%s to %s)", s->name,
                    d->name);
        return;
    }
    const Expr *r;
    ThreadBlock *saved;
    int from = lower_frag(l, op->frag2), n = lower_frag_regs(d);
    l->frag_zero[op->frag] = false; // overwritten
    int to = lower_frag(l, op->frag);
    ThreadType t = frag_class(d) == RC_F32 ? TT_F32 : TT_B32;
    int mark = lower_open_unroll(l, "r", n, &r, &saved);
    Operand dst = lower_plus(l, opd_reg(to, (i64)op->frag_slot * n), r, 1);
    Operand src = lower_plus(l, opd_reg(from, (i64)op->frag2_slot * n), r, 1);
    EMIT(&l->b, OP_MOV, t, dst, src);
    lower_close(l, saved, mark);
}

// Butterfly over the four lanes that share a row: afterwards all four hold the same result. For a
// sum both orders of the additions give the same bits, so the lanes agree exactly.
static void reduce_quad(Lower *l, Operand v, ThreadOpcode combine)
{
    for (int lanes = 2; lanes; lanes >>= 1) {
        Operand other = opd_reg(lower_new_reg(l, "other", RC_F32, 1), 0);
        EMIT(&l->b, OP_SHFL, TT_B32, other, v, opd_imm(lanes))->n = SHFL_BFLY;
        EMIT(&l->b, combine, TT_F32, v, v, other);
    }
}

// ---- reductions over rows -----------------------------------------------------------------------

enum { GROUP_WARPS = 4 };

static i64 widest_column(Lower *l, const TileBlock *b)
{
    i64 n = 0;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        const TileFrag *d = op->op == TOP_REDUCE ? &l->k->frags.at[op->frag] : NULL;
        if (d && d->layout == FL_COL) n = MAX(n, d->dim[0]);
        n = MAX(n, MAX(widest_column(l, &op->body), widest_column(l, &op->other)));
    }
    return n;
}

// Shared memory in which the warps of a warpgroup exchange columns: [warps of the block, columns],
// one for all reductions of the kernel.
static int exchange_buffer(Lower *l)
{
    const char *key = intern(l->m->names, "#exchange");
    int id = (int)(intptr_t)map_get(l->reg_of, key) - 1;
    if (id >= 0) return id;
    ThreadBuffer b = {.name = "exchange", .kind = BUF_SHARED, .type = DT_F32, .rank = 2,
                      .loc = l->b.loc};
    b.dim[0] = lower_const(l, l->tf->threads / 32);
    b.dim[1] = lower_const(l, widest_column(l, &l->k->body));
    id = thread_add_buffer(&l->b, b);
    map_put(l->reg_of, key, (void *)(intptr_t)(id + 1));
    return id;
}

// Element [warp, col] of the exchange buffer.
static Address exchange_address(Lower *l, const Expr *warp, const Expr *col)
{
    int id = exchange_buffer(l);
    Address a = {.ref = {.buffer = id, .ncoord = 2}};
    a.ref.coord[0] = warp;
    a.ref.coord[1] = col;
    i64 cols = l->tf->buffers.at[id].dim[1]->value;
    const Expr *off = expr_mul(l->x, warp, lower_const(l, cols)), *rest;
    off = expr_mul(l->x, expr_add(l->x, off, col), lower_const(l, 4));
    a.offset = lower_split(l, off, &rest);
    int base = lower_shared_base(l, id);
    a.base = rest ? lower_index(l, expr_add(l->x, lower_reg_expr(l, base), rest))
                  : opd_reg(base, 0);
    return a;
}

// The eight lanes that hold a column pair are those with equal lane % 4.
static void reduce_lanes(Lower *l, Operand v, ThreadOpcode combine)
{
    for (int lanes = 16; lanes >= 4; lanes >>= 1) {
        Operand other = opd_reg(lower_new_reg(l, "other", RC_F32, 1), 0);
        EMIT(&l->b, OP_SHFL, TT_B32, other, v, opd_imm(lanes))->n = SHFL_BFLY;
        EMIT(&l->b, combine, TT_F32, v, v, other);
    }
}

// A column vector of which each warp holds its own rows' result: lanes first, then one lane of each
// column writes to shared memory, and all read the four warps' values in one order.
static void reduce_columns(Lower *l, Operand v, i64 cols, ThreadOpcode combine)
{
    const Expr *b, *p, *w;
    ThreadBlock *s0, *s1, *s2;
    const Expr *tid = lower_reg_expr(l, lower_tid(l));
    const Expr *warp = expr_bin(l->x, EX_DIV, tid, lower_const(l, 32));
    const Expr *first = expr_bin(l->x, EX_DIV, tid, lower_const(l, 128));
    first = expr_mul(l->x, first, lower_const(l, GROUP_WARPS));
    const Expr *lane = expr_bin(l->x, EX_MOD, tid, lower_const(l, 32));
    Operand writes = lower_compare(l, CMP_LT, lane, lower_const(l, 4));
    Operand outer = l->b.guard;
    sync_group(l); // the readers of the last exchange are done
    int m0 = lower_open_unroll(l, "b", (int)(cols / 8), &b, &s0);
    int m1 = lower_open_unroll(l, "p", 2, &p, &s1);
    Operand own = lower_plus(l, lower_plus(l, v, b, 2), p, 1);
    reduce_lanes(l, own, combine);
    Address a = exchange_address(l, warp, col_expr(l, b, p));
    l->b.guard = writes;
    lower_emit_mem(l, OP_STS, TT_F32, 1, &own, a);
    l->b.guard = outer;
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
    sync_group(l);
    m0 = lower_open_unroll(l, "b", (int)(cols / 8), &b, &s0);
    m1 = lower_open_unroll(l, "p", 2, &p, &s1);
    own = lower_plus(l, lower_plus(l, v, b, 2), p, 1);
    int other = lower_new_reg(l, "other", RC_F32, GROUP_WARPS);
    int m2 = lower_open_unroll(l, "w", GROUP_WARPS, &w, &s2);
    Operand to = lower_plus(l, opd_reg(other, 0), w, 1);
    lower_emit_mem(l, OP_LDS, TT_F32, 1, &to,
                   exchange_address(l, expr_add(l->x, first, w), col_expr(l, b, p)));
    lower_close(l, s2, m2);
    EMIT(&l->b, combine, TT_F32, own, opd_reg(other, 0), opd_reg(other, 1));
    for (int i = 2; i < GROUP_WARPS; i++)
        EMIT(&l->b, combine, TT_F32, own, own, opd_reg(other, i));
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
}

// Over the rows of an accumulator into a column vector, or in place over what the threads hold.
static void reduce_rows(Lower *l, const TileOp *op, ThreadOpcode combine, bool all)
{
    const TileFrag *d = &l->k->frags.at[op->frag], *s = &l->k->frags.at[op->frag2];
    const Expr *b, *p;
    ThreadBlock *s0, *s1;
    if (l->lane_depth) {
        lower_error(l, op->loc, NULL, "a reduction under a condition that depends on the thread");
        return;
    }
    int from = lower_frag(l, op->frag2), to = lower_frag(l, op->frag);
    Operand v = opd_reg(to, (i64)op->frag_slot * lower_frag_regs(d));
    product_note(l, op->frag);
    if (!all) {
        int m0 = lower_open_unroll(l, "b", (int)(d->dim[0] / 8), &b, &s0);
        int m1 = lower_open_unroll(l, "p", 2, &p, &s1);
        Operand x = opd_reg(from, (i64)op->frag2_slot * lower_frag_regs(s));
        x = lower_plus(l, lower_plus(l, x, b, 4), p, 1);
        Operand below = x;
        below.base += 2; // eight rows further down
        EMIT(&l->b, combine, TT_F32, lower_plus(l, lower_plus(l, v, b, 2), p, 1), x, below);
        lower_close(l, s1, m1);
        lower_close(l, s0, m0);
    }
    reduce_columns(l, v, d->dim[0], combine);
}

// Over the columns of an accumulator into a row vector; imm holds kind * 2 + axis. SUM and MAX end
// with the exchange between lanes, ALL_SUM is that exchange alone, for partial sums kept per
// thread.
void lower_op_REDUCE(Lower *l, const TileOp *op)
{
    TileReduce kind = (TileReduce)(op->imm >> 1);
    const TileFrag *d = &l->k->frags.at[op->frag], *s = &l->k->frags.at[op->frag2];
    const Expr *h, *b, *p;
    ThreadBlock *s0, *s1, *s2;
    ThreadOpcode combine = kind == REDUCE_MAX ? OP_MAX : OP_ADD;
    product_check(l, op->frag, true, op->loc);
    product_check(l, op->frag2, false, op->loc);
    bool column = d->layout == FL_COL && (kind == REDUCE_ALL_SUM || !(op->imm & 1));
    if (column && d->type == DT_F32 && (kind == REDUCE_ALL_SUM || s->layout == FL_ACC)) {
        reduce_rows(l, op, combine, kind == REDUCE_ALL_SUM);
        return;
    }
    if ((op->imm & 1) != 1 || d->layout != FL_ROW || d->type != DT_F32 ||
        (kind != REDUCE_ALL_SUM && s->layout != FL_ACC)) {
        lower_error(l, op->loc, "reduce an f32 accumulator into an f32 vector",
                    "not supported yet: this reduction of %s into %s", s->name, d->name);
        return;
    }
    int from = lower_frag(l, op->frag2), to = lower_frag(l, op->frag);
    product_note(l, op->frag);
    if (kind == REDUCE_ALL_SUM) {
        int m = lower_open_unroll(l, "h", 2, &h, &s0);
        reduce_quad(l, lower_plus(l, opd_reg(to, op->frag_slot * 2), h, 1), OP_ADD);
        lower_close(l, s0, m);
        return;
    }
    // Four chains, one for each row and column of a pair, so that their latencies overlap; the two
    // of a row meet at the end.
    i64 base = (i64)op->frag2_slot * lower_frag_regs(s);
    int part = lower_new_reg(l, "part", RC_F32, 4);
    int m0 = lower_open_unroll(l, "h", 2, &h, &s0);
    int m1 = lower_open_unroll(l, "p", 2, &p, &s1);
    EMIT(&l->b, OP_MOV, TT_F32, lower_plus(l, lower_plus(l, opd_reg(part, 0), h, 2), p, 1),
         lower_plus(l, lower_plus(l, opd_reg(from, base), h, 2), p, 1));
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
    m0 = lower_open_unroll(l, "b", (int)(s->dim[1] / 8 - 1), &b, &s0);
    m1 = lower_open_unroll(l, "h", 2, &h, &s1);
    int m2 = lower_open_unroll(l, "p", 2, &p, &s2);
    Operand chain = lower_plus(l, lower_plus(l, opd_reg(part, 0), h, 2), p, 1);
    Operand x = lower_plus(l, lower_plus(l, opd_reg(from, base + 4), b, 4), h, 2);
    EMIT(&l->b, combine, TT_F32, chain, chain, lower_plus(l, x, p, 1));
    lower_close(l, s2, m2);
    lower_close(l, s1, m1);
    lower_close(l, s0, m0);
    m0 = lower_open_unroll(l, "h", 2, &h, &s0);
    EMIT(&l->b, combine, TT_F32, lower_plus(l, opd_reg(to, op->frag_slot * 2), h, 1),
         lower_plus(l, opd_reg(part, 0), h, 2), lower_plus(l, opd_reg(part, 1), h, 2));
    lower_close(l, s0, m0);
    m0 = lower_open_unroll(l, "h", 2, &h, &s0);
    reduce_quad(l, lower_plus(l, opd_reg(to, op->frag_slot * 2), h, 1), combine);
    lower_close(l, s0, m0);
}
