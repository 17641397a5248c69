// resolve_role.c - inthreads: a part of the block's threads runs a block of statements.
//
// The condition is evaluated for every thread of the block. Each run of neighbouring threads for
// which it holds becomes one ROLE of the tile IR with its own copy of the body; as a rule there is
// just one. Names that have one value in all threads of the role become that constant inside it.
#include "resolve.h"

enum { ROLE_MAX_RUNS = 8 };

// ---- the condition -----------------------------------------------------------------------------

typedef struct {
    const Resolve *r;
    int tid;
} OneThread;

// The value of a parallel variable in one thread.
static bool thread_value(void *ctx, const char *name, i64 *value)
{
    const OneThread *t = ctx;
    const Resolve *r = t->r;
    for (int i = 1; i < r->npar; i++) {
        const ParLevel *p = &r->par[i];
        if (p->var != name) continue;
        int inside = i == 1 ? t->tid : t->tid % r->par[i - 1].threads;
        *value = inside / p->threads % p->count;
        return true;
    }
    return false;
}

static bool is_parallel(const Resolve *r, const char *name)
{
    for (int i = 1; i < r->npar; i++)
        if (r->par[i].var == name) return true;
    return false;
}

// Threads of the block, as its parallel levels make them.
static int block_threads(const Resolve *r)
{
    return r->npar > 1 ? r->par[1].threads * r->par[1].count : 0;
}

static bool uses_parallel(const Resolve *r, const Expr *e)
{
    if (!e) return false;
    if (e->op == EX_VAR) return is_parallel(r, e->name);
    return uses_parallel(r, e->a) || uses_parallel(r, e->b) || uses_parallel(r, e->c);
}

static bool only_parallel(const Resolve *r, const Expr *e)
{
    if (!e) return true;
    if (e->op == EX_VAR) return is_parallel(r, e->name);
    return only_parallel(r, e->a) && only_parallel(r, e->b) && only_parallel(r, e->c);
}

// Names an index that this role has made a constant.
static bool names_role_constant(const Resolve *r, const AstNode *e)
{
    if (!e) return false;
    const Symbol *s = e->kind == AST_NAME ? scope_find(r, e->name) : NULL;
    if ((s && s->of_role) || names_role_constant(r, e->value)) return true;
    for (int i = 0; i < e->list.n; i++)
        if (names_role_constant(r, e->list.at[i])) return true;
    return false;
}

// Whether a side of a comparison depends on the thread. It is looked at once more here, without
// messages and without a trace.
static bool side_depends(Resolve *r, const AstNode *e)
{
    TileBlock unused = {0}, *at = r->at;
    Diag *diag = r->diag;
    r->at = &unused;
    r->diag = diag_new(r->arena);
    Value v = resolve_expr(r, e);
    r->at = at;
    r->diag = diag;
    if (v.kind != VAL_SCALAR) return false;
    if (names_role_constant(r, e)) return true;
    return v.index ? uses_parallel(r, v.index) : resolve_tree_level(r, v.x) > LEVEL_BLOCK;
}

// Comparisons with one side that depends on the thread, and `&&`, `||`, `!` of such.
static bool check_divergent(Resolve *r, const AstNode *e)
{
    if (e->kind == AST_UNARY && e->op == AST_OP_NOT) return check_divergent(r, e->value);
    if (e->kind == AST_BINARY && e->list.n == 2) {
        const AstNode *a = e->list.at[0], *b = e->list.at[1];
        if (e->op == AST_OP_LAND || e->op == AST_OP_LOR)
            return check_divergent(r, a) && check_divergent(r, b);
        if (e->op >= AST_OP_EQ && e->op <= AST_OP_GE) {
            bool left = side_depends(r, a), right = side_depends(r, b);
            if (left != right) return true;
            resolve_error(r, e->loc, "compare an index of a parallel with a constant",
                          left ? "both sides of this comparison depend on the thread"
                               : "no side of this comparison depends on the thread");
            return false;
        }
    }
    resolve_error(r, e->loc, "such as `inthreads (p == 0 && t < 32)`",
                  "inthreads takes comparisons of an index of a parallel, joined by && || and !");
    return false;
}

