// reference.h - what shipped kernels must compute, written plainly in fp64, by name. The contract's
// `check: reference NAME arguments` chooses one; no part of the compiler is used here.
#ifndef BATON_JOB_REFERENCE_H
#define BATON_JOB_REFERENCE_H

#include "../base/base.h"

enum { REF_MAX_RANK = 6, REF_MAX_INPUTS = 5, REF_MAX_LETTERS = 8 };

// An array as it lies in host memory, dense and row-major.
typedef struct {
    DType type;
    int rank;
    i64 dim[REF_MAX_RANK];
    i64 count;
    const void *data;
} RefTensor;

typedef struct {           // `causal=1`, `scale=rsqrt(D)`
    const char *key, *value;
} RefArgument;

typedef struct Reference Reference;
typedef struct {
    const Reference *ref;
    RefTensor in[REF_MAX_INPUTS];
    int nin;
    RefTensor out;         // what the kernel computed
    // Extents by the letters of the reference's signature ("BSHD"), in order of appearance.
    char letter[REF_MAX_LETTERS];
    i64 extent[REF_MAX_LETTERS];
    int nletters;
    bool causal;           // attention
    double scale;          // attention
    bool reverse, vk;      // correction
    float *f32[REF_MAX_INPUTS]; // inputs as float, where the reference asks for them; malloc'd
    // The output in rows of row_len elements (the last may be shorter), row_dim[] giving the
    // extents that a row number runs over, outer to inner.
    i64 rows, row_len;
    int nrow_dims;
    i64 row_dim[REF_MAX_RANK];
} RefCase;

struct Reference {
    const char *name;
    const char *in[REF_MAX_INPUTS]; // one letter per dimension; NULL in [0]: any shape, all equal
    int nin;
    const char *out;
    int row_rank;          // trailing dimensions of the output that make a row
    bool needs_f32;        // wants RefCase.f32
    const char *arguments; // keys that `check:` may give, separated by blanks
    // Writes elements [first, first + n) of the output, all of one row. `scratch` has
    // scratch_len(case) doubles.
    void (*row)(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch);
    i64 (*scratch_len)(const RefCase *c);
    double (*row_work)(const RefCase *c); // multiply-adds of one row, on average
    double (*flops)(const RefCase *c);    // of the whole job by the usual formula; 0: bytes count
    const char *(*rule)(const RefCase *c); // NULL, or what the extents break; may be left out
};

// NULL when there is none; *all lists the names for messages.
const Reference *ref_find(const char *name, const char **all);
// Binds shapes and arguments. Returns NULL, or what does not fit (lives in the arena). A case that
// was begun must be ended.
const char *ref_begin(Arena *a, const Reference *r, const RefArgument *arg, int nargs, RefCase *c);
void ref_end(RefCase *c);

// ---- compare.c: the check against the reference -------------------------------------------------
typedef struct {
    double abs, rel;       // |got - want| <= abs + rel * |want| for every element
    bool has_expect;
    double expect;         // the error that is usual; more is worth a word but not wrong
} RefTolerance;

typedef struct {
    i64 elements;          // of the output
    i64 rows, rows_checked; // equal unless the job was too large
    i64 checked;           // elements compared
    i64 wrong;             // of those, outside the tolerance (NaN always is)
    i64 nan;               // NaN among ALL elements of the output (unwritten ones are NaN)
    double worst;          // largest |got - want| (infinity when a NaN was compared)
    i64 worst_at;          // its element; -1: nothing compared
    double worst_got, worst_want;
    i64 first_nan;         // -1: none
} RefResult;

// Compares with the reference: every row where that takes at most about `budget` multiply-adds,
// else a sample of at least 2,048 rows with all corners and tile edges and the rest drawn by
// `seed`.
RefResult ref_compare(Arena *a, const RefCase *c, const RefTolerance *t, double budget, u64 seed);

#endif
