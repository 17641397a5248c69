// needed.c - which registers steer: those whose values decide about synchronisation, or about which
// shared bytes are touched, on any path. All others are followed only as far as they carry loads
// that have not bound; in attention and GEMM kernels that is most of the arithmetic.
//
// One bit for a whole register, without regard to order: a register that steers anywhere is
// followed everywhere.
#include "exec.h"

#include <string.h>

typedef struct {
    const ThreadFn *fn;
    Map *names; // register by name, + 1
    Intern *pool;
    u8 *needed, *loaded; // loaded: may hold, or be computed from, what ld.shared fetched
    bool bindings;       // conditions on stores that bind what was loaded count as steering
    bool changed;
} Needs;

static void set(Needs *n, u8 *of, int reg)
{
    if (of[reg]) return;
    of[reg] = 1;
    n->changed = true;
}

static void need(Needs *n, const Operand *o)
{
    if (o->kind == OPD_REG) set(n, n->needed, o->reg);
}

static void need_expr(Needs *n, const Expr *e)
{
    if (!e) return;
    if (e->op == EX_VAR && e->name[0] == '%') {
        int reg = (int)(uintptr_t)map_get(n->names, intern(n->pool, e->name + 1)) - 1;
        if (reg >= 0) set(n, n->needed, reg);
    }
    need_expr(n, e->a);
    need_expr(n, e->b);
    need_expr(n, e->c);
}

static bool writes(char letter)
{
    return letter == 'd' || letter == 'P' || letter == 'F' || letter == 'R';
}

// Walks the signature: letters take one operand, addresses two, coordinates op->n.
static int width(const ThreadOp *op, char letter)
{
    return letter == 'S' || letter == 'G' || letter == 'B' ? 2 : letter == 'C' ? op->n : 1;
}

static bool result_needed(const Needs *n, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    for (int i = 0, at = 0; sig[i] && sig[i] != '*' && at < op->nopnd; at += width(op, sig[i++]))
        if (writes(sig[i]) && op->opnd[at].kind == OPD_REG && n->needed[op->opnd[at].reg])
            return true;
    return false;
}

static bool block_needed(const Needs *n, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (exec_matters(op) || result_needed(n, op) || block_needed(n, &op->body) ||
            block_needed(n, &op->other))
            return true;
    }
    return false;
}

// A store to global memory pins what it stores: whether it happens matters where that may be a
// value from shared memory.
static bool pins(const Needs *n, const ThreadOp *op)
{
    if (!n->bindings || (op->op != OP_STG && op->op != OP_ATOMG && op->op != OP_CASG)) return false;
    for (int i = 0; i < op->nopnd; i++)
        if (op->opnd[i].kind == OPD_REG && n->loaded[op->opnd[i].reg]) return true;
    return false;
}

static bool block_pins(const Needs *n, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++)
        if (pins(n, b->at[i]) || block_pins(n, &b->at[i]->body) || block_pins(n, &b->at[i]->other))
            return true;
    return false;
}

// What the value of the results is made of.
static void sources(Needs *n, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    for (int i = 0, at = 0; sig[i] && sig[i] != '*' && at < op->nopnd; at += width(op, sig[i++])) {
        if (writes(sig[i]) || sig[i] == 'S') continue;
        for (int k = at; k < at + width(op, sig[i]) && k < op->nopnd; k++) need(n, &op->opnd[k]);
    }
}

// Operands that steer by themselves.
static void steering(Needs *n, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    bool tma = op->op == OP_TMA_LOAD || op->op == OP_TMA_STORE;
    for (int i = 0, at = 0; sig[i] && sig[i] != '*' && at < op->nopnd; at += width(op, sig[i++])) {
        bool address = sig[i] == 'S' || sig[i] == 'B';
        bool count = sig[i] == 'x' && op->op != OP_CPASYNC && op->op != OP_SHFL && !tma;
        if (!address && !(count && thread_op[op->op].effect == EFF_SYNC)) continue;
        for (int k = at; k < at + width(op, sig[i]) && k < op->nopnd; k++) need(n, &op->opnd[k]);
    }
    for (int k = 0; k < op->nmem; k++)
        if (n->fn->buffers.at[op->mem[k].buffer].kind != BUF_GLOBAL)
            for (int c = 0; c < op->mem[k].ncoord; c++) need_expr(n, op->mem[k].coord[c]);
}

static void taint(Needs *n, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    bool any = op->op == OP_LDS || op->op == OP_LDMATRIX || op->op == OP_ATOMS || op->op == OP_CASS;
    for (int i = 0; i < op->nopnd && !any; i++)
        any = op->opnd[i].kind == OPD_REG && n->loaded[op->opnd[i].reg];
    for (int i = 0, at = 0; any && sig[i] && sig[i] != '*' && at < op->nopnd;
         at += width(op, sig[i++]))
        if (writes(sig[i]) && op->opnd[at].kind == OPD_REG) set(n, n->loaded, op->opnd[at].reg);
}

static void visit(Needs *n, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool region = op->op == OP_IF || op->op == OP_FOR;
        bool inside = region && (block_needed(n, &op->body) || block_needed(n, &op->other));
        if (region && op->op == OP_IF && !inside)
            inside = block_pins(n, &op->body) || block_pins(n, &op->other);
        if (region && inside)
            for (int k = 0; k < op->nopnd; k++) need(n, &op->opnd[k]);
        if (op->op == OP_FOR && n->needed[op->opnd[0].reg])
            for (int k = 0; k < op->nopnd; k++) need(n, &op->opnd[k]);
        if (!region && (exec_matters(op) || result_needed(n, op) || pins(n, op))) {
            need(n, &op->guard);
            if (result_needed(n, op) && op->op != OP_LDS && op->op != OP_LDMATRIX) sources(n, op);
        }
        if (!region) steering(n, op);
        taint(n, op);
        visit(n, &op->body);
        visit(n, &op->other);
    }
}

