// eval.c - a launch plan meets the caller's tensors: every symbol gets its value, everything that
// the plan requires is checked, and extents, arguments and tensor maps become numbers.
//
// Input is what a caller passed, so anything may be wrong with it; each function answers NULL or
// one sentence that names the argument and the rule. Nothing overflows: sizes that do not fit 63
// bits are refused.
#include "plan.h"

#include <inttypes.h>
#include <string.h>

static const char *const prop_name[PROP_COUNT] = {
#define X(id, text) [id] = text,
    PLAN_DEVICE_PROPS(X)
#undef X
};

// -1 when the plan has no such symbol: the name may be a device property's.
static int symbol_index(const Plan *p, const char *name)
{
    for (int i = 0; i < p->symbols.n; i++)
        if (strcmp(p->symbols.at[i].name, name) == 0) return i;
    return -1;
}

// Symbols first, then device properties; their names hold a dot, so the two cannot meet.
static bool binding_lookup(void *ctx, const char *name, i64 *value)
{
    const PlanBinding *b = ctx;
    int k = symbol_index(b->plan, name);
    if (k >= 0) {
        *value = b->symbol[k];
        return true;
    }
    for (int i = 0; i < PROP_COUNT; i++) {
        if (strcmp(prop_name[i], name) != 0) continue;
        *value = b->prop[i];
        return true;
    }
    return false;
}

// "; here K = 100, N = 8": the symbols that e uses, with their values.
static void put_values(Buf *out, const PlanBinding *b, const Expr *e)
{
    int n = 0;
    for (int i = 0; i < b->plan->symbols.n; i++) {
        const char *name = b->plan->symbols.at[i].name;
        if (!expr_uses(e, name)) continue;
        buf_printf(out, "%s%s = %" PRId64, n++ ? ", " : "; here ", name, b->symbol[i]);
    }
}

// Takes the text out of a Buf into the arena.
static const char *sentence(Arena *a, Buf *b)
{
    const char *s = arena_strndup(a, b->s ? b->s : "", b->n);
    buf_free(b);
    return s;
}

// The sentence names the expression and the values in it: "division by zero in K / N; here N = 0".
const char *plan_eval(Arena *a, const PlanBinding *b, const Expr *e, i64 *out)
{
    *out = 0;
    const char *why = expr_eval(e, binding_lookup, (void *)b, out);
    if (!why) return NULL;
    Buf text = {0};
    buf_printf(&text, "%s in ", why);
    expr_print(e, &text);
    put_values(&text, b, e);
    return sentence(a, &text);
}

int plan_arguments(const Plan *p)
{
    int n = 0;
    while (n < p->params.n && p->params.at[n].kind != PLAN_WORKSPACE) n++;
    return n;
}

const PlanStep *plan_step_of(const Plan *p, const char *kernel)
{
    for (int i = 0; p && i < p->steps.n; i++) {
        const PlanStep *s = p->steps.at[i];
        if (s->kind == STEP_KERNEL && strcmp(s->kernel, kernel) == 0) return s;
    }
    return NULL;
}

// ---- the caller's arguments ---------------------------------------------------------------------

// Elements of a tensor; false when a dimension is negative or the bytes do not fit 63 bits.
static bool count_elements(DType type, int rank, const i64 *dim, i64 *out)
{
    i64 n = 1, bytes;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0) return false;
        if (dim[i] == 0) empty = true;
    }
    // An empty tensor has 0 elements whatever its other extents, whose product alone might
    // overflow.
    *out = 0;
    if (empty) return true;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, dim[i], &n)) return false;
    if (__builtin_mul_overflow(n, (i64)dtype_bytes[type], &bytes)) return false;
    *out = n;
    return true;
}

// Range of an integer scalar type; false for types that hold any i64 (u64 is passed as its bits).
static bool scalar_range(DType t, i64 *lo, i64 *hi)
{
    if (t == DT_BOOL) {
        *lo = 0;
        *hi = 1;
        return true;
    }
    int bits = dtype_bytes[t] * 8;
    if (bits == 64) return false;
    *lo = dtype_is_signed(t) ? -((i64)1 << (bits - 1)) : 0;
    *hi = dtype_is_signed(t) ? ((i64)1 << (bits - 1)) - 1 : ((i64)1 << bits) - 1;
    return true;
}

