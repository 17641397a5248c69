// tables.c - bounds of elements of host tables for loads with numbers for addresses.
//
// The model's launch is one of a device with one multiprocessor, looked at from block 0; a size
// that has no number is 1. That decides in which rows an element lies, and the numbers with which
// the search begins. A value is refused only by bounds that hold for all sizes.
#include "tables.h"

#include <string.h>

enum { DEPTH_MAX = 40 };

typedef struct {
    int param;           // of the plan
    i64 row;
    int column;
    Term base;           // of the address, TERM_UNKNOWN: a number,
    u64 at;              // and the offset, or the address itself
    int n;
    OpsHostBound bound[OPS_HOST_MAX_BOUNDS];
} Place;

// ---- numbers for names --------------------------------------------------------------------------

typedef struct { Model *m; bool guess; } Names;

static bool name_value(void *ctx, const char *name, i64 *value)
{
    Names *x = ctx;
    const PlanStep *s = x->m->step;
    u64 v;
    for (int i = 0; i < s->args.n; i++) {
        const PlanArg *a = &s->args.at[i];
        if (a->kind != ARG_VALUE || a->value->op != EX_VAR || strcmp(a->value->name, name) != 0)
            continue;
        if (term_value(x->m->terms, term_leaf(x->m->terms, LEAF_PARAM, (u64)i), &v))
            return *value = (i32)(u32)v, true;
    }
    return *value = 1, x->guess;
}

// `guess`: names without a number are 1.
static bool number(Model *m, const Expr *e, bool guess, i64 *v)
{
    Names names = {m, guess};
    return e && !expr_eval(e, name_value, &names, v);
}

// ---- places -------------------------------------------------------------------------------------

// Is the address that of another block than the first?
static bool elsewhere(Model *m, Term x, int depth)
{
    TermView n = term_view(m->terms, x);
    u64 v;
    if (!x || n.form == TERM_IS_CONST) return false;
    if (depth > DEPTH_MAX) return true;
    if (n.form == TERM_IS_LEAF)
        return n.op == LEAF_SREG && term_value(m->terms, x, &v) && v;
    return elsewhere(m, n.a, depth + 1) || elsewhere(m, n.b, depth + 1) ||
           elsewhere(m, n.c, depth + 1);
}

static bool address(Model *m, Term base, u64 *at)
{
    Term leaf[8];
    if (term_value(m->terms, base, at)) return true;
    int n = term_leaves(m->terms, base, leaf, COUNT(leaf));
    for (int i = 0; i < n; i++)
        if (term_leaf_kind(m->terms, leaf[i]) != LEAF_SREG) return false;
    for (int i = 0; i < n; i++) term_bind(m->terms, leaf[i], 0);
    bool yes = term_value(m->terms, base, at);
    for (int i = 0; i < n; i++) term_unbind(m->terms, leaf[i]);
    return yes;
}

// False: no load from a table of the host, or nothing is known about the element.
static bool place_of(Model *m, Term leaf, Place *p)
{
    const PlanStep *s = m->step;
    if (!m->plan || !s || term_leaf_kind(m->terms, leaf) != LEAF_LOAD) return false;
    TermView t = term_view(m->terms, (Term)term_leaf_key(m->terms, leaf));
    u64 base, off;
    if (t.form != TERM_IS_TUPLE || !term_value(m->terms, t.b, &off) || !address(m, t.a, &base) ||
        elsewhere(m, t.a, 0))
        return false;
    // model_start puts parameter i at (i + 1) << 40.
    i64 arg = (i64)((base + off) >> 40) - 1, offset = (i64)((base + off) & (((u64)1 << 40) - 1));
    if (arg < 0 || arg >= s->args.n || s->args.at[arg].kind != ARG_TENSOR) return false;
    p->param = s->args.at[arg].index;
    i64 columns;
    const PlanParam *q = &m->plan->params.at[p->param];
    if (q->rank != 2 || q->type != DT_S32 || !expr_is_const(q->dim[1], &columns) || columns < 1 ||
        offset % 4)
        return false;
    p->row = offset / 4 / columns;
    p->column = (int)(offset / 4 % columns);
    p->n = plan_bounds(m->module->exprs, m->plan, p->param, p->bound);
    bool is_number = term_view(m->terms, t.a).form == TERM_IS_CONST;
    p->base = is_number ? TERM_UNKNOWN : t.a;
    p->at = is_number ? base + off : off;
    return p->n > 0;
}

// The element of another column of the same row, as effects.c makes its leaf.
static Term neighbour(Model *m, const Place *p, int column)
{
    Terms *t = m->terms;
    u64 at = p->at + (u64)(i64)(4 * (column - p->column));
    Term place = p->base ? term_tuple(t, p->base, term_const(t, at))
                         : term_tuple(t, term_const(t, at), term_const(t, 0));
    return term_leaf(t, LEAF_LOAD, place);
}

static bool in_rows(Model *m, const Place *p, const OpsHostBound *b)
{
    i64 from, to;
    if (!number(m, b->from, true, &from) || p->row < from) return false;
    // Rows up to the end of the table: its length follows from sizes that may have no number.
    if (b->to == m->plan->params.at[p->param].dim[0]) return true;
    return number(m, b->to, true, &to) && p->row < to;
}

// ---- values -------------------------------------------------------------------------------------

static i64 as_s32(u64 v) { return (i32)(u32)v; }

static bool allowed(Model *m, Term leaf)
{
    Place p;
    u64 mine, other;
    i64 limit;
    if (!place_of(m, leaf, &p) || !term_value(m->terms, leaf, &mine)) return true;
    for (int i = 0; i < p.n; i++) {
        const OpsHostBound *b = &p.bound[i];
        i64 v = as_s32(mine);
        bool first = b->column == p.column, second = b->minus == p.column;
        if ((!first && !second) || !in_rows(m, &p, b)) continue;
        if (b->minus >= 0) {
            if (!term_value(m->terms, neighbour(m, &p, first ? b->minus : b->column), &other))
                continue;
            v = first ? v - as_s32(other) : as_s32(other) - v;
        }
        if (number(m, b->least, false, &limit) && v < limit) return false;
        if (number(m, b->most, false, &limit) && v > limit) return false;
    }
    return true;
}

bool tables_allow(Model *m, const Term *leaf, int n)
{
    for (int i = 0; i < n; i++)
        if (!allowed(m, leaf[i])) return false;
    return true;
}

static i64 least_of(Model *m, Term leaf, int depth)
{
    Place p;
    i64 least = 0, limit;
    u64 v;
    if (depth > 2 || !place_of(m, leaf, &p)) return 0;
    for (int i = 0; i < p.n; i++) {
        const OpsHostBound *b = &p.bound[i];
        if (b->column != p.column || !in_rows(m, &p, b) || !number(m, b->least, true, &limit))
            continue;
        if (b->minus >= 0) {
            Term other = neighbour(m, &p, b->minus);
            limit += term_value(m->terms, other, &v) ? as_s32(v) : least_of(m, other, depth + 1);
        }
        least = MAX(least, limit);
    }
    return least;
}

u64 tables_least(Model *m, Term leaf) { return (u64)least_of(m, leaf, 0); }
