// resolve_expr.c - expressions of the source to values: names, constants, conversions, and the
// three operators that evaluate an operand only sometimes.
#include "resolve.h"

#include <math.h>
#include <string.h>

// What an expression is after its error was reported; everything made from it stays silent.
Value value_none(void) { return (Value){.kind = VAL_NONE}; }

Value value_index(Resolve *r, const Expr *e, DType t)
{
    (void)r;
    return (Value){.kind = VAL_SCALAR, .type = t, .index = e};
}

// A value from a tree; an integer expression stays one.
Value value_texpr(const TExpr *x)
{
    Value v = {.kind = VAL_SCALAR, .type = x->type, .x = x};
    if (x->kind == TX_INDEX) v.index = x->index;
    return v;
}

const TExpr *value_tree(Resolve *r, const Value *v, Loc loc)
{
    if (v->x && v->x->type == v->type) return v->x;
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_INDEX, .type = v->type, .loc = loc, .index = v->index};
    if (v->type != DT_BOOL) return x;
    // Bools of the tile IR are comparisons.
    TExpr *zero = ARENA_NEW(r->arena, TExpr), *truth = ARENA_NEW(r->arena, TExpr);
    x->type = DT_S32;
    *zero = (TExpr){.kind = TX_INDEX, .type = DT_S32, .loc = loc, .index = expr_const(r->x, 0)};
    *truth = (TExpr){
        .kind = TX_MATH, .math = TM_NE, .type = DT_BOOL, .loc = loc, .a = x, .b = zero};
    return truth;
}

const char *value_describe(Resolve *r, const Value *v)
{
    switch (v->kind) {
    case VAL_SCALAR:
        return arena_printf(r->arena, "%s %s",
                            v->type == DT_E4M3 || v->type == DT_E5M2 || v->type == DT_F32 ||
                                    v->type == DT_F16 || v->type == DT_S32 || v->type == DT_S64 ||
                                    v->type == DT_S16 || v->type == DT_S8 || v->type == DT_F64
                                ? "an"
                                : "a",
                            dtype_name[v->type]);
    case VAL_LIST: return v->shape ? "a shape" : "a tuple";
    case VAL_VIEW: return arena_printf(r->arena, "a tile (%s)", view_text(r, v));
    case VAL_ARRAY: return "an array of buffers without an index";
    case VAL_FRAG: return v->slot < 0 ? "an array of fragments without an index" : "a fragment";
    case VAL_EVENT: return "an event";
    case VAL_REGS: return "an array of registers";
    case VAL_POINTER: return "a pointer";
    case VAL_OTHER: return v->what;
    default: return "nothing";
    }
}

// ---- conversions -------------------------------------------------------------------------------

// Whether all integers from lo to hi are values of the type.
static bool fits(DType t, i64 lo, i64 hi)
{
    switch (t) {
    case DT_S32: return lo >= INT32_MIN && hi <= INT32_MAX;
    case DT_U32: return lo >= 0 && hi <= UINT32_MAX;
    case DT_S16: return lo >= INT16_MIN && hi <= INT16_MAX;
    case DT_U16: return lo >= 0 && hi <= UINT16_MAX;
    case DT_S8: return lo >= INT8_MIN && hi <= INT8_MAX;
    case DT_U8: return lo >= 0 && hi <= UINT8_MAX;
    case DT_U64: return lo >= 0;
    case DT_BOOL: return lo >= 0 && hi <= 1;
    default: return true;
    }
}

static bool is_unsigned(DType t) { return t == DT_U32 || t == DT_U64 || t == DT_U16 || t == DT_U8; }

// The conversion as an operation, or folded when the value is known.
static Value cast(Resolve *r, Value v, DType to, Loc loc)
{
    const TExpr *a = value_tree(r, &v, loc);
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    i64 n;
    *x = (TExpr){.kind = TX_CAST, .type = to, .loc = loc, .a = a};
    if (dtype_is_float(to) && a->kind == TX_FLOAT)
        *x = (TExpr){.kind = TX_FLOAT, .type = to, .loc = loc, .fvalue = math_round(to, a->fvalue)};
    else if (dtype_is_float(to) && v.index && expr_is_const(v.index, &n))
        *x = (TExpr){.kind = TX_FLOAT, .type = to, .loc = loc, .fvalue = math_round(to, (double)n)};
    return value_texpr(x);
}

