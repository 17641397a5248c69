// resolve_stmt.c - statements: declarations, assignments, loops, branches.
//
// An immutable integer has no place in the tile IR, it is its expression. So that the expression
// keeps its value, a name whose definition uses a mutable variable gets a scalar of its own.
#include "resolve.h"

#include <string.h>

// ---- definitions -------------------------------------------------------------------------------

// Integers are read as expressions, everything else as a tree.
Value resolve_scalar_read(Resolve *r, int scalar, Loc loc)
{
    const TileScalar *s = &r->k->scalars.at[scalar];
    if (!dtype_is_float(s->type) && s->type != DT_BOOL)
        return value_index(r, expr_var(r->x, s->name), s->type);
    TExpr *x = ARENA_NEW(r->arena, TExpr);
    *x = (TExpr){.kind = TX_SCALAR, .type = s->type, .loc = loc, .scalar = scalar};
    return value_texpr(x);
}

static void emit_set(Resolve *r, int scalar, const Value *v, Loc loc)
{
    resolve_set(r, scalar, value_tree(r, v, loc), loc);
}

// An alias keeps the place that it had when it was defined.
static void freeze_view(Resolve *r, TileView *v, const char *name, Loc loc)
{
    if (v->slot) v->slot = resolve_freeze(r, v->slot, name, loc);
    for (int d = 0; d < r->k->buffers.at[v->buffer].rank; d++) {
        v->origin[d] = resolve_freeze(r, v->origin[d], name, loc);
        v->extent[d] = resolve_freeze(r, v->extent[d], name, loc);
        v->limit[d] = resolve_freeze(r, v->limit[d], name, loc);
    }
}

enum { KEEP_NODES = 64 };

// Nodes of a tree, at most `most` of them counted.
static int tree_size(const TExpr *x, int most)
{
    if (!x || most <= 0) return 0;
    int n = 1;
    n += tree_size(x->a, most - n);
    n += tree_size(x->b, most - n);
    return n + tree_size(x->c, most - n);
}

// A scalar that other statements may change between here and its use must be kept now.
static Value keep_scalar(Resolve *r, Value v, const char *name, Loc loc)
{
    bool constant = v.x && v.x->kind == TX_FLOAT;
    if (v.index && (!r->at || v.type != DT_BOOL)) v.x = NULL;
    if (constant || !r->at) return v;
    // A large condition is computed once, not at every use.
    if (v.index && !resolve_uses_mutable(r, v.index) && tree_size(v.x, KEEP_NODES) < KEEP_NODES)
        return v;
    int s = resolve_new_scalar(r, name, v.type, loc);
    emit_set(r, s, &v, loc);
    if (v.index && v.type != DT_BOOL) resolve_keep_range(r, s, v.index);
    return resolve_scalar_read(r, s, loc);
}

// Gives `name` its meaning, for as long as its block lasts.
void resolve_define(Resolve *r, const AstNode *where, const char *name, Value v)
{
    Loc loc = where->loc;
    switch (v.kind) {
    case VAL_SCALAR:
        if (v.index && expr_uses(v.index, intern(r->m->names, "too.deep"))) {
            resolve_error(r, loc, "declare it `mutable int`", "'%s' is too large an expression",
                          name);
            v = value_none();
            break;
        }
        v = keep_scalar(r, v, name, loc);
        break;
    case VAL_LIST:
        for (int i = 0; i < v.n; i++) {
            v.item[i].index = resolve_freeze(r, v.item[i].index, name, loc);
            v.item[i].bound = resolve_freeze(r, v.item[i].bound, name, loc);
        }
        break;
    case VAL_VIEW: freeze_view(r, &v.view, name, loc); break;
    case VAL_ARRAY: break;
    case VAL_NONE: break;
    default:
        resolve_error(r, loc, v.kind == VAL_FRAG ? "declare a fragment and `copy(dst, src)`" : NULL,
                      "'%s' cannot name %s", name, value_describe(r, &v));
        v = value_none();
    }
    scope_add(r, name, loc, v);
}

static bool usable_type(Resolve *r, const AstNode *type, DType *out)
{
    i32 known = call_dtype(r, type);
    if (known < 0) {
        resolve_unsupported(r, type->loc, "variables of type '%s'", type->name);
        return false;
    }
    *out = (DType)known;
    if (*out != DT_F64) return true;
    resolve_unsupported(r, type->loc, "variables of type f64");
    return false;
}

