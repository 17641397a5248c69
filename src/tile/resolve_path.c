// resolve_path.c - lists of statements and the paths that leave them early: break, continue, yield;
// and the loop that only leaves by its condition, while.
//
// The tile IR has counted loops and branches, no jumps. What follows a branch that leaves is put on
// its other side, so every path is a plain list. A loop that is left early counts up to a variable,
// which is read in each round: leaving sets it below every counter.
#include "resolve.h"

#include <string.h>

enum { PATH_MAX_STATEMENTS = 1 << 14, CALL_MAX_STATEMENTS = 1 << 13, UNROLL_TRIPS = 16,
       UNROLL_MAX_TRIPS = 256 };

// Whether a break or continue of this loop, or a yield, stands inside. Loops keep their own.
static bool leaves(const AstNode *n)
{
    if (!n) return false;
    switch (n->kind) {
    case AST_BREAK:
    case AST_CONTINUE:
    case AST_RETURN:
    case AST_YIELD: return true;
    case AST_IF: return leaves(n->body) || leaves(n->alt);
    case AST_BLOCK:
        for (int i = 0; i < n->list.n; i++)
            if (leaves(n->list.at[i])) return true;
        return false;
    default: return false;
    }
}

// Whether the loop with this body can be left early.
static bool breaks(const AstNode *n, bool outermost)
{
    if (!n) return false;
    if (n->kind == AST_BREAK) return outermost;
    if (n->kind == AST_YIELD || n->kind == AST_RETURN) return true;
    bool own = outermost && n->kind != AST_FOREACH && n->kind != AST_WHILE && n->kind != AST_FOR;
    if (breaks(n->body, own) || breaks(n->alt, own)) return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (breaks(n->list.at[i], own)) return true;
    return false;
}

bool resolve_breaks(const AstNode *body) { return breaks(body, true); }

static bool ends_path(const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_BREAK || n->kind == AST_CONTINUE || n->kind == AST_YIELD ||
        n->kind == AST_RETURN)
        return true;
    if (n->kind == AST_IF) return ends_path(n->body) && ends_path(n->alt);
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (ends_path(n->list.at[i])) return true;
    return false;
}

// ---- the end of a round
// --------------------------------------------------------------------------

int resolve_loop_level(const Resolve *r, const AstNode *loop)
{
    intptr_t level = (intptr_t)map_get(r->acc_shapes, loop);
    return level ? (int)level - 1 : LEVEL_BLOCK;
}

// Inside a loop it turned out that threads of `level` leave it at different times. That holds from
// its head on, so the first walk over the function finds it and the second one enters the loop so.
static bool loop_ends_by(Resolve *r, const LoopPath *loop, int level, Loc loc, const char *what)
{
    if (level <= loop->control) return true;
    intptr_t old = (intptr_t)map_get(r->acc_shapes, loop->node);
    map_put(r->acc_shapes, loop->node, (void *)MAX(old, (intptr_t)level + 1));
    if (r->first_walk) return true;
    resolve_unsupported(r, loc, "%s that depends on the '%s' index by way of loops around it", what,
                        tile_level_name[level]);
    return false;
}

// more = condition ? as many rounds as there are : none
static void set_more(Resolve *r, const LoopPath *loop)
{
    const Expr *index;
    const TExpr *c = resolve_condition(r, loop->condition, &index);
    if (!c) return;
    if (loop->node && !loop_ends_by(r, loop, MAX(resolve_tree_level(r, c), r->control),
                                    loop->condition->loc, "the condition of a while"))
        return;
    i64 known;
    bool constant = index && expr_is_const(index, &known);
    TileBlock *saved = r->at;
    TileOp *branch = constant ? NULL : resolve_emit(r, TOP_IF, loop->condition->loc);
    for (int side = 0; side < 2; side++) {
        if (constant && (side == 0) != (known != 0)) continue;
        if (branch) {
            branch->cond = c;
            r->at = side ? &branch->other : &branch->body;
        }
        Value n = value_index(r, expr_const(r->x, side ? INT32_MIN : INT32_MAX), DT_S32);
        resolve_set(r, loop->end, value_tree(r, &n, loop->condition->loc), loop->condition->loc);
    }
    r->at = saved;
    resolve_raise(r, r->k->scalars.at[loop->end].name, resolve_tree_level(r, c));
}

