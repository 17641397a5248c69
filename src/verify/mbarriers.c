// mbarriers.c - what the shape of the program says of mbarriers.
//
// O8: an mbarrier is initialised by one thread, which fences the initialisation; then a barrier of
// the whole block (of the cluster, for what other blocks do) stands in front of every use by
// another thread. Barriers of all threads come in one order for all, so "in front" is a matter of
// counting them: the initialisation is visible behind the n-th one, and whoever uses the mbarrier
// must have passed n of them.
//
// O10, of single places: the bytes that one thread announces in a block of code are those of the
// loads that it issues there; a phase that is waited for has arrivals; the lanes of one warp do not
// arrive more often at once than the barrier counts.
#include "flow.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 15 }; // barriers of all threads that are counted; beyond, nothing is said

// Of the mbarriers of one buffer, which are initialised together nearly always.
typedef struct {
    const ThreadOp *init;   // one of them
    u32 warps;              // that initialise
    int count;              // arrivals; -1: not the same for all, or not a constant
    int visible, remote;    // behind which barrier of the block, of the cluster; 0: never
} Init;

typedef struct { int low, high; } Rounds; // passed so far, on all paths

typedef struct {
    Rounds block, cluster;
    u8 mine[];              // per buffer: 1 initialised by this thread, 2 and fenced
} State;

typedef struct {
    const CheckJob *job;
    Arena *arena;
    Init *init;             // per buffer
    bool report;            // the second walk: uses are judged
    bool *told;             // per buffer
    int found, lanes;       // lanes: of a warp that the walk stands for
    u32 warps;              // that it stands for
    const bool *varying;    // registers, in `varying_warp`
    int varying_warp;
    bool certain;           // no barrier of all threads stands where only some paths lead
} Mbarriers;

// The mbarrier operand of an operation: index into op->mem; -1: none.
static int barrier_mem(const ThreadOp *op)
{
    int k = 0;
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        if (*s == 'B') return k;
        k += *s == 'S' || *s == 'G' || *s == 'L';
    }
    return -1;
}

static bool is_whole(const Flow *f, const ThreadOp *op)
{
    if (op->op == OP_BAR_CLUSTER) return true;
    return op->op == OP_BAR_SYNC && op->opnd[1].kind == OPD_IMM &&
           op->opnd[1].base == f->job->fn->threads;
}

static bool wants(const Flow *f, const ThreadOp *op)
{
    return is_whole(f, op) || op->op == OP_FENCE_MBAR_INIT || op->op == OP_FENCE_PROXY ||
           barrier_mem(op) >= 0;
}

// ---- O8 -----------------------------------------------------------------------------------------

static void pass(Rounds *r)
{
    r->low = MIN(r->low + 1, (int)ROUNDS);
    r->high = MIN(r->high + 1, (int)ROUNDS);
}

// Initialisations that were fenced become visible here. The latest path counts.
static void publish(Mbarriers *x, State *s, bool cluster)
{
    pass(&s->block);
    if (cluster) pass(&s->cluster);
    for (int i = 0; i < x->job->fn->buffers.n && !x->report; i++) {
        Init *n = &x->init[i];
        if (s->mine[i] != 2) continue;
        if (!n->visible) n->visible = s->block.high;
        if (!n->remote && cluster) n->remote = s->cluster.high;
    }
}

static void init_count(Mbarriers *x, const ThreadOp *op, int buffer)
{
    Init *n = &x->init[buffer];
    int count = op->opnd[2].kind == OPD_IMM && !op->opnd[2].nterms ? (int)op->opnd[2].base : -1;
    n->count = !n->init || n->count == count ? count : -1;
    n->init = op;
}

