// state.h - the inside of the emulator: the decoded program, the state of one CTA, clocks and
// shadow memory. Only files of src/emu include it.
//
// Reading order: EmuOp (what runs), EmuWarp and EmuCta (on what), EmuClock (who knows
// what of whom), EmuAccess and EmuCell (who touched which bytes).
// docs/machine-model.md tells the same in words.
#ifndef BATON_EMU_STATE_H
#define BATON_EMU_STATE_H

#include "emu.h"

// Loops over 32 lanes are compiled for several vector units and chosen at load time.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define EMU_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#define EMU_VECTOR_FMA __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define EMU_VECTOR
#define EMU_VECTOR_FMA
#endif
// Registers are words; the float and 64-bit views of the same memory may alias them.
typedef float EmuF32 __attribute__((may_alias));
typedef u64 EmuU64 __attribute__((may_alias));
typedef i64 EmuI64 __attribute__((may_alias));

enum {
    EMU_LANES = 32,
    EMU_FULL = -1,             // as u32: all 32 lanes
    EMU_MAX_WARPS = 32,        // 1,024 threads, the machine's limit for a CTA
    EMU_MAX_BARS = 256,        // mbarrier slots of a kernel
    EMU_NAMED_BARS = 16,       // hardware barriers of a CTA; 0 is the one of all threads
    EMU_TOKENS = 64,           // unbound shared loads that a warp can have
    EMU_IF_DEPTH = 64,         // nested regions of any kind
    EMU_LOOP_DEPTH = 32,       // nested loops
    EMU_SMEM_BASE = 1024,      // absolute shared address of the dynamic arena
    EMU_MAX_OPS = 4 << 20,     // operations after expansion
    EMU_ANY_LANE = 32,         // a cell's access by several lanes, or by a whole warp
};

typedef struct EmuOp EmuOp;
typedef struct EmuWarp EmuWarp;
typedef struct EmuCta EmuCta;

// ---- decoded program ----------------------------------------------------------------------------

// What a handler answers: go on, wait (the operation is tried again later), give others a turn, or
// the warp is done.
typedef enum { RUN_NEXT, RUN_BLOCK, RUN_YIELD, RUN_DONE } EmuResult;
typedef EmuResult EmuHandler(EmuWarp *w, const EmuOp *op, u32 mask);

// An operand after decoding. Registers, constants, kernel parameters and special registers all are
// units of the warp's register file (a unit is 32 lanes of 4 bytes; 64-bit values take two, a
// predicate uses word 0 of its unit as a lane mask), so handlers know only units.
typedef struct {
    u32 unit;                  // first unit of the value
    u16 count;                 // registers in a range operand, else 1
    u8 class;                  // RegClass of the value in the unit
    u8 kind;                   // OperandKind it came from
    bool negate;               // of a predicate
    i64 imm;                   // OPD_IMM: its value; OPD_PARAM: index of the parameter
} EmuOpnd;

struct EmuOp {
    EmuHandler *run;           // does the operation for the lanes of a mask
    const EmuOpnd *o;          // nopnd operands, in the order of the signature
    const ThreadOp *src;       // before unrolling; NULL for the end of the program
    u8 op, type, type2, cmp;   // as in ThreadOp, copied for speed
    u16 n, flags;              // likewise
    u8 nopnd, ndst;            // the first ndst operands are written (PURE operations and shfl)
    bool track;                // register state follows from the operand list alone
    bool control;              // runs even without lanes
    i32 guard;                 // unit of the guard predicate, -1 none
    bool guard_negate;
    u32 target;                // control: where to go when not taken
};

// The program of one launch: shared, read-only, by all its CTAs; lives in the arena of the run.
typedef struct {
    const EmuOp *ops;          // flat, ends in an exit of all lanes
    u32 n;                     // operations
    u32 units;                 // register units that the program can write
    u32 all_units;             // with constants behind them
    const bool *wide_unit;     // [units] first unit of a 64-bit register
    u32 special;               // first unit of the special registers (SR_COUNT of them)
    const u32 *constants;      // [all_units - special - SR_COUNT - 1][32]
    const bool *async_buffer;  // buffers that bulk loads write (or that share bytes with such)
    const bool *stored_param;  // parameters that the kernel may write
} EmuProgram;

