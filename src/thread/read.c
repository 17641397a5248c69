// read.c - text to thread IR: the inverse of print.c. The text is trusted to be nothing: every
// name, number and count is bounded, nesting too, and each error says where, what was found and
// what to write. What is read still has to pass thread_check.
//
//   module   = { "source" (string | "none") } { kernel }
//   kernel   = "kernel" name { decl } "{" { op } "}"
//   decl     = ("threads" | "maxnreg" | "min_ctas" | "cluster" | "smem") int
//            | "param" ("ptr" | "s32" | "s64" | "f32" | "tmap") name
//            | "shared" name ":" type "[" exprs "]" layout "@" int
//            | "global" name ":" type "[" exprs "]" "param" name ["stride" "[" exprs "]"]
//            | "mbar" name "[" exprs "]" "@" int
//            | "reg" class name ["[" int "]"] { "," name ["[" int "]"] }
//   op       = ["@" ["!"] register] name { "." suffix } operands [";" memref {"," memref}] [place]
//            | "for" register "=" operand "to" operand "step" int [place] block
//            | "if" ["." "uniform"] ["!"] register ["uniform"] [place] block ["else" block]
//            | "unroll" name int [place] block | "role" int ".." int [place] block
//   operand  = ["!"] register | affine | float | special | parameter
//            | "[" register ["+" affine] "]" | "{" operand {"," operand} "}"
//   register = "%" name ["[" affine [":" affine] "]"]
//   affine   = sum of int, int "*" var, var;  var = ["$"] name of an enclosing unroll
//   memref   = buffer "(" [exprs] ")"        place = "!" file ":" line ":" column
// Comments run from # or // to the end of the line. An operation ends at the end of its line or at
// a closing brace. Without any `source` line the operations are placed in this text itself.
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_NESTING = 64,         // regions; bounds the recursion
    MAX_OPS = 1 << 20,        // of a module, before unrolling
    MAX_DECLARED = 1 << 16,   // registers, buffers, parameters of a kernel, each
    MAX_OPERANDS = 16,        // of one operation; tma.load with five coordinates has ten
    MAX_TEXT = 64 << 20,      // bytes
};

typedef struct {
    Arena *arena;
    ThreadModule *mod;           // being built
    Diag *diag;                  // of the caller; every error goes there
    u16 file;                    // Diag index of this text
    const char *at, *line_start; // the text ends in NUL
    u32 line;                 // from 1
    bool explicit_places;     // a `source` line was seen
    VEC(u16) sources;         // Diag index per number in the text
    ThreadFn *fn;                 // kernel being read, the last of mod->fns
    Map *regs, *buffers, *params; // name -> index + 1
    struct {
        const char *name;
        int var;
    } scope[MAX_NESTING];     // unroll variables in force, innermost last
    int nscope, nesting, nops; // entries of scope; open regions; operations so far
    bool failed;              // in the current line
    int errors;
} Reader;

// ---- cursor ------------------------------------------------------------------------------------

// The place of the cursor in this text; a column beyond 65535 stays there.
static Loc here(const Reader *r)
{
    return (Loc){r->file, (u16)MIN(r->at - r->line_start + 1, 65535), r->line};
}

// Reports at the cursor, once a line.
static bool fail(Reader *r, const char *hint, const char *fmt, ...) PRINTF_LIKE(3, 4);
static bool fail(Reader *r, const char *hint, const char *fmt, ...)
{
    if (r->failed) return false;
    r->failed = true;
    r->errors++;
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    diag_error(r->diag, here(r), hint, "thread IR: %s", text);
    return false;
}

static void skip_blanks(Reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    if (*r->at == '#' || (r->at[0] == '/' && r->at[1] == '/'))
        while (*r->at && *r->at != '\n') r->at++;
}

// Blanks, comments and line ends.
static void skip_lines(Reader *r)
{
    for (;;) {
        skip_blanks(r);
        if (*r->at != '\n') return;
        r->at++;
        r->line++;
        r->line_start = r->at;
    }
}

// Recovery: the newline itself stays, for skip_lines to count.
static void skip_rest_of_line(Reader *r)
{
    while (*r->at && *r->at != '\n') r->at++;
}

// What stands at the cursor, for messages: a word or one character, at most 20 bytes.
static const char *found(Reader *r)
{
    size_t n = 0;
    while (n < 20 && (u8)r->at[n] > ' ' && (u8)r->at[n] < 127) n++;
    if (!n) return *r->at && *r->at != '\n' ? "a strange character" : "the end of the line";
    return arena_printf(r->arena, "'%.*s'", (int)n, r->at);
}

// Names of the text form are PTX identifiers without $ and %, which are sigils here.
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Consumes `text` when it stands at the cursor (blanks before it skipped) and, being a word, ends
// there: "param" does not accept the beginning of "params".
static bool accept(Reader *r, const char *text)
{
    skip_blanks(r);
    size_t n = strlen(text);
    if (strncmp(r->at, text, n) != 0) return false;
    if (is_letter(text[0]) && (is_letter(r->at[n]) || is_digit(r->at[n]))) return false;
    r->at += n;
    return true;
}

