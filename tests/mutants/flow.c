// flow.c - registers that operations read and write, and what they do to shared memory and
// barriers: what an edit must know that moves an operation, and a reason that one was not needed.
#include "mutants.h"

#include <string.h>

static void mark(u8 *set, const Operand *o)
{
    if (set && o->kind == OPD_REG) set[o->reg] = 1;
}

// Operands of one letter of a signature.
static int width(const ThreadOp *op, char c)
{
    return c == 'S' || c == 'G' || c == 'B' ? 2 : c == 'C' ? op->n : 1;
}

void flow_registers(const ThreadOp *op, Registers *r)
{
    const char *sig = thread_op[op->op].sig;
    mark(r->reads, &op->guard);
    if (*sig == '*') {
        for (int i = 0; i < op->nopnd; i++) mark(i ? r->reads : r->writes, &op->opnd[i]);
        sig = "";
    }
    for (int at = 0; *sig; at += width(op, *sig++)) {
        bool writes = strchr("dPFR", *sig) != NULL;
        if (writes) mark(r->writes, &op->opnd[at]);
        // A guarded write leaves the old value where the guard is false.
        if (!writes || *sig == 'R' || op->guard.kind != OPD_NONE)
            for (int i = 0; i < width(op, *sig); i++) mark(r->reads, &op->opnd[at + i]);
    }
    for (int i = 0; i < op->body.n; i++) flow_registers(op->body.at[i], r);
    for (int i = 0; i < op->other.n; i++) flow_registers(op->other.at[i], r);
}

bool flow_operand(const ThreadOp *op, char c, int k, int *operand, int *mem)
{
    int at = 0, m = 0;
    for (const char *sig = thread_op[op->op].sig; *sig && *sig != '*'; sig++) {
        bool has_mem = strchr("SGBL", *sig) != NULL;
        if (*sig == c && !k--) {
            *operand = at;
            *mem = has_mem ? m : -1;
            return true;
        }
        at += width(op, *sig);
        m += has_mem;
    }
    return false;
}

u32 flow_does(const ThreadOp *op)
{
    u32 does = 0;
    for (int i = 0; i < op->body.n; i++) does |= flow_does(op->body.at[i]);
    for (int i = 0; i < op->other.n; i++) does |= flow_does(op->other.at[i]);
    switch (op->op) {
    case OP_LDS: case OP_LDMATRIX: return DOES_READ;
    case OP_STS: case OP_STMATRIX: case OP_ATOMS: case OP_CASS: return DOES_WRITE;
    case OP_CPASYNC: case OP_TMA_LOAD: case OP_TMA_STORE: case OP_WGMMA_SS: case OP_WGMMA_RS:
        return DOES_ASYNC;
    case OP_MBAR_WAIT: case OP_WGMMA_WAIT: case OP_BULK_WAIT: case OP_BULK_WAIT_READ:
    case OP_CPASYNC_WAIT: return DOES_WAIT;
    case OP_MBAR_ARRIVE: case OP_MBAR_ARRIVE_CLUSTER: case OP_CPASYNC_ARRIVE: return DOES_ARRIVE;
    case OP_MBAR_ARRIVE_EXPECT: return DOES_ARRIVE | DOES_EXPECT;
    case OP_MBAR_EXPECT: return DOES_EXPECT;
    case OP_BAR_SYNC: case OP_BAR_ARRIVE: case OP_BAR_CLUSTER: case OP_BAR_WARP:
        return DOES_BARRIER;
    case OP_MBAR_INIT: return DOES_INIT;
    case OP_FENCE_PROXY: case OP_FENCE_MBAR_INIT: case OP_WGMMA_FENCE: case OP_MEMBAR:
    case OP_MEMBAR_GPU: return DOES_FENCE;
    case OP_WGMMA_COMMIT: case OP_BULK_COMMIT: case OP_CPASYNC_COMMIT: return DOES_COMMIT;
    case OP_SETMAXNREG_INC: case OP_SETMAXNREG_DEC: return DOES_REGISTERS;
    default: return does;
    }
}