static void tell_use(Mbarriers *x, const ThreadOp *op, int buffer, bool sure, bool cluster)
{
    const Init *n = &x->init[buffer];
    const char *name = x->job->fn->buffers.at[buffer].name;
    char text[256];
    if (x->told[buffer]) return;
    x->told[buffer] = true;
    x->found++;
    if (!n->init)
        snprintf(text, sizeof text, "uses mbarrier %.100s, which nothing initialises", name);
    else
        snprintf(text, sizeof text,
                 "uses mbarrier %.100s%s before its initialisation is known in the %s", name,
                 sure ? "" : ", on some path,", cluster ? "cluster" : "block");
    CheckFinding *c = sure ? check_broken(x->job, "O8", op->loc, text)
                           : check_open(x->job, "O8", op->loc, text);
    static const char hints[2][100] = {
        "fence.mbar.init by the thread that initialises, then a barrier of the block, in front",
        "fence.mbar.init by the thread that initialises, then a barrier of the cluster, in front"};
    c->hint = hints[cluster];
    if (n->init) c->other = n->init->loc;
}

// The thread's own initialisation needs no barrier; the TMA unit, which it starts, needs the fence
// (judged where the warp does not stand alone).
static void judge_use(Mbarriers *x, const State *s, const ThreadOp *op, int buffer)
{
    const Init *n = &x->init[buffer];
    bool away = op->op == OP_MBAR_ARRIVE_CLUSTER ||
                (op->op == OP_TMA_LOAD && op->flags & OPF_MULTICAST);
    if (s->mine[buffer] == 2 || (s->mine[buffer] == 1 && op->op != OP_TMA_LOAD)) {
        if (!away) return;
    }
    // Lanes of the warp that initialises come later in its order.
    if (n->init && !away && !(x->warps & ~n->warps)) return;
    int needed = away ? n->remote : n->visible;
    const Rounds *r = away ? &s->cluster : &s->block;
    if (needed == ROUNDS || r->low == ROUNDS) return;
    if (needed && r->low >= needed) return;
    bool sure = !n->init || (x->certain && (!needed || r->high < needed));
    tell_use(x, op, buffer, sure, away);
}

static void step(Flow *f, void *state, const ThreadOp *op)
{
    Mbarriers *x = f->ctx;
    State *s = state;
    if (is_whole(f, op)) {
        publish(x, s, op->op == OP_BAR_CLUSTER);
        return;
    }
    int mem = barrier_mem(op);
    if (mem < 0) {
        // Under a guard that is not known it is taken for that of the initialisation.
        for (int i = 0; i < f->job->fn->buffers.n; i++)
            if (s->mine[i]) s->mine[i] = 2;
        return;
    }
    int buffer = op->mem[mem].buffer;
    if (op->op == OP_MBAR_INIT) {
        if (!x->report) init_count(x, op, buffer);
        x->init[buffer].warps |= x->warps;
        s->mine[buffer] = 1;
        return;
    }
    if (x->report) judge_use(x, s, op, buffer);
}

static bool join(Flow *f, void *into, const void *from, FlowMerge how)
{
    Mbarriers *x = f->ctx;
    State *s = into;
    const State *t = from;
    size_t bytes = sizeof *s + (size_t)f->job->fn->buffers.n;
    State *old = memcpy(arena_alloc(f->arena, bytes), s, bytes);
    if (how != FLOW_BACK && (s->block.low != t->block.low || s->block.high != t->block.high))
        x->certain = false;
    s->block.low = MIN(s->block.low, t->block.low);
    s->block.high = MAX(s->block.high, t->block.high);
    s->cluster.low = MIN(s->cluster.low, t->cluster.low);
    s->cluster.high = MAX(s->cluster.high, t->cluster.high);
    // An initialisation on one way of a condition that is not known: perhaps this thread's.
    for (int i = 0; i < f->job->fn->buffers.n; i++) s->mine[i] = MAX(s->mine[i], t->mine[i]);
    return memcmp(old, s, bytes) != 0;
}

static const FlowRules rules = {0, wants, step, join, NULL};

static bool walk_all(Mbarriers *x, const FlowThreads *t, int n)
{
    FlowRules r = rules;
    r.bytes = sizeof(State) + (size_t)x->job->fn->buffers.n;
    State *start = arena_alloc(x->arena, r.bytes);
    bool done = n > 0;
    for (int i = 0; i < n; i++) {
        x->lanes = t[i].lanes;
        x->warps = t[i].warps;
        done &= flow_run(x->job, &r, x, t[i].tid / 32, t[i].fact, t[i].nfacts, start);
    }
    return done;
}

