// job.h - a compiled kernel with its numbers and arrays on a device, ready to be launched and
// checked. Needs no compiler: the program comes as code (rt.h) with its launch plan, what it should
// compute as a Contract. `baton run` and its kin fill a Job from a .co file, a package from its own
// table.
//
//   arguments.c   values of symbols, extents, contents of the arrays
//   execute.c     the device: memory with guards, launches, times, hazards
//   check.c       the result against the reference that the contract names
//
// Contents and references: data.h, reference.h.
#ifndef BATON_JOB_H
#define BATON_JOB_H

#include "../../rt/rt.h"
#include "../contract.h"
#include "data.h"
#include "reference.h"
#include "words.h"

// A setting of the command line; where it names nothing that exists, arguments.c says so.
typedef struct {
    const char *name, *text; // NAME=TEXT
} JobSetting;

typedef struct {           // what is asked for, besides the program
    VEC(JobSetting) sizes; // S=512
    VEC(JobSetting) args;  // --arg q=uniform(-1,1)
    VEC(JobSetting) outs;  // --out o=FILE.npy
    u64 seed;
    const char *device; // auto, emu, cuda:N
    int gpu;            // N
    EmuSchedule schedule;
    bool emulator_asked; // an option that only the emulator has
    i64 sms;             // of the emulated card; 0: the usual number
    i64 seeds, warmup, repeat;
    bool once, no_hazards;
    double check_work; // multiply-adds that the check may take; 0: about three seconds'
} JobOptions;

enum { JOB_GUARD = 4096, JOB_GUARD_BYTE = 0x7f }; // bytes around every array, and what they hold

typedef struct { // one parameter of the tile function
    const PlanParam *param;
    PlanValue value; // type, extents, scalars; data is the device address
    i64 count;       // elements
    size_t bytes;
    bool has_spec; // input: where its values come from
    DataSpec spec;
    const char *from; // "--arg", "contract", "default"
    u8 *block;        // host: JOB_GUARD + bytes + JOB_GUARD, as it goes to the device
    u8 *result;       // host, same size: as it came back (outputs)
    u8 *first;        // host: the result of the first schedule, when there are several
    u8 *device;       // device: the same block
} JobArray;

// Filled from top to bottom as the stages go by, and read by reports. Whoever makes it fills the
// part up to `diag`, and `code` before job_prepare.
typedef struct {
    const JobOptions *options;
    const char *path; // of the source, for messages
    const Plan *plan;
    const Contract *contract; // NULL: the file has none
    // Of commands, NULL in a package; nothing in src/job looks inside.
    struct Compilation *c;              // what it was compiled from
    const struct StressCase *from_case; // a .thr file and what its comments say; NULL: a .co file
    Arena *arena;
    Diag *diag;
    RtCode code;
    // arguments.c
    int narrays;     // parameters that the caller passes; workspaces are the runtime's
    JobArray *array; // one per such parameter
    i64 *symbol;     // one per symbol of the plan
    // execute.c
    RtDevice *device;
    RtModule *module;
    RtLaunch *launch;
    RtTimes times;
    const char *device_note; // why not the GPU; NULL
    double emulator_ms;      // all schedules together
    i64 warp_ops;            // of one schedule
    int schedules_run, schedules_with_hazards;
    i64 hazards; // distinct ones, of the first schedule that has any
    Buf hazard_text;
    const char *differs; // an output that depends on the schedule, or NULL
    const char *guard;   // what was written outside an array, or NULL
    bool timed;
    RtTiming timing;
    // check.c
    const Reference *reference; // NULL: unchecked
    RefCase job;
    RefTolerance tolerance;
    RefResult found;
    const JobArray *checked; // the output that was compared
    const char *unexpected;  // what a .thr file's comments expect and the outputs are not; NULL
} Job;

// ---- check.c
// ------------------------------------------------------------------------------------- Binds the
// contract's reference to the arrays; then, with the results there, compares. False: it does not
// fit, the reason is in the Diag. Without a reference both are true.
bool job_find_reference(Job *r);
bool job_check(Job *r);
// The array inside its guarded block, which is `block` or `result` of the array.
RefTensor job_tensor(const JobArray *a, const u8 *block);
// NULL when the function has no such parameter.
const JobArray *job_array(const Job *r, const char *name);

// ---- arguments.c: each returns false with the reason in the Diag
// --------------------------------- NAME=TEXT; false with an error that shows `example`.
bool job_setting(const char *word, const char *what, const char *example, JobSetting *out, Arena *a,
                 Diag *d);
// A whole number in [lo, hi]; *out keeps its value after an error.
void job_integer(const char *name, const char *text, i64 lo, i64 hi, i64 *out, Diag *d);
// auto, emu, cuda:N. Whether there is such a device is found out when it is opened.
void job_choose_device(JobOptions *o, const char *word, Diag *d);
bool job_bind_sizes(Job *r);  // symbols, extents, scalars
bool job_fill_arrays(Job *r); // host blocks with values, poison and guards
void job_free_arrays(Job *r);
bool job_check_outputs(Job *r); // before anything runs: --out names outputs
bool job_write_outputs(Job *r);

// ---- execute.c: exit status (words.h) ------------------------------------------------------
// The exit status of a failed call, with its reason in the Diag behind `doing`.
int job_device_error(Job *r, const RtError *e, const char *doing);
int job_open_device(Job *r);
bool job_on_emulator(const Job *r); // once a device is open
int job_prepare(Job *r);            // loads the code, makes the arrays on the device, the launch
int job_execute(Job *r);            // job_prepare, launches, brings the outputs back
int job_copy_in(Job *r);            // arrays with their contents and guards onto the device
int job_launch(Job *r);             // once, and waits
int job_copy_out(Job *r);           // outputs into `result`; guards are looked at
// Launches once more under the calm schedule of the emulator, with a record or a fault of
// emu/history.h (either may be NULL); outputs are in `result` then.
int job_calm(Job *r, struct EmuHistory *history, const struct EmuFault *fault);
int job_measure(Job *r); // times it on a GPU
// Gives back what job_prepare made; the device stays open, for a device that several jobs share.
void job_leave_device(Job *r);
void job_close(Job *r); // that, and the device

#endif
