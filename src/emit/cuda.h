// cuda.h - thread IR to CUDA C++ for sm_90a: the second printer of the same program, to read and to
// embed. In: a module that passed thread_check, its launch plan, and the file that it came from.
// Out: one .cu text that nvcc compiles without a warning: the host text of the file, the kernels,
// and a launcher `NAME_launch` generated from the plan. Results equal those of the PTX bit for bit,
// since both print each rounding.
#ifndef BATON_CUDA_H
#define BATON_CUDA_H

#include "../ast/ast.h"
#include "../plan/plan.h"
#include "../thread/thread.h"

typedef struct {
    const ThreadModule *module;
    const Plan *plan;
    const AstFile *ast;        // its host and device text is copied; NULL: there is none
    const AstDefine *defines;  // of the command line: the host text sees them too
    int ndefines;
    const char *path, *text;   // of the source, for comments
    size_t text_n;
    const char *entry;         // the tile function
} CudaSource;

// False after an error in `d`: a name that C++ has for itself. `out` grows by the whole file.
bool cuda_print(const CudaSource *s, Diag *d, Buf *out);

#endif
