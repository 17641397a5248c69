// memory.c - where an element of a view is: the flat address that the machine uses, and the MemRef
// that says the same in coordinates.
#include "impl.h"

// The thread buffer of a tile buffer, made at its first use. Shared tiles get the slot as their
// first dimension when they have several; their place in the arena comes at the end (lower.c).
int lower_buffer(Lower *l, int tile_buffer)
{
    tile_buffer = tile_memory(l->k, tile_buffer);
    if (l->buffer[tile_buffer] >= 0) return l->buffer[tile_buffer];
    const TileBuffer *t = &l->k->buffers.at[tile_buffer];
    ThreadBuffer b = {.name = t->name, .type = t->type, .loc = t->loc, .layout = t->layout};
    if (t->kind != TB_GLOBAL) {
        b.kind = BUF_SHARED;
        if (t->slots > 1) b.dim[b.rank++] = lower_const(l, t->slots);
        for (int d = 0; d < t->rank; d++) b.dim[b.rank++] = t->dim[d];
        // What is local lies in shared memory, as one element of every thread after the other: the
        // threads of a warp that take the same element take neighbouring words.
        if (t->kind == TB_LOCAL) b.dim[b.rank++] = lower_const(l, l->tf->threads);
        // The pattern repeats every 8 rows; a next column block or tile must start a new one.
        if (smem_layout[t->layout].span && (t->rank < 2 || t->dim[t->rank - 2]->value % 8))
            lower_error(l, t->loc, "use a multiple of 8 rows",
                        "not supported yet: a swizzled tile %s of %lld rows",
                        t->name, (long long)(t->rank < 2 ? 1 : t->dim[t->rank - 2]->value));
    } else {
        b.kind = BUF_GLOBAL;
        b.rank = t->rank;
        const Expr *stride = lower_const(l, 1);
        for (int d = t->rank - 1; d >= 0; d--) {
            b.dim[d] = t->dim[d];
            b.stride[d] = t->stride[d] ? t->stride[d] : stride;
            stride = expr_mul(l->x, stride, t->dim[d]);
        }
        // Another shape of an array is the same parameter.
        b.param = lower_param(l, l->fn->plan->params.at[t->param].name, PARAM_PTR,
                              (PlanArg){.kind = ARG_TENSOR, .index = t->param});
    }
    return l->buffer[tile_buffer] = thread_add_buffer(&l->b, b);
}

// Byte offset of an element in a shared buffer: the last two dimensions are a tile in the buffer's
// layout, all dimensions before them (the slot among them) count whole tiles.
static const Expr *smem_offset_expr(Lower *l, const ThreadBuffer *b, const Expr *const *coord)
{
    const Expr *tile_index = lower_const(l, 0), *col = coord[b->rank - 1];
    const Expr *row = b->rank > 1 ? coord[b->rank - 2] : lower_const(l, 0);
    for (int d = 0; d + 2 < b->rank; d++)
        tile_index = expr_add(l->x, expr_mul(l->x, tile_index, b->dim[d]), coord[d]);
    ExprPool *x = l->x;
    const SmemLayoutInfo *info = &smem_layout[b->layout];
    int e = dtype_bytes[b->type];
    i64 rows = b->rank > 1 ? b->dim[b->rank - 2]->value : 1, cols = b->dim[b->rank - 1]->value;
    const Expr *bytes = expr_mul(x, col, lower_const(l, e)), *off;
    if (!info->span) {
        off = expr_add(x, expr_mul(x, row, lower_const(l, cols * e)), bytes);
    } else {
        const Expr *span = lower_const(l, info->span), *sixteen = lower_const(l, 16);
        const Expr *block = expr_bin(x, EX_DIV, bytes, span);
        const Expr *in_row = expr_bin(x, EX_MOD, bytes, span);
        const Expr *chunk = expr_bin(x, EX_DIV, in_row, sixteen);
        // Address bits 7..9 of a tile at a multiple of 1024: (row * span / 128) mod 8, masked.
        const Expr *phase = expr_bin(x, EX_DIV, expr_mul(x, row, span), lower_const(l, 128));
        phase = expr_bin(x, EX_MOD, phase, lower_const(l, info->mask + 1));
        chunk = expr_bin(x, EX_XOR, chunk, phase);
        off = expr_mul(x, block, lower_const(l, rows * info->span));
        off = expr_add(x, off, expr_mul(x, row, span));
        off = expr_add(x, off, expr_mul(x, chunk, sixteen));
        off = expr_add(x, off, expr_bin(x, EX_MOD, bytes, sixteen));
    }
    const Expr *bytes_of_tile = lower_const(l, smem_tile_bytes(b->layout, e, rows, cols));
    return expr_add(x, off, expr_mul(x, tile_index, bytes_of_tile));
}

