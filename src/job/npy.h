// npy.h - arrays in NumPy's .npy files: little-endian, C order, versions 1 to 3 of the header.
#ifndef BATON_JOB_NPY_H
#define BATON_JOB_NPY_H

#include "../base/base.h"

enum { NPY_MAX_RANK = 6 };

// An array inside the bytes of a file, which the caller keeps.
typedef struct {
    DType type;       // NumPy has no bf16: such files hold uint16 (DT_U16) and the caller knows
    int rank;
    i64 dim[NPY_MAX_RANK];
    i64 count;        // elements; the product of dim
    const u8 *data;   // count * dtype_bytes[type] bytes inside the text that was read
} NpyArray;

// Understands the n bytes of a file. Returns NULL, or what is wrong (lives in the arena). Any bytes
// are safe; sizes are checked against n before anything is read.
const char *npy_read(Arena *a, const void *bytes, size_t n, NpyArray *out);

// Appends a file with the array. bf16 and the 8-bit floats are written as the unsigned integers of
// the same size, tf32 as float32.
void npy_write(DType type, int rank, const i64 *dim, const void *data, Buf *out);

#endif
