// pin.c - pinned uses: where all values that threads read from a buffer have been used in a way
// that the assembler cannot move behind a later arrive (docs/machine-model.md, O6).
//
// Pinned are a store of the value, or of what was computed from it, and a product that takes it
// from registers and has been waited for. Arithmetic alone is not. The analysis walks over one
// list of statements and keeps, for each statement that reads the buffer, the fragments and
// scalars that still hold all of its values; branches are followed on both ways. It gives up, and
// answers "nowhere", for reads in loops that the same statement does not store, for conditions,
// and for stores that only some of the readers carry out.
#include "visit.h"

typedef struct {                   // the values that one statement read
    bool pinned;
    VEC(int) frags;                // frag * 256 + slot: each holds all of the values
    VEC(int) scalars;
} Values;

typedef struct {
    const TileModule *m;
    const TileKernel *k;
    int buffer;
    VEC(Values) values;
    VEC(int) futures;              // products in flight, and the values that each pins
    VEC(int) future_values;
    bool lost;                     // a read that the analysis cannot follow
} Pins;

enum { SLOTS = 256 };
static int key(int frag, int slot) { return frag * SLOTS + slot; }

static bool is_slot(const Pins *p, const TileView *v)
{
    return v->buffer >= 0 && tile_memory(p->k, v->buffer) == p->buffer;
}

static bool reads(const Pins *p, const TExpr *x)
{
    if (!x) return false;
    if (x->kind == TX_ELEM && is_slot(p, x->view)) return true;
    return reads(p, x->a) || reads(p, x->b) || reads(p, x->c);
}

typedef struct {
    const Pins *p;
    bool found;
} Search;

static void look(void *ctx, const TileOp *op, TileView *v, int how)
{
    Search *s = ctx;
    (void)op;
    s->found |= (how & ACCESS_GENERIC) && (how & ACCESS_READ) && is_slot(s->p, v);
}

static bool op_reads(const Pins *p, TileOp *op)
{
    Search s = {p, false};
    tile_visit_all(op, look, &s);
    return s.found;
}

static bool holds_frag(const Values *v, int frag)
{
    for (int i = 0; i < v->frags.n; i++)
        if (v->frags.at[i] == frag) return true;
    return false;
}

static bool holds_scalar(const Values *v, int scalar)
{
    for (int i = 0; i < v->scalars.n; i++)
        if (v->scalars.at[i] == scalar) return true;
    return false;
}

static void forget_frag(Values *v, int frag)
{
    for (int i = 0; i < v->frags.n; i++)
        if (v->frags.at[i] == frag) v->frags.at[i--] = v->frags.at[--v->frags.n];
}

static void forget_scalar(Values *v, int scalar)
{
    for (int i = 0; i < v->scalars.n; i++)
        if (v->scalars.at[i] == scalar) v->scalars.at[i--] = v->scalars.at[--v->scalars.n];
}

// Is the expression made of all values of v? An apply visits every element of a fragment, so one
// element of it in the apply's order stands for all.
static bool made_of(const Values *v, const TExpr *x)
{
    if (!x) return false;
    if (x->kind == TX_FRAG && x->at[0] != TILE_AT_REG && holds_frag(v, key(x->frag, x->slot)))
        return true;
    if (x->kind == TX_SCALAR && holds_scalar(v, x->scalar)) return true;
    return made_of(v, x->a) || made_of(v, x->b) || made_of(v, x->c);
}

// A fragment gets a value, in each of its elements.
static void set_frag(Pins *p, int frag, const TExpr *value)
{
    for (int i = 0; i < p->values.n; i++) {
        Values *v = &p->values.at[i];
        bool keeps = made_of(v, value);
        forget_frag(v, frag);
        if (keeps) vec_push(p->m->arena, &v->frags, frag);
    }
}

static void pin_made_of(Pins *p, const TExpr *value)
{
    for (int i = 0; i < p->values.n; i++)
        if (made_of(&p->values.at[i], value)) p->values.at[i].pinned = true;
}

static void pin_frag(Pins *p, int frag)
{
    for (int i = 0; i < p->values.n; i++)
        if (holds_frag(&p->values.at[i], frag)) p->values.at[i].pinned = true;
}

