// run.c - `baton run`: compiles a .co file, runs it on a GPU or on the emulator, compares the
// result with the reference that the contract names, and reports.
//
// The order: command line, compilation, sizes, contents, device, launch, outputs, check, times,
// report. What can be refused without a device is refused before one is opened. Exit statuses are
// those of cli.h.
#include "parallel.h"
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
// NAME=TEXT; false with an error that shows `example`.
bool run_setting(const char *word, const char *what, const char *example, RunSetting *out,
                  Arena *a, Diag *d)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || !equals[1]) {
        diag_error(d, (Loc){0}, arena_printf(a, "for example: %s", example),
                   "%s needs NAME=VALUE, found `%s`", what, word);
        return false;
    }
    *out = (RunSetting){arena_strndup(a, word, (size_t)(equals - word)), equals + 1};
    return true;
}

// *out keeps its value after an error.
void run_integer(const char *name, const char *text, i64 lo, i64 hi, i64 *out, Diag *d)
{
    i64 v;
    if (!cli_integer(text, &v) || v < lo || v > hi)
        diag_error(d, (Loc){0}, NULL, "%s takes an integer from %lld to %lld, found `%s`", name,
                   (long long)lo, (long long)hi, text);
    else
        *out = v;
}

static void choose_schedule(RunOptions *o, const char *word, Arena *a, Diag *d)
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

// Whether there is such a device is found out when it is opened.
void run_choose_device(RunOptions *o, const char *word, Diag *d)
{
    i64 n = 0;
    o->device = word;
    if (strcmp(word, "auto") == 0 || strcmp(word, "emu") == 0 || strcmp(word, "cuda") == 0) return;
    if (strncmp(word, "cuda:", 5) == 0 && cli_integer(word + 5, &n) && n >= 0 && n < 1024) {
        o->gpu = (int)n;
        return;
    }
    diag_error(d, (Loc){0}, "cuda:0 is the first GPU",
               "--device takes auto, emu or cuda:N, found `%s`", word);
}