// Which threads of the block it holds for.
static bool find_threads(Resolve *r, const AstNode *s, const Expr *cond, bool *holds)
{
    if (!cond || !only_parallel(r, cond)) {
        resolve_unsupported(r, s->cond->loc,
                            "inthreads with a condition that depends on values of the run");
        return false;
    }
    for (int tid = 0; tid < block_threads(r); tid++) {
        OneThread t = {r, tid};
        i64 value;
        const char *why = expr_eval(cond, thread_value, &t, &value);
        if (why) {
            resolve_error(r, s->cond->loc, NULL, "the condition cannot be computed: %s", why);
            return false;
        }
        holds[tid] = value != 0 && (!r->roles || (tid >= r->role_lo && tid < r->role_hi));
    }
    return true;
}

// ---- bodies ------------------------------------------------------------------------------------

// The value of e when all threads of the role have the same.
static bool one_value(Resolve *r, const Expr *e, int lo, int hi, i64 *out)
{
    for (int tid = lo; tid < hi; tid++) {
        OneThread t = {r, tid};
        i64 value;
        if (expr_eval(e, thread_value, &t, &value)) return false;
        if (tid > lo && value != *out) return false;
        *out = value;
    }
    return true;
}

// In a role of one warpgroup its index is a constant, and so is what was computed from it.
static void bind_constants(Resolve *r, int lo, int hi)
{
    int n = r->symbols.n;
    for (int i = 0; i < n; i++) {
        const Symbol *s = r->symbols.at[i];
        i64 value = 0;
        if (scope_find(r, s->name) != s || s->mutable || !value_is_integer(&s->value)) continue;
        const Expr *e = s->value.index;
        if (!e || !uses_parallel(r, e) || !only_parallel(r, e)) continue;
        if (!one_value(r, e, lo, hi, &value)) continue;
        Value v = s->value;
        v.index = expr_const(r->x, value);
        v.x = NULL;
        Symbol *inside = scope_add(r, s->name, s->loc, v);
        if (inside) inside->of_role = true;
    }
}

// Variables from outside that the role set differ between its threads and the others from here on.
static bool raise_outer(Resolve *r, int start, int lo, int hi)
{
    bool any = false;
    for (int i = 0; i < r->symbols.n; i++) {
        const Symbol *s = r->symbols.at[i];
        if (s->scalar < 0) continue;
        const char *name = r->k->scalars.at[s->scalar].name;
        if ((intptr_t)map_get(r->last_set, name) <= start) continue;
        resolve_raise(r, name, lo % 128 || hi % 128 ? LEVEL_THREAD : LEVEL_GROUP4);
        any = true;
    }
    return any;
}

// What one warp can do for the role: waits for events, and loads and stores that one lane issues.
static bool one_warp_does(const Resolve *r, const TileBlock *b, bool *loads)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        bool ok = o->op == TOP_EVENT_WAIT || o->op == TOP_SET || o->op == TOP_FOR ||
                  o->op == TOP_IF || (o->op == TOP_TRIGGER && !r->k->events.at[o->event].count) ||
                  (o->op == TOP_COPY && o->event >= 0);
        if (!ok || !one_warp_does(r, &o->body, loads) || !one_warp_does(r, &o->other, loads))
            return false;
        *loads |= o->op == TOP_COPY;
    }
    return true;
}

// A role that only brings data: its first warp waits and issues, the others are done. If all
// waited, a slow one of those that issue nothing could fall behind by more generations than a
// barrier tells apart, since nobody waits for it.
static void narrow_role(Resolve *r, TileOp *role, int lo, int hi)
{
    TileBlock work = {0};
    bool loads = false;
    int first = 0;
    while (first < role->body.n && role->body.at[first]->op == TOP_SETREG) first++;
    for (int i = first; i < role->body.n; i++) vec_push(r->arena, &work, role->body.at[i]);
    if (lo % 32 || hi - lo <= 32 || !one_warp_does(r, &work, &loads) || !loads) return;
    role->body.n = first;
    TileBlock *saved = r->at;
    r->at = &role->body;
    TileOp *inner = resolve_emit(r, TOP_ROLE, role->loc);
    r->at = saved;
    inner->lo = expr_const(r->x, lo);
    inner->hi = expr_const(r->x, lo + 32);
    inner->body = work;
}

