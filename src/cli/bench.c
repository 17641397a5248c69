// bench.c - `baton bench`: implementations of one operation, baton's kernels and others', checked
// and measured in turns; or two measurements compared; or one printed again.
//
// The order: words, kernels compiled, peers asked, the device opened and its ceilings measured, the
// contest, results stored after every size.
#include "bench.h"

#include "../bench/rival_peer.h"
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_BACKENDS,
    OPT_SIZES,
    OPT_WORKLOAD,
    OPT_DENSE,
    OPT_DEFINE,
    OPT_ARG,
    OPT_SEED,
    OPT_GPU,
    OPT_DEVICE,
    OPT_COOL,
    OPT_WARMUP,
    OPT_REPEAT,
    OPT_ROUNDS,
    OPT_METHOD,
    OPT_L2,
    OPT_REGIMES,
    OPT_LOAD,
    OPT_IDLE,
    OPT_BURST,
    OPT_YARDSTICK,
    OPT_PYTHON,
    OPT_PEERS,
    OPT_OUT,
    OPT_LANG,
    OPT_COMPARE,
    OPT_SHOW,
    OPT_CPU,
    OPT_HELP,
    OPT_H
};
static const CliOption options[] = {
    {"--backends", "LIST",
     "what takes part, separated by commas: kernels by name (v4), FILE.co\n"
     "with options of baton build, or peers (cudnn, fa2, triton, ...)"},
    {"--sizes", "LIST", "sizes, separated by commas; short (8192) or by name ('B=1 H=8 S=512')"},
    {"--workload", "FILE", "sizes from a file, one a line; bench/workloads/prefill is one"},
    {"--dense", NULL, "attention without the causal mask"},
    {"-D", "NAME=VALUE", "define a macro in all kernels"},
    {"--arg", "NAME=SPEC", "contents of an input, as in baton run"},
    {"--seed", "N", "of the inputs; default 42"},
    {"--gpu", "N", "the GPU by its number; default 0"},
    {"--device", "WHICH", "cuda:N (default cuda:0), or emu, which tries the way and no speed"},
    {"--cool", "C",
     "before each turn wait until the GPU is at most so warm, Celsius; 0: do not;\n"
     "default 65"},
    {"--warmup", "N", "launches before the samples of a turn under load; default 50"},
    {"--repeat", "N", "samples of a turn under load; default 200"},
    {"--rounds", "N", "turns of each implementation; default 3"},
    {"--method", "KIND",
     "event (default): marks between launches; graph: around graphs of launches"},
    {"--l2", "STATE",
     "warm (default): arrays stay as they are; cold: the cache is overwritten\n"
     "before each timed launch"},
    {"--regimes", "LIST",
     "burst: the first launches after idle time; sustained: under load that\n"
     "has lasted; default both"},
    {"--load", "SECONDS", "of load before the samples of a sustained turn; default 2"},
    {"--idle", "SECONDS", "of doing nothing before a burst; default 1"},
    {"--burst", "N", "launches of a burst; default 10"},
    {"--yardstick", "NAME", "what ratios are of; default: the first peer"},
    {"--python", "FILE", "the Python that has the peers' packages; default python3"},
    {"--peers", "FILE", "the script that speaks for them; default: bench/peers.py of baton"},
    {"-o", "DIR", "folder of the results; default results/<UTC time>"},
    {"--lang", "WORD", "labels of the plots: en (default) or zh"},
    {"--compare", NULL, "compare two results, folders or files: baton bench --compare A B"},
    {"--show", NULL, "print a result again, and write its tables and plots anew"},
    {"--cpu", NULL, "measure the compiler itself: baton bench --cpu --help"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
};

typedef struct {
    const BenchOp *op;
    VEC(const char *) backends, sizes, defines, files;
    BenchSizeWords args;
    i64 seed, gpu, warmup, repeat, rounds, burst;
    double cool, load_s, idle_s;
    u8 method, cache;
    bool regime[BENCH_REGIMES], dense, emulator, compare, show, help;
    const char *yardstick, *python, *script, *dir;
    BenchLanguage language;
    Arena *arena;
    Diag *diag;
    int argc;
    char **argv;
} Words;

// ---- the command line ---------------------------------------------------------------------------
static void print_help(void)
{
    Buf b = {0};
    buf_puts(
        &b,
        "baton bench attention|gemm|correct [options]\n"
        "baton bench --compare A B\nbaton bench --show DIR\nbaton bench --cpu [options]\n\n"
        "Measures implementations of one operation on a GPU: first whether each is right on the\n"
        "very arrays that are timed, then in turns, in two regimes: the first launches after idle\n"
        "time, and launches under load that has lasted. Writes every sample, the state of the "
        "card,\n"
        "tables and plots into a folder, and warns of what is doubtful (docs/bench.md).\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(
        &b,
        "\nExit status: 0 complete, 1 an implementation is wrong or missing, or something became\n"
        "slower (--compare), 2 bad usage or input, 3 device trouble.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// Items of a list. A comma between quotes or inside brackets is none of its own.
static void split_list(Words *w, const char *text, void (*take)(Words *, const char *))
{
    int depth = 0;
    const char *from = text;
    for (const char *s = text;; s++) {
        if (*s == '(') depth++;
        if (*s == ')') depth--;
        if (*s && (*s != ',' || depth > 0)) continue;
        const char *end = s;
        while (from < end && *from == ' ') from++;
        while (end > from && end[-1] == ' ') end--;
        if (end > from) take(w, arena_strndup(w->arena, from, (size_t)(end - from)));
        from = s + 1;
        if (!*s) return;
    }
}

static void take_backend(Words *w, const char *item) { vec_push(w->arena, &w->backends, item); }
static void take_size(Words *w, const char *item) { vec_push(w->arena, &w->sizes, item); }
static void take_regime(Words *w, const char *item)
{
    for (int i = 0; i < BENCH_REGIMES; i++) {
        if (strcmp(item, bench_regime_name[i]) != 0) continue;
        w->regime[i] = true;
        return;
    }
    diag_error(w->diag, (Loc){0}, NULL, "--regimes takes burst and sustained, found `%s`", item);
}

static void real(Words *w, const char *name, const char *text, double hi, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0) || v > hi)
        diag_error(w->diag, (Loc){0}, NULL, "%s takes a number from 0 to %g, found `%s`", name, hi,
                   text);
    else
        *out = v;
}

// One of two words.
static u8 choose(Words *w, const char *name, const char *text, const char *first,
                 const char *second)
{
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0)
        diag_error(w->diag, (Loc){0}, NULL, "%s takes %s or %s, found `%s`", name, first, second,
                   text);
    return strcmp(text, second) == 0;
}