static int count_barriers(const ThreadFn *fn)
{
    int n = 0;
    for (int i = 0; i < fn->buffers.n; i++) n += fn->buffers.at[i].kind == BUF_MBAR;
    return n;
}

void check_init(const CheckJob *job)
{
    int rings = count_barriers(job->fn), n;
    if (!rings) return;
    Arena *a = arena_new(0);
    Mbarriers x = {.job = job, .arena = a, .certain = true};
    x.init = ARENA_ARRAY(a, Init, job->fn->buffers.n);
    x.told = ARENA_ARRAY(a, bool, job->fn->buffers.n);
    FlowThreads *t = flow_threads(a, job->fn, &n);
    bool done = walk_all(&x, t, n);
    x.report = true;
    done = done && walk_all(&x, t, n);
    if (!done)
        check_open(job, "O8", (Loc){0}, "the kernel is too large for the check of initialisations");
    else if (!x.found)
        check_proved(job, "initialisation",
                     arena_printf(a, "%d ring%s of mbarriers %s initialised, fenced and published "
                                  "before use", rings, rings == 1 ? "" : "s",
                                  rings == 1 ? "is" : "are"));
    arena_free(a);
}

// ---- O10: bytes ---------------------------------------------------------------------------------

// What a block of code announces for the barrier at one address, and the loads that it issues.
typedef struct {
    const ThreadOp *expect, *load; // load: one of them
    i64 announced, bytes;
    int loads;
} Announced;

// Of one buffer of mbarriers, over the kernel.
typedef struct {
    VEC(Announced) here;
    const ThreadOp *load, *wait, *expect; // one of each
    int arrivals;        // operations
    bool scattered;      // loads or announcements that no other stands beside, or sizes not known
} Ring;

typedef struct {
    const CheckJob *job;
    Arena *arena;
    Ring *ring;          // per buffer
    int found;
} Bytes;

static bool same_operand(const Operand *x, const Operand *y)
{
    if (x->kind != y->kind || x->reg != y->reg || x->base != y->base || x->nterms != y->nterms)
        return false;
    for (int i = 0; i < x->nterms; i++)
        if (x->term[i].var != y->term[i].var || x->term[i].coef != y->term[i].coef) return false;
    return true;
}

// First of the two operands of the barrier's address.
static const Operand *barrier_address(const ThreadOp *op)
{
    int k = 0;
    for (const char *s = thread_op[op->op].sig; *s && *s != 'B'; s++)
        k += *s == 'C' ? op->n : *s == 'S' || *s == 'G' ? 2 : 1;
    return &op->opnd[k];
}

// -1: no plan, or a map without a box.
static i64 load_bytes(const CheckJob *job, const ThreadOp *op)
{
    const PlanStep *s = job->step;
    int param = op->opnd[2].reg;
    if (!s || param >= s->args.n || s->args.at[param].kind != ARG_TMAP) return -1;
    const PlanTensorMap *map = &s->tmaps.at[s->args.at[param].index];
    const ThreadBuffer *b = &job->fn->buffers.at[op->mem[0].buffer];
    i64 bytes = dtype_bytes[b->type];
    for (int i = 0; i < map->rank; i++) bytes *= map->box[i];
    return map->rank ? bytes : -1;
}

static bool is_expect(const ThreadOp *op)
{
    return op->op == OP_MBAR_EXPECT || op->op == OP_MBAR_ARRIVE_EXPECT;
}

static bool writes_register(const ThreadOp *op, int reg)
{
    enum { MOST = 8 };
    u8 use[MOST] = {USE_NONE};
    flow_uses(op, use, MOST);
    for (int k = 0; k < MIN(op->nopnd, (int)MOST); k++)
        if (use[k] >= USE_WRITE && op->opnd[k].kind == OPD_REG && op->opnd[k].reg == reg)
            return true;
    return false;
}

static bool is_region(const ThreadOp *op)
{
    return op->op == OP_FOR || op->op == OP_UNROLL || op->op == OP_IF || op->op == OP_ROLE;
}

