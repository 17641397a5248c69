// steer.c - goes through a kernel once, loops included, and writes down what steers it.
//
// One environment holds a term for each element of each register. Code under a condition is gone
// through for both outcomes and the environments are merged by select; a role is a condition on the
// warp. The body of a loop is gone through once, with leaves for what it changes.
//
// Invariant: a value that no term can tell is TERM_UNKNOWN or a LEAF_DATA that names where it was
// made; floats are never looked at.
#include "steer.h"

#include <string.h>

enum { NEST_MAX = 200, STEPS_MAX = 4000000, LOOP_CHANGES_MAX = 1 << 20 };

typedef struct {
    Steer *s;
    const ThreadFn *fn;
    Terms *t;
    Term *env;           // per element
    int *base;           // per register: its first element
    int elements;
    i64 *unroll;         // per unroll variable
    bool *stored;        // per buffer: the kernel writes it
    const ThreadOp *role;
    int loop;            // innermost; -1
    VEC(SteerFact) facts; // conditions around, innermost last
    i64 steps;
    i64 changes;         // entries of all loops
} Walk;

SteerCarried *steer_carried(const Steer *s, Term leaf, int *loop)
{
    u64 key = term_leaf_key(s->terms, leaf);
    *loop = (int)(key >> 32);
    return &s->loops.at[key >> 32].carried.at[(u32)key];
}

static void refuse(Walk *w, const ThreadOp *op)
{
    if (!w->s->refused) w->s->refused = op;
}

// ---- what matters -------------------------------------------------------------------------------

static bool matters_alone(const ThreadOp *op)
{
    switch (op->op) {
    case OP_EXIT: case OP_LDS: case OP_STS: case OP_LDMATRIX: case OP_STMATRIX: case OP_ATOMS:
    case OP_CASS:
        return true;
    case OP_SHFL: case OP_VOTE: case OP_PRINT: return false;
    default: break;
    }
    u8 e = thread_op[op->op].effect;
    return e == EFF_ASYNC || e == EFF_SYNC;
}

static bool any_in(const ThreadBlock *b, bool (*is)(const ThreadOp *));

bool steer_matters(const ThreadOp *op)
{
    return matters_alone(op) || any_in(&op->body, steer_matters) ||
           any_in(&op->other, steer_matters);
}

// A use of values that binds what was loaded.
static bool uses(const ThreadOp *op)
{
    return op->op == OP_STG || op->op == OP_ATOMG || op->op == OP_CASG || any_in(&op->body, uses) ||
           any_in(&op->other, uses);
}

static bool any_in(const ThreadBlock *b, bool (*is)(const ThreadOp *))
{
    for (int i = 0; i < b->n; i++)
        if (is(b->at[i])) return true;
    return false;
}

// ---- operands -----------------------------------------------------------------------------------

static i64 affine(const Walk *w, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += o->term[i].coef * w->unroll[o->term[i].var];
    return v;
}

static int element_of(const Walk *w, const Operand *o, int k)
{
    i64 at = affine(w, o) + k;
    if (at < 0 || at >= w->fn->regs.at[o->reg].count) at = 0; // refused by the checker
    return w->base[o->reg] + (int)at;
}

static Term op2(Walk *w, ThreadOpcode op, ThreadType type, Term a, Term b)
{
    ThreadOp o = {.op = op, .type = type};
    return a && b ? term_op(w->t, &o, 0, a, b, 0) : TERM_UNKNOWN;
}

static Term not(Walk *w, Term p)
{
    ThreadOp o = {.op = OP_NOT, .type = TT_PRED};
    return p ? term_op(w->t, &o, 0, p, 0, 0) : TERM_UNKNOWN;
}

static Term special(Walk *w, int reg)
{
    Terms *t = w->t;
    if (reg == SR_SMEM) return term_const(t, 0);
    if (reg == SR_CLUSTER_RANK && w->fn->cluster <= 1) return term_const(t, 0);
    if (reg == SR_CTAID_X && w->fn->cluster > 1) {
        // Blocks of a cluster are neighbours in x.
        ThreadOp mad = {.op = OP_MAD, .type = TT_U32};
        return term_op(t, &mad, 0, term_leaf(t, LEAF_SREG, SR_CTAID_X),
                       term_const(t, (u64)w->fn->cluster),
                       term_leaf(t, LEAF_SREG, SR_CLUSTER_RANK));
    }
    return term_leaf(t, LEAF_SREG, (u64)reg);
}

