// words.c - numbers and circumstances in words: what the tables, the warnings and the comparison
// say, each said in one place.
#include "table.h"

#include <math.h>
#include <string.h>

const char *bench_figure(Arena *a, double x, int digits)
{
    if (isnan(x)) return "";
    if (isinf(x)) return "inf";
    int before = x != 0 ? (int)floor(log10(fabs(x))) + 1 : 1;
    int decimals = MIN(MAX(digits - before, 0), 9);
    return arena_printf(a, "%.*f", decimals, x);
}

const char *bench_count(Arena *a, i64 n)
{
    if (n < 0) return "";
    char *digits = arena_printf(a, "%lld", (long long)n);
    size_t len = strlen(digits);
    char *s = arena_alloc(a, len + len / 3 + 1), *to = s;
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    return s;
}

const char *bench_percent(Arena *a, double part)
{
    return isnan(part) ? "" : arena_printf(a, "%.1f%%", part * 100);
}

const char *bench_signed_percent(Arena *a, double part)
{
    return isnan(part) ? "" : arena_printf(a, "%+.1f%%", part * 100);
}

const char *bench_mib(Arena *a, double bytes)
{
    return arena_printf(a, bytes < 10485760 ? "%.2f MiB" : "%.1f MiB", bytes / 1048576);
}

const char *bench_time(const Bench *b, double ms)
{
    bool small = strcmp(b->unit_of_small, "us") == 0;
    return bench_figure(b->arena, small ? ms * 1e3 : ms, 4);
}

const char *bench_time_unit(const Bench *b, double ms)
{
    return arena_printf(b->arena, "%s %s", bench_time(b, ms),
                        strcmp(b->unit_of_small, "us") == 0 ? "us" : "ms");
}

const char *bench_where(const Bench *b, int impl, int size, int regime)
{
    const char *part[3] = {impl < 0 ? NULL : b->impls.at[impl].name,
                           size < 0 ? NULL : b->sizes.at[size].label,
                           regime < 0 ? NULL : bench_regime_name[regime]};
    const char *text = "";
    for (int i = 0; i < 3; i++)
        if (part[i]) text = arena_printf(b->arena, "%s%s%s", text, *text ? ", " : "", part[i]);
    return text;
}

