// bench.h - the parts of `baton bench`:
//   bench.c        the command line, and the order of everything
//   bench_kernels.c the kernels compiled
//   bench_cpu.c    `baton bench --cpu`
// The contest, the record of it and what is known of operations are in src/bench.
#ifndef BATON_CLI_BENCH_H
#define BATON_CLI_BENCH_H

#include "../bench/ops.h"
#include "compile.h"

// ---- bench_kernels.c ----------------------------------------------------------------------------
typedef struct {
    VEC(BenchKernel *) kernels; // compiled, in the order of their backends
    VEC(Buf *) code;            // theirs; freed by bench_free_kernels
} BenchKernels;
// Compiles a word as cli_kernel_word reads it with the `extra` macros. `gpu`: for a GPU, so machine
// code where the handoffs need that. NULL: the reason is in the Diag.
BenchKernel *bench_compile(BenchKernels *all, const char *word, const char *name, const char *label,
                           const char *const *extra, int nextra, bool gpu, Arena *a, Diag *d);
void bench_free_kernels(BenchKernels *all);
// The folder with kernels/ and bench/: beside the program, where it is installed, or here. NULL:
// none.
const char *bench_root(Arena *a);

#endif