void flow_product_registers(const ThreadBlock *b, u8 *set)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        int at, mem;
        if (flow_operand(op, 'R', 0, &at, &mem)) mark(set, &op->opnd[at]);
        if (op->op == OP_WGMMA_RS && flow_operand(op, 'r', 0, &at, &mem)) mark(set, &op->opnd[at]);
        flow_product_registers(&op->body, set);
        flow_product_registers(&op->other, set);
    }
}

// ---- the way of a warp --------------------------------------------------------------------------
static int add_node(Arena *a, Flow *f, const ThreadOp *op, int first, int second)
{
    vec_push(a, &f->nodes, ((FlowNode){op, {first, second}}));
    return f->nodes.n - 1;
}

// Nodes of a block that goes on to `next`; the first of them, or `next` where the block is empty.
static int add_block(Arena *a, Flow *f, const ThreadBlock *b, int warp, int next)
{
    for (int i = b->n - 1; i >= 0; i--) {
        const ThreadOp *op = b->at[i];
        int around;
        switch (op->op) {
        case OP_EXIT: // under a guard other lanes go on
            next = add_node(a, f, op, 0, op->guard.kind == OPD_NONE ? -1 : next);
            break;
        case OP_ROLE:
            if (warp >= op->imm && warp < op->imm + op->n)
                next = add_block(a, f, &op->body, warp, next);
            break;
        case OP_IF:
            around = add_block(a, f, &op->other, warp, next);
            next = add_node(a, f, op, add_block(a, f, &op->body, warp, next), around);
            break;
        case OP_FOR:
        case OP_UNROLL: {
            int head = add_node(a, f, op, -1, next);
            int body = add_block(a, f, &op->body, warp, head);
            f->nodes.at[head].next[0] = body;
            next = op->op == OP_FOR || !op->n ? head : body;
            break;
        }
        default: next = add_node(a, f, op, next, -1); break;
        }
    }
    return next;
}

// Node 0 is the end of the kernel.
void flow_graph(Arena *a, const ThreadFn *fn, int warp, Flow *out)
{
    *out = (Flow){0};
    add_node(a, out, NULL, -1, -1);
    out->entry = add_block(a, out, &fn->body, warp, 0);
}

typedef struct {
    const Flow *f;
    u8 *seen;
    bool backwards;
    FlowTest *ends, *breaks;
    void *ctx;
    bool at_end;
} Walk;

static bool walk_on(Walk *w, int at);

static bool walk_at(Walk *w, int at)
{
    const ThreadOp *op = w->f->nodes.at[at].op;
    if (!op) return w->at_end;
    if (w->seen[at]) return true;
    w->seen[at] = 1;
    bool region = *thread_op[op->op].sig == '*' || op->op == OP_IF;
    if (!region && w->ends(w->ctx, op)) return true;
    if (!region && w->breaks(w->ctx, op)) return false;
    return walk_on(w, at);
}

static bool walk_on(Walk *w, int at)
{
    const Flow *f = w->f;
    if (!w->backwards) {
        for (int k = 0; k < 2; k++)
            if (f->nodes.at[at].next[k] >= 0 && !walk_at(w, f->nodes.at[at].next[k])) return false;
        return true;
    }
    if (at == f->entry && !w->at_end) return false;
    for (int i = 1; i < f->nodes.n; i++)
        if ((f->nodes.at[i].next[0] == at || f->nodes.at[i].next[1] == at) && !walk_at(w, i))
            return false;
    return true;
}

bool flow_always(const Flow *f, const ThreadOp *from, bool backwards, FlowTest *ends,
                 FlowTest *breaks, void *ctx, bool at_end)
{
    Arena *a = arena_new(0);
    Walk w = {f, arena_alloc(a, (size_t)f->nodes.n + 1), backwards, ends, breaks, ctx, at_end};
    bool always = true;
    for (int i = 0; i < f->nodes.n && always; i++)
        if (f->nodes.at[i].op == from) always = walk_on(&w, i);
    arena_free(a);
    return always;
}
