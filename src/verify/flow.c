// flow.c - the walk over all paths of a warp. See flow.h.
#include "flow.h"

#include <string.h>

// MOST_STEPS bounds a walk through loops that nest and unroll; kernels take some thousands. A step
// on a large state counts for several, since merges touch all of it (STEP_BYTES). STATES: copies
// that a region keeps while its parts are walked.
enum { MOST_STEPS = 4000000, STEP_BYTES = 4096, STATES = 3, NESTING = 80 };

// The part of the program that is walked: operations of interest and the regions around them.
typedef struct Node Node;
typedef struct { Node *at; int n; } NodeList;
struct Node {
    const ThreadOp *op;
    NodeList body, other;
};

i64 flow_index(const Flow *f, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += (i64)o->term[i].coef * f->unroll[o->term[i].var];
    return v;
}

int flow_known(const Flow *f, const Operand *predicate)
{
    if (predicate->kind != OPD_REG || predicate->nterms) return -1;
    for (int i = 0; i < f->nfacts; i++)
        if (f->fact[i].reg == predicate->reg && !predicate->base)
            return (f->fact[i].value != 0) != predicate->negate;
    return -1;
}

bool flow_value(const Flow *f, const Operand *o, i64 *value)
{
    if (o->kind == OPD_IMM) return *value = flow_index(f, o), true;
    if (o->kind != OPD_REG || o->nterms || o->base) return false;
    for (int i = 0; i < f->nfacts; i++)
        if (f->fact[i].reg == o->reg) return *value = f->fact[i].value, true;
    return false;
}

// ---- what is walked -----------------------------------------------------------------------------

static bool is_region(const ThreadOp *op)
{
    return op->op == OP_FOR || op->op == OP_UNROLL || op->op == OP_IF || op->op == OP_ROLE;
}

static NodeList select_block(Flow *f, const ThreadBlock *b)
{
    NodeList out = {ARENA_ARRAY(f->arena, Node, b->n), 0};
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        Node n = {.op = op};
        if (op->op == OP_ROLE && (f->warp < op->imm || f->warp >= op->imm + op->n)) continue;
        if (is_region(op)) {
            n.body = select_block(f, &op->body);
            n.other = select_block(f, &op->other);
            // A loop writes its register, which may be one that the caller follows.
            if (!n.body.n && !n.other.n && !(op->op == OP_FOR && f->rules->wants(f, op))) continue;
        } else if (op->op != OP_EXIT && !f->rules->wants(f, op)) {
            continue;
        }
        out.at[out.n++] = n;
    }
    return out;
}

// ---- the walk -----------------------------------------------------------------------------------

static void *spare(Flow *f, int k, const void *from)
{
    int i = f->depth * STATES + k;
    if (!f->spare[i]) f->spare[i] = arena_alloc(f->arena, f->rules->bytes);
    return memcpy(f->spare[i], from, f->rules->bytes);
}

// Walks a block; false when no path reaches its end.
static bool walk(Flow *f, const NodeList *b, void *state);

static bool walk_deeper(Flow *f, const NodeList *b, void *state)
{
    f->depth++;
    bool alive = walk(f, b, state);
    f->depth--;
    return alive;
}

static bool walk_if(Flow *f, const Node *n, void *state)
{
    int known = flow_known(f, &n->op->opnd[0]);
    if (known >= 0) return walk_deeper(f, known ? &n->body : &n->other, state);
    void *second = spare(f, 0, state);
    bool differs = !(n->op->flags & OPF_UNIFORM);
    f->divergent += differs;
    bool first_ends = walk_deeper(f, &n->body, state);
    bool second_ends = walk_deeper(f, &n->other, second);
    f->divergent -= differs;
    if (first_ends && second_ends) f->rules->join(f, state, second, FLOW_IF);
    if (!first_ends && second_ends) memcpy(state, second, f->rules->bytes);
    return first_ends || second_ends;
}

static bool always_runs(const ThreadOp *loop)
{
    const Operand *lo = &loop->opnd[1], *hi = &loop->opnd[2];
    return lo->kind == OPD_IMM && hi->kind == OPD_IMM && !lo->nterms && !hi->nterms &&
           lo->base < hi->base;
}

// The head's state only grows, so this ends. A body that no path leaves has at most one round.
static bool walk_for(Flow *f, const Node *n, void *state)
{
    void *entry = spare(f, 0, state), *body = spare(f, 1, state);
    bool again, alive, differs = n->op->flags & OPF_LANES;
    f->divergent += differs;
    do {
        memcpy(body, state, f->rules->bytes);
        if (f->rules->wants(f, n->op)) f->rules->step(f, body, n->op);
        alive = walk_deeper(f, &n->body, body);
        again = alive && f->rules->join(f, state, body, FLOW_BACK);
    } while (again && !f->gave_up);
    f->divergent -= differs;
    memcpy(state, alive ? body : entry, f->rules->bytes);
    if (always_runs(n->op)) return alive;
    if (alive) f->rules->join(f, state, entry, FLOW_SKIP);
    return true;
}

