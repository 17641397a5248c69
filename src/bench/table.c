// table.c - one table, two layouts. Widths count characters, not bytes: labels may be UTF-8.
#include "table.h"

#include <string.h>

BenchTable *bench_table(Arena *a, const char *const *titles, int columns)
{
    BenchTable *t = ARENA_NEW(a, BenchTable);
    *t = (BenchTable){.arena = a, .title = titles, .columns = columns};
    return t;
}

void bench_table_add(BenchTable *t, const char *cell)
{
    vec_push(t->arena, &t->cells, cell ? cell : "");
}

static bool is_left(const BenchTable *t, int column) { return t->title[column][0] == '<'; }
static const char *title(const BenchTable *t, int column)
{
    return t->title[column] + is_left(t, column);
}

static int width(const char *s)
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

// Of the widest cell; 0: all are empty.
static int cell_width(const BenchTable *t, int column)
{
    int most = 0;
    for (int i = column; i < t->cells.n; i += t->columns) most = MAX(most, width(t->cells.at[i]));
    return most;
}

static void put_padded(const char *s, int to, bool left, Buf *out)
{
    int gap = MAX(to - width(s), 0);
    buf_printf(out, "%*s%s%*s", left ? 0 : gap, "", s, left ? gap : 0, "");
}

static void end_line(Buf *out)
{
    while (out->n && out->s[out->n - 1] == ' ') out->s[--out->n] = 0;
    buf_putc(out, '\n');
}

void bench_table_text(const BenchTable *t, Buf *out)
{
    if (!t->cells.n) return;
    for (int row = -1; row < t->cells.n / t->columns; row++) {
        for (int c = 0; c < t->columns; c++) {
            int w = cell_width(t, c);
            if (!w) continue;
            buf_puts(out, "  ");
            put_padded(row < 0 ? title(t, c) : t->cells.at[row * t->columns + c],
                       MAX(w, width(title(t, c))), is_left(t, c), out);
        }
        end_line(out);
    }
}

// A bar would end the cell.
static void put_escaped(const char *s, Buf *out)
{
    for (; *s; s++) {
        if (*s == '|') buf_putc(out, '\\');
        buf_putc(out, *s == '\n' ? ' ' : *s);
    }
}

void bench_table_markdown(const BenchTable *t, Buf *out)
{
    if (!t->cells.n) return;
    for (int row = -2; row < t->cells.n / t->columns; row++) {
        buf_puts(out, row == -1 ? "|" : "| ");
        bool first = true;
        for (int c = 0; c < t->columns; c++) {
            if (!cell_width(t, c)) continue;
            if (!first) buf_puts(out, row == -1 ? "|" : " | ");
            first = false;
            if (row == -2)
                buf_puts(out, title(t, c));
            else if (row == -1)
                buf_puts(out, is_left(t, c) ? "---" : "---:");
            else
                put_escaped(t->cells.at[row * t->columns + c], out);
        }
        buf_puts(out, row == -1 ? "|\n" : " |\n");
    }
}
