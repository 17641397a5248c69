// stress.c - `baton stress`: runs a kernel many times on a GPU with random delays at its handoffs
// and trouble around it, and compares each result bit for bit with a quiet run.
//
// The order: command line, compilation, the versions of the program, sizes and contents, the runs
// in child processes, the verdict. A version without the protection of its releases (O6) runs
// beside the kernel where there is one: only if it fails has the run shown anything. Exit statuses
// are those of cli.h.
#include "stress.h"
#include "../emit/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Order of the table below: cli_next answers with the index of the row.
enum {
    OPT_ENTRY, OPT_DEFINE, OPT_ARG, OPT_DEVICE, OPT_LAUNCHES, OPT_SEED, OPT_SEEDS, OPT_LAUNCH,
    OPT_TIME_LIMIT, OPT_HANG_LIMIT, OPT_UNPROTECTED, OPT_PRINT, OPT_HELP, OPT_H,
    CLI_PROGRAM_ENUM
};

static const CliOption options[] = {
    {"-e", "ENTRY", "stress this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    {"--arg", "NAME=SPEC", "contents of an input, as for baton run"},
    {"--device", "WHICH", "cuda:N (default cuda:0); emu: the same program on the emulator, where\n"
                          "delays change the schedule only"},
    {"--launches", "N", "of each seed; default 400"},
    {"--seed", "S", "of delays, surroundings and generated inputs; default 0"},
    {"--seeds", "K", "seeds S to S+K-1; default 1"},
    {"--launch", "I", "launch I of the seed alone, as often as --launches says"},
    {"--time-limit", "SECONDS", "begin no launch after that; default 120"},
    {"--hang-limit", "SECONDS", "a launch that takes longer hangs; default 10"},
    {"--unprotected", NULL, "the kernel without the fences of its releases is the one under test"},
    {"--print", "FORM", "print the program with its delays and stop: thread or ptx"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
    CLI_PROGRAM_OPTIONS,
};

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b,
             "baton stress FILE.co [NAME=VALUE ...] [options] - looks for races on a GPU\n\n"
             "The kernel is launched again and again with random delays at its handoffs, hot and "
             "emptied\n"
             "caches, other work beside it, other addresses and other inputs, and each result is "
             "compared bit\n"
             "for bit with that of a quiet run. Sizes and inputs are those of baton run. A .thr "
             "file with the\n"
             "comments that say what it is launched with can stand in place of the .co file.\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nExit status: 0 clean, 1 other bits, a hang or an error of the kernel, 2 bad "
                 "usage or input,\n3 device trouble, 4 inconclusive: the unprotected version came "
                 "out right too.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// ---- the command line ---------------------------------------------------------------------------
static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static void positional(StressOptions *o, const char *word, Arena *a, Diag *d)
{
    JobSetting s;
    bool is_file = ends_in(word, ".co") || ends_in(word, ".thr");
    if (!is_file && strchr(word, '=')) {
        if (job_setting(word, "a size", "S=512", &s, a, d)) vec_push(a, &o->run.job.sizes, s);
    } else if (o->run.source.path) {
        diag_error(d, (Loc){0}, "sizes are given as NAME=VALUE",
                   "baton stress takes one file, found `%s` after %s", word, o->run.source.path);
    } else {
        o->run.source.path = word;
    }
}

static void choose_print(StressOptions *o, const char *word, Diag *d)
{
    o->print = word;
    if (strcmp(word, "thread") != 0 && strcmp(word, "ptx") != 0)
        diag_error(d, (Loc){0}, NULL, "--print takes thread or ptx, found `%s`", word);
}

static bool read_words(StressOptions *o, int argc, char **argv, Arena *a, Diag *d)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "stress", a, d};
    const char *value;
    JobSetting s;
    for (;;) {
        int option = cli_next(&args, &value);
        i64 seed = (i64)o->run.job.seed;
        switch (option) {
        case CLI_END: return diag_errors(d) == 0;
        case CLI_BAD: break;
        case CLI_POSITIONAL: positional(o, value, a, d); break;
        case OPT_ENTRY: o->run.source.entry = value; break;
        case OPT_DEFINE: cli_define(&o->run.source, value, a, d); break;
        case OPT_ARG:
            if (job_setting(value, "--arg", "--arg q=uniform(-1,1)", &s, a, d))
                vec_push(a, &o->run.job.args, s);
            break;
        case OPT_DEVICE: job_choose_device(&o->run.job, value, d); break;
        case OPT_LAUNCHES: job_integer("--launches", value, 1, 1000000, &o->launches, d); break;
        case OPT_SEED:
            job_integer("--seed", value, 0, INT64_MAX / 2, &seed, d);
            o->run.job.seed = (u64)seed;
            break;
        case OPT_SEEDS: job_integer("--seeds", value, 1, 1000000, &o->seeds, d); break;
        case OPT_LAUNCH: job_integer("--launch", value, 0, 1000000, &o->only, d); break;
        case OPT_TIME_LIMIT:
            job_integer("--time-limit", value, 1, 1000000, &o->time_limit, d);
            break;
        case OPT_HANG_LIMIT: job_integer("--hang-limit", value, 1, 10000, &o->hang_limit, d); break;
        case OPT_UNPROTECTED: o->unprotected = true; break;
        case OPT_PRINT: choose_print(o, value, d); break;
        case OPT_HELP:
        case OPT_H: o->help = true; break;
        CLI_PROGRAM_CASES(&o->run.source, value, a, d);
        default: BUG("option without a case");
        }
    }
}

