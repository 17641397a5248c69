// bench.h - a measurement as data: what was measured, every single sample, what the device said
// meanwhile, and what is doubtful about it. `baton bench` and the programs that `baton package`
// writes fill a Bench; tables, plots, warnings and comparisons are made from a Bench and nothing
// else, so they can be made again from results.json, and tested without a GPU.
//
//   bench.h       the record
//   stats.c       medians, deciles, spread, energy
//   guard.c       what is doubtful: throttling, drift, impossible figures, warm caches
//   fields.c      the record as tables of fields: what results.json has
//   write.c       results.json
//   read.c        results.json back into a Bench
//   words.c       what the tables say in words: machine, protocol, cache
//   table.c       summary.csv, and the tables of the terminal
//   markdown.c    summary.md
//   store.c       a folder of results
//   plot.c        bars with full ranges as SVG, in English or Chinese
//   compare.c     what changed between two measurements, against their spread
//   contest.h     the turns of the implementations on a device
//
// Times are milliseconds, energies joules, powers watts, clocks MHz, temperatures Celsius. A number
// that is not known is NAN (an integer: -1). Everything lives in the arena of the Bench.
#ifndef BATON_BENCH_H
#define BATON_BENCH_H

#include "../../rt/meter.h"
#include "../base/base.h"

// Two regimes, which are never mixed: the first launches after the device was idle, when clocks are
// high and cycles count; and launches under load that has lasted, when a card at its power limit
// slows down and joules count.
typedef enum { BENCH_BURST, BENCH_SUSTAINED, BENCH_REGIMES } BenchRegime;
extern const char *const bench_regime_name[BENCH_REGIMES]; // "burst", "sustained"

// Where the two marks stand that a sample lies between: around `group` launches in a stream, or
// around one replay of a graph of `group` launches.
typedef enum { BENCH_EVENT, BENCH_GRAPH } BenchMethod;
// What the level-2 cache holds when a timed launch begins. Warm: the same arrays were used by the
// launch before (as much of them as fits: see footprint). Cold: more than twice its size was
// written after the inputs were, in front of each timed launch, outside the time.
typedef enum { BENCH_WARM, BENCH_COLD } BenchCache;

typedef struct {
    const char *name;         // "NVIDIA H200"; "emulator"
    int number;               // of the GPU
    const char *uuid;         // "" unknown
    int sms, major, minor;
    i64 l2_bytes;             // -1 unknown
    const char *driver;       // "580.159.04"; "" unknown
    const char *cuda;         // of the driver: "13.0"; "" unknown
    const char *host;         // CPU, cores, kernel: "Intel ..., 16 cores, Linux 6.1"
    double power_limit;       // watts
    double max_sm_mhz;
    const char *no_meter;     // why there are no clocks and energies; NULL: there are
    // What this device did, measured in the same run: the ceilings of the guards.
    double ceiling_tflops;    // dense 16-bit products on the tensor cores, burst
    double ceiling_tbs;       // copying device memory, bytes read and written, TB/s
} BenchMachine;

// Versions of what took part, "baton 0.1 (commit)", "PyTorch 2.11", "cuDNN 9.19".
typedef struct {
    const char *name, *version;
} BenchVersion;

// An implementation: a kernel of baton or a peer.
typedef struct {
    const char *name;         // "v4", "cudnn"; unique
    const char *label;        // for tables: "v4: softmax under running products"
    bool peer;
    const char *file;         // kernel: the .co file as given; peers: "bench/peers.py"
    const char *options;      // kernel: of the compiler; peers: ""
    const char *source_sha256, *code_sha256; // of the file and of the generated code; "" none
} BenchImpl;

// One size of the job.
typedef struct {
    const char *text;         // "B=4 H=32 S=4096"
    const char *label;        // short, unique: "S=4096"
    double flops;             // of one launch by the usual formula; 0: only bytes count
    double bytes;             // of inputs and outputs, each once
    double work;              // grows with the job: sizes are in order of it (flops, else bytes)
} BenchSize;

