// rename.c - a loop whose round ends with `now = next`, whole register arrays, becomes one of two
// rounds in which the arrays take turns, so that the moves are gone:
//
//     for i = lo, hi, s {            for i = lo, hi, 2 * s {
//       BODY(now, next)                BODY(now, next)
//       now = next                     if (i + s < hi) BODY(next, now) with i + s for i
//     }                                else now = next
//                                    }
//
// It is for pipelines in registers: a product still reads `now` while the round computes `next`.
// There the moves are not only instructions: the assembler may let `next` live in the registers of
// `now`, and then it has to finish the product first. Loops without a product on such an array stay
// as they are, since twice the code would buy little.
//
// In: a module as lowering makes it. Out: one that obeys thread_check if the input does. A loop is
// rewritten only where all this is proved: every round writes each element of `next` before it
// reads it, on all paths; nothing reads what the loop left in `next`; the counter is not written in
// the loop nor seen outside; bounds are equal in all lanes. So after every round `now` holds the
// same value as before the rewriting, also after the last one, for any number of rounds. A loop is
// doubled only if no loop inside it was.
#include "rename.h"

#include "text.h"

#include <string.h>

enum {
    MAX_ELEMENTS = 1024,     // of a register array
    MAX_PAIRS = 8,           // arrays that one loop hands over
    LAST_OPS = 64,           // operations at a body's end among which moves are looked for
    MAX_DEPTH = 56,          // regions around the new code; the checker allows 64
    MAX_EXPANDED = 1 << 17,  // operations of a kernel after unrolling, half of what it may have
    MAX_STEPS = 1 << 20,     // operations that one proof may walk
};

typedef struct {
    int now, next;           // registers: now = next
    ThreadOp *move;          // the unroll region that does it, in the loop's body
} Pair;

typedef struct {
    ThreadModule *mod;
    ThreadFn *fn;
    Diag *diag;
    ThreadBuilder build;     // for new registers and operations
    i64 *value;              // of the unroll variables, while a proof walks
    u8 *zero;                // per register, see count_zeros
} Rename;

// ---- what an operation reads and writes --------------------------------------------------------

// By the letters of ops.h; a wgmma's accumulator (R) is both.
static bool letter_writes(char letter) { return strchr("dPFR", letter) != NULL; }
static bool letter_reads(char letter) { return !strchr("dPF", letter); }

// The letter of operand k. A region's row has no letters: a loop writes its counter, and everything
// else there is read.
static char operand_letter(const ThreadOp *op, int k)
{
    if (op->op == OP_FOR) return k ? 'x' : 'd';
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        k -= thread_sig_operands(op, *s);
        if (k < 0) return *s;
    }
    return 'x';
}

static bool is_register(const Operand *o, int reg) { return o->kind == OPD_REG && o->reg == reg; }

static bool is_product(const ThreadOp *op)
{
    return op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
}

typedef enum { USE_ANY, USE_WRITE, USE_PRODUCT } Use;

static bool op_uses(const Rename *x, const ThreadOp *op, int reg, Use use)
{
    if (use == USE_PRODUCT && !is_product(op)) return false;
    for (int k = 0; k < op->nopnd; k++)
        if (is_register(&op->opnd[k], reg) &&
            (use != USE_WRITE || letter_writes(operand_letter(op, k))))
            return true;
    if (use != USE_ANY) return false;
    if (is_register(&op->guard, reg)) return true;
    if (!op->nmem || x->fn->regs.at[reg].count != 1) return false; // coordinates use scalars only
    const char *name = intern_printf(expr_pool_names(x->mod->exprs), "%%%s",
                                     x->fn->regs.at[reg].name);
    for (int m = 0; m < op->nmem; m++)
        for (int i = 0; i < op->mem[m].ncoord; i++)
            if (expr_uses(op->mem[m].coord[i], name)) return true;
    return false;
}

