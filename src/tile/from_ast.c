// from_ast.c - tile functions: parameters and symbols of the launch plan, the parallel structure of
// kernels, and the two walks over each function.
#include "resolve.h"

#include <string.h>

enum { DEFAULT_THREADS = 128, MAX_KERNELS = 64, PARAM_ALIGN = 16 };

// ---- parameters --------------------------------------------------------------------------------

static void add_symbol(Resolve *r, const char *name, PlanSymbolSource source, int param, int dim)
{
    PlanSymbol s = {.name = name, .source = (u8)source, .param = param, .dim = dim};
    vec_push(r->arena, &r->plan->symbols, s);
}

// An extent is at least 0 and fits 31 bits; the launch checks it.
static Value bind_extent(Resolve *r, const char *name, int param, int dim)
{
    add_symbol(r, name, SYM_EXTENT, param, dim);
    expr_set_range(r->x, name, 0, INT32_MAX);
    return value_index(r, expr_var(r->x, name), DT_S32);
}

// A bare name in the dimensions of a parameter that means nothing yet becomes a symbol.
static void bind_names(Resolve *r, const AstNode *p, int param)
{
    for (int d = 0; d < p->type->list.n && d < PLAN_MAX_RANK; d++) {
        const AstNode *e = p->type->list.at[d];
        if (e->kind != AST_NAME || scope_find(r, e->name)) continue;
        scope_add(r, e->name, e->loc, bind_extent(r, e->name, param, d));
    }
}

// An extent that has no name in the source is x_dim0 on the command line and in messages.
static const Expr *unnamed_extent(Resolve *r, const char *tensor, int param, int d)
{
    const char *name = intern_printf(r->m->names, "%s_dim%d", tensor, d);
    while (scope_find(r, name)) name = intern_printf(r->m->names, "%s_", name);
    return bind_extent(r, name, param, d).index;
}

// The extents of a tensor. A wrong one becomes 1, so that the rest can be looked at.
static void tensor_dims(Resolve *r, const AstNode *p, int param)
{
    PlanParam *out = &r->plan->params.at[param];
    for (int d = 0; d < out->rank; d++) {
        if (d >= p->type->list.n) { // T mdspan<rank>
            out->dim[d] = unnamed_extent(r, out->name, param, d);
            continue;
        }
        const AstNode *e = p->type->list.at[d];
        const Expr *x = NULL;
        if (e->kind == AST_ANYDIM) {
            if (e->flags & AST_F_UNBOUNDED && p->storage != STOR_GLOBAL)
                resolve_error(r, e->loc, "write ?", "'\?\?' is for global parameters");
            x = unnamed_extent(r, out->name, param, d);
        } else {
            x = resolve_index(r, e, "a dimension");
        }
        i64 n;
        if (x && expr_is_const(x, &n) && n <= 0) {
            resolve_error(r, e->loc, NULL, "a dimension of extent %lld; it must be at least 1",
                          (long long)n);
            x = NULL;
        }
        out->dim[d] = x ? x : expr_const(r->x, 1);
    }
}

// The type of a value of `with` can hold it, by what is known of sizes or by a rule of the launch.
static void check_with_range(Resolve *r, const Expr *e, DType type, const char *name, Loc loc)
{
    static const i64 low[DT_COUNT] = {[DT_S32] = INT32_MIN, [DT_S64] = INT64_MIN};
    static const i64 high[DT_COUNT] = {[DT_S32] = INT32_MAX, [DT_U32] = UINT32_MAX,
                                       [DT_S64] = INT64_MAX, [DT_U64] = INT64_MAX};
    i64 lo, hi, n;
    expr_range(r->x, e, &lo, &hi);
    if (expr_is_const(e, &n) && (n < low[type] || n > high[type])) {
        resolve_error(r, loc, NULL, "%lld does not fit in %s", (long long)n, dtype_name[type]);
        return;
    }
    const Expr *above = expr_bin(r->x, EX_LE, expr_const(r->x, low[type]), e);
    const Expr *below = expr_bin(r->x, EX_LE, e, expr_const(r->x, high[type]));
    const char *text = arena_printf(r->arena, "%s fits in %s", name, dtype_name[type]);
    PlanCheck c = {NULL, text, loc};
    if (lo < low[type]) {
        c.cond = above;
        vec_push(r->arena, &r->plan->checks, c);
    }
    if (hi > high[type]) {
        c.cond = below;
        vec_push(r->arena, &r->plan->checks, c);
    }
}

// A scalar that the launch computes: its name stands for the expression.
static void with_param(Resolve *r, const AstNode *p, const ContractWith *w)
{
    DType type = p->type->dtype >= 0 ? (DType)p->type->dtype : DT_F32;
    Value v = value_none();
    if (dtype_is_float(type) || type == DT_BOOL || dtype_bytes[type] < 4) {
        resolve_error(r, w->param.loc, "declare it `int`",
                      "'%s' is %s; the launch computes integers of 4 or 8 bytes", p->name,
                      dtype_name[type]);
    } else {
        const Expr *e = contract_value(r->contract, r->file, r->x, r->arena, r->diag, r->plan,
                                       &w->value);
        if (e) check_with_range(r, e, type, p->name, w->value.loc);
        if (e) v = value_index(r, e, type);
    }
    scope_add(r, p->name, p->loc, v);
}