// As accept, but reports when something else stands there. Always returns the outcome, so that
// productions are chains of &&.
static bool expect(Reader *r, const char *text)
{
    return accept(r, text) || fail(r, NULL, "%s found where '%s' must stand", found(r), text);
}

// name = letter { letter | digit }; interned, NULL after an error.
static const char *read_name(Reader *r, const char *what)
{
    skip_blanks(r);
    size_t n = 0;
    if (is_letter(*r->at))
        while (is_letter(r->at[n]) || is_digit(r->at[n])) n++;
    if (!n || n > 200) {
        fail(r, NULL, "%s found where %s must stand", found(r), what);
        return NULL;
    }
    const char *name = intern_n(expr_pool_names(r->mod->exprs), r->at, n);
    r->at += n;
    return name;
}

// int = ["-"] (digit {digit} | "0x" hexdigit {hexdigit}), within [lo, hi]. A hexadecimal number of
// 64 bits is taken as the bit pattern of the result.
static bool read_int(Reader *r, i64 lo, i64 hi, i64 *out)
{
    skip_blanks(r);
    bool negative = *r->at == '-';
    const char *s = r->at + negative;
    u64 v = 0, base = 10;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
        base = 16;
        s += 2;
    }
    const char *start = s;
    for (;; s++) {
        u64 digit = is_digit(*s)                ? (u64)(*s - '0')
                    : *s >= 'a' && *s <= 'f' ? (u64)(*s - 'a' + 10)
                                             : 99;
        if (digit >= base) break;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v))
            return fail(r, NULL, "the number %s does not fit 64 bits", found(r));
    }
    if (s == start) return fail(r, NULL, "%s found where a number must stand", found(r));
    // Hexadecimal numbers are bit patterns: the top bit may be set.
    if (v > (u64)INT64_MAX + (negative ? 1 : 0) && (base == 10 || negative))
        return fail(r, NULL, "the number %s does not fit 64 bits", found(r));
    *out = negative ? (i64)(0 - v) : (i64)v;
    if (*out < lo || *out > hi)
        return fail(r, NULL, "the number %lld is not within %lld to %lld", (long long)*out,
                    (long long)lo, (long long)hi);
    r->at = s;
    return true;
}

// The caller's bounds must fit an int.
static bool read_int32(Reader *r, i64 lo, i64 hi, int *out)
{
    i64 v;
    if (!read_int(r, lo, hi, &v)) return false;
    *out = (int)v;
    return true;
}

// An expression in the grammar of base/expr.h; its variables are checked later, by thread_check.
static const Expr *read_expr(Reader *r)
{
    skip_blanks(r);
    const char *err = NULL;
    const Expr *e = expr_read(r->mod->exprs, &r->at, &err);
    if (!e) fail(r, NULL, "%s", err);
    return e;
}

// "[" or "(" expr {"," expr} "]" or ")"; at most six.
static bool read_exprs(Reader *r, const char *open, const char *close, const Expr **e, int *n)
{
    *n = 0;
    if (!expect(r, open)) return false;
    if (accept(r, close)) return true;
    do {
        if (*n == 6) return fail(r, NULL, "more than six dimensions");
        const Expr *x = read_expr(r);
        if (!x) return false;
        e[(*n)++] = x;
    } while (accept(r, ","));
    return expect(r, close);
}

// Index of a declared name, -1 when there is none; maps hold index + 1, since NULL means absent.
static int lookup(const Map *m, const char *name) { return (int)(intptr_t)map_get(m, name) - 1; }

// Places: "!" file ":" line ":" column. Without one the place is the text's own, unless the text
// says where it came from.
static bool read_place(Reader *r, Loc own, Loc *out)
{
    int file, line, col;
    *out = r->explicit_places ? (Loc){0} : own;
    if (!accept(r, "!")) return true;
    if (!read_int32(r, 0, r->sources.n, &file) || !expect(r, ":") ||
        !read_int32(r, 0, INT32_MAX, &line) || !expect(r, ":") || !read_int32(r, 0, 65535, &col))
        return false;
    *out = (Loc){file ? r->sources.at[file - 1] : 0, (u16)col, (u32)line};
    return true;
}

// ---- operands ----------------------------------------------------------------------------------

// Variable of an enclosing unroll, or -1 without moving.
// The innermost region wins, though thread_check refuses to bind a name twice.
static int accept_variable(Reader *r, bool need_sigil)
{
    skip_blanks(r);
    const char *s = r->at + (*r->at == '$');
    if ((need_sigil && s == r->at) || !is_letter(*s)) return -1;
    size_t n = 0;
    while (is_letter(s[n]) || is_digit(s[n])) n++;
    const char *name = intern_n(expr_pool_names(r->mod->exprs), s, n);
    for (int i = r->nscope - 1; i >= 0; i--) {
        if (r->scope[i].name != name) continue;
        r->at = s + n;
        return r->scope[i].var;
    }
    return -1;
}