// Lines of sizes; `#` begins a comment, `op NAME` says what they are of.
static void read_workload(Words *w, const char *path)
{
    Buf b = {0};
    const char *why = file_read(path, &b, 1 << 20), *all;
    if (why) diag_error(w->diag, (Loc){0}, NULL, "cannot read %s: %s", path, why);
    int line = 0;
    for (const char *s = why ? "" : b.s; s && *s; line++) {
        size_t n = strcspn(s, "\n"), code = strcspn(s, "#\n");
        while (code && s[code - 1] == ' ') code--;
        const char *text = arena_strndup(w->arena, s, code);
        const BenchOp *op = strncmp(text, "op ", 3) == 0 ? bench_op(text + 3, &all) : NULL;
        if (strncmp(text, "op ", 3) != 0) {
            if (*text) take_size(w, text);
        } else if (!op || (w->op && w->op != op)) {
            diag_error(w->diag, (Loc){0}, NULL, "%s:%d: the workload is of `%s`%s%s", path,
                       line + 1, text + 3,
                       w->op ? ", and asked for was " : "; there are attention, gemm, correct",
                       w->op ? w->op->name : "");
        } else {
            w->op = op;
        }
        s += n + (s[n] != 0);
    }
    buf_free(&b);
}

static void positional(Words *w, const char *word)
{
    const char *all;
    if (w->compare || w->show) {
        vec_push(w->arena, &w->files, word);
        return;
    }
    const BenchOp *op = bench_op(word, &all);
    if (w->op && op)
        diag_error(w->diag, (Loc){0}, NULL, "one operation at a time: %s, or %s", w->op->name,
                   word);
    else if (!op)
        diag_error(w->diag, (Loc){0}, "kernels are named by --backends",
                   "there is no operation `%s`; there are: %s", word, all);
    else
        w->op = op;
}

