// check_address.c - do the flat addresses and the coordinates name the same bytes? Runs the integer
// part of a kernel, warp by warp, on sample values of what the launch decides (parameters, CTA
// index) and of what memory holds, and compares at every memory operation, for each lane, the
// address register with the buffer's layout at the coordinates; at every wgmma the descriptor, by
// the formulas of the matrix unit, with the layout at sampled elements.
//
// Values come in three kinds: known; known but guessed (from parameters or loaded data: an address
// that disagrees is wrong for some launch, but a range or an alignment may hold in all real ones);
// unknown (computed from floats), which is skipped. Loops run for at most LOOP_TRIPS iterations. A
// last pass enters the branches and loops that guesses alone kept closed, so that what stands in
// them is compared too.
// In: a kernel whose structure is sound. Out: an error for the first few operations that disagree.
#include "check.h"

#include <string.h>

enum {
    LANES = 32, // of a warp
    LOOP_TRIPS = 2, // two show the first address and the step
    SAMPLES = 2, // launches that are tried
    PASSES = 3, // the last takes the first sample again and forces what guesses close
    BUDGET = 400000, // operations of all warps and samples together
    REPORTS = 5,      // then the kernel is given up: one wrong base makes many
    SMEM_BASE = 1024, // sample address of the dynamic arena, aligned like the real one
};

// The value of one machine register in the lanes of a warp, zero-extended to 64 bits.
typedef struct {
    u64 v[LANES];
    u32 known; // lane mask
    bool guess;
} Lanes;

typedef struct {
    const ThreadModule *mod;
    const ThreadFn *fn;
    Diag *diag;
    int sample, warp;      // launch and warp that are run
    Lanes *reg;            // elements of all integer and predicate registers, one after another
    int *first;            // index of a register's element 0, -1 for f32
    i64 *value;            // of the unroll variables
    bool *bound;              // unroll variables in force
    const char **unroll_name; // interned, with the $
    Map *names;            // interned variable -> kind * NAME_KIND + index + 1
    Map *reported;         // operations that were reported
    u32 dead;              // lanes that have left
    bool force;            // enter what a guess keeps closed
    int forced;            // branches around here that were entered so
    i64 budget, loads;     // operations left; loads so far, which vary what they give
    int errors;            // reported in this kernel
} Checker;

// A name's kind and index as one number; indices are below MAX_DECLARED of the reader.
enum { NAME_KIND = 1 << 20 };
enum { NAME_REG, NAME_SREG, NAME_PARAM };

// The same value in all lanes.
static void set_all(Lanes *l, u64 v, bool guess)
{
    for (int i = 0; i < LANES; i++) l->v[i] = v;
    l->known = ~0u;
    l->guess = guess;
}

static void set_unknown(Lanes *l)
{
    l->known = 0;
    l->guess = false;
}

// ---- sample values -----------------------------------------------------------------------------

// Pointers lie 2^40 apart, so that no sum of one tensor's coordinates meets another tensor.
// Integers are multiples of 256: extents of that kind make the usual guards true; the two samples
// differ, so that two parameters that were exchanged do not cancel out.
static void sample_param(Checker *c, int param, Lanes *out)
{
    static const u16 size[SAMPLES][4] = {{2048, 2560, 3072, 3584},
                                           {256, 768, 512, 1280}};
    switch (c->fn->params.at[param].kind) {
    case PARAM_PTR: set_all(out, (u64)(param + 1) << 40, false); break;
    case PARAM_S32:
    case PARAM_S64: set_all(out, size[c->sample][param % 4], true); break;
    default: set_unknown(out); break;
    }
}

// Thread, lane and arena base are certain; which CTA it is, is a guess inside a grid of 8 x 4 x 5.
static void sample_special(Checker *c, SpecialReg r, Lanes *out)
{
    static const u8 cta[SAMPLES][3] = {{6, 2, 3}, {1, 1, 1}}, grid[3] = {8, 4, 5};
    set_all(out, 0, false);
    switch (r) {
    case SR_TID:
        for (int i = 0; i < LANES; i++) out->v[i] = (u64)(c->warp * LANES + i);
        break;
    case SR_LANE:
        for (int i = 0; i < LANES; i++) out->v[i] = (u64)i;
        break;
    case SR_SMEM: set_all(out, SMEM_BASE, false); break;
    case SR_CLUSTER_RANK: set_all(out, (u64)(c->sample % MAX(c->fn->cluster, 1)), true); break;
    default:
        if (r <= SR_CTAID_Z) set_all(out, cta[c->sample][r - SR_CTAID_X], true);
        else set_all(out, grid[r - SR_NCTAID_X], true);
        break;
    }
}

// ---- operands ----------------------------------------------------------------------------------

// An index at the present values of the unroll variables.
static i64 affine_value(Checker *c, const Operand *o)
{
    i64 v = o->base;
    for (int i = 0; i < o->nterms; i++) v += o->term[i].coef * c->value[o->term[i].var];
    return v;
}

