// trace.c - `baton trace`: a timeline of one CTA of a kernel, as Chrome trace JSON and as SVG.
//
// In: a kernel with sizes and inputs as `baton run` takes them. Out: two files and a summary. The
// records come from the emulator or from a GPU (trace.h); what is made of them is src/trace.
#include "trace.h"
#include "../trace/write.h"
#include "command.h"
#include "machine.h"
#include "stress.h"

#include <stdio.h>
#include <string.h>

enum {
    OPT_JSON, OPT_SVG, OPT_CTA, OPT_KERNEL, OPT_ARG, OPT_SEED, OPT_DEVICE, OPT_SCHEDULE, OPT_SMS,
    OPT_FROM, OPT_TO, OPT_ROUNDS, OPT_EMIT
};

static const CliOption options[] = {
    {"-o", "FILE.json", "Chrome trace JSON, for Perfetto or chrome://tracing"},
    {"--svg", "FILE.svg", "a picture for documents. Without -o and --svg both are written, beside\n"
                          "each other, named after the kernel's file"},
    {"--cta", "X,Y,Z", "the CTA (block) to look at; default 0,0,0"},
    {"--kernel", "NAME", "its first launch, when several kernels are launched; default the first"},
    {"--arg", "NAME=SPEC", "contents of an input, as for baton run"},
    {"--seed", "N", "of generated inputs and of the schedule; default 0"},
    {"--device", "WHICH", "auto (default: a GPU if there is one, else the emulator), emu, cuda:N"},
    {"--schedule", "KIND", "emulator: round-robin (default), random, adversarial"},
    {"--sms", "N", "emulator: multiprocessors of the card; default 132"},
    {"--from", "TIME", "SVG: where the picture begins, in steps or cycles"},
    {"--to", "TIME", "SVG: where it ends; later than the last event for pictures of one scale"},
    {"--rounds", "N", "SVG: ends after N rounds of the busiest role's loop"},
    {"--emit", "WHAT", "to standard output instead of the summary: records, json or svg"},
};

typedef struct {
    RunOptions o;
    TraceWanted want;
    const char *kernel, *json, *svg, *emit;
    i64 from, to, rounds;  // -1: not given
} TraceWords;

static void read_cta(TraceWords *t, const char *word, Diag *d)
{
    int used = 0;
    long long x, y, z;
    if (sscanf(word, "%lld,%lld,%lld%n", &x, &y, &z, &used) == 3 && !word[used] && x >= 0 &&
        y >= 0 && z >= 0) {
        t->want.cta[0] = x;
        t->want.cta[1] = y;
        t->want.cta[2] = z;
        return;
    }
    diag_error(d, (Loc){0}, "for example: --cta=0,1,0", "--cta takes three numbers, found `%s`",
               word);
}

static void read_time(const char *option, const char *word, i64 least, i64 *out, Diag *d)
{
    i64 v;
    if (cli_integer(word, &v) && v >= least && v < (i64)1 << 50) *out = v;
    else
        diag_error(d, (Loc){0}, NULL, "%s takes a number from %lld on, found `%s`", option,
                   (long long)least, word);
}

static void read_emit(TraceWords *t, const char *word, Diag *d)
{
    static const char *const names[] = {"records", "json", "svg"};
    for (int i = 0; i < COUNT(names); i++)
        if (strcmp(word, names[i]) == 0) t->emit = names[i];
    if (!t->emit)
        diag_error(d, (Loc){0}, NULL, "--emit takes records, json or svg, found `%s`", word);
}

