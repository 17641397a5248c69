// copy.c - tile copies between global and shared memory: by cp.async, through registers, or by the
// TMA unit. A copy that does not depend on a group or thread variable is done once, by all threads
// of the block or role; one that depends on the warpgroup, by each warpgroup for itself.
//
// Elements of the view that lie beyond its limits read as zero and are not written.
#include "impl.h"

enum {
    COPY_UNROLL = 32,  // passes over the tile that are unrolled; more become a loop
    TMA_MAX_LEAD = 64, // boxes of a tile for its dimensions before the last two
};

typedef struct {
    const TileOp *op;
    // The sides of a copy between global and shared memory. Other copies only go through registers:
    // `shared` is the destination then, `global` the source.
    const TileView *global, *shared;
    DType type;
    int elem;            // bytes
    int rank;
    i64 extent[TILE_MAX_RANK]; // of the tile, elements, in each dimension that the views keep
    i64 rows, cols;      // the last dimension, and all before it as one
    int threads;         // that take part
    const Expr *thread;  // index of this thread among them
    bool group;          // each warpgroup copies its own tile
    bool direct;         // between global and shared memory
} Copy;

// Does the place of a view depend on a variable of this parallel level?
static bool views_depend(const Lower *l, const TileView *v, TileLevel level)
{
    for (int i = 0; i < l->par_vars[level].n; i++) {
        const char *var = l->par_vars[level].at[i];
        if (v->slot && expr_uses(v->slot, var)) return true;
        for (int d = 0; d < l->k->buffers.at[v->buffer].rank; d++)
            if (expr_uses(v->origin[d], var)) return true;
    }
    return false;
}

// The parts of the block that copy a tile of their own, as the innermost level that the places of
// the two sides depend on. What is local belongs to a thread.
static TileLevel copy_level(const Lower *l, const Copy *c)
{
    const TileView *sides[2] = {c->shared, c->global};
    TileLevel level = LEVEL_BLOCK;
    for (int i = 0; i < 2; i++) {
        if (l->k->buffers.at[sides[i]->buffer].kind == TB_LOCAL) return LEVEL_THREAD;
        for (int k = LEVEL_GROUP4; k <= LEVEL_THREAD; k++)
            if (views_depend(l, sides[i], (TileLevel)k)) level = MAX(level, (TileLevel)k);
    }
    return level;
}

// Fills *c from the operation: which side is shared, the tile's extents, who takes part. False
// after an error. The tile's extents are constants.
static bool copy_shape(Lower *l, const TileOp *op, Copy *c)
{
    const TileBuffer *d = &l->k->buffers.at[op->dst.buffer], *s = &l->k->buffers.at[op->src.buffer];
    *c = (Copy){.op = op, .type = d->type, .elem = dtype_bytes[d->type]};
    bool out = s->kind == TB_SHARED && d->kind == TB_GLOBAL;
    c->direct = out || (s->kind == TB_GLOBAL && d->kind == TB_SHARED);
    c->shared = out ? &op->src : &op->dst;
    c->global = out ? &op->dst : &op->src;
    const TileView *v = c->shared, *g = c->global;
    if (v->rank < 1 || g->rank != v->rank) {
        lower_error(l, op->loc, "drop dimensions of extent 1 with .sqz()",
                    "not supported yet: copy of a tile of rank %d to rank %d", g->rank, v->rank);
        return false;
    }
    c->rank = v->rank;
    c->rows = 1;
    for (int i = 0; i < c->rank; i++) {
        if (!expr_is_const(v->extent[v->dim[i]], &c->extent[i])) {
            lower_error(l, op->loc, NULL, "the extents of a copied tile must be constants");
            return false;
        }
        if (i + 1 < c->rank) c->rows *= c->extent[i];
    }
    c->cols = c->extent[c->rank - 1];
    const Expr *tid = lower_reg_expr(l, lower_tid(l));
    static const int part[LEVEL_COUNT] = {[LEVEL_GROUP4] = 128, [LEVEL_WARP] = 32,
                                          [LEVEL_THREAD] = 1};
    TileLevel level = copy_level(l, c);
    c->group = level != LEVEL_BLOCK;
    c->threads = c->group ? part[level] : l->role.hi - l->role.lo;
    c->thread = c->group ? expr_bin(l->x, EX_MOD, tid, lower_const(l, c->threads))
                         : expr_sub(l->x, tid, lower_const(l, l->role.lo));
    return true;
}

// ---- thread by thread ---------------------------------------------------------------------------

// Widest access, in bytes, that fits the global rows' alignment, the shared rows, and (exact) no
// edge that falls inside it.
static int widest(Lower *l, const Copy *c, const int *widths, int n, bool exact)
{
    i64 align = lower_global_align(l, c->global);
    const TileBuffer *s = &l->k->buffers.at[c->shared->buffer];
    int last = c->global->dim[c->global->rank - 1], slast = c->shared->dim[c->shared->rank - 1];
    bool contiguous = lower_row_dense(l, c->global) && slast == s->rank - 1;
    i64 shared_row = s->dim[s->rank - 1]->value * c->elem;
    i64 edge = c->elem * MIN(expr_pow2_divisor(l->x, c->global->limit[last]),
                             expr_pow2_divisor(l->x, c->global->origin[last]));
    i64 start = c->elem * MIN(expr_pow2_divisor(l->x, c->shared->origin[slast]),
                              expr_pow2_divisor(l->x, c->global->origin[last]));
    for (int i = 0; contiguous && i < n; i++) {
        int w = widths[i];
        if (w < c->elem || align % w || shared_row % w || start % w) continue;
        if (c->cols * c->elem % w) continue;
        if (exact && edge % w) continue;
        return w;
    }
    return 0;
}

