// ask.c - may these conditions hold together? Decided by libisl on systems of linear inequalities.
//
// A question is brought into cases first (solve): `or`, `!=`, minima, choices and divisions of
// numbers of unknown sign each make two, by putting one side in the place of the whole. What is
// left of a case is a list of comparisons of polynomials over unknowns and quotients. Each product
// of unknowns becomes a column of its own, about which a few linear consequences are known
// (leaf_products); each quotient a column that its definition encloses. When libisl finds no
// integer point there is none: a column of its own only allows more. When it finds one, the
// conditions are evaluated there; only what passes is an answer "yes".
#include "sets.h"
#include "space.h"

#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/mat.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>
#include <string.h>

enum {
    CASES = 96,   // of one question
    FUSE = 20000, // operations of libisl for one case
    FACTORS = 4,  // of a product
    COLUMNS = 96,
    CONSEQUENCES = 160, // rows of leaf_products
    SMALL_SIZE = 256,   // samples prefer sizes up to this, or to 16 times as much
    GUESSES = 4,        // launches that are tried when products are in the way
    WORK = 12000,       // of one part and kernel: a step that splits a question is 1,
    WORK_CASE = 10,     // a case that libisl decides
    WORK_FUSE = 100,    // and one that it gives up
};
static const i64 KNOWN_BOUND = (i64)1 << 40; // larger bounds say nothing worth a row

struct Asker {
    Space *s;
    isl_ctx *ctx;
    int work; // done so far
};

Asker *asker_new(Space *s)
{
    Asker *a = ARENA_NEW(s->arena, Asker);
    a->s = s;
    a->ctx = isl_ctx_alloc();
    isl_options_set_on_error(a->ctx, ISL_ON_ERROR_CONTINUE);
    return a;
}

bool sets_are_asked(void) { return true; }

void asker_free(Asker *a) { isl_ctx_free(a->ctx); }

// ---- one case: linear rows over columns ---------------------------------------------------------

// A column stands for a product of atoms: an unknown, a quotient, or a term that is not analysed.
typedef struct {
    int n, atom[FACTORS];
} Column;
typedef struct {
    int col;
    i64 coef;
} Term;
typedef struct {
    VEC(Term) terms;
    i64 k;
    bool lost;
} Poly; // lost: could not be written down

typedef struct {
    Asker *asker;
    Space *s;
    Arena *arena;
    const ExprList *conds;
    VEC(const Expr *) atoms;
    VEC(Column) columns;
    VEC(Poly) zero, plus; // = 0, >= 0
    bool full;            // too many columns
} Leaf;

static int column_of(Leaf *l, Column c)
{
    for (int i = 0; i < l->columns.n; i++) {
        const Column *d = &l->columns.at[i];
        if (d->n == c.n && !memcmp(d->atom, c.atom, sizeof *c.atom * (size_t)c.n)) return i;
    }
    if (l->columns.n == COLUMNS) {
        l->full = true;
        return 0;
    }
    vec_push(l->arena, &l->columns, c);
    return l->columns.n - 1;
}

static void poly_add_term(Leaf *l, Poly *p, int col, i64 coef)
{
    for (int i = 0; i < p->terms.n; i++) {
        if (p->terms.at[i].col != col) continue;
        if (__builtin_add_overflow(p->terms.at[i].coef, coef, &p->terms.at[i].coef)) p->lost = true;
        if (!p->terms.at[i].coef) p->terms.at[i] = p->terms.at[--p->terms.n];
        return;
    }
    if (coef) vec_push(l->arena, &p->terms, ((Term){col, coef}));
}

// p += k * q
static void poly_add(Leaf *l, Poly *p, const Poly *q, i64 k)
{
    i64 v;
    p->lost |= q->lost;
    for (int i = 0; i < q->terms.n; i++) {
        if (__builtin_mul_overflow(q->terms.at[i].coef, k, &v))
            p->lost = true;
        else
            poly_add_term(l, p, q->terms.at[i].col, v);
    }
    if (__builtin_mul_overflow(q->k, k, &v) || __builtin_add_overflow(p->k, v, &p->k))
        p->lost = true;
}

