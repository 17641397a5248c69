// cuda.h - thread IR to CUDA C++ for sm_90a: the second printer of the same program, to read and to
// embed. In: a module that passed thread_check, its launch plan, and the file that it came from.
// Out: one .cu text that nvcc compiles without a warning: the host text of the file, the kernels,
// and a launcher `NAME_launch` generated from the plan. Results equal those of the PTX bit for bit,
// since both print each rounding.
#ifndef BATON_CUDA_H
#define BATON_CUDA_H

#include "../plan/plan.h"
#include "../thread/thread.h"

// The source file as text, cut into pieces in their order; what they mean is not this printer's
// business. Texts point into the source.
typedef enum { CUDA_HOST_TEXT, CUDA_DEVICE_TEXT, CUDA_TILE_FUNCTION } CudaPartKind;
typedef struct {
    u8 kind;                   // CudaPartKind
    const char *name;          // of a tile function; NULL when it has none
    Loc loc;                   // first byte
    const char *text;
    size_t text_n;             // bytes
} CudaPart;

typedef struct {               // a macro of the command line
    const char *name, *value;  // value NULL: 1
} CudaDefine;

typedef struct {
    const ThreadModule *module;
    const Plan *plan;
    const CudaPart *parts;     // host and device text is copied around the kernels
    int nparts;                // 0: there is no file
    const CudaDefine *defines; // the host text sees them too
    int ndefines;
    const char *path, *text;   // of the source, for comments
    size_t text_n;
    const char *entry;         // the tile function
} CudaSource;

// False after an error in `d`: a name that C++ has for itself. `out` grows by the whole file.
bool cuda_print(const CudaSource *s, Diag *d, Buf *out);

#endif
