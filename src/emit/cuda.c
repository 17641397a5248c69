// cuda.c - frame, control flow and the table of the CUDA printer (cuda.h).
//
// Unroll regions stay loops, under `#pragma unroll`: their bodies index arrays of registers, which
// the compiler takes apart. Loops of the program are kept from being unrolled, so that the code is
// that of the PTX. A comment with the text of the source line stands where the line changes.
#include "cuda_impl.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// ---- text ---------------------------------------------------------------------------------------

// By RegClass. Inline assembly has no constraint for predicates: they pass as 32-bit numbers.
const char *const cu_class[RC_COUNT] = {"bool", "uint16_t", "uint32_t", "uint64_t", "float"};
const char cu_constraint[RC_COUNT] = {'r', 'h', 'r', 'l', 'f'};

// All texts of the printer live in the arena of the module; none is freed.
const char *cu_text(Cuda *x, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(x->arena, fmt, ap);
    va_end(ap);
    return s;
}

static void indent(Cuda *x)
{
    for (int i = 0; i < x->depth; i++) buf_puts(x->out, "    ");
}

void cu_line(Cuda *x, const char *fmt, ...)
{
    indent(x);
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(x->out, fmt, ap);
    va_end(ap);
    buf_putc(x->out, '\n');
}

// Helpers stand in the file once, in the order of their first use.
bool cu_need(Cuda *x, const char *name)
{
    const char *key = intern(x->names, name);
    if (map_get(x->helpers_made, key)) return false;
    map_put(x->helpers_made, key, (void *)key);
    buf_putc(x->helpers, '\n');
    return true;
}

// Appends to the helpers, which stand before all kernels.
void cu_define(Cuda *x, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(x->helpers, fmt, ap);
    va_end(ap);
}

// ---- operands -----------------------------------------------------------------------------------

// "16 * b - h + 3": an affine position over unroll variables, which are C's loop variables.
const char *cu_index(Cuda *x, const Operand *o, i64 plus)
{
    Buf b = {0};
    for (int i = 0; i < o->nterms; i++) {
        const char *name = x->unroll_name[o->term[i].var];
        i32 c = o->term[i].coef;
        if (b.n || c < 0) buf_puts(&b, c < 0 ? (b.n ? " - " : "-") : " + ");
        if (c != 1 && c != -1) buf_printf(&b, "%lld * ", (long long)(c < 0 ? -(i64)c : c));
        buf_puts(&b, name);
    }
    i64 base = o->base + plus;
    if (!b.n) buf_printf(&b, "%lld", (long long)base);
    else if (base)
        buf_printf(&b, " %c %lld", base < 0 ? '-' : '+', (long long)(base < 0 ? -base : base));
    const char *s = arena_strndup(x->arena, b.s, b.n);
    buf_free(&b);
    return s;
}

// A predicate that is only ever one value is printed as that value and never declared, and a folded
// register as its expression.
const char *cu_element(Cuda *x, const Operand *o, int k)
{
    const CudaReg *r = &x->reg[o->reg];
    const char *name = r->text ? r->text : r->name;
    if (r->constant >= 0) name = r->constant ? "true" : "false";
    if (x->fn->regs.at[o->reg].count > 1)
        name = cu_text(x, "%s[%s]", name, cu_index(x, o, k));
    return o->negate ? cu_text(x, "!%s", name) : name;
}

// Arrays decay to a pointer; a single register needs its address.
const char *cu_start(Cuda *x, const Operand *o)
{
    const char *name = x->reg[o->reg].name;
    if (x->fn->regs.at[o->reg].count == 1) return cu_text(x, "&%s", name);
    if (!o->nterms && !o->base) return name;
    return cu_text(x, "%s + %s", name, cu_index(x, o, 0));
}

// Nine significant digits give back every float; what is not finite goes by its bits.
static const char *float_text(Cuda *x, u32 bits)
{
    float f = f32_of_bits(bits);
    if (!isfinite(f)) return cu_text(x, "__uint_as_float(0x%08xu)", bits);
    const char *s = cu_text(x, "%.9g", (double)f);
    return cu_text(x, "%s%s", s, strpbrk(s, ".e") ? "f" : ".0f");
}