static void end_round(Resolve *r)
{
    LoopPath *loop = r->loop;
    for (int i = 0; loop->steps && i < loop->steps->n; i++) resolve_stmt(r, loop->steps->at[i]);
    if (r->loop->condition) set_more(r, r->loop);
}

static bool leave_allowed(Resolve *r, const AstNode *s, const char *what)
{
    if (!r->loop) {
        resolve_error(r, s->loc, NULL, "%s outside of a loop", what);
        return false;
    }
    if (r->roles != r->loop->roles) {
        resolve_unsupported(r, s->loc, "%s out of inthreads", what);
        return false;
    }
    return s->kind == AST_CONTINUE || r->loop->unrolled ||
           loop_ends_by(r, r->loop, r->control, s->loc, what);
}

// What is left of the loop does not happen.
static void leave_loop(Resolve *r, Loc loc)
{
    LoopPath *loop = r->loop;
    Value n = value_index(r, expr_const(r->x, loop->unrolled ? 1 : INT32_MIN), DT_S32);
    if (loop->unrolled && r->at == loop->block) {
        loop->stopped = true;
        return;
    }
    loop->may_stop = true;
    int flag = loop->unrolled ? loop->left : loop->end;
    if (flag < 0) BUG("a loop without a way out");
    resolve_set(r, flag, value_tree(r, &n, loc), loc);
}

// A return inside a loop also tells what stands behind the loop.
static void leave_call(Resolve *r, const AstNode *s)
{
    if (!r->call) {
        resolve_error(r, s->loc, NULL, "return inside `parallel`");
        return;
    }
    call_return(r, s);
    if (!r->loop || !leave_allowed(r, s, "return")) return;
    Value one = value_index(r, expr_const(r->x, 1), DT_S32);
    resolve_set(r, r->call->flag, value_tree(r, &one, s->loc), s->loc);
    leave_loop(r, s->loc);
}

// A foreach over more than one variable is that many loops.
static bool several_loops(const AstNode *loop)
{
    if (loop->kind != AST_FOREACH || loop->list.n != 1) return loop->kind == AST_FOREACH;
    return loop->list.at[0]->kind == AST_WITHIN && loop->list.at[0]->list.n > 1;
}

// yield: in a loop it leaves the loop, and what stands behind the loop leaves in turn
// (unless_yielded). Outside of loops what follows in the list stands on the other side, and nothing
// else may follow.
static void leave_instance(Resolve *r, Loc loc)
{
    AstNode s = {.kind = AST_YIELD, .loc = loc};
    if (!r->loop) {
        if (!r->tail)
            resolve_unsupported(r, loc,
                                "yield in front of statements outside of the block around it");
        return;
    }
    if (several_loops(r->loop->node) && !r->loop->unrolled) {
        resolve_unsupported(r, loc, "yield in a foreach with several variables");
        return;
    }
    if (!leave_allowed(r, &s, "yield in a loop")) return;
    if (!r->loop->yielded) BUG("a loop that does not know of the yield inside");
    Value one = value_index(r, expr_const(r->x, 1), DT_S32);
    resolve_set(r, r->loop->yielded - 1, value_tree(r, &one, loc), loc);
    leave_loop(r, loc);
}

// What a statement that leaves does; false: it was refused.
static bool leave(Resolve *r, const AstNode *s)
{
    int errors = diag_errors(r->diag);
    if (s->kind == AST_RETURN) {
        leave_call(r, s);
    } else if (s->kind == AST_CONTINUE) {
        if (leave_allowed(r, s, "continue")) end_round(r);
    } else if (s->kind == AST_YIELD) {
        leave_instance(r, s->loc);
    } else if (leave_allowed(r, s, "break")) {
        leave_loop(r, s->loc);
    }
    return diag_errors(r->diag) == errors;
}

static void list_then(Resolve *r, const AstNode *const *at, int n, bool round);

// ---- lists
// ---------------------------------------------------------------------------------------

// A block, and behind it the statements that follow it when it does not leave.
void resolve_block_then(Resolve *r, const AstNode *block, const AstNode *const *rest, int nrest,
                        bool round)
{
    VEC(const AstNode *) all = {0};
    int mark = scope_push(r);
    if (block && block->kind == AST_BLOCK)
        for (int i = 0; i < block->list.n; i++) vec_push(r->arena, &all, block->list.at[i]);
    else if (block)
        vec_push(r->arena, &all, block);
    bool goes_on = !ends_path(block);
    for (int i = 0; goes_on && i < nrest; i++) vec_push(r->arena, &all, rest[i]);
    list_then(r, all.at, all.n, round);
    scope_pop(r, mark);
}

