// check.c - the law of the thread IR: what every program must obey before a back end, the emulator
// or the verifier may look at it. The structure is checked here, row by row of ops.h; that
// addresses and coordinates name the same bytes is check_address.c.
//
// In: any module, also one that no builder made. Out: an error per broken rule, at the operation's
// place, "thread IR: <kernel>: <operation>: <rule>".
#include "check.h"

#include <string.h>

enum {
    MAX_THREADS = 1024,        // of a CTA
    MAX_SMEM = 232448,         // dynamic shared memory of one CTA, bytes
    MAX_PARAM_BYTES = 4096,    // of a kernel: the limit before PTX 8.1
    MAX_EXPANDED = 1 << 18,    // operations after unrolling
    MAX_NESTING = 64,          // regions; bounds the recursion of all who walk the program
    MAX_BARRIER = 15,          // the CTA has 16 named barriers
};

typedef struct {
    const ThreadModule *mod;
    const ThreadFn *fn;        // kernel being checked
    const ThreadOp *op;        // for messages, NULL at declarations
    Diag *diag;                // gets one error per broken rule
    int errors;                // so far, all kernels
    i32 *trips;                // per unroll variable: trip count while bound, else 0
    int bound[MAX_NESTING], nbound; // the bound ones, outermost first
    Map *reg_named, *param_named; // name -> index + 1
    int lane_if;               // enclosing ifs whose predicate differs between lanes
    int first_warp, warps;     // of the enclosing role
    int nesting;               // enclosing regions
    i64 copies, expanded;      // product of enclosing trip counts, operations so far
    Loc overflow;              // the operation that was one too many
} Checker;

