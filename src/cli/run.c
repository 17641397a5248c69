// run.c - `baton run`: compiles a .co file, runs it on a GPU or on the emulator, compares the
// result with the reference that the contract names, and reports.
//
// The order: command line, compilation, sizes, contents, device, launch, outputs, check, times,
// report. What can be refused without a device is refused before one is opened. Exit statuses are
// those of cli.h.
#include "machine.h"
#include "stress.h"

#include <stdio.h>
#include <string.h>

// Order of the table below: cli_next answers with the index of the row.
enum {
    OPT_ENTRY, OPT_DEFINE, OPT_ARG, OPT_OUT, OPT_SEED, OPT_DEVICE, OPT_SCHEDULE, OPT_SEEDS,
    OPT_NO_HAZARDS, OPT_SMS, OPT_ONCE, OPT_WARMUP, OPT_REPEAT, OPT_TIME, OPT_HELP, OPT_H, CLI_PROGRAM_ENUM
};

static const CliOption options[] = {
    {"-e", "ENTRY", "run this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    {"--arg", "NAME=SPEC", "contents of an input: uniform(a,b), normal(mean,deviation), iota,\n"
                           "zeros, a number, FILE.npy, or bf16:FILE.npy for bits held as uint16"},
    {"--out", "NAME=FILE.npy", "write an output to a file (bf16 as uint16)"},
    {"--seed", "N", "of the generated inputs and of the first schedule; default 0"},
    {"--device", "WHICH", "auto (default: a GPU if there is one, else the emulator), emu, cuda:N"},
    {"--schedule", "KIND", "emulator: round-robin (default, fast), random, or adversarial (late\n"
                           "reads, early writes, longest legal delays)"},
    {"--seeds", "K", "emulator: run K schedules on the same data; results must be equal"},
    {"--no-hazards", NULL, "emulator: do not track the order of accesses (faster, checks less)"},
    {"--sms", "N", "emulator: multiprocessors of the card, on which a kernel's grid may depend;\n"
                   "default 132"},
    {"--once", NULL, "launch once with nothing around it, for profilers: no check, no timing"},
    {"--warmup", "N", "GPU: untimed launches before timing; default 50"},
    {"--repeat", "N", "GPU: timed launches; default 200"},
    {"--time", NULL, "print where the time before the first launch went, to standard error"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
    CLI_PROGRAM_OPTIONS,
};

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b,
             "baton run FILE.co [NAME=VALUE ...] [options] - compiles, runs and checks a kernel\n\n"
             "NAME=VALUE gives a size, such as S=512. Sizes that are not given come from the "
             "shapes of\n"
             "given files, then from the contract at the head of the file (its //! lines), "
             "which also\n"
             "names default inputs and the reference to compare with. A kernel of the thread "
             "IR (.thr) runs as\nthe comments at its head say.\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nOn a GPU the driver assembles the kernel and keeps the code in its own cache\n"
                 "(CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE, CUDA_CACHE_DISABLE=1).\n");
    buf_puts(&b, "\nExit status: 0 right, 1 wrong result or hazard, 2 bad usage or input, 3 device "
                 "trouble.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// ---- the command line ---------------------------------------------------------------------------
void run_choose_schedule(JobOptions *o, const char *word, Arena *a, Diag *d)
{
    static const char *const names[] = {"round-robin", "random", "adversarial"};
    static const EmuSchedule values[] = {SCHED_ROUND_ROBIN, SCHED_RANDOM, SCHED_ADVERSARIAL};
    for (int i = 0; i < COUNT(names); i++) {
        if (strcmp(word, names[i]) != 0) continue;
        o->schedule = values[i];
        return;
    }
    const char *meant = cli_closest(word, names, COUNT(names));
    diag_error(d, (Loc){0}, meant ? arena_printf(a, "did you mean %s?", meant) : NULL,
               "--schedule takes round-robin, random or adversarial, found `%s`", word);
}

// A word with = is a size, unless it ends in .co: a path may hold an =.
static void positional(RunOptions *o, const char *word, Arena *a, Diag *d)
{
    JobSetting s;
    size_t n = strlen(word);
    bool is_file = n > 3 && strcmp(word + n - 3, ".co") == 0;
    if (!is_file && strchr(word, '=')) {
        if (job_setting(word, "a size", "S=512", &s, a, d)) vec_push(a, &o->job.sizes, s);
    } else if (!*word) {
        diag_error(d, (Loc){0}, "a shell variable without a value?", "an empty word as a file");
    } else if (o->source.path) {
        diag_error(d, (Loc){0}, "sizes are given as NAME=VALUE",
                   "baton run takes one file, found `%s` after %s", word, o->source.path);
    } else {
        o->source.path = word;
    }
}

// Reads all words even after an error, so that one run tells every mistake. False when there was
// any.
static bool read_words(RunOptions *o, int argc, char **argv, Arena *a, Diag *d)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "run", a, d};
    const char *value;
    JobSetting s;
    for (;;) {
        int option = cli_next(&args, &value);
        // job_integer() reads signed numbers; 2^63 seeds are enough.
        i64 seed = (i64)o->job.seed;
        if (option == OPT_SCHEDULE || option == OPT_SEEDS || option == OPT_NO_HAZARDS ||
            option == OPT_SMS)
            o->job.emulator_asked = true;
        switch (option) {
        case CLI_END: return diag_errors(d) == 0;
        case CLI_BAD: break;
        case CLI_POSITIONAL: positional(o, value, a, d); break;
        case OPT_ENTRY: o->source.entry = value; break;
        case OPT_DEFINE: cli_define(&o->source, value, a, d); break;
        case OPT_ARG:
            if (job_setting(value, "--arg", "--arg q=uniform(-1,1)", &s, a, d))
                vec_push(a, &o->job.args, s);
            break;
        case OPT_OUT:
            if (job_setting(value, "--out", "--out o=o.npy", &s, a, d)) vec_push(a, &o->job.outs, s);
            break;
        case OPT_SEED:
            job_integer("--seed", value, 0, INT64_MAX, &seed, d);
            o->job.seed = (u64)seed;
            break;
        case OPT_DEVICE: job_choose_device(&o->job, value, d); break;
        case OPT_SCHEDULE: run_choose_schedule(&o->job, value, a, d); break;
        case OPT_SEEDS: job_integer("--seeds", value, 1, 1000000, &o->job.seeds, d); break;
        case OPT_NO_HAZARDS: o->job.no_hazards = true; break;
        case OPT_SMS: job_integer("--sms", value, 1, 1024, &o->job.sms, d); break;
        case OPT_ONCE: o->job.once = true; break;
        case OPT_WARMUP: job_integer("--warmup", value, 0, RT_MAX_RUNS, &o->job.warmup, d); break;
        case OPT_REPEAT: job_integer("--repeat", value, 1, RT_MAX_RUNS, &o->job.repeat, d); break;
        case OPT_TIME: o->time = true; break;
        case OPT_HELP:
        case OPT_H: o->help = true; break;
        CLI_PROGRAM_CASES(&o->source, value, a, d);
        default: BUG("option without a case");
        }
    }
}