// Expands unroll regions, flattens control, resolves registers. NULL with a hazard text in *why.
EmuProgram *emu_decode(Arena *a, const EmuLaunch *l, const char **why, Loc *where);

// ---- clocks -------------------------------------------------------------------------------------

// What is known of one warp's accesses: all lanes' up to epoch `all`; those of the lanes in `mask`
// up to epoch `part` as well. An access of lane l at epoch e is covered when e <= all, or l is in
// the mask and e <= part.
typedef struct {
    u32 all, part, mask;
} EmuEpoch;

// Knowledge of one agent: generic accesses as the generic proxy sees them (g) and as the async
// proxy sees them (a, behind a proxy fence); what has been done, without its effects on memory
// (x: also from arrivals at another CTA that publish nothing; without a cluster the same array as
// g); and how many phases of each mbarrier are complete. One entry for each warp (EmuWarp.index)
// and each mbarrier (emu_bar_clock) of all CTAs of the cluster.
typedef struct {
    EmuEpoch *g, *a, *x;
    u32 *phases;
} EmuClock;

// ---- accesses and shadow memory -----------------------------------------------------------------

typedef enum {
    // The order of these names is that of the words in shadow.c and report.c.
    ACC_NONE,
    ACC_READ,                  // generic read
    ACC_WRITE,                 // generic write
    ACC_ATOMIC,                // generic, reads and writes as one: never races with another
    ACC_BULK_LOAD,             // async write of shared memory by the TMA unit
    ACC_WGMMA,                 // async read by a warpgroup's wgmma
    ACC_BULK_STORE,            // async read of shared memory by the TMA unit
    ACC_CPASYNC,               // generic write at any time before the wait; ACC_WRITE after it
} EmuAccessKind;

// One memory instruction of one warp (wgmma: of one warpgroup) at one time.
typedef struct {
    u8 kind, warp, lane;       // warp: EmuWarp.index; lane: of the issuing thread, EMU_ANY_LANE
                               // for a warp
    i32 buffer;                // -1 unknown
    u32 mask;                  // lanes that took part
    u32 op;                    // index into the program
    u32 iter;                  // innermost loop iteration
    u32 epoch;                 // of the warp; bulk store: 0 until its read was waited for
    u32 bound;                 // generic reads: epoch at which the value was pinned, 0 not yet
    u32 gen;                   // generation of the slot that was read or written
    u32 bar;                   // bulk loads
    u32 phase;                 // bulk loads: phase that counts the bytes
    u32 done[4];               // wgmma: epochs of the four warps' waits; bulk store: [0] of the
                               // wait.read, [1] of the full wait
} EmuAccess;

typedef struct {
    u32 access;                // index, 0 none
    u8 lane, bytes;            // bytes: mask of the four bytes of the cell
    u8 write, atomic;          // an atomic stands among the reads: they accumulate
} EmuEntry;                    // 8 bytes without holes: compared as one word

// Four bytes of shared memory: the last write, the reads since then that are not known to be
// ordered. Further entries (bytes written apart, more readers) hang in a list.
typedef struct {
    EmuEntry w, r[2];          // last write; readers since (two are enough for most cells)
    u32 more;                  // index into nodes, 0 none
    u32 pad;
} EmuCell;

typedef struct {
    EmuEntry e;                // a write of other bytes of the cell, or one more reader
    u32 next;
} EmuNode;

// ---- asynchronous effects -----------------------------------------------------------------------

typedef enum { FX_BULK_LOAD, FX_BULK_STORE, FX_CPASYNC } EmuEffectKind;
typedef struct EmuEffect EmuEffect;
// A bulk load leaves the pool when it lands; a bulk store or cp.async when its thread has waited.
struct EmuEffect {
    EmuEffect *next;           // in order of issue, or in the free list
    const EmuOp *op;           // that issued it
    u8 kind, warp, lane;       // EmuEffectKind; who issued it
    bool performed;            // its memory has been touched
    u32 access;                // its record, 0 when nothing is tracked
    u32 smem;                  // arena offset of the tile
    u32 bar;                   // bulk load: index of the mbarrier
    const EmuCta *by;          // bulk load: CTA that issued it ...
    u32 *known;                // ... and, from another CTA, the phases of its mbarriers that the
                               // issuer knew to be complete
    u32 group;                 // bulk store, cp.async: serial of its group in its threads
    u32 id;                    // observed bulk copies: a number of its own ...
    i64 due, read_due;         // ... the step at which it is complete, a store's source was read
    const EmuArg *arg;         // bulk copies: the tensor map's argument
    i32 coord[TMA_MAX_RANK];   // bulk copies: origin of the box, elements, innermost first
    u32 mask;                  // cp.async: lanes that have not waited yet
    u32 bytes;                 // cp.async: of each lane, 4, 8 or 16
    u32 lanes;                 // cp.async: lanes that copy
    u32 dst[EMU_LANES];        // cp.async: arena offsets
    const u8 *from[EMU_LANES]; // cp.async: host addresses
    u8 valid[EMU_LANES];       // bytes from memory; the rest is zero
};