// o += coef * var, or coef alone when var is -1. Keeps the form that the builder makes: one term
// per variable, none with factor 0, so that printing and reading give equal operands.
static bool add_term(Reader *r, Operand *o, i64 coef, int var)
{
    if (var < 0) {
        if (__builtin_add_overflow(o->base, coef, &o->base))
            return fail(r, NULL, "an index does not fit 64 bits");
        return true;
    }
    int i = 0;
    while (i < o->nterms && o->term[i].var != var) i++;
    if (i < o->nterms) coef += o->term[i].coef;
    if (coef > INT32_MAX || coef < INT32_MIN)
        return fail(r, NULL, "the factor %lld of a variable does not fit 32 bits", (long long)coef);
    if (i == INDEX_TERMS) return fail(r, NULL, "more than %d variables in an index", INDEX_TERMS);
    if (i == o->nterms) o->nterms++;
    o->term[i] = (IndexTerm){(u16)var, (i32)coef};
    if (coef == 0) {
        memmove(&o->term[i], &o->term[i + 1], sizeof o->term[0] * (size_t)(o->nterms - i - 1));
        o->nterms--;
        o->term[o->nterms] = (IndexTerm){0};
    }
    return true;
}

// Adds an affine expression to base and terms of `o`.
//   affine = term { ("+" | "-") term }      term = int ["*" var] | var ["*" int]
static bool read_affine(Reader *r, Operand *o)
{
    for (bool first = true;; first = false) {
        skip_blanks(r);
        bool minus = *r->at == '-';
        if (!first && !minus && *r->at != '+') return true;
        if (minus || *r->at == '+') r->at++;
        i64 coef = 1;
        int var = accept_variable(r, false);
        bool need_number = var < 0, negative_number = false;
        if (need_number || accept(r, "*")) {
            skip_blanks(r);
            if (minus && is_digit(*r->at)) { // keeps -2^63 in range
                r->at--;
                if (*r->at != '-') return fail(r, NULL, "a blank after a sign");
                negative_number = true;
            }
            if (need_number && !is_digit(*r->at) && *r->at != '-')
                return fail(r, "variables are those of the enclosing unroll regions",
                            "%s found where a number or an unroll variable must stand", found(r));
            if (!read_int(r, INT64_MIN, INT64_MAX, &coef)) return false;
        }
        if (minus && !negative_number) {
            if (coef == INT64_MIN) return fail(r, NULL, "an index does not fit 64 bits");
            coef = -coef;
        }
        if (var < 0 && accept(r, "*")) {
            var = accept_variable(r, false);
            if (var < 0)
                return fail(r, "variables are those of the enclosing unroll regions",
                            "%s is no unroll variable in force here", found(r));
        }
        if (!add_term(r, o, coef, var)) return false;
    }
}

// register = "%" name ["[" affine [":" affine] "]"]. A bare array name means all of it where a
// range is wanted.
static bool read_register(Reader *r, bool range, Operand *o)
{
    *o = (Operand){.kind = OPD_REG, .count = 1};
    o->negate = accept(r, "!");
    if (!expect(r, "%")) return false;
    const char *before = r->at, *name = read_name(r, "the name of a register");
    if (!name) return false;
    o->reg = lookup(r->regs, name);
    if (o->reg < 0) {
        r->at = before;
        return fail(r,
                    arena_printf(r->arena, "declare it above the body, such as: reg b32 %s", name),
                    "unknown register %%%s", name);
    }
    int count = r->fn->regs.at[o->reg].count;
    skip_blanks(r);
    if (*r->at != '[') {
        if (count == 1) return true;
        if (!range)
            return fail(r, arena_printf(r->arena, "write %%%s[0]", name),
                        "%%%s has %d registers; an index must say which", name, count);
        o->count = (u16)count;
        return true;
    }
    r->at++;
    if (!read_affine(r, o)) return false;
    if (accept(r, ":")) {
        Operand end = {0};
        if (!read_affine(r, &end)) return false;
        bool alike = end.nterms == o->nterms && end.base - o->base > 0 &&
                     end.base - o->base <= UINT16_MAX && o->base >= INT32_MIN &&
                     end.base <= INT32_MAX && memcmp(end.term, o->term, sizeof end.term) == 0;
        if (!alike)
            return fail(r, "write both ends with the same variables, such as %x[4*$u:4*$u+4]",
                        "a range of registers needs a constant length above 0");
        o->count = (u16)(end.base - o->base);
    }
    return expect(r, "]");
}

