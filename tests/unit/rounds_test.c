// rounds_test.c - what periodic.c says about random loops, held against running them.
//
// A loop that is called periodic is run for R and for R - modulus rounds. By what is claimed, the
// two must steer alike from the start up to their last rounds, alike up to their ends behind the
// first rounds, and alike behind the loop. Loops that are refused prove nothing here; there must be
// enough of both kinds.
#include "../../src/verify/periodic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 3000, MOST_ROUNDS = 400, DEPTH = 3 };

// ---- programs -----------------------------------------------------------------------------------

typedef struct { u64 seed; Buf text; int inner; bool open; } Make;
static int pick(Make *m, int n)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->seed >> 33) % (u64)n);
}

static const char *carried(Make *m)
{
    static const char *const names[] = {"n", "m", "x", "y", "i", "n", "m", "x", "y", "i", "S"};
    return names[pick(m, COUNT(names))];
}

static void use(Make *m)
{
    Buf *b = &m->text;
    const char *r = carried(m);
    int c = 1 << pick(m, 3), k = 2 + pick(m, 4);
    switch (pick(m, 8)) {
    case 0: buf_printf(b, "and.b32 %%v, %%%s, %d\n", r, 2 * c - 1); break;
    case 1: buf_printf(b, "shr.u32 %%v, %%%s, %d\nand.b32 %%v, %%v, 1\n", r, pick(m, 3)); break;
    case 2: buf_printf(b, "rem.u32 %%v, %%%s, %d\n", r, k); break;
    case 3: buf_printf(b, "div.u32 %%v, %%%s, %d\nand.b32 %%v, %%v, 1\n", r, k); break;
    case 4: buf_printf(b, "rem.s32 %%v, %%%s, %d\n", r, k); break;
    case 5: buf_printf(b, "mad.s32 %%v, %%%s, %d, %%n\nand.b32 %%v, %%v, 7\n", r, k); break;
    case 6:
        buf_printf(b, "shl.b32 %%v, %%%s, 1\nadd.s32 %%v, %%v, %%m\nrem.u32 %%v, %%v, 6\n", r);
        break;
    default: buf_printf(b, "mov.b32 %%v, %%%s\n", pick(m, 4) ? "z" : r); break;
    }
    buf_printf(b, "shl.b32 %%at, %%v, 3\nadd.s32 %%at, %%at, %%smem\n"
                  "mbar.wait [%%at + 1024], %d ; full(0)\n", pick(m, 2));
}

static void change(Make *m)
{
    static const char *const to[] = {"n", "m", "x", "y", "z"};
    const char *a = to[pick(m, COUNT(to))], *o = carried(m);
    int c = pick(m, 5);
    switch (pick(m, 9)) {
    case 0: case 1: case 2: buf_printf(&m->text, "add.s32 %%%s, %%%s, %d\n", a, a, c); break;
    case 3: buf_printf(&m->text, "xor.b32 %%%s, %%%s, %d\n", a, a, c); break;
    case 4: buf_printf(&m->text, "mov.b32 %%%s, %%%s\n", a, o); break;
    case 5: buf_printf(&m->text, "and.b32 %%%s, %%%s, 3\n", a, o); break;
    case 6: buf_puts(&m->text, "mov.b32 %w, %x\nmov.b32 %x, %y\nmov.b32 %y, %w\n"); break;
    case 7: buf_printf(&m->text, "and.b32 %%w, %%%s, 1\nxor.b32 %%%s, %%%s, %%w\n", o, a, a); break;
    default: buf_printf(&m->text, "sub.s32 %%%s, %%%s, %d\n", a, o, c); break;
    }
}