static bool read_word(void *job, int option, const char *value, Arena *a, Diag *d)
{
    TraceWords *t = job;
    JobSetting s;
    i64 seed = 0;
    switch (option) {
    case CLI_POSITIONAL: {
        size_t n = strlen(value);
        if (!strchr(value, '=') || (n > 3 && strcmp(value + n - 3, ".co") == 0)) return false;
        if (job_setting(value, "a size", "S=512", &s, a, d)) vec_push(a, &t->o.job.sizes, s);
        return true;
    }
    case OPT_JSON: t->json = value; return true;
    case OPT_SVG: t->svg = value; return true;
    case OPT_CTA: read_cta(t, value, d); return true;
    case OPT_KERNEL: t->kernel = value; return true;
    case OPT_ARG:
        if (job_setting(value, "--arg", "--arg q=uniform(-1,1)", &s, a, d))
            vec_push(a, &t->o.job.args, s);
        return true;
    case OPT_SEED:
        job_integer("--seed", value, 0, INT64_MAX, &seed, d);
        t->o.job.seed = (u64)seed;
        return true;
    case OPT_DEVICE: job_choose_device(&t->o.job, value, d); return true;
    case OPT_SCHEDULE:
        run_choose_schedule(&t->o.job, value, a, d);
        t->o.job.emulator_asked = true;
        return true;
    case OPT_SMS:
        job_integer("--sms", value, 1, 1024, &t->o.job.sms, d);
        t->o.job.emulator_asked = true;
        return true;
    case OPT_FROM: read_time("--from", value, 0, &t->from, d); return true;
    case OPT_TO: read_time("--to", value, 1, &t->to, d); return true;
    case OPT_ROUNDS: read_time("--rounds", value, 1, &t->rounds, d); return true;
    case OPT_EMIT: read_emit(t, value, d); return true;
    default: return false;
    }
}

// ---- which launch -------------------------------------------------------------------------------

static bool find_launch(Job *r, TraceWords *t)
{
    Buf names = {0};
    int number = 0, found = -1;
    for (int i = 0; i < r->launch->nsteps; i++) {
        const struct RtStep *s = &r->launch->steps[i];
        if (s->kind != STEP_KERNEL) continue;
        if (found < 0 && (!t->kernel || strcmp(s->kernel.name, t->kernel) == 0)) {
            found = t->want.step = i;
            t->want.number = number;
        }
        buf_printf(&names, "%s%s", number++ ? ", " : "", s->kernel.name);
    }
    if (found < 0 && !number)
        diag_error(r->diag, (Loc){0}, NULL, "nothing is launched for these sizes");
    else if (found < 0)
        diag_error(r->diag, (Loc){0}, NULL, "no kernel `%s` is launched here, but %s", t->kernel,
                   names.s);
    buf_free(&names);
    return found >= 0;
}

static bool find_cta(Job *r, const TraceWords *t)
{
    const u32 *grid = r->launch->steps[t->want.step].kernel.grid;
    bool in = true;
    for (int i = 0; i < 3; i++) in &= t->want.cta[i] < (i64)grid[i];
    if (!in)
        diag_error(r->diag, (Loc){0}, NULL,
                   "there is no CTA %lld,%lld,%lld: the grid is %u x %u x %u",
                   (long long)t->want.cta[0], (long long)t->want.cta[1], (long long)t->want.cta[2],
                   grid[0], grid[1], grid[2]);
    return in;
}

// ---- what is written ----------------------------------------------------------------------------

static const char *sizes_text(const Job *r)
{
    Buf b = {0};
    for (int i = 0; i < r->plan->symbols.n; i++)
        buf_printf(&b, "%s%s=%lld", b.n ? " " : "", r->plan->symbols.at[i].name,
                   (long long)r->symbol[i]);
    const char *text = b.n ? arena_strndup(r->arena, b.s, b.n) : "";
    buf_free(&b);
    return text;
}

// "kernels/attention/v4.co" and ".json" is "v4.trace.json".
static const char *beside(const Job *r, const char *end)
{
    const char *name = strrchr(r->path, '/');
    name = name ? name + 1 : r->path;
    const char *dot = strrchr(name, '.');
    int n = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
    return arena_printf(r->arena, "%.*s.trace%s", n, name, end);
}

static bool write_file(Job *r, const char *path, const Buf *text, Buf *said)
{
    const char *why = file_write(path, text->s, text->n);
    if (why) diag_error(r->diag, (Loc){0}, NULL, "%s: %s", path, why);
    else buf_printf(said, "written          %s, %s\n", path, cli_bytes(r->arena, (double)text->n));
    return !why;
}

