// names.c - the names of places and of work, from the thread IR.
#include "impl.h"

const char *const trace_unit_name[2] = {"steps", "cycles"};
const char *const trace_span_name[SPAN_KINDS] = {
#define X(id, text, lane) [id] = text,
    TRACE_SPANS(X)
#undef X
};

int trace_slots(const ThreadBuffer *b)
{
    i64 n = 1;
    int least = b->kind == BUF_MBAR ? 1 : 3; // dimensions of a buffer with slots
    if (b->rank < least || !b->dim[0] || !expr_is_const(b->dim[0], &n)) return 1;
    return (int)MAX(1, MIN(n, 4096));
}

const char *trace_place_name(Arena *a, const ThreadFn *fn, TracePlace p)
{
    if (p.buffer < 0 || p.buffer >= fn->buffers.n) return "";
    const ThreadBuffer *b = &fn->buffers.at[p.buffer];
    return trace_slots(b) > 1 ? arena_printf(a, "%s[%d]", b->name, p.slot) : b->name;
}

static const char *register_name(const ThreadFn *fn, const Operand *o)
{
    return o->kind == OPD_REG && o->reg < fn->regs.n ? fn->regs.at[o->reg].name : "?";
}

const char *trace_product_name(Arena *a, const ThreadFn *fn, const TraceRecord *r)
{
    if (!r->op || (r->op->op != OP_WGMMA_SS && r->op->op != OP_WGMMA_RS)) return "product";
    const char *left = r->op->op == OP_WGMMA_RS ? register_name(fn, &r->op->opnd[1])
                                                : trace_place_name(a, fn, r->at);
    return arena_printf(a, "%s += %s x %s", register_name(fn, &r->op->opnd[0]), left,
                        trace_place_name(a, fn, r->other));
}

i64 trace_generation(const TraceBuild *b, TracePlace p)
{
    if (p.buffer < 0 || p.generation == TRACE_UNKNOWN) return TRACE_UNKNOWN;
    return p.generation + b->early[p.buffer];
}

void trace_commit(Arena *a, TraceQueue *q, int members)
{
    vec_push(a, &q->groups, ((TraceGroup){q->open, members - q->open}));
    q->open = members;
}

int trace_waited(const TraceQueue *q, i64 keep)
{
    i64 upto = q->groups.n - keep;
    return (int)MAX((i64)q->waited, MIN(upto, (i64)q->groups.n));
}
