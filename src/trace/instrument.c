// instrument.c - puts clock reads into a kernel at its event operations.
//
// In: a checked module and its launch plan. Out: copies of both, where lane 0 of each warp of one
// CTA stores {point, clock} at every point, and a list of the points. Operations are shared with
// the module that came in, so that records can name them; regions are copied.
//
// A point costs about seven instructions: they stand in one straight line under a predicate, since
// a branch would be one more end of a basic block, over which the assembler moves nothing. One
// register lives through the kernel: the index of the warp's next record, which lies beyond any
// limit in lanes that record nothing. Points stand beside waits and in front of or behind a group
// of products, never between the products of a group that lie on the same slots.
#include "instrument.h"
#include "../thread/text.h"

#include <string.h>

// ---- what is recorded ---------------------------------------------------------------------------
// IN_FRONT: the record is complete before the operation. AROUND: the clock is read before it, so
// that whoever it wakes is later, and the store stands behind. BEHIND: behind.
typedef enum { NOWHERE, IN_FRONT, AROUND, BEHIND } Where;

typedef struct {
    u8 kind, where;        // of the first record
    bool pass;             // TRACE_PASS behind it
    bool registers;        // TRACE_REGISTERS behind it
} Seen;

static const Seen seen[OP_COUNT] = {
    [OP_MBAR_WAIT] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_BAR_SYNC] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_BAR_CLUSTER] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_WGMMA_WAIT] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_BULK_WAIT] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_BULK_WAIT_READ] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_CPASYNC_WAIT] = {TRACE_WAIT, IN_FRONT, .pass = true},
    [OP_SETMAXNREG_INC] = {TRACE_WAIT, IN_FRONT, .pass = true, .registers = true},
    [OP_SETMAXNREG_DEC] = {.registers = true},
    [OP_MBAR_ARRIVE] = {TRACE_ARRIVE, AROUND},
    [OP_MBAR_ARRIVE_EXPECT] = {TRACE_ARRIVE, AROUND},
    [OP_MBAR_EXPECT] = {TRACE_ARRIVE, AROUND},
    [OP_MBAR_ARRIVE_CLUSTER] = {TRACE_ARRIVE, AROUND},
    [OP_CPASYNC_ARRIVE] = {TRACE_ARRIVE, AROUND},
    [OP_BAR_ARRIVE] = {TRACE_ARRIVE, AROUND},
    [OP_TMA_LOAD] = {TRACE_LOAD, AROUND},
    [OP_TMA_STORE] = {TRACE_STORE, AROUND},
    [OP_WGMMA_COMMIT] = {TRACE_COMMIT, AROUND},
    [OP_BULK_COMMIT] = {TRACE_COMMIT, AROUND},
    [OP_CPASYNC_COMMIT] = {TRACE_COMMIT, AROUND},
};

static bool is_product(const ThreadOp *op)
{
    return op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
}

// ---- the state ----------------------------------------------------------------------------------

enum {
    MAX_WORDS = 16,        // further words of one point
    // Where the index begins in lanes that record nothing: no buffer is that long, and it comes to
    // 2^32 after 10^8 points of a block with the most warps, which takes some seconds.
    BEYOND = 1 << 30,
};

typedef struct {
    ThreadBuilder b;
    TraceProgram *out;
    const PlanStep *step;  // that launches the kernel
    int index;             // register that lives through the kernel
    int pair, address, base, limit; // registers of one point
    int on, own;           // predicates of one point
    int buffer;            // of the thread IR
    int param_buffer, param_cta, param_limit;
    int loop, branch;      // innermost ones here
    int lanes;             // enclosing regions that only some lanes run
} Rewrite;

static Arena *arena_of(Rewrite *r) { return r->b.mod->arena; }

static Operand reg(int k) { return opd_reg(k, 0); }

static void op3(Rewrite *r, ThreadOpcode op, ThreadType t, int to, Operand a, Operand b)
{
    EMIT(&r->b, op, t, reg(to), a, b);
}