// mutable [T] x = e: a scalar of the tile IR, one copy a thread.
static void mutable_decl(Resolve *r, const AstNode *s, Value v, bool typed, DType type)
{
    if (!r->at) {
        resolve_unsupported(r, s->loc, "mutable variables outside `parallel`");
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    if (s->value && (v.kind != VAL_SCALAR)) {
        if (v.kind != VAL_NONE)
            resolve_error(r, s->loc, NULL, "a mutable variable is a number, found %s",
                          value_describe(r, &v));
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    if (!typed) type = v.type;
    if (!typed && type == DT_F64) {
        v = resolve_convert(r, v, DT_F32, s->loc);
        type = DT_F32;
    }
    if (v.kind == VAL_NONE && s->value) {
        scope_add(r, s->name, s->loc, v);
        return;
    }
    int id = resolve_new_scalar(r, s->name, type, s->loc);
    map_put(r->mutables, r->k->scalars.at[id].name, r);
    if (s->value) emit_set(r, id, &v, s->loc);
    Symbol *sym = scope_add(r, s->name, s->loc, resolve_scalar_read(r, id, s->loc));
    if (!sym) return;
    sym->mutable = true;
    sym->scalar = id;
}

// T x = e;  mutable T x = e;  mutable x = e;
static void scalar_decl(Resolve *r, const AstNode *s)
{
    if (s->type && s->type->name && !strcmp(s->type->name, "stream")) {
        if (r->at || s->value)
            resolve_error(r, s->loc, "`stream st;` in front of the kernels",
                          "a stream is declared on the host level, without a value");
        scope_add(r, s->name, s->loc, (Value){.kind = VAL_OTHER, .what = "a stream"});
        return;
    }
    if (r->call && (s->list.n || s->flags & AST_F_POINTER)) {
        call_array_decl(r, s);
        return;
    }
    if (s->flags & AST_F_REF) {
        resolve_unsupported(r, s->loc, "references in a device helper, but for its parameters");
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    bool is_mutable = s->flags & AST_F_MUTABLE;
    bool is_auto = s->type && s->type->name && !strcmp(s->type->name, "auto");
    bool typed = s->type && !is_auto;
    DType type = DT_S32;
    bool ok = !typed || usable_type(r, s->type, &type);
    Value v = s->value ? resolve_expr(r, s->value) : value_none();
    if (typed && ok && s->value) v = resolve_convert(r, v, type, s->value->loc);
    if (!s->value && (!is_mutable || !typed)) {
        resolve_error(r, s->loc,
                      is_mutable ? "give it a type or a value"
                                 : "write `mutable T x;`, or give it a value",
                      "'%s' has no value", s->name);
        ok = false;
    }
    if (!ok) {
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    if (is_mutable)
        mutable_decl(r, s, v, typed, type);
    else
        resolve_define(r, s, s->name, v);
}

// s : [a, b];  ituple t = {a, b};
static void list_decl(Resolve *r, const AstNode *s)
{
    bool shape = s->kind == AST_SPAN_DECL;
    Value v = resolve_expr(r, s->value);
    if (v.kind == VAL_LIST && v.shape == shape) {
        resolve_define(r, s, s->name, v);
        return;
    }
    if (v.kind != VAL_NONE)
        resolve_error(r, s->value->loc,
                      shape ? "a tuple is defined with `t = {1, 2}`"
                            : "a shape is defined with `s : [a, b]`",
                      "'%s' must be a %s, found %s", s->name, shape ? "shape" : "tuple",
                      value_describe(r, &v));
    scope_add(r, s->name, s->loc, value_none());
}

// ---- shared buffers ----------------------------------------------------------------------------

// Where a buffer may be declared and what its declaration may say.
static bool buffer_decl_rules(Resolve *r, const AstNode *s)
{
    if (s->storage == STOR_GLOBAL) {
        resolve_unsupported(r, s->loc, "global buffers of the function");
        return false;
    }
    if (!r->at) {
        if (s->storage == STOR_NONE)
            resolve_unsupported(r, s->loc, "buffers on the host");
        else
            resolve_error(r, s->loc, NULL, "a %s buffer can only stand inside `parallel`",
                          ast_storage_name(s->storage));
        return false;
    }
    if (r->in_apply) {
        resolve_error(r, s->loc, NULL, "a buffer inside an apply");
        return false;
    }
    if (s->value && s->storage == STOR_SHARED) {
        resolve_error(r, s->value->loc, "fill it with a copy or a loop",
                      "a shared buffer cannot have an initialiser");
        return false;
    }
    if (s->type->flags & (AST_F_AUTO_DIMS | AST_F_RANK_ONLY)) {
        resolve_unsupported(r, s->type->loc, "this kind of shape for a buffer");
        return false;
    }
    if (s->type->dtype < 0) {
        resolve_unsupported(r, s->type->loc, "buffers of type '%s'", s->type->name);
        return false;
    }
    int rank = s->type->list.n;
    int most = s->storage == STOR_SHARED ? TILE_MAX_RANK : RESOLVE_LOCAL_RANK;
    if (rank < 1 || rank > most) {
        resolve_error(r, s->type->loc, NULL, "a buffer of rank %d; it has 1 to %d dimensions", rank,
                      most);
        return false;
    }
    if (s->list.n > 2) {
        resolve_error(r, s->loc, NULL, "an array of buffers has at most 2 dimensions");
        return false;
    }
    return true;
}

// The extents of a buffer: constants, or the shape of another tile (`[s.span]`). Returns the number
// of elements, 0 after an error.
static i64 buffer_extents(Resolve *r, const AstNode *s, TileBuffer *b)
{
    i64 n, total = 1;
    for (int i = 0; i < s->type->list.n; i++) {
        const AstNode *e = s->type->list.at[i];
        Value v = e->kind == AST_MEMBER || e->kind == AST_NAME ? resolve_expr(r, e) : value_none();
        if (v.kind != VAL_LIST) {
            const char *what = b->kind == TB_LOCAL ? "an extent of a local buffer"
                                                   : "an extent of a shared buffer";
            if (!resolve_const(r, e, what, 1, 1 << 20, &n)) return 0;
            v = (Value){.n = 1, .item = {{expr_const(r->x, n), NULL}}};
        }
        for (int k = 0; k < v.n; k++) {
            bool fits = expr_is_const(v.item[k].index, &n) && n > 0 && n <= 1 << 20;
            if (!fits || b->rank == TILE_MAX_RANK) {
                resolve_error(r, e->loc, NULL, fits ? "a buffer of more than %d dimensions"
                                                    : "the extents of a buffer are constants",
                              TILE_MAX_RANK);
                return 0;
            }
            total = MIN(total * n, (i64)1 << 32);
            b->dim[b->rank++] = v.item[k].index;
        }
    }
    return total;
}

// local T [dims] x {v}: each element of each thread's own buffer is v.
static void fill_local(Resolve *r, const AstNode *s, int buffer, i64 elements)
{
    const TileBuffer *b = &r->k->buffers.at[buffer];
    Value v = resolve_convert(r, resolve_expr(r, s->value), b->type, s->value->loc);
    if (v.kind == VAL_NONE) return;
    TileOp *loop = resolve_emit(r, TOP_FOR, s->loc);
    loop->var = resolve_var(r, intern(r->m->names, "element"));
    loop->lo = expr_const(r->x, 0);
    loop->hi = expr_const(r->x, elements);
    loop->step = expr_const(r->x, 1);
    expr_set_range(r->x, loop->var, 0, elements - 1);
    TileBlock *saved = r->at;
    r->at = &loop->body;
    TileOp *o = resolve_emit(r, TOP_STORE, s->loc);
    o->elem = view_of_buffer(r, buffer).view;
    const Expr *rest = expr_var(r->x, loop->var);
    for (int d = b->rank - 1; d >= 0; d--) {
        o->elem.origin[d] = d ? expr_bin(r->x, EX_MOD, rest, b->dim[d]) : rest;
        o->elem.extent[d] = expr_const(r->x, 1);
        rest = expr_bin(r->x, EX_DIV, rest, b->dim[d]);
    }
    o->elem.rank = 0;
    o->value = value_tree(r, &v, s->loc);
    r->at = saved;
}

// shared T [dims] name[N][M]: an array is one buffer with N * M slots. So is `local`.
void resolve_buffer_decl(Resolve *r, const AstNode *s)
{
    if (!r->at && r->returns && s->storage == STOR_NONE && s->type->dtype >= 0) {
        resolve_result_decl(r, s);
        return;
    }
    bool local = s->storage != STOR_SHARED;
    TileBuffer b = {.name = s->name, .kind = local ? TB_LOCAL : TB_SHARED, .param = -1, .slots = 1,
                    .loc = s->loc};
    bool ok = buffer_decl_rules(r, s);
    b.handoff = resolve_handoff(r, s);
    i64 n, elements = ok ? buffer_extents(r, s, &b) : 0, bytes = elements;
    ok = elements > 0;
    if (ok && local && b.rank > RESOLVE_LOCAL_RANK) {
        resolve_error(r, s->type->loc, NULL, "a local buffer of rank %d; at most %d", b.rank,
                      RESOLVE_LOCAL_RANK);
        ok = false;
    }
    Value v = {.kind = VAL_ARRAY};
    for (int i = 0; ok && i < s->list.n; i++) {
        ok = resolve_const(r, s->list.at[i], "the length of an array", 1, 4096, &n);
        if (ok) v.count[v.ncount++] = (int)n;
        if (ok) b.slots = (int)MIN((i64)b.slots * n, 1 << 20);
    }
    if (ok) {
        b.type = (DType)s->type->dtype;
        bytes = MIN(bytes * b.slots, (i64)1 << 40) * dtype_bytes[b.type];
        if (bytes > 227 * 1024) {
            resolve_error(r, s->loc, NULL,
                          "'%s' needs %lld bytes; a block has %d bytes of shared memory", s->name,
                          (long long)bytes, 227 * 1024);
            ok = false;
        }
    }
    if (!ok) {
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    int id;
    if (v.ncount) {
        id = resolve_add_buffer(r, b);
        v.buffer = id;
        v.type = b.type;
        v.view.buffer = id;
    } else {
        v = resolve_declare_buffer(r, s, b);
        id = v.buffer;
    }
    if (s->swizzle) resolve_swizzle(r, id, s);
    scope_add(r, s->name, s->loc, v);
    if (s->value && v.ncount)
        resolve_unsupported(r, s->value->loc, "an initialiser of an array of buffers");
    else if (s->value)
        fill_local(r, s, id, elements);
}

// ---- assignments -------------------------------------------------------------------------------

// The value of `target op= e`, or of `target = e`, as the type of the target.
static bool assigned_value(Resolve *r, const AstNode *s, Value old, DType type, bool element,
                           Value *out)
{
    Value v = resolve_expr(r, s->value);
    if (s->op != AST_OP_ASSIGN) v = math_binary(r, (AstOp)s->op, old, v, s->loc);
    if (v.kind == VAL_NONE) return false;
    bool constant = (v.x && v.x->kind == TX_FLOAT) || (v.index && v.index->op == EX_CONST);
    constant = constant || r->call; // C converts
    if (element && v.kind == VAL_SCALAR && v.type != type && !constant) {
        resolve_error(r, s->value->loc,
                      arena_printf(r->arena, "convert with `__to<%s>(..)`", dtype_name[type]),
                      "the element has type %s, the value %s", dtype_name[type],
                      dtype_name[v.type]);
        return false;
    }
    *out = resolve_convert(r, v, type, s->value->loc);
    return out->kind != VAL_NONE;
}

// x.at(i, j) = e, also with an operator: of a fragment or of memory.
static void assign_element(Resolve *r, const AstNode *s)
{
    r->is_target = true;
    Value t = resolve_expr(r, s->target);
    r->is_target = false;
    if (t.kind == VAL_NONE || !t.x) return;
    const TExpr *x = t.x;
    Value v;
    if (!assigned_value(r, s, t, x->type, true, &v)) return;
    if (x->kind == TX_FRAG) {
        TileOp *o = resolve_emit(r, TOP_FSET, s->loc);
        o->frag = x->frag;
        o->frag_slot = x->slot;
        memcpy(o->elem_at, x->at, sizeof o->elem_at);
        o->value = value_tree(r, &v, s->loc);
        return;
    }
    if (x->kind != TX_ELEM) return;
    resolve_pending(r, x->view, s->target->loc);
    view_used(r, x->view, true, s->target->loc);
    if (s->op != AST_OP_ASSIGN) view_used(r, x->view, false, s->target->loc);
    TileOp *o = resolve_emit(r, TOP_STORE, s->loc);
    o->elem = *x->view;
    o->value = value_tree(r, &v, s->loc);
}

static void assign_mutable(Resolve *r, const AstNode *s, int scalar)
{
    DType type = r->k->scalars.at[scalar].type;
    Value v;
    if (!assigned_value(r, s, resolve_scalar_read(r, scalar, s->loc), type, false, &v)) return;
    emit_set(r, scalar, &v, s->loc);
}

// x = e: sets a mutable name, else declares x in this block.
static void assign_name(Resolve *r, const AstNode *s)
{
    const char *name = s->target->name;
    Symbol *sym = scope_find(r, name);
    if (sym && sym->mutable) {
        assign_mutable(r, s, sym->scalar);
        return;
    }
    bool silent = sym && sym->value.kind == VAL_NONE;
    if (s->op != AST_OP_ASSIGN) {
        if (!sym)
            resolve_expr(r, s->target); // says that the name is unknown
        else if (!silent)
            resolve_error(r, s->target->loc, "declare it `mutable`",
                          "'%s' is not mutable; only mutables can be re-assigned", name);
        return;
    }
    if (sym && sym->depth == r->depth && !silent) {
        resolve_error(r, s->target->loc, "declare it `mutable`",
                      "'%s' is not mutable; only mutables can be re-assigned", name);
        return;
    }
    if (sym && !silent && sym->depth > 0)
        diag(r->diag, SEV_NOTE, s->target->loc, NULL,
             "a new '%s' is declared here; it hides the one of line %u", name, sym->loc.line);
    Value v = resolve_expr(r, s->value);
    if (v.kind == VAL_LIST && v.shape && s->value->kind == AST_SPAN) {
        resolve_error(r, s->loc, "a shape is defined with `s : [a, b]`",
                      "'=' cannot define a shape");
        v = value_none();
    }
    resolve_define(r, s->target, name, v);
}

static void assign(Resolve *r, const AstNode *s)
{
    const AstNode *t = s->target;
    if (!t || t->kind == AST_ERROR) return;
    if (t->kind == AST_NAME) {
        assign_name(r, s);
    } else if (t->kind == AST_AT) {
        assign_element(r, s);
    } else if (r->call && (t->kind == AST_INDEX || t->kind == AST_UNARY)) {
        int scalar = call_register(r, t);
        if (scalar >= 0)
            assign_mutable(r, s, scalar);
        else
            assign_element(r, s);
    } else {
        Value v = resolve_expr(r, t);
        if (v.kind != VAL_NONE)
            resolve_error(r, t->loc, "an element is `x.at(i, j)`", "%s cannot be assigned to",
                          value_describe(r, &v));
    }
}

// ---- expressions as statements -----------------------------------------------------------------

void resolve_step(Resolve *r, const Symbol *s, bool plus, Loc loc)
{
    Value one = value_index(r, expr_const(r->x, 1), DT_S32);
    Value v = math_binary(r, plus ? AST_OP_ADD : AST_OP_SUB, s->value, one, loc);
    v = resolve_convert(r, v, r->k->scalars.at[s->scalar].type, loc);
    if (v.kind != VAL_NONE) emit_set(r, s->scalar, &v, loc);
}

// x++ and its kin as statements.
static void increment(Resolve *r, const AstNode *e)
{
    const AstNode *name = e->value;
    const Symbol *s = name && name->kind == AST_NAME ? scope_find(r, name->name) : NULL;
    if (s && s->mutable) {
        resolve_step(r, s, e->op == AST_OP_PREINC || e->op == AST_OP_POSTINC, e->loc);
        return;
    }
    Value v = resolve_expr(r, name);
    if (v.kind != VAL_NONE)
        resolve_error(r, e->loc, "declare it `mutable`", "'%s' needs a mutable variable",
                      ast_op_text(e->op));
}

// Register hand-over; any other call is an expression without use.
static void call_statement(Resolve *r, const AstNode *e)
{
    static const char *const inc = "croq::cuda::setreg_inc", *const dec = "croq::cuda::setreg_dec";
    bool is_inc = e->name && !strcmp(e->name, inc), is_dec = e->name && !strcmp(e->name, dec);
    bool c_call = r->helper && e->name && !(e->flags & AST_F_BUILTIN) && !scope_find(r, e->name);
    if (!is_inc && !is_dec && e->kind == AST_CALL && (e->flags & AST_F_CALL || c_call)) {
        resolve_call_helper(r, e, false);
        return;
    }
    Value device;
    if (resolve_device_call(r, e, &device)) return; // its result may be left alone
    if (!is_inc && !is_dec) {
        Value v = resolve_expr(r, e);
        if (v.kind != VAL_NONE)
            resolve_warning(r, e->loc, NULL, "the value of this expression is not used");
        return;
    }
    i64 n;
    if (!r->at || r->in_apply) {
        resolve_error(r, e->loc, NULL, "setreg can only stand inside `parallel`");
        return;
    }
    if (e->list.n != 1) {
        resolve_error(r, e->loc, NULL, "setreg takes 1 argument, found %d", e->list.n);
        return;
    }
    if (!resolve_const(r, e->list.at[0], "the register count", 24, 256, &n)) return;
    if (n % 8) {
        resolve_error(r, e->list.at[0]->loc, NULL,
                      "the register count is %lld; a multiple of 8 is required", (long long)n);
        return;
    }
    if (!resolve_whole_groups(r, e->loc, "setreg") ||
        !resolve_together(r, e->loc, "setreg", LEVEL_GROUP4))
        return;
    TileOp *o = resolve_emit(r, TOP_SETREG, e->loc);
    o->imm = is_inc ? n : -n;
}

static void expr_statement(Resolve *r, const AstNode *s)
{
    const AstNode *e = s->value;
    if (!e || e->kind == AST_ERROR) return;
    if (e->kind == AST_UNARY && e->op >= AST_OP_PREINC && e->op <= AST_OP_POSTDEC) {
        increment(r, e);
    } else if (e->kind == AST_CALL) {
        call_statement(r, e);
    } else {
        Value v = resolve_expr(r, e);
        if (v.kind != VAL_NONE) resolve_warning(r, e->loc, NULL, "this expression has no effect");
    }
}

// ---- loops -------------------------------------------------------------------------------------

// Statements from here on run only for some instances of `level`. Returns what to restore.
Control resolve_enter_control(Resolve *r, int level, Loc loc)
{
    Control c = {r->control, r->guards, r->control_loc};
    if (level > r->control) {
        r->control = level;
        r->control_loc = loc;
    }
    return c;
}

void resolve_leave_control(Resolve *r, Control c)
{
    r->control = c.level;
    r->guards = c.guards;
    r->control_loc = c.loc;
}

// Opens a loop over [lo, hi) by step and gives its variable the name. Closed by restoring r->at.
void resolve_open_loop(Resolve *r, const AstNode *at, const char *name, Loc loc, const Expr *lo,
                       const Expr *hi, const Expr *step)
{
    int level = MAX(resolve_expr_level(r, lo), resolve_expr_level(r, hi));
    resolve_enter_control(r, MAX(level, resolve_loop_level(r, at)), at->loc);
    // A start of a thread's own is added behind: the counter is one for all that are in a round.
    const Expr *start = NULL;
    if (resolve_expr_level(r, lo) >= LEVEL_WARP) {
        start = lo;
        hi = resolve_freeze(r, expr_bin(r->x, EX_SUB, hi, lo), "rounds", loc);
        lo = expr_const(r->x, 0);
    }
    if (r->loop_end >= 0) {
        Value n = value_index(r, hi, DT_S32);
        resolve_set(r, r->loop_end, value_tree(r, &n, loc), loc);
    }
    TileOp *o = resolve_emit(r, TOP_FOR, at->loc);
    o->var = resolve_var(r, name);
    o->lo = lo;
    o->hi = r->loop_end >= 0 ? expr_var(r->x, r->k->scalars.at[r->loop_end].name) : hi;
    o->step = step;
    o->stages = r->pipeline.stages;
    o->load_regs = r->pipeline.load;
    o->compute_regs = r->pipeline.compute;
    r->pipeline.stages = 0;
    r->loop_end = -1;
    i64 least, most, unused;
    expr_range(r->x, lo, &least, &unused);
    expr_range(r->x, hi, &unused, &most);
    least = MAX(least, (i64)INT32_MIN);
    most = MIN(most, (i64)INT32_MAX);
    if (most > least) expr_set_range(r->x, o->var, least, most - 1);
    Value v = value_index(r, expr_var(r->x, o->var), DT_S32);
    v.bound = start ? expr_add(r->x, start, hi) : hi;
    if (start) v.index = expr_add(r->x, start, v.index);
    scope_add(r, name, loc, v);
    r->at = &o->body;
}

// A factor of unroll beyond the rounds that there are.
static void check_unroll(Resolve *r, const AstNode *s, const Expr *rounds)
{
    i64 n, factor;
    for (int i = 0; i < s->list2.n && expr_is_const(rounds, &n); i++) {
        const AstNode *x = s->list2.at[i];
        if (x->kind == AST_ERROR || !x->name || strcmp(x->name, "unroll") || !x->list.n) continue;
        if (x->list.at[0]->kind == AST_INT && (factor = (i64)x->list.at[0]->ivalue) > n && n > 0)
            resolve_error(r, x->loc, "leave the factor out to unroll all of them",
                          "a factor of %lld for unroll; the loop has %lld rounds",
                          (long long)factor, (long long)n);
    }
}

// names in bounds: one loop per name, the first outermost.
static bool open_within(Resolve *r, const AstNode *s, const AstNode *w, int end)
{
    Value v = resolve_expr(r, w->value);
    if (v.kind == VAL_NONE) return false;
    if (v.kind == VAL_VIEW) v = view_span(r, &v, w->value->loc);
    if (v.kind == VAL_SCALAR) {
        const Expr *n = value_to_index(r, v, w->value->loc, "a bound of foreach");
        if (!n) return false;
        v = (Value){.kind = VAL_LIST, .n = 1};
        v.item[0].index = n;
    }
    if (v.kind != VAL_LIST || v.n != w->list.n) {
        resolve_error(
            r, w->loc, NULL, "%d index variable%s in %s", w->list.n, w->list.n == 1 ? "" : "s",
            v.kind == VAL_LIST ? arena_printf(r->arena, "%d bounds", v.n) : value_describe(r, &v));
        return false;
    }
    if (v.n == 1) check_unroll(r, s, v.item[0].index);
    Value tuple = {.kind = VAL_LIST, .n = v.n};
    for (int i = 0; i < v.n; i++) {
        const Expr *hi = resolve_freeze(r, v.item[i].index, "bound", w->loc);
        r->loop_end = i == v.n - 1 ? end : -1;
        resolve_open_loop(r, s, w->list.at[i]->name, w->list.at[i]->loc, expr_const(r->x, 0), hi,
                  expr_const(r->x, 1));
        const Symbol *var = scope_find(r, w->list.at[i]->name);
        Value x = var ? var->value : value_none();
        tuple.item[i] = (ListItem){x.index, x.bound};
    }
    if (w->name) scope_add(r, w->name, w->loc, tuple);
    return true;
}

// A variable of `with`, iterated over its bound, or over a part: lo and hi are offsets to the ends.
static bool open_range(Resolve *r, const AstNode *s, const AstNode *g, int end)
{
    Symbol *sym = scope_find(r, g->name);
    if (!sym || !sym->with_var) {
        if (sym && sym->value.kind == VAL_NONE) return false;
        resolve_error(r, g->loc, "write `foreach i in [n]`, or declare it with `with i in [n]`",
                      "foreach over '%s', which is not a variable of `with`", g->name);
        return false;
    }
    const Expr *part[3] = {expr_const(r->x, 0), expr_const(r->x, 0), expr_const(r->x, 1)};
    for (int i = 0; i < g->list.n && i < 3; i++) {
        if (!g->list.at[i]) continue;
        i64 step = 1;
        if (i == 2 && !resolve_const(r, g->list.at[2], "the step of a range", 1, INT32_MAX, &step))
            return false;
        part[i] = i == 2 ? expr_const(r->x, step)
                         : resolve_index(r, g->list.at[i], "an end of a range");
        if (!part[i]) return false;
    }
    const Expr *lo = resolve_freeze(r, part[0], "bound", g->loc);
    const Expr *hi = resolve_freeze(r, expr_add(r->x, sym->value.bound, part[1]), "bound", g->loc);
    r->loop_end = end;
    resolve_open_loop(r, s, g->name, g->loc, lo, hi, part[2]);
    if (g->target) scope_add(r, g->target->name, g->target->loc, scope_find(r, g->name)->value);
    return true;
}

// `: unroll`, `: unroll(n)` and `: vectorize(i, n)` are requests; the lowering decides.
static void loop_suffixes(Resolve *r, const AstNode *s)
{
    for (int i = 0; i < s->list2.n; i++) {
        const AstNode *x = s->list2.at[i];
        i64 n;
        if (x->kind == AST_ERROR || !x->name) continue;
        if (!strcmp(x->name, "unroll") && x->list.n)
            resolve_const(r, x->list.at[0], "the factor of unroll", 1, 1024, &n);
    }
}

// Whether an expression uses the name, or one that the loop's body declares.
static bool uses_inner(const Resolve *r, const AstNode *e, const char *name)
{
    if (!e) return false;
    if (e->kind == AST_NAME) return e->name == name || !scope_find(r, e->name);
    if (uses_inner(r, e->value, name) || uses_inner(r, e->cond, name) ||
        uses_inner(r, e->alt, name))
        return true;
    for (int i = 0; i < e->list.n; i++)
        if (uses_inner(r, e->list.at[i], name)) return true;
    return false;
}

// Whether arrays of fragments are indexed by the loop's variable inside.
static bool indexes_fragments(const Resolve *r, const AstNode *n, const char *name)
{
    if (!n) return false;
    const AstNode *array = n;
    bool inner = false;
    for (; array->kind == AST_INDEX && array->value; array = array->value)
        for (int i = 0; i < array->list.n; i++)
            inner = inner || uses_inner(r, array->list.at[i], name);
    const Symbol *sym = inner && array->kind == AST_NAME ? scope_find(r, array->name) : NULL;
    if (sym && sym->value.kind == VAL_FRAG) return true;
    const AstNode *const part[] = {n->target, n->cond, n->value, n->body, n->alt};
    for (int i = 0; i < COUNT(part); i++)
        if (indexes_fragments(r, part[i], name)) return true;
    const AstList *const lists[] = {&n->list, &n->list2, &n->list3, &n->list4};
    for (int k = 0; k < COUNT(lists); k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (indexes_fragments(r, lists[k]->at[i], name)) return true;
    return false;
}

enum { UNROLL_MAX = 64 };

// Registers have no run-time index: a loop over constants whose variable picks one of several
// fragments is written out, once for each value.
static bool unrolled(Resolve *r, const AstNode *s)
{
    const AstNode *w = s->list.n == 1 ? s->list.at[0] : NULL;
    if (!w || w->kind != AST_WITHIN || w->list.n != 1) return false;
    const char *name = w->list.at[0]->name;
    if (!indexes_fragments(r, s->body, name)) return false;
    Value v = resolve_expr(r, w->value);
    i64 n;
    if (v.kind == VAL_LIST && v.n == 1) v = value_index(r, v.item[0].index, DT_S32);
    if (v.kind != VAL_SCALAR || !v.index || !expr_is_const(v.index, &n) || n > UNROLL_MAX)
        return false;
    resolve_unroll(r, s, w->list.at[0], 0, 1, n);
    return true;
}

static void foreach_statement(Resolve *r, const AstNode *s)
{
    if (!r->at) {
        resolve_unsupported(r, s->loc, "foreach outside `parallel`");
        return;
    }
    if (r->loop_depth >= RESOLVE_MAX_LOOPS) {
        resolve_unsupported(r, s->loc, "loops that nest deeper than %d", RESOLVE_MAX_LOOPS);
        return;
    }
    loop_suffixes(r, s);
    if (!resolve_pipeline(r, s)) return;
    if (unrolled(r, s)) {
        if (r->pipeline.stages)
            resolve_error(r, s->loc, "index fragments with constants, or leave the attribute out",
                          "a pipeline of a loop that is written out, since it indexes fragments");
        r->pipeline.stages = 0;
        return;
    }
    TileBlock *saved = r->at;
    Control outer = {r->control, r->guards, r->control_loc};
    int mark = scope_push(r);
    r->loop_depth++;
    // A break leaves the loop of the last variable, as in nested loops.
    bool ok = true;
    int end = resolve_breaks(s->body) ? resolve_loop_end(r, NULL, s->loc) : -1;
    for (int i = 0; i < s->list.n && ok; i++) {
        const AstNode *item = s->list.at[i];
        int last = i == s->list.n - 1 ? end : -1;
        ok = item->kind == AST_WITHIN ? open_within(r, s, item, last)
                                      : item->kind == AST_RANGE && open_range(r, s, item, last);
    }
    if (ok) resolve_loop_body(r, s, end, false);
    r->loop_depth--;
    scope_pop(r, mark);
    r->at = saved;
    resolve_leave_control(r, outer);
}

// with i in [n] S: i is 0 until a foreach iterates it.
static void with_statement(Resolve *r, const AstNode *s)
{
    if (s->list2.n) {
        resolve_unsupported(r, s->list2.at[0]->loc, "`where`");
        return;
    }
    int mark = scope_push(r);
    bool ok = true;
    for (int i = 0; i < s->list.n && ok; i++) {
        const AstNode *w = s->list.at[i];
        Value v = w->kind == AST_WITHIN ? resolve_expr(r, w->value) : value_none();
        if (v.kind == VAL_SCALAR && v.index)
            v = (Value){.kind = VAL_LIST, .n = 1, .item = {{v.index, NULL}}};
        if (v.kind != VAL_LIST || v.n != w->list.n) {
            if (v.kind != VAL_NONE)
                resolve_error(r, w->loc, NULL, "each variable of `with` needs one integer bound");
            ok = false;
            continue;
        }
        Value tuple = {.kind = VAL_LIST, .n = v.n};
        for (int k = 0; k < v.n; k++) {
            Value zero = value_index(r, expr_const(r->x, 0), DT_S32);
            zero.bound = resolve_freeze(r, v.item[k].index, "bound", w->loc);
            tuple.item[k] = (ListItem){zero.index, zero.bound};
            Symbol *sym = scope_add(r, w->list.at[k]->name, w->list.at[k]->loc, zero);
            if (sym) sym->with_var = true;
        }
        if (w->name) scope_add(r, w->name, w->loc, tuple);
    }
    if (ok) resolve_block(r, s->body);
    scope_pop(r, mark);
}

// ---- branches ----------------------------------------------------------------------------------

// Futures that are waited for on one path only would be in flight or not behind the branch.
static int waited_futures(const Resolve *r, bool *waited)
{
    for (int i = 0; i < r->symbols.n; i++) waited[i] = r->symbols.at[i]->waited;
    return r->symbols.n;
}

// A future that only one side waits for would be in flight, or not, behind the branch.
static void check_branches(Resolve *r, const AstNode *s, int n, const bool *before,
                           const bool *left)
{
    for (int i = 0; i < n; i++) {
        Symbol *f = r->symbols.at[i];
        if (!f->is_future || before[i] || left[i] == f->waited) continue;
        resolve_error(r, s->loc, "wait for it before the branch, or on both sides",
                      "'%s' is waited for on one side of this branch only", f->name);
        f->waited = true;
        product_done(r, f);
    }
}

// A condition that is decided on the device. Both sides start from the same futures.
static void device_if(Resolve *r, const AstNode *s, const TExpr *cond, const AstNode *const *rest,
                      int nrest, bool round)
{
    TileOp *o = resolve_emit(r, TOP_IF, s->loc);
    o->cond = cond;
    TileBlock *saved = r->at;
    int n = r->symbols.n;
    bool *before = arena_alloc(r->arena, (size_t)n + 1),
         *left = arena_alloc(r->arena, (size_t)n + 1);
    waited_futures(r, before);
    Control outer = resolve_enter_control(r, resolve_tree_level(r, cond), s->loc);
    r->guards++;
    int flying = r->products.n;
    Symbol **product = ARENA_ARRAY(r->arena, Symbol *, flying + 1);
    for (int i = 0; i < flying; i++) product[i] = r->products.at[i];
    r->at = &o->body;
    resolve_block_then(r, s->body, rest, nrest, round);
    waited_futures(r, left);
    for (int i = 0; i < n; i++) r->symbols.at[i]->waited = before[i];
    r->products.n = 0;
    for (int i = 0; i < flying; i++) vec_push(r->arena, &r->products, product[i]);
    r->at = &o->other;
    if (s->alt || nrest || round) resolve_block_then(r, s->alt, rest, nrest, round);
    check_branches(r, s, n, before, left);
    resolve_leave_control(r, outer);
    r->at = saved;
}

// !c as a comparison where that is possible, for the reader of the launch plan.
static const Expr *negated(Resolve *r, const Expr *c)
{
    switch (c->op) {
    case EX_EQ: return expr_bin(r->x, EX_NE, c->a, c->b);
    case EX_NE: return expr_bin(r->x, EX_EQ, c->a, c->b);
    case EX_LT: return expr_bin(r->x, EX_LE, c->b, c->a);
    case EX_LE: return expr_bin(r->x, EX_LT, c->b, c->a);
    case EX_LAND: return expr_bin(r->x, EX_LOR, negated(r, c->a), negated(r, c->b));
    case EX_LOR: return expr_bin(r->x, EX_LAND, negated(r, c->a), negated(r, c->b));
    default: return expr_bin(r->x, EX_EQ, c, expr_const(r->x, 0));
    }
}

// Around `parallel` the condition decides on the host whether kernels run.
static void host_if(Resolve *r, const AstNode *s, const Expr *cond)
{
    if (!cond || !resolve_host_only(r, cond)) {
        resolve_error(r, s->cond->loc, NULL,
                      "a condition outside `parallel` must be known on the host");
        return;
    }
    const Expr *saved = r->when;
    r->when = saved ? expr_bin(r->x, EX_LAND, saved, cond) : cond;
    resolve_block(r, s->body);
    const Expr *no = negated(r, cond);
    r->when = saved ? expr_bin(r->x, EX_LAND, saved, no) : no;
    if (s->alt) resolve_stmt(r, s->alt);
    r->when = saved;
}

// if (c) S else T: decided now when c is constant.
void resolve_branch_then(Resolve *r, const AstNode *s, const AstNode *const *rest, int nrest,
                         bool round)
{
    const Expr *index;
    i64 n;
    const TExpr *cond = resolve_condition(r, s->cond, &index);
    if (!cond) {
        // Both sides are still looked at for errors of their own.
        TileBlock *saved = r->at, unused = {0};
        if (saved) r->at = &unused;
        resolve_block(r, s->body);
        resolve_block_then(r, s->alt, rest, nrest, false);
        r->at = saved;
        return;
    }
    if (index && expr_is_const(index, &n)) {
        resolve_block_then(r, n ? s->body : s->alt, rest, nrest, round);
        return;
    }
    if (r->at && !nrest && !round && resolve_role_branch(r, s, index)) return;
    if (r->at)
        device_if(r, s, cond, rest, nrest, round);
    else
        host_if(r, s, index);
}

// ---- the rest ----------------------------------------------------------------------------------

static AstNode *made_node(Resolve *r, AstKind kind, Loc loc)
{
    AstNode *n = ARENA_NEW(r->arena, AstNode);
    n->kind = kind;
    n->loc = loc;
    return n;
}

// By each thread that comes here: `if (!(c)) println(text)`. The thread goes on, since a trap would
// make the assembler serialise products.
static void device_assertion(Resolve *r, const AstNode *s, const char *text)
{
    AstNode *branch = made_node(r, AST_IF, s->loc), *print = made_node(r, AST_PRINT, s->loc);
    AstNode *no = made_node(r, AST_UNARY, s->cond->loc), *what = made_node(r, AST_STRING, s->loc);
    AstNode **list = ARENA_NEW(r->arena, AstNode *);
    no->op = AST_OP_NOT;
    no->value = s->cond;
    what->text = arena_printf(r->arena, "assertion of line %u fails: %s", s->loc.line, text);
    what->text_n = strlen(what->text);
    list[0] = what;
    print->list = (AstList){list, 1};
    print->flags = AST_F_NEWLINE;
    branch->cond = no;
    branch->body = print;
    resolve_branch_then(r, branch, NULL, 0, false);
}

// assert(c, text): now, by the launch plan when it depends on sizes, else by the threads.
static void assertion(Resolve *r, const AstNode *s)
{
    const Expr *index;
    i64 n;
    TileBlock unused = {0}, *at = r->at;
    if (at) r->at = &unused; // the threads evaluate it where they check it
    bool fits = resolve_condition(r, s->cond, &index);
    r->at = at;
    if (!fits) return;
    const char *text = s->text ? arena_strndup(r->arena, s->text, s->text_n)
                               : "the assertion holds";
    if (index && expr_is_const(index, &n)) {
        if (!n) resolve_error(r, s->loc, NULL, "the assertion fails: %s", text);
        return;
    }
    if (!index || !resolve_host_only(r, index)) {
        if (at)
            device_assertion(r, s, text);
        else
            resolve_error(r, s->loc, NULL, "outside `parallel` an assertion is about sizes");
        return;
    }
    PlanCheck c = {index, text, s->loc};
    vec_push(r->arena, &r->plan->checks, c);
}

// Statements of the language that come later; their name, or NULL.
static const char *later_statement(const AstNode *s)
{
    switch (s->kind) {
    case AST_ASM: return "asm";
    case AST_CPP: return "__cpp__";
    default: return NULL;
    }
}

static void return_statement(Resolve *r, const AstNode *s)
{
    if (r->at)
        resolve_error(r, s->loc, NULL, "return inside `parallel`");
    else if (s->value && r->returns && !r->when && !r->depth)
        resolve_result_return(r, s);
    else if (s->value)
        resolve_error(r, s->loc, NULL, "a value is returned; the function returns %s",
                      r->returns ? "at its end" : "none");
    else if (r->when || r->depth > 0)
        resolve_unsupported(r, s->loc, "return before the end of the function");
}

// One statement. On the host level only declarations, conditions and `parallel` have a meaning.
void resolve_stmt(Resolve *r, const AstNode *s)
{
    if (!s) return;
    const char *later = later_statement(s);
    if (later) {
        resolve_unsupported(r, s->loc, "%s", later);
        return;
    }
    switch (s->kind) {
    case AST_ERROR: break;
    case AST_BLOCK: resolve_block(r, s); break;
    case AST_SCALAR_DECL: scalar_decl(r, s); break;
    case AST_BUFFER_DECL: resolve_buffer_decl(r, s); break;
    case AST_FRAG_DECL: resolve_frag_decl(r, s); break;
    case AST_SPAN_DECL:
    case AST_TUPLE_DECL: list_decl(r, s); break;
    case AST_ASSIGN: assign(r, s); break;
    case AST_EXPR: expr_statement(r, s); break;
    case AST_XFER: resolve_copy(r, s); break;
    case AST_MMA: resolve_mma(r, s); break;
    case AST_APPLY: resolve_apply(r, s); break;
    case AST_REDUCE:
    case AST_ALL_REDUCE: resolve_reduce(r, s); break;
    case AST_COPY: resolve_frag_copy(r, s); break;
    case AST_WAIT: resolve_wait(r, s); break;
    case AST_EVENT_DECL: resolve_event_decl(r, s); break;
    case AST_WHILE: resolve_while(r, s); break;
    case AST_TRIGGER: resolve_trigger(r, s); break;
    case AST_INTHREADS: resolve_inthreads(r, s); break;
    case AST_PARALLEL: resolve_parallel(r, s); break;
    case AST_WITH: with_statement(r, s); break;
    case AST_FOREACH: foreach_statement(r, s); break;
    case AST_FOR: resolve_for(r, s); break;
    case AST_IF: resolve_branch_then(r, s, NULL, 0, false); break;
    case AST_BREAK:
    case AST_CONTINUE:
    case AST_YIELD: resolve_block(r, s); break;
    case AST_SYNC: resolve_sync(r, s); break;
    case AST_PRINT: resolve_print(r, s); break;
    case AST_SWAP:
    case AST_ROTATE: resolve_turn(r, s); break;
    case AST_RETURN: return_statement(r, s); break;
    case AST_ASSERT: assertion(r, s); break;
    default: resolve_error(r, s->loc, NULL, "this cannot stand here");
    }
}
