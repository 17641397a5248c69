// expr.c - the integer expressions of shapes, coordinates and checks (expr.h).
//
// Two layers. `cons` makes a node once per distinct content. On top of it expr_bin brings every
// polynomial into one form, a sum of integer multiples of products (positive coefficients first,
// each group in order of creation, the constant last), and folds division and remainder by what
// is known of ranges and divisors. Where folding would overflow or grow too large the plain node is
// made instead: less is proved, nothing is wrong.
//
// Input: operands of the same pool. Output: a node that evaluates to the same value wherever the
// unfolded expression has one. Invariant: expr_bin(op, e->a, e->b) == e for every node e, as long
// as no range changes; printing and reading rests on that.
#include "expr.h"

#include <string.h>

enum {
    SUM_TERMS = 64,       // longest sum that is kept in order
    FACTORS = 24,         // longest product that is kept in order
    PRODUCT_TERMS = 16,   // largest product of sums that is multiplied out
    DEPTH_MAX = 1000,     // of a tree; deeper ones become the variable "too.deep"
    TREE_MAX = 1 << 14,   // nodes of a tree, shared ones counted each time
    READ_DEPTH = 200,     // parentheses and calls within each other
    POW2_MAX_BIT = 40,    // divisors beyond 2^40 help nobody
};

#define UNBOUNDED_LO INT64_MIN
#define UNBOUNDED_HI INT64_MAX

// A node with what the pool remembers of it.
typedef struct {
    Expr e;               // first, so that Expr * and Node * are the same address
    i64 lo, hi;           // bounds, valid in `epoch`
    u32 epoch;            // 0: never computed
    u32 size;             // nodes of the tree
    u32 depth;
    const char *unknown;  // EX_VAR: what evaluation says when nobody binds it
} Node;

typedef struct {
    i64 lo, hi;
} Range;

struct ExprPool {
    Arena *arena;         // of all nodes
    Intern *names;        // of the variables
    Node **slot;          // open addressing, cap a power of two
    int n, cap;           // nodes, slots
    u32 epoch;            // grows when a range is set, so that cached bounds expire
    Map *ranges;          // interned name -> Range *
};

static const struct {
    const char *text;     // as it is printed and read
    int precedence;       // 1 binds loosest; 0: written as a call
} expr_op[EX_COUNT] = {
#define X(id, text, prec) {text, prec},
    EXPR_OPS(X)
#undef X
};

ExprPool *expr_pool_new(Arena *a, Intern *names)
{
    ExprPool *p = ARENA_NEW(a, ExprPool);
    p->arena = a;
    p->names = names;
    p->cap = 256;
    p->slot = ARENA_ARRAY(a, Node *, p->cap);
    p->epoch = 1;
    p->ranges = map_new(a);
    return p;
}

// Names used with the pool must come from here, or they would not compare by pointer.
Intern *expr_pool_names(ExprPool *p) { return p->names; }

// ---- nodes, one per content ---------------------------------------------------------------------

// Over everything that tells two nodes apart; operands by address, since they are unique already.
static u64 node_hash(const Expr *e)
{
    u64 h = (u64)e->op * 0x9e3779b97f4a7c15u ^ (u64)e->value;
    const void *parts[4] = {e->name, e->a, e->b, e->c};
    for (int i = 0; i < 4; i++)
        h = (h ^ (u64)(uintptr_t)parts[i]) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return h;
}

// Shallow: operands are unique, so their addresses stand for them.
static bool same_content(const Expr *x, const Expr *y)
{
    return x->op == y->op && x->value == y->value && x->name == y->name && x->a == y->a &&
           x->b == y->b && x->c == y->c;
}

// Only the table moves; nodes stay where they are.
static void pool_grow(ExprPool *p)
{
    Node **old = p->slot;
    int old_cap = p->cap;
    p->cap *= 2;
    p->slot = ARENA_ARRAY(p->arena, Node *, p->cap);
    for (int i = 0; i < old_cap; i++) {
        if (!old[i]) continue;
        u64 h = node_hash(&old[i]->e);
        while (p->slot[h & (u64)(p->cap - 1)]) h++;
        p->slot[h & (u64)(p->cap - 1)] = old[i];
    }
}

// The one node with this content. Size and depth are bounded here, so that every walk over an
// expression may recurse and takes bounded time.
static const Expr *cons(ExprPool *p, Expr key)
{
    u32 size = 1, depth = 0;
    const Expr *kids[3] = {key.a, key.b, key.c};
    for (int i = 0; i < 3; i++) {
        if (!kids[i]) continue;
        const Node *k = (const Node *)kids[i];
        size += k->size;
        depth = MAX(depth, k->depth);
    }
    // A name that nobody binds: the checkers of plan and thread IR refuse it, so it does no harm
    // that two different trees become the same pointer here.
    if (size > TREE_MAX || depth + 1 > DEPTH_MAX) return expr_var(p, "too.deep");
    if (p->n * 2 >= p->cap) pool_grow(p);
    for (u64 h = node_hash(&key);; h++) {
        Node **at = &p->slot[h & (u64)(p->cap - 1)];
        if (!*at) {
            Node *n = *at = ARENA_NEW(p->arena, Node);
            n->e = key;
            n->e.id = (u32)p->n++;
            n->size = size;
            n->depth = depth + 1;
            if (key.op == EX_VAR)
                n->unknown = arena_printf(p->arena, "unknown variable %s", key.name);
            return &n->e;
        }
        if (same_content(&(*at)->e, &key)) return &(*at)->e;
    }
}

const Expr *expr_const(ExprPool *p, i64 v) { return cons(p, (Expr){.op = EX_CONST, .value = v}); }

const Expr *expr_var(ExprPool *p, const char *name)
{
    return cons(p, (Expr){.op = EX_VAR, .name = intern(p->names, name)});
}

// A binary node without any folding.
static const Expr *cons2(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    return cons(p, (Expr){.op = (u8)op, .a = a, .b = b});
}

