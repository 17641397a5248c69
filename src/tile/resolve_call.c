// resolve_call.c - calls of device helpers, inlined.
//
// A helper is C with scalars. Its parameters become names of a scope that sees nothing of the
// caller; one that the helper changes is a variable, any other the argument's value. A `return`
// must be the last thing on its path: what follows a branch that returns belongs to its other side.
// Loops run over constant bounds and are unrolled.
#include "resolve.h"

#include <string.h>

enum { CALL_MAX_DEPTH = 16, CALL_MAX_TRIPS = 256, CALL_MAX_STATEMENTS = 4096 };

// ---- finding the helper ------------------------------------------------------------------------

static const AstPart *find_helper(const Resolve *r, const char *name)
{
    for (int i = 0; r->file && i < r->file->nparts; i++)
        if (r->file->parts[i].kind == PART_DEVICE && r->file->parts[i].name == name)
            return &r->file->parts[i];
    return NULL;
}

// Functions of C's library under the names that helpers use.
const char *resolve_c_builtin(const Resolve *r, const char *name)
{
    static const char *const same[][2] = {
        {"exp2f", "__exp2f"}, {"expf", "__exp"},    {"__expf", "__exp"}, {"logf", "__log"},
        {"__logf", "__log"},  {"log2f", "__log2f"}, {"sqrtf", "__sqrt"}, {"rsqrtf", "__rsqrt"},
        {"fabsf", "__fabs"},  {"fmaxf", "__max"},   {"fminf", "__min"},  {"fmaf", "__fmaf"},
        {"tanhf", "__tanh"},  {"max", "__max"},     {"min", "__min"},
    };
    for (int i = 0; r->helper && i < COUNT(same); i++)
        if (!strcmp(same[i][0], name)) return intern(r->m->names, same[i][1]);
    return NULL;
}

// ---- what a body does --------------------------------------------------------------------------

static bool changes(const AstNode *n, const char *name)
{
    if (!n) return false;
    bool step = n->kind == AST_UNARY && n->op >= AST_OP_PREINC && n->op <= AST_OP_POSTDEC;
    const AstNode *to = n->kind == AST_ASSIGN ? n->target : step ? n->value : NULL;
    if (to && to->kind == AST_NAME && to->name == name) return true;
    const AstNode *const part[] = {n->target, n->cond, n->value, n->body, n->alt};
    for (int i = 0; i < COUNT(part); i++)
        if (changes(part[i], name)) return true;
    for (int i = 0; i < n->list.n; i++)
        if (changes(n->list.at[i], name)) return true;
    for (int i = 0; i < n->list2.n; i++)
        if (changes(n->list2.at[i], name)) return true;
    return false;
}

static bool has_return(const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_RETURN || has_return(n->body) || has_return(n->alt)) return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (has_return(n->list.at[i])) return true;
    return false;
}

// Every path through it returns.
static bool always_returns(const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_RETURN) return true;
    if (n->kind == AST_IF) return always_returns(n->body) && always_returns(n->alt);
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (always_returns(n->list.at[i])) return true;
    return false;
}

// ---- bodies ------------------------------------------------------------------------------------

typedef struct {
    const AstNode *fn;
    DType type;
    bool returns; // a value
    int scalar;   // that holds it, -1: it was returned on the only path and is `value`
    Value value;
    int *statements;
} Inline;

static void statements(Resolve *r, Inline *c, const AstNode *const *at, int n, bool only_path);

// What comes after a return on the same path is dropped; `rest` follows what does not return.
static void returned(Resolve *r, Inline *c, const AstNode *s, bool only_path)
{
    if (!s->value || !c->returns) {
        if (s->value || c->returns)
            resolve_error(r, s->loc, NULL,
                          s->value ? "'%s' returns no value" : "'%s' returns a value", c->fn->name);
        return;
    }
    Value v = resolve_convert(r, resolve_expr(r, s->value), c->type, s->loc);
    if (v.kind == VAL_NONE) return;
    if (only_path) {
        c->value = v;
        return;
    }
    if (c->scalar < 0) c->scalar = resolve_new_scalar(r, c->fn->name, c->type, s->loc);
    resolve_set(r, c->scalar, value_tree(r, &v, s->loc), s->loc);
}