// Factors in rising order, so that a product has one column.
static bool column_product(Leaf *l, int x, int y, int *out)
{
    Column a = l->columns.at[x], b = l->columns.at[y], c = {0};
    if (a.n + b.n > FACTORS) return false;
    int i = 0, j = 0;
    while (i < a.n || j < b.n)
        c.atom[c.n++] = j == b.n || (i < a.n && a.atom[i] <= b.atom[j]) ? a.atom[i++] : b.atom[j++];
    *out = column_of(l, c);
    return !l->full;
}

static Poly poly_mul(Leaf *l, const Poly *a, const Poly *b)
{
    Poly p = {.lost = a->lost || b->lost};
    poly_add(l, &p, a, b->k);
    Poly bare = *b;
    bare.k = 0;
    if (a->k) poly_add(l, &p, &bare, a->k);
    for (int i = 0; i < a->terms.n; i++) {
        for (int j = 0; j < b->terms.n; j++) {
            int col;
            i64 v;
            if (!column_product(l, a->terms.at[i].col, b->terms.at[j].col, &col) ||
                __builtin_mul_overflow(a->terms.at[i].coef, b->terms.at[j].coef, &v)) {
                p.lost = true;
                return p;
            }
            poly_add_term(l, &p, col, v);
        }
    }
    return p;
}

static void add_row(Leaf *l, Poly p, bool equal)
{
    if (p.lost || l->full) return;
    if (equal)
        vec_push(l->arena, &l->zero, p);
    else
        vec_push(l->arena, &l->plus, p);
}

// ---- terms --------------------------------------------------------------------------------------

static Poly poly_of(Leaf *l, const Expr *e);

static bool is_given(const ExprList *conds, const Expr *c)
{
    for (int i = 0; i < conds->n; i++)
        if (conds->at[i] == c) return true;
    return false;
}

static const Expr *at_least_zero(Space *s, const Expr *e)
{
    return expr_bin(s->pool, EX_LE, expr_const(s->pool, 0), e);
}

static bool is_not_negative(Space *s, const ExprList *conds, const Expr *e)
{
    i64 lo, hi;
    expr_range(s->pool, e, &lo, &hi);
    return lo >= 0 || is_given(conds, at_least_zero(s, e));
}

static bool is_positive(Space *s, const ExprList *conds, const Expr *e)
{
    i64 lo, hi;
    expr_range(s->pool, e, &lo, &hi);
    return lo >= 1 || is_given(conds, expr_bin(s->pool, EX_LE, expr_const(s->pool, 1), e));
}

// q = a / b: b * q <= a <= b * q + b - 1, turned round for a negative a.
static void define_quotient(Leaf *l, const Expr *e, const Poly *q)
{
    Poly a = poly_of(l, e->a), b = poly_of(l, e->b), rest = a, room = {0};
    if (!is_positive(l->s, l->conds, e->b)) return;
    Poly product = poly_mul(l, &b, q);
    rest = (Poly){0};
    poly_add(l, &rest, &a, 1);
    poly_add(l, &rest, &product, -1);
    if (!is_not_negative(l->s, l->conds, e->a)) {
        if (!is_given(l->conds, expr_bin(l->s->pool, EX_LT, e->a, expr_const(l->s->pool, 0))))
            return;
        Poly turned = {0};
        poly_add(l, &turned, &rest, -1);
        rest = turned;
    }
    poly_add(l, &room, &b, 1);
    poly_add(l, &room, &rest, -1);
    room.k -= 1;
    add_row(l, rest, false);
    add_row(l, room, false);
}