// Files, then the summary; or what --emit asks for.
static int tell(Job *r, const TraceWords *t, const TraceLog *log)
{
    const Trace *trace = trace_build(r->arena, log);
    TraceTitle title = {r->path, sizes_text(r), r->diag};
    TraceWindow window = trace_window(trace, t->from, t->to, t->rounds);
    const char *emit = t->emit ? t->emit : "";
    Buf json = {0}, svg = {0}, out = {0}, said = {0};
    bool fine = true, none = !t->json && !t->svg && !t->emit;
    const char *json_path = none ? beside(r, ".json") : t->json;
    const char *svg_path = none ? beside(r, ".svg") : t->svg;
    trace_json(trace, &title, &json);
    trace_svg(r->arena, trace, &title, window, &svg);
    if (json_path) fine &= write_file(r, json_path, &json, &said);
    if (svg_path) fine &= write_file(r, svg_path, &svg, &said);
    if (strcmp(emit, "records") == 0) trace_records(r->arena, log, &out);
    else if (strcmp(emit, "json") == 0) buf_write(&out, json.s, json.n);
    else if (strcmp(emit, "svg") == 0) buf_write(&out, svg.s, svg.n);
    else trace_summary(r->arena, trace, &title, &out);
    if (!*emit && said.n) buf_write(&out, said.s, said.n);
    fwrite(out.s, 1, out.n, stdout);
    buf_free(&json);
    buf_free(&svg);
    buf_free(&out);
    buf_free(&said);
    return fine ? EXIT_RIGHT : EXIT_INPUT;
}

static int trace_job(Job *r, TraceWords *t, Buf *cubin)
{
    if (!job_bind_sizes(r) || !job_fill_arrays(r)) return EXIT_INPUT;
    if (r->from_case) stress_fill_case(r->from_case, r);
    int status = job_open_device(r);
    if (status == EXIT_RIGHT && !cli_code(r->c, !job_on_emulator(r), cubin, &r->code)) return EXIT_INPUT;
    if (status == EXIT_RIGHT) status = job_prepare(r);
    if (status != EXIT_RIGHT) return status;
    if (!find_launch(r, t) || !find_cta(r, t)) return EXIT_INPUT;
    TraceLog log = {.arena = r->arena};
    Buf hazards = {0};
    t->want.hazards = &hazards;
    status = (job_on_emulator(r) ? trace_on_emulator : trace_on_gpu)(r, &t->want, &log);
    if (hazards.n) fwrite(hazards.s, 1, hazards.n, stderr);
    if (log.records.n) {
        int written = tell(r, t, &log);
        if (written != EXIT_RIGHT) status = written;
    }
    buf_free(&hazards);
    return status;
}

static int trace_words(void *job, Arena *a, Diag *d)
{
    TraceWords *t = job;
    if (t->from >= 0 && t->to >= 0 && t->from >= t->to) {
        diag_error(d, (Loc){0}, NULL, "--from=%lld is not before --to=%lld", (long long)t->from,
                   (long long)t->to);
        return EXIT_INPUT;
    }
    Compilation c = {.until = FORM_PTX, .arena = a, .diag = d};
    Job r = {.options = &t->o.job, .path = t->o.source.path, .c = &c, .arena = a, .diag = d};
    Buf cubin = {0};
    StressCase from_case = {0};
    int status = EXIT_INPUT;
    if (stress_read_program(&t->o.source, &r, &from_case)) status = trace_job(&r, t, &cubin);
    job_close(&r);
    job_free_arrays(&r);
    buf_free(&c.ptx);
    buf_free(&cubin);
    return status;
}

int cli_trace(int argc, char **argv)
{
    TraceWords t = {.o = {.job = {.device = "auto", .seeds = 1, .schedule = SCHED_ROUND_ROBIN}},
                    .from = -1, .to = -1, .rounds = -1};
    CliCommand c = {
        .name = "trace",
        .about = "baton trace FILE.co [NAME=VALUE ...] [options] - a timeline of one CTA: a lane "
                 "for each role, each\nslot of shared memory with its generations, the copy unit "
                 "and the tensor cores; stalls are named by\nwhat they wait for.\n",
        .more = "On the emulator times are steps: rounds in which every warp that can run executes "
                "one operation. They\nshow what overlaps and who waits for whom, and are no "
                "cycles. On a GPU a copy of the kernel with clock\nreads at its event operations "
                "runs; the summary says how much slower it is. See docs/trace.md.\n\n"
                "Exit status: 0 written, 1 the run had a hazard, 2 bad usage or input, 3 device "
                "trouble.\n",
        .needs = "a .co file",
        .example = "baton trace kernels/attention/v4.co S=512",
        .options = options,
        .noptions = COUNT(options),
        .source = &t.o.source,
        .job = &t,
        .word = read_word,
        .run = trace_words,
    };
    return cli_command(&c, argc, argv);
}
