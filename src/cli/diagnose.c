// diagnose.c - `baton diagnose`: wrong outputs of a kernel, its inputs, and the question which
// generation of which slot the wrong values are.
//
// In: a .co file with sizes and inputs as `baton run` takes them, wrong outputs as .npy files. The
// kernel runs on the emulator, first as it should be, then with reads that see other generations
// (src/emu/diagnose.h). Without a .co file only the direct comparison with --dump is made.
#include "diagnose.h"
#include "stress.h"

#include <stdio.h>
#include <string.h>

// Order of the table below: cli_next answers with the index of the row.
enum {
    OPT_ENTRY, OPT_DEFINE, OPT_ARG, OPT_WRONG, OPT_RIGHT, OPT_DUMP, OPT_SEED, OPT_SMS, OPT_RUNS,
    OPT_HELP, OPT_H, CLI_PROGRAM_ENUM
};

static const CliOption options[] = {
    {"-e", "ENTRY", "diagnose this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    {"--arg", "NAME=SPEC", "contents of an input, as for baton run: the ones of the wrong run"},
    {"--wrong", "NAME=FILE.npy", "an output as it came out, in the form that run --out writes"},
    {"--right", "NAME=FILE.npy", "the same output as it should be. Default: what the emulator\n"
                                 "computes under its calm schedule"},
    {"--dump", "NAME=FILE.npy", "what a buffer should have held, tile after tile: compared with\n"
                                "the wrong output, also without a .co file. bf16:FILE.npy for\n"
                                "bits held as uint16"},
    {"--seed", "N", "of generated inputs, as for baton run; default 0"},
    {"--sms", "N", "multiprocessors of the card, on which a kernel's grid may depend; default 132"},
    {"--runs", "N", "at most N runs on the emulator; default 2000"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
    CLI_PROGRAM_OPTIONS,
};

typedef struct {
    CliSource source;
    JobOptions o;          // what the emulator needs
    VEC(JobSetting) wrong, right, dump;
    i64 runs;
    bool help;
    Arena *arena;
    Diag *diag;
} DiagnoseWords;

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b, "baton diagnose FILE.co [NAME=VALUE ...] --wrong NAME=FILE.npy [options]\n"
                 "baton diagnose --wrong NAME=FILE.npy --dump NAME=FILE.npy\n\n"
                 "Looks for the generation of a shared slot that wrong values of an output come "
                 "from. The kernel\n"
                 "runs on the emulator with the inputs of the wrong run; then again and again with "
                 "reads of one\n"
                 "buffer that see another generation, until the wrong values come out bit for bit."
                 "\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nExit status: 0 every wrong element is explained, 1 some are not, 2 bad usage "
                 "or input, 3 no memory.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// ---- the command line ---------------------------------------------------------------------------

static bool setting(DiagnoseWords *j, const char *option, const char *word, JobSetting *out)
{
    const char *equals = strchr(word, '=');
    if (equals && equals > word && equals[1]) {
        *out = (JobSetting){arena_strndup(j->arena, word, (size_t)(equals - word)), equals + 1};
        return true;
    }
    diag_error(j->diag, (Loc){0}, arena_printf(j->arena, "for example: %s o=o.npy", option),
               "%s needs NAME=VALUE, found `%s`", option, word);
    return false;
}

static void positional(DiagnoseWords *j, const char *word)
{
    JobSetting s;
    size_t n = strlen(word);
    if ((n < 3 || strcmp(word + n - 3, ".co") != 0) && strchr(word, '=')) {
        if (setting(j, "a size", word, &s)) vec_push(j->arena, &j->o.sizes, s);
    } else if (j->source.path) {
        diag_error(j->diag, (Loc){0}, "sizes are given as NAME=VALUE",
                   "baton diagnose takes one file, found `%s` after %s", word, j->source.path);
    } else {
        j->source.path = word;
    }
}

static void number(DiagnoseWords *j, const char *option, const char *word, i64 low, i64 high,
                   i64 *out)
{
    i64 v;
    if (cli_integer(word, &v) && v >= low && v <= high) *out = v;
    else
        diag_error(j->diag, (Loc){0}, NULL, "%s takes an integer from %lld to %lld, found `%s`",
                   option, (long long)low, (long long)high, word);
}

static bool read_words(DiagnoseWords *j, int argc, char **argv)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "diagnose", j->arena, j->diag};
    const char *value;
    JobSetting s;
    i64 seed = 0;
    for (;;) {
        switch (cli_next(&args, &value)) {
        case CLI_END: j->o.seed = (u64)seed; return diag_errors(j->diag) == 0;
        case CLI_BAD: break;
        case CLI_POSITIONAL: positional(j, value); break;
        case OPT_ENTRY: j->source.entry = value; break;
        case OPT_DEFINE: cli_define(&j->source, value, j->arena, j->diag); break;
        case OPT_ARG:
            if (setting(j, "--arg", value, &s)) vec_push(j->arena, &j->o.args, s);
            break;
        case OPT_WRONG:
            if (setting(j, "--wrong", value, &s)) vec_push(j->arena, &j->wrong, s);
            break;
        case OPT_RIGHT:
            if (setting(j, "--right", value, &s)) vec_push(j->arena, &j->right, s);
            break;
        case OPT_DUMP:
            if (setting(j, "--dump", value, &s)) vec_push(j->arena, &j->dump, s);
            break;
        case OPT_SEED: number(j, "--seed", value, 0, INT64_MAX, &seed); break;
        case OPT_SMS: number(j, "--sms", value, 1, 1024, &j->o.sms); break;
        case OPT_RUNS: number(j, "--runs", value, 1, 10000000, &j->runs); break;
        case OPT_HELP:
        case OPT_H: j->help = true; break;
        CLI_PROGRAM_CASES(&j->source, value, j->arena, j->diag);
        default: BUG("option without a case");
        }
    }
}

