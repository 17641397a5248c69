// periodic.c - what is asked of the values that loops carry, and whether that comes round again.
//
// For one loop at a time, demands go backward over the terms of steer.h, from what steers to the
// leaves: a demand is nothing, a value modulo m, or the value itself. A mask, a remainder and a
// division by a constant turn the second into the first; a comparison with a constant or with the
// loop's own bound asks only which of the first or last rounds it is. What arrives at the registers
// that the loop carries is then held against what a round makes of them.
//
// Invariant: a rule that is not known asks for the value itself, and a register that is asked for
// in a way that does not come round refuses the loop, so a mistake by omission is a refusal.
#include "periodic.h"
#include "sums.h"

#include <string.h>

#define EXACT (-1)
enum { FUEL = 600 };

// Who asks: a value that steers; a condition, which data may decide; the bound of another loop,
// which data may decide too; the condition that keeps the loop itself going, which decides the
// number of rounds and nothing else.
typedef enum { BY_VALUE, BY_CHOICE, BY_BOUND, BY_OWN, ASKERS } Asker;
typedef struct {
    i64 m[ASKERS];         // 0: nothing, EXACT, or modulo m
    bool data;             // decides a choice through data that is found with it
    const ThreadOp *at;    // the first that asked
} Demand;

typedef struct {
    Sums sums;
    const Steer *s;
    Terms *t;
    Arena *arena;
    int loop;
    const SteerLoop *l;
    Demand *demand;        // per term
    VEC(Term) work;
    bool *queued;
    i64 *assumed;          // per term: the least value that range_of assumes, + FAR; 0: none
    LoopPeriod *out;
    const ThreadOp *why_at;
    const char *why;
} Run;

static bool is_pow2(i64 m) { return m > 0 && !(m & (m - 1)); }

// The weakest demand that contains both.
static i64 both(i64 a, i64 b)
{
    if (!a || !b) return a ? a : b;
    if (a == EXACT || b == EXACT) return EXACT;
    i64 m = a / sums_gcd(a, b) * b;
    return m > PERIODIC_MODULUS_MAX ? EXACT : m;
}