// Coordinates in the buffer of the element `at` of the view. `at` is over registers already: a
// register may have the name of a tile variable, so it is not substituted a second time.
static void coordinates(Lower *l, const TileView *v, const Expr *const *at, const Expr **out)
{
    const TileBuffer *t = &l->k->buffers.at[v->buffer];
    for (int d = 0; d < t->rank; d++) out[d] = lower_subst(l, v->origin[d]);
    for (int i = 0; i < v->rank; i++)
        out[v->dim[i]] = expr_add(l->x, out[v->dim[i]], at[i]);
}

static int global_base(Lower *l, int buffer);

// A name that no variable can have (#), so that the register shares the map of names.
static const char *base_key(Lower *l, int buffer)
{
    return intern_printf(l->m->names, "#base%d", buffer);
}

// A view of another shape: number of its element in the buffer, and coordinates that say the same.
static const Expr *other_shape(Lower *l, const TileView *v, const Expr *const *at,
                               const TileBuffer *t, const Expr **out)
{
    const TileBuffer *shape = &l->k->buffers.at[v->buffer];
    const Expr *in[TILE_MAX_RANK], *number = lower_const(l, 0);
    coordinates(l, v, at, in);
    for (int d = 0; d < shape->rank; d++)
        number = expr_add(l->x, expr_mul(l->x, number, shape->dim[d]), in[d]);
    const Expr *rest = number;
    for (int d = t->rank - 1; d >= 0; d--) {
        out[d] = d ? expr_bin(l->x, EX_MOD, rest, t->dim[d]) : rest;
        rest = expr_bin(l->x, EX_DIV, rest, t->dim[d]);
    }
    return number;
}

// Slot first, then the buffer's own coordinates. What is constant goes into the instruction's
// offset; the rest, base address included, is one register that the cache shares between accesses.
static Address shared_address(Lower *l, const TileView *v, const Expr *const *at)
{
    int id = lower_buffer(l, v->buffer);
    const ThreadBuffer *b = &l->tf->buffers.at[id];
    const TileBuffer *t = &l->k->buffers.at[tile_memory(l->k, v->buffer)];
    Address a = {.ref = {.buffer = id}};
    const Expr *number = NULL, *off, *rest;
    if (t->slots > 1)
        a.ref.coord[a.ref.ncoord++] = v->slot ? lower_subst(l, v->slot) : lower_const(l, 0);
    if (l->k->buffers.at[v->buffer].alias)
        number = other_shape(l, v, at, t, a.ref.coord + a.ref.ncoord);
    else
        coordinates(l, v, at, a.ref.coord + a.ref.ncoord);
    a.ref.ncoord += t->rank;
    if (t->kind == TB_LOCAL) a.ref.coord[a.ref.ncoord++] = lower_reg_expr(l, lower_tid(l));
    if (number) {
        const Expr *slot = t->slots > 1 ? a.ref.coord[0] : lower_const(l, 0);
        for (int d = 0; d < t->rank; d++) slot = expr_mul(l->x, slot, t->dim[d]);
        number = expr_add(l->x, number, slot);
        off = expr_mul(l->x, number, lower_const(l, dtype_bytes[t->type]));
    } else {
        off = smem_offset_expr(l, b, a.ref.coord);
    }
    a.offset = lower_split(l, off, &rest);
    int base = lower_shared_base(l, id);
    if (!rest) {
        a.base = opd_reg(base, 0);
        return a;
    }
    const Expr *sum = expr_add(l->x, lower_reg_expr(l, base), rest);
    a.base = lower_index(l, sum);
    return a;
}

// A stride in bytes as a 64-bit register, computed once at the kernel's entry.
static Operand wide_stride(Lower *l, const Expr *bytes)
{
    PrologueMark mark = lower_enter_prologue(l);
    Operand s = lower_index64(l, bytes);
    lower_leave_prologue(l, mark);
    return s;
}

