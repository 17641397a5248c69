// harmless.c - why a mutant that nothing objects to is as right as the kernel. Each reason is a
// row: a sentence, and the question to the program that must be answered with yes. A mutant gets
// here only when every tier was silent and gave the right bits, under many schedules; where a
// reason leans on one of them more than that, it says so.
//
// The questions are about the structure of the program, or about a second mutant that is worse than
// the first one, so that they do not take the tiers' word for what they missed.
#include "mutants.h"

#include <string.h>

typedef struct {
    Trial *t;
    Edit *after, *before;    // the mutant, and the kernel as it is, at the same operation
    const Operator *o;
    const ThreadFn *fn;      // of the question under way
    const u8 *registers;
    const ThreadOp *self;
    bool only_inits;
} Question;

static bool is(const Question *q, const char *name) { return !strcmp(q->o->name, name); }

static bool moved_or_removed(const Question *q)
{
    return is(q, "removed") || !strncmp(q->o->name, "early ", 6) ||
           !strncmp(q->o->name, "late ", 5);
}

static bool never(void *ctx, const ThreadOp *op) { (void)ctx; (void)op; return false; }

// The same answer for each warp.
static bool all_warps(Question *q, const ThreadFn *fn, const ThreadOp *from, bool backwards,
                      FlowTest *ends, FlowTest *breaks, bool at_end)
{
    q->fn = fn;
    for (int w = 0; w < fn->threads / 32; w++) {
        Flow f;
        flow_graph(q->t->arena, fn, w, &f);
        if (!flow_always(&f, from, backwards, ends, breaks, q, at_end)) return false;
    }
    return true;
}

static bool is_global(const ThreadOp *op)
{
    return op->op == OP_LDG || op->op == OP_STG || op->op == OP_ATOMG || op->op == OP_CASG;
}

static bool is_product(const ThreadOp *op)
{
    return op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
}

static bool names_barrier(const ThreadOp *op)
{
    int at, mem;
    return flow_operand(op, 'B', 0, &at, &mem);
}

// ---- bytes --------------------------------------------------------------------------------------
typedef struct { i64 from, to; bool writes, async; } Bytes;
typedef VEC(Bytes) BytesVec;

// Whole buffers of shared memory that the operations access.
static void bytes_of(Arena *a, const ThreadFn *fn, const ThreadBlock *b, BytesVec *out)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        u32 does = flow_does(op);
        bytes_of(a, fn, &op->body, out);
        bytes_of(a, fn, &op->other, out);
        for (int k = 0; k < op->nmem; k++) {
            const ThreadBuffer *buf = &fn->buffers.at[op->mem[k].buffer];
            if (buf->kind != BUF_SHARED || !(does & DOES_ACCESS)) continue;
            bool writes = does & DOES_WRITE || op->op == OP_TMA_LOAD || op->op == OP_CPASYNC;
            vec_push(a, out, ((Bytes){buf->offset, buf->offset + thread_buffer_bytes(buf), writes,
                                      does & DOES_ASYNC && op->op != OP_CPASYNC}));
        }
    }
}

static bool overlap(const Bytes *x, const Bytes *y) { return x->from < y->to && y->from < x->to; }

static bool touches_async(void *ctx, const ThreadOp *op)
{
    Question *q = ctx;
    BytesVec own = {0}, all = {0};
    ThreadOp *one = (ThreadOp *)(uintptr_t)op;
    if (!(flow_does(op) & (DOES_READ | DOES_WRITE)) && op->op != OP_CPASYNC) return false;
    bytes_of(q->t->arena, q->fn, &(ThreadBlock){&one, 1, 1}, &own);
    bytes_of(q->t->arena, q->fn, &q->fn->body, &all);
    for (int i = 0; i < own.n; i++)
        for (int k = 0; k < all.n; k++)
            if (all.at[k].async && overlap(&own.at[i], &all.at[k])) return true;
    return false;
}

static bool is_proxy_fence(void *ctx, const ThreadOp *op)
{
    (void)ctx;
    return op->op == OP_FENCE_PROXY;
}

static bool is_idle(Question *q, const ThreadFn *fn, const ThreadOp *fence)
{
    return fence->op == OP_FENCE_PROXY &&
           all_warps(q, fn, fence, true, is_proxy_fence, touches_async, true);
}

