// walk.c - the kernel run once with unknowns: every region is entered, with what its condition says
// added to the way; registers hold expressions, memory nothing.
//
// What a loop carries from round to round is looked for first (carried_of): a register that grows
// by a constant has the value start + constant * round, one that never falls keeps its start as a
// lower bound, every other one is an unknown. What is computed otherwise (from floats, by shuffles,
// from registers that form arrays) is an unknown when somebody asks for it.
//
// In: a checked kernel. Out: its accesses in program order, each with its conditions.
#include "space.h"
#include "../thread/text.h"

#include <string.h>

enum {
    LANES = 32,
    BUDGET = 400000, // operations: nested loops are walked a few times each
    BOUND_TRIES = 4, // walks of a loop to find bounds of what it carries
    NAME_KIND = 1 << 20,
};
enum { NAME_REG, NAME_SREG };

// What a register holds: NULL: nothing yet; `unknowable`: a value without an expression.
static const Expr unknowable;

typedef struct {
    Space *s;
    const ThreadFn *fn;
    AccessList *out;
    bool record;       // off in the first walk of a loop
    const Expr **reg;  // per register of count 1
    const Expr **copy; // per unroll variable; NULL: not in force
    Map *names;        // interned name of the module -> kind * NAME_KIND + index + 1
    ExprList path;     // conditions of the regions around
    ExprList alive;    // threads for which these fail have left
    UnknownList inst;  // rounds and copies around
    bool left_unclear; // some left under conditions that cannot be said from outside
} Walk;

// ---- values -------------------------------------------------------------------------------------

static Unknown *fresh_value(Walk *w, const char *shown, RegClass class)
{
    static const i64 lo[RC_COUNT] = {0, 0, INT32_MIN, -((i64)1 << 62), 0};
    static const i64 hi[RC_COUNT] = {1, 65535, INT32_MAX, (i64)1 << 62, 0};
    return space_fresh(w->s, UNKNOWN_VALUE, shown, lo[class], hi[class]);
}

// The value of a register as somebody needs it: one that has none becomes an unknown, and stays it.
static const Expr *fetch(Walk *w, int reg)
{
    const ThreadReg *r = &w->fn->regs.at[reg];
    if (r->count > 1 || r->class == RC_F32) return fresh_value(w, r->name, r->class)->var;
    if (!w->reg[reg] || w->reg[reg] == &unknowable)
        w->reg[reg] = fresh_value(w, r->name, r->class)->var;
    return w->reg[reg];
}

static const Expr *global(Walk *w, const char *name)
{
    return map_get(w->s->globals, intern(w->s->names, name));
}

// NULL: it has no expression (the address of the shared arena).
static const Expr *special(Walk *w, SpecialReg r)
{
    ExprPool *p = w->s->pool;
    switch (r) {
    case SR_SMEM: return NULL;
    case SR_LANE: return expr_bin(p, EX_MOD, global(w, "tid"), expr_const(p, LANES));
    case SR_CLUSTER_RANK:
        return expr_bin(p, EX_MOD, global(w, "ctaid.x"), expr_const(p, MAX(w->fn->cluster, 1)));
    default: return global(w, special_reg_name[r]);
    }
}

static const Expr *index_value(Walk *w, const Operand *o)
{
    ExprPool *p = w->s->pool;
    const Expr *v = expr_const(p, o->base);
    for (int i = 0; i < o->nterms; i++)
        v = expr_add(p, v, expr_mul(p, w->copy[o->term[i].var], expr_const(p, o->term[i].coef)));
    return v;
}

// NULL when it is not followed.
static const Expr *operand(Walk *w, const Operand *o)
{
    switch (o->kind) {
    case OPD_IMM: return index_value(w, o);
    case OPD_SREG: return special(w, (SpecialReg)o->reg);
    case OPD_PARAM: return global(w, w->fn->params.at[o->reg].name);
    case OPD_REG: break;
    default: return NULL;
    }
    const Expr *v = w->fn->regs.at[o->reg].count > 1 ? NULL : w->reg[o->reg];
    if (!v || v == &unknowable) return NULL;
    return o->negate ? space_not(w->s, v) : v;
}

// A predicate, as an unknown truth where it is not followed.
static const Expr *predicate(Walk *w, const Operand *o)
{
    const Expr *v = operand(w, o);
    if (v) return v;
    v = fetch(w, o->reg);
    return o->negate ? space_not(w->s, v) : v;
}

// A coordinate of the module over the unknowns of the space.
static const Expr *resolve(Walk *w, const Expr *e)
{
    ExprPool *p = w->s->pool;
    if (e->op == EX_CONST) return expr_const(p, e->value);
    if (e->op != EX_VAR) {
        const Expr *a = resolve(w, e->a), *b = resolve(w, e->b);
        if (e->op == EX_SELECT) return expr_select(p, a, b, resolve(w, e->c));
        return expr_bin(p, e->op, a, b);
    }
    const Expr *v = NULL;
    if (*e->name == '$') {
        for (int i = 0; i < w->fn->unrolls.n && !v; i++)
            if (w->copy[i] && strcmp(w->fn->unrolls.at[i], e->name + 1) == 0) v = w->copy[i];
    } else {
        int code = (int)(intptr_t)map_get(w->names, e->name) - 1;
        if (code >= 0 && code / NAME_KIND == NAME_REG) return fetch(w, code % NAME_KIND);
        v = code >= 0 ? special(w, (SpecialReg)(code % NAME_KIND)) : global(w, e->name);
    }
    return v ? v : fresh_value(w, e->name, RC_B32)->var;
}

