// threads.c - which threads of a kernel take the same way. See flow.h.
//
// A register that one operation writes, from the thread's number, constants and other such
// registers, has one value in each thread, however often that operation is carried out. These
// values are computed for every thread; the predicates among them are what tells threads apart (the
// first thread of a block, the elected lane of a warp, the second warpgroup).
#include "flow.h"

#include <string.h>

// CLASSES: more kinds of threads than that are no business of quick rules.
enum { CLASSES = 64, OPERANDS = 8, FACTS = 64, DEPTH = 100 };

typedef struct {
    const ThreadFn *fn;
    const ThreadOp **single; // per register: its only write, NULL: none or several
    bool *twice;
    u8 *known;               // per register, for one thread: 0 not asked, 1 computed, 2 unknown
    u32 *value;
    u32 tid;
} Eval;

static bool is_region(const ThreadOp *op)
{
    return op->op == OP_FOR || op->op == OP_UNROLL || op->op == OP_IF || op->op == OP_ROLE;
}

// ---- registers with one value -------------------------------------------------------------------

static void find_writes(Eval *e, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_FOR && op->opnd[0].kind == OPD_REG) e->twice[op->opnd[0].reg] = true;
        if (is_region(op)) {
            find_writes(e, &op->body);
            find_writes(e, &op->other);
            continue;
        }
        u8 use[OPERANDS] = {USE_NONE};
        flow_uses(op, use, OPERANDS);
        for (int k = 0; k < MIN(op->nopnd, (int)OPERANDS); k++) {
            const Operand *o = &op->opnd[k];
            if (o->kind != OPD_REG || use[k] == USE_READ || use[k] == USE_NONE) continue;
            if (e->single[o->reg] || op->guard.kind != OPD_NONE) e->twice[o->reg] = true;
            e->single[o->reg] = op;
        }
    }
}

// ---- their values -------------------------------------------------------------------------------

static bool register_value(Eval *e, int reg, int depth, u32 *out);

static bool operand_value(Eval *e, const Operand *o, int depth, u32 *out)
{
    if (o->nterms) return false;
    switch (o->kind) {
    case OPD_IMM: *out = (u32)o->base; return true;
    case OPD_REG: return register_value(e, o->reg, depth, out);
    case OPD_SREG:
        *out = o->reg == SR_LANE ? e->tid % 32 : e->tid;
        return o->reg == SR_LANE || o->reg == SR_TID;
    default: return false;
    }
}

static bool compare(u8 cmp, i64 x, i64 y)
{
    switch (cmp) {
    case CMP_EQ: return x == y;
    case CMP_NE: return x != y;
    case CMP_LT: return x < y;
    case CMP_LE: return x <= y;
    case CMP_GT: return x > y;
    default: return x >= y;
    }
}

// Operations on 32 bits and predicates that index arithmetic is made of.
static bool compute(const ThreadOp *op, const u32 *v, u32 *out)
{
    bool sign = op->type == TT_S32, pred = op->type == TT_PRED;
    switch (op->op) {
    case OP_MOV: *out = v[0]; return true;
    case OP_ADD: *out = v[0] + v[1]; return true;
    case OP_SUB: *out = v[0] - v[1]; return true;
    case OP_MUL: *out = v[0] * v[1]; return true;
    case OP_MAD: *out = v[0] * v[1] + v[2]; return true;
    case OP_AND: *out = v[0] & v[1]; return true;
    case OP_OR: *out = v[0] | v[1]; return true;
    case OP_XOR: *out = v[0] ^ v[1]; return true;
    case OP_NOT: *out = pred ? !v[0] : ~v[0]; return true;
    case OP_SHL: *out = v[1] > 31 ? 0 : v[0] << v[1]; return true;
    case OP_SHR: *out = v[0] >> (v[1] & 31); return v[1] <= 31 && (!sign || v[0] < 1u << 31);
    case OP_SETP:
        *out = sign ? compare(op->cmp, (i32)v[0], (i32)v[1]) : compare(op->cmp, v[0], v[1]);
        return true;
    default: return false;
    }
}

static bool register_value(Eval *e, int reg, int depth, u32 *out)
{
    const ThreadOp *op = e->single[reg];
    u32 v[3] = {0};
    if (!op || e->twice[reg] || e->fn->regs.at[reg].count != 1 || depth > DEPTH) return false;
    u8 class = e->fn->regs.at[reg].class;
    if (!e->known[reg]) {
        bool words = op->type == TT_S32 || op->type == TT_U32 || op->type == TT_B32 ||
                     op->type == TT_PRED;
        bool ok = words && (class == RC_B32 || class == RC_PRED) && op->nopnd <= 4;
        for (int i = 1; ok && i < op->nopnd; i++)
            ok = operand_value(e, &op->opnd[i], depth + 1, &v[i - 1]);
        ok = ok && compute(op, v, &e->value[reg]);
        e->known[reg] = ok ? 1 : 2;
    }
    *out = e->value[reg];
    return e->known[reg] == 1;
}

// ---- classes ------------------------------------------------------------------------------------