static Term operand(Walk *w, const Operand *o)
{
    switch (o->kind) {
    case OPD_REG: {
        Term v = w->env[element_of(w, o, 0)];
        return o->negate ? not(w, v) : v;
    }
    case OPD_IMM: return term_const(w->t, (u64)affine(w, o));
    case OPD_SREG: return special(w, o->reg);
    case OPD_PARAM: return term_leaf(w->t, LEAF_PARAM, (u64)o->reg);
    default: return TERM_UNKNOWN;
    }
}

static Term fresh(Walk *w, const ThreadOp *op)
{
    vec_push(w->s->arena, &w->s->data, ((SteerData){op, w->loop}));
    return term_leaf(w->t, LEAF_DATA, (u64)w->s->data.n - 1);
}

static ThreadType class_type(u8 class)
{
    return class == RC_PRED ? TT_PRED
           : class == RC_B16 ? TT_B16
           : class == RC_B64 ? TT_B64
                             : TT_B32;
}

static Term merge(Walk *w, u8 class, Term p, Term yes, Term no)
{
    ThreadOp o = {.op = OP_SELP, .type = (u8)class_type(class)};
    if (yes == no) return yes;
    if (!yes || !no || !p) return TERM_UNKNOWN;
    return term_op(w->t, &o, 0, yes, no, p);
}

// The guard of the operation under way: TERM_UNKNOWN: none.
static void set(Walk *w, const Operand *o, int k, Term v, Term guard)
{
    int e = element_of(w, o, k);
    u8 class = w->fn->regs.at[o->reg].class;
    if (class == RC_F32) v = TERM_UNKNOWN;
    w->env[e] = guard ? merge(w, class, guard, v, w->env[e]) : v;
}

static void root(Walk *w, SteerRootKind kind, Term t, const ThreadOp *op, int own)
{
    u64 v;
    if (t && term_value(w->t, t, &v)) return; // a number steers alike in all rounds
    vec_push(w->s->arena, &w->s->roots, ((SteerRoot){t, (u8)kind, w->loop, own, op}));
}

// ---- operations ---------------------------------------------------------------------------------

// What the kernel only reads is the same whenever it is read. Lanes with places of their own get
// values of their own.
static Term load_global(Walk *w, const ThreadOp *op, int k)
{
    bool steady = op->nmem && !w->stored[op->mem[0].buffer];
    Term base = operand(w, &op->opnd[1]), off = operand(w, &op->opnd[2]);
    if (!steady || !base || !off || (op->type != TT_B32 && op->type != TT_B64)) return fresh(w, op);
    int bytes = op->type == TT_B64 ? 8 : 4;
    Term more = op2(w, OP_ADD, TT_U64, off, term_const(w->t, (u64)(k * bytes)));
    return term_leaf(w->t, LEAF_LOAD, term_tuple(w->t, base, more));
}

static void destinations(Walk *w, const ThreadOp *op, Term guard)
{
    const char *sig = thread_op[op->op].sig;
    for (int i = 0, k = 0; sig[i] && k < op->nopnd; i++) {
        const Operand *o = &op->opnd[k];
        bool address = sig[i] == 'S' || sig[i] == 'G' || sig[i] == 'B';
        k += address ? 2 : 1;
        if (!strchr("dPFR", sig[i]) || o->kind != OPD_REG) continue;
        bool number = w->fn->regs.at[o->reg].class != RC_F32;
        for (int e = 0; e < o->count; e++)
            set(w, o, e,
                !number ? TERM_UNKNOWN : op->op == OP_LDG ? load_global(w, op, e) : fresh(w, op),
                guard);
    }
}

// The number of a block's cluster: what its blocks have in common.
static bool is_cluster(Walk *w, const ThreadOp *op, const Term *v)
{
    u64 n;
    bool shift = op->op == OP_SHR;
    return w->fn->cluster > 1 && (shift || op->op == OP_DIV) && v[0] == special(w, SR_CTAID_X) &&
           term_value(w->t, v[1], &n) && n < 32 && (shift ? 1u << n : n) == (u32)w->fn->cluster;
}