static void read_setting(Words *w, const char *value)
{
    JobSetting s;
    if (job_setting(value, "--arg", "--arg q=uniform(-1,1)", &s, w->arena, w->diag))
        vec_push(w->arena, &w->args, s);
}

static void read_device(Words *w, const char *value)
{
    JobOptions o = {0};
    job_choose_device(&o, value, w->diag);
    w->emulator = strcmp(value, "emu") == 0;
    w->gpu = o.gpu;
}

static void read_option(Words *w, int option, const char *value)
{
    Diag *d = w->diag;
    switch (option) {
    case OPT_BACKENDS: split_list(w, value, take_backend); break;
    case OPT_SIZES: split_list(w, value, take_size); break;
    case OPT_WORKLOAD: read_workload(w, value); break;
    case OPT_DENSE: w->dense = true; break;
    case OPT_DEFINE: vec_push(w->arena, &w->defines, value); break;
    case OPT_ARG: read_setting(w, value); break;
    case OPT_SEED: job_integer("--seed", value, 0, INT64_MAX, &w->seed, d); break;
    case OPT_GPU: job_integer("--gpu", value, 0, 1023, &w->gpu, d); break;
    case OPT_DEVICE: read_device(w, value); break;
    case OPT_COOL: real(w, "--cool", value, 200, &w->cool); break;
    case OPT_WARMUP: job_integer("--warmup", value, 0, RT_MAX_RUNS, &w->warmup, d); break;
    case OPT_REPEAT: job_integer("--repeat", value, 1, RT_MAX_RUNS, &w->repeat, d); break;
    case OPT_ROUNDS: job_integer("--rounds", value, 1, 1000, &w->rounds, d); break;
    case OPT_METHOD: w->method = choose(w, "--method", value, "event", "graph"); break;
    case OPT_L2: w->cache = choose(w, "--l2", value, "warm", "cold"); break;
    case OPT_REGIMES: split_list(w, value, take_regime); break;
    case OPT_LOAD: real(w, "--load", value, 3600, &w->load_s); break;
    case OPT_IDLE: real(w, "--idle", value, 3600, &w->idle_s); break;
    case OPT_BURST: job_integer("--burst", value, 1, 10000, &w->burst, d); break;
    case OPT_YARDSTICK: w->yardstick = value; break;
    case OPT_PYTHON: w->python = value; break;
    case OPT_PEERS: w->script = value; break;
    case OPT_OUT: w->dir = value; break;
    case OPT_LANG: w->language = (BenchLanguage)choose(w, "--lang", value, "en", "zh"); break;
    case OPT_COMPARE: w->compare = true; break;
    case OPT_SHOW: w->show = true; break;
    case OPT_CPU:
        diag_error(d, (Loc){0}, "baton bench --cpu [options]", "--cpu stands first");
        break;
    case OPT_HELP:
    case OPT_H: w->help = true; break;
    default: BUG("option without a case");
    }
}

