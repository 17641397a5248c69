// operators.c - the ways to break a synchronising operation, as one table, and the edits behind it.
//
// An edit changes the copy of a kernel in place. Where an address or a parity is computed, the edit
// computes another one from it, and gives the coordinate beside it the same change, so that the
// checker of the thread IR has nothing to object: what is wrong is the order and nothing else.
#include "mutants.h"

#include <string.h>

// ---- copies -------------------------------------------------------------------------------------
static ThreadBlock copy_block(Arena *a, const ThreadBlock *from)
{
    ThreadBlock to = {ARENA_ARRAY(a, ThreadOp *, from->n), from->n, from->n};
    for (int i = 0; i < from->n; i++) {
        const ThreadOp *op = from->at[i];
        ThreadOp *c = to.at[i] = ARENA_NEW(a, ThreadOp);
        *c = *op;
        c->opnd = ARENA_ARRAY(a, Operand, op->nopnd);
        if (op->nopnd) memcpy(c->opnd, op->opnd, sizeof *c->opnd * (size_t)op->nopnd);
        c->mem = ARENA_ARRAY(a, MemRef, op->nmem);
        if (op->nmem) memcpy(c->mem, op->mem, sizeof *c->mem * (size_t)op->nmem);
        c->body = copy_block(a, &op->body);
        c->other = copy_block(a, &op->other);
    }
    return to;
}

static bool find_site(Edit *e, ThreadBlock *b, int *site)
{
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        if (!(*site)--) {
            e->op = op;
            e->block = b;
            e->at = i;
            return true;
        }
        ASSERT(e->depth < EDIT_DEPTH);
        e->around[e->depth].op = op;
        e->around[e->depth].block = b;
        e->around[e->depth++].at = i;
        if (find_site(e, &op->body, site) || find_site(e, &op->other, site)) return true;
        e->depth--;
    }
    return false;
}

bool edit_begin(Edit *e, Arena *a, const ThreadModule *m, const ThreadFn *fn, int site)
{
    *e = (Edit){.arena = a, .module = *m, .fn = ARENA_NEW(a, ThreadFn)};
    *e->fn = *fn;
    e->fn->body = copy_block(a, &fn->body);
    // Capacities as full: the first push moves a vector away from the original's.
    e->fn->regs.cap = fn->regs.n;
    e->module.arena = a;
    e->module.fns.at = ARENA_NEW(a, ThreadFn *);
    e->module.fns.at[0] = e->fn;
    e->module.fns.n = e->module.fns.cap = 1;
    return find_site(e, &e->fn->body, &site);
}

// ---- pieces of edits ----------------------------------------------------------------------------
static void insert_ops(Edit *e, int at, const ThreadBlock *ops)
{
    ThreadBlock *b = e->block;
    ThreadOp **all = ARENA_ARRAY(e->arena, ThreadOp *, b->n + ops->n);
    for (int i = 0; i < b->n + ops->n; i++)
        all[i] = i < at ? b->at[i] : i < at + ops->n ? ops->at[i - at] : b->at[i - ops->n];
    b->at = all;
    b->n = b->cap = b->n + ops->n;
    if (at <= e->at) e->at += ops->n;
}

// Moves the operation so that it stands at index `to` of its block.
static void move_op(ThreadBlock *b, int from, int to)
{
    ThreadOp *op = b->at[from];
    int step = to > from ? 1 : -1;
    for (int i = from; i != to; i += step) b->at[i] = b->at[i + step];
    b->at[to] = op;
}

// The builder for operations in front of the one at hand; `ops` gets them.
static ThreadBuilder builder(Edit *e, ThreadBlock *ops)
{
    ThreadBuilder b = {.mod = &e->module, .fn = e->fn, .at = ops, .loc = e->op->loc};
    b.taken[NAMES_REGS] = map_new(e->arena);
    for (int i = 0; i < e->fn->regs.n; i++)
        map_put(b.taken[NAMES_REGS], e->fn->regs.at[i].name, (void *)1);
    return b;
}

static Operand fresh(ThreadBuilder *b, RegClass c)
{
    return opd_reg(thread_add_reg(b, "mutant", c, 1), 0);
}

