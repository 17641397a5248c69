// matched.c - which loops of different roles go round together, and which have no partner though
// they hand something over.
//
// The span of a loop is a sum over terms (sums.h); two spans stand in a relation when their terms
// are the same values, pair by pair, with factors in one ratio. Terms of two roles are the same
// value when they are made alike from the same parameters and the same loads, where what belongs to
// a round of the loop around one of them is held against the same of the loop around the other, and
// those loops are matched themselves. Registers of loops are compared by induction: the same before
// the loop and made alike by a round.
//
// Invariant: a value that differs between threads is the same as nothing, not even as itself.
#include "periodic.h"
#include "sums.h"

#include <string.h>

enum { ASSUMED_MAX = 64, DEPTH_MAX = 60 };

typedef struct {
    Sums sums;
    const Steer *s;
    Arena *arena;
    Terms *t;
    int *partner;            // per loop: the one that its registers are held against now; -1
    int in_a, in_b;          // the loops whose facts hold
    struct { Term a, b; } assumed[ASSUMED_MAX];
    int nassumed;
    i64 fuel;
} Match;

// ---- one value in two roles ---------------------------------------------------------------------

// A fact as a sum that is never negative.
static bool fact_sum(const Match *m, const SteerFact *f, Lin *out)
{
    TermView n = term_view(m->t, f->term);
    bool is = f->is;
    if (n.form == TERM_IS_OP && n.op == OP_NOT) {
        n = term_view(m->t, n.a);
        is = !is;
    }
    if (n.form != TERM_IS_OP || n.op != OP_SETP || n.type != TT_S32) return false;
    u8 cmp = n.cmp;
    static const u8 opposite[] = {[CMP_EQ] = CMP_NE, [CMP_NE] = CMP_EQ, [CMP_LT] = CMP_GE,
                                  [CMP_LE] = CMP_GT, [CMP_GT] = CMP_LE, [CMP_GE] = CMP_LT};
    if (!is) cmp = opposite[cmp];
    Lin a = sums_lin(&m->sums, n.a), b = sums_lin(&m->sums, n.b);
    switch (cmp) {
    case CMP_LT: *out = lin_sum(b, &a, -1); out->c--; break;
    case CMP_LE: *out = lin_sum(b, &a, -1); break;
    case CMP_GT: *out = lin_sum(a, &b, -1); out->c--; break;
    case CMP_GE: *out = lin_sum(a, &b, -1); break;
    default: return false;
    }
    return out->ok;
}

// Is the sum never negative, by the bounds and conditions around the loop?
static bool holds_in(const Match *m, const Lin *d, int loop)
{
    for (int l = loop; l >= 0; l = m->s->loops.at[l].outer) {
        const SteerLoop *k = &m->s->loops.at[l];
        for (int i = 0; i < k->facts.n; i++) {
            Lin f;
            if (!fact_sum(m, &k->facts.at[i], &f)) continue;
            Lin rest = lin_sum(*d, &f, -1);
            if (rest.ok && !rest.n && rest.c >= 0) return true;
        }
        if (l == loop || k->counter < 0 || k->bound >= 0) continue;
        // Inside an outer loop its counter is below its bound.
        Lin hi = sums_lin(&m->sums, k->hi), at = sums_lin(&m->sums, k->carried.at[k->counter].head);
        Lin rest = lin_sum(*d, &hi, -1);
        rest = lin_sum(rest, &at, 1);
        if (rest.ok && !rest.n && rest.c >= -1) return true;
    }
    return false;
}

// The smaller of two of which one is known to be the smaller.
static Term simple(const Match *m, Term x, int loop)
{
    TermView n = term_view(m->t, x);
    if (n.form != TERM_IS_OP) return x;
    if ((n.op == OP_MIN || n.op == OP_MAX) && n.type == TT_S32) {
        Lin a = sums_lin(&m->sums, n.a), b = sums_lin(&m->sums, n.b);
        Lin up = lin_sum(b, &a, -1), down = lin_sum(a, &b, -1);
        if (up.ok && holds_in(m, &up, loop)) return simple(m, n.op == OP_MIN ? n.a : n.b, loop);
        if (down.ok && holds_in(m, &down, loop)) return simple(m, n.op == OP_MIN ? n.b : n.a, loop);
    }
    return x;
}

static bool same(Match *m, Term a, Term b, int depth);

