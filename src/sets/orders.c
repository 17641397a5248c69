// orders.c - which tile a block works on, when the formula divides by sizes. Linear inequalities
// say little about such quotients, so three orders are known by their form. Each is a bijection,
// which is proved here once, and replaces what it was computed from by its result: an unknown
// within bounds. What does not have the form stays as it is.
//
//   rounds   block b of G takes the tasks b, b + G, b + 2G, ... below T: the tasks 0 <= t < T, each
//            once. For 0 <= b < G a round r has b + G*r < T exactly when r < (T - b + G - 1) / G,
//            and t gives b = t % G, r = t / G back. The same holds for groups of c blocks, with G =
//            grid / c and b = block / c, when all of a group do the same tasks.
//   rows     tile (t / N, t % N) of M x N, with T = M*N.
//   bands    bands of C rows of tiles, a band column by column: q = t / (C*N), x = t % (C*N),
//            g = min(C, M - C*q), tile (C*q + x % g, x / g), with T = M*N. From t < M*N: q < M/C
//            rounded up, so g >= 1. A band has g*N tasks (the last one because x <= M*N - C*N*q - 1
//            = g*N - 1), so x / g < N, and x % g < g keeps the row below M. (row, column) gives q,
//            then g, x = g*column + row - C*q and t back; M*N tasks onto M*N tiles, so all of them.
#include "space.h"

enum { DEEP = 4 }; // numbers of tiles are taken apart so often

// ---- accesses -----------------------------------------------------------------------------------

void access_conds(Space *s, const Access *a, ExprList *out)
{
    for (int i = 0; i < a->path.n; i++) vec_push(s->arena, out, a->path.at[i]);
    for (int i = 0; i < a->inst.n; i++)
        for (int k = 0; k < a->inst.at[i]->facts.n; k++)
            vec_push(s->arena, out, a->inst.at[i]->facts.at[k]);
}

void access_put(Space *s, Access *a, const Expr *what, const Expr *by)
{
    ExprList path = {0};
    for (int k = 0; k < a->rank; k++) a->at[k] = space_put(s, a->at[k], what, by);
    for (int i = 0; i < a->path.n; i++)
        vec_push(s->arena, &path, space_put(s, a->path.at[i], what, by));
    a->path = path;
}

bool access_uses(const Access *a, const Expr *var)
{
    for (int k = 0; k < a->rank; k++)
        if (expr_uses(a->at[k], var->name)) return true;
    for (int i = 0; i < a->path.n; i++)
        if (expr_uses(a->path.at[i], var->name)) return true;
    return false;
}

void access_drop(Access *a, const Unknown *u)
{
    int n = 0;
    for (int i = 0; i < a->inst.n; i++)
        if (a->inst.at[i] != u) a->inst.at[n++] = a->inst.at[i];
    a->inst.n = n;
}

// What came from a task or tile stands where the block stood: first.
static void take_over(Space *s, Access *a, Unknown *u)
{
    UnknownList next = {0};
    vec_push(s->arena, &next, u);
    for (int i = 0; i < a->inst.n; i++) vec_push(s->arena, &next, a->inst.at[i]);
    a->inst = next;
}

static Unknown *below(Space *s, const char *shown, const Expr *n)
{
    i64 lo, hi;
    expr_range(s->pool, n, &lo, &hi);
    Unknown *u = space_fresh(s, UNKNOWN_BLOCK, shown, 0, MAX(MIN(hi, (i64)1 << 40) - 1, 0));
    space_fact(s, u, expr_bin(s->pool, EX_LT, u->var, n));
    return u;
}

// x / y when that has no remainder: y is a factor of the product x. NULL: it is not seen.
static const Expr *without_factor(Space *s, const Expr *x, const Expr *y)
{
    i64 m, n;
    if (x == y) return expr_const(s->pool, 1);
    if (expr_is_const(x, &m) && expr_is_const(y, &n) && n > 0 && m % n == 0)
        return expr_const(s->pool, m / n);
    if (x->op != EX_MUL) return NULL;
    const Expr *a = without_factor(s, x->a, y);
    if (a) return expr_mul(s->pool, a, x->b);
    a = without_factor(s, x->b, y);
    return a ? expr_mul(s->pool, x->a, a) : NULL;
}

// ---- rounds -------------------------------------------------------------------------------------