// ---- files --------------------------------------------------------------------------------------

// An array of a file with the type that its SPEC names.
static bool load(DiagnoseWords *j, const char *option, const JobSetting *s, DataSpec *spec)
{
    const char *why = data_parse(j->arena, s->text, spec);
    if (!why && spec->kind != DATA_FILE) why = "a .npy file is needed";
    if (!why) why = data_load(j->arena, spec);
    if (why)
        diag_error(j->diag, (Loc){0}, NULL, "%s %s: %s", option, s->name, why);
    else if (spec->raw >= 0)
        spec->array.type = (DType)spec->raw;
    return !why;
}

// The contents of output `a` from a file of the same shape and bits.
static const u8 *load_output(DiagnoseWords *j, const JobArray *a, const char *option,
                             const JobSetting *s)
{
    DataSpec spec;
    if (!load(j, option, s, &spec)) return NULL;
    const NpyArray *f = &spec.array;
    DType type = a->param->type, as = type;
    if (type == DT_BF16) as = DT_U16;
    if (type == DT_E4M3 || type == DT_E5M2) as = DT_U8;
    if (type == DT_TF32) as = DT_F32;
    bool same = f->rank == a->value.rank && (f->type == type || f->type == as);
    for (int d = 0; same && d < f->rank; d++) same = f->dim[d] == a->value.dim[d];
    if (same) return f->data;
    Buf shape = {0};
    for (int d = 0; d < a->value.rank; d++)
        buf_printf(&shape, "%s%lld", d ? ", " : "", (long long)a->value.dim[d]);
    diag_error(j->diag, a->param->loc, NULL, "%s: %s is no array of %s [%s], as %s is%s", option,
               spec.path, dtype_name[type], shape.s ? shape.s : "", s->name,
               as == type ? "" : " (bits as unsigned integers)");
    buf_free(&shape);
    return NULL;
}

static int find_output(DiagnoseWords *j, const Job *r, const char *option, const char *name)
{
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (strcmp(a->param->name, name) == 0 && a->param->kind == PLAN_TENSOR && a->param->out)
            return i;
    }
    diag_error(j->diag, (Loc){0}, NULL, "%s %s: the function %s writes no array of that name",
               option, name, r->plan->name);
    return -1;
}

// ---- the search ---------------------------------------------------------------------------------

typedef struct {
    Job run;
    int *array;            // of each output of the job
    int status;
} Again;

static bool run_again(void *ctx, const EmuFault *f, const u8 **result)
{
    Again *g = ctx;
    g->status = job_calm(&g->run, NULL, f);
    int n = 0;
    for (int i = 0; i < g->run.narrays; i++)
        if (g->run.array[i].result) result[n++] = g->run.array[i].result + JOB_GUARD;
    return g->status == EXIT_RIGHT;
}

// True when every wrong element is an element of the dump at one distance.
static bool compare_dump(const DiagnoseOutput *o, const DiagnoseDump *dump, Buf *out)
{
    const NpyArray *f = &dump->array;
    DiagnoseDirect d = diagnose_direct(o, f->type, f->rank, f->dim, f->data);
    diagnose_direct_print(o, dump->name, &d, out);
    return d.fits && d.equal == d.wrong;
}

// Direct comparisons with the dumps, and with the inputs where these say something.
static void compare(const DiagnoseJob *j, const Job *r, const DiagnoseRequest *q, Buf *out)
{
    for (int k = 0; k < j->noutputs; k++) {
        if (!j->output[k].wrong) continue;
        for (int i = 0; i < q->ndumps; i++) compare_dump(&j->output[k], &q->dump[i], out);
        for (int i = 0; i < r->narrays; i++) {
            const JobArray *a = &r->array[i];
            if (a->param->kind != PLAN_TENSOR || !a->param->in || a->param->out) continue;
            DiagnoseDirect d = diagnose_direct(&j->output[k], a->param->type, a->value.rank,
                                               a->value.dim, a->block + JOB_GUARD);
            if (d.fits && d.equal && d.equal * DIAGNOSE_CHANCE >= d.wrong)
                diagnose_direct_print(&j->output[k], a->param->name, &d, out);
        }
    }
}