// New values, held by a fragment or a scalar (-1: neither), or pinned at once.
static void new_values(Pins *p, int frag, int scalar, bool pinned)
{
    Values v = {.pinned = pinned};
    if (frag >= 0) vec_push(p->m->arena, &v.frags, frag);
    if (scalar >= 0) vec_push(p->m->arena, &v.scalars, scalar);
    vec_push(p->m->arena, &p->values, v);
}

// Statements of an apply in order. Over a vector only one of the threads that hold an element
// stores it, so a store there pins nothing.
static void walk_apply(Pins *p, const TileOp *apply)
{
    bool matrix = apply->var2 != NULL;
    for (int i = 0; i < apply->body.n; i++) {
        TileOp *op = apply->body.at[i];
        bool here = op_reads(p, op);
        if (op->op == TOP_FSET && op->elem_at[0] != TILE_AT_REG) {
            set_frag(p, key(op->frag, op->frag_slot), op->value);
            if (here) new_values(p, key(op->frag, op->frag_slot), -1, false);
        } else if (op->op == TOP_STORE) {
            if (matrix) pin_made_of(p, op->value);
            if (here) new_values(p, -1, -1, matrix && reads(p, op->value));
        } else {
            p->lost |= here;
        }
    }
}

static void forget_inside(Pins *p, const TileBlock *b);

// What a statement inside of a branch or loop writes holds nothing for sure.
static void forget_written(Pins *p, const TileOp *op)
{
    for (int i = 0; i < p->values.n; i++) {
        Values *v = &p->values.at[i];
        switch ((TileOpcode)op->op) {
        case TOP_FILL:
        case TOP_FSET:
        case TOP_FCOPY:
        case TOP_REDUCE: forget_frag(v, key(op->frag, op->frag_slot)); break;
        case TOP_SET:
        case TOP_ATOMIC: forget_scalar(v, op->scalar); break;
        default: break;
        }
    }
    forget_inside(p, &op->body);
    forget_inside(p, &op->other);
}

static void forget_inside(Pins *p, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) forget_written(p, b->at[i]);
}

// A product pins its register operand when it has been waited for.
static void walk_product(Pins *p, const TileOp *op)
{
    if (op->a.frag < 0) return;
    int frag = key(op->a.frag, op->a.frag_slot);
    if (op->future < 0) {
        pin_frag(p, frag);
        return;
    }
    for (int i = 0; i < p->values.n; i++) {
        if (!holds_frag(&p->values.at[i], frag)) continue;
        vec_push(p->m->arena, &p->futures, op->future);
        vec_push(p->m->arena, &p->future_values, i);
    }
}

static void walk_set(Pins *p, const TileOp *op, bool here)
{
    for (int i = 0; i < p->values.n; i++) {
        Values *v = &p->values.at[i];
        bool keeps = made_of(v, op->value);
        forget_scalar(v, op->scalar);
        if (keeps) vec_push(p->m->arena, &v->scalars, op->scalar);
    }
    if (here) new_values(p, -1, op->scalar, false);
}

static bool whole_store(const Pins *p, const TileOp *op)
{
    i64 cols = 0;
    const TileFrag *f = &p->k->frags.at[op->frag];
    return op->imm == 0 && op->dst.rank == 2 &&
           expr_is_const(op->dst.extent[op->dst.dim[1]], &cols) && cols == f->dim[1];
}

// Is each read inside of a loop stored by the statement that makes it? It does not matter then how
// often that happens.
static bool only_stores(const Pins *p, TileOp *op)
{
    if (op->op == TOP_STORE) return !op_reads(p, op) || reads(p, op->value);
    if (op->op == TOP_APPLY && !op->var2) return !op_reads(p, op);
    if (reads(p, op->value) || reads(p, op->cond)) return false;
    for (int i = 0; i < op->body.n; i++)
        if (!only_stores(p, op->body.at[i])) return false;
    for (int i = 0; i < op->other.n; i++)
        if (!only_stores(p, op->other.at[i])) return false;
    return true;
}

static void walk_op(Pins *p, TileOp *op);