// Units are dealt out so that neighbouring threads take neighbouring units: their global accesses
// fall into the same sectors.
typedef struct {                 // one pass over the tile: thread t handles unit t + pass * threads
    ThreadBlock *saved;
    int mark;
    Operand outer;               // guard outside
    const Expr *at[TILE_MAX_RANK]; // coordinates in the view of the unit's first element
    Operand live;                // predicate: the unit is in the tile; OPD_NONE: always
} Pass;

// `unit`: elements of one access; it divides the tile's columns. A last pass that is not full is
// cut off by p->live.
static void open_pass(Lower *l, const Copy *c, int unit, Pass *p)
{
    i64 per_row = c->cols / unit, total = c->rows * per_row;
    i64 passes = (total + c->threads - 1) / c->threads;
    const Expr *u;
    p->outer = l->b.guard;
    if (passes <= COPY_UNROLL) {
        p->mark = lower_open_unroll(l, "u", (int)passes, &u, &p->saved);
    } else {
        int reg = lower_new_reg(l, "u", RC_B32, 1);
        u = lower_loop_var(l, reg, 0, passes - 1);
        thread_open_for(&l->b, reg, opd_imm(0), opd_imm(passes), 1, &p->saved);
        p->mark = lower_cache_mark(l);
    }
    const Expr *index = expr_add(l->x, c->thread, expr_mul(l->x, u, lower_const(l, c->threads)));
    const Expr *row = expr_bin(l->x, EX_DIV, index, lower_const(l, per_row));
    const Expr *col = expr_bin(l->x, EX_MOD, index, lower_const(l, per_row));
    col = expr_mul(l->x, col, lower_const(l, unit));
    p->at[c->rank - 1] = col;
    for (int d = c->rank - 2; d >= 0; d--) { // the last dimension of the rows is the fastest
        const Expr *n = lower_const(l, c->extent[d]);
        p->at[d] = d ? expr_bin(l->x, EX_MOD, row, n) : row;
        row = expr_bin(l->x, EX_DIV, row, n);
    }
    p->live = (Operand){0};
    if (total % c->threads) p->live = lower_compare(l, CMP_LT, index, lower_const(l, total));
}

// Only what touches memory stands under a guard. Predicates and addresses are computed in all
// lanes: written under a guard they would keep old values in the others.
static void guard_with(Lower *l, Operand p)
{
    if (p.kind != OPD_NONE) l->b.guard = p;
}

static void close_pass(Lower *l, Pass *p)
{
    l->b.guard = p->outer;
    lower_close(l, p->saved, p->mark);
}

// Either predicate may be absent (OPD_NONE: always true).
static Operand both(Lower *l, Operand a, Operand b)
{
    if (a.kind == OPD_NONE) return b;
    if (b.kind == OPD_NONE) return a;
    return opd_reg(lower_and(l, a, b), 0);
}

// Bytes of a chunk of `bytes` at p->at that lie inside the global view, as an operand of cp.async,
// which fills the rest of the chunk with zeros. With 0 bytes the address is not read, so it may lie
// outside the tensor.
static Operand valid_bytes(Lower *l, const Copy *c, const Pass *p, int bytes)
{
    const TileView *v = c->global;
    int unit = bytes / c->elem, last = v->dim[v->rank - 1];
    const Expr *limit = lower_subst(l, v->limit[last]);
    const Expr *col = expr_add(l->x, lower_subst(l, v->origin[last]), p->at[v->rank - 1]);
    Operand size = opd_imm(bytes), inside;
    bool exact = expr_pow2_divisor(l->x, limit) % unit == 0 &&
                 expr_pow2_divisor(l->x, v->origin[last]) % unit == 0;
    if (exact) {
        inside = lower_inside(l, v, p->at, unit);
    } else {
        const Expr *left = expr_mul(l->x, expr_sub(l->x, limit, col), lower_const(l, c->elem));
        left = expr_bin(l->x, EX_MAX, left, lower_const(l, 0));
        size = lower_index(l, expr_bin(l->x, EX_MIN, left, lower_const(l, bytes)));
        TileView rows = *v; // only the rows' limits are left to ask
        rows.limit[last] = expr_add(l->x, col, lower_const(l, 1));
        inside = lower_inside(l, &rows, p->at, 1);
    }
    if (inside.kind == OPD_NONE) return size;
    Operand d = opd_reg(lower_new_reg(l, "size", RC_B32, 1), 0);
    EMIT(&l->b, OP_SELP, TT_S32, d, size, opd_imm(0), inside);
    return d;
}

// Global to shared by cp.async, `bytes` (4, 8, 16) at a time; not waited for here (sync.c does).
static void copy_in_async(Lower *l, const Copy *c, int bytes)
{
    Pass p;
    open_pass(l, c, bytes / c->elem, &p);
    Operand size = valid_bytes(l, c, &p, bytes);
    Address dst = lower_address(l, c->shared, p.at), src = lower_address(l, c->global, p.at);
    guard_with(l, p.live);
    ThreadOp *op = EMIT(&l->b, OP_CPASYNC, TT_NONE, dst.base, dst.offset, src.base, src.offset,
                        size);
    op->n = (u16)bytes;
    thread_mem(&l->b, op, dst.ref);
    thread_mem(&l->b, op, src.ref);
    close_pass(l, &p);
}