// A divisor of the block number in an expression; 0: none.
static i64 block_divisor(const Expr *e, const Expr *block)
{
    i64 c;
    if (e->op == EX_CONST || e->op == EX_VAR) return 0;
    if (e->op == EX_DIV && e->a == block && expr_is_const(e->b, &c) && c > 1) return c;
    c = block_divisor(e->a, block);
    if (!c) c = block_divisor(e->b, block);
    return c || !e->c ? c : block_divisor(e->c, block);
}

// Blocks in groups of c (clusters, mostly), groups * c of them: group * c + member.
typedef struct {
    const Expr *group, *groups; // without groups: the block and the grid
    Unknown *of[2];             // group, member; without groups: the block
    int n;
} Groups;

static bool groups_of(Space *s, i64 c, const Expr *block, const Expr *grid, Groups *out)
{
    ExprPool *p = s->pool;
    *out = (Groups){.group = block, .groups = grid, .of = {space_find(s, block)}, .n = 1};
    if (!c) return true;
    const Expr *groups = without_factor(s, grid, expr_const(p, c));
    if (!groups) return false;
    out->of[0] = below(s, "group of blocks", groups);
    out->of[1] = space_fresh(s, UNKNOWN_BLOCK, "block of the group", 0, c - 1);
    out->group = out->of[0]->var;
    out->groups = groups;
    out->n = 2;
    return true;
}

// A number of tasks: known before the launch, not negative.
static bool is_task_count(Space *s, const Expr *t, const Groups *g, const Unknown *round)
{
    i64 least, most;
    expr_range(s->pool, t, &least, &most);
    return !expr_uses(t, g->group->name) && !expr_uses(t, round->var->name) && least >= 0;
}

// The number of tasks when a loop runs over every G-th of them, or NULL: it has `hi` rounds, or
// goes on while block + G * round is below.
static const Expr *task_count(Space *s, const Expr *hi, const Groups *g, const Unknown *round)
{
    ExprPool *p = s->pool;
    const Expr *t;
    if (hi->op == EX_DIV && hi->b == g->groups) {
        t = expr_add(p, expr_sub(p, hi->a, g->groups), expr_add(p, g->group, expr_const(p, 1)));
        if (is_task_count(s, t, g, round)) return t;
    }
    const Expr *now = expr_add(p, g->group, expr_mul(p, g->groups, round->var));
    for (int i = 0; i < round->facts.n; i++) {
        const Expr *f = round->facts.at[i];
        if (f->op != EX_LT) continue;
        t = expr_add(p, f->b, expr_sub(p, now, f->a));
        if (is_task_count(s, t, g, round)) return t;
    }
    return NULL;
}

// The task unknown, put in the place of block x (or of its group) and one of its rounds; NULL: no
// such order.
static Unknown *rewrite_rounds(Space *s, Access *a)
{
    ExprPool *p = s->pool;
    const Expr *block = map_get(s->globals, intern(s->names, "ctaid.x")), *grid = s->grid[0];
    i64 lo;
    if (!grid || block->op != EX_VAR || !access_uses(a, block)) return NULL;
    for (int i = 0; i < a->inst.n; i++) {
        Unknown *round = a->inst.at[i];
        if (round->kind != UNKNOWN_ROUND || !expr_is_const(round->lo, &lo) || lo ||
            round->step != 1)
            continue;
        Groups g;
        Access next = *a;
        const Expr *hi = round->hi;
        i64 c = block_divisor(hi, block);
        if (!groups_of(s, c, block, grid, &g)) continue;
        if (c) {
            const Expr *sum = expr_add(p, expr_mul(p, g.group, expr_const(p, c)), g.of[1]->var);
            hi = space_put(s, hi, block, sum);
            access_put(s, &next, block, sum);
        }
        const Expr *tasks = task_count(s, hi, &g, round);
        if (!tasks) continue;
        Unknown *task = below(s, "task", tasks);
        access_put(s, &next, g.group, expr_sub(p, task->var, expr_mul(p, g.groups, round->var)));
        if (access_uses(&next, round->var) || access_uses(&next, g.group) ||
            access_uses(&next, block))
            continue;
        UnknownList inst = {0};
        vec_push(s->arena, &inst, task);
        if (c) vec_push(s->arena, &inst, g.of[1]);
        for (int k = 0; k < a->inst.n; k++)
            if (a->inst.at[k] != round && a->inst.at[k]->var != block)
                vec_push(s->arena, &inst, a->inst.at[k]);
        next.inst = inst;
        *a = next;
        return task;
    }
    return NULL;
}

