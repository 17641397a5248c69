// page.c - the tables of docs/verification.md: which tier caught what, and the reason of each
// mutant that is harmless. They stand between two marks, and are compared line by line.
#include "mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "docs/verification.md"
#define BEGIN "<!-- mutants: begin (make mutants WRITE=1) -->\n"
#define END "<!-- mutants: end -->\n"

enum { CELLS = 16 };

static bool counts(const Session *s, int kernel, int oper, int *cell)
{
    bool any = false;
    memset(cell, 0, sizeof *cell * CELLS);
    for (int i = 0; i < s->mutants.n; i++) {
        const Mutant *m = &s->mutants.at[i];
        const Result *r = &s->board->result[i];
        if ((kernel >= 0 && m->kernel != kernel) || (oper >= 0 && m->oper != oper)) continue;
        cell[0]++;
        if (r->fate == CAUGHT) cell[1 + r->tier]++;
        else cell[1 + tier_count + (r->fate != HARMLESS)]++;
        any = true;
    }
    return any;
}

static void put_row(const Session *s, const char *name, int kernel, int oper, Buf *out)
{
    int cell[CELLS];
    if (!counts(s, kernel, oper, cell)) return;
    buf_printf(out, "| %s |", name);
    for (int i = 0; i < 3 + tier_count; i++)
        if (cell[i]) buf_printf(out, " %d |", cell[i]);
        else buf_puts(out, " |");
    buf_putc(out, '\n');
}

static void put_head(const char *what, Buf *out)
{
    buf_printf(out, "| %s | mutants |", what);
    for (int i = 0; i < tier_count; i++) buf_printf(out, " %s |", tier_table[i].name);
    buf_puts(out, " harmless | survivors |\n|---|");
    for (int i = 0; i < 3 + tier_count; i++) buf_puts(out, "---|");
    buf_putc(out, '\n');
}

// The operations of one kernel for which one reason holds: `bar.warp` 85 removed, early barrier
static void put_operations(const Session *s, int kernel, const char *why, Buf *out)
{
    u32 line = 0;
    u8 op = OP_COUNT;
    for (int i = 0; i < s->mutants.n; i++) {
        const Mutant *m = &s->mutants.at[i];
        const Result *r = &s->board->result[i];
        if (m->kernel != kernel || r->fate != HARMLESS || strcmp(r->why, why)) continue;
        if (m->op == op && m->loc.line == line) {
            buf_printf(out, ", %s", operator_table[m->oper].name);
        } else {
            buf_printf(out, "%s`%s`%s%s line %u %s", op == OP_COUNT ? "" : "; ", thread_op[m->op].name,
                       m->buffer ? " " : "", m->buffer ? m->buffer : "", m->loc.line,
                       operator_table[m->oper].name);
            op = m->op;
            line = m->loc.line;
        }
    }
}

static void put_harmless(const Session *s, int kernel, Buf *out)
{
    for (int i = 0; i < s->mutants.n; i++) {
        const Result *r = &s->board->result[i];
        bool again = false;
        if (s->mutants.at[i].kernel != kernel || r->fate != HARMLESS) continue;
        for (int k = 0; k < i; k++)
            again |= s->mutants.at[k].kernel == kernel && s->board->result[k].fate == HARMLESS &&
                     !strcmp(s->board->result[k].why, r->why);
        if (again) continue;
        buf_printf(out, "| %s | %s | ", kernel_table[kernel].name, r->why);
        put_operations(s, kernel, r->why, out);
        buf_puts(out, " |\n");
    }
}

static void put_tables(const Session *s, bool whole, Buf *out)
{
    put_head("kernel", out);
    for (int k = 0; k < kernel_count; k++) put_row(s, kernel_table[k].name, k, -1, out);
    if (whole) put_row(s, "all", -1, -1, out);
    if (whole) {
        buf_putc(out, '\n');
        put_head("what was done", out);
        for (int k = 0; k < operator_count; k++) {
            char *name = arena_printf(s->arena, "%s: %s", operator_table[k].name, operator_table[k].how);
            put_row(s, name, -1, k, out);
        }
    }
    buf_puts(out, "\n| kernel | why it is right | harmless mutants |\n|---|---|---|\n");
    for (int k = 0; k < kernel_count; k++) put_harmless(s, k, out);
}

// The page, and where its tables begin and end.
static bool read_page(const Session *s, const char *path, Buf *page, size_t *from, size_t *to)
{
    const char *why = file_read(path, page, 1 << 22);
    const char *begin = why ? NULL : strstr(page->s, BEGIN), *end = begin ? strstr(begin, END) : NULL;
    (void)s;
    if (!end) {
        printf("%s: %s\n", path, why ? why : "no marks for the tables of mutants");
        return false;
    }
    *from = (size_t)(begin - page->s) + strlen(BEGIN);
    *to = (size_t)(end - page->s);
    return true;
}

bool page_write(const Session *s)
{
    const char *path = arena_printf(s->arena, "%s/" PAGE, s->root);
    Buf page = {0}, out = {0};
    size_t from, to;
    bool ok = !s->only.n && read_page(s, path, &page, &from, &to);
    if (s->only.n) printf("the tables are written for all kernels at once: without --only\n");
    if (ok) {
        buf_write(&out, page.s, from);
        put_tables(s, true, &out);
        buf_puts(&out, page.s + to);
        const char *why = file_write(path, out.s, out.n);
        if (why) printf("%s: %s\n", path, why);
        ok = !why;
    }
    buf_free(&page);
    buf_free(&out);
    return ok;
}

bool page_check(const Session *s)
{
    const char *path = arena_printf(s->arena, "%s/" PAGE, s->root);
    Buf page = {0}, out = {0};
    size_t from, to;
    bool ok = read_page(s, path, &page, &from, &to);
    put_tables(s, !s->only.n, &out);
    for (char *line = out.s, *end; ok && (end = strchr(line, '\n')); line = end + 1) {
        const char *at = arena_printf(s->arena, "\n%.*s\n", (int)(end - line), line);
        const char *found = strstr(page.s + from - 1, at);
        if (found && found < page.s + to) continue;
        printf(PAGE ": not there, `make mutants WRITE=1` writes it: %.*s\n", (int)(end - line), line);
        ok = false;
    }
    buf_free(&page);
    buf_free(&out);
    return ok;
}
