// main.c - checks the kernels of this package on a GPU against a reference in double precision,
// and measures those that are right, in turns. Purpose: the figures of `baton bench`, by the same
// code, on a machine without baton. In: kernels.c and the files that it names. Out: a table on
// standard output, and results/<UTC time>/.
//
// It is started in the folder of the package; run.sh sees to that.
#include "kernels.h"

#include "../src/base/sha256.h"
#include "../src/bench/ops.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// As `baton bench` has them.
#define LOAD_S 2.0 // seconds of the same work in front of the samples of a turn under load
#define IDLE_S 1.0 // seconds of nothing in front of a burst
enum { BURST = 10 }; // launches of a burst
static const size_t MAX_CODE = (size_t)256 << 20; // bytes of a file of generated code

// ---- the options --------------------------------------------------------------------------------
enum { OPT_BACKENDS, OPT_SIZES, OPT_ROUNDS, OPT_WARMUP, OPT_REPEAT, OPT_COOL, OPT_METHOD, OPT_GPU,
       OPT_SEED, OPT_CUBIN, OPT_CUDA, OPT_OPTIONS };

static const CliOption options[] = {
    {"--backends", "LIST", "which kernels, separated by commas; default: all"},
    {"--sizes", "LIST", "the sizes, separated by commas: 4096,8192 or 'B=1 S=512,B=2 S=1024'"},
    {"--rounds", "N", "rounds in which every kernel has a turn; default 3"},
    {"--warmup", "N", "untimed launches of a turn, at least; default 50"},
    {"--repeat", "N", "timed launches of a turn; default 200"},
    {"--cool", "C", "wait before each turn until the GPU has at most so many degrees Celsius;\n"
                    "default 65, 0: do not wait"},
    {"--method", "M", "event (default): marks around launches; graph: around replays of a graph"},
    {"--gpu", "N", "number of the GPU; default 0"},
    {"--seed", "N", "of the inputs; default 42"},
    {"--cubin", NULL, "run generated/NAME.cubin, made by ptxas, instead of the PTX"},
    {"--cuda", NULL, "run build/NAME.cubin, made by nvcc from generated/NAME.cu"},
    {"--options", NULL, "print this list"},
};

typedef struct {
    const char *backends, *sizes; // NULL: all, the usual ones
    i64 rounds, warmup, repeat, cool, gpu, seed;
    u8 method;                // BenchMethod
    bool cubin, cuda, list;
} Options;

// Reads all words even after an error, so that one run tells every mistake.
static void read_words(Options *o, int argc, char **argv, Arena *a, Diag *d)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "run.sh", a, d};
    const char *value;
    for (int k; (k = cli_next(&args, &value)) != CLI_END;) {
        switch (k) {
        case CLI_BAD: break; // reported
        case CLI_POSITIONAL:
            diag_error(d, (Loc){0}, "options begin with --", "run.sh takes no word `%s`", value);
            break;
        case OPT_BACKENDS: o->backends = value; break;
        case OPT_SIZES: o->sizes = value; break;
        case OPT_ROUNDS: job_integer("--rounds", value, 1, 1000, &o->rounds, d); break;
        case OPT_WARMUP: job_integer("--warmup", value, 0, RT_MAX_RUNS, &o->warmup, d); break;
        case OPT_REPEAT: job_integer("--repeat", value, 1, RT_MAX_RUNS, &o->repeat, d); break;
        case OPT_COOL: job_integer("--cool", value, 0, 200, &o->cool, d); break;
        case OPT_METHOD:
            o->method = strcmp(value, "graph") == 0 ? BENCH_GRAPH : BENCH_EVENT;
            if (o->method == BENCH_EVENT && strcmp(value, "event") != 0)
                diag_error(d, (Loc){0}, NULL, "--method takes event or graph, found `%s`", value);
            break;
        case OPT_GPU: job_integer("--gpu", value, 0, 1023, &o->gpu, d); break;
        case OPT_SEED: job_integer("--seed", value, 0, INT64_MAX, &o->seed, d); break;
        case OPT_CUBIN: o->cubin = true; break;
        case OPT_CUDA: o->cuda = true; break;
        case OPT_OPTIONS: o->list = true; break;
        default: BUG("option without a case");
        }
    }
    if (o->cubin && o->cuda)
        diag_error(d, (Loc){0}, NULL, "--cubin and --cuda: which code is to run?");
}

// ---- kernels ------------------------------------------------------------------------------------
// A file of the package. Its sum need not be that of the table, since one may try things; but
// then it is said, and the results have the sum of what ran.
static bool read_file(const char *path, const char *sha256, Buf *out, Arena *a, Diag *d)
{
    const char *why = file_read(path, out, MAX_CODE);
    if (why) {
        diag_error(d, (Loc){0}, sha256 ? NULL : "without --skip-build ./run.sh --cuda builds it",
                   "cannot read %s: %s", path, why);
        return false;
    }
    if (sha256 && strcmp(sha256_hex(a, out->s ? out->s : "", out->n), sha256) != 0)
        diag_warning(d, (Loc){0}, "./run.sh --regenerate compiles the sources again",
                     "%s is not the file that this package was made with", path);
    return true;
}

