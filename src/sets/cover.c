// cover.c - is every element of a tensor written? The coordinates of a store are brought into
// the form
//
//     start + c1 * d1 + c2 * d2 + ...        with 0 <= di < ni
//
// per dimension, where the digits d are parts of block and thread numbers, rounds and copies, each
// in one dimension only. Sorted by coefficient, such a sum takes every value from `start` on as
// long as no coefficient is larger than the run of values before it; only the last digit may have a
// count that depends on sizes. Several stores that differ by a constant in one dimension are one
// more digit. That the run reaches the end of the tensor, and that no condition on the way keeps
// out an element within it, is asked of libisl.
//
// Threads that do not matter for the place (the one that issues a bulk store, the one of four lanes
// that has the sum) are fixed: a store takes place if it does for the lowest of them.
#include "store.h"

#include <string.h>

enum { DIGITS = 12, ROUNDS = 8, NARROW = 64 };

// A digit with its values lo, ..., lo + count - 1; `count` may depend on sizes.
typedef struct {
    Unknown *u;
    i64 coef, lo;
    const Expr *count;
} Digit;

typedef struct {
    const Expr *start;
    Digit digit[DIGITS];
    int n;
} Line;

typedef struct {
    Access a;
    Line line[6];
} Piece;

typedef struct {
    Space *s;
    Asker *asker;
    const Tensor *t;
    CoverResult *out;
} Search;

static bool give_up(Search *c, const Access *a, const char *why)
{
    c->out->why = why;
    c->out->loc = a->op->loc;
    return false;
}

// ---- digits -------------------------------------------------------------------------------------

typedef struct {
    i64 at[DIGITS];
    int n;
} Divisors;

static void add_divisor(Divisors *d, i64 v)
{
    int i = 0;
    while (i < d->n && d->at[i] < v) i++;
    if (v <= 1 || (i < d->n && d->at[i] == v) || d->n == DIGITS) return;
    memmove(&d->at[i + 1], &d->at[i], sizeof *d->at * (size_t)(d->n - i));
    d->at[i] = v;
    d->n++;
}

// Is `e` a part of the variable, counted in units of *scale?
static bool is_part(const Expr *e, const Expr *var, i64 *scale)
{
    i64 c;
    *scale = 1;
    if (e == var) return true;
    if ((e->op != EX_DIV && e->op != EX_MOD) || !expr_is_const(e->b, &c) || c < 1 ||
        !is_part(e->a, var, scale))
        return false;
    if (e->op == EX_DIV) *scale *= c;
    return true;
}

// Where an expression cuts the variable.
static void cuts_of(const Expr *e, const Expr *var, Divisors *d)
{
    i64 scale, c;
    if (e->op == EX_CONST || e->op == EX_VAR) return;
    if ((e->op == EX_DIV || e->op == EX_MOD) && expr_is_const(e->b, &c) && c > 1 &&
        is_part(e->a, var, &scale))
        add_divisor(d, scale * c);
    cuts_of(e->a, var, d);
    cuts_of(e->b, var, d);
    if (e->c) cuts_of(e->c, var, d);
}

static bool is_chain(const Divisors *d)
{
    for (int i = 1; i < d->n; i++)
        if (d->at[i] % d->at[i - 1]) return false;
    return true;
}

// Conditions cut too, as far as they fit to the coordinates.
static void all_cuts(const Access *a, const Expr *var, Divisors *d)
{
    for (int k = 0; k < a->rank; k++) cuts_of(a->at[k], var, d);
    Divisors more = *d;
    for (int i = 0; i < a->path.n; i++) cuts_of(a->path.at[i], var, &more);
    for (int i = 0; i < more.n; i++) {
        Divisors next = *d;
        add_divisor(&next, more.at[i]);
        if (is_chain(&next)) *d = next;
    }
}