// ---- one record ---------------------------------------------------------------------------------

// Whether this lane has room for a record: all others have an index beyond the limit.
static void test_room(Rewrite *r, Operand guard)
{
    EMIT(&r->b, OP_LDPARAM, TT_S32, reg(r->limit), opd_param(r->param_limit));
    EMIT(&r->b, OP_SETP, TT_U32, reg(r->on), reg(r->index), reg(r->limit))->cmp = CMP_LT;
    if (guard.kind != OPD_NONE) op3(r, OP_AND, TT_PRED, r->on, reg(r->on), guard);
}

// The pair to record `index` of the buffer, in lanes where r->on holds.
static void store_pair(Rewrite *r, int index)
{
    ThreadBuilder *b = &r->b;
    ExprPool *e = b->mod->exprs;
    EMIT(b, OP_LDPARAM, TT_B64, reg(r->base), opd_param(r->param_buffer));
    op3(r, OP_MULWIDE, TT_U64, r->address, reg(index), opd_imm(4 * TRACE_WORDS));
    op3(r, OP_ADD, TT_U64, r->address, reg(r->address), reg(r->base));
    ThreadOp *store = EMIT(b, OP_STG, TT_B32, reg(r->address), opd_imm(0),
                           opd_range(r->pair, 0, TRACE_WORDS));
    const char *name = arena_printf(arena_of(r), "%%%s", b->fn->regs.at[index].name);
    store->n = TRACE_WORDS;
    store->guard = reg(r->on);
    thread_mem(b, store, (MemRef){r->buffer, 2, {expr_var(e, intern(expr_pool_names(e), name)),
                                                 expr_const(e, 0)}});
}

// The guard keeps the records of a warp without gaps: the index moves where one was due, also when
// there was no more room.
static void store_record(Rewrite *r, Operand guard)
{
    test_room(r, guard);
    store_pair(r, r->index);
    Operand step = opd_imm(r->out->warps);
    EMIT(&r->b, OP_ADD, TT_S32, reg(r->index), reg(r->index), step)->guard = guard;
}

static void read_clock(Rewrite *r) { EMIT(&r->b, OP_CLOCK, TT_U32, opd_reg(r->pair, 1)); }

// ---- a point in the making ----------------------------------------------------------------------

typedef struct {
    TracePoint point;
    Operand first;         // first word: an immediate ...
    int nscaled;           // ... plus registers times factors
    Operand scaled[3];
    i32 factor[3];
    int n;                 // further words: each the sum of two, or the low half of a b64 register
    Operand word[MAX_WORDS], plus[MAX_WORDS];
} Making;

static Making begin_point(Rewrite *r, const ThreadOp *op, TraceKind kind)
{
    TraceSlot none = {SLOT_FIXED, -1, 0, 0};
    return (Making){.point = {.op = op, .kind = (u8)kind, .loop = r->loop, .branch = r->branch,
                              .at = none, .other = none, .bytes_word = -1},
                    .first = opd_imm(r->out->points.n + 1)};
}

// Adds an operand times a power of two to the first word.
static void add_scaled(Making *k, const Operand *o, i32 factor)
{
    if (o->kind == OPD_REG) {
        ASSERT(k->nscaled < COUNT(k->scaled));
        k->factor[k->nscaled] = factor;
        k->scaled[k->nscaled++] = *o;
        return;
    }
    k->first.base = (i32)((u32)k->first.base + (u32)o->base * (u32)factor);
    for (int i = 0; i < o->nterms; i++)
        k->first = opd_plus(k->first, o->term[i].var, (i32)((u32)o->term[i].coef * (u32)factor));
}

static int add_word(Making *k, Operand word, Operand plus)
{
    ASSERT(k->n < MAX_WORDS);
    k->word[k->n] = word;
    k->plus[k->n] = plus;
    return k->n++;
}

