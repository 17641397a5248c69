// output.c - is every element of every output written, and by one block only?
//
// Two executions of stores that touch one element differ in a block, a thread or a round. Which one
// comes first in that order is fixed in turn, and libisl is asked for both executions at once: the
// values before it are the same unknowns in both, the others are renamed. Two blocks that write one
// element are wrong whatever they write, for nothing orders them (rule O2); so are two warps at the
// same point of a program. What one thread does again later, or lanes of one warp do at once, has
// an order of its own and is only left open.
//
// That nothing is left out is cover.c's question.
#include "sets.h"
#include "store.h"

#include <string.h>

typedef VEC(Tensor) TensorList;

typedef struct {
    const CheckJob *job;
    Space *s;
    Asker *asker;
    TensorList tensors;
    int bad, open;
} Output;

static void tell_open(Output *o, Loc loc, const char *text)
{
    o->open++;
    check_open(o->job, "output", loc, text);
}

// ---- what is stored to --------------------------------------------------------------------------

static Tensor *tensor_of(Output *o, const char *name, int plan_param, int view)
{
    for (int i = 0; i < o->tensors.n; i++) {
        Tensor *t = &o->tensors.at[i];
        if (t->plan_param == plan_param && t->view == view) return t;
    }
    vec_push(o->s->arena, &o->tensors,
             ((Tensor){.name = name, .plan_param = plan_param, .fn_param = -1, .view = view}));
    return &o->tensors.at[o->tensors.n - 1];
}

// Has the buffer the extents of the plan's tensor, and no gaps?
static bool is_whole(Output *o, const ThreadBuffer *b, int plan_param)
{
    const PlanParam *q = &o->job->plan->params.at[plan_param];
    const Expr *unit = expr_const(o->s->pool, 1);
    if (q->rank != b->rank) return false;
    for (int k = b->rank - 1; k >= 0; k--) {
        const Expr *n = space_size(o->s, b->dim[k]);
        if (!n || n != space_size(o->s, q->dim[k])) return false;
        if (b->stride[k] && space_size(o->s, b->stride[k]) != unit) return false;
        unit = expr_mul(o->s->pool, unit, n);
    }
    return true;
}

// Dimension of the tensor along which a dimension of the map runs, and how many elements one step
// is: the map's stride is `step` times the tensor's. -1: none.
static int map_dimension(Output *o, const Tensor *t, const Expr *stride, i64 elem, i64 *step)
{
    ExprPool *p = o->s->pool;
    const Expr *unit = expr_const(p, elem);
    i64 have, want;
    int found = -1;
    for (int k = t->rank - 1; k >= 0; k--) {
        if (unit == stride) {
            *step = 1;
            return k;
        }
        if (expr_is_const(unit, &have) && expr_is_const(stride, &want) && want % have == 0) {
            *step = want / have;
            found = k;
        }
        if (!t->dim[k]) break;
        unit = expr_mul(p, unit, t->dim[k]);
    }
    return found;
}

// A box in the coordinates of the tensor. The dimensions of the map that run along one of the
// tensor must make one run of elements: (64, 2) with steps 1 and 64.
static bool box_to_tensor(Output *o, const Tensor *t, const Access *box, Access *out)
{
    ExprPool *p = o->s->pool;
    i64 elem = dtype_bytes[o->job->plan->params.at[t->plan_param].type], reach[6];
    *out = *box;
    out->rank = t->rank;
    for (int k = 0; k < t->rank; k++) {
        out->at[k] = expr_const(p, 0);
        reach[k] = 1;
    }
    for (int j = 0; j < box->map->rank; j++) {
        const Expr *stride = space_size(o->s, box->map->stride[j]);
        i64 step = 0;
        int k = stride ? map_dimension(o, t, stride, elem, &step) : -1;
        if (k < 0 || step != reach[k]) return false;
        out->at[k] = expr_add(p, out->at[k], expr_mul(p, box->at[j], expr_const(p, step)));
        const Expr *extent = space_size(o->s, box->map->dim[j]);
        i64 n;
        // Where a second dimension follows, the first must span all of its steps.
        if (step == 1 && extent != t->dim[k] &&
            !(extent && expr_is_const(extent, &n) && n == box->count[j] &&
              expr_is_const(box->at[j], &n) && !n))
            return false;
        reach[k] *= box->count[j];
    }
    for (int k = 0; k < t->rank; k++) out->count[k] = reach[k];
    return true;
}

