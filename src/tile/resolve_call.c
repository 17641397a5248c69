// resolve_call.c - calls of device helpers, inlined.
//
// A helper is C. Its parameters become names of a scope that sees nothing of the caller; one that
// the helper changes is a variable, any other the argument's value. Fragments arrive as arrays of
// the registers that a thread holds, tiles as pointers into memory. The statements are those of
// resolve_stmt.c and resolve_path.c; what a `return` leaves is theirs too.
#include "resolve.h"

#include <string.h>

enum { CALL_MAX_DEPTH = 16, CALL_MAX_PARAMS = 32, CALL_MAX_ARRAY = 256, FRAG_MAX_REGS = 256 };

// Functions of C's library and of CUDA under the names that helpers use.
const char *resolve_c_builtin(const Resolve *r, const char *name)
{
    static const char *const same[][2] = {
        {"exp2f", "__exp2f"}, {"expf", "__exp"}, {"__expf", "__exp"}, {"logf", "__log"},
        {"__logf", "__log"}, {"log2f", "__log2f"}, {"sqrtf", "__sqrt"}, {"rsqrtf", "__rsqrt"},
        {"fabsf", "__fabs"}, {"fmaxf", "__max"}, {"fminf", "__min"}, {"fmaf", "__fmaf"},
        {"tanhf", "__tanh"}, {"max", "__max"}, {"min", "__min"}, {"floorf", "__floor"},
        {"ceilf", "__ceil"}, {"roundf", "__round"}, {"powf", "__pow"}, {"sinf", "__sin"},
        {"cosf", "__cos"}, {"tanf", "__tan"}, {"sinhf", "__sinh"}, {"coshf", "__cosh"},
        {"asinf", "__asin"}, {"acosf", "__acos"}, {"atanf", "__atan"}, {"atan2f", "__atan2"},
        {"expm1f", "__expm1"}, {"log1pf", "__log1p"}, {"fabs", "__fabs"},
        {"isfinite", "__isfinite"}, {"__powf", "__pow"}, {"__sinf", "__sin"}, {"__cosf", "__cos"},
        {"__log2f", "__log2f"}, {"__fsqrt_rn", "__sqrt"}, {"__frsqrt_rn", "__rsqrt"},
        {"exp2", "__exp2f"}, {"sqrt", "__sqrt"}, {"ceil", "__ceil"}, {"floor", "__floor"},
        {"pow", "__pow"}, {"exp", "__exp"}, {"log", "__log"}, {"fmin", "__min"}, {"fmax", "__max"},
    };
    for (int i = 0; r->helper && i < COUNT(same); i++)
        if (!strcmp(same[i][0], name)) return intern(r->m->names, same[i][1]);
    return NULL;
}

// ---- what a body does --------------------------------------------------------------------------

bool call_changes(const AstNode *n, const char *name)
{
    if (!n) return false;
    bool step = n->kind == AST_UNARY && n->op >= AST_OP_PREINC && n->op <= AST_OP_POSTDEC;
    const AstNode *to = n->kind == AST_ASSIGN ? n->target : step ? n->value : NULL;
    if (to && to->kind == AST_NAME && to->name == name) return true;
    // A call may change what it takes by reference.
    for (int i = 0; n->kind == AST_CALL && i < n->list.n; i++)
        if (n->list.at[i]->kind == AST_NAME && n->list.at[i]->name == name &&
            !(n->flags & AST_F_BUILTIN))
            return true;
    const AstNode *const part[] = {n->target, n->cond, n->value, n->body, n->alt};
    for (int i = 0; i < COUNT(part); i++)
        if (call_changes(part[i], name)) return true;
    for (int i = 0; i < n->list.n; i++)
        if (call_changes(n->list.at[i], name)) return true;
    for (int i = 0; i < n->list2.n; i++)
        if (call_changes(n->list2.at[i], name)) return true;
    return false;
}

bool resolve_has_return(const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_RETURN || resolve_has_return(n->body) || resolve_has_return(n->alt))
        return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (resolve_has_return(n->list.at[i])) return true;
    return false;
}