static void arithmetic(Walk *w, const ThreadOp *op, Term guard)
{
    int dests = op->op == OP_UNPACK ? 2 : 1, n = op->nopnd - dests;
    Term v[3] = {0};
    bool lost = n < 1 || n > 3 || op->type == TT_F32;
    for (int i = 0; !lost && i < n; i++) lost = !(v[i] = operand(w, &op->opnd[dests + i]));
    for (int d = 0; d < dests; d++) {
        Term r = lost ? TERM_UNKNOWN
                 : op->op == OP_LDPARAM ? v[0]
                 : is_cluster(w, op, v) ? term_leaf(w->t, LEAF_SREG, SR_CTAID_X)
                                        : term_op(w->t, op, d, v[0], v[1], v[2]);
        set(w, &op->opnd[d], 0, r, guard);
    }
}

static void vote(Walk *w, const ThreadOp *op, Term guard)
{
    u64 n;
    Term p = operand(w, &op->opnd[1]);
    bool known = p && term_value(w->t, p, &n);
    set(w, &op->opnd[0], 0, !p || known ? p : term_op(w->t, op, 0, p, 0, 0), guard);
}

// Notes the handoff, and in all loops around that they steer.
static void note_handoff(Walk *w, const ThreadOp *op)
{
    SteerHandoff h = {.op = op, .role = w->role, .inside = w->loop, .buffer = -1};
    for (int l = w->loop; l >= 0; l = w->s->loops.at[l].outer) {
        SteerLoop *loop = &w->s->loops.at[l];
        loop->steers = true;
        if (op->op == OP_EXIT && !loop->leaves) loop->leaves = op;
    }
    if (op->op == OP_MBAR_INIT) return;
    for (int i = 0; i < w->facts.n; i++) vec_push(w->s->arena, &h.facts, w->facts.at[i]);
    if (op->op == OP_BAR_SYNC || op->op == OP_BAR_ARRIVE) {
        h.id = operand(w, &op->opnd[0]);
        vec_push(w->s->arena, &w->s->handoffs, h);
    }
    for (int i = 0; i < op->nmem; i++) {
        h.buffer = op->mem[i].buffer;
        if (w->fn->buffers.at[h.buffer].kind == BUF_MBAR)
            vec_push(w->s->arena, &w->s->handoffs, h);
    }
}

static void steering(Walk *w, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    bool counts = op->op == OP_MBAR_INIT || op->op == OP_MBAR_ARRIVE_EXPECT ||
                  op->op == OP_MBAR_EXPECT || op->op == OP_MBAR_WAIT ||
                  op->op == OP_MBAR_ARRIVE_CLUSTER || op->op == OP_BAR_SYNC ||
                  op->op == OP_BAR_ARRIVE;
    note_handoff(w, op);
    for (int i = 0, k = 0; sig[i] && k < op->nopnd; i++) {
        bool address = sig[i] == 'S' || sig[i] == 'B';
        if (address || sig[i] == 'L' || (sig[i] == 'x' && counts))
            root(w, ROOT_VALUE, operand(w, &op->opnd[k]), op, -1);
        if (address) root(w, ROOT_VALUE, operand(w, &op->opnd[k + 1]), op, -1);
        k += address || sig[i] == 'G' ? 2 : 1;
        if (sig[i] == 'C') k += op->n - 1;
    }
}

// ---- structure ----------------------------------------------------------------------------------

static void walk_block(Walk *w, const ThreadBlock *b, int depth);

// A condition as a term; one that nothing is known about is data of this place.
static Term condition(Walk *w, const ThreadOp *op, const Operand *o)
{
    Term p = operand(w, o);
    return p ? p : fresh(w, op);
}

static Term *copy_env(Walk *w)
{
    Term *c = ARENA_ARRAY(w->s->arena, Term, w->elements + 1);
    return memcpy(c, w->env, sizeof *c * (size_t)w->elements);
}

// `w->env` is what comes out of the other way.
static void merge_env(Walk *w, Term p, const Term *yes)
{
    for (int r = 0; r < w->fn->regs.n; r++)
        for (int e = w->base[r]; e < w->base[r] + w->fn->regs.at[r].count; e++)
            if (yes[e] != w->env[e])
                w->env[e] = merge(w, w->fn->regs.at[r].class, p, yes[e], w->env[e]);
}