// `place` (bytes or 16 bytes from the start of the buffer) one slot further, and back to slot 0
// behind the last one.
static Operand next_place(ThreadBuilder *b, ThreadType t, Operand place, i64 slot, i64 all)
{
    RegClass c = thread_type_class[t];
    ThreadType bits = c == RC_B64 ? TT_B64 : TT_B32;
    Operand further = fresh(b, c), back = fresh(b, c), next = fresh(b, c), over = fresh(b, RC_PRED);
    EMIT(b, OP_ADD, t, further, place, opd_imm(slot));
    EMIT(b, OP_SUB, t, back, further, opd_imm(all));
    EMIT(b, OP_SETP, t, over, further, opd_imm(all))->cmp = CMP_GE;
    EMIT(b, OP_SELP, bits, next, back, further, over);
    return next;
}

static Operand buffer_start(ThreadBuilder *b, const ThreadBuffer *buf)
{
    Operand smem = fresh(b, RC_B32), start = fresh(b, RC_B32);
    EMIT(b, OP_MOV, TT_U32, smem, opd_sreg(SR_SMEM));
    EMIT(b, OP_ADD, TT_U32, start, smem, opd_imm(buf->offset));
    return start;
}

// The address at opnd[0], [1] becomes the same place of the next slot.
static void next_address(ThreadBuilder *b, const ThreadBuffer *buf, Operand *opnd, i64 slot, i64 all)
{
    Operand start = buffer_start(b, buf), full = fresh(b, RC_B32), place = fresh(b, RC_B32),
            moved = fresh(b, RC_B32);
    EMIT(b, OP_ADD, TT_U32, full, opnd[0], opnd[1]);
    EMIT(b, OP_SUB, TT_U32, place, full, start);
    Operand next = next_place(b, TT_U32, place, slot, all);
    EMIT(b, OP_ADD, TT_U32, moved, start, next);
    opnd[0] = moved;
    opnd[1] = opd_imm(0);
}

// The descriptor's address, in units of 16 bytes in its low 14 bits, likewise.
static void next_descriptor(ThreadBuilder *b, const ThreadBuffer *buf, Operand *opnd, i64 slot, i64 all)
{
    Operand start = buffer_start(b, buf), units = fresh(b, RC_B32), wide = fresh(b, RC_B64),
            low = fresh(b, RC_B64), rest = fresh(b, RC_B64), place = fresh(b, RC_B64),
            there = fresh(b, RC_B64), made = fresh(b, RC_B64);
    EMIT(b, OP_SHR, TT_U32, units, start, opd_imm(4));
    EMIT(b, OP_CVT, TT_U64, wide, units)->type2 = TT_U32;
    EMIT(b, OP_AND, TT_B64, low, *opnd, opd_imm(0x3fff));
    EMIT(b, OP_SUB, TT_U64, rest, *opnd, low);
    EMIT(b, OP_SUB, TT_U64, place, low, wide);
    Operand next = next_place(b, TT_U64, place, slot / 16, all / 16);
    EMIT(b, OP_ADD, TT_U64, there, next, wide);
    EMIT(b, OP_ADD, TT_U64, made, rest, there);
    *opnd = made;
}

// ---- moves --------------------------------------------------------------------------------------
// The operation is all that an `if` does: then the `if` is what moves.
static void take_whole_if(Edit *e)
{
    if (!e->depth) return;
    ThreadOp *region = e->around[e->depth - 1].op;
    if (region->op != OP_IF || region->other.n || flow_does(region) != flow_does(e->op)) return;
    e->depth--;
    e->op = region;
    e->block = e->around[e->depth].block;
    e->at = e->around[e->depth].at;
}

static u8 *register_set(Edit *e) { return arena_alloc(e->arena, (size_t)e->fn->regs.n + 1); }

static bool meet(const Edit *e, const u8 *a, const u8 *b)
{
    for (int i = 0; i < e->fn->regs.n; i++)
        if (a[i] && b[i]) return true;
    return false;
}