static bool is_loop(const AstNode *n) { return n->kind == AST_FOR || n->kind == AST_WHILE; }

// A loop that a return can leave.
static bool returns_in_loop(const AstNode *n)
{
    if (!n) return false;
    if (is_loop(n) && resolve_has_return(n->body)) return true;
    if (returns_in_loop(n->body) || returns_in_loop(n->alt)) return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (returns_in_loop(n->list.at[i])) return true;
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

// return e: the value, on the only path, or into the call's scalar.
void call_return(Resolve *r, const AstNode *s)
{
    InlineCall *c = r->call;
    if (!s->value || !c->returns) {
        if (s->value || c->returns)
            resolve_error(r, s->loc, NULL,
                          s->value ? "'%s' returns no value" : "'%s' returns a value", c->fn->name);
        return;
    }
    Value v = resolve_convert(r, resolve_expr(r, s->value), c->type, s->loc);
    if (v.kind == VAL_NONE) return;
    if (r->at == c->block && !r->loop && c->scalar < 0) {
        c->value = v;
        return;
    }
    if (c->scalar < 0) {
        c->scalar = resolve_new_scalar(r, c->fn->name, c->type, s->loc);
        map_put(r->mutables, r->k->scalars.at[c->scalar].name, r);
    }
    resolve_set(r, c->scalar, value_tree(r, &v, s->loc), s->loc);
}

// ---- types -------------------------------------------------------------------------------------

i32 call_dtype(const Resolve *r, const AstNode *type)
{
    if (!type) return -1;
    if (type->dtype >= 0 || !r->call || !r->call->types) return type->dtype;
    return (i32)(intptr_t)map_get(r->call->types, type->name) - 1;
}

// ---- register arrays and pointers --------------------------------------------------------------

static int array_length(const Value *v)
{
    int n = 1;
    for (int i = 0; i < v->ncount; i++) n *= v->count[i];
    return n;
}

// Element i of an array of scalars (also of one dimension of two), or a register of a fragment.
static Value register_element(Resolve *r, Value v, i64 i, Loc loc)
{
    if (v.frag >= 0) {
        if (!product_free(r, v.frag, v.slot, r->is_target, loc)) return value_none();
        TExpr *x = ARENA_NEW(r->arena, TExpr);
        *x = (TExpr){.kind = TX_FRAG, .type = v.type, .loc = loc, .frag = v.frag, .slot = v.slot};
        x->at[0] = TILE_AT_REG;
        x->at[1] = (u8)i;
        return value_texpr(x);
    }
    if (v.ncount == 2) {
        v.part = (int)i * v.count[1];
        v.count[0] = v.count[1];
        v.ncount = 1;
        return v;
    }
    return resolve_scalar_read(r, v.buffer + (int)i, loc);
}

// Which one: a constant, since registers have no addresses.
static bool register_index(Resolve *r, const Value *v, const AstNode *index, Loc loc, i64 *i)
{
    *i = 0;
    i64 end = v->frag >= 0 ? FRAG_MAX_REGS : v->part + v->count[0];
    if (index) {
        const Expr *x = resolve_index(r, index, "the index of a register array");
        if (!x) return false;
        if (!expr_is_const(x, i)) {
            resolve_error(r, loc, "run over it with a for loop between constants",
                          "the index of a register array must be a constant, found %s",
                          resolve_text(r, x));
            return false;
        }
    }
    *i += v->part;
    if (*i >= 0 && *i < end) return true;
    resolve_error(r, loc, NULL, "the index is %lld; the register array has %lld elements",
                  (long long)*i, (long long)end);
    return false;
}

// The element `by` places behind the view's origin, as memory counts: along the last dimension, and
// from row to row where it does not stay inside one.
static Value memory_element(Resolve *r, const Value *v, const Expr *by, Loc loc)
{
    const TileBuffer *b = &r->k->buffers.at[v->view.buffer];
    if (b->stride[0]) {
        resolve_unsupported(r, loc, "a view with strides as a pointer");
        return value_none();
    }
    TileView *one = ARENA_NEW(r->arena, TileView);
    *one = v->view;
    const Expr *carry = by;
    for (int d = b->rank - 1; d >= 0; d--) {
        const Expr *c = expr_add(r->x, v->view.origin[d], carry);
        i64 lo, hi, extent;
        bool inside = d == 0 || (expr_range(r->x, c, &lo, &hi) && lo >= 0 &&
                                 expr_is_const(b->dim[d], &extent) && hi < extent);
        one->origin[d] = inside ? c : expr_bin(r->x, EX_MOD, c, b->dim[d]);
        carry = inside ? expr_const(r->x, 0) : expr_bin(r->x, EX_DIV, c, b->dim[d]);
        one->extent[d] = expr_const(r->x, 1);
        one->limit[d] = b->dim[d];
    }
    one->rank = 0;
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_ELEM, .type = v->type, .loc = loc, .view = one};
    if (!r->is_target) {
        resolve_pending(r, one, loc);
        view_used(r, one, false, loc);
    }
    return value_texpr(x);
}