static bool same_carried(Match *m, Term a, Term b, bool behind, int depth)
{
    int la, lb;
    const SteerCarried *x = steer_carried(m->s, a, &la), *y = steer_carried(m->s, b, &lb);
    // Behind loops that are not matched, or with bounds of their own, anything may be.
    if (la == lb && x == y) {
        const SteerLoop *l = &m->s->loops.at[la];
        if (steer_by_thread(m->s, a)) return false;
        return !behind || (l->bound < 0 && !steer_by_thread(m->s, l->hi));
    }
    if (behind || m->partner[la] != lb) return false;
    for (int i = 0; i < m->nassumed; i++)
        if (m->assumed[i].a == a && m->assumed[i].b == b) return true;
    if (m->nassumed == ASSUMED_MAX) return false;
    int mark = m->nassumed;
    m->assumed[m->nassumed].a = a;
    m->assumed[m->nassumed++].b = b;
    if (same(m, x->first, y->first, depth + 1) && same(m, x->next, y->next, depth + 1)) return true;
    m->nassumed = mark; // what was shown under the assumption goes with it
    return false;
}

static bool same_leaf(Match *m, Term a, Term b, const TermView *x, const TermView *y, int depth)
{
    if (x->op != y->op) return false;
    switch (x->op) {
    case LEAF_PARAM: return a == b;
    case LEAF_SREG: return a == b && !steer_by_thread(m->s, a);
    case LEAF_LOAD: return same(m, (Term)x->value, (Term)y->value, depth + 1);
    case LEAF_HEAD:
    case LEAF_EXIT: return same_carried(m, a, b, x->op == LEAF_EXIT, depth);
    default: return false; // data, roles
    }
}

// Sums are compared term by term, other operations operand by operand.
static bool same_sums(Match *m, const Lin *a, const Lin *b, i64 times_a, i64 times_b, int depth)
{
    bool taken[LIN_TERMS] = {false};
    if (!a->ok || !b->ok || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (k < b->n && (taken[k] || a->k[i] * times_a != b->k[k] * times_b ||
                            !same(m, a->term[i], b->term[k], depth + 1)))
            k++;
        if (k == b->n) return false;
        taken[k] = true;
    }
    return true;
}

static bool same(Match *m, Term a, Term b, int depth)
{
    i64 v, w;
    if (!a || !b || depth > DEPTH_MAX || --m->fuel < 0) return false;
    if (term_number(&m->sums, a, &v) && term_number(&m->sums, b, &w)) return v == w;
    a = simple(m, a, m->in_a);
    b = simple(m, b, m->in_b);
    TermView x = term_view(m->t, a), y = term_view(m->t, b);
    if (x.form == TERM_IS_OP || y.form == TERM_IS_OP) {
        Lin la = sums_lin(&m->sums, a), lb = sums_lin(&m->sums, b);
        bool plain = la.ok && lb.ok && la.n == 1 && lb.n == 1 && la.term[0] == a && lb.term[0] == b;
        if (!plain && la.ok && lb.ok) return la.c == lb.c && same_sums(m, &la, &lb, 1, 1, depth);
    }
    if (x.form != y.form) return false;
    if (x.form == TERM_IS_LEAF) return same_leaf(m, a, b, &x, &y, depth);
    if (x.op != y.op || x.type != y.type || x.type2 != y.type2 || x.cmp != y.cmp ||
        x.half != y.half)
        return false;
    bool turned = x.op == OP_ADD || x.op == OP_MUL || x.op == OP_AND || x.op == OP_OR ||
                  x.op == OP_XOR || x.op == OP_MIN || x.op == OP_MAX;
    if (turned && same(m, x.a, y.b, depth + 1) && same(m, x.b, y.a, depth + 1)) return true;
    return same(m, x.a, y.a, depth + 1) && (!x.b || same(m, x.b, y.b, depth + 1)) &&
           (!x.c || same(m, x.c, y.c, depth + 1));
}

// ---- two loops ----------------------------------------------------------------------------------

static Lin span_of(const Match *m, const SteerLoop *l, int loop)
{
    Lin hi = sums_lin(&m->sums, l->hi ? simple(m, l->hi, loop) : 0), lo = sums_lin(&m->sums, l->lo);
    return lin_sum(hi, &lo, -1);
}