// The unknown as a sum of digits. False: its cuts do not fit to each other.
static bool split(Search *c, Access *a, Unknown *u, bool *changed)
{
    Space *s = c->s;
    ExprPool *p = s->pool;
    Divisors d = {0};
    i64 lo, hi;
    all_cuts(a, u->var, &d);
    if (!d.n) return true;
    expr_range(p, u->var, &lo, &hi);
    if (lo || !is_chain(&d)) return false;
    const Expr *sum = expr_const(p, 0);
    access_drop(a, u);
    for (int i = 0; i <= d.n; i++) {
        i64 unit = i ? d.at[i - 1] : 1, most = i < d.n ? d.at[i] / unit - 1 : hi / unit;
        Unknown *digit = space_fresh(s, u->kind, u->shown, 0, MIN(most, hi / unit));
        sum = expr_add(p, sum, expr_mul(p, digit->var, expr_const(p, unit)));
        vec_push(s->arena, &a->inst, digit);
    }
    for (int i = 0; i < u->facts.n; i++) vec_push(s->arena, &a->path, u->facts.at[i]);
    if ((hi + 1) % d.at[d.n - 1])
        vec_push(s->arena, &a->path, expr_bin(p, EX_LE, u->var, expr_const(p, hi)));
    access_put(s, a, u->var, sum);
    *changed = true;
    return true;
}

// The number of values of an unknown; NULL: it is not known.
static const Expr *count_of(Space *s, const Unknown *u)
{
    i64 lo, hi;
    expr_range(s->pool, u->var, &lo, &hi);
    for (int i = 0; i < u->facts.n; i++) {
        const Expr *f = u->facts.at[i];
        if (u->facts.n == 1 && f->op == EX_LT && f->a == u->var) return f->b;
        return NULL;
    }
    return lo ? NULL : expr_const(s->pool, hi + 1);
}

// Adds k * e to the line. False: it is no sum of digits.
static bool add_to_line(Space *s, Line *l, const Expr *e, i64 k)
{
    ExprPool *p = s->pool;
    UnknownList in = {0};
    i64 v;
    space_collect(s, e, &in);
    bool sizes = true;
    for (int i = 0; i < in.n; i++) sizes &= in.at[i]->kind == UNKNOWN_SIZE;
    if (sizes) {
        l->start = expr_add(p, l->start, expr_mul(p, e, expr_const(p, k)));
        return true;
    }
    if (e->op == EX_ADD || e->op == EX_SUB)
        return add_to_line(s, l, e->a, k) && add_to_line(s, l, e->b, e->op == EX_ADD ? k : -k);
    if (e->op == EX_MUL && expr_is_const(e->b, &v)) return add_to_line(s, l, e->a, k * v);
    if (e->op == EX_MUL && expr_is_const(e->a, &v)) return add_to_line(s, l, e->b, k * v);
    if (e->op != EX_VAR || l->n == DIGITS || in.at[0]->kind == UNKNOWN_VALUE) return false;
    const Expr *count = count_of(s, in.at[0]);
    if (!count) return false;
    l->digit[l->n++] = (Digit){.u = in.at[0], .coef = k, .count = count};
    return true;
}

static void sort_line(Line *l)
{
    for (int i = 1; i < l->n; i++)
        for (int k = i; k > 0 && l->digit[k].coef < l->digit[k - 1].coef; k--) {
            Digit t = l->digit[k];
            l->digit[k] = l->digit[k - 1];
            l->digit[k - 1] = t;
        }
}

// ---- sums that are divided ---------------------------------------------------------------------

// Quotients and remainders by constants whose dividend is a sum.
static void divided_sums(Search *c, const Expr *e, ExprList *out)
{
    if (e->op == EX_CONST || e->op == EX_VAR) return;
    divided_sums(c, e->a, out);
    divided_sums(c, e->b, out);
    if (e->c) divided_sums(c, e->c, out);
    if ((e->op == EX_DIV || e->op == EX_MOD) && e->b->op == EX_CONST &&
        (e->a->op == EX_ADD || e->a->op == EX_MUL))
        vec_push(c->s->arena, out, e);
}

// Are two lines over the same digits equal modulo m?
static bool same_modulo(const Line *a, const Line *b, i64 m)
{
    i64 x, y;
    if (!expr_is_const(a->start, &x) || !expr_is_const(b->start, &y) || (x - y) % m) return false;
    for (int i = 0; i < MAX(a->n, b->n); i++) {
        const Line *one = i < a->n ? a : b, *two = one == a ? b : a;
        const Digit *d = &one->digit[i];
        i64 other = 0;
        for (int k = 0; k < two->n; k++)
            if (two->digit[k].u == d->u) other = two->digit[k].coef;
        if ((d->coef - other) % m) return false;
    }
    return a->n == b->n;
}