// Statements of a block and, behind them, what follows the block.
static void block_then(Resolve *r, Inline *c, const AstNode *block, const AstNode *const *rest,
                       int nrest, bool only_path)
{
    VEC(const AstNode *) all = {0};
    int mark = scope_push(r);
    if (block && block->kind == AST_BLOCK)
        for (int i = 0; i < block->list.n; i++) vec_push(r->arena, &all, block->list.at[i]);
    else if (block)
        vec_push(r->arena, &all, block);
    for (int i = 0; !always_returns(block) && i < nrest; i++) vec_push(r->arena, &all, rest[i]);
    statements(r, c, all.at, all.n, only_path);
    scope_pop(r, mark);
}

// A branch with a return inside: the rest of the function stands on the sides that do not return.
static void branch_then(Resolve *r, Inline *c, const AstNode *s, const AstNode *const *rest,
                        int nrest, bool only_path)
{
    const Expr *index;
    i64 known;
    const TExpr *cond = resolve_condition(r, s->cond, &index);
    if (!cond) return;
    if (index && expr_is_const(index, &known)) {
        block_then(r, c, known ? s->body : s->alt, rest, nrest, only_path);
        return;
    }
    TileOp *o = resolve_emit(r, TOP_IF, s->loc);
    o->cond = cond;
    Control outer = resolve_enter_control(r, resolve_tree_level(r, cond), s->loc);
    TileBlock *saved = r->at;
    r->guards++;
    r->at = &o->body;
    block_then(r, c, s->body, rest, nrest, false);
    r->at = &o->other;
    block_then(r, c, s->alt, rest, nrest, false);
    r->at = saved;
    resolve_leave_control(r, outer);
}

// for (int i = a; i < b; i += c) S with constants: unrolled, i is a constant in each copy.
static void counted_loop(Resolve *r, Inline *c, const AstNode *s)
{
    const AstNode *init = s->list.n == 1 ? s->list.at[0] : NULL, *cond = s->cond,
                  *step = s->list2.n == 1 ? s->list2.at[0] : NULL;
    bool ok = init && init->kind == AST_SCALAR_DECL && init->value && cond && step &&
              cond->kind == AST_BINARY && (cond->op == AST_OP_LT || cond->op == AST_OP_LE) &&
              cond->list.n == 2 && cond->list.at[0]->kind == AST_NAME &&
              cond->list.at[0]->name == init->name && !changes(s->body, init->name);
    i64 lo, hi, by = 1;
    if (ok && step->kind == AST_EXPR && step->value->kind == AST_UNARY)
        ok = step->value->op == AST_OP_PREINC || step->value->op == AST_OP_POSTINC;
    else if (ok)
        ok = step->kind == AST_ASSIGN && step->op == AST_OP_ADD &&
             resolve_const(r, step->value, "the step of a loop", 1, 1 << 20, &by);
    if (!ok || !changes(step, init->name) || has_return(s->body)) {
        resolve_unsupported(r, s->loc,
                            "a loop of a device helper other than "
                            "`for (int i = 0; i < N; ++i)` without a return inside");
        return;
    }
    if (!resolve_const(r, init->value, "the start of a loop", -(1 << 20), 1 << 20, &lo) ||
        !resolve_const(r, cond->list.at[1], "the end of a loop", -(1 << 20), 1 << 20, &hi))
        return;
    hi += cond->op == AST_OP_LE;
    if (hi > lo && (hi - lo + by - 1) / by > CALL_MAX_TRIPS) {
        resolve_unsupported(r, s->loc, "a loop of a device helper with more than %d rounds",
                            CALL_MAX_TRIPS);
        return;
    }
    int errors = diag_errors(r->diag);
    for (i64 i = lo; i < hi && diag_errors(r->diag) == errors; i += by) {
        int mark = scope_push(r);
        scope_add(r, init->name, init->loc, value_index(r, expr_const(r->x, i), DT_S32));
        block_then(r, c, s->body, NULL, 0, false);
        scope_pop(r, mark);
    }
}