// One further word into half `half` of the pair.
static void put_word(Rewrite *r, int half, Operand word, Operand plus)
{
    Operand to = opd_reg(r->pair, half);
    bool wide = word.kind == OPD_REG && r->b.fn->regs.at[word.reg].class == RC_B64;
    if (wide) EMIT(&r->b, OP_CVT, TT_U32, to, word)->type2 = TT_U64;
    else if (plus.kind == OPD_NONE) EMIT(&r->b, OP_MOV, TT_B32, to, word);
    else EMIT(&r->b, OP_ADD, TT_S32, to, word, plus);
}

// The code behind the clock read; then the point exists.
static void end_point(Rewrite *r, Making *k, Operand guard)
{
    Operand to = opd_reg(r->pair, 0), sum = k->first, zero = opd_imm(0), none = {0};
    if (!k->nscaled) EMIT(&r->b, OP_MOV, TT_B32, to, sum);
    for (int i = 0; i < k->nscaled; i++, sum = to)
        EMIT(&r->b, OP_MAD, TT_S32, to, k->scaled[i], opd_imm(k->factor[i]), sum);
    store_record(r, guard);
    for (int i = 0; i < k->n; i += TRACE_WORDS) {
        for (int j = 0; j < TRACE_WORDS; j++) {
            bool there = i + j < k->n;
            put_word(r, j, there ? k->word[i + j] : zero, there ? k->plus[i + j] : none);
        }
        store_record(r, guard);
    }
    k->point.words = k->n;
    vec_push(arena_of(r), &r->out->points, k->point);
}

// A point that stands where the builder is and has nothing but its number.
static void plain_point(Rewrite *r, const ThreadOp *op, TraceKind kind, Operand guard, i64 n)
{
    Making k = begin_point(r, op, kind);
    k.point.n = n;
    read_clock(r);
    end_point(r, &k, guard);
}

// ---- where slots come from ----------------------------------------------------------------------

static bool is_constant(const Expr *e, i32 *slot)
{
    i64 v = 0;
    bool constant = expr_is_const(e, &v);
    if (constant) *slot = (i32)v;
    return constant;
}

// A place whose slot is known, or that has only one: then nothing need be recorded.
static bool is_fixed(const Rewrite *r, const MemRef *m, TraceSlot *out)
{
    const ThreadBuffer *b = &r->b.fn->buffers.at[m->buffer];
    *out = (TraceSlot){SLOT_FIXED, m->buffer, 0, 0};
    if (b->kind != BUF_MBAR) return b->rank < 3 || is_constant(m->coord[0], &out->slot);
    return !b->rank || (b->rank == 1 && is_constant(m->coord[0], &out->slot));
}

// The address operand o[0] + o[1] goes into the first word. Barriers lie at multiples of 8, tiles
// of the copy unit at multiples of 16, and all below 2^18.
static TraceSlot first_word(Rewrite *r, Making *k, const Operand *o, const MemRef *m)
{
    TraceSlot s;
    if (is_fixed(r, m, &s)) return s;
    add_scaled(k, &o[0], 1 << 13);
    add_scaled(k, &o[1], 1 << 13);
    return (TraceSlot){SLOT_FIRST, m->buffer, 0, 0};
}

static TraceSlot address_word(Rewrite *r, Making *k, const Operand *o, const MemRef *m)
{
    TraceSlot s;
    if (is_fixed(r, m, &s)) return s;
    return (TraceSlot){SLOT_ADDRESS, m->buffer, 0, add_word(k, o[0], o[1])};
}

static TraceSlot barrier_number(Making *k, const Operand *o)
{
    if (o->kind == OPD_IMM && !o->nterms) return (TraceSlot){SLOT_FIXED, -1, (i32)o->base, 0};
    add_scaled(k, o, 1 << 16);
    return (TraceSlot){SLOT_NUMBER, -1, 0, 0};
}