static bool read_words(Words *w, int argc, char **argv)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "bench", w->arena, w->diag};
    const char *value;
    for (int o; (o = cli_next(&args, &value)) != CLI_END;) {
        if (o == CLI_BAD) continue; // reported
        if (o == CLI_POSITIONAL)
            positional(w, value);
        else
            read_option(w, o, value);
    }
    if (w->method == BENCH_GRAPH && w->cache == BENCH_COLD)
        diag_error(
            w->diag, (Loc){0}, "--method=event",
            "--l2=cold and --method=graph exclude each other: launches of a graph follow one "
            "another, and what is between them cannot be kept out of the time");
    if (w->dense && w->op && !w->op->masked)
        diag_error(w->diag, (Loc){0}, NULL, "--dense is for attention");
    return !diag_errors(w->diag);
}

// ---- who takes part -----------------------------------------------------------------------------
typedef struct {
    Words *w;
    BenchKernels kernels;
    BenchKernel *model, *products;
    BenchPeers peers;
    Buf log;
    RtDevice *device;
    RtMeter *meter;
    BenchContest contest;
    Bench *bench;
} Setup;

static const char *in_root(Setup *s, const char *folder, const char *word)
{
    const char *root = bench_root(s->w->arena);
    return root ? arena_printf(s->w->arena, "%s/%s/%s", root, folder, word) : word;
}

// The word of a known kernel, its file made a path: "'ROOT/kernels/gemm/persistent.co' -D
// CLUSTER=2".
static const char *word_of(Setup *s, const BenchKnown *k)
{
    const char *word = k->word + (*k->word == '\''), *end = strstr(word, ".co") + 3;
    const char *rest = *end == '\'' ? end + 1 : end;
    const char *file = arena_strndup(s->w->arena, word, (size_t)(end - word));
    return arena_printf(s->w->arena, "'%s'%s", in_root(s, "kernels", file), rest);
}

static BenchKernel *compile(Setup *s, const char *backend, BenchKernels *into)
{
    Words *w = s->w;
    const BenchKnown *k = bench_known(w->op, backend);
    BenchKernel *made =
        bench_compile(into, k ? word_of(s, k) : backend, k ? k->name : NULL, k ? k->label : NULL,
                      w->defines.at, w->defines.n, !w->emulator, w->arena, w->diag);
    // A record holds no path of this machine where the file is baton's own.
    const char *own = made && k ? strstr(made->impl.file, "kernels/") : NULL;
    if (own) made->impl.file = own;
    return made;
}

// What the kernel computes must be what was asked for: with or without the mask.
static bool fits_mask(Setup *s, const BenchKernel *k)
{
    const Words *w = s->w;
    if (!w->op->masked) return true;
    for (int i = 0; i < k->contract->arguments.n; i++) {
        const ContractArgument *arg = &k->contract->arguments.at[i];
        if (strcmp(arg->key, "causal") != 0 || strcmp(arg->value, w->dense ? "0" : "1") == 0)
            continue;
        diag_error(w->diag, (Loc){0}, w->dense ? "kernels that know it take -D CAUSAL=0" : NULL,
                   "%s computes attention %s the causal mask", k->impl.file,
                   w->dense ? "under" : "without");
        return false;
    }
    return true;
}

static bool start_peers(Setup *s)
{
    Words *w = s->w;
    const char *why = NULL;
    PeerOptions o = {.python = w->python,
                     .gpu = (int)w->gpu,
                     .log = &s->log,
                     .script = w->script ? w->script : in_root(s, "bench", "peers.py")};
    s->peers.op = w->op->name;
    s->peers.peers = peers_open(w->arena, &o, &why);
    if (s->peers.peers) why = bench_peers_folder(w->arena, &s->peers);
    if (why)
        diag_error(w->diag, (Loc){0}, "--python names another; kernels alone need none", "%s", why);
    return !why;
}