static void statements(Resolve *r, Inline *c, const AstNode *const *at, int n, bool only_path)
{
    for (int i = 0; i < n; i++) {
        const AstNode *s = at[i];
        if (++*c->statements > CALL_MAX_STATEMENTS) {
            if (*c->statements == CALL_MAX_STATEMENTS + 1)
                resolve_unsupported(r, s->loc, "device helpers of more than %d statements, inlined",
                                    CALL_MAX_STATEMENTS);
            return;
        }
        if (s->kind == AST_RETURN) {
            returned(r, c, s, only_path);
            return;
        }
        if (has_return(s)) {
            if (s->kind == AST_IF)
                branch_then(r, c, s, at + i + 1, n - i - 1, only_path);
            else if (s->kind == AST_BLOCK)
                block_then(r, c, s, at + i + 1, n - i - 1, only_path);
            else
                resolve_unsupported(r, s->loc, "a return inside a loop of a device helper");
            return;
        }
        if (s->kind == AST_FOR)
            counted_loop(r, c, s);
        else if (s->kind == AST_BLOCK)
            block_then(r, c, s, NULL, 0, false);
        else
            resolve_stmt(r, s);
    }
}

// ---- arguments ---------------------------------------------------------------------------------

// T &x: the caller's variable under another name.
static bool bind_reference(Resolve *r, const AstNode *p, const AstNode *arg, const Symbol *s)
{
    if (!s || !s->mutable) {
        resolve_error(r, arg->loc, "declare it `mutable`",
                      "the parameter '%s' is a reference; it needs a mutable variable", p->name);
        return false;
    }
    if ((i32)r->k->scalars.at[s->scalar].type != p->type->dtype) {
        resolve_error(r, arg->loc, NULL,
                      "the parameter '%s' is a reference to %s, the variable is %s", p->name,
                      p->type->name, dtype_name[r->k->scalars.at[s->scalar].type]);
        return false;
    }
    Symbol *inner = scope_add(r, p->name, p->loc, s->value);
    if (!inner) return false;
    inner->mutable = true;
    inner->scalar = s->scalar;
    return true;
}

static bool bind_value(Resolve *r, const AstNode *fn, const AstNode *p, Value v, Loc loc)
{
    v = resolve_convert(r, v, (DType)p->type->dtype, loc);
    if (v.kind == VAL_NONE) return false;
    if (!changes(fn->body, p->name)) {
        resolve_define(r, p, p->name, v);
        return true;
    }
    int id = resolve_new_scalar(r, p->name, (DType)p->type->dtype, loc);
    map_put(r->mutables, r->k->scalars.at[id].name, r);
    resolve_set(r, id, value_tree(r, &v, loc), loc);
    Symbol *s = scope_add(r, p->name, p->loc, resolve_scalar_read(r, id, loc));
    if (!s) return false;
    s->mutable = true;
    s->scalar = id;
    return true;
}