static bool is_commutative(ExprOp op)
{
    return op == EX_ADD || op == EX_MUL || op == EX_MIN || op == EX_MAX || op == EX_AND ||
           op == EX_OR || op == EX_XOR || op == EX_EQ || op == EX_NE;
}

// The node as asked for, operands of symmetric operators in order of creation.
static const Expr *plain(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    if (is_commutative(op) && a->id > b->id) return cons2(p, op, b, a);
    return cons2(p, op, a, b);
}

// Nodes that were folded with an older range stay as they are: set ranges before building on them.
// Where that is done no bounds rest on the variable yet, and those that are known stay so.
void expr_set_range(ExprPool *p, const char *name, i64 lo, i64 hi)
{
    const Expr *var = expr_var(p, name);
    Range *r = map_get(p->ranges, var->name);
    if (!r) map_put(p->ranges, var->name, r = ARENA_NEW(p->arena, Range));
    *r = (Range){lo, hi};
    if (((const Node *)var)->epoch == p->epoch) p->epoch++;
}

// ---- ranges ------------------------------------------------------------------------------------

// Sum of two bounds of one side; what overflows is no bound.
static i64 add_bound(i64 a, i64 b, i64 unbounded)
{
    i64 s;
    if (a == unbounded || b == unbounded || __builtin_add_overflow(a, b, &s)) return unbounded;
    return s;
}

static Range full_range(void) { return (Range){UNBOUNDED_LO, UNBOUNDED_HI}; }

static bool is_bounded(Range r) { return r.lo != UNBOUNDED_LO && r.hi != UNBOUNDED_HI; }

// Both unbounded marks change sides; -INT64_MAX is a number, so nothing overflows.
static Range negated(Range r)
{
    return (Range){r.hi == UNBOUNDED_HI ? UNBOUNDED_LO : -r.hi,
                   r.lo == UNBOUNDED_LO ? UNBOUNDED_HI : -r.lo};
}

