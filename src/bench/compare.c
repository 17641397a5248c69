// compare.c - two measurements of the same operation, side by side. A change counts when it is
// larger than what the rounds of the two scatter by themselves. On different devices times do not
// compare; what does, within limits, is each one's ratio to the yardstick that ran beside it.
#include "table.h"

#include <math.h>
#include <string.h>

typedef struct {
    const Bench *a, *b;
    bool ratios;  // compare ratios to the yardstick instead of times
    int slower, faster, within, open;
    Arena *arena; // of b
} Comparison;

// ---- what differs around the figures ------------------------------------------------------------

static void put_difference(Buf *out, const char *what, const char *a, const char *b)
{
    a = a ? a : "", b = b ? b : "";
    if (strcmp(a, b) == 0) return;
    buf_printf(out, "  %s: %s -> %s\n", what, *a ? a : "(none)", *b ? b : "(none)");
}

static const char *number(Arena *a, double x)
{
    return isnan(x) ? "" : arena_printf(a, "%.10g", x);
}

// Facts of the two records that are compared as texts; y is either.
#define PROTOCOL(X)                                                                              \
    X("inputs", y->inputs)                                                                       \
    X("seed", arena_printf(arena, "%llu", (unsigned long long)y->seed))                          \
    X("method", y->method == BENCH_GRAPH ? "graph" : "event")                                    \
    X("cache", y->cache == BENCH_COLD ? "cold" : "warm")                                         \
    X("bytes overwritten", arena_printf(arena, "%lld", (long long)y->cold_bytes))                \
    X("warm-up", arena_printf(arena, "%d", y->warmup))                                           \
    X("samples", arena_printf(arena, "%d", y->repeat))                                           \
    X("rounds", arena_printf(arena, "%d", y->rounds))                                            \
    X("cool, C", number(arena, y->cool))                                                         \
    X("load, s", number(arena, y->load_s))                                                       \
    X("idle, s", number(arena, y->idle_s))                                                       \
    X("yardstick", y->yardstick < 0 ? "" : y->impls.at[y->yardstick].name)                       \
    X("incomplete", y->incomplete)
#define MACHINE(X)                                                                               \
    X("device", y->machine.name)                                                                 \
    X("its id", y->machine.uuid)                                                                 \
    X("SMs", arena_printf(arena, "%d", y->machine.sms))                                          \
    X("driver", y->machine.driver)                                                               \
    X("CUDA of the driver", y->machine.cuda)                                                     \
    X("power limit, W", number(arena, y->machine.power_limit))                                   \
    X("host", y->machine.host)
#define FACT(name, value)                                 \
    y = c->a;                                             \
    before = value;                                       \
    y = c->b;                                             \
    put_difference(out, name, before, value);

static const char *version_of(const Bench *y, const char *name)
{
    for (int i = 0; i < y->versions.n; i++)
        if (strcmp(y->versions.at[i].name, name) == 0) return y->versions.at[i].version;
    return NULL;
}

static void put_versions(const Comparison *c, Buf *out)
{
    for (int i = 0; i < c->a->versions.n; i++) {
        const BenchVersion *v = &c->a->versions.at[i];
        put_difference(out, v->name, v->version, version_of(c->b, v->name));
    }
    for (int i = 0; i < c->b->versions.n; i++) {
        const BenchVersion *v = &c->b->versions.at[i];
        if (!version_of(c->a, v->name)) put_difference(out, v->name, NULL, v->version);
    }
}

static int impl_of(const Bench *y, const char *name)
{
    for (int i = 0; i < y->impls.n; i++)
        if (strcmp(y->impls.at[i].name, name) == 0) return i;
    return -1;
}

static int size_of(const Bench *y, const char *text)
{
    for (int i = 0; i < y->sizes.n; i++)
        if (strcmp(y->sizes.at[i].text, text) == 0) return i;
    return -1;
}

static const char *hash_words(Arena *a, const char *hash)
{
    return *hash ? arena_printf(a, "%.12s", hash) : "";
}