// A sum of digits that takes each value below a constant once is an unknown of its own, of which
// the digits are parts.
static bool join(Search *c, Access *a, const Expr *sum, const ExprList *nodes)
{
    Space *s = c->s;
    ExprPool *p = s->pool;
    Line l = {.start = expr_const(p, 0)};
    i64 v, reach = 1;
    if (!add_to_line(s, &l, sum, 1) || !expr_is_const(l.start, &v) || v) return false;
    sort_line(&l);
    for (int i = 0; i < l.n; i++) {
        if (l.digit[i].coef != reach || !expr_is_const(l.digit[i].count, &v)) return false;
        reach *= v;
    }
    Unknown *all = space_fresh(s, UNKNOWN_COPY, "element", 0, reach - 1);
    for (int i = 0; i < nodes->n; i++) { // remainders whose sums were reduced before
        Line o = {.start = expr_const(p, 0)};
        const Expr *e = nodes->at[i];
        if (e->op == EX_MOD && e->a != sum && e->b->value > 1 && add_to_line(s, &o, e->a, 1) &&
            same_modulo(&l, &o, e->b->value))
            access_put(s, a, e, expr_bin(p, EX_MOD, all->var, e->b));
    }
    access_put(s, a, sum, all->var);
    for (int i = 0; i < l.n; i++) {
        const Expr *part = expr_bin(p, EX_DIV, all->var, expr_const(p, l.digit[i].coef));
        access_put(s, a, l.digit[i].u->var, expr_bin(p, EX_MOD, part, l.digit[i].count));
        access_drop(a, l.digit[i].u);
    }
    vec_push(s->arena, &a->inst, all);
    return true;
}

// Until no coordinate divides anything.
static bool to_digits(Search *c, Access *a)
{
    for (int round = 0; round < ROUNDS; round++) {
        bool changed = false;
        UnknownList now = {0};
        for (int i = 0; i < a->inst.n; i++) vec_push(c->s->arena, &now, a->inst.at[i]);
        for (int i = 0; i < now.n; i++)
            if (!split(c, a, now.at[i], &changed)) return false;
        ExprList nodes = {0};
        for (int k = 0; k < a->rank; k++) divided_sums(c, a->at[k], &nodes);
        for (int i = 0; i < nodes.n && !changed; i++) changed = join(c, a, nodes.at[i]->a, &nodes);
        if (!changed) return true;
    }
    return true;
}

// ---- one store ---------------------------------------------------------------------------------

// Roles restrict a digit of the thread number to some of its values: 1 and 2 of 0, 1, 2.
static void narrow(Search *c, const Access *a, Digit *d)
{
    Space *s = c->s;
    ExprPool *p = s->pool;
    ExprList conds = {0};
    i64 n, lo = 0;
    if (!expr_is_const(d->count, &n) || n > NARROW) return;
    for (int i = 0; i < a->path.n; i++) {
        const Expr *e = a->path.at[i];
        if (expr_uses(e, d->u->var->name) && !space_uses(s, e, UNKNOWN_SIZE) &&
            !space_uses(s, e, UNKNOWN_VALUE))
            vec_push(s->arena, &conds, e);
    }
    if (!conds.n) return;
    i64 hi = n - 1;
    Sample x;
    vec_push(s->arena, &conds, NULL);
    while (lo < hi) {
        conds.at[conds.n - 1] = expr_bin(p, EX_EQ, d->u->var, expr_const(p, lo));
        if (ask(c->asker, &conds, &x) != ANSWER_NO) break;
        lo++;
    }
    while (lo < hi) {
        conds.at[conds.n - 1] = expr_bin(p, EX_EQ, d->u->var, expr_const(p, hi));
        if (ask(c->asker, &conds, &x) != ANSWER_NO) break;
        hi--;
    }
    d->lo = lo;
    d->count = expr_const(p, hi - lo + 1);
}

