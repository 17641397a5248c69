// host.h - the functions of the host that a launch plan may name (`host NAME into TENSOR args
// (...)`): each fills one tensor that the kernels only read, from integers alone, before they are
// launched.
// One table, so that the plan's checker, the runtime and the documentation know the same ones.
//
// A function is a value: the same arguments give the same bytes on every machine, which lets the
// runtime keep the result per set of arguments.
#ifndef BATON_OPS_HOST_H
#define BATON_OPS_HOST_H

#include "../src/base/expr.h"

enum { OPS_HOST_MAX_ARGS = 8, OPS_HOST_MAX_RANK = 2 };

typedef struct {
    i64 dim[OPS_HOST_MAX_RANK];   // extents of the result, elements
    size_t bytes;                 // of the result
    size_t scratch_bytes;         // of working memory
} OpsHostSize;

// What holds in the result, row by row: least <= element[row][column] - element[row][minus] <= most
// for from <= row < to. The verifier rests on it, so it must hold whatever the arguments are.
typedef struct {
    int column, minus;            // minus -1: nothing is subtracted
    const Expr *from, *to;        // rows
    const Expr *least, *most;     // NULL: no such bound
} OpsHostBound;
enum { OPS_HOST_MAX_BOUNDS = 8 };

typedef struct {
    const char *name;
    int nargs;                    // up to OPS_HOST_MAX_ARGS
    const char *args;             // their names, for messages
    DType type;                   // of the result's elements
    int rank;                     // of the result, up to OPS_HOST_MAX_RANK
    // Extents of the result as expressions of the arguments, `rank` of them: what `size` computes.
    void (*extents)(ExprPool *e, const Expr *const *args, const Expr **dim);
    // Both return NULL, or a sentence (static) that says what is wrong with the arguments.
    const char *(*size)(const i64 *args, OpsHostSize *out);
    // Fills the result, dense and row-major. `scratch` and `out` are aligned to 8 bytes and owned
    // by the caller.
    const char *(*fill)(const i64 *args, void *scratch, void *out);
    // Bounds of an s32 result as expressions of the arguments; returns how many, up to
    // OPS_HOST_MAX_BOUNDS. NULL: nothing is said.
    int (*bounds)(ExprPool *e, const Expr *const *args, OpsHostBound *out);
} OpsHostFunction;

// NULL when there is no function of that name.
const OpsHostFunction *ops_host_find(const char *name);
// Does the result that `fill` made keep the function's own bounds? NULL, or a sentence (static).
const char *ops_host_check(const OpsHostFunction *f, const i64 *args, const OpsHostSize *size,
                           const void *result);
// Name number `index` of the table in its order, NULL past the end.
const char *ops_host_name(int index);

#endif