static bool nothing_to_fence(Question *q)
{
    return moved_or_removed(q) && is_idle(q, q->before->fn, q->before->op);
}

// ---- bar.warp -----------------------------------------------------------------------------------
static bool collective(void *ctx, const ThreadOp *op)
{
    (void)ctx;
    switch (op->op) {
    case OP_WGMMA_FENCE: case OP_WGMMA_SS: case OP_WGMMA_RS: case OP_WGMMA_COMMIT:
    case OP_WGMMA_WAIT:
    case OP_BAR_SYNC: case OP_BAR_CLUSTER: case OP_BAR_WARP: case OP_SETMAXNREG_INC:
    case OP_SETMAXNREG_DEC: return true;
    default: return false;
    }
}

// How many operations write the register.
static int writers(const ThreadBlock *b, int reg)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const char *sig = thread_op[op->op].sig;
        bool region = *sig == '*' || op->op == OP_IF;
        if (op->op == OP_FOR || !region)
            for (int k = 0; k < op->nopnd && k < 2; k++)
                n += (op->op == OP_FOR ? k == 0 : sig[0] && sig[k] && strchr("dPFR", sig[k])) &&
                     op->opnd[k].kind == OPD_REG && op->opnd[k].reg == reg;
        n += writers(&op->body, reg) + writers(&op->other, reg);
    }
    return n;
}

// The guard of the arrival that the bar.warp stands in front of; -1: none.
static int elected(const Edit *e)
{
    for (int i = e->at + 1; i < e->block->n; i++) {
        const ThreadOp *op = e->block->at[i];
        if (flow_does(op) & DOES_ARRIVE)
            return op->guard.kind == OPD_REG && writers(&e->fn->body, op->guard.reg) == 1
                       ? op->guard.reg : -1;
        if (thread_op[op->op].effect != EFF_PURE) return -1;
    }
    return -1;
}

// Does any operation write the array of global memory?
static bool is_written(const ThreadBlock *b, int buffer)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        for (int k = 0; k < op->nmem; k++)
            if (op->op != OP_LDG && op->mem[k].buffer == buffer) return true;
        if (is_written(&op->body, buffer) || is_written(&op->other, buffer)) return true;
    }
    return false;
}

// An arrival of the lane that arrives behind is nothing that other lanes have done; nor is a read
// of what nobody writes.
static bool lane_by_lane(void *ctx, const ThreadOp *op)
{
    Question *q = ctx;
    if (op->op == OP_FENCE_PROXY) return !is_idle(q, q->fn, op);
    if (op->op == OP_MBAR_ARRIVE && op->guard.kind == OPD_REG &&
        op->guard.reg == elected(q->before))
        return false;
    if (op->op == OP_LDG && op->nmem) return is_written(&q->fn->body, op->mem[0].buffer);
    return is_global(op) || flow_does(op);
}

static bool warp_is_together(Question *q)
{
    return q->before->op->op == OP_BAR_WARP && moved_or_removed(q) &&
           all_warps(q, q->before->fn, q->before->op, true, collective, lane_by_lane, true);
}

// What loads behind a wait for the mbarrier fill.
static void filled_behind(const ThreadBlock *b, int barrier, int *waited, bool *filled)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_ROLE) *waited = -1;
        if (op->op == OP_MBAR_WAIT) *waited = op->mem[0].buffer;
        if (op->op == OP_TMA_LOAD && *waited == barrier) filled[op->mem[0].buffer] = true;
        filled_behind(&op->body, barrier, waited, filled);
        filled_behind(&op->other, barrier, waited, filled);
    }
}

static bool is_ordinary(const ThreadOp *op)
{
    return op->op == OP_LDS || op->op == OP_STS || op->op == OP_LDMATRIX ||
           op->op == OP_STMATRIX || op->op == OP_ATOMS || op->op == OP_CASS || op->op == OP_CPASYNC;
}

static bool has_ordinary(const ThreadFn *fn, const ThreadBlock *b, const bool *filled)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        for (int k = 0; k < fn->buffers.n && is_ordinary(op); k++) {
            const ThreadBuffer *x = &fn->buffers.at[op->mem[0].buffer], *y = &fn->buffers.at[k];
            if ((!filled || filled[k]) && y->kind == BUF_SHARED &&
                x->offset < y->offset + thread_buffer_bytes(y) &&
                y->offset < x->offset + thread_buffer_bytes(x))
                return true;
        }
        if (has_ordinary(fn, &op->body, filled) || has_ordinary(fn, &op->other, filled)) return true;
    }
    return false;
}