static Poly atom_poly(Leaf *l, const Expr *e)
{
    Poly p = {0};
    int k = 0;
    while (k < l->atoms.n && l->atoms.at[k] != e) k++;
    bool is_new = k == l->atoms.n;
    if (is_new) vec_push(l->arena, &l->atoms, e);
    int col = column_of(l, (Column){.n = 1, .atom = {k}});
    poly_add_term(l, &p, col, 1);
    if (!is_new) return p;
    i64 lo, hi;
    expr_range(l->s->pool, e, &lo, &hi);
    if (lo > -KNOWN_BOUND) {
        Poly low = {.k = -lo};
        poly_add_term(l, &low, col, 1);
        add_row(l, low, false);
    }
    if (hi < KNOWN_BOUND) {
        Poly high = {.k = hi};
        poly_add_term(l, &high, col, -1);
        add_row(l, high, false);
    }
    if (e->op == EX_DIV) define_quotient(l, e, &p);
    return p;
}

// a % b = a - b * (a / b)
static Poly remainder_poly(Leaf *l, const Expr *e)
{
    const Expr *q = expr_bin(l->s->pool, EX_DIV, e->a, e->b);
    Poly p = {0}, a = poly_of(l, e->a), b = poly_of(l, e->b), c = poly_of(l, q);
    Poly product = poly_mul(l, &b, &c);
    poly_add(l, &p, &a, 1);
    poly_add(l, &p, &product, -1);
    return p;
}

static Poly poly_of(Leaf *l, const Expr *e)
{
    Poly p = {0}, a, b;
    switch ((ExprOp)e->op) {
    case EX_CONST: p.k = e->value; return p;
    case EX_ADD:
    case EX_SUB:
        a = poly_of(l, e->a);
        b = poly_of(l, e->b);
        poly_add(l, &p, &a, 1);
        poly_add(l, &p, &b, e->op == EX_ADD ? 1 : -1);
        return p;
    case EX_MUL:
        a = poly_of(l, e->a);
        b = poly_of(l, e->b);
        return poly_mul(l, &a, &b);
    case EX_MOD: return remainder_poly(l, e);
    default: return atom_poly(l, e);
    }
}

// A comparison as a row: b - a >= 0, b - a - 1 >= 0, b - a = 0.
static void add_condition(Leaf *l, const Expr *c)
{
    Poly a = poly_of(l, c->a), b = poly_of(l, c->b), p = {0};
    poly_add(l, &p, &b, 1);
    poly_add(l, &p, &a, -1);
    if (c->op == EX_LT) p.k -= 1;
    add_row(l, p, c->op == EX_EQ);
}

// ---- products -----------------------------------------------------------------------------------

static bool has_factor(const Column *c, int atom)
{
    for (int i = 0; i < c->n; i++)
        if (c->atom[i] == atom) return true;
    return false;
}

// p times the atom, as one more row; a row p >= 0 stays one when the atom is not negative.
static void multiply_row(Leaf *l, const Poly *p, int atom, bool equal)
{
    Poly x = {0};
    poly_add_term(l, &x, column_of(l, (Column){.n = 1, .atom = {atom}}), 1);
    Poly copy = *p;
    Poly q = poly_mul(l, &copy, &x);
    add_row(l, q, equal);
}

// Is there a column of the product of this atom and some atom of the row? Then row times atom is
// about it.
static bool meets(Leaf *l, const Poly *p, int atom, int columns)
{
    for (int i = 0; i < columns; i++) {
        const Column *c = &l->columns.at[i];
        if (c->n < 2 || !has_factor(c, atom)) continue;
        for (int t = 0; t < p->terms.n; t++) {
            const Column *d = &l->columns.at[p->terms.at[t].col];
            if (d->n == 1 && d->atom[0] != atom && has_factor(c, d->atom[0])) return true;
        }
    }
    return false;
}

