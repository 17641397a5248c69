// emu.h - the emulator: the definition of the thread IR. Runs a kernel on the CPU under the machine
// model of Hopper (ordering rules O1..O15, docs/machine-model.md) and reports every hazard that the
// happens-before relation shows, whether or not the values came out right.
#ifndef BATON_EMU_H
#define BATON_EMU_H

#include "../target/tma.h"
#include "../thread/thread.h"

typedef enum { SCHED_ROUND_ROBIN, SCHED_RANDOM, SCHED_ADVERSARIAL } EmuSchedule;

typedef struct {
    u8 kind;                // ParamKind of the kernel's parameter
    void *ptr;              // PARAM_PTR: host address of the tensor
    size_t bytes;           // its size; accesses outside are hazards and touch nothing
    i64 value;              // PARAM_S32, PARAM_S64
    float f32;              // PARAM_F32
    TensorMap tmap;         // PARAM_TMAP
    size_t tmap_bytes;      // bytes that may be touched from tmap.base
} EmuArg;

typedef struct {
    const ThreadFn *fn;
    const ThreadModule *mod;
    i64 grid[3];            // CTAs
    const EmuArg *args;     // one per fn->params
    EmuSchedule schedule;
    u64 seed;               // same seed, same schedule, same result
    bool hazards;           // track happens-before
    i64 step_limit;         // warp operations per CTA before it counts as a livelock; 0: 2^40
    void (*progress)(void *ctx, i64 done, i64 total); // CTAs finished; may be NULL
    void *progress_ctx;
    Buf *printed;           // what the kernel prints is added here; NULL: it is dropped
    // history.h: what slots hold is added here; reads that see other bytes. NULL: neither.
    struct EmuHistory *history;
    const struct EmuFault *fault;
    struct EmuObserver *observer; // observe.h: records what one CTA does; NULL: nobody looks
    int number;             // of the launch, for all three
} EmuLaunch;

//            id              name in reports
#define EMU_HAZARDS(X)                                                        \
    X(HZ_RACE, "race")                     /* unordered accesses, rule O1-O3, O13 */ \
    X(HZ_PROXY, "proxy")                   /* generic and async proxy without fence, O4 */ \
    X(HZ_WGMMA, "wgmma")                   /* operand or accumulator in flight, O5, O9 */ \
    X(HZ_UNBOUND_READ, "unbound read")     /* slot released before the read bound, O6 */ \
    X(HZ_BULK_STORE, "bulk store")         /* source reused before wait_group.read, O7 */ \
    X(HZ_MBARRIER, "mbarrier")             /* init, counts, bytes, phases, O8, O10 */ \
    X(HZ_BARRIER, "barrier")               /* named barriers, O11 */ \
    X(HZ_REGISTERS, "registers")           /* setmaxnreg, O12 */ \
    X(HZ_CLUSTER, "cluster")               /* shared memory of a CTA that has ended, O15 */ \
    X(HZ_DEADLOCK, "deadlock")                                                \
    X(HZ_BOUNDS, "out of bounds")                                             \
    X(HZ_UNINIT, "uninitialised read")                                        \
    X(HZ_OVERLAP, "overlap")               /* two buffers share bytes without order */ \
    X(HZ_ILLEGAL, "illegal")               /* would trap: alignment, divergence, TMA rules */
typedef enum {
#define X(id, name) id,
    EMU_HAZARDS(X)
#undef X
    HZ_COUNT
} EmuHazardKind;
extern const char *const emu_hazard_name[HZ_COUNT];

typedef struct {
    u8 kind;                // EmuHazardKind
    const char *rule;       // "O6", or NULL
    Loc loc, other;         // place of the access, and of the other one (line 0: none)
    i64 count;              // times this same hazard (kind, places, buffer) was seen
    const char *text;       // one or more lines: who, what, buffer, element, slot, generation
} EmuHazard;

typedef struct {
    VEC(EmuHazard) hazards; // distinct ones, in order of first appearance
    i64 warp_ops;           // operations executed, counted per warp
    i64 ctas;
    i64 delays, delay_cycles; // of `delay` operations, per warp; those of 0 cycles do not count
    bool ok;                // no hazard
} EmuReport;

// Runs the whole grid, CTA after CTA (cluster after cluster), writing tensors in place. The report
// and its texts live in the arena. Never crashes on a wrong program: what is undefined is a hazard.
EmuReport *emu_run(Arena *a, const EmuLaunch *launch);
void emu_report_print(const EmuReport *r, const Diag *files, Buf *out);

#endif
