// lists.c - workspaces that a host function fills before the launch, and what may be relied on in
// them. The kernel sees loaded numbers; that they lie within bounds, and that the rows of all
// blocks name each task once, is promised by the function (ops/schedule.h) and tested there, not
// here: it goes into the report as an assumption.
#include "space.h"
#include "../../ops/schedule.h"

#include <string.h>

enum { FIRST, END };                                  // columns of a row of a block
enum { TILE, HEAD, BATCH, KEY_TILES };                // columns of a row of a task
// Arguments of causal_tasks.
enum { ARG_CTAS, ARG_BATCHES, ARG_HEADS, ARG_TILES, ARG_COST, ARG_TOGETHER };

// The host step that fills the workspace of a buffer, when it is of this function.
static const PlanStep *filler(Space *s, int buffer, const char *function)
{
    const Plan *plan = s->job->plan;
    int param = space_tensor(s, s->job->fn->buffers.at[buffer].param);
    for (int i = 0; i < plan->steps.n && param >= 0; i++) {
        const PlanStep *h = plan->steps.at[i];
        if (h->kind == STEP_HOST && h->param == param && !strcmp(h->function, function)) return h;
    }
    return NULL;
}

// A value of the same list: row and column as expressions. Made when nothing loads it.
static Unknown *entry(Space *s, const Unknown *like, const Expr *row, int column)
{
    const Expr *k = expr_const(s->pool, column);
    for (int i = 0; i < s->unknowns.n; i++) {
        Unknown *u = s->unknowns.at[i];
        if (u->buffer == like->buffer && u->at[0] == row && u->at[1] == k) return u;
    }
    Unknown *u = space_fresh(s, UNKNOWN_VALUE, like->shown, INT32_MIN, INT32_MAX);
    u->buffer = like->buffer;
    u->at[0] = row;
    u->at[1] = k;
    list_facts(s, u);
    return u;
}

static const Expr *between(Space *s, const Expr *lo, const Expr *x, const Expr *hi)
{
    ExprPool *p = s->pool;
    return expr_bin(p, EX_LAND, expr_bin(p, EX_LE, lo, x), expr_bin(p, EX_LT, x, hi));
}

// Is the row the one of this block?
static bool is_block_row(Space *s, const PlanStep *h, const Expr *row)
{
    return row == map_get(s->globals, intern(s->names, "ctaid.x")) && s->grid[0] &&
           space_size(s, h->host_args.at[ARG_CTAS]) == s->grid[0];
}

// The first row of the block that a row is counted from: row = first + something.
static Unknown *counted_from(Space *s, const PlanStep *h, const Unknown *u)
{
    UnknownList in = {0};
    i64 column;
    space_collect(s, u->at[0], &in);
    for (int i = 0; i < in.n; i++)
        if (in.at[i]->buffer == u->buffer && expr_is_const(in.at[i]->at[1], &column) &&
            column == FIRST && is_block_row(s, h, in.at[i]->at[0]))
            return in.at[i];
    return NULL;
}

static void tell(Space *s)
{
    if (s->told) return;
    s->told = true;
    check_assumed(s->job, "causal_tasks gives each block its rows, one at least when there are no "
                          "more blocks than tasks, and each (tile, head, batch) to one row");
}

// {first, end}: the rows of this block lie behind those of all blocks. When the list itself chooses
// which tasks go together, and there are no more blocks than tasks, there is one at least.
static void block_facts(Space *s, const PlanStep *h, Unknown *u)
{
    ExprPool *p = s->pool;
    i64 column;
    if (!expr_is_const(u->at[1], &column) || column != FIRST) return;
    const Expr *ctas = s->grid[0], *tasks = expr_const(p, 1);
    static const u8 factor[] = {ARG_BATCHES, ARG_HEADS, ARG_TILES};
    for (int i = 0; i < COUNT(factor); i++)
        tasks = expr_mul(p, tasks, space_size(s, h->host_args.at[factor[i]]));
    Unknown *end = entry(s, u, u->at[0], END);
    space_fact(s, u, expr_bin(p, EX_LE, ctas, u->var));
    space_fact(s, u, expr_bin(p, EX_LE, u->var, end->var));
    space_fact(s, u, expr_bin(p, EX_LE, end->var, expr_add(p, ctas, tasks)));
    i64 together;
    const Expr *few = expr_bin(p, EX_LT, tasks, ctas);
    if (expr_is_const(h->host_args.at[ARG_TOGETHER], &together) && together >= 0 && together <= 1)
        space_fact(s, u, expr_bin(p, EX_LOR, few, expr_bin(p, EX_LT, u->var, end->var)));
    expr_set_range(p, u->var->name, 0, INT32_MAX);
    expr_set_range(p, end->var->name, 0, INT32_MAX);
    tell(s);
}