// Bytes that one copy moves: the box of its tensor map.
static i64 box_bytes(const Rewrite *r, const ThreadOp *op)
{
    int param = -1;
    const char *sig = thread_op[op->op].sig;
    for (int i = 0, k = 0; sig[i]; k += thread_sig_operands(op, sig[i]), i++)
        if (sig[i] == 'T') param = op->opnd[k].reg;
    if (!r->step || param < 0 || param >= r->step->args.n) return 0;
    const PlanArg *g = &r->step->args.at[param];
    if (g->kind != ARG_TMAP) return 0;
    const PlanTensorMap *t = &r->step->tmaps.at[g->index];
    i64 bytes = dtype_bytes[r->out->plan->params.at[t->param].type];
    for (int i = 0; i < t->rank; i++) bytes *= t->box[i];
    return bytes;
}

// What a record says besides its point and the clock.
static void make_places(Rewrite *r, Making *k, const ThreadOp *op)
{
    TracePoint *p = &k->point;
    const Operand *o = op->opnd;
    switch (op->op) {
    case OP_MBAR_WAIT:
        p->at = first_word(r, k, o, &op->mem[0]);
        p->parity = true;
        add_scaled(k, &o[2], INT32_MIN);
        break;
    case OP_MBAR_ARRIVE_EXPECT:
    case OP_MBAR_EXPECT:
        p->at = first_word(r, k, o, &op->mem[0]);
        if (o[2].kind == OPD_IMM && !o[2].nterms) p->n = o[2].base;
        else p->bytes_word = add_word(k, o[2], (Operand){0});
        break;
    case OP_MBAR_ARRIVE:
    case OP_MBAR_ARRIVE_CLUSTER:
    case OP_CPASYNC_ARRIVE: p->at = first_word(r, k, o, &op->mem[0]); break;
    case OP_BAR_SYNC:
    case OP_BAR_ARRIVE: p->at = barrier_number(k, &o[0]); break;
    case OP_TMA_LOAD: // [slot], map, {coordinates}, [barrier]
        p->at = address_word(r, k, o, &op->mem[0]);
        p->other = first_word(r, k, &o[op->nopnd - 2], &op->mem[1]);
        p->n = box_bytes(r, op);
        break;
    case OP_TMA_STORE: // map, {coordinates}, [slot]
        p->at = first_word(r, k, &o[op->nopnd - 2], &op->mem[0]);
        p->n = box_bytes(r, op);
        break;
    default: p->n = op->n; break;
    }
}

// ---- products -----------------------------------------------------------------------------------

static bool writes(const ThreadOp *op, int reg)
{
    const char *sig = thread_op[op->op].sig;
    for (int i = 0, k = 0; sig[i]; k += thread_sig_operands(op, sig[i]), i++)
        if (strchr("dPFR", sig[i]) && op->opnd[k].kind == OPD_REG && op->opnd[k].reg == reg)
            return true;
    return false;
}

// Can the register be read at operation `from` of the block in place of operation `to`?
static bool is_early(const ThreadBlock *b, int from, int to, int reg)
{
    for (int i = from; i < to; i++)
        if (writes(b->at[i], reg)) return false;
    return true;
}

// The slot of operand `which` of product `to` when it is read at `from`; one that lies in the same
// slot as an earlier one of the point needs no word of its own. False: it cannot be read there.
static bool operand_slot(Rewrite *r, Making *k, const ThreadBlock *b, int from, int to, int which,
                         TraceSlot *out)
{
    const ThreadOp *op = b->at[to];
    bool rs = op->op == OP_WGMMA_RS;
    const MemRef *m = &op->mem[rs ? 0 : which];
    const Operand *desc = &op->opnd[1 + which];
    if (rs && !which) {
        *out = (TraceSlot){SLOT_FIXED, -1, 0, 0};
        return true;
    }
    if (is_fixed(r, m, out)) return true;
    for (int i = 0; i < k->point.products.n; i++) {
        const TraceOperands *p = &k->point.products.at[i];
        const MemRef *a = p->op->op == OP_WGMMA_SS ? &p->op->mem[0] : NULL;
        const MemRef *c = &p->op->mem[p->op->nmem - 1];
        bool first = a && a->buffer == m->buffer && a->coord[0] == m->coord[0];
        bool second = c->buffer == m->buffer && c->coord[0] == m->coord[0];
        if (first || second) *out = first ? p->a : p->b;
        if (first || second) return true;
    }
    if (k->n >= MAX_WORDS - 1 || !is_early(b, from, to, desc->reg)) return false;
    *out = (TraceSlot){SLOT_DESCRIPTOR, m->buffer, 0, add_word(k, *desc, (Operand){0})};
    return true;
}