// Element `k` of a register operand, or NULL for f32.
static Lanes *element(Checker *c, const Operand *o, int k)
{
    int first = c->first[o->reg];
    return first < 0 ? NULL : &c->reg[first + affine_value(c, o) + k];
}

// To the width of a register class.
static u64 truncate_to(u64 v, RegClass class)
{
    return class == RC_B64 ? v : class == RC_B16 ? (u16)v : class == RC_PRED ? (v & 1) : (u32)v;
}

// The value of an operand: the register itself, or made in `room`.
static const Lanes *fetch(Checker *c, const Operand *o, RegClass class, Lanes *room)
{
    const Lanes *l;
    switch (o->kind) {
    case OPD_REG:
        l = element(c, o, 0);
        if (l && !o->negate) return l;
        if (l) *room = *l;
        else set_unknown(room);
        for (int i = 0; l && i < LANES; i++) room->v[i] ^= 1;
        break;
    case OPD_IMM: set_all(room, truncate_to((u64)affine_value(c, o), class), false); break;
    case OPD_SREG: sample_special(c, (SpecialReg)o->reg, room); break;
    case OPD_PARAM: sample_param(c, o->reg, room); break;
    default: set_unknown(room); break;
    }
    return room;
}

// Writes the lanes of `mask`; lanes of `unsure` (an unknown guard) become unknown.
static void store(Checker *c, const Operand *o, int k, const Lanes *from, u32 mask, u32 unsure)
{
    Lanes *to = element(c, o, k);
    if (!to) return;
    RegClass class = c->fn->regs.at[o->reg].class;
    u64 bits = truncate_to(~0ull, class);
    if (mask == ~0u)
        for (int i = 0; i < LANES; i++) to->v[i] = from->v[i] & bits;
    else
        for (int i = 0; i < LANES; i++)
            if (mask >> i & 1) to->v[i] = from->v[i] & bits;
    to->known = ((to->known & ~mask) | (from->known & mask)) & ~unsure;
    to->guess |= from->guess;
    if (mask == ~0u) to->guess = from->guess;
}

// ---- integer arithmetic ------------------------------------------------------------------------

static bool is_signed(ThreadType t) { return t == TT_S32 || t == TT_S64 || t == TT_S16; }

static int type_bits(ThreadType t)
{
    switch (thread_type_class[t]) {
    case RC_B16: return 16;
    case RC_B32: return 32;
    default: return 64;
    }
}

static i64 sign_extend(u64 v, int bits) { return (i64)(v << (64 - bits)) >> (64 - bits); }

// Values are zero-extended to 64 bits; of unsigned types the highest bit is turned over, so that
// both kinds are ordered as i64.
static i64 order_key(u64 v, int bits, bool has_sign)
{
    return has_sign ? sign_extend(v, bits) : (i64)(v ^ (u64)1 << 63);
}

static u64 divide(u64 a, u64 b, int bits, bool has_sign, bool rem)
{
    i64 x = sign_extend(a, bits), y = sign_extend(b, bits);
    if (!b) return 0;
    if (!has_sign) return rem ? a % b : a / b;
    if (y == -1) return rem ? 0 : 0 - a;
    return (u64)(rem ? x % y : x / y);
}

// Class of the k-th source: what an immediate there is cut to.
static RegClass source_class(const ThreadOp *op, int k)
{
    if (op->op == OP_SELP && k == 2) return RC_PRED;
    if (op->op == OP_CVT) return thread_type_class[op->type2];
    if (op->op == OP_MULWIDE || ((op->op == OP_SHL || op->op == OP_SHR) && k == 1)) return RC_B32;
    return thread_type_class[op->type];
}

// Operations whose result depends on values that are followed.
static bool is_followed(const ThreadOp *op)
{
    if (thread_op[op->op].effect != EFF_PURE || op->op == OP_CVTPACK || op->op == OP_TMA_PREFETCH)
        return false;
    if (op->op == OP_CVT)
        return thread_type_class[op->type2] != RC_F32 && op->type2 <= TT_U16 && op->type <= TT_U16;
    return true;
}