// Products of bounds at the four corners; open ends are followed only where signs are known.
static Range mul_range(Range a, Range b)
{
    if ((!a.lo && !a.hi) || (!b.lo && !b.hi)) return (Range){0, 0};
    if (a.lo >= 0 && b.lo >= 0) { // one side may be open
        Range r = {0, UNBOUNDED_HI};
        if (__builtin_mul_overflow(a.lo, b.lo, &r.lo)) r.lo = 0;
        if (a.hi == UNBOUNDED_HI || b.hi == UNBOUNDED_HI ||
            __builtin_mul_overflow(a.hi, b.hi, &r.hi))
            r.hi = UNBOUNDED_HI;
        return r;
    }
    if (a.hi <= 0 && a.lo != UNBOUNDED_LO) return negated(mul_range(negated(a), b));
    if (!is_bounded(a) || !is_bounded(b)) return full_range();
    i64 corner[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &corner[0]) ||
        __builtin_mul_overflow(a.lo, b.hi, &corner[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &corner[2]) ||
        __builtin_mul_overflow(a.hi, b.hi, &corner[3]))
        return full_range();
    Range r = {corner[0], corner[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = MIN(r.lo, corner[i]);
        r.hi = MAX(r.hi, corner[i]);
    }
    return r;
}

// Quotients truncate toward zero, so a positive divisor keeps the sign and never grows the value.
static Range div_range(Range a, Range b)
{
    // A divisor of any sign, but not 0: the quotient's magnitude is at most the dividend's.
    if (b.lo < 1) {
        if (!is_bounded(a)) return full_range();
        i64 most = MAX(MAX(a.hi, -a.hi), MAX(a.lo, -a.lo));
        return (Range){-most, most};
    }
    Range r;
    if (a.lo == UNBOUNDED_LO) r.lo = UNBOUNDED_LO;
    else r.lo = a.lo >= 0 ? (b.hi == UNBOUNDED_HI ? 0 : a.lo / b.hi) : a.lo / b.lo;
    if (a.hi == UNBOUNDED_HI) r.hi = UNBOUNDED_HI;
    else r.hi = a.hi >= 0 ? a.hi / b.lo : (b.hi == UNBOUNDED_HI ? 0 : a.hi / b.hi);
    return r;
}

// The remainder has the dividend's sign and is smaller than both magnitudes.
static Range mod_range(Range a, Range b)
{
    i64 most = UNBOUNDED_HI; // largest magnitude of the remainder
    if (is_bounded(b)) most = MAX(MAX(b.hi, -b.hi), MAX(b.lo, -b.lo)) - 1;
    if (most < 0) most = 0;
    Range r = {a.lo >= 0 ? 0 : (most == UNBOUNDED_HI ? UNBOUNDED_LO : -most),
               a.hi <= 0 ? 0 : most};
    if (a.lo < 0) r.lo = MAX(r.lo, a.lo);
    if (a.hi > 0) r.hi = MIN(r.hi, a.hi);
    return r;
}

// For numbers that are not negative: AND grows neither, OR and XOR stay within the bits of the
// larger.
static Range bit_range(ExprOp op, Range a, Range b)
{
    if (op == EX_AND) {
        if (a.lo >= 0 && b.lo >= 0) return (Range){0, MIN(a.hi, b.hi)};
        if (a.lo >= 0) return (Range){0, a.hi};
        if (b.lo >= 0) return (Range){0, b.hi};
        return full_range();
    }
    if (a.lo < 0 || b.lo < 0) return full_range();
    i64 hi = MAX(a.hi, b.hi), all = 0;
    while (all < hi) all = all * 2 + 1;
    return (Range){op == EX_OR ? MAX(a.lo, b.lo) : 0, all};
}

static Range range_of(const ExprPool *p, const Expr *e);

// Sound, not tight: x - x has the range of two unrelated numbers (though it folds to 0 before).
static Range compute_range(const ExprPool *p, const Expr *e)
{
    if (e->op == EX_CONST) return (Range){e->value, e->value};
    if (e->op == EX_VAR) {
        const Range *r = map_get(p->ranges, e->name);
        return r ? *r : full_range();
    }
    Range a = range_of(p, e->a), b = range_of(p, e->b);
    switch ((ExprOp)e->op) {
    case EX_ADD:
        return (Range){add_bound(a.lo, b.lo, UNBOUNDED_LO), add_bound(a.hi, b.hi, UNBOUNDED_HI)};
    case EX_SUB:
        b = negated(b);
        return (Range){add_bound(a.lo, b.lo, UNBOUNDED_LO), add_bound(a.hi, b.hi, UNBOUNDED_HI)};
    case EX_MUL: return mul_range(a, b);
    case EX_DIV: return div_range(a, b);
    case EX_MOD: return mod_range(a, b);
    case EX_MIN: return (Range){MIN(a.lo, b.lo), MIN(a.hi, b.hi)};
    case EX_MAX: return (Range){MAX(a.lo, b.lo), MAX(a.hi, b.hi)};
    case EX_AND:
    case EX_OR:
    case EX_XOR: return bit_range(e->op, a, b);
    // Shifts by constants became products; this one is by a variable.
    case EX_SHL: return full_range();
    case EX_SHR: return (Range){a.lo >= 0 ? 0 : a.lo, a.hi >= 0 ? a.hi : -1};
    case EX_EQ:
    case EX_NE:
    case EX_LT:
    case EX_LE:
    case EX_LAND:
    case EX_LOR: return (Range){0, 1};
    case EX_SELECT: {
        Range c = range_of(p, e->c);
        return (Range){MIN(b.lo, c.lo), MAX(b.hi, c.hi)};
    }
    default: BUG("range of expression operator %d", e->op);
    }
}

static Range range_of(const ExprPool *p, const Expr *e)
{
    Node *n = (Node *)(uintptr_t)e; // the cached bounds are not part of the value
    if (n->epoch != p->epoch) {
        Range r = compute_range(p, e);
        n->lo = r.lo;
        n->hi = r.hi;
        n->epoch = p->epoch;
    }
    return (Range){n->lo, n->hi};
}

bool expr_range(const ExprPool *p, const Expr *e, i64 *lo, i64 *hi)
{
    Range r = range_of(p, e);
    *lo = r.lo;
    *hi = r.hi;
    return is_bounded(r);
}

// Alignment: whether an address expression is a multiple of 16, say. Divisors of operands combine
// to a divisor of the result; nothing here needs ranges.
i64 expr_pow2_divisor(const ExprPool *p, const Expr *e)
{
    const i64 most = (i64)1 << POW2_MAX_BIT;
    i64 a, b;
    switch ((ExprOp)e->op) {
    case EX_CONST:
        if (!e->value) return most;
        a = (i64)((u64)e->value & -(u64)e->value);
        return a < 0 ? most : MIN(a, most);
    case EX_ADD:
    case EX_SUB:
    case EX_MIN:
    case EX_MAX:
    case EX_OR:
    case EX_XOR:
    case EX_MOD:
        a = expr_pow2_divisor(p, e->a);
        b = expr_pow2_divisor(p, e->b);
        return MIN(a, b);
    case EX_AND:
        a = expr_pow2_divisor(p, e->a);
        b = expr_pow2_divisor(p, e->b);
        return MAX(a, b);
    case EX_MUL:
        a = expr_pow2_divisor(p, e->a);
        b = expr_pow2_divisor(p, e->b);
        return a > most / b ? most : a * b;
    case EX_DIV:
        if (e->b->op != EX_CONST || e->b->value <= 0) return 1;
        a = expr_pow2_divisor(p, e->a);
        return a % e->b->value == 0 ? a / e->b->value : 1;
    case EX_SHL:
        if (e->b->op != EX_CONST || e->b->value < 0 || e->b->value > POW2_MAX_BIT) return 1;
        a = expr_pow2_divisor(p, e->a);
        return a > most >> e->b->value ? most : a << e->b->value;
    case EX_SELECT:
        a = expr_pow2_divisor(p, e->b);
        b = expr_pow2_divisor(p, e->c);
        return MIN(a, b);
    default: return 1;
    }
}

// ---- sums ------------------------------------------------------------------------------------

// constant + sum of coef[i] * term[i]; no term is a sum or has a constant factor, none twice.
typedef struct {
    i64 constant; // the term without a variable
    int n;
    i64 coef[SUM_TERMS];
    const Expr *term[SUM_TERMS];
} Sum;

// Adds k * t, t being no sum, constant or constant multiple. False: no room, or overflow.
static bool sum_add_term(Sum *s, const Expr *t, i64 k)
{
    for (int i = 0; i < s->n; i++)
        if (s->term[i] == t) return !__builtin_add_overflow(s->coef[i], k, &s->coef[i]);
    if (s->n == SUM_TERMS) return false;
    s->term[s->n] = t;
    s->coef[s->n++] = k;
    return true;
}

// Adds k * e. False when it overflows or grows too long; the sum is then worthless.
// A sum in canonical form is a chain of additions; the depth bound only meets plain nodes that
// could not be brought into it.
static bool sum_add(Sum *s, const Expr *e, i64 k, int depth)
{
    i64 v;
    if (depth > 2 * SUM_TERMS) return false;
    switch ((ExprOp)e->op) {
    case EX_CONST:
        return !__builtin_mul_overflow(e->value, k, &v) &&
               !__builtin_add_overflow(s->constant, v, &s->constant);
    case EX_ADD: return sum_add(s, e->a, k, depth + 1) && sum_add(s, e->b, k, depth + 1);
    case EX_SUB:
        return k != INT64_MIN && sum_add(s, e->a, k, depth + 1) && sum_add(s, e->b, -k, depth + 1);
    case EX_MUL:
        if (e->b->op == EX_CONST)
            return !__builtin_mul_overflow(e->b->value, k, &v) && sum_add(s, e->a, v, depth + 1);
        return sum_add_term(s, e, k);
    default: return sum_add_term(s, e, k);
    }
}

// k*(x % c) + k*c*(x / c) is k*x.
static bool sum_join_quotients(Sum *s)
{
    for (int i = 0; i < s->n; i++) {
        const Expr *m = s->term[i];
        if (m->op != EX_MOD || m->b->op != EX_CONST || !s->coef[i]) continue;
        for (int j = 0; j < s->n; j++) {
            const Expr *d = s->term[j];
            i64 want;
            if (d->op != EX_DIV || d->a != m->a || d->b != m->b) continue;
            if (__builtin_mul_overflow(s->coef[i], m->b->value, &want) || want != s->coef[j])
                continue;
            i64 k = s->coef[i];
            s->coef[i] = s->coef[j] = 0;
            if (!sum_add(s, m->a, k, 0)) return false;
            break;
        }
    }
    return true;
}

// Drops zero terms and sorts: positive coefficients first, then by creation.
// Insertion sort: sums are short, and mostly in order already since they grow term by term.
static void sum_sort(Sum *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (!s->coef[i]) continue;
        i64 k = s->coef[i];
        const Expr *t = s->term[i];
        int at = n++;
        for (; at > 0; at--) {
            bool before = (k > 0) != (s->coef[at - 1] > 0) ? k > 0 : t->id < s->term[at - 1]->id;
            if (!before) break;
            s->coef[at] = s->coef[at - 1];
            s->term[at] = s->term[at - 1];
        }
        s->coef[at] = k;
        s->term[at] = t;
    }
    s->n = n;
}