// acc + coord * stride in 64 bits. `stride` in bytes.
static Operand add_term(Lower *l, Operand acc, const Expr *coord, const Expr *stride)
{
    Operand c = lower_index(l, coord), d = opd_reg(lower_new_reg(l, "ptr", RC_B64, 1), 0);
    i64 s;
    if (expr_is_const(stride, &s) && s <= INT32_MAX) {
        Operand t = opd_reg(lower_new_reg(l, "d", RC_B64, 1), 0);
        EMIT(&l->b, OP_MULWIDE, TT_S64, t, c, opd_imm(s));
        EMIT(&l->b, OP_ADD, TT_S64, d, acc, t);
        return d;
    }
    Operand w = c;
    if (c.kind == OPD_REG) {
        w = opd_reg(lower_new_reg(l, "d", RC_B64, 1), 0);
        EMIT(&l->b, OP_CVT, TT_S64, w, c)->type2 = TT_S32;
    }
    Operand wide = wide_stride(l, stride);
    EMIT(&l->b, OP_MAD, TT_S64, d, wide, w, acc);
    return d;
}

// Adds part * s (part: constants and unroll variables, s: bytes) to an offset, if no round of the
// unroll regions takes it out of the 32 bits that PTX has for one. Half of them are used: a caller
// may add the width of an access.
static bool add_to_offset(Lower *l, Operand *offset, const Operand *part, i64 s)
{
    enum { OFFSET_MAX = 1 << 30 };
    Operand sum = *offset;
    i64 reach = 0, moved;
    if (__builtin_mul_overflow(part->base, s, &moved)) return false;
    if (__builtin_add_overflow(sum.base, moved, &sum.base)) return false;
    for (int k = 0; k < part->nterms; k++) {
        i64 coef = part->term[k].coef * s;
        if (coef < -OFFSET_MAX || coef > OFFSET_MAX) return false;
        sum = opd_plus(sum, part->term[k].var, (i32)coef);
    }
    for (int k = 0; k < sum.nterms; k++) {
        const char *name = intern_printf(l->m->names, "$%s", l->tf->unrolls.at[sum.term[k].var]);
        i64 lo, hi; // 0 to rounds - 1
        expr_range(l->x, expr_var(l->x, name), &lo, &hi);
        reach += hi * (sum.term[k].coef < 0 ? -(i64)sum.term[k].coef : sum.term[k].coef);
    }
    if (sum.base < reach - OFFSET_MAX || sum.base > OFFSET_MAX - reach) return false;
    *offset = sum;
    return true;
}

// base + sum of coordinate * stride, in 64 bits. Constants and unroll variables go into the
// immediate offset where the stride is a small constant and the offset holds them; otherwise the
// whole coordinate is multiplied.
static Address global_address(Lower *l, const TileView *v, const Expr *const *at)
{
    int id = lower_buffer(l, v->buffer);
    const ThreadBuffer *b = &l->tf->buffers.at[id];
    Address a = {.ref = {.buffer = id, .ncoord = b->rank}};
    coordinates(l, v, at, a.ref.coord);
    i64 elem = dtype_bytes[b->type];
    a.offset = opd_imm(0);
    a.base = opd_reg(global_base(l, id), 0);
    for (int d = 0; d < b->rank; d++) {
        const Expr *rest = a.ref.coord[d];
        const Expr *stride = expr_mul(l->x, b->stride[d], lower_const(l, elem));
        i64 s;
        if (expr_is_const(stride, &s) && s < 65536) {
            const Expr *variable;
            Operand part = lower_split(l, rest, &variable);
            if (add_to_offset(l, &a.offset, &part, s)) rest = variable;
        }
        if (rest && !(expr_is_const(rest, &s) && s == 0))
            a.base = add_term(l, a.base, rest, stride);
    }
    return a;
}

// Register with the shared address of a buffer. Its place in the arena is not known yet: the
// addition's immediate is a place holder that lower.c fills; op->imm names the buffer until then.
int lower_shared_base(Lower *l, int buffer)
{
    int reg = (int)(intptr_t)map_get(l->reg_of, base_key(l, buffer)) - 1;
    if (reg >= 0) return reg;
    PrologueMark mark = lower_enter_prologue(l);
    if (l->smem < 0) {
        l->smem = lower_new_reg(l, "smem", RC_B32, 1);
        EMIT(&l->b, OP_MOV, TT_U32, opd_reg(l->smem, 0), opd_sreg(SR_SMEM));
    }
    const char *name = intern_printf(l->m->names, "%s_base", l->tf->buffers.at[buffer].name);
    reg = lower_new_reg(l, name, RC_B32, 1);
    EMIT(&l->b, OP_ADD, TT_S32, opd_reg(reg, 0), opd_reg(l->smem, 0), opd_imm(0))->imm = buffer + 1;
    map_put(l->reg_of, base_key(l, buffer), (void *)(intptr_t)(reg + 1));
    lower_leave_prologue(l, mark);
    return reg;
}