// A point in front of product `from` of the block, for it and those behind it up to the first whose
// slots are not known yet here. Returns the operation behind the last one that it covers.
static int product_point(Rewrite *r, const ThreadBlock *b, int from)
{
    Making k = begin_point(r, b->at[from], TRACE_PRODUCT);
    int i = from;
    for (; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        TraceOperands p = {.op = op};
        if (op->op == OP_WGMMA_COMMIT || thread_op[op->op].effect == EFF_CTRL) break;
        if (!is_product(op)) continue;
        int words = k.n;
        if (!operand_slot(r, &k, b, from, i, 0, &p.a) ||
            !operand_slot(r, &k, b, from, i, 1, &p.b)) {
            k.n = words;
            break;
        }
        vec_push(arena_of(r), &k.point.products, p);
    }
    read_clock(r);
    end_point(r, &k, (Operand){0});
    return i;
}

// ---- the rewriting ------------------------------------------------------------------------------

// An arrival at another CTA's barrier is none of this one's. Each lane may arrive elsewhere, so the
// warp asks for any that stays here; where its lanes are apart, lane 0 answers for itself.
static Operand own_arrival(Rewrite *r, const ThreadOp *op)
{
    EMIT(&r->b, OP_MOV, TT_B32, reg(r->limit), opd_sreg(SR_CLUSTER_RANK));
    EMIT(&r->b, OP_SETP, TT_S32, reg(r->own), reg(r->limit), op->opnd[2])->cmp = CMP_EQ;
    if (op->guard.kind != OPD_NONE) op3(r, OP_AND, TT_PRED, r->own, reg(r->own), op->guard);
    if (!r->lanes) EMIT(&r->b, OP_VOTE, TT_PRED, reg(r->own), reg(r->own));
    return reg(r->own);
}

// The last record of a warp, into its place in front of all others.
static void emit_end(Rewrite *r, Operand guard)
{
    ThreadBuilder *b = &r->b;
    read_clock(r);
    EMIT(b, OP_SETP, TT_U32, reg(r->on), reg(r->index), opd_imm(BEYOND))->cmp = CMP_LT;
    if (guard.kind != OPD_NONE) op3(r, OP_AND, TT_PRED, r->on, reg(r->on), guard);
    EMIT(b, OP_MOV, TT_B32, opd_reg(r->pair, 0), reg(r->index));
    EMIT(b, OP_MOV, TT_B32, reg(r->limit), opd_sreg(SR_TID));
    op3(r, OP_SHR, TT_U32, r->limit, reg(r->limit), opd_imm(5));
    store_pair(r, r->limit);
}

static void copy_op(Rewrite *r, const ThreadOp *op)
{
    vec_push(arena_of(r), r->b.at, (ThreadOp *)op);
}

// An operation of the table with its records.
static void rewrite_seen(Rewrite *r, const ThreadOp *op, const Seen *s)
{
    Making k = begin_point(r, op, (TraceKind)s->kind);
    Operand guard = op->guard;
    if (s->where != NOWHERE) {
        make_places(r, &k, op);
        if (op->op == OP_MBAR_ARRIVE_CLUSTER) guard = own_arrival(r, op);
        read_clock(r);
        if (s->where == IN_FRONT) end_point(r, &k, guard);
    }
    copy_op(r, op);
    if (s->where == AROUND) end_point(r, &k, guard);
    if (s->pass) plain_point(r, op, TRACE_PASS, guard, 0);
    if (s->registers) plain_point(r, op, TRACE_REGISTERS, guard, op->n);
}