// A position over unroll variables, which are of C's int, as unsigned bits: where it may be
// negative that takes a cast, or shifts and conversions would take it for a signed number.
static const char *affine_text(Cuda *x, const Operand *o, RegClass class)
{
    bool negative = o->base < 0, name = o->nterms == 1 && o->term[0].coef == 1 && !o->base;
    for (int i = 0; i < o->nterms; i++) negative |= o->term[i].coef < 0;
    const char *cast = !negative ? "" : class == RC_B64 ? "(uint64_t)" : "(uint32_t)";
    return cu_text(x, name ? "%s%s" : "%s(%s)", cast, cu_index(x, o, 0));
}

// An integer that the class holds, as unsigned bits.
static const char *integer_text(Cuda *x, const Operand *o, RegClass class)
{
    if (o->nterms) return affine_text(x, o, class);
    i64 v = o->base;
    if (class == RC_PRED) return v ? "true" : "false";
    if (v >= 0 && v <= INT32_MAX) return cu_text(x, "%lld", (long long)v);
    if (class == RC_B64) return cu_text(x, "0x%llxull", (unsigned long long)v);
    return cu_text(x, "0x%xu", class == RC_B16 ? (u32)(u16)v : (u32)v);
}

// Bit operations may name a float register: its bits are meant.
const char *cu_src(Cuda *x, const Operand *o, ThreadType t)
{
    RegClass class = thread_type_class[t];
    if (o->kind == OPD_FIMM) return float_text(x, (u32)o->base);
    if (o->kind == OPD_IMM) return integer_text(x, o, class);
    const char *s = cu_element(x, o, 0);
    bool bits = class == RC_B32 && x->fn->regs.at[o->reg].class == RC_F32;
    return bits ? cu_text(x, "__float_as_uint(%s)", s) : s;
}

// A cast for registers, plain numbers where they fit; the lowest of a type has no plain literal in
// C.
const char *cu_signed(Cuda *x, const Operand *o, ThreadType t)
{
    RegClass class = thread_type_class[t];
    const char *type = class == RC_B64 ? "int64_t" : class == RC_B16 ? "(int)(int16_t" : "int";
    const char *close = class == RC_B16 ? ")" : "";
    if (o->kind == OPD_IMM && o->nterms) return cu_text(x, "(%s)", cu_index(x, o, 0));
    if (o->kind == OPD_IMM) {
        i64 v = class == RC_B64 ? o->base : class == RC_B16 ? (int16_t)o->base : (i32)o->base;
        if (v >= 0 && v <= INT32_MAX) return cu_text(x, "%lld", (long long)v);
        if (v < 0 && v > INT32_MIN) return cu_text(x, "(%lld)", (long long)v);
        return cu_text(x, "(%s)%s", class == RC_B64 ? "int64_t" : "int", integer_text(x, o, class));
    }
    if (class == RC_B16) return cu_text(x, "%s)%s", type, cu_src(x, o, t));
    return cu_text(x, "(%s)%s%s", type, cu_src(x, o, t), close);
}

// Both parts are 32 bits (shared) or 64 (global), so the sum wraps as the machine's does.
const char *cu_address(Cuda *x, const Operand *o)
{
    const char *base = cu_element(x, &o[0], 0);
    if (!o[1].nterms && !o[1].base) return base;
    const char *offset = cu_index(x, &o[1], 0);
    if (!o[1].nterms && o[1].base < 0) return cu_text(x, "%s - %lld", base, (long long)-o[1].base);
    return cu_text(x, o[1].base < 0 || *offset == '-' ? "%s + (%s)" : "%s + %s", base, offset);
}

// ---- statements ---------------------------------------------------------------------------------