// The calm run's own results, against what was given as right.
static void note_other_right(const DiagnoseOutput *o, const u8 *calm, Buf *out)
{
    size_t bytes = dtype_bytes[o->type];
    i64 n = 0;
    for (i64 i = 0; i < o->count; i++)
        n += memcmp(o->right + (size_t)i * bytes, calm + (size_t)i * bytes, bytes) != 0;
    if (n)
        buf_printf(out, "%s: the emulator's calm run differs from the right values in %lld of %lld "
                        "elements\n", o->name, (long long)n, (long long)o->count);
}

// Outputs of the job, and the calm run that the record is made in.
static int record(Again *g, DiagnoseJob *j, const DiagnoseRequest *q, Buf *out)
{
    Job *r = &g->run;
    enum { RECORD_LIMIT = 1 << 30 }; // bytes of copies of slots
    EmuHistory *h = emu_history_new(r->arena, RECORD_LIMIT);
    r->code = (RtCode){.name = r->path, .thread = r->c->thread};
    int status = job_open_device(r);
    if (status == EXIT_RIGHT) status = job_prepare(r);
    if (status == EXIT_RIGHT) status = job_calm(r, h, NULL);
    if (status != EXIT_RIGHT) return status;
    DiagnoseOutput *o = ARENA_ARRAY(r->arena, DiagnoseOutput, r->narrays + 1);
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (!a->result) continue;
        const u8 *right = q->right ? q->right[i] : NULL;
        u8 *calm = arena_alloc(r->arena, a->bytes + 1);
        memcpy(calm, a->result + JOB_GUARD, a->bytes);
        o[j->noutputs] = (DiagnoseOutput){.name = a->param->name, .type = a->param->type,
                                          .rank = a->value.rank, .count = a->count,
                                          .right = right ? right : calm, .wrong = q->wrong[i],
                                          .address = a->device + JOB_GUARD};
        memcpy(o[j->noutputs].dim, a->value.dim, sizeof o->dim);
        if (right && q->wrong[i]) note_other_right(&o[j->noutputs], calm, out);
        j->noutputs++;
    }
    j->output = o;
    j->history = h;
    return EXIT_RIGHT;
}

int diagnose_run(const Job *r, const DiagnoseRequest *q, Buf *out)
{
    JobOptions o = *r->options;
    o.device = "emu";
    Again g = {.run = {.options = &o, .path = r->path, .c = r->c, .plan = r->plan, .contract = r->contract,
                       .arena = r->arena, .diag = r->diag, .narrays = r->narrays,
                       .symbol = r->symbol}};
    g.run.array = ARENA_ARRAY(r->arena, JobArray, r->narrays + 1);
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &g.run.array[i];
        *a = r->array[i];
        a->device = NULL;
        if (a->result) a->result = arena_alloc(r->arena, a->bytes + 2 * (size_t)JOB_GUARD);
    }
    DiagnoseJob j = {.arena = r->arena, .run = run_again, .ctx = &g, .max_runs = q->runs,
                     .files = r->diag};
    int status = record(&g, &j, q, out);
    if (status == EXIT_RIGHT) {
        DiagnoseResult found;
        diagnose(&j, &found);
        diagnose_print(&j, &found, out);
        if (found.wrong) compare(&j, &g.run, q, out);
        status = g.status ? g.status : found.explained < found.wrong ? EXIT_WRONG : EXIT_RIGHT;
    }
    job_close(&g.run);
    return status;
}

// ---- with a kernel, and without -----------------------------------------------------------------

// --wrong and --right of the command line, by array.
static bool load_outputs(DiagnoseWords *j, const Job *r, const u8 **wrong, const u8 **right)
{
    for (int i = 0; i < j->wrong.n; i++) {
        int k = find_output(j, r, "--wrong", j->wrong.at[i].name);
        if (k >= 0) wrong[k] = load_output(j, &r->array[k], "--wrong", &j->wrong.at[i]);
    }
    for (int i = 0; i < j->right.n; i++) {
        int k = find_output(j, r, "--right", j->right.at[i].name);
        if (k < 0) continue;
        right[k] = load_output(j, &r->array[k], "--right", &j->right.at[i]);
        if (!wrong[k])
            diag_error(j->diag, (Loc){0}, NULL, "--right %s without --wrong %s",
                       j->right.at[i].name, j->right.at[i].name);
    }
    return diag_errors(j->diag) == 0;
}