static bool has_points(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (seen[op->op].where || seen[op->op].registers || is_product(op)) return true;
        if (has_points(&op->body) || has_points(&op->other)) return true;
    }
    return false;
}

static void rewrite_block(Rewrite *r, const ThreadBlock *in, ThreadBlock *out);

// One side of an `if`.
static void rewrite_branch(Rewrite *r, const ThreadOp *op, const ThreadBlock *in, ThreadBlock *out)
{
    int saved = r->branch;
    TraceBranch side = {saved, op, in == &op->other};
    vec_push(arena_of(r), &r->out->branches, side);
    r->branch = r->out->branches.n - 1;
    rewrite_block(r, in, out);
    r->branch = saved;
}

// Some lanes may be elsewhere.
static bool splits_lanes(const ThreadOp *op)
{
    return (op->op == OP_IF && !(op->flags & OPF_UNIFORM)) ||
           (op->op == OP_FOR && op->flags & OPF_LANES);
}

// A loop inside another has a record where it is entered: its rounds could not be told from those
// of the other one.
static void rewrite_region(Rewrite *r, const ThreadOp *op)
{
    ThreadOp *copy = ARENA_NEW(arena_of(r), ThreadOp);
    bool loop = op->op == OP_FOR || op->op == OP_UNROLL;
    int saved = r->loop;
    *copy = *op;
    if (has_points(&op->body) && op->op == OP_FOR && r->loop >= 0)
        plain_point(r, op, TRACE_KIND_COUNT, (Operand){0}, 0);
    copy->body = copy->other = (ThreadBlock){0};
    copy_op(r, copy);
    r->lanes += splits_lanes(op);
    if (loop) {
        vec_push(arena_of(r), &r->out->loops, ((TraceLoop){saved, op->op == OP_UNROLL}));
        r->loop = r->out->loops.n - 1;
    }
    if (op->op == OP_IF) {
        rewrite_branch(r, op, &op->body, &copy->body);
        rewrite_branch(r, op, &op->other, &copy->other);
    } else {
        rewrite_block(r, &op->body, &copy->body);
    }
    r->loop = saved;
    r->lanes -= splits_lanes(op);
}

static void rewrite_block(Rewrite *r, const ThreadBlock *in, ThreadBlock *out)
{
    ThreadBlock *saved = r->b.at;
    int covered = 0; // products in front of this operation belong to a point
    r->b.at = out;
    for (int i = 0; i < in->n; i++) {
        const ThreadOp *op = in->at[i];
        r->b.loc = op->loc;
        bool room = r->out->points.n < TRACE_MAX_POINTS - 3;
        const Seen *s = &seen[op->op];
        if (op->op == OP_EXIT) emit_end(r, op->guard);
        if (is_product(op) && i >= covered && room) covered = product_point(r, in, i);
        bool mine = s->where || s->registers;
        r->out->dropped += !room && (mine || is_product(op));
        if (thread_op[op->op].effect == EFF_CTRL && op->op != OP_EXIT) rewrite_region(r, op);
        else if (mine && room) rewrite_seen(r, op, s);
        else copy_op(r, op);
    }
    r->b.at = saved;
}