// Reports a broken rule and returns false; check functions return false once they have reported.
static bool rule(Checker *c, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
static bool rule(Checker *c, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(c->mod->arena, fmt, ap);
    va_end(ap);
    c->errors++;
    diag_error(c->diag, loc, hint, "thread IR: %s: %s%s%s", c->fn ? c->fn->name : "module",
               c->op ? thread_op[c->op->op].name : "", c->op ? ": " : "", text);
    return false;
}
#define BROKEN(c, ...) rule((c), (c)->op->loc, NULL, __VA_ARGS__)

// ---- operands ----------------------------------------------------------------------------------

// Least and greatest value of an affine operand over the enclosing unrolls; false and an error when
// it uses a variable that is not in force.
static bool affine_range(Checker *c, const Operand *o, i64 *lo, i64 *hi)
{
    *lo = *hi = o->base;
    if (o->nterms > INDEX_TERMS)
        return BROKEN(c, "more than %d variables in an index", INDEX_TERMS);
    for (int i = 0; i < o->nterms; i++) {
        int var = o->term[i].var;
        if (var >= c->fn->unrolls.n || !c->trips[var])
            return BROKEN(c, "an index uses an unroll variable that no enclosing region binds");
        i64 span = (i64)o->term[i].coef * (c->trips[var] - 1), *end = span > 0 ? hi : lo;
        if (__builtin_add_overflow(*end, span, end))
            return BROKEN(c, "an index does not fit 64 bits");
    }
    return true;
}


// A register operand of `count` elements, in one of the classes of the bit mask, whose index stays
// inside the array for all values of the enclosing unroll variables.
static bool check_register(Checker *c, const Operand *o, const char *what, u32 classes, int count)
{
    if (o->kind != OPD_REG) return BROKEN(c, "%s must be a register", what);
    if (o->reg < 0 || o->reg >= c->fn->regs.n) return BROKEN(c, "%s is an unknown register", what);
    const ThreadReg *r = &c->fn->regs.at[o->reg];
    if (!(classes >> r->class & 1)) {
        char need[64] = "";
        for (int i = 0; i < RC_COUNT; i++) {
            if (!(classes >> i & 1)) continue;
            if (*need) strcat(need, " or ");
            strcat(need, reg_class_name[i]);
        }
        return BROKEN(c, "%s is %%%s of class %s; class %s is required", what, r->name,
                      reg_class_name[r->class], need);
    }
    if (o->count != count)
        return BROKEN(c, "%s has %d registers; %d are required", what, o->count, count);
    i64 lo, hi;
    if (!affine_range(c, o, &lo, &hi)) return false;
    if (lo < 0 || hi > r->count - count)
        return BROKEN(c, "%s reaches %%%s[%lld]; it has %d registers", what, r->name,
                      (long long)(lo < 0 ? lo : hi + count - 1), r->count);
    return true;
}

// An immediate within [least, most] for all values of the unroll variables in it.
static bool check_integer(Checker *c, const Operand *o, const char *what, i64 least, i64 most)
{
    i64 lo, hi;
    if (o->kind != OPD_IMM) return BROKEN(c, "%s must be an integer", what);
    if (!affine_range(c, o, &lo, &hi)) return false;
    if (lo < least || hi > most)
        return BROKEN(c, "%s is %lld; %lld to %lld is required", what,
                      (long long)(lo < least ? lo : hi), (long long)least, (long long)most);
    return true;
}

// Bits of a value of this class; signed and unsigned spellings of an immediate are both fine.
static bool check_immediate(Checker *c, const Operand *o, const char *what, RegClass class)
{
    switch (class) {
    case RC_PRED: return check_integer(c, o, what, 0, 1);
    case RC_B16: return check_integer(c, o, what, INT16_MIN, UINT16_MAX);
    case RC_B32: return check_integer(c, o, what, INT32_MIN, UINT32_MAX);
    case RC_B64: return check_integer(c, o, what, INT64_MIN, INT64_MAX);
    default: return BROKEN(c, "%s is an integer; an f32 such as 1.0 is required", what);
    }
}

// Classes that a register of this type may have: untyped 32 bits may be a float.
static u32 classes_of(ThreadType t)
{
    u32 bits = 1u << thread_type_class[t];
    return t == TT_B32 ? bits | 1u << RC_F32 : bits;
}

// A source of type t: register, immediate of its class, or (mov.b32 only, as PTX has it) a special
// register. Negation is for predicates that steer, not for data.
static bool check_source(Checker *c, const Operand *o, const char *what, ThreadType t)
{
    RegClass class = thread_type_class[t];
    if (o->negate) return BROKEN(c, "%s is negated; only guards and `if` take !%%p", what);
    switch (o->kind) {
    case OPD_IMM:
        if (class == RC_PRED && c->op->op != OP_MOV)
            return BROKEN(c, "%s must be a predicate register", what);
        return check_immediate(c, o, what, class);
    case OPD_FIMM:
        if (class != RC_F32)
            return BROKEN(c, "%s is an f32; type %s takes none", what, thread_type_name[t]);
        return true;
    case OPD_SREG:
        if (o->reg < 0 || o->reg >= SR_COUNT) return BROKEN(c, "%s is no special register", what);
        if (c->op->op != OP_MOV || class != RC_B32)
            return BROKEN(c, "special registers are read by mov.b32 only");
        return true;
    default: return check_register(c, o, what, classes_of(t), 1);
    }
}

// Base register and byte offset. Shared addresses have 32 bits, global ones 64.
static bool check_address(Checker *c, const Operand *o, const char *what, RegClass class)
{
    return check_register(c, &o[0], what, 1u << class, 1) &&
           check_integer(c, &o[1], "the offset of an address", INT32_MIN, INT32_MAX);
}

// 32-bit register or immediate.
static bool check_word(Checker *c, const Operand *o, const char *what)
{
    return check_source(c, o, what, TT_S32);
}

// 'T' wants a tensor map; 'K' (ld.param) a value whose kind has the width of the operation's type.
static bool check_param(Checker *c, const Operand *o, char letter)
{
    if (o->kind != OPD_PARAM || o->reg < 0 || o->reg >= c->fn->params.n)
        return BROKEN(c, "a kernel parameter is required");
    ParamKind kind = c->fn->params.at[o->reg].kind;
    if (letter == 'T')
        return kind == PARAM_TMAP ||
               BROKEN(c, "%s is no tensor map", c->fn->params.at[o->reg].name);
    u32 fits = kind == PARAM_S32   ? 1u << RC_B32
               : kind == PARAM_F32 ? 1u << RC_F32 | 1u << RC_B32
               : kind == PARAM_TMAP ? 0
                                    : 1u << RC_B64;
    return (fits >> thread_type_class[c->op->type] & 1) ||
           BROKEN(c, "parameter %s of kind %s is not read as %s", c->fn->params.at[o->reg].name,
                  param_kind_name[kind], thread_type_name[c->op->type]);
}

// Registers of a range operand: how many, and of which classes.
static bool check_range(Checker *c, const Operand *o, char letter)
{
    const ThreadOp *op = c->op;
    switch (op->op) {
    case OP_LDMATRIX:
    case OP_STMATRIX: return check_register(c, o, "the matrix range", 1u << RC_B32, op->n);
    case OP_WGMMA_SS:
    case OP_WGMMA_RS:
        if (letter == 'R')
            return check_register(c, o, "the accumulator",
                                  1u << (op->type == TT_S32 ? RC_B32 : RC_F32), op->n / 2);
        return check_register(c, o, "the A operand", 1u << RC_B32, 4);
    default:
        // Loads and stores move as many registers as the vector is wide.
        return check_register(c, o, "the register range", classes_of((ThreadType)op->type), op->n);
    }
}

// pack and unpack name two halves: their class is half as wide as the type.
static u32 half_classes(const ThreadOp *op)
{
    return op->type == TT_B64 ? 1u << RC_B32 | 1u << RC_F32 : 1u << RC_B16;
}

// 'd': a register of the operation's type, except where the operation changes the width.
static bool check_destination(Checker *c, const Operand *o)
{
    if (o->negate) return BROKEN(c, "a destination is negated");
    if (c->op->op == OP_UNPACK)
        return check_register(c, o, "the destination", half_classes(c->op), 1);
    return check_register(c, o, "the destination", classes_of((ThreadType)c->op->type), 1);
}

// 's': likewise. Shuffles and unpack take registers only.
static bool check_plain_source(Checker *c, const Operand *o)
{
    if (c->op->op == OP_CVTPACK) return check_source(c, o, "a source", TT_F32);
    if (c->op->op == OP_PACK) return check_register(c, o, "a source", half_classes(c->op), 1);
    if (c->op->op == OP_SHFL || c->op->op == OP_UNPACK)
        return check_register(c, o, "the source", classes_of((ThreadType)c->op->type), 1);
    return check_source(c, o, "a source", (ThreadType)c->op->type);
}

// The operands of one letter of the signature; ops.h explains the letters.
static bool check_letter(Checker *c, char letter, const Operand *o)
{
    switch (letter) {
    case 'd': return check_destination(c, o);
    case 's': return check_plain_source(c, o);
    case 't': return check_source(c, o, "the source", (ThreadType)c->op->type2);
    case 'x': return check_word(c, o, "an operand");
    case 'P':
        return (!o->negate || BROKEN(c, "a destination is negated")) &&
               check_register(c, o, "the destination", 1u << RC_PRED, 1);
    case 'p':
        if (o->negate && c->op->op != OP_IF) return BROKEN(c, "only guards and `if` take !%%p");
        return check_register(c, o, "the predicate", 1u << RC_PRED, 1);
    case 'F':
    case 'R':
    case 'r': return check_range(c, o, letter);
    case 'L': return check_register(c, o, "the descriptor", 1u << RC_B64, 1);
    case 'S': return check_address(c, o, "the shared address", RC_B32);
    case 'B': return check_address(c, o, "the barrier address", RC_B32);
    case 'G': return check_address(c, o, "the global address", RC_B64);
    case 'C':
        for (int i = 0; i < c->op->n; i++)
            if (!check_word(c, &o[i], "a coordinate")) return false;
        return true;
    case 'K':
    case 'T': return check_param(c, o, letter);
    default: BUG("signature letter %c", letter);
    }
}

// The number first: the letters index the array of operands.
static bool check_operands(Checker *c)
{
    const ThreadOp *op = c->op;
    const char *sig = thread_op[op->op].sig;
    int want = 0;
    for (const char *s = sig; *s; s++) want += thread_sig_operands(op, *s);
    if (op->nopnd != want) return BROKEN(c, "%d operands; %d are required", op->nopnd, want);
    int k = 0;
    for (const char *s = sig; *s; s++) {
        if (!check_letter(c, *s, &op->opnd[k])) return false;
        k += thread_sig_operands(op, *s);
    }
    return true;
}

// ---- types, attributes, flags ------------------------------------------------------------------

// Types with a sign rule; b16, b32 and b64 are bits without one.
static bool is_int_type(ThreadType t)
{
    return t == TT_S32 || t == TT_U32 || t == TT_S64 || t == TT_U64 || t == TT_S16 || t == TT_U16;
}

// Between integers all; f32 is the hub of the floats, so bf16 to f16, say, takes two conversions.
// Floats to 16-bit integers are left out: nothing needs them.
bool thread_cvt_legal(ThreadType to, ThreadType from)
{
    if (is_int_type(to) && is_int_type(from)) return true;
    if (to == TT_F32)
        return is_int_type(from) || from == TT_F16 || from == TT_BF16 || from == TT_E4M3 ||
               from == TT_E5M2;
    if (from != TT_F32) return false;
    return (is_int_type(to) && to != TT_S16 && to != TT_U16) || to == TT_F16 || to == TT_BF16 ||
           to == TT_TF32 || to == TT_E4M3 || to == TT_E5M2;
}

// Does the letter of a row's type column cover the type?
static bool letter_covers(char letter, ThreadOpcode op, ThreadType t)
{
    bool memory = thread_attr(op) == ATTR_VECTOR;
    switch (letter) {
    case 'i': return t == TT_S32 || t == TT_U32;
    case 'l': return t == TT_S64 || t == TT_U64;
    case 'b': return t == TT_B16 || t == TT_B32 || t == TT_B64 || (t == TT_B8 && memory);
    case 'f': return t == TT_F32;
    case 'q': return t == TT_PRED;
    case 'h': return t == TT_F16X2 || t == TT_BF16X2 || t == TT_E4M3X2 || t == TT_E5M2X2;
    default: return t == TT_NONE;
    }
}

// Sums, minima and maxima need a type that says what the bits mean, the others only a width. Floats
// can be added.
static bool atomic_type(const ThreadOp *op)
{
    bool bits = op->type == TT_B32 || op->type == TT_B64;
    if (op->n == ATOM_ADD) return !bits && op->type != TT_B16;
    if (op->n == ATOM_MIN || op->n == ATOM_MAX) return !bits && is_int_type(op->type);
    return bits;
}

// The row's letters, and then what single operations do not have though their letter says so.
static bool check_types(Checker *c)
{
    const ThreadOp *op = c->op;
    if (op->type >= TT_COUNT || op->type2 >= TT_COUNT) return BROKEN(c, "a type is out of range");
    if (op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS) {
        bool whole = op->type2 == TT_S8 || op->type2 == TT_U8;
        if (op->type != (whole ? TT_S32 : TT_F32))
            return BROKEN(c, "accumulators of another type than %s", whole ? "s32" : "f32");
        if (whole && op->n % 16 && op->n != 8 && op->n != 24)
            return BROKEN(c, "an integer product of %d columns; 8, 24 or a multiple of 16", op->n);
        if (whole && op->flags) return BROKEN(c, "an integer product takes no flags");
        if (whole) return true;
        return op->type2 == TT_F16 || op->type2 == TT_BF16 || op->type2 == TT_TF32 ||
               op->type2 == TT_E4M3 || op->type2 == TT_E5M2 ||
               BROKEN(c, "no product of type '%s'", thread_type_name[op->type2]);
    }
    if (op->op == OP_CVT)
        return thread_cvt_legal((ThreadType)op->type, (ThreadType)op->type2) ||
               BROKEN(c, "no conversion to '%s' from '%s'", thread_type_name[op->type],
                      thread_type_name[op->type2]);
    if (op->type2) return BROKEN(c, "a second type without meaning");
    bool fits = false;
    const char *letters = thread_op[op->op].types;
    for (const char *s = letters; *s && !fits; s++)
        fits = letter_covers(*s, op->op, (ThreadType)op->type);
    if (fits && (op->op == OP_PACK || op->op == OP_UNPACK)) fits = op->type != TT_B16;
    if (fits && op->op == OP_SHFL) fits = op->type == TT_B32;
    if (fits && (op->op == OP_CASS || op->op == OP_CASG)) fits = op->type != TT_B16;
    if (fits && thread_attr(op->op) == ATTR_ATOMIC) fits = atomic_type(op);
    if (fits && op->op == OP_ABS) fits = op->type != TT_U32 && op->type != TT_U64;
    return fits || BROKEN(c, "type '%s' is not legal here", thread_type_name[op->type]);
}

// Vector widths and matrix counts that the machine has.
static bool one_two_four(int n) { return n == 1 || n == 2 || n == 4; }

// The attribute n by its meaning (text.h); an attribute without meaning must be 0, so that equal
// programs have equal text.
static bool check_attribute(Checker *c)
{
    const ThreadOp *op = c->op;
    int n = op->n, bytes;
    switch (thread_attr(op->op)) {
    case ATTR_VECTOR:
        bytes = op->type == TT_B8 ? 1 : op->type == TT_B16 ? 2 : op->type == TT_B64 ? 8 : 4;
        if (!one_two_four(n) || n * bytes > 16)
            return BROKEN(c, "vector of %d; 1, 2 or 4 elements of at most 16 bytes are required",
                          n);
        return true;
    case ATTR_MATRICES:
        return one_two_four(n) || BROKEN(c, "%d matrices; 1, 2 or 4 are required", n);
    case ATTR_BYTES:
        return n == 4 || n == 8 || n == 16 || BROKEN(c, "%d bytes; 4, 8 or 16 are required", n);
    case ATTR_EXTENT:
        return (n >= 8 && n <= 256 && n % 8 == 0) ||
               BROKEN(c, "extent %d; a multiple of 8 in 8 to 256 is required", n);
    case ATTR_PLACE:
        return n < PRINT_MAX_ARGS || BROKEN(c, "value %d of a print; there are at most %d", n,
                                            PRINT_MAX_ARGS);
    case ATTR_ATOMIC: return n < ATOM_CAS || BROKEN(c, "unknown atomic operation %d", n);
    case ATTR_SHFL: return n <= SHFL_DOWN || BROKEN(c, "unknown mode %d", n);
    case ATTR_RANK:
        return (n >= 1 && n <= 5) || BROKEN(c, "%d coordinates; 1 to 5 are required", n);
    case ATTR_OPERAND:
        if (op->op == OP_SETMAXNREG_INC || op->op == OP_SETMAXNREG_DEC)
            return (n >= 24 && n <= 256 && n % 8 == 0) ||
                   BROKEN(c, "%d registers; a multiple of 8 in 24 to 256 is required", n);
        // PTX takes wgmma.wait_group 0 to 7.
        return n <= (op->op == OP_WGMMA_WAIT ? 7 : 255) ||
               BROKEN(c, "%d outstanding groups are too many", n);
    case ATTR_NONE: return !n || BROKEN(c, "attribute %d without meaning", n);
    case ATTR_REGION: return true;
    }
    return true;
}

// Flag bits mean different things in different operations; legal ones have a row in thread_flag.
static bool check_flags(Checker *c)
{
    const ThreadOp *op = c->op;
    u32 legal = 0;
    for (int i = 0; i < thread_flags_n; i++)
        if (thread_flag[i].op == op->op) legal |= thread_flag[i].flag;
    if (op->flags & ~legal) return BROKEN(c, "flags %x without meaning", op->flags & ~legal);
    u32 hints = op->op == OP_TMA_LOAD ? op->flags & (OPF_EVICT_FIRST | OPF_EVICT_LAST) : 0;
    if (hints == (OPF_EVICT_FIRST | OPF_EVICT_LAST)) return BROKEN(c, "two cache hints at once");
    bool multicast = op->op == OP_TMA_LOAD && op->flags & OPF_MULTICAST;
    if (multicast && hints) return BROKEN(c, "a multicast load with a cache hint");
    if (multicast && c->fn->cluster < 2) return BROKEN(c, "a multicast load without a cluster");
    if (op->op == OP_CVT && op->flags && (op->type2 != TT_F32 || !is_int_type(op->type)))
        return BROKEN(c, "rzi is for conversions from f32 to an integer");
    bool wgmma = op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
    if (wgmma && op->flags & (OPF_TRANS_A | OPF_TRANS_B) && op->type2 != TT_F16 &&
        op->type2 != TT_BF16)
        return BROKEN(c, "operands of type %s cannot be transposed; only 16-bit types can",
                      thread_type_name[op->type2]);
    return op->op != OP_SETP || op->cmp < CMP_COUNT || BROKEN(c, "unknown comparison");
}

// ---- places in buffers -------------------------------------------------------------------------

static bool unroll_bound(const Checker *c, const char *name)
{
    for (int i = 0; i < c->nbound; i++)
        if (strcmp(c->fn->unrolls.at[c->bound[i]], name) == 0) return true;
    return false;
}

// Is the variable of a coordinate bound here: a scalar register, a variable of an enclosing
// unroll, a special register, or an integer parameter?
static bool variable_bound(Checker *c, const char *name)
{
    if (*name == '$') return unroll_bound(c, name + 1);
    Intern *names = expr_pool_names(c->mod->exprs);
    if (*name == '%') {
        int reg = (int)(intptr_t)map_get(c->reg_named, intern(names, name + 1)) - 1;
        return reg >= 0 && c->fn->regs.at[reg].count == 1 &&
               (c->fn->regs.at[reg].class == RC_B32 || c->fn->regs.at[reg].class == RC_B64);
    }
    for (int i = 0; i < SR_COUNT; i++)
        if (strcmp(special_reg_name[i], name) == 0) return true;
    int param = (int)(intptr_t)map_get(c->param_named, intern(names, name)) - 1;
    return param >= 0 &&
           (c->fn->params.at[param].kind == PARAM_S32 || c->fn->params.at[param].kind == PARAM_S64);
}

// Expressions of a coordinate may use only what is known where the operation stands.
static bool coordinate_bound(Checker *c, const Expr *e)
{
    if (e->op == EX_CONST) return true;
    if (e->op == EX_VAR)
        return variable_bound(c, e->name) ||
               BROKEN(c, "a coordinate uses %s, which is not bound here", e->name);
    return coordinate_bound(c, e->a) && coordinate_bound(c, e->b) &&
           (!e->c || coordinate_bound(c, e->c));
}

// The place beside an address operand: right kind of buffer, a coordinate per dimension. 'L', a
// wgmma descriptor, also needs rows and columns of the operand's element size.
static bool check_mem(Checker *c, const MemRef *m, char letter)
{
    if (m->buffer < 0 || m->buffer >= c->fn->buffers.n) return BROKEN(c, "an unknown buffer");
    const ThreadBuffer *b = &c->fn->buffers.at[m->buffer];
    BufferKind want = letter == 'G' ? BUF_GLOBAL : letter == 'B' ? BUF_MBAR : BUF_SHARED;
    static const char *const kind[] = {"shared", "global", "barrier"};
    if (b->kind != want)
        return BROKEN(c, "%s is a %s buffer; a %s buffer is required", b->name, kind[b->kind],
                      kind[want]);
    if (m->ncoord != b->rank)
        return BROKEN(c, "%d coordinates in %s, which has %d dimensions", m->ncoord, b->name,
                      b->rank);
    for (int i = 0; i < m->ncoord; i++) {
        if (!m->coord[i]) return BROKEN(c, "coordinate %d in %s is missing", i, b->name);
        if (!coordinate_bound(c, m->coord[i])) return false;
    }
    if (letter != 'L') return true;
    static const u8 bytes[TT_COUNT] = {[TT_F16] = 2, [TT_BF16] = 2, [TT_TF32] = 4, [TT_E4M3] = 1,
                                       [TT_E5M2] = 1, [TT_S8] = 1,   [TT_U8] = 1};
    if (b->rank < 2) return BROKEN(c, "%s has no rows and columns", b->name);
    return bytes[c->op->type2] == dtype_bytes[b->type] ||
           BROKEN(c, "%s holds %s; the product reads %s", b->name, dtype_name[b->type],
                  thread_type_name[c->op->type2]);
}

// One place per address or descriptor: without it neither the address check, nor the emulator's
// bounds, nor the verifier could say which buffer is meant.
static bool check_mems(Checker *c)
{
    const ThreadOp *op = c->op;
    int want = thread_sig_mems(op->op), k = 0;
    if (op->nmem != want)
        return rule(c, op->loc, "write them behind the operands: ; buffer(coordinate, ...)",
                    "%d places in buffers; %d are required", op->nmem, want);
    for (const char *s = thread_op[op->op].sig; *s; s++)
        if (strchr("SGBL", *s) && !check_mem(c, &op->mem[k++], *s)) return false;
    return true;
}

// ---- rules of single operations ----------------------------------------------------------------

// bar.sync and bar.arrive: ids 0 to 15, whole warps. 0 belongs to all threads of the CTA.
static bool check_barrier(Checker *c)
{
    const Operand *id = &c->op->opnd[0], *count = &c->op->opnd[1];
    if (id->kind == OPD_IMM && !check_integer(c, id, "the barrier", 0, MAX_BARRIER)) return false;
    if (count->kind != OPD_IMM) return BROKEN(c, "the number of threads must be an integer");
    if (!check_integer(c, count, "the number of threads", 32, c->fn->threads)) return false;
    if (count->nterms || count->base % 32)
        return BROKEN(c, "%lld threads; a multiple of 32 is required", (long long)count->base);
    if (id->kind == OPD_IMM && !id->nterms && id->base == 0 && count->base != c->fn->threads)
        return rule(c, c->op->loc, "give the barrier of a role an id from 1 to 15",
                    "barrier 0 is the whole CTA's, %d threads, and %lld were given", c->fn->threads,
                    (long long)count->base);
    return true;
}

// wgmma and setmaxnreg are executed by whole warp groups.
// A warp group is four warps, the first a multiple of four. For setmaxnreg the assembler must know
// the count at entry, which only .maxnreg or .minnctapersm tell it.
static bool check_group(Checker *c)
{
    if (c->first_warp % 4 || c->warps % 4)
        return BROKEN(c, "warps %d..%d are no whole warp groups", c->first_warp,
                      c->first_warp + c->warps);
    bool registers = c->op->op == OP_SETMAXNREG_INC || c->op->op == OP_SETMAXNREG_DEC;
    return !registers || c->fn->maxnreg || c->fn->min_ctas ||
           BROKEN(c, "the kernel must give maxnreg or min_ctas, else the assembler ignores it");
}

// Registers are let through: their values are the emulator's to check.
static bool imm_operand(Checker *c, int k, const char *what, i64 lo, i64 hi)
{
    return c->op->opnd[k].kind != OPD_IMM || check_integer(c, &c->op->opnd[k], what, lo, hi);
}

// Rules that depend on what an operation means. An mbarrier counts at most 2^20 - 1 arrivals a
// phase, and bytes likewise.
static bool check_single(Checker *c)
{
    const ThreadOp *op = c->op;
    switch (op->op) {
    case OP_SHL:
    case OP_SHR:
        return imm_operand(c, 2, "the shift", 0, thread_type_class[op->type] == RC_B64 ? 63 : 31);
    case OP_PRINT: return imm_operand(c, 0, "the text", 0, c->fn->texts.n - 1);
    case OP_SHFL: return imm_operand(c, 2, "the lane", 0, 31);
    case OP_CPASYNC: return imm_operand(c, 4, "the source size", 0, op->n);
    case OP_MBAR_INIT: return imm_operand(c, 2, "the count of arrivals", 1, (1 << 20) - 1);
    case OP_MBAR_EXPECT:
    case OP_MBAR_ARRIVE_EXPECT: return imm_operand(c, 2, "the count of bytes", 0, (1 << 20) - 1);
    case OP_MBAR_ARRIVE_CLUSTER:
        if (c->fn->cluster < 2) return BROKEN(c, "the kernel has no cluster");
        return imm_operand(c, 2, "the block of the cluster", 0, c->fn->cluster - 1);
    case OP_BAR_CLUSTER:
        if (c->fn->cluster < 2) return BROKEN(c, "the kernel has no cluster");
        return c->warps == c->fn->threads / 32 || BROKEN(c, "not by all warps of the block");
    case OP_MBAR_WAIT: return imm_operand(c, 2, "the parity", 0, 1);
    case OP_BAR_SYNC:
    case OP_BAR_ARRIVE: return check_barrier(c);
    case OP_WGMMA_FENCE:
    case OP_WGMMA_SS:
    case OP_WGMMA_RS:
    case OP_WGMMA_COMMIT:
    case OP_WGMMA_WAIT:
    case OP_SETMAXNREG_INC:
    case OP_SETMAXNREG_DEC: return check_group(c);
    default: return true;
    }
}

// Operations that all lanes of a warp execute together.
static bool is_collective(ThreadOpcode op)
{
    return thread_op[op].scope == SCOPE_GROUP || op == OP_SHFL || op == OP_VOTE ||
           op == OP_LDMATRIX || op == OP_STMATRIX || op == OP_BAR_WARP || op == OP_BAR_SYNC ||
           op == OP_BAR_ARRIVE || op == OP_BAR_CLUSTER;
}

// ---- regions -----------------------------------------------------------------------------------

static void check_block(Checker *c, const ThreadBlock *b);

// The loop register is stated twice (operand and imm), for readers that walk operands only.
static void check_for(Checker *c)
{
    const ThreadOp *op = c->op;
    if (op->nopnd != 4) {
        BROKEN(c, "%d operands; 4 are required", op->nopnd);
        return;
    }
    if (!check_register(c, &op->opnd[0], "the loop register", 1u << RC_B32, 1) ||
        !check_word(c, &op->opnd[1], "the lower bound") ||
        !check_word(c, &op->opnd[2], "the upper bound") ||
        !check_integer(c, &op->opnd[3], "the step", 1, INT32_MAX))
        return;
    if (op->imm != op->opnd[0].reg) BROKEN(c, "two loop registers");
    bool differs = op->flags & OPF_LANES;
    c->lane_if += differs;
    check_block(c, &op->body);
    c->lane_if -= differs;
}

// A variable is bound while trips[] is not 0, hence no region of 0 trips. Copies saturate: nested
// trip counts multiply beyond any integer.
static void check_unroll(Checker *c)
{
    const ThreadOp *op = c->op;
    if (op->imm < 0 || op->imm >= c->fn->unrolls.n) {
        BROKEN(c, "an unknown variable");
        return;
    }
    const char *name = c->fn->unrolls.at[op->imm];
    if (unroll_bound(c, name)) {
        BROKEN(c, "variable %s is bound by an enclosing region already", name);
        return;
    }
    if (!op->n) {
        BROKEN(c, "no iterations");
        return;
    }
    i64 copies = c->copies;
    c->copies = MIN(copies * op->n, MAX_EXPANDED + 1);
    c->trips[op->imm] = op->n;
    c->bound[c->nbound++] = op->imm;
    check_block(c, &op->body);
    c->nbound--;
    c->trips[op->imm] = 0;
    c->copies = copies;
}

// Roles divide the warps of the enclosing one; inside, participants are counted against it.
static void check_role(Checker *c)
{
    const ThreadOp *op = c->op;
    int first = c->first_warp, warps = c->warps;
    if (!op->n || op->imm < first || op->imm + op->n > first + warps) {
        BROKEN(c, "warps %d..%d are not within %d..%d", op->imm, op->imm + op->n, first,
               first + warps);
        return;
    }
    if (c->lane_if) BROKEN(c, "a role under an if that differs between lanes");
    c->first_warp = op->imm;
    c->warps = op->n;
    check_block(c, &op->body);
    c->first_warp = first;
    c->warps = warps;
}

// An if whose predicate may differ between lanes closes its body to collective operations.
static void check_if(Checker *c)
{
    const ThreadOp *op = c->op;
    if (!check_operands(c)) return;
    bool differs = !(op->flags & OPF_UNIFORM);
    c->lane_if += differs;
    check_block(c, &op->body);
    c->op = op;
    check_block(c, &op->other);
    c->lane_if -= differs;
}

// A guard on a region would leave open whether its head runs; `if` says it.
static void check_region(Checker *c)
{
    const ThreadOp *op = c->op;
    if (op->guard.kind != OPD_NONE) {
        rule(c, op->loc, "put an if around it", "a region takes no guard");
        return;
    }
    if (c->nesting >= MAX_NESTING) {
        BROKEN(c, "regions nest deeper than %d", MAX_NESTING);
        return;
    }
    c->nesting++;
    switch (op->op) {
    case OP_FOR: check_for(c); break;
    case OP_UNROLL: check_unroll(c); break;
    case OP_ROLE: check_role(c); break;
    default: check_if(c); break;
    }
    c->nesting--;
}

// Attribute, flags and types first: operand rules depend on them.
static void check_op(Checker *c, const ThreadOp *op)
{
    c->op = op;
    if (op->op >= OP_COUNT) {
        c->op = NULL;
        rule(c, op->loc, NULL, "unknown operation %d", op->op);
        return;
    }
    if (!check_attribute(c) || !check_flags(c) || !check_types(c)) return;
    if (thread_op[op->op].effect == EFF_CTRL && op->op != OP_EXIT) {
        check_region(c);
        return;
    }
    // Saturates like the copies: a million trips of a million must not wrap to something small.
    if (c->expanded <= MAX_EXPANDED) c->overflow = c->op->loc;
    c->expanded = MIN(c->expanded + c->copies, MAX_EXPANDED + 1);
    if (!check_operands(c) || !check_mems(c) || !check_single(c)) return;
    bool guarded = op->guard.kind != OPD_NONE;
    if (guarded && !check_register(c, &op->guard, "the guard", 1u << RC_PRED, 1)) return;
    if (is_collective(op->op) && (c->lane_if || guarded))
        rule(c, op->loc, "all lanes must come here: take it out, or mark the if `uniform`",
             "a collective operation under %s",
             guarded ? "a guard" : "an if or for that differs between lanes");
}

// Neighbouring roles divide the warps among them.
static void check_neighbours(Checker *c, const ThreadBlock *b, int i)
{
    const ThreadOp *op = b->at[i];
    for (int k = i - 1; k >= 0 && b->at[k]->op == OP_ROLE; k--) {
        const ThreadOp *other = b->at[k];
        if (op->imm >= other->imm + other->n || other->imm >= op->imm + op->n) continue;
        c->op = op;
        BROKEN(c, "warps %d..%d and %d..%d of neighbouring roles overlap", other->imm,
               other->imm + other->n, op->imm, op->imm + op->n);
    }
}

static void check_block(Checker *c, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->at[i]->op == OP_ROLE) check_neighbours(c, b, i);
        check_op(c, b->at[i]);
    }
}

