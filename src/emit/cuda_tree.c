// cuda_tree.c - a kernel of the thread IR as a tree that reads like C. In: ThreadFn. Out:
// CudaBlocks, in which guards have become `if` and every register has one block where it is
// declared.
//
// The thread IR has no scopes: a register may be written in one iteration of a loop and read in the
// next. A register is declared in the innermost block that holds all its uses, unless an iteration
// may read what it has not written itself: then outside the loop. The question is answered by
// simulation: unroll regions are walked trip by trip, and every element of every register is
// followed, so that arrays that are filled element by element count as written too.
#include "cuda_impl.h"

#include <string.h>

// ---- operands -----------------------------------------------------------------------------------

// `pass_writes`: which of the two passes of cu_visit this is.
static void visit_one(const Operand *o, bool write, bool pass_writes, CudaVisit *visit, void *ctx)
{
    if (o->kind == OPD_REG && write == pass_writes) visit(ctx, o, write);
}

// Operands by the letters of the signature; addresses have their base register first.
static void visit_letters(const CudaStmt *s, bool writes, CudaVisit *visit, void *ctx)
{
    const ThreadOp *op = &s->op;
    int k = 0;
    for (const char *c = thread_op[op->op].sig; *c; c++) {
        int n = thread_sig_operands(op, *c);
        bool write = *c == 'd' || *c == 'P' || *c == 'F';
        // The accumulator: read and written, but for the first step of a product that starts from
        // zero.
        if (*c == 'R') {
            if (!s->fresh) visit_one(&op->opnd[k], false, writes, visit, ctx);
            write = true;
        }
        for (int i = 0; i < n; i++) visit_one(&op->opnd[k + i], write, writes, visit, ctx);
        k += n;
    }
}

// Reads before writes, as the operation does them; guards are regions by now and not operands.
void cu_visit(const CudaStmt *s, CudaVisit *visit, void *ctx)
{
    const ThreadOp *op = &s->op;
    if (op->op == OP_FOR) {
        visit_one(&op->opnd[1], false, false, visit, ctx);
        visit_one(&op->opnd[2], false, false, visit, ctx);
        return; // its variable is visited in the loop's own scope
    }
    if (op->op == OP_UNROLL || op->op == OP_ROLE) return;
    visit_letters(s, false, visit, ctx);
    visit_letters(s, true, visit, ctx);
}

// Its branch would always be taken, so none is printed.
bool cu_whole_role(const ThreadFn *f, const ThreadOp *op)
{
    return op->imm == 0 && op->n == f->threads / 32;
}

// ---- copying ------------------------------------------------------------------------------------

// `at`: index of the region's statement in `parent`.
static CudaBlock *new_block(Cuda *x, CudaBlock *parent, int at)
{
    CudaBlock *b = ARENA_NEW(x->arena, CudaBlock);
    b->parent = parent;
    b->at = at;
    b->depth = parent ? parent->depth + 1 : 0;
    return b;
}

// The same element of the same predicate, with the same sense.
static bool same_guard(const Operand *a, const Operand *b)
{
    return a->kind != OPD_NONE && b->kind != OPD_NONE && a->reg == b->reg && a->base == b->base &&
           a->negate == b->negate && a->nterms == b->nterms &&
           memcmp(a->term, b->term, sizeof a->term[0] * a->nterms) == 0;
}

// Does the operation write the predicate that guards it?
static bool writes_register(const ThreadOp *op, int reg)
{
    int k = 0;
    for (const char *c = thread_op[op->op].sig; *c; c++) {
        if ((*c == 'd' || *c == 'P' || *c == 'F') && op->opnd[k].reg == reg &&
            op->opnd[k].kind == OPD_REG)
            return true;
        k += thread_sig_operands(op, *c);
    }
    return false;
}

static void copy_block(Cuda *x, const ThreadBlock *from, CudaBlock *to);

// Its own copy, so that guards can be taken off; regions are copied with it. Every region gets a
// block, also an empty one, since handlers print it.
static void copy_op(Cuda *x, const ThreadOp *op, CudaBlock *to)
{
    CudaStmt s = {.op = *op};
    int at = to->stmts.n;
    s.op.guard = (Operand){0};
    if (op->body.n || op->other.n || op->op >= OP_FOR) {
        CudaBlock *above = to;
        if (op->op == OP_FOR) {
            above = new_block(x, to, at);
            // A `for` has a scope around its body: its variable may live there without being
            // visible behind it.
            above->scope = true;
        }
        s.body = new_block(x, above, at);
        s.body->loop = op->op == OP_FOR || op->op == OP_UNROLL;
        copy_block(x, &op->body, s.body);
    }
    if (op->other.n) {
        s.other = new_block(x, to, at);
        copy_block(x, &op->other, s.other);
    }
    vec_push(x->arena, &to->stmts, s);
}

