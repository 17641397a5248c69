// model.h - a kernel as a finite transition system: what extract.c makes, search.c walks through
// and tell.c puts into words.
//
// Agents are the warps of a block, or of all blocks of a cluster. Once the sizes are numbers, what
// steers a warp (orders, slots, phases, loops) is known, so each agent is one straight line of
// events. A position p means: events 0 to p-1 are done, and the accesses between event p-1 and
// event p are under way. Bulk loads are agents too, with three positions: not issued, on the way,
// landed.
#ifndef BATON_VERIFY_MODEL_H
#define BATON_VERIFY_MODEL_H

#include "../plan/plan.h"
#include "bytes.h"
#include "terms.h"

enum {
    LANES = 32,
    MODEL_MAX_EVENTS = 20000,  // of one warp
    MODEL_MAX_STEPS = 30000000, // operations that one case may execute
    NAMED_BARRIERS = 16,
    NEVER = 1 << 30,           // a window that nothing closes
};

typedef enum {
    EV_INIT,        // mbarrier, arg: count
    EV_ARRIVE,      // mbarrier; count arrivals that expect arg bytes each
    EV_EXPECT,      // mbarrier, arg: bytes
    EV_WAIT,        // mbarrier, arg: parity
    EV_LOAD,        // issues loads [load, load + count)
    EV_BAR_ARRIVE,  // named barrier, arg: threads; the first half of bar.sync too
    EV_BAR_PASS,    // the second half of bar.sync
    EV_CLUSTER_ARRIVE,
    EV_CLUSTER_PASS,
    EV_REGS,        // arg: registers a thread from now on
} EventKind;

typedef struct {
    u8 kind;             // EventKind
    bool remote;         // an arrival at another block of the cluster
    i32 bar;             // mbarrier (index in Model.bars), named barrier (cta * 16 + id), or -1
    i32 count, load;
    i64 arg;
    i32 iter;            // of the innermost loop of the source; -1: in none
    const ThreadOp *op;
} Event;

typedef enum { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_INIT, ACCESS_USE,
               ACCESS_WGMMA, ACCESS_STORE, ACCESS_CP, ACCESS_LOAD } AccessKind;

// One operation in one segment: which bytes, and how long it stays open towards accesses that
// nothing orders with it by itself. The window is (at, until]: `until` is the position at which it
// is closed.
typedef struct {
    u8 kind;             // AccessKind
    i32 agent, at, until;
    // The event with which the warp has published it: all lanes that made the access have come, or
    // have met at bar.warp before. NEVER: not yet.
    i32 held;
    u32 lanes;           // that have not fenced
    bool fenced;         // all have; closed once the warp has published it
    u32 who;             // lanes that made it
    i32 unbound;         // reads whose values have no pinned use yet
    i32 set;             // bytes: number in Model.bytes
    i32 group;           // commit group of products, bulk stores, cp.async
    i32 iter;
    i32 slot;            // first coordinate of a buffer with slots; -1
    const ThreadOp *op;
    int mem;             // which MemRef
} Access;

// The beginning of a round of a loop whose number of rounds the launch or the data decides, or the
// end behind its last round (k == n).
typedef struct {
    i32 at, access;      // event and access in front of which it stands
    i32 k, n;            // round, number of rounds
    i32 outer;           // head of the round around, -1: none
    // The decision that gave n its number; equal bounds are one decision. -1: none. A loop whose
    // number of rounds follows from it (n = N + c, or n = N / scale rounded up) is a follower.
    int decision;
    i32 scale;
    bool follows;
    u64 carried;         // registers that steer and come from the round before, modulo Model.modulus
    const ThreadOp *op;
} Head;

typedef VEC(Event) EventVec;
typedef VEC(Access) AccessVec;
typedef VEC(Head) HeadVec;

// Something wrong inside one warp, at a position of it.
typedef struct {
    const char *rule, *text;
    i32 at;
    int x, y;            // accesses of this agent; -1: none
    const ThreadOp *op;
} SelfFault;

typedef struct {
    int cta, warp, kind; // kind: class of equal warps
    EventVec events;
    AccessVec access;
    HeadVec heads;
    VEC(SelfFault) faults;
} Agent;

typedef struct {
    int buffer, slot, cta;
} Barrier;

typedef struct {
    int agent, bar, set;
    i32 event;           // of the agent
    i32 bytes;
    i32 iter, slot;
    const ThreadOp *op;
} Load;

// A choice: the loop or condition, how many ways there are, and which is taken now.
typedef struct {
    const ThreadOp *op;
    int options, taken;
    i64 value;           // trips, or 0 and 1
    const char *what;    // "K=192 M=128", or NULL
    Term lo, hi;         // bounds of the loop; hi TERM_UNKNOWN: a condition
    bool unexplained;    // no size leads there
    int loop, k;         // round k of the loop of another decision in which it was met; -1: in none
} Decision;

