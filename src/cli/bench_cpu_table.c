// bench_cpu_table.c - tables of measurements as text for a terminal, as Markdown, and as the
// results file that the documentation is made from.
#include "bench_cpu.h"
#include "../json/json.h"
#include "../../include/baton.h"
#include "program.h"

#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

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

static const char *cpu_model(Arena *a)
{
    Buf file = {0};
    const char *model = NULL;
    if (!file_read("/proc/cpuinfo", &file, (size_t)16 << 20) && file.n) {
        const char *line = strstr(file.s, "model name"), *name = line ? strchr(line, ':') : NULL;
        if (name) name += 1 + strspn(name + 1, " \t");
        if (name) model = arena_strndup(a, name, strcspn(name, "\n"));
    }
    buf_free(&file);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return arena_printf(a, "%s%s%ld processor%s", model ? model : "", model ? ", " : "", n,
                        n == 1 ? "" : "s");
}

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
        .cpu = cpu_model(a),
        .kernel = known ? arena_printf(a, "%s %s", u.sysname, u.release) : "",
    };
}

// ---- text ---------------------------------------------------------------------------------------

static void put_cell(const CpuCell *c, Buf *out)
{
    if (c->text) {
        buf_puts(out, c->text);
    } else if (isnan(c->number)) {
        buf_putc(out, '-');
    } else if (fabs(c->number) >= 1e4 && !c->digits) {
        Arena *a = arena_new(0);
        buf_puts(out, cli_count(a, llround(c->number)));
        arena_free(a);
    } else {
        buf_printf(out, "%.*f", c->digits, c->number);
    }
}

// Columns of numbers that say nothing at this scale.
static bool is_small(const CpuTable *t, int column)
{
    for (int r = 0; r < rows_of(t); r++) {
        const CpuCell *c = cell_of(t, r, column);
        if (c->text || !(fabs(c->number) < t->least)) return false;
    }
    return t->least > 0;
}

static int width_of(const CpuTable *t, int column)
{
    int width = (int)MAX(strlen(t->columns.at[column].name), strlen(t->columns.at[column].unit));
    for (int r = 0; r < rows_of(t); r++) {
        Buf b = {0};
        put_cell(cell_of(t, r, column), &b);
        width = MAX(width, (int)b.n);
        buf_free(&b);
    }
    return width;
}

// Numbers stand right, texts left; two blanks between columns.
static void put_padded(const char *s, int width, bool right, bool last, Buf *out)
{
    int room = width - (int)strlen(s);
    if (right) buf_printf(out, "%*s", room, "");
    buf_puts(out, s);
    if (!right && !last) buf_printf(out, "%*s", room, "");
    buf_puts(out, last ? "\n" : "  ");
}

enum { NAMES = -2, UNITS = -1 }; // in place of a row's number

static void put_row(const CpuTable *t, int row, const int *width, Buf *out)
{
    int last = t->columns.n - 1;
    while (last > 0 && !width[last]) last--;
    for (int c = 0; c <= last; c++) {
        const CpuCell *first = rows_of(t) ? cell_of(t, 0, c) : NULL;
        bool right = first && !first->text;
        Buf b = {0};
        if (!width[c]) continue;
        if (row == NAMES)
            buf_puts(&b, t->columns.at[c].name);
        else if (row == UNITS)
            buf_puts(&b, t->columns.at[c].unit);
        else
            put_cell(cell_of(t, row, c), &b);
        put_padded(b.s ? b.s : "", width[c], right, c == last, out);
        buf_free(&b);
    }
}

void cpu_print_text(const CpuTable *t, Buf *out)
{
    enum { COLUMNS = 64 };
    int width[COLUMNS] = {0}, dropped = 0;
    bool units = false;
    ASSERT(t->columns.n <= COLUMNS);
    for (int c = 0; c < t->columns.n; c++) {
        if (is_small(t, c))
            dropped++;
        else
            width[c] = width_of(t, c);
        units |= *t->columns.at[c].unit != 0;
    }
    buf_printf(out, "%s\n", t->title);
    put_row(t, NAMES, width, out);
    if (units) put_row(t, UNITS, width, out);
    for (int r = 0; r < rows_of(t); r++) put_row(t, r, width, out);
    for (int i = 0; i < t->notes.n; i++) buf_printf(out, "(%s)\n", t->notes.at[i]);
    if (!dropped) return;
    buf_printf(out, "(below %g everywhere:", t->least);
    for (int c = 0; c < t->columns.n; c++)
        if (!width[c]) buf_printf(out, " %s", t->columns.at[c].name);
    buf_puts(out, ")\n");
}

// ---- files --------------------------------------------------------------------------------------

void cpu_print_markdown(const CpuOrigin *o, const CpuTable *const *t, int n, Buf *out)
{
    buf_puts(out, "# The compiler itself\n\n");
    buf_printf(out, "`%s`, %s. baton %s%s%s%s, %s, %s%s; %s; %s.\n", o->command, o->date, o->baton,
               *o->commit ? " (" : "", o->commit, *o->commit ? ")" : "", o->compiler, o->libc,
               o->sets ? "" : ", without libisl", o->cpu, o->kernel);
    for (int i = 0; i < n; i++) {
        if (t[i]->hidden) continue;
        buf_printf(out, "\n%s\n\n|", t[i]->title);
        for (int c = 0; c < t[i]->columns.n; c++) {
            const CpuColumn *col = &t[i]->columns.at[c];
            buf_printf(out, " %s%s%s |", col->name, *col->unit ? ", " : "", col->unit);
        }
        buf_puts(out, "\n|");
        for (int c = 0; c < t[i]->columns.n; c++) buf_puts(out, "---|");
        for (int r = 0; r < rows_of(t[i]); r++) {
            buf_puts(out, "\n|");
            for (int c = 0; c < t[i]->columns.n; c++) {
                buf_putc(out, ' ');
                put_cell(cell_of(t[i], r, c), out);
                buf_puts(out, " |");
            }
        }
        buf_puts(out, "\n");
        for (int k = 0; k < t[i]->notes.n; k++) buf_printf(out, "\n%s.\n", t[i]->notes.at[k]);
    }
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
    json_put_text(&w, "CPU", o->cpu);
    json_put_text(&w, "kernel", o->kernel);
    json_end(&w);
    json_begin(&w, "tables", '[', false);
    for (int i = 0; i < n; i++) put_table(&w, t[i]);
    json_end(&w);
    json_end(&w);
}
