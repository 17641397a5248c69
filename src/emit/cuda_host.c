// cuda_host.c - the launch plan as a C function of the .cu file: the caller's pointers and sizes
// are checked, tensor maps are made, and the steps run on the caller's stream.
//
// Expressions of the plan are printed as C expressions over baton_int, an integer that remembers an
// overflow or a division by zero: no size makes the launcher compute nonsense. Every rule has a
// number, which the launcher returns and NAME_message explains.
#include "cuda_impl.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    Cuda *x;
    const Plan *plan;
    Buf *out;
    const char **param;      // names, by plan parameter
    const char **symbol;     // names of the baton_ints, by symbol
    const char **size; // names of the extents that the caller passes, by symbol; NULL: a scalar
    bool uses[EX_COUNT];     // operators of baton_int
    VEC(const char *) rules; // sentence of code k + 1
} Host;

// Device properties: their name in expressions, the local variable, the runtime's attribute.
static const char *const prop_name[PROP_COUNT] = {
#define X(id, text) [id] = text,
    PLAN_DEVICE_PROPS(X)
#undef X
};
static const char *const prop_local[PROP_COUNT] = {
    [PROP_SM_COUNT] = "device_sms", [PROP_SMEM_MAX] = "device_smem_max"};
static const char *const prop_attribute[PROP_COUNT] = {
    [PROP_SM_COUNT] = "cudaDevAttrMultiProcessorCount",
    [PROP_SMEM_MAX] = "cudaDevAttrMaxSharedMemoryPerBlockOptin"};

static const char prelude[] =
    "\n// ---- launching -------------------------------------------------------------------------"
    "-------\n"
    "namespace {\n"
    "// An integer that remembers an overflow or a division by zero.\n"
    "struct baton_int {\n"
    "    int64_t v;\n"
    "    bool bad;\n"
    "    baton_int(int64_t value = 0, bool is_bad = false) : v(value), bad(is_bad) {}\n";
static const char range_function[] =
    "    bool in(int64_t low, int64_t high) const { return !bad && v >= low && v <= high; }\n";

// The encode function is asked for at run time: a program that links only the CUDA runtime has no
// libcuda symbols. Strides are passed from the second dimension on, as the driver wants them.
static const char map_function[] =
    "\n// A tensor map; 0, `rule` when a size is out of range, or 100000 + the driver's code.\n"
    "inline int baton_tensor_map(CUtensorMap *map, CUtensorMapDataType type, int rank,\n"
    "                            const void *base, const baton_int *dim, const baton_int *stride,\n"
    "                            const uint32_t *box, CUtensorMapSwizzle swizzle,\n"
    "                            CUtensorMapL2promotion promotion, int rule)\n"
    "{\n"
    "    typedef CUresult Encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,\n"
    "                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,\n"
    "                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,\n"
    "                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);\n"
    "    void *encode = nullptr;\n"
    "    cudaDriverEntryPointQueryResult found;\n"
    "#if CUDART_VERSION >= 12050\n"
    "    cudaError_t error = cudaGetDriverEntryPointByVersion(\"cuTensorMapEncodeTiled\", &encode, "
    "12000,\n"
    "                                                         cudaEnableDefault, &found);\n"
    "#else\n"
    "    cudaError_t error = cudaGetDriverEntryPoint(\"cuTensorMapEncodeTiled\", &encode,\n"
    "                                                cudaEnableDefault, &found);\n"
    "#endif\n"
    "    if (error != cudaSuccess) return 1000 + (int)error;\n"
    "    if (found != cudaDriverEntryPointSuccess) return 1000 + (int)cudaErrorNotSupported;\n"
    "    cuuint64_t dims[5], strides[5];\n"
    "    cuuint32_t boxes[5], ones[5];\n"
    "    for (int i = 0; i < rank; i++) {\n"
    "        if (!dim[i].in(1, INT64_C(1) << 32) || !stride[i].in(0, INT64_MAX)) return rule;\n"
    "        dims[i] = (cuuint64_t)dim[i].v;\n"
    "        // A dimension of extent 1 is never stepped along; its stride may be no multiple of "
    "16.\n"
    "        strides[i] = i && dims[i] == 1 ? 0 : (cuuint64_t)stride[i].v;\n"
    "        boxes[i] = box[i];\n"
    "        ones[i] = 1;\n"
    "    }\n"
    "    CUresult r = ((Encode *)encode)(map, type, (cuuint32_t)rank, const_cast<void *>(base), "
    "dims,\n"
    "                                    strides + 1, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,\n"
    "                                    swizzle, promotion,\n"
    "                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
    "    return r == CUDA_SUCCESS ? 0 : 100000 + (int)r;\n"
    "}\n";

