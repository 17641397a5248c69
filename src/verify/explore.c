// explore.c - `baton explore`: the cases of each kernel, one after the other, and what is said about
// them. A case is a choice for every loop bound and condition that depends on sizes or data.
//
// Cases come in the order of their largest number, so that small counterexamples come first and a
// kernel with too many cases has all small ones done: up to `bound` rounds in all combinations.
#include "verify.h"
#include "whiles.h"
#include "model.h"

#include <string.h>
#include <time.h>

// Work for one kernel, in operations that are executed for events and steps of searches: seconds.
enum { KEEP_OPS = 64, TRIPS_MAX = 11, WORK_MAX = 12000000 };

typedef struct {
    const ThreadOp *op;
    u64 values;          // bit v: v rounds were explored
} Explored;

typedef struct {
    const ThreadModule *module;
    const ThreadFn *fn;
    const Plan *plan;
    const PlanStep *step;
    const Diag *diag;
    const ExploreOptions *o;
    Arena *arena;        // of the kernel
    Terms *terms;
    ByteSets *bytes;
    struct Replays *replays;
    const struct Whiles *whiles;
    Buf *out;
    int cases, slots, trips, complete;
    i64 states, transitions, work;
    int kinds, agents, ctas, bars;
    int unjudged;        // cases that look wrong, with rounds that no size explains
    bool stopped, memory;
    VEC(Explored) loops;
    // what the model leaves out; counted in the largest case
    int n_address, n_loop, n_branch;
    const ThreadOp *address, *loop, *branch;
} Job;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool size_of(void *ctx, const char *name, i64 *value)
{
    const ExploreOptions *o = ctx;
    for (int i = 0; i < o->sizes.n; i++)
        if (strcmp(o->sizes.at[i].name, name) == 0) return *value = o->sizes.at[i].value, true;
    return false;
}

// Parameters whose values follow from the sizes that were given.
static void bind_sizes(Job *j, Model *m)
{
    model_start(m);
    for (int i = 0; j->step && i < j->step->args.n; i++) {
        const PlanArg *a = &j->step->args.at[i];
        i64 v;
        if (a->kind != ARG_VALUE || expr_eval(a->value, size_of, (void *)(uintptr_t)j->o, &v))
            continue;
        bool wide = j->fn->params.at[i].kind == PARAM_S64;
        term_bind(j->terms, term_leaf(j->terms, LEAF_PARAM, (u64)i), wide ? (u64)v : (u32)v);
    }
}

static void note_case(Job *j, const Model *m)
{
    for (int i = 0; i < m->decisions.n; i++) {
        const Decision *d = &m->decisions.at[i];
        int k = 0;
        while (k < j->loops.n && j->loops.at[k].op != d->op) k++;
        if (k == j->loops.n) {
            if (k == KEEP_OPS) continue;
            vec_push(j->arena, &j->loops, ((Explored){d->op, 0}));
        }
        if (d->value >= 0 && d->value < 64) j->loops.at[k].values |= (u64)1 << d->value;
    }
    if (m->n_unknown_address > j->n_address) {
        j->n_address = m->n_unknown_address;
        j->address = m->unknown_address;
    }
    if (m->n_unknown_loop) j->n_loop = m->n_unknown_loop, j->loop = m->unknown_loop;
    if (m->n_unknown_branch) j->n_branch = m->n_unknown_branch, j->branch = m->unknown_branch;
    j->kinds = MAX(j->kinds, m->kinds);
    j->agents = m->agents.n;
    j->ctas = m->ctas;
    j->bars = m->bars.n;
}

// The three shortest with their traces, the others in a line each.
static void tell_all(Job *j, Model *m, Search *s)
{
    enum { TRACES = 2 };
    Buf *out = j->out;
    for (int i = 0; i < s->found.n; i++) search_shorten(m, &s->found.at[i]);
    for (int i = 0; i < s->found.n; i++)
        for (int k = i + 1; k < s->found.n; k++)
            if (s->found.at[k].length < s->found.at[i].length) {
                Violation t = s->found.at[i];
                s->found.at[i] = s->found.at[k];
                s->found.at[k] = t;
            }
    if (m->decisions.n) buf_puts(out, "  in the case of\n");
    for (int i = 0; i < m->decisions.n; i++) {
        const Decision *d = &m->decisions.at[i];
        buf_puts(out, "    ");
        tell_place(m, d->op, out);
        if (d->op->op == OP_FOR)
            buf_printf(out, "  %lld round%s", (long long)d->value, d->value == 1 ? "" : "s");
        else
            buf_printf(out, "  condition %s", d->value ? "true" : "false");
        if (d->what) buf_printf(out, "  (%s)", d->what);
        buf_putc(out, '\n');
    }
    for (int i = 0; i < s->found.n; i++) tell_violation(m, &s->found.at[i], i < TRACES, out);
}

