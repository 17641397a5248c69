// plan.h - the launch plan: the host half of a compiled tile function, as data. What the parameters
// are, where each symbol's value comes from, what must hold, and which steps run. Expressions are
// those of base/expr.h over the plan's symbols; the runtime and the emulator evaluate them, nothing
// on the host is compiled. It is printed as comment lines at the head of the PTX ("//@ ..."), so
// that one file is enough to run.
//
// Names that expressions may use: the symbols of the plan, and the device properties in
// PLAN_DEVICE_PROPS. A symbol gets its value from the first extent that names it; every later
// extent of the same name is a check.
#ifndef BATON_PLAN_H
#define BATON_PLAN_H

#include "../../ops/host.h"
#include "../base/expr.h"
#include "../target/tma.h"
#include "../thread/thread.h"

enum { PLAN_MAX_RANK = 6 };

//                       id            name in expressions
#define PLAN_DEVICE_PROPS(X)             \
    X(PROP_SM_COUNT, "device.sms")       \
    X(PROP_SMEM_MAX, "device.smem_max")
typedef enum {
#define X(id, name) id,
    PLAN_DEVICE_PROPS(X)
#undef X
    PROP_COUNT
} PlanDeviceProp;

// A workspace is a tensor that the runtime makes and one host step fills; kernels only read it, so
// one copy serves all launches of the same sizes. Workspaces stand behind the caller's parameters.
typedef enum { PLAN_TENSOR, PLAN_SCALAR, PLAN_WORKSPACE } PlanParamKind;
typedef struct {
    const char *name;
    u8 kind;                          // PlanParamKind
    DType type;
    bool in, out;                     // read / written by the kernels (a tensor may be both)
    bool result;                      // made by the function (`return`), not passed by the caller
    int rank;                         // tensors: 0..PLAN_MAX_RANK
    const Expr *dim[PLAN_MAX_RANK];   // extents, elements; a bare variable binds its symbol, but
                                      // not in a workspace
    int align;                        // bytes that the base address must be a multiple of
    Loc loc;
} PlanParam;                          // tensors are dense, row-major (last dimension contiguous)

// A name that expressions may use, and where its value comes from at launch. Both sources are
// arguments of the caller: an extent of a tensor, or an integer parameter.
typedef enum { SYM_EXTENT, SYM_SCALAR } PlanSymbolSource;
typedef struct {
    const char *name;                 // interned, as in expressions
    u8 source;                        // PlanSymbolSource
    int param, dim;                   // which extent, or which scalar parameter
    bool has_default;
    i64 default_value;                // from the contract
} PlanSymbol;

// A rule about sizes, from the contract's `where:` or from the compiler. Checked at every launch,
// before any step; the kernels may rely on it.
typedef struct {
    const Expr *cond;                 // must be nonzero
    const char *text;                 // what is required, for the message ("K is a multiple of 8")
    Loc loc;
} PlanCheck;

// A tensor map as expressions: the runtime makes one with numbers at each launch, since it holds
// the tensor's address, and passes it to the kernel by value.
typedef struct {
    int param;                        // tensor that it describes
    int rank;                         // innermost dimension first, as TensorMap
    const Expr *dim[TMA_MAX_RANK];    // elements
    const Expr *stride[TMA_MAX_RANK]; // bytes; [0] is the element size
    u32 box[TMA_MAX_RANK];            // elements
    SmemLayout swizzle;
    int promote;                      // L2 promotion in bytes: 64, 128, 256; 0: not given (256)
} PlanTensorMap;

typedef enum { ARG_TENSOR, ARG_VALUE, ARG_FLOAT, ARG_TMAP } PlanArgKind;
typedef struct {                      // one per ThreadParam of the kernel, in its order
    u8 kind;                          // PlanArgKind
    int index;                        // ARG_TENSOR, ARG_FLOAT: parameter; ARG_TMAP: PlanStep.tmaps
    const Expr *value;                // ARG_VALUE (s32 or s64 by the kernel's parameter)
} PlanArg;

// Steps run in order on one stream. Variants of one kernel (with and without the TMA unit) are
// steps whose conditions exclude each other.
typedef enum { STEP_KERNEL, STEP_MEMSET, STEP_HOST } PlanStepKind;
typedef struct {
    u8 kind;                          // PlanStepKind
    const Expr *when;                 // NULL: always; else the step runs when it is nonzero
    // STEP_KERNEL
    const char *kernel;               // ThreadFn name
    const Expr *grid[3];              // any of them 0: nothing is launched
    int block, cluster;               // threads of a CTA; CTAs of a cluster, 1: none
    i64 smem_bytes;                   // dynamic shared memory of a CTA
    VEC(PlanArg) args;
    VEC(PlanTensorMap) tmaps;
    // STEP_MEMSET: fills a tensor parameter with a byte. STEP_HOST: a function of ops/host.h fills
    // a workspace, when the launch is prepared and hence before every kernel
    int param;
    u8 byte;
    const char *function;             // STEP_HOST: its name
    VEC(const Expr *) host_args;
} PlanStep;

