// sums.c - see sums.h. Arithmetic is that of integers without wrapping: what is said holds for
// fewer than 2^31 rounds, and for growth modulo a power of two for any number.
#include "sums.h"

i64 sums_gcd(i64 a, i64 b)
{
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        i64 r = a % b;
        a = b;
        b = r;
    }
    return a;
}

bool term_number(const Sums *r, Term x, i64 *v)
{
    TermView n = term_view(r->t, x);
    if (!x || n.form != TERM_IS_CONST) return false;
    *v = (i64)n.value;
    return true;
}

// A constant operand with its sign; 32-bit constants are kept without.
bool term_signed(const Sums *r, u8 type, Term x, i64 *v)
{
    bool wide = type == TT_B64 || type == TT_S64 || type == TT_U64;
    if (!term_number(r, x, v)) return false;
    if (!wide && *v >= 0 && *v <= (i64)UINT32_MAX) *v = (i32)(u32)*v;
    return true;
}

bool sums_bounds_vary(const Sums *r, const SteerLoop *k)
{
    if (r->varies[k->bound >= 0 ? k->carried.at[k->bound].next : 0] && k->bound >= 0) return true;
    bool unknown = !k->lo || !k->hi;
    i64 v;
    return unknown || (!term_number(r, k->lo, &v) && r->varies[k->lo]) ||
           (!term_number(r, k->hi, &v) && r->varies[k->hi]);
}

bool sums_varies(const Sums *r, Term x)
{
    i64 v;
    return !x || (!term_number(r, x, &v) && r->varies[x]);
}

bool type_is_word(u8 type)
{
    return type == TT_S32 || type == TT_U32 || type == TT_B32 || type == TT_S64 || type == TT_U64 ||
           type == TT_B64;
}

// ---- what a round adds --------------------------------------------------------------------------

static Growth grow_by(Growth g, i64 c)
{
    g.c += c;
    g.g = g.known ? g.c : sums_gcd(g.g, c);
    return g;
}

static Growth grow_freely(Growth g, i64 multiple)
{
    g.known = false;
    g.g = sums_gcd(g.g, multiple);
    return g;
}

static void add_condition(Growth *g, Term p)
{
    for (int i = 0; i < g->nconditions; i++)
        if (g->condition[i] == p) return;
    if (g->nconditions == GROWTH_CONDITIONS) g->ok = false;
    else g->condition[g->nconditions++] = p;
}

static Growth growth(const Sums *r, int loop, Term x, int *fuel);

static Growth growth_choice(const Sums *r, int loop, const TermView *n, int *fuel)
{
    Growth a = growth(r, loop, n->a, fuel), b = growth(r, loop, n->b, fuel);
    if (!a.ok || !b.ok || a.base != b.base) return (Growth){0};
    if (a.known && b.known && a.c == b.c) return a;
    Growth g = a;
    g.known = false;
    g.g = sums_gcd(a.g, b.g);
    g.sums |= b.sums;
    for (int i = 0; i < b.nconditions; i++) add_condition(&g, b.condition[i]);
    if (sums_varies(r, n->c)) add_condition(&g, n->c);
    return g;
}

static Growth growth_exit(const Sums *r, int loop, Term x, int *fuel)
{
    int inner;
    const SteerCarried *c = steer_carried(r->s, x, &inner);
    const SteerLoop *k = &r->s->loops.at[inner];
    Growth g = growth(r, loop, c->first, fuel), i = growth(r, inner, c->next, fuel);
    if (inner == loop || !g.ok || !i.ok || &k->carried.at[i.base] != c) return (Growth){0};
    if (k->rounds >= 0 && i.known) return grow_by(g, i.c * k->rounds);
    g = grow_freely(g, i.g);
    g.sums |= sums_bounds_vary(r, k) || i.sums;
    for (int j = 0; j < i.nconditions; j++) add_condition(&g, i.condition[j]);
    return g;
}

// How the value follows from what an entry of `loop` had at the start of the round.
static Growth growth(const Sums *r, int loop, Term x, int *fuel)
{
    TermView n = term_view(r->t, x);
    int owner;
    i64 c;
    if (!x || --*fuel < 0) return (Growth){0};
    if (n.form == TERM_IS_LEAF && n.op == LEAF_HEAD) {
        const SteerCarried *at = steer_carried(r->s, x, &owner);
        if (owner != loop) return (Growth){0};
        int base = (int)(at - r->s->loops.at[loop].carried.at);
        return (Growth){.ok = true, .known = true, .base = base};
    }
    if (n.form == TERM_IS_LEAF && n.op == LEAF_EXIT) return growth_exit(r, loop, x, fuel);
    if (n.form != TERM_IS_OP) return (Growth){0};
    if (n.op == OP_SELP) return growth_choice(r, loop, &n, fuel);
    if (n.op != OP_ADD && n.op != OP_SUB) return (Growth){0};
    if (term_signed(r, n.type, n.b, &c))
        return grow_by(growth(r, loop, n.a, fuel), n.op == OP_ADD ? c : -c);
    if (n.op == OP_ADD && term_signed(r, n.type, n.a, &c))
        return grow_by(growth(r, loop, n.b, fuel), c);
    if (!sums_varies(r, n.b)) return grow_freely(growth(r, loop, n.a, fuel), 1);
    if (n.op == OP_ADD && !sums_varies(r, n.a)) return grow_freely(growth(r, loop, n.b, fuel), 1);
    return (Growth){0};
}