// A float literal, or false without moving: 0f and eight digits, or decimals with a point or an
// exponent, or inf.
// float = "0f" 8 hexdigits | ["-"] digits with "." or exponent | ["-"] "inf"
static bool accept_float(Reader *r, Operand *o)
{
    skip_blanks(r);
    const char *s = r->at;
    if (s[0] == '0' && s[1] == 'f') {
        char digits[9] = {0};
        for (int i = 0; i < 8; i++) {
            char c = s[2 + i];
            if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) return false;
            digits[i] = c;
        }
        *o = (Operand){.kind = OPD_FIMM, .count = 1, .base = (i64)strtoul(digits, NULL, 16)};
        r->at = s + 10;
        return true;
    }
    const char *digits = s + (*s == '-' || *s == '+');
    bool infinite = strncmp(digits, "inf", 3) == 0 && !is_letter(digits[3]) && !is_digit(digits[3]);
    size_t n = 0;
    bool point = infinite;
    if (infinite) n = 3;
    else if (is_digit(digits[0]))
        for (; n < 60; n++) {
            char c = digits[n];
            bool exponent = c == 'e' && (is_digit(digits[n + 1]) || ((digits[n + 1] == '-' ||
                            digits[n + 1] == '+') && is_digit(digits[n + 2])));
            if (!is_digit(c) && c != '.' && !exponent) break;
            if (c == '.' && digits[n + 1] == '.') break; // 0..4 of a role
            point |= c == '.' || exponent;
            if (exponent) n++; // its sign or first digit
        }
    if (!point) return false;
    char text[80];
    size_t length = (size_t)(digits - s) + n;
    memcpy(text, s, length);
    text[length] = 0;
    *o = opd_f32(strtof(text, NULL));
    r->at = s + length;
    return true;
}

// Special registers have dots in their names.
// special = a name of SPECIAL_REGS, such as ctaid.x; its index, or -1 without moving.
static int accept_special(Reader *r)
{
    size_t n = 0;
    while (is_letter(r->at[n]) || is_digit(r->at[n]) ||
           (r->at[n] == '.' && is_letter(r->at[n + 1])))
        n++;
    for (int i = 0; i < SR_COUNT; i++) {
        if (strlen(special_reg_name[i]) != n || memcmp(special_reg_name[i], r->at, n) != 0)
            continue;
        r->at += n;
        return i;
    }
    return -1;
}

// parameter = name, of a declared parameter of the kernel.
static bool read_param(Reader *r, Operand *o)
{
    skip_blanks(r);
    const char *before = r->at, *name = read_name(r, "a kernel parameter");
    if (!name) return false;
    *o = opd_param(lookup(r->params, name));
    if (o->reg >= 0) return true;
    r->at = before;
    return fail(r, NULL, "unknown kernel parameter %s", name);
}

//   operand = register | float | special | affine
// Tried in this order: 1.5 begins like an affine number, and a special register's name could be
// that of an unroll variable (special registers win; the printer writes variables with a $).
static bool read_value(Reader *r, Operand *o)
{
    skip_blanks(r);
    if (*r->at == '%' || *r->at == '!') return read_register(r, false, o);
    if (accept_float(r, o)) return true;
    if (is_letter(*r->at)) {
        int special = accept_special(r);
        if (special >= 0) {
            *o = opd_sreg((SpecialReg)special);
            return true;
        }
    }
    *o = opd_imm(0);
    return read_affine(r, o);
}

//   address = "[" register [("+" | "-") affine] "]"
// Fills two operands: the base and the byte offset, which is 0 when nothing is written.
static bool read_address(Reader *r, Operand *o)
{
    if (!expect(r, "[") || !read_register(r, false, &o[0])) return false;
    o[1] = opd_imm(0);
    skip_blanks(r);
    if (*r->at == '+') r->at++;
    else if (*r->at != '-') return expect(r, "]");
    return read_affine(r, &o[1]) && expect(r, "]");
}

//   coordinates = "{" operand { "," operand } "}", one to five: the rank of a tensor map
// Their number is the operation's attribute.
static bool read_coordinates(Reader *r, ThreadOp *op, Operand *o, int *n)
{
    if (!expect(r, "{")) return false;
    op->n = 0;
    do {
        if (op->n == 5) return fail(r, NULL, "more than five coordinates");
        if (!read_value(r, &o[(*n)++])) return false;
        op->n++;
    } while (accept(r, ","));
    return expect(r, "}");
}

// A range may stand in braces, as in PTX.
// range = register | "{" register "}"
static bool read_range(Reader *r, Operand *o)
{
    bool braced = accept(r, "{");
    return read_register(r, true, o) && (!braced || expect(r, "}"));
}

// operands = what the letters of the row's signature ask for, separated by commas. Kinds are only
// sorted out as far as the text needs; whether they fit the row is thread_check's question.
static bool read_operands(Reader *r, ThreadOp *op)
{
    Operand o[MAX_OPERANDS];
    int n = 0;
    const char *sig = thread_op[op->op].sig;
    for (const char *c = sig; *c; c++) {
        if (c != sig && !expect(r, ",")) return false;
        ASSERT(n + 6 < MAX_OPERANDS);
        bool good;
        switch (*c) {
        case 'S':
        case 'G':
        case 'B':
            good = read_address(r, &o[n]);
            n += 2;
            break;
        case 'C': good = read_coordinates(r, op, o, &n); break;
        case 'K':
        case 'T': good = read_param(r, &o[n++]); break;
        case 'F':
        case 'R':
        case 'r': good = read_range(r, &o[n++]); break;
        default: good = read_value(r, &o[n++]); break;
        }
        if (!good) return false;
    }
    op->nopnd = n;
    op->opnd = ARENA_ARRAY(r->arena, Operand, n);
    memcpy(op->opnd, o, sizeof *o * (size_t)n);
    return true;
}