// One wgmma of a warpgroup, from its first issue on.
typedef struct {
    const EmuOp *op;           // of the first warp to issue it
    u32 access[2];             // reads of A and B
    u64 desc_a, desc_b;        // of the first warp to issue; the others must agree
    bool scale_d;              // false: the old accumulator is not read
    u8 issued;                 // mask of the four warps
} EmuProduct;

typedef struct {
    VEC(EmuProduct) q;         // all products of the group, in order; [done, n) not performed
    int done;
} EmuGroup;

// Registers of a product that a warp has issued and not waited for.
typedef struct {
    u32 acc, a;                // first units
    u16 acc_n, a_n;
    u64 taint;                 // unbound loads in the A registers: bound by the wait
} EmuFlight;

// ---- warps and the CTA --------------------------------------------------------------------------

// State of a register unit. `init` has a bit per written lane; units of accumulators in flight are
// cleared, so that one test finds both uninitialised and early reads.
typedef struct {
    u32 init;
    u32 fences;                // wgmma.fence count of the warp when it was last accessed, but by
                               // a product
    u64 taint;                 // unbound loads that the value depends on
} EmuUnit;
enum { UNIT_ACC = 1, UNIT_A = 2 };

// A shared load that has not bound yet.
typedef struct {
    u32 access;                // the load's record
    u32 unit;                  // first register that it wrote
    u16 count;
    u8 bytes;                  // per register
    u32 mask;                  // lanes that loaded; 0: the registers are not reread late
    u32 addr[EMU_LANES];       // shared offsets
} EmuToken;

typedef enum { WARP_READY, WARP_BLOCKED, WARP_DONE } EmuWarpState;
typedef enum {
    WAIT_NONE,
    WAIT_MBAR,
    WAIT_NAMED,
    WAIT_CLUSTER,
    WAIT_WGMMA,
    WAIT_REGISTERS
} EmuWaitKind;

typedef struct {               // the last arrival of a warp at a barrier of another CTA
    const EmuOp *op;           // NULL: none
    u32 epoch, bar;
} EmuSent;

struct EmuWarp {
    u32 *regs;                 // [all_units][32]
    EmuUnit *unit;             // [all_units]
    u8 *flags;                 // [all_units] UNIT_*
    EmuCta *cta;
    EmuCta *at;                // whose shared memory an operation touches: `cta`, but for a moment
                               // in multicast loads and arrivals at other CTAs
    u32 index;                 // of the warp in its cluster
    EmuSent *sent;             // per CTA of the cluster; NULL: there is none
    u32 pc, mask, alive;       // next operation; lanes that run; lanes that have not exited
    u8 id, state;              // warp of the CTA; EmuWarpState
    u8 wait, wait_named;       // EmuWaitKind; barrier id
    u32 wait_bar, wait_parity; // index of the mbarrier; setmaxnreg: registers wanted
    bool released;             // a named barrier let it go; mbar.wait: checked before it blocked
    u32 epoch;                 // starts at 1
    u32 fences;                // wgmma.fence operations so far
    u32 priority;              // adversarial: the highest ready one runs
    // control
    u32 saved[EMU_IF_DEPTH], other[EMU_IF_DEPTH]; // masks before an if, and of its else
    int depth;
    u32 loop_iter[EMU_LOOP_DEPTH]; // of each open loop, for reports
    const EmuOp *loop_op[EMU_LOOP_DEPTH];
    int loops;
    // knowledge: of all lanes, and of the lanes in part_mask beyond that
    EmuClock *clock, *part;    // of all lanes, and of those in part_mask
    u32 part_mask;
    u32 fenced[EMU_LANES];     // epoch of each lane's last proxy fence; the clocks have it once the
                               // warp has synchronised
    // unbound loads
    u64 live, clean;           // tokens alive; fresh since the last sweep
    EmuToken *token;
    u32 *late, late_n;         // late.c: record of unbound loads and arithmetic; words in it
    u32 *late_lanes;           // [all_units] lanes whose value the record makes
    bool late_lost;            // the record was too short
    // cp.async and bulk groups per lane
    u32 cp_group[EMU_LANES], bulk_group[EMU_LANES]; // serial of the open group
    // wgmma
    u32 issued, waited;        // products of the group that this warp issued, and has waited for
    VEC(u32) commits;          // products issued at each wgmma.commit
    VEC(EmuFlight) flight;     // one per product
    u32 regs_now;              // setmaxnreg
    const EmuOp *regs_op;      // the last one; NULL: none
    u64 print[PRINT_MAX_ARGS][EMU_LANES]; // values for the next print; f32 as f64
};

