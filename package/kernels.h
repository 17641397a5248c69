// kernels.h - the kernels of a package as a table: kernels.c, which `baton package` writes. Files
// are named from the folder of the package on. The launch plan (parameters, grid, tensor maps,
// checks) stands in comment lines at the head of the PTX.
#ifndef PACKAGE_KERNELS_H
#define PACKAGE_KERNELS_H

#include "../src/contract.h"

typedef struct {
    const char *name;       // "v4"
    const char *title;      // the first sentence of its source
    const char *options;    // of the compiler, "" none
    const char *source, *source_sha256; // kernels/v4.co
    const char *ptx, *ptx_sha256;       // generated/v4.ptx
    const char *cuda, *cuda_sha256;     // generated/v4.cu
    const char *cubin, *cubin_sha256;   // generated/v4.cubin, machine code by ptxas; NULL: none
    bool audited;           // only this machine code may run: it was looked at (policy `delay`)
    Contract contract;      // operation, inputs, reference and tolerances
} Kernel;

extern const Kernel kernels[];  // of one operation
extern const int kernel_count;
// Nothing but products: what the tensor cores of a device do at most.
extern const Kernel ceiling;

#endif