// Linear consequences about products: rows multiplied with atoms that are not negative.
static void leaf_products(Leaf *l)
{
    int columns = l->columns.n, zero = l->zero.n, plus = l->plus.n, made = 0;
    bool any = false;
    for (int i = 0; i < columns; i++) any |= l->columns.at[i].n > 1;
    for (int a = 0; a < l->atoms.n && any; a++) {
        i64 lo, hi;
        expr_range(l->s->pool, l->atoms.at[a], &lo, &hi);
        if (lo < 0) continue;
        for (int i = 0; i < plus && made < CONSEQUENCES; i++)
            if (meets(l, &l->plus.at[i], a, columns))
                multiply_row(l, &l->plus.at[i], a, false), made++;
        for (int i = 0; i < zero && made < CONSEQUENCES; i++)
            if (meets(l, &l->zero.at[i], a, columns))
                multiply_row(l, &l->zero.at[i], a, true), made++;
    }
    for (int i = 0; i < l->columns.n; i++) { // a product of such atoms is not negative either
        const Column c = l->columns.at[i];
        bool positive = c.n > 1;
        for (int k = 0; k < c.n; k++) {
            i64 lo, hi;
            expr_range(l->s->pool, l->atoms.at[c.atom[k]], &lo, &hi);
            positive &= lo >= 0;
        }
        if (!positive) continue;
        Poly p = {0};
        poly_add_term(l, &p, i, 1);
        add_row(l, p, false);
    }
}

// ---- libisl -------------------------------------------------------------------------------------

static isl_mat *matrix(Leaf *l, const Poly *rows, int n)
{
    isl_ctx *ctx = l->asker->ctx;
    int columns = l->columns.n;
    isl_mat *m = isl_mat_alloc(ctx, (unsigned)n, (unsigned)columns + 1);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= columns; k++) m = isl_mat_set_element_si(m, i, k, 0);
        for (int t = 0; t < rows[i].terms.n; t++)
            m = isl_mat_set_element_val(m, i, rows[i].terms.at[t].col,
                                        isl_val_int_from_si(ctx, rows[i].terms.at[t].coef));
        m = isl_mat_set_element_val(m, i, columns, isl_val_int_from_si(ctx, rows[i].k));
    }
    return m;
}

static isl_basic_set *system_of(Leaf *l)
{
    isl_space *space = isl_space_set_alloc(l->asker->ctx, 0, (unsigned)l->columns.n);
    return isl_basic_set_from_constraint_matrices(space, matrix(l, l->zero.at, l->zero.n),
                                                  matrix(l, l->plus.at, l->plus.n), isl_dim_set,
                                                  isl_dim_div, isl_dim_param, isl_dim_cst);
}

// A point of the system, one value per column; false: it has none, or the fuse blew.
static bool point_of(Leaf *l, isl_basic_set *set, i64 *value)
{
    isl_point *p = isl_basic_set_sample_point(set);
    if (!p || isl_point_is_void(p) != isl_bool_false) {
        isl_point_free(p);
        return false;
    }
    for (int i = 0; i < l->columns.n; i++) {
        isl_val *v = isl_point_get_coordinate_val(p, isl_dim_set, i);
        value[i] = v ? isl_val_get_num_si(v) : 0;
        isl_val_free(v);
    }
    isl_point_free(p);
    return true;
}

// Keeps the sizes of the sample small where they can be.
static isl_basic_set *small_sizes(Leaf *l, isl_basic_set *all, int most)
{
    isl_basic_set *set = isl_basic_set_copy(all);
    for (int i = 0; i < l->columns.n; i++) {
        if (l->columns.at[i].n != 1) continue;
        const Expr *e = l->atoms.at[l->columns.at[i].atom[0]];
        Unknown *u = e->op == EX_VAR ? space_find(l->s, e) : NULL;
        if (u && u->kind == UNKNOWN_SIZE)
            set = isl_basic_set_upper_bound_val(set, isl_dim_set, (unsigned)i,
                                                isl_val_int_from_si(l->asker->ctx, most));
    }
    return set;
}