static void put_impls(const Comparison *c, Buf *out)
{
    Arena *a = c->arena;
    for (int i = 0; i < c->b->impls.n; i++) {
        const BenchImpl *n = &c->b->impls.at[i];
        int old = impl_of(c->a, n->name);
        if (old < 0) {
            buf_printf(out, "  %s: only in the second\n", n->name);
            continue;
        }
        const BenchImpl *o = &c->a->impls.at[old];
        put_difference(out, arena_printf(a, "%s, label", n->name), o->label, n->label);
        put_difference(out, arena_printf(a, "%s, file", n->name), o->file, n->file);
        put_difference(out, arena_printf(a, "%s, options", n->name), o->options, n->options);
        put_difference(out, arena_printf(a, "%s, SHA-256 of the file", n->name),
                       hash_words(a, o->source_sha256), hash_words(a, n->source_sha256));
        put_difference(out, arena_printf(a, "%s, SHA-256 of the generated code", n->name),
                       hash_words(a, o->code_sha256), hash_words(a, n->code_sha256));
    }
    for (int i = 0; i < c->a->impls.n; i++)
        if (impl_of(c->b, c->a->impls.at[i].name) < 0)
            buf_printf(out, "  %s: only in the first\n", c->a->impls.at[i].name);
}

static void put_differences(const Comparison *c, Buf *out)
{
    Arena *arena = c->arena;
    const Bench *y;
    const char *before;
    buf_puts(out, "\nwhat else differs\n");
    size_t from = out->n;
    MACHINE(FACT)
    PROTOCOL(FACT)
    put_versions(c, out);
    put_impls(c, out);
    if (out->n == from) buf_puts(out, "  nothing\n");
}

// ---- the figures --------------------------------------------------------------------------------

// A figure and the extremes of its rounds.
typedef struct {
    double median, low, high;
    i64 rounds;
} Spread;

static Spread spread_of(const BenchSummary *s, bool ratios)
{
    if (ratios) return (Spread){s->ratio, s->ratio_low, s->ratio_high, s->rounds};
    return (Spread){s->median, s->low, s->high, s->rounds};
}

static double scatter(const Spread *s) { return (s->high - s->low) / s->median; }

static const char *spread_words(const Comparison *c, const Spread *s)
{
    if (c->ratios) return arena_printf(c->arena, "%.3f", s->median);
    return bench_time(c->b, s->median);
}

// Counts, and says, what the change of one figure is.
static const char *verdict(Comparison *c, const Spread *o, const Spread *n)
{
    double change = n->median / o->median - 1;
    if (o->rounds < 2 || n->rounds < 2 || isnan(change)) {
        c->open++;
        return "open: too few rounds for a spread";
    }
    if (fabs(change) <= scatter(o) + scatter(n)) {
        c->within++;
        return "within the spread";
    }
    // More of the yardstick's time for one of its own is faster.
    bool faster = c->ratios ? change > 0 : change < 0;
    *(faster ? &c->faster : &c->slower) += 1;
    return faster ? "faster" : "slower";
}

static void add_row(Comparison *c, BenchTable *t, int size, int impl, BenchRegime regime)
{
    const Bench *a = c->a, *b = c->b;
    int old_size = size_of(a, b->sizes.at[size].text),
        old_impl = impl_of(a, b->impls.at[impl].name);
    if (old_size < 0 || old_impl < 0) return;
    BenchSummary o = bench_summary(a, old_impl, old_size, regime);
    BenchSummary n = bench_summary(b, impl, size, regime);
    if (!o.samples || !n.samples) return;
    // A ratio of the yardstick to itself says nothing.
    if (c->ratios && impl == b->yardstick) return;
    bench_table_add(t, b->sizes.at[size].label);
    bench_table_add(t, b->impls.at[impl].name);
    bool refused_old = bench_refused(a, old_impl, old_size, regime) != NULL;
    if (refused_old || bench_refused(b, impl, size, regime)) {
        for (int i = 0; i < 5; i++) bench_table_add(t, "");
        bench_table_add(t, refused_old ? "refused in the first" : "refused in the second");
        c->open++;
        return;
    }
    Spread so = spread_of(&o, c->ratios), sn = spread_of(&n, c->ratios);
    bench_table_add(t, spread_words(c, &so));
    bench_table_add(t, spread_words(c, &sn));
    bench_table_add(t, bench_signed_percent(c->arena, sn.median / so.median - 1));
    bench_table_add(t, so.rounds < 2 ? "" : bench_percent(c->arena, scatter(&so)));
    bench_table_add(t, sn.rounds < 2 ? "" : bench_percent(c->arena, scatter(&sn)));
    bench_table_add(t, verdict(c, &so, &sn));
}