// ---- tiles --------------------------------------------------------------------------------------

// The first quotient or remainder of exactly this dividend.
static const Expr *divided(const Expr *e, const Expr *dividend)
{
    if (e->op == EX_CONST || e->op == EX_VAR) return NULL;
    if ((e->op == EX_DIV || e->op == EX_MOD) && e->a == dividend) return e;
    const Expr *in = divided(e->a, dividend);
    if (!in) in = divided(e->b, dividend);
    return in || !e->c ? in : divided(e->c, dividend);
}

static const Expr *divided_in(const Access *a, const Expr *dividend)
{
    for (int k = 0; k < a->rank; k++) {
        const Expr *in = divided(a->at[k], dividend);
        if (in) return in;
    }
    return NULL;
}

static bool bands(Space *s, Access *a, Unknown *task, const Expr *width, const Expr *tasks)
{
    ExprPool *p = s->pool;
    const Expr *q = expr_bin(p, EX_DIV, task->var, width);
    const Expr *x = expr_bin(p, EX_MOD, task->var, width), *in = divided_in(a, x);
    i64 most;
    if (!in || in->b->op != EX_MIN) return false;
    bool first = in->b->a->op == EX_CONST;
    const Expr *rest = first ? in->b->b : in->b->a;
    if (!expr_is_const(first ? in->b->a : in->b->b, &most) || most < 1) return false;
    const Expr *rows = expr_add(p, rest, expr_mul(p, q, expr_const(p, most)));
    const Expr *columns = expr_bin(p, EX_DIV, width, expr_const(p, most));
    if (expr_mul(p, columns, expr_const(p, most)) != width || expr_mul(p, rows, columns) != tasks ||
        expr_uses(rows, task->var->name))
        return false;
    Unknown *row = below(s, "row of tiles", rows), *column = below(s, "column of tiles", columns);
    const Expr *from = expr_mul(p, q, expr_const(p, most));
    access_put(s, a, expr_bin(p, EX_MOD, x, in->b), expr_sub(p, row->var, from));
    access_put(s, a, expr_bin(p, EX_DIV, x, in->b), column->var);
    take_over(s, a, column);
    take_over(s, a, row);
    return true;
}

static bool rows(Space *s, Access *a, Unknown *task, const Expr *width, const Expr *tasks)
{
    ExprPool *p = s->pool;
    const Expr *n = without_factor(s, tasks, width);
    i64 least, most;
    expr_range(p, width, &least, &most);
    if (!n || least < 0) return false;
    Unknown *row = below(s, "row of tiles", n), *column = below(s, "column of tiles", width);
    access_put(s, a, expr_bin(p, EX_DIV, task->var, width), row->var);
    access_put(s, a, expr_bin(p, EX_MOD, task->var, width), column->var);
    take_over(s, a, column);
    take_over(s, a, row);
    return true;
}

// Tiles of a task; the number itself must be gone afterwards.
static bool rewrite_tiles(Space *s, Access *a, Unknown *task)
{
    const Expr *tasks = NULL, *in = divided_in(a, task->var);
    for (int i = 0; i < task->facts.n; i++)
        if (task->facts.at[i]->op == EX_LT && task->facts.at[i]->a == task->var)
            tasks = task->facts.at[i]->b;
    if (!in || !tasks) return false;
    Access next = *a;
    next.inst = (UnknownList){0};
    for (int i = 0; i < a->inst.n; i++) vec_push(s->arena, &next.inst, a->inst.at[i]);
    if (!bands(s, &next, task, in->b, tasks) && !rows(s, &next, task, in->b, tasks)) return false;
    if (access_uses(&next, task->var)) return false;
    access_drop(&next, task);
    *a = next;
    return true;
}

// Tiles of tiles: rows that are numbers of (batch, head) themselves.
static bool rewrite_all(Space *s, Access *a)
{
    bool any = false, again = true;
    for (int round = 0; round < DEEP && again; round++) {
        again = false;
        for (int i = 0; i < a->inst.n && !again; i++)
            again = a->inst.at[i]->kind == UNKNOWN_BLOCK && rewrite_tiles(s, a, a->inst.at[i]);
        any |= again;
    }
    return any;
}

bool order_rewrite(Space *s, Access *a)
{
    bool rounds = rewrite_rounds(s, a) != NULL;
    return rewrite_all(s, a) || rounds;
}