static bool add_peer(Setup *s, const char *name)
{
    Words *w = s->w;
    if (!s->peers.peers && !start_peers(s)) return false;
    const PeerBackend *b = peers_backend(s->peers.peers, name);
    if (!b || *b->why) {
        diag_error(w->diag, (Loc){0}, "install it, or leave it out of --backends",
                   "the peer %s cannot take part: %s", name,
                   b ? b->why : "the script does not know it");
        return false;
    }
    vec_push(w->arena, &s->contest.rivals, bench_peer_rival(w->arena, &s->peers, b->name));
    return true;
}

static bool add_kernel(Setup *s, const char *backend)
{
    Words *w = s->w;
    BenchKernel *k = compile(s, backend, &s->kernels);
    if (!k || !fits_mask(s, k)) return false;
    // The same name from another folder, or with other options.
    const char *base = k->impl.name;
    for (int i = 0, n = 2; i < s->contest.rivals.n; i++)
        if (strcmp(s->contest.rivals.at[i]->impl.name, k->impl.name) == 0) {
            k->impl.name = arena_printf(w->arena, "%s#%d", base, n++);
            i = -1;
        }
    if (!s->model) s->model = k;
    vec_push(w->arena, &s->contest.rivals,
             bench_kernel_rival(w->arena, k, s->device, &s->contest.job, w->diag));
    return true;
}

static bool add_backend(Setup *s, const char *backend)
{
    Words *w = s->w;
    const char *names[64];
    if (bench_is_peer(backend)) return add_peer(s, backend);
    if (bench_known(w->op, backend) || strstr(backend, ".co")) return add_kernel(s, backend);
    for (int i = 0; i < w->op->nknown; i++) names[i] = w->op->known[i].name;
    const char *meant = cli_closest(backend, names, w->op->nknown);
    diag_error(w->diag, (Loc){0}, meant ? arena_printf(w->arena, "did you mean %s?", meant) : NULL,
               "there is no backend `%s`; there are: %s", backend,
               bench_backends_of(w->arena, w->op));
    return false;
}

static bool add_backends(Setup *s)
{
    Words *w = s->w;
    if (w->dense) vec_push(w->arena, &w->defines, "CAUSAL=0");
    if (!w->backends.n) split_list(w, w->op->backends, take_backend);
    for (int i = 0; i < w->backends.n; i++) add_backend(s, w->backends.at[i]);
    if (diag_errors(w->diag)) return false;
    // Where only peers take part, a kernel of baton still says what the inputs are.
    if (!s->model) s->model = compile(s, w->op->model, &s->kernels);
    if (!s->model || !fits_mask(s, s->model)) return false;
    s->contest.model = s->model;
    return true;
}

static bool add_sizes(Setup *s)
{
    Words *w = s->w;
    if (!w->sizes.n) split_list(w, w->op->sizes, take_size);
    for (int i = 0; i < w->sizes.n; i++) {
        BenchSizeWords words = {0};
        const char *label;
        if (!bench_size_words(w->op, w->sizes.at[i], &words, &label, w->arena, w->diag))
            return false;
        vec_push(w->arena, &s->contest.sizes, words);
        vec_push(w->arena, &s->contest.labels, label);
    }
    return true;
}

// The first of the operation's yardsticks that takes part, or the one that was named.
static bool choose_yardstick(Setup *s)
{
    Words *w = s->w;
    char *list = arena_strndup(w->arena, w->op->yardsticks, strlen(w->op->yardsticks)),
         *save = NULL;
    if (w->yardstick) list = arena_strndup(w->arena, w->yardstick, strlen(w->yardstick));
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save))
        for (int i = 0; s->bench->yardstick < 0 && i < s->contest.rivals.n; i++)
            if (strcmp(s->contest.rivals.at[i]->impl.name, name) == 0) s->bench->yardstick = i;
    if (!w->yardstick || s->bench->yardstick >= 0) return true;
    diag_error(w->diag, (Loc){0}, NULL, "the yardstick %s does not take part", w->yardstick);
    return false;
}

