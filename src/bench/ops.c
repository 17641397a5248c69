// ops.c - what a contest knows of operations: one row each.
#include "ops.h"

#include "../../include/baton.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const BenchKnown attention_kernels[] = {
    {"v1", "attention/v1.co", "v1: one step after the other"},
    {"v2", "attention/v2.co", "v2: a producer, two consumers"},
    {"v4", "attention/v4.co", "v4: softmax under running products"},
    {"v3", "attention/v3.co", "v3: persistent"},
    {"v1_pipelined", "attention/v1_pipelined.co", "v1 with [[pipeline]]"},
};
static const BenchKnown gemm_kernels[] = {
    {"gemm", "gemm/gemm.co", "gemm: plain"},
    {"persistent", "gemm/persistent.co", "persistent"},
    {"persistent_f16", "'gemm/persistent.co' -D ELEM=f16", "persistent, FP16"},
    {"cluster", "'gemm/persistent.co' -D CLUSTER=2", "persistent, clusters of two"},
    {"sequential", "gemm/sequential.co", "sequential"},
    {"pipelined", "gemm/gemm_pipelined.co", "sequential with [[pipeline]]"},
};
static const BenchKnown correct_kernels[] = {
    {"proxy", "gdn/correct.co", "specialised, proxy fence"},
    {"sequential", "gdn/correct.co --no-specialise", "not specialised"},
    {"delay", "gdn/correct.co -D EARLY=0 --handoff=delay", "specialised, delayed release"},
    {"membar", "gdn/correct.co --handoff=membar --unsafe", "specialised, membar (unsound)"},
};

static const BenchOp ops[] = {
    {"attention", "attention", "v4", "v1,v2,v4,v3", "cudnn,fa3,fa2", "4096,8192,16384", "B=4 H=32",
     "S", "%s attention forward, BF16, head dimension 128",
     "2 B H S S D / time under the mask, twice that without: products, no softmax", "ms", "", true,
     attention_kernels, COUNT(attention_kernels)},
    {"gemm", "gemm", "persistent", "gemm,persistent", "cublas", "4096,8192", "", "M=N=K",
     "matrix product C = A B^T, 16-bit operands, FP32 sums", "2 M N K / time", "ms", "", false,
     gemm_kernels, COUNT(gemm_kernels)},
    {"correct", "correction", "proxy", "sequential,proxy,delay", "flashqla,fla", "32768x32",
     "P=2 R=1", "TOKENSxHEADS",
     "state correction of the gated delta rule, all segments falling back", "", "us", "fallback=1",
     false, correct_kernels, COUNT(correct_kernels)},
};

static const char *const peers[] = {"cudnn",    "fa2",    "fa3", "triton",  "triton_ws",
                                    "tilelang", "cublas", "fla", "flashqla"};

const BenchOp *bench_op(const char *name, const char **all)
{
    *all = "attention, gemm, correct";
    for (int i = 0; i < COUNT(ops); i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    return NULL;
}

const BenchOp *bench_op_of(const char *reference)
{
    for (int i = 0; i < COUNT(ops); i++)
        if (strcmp(ops[i].reference, reference) == 0) return &ops[i];
    return NULL;
}

const BenchKnown *bench_known(const BenchOp *op, const char *backend)
{
    for (int i = 0; i < op->nknown; i++)
        if (strcmp(op->known[i].name, backend) == 0) return &op->known[i];
    return NULL;
}

bool bench_is_peer(const char *word)
{
    for (int i = 0; i < COUNT(peers); i++)
        if (strcmp(peers[i], word) == 0) return true;
    return false;
}

const char *bench_backends_of(Arena *a, const BenchOp *op)
{
    Buf b = {0};
    for (int i = 0; i < op->nknown; i++) buf_printf(&b, "%s%s", i ? ", " : "", op->known[i].name);
    buf_puts(&b, "; FILE.co with options; peers: ");
    for (int i = 0; i < COUNT(peers); i++) buf_printf(&b, "%s%s", i ? ", " : "", peers[i]);
    const char *text = arena_strndup(a, b.s, b.n);
    buf_free(&b);
    return text;
}

// ---- sizes --------------------------------------------------------------------------------------
static void add(BenchSizeWords *w, const char *name, i64 value, Arena *a)
{
    vec_push(a, w, ((JobSetting){name, arena_printf(a, "%lld", (long long)value)}));
}

static bool add_words(BenchSizeWords *w, const char *text, Arena *a, Diag *d)
{
    char *copy = arena_strndup(a, text, strlen(text)), *save = NULL;
    for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        JobSetting one;
        if (!job_setting(s, "a size", "S=512", &one, a, d)) return false;
        vec_push(a, w, one);
    }
    return true;
}

