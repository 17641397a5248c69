// markdown.c - summary.md, and what the terminal gets: the same tables, words and warnings.
#include "table.h"

#include <math.h>
#include <string.h>

static void put_title(const Bench *b, Buf *out)
{
    buf_printf(out, "%s%s\n", b->incomplete ? "INCOMPLETE: " : "", b->title);
}

static void put_warnings(const Bench *b, const char *item, const char *text_end, Buf *out)
{
    for (int i = 0; i < b->warnings.n; i++) {
        const BenchWarning *w = &b->warnings.at[i];
        const char *where = bench_where(b, w->impl, w->size, w->regime);
        buf_printf(out, "%s%s%s%s%s%s: %s%s\n", item, bench_warning_name[w->kind],
                   w->refused ? " (refused)" : "", *where ? " (" : "", where, *where ? ")" : "",
                   w->text, text_end);
    }
}

// ---- the terminal -------------------------------------------------------------------------------

void bench_text(const Bench *b, Buf *out)
{
    put_title(b, out);
    if (b->incomplete) buf_printf(out, "  stopped early: %s\n", b->incomplete);
    for (int regime = 0; regime < BENCH_REGIMES; regime++) {
        if (!bench_has(b, (BenchRegime)regime)) continue;
        buf_printf(out, "\n%s\n", bench_regime_words(b, (BenchRegime)regime));
        bench_table_text(bench_figures(b, (BenchRegime)regime, true), out);
    }
    if (b->warnings.n) buf_puts(out, "\n");
    put_warnings(b, "warning: ", "", out);
}

// The cases in order of size and implementation: case i of at most sizes x implementations; NULL:
// none.
static const BenchCase *case_at(const Bench *b, int i)
{
    return bench_case(b, i % b->impls.n, i / b->impls.n);
}

// ---- summary.md: a section each -----------------------------------------------------------------

static void put_regimes(const Bench *b, Buf *out)
{
    for (int regime = 0; regime < BENCH_REGIMES; regime++) {
        if (!bench_has(b, (BenchRegime)regime)) continue;
        const char *words = bench_regime_words(b, (BenchRegime)regime);
        buf_printf(out, "\n## %c%s\n\n", words[0] - 'a' + 'A', words + 1);
        bench_table_markdown(bench_figures(b, (BenchRegime)regime, false), out);
    }
    if (b->yardstick >= 0)
        buf_printf(out,
                   "\nTimes are medians of all samples in %s. Ratio: time of %s over time of the"
                   " implementation, in brackets the least and the largest ratio within a round.",
                   b->unit_of_small, b->impls.at[b->yardstick].label);
    else
        buf_printf(out, "\nTimes are medians of all samples in %s.", b->unit_of_small);
    buf_printf(out,
               " \"All samples\" goes from the least to the largest. TFLOPS: %s. GB/s: inputs and"
               " outputs, each once. %s\n",
               b->formula, bench_ceiling_words(b));
    buf_puts(out,
             "MHz and C (SM clock, temperature) are medians of the readings during the samples;"
             " a limit of the clock stands where it held in more than half of them; joules are the"
             " energy counter's.\n");
}

static const char *compared(const Bench *b, const BenchCase *c)
{
    if (c->elements < 0 || c->checked < 0 || c->state == BENCH_NOT_TRIED) return "";
    if (c->checked == c->elements)
        return arena_printf(b->arena, "all %s", bench_count(b->arena, c->elements));
    const char *part = arena_printf(b->arena, "%s of %s", bench_count(b->arena, c->checked),
                                    bench_count(b->arena, c->elements));
    if (c->rows_checked < 0 || c->rows < 0 || c->rows_checked == c->rows) return part;
    return arena_printf(b->arena, "%s, in %s of %s rows", part,
                        bench_count(b->arena, c->rows_checked), bench_count(b->arena, c->rows));
}

static const char *allowed(const Bench *b, const BenchCase *c)
{
    if (isnan(c->allowed_abs) || c->state == BENCH_NOT_TRIED) return "";
    return arena_printf(b->arena, "%g + %g x reference", c->allowed_abs, c->allowed_rel);
}

static void put_correctness(const Bench *b, Buf *out)
{
    static const char *const titles[] = {"<size", "<implementation", "<result", "elements compared",
                                         "wrong", "worst error", "allowed", "<reference",
                                         "<not degraded, since"};
    BenchTable *t = bench_table(b->arena, titles, COUNT(titles));
    for (int i = 0; i < b->sizes.n * b->impls.n; i++) {
        const BenchCase *c = case_at(b, i);
        if (!c) continue;
        bench_table_add(t, b->sizes.at[c->size].label);
        bench_table_add(t, b->impls.at[c->impl].label);
        bench_table_add(
            t, *c->why ? arena_printf(b->arena, "%s: %s", bench_state_name[c->state], c->why)
                       : bench_state_name[c->state]);
        bench_table_add(t, compared(b, c));
        bench_table_add(t, bench_count(b->arena, c->wrong));
        bench_table_add(t, isnan(c->worst) ? "" : arena_printf(b->arena, "%.3g", c->worst));
        bench_table_add(t, allowed(b, c));
        bench_table_add(t, c->reference);
        bench_table_add(t, c->proof);
    }
    if (!b->cases.n) return;
    buf_printf(out, "\n## Correctness, before anything was timed\n\nInputs: %s, seed %llu.\n\n",
               b->inputs, (unsigned long long)b->seed);
    bench_table_markdown(t, out);
}