// An integer operation on types of one class, on all lanes at once: which operation it is, is asked
// once for the 32 of them. Returns the lanes that have a value: division by zero has none here,
// since real launches do not have it where samples may.
static u32 lane_values(const ThreadOp *op, const u64 *a, const u64 *b, const u64 *x, u64 *out)
{
    // Result of a comparison where a is less, equal, greater.
    static const u8 truth[][3] = {[CMP_EQ] = {0, 1, 0}, [CMP_NE] = {1, 0, 1}, [CMP_LT] = {1, 0, 0},
                                  [CMP_LE] = {1, 1, 0}, [CMP_GT] = {0, 0, 1}, [CMP_GE] = {0, 1, 1}};
    const int bits = type_bits(op->type), from = type_bits(op->type2);
    const u64 width = bits == 64 ? 64 : 32; // of shifts: amounts beyond it give zero, or the sign
    const bool has_sign = is_signed(op->type);
    const u8 *is = truth[op->cmp];
    u32 ok = ~0u;
#define KEY(v) order_key(v, bits, has_sign)
#define EACH(value)                                       \
    for (int i = 0; i < LANES; i++) out[i] = (u64)(value); \
    return ok
    switch (op->op) {
    case OP_MOV:
    case OP_LDPARAM: EACH(a[i]);
    case OP_ADD: EACH(a[i] + b[i]);
    case OP_SUB: EACH(a[i] - b[i]);
    case OP_MUL: EACH(a[i] * b[i]);
    case OP_MAD: EACH(a[i] * b[i] + x[i]);
    case OP_MULWIDE:
        if (op->type == TT_U64) { EACH((u64)(u32)a[i] * (u32)b[i]); }
        EACH((i64)(i32)a[i] * (i32)b[i]);
    case OP_DIV:
    case OP_REM:
        for (int i = 0; i < LANES; i++)
            if (!b[i]) ok &= ~(1u << i);
        EACH(divide(a[i], b[i], bits, has_sign, op->op == OP_REM));
    case OP_MIN: EACH(KEY(a[i]) < KEY(b[i]) ? a[i] : b[i]);
    case OP_MAX: EACH(KEY(a[i]) < KEY(b[i]) ? b[i] : a[i]);
    case OP_NEG: EACH(0 - a[i]);
    case OP_ABS: EACH(sign_extend(a[i], bits) < 0 ? 0 - a[i] : a[i]);
    case OP_AND: EACH(a[i] & b[i]);
    case OP_OR: EACH(a[i] | b[i]);
    case OP_XOR: EACH(a[i] ^ b[i]);
    case OP_NOT: EACH(~a[i]);
    case OP_SHL: EACH(b[i] >= width ? 0 : a[i] << b[i]);
    case OP_SHR:
        if (has_sign) { EACH(sign_extend(a[i], bits) >> (b[i] < width ? b[i] : width - 1)); }
        EACH(b[i] >= width ? 0 : a[i] >> b[i]);
    case OP_SETP: EACH(is[1 + (KEY(a[i]) > KEY(b[i])) - (KEY(a[i]) < KEY(b[i]))]);
    case OP_SELP: EACH(x[i] ? a[i] : b[i]);
    case OP_CVT:
        if (is_signed(op->type2)) { EACH(sign_extend(a[i], from)); }
        EACH(a[i]);
    case OP_PACK:
        if (op->type == TT_B64) { EACH((a[i] & 0xffffffffu) | b[i] << 32); }
        EACH((a[i] & 0xffffu) | b[i] << 16);
    default: return 0;
    }
#undef KEY
#undef EACH
}

// A lane is known when all its sources are. The result is a guess when any of them is.
static void run_pure(Checker *c, const ThreadOp *op, u32 mask, u32 unsure)
{
    Lanes room[3], out;
    const Lanes *in[3];
    int n = op->nopnd - 1;
    set_unknown(&out);
    if (is_followed(op)) {
        out.known = ~0u;
        for (int k = 0; k < n; k++) {
            in[k] = fetch(c, &op->opnd[k + 1], source_class(op, k), &room[k]);
            out.known &= in[k]->known;
            out.guess |= in[k]->guess;
        }
        for (int k = n; k < 3; k++) in[k] = in[0];
        if (out.known) out.known &= lane_values(op, in[0]->v, in[1]->v, in[2]->v, out.v);
    }
    store(c, &op->opnd[0], 0, &out, mask, unsure);
}

// store() cuts each half to the width of its register.
static void run_unpack(Checker *c, const ThreadOp *op, u32 mask, u32 unsure)
{
    Lanes in, high;
    in = *fetch(c, &op->opnd[2], thread_type_class[op->type], &in);
    high = in;
    for (int i = 0; i < LANES; i++) high.v[i] = in.v[i] >> (op->type == TT_B64 ? 32 : 16);
    store(c, &op->opnd[0], 0, &in, mask, unsure);
    store(c, &op->opnd[1], 0, &high, mask, unsure);
}

// Whole warp, by the rules of shfl.sync; a source lane outside gives the lane's own value.
static void run_shuffle(Checker *c, const ThreadOp *op, u32 mask)
{
    Lanes in, by, out = {.known = 0};
    in = *fetch(c, &op->opnd[1], RC_B32, &in);
    by = *fetch(c, &op->opnd[2], RC_B32, &by);
    out.guess = in.guess | by.guess;
    for (int i = 0; i < LANES; i++) {
        int d = (int)(by.v[i] & 31);
        int from = op->n == SHFL_BFLY  ? i ^ d
                   : op->n == SHFL_IDX ? d
                   : op->n == SHFL_UP  ? i - d
                                       : i + d;
        if (from < 0 || from >= LANES) from = i;
        if (!(by.known >> i & 1) || !(in.known >> from & 1)) continue;
        out.v[i] = in.v[from];
        out.known |= 1u << i;
    }
    store(c, &op->opnd[0], 0, &out, mask, 0);
}