static void branch(Walk *w, Term p, bool is, const ThreadBlock *b, int depth)
{
    vec_push(w->s->arena, &w->facts, ((SteerFact){p, is}));
    walk_block(w, b, depth);
    w->facts.n--;
}

static void walk_if(Walk *w, const ThreadOp *op, int depth)
{
    Term p = condition(w, op, &op->opnd[0]);
    u64 v;
    if (term_value(w->t, p, &v)) {
        walk_block(w, v & 1 ? &op->body : &op->other, depth);
        return;
    }
    if (steer_matters(op)) root(w, ROOT_CHOICE, p, op, -1);
    else if (uses(op)) root(w, ROOT_USE, p, op, -1);
    Term *before = copy_env(w);
    branch(w, p, true, &op->body, depth);
    Term *yes = w->env;
    w->env = before;
    branch(w, p, false, &op->other, depth);
    merge_env(w, p, yes);
}

static void walk_role(Walk *w, const ThreadOp *op, int depth)
{
    const ThreadOp *role = w->role;
    if (!op->imm && op->n == w->fn->threads / 32) {
        walk_block(w, &op->body, depth);
        return;
    }
    Term *before = copy_env(w);
    w->role = op;
    walk_block(w, &op->body, depth);
    w->role = role;
    Term *yes = w->env;
    w->env = before;
    merge_env(w, term_leaf(w->t, LEAF_ROLE, (u64)op->imm << 16 | op->n), yes);
}

static void mark_written(Walk *w, const ThreadBlock *b, bool *written);

static void mark_operand(Walk *w, const Operand *o, bool *written)
{
    if (o->kind != OPD_REG || w->fn->regs.at[o->reg].class == RC_F32) return;
    for (int k = 0; k < (o->nterms ? 1 : o->count); k++) {
        int e = element_of(w, o, k);
        if (!o->nterms) written[e] = true;
    }
    for (int k = 0; o->nterms && k < w->fn->regs.at[o->reg].count; k++)
        written[w->base[o->reg] + k] = true;
}

static void mark_op(Walk *w, const ThreadOp *op, bool *written)
{
    const char *sig = thread_op[op->op].sig;
    if (op->op == OP_FOR && op->nopnd) mark_operand(w, &op->opnd[0], written);
    for (int i = 0, k = 0; sig[i] && sig[i] != '*' && k < op->nopnd; i++) {
        if (strchr("dPFR", sig[i])) mark_operand(w, &op->opnd[k], written);
        k += strchr("SGB", sig[i]) ? 2 : 1;
    }
    mark_written(w, &op->body, written);
    mark_written(w, &op->other, written);
}

static void mark_written(Walk *w, const ThreadBlock *b, bool *written)
{
    for (int i = 0; i < b->n; i++) mark_op(w, b->at[i], written);
}

static i64 rounds_of(Walk *w, Term lo, Term hi, i64 step)
{
    u64 a, b;
    if (!lo || !hi || !term_value(w->t, lo, &a) || !term_value(w->t, hi, &b)) return -1;
    i64 span = (i64)(i32)(u32)b - (i32)(u32)a;
    return span <= 0 ? 0 : (span + step - 1) / step;
}

// Leaves for what the body writes. Returns the index of the loop.
static int open_loop(Walk *w, const ThreadOp *op, const bool *written)
{
    Steer *s = w->s;
    int index = s->loops.n;
    int counter = element_of(w, &op->opnd[0], 0);
    int bound = op->opnd[2].kind == OPD_REG ? element_of(w, &op->opnd[2], 0) : -1;
    SteerLoop l = {.op = op, .role = w->role, .outer = w->loop, .lo = operand(w, &op->opnd[1]),
                   .hi = operand(w, &op->opnd[2]), .step = op->opnd[3].base, .counter = -1,
                   .bound = -1};
    l.rounds = bound >= 0 && written[bound] ? -1 : rounds_of(w, l.lo, l.hi, l.step);
    l.counter_written = written[counter];
    for (int i = 0; i < w->facts.n; i++) vec_push(s->arena, &l.facts, w->facts.at[i]);
    for (int r = 0; r < w->fn->regs.n; r++)
        for (int e = w->base[r]; e < w->base[r] + w->fn->regs.at[r].count; e++) {
            if (!written[e] && e != counter) continue;
            int k = l.carried.n;
            SteerCarried c = {.reg = r, .first = e == counter ? l.lo : w->env[e],
                              .head = term_leaf(w->t, LEAF_HEAD, steer_key(index, k)),
                              .exit = term_leaf(w->t, LEAF_EXIT, steer_key(index, k))};
            if (e == counter) l.counter = k;
            if (e == bound) l.bound = k;
            w->env[e] = c.head;
            vec_push(s->arena, &l.carried, c);
        }
    w->changes += l.carried.n;
    vec_push(s->arena, &s->loops, l);
    return index;
}