// Conversions that keep every value.
static bool float_widens(DType from, DType to)
{
    if (to == DT_F64) return true;
    if (to == DT_F32) return from != DT_F64;
    return (from == DT_E4M3 || from == DT_E5M2) && (to == DT_F16 || to == DT_BF16);
}

// A constant keeps its value in the other type.
static bool exact_constant(const Value *v, DType to)
{
    i64 n;
    if (v->x && v->x->kind == TX_FLOAT)
        return isinf(v->x->fvalue) || math_round(to, v->x->fvalue) == v->x->fvalue;
    return v->index && expr_is_const(v->index, &n) && math_round(to, (double)n) == (double)n;
}

// Integer to integer: the expression stays, its bits are those of the new type.
static Value convert_int(Resolve *r, Value v, DType to, Loc loc)
{
    i64 lo, hi;
    if (!v.index) return cast(r, v, to, loc);
    expr_range(r->x, v.index, &lo, &hi);
    if (!fits(to, lo, hi)) {
        if (v.index->op == EX_CONST)
            resolve_warning(r, loc, NULL, "the constant %lld does not fit in %s",
                            (long long)v.index->value, dtype_name[to]);
        else if (is_unsigned(v.type) != is_unsigned(to))
            resolve_warning(r, loc, "say it with `__to<T>(..)`",
                            "conversion from %s to %s may change the value", dtype_name[v.type],
                            dtype_name[to]);
        else if (dtype_bytes[to] < dtype_bytes[v.type])
            resolve_warning(r, loc, "say it with `__to<T>(..)`",
                            "conversion from %s to %s may lose bits", dtype_name[v.type],
                            dtype_name[to]);
    }
    if (!fits(to, lo, hi) && dtype_bytes[to] < 4) return cast(r, v, to, loc);
    v.type = to;
    v.x = NULL;
    return v;
}

// In a helper, C's truth: numbers are conditions.
static Value c_truth(Resolve *r, Value v, Loc loc)
{
    if (!r->helper || v.kind != VAL_SCALAR || v.type == DT_BOOL) return v;
    return math_binary(r, AST_OP_NE, v, value_index(r, expr_const(r->x, 0), DT_S32), loc);
}

// The table of implicit conversions: integers among each other and to floats, floats among each
// other, with a warning when a value may be lost; constants only when theirs is.
Value resolve_convert(Resolve *r, Value v, DType to, Loc loc)
{
    if (v.kind == VAL_NONE) return v;
    if (v.kind != VAL_SCALAR) {
        resolve_error(r, loc, NULL, "found %s where a value of type %s is required",
                      value_describe(r, &v), dtype_name[to]);
        return value_none();
    }
    if (v.type == to) return v;
    bool from_float = dtype_is_float(v.type), to_float = dtype_is_float(to);
    const char *hint = arena_printf(r->arena, "convert with `__to<%s>(..)`", dtype_name[to]);
    if (r->helper && to == DT_BOOL) return c_truth(r, v, loc);
    if (r->helper && v.type == DT_BOOL) {
        Value one = value_index(r, expr_const(r->x, 1), DT_S32);
        Value v01 = math_select(r, v, one, value_index(r, expr_const(r->x, 0), DT_S32), loc);
        return resolve_convert(r, v01, to, loc);
    }
    if (r->helper && from_float && !to_float) return resolve_cast(r, v, to, loc);
    if (v.type == DT_BOOL || to == DT_BOOL) {
        resolve_error(r, loc, to == DT_BOOL ? "compare it: `x != 0`" : "select with `c ? 1 : 0`",
                      "found %s where %s %s is required", value_describe(r, &v),
                      to == DT_BOOL ? "a" : "a value of type", dtype_name[to]);
        return value_none();
    }
    if (!from_float && !to_float) return convert_int(r, v, to, loc);
    if (from_float && !to_float) {
        resolve_error(r, loc, hint, "no implicit conversion from %s to %s", dtype_name[v.type],
                      dtype_name[to]);
        return value_none();
    }
    bool constant = (v.x && v.x->kind == TX_FLOAT) || (v.index && v.index->op == EX_CONST);
    bool silent = from_float ? float_widens(v.type, to) : false;
    if (!silent && constant) silent = exact_constant(&v, to) || (v.type == DT_F64 && to == DT_F32);
    if (!silent)
        resolve_warning(r, loc, hint, "conversion from %s to %s may lose precision",
                        dtype_name[v.type], dtype_name[to]);
    return cast(r, v, to, loc);
}