static bool waits_for(const ThreadBlock *b, int barrier)
{
    for (int i = 0; i < b->n; i++)
        if ((b->at[i]->op == OP_MBAR_WAIT && b->at[i]->mem[0].buffer == barrier) ||
            waits_for(&b->at[i]->body, barrier) || waits_for(&b->at[i]->other, barrier))
            return true;
    return false;
}

static bool has_role(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i]->op == OP_ROLE || has_role(&b->at[i]->body)) return true;
    return false;
}

// Roles that wait for the mbarrier make no ordinary accesses to shared memory.
static bool waiters_only_copy(const ThreadFn *fn, const ThreadBlock *b, int barrier)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool inner = op->op == OP_ROLE && !has_role(&op->body);
        if (inner && waits_for(&op->body, barrier) && has_ordinary(fn, &op->body, NULL)) return false;
        if (!inner && op->op == OP_MBAR_WAIT && op->mem[0].buffer == barrier) return false;
        if (!inner && !waiters_only_copy(fn, &op->body, barrier)) return false;
    }
    return true;
}

// Does anything in the list concern other threads, or the other proxy?
static bool is_seen(const ThreadFn *fn, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        u8 effect = thread_op[op->op].effect;
        bool global = op->op == OP_LDG || op->op == OP_STG;
        if (effect != EFF_PURE && effect != EFF_CTRL && !global) return true;
        if (is_seen(fn, &op->body) || is_seen(fn, &op->other)) return true;
    }
    return false;
}

// Behind the arrival comes another operation of the kind before anything that others see.
static bool comes_again(const Edit *e, int arrival)
{
    const ThreadBlock *b = e->block;
    int at = arrival + 1, depth = e->depth;
    for (;;) {
        for (; at < b->n; at++) {
            ThreadOp *op = b->at[at];
            ThreadBlock one = {&op, 1, 1};
            if (op->op == e->op->op && op->guard.kind == OPD_NONE) return true;
            // A fence is of each thread alone.
            if (op->op != OP_FENCE_PROXY && is_seen(e->fn, &one)) return false;
        }
        if (!depth-- || e->around[depth].op->op != OP_IF) return false;
        b = e->around[depth].block;
        at = e->around[depth].at + 1;
    }
}

// The arrival next to the operation hands back what only products read, to a role that only copies.
static bool products_are_handed_back(Question *q)
{
    const Edit *e = q->before;
    int arrival = e->at + 1, waited = -1;
    bool kind = e->op->op == OP_BAR_WARP || e->op->op == OP_FENCE_PROXY;
    if (!kind || !moved_or_removed(q)) return false;
    while (arrival < e->block->n && !(flow_does(e->block->at[arrival]) & DOES_ARRIVE)) {
        const ThreadOp *op = e->block->at[arrival++];
        if (thread_op[op->op].effect != EFF_PURE && op->op != OP_BAR_WARP) return false;
    }
    if (arrival == e->block->n || e->block->at[arrival]->op != OP_MBAR_ARRIVE) return false;
    int barrier = e->block->at[arrival]->mem[0].buffer;
    bool *filled = ARENA_ARRAY(q->t->arena, bool, e->fn->buffers.n + 1);
    filled_behind(&e->fn->body, barrier, &waited, filled);
    return !has_ordinary(e->fn, &e->fn->body, filled) &&
           waiters_only_copy(e->fn, &e->fn->body, barrier) && comes_again(e, arrival);
}

// ---- bar.sync and the initialisation ------------------------------------------------------------
static bool whole_block(const ThreadFn *fn, const ThreadOp *op)
{
    return op->op == OP_BAR_SYNC && op->opnd[0].kind == OPD_IMM && op->opnd[1].kind == OPD_IMM &&
           op->opnd[1].base == fn->threads && op->guard.kind == OPD_NONE;
}

static bool other_whole(void *ctx, const ThreadOp *op)
{
    const Question *q = ctx;
    return op != q->self && whole_block(q->fn, op);
}

static bool access_or_global(void *ctx, const ThreadOp *op)
{
    (void)ctx;
    return is_global(op) || flow_does(op) & DOES_ACCESS || op->op == OP_BAR_CLUSTER;
}