// index = warp + warps in lane 0 of the warps of the chosen CTA: record 0 of a warp is its last.
static void emit_start(Rewrite *r)
{
    ThreadBuilder *b = &r->b;
    int x = r->index, y = r->limit;
    static const SpecialReg axis[] = {SR_CTAID_Z, SR_NCTAID_Y, SR_CTAID_Y, SR_NCTAID_X, SR_CTAID_X};
    for (int i = 0; i < COUNT(axis); i++) { // ((z * ny) + y) * nx + x
        EMIT(b, OP_MOV, TT_B32, reg(i ? y : x), opd_sreg(axis[i]));
        if (i) op3(r, i % 2 ? OP_MUL : OP_ADD, TT_S32, x, reg(x), reg(y));
    }
    EMIT(b, OP_LDPARAM, TT_S32, reg(y), opd_param(r->param_cta));
    EMIT(b, OP_SETP, TT_S32, reg(r->on), reg(x), reg(y))->cmp = CMP_EQ;
    EMIT(b, OP_MOV, TT_B32, reg(y), opd_sreg(SR_LANE));
    EMIT(b, OP_SETP, TT_S32, reg(r->own), reg(y), opd_imm(0))->cmp = CMP_EQ;
    op3(r, OP_AND, TT_PRED, r->on, reg(r->on), reg(r->own));
    EMIT(b, OP_MOV, TT_B32, reg(y), opd_sreg(SR_TID));
    op3(r, OP_SHR, TT_U32, y, reg(y), opd_imm(5));
    op3(r, OP_ADD, TT_S32, y, reg(y), opd_imm(r->out->warps));
    EMIT(b, OP_SELP, TT_B32, reg(x), reg(y), opd_imm(BEYOND), reg(r->on));
    Making k = begin_point(r, NULL, TRACE_BEGIN);
    if (b->fn->smem_bytes) add_word(&k, opd_sreg(SR_SMEM), (Operand){0});
    read_clock(r);
    end_point(r, &k, (Operand){0});
}

// ---- copies of what changes ---------------------------------------------------------------------

#define COPY_VEC(a, to, from)                                                                      \
    do {                                                                                           \
        (to)->at = arena_alloc((a), sizeof *(from)->at * (size_t)(from)->n);                       \
        if ((from)->n) memcpy((to)->at, (from)->at, sizeof *(from)->at * (size_t)(from)->n);       \
        (to)->cap = (from)->n;                                                                     \
    } while (0)

// Declarations of the kernel without its body.
static ThreadFn *copy_kernel(Arena *a, const ThreadFn *fn)
{
    ThreadFn *to = ARENA_NEW(a, ThreadFn);
    *to = *fn;
    COPY_VEC(a, &to->params, &fn->params);
    COPY_VEC(a, &to->buffers, &fn->buffers);
    COPY_VEC(a, &to->regs, &fn->regs);
    to->body = (ThreadBlock){0};
    return to;
}

static Plan *copy_plan(Arena *a, const Plan *p)
{
    Plan *to = ARENA_NEW(a, Plan);
    *to = *p;
    COPY_VEC(a, &to->params, &p->params);
    COPY_VEC(a, &to->symbols, &p->symbols);
    COPY_VEC(a, &to->checks, &p->checks);
    COPY_VEC(a, &to->steps, &p->steps);
    for (int i = 0; i < p->steps.n; i++) {
        PlanStep *s = to->steps.at[i] = ARENA_NEW(a, PlanStep);
        *s = *p->steps.at[i];
        COPY_VEC(a, &s->args, &p->steps.at[i]->args);
        COPY_VEC(a, &s->tmaps, &p->steps.at[i]->tmaps);
    }
    return to;
}

// ---- the kernel and the plan --------------------------------------------------------------------

