// products.c - the registers of products (O9), on all paths of each warpgroup.
//
// Between its issue and the wgmma.wait that covers it a product owns its accumulators, which nobody
// may touch, and its registers of A, which nobody may change. wgmma.fence makes registers known to
// the tensor cores: one must stand in front of the first product, and behind every write of a
// register that a product takes, except for accumulators that another product of the same shape
// has in flight. The assembler repairs what it sees broken, silently and at the price of speed.
//
// A register's state is kept twice: as it is on some path (`any`), and as it is whatever the
// conditions are (`sure`). Broken is what is sure; what only some paths show is a question, as
// their conditions may exclude each other.
#include "flow.h"

#include <string.h>

// Ages: 0 at rest, 1 issued and not committed, 2 in the newest commit group, 3 in the one before.
// wgmma.wait N leaves ages up to N + 1 in flight; N is at most 7.
enum { AGE_ISSUED = 1, AGE_COMMITTED = 2, AGE_MOST = 10 };

typedef struct { u8 any, sure; } Age;

// One machine register that some product uses.
typedef struct {
    Age acc, a;          // in flight as accumulator, as register A
    u8 changed, changed_sure; // written behind the last fence
    u16 product;         // the last one that took it: index of Products.issue
} Unit;

typedef struct {
    u8 unfenced, unfenced_sure; // no fence at all so far
    Unit unit[];
} State;

typedef struct { const ThreadOp *op; int first; } Issue; // first: unit of its accumulators

// A finding is given once, as what it is on the worst path.
typedef struct {
    const ThreadOp *op, *product;
    const char *text, *hint;
    bool sure;
} Found;

typedef struct {
    const CheckJob *job;
    Arena *arena;
    int *first;          // per register: its first unit, -1 when no product uses it
    int units;
    VEC(Issue) issue;
    VEC(Found) found;
    int products;
} Products;

static bool is_product(const ThreadOp *op)
{
    return op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
}

// Registers of A as operands of wgmma.rs.
static bool is_register_a(const ThreadOp *op, int k) { return op->op == OP_WGMMA_RS && k == 1; }

// ---- findings -----------------------------------------------------------------------------------

static void note(Products *p, const ThreadOp *op, int product, bool sure, const char *text,
                 const char *hint)
{
    for (int i = 0; i < p->found.n; i++) {
        Found *f = &p->found.at[i];
        // An operation that reads and writes one accumulator is one mistake.
        if (f->op == op && (f->text == text || f->hint == hint)) {
            f->sure |= sure;
            return;
        }
    }
    Found f = {op, product >= 0 ? p->issue.at[product].op : NULL, text, hint, sure};
    vec_push(p->arena, &p->found, f);
}

// Registers in flight: what is missing depends on whether the product was committed at all.
static void note_flight(Products *p, const ThreadOp *op, const Unit *u, Age age, const char *text)
{
    static const char hints[2][80] = {
        "a wgmma.wait that covers the product must stand between",
        "wgmma.commit and a wgmma.wait that covers the product must stand between"};
    const char *hint = hints[age.any == AGE_ISSUED];
    note(p, op, u->product, age.sure, text, hint);
}

static const char reads_acc[] = "reads an accumulator of a product that is in flight";
static const char writes_acc[] = "writes an accumulator of a product that is in flight";
static const char writes_a[] = "writes a register that a product in flight reads as its A";
static const char other_shape[] =
    "adds to accumulators that a product of another shape has in flight";
static const char no_fence[] = "a product without a wgmma.fence in front of it";
static const char acc_changed[] =
    "a product whose accumulators were written behind the last wgmma.fence";
static const char a_changed[] =
    "a product whose registers of A were written behind the last wgmma.fence";
static const char not_waited[] = "the warpgroup ends with products that it has not waited for";

// ---- the walk -----------------------------------------------------------------------------------

static bool touches(const Products *p, const Operand *o)
{
    return o->kind == OPD_REG && p->first[o->reg] >= 0;
}

static bool wants(const Flow *f, const ThreadOp *op)
{
    const Products *p = f->ctx;
    if (op->op == OP_FOR) return touches(p, &op->opnd[0]);
    if (op->op == OP_WGMMA_FENCE || op->op == OP_WGMMA_COMMIT || op->op == OP_WGMMA_WAIT)
        return true;
    for (int i = 0; i < op->nopnd; i++)
        if (touches(p, &op->opnd[i])) return true;
    return false;
}

