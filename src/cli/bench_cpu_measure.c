// bench_cpu_measure.c - times of the compiler, the emulator and the verifier on each kernel, in
// this process: what a stage does between two looks at the clock, over and over in fresh arenas, so
// that every sample is the whole job. A process of `baton build` is timed from outside as well.
#include "../bench/bench.h"
#include "../verify/verify.h"
#include "bench_cpu.h"
#include "machine.h"
#include "program.h"
#include "proof.h"
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    PROCESSES = 5,  // whole processes of `baton build`
    EMULATIONS = 3, // of each kind
    PROOFS = 3,
    CASES = 6, // of the explorer
    STATES = 1000000,
};

typedef VEC(double) Samples;

// ---- samples ------------------------------------------------------------------------------------

static double median(Arena *a, const Samples *s) { return bench_median(a, s->at, s->n); }

static double least(const Samples *s)
{
    double v = NAN;
    for (int i = 0; i < s->n; i++) v = i ? MIN(v, s->at[i]) : s->at[i];
    return v;
}

static double largest(const Samples *s)
{
    double v = NAN;
    for (int i = 0; i < s->n; i++) v = i ? MAX(v, s->at[i]) : s->at[i];
    return v;
}

// Three columns of milliseconds.
static void put_range(Arena *a, CpuTable *t, const Samples *s, int digits)
{
    cpu_number(a, t, median(a, s), digits);
    cpu_number(a, t, least(s), digits);
    cpu_number(a, t, largest(s), digits);
}

static void range_columns(Arena *a, CpuTable *t)
{
    cpu_column(a, t, "median", "ms");
    cpu_column(a, t, "min", "ms");
    cpu_column(a, t, "max", "ms");
}

static void keep(Arena *a, CpuTable *samples, const CpuKernel *k, const char *what,
                 const Samples *s)
{
    for (int i = 0; i < s->n; i++) {
        cpu_text(a, samples, k->name);
        cpu_text(a, samples, what);
        cpu_number(a, samples, s->at[i], 4);
    }
}

// ---- the processor ------------------------------------------------------------------------------

// What is timed here never waits for anything: time in which it did not run went to other programs.
typedef struct {
    double wall, own; // milliseconds
} Clocks;

static Clocks clocks_now(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (Clocks){rt_now_ms(), (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6};
}

static void add_clocks(CpuJob *j, Clocks since)
{
    Clocks now = clocks_now();
    j->wall_ms += now.wall - since.wall;
    j->own_ms += now.own - since.own;
}

static void note_busy(const CpuJob *j, CpuTable *t)
{
    enum { ENOUGH = 95 }; // per cent
    double part = 100 * j->own_ms / j->wall_ms;
    if (part < ENOUGH)
        vec_push(j->arena, &t->notes,
                 arena_printf(j->arena,
                              "BUSY: this process had a processor for %.0f%% of the time only; "
                              "other programs make all times longer",
                              part));
}

// ---- compilation --------------------------------------------------------------------------------

typedef struct {
    Samples pass[PASS_MAX], checks, quick, total;
    i64 lines, ptx_bytes;
} Compiled;

// As `baton build` compiles. False: the reason is in the Diag, which gets the places of the kernel.
static bool compile(const CpuKernel *k, PassForm until, bool quick, Arena *a, Diag *d,
                    Compilation *c)
{
    CliSource source = {.path = k->path};
    *c = (Compilation){.until = until, .quick = quick, .arena = a, .diag = d};
    return cli_read_source(&source, c) && pass_compile(c);
}

static i64 count_lines(const char *s)
{
    i64 n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static void note_compilation(CpuJob *j, const Compilation *c, Compiled *out)
{
    double sum = c->check_ms + c->quick_ms;
    for (int i = 0; i < pass_count; i++) {
        vec_push(j->arena, &out->pass[i], c->ms[i]);
        sum += c->ms[i];
    }
    vec_push(j->arena, &out->checks, c->check_ms);
    vec_push(j->arena, &out->quick, c->quick_ms);
    vec_push(j->arena, &out->total, sum);
    out->lines = count_lines(c->text);
    out->ptx_bytes = (i64)c->ptx.n;
}

// Everything of one compilation lives in an arena of its own, messages too: warnings are the same
// each time and are told once, by the first.
static bool compile_once(CpuJob *j, const CpuKernel *k, bool first, Compiled *out)
{
    Arena *a = arena_new((size_t)1 << 30);
    Diag *d = diag_new(a);
    Compilation c;
    bool ok = compile(k, FORM_PTX, true, a, d, &c);
    if (ok) note_compilation(j, &c, out);
    if (first || !ok) cli_flush(d);
    buf_free(&c.ptx);
    arena_free(a);
    return ok;
}

// From start to end, the program's loading and the writing of its output with it.
static bool time_process(CpuJob *j, const CpuKernel *k, Samples *out)
{
    const char *const argv[] = {"/proc/self/exe", "build", k->path, "-o", "/dev/null", NULL};
    for (int i = 0; i < PROCESSES; i++) {
        Buf text = {0};
        int status = 0;
        double start = rt_now_ms();
        bool ran = program_run(argv, NULL, &text, &status);
        double took = rt_now_ms() - start;
        bool ok = ran && program_succeeded(status);
        if (!ok)
            diag_error(j->diag, (Loc){0}, NULL,
                       "`baton build %s` as a process of its own failed: %.*s", k->path,
                       text.n ? (int)strcspn(text.s, "\n") : 9, text.n ? text.s : "no output");
        buf_free(&text);
        if (!ok) return false;
        vec_push(j->arena, out, took);
    }
    return true;
}

static void put_passes(CpuJob *j, const CpuKernel *k, const Compiled *c, CpuTable *t)
{
    Arena *a = j->arena;
    cpu_text(a, t, k->name);
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].form != FORM_CUDA) cpu_number(a, t, median(a, &c->pass[i]), 3);
    cpu_number(a, t, median(a, &c->checks), 3);
    cpu_number(a, t, median(a, &c->quick), 3);
    cpu_number(a, t, median(a, &c->total), 3);
}