// `__to<T>(v)`: any number to any number, without a warning.
Value resolve_cast(Resolve *r, Value v, DType to, Loc loc)
{
    if (v.kind == VAL_NONE) return v;
    if (v.kind != VAL_SCALAR) {
        resolve_error(r, loc, NULL, "`__to` needs a number, found %s", value_describe(r, &v));
        return value_none();
    }
    if (v.type == to) return v;
    if (v.type == DT_F64 && !(v.x && v.x->kind == TX_FLOAT)) {
        resolve_unsupported(r, loc, "arithmetic in f64");
        return value_none();
    }
    if (to == DT_BOOL) {
        resolve_error(r, loc, "compare it: `x != 0`", "`__to<bool>` does not exist");
        return value_none();
    }
    i64 lo, hi;
    if (v.index && v.type != DT_BOOL && !dtype_is_float(to)) {
        expr_range(r->x, v.index, &lo, &hi);
        if (fits(to, lo, hi)) return value_index(r, v.index, to);
    }
    if (v.type == DT_BOOL && v.index && !dtype_is_float(to)) return value_index(r, v.index, to);
    return cast(r, v, to, loc);
}

// ---- integers ----------------------------------------------------------------------------------

// The type of a scalar that holds an index expression: 64 bits only when its range asks for it.
static DType index_type(Resolve *r, const Expr *e)
{
    i64 lo, hi;
    return expr_range(r->x, e, &lo, &hi) && !fits(DT_S32, lo, hi) ? DT_S64 : DT_S32;
}

// A scalar that is set in one place keeps the range of what it is set to.
void resolve_keep_range(Resolve *r, int scalar, const Expr *e)
{
    const TileScalar *s = &r->k->scalars.at[scalar];
    i64 lo, hi;
    map_put(r->made_of, s->name, (void *)(uintptr_t)e);
    if (expr_range(r->x, e, &lo, &hi) && fits(s->type, lo, hi))
        expr_set_range(r->x, s->name, lo, hi);
}

// An expression of mutable variables as of now: the value moves to a scalar that nobody else sets.
const Expr *resolve_freeze(Resolve *r, const Expr *e, const char *name, Loc loc)
{
    if (!e || !r->at || !resolve_uses_mutable(r, e)) return e;
    DType t = index_type(r, e);
    int s = resolve_new_scalar(r, name, t, loc);
    Value v = value_index(r, e, t);
    resolve_set(r, s, value_tree(r, &v, loc), loc);
    resolve_keep_range(r, s, e);
    return expr_var(r->x, r->k->scalars.at[s].name);
}

bool value_is_integer(const Value *v)
{
    return v->kind == VAL_SCALAR && !dtype_is_float(v->type) && v->type != DT_BOOL;
}

// Integers that come from memory or from bits become a scalar, so that they can be part of shapes,
// coordinates and bounds.
const Expr *value_to_index(Resolve *r, Value v, Loc loc, const char *what)
{
    if (v.kind == VAL_NONE) return NULL;
    if (!value_is_integer(&v)) {
        resolve_error(r, loc, NULL, "%s must be an integer, found %s", what, value_describe(r, &v));
        return NULL;
    }
    if (v.index) {
        if (!expr_uses(v.index, intern(r->m->names, "too.deep"))) return v.index;
        resolve_error(r, loc, "name a part of it as `mutable int`", "%s is too large an expression",
                      what);
        return NULL;
    }
    if (!r->at) {
        resolve_error(r, loc, NULL, "%s must be known on the host", what);
        return NULL;
    }
    int s = resolve_new_scalar(r, "t", v.type, loc);
    resolve_set(r, s, value_tree(r, &v, loc), loc);
    return expr_var(r->x, r->k->scalars.at[s].name);
}

