// diagnose.h - wrong values explained by the generation of a slot that a read saw: which buffer,
// how far from the one that was due, in which rounds.
//
// How to call it, for a program that has run with wrong outputs:
//
//     EmuHistory *h = emu_history_new(arena, bytes);        one calm run on the emulator with
//     ... EmuLaunch.history = h ...                         the same inputs: the record
//     DiagnoseJob job = {.arena = arena, .history = h, .noutputs = n, .output = outputs,
//                        .run = again, .ctx = me, .max_runs = DIAGNOSE_RUNS};
//     DiagnoseResult r;
//     diagnose(&job, &r);
//     diagnose_print(&job, &r, &text);
//
// `again` runs the whole plan once more, calm, with EmuLaunch.fault = f, and says where the outputs
// then are. Each hypothesis is "reads of buffer X at order n saw order n + d": d is 1 to 4
// generations of the same slot forward (a late read: the slot was filled again), one back (a read
// before the data came), or another slot. A wrong element counts as explained when some run of the
// hypothesis gives it bit for bit. Which reads are late is tried out: all orders, and each one. For
// what is left unexplained, where late values go on into later ones or several meet in one element,
// a walk from the first order to the last, warp by warp, that keeps what makes more values come
// out, in every block by itself; then slots, beginnings, ends, pairs and all subsets of up to ten
// orders.
//
// diagnose_direct needs no program: it compares wrong values with an array of what the buffer
// should have held, shifted along one dimension.
#ifndef BATON_EMU_DIAGNOSE_H
#define BATON_EMU_DIAGNOSE_H

#include "history.h"

enum { DIAGNOSE_RUNS = 2000 };

// What explains less than one wrong element in so many is no finding: types of few bits meet values
// by chance.
enum { DIAGNOSE_CHANCE = 20 };

// An array that the program writes.
typedef struct {
    const char *name;
    DType type;
    int rank;
    i64 dim[6], count;     // elements; the product of dim
    const u8 *right, *wrong; // count elements each; wrong NULL: not given, nothing is looked for
    const u8 *address;     // where the recorded launches had it; NULL: not known
} DiagnoseOutput;

typedef struct {
    Arena *arena;
    const EmuHistory *history;
    int noutputs;
    const DiagnoseOutput *output;
    // Runs with the fault; result[k] becomes the contents of output k, valid until the next call.
    // False ends the search.
    bool (*run)(void *ctx, const EmuFault *f, const u8 **result);
    void *ctx;
    int max_runs;          // of `run`; what was not tried is said
    const Diag *files;     // names of files for the report; may be NULL
} DiagnoseJob;

typedef struct {
    int launch;
    i32 buffer;
    u32 slots;
    i32 distance;          // in orders: a multiple of `slots` is the same slot
    i64 explained;         // wrong elements that no finding before it explains
    bool several;          // some of them only by several late reads together
    u8 *orders;            // one bit each: the orders whose reads explain them
    u32 norders;
    int param;             // tensor of the bulk loads, as a kernel parameter; -1: none
    int rank;              // of their box
    i32 steps[TMA_MAX_RANK]; // tiles from the one that was due to the one that was seen, innermost
                           // dimension first
    i32 offset[TMA_MAX_RANK]; // the same in elements
    bool even;             // the same steps at all these orders
    VEC(EmuReader) readers; // of these orders, merged by operation
    int alike;             // further hypotheses that explain all of the same elements
    const char *alike_text; // the first of them, in words
} DiagnoseFinding;

typedef struct {
    i64 elements, wrong, explained;
    i64 chance;            // not explained, but met by runs that are no finding
    int runs;
    bool cut;              // max_runs was reached before all was tried
    bool partial;          // the record did not fit its limit
    VEC(DiagnoseFinding) findings; // most explained elements first
} DiagnoseResult;

void diagnose(const DiagnoseJob *j, DiagnoseResult *out);
// Lines of text, from "N of M elements of .. are wrong" to "N are not explained".
void diagnose_print(const DiagnoseJob *j, const DiagnoseResult *r, Buf *out);

// What an array of tiles says without a program. Shapes must agree but for one dimension.
typedef struct {
    bool fits;             // shapes can be compared
    int axis;              // the dimension that tiles follow one another in
    i64 base;              // right values equal the array `base` further on (0, or -1 for a delay)
    i64 distance;          // wrong values equal it `distance` further than that
    i64 wrong, equal;      // wrong elements, and those equal at that distance
    i64 settled;           // right elements equal at `base`, of `settled_of`
    i64 settled_of;
} DiagnoseDirect;

// o->right may be NULL: then the elements that are not equal at the commonest shift are the wrong
// ones. Values are compared as numbers, so the types may differ.
DiagnoseDirect diagnose_direct(const DiagnoseOutput *o, DType type, int rank, const i64 *dim,
                               const u8 *values);
void diagnose_direct_print(const DiagnoseOutput *o, const char *name, const DiagnoseDirect *d,
                           Buf *out);

#endif