// Integers and bools are symbols of the plan, floats scalars of every kernel.
static void scalar_param(Resolve *r, const AstNode *p, PlanParam *out, int index)
{
    const char *name = out->name;
    out->kind = PLAN_SCALAR;
    out->align = dtype_bytes[out->type];
    out->in = true;
    if (p->flags & AST_F_REF)
        resolve_error(r, p->loc, NULL, "the scalar '%s' cannot be passed by reference", name);
    bool narrow = out->type == DT_F16 || out->type == DT_BF16 || out->type == DT_TF32 ||
                  out->type == DT_E4M3 || out->type == DT_E5M2;
    if (out->type == DT_F32 || narrow) {
        // A scalar of the tile IR whose name has no '%' is the parameter of that name.
        vec_push(r->arena, &r->host->scalars, ((TileScalar){name, DT_F32, p->loc}));
        TExpr *x = ARENA_NEW(r->arena, TExpr);
        *x = (TExpr){
            .kind = TX_SCALAR, .type = DT_F32, .loc = p->loc, .scalar = r->host->scalars.n - 1};
        Value v = value_texpr(x); // the kernel takes an f32, and rounds it where it is used
        scope_add(r, name, p->loc, narrow ? resolve_cast(r, v, out->type, p->loc) : v);
        return;
    }
    if (dtype_is_float(out->type)) {
        resolve_unsupported(r, p->loc, "parameters of type %s", dtype_name[out->type]);
        scope_add(r, name, p->loc, value_none());
        return;
    }
    add_symbol(r, name, SYM_SCALAR, index, 0);
    resolve_type_range(r, name, out->type);
    scope_add(r, name, p->loc, value_index(r, expr_var(r->x, name), out->type));
}

// A parameter that is not `global` comes from the host; without '&' it is not copied back.
static void tensor_param(Resolve *r, const AstNode *p, PlanParam *out)
{
    const AstNode *t = p->type;
    out->kind = PLAN_TENSOR;
    out->align = PARAM_ALIGN;
    i64 rank = t->flags & AST_F_RANK_ONLY ? (i64)MIN(t->ivalue, 99u) : t->list.n;
    if (t->flags & AST_F_AUTO_DIMS) {
        resolve_unsupported(r, t->loc, "parameters whose shape is not written");
        rank = t->list.n;
    } else if (rank < 1 || rank > PLAN_MAX_RANK) {
        resolve_error(r, t->loc, NULL, "a parameter of rank %lld; it has 1 to %d dimensions",
                      (long long)rank, PLAN_MAX_RANK);
    }
    out->rank = (int)MIN(MAX(rank, 0), PLAN_MAX_RANK);
    if (p->storage == STOR_GLOBAL && p->flags & AST_F_REF)
        resolve_error(r, p->loc, "leave out the '&'",
                      "a global parameter cannot be passed by reference");
    if (p->storage == STOR_NONE && !(p->flags & AST_F_REF)) map_put(r->const_params, out->name, r);
}

static bool is_stream(const AstNode *p)
{
    return p->type->name && !strcmp(p->type->name, "stream") && !(p->type->flags & AST_F_SPANNED);
}

// What the caller does not pass; the launch makes it. An entry of the wrong kind makes nothing.
static bool is_made(const Resolve *r, const AstNode *p)
{
    if (!p->name || is_stream(p)) return false;
    return p->type->flags & AST_F_SPANNED ? contract_workspace(r->contract, p->name) != NULL
                                          : contract_with(r->contract, p->name) != NULL;
}

// Gives every parameter its place in the plan and its name; extents come afterwards, because a
// dimension may name a scalar that is declared behind it.
static void declare_params(Resolve *r, const AstNode *fn)
{
    for (int i = 0; i < fn->list.n; i++) {
        const AstNode *p = fn->list.at[i];
        if (p->kind != AST_PARAM || !p->type) continue;
        if (is_stream(p)) {
            if (p->name)
                scope_add(r, p->name, p->loc, (Value){.kind = VAL_OTHER, .what = "a stream"});
            continue;
        }
        if (is_made(r, p)) continue;
        PlanParam out = {.loc = p->loc};
        out.name = p->name ? p->name : intern_printf(r->m->names, "arg%d", r->plan->params.n);
        bool known = p->type->dtype >= 0;
        if (!known) resolve_unsupported(r, p->type->loc, "parameters of type '%s'", p->type->name);
        out.type = known ? (DType)p->type->dtype : DT_F32;
        if (p->type->flags & AST_F_SPANNED)
            tensor_param(r, p, &out);
        else
            scalar_param(r, p, &out, r->plan->params.n);
        vec_push(r->arena, &r->plan->params, out);
    }
}

// Extents of all parameters, names first: `f32 [N] a, f32 [2 * N] b` in either order.
static void declare_tensors(Resolve *r, const AstNode *fn)
{
    for (int pass = 0; pass < 2; pass++) {
        int param = 0;
        for (int i = 0; i < fn->list.n; i++) {
            const AstNode *p = fn->list.at[i];
            if (p->kind != AST_PARAM || !p->type || param >= r->plan->params.n) continue;
            if (is_stream(p) || is_made(r, p)) continue;
            if (r->plan->params.at[param].kind == PLAN_TENSOR) {
                if (pass == 0)
                    bind_names(r, p, param);
                else
                    tensor_dims(r, p, param);
            }
            param++;
        }
    }
}