// A coordinate without the sigils of registers and unroll variables.
static void put_coordinate(Buf *out, const Expr *e)
{
    Buf b = {0};
    expr_print(e, &b);
    for (size_t i = 0; i < b.n; i++) {
        bool sigil =
            (b.s[i] == '%' || b.s[i] == '$') && (isalpha((u8)b.s[i + 1]) || b.s[i + 1] == '_');
        if (!sigil) buf_putc(out, b.s[i]);
    }
    buf_free(&b);
}

// What the addresses of the operation mean, and the end of the line.
static void end_statement(Cuda *x, const CudaStmt *s)
{
    buf_putc(x->out, ';');
    for (int i = 0; i < s->op.nmem; i++) {
        const MemRef *m = &s->op.mem[i];
        buf_printf(x->out, "%s%s(", i ? ", " : " // ", x->fn->buffers.at[m->buffer].name);
        for (int k = 0; k < m->ncoord; k++) {
            if (k) buf_puts(x->out, ", ");
            put_coordinate(x->out, m->coord[k]);
        }
        buf_putc(x->out, ')');
    }
    buf_putc(x->out, '\n');
}

// `set`: the statement gives the register its only value, so it can be const.
static const char *declaration(Cuda *x, int reg, bool set)
{
    const CudaReg *r = &x->reg[reg];
    const ThreadReg *t = &x->fn->regs.at[reg];
    const char *array = t->count > 1 ? cu_text(x, "[%d]", t->count) : "";
    return cu_text(x, "%s%s%s %s%s", r->reads ? "" : "[[maybe_unused]] ",
                     set && r->writes == 1 ? "const " : "", cu_class[t->class], r->name, array);
}

// Index of the bracket that closes the one at `s`, or of the end.
static int closing(const char *s)
{
    int depth = 0, i = 0;
    for (; s[i]; i++) {
        depth += (s[i] == '(' || s[i] == '[') - (s[i] == ')' || s[i] == ']');
        if (!depth) break;
    }
    return i;
}

// Expressions come with brackets, which the whole right side and arguments of calls do not need:
// those between '(' or ", " on the left and ')' or ',' or the end on the right are left out.
static const char *tidy(Cuda *x, const char *text)
{
    size_t n = strlen(text), to = 0;
    char *out = arena_strndup(x->arena, text, n), *drop = ARENA_ARRAY(x->arena, char, n + 1);
    memset(drop, 0, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool left = !i || text[i - 1] == '(' || (i > 1 && text[i - 1] == ' ' && text[i - 2] == ',');
        if (text[i] != '(' || !left) continue;
        size_t end = i + (size_t)closing(text + i);
        if (end >= n || (text[end + 1] && text[end + 1] != ')' && text[end + 1] != ',')) continue;
        drop[i] = drop[end] = 1;
    }
    for (size_t i = 0; i < n; i++)
        if (!drop[i]) out[to++] = text[i];
    out[to] = 0;
    return out;
}

// A text that stays whole as an operand: a name, a number, one call.
static bool is_whole(const char *s)
{
    while (isalnum((u8)*s) || *s == '_' || *s == '.') s++;
    if (!*s) return true;
    int end = closing(s);
    return (*s == '(' || *s == '[') && s[end] && !s[end + 1];
}

// The value of a folded register: a number gets the type of its register, an expression brackets.
static void keep_text(Cuda *x, int reg, const char *text)
{
    RegClass class = (RegClass)x->fn->regs.at[reg].class;
    if (!text[strspn(text, "0123456789")])
        text = cu_text(x, class == RC_B64 ? "%sull" : "%su", text);
    x->reg[reg].text = is_whole(text) ? text : cu_text(x, "(%s)", text);
}