// Passes of the compiler, then what came before and with the first launch; steps that took no time
// did not happen.
static void print_times(const Job *r)
{
    Buf b = {0};
    const RtTimes *t = &r->times;
    pass_print_times(r->c, &b);
    const struct {
        const char *name;
        double ms;
    } row[] = {{"driver", t->driver}, {"context", t->context}, {"assembled and loaded", t->load},
               {"launch prepared", t->prepare},
               {"host functions, of that", t->host}, {"their upload, of that", t->upload},
               {"first launch", t->launch}};
    for (int i = 0; i < COUNT(row); i++)
        if (row[i].ms > 0) buf_printf(&b, "%10.3f ms  %s\n", row[i].ms, row[i].name);
    fputs(b.s, stderr);
    buf_free(&b);
}

// Everything after compilation. The caller cleans up.
static int run_job(const RunOptions *o, Job *r, Buf *cubin)
{
    if (!job_check_outputs(r) || !job_bind_sizes(r)) return EXIT_INPUT;
    if (!job_find_reference(r) || !job_fill_arrays(r)) return EXIT_INPUT;
    if (r->from_case) stress_fill_case(r->from_case, r);
    int status = job_open_device(r);
    if (status == EXIT_RIGHT && !cli_code(r->c, !job_on_emulator(r), cubin, &r->code)) return EXIT_INPUT;
    if (status == EXIT_RIGHT) status = job_execute(r);
    if (status != EXIT_RIGHT) return status;
    if (o->time) print_times(r);
    if (!job_write_outputs(r)) return EXIT_INPUT;
    if (r->options->once) {
        printf("%s: launched once on %s; nothing was checked\n", r->plan->name, r->device->name);
        return EXIT_RIGHT;
    }
    if (!job_check(r)) return EXIT_INPUT;
    if (r->from_case) r->unexpected = stress_check_case(r->from_case, r);
    bool right = run_is_right(r);
    // A wrong kernel is not timed: its speed means nothing.
    if (right) status = job_measure(r);
    Buf report = {0};
    run_report(r, &report);
    fputs(report.s, stdout);
    buf_free(&report);
    // An unsound handoff fails also where this run came out right.
    bool sound = !r->c->tile || !r->c->tile->unsound; // a .thr file has none
    return status != EXIT_RIGHT ? status : right && sound ? EXIT_RIGHT : EXIT_WRONG;
}

// One way out: whatever failed, everything that was made is given back.
static int run(const RunOptions *o, Arena *a, Diag *d)
{
    Compilation c = {.until = FORM_PTX, .arena = a, .diag = d};
    Job r = {.options = &o->job, .path = o->source.path, .c = &c, .arena = a, .diag = d};
    Buf cubin = {0};
    int status = EXIT_INPUT;
    StressCase from_case = {0};
    if (stress_read_program(&o->source, &r, &from_case)) status = run_job(o, &r, &cubin);
    ref_end(&r.job);
    job_close(&r);
    job_free_arrays(&r);
    buf_free(&c.ptx);
    buf_free(&cubin);
    return status;
}

// No limit on the arena: arrays of files live in it, and their sizes are the user's.
int cli_run(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    RunOptions o = {.job = {.device = "auto", .seeds = 1, .warmup = 50, .repeat = 200,
                            .schedule = SCHED_ROUND_ROBIN}};
    int status = EXIT_INPUT;
    bool read = read_words(&o, argc, argv, a, d);
    if (o.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read && !o.source.path)
        diag_error(d, (Loc){0}, "for example: baton run kernels/attention/v1.co S=1024",
                   "baton run needs a .co file");
    else if (read)
        status = run(&o, a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}