static Unit *units_of(Flow *f, State *s, const Operand *o)
{
    const Products *p = f->ctx;
    return &s->unit[p->first[o->reg] + flow_index(f, o)];
}

static void read_registers(Flow *f, State *s, const ThreadOp *op, const Operand *o)
{
    const Unit *u = units_of(f, s, o);
    for (int i = 0; i < o->count; i++)
        if (u[i].acc.any) note_flight(f->ctx, op, &u[i], u[i].acc, reads_acc);
}

static void write_registers(Flow *f, State *s, const ThreadOp *op, const Operand *o)
{
    Unit *u = units_of(f, s, o);
    for (int i = 0; i < o->count; i++) {
        if (u[i].acc.any) note_flight(f->ctx, op, &u[i], u[i].acc, writes_acc);
        else if (u[i].a.any) note_flight(f->ctx, op, &u[i], u[i].a, writes_a);
        u[i].changed = u[i].changed_sure = 1;
    }
}

static int issue_of(Products *p, const ThreadOp *op, int first)
{
    for (int i = 0; i < p->issue.n; i++)
        if (p->issue.at[i].op == op && p->issue.at[i].first == first) return i;
    vec_push(p->arena, &p->issue, ((Issue){op, first}));
    return p->issue.n - 1;
}

static bool same_shape(const Issue *x, const ThreadOp *op, int first)
{
    return x->first == first && x->op->n == op->n && x->op->type2 == op->type2;
}

static const char fence_hint[] = "wgmma.fence must stand between the write and the product";

static void issue(Flow *f, State *s, const ThreadOp *op)
{
    Products *p = f->ctx;
    const Operand *d = &op->opnd[0];
    Unit *acc = units_of(f, s, d);
    int first = (int)(acc - s->unit), me = issue_of(p, op, first);
    if (s->unfenced)
        note(p, op, -1, s->unfenced_sure, no_fence, "the first product needs one too");
    for (int i = 0; i < d->count; i++) {
        if (acc[i].acc.any && !same_shape(&p->issue.at[acc[i].product], op, first))
            note_flight(p, op, &acc[i], acc[i].acc, other_shape);
        // In flight already: a chain, which needs none.
        if (acc[i].changed && !acc[i].acc.any)
            note(p, op, -1, acc[i].changed_sure, acc_changed, fence_hint);
        acc[i].acc = (Age){AGE_ISSUED, AGE_ISSUED};
        acc[i].product = (u16)me;
    }
    if (op->op != OP_WGMMA_RS) return;
    read_registers(f, s, op, &op->opnd[1]);
    Unit *a = units_of(f, s, &op->opnd[1]);
    for (int i = 0; i < op->opnd[1].count; i++) {
        if (a[i].changed) note(p, op, -1, a[i].changed_sure, a_changed, fence_hint);
        a[i].a = (Age){AGE_ISSUED, AGE_ISSUED};
        a[i].product = (u16)me;
    }
}

static u8 older(u8 age) { return age ? (u8)MIN(age + 1, (int)AGE_MOST) : 0; }

static u8 waited(u8 age, int left) { return age >= AGE_COMMITTED + left ? 0 : age; }

static void step(Flow *f, void *state, const ThreadOp *op)
{
    Products *p = f->ctx;
    State *s = state;
    if (op->op == OP_FOR) {
        write_registers(f, s, op, &op->opnd[0]);
        return;
    }
    if (op->op == OP_WGMMA_FENCE) {
        s->unfenced = s->unfenced_sure = 0;
        for (int i = 0; i < p->units; i++) s->unit[i].changed = s->unit[i].changed_sure = 0;
        return;
    }
    if (op->op == OP_WGMMA_COMMIT || op->op == OP_WGMMA_WAIT) {
        bool commit = op->op == OP_WGMMA_COMMIT;
        for (int i = 0; i < p->units; i++) {
            u8 *age[] = {&s->unit[i].acc.any, &s->unit[i].acc.sure, &s->unit[i].a.any,
                         &s->unit[i].a.sure};
            for (int k = 0; k < COUNT(age); k++)
                *age[k] = commit ? older(*age[k]) : waited(*age[k], op->n);
        }
        return;
    }
    if (is_product(op)) {
        issue(f, s, op);
        return;
    }
    enum { MOST = 16 };
    u8 use[MOST] = {USE_NONE};
    flow_uses(op, use, MOST);
    for (int i = 0; i < MIN(op->nopnd, (int)MOST); i++)
        if (touches(p, &op->opnd[i]) && use[i] == USE_READ) read_registers(f, s, op, &op->opnd[i]);
    for (int i = 0; i < MIN(op->nopnd, (int)MOST); i++)
        if (touches(p, &op->opnd[i]) && use[i] == USE_WRITE)
            write_registers(f, s, op, &op->opnd[i]);
}