static bool needs_order(void *ctx, const ThreadOp *op)
{
    const Question *q = ctx;
    return q->only_inits ? names_barrier(op) : access_or_global(ctx, op) || flow_does(op);
}

static bool barrier_follows(Question *q)
{
    u8 op = q->before->op->op;
    if (!moved_or_removed(q) || (op != OP_BAR_SYNC && op != OP_FENCE_MBAR_INIT)) return false;
    if (op == OP_BAR_SYNC && !whole_block(q->before->fn, q->before->op)) return false;
    if (op == OP_FENCE_MBAR_INIT && is(q, "removed")) return false;
    // A fence must stand in front of a barrier where it is now; a barrier is not counted at all.
    const Edit *e = op == OP_BAR_SYNC ? q->before : q->after;
    q->self = e->op;
    q->only_inits = all_warps(q, e->fn, e->op, true, never, access_or_global, true);
    if (op == OP_FENCE_MBAR_INIT && !q->only_inits) return false;
    return all_warps(q, e->fn, e->op, false, other_whole, needs_order, true);
}

// Between its place and the new one the barrier passed only what the initialising thread does.
static bool only_the_initialiser(Question *q)
{
    const Edit *e = q->before;
    int guard = -1;
    if (!is(q, "late barrier") || !whole_block(e->fn, e->op)) return false;
    for (int i = 0; i < e->at; i++) {
        const ThreadOp *op = e->block->at[i];
        if (op->op == OP_MBAR_INIT) {
            if (op->guard.kind != OPD_REG || op->guard.negate ||
                (guard >= 0 && guard != op->guard.reg))
                return false;
            guard = op->guard.reg;
        }
    }
    if (guard < 0 || writers(&e->fn->body, guard) != 1) return false;
    // In the mutant the barrier stands behind what it passed.
    const ThreadBlock *b = q->after->block;
    for (int i = e->at; i < b->n && b->at[i] != q->after->op; i++) {
        const ThreadOp *op = b->at[i];
        if (thread_op[op->op].effect == EFF_PURE) continue;
        bool own = op->op == OP_IF && op->opnd[0].kind == OPD_REG && op->opnd[0].reg == guard &&
                   !op->opnd[0].negate && !op->other.n;
        for (int k = 0; own && k < op->body.n; k++) {
            const ThreadOp *in = op->body.at[k];
            own = thread_op[in->op].effect == EFF_PURE || in->op == OP_TMA_LOAD ||
                  in->op == OP_MBAR_ARRIVE_EXPECT;
        }
        if (!own) return false;
    }
    return true;
}

// No fence that could matter, nothing of global memory.
static bool is_passable(Question *q, const ThreadOp *op)
{
    bool yes = !is_global(op) && op->op != OP_FENCE_MBAR_INIT && op->op != OP_MBAR_INIT &&
               (op->op != OP_FENCE_PROXY || is_idle(q, q->after->fn, op));
    for (int i = 0; i < op->body.n; i++) yes = yes && is_passable(q, op->body.at[i]);
    for (int i = 0; i < op->other.n; i++) yes = yes && is_passable(q, op->other.at[i]);
    return yes;
}

// The barrier went up past operations of the same threads that share no bytes with what these
// threads do, where one of the two writes.
static bool passed_nothing_that_it_orders(Question *q)
{
    const Edit *e = q->before;
    BytesVec passed = {0}, role = {0};
    const ThreadBlock *scope = &e->fn->body;
    if (!is(q, "early barrier") || e->op->op != OP_BAR_SYNC) return false;
    for (int i = 0; i < e->depth; i++)
        if (e->around[i].op->op == OP_ROLE) scope = &e->around[i].op->body;
    int from = 0;
    while (q->after->block->at[from] != q->after->op) from++;
    for (int i = from + 1; i <= e->at; i++) {
        ThreadOp *op = q->after->block->at[i];
        if (!is_passable(q, op)) return false;
        bytes_of(q->t->arena, e->fn, &(ThreadBlock){&op, 1, 1}, &passed);
    }
    bytes_of(q->t->arena, e->fn, scope, &role);
    for (int i = 0; i < passed.n; i++)
        for (int k = 0; k < role.n; k++)
            if (overlap(&passed.at[i], &role.at[k]) && (passed.at[i].writes || role.at[k].writes))
                return false;
    return true;
}