// Floats take any value; an integer must be one that its type holds, since the kernel gets its
// bits.
static const char *bind_scalar(Arena *a, const PlanParam *q, const PlanValue *v)
{
    i64 lo, hi;
    if (v->type != q->type)
        return arena_printf(a, "argument %s is %s; the kernel takes %s", q->name,
                            dtype_name[v->type], dtype_name[q->type]);
    if (!dtype_is_float(q->type) && scalar_range(q->type, &lo, &hi) &&
        (v->int_value < lo || v->int_value > hi))
        return arena_printf(a, "argument %s is %" PRId64 "; %s holds %" PRId64 " to %" PRId64,
                            q->name, v->int_value, dtype_name[q->type], lo, hi);
    return NULL;
}

// A result that the caller has not made yet: its extents follow from the symbols.
static bool is_open_result(const PlanParam *q, const PlanValue *v)
{
    return q->result && !v->data && v->rank == 0;
}

// Everything about one tensor that needs no symbol.
static const char *bind_tensor(Arena *a, const PlanParam *q, const PlanValue *v)
{
    if (v->type != q->type)
        return arena_printf(a, "argument %s has elements of type %s; the kernel takes %s", q->name,
                            dtype_name[v->type], dtype_name[q->type]);
    if (v->rank != q->rank)
        return arena_printf(a, "argument %s has %d dimensions; the kernel takes %d", q->name,
                            v->rank, q->rank);
    i64 n;
    for (int i = 0; i < q->rank; i++)
        if (v->dim[i] < 0)
            return arena_printf(a, "extent %d of argument %s is %" PRId64
                                   "; it must not be negative", i, q->name, v->dim[i]);
    if (!count_elements(q->type, q->rank, v->dim, &n))
        return arena_printf(a, "argument %s has more bytes than 63 bits can count", q->name);
    if (n && !v->data)
        return arena_printf(a, "argument %s has %" PRId64 " elements and no address", q->name, n);
    if (n && q->align > 1 && (uintptr_t)v->data % (uintptr_t)q->align)
        return arena_printf(a, "argument %s lies at address %p; the kernel needs a multiple of %d",
                            q->name, v->data, q->align);
    return NULL;
}

// A type out of range can come from a caller in C and would index past the tables below.
static const char *bind_one(Arena *a, const PlanParam *q, const PlanValue *v)
{
    if (is_open_result(q, v)) return NULL;
    if ((unsigned)v->type >= DT_COUNT)
        return arena_printf(a, "argument %s has no element type that exists", q->name);
    return q->kind == PLAN_SCALAR ? bind_scalar(a, q, v) : bind_tensor(a, q, v);
}

// "extent 1 of q" or "the scalar n": where a symbol's value came from.
static const char *origin(Arena *a, const Plan *p, const PlanSymbol *s)
{
    const char *name = p->params.at[s->param].name;
    return s->source == SYM_SCALAR ? arena_printf(a, "argument %s", name)
                                   : arena_printf(a, "extent %d of argument %s", s->dim, name);
}

// Every extent that is an expression of symbols must have the value that the symbols give.
static const char *bind_extents(Arena *a, const PlanBinding *b, const PlanParam *q,
                                const PlanValue *v)
{
    if (q->kind != PLAN_TENSOR || is_open_result(q, v)) return NULL;
    for (int i = 0; i < q->rank; i++) {
        i64 want;
        const char *why = plan_eval(a, b, q->dim[i], &want);
        if (why) return arena_printf(a, "extent %d of argument %s: %s", i, q->name, why);
        if (want == v->dim[i]) continue;
        Buf text = {0};
        buf_printf(&text, "extent %d of argument %s is %" PRId64 "; ", i, q->name, v->dim[i]);
        if (q->dim[i]->op == EX_CONST) {
            buf_printf(&text, "the kernel is made for %" PRId64, want);
        } else if (q->dim[i]->op == EX_VAR) {
            int k = symbol_index(b->plan, q->dim[i]->name);
            buf_printf(&text, "%s is %" PRId64, q->dim[i]->name, want);
            if (k >= 0) buf_printf(&text, " by %s", origin(a, b->plan, &b->plan->symbols.at[k]));
        } else {
            buf_puts(&text, "the kernel takes ");
            expr_print(q->dim[i], &text);
            buf_printf(&text, " = %" PRId64, want);
            put_values(&text, b, q->dim[i]);
        }
        return sentence(a, &text);
    }
    return NULL;
}

// The first rule that does not hold, with the values that it depends on.
static const char *bind_checks(Arena *a, const PlanBinding *b)
{
    for (int i = 0; i < b->plan->checks.n; i++) {
        const PlanCheck *c = &b->plan->checks.at[i];
        i64 v;
        const char *why = plan_eval(a, b, c->cond, &v);
        if (!why && v) continue;
        Buf text = {0};
        buf_printf(&text, "%s requires that %s", b->plan->name, c->text);
        if (why)
            buf_printf(&text, "; %s", why);
        else
            put_values(&text, b, c->cond);
        return sentence(a, &text);
    }
    return NULL;
}

