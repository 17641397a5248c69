// mma.c - matrix products on the tensor cores, and stores of their results.
//
// One tile product is: wgmma.fence, one wgmma per 32 bytes of K, commit, wait. Shared operands are
// named by 64-bit descriptors; stepping along K adds to the start address: 32 bytes inside a
// swizzled row of S bytes and a whole column block across them (K-major), or 16 rows (MN-major).
#include "impl.h"

#include <string.h>

// Rows of one wgmma: 16 for each of the four warps.
enum { WG_ROWS = 64 };

typedef struct {
    bool in_registers;
    int frag, slot;
    int desc;          // b64 register: descriptor of the tile's first step
    i64 span;          // swizzle width S, bytes
    i64 rows;          // rows of the whole buffer tile (of one column block)
    bool trans;        // MN-major
    const TileView *view;
    MemRef ref;
} Operand2;            // an operand of the product, as the instruction sees it

// Start address of step k, relative to the first step's, in bytes.
// K-major: a row of S bytes holds S / 32 steps; the swizzle is applied to the final address, so
// inside it plain addition is right, and behind it the next block of columns begins. MN-major: 16
// values of K are 16 rows of S bytes.
static i64 step_offset(const Operand2 *o, int k)
{
    if (o->trans) return (i64)k * 16 * o->span;
    i64 byte = (i64)k * 32;
    return byte / o->span * o->rows * o->span + byte % o->span;
}

static bool tile_extent(const TileView *v, int dim, i64 *n)
{
    return v->rank == 2 && expr_is_const(v->extent[v->dim[dim]], n);
}

// Where a tile may begin: rows at the pattern's period of 8. Along K in steps of 32 bytes, and its
// steps may not run out of a block of `span` bytes that they began inside of.
static bool starts_right(Lower *l, const TileOperand *t, bool trans, i64 span)
{
    const TileBuffer *b = &l->k->buffers.at[t->view.buffer];
    const Expr *col = t->view.origin[1];
    i64 elem = dtype_bytes[b->type], unit = expr_pow2_divisor(l->x, col) * elem, at, n;
    if (expr_pow2_divisor(l->x, t->view.origin[0]) % 8) return false;
    if (trans) return unit % (expr_is_const(col, &at) ? 16 : span) == 0;
    if (!tile_extent(&t->view, 1, &n) || unit % 32) return false;
    if (expr_is_const(col, &at))
        return at * elem % span == 0 || at * elem % span + n * elem <= span;
    return unit % span == 0 || n * elem <= unit;
}

// The same tile in every round of every loop: it depends on the warpgroup at most.
static bool is_fixed(const Lower *l, const Expr *e)
{
    if (!e || e->op == EX_CONST) return true;
    if (e->op != EX_VAR) return is_fixed(l, e->a) && is_fixed(l, e->b) && is_fixed(l, e->c);
    for (int i = 0; i < l->par_vars[LEVEL_GROUP4].n; i++)
        if (l->par_vars[LEVEL_GROUP4].at[i] == e->name) return true;
    return false;
}

// In a loop inside a loop the assembler keeps such a tile's address in ordinary registers, and moves
// it to uniform ones for each instruction (seen in its code: two moves a step of K). Made at the
// kernel's entry, the descriptor stays in uniform registers. A single loop needs no such help.
static bool made_at_entry(const Lower *l, const TileView *v)
{
    return l->depth > 1 && is_fixed(l, v->slot) && is_fixed(l, v->origin[0]) &&
           is_fixed(l, v->origin[1]);
}