Value call_element(Resolve *r, Value v, const AstNode *index, Loc loc)
{
    if (v.readonly && r->is_target) {
        resolve_error(r, loc, NULL, "an element of a const array is assigned to");
        return value_none();
    }
    bool target = r->is_target;
    r->is_target = false; // the index is read
    i64 i;
    const Expr *by = NULL;
    bool ok = v.kind == VAL_REGS ? register_index(r, &v, index, loc, &i) : true;
    if (ok && v.kind == VAL_POINTER) {
        by = index ? resolve_index(r, index, "the index of a pointer") : expr_const(r->x, 0);
        ok = by != NULL;
    }
    r->is_target = target;
    if (!ok) return value_none();
    if (v.kind == VAL_REGS) return register_element(r, v, i, loc);
    return memory_element(r, &v, expr_add(r->x, v.index, by), loc);
}

// The array and the index of x[i] or *x; false when it is none.
static bool element_parts(Resolve *r, const AstNode *e, Value *v, const AstNode **index)
{
    bool deref = e->kind == AST_UNARY && e->op == AST_OP_DEREF;
    if (!deref && (e->kind != AST_INDEX || e->list.n != 1)) return false;
    *v = resolve_expr(r, e->value);
    *index = deref ? NULL : e->list.at[0];
    return v->kind == VAL_REGS || v->kind == VAL_POINTER;
}

int call_register(Resolve *r, const AstNode *e)
{
    Value v;
    const AstNode *index;
    i64 i;
    if (!r->call || !element_parts(r, e, &v, &index) || v.kind != VAL_REGS || v.frag >= 0 ||
        v.ncount != 1 || v.readonly || !register_index(r, &v, index, e->loc, &i))
        return -1;
    return v.buffer + (int)i;
}

Value call_pointer_add(Resolve *r, Value v, Value by, bool minus, Loc loc)
{
    const Expr *n = value_to_index(r, by, loc, "what is added to a pointer");
    if (!n) return value_none();
    if (minus) n = expr_sub(r->x, expr_const(r->x, 0), n);
    i64 k;
    if (v.kind == VAL_POINTER) {
        v.index = expr_add(r->x, v.index, n);
        return v;
    }
    if (!expr_is_const(n, &k) || k + v.part < 0 || k + v.part >= FRAG_MAX_REGS) {
        resolve_error(r, loc, NULL, "a register array can only be moved by a constant inside it");
        return value_none();
    }
    v.part += (int)k;
    if (v.frag < 0 && v.ncount == 1) v.count[0] -= (int)k;
    return v;
}

Value call_address(Resolve *r, const AstNode *e)
{
    Value v;
    const AstNode *index;
    if (r->call && element_parts(r, e->value, &v, &index)) {
        if (!index) return v;
        return call_pointer_add(r, v, resolve_expr(r, index), false, e->loc);
    }
    resolve_unsupported(r, e->loc, "the address of something that is no array element");
    return value_none();
}

