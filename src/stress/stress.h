// stress.h - random delays at the handoffs of a kernel: the program that makes them, the choice of
// delays for one launch, the version with its protection taken away, and the search for the fewest
// delays that still do harm. Reads and rewrites the thread IR and the launch plan and nothing
// above; knows no device.
//
// One program serves all launches. Whether a warp is delayed at a point, and how long, is a
// function of numbers that the kernel gets as parameters: seed, share of visits, longest delay,
// which points, warps, blocks and visits. They are parameters and no table in memory, since a load
// in front of each handoff would be one more thing that the warp waits for, and would go through
// the same pipe as the loads whose lateness is looked for.
#ifndef BATON_STRESS_H
#define BATON_STRESS_H

#include "../plan/plan.h"
#include "../thread/thread.h"

enum {
    STRESS_MAX_POINTS = 256,
    STRESS_MASKS = STRESS_MAX_POINTS / 32,
    STRESS_ALL_VISITS = 0x7fffffff,
    STRESS_ALL_BLOCKS = 0x7fffffff,
};

// A place of the program where warps may be delayed.
typedef struct {
    Loc loc;
    u8 op;                 // ThreadOpcode beside it
    bool after;            // behind it; else in front
    bool lanes;            // only some lanes of a warp pass here
} StressPoint;

// What was added to a program. Plan parameters [first_param, first_param + nparams) are the
// delays, scalars in the order that stress_values fills.
typedef struct {
    VEC(StressPoint) points;
    int dropped;           // points beyond STRESS_MAX_POINTS, which got no delay
    int first_param, nparams;
    bool idle;             // some kernel has warps without work, which can load beside the others
} StressProgram;

// The delays of one launch. A warp counts the points that it passes, from 0: its visits. Where only
// some of its lanes pass, these are counted apart.
typedef struct {
    u32 seed;
    u32 rate;              // of 65,536 visits, on the average, are delayed; 0: none
    u32 longest;           // 0 to 20: delays of 32 to 63 << longest cycles, all sizes alike
    u32 warps;             // bit w: warp w of each block
    i32 first, last;       // visits [first, last)
    i32 first_block, last_block; // blocks [first, last) of the grid, x first
    i32 idle_rounds;       // of loads with bank conflicts by warps that have nothing else to do
    u32 points[STRESS_MASKS];    // bit p % 32 of word p / 32: point p
} StressDelays;
StressDelays stress_no_delays(void); // rate 0, everything else open

// ---- delay.c ------------------------------------------------------------------------------------
// Puts delays into every kernel of the module, and their parameters into the plan. What the kernel
// computes stays the same. `out` lives in the module's arena. The result keeps the law
// (thread_check, plan_check).
void stress_instrument(ThreadModule *m, Plan *p, StressProgram *out);
// The values of the added parameters: s->nparams of them.
void stress_values(const StressProgram *s, const StressDelays *d, PlanValue *out);
// Is a visit delayed, and by how many cycles? What the program computes, for tests and reports.
u32 stress_cycles(const StressDelays *d, int point, bool lanes, i64 block, int warp, i32 visit);

// ---- weaken.c -----------------------------------------------------------------------------------
// Takes away the proxy fences that stand between ordinary reads of a buffer that bulk copies fill
// and what comes behind (O6), where they protect nothing else. Returns how many; their places are
// appended to `at` (may be NULL) in the module's arena.
typedef VEC(Loc) StressPlaces;
int stress_weaken(ThreadModule *m, StressPlaces *at);
// Floats that are added by atomic operations: their sums depend on the order. The first place, or
// line 0.
Loc stress_unordered(const ThreadModule *m);

// ---- choose.c -----------------------------------------------------------------------------------
// One launch of a run: its delays, and what goes on around it.
typedef struct {
    StressDelays delays;
    bool delayed;          // the program with delays; else the kernel as it is
    bool cold;             // the level-2 cache is emptied first
    bool writes, loads;    // beside it another stream writes memory; something loads from shared
                           // memory with bank conflicts: warps of the kernel that have no work, and
                           // another kernel on the same multiprocessors where there is room
    bool inputs_moved, outputs_moved; // to other addresses
    bool other_inputs;     // the second set of contents
} StressLaunch;
// Launch `number` of a seed: a function of its arguments alone. `warps`: of a block.
StressLaunch stress_launch(u64 seed, i64 number, int warps);
// In words, on one line without its end: "delays of 32 to 4,095 cycles at 1 visit of 8; ...".
void stress_tell_launch(const StressLaunch *l, Buf *out);

// ---- reduce.c -----------------------------------------------------------------------------------
// Takes delays away as long as `fails` still says yes, with at most `most` questions: all of them
// at once, then points, warps, visits and blocks. Answers of `fails` may vary; what is kept has
// failed. Returns the number of questions.
typedef bool StressFails(void *ctx, const StressDelays *d);
int stress_reduce(StressDelays *d, int points, int warps, i64 blocks, StressFails *fails, void *ctx,
                  int most);
// "with delays at 2 of 14 points, warp 4, visits 17 to 18" and a line for each point.
void stress_tell_delays(const StressDelays *d, const StressProgram *s, int warps, const Diag *files,
                        Buf *out);

// ---- verdict.c ----------------------------------------------------------------------------------
// What the launches of one version did.
typedef struct {
    i64 launches;          // that ended, with bits to compare
    i64 delayed;           // of these, with delays
    i64 wrong;             // of these, with other bits
    i64 hung, died;        // that did not end, or ended with an error of the device
    bool quiet_wrong;      // without any delay, by the reference or between two programs
} StressTally;
typedef enum {
    STRESS_CLEAN, STRESS_INCONCLUSIVE, STRESS_WRONG, STRESS_DIFFERS, STRESS_HANGS, STRESS_DIES,
    STRESS_VERDICTS
} StressVerdict;
extern const char *const stress_verdict_name[STRESS_VERDICTS]; // "clean", "inconclusive" ...
// `open`: of the version without its protection, NULL when the kernel has none of that kind.
StressVerdict stress_judge(const StressTally *kernel, const StressTally *open);

#endif