// Operations from `i` on that stand under one guard become an `if`. Returns the index behind them.
static int copy_guarded(Cuda *x, const ThreadBlock *from, int i, CudaBlock *to)
{
    const ThreadOp *first = from->at[i];
    CudaStmt s = {.op = {.op = OP_IF, .loc = first->loc, .nopnd = 1}};
    s.op.opnd = ARENA_NEW(x->arena, Operand);
    *s.op.opnd = first->guard;
    s.body = new_block(x, to, to->stmts.n);
    bool more = true;
    for (; more && i < from->n && same_guard(&from->at[i]->guard, &first->guard); i++) {
        copy_op(x, from->at[i], s.body);
        // An operation that changes its own guard ends the `if`: the next one sees the new value.
        more = !writes_register(from->at[i], first->guard.reg);
    }
    vec_push(x->arena, &to->stmts, s);
    return i;
}

// Runs of operations under one guard are joined; everything else is copied one by one.
static void copy_block(Cuda *x, const ThreadBlock *from, CudaBlock *to)
{
    for (int i = 0; i < from->n;) {
        if (from->at[i]->guard.kind != OPD_NONE) i = copy_guarded(x, from, i, to);
        else copy_op(x, from->at[i++], to);
    }
}

// ---- uses ---------------------------------------------------------------------------------------

typedef struct {
    Cuda *x;
    CudaBlock *block;
    int at; // statement
} Use;

// The innermost block that holds both.
static CudaBlock *common(CudaBlock *a, CudaBlock *b)
{
    while (a != b) {
        if (a->depth >= b->depth) a = a->parent;
        else b = b->parent;
    }
    return a;
}

// First pass: how often a register is read and written, and the innermost block with all its uses.
static void note_use(void *ctx, const Operand *o, bool write)
{
    Use *u = ctx;
    CudaReg *r = &u->x->reg[o->reg];
    r->home = r->home ? common(r->home, u->block) : u->block;
    if (write) r->writes++;
    else r->reads++;
}

// Calls `visit` for every register in program order, with the place in `u`.
static void walk_uses(Use *u, CudaBlock *b, CudaVisit *visit)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        u->block = b;
        u->at = i;
        cu_visit(s, visit, u);
        if (s->op.op == OP_FOR) {
            u->block = s->body->parent;
            visit(u, &s->op.opnd[0], true);
            visit(u, &s->op.opnd[0], false);
        }
        if (s->body) walk_uses(u, s->body, visit);
        if (s->other) walk_uses(u, s->other, visit);
    }
}

// The first use decides where a block declares the register: uses deeper inside count as their
// region.
static void note_first(void *ctx, const Operand *o, bool write)
{
    (void)write;
    Use *u = ctx;
    CudaReg *r = &u->x->reg[o->reg];
    if (r->first >= 0) return;
    CudaBlock *b = u->block;
    r->first = u->at;
    for (; b != r->home; b = b->parent) r->first = b->at;
    vec_push(u->x->arena, &b->declares, o->reg);
}

// Predicates that are set once, to a constant, are that constant.
static void find_constants(Cuda *x, const ThreadBlock *b, int *writes)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        for (int r = 0; r < op->nopnd; r++) {
            const Operand *o = &op->opnd[r];
            if (o->kind != OPD_REG || x->fn->regs.at[o->reg].class != RC_PRED) continue;
            if (r > 0 || !writes_register(op, o->reg)) continue;
            bool plain = op->op == OP_MOV && op->guard.kind == OPD_NONE &&
                         op->opnd[1].kind == OPD_IMM && !op->opnd[1].nterms &&
                         x->fn->regs.at[o->reg].count == 1;
            bool once = !writes[o->reg]++;
            x->reg[o->reg].constant = plain && once ? op->opnd[1].base != 0 : -1;
        }
        find_constants(x, &op->body, writes);
        find_constants(x, &op->other, writes);
    }
}

// Products whose accumulator starts anew.
static void find_fresh(Cuda *x, CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        if (s->op.op == OP_WGMMA_SS || s->op.op == OP_WGMMA_RS)
            s->fresh = x->reg[s->op.opnd[3].reg].constant == 0;
        if (s->body) find_fresh(x, s->body);
        if (s->other) find_fresh(x, s->other);
    }
}

// ---- what a block reads before it writes it -----------------------------------------------------

