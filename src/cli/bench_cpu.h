// bench_cpu.h - `baton bench --cpu`: how fast the compiler, the emulator and the verifier are.
//
//   bench_cpu.c          the command line, and the order of everything
//   bench_cpu_measure.c  times of each kernel
//   bench_cpu_count.c    instructions of a fixed list of items, counted by callgrind
//   bench_cpu_history.c  counts by time, and the comparison with them
//   bench_cpu_table.c    tables as text, as Markdown and as a results file
#ifndef BATON_CLI_BENCH_CPU_H
#define BATON_CLI_BENCH_CPU_H

#include "cli.h"

// ---- tables -------------------------------------------------------------------------------------
// A cell is a text, or a number with so many digits behind the point; NAN is "not known".
typedef struct {
    const char *text; // NULL: a number
    double number;
    int digits;
} CpuCell;

typedef struct {
    const char *name, *unit;
} CpuColumn;

typedef struct {
    const char *name, *title;
    VEC(CpuColumn) columns;
    VEC(CpuCell) cells;      // row after row
    VEC(const char *) notes; // a sentence each
    bool hidden;             // in the results file only: single samples
    double least;            // terminal: columns of numbers that are all below it are left out
} CpuTable;

void cpu_column(Arena *a, CpuTable *t, const char *name, const char *unit);
void cpu_text(Arena *a, CpuTable *t, const char *text);
void cpu_number(Arena *a, CpuTable *t, double x, int digits);

// What made the tables.
typedef struct {
    const char *date;                      // UTC: "2026-11-30T11:20:05Z"
    const char *command;                   // line that made it
    const char *baton, *commit;            // version; commit of the sources, "" unknown
    const char *compiler, *libc, *machine; // "gcc 12.2.0", "glibc 2.36", "x86_64"
    const char *host;                      // "Intel Xeon ..., 2 processors, Linux 6.1"
    bool sets;                             // libisl is there: more is proved, which takes longer
} CpuOrigin;
// `folder`: of the sources, NULL unknown. `sets` is left to the caller.
void cpu_origin(Arena *a, const char *folder, int argc, char **argv, CpuOrigin *out);

void cpu_print_text(const CpuTable *t, Buf *out);
void cpu_print_markdown(const CpuOrigin *o, const CpuTable *const *t, int n, Buf *out);
// A record of tables as tools/measurements.py reads it.
void cpu_print_json(const CpuOrigin *o, const CpuTable *const *t, int n, Buf *out);

// ---- times --------------------------------------------------------------------------------------
typedef struct {
    const char *path, *name; // "kernels/attention/v4.co", "attention/v4"
} CpuKernel;

typedef struct {
    VEC(CpuKernel) kernels;
    int repeat;             // compilations of each kernel
    bool progress;          // a line on standard error
    double wall_ms, own_ms; // of the loops that are timed, and how much of it this process ran
    Arena *arena;
    Diag *diag;
} CpuJob;

typedef struct {
    CpuTable compile, passes, emulator, verifier, explorer, samples;
} CpuTimes;
// Exit status; the first kernel that does not compile, is wrong or broken ends it.
int cpu_measure(CpuJob *j, CpuTimes *out);

// ---- instructions -------------------------------------------------------------------------------
typedef struct {
    const char *name; // "build attention/v4"
    i64 count;
} CpuCount;
typedef VEC(CpuCount) CpuCounts;
// Instructions of each item that belongs to one of the kernels. Each is a process of its own, with
// one thread and nothing kept. Exit status.
int cpu_count(CpuJob *j, CpuCounts *out);

// ---- history ------------------------------------------------------------------------------------
// One line of JSON for each recorded point. Counts are comparable between lines that were made with
// the same compiler, C library, instruction set and libraries.
bool cpu_history_append(const char *path, const CpuOrigin *o, const CpuCounts *now, Diag *d);
typedef struct {
    const char *date, *commit;
    CpuCounts counts;
} CpuPoint;
// The last line that fits `o`; *found is false when none does. False: the reason is in the Diag.
bool cpu_history_last(Arena *a, const char *path, const CpuOrigin *o, CpuPoint *out, bool *found,
                      Diag *d);
// More than that many per cent slower is an error, faster a reason to renew the history.
enum { CPU_TOLERANCE = 10 };
// The table of counts; `then` NULL: without a comparison. Names of items that became slower and
// faster by more than the tolerance are appended to the two texts.
void cpu_compare(Arena *a, const CpuCounts *now, const CpuPoint *then, CpuTable *out, Buf *slower,
                 Buf *faster);

#endif
