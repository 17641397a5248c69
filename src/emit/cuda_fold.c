// cuda_fold.c - which values have no name in the CUDA text but stand where they are used: values
// that the compiler named itself, are computed once without an effect, and are used once, a few
// statements below in the same block. So `const uint32_t i_7 = S + 127;` and then
// `const uint32_t i_8 = i_7 >> 7;` become one line. So does a value that is changed once right
// away: `at = ...; at = at >> 4;`.
//
// In: the tree of a kernel. Out: CudaStmt.folded; cuda.c then keeps the text of such a value
// instead of printing a statement. The meaning stays: between the value's statement and its use
// stand only statements without effects, and none that writes what the value is computed from. So
// nothing moves across a barrier, a wait or an asynchronous product.
#include "cuda_impl.h"

#include <ctype.h>
#include <string.h>

enum {
    MAX_DISTANCE = 16, // statements between a value and its use, which keeps this linear
    MAX_PARTS = 6,     // operations that stand in one expression
    MAX_LEAVES = 8     // registers that an expression reads
};

typedef struct {
    CudaBlock *block;
    int at; // statement
} Place;

// The expression of a folded register.
typedef struct {
    int parts, nleaves;
    int leaf[MAX_LEAVES];
} Expression;

typedef struct {
    Place first_write, last_write, first_read, last_read;
} Uses;

typedef struct {
    Cuda *x;
    Uses *uses;              // of each register
    Expression **expression; // of the folded ones
    Place here;
} Fold;

// ---- candidates ---------------------------------------------------------------------------------

// Names that the lowering gives to values without one in the program, with or without a number.
static bool is_made_name(const char *name)
{
    static const char *const made[] = {"i", "v", "p", "at", "desc", "bits", "never", "pack"};
    size_t n = strcspn(name, "_");
    for (const char *c = name + n; *c; c++)
        if (!isdigit((u8)*c) && *c != '_') return false;
    for (int k = 0; k < COUNT(made); k++)
        if (strlen(made[k]) == n && memcmp(name, made[k], n) == 0) return true;
    return false;
}

static bool is_signed(int type) { return type == TT_S16 || type == TT_S32 || type == TT_S64; }

// Is its C++ expression of the register's own type, without the assignment? Signed results are not:
// they become unsigned by it. A copy to i, v or p may be how a value got that name in the program.
static bool is_plain(const Cuda *x, const ThreadOp *op)
{
    if (cu_same_in_warp(x, op)) return false;
    switch (op->op) {
    case OP_MOV:
        if (op->opnd[1].kind == OPD_REG)
            return !strchr("ivp", *x->fn->regs.at[op->opnd[0].reg].name);
        return op->opnd[1].kind == OPD_FIMM ||
               (op->opnd[1].kind == OPD_IMM && !op->opnd[1].nterms);
    case OP_ADD:
    case OP_SUB:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        return op->type == TT_F32 || op->opnd[1].kind == OPD_REG || op->opnd[2].kind == OPD_REG;
    case OP_MUL:
    case OP_MAD:
    case OP_DIV:
    case OP_REM:
    case OP_SHL:
    case OP_SHR:
    case OP_MIN:
    case OP_MAX:
        return op->type == TT_F32 || (!is_signed(op->type) && op->opnd[1].kind == OPD_REG);
    case OP_CVT: return !is_signed(op->type) && op->opnd[1].kind == OPD_REG;
    case OP_NEG:
    case OP_ABS: return op->type == TT_F32;
    case OP_SELP:
        return op->type == TT_F32 || op->opnd[1].kind == OPD_REG || op->opnd[2].kind == OPD_REG;
    case OP_SETP:
    case OP_EX2:
    case OP_LG2:
    case OP_RCP:
    case OP_RSQRT:
    case OP_SQRT:
    case OP_TANH:
    case OP_CVTPACK: return true;
    default: return false;
    }
}

static bool is_pure(const CudaStmt *s)
{
    return thread_op[s->op.op].effect == EFF_PURE && s->op.op != OP_TMA_PREFETCH;
}

static bool same_place(Place a, Place b) { return a.block == b.block && a.at == b.at; }

// Where the value of the statement at `here` is used, if that is one place; else no block. A
// register that is written twice has two values: the first may go into the statement that writes
// the second.
static Place only_use(const Fold *f, Place here, const CudaStmt *s)
{
    const Place none = {NULL, 0};
    if (!is_pure(s) || !is_plain(f->x, &s->op)) return none;
    int reg = s->op.opnd[0].reg;
    const CudaReg *r = &f->x->reg[reg];
    const ThreadReg *t = &f->x->fn->regs.at[reg];
    const Uses *u = &f->uses[reg];
    if (t->count != 1 || t->class == RC_B16 || r->constant >= 0 || !is_made_name(t->name))
        return none;
    if (r->writes == 1 && r->reads == 1) return u->last_read;
    bool first = r->writes == 2 && r->home == here.block && same_place(u->first_write, here) &&
                 !same_place(u->last_write, here) && same_place(u->first_read, u->last_write);
    return first ? u->first_read : none;
}