typedef struct {               // the last wait of a warp at an mbarrier that passed
    const EmuOp *op;           // NULL: none, or what may come after it is ordered behind it
    u32 next, epoch;           // the phase behind the one waited for; when it passed
} EmuWaited;

typedef struct {
    bool init;
    u32 offset;                // from the start of the arena
    i32 buffer, slot;          // ThreadBuffer and element, for reports
    u32 init_access;           // warp and lane that initialised it, and when
    u32 fence_epoch;           // of the initialising thread's fence, 0 none
    u32 count, pending;        // arrivals of a phase, and those still missing in the current one
    i64 tx;                    // expected minus landed bytes of the current phase
    u64 expected, landed;      // of the current phase, for reports
    u32 phase;                 // completed phases
    u32 loads;                 // bulk loads in flight
    u32 last_load_phase;       // phase of the newest load + 1, 0 none
    bool load_from_peer;       // that load was issued by another CTA
    const EmuOp *load_op;      // that load; places of what is left at the end
    const EmuOp *expect_op;    // the last operation that expected bytes
    EmuClock *clock;           // what the arrivals of past and present phases know
    EmuClock *complete;        // of the last completed phase
    EmuWaited *waited;         // per warp of the CTA
} EmuBar;

typedef struct {
    u32 expect, arrived;       // threads
    u32 waiting, came;         // masks of warps
    EmuClock *clock;
    u32 before;                // threads that the round before expected
    u32 came_before;           // warps of the round before, and their epochs when they came
    u32 epoch[EMU_MAX_WARPS], epoch_before[EMU_MAX_WARPS];
    const EmuOp *op;           // of the last arrival
} EmuNamed;

// Entries that were found to be ordered before the access that is being noted: the rows of a tile
// mostly have the same history.
typedef struct {
    u32 access, warp, lane;    // for whom the memo holds
    u64 write, read[2];        // entry_key of the last write and the two readers that were fine
} EmuMemo;

typedef struct {               // who wrote a granule of global memory last
    u32 cta : 31, atomic : 1;  // linear index + 1, 0: nobody in this grid; by an atomic
    u32 access : 26, lane : 6; // access: index + access_base at that time
} EmuOwner;

typedef struct {               // where a buffer lies in the arena
    u32 low, high;             // arena offsets, [low, high)
} EmuSpan;

typedef struct EmuRun EmuRun;
typedef struct EmuWatch EmuWatch;
typedef struct EmuObserved EmuObserved;

struct EmuCta {
    EmuRun *run;
    i64 index;                 // linear, x fastest
    u32 rank;                  // in its cluster
    bool over;                 // all its warps are done
    i64 id[3];
    int warps, bars_n, groups; // groups: complete sets of four warps
    u8 *smem;
    u32 *late_regs;            // late.c: a warp's registers, to run its record on; NULL before
    u32 smem_bytes;
    EmuWarp *warp;
    EmuBar *bar;
    i32 *bar_at;               // arena offset / 8 -> barrier index, -1
    EmuNamed named[EMU_NAMED_BARS];
    EmuGroup group[EMU_MAX_WARPS / 4];
    EmuCell *cell;             // one per four bytes of the arena; NULL: hazards are not tracked
    VEC(EmuAccess) access;     // records; element 0 means "none"
    u32 access_base;           // added to indices that global memory keeps; grows when records die
    u32 *remap;                // scratch of the collection
    VEC(EmuNode) node;         // further entries of cells; element 0 is unused
    u32 node_free;             // first free node, 0 none
    EmuMemo memo;
    u32 bars_low, bars_high;   // arena bytes that hold mbarriers
    EmuEffect *fx_first, **fx_last, *fx_free;
    int fx_n;                  // not performed yet
    bool dead;                 // deadlock, limit or trap: stop this CTA
    u32 regs_used, regs_limit; // registers per lane, summed over warps (setmaxnreg)
    i64 steps;                 // operations of all warps
    i64 clock_reads;           // of the clock, by all warps
    u64 rng;                   // state of the scheduler's generator
    u32 early_load, late_wgmma, late_store, late_cp; // chances of 256, by schedule
    i64 change_at;             // adversarial: step of the next priority change
    EmuWatch *watch;           // generations of the slots; NULL: nobody asks
};