// The buffer, whose length is its own extent, and the CTA; all three for every step that launches
// the kernel, in the order of the kernel's new parameters.
static void extend_plan(const ThreadModule *m, TraceProgram *out)
{
    Arena *a = m->arena;
    ExprPool *e = m->exprs;
    Plan *p = out->plan;
    const Expr *records = expr_var(e, plan_free_name(p, e, "trace_records"));
    PlanParam buffer = {.name = "trace", .kind = PLAN_TENSOR, .type = DT_U32, .out = true,
                        .rank = 2, .dim = {records, expr_const(e, TRACE_WORDS)}, .align = 16};
    PlanParam cta = {.name = "trace_cta", .kind = PLAN_SCALAR, .type = DT_S32, .in = true,
                     .align = 4};
    out->buffer = plan_add_argument(a, e, p, buffer);
    PlanSymbol extent = {.name = records->name, .source = SYM_EXTENT, .param = out->buffer};
    vec_push(a, &p->symbols, extent);
    out->cta = plan_add_argument(a, e, p, cta);
    const Expr *room = expr_const(e, TRACE_MIN_RECORDS * out->warps), *end = expr_const(e, BEYOND);
    const Expr *fits = expr_bin(e, EX_LAND, expr_bin(e, EX_LE, room, records),
                                expr_bin(e, EX_LT, records, end));
    PlanCheck check = {.cond = fits, .text = "the buffer has room for each warp"};
    vec_push(a, &p->checks, check);
    const Expr *number = expr_var(e, p->params.at[out->cta].name);
    for (int i = 0; i < p->steps.n; i++) {
        PlanStep *s = p->steps.at[i];
        if (s->kind != STEP_KERNEL || strcmp(s->kernel, out->plain->name) != 0) continue;
        vec_push(a, &s->args, ((PlanArg){.kind = ARG_TENSOR, .index = out->buffer}));
        vec_push(a, &s->args, ((PlanArg){.kind = ARG_VALUE, .value = number}));
        vec_push(a, &s->args, ((PlanArg){.kind = ARG_VALUE, .value = records}));
    }
}

static void declare(Rewrite *r)
{
    ThreadBuilder *b = &r->b;
    ExprPool *e = b->mod->exprs;
    r->param_buffer = thread_add_param(b, "trace", PARAM_PTR);
    r->param_cta = thread_add_param(b, "trace_cta", PARAM_S32);
    r->param_limit = thread_add_param(b, "trace_records", PARAM_S32);
    const char *records = intern(expr_pool_names(e), b->fn->params.at[r->param_limit].name);
    ThreadBuffer buffer = {.name = "trace", .kind = BUF_GLOBAL, .type = DT_U32, .rank = 2,
                           .dim = {expr_var(e, records), expr_const(e, TRACE_WORDS)},
                           .param = r->param_buffer,
                           .stride = {expr_const(e, TRACE_WORDS), expr_const(e, 1)}};
    r->buffer = thread_add_buffer(b, buffer);
    r->index = thread_add_reg(b, "trace_index", RC_B32, 1);
    r->limit = thread_add_reg(b, "trace_limit", RC_B32, 1);
    r->pair = thread_add_reg(b, "trace_pair", RC_B32, TRACE_WORDS);
    r->address = thread_add_reg(b, "trace_address", RC_B64, 1);
    r->base = thread_add_reg(b, "trace_base", RC_B64, 1);
    r->on = thread_add_reg(b, "trace_on", RC_PRED, 1);
    r->own = thread_add_reg(b, "trace_own", RC_PRED, 1);
}

void trace_instrument(const ThreadModule *m, const Plan *p, const ThreadFn *fn, TraceProgram *out)
{
    Arena *a = m->arena;
    ThreadFn *made = copy_kernel(a, fn);
    ThreadModule *module = ARENA_NEW(a, ThreadModule);
    *module = *m;
    COPY_VEC(a, &module->fns, &m->fns);
    for (int i = 0; i < m->fns.n; i++)
        if (m->fns.at[i] == fn) module->fns.at[i] = made;
    *out = (TraceProgram){.thread = module, .plan = copy_plan(a, p), .plain = fn,
                          .warps = fn->threads / 32};
    Rewrite r = {.b = {.mod = module, .fn = made}, .out = out, .loop = -1, .branch = -1,
                 .step = plan_step_of(out->plan, fn->name)};
    thread_take_names(&r.b);
    declare(&r);
    ThreadBlock body = {0};
    r.b.at = &made->body;
    emit_start(&r);
    rewrite_block(&r, &fn->body, &body);
    for (int i = 0; i < body.n; i++) vec_push(a, &made->body, body.at[i]);
    r.b.at = &made->body;
    emit_end(&r, (Operand){0});
    extend_plan(m, out);
}