// ---- declarations ------------------------------------------------------------------------------

// An identifier of PTX and of the text form.
static bool is_name(const char *s)
{
    if (!s || !*s || (*s >= '0' && *s <= '9')) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              *s == '_'))
            return false;
    return true;
}

// Strides are all given or none (row-major then).
static bool check_global(Checker *c, const ThreadBuffer *b)
{
    if (b->param < 0 || b->param >= c->fn->params.n || c->fn->params.at[b->param].kind != PARAM_PTR)
        return rule(c, b->loc, NULL, "buffer %s: its address must be a ptr parameter", b->name);
    for (int i = 0; i < b->rank; i++)
        if (!b->stride[i] != !b->stride[0])
            return rule(c, b->loc, NULL, "buffer %s: some strides are missing", b->name);
    return true;
}

// Placement in the arena. A swizzle XORs absolute address bits 4..6 with 7..9; tiles and slots
// that start at multiples of 1,024 see the same pattern as one that starts at 0.
static bool check_shared(Checker *c, const ThreadBuffer *b)
{
    i64 bytes = thread_buffer_bytes(b);
    int align = b->kind == BUF_MBAR ? 8 : b->layout == SL_ROW ? 16 : 1024;
    if (bytes < 0)
        return rule(c, b->loc, NULL, "buffer %s: extents must be positive constants", b->name);
    if (b->offset < 0 || b->offset % align)
        return rule(c, b->loc, NULL, "buffer %s: offset %lld is not a multiple of %d", b->name,
                    (long long)b->offset, align);
    if (b->offset + bytes > c->fn->smem_bytes)
        return rule(c, b->loc, NULL, "buffer %s ends at byte %lld of %lld", b->name,
                    (long long)(b->offset + bytes), (long long)c->fn->smem_bytes);
    if (b->kind == BUF_MBAR || b->layout == SL_ROW) return true;
    if (b->rank < 2)
        return rule(c, b->loc, NULL, "buffer %s: a swizzle needs two dimensions", b->name);
    i64 cols = b->dim[b->rank - 1]->value, row = cols * dtype_bytes[b->type];
    i64 tile = row * b->dim[b->rank - 2]->value;
    if (row % smem_layout[b->layout].span)
        return rule(c, b->loc, NULL, "buffer %s: rows of %lld bytes; %s needs a multiple of %d",
                    b->name, (long long)row, smem_layout[b->layout].name,
                    smem_layout[b->layout].span);
    if (tile != bytes && tile % 1024)
        return rule(c, b->loc, NULL,
                    "buffer %s: swizzled slots of %lld bytes; a multiple of 1024 is required",
                    b->name, (long long)tile);
    return true;
}