static void take_sample(Leaf *l, const i64 *value, Sample *out)
{
    UnknownList all = {0};
    for (int i = 0; i < l->conds->n; i++) space_collect(l->s, l->conds->at[i], &all);
    out->n = all.n;
    out->unknown = all.at;
    out->value = ARENA_ARRAY(l->arena, i64, all.n + 1);
    for (int i = 0; i < all.n; i++) {
        i64 lo, hi;
        expr_range(l->s->pool, all.at[i]->var, &lo, &hi);
        out->value[i] = lo > 0 ? lo : 0;
        for (int k = 0; k < l->columns.n; k++)
            if (l->columns.at[k].n == 1 && l->atoms.at[l->columns.at[k].atom[0]] == all.at[i]->var)
                out->value[i] = value[k];
    }
}

// ANSWER_YES here only says that libisl found a point.
static Answer ask_leaf(Asker *a, const ExprList *conds, Sample *out)
{
    Leaf l = {.asker = a, .s = a->s, .arena = a->s->arena, .conds = conds};
    for (int i = 0; i < conds->n; i++) add_condition(&l, conds->at[i]);
    leaf_products(&l);
    if (l.full) {
        out->why = "too many terms";
        return ANSWER_OPEN;
    }
    a->work += WORK_CASE;
    isl_ctx_reset_operations(a->ctx);
    isl_ctx_set_max_operations(a->ctx, FUSE);
    isl_basic_set *set = system_of(&l);
    isl_bool empty = isl_basic_set_is_empty(set);
    i64 *value = ARENA_ARRAY(a->s->arena, i64, l.columns.n + 1);
    Answer r = empty == isl_bool_true ? ANSWER_NO : ANSWER_OPEN;
    if (empty == isl_bool_error) {
        out->why = "libisl gave up";
        a->work += WORK_FUSE;
    }
    if (empty == isl_bool_false) {
        bool found = point_of(&l, small_sizes(&l, set, SMALL_SIZE), value) ||
                     point_of(&l, small_sizes(&l, set, SMALL_SIZE * 16), value) ||
                     point_of(&l, isl_basic_set_copy(set), value);
        if (found)
            take_sample(&l, value, out);
        else
            out->why = "libisl gave no sample";
        if (found) r = ANSWER_YES;
    }
    isl_basic_set_free(set);
    isl_ctx_set_max_operations(a->ctx, 0);
    isl_ctx_reset_error(a->ctx);
    return r;
}

// ---- cases --------------------------------------------------------------------------------------

static bool is_truth(const Expr *e) { return e->op >= EX_EQ && e->op <= EX_LOR; }

// Needs a case of its own inside of arithmetic: NULL: nothing in `e` does.
static const Expr *find_split(Space *s, const ExprList *conds, const Expr *e)
{
    if (e->op == EX_CONST || e->op == EX_VAR) return NULL;
    if (e->op == EX_MIN || e->op == EX_MAX || e->op == EX_SELECT || is_truth(e)) return e;
    const Expr *in = find_split(s, conds, e->a);
    if (!in) in = find_split(s, conds, e->b);
    if (in || (e->op != EX_DIV && e->op != EX_MOD)) return in;
    ExprPool *p = s->pool;
    if (!is_positive(s, conds, e->b) &&
        !is_given(conds, expr_bin(p, EX_LT, e->b, expr_const(p, 1))))
        return e;
    if (!is_not_negative(s, conds, e->a) &&
        !is_given(conds, expr_bin(p, EX_LT, e->a, expr_const(p, 0))))
        return e;
    return NULL;
}

typedef struct {
    Asker *a;
    int cases;
    const char *why; // of a case that stayed open
    bool products;   // nothing but products kept a case open
    Sample *out;
} Question;

static Answer solve(Question *q, const ExprList *conds);

// The list with `what` put for by and one more condition.
static Answer solve_with(Question *q, const ExprList *conds, const Expr *what, const Expr *by,
                         const Expr *more)
{
    Space *s = q->a->s;
    ExprList next = {0};
    vec_push(s->arena, &next, more);
    for (int i = 0; i < conds->n; i++)
        vec_push(s->arena, &next, what ? space_put(s, conds->at[i], what, by) : conds->at[i]);
    return solve(q, &next);
}