static void close_loop(Walk *w, int index, const bool *written)
{
    SteerLoop *l = &w->s->loops.at[index];
    int counter = element_of(w, &l->op->opnd[0], 0), k = 0;
    for (int r = 0; r < w->fn->regs.n; r++)
        for (int e = w->base[r]; e < w->base[r] + w->fn->regs.at[r].count; e++) {
            if (!written[e] && e != counter) continue;
            SteerCarried *c = &l->carried.at[k++];
            Term v = w->env[e];
            if (e == counter) v = op2(w, OP_ADD, TT_S32, v, term_const(w->t, (u64)l->step));
            c->next = v;
            // What a round leaves as it was is behind the loop what it was before it.
            w->env[e] = v == c->head ? c->first : c->exit;
        }
}

static void walk_for(Walk *w, const ThreadOp *op, int depth)
{
    if (op->nopnd != 4 || op->opnd[0].kind != OPD_REG || op->opnd[3].base < 1 ||
        w->changes > LOOP_CHANGES_MAX) {
        refuse(w, op);
        return;
    }
    bool *written = ARENA_ARRAY(w->s->arena, bool, w->elements + 1);
    int outer = w->loop;
    mark_written(w, &op->body, written);
    int index = open_loop(w, op, written);
    bool matters = any_in(&op->body, steer_matters);
    SteerLoop *l = &w->s->loops.at[index];
    bool conditional = l->bound >= 0;
    SteerRootKind kind = matters ? ROOT_CHOICE : ROOT_USE;
    if (matters || any_in(&op->body, uses)) {
        Term lo = l->lo ? l->lo : fresh(w, op), hi = l->hi ? l->hi : fresh(w, op);
        root(w, kind, lo, op, index);
        root(w, kind, hi, op, index);
    }
    w->loop = index;
    walk_block(w, &op->body, depth);
    close_loop(w, index, written);
    l = &w->s->loops.at[index]; // the vector may have moved
    if (conditional && (matters || any_in(&op->body, uses))) {
        Term next = l->carried.at[l->bound].next;
        root(w, kind, next ? next : fresh(w, op), op, index);
    }
    w->loop = outer;
}

static void walk_op(Walk *w, const ThreadOp *op, int depth)
{
    Term guard = TERM_UNKNOWN;
    if (++w->steps > STEPS_MAX) refuse(w, op);
    if (op->guard.kind == OPD_REG) {
        u64 v;
        guard = condition(w, op, &op->guard);
        if (term_value(w->t, guard, &v)) {
            if (!(v & 1)) return;
            guard = TERM_UNKNOWN;
        } else if (matters_alone(op)) {
            root(w, ROOT_CHOICE, guard, op, -1);
        } else if (uses(op)) {
            root(w, ROOT_USE, guard, op, -1);
        }
    }
    switch (op->op) {
    case OP_IF: walk_if(w, op, depth); return;
    case OP_FOR: walk_for(w, op, depth); return;
    case OP_ROLE: walk_role(w, op, depth); return;
    case OP_VOTE: vote(w, op, guard); return;
    case OP_UNROLL:
        for (int i = 0; i < op->n && !w->s->refused; i++) {
            w->unroll[op->imm] = i;
            walk_block(w, &op->body, depth);
        }
        return;
    default: break;
    }
    if (matters_alone(op)) steering(w, op);
    if (thread_op[op->op].effect == EFF_PURE && op->op != OP_TMA_PREFETCH && op->nopnd)
        arithmetic(w, op, guard);
    else
        destinations(w, op, guard);
}