// Is the register used anywhere in the block, but for the region `but`?
static bool block_uses(const Rename *x, const ThreadBlock *b, int reg, Use use, const ThreadOp *but)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op == but) continue;
        if (op_uses(x, op, reg, use) || block_uses(x, &op->body, reg, use, but) ||
            block_uses(x, &op->other, reg, use, but))
            return true;
    }
    return false;
}

static bool contains(const ThreadBlock *b, const ThreadOp *wanted)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i] == wanted || contains(&b->at[i]->body, wanted) ||
            contains(&b->at[i]->other, wanted))
            return true;
    return false;
}

// Predicates whose only definition in the kernel is `mov %p, 0`: a product under one starts from
// zero and does not read its accumulator. zero[] counts definitions; one of another kind counts as
// two.
static void count_zeros(Rename *x, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        const Operand *o = op->opnd;
        bool zero = op->op == OP_MOV && op->guard.kind == OPD_NONE && o[1].kind == OPD_IMM &&
                    !o[1].nterms && !o[1].base;
        for (int k = 0; k < op->nopnd; k++)
            if (o[k].kind == OPD_REG && letter_writes(operand_letter(op, k)) &&
                x->zero[o[k].reg] < 2)
                x->zero[o[k].reg] += zero ? 1 : 2;
        count_zeros(x, &op->body);
        count_zeros(x, &op->other);
    }
}

static bool starts_from_zero(const Rename *x, const ThreadOp *op)
{
    const Operand *p = &op->opnd[op->nopnd - 1];
    return is_product(op) && p->kind == OPD_REG && x->fn->regs.at[p->reg].count == 1 &&
           x->zero[p->reg] == 1;
}

// ---- the proof: `next` lives in one round only -------------------------------------------------

typedef struct {
    u64 bit[MAX_ELEMENTS / 64]; // elements that are surely written on every way here
} Written;

typedef struct {
    const Rename *x;
    const ThreadOp *loop;    // the one that is to be doubled
    int reg;                 // its `next`
    i64 steps;               // operations walked
    bool exposed;            // some element may be read without a write in front
} Proof;

static void walk_block(Proof *p, const ThreadBlock *b, Written *w);

static void meet(Written *w, const Written *other)
{
    for (int i = 0; i < COUNT(w->bit); i++) w->bit[i] &= other->bit[i];
}

// An element range at the present values of the unroll variables.
static void touch(Proof *p, const Operand *o, bool write, Written *w)
{
    i64 first = o->base;
    for (int i = 0; i < o->nterms; i++) first += o->term[i].coef * p->x->value[o->term[i].var];
    for (i64 e = first; e < first + o->count; e++) {
        if (e < 0 || e >= MAX_ELEMENTS) { // the checker will say so
            p->exposed = true;
            return;
        }
        u64 bit = 1ull << (e % 64), *word = &w->bit[e / 64];
        if (write) *word |= bit;
        else if (!(*word & bit)) p->exposed = true;
    }
}

// Reads come first: an operation may read what it then overwrites. A guard leaves open whether it
// writes.
static void walk_op(Proof *p, const ThreadOp *op, Written *w)
{
    if (is_register(&op->guard, p->reg)) p->exposed = true;
    for (int write = 0; write < 2; write++)
        for (int k = 0; k < op->nopnd; k++) {
            char letter = operand_letter(op, k);
            if (!is_register(&op->opnd[k], p->reg)) continue;
            if (write && letter_writes(letter) && op->guard.kind == OPD_NONE)
                touch(p, &op->opnd[k], true, w);
            if (!write && letter_reads(letter) && !(letter == 'R' && starts_from_zero(p->x, op)))
                touch(p, &op->opnd[k], false, w);
        }
}