// The launch plan at the head of the PTX, which lives as long as the arena.
static const Plan *read_plan(const char *path, const Buf *ptx, Arena *a, Diag *d)
{
    u16 file = diag_add_file(d, path, ptx->s, ptx->n);
    ExprPool *exprs = expr_pool_new(a, intern_new(a));
    const Plan *plan = plan_read(a, exprs, d, file, "//@ ", ptx->s, ptx->n);
    return plan && plan_check(plan, NULL, d) ? plan : NULL;
}

// Machine code instead of the PTX: where it was asked for, and where no other may run, because only
// this one was looked at. NULL: the PTX runs.
static const char *image_of(const Kernel *k, const Options *o, Arena *a)
{
    if (o->cuda) return arena_printf(a, "build/%s.cubin", k->name);
    return o->cubin || k->audited ? k->cubin : NULL;
}

// Code and plan of one kernel, into the arena.
static bool load_kernel(const Kernel *k, const Options *o, BenchKernel *out, Arena *a, Diag *d)
{
    Buf text = {0}, code = {0};
    const char *image = image_of(k, o, a);
    if (o->cubin && !image)
        diag_error(d, (Loc){0}, NULL, "%s has no machine code: there was no ptxas", k->name);
    bool ok = !diag_errors(d) && read_file(k->ptx, k->ptx_sha256, &text, a, d);
    const char *ptx = arena_strndup(a, text.s ? text.s : "", text.n);
    Buf whole = {.s = (char *)ptx, .n = text.n};
    const Plan *plan = ok ? read_plan(k->ptx, &whole, a, d) : NULL;
    ok = plan && (!image || read_file(image, o->cuda ? NULL : k->cubin_sha256, &code, a, d));
    const char *bytes = image ? arena_strndup(a, code.s ? code.s : "", code.n) : NULL;
    *out = (BenchKernel){
        .impl = {.name = k->name, .label = k->name, .file = k->source, .options = k->options,
                 .source_sha256 = k->source_sha256,
                 .code_sha256 = sha256_hex(a, image ? bytes : ptx, image ? code.n : text.n)},
        .plan = plan,
        .contract = &k->contract,
        .code = {.name = image ? image : k->ptx, .ptx = image ? NULL : ptx,
                 .ptx_bytes = image ? 0 : text.n, .cubin = bytes, .cubin_bytes = code.n},
        .compile_ms = 0, // before the package was made
    };
    buf_free(&text);
    buf_free(&code);
    return ok;
}

// Is the kernel in a list such as "v1,v4"?
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
        if (strcspn(s, ",") == n && strncmp(s, name, n) == 0) return true;
    return false;
}

// Those that are listed, or all. A name in the list that no kernel has is an error.
static void load_kernels(const Options *o, BenchKernel *out, int *n, Arena *a, Diag *d)
{
    const char **names = ARENA_ARRAY(a, const char *, kernel_count);
    for (int i = 0; i < kernel_count; i++) names[i] = kernels[i].name;
    for (const char *s = o->backends ? o->backends : ""; *s; s += *s == ',') {
        const char *name = arena_strndup(a, s, strcspn(s, ","));
        bool found = false;
        for (int i = 0; i < kernel_count && !found; i++) found = strcmp(names[i], name) == 0;
        const char *meant = found ? NULL : cli_closest(name, names, kernel_count);
        if (!found)
            diag_error(d, (Loc){0}, meant ? arena_printf(a, "did you mean %s?", meant) : NULL,
                       "this package has no kernel `%s`", name);
        s += strlen(name);
    }
    for (int i = 0; i < kernel_count; i++)
        if (!o->backends || is_listed(o->backends, kernels[i].name))
            if (load_kernel(&kernels[i], o, &out[*n], a, d)) ++*n;
    if (!*n && !diag_errors(d)) diag_error(d, (Loc){0}, NULL, "--backends names no kernel");
}

// ---- sizes --------------------------------------------------------------------------------------
// The words of one size. An operation that `baton bench` does not know has no short ones; without
// any words it gets the sizes of its contract.
static bool size_words(const BenchOp *op, const char *text, BenchSizeWords *out, const char **label,
                       Arena *a, Diag *d)
{
    if (op) return bench_size_words(op, text, out, label, a, d);
    *label = *text ? text : "usual";
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " ");
        JobSetting one;
        if (n && !job_setting(arena_strndup(a, s, n), "a size", "N=1000", &one, a, d)) return false;
        if (n) vec_push(a, out, one);
        s += n + (s[n] == ' ');
    }
    return true;
}

