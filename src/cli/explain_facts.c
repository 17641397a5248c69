// explain_facts.c - reads the table of facts off the thread IR of one kernel.
//
// Input: a checked kernel. Output: roles, and facts in program order (explain.h). The program is
// walked twice: releases can be told only once it is known which barrier guards which buffer.
//
// Invariant: a fact stands once; what is seen again (a loop body is walked twice, so that the end
// of one trip meets the start of the next) only adds to its bits.
#include "explain.h"

// Loops deeper than this are walked once: the work must not double with each level.
enum { TWICE_DEPTH = 2 };
enum { TIMES_MAX = 1 << 20 };
enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_OWN = 3, ROLES = 2 };

// What a role has in flight at a place of the program. Products are counted in commit groups, from
// 1; a buffer is being read while its last group is above `retired`.
typedef struct {
    i64 committed, retired;
    i64 *last_group;     // per buffer; 0: no product of this role has read it
    // per buffer, ordinary accesses at all and since the last proxy fence: ACCESS_* of these warps
    // together, ACCESS_* << ROLES of roles inside, which other roles do not have
    u8 *unfenced, *accessed;
    bool *storing;       // per buffer: read by a TMA store that was not waited for
} Flight;

typedef struct {
    int gate;
    Loc loc;             // of a named barrier; a ring is one gate wherever it is waited for
} Gate;
typedef VEC(Gate) GateVec;

typedef struct {
    Explained *x;
    Flight f;
    GateVec gates;       // passed since the last access of a shared tile by this role
    bool stale;          // there was one: the next gate begins a new list
    int role, loops;
    Loc loop;            // of the innermost one
    i64 times;           // executions per trip: product of the enclosing unrolls
    bool counting;       // first sight of this code: numbers of instructions count
    bool releases;       // second walk
} Walk;

// ---- facts --------------------------------------------------------------------------------------

static bool same_place(Loc a, Loc b)
{
    return a.file == b.file && a.line == b.line;
}

// A loop with the place of the operation inside is the compiler's own, over the pieces of one tile;
// the program comes there again only through a loop around it.
static bool in_loop(const Walk *w, Loc loc)
{
    bool own = same_place(w->loop, loc) && w->loop.col == loc.col;
    return w->loops > (own ? 1 : 0);
}

static bool sums(int kind) { return kind <= FACT_PRODUCT; }

static void add(Walk *w, FactKind kind, int subject, int object, int param, i64 n, Loc loc)
{
    Explained *x = w->x;
    if (w->releases != (kind == FACT_RELEASE)) return;
    // Backwards: the same line is usually the last one that was seen.
    for (int i = x->facts.n - 1; i >= 0; i--) {
        Fact *f = &x->facts.at[i];
        if (f->kind != kind || f->subject != subject || f->object != object ||
            f->param != param || f->role != w->role || !same_place(f->loc, loc))
            continue;
        if (kind == FACT_RELEASE) f->n |= n;
        else if (sums(kind) && w->counting) f->n += n;
        else if (!sums(kind) && f->n != n) continue;
        f->loop |= in_loop(w, loc);
        return;
    }
    vec_push(x->arena, &x->facts, ((Fact){.kind = (u8)kind, .loop = in_loop(w, loc),
                                          .role = w->role, .subject = subject, .object = object,
                                          .param = param, .n = n, .loc = loc}));
}

static int role_of(Explained *x, const ThreadOp *op, int parent)
{
    for (int i = 0; i < x->roles.n; i++)
        if (x->roles.at[i].first == op->imm && x->roles.at[i].warps == op->n) return i;
    vec_push(x->arena, &x->roles, ((ExplainRole){op->imm, op->n, parent, 0, op->loc}));
    return x->roles.n - 1;
}

static i64 number(const Operand *o)
{
    return o->kind == OPD_IMM && !o->nterms ? o->base : -1;
}

// ---- what is in flight --------------------------------------------------------------------------