// ---- arithmetic ---------------------------------------------------------------------------------

static bool is_unsigned(ThreadType t) { return t == TT_U32 || t == TT_U64 || t == TT_U16; }

static bool not_negative(Walk *w, const Expr *e)
{
    i64 lo, hi;
    expr_range(w->s->pool, e, &lo, &hi);
    return lo >= 0;
}

// Unsigned order is that of whole numbers where neither side is negative; a side that may be is
// above every other one, so `a < b` says `0 <= a < b` when b is not negative.
static const Expr *compare(Walk *w, const ThreadOp *op, const Expr *a, const Expr *b)
{
    ExprPool *p = w->s->pool;
    ThreadCmp cmp = (ThreadCmp)op->cmp;
    if (cmp == CMP_GT || cmp == CMP_GE) {
        const Expr *t = a;
        a = b;
        b = t;
        cmp = cmp == CMP_GT ? CMP_LT : CMP_LE;
    }
    if (cmp == CMP_EQ || cmp == CMP_NE) return expr_bin(p, cmp == CMP_EQ ? EX_EQ : EX_NE, a, b);
    const Expr *c = expr_bin(p, cmp == CMP_LT ? EX_LT : EX_LE, a, b);
    if (!is_unsigned(op->type)) return c;
    const Expr *zero = expr_const(p, 0);
    if (not_negative(w, b))
        return not_negative(w, a) ? c : expr_bin(p, EX_LAND, expr_bin(p, EX_LE, zero, a), c);
    // a below a b that may be negative, hence large
    if (not_negative(w, a)) return expr_bin(p, EX_LOR, expr_bin(p, EX_LT, b, zero), c);
    return NULL;
}

// a & mask for a mask of `high - low` ones from bit `low` on. Of a number that may be negative the
// low bits are a remainder that is not.
static const Expr *masked(Walk *w, const Expr *a, int low, int high)
{
    ExprPool *p = w->s->pool;
    const Expr *unit = expr_const(p, (i64)1 << low), *all = expr_const(p, (i64)1 << high);
    if (not_negative(w, a)) {
        a = expr_bin(p, EX_DIV, expr_bin(p, EX_MOD, a, all), unit);
    } else {
        Unknown *rest = space_fresh(w->s, UNKNOWN_VALUE, "bits", 0, all->value - 1);
        Unknown *times = fresh_value(w, "bits", RC_B32);
        space_fact(w->s, rest,
                   expr_bin(p, EX_EQ, a, expr_add(p, rest->var, expr_mul(p, times->var, all))));
        a = expr_bin(p, EX_DIV, rest->var, unit);
    }
    return expr_mul(p, a, unit);
}

static const Expr *bitwise(Walk *w, const ThreadOp *op, const Expr *a, const Expr *b)
{
    ExprPool *p = w->s->pool;
    i64 mask;
    if (op->type == TT_PRED) {
        if (op->op == OP_XOR) return expr_bin(p, EX_NE, a, b);
        return expr_bin(p, op->op == OP_AND ? EX_LAND : EX_LOR, a, b);
    }
    if (expr_is_const(a, &mask)) {
        const Expr *t = a;
        a = b;
        b = t;
    }
    if (op->op == OP_AND && expr_is_const(b, &mask) && mask > 0 && mask <= INT32_MAX) {
        int low = __builtin_ctzll((u64)mask), high = 64 - __builtin_clzll((u64)mask);
        if (mask == ((i64)1 << high) - ((i64)1 << low)) return masked(w, a, low, high);
    }
    if (!not_negative(w, a) || !not_negative(w, b)) return NULL;
    return expr_bin(p, op->op == OP_AND ? EX_AND : op->op == OP_OR ? EX_OR : EX_XOR, a, b);
}

static bool is_shift(const Expr *b, i64 *by)
{
    return expr_is_const(b, by) && *by >= 0 && *by < 32;
}