// Makes the descriptor of a shared operand in o->desc, and the place that it names in o->ref. False
// after an error. The descriptor: start address / 16 in bits 0-13 (18 bits of address reach all of
// shared memory), strides / 16, and the swizzle mode; the base offset in bits 49-51 stays 0, since
// tiles begin where absolute addresses and rows agree.
static bool shared_operand(Lower *l, const TileOperand *t, bool trans, Loc loc, Operand2 *o)
{
    const TileBuffer *b = &l->k->buffers.at[t->view.buffer];
    const SmemLayoutInfo *y = &smem_layout[b->layout];
    if (b->kind != TB_SHARED || !y->span) {
        lower_error(l, loc, "fill it with `.swiz<128>`",
                    "matrix operand %s has no swizzled shared layout, and wgmma needs one",
                    b->name);
        return false;
    }
    if (b->rank != 2 || t->view.rank != 2) {
        lower_error(l, loc, NULL, "not supported yet: matrix operand %s of rank %d", b->name,
                    b->rank);
        return false;
    }
    if (!starts_right(l, t, trans, y->span)) {
        lower_error(l, loc, "start rows at multiples of 8 and columns where a step of K does",
                    "not supported yet: matrix operand %s that starts inside a swizzle atom",
                    b->name);
        return false;
    }
    if (trans && dtype_bytes[b->type] != 2) {
        lower_error(l, loc, NULL, "operand %s is MN-major and %s; only 16-bit types can be",
                    b->name, dtype_name[b->type]);
        return false;
    }
    *o = (Operand2){.span = y->span, .rows = b->dim[0]->value, .trans = trans, .view = &t->view};
    PrologueMark mark = {0};
    bool entry = made_at_entry(l, &t->view);
    if (entry) mark = lower_enter_prologue(l);
    Address a = lower_address(l, &t->view, l->zeros);
    o->ref = a.ref;
    int at = lower_new_reg(l, "at", RC_B32, 1);
    if (a.offset.base || a.offset.nterms)
        EMIT(&l->b, OP_ADD, TT_S32, opd_reg(at, 0), a.base, a.offset);
    else
        EMIT(&l->b, OP_MOV, TT_B32, opd_reg(at, 0), a.base);
    EMIT(&l->b, OP_SHR, TT_U32, opd_reg(at, 0), opd_reg(at, 0), opd_imm(4));
    // Bits 16-29 LBO, 32-45 SBO, 62-63 layout. K-major ignores LBO; MN-major uses it from one block
    // of S bytes of the M/N extent to the next.
    u64 lbo = (u64)(trans ? o->rows * o->span : 16) >> 4, sbo = (u64)(8 * o->span) >> 4;
    u64 bits = lbo << 16 | sbo << 32 | (u64)y->desc_code << 62;
    o->desc = lower_new_reg(l, "desc", RC_B64, 1);
    EMIT(&l->b, OP_CVT, TT_U64, opd_reg(o->desc, 0), opd_reg(at, 0))->type2 = TT_U32;
    EMIT(&l->b, OP_OR, TT_B64, opd_reg(o->desc, 0), opd_reg(o->desc, 0), opd_imm((i64)bits));
    if (entry) lower_leave_prologue(l, mark);
    return true;
}

// Step k: the start address moves, all else stays. The sum cannot carry out of the address bits, as
// the tile lies in shared memory as a whole.
static Operand descriptor(Lower *l, const Operand2 *o, int k)
{
    if (k == 0) return opd_reg(o->desc, 0);
    int d = lower_new_reg(l, "desc", RC_B64, 1);
    EMIT(&l->b, OP_ADD, TT_S64, opd_reg(d, 0), opd_reg(o->desc, 0),
         opd_imm(step_offset(o, k) >> 4));
    return opd_reg(d, 0);
}

// The place that step k of an operand reads: the origin moved along K.
static MemRef step_ref(Lower *l, const Operand2 *o, int k, int elem)
{
    MemRef r = o->ref;
    int dim = r.ncoord - (o->trans ? 2 : 1);
    r.coord[dim] = expr_add(l->x, r.coord[dim], lower_const(l, (i64)k * 32 / elem));
    return r;
}

typedef struct {
    DType type;
    i64 n, k;          // extents of the product, elements
    int steps;
    Operand2 a, b;
    int acc, acc_regs;
    i64 acc_base;
} Product;