const Expr *resolve_index(Resolve *r, const AstNode *e, const char *what)
{
    if (!e) return NULL;
    return value_to_index(r, resolve_expr(r, e), e->loc, what);
}

// A constant within [lo, hi]; `what` names its role in the message.
bool resolve_const(Resolve *r, const AstNode *e, const char *what, i64 lo, i64 hi, i64 *out)
{
    const Expr *x = resolve_index(r, e, what);
    if (!x) return false;
    if (!expr_is_const(x, out)) {
        resolve_error(r, e->loc, NULL, "%s must be a constant, found %s", what, resolve_text(r, x));
        return false;
    }
    if (*out >= lo && *out <= hi) return true;
    resolve_error(r, e->loc, NULL, "%s is %lld; it must be from %lld to %lld", what,
                  (long long)*out, (long long)lo, (long long)hi);
    return false;
}

const TExpr *resolve_condition(Resolve *r, const AstNode *e, const Expr **index)
{
    if (index) *index = NULL;
    Value v = resolve_expr(r, e);
    if (v.kind == VAL_NONE) return NULL;
    v = c_truth(r, v, e->loc);
    if (v.kind != VAL_SCALAR || v.type != DT_BOOL) {
        resolve_error(r, e->loc, "compare it: `x != 0`", "a condition must be a bool, found %s",
                      value_describe(r, &v));
        return NULL;
    }
    if (index) *index = v.index;
    return value_tree(r, &v, e->loc);
}

// ---- operands that are evaluated only sometimes ------------------------------------------------

// Trees that must not be evaluated unless control reaches them.
static bool reads_memory(const TExpr *x)
{
    if (!x) return false;
    return x->kind == TX_ELEM || reads_memory(x->a) || reads_memory(x->b) || reads_memory(x->c);
}

// Evaluates e with its operations going to `into`.
static Value resolve_into(Resolve *r, const AstNode *e, TileBlock *into)
{
    TileBlock *saved = r->at;
    r->at = r->at ? into : NULL;
    r->guards++;
    Value v = resolve_expr(r, e);
    r->guards--;
    r->at = saved;
    return v;
}

// scalar = v, as the last operation of a block.
static void set_scalar(Resolve *r, TileBlock *block, int scalar, const Value *v, Loc loc)
{
    TileBlock *saved = r->at;
    r->at = block;
    resolve_set(r, scalar, value_tree(r, v, loc), loc);
    r->at = saved;
}

static Value scalar_value(Resolve *r, int scalar, Loc loc)
{
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){
        .kind = TX_SCALAR, .type = r->k->scalars.at[scalar].type, .loc = loc, .scalar = scalar};
    Value v = value_texpr(x);
    if (!dtype_is_float(x->type) && x->type != DT_BOOL) {
        v.x = NULL;
        v.index = expr_var(r->x, r->k->scalars.at[scalar].name);
    }
    return v;
}

// `a && b`, `a || b`: b's memory is read only when a leaves the question open.
static Value resolve_logic(Resolve *r, const AstNode *e)
{
    AstOp op = (AstOp)e->op;
    Value a = c_truth(r, resolve_expr(r, e->list.at[0]), e->loc);
    i64 n;
    if (a.kind == VAL_SCALAR && a.index && expr_is_const(a.index, &n) && a.type == DT_BOOL &&
        (n != 0) == (op == AST_OP_LOR))
        return a;
    TileBlock rest = {0};
    Value b = resolve_into(r, e->list.at[1], &rest);
    if (r->helper) {
        TileBlock *saved = r->at;
        r->at = saved ? &rest : NULL;
        b = c_truth(r, b, e->loc);
        r->at = saved;
    }
    Value v = math_binary(r, op, a, b, e->loc);
    if (v.kind == VAL_NONE || (!rest.n && !reads_memory(b.x))) return v;
    int s = resolve_new_scalar(r, "t", DT_BOOL, e->loc);
    set_scalar(r, r->at, s, &a, e->loc);
    set_scalar(r, &rest, s, &b, e->loc);
    Value t = scalar_value(r, s, e->loc);
    if (op == AST_OP_LOR) t = math_unary(r, AST_OP_NOT, t, e->loc);
    TileOp *o = resolve_emit(r, TOP_IF, e->loc);
    o->cond = value_tree(r, &t, e->loc);
    o->body = rest;
    return scalar_value(r, s, e->loc);
}

