// bench.h - the parts of `baton bench`:
//   bench.c        the command line, and the order of everything
//   bench_ops.c    operations that can be measured: kernels by name, sizes, the yardstick
//   bench_kernels.c the kernels compiled
//   bench_cpu.c    `baton bench --cpu`
// The contest and the record of it are in src/bench.
#ifndef BATON_CLI_BENCH_H
#define BATON_CLI_BENCH_H

#include "../bench/contest.h"
#include "compile.h"

// ---- bench_ops.c --------------------------------------------------------------------------------
typedef struct {
    const char *name;         // of the backend: "v4"
    const char *word;         // as cli_kernel_word reads it, the file below kernels/
    const char *label;        // for tables
} BenchKnown;

typedef struct {
    const char *name;         // "attention"
    const char *model;        // makes the inputs where only peers take part: one of `known`
    const char *backends;     // when none are named
    const char *yardsticks;   // peers that ratios are of when they take part, in order; comma-separated
    const char *sizes;        // when none are given
    const char *fixed;        // sizes that a short size does not give: "B=4 H=32"
    const char *form;         // of a short size: "S", or "M=N=K" and "MxNxK"
    const char *title;        // "%s attention, BF16, head dimension 128"; %s: causal or dense
    const char *formula;      // of TFLOPS; "" none
    const char *unit;         // that tables print times in
    const char *args;         // contents other than the contract's: "fallback=1"; ""
    bool masked;              // knows --dense
    const BenchKnown *known;
    int nknown;
} BenchOp;
// NULL when there is none; *all lists the names.
const BenchOp *bench_op(const char *name, const char **all);
const BenchKnown *bench_known(const BenchOp *op, const char *backend); // NULL: not a kernel's name
// Peers of the protocol by name, for messages and to tell a slip of the pen from a peer.
bool bench_is_peer(const char *word);
const char *bench_backends_of(Arena *a, const BenchOp *op); // "v1, v2, ..., cudnn, fa2, ..."
// The words of one size, "4096" or "B=1 H=2 S=512", and its short label. False: the reason is in the
// Diag.
bool bench_size_words(const BenchOp *op, const char *text, BenchSizeWords *out, const char **label,
                      Arena *a, Diag *d);

// ---- bench_kernels.c ----------------------------------------------------------------------------
typedef struct {
    VEC(BenchKernel *) kernels; // compiled, in the order of their backends
    VEC(Buf *) code;          // theirs; freed by bench_free_kernels
} BenchKernels;
// Compiles a word as cli_kernel_word reads it with the `extra` macros. `gpu`: for a GPU, so machine
// code where the handoffs need that. NULL: the reason is in the Diag.
BenchKernel *bench_compile(BenchKernels *all, const char *word, const char *name, const char *label,
                           const char *const *extra, int nextra, bool gpu, Arena *a, Diag *d);
void bench_free_kernels(BenchKernels *all);
// The folder with kernels/ and bench/: beside the program, where it is installed, or here. NULL: none.
const char *bench_root(Arena *a);


#endif