static void role_body(Resolve *r, const AstNode *s, int lo, int hi)
{
    TileOp *o = resolve_emit(r, TOP_ROLE, s->loc);
    o->lo = expr_const(r->x, lo);
    o->hi = expr_const(r->x, hi);
    TileBlock *saved = r->at;
    int outer_lo = r->role_lo, outer_hi = r->role_hi, start = r->serial, mark = scope_push(r);
    bool all = r->roles ? lo == outer_lo && hi == outer_hi : hi - lo == block_threads(r);
    bind_constants(r, lo, hi);
    bool tail = r->tail;
    if (!(s->flags & AST_F_ASYNC) && !r->roles) r->tail = false; // a barrier follows
    r->at = &o->body;
    r->role_lo = lo;
    r->role_hi = hi;
    r->roles++;
    resolve_block(r, s->body);
    r->roles--;
    r->tail = tail;
    r->role_lo = outer_lo;
    r->role_hi = outer_hi;
    r->at = saved;
    scope_pop(r, mark);
    if (!all && !raise_outer(r, start, lo, hi)) narrow_role(r, o, lo, hi);
}

// One ROLE for each run of neighbouring threads.
static void role_bodies(Resolve *r, const AstNode *s, const bool *holds)
{
    int threads = block_threads(r), n = 0, lo[ROLE_MAX_RUNS], hi[ROLE_MAX_RUNS];
    for (int tid = 0; tid < threads; tid++) {
        if (!holds[tid] || (tid && holds[tid - 1])) continue;
        if (n == ROLE_MAX_RUNS) {
            resolve_unsupported(r, s->cond->loc,
                                "inthreads of more than %d separate groups of threads",
                                ROLE_MAX_RUNS);
            return;
        }
        lo[n] = hi[n] = tid;
        while (hi[n] < threads && holds[hi[n]]) hi[n]++;
        n++;
    }
    // One of several roles that were made of one body may have no part in it.
    if (!n && !r->role_parts)
        resolve_error(r, s->cond->loc, NULL, "no thread of the block%s satisfies this condition",
                      r->roles ? " that gets here" : "");
    int errors = diag_errors(r->diag), parts = r->role_parts;
    r->role_parts += n > 1;
    for (int i = 0; i < n && diag_errors(r->diag) == errors; i++) role_body(r, s, lo[i], hi[i]);
    r->role_parts = parts;
}

// Events and roles inside: it matters who executes it. `groups`: and what warpgroups do together.
static bool has_participants(const AstNode *n, bool groups)
{
    if (!n) return false;
    switch (n->kind) {
    case AST_TRIGGER:
    case AST_WAIT:
    case AST_INTHREADS: return true;
    case AST_XFER:
    case AST_MMA:
    case AST_APPLY:
    case AST_REDUCE:
    case AST_ALL_REDUCE:
    case AST_COPY: return groups;
    default: break;
    }
    if (has_participants(n->body, groups) || has_participants(n->alt, groups)) return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (has_participants(n->list.at[i], groups)) return true;
    return false;
}

// if (c) S else T on nothing but the thread's place: two roles, so that triggers count who executes
// them. Returns false when it is an ordinary branch.
bool resolve_role_branch(Resolve *r, const AstNode *s, const Expr *cond)
{
    if (r->in_apply || r->npar < 2 || !cond || !uses_parallel(r, cond) || !only_parallel(r, cond))
        return false;
    bool groups = resolve_expr_level(r, cond) == LEVEL_GROUP4;
    if (!has_participants(s->body, groups) && !has_participants(s->alt, groups)) return false;
    AstNode side = *s;
    side.flags = AST_F_ASYNC; // no barrier behind it
    for (int no = 0; no < 2; no++) {
        bool holds[RESOLVE_MAX_THREADS] = {0}, any = false;
        if (!(side.body = no ? s->alt : s->body)) continue;
        if (!find_threads(r, s, cond, holds)) return true;
        for (int tid = 0; tid < block_threads(r); tid++) {
            bool here = !r->roles || (tid >= r->role_lo && tid < r->role_hi);
            holds[tid] = here && holds[tid] == !no;
            any |= holds[tid];
        }
        if (any) role_bodies(r, &side, holds);
    }
    return true;
}