static void add_box(Output *o, const Access *a)
{
    int param = space_map_tensor(o->s, a->map);
    if (param < 0 && a->map && a->map->rank) { // by the map's own coordinates
        Tensor *t = tensor_of(o, o->job->fn->params.at[a->map_param].name, -1, -2 - a->map_param);
        t->rank = a->rank;
        vec_push(o->s->arena, &t->stores, *a);
        return;
    }
    if (param < 0)
        return tell_open(o, a->op->loc, "no launch plan describes the tensor map of a bulk store");
    const PlanParam *q = &o->job->plan->params.at[param];
    Tensor *t = tensor_of(o, q->name, param, -1);
    for (int k = 0; k < q->rank && !t->rank; k++) t->dim[k] = space_size(o->s, q->dim[k]);
    t->rank = q->rank;
    Access store;
    if (!box_to_tensor(o, t, a, &store))
        return tell_open(
            o, a->op->loc,
            arena_printf(o->s->arena, "the boxes of %s do not follow its dimensions", q->name));
    vec_push(o->s->arena, &t->stores, store);
}

static void add_store(Output *o, const Access *a)
{
    const ThreadBuffer *b = &o->job->fn->buffers.at[a->buffer];
    if (b->kind != BUF_GLOBAL) return;
    int param = space_tensor(o->s, b->param);
    Tensor *t = tensor_of(o, b->name, param, param >= 0 && is_whole(o, b, param) ? -1 : a->buffer);
    if (param < 0) t->fn_param = b->param;
    for (int k = 0; k < b->rank && !t->rank; k++) t->dim[k] = space_size(o->s, b->dim[k]);
    t->rank = b->rank;
    if (a->touch & TOUCH_ATOMIC)
        t->atomics++;
    else
        vec_push(o->s->arena, &t->stores, *a);
}

// ---- two executions -----------------------------------------------------------------------------

// Unknowns of an access, with those in their facts.
static void reachable(Space *s, const Access *a, UnknownList *out)
{
    for (int k = 0; k < a->rank; k++) space_collect(s, a->at[k], out);
    for (int i = 0; i < a->path.n; i++) space_collect(s, a->path.at[i], out);
    for (int i = 0; i < a->inst.n; i++) space_collect(s, a->inst.at[i]->var, out);
    for (int i = 0; i < out->n; i++)
        for (int k = 0; k < out->at[i]->facts.n; k++)
            space_collect(s, out->at[i]->facts.at[k], out);
}

// The access once more with unknowns of its own, but for sizes and those of `shared`.
static Access second(Space *s, const Access *a, const UnknownList *shared)
{
    UnknownList all = {0}, old = {0}, new = {0};
    Access b = *a;
    reachable(s, a, &all);
    for (int i = 0; i < all.n; i++) {
        Unknown *u = all.at[i];
        bool keep = u->kind == UNKNOWN_SIZE;
        for (int k = 0; k < shared->n; k++) keep |= shared->at[k] == u;
        if (keep) continue;
        i64 lo, hi;
        expr_range(s->pool, u->var, &lo, &hi);
        vec_push(s->arena, &old, u);
        vec_push(s->arena, &new,
                 space_fresh(s, u->kind, arena_printf(s->arena, "%s'", u->shown), lo, hi));
    }
    for (int i = 0; i < old.n; i++)
        for (int k = 0; k < old.at[i]->facts.n; k++) {
            const Expr *fact = old.at[i]->facts.at[k];
            for (int j = 0; j < old.n; j++)
                fact = space_put(s, fact, old.at[j]->var, new.at[j]->var);
            space_fact(s, new.at[i], fact);
        }
    for (int j = 0; j < old.n; j++) access_put(s, &b, old.at[j]->var, new.at[j]->var);
    b.inst = (UnknownList){0};
    for (int i = 0; i < a->inst.n; i++) {
        Unknown *u = a->inst.at[i];
        for (int j = 0; j < old.n; j++)
            if (old.at[j] == u) u = new.at[j];
        vec_push(s->arena, &b.inst, u);
    }
    return b;
}