// What follows a loop that a return may have left: only when it did not. A loop around it is left
// as well then.
static void unless_returned(Resolve *r, const AstNode *s, const AstNode *const *rest, int n,
                            bool round)
{
    if (!n && !r->loop) return;
    Value flag = resolve_scalar_read(r, r->call->flag, s->loc);
    Value going = math_binary(r, AST_OP_EQ, flag, value_index(r, expr_const(r->x, 0), DT_S32),
                              s->loc);
    TileOp *o = resolve_emit(r, TOP_IF, s->loc);
    o->cond = value_tree(r, &going, s->loc);
    Control outer = resolve_enter_control(r, resolve_tree_level(r, o->cond), s->loc);
    TileBlock *saved = r->at;
    r->guards++;
    r->at = &o->body;
    list_then(r, rest, n, round);
    r->at = &o->other;
    if (r->loop && (r->loop->unrolled ||
                    loop_ends_by(r, r->loop, r->control, s->loc, "a return in a loop")))
        leave_loop(r, s->loc);
    r->at = saved;
    resolve_leave_control(r, outer);
}

// The first yield inside a loop statement; NULL: s is no loop, or has none.
static const AstNode *find_yield(const AstNode *n)
{
    if (!n || n->kind == AST_YIELD) return n;
    const AstNode *found = NULL;
    bool inside = n->kind == AST_BLOCK || n->kind == AST_IF || n->kind == AST_FOREACH ||
                  n->kind == AST_WHILE;
    if (inside && n->body) found = find_yield(n->body);
    if (inside && !found && n->alt) found = find_yield(n->alt);
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n && !found; i++)
        found = find_yield(n->list.at[i]);
    return found;
}

static const AstNode *yield_in_loop(const AstNode *s)
{
    return s->kind == AST_FOREACH || s->kind == AST_WHILE ? find_yield(s->body) : NULL;
}

// A loop that a yield may leave, and what follows it: only when it was not left so.
static void yielding_loop(Resolve *r, const AstNode *s, const AstNode *yield,
                          const AstNode *const *rest, int n, bool round, bool tail)
{
    Loc loc = yield->loc;
    int flag = resolve_new_scalar(r, intern(r->m->names, "yielded"), DT_S32, loc);
    map_put(r->mutables, r->k->scalars.at[flag].name, r);
    Value zero = value_index(r, expr_const(r->x, 0), DT_S32);
    resolve_set(r, flag, value_tree(r, &zero, loc), loc);
    r->yielded = flag + 1;
    resolve_stmt(r, s);
    r->yielded = 0;
    r->tail = tail;
    Value going = math_binary(r, AST_OP_EQ, resolve_scalar_read(r, flag, loc), zero, loc);
    TileOp *o = resolve_emit(r, TOP_IF, loc);
    o->cond = value_tree(r, &going, loc);
    Control outer = resolve_enter_control(r, resolve_tree_level(r, o->cond), loc);
    TileBlock *saved = r->at;
    r->guards++;
    r->at = &o->body;
    list_then(r, rest, n, round);
    r->at = &o->other;
    r->tail = tail;
    leave_instance(r, loc);
    r->at = saved;
    resolve_leave_control(r, outer);
}

