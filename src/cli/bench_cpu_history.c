// bench_cpu_history.c - counts of instructions by time: a file with one line of JSON for each
// recorded point, the newest last, and the comparison of new counts with them.
//
//   {"date": "2026-11-30T12:00:00Z", "commit": "3ea9ca2", "baton": "0.1.0", "compiler":
//   "gcc 12.2.0",
//    "libc": "glibc 2.36", "machine": "x86_64", "libisl": true, "counts": {"build attention/v1":
//    32168494}}
#include "../json/json.h"
#include "bench_cpu.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t MAX_HISTORY = (size_t)64 << 20; // bytes

static void put_line(const CpuOrigin *o, const CpuCounts *now, Buf *out)
{
    JsonWriter w = {.out = out};
    json_begin(&w, NULL, '{', true);
    json_put_text(&w, "date", o->date);
    json_put_text(&w, "commit", o->commit);
    json_put_text(&w, "baton", o->baton);
    json_put_text(&w, "compiler", o->compiler);
    json_put_text(&w, "libc", o->libc);
    json_put_text(&w, "machine", o->machine);
    json_put_bool(&w, "libisl", o->sets);
    json_begin(&w, "counts", '{', true);
    for (int i = 0; i < now->n; i++) json_put_integer(&w, now->at[i].name, now->at[i].count);
    json_end(&w);
    json_end(&w);
}

bool cpu_history_append(const char *path, const CpuOrigin *o, const CpuCounts *now, Diag *d)
{
    Buf line = {0};
    put_line(o, now, &line);
    FILE *f = fopen(path, "ab");
    bool ok = f && fwrite(line.s, 1, line.n, f) == line.n;
    int error = errno;
    if (f && fclose(f) != 0) {
        error = errno;
        ok = false;
    }
    if (!ok) diag_error(d, (Loc){0}, NULL, "cannot write to %s: %s", path, strerror(error));
    buf_free(&line);
    return ok;
}

// Lines that do not fit are read as well: a damaged history is no reason to compare with less.
static bool fits(const JsonValue *line, const CpuOrigin *o)
{
    bool sets = json_get_bool(line, "libisl");
    return (strcmp(json_get_text(line, "compiler"), o->compiler) == 0) &
           (strcmp(json_get_text(line, "libc"), o->libc) == 0) &
           (strcmp(json_get_text(line, "machine"), o->machine) == 0) & (sets == o->sets);
}

static void read_point(Arena *a, const JsonValue *line, CpuPoint *out)
{
    const JsonValue *counts = json_get_object(line, "counts");
    *out = (CpuPoint){json_get_text(line, "date"), json_get_text(line, "commit"), {0}};
    for (int i = 0; i < counts->n; i++) {
        CpuCount c = {counts->keys[i], json_get_integer(counts, counts->keys[i])};
        if (c.count <= 0) json_error(&counts->items[i], NULL, "a count is a positive number");
        vec_push(a, &out->counts, c);
    }
}

bool cpu_history_last(Arena *a, const char *path, const CpuOrigin *o, CpuPoint *out, bool *found,
                      Diag *d)
{
    Buf file = {0};
    const char *why = file_read(path, &file, MAX_HISTORY);
    *found = false;
    if (why)
        diag_error(d, (Loc){0}, "`baton bench --cpu --record` makes one", "cannot read %s: %s",
                   path, why);
    int number = 1;
    bool ok = !why;
    for (const char *at = file.n ? file.s : ""; *at && ok; number++) {
        size_t n = strcspn(at, "\n");
        const char *name = arena_printf(a, "line %d of %s", number, path);
        const JsonValue *line = n ? json_read(a, name, arena_strndup(a, at, n), n, d) : NULL;
        if (line && fits(line, o)) {
            read_point(a, line, out);
            *found = true;
        }
        ok = !n || (line && !json_failed(line));
        at += n + (at[n] != 0);
    }
    buf_free(&file);
    return ok;
}

// ---- comparison ---------------------------------------------------------------------------------

static i64 count_then(const CpuPoint *p, const char *name)
{
    for (int i = 0; p && i < p->counts.n; i++)
        if (strcmp(p->counts.at[i].name, name) == 0) return p->counts.at[i].count;
    return 0;
}

static void add_name(Buf *out, const char *name)
{
    buf_printf(out, "%s%s", out->n ? ", " : "", name);
}

void cpu_compare(Arena *a, const CpuCounts *now, const CpuPoint *then, CpuTable *out, Buf *slower,
                 Buf *faster)
{
    *out = (CpuTable){.name = "instructions", .title = "Instructions, counted by callgrind"};
    cpu_column(a, out, "item", "");
    cpu_column(a, out, "now", "");
    if (then) cpu_column(a, out, "then", "");
    if (then) cpu_column(a, out, "change", "%");
    for (int i = 0; i < now->n; i++) {
        const CpuCount *c = &now->at[i];
        i64 before = count_then(then, c->name);
        double change = before ? 100.0 * ((double)c->count / (double)before - 1) : NAN;
        cpu_text(a, out, c->name);
        cpu_number(a, out, (double)c->count, 0);
        if (!then) continue;
        cpu_number(a, out, before ? (double)before : NAN, 0);
        cpu_number(a, out, change, 2);
        if (change > CPU_TOLERANCE) add_name(slower, c->name);
        if (change < -CPU_TOLERANCE) add_name(faster, c->name);
    }
}
