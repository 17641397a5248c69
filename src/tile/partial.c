// partial.c - sums that are spread over lanes. `v.at(i) = v.at(i) + x.at(i, j)` in an apply over x
// adds only the columns that the thread owns, so v holds a partial sum until all_reduce_sum. The
// four lanes of a row hold different values then, and reading one as the row's is wrong on every
// machine.
//
// Walks each kernel in order with the state of every vector fragment; the walk is
// repeated until the state at the head of every loop is stable. Inside an apply each expression has
// a kind, relative to the variable that indexes the vector which is assigned. Sums, differences,
// and products with values that all lanes share keep a partial sum a partial sum; everything else
// must not see one.
#include "from_ast.h"

typedef enum {
    KIND_ZERO,    // the constant 0: complete, and a fine start of a partial sum
    KIND_WHOLE,   // the same in all lanes that share the vector's element
    KIND_OWN,     // depends on the other variable: one value per element that the lane owns
    KIND_PARTIAL, // a sum over the lane's own elements
    KIND_MIXED    // neither: differs between lanes, and no sum gives it a meaning
} Kind;

typedef struct {
    TileModule *m;
    const TileKernel *k;
    int *first; // index of slot 0 of each fragment in `state`
    int nstates;
    u8 *state;  // Kind of each slot of each vector fragment
    u8 *scalar; // Kind of each scalar
    Map *scalar_of; // name of a scalar -> its number + 1
    const TileOp *apply;
    int along;     // variable of the apply that the kind is relative to
    bool diverges; // under an `if` whose condition differs between lanes
    bool report;
    Map *heads;   // loop -> state at its head
    bool changed; // a head rose
} Partial;

static bool is_vector(const Partial *p, int frag) { return p->k->frags.at[frag].rank == 1; }

static u8 *state_of(const Partial *p, int frag, int slot)
{
    return &p->state[p->first[frag] + slot];
}

static void complain(Partial *p, Loc loc, const char *name, Kind k)
{
    if (!p->report) return;
    if (k == KIND_PARTIAL)
        diag_error(p->m->diag, loc, "finish it with `all_reduce_sum` first",
                   "'%s' holds a partial sum here, of the columns that each thread owns", name);
    else
        diag_error(p->m->diag, loc, "a vector takes sums; a maximum needs `reduce_max`",
                   "'%s' differs between the threads that share an element", name);
}

// ---- kinds of expressions ----------------------------------------------------------------------

// The variable that the vector does not follow; NULL in an apply over a vector.
static const char *other_var(const Partial *p)
{
    if (!p->apply) return NULL;
    return p->along == 0 ? p->apply->var2 : p->apply->var;
}

// A scalar in e whose value is the lane's own.
static bool uses_own(const Partial *p, const Expr *e)
{
    if (!e) return false;
    if (e->op != EX_VAR) return uses_own(p, e->a) || uses_own(p, e->b) || uses_own(p, e->c);
    intptr_t n = (intptr_t)map_get(p->scalar_of, e->name);
    return n && p->scalar[n - 1] == KIND_OWN;
}

// Whether an integer differs between the elements that a lane owns.
static Kind index_kind(const Partial *p, const Expr *e)
{
    const char *other = other_var(p);
    if (!e) return KIND_WHOLE;
    if (other && expr_uses(e, other)) return KIND_OWN;
    return uses_own(p, e) ? KIND_OWN : KIND_WHOLE;
}

static Kind view_kind(const Partial *p, const TileView *v)
{
    for (int d = 0; d < p->k->buffers.at[v->buffer].rank; d++)
        if (index_kind(p, v->origin[d]) == KIND_OWN) return KIND_OWN;
    return index_kind(p, v->slot);
}

// Elements of a matrix differ from element to element, those of a vector as its state says.
static Kind frag_kind(const Partial *p, const TExpr *x)
{
    bool matrix = !is_vector(p, x->frag);
    if (x->at[0] == TILE_AT_REG)
        return matrix ? KIND_OWN : (Kind)*state_of(p, x->frag, x->slot);
    if (matrix) return p->apply->var2 ? KIND_OWN : KIND_WHOLE;
    Kind k = (Kind)*state_of(p, x->frag, x->slot);
    bool along = !p->apply->var2 || x->at[0] == p->along;
    return along || k >= KIND_PARTIAL ? k : KIND_OWN;
}

