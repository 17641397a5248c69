// bench_cpu_table.c - tables of measurements as text for a terminal, as Markdown, and as the
// results file that the documentation is made from.
#include "bench_cpu.h"
#include "../bench/contest.h"
#include "../bench/table.h"
#include "../json/json.h"
#include "../../include/baton.h"
#include "program.h"

#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

void cpu_column(Arena *a, CpuTable *t, const char *name, const char *unit)
{
    CpuColumn c = {name, unit};
    vec_push(a, &t->columns, c);
}

void cpu_text(Arena *a, CpuTable *t, const char *text)
{
    CpuCell c = {.text = text};
    vec_push(a, &t->cells, c);
}

void cpu_number(Arena *a, CpuTable *t, double x, int digits)
{
    CpuCell c = {.number = x, .digits = digits};
    vec_push(a, &t->cells, c);
}

static int rows_of(const CpuTable *t) { return t->columns.n ? t->cells.n / t->columns.n : 0; }

static const CpuCell *cell_of(const CpuTable *t, int row, int column)
{
    return &t->cells.at[row * t->columns.n + column];
}

// ---- origin -------------------------------------------------------------------------------------

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#if defined(__OPTIMIZE__)
#define OPTIMISED ""
#else
#define OPTIMISED " without optimisation"
#endif

// "" outside of a checkout, or without git. Changes that were not committed are marked.
static const char *commit_of_sources(Arena *a, const char *folder)
{
    const char *const ask[] = {"git",      "-C",        folder,        "describe",
                               "--always", "--dirty=+", "--exclude=*", NULL};
    Buf text = {0};
    int status = 0;
    bool ok = folder && program_is_here("git") && program_run(ask, NULL, &text, &status) &&
              program_succeeded(status) && text.n;
    const char *commit = ok ? arena_strndup(a, text.s, strcspn(text.s, "\n")) : "";
    buf_free(&text);
    return commit;
}

// As a shell would take it, but for words with blanks and quotes, which are left as they are.
static const char *command_line(Arena *a, int argc, char **argv)
{
    Buf b = {0};
    buf_puts(&b, "baton bench --cpu");
    for (int i = 0; i < argc; i++) buf_printf(&b, " %s", argv[i]);
    const char *line = arena_strndup(a, b.s, b.n);
    buf_free(&b);
    return line;
}

void cpu_origin(Arena *a, const char *folder, int argc, char **argv, CpuOrigin *out)
{
    struct utsname u = {0};
    time_t now = time(NULL);
    struct tm utc = {0};
    char date[32] = "";
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    bool known = uname(&u) == 0;
    *out = (CpuOrigin){
        .date = arena_strndup(a, date, strlen(date)),
        .command = command_line(a, argc, argv),
        .baton = BATON_VERSION_TEXT,
        .commit = commit_of_sources(a, folder),
        .compiler = COMPILER OPTIMISED,
        .libc = arena_printf(a, "glibc %s", gnu_get_libc_version()),
        .machine = known ? arena_strndup(a, u.machine, strlen(u.machine)) : "",
        .host = bench_host(a),
    };
}

// ---- text ---------------------------------------------------------------------------------------

static const char *cell_text(const CpuCell *c, Arena *a)
{
    if (c->text) return c->text;
    if (isnan(c->number)) return "-";
    if (!c->digits) return cli_count(a, llround(c->number));
    return arena_printf(a, "%.*f", c->digits, c->number);
}

// A column of numbers that say nothing at this scale.
static bool is_small(const CpuTable *t, int column)
{
    for (int r = 0; r < rows_of(t); r++) {
        const CpuCell *c = cell_of(t, r, column);
        if (c->text || !(fabs(c->number) < t->least)) return false;
    }
    return t->least > 0;
}

// Texts stand left. Times are milliseconds, which titles of tables say; other units stand in the
// titles of their columns.
static const char *column_title(const CpuTable *t, int c, Arena *a)
{
    const CpuColumn *col = &t->columns.at[c];
    bool unit = *col->unit && strcmp(col->unit, "ms") != 0;
    const char *left = rows_of(t) && cell_of(t, 0, c)->text ? "<" : "";
    return arena_printf(a, "%s%s%s%s", left, col->name, unit ? " " : "", unit ? col->unit : "");
}