// Declarations are checked before any operation, whose rules index into them.
static void check_buffer(Checker *c, int i)
{
    const ThreadBuffer *b = &c->fn->buffers.at[i];
    bool good = true;
    if (!is_name(b->name) || b->rank < 0 || b->rank > 6 || b->kind > BUF_MBAR ||
        b->layout >= SL_COUNT || b->type >= DT_COUNT) {
        rule(c, b->loc, NULL, "buffer %d is malformed", i);
        return;
    }
    for (int k = 0; k < i; k++)
        if (strcmp(c->fn->buffers.at[k].name, b->name) == 0)
            rule(c, b->loc, NULL, "buffer %s is declared twice", b->name);
    for (int k = 0; k < b->rank; k++)
        if (!b->dim[k]) good = rule(c, b->loc, NULL, "buffer %s: extent %d is missing", b->name, k);
    if (!good || !(b->kind == BUF_GLOBAL ? check_global(c, b) : check_shared(c, b))) return;
    // Tiles may share bytes when their lifetimes do not meet; barriers live as long as the kernel.
    for (int k = 0; k < c->fn->buffers.n && b->kind == BUF_MBAR; k++) {
        const ThreadBuffer *o = &c->fn->buffers.at[k];
        i64 bytes = o->kind == BUF_GLOBAL || k == i ? -1 : thread_buffer_bytes(o);
        if (bytes < 0 || o->offset >= b->offset + thread_buffer_bytes(b) ||
            b->offset >= o->offset + bytes)
            continue;
        rule(c, b->loc, NULL, "barriers %s share bytes with %s", b->name, o->name);
    }
}

