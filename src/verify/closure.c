// closure.c - `check_order`: the handoffs of a kernel for every number of rounds.
//
// A case gives numbers to all loops that depend on sizes or data, and order.c says whether it is
// right on all schedules. Cases are chosen so that they cover all numbers: a *site* is a loop that
// begins while the whole block is in some state (order.c says what belongs to it). What happens
// from there on is decided by the state and the numbers of rounds of this loop and of all later
// ones, so a site needs to be looked at once, with each number of rounds; and the numbers end where
// the state in front of a round is one that the same loop was in before: from there on it goes in
// circles. periodic.c proves what this rests on: that rounds steer by nothing that the state does
// not hold.
//
// Invariant of the sites: every site that a covered number of rounds leads to is in the table. When
// no number of any site is left, all cases of the kernel are right, however large.
//
// An outer loop (of a persistent kernel) is one site with no end of numbers; it is covered through
// the inner loops: their sites tell apart how many outer rounds are left, up to `far`, from where
// on it makes no difference.
#include "check.h"
#include "order.h"
#include "periodic.h"
#include "whiles.h"

#include <string.h>

enum {
    PLAN_MAX = 48,
    ROUNDS_MAX = 38,
    RUNS_MAX = 300,
    WORK_MAX = 8000000,
    THOROUGH = 150,
    NESTED_MAX = 2
};

typedef struct {
    bool done, impossible;
    bool ends;   // no loop follows
    bool inside; // what follows lies in an outer loop,
    int later;   // this many rounds of it later
    u64 next;    // the state there
} Number;

typedef struct {
    u64 state;
    int left;       // outer rounds that are left, this one among them, at most `far`; 0: no
                    // outer loop
    int need;       // numbers of rounds 0 to need - 1 cover all; 0: not known yet
    bool outer;     // a loop with sites inside: it is covered through them
    bool condition; // number 0 or 1
    Number number[ROUNDS_MAX];
} Site;

typedef struct {
    const CheckJob *job;
    Arena *arena; // of the kernel
    Terms *terms;
    ByteSets *bytes;
    struct Replays *replays;
    const struct Whiles *whiles;
    LoopPeriods periods;
    i64 modulus;
    int first, last,
        far; // rounds at the beginning and at the end that differ; outer rounds that are told apart
    VEC(Site *) sites;
    Map *by_key;
    u64 root;       // state in front of the first loop
    bool plain;     // cases end with their target: others may have no size
    int found;      // the number that expand has found
    int usual;      // numbers that stand behind targets are less
    int runs, most; // cases; largest number of rounds
    i64 work;
    bool broken, sweeping;
    const char *open; // why the closure is not a proof; NULL: it is
    Loc open_at;
    int n_address, n_branch;
    const ThreadOp *address, *branch;
} Closure;

static void give_up(Closure *c, const ThreadOp *at, const char *why)
{
    if (c->open) return;
    c->open = why;
    c->open_at = at ? at->loc : (Loc){0};
}

// ---- what is said -------------------------------------------------------------------------------

static void put_case(const Model *m, Buf *out)
{
    for (int i = 0; i < m->decisions.n; i++) {
        const Decision *d = &m->decisions.at[i];
        buf_puts(out, i ? ", " : "; in the case of ");
        if (d->op->op == OP_FOR)
            buf_printf(out, "%lld rounds of ", (long long)d->value);
        else
            buf_printf(out, "condition %s ", d->value ? "true" : "false");
        tell_place(m, d->op, out);
        if (d->what) buf_printf(out, " (%s)", d->what);
    }
}

static void tell(Closure *c, const Model *m, const OrderFault *f)
{
    Buf b = {0};
    const char *why, *name = tell_rule(f->rule, &why);
    if (*name) buf_printf(&b, "%s: ", name);
    buf_puts(&b, f->text ? f->text : why);
    if (f->x >= 0) {
        buf_puts(&b, ": ");
        tell_access(m, f->who, f->x, &b);
    } else if (f->who >= 0 && f->op) {
        buf_puts(&b, ": ");
        tell_event(m, f->who, f->op, f->bar, &b);
    }
    if (f->load >= 0 && f->x >= 0) {
        buf_puts(&b, "; ");
        tell_load(m, f->load, &b);
    } else if (f->y >= 0) {
        buf_puts(&b, "; ");
        tell_access(m, f->other, f->y, &b);
    } else if (f->other >= 0 && f->op2) {
        buf_puts(&b, "; completed by ");
        tell_event(m, f->other, f->op2, -1, &b);
    }
    put_case(m, &b);
    CheckFinding *x = check_broken(c->job, f->rule, f->op ? f->op->loc : (Loc){0}, b.s);
    if (f->op2) x->other = f->op2->loc;
    buf_free(&b);
}

