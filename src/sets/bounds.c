// bounds.c - does every access stay inside its buffer? Asked per access and dimension: is there a
// launch, a block, a thread and a round for which the conditions around hold and the coordinate is
// negative, or the last element at or beyond the extent. Ranges answer most of it; libisl the rest.
//
// The TMA unit clips what it copies at the edges of its map, so its boxes may reach beyond them: a
// load may also start there, while a store with a negative start kills the launch. Both start at
// multiples of 16 bytes in the innermost dimension. On the shared side the whole box must lie
// within its tile.
#include "sets.h"
#include "space.h"

#include <string.h>

typedef struct {
    const CheckJob *job;
    Space *s;
    Asker *asker;
    int accesses, copies;            // looked at
    int bad, open;                   // of them
    VEC(const PlanTensorMap *) maps; // whose strides were looked at
} Bounds;

// ---- texts --------------------------------------------------------------------------------------

static const char *op_text(const Access *a) { return thread_op[a->op->op].name; }

static void tell_open(Bounds *b, const Access *a, const char *what, const char *why)
{
    b->open++;
    check_open(b->job, "bounds", a->op->loc,
               arena_printf(b->s->arena, "%s: %s: %s", op_text(a), what, why));
}

// ---- one question -------------------------------------------------------------------------------

// Asks whether `wrong` may hold where the access takes place.
static Answer ask_wrong(Bounds *b, const Access *a, const Expr *wrong, Sample *x)
{
    ExprList conds = {0};
    i64 v;
    if (expr_is_const(wrong, &v) && !v) return ANSWER_NO;
    vec_push(b->s->arena, &conds, wrong);
    access_conds(b->s, a, &conds);
    return ask(b->asker, &conds, x);
}

// One dimension of an access. `extent` NULL: not asked above.
static bool check_dimension(Bounds *b, const Access *a, const char *name, int k, const Expr *extent)
{
    ExprPool *p = b->s->pool;
    Sample x;
    const Expr *zero = expr_const(p, 0),
               *last = expr_add(p, a->at[k], expr_const(p, a->count[k] - 1));
    const Expr *wrong = expr_bin(p, EX_LT, a->at[k], zero);
    const char *side = "below 0";
    Answer r = ask_wrong(b, a, wrong, &x);
    if (r == ANSWER_NO && extent) {
        wrong = expr_bin(p, EX_LE, extent, last);
        side = "beyond the end";
        r = ask_wrong(b, a, wrong, &x);
    }
    if (r == ANSWER_NO) return true;
    const char *what = arena_printf(b->s->arena, "coordinate %d of %s may lie %s", k, name, side);
    if (r == ANSWER_YES && (b->s->grid[0] || !space_uses(b->s, wrong, UNKNOWN_BLOCK))) {
        bool ok;
        i64 at = sample_value(b->s, &x, side[0] == 'b' && side[2] == 'l' ? a->at[k] : last, &ok);
        i64 n = extent ? sample_value(b->s, &x, extent, &ok) : 0;
        const char *of = extent ? arena_printf(b->s->arena, " of %lld", (long long)n) : "";
        b->bad++;
        CheckFinding *f = check_broken(
            b->job, "bounds", a->op->loc,
            arena_printf(b->s->arena, "%s: coordinate %d of %s is %lld%s, with %s", op_text(a), k,
                         name, (long long)at, of, sample_text(b->s, &x)));
        f->hint = "a condition must keep such lanes out";
        return false;
    }
    tell_open(b, a, what,
              r == ANSWER_YES ? "no launch plan says how many blocks there are" : x.why);
    return false;
}

// ---- buffers ------------------------------------------------------------------------------------

static void check_buffer(Bounds *b, const Access *a)
{
    const ThreadBuffer *q = &b->job->fn->buffers.at[a->buffer];
    for (int k = 0; k < a->rank; k++) {
        const Expr *extent = space_size(b->s, q->dim[k]);
        if (!extent) {
            tell_open(b, a, arena_printf(b->s->arena, "coordinate %d of %s", k, q->name),
                      "its extent is not given by the launch");
            return;
        }
        if (!check_dimension(b, a, q->name, k, extent)) return;
    }
}

// The shared side of a bulk copy: from its origin, the box fills bytes of one tile. A place in the
// tile that is not constant is asked for by rows and columns, which a box of two dimensions has.
static void check_box_room(Bounds *b, const Access *a, const PlanTensorMap *map, int elem)
{
    const ThreadBuffer *q = &b->job->fn->buffers.at[a->buffer];
    i64 at[6] = {0}, bytes = elem, room = thread_buffer_bytes(q);
    for (int k = 0; k < map->rank; k++) bytes *= map->box[k];
    for (int k = 0; k < q->rank; k++) {
        if (k < q->rank - 2 && q->rank > 2) {
            room /= q->dim[k]->value;
            continue;
        }
        if (expr_is_const(a->at[k], &at[k])) continue;
        if (map->rank == 2 && q->rank >= 2) {
            Access tile = *a;
            for (int d = 0; d < 2; d++) tile.count[q->rank - 1 - d] = map->box[d];
            check_buffer(b, &tile);
            return;
        }
        tell_open(b, a, arena_printf(b->s->arena, "the box in %s", q->name),
                  "its place in the tile is not constant");
        return;
    }
    i64 from = thread_buffer_offset(q, at);
    if (from + bytes <= room) return;
    b->bad++;
    check_broken(b->job, "bounds", a->op->loc,
                 arena_printf(b->s->arena,
                              "%s: a box of %lld bytes at byte %lld of %s, whose tile "
                              "has %lld",
                              op_text(a), (long long)bytes, (long long)from, q->name,
                              (long long)room));
}