static Flight flight_copy(Walk *w, const Flight *from)
{
    int n = w->x->fn->buffers.n;
    Arena *a = w->x->arena;
    Flight f = {.last_group = ARENA_ARRAY(a, i64, n + 1), .unfenced = ARENA_ARRAY(a, u8, n + 1),
                .accessed = ARENA_ARRAY(a, u8, n + 1), .storing = ARENA_ARRAY(a, bool, n + 1)};
    if (!from) return f;
    f.committed = from->committed;
    f.retired = from->retired;
    for (int i = 0; i < n; i++) {
        f.last_group[i] = from->last_group[i];
        f.unfenced[i] = from->unfenced[i] & ACCESS_OWN;
        f.accessed[i] = from->accessed[i] & ACCESS_OWN;
        f.storing[i] = from->storing[i];
    }
    return f;
}

// An ordinary access of a shared buffer.
static void touch(Walk *w, int buffer, u8 how)
{
    w->f.unfenced[buffer] |= how;
    w->f.accessed[buffer] |= how;
}

static bool any_access(u8 bits, u8 how) { return (bits | bits >> ROLES) & how; }

static u8 in_roles(u8 bits) { return (u8)((bits | bits >> ROLES) & ACCESS_OWN) << ROLES; }

static void fence(Walk *w, Loc loc)
{
    for (int i = 0; i < w->x->fn->buffers.n; i++) {
        if (any_access(w->f.unfenced[i], ACCESS_WRITE)) add(w, FACT_FENCE, i, -1, -1, 0, loc);
        w->f.unfenced[i] = 0;
    }
}

static void stores_done(Walk *w, Loc loc)
{
    for (int i = 0; i < w->x->fn->buffers.n; i++) {
        if (w->f.storing[i]) add(w, FACT_STORE_WAIT, i, -1, -1, 0, loc);
        w->f.storing[i] = false;
    }
}

// ---- gates: what stands between the readers of a buffer and its next fill -----------------------

// Only inside loops: what is passed once orders no second fill.
static void pass_gate(Walk *w, int gate, Loc loc)
{
    if (!w->loops) return;
    if (w->stale) w->gates.n = 0;
    w->stale = false;
    for (int i = 0; i < w->gates.n; i++)
        if (w->gates.at[i].gate == gate && (gate >= 0 || same_place(w->gates.at[i].loc, loc)))
            return;
    vec_push(w->x->arena, &w->gates, ((Gate){gate, loc}));
}

static void fill(Walk *w, int buffer, Loc loc)
{
    w->stale = true;
    if (!in_loop(w, loc)) return;
    for (int i = 0; i < w->gates.n; i++)
        add(w, FACT_REFILL, buffer, w->gates.at[i].gate, -1, 0, w->gates.at[i].loc);
}

// The role lets others go on. A bar.sync releases only those fills that stand behind that very
// operation; an arrival lets go whoever waits for its barrier, wherever.
static void release(Walk *w, int gate, bool arrival, Loc loc)
{
    Explained *x = w->x;
    if (!w->releases) return;
    for (int i = 0, n = x->facts.n; i < n; i++) {
        Fact f = x->facts.at[i];
        if (f.kind != FACT_REFILL || f.object != gate) continue;
        if (!arrival && !same_place(f.loc, loc)) continue;
        int b = f.subject;
        i64 bits = 0;
        if (w->f.last_group[b])
            bits |= w->f.last_group[b] > w->f.retired ? RELEASE_NEWER : RELEASE_WAITED;
        if (any_access(w->f.accessed[b], ACCESS_READ))
            bits |= any_access(w->f.unfenced[b], ACCESS_READ) ? RELEASE_UNFENCED : RELEASE_FENCED;
        if (bits) add(w, FACT_RELEASE, b, gate, -1, bits, loc);
    }
}

// ---- operations ---------------------------------------------------------------------------------