// ---- parameters that the launch makes -----------------------------------------------------------

// The extent as written is the one that the host function makes; a name that means nothing yet
// becomes a name for it.
static void workspace_dim(Resolve *r, const AstNode *e, const Expr *dim)
{
    i64 want, got;
    if (e->kind == AST_ANYDIM && !(e->flags & AST_F_UNBOUNDED)) return;
    if (e->kind == AST_NAME && !scope_find(r, e->name)) {
        scope_add(r, e->name, e->loc, value_index(r, dim, DT_S32));
        return;
    }
    const Expr *x = resolve_index(r, e, "a dimension");
    if (!x || x == dim) return;
    const char *hint = "write ? where the extent need not be said";
    if (expr_is_const(x, &got) && expr_is_const(dim, &want))
        resolve_error(r, e->loc, hint, "the host function makes an extent of %lld here, not %lld",
                      (long long)want, (long long)got);
    else
        resolve_error(r, e->loc, hint, "the host function makes an extent of %s here",
                      resolve_text(r, dim));
}

// The tensor and the step of the plan that fills it.
static void workspace_param(Resolve *r, const AstNode *p, const ContractWorkspace *w)
{
    const AstNode *t = p->type;
    const Expr **args = ARENA_ARRAY(r->arena, const Expr *, w->args.n + 1);
    bool ok = true;
    for (int i = 0; i < w->args.n; i++) {
        args[i] = contract_value(r->contract, r->file, r->x, r->arena, r->diag, r->plan,
                                 &w->args.at[i]);
        ok = ok && args[i];
    }
    int k = !ok ? -1 : plan_add_workspace(r->arena, r->x, r->diag, r->plan, p->name,
                                          w->function.name, args, w->args.n, w->function.loc);
    if (k < 0) {
        scope_add(r, p->name, p->loc, value_none());
        return;
    }
    PlanParam *out = &r->plan->params.at[k];
    out->loc = p->loc;
    if (p->storage != STOR_GLOBAL)
        resolve_error(r, p->loc, "declare it `global`", "the workspace '%s' is not global", p->name);
    if (t->dtype != (int)out->type || t->list.n != out->rank ||
        t->flags & (AST_F_RANK_ONLY | AST_F_AUTO_DIMS)) {
        resolve_error(r, t->loc, NULL, "%s makes a tensor of %s with %d dimension%s",
                      w->function.name, dtype_name[out->type], out->rank,
                      out->rank == 1 ? "" : "s");
        return;
    }
    for (int d = 0; d < out->rank; d++) workspace_dim(r, t->list.at[d], out->dim[d]);
}

// Both kinds of entries name parameters of the right kind. Errors point into the contract.
static const AstNode *made_param(Resolve *r, const AstNode *fn, const ContractName *n,
                                 const char *key, bool tensor)
{
    for (int i = 0; i < fn->list.n; i++) {
        const AstNode *p = fn->list.at[i];
        if (p->kind != AST_PARAM || !p->type || !p->name || p->name != n->name) continue;
        if (!is_stream(p) && tensor == !!(p->type->flags & AST_F_SPANNED)) return p;
        resolve_error(r, n->loc, NULL, "'%s' is no %s, which `%s` makes", n->name,
                      tensor ? "tensor" : "integer scalar", key);
        return NULL;
    }
    resolve_error(r, n->loc, NULL, "the function has no parameter '%s'", n->name);
    return NULL;
}

// Scalars first: the arguments of workspaces and their dimensions may name them.
static void declare_made(Resolve *r, const AstNode *fn)
{
    const Contract *c = r->contract;
    for (int i = 0; c && i < c->with.n; i++) {
        const AstNode *p = made_param(r, fn, &c->with.at[i].param, "with", false);
        if (p) with_param(r, p, &c->with.at[i]);
    }
    for (int i = 0; c && i < c->workspaces.n; i++) {
        const AstNode *p = made_param(r, fn, &c->workspaces.at[i].param, "workspace", true);
        if (p) workspace_param(r, p, &c->workspaces.at[i]);
    }
}

// All tensors become buffers, which kernels take over.
static void add_buffers(Resolve *r)
{
    for (int i = 0; i < r->plan->params.n; i++) {
        const PlanParam *p = &r->plan->params.at[i];
        if (p->kind == PLAN_SCALAR) continue;
        TileBuffer b = {.name = p->name,
                        .kind = TB_GLOBAL,
                        .type = p->type,
                        .rank = p->rank,
                        .param = i,
                        .slots = 1,
                        .loc = p->loc};
        memcpy(b.dim, p->dim, sizeof b.dim);
        scope_add(r, p->name, p->loc, view_of_buffer(r, resolve_add_buffer(r, b)));
    }
}

// ---- parallel ----------------------------------------------------------------------------------

// The enclosing warpgroup.
int resolve_group4(const Resolve *r)
{
    for (int i = 0; i < r->npar; i++)
        if (r->par[i].level == LEVEL_GROUP4) return i;
    return -1;
}

int resolve_scope_level(const Resolve *r)
{
    return r->npar ? r->par[r->npar - 1].level : LEVEL_BLOCK;
}

