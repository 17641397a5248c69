// store.c - a folder of results.
#include "bench.h"

#include <string.h>

static bool store(Arena *a, const char *dir, const char *name, Buf *text, Diag *d)
{
    const char *path = arena_printf(a, "%s/%s", dir, name);
    const char *why = file_write(path, text->s ? text->s : "", text->n);
    if (why)
        diag_error(d, ((Loc){diag_add_file(d, path, NULL, 0), 0, 0}),
                   "give the name of a folder that can be written", "cannot be written: %s", why);
    buf_free(text);
    return !why;
}

// The raw log and record first: whatever fails behind them, the samples are kept.
bool bench_store(const Bench *b, const char *dir, BenchLanguage language, const Buf *log, Diag *d)
{
    folder_make(dir);
    Buf text = {0};
    if (log) {
        buf_write(&text, log->s ? log->s : "", log->n);
        if (!store(b->arena, dir, "log.txt", &text, d)) return false;
    }
    bench_json(b, &text);
    if (!store(b->arena, dir, "results.json", &text, d)) return false;
    bench_csv(b, &text);
    if (!store(b->arena, dir, "summary.csv", &text, d)) return false;
    bench_markdown(b, &text);
    if (!store(b->arena, dir, "summary.md", &text, d)) return false;
    for (int regime = 0; regime < BENCH_REGIMES; regime++) {
        if (!bench_has(b, (BenchRegime)regime)) continue;
        bench_plot(b, (BenchRegime)regime, language, &text);
        const char *name = arena_printf(b->arena, "plot-%s.svg", bench_regime_name[regime]);
        if (!store(b->arena, dir, name, &text, d)) return false;
    }
    return true;
}