// `round`: the end of the list is the end of a round of r->loop.
static void list_then(Resolve *r, const AstNode *const *at, int n, bool round)
{
    bool tail = r->tail;
    for (int i = 0; i < n; i++) {
        const AstNode *s = at[i];
        r->tail = tail && i == n - 1;
        if (r->helper && ++r->call_statements > CALL_MAX_STATEMENTS) {
            if (r->call_statements == CALL_MAX_STATEMENTS + 1)
                resolve_unsupported(r, s->loc, "device helpers of more than %d statements, inlined",
                                    CALL_MAX_STATEMENTS);
            return;
        }
        bool loop = s->kind == AST_FOR || s->kind == AST_WHILE;
        if (r->call && loop && resolve_has_return(s->body)) {
            resolve_stmt(r, s);
            unless_returned(r, s, at + i + 1, n - i - 1, round);
            r->tail = tail;
            return;
        }
        const AstNode *yield = r->call ? NULL : yield_in_loop(s);
        if (yield) {
            yielding_loop(r, s, yield, at + i + 1, n - i - 1, round, tail);
            r->tail = tail;
            return;
        }
        if (!leaves(s)) {
            resolve_stmt(r, s);
            continue;
        }
        r->tail = tail;
        if (++r->path_statements > PATH_MAX_STATEMENTS) {
            if (r->path_statements == PATH_MAX_STATEMENTS + 1)
                resolve_unsupported(r, s->loc, "this many paths through break, continue and yield");
            return;
        }
        if (s->kind == AST_IF)
            resolve_branch_then(r, s, at + i + 1, n - i - 1, round);
        else if (s->kind == AST_BLOCK)
            resolve_block_then(r, s, at + i + 1, n - i - 1, round);
        else if (!leave(r, s))
            continue; // an error: what follows is still looked at
        r->tail = tail;
        return;
    }
    r->tail = tail;
    if (round) end_round(r);
}

// A block, or one statement in its place, in a scope of its own.
void resolve_block(Resolve *r, const AstNode *block)
{
    if (block) resolve_block_then(r, block, NULL, 0, false);
}

// The body of a loop. `end`: the variable that it counts up to, or -1. `conditional`: its condition
// is looked at in each round.
void resolve_loop_body(Resolve *r, const AstNode *node, int end, bool conditional)
{
    LoopPath *outer = r->loop, loop = {.end = end,
                                       .left = -1,
                                       .node = node,
                                       .control = r->control,
                                       .roles = r->roles,
                                       .yielded = r->yielded};
    r->yielded = 0;
    bool tail = r->tail;
    if (conditional) loop.condition = node->cond;
    if (conditional && node->kind == AST_FOR) loop.steps = &node->list2;
    r->loop = &loop;
    r->tail = false;
    resolve_block_then(r, node->body, NULL, 0, true);
    r->loop = outer;
    r->tail = tail;
}

// One round of a loop that is written out, unless an earlier one left it.
static void unrolled_round(Resolve *r, LoopPath *loop, const AstNode *name, i64 value, i64 end)
{
    TileBlock *saved = r->at;
    Control outer = resolve_enter_control(r, LEVEL_BLOCK, loop->node->loc);
    if (loop->may_stop) {
        Value left = resolve_scalar_read(r, loop->left, loop->node->loc);
        Value going = math_binary(r, AST_OP_EQ, left, value_index(r, expr_const(r->x, 0), DT_S32),
                                  loop->node->loc);
        TileOp *o = resolve_emit(r, TOP_IF, loop->node->loc);
        o->cond = value_tree(r, &going, loop->node->loc);
        resolve_enter_control(r, resolve_tree_level(r, o->cond), loop->node->loc);
        r->guards++;
        r->at = &o->body;
    }
    loop->block = loop->may_stop ? NULL : r->at;
    loop->control = r->control;
    int mark = scope_push(r);
    Value x = value_index(r, expr_const(r->x, value), DT_S32);
    x.bound = expr_const(r->x, end);
    scope_add(r, name->name, name->loc, x);
    resolve_block_then(r, loop->node->body, NULL, 0, false);
    scope_pop(r, mark);
    r->at = saved;
    resolve_leave_control(r, outer);
}

void resolve_unroll(Resolve *r, const AstNode *node, const AstNode *name, i64 lo, i64 step, i64 n)
{
    LoopPath *outer = r->loop, loop = {.end = -1, .left = -1, .node = node, .roles = r->roles,
                                       .unrolled = true, .yielded = r->yielded};
    r->yielded = 0;
    bool tail = r->tail;
    int errors = diag_errors(r->diag);
    if (resolve_breaks(node->body)) {
        loop.left = resolve_new_scalar(r, intern(r->m->names, "left"), DT_S32, node->loc);
        map_put(r->mutables, r->k->scalars.at[loop.left].name, r);
        Value zero = value_index(r, expr_const(r->x, 0), DT_S32);
        resolve_set(r, loop.left, value_tree(r, &zero, node->loc), node->loc);
    }
    r->loop = &loop;
    r->tail = false;
    for (i64 i = 0; i < n && !loop.stopped && diag_errors(r->diag) == errors; i++)
        unrolled_round(r, &loop, name, lo + i * step, lo + n * step);
    r->loop = outer;
    r->tail = tail;
}

