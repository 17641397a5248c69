// guard.c - what is doubtful about a measurement. Each guard is one row: the name of its warnings,
// its rule in words, and the function that looks for it. A guard reads the record and appends
// warnings; it sees those of the rows before it.
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Bench *b;
    BenchWarningKind kind; // of the row
    // Of one figure; guards that look at the whole record have -1 everywhere.
    int impl, size, regime;
    BenchSummary s;
} Look;

#define TOLERANCE 0.03      // of throttling and of drift
#define ABOVE 1.02          // a ceiling may be exceeded by its own noise
#define FAR_OFF 3.0         // speed against the neighbours
#define LARGER 1.25         // work of a job that cannot take less time; other shapes explain less
#define MARK_MS 0.0005      // resolution of the clock of events
#define SHORTEST_MARKS 20   // of a sample
#define METHODS_APART 0.1
enum { FEWEST_FOR_DECILES = 10, FEWEST_ROUNDS = 3 };

static void warn(Look *l, bool refused, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void warn(Look *l, bool refused, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    BenchWarning w = {(u8)l->kind, l->impl, l->size, l->regime, refused,
                      arena_vprintf(l->b->arena, fmt, ap)};
    va_end(ap);
    vec_push(l->b->arena, &l->b->warnings, w);
}

static bool is_of(const Look *l, const BenchTurn *t)
{
    return t->impl == l->impl && t->size == l->size && t->regime == l->regime && t->ms.n;
}

const BenchWarning *bench_refused(const Bench *b, int impl, int size, BenchRegime regime)
{
    for (int i = 0; i < b->warnings.n; i++) {
        const BenchWarning *w = &b->warnings.at[i];
        if (w->refused && (w->impl < 0 || w->impl == impl) && (w->size < 0 || w->size == size) &&
            (w->regime < 0 || w->regime == (int)regime))
            return w;
    }
    return NULL;
}

// ---- of one figure ------------------------------------------------------------------------------

static void unchecked(Look *l)
{
    const BenchCase *c = bench_case(l->b, l->impl, l->size);
    if (!c)
        warn(l, true, "was timed and never compared with a reference");
    else if (c->state != BENCH_RIGHT)
        warn(l, true, "was timed although its result is: %s%s%s", bench_state_name[c->state],
             *c->why ? ", " : "", c->why);
    else if (c->checked == 0)
        warn(l, true, "was timed although no element of its result was compared");
    else if (isnan(c->worst) || isinf(c->worst))
        warn(l, true, "was timed although its result is not finite");
}

// The clocks of the first and last readings say whether it was the clock.
static const char *clock_words(Look *l, const BenchTurn *t)
{
    double first = NAN, last = NAN;
    for (int i = 0; i < t->during.n; i++) {
        if (isnan(first)) first = t->during.at[i].sm_mhz;
        if (!isnan(t->during.at[i].sm_mhz)) last = t->during.at[i].sm_mhz;
    }
    if (isnan(first)) return "the SM clock is not known";
    return arena_printf(l->b->arena, "SM clock %.0f MHz at first, %.0f MHz at last", first, last);
}

// One warning a figure, of its worst turn.
static void throttled(Look *l)
{
    const BenchTurn *worst = NULL;
    double change = TOLERANCE;
    int turns = 0;
    for (int i = 0; i < l->b->turns.n; i++) {
        const BenchTurn *t = &l->b->turns.at[i];
        if (!is_of(l, t) || t->ms.n < FEWEST_FOR_DECILES) continue;
        double c = fabs(bench_decile_change(t->ms.at, t->ms.n));
        turns += c > TOLERANCE;
        if (c > change) worst = t, change = c;
    }
    if (!worst) return;
    i64 tenth = worst->ms.n / 10;
    double signed_change = bench_decile_change(worst->ms.at, worst->ms.n), first = 0;
    for (i64 i = 0; i < tenth; i++) first += worst->ms.at[i] / (double)tenth;
    warn(l, false,
         "the last tenth of the samples differs by %s from the first (%s, then %s) in round %d,"
         " the worst of %d such turn%s; %s",
         bench_signed_percent(l->b->arena, signed_change), bench_time_unit(l->b, first),
         bench_time_unit(l->b, first * (1 + signed_change)), worst->round + 1, turns,
         turns == 1 ? "" : "s", clock_words(l, worst));
}

static void drift(Look *l)
{
    const Bench *b = l->b;
    if (l->impl != b->yardstick) return;
    const BenchTurn *first = NULL, *last = NULL;
    for (int i = 0; i < b->turns.n; i++) {
        const BenchTurn *t = &b->turns.at[i];
        if (!is_of(l, t)) continue;
        if (!first || t->round < first->round) first = t;
        if (!last || t->round >= last->round) last = t;
    }
    if (!first || first == last) return;
    double from = bench_median(b->arena, first->ms.at, first->ms.n);
    double to = bench_median(b->arena, last->ms.at, last->ms.n);
    if (fabs(to / from - 1) > TOLERANCE)
        warn(l, false, "the yardstick drifted by %s between its first and last round (%s, then %s):"
                       " times of different rounds do not compare, ratios within a round do",
             bench_signed_percent(b->arena, to / from - 1), bench_time_unit(b, from),
             bench_time_unit(b, to));
}

static void impossible(Look *l)
{
    const BenchMachine *m = &l->b->machine;
    double peak = bench_peak_tflops(l->b), ceiling = bench_ceiling_tflops(l->b);
    double bytes = l->b->sizes.at[l->size].bytes;
    if (l->s.tflops > peak)
        warn(l, true, "%.0f TFLOPS are more than this device can do: dense %s products end at"
                      " %.1f", l->s.tflops, bench_operands(l->b), peak);
    else if (l->s.tflops > ABOVE * ceiling)
        warn(l, false, "%.0f TFLOPS are more than the %.0f that products alone reached in this run",
             l->s.tflops, ceiling);
    // What fits into the cache need not be moved.
    if (m->l2_bytes > 0 && bytes > 2 * (double)m->l2_bytes && l->s.tbs > ABOVE * m->ceiling_tbs)
        warn(l, false,
             "%.2f TB/s are more than the %.2f that copying memory reached in this run, and"
             " inputs and outputs are %.1f times the level-2 cache",
             l->s.tbs, m->ceiling_tbs, bytes / (double)m->l2_bytes);
}

static void host_bound(Look *l)
{
    int bound = 0, turns = 0;
    for (int i = 0; i < l->b->turns.n; i++) {
        const BenchTurn *t = &l->b->turns.at[i];
        turns += is_of(l, t);
        bound += is_of(l, t) && t->host_bound;
    }
    if (bound)
        warn(l, false,
             "in %d of %d turns the device had to wait for the host: the times are the host's,"
             " not the device's",
             bound, turns);
}

static void short_samples(Look *l)
{
    double least = INFINITY;
    int group = 1;
    for (int i = 0; i < l->b->turns.n; i++) {
        const BenchTurn *t = &l->b->turns.at[i];
        if (!is_of(l, t)) continue;
        double ms = bench_median(l->b->arena, t->ms.at, t->ms.n) * t->group;
        if (ms < least) least = ms, group = t->group;
    }
    if (l->s.min <= 0)
        warn(l, true, "a sample took no time at all");
    else if (least < SHORTEST_MARKS * MARK_MS)
        warn(l, false, "a sample of %d launch%s lasts %.2f us, and the clock of the marks steps by"
                       " %.1f us: put more launches into a sample", group, group == 1 ? "" : "es",
             least * 1e3, MARK_MS * 1e3);
}

static void hot(Look *l)
{
    enum { HEAT = RT_REASON_HEAT | RT_REASON_HEAT_HW };
    double warmest = l->b->cool;
    int heat = 0, readings = 0;
    for (int i = 0; i < l->b->turns.n; i++) {
        const BenchTurn *t = &l->b->turns.at[i];
        if (!is_of(l, t)) continue;
        if (l->b->cool > 0 && t->before.celsius > warmest) warmest = t->before.celsius;
        readings += t->during.n;
        for (int k = 0; k < t->during.n; k++) heat += (t->during.at[k].reasons & HEAT) != 0;
    }
    if (warmest > l->b->cool)
        warn(l, false, "a turn began at %.0f C, and at most %.0f C was asked for", warmest,
             l->b->cool);
    if (heat)
        warn(l, false, "the card limited its clock by heat in %d of %d readings", heat, readings);
}

// ---- of neighbours ------------------------------------------------------------------------------

static double speed(const Bench *b, const Look *l)
{
    double work = b->sizes.at[l->size].work;
    return work > 0 ? work / l->s.median : NAN;
}

// Off by more than FAR_OFF against both, in the same direction.
static bool is_far_off(double x, double p, double q)
{
    return (x > FAR_OFF * p && x > FAR_OFF * q) || (x * FAR_OFF < p && x * FAR_OFF < q);
}

// The figures of one implementation in one regime, in order of work.
static void far_off(Look *row, int n)
{
    for (int i = 0; i < n && n > 2; i++) {
        double x = speed(row->b, &row[i]), p, q;
        bool off;
        if (i > 0 && i < n - 1) {
            p = speed(row->b, &row[i - 1]), q = speed(row->b, &row[i + 1]);
            off = is_far_off(x, p, q);
        } else {
            // At an end both neighbours lie on one side. The smallest job may be as slow as it
            // likes: it does not fill the device.
            int step = i ? -1 : 1;
            p = speed(row->b, &row[i + step]), q = speed(row->b, &row[i + 2 * step]);
            off = is_far_off(x, p, q) && (i || x > p);
        }
        if (off)
            warn(&row[i], true, "%s is out of line: %s times the speed of the one neighbour, %s"
                                " times that of the other",
                 bench_time_unit(row->b, row[i].s.median), bench_figure(row->b->arena, x / p, 2),
                 bench_figure(row->b->arena, x / q, 2));
    }
}

// Every round of the larger job was faster than every round of the smaller one.
static void not_monotone(Look *row, int n)
{
    Look *small = NULL;
    for (Look *l = row; l < row + n; l++) {
        if (bench_refused(l->b, l->impl, l->size, (BenchRegime)l->regime)) continue;
        const BenchSize *size = l->b->sizes.at;
        if (small && size[l->size].work >= LARGER * size[small->size].work &&
            l->s.high < small->s.low) {
            const char *text =
                arena_printf(l->b->arena,
                             "%s takes %s and the smaller %s takes %s: one"
                             " of the two is wrong",
                             size[l->size].label, bench_time_unit(l->b, l->s.median),
                             size[small->size].label, bench_time_unit(l->b, small->s.median));
            warn(small, true, "%s", text);
            warn(l, true, "%s", text);
        }
        small = l;
    }
}

static int by_work(const void *pa, const void *pb)
{
    const Look *a = pa, *b = pb;
    double x = a->b->sizes.at[a->size].work, y = b->b->sizes.at[b->size].work;
    return x != y ? (x > y) - (x < y) : a->size - b->size;
}

static void neighbours(Look *record)
{
    Bench *b = record->b;
    Look *row = ARENA_ARRAY(b->arena, Look, b->sizes.n);
    for (int regime = 0; regime < BENCH_REGIMES; regime++)
        for (int impl = 0; impl < b->impls.n; impl++) {
            int n = 0;
            for (int size = 0; size < b->sizes.n; size++) {
                Look l = {b, record->kind, impl, size, regime,
                          bench_summary(b, impl, size, (BenchRegime)regime)};
                if (l.s.samples && !bench_refused(b, impl, size, (BenchRegime)regime)) row[n++] = l;
            }
            if (n) qsort(row, (size_t)n, sizeof *row, by_work);
            far_off(row, n);
            not_monotone(row, n);
        }
}

// ---- of the whole record ------------------------------------------------------------------------

static void not_cold(Look *l)
{
    const char *why = bench_not_cold(l->b);
    if (why)
        warn(l, false, "a cold cache was asked for, and it was warm or may have been: %s", why);
}

static void no_meter(Look *l)
{
    bool clocks = false, any = false;
    for (int i = 0; i < l->b->turns.n; i++) {
        const BenchTurn *t = &l->b->turns.at[i];
        any |= t->ms.n > 0;
        for (int k = 0; k < t->during.n; k++) clocks |= !isnan(t->during.at[k].sm_mhz);
        clocks |= !isnan(t->before.sm_mhz) || !isnan(t->after.sm_mhz);
    }
    if (l->b->machine.no_meter)
        warn(l, false, "clocks, power, temperature and limits are not, or not all, known: %s",
             l->b->machine.no_meter);
    else if (any && !clocks)
        warn(l, false, "no clock was ever read");
}

// The figure with the fewest rounds speaks for all.
static void few_rounds(Look *l)
{
    const Bench *b = l->b;
    i64 fewest = FEWEST_ROUNDS;
    for (int regime = 0; regime < BENCH_REGIMES; regime++)
        for (int impl = 0; impl < b->impls.n; impl++)
            for (int size = 0; size < b->sizes.n; size++) {
                BenchSummary s = bench_summary(b, impl, size, (BenchRegime)regime);
                if (s.samples) fewest = MIN(fewest, s.rounds);
            }
    if (fewest < FEWEST_ROUNDS)
        warn(l, false, "there are figures of %lld round%s: too few for a spread", (long long)fewest,
             fewest == 1 ? "" : "s");
}

static void disagree(Look *l)
{
    for (int i = 0; i < l->b->cases.n; i++) {
        const BenchCase *c = &l->b->cases.at[i];
        double ratio = c->event_ms / c->graph_ms;
        if (!(ratio > 1 + METHODS_APART || ratio < 1 / (1 + METHODS_APART))) continue;
        Look of = {l->b, l->kind, c->impl, c->size, -1, {0}};
        warn(&of, false,
             "a launch takes %s between events and %s in a graph, %s apart: the difference"
             " is the method's",
             bench_time_unit(l->b, c->event_ms), bench_time_unit(l->b, c->graph_ms),
             bench_percent(l->b->arena, MAX(ratio, 1 / ratio) - 1));
    }
}

// ---- the table ----------------------------------------------------------------------------------

enum { OF_FIGURE, OF_RECORD };
//    kind                name             of       function       rule
#define GUARDS(X)                                                                                  \
    X(BENCH_UNCHECKED, "unchecked", FIGURE, unchecked,                                             \
      "A figure of an implementation that was not found right, with a finite result, for the same" \
      " inputs is refused.")                                                                       \
    X(BENCH_SHORT, "short", FIGURE, short_samples,                                                 \
      "A sample is shorter than 20 steps of the clock of the marks, which steps by 0.5 us; one"    \
      " that took no time is refused.")                                                            \
    X(BENCH_IMPOSSIBLE, "impossible", FIGURE, impossible,                                          \
      "A figure above the dense peak of the device is refused; one more than 2% above the rate of" \
      " products alone, or, with inputs and outputs of more than twice the level-2 cache, of"      \
      " copying memory, both measured in the same run, is doubtful.")                              \
    X(BENCH_NOT_MONOTONE, "not monotone", RECORD, neighbours,                                      \
      "A speed more than 3 times off against both neighbours in size is refused; so are two jobs"  \
      " of which the one with a quarter more work, or more, takes less time in all rounds.")       \
    X(BENCH_THROTTLED, "throttled", FIGURE, throttled,                                             \
      "The first and the last tenth of the samples of a turn differ by more than 3%.")             \
    X(BENCH_DRIFT, "drift", FIGURE, drift,                                                         \
      "The yardstick's medians of its first and last round differ by more than 3%.")               \
    X(BENCH_HOST_BOUND, "host bound", FIGURE, host_bound,                                          \
      "The host was not ahead of the device while samples were taken.")                            \
    X(BENCH_HOT, "hot", FIGURE, hot,                                                               \
      "A turn began warmer than was asked for, or the card limited its clock by heat.")            \
    X(BENCH_DISAGREE, "methods disagree", RECORD, disagree,                                        \
      "Between events and in a graph one launch takes times more than 10% apart.")                 \
    X(BENCH_NOT_COLD, "not cold", RECORD, not_cold,                                                \
      "A cold cache was asked for, and a graph was replayed, a sample had several launches, or"    \
      " less than twice the level-2 cache was overwritten before a launch.")                       \
    X(BENCH_NO_METER, "no meter", RECORD, no_meter,                                                \
      "The management library said nothing of clocks, power or temperature.")                      \
    X(BENCH_FEW_ROUNDS, "few rounds", RECORD, few_rounds,                                          \
      "A figure has fewer than three rounds.")

#define X(kind, name, of, function, rule) [kind] = name,
const char *const bench_warning_name[BENCH_WARNINGS] = {GUARDS(X)};
#undef X
#define X(kind, name, of, function, rule) [kind] = rule,
const char *const bench_warning_rule[BENCH_WARNINGS] = {GUARDS(X)};
#undef X

static const struct {
    BenchWarningKind kind;
    bool record;
    void (*look)(Look *l);
} guards[] = {
#define X(kind, name, of, function, rule) {kind, OF_##of == OF_RECORD, function},
    GUARDS(X)
#undef X
};
_Static_assert(COUNT(guards) == BENCH_WARNINGS, "a guard for each kind of warning");

// A figure that is refused already needs no more.
static void each_figure(Bench *b, BenchWarningKind kind, void (*look)(Look *l))
{
    for (int regime = 0; regime < BENCH_REGIMES; regime++)
        for (int size = 0; size < b->sizes.n; size++)
            for (int impl = 0; impl < b->impls.n; impl++) {
                Look l = {b, kind, impl, size, regime,
                          bench_summary(b, impl, size, (BenchRegime)regime)};
                if (l.s.samples && !bench_refused(b, impl, size, (BenchRegime)regime)) look(&l);
            }
}

void bench_warn(Bench *b)
{
    b->warnings.n = 0;
    for (int i = 0; i < COUNT(guards); i++) {
        if (guards[i].record)
            guards[i].look(&(Look){b, guards[i].kind, -1, -1, -1, {0}});
        else
            each_figure(b, guards[i].kind, guards[i].look);
    }
}