// Loaded integers are guesses, small and equal in all lanes, so that what is indexed by them can be
// compared all the same; loaded fragments are of no use as indices.
static void run_load(Checker *c, const ThreadOp *op, u32 mask, u32 unsure)
{
    for (int k = 0; k < op->opnd[0].count; k++) {
        Lanes out = {.known = 0};
        if (op->op != OP_LDMATRIX && op->op != OP_CLOCK) set_all(&out, (u64)(c->loads++ % 3), true);
        store(c, &op->opnd[0], k, &out, mask, unsure);
    }
}

// ---- coordinates -------------------------------------------------------------------------------

// A variable of a coordinate: an unroll variable by its name among those in force, a register, a
// special register or a parameter. 32-bit registers are signed there.
static void variable_value(Checker *c, const char *name, Lanes *out)
{
    set_unknown(out);
    if (*name == '$') {
        for (int i = 0; i < c->fn->unrolls.n; i++)
            if (c->bound[i] && c->unroll_name[i] == name) set_all(out, (u64)c->value[i], false);
        return;
    }
    int code = (int)(intptr_t)map_get(c->names, name) - 1;
    if (code < 0) return;
    int index = code % NAME_KIND;
    if (code / NAME_KIND == NAME_SREG) {
        sample_special(c, (SpecialReg)index, out);
    } else if (code / NAME_KIND == NAME_PARAM) {
        sample_param(c, index, out);
    } else {
        *out = c->reg[c->first[index]];
        if (c->fn->regs.at[index].class == RC_B32)
            for (int i = 0; i < LANES; i++) out->v[i] = (u64)(i64)(i32)out->v[i];
    }
}

// One operator of an expression on all lanes, v = v op w, with wrapping arithmetic: an overflow is
// no matter of this check. Returns the lanes that have a value: division by zero has none.
static u32 expr_lanes(ExprOp op, u64 *v, const u64 *w)
{
    u32 ok = ~0u;
#define A ((i64)v[i])
#define B ((i64)w[i])
#define EACH(value)                                     \
    for (int i = 0; i < LANES; i++) v[i] = (u64)(value); \
    return ok
    switch (op) {
    case EX_ADD: EACH(v[i] + w[i]);
    case EX_SUB: EACH(v[i] - w[i]);
    case EX_MUL: EACH(v[i] * w[i]);
    case EX_DIV:
    case EX_MOD:
        for (int i = 0; i < LANES; i++)
            if (!w[i]) ok &= ~(1u << i);
        EACH(divide(v[i], w[i], 64, true, op == EX_MOD));
    case EX_MIN: EACH(A < B ? A : B);
    case EX_MAX: EACH(A > B ? A : B);
    case EX_AND: EACH(v[i] & w[i]);
    case EX_OR: EACH(v[i] | w[i]);
    case EX_XOR: EACH(v[i] ^ w[i]);
    case EX_SHL: EACH(w[i] > 63 ? 0 : v[i] << w[i]);
    case EX_SHR: EACH(A >> (w[i] > 63 ? 63 : w[i]));
    case EX_EQ: EACH(v[i] == w[i]);
    case EX_NE: EACH(v[i] != w[i]);
    case EX_LT: EACH(A < B);
    case EX_LE: EACH(A <= B);
    case EX_LAND: EACH(v[i] && w[i]);
    case EX_LOR: EACH(v[i] || w[i]);
    default: BUG("coordinate operator %d", op);
    }
#undef A
#undef B
#undef EACH
}

// An expression for all lanes at once. Its depth is bounded by the reader of expressions.
static void expr_value(Checker *c, const Expr *e, Lanes *out)
{
    if (e->op == EX_CONST) {
        set_all(out, (u64)e->value, false);
        return;
    }
    if (e->op == EX_VAR) {
        variable_value(c, e->name, out);
        return;
    }
    Lanes b;
    expr_value(c, e->a, out);
    expr_value(c, e->b, &b);
    if (e->op == EX_SELECT) {
        Lanes d;
        expr_value(c, e->c, &d);
        for (int i = 0; i < LANES; i++) out->v[i] = out->v[i] ? b.v[i] : d.v[i];
        out->known &= b.known & d.known;
        out->guess |= b.guess | d.guess;
        return;
    }
    out->known &= b.known;
    out->guess |= b.guess;
    if (out->known) out->known &= expr_lanes((ExprOp)e->op, out->v, b.v);
}

// ---- comparison --------------------------------------------------------------------------------