// Both take place, and one element within the tensor belongs to both.
static void overlap(Space *s, const Tensor *t, const Access *a, const Access *b, ExprList *out)
{
    ExprPool *p = s->pool;
    for (int k = 0; k < t->rank; k++) {
        vec_push(s->arena, out,
                 expr_bin(p, EX_LT, a->at[k], expr_add(p, b->at[k], expr_const(p, b->count[k]))));
        vec_push(s->arena, out,
                 expr_bin(p, EX_LT, b->at[k], expr_add(p, a->at[k], expr_const(p, a->count[k]))));
        if (!t->dim[k]) continue;
        vec_push(s->arena, out, expr_bin(p, EX_LT, a->at[k], t->dim[k]));
        vec_push(s->arena, out, expr_bin(p, EX_LT, b->at[k], t->dim[k]));
    }
    access_conds(s, a, out);
    access_conds(s, b, out);
}

static Answer ask_overlap(Output *o, const Tensor *t, const Access *a, const Access *b,
                          const Expr *more, const Expr *also, Sample *x)
{
    ExprList conds = {0};
    vec_push(o->s->arena, &conds, more);
    if (also) vec_push(o->s->arena, &conds, also);
    overlap(o->s, t, a, b, &conds);
    return ask(o->asker, &conds, x);
}

static const char *element_text(Output *o, const Tensor *t, const Access *a, const Access *b,
                                const Sample *x)
{
    Buf text = {0};
    for (int k = 0; k < t->rank; k++) {
        bool ok;
        i64 u = sample_value(o->s, x, a->at[k], &ok),
            v = b ? sample_value(o->s, x, b->at[k], &ok) : u;
        buf_printf(&text, "%s%lld", k ? ", " : "", (long long)MAX(u, v));
    }
    const char *s = arena_printf(o->s->arena, "%s(%s)", t->name, text.s ? text.s : "");
    buf_free(&text);
    return s;
}

static void tell_twice(Output *o, const Tensor *t, const Access *a, const Access *b,
                       const char *who, const Sample *x)
{
    o->bad++;
    CheckFinding *f =
        check_broken(o->job, "O2", a->op->loc,
                     arena_printf(o->s->arena, "%s is written by %s, with %s",
                                  element_text(o, t, a, b, x), who, sample_text(o->s, x)));
    f->other = b->op->loc;
    f->hint = "one element has one writer; what several add up goes through an atomic operation";
}

// An open question about one element and two executions.
static void tell_perhaps(Output *o, const Tensor *t, const Access *a, const char *what,
                         const char *why)
{
    tell_open(o, a->op->loc,
              arena_printf(o->s->arena, "an element of %s %s%s%s", t->name, what,
                           why ? ": " : "", why ? why : ""));
}

// Is the block of an execution known to be one of several?
static bool blocks_count(Output *o, const Unknown *u)
{
    return o->s->grid[0] || u->kind != UNKNOWN_BLOCK;
}