// Limits of the machine and of PTX; 192 bytes for a tensor map are its 128 and alignment to 64.
static void check_head(Checker *c)
{
    const ThreadFn *f = c->fn;
    Loc none = {0};
    if (!is_name(f->name)) rule(c, none, NULL, "the kernel's name is no identifier");
    if (f->threads < 32 || f->threads > MAX_THREADS || f->threads % 32)
        rule(c, none, NULL, "%d threads; a multiple of 32 in 32 to %d is required", f->threads,
             MAX_THREADS);
    if (f->maxnreg && (f->maxnreg < 24 || f->maxnreg > 255))
        rule(c, none, NULL, "maxnreg %d; 24 to 255 is required", f->maxnreg);
    if (f->min_ctas < 0 || f->min_ctas > 32)
        rule(c, none, NULL, "min_ctas %d; 1 to 32 is required", f->min_ctas);
    if (f->cluster < 1 || f->cluster > THREAD_MAX_CLUSTER)
        rule(c, none, NULL, "a cluster of %d; 1 to %d is required", f->cluster, THREAD_MAX_CLUSTER);
    if (f->smem_bytes < 0 || f->smem_bytes > MAX_SMEM)
        rule(c, none, "shrink tiles or slots", "%lld bytes of shared memory; at most %d exist",
             (long long)f->smem_bytes, MAX_SMEM);
    int bytes = 0;
    for (int i = 0; i < f->params.n; i++) {
        const ThreadParam *p = &f->params.at[i];
        if (!is_name(p->name) || p->kind > PARAM_TMAP) {
            rule(c, none, NULL, "parameter %d is malformed", i);
            continue;
        }
        if (map_get(c->param_named, p->name))
            rule(c, none, NULL, "parameter %s is declared twice", p->name);
        map_put(c->param_named, p->name, (void *)(intptr_t)(i + 1));
        bytes += p->kind == PARAM_TMAP ? 192 : 8;
    }
    if (bytes > MAX_PARAM_BYTES)
        rule(c, none, NULL, "the parameters need more than %d bytes", MAX_PARAM_BYTES);
    for (int i = 0; i < f->regs.n; i++) {
        const ThreadReg *r = &f->regs.at[i];
        if (!is_name(r->name) || r->class >= RC_COUNT || r->count < 1 || r->count > 1024) {
            rule(c, none, NULL, "register %d is malformed", i);
            continue;
        }
        if (map_get(c->reg_named, r->name))
            rule(c, none, NULL, "register %s is declared twice", r->name);
        map_put(c->reg_named, r->name, (void *)(intptr_t)(i + 1));
    }
}