static bool check_helper(Resolve *r, const AstNode *e, const AstPart *part)
{
    if (!part) {
        resolve_error(r, e->loc, "define it in this file: `__device__ float f(float x) { .. }`",
                      "there is no device function '%s'", e->name);
        return false;
    }
    if (!part->fn) {
        resolve_unsupported(r, e->loc, "the device function '%s': %s", e->name,
                            part->why ? part->why : "its text is outside of what is compiled");
        return false;
    }
    const AstNode *fn = part->fn;
    if (fn->list2.n || e->list2.n) {
        resolve_unsupported(r, e->loc, "templates of device functions");
        return false;
    }
    if (e->list.n != fn->list.n) {
        resolve_error(r, e->loc, NULL, "'%s' takes %d argument%s, found %d", e->name, fn->list.n,
                      fn->list.n == 1 ? "" : "s", e->list.n);
        return false;
    }
    for (int i = 0; i < fn->list.n; i++) {
        const AstNode *p = fn->list.at[i];
        if (p->flags & AST_F_POINTER || !p->type || p->type->dtype < 0 || !p->name) {
            resolve_unsupported(r, e->list.at[i]->loc,
                                "parameters of device functions that are no scalars");
            return false;
        }
    }
    if (r->call_depth >= CALL_MAX_DEPTH) {
        resolve_error(r, e->loc, NULL,
                      "calls of device functions nest deeper than %d, or '%s' calls itself",
                      CALL_MAX_DEPTH, e->name);
        return false;
    }
    return true;
}

// The arguments are the caller's business, the names that they get the helper's.
static bool bind_arguments(Resolve *r, const AstNode *e, const AstNode *fn, Map *caller,
                           Map *callee)
{
    bool ok = true;
    for (int i = 0; i < fn->list.n && ok; i++) {
        const AstNode *p = fn->list.at[i], *arg = e->list.at[i];
        const Symbol *s = arg->kind == AST_NAME ? scope_find(r, arg->name) : NULL;
        bool reference = p->flags & AST_F_REF && !(p->flags & AST_F_CONST);
        Value v = reference && s ? s->value : resolve_expr(r, arg);
        r->names = callee;
        ok = v.kind != VAL_NONE &&
             (reference ? bind_reference(r, p, arg, s) : bind_value(r, fn, p, v, arg->loc));
        r->names = caller;
    }
    return ok;
}

// call f(args); as a statement its value is dropped, and it need not have one.
Value resolve_call_helper(Resolve *r, const AstNode *e, bool as_value)
{
    if (!r->at) {
        resolve_error(r, e->loc, NULL, "a device function can only be called inside `parallel`");
        return value_none();
    }
    const AstPart *part = find_helper(r, e->name);
    if (!check_helper(r, e, part)) return value_none();
    const AstNode *fn = part->fn;
    bool returns = fn->type && fn->type->dtype >= 0;
    if (fn->type && !returns && fn->type->name && strcmp(fn->type->name, "void")) {
        resolve_unsupported(r, e->loc, "device functions that return '%s'", fn->type->name);
        return value_none();
    }
    if (as_value && !returns) {
        resolve_error(r, e->loc, NULL, "'%s' returns no value", e->name);
        return value_none();
    }
    Map *caller = r->names, *callee = map_new(r->arena);
    Inline c = {.fn = fn,
                .returns = returns,
                .type = returns ? (DType)fn->type->dtype : DT_S32,
                .scalar = -1,
                .value = value_none(),
                .statements = &r->call_statements};
    const AstNode *outer = r->helper;
    LoopPath *loop = r->loop;
    bool tail = r->tail;
    r->loop = NULL;
    r->tail = false;
    if (!r->call_depth++) r->call_statements = 0;
    int mark = scope_push(r), errors = diag_errors(r->diag);
    if (bind_arguments(r, e, fn, caller, callee)) {
        r->names = callee;
        r->helper = fn;
        block_then(r, &c, fn->body, NULL, 0, true);
        r->helper = outer;
    }
    r->names = callee;
    scope_pop(r, mark);
    r->names = caller;
    r->call_depth--;
    r->loop = loop;
    r->tail = tail;
    if (!returns || diag_errors(r->diag) != errors) return value_none();
    if (!always_returns(fn->body)) {
        resolve_error(r, fn->loc, NULL, "'%s' can end without a return", fn->name);
        return value_none();
    }
    return c.scalar >= 0 ? resolve_scalar_read(r, c.scalar, e->loc) : c.value;
}
