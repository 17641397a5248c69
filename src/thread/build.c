// build.c - makes thread IR: declarations, operations, regions. The builder only appends and keeps
// names unique; whether the program is legal is check.c's question.
//
// In: a ThreadBuilder whose `at` is an open block. Everything made lives in the module's arena,
// and pointers to operations stay valid: blocks hold pointers, not operations.
#include "thread.h"

#include <string.h>

// The arena of the module owns all that the builder makes.
static Arena *arena_of(ThreadBuilder *b) { return b->mod->arena; }

// Names in the text form and in PTX are letters, digits and _; anything else becomes _.
static const char *clean_name(ThreadBuilder *b, const char *name)
{
    char text[96];
    size_t n = 0;
    for (; *name && n + 2 < sizeof text; name++) {
        char c = *name;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool digit = c >= '0' && c <= '9';
        if (n == 0 && digit) text[n++] = '_';
        text[n++] = letter || digit ? c : '_';
    }
    if (!n) text[n++] = '_';
    return intern_n(expr_pool_names(b->mod->exprs), text, n);
}

// The name itself, or with a number behind it, `number` or the next that is free. Names are
// interned, so their pointers are the keys.
static const char *unique_name(ThreadBuilder *b, ThreadNames space, const char *name, int number)
{
    Map **taken = &b->taken[space];
    if (!*taken) *taken = map_new(arena_of(b));
    const char *base = clean_name(b, name), *unique = base;
    for (int k = number; map_get(*taken, unique); k++)
        unique = intern_printf(expr_pool_names(b->mod->exprs), "%s_%d", base, k);
    map_put(*taken, unique, (void *)1);
    return unique;
}

void thread_take_names(ThreadBuilder *b)
{
    const ThreadFn *fn = b->fn;
    Intern *names = expr_pool_names(b->mod->exprs);
    for (int i = 0; i < NAMES_COUNT; i++) b->taken[i] = map_new(arena_of(b));
    for (int i = 0; i < fn->buffers.n; i++)
        map_put(b->taken[NAMES_BUFFERS], intern(names, fn->buffers.at[i].name), (void *)1);
    for (int i = 0; i < fn->unrolls.n; i++)
        map_put(b->taken[NAMES_UNROLLS], intern(names, fn->unrolls.at[i]), (void *)1);
    for (int i = 0; i < fn->regs.n; i++)
        map_put(b->taken[NAMES_REGS], intern(names, fn->regs.at[i].name), (void *)1);
    for (int i = 0; i < fn->params.n; i++)
        map_put(b->taken[NAMES_PARAMS], intern(names, fn->params.at[i].name), (void *)1);
}

// Returns the index of a new array of `count` registers; a name in use gets a number behind it.
int thread_add_reg(ThreadBuilder *b, const char *name, RegClass c, int count)
{
    const char *unique = unique_name(b, NAMES_REGS, name, b->fn->regs.n);
    vec_push(arena_of(b), &b->fn->regs, ((ThreadReg){unique, (u8)c, count}));
    return b->fn->regs.n - 1;
}

// Takes the buffer as given but for the name.
int thread_add_buffer(ThreadBuilder *b, ThreadBuffer buf)
{
    buf.name = unique_name(b, NAMES_BUFFERS, buf.name, b->fn->buffers.n);
    vec_push(arena_of(b), &b->fn->buffers, buf);
    return b->fn->buffers.n - 1;
}

// Parameters keep the order of these calls: it is the kernel's signature.
int thread_add_param(ThreadBuilder *b, const char *name, ParamKind k)
{
    const char *unique = unique_name(b, NAMES_PARAMS, name, b->fn->params.n);
    vec_push(arena_of(b), &b->fn->params, ((ThreadParam){unique, (u8)k}));
    return b->fn->params.n - 1;
}

