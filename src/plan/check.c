// check.c - the law of launch plans. Input: a plan, and the kernels that it launches when they are
// at hand. Output: one error per broken rule, "launch plan: <who>: <rule>". What depends on sizes
// is checked when they are known (eval.c, and the runtime for the limits of the device).
#include "plan.h"
#include "../../ops/host.h"

#include <ctype.h>
#include <string.h>

enum {
    EXPR_BUDGET = 200000,   // nodes walked per plan: no expression may cost more than milliseconds
    SMEM_LIMIT = 227 * 1024, // dynamic shared memory of one CTA on sm_90, bytes
};

typedef struct {
    const Plan *plan;
    Diag *diag;
    bool ok;
    int budget;
    const char *who;        // the item that is being checked
    Loc loc;
} Checker;

static void broken(Checker *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Reports one broken rule of the item c->who. Checking goes on, so that one run shows all of them.
static void broken(Checker *c, const char *fmt, ...)
{
    Buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    diag_error(c->diag, c->loc, NULL, "launch plan: %s: %s", c->who, b.s);
    buf_free(&b);
    c->ok = false;
}

// Written as the rule that must hold; the text says what is wrong when it does not.
#define LAW(cond, ...)                     \
    do {                                   \
        if (!(cond)) broken(c, __VA_ARGS__); \
    } while (0)

// Names end up in PTX, in C and in expressions: letters, digits and _ are safe in all of them.
static bool is_word(const char *s)
{
    if (!s || (!isalpha((unsigned char)*s) && *s != '_')) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return *s == 0;
}

// NULL for an index out of range: plans come out of files too.
static const PlanParam *param_at(const Plan *p, int k)
{
    return k >= 0 && k < p->params.n ? &p->params.at[k] : NULL;
}

// In device memory: what a kernel may get the address of.
static bool is_tensor(const PlanParam *q) { return q && q->kind != PLAN_SCALAR; }

// Symbols and device properties: nothing else has a value at launch.
static bool name_is_bound(const Plan *p, const char *name)
{
    static const char *const props[] = {
#define X(id, text) text,
        PLAN_DEVICE_PROPS(X)
#undef X
    };
    for (int i = 0; i < COUNT(props); i++)
        if (strcmp(props[i], name) == 0) return true;
    for (int i = 0; i < p->symbols.n; i++)
        if (strcmp(p->symbols.at[i].name, name) == 0) return true;
    return false;
}

// The budget is of the whole plan: expressions are trees that share nodes, and a tree of a few
// shared nodes can stand for billions.
static void walk_names(Checker *c, const char *what, const Expr *e)
{
    if (!e || c->budget-- <= 0) return;
    if (e->op == EX_VAR) {
        LAW(name_is_bound(c->plan, e->name), "%s uses %s, which no extent or scalar gives", what,
            e->name);
        return;
    }
    if (e->op == EX_CONST) return;
    walk_names(c, what, e->a);
    walk_names(c, what, e->b);
    walk_names(c, what, e->c);
}

// An expression that must be there and use bound names only.
static void check_expr(Checker *c, const char *what, const Expr *e)
{
    LAW(e, "%s is missing", what);
    if (!e) return;
    bool had = c->budget > 0;
    walk_names(c, what, e);
    if (had && c->budget <= 0) broken(c, "%s: the expressions of the plan are too large", what);
}

// ---- parameters, symbols, checks ----------------------------------------------------------------

// Workspaces stand last, are read only, and one host step each fills them.
static void check_workspace(Checker *c, int k)
{
    const Plan *p = c->plan;
    const PlanParam *q = &p->params.at[k];
    if (q->kind != PLAN_WORKSPACE) {
        LAW(k < plan_arguments(p), "a parameter of the caller stands behind a workspace");
        return;
    }
    LAW(q->in && !q->out && !q->result,
        "a workspace is read by the kernels and filled by a host step, nothing else");
    int fills = 0;
    for (int i = 0; i < p->steps.n; i++)
        fills += p->steps.at[i]->kind == STEP_HOST && p->steps.at[i]->param == k;
    LAW(fills == 1, "%d host steps fill the workspace; one must", fills);
}

// Tensors are dense and have extents over the symbols; scalars have none. A result is a tensor that
// the function makes, so it must be written by some kernel.
static void check_param(Checker *c, int k)
{
    const PlanParam *q = &c->plan->params.at[k];
    LAW(is_word(q->name), "parameter %d has no proper name", k);
    if (!is_word(q->name)) return;
    c->who = q->name;
    c->loc = q->loc;
    for (int i = 0; i < k; i++)
        LAW(!c->plan->params.at[i].name || strcmp(c->plan->params.at[i].name, q->name) != 0,
            "two parameters have this name");
    LAW((unsigned)q->type < DT_COUNT, "the element type is unknown");
    LAW(q->align >= 1 && (q->align & (q->align - 1)) == 0, "alignment %d is no power of two",
        q->align);
    if (q->kind == PLAN_SCALAR) {
        LAW(!q->out && !q->result, "a scalar is passed by value and cannot be written");
        LAW(q->rank == 0, "a scalar has no extents");
        check_workspace(c, k);
        return;
    }
    LAW(q->rank >= 0 && q->rank <= PLAN_MAX_RANK, "rank %d is not within 0..%d", q->rank,
        PLAN_MAX_RANK);
    LAW(!q->result || q->out, "a result must be written");
    for (int i = 0; i < MIN(q->rank, (int)PLAN_MAX_RANK); i++)
        check_expr(c, "an extent", q->dim[i]);
    check_workspace(c, k);
}

// True when extent `d` of parameter `k` is the first of the plan that is the bare symbol `name`.
static bool is_first_extent(const Plan *p, const char *name, int k, int d)
{
    for (int i = 0; i < p->params.n; i++) {
        const PlanParam *q = &p->params.at[i];
        if (q->kind != PLAN_TENSOR || q->result) continue;
        for (int j = 0; j < MIN(q->rank, (int)PLAN_MAX_RANK); j++) {
            const Expr *e = q->dim[j];
            if (e && e->op == EX_VAR && strcmp(e->name, name) == 0) return i == k && j == d;
        }
    }
    return false;
}

// A symbol has one source: the first extent of the caller that is its bare name, or an integer
// parameter. Every later extent with the name is compared with it when the plan is bound.
static void check_symbol(Checker *c, int k)
{
    const PlanSymbol *s = &c->plan->symbols.at[k];
    LAW(is_word(s->name), "symbol %d has no proper name", k);
    if (!is_word(s->name)) return;
    c->who = s->name;
    for (int i = 0; i < k; i++)
        LAW(!c->plan->symbols.at[i].name || strcmp(c->plan->symbols.at[i].name, s->name) != 0,
            "two symbols have this name");
    const PlanParam *q = param_at(c->plan, s->param);
    LAW(q, "the symbol comes from no parameter");
    if (!q) return;
    if (s->source == SYM_SCALAR) {
        LAW(q->kind == PLAN_SCALAR && !dtype_is_float(q->type),
            "the symbol comes from %s, which is no integer scalar", q->name);
        return;
    }
    LAW(is_first_extent(c->plan, s->name, s->param, s->dim),
        "the symbol comes from extent %d of %s, which is not the first extent with its name",
        s->dim, q->name);
}

// Each rule has a sentence for the caller whose sizes break it, and a condition over bound names.
static void check_conditions(Checker *c)
{
    for (int i = 0; i < c->plan->checks.n; i++) {
        const PlanCheck *k = &c->plan->checks.at[i];
        c->who = "check";
        c->loc = k->loc;
        LAW(k->text && *k->text, "check %d does not say what it requires", i);
        check_expr(c, "the condition", k->cond);
    }
}

// ---- steps --------------------------------------------------------------------------------------

// The limits of the TMA unit that hold for all sizes: box of 1 to 256 elements in each dimension,
// rows of 16-byte units no wider than the swizzle, strides of 16-byte units below 2^40. What sizes
// decide is tma_check's, when they are known.
static void check_tmap(Checker *c, const PlanTensorMap *t, int index)
{
    const PlanParam *q = param_at(c->plan, t->param);
    LAW(is_tensor(q), "tensor map %d describes no tensor", index);
    LAW(t->rank >= 1 && t->rank <= TMA_MAX_RANK, "tensor map %d has rank %d, not 1..%d", index,
        t->rank, TMA_MAX_RANK);
    LAW((unsigned)t->swizzle < SL_COUNT, "tensor map %d has an unknown swizzle", index);
    LAW(!t->promote || tma_promotes(t->promote),
        "tensor map %d: an L2 promotion of %d bytes, not 64, 128 or 256", index, t->promote);
    // The rules below look into the parameter and into boxes of a known rank.
    if (!c->ok) return;
    i64 elem = dtype_bytes[q->type], v = 0;
    for (int i = 0; i < t->rank; i++) {
        check_expr(c, "an extent of a tensor map", t->dim[i]);
        check_expr(c, "a stride of a tensor map", t->stride[i]);
        LAW(t->box[i] >= 1 && t->box[i] <= 256, "box extent %d of tensor map %d is %u, not 1..256",
            i, index, t->box[i]);
        if (i && t->stride[i] && expr_is_const(t->stride[i], &v))
            LAW(v % 16 == 0 && v >= 0 && v < ((i64)1 << 40),
                "stride %d of tensor map %d is %lld bytes; TMA needs a multiple of 16 below 2^40",
                i, index, (long long)v);
    }
    LAW(!t->stride[0] || (expr_is_const(t->stride[0], &v) && v == elem),
        "stride 0 of tensor map %d is not the element size", index);
    i64 inner = t->box[0] * elem, span = smem_layout[t->swizzle].span;
    LAW(inner % 16 == 0,
        "tensor map %d: a row of the box is %lld bytes; TMA needs a multiple of 16", index,
        (long long)inner);
    LAW(!span || inner <= span, "tensor map %d: a row of the box is %lld bytes; %s allows %lld",
        index, (long long)inner, smem_layout[t->swizzle].name, (long long)span);
}

// One argument by itself; against the kernel's parameter of its place it is checked below.
static void check_arg(Checker *c, const PlanStep *s, int index)
{
    const PlanArg *g = &s->args.at[index];
    const PlanParam *q = param_at(c->plan, g->index);
    switch (g->kind) {
    case ARG_TENSOR:
        LAW(is_tensor(q), "argument %d names no tensor", index);
        break;
    case ARG_FLOAT:
        LAW(q && q->kind == PLAN_SCALAR && dtype_is_float(q->type),
            "argument %d names no scalar of a float type", index);
        break;
    case ARG_TMAP:
        LAW(g->index >= 0 && g->index < s->tmaps.n, "argument %d names no tensor map", index);
        break;
    case ARG_VALUE:
        check_expr(c, "an argument", g->value);
        break;
    default:
        broken(c, "argument %d is of no known kind", index);
    }
}

// Kind of plan argument that a kernel parameter of each ParamKind takes.
static const u8 arg_for_param[] = {
    [PARAM_PTR] = ARG_TENSOR, [PARAM_S32] = ARG_VALUE,  [PARAM_S64] = ARG_VALUE,
    [PARAM_F32] = ARG_FLOAT,  [PARAM_TMAP] = ARG_TMAP,
};
static const char *const arg_kind_name[] = {
    [ARG_TENSOR] = "a tensor", [ARG_VALUE] = "an integer", [ARG_FLOAT] = "a float",
    [ARG_TMAP] = "a tensor map",
};

// The step against the kernel that it launches.
static void check_against(Checker *c, const PlanStep *s, const ThreadModule *m)
{
    const ThreadFn *fn = NULL;
    for (int i = 0; i < m->fns.n; i++)
        if (strcmp(m->fns.at[i]->name, s->kernel) == 0) fn = m->fns.at[i];
    LAW(fn, "the module has no such kernel");
    if (!fn) return;
    LAW(fn->threads == s->block, "the plan launches %d threads, the kernel is made for %d",
        s->block, fn->threads);
    LAW(MAX(fn->cluster, 1) == s->cluster, "the plan launches clusters of %d, the kernel has %d",
        s->cluster, MAX(fn->cluster, 1));
    // The launch may give more than the kernel asks for, never less.
    LAW(fn->smem_bytes <= s->smem_bytes, "the plan gives %lld bytes of shared memory, the kernel "
        "uses %lld", (long long)s->smem_bytes, (long long)fn->smem_bytes);
    LAW(fn->params.n == s->args.n, "the plan passes %d arguments, the kernel has %d parameters",
        s->args.n, fn->params.n);
    for (int i = 0; i < MIN(fn->params.n, s->args.n); i++) {
        int want = arg_for_param[fn->params.at[i].kind], got = s->args.at[i].kind;
        LAW(want == got || got > ARG_TMAP,
            "argument %d is %s, parameter %s of the kernel takes %s", i,
            arg_kind_name[MIN(got, (int)ARG_TMAP)], fn->params.at[i].name, arg_kind_name[want]);
    }
}

// Blocks of whole warps up to 1024 threads and clusters of up to 8 CTAs, the portable size, are
// what the GPU launches.
static void check_kernel_step(Checker *c, const PlanStep *s, const ThreadModule *m)
{
    LAW(is_word(s->kernel), "a step launches a kernel without a proper name");
    if (!is_word(s->kernel)) return;
    c->who = s->kernel;
    for (int i = 0; i < 3; i++) check_expr(c, "the grid", s->grid[i]);
    LAW(s->block >= 32 && s->block <= 1024 && s->block % 32 == 0,
        "a block of %d threads; a multiple of 32 up to 1024 is possible", s->block);
    LAW(s->cluster >= 1 && s->cluster <= 8, "a cluster of %d CTAs; 1 to 8 are possible",
        s->cluster);
    LAW(s->smem_bytes >= 0 && s->smem_bytes <= SMEM_LIMIT,
        "%lld bytes of shared memory; %d are there", (long long)s->smem_bytes, (int)SMEM_LIMIT);
    for (int i = 0; i < s->tmaps.n; i++) check_tmap(c, &s->tmaps.at[i], i);
    for (int i = 0; i < s->args.n; i++) check_arg(c, s, i);
    if (m) check_against(c, s, m);
}

// Against the table of host functions, so that a plan from a file cannot name anything else. Host
// steps have no condition, since all of them run before the first kernel.
static void check_host_step(Checker *c, const PlanStep *s)
{
    const PlanParam *q = param_at(c->plan, s->param);
    LAW(!s->when, "a host step has no condition");
    LAW(s->function, "a host step without a function");
    if (!s->function) return;
    c->who = s->function;
    const OpsHostFunction *f = ops_host_find(s->function);
    LAW(f, "there is no host function of this name; there is %s", ops_host_name(0));
    LAW(q && q->kind == PLAN_WORKSPACE, "a host step fills a workspace, %s is none",
        q ? q->name : "its target");
    for (int i = 0; i < s->host_args.n; i++) check_expr(c, "an argument", s->host_args.at[i]);
    if (!f || !q) return;
    LAW(s->host_args.n == f->nargs, "%d arguments, the function takes %d: %s", s->host_args.n,
        f->nargs, f->args);
    LAW(q->type == f->type && q->rank == f->rank,
        "the function gives %s in %d dimensions, %s is %s in %d", dtype_name[f->type], f->rank,
        q->name, (unsigned)q->type < DT_COUNT ? dtype_name[q->type] : "unknown", q->rank);
}

// Parameters first: later rules use their kinds and types without asking again whether they are
// right.
bool plan_check(const Plan *p, const ThreadModule *m, Diag *d)
{
    Checker checker = {.plan = p, .diag = d, .ok = true, .budget = EXPR_BUDGET, .who = "plan"};
    Checker *c = &checker;
    LAW(is_word(p->name), "the function has no proper name");
    for (int i = 0; i < p->params.n; i++) check_param(c, i);
    c->loc = (Loc){0};
    for (int i = 0; i < p->symbols.n; i++) check_symbol(c, i);
    check_conditions(c);
    c->loc = (Loc){0};
    for (int i = 0; i < p->steps.n; i++) {
        const PlanStep *s = p->steps.at[i];
        c->who = "step";
        if (s->when) check_expr(c, "the condition of a step", s->when);
        if (s->kind == STEP_KERNEL) {
            check_kernel_step(c, s, m);
            continue;
        }
        if (s->kind == STEP_HOST) {
            check_host_step(c, s);
            continue;
        }
        const PlanParam *q = param_at(p, s->param);
        LAW(s->kind == STEP_MEMSET, "step %d is of no known kind", i);
        LAW(q && q->kind == PLAN_TENSOR && q->out, "step %d fills no tensor that may be written",
            i);
    }
    return c->ok;
}