//   memrefs = [";" memref { "," memref }]      memref = buffer "(" [exprs] ")"
static bool read_mems(Reader *r, ThreadOp *op)
{
    MemRef m[4];
    if (!accept(r, ";")) return true;
    do {
        if (op->nmem == COUNT(m)) return fail(r, NULL, "more than %d places in buffers", COUNT(m));
        MemRef *ref = &m[op->nmem];
        skip_blanks(r);
        const char *before = r->at, *name = read_name(r, "a buffer");
        if (!name) return false;
        *ref = (MemRef){.buffer = lookup(r->buffers, name)};
        if (ref->buffer < 0) {
            r->at = before;
            return fail(r, "buffers are declared above the body with shared, global or mbar",
                        "unknown buffer %s", name);
        }
        if (!read_exprs(r, "(", ")", ref->coord, &ref->ncoord)) return false;
        op->nmem++;
    } while (accept(r, ","));
    op->mem = ARENA_ARRAY(r->arena, MemRef, op->nmem);
    memcpy(op->mem, m, sizeof *m * (size_t)op->nmem);
    return true;
}

// ---- operations --------------------------------------------------------------------------------

static bool word_is(const char *s, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(s, text, n) == 0;
}

// Up to four digits: the largest legal attribute is 256.
static bool suffix_number(const char *s, size_t n, u16 *out)
{
    u32 v = 0;
    if (!n || n > 4) return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i])) return false;
        v = v * 10 + (u32)(s[i] - '0');
    }
    *out = (u16)v;
    return true;
}

// The attribute n as a suffix (text.h). False: the suffix is something else.
static bool attr_suffix(ThreadOp *op, const char *s, size_t n)
{
    switch (thread_attr(op->op)) {
    case ATTR_VECTOR: return *s == 'v' && suffix_number(s + 1, n - 1, &op->n);
    case ATTR_MATRICES: return *s == 'x' && suffix_number(s + 1, n - 1, &op->n);
    case ATTR_EXTENT: return *s == 'n' && suffix_number(s + 1, n - 1, &op->n);
    case ATTR_BYTES: return suffix_number(s, n, &op->n);
    case ATTR_PLACE: return *s == 'a' && suffix_number(s + 1, n - 1, &op->n);
    case ATTR_ATOMIC:
        for (u16 i = 0; i < ATOM_CAS; i++) {
            if (!word_is(s, n, atomic_name[i])) continue;
            op->n = i;
            return true;
        }
        return false;
    case ATTR_SHFL:
        for (u16 i = 0; i < 4; i++) {
            if (!word_is(s, n, shfl_mode_name[i])) continue;
            op->n = i;
            return true;
        }
        return false;
    default: return false;
    }
}

// One suffix: attribute, flag, type (the first is `type`, the second `type2`) or comparison. Their
// order is not enforced; the printer always writes the same one.
static bool read_suffix(Reader *r, ThreadOp *op, const char *s, size_t n, int *types)
{
    if (attr_suffix(op, s, n)) return true;
    for (int i = 0; i < thread_flags_n; i++) {
        if (thread_flag[i].op != op->op || !word_is(s, n, thread_flag[i].text)) continue;
        op->flags |= thread_flag[i].flag;
        return true;
    }
    for (int i = 1; i < TT_COUNT; i++) {
        if (!word_is(s, n, thread_type_name[i]) || *types == 2) continue;
        if ((*types)++) op->type2 = (u8)i;
        else op->type = (u8)i;
        return true;
    }
    if (op->op == OP_SETP)
        for (int i = 0; i < CMP_COUNT; i++)
            if (word_is(s, n, thread_cmp_name[i])) {
                op->cmp = (u8)i;
                return true;
            }
    return fail(r, NULL, "%s has no suffix .%.*s", thread_op[op->op].name, (int)n, s);
}

// The operation whose name is the longest prefix of the word at the cursor, ending at a dot or at
// the word's end; -1 when none.
static int find_op(const char *s, size_t n, size_t *length)
{
    int best = -1;
    *length = 0;
    for (int i = 0; i < OP_COUNT; i++) {
        size_t k = strlen(thread_op[i].name);
        if (k > n || k <= *length || memcmp(s, thread_op[i].name, k) != 0) continue;
        if (k < n && s[k] != '.') continue;
        best = i;
        *length = k;
    }
    return best;
}

static bool is_wgmma(const ThreadOp *op) { return op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS; }

//   name { "." suffix }
// Names contain dots themselves (cp.async.wait), hence the longest match.
static bool read_op_name(Reader *r, ThreadOp *op)
{
    skip_blanks(r);
    const char *s = r->at;
    size_t n = 0, k;
    while (is_letter(s[n]) || is_digit(s[n]) || s[n] == '.') n++;
    int code = find_op(s, n, &k);
    if (code < 0) return fail(r, NULL, "%s is no operation", found(r));
    op->op = (u8)code;
    if (thread_attr(op->op) == ATTR_VECTOR) op->n = 1;
    int types = 0;
    while (k < n) {
        size_t start = ++k; // behind the dot
        while (k < n && s[k] != '.') k++;
        if (k == start) return fail(r, NULL, "an empty suffix of %s", thread_op[code].name);
        if (!read_suffix(r, op, s + start, k - start, &types)) return false;
    }
    if (types == 1 && is_wgmma(op)) { // wgmma.ss.n64.bf16 accumulates in f32
        op->type2 = op->type;
        op->type = TT_F32;
    }
    r->at = s + n;
    return true;
}