// A variable that a loop counts up to, set to `value` now.
int resolve_loop_end(Resolve *r, const Expr *value, Loc loc)
{
    int end = resolve_new_scalar(r, "end", DT_S32, loc);
    map_put(r->mutables, r->k->scalars.at[end].name, r);
    if (!value) return end;
    Value v = value_index(r, value, DT_S32);
    resolve_set(r, end, value_tree(r, &v, loc), loc);
    return end;
}

// A loop that goes on while a condition holds: it counts rounds up to a variable that the condition
// sets before each of them.
static void conditional_loop(Resolve *r, const AstNode *s)
{
    if (r->loop_depth >= RESOLVE_MAX_LOOPS) {
        resolve_unsupported(r, s->loc, "loops that nest deeper than %d", RESOLVE_MAX_LOOPS);
        return;
    }
    int errors = diag_errors(r->diag), end = resolve_loop_end(r, NULL, s->loc);
    LoopPath entry = {.end = end, .condition = s->cond};
    set_more(r, &entry);
    if (diag_errors(r->diag) != errors) return;
    const Expr *more = expr_var(r->x, r->k->scalars.at[end].name);
    int level = MAX(resolve_expr_level(r, more), resolve_loop_level(r, s));
    Control outer = resolve_enter_control(r, level, s->loc);
    TileBlock *saved = r->at;
    TileOp *o = resolve_emit(r, TOP_FOR, s->loc);
    o->var = resolve_var(r, intern(r->m->names, "round"));
    o->lo = expr_const(r->x, 0);
    o->hi = more;
    o->step = expr_const(r->x, 1);
    expr_set_range(r->x, o->var, 0, INT32_MAX - 1);
    r->at = &o->body;
    r->loop_depth++;
    r->guards++;
    resolve_loop_body(r, s, end, true);
    r->loop_depth--;
    r->at = saved;
    resolve_leave_control(r, outer);
}

// while (c) S
void resolve_while(Resolve *r, const AstNode *s)
{
    if (!r->at)
        resolve_unsupported(r, s->loc, "while outside `parallel`");
    else
        conditional_loop(r, s);
}

// ---- for, of device helpers --------------------------------------------------------------------

typedef struct { // for (int i = lo; i < hi; i += step), where nothing else changes i or hi
    const AstNode *init, *lo, *hi;
    bool inclusive, down;
    i64 step;
} Counted;

static bool changes_any(const AstNode *body, const AstNode *e)
{
    if (!e) return false;
    if (e->kind == AST_NAME) return call_changes(body, e->name);
    if (e->kind == AST_INDEX || e->kind == AST_AT || e->kind == AST_CALL) return true;
    if (changes_any(body, e->value) || changes_any(body, e->cond) || changes_any(body, e->alt))
        return true;
    for (int i = 0; i < e->list.n; i++)
        if (changes_any(body, e->list.at[i])) return true;
    return false;
}

static bool counts(Resolve *r, const AstNode *s, Counted *c)
{
    const AstNode *init = s->list.n == 1 ? s->list.at[0] : NULL, *cond = s->cond,
                  *step = s->list2.n == 1 ? s->list2.at[0] : NULL;
    *c = (Counted){.init = init, .step = 1};
    if (!init || init->kind != AST_SCALAR_DECL || !init->value || init->list.n || !cond || !step ||
        cond->kind != AST_BINARY || cond->list.n != 2 || cond->list.at[0]->kind != AST_NAME ||
        cond->list.at[0]->name != init->name || !call_changes(step, init->name) ||
        call_changes(s->body, init->name) || changes_any(s->body, cond->list.at[1]))
        return false;
    i32 type = call_dtype(r, init->type);
    bool is_auto = init->type && init->type->name && !strcmp(init->type->name, "auto");
    if (!is_auto && (type < 0 || type == DT_BOOL || dtype_is_float((DType)type) ||
                     dtype_bytes[type] > 4))
        return false;
    c->lo = init->value;
    c->hi = cond->list.at[1];
    c->down = cond->op == AST_OP_GT || cond->op == AST_OP_GE;
    c->inclusive = cond->op == AST_OP_LE || cond->op == AST_OP_GE;
    if (!c->down && cond->op != AST_OP_LT && cond->op != AST_OP_LE) return false;
    const AstNode *x = step->kind == AST_EXPR ? step->value : NULL;
    if (x && x->kind == AST_UNARY)
        return c->down == (x->op == AST_OP_PREDEC || x->op == AST_OP_POSTDEC);
    if (step->kind != AST_ASSIGN || step->op != (c->down ? AST_OP_SUB : AST_OP_ADD)) return false;
    Value v = resolve_expr(r, step->value);
    return v.kind == VAL_SCALAR && v.index && expr_is_const(v.index, &c->step) && c->step > 0;
}