// What stands in front of the loop says nothing about its body, nor about the bodies of loops
// around it, whose earlier rounds have run it; behind the loop `next` holds something else than
// before the rewriting, so nothing counts as written.
static void walk_region(Proof *p, const ThreadOp *op, Written *w)
{
    Written body = *w, other = *w;
    if (op->op == OP_UNROLL) {
        for (int i = 0; i < op->n && !p->exposed; i++) {
            p->x->value[op->imm] = i;
            walk_block(p, &op->body, w);
        }
        return;
    }
    walk_op(p, op, &body);
    bool around = op->op == OP_FOR && contains(&op->body, p->loop);
    if (op == p->loop || around) memset(&body, 0, sizeof body);
    walk_block(p, &op->body, &body);
    walk_block(p, &op->other, &other);
    // An if runs one side; a loop may run no round, and a role is for some warps only.
    if (op->op == OP_IF) *w = other;
    meet(w, &body);
    if (op == p->loop) memset(w, 0, sizeof *w);
}

// Regions that neither name the register nor hold the loop are passed over: most of a kernel.
static void walk_block(Proof *p, const ThreadBlock *b, Written *w)
{
    for (int i = 0; i < b->n && !p->exposed; i++) {
        const ThreadOp *op = b->at[i];
        if (++p->steps > MAX_STEPS) p->exposed = true;
        if (!op->body.n && !op->other.n) walk_op(p, op, w);
        else if (op == p->loop || contains(&op->body, p->loop) || contains(&op->other, p->loop) ||
                 op_uses(p->x, op, p->reg, USE_ANY) ||
                 block_uses(p->x, &op->body, p->reg, USE_ANY, NULL) ||
                 block_uses(p->x, &op->other, p->reg, USE_ANY, NULL))
            walk_region(p, op, w);
    }
}

static bool lives_in_one_round(Rename *x, const ThreadOp *loop, int next)
{
    Proof p = {.x = x, .loop = loop, .reg = next};
    Written none = {0};
    walk_block(&p, &x->fn->body, &none);
    return !p.exposed;
}

// ---- which loops -------------------------------------------------------------------------------

// An unroll region that does nothing but now[u] = next[u] for all elements of both.
static bool is_move(const Rename *x, ThreadOp *op, Pair *pair)
{
    if (op->op != OP_UNROLL || op->body.n != 1) return false;
    const ThreadOp *mov = op->body.at[0];
    if (mov->op != OP_MOV || mov->guard.kind != OPD_NONE) return false;
    for (int k = 0; k < 2; k++) {
        const Operand *o = &mov->opnd[k];
        if (o->kind != OPD_REG || o->base || o->nterms != 1 || o->term[0].var != op->imm ||
            o->term[0].coef != 1 || x->fn->regs.at[o->reg].count != op->n)
            return false;
    }
    *pair = (Pair){mov->opnd[0].reg, mov->opnd[1].reg, op};
    return pair->now != pair->next &&
           x->fn->regs.at[pair->now].class == x->fn->regs.at[pair->next].class;
}

// Moves behind which the body names neither array. So no array is in two pairs.
static int find_pairs(const Rename *x, const ThreadOp *loop, Pair *pair)
{
    const ThreadBlock *b = &loop->body;
    int n = 0;
    for (int i = b->n - 1; i >= MAX(0, b->n - LAST_OPS) && n < MAX_PAIRS; i--) {
        if (!is_move(x, b->at[i], &pair[n])) continue;
        ThreadBlock behind = {.at = b->at + i + 1, .n = b->n - i - 1};
        if (!block_uses(x, &behind, pair[n].now, USE_ANY, NULL) &&
            !block_uses(x, &behind, pair[n].next, USE_ANY, NULL))
            n++;
    }
    return n;
}

static bool in_product(const Rename *x, const ThreadOp *loop, const Pair *p)
{
    return block_uses(x, &loop->body, p->now, USE_PRODUCT, NULL) ||
           block_uses(x, &loop->body, p->next, USE_PRODUCT, NULL);
}

static i64 expanded(const ThreadBlock *b)
{
    i64 n = 0;
    for (int i = 0; i < b->n && n <= MAX_EXPANDED; i++) {
        const ThreadOp *op = b->at[i];
        i64 inner = 1 + expanded(&op->body) + expanded(&op->other);
        n += op->op == OP_UNROLL ? inner * op->n : inner;
    }
    return MIN(n, MAX_EXPANDED + 1);
}