// ---- expressions --------------------------------------------------------------------------------

// The C name of a plan's name. plan_check has proved that it is bound.
static const char *variable(const Host *h, const char *name)
{
    for (int i = 0; i < h->plan->symbols.n; i++)
        if (strcmp(h->plan->symbols.at[i].name, name) == 0) return h->symbol[i];
    for (int i = 0; i < PROP_COUNT; i++)
        if (strcmp(prop_name[i], name) == 0) return prop_local[i];
    BUG("the plan names %s, which nothing binds", name);
}

static const char *const sign[EX_COUNT] = {
    [EX_ADD] = "+", [EX_SUB] = "-", [EX_MUL] = "*", [EX_DIV] = "/",  [EX_MOD] = "%",
    [EX_AND] = "&", [EX_OR] = "|",  [EX_XOR] = "^", [EX_SHL] = "<<", [EX_SHR] = ">>",
    [EX_EQ] = "==", [EX_NE] = "!=", [EX_LT] = "<",  [EX_LE] = "<=",
};

static const char *expr_text(Host *h, const Expr *e);

// C and the plan have other precedences, so only sums and products go without parentheses.
static const char *operand_text(Host *h, const Expr *parent, const Expr *e, bool right)
{
    const char *s = expr_text(h, e);
    bool sum = e->op == EX_ADD || e->op == EX_SUB;
    bool product = e->op == EX_MUL || e->op == EX_DIV || e->op == EX_MOD;
    bool in_sum = parent->op == EX_ADD || parent->op == EX_SUB;
    bool in_product = parent->op == EX_MUL || parent->op == EX_DIV || parent->op == EX_MOD;
    bool call = e->op == EX_MIN || e->op == EX_MAX || e->op == EX_LAND || e->op == EX_LOR ||
                e->op == EX_SELECT;
    bool bare = e->op == EX_CONST || e->op == EX_VAR || call || (in_sum && product) ||
                (!right && ((in_sum && sum) || (in_product && product)));
    return bare ? s : cu_text(h->x, "(%s)", s);
}

// The expression in C over baton_int; notes which operators it needs. && and || do not evaluate a
// side that does not count as bad, as the runtime does not.
static const char *expr_text(Host *h, const Expr *e)
{
    Cuda *x = h->x;
    h->uses[e->op] = true;
    switch ((ExprOp)e->op) {
    case EX_CONST:
        if (e->value == INT64_MIN) return "INT64_MIN";
        return cu_text(x, e->value < 0 ? "(%" PRId64 ")" : "%" PRId64, e->value);
    case EX_VAR: return variable(h, e->name);
    case EX_MIN: return cu_text(x, "baton_min(%s, %s)", expr_text(h, e->a), expr_text(h, e->b));
    case EX_MAX: return cu_text(x, "baton_max(%s, %s)", expr_text(h, e->a), expr_text(h, e->b));
    case EX_SELECT:
        return cu_text(x, "baton_select(%s, %s, %s)", expr_text(h, e->a), expr_text(h, e->b),
                         expr_text(h, e->c));
    case EX_LAND: // the right side does not count when the left decides
        h->uses[EX_SELECT] = true;
        return cu_text(x, "baton_select(%s, %s, 0)", expr_text(h, e->a), expr_text(h, e->b));
    case EX_LOR:
        h->uses[EX_SELECT] = true;
        return cu_text(x, "baton_select(%s, 1, %s)", expr_text(h, e->a), expr_text(h, e->b));
    default:
        if (!sign[e->op]) BUG("expression %d has no C spelling", e->op);
        // Two plain numbers would be an expression of C's int.
        return cu_text(x, e->a->op == EX_CONST && e->b->op == EX_CONST ? "baton_int(%s) %s %s"
                                                                       : "%s %s %s",
                         operand_text(h, e, e->a, false), sign[e->op],
                         operand_text(h, e, e->b, true));
    }
}