static int runs_of(const bool *holds, int threads)
{
    int n = 0;
    for (int tid = 0; tid < threads; tid++) n += holds[tid] && !(tid && holds[tid - 1]);
    return n;
}

// A condition on values of the run, or that holds for many separate groups of threads, is a branch:
// who is inside is not known, so nothing there may be done together.
static bool is_branch(Resolve *r, const Expr *cond)
{
    bool holds[RESOLVE_MAX_THREADS] = {0};
    i64 value;
    if (!cond || !only_parallel(r, cond)) return true;
    for (int tid = 0; tid < block_threads(r); tid++) {
        OneThread t = {r, tid};
        if (expr_eval(cond, thread_value, &t, &value)) return false; // find_threads says why
        holds[tid] = value != 0;
    }
    return runs_of(holds, block_threads(r)) > ROLE_MAX_RUNS;
}

static void branch_body(Resolve *r, const AstNode *s)
{
    AstNode *branch = ARENA_NEW(r->arena, AstNode);
    *branch = *s;
    branch->kind = AST_IF;
    branch->flags = 0;
    bool tail = r->tail;
    if (!(s->flags & AST_F_ASYNC) && !r->roles) r->tail = false; // a barrier follows
    resolve_branch_then(r, branch, NULL, 0, false);
    r->tail = tail;
}

// inthreads[.async] (condition) S: without .async all threads of the block meet behind it.
void resolve_inthreads(Resolve *r, const AstNode *s)
{
    bool async = s->flags & AST_F_ASYNC;
    if (!r->at || r->in_apply || r->npar < 2) {
        resolve_error(r, s->loc, NULL,
                      r->in_apply ? "inthreads inside an apply"
                                  : "inthreads can only stand inside a `parallel` of threads");
        return;
    }
    if (async && r->roles) {
        resolve_error(r, s->loc, "leave out .async", "only the outermost inthreads can be .async");
        r->unseen = true;
        return;
    }
    const Expr *cond;
    bool holds[RESOLVE_MAX_THREADS] = {0};
    int errors = diag_errors(r->diag);
    TileBlock made = {0}, *at = r->at; // by the condition, which a branch evaluates for itself
    r->at = &made;
    bool fits = resolve_condition(r, s->cond, &cond) && check_divergent(r, s->cond);
    r->at = at;
    if (!fits) {
        r->unseen = true;
        return;
    }
    if (is_branch(r, cond)) {
        branch_body(r, s);
        r->unseen |= diag_errors(r->diag) != errors;
    } else if (find_threads(r, s, cond, holds)) {
        for (int i = 0; i < made.n; i++) vec_push(r->arena, r->at, made.at[i]);
        role_bodies(r, s, holds);
    } else {
        r->unseen = true;
        return;
    }
    if (!async && !r->roles &&
        resolve_together(r, s->loc, "the barrier behind inthreads", LEVEL_BLOCK))
        resolve_emit(r, TOP_BARRIER, s->loc)->level = LEVEL_BLOCK;
}

// What a warpgroup does together needs all of its threads in the role.
bool resolve_whole_groups(Resolve *r, Loc loc, const char *what)
{
    if (!r->roles || !(r->role_lo % 128 || r->role_hi % 128)) return true;
    resolve_error(r, loc, "widen the condition of inthreads to whole warpgroups",
                  "%s needs whole warpgroups of 128 threads; this role is the threads %d to %d",
                  what, r->role_lo, r->role_hi - 1);
    return false;
}