// The index of `o` plus coef * var. Terms with the same variable unite and vanish at 0, which
// keeps equal indices equal in memory.
Operand opd_plus(Operand o, int var, i32 coef)
{
    for (int i = 0; i < o.nterms; i++) {
        if (o.term[i].var != var) continue;
        o.term[i].coef += coef;
        if (!o.term[i].coef) o.term[i] = o.term[--o.nterms];
        return o;
    }
    if (!coef) return o;
    ASSERT(o.nterms < INDEX_TERMS);
    o.term[o.nterms++] = (IndexTerm){(u16)var, coef};
    return o;
}

// A new operation at the end of the open block, with the builder's place and guard.
static ThreadOp *append(ThreadBuilder *b, ThreadOpcode code)
{
    ThreadOp *op = ARENA_NEW(arena_of(b), ThreadOp);
    op->op = (u8)code;
    op->loc = b->loc;
    op->guard = b->guard;
    vec_push(arena_of(b), b->at, op);
    return op;
}

// Copies the operands: the caller's may be temporary.
ThreadOp *thread_emit(ThreadBuilder *b, ThreadOpcode code, ThreadType t, int n, const Operand *o)
{
    ThreadOp *op = append(b, code);
    op->type = (u8)t;
    op->nopnd = n;
    op->opnd = ARENA_ARRAY(arena_of(b), Operand, n);
    if (n) memcpy(op->opnd, o, sizeof *o * (size_t)n);
    return op;
}

ThreadOp *thread_emit0(ThreadBuilder *b, ThreadOpcode code, int attr_n)
{
    ThreadOp *op = append(b, code);
    op->n = (u16)attr_n;
    return op;
}

// One or two references an operation: growing by one is cheap enough.
void thread_mem(ThreadBuilder *b, ThreadOp *op, MemRef ref)
{
    MemRef *grown = ARENA_ARRAY(arena_of(b), MemRef, op->nmem + 1);
    if (op->nmem) memcpy(grown, op->mem, sizeof *grown * (size_t)op->nmem);
    grown[op->nmem++] = ref;
    op->mem = grown;
}

// ---- regions -----------------------------------------------------------------------------------

// Appends the region and moves the builder into it; *saved is what thread_close takes back.
static ThreadOp *open_region(ThreadBuilder *b, ThreadOpcode code, int n, const Operand *o,
                             ThreadBlock **saved)
{
    ThreadOp *op = thread_emit(b, code, TT_NONE, n, o);
    *saved = b->at;
    b->at = &op->body;
    return op;
}

// for reg = lo; reg < hi; reg += step (s32, step a positive constant).
ThreadOp *thread_open_for(ThreadBuilder *b, int reg, Operand lo, Operand hi, i64 step,
                          ThreadBlock **saved)
{
    Operand o[4] = {opd_reg(reg, 0), lo, hi, opd_imm(step)};
    ThreadOp *op = open_region(b, OP_FOR, 4, o, saved);
    op->imm = reg;
    return op;
}

// Its variable gets a name that no other region of the kernel has, though nesting alone would
// forbid repetition: texts are easier to read so. *var is the index for opd_plus.
ThreadOp *thread_open_unroll(ThreadBuilder *b, const char *name, int trips, int *var,
                             ThreadBlock **saved)
{
    ASSERT(trips >= 0 && trips <= UINT16_MAX);
    const char *unique = unique_name(b, NAMES_UNROLLS, name, b->fn->unrolls.n);
    ThreadOp *op = open_region(b, OP_UNROLL, 0, NULL, saved);
    op->n = (u16)trips;
    op->imm = *var = b->fn->unrolls.n;
    vec_push(arena_of(b), &b->fn->unrolls, unique);
    return op;
}

// An else branch: the caller moves `at` to the operation's `other` before closing.
ThreadOp *thread_open_if(ThreadBuilder *b, Operand pred, ThreadBlock **saved)
{
    return open_region(b, OP_IF, 1, &pred, saved);
}

// Executed by warps [first_warp, first_warp + warps) of the CTA alone.
ThreadOp *thread_open_role(ThreadBuilder *b, int first_warp, int warps, ThreadBlock **saved)
{
    ThreadOp *op = open_region(b, OP_ROLE, 0, NULL, saved);
    op->imm = first_warp;
    op->n = (u16)warps;
    return op;
}