static void condition(Make *m)
{
    static const char *const cmp[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const char *c = cmp[pick(m, COUNT(cmp))], *r = carried(m);
    switch (pick(m, 6)) {
    case 0: buf_printf(&m->text, "setp.%s.s32 %%p, %%%s, %d\n", c, r, pick(m, 6) - 1); break;
    case 1: buf_printf(&m->text, "setp.%s.u32 %%p, %%%s, %d\n", c, r, pick(m, 6)); break;
    case 2:
        buf_printf(&m->text, "add.s32 %%v, %%%s, %d\nsetp.%s.s32 %%p, %%v, %%S\n", r,
                   pick(m, 4) - 1, c);
        break;
    case 3:
        buf_printf(&m->text, "sub.s32 %%v, %%S, %%%s\nsetp.%s.s32 %%p, %%v, %d\n", r, c,
                   pick(m, 5));
        break;
    case 4:
        buf_printf(&m->text, "mad.s32 %%v, %%%s, %d, %d\nmul.s32 %%w, %%S, 2\n"
                   "setp.%s.s32 %%p, %%v, %%w\n", r, 1 + pick(m, 3), pick(m, 5), c);
        break;
    default:
        buf_printf(&m->text, "and.b32 %%v, %%%s, 1\nsetp.eq.s32 %%p, %%v, %d\n", r, pick(m, 2));
        break;
    }
}

static void statements(Make *m, int depth);

static void statement(Make *m, int depth)
{
    int k = pick(m, depth < DEPTH ? 12 : 8);
    if (k < 4) {
        use(m);
    } else if (k < 8) {
        change(m);
    } else if (k < 11) {
        condition(m);
        buf_puts(&m->text, "if.uniform %p {\n");
        statements(m, depth + 1);
        if (pick(m, 2)) {
            buf_puts(&m->text, "} else {\n");
            statements(m, depth + 1);
        }
        buf_puts(&m->text, "}\n");
    } else {
        // One loop over T at most: more rounds of one would be more rounds of the other.
        bool open = !m->open && pick(m, 2);
        m->open |= open;
        buf_printf(&m->text, "for %%j%d = 0 to %s step 1 {\n", m->inner++ % 4,
                   open ? "%T" : pick(m, 2) ? "2" : "3");
        statements(m, depth + 1);
        buf_puts(&m->text, "}\n");
    }
}

static void statements(Make *m, int depth)
{
    for (int n = 1 + pick(m, 3); n > 0; n--) statement(m, depth);
}

static void make(Make *m)
{
    buf_puts(&m->text,
             "kernel k\n  threads 128\n  smem 8192\n  param s32 S\n  param s32 T\n"
             "  mbar full[4] @1024\n"
             "  reg b32 smem, S, T, n, m, i, x, y, z, v, w, at, j0, j1, j2, j3\n"
             "  reg pred p\n{\n  mov.u32 %smem, smem\n  ld.param.s32 %S, S\n  ld.param.s32 %T, T\n"
             "  mov.b32 %n, 0\n  mov.b32 %m, 1\n  mov.b32 %x, 0\n  mov.b32 %y, 1\n"
             "  mov.b32 %z, 2\n");
    int lo = pick(m, 4) ? 0 : pick(m, 3);
    buf_printf(&m->text, "for %%i = %d to %%S step %d {\n", lo, 1 + pick(m, 2));
    statements(m, 0);
    if (pick(m, 2)) buf_puts(&m->text, "add.s32 %n, %n, 1\n");
    buf_puts(&m->text, "}\n");
    if (pick(m, 2)) use(m);
    buf_puts(&m->text, "}\n");
}

// ---- running them -------------------------------------------------------------------------------

typedef struct {
    const ThreadFn *fn;
    i32 reg[64], param[2];
    const ThreadOp *target; // the loop whose rounds are told apart, when it runs for the first time
    bool met, done;
    u64 hash, round[MOST_ROUNDS + 8], behind;
    int rounds;
    i64 steps;
    bool over;              // runs too long to say anything
} Exec;

static i32 value(const Exec *x, const Operand *o)
{
    return o->kind == OPD_REG ? x->reg[o->reg]
           : o->kind == OPD_PARAM ? x->param[o->reg]
           : o->kind == OPD_IMM   ? (i32)o->base
                                  : 0;
}

static bool compare(const ThreadOp *op, i32 a, i32 b)
{
    i64 l = op->type == TT_U32 ? (i64)(u32)a : a, r = op->type == TT_U32 ? (i64)(u32)b : b;
    switch (op->cmp) {
    case CMP_EQ: return l == r;
    case CMP_NE: return l != r;
    case CMP_LT: return l < r;
    case CMP_LE: return l <= r;
    case CMP_GT: return l > r;
    default: return l >= r;
    }
}

static void run(Exec *x, const ThreadBlock *b);

static void run_for(Exec *x, const ThreadOp *op)
{
    bool mine = op == x->target && !x->met;
    i32 *reg = &x->reg[op->opnd[0].reg], step = (i32)op->opnd[3].base;
    const Operand *hi = &op->opnd[2];
    // When it runs once more it has other rounds, of course.
    if (op == x->target && x->met && !x->done) x->done = true, x->behind = x->hash;
    if (mine) x->met = true;
    for (*reg = value(x, &op->opnd[1]); *reg < value(x, hi) && !x->over; *reg += step) {
        if (mine) x->hash = 1;
        run(x, &op->body);
        if (!mine) continue;
        if (x->rounds == MOST_ROUNDS) x->over = true;
        else x->round[x->rounds++] = x->hash;
    }
    if (mine) x->hash = 1;
}

static void run_op(Exec *x, const ThreadOp *op)
{
    i32 *to = op->nopnd && op->opnd[0].kind == OPD_REG ? &x->reg[op->opnd[0].reg] : NULL;
    u32 a = op->nopnd > 1 ? (u32)value(x, &op->opnd[1]) : 0;
    u32 b = op->nopnd > 2 ? (u32)value(x, &op->opnd[2]) : 0;
    if (++x->steps > 200000) x->over = true;
    switch (op->op) {
    case OP_MOV: case OP_LDPARAM: *to = (i32)a; break;
    case OP_ADD: *to = (i32)(a + b); break;
    case OP_SUB: *to = (i32)(a - b); break;
    case OP_MUL: *to = (i32)(a * b); break;
    case OP_MAD: *to = (i32)(a * b + (u32)value(x, &op->opnd[3])); break;
    case OP_AND: *to = (i32)(a & b); break;
    case OP_XOR: *to = (i32)(a ^ b); break;
    case OP_SHL: *to = (i32)(a << b); break;
    case OP_SHR: *to = (i32)(a >> b); break;
    case OP_REM: *to = op->type == TT_U32 ? (i32)(a % b) : (i32)a % (i32)b; break;
    case OP_DIV: *to = op->type == TT_U32 ? (i32)(a / b) : (i32)a / (i32)b; break;
    case OP_SETP: *to = compare(op, (i32)a, (i32)b); break;
    case OP_IF: run(x, value(x, &op->opnd[0]) ? &op->body : &op->other); break;
    case OP_FOR: run_for(x, op); break;
    case OP_MBAR_WAIT: {
        i32 at = value(x, &op->opnd[0]);
        x->hash = hash_bytes(&op, sizeof op, x->hash);
        x->hash = hash_bytes(&at, sizeof at, x->hash);
        break;
    }
    default: x->over = true;
    }
}

static void run(Exec *x, const ThreadBlock *b)
{
    for (int i = 0; i < b->n && !x->over; i++) run_op(x, b->at[i]);
}

static Exec execute(const ThreadFn *fn, const ThreadOp *target, i32 s, i32 t)
{
    Exec x = {.fn = fn, .param = {s, t}, .target = target, .hash = 1};
    run(&x, &fn->body);
    if (!x.done) x.behind = x.hash;
    return x;
}

// ---- claims -------------------------------------------------------------------------------------

static bool holds(const LoopPeriod *p, const Exec *with, const Exec *less, int *at)
{
    int m = (int)p->modulus;
    if (with->rounds != less->rounds + m) return *at = -2, false;
    for (int r = 0; r < less->rounds - p->last; r++)
        if (with->round[r] != less->round[r]) return *at = r, false;
    for (int r = (int)p->first + m; r < with->rounds; r++)
        if (with->round[r] != less->round[r - m]) return *at = r, false;
    return *at = -1, with->behind == less->behind;
}

typedef struct { int passed, failed, refused; } Bench;

static void check_loop(Bench *b, const ThreadFn *fn, const LoopPeriod *p, const char *text)
{
    bool outer = !p->outer;
    int m = (int)p->modulus, least = (int)(p->first + p->last) + m, done = 0, at;
    if (!p->periodic || p->fixed) {
        b->refused += !p->periodic;
        return;
    }
    if (least + 2 * m > MOST_ROUNDS / 2) return;
    for (int rounds = least; rounds < least + 2 * m + 3; rounds++)
        for (i32 t = 0; t < (outer ? 4 : 1); t++) {
            i32 span = (i32)(rounds * p->step), cut = (i32)(m * p->step);
            static Exec with, less;
            with = execute(fn, p->loop, outer ? span : 1, outer ? t : span);
            less = execute(fn, p->loop, outer ? span - cut : 1, outer ? t : span - cut);
            if (with.over || less.over || !with.met) continue;
            done++;
            // Rounds of a loop that starts above 0 are fewer by a constant.
            if (with.rounds < least || holds(p, &with, &less, &at)) continue;
            b->failed++;
            printf("the loop over %%%s is said to have modulus %d first %d last %d, but with %d "
                   "rounds (T %d) differs at %d:\n%s", fn->regs.at[p->loop->imm].name, m,
                   (int)p->first, (int)p->last, with.rounds, t, at, text);
            return;
        }
    b->passed += done > 0;
}

static void run_program(Bench *b, u64 seed)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Make m = {.seed = seed * 0x9e3779b97f4a7c15u + 1};
    make(&m);
    u16 file = diag_add_file(d, "random", m.text.s, m.text.n);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    ThreadModule *mod = thread_read(a, e, d, file, m.text.s, m.text.n);
    if (!mod) {
        Buf out = {0};
        diag_print(d, &out);
        printf("%s", out.s);
        buf_free(&out);
        b->failed++;
    } else {
        LoopPeriods loops = {0};
        periodic_loops(a, mod->fns.at[0], &loops);
        for (int i = 0; i < loops.n && b->failed < 3; i++)
            check_loop(b, mod->fns.at[0], &loops.at[i], m.text.s);
    }
    buf_free(&m.text);
    arena_free(a);
}

// Arguments: how many programs, and the first seed.
int main(int argc, char **argv)
{
    Bench b = {0};
    u64 n = argc > 1 ? strtoull(argv[1], NULL, 10) : PROGRAMS;
    u64 from = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    for (u64 i = 0; i < n && b.failed < 3; i++) run_program(&b, from + i);
    if (!b.failed && (b.passed < (int)(n / 10) || b.refused < (int)(n / 10))) {
        printf("%d claims and %d refusals of %d programs: too few\n", b.passed, b.refused, (int)n);
        b.failed++;
    }
    printf("%d passed, %d failed\n", b.passed, b.failed);
    return b.failed != 0;
}