// Global to shared one element at a time: for rows that no wider access fits. Lanes outside the
// view store the zero that the register was set to.
static void copy_in_registers(Lower *l, const Copy *c)
{
    Pass p;
    open_pass(l, c, 1, &p);
    ThreadType t = lower_memory_type(c->type);
    Operand inside = both(l, p.live, lower_inside(l, c->global, p.at, 1));
    Address dst = lower_address(l, c->shared, p.at), src = lower_address(l, c->global, p.at);
    Operand v = opd_reg(lower_new_reg(l, "raw", (RegClass)thread_type_class[t], 1), 0);
    if (inside.kind != OPD_NONE) {
        ThreadType zero = t == TT_B8 ? TT_B16 : t;
        EMIT(&l->b, OP_MOV, zero, v, t == TT_F32 ? opd_f32(0.0f) : opd_imm(0));
    }
    guard_with(l, inside);
    lower_emit_mem(l, OP_LDG, t, 1, &v, src);
    l->b.guard = p.outer;
    guard_with(l, p.live);
    lower_emit_mem(l, OP_STS, t, 1, &v, dst);
    close_pass(l, &p);
}

// Shared to global. Elements outside the view are not written; `bytes` was chosen so that no access
// straddles the edge.
static void copy_out(Lower *l, const Copy *c, int bytes)
{
    Pass p;
    int unit = bytes / c->elem;
    open_pass(l, c, unit, &p);
    ThreadType t = bytes >= 4 ? TT_B32 : lower_memory_type(c->type);
    int n = bytes >= 4 ? bytes / 4 : 1;
    Operand inside = both(l, p.live, lower_inside(l, c->global, p.at, unit));
    Address src = lower_address(l, c->shared, p.at), dst = lower_address(l, c->global, p.at);
    int reg = lower_new_reg(l, "raw", (RegClass)thread_type_class[t], n);
    Operand v = opd_range(reg, 0, n);
    guard_with(l, p.live);
    lower_emit_mem(l, OP_LDS, t, n, &v, src);
    guard_with(l, inside);
    lower_emit_mem(l, OP_STG, t, n, &v, dst);
    close_pass(l, &p);
}

static bool is_global(const Lower *l, const TileView *v)
{
    return l->k->buffers.at[v->buffer].kind == TB_GLOBAL;
}

// Neither from global to shared memory nor back: one element at a time. Beyond the source's edge
// zeros are written, beyond the destination's nothing is.
static void copy_elements(Lower *l, const Copy *c)
{
    Pass p;
    open_pass(l, c, 1, &p);
    const TileView *from = &c->op->src, *to = &c->op->dst;
    ThreadType t = lower_memory_type(c->type);
    Operand there = both(l, p.live, lower_inside(l, from, p.at, 1));
    Operand room = both(l, p.live, lower_inside(l, to, p.at, 1));
    Address src = lower_address(l, from, p.at), dst = lower_address(l, to, p.at);
    Operand v = opd_reg(lower_new_reg(l, "raw", (RegClass)thread_type_class[t], 1), 0);
    if (there.kind != OPD_NONE) {
        ThreadType zero = t == TT_B8 ? TT_B16 : t;
        EMIT(&l->b, OP_MOV, zero, v, t == TT_F32 ? opd_f32(0.0f) : opd_imm(0));
    }
    guard_with(l, there);
    lower_emit_mem(l, is_global(l, from) ? OP_LDG : OP_LDS, t, 1, &v, src);
    l->b.guard = p.outer;
    guard_with(l, room);
    lower_emit_mem(l, is_global(l, to) ? OP_STG : OP_STS, t, 1, &v, dst);
    close_pass(l, &p);
}

// ---- by the TMA unit ----------------------------------------------------------------------------

static const Expr *var_to_zero(void *ctx, const Expr *var)
{
    const Expr **pair = ctx; // the variable, and the constant 0
    return var == pair[0] ? pair[1] : NULL;
}

// True when the condition always holds where the kernel runs: proved, or `0 < X` where X = 0 leaves
// nothing to launch.
static bool tma_proved(Lower *l, const Expr *cond)
{
    i64 v;
    if (expr_is_const(cond, &v)) return v != 0;
    if (cond->op != EX_LT || cond->b->op != EX_VAR) return false;
    const Expr *pair[2] = {cond->b, lower_const(l, 0)};
    for (int i = 0; i < l->k->ngrid; i++) {
        const Expr *g = expr_subst(l->x, l->k->grid[i], var_to_zero, pair);
        if (expr_is_const(g, &v) && v == 0) return true;
    }
    return false;
}

// Adds a condition that must hold for the variant with the TMA unit, unless it is proved.
static void tma_require(Lower *l, const Expr *cond)
{
    if (tma_proved(l, cond)) return;
    for (int i = 0; i < l->tma_conds.n; i++)
        if (l->tma_conds.at[i] == cond) return;
    vec_push(l->m->arena, &l->tma_conds, cond);
    l->tma_when = l->tma_when ? expr_bin(l->x, EX_LAND, l->tma_when, cond) : cond;
}