static void fill_array(Resolve *r, const AstNode *init, const Value *v)
{
    const AstNode *const *at = (const AstNode *const *)init->list.at;
    int n = array_length(v);
    if (init->kind != AST_TUPLE || v->ncount != 1 || init->list.n > n) {
        resolve_error(r, init->loc, NULL, "an array of %d elements cannot be initialised so", n);
        return;
    }
    for (int i = 0; i < n; i++) {
        Value x = i < init->list.n ? resolve_expr(r, at[i])
                                   : value_index(r, expr_const(r->x, 0), DT_S32);
        x = resolve_convert(r, x, v->type, init->loc);
        if (x.kind == VAL_NONE) return;
        resolve_set(r, v->buffer + i, value_tree(r, &x, init->loc), init->loc);
    }
}

void call_array_decl(Resolve *r, const AstNode *s)
{
    Value v = {.kind = VAL_REGS, .frag = -1, .ncount = s->list.n};
    i32 type = call_dtype(r, s->type);
    scope_add(r, s->name, s->loc, value_none());
    if (!s->list.n) { // T *p = q
        Value q = s->value ? resolve_expr(r, s->value) : value_none();
        if (q.kind == VAL_REGS || q.kind == VAL_POINTER)
            scope_find(r, s->name)->value = q;
        else if (q.kind != VAL_NONE || !s->value)
            resolve_error(r, s->loc, NULL, "'%s' needs an array or pointer to point to", s->name);
        return;
    }
    if (type < 0 || type == DT_F64 || s->list.n > 2) {
        resolve_unsupported(r, s->loc, "arrays of '%s' with %d dimensions", s->type->name,
                            s->list.n);
        return;
    }
    i64 total = 1;
    for (int i = 0; i < s->list.n; i++) {
        i64 n;
        if (!resolve_const(r, s->list.at[i], "the length of an array", 1, CALL_MAX_ARRAY / total,
                           &n))
            return;
        v.count[i] = (int)n;
        total *= n;
    }
    v.type = (DType)type;
    for (int i = 0; i < total; i++) {
        int id = resolve_new_scalar(r, s->name, v.type, s->loc);
        map_put(r->mutables, r->k->scalars.at[id].name, r);
        if (i == 0) v.buffer = id;
    }
    if (s->value) fill_array(r, s->value, &v);
    scope_find(r, s->name)->value = v;
}

// ---- arguments ---------------------------------------------------------------------------------

typedef struct { // of one call, evaluated once
    Value value[CALL_MAX_PARAMS];
    int copy[CALL_MAX_PARAMS]; // scalar that stands for an element taken by reference, or -1
} Arguments;

static bool is_array(const Value *v)
{
    return v->kind == VAL_REGS || v->kind == VAL_POINTER || v->kind == VAL_VIEW ||
           (v->kind == VAL_FRAG && v->slot >= 0);
}

static bool is_reference(const AstNode *p)
{
    return p->flags & AST_F_REF && !(p->flags & (AST_F_CONST | AST_F_POINTER));
}

// T *x: the registers of a fragment, or memory from the tile's first element on.
static bool bind_array(Resolve *r, const AstNode *p, Value v, i32 type, Loc loc)
{
    if (!is_array(&v)) {
        resolve_error(r, loc, NULL,
                      "the parameter '%s' is a pointer; it needs a fragment or a tile, found %s",
                      p->name, value_describe(r, &v));
        return false;
    }
    if ((i32)v.type != type) {
        resolve_error(r, loc, NULL, "the parameter '%s' points to %s, the argument holds %s",
                      p->name, type >= 0 ? dtype_name[type] : p->type->name, dtype_name[v.type]);
        return false;
    }
    if (v.kind == VAL_FRAG) v = (Value){.kind = VAL_REGS, .type = v.type, .frag = v.frag,
                                        .slot = v.slot, .ncount = 1};
    if (v.kind == VAL_VIEW) {
        v.kind = VAL_POINTER;
        v.index = expr_const(r->x, 0);
    }
    v.readonly = v.readonly || p->flags & AST_F_CONST;
    return scope_add(r, p->name, p->loc, v) != NULL;
}