// Once per operation: its other lanes, warps and iterations would say the same.
static void report(Checker *c, const ThreadOp *op, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void report(Checker *c, const ThreadOp *op, const char *fmt, ...)
{
    if (map_get(c->reported, op)) return;
    map_put(c->reported, op, (void *)(intptr_t)1);
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(c->mod->arena, fmt, ap);
    va_end(ap);
    c->errors++;
    diag_error(c->diag, op->loc, NULL, "thread IR: %s: %s: warp %d, %s", c->fn->name,
               thread_op[op->op].name, c->warp, text);
}

// "tile(0, 5, 16)", in the arena.
static const char *coordinates_text(Checker *c, const ThreadBuffer *b, const i64 *at)
{
    Buf text = {0};
    buf_printf(&text, "%s(", b->name);
    for (int k = 0; k < b->rank; k++) buf_printf(&text, "%s%lld", k ? ", " : "", (long long)at[k]);
    buf_putc(&text, ')');
    const char *s = arena_strndup(c->mod->arena, text.s, text.n);
    buf_free(&text);
    return s;
}

// Coordinates of shared buffers only: their extents are constants.
static bool inside(const ThreadBuffer *b, const i64 *at)
{
    for (int k = 0; k < b->rank; k++)
        if (at[k] < 0 || at[k] >= b->dim[k]->value) return false;
    return true;
}

// Byte address of coordinates in a global buffer for all lanes.
// Bounds are not looked at: extents of global buffers are guesses here.
static void global_place(Checker *c, const ThreadBuffer *b, const Lanes *at, Lanes *out)
{
    Lanes step, stride;
    sample_param(c, b->param, out);
    set_all(&step, 1, false); // product of the inner extents, for buffers without strides
    for (int k = b->rank - 1; k >= 0; k--) {
        if (b->stride[k]) expr_value(c, b->stride[k], &stride);
        else stride = step;
        out->known &= at[k].known & stride.known;
        for (int i = 0; i < LANES; i++)
            out->v[i] += at[k].v[i] * stride.v[i] * dtype_bytes[b->type];
        if (b->stride[k]) continue;
        expr_value(c, b->dim[k], &stride);
        step.known &= stride.known;
        for (int i = 0; i < LANES; i++) step.v[i] *= stride.v[i];
    }
}

// Alignment that the machine wants: the whole vector; 16 for a row of ldmatrix; 128 for TMA.
static int access_bytes(const ThreadOp *op)
{
    static const u8 bytes[RC_COUNT] = {0, 2, 4, 8, 4};
    switch (op->op) {
    case OP_LDS:
    case OP_STS:
    case OP_LDG:
    case OP_STG: return op->n * (op->type == TT_B8 ? 1 : bytes[thread_type_class[op->type]]);
    case OP_LDMATRIX:
    case OP_STMATRIX: return 16;
    case OP_ATOMS:
    case OP_ATOMG:
    case OP_CASS:
    case OP_CASG: return bytes[thread_type_class[op->type]];
    case OP_CPASYNC: return op->n;
    case OP_TMA_LOAD:
    case OP_TMA_STORE: return 128;
    default: return 8;
    }
}

// Compares address operand `o` (base and offset) with the place beside it.
static void compare_address(Checker *c, const ThreadOp *op, const Operand *o, const MemRef *m,
                            u32 mask)
{
    const ThreadBuffer *b = &c->fn->buffers.at[m->buffer];
    Lanes addr, at[6], place;
    addr = *fetch(c, &o[0], RC_B64, &addr);
    i64 offset = affine_value(c, &o[1]);
    bool guess = addr.guess || c->forced, global = b->kind == BUF_GLOBAL;
    if (op->op == OP_LDMATRIX || op->op == OP_STMATRIX)
        mask &= op->n == 4 ? ~0u : (1u << 8 * op->n) - 1; // other lanes' addresses are ignored
    mask &= addr.known;
    for (int k = 0; k < m->ncoord && mask; k++) {
        expr_value(c, m->coord[k], &at[k]);
        guess |= at[k].guess;
        mask &= at[k].known;
    }
    if (global && mask) {
        global_place(c, b, at, &place);
        mask &= place.known;
    }
    int bytes = b->kind == BUF_MBAR ? 8 : access_bytes(op);
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1)) continue;
        i64 coord[6], want, got = (i64)(addr.v[i] + (u64)offset);
        for (int k = 0; k < m->ncoord; k++) coord[k] = (i64)at[k].v[i];
        if (global) {
            want = (i64)place.v[i];
        } else {
            // Shared addresses have 32 bits.
            got = (i32)got;
            if (!inside(b, coord)) {
                if (!guess)
                    report(c, op, "lane %d: %s is outside the buffer", i,
                           coordinates_text(c, b, coord));
                continue;
            }
            want = SMEM_BASE + b->offset + thread_buffer_offset(b, coord);
        }
        i64 start = global ? (i64)((u64)(b->param + 1) << 40) : SMEM_BASE + b->offset;
        if (got != want)
            report(c, op, "lane %d: the address is byte %lld of %s, but %s is byte %lld", i,
                   (long long)(got - start), b->name, coordinates_text(c, b, coord),
                   (long long)(want - start));
        // Alignment is not reported on guesses: the contract may promise sizes that the samples
        // lack.
        else if (!guess && got % bytes)
            report(c, op, "lane %d: byte %lld of %s is not a multiple of %d", i,
                   (long long)(got - start), b->name, bytes);
    }
}

// ---- descriptors -------------------------------------------------------------------------------