typedef enum { CASE_CLEAN, CASE_VIOLATION, CASE_REFUSED, CASE_SKIPPED } CaseVerdict;

// One case. `taken` is what to choose; the choices that came up and their numbers of options are
// written back. Cases without a number `bound` were explored under a smaller bound.
static CaseVerdict one_case(Job *j, int *taken, int *options, int *n, int bound)
{
    CaseVerdict verdict = CASE_CLEAN;
    Arena *a = arena_new((size_t)1 << 30);
    Model m = {.arena = a, .module = j->module, .fn = j->fn, .plan = j->plan,
               .step = j->step, .diag = j->diag,
               .terms = j->terms, .bytes = j->bytes, .replays = j->replays,
               .whiles = j->whiles, .plan_taken = taken, .plan_n = *n, .trips_max = j->trips};
    Search s = {.state_limit = j->o->states, .full = j->o->full};
    bind_sizes(j, &m);
    bool ok = model_extract(&m), fresh = !bound || !m.decisions.n;
    *n = MIN(m.decisions.n, KEEP_OPS);
    for (int i = 0; i < *n; i++) {
        taken[i] = m.decisions.at[i].taken;
        options[i] = m.decisions.at[i].options;
        fresh |= taken[i] == bound;
    }
    j->slots = m.slots_max;
    j->work += m.steps;
    if (!ok) {
        buf_printf(j->out, "  not supported yet: %s  ", m.refused);
        tell_place(&m, m.refused_at, j->out);
        buf_putc(j->out, '\n');
        verdict = CASE_REFUSED;
    } else if (!fresh) {
        verdict = CASE_SKIPPED;
    } else {
        search_model(&m, &s);
        note_case(j, &m);
        j->cases++;
        j->states += s.states;
        j->transitions += s.transitions;
        j->work += s.transitions;
        j->memory |= s.out_of_memory;
        // Rounds that were chosen freely may be no launch's: what follows from them accuses nobody.
        if (s.found.n && m.n_unknown_loop) {
            j->unjudged++;
        } else if (s.found.n) {
            tell_all(j, &m, &s);
            verdict = CASE_VIOLATION;
        }
    }
    arena_free(a);
    return verdict;
}

// All cases whose numbers are at most `bound`, but for those explored before.
static CaseVerdict all_cases(Job *j, int bound)
{
    int taken[KEEP_OPS] = {0}, options[KEEP_OPS], n = 0;
    for (i64 tries = 0;; tries++) {
        CaseVerdict v = one_case(j, taken, options, &n, bound);
        if (v == CASE_VIOLATION || v == CASE_REFUSED || j->memory) return v;
        // The next one: the last choice that has another option.
        int k = n - 1;
        while (k >= 0 && taken[k] + 1 >= MIN(options[k], bound + 1)) k--;
        if (k < 0) return CASE_CLEAN;
        taken[k]++;
        n = k + 1;
        if (j->cases >= j->o->cases || tries > 20 * (i64)j->o->cases || j->work > WORK_MAX) {
            j->stopped = true;
            return CASE_CLEAN;
        }
    }
}

static void put_values(u64 bits, Buf *out)
{
    const char *between = " ";
    for (int i = 0; i < 64; i++) {
        if (!(bits >> i & 1)) continue;
        int k = i;
        while (k + 1 < 64 && (bits >> (k + 1) & 1)) k++;
        if (k > i + 1) buf_printf(out, "%s%d to %d", between, i, k);
        else buf_printf(out, "%s%d", between, i), k = i;
        between = ", ";
        i = k;
    }
}