// k * t with the constant on the right, the form that sum_add takes apart again.
static const Expr *times(ExprPool *p, const Expr *t, i64 k)
{
    return k == 1 ? t : cons2(p, EX_MUL, t, expr_const(p, k));
}

// The node of a sum, or NULL when it cannot be written down.
// Written as first + ... - ... +- constant, each coefficient positive; what cannot be negated
// (INT64_MIN) cannot be written.
static const Expr *sum_node(ExprPool *p, Sum *s)
{
    if (!sum_join_quotients(s)) return NULL;
    sum_sort(s);
    if (!s->n) return expr_const(p, s->constant);
    if (s->constant == INT64_MIN) return NULL;
    for (int i = 0; i < s->n; i++)
        if (s->coef[i] == INT64_MIN) return NULL;
    i64 constant = s->constant;
    const Expr *e;
    int i = 0;
    if (s->coef[0] < 0 && constant > 0) { // 128 - x
        e = expr_const(p, constant);
        constant = 0;
    } else {
        e = times(p, s->term[0], s->coef[0]);
        i = 1;
    }
    for (; i < s->n; i++) {
        i64 k = s->coef[i];
        e = k > 0 ? cons2(p, EX_ADD, e, times(p, s->term[i], k))
                  : cons2(p, EX_SUB, e, times(p, s->term[i], -k));
    }
    if (constant > 0) e = cons2(p, EX_ADD, e, expr_const(p, constant));
    if (constant < 0) e = cons2(p, EX_SUB, e, expr_const(p, -constant));
    return e;
}

// Takes e apart into a fresh sum.
static bool sum_of(Sum *s, const Expr *e)
{
    s->constant = 0;
    s->n = 0;
    return sum_add(s, e, 1, 0);
}

// ---- products ----------------------------------------------------------------------------------

typedef struct {
    int n;
    const Expr *factor[FACTORS];
} Product;

// Factors sorted by creation, so that a*b and b*a become one node.
static bool product_add(Product *m, const Expr *e)
{
    if (e->op == EX_MUL && e->b->op != EX_CONST)
        return product_add(m, e->a) && product_add(m, e->b);
    if (m->n == FACTORS) return false;
    int at = m->n++;
    for (; at > 0 && m->factor[at - 1]->id > e->id; at--) m->factor[at] = m->factor[at - 1];
    m->factor[at] = e;
    return true;
}

// The product of two terms, neither of them a sum or a constant; NULL when it grows too long.
static const Expr *product_node(ExprPool *p, const Expr *a, const Expr *b)
{
    Product m = {0};
    if (!product_add(&m, a) || !product_add(&m, b)) return NULL;
    const Expr *e = m.factor[0];
    for (int i = 1; i < m.n; i++) e = cons2(p, EX_MUL, e, m.factor[i]);
    return e;
}

// Product of two sums, multiplied out; NULL when that overflows or grows too large.
// Multiplying out lets (i + 1) * 64 and i * 64 + 64 meet; the limit keeps products of long sums
// from growing with the square.
static const Expr *mul_node(ExprPool *p, const Expr *a, const Expr *b)
{
    Sum x, y, s = {0};
    if (!sum_of(&x, a) || !sum_of(&y, b)) return NULL;
    if (x.n && y.n && (x.n + 1) * (y.n + 1) > 4 * PRODUCT_TERMS) return NULL;
    if (__builtin_mul_overflow(x.constant, y.constant, &s.constant)) return NULL;
    for (int i = 0; i < x.n; i++) {
        i64 k;
        if (__builtin_mul_overflow(x.coef[i], y.constant, &k)) return NULL;
        if (k && !sum_add_term(&s, x.term[i], k)) return NULL;
        for (int j = 0; j < y.n; j++) {
            const Expr *t = product_node(p, x.term[i], y.term[j]);
            if (!t || __builtin_mul_overflow(x.coef[i], y.coef[j], &k)) return NULL;
            if (!sum_add_term(&s, t, k)) return NULL;
        }
    }
    for (int j = 0; j < y.n; j++) {
        i64 k;
        if (__builtin_mul_overflow(y.coef[j], x.constant, &k)) return NULL;
        if (k && !sum_add_term(&s, y.term[j], k)) return NULL;
    }
    return sum_node(p, &s);
}

// ---- division by a constant --------------------------------------------------------------------