static void walk_access(Walk *w, const ThreadOp *op)
{
    int b = op->mem[0].buffer;
    switch (op->op) {
    case OP_LDS:
    case OP_LDMATRIX:
        add(w, FACT_READ, b, -1, -1, 0, op->loc);
        touch(w, b, ACCESS_READ);
        w->stale = true;
        break;
    case OP_STS:
    case OP_STMATRIX:
        add(w, FACT_WRITE, b, -1, -1, 0, op->loc);
        touch(w, b, ACCESS_WRITE);
        fill(w, b, op->loc);
        break;
    case OP_CPASYNC:
        add(w, FACT_CPASYNC, b, -1, -1, 0, op->loc);
        add(w, FACT_GLOBAL_READ, op->mem[1].buffer, -1, -1, 0, op->loc);
        touch(w, b, ACCESS_WRITE);
        fill(w, b, op->loc);
        break;
    case OP_LDG: add(w, FACT_GLOBAL_READ, b, -1, -1, 0, op->loc); break;
    case OP_STG: add(w, FACT_GLOBAL_WRITE, b, -1, -1, 0, op->loc); break;
    case OP_TMA_LOAD:
        w->x->peers[b] |= (op->flags & OPF_MULTICAST) != 0;
        add(w, FACT_TMA_LOAD, b, op->mem[1].buffer, op->opnd[2].reg, w->times, op->loc);
        fill(w, b, op->loc);
        break;
    case OP_TMA_STORE:
        add(w, FACT_TMA_STORE, b, -1, op->opnd[0].reg, w->times, op->loc);
        w->stale = true;
        w->f.storing[b] = true;
        break;
    default: break;
    }
}

static void walk_product(Walk *w, const ThreadOp *op)
{
    if (op->op == OP_WGMMA_COMMIT) w->f.committed++;
    if (op->op == OP_WGMMA_WAIT) w->f.retired = MAX(w->f.retired, w->f.committed - op->n);
    if (op->op != OP_WGMMA_SS && op->op != OP_WGMMA_RS) return;
    add(w, FACT_PRODUCT, op->n, op->type2, -1, w->times, op->loc);
    w->stale = true;
    for (int i = 0; i < op->nmem; i++) {
        add(w, FACT_WGMMA_READ, op->mem[i].buffer, -1, -1, 0, op->loc);
        w->f.last_group[op->mem[i].buffer] = w->f.committed + 1;
    }
}

static void walk_mbarrier(Walk *w, const ThreadOp *op)
{
    int ring = op->mem[0].buffer;
    i64 n;
    switch (op->op) {
    case OP_MBAR_INIT:
        n = number(&op->opnd[2]);
        w->x->arrivals[ring] = MAX(n, 0);
        break;
    case OP_MBAR_ARRIVE_EXPECT:
    case OP_MBAR_EXPECT:
        add(w, FACT_EXPECT, ring, -1, -1, number(&op->opnd[2]), op->loc);
        break;
    case OP_MBAR_ARRIVE:
    case OP_MBAR_ARRIVE_CLUSTER:
    case OP_CPASYNC_ARRIVE:
        w->x->peers[ring] |= op->op == OP_MBAR_ARRIVE_CLUSTER;
        add(w, FACT_ARRIVE, ring, -1, -1, 0, op->loc);
        release(w, ring, true, op->loc);
        break;
    case OP_MBAR_WAIT:
        add(w, FACT_WAIT, ring, -1, -1, 0, op->loc);
        // Loads that have landed say nothing about readers.
        if (!w->x->by_bytes[ring]) pass_gate(w, ring, op->loc);
        break;
    default: break;
    }
}

static void walk_barrier(Walk *w, const ThreadOp *op)
{
    i64 id = number(&op->opnd[0]), n = number(&op->opnd[1]);
    bool arrive = op->op == OP_BAR_ARRIVE;
    add(w, arrive ? FACT_BAR_ARRIVE : FACT_BAR_SYNC, (int)id, -1, -1, n, op->loc);
    int gate = gate_of_barrier(id < 0 ? EXPLAIN_CHOSEN_BARRIER : id);
    release(w, gate, arrive, op->loc);
    if (!arrive) pass_gate(w, gate, op->loc);
}

static void walk_block(Walk *w, const ThreadBlock *b);