// Both cases must be refuted for a "no".
static Answer either(Question *q, const ExprList *conds, const Expr *what, const Expr *by1,
                     const Expr *c1, const Expr *by2, const Expr *c2)
{
    Answer x = solve_with(q, conds, what, by1, c1);
    if (x == ANSWER_YES) return x;
    Answer y = solve_with(q, conds, what, by2, c2);
    return y == ANSWER_NO ? x : y;
}

static Answer split_at(Question *q, const ExprList *conds, const Expr *e)
{
    Space *s = q->a->s;
    ExprPool *p = s->pool;
    const Expr *c;
    switch ((ExprOp)e->op) {
    case EX_MIN:
        return either(q, conds, e, e->a, expr_bin(p, EX_LE, e->a, e->b), e->b,
                      expr_bin(p, EX_LT, e->b, e->a));
    case EX_MAX:
        return either(q, conds, e, e->b, expr_bin(p, EX_LE, e->a, e->b), e->a,
                      expr_bin(p, EX_LT, e->b, e->a));
    case EX_SELECT: return either(q, conds, e, e->b, e->a, e->c, space_not(s, e->a));
    case EX_DIV:
    case EX_MOD:
        c = is_positive(s, conds, e->b) ||
                    is_given(conds, expr_bin(p, EX_LT, e->b, expr_const(p, 1)))
                ? at_least_zero(s, e->a)
                : expr_bin(p, EX_LE, expr_const(p, 1), e->b);
        return either(q, conds, NULL, NULL, c, NULL, space_not(s, c));
    default: return either(q, conds, e, expr_const(p, 1), e, expr_const(p, 0), space_not(s, e));
    }
}

// True: the conditions hold at the sample.
static bool holds(Space *s, const ExprList *conds, const Sample *x)
{
    for (int i = 0; i < conds->n; i++) {
        bool ok;
        if (!sample_value(s, x, conds->at[i], &ok) || !ok) return false;
    }
    return true;
}

// Comparisons only, without anything that needs a case.
static Answer decide(Question *q, const ExprList *conds)
{
    Sample x = {0};
    Answer r = ask_leaf(q->a, conds, &x);
    if (r == ANSWER_OPEN) q->why = x.why;
    if (r != ANSWER_YES) return r;
    for (int i = 0; i < x.n; i++) {
        if (x.unknown[i]->loose) {
            q->why = arena_printf(q->a->s->arena, "no launch plan says what %s may be",
                                  x.unknown[i]->shown);
            return ANSWER_OPEN;
        }
        if (x.unknown[i]->kind != UNKNOWN_VALUE) continue;
        q->why = arena_printf(q->a->s->arena, "it depends on %s, of which too little is known",
                              x.unknown[i]->shown);
        return ANSWER_OPEN;
    }
    if (!holds(q->a->s, conds, &x)) {
        q->why = "it depends on products that are not followed";
        q->products = true;
        return ANSWER_OPEN;
    }
    *q->out = x;
    return r;
}

// A truth that is no comparison of numbers: what it splits into. *done is false for comparisons.
static Answer split_truth(Question *q, const ExprList *rest, const Expr *c, bool *done)
{
    Space *s = q->a->s;
    ExprPool *p = s->pool;
    const Expr *zero = expr_const(p, 0), *one = expr_const(p, 1);
    *done = true;
    switch ((ExprOp)c->op) {
    case EX_LOR: return either(q, rest, NULL, NULL, c->a, NULL, c->b);
    case EX_SELECT:
        return either(q, rest, NULL, NULL, expr_bin(p, EX_LAND, c->a, c->b), NULL,
                      expr_bin(p, EX_LAND, space_not(s, c->a), c->c));
    case EX_EQ:
    case EX_NE: {
        const Expr *t = is_truth(c->a) ? c->a : c->b, *o = t == c->a ? c->b : c->a;
        bool same = c->op == EX_EQ;
        if (is_truth(t)) {
            const Expr *both = expr_bin(
                p, EX_LAND, t, same ? expr_bin(p, EX_NE, o, zero) : expr_bin(p, EX_EQ, o, zero));
            const Expr *none =
                expr_bin(p, EX_LAND, space_not(s, t),
                         same ? expr_bin(p, EX_EQ, o, zero) : expr_bin(p, EX_NE, o, zero));
            return either(q, rest, NULL, NULL, both, NULL, none);
        }
        if (same) break;
        return either(q, rest, NULL, NULL, expr_bin(p, EX_LT, c->a, c->b), NULL,
                      expr_bin(p, EX_LT, c->b, c->a));
    }
    case EX_LT:
    case EX_LE: break;
    default: // a number taken for a truth
        return either(q, rest, NULL, NULL, expr_bin(p, EX_LE, one, c), NULL,
                      expr_bin(p, EX_LT, c, zero));
    }
    *done = false;
    return ANSWER_OPEN;
}

