// run.h - the parts of `baton run`:
//   run.c         the command line, and the order of everything
//   arguments.c   values of symbols, extents, contents of the arrays
//   execute.c     the device: memory with guards, launches, times, hazards
//   report.c      what the user reads
#ifndef BATON_CLI_RUN_H
#define BATON_CLI_RUN_H

#include "../../rt/rt.h"
#include "compile.h"
#include "../contract.h"
#include "data.h"
#include "reference.h"

// A setting of the command line; where it names nothing that exists, arguments.c says so.
typedef struct {
    const char *name, *text; // NAME=TEXT
} RunSetting;

typedef struct {             // the command line
    CliSource source;
    VEC(RunSetting) sizes;   // S=512
    VEC(RunSetting) args;    // --arg q=uniform(-1,1)
    VEC(RunSetting) outs;    // --out o=FILE.npy
    u64 seed;
    const char *device;      // auto, emu, cuda:N
    int gpu;                 // N
    EmuSchedule schedule;
    bool emulator_asked;     // an option that only the emulator has
    i64 sms;                 // of the emulated card; 0: the usual number
    i64 seeds, warmup, repeat;
    bool once, time, no_hazards, help;
} RunOptions;

enum { RUN_GUARD = 4096, RUN_GUARD_BYTE = 0x7f }; // bytes around every array, and what they hold

typedef struct {             // one parameter of the tile function
    const PlanParam *param;
    PlanValue value;         // type, extents, scalars; data is the device address
    i64 count;               // elements
    size_t bytes;
    bool has_spec;           // input: where its values come from
    DataSpec spec;
    const char *from;        // "--arg", "contract", "default"
    u8 *block;               // host: RUN_GUARD + bytes + RUN_GUARD, as it goes to the device
    u8 *result;              // host, same size: as it came back (outputs)
    u8 *first;               // host: the result of the first schedule, when there are several
    u8 *device;              // device: the same block
} RunArray;

// One run: filled from top to bottom as the stages of run.c go by, and read by the report.
typedef struct {
    const RunOptions *options;
    Compilation *c;
    const Plan *plan;
    const Contract *contract; // NULL: the file has none
    const struct StressCase *from_case; // a .thr file and what its comments say; NULL: a .co file
    const char *unexpected;  // what the comments expect and the outputs are not; NULL
    Arena *arena;
    Diag *diag;
    int narrays;             // parameters that the caller passes; workspaces are the runtime's
    RunArray *array;         // one per such parameter
    i64 *symbol;             // one per symbol of the plan
    // execute.c
    RtDevice *device;
    RtModule *module;
    Buf cubin;               // machine code that was audited; empty: the device assembles
    RtLaunch *launch;
    RtTimes times;
    const char *device_note; // why not the GPU; NULL
    double emulator_ms;      // all schedules together
    i64 warp_ops;            // of one schedule
    int schedules_run, schedules_with_hazards;
    i64 hazards;             // distinct ones, of the first schedule that has any
    Buf hazard_text;
    const char *differs;     // an output that depends on the schedule, or NULL
    const char *guard;       // what was written outside an array, or NULL
    bool timed;
    RtTiming timing;
    // check
    const Reference *reference; // NULL: unchecked
    RefCase job;
    RefTolerance tolerance;
    RefResult found;
    const RunArray *checked; // the output that was compared
} Run;

// ---- run.c ---------------------------------------------------------------------------------------
// Words of the command line, for other commands that run kernels; errors go to the Diag.
// NAME=TEXT; false with an error that shows `example`.
bool run_setting(const char *word, const char *what, const char *example, RunSetting *out,
                 Arena *a, Diag *d);
// *out keeps its value after an error.
void run_integer(const char *name, const char *text, i64 lo, i64 hi, i64 *out, Diag *d);
void run_choose_device(RunOptions *o, const char *word, Diag *d);
// Binds the contract's reference to the arrays; then, with the results there, compares. False: it
// does not fit, the reason is in the Diag. Without a reference both are true.
bool run_find_reference(Run *r);
bool run_check(Run *r);

// ---- arguments.c: each returns false with the reason in the Diag ------------------------------
bool run_bind_sizes(Run *r);   // symbols, extents, scalars
bool run_fill_arrays(Run *r);  // host blocks with values, poison and guards
void run_free_arrays(Run *r);
bool run_check_outputs(Run *r); // before anything runs: --out names outputs
bool run_write_outputs(Run *r);

// ---- execute.c: exit status ---------------------------------------------------------------------
// The exit status of a failed call, with its reason in the Diag behind `doing`.
int run_device_error(Run *r, const RtError *e, const char *doing);
int run_open_device(Run *r);
int run_execute(Run *r);       // loads, launches, brings the outputs back
int run_prepare(Run *r);       // the first half of run_execute: everything but the launches
// Launches once more under the calm schedule of the emulator, with a record or a fault of
// emu/history.h (either may be NULL); outputs are in `result` then.
int run_calm(Run *r, struct EmuHistory *history, const struct EmuFault *fault);
int run_measure(Run *r);       // times it on a GPU
void run_close(Run *r);

// ---- report.c -----------------------------------------------------------------------------------
bool run_is_right(const Run *r);
void run_report(const Run *r, Buf *out);

#endif