static ThreadType operand_type(DType t)
{
    switch (t) {
    case DT_F16: return TT_F16;
    case DT_BF16: return TT_BF16;
    case DT_TF32: return TT_TF32;
    case DT_E4M3: return TT_E4M3;
    case DT_E5M2: return TT_E5M2;
    case DT_S8: return TT_S8;
    case DT_U8: return TT_U8;
    default: return TT_NONE;
    }
}

// Shapes and types of the product; errors name what was found and what the tensor cores take.
static bool product_shape(Lower *l, const TileOp *op, Product *p)
{
    const TileFrag *c = &l->k->frags.at[op->frag];
    i64 m = 0, ka = 0, kb = 0;
    if (op->a.frag >= 0) {
        const TileFrag *f = &l->k->frags.at[op->a.frag];
        p->type = f->type;
        m = f->dim[0], ka = f->dim[1];
    } else {
        p->type = l->k->buffers.at[op->a.view.buffer].type;
        if (!tile_extent(&op->a.view, op->a.trans ? 1 : 0, &m) ||
            !tile_extent(&op->a.view, op->a.trans ? 0 : 1, &ka))
            goto shape;
    }
    if (!tile_extent(&op->b.view, op->b.trans ? 1 : 0, &p->n) ||
        !tile_extent(&op->b.view, op->b.trans ? 0 : 1, &kb))
        goto shape;
    p->k = ka;
    i64 step = 32 / dtype_bytes[p->type];
    DType other = l->k->buffers.at[op->b.view.buffer].type;
    if (operand_type(p->type) == TT_NONE || other != p->type) {
        // The hardware multiplies the two f8 types with each other; `type2` names only one.
        bool mixed = dtype_bytes[p->type] == 1 && operand_type(p->type) != TT_NONE &&
                     operand_type(other) != TT_NONE && dtype_bytes[other] == 1;
        lower_error(l, op->loc, NULL,
                    mixed ? "not supported yet: a product of %s and %s"
                          : "operands of %s and %s; the tensor cores take two of f16, bf16, tf32 "
                            "or f8",
                    dtype_name[p->type], dtype_name[other]);
        return false;
    }
    if (m != WG_ROWS || p->n % 8 || p->n < 8 || p->n > 256 || ka != kb || ka % step ||
        c->rank != 2 || c->dim[0] != m || c->dim[1] != p->n) {
        lower_error(l, op->loc, "split the tile, or give each warpgroup 64 rows of A",
                    "product [%lld,%lld] x [%lld,%lld] into [%lld,%lld]; a warpgroup multiplies "
                    "64 rows, N is a multiple of 8 up to 256, K a multiple of %lld and equal in "
                    "both",
                    (long long)m, (long long)ka, (long long)kb, (long long)p->n,
                    (long long)c->dim[0], (long long)(c->rank == 2 ? c->dim[1] : 1),
                    (long long)step);
        return false;
    }
    if (!l->groups) {
        lower_error(l, op->loc, "put it into `parallel ... : group-4`",
                    "a matrix product runs in a warpgroup, not at level %s",
                    tile_level_name[l->level]);
        return false;
    }
    p->steps = (int)(ka / step);
    return true;
shape:
    lower_error(l, op->loc, NULL,
                "operands of a matrix product are two-dimensional with constant extents");
    return false;
}

// One instruction: 32 bytes of K. A register operand brings 4 registers a step.
static void emit_step(Lower *l, const Product *p, int k, bool accumulate)
{
    const Operand2 *a = &p->a, *b = &p->b;
    int elem = dtype_bytes[p->type];
    Operand o[4] = {opd_range(p->acc, p->acc_base, p->acc_regs)};
    if (a->in_registers) {
        const TileFrag *f = &l->k->frags.at[a->frag];
        o[1] = opd_range(lower_frag(l, a->frag), (i64)a->slot * lower_frag_regs(f) + 4 * k, 4);
    } else {
        o[1] = descriptor(l, a, k);
    }
    o[2] = descriptor(l, b, k);
    o[3] = opd_reg(lower_pred_const(l, accumulate), 0);
    bool whole = p->type == DT_S8 || p->type == DT_U8;
    ThreadOp *op = thread_emit(&l->b, a->in_registers ? OP_WGMMA_RS : OP_WGMMA_SS,
                               whole ? TT_S32 : TT_F32, 4, o);
    op->type2 = (u8)operand_type(p->type);
    op->n = (u16)p->n;
    if (!a->in_registers && a->trans) op->flags |= OPF_TRANS_A;
    if (b->trans) op->flags |= OPF_TRANS_B;
    if (!a->in_registers) thread_mem(&l->b, op, step_ref(l, a, k, elem));
    thread_mem(&l->b, op, step_ref(l, b, k, elem));
}