static Answer solve(Question *q, const ExprList *conds)
{
    Space *s = q->a->s;
    ExprList flat = {0}, left = {0};
    if (++q->cases > CASES || ++q->a->work > WORK) {
        q->why = q->cases > CASES ? "too many cases" : "too much was asked of this kernel";
        return ANSWER_OPEN;
    }
    for (int i = conds->n - 1; i >= 0; i--) vec_push(s->arena, &left, conds->at[i]);
    while (left.n) {
        const Expr *c = left.at[--left.n];
        if (c->op == EX_LAND) {
            vec_push(s->arena, &left, c->b);
            vec_push(s->arena, &left, c->a);
        } else if (c->op == EX_CONST) {
            if (!c->value) return ANSWER_NO;
        } else if (!is_given(&flat, c)) {
            if (is_given(&flat, space_not(s, c))) return ANSWER_NO;
            vec_push(s->arena, &flat, c);
        }
    }
    for (int i = 0; i < flat.n; i++) {
        bool done;
        ExprList rest = {0};
        for (int k = 0; k < flat.n; k++)
            if (k != i) vec_push(s->arena, &rest, flat.at[k]);
        Answer r = split_truth(q, &rest, flat.at[i], &done);
        if (done) return r;
    }
    for (int i = 0; i < flat.n; i++) {
        const Expr *e = find_split(s, &flat, flat.at[i]->a);
        if (!e) e = find_split(s, &flat, flat.at[i]->b);
        if (e) return split_at(q, &flat, e);
    }
    return decide(q, &flat);
}

// ---- questions ----------------------------------------------------------------------------------

// The conditions with the facts of all unknowns in them, and of those in the facts.
static void with_facts(Space *s, const ExprList *conds, ExprList *out)
{
    UnknownList seen = {0};
    for (int i = 0; i < conds->n; i++) {
        vec_push(s->arena, out, conds->at[i]);
        space_collect(s, conds->at[i], &seen);
    }
    for (int i = 0; i < seen.n; i++) {
        Unknown *u = seen.at[i];
        for (int k = 0; k < u->facts.n; k++) {
            vec_push(s->arena, out, u->facts.at[k]);
            space_collect(s, u->facts.at[k], &seen);
        }
    }
}