static void fail(Run *r, const ThreadOp *at, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void fail(Run *r, const ThreadOp *at, const char *fmt, ...)
{
    if (r->why) return;
    va_list ap;
    va_start(ap, fmt);
    r->why = arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    r->why_at = at ? at : r->l->op;
}

static const char *reg_name(const Run *r, const SteerCarried *c)
{
    return r->s->fn->regs.at[c->reg].name;
}

// ---- what differs between rounds ----------------------------------------------------------------

static bool inside(const Run *r, int loop)
{
    for (; loop >= 0; loop = r->s->loops.at[loop].outer)
        if (loop == r->loop) return true;
    return false;
}

static bool leaf_varies(const Run *r, Term x, const TermView *n)
{
    int loop;
    switch (n->op) {
    case LEAF_LOAD: return sums_varies(&r->sums, (Term)n->value);
    case LEAF_DATA: return inside(r, r->s->data.at[n->value].inside);
    case LEAF_HEAD:
    case LEAF_EXIT: {
        const SteerCarried *c = steer_carried(r->s, x, &loop);
        if (loop == r->loop) return true;
        return sums_varies(&r->sums, c->first) || sums_varies(&r->sums, c->next) ||
               (n->op == LEAF_EXIT && sums_bounds_vary(&r->sums, &r->s->loops.at[loop]));
    }
    default: return false;
    }
}

static void find_varying(Run *r)
{
    Term end = terms_end(r->t);
    r->sums.varies[0] = true;
    for (bool more = true; more;) {
        more = false;
        for (Term x = 1; x < end; x++) {
            TermView n = term_view(r->t, x);
            if (r->sums.varies[x] || n.form == TERM_IS_CONST) continue;
            bool v = n.form == TERM_IS_LEAF
                         ? leaf_varies(r, x, &n)
                         : sums_varies(&r->sums, n.a) || (n.b && sums_varies(&r->sums, n.b)) ||
                               (n.c && sums_varies(&r->sums, n.c));
            more |= v;
            r->sums.varies[x] = v;
        }
    }
}

static Growth growth_of(const Run *r, int entry)
{
    return sums_growth(&r->sums, r->loop, r->l->carried.at[entry].next);
}

// ---- comparisons --------------------------------------------------------------------------------

static bool is_unsigned(u8 type) { return type == TT_U32 || type == TT_U64; }

// Bounds of a value as a signed number, for fewer than 2^31 rounds.
typedef struct { i64 lo, hi; } Range;
#define FAR ((i64)1 << 40)
static const Range anything = {-FAR, FAR}, natural = {0, FAR};

static Range range_of(const Run *r, Term x, int *fuel);

static Range range(i64 lo, i64 hi) { return (Range){MAX(lo, -FAR), MIN(hi, FAR)}; }
static Range either(Range a, Range b) { return range(MIN(a.lo, b.lo), MAX(a.hi, b.hi)); }

static Range range_op(const Run *r, const TermView *n, int *fuel)
{
    Range a = range_of(r, n->a, fuel), b = n->b ? range_of(r, n->b, fuel) : anything;
    bool known = n->b && b.lo == b.hi && b.lo >= 0;
    switch (n->op) {
    case OP_ADD: return range(a.lo + b.lo, a.hi + b.hi);
    case OP_SUB: return range(a.lo - b.hi, a.hi - b.lo);
    case OP_MIN: return range(MIN(a.lo, b.lo), MIN(a.hi, b.hi));
    case OP_MAX: return range(MAX(a.lo, b.lo), MAX(a.hi, b.hi));
    case OP_SELP: return either(a, b);
    case OP_CVT: return a.lo < 0 && is_unsigned(n->type2) ? natural : a;
    case OP_AND:
        if (a.lo >= 0 || b.lo >= 0)
            return range(0, a.lo >= 0 && b.lo >= 0 ? MIN(a.hi, b.hi) : a.lo >= 0 ? a.hi : b.hi);
        return anything;
    case OP_OR: case OP_XOR: return a.lo >= 0 && b.lo >= 0 ? natural : anything;
    case OP_SHR:
        if (known && b.lo < 31 && a.lo >= 0) return range(a.lo >> b.lo, a.hi >> b.lo);
        return known && b.lo > 0 && is_unsigned(n->type) ? natural : anything;
    case OP_SHL:
        if (!known || b.lo > 20 || a.lo < -(1 << 20) || a.hi > 1 << 20)
            return a.lo >= 0 ? natural : anything;
        return range(a.lo * ((i64)1 << b.lo), a.hi * ((i64)1 << b.lo));
    case OP_MUL: case OP_MULWIDE: return a.lo >= 0 && b.lo >= 0 ? natural : anything;
    case OP_MAD:
        return a.lo >= 0 && b.lo >= 0 && range_of(r, n->c, fuel).lo >= 0 ? natural : anything;
    case OP_DIV: return known && b.lo > 0 ? range(a.lo / b.lo, a.hi / b.lo) : anything;
    case OP_REM:
        if (!known || b.lo < 1) return a.lo >= 0 ? natural : anything;
        return range(a.lo >= 0 ? 0 : 1 - b.lo, b.lo - 1);
    default: return anything;
    }
}

static Range range_special(const Run *r, u64 key)
{
    const ThreadOp *role = r->l->role;
    if (key == SR_LANE) return range(0, 31);
    if (key != SR_TID) return natural;
    // What follows from this loop exists in the threads of its role only.
    return role ? range(role->imm * 32, (role->imm + role->n) * 32 - 1)
                : range(0, r->s->fn->threads - 1);
}

// Registers of loops never fall below what they were before, if a round does not make them:
// induction, with the bound assumed for the start of the round.
static Range range_of(const Run *r, Term x, int *fuel)
{
    TermView n = term_view(r->t, x);
    int loop;
    i64 c;
    if (!x || --*fuel < 0) return anything;
    if (n.form == TERM_IS_CONST)
        return term_signed(&r->sums, TT_B32, x, &c) ? range(c, c) : anything;
    if (n.form == TERM_IS_OP) return range_op(r, &n, fuel);
    if (n.form != TERM_IS_LEAF) return anything;
    if (n.op == LEAF_SREG) return range_special(r, n.value);
    if (n.op != LEAF_HEAD && n.op != LEAF_EXIT) return anything;
    const SteerCarried *e = steer_carried(r->s, x, &loop);
    if (r->assumed[e->head]) return (Range){r->assumed[e->head] - FAR, FAR};
    Range first = range_of(r, e->first, fuel);
    if (first.lo <= -FAR) return anything;
    r->assumed[e->head] = first.lo + FAR; // not 0
    Range next = range_of(r, e->next, fuel);
    r->assumed[e->head] = 0;
    return next.lo >= first.lo ? range(first.lo, FAR) : anything;
}

static bool nonnegative(const Run *r, Term x)
{
    int fuel = FUEL;
    return range_of(r, x, &fuel).lo >= 0;
}

static bool lin_nonnegative(const Run *r, const Lin *a)
{
    if (a->c < 0) return false;
    for (int i = 0; i < a->n; i++)
        if (a->k[i] < 0 || !nonnegative(r, a->term[i])) return false;
    return true;
}

static i64 ceil_div(i64 a, i64 b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// A comparison by which a round of loop `l` is told from others only near its start or its end:
// then `start` or `end` are the rounds that may differ. False: otherwise, or too far away.
static bool near_ends(const Run *r, ThreadCmp cmp, Lin d, const SteerLoop *l, i64 *start,
                      i64 *end)
{
    Lin lo = sums_lin(&r->sums, l->lo), hi = sums_lin(&r->sums, l->hi);
    Term counter = l->carried.at[l->counter].head;
    i64 k = 0;
    for (int i = 0; i < d.n; i++)
        if (d.term[i] == counter) k = d.k[i];
    if (!k) return false;
    lin_add(&d, counter, -k);
    i64 size = k > 0 ? k : -k;
    // Does 0 count as the side to which the difference goes?
    bool up = cmp == CMP_GE || cmp == CMP_LT, down = cmp == CMP_GT || cmp == CMP_LE;
    // From the start: the difference is k * (counter - lo) + c, and counter - lo = step * round.
    Lin from = lin_sum(d, &lo, k);
    if (from.ok && !from.n) {
        i64 c = k > 0 ? from.c : -from.c;
        bool zero = k > 0 ? up : down;
        *start = ceil_div(zero ? -c : 1 - c, size * l->step);
        return *start <= PERIODIC_MODULUS_MAX;
    }
    // From the end: k * (counter - hi) + c, where q rounds before the last one
    // hi - counter >= q * step + 1.
    Lin to = lin_sum(d, &hi, k);
    if (l->bound >= 0 || !to.ok || to.n) return false;
    i64 c = k > 0 ? to.c : -to.c;
    bool zero = k > 0 ? down : up;
    // It is so where hi - counter is at least
    i64 far = zero ? ceil_div(c, size) : c < 0 ? 0 : c / size + 1;
    *end = ceil_div(far - 1, l->step);
    return *end <= PERIODIC_MODULUS_MAX;
}

// A comparison that tells rounds of one loop only, by their distance from its ends. With `note`,
// those of the loop that is looked at are counted; other loops are looked at on their own.
static bool settles(const Run *r, const TermView *n, bool note)
{
    if (n->op != OP_SETP) return false;
    Lin a = sums_lin(&r->sums, n->a), b = sums_lin(&r->sums, n->b);
    if (is_unsigned(n->type) && (!lin_nonnegative(r, &a) || !lin_nonnegative(r, &b))) return false;
    Lin d = lin_sum(a, &b, -1);
    for (int i = 0; d.ok && i < d.n; i++) {
        TermView leaf = term_view(r->t, d.term[i]);
        int loop;
        i64 start = 0, end = 0;
        if (leaf.form != TERM_IS_LEAF || leaf.op != LEAF_HEAD) continue;
        const SteerCarried *c = steer_carried(r->s, d.term[i], &loop);
        const SteerLoop *l = &r->s->loops.at[loop];
        if (l->counter < 0 || l->counter_written || c != &l->carried.at[l->counter]) continue;
        if (!near_ends(r, (ThreadCmp)n->cmp, d, l, &start, &end)) continue;
        if (note && loop == r->loop) {
            r->out->few = true;
            r->out->first = MAX(r->out->first, start);
            r->out->last = MAX(r->out->last, end);
        }
        return true;
    }
    return false;
}

// A comparison that does not follow from the round but from the number of rounds: it comes out
// alike in all runs with enough of them.
static bool depends_on_length(const Run *r, const TermView *n)
{
    if (n->op != OP_SETP || r->l->bound >= 0 || is_unsigned(n->type)) return false;
    Lin a = sums_lin(&r->sums, n->a), b = sums_lin(&r->sums, n->b);
    Lin lo = sums_lin(&r->sums, r->l->lo), hi = sums_lin(&r->sums, r->l->hi);
    Lin d = lin_sum(a, &b, -1), span = lin_sum(hi, &lo, -1);
    if (!d.ok || !span.ok || !d.n || !span.n) return false;
    int i = 0;
    while (i < d.n && d.term[i] != span.term[0]) i++;
    if (i == d.n || d.k[i] % span.k[0]) return false;
    i64 k = d.k[i] / span.k[0];
    d = lin_sum(d, &span, -k);
    if (!d.ok || d.n) return false;
    // k * span + c; R rounds have a span of at least (R - 1) * step + 1.
    i64 c = k > 0 ? d.c : -d.c, size = k > 0 ? k : -k;
    bool zero = k > 0 ? n->cmp == CMP_GE || n->cmp == CMP_LT : n->cmp == CMP_GT || n->cmp == CMP_LE;
    i64 enough = ceil_div(zero ? -c : 1 - c, size);
    r->out->few = true;
    i64 rounds = enough ? ceil_div(enough - 1, r->l->step) + 1 : 0;
    if (rounds > PERIODIC_MODULUS_MAX) return false;
    r->out->first = MAX(r->out->first, rounds);
    return true;
}

// ---- demands ------------------------------------------------------------------------------------

// Is a remainder by m of the operand the same whether it is taken as a number without sign, as the
// operation does, or as the sum that it is made as? Powers of two do not care.
static bool plain(const Run *r, const TermView *n, Term operand, i64 m)
{
    return is_pow2(m) || !is_unsigned(n->type) || nonnegative(r, operand);
}

// What the operation asks of its operand `which` when m is asked of its result.
static i64 need(const Run *r, const TermView *n, int which, i64 m)
{
    Term other = which == 0 ? n->b : n->a;
    i64 c;
    bool fixed = term_number(&r->sums, other, &c);
    switch (n->op) {
    case OP_ADD: case OP_SUB: case OP_NEG: return m;
    case OP_MAD:
        if (which == 2) return m;
        // fall through
    case OP_MUL:
    case OP_MULWIDE:
        if (m != EXACT && n->op == OP_MULWIDE && !plain(r, n, which ? n->b : n->a, m)) return EXACT;
        if (m == EXACT || !term_signed(&r->sums, n->type, other, &c)) return m;
        return c ? m / sums_gcd(m, c) : 1;
    case OP_SHL:
        if (which || !fixed) return EXACT;
        return m == EXACT ? EXACT : m / sums_gcd(m, (i64)1 << MIN(c, (i64)40));
    case OP_SHR:
        if (which || !fixed || m == EXACT || c > 31 || !plain(r, n, n->a, m)) return EXACT;
        return both(m << c, 1);
    case OP_AND:
        if (fixed && c >= 0 && c < PERIODIC_MODULUS_MAX) {
            i64 top = 1;
            while (top <= c) top *= 2;
            return is_pow2(m) ? MIN(m, top) : top;
        }
        return is_pow2(m) ? m : EXACT;
    case OP_OR: case OP_XOR: case OP_NOT: return is_pow2(m) ? m : EXACT;
    case OP_REM:
        if (which || !fixed || c < 1) return EXACT;
        if (is_unsigned(n->type) ? !plain(r, n, n->a, c) : !nonnegative(r, n->a)) return EXACT;
        if (m != EXACT && c % m == 0) return m;
        return both(c, 1);
    case OP_DIV:
        if (which || !fixed || c < 1 || m == EXACT || c > PERIODIC_MODULUS_MAX) return EXACT;
        if (is_unsigned(n->type) ? !plain(r, n, n->a, m * c) : !nonnegative(r, n->a)) return EXACT;
        return both(m * c, 1);
    case OP_SELP: return which == 2 ? EXACT : m;
    case OP_CVT: {
        TermView from = {.type = n->type2};
        bool words = type_is_word(n->type2) && type_is_word(n->type);
        return words && plain(r, &from, n->a, m) ? m : EXACT;
    }
    default: return EXACT;
    }
}

// A demand modulo something that does not divide 2^32, or a sign that holds for few rounds only.
static bool only_few(const TermView *n, i64 m)
{
    bool divides = n->op == OP_DIV || n->op == OP_REM;
    return divides && (!is_unsigned(n->type) || !is_pow2(m));
}

static void ask(Run *r, Term x, Asker who, i64 m, const ThreadOp *at)
{
    i64 v;
    if (m == 1 || m == 0) return;
    if (!x) {
        if (who == BY_VALUE) fail(r, at, "what steers here follows from data");
        if (who == BY_CHOICE || who == BY_BOUND) r->out->data = true;
        return;
    }
    if (term_number(&r->sums, x, &v)) return;
    Demand *d = &r->demand[x];
    i64 now = both(d->m[who], m);
    if (now == d->m[who]) return;
    d->m[who] = now;
    if (!d->at) d->at = at;
    if (r->queued[x]) return;
    r->queued[x] = true;
    vec_push(r->arena, &r->work, x);
}

static void ask_data(Run *r, Term x, const ThreadOp *at)
{
    i64 v;
    if (!x || term_number(&r->sums, x, &v) || r->demand[x].data) return;
    r->demand[x].data = true;
    if (!r->demand[x].at) r->demand[x].at = at;
    if (r->queued[x]) return;
    r->queued[x] = true;
    vec_push(r->arena, &r->work, x);
}

// A value that a loop carries: what it was before the loop and what a round makes of it.
static void ask_carried(Run *r, Term x, bool behind)
{
    int loop;
    const SteerCarried *c = steer_carried(r->s, x, &loop);
    const SteerLoop *k = &r->s->loops.at[loop];
    const Demand d = r->demand[x];
    for (int who = 0; who < ASKERS; who++) {
        i64 m = d.m[who];
        if (!m) continue;
        bool own = who == BY_OWN && loop == r->loop;
        ask(r, c->first, own ? BY_BOUND : (Asker)who, m, d.at);
        ask(r, c->next, (Asker)who, m, d.at);
        // How often other loops went round decides what is behind them.
        if (!behind || loop == r->loop || k->rounds >= 0) continue;
        Asker chooses = who == BY_OWN ? BY_OWN : BY_BOUND;
        ask(r, k->lo, chooses, EXACT, k->op);
        ask(r, k->hi, chooses, EXACT, k->op);
        if (k->bound >= 0) ask(r, k->carried.at[k->bound].next, chooses, EXACT, k->op);
    }
    if (d.data) {
        ask_data(r, c->first, d.at);
        ask_data(r, c->next, d.at);
    }
}

static void ask_leaf(Run *r, Term x, const TermView *n)
{
    const Demand d = r->demand[x];
    switch (n->op) {
    case LEAF_HEAD:
    case LEAF_EXIT: ask_carried(r, x, n->op == LEAF_EXIT); break;
    case LEAF_LOAD: {
        TermView place = term_view(r->t, (Term)n->value);
        if (d.m[BY_VALUE]) {
            ask(r, place.a, BY_VALUE, EXACT, d.at);
            ask(r, place.b, BY_VALUE, EXACT, d.at);
        }
        if (d.m[BY_CHOICE] || d.m[BY_BOUND] || d.data) {
            ask_data(r, place.a, d.at);
            ask_data(r, place.b, d.at);
        }
        break;
    }
    case LEAF_DATA:
        if (!inside(r, r->s->data.at[n->value].inside)) break;
        if (d.m[BY_VALUE])
            fail(r, d.at, "it follows from data that a round makes (line %u)",
                 r->s->data.at[n->value].op->loc.line);
        if (d.m[BY_CHOICE] || d.m[BY_BOUND] || d.data) r->out->data = true;
        break;
    default: break;
    }
}

// The bound of the loop, where it is asked for by its remainder only: that is a matter of the
// number of rounds. 0: it is not.
static i64 length_asked(const Run *r, Term x)
{
    i64 lo;
    const Demand *d = &r->demand[x];
    if (x != r->l->hi || r->l->bound >= 0 || !term_number(&r->sums, r->l->lo, &lo)) return 0;
    return MAX(both(d->m[BY_VALUE], d->m[BY_CHOICE]), 0);
}

static void ask_operands(Run *r, Term x)
{
    TermView n = term_view(r->t, x);
    const Demand d = r->demand[x];
    const Term operand[] = {n.a, n.b, n.c};
    i64 m = length_asked(r, x);
    if (m) {
        m = both(r->out->modulus, m / sums_gcd(m, r->l->step));
        if (m == EXACT) fail(r, d.at, "its bound is asked for by too large a remainder");
        else r->out->modulus = m;
        return;
    }
    if (n.form == TERM_IS_LEAF) {
        ask_leaf(r, x, &n);
        return;
    }
    bool asked = d.m[BY_VALUE] || d.m[BY_CHOICE] || d.m[BY_BOUND];
    bool settled = asked && (settles(r, &n, true) || depends_on_length(r, &n));
    for (int i = 0; i < COUNT(operand); i++) {
        if (!operand[i]) continue;
        for (int who = 0; who < ASKERS; who++) {
            if (!d.m[who] || (settled && who != BY_OWN)) continue;
            m = n.form == TERM_IS_TUPLE ? EXACT : need(r, &n, i, d.m[who]);
            if (sums_varies(&r->sums, x) && only_few(&n, m)) r->out->few = true;
            // Which of two values is a choice, whoever wants the value.
            bool chooses = n.op == OP_SELP && i == 2 && who == BY_VALUE;
            ask(r, operand[i], chooses ? BY_CHOICE : (Asker)who, m, d.at);
        }
        if (d.data) ask_data(r, operand[i], d.at);
    }
}

static void ask_all(Run *r, bool uses)
{
    for (int i = 0; i < r->s->roots.n; i++) {
        const SteerRoot *root = &r->s->roots.at[i];
        if (root->kind == ROOT_USE && !uses) continue;
        Asker who = root->kind == ROOT_VALUE ? BY_VALUE
                    : root->op->op == OP_FOR ? BY_BOUND
                                             : BY_CHOICE;
        // The bound that the loop itself sets.
        if (root->own == r->loop && root->inside == r->loop) who = BY_OWN;
        if (!root->term && !inside(r, root->inside)) continue; // data, and not of this loop
        ask(r, root->term, who, EXACT, root->op);
    }
    for (int i = 0; i < r->work.n; i++) {
        Term x = r->work.at[i];
        r->queued[x] = false;
        ask_operands(r, x);
    }
}

// ---- sizes --------------------------------------------------------------------------------------

// Leaves that the number of rounds follows from.
static bool find_sizes(Run *r, Term x, bool *seen, int depth, const ThreadOp **at, Term *which)
{
    TermView n = term_view(r->t, x);
    i64 v;
    if (!x || depth > 400) return true;
    if (term_number(&r->sums, x, &v) || seen[x]) return true;
    seen[x] = true;
    if (n.form != TERM_IS_LEAF)
        return find_sizes(r, n.a, seen, depth + 1, at, which) &&
               find_sizes(r, n.b, seen, depth + 1, at, which) &&
               find_sizes(r, n.c, seen, depth + 1, at, which);
    // Blocks and threads stay who they are: there is another launch with more rounds for them.
    if (n.op == LEAF_SREG || n.op == LEAF_ROLE) return true;
    const Demand *d = &r->demand[x];
    if ((!d->m[BY_VALUE] && !d->m[BY_CHOICE]) || length_asked(r, x)) return true;
    *at = d->at;
    *which = x;
    return false;
}

// More rounds come with another size; if that steers by itself as well, cases with few rounds say
// nothing about cases with many.
static void check_sizes(Run *r)
{
    const SteerLoop *l = r->l;
    bool *seen = ARENA_ARRAY(r->arena, bool, terms_end(r->t) + 1);
    const ThreadOp *at = NULL;
    Term which = 0;
    bool free = find_sizes(r, l->lo, seen, 0, &at, &which) &&
                find_sizes(r, l->hi, seen, 0, &at, &which) &&
                (l->bound < 0 ||
                 find_sizes(r, l->carried.at[l->bound].next, seen, 0, &at, &which));
    if (free) return;
    TermView n = term_view(r->t, which);
    fail(r, at, "'%s' decides how many rounds there are and steers by itself as well",
         n.op == LEAF_PARAM ? r->s->fn->params.at[n.value].name : "data");
}

// ---- what comes round ---------------------------------------------------------------------------

static i64 asked(const Run *r, int entry)
{
    const SteerCarried *c = &r->l->carried.at[entry];
    i64 m = 0;
    for (int who = BY_VALUE; who < BY_OWN; who++)
        m = both(both(m, r->demand[c->head].m[who]), r->demand[c->exit].m[who]);
    return m;
}

static const ThreadOp *asked_at(const Run *r, int entry)
{
    const SteerCarried *c = &r->l->carried.at[entry];
    return r->demand[c->head].at ? r->demand[c->head].at : r->demand[c->exit].at;
}

// What is known of an entry once it is judged: it comes round after `period` rounds, and lags
// behind what it follows from by `lag`.
typedef struct { bool under_way, done; i64 period, lag; } Verdict;

static void repeat(Run *r, Verdict *v, i64 rounds)
{
    i64 m = both(v->period, rounds);
    v->period = m == EXACT ? 1 : m;
    if (m != EXACT) m = both(r->out->modulus, m);
    if (m == EXACT)
        fail(r, NULL, "its rounds repeat only after more than %d", PERIODIC_MODULUS_MAX);
    else
        r->out->modulus = m;
}

// Entries of the loop that x follows from, as marks.
static bool find_heads(const Run *r, Term x, bool *marks, bool *seen, int depth)
{
    TermView n = term_view(r->t, x);
    int loop;
    i64 v;
    if (!x || depth > 400) return false;
    if (term_number(&r->sums, x, &v) || seen[x]) return true;
    seen[x] = true;
    if (n.form == TERM_IS_LEAF && n.op == LEAF_LOAD)
        return find_heads(r, (Term)n.value, marks, seen, depth + 1);
    if (n.form == TERM_IS_LEAF && (n.op == LEAF_HEAD || n.op == LEAF_EXIT)) {
        const SteerCarried *c = steer_carried(r->s, x, &loop);
        if (loop == r->loop) return marks[c - r->l->carried.at] = true;
        return find_heads(r, c->first, marks, seen, depth + 1) &&
               find_heads(r, c->next, marks, seen, depth + 1);
    }
    if (n.form == TERM_IS_LEAF) return true;
    return find_heads(r, n.a, marks, seen, depth + 1) &&
           (!n.b || find_heads(r, n.b, marks, seen, depth + 1)) &&
           (!n.c || find_heads(r, n.c, marks, seen, depth + 1));
}

static bool heads_of(const Run *r, Term x, bool *marks)
{
    return find_heads(r, x, marks, ARENA_ARRAY(r->arena, bool, terms_end(r->t) + 1), 0);
}

// Is the condition the same in all rounds but some first and last ones, or a choice on data?
static bool settled(const Run *r, Term x, int *fuel)
{
    TermView n = term_view(r->t, x);
    if (!x || --*fuel < 0) return false;
    if (!sums_varies(&r->sums, x)) return true;
    if (n.form == TERM_IS_LEAF) return n.op == LEAF_LOAD || n.op == LEAF_DATA;
    if (settles(r, &n, false)) return true;
    return settled(r, n.a, fuel) && (!n.b || settled(r, n.b, fuel)) &&
           (!n.c || settled(r, n.c, fuel));
}

static void judge(Run *r, int entry, Verdict *v);

// Judges what x follows from: `v` of the entry takes their lag, and *period their period. False: it
// follows from data, or from an entry that is under way.
static bool judge_sources(Run *r, Term x, Verdict *v, int entry, i64 *period)
{
    bool *marks = ARENA_ARRAY(r->arena, bool, r->l->carried.n + 1);
    if (!heads_of(r, x, marks)) return false;
    for (int i = 0; i < r->l->carried.n; i++) {
        if (!marks[i] || !asked(r, i)) continue;
        if (v[i].under_way) return false;
        judge(r, i, v);
        v[entry].lag = MAX(v[entry].lag, v[i].lag);
        i64 m = both(*period, v[i].period);
        if (m == EXACT) return false;
        *period = m;
    }
    return true;
}

// A register that grows: by c in each round, or by sums that equal choices make equal.
static void judge_growth(Run *r, int entry, i64 m, const Growth *g, Verdict *v)
{
    const SteerCarried *c = &r->l->carried.at[entry];
    if (!g->g) return;
    if (m == EXACT) {
        const ThreadOp *at = asked_at(r, entry);
        const char *what =
            at && at->op == OP_FOR  ? "the rounds of the loop there follow from '%s', which "
                                      "changes with every round"
            : at && at->op == OP_IF ? "the condition there follows from '%s', which changes with "
                                      "every round"
                                    : "'%s', which changes with every round, steers by its value, "
                                      "not by its remainder";
        fail(r, at, what, reg_name(r, c));
        return;
    }
    i64 rounds = m / sums_gcd(m, g->g), period = 1;
    if (!is_pow2(m)) r->out->few = true;
    if (rounds == 1) return;
    r->out->sums |= g->sums;
    for (int i = 0; i < g->nconditions; i++) {
        TermView n = term_view(r->t, g->condition[i]);
        int fuel = FUEL;
        if (settles(r, &n, false)) continue;
        if (settled(r, g->condition[i], &fuel)) {
            r->out->sums = true;
            continue;
        }
        // The condition has a period of its own, for which the growth may be anything.
        if (!judge_sources(r, g->condition[i], v, entry, &period)) {
            fail(r, asked_at(r, entry), "how much '%s' grows in a round depends on the round",
                 reg_name(r, c));
            return;
        }
    }
    repeat(r, &v[entry], period * rounds);
}

// Is x what the entry was, with bits turned that do not follow from it (phases)? *period becomes
// that of what they follow from.
static bool is_turned(Run *r, Term x, Term head, Verdict *v, int entry, i64 *period, int depth)
{
    TermView n = term_view(r->t, x);
    int inner;
    if (!x || depth > 40) return false;
    if (x == head) return true;
    if (n.form == TERM_IS_LEAF && n.op == LEAF_EXIT) {
        const SteerCarried *c = steer_carried(r->s, x, &inner);
        const SteerLoop *k = &r->s->loops.at[inner];
        r->out->sums |= sums_bounds_vary(&r->sums, k);
        return inner != r->loop && is_turned(r, c->first, head, v, entry, period, depth + 1) &&
               is_turned(r, c->next, c->head, v, entry, period, depth + 1) &&
               judge_sources(r, k->lo, v, entry, period) &&
               judge_sources(r, k->hi, v, entry, period);
    }
    if (n.form != TERM_IS_OP) return false;
    if (n.op == OP_SELP) {
        TermView p = term_view(r->t, n.c);
        int fuel = FUEL;
        if (sums_varies(&r->sums, n.c) && !settles(r, &p, false) && settled(r, n.c, &fuel))
            r->out->sums = true;
        return is_turned(r, n.a, head, v, entry, period, depth + 1) &&
               is_turned(r, n.b, head, v, entry, period, depth + 1) &&
               judge_sources(r, n.c, v, entry, period);
    }
    if (n.op != OP_XOR) return false;
    return (is_turned(r, n.a, head, v, entry, period, depth + 1) &&
            judge_sources(r, n.b, v, entry, period)) ||
           (is_turned(r, n.b, head, v, entry, period, depth + 1) &&
            judge_sources(r, n.a, v, entry, period));
}

// Registers that pass values to each other in a ring: back after as many rounds as there are.
static bool judge_ring(Run *r, int entry, i64 m, Verdict *v)
{
    i64 c = 0, size = 0;
    int k = entry;
    do {
        Growth g = growth_of(r, k);
        if (!g.ok || !g.known || ++size > r->l->carried.n) return false;
        c += g.c;
        k = g.base;
    } while (k != entry);
    if (size < 2 || (c && m == EXACT)) return false;
    repeat(r, &v[entry], c ? size * (m / sums_gcd(m, c)) : size);
    return true;
}

static void judge(Run *r, int entry, Verdict *v)
{
    const SteerCarried *c = &r->l->carried.at[entry];
    i64 m = asked(r, entry), period = 1;
    if (v[entry].done || !m || r->why) return;
    v[entry] = (Verdict){.under_way = true, .period = 1};
    Growth g = growth_of(r, entry);
    if (c->next == c->head) {
        // stays as it is
    } else if (!sums_varies(&r->sums, c->next)) {
        v[entry].lag = 1;
    } else if (g.ok && g.base == entry) {
        judge_growth(r, entry, m, &g, v);
    } else if (judge_ring(r, entry, m, v)) {
        // back where it was
    } else if (is_turned(r, c->next, c->head, v, entry, &period, 0)) {
        repeat(r, &v[entry], 2 * period); // what is turned in a period is turned back in the next
    } else if (judge_sources(r, c->next, v, entry, &period)) {
        repeat(r, &v[entry], period);
        v[entry].lag++;
    } else {
        fail(r, asked_at(r, entry), "'%s' follows from itself or from data in a way that is not "
             "seen to come round", reg_name(r, c));
    }
    v[entry].under_way = false;
    v[entry].done = true;
}

static void judge_all(Run *r)
{
    const SteerLoop *l = r->l;
    Verdict *v = ARENA_ARRAY(r->arena, Verdict, l->carried.n + 1);
    i64 most = 0;
    if (r->s->refused) fail(r, r->s->refused, "the code is too large or too deep to be looked at");
    if (l->leaves) fail(r, l->leaves, "a thread may end inside the loop");
    if (l->counter < 0 || l->counter_written) fail(r, NULL, "the loop writes its own counter");
    for (int i = 0; i < l->carried.n && !r->why; i++) {
        judge(r, i, v);
        most = MAX(most, v[i].lag);
        r->out->data |= r->demand[l->carried.at[i].head].data;
        r->out->data |= r->demand[l->carried.at[i].exit].data;
    }
    check_sizes(r);
    // Registers that lag behind say in later rounds what was so in earlier ones.
    r->out->first += most;
    r->out->last += r->out->last ? most : 0;
}

// ---- loops --------------------------------------------------------------------------------------

// Bounds that are numbers, or follow from the number of the thread.
static bool is_fixed(const Run *r, const SteerLoop *l)
{
    Term leaf[8];
    if (l->rounds >= 0) return true;
    if (l->bound >= 0 || !l->lo || !l->hi) return false;
    for (int b = 0; b < 2; b++) {
        int n = term_leaves(r->t, b ? l->hi : l->lo, leaf, COUNT(leaf));
        if (n == COUNT(leaf)) return false;
        for (int i = 0; i < n; i++) {
            u64 key = term_leaf_key(r->t, leaf[i]);
            if (term_leaf_kind(r->t, leaf[i]) != LEAF_SREG ||
                (key != SR_TID && key != SR_LANE && key != SR_CLUSTER_RANK))
                return false;
        }
    }
    return true;
}

static void examine(Run *r, bool uses, LoopPeriod *out)
{
    Term end = terms_end(r->t);
    const SteerLoop *l = r->l;
    *out = (LoopPeriod){.loop = l->op, .steers = l->steers, .conditional = l->bound >= 0,
                        .step = l->step, .modulus = 1,
                        .outer = l->outer < 0 ? NULL : r->s->loops.at[l->outer].op};
    r->out = out;
    memset(r->demand, 0, sizeof *r->demand * (end + 1));
    memset(r->queued, 0, sizeof *r->queued * (end + 1));
    r->work.n = 0;
    r->why = NULL;
    r->why_at = NULL;
    ask_all(r, uses);
    out->fixed = is_fixed(r, l);
    if (!out->fixed) judge_all(r);
    out->periodic = out->fixed || !r->why;
    if (out->periodic) return;
    out->why = r->why;
    out->why_at = r->why_at;
}

static bool is_asked(const Run *r)
{
    for (int i = 0; i < r->l->carried.n; i++)
        if (asked(r, i)) return true;
    return false;
}

// The same loop, gone through again by an unroll region around it.
static void join(LoopPeriod *a, const LoopPeriod *b)
{
    if (a->periodic && !b->periodic) {
        a->periodic = false;
        a->why = b->why;
        a->why_at = b->why_at;
    }
    i64 m = both(a->modulus, b->modulus);
    if (m == EXACT && a->periodic) {
        a->periodic = false;
        a->why = "its rounds repeat late and differently in its copies";
        a->why_at = a->loop;
    }
    a->modulus = m == EXACT ? 1 : m;
    a->first = MAX(a->first, b->first);
    a->last = MAX(a->last, b->last);
    a->fixed = a->fixed && b->fixed;
    a->data |= b->data;
    a->sums |= b->sums;
    a->few |= b->few;
    if (!a->use_at) a->use_at = b->use_at;
}

void periodic_loops(Arena *a, const ThreadFn *fn, LoopPeriods *out)
{
    Steer *s = steer_new(a, fn);
    int from = out->n;
    Term end = terms_end(s->terms) + 1;
    Run r = {.sums = {s, s->terms, ARENA_ARRAY(a, bool, end)}, .s = s, .t = s->terms, .arena = a,
             .demand = ARENA_ARRAY(a, Demand, end), .queued = ARENA_ARRAY(a, bool, end),
             .assumed = ARENA_ARRAY(a, i64, end)};
    for (int i = 0; i < s->loops.n; i++) {
        LoopPeriod p, with;
        r.loop = i;
        r.l = &s->loops.at[i];
        memset(r.sums.varies, 0, sizeof *r.sums.varies * end);
        find_varying(&r);
        examine(&r, false, &p);
        if (!p.steers && !is_asked(&r)) continue;
        examine(&r, true, &with);
        if (p.periodic && with.periodic) p = with;
        else if (p.periodic) p.use_at = with.why_at;
        int k = from;
        while (k < out->n && out->at[k].loop != p.loop) k++;
        if (k < out->n) join(&out->at[k], &p);
        else vec_push(a, out, p);
    }
}