typedef struct {
    Arena *arena;        // of this case
    const ThreadModule *module;
    const ThreadFn *fn;
    const Plan *plan;    // NULL: none
    const PlanStep *step;
    const Diag *diag;
    Terms *terms;
    int ctas, warps;     // warps of one block
    i64 arena_bytes;     // stride of the blocks' shared memories in sets
    VEC(Agent) agents;
    VEC(Barrier) bars;
    i32 *bar_at;         // per 8 bytes of the arena: index in the block's barriers, -1
    int bars_each;       // barriers of one block
    VEC(Load) loads;
    ByteSets *bytes;     // of the kernel, shared by its cases
    const struct Whiles *whiles; // see whiles.h; of the kernel
    struct Replays *replays; // likewise, see replay.c; NULL: every loop is executed
    int kinds;           // classes of equal warps
    // choices. by_value: plan_taken holds the values themselves, and behind them the least that a
    // size leads to is taken; a value without a size ends the case as `impossible`.
    int *plan_taken, plan_n, trips_max;
    bool by_value, impossible;
    i64 modulus;         // of Head.carried; 0: the values themselves
    int first;           // first rounds of a loop that steer by their number
    Map *carried;        // of each loop: registers that a round takes over
    VEC(Decision) decisions;
    // what the model leaves out, with the first place of each
    const ThreadOp *unknown_address, *unknown_loop, *unknown_branch;
    int n_unknown_address, n_unknown_loop, n_unknown_branch;
    i64 steps;
    const char *refused; // too large, or something not supported: why
    const ThreadOp *refused_at;
    Map *names;          // register by name, + 1
    int slots_max;
} Model;

struct Replays *replays_new(Arena *a);
// Forgets the numbers of the case before and gives each tensor an address.
void model_start(Model *m);
// extract.c: executes every warp with numbers for what steers it. False: m->refused.
bool model_extract(Model *m);

// access.c
// What is broken when `x` is carried out while `y` of another agent is at the same place (together)
// or still open. NULL: nothing.
const char *model_conflict(const Access *x, const Access *y, bool together);
bool model_is_write(u8 kind);

// ---- search.c ------------------------------------------------------------------------------------

// One way to go wrong. `count` says how far each agent and each load has got; entities are agents,
// then loads.
typedef struct {
    const char *rule;
    const char *text;
    int who, other;      // agents; -1: none
    int x, y;            // accesses of who and other; -1
    int load;            // on the way, -1: none
    int entity;          // whose step is at fault, -1: none
    i64 generation;      // that the step counts for here, and on another schedule; -1
    i64 generation2;
    const ThreadOp *op, *op2;
    i32 *count;          // per entity
    i32 length;          // steps
    bool stuck;          // a matter of the end: everybody is done or waits
} Violation;

typedef struct {
    i64 states, transitions;
    int runs;
    VEC(Violation) found;
    bool out_of_memory;
    i64 state_limit;     // states of one run
    bool full;           // no reduction
} Search;

void search_model(Model *m, Search *s);
// Leaves out every step that the violation does not need.
void search_shorten(Model *m, Violation *v);

// Layout of a state, words of 32 bits.
typedef struct {
    int entities, pos, note, bar, named, cluster, pool, words;
} StateLayout;
StateLayout state_layout(const Model *m);
void state_start(const Model *m, const StateLayout *l, u32 *w);

typedef struct {
    const char *rule, *text;
    int bar;             // mbarrier concerned, -1
    int victim;          // agent whose wait can no longer be trusted, -1
} StepFault;
// Can the entity make its next step?
bool state_enabled(const Model *m, const StateLayout *l, const u32 *w, int entity);
// Makes it. The first fault that it commits is noted.
void state_step(const Model *m, const StateLayout *l, u32 *w, int entity, StepFault *fault);
// An agent at the end of its line, a load that is not on the way.
bool state_done(const Model *m, const StateLayout *l, const u32 *w, int entity);
// The phase (round of a named barrier) for which the next step of the entity counts; -1: it has
// none, or waits.
i64 state_generation(const Model *m, const StateLayout *l, const u32 *w, int entity);
typedef struct { u32 phase, came, arrivals; i32 bytes; } BarrierState;
void state_barrier(const StateLayout *l, const u32 *w, int bar, BarrierState *out);
void state_named(const StateLayout *l, const u32 *w, int bar, u32 *came, u32 *threads);
// Makes steps until every entity has got as far as `count` says. False: it cannot be done.
bool state_reach(const Model *m, const StateLayout *l, const i32 *count, u32 *w);

// tell.c: the violation, and the steps that lead there.
void tell_violation(const Model *m, const Violation *v, bool trace, Buf *out);
void tell_place(const Model *m, const ThreadOp *op, Buf *out);
// One side of a violation: who, in which iteration, which slot, and where in the source.
void tell_access(const Model *m, int agent, int access, Buf *out);
void tell_load(const Model *m, int load, Buf *out);
void tell_event(const Model *m, int agent, const ThreadOp *op, int bar, Buf *out);
// The name of a rule ("race"), and in *why what its violation means.
const char *tell_rule(const char *rule, const char **why);

#endif
