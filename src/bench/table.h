// table.h - what the tables of a Bench are made of: rows of texts that one printer lays out for a
// terminal and one in Markdown, and the words that both say about numbers.
#ifndef BATON_BENCH_TABLE_H
#define BATON_BENCH_TABLE_H

#include "bench.h"

// ---- table.c -----------------------------------------------------------------------------------
// Rows of cells; "" is an empty cell. Lives in the arena.
typedef struct {
    Arena *arena;
    const char *const *title; // of the columns; one that begins with '<' is aligned to the left
    int columns;
    VEC(const char *) cells;  // row by row
} BenchTable;
BenchTable *bench_table(Arena *a, const char *const *titles, int columns);
void bench_table_add(BenchTable *t, const char *cell); // row by row
// Columns without any cell are left out, and so is a table without rows.
void bench_table_text(const BenchTable *t, Buf *out);
void bench_table_markdown(const BenchTable *t, Buf *out);

// ---- words.c: texts live in the arena -----------------------------------------------------------
const char *bench_figure(Arena *a, double x, int digits); // significant ones; NAN: ""
const char *bench_count(Arena *a, i64 n);                 // "67,108,864"
const char *bench_percent(Arena *a, double part);         // 0.031: "3.1%"
const char *bench_signed_percent(Arena *a, double part);  // "+3.1%"
const char *bench_mib(Arena *a, double bytes);            // "50.0 MiB"
// A time in the unit of the record, without and with the unit.
const char *bench_time(const Bench *b, double ms);
const char *bench_time_unit(const Bench *b, double ms);
// "v4, S=8192, sustained", as far as known (-1: not).
const char *bench_where(const Bench *b, int impl, int size, int regime);
// One or more sentences each.
const char *bench_machine_words(const Bench *b);
const char *bench_protocol_words(const Bench *b);
const char *bench_regime_words(const Bench *b, BenchRegime regime);
const char *bench_ceiling_words(const Bench *b);
const char *bench_operands(const Bench *b); // "16-bit", by how fast the tensor cores take them
const char *bench_cache_words(const Bench *b, int size);
// Why the cache of this record was not cold although it was to be; NULL: it was, or was to be warm.
const char *bench_not_cold(const Bench *b);

// ---- figures.c
// ----------------------------------------------------------------------------------- The table of
// a regime: a row for each size and implementation that has samples.
BenchTable *bench_figures(const Bench *b, BenchRegime regime, bool terminal);

#endif