// What an operator does with values `a.v`, `b.v`: statements that set r, or first `bad` and then r.
static const char *operator_body(ExprOp op)
{
    switch (op) {
    case EX_ADD: return "bad = __builtin_add_overflow(a.v, b.v, &r);";
    case EX_SUB: return "bad = __builtin_sub_overflow(a.v, b.v, &r);";
    case EX_MUL: return "bad = __builtin_mul_overflow(a.v, b.v, &r);";
    case EX_DIV: return "bad = b.v == 0 || (b.v == -1 && a.v == INT64_MIN);\n"
                        "        if (!bad) r = a.v / b.v;";
    case EX_MOD: return "bad = b.v == 0 || (b.v == -1 && a.v == INT64_MIN);\n"
                        "        if (!bad) r = a.v % b.v;";
    case EX_SHL:
        return "bad = b.v < 0 || b.v > 62;\n"
               "        if (!bad) bad = __builtin_mul_overflow(a.v, INT64_C(1) << b.v, &r);";
    case EX_SHR: return "bad = b.v < 0 || b.v > 63;\n"
                        "        if (!bad) r = a.v >> b.v;";
    case EX_AND: return "r = a.v & b.v;";
    case EX_OR: return "r = a.v | b.v;";
    case EX_XOR: return "r = a.v ^ b.v;";
    case EX_EQ: return "r = a.v == b.v;";
    case EX_NE: return "r = a.v != b.v;";
    case EX_LT: return "r = a.v < b.v;";
    case EX_LE: return "r = a.v <= b.v;";
    case EX_MIN: return "r = a.v < b.v ? a.v : b.v;";
    case EX_MAX: return "r = a.v > b.v ? a.v : b.v;";
    default: return NULL;
    }
}

// Only those that the launcher uses, so that the compiler has no unused functions to warn of.
static void print_operators(const Host *h, Buf *out)
{
    for (int op = 0; op < EX_COUNT; op++) {
        const char *body = operator_body((ExprOp)op);
        if (!h->uses[op] || !body) continue;
        buf_puts(out, "    friend baton_int ");
        if (sign[op]) buf_printf(out, "operator%s", sign[op]);
        else buf_puts(out, op == EX_MIN ? "baton_min" : "baton_max");
        bool may_fail = body[0] == 'b';
        buf_printf(out,
                   "(baton_int a, baton_int b)\n    {\n%s        %s%s\n"
                   "        return baton_int(r, %sa.bad || b.bad);\n    }\n",
                   may_fail ? "        int64_t r = 0;\n" : "", may_fail ? "bool " : "int64_t ",
                   body, may_fail ? "bad || " : "");
    }
    if (h->uses[EX_SELECT])
        buf_puts(out, "    // The branch that is not taken may be bad.\n"
                      "    friend baton_int baton_select(baton_int c, baton_int a, baton_int b)\n"
                      "    {\n"
                      "        baton_int r = c.v ? a : b;\n"
                      "        return baton_int(r.v, r.bad || c.bad);\n"
                      "    }\n");
}

// ---- rules --------------------------------------------------------------------------------------

// A string of C.
static const char *quoted(Cuda *x, const char *s)
{
    Buf b = {0};
    buf_putc(&b, '"');
    for (; *s; s++) {
        u8 c = (u8)*s;
        if (c == '"' || c == '\\') buf_printf(&b, "\\%c", c);
        else if (c < 32 || c == 127 || c == '?') buf_printf(&b, "\\%03o", c);
        else buf_putc(&b, (char)c);
    }
    buf_putc(&b, '"');
    const char *text = arena_strndup(x->arena, b.s, b.n);
    buf_free(&b);
    return text;
}

// Returns the code of the rule: they count from 1 in the order of the checks.
static int new_rule(Host *h, const char *sentence)
{
    vec_push(h->x->arena, &h->rules, sentence);
    return h->rules.n;
}