// a + b, a - b.
static Kind sum_kind(const Partial *p, Kind a, Kind b)
{
    if (a == KIND_ZERO) return b;
    if (b == KIND_ZERO) return a;
    if (a == KIND_MIXED || b == KIND_MIXED) return KIND_MIXED;
    if (a == KIND_PARTIAL || b == KIND_PARTIAL)
        // Over a matrix the other side is added once per own element. Over a vector it would be
        // counted once per lane, unless it is partial itself.
        return !p->apply || p->apply->var2 || a == b ? KIND_PARTIAL : KIND_MIXED;
    return a == KIND_OWN || b == KIND_OWN ? KIND_OWN : KIND_WHOLE;
}

// a * b, a / b: a partial sum may be scaled by what all lanes share.
static Kind product_kind(Kind a, Kind b)
{
    if (a == KIND_ZERO || b == KIND_ZERO) return KIND_ZERO;
    if (a == KIND_WHOLE) return b;
    if (b == KIND_WHOLE) return a;
    return a == KIND_OWN && b == KIND_OWN ? KIND_OWN : KIND_MIXED;
}

static Kind kind_of(Partial *p, const TExpr *x);

static const TExpr *partial_leaf(Partial *p, const TExpr *x)
{
    if (!x) return NULL;
    if (x->kind == TX_FRAG && frag_kind(p, x) >= KIND_PARTIAL) return x;
    const TExpr *a = partial_leaf(p, x->a);
    if (!a) a = partial_leaf(p, x->b);
    return a ? a : partial_leaf(p, x->c);
}

// The value of x is looked at: it must not be a partial sum.
static Kind looked_at(Partial *p, const TExpr *x)
{
    Kind k = kind_of(p, x);
    if (k < KIND_PARTIAL) return k;
    const TExpr *leaf = partial_leaf(p, x);
    if (leaf)
        complain(p, leaf->loc, p->k->frags.at[leaf->frag].name,
                 (Kind)*state_of(p, leaf->frag, leaf->slot));
    return KIND_WHOLE; // reported; do not follow it further
}

// Linear operations carry a partial sum on; everything else looks at its operands.
static Kind math_kind(Partial *p, const TExpr *x)
{
    switch (x->math) {
    case TM_ADD:
    case TM_SUB: return sum_kind(p, kind_of(p, x->a), kind_of(p, x->b));
    case TM_MUL: return product_kind(kind_of(p, x->a), kind_of(p, x->b));
    case TM_FMA:
        return sum_kind(p, product_kind(kind_of(p, x->a), kind_of(p, x->b)), kind_of(p, x->c));
    case TM_NEG: return kind_of(p, x->a);
    case TM_ANY: return KIND_WHOLE; // each lane judges its own part, and all learn of it
    case TM_DIV: return product_kind(kind_of(p, x->a), MAX(looked_at(p, x->b), (Kind)KIND_WHOLE));
    case TM_SELECT: {
        Kind c = looked_at(p, x->a), a = kind_of(p, x->b), b = kind_of(p, x->c);
        if (a == KIND_PARTIAL && b == KIND_PARTIAL) return KIND_PARTIAL;
        if ((a == KIND_PARTIAL || b == KIND_PARTIAL) && MIN(a, b) != KIND_ZERO) return KIND_MIXED;
        return c == KIND_OWN && MAX(a, b) < KIND_OWN ? KIND_OWN : MAX(a, b);
    }
    default: {
        Kind k = looked_at(p, x->a);
        if (x->b) k = MAX(k, looked_at(p, x->b));
        if (x->c) k = MAX(k, looked_at(p, x->c));
        return MAX(k, (Kind)KIND_WHOLE);
    }
    }
}

static Kind kind_of(Partial *p, const TExpr *x)
{
    if (!x) return KIND_WHOLE;
    switch (x->kind) {
    case TX_FLOAT: return x->fvalue == 0 ? KIND_ZERO : KIND_WHOLE;
    case TX_INDEX: return index_kind(p, x->index);
    case TX_SCALAR: return (Kind)p->scalar[x->scalar];
    case TX_FRAG: return frag_kind(p, x);
    case TX_ELEM: return view_kind(p, x->view);
    case TX_MATH: return math_kind(p, x);
    case TX_CAST: return kind_of(p, x->a);
    default: return looked_at(p, x->a);
    }
}

// ---- operations --------------------------------------------------------------------------------