// With `brief`, columns that are small everywhere have no cells, which leaves them out.
static BenchTable *laid_out(const CpuTable *t, bool brief, Arena *a)
{
    const char **title = ARENA_ARRAY(a, const char *, t->columns.n);
    for (int c = 0; c < t->columns.n; c++) title[c] = column_title(t, c, a);
    BenchTable *out = bench_table(a, title, t->columns.n);
    for (int r = 0; r < rows_of(t); r++)
        for (int c = 0; c < t->columns.n; c++)
            bench_table_add(out, brief && is_small(t, c) ? "" : cell_text(cell_of(t, r, c), a));
    return out;
}

void cpu_print_text(const CpuTable *t, Buf *out)
{
    Arena *a = arena_new(0);
    buf_printf(out, "%s\n", t->title);
    bench_table_text(laid_out(t, true, a), out);
    for (int i = 0; i < t->notes.n; i++) buf_printf(out, "  (%s)\n", t->notes.at[i]);
    bool first = true;
    for (int c = 0; c < t->columns.n; c++) {
        if (!is_small(t, c)) continue;
        if (first) buf_printf(out, "  (below %g everywhere:", t->least);
        buf_printf(out, "%s %s", first ? "" : ",", t->columns.at[c].name);
        first = false;
    }
    if (!first) buf_puts(out, ")\n");
    arena_free(a);
}

// ---- files --------------------------------------------------------------------------------------

void cpu_print_markdown(const CpuOrigin *o, const CpuTable *const *t, int n, Buf *out)
{
    Arena *a = arena_new(0);
    buf_puts(out, "# The compiler itself\n\n");
    buf_printf(out, "`%s`, %s. baton %s%s%s%s, %s, %s%s; %s.\n", o->command, o->date, o->baton,
               *o->commit ? " (" : "", o->commit, *o->commit ? ")" : "", o->compiler, o->libc,
               o->sets ? "" : ", without libisl", o->host);
    for (int i = 0; i < n; i++) {
        if (t[i]->hidden) continue;
        buf_printf(out, "\n%s.\n\n", t[i]->title);
        bench_table_markdown(laid_out(t[i], false, a), out);
        for (int k = 0; k < t[i]->notes.n; k++) buf_printf(out, "\n%s.\n", t[i]->notes.at[k]);
    }
    arena_free(a);
}

static void put_table(JsonWriter *w, const CpuTable *t)
{
    json_begin(w, NULL, '{', false);
    json_put_text(w, "name", t->name);
    json_put_text(w, "title", t->title);
    json_begin(w, "columns", '[', false);
    for (int c = 0; c < t->columns.n; c++) {
        json_begin(w, NULL, '{', true);
        json_put_text(w, "name", t->columns.at[c].name);
        json_put_text(w, "unit", t->columns.at[c].unit);
        json_end(w);
    }
    json_end(w);
    json_begin(w, "notes", '[', false);
    for (int i = 0; i < t->notes.n; i++) json_put_text(w, NULL, t->notes.at[i]);
    json_end(w);
    json_begin(w, "rows", '[', false);
    for (int r = 0; r < rows_of(t); r++) {
        json_begin(w, NULL, '[', true);
        for (int c = 0; c < t->columns.n; c++) {
            const CpuCell *x = cell_of(t, r, c);
            if (x->text)
                json_put_text(w, NULL, x->text);
            else
                json_put_number(w, NULL, round(x->number * 1e6) / 1e6); // the clock has ns
        }
        json_end(w);
    }
    json_end(w);
    json_end(w);
}

void cpu_print_json(const CpuOrigin *o, const CpuTable *const *t, int n, Buf *out)
{
    JsonWriter w = {.out = out};
    json_begin(&w, NULL, '{', false);
    json_put_text(&w, "kind", "table");
    json_put_text(&w, "date", o->date);
    json_put_text(&w, "gpu", "");
    json_put_text(&w, "driver", "");
    json_put_text(&w, "command", o->command);
    json_begin(&w, "versions", '{', false);
    json_put_text(&w, "baton", o->baton);
    if (*o->commit) json_put_text(&w, "commit", o->commit);
    json_put_text(&w, "compiler", o->compiler);
    json_put_text(&w, "C library", o->libc);
    json_put_text(&w, "libisl", o->sets ? "yes" : "no");
    json_put_text(&w, "host", o->host);
    json_end(&w);
    json_begin(&w, "tables", '[', false);
    for (int i = 0; i < n; i++) put_table(&w, t[i]);
    json_end(&w);
    json_end(&w);
}