// A word with = is a size, unless it ends in .co: a path may hold an =.
static void positional(RunOptions *o, const char *word, Arena *a, Diag *d)
{
    RunSetting s;
    size_t n = strlen(word);
    bool is_file = n > 3 && strcmp(word + n - 3, ".co") == 0;
    if (!is_file && strchr(word, '=')) {
        if (run_setting(word, "a size", "S=512", &s, a, d)) vec_push(a, &o->sizes, s);
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
    RunSetting s;
    for (;;) {
        int option = cli_next(&args, &value);
        // run_integer() reads signed numbers; 2^63 seeds are enough.
        i64 seed = (i64)o->seed;
        if (option == OPT_SCHEDULE || option == OPT_SEEDS || option == OPT_NO_HAZARDS ||
            option == OPT_SMS)
            o->emulator_asked = true;
        switch (option) {
        case CLI_END: return diag_errors(d) == 0;
        case CLI_BAD: break;
        case CLI_POSITIONAL: positional(o, value, a, d); break;
        case OPT_ENTRY: o->source.entry = value; break;
        case OPT_DEFINE: cli_define(&o->source, value, a, d); break;
        case OPT_ARG:
            if (run_setting(value, "--arg", "--arg q=uniform(-1,1)", &s, a, d))
                vec_push(a, &o->args, s);
            break;
        case OPT_OUT:
            if (run_setting(value, "--out", "--out o=o.npy", &s, a, d)) vec_push(a, &o->outs, s);
            break;
        case OPT_SEED:
            run_integer("--seed", value, 0, INT64_MAX, &seed, d);
            o->seed = (u64)seed;
            break;
        case OPT_DEVICE: run_choose_device(o, value, d); break;
        case OPT_SCHEDULE: choose_schedule(o, value, a, d); break;
        case OPT_SEEDS: run_integer("--seeds", value, 1, 1000000, &o->seeds, d); break;
        case OPT_NO_HAZARDS: o->no_hazards = true; break;
        case OPT_SMS: run_integer("--sms", value, 1, 1024, &o->sms, d); break;
        case OPT_ONCE: o->once = true; break;
        case OPT_WARMUP: run_integer("--warmup", value, 0, RT_MAX_RUNS, &o->warmup, d); break;
        case OPT_REPEAT: run_integer("--repeat", value, 1, RT_MAX_RUNS, &o->repeat, d); break;
        case OPT_TIME: o->time = true; break;
        case OPT_HELP:
        case OPT_H: o->help = true; break;
        CLI_PROGRAM_CASES(&o->source, value, a, d);
        default: BUG("option without a case");
        }
    }
}

// ---- the check ----------------------------------------------------------------------------------
// NULL when the function has no such parameter.
static const RunArray *array_named(const Run *r, const char *name)
{
    for (int i = 0; i < r->narrays; i++)
        if (strcmp(r->plan->params.at[i].name, name) == 0) return &r->array[i];
    return NULL;
}

// The array inside its guarded block.
static RefTensor as_tensor(const RunArray *a, const u8 *block)
{
    RefTensor t = {.type = a->param->type, .rank = a->value.rank, .count = a->count,
                   .data = block + RUN_GUARD};
    for (int d = 0; d < t.rank; d++) t.dim[d] = a->value.dim[d];
    return t;
}

// Binds the contract's reference to the arrays. True without one: then nothing is checked.
bool run_find_reference(Run *r)
{
    const Contract *k = r->contract;
    const char *all;
    if (!k || !k->reference || r->options->once) return true;
    const Reference *ref = ref_find(k->reference, &all);
    if (!ref) {
        diag_error(r->diag, k->check_loc, arena_printf(r->arena, "there are: %s", all),
                   "there is no reference `%s`", k->reference);
        return false;
    }
    if (k->out.n != 1 || k->in.n > REF_MAX_INPUTS) {
        diag_error(r->diag, k->op_loc, "for example: //! op: add(a, b) -> c",
                   "the reference %s needs `op:` with %d inputs and one output", ref->name,
                   ref->nin);
        return false;
    }
    r->checked = array_named(r, k->out.at[0].name);
    if (!r->checked || r->checked->param->kind != PLAN_TENSOR || !r->checked->param->out) {
        diag_error(r->diag, k->out.at[0].loc, NULL, "the function does not write an array %s",
                   k->out.at[0].name);
        return false;
    }
    r->reference = ref;
    r->tolerance = (RefTolerance){k->abs, k->rel, k->has_expect, k->expect};
    return true;
}

// Compares the result. False: the reference does not fit the arrays, the reason is in the Diag.
bool run_check(Run *r)
{
    const Contract *k = r->contract;
    if (!r->reference) return true;
    r->job.nin = k->in.n;
    for (int i = 0; i < k->in.n; i++) {
        const RunArray *a = array_named(r, k->in.at[i].name);
        r->job.in[i] = a && a->block ? as_tensor(a, a->block) : (RefTensor){0};
    }
    r->job.out = as_tensor(r->checked, r->checked->result);
    RefArgument *arg = ARENA_ARRAY(r->arena, RefArgument, k->arguments.n + 1);
    for (int i = 0; i < k->arguments.n; i++)
        arg[i] = (RefArgument){k->arguments.at[i].key, k->arguments.at[i].value};
    const char *why = ref_begin(r->arena, r->reference, arg, k->arguments.n, &r->job);
    if (why) {
        diag_error(r->diag, k->check_loc, NULL, "%s", why);
        return false;
    }
    // About three seconds on this machine's processors.
    double budget = 3e9 * parallel_workers();
    r->found = ref_compare(r->arena, &r->job, &r->tolerance, budget, r->options->seed);
    return true;
}

// Passes of the compiler, then what came before and with the first launch; steps that took no time
// did not happen.
static void print_times(const Run *r)
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
static int run_job(Run *r)
{
    if (!run_check_outputs(r) || !run_bind_sizes(r)) return EXIT_INPUT;
    if (!run_find_reference(r) || !run_fill_arrays(r)) return EXIT_INPUT;
    if (r->from_case) stress_fill_case(r->from_case, r);
    int status = run_open_device(r);
    if (status == EXIT_RIGHT) status = run_execute(r);
    if (status != EXIT_RIGHT) return status;
    if (r->options->time) print_times(r);
    if (!run_write_outputs(r)) return EXIT_INPUT;
    if (r->options->once) {
        printf("%s: launched once on %s; nothing was checked\n", r->plan->name, r->device->name);
        return EXIT_RIGHT;
    }
    if (!run_check(r)) return EXIT_INPUT;
    if (r->from_case) r->unexpected = stress_check_case(r->from_case, r);
    bool right = run_is_right(r);
    // A wrong kernel is not timed: its speed means nothing.
    if (right) status = run_measure(r);
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
    Run r = {.options = o, .c = &c, .arena = a, .diag = d};
    int status = EXIT_INPUT;
    StressCase from_case = {0};
    if (stress_read_program(&r, &from_case)) status = run_job(&r);
    ref_end(&r.job);
    run_close(&r);
    run_free_arrays(&r);
    buf_free(&c.ptx);
    buf_free(&r.cubin);
    return status;
}

// No limit on the arena: arrays of files live in it, and their sizes are the user's.
int cli_run(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    RunOptions o = {.device = "auto", .seeds = 1, .warmup = 50, .repeat = 200,
                    .schedule = SCHED_ROUND_ROBIN};
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