// Between one and three dimensions, each with a name or none.
static bool by_shape(Resolve *r, const AstNode *b)
{
    if (b->flags & AST_F_COOPERATIVE) {
        resolve_unsupported(r, b->loc, "cooperative kernels");
        return false;
    }
    if (b->list2.n < 1 || b->list2.n > 3) {
        resolve_error(r, b->loc, NULL, "a parallel of %d dimensions; it has 1 to 3", b->list2.n);
        return false;
    }
    return !b->list.n || b->list.n == b->list2.n;
}

// Names the instances: each variable with its value and bound, and the tuple of all.
static void define_indices(Resolve *r, const AstNode *b, const Expr *const *value,
                           const Expr *const *bound)
{
    Value tuple = {.kind = VAL_LIST, .n = b->list2.n};
    for (int i = 0; i < b->list2.n; i++) {
        tuple.item[i] = (ListItem){value[i], bound[i]};
        if (i >= b->list.n) continue;
        Value v = value_index(r, value[i], DT_S32);
        v.bound = bound[i];
        scope_add(r, b->list.at[i]->name, b->list.at[i]->loc, v);
    }
    if (b->name) scope_add(r, b->name, b->loc, tuple);
}

// The name that an index variable of the tile IR comes from.
static const char *index_name(const AstNode *b, int i, const char *otherwise)
{
    return i < b->list.n && b->list.at[i]->name ? b->list.at[i]->name
           : b->name                            ? b->name
                                                : otherwise;
}

static void inner_parallel(Resolve *r, const AstNode *s, int at);

// Parallels side by side run one after the other on the same threads.
static void set_threads(Resolve *r, const AstNode *b, ParLevel *outer, int product)
{
    if (outer->inner && outer->inner != product)
        resolve_error(r, b->loc, "parallels side by side share the same threads",
                      "this parallel has %d threads, the one in line %u has %d", product,
                      outer->inner_loc.line, outer->inner);
    outer->inner = product;
    outer->inner_loc = b->loc;
}

// The level as written; the innermost of a statement is `thread` by default.
static int written_level(Resolve *r, const AstNode *b, bool leaf)
{
    switch (b->level) {
    case AST_LEVEL_GROUP4: return LEVEL_GROUP4;
    case AST_LEVEL_GROUP: return LEVEL_WARP;
    case AST_LEVEL_THREAD: return LEVEL_THREAD;
    case AST_LEVEL_BLOCK: return LEVEL_BLOCK;
    case AST_LEVEL_CLUSTER:
        resolve_error(r, b->loc, "put it around the blocks",
                      "a cluster inside a block; it is the outermost level");
        return -1;
    default:
        if (leaf) return LEVEL_THREAD;
        resolve_error(r, b->loc, "write `: group-4` or `: group` behind the bounds",
                      "the level of this parallel is not written");
        return -1;
    }
}

// Levels descend, and a warp is no part of a warpgroup's own.
static bool check_nesting(Resolve *r, const AstNode *b, int level, int outer)
{
    if (level == LEVEL_WARP && outer == LEVEL_GROUP4) {
        resolve_error(r, b->loc, "use `: thread` by 128", "'group' directly inside 'group-4'");
        return false;
    }
    if (level > outer) return true;
    resolve_error(r, b->loc, "the levels are, outer to inner, block, group-4, group, thread",
                  "'%s' inside '%s'", tile_level_name[level], tile_level_name[outer]);
    return false;
}

// The product of constant bounds; 0 after an error.
static int inner_count(Resolve *r, const AstNode *b, i64 *n)
{
    i64 count = 1;
    for (int i = 0; i < b->list2.n; i++) {
        if (!resolve_const(r, b->list2.at[i], "the bound of an inner parallel", 1,
                           RESOLVE_MAX_THREADS, &n[i]))
            return 0;
        count *= n[i];
    }
    if (count <= RESOLVE_MAX_THREADS) return (int)count;
    resolve_error(r, b->loc, NULL, "%lld instances; a block has at most %d threads",
                  (long long)count, RESOLVE_MAX_THREADS);
    return 0;
}

// Thread counts that the level fixes, and the limit of a block.
static bool check_count(Resolve *r, const AstNode *b, int level, int outer, int count)
{
    int per = level == LEVEL_GROUP4 ? 128 : level == LEVEL_WARP ? 32 : 1;
    int must = outer == LEVEL_GROUP4 ? 128 : outer == LEVEL_WARP ? 32 : 0;
    if (level == LEVEL_THREAD && must && count != must) {
        resolve_error(r, b->loc, NULL, "%d threads in a '%s'; it has %d", count,
                      tile_level_name[outer], must);
        return false;
    }
    if (count * per > RESOLVE_MAX_THREADS) {
        resolve_error(r, b->loc, NULL, "%d threads; a block has at most %d", count * per,
                      RESOLVE_MAX_THREADS);
        return false;
    }
    return true;
}

// The indices of a parallel with several dimensions come from one counter, the last one fastest.
static void split_counter(Resolve *r, const AstNode *b, const char *var, const i64 *n)
{
    const Expr *value[3], *bound[3], *rest = expr_var(r->x, var);
    for (int i = b->list2.n - 1; i >= 0; i--) {
        bound[i] = expr_const(r->x, n[i]);
        value[i] = i ? expr_bin(r->x, EX_MOD, rest, bound[i]) : rest;
        rest = expr_bin(r->x, EX_DIV, rest, bound[i]);
    }
    define_indices(r, b, value, bound);
}