static bool make_piece(Search *c, const Access *from, Piece *out)
{
    Space *s = c->s;
    ExprPool *p = s->pool;
    *out = (Piece){.a = *from};
    Access *a = &out->a;
    a->inst = (UnknownList){0};
    for (int i = 0; i < from->inst.n; i++) vec_push(s->arena, &a->inst, from->inst.at[i]);
    if (a->unclear) return give_up(c, a, "threads leave inside of loops");
    if (!to_digits(c, a))
        return give_up(c, a, "its coordinates divide one number in ways that do not fit");
    for (int k = 0; k < a->rank; k++) {
        Line *l = &out->line[k];
        l->start = expr_const(p, 0);
        if (!add_to_line(s, l, a->at[k], 1))
            return give_up(c, a,
                           arena_printf(s->arena,
                                        "coordinate %d is no sum of parts of block "
                                        "and thread numbers and rounds",
                                        k));
        for (int i = 0; i < l->n; i++) {
            Digit *d = &l->digit[i];
            for (int m = 0; m < k; m++)
                for (int j = 0; j < out->line[m].n; j++)
                    if (out->line[m].digit[j].u == d->u)
                        return give_up(c, a, "two coordinates move together");
            narrow(c, a, d);
            for (int v = UNKNOWN_BLOCK; v <= UNKNOWN_VALUE; v++)
                if (space_uses(s, d->count, (UnknownKind)v))
                    return give_up(c, a, "the rounds of a loop depend on more than sizes");
            const Expr *coef = expr_const(p, d->coef), *one = expr_const(p, 1);
            // Falling digits are counted from the other end.
            const Expr *least = expr_const(p, d->lo);
            if (d->coef < 0) least = expr_add(p, least, expr_sub(p, d->count, one));
            l->start = expr_add(p, l->start, expr_mul(p, coef, least));
            d->coef = d->coef < 0 ? -d->coef : d->coef;
        }
        sort_line(l);
    }
    return true;
}

// ---- conditions on the way ---------------------------------------------------------------------

static bool is_used(const Piece *q, const Unknown *u)
{
    for (int k = 0; k < q->a.rank; k++)
        for (int i = 0; i < q->line[k].n; i++)
            if (q->line[k].digit[i].u == u) return true;
    return false;
}

// The element of the store's place is one of the tensor.
static void within(Search *c, const Piece *q, ExprList *out)
{
    ExprPool *p = c->s->pool;
    for (int k = 0; k < q->a.rank; k++) {
        const Expr *least = expr_const(p, 1 - q->a.count[k]);
        vec_push(c->s->arena, out, expr_bin(p, EX_LE, least, q->a.at[k]));
        vec_push(c->s->arena, out, expr_bin(p, EX_LT, q->a.at[k], c->t->dim[k]));
        for (int i = 0; i < q->line[k].n; i++) {
            const Digit *d = &q->line[k].digit[i];
            i64 n;
            if (!expr_is_const(d->count, &n)) continue;
            vec_push(c->s->arena, out, expr_bin(p, EX_LE, expr_const(p, d->lo), d->u->var));
            vec_push(c->s->arena, out, expr_bin(p, EX_LT, d->u->var, expr_const(p, d->lo + n)));
        }
    }
}

// Every place within the tensor meets the conditions, with the free unknowns at these values.
static Answer kept_out(Search *c, const Piece *q, const UnknownList *freed, const i64 *value,
                       Sample *x, bool *sure)
{
    Space *s = c->s;
    ExprPool *p = s->pool;
    ExprList all = {0};
    for (int i = 0; i < q->a.path.n; i++) vec_push(s->arena, &all, q->a.path.at[i]);
    for (int i = 0; i < freed->n; i++)
        for (int k = 0; k < freed->at[i]->facts.n; k++)
            vec_push(s->arena, &all, freed->at[i]->facts.at[k]);
    for (int i = 0; i < all.n; i++) {
        const Expr *cond = all.at[i];
        *sure = true;
        for (int k = 0; k < freed->n; k++) {
            *sure &= !expr_uses(cond, freed->at[k]->var->name);
            cond = space_put(s, cond, freed->at[k]->var, expr_const(p, value[k]));
        }
        ExprList conds = {0};
        vec_push(s->arena, &conds, space_not(s, cond));
        within(c, q, &conds);
        Answer r = ask(c->asker, &conds, x);
        if (r != ANSWER_NO) return r;
    }
    return ANSWER_NO;
}