// ---- the device ---------------------------------------------------------------------------------
static int open_device(Setup *s)
{
    Words *w = s->w;
    RtError e = {0};
    baton_status status;
    if (w->emulator) {
        RtEmulatorOptions o = {.schedule = SCHED_ROUND_ROBIN};
        status = rt_emulator_open(&o, &s->device, &e);
    } else {
        status = rt_cuda_open(NULL, (int)w->gpu, &s->device, NULL, &e);
    }
    if (status != BATON_OK) {
        diag_error(w->diag, (Loc){0},
                   "figures are of a GPU; --device=emu goes the same way without one",
                   "opening the GPU: %s", e.text);
        return EXIT_DEVICE;
    }
    if (!w->emulator) s->meter = rt_meter_open(NULL, *s->device->pci ? s->device->pci : NULL);
    return EXIT_RIGHT;
}

// ---- the record ---------------------------------------------------------------------------------
static const char *command_line(const Words *w)
{
    Buf b = {0};
    buf_puts(&b, "baton bench");
    for (int i = 0; i < w->argc; i++) {
        bool plain = !strpbrk(w->argv[i], " ()*?$\"'");
        buf_printf(&b, plain ? " %s" : " '%s'", w->argv[i]);
    }
    const char *text = arena_strndup(w->arena, b.s, b.n);
    buf_free(&b);
    return text;
}

static void begin_record(Setup *s)
{
    const Words *w = s->w;
    Bench *b = bench_begin(w->arena, w->op, s->model->contract, &s->contest.job, command_line(w));
    b->warmup = (int)w->warmup;
    b->repeat = (int)w->repeat;
    b->rounds = (int)w->rounds;
    b->cool = w->cool;
    b->load_s = w->load_s;
    b->idle_s = w->idle_s;
    b->method = w->method;
    b->cache = w->cache;
    for (int i = 0; s->peers.peers && i < s->peers.peers->versions.n; i++)
        vec_push(w->arena, &b->versions, s->peers.peers->versions.at[i]);
    s->bench = b;
}

// After each size: what was measured is on the disk, whatever happens next.
static void keep(void *ctx, Bench *b)
{
    Setup *s = ctx;
    bench_store(b, s->w->dir, s->w->language, &s->log, s->w->diag);
}

static void set_up(Setup *s)
{
    Words *w = s->w;
    BenchContest *c = &s->contest;
    c->job = (JobOptions){.seed = (u64)w->seed,
                          .device = w->emulator ? "emu" : "cuda",
                          .seeds = 1,
                          .gpu = (int)w->gpu,
                          .schedule = SCHED_ROUND_ROBIN};
    if (w->op->args[0]) {
        JobSetting one;
        job_setting(w->op->args, "--arg", "", &one, w->arena, w->diag);
        bool given = false;
        for (int i = 0; i < w->args.n; i++) given |= strcmp(w->args.at[i].name, one.name) == 0;
        if (!given) vec_push(w->arena, &c->job.args, one);
    }
    for (int i = 0; i < w->args.n; i++) vec_push(w->arena, &c->job.args, w->args.at[i]);
    bool any = w->regime[BENCH_BURST] || w->regime[BENCH_SUSTAINED];
    for (int i = 0; i < BENCH_REGIMES; i++) c->regime[i] = w->regime[i] || !any;
    c->burst = (int)w->burst;
    c->terminal = isatty(STDERR_FILENO) != 0;
    c->log = &s->log;
    c->keep = keep;
    c->keep_ctx = s;
}

// Resident products on each multiprocessor.
static bool add_ceiling(Setup *s)
{
    Words *w = s->w;
    if (w->emulator) return true;
    const char *word = arena_printf(w->arena, "'%s'", in_root(s, "bench", "ceiling.co"));
    s->contest.products =
        bench_compile(&s->kernels, word, NULL, NULL, NULL, 0, true, w->arena, w->diag);
    s->contest.products_flops = BENCH_PRODUCTS_FLOPS;
    return s->contest.products != NULL;
}