static bool read_block(Reader *r, ThreadBlock *out);

//   register "=" operand "to" operand "step" operand
static bool read_for_head(Reader *r, ThreadOp *op)
{
    op->opnd = ARENA_ARRAY(r->arena, Operand, 4);
    op->nopnd = 4;
    static const char *const before[] = {NULL, "=", "to", "step"};
    for (int i = 0; i < 4; i++) {
        if (i && !expect(r, before[i])) return false;
        if (!(i ? read_value(r, &op->opnd[i]) : read_register(r, false, &op->opnd[i])))
            return false;
    }
    op->imm = op->opnd[0].reg;
    return true;
}

//   name int: the variable and its trips
// Each region has a variable of its own in fn->unrolls, even when names repeat one after another.
static bool read_unroll_head(Reader *r, ThreadOp *op)
{
    const char *name = read_name(r, "the name of an unroll variable");
    int trips;
    if (!name || !read_int32(r, 0, UINT16_MAX, &trips)) return false;
    if (r->fn->unrolls.n >= MAX_DECLARED) return fail(r, NULL, "too many unroll regions");
    op->n = (u16)trips;
    op->imm = r->fn->unrolls.n;
    vec_push(r->arena, &r->fn->unrolls, name);
    r->scope[r->nscope].name = name;
    r->scope[r->nscope++].var = op->imm;
    return true;
}

//   int ".." int: warps from the first to before the second
static bool read_role_head(Reader *r, ThreadOp *op)
{
    int end;
    if (!read_int32(r, 0, 1024, &op->imm) || !expect(r, "..") || !read_int32(r, 0, 1024, &end))
        return false;
    if (end < op->imm) return fail(r, NULL, "a role ends before it starts");
    op->n = (u16)(end - op->imm);
    return true;
}

// Reads behind the name of a region: its head and its blocks.
// The scope of unroll variables ends with the region, whatever happened inside.
static bool read_region(Reader *r, ThreadOp *op, Loc own)
{
    int scope = r->nscope;
    bool good = false;
    if (r->nesting >= MAX_NESTING) return fail(r, NULL, "regions nest deeper than %d", MAX_NESTING);
    switch (op->op) {
    case OP_FOR: good = read_for_head(r, op); break;
    case OP_UNROLL: good = read_unroll_head(r, op); break;
    case OP_ROLE: good = read_role_head(r, op); break;
    default:
        good = read_operands(r, op);
        if (good && accept(r, "uniform")) op->flags |= OPF_UNIFORM;
        break;
    }
    r->nesting++;
    good = good && read_place(r, own, &op->loc) && expect(r, "{") && read_block(r, &op->body);
    if (good && op->op == OP_IF && accept(r, "else"))
        good = expect(r, "{") && read_block(r, &op->other);
    r->nesting--;
    r->nscope = scope;
    return good;
}

// The operation is in the block before its operands are read: after an error, read_block looks at
// it to see whether a region was begun.
static bool read_op(Reader *r, ThreadBlock *out)
{
    if (++r->nops > MAX_OPS) return fail(r, NULL, "more than %d operations", MAX_OPS);
    ThreadOp *op = ARENA_NEW(r->arena, ThreadOp);
    skip_blanks(r);
    Loc own = here(r);
    if (accept(r, "@") && !read_register(r, false, &op->guard)) return false;
    if (!read_op_name(r, op)) return false;
    bool region = op->op == OP_FOR || op->op == OP_IF || op->op == OP_UNROLL || op->op == OP_ROLE;
    vec_push(r->arena, out, op);
    if (region) return read_region(r, op, own);
    int n = 0;
    if (thread_attr(op->op) == ATTR_OPERAND && !read_int32(r, 0, UINT16_MAX, &n)) return false;
    if (thread_attr(op->op) == ATTR_OPERAND) op->n = (u16)n;
    return read_operands(r, op) && read_mems(r, op) && read_place(r, own, &op->loc);
}

// One operation a line; a closing brace may follow it.
static bool at_line_end(Reader *r)
{
    skip_blanks(r);
    return *r->at == '\n' || *r->at == '}' || !*r->at ||
           fail(r, NULL, "%s found where the operation must end", found(r));
}

// Operations up to the closing brace, which is consumed. A faulty line is reported and skipped, so
// that one reading finds several faults; a faulty head of a region gives up on the kernel.
static bool read_block(Reader *r, ThreadBlock *out)
{
    for (;;) {
        skip_lines(r);
        if (accept(r, "}")) return true;
        if (!*r->at) return fail(r, NULL, "the text ends inside a block; '}' is missing");
        if (r->errors >= DIAG_LIMIT) return false;
        int depth = r->nesting;
        u32 line = r->line;
        if (read_op(r, out) && at_line_end(r)) continue;
        ThreadOp *last = out->n ? out->at[out->n - 1] : NULL;
        bool region = last && (thread_op[last->op].effect == EFF_CTRL && last->op != OP_EXIT);
        // Behind a half-read region the braces no longer match: everything after would be noise.
        if (region || r->nesting != depth || r->line != line) return false;
        skip_rest_of_line(r);
        r->failed = false;
    }
}