// Executions of one store that agree in all before number `i` and differ there. False: told.
static bool check_same(Output *o, const Tensor *t, const Access *a, int i)
{
    ExprPool *p = o->s->pool;
    Space *s = o->s;
    Unknown *u = a->inst.at[i];
    UnknownList shared = {0};
    Sample x;
    for (int k = 0; k < i; k++) vec_push(s->arena, &shared, a->inst.at[k]);
    Access b = second(s, a, &shared);
    const Expr *v = b.inst.at[i]->var, *differ = expr_bin(p, EX_LT, u->var, v);
    Answer r = ask_overlap(o, t, a, &b, differ, NULL, &x);
    if (r == ANSWER_NO) return true;
    if (u->kind == UNKNOWN_BLOCK) {
        if (r == ANSWER_YES && blocks_count(o, u))
            tell_twice(o, t, a, &b, "two blocks", &x);
        else
            tell_perhaps(o, t, a, "may be written by two blocks",
                         r == ANSWER_YES ? "no launch plan says how many there are" : x.why);
        return false;
    }
    if (u->kind != UNKNOWN_THREAD) {
        tell_perhaps(o, t, a, "may be written more than once by one thread",
                     r == ANSWER_OPEN ? x.why : NULL);
        return false;
    }
    // Two threads: at the same time when they agree in everything else.
    for (int k = i + 1; k < a->inst.n; k++) vec_push(s->arena, &shared, a->inst.at[k]);
    b = second(s, a, &shared);
    v = b.inst.at[i]->var;
    differ = expr_bin(p, EX_LT, u->var, v);
    const Expr *warp = expr_const(p, 32);
    const Expr *warps =
        expr_bin(p, EX_LT, expr_bin(p, EX_DIV, u->var, warp), expr_bin(p, EX_DIV, v, warp));
    if (ask_overlap(o, t, a, &b, differ, warps, &x) == ANSWER_YES)
        tell_twice(o, t, a, &b, "two warps of a block at once", &x);
    else
        tell_perhaps(o, t, a, "may be written by more than one thread of a block",
                     r == ANSWER_OPEN ? x.why : NULL);
    return false;
}

// Executions of two stores. False: told.
static bool check_pair(Output *o, const Tensor *t, const Access *a, const Access *c)
{
    ExprPool *p = o->s->pool;
    UnknownList none = {0};
    Sample x;
    Access b = second(o->s, c, &none);
    Answer r = ask_overlap(o, t, a, &b, expr_const(p, 1), NULL, &x);
    if (r == ANSWER_NO) return true;
    for (int i = 0; i < a->inst.n && i < b.inst.n; i++) {
        if (a->inst.at[i]->kind != UNKNOWN_BLOCK || b.inst.at[i]->kind != UNKNOWN_BLOCK) continue;
        const Expr *differ = expr_bin(p, EX_NE, a->inst.at[i]->var, b.inst.at[i]->var);
        if (ask_overlap(o, t, a, &b, differ, NULL, &x) != ANSWER_YES || !o->s->grid[0]) continue;
        tell_twice(o, t, a, &b, "two blocks", &x);
        return false;
    }
    tell_perhaps(o, t, a,
                 arena_printf(o->s->arena, "may be written again in line %u", b.op->loc.line),
                 r == ANSWER_OPEN ? x.why : NULL);
    return false;
}

// Everything has one writer. False: something was told.
static bool check_once(Output *o, const Tensor *t)
{
    bool good = true;
    for (int i = 0; i < t->stores.n; i++) {
        const Access *a = &t->stores.at[i];
        for (int k = 0; k < a->inst.n; k++)
            if (!check_same(o, t, a, k)) {
                good = false;
                break;
            }
        for (int k = i + 1; k < t->stores.n; k++) good &= check_pair(o, t, a, &t->stores.at[k]);
    }
    return good;
}

// ---- nothing left out ---------------------------------------------------------------------------

// Does somebody else write the tensor: another kernel under conditions that do not exclude this
// one's, or a fill?
static bool other_writer(Output *o, const Tensor *t)
{
    const Plan *plan = o->job->plan;
    for (int i = 0; i < plan->steps.n; i++) {
        const PlanStep *q = plan->steps.at[i];
        if (q == o->job->step) continue;
        bool uses = q->kind == STEP_MEMSET && q->param == t->plan_param;
        for (int k = 0; k < q->args.n && q->kind == STEP_KERNEL; k++) {
            const PlanArg *g = &q->args.at[k];
            uses |= (g->kind == ARG_TENSOR && g->index == t->plan_param) ||
                    (g->kind == ARG_TMAP && q->tmaps.at[g->index].param == t->plan_param);
        }
        if (!uses) continue;
        const Expr *when = q->when ? space_size(o->s, q->when) : expr_const(o->s->pool, 1);
        const Expr *mine =
            o->job->step->when ? space_size(o->s, o->job->step->when) : expr_const(o->s->pool, 1);
        if (!when || !mine) return true;
        ExprList both = {0};
        Sample x;
        vec_push(o->s->arena, &both, when);
        vec_push(o->s->arena, &both, mine);
        if (ask(o->asker, &both, &x) != ANSWER_NO) return true;
    }
    return false;
}