// Register with the address of a tensor, from its kernel parameter.
static int global_base(Lower *l, int buffer)
{
    int reg = (int)(intptr_t)map_get(l->reg_of, base_key(l, buffer)) - 1;
    if (reg >= 0) return reg;
    PrologueMark mark = lower_enter_prologue(l);
    const ThreadBuffer *b = &l->tf->buffers.at[buffer];
    reg = lower_new_reg(l, intern_printf(l->m->names, "%s_ptr", b->name), RC_B64, 1);
    EMIT(&l->b, OP_LDPARAM, TT_U64, opd_reg(reg, 0), opd_param(b->param));
    map_put(l->reg_of, base_key(l, buffer), (void *)(intptr_t)(reg + 1));
    lower_leave_prologue(l, mark);
    return reg;
}

// Address of the element `at` of a view, and the same as coordinates for the checkers, which prove
// that the two agree.
Address lower_address(Lower *l, const TileView *v, const Expr *const *at)
{
    bool global = l->k->buffers.at[v->buffer].kind == TB_GLOBAL;
    return global ? global_address(l, v, at) : shared_address(l, v, at);
}

// ---- bounds -------------------------------------------------------------------------------------

// Do the elements of a row of the view lie side by side?
bool lower_row_dense(const Lower *l, const TileView *v)
{
    const TileBuffer *t = &l->k->buffers.at[v->buffer];
    i64 stride = 1;
    int last = v->rank ? v->dim[v->rank - 1] : -1;
    return last == t->rank - 1 &&
           (!t->stride[last] || (expr_is_const(t->stride[last], &stride) && stride == 1));
}

// True when c + width - 1 < limit is proved for all values.
static bool proved_below(Lower *l, const Expr *c, const Expr *limit, int width)
{
    const Expr *room = expr_sub(l->x, limit, expr_add(l->x, c, lower_const(l, width)));
    i64 lo, hi;
    expr_range(l->x, room, &lo, &hi);
    return lo >= 0;
}

// Predicate that all `width` elements from `at` on lie within the view's limits; only conditions
// that are not proved are computed, and OPD_NONE says that none was left. Limits bound from above:
// origins are not negative where the front end lets a view have an edge.
Operand lower_inside(Lower *l, const TileView *v, const Expr *const *at, int width)
{
    Operand p = {0};
    for (int i = 0; i < v->rank; i++) {
        int d = v->dim[i], w = i + 1 == v->rank ? width : 1;
        const Expr *c = expr_add(l->x, lower_subst(l, v->origin[d]), at[i]);
        const Expr *limit = lower_subst(l, v->limit[d]);
        if (proved_below(l, c, limit, w)) continue;
        Operand q = lower_compare(l, CMP_LE, expr_add(l->x, c, lower_const(l, w)), limit);
        p = p.kind == OPD_NONE ? q : opd_reg(lower_and(l, p, q), 0);
    }
    return p;
}

// Bytes that every row start of the view is a multiple of, at most 16: the widest access. A power
// of two, made of the strides and of the origin's known divisors; the tensors' base addresses are
// multiples of 16 by the plan's checks.
i64 lower_global_align(Lower *l, const TileView *v)
{
    int id = lower_buffer(l, v->buffer); // first: it may grow the table
    const ThreadBuffer *b = &l->tf->buffers.at[id];
    i64 elem = dtype_bytes[b->type], align = 16; // of the base address, by the plan
    for (int d = 0; d < b->rank; d++) {
        i64 step = elem * expr_pow2_divisor(l->x, b->stride[d]);
        const Expr *o = lower_subst(l, v->origin[d]);
        bool moves = false; // along the last kept dimension callers step by whole vectors
        for (int i = 0; i + 1 < v->rank; i++) moves |= v->dim[i] == d;
        if (!moves) step *= expr_pow2_divisor(l->x, o);
        if (step < align) align = step;
    }
    return align;
}

// Loads have the registers first, stores the address: as the thread IR's signatures have it.
void lower_emit_mem(Lower *l, ThreadOpcode op, ThreadType t, int n, const Operand *regs, Address a)
{
    bool load = op == OP_LDS || op == OP_LDG;
    Operand o[3];
    o[load ? 0 : 2] = *regs;
    o[load ? 1 : 0] = a.base;
    o[load ? 2 : 1] = a.offset;
    ThreadOp *made = thread_emit(&l->b, op, t, 3, o);
    made->n = (u16)n;
    thread_mem(&l->b, made, a.ref);
}