typedef struct {
    const char *name;                 // of the tile function
    VEC(PlanParam) params;
    VEC(PlanSymbol) symbols;
    VEC(PlanCheck) checks;
    VEC(PlanStep *) steps;
    // what was compiled: every option that changes the program ("handoff=proxy")
    const char *options;
} Plan;

// Number of parameters that the caller passes: all before the first workspace.
int plan_arguments(const Plan *p);
// The step that launches the kernel; NULL: there is none, or no plan.
const PlanStep *plan_step_of(const Plan *p, const char *kernel);

// ---- print.c, read.c ----------------------------------------------------------------------------
// Text form, one item a line, exact in both directions. `prefix` stands before every line ("//@ ").
void plan_print(const Plan *p, const char *prefix, Buf *out);
// Reads the plan out of text whose lines may carry the prefix; lines without it are skipped.
Plan *plan_read(Arena *a, ExprPool *e, Diag *d, u16 file, const char *prefix, const char *text,
                size_t n);

// ---- check.c: the law. Every name is bound, arguments fit the kernels of `m` (NULL: not asked),
// tensor maps keep the limits that can be known without sizes, steps name known kernels.
bool plan_check(const Plan *p, const ThreadModule *m, Diag *d);

// ---- host.c: host steps for the compiler --------------------------------------------------------
// Appends the workspace `name` with the type and the extents that the host function makes of
// `args`, and puts the step that fills it before all others. Parameters of the caller must not
// follow. The arguments may use symbols and device properties. Returns the index of the parameter,
// or -1 after an error at `loc`.
int plan_add_workspace(Arena *a, ExprPool *e, Diag *d, Plan *p, const char *name,
                       const char *function, const Expr *const *args, int nargs, Loc loc);

// What the host function that fills the workspace says about its elements (OpsHostBound), in the
// names of the plan. Returns how many of `out` there are (OPS_HOST_MAX_BOUNDS places), 0 for other
// parameters.
int plan_bounds(ExprPool *e, const Plan *p, int param, OpsHostBound *out);

// ---- extend.c: for passes that add parameters ---------------------------------------------------
// The name, or with a number behind it the first that no parameter and no symbol has; interned.
const char *plan_free_name(const Plan *p, ExprPool *e, const char *wanted);
// Puts `q` behind the caller's parameters under a free name; a scalar gets a symbol of that name.
// Returns its index. The kernels' arguments stay as they are.
int plan_add_argument(Arena *a, ExprPool *e, Plan *p, PlanParam q);

// ---- eval.c: the plan with numbers --------------------------------------------------------------
typedef struct {                      // a tensor or scalar as the caller passes it
    void *data;                       // host or device address; owned by the caller
    DType type;
    int rank;
    i64 dim[PLAN_MAX_RANK];           // elements
    i64 int_value;                    // scalars
    double float_value;
} PlanValue;

// All names of a plan with their values; made by plan_bind, read by the other functions.
typedef struct {
    const Plan *plan;
    i64 *symbol;                      // value per PlanSymbol
    i64 prop[PROP_COUNT];             // of the device that the launch is for
} PlanBinding;
// Gives every symbol its value from `values` (one per parameter that the caller passes; result
// tensors only need dims once bound), checks types, ranks, repeated extents, alignment and
// `checks`. Returns NULL, or one sentence that names the argument and the rule (lives in the
// arena).
const char *plan_bind(Arena *a, const Plan *p, const PlanValue *values, const i64 *props,
                      PlanBinding *out);
// Extents of a tensor parameter once symbols are known by name (before arrays exist): `lookup`
// gives symbols. Returns NULL or a reason.
const char *plan_param_dims(Arena *a, const Plan *p, int param, ExprLookup *lookup, void *ctx,
                            i64 *dims);
const char *plan_eval(Arena *a, const PlanBinding *b, const Expr *e, i64 *out); // NULL or reason
// Type, rank and extents of a workspace, without memory. NULL or a reason.
const char *plan_workspace(Arena *a, const PlanBinding *b, int param, PlanValue *out);
// The tensor map with numbers, for the tensor at `base`. Checked with tma_check.
const char *plan_tensor_map(Arena *a, const PlanBinding *b, const PlanTensorMap *t, void *base,
                            TensorMap *out);

#endif