// The registers that one product holds at once are in the thread's all at the same time: the
// assembler cannot spill them, it gives up.
static bool fits_registers(Lower *l, const TileOp *op)
{
    enum { ADDRESSES = 24 }; // descriptors, counters, what else is alive: the assembler asks for 26
    const TileFrag *c = &l->k->frags.at[op->frag];
    int needs = lower_frag_regs(c), has = lower_thread_registers(l);
    if (op->a.frag >= 0) needs += lower_frag_regs(&l->k->frags.at[op->a.frag]);
    if (needs + ADDRESSES <= has) return true;
    lower_error(l, op->loc,
                "take more with `call croq::cuda::setreg_inc(n)`, use fewer threads, or a narrower tile",
                "this product holds %d registers of each thread and needs some %d more; there are %d",
                needs, ADDRESSES, has);
    return false;
}

// The product is committed as one group; without a future it is waited for at once. Registers that
// it takes must be final before the fence, so all fragments are touched (and zeros flushed) first.
// When the accumulator is a pending zero, the first step ignores its contents instead.
void lower_op_MMA(Lower *l, const TileOp *op)
{
    Product p = {0};
    if (!fits_registers(l, op)) return;
    if (!product_shape(l, op, &p)) return;
    if (op->a.frag >= 0) {
        p.a = (Operand2){.in_registers = true, .frag = op->a.frag, .slot = op->a.frag_slot};
        lower_frag(l, op->a.frag);
    } else if (!shared_operand(l, &op->a, op->a.trans, op->loc, &p.a)) {
        return;
    }
    if (!shared_operand(l, &op->b, op->b.trans, op->loc, &p.b)) return;
    const TileFrag *c = &l->k->frags.at[op->frag];
    bool from_zero = l->frag_zero[op->frag];
    l->frag_zero[op->frag] = false;
    p.acc = lower_frag(l, op->frag);
    p.acc_regs = lower_frag_regs(c);
    p.acc_base = (i64)op->frag_slot * p.acc_regs;
    thread_emit0(&l->b, OP_WGMMA_FENCE, 0); // one a product: the assembler injects what it misses
    for (int i = 0; i < p.steps; i++) {
        int k = op->imm ? (int)((u64)op->imm >> (4 * i) & 15) : i;
        emit_step(l, &p, k, !(from_zero && i == 0));
    }
    thread_emit0(&l->b, OP_WGMMA_COMMIT, 0);
    l->nwritten = 0;
    vec_push(l->m->arena, &l->inflight, ((InFlight){op->future, op->frag, op->a.frag}));
    if (op->future < 0) product_flush(l);
}

// ---- store --------------------------------------------------------------------------------------

