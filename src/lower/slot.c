// slot.c - which warpgroups trigger which slot of an event's ring.
//
// A slot's barrier counts the arrivals of one generation, so it must know who triggers that slot. As
// a rule all threads of the role trigger every slot in turn. Warpgroups that take turns do not: each
// counts its orders from a start of its own in steps of the ring's length (`order = g; order += 2`
// in a ring of two), and always meets the same slot. Residues modulo the length tell the two apart:
// for one warpgroup each scalar has the set of residues that its assignments can give it, whatever
// their order in the program.
#include "impl.h"

typedef struct {
    Lower *l;
    int group, slots;
    const Map *index; // name of a scalar -> its index + 1
    u64 *set;         // per scalar: bit r = it may be r modulo `slots`
    bool grew;
} Residues;

static u64 all_of(const Residues *s) { return s->slots == 64 ? ~0ull : (1ull << s->slots) - 1; }

static u64 one_of(const Residues *s, i64 value)
{
    i64 r = value % s->slots;
    return 1ull << (r < 0 ? r + s->slots : r);
}

// Every pair of residues, combined.
static u64 combine(const Residues *s, ExprOp op, u64 a, u64 b)
{
    u64 out = 0;
    for (int i = 0; i < s->slots; i++)
        for (int k = 0; k < s->slots && a >> i & 1; k++)
            if (b >> k & 1)
                out |= one_of(s, op == EX_ADD ? i + k : op == EX_SUB ? i - k : (i64)i * k);
    return out;
}

static u64 residues(const Residues *s, const Expr *e)
{
    const Lower *l = s->l;
    intptr_t i;
    if (!e) return all_of(s);
    switch (e->op) {
    case EX_CONST: return one_of(s, e->value);
    case EX_VAR:
        if (l->par_vars[LEVEL_GROUP4].n == 1 && e->name == l->par_vars[LEVEL_GROUP4].at[0])
            return one_of(s, s->group);
        return (i = (intptr_t)map_get(s->index, e->name)) ? s->set[i - 1] : all_of(s);
    case EX_ADD:
    case EX_SUB:
    case EX_MUL: return combine(s, (ExprOp)e->op, residues(s, e->a), residues(s, e->b));
    default: return all_of(s);
    }
}

// Assignments that the warpgroup executes.
static void collect(Residues *s, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        if (op->op == TOP_ROLE &&
            (op->hi->value <= s->group * 128 || op->lo->value >= (s->group + 1) * 128))
            continue;
        if (op->op == TOP_SET) {
            const TExpr *v = op->value;
            while (v->kind == TX_CAST && !dtype_is_float(v->type) && dtype_bytes[v->type] >= 4)
                v = v->a;
            u64 r = v->kind == TX_INDEX    ? residues(s, v->index)
                    : v->kind == TX_SCALAR ? s->set[v->scalar]
                                           : all_of(s);
            s->grew |= (r & ~s->set[op->scalar]) != 0;
            s->set[op->scalar] |= r;
        }
        collect(s, &op->body);
        collect(s, &op->other);
    }
}

// One fixed point for each length and warpgroup serves all triggers.
static u64 *scalar_sets(Residues *s)
{
    Lower *l = s->l;
    const void *key = (const void *)(intptr_t)(s->slots * 64 + s->group + 1);
    u64 *known = map_get(l->residues, key);
    if (known) return known;
    s->set = ARENA_ARRAY(l->m->arena, u64, l->k->scalars.n + 1);
    do {
        s->grew = false;
        collect(s, &l->k->body);
    } while (s->grew);
    map_put(l->residues, key, s->set);
    return s->set;
}

u64 slots_of_group(Lower *l, const Expr *order, int slots, int group)
{
    Residues s = {.l = l, .group = group, .slots = slots, .index = l->scalar_index};
    if (slots > 64) return ~0ull;
    s.set = scalar_sets(&s);
    return residues(&s, order);
}