// `c ? a : b`: only the chosen side reads memory.
static Value resolve_choice(Resolve *r, const AstNode *e)
{
    Value c = c_truth(r, resolve_expr(r, e->cond), e->loc);
    i64 n;
    if (c.kind == VAL_SCALAR && c.type == DT_BOOL && c.index && expr_is_const(c.index, &n))
        return resolve_expr(r, n ? e->value : e->alt);
    TileBlock left = {0}, right = {0};
    Value a = resolve_into(r, e->value, &left);
    Value b = resolve_into(r, e->alt, &right);
    Value v = math_select(r, c, a, b, e->loc);
    if (v.kind == VAL_NONE) return v;
    if (!left.n && !right.n && !reads_memory(a.x) && !reads_memory(b.x)) return v;
    int s = resolve_new_scalar(r, "t", v.type, e->loc);
    a = resolve_convert(r, a, v.type, e->loc);
    b = resolve_convert(r, b, v.type, e->loc);
    const TExpr *cond = value_tree(r, &c, e->loc);
    int control = r->control;
    r->control = MAX(control, resolve_tree_level(r, cond));
    set_scalar(r, &left, s, &a, e->loc);
    set_scalar(r, &right, s, &b, e->loc);
    r->control = control;
    TileOp *o = resolve_emit(r, TOP_IF, e->loc);
    o->cond = cond;
    o->body = left;
    o->other = right;
    return scalar_value(r, s, e->loc);
}

// ---- the cases ---------------------------------------------------------------------------------

// How many letters differ, small numbers only: for the hint of an unknown name.
static int distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > 40 || nb > 40) return 99;
    int row[42];
    for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int above = row[j];
            int best = MIN(MIN(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
            row[j] = best;
        }
    }
    return row[nb];
}

// Reports the name once: from here on it is known and silent.
static Value unknown_name(Resolve *r, const AstNode *e)
{
    const char *best = NULL;
    int least = 3;
    for (int i = 0; i < r->symbols.n; i++) {
        const char *name = r->symbols.at[i]->name;
        int d = distance(e->name, name);
        if (d < least && d < (int)strlen(e->name)) {
            least = d;
            best = name;
        }
    }
    resolve_error(r, e->loc, best ? arena_printf(r->arena, "did you mean '%s'?", best) : NULL,
                  "unknown name '%s'", e->name);
    scope_add(r, e->name, e->loc, value_none()); // said once; silent from here on
    return value_none();
}

static Value resolve_float(Resolve *r, const AstNode *e, DType t, double value)
{
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_FLOAT, .type = t, .loc = e->loc, .fvalue = math_round(t, value)};
    return value_texpr(x);
}

// Constants of C's headers, in helpers.
static bool c_constant(Resolve *r, const AstNode *e, Value *out)
{
    static const struct {
        const char *name;
        bool is_float;
        double value;
    } known[] = {
        {"INFINITY", true, INFINITY},   {"FLT_MAX", true, 3.4028234663852886e38},
        {"INT_MAX", false, 2147483647}, {"FLT_MIN", true, 1.1754943508222875e-38},
        {"INT_MIN", false, -2147483648.0}, {"UINT_MAX", false, 4294967295.0},
    };
    for (int i = 0; r->helper && i < COUNT(known); i++) {
        if (strcmp(known[i].name, e->name)) continue;
        DType whole = known[i].value > INT32_MAX ? DT_U32 : DT_S32;
        *out = known[i].is_float ? resolve_float(r, e, DT_F32, known[i].value)
                                 : value_index(r, expr_const(r->x, (i64)known[i].value), whole);
        return true;
    }
    return false;
}

static Value resolve_name(Resolve *r, const AstNode *e)
{
    if (!e->name) return value_none(); // did not parse
    Symbol *s = scope_find(r, e->name);
    Value v;
    if (!s && c_constant(r, e, &v)) return v;
    return s ? s->value : unknown_name(r, e);
}