// What a tensor map asks of dimension d of a tensor: an extent above 0, a stride of 16-byte units.
// The extents are above 0 by the first rule (a map of extent 0 cannot be made), and the strides of
// all dimensions but the innermost are multiples of 16 bytes by the second: of all rules of a
// tensor map these are the ones that sizes known only at launch can break.
static const Expr *tma_extent_rule(Lower *l, const TileBuffer *t, int d)
{
    return expr_bin(l->x, EX_LT, lower_const(l, 0), t->dim[d]);
}

static const Expr *tma_stride_rule(Lower *l, const TileBuffer *t, int d)
{
    const Expr *bytes = lower_const(l, dtype_bytes[t->type]);
    if (t->stride[d]) bytes = expr_mul(l->x, bytes, t->stride[d]);
    for (int i = d + 1; !t->stride[d] && i < t->rank; i++)
        bytes = expr_mul(l->x, bytes, t->dim[i]);
    const Expr *mod = expr_bin(l->x, EX_MOD, bytes, lower_const(l, 16));
    return expr_bin(l->x, EX_EQ, mod, lower_const(l, 0));
}

// Column blocks of `wide` elements that one box brings. A swizzled tile wider than the span lies as
// column blocks behind each other; a map whose last dimension is cut in two, {wide, .., D / wide},
// writes them with one instruction. The cut is exact only where D and the start are multiples of
// `wide` (beyond a ragged D the first part would run into the next row), and the blocks of a box
// are adjacent only when it has all rows of the buffer. Elsewhere 1: a box for each block.
static i64 box_blocks(Lower *l, const Copy *c, i64 wide)
{
    const TileView *v = c->global, *w = c->shared;
    const TileBuffer *t = &l->k->buffers.at[v->buffer], *s = &l->k->buffers.at[w->buffer];
    int last = t->rank - 1;
    i64 rows, blocks = c->cols / wide;
    if (!smem_layout[s->layout].span || blocks < 2 || blocks > 256 || c->cols % wide) return 1;
    if (t->rank == TMA_MAX_RANK || v->dim[v->rank - 1] != last || c->rank < 2) return 1;
    if (!expr_is_const(s->dim[s->rank - 2], &rows) || rows != c->extent[c->rank - 2] || rows > 256)
        return 1;
    bool exact = expr_pow2_divisor(l->x, t->dim[last]) % wide == 0 &&
                 expr_pow2_divisor(l->x, v->origin[last]) % wide == 0;
    return exact ? blocks : 1;
}

// The tensor map of a box of `rows` x (`blocks` * `wide`) in the view's two kept dimensions;
// returns the kernel parameter, or -1 after an error. Dimensions of a map run from the innermost
// outwards, the reverse of the tensor's; column blocks (box_blocks) are one more, behind them. A
// box has at most 256 elements in each; tma_boxes cuts tiles to that.
static int tensor_map(Lower *l, const Copy *c, i64 rows, i64 wide, i64 blocks)
{
    const TileView *v = c->global;
    const TileBuffer *t = &l->k->buffers.at[v->buffer];
    int id = lower_buffer(l, v->buffer); // first: it may grow the table
    const ThreadBuffer *b = &l->tf->buffers.at[id];
    PlanTensorMap m = {.param = t->param, .rank = t->rank};
    m.swizzle = l->k->buffers.at[c->shared->buffer].layout;
    m.promote = c->op->promote;
    for (int i = 0; i < t->rank; i++) {
        int d = t->rank - 1 - i; // innermost first
        m.dim[i] = t->dim[d];
        m.stride[i] = expr_mul(l->x, b->stride[d], lower_const(l, c->elem));
        m.box[i] = 1;
        tma_require(l, tma_extent_rule(l, t, d));
        if (i > 0) tma_require(l, tma_stride_rule(l, t, d));
    }
    m.box[t->rank - 1 - v->dim[v->rank - 1]] = (u32)wide;
    if (v->rank >= 2) m.box[t->rank - 1 - v->dim[v->rank - 2]] = (u32)rows;
    if (blocks > 1) {
        m.dim[m.rank] = expr_bin(l->x, EX_DIV, m.dim[0], lower_const(l, wide));
        m.stride[m.rank] = lower_const(l, wide * c->elem);
        m.box[m.rank++] = (u32)blocks;
        m.dim[0] = lower_const(l, wide);
    }
    for (int i = 0; i < l->step->tmaps.n; i++) { // the same map once per kernel
        const PlanTensorMap *o = &l->step->tmaps.at[i];
        bool same = o->param == m.param && o->swizzle == m.swizzle && o->rank == m.rank &&
                    o->promote == m.promote;
        for (int d = 0; d < m.rank; d++)
            same &= o->box[d] == m.box[d] && o->dim[d] == m.dim[d] && o->stride[d] == m.stride[d];
        if (!same) continue;
        for (int k = 0; k < l->step->args.n; k++)
            if (l->step->args.at[k].kind == ARG_TMAP && l->step->args.at[k].index == i) return k;
    }
    int index = l->step->tmaps.n;
    vec_push(l->m->arena, &l->step->tmaps, m);
    const char *name = intern_printf(l->m->names, "tmap_%s_%d", t->name, index);
    return lower_param(l, name, PARAM_TMAP, (PlanArg){.kind = ARG_TMAP, .index = index});
}