// "if (condition) return CODE;"
static void refuse(Host *h, int indent, const char *condition, const char *sentence)
{
    buf_printf(h->out, "%*sif (%s) return %d; // %s\n", indent, "", condition,
               new_rule(h, sentence), sentence);
}

// ---- parameters ---------------------------------------------------------------------------------

// C type of a scalar parameter; all float types are passed as float.
static const char *scalar_type(DType t)
{
    static const char *const name[DT_COUNT] = {
        [DT_S32] = "int32_t", [DT_U32] = "uint32_t", [DT_S64] = "int64_t", [DT_U64] = "uint64_t",
        [DT_S16] = "int16_t", [DT_U16] = "uint16_t", [DT_S8] = "int8_t",   [DT_U8] = "uint8_t",
        [DT_F64] = "double",  [DT_BOOL] = "bool",
    };
    return name[t] ? name[t] : "float";
}

// Parameters first, so that callers see the names of the kernel; a symbol that is a caller's extent
// has two names, the plain number's and the baton_int's.
static void name_all(Host *h)
{
    const Plan *p = h->plan;
    Cuda *x = h->x;
    static const char *const own[] = {"error", "device", "value", "config", "status", "dim3"};
    Map *taken = cu_reserved(x);
    // Locals of the launcher, and every kernel: a parameter of such a name gets a suffix.
    for (int i = 0; i < COUNT(own); i++)
        map_put(taken, intern(x->names, own[i]), (void *)own[i]);
    for (int i = 0; i < PROP_COUNT; i++)
        map_put(taken, intern(x->names, prop_local[i]), (void *)prop_local[i]);
    for (int i = 0; i < x->mod->fns.n; i++)
        map_put(taken, intern(x->names, x->mod->fns.at[i]->name), (void *)x);
    h->param = ARENA_ARRAY(x->arena, const char *, p->params.n);
    h->symbol = ARENA_ARRAY(x->arena, const char *, p->symbols.n);
    h->size = ARENA_ARRAY(x->arena, const char *, p->symbols.n);
    for (int i = 0; i < p->params.n; i++)
        h->param[i] = cu_unique(x, taken, p->params.at[i].name, "_");
    for (int i = 0; i < p->symbols.n; i++)
        if (p->symbols.at[i].source == SYM_EXTENT)
            h->size[i] = cu_unique(x, taken, p->symbols.at[i].name, "_extent");
    for (int i = 0; i < p->symbols.n; i++)
        h->symbol[i] = cu_unique(x, taken, p->symbols.at[i].name, "_");
}

// Device addresses and scalars in the order of the function, then the extents by name, then the
// stream. What the kernels only read is const.
static void print_prototype(Host *h, Buf *out)
{
    const Plan *p = h->plan;
    buf_printf(out, "extern \"C\" int %s_launch(", p->name);
    for (int i = 0; i < p->params.n; i++) {
        const PlanParam *q = &p->params.at[i];
        if (q->kind != PLAN_SCALAR)
            buf_printf(out, "%svoid *%s, ", q->out || q->result ? "" : "const ", h->param[i]);
        else
            buf_printf(out, "%s %s, ", scalar_type(q->type), h->param[i]);
    }
    for (int i = 0; i < p->symbols.n; i++)
        if (h->size[i]) buf_printf(out, "int64_t %s, ", h->size[i]);
    buf_puts(out, "cudaStream_t stream)");
}

// ---- checks -------------------------------------------------------------------------------------

// Does any expression that the launcher evaluates use the name? Asking the device costs time.
static bool plan_uses(const Plan *p, const char *name)
{
    for (int i = 0; i < p->checks.n; i++)
        if (expr_uses(p->checks.at[i].cond, name)) return true;
    for (int i = 0; i < p->params.n; i++)
        for (int k = 0; k < p->params.at[i].rank; k++)
            if (expr_uses(p->params.at[i].dim[k], name)) return true;
    for (int i = 0; i < p->steps.n; i++) {
        const PlanStep *s = p->steps.at[i];
        if (s->when && expr_uses(s->when, name)) return true;
        if (s->kind != STEP_KERNEL) continue;
        for (int k = 0; k < 3; k++)
            if (expr_uses(s->grid[k], name)) return true;
        for (int k = 0; k < s->args.n; k++)
            if (s->args.at[k].kind == ARG_VALUE && expr_uses(s->args.at[k].value, name))
                return true;
        for (int k = 0; k < s->tmaps.n; k++)
            for (int j = 0; j < s->tmaps.at[k].rank; j++)
                if (expr_uses(s->tmaps.at[k].dim[j], name) ||
                    expr_uses(s->tmaps.at[k].stride[j], name))
                    return true;
    }
    return false;
}

