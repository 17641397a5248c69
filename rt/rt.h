// rt.h - the runtime: a device behind one record (the driver's GPU, or the emulator), compiled code
// on it, and a launch plan turned into launches. The command line and the public library
// (include/baton.h, rt/baton.c) stand on this.
//
//     RtDevice *device;   rt_cuda_open(...) or rt_emulator_open(...)
//     RtModule *module;   rt_load(device, &code, ...)            one compiled file
//     RtLaunch *launch;   rt_prepare(arena, module, plan, values, ...)   numbers in, rules checked
//     rt_launch(launch, stream, ...), rt_time(launch, ...), device->ops->sync(device, stream, ...)
//
// No state outside the handles. Functions that can fail return a baton_status and leave one
// sentence in the RtError that the caller gives (never NULL). Handles may be shared by threads,
// except that an emulator device serves one thread at a time.
#ifndef BATON_RT_H
#define BATON_RT_H

#include "../include/baton.h"
#include "../src/emu/emu.h"
#include "../src/plan/plan.h"
#include "../ops/host.h"

typedef struct {
    baton_status status;
    char text[2048];       // one sentence, or with an assembler's log a few lines; no newline
} RtError;
baton_status rt_fail(RtError *e, baton_status s, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Wall-clock milliseconds of each step; 0 where it did not happen.
typedef struct {
    double driver;         // opening libcuda.so.1 and cuInit
    double context;        // primary context of the device
    double load;           // PTX assembled, or found in the driver's cache, and on the device
    double prepare;        // plan to numbers, tensor maps; with the next two
    double host;           // host functions, for results that the module did not have yet
    double upload;         // their results to the device
    double launch;         // host time of the first launch
} RtTimes;
double rt_now_ms(void);    // monotonic clock

// ---- the device record ------------------------------------------------------------------------
typedef struct RtDevice RtDevice;
typedef struct RtModule RtModule;
typedef struct RtKernel RtKernel;     // one kernel of a module; each device has its own

// One kernel argument with its value, in the order of the kernel's parameters.
typedef struct {
    u8 kind;               // PlanArgKind
    void *ptr;             // ARG_TENSOR: device address
    i64 value;             // ARG_VALUE
    float f32;             // ARG_FLOAT
    TensorMap tmap;        // ARG_TMAP, checked
    size_t bytes;          // ARG_TENSOR, ARG_TMAP: bytes of the tensor from its base
} RtArg;

// One step of a plan with numbers. Limits of the grid are checked before a device sees it.
typedef struct {
    RtModule *module;
    RtKernel *kernel;
    const char *name;
    u32 grid[3];           // CTAs, none is 0
    int block, cluster;    // threads; CTAs
    i64 smem_bytes;        // dynamic shared memory
    int nargs;             // entries of args
    const RtArg *args;
    void *packed;          // what the device made of it in `pack`
} RtKernelLaunch;

// Registers and memory of one kernel; -1 where the device cannot say.
typedef struct {
    int registers;         // per thread
    int local_bytes;       // per thread: spills and stack
    int static_shared;     // bytes
} RtKernelInfo;

// What to load; a device takes what it can run and refuses the rest by name.
typedef struct {
    const char *name;      // for messages: the file
    const char *ptx;       // NUL-terminated, or NULL
    size_t ptx_bytes;      // without the NUL
    const void *cubin;     // ready machine code, or NULL: it is made from the PTX
    size_t cubin_bytes;
    const ThreadModule *thread; // for the emulator; must outlive the RtModule
} RtCode;

typedef struct {
    const char *kind;      // "cuda", "emulator"
    bool host_memory;      // its addresses are host addresses
    baton_status (*load)(RtDevice *, const RtCode *, RtModule **, RtTimes *, RtError *);
    void (*unload)(RtModule *);
    baton_status (*kernel)(RtModule *, const char *name, RtKernel **, RtError *);
    baton_status (*kernel_info)(RtModule *, RtKernel *, RtKernelInfo *, RtError *);
    // Memory; addresses are multiples of 256. release(NULL) does nothing. Copies are synchronous.
    baton_status (*alloc)(RtDevice *, size_t bytes, void **, RtError *);
    void (*release)(RtDevice *, void *);
    baton_status (*copy_in)(RtDevice *, void *device, const void *host, size_t bytes, RtError *);
    baton_status (*copy_out)(RtDevice *, void *host, const void *device, size_t bytes, RtError *);
    baton_status (*fill)(RtDevice *, void *device, u8 byte, size_t bytes, void *stream, RtError *);
    // A stream beside the default one (NULL): neither waits for the other. Freeing waits for nothing.
    baton_status (*stream_new)(RtDevice *, void **, RtError *);
    void (*stream_free)(RtDevice *, void *);
    // pack: everything about a launch that does not change when it is repeated, into the arena.
    baton_status (*pack)(RtDevice *, Arena *, RtKernelLaunch *, RtError *);
    baton_status (*launch)(RtDevice *, const RtKernelLaunch *, void *stream, RtError *);
    baton_status (*sync)(RtDevice *, void *stream, RtError *);
    // Marks in a stream: make, put into the stream, milliseconds between two that have passed.
    baton_status (*mark_new)(RtDevice *, void **, RtError *);
    baton_status (*mark)(RtDevice *, void *mark, void *stream, RtError *);
    baton_status (*mark_ms)(RtDevice *, void *from, void *to, double *ms, RtError *);
    void (*mark_free)(RtDevice *, void *);
    // For measuring. BATON_UNSUPPORTED where the driver, or the emulator, cannot do it.
    bool queues;           // launches go into a queue and the host goes on; false: they have ended
    baton_status (*copy)(RtDevice *, void *to, const void *from, size_t bytes, void *stream,
                         RtError *); // inside device memory; in order with the kernels
    baton_status (*passed)(RtDevice *, void *mark, bool *, RtError *); // waits for nothing
    // Between begin and end what this thread puts into `stream` (not NULL; no marks) is recorded
    // instead of run. The graph launches it again as one piece, on any stream. A failed end leaves
    // no recording. graph_free(NULL) does nothing.
    baton_status (*graph_begin)(RtDevice *, void *stream, RtError *);
    baton_status (*graph_end)(RtDevice *, void *stream, void **graph, RtError *);
    baton_status (*graph_launch)(RtDevice *, void *graph, void *stream, RtError *);
    void (*graph_free)(RtDevice *, void *graph);
    void (*close)(RtDevice *);
} RtDeviceOps;

struct RtDevice {          // first member of each device's own struct
    const RtDeviceOps *ops;
    char name[160];        // "NVIDIA H200", "emulator"
    int major, minor;      // compute capability (the emulator's: 9.0)
    int driver_version;    // 13000 is 13.0; 0: no driver
    i64 prop[PROP_COUNT];  // what plan expressions may ask
    i64 l2_bytes;          // of the level-2 cache; -1 unknown
    double sm_mhz;         // the multiprocessors' highest clock; 0 unknown
    char pci[24];          // "0000:17:00.0"; "" unknown
};

typedef struct RtHostCache RtHostCache;
typedef struct RtHostResult RtHostResult;

struct RtModule {          // first member of each device's own struct
    RtDevice *device;
    RtHostCache *host;     // results of host functions; made by rt_load
    const char *log;       // what the assembler said, "" when it did not run because the driver had
                           // the code in its cache; lives with the module
};

// ---- cuda.c: a GPU through the driver ----------------------------------------------------------
// Opens libcuda.so.1 (`library` NULL, by the loader's rules) or the library at that path, and GPU
// `number`. Checks the compute capability before a context is made. `t` may be NULL.
baton_status rt_cuda_open(const char *library, int number, RtDevice **out, RtTimes *t, RtError *e);
// Number of GPUs that the driver sees, without making a context; 0 with the reason in `e` when
// there is no driver.
int rt_cuda_count(const char *library, RtError *e);

// ---- emulator.c: the CPU ------------------------------------------------------------------------
typedef struct {
    EmuSchedule schedule;
    u64 seed;
    bool hazards;          // track happens-before
    i64 step_limit;        // as EmuLaunch
    int sms;               // multiprocessors of the emulated card; 0: 132, as an H200
    void (*progress)(void *ctx, i64 done, i64 total);
    void *progress_ctx;
    Buf *printed;          // what kernels print; NULL: it goes to standard output
    struct EmuHistory *history; // as EmuLaunch; launches are numbered from rt_emulator_set on
    const struct EmuFault *fault;
    struct EmuObserver *observer;
} RtEmulatorOptions;
baton_status rt_emulator_open(const RtEmulatorOptions *o, RtDevice **out, RtError *e);
// Other options for the launches to come. Reports made so far are forgotten.
void rt_emulator_set(RtDevice *d, const RtEmulatorOptions *o);
// Reports of the launches since the last rt_emulator_set, in order; valid until the next one.
// A launch with hazards is not an error: ask here.
EmuReport *const *rt_emulator_reports(const RtDevice *d, int *n);

// ---- module and launch (launch.c) ---------------------------------------------------------------
// `t` may be NULL. On failure *out is NULL.
baton_status rt_load(RtDevice *d, const RtCode *c, RtModule **out, RtTimes *t, RtError *e);
void rt_unload(RtModule *m); // NULL is allowed
baton_status rt_kernel_info(RtModule *m, const char *kernel, RtKernelInfo *out, RtError *e);

// A plan with all its numbers, ready to be launched any number of times. Lives in the arena.
typedef struct {
    RtModule *module;
    const Plan *plan;
    PlanBinding binding;
    int nresults;          // results of host functions that the launch holds
    RtHostResult **results;
    int nsteps;            // steps that run; those switched off or without work are gone
    struct RtStep {
        u8 kind;           // PlanStepKind
        RtKernelLaunch kernel;
        void *ptr;         // STEP_MEMSET
        u8 byte;
        size_t bytes;
    } *steps;
} RtLaunch;
// Binds `values` (one per parameter that the caller passes, device addresses, results included),
// runs the host functions whose results the module does not have and waits until these are on the
// device, evaluates grids and arguments, checks every limit of the device, encodes the tensor maps.
baton_status rt_prepare(Arena *a, RtModule *m, const Plan *p, const PlanValue *values,
                        RtLaunch **out, RtTimes *t, RtError *e);
// Gives back what the launch holds of its module, so that results of host functions for sizes that
// nobody uses do not pile up; the launch must not be used again. Work of it may still be running.
// Without this call they stay until rt_unload. NULL is allowed.
void rt_release(RtLaunch *l);
// Launches every step once on `stream`: asynchronous on a GPU, and nothing else is called (a
// profiler sees the kernels alone). The emulator has finished when it returns.
baton_status rt_launch(const RtLaunch *l, void *stream, RtError *e);

typedef struct {
    double median_ms, min_ms, max_ms; // of one launch of the plan
    int runs;
} RtTiming;
enum { RT_MAX_RUNS = 100000 };
// `warmup` launches, then `runs` (1..RT_MAX_RUNS), each between two marks; synchronous.
baton_status rt_time(const RtLaunch *l, void *stream, int warmup, int runs, RtTiming *out,
                     RtError *e);
// Prepares, launches and waits: the whole job in one call.
baton_status rt_run_plan(RtModule *m, const Plan *p, const PlanValue *values, void *stream,
                         RtTimes *t, RtError *e);

// ---- host.c: results of host functions, kept by module -----------------------------------------
RtHostCache *rt_host_open(void); // NULL: out of memory
void rt_host_close(RtDevice *d, RtHostCache *c); // NULL is allowed
// The result of `f` for `args`: kept, or computed and copied to the device, which has it when this
// returns; the times are added to `t`. `size` is what f->size says. Given back by rt_host_release.
baton_status rt_host_result(RtModule *m, const OpsHostFunction *f, const i64 *args,
                            const OpsHostSize *size, RtHostResult **out, RtTimes *t, RtError *e);
void *rt_host_address(const RtHostResult *r);
void rt_host_release(RtModule *m, RtHostResult *r);
// Milliseconds that all results of the module took so far, those already dropped included.
void rt_host_times(RtHostCache *c, double *build_ms, double *upload_ms);

#endif