// `[a, b]` or `{a, b}`; bounds of bounded elements are kept.
static Value resolve_list(Resolve *r, const AstNode *e)
{
    Value v = {.kind = VAL_LIST, .shape = e->kind == AST_SPAN};
    if (e->list.n > RESOLVE_MAX_LIST) {
        resolve_error(r, e->loc, NULL, "a list of %d elements; at most %d are allowed", e->list.n,
                      RESOLVE_MAX_LIST);
        return value_none();
    }
    for (int i = 0; i < e->list.n; i++) {
        Value x = resolve_expr(r, e->list.at[i]);
        const Expr *index = value_to_index(r, x, e->list.at[i]->loc, "an element of a list");
        if (!index) return value_none();
        v.item[v.n++] = (ListItem){index, x.bound};
    }
    return v;
}

// n++ and its kin inside an expression: the variable is stepped where the expression is evaluated,
// left to right; the value is the one before or behind the step.
static Value resolve_increment(Resolve *r, const AstNode *e)
{
    const AstNode *name = e->value;
    const Symbol *s = name && name->kind == AST_NAME ? scope_find(r, name->name) : NULL;
    bool plus = e->op == AST_OP_PREINC || e->op == AST_OP_POSTINC;
    if (!s || !s->mutable) {
        Value v = resolve_expr(r, name);
        if (v.kind != VAL_NONE)
            resolve_error(r, e->loc, "declare it `mutable`", "'%s' needs a mutable variable",
                          ast_op_text(e->op));
        return value_none();
    }
    DType type = r->k->scalars.at[s->scalar].type;
    if (dtype_is_float(type)) {
        resolve_unsupported(r, e->loc, "'%s' of a float inside an expression",
                            ast_op_text(e->op));
        return value_none();
    }
    if (e->op == AST_OP_PREINC || e->op == AST_OP_PREDEC) resolve_step(r, s, plus, e->loc);
    Value v = value_index(r, resolve_freeze(r, s->value.index, name->name, e->loc), type);
    if (e->op == AST_OP_POSTINC || e->op == AST_OP_POSTDEC) resolve_step(r, s, plus, e->loc);
    return v;
}

static Value resolve_unary(Resolve *r, const AstNode *e)
{
    if (e->op >= AST_OP_PREINC && e->op <= AST_OP_POSTDEC) return resolve_increment(r, e);
    if (e->op == AST_OP_ADDRESS) return call_address(r, e);
    if (e->op == AST_OP_DEREF) {
        Value v = resolve_expr(r, e->value);
        if (v.kind == VAL_REGS || v.kind == VAL_POINTER) return call_element(r, v, NULL, e->loc);
        if (v.kind != VAL_NONE)
            resolve_error(r, e->loc, NULL, "'*' needs a pointer, found %s", value_describe(r, &v));
        return value_none();
    }
    Value v = resolve_expr(r, e->value);
    if (e->op == AST_OP_NOT) v = c_truth(r, v, e->loc);
    return math_unary(r, (AstOp)e->op, v, e->loc);
}

// |x|: bytes of a type, or elements of a shape or tile.
static Value resolve_count(Resolve *r, const AstNode *e)
{
    if (e->type) {
        if (e->type->dtype < 0) {
            resolve_error(r, e->loc, NULL, "the type '%s' has no size", e->type->name);
            return value_none();
        }
        return value_index(r, expr_const(r->x, dtype_bytes[e->type->dtype]), DT_S32);
    }
    Value v = resolve_expr(r, e->value);
    if (v.kind == VAL_VIEW) v = view_span(r, &v, e->loc);
    if (v.kind == VAL_NONE) return v;
    if (v.kind != VAL_LIST) {
        resolve_error(r, e->loc, NULL, "'|x|' counts the elements of a shape, found %s",
                      value_describe(r, &v));
        return value_none();
    }
    const Expr *n = expr_const(r->x, 1);
    for (int i = 0; i < v.n; i++) n = expr_mul(r->x, n, v.item[i].index);
    return value_index(r, n, DT_S32);
}