static void walk_block(Walk *w, const ThreadBlock *b, int depth)
{
    if (depth > NEST_MAX) {
        refuse(w, b->n ? b->at[0] : NULL);
        return;
    }
    for (int i = 0; i < b->n && !w->s->refused; i++) walk_op(w, b->at[i], depth + 1);
}

static void find_stored(const ThreadFn *fn, const ThreadBlock *b, bool *stored)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool writes = op->op == OP_STG || op->op == OP_ATOMG || op->op == OP_CASG;
        for (int k = 0; writes && k < op->nmem; k++) {
            // Another buffer of the same parameter is the same memory.
            int param = fn->buffers.at[op->mem[k].buffer].param;
            for (int j = 0; j < fn->buffers.n; j++)
                if (fn->buffers.at[j].kind == BUF_GLOBAL && fn->buffers.at[j].param == param)
                    stored[j] = true;
        }
        find_stored(fn, &op->body, stored);
        find_stored(fn, &op->other, stored);
    }
}

// ---- what differs between threads ---------------------------------------------------------------

bool steer_by_thread(const Steer *s, Term x) { return x < s->by_thread_end && s->by_thread[x]; }

static bool is_by_thread(const Steer *s, Term x, const TermView *n)
{
    int loop;
    if (n->form != TERM_IS_LEAF)
        return steer_by_thread(s, n->a) || steer_by_thread(s, n->b) || steer_by_thread(s, n->c);
    switch (n->op) {
    case LEAF_SREG:
        return n->value == SR_TID || n->value == SR_LANE || n->value == SR_CLUSTER_RANK;
    case LEAF_LOAD: return steer_by_thread(s, (Term)n->value);
    case LEAF_HEAD:
    case LEAF_EXIT: {
        const SteerCarried *c = steer_carried(s, x, &loop);
        const SteerLoop *l = &s->loops.at[loop];
        return steer_by_thread(s, c->first) || steer_by_thread(s, c->next) ||
               (n->op == LEAF_EXIT && (steer_by_thread(s, l->lo) || steer_by_thread(s, l->hi)));
    }
    default: return n->op == LEAF_ROLE;
    }
}

static void find_by_thread(Steer *s)
{
    s->by_thread_end = terms_end(s->terms);
    s->by_thread = ARENA_ARRAY(s->arena, bool, s->by_thread_end + 1);
    for (bool more = true; more;) {
        more = false;
        for (Term x = 1; x < s->by_thread_end; x++) {
            TermView n = term_view(s->terms, x);
            if (s->by_thread[x] || n.form == TERM_IS_CONST || !is_by_thread(s, x, &n)) continue;
            s->by_thread[x] = more = true;
        }
    }
}

// Keeps the conditions on the thread's number.
static void keep_by_thread(const Steer *s, SteerHandoff *h)
{
    int k = 0;
    for (int i = 0; i < h->facts.n; i++)
        if (steer_by_thread(s, h->facts.at[i].term)) h->facts.at[k++] = h->facts.at[i];
    h->facts.n = k;
}

Steer *steer_new(Arena *a, const ThreadFn *fn)
{
    Steer *s = ARENA_NEW(a, Steer);
    *s = (Steer){.arena = a, .fn = fn, .terms = terms_new(a)};
    Walk w = {.s = s, .fn = fn, .t = s->terms, .loop = -1};
    w.base = ARENA_ARRAY(a, int, fn->regs.n + 1);
    for (int i = 0; i < fn->regs.n; i++) {
        w.base[i] = w.elements;
        w.elements += fn->regs.at[i].count;
    }
    w.env = ARENA_ARRAY(a, Term, w.elements + 1);
    w.unroll = ARENA_ARRAY(a, i64, fn->unrolls.n + 1);
    w.stored = ARENA_ARRAY(a, bool, fn->buffers.n + 1);
    find_stored(fn, &fn->body, w.stored);
    walk_block(&w, &fn->body, 0);
    find_by_thread(s);
    for (int i = 0; i < s->handoffs.n; i++) keep_by_thread(s, &s->handoffs.at[i]);
    return s;
}