// Of any signs; the result is positive, and 0 only for two zeros.
static i64 gcd(i64 a, i64 b)
{
    while (b) {
        i64 r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

// Remainder in [0, c), which C's % is not for negative v.
static i64 floor_mod(i64 v, i64 c)
{
    i64 r = v % c;
    return r < 0 ? r + c : r;
}

// Splits s = g * high + low, where low collects the terms whose coefficient g does not divide.
// False when either part cannot be written down.
static bool sum_split(ExprPool *p, const Sum *s, i64 g, const Expr **high, const Expr **low)
{
    Sum h = {0}, l = {0};
    l.constant = floor_mod(s->constant, g);
    i64 whole;
    if (__builtin_sub_overflow(s->constant, l.constant, &whole)) return false;
    h.constant = whole / g;
    for (int i = 0; i < s->n; i++) {
        Sum *part = s->coef[i] % g ? &l : &h;
        part->term[part->n] = s->term[i];
        part->coef[part->n++] = s->coef[i] % g ? s->coef[i] : s->coef[i] / g;
    }
    *high = sum_node(p, &h);
    *low = sum_node(p, &l);
    return *high && *low;
}

// Largest g that divides c, is the common divisor of c and some coefficient, and leaves a low part
// within [0, g); 1 when there is none. Gives the parts for it.
static i64 best_split(ExprPool *p, const Sum *s, i64 c, const Expr **high, const Expr **low)
{
    i64 best = 1;
    for (int i = 0; i < s->n; i++) {
        i64 g = gcd(s->coef[i], c);
        const Expr *h, *l;
        if (g <= best || !sum_split(p, s, g, &h, &l)) continue;
        Range r = range_of(p, l);
        if (r.lo < 0 || r.hi >= g) continue;
        best = g;
        *high = h;
        *low = l;
    }
    return best;
}

// x / c for c > 1; NULL when nothing folds.
static const Expr *div_fold(ExprPool *p, const Expr *x, i64 c)
{
    Range r = range_of(p, x);
    if (is_bounded(r) && r.lo / c == r.hi / c) return expr_const(p, r.lo / c);
    i64 both;
    // (y / b) / c = y / (b * c), also with truncation, for positive b and c.
    if (x->op == EX_DIV && x->b->op == EX_CONST && x->b->value > 0 &&
        !__builtin_mul_overflow(x->b->value, c, &both))
        return expr_bin(p, EX_DIV, x->a, expr_const(p, both));
    Sum s;
    const Expr *high, *low;
    if (!sum_of(&s, x) || !s.n) return NULL;
    // Truncation and floor agree for x >= 0; an exact division needs no sign.
    i64 g = best_split(p, &s, c, &high, &low);
    // x = g * high + low with 0 <= low < g and g a divisor of c, so x / c = high / (c / g).
    bool exact = g > 1 && low->op == EX_CONST && low->value == 0;
    if (g > 1 && (r.lo >= 0 || exact)) return expr_bin(p, EX_DIV, high, expr_const(p, c / g));
    if (r.lo < 0 || !sum_split(p, &s, c, &high, &low)) return NULL;
    // x = c * high + low, so x / c = high + low / c.
    if (range_of(p, low).lo < 0 || low == x) return NULL;
    return expr_add(p, high, expr_bin(p, EX_DIV, low, expr_const(p, c)));
}

// x with every term dropped that c divides, and coefficients taken modulo c; the same pointer when
// nothing changes, NULL when it overflows.
static const Expr *mod_reduce(ExprPool *p, const Expr *x, const Sum *s, i64 c)
{
    Sum out = {.constant = floor_mod(s->constant, c)};
    bool changed = out.constant != s->constant;
    for (int i = 0; i < s->n; i++) {
        // Negative coefficients stay: reducing them would change the sign of the whole.
        i64 k = s->coef[i] > 0 ? s->coef[i] % c : s->coef[i];
        i64 power = expr_pow2_divisor(p, s->term[i]), product;
        if (k % c == 0 || (!__builtin_mul_overflow(k, power, &product) && product % c == 0)) k = 0;
        changed |= k != s->coef[i];
        if (!k) continue;
        out.term[out.n] = s->term[i];
        out.coef[out.n++] = k;
    }
    return changed ? sum_node(p, &out) : x;
}

// x % c for c > 1; NULL when nothing folds.
static const Expr *mod_fold(ExprPool *p, const Expr *x, i64 c)
{
    Range r = range_of(p, x);
    if (is_bounded(r) && r.lo / c == r.hi / c)
        return expr_sub(p, x, expr_const(p, r.lo / c * c));
    // (y % (m * c)) % c = y % c: both remainders have the sign of y.
    if (x->op == EX_MOD && x->b->op == EX_CONST && x->b->value > 0 && x->b->value % c == 0)
        return expr_bin(p, EX_MOD, x->a, expr_const(p, c));
    Sum s;
    if (!sum_of(&s, x) || !s.n) return NULL;
    // `rest` is congruent to x; equal remainders need equal signs too.
    const Expr *rest = mod_reduce(p, x, &s, c);
    if (rest && rest->op == EX_CONST && rest->value == 0) return rest; // c divides x, any sign
    if (r.lo < 0) return NULL;
    if (rest && rest != x && range_of(p, rest).lo >= 0)
        return expr_bin(p, EX_MOD, rest, expr_const(p, c));
    const Expr *high, *low;
    i64 g = best_split(p, &s, c, &high, &low);
    if (g <= 1) return NULL;
    // x = g * high + low as above: x % c = g * (high % (c / g)) + low.
    const Expr *m = expr_bin(p, EX_MOD, high, expr_const(p, c / g));
    return expr_add(p, expr_mul(p, m, expr_const(p, g)), low);
}

// Divisors other than positive constants are left alone: nothing in a kernel gains by them.
static const Expr *div_mod(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    const Expr *folded = NULL;
    if (b->op != EX_CONST || b->value == 0) return cons2(p, op, a, b);
    i64 c = b->value;
    if (c == 1 || c == -1) {
        if (op == EX_MOD) return expr_const(p, 0);
        if (c == 1) return a;
        if (range_of(p, a).lo > INT64_MIN + 1) return expr_mul(p, a, b);
        return cons2(p, op, a, b);
    }
    if (a->op == EX_CONST) return expr_const(p, op == EX_DIV ? a->value / c : a->value % c);
    if (c > 1) folded = op == EX_DIV ? div_fold(p, a, c) : mod_fold(p, a, c);
    return folded ? folded : cons2(p, op, a, b);
}

// ---- the other operators -----------------------------------------------------------------------

// Value of a op b, or the reason why there is none.
// Shared by folding and evaluation, so that a folded constant is what evaluation would give.
static const char *apply(ExprOp op, i64 a, i64 b, i64 *out)
{
    bool over = false;
    switch (op) {
    case EX_ADD: over = __builtin_add_overflow(a, b, out); break;
    case EX_SUB: over = __builtin_sub_overflow(a, b, out); break;
    case EX_MUL: over = __builtin_mul_overflow(a, b, out); break;
    case EX_DIV:
    case EX_MOD:
        if (b == 0) return "division by zero";
        if (a == INT64_MIN && b == -1) {
            *out = 0;
            over = op == EX_DIV;
        } else {
            *out = op == EX_DIV ? a / b : a % b;
        }
        break;
    case EX_MIN: *out = MIN(a, b); break;
    case EX_MAX: *out = MAX(a, b); break;
    case EX_AND: *out = a & b; break;
    case EX_OR: *out = a | b; break;
    case EX_XOR: *out = a ^ b; break;
    case EX_SHL:
        if (b < 0 || b > 62) over = true;
        else over = __builtin_mul_overflow(a, (i64)1 << b, out);
        break;
    case EX_SHR:
        if (b < 0 || b > 63) over = true;
        else *out = a >> b;
        break;
    case EX_EQ: *out = a == b; break;
    case EX_NE: *out = a != b; break;
    case EX_LT: *out = a < b; break;
    case EX_LE: *out = a <= b; break;
    case EX_LAND: *out = a && b; break;
    case EX_LOR: *out = a || b; break;
    default: BUG("value of expression operator %d", op);
    }
    return over ? "overflow" : NULL;
}

// Decided by ranges where they do not overlap.
static const Expr *min_max(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    if (a == b) return a;
    Range x = range_of(p, a), y = range_of(p, b);
    if (x.hi <= y.lo) return op == EX_MIN ? a : b;
    if (y.hi <= x.lo) return op == EX_MIN ? b : a;
    return plain(p, op, a, b);
}

// AND, OR, XOR with a constant on the right, if there is one.
static const Expr *bits(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    if (a->op == EX_CONST) {
        const Expr *t = a;
        a = b;
        b = t;
    }
    if (a == b) return op == EX_XOR ? expr_const(p, 0) : a;
    if (b->op != EX_CONST) return plain(p, op, a, b);
    i64 c = b->value;
    if (c == 0) return op == EX_AND ? b : a;
    if (c == -1 && op == EX_AND) return a;
    // A low mask of a value that is not negative is a remainder, which folds further.
    if (op == EX_AND && c > 0 && c < INT64_MAX && (c & (c + 1)) == 0 && range_of(p, a).lo >= 0)
        return expr_bin(p, EX_MOD, a, expr_const(p, c + 1));
    return plain(p, op, a, b);
}

// By a constant they are a product or a quotient, which fold further; >> of a negative number
// rounds down where / truncates, so it needs the sign.
static const Expr *shift(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    if (b->op != EX_CONST || b->value < 0 || b->value > 62) return cons2(p, op, a, b);
    if (b->value == 0) return a;
    const Expr *c = expr_const(p, (i64)1 << b->value);
    if (op == EX_SHL) return expr_mul(p, a, c);
    return range_of(p, a).lo >= 0 ? expr_bin(p, EX_DIV, a, c) : cons2(p, op, a, b);
}

// By the range of the difference, in which common terms have gone.
static const Expr *compare(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    if (a == b) return expr_const(p, op == EX_EQ || op == EX_LE);
    if (op == EX_NE && (b->op == EX_CONST || a->op == EX_CONST)) { // x != 0 of a truth value
        const Expr *zero = b->op == EX_CONST ? b : a, *x = zero == b ? a : b;
        Range r = range_of(p, x);
        if (zero->value == 0 && r.lo >= 0 && r.hi <= 1) return x;
    }
    Sum s = {0};
    if (sum_add(&s, a, 1, 0) && sum_add(&s, b, -1, 0)) {
        const Expr *d = sum_node(p, &s);
        Range r = d ? range_of(p, d) : full_range();
        if (r.lo > 0) return expr_const(p, op == EX_NE);
        if (r.hi < 0) return expr_const(p, op != EX_EQ);
        if (r.lo == 0 && r.hi == 0) return expr_const(p, op == EX_EQ || op == EX_LE);
        if (r.lo == 0 && op == EX_LT) return expr_const(p, 0);
        if (r.hi == 0 && op == EX_LE) return expr_const(p, 1);
    }
    return plain(p, op, a, b);
}

// and / or: their value is 0 or 1 whatever the operands are.
// A side that decides makes the other one unnecessary, as in evaluation.
static const Expr *logic(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    const Expr *side[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        Range r = range_of(p, side[i]);
        bool is_true = r.lo > 0 || r.hi < 0, is_false = r.lo == 0 && r.hi == 0;
        if (!is_true && !is_false) continue;
        if (is_true == (op == EX_LOR)) return expr_const(p, op == EX_LOR);
        return expr_bin(p, EX_NE, side[1 - i], expr_const(p, 0));
    }
    return cons2(p, op, a, b);
}

// The only way to make an inner node from outside (but for select): whatever is built is in the
// one form, so equal pointers mean equal values.
const Expr *expr_bin(ExprPool *p, ExprOp op, const Expr *a, const Expr *b)
{
    ASSERT(a && b);
    i64 v;
    if (a->op == EX_CONST && b->op == EX_CONST) {
        if (!apply(op, a->value, b->value, &v)) return expr_const(p, v);
        return plain(p, op, a, b); // evaluation will report it
    }
    const Expr *e = NULL;
    Sum s = {0};
    switch (op) {
    case EX_ADD:
    case EX_SUB:
        if (sum_add(&s, a, 1, 0) && sum_add(&s, b, op == EX_ADD ? 1 : -1, 0)) e = sum_node(p, &s);
        break;
    case EX_MUL: e = mul_node(p, a, b); break;
    case EX_DIV:
    case EX_MOD: return div_mod(p, op, a, b);
    case EX_MIN:
    case EX_MAX: return min_max(p, op, a, b);
    case EX_AND:
    case EX_OR:
    case EX_XOR: return bits(p, op, a, b);
    case EX_SHL:
    case EX_SHR: return shift(p, op, a, b);
    case EX_EQ:
    case EX_NE:
    case EX_LT:
    case EX_LE: return compare(p, op, a, b);
    case EX_LAND:
    case EX_LOR: return logic(p, op, a, b);
    default: BUG("expr_bin of operator %d", op);
    }
    return e ? e : plain(p, op, a, b);
}

const Expr *expr_select(ExprPool *p, const Expr *c, const Expr *a, const Expr *b)
{
    if (a == b) return a;
    Range r = range_of(p, c);
    if (r.lo > 0 || r.hi < 0) return a;
    if (r.lo == 0 && r.hi == 0) return b;
    return cons(p, (Expr){.op = EX_SELECT, .a = c, .b = a, .c = b});
}

// For a >= 0 and b > 0; the sum folds before it is divided.
const Expr *expr_cdiv(ExprPool *p, const Expr *a, const Expr *b)
{
    const Expr *top = expr_sub(p, expr_add(p, a, b), expr_const(p, 1));
    return expr_bin(p, EX_DIV, top, b);
}

// ---- walks -------------------------------------------------------------------------------------

// Names of any origin are fine: compared by text.
bool expr_uses(const Expr *e, const char *name)
{
    if (e->op == EX_VAR) return strcmp(e->name, name) == 0;
    if (e->op == EX_CONST) return false;
    return expr_uses(e->a, name) || expr_uses(e->b, name) || (e->c && expr_uses(e->c, name));
}

// Rebuilds through expr_bin, so the result is folded with what is known of the replacements.
const Expr *expr_subst(ExprPool *p, const Expr *e, ExprSubst *value, void *ctx)
{
    if (e->op == EX_CONST) return e;
    if (e->op == EX_VAR) {
        const Expr *v = value(ctx, e);
        return v ? v : e;
    }
    const Expr *a = expr_subst(p, e->a, value, ctx), *b = expr_subst(p, e->b, value, ctx);
    if (e->op == EX_SELECT) return expr_select(p, a, b, expr_subst(p, e->c, value, ctx));
    return expr_bin(p, e->op, a, b);
}

// The side that a select, and, or does not need is not evaluated: it may have no value.
const char *expr_eval(const Expr *e, ExprLookup *lookup, void *ctx, i64 *out)
{
    if (e->op == EX_CONST) {
        *out = e->value;
        return NULL;
    }
    if (e->op == EX_VAR) return lookup(ctx, e->name, out) ? NULL : ((const Node *)e)->unknown;
    i64 a, b;
    const char *why = expr_eval(e->a, lookup, ctx, &a);
    if (why) return why;
    if (e->op == EX_SELECT) return expr_eval(a ? e->b : e->c, lookup, ctx, out);
    if ((e->op == EX_LAND && !a) || (e->op == EX_LOR && a)) {
        *out = e->op == EX_LOR;
        return NULL;
    }
    why = expr_eval(e->b, lookup, ctx, &b);
    return why ? why : apply(e->op, a, b, out);
}

// ---- text --------------------------------------------------------------------------------------

// How tightly the text of a node holds together; calls, names and numbers most.
static int precedence_of(const Expr *e)
{
    int prec = expr_op[e->op].precedence;
    return prec ? prec : 9; // a call needs no parentheses
}

// In parentheses when it binds looser than `least`.
static void print_operand(const Expr *e, int least, Buf *out)
{
    bool paren = precedence_of(e) < least;
    if (paren) buf_putc(out, '(');
    expr_print(e, out);
    if (paren) buf_putc(out, ')');
}

// The right operand gets one level more, as all operators group to the left.
void expr_print(const Expr *e, Buf *out)
{
    if (e->op == EX_CONST) {
        buf_printf(out, "%lld", (long long)e->value);
    } else if (e->op == EX_VAR) {
        buf_puts(out, e->name);
    } else if (e->op == EX_MUL && e->a->op == EX_VAR && e->b->op == EX_CONST && e->b->value == -1) {
        buf_printf(out, "-%s", e->a->name);
    } else if (!expr_op[e->op].precedence) {
        buf_printf(out, "%s(", expr_op[e->op].text);
        expr_print(e->a, out);
        buf_puts(out, ", ");
        expr_print(e->b, out);
        if (e->c) {
            buf_puts(out, ", ");
            expr_print(e->c, out);
        }
        buf_putc(out, ')');
    } else {
        int prec = precedence_of(e);
        bool tight = prec == expr_op[EX_MUL].precedence && e->op != EX_MOD;
        print_operand(e->a, prec, out);
        buf_printf(out, tight ? "%s" : " %s ", expr_op[e->op].text);
        print_operand(e->b, prec + 1, out);
    }
}

typedef struct {
    ExprPool *pool;
    const char *s;
    const char *err; // static text, NULL while all is well
} Reader;

static void skip_blanks(Reader *r)
{
    while (*r->s == ' ' || *r->s == '\t') r->s++;
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

static const Expr *read_level(Reader *r, int least, int depth);

// The first error stays.
static bool expect(Reader *r, char c, const char *err)
{
    skip_blanks(r);
    if (*r->s != c) {
        if (!r->err) r->err = err;
        return false;
    }
    r->s++;
    return true;
}

// call = ("min" | "max" | "and" | "or" | "select" | "cdiv") "(" expr "," expr ["," expr] ")"
static const Expr *read_call(Reader *r, const char *name, size_t n, int depth)
{
    int op = 0;
    // Has no node of its own: it prints as the division that it stands for.
    bool cdiv = n == 4 && memcmp(name, "cdiv", 4) == 0;
    for (int i = 0; i < EX_COUNT; i++)
        if (!expr_op[i].precedence && strlen(expr_op[i].text) == n &&
            memcmp(expr_op[i].text, name, n) == 0)
            op = i;
    if (!op && !cdiv) {
        r->err = "unknown function; there are min, max, and, or, select, cdiv";
        return NULL;
    }
    r->s++;
    const Expr *arg[3] = {0};
    int want = op == EX_SELECT ? 3 : 2;
    for (int i = 0; i < want; i++) {
        if (i && !expect(r, ',', "too few arguments of a function")) return NULL;
        arg[i] = read_level(r, 1, depth);
        if (!arg[i]) return NULL;
    }
    if (!expect(r, ')', "missing ) after the arguments of a function")) return NULL;
    if (cdiv) return expr_cdiv(r->pool, arg[0], arg[1]);
    if (op == EX_SELECT) return expr_select(r->pool, arg[0], arg[1], arg[2]);
    return expr_bin(r->pool, op, arg[0], arg[1]);
}

// number = digit {digit} | "0x" hexdigit {hexdigit}; the sign was read by the caller, so that
// -2^63 is in range.
static const Expr *read_number(Reader *r, bool negative)
{
    u64 v = 0, base = 10;
    if (r->s[0] == '0' && (r->s[1] == 'x' || r->s[1] == 'X')) {
        base = 16;
        r->s += 2;
    }
    const char *start = r->s;
    for (;; r->s++) {
        char c = *r->s;
        u64 digit = is_digit(c) ? (u64)(c - '0')
                    : c >= 'a' && c <= 'f' ? (u64)(c - 'a' + 10)
                    : c >= 'A' && c <= 'F' ? (u64)(c - 'A' + 10)
                                           : 99;
        if (digit >= base) break;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v)) {
            r->err = "number does not fit 64 bits";
            return NULL;
        }
    }
    if (r->s == start || is_name_start(*r->s)) r->err = "malformed number";
    else if (v > (u64)INT64_MAX + (negative ? 1 : 0)) r->err = "number does not fit 64 bits";
    if (r->err) return NULL;
    return expr_const(r->pool, negative ? (i64)(0 - v) : (i64)v);
}

// primary = number | ["%" | "$"] name | call | "-" primary | "(" expr ")"
static const Expr *read_primary(Reader *r, int depth)
{
    if (depth > READ_DEPTH) {
        r->err = "expression nests too deeply";
        return NULL;
    }
    skip_blanks(r);
    char c = *r->s;
    if (is_digit(c)) return read_number(r, false);
    if (c == '-') {
        r->s++;
        skip_blanks(r);
        if (is_digit(*r->s)) return read_number(r, true);
        const Expr *e = read_primary(r, depth + 1);
        return e ? expr_mul(r->pool, e, expr_const(r->pool, -1)) : NULL;
    }
    if (c == '(') {
        r->s++;
        const Expr *e = read_level(r, 1, depth + 1);
        return e && expect(r, ')', "missing )") ? e : NULL;
    }
    const char *start = r->s, *name = start + (c == '%' || c == '$');
    if (!is_name_start(*name)) {
        r->err = "an expression must start here: number, name, %register, $variable or (";
        return NULL;
    }
    r->s = name;
    while (is_name_part(*r->s)) r->s++;
    if (name == start && *r->s == '(')
        return read_call(r, start, (size_t)(r->s - start), depth + 1);
    const char *interned = intern_n(r->pool->names, start, (size_t)(r->s - start));
    return expr_var(r->pool, interned);
}

// The operator at the cursor with at least this precedence, longest text first; -1 when none.
// `swap`: the text was > or >=, which are < and <= with exchanged operands.
static int peek_operator(Reader *r, int least, int *length, bool *swap)
{
    skip_blanks(r);
    *swap = false;
    int found = -1;
    *length = 0;
    for (int i = 0; i < EX_COUNT; i++) {
        int n = (int)strlen(expr_op[i].text);
        if (!expr_op[i].precedence || n <= *length) continue;
        if (strncmp(r->s, expr_op[i].text, (size_t)n) != 0) continue;
        found = i;
        *length = n;
    }
    if (found < 0 && *r->s == '>') {
        *swap = true;
        *length = r->s[1] == '=' ? 2 : 1;
        found = r->s[1] == '=' ? EX_LE : EX_LT;
    }
    return found >= 0 && expr_op[found].precedence >= least ? found : -1;
}

// level(p) = level(p + 1) { operator of precedence p  level(p + 1) }, all operators left to right
static const Expr *read_level(Reader *r, int least, int depth)
{
    const Expr *a = read_primary(r, depth);
    while (a) {
        int length;
        bool swap;
        int op = peek_operator(r, least, &length, &swap);
        if (op < 0) break;
        r->s += length;
        const Expr *b = read_level(r, expr_op[op].precedence + 1, depth + 1);
        if (!b) return NULL;
        a = swap ? expr_bin(r->pool, op, b, a) : expr_bin(r->pool, op, a, b);
    }
    return a;
}

// expr = level(1); *s moves to behind what was read, also on an error, where it shows the place.
const Expr *expr_read(ExprPool *p, const char **s, const char **err)
{
    Reader r = {p, *s, NULL};
    const Expr *e = read_level(&r, 1, 0);
    *s = r.s;
    *err = r.err;
    return r.err ? NULL : e;
}