static void par_body(Resolve *r, const AstNode *s, int at)
{
    if (at < s->list.n)
        inner_parallel(r, s, at);
    else
        resolve_block(r, s->body);
}

// One of the nested parallels of a statement, then the next or the body.
static void inner_parallel(Resolve *r, const AstNode *s, int at)
{
    const AstNode *b = s->list.at[at];
    if (b->kind != AST_PARBY || !by_shape(r, b)) return;
    int outer = resolve_scope_level(r), level = written_level(r, b, at == s->list.n - 1);
    i64 n[3] = {1, 1, 1};
    if (level < 0 || !check_nesting(r, b, level, outer)) return;
    int count = inner_count(r, b, n);
    if (!count || !check_count(r, b, level, outer, count)) return;
    if (r->npar == RESOLVE_MAX_PAR) return; // levels strictly descend, so this cannot be
    TileOp *o = resolve_emit(r, TOP_PAR, b->loc);
    o->level = (u8)level;
    o->var = resolve_var(r, b->list2.n == 1 ? index_name(b, 0, tile_level_name[level])
                            : tile_level_name[level][0] == 't' ? "thread"
                                                               : "group");
    o->hi = expr_const(r->x, count);
    expr_set_range(r->x, o->var, 0, count - 1);
    map_put(r->var_level, o->var, (void *)(intptr_t)(level + 1));
    int mark = scope_push(r);
    split_counter(r, b, o->var, n);
    int per = level == LEVEL_GROUP4 ? 128 : level == LEVEL_WARP ? 32 : 1;
    r->par[r->npar++] =
        (ParLevel){.level = (u8)level, .threads = per, .var = o->var, .count = count};
    TileBlock *saved = r->at;
    r->at = &o->body;
    par_body(r, s, at + 1);
    r->at = saved;
    r->npar--;
    scope_pop(r, mark);
    set_threads(r, b, &r->par[r->npar - 1], count * per);
}

// ---- kernels -----------------------------------------------------------------------------------

static bool bound_list(Resolve *r, const AstNode *a, int least, int most)
{
    if (a->list.n >= least && a->list.n <= most) return true;
    resolve_error(r, a->loc, NULL, "[[%s]] takes %d to %d values, found %d", a->name, least, most,
                  a->list.n);
    return false;
}

// [[launch_bounds(threads, blocks)]] and [[maxnreg(n)]], after the threads are known.
static void kernel_attributes(Resolve *r, const AstNode *s)
{
    TileKernel *k = r->k;
    for (int i = 0; i < s->attrs.n; i++) {
        const AstNode *a = s->attrs.at[i];
        i64 v[3] = {0};
        if (a->kind != AST_ATTR || !a->name) continue;
        if (!strcmp(a->name, "no_specialise")) {
            k->sequential = true;
        } else if (!strcmp(a->name, "launch_bounds")) {
            bool ok = bound_list(r, a, 1, 3);
            for (int j = 0; ok && j < a->list.n; j++)
                ok = a->list.at[j]->kind == AST_WILD ||
                     resolve_const(r, a->list.at[j], "a launch bound", 0, j ? 32 : 1024, &v[j]);
            if (ok && v[2] && v[2] < k->cluster)
                resolve_error(r, a->loc, NULL,
                              "launch_bounds allows clusters of %lld blocks, the kernel has %d",
                              (long long)v[2], k->cluster);
            k->max_threads = (int)v[0];
            k->min_blocks = (int)v[1];
            if (ok && k->max_threads && k->max_threads < k->threads)
                resolve_error(r, a->loc, NULL, "launch_bounds allows %d threads, the block has %d",
                              k->max_threads, k->threads);
        } else if (!strcmp(a->name, "maxnreg")) {
            if (bound_list(r, a, 1, 1) &&
                resolve_const(r, a->list.at[0], "the register count of maxnreg", 1, 255, &v[0]))
                k->maxnreg = (int)v[0];
        } else {
            resolve_error(r, a->loc, "launch_bounds, maxnreg and no_specialise exist",
                          "unknown attribute '%s' of parallel", a->name);
        }
    }
}

// The block level: bounds may depend on sizes, the launch evaluates them.
static bool grid(Resolve *r, const AstNode *b)
{
    TileKernel *k = r->k;
    const Expr *value[3], *bound[3];
    for (int i = 0; i < b->list2.n; i++) {
        const Expr *n = resolve_index(r, b->list2.at[i], "the bound of a parallel");
        i64 c, lo, hi;
        if (!n) return false;
        if (expr_is_const(n, &c) && c <= 0) {
            resolve_error(r, b->list2.at[i]->loc, NULL, "%lld blocks; the bound must be at least 1",
                          (long long)c);
            return false;
        }
        k->grid[i] = bound[i] = n;
        k->grid_var[i] = resolve_var(r, index_name(b, i, "block"));
        expr_range(r->x, n, &lo, &hi);
        expr_set_range(r->x, k->grid_var[i], 0, MAX(MIN(hi, (i64)INT32_MAX) - 1, 0));
        value[i] = expr_var(r->x, k->grid_var[i]);
    }
    k->ngrid = b->list2.n;
    define_indices(r, b, value, bound);
    return true;
}