// The value of an operation on whole numbers; NULL: not followed.
static const Expr *value_of(Walk *w, const ThreadOp *op, const Expr *const *in)
{
    ExprPool *p = w->s->pool;
    const Expr *a = in[0], *b = in[1], *c = in[2];
    i64 by;
    bool plain = !is_unsigned(op->type) || (a && b && not_negative(w, a) && not_negative(w, b));
    switch (op->op) {
    case OP_MOV:
    case OP_LDPARAM: return a;
    case OP_CVT: return op->type2 == TT_U32 && !not_negative(w, a) ? NULL : a;
    case OP_ADD: return expr_add(p, a, b);
    case OP_SUB: return expr_sub(p, a, b);
    case OP_MUL: return expr_mul(p, a, b);
    case OP_MULWIDE: return plain ? expr_mul(p, a, b) : NULL;
    case OP_MAD: return expr_add(p, expr_mul(p, a, b), c);
    case OP_NEG: return expr_sub(p, expr_const(p, 0), a);
    case OP_DIV: return plain ? expr_bin(p, EX_DIV, a, b) : NULL;
    case OP_REM: return plain ? expr_bin(p, EX_MOD, a, b) : NULL;
    case OP_MIN: return plain ? expr_bin(p, EX_MIN, a, b) : NULL;
    case OP_MAX: return plain ? expr_bin(p, EX_MAX, a, b) : NULL;
    case OP_AND:
    case OP_OR:
    case OP_XOR: return bitwise(w, op, a, b);
    case OP_NOT: return op->type == TT_PRED ? space_not(w->s, a) : NULL;
    case OP_SHL: return is_shift(b, &by) ? expr_mul(p, a, expr_const(p, (i64)1 << by)) : NULL;
    case OP_SHR:
        if (!is_shift(b, &by) || !not_negative(w, a)) return NULL;
        return expr_bin(p, EX_DIV, a, expr_const(p, (i64)1 << by));
    case OP_SETP: return compare(w, op, a, b);
    case OP_SELP: return expr_select(p, c, a, b);
    default: return NULL;
    }
}

// ---- registers ----------------------------------------------------------------------------------

// Under a guard the register keeps what it had where the guard is false.
static void assign(Walk *w, const ThreadOp *op, const Operand *d, const Expr *v)
{
    const ThreadReg *r = &w->fn->regs.at[d->reg];
    if (d->kind != OPD_REG || r->count > 1 || r->class == RC_F32) return;
    const Expr *old = w->reg[d->reg];
    bool known = v && v != &unknowable;
    if (op->guard.kind == OPD_NONE || !old) {
        w->reg[d->reg] = known ? v : &unknowable;
        return;
    }
    if (!known || (old == &unknowable && r->class == RC_B64)) {
        w->reg[d->reg] = &unknowable;
        return;
    }
    const Expr *g = predicate(w, &op->guard);
    w->reg[d->reg] = expr_select(w->s->pool, g, v, fetch(w, d->reg));
}

// Elements of workspaces do not change: the same place is the same unknown.
static const Expr *loaded(Walk *w, const ThreadOp *op, const Access *a)
{
    const ThreadBuffer *b = &w->fn->buffers.at[a->buffer];
    const ThreadReg *r = &w->fn->regs.at[op->opnd[0].reg];
    int tensor = space_tensor(w->s, b->param);
    if (r->count > 1 || r->class != RC_B32 || op->n != 1) return NULL;
    Unknown *u = NULL;
    if (op->op == OP_LDG && tensor >= 0 && b->rank <= 2 &&
        w->s->job->plan->params.at[tensor].kind == PLAN_WORKSPACE) {
        for (int i = 0; i < w->s->unknowns.n; i++) {
            u = w->s->unknowns.at[i];
            if (u->buffer == a->buffer && u->at[0] == a->at[0] &&
                (b->rank < 2 || u->at[1] == a->at[1]))
                return u->var;
        }
        u = fresh_value(w, b->name, RC_B32);
        u->buffer = a->buffer;
        for (int k = 0; k < b->rank; k++) u->at[k] = a->at[k];
        list_facts(w->s, u);
        return u->var;
    }
    return fresh_value(w, r->name, RC_B32)->var;
}

// ---- accesses -----------------------------------------------------------------------------------

// Bytes that one lane touches.
static int access_bytes(const ThreadOp *op)
{
    static const u8 bytes[RC_COUNT] = {0, 2, 4, 8, 4};
    int one = op->type == TT_B8 ? 1 : bytes[thread_type_class[op->type]];
    switch (op->op) {
    case OP_LDS:
    case OP_STS:
    case OP_LDG:
    case OP_STG: return op->n * one;
    case OP_LDMATRIX:
    case OP_STMATRIX: return 16;
    case OP_CPASYNC: return op->n;
    default: return one;
    }
}

static u8 touch_of(ThreadOpcode op, char letter)
{
    switch (op) {
    case OP_STS:
    case OP_STG:
    case OP_STMATRIX: return TOUCH_WRITE;
    case OP_ATOMS:
    case OP_ATOMG:
    case OP_CASS:
    case OP_CASG: return TOUCH_READ | TOUCH_WRITE | TOUCH_ATOMIC;
    case OP_CPASYNC:
    case OP_TMA_LOAD: return letter == 'S' ? TOUCH_WRITE : TOUCH_READ;
    default: return TOUCH_READ;
    }
}

// What surrounds the operation: conditions, and what tells its executions apart.
static Access access_here(Walk *w, const ThreadOp *op)
{
    Arena *arena = w->s->arena;
    Access a = {.op = op, .unclear = w->left_unclear};
    static const char *const block[3] = {"ctaid.x", "ctaid.y", "ctaid.z"};
    for (int k = 0; k < 3; k++) {
        const Expr *v = global(w, block[k]);
        if (v->op == EX_VAR) vec_push(arena, &a.inst, space_find(w->s, v));
    }
    vec_push(arena, &a.inst, space_find(w->s, global(w, "tid")));
    for (int i = 0; i < w->inst.n; i++) vec_push(arena, &a.inst, w->inst.at[i]);
    for (int i = 0; i < w->alive.n; i++) vec_push(arena, &a.path, w->alive.at[i]);
    for (int i = 0; i < w->path.n; i++) vec_push(arena, &a.path, w->path.at[i]);
    if (op->guard.kind != OPD_NONE) vec_push(arena, &a.path, predicate(w, &op->guard));
    return a;
}