// Segments of one sequence: of about three times the square root of heads times chunks by 132
// multiprocessors, a power of two and at least four chunks of 64 tokens. What FlashQLA cuts.
static i64 segments_of(i64 tokens, i64 heads)
{
    i64 chunks = (tokens + 63) / 64, length = 4;
    while ((double)(length * length) * 2 * 132 < 9.0 * (double)heads * (double)chunks) length *= 2;
    return chunks > length ? (chunks + length - 1) / length : 1;
}

bool bench_size_words(const BenchOp *op, const char *text, BenchSizeWords *out, const char **label,
                      Arena *a, Diag *d)
{
    *label = text;
    if (strchr(text, '=')) return add_words(out, text, a, d);
    i64 n[3] = {0};
    int k = 0;
    bool good = true, done = false;
    for (const char *s = text; good && !done && k < 3; k++) {
        char *end;
        n[k] = strtoll(s, &end, 10);
        good = end != s && n[k] >= 0 && (*end == 0 || *end == 'x');
        done = *end == 0;
        s = end + 1;
    }
    bool fits = good && done &&
                (op->form[0] == 'S'   ? k == 1
                 : op->form[0] == 'M' ? k != 2
                                      : k == 2);
    if (!fits) {
        diag_error(d, (Loc){0}, "or all sizes by name, as in --sizes 'B=1 H=8 S=1000'",
                   "`%s` is no size of %s; short ones have the form %s", text, op->name, op->form);
        return false;
    }
    if (op->form[0] == 'S') {
        add(out, "S", n[0], a);
        *label = arena_printf(a, "S=%s", text);
    } else if (op->form[0] == 'M') {
        for (int i = 0; i < 3; i++)
            add(out, (const char *[]){"M", "N", "K"}[i], k == 1 ? n[0] : n[i], a);
    } else {
        add(out, "S", segments_of(n[0], n[1]), a);
        add(out, "H", n[1], a);
        *label = arena_printf(a, "%lld tokens, %lld heads", (long long)n[0], (long long)n[1]);
    }
    return add_words(out, op->fixed, a, d);
}

const char *bench_inputs(Arena *a, const Contract *k, const JobOptions *job)
{
    Buf b = {0};
    for (int i = 0; i < k->in.n; i++) {
        const char *name = k->in.at[i].name, *spec = contract_input(k, name);
        for (int j = 0; j < job->args.n; j++)
            if (strcmp(job->args.at[j].name, name) == 0) spec = job->args.at[j].text;
        buf_printf(&b, "%s%s = %s", i ? "  " : "", name, spec ? spec : "default");
    }
    const char *text = arena_strndup(a, b.n ? b.s : "", b.n);
    buf_free(&b);
    return text;
}

const char *bench_utc(Arena *a, const char *format)
{
    char text[64];
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, sizeof text, format, gmtime_r(&now, &utc));
    return arena_printf(a, "%s", text);
}

static bool is_causal(const Contract *k)
{
    for (int i = 0; i < k->arguments.n; i++)
        if (strcmp(k->arguments.at[i].key, "causal") == 0)
            return strcmp(k->arguments.at[i].value, "0") != 0;
    return false;
}

Bench *bench_begin(Arena *a, const BenchOp *op, const Contract *k, const JobOptions *job,
                   const char *command)
{
    Bench *b = ARENA_NEW(a, Bench);
    *b =
        (Bench){.op = op ? op->name : k->op,
                .title = op ? arena_printf(a, op->title, is_causal(k) ? "causal" : "dense") : k->op,
                .formula = op ? op->formula : "",
                .inputs = bench_inputs(a, k, job),
                .unit_of_small = op ? op->unit : "us",
                .command = command,
                .started = bench_utc(a, "%Y-%m-%dT%H:%M:%SZ"),
                .seed = job->seed,
                .product_rate = 1,
                .causal = is_causal(k),
                .has_causal = op && op->masked,
                .yardstick = -1,
                .arena = a};
    vec_push(a, &b->versions, ((BenchVersion){"baton", BATON_VERSION_TEXT}));
    vec_push(a, &b->versions, ((BenchVersion){"baton's C compiler", __VERSION__}));
    return b;
}