// Shared address of element (mn, k) that the matrix unit reads by a descriptor; e: element bytes.
// The strides swap meaning: K-major with a swizzle has `stride` between groups of 8 rows and no
// use for `lead`; MN-major has `stride` between groups of 8 k, `lead` between blocks of one
// swizzled row.
static i64 descriptor_place(u64 d, bool transposed, int e, i64 mn, i64 k)
{
    i64 start = (i64)(d & 0x3fff) << 4, lead = (i64)(d >> 16 & 0x3fff) << 4;
    i64 stride = (i64)(d >> 32 & 0x3fff) << 4, phase = (i64)(d >> 49 & 7);
    static const u8 spans[4] = {16, 128, 64, 32}, masks[4] = {0, 7, 3, 1};
    i64 span = spans[d >> 62], mask = masks[d >> 62], off;
    if (!transposed) {
        // Rows of mn; without a swizzle 16-byte columns lie `lead` apart.
        i64 byte = k * e;
        off = mn % 8 * span + mn / 8 * stride + (mask ? byte : byte / 16 * lead + byte % 16);
    } else if (mask) {
        i64 per = span / e; // elements of mn in one swizzled row
        off = k % 8 * span + k / 8 * stride + mn % per * e + mn / per * lead;
    } else {
        off = k % 8 * 16 + k / 8 * lead + mn % 8 * e + mn / 8 * stride;
    }
    i64 a = start + off;
    return a ^ ((((a >> 7) - phase) & mask) << 4);
}

// The place beside a descriptor is the origin of the [extent, depth] tile that one
// instruction reads ([depth, extent] when transposed); depth is 32 bytes of K. One lane is
// enough: descriptors must be equal in the warp. The comparison is modulo 2^18, since a
// descriptor has no more address bits.
static void compare_descriptor(Checker *c, const ThreadOp *op, const Operand *o, const MemRef *m,
                               u32 mask, bool is_a)
{
    const ThreadBuffer *b = &c->fn->buffers.at[m->buffer];
    bool transposed = op->flags & (is_a ? OPF_TRANS_A : OPF_TRANS_B);
    int e = dtype_bytes[b->type], depth = 32 / e, extent = is_a ? 64 : op->n;
    Lanes desc, at[6];
    bool guess = c->forced;
    desc = *fetch(c, o, RC_B64, &desc);
    mask &= desc.known;
    for (int k = 0; k < m->ncoord && mask; k++) {
        expr_value(c, m->coord[k], &at[k]);
        mask &= at[k].known;
        guess |= at[k].guess;
    }
    if (!mask) return;
    int lane = __builtin_ctz(mask);
    // Steps of 1, 8 and everything up to the far corner: each stride of the formulas counts once.
    const int mns[] = {0, 1, 8, 16, 32, extent - 1}, ks[] = {0, 1, 8, depth - 1};
    for (int x = 0; x < COUNT(mns); x++) {
        for (int y = 0; y < COUNT(ks); y++) {
            i64 coord[6];
            int mn = mns[x], k = ks[y], r = b->rank;
            if (mn >= extent || k >= depth) continue;
            for (int i = 0; i < r; i++) coord[i] = (i64)at[i].v[lane];
            coord[r - 2] += transposed ? k : mn;
            coord[r - 1] += transposed ? mn : k;
            if (!inside(b, coord)) {
                if (!guess)
                    report(c, op, "operand %s reads %s, outside the buffer", is_a ? "A" : "B",
                           coordinates_text(c, b, coord));
                return;
            }
            i64 want = SMEM_BASE + b->offset + thread_buffer_offset(b, coord);
            i64 got = descriptor_place(desc.v[lane], transposed, e, mn, k);
            if (((got ^ want) & 0x3ffff) == 0) continue;
            report(
                c, op,
                "descriptor of %s: element (%s %d, k %d) is byte %lld of %s, but %s is byte %lld",
                is_a ? "A" : "B", is_a ? "row" : "column", mn, k,
                (long long)(got - SMEM_BASE - b->offset), b->name, coordinates_text(c, b, coord),
                (long long)(want - SMEM_BASE - b->offset));
            return;
        }
    }
}

// Pairs operands with places, in the order of the signature.
static void compare_mems(Checker *c, const ThreadOp *op, u32 mask)
{
    int k = 0, m = 0;
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        if (*s == 'S' || *s == 'G' || *s == 'B')
            compare_address(c, op, &op->opnd[k], &op->mem[m++], mask);
        else if (*s == 'L')
            compare_descriptor(c, op, &op->opnd[k], &op->mem[m++], mask,
                               op->op == OP_WGMMA_SS && k == 1);
        k += thread_sig_operands(op, *s);
    }
}

// ---- control -----------------------------------------------------------------------------------

static void run_block(Checker *c, const ThreadBlock *b, u32 active);

// Registers that a block may write become unknown in these lanes.
static void forget(Checker *c, const ThreadBlock *b, u32 mask)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const char *sig = thread_op[op->op].sig;
        int n = op->op == OP_FOR ? 1 : 0;
        while (sig[n] == 'd' || sig[n] == 'P' || sig[n] == 'F') n++;
        for (int k = 0; k < n && k < op->nopnd; k++) {
            const ThreadReg *r = &c->fn->regs.at[op->opnd[k].reg];
            int first = c->first[op->opnd[k].reg];
            for (int j = 0; first >= 0 && j < r->count; j++) c->reg[first + j].known &= ~mask;
        }
        forget(c, &op->body, mask);
        forget(c, &op->other, mask);
    }
}