// cp.async reads `x` of its bytes and fills the rest with zeros: every element below x is one.
static void limit_source(Walk *w, const ThreadOp *op, Access *a)
{
    ExprPool *p = w->s->pool;
    const Operand *x = &op->opnd[op->nopnd - 1];
    const Expr *n = operand(w, x);
    i64 v, elem = dtype_bytes[w->fn->buffers.at[a->buffer].type];
    if (n && expr_is_const(n, &v)) {
        if (!v) vec_push(w->s->arena, &a->path, expr_const(p, 0));
        a->count[a->rank - 1] = MAX((v + elem - 1) / elem, 1);
        return;
    }
    if (!n) n = fetch(w, x->reg);
    Unknown *k = space_fresh(w->s, UNKNOWN_COPY, "byte", 0, op->n / elem - 1);
    vec_push(w->s->arena, &a->path,
             expr_bin(p, EX_LT, expr_mul(p, k->var, expr_const(p, elem)), n));
    a->at[a->rank - 1] = expr_add(p, a->at[a->rank - 1], k->var);
    a->count[a->rank - 1] = 1;
}

// The place beside one address operand or descriptor.
static Access place(Walk *w, const ThreadOp *op, char letter, const MemRef *m, bool is_a)
{
    Access a = access_here(w, op);
    const ThreadBuffer *b = &w->fn->buffers.at[m->buffer];
    ExprPool *p = w->s->pool;
    a.touch = touch_of((ThreadOpcode)op->op, letter);
    a.buffer = m->buffer;
    a.rank = b->rank;
    for (int k = 0; k < b->rank; k++) {
        a.at[k] = resolve(w, m->coord[k]);
        a.count[k] = 1;
    }
    if (letter == 'L') {
        bool transposed = op->flags & (is_a ? OPF_TRANS_A : OPF_TRANS_B);
        i64 depth = 32 / dtype_bytes[b->type], extent = is_a ? 64 : op->n;
        a.count[b->rank - 2] = transposed ? depth : extent;
        a.count[b->rank - 1] = transposed ? extent : depth;
    } else if (b->kind != BUF_MBAR && op->op != OP_TMA_LOAD && op->op != OP_TMA_STORE && b->rank) {
        i64 elem = dtype_bytes[b->type];
        a.count[b->rank - 1] = MAX(access_bytes(op) / elem, 1);
        if (op->op == OP_CPASYNC && letter == 'G') limit_source(w, op, &a);
    }
    if ((op->op == OP_LDMATRIX || op->op == OP_STMATRIX) && op->n < 4)
        vec_push(w->s->arena, &a.path,
                 expr_bin(p, EX_LT, special(w, SR_LANE), expr_const(p, 8 * op->n)));
    return a;
}

// The global side of a bulk copy, in the coordinates of its tensor map.
static void box_access(Walk *w, const ThreadOp *op, const Operand *map, const Operand *coord)
{
    Access a = access_here(w, op);
    const PlanStep *step = w->s->job->step;
    a.buffer = -1;
    a.map_param = map->reg;
    a.touch = op->op == OP_TMA_LOAD ? TOUCH_READ : TOUCH_WRITE;
    a.rank = op->n;
    if (step && map->reg < step->args.n && step->args.at[map->reg].kind == ARG_TMAP)
        a.map = &step->tmaps.at[step->args.at[map->reg].index];
    for (int k = 0; k < op->n && k < 5; k++) {
        a.at[k] = operand(w, &coord[k]);
        if (!a.at[k]) a.at[k] = fetch(w, coord[k].reg);
        a.count[k] = a.map && k < a.map->rank ? a.map->box[k] : 1;
    }
    vec_push(w->s->arena, w->out, a);
}

static void record(Walk *w, const ThreadOp *op)
{
    int k = 0, m = 0, map = -1;
    for (const char *sig = thread_op[op->op].sig; *sig; sig++) {
        if (strchr("SGBL", *sig) && m < op->nmem) {
            Access a = place(w, op, *sig, &op->mem[m], op->op == OP_WGMMA_SS && m == 0);
            vec_push(w->s->arena, w->out, a);
            m++;
        }
        if (*sig == 'T') map = k;
        if (*sig == 'C' && map >= 0) box_access(w, op, &op->opnd[map], &op->opnd[k]);
        k += thread_sig_operands(op, *sig);
    }
}

// ---- operations ---------------------------------------------------------------------------------

static void walk_block(Walk *w, const ThreadBlock *b);

// Only lanes for which the conditions around hold leave; from inside a loop that cannot be said of
// what stands behind it.
static void walk_exit(Walk *w, const ThreadOp *op)
{
    ExprPool *p = w->s->pool;
    if (w->inst.n) {
        w->left_unclear = true;
        return;
    }
    const Expr *all = expr_const(p, 1);
    for (int i = 0; i < w->path.n; i++) all = expr_bin(p, EX_LAND, all, w->path.at[i]);
    if (op->guard.kind != OPD_NONE) all = expr_bin(p, EX_LAND, all, predicate(w, &op->guard));
    vec_push(w->s->arena, &w->alive, space_not(w->s, all));
}