// A value of bit class that goes to a float register is reinterpreted, never converted; loads do
// that by their type already.
void cu_assign(Cuda *x, const CudaStmt *s, const char *fmt, ...)
{
    const Operand *d = &s->op.opnd[0];
    bool float_of_bits = x->fn->regs.at[d->reg].class == RC_F32 &&
                         thread_type_class[s->op.type] == RC_B32 && s->op.op != OP_LDS &&
                         s->op.op != OP_LDG;
    va_list ap;
    va_start(ap, fmt);
    const char *value = arena_vprintf(x->arena, fmt, ap);
    va_end(ap);
    if (float_of_bits) value = cu_text(x, "__uint_as_float(%s)", value);
    value = tidy(x, value);
    if (s->folded) {
        keep_text(x, d->reg, value);
        return;
    }
    CudaReg *r = &x->reg[d->reg];
    r->text = NULL; // the value before was folded into this one
    indent(x);
    if (x->pending == d->reg || r->late) {
        buf_puts(x->out, declaration(x, d->reg, true));
        x->pending = -1;
        r->late = false;
    } else {
        buf_puts(x->out, cu_element(x, d, 0));
    }
    buf_printf(x->out, " = %s", value);
    end_statement(x, s);
}

// A statement without a result of its own: stores, copies, barriers, loads of vectors.
void cu_call(Cuda *x, const CudaStmt *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(x->arena, fmt, ap);
    va_end(ap);
    indent(x);
    buf_puts(x->out, tidy(x, text));
    end_statement(x, s);
}

// ---- the table ----------------------------------------------------------------------------------

// One row per operation of ops.h. An operation without a row here does not compile (see below).
#define CUDA_ROWS(X)                                                                             \
    X(MOV, cu_mov) X(ADD, cu_add) X(SUB, cu_add) X(MUL, cu_multiply)                     \
    X(MULWIDE, cu_mulwide) X(MAD, cu_multiply) X(DIV, cu_divide) X(REM, cu_divide)       \
    X(MIN, cu_minmax) X(MAX, cu_minmax) X(NEG, cu_neg) X(ABS, cu_abs)                    \
    X(AND, cu_bitwise) X(OR, cu_bitwise) X(XOR, cu_bitwise) X(NOT, cu_not)               \
    X(SHL, cu_shift) X(SHR, cu_shift) X(EX2, cu_asm) X(LG2, cu_asm) X(RCP, cu_asm)     \
    X(RSQRT, cu_asm) X(SQRT, cu_sqrt) X(TANH, cu_asm) X(SETP, cu_setp)                   \
    X(SELP, cu_selp) X(CVT, cu_cvt) X(CVTPACK, cu_cvtpack) X(PACK, cu_pack)              \
    X(UNPACK, cu_unpack) X(SHFL, cu_shfl) X(VOTE, cu_vote)                                   \
    X(LDPARAM, cu_ldparam) X(LDS, cu_load) X(STS, cu_store) X(LDG, cu_load)              \
    X(STG, cu_store) X(PRINT_ARG, cu_print_arg) X(PRINT, cu_print_text)                        \
    X(ATOMS, cu_atomic) X(ATOMG, cu_atomic) X(CASS, cu_atomic)             \
    X(CASG, cu_atomic) X(MEMBAR_GPU, cu_asm) X(LDMATRIX, cu_matrix_load)                  \
    X(STMATRIX, cu_matrix_store)                                                             \
    X(CPASYNC, cu_cpasync) X(CPASYNC_COMMIT, cu_asm) X(CPASYNC_WAIT, cu_asm)               \
    X(CPASYNC_ARRIVE, cu_asm) X(TMA_LOAD, cu_tma_load) X(TMA_STORE, cu_tma_store)          \
    X(TMA_PREFETCH, cu_tma_prefetch) X(BULK_COMMIT, cu_asm) X(BULK_WAIT, cu_asm)           \
    X(BULK_WAIT_READ, cu_asm) X(MBAR_INIT, cu_asm) X(MBAR_ARRIVE, cu_asm)                  \
    X(MBAR_ARRIVE_EXPECT, cu_asm) X(MBAR_EXPECT, cu_asm) X(MBAR_WAIT, cu_mbar_wait)        \
    X(MBAR_ARRIVE_CLUSTER, cu_mbar_arrive_cluster) X(BAR_CLUSTER, cu_asm)                    \
    X(FENCE_PROXY, cu_asm) X(FENCE_MBAR_INIT, cu_asm) X(MEMBAR, cu_asm)                    \
    X(BAR_SYNC, cu_asm) X(BAR_ARRIVE, cu_asm) X(BAR_WARP, cu_asm) X(PIN, cu_pin)                   \
    X(DELAY, cu_delay) X(CLOCK, cu_clock)                                                    \
    X(WGMMA_FENCE, cu_wgmma_fence) X(WGMMA_SS, cu_wgmma) X(WGMMA_RS, cu_wgmma)             \
    X(WGMMA_COMMIT, cu_asm) X(WGMMA_WAIT, cu_wgmma_wait) X(SETMAXNREG_INC, cu_asm)         \
    X(SETMAXNREG_DEC, cu_asm) X(EXIT, cu_exit)                                               \
    X(FOR, cu_for) X(UNROLL, cu_unroll) X(IF, cu_if) X(ROLE, cu_role)