// One of `kinds`, or, where `registers` is given, something that touches one of them.
static bool stops(Edit *e, const ThreadOp *op, u32 kinds, const u8 *registers)
{
    if (flow_does(op) & kinds) return true;
    if (!registers) return false;
    Registers r = {register_set(e), register_set(e)};
    flow_registers(op, &r);
    return meet(e, r.reads, registers) || meet(e, r.writes, registers);
}

// Behind the next operation of these kinds in the same block.
static bool move_behind(Edit *e, u32 kinds, const u8 *registers)
{
    Registers own = {register_set(e), register_set(e)}, crossed = {NULL, register_set(e)};
    flow_registers(e->op, &own);
    for (int i = e->at + 1; i < e->block->n; i++) {
        flow_registers(e->block->at[i], &crossed);
        if (meet(e, own.reads, crossed.writes)) return false; // it would mean something else there
        if (!stops(e, e->block->at[i], kinds, registers)) continue;
        move_op(e->block, e->at, i);
        return true;
    }
    return false;
}

// In front of the nearest operation of these kinds, together with the arithmetic that it needs.
static bool move_before(Edit *e, u32 kinds, const u8 *registers)
{
    ThreadBlock *b = e->block;
    Registers need = {register_set(e), register_set(e)}, crossed = {register_set(e), register_set(e)};
    ThreadBlock with = {0}, without = {0};
    flow_registers(e->op, &need);
    int i = e->at - 1;
    for (; i >= 0; i--) {
        Registers r = {register_set(e), register_set(e)};
        flow_registers(b->at[i], &r);
        bool needed = meet(e, r.writes, need.reads);
        if (needed && (thread_op[b->at[i]->op].effect != EFF_PURE || b->at[i]->body.n)) return false;
        if (needed) {
            // Moves along, in front of all that was passed: that must not notice.
            if (meet(e, r.writes, crossed.reads) || meet(e, r.writes, crossed.writes)) return false;
            flow_registers(b->at[i], &need);
            vec_push(e->arena, &with, b->at[i]);
            continue;
        }
        flow_registers(b->at[i], &crossed);
        vec_push(e->arena, &without, b->at[i]);
        if (stops(e, b->at[i], kinds, registers)) break;
    }
    if (i < 0) return false;
    for (int k = with.n - 1; k >= 0; k--) b->at[i++] = with.at[k];
    b->at[i++] = e->op;
    for (int k = without.n - 1; k >= 0; k--) b->at[i++] = without.at[k];
    return true;
}

bool edit_move_before_product(Edit *e)
{
    bool any = false;
    for (int i = 0; i < e->at; i++)
        any |= e->block->at[i]->op == OP_WGMMA_SS || e->block->at[i]->op == OP_WGMMA_RS;
    if (!any || !move_before(e, DOES_ASYNC, NULL)) return false;
    for (int i = 0; i < e->block->n; i++)
        if (e->block->at[i] == e->op) e->at = i;
    return true;
}

// ---- the operators ------------------------------------------------------------------------------
static bool removed(Edit *e, int mem)
{
    (void)mem;
    move_op(e->block, e->at, e->block->n - 1);
    e->block->n--;
    return true;
}

static const u8 *of_products(Edit *e)
{
    u8 *set = register_set(e);
    if (e->op->op != OP_WGMMA_FENCE && e->op->op != OP_WGMMA_WAIT) return NULL;
    flow_product_registers(&e->fn->body, set);
    return set;
}

static bool early_release(Edit *e, int mem)
{
    (void)mem;
    take_whole_if(e);
    return move_before(e, DOES_READ | DOES_WAIT | DOES_ASYNC, NULL);
}

static bool early_fence(Edit *e, int mem)
{
    (void)mem;
    const u8 *products = of_products(e);
    u32 kinds = e->op->op == OP_FENCE_MBAR_INIT ? DOES_INIT : products ? 0 : DOES_ACCESS;
    return move_before(e, kinds, products);
}

static bool late_fence(Edit *e, int mem)
{
    (void)mem;
    return move_behind(e, DOES_ARRIVE | DOES_BARRIER | DOES_ASYNC, NULL);
}