// Is a destination an integer or a predicate that is followed?
static bool is_followed(Walk *w, const ThreadOp *op)
{
    if (!op->nopnd || op->opnd[0].kind != OPD_REG) return false;
    const ThreadReg *r = &w->fn->regs.at[op->opnd[0].reg];
    return r->count == 1 && r->class != RC_F32;
}

static bool is_float(ThreadType t) { return thread_type_class[t] == RC_F32 || t >= TT_F16; }

static void walk_op(Walk *w, const ThreadOp *op)
{
    const char *sig = thread_op[op->op].sig;
    int mems = w->out->n;
    if ((op->nmem || op->op == OP_TMA_STORE) && w->record) record(w, op);
    if (op->op == OP_EXIT) walk_exit(w, op);
    if (!is_followed(w, op) || !strchr("dPF", sig[0])) {
        if (op->op == OP_UNPACK) assign(w, op, &op->opnd[1], NULL);
        return;
    }
    const Expr *v = NULL, *in[3] = {NULL, NULL, NULL};
    if (op->op == OP_LDG || op->op == OP_LDS) {
        if (w->record) v = loaded(w, op, &w->out->at[mems]);
    } else if (thread_op[op->op].effect == EFF_PURE && op->op != OP_UNPACK &&
               !(op->op == OP_SETP && is_float(op->type)) &&
               !(op->op == OP_CVT && (is_float(op->type) || is_float(op->type2)))) {
        bool all = true;
        for (int k = 1; k < op->nopnd && k < 4; k++) {
            in[k - 1] = operand(w, &op->opnd[k]);
            const Operand *o = &op->opnd[k];
            bool copied = op->op == OP_MOV || op->op == OP_CVT;
            if (!in[k - 1] && copied && o->kind == OPD_REG && w->fn->regs.at[o->reg].count == 1 &&
                w->fn->regs.at[o->reg].class == RC_B32)
                in[k - 1] = fetch(w, o->reg);
            all &= in[k - 1] != NULL;
        }
        if (all) v = value_of(w, op, in);
    }
    assign(w, op, &op->opnd[0], v);
    if (op->op == OP_UNPACK) assign(w, op, &op->opnd[1], NULL);
}

// ---- what a block reads and writes -------------------------------------------------------------

enum { REG_ASSIGNED = 1, REG_EXPOSED = 2 };
typedef struct {
    u8 *killed; // certainly written before
    u8 *found;  // REG_ bits
} Scan;

static void see_names(Walk *w, Scan *n, const Expr *e)
{
    if (e->op == EX_VAR) {
        int code = (int)(intptr_t)map_get(w->names, e->name) - 1;
        if (code >= 0 && code / NAME_KIND == NAME_REG && !n->killed[code % NAME_KIND])
            n->found[code % NAME_KIND] |= REG_EXPOSED;
    }
    if (e->op == EX_VAR || e->op == EX_CONST) return;
    see_names(w, n, e->a);
    see_names(w, n, e->b);
    if (e->c) see_names(w, n, e->c);
}

static void see_operand(Scan *n, const Operand *o)
{
    if (o->kind == OPD_REG && !n->killed[o->reg]) n->found[o->reg] |= REG_EXPOSED;
}

static void see_assigned(Scan *n, const Operand *o, bool certain)
{
    if (o->kind != OPD_REG) return;
    n->found[o->reg] |= REG_ASSIGNED;
    if (certain) n->killed[o->reg] = 1;
}

// Registers that the block may read before it writes them, and all that it may write.
static void scan(Walk *w, const ThreadBlock *b, Scan *n)
{
    size_t regs = (size_t)w->fn->regs.n;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const char *sig = thread_op[op->op].sig;
        int first = op->op == OP_FOR ? 1 : 0;
        while (sig[first] && strchr("dPF", sig[first]) && op->op != OP_FOR) first++;
        see_operand(n, &op->guard);
        for (int k = first; k < op->nopnd; k++) see_operand(n, &op->opnd[k]);
        for (int k = 0; k < op->nmem; k++)
            for (int c = 0; c < op->mem[k].ncoord; c++) see_names(w, n, op->mem[k].coord[c]);
        for (int k = 0; k < first; k++)
            see_assigned(n, &op->opnd[k], op->guard.kind == OPD_NONE && op->opnd[k].count == 1);
        if (thread_op[op->op].effect != EFF_CTRL || op->op == OP_EXIT) continue;
        Scan one = *n, two = *n;
        if (op->op != OP_UNROLL) {
            one.killed = ARENA_ARRAY(w->s->arena, u8, regs + 1);
            memcpy(one.killed, n->killed, regs);
        }
        scan(w, &op->body, &one);
        if (op->op != OP_IF) continue;
        two.killed = ARENA_ARRAY(w->s->arena, u8, regs + 1);
        memcpy(two.killed, n->killed, regs);
        scan(w, &op->other, &two);
        for (size_t k = 0; k < regs; k++) n->killed[k] |= one.killed[k] & two.killed[k];
    }
}