typedef struct {
    int reg, element;
} Written;
typedef struct {
    Cuda *x;
    u8 **written;       // per register that is asked about: one byte an element; NULL: not asked
    bool *carried;      // it was read before it was written
    VEC(Written) log;   // elements marked as written, so that they can be unmarked
} Simulation;

// First element that an operand names in the round that is being simulated.
static i64 position(const Cuda *x, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += o->term[i].coef * x->value[o->term[i].var];
    return v;
}

// A read of an element that was not written before means that its value came from an earlier round.
static void simulate_use(void *ctx, const Operand *o, bool write)
{
    Simulation *m = ctx;
    u8 *written = m->written[o->reg];
    if (!written || m->carried[o->reg]) return;
    i64 first = position(m->x, o);
    for (i64 i = first; i < first + o->count; i++) {
        if (written[i]) continue;
        if (!write) {
            m->carried[o->reg] = true;
            return;
        }
        written[i] = 1;
        Written w = {o->reg, (int)i};
        vec_push(m->x->arena, &m->log, w);
    }
}

static void simulate(Simulation *m, const CudaBlock *b);

// A region that may be skipped: what it writes does not count behind it.
static void simulate_maybe(Simulation *m, const CudaStmt *s, const CudaBlock *b)
{
    int mark = m->log.n;
    if (s->op.op == OP_FOR) simulate_use(m, &s->op.opnd[0], true);
    simulate(m, b);
    while (m->log.n > mark) {
        Written w = m->log.at[--m->log.n];
        m->written[w.reg][w.element] = 0;
    }
}

// An unroll region runs all its rounds, a loop perhaps none: what it writes is forgotten behind it.
static void simulate(Simulation *m, const CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        const CudaStmt *s = &b->stmts.at[i];
        cu_visit(s, simulate_use, m);
        if (s->op.op == OP_UNROLL) {
            for (int k = 0; k < s->op.n; k++) {
                m->x->value[s->op.imm] = k;
                simulate(m, s->body);
            }
        } else {
            if (s->body) simulate_maybe(m, s, s->body);
            if (s->other) simulate_maybe(m, s, s->other);
        }
    }
}

// Registers at home in `b`, a block inside a loop, that an execution of it may read before it
// writes them, move out of the loop around it. Inner blocks come first, so that a register that
// moves is looked at again where it arrives.
static void settle(Simulation *m, CudaBlock *b)
{
    Cuda *x = m->x;
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        if (s->body) settle(m, s->body);
        if (s->other) settle(m, s->other);
    }
    CudaBlock *loop = b;
    while (loop && !loop->loop) loop = loop->parent;
    if (!loop) return;
    CudaBlock *outside = loop->parent->scope ? loop->parent->parent : loop->parent;
    if (!b->residents.n) return;
    for (int i = 0; i < b->residents.n; i++) {
        int r = b->residents.at[i];
        m->written[r] = ARENA_ARRAY(x->arena, u8, x->fn->regs.at[r].count);
        m->carried[r] = false;
    }
    // Every execution of `b` starts with nothing written.
    m->log.n = 0;
    simulate(m, b);
    for (int i = 0; i < b->residents.n; i++) {
        int r = b->residents.at[i];
        m->written[r] = NULL; // no longer asked about
        if (!m->carried[r]) continue;
        // It may be read in the next round, so it must live as long as the loop.
        x->reg[r].home = outside;
        vec_push(x->arena, &outside->residents, r);
    }
}

// Copies, counts, and then decides: home blocks as the uses ask for, moved outwards where a value
// lives from round to round, and last the statement before which each register is declared.
CudaBlock *cu_tree(Cuda *x)
{
    const ThreadFn *f = x->fn;
    x->reg = ARENA_ARRAY(x->arena, CudaReg, f->regs.n);
    x->value = ARENA_ARRAY(x->arena, i64, f->unrolls.n);
    for (int i = 0; i < f->regs.n; i++) x->reg[i].first = x->reg[i].constant = -1;
    find_constants(x, &f->body, ARENA_ARRAY(x->arena, int, f->regs.n));
    CudaBlock *body = new_block(x, NULL, 0);
    copy_block(x, &f->body, body);
    find_fresh(x, body);
    Use u = {.x = x};
    walk_uses(&u, body, note_use);
    for (int r = 0; r < f->regs.n; r++)
        if (x->reg[r].home) vec_push(x->arena, &x->reg[r].home->residents, r);
    Simulation m = {.x = x};
    m.written = ARENA_ARRAY(x->arena, u8 *, f->regs.n);
    m.carried = ARENA_ARRAY(x->arena, bool, f->regs.n);
    settle(&m, body);
    walk_uses(&u, body, note_first);
    return body;
}
