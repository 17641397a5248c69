// whiles.c - finds `while` loops that count. The compiler sets the upper bound of such a loop
// before each round, to the largest number while the condition holds and else to the least one.
//
// What must be so for every round follows from what a round makes of the registers (steer.h): the
// condition in front of the loop and the one at the end of a round compare the same register, and
// with the same thing.
#include "whiles.h"
#include "sums.h"

typedef struct { const ThreadOp *loop; i64 step; } While;
struct Whiles { VEC(While) at; };

// ---- the bound ----------------------------------------------------------------------------------

static bool is_set(const ThreadBlock *b, i64 value, const Operand **to)
{
    const ThreadOp *op = b->n == 1 ? b->at[0] : NULL;
    if (!op || op->op != OP_MOV || op->guard.kind != OPD_NONE || op->opnd[1].kind != OPD_IMM ||
        op->opnd[1].nterms || op->opnd[1].base != value)
        return false;
    *to = &op->opnd[0];
    return true;
}

bool while_branch(const ThreadOp *op)
{
    const Operand *a, *b;
    return op->op == OP_IF && is_set(&op->body, INT32_MAX, &a) &&
           is_set(&op->other, INT32_MIN, &b) && a->reg == b->reg && a->base == b->base &&
           !a->nterms && !b->nterms;
}

// The condition of a bound that such a branch set.
static bool condition(const Terms *t, Term bound, TermView *p)
{
    TermView n = term_view(t, bound);
    if (!bound || n.form != TERM_IS_OP || n.op != OP_SELP || !n.a || !n.b || !n.c) return false;
    TermView yes = term_view(t, n.a), no = term_view(t, n.b);
    if (yes.form != TERM_IS_CONST || (i32)(u32)yes.value != INT32_MAX ||
        no.form != TERM_IS_CONST || (i32)(u32)no.value != INT32_MIN)
        return false;
    *p = term_view(t, n.c);
    return p->form == TERM_IS_OP && p->op == OP_SETP && p->type == TT_S32;
}

// As `less < more + plus`.
static bool below(const TermView *p, Term *less, Term *more, i64 *plus)
{
    bool turned = p->cmp == CMP_GT || p->cmp == CMP_GE;
    if (p->cmp == CMP_EQ || p->cmp == CMP_NE) return false;
    *less = turned ? p->b : p->a;
    *more = turned ? p->a : p->b;
    *plus = p->cmp == CMP_LE || p->cmp == CMP_GE;
    return true;
}

Term while_rounds(Terms *t, Term bound, i64 step)
{
    TermView p;
    Term less, more;
    i64 plus;
    if (!condition(t, bound, &p) || !below(&p, &less, &more, &plus)) return TERM_UNKNOWN;
    ThreadOp sub = {.op = OP_SUB, .type = TT_S32}, add = {.op = OP_ADD, .type = TT_S32};
    ThreadOp div = {.op = OP_DIV, .type = TT_S32};
    Term span = term_op(t, &sub, 0, more, less, 0);
    if (plus + step > 1)
        span = term_op(t, &add, 0, span, term_const(t, (u64)(plus + step - 1)), 0);
    return step == 1 ? span : term_op(t, &div, 0, span, term_const(t, (u64)step), 0);
}

// ---- which loops --------------------------------------------------------------------------------

static bool same(const Sums *q, Term a, const Lin *b)
{
    Lin x = sums_lin(q, a), d = lin_sum(x, b, -1);
    return d.ok && !d.n && !d.c;
}

// By how much the compared register grows in a round; 0: the loop does not count.
static i64 count(const Sums *q, int loop)
{
    const SteerLoop *l = &q->s->loops.at[loop];
    TermView before, after;
    Term x, y, limit, again;
    i64 plus, more;
    if (l->counter < 0 || l->counter_written || l->step != 1 ||
        !condition(q->t, l->hi, &before) ||
        !condition(q->t, l->carried.at[l->bound].next, &after) ||
        !below(&before, &x, &limit, &plus) || !below(&after, &y, &again, &more) || plus != more ||
        limit != again)
        return 0;
    // The limit is one thing for all rounds: it stands in front of the loop. The register that is
    // compared at the end of a round is the one that the next round begins with.
    for (int i = 0; i < l->carried.n; i++) {
        const SteerCarried *c = &l->carried.at[i];
        Growth g = sums_growth(q, loop, c->next);
        if (!g.ok || !g.known || g.base != i || g.c < 1 || g.c > 1 << 20) continue;
        Lin first = sums_lin(q, c->first), next = sums_lin(q, c->next);
        if (first.ok && next.ok && same(q, x, &first) && same(q, y, &next)) return g.c;
    }
    return 0;
}

static bool writes(const ThreadBlock *b, const Operand *bound)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const char *sig = thread_op[op->op].sig;
        for (int k = 0; k < op->nopnd && sig[k] && sig[k] != '*'; k++)
            if ((sig[k] == 'd' || sig[k] == 'F') && op->opnd[k].kind == OPD_REG &&
                op->opnd[k].reg == bound->reg)
                return true;
        if (writes(&op->body, bound) || writes(&op->other, bound)) return true;
    }
    return false;
}

static void find(Arena *a, struct Whiles *w, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op == OP_FOR && op->nopnd == 4 && op->opnd[2].kind == OPD_REG &&
            writes(&op->body, &op->opnd[2]))
            vec_push(a, &w->at, ((While){op, 0}));
        find(a, w, &op->body);
        find(a, w, &op->other);
    }
}

static While *while_of(const struct Whiles *w, const ThreadOp *loop)
{
    for (int i = 0; w && i < w->at.n; i++)
        if (w->at.at[i].loop == loop) return &w->at.at[i];
    return NULL;
}

struct Whiles *whiles_new(Arena *a, const ThreadFn *fn)
{
    struct Whiles *w = ARENA_NEW(a, struct Whiles);
    find(a, w, &fn->body);
    if (!w->at.n) return w;
    Arena *scratch = arena_new(0);
    Steer *s = steer_new(scratch, fn);
    Sums q = {s, s->terms, ARENA_ARRAY(scratch, bool, terms_end(s->terms) + 1)};
    for (Term i = 0; i < terms_end(s->terms); i++) q.varies[i] = true; // growth by constants only
    for (int i = 0; i < s->loops.n && !s->refused; i++) {
        While *x = while_of(w, s->loops.at[i].op);
        if (!x || s->loops.at[i].bound < 0) continue;
        i64 step = count(&q, i);
        x->step = x->step && x->step != step ? 0 : step; // gone through again by an unroll region
    }
    arena_free(scratch);
    return w;
}

bool while_is(const struct Whiles *w, const ThreadOp *loop) { return while_of(w, loop); }

i64 while_step(const struct Whiles *w, const ThreadOp *loop)
{
    const While *x = while_of(w, loop);
    return x ? x->step : 0;
}