// ---- numbers of barriers, registers, groups -----------------------------------------------------
static bool alone_under_number(const Question *q, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_BAR_ARRIVE) return false;
        if (op->op == OP_BAR_SYNC && op != q->after->op && !whole_block(q->after->fn, op) &&
            !whole_block(q->after->fn, q->after->op))
            return false;
        if (!alone_under_number(q, &op->body) || !alone_under_number(q, &op->other)) return false;
    }
    return true;
}

static bool is_used(const Question *q, const ThreadBlock *b, i64 id)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool named = (op->op == OP_BAR_SYNC || op->op == OP_BAR_ARRIVE) && op != q->after->op;
        if (named && (op->opnd[0].kind != OPD_IMM || op->opnd[0].base == id)) return true;
        if (is_used(q, &op->body, id) || is_used(q, &op->other, id)) return true;
    }
    return false;
}

// All threads of the role come to this one instruction, and to no other under its number.
static bool meets_alone(const Question *q)
{
    const Edit *e = q->before;
    const ThreadOp *op = q->after->op;
    i64 threads = e->fn->threads;
    for (int i = 0; i < e->depth; i++)
        if (e->around[i].op->op == OP_ROLE) threads = 32 * (i64)e->around[i].op->n;
    return op->op == OP_BAR_SYNC && op->opnd[0].kind == OPD_IMM && op->opnd[1].kind == OPD_IMM &&
           op->opnd[1].base == threads && !is_used(q, &q->after->fn->body, op->opnd[0].base);
}

static bool number_is_free(Question *q)
{
    return is(q, "next id") && (alone_under_number(q, &q->after->fn->body) || meets_alone(q));
}

static bool asks_for_less(Question *q)
{
    u8 op = q->before->op->op;
    return (is(q, "registers - 8") && (op == OP_SETMAXNREG_INC || op == OP_SETMAXNREG_DEC)) ||
           (is(q, "removed") && op == OP_SETMAXNREG_INC);
}

static bool has_op(const ThreadBlock *b, u8 code)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i]->op == code || has_op(&b->at[i]->body, code) || has_op(&b->at[i]->other, code))
            return true;
    return false;
}

static bool no_copy_to_wait_for(Question *q)
{
    u8 op = q->before->op->op;
    return (op == OP_CPASYNC_COMMIT || op == OP_CPASYNC_WAIT) &&
           !has_op(&q->before->fn->body, OP_CPASYNC);
}

// A group that took more products in: what a wait covered it still covers.
static bool group_is_larger(Question *q)
{
    const Edit *e = q->before;
    if (!is(q, "late commit") || e->op->op != OP_WGMMA_COMMIT) return false;
    const ThreadBlock *b = q->after->block;
    for (int i = e->at; b->at[i] != q->after->op; i++) {
        ThreadOp *op = b->at[i];
        if (has_op(&(ThreadBlock){&op, 1, 1}, OP_WGMMA_WAIT) ||
            has_op(&(ThreadBlock){&op, 1, 1}, OP_WGMMA_COMMIT))
            return false;
    }
    return true;
}

// ---- wgmma.fence --------------------------------------------------------------------------------
static bool is_register_fence(void *ctx, const ThreadOp *op)
{
    (void)ctx;
    return op->op == OP_WGMMA_FENCE;
}

static bool touches_registers(void *ctx, const ThreadOp *op)
{
    const Question *q = ctx;
    if (is_product(op)) return false;
    u8 *set = arena_alloc(q->t->arena, (size_t)q->fn->regs.n + 1);
    Registers r = {set, set};
    flow_registers(op, &r);
    for (int i = 0; i < q->fn->regs.n; i++)
        if (set[i] && q->registers[i]) return true;
    return false;
}

static bool each_product_fenced(Question *q, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        if (is_product(op)) {
            u8 *set = arena_alloc(q->t->arena, (size_t)q->after->fn->regs.n + 1);
            flow_product_registers(&(ThreadBlock){&op, 1, 1}, set);
            q->registers = set;
            if (!all_warps(q, q->after->fn, op, true, is_register_fence, touches_registers, false))
                return false;
        }
        if (!each_product_fenced(q, &op->body) || !each_product_fenced(q, &op->other)) return false;
    }
    return true;
}

static bool another_fence_covers(Question *q)
{
    return q->before->op->op == OP_WGMMA_FENCE && moved_or_removed(q) &&
           each_product_fenced(q, &q->after->fn->body);
}