static int measure_compiler(CpuJob *j, const CpuKernel *k, CpuTimes *out)
{
    Arena *a = j->arena;
    Compiled first = {.lines = 0}, warm = {.lines = 0}, c = {.lines = 0};
    Samples process = {0};
    if (!compile_once(j, k, true, &first) || !compile_once(j, k, false, &warm)) return EXIT_INPUT;
    Clocks since = clocks_now();
    for (int i = 0; i < j->repeat; i++)
        if (!compile_once(j, k, false, &c)) return EXIT_INPUT;
    add_clocks(j, since);
    if (!time_process(j, k, &process)) return EXIT_INPUT;
    CpuTable *t = &out->compile;
    cpu_text(a, t, k->name);
    cpu_number(a, t, (double)c.lines, 0);
    cpu_number(a, t, (double)c.ptx_bytes / 1000, 1);
    put_range(a, t, &c.total, 2);
    cpu_number(a, t, first.total.at[0], 2);
    put_range(a, t, &process, 2);
    put_passes(j, k, &c, &out->passes);
    keep(a, &out->samples, k, "compile, first", &first.total);
    keep(a, &out->samples, k, "compile", &c.total);
    keep(a, &out->samples, k, "process of baton build", &process);
    return EXIT_RIGHT;
}

// ---- the emulator -------------------------------------------------------------------------------

typedef struct {
    Samples ms;
    i64 ctas, warp_ops;
    const char *sizes; // "B=1 S=512 H=2"
} Emulated;

static const char *sizes_text(const Job *r, Arena *a)
{
    Buf b = {0};
    for (int i = 0; i < r->plan->symbols.n; i++)
        buf_printf(&b, "%s%s=%lld", i ? " " : "", r->plan->symbols.at[i].name,
                   (long long)r->symbol[i]);
    const char *s = arena_strndup(a, b.s ? b.s : "", b.n);
    buf_free(&b);
    return s;
}

static i64 count_ctas(const RtLaunch *l)
{
    i64 n = 0;
    for (int i = 0; i < l->nsteps; i++) {
        const RtKernelLaunch *k = &l->steps[i].kernel;
        if (l->steps[i].kind == STEP_KERNEL) n += (i64)k->grid[0] * k->grid[1] * k->grid[2];
    }
    return n;
}