// ---- declarations ------------------------------------------------------------------------------

// Registers, buffers and parameters have a name space each.
static bool declare(Reader *r, Map *map, const char *name, int index, const char *what)
{
    if (index >= MAX_DECLARED) return fail(r, NULL, "more than %d %ss", MAX_DECLARED, what);
    if (lookup(map, name) >= 0) return fail(r, NULL, "the %s %s is declared twice", what, name);
    map_put(map, name, (void *)(intptr_t)(index + 1));
    return true;
}

// The word at the cursor as an index into `words`; -1 after an error that says what must stand
// there.
static int word_index(Reader *r, const char *const *words, int n, const char *what)
{
    skip_blanks(r);
    for (int i = 0; i < n; i++)
        if (words[i][0] && accept(r, words[i])) return i;
    fail(r, NULL, "%s found where %s must stand", found(r), what);
    return -1;
}

//   class name ["[" int "]"] { "," name ["[" int "]"] }
static bool read_regs(Reader *r)
{
    int class = word_index(r, reg_class_name, RC_COUNT, "a class: pred, b16, b32, b64, f32");
    if (class < 0) return false;
    do {
        ThreadReg reg = {.class = (u8)class, .count = 1};
        reg.name = read_name(r, "the name of a register");
        if (!reg.name || !declare(r, r->regs, reg.name, r->fn->regs.n, "register")) return false;
        if (accept(r, "[") && (!read_int32(r, 1, 1024, &reg.count) || !expect(r, "]")))
            return false;
        vec_push(r->arena, &r->fn->regs, reg);
    } while (accept(r, ","));
    return true;
}

//   '"' characters '"', with \n \t \\ \" and \xHH for what cannot stand there
static bool read_text(Reader *r)
{
    Buf b = {0};
    if (!expect(r, "\"")) return false;
    while (*r->at && *r->at != '"' && *r->at != '\n') {
        char c = *r->at++;
        if (c == '\\') {
            unsigned byte = 0;
            c = *r->at;
            if (c == 'x' && sscanf(r->at + 1, "%2x", &byte) == 1 && byte) {
                r->at += 3;
                c = (char)byte;
            } else if (c == 'n' || c == 't' || c == '\\' || c == '"') {
                r->at++;
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
            } else {
                buf_free(&b);
                return fail(r, NULL, "an escape of a text that is none of \\n \\t \\\\ \\\" \\xHH");
            }
        }
        buf_putc(&b, c);
    }
    vec_push(r->arena, &r->fn->texts, arena_strndup(r->arena, b.s ? b.s : "", b.n));
    buf_free(&b);
    return expect(r, "\"");
}

//   ("ptr" | "s32" | "s64" | "f32" | "tmap") name
static bool read_param_decl(Reader *r)
{
    ThreadParam p = {0};
    int kind = word_index(r, param_kind_name, PARAM_TMAP + 1, "ptr, s32, s64, f32 or tmap");
    if (kind < 0) return false;
    p.kind = (u8)kind;
    p.name = read_name(r, "the name of a parameter");
    if (!p.name || !declare(r, r->params, p.name, r->fn->params.n, "parameter")) return false;
    vec_push(r->arena, &r->fn->params, p);
    return true;
}

// The rest of a declaration by `shared`, `global` or `mbar` (see decl above). Offsets and extents
// are bounded here only so that arithmetic on them cannot overflow.
static bool read_buffer(Reader *r, BufferKind kind, Loc own)
{
    ThreadBuffer b = {.kind = (u8)kind};
    b.name = read_name(r, "the name of a buffer");
    if (!b.name) return false;
    if (kind != BUF_MBAR) {
        if (!expect(r, ":")) return false;
        int type = word_index(r, dtype_name, DT_COUNT, "an element type");
        if (type < 0) return false;
        b.type = (DType)type;
    }
    if (!read_exprs(r, "[", "]", b.dim, &b.rank)) return false;
    if (kind == BUF_SHARED) {
        const char *names[SL_COUNT];
        for (int i = 0; i < SL_COUNT; i++) names[i] = smem_layout[i].name;
        int layout = word_index(r, names, SL_COUNT, "a layout: row, swz128, swz64, swz32");
        if (layout < 0) return false;
        b.layout = (SmemLayout)layout;
    }
    if (kind == BUF_GLOBAL) {
        Operand param;
        if (!expect(r, "param") || !read_param(r, &param)) return false;
        b.param = param.reg;
        int n = b.rank;
        if (accept(r, "stride") && (!read_exprs(r, "[", "]", b.stride, &n) || n != b.rank))
            return fail(r, NULL, "the buffer has %d dimensions and %d strides", b.rank, n);
    } else if (!expect(r, "@") || !read_int(r, 0, INT32_MAX, &b.offset)) {
        return false;
    }
    if (!read_place(r, own, &b.loc)) return false;
    if (!declare(r, r->buffers, b.name, r->fn->buffers.n, "buffer")) return false;
    vec_push(r->arena, &r->fn->buffers, b);
    return true;
}