static int measure(Setup *s)
{
    Words *w = s->w;
    int status = open_device(s);
    if (status != EXIT_RIGHT) return status;
    set_up(s);
    if (!add_backends(s) || !add_sizes(s) || !add_ceiling(s)) return EXIT_INPUT;
    s->contest.meter = s->meter;
    begin_record(s);
    if (!choose_yardstick(s)) return EXIT_INPUT;
    if (!w->dir)
        w->dir = arena_printf(w->arena, "results/%s", bench_utc(w->arena, "%Y-%m-%dT%H%M%SZ"));
    if (!bench_machine(&s->contest, s->device, s->bench, w->diag)) return EXIT_DEVICE;
    status = bench_contest(&s->contest, s->device, s->bench, w->diag);
    Buf text = {0};
    bench_text(s->bench, &text);
    fputs(text.s, stdout);
    printf("results: %s\n", w->dir);
    buf_free(&text);
    return status;
}

static void close_setup(Setup *s)
{
    if (s->peers.peers) peers_close(s->peers.peers);
    bench_peers_clear(&s->peers);
    rt_meter_close(s->meter);
    if (s->device) s->device->ops->close(s->device);
    bench_free_kernels(&s->kernels);
    buf_free(&s->log);
}

// ---- results that are there ---------------------------------------------------------------------
static int compare(Words *w)
{
    if (w->files.n != 2) {
        diag_error(w->diag, (Loc){0}, "baton bench --compare results/A results/B",
                   "--compare takes two results, found %d", w->files.n);
        return EXIT_INPUT;
    }
    Bench *a = bench_load_folder_or_file(w->arena, w->files.at[0], w->diag);
    Bench *b = bench_load_folder_or_file(w->arena, w->files.at[1], w->diag);
    if (!a || !b) return EXIT_INPUT;
    Buf out = {0};
    int slower = bench_compare(a, b, &out);
    fputs(out.s, stdout);
    buf_free(&out);
    return slower ? EXIT_WRONG : EXIT_RIGHT;
}

static int show(Words *w)
{
    if (w->files.n != 1) {
        diag_error(w->diag, (Loc){0}, "baton bench --show results/A",
                   "--show takes one result, found %d", w->files.n);
        return EXIT_INPUT;
    }
    Bench *b = bench_load_folder_or_file(w->arena, w->files.at[0], w->diag);
    if (!b) return EXIT_INPUT;
    bench_warn(b);
    Buf out = {0};
    bench_text(b, &out);
    fputs(out.s, stdout);
    buf_free(&out);
    return !w->dir || bench_store(b, w->dir, w->language, NULL, w->diag) ? EXIT_RIGHT : EXIT_INPUT;
}

static int bench(Words *w)
{
    if (w->compare) return compare(w);
    if (w->show) return show(w);
    if (!w->op) {
        diag_error(w->diag, (Loc){0}, "for example: baton bench attention --backends=v4,cudnn",
                   "baton bench needs an operation: attention, gemm or correct");
        return EXIT_INPUT;
    }
    Setup s = {.w = w};
    int status = measure(&s);
    close_setup(&s);
    return status;
}

int cli_bench(int argc, char **argv)
{
    if (argc && strcmp(argv[0], "--cpu") == 0) return cli_bench_cpu(argc - 1, argv + 1);
    Arena *a = arena_new(0); // samples and peers' texts live in it
    Words w = {.seed = 42,
               .warmup = 50,
               .repeat = 200,
               .rounds = 3,
               .burst = 10,
               .cool = 65,
               .load_s = 2,
               .idle_s = 1,
               .arena = a,
               .diag = diag_new(a),
               .argc = argc,
               .argv = argv};
    int status = EXIT_INPUT;
    bool read = read_words(&w, argc, argv);
    if (w.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read) status = bench(&w);
    cli_flush(w.diag);
    arena_free(a);
    return status;
}