// Of the current device, which must be the one that the stream belongs to.
static void print_device_props(Host *h)
{
    bool asked = false;
    for (int i = 0; i < PROP_COUNT; i++) {
        if (!plan_uses(h->plan, prop_name[i])) continue;
        if (!asked)
            buf_puts(h->out, "    int device = 0, value = 0;\n"
                             "    cudaError_t asked = cudaGetDevice(&device);\n");
        asked = true;
        buf_printf(h->out,
                   "    if (asked == cudaSuccess)\n"
                   "        asked = cudaDeviceGetAttribute(&value, %s, device);\n"
                   "    if (asked != cudaSuccess) return 1000 + (int)asked;\n"
                   "    const baton_int %s = value;\n",
                   prop_attribute[i], prop_local[i]);
    }
}

// Every symbol becomes a baton_int: an extent from the caller's argument of that name (checked to
// be 0 or more), or an integer parameter of the function.
static void print_symbols(Host *h)
{
    const Plan *p = h->plan;
    for (int i = 0; i < p->symbols.n; i++) {
        const PlanSymbol *s = &p->symbols.at[i];
        const char *from = h->size[i] ? h->size[i] : h->param[s->param];
        buf_printf(h->out, "    [[maybe_unused]] const baton_int %s = (int64_t)%s;\n", h->symbol[i],
                   from);
        if (h->size[i])
            refuse(h, 4, cu_text(h->x, "%s < 0", from),
                   cu_text(h->x, "the extent %s is negative", s->name));
    }
}

// A bare symbol whose value is an extent of the caller: already known to be 0 or more.
static bool is_extent(const Host *h, const Expr *e)
{
    for (int i = 0; i < h->plan->symbols.n; i++)
        if (e->op == EX_VAR && h->size[i] && strcmp(h->plan->symbols.at[i].name, e->name) == 0)
            return true;
    return false;
}

// Extents, bytes, address and alignment of one tensor.
static void print_tensor_checks(Host *h, int k)
{
    Cuda *x = h->x;
    const PlanParam *q = &h->plan->params.at[k];
    // The product of all extents in baton_int: an overflow is remembered and refused below.
    const char *bytes = cu_text(x, "baton_int(%d)", dtype_bytes[q->type]);
    if (q->rank) h->uses[EX_MUL] = true;
    for (int i = 0; i < q->rank; i++) {
        const char *dim = operand_text(h, &(Expr){.op = EX_MUL}, q->dim[i], true);
        bytes = cu_text(x, "%s * %s", bytes, dim);
        i64 known;
        if (expr_is_const(q->dim[i], &known) && known >= 0) continue;
        if (is_extent(h, q->dim[i])) continue; // checked where it got its name
        refuse(h, 4, cu_text(x, "!baton_int(%s).in(0, INT64_MAX)", expr_text(h, q->dim[i])),
               cu_text(x, "extent %d of %s is negative", i, q->name));
    }
    const char *local = cu_text(x, "baton_bytes_%d", k);
    buf_printf(h->out, "    const baton_int %s = %s; // of %s\n", local, bytes, q->name);
    refuse(h, 4, cu_text(x, "%s.bad", local),
           cu_text(x, "%s has more bytes than 63 bits can count", q->name));
    refuse(h, 4, cu_text(x, "%s.v && !%s", local, h->param[k]),
           cu_text(x, "%s has elements and no address", q->name));
    if (q->align > 1)
        refuse(h, 4, cu_text(x, "%s.v && (uintptr_t)%s %% %d", local, h->param[k], q->align),
               cu_text(x, "the address of %s is not a multiple of %d", q->name, q->align));
}