static void left_out(Job *j, const Model *m, int n, const ThreadOp *op, const char *what)
{
    if (!n) return;
    buf_printf(j->out, "  not in the model: %d %s, the first at ", n, what);
    tell_place(m, op, j->out);
    buf_putc(j->out, '\n');
}

static void put_summary(Job *j, double took)
{
    Model m = {.diag = j->diag, .fn = j->fn}; // for places
    Buf *out = j->out;
    buf_printf(out, "  agents       %d warps of %d kind%s", j->agents, j->kinds,
               j->kinds == 1 ? "" : "s");
    if (j->ctas > 1) buf_printf(out, " in %d blocks", j->ctas);
    buf_printf(out, ", %d mbarriers\n", j->bars);
    for (int i = 0; i < j->loops.n; i++) {
        const Explored *e = &j->loops.at[i];
        bool loop = e->op->op == OP_FOR;
        buf_puts(out, loop ? "  rounds       " : "  condition    ");
        tell_place(&m, e->op, out);
        put_values(e->values, out);
        buf_putc(out, '\n');
    }
    buf_printf(out, "  cases        %d", j->cases);
    if (j->stopped) {
        buf_puts(out, ", and more were left");
        if (j->complete >= 0)
            buf_printf(out, ": all combinations of up to %d rounds are done", j->complete);
    }
    buf_printf(out, "\n  states       %lld\n  transitions  %lld\n", (long long)j->states,
               (long long)j->transitions);
    if (j->o->time) buf_printf(out, "  time         %.2f s\n", took);
    left_out(j, &m, j->n_address, j->address, "accesses whose place depends on data");
    left_out(j, &m, j->n_loop, j->loop, "loops whose bounds no size explains, with 0 to 2 rounds");
    left_out(j, &m, j->n_branch, j->branch, "conditions on computed values, taken alike by all warps");
    if (j->unjudged)
        buf_printf(out, "  not judged   %d of the cases: such rounds may be no launch's\n",
                   j->unjudged);
    if (j->memory)
        buf_printf(out, "  stopped: a search needs more than %lld states, or too much memory\n",
                   (long long)j->o->states);
}

static ExploreVerdict explore_kernel(Job *j)
{
    double start = seconds();
    CaseVerdict v = CASE_CLEAN;
    buf_printf(j->out, "kernel %s\n", j->fn->name);
    j->trips = MIN(j->o->trips ? j->o->trips : 5, TRIPS_MAX);
    j->complete = -1;
    for (int bound = 0; bound <= j->trips && v == CASE_CLEAN && !j->stopped && !j->memory; bound++) {
        v = all_cases(j, bound);
        // How many rounds suffice is known once a ring was seen.
        if (!bound && !j->o->trips) j->trips = MIN(2 * j->slots + 1, 9);
        if (v == CASE_CLEAN && !j->stopped) j->complete = bound;
    }
    if (j->o->counts) {
        j->o->counts->cases += j->cases;
        j->o->counts->states += j->states;
        j->o->counts->transitions += j->transitions;
    }
    if (v == CASE_REFUSED) return EXPLORE_REFUSED;
    put_summary(j, seconds() - start);
    if (v == CASE_VIOLATION) return EXPLORE_VIOLATION;
    if (j->memory) return EXPLORE_REFUSED;
    if (j->unjudged) return EXPLORE_REFUSED;
    buf_puts(j->out, "  clean        no violation, no deadlock\n");
    return EXPLORE_CLEAN;
}

ExploreVerdict explore_module(const ThreadModule *m, const Plan *plan, const Diag *d,
                              const ExploreOptions *o, Buf *out)
{
    ExploreVerdict worst = EXPLORE_CLEAN;
    for (int i = 0; i < m->fns.n; i++) {
        Arena *a = arena_new((size_t)1 << 30);
        Job j = {.module = m, .fn = m->fns.at[i], .plan = plan, .diag = d, .o = o, .arena = a,
                 .step = plan_step_of(plan, m->fns.at[i]->name), .terms = terms_new(a), .bytes = bytes_new(a), .replays = replays_new(a),
                 .whiles = whiles_new(a, m->fns.at[i]), .out = out};
        ExploreVerdict v = explore_kernel(&j);
        // A violation outweighs what could not be looked at.
        if (v == EXPLORE_VIOLATION || worst == EXPLORE_CLEAN) worst = v;
        arena_free(a);
    }
    return worst;
}