// The loads of one announcement, up to the end of the block, to the next one at the same address,
// or to where the address is computed anew. An unrolled region of loads belongs to the block.
static void follow(Bytes *x, const ThreadBlock *b, int from, const ThreadOp *expect, Announced *out,
                   i64 times)
{
    const Operand *at = barrier_address(expect);
    for (int i = from; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_UNROLL) {
            follow(x, &op->body, 0, expect, out, times * op->n);
            continue;
        }
        if (is_region(op)) continue;
        const Operand *to = op->op == OP_TMA_LOAD || is_expect(op) ? barrier_address(op) : NULL;
        bool same = to && same_operand(to, at) && same_operand(to + 1, at + 1) &&
                    same_operand(&op->guard, &expect->guard);
        if (same && is_expect(op)) return;
        if (same) {
            i64 bytes = load_bytes(x->job, op);
            out->loads++;
            out->load = op;
            out->bytes += bytes * times;
            if (bytes < 0) x->ring[op->mem[1].buffer].scattered = true;
        }
        if (writes_register(op, at->reg)) return;
    }
}

static void collect(Bytes *x, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        int mem = barrier_mem(op);
        collect(x, &op->body);
        collect(x, &op->other);
        if (mem < 0) continue;
        Ring *r = &x->ring[op->mem[mem].buffer];
        if (op->op == OP_MBAR_WAIT) r->wait = op;
        if (op->op == OP_TMA_LOAD) r->load = op;
        if (op->op == OP_TMA_LOAD && op->flags & OPF_MULTICAST) r->scattered = true;
        if (op->op == OP_MBAR_ARRIVE || op->op == OP_MBAR_ARRIVE_EXPECT ||
            op->op == OP_MBAR_ARRIVE_CLUSTER || op->op == OP_CPASYNC_ARRIVE)
            r->arrivals++;
        if (!is_expect(op)) continue;
        r->expect = op;
        Announced n = {.expect = op, .announced = op->opnd[2].base};
        if (op->opnd[2].kind != OPD_IMM || op->opnd[2].nterms ||
            barrier_address(op)[0].kind != OPD_REG)
            r->scattered = true;
        follow(x, b, i + 1, op, &n, 1);
        vec_push(x->arena, &r->here, n);
    }
}

static int count_loads(const ThreadBlock *b, int buffer)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        n += op->op == OP_TMA_LOAD && op->mem[1].buffer == buffer;
        n += count_loads(&op->body, buffer) + count_loads(&op->other, buffer);
    }
    return n;
}

static void tell_bytes(Bytes *x, const ThreadOp *op, const ThreadOp *other, const char *text,
                       const char *hint)
{
    CheckFinding *c = check_broken(x->job, "O10", op->loc, text);
    c->hint = hint;
    if (other) c->other = other->loc;
    x->found++;
}

// Only where every load stands beside its announcement is a difference a mistake.
static bool judge_ring(Bytes *x, int buffer)
{
    const Ring *r = &x->ring[buffer];
    const char *name = x->job->fn->buffers.at[buffer].name;
    char text[256];
    if (r->load && !r->expect && !r->scattered) {
        snprintf(text, sizeof text,
                 "a load lands on mbarrier %.100s, and nobody announces its bytes: the "
                 " phase completes without them", name);
        tell_bytes(x, r->load, NULL, text, "mbar.arrive.expect with the bytes of the load");
        return true;
    }
    if (r->expect && r->wait && !r->arrivals) {
        snprintf(text, sizeof text,
                 "bytes are announced for mbarrier %.100s, and nobody arrives: its "
                 "phase never completes", name);
        tell_bytes(x, r->expect, r->wait, text, "mbar.arrive.expect announces and arrives");
        return true;
    }
    int loads = 0;
    i64 sum = 0;
    for (int i = 0; i < r->here.n; i++) {
        loads += r->here.at[i].loads;
        sum += r->here.at[i].bytes - r->here.at[i].announced;
    }
    if (!r->expect || r->scattered || loads != count_loads(&x->job->fn->body, buffer)) return false;
    for (int i = 0; i < r->here.n && sum; i++) {
        const Announced *n = &r->here.at[i];
        if (n->announced == n->bytes) continue;
        snprintf(text, sizeof text,
                 "%lld bytes are announced for a phase of %.100s, and the loads beside "
                 "it bring %lld", (long long)n->announced, name, (long long)n->bytes);
        tell_bytes(x, n->expect, n->load, text, "announce the bytes of all loads of the phase");
    }
    return true;
}