// ---- one candidate ------------------------------------------------------------------------------

typedef struct {
    Fold *f;
    Expression *e;
    bool fits;
} Gather;

static void add_leaf(Gather *g, int reg)
{
    for (int i = 0; i < g->e->nleaves; i++)
        if (g->e->leaf[i] == reg) return;
    if (g->e->nleaves == MAX_LEAVES) {
        g->fits = false;
        return;
    }
    g->e->leaf[g->e->nleaves++] = reg;
}

// A folded source brings its own parts and leaves.
static void gather(void *ctx, const Operand *o, bool write)
{
    Gather *g = ctx;
    if (write) return;
    const Expression *source = g->f->expression[o->reg];
    if (!source) {
        add_leaf(g, o->reg);
        return;
    }
    g->e->parts += source->parts;
    for (int i = 0; i < source->nleaves; i++) add_leaf(g, source->leaf[i]);
}

// Does a statement write one of the leaves?
static void find_write(void *ctx, const Operand *o, bool write)
{
    Gather *g = ctx;
    for (int i = 0; write && i < g->e->nleaves; i++)
        if (g->e->leaf[i] == o->reg) g->fits = false;
}

static void find_writes_below(Gather *g, const CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        const CudaStmt *s = &b->stmts.at[i];
        cu_visit(s, find_write, g);
        if (s->op.op == OP_FOR) find_write(g, &s->op.opnd[0], true);
        if (s->body) find_writes_below(g, s->body);
        if (s->other) find_writes_below(g, s->other);
    }
}

// Can the statement have the expression in the register's place? The bound of a loop is computed in
// each round, and fragments of products go by their address.
static bool takes_expression(const CudaStmt *use, int reg, RegClass class, Gather *g)
{
    const Operand *bound = &use->op.opnd[2];
    switch (use->op.op) {
    case OP_FOR:
        if (bound->kind != OPD_REG || bound->reg != reg) return true;
        find_write(g, &use->op.opnd[0], true);
        find_writes_below(g, use->body);
        return g->fits;
    case OP_WGMMA_SS:
    case OP_WGMMA_RS: return class == RC_B64;
    case OP_UNPACK: return false;
    default: return true;
    }
}

static void fold_one(Fold *f, CudaBlock *b, int at)
{
    Cuda *x = f->x;
    CudaStmt *s = &b->stmts.at[at];
    Place use = only_use(f, (Place){b, at}, s);
    if (use.block != b || use.at <= at || use.at - at > MAX_DISTANCE) return;
    int reg = s->op.opnd[0].reg; // what is used somewhere has a destination
    Expression e = {.parts = 1};
    Gather g = {f, &e, true};
    cu_visit(s, gather, &g);
    for (int i = at + 1; g.fits && i < use.at; i++) {
        if (!is_pure(&b->stmts.at[i])) return;
        cu_visit(&b->stmts.at[i], find_write, &g);
    }
    if (!g.fits || e.parts > MAX_PARTS) return;
    RegClass class = (RegClass)x->fn->regs.at[reg].class;
    if (!takes_expression(&b->stmts.at[use.at], reg, class, &g)) return;
    f->expression[reg] = ARENA_NEW(x->arena, Expression);
    *f->expression[reg] = e;
    s->folded = true;
    if (x->reg[reg].writes == 1) return;
    // What is left is a register of one value, declared by the statement that gives it.
    x->reg[reg].late = true;
    x->reg[reg].writes--;
    x->reg[reg].reads--;
}

// ---- all of them --------------------------------------------------------------------------------

static void note_use(void *ctx, const Operand *o, bool write)
{
    Fold *f = ctx;
    Uses *u = &f->uses[o->reg];
    Place *first = write ? &u->first_write : &u->first_read;
    if (!first->block) *first = f->here;
    if (write) u->last_write = f->here;
    else u->last_read = f->here;
}

// `first` means in program order, which is that of execution within one round of a block.
static void find_uses(Fold *f, CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        f->here = (Place){b, i};
        cu_visit(s, note_use, f);
        if (s->body) find_uses(f, s->body);
        if (s->other) find_uses(f, s->other);
    }
}

// A register that gets a value of its own is a leaf from here on.
static void forget(void *ctx, const Operand *o, bool write)
{
    Fold *f = ctx;
    if (write) f->expression[o->reg] = NULL;
}

// In program order, so that sources are decided before what is computed from them.
static void fold_block(Fold *f, CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        fold_one(f, b, i);
        if (!s->folded) cu_visit(s, forget, f);
        if (s->body) fold_block(f, s->body);
        if (s->other) fold_block(f, s->other);
    }
}

void cu_find_folded(Cuda *x, CudaBlock *body)
{
    Fold f = {.x = x};
    f.uses = ARENA_ARRAY(x->arena, Uses, x->fn->regs.n);
    f.expression = ARENA_ARRAY(x->arena, Expression *, x->fn->regs.n);
    find_uses(&f, body);
    fold_block(&f, body);
}
