// device.c - what goes to the machine as it is written: atomic operations on elements of memory,
// raw named barriers, memory fences, prints.
#include "impl.h"

#include <string.h>

// Named barriers 1 to 15: those between the lowest and the highest that the program names are its
// own, the compiler's lie on the side where more are left.
static void raw_barriers(const TileBlock *b, i64 *low, i64 *high)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        i64 id;
        if (op->op == TOP_BAR && expr_is_const(op->lo, &id)) {
            *low = MIN(*low, id);
            *high = MAX(*high, id);
        }
        raw_barriers(&op->body, low, high);
        raw_barriers(&op->other, low, high);
    }
}

void device_init(Lower *l)
{
    i64 low = INT32_MAX, high = 0, last = l->named_high;
    raw_barriers(&l->k->body, &low, &high);
    if (!high) return;
    if (low - 1 > last - high) l->named_high = (int)low - 1;
    else l->named_low = (int)high;
}

// Atomic operations take registers.
static Operand operand(Lower *l, const TExpr *e, ThreadType t)
{
    Operand v = lower_value(l, e);
    if (v.kind == OPD_REG) return v;
    Operand d = opd_reg(lower_new_reg(l, "v", (RegClass)thread_type_class[t], 1), 0);
    EMIT(&l->b, OP_MOV, t, d, v);
    return d;
}

void lower_op_ATOMIC(Lower *l, const TileOp *op)
{
    const TileBuffer *t = &l->k->buffers.at[op->elem.buffer];
    bool global = t->kind == TB_GLOBAL, cas = op->imm == ATOM_CAS;
    ThreadType type = lower_type(t->type);
    Operand v = operand(l, op->value, type), was = cas ? operand(l, op->cond, type) : v;
    Operand result = opd_reg(lower_scalar(l, op->scalar), 0);
    if (cas || op->imm == ATOM_EXCH || (op->imm >= ATOM_AND && op->imm <= ATOM_XOR))
        type = dtype_bytes[t->type] == 8 ? TT_B64 : TT_B32;
    Operand outer = lower_guard_owner(l, t);
    Address a = lower_address(l, &op->elem, l->zeros);
    ThreadOp *made;
    if (cas) {
        made = EMIT(&l->b, global ? OP_CASG : OP_CASS, type, result, a.base, a.offset, was, v);
    } else {
        made = EMIT(&l->b, global ? OP_ATOMG : OP_ATOMS, type, result, a.base, a.offset, v);
        made->n = (u16)op->imm;
    }
    thread_mem(&l->b, made, a.ref);
    l->b.guard = outer;
}

// Who comes here gives away what he wrote: his own asynchronous copies have landed, and the async
// proxy may follow his ordinary accesses.
void lower_op_BAR(Lower *l, const TileOp *op)
{
    i64 id = op->lo->value, threads = op->hi->value;
    if (l->lane_depth) {
        lower_error(l, op->loc, "choose whole warps with inthreads (...)",
                    "barrier %lld stands under a condition that a warp does not agree on",
                    (long long)id);
        return;
    }
    if (l->sync.cp_async) {
        thread_emit0(&l->b, OP_CPASYNC_COMMIT, 0);
        thread_emit0(&l->b, OP_CPASYNC_WAIT, 0);
        l->sync.cp_async = false;
    }
    if (sync_is_loose(l)) thread_emit0(&l->b, OP_FENCE_PROXY, 0);
    sync_fenced(l);
    EMIT(&l->b, op->imm ? OP_BAR_SYNC : OP_BAR_ARRIVE, TT_NONE, opd_imm(id), opd_imm(threads));
}

// It holds back what stands behind it in the passes, and is nothing to the machine.
void lower_op_USE(Lower *l, const TileOp *op)
{
    (void)l;
    (void)op;
}

void lower_op_FENCE(Lower *l, const TileOp *op)
{
    thread_emit0(&l->b, op->imm ? OP_MEMBAR_GPU : OP_MEMBAR, 0);
}

void lower_op_PRINT_ARG(Lower *l, const TileOp *op)
{
    ThreadType t = lower_type(op->value->type);
    EMIT(&l->b, OP_PRINT_ARG, t, operand(l, op->value, t))->n = (u16)op->imm;
}

// The same text is kept once.
void lower_op_PRINT(Lower *l, const TileOp *op)
{
    int k = 0;
    while (k < l->tf->texts.n && strcmp(l->tf->texts.at[k], op->text)) k++;
    if (k == l->tf->texts.n) vec_push(l->m->arena, &l->tf->texts, op->text);
    EMIT(&l->b, OP_PRINT, TT_NONE, opd_imm(k));
}
