// periodic_tool.c - prints the loops of kernels in the thread IR and how they come round:
//
//   periodic_tool FILE.thr      one line for each loop that steers, or whose results do
//
// Exit status: 0 all are periodic, 1 some are not, 2 cannot be read.
#include "../../src/verify/periodic.h"

#include <stdio.h>

static const char *reg_name(const ThreadFn *fn, const ThreadOp *loop)
{
    return fn->regs.at[loop->opnd[0].reg].name;
}

static bool print_kernel(const ThreadFn *fn, Buf *out)
{
    Arena *a = arena_new(0);
    LoopPeriods loops = {0};
    bool all = true;
    periodic_loops(a, fn, &loops);
    buf_printf(out, "kernel %s\n", fn->name);
    for (int i = 0; i < loops.n; i++) {
        const LoopPeriod *p = &loops.at[i];
        all = all && p->periodic;
        buf_printf(out, "  line %u for %%%s:", p->loop->loc.line, reg_name(fn, p->loop));
        if (p->outer) buf_printf(out, " in %%%s,", reg_name(fn, p->outer));
        if (!p->steers) buf_puts(out, " results only,");
        if (p->conditional) buf_puts(out, " while,");
        if (p->fixed) buf_puts(out, " fixed");
        else if (!p->periodic)
            buf_printf(out, " not periodic: line %u: %s: %s", p->why_at->loc.line,
                       thread_op[p->why_at->op].name, p->why);
        else
            buf_printf(out, " modulus %lld first %lld last %lld step %lld%s%s%s",
                       (long long)p->modulus, (long long)p->first, (long long)p->last,
                       (long long)p->step, p->data ? " data" : "", p->sums ? " sums" : "",
                       p->few ? " few" : "");
        if (p->use_at)
            buf_printf(out, "; uses at line %u: %s", p->use_at->loc.line,
                       thread_op[p->use_at->op].name);
        buf_putc(out, '\n');
    }
    LoopMatches matches = {0};
    LoopsAlone alone = {0};
    periodic_matches(a, fn, &matches, &alone);
    for (int i = 0; i < matches.n; i++) {
        const LoopMatch *m = &matches.at[i];
        buf_printf(out, "  together: %lld * span of %%%s = %lld * span of %%%s + %lld\n",
                   (long long)m->times_a, reg_name(fn, m->a), (long long)m->times_b,
                   reg_name(fn, m->b), (long long)m->plus);
    }
    for (int i = 0; i < alone.n; i++) {
        const LoopAlone *l = &alone.at[i];
        buf_printf(out, "  alone: line %u for %%%s: %s", l->loop->loc.line, reg_name(fn, l->loop),
                   l->why);
        if (l->other) buf_printf(out, " (line %u: %s)", l->other->loc.line,
                                 thread_op[l->other->op].name);
        buf_putc(out, '\n');
    }
    arena_free(a);
    return all && !alone.n;
}

int main(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    Buf text = {0}, out = {0};
    bool all = true;
    const char *why = argc == 2 ? file_read(argv[1], &text, 1 << 24) : "one file is required";
    if (why) {
        fprintf(stderr, "periodic_tool: %s\n", why);
        return 2;
    }
    u16 file = diag_add_file(d, argv[1], text.s, text.n);
    ThreadModule *m = thread_read(a, e, d, file, text.s, text.n);
    if (!m || !thread_check(m, d)) {
        diag_print(d, &out);
        fputs(out.s ? out.s : "", stderr);
        return 2;
    }
    for (int i = 0; i < m->fns.n; i++) all = print_kernel(m->fns.at[i], &out) && all;
    fputs(out.s ? out.s : "", stdout);
    buf_free(&out);
    buf_free(&text);
    arena_free(a);
    return all ? 0 : 1;
}
