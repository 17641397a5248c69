// store.h - what a kernel writes to one tensor, for output.c and cover.c.
#ifndef BATON_SETS_STORE_H
#define BATON_SETS_STORE_H

#include "space.h"

// A tensor in global memory that the kernel stores to. Stores have the tensor's coordinates, those
// of bulk copies too; `at` and `count` of their accesses span boxes, of which only what lies within
// the tensor is written.
typedef struct {
    const char *name;
    int plan_param; // -1: none
    int fn_param;   // of the kernel, where no plan knows the tensor; -1: none
    int view;       // buffer with extents or strides of its own over the memory of the tensor;
                    // -1: the tensor itself; -2 - k: what the map in kernel parameter k describes,
                    // of which no plan says more
    int rank;
    const Expr *dim[6]; // in the space's pool
    AccessList stores;
    int atomics; // atomic operations on it, which are not among the stores
} Tensor;

typedef enum { COVER_ALL, COVER_GAP, COVER_OPEN } Cover;
typedef struct {
    const char *why; // COVER_OPEN
    Sample sample;   // COVER_GAP: sizes, and what is not written:
    i64 element[6];
    Loc loc; // of the store that leaves it out
} CoverResult;

// cover.c: is every element written by some execution of some store?
Cover cover_tensor(Space *s, Asker *a, const Tensor *t, CoverResult *out);

#endif