static void item(Buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void item(Buf *out, const char *fmt, ...)
{
    if (out->n) buf_puts(out, ", ");
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(out, fmt, ap);
    va_end(ap);
}

static const char *keep(Arena *a, Buf *text)
{
    const char *s = arena_strndup(a, text->s ? text->s : "", text->n);
    buf_free(text);
    return s;
}

const char *bench_machine_words(const Bench *b)
{
    const BenchMachine *m = &b->machine;
    Buf t = {0};
    item(&t, "%s", m->name);
    if (m->number >= 0) item(&t, "number %d", m->number);
    if (m->sms > 0) item(&t, "%d SMs", m->sms);
    if (m->l2_bytes > 0) item(&t, "level-2 cache %s", bench_mib(b->arena, (double)m->l2_bytes));
    if (!isnan(m->power_limit)) item(&t, "power limit %.0f W", m->power_limit);
    if (!isnan(m->max_sm_mhz)) item(&t, "SM clock up to %.0f MHz", m->max_sm_mhz);
    if (*m->driver) item(&t, "driver %s", m->driver);
    if (*m->cuda) item(&t, "CUDA %s", m->cuda);
    if (*m->host) item(&t, "%s", m->host);
    return keep(b->arena, &t);
}

const char *bench_protocol_words(const Bench *b)
{
    Buf t = {0};
    buf_printf(&t,
               "Each implementation was compared with the reference first, then had a turn in each"
               " of %d round%s%s. ",
               b->rounds, b->rounds == 1 ? "" : "s",
               b->rounds > 1 ? ", in an order that rotates" : "");
    buf_puts(&t, b->method == BENCH_GRAPH
                     ? "A sample is the time of one replay of a graph of launches, divided by their"
                       " number. "
                     : "A sample is the time between two events in the stream around a launch, or"
                       " around several where launches are short, divided by their number. ");
    if (b->cool > 0)
        buf_printf(&t, "Before a turn the GPU was waited for until it was at most %.0f C warm. ",
                   b->cool);
    buf_puts(&t,
             "Compilation, conversion of inputs, first calls and the check are not in the times.");
    return keep(b->arena, &t);
}

const char *bench_regime_words(const Bench *b, BenchRegime regime)
{
    int samples = 0;
    for (int i = 0; i < b->turns.n; i++)
        if (b->turns.at[i].regime == regime) samples = MAX(samples, b->turns.at[i].ms.n);
    if (regime == BENCH_BURST)
        return arena_printf(b->arena,
                            "burst: the first launches after %g s of idleness, %d samples a turn",
                            b->idle_s, samples);
    return arena_printf(b->arena,
                        "sustained: under load, after %g s and at least %d launches of the"
                        " same, %d samples a turn",
                        b->load_s, b->warmup, samples);
}

const char *bench_operands(const Bench *b)
{
    return b->product_rate == 2 ? "8-bit" : b->product_rate == 0.5 ? "32-bit (TF32)" : "16-bit";
}

const char *bench_ceiling_words(const Bench *b)
{
    const BenchMachine *m = &b->machine;
    double peak = bench_peak_tflops(b);
    Buf t = {0};
    if (isnan(peak))
        buf_puts(&t, "The peak of this device is not known. ");
    else
        buf_printf(&t, "Of peak: of %.1f TFLOPS, dense %s products at 1.83 GHz and %.0f"
                       " operations a clock on each of the %d SMs. ",
                   peak, bench_operands(b), 4096 * b->product_rate, m->sms > 0 ? m->sms : 132);
    if (!isnan(m->ceiling_tflops))
        buf_printf(&t, "The largest rate of 16-bit products that was measured on this device in the"
                       " same run: %.0f TFLOPS. ", m->ceiling_tflops);
    if (!isnan(m->ceiling_tbs))
        buf_printf(&t, "Copying device memory in the same run: %.2f TB/s, read and written. ",
                   m->ceiling_tbs);
    if (t.n) t.s[--t.n] = 0;
    return keep(b->arena, &t);
}

const char *bench_not_cold(const Bench *b)
{
    if (b->cache != BENCH_COLD) return NULL;
    double l2 = (double)b->machine.l2_bytes;
    if (b->method == BENCH_GRAPH)
        return "the launches of a graph follow each other with nothing overwritten in between";
    if (l2 <= 0) return "the size of the level-2 cache is not known";
    if ((double)b->cold_bytes < 2 * l2)
        return arena_printf(b->arena, "%s were overwritten before a launch, less than twice the"
                                      " level-2 cache of %s",
                            bench_mib(b->arena, (double)b->cold_bytes), bench_mib(b->arena, l2));
    for (int i = 0; i < b->turns.n; i++)
        if (b->turns.at[i].group > 1)
            return arena_printf(b->arena,
                                "a sample has %d launches, of which only the first can find"
                                " an overwritten cache",
                                b->turns.at[i].group);
    return NULL;
}

const char *bench_cache_words(const Bench *b, int size)
{
    Arena *a = b->arena;
    double l2 = (double)b->machine.l2_bytes, bytes = b->sizes.at[size].bytes;
    const char *not_cold = bench_not_cold(b);
    const char *what = arena_printf(a, "inputs and outputs of %s", bench_mib(a, bytes));
    if (b->cache == BENCH_COLD && !not_cold)
        return arena_printf(
            a,
            "cold: after the inputs were written, and again before each timed launch,"
            " %s were overwritten, %.1f times the level-2 cache of %s; a launch finds"
            " none of its %s there",
            bench_mib(a, (double)b->cold_bytes), (double)b->cold_bytes / l2, bench_mib(a, l2),
            what);
    const char *head = not_cold ? "warm, although cold was asked for" : "warm";
    if (l2 <= 0)
        return arena_printf(
            a,
            "%s: the launch before used the same arrays; the size of the level-2 cache"
            " is not known, nor how much of the %s it holds",
            head, what);
    if (bytes <= l2)
        return arena_printf(
            a,
            "%s: the %s fit into the level-2 cache of %s, and the launch before used"
            " them; a launch may find all of them there",
            head, what, bench_mib(a, l2));
    return arena_printf(a,
                        "%s: the launch before used the same arrays, but the %s are %.1f times the"
                        " level-2 cache of %s; a launch finds at most %.0f%% of them there",
                        head, what, bytes / l2, bench_mib(a, l2), 100 * l2 / bytes);
}