// The younger of two ages: it takes longer to be over.
static u8 younger(u8 x, u8 y) { return !x ? y : !y ? x : MIN(x, y); }

// Sure on both ways of a condition: in flight on both, and only as long as the older one is.
static u8 on_both(u8 x, u8 y) { return x && y ? MAX(x, y) : 0; }

static u8 join_sure(u8 into, u8 from, FlowMerge how)
{
    return how == FLOW_IF ? on_both(into, from) : how == FLOW_BACK ? younger(into, from) : into;
}

static Age join_age(Age into, Age from, FlowMerge how)
{
    return (Age){younger(into.any, from.any), join_sure(into.sure, from.sure, how)};
}

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    const Products *p = f->ctx;
    State *s = into;
    const State *t = from;
    State before = *s;
    s->unfenced |= t->unfenced;
    s->unfenced_sure = join_sure(s->unfenced_sure, t->unfenced_sure, how);
    bool changed = memcmp(&before, s, sizeof before) != 0;
    for (int i = 0; i < p->units; i++) {
        Unit *u = &s->unit[i], old = *u;
        const Unit *v = &t->unit[i];
        bool fresh = v->acc.any || v->a.any;
        u->acc = join_age(u->acc, v->acc, how);
        u->a = join_age(u->a, v->a, how);
        u->changed |= v->changed;
        u->changed_sure = join_sure(u->changed_sure, v->changed_sure, how);
        if (!old.acc.any && !old.a.any && fresh) u->product = v->product;
        changed |= memcmp(&old, u, sizeof old) != 0;
    }
    return changed;
}

static void end(Flow *f, void *state, const ThreadOp *exit)
{
    Products *p = f->ctx;
    State *s = state;
    for (int i = 0; i < p->units; i++) {
        const Unit *u = &s->unit[i];
        const Age *age = u->acc.any ? &u->acc : &u->a;
        if (age->any) note_flight(p, exit ? exit : p->issue.at[u->product].op, u, *age, not_waited);
    }
}

static const FlowRules rules = {.wants = wants, .step = step, .join = join, .end = end};

// ---- one kernel ---------------------------------------------------------------------------------

static void find_registers(Products *p, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        find_registers(p, &op->body);
        find_registers(p, &op->other);
        if (!is_product(op)) continue;
        p->products++;
        for (int k = 0; k < 2; k++) {
            int reg = op->opnd[k].reg;
            if ((k && !is_register_a(op, k)) || p->first[reg] >= 0) continue;
            p->first[reg] = p->units;
            p->units += p->job->fn->regs.at[reg].count;
        }
    }
}

static void tell(Products *p)
{
    for (int i = 0; i < p->found.n; i++) {
        const Found *f = &p->found.at[i];
        CheckFinding *c;
        if (f->sure) {
            c = check_broken(p->job, "O9", f->op->loc, f->text);
        } else {
            const char *text = arena_printf(p->arena, "on some path: %s", f->text);
            c = check_open(p->job, "O9", f->op->loc, text);
        }
        c->hint = f->hint;
        if (f->product && f->product != f->op) c->other = f->product->loc;
    }
}

void check_products(const CheckJob *job)
{
    Arena *a = arena_new(0);
    Products p = {.job = job, .arena = a, .first = ARENA_ARRAY(a, int, job->fn->regs.n + 1)};
    for (int i = 0; i < job->fn->regs.n; i++) p.first[i] = -1;
    find_registers(&p, &job->fn->body);
    int warp[FLOW_WARPS], n = p.products ? flow_warps(job->fn, warp, NULL) : 0;
    FlowRules r = rules;
    r.bytes = sizeof(State) + sizeof(Unit) * (size_t)p.units;
    State *start = arena_alloc(a, r.bytes);
    start->unfenced = start->unfenced_sure = 1;
    bool done = true;
    for (int i = 0; i < n; i++) done = flow_run(job, &r, &p, warp[i], NULL, 0, start) && done;
    tell(&p);
    if (!done)
        check_open(job, "O9", (Loc){0}, "the kernel is too large for the check of products");
    else if (p.products && !p.found.n)
        check_proved(job, "products",
                     arena_printf(a, "the registers of %d product%s are left alone until the wait",
                                  p.products, p.products == 1 ? "" : "s"));
    arena_free(a);
}
