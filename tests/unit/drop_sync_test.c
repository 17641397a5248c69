// drop_sync_test.c - takes the shipped kernels, leaves out one synchronising operation at a time, and
// demands that the emulator reports a hazard on the round-robin schedule. A kernel whose barriers,
// waits and fences are all needed and an emulator that sees each of them missing prove each other.
//
// Argument: the folder that holds kernels/ (default: the current one).
#include "../../rt/rt.h"
#include "../../src/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *file;
    const char *symbols[4];
    i64 values[4];
    bool plain;                 // sizes for which the plan takes the twin without the TMA unit
    AstDefine define;           // as -D; name NULL: none
} Case;

static const Case cases[] = {
    {"kernels/attention/v1.co", {"B", "S", "H"}, {1, 256, 1}, false, {0}},
    {"kernels/attention/v2.co", {"B", "S", "H"}, {1, 384, 1}, false, {0}},
    {"kernels/attention/v4.co", {"B", "S", "H"}, {1, 640, 1}, false, {0}},
    {"kernels/attention/v3.co", {"B", "S", "H"}, {1, 384, 2}, false, {0}},
    {"kernels/gemm/gemm.co", {"M", "N", "K"}, {64, 128, 128}, false, {0}},
    {"kernels/gemm/gemm.co", {"M", "N", "K"}, {64, 128, 132}, true, {0}},
    // Three tiles of two steps each, one after the other, by one block or the two of a cluster; two
    // tiles of four steps. The ring has four slots.
    {"kernels/gemm/persistent.co", {"M", "N", "K"}, {260, 136, 104}, false, {0}},
    {"kernels/gemm/persistent.co", {"M", "N", "K"}, {600, 136, 104}, false, {"CLUSTER", "2"}},
    {"kernels/gemm/persistent.co", {"M", "N", "K"}, {140, 8, 130}, true, {0}},
    {"kernels/learn/copy.co", {"M", "N"}, {64, 64}, false, {0}},
    {"kernels/learn/multicast.co", {"M", "N", "K"}, {256, 128, 320}, false, {0}},
};

// Operations that the compiler's rules ask for and these kernels happen not to need. Each is passed
// over once in all cases together: a second miss at the same line is a failure, and so is none.
static const struct {
    const char *file;
    u8 op;
    u32 line;
} spare[] = {
    // The loop over K begins with a barrier of the block, before the mbarriers are first used.
    {"kernels/gemm/gemm.co", OP_BAR_SYNC, 37},
    // Element by element, each thread writes out just what it brought in.
    {"kernels/learn/copy.co", OP_BAR_SYNC, 16},
    // The release of the last slot: the producer loads nothing more.
    {"kernels/attention/v4.co", OP_MBAR_ARRIVE, 162},
    // The fence in front of QK covers the registers of PV as well; the assembler wants one for each
    // product (without it: C7519, one is injected). The loop over key tiles stands there twice, with
    // two sets of probs.
    {"kernels/attention/v4.co", OP_WGMMA_FENCE, 118},
    {"kernels/attention/v4.co", OP_WGMMA_FENCE, 118},
    {"kernels/attention/v3.co", OP_WGMMA_FENCE, 133},
    {"kernels/attention/v3.co", OP_WGMMA_FENCE, 133},
    {"kernels/attention/v3.co", OP_WGMMA_FENCE, 178},
    // The second of two products into one accumulator, in each of three cases.
    {"kernels/gemm/persistent.co", OP_WGMMA_FENCE, 99},
    {"kernels/gemm/persistent.co", OP_WGMMA_FENCE, 99},
    {"kernels/gemm/persistent.co", OP_WGMMA_FENCE, 99},
    // Without the TMA unit: the copies may go by cp.async and here go by registers; what the products
    // have read is written again by ordinary stores, and only c_s was accessed by some before.
    {"kernels/gemm/persistent.co", OP_CPASYNC_COMMIT, 76},
    {"kernels/gemm/persistent.co", OP_CPASYNC_WAIT, 76},
    {"kernels/gemm/persistent.co", OP_FENCE_PROXY, 101},
};

typedef struct {
    int passed, failed;
    int misses[COUNT(spare)];
} Tally;

// Takes the one miss that an entry allows; a line that stands there twice has two entries.
static bool take_spare(Tally *t, const char *file, const ThreadOp *op)
{
    for (int i = 0; i < COUNT(spare); i++)
        if (!t->misses[i] && !strcmp(file, spare[i].file) && op->op == spare[i].op &&
            op->loc.line == spare[i].line)
            return ++t->misses[i];
    return false;
}

typedef struct {
    const Case *c;
    Compilation comp;
    Arena *arena;
    PlanValue *values;
    RtDevice *device;
    RtModule *module;
} Bench;

// Operations whose absence must show. BULK_COMMIT goes with its wait; CPASYNC_COMMIT likewise.
static bool must_show(u8 op)
{
    switch (op) {
    case OP_BAR_SYNC:
    case OP_FENCE_PROXY:
    case OP_FENCE_MBAR_INIT:
    case OP_MBAR_INIT:
    case OP_MBAR_ARRIVE_EXPECT:
    case OP_MBAR_WAIT:
    case OP_MBAR_ARRIVE:
    case OP_MBAR_ARRIVE_CLUSTER:
    case OP_BAR_CLUSTER:
    case OP_BULK_WAIT_READ:
    case OP_CPASYNC_WAIT:
    case OP_CPASYNC_COMMIT:
    case OP_WGMMA_FENCE:
    case OP_WGMMA_COMMIT:
    case OP_WGMMA_WAIT: return true;
    default: return false;
    }
}