// The kernel with its contract's sizes. With `check` the result is compared with the reference: a
// speed of wrong results means nothing.
static int emulate_job(CpuJob *j, Job *r, bool check, Emulated *out)
{
    Buf cubin = {0}; // stays empty on the emulator
    if (!job_bind_sizes(r) || !job_find_reference(r) || !job_fill_arrays(r)) return EXIT_INPUT;
    int status = job_open_device(r);
    if (status == EXIT_RIGHT && !cli_code(r->c, false, &cubin, &r->code)) return EXIT_INPUT;
    if (status == EXIT_RIGHT) status = job_execute(r);
    if (status != EXIT_RIGHT) return status;
    if (check && !job_check(r)) return EXIT_INPUT;
    if (check && !run_is_right(r)) {
        diag_error(r->diag, (Loc){0}, arena_printf(r->arena, "`baton run %s` tells what", r->path),
                   "%s comes out wrong on the emulator: it is not timed", r->path);
        return EXIT_WRONG;
    }
    vec_push(j->arena, &out->ms, r->emulator_ms);
    out->ctas = count_ctas(r->launch);
    out->warp_ops = r->warp_ops;
    out->sizes = sizes_text(r, j->arena);
    return EXIT_RIGHT;
}

static int emulate_once(CpuJob *j, const CpuKernel *k, bool hazards, bool check, Emulated *out)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    JobOptions o = {
        .device = "emu", .seeds = 1, .schedule = SCHED_ROUND_ROBIN, .no_hazards = !hazards};
    Compilation c;
    Job r = {.options = &o, .path = k->path, .c = &c, .arena = a, .diag = d};
    int status = EXIT_INPUT;
    if (compile(k, FORM_PTX, false, a, d, &c)) {
        r.plan = c.plan;
        r.contract = c.contract;
        r.narrays = plan_arguments(c.plan);
        status = emulate_job(j, &r, check, out);
    }
    if (status != EXIT_RIGHT) cli_flush(d);
    ref_end(&r.job);
    job_close(&r);
    job_free_arrays(&r);
    buf_free(&c.ptx);
    arena_free(a);
    return status;
}

static int measure_emulator(CpuJob *j, const CpuKernel *k, CpuTimes *out)
{
    Arena *a = j->arena;
    Emulated with = {.ctas = 0}, without = {.ctas = 0};
    int status = EXIT_RIGHT;
    for (int i = 0; i < EMULATIONS && status == EXIT_RIGHT; i++) {
        status = emulate_once(j, k, true, i == 0, &with);
        if (status == EXIT_RIGHT) status = emulate_once(j, k, false, false, &without);
    }
    if (status != EXIT_RIGHT) return status;
    CpuTable *t = &out->emulator;
    double ms = median(a, &with.ms), fast = median(a, &without.ms);
    cpu_text(a, t, k->name);
    cpu_text(a, t, with.sizes);
    cpu_number(a, t, (double)with.ctas, 0);
    cpu_number(a, t, (double)with.warp_ops, 0);
    put_range(a, t, &with.ms, 1);
    cpu_number(a, t, (double)with.ctas / ms * 1e3, 0);
    cpu_number(a, t, (double)with.warp_ops / ms * 1e-3, 2);
    cpu_number(a, t, fast, 1);
    cpu_number(a, t, (double)without.warp_ops / fast * 1e-3, 2);
    keep(a, &out->samples, k, "emulate", &with.ms);
    keep(a, &out->samples, k, "emulate, no hazards", &without.ms);
    return EXIT_RIGHT;
}

// ---- the verifier -------------------------------------------------------------------------------

typedef struct {
    Samples total, part[PROOF_PARTS];
    const char *name[PROOF_PARTS];
    int nparts, broken, open;
    i64 cases, states;
    double explore_ms;
    ExploreCounts explored;
    ExploreVerdict verdict;
} Verified;

static void note_proof(CpuJob *j, const Proof *p, Verified *v)
{
    double sum = 0;
    for (int i = 0; i < p->nparts; i++) {
        vec_push(j->arena, &v->part[i], p->part[i].ms);
        v->name[i] = p->part[i].name;
        sum += p->part[i].ms;
    }
    vec_push(j->arena, &v->total, sum);
    v->nparts = p->nparts;
    v->broken = p->broken;
    v->open = p->open;
    v->cases = p->report.cases;
    v->states = p->report.states;
}