// ---- one case -----------------------------------------------------------------------------------

static Site *site(Closure *c, u64 state, int left, bool make)
{
    u64 key = hash_bytes(&state, sizeof state, (u64)left + 5) | 1;
    Site *s = map_get(c->by_key, (const void *)(uintptr_t)key);
    if (s || !make) return s;
    s = ARENA_NEW(c->arena, Site);
    *s = (Site){.state = state, .left = left};
    map_put(c->by_key, (const void *)(uintptr_t)key, s);
    vec_push(c->arena, &c->sites, s);
    return s;
}

static void put_aside(Closure *c, const Model *m)
{
    if (m->n_unknown_address > c->n_address) {
        c->n_address = m->n_unknown_address;
        c->address = m->unknown_address;
    }
    if (m->n_unknown_branch) c->n_branch = m->n_unknown_branch, c->branch = m->unknown_branch;
}

// The stop in front of round k of the loop of the decision, or -1.
static int entry(const OrderRun *r, int decision, int k)
{
    for (int i = 0; i < r->stops.n; i++)
        if (r->stops.at[i].decision == decision && r->stops.at[i].k == k) return i;
    return -1;
}

// After how many rounds the state comes back: the numbers of rounds that cover all are one more
// than those, and `last` more for the rounds at the end. 0: it does not come back in this run.
static int needed(const Closure *c, const OrderRun *r, int decision)
{
    for (int i = 0; i < r->stops.n; i++) {
        const OrderStop *x = &r->stops.at[i];
        if (x->decision != decision || x->n - x->k <= c->last) continue;
        for (int k = 0; k < i; k++)
            if (r->stops.at[k].decision == decision && r->stops.at[k].state == x->state)
                return x->k + c->last + 1;
    }
    return 0;
}

// The beginning of what a decision decides: for a loop, of its first round, for a condition, of the
// round in which it is met.
typedef struct {
    int at;
    u64 state;
    int outer, outer_k, outer_n;
} Entry;

static bool entry_of(Closure *c, const Model *m, const OrderRun *r, int d, const Entry *before,
                     Entry *e)
{
    const Decision *x = &m->decisions.at[d];
    bool loop = x->op->op == OP_FOR;
    *e = (Entry){0, 0, -1, 0, -1};
    if (!loop && x->loop < 0) {
        // In front of all loops: told apart by what was decided before.
        e->at = before ? before->at : -1;
        e->state =
            before ? hash_bytes(&m->decisions.at[d - 1].value, sizeof x->value, before->state) : 1;
        return true;
    }
    e->at = loop ? entry(r, d, 0) : entry(r, x->loop, x->k);
    if (e->at < 0 || (before && e->at < before->at)) {
        give_up(c, x->op,
                loop ? "this loop has no partner: no other role makes its rounds by the same "
                       "bound"
                     : "a condition that not all roles meet in the same round");
        return false;
    }
    const OrderStop *s = &r->stops.at[e->at];
    bool deep = s->depth > (loop ? NESTED_MAX : NESTED_MAX - 1);
    if (deep)
        give_up(c, x->op, "loops and conditions that depend on sizes or data are nested too deep");
    e->state = s->state;
    e->outer = loop ? s->outer : x->loop;
    e->outer_k = loop ? s->outer_k : s->k;
    e->outer_n = loop ? s->outer_n : s->n;
    // Several conditions of one round.
    if (!loop && before && before->at == e->at && m->decisions.at[d - 1].op->op != OP_FOR)
        e->state = hash_bytes(&m->decisions.at[d - 1].value, sizeof x->value, before->state);
    return true;
}