// Milliseconds whatever the unit of the launches: these are long.
static void put_first_calls(const Bench *b, Buf *out)
{
    static const char *const titles[] = {"<size",         "<implementation", "compile, ms",
                                         "convert, ms",   "first call, ms",  "later calls, ms",
                                         "first / later"};
    BenchTable *t = bench_table(b->arena, titles, COUNT(titles));
    for (int i = 0; i < b->sizes.n * b->impls.n; i++) {
        const BenchCase *c = case_at(b, i);
        if (!c || (isnan(c->first_ms) && isnan(c->compile_ms) && isnan(c->convert_ms))) continue;
        double later = NAN;
        for (int regime = 0; regime < BENCH_REGIMES; regime++)
            if (isnan(later) && !bench_refused(b, c->impl, c->size, (BenchRegime)regime))
                later = bench_summary(b, c->impl, c->size, (BenchRegime)regime).median;
        bench_table_add(t, b->sizes.at[c->size].label);
        bench_table_add(t, b->impls.at[c->impl].label);
        bench_table_add(t, bench_figure(b->arena, c->compile_ms, 4));
        bench_table_add(t, bench_figure(b->arena, c->convert_ms, 4));
        bench_table_add(t, bench_figure(b->arena, c->first_ms, 4));
        bench_table_add(t, bench_figure(b->arena, later, 4));
        bench_table_add(t, bench_figure(b->arena, c->first_ms / later, 3));
    }
    if (!t->cells.n) return;
    buf_puts(out, "\n## First calls, which are in none of the times above\n\n");
    bench_table_markdown(t, out);
}

static void put_methods(const Bench *b, Buf *out)
{
    const char *titles[] = {"<size", "<implementation", NULL, NULL};
    titles[2] = arena_printf(b->arena, "between events, %s", b->unit_of_small);
    titles[3] = arena_printf(b->arena, "in a graph, %s", b->unit_of_small);
    BenchTable *t = bench_table(b->arena, titles, COUNT(titles));
    for (int i = 0; i < b->sizes.n * b->impls.n; i++) {
        const BenchCase *c = case_at(b, i);
        if (!c || isnan(c->event_ms) || isnan(c->graph_ms)) continue;
        bench_table_add(t, b->sizes.at[c->size].label);
        bench_table_add(t, b->impls.at[c->impl].label);
        bench_table_add(t, bench_time(b, c->event_ms));
        bench_table_add(t, bench_time(b, c->graph_ms));
    }
    if (!t->cells.n) return;
    buf_puts(out, "\n## One launch by both methods\n\n");
    bench_table_markdown(t, out);
}

static void put_cache(const Bench *b, Buf *out)
{
    if (!b->sizes.n) return;
    buf_puts(out, "\n## Level-2 cache\n\n");
    for (int i = 0; i < b->sizes.n; i++)
        buf_printf(out, "- %s: %s.\n", b->sizes.at[i].label, bench_cache_words(b, i));
}

static void put_versions(const Bench *b, Buf *out)
{
    buf_puts(out, "\n## Versions and hashes\n\n");
    for (int i = 0; i < b->versions.n; i++)
        buf_printf(out, "- %s %s\n", b->versions.at[i].name, b->versions.at[i].version);
    buf_printf(out, "- made by `%s`, started %s, took %.0f s\n\n", b->command, b->started,
               b->seconds);
    static const char *const titles[] = {"<implementation", "<name", "<file", "<options",
                                         "<SHA-256 of the file", "<of the generated code"};
    BenchTable *t = bench_table(b->arena, titles, COUNT(titles));
    for (int i = 0; i < b->impls.n; i++) {
        const BenchImpl *m = &b->impls.at[i];
        bench_table_add(t, m->label);
        bench_table_add(t, m->name);
        bench_table_add(t, m->file);
        bench_table_add(t, m->options);
        bench_table_add(t, m->source_sha256);
        bench_table_add(t, m->code_sha256);
    }
    bench_table_markdown(t, out);
}

void bench_markdown(const Bench *b, Buf *out)
{
    buf_puts(out, "# ");
    put_title(b, out);
    if (b->incomplete)
        buf_printf(out, "\n**Stopped early: %s.** What was measured until then follows.\n",
                   b->incomplete);
    buf_printf(out, "\n%s.\n\n%s\n", bench_machine_words(b), bench_protocol_words(b));
    put_regimes(b, out);
    buf_puts(out, "\n## Warnings\n\n");
    put_warnings(b, "- ", ".", out);
    if (!b->warnings.n) buf_puts(out, "None.\n");
    put_correctness(b, out);
    put_first_calls(b, out);
    put_methods(b, out);
    put_cache(b, out);
    put_versions(b, out);
}