static void explore(const Compilation *c, Verified *v)
{
    ExploreOptions o = {.cases = CASES, .states = STATES, .counts = &v->explored};
    Buf report = {0};
    double start = rt_now_ms();
    v->verdict = explore_module(c->thread, c->plan, c->diag, &o, &report);
    v->explore_ms = rt_now_ms() - start;
    buf_free(&report);
}

static bool verify_once(CpuJob *j, const CpuKernel *k, bool explored, Verified *v)
{
    Arena *a = arena_new((size_t)1 << 30);
    Diag *d = diag_new(a);
    Compilation c;
    Proof p;
    bool ok = compile(k, FORM_THREAD, false, a, d, &c);
    if (ok) {
        cli_prove(a, c.thread, c.plan, d, CHECK_FULL, false, false, &p);
        note_proof(j, &p, v);
        if (explored) explore(&c, v);
    } else {
        cli_flush(d);
    }
    arena_free(a);
    return ok;
}

// The part's median, or NAN when there is none of that name.
static double part_median(Arena *a, const Verified *v, const char *name)
{
    for (int i = 0; i < v->nparts; i++)
        if (strcmp(v->name[i], name) == 0) return median(a, &v->part[i]);
    return NAN;
}

static void put_explored(Arena *a, const CpuKernel *k, const Verified *v, CpuTable *t)
{
    cpu_text(a, t, k->name);
    cpu_number(a, t, (double)v->explored.cases, 0);
    cpu_number(a, t, (double)v->explored.states, 0);
    cpu_number(a, t, (double)v->explored.transitions, 0);
    cpu_number(a, t, v->explore_ms, 1);
    cpu_number(a, t, (double)v->explored.states / v->explore_ms * 1e3, 0);
}

static int measure_verifier(CpuJob *j, const CpuKernel *k, CpuTimes *out)
{
    static const char *const slow[] = {"handoff", "bounds", "output"};
    Arena *a = j->arena;
    Verified v = {.nparts = 0};
    Clocks since = clocks_now();
    for (int i = 0; i < PROOFS; i++)
        if (!verify_once(j, k, i == 0, &v)) return EXIT_INPUT;
    add_clocks(j, since);
    if (v.broken || v.verdict == EXPLORE_VIOLATION) {
        diag_error(j->diag, (Loc){0}, arena_printf(a, "`baton check %s` tells what", k->path),
                   "%s is broken: its check is not timed", k->path);
        return EXIT_WRONG;
    }
    CpuTable *t = &out->verifier;
    double rest = median(a, &v.total);
    cpu_text(a, t, k->name);
    cpu_number(a, t, (double)v.open, 0);
    cpu_number(a, t, (double)v.cases, 0);
    cpu_number(a, t, (double)v.states, 0);
    put_range(a, t, &v.total, 1);
    for (int i = 0; i < COUNT(slow); i++) {
        double ms = part_median(a, &v, slow[i]);
        cpu_number(a, t, ms, 1);
        rest -= isnan(ms) ? 0 : ms;
    }
    cpu_number(a, t, MAX(rest, 0.0), 1);
    put_explored(a, k, &v, &out->explorer);
    keep(a, &out->samples, k, "check", &v.total);
    return EXIT_RIGHT;
}

// ---- all ----------------------------------------------------------------------------------------

static void compile_tables(CpuJob *j, CpuTimes *out)
{
    Arena *a = j->arena;
    CpuTable *t = &out->compile;
    *t = (CpuTable){.name = "compile"};
    t->title = arena_printf(
        a, "Compiling to PTX as `baton build` does, %d times in one process, ms", j->repeat);
    cpu_column(a, t, "kernel", "");
    cpu_column(a, t, "lines", "");
    cpu_column(a, t, "ptx", "KB");
    range_columns(a, t);
    cpu_column(a, t, "first", "ms");
    cpu_column(a, t, "process", "ms");
    cpu_column(a, t, "least", "ms");
    cpu_column(a, t, "most", "ms");
    vec_push(a, &t->notes, "first: the first compilation of the kernel in this process");
    vec_push(a, &t->notes, "process, least, most: a whole `baton build`, from start to end");

    t = &out->passes;
    *t = (CpuTable){.name = "passes", .title = "Compiling by pass, medians, ms", .least = 0.02};
    cpu_column(a, t, "kernel", "");
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].form != FORM_CUDA) cpu_column(a, t, pass_table[i].name, "ms");
    cpu_column(a, t, "checks", "ms");
    cpu_column(a, t, "quick rules", "ms");
    cpu_column(a, t, "all", "ms");
}