// What a forced branch wrote is forgotten: together with a branch that was really taken it may be a
// state that no launch reaches.
static void run_forced(Checker *c, const ThreadBlock *b, u32 active)
{
    c->forced++;
    run_block(c, b, active);
    c->forced--;
    forget(c, b, active);
}

// Lanes of an unknown predicate run both sides, and what either may write is unknown before
// (another lane's way), between and after. Guesses are followed as if they were true, but in the
// last pass the side that they keep closed is entered first, for comparison only.
static void run_if(Checker *c, const ThreadOp *op, u32 active)
{
    Lanes p;
    p = *fetch(c, &op->opnd[0], RC_PRED, &p);
    u32 yes = 0, unsure = active & ~p.known;
    for (int i = 0; i < LANES; i++)
        if (active & p.known & 1u << i && p.v[i]) yes |= 1u << i;
    u32 no = active & p.known & ~yes;
    if (op->flags & OPF_UNIFORM && yes && no)
        report(c, op, "lanes differ in a predicate that is marked uniform");
    if (c->force && p.guess && !unsure) {
        if (!yes) run_forced(c, &op->body, active);
        if (!no) run_forced(c, &op->other, active);
    }
    if (unsure) {
        forget(c, &op->body, active);
        forget(c, &op->other, active);
    }
    if (yes | unsure) run_block(c, &op->body, yes | unsure);
    if (unsure) forget(c, &op->body, active);
    if (no | unsure) run_block(c, &op->other, no | unsure);
    if (unsure) forget(c, &op->other, active);
}

// Each lane leaves when its counter reaches its bound; where that is unknown it goes on.
static void run_lanes(Checker *c, const ThreadOp *op, u32 active, Lanes lo, Lanes hi)
{
    forget(c, &op->body, active); // lanes that leave early keep what they had
    u32 left = active;
    for (int trip = 0; trip < LOOP_TRIPS && left; trip++) {
        Lanes now = {.known = lo.known, .guess = lo.guess | hi.guess};
        for (int i = 0; i < LANES; i++) {
            i64 k = (i32)lo.v[i] + (i64)op->opnd[3].base * trip;
            bool known = lo.known >> i & 1 && hi.known >> i & 1;
            now.v[i] = (u32)k;
            if (k > INT32_MAX || (known && k >= (i32)hi.v[i])) left &= ~(1u << i);
        }
        store(c, &op->opnd[0], 0, &now, active, 0);
        if (left) run_block(c, &op->body, left);
    }
    forget(c, &op->body, active);
}

// Bounds are equal in all lanes, so one lane's will do. Unknown bounds run the body as a guess,
// from 1: 0 would hide factors.
static void run_for(Checker *c, const ThreadOp *op, u32 active)
{
    Lanes lo, hi;
    lo = *fetch(c, &op->opnd[1], RC_B32, &lo);
    hi = *fetch(c, &op->opnd[2], RC_B32, &hi);
    if (op->flags & OPF_LANES) {
        run_lanes(c, op, active, lo, hi);
        return;
    }
    int lane = __builtin_ctz(active);
    bool known = lo.known >> lane & 1;
    if (!known) set_all(&lo, 1, true);
    bool empty = hi.known >> lane & 1 && known && (i32)lo.v[lane] >= (i32)hi.v[lane];
    if (empty && c->force && (lo.guess || hi.guess)) {
        lo.guess = true;
        store(c, &op->opnd[0], 0, &lo, active, 0);
        run_forced(c, &op->body, active);
        return;
    }
    if (empty) {
        store(c, &op->opnd[0], 0, &lo, active, 0);
        return;
    }
    i64 step = op->opnd[3].base;
    for (int trip = 0; trip < LOOP_TRIPS; trip++) {
        i64 k = (i32)lo.v[lane] + step * trip;
        if (k > INT32_MAX || (trip && hi.known >> lane & 1 && k >= (i32)hi.v[lane])) break;
        Lanes now;
        set_all(&now, (u32)k, lo.guess | hi.guess | !known | !(hi.known >> lane & 1));
        store(c, &op->opnd[0], 0, &now, active, 0);
        run_block(c, &op->body, active);
    }
}

// Does anything in the block touch memory or a register that is followed?
static bool is_relevant(Checker *c, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        bool float_only = op->nopnd && op->opnd[0].kind == OPD_REG && c->first[op->opnd[0].reg] < 0;
        if (op->nmem || (op->nopnd && !float_only)) return true;
        if (is_relevant(c, &op->body) || is_relevant(c, &op->other)) return true;
    }
    return false;
}

// Float arithmetic on fragments is most of an unrolled kernel, and nothing here looks at it.
static void run_unroll(Checker *c, const ThreadOp *op, u32 active)
{
    if (!is_relevant(c, &op->body)) return;
    c->bound[op->imm] = true;
    for (int i = 0; i < op->n; i++) {
        c->value[op->imm] = i;
        run_block(c, &op->body, active);
    }
    c->bound[op->imm] = false;
}