struct EmuRun {
    const EmuLaunch *launch;
    const EmuProgram *prog;
    const ThreadFn *fn;
    Arena *out;                // report texts
    Arena *arena;              // of this run
    EmuReport *report;
    Map *seen;                 // hazard key -> index + 1
    EmuSpan *span;             // per buffer; {0, whole arena} for a global one
    i32 *tensor;               // per parameter: the first one with the same memory
    EmuOwner **owner;          // per tensor: one per granule, or NULL
    u8 *granule;               // log2 bytes
    bool hazards;              // copied from the launch: tested everywhere
    EmuCta *cta[THREAD_MAX_CLUSTER]; // of the cluster that runs
    u32 ctas;
    u32 warp_stride;           // clock entries of a CTA: its warps, in whole groups of four
    EmuObserved *observed;     // while the observed CTA runs; NULL
    u32 met;                   // warps that wait at the cluster's barrier ...
    EmuClock *meeting;         // ... and what they released
};

// One handler per operation: a row of ops.h without one does not link.
#define X(id, name, sig, types, effect, scope, ptx, form) EmuHandler emu_op_##id;
THREAD_OPS(X)
#undef X

// ---- run.c --------------------------------------------------------------------------------------
extern EmuHandler *const emu_handler[OP_COUNT];
EmuHandler emu_op_else, emu_op_endif, emu_op_next, emu_op_end;
u32 emu_random(EmuCta *c, u32 n);              // 0 .. n-1
bool emu_chance(EmuCta *c, u32 of_256);
void emu_wake(EmuCta *c, EmuWaitKind kind, u32 which);
// Runs one warp for at most `budget` operations, or until it blocks, yields or is done.
EmuResult emu_turn(EmuWarp *w, i64 budget);

static inline u32 *emu_reg(EmuWarp *w, const EmuOpnd *o) { return w->regs + (size_t)o->unit * 32; }
static inline EmuU64 *emu_reg64(EmuWarp *w, const EmuOpnd *o)
{
    return (EmuU64 *)(void *)(w->regs + (size_t)o->unit * 32);
}
static inline u32 emu_pred(EmuWarp *w, const EmuOpnd *o)
{
    u32 bits = *emu_reg(w, o);
    return o->negate ? ~bits : bits;
}
static inline int emu_first_lane(u32 mask) { return __builtin_ctz(mask); }
static inline u32 emu_op_index(const EmuWarp *w, const EmuOp *op)
{
    return (u32)(op - w->cta->run->prog->ops);
}

// ---- regs.c: register state ---------------------------------------------------------------------
void emu_track(EmuWarp *w, const EmuOp *op, u32 mask);          // from the operand list
void emu_read_regs(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 mask, bool pin);
void emu_write_regs(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 mask);
void emu_pin(EmuWarp *w, u64 taint);           // binds loads now
int emu_token_new(EmuWarp *w, u32 access);     // token that the loaded registers carry

// ---- late.c: values of late reads ----------------------------------------------------------------
void emu_late_begin(EmuWarp *w);               // before a new token
void emu_late_load(EmuWarp *w, const EmuOp *op, u32 mask, int token); // op->o[0] has been loaded
// Before a pure operation runs: whether the record will make its results. They are then marked,
// once the registers count as written: each write unmarks the lanes.
bool emu_late_pure(EmuWarp *w, const EmuOp *op, u32 mask);
void emu_late_mark(EmuWarp *w, const EmuOpnd *o, int n, u32 mask); // n operands
void emu_late_landed(EmuCta *c, u32 low, u32 high); // arena offsets of what a bulk load has written

