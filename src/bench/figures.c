// figures.c - the figures of one implementation at one size as cells of a table, and as a line of
// summary.csv. A refused figure has no cells: its samples are in results.json.
#include "table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const Bench *b;
    int impl, size;
    BenchRegime regime;
    BenchSummary s;
    const BenchCase *check;      // NULL: none
    const BenchWarning *refused; // NULL: the figure stands
} Cell;

static Cell cell_of(const Bench *b, int impl, int size, BenchRegime regime)
{
    return (Cell){b, impl, size, regime, bench_summary(b, impl, size, regime),
                  bench_case(b, impl, size), bench_refused(b, impl, size, regime)};
}

static const char *rated(const Cell *c, double of, int digits)
{
    return bench_figure(c->b->arena, of, digits);
}

static const char *share(const Cell *c, double of)
{
    return bench_percent(c->b->arena, c->s.tflops / of);
}

static const char *ratio(const Cell *c)
{
    if (isnan(c->s.ratio)) return "";
    if (c->impl == c->b->yardstick || c->s.rounds < 2)
        return arena_printf(c->b->arena, "%.2f", c->s.ratio);
    return arena_printf(c->b->arena, "%.2f (%.2f to %.2f)", c->s.ratio, c->s.ratio_low,
                        c->s.ratio_high);
}

static const char *limits(const Cell *c)
{
    bool known = false;
    for (int i = 0; i < c->b->turns.n; i++) {
        const BenchTurn *t = &c->b->turns.at[i];
        if (t->impl != c->impl || t->size != c->size || t->regime != c->regime) continue;
        for (int k = 0; k < t->during.n; k++) known |= t->during.at[k].has_reasons;
    }
    return known ? rt_meter_reasons(c->b->arena, c->s.limits) : "";
}

static const char *span(const Cell *c, double from, double to)
{
    return arena_printf(c->b->arena, "%s to %s", bench_time(c->b, from), bench_time(c->b, to));
}

// Where a column stands.
enum { TERMINAL = 1, MARKDOWN = 2, BOTH = 3, BYTES = 4 }; // BYTES: on a terminal without TFLOPS

// The columns of figures: title, places, the cell (c is a Cell).
//    title              where     cell
#define FIGURES(X)                                                                             \
    X("%s",              BOTH,     bench_time(c->b, c->s.median))                              \
    X("TFLOPS",          BOTH,     rated(c, c->s.tflops, 3))                                   \
    X("of peak",         BOTH,     share(c, bench_peak_tflops(c->b)))                \
    X("of measured peak", MARKDOWN, share(c, bench_ceiling_tflops(c->b)))                    \
    X("GB/s",            MARKDOWN | BYTES, rated(c, c->s.tbs * 1e3, 4))                        \
    X("ratio (rounds)",  BOTH,     ratio(c))                                                   \
    X("medians of rounds", MARKDOWN, span(c, c->s.low, c->s.high))                             \
    X("all samples",     BOTH,     span(c, c->s.min, c->s.max))                                \
    X("J a launch",      MARKDOWN, rated(c, c->s.joules, 3))                                   \
    X("J",               TERMINAL, rated(c, c->s.joules, 3))                                   \
    X("TFLOPS/W",        MARKDOWN, rated(c, c->s.tflops_per_watt, 3))                          \
    X("W",               MARKDOWN, rated(c, c->s.watts, 3))                                    \
    X("MHz",             BOTH,     rated(c, c->s.sm_mhz, 4))                                   \
    X("C",               BOTH,     rated(c, c->s.celsius, 2))                                  \
    X("<limit",          BOTH,     limits(c))

// In the first cell of a refused figure stands that it is; the reason is among the warnings.
static void add_figures(BenchTable *t, const Cell *c, int place)
{
    const char *refused = "refused";
#define X(title, where, cell)                                    \
    if ((where) & place) {                                       \
        bench_table_add(t, c->refused ? refused : (cell));       \
        refused = "";                                            \
    }
    FIGURES(X)
#undef X
}

BenchTable *bench_figures(const Bench *b, BenchRegime regime, bool terminal)
{
    bool flops = false;
    for (int i = 0; i < b->sizes.n; i++) flops |= b->sizes.at[i].flops > 0;
    int place = !terminal ? MARKDOWN : flops ? TERMINAL : TERMINAL | BYTES;
    VEC(const char *) titles = {0};
    vec_push(b->arena, &titles, "<size");
    vec_push(b->arena, &titles, "<implementation");
#define X(title, where, cell) \
    if ((where) & place) vec_push(b->arena, &titles, title);
    FIGURES(X)
#undef X
    for (int i = 0; i < titles.n; i++)
        if (strcmp(titles.at[i], "%s") == 0) titles.at[i] = b->unit_of_small;
    BenchTable *t = bench_table(b->arena, titles.at, titles.n);
    for (int size = 0; size < b->sizes.n; size++) {
        for (int impl = 0; impl < b->impls.n; impl++) {
            Cell c = cell_of(b, impl, size, regime);
            if (!c.s.samples) continue;
            const char *name = terminal ? b->impls.at[impl].name : b->impls.at[impl].label;
            bench_table_add(t, b->sizes.at[size].label);
            bench_table_add(t, name);
            add_figures(t, &c, place);
        }
    }
    return t;
}