// Rows of a box lie one behind the other in shared memory, from a multiple of 128 bytes on. NULL, or
// the rule that the tile in the buffer breaks.
static const char *box_start(Lower *l, const Copy *c)
{
    enum { UNIT = 128 };
    const TileView *w = c->shared;
    const TileBuffer *s = &l->k->buffers.at[w->buffer];
    int span = smem_layout[s->layout].span, last = s->rank - 1;
    bool rows = w->dim[w->rank - 1] == last && (w->rank < 2 || w->dim[w->rank - 2] == last - 1);
    if (!rows) return "a TMA tile keeps the last dimensions of its shared buffer";
    i64 step = c->elem; // bytes from one index of dimension d to the next
    bool whole = true;
    for (int d = last; d >= 0; d--) {
        bool leads = false; // one box for each of its indices
        for (int i = 0; i + 2 < w->rank; i++) leads |= w->dim[i] == d && c->extent[i] > 1;
        i64 start = MIN(expr_pow2_divisor(l->x, w->origin[d]), (i64)UNIT);
        if (span && d == last) {
            whole &= start * c->elem % MIN(span, UNIT) == 0;
            step = span;
            continue;
        }
        whole &= start * step % UNIT == 0 && (!leads || step % UNIT == 0);
        i64 below = s->dim[d]->value;
        step = span && d == last - 1 ? below * s->dim[last]->value * c->elem : step * below;
    }
    if (s->slots > 1) whole &= step % UNIT == 0;
    return whole ? NULL : "a TMA tile begins at a multiple of 128 bytes of its shared buffer";
}

// Why the TMA unit cannot take this tile whatever the sizes are; NULL: it can. The innermost start
// coordinate and the box's rows must be multiples of 16 bytes: a start that is not kills the launch
// with "illegal instruction", which no check at run time would turn into a message. The unit fills
// with zeros beyond the tensor's own extents only, so a view that ends earlier must be proved
// whole.
static const char *tma_refusal(Lower *l, const Copy *c, const char **hint)
{
    const TileView *v = c->global;
    const TileBuffer *t = &l->k->buffers.at[v->buffer], *s = &l->k->buffers.at[c->shared->buffer];
    Arena *a = l->m->arena;
    int last = v->dim[v->rank - 1];
    i64 width = c->cols * c->elem;
    *hint = "use dma.copy";
    if (c->group && c->shared == &c->op->dst) {
        *hint = "load one tile for the whole block";
        return "not supported yet: a TMA load for each warpgroup";
    }
    if (t->rank > TMA_MAX_RANK || !lower_row_dense(l, v))
        return arena_printf(a, "a TMA tile needs a tensor of rank 1 to 5 and keeps its last "
                               "dimension; %s has rank %d", t->name, t->rank);
    if (width % 16 || expr_pow2_divisor(l->x, v->origin[last]) * c->elem % 16)
        return arena_printf(a, "a TMA tile starts and ends at multiples of 16 bytes in the last "
                               "dimension; this one is %lld elements of %d bytes wide",
                            (long long)c->cols, c->elem);
    for (int d = 0; d < t->rank; d++) {
        if (v->limit[d] == t->dim[d]) continue;
        i64 lo, hi;
        expr_range(l->x, expr_sub(l->x, v->limit[d], expr_add(l->x, v->origin[d], v->extent[d])),
                   &lo, &hi);
        if (lo >= 0) continue;
        return arena_printf(a, "not supported yet: a TMA tile that may run over the edge of a "
                               "part of %s", t->name);
    }
    const SmemLayoutInfo *y = &smem_layout[s->layout];
    if (c->rows / (c->rank > 1 ? c->extent[c->rank - 2] : 1) > TMA_MAX_LEAD)
        return arena_printf(a, "a TMA tile of more than %d rows x columns", TMA_MAX_LEAD);
    bool whole = c->cols == s->dim[s->rank - 1]->value;
    if (!y->span && (c->cols > 256 || !whole)) {
        *hint = "swizzle it (.swiz<128>)";
        return arena_printf(a, "an unswizzled TMA tile is a whole shared tile of at most 256 "
                               "columns; this one has %lld", (long long)c->cols);
    }
    *hint = NULL;
    if (y->span && width > y->span && width % y->span)
        return arena_printf(a, "a tile row of %lld bytes is not a multiple of the swizzle width %d",
                            (long long)width, y->span);
    *hint = "use dma.copy";
    return box_start(l, c);
}

// Coordinates of the box whose first element is `first` of the view, innermost first, in registers.
// Returns how many.
static int box_coordinates(Lower *l, const Copy *c, const Expr *const *first, i64 wide, i64 blocks,
                           Operand *o)
{
    const TileView *v = c->global;
    const TileBuffer *t = &l->k->buffers.at[v->buffer];
    const Expr *at[TMA_MAX_RANK];
    int n = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        const Expr *x = lower_subst(l, v->origin[d]);
        for (int k = 0; k < v->rank; k++)
            if (v->dim[k] == d) x = expr_add(l->x, x, first[k]);
        at[n++] = x;
    }
    if (blocks > 1) { // starts are multiples of `wide`
        at[n++] = expr_bin(l->x, EX_DIV, at[0], lower_const(l, wide));
        at[0] = lower_const(l, 0);
    }
    for (int i = 0; i < n; i++) {
        o[i] = lower_index(l, at[i]);
        if (o[i].kind != OPD_IMM) continue;
        Operand reg = opd_reg(lower_new_reg(l, "i", RC_B32, 1), 0);
        EMIT(&l->b, OP_MOV, TT_B32, reg, o[i]);
        o[i] = reg;
    }
    return n;
}