// cdiv(a, b), a divided by b, rounded up.
static Value resolve_cdiv(Resolve *r, const AstNode *e)
{
    if (e->list.n != 2) {
        resolve_error(r, e->loc, NULL, "cdiv takes 2 arguments, found %d", e->list.n);
        return value_none();
    }
    const Expr *a = resolve_index(r, e->list.at[0], "the dividend of cdiv");
    const Expr *b = resolve_index(r, e->list.at[1], "the divisor of cdiv");
    i64 n;
    if (!a || !b) return value_none();
    if (expr_is_const(b, &n) && n <= 0) {
        resolve_error(r, e->list.at[1]->loc, NULL,
                      "the divisor of cdiv is %lld; it must be above 0", (long long)n);
        return value_none();
    }
    return value_index(r, expr_cdiv(r->x, a, b), DT_S32);
}

// select(i, a, b, ...): the i-th of the candidates, which all have one type and shape.
static Value resolve_select(Resolve *r, const AstNode *e)
{
    i64 i;
    if (e->list.n < 2) {
        resolve_error(r, e->loc, NULL, "select takes an index and candidates, found %d arguments",
                      e->list.n);
        return value_none();
    }
    const Expr *index = resolve_index(r, e->list.at[0], "the index of select");
    if (!index) return value_none();
    if (!expr_is_const(index, &i)) return resolve_select_among(r, e, index);
    if (i < 0 || i >= e->list.n - 1) {
        resolve_error(r, e->list.at[0]->loc, NULL,
                      "the index of select is %lld; it must be from 0 to %d", (long long)i,
                      e->list.n - 2);
        return value_none();
    }
    return resolve_expr(r, e->list.at[i + 1]);
}

// f(x): a built-in, a device function, or x(i) of a tuple or shape.
static Value resolve_call(Resolve *r, const AstNode *e)
{
    if (!e->name) return value_none(); // did not parse
    if (e->flags & AST_F_CALL) return resolve_call_helper(r, e, true);
    if (e->flags & AST_F_BUILTIN) {
        if (!strcmp(e->name, "cdiv")) return resolve_cdiv(r, e);
        if (!strcmp(e->name, "select")) return resolve_select(r, e);
        return math_call(r, e);
    }
    if (e->flags & AST_F_INTRINSIC) return resolve_call_helper(r, e, true); // `call` left out
    Symbol *s = scope_find(r, e->name);
    if (!s && r->helper) {
        const char *builtin = resolve_c_builtin(r, e->name);
        if (!builtin) return resolve_call_helper(r, e, true);
        AstNode call = *e;
        call.name = builtin;
        return math_call(r, &call);
    }
    if (!s) return unknown_name(r, e);
    return resolve_extent(r, s->value, &e->list, e->loc);
}

// `__bitcast<T>(x)`: the same bits as another type of the same size.
static Value resolve_bitcast(Resolve *r, const AstNode *e)
{
    Value v = resolve_expr(r, e->value);
    if (v.kind == VAL_NONE || !e->type) return value_none();
    int to = call_dtype(r, e->type);
    if (v.kind != VAL_SCALAR || to < 0) {
        resolve_error(r, e->loc, NULL, "`__bitcast` needs a number and a number type, found %s",
                      v.kind != VAL_SCALAR ? value_describe(r, &v) : e->type->name);
        return value_none();
    }
    if (dtype_bytes[to] != dtype_bytes[v.type]) {
        resolve_error(r, e->loc, NULL,
                      "`__bitcast` from %s (%d bytes) to %s (%d bytes); equal sizes are required",
                      dtype_name[v.type], dtype_bytes[v.type], dtype_name[to], dtype_bytes[to]);
        return value_none();
    }
    if (to == DT_F64 || v.type == DT_F64) {
        resolve_unsupported(r, e->loc, "`__bitcast` of f64");
        return value_none();
    }
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){
        .kind = TX_BITCAST, .type = (DType)to, .loc = e->loc, .a = value_tree(r, &v, e->loc)};
    return value_texpr(x);
}

