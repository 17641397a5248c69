// hoist.c - divisions that do not change in a loop are done in front of it.
//
// Names of the source are expressions here, computed where they are used. That is right for sums,
// which cost an instruction and often vanish in an address. A division by a number that is known only
// at launch takes some thirty, and in the loop of a role that issues copies it would stand between a
// slot's release and its next load. Input: a loop about to be opened. Its invariant expressions with
// such a division go to the register cache, where the body finds them.
#include "impl.h"

enum { SAME = 1, DIVIDES, VARIES }; // what is known of an expression; DIVIDES: SAME, with a division

typedef struct {
    Lower *l;
    Map *inside;               // variables that the loop binds
    Map *known;                // expression -> SAME, DIVIDES or VARIES
    Map *done;                 // expressions that were looked through
} Hoist;

static void find_bound(Hoist *h, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->var) map_put(h->inside, op->var, h);
        if (op->var2) map_put(h->inside, op->var2, h);
        find_bound(h, &op->body);
        find_bound(h, &op->other);
    }
}

static intptr_t variable(const Hoist *h, const Expr *e)
{
    const Expr *to = map_get(h->l->subst, e->name);
    if (map_get(h->inside, e->name) || e->name[0] == '$') return VARIES;
    if (to) return lower_uses_mutable(h->l, to) ? VARIES : SAME;
    return e->name[0] == '%' ? VARIES : SAME; // else a symbol of the launch
}

// Once for each node: expressions share their parts.
static intptr_t look(const Hoist *h, const Expr *e)
{
    if (!e || e->op == EX_CONST) return SAME;
    intptr_t known = (intptr_t)map_get(h->known, e);
    if (known) return known;
    if (e->op == EX_VAR) {
        known = variable(h, e);
    } else {
        bool divides = (e->op == EX_DIV || e->op == EX_MOD) && e->b->op != EX_CONST;
        intptr_t a = look(h, e->a), b = look(h, e->b), c = look(h, e->c);
        known = MAX(MAX(a, b), MAX(c, divides ? (intptr_t)DIVIDES : (intptr_t)SAME));
    }
    map_put(h->known, e, (void *)known);
    return known;
}

static void hoist(const Hoist *h, const Expr *e)
{
    if (!e || e->op == EX_CONST || map_get(h->done, e)) return;
    map_put(h->done, e, (void *)1);
    intptr_t known = look(h, e);
    if (known == DIVIDES) lower_index(h->l, lower_subst(h->l, e));
    if (known != VARIES || e->op == EX_VAR) return;
    hoist(h, e->a);
    hoist(h, e->b);
    hoist(h, e->c);
}

static void hoist_view(const Hoist *h, const TileView *v)
{
    if (v->buffer < 0) return;
    hoist(h, v->slot);
    for (int d = 0; d < h->l->k->buffers.at[v->buffer].rank; d++) hoist(h, v->origin[d]);
}

static void hoist_block(const Hoist *h, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_COPY) hoist_view(h, &op->src);
        if (op->op == TOP_COPY || op->op == TOP_MMA_STORE) hoist_view(h, &op->dst);
        hoist(h, op->order);
        if (op->op == TOP_FOR) hoist(h, op->lo);
        if (op->op == TOP_FOR) hoist(h, op->hi);
        hoist_block(h, &op->body);
        hoist_block(h, &op->other);
    }
}

void lower_hoist(Lower *l, const TileOp *loop)
{
    Arena *a = l->m->arena;
    if (l->apply.op) return;
    Hoist h = {.l = l, .inside = map_new(a), .known = map_new(a), .done = map_new(a)};
    map_put(h.inside, loop->var, &h);
    find_bound(&h, &loop->body);
    hoist_block(&h, &loop->body);
}