// The new value is the old one plus something.
static bool adds_to(const TExpr *x, int frag, int slot)
{
    if (x->kind == TX_FRAG) return x->frag == frag && x->slot == slot;
    if (x->kind == TX_CAST) return adds_to(x->a, frag, slot);
    if (x->kind != TX_MATH) return false;
    switch (x->math) {
    case TM_ADD: return adds_to(x->a, frag, slot) || adds_to(x->b, frag, slot);
    case TM_SUB: return adds_to(x->a, frag, slot);
    case TM_FMA: return adds_to(x->c, frag, slot);
    case TM_SELECT: return adds_to(x->b, frag, slot) && adds_to(x->c, frag, slot);
    default: return false;
    }
}

// v.at(i) = value: what v holds from here on.
static void assign_vector(Partial *p, const TileOp *o)
{
    u8 *state = state_of(p, o->frag, o->frag_slot);
    p->along = p->apply->var2 ? o->elem_at[0] : 0;
    Kind before = (Kind)*state, k = kind_of(p, o->value);
    bool itself = adds_to(o->value, o->frag, o->frag_slot);
    if (k <= KIND_WHOLE && !p->diverges) {
        *state = (u8)k;
        return;
    }
    if (!p->apply->var2 || k >= KIND_PARTIAL) {
        *state = (u8)(k == KIND_OWN ? KIND_MIXED : MAX(k, before == KIND_MIXED ? before : k));
        return;
    }
    // A value per own element: a sum when the vector was added to, else the last element wins.
    if (itself && before == KIND_ZERO) {
        *state = KIND_PARTIAL;
    } else if (itself && before == KIND_WHOLE) {
        if (p->report)
            diag_error(
                p->m->diag, o->loc,
                "start the sum at 0 and add the old value after `all_reduce_sum`",
                "'%s' is complete here; adding to it in each thread would count it once per thread",
                p->k->frags.at[o->frag].name);
        *state = KIND_PARTIAL;
    } else {
        *state = before == KIND_PARTIAL && itself ? KIND_PARTIAL : KIND_MIXED;
    }
}

// v[n] = value in a helper: the thread's own element by its number. What comes from elements of a
// matrix is the thread's part of a sum.
static void assign_register(Partial *p, const TileOp *o)
{
    if (!is_vector(p, o->frag)) {
        looked_at(p, o->value);
        return;
    }
    u8 *state = state_of(p, o->frag, o->frag_slot);
    Kind k = kind_of(p, o->value);
    *state = (u8)(k == KIND_OWN ? KIND_PARTIAL : k);
}

static void walk(Partial *p, const TileBlock *b);

// What holds when either of two ways was taken.
static void join_states(u8 *into, const u8 *other, int n)
{
    for (int i = 0; i < n; i++) {
        Kind a = (Kind)into[i], b = (Kind)other[i];
        bool mixed = (a == KIND_PARTIAL && b == KIND_WHOLE) ||
                     (a == KIND_WHOLE && b == KIND_PARTIAL);
        into[i] = (u8)(mixed ? KIND_MIXED : MAX(a, b));
    }
}

static u8 *copy_states(const Partial *p)
{
    u8 *copy = ARENA_ARRAY(p->m->arena, u8, p->nstates + 1);
    for (int i = 0; i < p->nstates; i++) copy[i] = p->state[i];
    return copy;
}

// Both sides start from the same state; under a condition that differs between lanes an assignment
// reaches some of them only.
static void branch(Partial *p, const TileOp *o)
{
    bool outer = p->diverges;
    if (p->apply) {
        for (p->along = 0; p->along < (p->apply->var2 ? 2 : 1); p->along++)
            if (looked_at(p, o->cond) == KIND_OWN) p->diverges = true;
    }
    u8 *before = copy_states(p), *state = p->state;
    walk(p, &o->body);
    p->state = before;
    walk(p, &o->other);
    p->state = state;
    join_states(p->state, before, p->nstates);
    p->diverges = outer;
}

// The state at the head of a loop only ever rises; walk() is repeated over the whole kernel until
// no head rises any more, which keeps nested loops linear.
static void raise_head(Partial *p, u8 *head)
{
    u8 *before = ARENA_ARRAY(p->m->arena, u8, p->nstates + 1);
    for (int i = 0; i < p->nstates; i++) before[i] = head[i];
    join_states(head, p->state, p->nstates);
    for (int i = 0; i < p->nstates; i++)
        if (head[i] != before[i]) p->changed = true;
}

static void loop(Partial *p, const TileOp *o)
{
    u8 *head = map_get(p->heads, o);
    if (!head) map_put(p->heads, o, head = copy_states(p));
    raise_head(p, head);
    for (int i = 0; i < p->nstates; i++) p->state[i] = head[i];
    walk(p, &o->body);
    raise_head(p, head);
    for (int i = 0; i < p->nstates; i++) p->state[i] = head[i];
}