// Structure, then addresses: the second walk relies on everything that the first proves.
static void check_fn(Checker *c, const ThreadFn *f)
{
    int before = c->errors;
    c->fn = f;
    c->op = NULL;
    c->reg_named = map_new(c->mod->arena);
    c->param_named = map_new(c->mod->arena);
    check_head(c);
    for (int i = 0; i < f->buffers.n; i++) check_buffer(c, i);
    if (c->errors != before) return; // operations would only repeat it
    c->trips = ARENA_ARRAY(c->mod->arena, i32, f->unrolls.n);
    c->first_warp = 0;
    c->warps = f->threads / 32;
    c->lane_if = c->nesting = 0;
    c->copies = 1;
    c->expanded = 0;
    check_block(c, &f->body);
    c->op = NULL;
    if (c->expanded > MAX_EXPANDED)
        rule(c, c->overflow, "use for instead of unroll", "more than %d operations after unrolling",
             MAX_EXPANDED);
    if (c->errors == before && !thread_check_addresses(c->mod, f, c->diag)) c->errors++;
}

// All kernels are checked, also behind a broken one.
bool thread_check(const ThreadModule *m, Diag *d)
{
    Checker c = {.mod = m, .diag = d};
    for (int i = 0; i < m->fns.n; i++) {
        for (int k = 0; k < i; k++)
            if (strcmp(m->fns.at[i]->name, m->fns.at[k]->name) == 0)
                rule(&c, (Loc){0}, NULL, "two kernels are named %s", m->fns.at[i]->name);
        check_fn(&c, m->fns.at[i]);
    }
    return c.errors == 0;
}