// ---- regions ------------------------------------------------------------------------------------

static const Expr **regs_copy(Walk *w)
{
    const Expr **all = ARENA_ARRAY(w->s->arena, const Expr *, w->fn->regs.n + 1);
    memcpy(all, w->reg, sizeof *all * (size_t)w->fn->regs.n);
    return all;
}

static void walk_if(Walk *w, const ThreadOp *op)
{
    ExprPool *p = w->s->pool;
    const Expr *c = predicate(w, &op->opnd[0]), **before = regs_copy(w);
    i64 v;
    bool always = expr_is_const(c, &v) && v, never = expr_is_const(c, &v) && !v;
    if (!never) {
        vec_push(w->s->arena, &w->path, c);
        walk_block(w, &op->body);
        w->path.n--;
    }
    const Expr **yes = w->reg;
    if (always) return;
    w->reg = before;
    if (op->other.n) {
        vec_push(w->s->arena, &w->path, space_not(w->s, c));
        walk_block(w, &op->other);
        w->path.n--;
    }
    if (never) return;
    for (int i = 0; i < w->fn->regs.n; i++) {
        const Expr *a = yes[i], *b = w->reg[i];
        if (a == b || !a) continue;
        if (!b)
            w->reg[i] = a;
        else if (a == &unknowable || b == &unknowable)
            w->reg[i] = &unknowable;
        else
            w->reg[i] = expr_select(p, c, a, b);
    }
}

// Is `e` never below `h`?
static bool at_least(Walk *w, const Expr *e, const Expr *h)
{
    if (e == &unknowable || !e) return false;
    if (e->op == EX_SELECT) return at_least(w, e->b, h) && at_least(w, e->c, h);
    if (not_negative(w, expr_sub(w->s->pool, e, h))) return true;
    UnknownList in = {0};
    space_collect(w->s, e, &in);
    for (int i = 0; i < in.n; i++)
        if (in.at[i]->least && not_negative(w, expr_sub(w->s->pool, e, in.at[i]->var)) &&
            at_least(w, in.at[i]->least, h))
            return true;
    return false;
}

typedef struct {
    int reg;
    const Expr *start, *probe; // before the loop; during the first walk
    bool grows;                // by `by` in each round
    bool rises;                // is never below `start`
    i64 by;
    i64 lo, hi; // neither: its values, when `bounded`
    bool bounded;
} Carried;
typedef VEC(Carried) CarriedList;

static Unknown *counter(Walk *w, const Carried *c)
{
    const ThreadReg *r = &w->fn->regs.at[c->reg];
    i64 lo, hi;
    if (c->bounded) return space_fresh(w->s, UNKNOWN_VALUE, r->name, c->lo, c->hi);
    if (!c->rises) return fresh_value(w, r->name, r->class);
    expr_range(w->s->pool, c->start, &lo, &hi);
    Unknown *u = space_fresh(w->s, UNKNOWN_VALUE, r->name, MAX(lo, INT32_MIN), INT32_MAX);
    u->least = c->start;
    space_fact(w->s, u, expr_bin(w->s->pool, EX_LE, c->start, u->var));
    return u;
}

// The body once without recording anything, from registers as they are now.
static void try_round(Walk *w, const ThreadOp *op)
{
    bool recording = w->record, unclear = w->left_unclear;
    w->record = false;
    walk_block(w, &op->body);
    w->record = recording;
    w->left_unclear = unclear;
}

static const Expr *carried_value(Walk *w, const Carried *c, const Unknown *round)
{
    ExprPool *p = w->s->pool;
    if (!c->grows) return counter(w, c)->var;
    return expr_add(p, c->start, expr_mul(p, round->var, expr_const(p, c->by)));
}

// Registers that neither grow nor rise may still stay within bounds, as the number of a slot does:
// bounds that hold before the loop are tried, and widened by what a round makes of them.
static void bound_carried(Walk *w, const ThreadOp *op, const Unknown *round, CarriedList *all)
{
    const Expr **entry = regs_copy(w);
    bool open = false, kept = false;
    for (int i = 0; i < all->n; i++) {
        Carried *c = &all->at[i];
        if (c->grows || c->rises || w->fn->regs.at[c->reg].class != RC_B32) continue;
        expr_range(w->s->pool, c->start, &c->lo, &c->hi);
        open |= c->bounded = c->lo >= INT32_MIN && c->hi <= INT32_MAX;
    }
    for (int t = 0; t < BOUND_TRIES && open && !kept; t++) {
        for (int i = 0; i < all->n; i++)
            w->reg[all->at[i].reg] = carried_value(w, &all->at[i], round);
        try_round(w, op);
        kept = true;
        for (int i = 0; i < all->n; i++) {
            Carried *c = &all->at[i];
            const Expr *last = w->reg[c->reg];
            i64 lo = INT32_MIN, hi = INT32_MAX;
            if (!c->bounded) continue;
            if (last && last != &unknowable) expr_range(w->s->pool, last, &lo, &hi);
            kept &= lo >= c->lo && hi <= c->hi;
            if (t + 2 >= BOUND_TRIES && (lo < c->lo || hi > c->hi)) lo = INT32_MIN, hi = INT32_MAX;
            c->lo = MAX(MIN(c->lo, lo), INT32_MIN);
            c->hi = MIN(MAX(c->hi, hi), INT32_MAX);
        }
        w->reg = entry;
        entry = regs_copy(w);
    }
    for (int i = 0; i < all->n && !kept; i++) all->at[i].bounded = false;
}