enum {
#define X(id, handler) CUDA_ROW_##id,
    CUDA_ROWS(X)
#undef X
};
static CudaHandler *const row_handler[] = {
#define X(id, handler) handler,
    CUDA_ROWS(X)
#undef X
};
// From an operation to its row: a name that CUDA_ROWS lacks is an error of the compiler.
static const u8 row_of[OP_COUNT] = {
#define X(id, name, sig, types, effect, scope, ptx, form) [OP_##id] = CUDA_ROW_##id,
    THREAD_OPS(X)
#undef X
};

// ---- blocks -------------------------------------------------------------------------------------

// The source line as a comment when it changes. What could end or continue the comment is left out.
static void source_comment(Cuda *x, Loc loc)
{
    if (!loc.line || loc.line == x->last_line) return;
    x->last_line = loc.line;
    const char *slash = strrchr(x->source->path, '/');
    indent(x);
    buf_puts(x->out, "// ");
    for (const char *c = slash ? slash + 1 : x->source->path; *c; c++)
        buf_putc(x->out, (u8)*c < 32 || *c == '\\' ? '?' : *c);
    buf_printf(x->out, ":%u", loc.line);
    if ((int)loc.line <= x->nlines) {
        const char *s = x->source->text + x->line_start[loc.line - 1];
        const char *end = x->source->text + x->line_start[loc.line];
        while (s < end && isspace((u8)*s)) s++;
        while (end > s && (isspace((u8)end[-1]) || end[-1] == '\\')) end--;
        if (s < end) buf_puts(x->out, ": ");
        for (; s < end; s++) buf_putc(x->out, (u8)*s < 32 || *s == 127 ? ' ' : *s);
    }
    buf_putc(x->out, '\n');
}


typedef struct {
    int reg;
    bool found;
} Search;

static void search_read(void *ctx, const Operand *o, bool write)
{
    Search *s = ctx;
    s->found |= !write && o->reg == s->reg;
}

// Can the statement declare its destination, as "float v = ..."?
static bool declares_itself(const Cuda *x, const CudaStmt *s, int reg)
{
    const char *sig = thread_op[s->op.op].sig;
    // Operations with exactly one result; vector loads write through references and need the names
    // first.
    bool one = (sig[0] == 'd' && sig[1] != 'd') || sig[0] == 'P' ||
               ((s->op.op == OP_LDS || s->op.op == OP_LDG) && s->op.n == 1);
    if (!one || s->op.opnd[0].reg != reg || x->fn->regs.at[reg].count != 1) return false;
    Search search = {reg, false};
    cu_visit(s, search_read, &search);
    return !search.found;
}

// Declares the registers that live in `b` and are used first by statement `i`.
static void declare(Cuda *x, CudaBlock *b, int i)
{
    const CudaStmt *s = &b->stmts.at[i];
    x->pending = -1;
    for (; b->declared < b->declares.n; b->declared++) {
        int reg = b->declares.at[b->declared];
        // Sorted by first use, so the next one is the only candidate.
        if (x->reg[reg].first != i) break;
        if (x->reg[reg].constant >= 0 || (s->folded && reg == s->op.opnd[0].reg)) continue;
        if (declares_itself(x, s, reg)) x->pending = reg;
        else if (x->fn->regs.at[reg].count > 1) cu_line(x, "%s;", declaration(x, reg, false));
        else cu_line(x, "%s = 0;", declaration(x, reg, false)); // its value comes later
    }
}