// ---- the versions -------------------------------------------------------------------------------
// A copy of the program through its text, which is exact; then what this version changes. Into a
// pool of its own: ranges of variables, which the lowering leaves in the pool, hold for one kernel.
static void make_version(Stress *s, const ThreadModule *m, const Plan *p, int which, Arena *a)
{
    StressVersion *v = &s->version[which];
    Diag *d = s->r->diag;
    Buf thread = {0}, plan = {0};
    thread_print(m, &thread);
    plan_print(p, "", &plan);
    u16 file = diag_add_file(d, "the program", arena_strndup(a, thread.s, thread.n), thread.n);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    v->thread = thread_read(a, e, d, file, thread.s, thread.n);
    v->plan = plan_read(a, e, d, file, "", plan.s, plan.n);
    buf_free(&thread);
    buf_free(&plan);
    if (!v->thread || !v->plan) BUG("a program that was printed cannot be read");
    v->thread->diag = d;
    // The fences stay in the text until the delays stand: both versions get the same points.
    if (which & STRESS_DELAYED) stress_instrument(v->thread, v->plan, &v->delays);
    bool told = which & STRESS_DELAYED; // the places are those of the version before
    if (which & STRESS_OPEN || s->o->unprotected)
        stress_weaken(v->thread, told ? NULL : &s->fences);
    if (!thread_check(v->thread, d) || !plan_check(v->plan, v->thread, d)) {
        cli_flush(d);
        BUG("the program with delays breaks the rules");
    }
    ptx_print(v->thread, v->plan, d, &v->ptx);
    buf_putc(&v->ptx, '\0');
    v->made = true;
}

// Nothing is opened where nothing is protected in this way, or where it is under test itself.
static void make_versions(Stress *s, const ThreadModule *m, const Plan *p, Arena *a)
{
    make_version(s, m, p, STRESS_AS_IS, a);
    make_version(s, m, p, STRESS_DELAYED, a);
    if (s->o->unprotected) return;
    make_version(s, m, p, STRESS_OPEN, a);
    if (s->fences.n) make_version(s, m, p, STRESS_OPEN | STRESS_DELAYED, a);
    else s->version[STRESS_OPEN].made = false;
}

static int print_version(const Stress *s)
{
    const StressVersion *v = &s->version[STRESS_DELAYED];
    Buf b = {0};
    if (strcmp(s->o->print, "thread") == 0) {
        plan_print(v->plan, "//@ ", &b);
        thread_print(v->thread, &b);
        fwrite(b.s, 1, b.n, stdout);
    } else {
        fputs(v->ptx.s, stdout);
    }
    buf_free(&b);
    return EXIT_RIGHT;
}

// ---- the report ---------------------------------------------------------------------------------
static void report_head(const Stress *s, Buf *out)
{
    const Job *r = s->r;
    const StressProgram *p = &s->version[STRESS_DELAYED].delays;
    buf_printf(out, "%s\nsizes      ", s->o->run.source.path);
    for (int i = 0; i < r->plan->symbols.n; i++)
        buf_printf(out, "%s%s=%lld", i ? " " : "", r->plan->symbols.at[i].name,
                   (long long)r->symbol[i]);
    buf_puts(out, r->plan->symbols.n ? "\n" : "fixed\n");
    buf_printf(out, "delays     at %d points of the program", p->points.n);
    if (p->dropped) buf_printf(out, "; %d more get none", p->dropped);
    buf_putc(out, '\n');
    for (int i = 0; i < s->fences.n; i++)
        buf_printf(out, "unprotected: the proxy fence at %s:%u is left out\n",
                   diag_file_name(r->diag, s->fences.at[i].file), s->fences.at[i].line);
}

static const char *plural(i64 n) { return n == 1 ? "" : "es"; }

static void report_verdict(const Stress *s, const StressOutcome *o, StressVerdict v, Buf *out)
{
    Arena *a = s->r->arena;
    bool open = s->version[STRESS_OPEN].made;
    const StressTally *k = &o->kernel, *u = &o->open;
    if (open)
        buf_printf(out, "unprotected: %s of %s launch%s with other bits%s\n",
                   cli_count(a, u->wrong), cli_count(a, u->launches), plural(u->launches),
                   u->hung ? ", then it hung" : u->died ? ", then it died" : "");
    buf_printf(out, "%s: %s (%s launch%s, %s of them with delays)\n", s->o->run.source.path,
               stress_verdict_name[v], cli_count(a, k->launches), plural(k->launches),
               cli_count(a, k->delayed));
    if (v == STRESS_INCONCLUSIVE && !k->launches)
        buf_puts(out, "  no launch was made within the time limit\n");
    else if (v == STRESS_INCONCLUSIVE)
        buf_puts(out, "  the unprotected version came out right in this run as well: the run could "
                      "not have shown the race\n");
    else if (v == STRESS_WRONG)
        buf_puts(out, "  it is wrong without delays\n");
    else if (v == STRESS_CLEAN && open)
        buf_puts(out, "  the unprotected version failed in the same run\n");
    else if (v == STRESS_CLEAN)
        buf_puts(out, "  no launch differed; that says nothing about windows that no launch hit\n");
}