// T &x: the caller's variable under another name; an element lives in a scalar meanwhile.
static bool bind_reference(Resolve *r, const AstNode *p, const AstNode *arg, const Symbol *s,
                           int copy, i32 type)
{
    int scalar = copy >= 0 ? copy : s && s->mutable ? s->scalar : -1;
    if (scalar < 0) {
        resolve_error(r, arg->loc, "declare it `mutable`",
                      "the parameter '%s' is a reference; it needs a mutable variable", p->name);
        return false;
    }
    if ((i32)r->k->scalars.at[scalar].type != type) {
        resolve_error(r, arg->loc, NULL,
                      "the parameter '%s' is a reference to %s, the variable is %s", p->name,
                      p->type->name, dtype_name[r->k->scalars.at[scalar].type]);
        return false;
    }
    Symbol *inner = scope_add(r, p->name, p->loc, resolve_scalar_read(r, scalar, arg->loc));
    if (!inner) return false;
    inner->mutable = true;
    inner->scalar = scalar;
    return true;
}

static bool bind_value(Resolve *r, const AstNode *fn, const AstNode *p, Value v, i32 type, Loc loc)
{
    v = resolve_convert(r, v, (DType)type, loc);
    if (v.kind == VAL_NONE) return false;
    if (!call_changes(fn->body, p->name)) {
        resolve_define(r, p, p->name, v);
        return true;
    }
    int id = resolve_new_scalar(r, p->name, (DType)type, loc);
    map_put(r->mutables, r->k->scalars.at[id].name, r);
    resolve_set(r, id, value_tree(r, &v, loc), loc);
    Symbol *s = scope_add(r, p->name, p->loc, resolve_scalar_read(r, id, loc));
    if (!s) return false;
    s->mutable = true;
    s->scalar = id;
    return true;
}

static void evaluate(Resolve *r, const AstNode *e, Arguments *a)
{
    for (int i = 0; i < e->list.n && i < CALL_MAX_PARAMS; i++) {
        a->value[i] = resolve_expr(r, e->list.at[i]);
        a->copy[i] = -1;
    }
}

// An element that is taken by reference: its value goes to a scalar before the call ...
static void copy_in(Resolve *r, const AstNode *arg, Arguments *a, int i)
{
    int reg = call_register(r, arg);
    if (reg >= 0) {
        a->copy[i] = reg;
        return;
    }
    bool element = arg->kind == AST_AT || arg->kind == AST_INDEX ||
                   (arg->kind == AST_UNARY && arg->op == AST_OP_DEREF);
    if (!element || a->value[i].kind != VAL_SCALAR) return;
    a->copy[i] = resolve_new_scalar(r, "element", a->value[i].type, arg->loc);
    map_put(r->mutables, r->k->scalars.at[a->copy[i]].name, r);
    resolve_set(r, a->copy[i], value_tree(r, &a->value[i], arg->loc), arg->loc);
}

// ... and back behind it.
static void copy_out(Resolve *r, const AstNode *arg, int scalar)
{
    if (call_register(r, arg) == scalar) return;
    AstNode name = {.kind = AST_NAME, .loc = arg->loc,
                    .name = intern(r->m->names, "value behind the call")};
    AstNode set = {.kind = AST_ASSIGN, .op = AST_OP_ASSIGN, .loc = arg->loc,
                   .target = (AstNode *)(uintptr_t)arg, .value = &name};
    int mark = scope_push(r);
    scope_add(r, name.name, arg->loc, resolve_scalar_read(r, scalar, arg->loc));
    resolve_stmt(r, &set);
    scope_pop(r, mark);
}

// ---- which helper ------------------------------------------------------------------------------

// The type that a parameter has in this call, -1: none.
static i32 param_type(const AstNode *p, const Map *types)
{
    if (!p->type) return -1;
    if (p->type->dtype >= 0) return p->type->dtype;
    return (i32)(intptr_t)map_get(types, p->type->name) - 1;
}