// ---- bulk copies --------------------------------------------------------------------------------

// The driver takes a map only when its strides are multiples of 16 bytes. Which sizes reach this
// kernel is the plan's to say; told once for each map.
static void check_strides(Bounds *b, const Access *a)
{
    ExprPool *p = b->s->pool;
    for (int i = 0; i < b->maps.n; i++)
        if (b->maps.at[i] == a->map) return;
    vec_push(b->s->arena, &b->maps, a->map);
    for (int k = 1; k < a->map->rank && a->map->stride[k]; k++) {
        const Expr *stride = space_size(b->s, a->map->stride[k]), *unit = expr_const(p, 16);
        if (!stride || expr_pow2_divisor(p, stride) >= 16) continue;
        ExprList conds = {0};
        Sample x;
        bool ok;
        vec_push(b->s->arena, &conds,
                 expr_bin(p, EX_NE, expr_bin(p, EX_MOD, stride, unit), expr_const(p, 0)));
        Answer r = ask(b->asker, &conds, &x);
        if (r == ANSWER_NO) continue;
        if (r == ANSWER_OPEN) {
            tell_open(b, a, "a stride of the tensor map may be no multiple of 16 bytes", x.why);
            continue;
        }
        b->bad++;
        CheckFinding *f = check_broken(
            b->job, "bounds", a->op->loc,
            arena_printf(b->s->arena,
                         "%s: stride %d of %s is %lld bytes, no multiple of 16, with %s",
                         op_text(a), k, b->job->fn->params.at[a->map_param].name,
                         (long long)sample_value(b->s, &x, stride, &ok), sample_text(b->s, &x)));
        f->hint = "a check of the plan, or the condition of the step, must keep such sizes out";
    }
}

// The start of a box: aligned, and not negative in a store. Elements are those of the tile.
static void check_box(Bounds *b, const Access *a)
{
    ExprPool *p = b->s->pool;
    const char *name = b->job->fn->params.at[a->map_param].name;
    if (a->touch & TOUCH_WRITE)
        for (int k = 0; k < a->rank; k++)
            if (!check_dimension(b, a, name, k, NULL)) return;
    i64 unit = 16 / dtype_bytes[b->job->fn->buffers.at[a->op->mem[0].buffer].type];
    if (expr_pow2_divisor(p, a->at[0]) >= unit) return;
    const Expr *rest = expr_bin(p, EX_MOD, a->at[0], expr_const(p, unit));
    Sample x;
    Answer r = ask_wrong(b, a, expr_bin(p, EX_NE, rest, expr_const(p, 0)), &x);
    if (r == ANSWER_NO) return;
    if (r == ANSWER_OPEN) {
        tell_open(b, a, "the innermost start may be no multiple of 16 bytes", x.why);
        return;
    }
    bool ok;
    b->bad++;
    check_broken(b->job, "bounds", a->op->loc,
                 arena_printf(b->s->arena,
                              "%s: the innermost start is element %lld, no multiple of "
                              "16 bytes, with %s",
                              op_text(a), (long long)sample_value(b->s, &x, a->at[0], &ok),
                              sample_text(b->s, &x)));
}

// ---- all ----------------------------------------------------------------------------------------

// The next access of the same operation that has a map: the global side of a bulk copy.
static const Access *other_side(const AccessList *all, int i)
{
    for (int k = MAX(i - 2, 0); k < all->n && k < i + 3; k++)
        if (all->at[k].op == all->at[i].op && all->at[k].map && all->at[k].map->rank)
            return &all->at[k];
    return NULL;
}

static void check_one(Bounds *b, const AccessList *all, int i)
{
    const Access *a = &all->at[i];
    bool bulk = a->op->op == OP_TMA_LOAD || a->op->op == OP_TMA_STORE;
    if (a->buffer < 0) {
        b->copies++;
        if (a->map) check_strides(b, a);
        check_box(b, a);
        return;
    }
    if (!bulk) b->accesses++;
    check_buffer(b, a);
    const Access *box = other_side(all, i);
    if (bulk && box && b->job->fn->buffers.at[a->buffer].kind == BUF_SHARED)
        check_box_room(b, a, box->map, dtype_bytes[b->job->fn->buffers.at[a->buffer].type]);
}

void check_bounds(const CheckJob *job)
{
    Arena *arena = arena_new(0);
    Space *s = space_new(job, arena);
    Bounds b = {.job = job, .s = s, .asker = asker_new(s)};
    AccessList all = {0};
    const char *why = NULL;
    if (!walk_kernel(s, &all, &why)) check_open(job, "bounds", (Loc){0}, why);
    for (int i = 0; i < all.n; i++) order_rewrite(s, &all.at[i]);
    for (int i = 0; i < all.n; i++) check_one(&b, &all, i);
    if (!b.bad && !b.open && !why)
        check_proved(job, "bounds",
                     arena_printf(arena, "%d accesses and %d copies stay inside, for all sizes",
                                  b.accesses, b.copies));
    check_assumed(job, "32-bit index arithmetic does not overflow");
    asker_free(b.asker);
    arena_free(arena);
}