// ---- summary.csv --------------------------------------------------------------------------------

// Quoted where the text needs it, as RFC 4180 has it.
static void put_csv_text(Buf *out, const char *s)
{
    if (!s[strcspn(s, ",\"\r\n")]) {
        buf_puts(out, s);
        return;
    }
    buf_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"') buf_putc(out, '"');
        buf_putc(out, *s);
    }
    buf_putc(out, '"');
}

static void put_csv_number(Buf *out, double x)
{
    if (!isnan(x)) buf_printf(out, "%.9g", x);
}

// What is not known of a case that does not exist.
static const BenchCase no_case = {.why = "", .compile_ms = NAN, .convert_ms = NAN, .first_ms = NAN,
                                  .elements = -1, .checked = -1, .wrong = -1, .worst = NAN};

// The columns of summary.csv: name, kind, value. FIGURE: empty when the figure is refused.
#define CSV(X)                                                                                 \
    X("implementation", TEXT, c->b->impls.at[c->impl].name)                                    \
    X("label", TEXT, c->b->impls.at[c->impl].label)                                            \
    X("size", TEXT, c->b->sizes.at[c->size].text)                                              \
    X("regime", TEXT, bench_regime_name[c->regime])                                            \
    X("result", TEXT, bench_state_name[k->state])                                              \
    X("refused", TEXT, c->refused ? c->refused->text : "")                                     \
    X("incomplete", TEXT, c->b->incomplete ? c->b->incomplete : "")                            \
    X("samples", NUMBER, (double)c->s.samples)                                                 \
    X("rounds", NUMBER, (double)c->s.rounds)                                                   \
    X("median_ms", FIGURE, c->s.median)                                                        \
    X("min_ms", FIGURE, c->s.min)                                                              \
    X("max_ms", FIGURE, c->s.max)                                                              \
    X("least_round_median_ms", FIGURE, c->s.low)                                               \
    X("largest_round_median_ms", FIGURE, c->s.high)                                            \
    X("tflops", FIGURE, c->s.tflops)                                                           \
    X("of_peak", FIGURE, c->s.tflops / bench_peak_tflops(c->b))                      \
    X("of_measured_peak", FIGURE, c->s.tflops / bench_ceiling_tflops(c->b))                  \
    X("gb_per_s", FIGURE, c->s.tbs * 1e3)                                                      \
    X("ratio", FIGURE, c->s.ratio)                                                             \
    X("least_round_ratio", FIGURE, c->s.ratio_low)                                             \
    X("largest_round_ratio", FIGURE, c->s.ratio_high)                                          \
    X("joules_per_launch", FIGURE, c->s.joules)                                                \
    X("watts", FIGURE, c->s.watts)                                                             \
    X("tflops_per_watt", FIGURE, c->s.tflops_per_watt)                                         \
    X("sm_mhz", FIGURE, c->s.sm_mhz)                                                           \
    X("celsius", FIGURE, c->s.celsius)                                                         \
    X("limits", TEXT, limits(c))                                                               \
    X("compile_ms", NUMBER, k->compile_ms)                                                     \
    X("convert_ms", NUMBER, k->convert_ms)                                                     \
    X("first_call_ms", NUMBER, k->first_ms)                                                    \
    X("elements", NUMBER, k->elements < 0 ? NAN : (double)k->elements)                         \
    X("elements_compared", NUMBER, k->checked < 0 ? NAN : (double)k->checked)                  \
    X("elements_wrong", NUMBER, k->wrong < 0 ? NAN : (double)k->wrong)                         \
    X("worst_error", NUMBER, k->worst)

static void put_csv_line(const Cell *c, Buf *out)
{
    const BenchCase *k = c->check ? c->check : &no_case;
    const char *comma = "";
#define PUT_TEXT(x) put_csv_text(out, x)
#define PUT_NUMBER(x) put_csv_number(out, x)
#define PUT_FIGURE(x) put_csv_number(out, c->refused ? NAN : (x))
#define X(name, kind, value)  \
    buf_puts(out, comma);     \
    PUT_##kind(value);        \
    comma = ",";
    CSV(X)
#undef X
    buf_putc(out, '\n');
}

void bench_csv(const Bench *b, Buf *out)
{
    const char *comma = "";
#define X(name, kind, value)            \
    buf_printf(out, "%s%s", comma, name); \
    comma = ",";
    CSV(X)
#undef X
    buf_putc(out, '\n');
    for (int regime = 0; regime < BENCH_REGIMES; regime++)
        for (int size = 0; size < b->sizes.n; size++)
            for (int impl = 0; impl < b->impls.n; impl++) {
                Cell c = cell_of(b, impl, size, (BenchRegime)regime);
                if (c.s.samples || c.check) put_csv_line(&c, out);
            }
}