// One box, whose first element is `at` of the views.
static void tma_box(Lower *l, const Copy *c, const Expr *const *at, i64 rows, i64 wide, i64 blocks,
                    const Address *mbar)
{
    int map = tensor_map(l, c, rows, wide, blocks), n = 0;
    Address s = lower_address(l, c->shared, at);
    Operand o[4 + TMA_MAX_RANK + 2];
    if (mbar) o[n++] = s.base, o[n++] = s.offset;
    o[n++] = opd_param(map);
    int rank = box_coordinates(l, c, at, wide, blocks, o + n);
    n += rank;
    if (mbar)
        o[n++] = mbar->base, o[n++] = mbar->offset;
    else
        o[n++] = s.base, o[n++] = s.offset;
    ThreadOp *op = thread_emit(&l->b, mbar ? OP_TMA_LOAD : OP_TMA_STORE, TT_NONE, n, o);
    op->n = (u16)rank;
    if (c->op->hint == HINT_EVICT_FIRST) op->flags |= OPF_EVICT_FIRST;
    if (c->op->hint == HINT_EVICT_LAST) op->flags |= OPF_EVICT_LAST;
    if (c->op->cluster) op->flags |= OPF_MULTICAST;
    thread_mem(&l->b, op, s.ref);
    if (mbar) thread_mem(&l->b, op, mbar->ref);
}

// The part of a multicast tile (of rank 2) that this block of the cluster brings: whole column
// blocks where they come out even, else rows. *row, *col: its first element. Another copy is whole.
static Copy part_of(Lower *l, const Copy *c, i64 wide, const Expr **row, const Expr **col)
{
    Copy part = *c;
    *row = *col = lower_const(l, 0);
    if (!c->op->cluster) return part;
    int n = l->tf->cluster;
    const Expr *rank = cluster_rank(l);
    if (c->cols % (wide * n) == 0) {
        part.extent[1] = part.cols = c->cols / n;
        *col = expr_mul(l->x, rank, lower_const(l, part.cols));
    } else {
        part.extent[0] = part.rows = c->rows / n;
        *row = expr_mul(l->x, rank, lower_const(l, part.rows));
    }
    return part;
}

// Issues the boxes of a tile: all of it where box_blocks allows, else one per swizzle-wide block of
// columns and 256 rows; and for each index of dimensions before the last two. A row of a swizzled
// map's box may not be wider than the span (32, 64 or 128 bytes), which is why a wide tile lies in
// shared memory as blocks of columns behind each other. `mbar`: the barrier that a load's bytes are
// counted on; NULL: a store.
static void tma_boxes(Lower *l, const Copy *whole, const Address *mbar)
{
    const SmemLayoutInfo *y = &smem_layout[l->k->buffers.at[whole->shared->buffer].layout];
    i64 wide = y->span ? MIN(whole->cols, y->span / whole->elem) : whole->cols;
    const Expr *row, *column;
    Copy part = part_of(l, whole, wide, &row, &column), *c = &part;
    i64 rows = c->rank > 1 ? c->extent[c->rank - 2] : 1, tall = MIN(rows, (i64)256);
    i64 blocks = box_blocks(l, c, wide), lead = c->rows / rows;
    for (i64 n = 0; n < lead; n++) {
        const Expr *at[TILE_MAX_RANK];
        i64 rest = n;
        for (int d = c->rank - 3; d >= 0; d--) {
            at[d] = lower_const(l, rest % c->extent[d]);
            rest /= c->extent[d];
        }
        for (i64 r = 0; r < rows; r += tall) {
            for (i64 col = 0; col < c->cols; col += wide * blocks) {
                if (c->rank > 1) at[c->rank - 2] = expr_add(l->x, row, lower_const(l, r));
                at[c->rank - 1] = expr_add(l->x, column, lower_const(l, col));
                tma_box(l, c, at, MIN(tall, rows - r), wide, blocks, mbar);
            }
        }
    }
}

// A barrier of one slot for a load, with its phase register; made once per load or future. One
// arrival: that of the thread which issues and announces the bytes. The first wait asks for phase
// 0.
static void make_mbar(Lower *l, const char *name, int *buffer, int *phase)
{
    ThreadBuffer b = {.name = intern_printf(l->m->names, "%s_full", name),
                      .kind = BUF_MBAR, .rank = 1};
    b.dim[0] = lower_const(l, 1);
    *buffer = thread_add_buffer(&l->b, b);
    vec_push(l->m->arena, &l->mbars, ((MbarInit){*buffer, 1, 1}));
    PrologueMark mark = lower_enter_prologue(l);
    *phase = lower_new_reg(l, intern_printf(l->m->names, "%s_phase", name), RC_B32, 1);
    EMIT(&l->b, OP_MOV, TT_B32, opd_reg(*phase, 0), opd_imm(0));
    lower_leave_prologue(l, mark);
}

