// kernels.c - the shipped kernels, with sizes that are small and still turn every ring at least
// once, and what a mutant of each is compared with.
#include "mutants.h"

#include <stdlib.h>
#include <string.h>

const Kernel kernel_table[] = {
    {"learn/add", "learn/add.co", "add", {"N"}, {"257"}, 1, {0}},
    {"learn/copy", "learn/copy.co", "copy_tiles", {"M", "N"}, {"65", "63"}, 1, {0}},
    {"learn/rowsum", "learn/rowsum.co", "rowsum", {"M", "N"}, {"65", "129"}, 1, {0}},
    {"learn/multicast", "learn/multicast.co", "gemm",
     {"M", "N", "K"}, {"256", "128", "320"}, 0, {0}},
    {"learn/multicast, plain", "learn/multicast.co", "gemm_plain", {"M", "N", "K"},
     {"64", "64", "330"}, 0, {0}},
    {"gemm/gemm", "gemm/gemm.co", "gemm", {"M", "N", "K"}, {"64", "128", "192"}, 1, {0}},
    {"gemm/gemm, plain", "gemm/gemm.co", "gemm_plain",
     {"M", "N", "K"}, {"64", "128", "132"}, 1, {0}},
    // Three tiles of two steps each, one after the other, by one block or the two of a cluster; the
    // ring has four slots.
    {"gemm/persistent", "gemm/persistent.co", "gemm",
     {"M", "N", "K"}, {"260", "136", "104"}, 1, {0}},
    {"gemm/persistent, clusters", "gemm/persistent.co", "gemm", {"M", "N", "K"},
     {"600", "136", "104"}, 1, {"CLUSTER", "2"}},
    {"gemm/persistent, plain", "gemm/persistent.co", "gemm_plain", {"M", "N", "K"},
     {"140", "8", "130"}, 1, {0}},
    {"gemm/fp8", "gemm/fp8.co", "gemm", {"M", "N", "K"}, {"600", "136", "208"}, 1, {0}},
    {"gemm/fp8, plain", "gemm/fp8.co", "gemm_plain", {"M", "N", "K"}, {"140", "8", "260"}, 1, {0}},
    {"gemm/gemm_pipelined", "gemm/gemm_pipelined.co", "gemm",
     {"M", "N", "K"}, {"260", "136", "104"}, 1, {0}},
    {"gemm/sequential", "gemm/sequential.co", "gemm",
     {"M", "N", "K"}, {"140", "136", "104"}, 1, {0}},
    {"gdn/correct", "gdn/correct.co", "correct",
     {"S", "H", "P", "R"}, {"7", "1", "2", "1"}, 1, {"VALUES", "32"}},
    {"attention/v1_pipelined", "attention/v1_pipelined.co", "attention",
     {"B", "S", "H"}, {"1", "384", "1"}, 1, {0}},
    {"attention/v1", "attention/v1.co", "attention", {"B", "S", "H"}, {"1", "256", "1"}, 1, {0}},
    {"attention/v2", "attention/v2.co", "attention", {"B", "S", "H"}, {"1", "384", "1"}, 1, {0}},
    {"attention/v3", "attention/v3.co", "attention", {"B", "S", "H"}, {"1", "384", "2"}, 1, {0}},
    {"attention/v4", "attention/v4.co", "attention", {"B", "S", "H"}, {"1", "512", "1"}, 1, {0}},
};
const int kernel_count = COUNT(kernel_table);

static const char *messages(Bench *b)
{
    Buf text = {0};
    diag_print(b->comp.diag, &text);
    const char *s = arena_strndup(b->arena, text.s ? text.s : "", text.n);
    buf_free(&text);
    return s;
}

// What the arrays are on the emulated card, guards included.
static const char *get_memory(Bench *b)
{
    Job *r = &b->run;
    RtError e = {0};
    b->values = ARENA_ARRAY(b->arena, PlanValue, r->narrays);
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        void *at;
        if (a->param->kind == PLAN_TENSOR) {
            if (r->device->ops->alloc(r->device, a->bytes + 2 * (size_t)JOB_GUARD, &at, &e))
                return arena_printf(b->arena, "%s", e.text);
            a->device = at;
            a->value.data = a->device + JOB_GUARD;
        }
        b->values[i] = a->value;
    }
    return NULL;
}

const char *bench_open(Bench *b, const Kernel *k, const char *root)
{
    Arena *a = arena_new(0);
    *b = (Bench){.kernel = k, .arena = a};
    // Two seeds: then there is room for a first result, which holds the right bits.
    b->options = (JobOptions){.device = "emu", .seeds = 2};
    for (int i = 0; i < COUNT(k->sizes) && k->sizes[i]; i++)
        vec_push(a, &b->options.sizes, ((JobSetting){k->sizes[i], k->values[i]}));
    char *path = arena_printf(a, "%s/kernels/%s", root, k->file);
    const char *err = file_read(path, &b->text, 1 << 20);
    if (err) return arena_printf(a, "%s: %s", path, err);
    b->comp = (Compilation){.path = path, .text = b->text.s, .text_n = b->text.n,
                            .until = FORM_THREAD, .arena = a, .diag = diag_new(a),
                            .defines = &k->define, .ndefines = k->define.name != NULL};
    if (!pass_compile(&b->comp)) return messages(b);
    for (int i = 0; i < b->comp.thread->fns.n; i++)
        if (!strcmp(b->comp.thread->fns.at[i]->name, k->fn)) b->fn = b->comp.thread->fns.at[i];
    if (!b->fn) return arena_printf(a, "%s: there is no kernel %s", path, k->fn);
    b->run = (Job){.options = &b->options, .path = path, .c = &b->comp, .plan = b->comp.plan,
                   .contract = b->comp.contract, .arena = a, .diag = b->comp.diag,
                   .narrays = plan_arguments(b->comp.plan)};
    if (!job_bind_sizes(&b->run) || !job_fill_arrays(&b->run) || job_open_device(&b->run))
        return messages(b);
    return get_memory(b);
}

void bench_close(Bench *b)
{
    job_close(&b->run);
    job_free_arrays(&b->run);
    buf_free(&b->text);
    buf_free(&b->comp.ptx);
    if (b->arena) arena_free(b->arena);
}