// Numbers of the head get wide limits; the machine's are in thread_check, with a better message.
static bool read_decl(Reader *r)
{
    ThreadFn *f = r->fn;
    skip_blanks(r);
    Loc own = here(r);
    if (accept(r, "threads")) return read_int32(r, 0, 1 << 20, &f->threads);
    if (accept(r, "maxnreg")) return read_int32(r, 0, 1 << 20, &f->maxnreg);
    if (accept(r, "min_ctas")) return read_int32(r, 0, 1 << 20, &f->min_ctas);
    if (accept(r, "cluster")) return read_int32(r, 0, 1 << 20, &f->cluster);
    if (accept(r, "smem")) return read_int(r, 0, INT32_MAX, &f->smem_bytes);
    if (accept(r, "param")) return read_param_decl(r);
    if (accept(r, "shared")) return read_buffer(r, BUF_SHARED, own);
    if (accept(r, "global")) return read_buffer(r, BUF_GLOBAL, own);
    if (accept(r, "mbar")) return read_buffer(r, BUF_MBAR, own);
    if (accept(r, "reg")) return read_regs(r);
    if (accept(r, "text")) return read_text(r);
    return fail(r,
                "threads, maxnreg, min_ctas, cluster, smem, param, shared, global, mbar, reg, text "
                "or {",
                "%s starts no declaration", found(r));
}

//   kernel = "kernel" name { decl } "{" { op } "}"
// A faulty declaration is reported and its line skipped, like a faulty operation.
static bool read_kernel(Reader *r)
{
    ThreadFn *f = r->fn = ARENA_NEW(r->arena, ThreadFn);
    f->cluster = 1;
    r->regs = map_new(r->arena);
    r->buffers = map_new(r->arena);
    r->params = map_new(r->arena);
    r->nscope = r->nesting = 0;
    f->name = read_name(r, "the name of a kernel");
    if (!f->name) return false;
    for (int i = 0; i < r->mod->fns.n; i++)
        if (r->mod->fns.at[i]->name == f->name)
            return fail(r, NULL, "the kernel %s is declared twice", f->name);
    vec_push(r->arena, &r->mod->fns, f);
    for (;;) {
        skip_lines(r);
        if (accept(r, "{")) return read_block(r, &f->body);
        if (!*r->at) return fail(r, NULL, "the text ends before the body of kernel %s", f->name);
        if (r->errors >= DIAG_LIMIT) return false;
        if (read_decl(r)) {
            skip_blanks(r);
            if (*r->at == '\n' || *r->at == '{') continue;
            fail(r, NULL, "%s found where the declaration must end", found(r));
        }
        skip_rest_of_line(r);
        r->failed = false;
    }
}

// Index of a source by name: one that is known already, so that its lines can be shown, or new.
static u16 source_index(Reader *r, const char *name)
{
    for (u16 i = 1; i < UINT16_MAX; i++) {
        const char *known = diag_file_name(r->diag, i);
        if (strcmp(known, name) == 0 && strcmp(name, "?") != 0) return i;
        if (strcmp(known, "?") == 0) break;
    }
    return diag_add_file(r->diag, name, NULL, 0);
}

//   "source" ("none" | string)
// The n-th one is file n of the places that follow.
static bool read_source(Reader *r)
{
    r->explicit_places = true;
    if (accept(r, "none")) return true;
    if (!expect(r, "\"")) return false;
    size_t n = 0;
    while (r->at[n] && r->at[n] != '"' && r->at[n] != '\n') n++;
    if (r->at[n] != '"' || n > 4000) return fail(r, NULL, "the name of a source does not end");
    if (r->sources.n >= 1000) return fail(r, NULL, "more than 1000 sources");
    char *name = arena_strndup(r->arena, r->at, n);
    r->at += n + 1;
    vec_push(r->arena, &r->sources, source_index(r, name));
    return true;
}

ThreadModule *thread_read(Arena *a, ExprPool *p, Diag *d, u16 file, const char *text, size_t n)
{
    Reader *r = ARENA_NEW(a, Reader);
    *r = (Reader){.arena = a, .diag = d, .file = file, .line = 1};
    r->mod = ARENA_NEW(a, ThreadModule);
    r->mod->arena = a;
    r->mod->exprs = p;
    r->mod->diag = d;
    r->at = r->line_start = "";
    if (n > MAX_TEXT) fail(r, NULL, "the text is larger than %d MiB", MAX_TEXT >> 20);
    else if (memchr(text, 0, n)) fail(r, NULL, "the text holds a NUL byte; it is not thread IR");
    else r->at = r->line_start = arena_strndup(a, text, n);
    while (!r->errors) {
        skip_lines(r);
        if (!*r->at) break;
        if (accept(r, "source")) read_source(r);
        else if (accept(r, "kernel")) read_kernel(r);
        else fail(r, NULL, "%s found where 'kernel' or 'source' must stand", found(r));
    }
    return r->errors ? NULL : r->mod;
}