// What the body carries from one round to the next. A first walk, unrecorded, shows what a round
// makes of each such register.
static void carried_of(Walk *w, const ThreadOp *op, const Unknown *round, const u8 *found,
                       CarriedList *out)
{
    for (int i = 0; i < w->fn->regs.n; i++) {
        const ThreadReg *r = &w->fn->regs.at[i];
        if (!(found[i] & REG_ASSIGNED) || r->count > 1 || r->class == RC_F32) continue;
        bool carried = found[i] & REG_EXPOSED && w->reg[i] && w->reg[i] != &unknowable;
        if (carried)
            vec_push(w->s->arena, out, ((Carried){.reg = i, .start = w->reg[i]}));
        else
            w->reg[i] = found[i] & REG_EXPOSED ? &unknowable : NULL;
    }
    if (!out->n) return;
    const Expr **entry = regs_copy(w);
    for (int i = 0; i < out->n; i++) {
        Carried *c = &out->at[i];
        c->probe = w->reg[c->reg] =
            fresh_value(w, w->fn->regs.at[c->reg].name, w->fn->regs.at[c->reg].class)->var;
    }
    try_round(w, op);
    for (int i = 0; i < out->n; i++) {
        Carried *c = &out->at[i];
        const Expr *last = w->reg[c->reg];
        if (!last || last == &unknowable) continue;
        c->grows = expr_is_const(expr_sub(w->s->pool, last, c->probe), &c->by);
        c->rises = at_least(w, last, c->probe);
    }
    w->reg = entry;
    bound_carried(w, op, round, out);
}

// A loop that goes on while a condition holds has as its end "everything" or "nothing", chosen
// before the first round and at the end of each: the condition, or NULL.
static const Expr *goes_on(const Expr *end)
{
    i64 yes, no;
    if (!end || end->op != EX_SELECT || !expr_is_const(end->b, &yes) || !expr_is_const(end->c, &no))
        return NULL;
    return yes == INT32_MAX && no == INT32_MIN ? end->a : NULL;
}

// What holds in each round of such a loop: the condition of its end, one round back, when that is
// the one before the loop for round 0. `first`: the end before the loop.
static void while_fact(Walk *w, const ThreadOp *op, Unknown *round, const Expr *first)
{
    ExprPool *p = w->s->pool;
    const Expr *before = goes_on(first), *after = goes_on(w->reg[op->opnd[2].reg]);
    if (!before || !after || space_uses(w->s, after, UNKNOWN_VALUE)) return;
    after = space_put(w->s, after, round->var, expr_sub(p, round->var, expr_const(p, 1)));
    if (space_put(w->s, after, round->var, expr_const(p, 0)) == before)
        space_fact(w->s, round, after);
}

// One round of a loop or one copy of an unrolled body, `round` counting them.
static void walk_round(Walk *w, const ThreadOp *op, Unknown *round, const Expr *loop_value)
{
    int regs = w->fn->regs.n;
    Scan n = {ARENA_ARRAY(w->s->arena, u8, regs + 1), ARENA_ARRAY(w->s->arena, u8, regs + 1)};
    scan(w, &op->body, &n);
    bool moves = op->op == OP_FOR && op->opnd[2].kind == OPD_REG &&
                 n.found[op->opnd[2].reg] & REG_ASSIGNED &&
                 !(n.found[op->opnd[0].reg] & REG_ASSIGNED);
    const Expr *end = moves ? w->reg[op->opnd[2].reg] : NULL;
    if (op->op == OP_FOR) {
        n.found[op->opnd[0].reg] = 0;
        w->reg[op->opnd[0].reg] = loop_value;
    }
    CarriedList carried = {0};
    carried_of(w, op, round, n.found, &carried);
    for (int i = 0; i < carried.n; i++)
        w->reg[carried.at[i].reg] = carried_value(w, &carried.at[i], round);
    vec_push(w->s->arena, &w->inst, round);
    walk_block(w, &op->body);
    w->inst.n--;
    if (moves) while_fact(w, op, round, end);
    for (int i = 0; i < regs; i++)
        if (n.found[i] & REG_ASSIGNED && w->fn->regs.at[i].count == 1) w->reg[i] = &unknowable;
    for (int i = 0; i < carried.n; i++) w->reg[carried.at[i].reg] = counter(w, &carried.at[i])->var;
}

static const Expr *bound(Walk *w, const Operand *o)
{
    const Expr *v = operand(w, o);
    return v ? v : fetch(w, o->reg);
}

// The body may change the counter and the end of its own loop, as `while` and `break` do: then
// nothing is known of how far it goes.
static bool is_free(Walk *w, const ThreadOp *op)
{
    int regs = w->fn->regs.n;
    Scan n = {ARENA_ARRAY(w->s->arena, u8, regs + 1), ARENA_ARRAY(w->s->arena, u8, regs + 1)};
    scan(w, &op->body, &n);
    return n.found[op->opnd[0].reg] & REG_ASSIGNED ||
           (op->opnd[2].kind == OPD_REG && n.found[op->opnd[2].reg] & REG_ASSIGNED);
}