// Tensors first, then the rules of the plan in its order, each with a code of its own.
static void print_checks(Host *h)
{
    Cuda *x = h->x;
    for (int i = 0; i < h->plan->params.n; i++)
        if (h->plan->params.at[i].kind != PLAN_SCALAR) print_tensor_checks(h, i);
    for (int i = 0; i < h->plan->checks.n; i++) {
        const PlanCheck *c = &h->plan->checks.at[i];
        buf_printf(h->out, "    const baton_int baton_rule_%d = %s;\n", i, expr_text(h, c->cond));
        refuse(h, 4, cu_text(x, "baton_rule_%d.bad || !baton_rule_%d.v", i, i),
               cu_text(x, "%s requires that %s", h->plan->name, c->text));
    }
}

// ---- steps --------------------------------------------------------------------------------------

// The TMA unit copies bits, so types that tensor maps lack go by an integer type of the same size;
// only the fill value beyond the edges, which is 0, could tell.
static const char *map_type(DType t)
{
    static const char *const name[DT_COUNT] = {
        [DT_F32] = "FLOAT32", [DT_TF32] = "FLOAT32", [DT_F16] = "FLOAT16", [DT_BF16] = "BFLOAT16",
        [DT_S32] = "INT32",   [DT_U32] = "UINT32",   [DT_S64] = "INT64",   [DT_U64] = "UINT64",
        [DT_S16] = "UINT16",  [DT_U16] = "UINT16",   [DT_F64] = "FLOAT64",
    };
    return name[t] ? name[t] : "UINT8"; // copies move bits
}

// Dimensions from the innermost outwards. A map is made anew at every launch: it holds the address,
// and making one costs less than a tenth of a microsecond.
static void print_map(Host *h, const PlanTensorMap *t, int k)
{
    static const char *const swizzle[SL_COUNT] = {
        [SL_ROW] = "NONE", [SL_SWZ32] = "32B", [SL_SWZ64] = "64B", [SL_SWZ128] = "128B"};
    const PlanParam *q = &h->plan->params.at[t->param];
    Cuda *x = h->x;
    const char *dim = "", *stride = "", *box = "";
    for (int i = 0; i < t->rank; i++) {
        const char *comma = i ? ", " : "";
        dim = cu_text(x, "%s%s%s", dim, comma, expr_text(h, t->dim[i]));
        stride = cu_text(x, "%s%s%s", stride, comma, expr_text(h, t->stride[i]));
        box = cu_text(x, "%s%s%u", box, comma, t->box[i]);
    }
    int rule = new_rule(h, cu_text(x, "a size of %s is beyond what the TMA unit takes", q->name));
    buf_printf(
        h->out,
        "            CUtensorMap baton_map_%d;\n"
        "            const baton_int baton_dim_%d[] = {%s}, baton_stride_%d[] = {%s};\n"
        "            const uint32_t baton_box_%d[] = {%s};\n"
        "            status = baton_tensor_map(&baton_map_%d, CU_TENSOR_MAP_DATA_TYPE_%s, %d, "
        "%s,\n                                      baton_dim_%d, baton_stride_%d, "
        "baton_box_%d,\n                                      CU_TENSOR_MAP_SWIZZLE_%s,\n"
        "                                      CU_TENSOR_MAP_L2_PROMOTION_L2_%dB, %d);\n"
        "            if (status) return status;\n",
        k, k, dim, k, stride, k, box, k, map_type(q->type), t->rank, h->param[t->param], k, k, k,
        swizzle[t->swizzle], t->promote ? t->promote : 256, rule);
}

// Its parameters say how wide each argument is.
static const ThreadFn *find_kernel(const Host *h, const char *name)
{
    for (int i = 0; i < h->x->mod->fns.n; i++)
        if (strcmp(h->x->mod->fns.at[i]->name, name) == 0) return h->x->mod->fns.at[i];
    BUG("the plan launches %s, which is not there", name);
}