static bool same_span(Match *m, int a, int b, LoopMatch *out)
{
    Lin x = span_of(m, &m->s->loops.at[a], a), y = span_of(m, &m->s->loops.at[b], b);
    if (!x.ok || !y.ok || !x.n || x.n != y.n) return false;
    // The ratio is that of the first term and one of the others.
    for (int k = 0; k < y.n; k++) {
        i64 g = sums_gcd(x.k[0], y.k[k]), times_a = y.k[k] / g, times_b = x.k[0] / g;
        if (times_a < 0) times_a = -times_a, times_b = -times_b;
        if (times_b < 1 || !same_sums(m, &x, &y, times_a, times_b, 0)) continue;
        out->times_a = times_a;
        out->times_b = times_b;
        out->plus = times_a * x.c - times_b * y.c;
        return true;
    }
    return false;
}

static bool match(Match *m, int a, int b, LoopMatch *out);

// The loops around both must go together, round by round.
static bool match_around(Match *m, int a, int b)
{
    LoopMatch around;
    int x = m->s->loops.at[a].outer, y = m->s->loops.at[b].outer;
    if (x == y) return true;
    if (x < 0 || y < 0 || !match(m, x, y, &around)) return false;
    return around.times_a == 1 && around.times_b == 1 &&
           m->s->loops.at[x].step == m->s->loops.at[y].step;
}

static bool match(Match *m, int a, int b, LoopMatch *out)
{
    const SteerLoop *x = &m->s->loops.at[a], *y = &m->s->loops.at[b];
    *out = (LoopMatch){x->op, y->op, 1, 1, 0};
    if (!match_around(m, a, b)) return false;
    m->in_a = a;
    m->in_b = b;
    m->nassumed = 0;
    bool yes;
    if (x->bound < 0 && y->bound < 0) {
        yes = same_span(m, a, b, out);
    } else {
        m->partner[a] = b;
        yes = x->bound >= 0 && y->bound >= 0 && x->step == y->step && same(m, x->lo, y->lo, 0) &&
              same(m, x->hi, y->hi, 0) &&
              same(m, x->carried.at[x->bound].next, y->carried.at[y->bound].next, 0);
    }
    m->partner[a] = yes ? b : -1;
    return yes;
}

// ---- who hands over to whom ---------------------------------------------------------------------

static bool inside(const Steer *s, int loop, int outer)
{
    for (; loop >= 0; loop = s->loops.at[loop].outer)
        if (loop == outer) return true;
    return false;
}

static bool apart(const ThreadOp *x, const ThreadOp *y)
{
    return x && y && (x->imm + x->n <= y->imm || y->imm + y->n <= x->imm);
}

// Are all threads at `h` among those that go round in the loop? Threads are told apart by roles and
// by conditions on their number.
static bool same_or_fewer(const Steer *s, const SteerLoop *l, const SteerHandoff *h)
{
    const ThreadOp *x = l->role, *y = h->role;
    if (x && (!y || y->imm < x->imm || y->imm + y->n > x->imm + x->n)) return false;
    for (int i = 0; i < l->facts.n; i++) {
        const SteerFact *f = &l->facts.at[i];
        bool there = !steer_by_thread(s, f->term);
        for (int k = 0; k < h->facts.n; k++)
            there |= h->facts.at[k].term == f->term && h->facts.at[k].is == f->is;
        if (!there) return false;
    }
    return true;
}

static bool one_barrier(const Match *m, const SteerHandoff *x, const SteerHandoff *y)
{
    i64 v, w;
    if (x->buffer >= 0 || y->buffer >= 0) return x->buffer == y->buffer;
    // Numbers that are no constants may be equal, but 0 is the barrier of the whole block (O11).
    bool a = term_number(&m->sums, x->id, &v), b = term_number(&m->sums, y->id, &w);
    return a && b ? v == w : !(a && !v) && !(b && !w);
}

// Do the same threads go round in both, told by roles and conditions on their number?
static bool same_threads(const Steer *s, int a, int b)
{
    const SteerLoop *x = &s->loops.at[a], *y = &s->loops.at[b];
    int i = 0, k = 0;
    if (x->role != y->role) return false;
    for (;; i++, k++) {
        while (i < x->facts.n && !steer_by_thread(s, x->facts.at[i].term)) i++;
        while (k < y->facts.n && !steer_by_thread(s, y->facts.at[k].term)) k++;
        if (i == x->facts.n || k == y->facts.n) return i == x->facts.n && k == y->facts.n;
        if (x->facts.at[i].term != y->facts.at[k].term || x->facts.at[i].is != y->facts.at[k].is)
            return false;
    }
}