// The move that sets a constant predicate: it is printed where it is used instead (cu_element).
static bool is_constant_move(const Cuda *x, const CudaStmt *s)
{
    return s->op.op == OP_MOV && x->reg[s->op.opnd[0].reg].constant >= 0;
}

// Declarations come directly before the statement that uses them first, so that a reader finds type
// and value in one place.
static void print_block(Cuda *x, CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        const CudaStmt *s = &b->stmts.at[i];
        if (!is_constant_move(x, s)) source_comment(x, s->op.loc);
        declare(x, b, i);
        if (!is_constant_move(x, s)) row_handler[row_of[s->op.op]](x, s);
    }
}

// One level of indentation deeper; the braces are the caller's.
static void print_body(Cuda *x, CudaBlock *b)
{
    x->depth++;
    print_block(x, b);
    x->depth--;
}

// The bounds are read again in each round, as in the thread IR.
void cu_for(Cuda *x, const CudaStmt *s)
{
    const Operand *o = s->op.opnd;
    const char *k = cu_element(x, &o[0], 0);
    // The variable is declared in the loop's head when nothing outside of the loop reads it.
    bool own = x->reg[o[0].reg].home == s->body->parent && x->fn->regs.at[o[0].reg].count == 1;
    cu_line(x, "#pragma unroll 1");
    cu_line(x, "for (%s%s = %s; (int)%s < %s; %s += %lld) {", own ? "uint32_t " : "", k,
              cu_src(x, &o[1], TT_U32), k, cu_signed(x, &o[2], TT_S32), k, (long long)o[3].base);
    print_body(x, s->body);
    cu_line(x, "}");
}

// Constant bounds and `#pragma unroll`: every index of an array becomes a constant, without which
// the array would be put into memory.
void cu_unroll(Cuda *x, const CudaStmt *s)
{
    const char *name = x->unroll_name[s->op.imm];
    cu_line(x, "#pragma unroll");
    cu_line(x, "for (int %s = 0; %s < %d; %s++) {", name, name, s->op.n, name);
    print_body(x, s->body);
    cu_line(x, "}");
    cu_print_hold(x, s);
}

void cu_if(Cuda *x, const CudaStmt *s)
{
    cu_line(x, "%s {", tidy(x, cu_text(x, "if (%s)", cu_element(x, &s->op.opnd[0], 0))));
    print_body(x, s->body);
    if (s->other) {
        cu_line(x, "} else {");
        print_body(x, s->other);
    }
    cu_line(x, "}");
}

// `warp` is equal in all lanes, so the branch splits no warp.
void cu_role(Cuda *x, const CudaStmt *s)
{
    if (cu_whole_role(x->fn, &s->op)) {
        cu_line(x, "{");
    } else {
        x->uses_warp = true;
        const char *from = s->op.imm ? cu_text(x, " - %du", s->op.imm) : "";
        cu_line(x, "if (warp%s < %du) { // warps %d to %d", from, s->op.n, s->op.imm,
                  s->op.imm + s->op.n - 1);
    }
    print_body(x, s->body);
    cu_line(x, "}");
}

// A thread that leaves must not be waited for by a barrier behind it.
void cu_exit(Cuda *x, const CudaStmt *s)
{
    (void)s;
    cu_line(x, "return;");
}

// ---- one kernel ---------------------------------------------------------------------------------

static bool has_op(const ThreadBlock *b, ThreadOpcode op)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i]->op == op || has_op(&b->at[i]->body, op) || has_op(&b->at[i]->other, op))
            return true;
    return false;
}