// Two neighbouring columns as one register of 32 bits (16-bit types) or two of f32.
// `pairs`: both columns by one access. Elements beyond the view's limits are not written.
static void store_pair(Lower *l, const TileOp *op, Operand lo, Operand hi, const Expr *const *at,
                       bool pairs)
{
    const TileBuffer *t = &l->k->buffers.at[op->dst.buffer];
    bool half = dtype_bytes[t->type] == 2;
    ThreadOpcode store = t->kind == TB_GLOBAL ? OP_STG : OP_STS;
    if (pairs) {
        Operand guard = lower_inside(l, &op->dst, at, 2), outer = l->b.guard;
        Address a = lower_address(l, &op->dst, at);
        Operand regs;
        if (half) {
            regs = opd_reg(lower_new_reg(l, "pack", RC_B32, 1), 0);
            EMIT(&l->b, OP_CVTPACK, t->type == DT_F16 ? TT_F16X2 : TT_BF16X2, regs, hi, lo);
        } else {
            regs = lo;
            regs.count = 2;
        }
        if (guard.kind != OPD_NONE) l->b.guard = guard;
        lower_emit_mem(l, store, half ? TT_B32 : TT_F32, half ? 1 : 2, &regs, a);
        l->b.guard = outer;
        return;
    }
    for (int p = 0; p < 2; p++) {
        const Expr *one[2] = {at[0], expr_add(l->x, at[1], lower_const(l, p))};
        Operand guard = lower_inside(l, &op->dst, one, 1), outer = l->b.guard, v = p ? hi : lo;
        Address a = lower_address(l, &op->dst, one);
        if (half) v = lower_round(l, v, t->type);
        if (guard.kind != OPD_NONE) l->b.guard = guard;
        lower_emit_mem(l, store, half ? TT_B16 : TT_F32, 1, &v, a);
        l->b.guard = outer;
    }
}

// A pair may be stored at once when its address is a multiple of its size and an edge cannot fall
// between its two columns.
static bool pairs_fit(Lower *l, const TileView *v)
{
    const TileBuffer *t = &l->k->buffers.at[v->buffer];
    int last = v->dim[v->rank - 1];
    if (!lower_row_dense(l, v)) return false;
    i64 even = MIN(expr_pow2_divisor(l->x, v->origin[last]),
                   expr_pow2_divisor(l->x, v->limit[last]));
    if (even < 2) return false;
    return t->kind == TB_SHARED || lower_global_align(l, v) >= 2 * dtype_bytes[t->type];
}

// Columns of the fragment to a tile of that many, as the threads hold them: each writes pairs of
// columns, rows 8 apart.
void lower_op_MMA_STORE(Lower *l, const TileOp *op)
{
    const TileFrag *f = &l->k->frags.at[op->frag];
    const TileBuffer *t = &l->k->buffers.at[op->dst.buffer];
    bool type_ok = t->type == DT_F32 || t->type == DT_F16 || t->type == DT_BF16;
    if (f->layout != FL_ACC || f->type != DT_F32 || !type_ok || op->dst.rank != 2) {
        lower_error(l, op->loc,
                    "store an f32 accumulator into a two-dimensional f32, f16 or bf16 tile",
                    "not supported yet: mma.store of %s into %s", f->name, t->name);
        return;
    }
    const Expr *b, *h;
    ThreadBlock *s0, *s1;
    product_check(l, op->frag, false, op->loc);
    i64 cols;
    if (!expr_is_const(op->dst.extent[op->dst.dim[1]], &cols)) BUG("mma.store of unknown width");
    int reg = lower_frag(l, op->frag);
    bool pairs = pairs_fit(l, &op->dst);
    const Expr *row = lower_reg_expr(l, lower_frag_row(l));
    const Expr *col = lower_reg_expr(l, lower_frag_col(l));
    int m1 = lower_open_unroll(l, "h", 2, &h, &s1);
    int m0 = lower_open_unroll(l, "b", (int)(cols / 8), &b, &s0);
    Operand lo = opd_reg(reg, (i64)op->frag_slot * lower_frag_regs(f) + op->imm / 8 * 4);
    lo = lower_plus(l, lower_plus(l, lo, b, 4), h, 2);
    Operand hi = lo;
    hi.base++;
    const Expr *at[2] = {expr_add(l->x, row, expr_mul(l->x, h, lower_const(l, 8))),
                         expr_add(l->x, col, expr_mul(l->x, b, lower_const(l, 8)))};
    store_pair(l, op, lo, hi, at, pairs);
    lower_close(l, s0, m0);
    lower_close(l, s1, m1);
}