// {tile, head, batch, key tiles} of a row between first and end.
static void task_facts(Space *s, const PlanStep *h, Unknown *u, Unknown *first)
{
    ExprPool *p = s->pool;
    static const u8 limit[] = {ARG_TILES, ARG_HEADS, ARG_BATCHES};
    i64 column;
    if (!expr_is_const(u->at[1], &column) || column < 0 || column > KEY_TILES) return;
    Unknown *end = entry(s, u, first->at[0], END);
    const Expr *outside = space_not(s, between(s, first->var, u->at[0], end->var));
    const Expr *inside =
        column == KEY_TILES
            ? expr_bin(p, EX_EQ, u->var,
                       expr_add(p, entry(s, u, u->at[0], TILE)->var, expr_const(p, 1)))
            : between(s, expr_const(p, 0), u->var, space_size(s, h->host_args.at[limit[column]]));
    space_fact(s, u, expr_bin(p, EX_LOR, outside, inside));
    tell(s);
}

void list_facts(Space *s, Unknown *u)
{
    const PlanStep *h = filler(s, u->buffer, "causal_tasks");
    if (!h || !u->at[1]) return;
    Unknown *first = counted_from(s, h, u);
    if (is_block_row(s, h, u->at[0]))
        block_facts(s, h, u);
    else if (first)
        task_facts(s, h, u, first);
}

// ---- tasks instead of rows ----------------------------------------------------------------------

// The loop that goes over all rows of the block, each once: row = first + round, below end.
static Unknown *all_rows(Space *s, const Access *a, const Unknown *u, const Unknown *first)
{
    const Expr *end = entry(s, u, first->at[0], END)->var;
    i64 lo;
    for (int i = 0; i < a->inst.n; i++) {
        Unknown *r = a->inst.at[i];
        if (r->kind == UNKNOWN_ROUND && expr_is_const(r->lo, &lo) && !lo && r->step == 1 &&
            r->hi == expr_sub(s->pool, end, first->var) &&
            u->at[0] == expr_add(s->pool, first->var, r->var))
            return r;
    }
    return NULL;
}

static Unknown *some_task(Space *s, const Access *a, const PlanStep **h, Unknown **first)
{
    UnknownList in = {0};
    for (int k = 0; k < a->rank; k++) space_collect(s, a->at[k], &in);
    for (int i = 0; i < in.n; i++) {
        if (in.at[i]->buffer < 0 || !in.at[i]->at[1]) continue;
        *h = filler(s, in.at[i]->buffer, "causal_tasks");
        *first = *h ? counted_from(s, *h, in.at[i]) : NULL;
        if (*first) return in.at[i];
    }
    return NULL;
}

bool list_rewrite(Space *s, Access *a)
{
    static const char *const shown[] = {"tile", "head", "batch"};
    static const u8 limit[] = {ARG_TILES, ARG_HEADS, ARG_BATCHES};
    ExprPool *p = s->pool;
    const PlanStep *h;
    Unknown *first, *u = some_task(s, a, &h, &first), *task[3];
    Unknown *round = u ? all_rows(s, a, u, first) : NULL;
    if (!round) return false;
    Access next = *a;
    for (int k = 0; k < 3; k++) {
        const Expr *n = space_size(s, h->host_args.at[limit[k]]);
        task[k] = space_fresh(s, UNKNOWN_BLOCK, shown[k], 0, INT32_MAX);
        space_fact(s, task[k], expr_bin(p, EX_LT, task[k]->var, n));
        access_put(s, &next, entry(s, u, u->at[0], k)->var, task[k]->var);
    }
    access_put(s, &next, entry(s, u, u->at[0], KEY_TILES)->var,
               expr_add(p, task[TILE]->var, expr_const(p, 1)));
    const Expr *block = map_get(s->globals, intern(s->names, "ctaid.x"));
    if (access_uses(&next, round->var) || access_uses(&next, block) ||
        access_uses(&next, first->var))
        return false;
    next.inst = (UnknownList){0};
    for (int k = 0; k < 3; k++) vec_push(s->arena, &next.inst, task[k]);
    for (int i = 0; i < a->inst.n; i++)
        if (a->inst.at[i] != round && a->inst.at[i]->var != block)
            vec_push(s->arena, &next.inst, a->inst.at[i]);
    *a = next;
    return true;
}
