// data.h - where the values of inputs come from: generators and .npy files, as `--arg NAME=SPEC`
// and the contract's `inputs:` write them.
//
//     uniform(a,b)   normal(mean,deviation)   iota   zeros   2.5   FILE.npy   bf16:FILE.npy
//     list(0,3,7)    cuts(S)
//
// A generated value depends on the seed, the parameter's name and the element's index alone:
// neither on other parameters nor on the number of threads.
#ifndef BATON_JOB_DATA_H
#define BATON_JOB_DATA_H

#include "npy.h"

typedef enum {
    DATA_UNIFORM,
    DATA_NORMAL,
    DATA_IOTA,
    DATA_CONSTANT,
    DATA_FILE,
    DATA_LIST, // the numbers themselves, as many as there are elements
    DATA_CUTS  // whole numbers that rise from 0 to a: where a range is cut, unevenly
} DataKind;
// Where one input's values come from, understood; files are read by data_load.
typedef struct {
    u8 kind;          // DataKind
    double a, b;      // uniform: bounds; normal: mean, standard deviation; constant, cuts: a
    const char *size; // cuts: the size that a is, until its value is known; NULL: a is a number
    double *list;     // DATA_LIST
    int nlist;
    const char *path; // DATA_FILE
    int raw;          // DATA_FILE: DType that unsigned integers of the file are the bits of, or -1
    NpyArray array;   // DATA_FILE, after data_load
    const char *text; // as written, for the report
} DataSpec;

// Reads a SPEC. Returns NULL, or what is wrong (lives in the arena).
const char *data_parse(Arena *a, const char *text, DataSpec *out);
// Reads the file of a DATA_FILE spec into the arena's memory; nothing for generators.
const char *data_load(Arena *a, DataSpec *s);
// Fills `count` elements. A file must have that many; its element type is converted where no value
// can be lost but by rounding between float types. Returns NULL, or what is wrong.
const char *data_fill(Arena *a, const DataSpec *s, u64 seed, const char *name, DType type,
                      i64 count, void *out);
// The first element as a number, for scalar parameters.
double data_scalar(const DataSpec *s, u64 seed, const char *name, DType type);

// Element i as a number, and a number as element i (rounded to nearest even; integers truncate).
double data_get(DType type, const void *p, i64 i);
void data_put(DType type, void *p, i64 i, double v);
// How many of `count` elements are infinite or NaN.
i64 data_count_not_finite(DType type, const void *p, i64 count);

#endif