static bool lookup(void *ctx, const char *name, i64 *value)
{
    const Case *c = ctx;
    for (int i = 0; i < 4 && c->symbols[i]; i++)
        if (strcmp(c->symbols[i], name) == 0) return *value = c->values[i], true;
    return false;
}

static void die(const char *what, const char *why)
{
    printf("%s: %s\n0 passed, 1 failed\n", what, why);
    exit(1);
}

// One run; returns the first hazard's kind or -1.
static int run(Bench *b)
{
    RtError e = {0};
    RtLaunch *launch;
    int n, first = -1;
    RtEmulatorOptions o = {.hazards = true, .step_limit = 1000000, .sms = 1};
    rt_emulator_set(b->device, &o);
    if (rt_prepare(b->arena, b->module, b->comp.plan, b->values, &launch, NULL, &e)) die(b->c->file, e.text);
    if (rt_launch(launch, NULL, &e)) die(b->c->file, e.text);
    EmuReport *const *reports = rt_emulator_reports(b->device, &n);
    for (int i = 0; i < n && first < 0; i++)
        if (reports[i]->hazards.n) first = reports[i]->hazards.at[0].kind;
    return first;
}

static void drop_each(Bench *b, Tally *t, ThreadBlock *block)
{
    for (int i = 0; i < block->n; i++) {
        ThreadOp *op = block->at[i];
        drop_each(b, t, &op->body);
        drop_each(b, t, &op->other);
        if (!must_show(op->op)) continue;
        memmove(&block->at[i], &block->at[i + 1], sizeof *block->at * (size_t)(block->n - 1 - i));
        block->n--;
        int kind = run(b);
        memmove(&block->at[i + 1], &block->at[i], sizeof *block->at * (size_t)(block->n - i));
        block->n++;
        block->at[i] = op;
        if (kind >= 0 || take_spare(t, b->c->file, op)) {
            t->passed++;
            continue;
        }
        t->failed++;
        printf("%s: without the %s of line %u nothing is reported\n", b->c->file, thread_op[op->op].name,
               op->loc.line);
    }
}

static void run_case(const Case *c, const char *root, Tally *t)
{
    Bench b = {.c = c, .arena = arena_new(0)};
    Buf text = {0}, messages = {0};
    RtError e = {0};
    char *path = arena_printf(b.arena, "%s/%s", root, c->file);
    const char *err = file_read(path, &text, 1 << 20);
    if (err) die(path, err);
    b.comp = (Compilation){.path = path, .text = text.s, .text_n = text.n, .until = FORM_THREAD,
                           .arena = b.arena, .diag = diag_new(b.arena),
                           .defines = &c->define, .ndefines = c->define.name != NULL};
    if (!pass_compile(&b.comp)) {
        diag_print(b.comp.diag, &messages);
        die(path, messages.s);
    }
    const Plan *p = b.comp.plan;
    int arguments = plan_arguments(p);
    b.values = ARENA_ARRAY(b.arena, PlanValue, arguments);
    if (rt_emulator_open(&(RtEmulatorOptions){.hazards = true, .sms = 1}, &b.device, &e))
        die(path, e.text);
    for (int i = 0; i < arguments; i++) {
        PlanValue *v = &b.values[i];
        size_t bytes = dtype_bytes[p->params.at[i].type];
        v->type = p->params.at[i].type;
        v->rank = p->params.at[i].rank;
        err = plan_param_dims(b.arena, p, i, lookup, (void *)(uintptr_t)c, v->dim);
        if (err) die(path, err);
        for (int d = 0; d < v->rank; d++) bytes *= (size_t)v->dim[d];
        if (b.device->ops->alloc(b.device, bytes, &v->data, &e)) die(path, e.text);
        memset(v->data, 0, bytes);
    }
    RtCode code = {.name = path, .thread = b.comp.thread};
    if (rt_load(b.device, &code, &b.module, NULL, &e)) die(path, e.text);
    if (run(&b) >= 0) die(path, "the whole kernel has a hazard");
    for (int i = 0; i < b.comp.thread->fns.n; i++) {
        ThreadFn *fn = b.comp.thread->fns.at[i];
        bool plain = strstr(fn->name, "_plain") != NULL;
        if (plain == c->plain) drop_each(&b, t, &fn->body);
    }
    rt_unload(b.module);
    for (int i = 0; i < arguments; i++) b.device->ops->release(b.device, b.values[i].data);
    b.device->ops->close(b.device);
    buf_free(&text);
    buf_free(&b.comp.ptx);
    arena_free(b.arena);
}

int main(int argc, char **argv)
{
    Tally t = {0};
    for (int i = 0; i < COUNT(cases); i++) run_case(&cases[i], argc > 1 ? argv[1] : ".", &t);
    for (int i = 0; i < COUNT(spare); i++) {
        if (t.misses[i]) continue;
        t.failed++;
        printf("%s:%u: the operation named as spare is needed, or gone\n", spare[i].file,
               spare[i].line);
    }
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