// ---- the run ------------------------------------------------------------------------------------
static int stress(Stress *s)
{
    Buf head = {0};
    StressOutcome o = {0};
    s->deadline = rt_now_ms() + 1000.0 * (double)s->o->time_limit;
    report_head(s, &head);
    stress_watch(s, &o);
    int status = o.status;
    if (!status) {
        static const u8 exits[STRESS_VERDICTS] = {
            [STRESS_CLEAN] = EXIT_RIGHT,  [STRESS_INCONCLUSIVE] = EXIT_UNDECIDED,
            [STRESS_DIFFERS] = EXIT_WRONG, [STRESS_HANGS] = EXIT_WRONG,
            [STRESS_DIES] = EXIT_WRONG,   [STRESS_WRONG] = EXIT_WRONG,
        };
        StressVerdict v = stress_judge(&o.kernel, s->version[STRESS_OPEN].made ? &o.open : NULL);
        buf_puts(&head, o.report.s ? o.report.s : "");
        report_verdict(s, &o, v, &head);
        fputs(head.s, stdout);
        status = exits[v];
    }
    buf_free(&head);
    buf_free(&o.report);
    return status;
}

// Sizes and contents, as baton run makes them.
static bool bind(Job *r, const StressCase *c)
{
    if (!job_bind_sizes(r) || (!c && !job_find_reference(r)) || !job_fill_arrays(r)) return false;
    if (c) stress_fill_case(c, r);
    return true;
}

static int run_kernel(Stress *s, const ThreadModule *m, const StressCase *c)
{
    Job *r = s->r;
    Loc sum = stress_unordered(m);
    if (sum.line) {
        diag_error(r->diag, sum,
                   "what is right up to the order of its sums cannot be judged by its bits",
                   "%s adds floats by atomic operations: out of scope for baton stress",
                   r->plan->name);
        return EXIT_INPUT;
    }
    s->from_case = c;
    s->warps = 1;
    for (int i = 0; i < m->fns.n; i++) s->warps = MAX(s->warps, m->fns.at[i]->threads / 32);
    make_versions(s, m, r->plan, r->arena);
    if (s->o->unprotected && !s->fences.n) {
        diag_error(r->diag, (Loc){0}, NULL, "%s has no release that a proxy fence protects (O6)",
                   r->plan->name);
        return EXIT_INPUT;
    }
    if (s->o->print) return print_version(s);
    return bind(r, c) ? stress(s) : EXIT_INPUT;
}

static int run_file(const StressOptions *o, Arena *a, Diag *d)
{
    Compilation c = {.until = FORM_THREAD, .arena = a, .diag = d, .path = o->run.source.path};
    Job r = {.options = &o->run.job, .path = o->run.source.path, .c = &c, .arena = a, .diag = d};
    Stress s = {.o = o, .r = &r};
    StressCase from_case = {0};
    int status = EXIT_INPUT;
    bool thread = ends_in(o->run.source.path, ".thr");
    bool ok = thread ? stress_read_case(o->run.source.path, (JobOptions *)&o->run.job, a,
                                        expr_pool_new(a, intern_new(a)), d, &from_case)
                     : cli_read_source(&o->run.source, &c) && pass_compile(&c);
    if (ok) {
        if (thread) c.thread = from_case.thread;
        r.plan = thread ? from_case.plan : c.plan;
        r.narrays = plan_arguments(r.plan);
        r.contract = c.contract;
        status = run_kernel(&s, thread ? from_case.thread : c.thread, thread ? &from_case : NULL);
    }
    ref_end(&r.job);
    job_free_arrays(&r);
    for (int i = 0; i < STRESS_VERSIONS; i++) buf_free(&s.version[i].ptx);
    return status;
}

// No limit on the arena: arrays of files live in it, and their sizes are the user's.
int cli_stress(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    StressOptions o = {.run.job = {.device = "cuda:0", .seeds = 1, .schedule = SCHED_ROUND_ROBIN},
                       .launches = 400, .seeds = 1, .only = -1, .time_limit = 120,
                       .hang_limit = 10};
    int status = EXIT_INPUT;
    bool read = read_words(&o, argc, argv, a, d);
    if (o.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read && !o.run.source.path)
        diag_error(d, (Loc){0}, "for example: baton stress kernels/attention/v2.co S=4096",
                   "baton stress needs a .co file");
    else if (read)
        status = run_file(&o, a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}