// All threads wait; each keeps the parity of its next wait in a register of its own. A waiter must
// not fall two phases behind, since parity could not tell them apart: sync.c keeps the next load
// from starting before all have passed.
void lower_wait_mbar(Lower *l, int buffer, int phase)
{
    Address a = lower_mbar_address(l, buffer);
    ThreadOp *w = EMIT(&l->b, OP_MBAR_WAIT, TT_NONE, a.base, a.offset, opd_reg(phase, 0));
    thread_mem(&l->b, w, a.ref);
    EMIT(&l->b, OP_XOR, TT_B32, opd_reg(phase, 0), opd_reg(phase, 0), opd_imm(1));
}

// What one thread does for its role stands in a branch of its own: predicated, each coordinate
// would take a register of every thread and a conversion to a uniform one.
typedef struct {
    ThreadBlock *saved;
    int mark;
} Leader;

static Leader open_leader(Lower *l)
{
    Leader x = {.mark = lower_cache_mark(l)};
    thread_open_if(&l->b, opd_reg(lower_elect(l), 0), &x.saved);
    return x;
}

static void close_leader(Lower *l, const Leader *x) { lower_close(l, x->saved, x->mark); }

// A load whose bytes complete a generation of an event. The first load of the generation announces
// the bytes of all of them, before any can land.
static void event_load(Lower *l, const Copy *c)
{
    Leader leader = open_leader(l);
    Address a = event_address(l, c->op);
    if (c->op->imm) {
        ThreadOp *x = EMIT(&l->b, OP_MBAR_ARRIVE_EXPECT, TT_NONE, a.base, a.offset,
                           opd_imm(c->op->imm));
        thread_mem(&l->b, x, a.ref);
    }
    tma_boxes(l, c, &a);
    close_leader(l, &leader);
}

// The announced bytes are those of the whole tile, also where it runs over the tensor's edge: the
// unit counts the zeros that it fills in. They are announced before the copy is issued, by the same
// thread.
static void tma_load(Lower *l, const Copy *c)
{
    int buffer, phase, f = c->op->future;
    if (c->op->event >= 0) {
        event_load(l, c);
        return;
    }
    if (f >= 0 && l->future_mbar[f] >= 0) {
        buffer = l->future_mbar[f], phase = l->future_phase[f];
    } else {
        make_mbar(l, l->k->buffers.at[c->shared->buffer].name, &buffer, &phase);
        if (f >= 0) l->future_mbar[f] = buffer, l->future_phase[f] = phase;
    }
    if (c->op->cluster) cluster_meet(l, c->op);
    Leader leader = open_leader(l);
    Address a = lower_mbar_address(l, buffer);
    ThreadOp *x = EMIT(&l->b, OP_MBAR_ARRIVE_EXPECT, TT_NONE, a.base, a.offset,
                       opd_imm(c->rows * c->cols * c->elem));
    thread_mem(&l->b, x, a.ref);
    tma_boxes(l, c, &a);
    close_leader(l, &leader);
    if (f >= 0) return;
    int filled = tile_memory(l->k, c->shared->buffer);
    l->pending_mbar[filled] = buffer; // sync.c waits before the first reader
    l->pending_phase[filled] = phase;
}

bool lower_store_runs_on(Lower *l, const TileOp *op)
{
    Copy c;
    if (op->op != TOP_COPY || l->uniform_depth || lower_carrier(l, op) != CARRY_TMA) return false;
    if (!l->own_buf[op->src.buffer] || l->role.hi - l->role.lo == l->tf->threads) return false;
    return copy_shape(l, op, &c) && c.group;
}

// Do two boxes of one array provably not meet?
static bool views_apart(Lower *l, const TileView *a, const TileView *b)
{
    for (int d = 0; d < l->k->buffers.at[a->buffer].rank; d++) {
        i64 lo, hi;
        expr_range(l->x, expr_sub(l->x, a->origin[d], expr_add(l->x, b->origin[d], b->extent[d])),
                   &lo, &hi);
        if (lo >= 0) return true;
        expr_range(l->x, expr_sub(l->x, b->origin[d], expr_add(l->x, a->origin[d], a->extent[d])),
                   &lo, &hi);
        if (lo >= 0) return true;
    }
    return false;
}

static bool place_moves(const Lower *l, const TileView *v, const char *var)
{
    for (int d = 0; d < l->k->buffers.at[v->buffer].rank; d++)
        if (expr_uses(v->origin[d], var)) return true;
    return false;
}

// One array may stand under several shapes.
static bool same_array(const Lower *l, const TileView *a, const TileView *b)
{
    const TileBuffer *x = &l->k->buffers.at[a->buffer], *y = &l->k->buffers.at[b->buffer];
    return a->buffer == b->buffer ||
           (x->kind == TB_GLOBAL && y->kind == TB_GLOBAL && x->param == y->param);
}

// Does a store of the TMA unit in `b`, other than `op`, write to where `op` does? *again: `op`
// itself stands in a loop of which its place does not depend.
static bool written_again(Lower *l, const TileBlock *b, const TileOp *op, bool fixed, bool *again)
{
    bool found = false;
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        if (o == op) *again |= fixed;
        else if (o->op == TOP_COPY && same_array(l, &o->dst, &op->dst) &&
                 lower_carrier(l, o) == CARRY_TMA)
            found |= o->dst.buffer != op->dst.buffer || !views_apart(l, &o->dst, &op->dst);
        bool loop = o->op == TOP_FOR && !place_moves(l, &op->dst, o->var);
        found |= written_again(l, &o->body, op, fixed || loop, again);
        found |= written_again(l, &o->other, op, fixed || loop, again);
    }
    return found;
}