u8 *exec_needed(Arena *a, const ThreadModule *m, const ThreadFn *fn, Map *names, bool bindings)
{
    Needs n = {.fn = fn,
               .bindings = bindings,
               .names = names,
               .pool = expr_pool_names(m->exprs),
               .changed = true};
    n.needed = ARENA_ARRAY(a, u8, fn->regs.n + 1);
    n.loaded = ARENA_ARRAY(a, u8, fn->regs.n + 1);
    while (n.changed) {
        n.changed = false;
        visit(&n, &fn->body);
    }
    return n.needed;
}

// ---- what a loop reads and writes
// ----------------------------------------------------------------

typedef struct {
    Needs n;
    Arena *arena;
    u8 *sure, *carried, *written; // per register; sure: written in this round on every path so far
    u32 *bits;                    // of a register that is read: those that count
} Carry;

static void read_reg(Carry *c, const Operand *o, u32 bits)
{
    if (o->kind != OPD_REG || c->sure[o->reg]) return;
    c->carried[o->reg] = 1;
    c->bits[o->reg] |= bits;
}

static void read_all(Carry *c, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    bool masks = op->op == OP_AND && op->opnd[2].kind == OPD_IMM && !op->opnd[2].nterms;
    u32 bits = masks ? (u32)op->opnd[2].base : ~(u32)0;
    read_reg(c, &op->guard, ~(u32)0);
    if (sig[0] == '*' || op->op == OP_IF)
        for (int k = op->op == OP_FOR ? 1 : 0; k < op->nopnd; k++)
            read_reg(c, &op->opnd[k], ~(u32)0);
    for (int k = 0, at = 0; sig[k] && sig[k] != '*' && at < op->nopnd; at += width(op, sig[k++]))
        if (!writes(sig[k]) || sig[k] == 'R')
            for (int j = at; j < at + width(op, sig[k]) && j < op->nopnd; j++)
                read_reg(c, &op->opnd[j], bits);
}

static void write_reg(Carry *c, const Operand *o, bool always)
{
    if (o->kind != OPD_REG) return;
    c->written[o->reg] = 1;
    // One element of many may leave others of the round before.
    if (always && c->n.fn->regs.at[o->reg].count == 1) c->sure[o->reg] = 1;
}

static void carry_block(Carry *c, const ThreadBlock *b, bool always);

// Code that may be left out: what is written on all ways through it is written.
static void carry_ways(Carry *c, const ThreadOp *op)
{
    size_t n = sizeof *c->sure * (size_t)(c->n.fn->regs.n + 1);
    u8 *before = memcpy(ARENA_ARRAY(c->arena, u8, n), c->sure, n);
    u8 *body = ARENA_ARRAY(c->arena, u8, n);
    if (op->op == OP_FOR) write_reg(c, &op->opnd[0], true); // in front of each round
    carry_block(c, &op->body, true);
    memcpy(body, c->sure, n);
    memcpy(c->sure, before, n);
    if (op->op != OP_IF) return; // a loop without rounds
    carry_block(c, &op->other, true);
    for (size_t i = 0; i < n; i++) c->sure[i] &= body[i];
}

// `always`: the operation is carried out whenever the block is.
static void carry_block(Carry *c, const ThreadBlock *b, bool always)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const char *sig = thread_op[op->op].sig;
        bool here = always && op->guard.kind == OPD_NONE;
        if (exec_matters(op) || result_needed(&c->n, op) || op->body.n || op->other.n)
            read_all(c, op);
        if (op->op == OP_IF || op->op == OP_FOR) carry_ways(c, op);
        else carry_block(c, &op->body, here);
        if (op->op == OP_FOR) write_reg(c, &op->opnd[0], here);
        for (int k = 0, at = 0; sig[k] && sig[k] != '*' && at < op->nopnd;
             at += width(op, sig[k++]))
            if (writes(sig[k])) write_reg(c, &op->opnd[at], here);
    }
}

static Carry carry(Arena *a, const ThreadFn *fn, const u8 *needed, const ThreadOp *loop)
{
    int n = fn->regs.n + 1;
    Carry c = {{.fn = fn, .needed = (u8 *)(uintptr_t)needed},
               a,
               ARENA_ARRAY(a, u8, n),
               ARENA_ARRAY(a, u8, n),
               ARENA_ARRAY(a, u8, n),
               ARENA_ARRAY(a, u32, n)};
    if (loop->op == OP_FOR) c.sure[loop->opnd[0].reg] = 1; // the counter starts anew
    carry_block(&c, &loop->body, true);
    return c;
}

void exec_carried(Arena *a, const ThreadFn *fn, const u8 *needed, const ThreadOp *loop, RegVec *out)
{
    Carry c = carry(a, fn, needed, loop);
    for (int i = 0; i < fn->regs.n; i++)
        if (c.carried[i] && c.written[i] && needed[i]) vec_push(a, out, i);
}

const u32 *exec_flow(Arena *a, const ThreadFn *fn, const u8 *needed, const ThreadOp *loop,
                     RegVec *reads, RegVec *written)
{
    Carry c = carry(a, fn, needed, loop);
    for (int k = 1; k < loop->nopnd; k++) read_reg(&c, &loop->opnd[k], ~(u32)0);
    if (loop->op == OP_FOR) c.written[loop->opnd[0].reg] = 1;
    for (int i = 0; i < fn->regs.n; i++) {
        if (c.carried[i] && needed[i]) vec_push(a, reads, i);
        if (c.written[i] && needed[i]) vec_push(a, written, i);
    }
    return c.bits;
}