Growth sums_growth(const Sums *r, int loop, Term x)
{
    int fuel = SUMS_FUEL;
    return growth(r, loop, x, &fuel);
}

// ---- sums ---------------------------------------------------------------------------------------

void lin_add(Lin *to, Term term, i64 k)
{
    int i = 0;
    while (i < to->n && to->term[i] != term) i++;
    if (i == LIN_TERMS) {
        to->ok = false;
        return;
    }
    if (i == to->n) to->term[to->n++] = term, to->k[i] = 0;
    to->k[i] += k;
    if (to->k[i]) return;
    to->n--;
    to->term[i] = to->term[to->n];
    to->k[i] = to->k[to->n];
}

Lin lin_sum(Lin a, const Lin *b, i64 k)
{
    a.ok = a.ok && b->ok && k > -(1 << 30) && k < 1 << 30;
    if (!a.ok) return a;
    a.c += k * b->c;
    if (a.c > (i64)1 << 40 || a.c < -((i64)1 << 40)) a.ok = false;
    for (int i = 0; i < b->n; i++) lin_add(&a, b->term[i], k * b->k[i]);
    return a;
}

static Lin lin_of(const Sums *r, Term x, int *fuel);

static Lin lin_scaled(const Sums *r, Term x, i64 k, int *fuel)
{
    Lin zero = {.ok = true}, a = lin_of(r, x, fuel);
    return lin_sum(zero, &a, k);
}

// A register that grows by the same in every round goes with the counter of its loop.
static Lin lin_head(const Sums *r, Term x, int *fuel)
{
    int loop;
    const SteerCarried *c = steer_carried(r->s, x, &loop);
    const SteerLoop *l = &r->s->loops.at[loop];
    Lin self = {.ok = true, .n = 1, .term = {x}, .k = {1}};
    int entry = (int)(c - l->carried.at);
    if (l->counter < 0 || l->counter_written || entry == l->counter) return self;
    Growth g = sums_growth(r, loop, c->next);
    if (!g.ok || !g.known || g.base != entry || g.c % l->step) return self;
    Lin counter = {.ok = true, .n = 1, .term = {l->carried.at[l->counter].head}, .k = {1}};
    Lin lo = lin_of(r, l->lo, fuel), first = lin_of(r, c->first, fuel);
    counter = lin_sum(counter, &lo, -1);
    return lin_sum(first, &counter, g.c / l->step);
}

static Lin lin_of(const Sums *r, Term x, int *fuel)
{
    TermView n = term_view(r->t, x);
    Lin self = {.ok = x != TERM_UNKNOWN, .n = 1, .term = {x}, .k = {1}}, a, b;
    i64 c;
    if (!x || --*fuel < 0) return (Lin){0};
    if (n.form == TERM_IS_CONST) {
        if (!term_signed(r, TT_B32, x, &c)) return (Lin){0};
        return (Lin){.ok = true, .c = c};
    }
    if (n.form == TERM_IS_LEAF && n.op == LEAF_HEAD) return lin_head(r, x, fuel);
    if (n.form != TERM_IS_OP || !type_is_word(n.type)) return self;
    switch (n.op) {
    case OP_ADD:
    case OP_SUB:
        a = lin_of(r, n.a, fuel);
        b = lin_of(r, n.b, fuel);
        return lin_sum(a, &b, n.op == OP_ADD ? 1 : -1);
    case OP_NEG: return lin_scaled(r, n.a, -1, fuel);
    case OP_MUL:
    case OP_MULWIDE:
        if (term_signed(r, n.type, n.b, &c)) return lin_scaled(r, n.a, c, fuel);
        if (term_signed(r, n.type, n.a, &c)) return lin_scaled(r, n.b, c, fuel);
        return self;
    case OP_MAD:
        if (!term_signed(r, n.type, n.b, &c)) return self;
        a = lin_scaled(r, n.a, c, fuel);
        b = lin_of(r, n.c, fuel);
        return lin_sum(a, &b, 1);
    case OP_SHL:
        if (!term_number(r, n.b, &c) || c > 30) return self;
        return lin_scaled(r, n.a, (i64)1 << c, fuel);
    case OP_CVT: return type_is_word(n.type2) ? lin_of(r, n.a, fuel) : self;
    default: return self;
    }
}

Lin sums_lin(const Sums *r, Term x)
{
    int fuel = SUMS_FUEL;
    return lin_of(r, x, &fuel);
}