// What the run says about its sites.
static void learn(Closure *c, const Model *m, const OrderRun *r)
{
    Entry e, before = {0};
    Site *from = NULL, *last = NULL;
    Number *way = NULL;
    for (int d = 0; d < m->decisions.n; d++) {
        const Decision *x = &m->decisions.at[d];
        bool loop = x->op->op == OP_FOR;
        if (x->unexplained)
            give_up(c, x->op, "the number of rounds comes from what no size explains");
        // The last round of a step is told by the span, not by the number of rounds.
        if (loop && x->op->opnd[3].base != 1)
            give_up(c, x->op, "a loop counts in steps that are not 1");
        if (!entry_of(c, m, r, d, d ? &before : NULL, &e)) return;
        int left = e.outer_n < 0 ? 0 : MIN(e.outer_n - e.outer_k, c->far);
        from = site(c, e.state, left, true);
        from->condition = !loop;
        if (!loop) from->need = 2, c->usual = 2;
        if (way) {
            bool same = before.outer == e.outer && before.outer_n >= 0;
            bool first = e.outer == d - 1 || (e.outer >= 0 && !same && last && !last->condition);
            *way = (Number){.done = true,
                            .inside = e.outer_n >= 0,
                            .next = e.state,
                            .later = same ? e.outer_k - before.outer_k : e.outer_k};
            if (first && e.outer_n >= 0 && !same) last->outer = true;
        }
        way = x->value < ROUNDS_MAX ? &from->number[x->value] : NULL;
        if (way && !way->done) *way = (Number){.done = true, .ends = true};
        int need = loop ? needed(c, r, d) : 0;
        if (need && (!from->need || need < from->need)) from->need = need;
        if (need && c->usual > 2) c->usual = MAX(c->usual, MIN(need, 12));
        if (loop) c->most = MAX(c->most, (int)x->value);
        before = e;
        last = from;
    }
}

// `target`: the decision that the case is made for, its site (NULL: not known yet) and number.
typedef struct {
    int n, value[PLAN_MAX], target, number;
    Site *site;
} CasePlan;

// False: stop, something is broken or was refused.
static bool one_case(Closure *c, CasePlan *p)
{
    Arena *a = arena_new((size_t)1 << 30);
    const CheckJob *j = c->job;
    Model m = {.arena = a,
               .module = j->module,
               .fn = j->fn,
               .plan = j->plan,
               .step = j->step,
               .diag = j->diag,
               .terms = c->terms,
               .bytes = c->bytes,
               .replays = c->replays,
               .whiles = c->whiles,
               .plan_taken = p->value,
               .plan_n = p->n,
               .by_value = true,
               .first = c->first,
               .modulus = c->modulus};
    OrderRun r = {0};
    bool go = true;
    model_start(&m);
    bool ok = model_extract(&m);
    c->runs++;
    c->work += m.steps;
    if (!ok && c->sweeping) {
        // no such case, or too large
    } else if (!ok && m.impossible) {
        if (m.decisions.n == p->target && p->site)
            p->site->number[p->number].impossible = true;
        else if (!c->plain)
            c->plain = true;
        else
            go = false, give_up(c, m.refused_at, "no size leads to a case that should be one");
    } else if (!ok) {
        give_up(c, m.refused_at, arena_strndup(c->arena, m.refused, strlen(m.refused)));
        go = false;
    } else {
        order_run(&m, true, &r);
        put_aside(c, &m);
        for (int i = 0; i < r.faults.n && !m.n_unknown_loop; i++) tell(c, &m, &r.faults.at[i]);
        c->broken |= r.faults.n && !m.n_unknown_loop;
        if (r.faults.n && m.n_unknown_loop)
            give_up(c, m.unknown_loop,
                    "a case with rounds that no size explains looks wrong, and "
                    "may be no launch's");
        go = !r.faults.n;
        if (go) learn(c, &m, &r);
        c->plain = false;
    }
    arena_free(a);
    return go;
}

// ---- which case comes next ----------------------------------------------------------------------

// A place in the search for a number that nobody has tried: a site by its state, how many outer
// rounds are left in the case that leads there, and the number that led here from the place before.
typedef struct {
    u64 state;
    int left, from, value;
} Step;
typedef VEC(Step) Steps;

static void reach(Closure *c, Steps *q, Map *seen, Step s)
{
    u64 key = hash_bytes(&s.state, sizeof s.state, (u64)s.left + 77) | 1;
    if (map_get(seen, (const void *)(uintptr_t)key)) return;
    map_put(seen, (const void *)(uintptr_t)key, seen);
    vec_push(c->arena, q, s);
}