// Numbers for all sizes make products of them linear: a few launches, in the hope of a sample. The
// first has the sizes of the contract.
static bool guess(Asker *a, const ExprList *conds, Sample *out)
{
    static const i64 number[] = {1, 2, 3, 130, 300, 65, 7};
    Space *s = a->s;
    for (int g = 0; g < GUESSES; g++) {
        ExprList with = {0};
        UnknownList sizes = {0};
        i64 value[16];
        for (int i = 0; i < conds->n; i++) space_collect(s, conds->at[i], &sizes);
        for (int i = 0; i < conds->n; i++) vec_push(s->arena, &with, conds->at[i]);
        int n = 0;
        for (int i = 0; i < sizes.n && n < COUNT(value); i++) {
            Unknown *u = sizes.at[i];
            if (u->kind != UNKNOWN_SIZE) continue;
            i64 v = number[(i * 2 + g * 3) % COUNT(number)];
            for (int k = 0; g == 0 && s->job->plan && k < s->job->plan->symbols.n; k++)
                if (s->job->plan->symbols.at[k].has_default &&
                    !strcmp(s->job->plan->symbols.at[k].name, u->shown))
                    v = s->job->plan->symbols.at[k].default_value;
            if (!strcmp(u->shown, "device.sms")) v = 2 + g;
            for (int k = 0; k < with.n; k++)
                with.at[k] = space_put(s, with.at[k], u->var, expr_const(s->pool, v));
            sizes.at[n] = u;
            value[n++] = v;
        }
        Question q = {.a = a, .out = out};
        if (solve(&q, &with) != ANSWER_YES) continue;
        Sample all = {.n = out->n + n,
                      .unknown = ARENA_ARRAY(s->arena, Unknown *, out->n + n),
                      .value = ARENA_ARRAY(s->arena, i64, out->n + n)};
        memcpy(all.unknown, sizes.at, sizeof *all.unknown * (size_t)n);
        memcpy(all.value, value, sizeof *value * (size_t)n);
        memcpy(all.unknown + n, out->unknown, sizeof *all.unknown * (size_t)out->n);
        memcpy(all.value + n, out->value, sizeof *all.value * (size_t)out->n);
        *out = all;
        return true;
    }
    return false;
}

Answer ask(Asker *a, const ExprList *conds, Sample *out)
{
    Space *s = a->s;
    ExprList all = {0}, more = {0};
    *out = (Sample){0};
    for (int i = 0; i < conds->n; i++)
        if (conds->at[i]->op == EX_CONST && !conds->at[i]->value) return ANSWER_NO;
    with_facts(s, conds, &all);
    Question q = {.a = a, .out = out};
    Answer r = solve(&q, &all);
    if (r != ANSWER_NO && s->sizes.n) {
        for (int i = 0; i < conds->n; i++) vec_push(s->arena, &more, conds->at[i]);
        for (int i = 0; i < s->sizes.n; i++) vec_push(s->arena, &more, s->sizes.at[i]);
        all = (ExprList){0};
        with_facts(s, &more, &all);
        q = (Question){.a = a, .out = out};
        r = solve(&q, &all);
    }
    if (r == ANSWER_OPEN && q.products && guess(a, &all, out)) return ANSWER_YES;
    if (r == ANSWER_OPEN) out->why = q.why ? q.why : "libisl gave up";
    return r;
}

// ---- samples ------------------------------------------------------------------------------------

typedef struct {
    Space *s;
    const Sample *x;
} Lookup;

static bool lookup(void *ctx, const char *name, i64 *value)
{
    const Lookup *l = ctx;
    for (int i = 0; i < l->x->n; i++) {
        if (strcmp(l->x->unknown[i]->var->name, name) != 0) continue;
        *value = l->x->value[i];
        return true;
    }
    // No condition names it: any value will do.
    Unknown *u = map_get(l->s->by_name, name);
    i64 hi;
    if (u) expr_range(l->s->pool, u->var, value, &hi);
    return u != NULL;
}

i64 sample_value(Space *s, const Sample *x, const Expr *e, bool *ok)
{
    Lookup l = {s, x};
    i64 v = 0;
    *ok = expr_eval(e, lookup, &l, &v) == NULL;
    return *ok ? v : 0;
}

const char *sample_text(Space *s, const Sample *x)
{
    Buf b = {0};
    for (int kind = UNKNOWN_SIZE; kind <= UNKNOWN_VALUE; kind++)
        for (int i = 0; i < x->n; i++)
            if (x->unknown[i]->kind == kind)
                buf_printf(&b, "%s%s = %lld", b.n ? ", " : "", x->unknown[i]->shown,
                           (long long)x->value[i]);
    if (!b.n) buf_puts(&b, "any sizes");
    const char *text = arena_strndup(s->arena, b.s, b.n);
    buf_free(&b);
    return text;
}
