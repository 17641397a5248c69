// ops.h - what a contest knows of operations: kernels by name, the sizes that are usual and the
// short way to write them, the formula of the speed, the yardsticks.
#ifndef BATON_BENCH_OPS_H
#define BATON_BENCH_OPS_H

#include "contest.h"

// Operations of one launch of bench/ceiling.co on one multiprocessor: two warpgroups, 8192 rounds
// of 64 x 256 x 64 multiply-adds.
#define BENCH_PRODUCTS_FLOPS (2.0 * 8192 * 2 * 64 * 256 * 64)

typedef struct {
    const char *name;  // of the backend: "v4"
    const char *word;  // as cli_kernel_word reads it, the file below kernels/
    const char *label; // for tables
} BenchKnown;

typedef struct {
    const char *name;       // "attention"
    const char *reference;  // that the contracts of its kernels name: "attention"
    const char *model;      // makes the inputs where only peers take part: one of `known`
    const char *backends;   // when none are named
    const char *yardsticks; // peers that ratios are of, the first that takes part; by commas
    const char *sizes;      // when none are given
    const char *fixed;      // sizes that a short size does not give: "B=4 H=32"
    const char *form;       // of a short size: "S", or "M=N=K" and "MxNxK"
    const char *title;      // "%s attention, BF16, head dimension 128"; %s: causal or dense
    const char *formula;    // of TFLOPS; "" none
    const char *unit;       // that tables print times in
    const char *args;       // contents other than the contract's: "fallback=1"; ""
    bool masked;            // knows --dense
    const BenchKnown *known;
    int nknown;
} BenchOp;
// NULL when there is none; *all lists the names.
const BenchOp *bench_op(const char *name, const char **all);
const BenchOp *bench_op_of(const char *reference); // by the reference of a contract; NULL
const BenchKnown *bench_known(const BenchOp *op, const char *backend); // NULL: not a kernel's name
// Peers of the protocol by name, for messages and to tell a slip of the pen from a peer.
bool bench_is_peer(const char *word);
const char *bench_backends_of(Arena *a, const BenchOp *op); // "v1, v2, ..., cudnn, fa2, ..."
// The words of one size, "4096" or "B=1 H=2 S=512", and its short label. False: the reason is in
// the Diag.
bool bench_size_words(const BenchOp *op, const char *text, BenchSizeWords *out, const char **label,
                      Arena *a, Diag *d);
// What a record says of the inputs: "q = uniform(-2,2)  k = ..". Those of the job win over the
// contract's.
const char *bench_inputs(Arena *a, const Contract *k, const JobOptions *job);
// A record in the arena that says what is measured, when and by which baton. How (warmup, rounds,
// method,
// ...) is the caller's to say. `op` NULL: an operation that no row knows; times are in
// microseconds.
Bench *bench_begin(Arena *a, const BenchOp *op, const Contract *k, const JobOptions *job,
                   const char *command);
// Now, as strftime formats it, in UTC.
const char *bench_utc(Arena *a, const char *format);

#endif