static void read_sizes(const BenchOp *op, const char *list, BenchContest *c, Arena *a, Diag *d)
{
    if (!list) list = op ? op->sizes : "";
    for (const char *s = list, *end = NULL; !end || *end; s = end + 1) {
        BenchSizeWords words = {0};
        const char *label;
        end = s + strcspn(s, ",");
        if (!size_words(op, arena_strndup(a, s, (size_t)(end - s)), &words, &label, a, d)) return;
        vec_push(a, &c->sizes, words);
        vec_push(a, &c->labels, label);
    }
}

// ---- the contest --------------------------------------------------------------------------------
typedef struct {
    const char *folder;       // of the results
    Buf *log;
    Diag *diag;
} Keep;

// After each size, so that nothing is lost when the next one fails.
static void keep(void *ctx, Bench *b)
{
    const Keep *k = ctx;
    bench_store(b, k->folder, BENCH_ENGLISH, k->log, k->diag);
}

static const char *command_line(int argc, char **argv, Arena *a)
{
    Buf b = {0};
    buf_puts(&b, "./run.sh");
    for (int i = 0; i < argc; i++) buf_printf(&b, strchr(argv[i], ' ') ? " '%s'" : " %s", argv[i]);
    const char *text = arena_strndup(a, b.s, b.n);
    buf_free(&b);
    return text;
}

static Bench *begin_record(const Options *o, const BenchOp *op, const JobOptions *job,
                           const char *command, Arena *a)
{
    Bench *b = bench_begin(a, op, &kernels[0].contract, job, command);
    b->warmup = (int)o->warmup;
    b->repeat = (int)o->repeat;
    b->rounds = (int)o->rounds;
    b->cool = (double)o->cool;
    b->load_s = LOAD_S;
    b->idle_s = IDLE_S;
    b->method = o->method;
    return b;
}

// With the device open: machine, turns, table. Exit status.
static int compete(BenchContest *c, RtDevice *device, Bench *b, Diag *d)
{
    Arena *a = b->arena;
    Buf log = {0}, text = {0};
    Keep k = {arena_printf(a, "results/%s", bench_utc(a, "%Y-%m-%dT%H%M%SZ")), &log, d};
    c->log = &log;
    c->keep = keep;
    c->keep_ctx = &k;
    c->meter = rt_meter_open(NULL, *device->pci ? device->pci : NULL);
    int status = bench_machine(c, device, b, d) ? bench_contest(c, device, b, d) : EXIT_DEVICE;
    bench_text(b, &text);
    fputs(text.s ? text.s : "", stdout);
    printf("results: %s\n", k.folder);
    rt_meter_close(c->meter);
    buf_free(&text);
    buf_free(&log);
    return status;
}

static int measure(const Options *o, const char *command, Arena *a, Diag *d)
{
    BenchContest c = {.burst = BURST, .regime = {true, true}};
    c.terminal = isatty(STDERR_FILENO) != 0;
    BenchKernel *list = ARENA_ARRAY(a, BenchKernel, kernel_count);
    const BenchOp *op = bench_op_of(kernels[0].contract.reference);
    BenchKernel products;
    int n = 0;
    load_kernels(o, list, &n, a, d);
    load_kernel(&ceiling, &(Options){0}, &products, a, d);
    read_sizes(op, o->sizes, &c, a, d);
    if (diag_errors(d)) return EXIT_INPUT;
    RtDevice *device;
    RtError e = {0};
    if (rt_cuda_open(NULL, (int)o->gpu, &device, NULL, &e) != BATON_OK) {
        diag_error(d, (Loc){0}, "./run.sh --build-only builds on a machine without a GPU",
                   "opening the GPU: %s", e.text);
        return EXIT_DEVICE;
    }
    c.model = &list[0];
    c.products = &products;
    c.products_flops = BENCH_PRODUCTS_FLOPS;
    c.job = (JobOptions){.seed = (u64)o->seed, .device = "cuda", .gpu = (int)o->gpu, .seeds = 1};
    JobSetting one;
    if (op && *op->args && job_setting(op->args, "an input", "", &one, a, d))
        vec_push(a, &c.job.args, one);
    for (int i = 0; i < n; i++)
        vec_push(a, &c.rivals, bench_kernel_rival(a, &list[i], device, &c.job, d));
    int status = compete(&c, device, begin_record(o, op, &c.job, command, a), d);
    device->ops->close(device);
    return status;
}

int main(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Options o = {.rounds = 3, .warmup = 50, .repeat = 200, .cool = 65, .seed = 42};
    int status = EXIT_INPUT;
    read_words(&o, argc - 1, argv + 1, a, d);
    if (o.list) {
        Buf b = {0};
        cli_print_options(options, COUNT(options) - 1, &b);
        buf_printf(&b, "\nKernels:");
        for (int i = 0; i < kernel_count; i++) buf_printf(&b, " %s", kernels[i].name);
        const BenchOp *op = bench_op_of(kernels[0].contract.reference);
        buf_printf(&b, ". Usual sizes: %s\n", op ? op->sizes : "those of the contract");
        fputs(b.s, stdout);
        buf_free(&b);
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (!diag_errors(d)) status = measure(&o, command_line(argc - 1, argv + 1, a), a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}