// Type parameters from the template arguments, then from the call's arguments.
static Map *deduce(Resolve *r, const AstNode *e, const AstNode *fn, const Arguments *a)
{
    Map *types = map_new(r->arena);
    for (int i = 0; i < fn->list2.n && i < e->list2.n; i++) {
        const AstNode *p = fn->list2.at[i], *given = e->list2.at[i];
        if (!p->type && given->kind == AST_TYPE)
            map_put(types, p->name, (void *)(intptr_t)(call_dtype(r, given) + 1));
    }
    for (int i = 0; i < fn->list.n && i < e->list.n && i < CALL_MAX_PARAMS; i++) {
        const AstNode *p = fn->list.at[i];
        const Value *v = &a->value[i];
        if (!p->type || p->type->dtype >= 0 || map_get(types, p->type->name)) continue;
        for (int k = 0; k < fn->list2.n; k++)
            if (!fn->list2.at[k]->type && fn->list2.at[k]->name == p->type->name &&
                (v->kind == VAL_SCALAR || is_array(v)))
                map_put(types, p->type->name, (void *)(intptr_t)((int)v->type + 1));
    }
    return types;
}

// How well a helper fits the arguments: -1 not at all, else more is better.
static int fit(Resolve *r, const AstNode *e, const AstNode *fn, const Arguments *a)
{
    if (fn->list.n != e->list.n || e->list2.n > fn->list2.n) return -1;
    Map *types = deduce(r, e, fn, a);
    int points = fn->list2.n ? 0 : 1; // a plain function is preferred to a template
    for (int i = 0; i < fn->list.n && i < CALL_MAX_PARAMS; i++) {
        const AstNode *p = fn->list.at[i];
        const Value *v = &a->value[i];
        i32 type = param_type(p, types);
        if (type < 0) return -1;
        if (((p->flags & AST_F_POINTER) != 0) != is_array(v)) return -1;
        if ((i32)v->type == type) points += 4;
        else if (p->flags & AST_F_POINTER) return -1;
        else if (dtype_is_float(v->type) == dtype_is_float((DType)type)) points += 2;
    }
    return points;
}

static const char *last_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

// All nodes of a library function stand where it is called.
static void put_at(AstNode *n, Loc loc)
{
    if (!n) return;
    n->loc = loc;
    AstNode *const part[] = {n->type, n->target, n->cond, n->value, n->body, n->alt};
    for (int i = 0; i < COUNT(part); i++) put_at(part[i], loc);
    const AstList *const lists[] = {&n->list, &n->list2, &n->list3, &n->list4, &n->attrs};
    for (int k = 0; k < COUNT(lists); k++)
        for (int i = 0; i < lists[k]->n; i++) put_at(lists[k]->at[i], loc);
}

static const AstPart *library_part(Resolve *r, const char *name, Loc loc)
{
    const TileLibraryFunction *f = tile_library(name);
    if (!f) return NULL;
    AstFile *file = ast_parse(r->arena, r->m->names, diag_new(r->arena), loc.file, f->text,
                              strlen(f->text), NULL, 0);
    for (int i = 0; i < file->nparts; i++) {
        if (file->parts[i].kind != PART_DEVICE) continue;
        if (!file->parts[i].fn) BUG("library function %s: %s", name, file->parts[i].why);
        put_at(file->parts[i].fn, loc);
        return &file->parts[i];
    }
    BUG("library function %s has no text", name);
}

// The part with that name that fits best; the first one when none fits.
static const AstPart *find_helper(Resolve *r, const AstNode *e, const Arguments *a)
{
    const AstPart *best = NULL;
    int points = -2;
    for (int i = 0; r->file && i < r->file->nparts; i++) {
        const AstPart *part = &r->file->parts[i];
        if (part->kind != PART_DEVICE || !part->name || strcmp(part->name, last_name(e->name)))
            continue;
        int now = part->fn ? fit(r, e, part->fn, a) : -1;
        if (now > points || (now == points && !best->fn)) best = part, points = now;
    }
    return best;
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
    if (e->list.n != fn->list.n || e->list.n > CALL_MAX_PARAMS) {
        resolve_error(r, e->loc, NULL, "'%s' takes %d argument%s, found %d", e->name, fn->list.n,
                      fn->list.n == 1 ? "" : "s", e->list.n);
        return false;
    }
    for (int i = 0; i < fn->list.n; i++) {
        if (fn->list.at[i]->type && fn->list.at[i]->name) continue;
        resolve_unsupported(r, e->list.at[i]->loc, "a parameter without a name");
        return false;
    }
    if (r->call_depth >= CALL_MAX_DEPTH) {
        resolve_error(r, e->loc, NULL,
                      "calls of device functions nest deeper than %d, or '%s' calls itself",
                      CALL_MAX_DEPTH, e->name);
        return false;
    }
    return true;
}