// Behind the target, inner loops get numbers from all over, so that one case covers several sites.
// Where the outer rounds do not count any more there are a few more of them.
static void make_plan(Closure *c, const Steps *q, int at, int value, CasePlan *p)
{
    enum { MORE = 8 };
    int n = 0, outer = -1, left = q->at[at].left;
    for (int i = at; i >= 0; i = q->at[i].from) n++;
    p->target = n - 1;
    p->n = MIN(value < 0 ? n - 1 : n, PLAN_MAX);
    for (int i = at, k = n - 1; i >= 0; i = q->at[i].from, k--) {
        const Site *s = site(c, q->at[i].state, MIN(q->at[i].left, c->far), false);
        if (s && s->outer && i != at) outer = k;
        if (k < PLAN_MAX) p->value[k] = value;
        value = q->at[i].value;
    }
    if (outer < 0 || p->n != n || c->plain) return;
    int extra = left >= c->far ? MORE : 0;
    p->value[outer] += extra;
    for (int i = 1; i < left + extra && p->n < PLAN_MAX; i++)
        p->value[p->n++] = (c->runs * 5 + i * 3) % c->usual;
}

// The numbers of a site, by the rounds that are left around it. Returns the target, or -1.
static int expand(Closure *c, Steps *q, Map *seen, int at)
{
    Step s = q->at[at];
    const Site *x = site(c, s.state, MIN(s.left, c->far), false);
    if (!x) return c->found = -1, at;
    int end = x->outer ? PLAN_MAX - 8 : x->need ? x->need : ROUNDS_MAX;
    for (int v = 0; v < end; v++) {
        // Far from its end, an outer loop begins alike for all numbers of rounds.
        int number = x->outer ? MIN(v, c->far + 1) : v;
        const Number *n = &x->number[number];
        if (!n->done && !n->impossible) return c->found = number, at;
        if (!n->done || n->ends) continue;
        int left = !n->inside ? 0 : (x->outer ? v : s.left) - n->later;
        reach(c, q, seen, (Step){n->next, MAX(left, 0), at, v});
    }
    if (!x->outer && !x->need) give_up(c, NULL, "the state in front of a round never comes back");
    return -1;
}

// The nearest number of rounds that has not been tried. False: all are covered.
static bool next_case(Closure *c, CasePlan *p)
{
    Arena *kept = c->arena;
    c->arena = arena_new((size_t)1 << 28);
    Map *seen = map_new(c->arena);
    Steps q = {0};
    int target = -1;
    reach(c, &q, seen, (Step){c->root, 0, -1, -1});
    for (int i = 0; i < q.n && target < 0; i++) target = expand(c, &q, seen, i);
    if (target >= 0) {
        make_plan(c, &q, target, c->found, p);
        p->site = site(c, q.at[target].state, MIN(q.at[target].left, c->far), false);
        p->number = c->found;
    }
    arena_free(c->arena);
    c->arena = kept;
    return target >= 0;
}

// ---- the kernel ---------------------------------------------------------------------------------

static i64 gcd(i64 a, i64 b) { return b ? gcd(b, a % b) : a; }

// Slots, and how often they come round with one parity.
static void read_periods(Closure *c)
{
    const ThreadFn *fn = c->job->fn;
    c->modulus = 2;
    for (int i = 0; i < fn->buffers.n; i++) {
        const ThreadBuffer *b = &fn->buffers.at[i];
        i64 slots = b->kind == BUF_MBAR ? thread_buffer_bytes(b) / 8 : 1;
        if (slots > 1 && slots < 64)
            c->modulus = c->modulus / gcd(c->modulus, 2 * slots) * 2 * slots;
    }
    periodic_loops(c->arena, fn, &c->periods);
    c->last = 1;
    for (int i = 0; i < c->periods.n; i++) {
        const LoopPeriod *p = &c->periods.at[i];
        if (p->fixed) continue;
        if (!p->periodic)
            give_up(c, p->why_at ? p->why_at : p->loop, p->why);
        else if (p->conditional && !while_step(c->whiles, p->loop))
            give_up(c, p->loop, "the end of the loop is set on the way");
        else if (p->first >= ROUNDS_MAX / 2)
            give_up(c, p->loop, "too many first rounds differ");
        if (p->periodic) c->first = MAX(c->first, (int)MIN(p->first, ROUNDS_MAX));
        if (p->last < ROUNDS_MAX / 2)
            c->last = MAX(c->last, (int)p->last);
        else
            give_up(c, p->loop, "too many last rounds differ");
        i64 m = p->periodic ? c->modulus / gcd(c->modulus, p->modulus) * p->modulus : c->modulus;
        if (m <= PERIODIC_MODULUS_MAX)
            c->modulus = m;
        else
            give_up(c, p->loop, "the rounds come back too late");
    }
    c->far = c->last + 2;
}