// Stores to one memory with different extents cannot be compared.
static bool is_shared(Output *o, const Tensor *t)
{
    for (int i = 0; i < o->tensors.n; i++) {
        const Tensor *u = &o->tensors.at[i];
        if (u == t || (u->plan_param < 0 && u->fn_param < 0)) continue;
        if (u->plan_param == t->plan_param && u->fn_param == t->fn_param) return true;
    }
    return false;
}

// False: something was told. Tensors that come in with values may keep them.
static bool check_complete(Output *o, const Tensor *t, bool *asked)
{
    const PlanParam *q = t->plan_param >= 0 ? &o->job->plan->params.at[t->plan_param] : NULL;
    *asked = false;
    if ((t->view >= 0 && q && q->out) || is_shared(o, t)) {
        tell_open(
            o, t->stores.n ? t->stores.at[0].op->loc : (Loc){0},
            arena_printf(o->s->arena, "%s is written with extents or strides of its own", t->name));
        return false;
    }
    if (!q || !q->out || q->in || t->atomics || other_writer(o, t)) return true;
    *asked = true;
    CoverResult r = {0};
    Cover c = cover_tensor(o->s, o->asker, t, &r);
    if (c == COVER_ALL) return true;
    if (c == COVER_OPEN) {
        tell_open(
            o, r.loc,
            arena_printf(o->s->arena, "that every element of %s is written: %s", t->name, r.why));
        return false;
    }
    Buf text = {0};
    for (int k = 0; k < t->rank; k++)
        buf_printf(&text, "%s%lld", k ? ", " : "", (long long)r.element[k]);
    o->bad++;
    CheckFinding *f = check_broken(o->job, "output", r.loc,
                                   arena_printf(o->s->arena, "%s(%s) is never written, with %s",
                                                t->name, text.s, sample_text(o->s, &r.sample)));
    f->hint = "every element of an output has a writer";
    buf_free(&text);
    return false;
}

// ---- all ----------------------------------------------------------------------------------------

void check_output(const CheckJob *job)
{
    Arena *arena = arena_new(0);
    Space *s = space_new(job, arena);
    Output o = {.job = job, .s = s, .asker = asker_new(s)};
    AccessList all = {0};
    const char *why = NULL;
    Buf text = {0};
    if (!walk_kernel(s, &all, &why)) check_open(job, "output", (Loc){0}, why);
    for (int i = 0; i < all.n && !why; i++) {
        Access *a = &all.at[i];
        if (!(a->touch & TOUCH_WRITE)) continue;
        if (!list_rewrite(s, a)) order_rewrite(s, a);
        if (a->buffer < 0)
            add_box(&o, a);
        else
            add_store(&o, a);
    }
    for (int i = 0; i < o.tensors.n; i++) {
        const Tensor *t = &o.tensors.at[i];
        bool asked = false, good = check_once(&o, t);
        if (!check_complete(&o, t, &asked) || !good) continue;
        buf_printf(&text, "%s%s is written %s%s", text.n ? ", " : "", t->name,
                   asked ? "completely, each element once" : "by one block at each element",
                   t->atomics ? " (its atomic operations are left out)" : "");
    }
    if (text.n) check_proved(job, "output", arena_printf(arena, "%s, for all sizes", text.s));
    buf_free(&text);
    check_assumed(job, "32-bit index arithmetic does not overflow");
    asker_free(o.asker);
    arena_free(arena);
}
