// explore_drop_test.c - takes shipped kernels, leaves out one synchronising operation at a time, and
// demands that the explorer reports a violation, as drop_sync_test.c demands it of the emulator.
//
// Argument: the folder that holds kernels/ (default: the current one).
#include "../../src/pass.h"
#include "../../src/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const files[] = {"kernels/attention/v1.co", "kernels/attention/v2.co",
                                    "kernels/gemm/gemm.co", "kernels/learn/copy.co",
                                    "kernels/attention/v4.co", "kernels/learn/multicast.co"};

// What the explorer does not see, or what these kernels happen not to need. Each stands once for
// every miss; one that is left over is a failure too.
static const struct {
    const char *file;
    u8 op;
    u32 line;
} spare[] = {
    // Registers of a product (O9): its operands are covered by the wait of the next one.
    {"kernels/attention/v1.co", OP_WGMMA_COMMIT, 50},
    {"kernels/attention/v1.co", OP_WGMMA_WAIT, 50},
    // Likewise: the next tile of k comes behind one of v whose slot is given back behind the other
    // wait of the round, and the last tile of v is not followed by any.
    {"kernels/attention/v4.co", OP_WGMMA_COMMIT, 116},
    {"kernels/attention/v4.co", OP_WGMMA_WAIT, 122},
    {"kernels/attention/v4.co", OP_WGMMA_COMMIT, 116},
    {"kernels/attention/v4.co", OP_WGMMA_WAIT, 122},
    {"kernels/attention/v4.co", OP_WGMMA_COMMIT, 157},
    {"kernels/attention/v4.co", OP_WGMMA_WAIT, 161},
    // Not needed: see drop_sync_test.c.
    {"kernels/attention/v4.co", OP_MBAR_ARRIVE, 162},
    {"kernels/gemm/gemm.co", OP_BAR_SYNC, 37},
    {"kernels/learn/copy.co", OP_BAR_SYNC, 16},
};

typedef struct {
    const char *file;
    Compilation comp;
    int passed, failed;
    bool used[COUNT(spare) + 1];
} Bench;

// Registers of products (O9) are outside the model: wgmma.fence is not among them.
static bool must_show(u8 op)
{
    switch (op) {
    case OP_BAR_SYNC: case OP_FENCE_PROXY: case OP_FENCE_MBAR_INIT: case OP_MBAR_INIT:
    case OP_MBAR_ARRIVE_EXPECT: case OP_MBAR_WAIT: case OP_MBAR_ARRIVE: case OP_BULK_WAIT_READ:
    case OP_WGMMA_COMMIT: case OP_WGMMA_WAIT: case OP_BAR_CLUSTER: case OP_MBAR_ARRIVE_CLUSTER:
        return true;
    default: return false;
    }
}

static ExploreVerdict explore(Bench *b)
{
    Buf out = {0};
    ExploreOptions o = {.cases = 12, .states = 200000};
    ExploreVerdict v = explore_module(b->comp.thread, b->comp.plan, b->comp.diag, &o, &out);
    buf_free(&out);
    return v;
}

static bool take_spare(Bench *b, const ThreadOp *op)
{
    for (int i = 0; i < COUNT(spare); i++)
        if (!b->used[i] && !strcmp(b->file, spare[i].file) && op->op == spare[i].op &&
            op->loc.line == spare[i].line)
            return b->used[i] = true;
    return false;
}

static void drop_each(Bench *b, ThreadBlock *block)
{
    for (int i = 0; i < block->n; i++) {
        ThreadOp *op = block->at[i];
        drop_each(b, &op->body);
        drop_each(b, &op->other);
        if (!must_show(op->op)) continue;
        size_t rest = sizeof *block->at * (size_t)(block->n - 1 - i);
        memmove(&block->at[i], &block->at[i + 1], rest);
        block->n--;
        ExploreVerdict v = explore(b);
        memmove(&block->at[i + 1], &block->at[i], rest);
        block->n++;
        block->at[i] = op;
        if (v == EXPLORE_VIOLATION || take_spare(b, op)) {
            b->passed++;
            continue;
        }
        b->failed++;
        printf("%s: without the %s of line %u nothing is reported\n", b->file,
               thread_op[op->op].name, op->loc.line);
    }
}

static void run_file(Bench *b, const char *root, const char *file)
{
    Arena *a = arena_new(0);
    Buf text = {0};
    char *path = arena_printf(a, "%s/%s", root, file);
    const char *err = file_read(path, &text, 1 << 20);
    b->file = file;
    b->comp = (Compilation){.path = path, .text = text.s, .text_n = text.n, .until = FORM_THREAD,
                            .arena = a, .diag = diag_new(a)};
    if (err || !pass_compile(&b->comp)) {
        printf("%s: %s\n", path, err ? err : "does not compile");
        b->failed++;
    } else {
        // The variant without the TMA unit is another kernel; the first one is the ring's.
        b->comp.thread->fns.n = 1;
        if (explore(b) != EXPLORE_CLEAN) {
            printf("%s: not clean as it is\n", file);
            b->failed++;
        }
        drop_each(b, &b->comp.thread->fns.at[0]->body);
    }
    buf_free(&text);
    arena_free(a);
}

int main(int argc, char **argv)
{
    static Bench b;
    for (int i = 0; i < COUNT(files); i++) run_file(&b, argc > 1 ? argv[1] : ".", files[i]);
    for (int i = 0; i < COUNT(spare); i++) {
        if (b.used[i]) continue;
        printf("%s: the %s of line %u is no exception any more\n", spare[i].file,
               thread_op[spare[i].op].name, spare[i].line);
        b.failed++;
    }
    printf("%d passed, %d failed\n", b.passed, b.failed);
    return b.failed != 0;
}