// One implementation at one size, before anything is timed.
typedef enum {
    BENCH_NOT_TRIED, BENCH_RIGHT, BENCH_WRONG, BENCH_MISSING, BENCH_FAILED, BENCH_STATES
} BenchState;
extern const char *const bench_state_name[BENCH_STATES]; // "not tried" "right" "wrong" ...
typedef struct {
    int impl, size;
    u8 state;                 // BenchState
    const char *why;          // of a state that is not right; ""
    double compile_ms;        // source to code that can be launched; not timed with the launches
    double convert_ms;        // of inputs to the layout that the implementation wants, once
    double first_ms;          // the first call, from the host's view, until it has finished
    i64 elements, checked;    // of the output; compared with the reference
    i64 rows, rows_checked;   // equal: every element was compared
    i64 wrong;
    double worst, allowed_abs, allowed_rel; // largest error; |error| <= abs + rel |reference|
    const char *reference;    // "attention, fp64 on the CPU"
    const char *proof;        // of a peer that may degrade: what shows that it did not; ""
    // One launch by both methods, in turn: each vouches for the other. NAN: not measured; it is
    // worth it for a launch of few microseconds.
    double event_ms, graph_ms;
} BenchCase;

// One turn: an implementation at a size in one round of one regime.
typedef struct {
    int impl, size, round;
    u8 regime;                // BenchRegime
    int group;                // launches of one sample
    double load_ms;           // of the same work just before the first sample, untimed
    double idle_ms;           // before that, of doing nothing
    double cool_ms;           // spent waiting for the temperature, before all
    VEC(double) ms;           // samples: milliseconds of ONE launch, in order
    double host_ms;           // that the host took to queue the samples
    bool host_bound;          // the host was not ahead of the device while samples were taken
    RtReading before, after;
    VEC(RtReading) during;
} BenchTurn;

// What is doubtful. The rules in full are bench_warning_rule, a row of guard.c each.
typedef enum {
    BENCH_THROTTLED,          // first and last decile of a turn differ by more than 3%
    BENCH_DRIFT,              // the yardstick's first and last round do
    BENCH_IMPOSSIBLE,         // above the measured ceiling of the device
    BENCH_NOT_MONOTONE,       // a larger job took less time, or a neighbour's speed is far off
    BENCH_NOT_COLD,           // a cold cache was asked for and cannot be true
    BENCH_HOST_BOUND,         // the host was slower than the device
    BENCH_SHORT,              // samples too short for the clock of the marks
    BENCH_HOT,                // began warmer than --cool says, or the card limited itself by heat
    BENCH_NO_METER,           // no clocks and energies: why
    BENCH_FEW_ROUNDS,         // fewer than three rounds: no spread
    BENCH_UNCHECKED,          // was timed, and was not found right and finite before
    BENCH_DISAGREE,           // events and graphs differ by more than 10% on one launch
    BENCH_WARNINGS
} BenchWarningKind;
extern const char *const bench_warning_name[BENCH_WARNINGS]; // "throttled" ...
extern const char *const bench_warning_rule[BENCH_WARNINGS]; // one sentence
typedef struct {
    u8 kind;                  // BenchWarningKind
    int impl, size, regime;   // -1: of all
    bool refused;             // the figure must not stand in a table
    const char *text;         // one sentence with the numbers
} BenchWarning;

typedef struct {
    const char *op;           // "attention"
    const char *title;        // "causal attention, BF16, B=4 H=32 D=128"
    const char *inputs;       // "q,k = uniform(-2,2)  v = uniform(-1,1)"
    const char *formula;      // of TFLOPS, in words: "2 B H S S D / time"
    const char *unit_of_small; // "ms" or "us": how tables print times
    const char *command;      // line that made it
    const char *started;      // UTC, "2026-11-30T11:20:05Z"
    double seconds;           // it took
    u64 seed;
    int warmup, repeat, rounds;
    double cool;              // Celsius; 0: not waited for
    double load_s, idle_s;    // of sustained and burst
    u8 method, cache;         // BenchMethod, BenchCache
    i64 cold_bytes;           // of a cold cache: overwritten before each timed launch; 0
    double product_rate;      // of the tensor cores for these operands against 16-bit ones: 2 for
                              // 8 bits, 0.5 for 32
    bool causal, has_causal;
    int yardstick;            // implementation that ratios are of; -1: none
    const char *incomplete;   // why the run stopped early; NULL: it is complete
    BenchMachine machine;
    VEC(BenchVersion) versions;
    VEC(BenchImpl) impls;
    VEC(BenchSize) sizes;
    VEC(BenchCase) cases;
    VEC(BenchTurn) turns;
    VEC(BenchWarning) warnings;
    Arena *arena;
} Bench;