// What steers: conditions, guards, and numbers of barriers.
static void find_steering(const ThreadBlock *b, bool *steers)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->guard.kind == OPD_REG) steers[op->guard.reg] = true;
        bool asks = op->op == OP_IF || op->op == OP_BAR_SYNC || op->op == OP_BAR_ARRIVE;
        if (asks && op->opnd[0].kind == OPD_REG) steers[op->opnd[0].reg] = true;
        find_steering(&op->body, steers);
        find_steering(&op->other, steers);
    }
}

// The facts of one thread; what is not known is left out.
static int facts_of(Eval *e, const int *steering, int nsteering, FlowFact *fact)
{
    int n = 0;
    memset(e->known, 0, (size_t)e->fn->regs.n);
    for (int i = 0; i < nsteering && n < FACTS; i++) {
        u32 v;
        if (register_value(e, steering[i], 0, &v)) fact[n++] = (FlowFact){steering[i], v};
    }
    return n;
}

static bool same_facts(const FlowFact *x, const FlowFact *y, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i].reg != y[i].reg || x[i].value != y[i].value) return false;
    return true;
}

FlowThreads *flow_threads(Arena *a, const ThreadFn *fn, int *n)
{
    size_t regs = (size_t)fn->regs.n + 1;
    Eval e = {.fn = fn, .single = ARENA_ARRAY(a, const ThreadOp *, regs),
              .twice = ARENA_ARRAY(a, bool, regs), .known = ARENA_ARRAY(a, u8, regs),
              .value = ARENA_ARRAY(a, u32, regs)};
    bool *steers = ARENA_ARRAY(a, bool, regs);
    FlowThreads *all = ARENA_ARRAY(a, FlowThreads, CLASSES);
    int kind[CLASSES], last_warp[CLASSES], in_warp[CLASSES];
    int *steering = ARENA_ARRAY(a, int, regs), nsteering = 0;
    find_writes(&e, &fn->body);
    find_steering(&fn->body, steers);
    for (int r = 0; r < fn->regs.n; r++)
        if (steers[r]) steering[nsteering++] = r;
    u64 roles[FLOW_WARPS];
    *n = 0;
    for (int w = 0; w < MIN(fn->threads / 32, (int)FLOW_WARPS); w++) roles[w] = flow_roles(fn, w);
    for (int t = 0; t < fn->threads; t++) {
        FlowFact fact[FACTS];
        e.tid = (u32)t;
        int facts = facts_of(&e, steering, nsteering, fact), k = 0;
        while (k < *n && (roles[kind[k]] != roles[t / 32] || all[k].nfacts != facts ||
                          !same_facts(all[k].fact, fact, facts))) k++;
        if (k == CLASSES) {
            *n = 0;
            return all;
        }
        if (k == *n) {
            FlowFact *own = ARENA_ARRAY(a, FlowFact, facts + 1);
            memcpy(own, fact, sizeof *own * (size_t)facts);
            all[(*n)++] = (FlowThreads){.tid = t, .fact = own, .nfacts = facts};
            kind[k] = t / 32;
            last_warp[k] = -1;
        }
        all[k].count++;
        all[k].warps |= 1u << t / 32;
        in_warp[k] = last_warp[k] == t / 32 ? in_warp[k] + 1 : 1;
        last_warp[k] = t / 32;
        all[k].lanes = MAX(all[k].lanes, in_warp[k]);
    }
    return all;
}

// ---- what differs between threads ---------------------------------------------------------------

static bool operand_varies(const Operand *o, const bool *varying)
{
    if (o->kind == OPD_SREG) return o->reg == SR_TID || o->reg == SR_LANE;
    return o->kind == OPD_REG && varying[o->reg];
}

// Marks what is written from something that varies, read from memory, or under a condition that
// varies. True when a mark is new.
static bool spread(const ThreadBlock *b, int warp, bool under, bool *varying)
{
    bool news = false;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_ROLE && (warp < op->imm || warp >= op->imm + op->n)) continue;
        bool varies = under || operand_varies(&op->guard, varying);
        if (op->op == OP_FOR || op->op == OP_IF)
            for (int k = op->op == OP_FOR; k < op->nopnd; k++)
                varies |= operand_varies(&op->opnd[k], varying);
        if (is_region(op)) {
            if (op->op == OP_FOR && varies && !varying[op->opnd[0].reg])
                news = varying[op->opnd[0].reg] = true;
            news |= spread(&op->body, warp, varies, varying);
            news |= spread(&op->other, warp, varies, varying);
            continue;
        }
        u8 use[OPERANDS] = {USE_NONE};
        flow_uses(op, use, OPERANDS);
        int n = MIN(op->nopnd, (int)OPERANDS);
        varies |= thread_op[op->op].effect != EFF_PURE;
        for (int k = 0; k < n; k++)
            varies |= use[k] == USE_READ && operand_varies(&op->opnd[k], varying);
        for (int k = 0; k < n && varies; k++) {
            const Operand *o = &op->opnd[k];
            if (o->kind != OPD_REG || use[k] == USE_READ || use[k] == USE_NONE) continue;
            if (!varying[o->reg]) news = varying[o->reg] = true;
        }
    }
    return news;
}

bool *flow_varying(Arena *a, const ThreadFn *fn, int warp)
{
    bool *varying = ARENA_ARRAY(a, bool, fn->regs.n + 1);
    while (spread(&fn->body, warp, false, varying)) continue;
    return varying;
}