// One argument as text; a value that must fit 32 bits is checked first.
static const char *argument(Host *h, const ThreadFn *f, const PlanArg *g, int k)
{
    Cuda *x = h->x;
    switch ((PlanArgKind)g->kind) {
    case ARG_TENSOR: return cu_text(x, "(void *)%s", h->param[g->index]);
    case ARG_FLOAT: return cu_text(x, "(float)%s", h->param[g->index]);
    case ARG_TMAP: return cu_text(x, "baton_map_%d", g->index);
    case ARG_VALUE: break;
    }
    bool narrow = f->params.at[k].kind == PARAM_S32;
    buf_printf(h->out, "            const baton_int baton_arg_%d = %s;\n", k,
               expr_text(h, g->value));
    refuse(h, 12,
           narrow ? cu_text(x, "!baton_arg_%d.in(INT32_MIN, INT32_MAX)", k)
                  : cu_text(x, "baton_arg_%d.bad", k),
           cu_text(x, "%s of kernel %s does not fit %d bits", f->params.at[k].name, f->name,
                     narrow ? 32 : 63));
    return cu_text(x, "(int%d_t)baton_arg_%d.v", narrow ? 32 : 64, k);
}

// An empty grid launches nothing, as in the runtime: CUDA would call it an error. Shared memory
// beyond 48 KiB must be asked for by an attribute, dynamic or not.
static void print_kernel_step(Host *h, const PlanStep *s)
{
    static const char axis[3] = {'x', 'y', 'z'};
    static const i64 limit[3] = {2147483647, 65535, 65535};
    Cuda *x = h->x;
    const ThreadFn *f = find_kernel(h, s->kernel);
    for (int i = 0; i < 3; i++) {
        buf_printf(h->out, "        const baton_int grid_%c = %s;\n", axis[i],
                   expr_text(h, s->grid[i]));
        // A constant extent that is in range needs no test at run time.
        i64 known;
        if (expr_is_const(s->grid[i], &known) && known >= 0 && known <= limit[i]) continue;
        refuse(h, 8, cu_text(x, "!grid_%c.in(0, %" PRId64 ")", axis[i], limit[i]),
               cu_text(x, "grid %c of kernel %s is out of range", axis[i], s->kernel));
    }
    buf_puts(h->out, "        if (grid_x.v && grid_y.v && grid_z.v) {\n");
    if (s->cluster > 1)
        refuse(h, 12, cu_text(x, "grid_x.v %% %d", s->cluster),
               cu_text(x, "grid x of kernel %s is no multiple of its cluster of %d CTAs", s->kernel,
                         s->cluster));
    for (int i = 0; i < s->tmaps.n; i++) print_map(h, &s->tmaps.at[i], i);
    const char *args = "";
    for (int i = 0; i < s->args.n; i++)
        args = cu_text(x, "%s, %s", args, argument(h, f, &s->args.at[i], i));
    // Beyond 48 KiB a kernel gets dynamic shared memory only when it asks by this attribute.
    if (s->smem_bytes)
        buf_printf(h->out,
                   "            error = cudaFuncSetAttribute(\n"
                   "                (const void *)%s, cudaFuncAttributeMaxDynamicSharedMemorySize, "
                   "%" PRId64 ");\n"
                   "            if (error != cudaSuccess) return 1000 + (int)error;\n",
                   s->kernel, s->smem_bytes);
    buf_printf(h->out,
               "            cudaLaunchConfig_t config = {};\n"
               "            config.gridDim = dim3((unsigned)grid_x.v, (unsigned)grid_y.v, "
               "(unsigned)grid_z.v);\n"
               "            config.blockDim = dim3(%d);\n"
               "            config.dynamicSmemBytes = %" PRId64 ";\n"
               "            config.stream = stream;\n"
               "            error = cudaLaunchKernelEx(&config, %s%s);\n"
               "            if (error != cudaSuccess) return 1000 + (int)error;\n"
               "        }\n",
               s->block, s->smem_bytes, s->kernel, args);
}

// The caller fills a workspace: the launcher says with what.
static void print_host_step(Host *h, const PlanStep *s)
{
    const PlanParam *q = &h->plan->params.at[s->param];
    buf_printf(h->out, "    // %s, a workspace of %s[", h->param[s->param], dtype_name[q->type]);
    for (int i = 0; i < q->rank; i++)
        buf_printf(h->out, "%s%s", i ? ", " : "", expr_text(h, q->dim[i]));
    buf_printf(h->out, "], holds what %s of baton's library makes of (", s->function);
    for (int i = 0; i < s->host_args.n; i++)
        buf_printf(h->out, "%s%s", i ? ", " : "", expr_text(h, s->host_args.at[i]));
    buf_puts(h->out, ").\n");
}