// Is the handoff in a loop that goes together with `loop`?
static bool keeps_step(Match *m, int loop, const SteerHandoff *h)
{
    LoopMatch unused;
    for (int k = h->inside; k >= 0; k = m->s->loops.at[k].outer)
        if (match(m, MIN(loop, k), MAX(loop, k), &unused)) return true;
    return false;
}

// Some loop of the same threads that touches the barrier goes together with this one.
static bool has_partner(Match *m, int loop, const SteerHandoff *h)
{
    for (int i = 0; i < m->s->handoffs.n; i++) {
        const SteerHandoff *o = &m->s->handoffs.at[i];
        if (!one_barrier(m, o, h) || o->inside < 0 || apart(o->role, h->role) ||
            inside(m->s, o->inside, loop) || same_threads(m->s, o->inside, loop))
            continue;
        if (keeps_step(m, loop, o)) return true;
    }
    return false;
}

static bool is_data(const Match *m, Term x)
{
    Term leaf[16];
    if (!x) return true;
    int n = term_leaves(m->t, x, leaf, COUNT(leaf));
    if (n == COUNT(leaf)) return true;
    for (int i = 0; i < n; i++)
        if (term_leaf_kind(m->t, leaf[i]) == LEAF_DATA) return true;
    return false;
}

static bool follows_from_data(const Match *m, const SteerLoop *l)
{
    return is_data(m, l->lo) || is_data(m, l->hi) ||
           (l->bound >= 0 && is_data(m, l->carried.at[l->bound].next));
}

static const char *why_alone(Match *m, int loop, const ThreadOp **other)
{
    const Steer *s = m->s;
    const SteerLoop *l = &s->loops.at[loop];
    bool hands = false;
    for (int i = 0; i < s->handoffs.n; i++) hands |= inside(s, s->handoffs.at[i].inside, loop);
    if (!hands) return NULL;
    if (follows_from_data(m, l))
        return "its rounds follow from data that no parameter or table tells";
    if (steer_by_thread(s, l->lo) || steer_by_thread(s, l->hi) ||
        (l->bound >= 0 && steer_by_thread(s, l->carried.at[l->bound].next)))
        return "its rounds may differ between the threads that go round in it";
    for (int i = 0; i < s->handoffs.n; i++) {
        const SteerHandoff *x = &s->handoffs.at[i];
        if (!inside(s, x->inside, loop)) continue;
        for (int k = 0; k < s->handoffs.n; k++) {
            const SteerHandoff *y = &s->handoffs.at[k];
            if (!one_barrier(m, x, y) || inside(s, y->inside, loop) || same_or_fewer(s, l, y) ||
                has_partner(m, loop, y))
                continue;
            *other = y->op;
            return "no loop of the threads there is shown to go round with it";
        }
    }
    return NULL;
}

void periodic_matches(Arena *a, const ThreadFn *fn, LoopMatches *matches, LoopsAlone *alone)
{
    Steer *s = steer_new(a, fn);
    int n = s->loops.n;
    Term end = terms_end(s->terms) + 64; // simple() asks for leaves that may be new
    Match m = {.sums = {s, s->terms, ARENA_ARRAY(a, bool, end)}, .s = s, .arena = a, .t = s->terms,
               .partner = ARENA_ARRAY(a, int, n + 1), .fuel = 4000000};
    memset(m.sums.varies, 1, sizeof *m.sums.varies * end); // growth by constants only
    for (int i = 0; i < n; i++) m.partner[i] = -1;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            LoopMatch found;
            const SteerLoop *x = &s->loops.at[i], *y = &s->loops.at[k];
            if (x->rounds < 0 && y->rounds < 0 && x->op != y->op && !same_threads(s, i, k) &&
                !inside(s, k, i) && match(&m, i, k, &found))
                vec_push(a, matches, found);
        }
    for (int i = 0; i < n; i++) {
        LoopAlone out = {.loop = s->loops.at[i].op};
        if (s->loops.at[i].rounds >= 0) continue;
        out.why = why_alone(&m, i, &out.other);
        if (out.why) vec_push(a, alone, out);
    }
}