// A store after which the same elements are stored again must have written before that (O7).
static bool store_completes(Lower *l, const TileOp *op)
{
    bool again = false, other = written_again(l, &l->k->body, op, false, &again);
    for (int i = 0; i < l->k->scalars.n && again; i++)
        again = !place_moves(l, &op->dst, l->k->scalars.at[i].name);
    return other || again;
}

// Waits here until the unit has read the tile (not until it is written): the tile may then be
// overwritten, and the kernel's end waits for the rest. The barrier and the proxy fence before it,
// which make all threads' stores visible to the unit, come from sync.c, and so does the wait of a
// store that runs on. A tile of each warpgroup is stored by the first thread of each.
static void tma_store(Lower *l, const Copy *c)
{
    Leader leader = {.mark = lower_cache_mark(l)};
    Operand first = c->group ? sync_group_leader(l) : opd_reg(lower_elect(l), 0);
    thread_open_if(&l->b, first, &leader.saved);
    tma_boxes(l, c, NULL);
    thread_emit0(&l->b, OP_BULK_COMMIT, 0);
    if (store_completes(l, c->op)) thread_emit0(&l->b, OP_BULK_WAIT, 0);
    else if (!lower_store_runs_on(l, c->op)) thread_emit0(&l->b, OP_BULK_WAIT_READ, 0);
    close_leader(l, &leader);
}

// The TMA unit takes what the source gives it (tma.*), and a dma.copy into a swizzled tile for
// which all its rules are proved: no thread then computes addresses or waits for its own loads.
static bool choose_tma(Lower *l, const TileOp *op)
{
    if (l->plain) return false;
    if (op->engine == ENGINE_TMA) return true;
    const TileBuffer *d = &l->k->buffers.at[op->dst.buffer], *s = &l->k->buffers.at[op->src.buffer];
    Copy c;
    const char *hint;
    if (d->kind != TB_SHARED || s->kind != TB_GLOBAL || !smem_layout[d->layout].span) return false;
    if (l->failed || op->future >= 0) return false;
    if (!copy_shape(l, op, &c) || tma_refusal(l, &c, &hint)) return false;
    for (int i = 0; i < s->rank; i++) {
        if (!tma_proved(l, tma_extent_rule(l, s, i))) return false;
        if (i + 1 < s->rank && !tma_proved(l, tma_stride_rule(l, s, i))) return false;
    }
    return true;
}

// Bytes of one access. cp.async knows 4, 8 and 16 only.
static const int async_widths[] = {16, 8, 4}, store_widths[] = {16, 8, 4, 2, 1};

static CopyCarrier choose_carrier(Lower *l, const TileOp *op)
{
    Copy c;
    if (choose_tma(l, op)) return CARRY_TMA;
    if (l->failed || !copy_shape(l, op, &c) || !c.direct || c.shared != &op->dst)
        return CARRY_REGISTERS;
    int w = widest(l, &c, async_widths, COUNT(async_widths), false);
    return w ? CARRY_CP_ASYNC : CARRY_REGISTERS;
}

// Decided once per copy and remembered: the barrier analysis and the emission must agree, and
// asking again after the tables have grown might answer otherwise.
CopyCarrier lower_carrier(Lower *l, const TileOp *op)
{
    void *known = map_get(l->carrier, op);
    if (!known) map_put(l->carrier, op, known = (void *)(intptr_t)(choose_carrier(l, op) + 1));
    return (CopyCarrier)((intptr_t)known - 1);
}

static void copy_by_tma(Lower *l, const Copy *c, bool in)
{
    const char *hint, *why = tma_refusal(l, c, &hint);
    if (why)
        lower_error(l, c->op->loc, hint, "%s", why);
    else if (in)
        tma_load(l, c);
    else
        tma_store(l, c);
}

// The carrier was chosen with the same questions, so the widths asked for here are there.
void lower_op_COPY(Lower *l, const TileOp *op)
{
    Copy c;
    if (!copy_shape(l, op, &c)) return;
    bool in = c.shared == &op->dst;
    int w;
    if (!c.direct) {
        copy_elements(l, &c);
        return;
    }
    switch (lower_carrier(l, op)) {
    case CARRY_TMA: copy_by_tma(l, &c, in); break;
    case CARRY_CP_ASYNC:
        copy_in_async(l, &c, widest(l, &c, async_widths, COUNT(async_widths), false));
        break;
    case CARRY_REGISTERS:
        w = widest(l, &c, store_widths, COUNT(store_widths), true);
        if (in)
            copy_in_registers(l, &c);
        else
            copy_out(l, &c, w >= c.elem ? w : c.elem);
    }
    if (op->event >= 0 && lower_carrier(l, op) != CARRY_TMA)
        event_copied(l, op, c.rows * c.cols * c.elem);
}

void lower_op_WAIT(Lower *l, const TileOp *op)
{
    int f = op->future;
    if (l->future_mma[f]) {
        product_wait(l, f);
        return;
    }
    // A future without a barrier was carried by cp.async or registers; the barrier of the block
    // that stands before the first reader waits for it (sync.c).
    if (l->future_mbar[f] >= 0) lower_wait_mbar(l, l->future_mbar[f], l->future_phase[f]);
}