static bool late_wait(Edit *e, int mem)
{
    (void)mem;
    const u8 *products = of_products(e);
    take_whole_if(e);
    return move_behind(e, DOES_ACCESS, products);
}

static bool early_barrier(Edit *e, int mem)
{
    (void)mem;
    return move_before(e, DOES_ACCESS | DOES_WAIT | DOES_FENCE | DOES_INIT, NULL);
}

static bool late_barrier(Edit *e, int mem)
{
    (void)mem;
    return move_behind(e, DOES_ACCESS | DOES_ARRIVE, NULL);
}

static bool late_release(Edit *e, int mem)
{
    (void)mem;
    take_whole_if(e);
    return move_behind(e, DOES_WAIT | DOES_ASYNC, NULL);
}

static bool has_op(const ThreadOp *op, u8 code)
{
    bool has = op->op == code;
    for (int i = 0; i < op->body.n; i++) has |= has_op(op->body.at[i], code);
    for (int i = 0; i < op->other.n; i++) has |= has_op(op->other.at[i], code);
    return has;
}

static bool early_commit(Edit *e, int mem)
{
    (void)mem;
    return move_before(e, DOES_ASYNC, NULL);
}

// Behind the next operation that a group of this kind begins or ends with.
static bool late_commit(Edit *e, int mem)
{
    static const u8 family[][4] = {
        {OP_WGMMA_COMMIT, OP_WGMMA_SS, OP_WGMMA_RS, OP_WGMMA_WAIT},
        {OP_BULK_COMMIT, OP_TMA_STORE, OP_BULK_WAIT, OP_BULK_WAIT_READ},
        {OP_CPASYNC_COMMIT, OP_CPASYNC, OP_CPASYNC_WAIT, OP_CPASYNC_WAIT},
    };
    (void)mem;
    for (int i = e->at + 1; i < e->block->n; i++)
        for (int k = 0; k < COUNT(family); k++)
            for (int m = 1; m < 4; m++)
                if (family[k][0] == e->op->op && has_op(e->block->at[i], family[k][m])) {
                    move_op(e->block, e->at, i);
                    return true;
                }
    return false;
}

// An operand that must be a constant.
static bool add_to(Edit *e, char letter, int k, i64 by)
{
    int at, mem;
    if (!flow_operand(e->op, letter, k, &at, &mem) || e->op->opnd[at].kind != OPD_IMM) return false;
    e->op->opnd[at].base += by;
    return e->op->opnd[at].base >= 0;
}

static bool is_named(const ThreadOp *op) { return op->op == OP_BAR_SYNC || op->op == OP_BAR_ARRIVE; }
static bool count_more(Edit *e, int mem) { (void)mem; return add_to(e, 'x', 0, 1); }
static bool count_less(Edit *e, int mem) { (void)mem; return add_to(e, 'x', 0, -1); }
static bool bytes_more(Edit *e, int mem) { (void)mem; return add_to(e, 'x', 0, 16); }
static bool bytes_less(Edit *e, int mem) { (void)mem; return add_to(e, 'x', 0, -16); }
static bool threads_more(Edit *e, int mem) { (void)mem; return is_named(e->op) && add_to(e, 'x', 1, 32); }
static bool threads_less(Edit *e, int mem) { (void)mem; return is_named(e->op) && add_to(e, 'x', 1, -32); }

static bool no_expect(Edit *e, int mem)
{
    (void)mem;
    if (e->op->op != OP_MBAR_ARRIVE_EXPECT) return false;
    e->op->op = OP_MBAR_ARRIVE;
    e->op->nopnd = 2; // without the bytes
    return true;
}

static bool arrives_twice(Edit *e, int mem)
{
    (void)mem;
    ThreadBlock again = {0};
    vec_push(e->arena, &again, e->op);
    insert_ops(e, e->at, &again);
    return true;
}

static bool all_lanes(Edit *e, int mem)
{
    (void)mem;
    if (e->op->guard.kind == OPD_NONE) return false;
    e->op->guard = (Operand){0};
    return true;
}