// In this order: each argument by itself, the symbols, extents against symbols, and the plan's
// rules. Each step may rely on the ones before it, and the first sentence is the most direct one.
const char *plan_bind(Arena *a, const Plan *p, const PlanValue *values, const i64 *props,
                      PlanBinding *out)
{
    *out = (PlanBinding){.plan = p};
    memcpy(out->prop, props, sizeof out->prop);
    out->symbol = ARENA_ARRAY(a, i64, MAX(p->symbols.n, 1));
    int arguments = plan_arguments(p);
    for (int i = 0; i < arguments; i++) {
        const char *why = bind_one(a, &p->params.at[i], &values[i]);
        if (why) return why;
    }
    for (int i = 0; i < p->symbols.n; i++) {
        const PlanSymbol *s = &p->symbols.at[i];
        const PlanValue *v = &values[s->param];
        out->symbol[i] = s->source == SYM_SCALAR ? v->int_value : v->dim[s->dim];
    }
    for (int i = 0; i < arguments; i++) {
        const char *why = bind_extents(a, out, &p->params.at[i], &values[i]);
        if (why) return why;
    }
    return bind_checks(a, out);
}

// Used before there are arrays: the command line knows symbols only, and makes arrays to fit.
const char *plan_param_dims(Arena *a, const Plan *p, int param, ExprLookup *lookup, void *ctx,
                            i64 *dims)
{
    const PlanParam *q = &p->params.at[param];
    i64 n;
    for (int i = 0; i < q->rank; i++) {
        const char *why = expr_eval(q->dim[i], lookup, ctx, &dims[i]);
        if (!why && dims[i] < 0) why = "it is negative";
        if (!why) continue;
        Buf text = {0};
        buf_printf(&text, "extent %d of %s, ", i, q->name);
        expr_print(q->dim[i], &text);
        buf_printf(&text, ": %s", why);
        return sentence(a, &text);
    }
    if (!count_elements(q->type, q->rank, dims, &n))
        return arena_printf(a, "%s has more bytes than 63 bits can count", q->name);
    return NULL;
}

// Extents only: the memory is the runtime's, and the host function that fills it is asked later.
const char *plan_workspace(Arena *a, const PlanBinding *b, int param, PlanValue *out)
{
    const PlanParam *q = &b->plan->params.at[param];
    *out = (PlanValue){.type = q->type, .rank = q->rank};
    for (int i = 0; i < q->rank; i++) {
        const char *why = plan_eval(a, b, q->dim[i], &out->dim[i]);
        if (!why && out->dim[i] < 0) why = "it is negative";
        if (why) return arena_printf(a, "extent %d of the workspace %s: %s", i, q->name, why);
    }
    i64 n;
    if (!count_elements(q->type, q->rank, out->dim, &n))
        return arena_printf(a, "the workspace %s has more bytes than 63 bits can count", q->name);
    return NULL;
}

// The last word on the limits of the TMA unit is tma_check's, on the numbers: the driver's own
// refusal would not say which rule was broken.
const char *plan_tensor_map(Arena *a, const PlanBinding *b, const PlanTensorMap *t, void *base,
                            TensorMap *out)
{
    const PlanParam *q = &b->plan->params.at[t->param];
    *out = (TensorMap){.base = base, .type = q->type, .rank = t->rank, .swizzle = t->swizzle,
                        .promote = t->promote};
    for (int i = 0; i < t->rank; i++) {
        i64 dim, stride;
        const char *why = plan_eval(a, b, t->dim[i], &dim);
        if (!why) why = plan_eval(a, b, t->stride[i], &stride);
        if (!why && (dim < 0 || stride < 0)) why = "an extent or stride is negative";
        if (why) return arena_printf(a, "tensor map of %s: %s", q->name, why);
        // A dimension of extent 1 is never stepped along, so its stride, which the TMA unit would
        // still refuse when it is no multiple of 16, may be any legal one.
        if (i && dim == 1) stride = 0;
        out->dim[i] = (u64)dim;
        out->stride[i] = (u64)stride;
        out->box[i] = t->box[i];
    }
    char why[240];
    if (!tma_check(out, why, sizeof why)) return NULL;
    return arena_printf(a, "tensor map of %s: %s", q->name, why);
}