// False: out says what is left out, or why that is open. Left out for certain (gap) is what only
// this execution could write: `unique`.
static bool conditions_hold(Search *c, const Piece *q, bool unique, bool *gap)
{
    Space *s = c->s;
    UnknownList freed = {0};
    Sample x;
    bool sure;
    for (int i = 0; i < q->a.inst.n; i++)
        if (!is_used(q, q->a.inst.at[i])) vec_push(s->arena, &freed, q->a.inst.at[i]);
    i64 *value = ARENA_ARRAY(s->arena, i64, freed.n + 1);
    Answer r = kept_out(c, q, &freed, value, &x, &sure);
    if (r == ANSWER_NO) return true;
    if (!sure) { // some other thread perhaps: one for which the store takes place
        Sample y;
        if (ask(c->asker, &q->a.path, &y) == ANSWER_YES)
            for (int i = 0; i < freed.n; i++)
                for (int k = 0; k < y.n; k++)
                    if (y.unknown[k] == freed.at[i]) value[i] = y.value[k];
        bool again;
        if (kept_out(c, q, &freed, value, &y, &again) == ANSWER_NO) return true;
    }
    *gap = r == ANSWER_YES && sure && unique;
    if (!*gap)
        return give_up(c, &q->a,
                       r == ANSWER_OPEN ? x.why : "no thread is seen that writes all of it");
    c->out->sample = x;
    c->out->loc = q->a.op->loc;
    bool ok;
    for (int k = 0; k < q->a.rank; k++) c->out->element[k] = sample_value(s, &x, q->a.at[k], &ok);
    return false;
}

// ---- the run of values -------------------------------------------------------------------------

static void all_extents(Search *c, ExprList *out)
{
    ExprPool *p = c->s->pool;
    for (int k = 0; k < c->t->rank; k++)
        vec_push(c->s->arena, out, expr_bin(p, EX_LE, expr_const(p, 1), c->t->dim[k]));
}

// Element `at` of dimension k is written for no value of the others.
static bool left_out(Search *c, const Piece *q, int k, i64 at, const Sample *x, bool *gap)
{
    c->out->sample = *x;
    c->out->loc = q->a.op->loc;
    memset(c->out->element, 0, sizeof c->out->element);
    c->out->element[k] = MAX(at, 0);
    *gap = true;
    return false;
}

// Whether element `first` of dimension k and those behind it may be in the tensor: then they are
// left out.
static bool beyond(Search *c, const Piece *q, int k, const Expr *first, bool *gap)
{
    ExprList conds = {0};
    Sample x;
    bool ok;
    all_extents(c, &conds);
    vec_push(c->s->arena, &conds, expr_bin(c->s->pool, EX_LT, first, c->t->dim[k]));
    Answer r = ask(c->asker, &conds, &x);
    if (r == ANSWER_NO) return true;
    if (r == ANSWER_OPEN) return give_up(c, &q->a, x.why);
    return left_out(c, q, k, sample_value(c->s, &x, first, &ok), &x, gap);
}

// Does the line take all values from 0 to the extent of dimension k? *unique: none of them twice.
static bool line_covers(Search *c, const Piece *q, int k, const Line *l, bool *gap, bool *unique)
{
    ExprPool *p = c->s->pool;
    ExprList conds = {0};
    Sample x;
    i64 reach = q->a.count[k], n;
    *gap = false;
    all_extents(c, &conds);
    vec_push(c->s->arena, &conds, expr_bin(p, EX_LT, expr_const(p, 0), l->start));
    Answer r = ask(c->asker, &conds, &x);
    if (r == ANSWER_YES) return left_out(c, q, k, 0, &x, gap);
    if (r == ANSWER_OPEN)
        return give_up(c, &q->a,
                       arena_printf(c->s->arena, "coordinate %d may not start at 0", k));
    bool at_zero = expr_is_const(l->start, &n) && !n;
    *unique &= at_zero;
    for (int i = 0; i < l->n; i++) {
        const Digit *d = &l->digit[i];
        *unique &= d->coef == reach;
        if (d->coef > reach && !at_zero)
            return give_up(c, &q->a, arena_printf(c->s->arena, "coordinate %d may leave gaps", k));
        if (d->coef > reach)
            return beyond(c, q, k, expr_add(p, l->start, expr_const(p, reach)), gap);
        if (expr_is_const(d->count, &n)) {
            reach += d->coef * (n - 1);
            continue;
        }
        const Expr *end =
            expr_mul(p, expr_sub(p, d->count, expr_const(p, 1)), expr_const(p, d->coef));
        end = expr_add(p, expr_add(p, end, expr_const(p, reach)), l->start);
        if (i < l->n - 1) return give_up(c, &q->a, "two counts depend on sizes");
        return beyond(c, q, k, end, gap);
    }
    return beyond(c, q, k, expr_add(p, l->start, expr_const(p, reach)), gap);
}