// ---- clock.c ------------------------------------------------------------------------------------
EmuClock *emu_clock_new(EmuRun *r);
void emu_clock_clear(const EmuRun *r, EmuClock *c);
void emu_clock_copy(const EmuRun *r, EmuClock *to, const EmuClock *from);
void emu_clock_join(const EmuCta *c, EmuClock *to, const EmuClock *from);
void emu_release(EmuWarp *w, u32 mask, EmuClock *into);
void emu_release_done(EmuWarp *w, u32 mask, EmuClock *into); // only that it was done
void emu_acquire(EmuWarp *w, u32 mask, const EmuClock *from);
void emu_warp_sync(EmuWarp *w);                // lanes learn from each other
void emu_fence_proxy(EmuWarp *w, u32 mask);
static inline const EmuClock *emu_clock_of(const EmuWarp *w, int lane)
{
    return lane < EMU_LANES && (w->part_mask >> lane & 1) ? w->part : w->clock;
}
// `lanes`: who took part, when `lane` says that several did.
static inline bool emu_covers(const EmuEpoch *c, u32 epoch, u32 lane, u32 lanes)
{
    if (c->all >= epoch) return true;
    if (c->part < epoch) return false;
    return lane < EMU_LANES ? (c->mask >> lane & 1) : !(lanes & ~c->mask);
}

// ---- shadow.c: who touched which bytes ----------------------------------------------------------
u32 emu_access_new(EmuWarp *w, EmuAccessKind kind, const EmuOp *op, int lane, u32 mask, int mem);
// Checks an access of `bytes` at a shared offset against all earlier ones and notes it. `lane` is
// EMU_ANY_LANE for the whole warp. `note` false: check only (the access is noted already).
void emu_touch(EmuWarp *w, u32 access, u32 offset, u32 bytes, int lane, bool write, bool note);
void emu_shadow_reset(EmuCta *c);

// ---- history.c ----------------------------------------------------------------------------------
void emu_watch_start(EmuCta *c);               // a CTA begins, and ends
void emu_watch_end(EmuCta *c);
void emu_watch_grid_end(EmuRun *r);
void emu_watch_touch(const EmuWarp *w, u32 access, u32 offset, u32 bytes, bool write);
void emu_watch_load(EmuCta *c, u32 access, u32 offset, const TensorMap *m, const i32 *coord,
                    int param);
const u8 *emu_seen_late(const EmuCta *c, i32 buffer, u32 offset, u32 warps);
// Where a read of these warps (bits) finds the bytes at an arena offset: in the arena, unless the
// run has a fault. `buffer` is the one that the operation names, -1 none.
static inline const u8 *emu_seen(const EmuCta *c, i32 buffer, u32 offset, u32 warps)
{
    if (!c->run->launch->fault || buffer < 0) return c->smem + offset;
    return emu_seen_late(c, buffer, offset, warps);
}
static inline i32 emu_named(const EmuOp *op, int mem) // buffer of a memory reference
{
    return mem < op->src->nmem ? op->src->mem[mem].buffer : -1;
}

// ---- observe.c ----------------------------------------------------------------------------------
// Whether a CTA of the cluster that begins with number `first` is to be observed; it is then.
bool emu_observed_begin(EmuRun *r, i64 first);
bool emu_observed_end(EmuRun *r);              // true: the rest of the grid need not run
bool emu_observed_before(const EmuLaunch *l);  // false: the launch stands behind the observed one
EmuResult emu_observed_turn(EmuWarp *w, i64 budget); // as emu_turn
void emu_observed_due(EmuRun *r);              // what is due at this step happens
bool emu_observed_step(EmuRun *r, bool moved); // false: nothing will ever happen
void emu_saw_load(EmuWarp *w, EmuEffect *e, const EmuBar *b, u32 bytes);
void emu_saw_landed(EmuCta *c, const EmuEffect *e, const EmuBar *b, u32 bytes);
void emu_saw_store(EmuWarp *w, EmuEffect *e, u32 bytes);
void emu_saw_product(EmuWarp *w, const EmuOp *op, const EmuProduct *p, u32 index);
void emu_saw_phase(EmuCta *c, const EmuBar *b); // its phase is complete