// Whether arrays of registers are indexed inside: such a loop has to be written out.
static bool indexes_registers(const Resolve *r, const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_INDEX) {
        const AstNode *base = n->value;
        while (base && base->kind == AST_INDEX) base = base->value;
        const Symbol *s = base && base->kind == AST_NAME ? scope_find(r, base->name) : NULL;
        if (!s || s->value.kind != VAL_POINTER) return true;
    }
    const AstNode *const part[] = {n->target, n->cond, n->value, n->body, n->alt};
    for (int i = 0; i < COUNT(part); i++)
        if (indexes_registers(r, part[i])) return true;
    const AstList *const lists[] = {&n->list, &n->list2};
    for (int k = 0; k < COUNT(lists); k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (indexes_registers(r, lists[k]->at[i])) return true;
    return false;
}

// A counted loop: written out when its bounds are constants, else a loop of the tile IR.
static void counted_loop(Resolve *r, const AstNode *s, const Counted *c)
{
    Value a = resolve_expr(r, c->lo), b = resolve_expr(r, c->hi);
    const Expr *lo = value_to_index(r, a, c->lo->loc, "the start of a loop");
    const Expr *hi = value_to_index(r, b, c->hi->loc, "the end of a loop");
    if (!lo || !hi) return;
    if (c->inclusive) hi = expr_add(r->x, hi, expr_const(r->x, c->down ? -1 : 1));
    i64 first, last;
    bool constant = expr_is_const(lo, &first) && expr_is_const(hi, &last);
    i64 n = !constant ? 0 : c->down ? first - last : last - first;
    n = n > 0 ? (n + c->step - 1) / c->step : 0;
    bool small = n <= (indexes_registers(r, s->body) ? UNROLL_MAX_TRIPS : UNROLL_TRIPS);
    if (constant && small) {
        resolve_unroll(r, s, c->init, first, c->down ? -c->step : c->step, n);
        return;
    }
    if (r->loop_depth >= RESOLVE_MAX_LOOPS) {
        resolve_unsupported(r, s->loc, "loops that nest deeper than %d", RESOLVE_MAX_LOOPS);
        return;
    }
    lo = resolve_freeze(r, lo, "start", s->loc);
    hi = resolve_freeze(r, hi, "end", s->loc);
    TileBlock *saved = r->at;
    Control outer = resolve_enter_control(r, LEVEL_BLOCK, s->loc);
    int mark = scope_push(r);
    int end = resolve_breaks(s->body) ? resolve_loop_end(r, NULL, s->loc) : -1;
    r->loop_depth++;
    r->loop_end = end;
    if (c->down) { // i = lo - k for k = 0, step ..
        resolve_open_loop(r, s, intern(r->m->names, "down.k"), s->loc, expr_const(r->x, 0),
                          resolve_freeze(r, expr_sub(r->x, lo, hi), "rounds", s->loc),
                          expr_const(r->x, c->step));
        const Symbol *k = scope_find(r, intern(r->m->names, "down.k"));
        scope_add(r, c->init->name, c->init->loc,
                  value_index(r, expr_sub(r->x, lo, k->value.index), DT_S32));
    } else {
        resolve_open_loop(r, s, c->init->name, c->init->loc, lo, hi, expr_const(r->x, c->step));
    }
    resolve_loop_body(r, s, end, false);
    r->loop_depth--;
    scope_pop(r, mark);
    r->at = saved;
    resolve_leave_control(r, outer);
}

// for (init; condition; steps) S
void resolve_for(Resolve *r, const AstNode *s)
{
    Counted c;
    if (counts(r, s, &c)) {
        counted_loop(r, s, &c);
        return;
    }
    int mark = scope_push(r);
    for (int i = 0; i < s->list.n; i++) resolve_stmt(r, s->list.at[i]);
    if (s->cond)
        conditional_loop(r, s);
    else
        resolve_unsupported(r, s->loc, "a for loop without a condition");
    scope_pop(r, mark);
}
