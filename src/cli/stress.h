// stress.h - the parts of `baton stress`:
//   stress.c         the command line, the versions of the kernel, the verdict
//   stress_case.c    a kernel of the thread IR with its arrays, from one .thr file
//   stress_child.c   the process that may hang: launches, comparisons, the reduction
//   stress_watch.c   the process that watches it
// What is changed in the program, and what the outcomes mean, is in src/stress.
//
// All launches are made by a child process, which alone opens the device: a kernel that does not
// come back takes its process with it and nothing else. The child tells of everything it does
// through a pipe, before and after; silence is a hang.
#ifndef BATON_CLI_STRESS_H
#define BATON_CLI_STRESS_H

#include "../stress/stress.h"
#include "run.h"

typedef struct {
    RunOptions run;        // file, sizes, inputs, device, seed
    i64 launches;          // of each seed
    i64 seeds;
    i64 only;              // --launch: this one alone, `launches` times; -1
    i64 time_limit;        // seconds for all
    i64 hang_limit;        // seconds for one launch
    bool unprotected;      // the version without protection is the kernel under test
    const char *print;     // "thread" or "ptx": print the program with its delays, and stop
    bool help;
} StressOptions;

// ---- stress_case.c ------------------------------------------------------------------------------
// The comments of a .thr file say what its kernel is launched with: `# arg`, `# tmap`, `# scalar`,
// `# grid:` and, for what must come out, `# expect`, `# wrong:`.
typedef struct StressCase {
    ThreadModule *thread;
    Plan *plan;
    const char **fill;     // per parameter of the plan: "iota", "mod 7", ...; NULL: a scalar
    VEC(const char *) expect; // "out == h", "out[3] = 4.0", "out = 1.0 + 2.0*i"
} StressCase;
bool stress_read_case(const char *path, JobOptions *o, Arena *a, ExprPool *e, Diag *d,
                      StressCase *out);
// Over what job_fill_arrays put there, but for what --arg gave.
void stress_fill_case(const StressCase *c, Job *r);
// Compiles the .co file of the options, or reads the .thr file: plan, contract, thread IR and PTX.
// False: the reason is in the Diag. *out is filled for a .thr file, and r->from_case says so.
bool stress_read_program(const CliSource *source, Job *r, StressCase *out);
// NULL when the results are as expected, else what differs.
const char *stress_check_case(const StressCase *c, Job *r);

// ---- what is stressed ---------------------------------------------------------------------------
// The kernel as it is and with delays; the same two without the protection of its releases.
enum { STRESS_AS_IS = 0, STRESS_DELAYED = 1, STRESS_OPEN = 2, STRESS_VERSIONS = 4 };
typedef struct {
    bool made;
    ThreadModule *thread;
    Plan *plan;
    Buf ptx;
    StressProgram delays;  // of the versions with delays
    RtModule *module;      // child
} StressVersion;

enum { STRESS_SETS = 2 };  // sets of inputs
typedef struct {
    const StressOptions *o;
    Job *r;                // plan, arrays (contents: the first set), device, reference
    const StressCase *from_case; // NULL: a .co file
    StressVersion version[STRESS_VERSIONS];
    StressPlaces fences;   // that the open version lacks
    int warps;             // of a block
    i64 blocks;            // of the largest grid (child)
    double deadline;       // milliseconds of the monotonic clock
} Stress;

// ---- between the processes ----------------------------------------------------------------------
typedef enum {
    TOLD_LINE,             // text: a line of the report, or nothing
    TOLD_BEGIN,            // the launch begins
    TOLD_SAME,             // it ended with the bits of the quiet run
    TOLD_OTHER,            // it ended with others; text: which
    TOLD_DIED,             // it ended with an error; text: which; the child ends
    TOLD_TRY,              // the reduction launches once more
    TOLD_EXPLAINS,         // the emulator looks for what the wrong values are
    TOLD_REDUCED,          // text: the fewest delays; several lines
    TOLD_FAILED,           // nothing was launched: text, exit status
    TOLD_OVER,             // the last launch was made
} StressToldKind;
typedef struct {
    u8 kind;               // StressToldKind
    bool open;             // of the version without protection
    bool delayed;
    int status;            // TOLD_FAILED
    u64 seed;
    i64 number;            // of the launch; STRESS_QUIET
    char text[2000];
} StressTold;
enum { STRESS_QUIET = -1 };

// ---- stress_child.c -----------------------------------------------------------------------------
// Launches from (seed index, number) on until all are made or the deadline has passed, and writes
// what happens to `fd`. `with_open`: the open version too; `again`: another child was here before.
typedef struct {
    i64 seed, number;      // seed: counted from the first
    bool with_open, again;
} StressFrom;
void stress_child(Stress *s, const StressFrom *from, int fd);

// ---- stress_watch.c -----------------------------------------------------------------------------
typedef struct {
    StressTally kernel, open;
    Buf report;            // lines for the user, in order
    int status;            // TOLD_FAILED: the exit status, else 0
} StressOutcome;
// What launch `number` of a seed is for this program.
StressLaunch stress_launch_of(const Stress *s, u64 seed, i64 number);
// Runs children until the work is done. `out` gets everything; the caller frees its report.
void stress_watch(Stress *s, StressOutcome *out);

#endif
