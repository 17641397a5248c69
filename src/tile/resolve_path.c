// resolve_path.c - lists of statements and the paths that leave them early: break, continue, yield;
// and the loop that only leaves by its condition, while.
//
// The tile IR has counted loops and branches, no jumps. What follows a branch that leaves is put on
// its other side, so every path is a plain list. A loop that is left early counts up to a variable,
// which is read in each round: leaving sets it below every counter.
#include "resolve.h"

enum { PATH_MAX_STATEMENTS = 1 << 14 };

// Whether a break or continue of this loop, or a yield, stands inside. Loops keep their own.
static bool leaves(const AstNode *n)
{
    if (!n) return false;
    switch (n->kind) {
    case AST_BREAK:
    case AST_CONTINUE:
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
    if (n->kind == AST_YIELD) return true;
    bool own = outermost && n->kind != AST_FOREACH && n->kind != AST_WHILE;
    if (breaks(n->body, own) || breaks(n->alt, own)) return true;
    for (int i = 0; n->kind == AST_BLOCK && i < n->list.n; i++)
        if (breaks(n->list.at[i], own)) return true;
    return false;
}

bool resolve_breaks(const AstNode *body) { return breaks(body, true); }

static bool ends_path(const AstNode *n)
{
    if (!n) return false;
    if (n->kind == AST_BREAK || n->kind == AST_CONTINUE || n->kind == AST_YIELD) return true;
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
    return s->kind == AST_CONTINUE || loop_ends_by(r, r->loop, r->control, s->loc, what);
}

// A foreach over more than one variable is that many loops.
static bool several_loops(const AstNode *loop)
{
    if (loop->kind != AST_FOREACH || loop->list.n != 1) return loop->kind == AST_FOREACH;
    return loop->list.at[0]->kind == AST_WITHIN && loop->list.at[0]->list.n > 1;
}

static void leave(Resolve *r, const AstNode *s)
{
    if (s->kind == AST_CONTINUE) {
        if (leave_allowed(r, s, "continue")) end_round(r);
        return;
    }
    bool yield = s->kind == AST_YIELD;
    if (yield && !r->loop && r->tail) return; // what follows stands on the other side
    if (yield && (!r->loop || !r->loop->tail)) {
        resolve_unsupported(r, s->loc,
                            "yield in front of statements outside of the block around it");
        return;
    }
    if (!leave_allowed(r, s, yield ? "yield in a loop" : "break")) return;
    if (yield && several_loops(r->loop->node)) {
        resolve_unsupported(r, s->loc, "yield in a foreach with several variables");
        return;
    }
    Value n = value_index(r, expr_const(r->x, INT32_MIN), DT_S32);
    resolve_set(r, r->loop->end, value_tree(r, &n, s->loc), s->loc);
}

// ---- lists
// ---------------------------------------------------------------------------------------

static void list_then(Resolve *r, const AstNode *const *at, int n, bool round);

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

// `round`: the end of the list is the end of a round of r->loop.
static void list_then(Resolve *r, const AstNode *const *at, int n, bool round)
{
    bool tail = r->tail;
    for (int i = 0; i < n; i++) {
        const AstNode *s = at[i];
        r->tail = tail && i == n - 1;
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
        else
            leave(r, s);
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

// The body of a loop. `end`: the variable that it counts up to, or -1.
void resolve_loop_body(Resolve *r, const AstNode *node, int end)
{
    LoopPath *outer = r->loop, loop = {.end = end,
                                       .condition = node->kind == AST_WHILE ? node->cond : NULL,
                                       .node = node,
                                       .control = r->control,
                                       .roles = r->roles,
                                       .tail = r->tail && (!outer || outer->tail)};
    bool tail = r->tail;
    r->loop = &loop;
    r->tail = false;
    resolve_block_then(r, node->body, NULL, 0, true);
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

// while (c) S
void resolve_while(Resolve *r, const AstNode *s)
{
    if (!r->at || r->in_apply || r->helper) {
        resolve_unsupported(r, s->loc,
                            r->helper     ? "while in a device helper"
                            : r->in_apply ? "while inside apply"
                                          : "while outside `parallel`");
        return;
    }
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
    resolve_loop_body(r, s, end);
    r->loop_depth--;
    r->at = saved;
    resolve_leave_control(r, outer);
}