// ---- mbarriers ----------------------------------------------------------------------------------
static bool releases_later(Question *q) { return is(q, "late release") && q->t->explored; }

// Takes every operation on a barrier out; false when a copy lands on it.
static bool without_barrier(ThreadBlock *b, int buffer)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        int at, mem;
        bool on_it = flow_operand(op, 'B', 0, &at, &mem) && op->mem[mem].buffer == buffer;
        if (on_it && op->op == OP_TMA_LOAD) return false;
        if (!without_barrier(&op->body, buffer) || !without_barrier(&op->other, buffer))
            return false;
        if (!on_it) b->at[n++] = op;
    }
    b->n = n;
    return true;
}

// The kernel with this edit in front of all tiers.
static bool is_clean(Question *q, Edit *e)
{
    Trial t = {.bench = q->t->bench, .edit = e, .arena = q->t->arena};
    bool clean = trial_clean(&t);
    buf_free(&t.why);
    return clean && t.explored;
}

static bool only_paces(Question *q)
{
    Edit *e = q->before;
    int at, mem;
    if (!q->t->explored || !flow_operand(e->op, 'B', 0, &at, &mem)) return false;
    int buffer = e->op->mem[mem].buffer;
    return without_barrier(&e->fn->body, buffer) && is_clean(q, e);
}

static bool nobody_waits(Question *q)
{
    Edit *e = q->before;
    if (!(flow_does(e->op) & DOES_ARRIVE) || !q->t->explored) return false;
    if (!is(q, "removed") && !is(q, "early release")) return false;
    for (int i = e->at; i + 1 < e->block->n; i++) e->block->at[i] = e->block->at[i + 1];
    e->block->n--;
    return is_clean(q, e);
}

// The worse mutant: the arrival in front of all products of its block, so that it lets go of no
// slot that they read behind their waits.
static bool order_from_elsewhere(Question *q)
{
    Edit *e = q->before;
    int moves = 0;
    if (!is(q, "early release") || !q->t->explored) return false;
    while (edit_move_before_product(e)) moves++;
    return moves && is_clean(q, e);
}

static bool proved(Question *q) { return q->t->proved; }
static bool proved_at_length(Question *q) { return tiers_prove(q->t); }

// Those that ask the tiers again stand behind those that only look at the program.
static const struct {
    const char *text;
    bool (*holds)(Question *q);
} reasons[] = {
    {"the warp comes together at another instruction in front, with no access of single lanes"
     " between",
     warp_is_together},
    {"the arrival behind it hands back what only products read, to a role that only copies, and another"
     " one follows before anything that others see",
     products_are_handed_back},
    {"a barrier of the whole block follows before anything that needs the order", barrier_follows},
    {"what the barrier passed is done by the thread that initialised the mbarriers",
     only_the_initialiser},
    {"no ordinary access in front of the fence shares bytes with a bulk copy or a product",
     nothing_to_fence},
    {"what the barrier passed shares no bytes that its threads write",
     passed_nothing_that_it_orders},
    {"nothing meets it under this number, or a barrier of the whole block stands between",
     number_is_free},
    {"no role has more registers than before, so that no increase waits longer", asks_for_less},
    {"the kernel has no cp.async that one could wait for", no_copy_to_wait_for},
    {"the group has taken in more products: each wait covers what it covered", group_is_larger},
    {"each product still has a wgmma.fence behind the last other access to its registers",
     another_fence_covers},
    {"a later release orders more, and the explorer finds no deadlock", releases_later},
    {"nobody waits for it: without the arrival no tier reports anything, and nobody is left waiting",
     nobody_waits},
    {"the mbarrier only paces: with all operations on it left out no tier reports anything",
     only_paces},
    {"`baton check` proves the mutant for all sizes", proved},
    {"even in front of the products no tier reports the arrival: another release parts the refill"
     " from them", order_from_elsewhere},
    {"`baton check --thorough` proves the mutant for all sizes", proved_at_length},
};

const char *harmless_reason(Trial *t, const Operator *o, int site)
{
    for (int i = 0; i < COUNT(reasons); i++) {
        Edit before;
        edit_begin(&before, t->arena, t->bench->comp.thread, t->bench->fn, site);
        Question q = {.t = t, .after = t->edit, .before = &before, .o = o};
        if (reasons[i].holds(&q)) return reasons[i].text;
    }
    return NULL;
}