static void operation(Partial *p, const TileOp *o)
{
    switch (o->op) {
    case TOP_FOR: loop(p, o); return;
    case TOP_IF: branch(p, o); return;
    case TOP_PAR:
    case TOP_ROLE: walk(p, &o->body); return;
    case TOP_APPLY:
        p->apply = o;
        for (int i = 0; i < p->k->scalars.n; i++) p->scalar[i] = KIND_WHOLE;
        walk(p, &o->body);
        p->apply = NULL;
        return;
    case TOP_SET:
        p->along = 0;
        if (!p->apply) {
            p->scalar[o->scalar] = (u8)kind_of(p, o->value);
            return;
        }
        p->scalar[o->scalar] = (u8)kind_of(p, o->value);
        if (p->apply->var2) { // of both variables, the one that it varies along less
            p->along = 1;
            p->scalar[o->scalar] = (u8)MAX(p->scalar[o->scalar], kind_of(p, o->value));
        }
        return;
    case TOP_ATOMIC:
    case TOP_PRINT_ARG:
    case TOP_STORE:
        if (!p->apply) return;
        for (p->along = 0; p->along < (p->apply->var2 ? 2 : 1); p->along++) looked_at(p, o->value);
        return;
    case TOP_FSET:
        if (o->elem_at[0] == TILE_AT_REG) {
            assign_register(p, o);
        } else if (is_vector(p, o->frag)) {
            assign_vector(p, o);
        } else {
            for (p->along = 0; p->along < 2; p->along++) looked_at(p, o->value);
        }
        return;
    case TOP_FILL:
        if (!is_vector(p, o->frag)) return;
        *state_of(p, o->frag, o->frag_slot) = o->value->kind == TX_FLOAT && o->value->fvalue == 0
                                                  ? KIND_ZERO
                                                  : KIND_WHOLE;
        return;
    case TOP_FCOPY:
        if (is_vector(p, o->frag))
            *state_of(p, o->frag, o->frag_slot) = *state_of(p, o->frag2, o->frag2_slot);
        return;
    case TOP_REDUCE: {
        u8 *state = state_of(p, o->frag, o->frag_slot);
        if (o->imm >> 1 == REDUCE_ALL_SUM && *state == KIND_MIXED)
            complain(p, o->loc, p->k->frags.at[o->frag].name, KIND_MIXED);
        if (o->imm >> 1 == REDUCE_ALL_SUM && *state == KIND_WHOLE && p->report)
            diag_error(p->m->diag, o->loc, "leave the reduction out",
                       "'%s' is complete already; all_reduce_sum would add its copies",
                       p->k->frags.at[o->frag].name);
        *state = KIND_WHOLE;
        return;
    }
    default: return;
    }
}

static void walk(Partial *p, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) operation(p, b->at[i]);
}

static void start(Partial *p)
{
    p->changed = false;
    for (int s = 0; s < p->nstates; s++) p->state[s] = KIND_WHOLE;
    for (int s = 0; s < p->k->scalars.n; s++) p->scalar[s] = KIND_WHOLE;
    walk(p, &p->k->body);
}

bool tile_check_partial(TileModule *m)
{
    int before = diag_errors(m->diag);
    for (int i = 0; i < m->fns.n; i++) {
        for (int j = 0; j < m->fns.at[i]->kernels.n; j++) {
            const TileKernel *k = m->fns.at[i]->kernels.at[j];
            Partial p = {.m = m, .k = k};
            p.first = ARENA_ARRAY(m->arena, int, k->frags.n + 1);
            for (int f = 0; f < k->frags.n; f++) {
                p.first[f] = p.nstates;
                p.nstates += k->frags.at[f].slots;
            }
            p.state = ARENA_ARRAY(m->arena, u8, p.nstates + 1);
            p.scalar = ARENA_ARRAY(m->arena, u8, k->scalars.n + 1);
            p.scalar_of = map_new(m->arena);
            for (int f = 0; f < k->scalars.n; f++)
                map_put(p.scalar_of, k->scalars.at[f].name, (void *)(intptr_t)(f + 1));
            p.heads = map_new(m->arena);
            // Each round but the last raises one of nstates states, each at most 4 times.
            p.report = false;
            do {
                start(&p);
            } while (p.changed);
            p.report = true;
            start(&p);
        }
    }
    return diag_errors(m->diag) == before;
}