static int height(const ThreadBlock *b)
{
    int most = 0;
    for (int i = 0; i < b->n; i++)
        most = MAX(most, 1 + MAX(height(&b->at[i]->body), height(&b->at[i]->other)));
    return most;
}

// NULL when the loop itself may be doubled, else why not. The counter must not come near the end of
// its range, since it now steps over the bound by up to two steps.
static const char *obstacle(const Rename *x, const ThreadOp *loop, int depth, bool inner)
{
    const Operand *hi = &loop->opnd[2];
    i64 step = loop->opnd[3].base;
    if (inner) return "a loop inside this one has been doubled already";
    if (loop->flags & OPF_LANES) return "lanes of one warp leave this loop at different rounds";
    if (step > INT32_MAX / 2 || (hi->kind == OPD_IMM && hi->base > INT32_MAX - 2 * step))
        return "the counter would leave 32 bits";
    if (block_uses(x, &loop->body, loop->imm, USE_WRITE, NULL))
        return "the body writes the loop's counter";
    if (block_uses(x, &x->fn->body, loop->imm, USE_ANY, loop))
        return "the loop's counter is used outside of it";
    if (depth + height(&loop->body) > MAX_DEPTH) return "regions would nest too deeply";
    if (expanded(&x->fn->body) > MAX_EXPANDED) return "the kernel would have too many operations";
    return NULL;
}

// ---- the rewriting -----------------------------------------------------------------------------

typedef struct {
    Rename *x;
    const Pair *pair;
    int npairs;
    int counter, second;     // registers: the loop's counter, and its value in the second half
    const char *name;        // of the counter in coordinates
} Swap;

static const Expr *second_counter(void *ctx, const Expr *var)
{
    const Swap *s = ctx;
    if (var->name != s->name) return NULL;
    Intern *names = expr_pool_names(s->x->mod->exprs);
    return expr_var(s->x->mod->exprs,
                    intern_printf(names, "%%%s", s->x->fn->regs.at[s->second].name));
}

static Operand swap_operand(const Swap *s, Operand o)
{
    if (o.kind != OPD_REG) return o;
    if (o.reg == s->counter) o.reg = s->second;
    for (int i = 0; i < s->npairs; i++) {
        const Pair *p = &s->pair[i];
        if (o.reg != p->now && o.reg != p->next) continue;
        o.reg = o.reg == p->now ? p->next : p->now;
        break;
    }
    return o;
}

static bool is_pair_move(const Pair *pair, int n, const ThreadOp *op)
{
    for (int i = 0; i < n; i++)
        if (pair[i].move == op) return true;
    return false;
}

// Unroll variables keep their numbers: the copies stand beside each other, never inside.
static void copy_block(const Swap *s, const ThreadBlock *from, ThreadBlock *to)
{
    Arena *a = s->x->mod->arena;
    *to = (ThreadBlock){0};
    for (int i = 0; i < from->n; i++) {
        const ThreadOp *old = from->at[i];
        if (is_pair_move(s->pair, s->npairs, old)) continue;
        ThreadOp *op = ARENA_NEW(a, ThreadOp);
        *op = *old;
        op->guard = swap_operand(s, old->guard);
        op->opnd = ARENA_ARRAY(a, Operand, MAX(old->nopnd, 1));
        for (int k = 0; k < old->nopnd; k++) op->opnd[k] = swap_operand(s, old->opnd[k]);
        op->mem = ARENA_ARRAY(a, MemRef, MAX(old->nmem, 1));
        for (int k = 0; k < old->nmem; k++) {
            op->mem[k] = old->mem[k];
            for (int c = 0; c < old->mem[k].ncoord; c++)
                op->mem[k].coord[c] = expr_subst(s->x->mod->exprs, old->mem[k].coord[c],
                                                 second_counter, (void *)s);
        }
        copy_block(s, &old->body, &op->body);
        copy_block(s, &old->other, &op->other);
        vec_push(a, to, op);
    }
}