// ---- the call ----------------------------------------------------------------------------------

// Template parameters that are values become names; each must be given.
static bool bind_template(Resolve *r, const AstNode *e, const AstNode *fn, Map *caller, Map *callee)
{
    for (int i = 0; i < fn->list2.n; i++) {
        const AstNode *p = fn->list2.at[i];
        if (!p->type) continue;
        if (i >= e->list2.n || e->list2.at[i]->kind == AST_TYPE) {
            resolve_error(r, e->loc, "write `call f<4>(..)`",
                          "the template parameter '%s' of '%s' has no value", p->name, e->name);
            return false;
        }
        Value v = resolve_expr(r, e->list2.at[i]);
        i64 n;
        if (v.kind == VAL_NONE) return false;
        if (v.kind != VAL_SCALAR || !v.index || !expr_is_const(v.index, &n)) {
            resolve_error(r, e->list2.at[i]->loc, NULL, "a template argument must be a constant");
            return false;
        }
        v.type = p->type->dtype >= 0 ? (DType)p->type->dtype : DT_S32;
        r->names = callee;
        resolve_define(r, p, p->name, v);
        r->names = caller;
    }
    return true;
}

// The arguments are the caller's business, the names that they get the helper's.
static bool bind_arguments(Resolve *r, const AstNode *e, const AstNode *fn, Arguments *a,
                           const Map *types, Map *callee)
{
    Map *caller = r->names;
    bool ok = bind_template(r, e, fn, caller, callee);
    for (int i = 0; i < fn->list.n && ok; i++) {
        const AstNode *p = fn->list.at[i], *arg = e->list.at[i];
        const Symbol *s = arg->kind == AST_NAME ? scope_find(r, arg->name) : NULL;
        i32 type = param_type(p, types);
        if (a->value[i].kind == VAL_NONE) return false;
        if (type < 0) {
            resolve_unsupported(r, arg->loc, "a parameter of type '%s'", p->type->name);
            return false;
        }
        if (is_reference(p)) copy_in(r, arg, a, i);
        r->names = callee;
        ok = p->flags & AST_F_POINTER ? bind_array(r, p, a->value[i], type, arg->loc)
             : is_reference(p)        ? bind_reference(r, p, arg, s, a->copy[i], type)
                                      : bind_value(r, fn, p, a->value[i], type, arg->loc);
        r->names = caller;
    }
    return ok;
}

// The type of the result: -1 for void. False: it is none that values have.
static bool result_type(Resolve *r, const AstNode *e, const AstNode *fn, const Map *types, i32 *out)
{
    *out = fn->type ? fn->type->dtype : -1;
    if (*out >= 0 || !fn->type || !fn->type->name || !strcmp(fn->type->name, "void")) return true;
    *out = (i32)(intptr_t)map_get(types, fn->type->name) - 1;
    if (*out >= 0) return true;
    resolve_unsupported(r, e->loc, "device functions that return '%s'", fn->type->name);
    return false;
}

// A scalar that is 0 here and 1 once a return has left a loop.
static int return_flag(Resolve *r, Loc loc)
{
    int flag = resolve_new_scalar(r, "returned", DT_S32, loc);
    map_put(r->mutables, r->k->scalars.at[flag].name, r);
    Value zero = value_index(r, expr_const(r->x, 0), DT_S32);
    resolve_set(r, flag, value_tree(r, &zero, loc), loc);
    return flag;
}