// Blocks of a cluster are neighbours in x. A number of blocks that is no multiple is known here or
// found at the launch.
static void cluster_grid(Resolve *r, const AstNode *b)
{
    i64 n;
    if (r->k->cluster < 2 || !expr_is_const(r->k->grid[0], &n) || n % r->k->cluster == 0) return;
    resolve_error(r, b->list2.at[0]->loc,
                  arena_printf(r->arena, "round up, `cdiv(n, %d) * %d`: tiles behind the edge of an "
                                         "array are read as zero and not written",
                               r->k->cluster, r->k->cluster),
                  "%lld blocks are no whole number of clusters of %d", (long long)n,
                  r->k->cluster);
}

// The cluster level names the block's place in its cluster: the remainder of its index in x.
static void cluster_index(Resolve *r, const AstNode *c)
{
    const Expr *bound = expr_const(r->x, r->k->cluster);
    const Expr *place = expr_bin(r->x, EX_MOD, expr_var(r->x, r->k->grid_var[0]), bound);
    define_indices(r, c, &place, &bound);
}

// `parallel c by N : cluster` around the blocks: its size, or -1 after an error.
static int cluster_size(Resolve *r, const AstNode *c)
{
    i64 n;
    if (!by_shape(r, c)) return -1;
    if (c->list2.n > 1) {
        resolve_unsupported(r, c->loc, "clusters of several dimensions");
        return -1;
    }
    if (!resolve_const(r, c->list2.at[0], "the size of a cluster", 1, THREAD_MAX_CLUSTER, &n))
        return -1;
    return (int)n;
}

// A kernel begins at block level, or with a cluster around it.
static bool outermost(Resolve *r, const AstNode *s, const AstNode *b)
{
    if (b->level != AST_LEVEL_NONE && b->level != AST_LEVEL_BLOCK) {
        resolve_error(r, b->loc, "enclose it in `parallel b by 1 : block`",
                      "the outermost parallel is '%s'; it must be 'block'",
                      ast_level_name(b->level));
        return false;
    }
    const Symbol *st = s->name ? scope_find(r, s->name) : NULL;
    if (s->name && (!st || st->value.kind != VAL_OTHER)) {
        resolve_error(r, s->loc, "declare a parameter `stream st`", "'%s' is no stream", s->name);
        return false;
    }
    if (r->nkernels < MAX_KERNELS) return true;
    resolve_unsupported(r, s->loc, "more than %d kernels in one function", MAX_KERNELS);
    return false;
}

// A kernel sees the parameters as its first buffers, in the same order on the host level, so that
// views which were named there mean the same in it.
static void new_kernel(Resolve *r, const AstNode *s)
{
    TileKernel *k = ARENA_NEW(r->arena, TileKernel);
    k->name = r->fn->name;
    if (r->nkernels++) k->name = intern_printf(r->m->names, "%s_%d", r->fn->name, r->nkernels);
    k->when = r->when;
    k->loc = s->loc;
    for (int i = 0; i < r->host->buffers.n; i++)
        vec_push(r->arena, &k->buffers, r->host->buffers.at[i]);
    for (int i = 0; i < r->host->scalars.n; i++)
        vec_push(r->arena, &k->scalars, r->host->scalars.at[i]);
    r->k = k;
    r->frag_node.n = 0;
    r->uses.n = k->buffers.n;
    r->starts.n = r->event_uses.n = r->products.n = 0;
    r->used_plain = map_new(r->arena);
    for (int i = 0; i < k->buffers.n; i++) resolve_plain(r, k->buffers.at[i].name);
    vec_push(r->arena, &r->fn->kernels, k);
}

// The kernel of `s`, whose parallel number `at` is the block level; `c`: the cluster level around
// it, or NULL.
static void block_parallel(Resolve *r, const AstNode *s, int at, const AstNode *c, int size)
{
    const AstNode *b = s->list.at[at];
    if (b->kind != AST_PARBY || !outermost(r, s, b) || !by_shape(r, b)) return;
    new_kernel(r, s);
    r->k->cluster = size;
    int mark = scope_push(r);
    if (grid(r, b)) {
        cluster_grid(r, b);
        if (c) cluster_index(r, c);
        r->par[0] = (ParLevel){.level = LEVEL_BLOCK};
        r->npar = 1;
        r->at = &r->k->body;
        r->roles = 0;
        r->loop = NULL;
        r->loop_end = -1;
        r->tail = true;
        par_body(r, s, at + 1);
        r->at = NULL;
        r->npar = 0;
        r->k->threads = r->par[0].inner ? r->par[0].inner : DEFAULT_THREADS;
        if (r->k->threads % 32)
            resolve_unsupported(r, r->par[0].inner_loc,
                                "a block of %d threads; multiples of 32 are", r->k->threads);
        kernel_attributes(r, s);
        resolve_check_releases(r);
    }
    scope_pop(r, mark);
    r->k = r->host;
}