// A role begins with what all did before it. Products and stores in flight are its own and end
// with it, and so are the gates that it passed; ordinary accesses are left to whoever comes behind.
static void walk_role(Walk *w, const ThreadOp *op)
{
    Flight outer = w->f;
    GateVec gates = w->gates;
    int role = w->role;
    bool stale = w->stale;
    w->gates = (GateVec){0};
    for (int i = 0; i < gates.n; i++) vec_push(w->x->arena, &w->gates, gates.at[i]);
    w->f = flight_copy(w, &outer);
    w->role = role_of(w->x, op, role);
    walk_block(w, &op->body);
    for (int i = 0; i < w->x->fn->buffers.n; i++) {
        outer.unfenced[i] |= in_roles(w->f.unfenced[i]);
        outer.accessed[i] |= in_roles(w->f.accessed[i]);
    }
    w->f = outer;
    w->gates = gates;
    w->stale = stale;
    w->role = role;
}

static void walk_loop(Walk *w, const ThreadOp *op)
{
    bool counting = w->counting;
    Loc outer = w->loop;
    w->loop = op->loc;
    w->loops++;
    walk_block(w, &op->body);
    w->counting = false;
    if (w->loops <= TWICE_DEPTH) walk_block(w, &op->body);
    w->counting = counting;
    w->loop = outer;
    w->loops--;
}

static void walk_unroll(Walk *w, const ThreadOp *op)
{
    i64 times = w->times;
    w->times = MIN(times * op->n, TIMES_MAX);
    walk_block(w, &op->body);
    w->times = times;
}

static void walk_op(Walk *w, const ThreadOp *op)
{
    switch (op->op) {
    case OP_ROLE: walk_role(w, op); return;
    case OP_FOR: walk_loop(w, op); return;
    case OP_UNROLL: walk_unroll(w, op); return;
    case OP_IF:
        walk_block(w, &op->body);
        walk_block(w, &op->other);
        return;
    case OP_SETMAXNREG_INC:
    case OP_SETMAXNREG_DEC: w->x->roles.at[w->role].nreg = op->n; return;
    case OP_FENCE_PROXY: fence(w, op->loc); return;
    case OP_BULK_WAIT:
    case OP_BULK_WAIT_READ:
        if (op->n == 0) stores_done(w, op->loc);
        return;
    case OP_BAR_SYNC:
    case OP_BAR_ARRIVE: walk_barrier(w, op); return;
    case OP_WGMMA_SS:
    case OP_WGMMA_RS:
    case OP_WGMMA_COMMIT:
    case OP_WGMMA_WAIT: walk_product(w, op); return;
    case OP_MBAR_INIT:
    case OP_MBAR_ARRIVE:
    case OP_MBAR_ARRIVE_CLUSTER:
    case OP_MBAR_ARRIVE_EXPECT:
    case OP_MBAR_EXPECT:
    case OP_MBAR_WAIT:
    case OP_CPASYNC_ARRIVE: walk_mbarrier(w, op); return;
    default:
        if (op->nmem) walk_access(w, op);
    }
}

static void walk_block(Walk *w, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) walk_op(w, b->at[i]);
}

// Which rings loads complete must be known before the first wait is seen.
static void find_byte_rings(Explained *x, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_TMA_LOAD) x->by_bytes[op->mem[1].buffer] = true;
        find_byte_rings(x, &op->body);
        find_byte_rings(x, &op->other);
    }
}

Explained *explain_collect(Arena *a, const ThreadModule *m, const ThreadFn *fn)
{
    Explained *x = ARENA_NEW(a, Explained);
    x->arena = a;
    x->module = m;
    x->fn = fn;
    x->arrivals = ARENA_ARRAY(a, i64, fn->buffers.n + 1);
    x->by_bytes = ARENA_ARRAY(a, bool, fn->buffers.n + 1);
    x->peers = ARENA_ARRAY(a, bool, fn->buffers.n + 1);
    vec_push(a, &x->roles, ((ExplainRole){0, fn->threads / 32, -1, 0, (Loc){0}}));
    find_byte_rings(x, &fn->body);
    for (int pass = 0; pass < 2; pass++) {
        Walk w = {.x = x, .times = 1, .counting = true, .releases = pass == 1};
        w.f = flight_copy(&w, NULL);
        walk_block(&w, &fn->body);
    }
    return x;
}