static const DiagnoseDump *load_dumps(DiagnoseWords *j)
{
    DiagnoseDump *dump = ARENA_ARRAY(j->arena, DiagnoseDump, j->dump.n + 1);
    for (int i = 0; i < j->dump.n; i++) {
        DataSpec spec;
        if (!load(j, "--dump", &j->dump.at[i], &spec)) return NULL;
        dump[i] = (DiagnoseDump){j->dump.at[i].name, spec.array};
    }
    return dump;
}

static int without_kernel(DiagnoseWords *j, Buf *out)
{
    if (!j->wrong.n || !j->dump.n) {
        diag_error(j->diag, (Loc){0}, "`baton diagnose --help` lists the options",
                   "baton diagnose needs a .co file, or --wrong and --dump");
        return EXIT_INPUT;
    }
    DiagnoseOutput *o = ARENA_ARRAY(j->arena, DiagnoseOutput, j->wrong.n);
    for (int i = 0; i < j->wrong.n; i++) {
        DataSpec spec, good;
        if (!load(j, "--wrong", &j->wrong.at[i], &spec)) return EXIT_INPUT;
        const NpyArray *f = &spec.array;
        o[i] = (DiagnoseOutput){.name = j->wrong.at[i].name, .type = f->type, .rank = f->rank,
                                .count = f->count, .wrong = f->data};
        memcpy(o[i].dim, f->dim, sizeof o->dim);
        for (int k = 0; k < j->right.n; k++) {
            if (strcmp(j->right.at[k].name, o[i].name) != 0) continue;
            if (!load(j, "--right", &j->right.at[k], &good)) return EXIT_INPUT;
            bool same = good.array.type == f->type && good.array.rank == f->rank;
            for (int d = 0; same && d < f->rank; d++) same = good.array.dim[d] == f->dim[d];
            if (!same) {
                diag_error(j->diag, (Loc){0}, NULL, "--right %s and --wrong %s differ in shape",
                           o[i].name, o[i].name);
                return EXIT_INPUT;
            }
            o[i].right = good.array.data;
        }
    }
    const DiagnoseDump *dump = load_dumps(j);
    bool all = true;
    for (int i = 0; dump && i < j->dump.n; i++)
        for (int k = 0; k < j->wrong.n; k++) all &= compare_dump(&o[k], &dump[i], out);
    return !dump ? EXIT_INPUT : all ? EXIT_RIGHT : EXIT_WRONG;
}

static int with_kernel(DiagnoseWords *j, Job *r, Buf *out)
{
    if (!job_bind_sizes(r) || !job_fill_arrays(r)) return EXIT_INPUT;
    if (r->from_case) stress_fill_case(r->from_case, r);
    const u8 **wrong = ARENA_ARRAY(j->arena, const u8 *, r->narrays + 1);
    const u8 **right = ARENA_ARRAY(j->arena, const u8 *, r->narrays + 1);
    const DiagnoseDump *dump = load_dumps(j);
    if (!dump || !load_outputs(j, r, wrong, right)) return EXIT_INPUT;
    buf_printf(out, "%s\n", j->source.path);
    DiagnoseRequest q = {wrong, right, (int)j->runs, j->dump.n, dump};
    return diagnose_run(r, &q, out);
}

static int diagnose_words(DiagnoseWords *j)
{
    Buf out = {0};
    int status = EXIT_INPUT;
    if (!j->source.path) {
        status = without_kernel(j, &out);
    } else if (!j->wrong.n) {
        diag_error(j->diag, (Loc){0}, "for example: --wrong o=bad.npy",
                   "baton diagnose needs a wrong output");
    } else {
        Compilation c = {.until = FORM_PTX, .arena = j->arena, .diag = j->diag};
        j->source.options.assembled = true; // it runs on the emulator
        Job r = {.options = &j->o, .path = j->source.path, .c = &c, .arena = j->arena, .diag = j->diag};
        StressCase from_case = {0};
        if (stress_read_program(&j->source, &r, &from_case)) status = with_kernel(j, &r, &out);
        job_free_arrays(&r);
        buf_free(&c.ptx);
    }
    if (out.n) fwrite(out.s, 1, out.n, stdout);
    buf_free(&out);
    return status;
}

// No limit on the arena, as for baton run: the arrays and the record live in it.
int cli_diagnose(int argc, char **argv)
{
    Arena *a = arena_new(0);
    DiagnoseWords j = {.runs = DIAGNOSE_RUNS, .arena = a, .diag = diag_new(a),
                       .o = {.device = "emu", .seeds = 1, .schedule = SCHED_ROUND_ROBIN}};
    int status = EXIT_INPUT;
    bool read = read_words(&j, argc, argv);
    if (j.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read) status = diagnose_words(&j);
    cli_flush(j.diag);
    arena_free(a);
    return status;
}