// The barrier in the same slot of the next array of barriers.
static bool other_barrier(Edit *e, int mem)
{
    int at;
    (void)mem;
    if (!flow_operand(e->op, 'B', 0, &at, &mem)) return false;
    MemRef *ref = &e->op->mem[mem];
    const ThreadBuffer *own = &e->fn->buffers.at[ref->buffer];
    for (int k = 1; k < e->fn->buffers.n; k++) {
        int other = (ref->buffer + k) % e->fn->buffers.n;
        const ThreadBuffer *b = &e->fn->buffers.at[other];
        if (b->kind != BUF_MBAR || b->rank != own->rank) continue;
        e->op->opnd[at + 1].base += b->offset - own->offset;
        ref->buffer = other;
        return true;
    }
    return false;
}

// The next slot of the array that memory reference `mem` names, of a ring of tiles or of barriers.
static bool other_slot(Edit *e, int mem)
{
    MemRef *ref = &e->op->mem[mem];
    const ThreadBuffer *b = &e->fn->buffers.at[ref->buffer];
    ExprPool *p = e->module.exprs;
    i64 slots;
    int at, m;
    // A tile with slots has two dimensions more than that one.
    if (b->kind == BUF_GLOBAL || b->rank != (b->kind == BUF_MBAR ? 1 : 3)) return false;
    if (!expr_is_const(b->dim[0], &slots) || slots < 2) return false;
    char letter = 0;
    int k = 0;
    for (const char *c = "SBL"; *c && !letter; c++)
        for (k = 0; flow_operand(e->op, *c, k, &at, &m); k++)
            if (m == mem) {
                letter = *c;
                break;
            }
    if (!letter) return false;
    ThreadBlock ops = {0};
    ThreadBuilder make = builder(e, &ops);
    i64 all = thread_buffer_bytes(b);
    if (letter == 'L') next_descriptor(&make, b, &e->op->opnd[at], all / slots, all);
    else next_address(&make, b, &e->op->opnd[at], all / slots, all);
    ref->coord[0] = expr_bin(p, EX_MOD, expr_add(p, ref->coord[0], expr_const(p, 1)), b->dim[0]);
    insert_ops(e, e->at, &ops);
    return true;
}

static bool other_parity(Edit *e, int mem)
{
    (void)mem;
    int at;
    if (e->op->op != OP_MBAR_WAIT || !flow_operand(e->op, 'x', 0, &at, &mem)) return false;
    Operand *parity = &e->op->opnd[at];
    if (parity->kind == OPD_IMM) {
        parity->base ^= 1;
        return true;
    }
    ThreadBlock ops = {0};
    ThreadBuilder b = builder(e, &ops);
    Operand flipped = fresh(&b, RC_B32);
    EMIT(&b, OP_XOR, TT_B32, flipped, *parity, opd_imm(1));
    *parity = flipped;
    insert_ops(e, e->at, &ops);
    return true;
}

static bool lax_wait(Edit *e, int mem)
{
    (void)mem;
    e->op->n++;
    return e->op->op != OP_MBAR_WAIT;
}

static bool read_wait(Edit *e, int mem)
{
    (void)mem;
    if (e->op->op != OP_BULK_WAIT) return false;
    e->op->op = OP_BULK_WAIT_READ;
    return true;
}

static bool registers_more(Edit *e, int mem) { (void)mem; e->op->n += 8; return true; }
static bool registers_less(Edit *e, int mem) { (void)mem; e->op->n -= 8; return true; }

static bool next_id(Edit *e, int mem)
{
    (void)mem;
    Operand *id = &e->op->opnd[0];
    if (!is_named(e->op)) return false;
    if (id->kind == OPD_IMM) {
        id->base = (id->base + 1) % 16;
        return true;
    }
    ThreadBlock ops = {0};
    ThreadBuilder b = builder(e, &ops);
    Operand next = fresh(&b, RC_B32);
    EMIT(&b, OP_ADD, TT_S32, next, *id, opd_imm(1));
    *id = next;
    insert_ops(e, e->at, &ops);
    return true;
}

static bool one_id(Edit *e, int mem)
{
    (void)mem;
    if (!is_named(e->op) || e->op->opnd[0].kind == OPD_IMM) return false;
    e->op->opnd[0] = opd_imm(1);
    return true;
}