// ---- several stores ----------------------------------------------------------------------------

static bool same_digits(const Line *a, const Line *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->digit[i].coef != b->digit[i].coef || a->digit[i].count != b->digit[i].count)
            return false;
    return true;
}

// The pieces that differ from q by constants in dimension k, as a digit: equal steps from the
// lowest start. *n: how many they are; 1 when they make no digit.
static void family(Search *c, const Piece *all, int pieces, const Piece *q, int k, Line *l,
                   u8 *member, int *n)
{
    ExprPool *p = c->s->pool;
    i64 at[DIGITS], v;
    *n = 0;
    for (int i = 0; i < pieces && *n < DIGITS; i++) {
        const Piece *o = &all[i];
        bool fits = o->a.rank == q->a.rank && o->a.count[k] == q->a.count[k];
        for (int d = 0; d < q->a.rank && fits; d++) {
            fits = same_digits(&o->line[d], &q->line[d]);
            const Expr *apart = expr_sub(p, o->line[d].start, q->line[d].start);
            fits &= expr_is_const(apart, &v) && (d == k || (!v && o->a.count[d] == q->a.count[d]));
            if (d == k && fits) at[*n] = v;
        }
        member[i] = fits;
        *n += fits;
    }
    for (int i = 1; i < *n; i++)
        for (int j = i; j > 0 && at[j] < at[j - 1]; j--) {
            i64 t = at[j];
            at[j] = at[j - 1];
            at[j - 1] = t;
        }
    *l = q->line[k];
    bool even = *n > 1 && at[1] > at[0] && l->n < DIGITS;
    for (int i = 2; i < *n; i++) even &= at[i] - at[i - 1] == at[1] - at[0];
    if (!even) {
        *n = 1;
        return;
    }
    l->start = expr_add(p, l->start, expr_const(p, at[0]));
    l->digit[l->n++] = (Digit){.coef = at[1] - at[0], .count = expr_const(p, *n)};
    sort_line(l);
}

// q and what makes a digit with it in dimension k (-1: q alone) write everything.
static bool covers(Search *c, const Piece *all, int pieces, const Piece *q, int k, bool *gap,
                   bool *whole)
{
    u8 *member = ARENA_ARRAY(c->s->arena, u8, pieces);
    int n = 1;
    Line l;
    for (int i = 0; i < pieces; i++) member[i] = &all[i] == q;
    if (k >= 0) {
        family(c, all, pieces, q, k, &l, member, &n);
        if (n == 1) return false;
    }
    *whole = n == pieces;
    bool unique = true;
    for (int d = 0; d < q->a.rank; d++)
        if (!line_covers(c, q, d, d == k ? &l : &q->line[d], gap, &unique)) return false;
    for (int i = 0; i < pieces; i++)
        if (member[i] && !conditions_hold(c, &all[i], unique, gap)) return false;
    return true;
}

Cover cover_tensor(Space *s, Asker *asker, const Tensor *t, CoverResult *out)
{
    Search c = {.s = s, .asker = asker, .t = t, .out = out};
    Piece *all = ARENA_ARRAY(s->arena, Piece, t->stores.n + 1);
    for (int k = 0; k < t->rank; k++)
        if (!t->dim[k]) {
            out->why = "an extent is not known";
            return COVER_OPEN;
        }
    for (int i = 0; i < t->stores.n; i++)
        if (!make_piece(&c, &t->stores.at[i], &all[i])) return COVER_OPEN;
    for (int i = 0; i < t->stores.n; i++) {
        for (int k = -1; k < t->rank; k++) {
            bool gap = false, whole = false;
            if (covers(&c, all, t->stores.n, &all[i], k, &gap, &whole)) return COVER_ALL;
            if (gap && whole) return COVER_GAP;
            if (k >= 0 && whole) return COVER_OPEN;
            if (t->stores.n == 1) return COVER_OPEN;
        }
    }
    out->why = "several stores share it in a way that is not followed";
    return COVER_OPEN;
}