static void walk_block(Pins *p, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) walk_op(p, b->at[i]);
}

// The first n values as they are now, with lists of their own.
static Values *copy_values(Pins *p, int n)
{
    Values *to = ARENA_ARRAY(p->m->arena, Values, n + 1);
    for (int i = 0; i < n; i++) {
        const Values *v = &p->values.at[i];
        to[i].pinned = v->pinned;
        for (int k = 0; k < v->frags.n; k++) vec_push(p->m->arena, &to[i].frags, v->frags.at[k]);
        for (int k = 0; k < v->scalars.n; k++)
            vec_push(p->m->arena, &to[i].scalars, v->scalars.at[k]);
    }
    return to;
}

// What holds on both ways.
static void join(Values *a, const Values *b)
{
    a->pinned = a->pinned && b->pinned;
    for (int i = 0; i < a->frags.n; i++)
        if (!holds_frag(b, a->frags.at[i])) a->frags.at[i--] = a->frags.at[--a->frags.n];
    for (int i = 0; i < a->scalars.n; i++)
        if (!holds_scalar(b, a->scalars.at[i])) a->scalars.at[i--] = a->scalars.at[--a->scalars.n];
}

// Values that were read before the branch are where both ways leave them; those that one way reads
// are where it leaves them, since whoever has them came that way. What a product in flight pins is
// known within a way only.
static void walk_branch(Pins *p, const TileOp *op)
{
    int before = p->values.n, futures = p->futures.n;
    Values *entry = copy_values(p, before);
    walk_block(p, &op->body);
    Values *left = copy_values(p, p->values.n);
    int all = p->values.n;
    p->values.n = before;
    p->futures.n = p->future_values.n = futures;
    for (int i = 0; i < before; i++) p->values.at[i] = entry[i];
    walk_block(p, &op->other);
    p->futures.n = p->future_values.n = futures;
    for (int i = 0; i < before; i++) join(&p->values.at[i], &left[i]);
    for (int i = before; i < all; i++) vec_push(p->m->arena, &p->values, left[i]);
}

static void walk_op(Pins *p, TileOp *op)
{
    bool here = op_reads(p, op);
    if (op->op == TOP_COPY && is_slot(p, &op->src)) return; // read and stored at once
    switch ((TileOpcode)op->op) {
    case TOP_PAR: walk_block(p, &op->body); return;
    case TOP_IF:
        p->lost |= reads(p, op->cond);
        walk_branch(p, op);
        return;
    case TOP_APPLY: walk_apply(p, op); return;
    case TOP_SET: walk_set(p, op, here); return;
    case TOP_STORE:
        pin_made_of(p, op->value);
        if (here) new_values(p, -1, -1, reads(p, op->value));
        return;
    case TOP_FCOPY:
        for (int i = 0; i < p->values.n; i++) {
            bool keeps = holds_frag(&p->values.at[i], key(op->frag2, op->frag2_slot));
            forget_frag(&p->values.at[i], key(op->frag, op->frag_slot));
            if (keeps) vec_push(p->m->arena, &p->values.at[i].frags, key(op->frag, op->frag_slot));
        }
        return;
    case TOP_MMA: walk_product(p, op); return;
    case TOP_WAIT:
        for (int i = 0; i < p->futures.n; i++)
            if (p->futures.at[i] == op->future)
                p->values.at[p->future_values.at[i]].pinned = true;
        return;
    case TOP_MMA_STORE:
        if (whole_store(p, op)) pin_frag(p, key(op->frag, op->frag_slot));
        return;
    default:
        p->lost |= here && !only_stores(p, op);
        forget_written(p, op);
    }
}

int tile_pinned_at(const TileModule *m, const TileKernel *k, const TileBlock *list, int first,
                   int last, int buffer)
{
    Pins p = {.m = m, .k = k, .buffer = tile_memory(k, buffer)};
    for (int i = first; i < list->n; i++) {
        walk_op(&p, list->at[i]);
        if (p.lost) return -1;
        if (i < last) continue;
        bool all = true;
        for (int v = 0; v < p.values.n; v++) all = all && p.values.at[v].pinned;
        if (all) return i;
    }
    return -1;
}