// ---- stats.c: nothing here changes its input ----------------------------------------------------
double bench_median(Arena *a, const double *x, i64 n);            // NAN for n == 0
double bench_quantile(Arena *a, const double *x, i64 n, double q); // 0..1, between neighbours
// Mean of the first and of the last tenth (at least one sample each): last / first - 1.
double bench_decile_change(const double *x, i64 n);

typedef struct {
    i64 samples, rounds;
    double median, min, max;  // ms of all samples
    double low, high;         // least and largest median of a round
    double tflops, tbs;       // of the median; NAN where there are none
    double ratio, ratio_low, ratio_high; // yardstick's median over this one's; of rounds; NAN
    double joules;            // of one launch
    double watts, tflops_per_watt;
    double sm_mhz, celsius;   // medians of the readings during
    u64 limits;               // reasons that held in more than half of the readings during
} BenchSummary;
// Of one implementation at one size in one regime. samples == 0: there is nothing.
BenchSummary bench_summary(const Bench *b, int impl, int size, BenchRegime regime);
// Joules per second that the counter gained between its first and last step of the readings: it
// steps about every 100 ms, so what lies before the first step and behind the last is left out.
// NAN with fewer than two steps.
double bench_watts(const RtReading *r, i64 n);
const BenchCase *bench_case(const Bench *b, int impl, int size); // NULL: none
// Does any turn of the regime have samples?
bool bench_has(const Bench *b, BenchRegime regime);
// Dense products that a device of this name can do on its tensor cores by its data sheet, with operands
// of the record's width, TFLOPS: never the figure for sparse operands, which is twice that. NAN: the
// device is not known. And what products alone did in the same run, for that width; NAN: not measured.
double bench_peak_tflops(const Bench *b);
double bench_ceiling_tflops(const Bench *b);

// ---- guard.c: appends to b->warnings; idempotent (starts from none) -----------------------------
void bench_warn(Bench *b);
// The refused figure of a table cell, or NULL.
const BenchWarning *bench_refused(const Bench *b, int impl, int size, BenchRegime regime);

// ---- write.c, table.c, markdown.c: refused figures stand in results.json only -------------------
void bench_json(const Bench *b, Buf *out);
void bench_csv(const Bench *b, Buf *out);      // one line an implementation, size and regime
void bench_markdown(const Bench *b, Buf *out);
// What the terminal gets: the table and the warnings, at most about 120 columns.
void bench_text(const Bench *b, Buf *out);

// ---- read.c -------------------------------------------------------------------------------------
// results.json as bench_json wrote it. NULL: the reason is in the Diag (file, what is wrong).
Bench *bench_read(Arena *a, const char *path, Diag *d);
// The same of a file, or of a folder with a results.json in it.
Bench *bench_load_folder_or_file(Arena *a, const char *path, Diag *d);

// ---- plot.c -------------------------------------------------------------------------------------
typedef enum { BENCH_ENGLISH, BENCH_CHINESE } BenchLanguage;
// One panel a size, bars of TFLOPS (of GB/s without flops) from zero on one scale, whiskers over
// the full range of the samples.
void bench_plot(const Bench *b, BenchRegime regime, BenchLanguage language, Buf *out);

// ---- compare.c ----------------------------------------------------------------------------------
// What changed from `a` to `b`, for what both measured, against the spread of the rounds of both;
// also what differs in machine, versions, options and code. Returns the number of figures that
// became slower by more than the spread.
int bench_compare(const Bench *a, const Bench *b, Buf *out);

// ---- store.c ------------------------------------------------------------------------------------
// Writes results.json, summary.csv, summary.md and a plot-burst.svg, plot-sustained.svg of each
// regime that was measured into the folder, which is made where it is missing. Each file appears
// whole or not at all. False: the reason is in the Diag.
// `log`, unless NULL, becomes log.txt.
bool bench_store(const Bench *b, const char *dir, BenchLanguage language, const Buf *log, Diag *d);

#endif