static void walk_free(Walk *w, const ThreadOp *op)
{
    const ThreadReg *r = &w->fn->regs.at[op->opnd[0].reg];
    Unknown *round = space_fresh(w->s, UNKNOWN_ROUND, r->name, 0, INT32_MAX);
    round->lo = expr_const(w->s->pool, 0);
    round->hi = fresh_value(w, r->name, RC_B32)->var;
    round->step = 1;
    walk_round(w, op, round, fresh_value(w, r->name, RC_B32)->var);
    w->reg[op->opnd[0].reg] = &unknowable;
}

static void walk_for(Walk *w, const ThreadOp *op)
{
    ExprPool *p = w->s->pool;
    if (is_free(w, op)) {
        walk_free(w, op);
        return;
    }
    const Expr *lo = bound(w, &op->opnd[1]), *hi = bound(w, &op->opnd[2]);
    i64 step = op->opnd[3].base, least, low, high, most, unused;
    expr_range(p, expr_sub(p, hi, lo), &unused, &most);
    expr_range(p, lo, &least, &unused);
    expr_range(p, hi, &unused, &high);
    if (least > INT64_MIN && high < INT64_MAX) most = MIN(most, high - least);
    low = most <= 0 ? 0 : MIN((most - 1) / step, INT32_MAX);
    const ThreadReg *r = &w->fn->regs.at[op->opnd[0].reg];
    if (most > 0) {
        Unknown *round = space_fresh(w->s, UNKNOWN_ROUND, r->name, 0, low);
        round->lo = lo;
        round->hi = hi;
        round->step = step;
        const Expr *v = expr_add(p, lo, expr_mul(p, round->var, expr_const(p, step)));
        space_fact(w->s, round, expr_bin(p, EX_LT, v, hi));
        walk_round(w, op, round, v);
    }
    w->reg[op->opnd[0].reg] = &unknowable;
}

static void walk_unroll(Walk *w, const ThreadOp *op)
{
    if (!op->n) return;
    Unknown *copy = space_fresh(w->s, UNKNOWN_COPY, w->fn->unrolls.at[op->imm], 0, op->n - 1);
    w->copy[op->imm] = copy->var;
    walk_round(w, op, copy, NULL);
    w->copy[op->imm] = NULL;
}

static void walk_role(Walk *w, const ThreadOp *op)
{
    ExprPool *p = w->s->pool;
    const Expr *tid = global(w, "tid"), **before = regs_copy(w);
    int n = w->path.n;
    vec_push(w->s->arena, &w->path, expr_bin(p, EX_LE, expr_const(p, op->imm * LANES), tid));
    vec_push(w->s->arena, &w->path,
             expr_bin(p, EX_LT, tid, expr_const(p, (op->imm + op->n) * LANES)));
    walk_block(w, &op->body);
    w->path.n = n;
    const Expr *inside = expr_bin(p, EX_LAND, w->path.at[n], w->path.at[n + 1]);
    for (int i = 0; i < w->fn->regs.n; i++) {
        const Expr *a = w->reg[i], *b = before[i];
        if (a == b || !b) continue;
        if (!a || a == &unknowable || b == &unknowable)
            w->reg[i] = &unknowable;
        else
            w->reg[i] = expr_select(p, inside, a, b);
    }
}

static void walk_block(Walk *w, const ThreadBlock *b)
{
    for (int i = 0; i < b->n && w->s->budget > 0; i++) {
        const ThreadOp *op = b->at[i];
        w->s->budget--;
        switch (op->op) {
        case OP_IF: walk_if(w, op); break;
        case OP_FOR: walk_for(w, op); break;
        case OP_UNROLL: walk_unroll(w, op); break;
        case OP_ROLE: walk_role(w, op); break;
        default: walk_op(w, op); break;
        }
    }
}

bool walk_kernel(Space *s, AccessList *out, const char **why)
{
    const ThreadFn *fn = s->job->fn;
    Intern *names = expr_pool_names(s->job->module->exprs);
    Walk w = {.s = s, .fn = fn, .out = out, .record = true, .names = map_new(s->arena)};
    w.reg = ARENA_ARRAY(s->arena, const Expr *, fn->regs.n + 1);
    w.copy = ARENA_ARRAY(s->arena, const Expr *, fn->unrolls.n + 1);
    for (int i = 0; i < fn->regs.n; i++)
        map_put(w.names, intern_printf(names, "%%%s", fn->regs.at[i].name),
                (void *)(intptr_t)(NAME_REG * NAME_KIND + i + 1));
    for (int i = 0; i < SR_COUNT; i++)
        map_put(w.names, intern(names, special_reg_name[i]),
                (void *)(intptr_t)(NAME_SREG * NAME_KIND + i + 1));
    s->budget = BUDGET;
    walk_block(&w, &fn->body);
    if (s->budget > 0) return true;
    *why = "the kernel is too large to be followed";
    return false;
}