// A parallel on the host level is one kernel. The blocks of a cluster are the next parallel of the
// same statement, or the only statement inside.
static void outer_parallel(Resolve *r, const AstNode *s)
{
    const AstNode *c = s->list.at[0];
    if (c->kind != AST_PARBY || c->level != AST_LEVEL_CLUSTER) {
        block_parallel(r, s, 0, NULL, 0);
        return;
    }
    int size = cluster_size(r, c);
    if (size < 0) return;
    if (s->list.n > 1) {
        block_parallel(r, s, 1, c, size);
        return;
    }
    const AstNode *in = s->body;
    if (in && in->kind == AST_BLOCK && in->list.n == 1) in = in->list.at[0];
    if (!in || in->kind != AST_PARALLEL || !in->list.n) {
        resolve_error(r, s->loc, "such as `parallel c by 2 : cluster, b by n : block { .. }`",
                      "a cluster holds a parallel of blocks and nothing else");
        return;
    }
    if (s->attrs.n && in->attrs.n) {
        resolve_error(r, in->loc, "write them in front of the cluster",
                      "attributes of the cluster and of the blocks inside");
        return;
    }
    AstNode both = *in;
    if (s->attrs.n) both.attrs = s->attrs;
    both.flags |= s->flags & AST_F_ASYNC;
    if (!both.name) both.name = s->name;
    block_parallel(r, &both, 0, c, size);
}

void resolve_parallel(Resolve *r, const AstNode *s)
{
    if (!s->list.n) return;
    if (!r->at) {
        outer_parallel(r, s);
        return;
    }
    if (r->in_apply)
        resolve_error(r, s->loc, NULL, "a parallel inside an apply");
    else if (r->roles)
        resolve_unsupported(r, s->loc, "parallel inside inthreads");
    else if (s->flags & AST_F_ASYNC || s->name)
        resolve_error(r, s->loc, "only the outermost parallel is launched",
                      "an inner parallel cannot be .async or have a stream");
    else
        inner_parallel(r, s, 0);
}

// ---- functions ---------------------------------------------------------------------------------

// A device has at least one of each, and no size below depends on more than 31 bits of it.
static void know_device(Resolve *r)
{
#define X(id, text) expr_set_range(r->x, intern(r->m->names, text), 1, INT32_MAX);
    PLAN_DEVICE_PROPS(X)
#undef X
}