// A step under its condition; kernels and fills go to the caller's stream in the plan's order.
static void print_step(Host *h, const PlanStep *s, int k)
{
    if (s->kind == STEP_HOST) {
        print_host_step(h, s);
        return;
    }
    const char *what = s->kind == STEP_KERNEL
                           ? cu_text(h->x, "kernel %s", s->kernel)
                           : cu_text(h->x, "fills %s", h->plan->params.at[s->param].name);
    if (s->when) {
        buf_printf(h->out, "    const baton_int baton_when_%d = %s;\n", k, expr_text(h, s->when));
        refuse(h, 4, cu_text(h->x, "baton_when_%d.bad", k),
               cu_text(h->x, "a size overflows in the condition of a step"));
        buf_printf(h->out, "    if (baton_when_%d.v) { // %s\n", k, what);
    } else {
        buf_printf(h->out, "    { // %s\n", what);
    }
    if (s->kind == STEP_KERNEL)
        print_kernel_step(h, s);
    else
        buf_printf(h->out,
                   "        error = cudaMemsetAsync(%s, %d, (size_t)baton_bytes_%d.v, stream);\n"
                   "        if (error != cudaSuccess) return 1000 + (int)error;\n",
                   h->param[s->param], s->byte, s->param);
    buf_puts(h->out, "    }\n");
}

// ---- the launcher -------------------------------------------------------------------------------

// Codes: 1 to n are rules, from 1000 on errors of the CUDA runtime, from 100000 on of the driver.
static void print_messages(Host *h)
{
    buf_printf(h->out,
               "\n// What a code of %s_launch other than 0 means.\n"
               "extern \"C\" const char *%s_message(int code)\n{\n"
               "    static const char *const rule[] = {\n        \"no error\",\n",
               h->plan->name, h->plan->name);
    for (int i = 0; i < h->rules.n; i++)
        buf_printf(h->out, "        %s,\n", quoted(h->x, h->rules.at[i]));
    buf_printf(h->out,
               "    };\n"
               "    if (code >= 100000) return \"the driver refused a tensor map\";\n"
               "    if (code >= 1000) return cudaGetErrorString((cudaError_t)(code - 1000));\n"
               "    return code >= 0 && code <= %d ? rule[code] : \"no such code\";\n}\n",
               h->rules.n);
}

// The body is printed first: it decides which operators and helpers stand before it.
void cu_print_launcher(Cuda *x, const Plan *p, Buf *prototype, Buf *out)
{
    Buf body = {0};
    Host h = {.x = x, .plan = p, .out = &body};
    bool maps = false;
    for (int i = 0; i < p->steps.n; i++) maps |= p->steps.at[i]->tmaps.n > 0;
    name_all(&h);
    print_prototype(&h, prototype);
    buf_printf(
        &body,
        "\n// Runs %s on a stream: device addresses of dense, row-major tensors, then their "
        "extents.\n"
        "// Asynchronous. Returns 0, or a code for %s_message; then nothing more was launched.\n",
        p->name, p->name);
    buf_printf(&body, "%s\n{\n", prototype->s);
    buf_puts(&body, "    [[maybe_unused]] cudaError_t error = cudaSuccess;\n");
    if (maps) buf_puts(&body, "    int status = 0;\n");
    print_device_props(&h);
    print_symbols(&h);
    print_checks(&h);
    for (int i = 0; i < p->steps.n; i++) print_step(&h, p->steps.at[i], i);
    buf_puts(&body, "    return 0;\n}\n");
    print_messages(&h);
    buf_puts(out, prelude);
    if (maps || strstr(body.s, ".in(")) buf_puts(out, range_function); // nvcc warns of unused ones
    print_operators(&h, out);
    buf_puts(out, "};\n");
    if (maps) buf_puts(out, map_function);
    buf_puts(out, "} // namespace\n");
    buf_write(out, body.s, body.n);
    buf_free(&body);
}
