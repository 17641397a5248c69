// contest.h - implementations of one operation take turns on one device, at one size after another.
//
// At each size every implementation is first made ready, called once and checked against the
// reference on the arrays that are then timed; one that is missing or wrong ends the contest, and
// what was measured is kept as incomplete. Then rounds: in each, every implementation has one turn,
// in an order that rotates, so that drift of clocks and temperature falls on all alike; first all
// bursts, then all turns under load.
//
// Needs no compiler: kernels come as code with their plans, so a package runs the same contest.
#ifndef BATON_BENCH_CONTEST_H
#define BATON_BENCH_CONTEST_H

#include "../job/job.h"
#include "bench.h"

// What one turn does, in this order: synchronise, do nothing for idle_s; launch at least `warmup`
// times and for at least load_s seconds; then `repeat` samples; then launch on, untimed, until
// min_s seconds have passed since the first sample began, so that the energy counter steps.
typedef struct {
    double idle_s, load_s, min_s; // seconds
    int warmup, repeat;
    int group;      // launches of one sample; 0: the fewest that take 0.2 ms together
    u8 method;      // BenchMethod
    i64 cold_bytes; // overwritten before each timed launch, outside its time; 0: nothing is
} BenchOrder;

// The span of a turn on the clock of rt_now_ms: its first sample's beginning, its last one's end,
// the end of all launches.
typedef struct {
    double t0, t1, t2;
} BenchSpan;

// ---- who takes part -----------------------------------------------------------------------------
typedef struct BenchRival BenchRival;
typedef struct {
    // Ready at the size that `model` has: arrays bound and filled, inputs in `block`. Calls the
    // implementation once and puts what it computed into the block `result` of the model's output,
    // which is full of NaN before. Fills times, proof and, when it is not right, state and why of
    // the case. False: the reason is there or in the model's Diag.
    bool (*enter)(BenchRival *r, const Job *model, BenchCase *c, BenchImpl *impl);
    // Fills the samples of the turn and the span. False: *why.
    bool (*turn)(BenchRival *r, const BenchOrder *o, Arena *a, BenchTurn *t, BenchSpan *span,
                 const char **why);
    // What the last timed launch computed, into the same block; NULL: it cannot be had. False: the
    // reason is in the Diag.
    bool (*again)(BenchRival *r);
    void (*leave)(BenchRival *r); // gives back what enter made; also after a failed one
} BenchRivalOps;
struct BenchRival {
    const BenchRivalOps *ops;
    BenchImpl impl; // as it goes into the record
    void *self;     // of the implementation
};

// A kernel of baton, compiled.
typedef struct {
    BenchImpl impl;
    const Plan *plan;
    const Contract *contract;
    RtCode code;
    double compile_ms; // source to PTX; what the driver takes comes on top
} BenchKernel;
// The rival that it is on the contest's device. Lives in the arena.
BenchRival *bench_kernel_rival(Arena *a, const BenchKernel *k, RtDevice *device,
                               const JobOptions *options, Diag *d);

// ---- the contest --------------------------------------------------------------------------------
typedef VEC(JobSetting) BenchSizeWords; // B=4 H=32 S=4096

typedef struct {
    const BenchKernel *model; // makes the inputs and names the reference; need not take part itself
    JobOptions job;           // seed, --arg; sizes are replaced
    VEC(BenchSizeWords) sizes; // in order of work
    VEC(const char *) labels;  // "S=4096", one a size
    VEC(BenchRival *) rivals;
    bool regime[BENCH_REGIMES];
    int burst;                   // launches of a burst
    RtMeter *meter;              // NULL: an emulated device
    const BenchKernel *products; // measures the ceiling of the tensor cores; NULL: not measured
    double products_flops;       // of one launch on one multiprocessor
    // Called with the record after each size and when all is over, so that nothing is lost; may be
    // NULL.
    void (*keep)(void *ctx, Bench *b);
    void *keep_ctx;
    bool terminal; // standard error is one: progress with what remains
    Buf *log;      // every line that was said; may be NULL
} BenchContest;

// "Intel(R) Xeon(R) ..., 16 processors, Linux 6.1.0".
const char *bench_host(Arena *a);
// Facts of the machine into b->machine; the ceilings are measured on a GPU, which takes half a
// second.
bool bench_machine(const BenchContest *c, RtDevice *device, Bench *b, Diag *d);
// Runs it. `b` has what the command chose (op, title, warmup .. cache); the rest is filled. Returns
// the exit status (job/words.h): EXIT_RIGHT, EXIT_WRONG when an implementation was wrong or
// missing, others with the reason in the Diag; b->incomplete then says why, and the record is good
// for what is in it.
int bench_contest(const BenchContest *c, RtDevice *device, Bench *b, Diag *d);

#endif