// T [dims] x; on the host level of a function that returns an array: the array that it returns.
void resolve_result_decl(Resolve *r, const AstNode *s)
{
    PlanParam out = {.name = s->name, .kind = PLAN_TENSOR, .type = (DType)s->type->dtype,
                     .out = true, .result = true, .align = PARAM_ALIGN, .loc = s->loc};
    bool made = false;
    for (int i = 0; i < r->plan->params.n; i++)
        made |= r->plan->params.at[i].result || r->plan->params.at[i].kind == PLAN_WORKSPACE;
    if (made || r->nkernels || s->list.n || s->value) {
        resolve_unsupported(r, s->loc, made ? "more than one array that the function makes"
                                            : "this place or form of a returned array");
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    for (int i = 0; i < s->type->list.n; i++) {
        const AstNode *e = s->type->list.at[i];
        Value v = resolve_expr(r, e);
        if (v.kind == VAL_SCALAR) {
            const Expr *n = value_to_index(r, v, e->loc, "an extent of an array");
            v = (Value){.kind = n ? VAL_LIST : VAL_NONE, .n = 1, .item = {{n, NULL}}};
        }
        bool fits = v.kind == VAL_LIST && out.rank + v.n <= PLAN_MAX_RANK;
        for (int k = 0; fits && k < v.n; k++) out.dim[out.rank++] = v.item[k].index;
        if (!fits && v.kind != VAL_NONE)
            resolve_error(r, e->loc, NULL, "an array has 1 to %d integer extents", PLAN_MAX_RANK);
        if (!fits) {
            scope_add(r, s->name, s->loc, value_none());
            return;
        }
    }
    TileBuffer b = {.name = s->name, .kind = TB_GLOBAL, .type = out.type, .rank = out.rank,
                    .param = r->plan->params.n, .slots = 1, .loc = s->loc};
    memcpy(b.dim, out.dim, sizeof b.dim);
    vec_push(r->arena, &r->plan->params, out);
    scope_add(r, s->name, s->loc, view_of_buffer(r, resolve_add_buffer(r, b)));
}

// return x; the array that was declared for it, of the type and shape that the function states.
void resolve_result_return(Resolve *r, const AstNode *s)
{
    Value v;
    if (!resolve_need_view(r, s->value, "the result", &v)) return;
    const TileBuffer *b = &r->k->buffers.at[v.view.buffer];
    if (!r->plan->params.at[b->param].result || v.view.rank != b->rank) {
        resolve_error(r, s->loc, "declare it in the function: `f32 [N] x;`",
                      "what is returned must be an array that the function makes");
        return;
    }
    const AstNode *t = r->returns;
    if (t->dtype != (int)b->type || t->list.n != b->rank) {
        resolve_error(r, s->loc, NULL, "the function returns %s with %d dimensions, this is %s",
                      t->name, t->list.n, view_text(r, &v));
        return;
    }
    for (int d = 0; d < b->rank; d++) {
        const AstNode *e = t->list.at[d];
        if (e->kind == AST_ANYDIM) continue;
        const Expr *n = resolve_index(r, e, "a dimension");
        if (n && n != b->dim[d])
            resolve_error(r, s->loc, NULL, "dimension %d of the result is %s, not %s", d,
                          resolve_text(r, b->dim[d]), resolve_text(r, n));
    }
}

// auto f(..): the type of the array that the last statement returns, NULL if it is none.
static const AstNode *returned_type(const AstNode *fn)
{
    const AstNode *body = fn->body, *t = fn->type;
    const AstNode *last = body && body->list.n ? body->list.at[body->list.n - 1] : NULL;
    if (!t || !t->name || strcmp(t->name, "auto") != 0 || !last || last->kind != AST_RETURN ||
        !last->value || last->value->kind != AST_NAME)
        return NULL;
    for (int i = 0; i < body->list.n; i++) {
        const AstNode *s = body->list.at[i];
        if (s->kind == AST_BUFFER_DECL && s->name == last->value->name) return s->type;
    }
    return NULL;
}

// One walk over a function; its result goes to r->m.
static void walk(Resolve *r, const AstNode *fn)
{
    r->fn = ARENA_NEW(r->arena, TileFn);
    r->plan = r->fn->plan = ARENA_NEW(r->arena, Plan);
    r->fn->name = r->plan->name = fn->name;
    r->fn->loc = fn->loc;
    r->plan->options = "";
    r->k = r->host = ARENA_NEW(r->arena, TileKernel);
    r->host->name = fn->name;
    r->names = map_new(r->arena);
    r->used_plain = map_new(r->arena);
    r->mutables = map_new(r->arena);
    r->var_level = map_new(r->arena);
    r->last_set = map_new(r->arena);
    r->first_set = map_new(r->arena);
    r->made_of = map_new(r->arena);
    r->const_params = map_new(r->arena);
    r->returns = fn->type && fn->type->flags & AST_F_SPANNED ? fn->type : returned_type(fn);
    if (fn->type && !r->returns && fn->type->dtype >= 0)
        resolve_unsupported(r, fn->type->loc, "functions that return a scalar");
    know_device(r);
    declare_params(r, fn);
    declare_tensors(r, fn);
    declare_made(r, fn);
    add_buffers(r);
    const AstNode *body = fn->body;
    for (int i = 0; body && i < body->list.n; i++) resolve_stmt(r, body->list.at[i]);
    const AstNode *last = body && body->list.n ? body->list.at[body->list.n - 1] : NULL;
    if (r->returns && (!last || last->kind != AST_RETURN))
        resolve_error(r, r->returns->loc, "end it with `return x;`",
                      "'%s' returns an array, and does not end with a return", fn->name);
    scope_pop(r, 0);
    vec_push(r->arena, &r->m->fns, r->fn);
}

// The first walk works on a module, a pool and messages of its own.
static Map *find_shapes(const TileModule *m, const AstFile *f, const Contract *c,
                        const AstNode *fn)
{
    TileModule scratch = {.arena = m->arena,
                          .names = m->names,
                          .diag = diag_new(m->arena),
                          .exprs = expr_pool_new(m->arena, m->names)};
    Resolve r = {.m = &scratch,
                 .arena = m->arena,
                 .x = scratch.exprs,
                 .diag = scratch.diag,
                 .file = f,
                 .contract = c,
                 .first_walk = true,
                 .acc_shapes = map_new(m->arena),
                 .used = map_new(m->arena)};
    walk(&r, fn);
    return r.acc_shapes;
}

static bool declared_before(const AstFile *f, int n)
{
    for (int i = 0; i < n; i++)
        if (f->parts[i].kind == PART_TILE && f->parts[i].fn &&
            f->parts[i].fn->name == f->parts[n].fn->name)
            return true;
    return false;
}

static void no_function(TileModule *m, const AstFile *f, const char *entry)
{
    Loc loc = {.file = f->file};
    if (!entry) {
        diag_error(m->diag, loc,
                   "a tile function looks like `__co__ void f(global f32 [N] x) { ... }`",
                   "no tile function in this file");
        return;
    }
    Buf b = {0};
    for (int i = 0; i < f->nparts; i++)
        if (f->parts[i].kind == PART_TILE && f->parts[i].fn && f->parts[i].fn->name)
            buf_printf(&b, "%s%s", b.n ? ", " : "the file has ", f->parts[i].fn->name);
    diag_error(m->diag, loc, b.s, "no tile function '%s' in this file", entry);
    buf_free(&b);
}

bool tile_from_ast(TileModule *m, const AstFile *f, const Contract *c, const char *entry)
{
    int before = diag_errors(m->diag), found = 0;
    Map *used = map_new(m->arena);
    for (int i = 0; i < f->nparts; i++) {
        const AstNode *fn = f->parts[i].fn;
        if (f->parts[i].kind != PART_TILE || !fn || fn->kind != AST_FUNC || !fn->name) continue;
        if (entry && strcmp(entry, fn->name) != 0) continue;
        found++;
        if (declared_before(f, i)) {
            diag_error(m->diag, fn->loc, NULL, "a second function '%s'", fn->name);
            continue;
        }
        Map *shapes = find_shapes(m, f, c, fn);
        Resolve r = {.m = m,
                     .arena = m->arena,
                     .x = m->exprs,
                     .diag = m->diag,
                     .file = f,
                     .contract = c,
                     .acc_shapes = shapes,
                     .used = used};
        walk(&r, fn);
    }
    // A function that did not parse has been reported.
    if (!found && !before) no_function(m, f, entry);
    return diag_errors(m->diag) == before && found;
}