// ---- O10: lanes ---------------------------------------------------------------------------------

static bool expr_varies(const ThreadFn *fn, const Expr *e, const bool *varying)
{
    if (e->op == EX_CONST) return false;
    if (e->op == EX_VAR) {
        if (strcmp(e->name, "tid") == 0 || strcmp(e->name, "lane") == 0) return true;
        for (int r = 0; *e->name == '%' && r < fn->regs.n; r++)
            if (strcmp(fn->regs.at[r].name, e->name + 1) == 0) return varying[r];
        return false;
    }
    return expr_varies(fn, e->a, varying) || expr_varies(fn, e->b, varying) ||
           (e->c && expr_varies(fn, e->c, varying));
}

static bool wants_arrival(const Flow *f, const ThreadOp *op)
{
    (void)f;
    return op->op == OP_MBAR_ARRIVE || op->op == OP_MBAR_ARRIVE_EXPECT;
}

static bool join_nothing(Flow *f, void *into, const void *from, FlowMerge how)
{
    (void)f, (void)into, (void)from, (void)how;
    return false;
}

// Lanes of one warp that come here together, on the way of their class: all of them arrive at once.
// The lanes of other classes only add to them. Under a condition that is not known it may be fewer.
static void step_arrival(Flow *f, void *state, const ThreadOp *op)
{
    Mbarriers *x = f->ctx;
    (void)state;
    int buffer = op->mem[0].buffer;
    const Init *n = &x->init[buffer];
    if (x->told[buffer] || !n->init || n->count <= 0 || x->lanes <= n->count) return;
    if (f->divergent || (op->guard.kind != OPD_NONE && flow_known(f, &op->guard) != 1)) return;
    if (x->varying_warp != f->warp) x->varying = flow_varying(x->arena, f->job->fn, f->warp);
    x->varying_warp = f->warp;
    for (int i = 0; i < op->mem[0].ncoord; i++)
        if (expr_varies(f->job->fn, op->mem[0].coord[i], x->varying)) return;
    char text[256];
    snprintf(text, sizeof text,
             "more lanes of a warp arrive at mbarrier %.100s at once than its phase "
             "counts arrivals (%d)", f->job->fn->buffers.at[buffer].name, n->count);
    CheckFinding *c = check_broken(f->job, "O10", op->loc, text);
    c->hint = "let one lane arrive, or count the lanes";
    c->other = n->init->loc;
    x->told[buffer] = true;
    x->found++;
}

static const FlowRules arrivals = {1, wants_arrival, step_arrival, join_nothing, NULL};

void check_bytes(const CheckJob *job)
{
    if (!count_barriers(job->fn)) return;
    Arena *a = arena_new(0);
    int buffers = job->fn->buffers.n, n, judged = 0;
    Mbarriers m = {.job = job, .arena = a, .init = ARENA_ARRAY(a, Init, buffers),
                   .told = ARENA_ARRAY(a, bool, buffers)};
    FlowThreads *t = flow_threads(a, job->fn, &n);
    m.varying_warp = -1;
    Bytes x = {.job = job, .arena = a, .ring = ARENA_ARRAY(a, Ring, buffers)};
    walk_all(&m, t, n); // for the counts
    for (int i = 0; i < n; i++) {
        u8 start = 0;
        m.lanes = t[i].lanes;
        flow_run(job, &arrivals, &m, t[i].tid / 32, t[i].fact, t[i].nfacts, &start);
    }
    collect(&x, &job->fn->body);
    for (int i = 0; i < buffers; i++)
        if (job->fn->buffers.at[i].kind == BUF_MBAR) judged += judge_ring(&x, i);
    if (judged && !x.found && !m.found)
        check_proved(job, "bytes",
                     arena_printf(a, "what is announced for %d ring%s of mbarriers is what the "
                                  "loads beside it bring", judged, judged == 1 ? "" : "s"));
    arena_free(a);
}