// __to<"float">(x): the type of the language that C's is, -1: there is none.
static i32 c_dtype(const char *text)
{
    static const struct {
        const char *name;
        DType type;
    } types[] = {{"float", DT_F32},        {"int", DT_S32},           {"unsigned", DT_U32},
                 {"unsigned int", DT_U32}, {"long long", DT_S64},     {"unsigned long long", DT_U64},
                 {"short", DT_S16},        {"unsigned short", DT_U16}, {"signed char", DT_S8},
                 {"unsigned char", DT_U8}, {"__half", DT_F16},        {"half", DT_F16},
                 {"int32_t", DT_S32},      {"uint32_t", DT_U32},      {"int64_t", DT_S64},
                 {"uint64_t", DT_U64},     {"__nv_bfloat16", DT_BF16}};
    for (int i = 0; text && i < COUNT(types); i++)
        if (strcmp(text, types[i].name) == 0) return types[i].type;
    return -1;
}

static Value resolve_to(Resolve *r, const AstNode *e)
{
    Value v = resolve_expr(r, e->value);
    i32 to = e->type ? call_dtype(r, e->type) : c_dtype(e->text);
    if (to < 0 && !e->type) {
        resolve_error(r, e->loc, "name a type of the language: `__to<f32>(x)`",
                      "the C type \"%s\" is none that a value can have", e->text ? e->text : "");
        return value_none();
    }
    if (to < 0) {
        resolve_unsupported(r, e->loc, "conversion to '%s'", e->type->name);
        return value_none();
    }
    return resolve_cast(r, v, (DType)to, e->loc);
}

// The value of any expression. Errors are reported here and below, never by the caller.
Value resolve_expr(Resolve *r, const AstNode *e)
{
    if (!e) return value_none();
    switch (e->kind) {
    case AST_ERROR: return value_none();
    case AST_NAME: return resolve_name(r, e);
    case AST_INT:
        if (e->ivalue > INT64_MAX) {
            resolve_unsupported(r, e->loc, "integers above 2^63 - 1");
            return value_none();
        }
        return value_index(r, expr_const(r->x, (i64)e->ivalue),
                           e->dtype < 0 ? DT_S32 : (DType)e->dtype);
    case AST_FLOAT: return resolve_float(r, e, e->dtype < 0 ? DT_F64 : (DType)e->dtype, e->fvalue);
    case AST_INF: return resolve_float(r, e, DT_F32, INFINITY);
    case AST_BOOL: return value_index(r, expr_const(r->x, e->ivalue != 0), DT_BOOL);
    case AST_SPAN:
    case AST_TUPLE: return resolve_list(r, e);
    case AST_UNARY: return resolve_unary(r, e);
    case AST_BINARY: {
        if (e->list.n != 2) return value_none();
        if (e->op == AST_OP_LAND || e->op == AST_OP_LOR) return resolve_logic(r, e);
        Value a = resolve_expr(r, e->list.at[0]);
        Value b = resolve_expr(r, e->list.at[1]);
        bool moves = (a.kind == VAL_REGS || a.kind == VAL_POINTER) && b.kind == VAL_SCALAR &&
                     (e->op == AST_OP_ADD || e->op == AST_OP_SUB);
        if (moves) return call_pointer_add(r, a, b, e->op == AST_OP_SUB, e->loc);
        return math_binary(r, (AstOp)e->op, a, b, e->loc);
    }
    case AST_SELECT: return resolve_choice(r, e);
    case AST_COUNT: return resolve_count(r, e);
    case AST_CALL: return resolve_call(r, e);
    case AST_EXTENT: return resolve_extent(r, resolve_expr(r, e->value), &e->list, e->loc);
    case AST_INDEX: return resolve_index_of(r, e);
    case AST_AT: return resolve_element(r, e);
    case AST_MEMBER: return resolve_member(r, e);
    case AST_VIEW: return resolve_view(r, e);
    case AST_CAST: return resolve_to(r, e);
    case AST_BITCAST: return resolve_bitcast(r, e);
    case AST_WILD:
        resolve_error(r, e->loc, NULL,
                      "'_' can only stand in the list of a tiling, such as `.subspan(1, _)`");
        return value_none();
    case AST_STRING:
        resolve_error(r, e->loc, NULL, "a string cannot stand in an expression");
        return value_none();
    default:
        resolve_error(r, e->loc, NULL, "this cannot stand in an expression");
        return value_none();
    }
}