static void emulator_table(CpuJob *j, CpuTimes *out)
{
    Arena *a = j->arena;
    CpuTable *t = &out->emulator;
    *t = (CpuTable){.name = "emulator",
                    .title = "The emulator at the contract's sizes, round-robin schedule, ms"};
    cpu_column(a, t, "kernel", "");
    cpu_column(a, t, "sizes", "");
    cpu_column(a, t, "CTAs", "");
    cpu_column(a, t, "operations", "of warps");
    range_columns(a, t);
    cpu_column(a, t, "CTA speed", "1/s");
    cpu_column(a, t, "speed", "M op/s");
    cpu_column(a, t, "untracked", "ms");
    cpu_column(a, t, "its speed", "M op/s");
    vec_push(a, &t->notes, "untracked: without the order of accesses, as with --no-hazards");
}

static void verifier_tables(CpuJob *j, CpuTimes *out)
{
    Arena *a = j->arena;
    CpuTable *t = &out->verifier;
    *t = (CpuTable){.name = "verifier",
                    .title = "The proof of `baton check`, without its cache, ms"};
    cpu_column(a, t, "kernel", "");
    cpu_column(a, t, "open", "");
    cpu_column(a, t, "cases", "");
    cpu_column(a, t, "states", "");
    range_columns(a, t);
    cpu_column(a, t, "handoff", "ms");
    cpu_column(a, t, "bounds", "ms");
    cpu_column(a, t, "output", "ms");
    cpu_column(a, t, "quick rules", "ms");
    vec_push(a, &t->notes,
             "open: questions that it leaves; states: of the block, at the beginnings of loops, in "
             "the proof of the handoffs");

    t = &out->explorer;
    *t = (CpuTable){.name = "explorer"};
    t->title =
        arena_printf(a, "`baton explore`, the first %d cases of each kernel, once, ms", CASES);
    cpu_column(a, t, "kernel", "");
    cpu_column(a, t, "cases", "");
    cpu_column(a, t, "states", "");
    cpu_column(a, t, "transitions", "");
    cpu_column(a, t, "time", "ms");
    cpu_column(a, t, "speed", "states/s");

    t = &out->samples;
    *t = (CpuTable){.name = "samples", .title = "Every sample", .hidden = true};
    cpu_column(a, t, "kernel", "");
    cpu_column(a, t, "what", "");
    cpu_column(a, t, "time", "ms");
}

// What remains is taken from the kernels that are done: they differ, so it is a guess.
static void show_progress(const CpuJob *j, int k, const char *what, double start)
{
    if (!j->progress) return;
    fprintf(stderr, "\r\033[K%d of %d: %s, %s", k + 1, j->kernels.n, j->kernels.at[k].name, what);
    if (k)
        fprintf(stderr, ", about %.0f s left",
                (rt_now_ms() - start) / k * (j->kernels.n - k) * 1e-3);
    fflush(stderr);
}

int cpu_measure(CpuJob *j, CpuTimes *out)
{
    static const struct {
        const char *what;
        int (*run)(CpuJob *, const CpuKernel *, CpuTimes *);
    } stage[] = {{"compiling", measure_compiler},
                 {"emulating", measure_emulator},
                 {"proving and exploring", measure_verifier}};
    double start = rt_now_ms();
    int status = EXIT_RIGHT;
    compile_tables(j, out);
    emulator_table(j, out);
    verifier_tables(j, out);
    for (int k = 0; k < j->kernels.n && status == EXIT_RIGHT; k++) {
        for (int i = 0; i < COUNT(stage) && status == EXIT_RIGHT; i++) {
            show_progress(j, k, stage[i].what, start);
            status = stage[i].run(j, &j->kernels.at[k], out);
        }
    }
    if (j->progress) fputs("\r\033[K", stderr);
    note_busy(j, &out->compile);
    return status;
}