// How many registers a thread may have. CUDA takes either a count or the number of CTAs that share
// a multiprocessor, not both, and setmaxnreg is ignored without one of them.
static void print_bounds(const ThreadFn *f, Buf *out)
{
    int ctas = MAX(f->min_ctas, 1), share = MIN(65536 / (f->threads * ctas), 255) / 8 * 8;
    bool moves = has_op(&f->body, OP_SETMAXNREG_DEC) || has_op(&f->body, OP_SETMAXNREG_INC);
    bool follows =
        share == f->maxnreg && share < 248; // the count that the CTAs leave to each thread
    if (f->maxnreg && !follows && f->maxnreg <= share) {
        buf_printf(out, "__maxnreg__(%d) // threads: %d", f->maxnreg, f->threads);
        return;
    }
    buf_printf(out, "__launch_bounds__(%d", f->threads);
    if (f->min_ctas || f->maxnreg || moves) buf_printf(out, ", %d", ctas);
    buf_putc(out, ')');
}

// `extern "C"` keeps the name that the plan launches by; tensor maps stay in the kernel's
// parameters (__grid_constant__), where the TMA unit reads them.
static void print_signature(Cuda *x, Buf *out)
{
    static const char *const type[] = {
        [PARAM_PTR] = "void *", [PARAM_S32] = "int32_t ", [PARAM_S64] = "int64_t ",
        [PARAM_F32] = "float ", [PARAM_TMAP] = "const __grid_constant__ CUtensorMap "};
    const ThreadFn *f = x->fn;
    buf_puts(out, "\nextern \"C\" __global__ void ");
    if (f->cluster > 1) buf_printf(out, "__cluster_dims__(%d, 1, 1) ", f->cluster);
    print_bounds(f, out);
    buf_printf(out, "\n%s(", f->name);
    for (int i = 0; i < f->params.n; i++)
        buf_printf(out, "%s\n    %s%s", i ? "," : "", type[f->params.at[i].kind], x->param_name[i]);
    buf_puts(out, ")\n{\n");
}

// What the body turned out to need; a cache policy is a 64-bit value that an instruction makes.
static void print_prologue(Cuda *x, Buf *out)
{
    if (x->uses_warp) // from lane 0, so that the assembler knows that it is equal in all lanes
        buf_puts(out,
                 "    const uint32_t warp = __shfl_sync(0xffffffffu, threadIdx.x / 32u, 0);\n");
    static const char *const hint[] = {"evict_first", "evict_last"};
    for (int i = 0; i < 2; i++) {
        if (!(i ? x->policy_last : x->policy_first)) continue;
        const char *name = cu_text(x, "ptx_%s", hint[i]);
        if (cu_need(x, name))
            cu_define(x, CUDA_FUNCTION "uint64_t %s()\n{\n    uint64_t d;\n"
                        "    asm(\"createpolicy.fractional.L2::%s.b64 %%0, 1.0;\" : \"=l\"(d));\n"
                        "    return d;\n}\n", name, hint[i]);
        buf_printf(out, "    const uint64_t %s = %s();\n", hint[i], name);
    }
}

// The register that is given the thread's index at the kernel's entry and nothing else.
static void find_tid(Cuda *x)
{
    x->tid = -1;
    for (int i = 0; i < x->fn->body.n; i++) {
        const ThreadOp *op = x->fn->body.at[i];
        if (op->op == OP_MOV && op->opnd[1].kind == OPD_SREG && op->opnd[1].reg == SR_TID &&
            x->reg[op->opnd[0].reg].writes == 1)
            x->tid = op->opnd[0].reg;
    }
}

// The order matters: the tree decides where registers live, names need the tree's list, the
// analysis of products needs both, and only printing shows what the prologue must define.
void cu_kernel(Cuda *x, const ThreadFn *f, Buf *out)
{
    Buf body = {0};
    x->fn = f;
    x->out = &body;
    x->depth = 0;
    x->last_line = 0;
    x->uses_warp = x->policy_first = x->policy_last = false;
    CudaBlock *tree = cu_tree(x);
    find_tid(x);
    cu_name_kernel(x, tree);
    cu_find_held(x, tree);
    cu_find_folded(x, tree);
    print_body(x, tree);
    print_signature(x, out);
    print_prologue(x, out);
    buf_write(out, body.s ? body.s : "", body.n);
    buf_puts(out, "}\n");
    buf_free(&body);
}