// An exit under a guard ends some lanes and lets others go on.
static bool walk_exit(Flow *f, const ThreadOp *op, void *state)
{
    int known = op->guard.kind == OPD_NONE ? 1 : flow_known(f, &op->guard);
    if (known == 0) return true;
    if (f->rules->end) f->rules->end(f, spare(f, 0, state), op);
    return known < 0;
}

static bool walk_node(Flow *f, const Node *n, void *state)
{
    bool alive = true;
    switch (n->op->op) {
    case OP_EXIT: return walk_exit(f, n->op, state);
    case OP_IF: return walk_if(f, n, state);
    case OP_FOR: return walk_for(f, n, state);
    case OP_ROLE: return walk_deeper(f, &n->body, state);
    case OP_UNROLL:
        for (int v = 0; v < n->op->n && alive; v++) {
            f->unroll[n->op->imm] = v;
            alive = walk_deeper(f, &n->body, state);
        }
        return alive;
    default: break;
    }
    if (n->op->guard.kind == OPD_NONE || flow_known(f, &n->op->guard) != 0)
        f->rules->step(f, state, n->op);
    return true;
}

static bool walk(Flow *f, const NodeList *b, void *state)
{
    for (int i = 0; i < b->n; i++) {
        f->steps += 1 + (i64)(f->rules->bytes / STEP_BYTES);
        if (f->steps > MOST_STEPS || f->depth + 1 >= NESTING) f->gave_up = true;
        if (f->gave_up) return false;
        if (!walk_node(f, &b->at[i], state)) return false;
    }
    return true;
}

bool flow_run(const CheckJob *job, const FlowRules *rules, void *ctx, int warp,
              const FlowFact *fact, int nfacts, const void *start)
{
    Arena *a = arena_new(0);
    Flow f = {.job = job, .rules = rules, .ctx = ctx, .warp = warp, .fact = fact, .nfacts = nfacts,
              .arena = a, .nspare = NESTING * STATES};
    f.unroll = ARENA_ARRAY(a, i32, job->fn->unrolls.n + 1);
    f.spare = ARENA_ARRAY(a, void *, f.nspare);
    NodeList all = select_block(&f, &job->fn->body);
    void *state = memcpy(arena_alloc(a, rules->bytes), start, rules->bytes);
    if (walk(&f, &all, state) && rules->end) rules->end(&f, state, NULL);
    bool done = !f.gave_up;
    arena_free(a);
    return done;
}

// ---- roles --------------------------------------------------------------------------------------

// The roles that a warp is in, as one number.
static u64 roles_of(const ThreadBlock *b, int warp, u64 hash)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (!is_region(op)) continue;
        if (op->op == OP_ROLE && (warp < op->imm || warp >= op->imm + op->n)) continue;
        if (op->op == OP_ROLE) hash = hash_bytes(&op, sizeof op, hash);
        hash = roles_of(&op->body, warp, hash);
        hash = roles_of(&op->other, warp, hash);
    }
    return hash;
}

u64 flow_roles(const ThreadFn *fn, int warp) { return roles_of(&fn->body, warp, 0); }

int flow_warps(const ThreadFn *fn, int *warp, int *count)
{
    u64 seen[FLOW_WARPS];
    int n = 0;
    for (int w = 0; w < MIN(fn->threads / 32, (int)FLOW_WARPS); w++) {
        u64 hash = flow_roles(fn, w);
        int k = 0;
        while (k < n && seen[k] != hash) k++;
        if (k < n) {
            if (count) count[k]++;
            continue;
        }
        seen[n] = hash;
        if (count) count[n] = 1;
        warp[n++] = w;
    }
    return n;
}

// ---- operands -----------------------------------------------------------------------------------

// Operands that a letter of a signature stands for.
static int operands_of(const ThreadOp *op, char letter)
{
    if (letter == 'C') return op->n;
    return letter == 'S' || letter == 'G' || letter == 'B' ? 2 : 1;
}

void flow_uses(const ThreadOp *op, u8 *use, int most)
{
    int k = 0;
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        OperandUse u = *s == 'd' || *s == 'P' || *s == 'F' ? USE_WRITE
                       : *s == 'R'                         ? USE_BOTH
                                                           : USE_READ;
        for (int i = operands_of(op, *s); i > 0 && k < most && k < op->nopnd; i--)
            use[k++] = (u8)u;
    }
}