static bool other_block(Edit *e, int mem)
{
    int at;
    if (e->op->op != OP_MBAR_ARRIVE_CLUSTER || !flow_operand(e->op, 'x', 0, &at, &mem)) return false;
    if (e->op->opnd[at].kind == OPD_IMM) {
        e->op->opnd[at].base = (e->op->opnd[at].base + 1) % e->fn->cluster;
        return true;
    }
    e->op->opnd[at] = opd_imm(0);
    return true;
}

static bool unpublished(Edit *e, int mem)
{
    (void)mem;
    if (e->op->op != OP_MBAR_ARRIVE_CLUSTER || !(e->op->flags & OPF_RELEASE)) return false;
    e->op->flags &= (u16)~OPF_RELEASE;
    return true;
}

#define ORDERING (DOES_FENCE | DOES_BARRIER | DOES_WAIT | DOES_ARRIVE | DOES_COMMIT | DOES_INIT | \
                  DOES_REGISTERS | DOES_EXPECT)
const Operator operator_table[] = {
    {"removed", ORDERING, removed, false, "left out"},
    {"early fence", DOES_FENCE, early_fence, false,
     "in front of the last access before it (wgmma.fence: the last use of the registers)"},
    {"late fence", DOES_FENCE, late_fence, false,
     "behind the next arrival, barrier, copy or product"},
    {"early barrier", DOES_BARRIER, early_barrier, false,
     "in front of the last access, wait or fence before it"},
    {"late barrier", DOES_BARRIER, late_barrier, false, "behind the next access or arrival"},
    {"late wait", DOES_WAIT, late_wait, false, "behind the first access or use of registers after it"},
    {"early release", DOES_ARRIVE, early_release, false,
     "in front of the last read, wait, copy or product before it"},
    {"late release", DOES_ARRIVE, late_release, false, "behind the next wait, copy or product"},
    {"early commit", DOES_COMMIT, early_commit, false, "in front of the last copy or product"},
    {"late commit", DOES_COMMIT, late_commit, false, "behind the next copy, product or wait of its kind"},
    {"count + 1", DOES_INIT, count_more, false, "of an mbarrier's arrivals"},
    {"count - 1", DOES_INIT, count_less, false, "of an mbarrier's arrivals"},
    {"threads + 32", DOES_BARRIER, threads_more, false, "of a named barrier"},
    {"threads - 32", DOES_BARRIER, threads_less, false, "of a named barrier"},
    {"bytes + 16", DOES_EXPECT, bytes_more, false, "that a phase expects"},
    {"bytes - 16", DOES_EXPECT, bytes_less, false, "that a phase expects"},
    {"no expect", DOES_EXPECT, no_expect, false, "an arrival that expects no bytes"},
    {"arrives twice", DOES_ARRIVE, arrives_twice, false, "the arrival, once more"},
    {"all lanes arrive", DOES_ARRIVE, all_lanes, false, "the arrival without its guard"},
    {"other barrier", 0, other_barrier, false, "the same slot of the next array of mbarriers"},
    {"other slot", 0, other_slot, true, "the next slot of the same ring, of tiles or of mbarriers"},
    {"other parity", DOES_WAIT, other_parity, false, "of a wait"},
    {"lax wait", DOES_WAIT, lax_wait, false, "one more group may be pending"},
    {"read wait", DOES_WAIT, read_wait, false, "bulk.wait.read in the place of bulk.wait"},
    {"registers + 8", DOES_REGISTERS, registers_more, false, "of setmaxnreg"},
    {"registers - 8", DOES_REGISTERS, registers_less, false, "of setmaxnreg"},
    {"next id", DOES_BARRIER, next_id, false, "of a named barrier"},
    {"one id", DOES_BARRIER, one_id, false, "1, where each group has its own"},
    {"other block", 0, other_block, false,
     "an arrival at another block's mbarrier, or of all lanes at the first one's"},
    {"unpublished", 0, unpublished, false, "an arrival at another block without .release"},
};
const int operator_count = COUNT(operator_table);