// ---- ops_mem.c ----------------------------------------------------------------------------------
// Arena offset of a lane's shared address (o[0] base, o[1] byte offset), or UINT32_MAX after a
// report when it is misaligned or outside the buffer that MemRef `mem` names.
u32 emu_shared_offset(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, int mem, int lane, u32 bytes,
                      u32 align);
// Host address of a lane's global access, or NULL after a report. *param: the tensor it is in.
u8 *emu_global(EmuWarp *w, const EmuOp *op, u64 address, int mem, int lane, u32 bytes, u32 align,
               int *param);
// Checks and notes an access to a tensor that the kernel writes.
u32 emu_type_bytes(u8 type); // of an element in memory
void emu_global_note(EmuWarp *w, const EmuOp *op, int param, const u8 *p, u32 bytes, u32 access,
                     int lane, bool write, bool async);
static inline u64 emu_address(EmuWarp *w, const EmuOpnd *o, int lane)
{
    u64 base = o->class == RC_B64 ? emu_reg64(w, o)[lane] : emu_reg(w, o)[lane];
    return base + (u64)o[1].imm;
}

// ---- ops_async.c --------------------------------------------------------------------------------
void emu_effect_run(EmuCta *c, EmuEffect *e);  // performs it and removes it from the pool
bool emu_effect_any(EmuCta *c);                // performs one of them; false when none is pending
// The element at an arena offset now, and the one that a bulk load which has not landed will bring.
bool emu_load_values(const EmuCta *c, u32 access, u32 offset, double *now, double *next);
void emu_cpasync_complete(EmuWarp *w, u32 lanes, u32 keep); // all but the newest `keep` groups
void emu_async_end(EmuWarp *w, const EmuOp *op, u32 lanes); // lanes exit: what they left unwaited

// ---- ops_sync.c ---------------------------------------------------------------------------------
EmuBar *emu_bar_use(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, int mem, int lane);
void emu_bar_arrive(EmuWarp *w, const EmuOp *op, EmuBar *b, u32 lanes, u64 expect_each);
void emu_bar_landed(EmuCta *c, EmuBar *b, u32 bytes, const EmuOp *op);
// Waits at the barrier that an agent with this knowledge comes after are settled.
void emu_bar_settle(const EmuCta *c, EmuBar *b, const EmuClock *known);
// Entry of an mbarrier in EmuClock.phases, from its index in its CTA.
static inline u32 emu_bar_clock(const EmuCta *c, u32 bar) { return c->rank * (u32)c->bars_n + bar; }
void emu_cluster_meet(EmuRun *r);              // lets the cluster's barrier go when all came
// An error when CTA `rank` of the cluster has ended already; else w->at is that CTA.
bool emu_enter_peer(EmuWarp *w, const EmuOp *op, u32 rank, int lane, const char *what);
u32 emu_same_address(EmuWarp *w, const EmuOpnd *o, u32 lanes); // lanes that share the first's
bool emu_converged(EmuWarp *w, const EmuOp *op, u32 mask);     // false after a report
void emu_sync_end(EmuCta *c);                  // the CTA is over: what is left undone

// ---- ops_wgmma.c --------------------------------------------------------------------------------
bool emu_product_any(EmuCta *c);               // performs one product that all four warps issued
void emu_product_end(EmuWarp *w, const EmuOp *op);

// ---- report.c -----------------------------------------------------------------------------------
// Reports a hazard at an operation of a warp. `rule` is like "O6" or NULL; `access` is the other
// one (0: none). Warp, lane and iteration are put before the text. Equal hazards are counted.
void emu_hazard(EmuWarp *w, const EmuOp *op, int lane, EmuHazardKind kind, const char *rule,
                u32 access, const char *fmt, ...) PRINTF_LIKE(7, 8);
void emu_hazard_cta(EmuCta *c, const EmuOp *op, EmuHazardKind kind, const char *rule,
                    const char *fmt, ...) PRINTF_LIKE(5, 6);
void emu_place_shared(const EmuCta *c, i32 buffer, u32 offset, Buf *out); // "h[1][3][20]"
void emu_access_text(const EmuCta *c, u32 access, int lane, Buf *out);    // "read by warp 2 lane 5"
void emu_who(const EmuWarp *w, int lane, Buf *out);
void emu_bar_text(const EmuCta *c, u32 bar, Buf *out);                    // "empty[1]"
void emu_deadlock(EmuCta *c);

#endif