static void put_regime(Comparison *c, BenchRegime regime, Buf *out)
{
    const char *titles[] = {"<size",  "<implementation", NULL,      NULL,
                            "change", "spread before",   "spread after", "<verdict"};
    const char *of = c->ratios ? "ratio" : c->b->unit_of_small;
    titles[2] = arena_printf(c->arena, "%s before", of);
    titles[3] = arena_printf(c->arena, "%s after", of);
    BenchTable *t = bench_table(c->arena, titles, COUNT(titles));
    for (int size = 0; size < c->b->sizes.n; size++)
        for (int impl = 0; impl < c->b->impls.n; impl++) add_row(c, t, size, impl, regime);
    if (!t->cells.n) return;
    buf_printf(out, "\n%s\n", bench_regime_words(c->b, regime));
    bench_table_text(t, out);
}

// Not known is not different.
static bool differ(const char *a, const char *b) { return *a && *b && strcmp(a, b) != 0; }

// Why times of the two do not compare; NULL: they do.
static const char *other_device(const Bench *a, const Bench *b)
{
    if (differ(a->machine.name, b->machine.name)) return "the devices are different models";
    if (differ(a->machine.uuid, b->machine.uuid)) return "the devices are two cards of a model";
    if (differ(a->machine.driver, b->machine.driver)) return "the drivers are different";
    return NULL;
}

static bool same_yardstick(const Bench *a, const Bench *b)
{
    return a->yardstick >= 0 && b->yardstick >= 0 &&
           strcmp(a->impls.at[a->yardstick].name, b->impls.at[b->yardstick].name) == 0;
}

static void put_figures(Comparison *c, Buf *out)
{
    const char *why = other_device(c->a, c->b);
    if (why) {
        buf_printf(out, "absolute numbers do not compare: %s\n", why);
        if (!same_yardstick(c->a, c->b)) {
            buf_puts(out, "and there is no common yardstick, so nothing is compared\n");
            return;
        }
        buf_printf(out, "compared are ratios to %s: its time over the time of the implementation\n",
                   c->b->impls.at[c->b->yardstick].name);
        c->ratios = true;
    }
    for (int regime = 0; regime < BENCH_REGIMES; regime++) put_regime(c, (BenchRegime)regime, out);
    buf_printf(out, "\n%d slower, %d faster, %d within the spread", c->slower, c->faster,
               c->within);
    if (c->open) buf_printf(out, ", %d open", c->open);
    buf_puts(out,
             " (a change counts when it is larger than both spreads together; a spread goes from"
             " the least to the largest round)\n");
}

int bench_compare(const Bench *a, const Bench *b, Buf *out)
{
    Comparison c = {.a = a, .b = b, .arena = b->arena};
    buf_printf(out, "before: %s%s, %s\n", a->incomplete ? "INCOMPLETE: " : "", a->title,
               a->started);
    buf_printf(out, "after:  %s%s, %s\n", b->incomplete ? "INCOMPLETE: " : "", b->title,
               b->started);
    if (strcmp(a->op, b->op) != 0 || a->causal != b->causal) {
        buf_puts(out, "the two are of different operations: nothing is compared\n");
        return 0;
    }
    if (a->method != b->method || a->cache != b->cache)
        buf_puts(out,
                 "method or cache differ, so times may differ without any change of the code\n");
    put_figures(&c, out);
    put_differences(&c, out);
    return c.slower;
}