// Loops that hand over and are not shown to keep step with anybody. Cases show that roles agree
// for the numbers that were tried; that they do for all follows from their bounds.
static void read_partners(Closure *c)
{
    LoopMatches matches = {0};
    LoopsAlone alone = {0};
    periodic_matches(c->arena, c->job->fn, &matches, &alone);
    for (int i = 0; i < alone.n; i++) {
        const LoopAlone *x = &alone.at[i];
        give_up(c, x->loop,
                x->other ? arena_printf(c->arena, "%s (line %u)", x->why, x->other->loc.line)
                         : x->why);
    }
}

static void report(Closure *c)
{
    const CheckJob *j = c->job;
    Buf b = {0};
    j->report->cases += c->runs;
    j->report->states += c->sites.n;
    if (c->broken) return;
    if (c->n_branch)
        check_assumed(j, "conditions on computed values are taken alike by all warps of a role");
    if (c->n_address) {
        buf_printf(&b, "%d accesses of shared memory lie where data decides", c->n_address);
        check_open(j, "handoff", c->address->loc, b.s);
        b.n = 0;
    }
    if (c->open) {
        buf_printf(&b, "not proved, explored up to %d rounds in %d cases: %s", c->most, c->runs,
                   c->open);
        check_open(j, "handoff", c->open_at, b.s);
    } else if (!c->sites.n) {
        check_proved(j, "handoff", "no loop depends on sizes or data: all schedules are right");
    } else {
        buf_printf(
            &b,
            "right on all schedules for every number of rounds (%d cases of up to %d rounds, "
            "%d states at loops)",
            c->runs, c->most, c->sites.n);
        check_proved(j, "handoff", b.s);
    }
    buf_free(&b);
}

// Where there is no proof: small numbers of rounds, the same for all loops, and mixed ones.
static bool sweep(Closure *c)
{
    enum { CASES = 24, MOST = 9 };
    CasePlan p = {.n = PLAN_MAX, .target = -1};
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < PLAN_MAX; k++)
            p.value[k] = i <= MOST ? i : k ? (i * 5 + k * 3) % 4 : 1 + i % 6;
        c->sweeping = true;
        if (!one_case(c, &p) && c->broken) return false;
    }
    return true;
}

void check_order(const CheckJob *job)
{
    Arena *a = arena_new((size_t)1 << 30);
    Closure c = {.job = job,
                 .arena = a,
                 .terms = terms_new(a),
                 .bytes = bytes_new(a),
                 .replays = replays_new(a),
                 .whiles = whiles_new(a, job->fn),
                 .by_key = map_new(a),
                 .usual = 4};
    CasePlan p = {.target = -1};
    read_periods(&c);
    read_partners(&c);
    bool more = one_case(&c, &p);
    if (more && c.sites.n) c.root = c.sites.at[0]->state;
    while (more && c.sites.n && next_case(&c, &p)) {
        i64 factor = job->thorough ? THOROUGH : 1;
        if (c.runs >= RUNS_MAX * factor || c.work > WORK_MAX * factor) {
            give_up(&c, NULL, "too many states of the block at the beginnings of loops");
            break;
        }
        more = one_case(&c, &p);
        if (!more || !p.site || c.plain) continue;
        const Number *n = &p.site->number[p.number];
        if (!n->done && !n->impossible) {
            give_up(&c, NULL, "the block is not in the same state in two cases that begin alike");
            break;
        }
    }
    if (c.open && !c.broken && more) sweep(&c);
    report(&c);
    arena_free(a);
}