// The moves stand on the way out of the loop only, where an odd number of rounds ends.
static void double_loop(Rename *x, ThreadOp *loop, const Pair *pair, int npairs)
{
    ThreadBuilder *b = &x->build;
    Arena *a = x->mod->arena;
    const char *counter = x->fn->regs.at[loop->imm].name;
    int second = thread_add_reg(b, counter, RC_B32, 1);
    int more = thread_add_reg(b, "more", RC_PRED, 1);
    Swap s = {x, pair, npairs, loop->imm, second,
              intern_printf(expr_pool_names(x->mod->exprs), "%%%s", counter)};
    ThreadBlock first = {0}, *saved;
    for (int i = 0; i < loop->body.n; i++)
        if (!is_pair_move(pair, npairs, loop->body.at[i])) vec_push(a, &first, loop->body.at[i]);
    ThreadBlock half;
    copy_block(&s, &first, &half);

    b->loc = loop->loc;
    b->at = &first;
    EMIT(b, OP_ADD, TT_S32, opd_reg(second, 0), opd_reg(loop->imm, 0), loop->opnd[3]);
    EMIT(b, OP_SETP, TT_S32, opd_reg(more, 0), opd_reg(second, 0), loop->opnd[2])->cmp = CMP_LT;
    ThreadOp *fork = thread_open_if(b, opd_reg(more, 0), &saved);
    fork->flags = OPF_UNIFORM;
    fork->body = half;
    for (int i = npairs - 1; i >= 0; i--) vec_push(a, &fork->other, pair[i].move);
    thread_close(b, saved);
    loop->body = first;
    loop->opnd[3].base *= 2;
}

// Several arrays may be handed over; those that must be moved stay moves in both halves.
static bool try_loop(Rename *x, ThreadOp *loop, int depth, bool inner)
{
    Pair pair[MAX_PAIRS];
    int n = find_pairs(x, loop, pair), kept = 0;
    bool worth = false;
    for (int i = 0; i < n; i++) worth |= in_product(x, loop, &pair[i]);
    if (!worth) return false;
    const char *why = obstacle(x, loop, depth, inner);
    worth = false;
    for (int i = 0; i < n; i++) {
        Pair p = pair[i];
        bool product = in_product(x, loop, &p);
        if (!why && lives_in_one_round(x, loop, p.next)) {
            worth |= product;
            pair[kept++] = p;
        } else if (product) {
            const char *read = "it may be read before its round has written all of it, or after "
                               "the loop";
            diag(x->diag, SEV_NOTE, p.move->loc, NULL,
                 "%s is moved into %s, %d registers a round: %s", x->fn->regs.at[p.next].name,
                 x->fn->regs.at[p.now].name, p.move->n, why ? why : read);
        }
    }
    if (worth) double_loop(x, loop, pair, kept);
    return worth;
}

// Inner loops first. Returns whether one was doubled.
static bool rename_block(Rename *x, const ThreadBlock *b, int depth)
{
    bool any = false;
    for (int i = 0; i < b->n; i++) {
        ThreadOp *op = b->at[i];
        bool inner = rename_block(x, &op->body, depth + 1);
        inner |= rename_block(x, &op->other, depth + 1);
        if (op->op == OP_FOR) inner |= try_loop(x, op, depth + 1, inner);
        any |= inner;
    }
    return any;
}

void thread_rename(ThreadModule *m, Diag *d)
{
    for (int i = 0; i < m->fns.n; i++) {
        ThreadFn *f = m->fns.at[i];
        Rename x = {.mod = m, .fn = f, .diag = d, .build = {.mod = m, .fn = f}};
        x.value = ARENA_ARRAY(m->arena, i64, f->unrolls.n + 1);
        x.build.taken[NAMES_REGS] = map_new(m->arena);
        for (int r = 0; r < f->regs.n; r++)
            map_put(x.build.taken[NAMES_REGS], f->regs.at[r].name, (void *)1);
        x.zero = ARENA_ARRAY(m->arena, u8, f->regs.n + 1);
        count_zeros(&x, &f->body);
        rename_block(&x, &f->body, 0);
    }
}