// default: a role, entered by its warps.
static void run_region(Checker *c, const ThreadOp *op, u32 active)
{
    switch (op->op) {
    case OP_IF: run_if(c, op, active); break;
    case OP_FOR: run_for(c, op, active); break;
    case OP_UNROLL: run_unroll(c, op, active); break;
    default:
        if (c->warp >= op->imm && c->warp < op->imm + op->n) run_block(c, &op->body, active);
        break;
    }
}

// Comparison comes before the effect: a load may overwrite its own address register.
static void run_op(Checker *c, const ThreadOp *op, u32 active)
{
    u32 mask = active, unsure = 0;
    if (op->guard.kind != OPD_NONE) {
        Lanes p;
        p = *fetch(c, &op->guard, RC_PRED, &p);
        for (int i = 0; i < LANES; i++)
            if (!(p.known >> i & 1) || !p.v[i]) mask &= ~(1u << i);
        unsure = active & ~p.known;
        if (c->force && p.guess && !mask && op->nmem) mask = active & p.known;
    }
    if (op->op == OP_EXIT) {
        if (!c->forced) c->dead |= mask;
        return;
    }
    if (op->nmem && mask) compare_mems(c, op, mask);
    switch (op->op) {
    case OP_SHFL: run_shuffle(c, op, mask); return;
    case OP_UNPACK: run_unpack(c, op, mask, unsure); return;
    case OP_LDS:
    case OP_LDG:
    case OP_ATOMS:
    case OP_ATOMG:
    case OP_CASS:
    case OP_CASG:
    case OP_CLOCK:
    case OP_LDMATRIX: run_load(c, op, mask, unsure); return;
    default:
        if (thread_op[op->op].effect == EFF_PURE && op->op != OP_TMA_PREFETCH &&
            c->first[op->opnd[0].reg] >= 0)
            run_pure(c, op, mask, unsure);
        return;
    }
}

// The budget ends runaway programs: nested loops of two trips still double with each level.
static void run_block(Checker *c, const ThreadBlock *b, u32 active)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        active &= ~c->dead;
        if (!active || c->budget <= 0 || c->errors >= REPORTS) return;
        c->budget--;
        if (thread_op[op->op].effect == EFF_CTRL && op->op != OP_EXIT) run_region(c, op, active);
        else run_op(c, op, active);
    }
}

// ---- one kernel --------------------------------------------------------------------------------

// + 1, since a Map cannot tell a stored 0 from nothing.
static void add_name(Checker *c, const char *name, int kind, int index)
{
    map_put(c->names, intern(expr_pool_names(c->mod->exprs), name),
            (void *)(intptr_t)(kind * NAME_KIND + index + 1));
}

// Everything that a coordinate may name, so that evaluation is one look-up.
static void collect_names(Checker *c)
{
    const ThreadFn *f = c->fn;
    Arena *a = c->mod->arena;
    Intern *names = expr_pool_names(c->mod->exprs);
    c->names = map_new(a);
    c->reported = map_new(a);
    for (int i = 0; i < f->params.n; i++) add_name(c, f->params.at[i].name, NAME_PARAM, i);
    for (int i = 0; i < SR_COUNT; i++) add_name(c, special_reg_name[i], NAME_SREG, i);
    for (int i = 0; i < f->regs.n; i++)
        if (c->first[i] >= 0 && f->regs.at[i].count == 1)
            add_name(c, intern_printf(names, "%%%s", f->regs.at[i].name), NAME_REG, i);
    c->unroll_name = ARENA_ARRAY(a, const char *, f->unrolls.n);
    for (int i = 0; i < f->unrolls.n; i++)
        c->unroll_name[i] = intern_printf(names, "$%s", f->unrolls.at[i]);
    c->value = ARENA_ARRAY(a, i64, f->unrolls.n);
    c->bound = ARENA_ARRAY(a, bool, f->unrolls.n);
}

// Float registers are not followed: they take no room in `reg`.
bool thread_check_addresses(const ThreadModule *m, const ThreadFn *fn, Diag *d)
{
    Checker c = {.mod = m, .fn = fn, .diag = d, .budget = BUDGET};
    int elements = 0;
    c.first = ARENA_ARRAY(m->arena, int, fn->regs.n);
    for (int i = 0; i < fn->regs.n; i++) {
        bool followed = fn->regs.at[i].class != RC_F32;
        c.first[i] = followed ? elements : -1;
        if (followed) elements += fn->regs.at[i].count;
    }
    c.reg = ARENA_ARRAY(m->arena, Lanes, elements);
    collect_names(&c);
    for (int pass = 0; pass < PASSES; pass++) {
        c.sample = pass % SAMPLES;
        c.force = pass >= SAMPLES;
        // All warps once; then one of four, since what the launch decides is equal for all.
        int step = pass ? 4 : 1, warps = fn->threads / 32;
        for (c.warp = MIN(pass, warps - 1); c.warp < warps; c.warp += step) {
            memset(c.reg, 0, sizeof(Lanes) * (size_t)elements);
            c.dead = 0;
            c.loads = 0;
            run_block(&c, &fn->body, ~0u);
        }
    }
    return c.errors == 0;
}