// The body in the place of the call. What surrounds the call is no part of it.
static void inline_body(Resolve *r, InlineCall *c)
{
    const AstNode *helper = r->helper;
    InlineCall *call = r->call;
    LoopPath *loop = r->loop;
    bool tail = r->tail;
    r->loop = NULL;
    r->tail = false;
    r->helper = c->fn;
    r->call = c;
    c->block = r->at;
    if (returns_in_loop(c->fn->body)) c->flag = return_flag(r, c->fn->loc);
    resolve_block(r, c->fn->body);
    r->call = call;
    r->helper = helper;
    r->loop = loop;
    r->tail = tail;
}

// The helper with its arguments, which are those of e.
// A tile that is given to a helper is read there, whatever the helper does with it: the slot that it
// lies in is not handed back before the call is over.
static void uses_of_tiles(Resolve *r, const AstNode *e, const Arguments *a)
{
    for (int i = 0; i < e->list.n && i < CALL_MAX_PARAMS && !r->in_apply; i++) {
        const Value *v = &a->value[i];
        if (v->kind != VAL_VIEW || r->k->buffers.at[v->view.buffer].kind != TB_SHARED) continue;
        resolve_emit(r, TOP_USE, e->loc)->src = v->view;
    }
}

static Value inline_call(Resolve *r, const AstNode *e, const AstPart *part, Arguments *a,
                         bool as_value)
{
    if (!check_helper(r, e, part)) return value_none();
    const AstNode *fn = part->fn;
    InlineCall c = {.fn = fn, .scalar = -1, .flag = -1, .value = value_none()};
    c.of_library = fn->name && tile_library(fn->name) != NULL;
    c.types = deduce(r, e, fn, a);
    i32 type;
    if (!result_type(r, e, fn, c.types, &type)) return value_none();
    c.returns = type >= 0;
    c.type = c.returns ? (DType)type : DT_S32;
    if (as_value && !c.returns) {
        resolve_error(r, e->loc, NULL, "'%s' returns no value", e->name);
        return value_none();
    }
    if (!r->call_depth++) r->call_statements = 0;
    Map *caller = r->names, *callee = map_new(r->arena);
    int mark = scope_push(r), errors = diag_errors(r->diag);
    bool bound = bind_arguments(r, e, fn, a, c.types, callee);
    r->names = callee;
    if (bound) inline_body(r, &c);
    if (bound && !c.of_library) uses_of_tiles(r, e, a);
    scope_pop(r, mark);
    r->names = caller;
    for (int i = 0; bound && i < fn->list.n; i++)
        if (a->copy[i] >= 0) copy_out(r, e->list.at[i], a->copy[i]);
    r->call_depth--;
    if (!c.returns || diag_errors(r->diag) != errors) return value_none();
    if (!always_returns(fn->body)) {
        resolve_error(r, fn->loc, NULL, "'%s' can end without a return", fn->name);
        return value_none();
    }
    return c.scalar >= 0 ? resolve_scalar_read(r, c.scalar, e->loc) : c.value;
}

// A built-in function of library.c with arguments that are values already.
Value call_library(Resolve *r, const char *name, const Value *arg, int n, Loc loc)
{
    if (!r->at) {
        resolve_error(r, loc, NULL, "'%s' can only be called inside `parallel`", name);
        return value_none();
    }
    Arguments a = {0};
    AstNode none = {.kind = AST_ERROR, .loc = loc}, *at[4] = {&none, &none, &none, &none};
    AstNode e = {.kind = AST_CALL, .loc = loc, .name = name, .list = {at, n}};
    for (int i = 0; i < n; i++) {
        a.value[i] = arg[i];
        a.copy[i] = -1;
    }
    return inline_call(r, &e, library_part(r, name, loc), &a, true);
}

// call f(args); as a statement its value is dropped, and it need not have one.
Value resolve_call_helper(Resolve *r, const AstNode *e, bool as_value)
{
    if (!r->at) {
        resolve_error(r, e->loc, NULL, "a device function can only be called inside `parallel`");
        return value_none();
    }
    Arguments a;
    evaluate(r, e, &a);
    const AstPart *part = r->call && r->call->of_library ? library_part(r, e->name, e->loc) : NULL;
    return inline_call(r, e, part ? part : find_helper(r, e, &a), &a, as_value);
}
