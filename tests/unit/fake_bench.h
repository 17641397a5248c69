// fake_bench.h - what the tests on the fake driver share: counting, the fake itself, and a module
// loaded through it with the plan in its head. Each test program includes it once.
#ifndef BATON_FAKE_BENCH_H
#define BATON_FAKE_BENCH_H

#include "../../rt/rt.h"
#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int passed, failed;
    const char *library; // path of the fake driver
    FakeCuda *fake;
    Arena *arena;
} Test;

static void expect(Test *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    t->failed++;
    printf("FAILED %s%s%s\n", what, detail && *detail ? ": " : "", detail ? detail : "");
}

static void expect_fail(Test *t, baton_status got, baton_status want, const RtError *e,
                        const char *sentence)
{
    char what[300];
    snprintf(what, sizeof what, "%s with \"%s\", not %s with", baton_status_name(want), sentence,
             baton_status_name(got));
    expect(t, got == want && strstr(e->text, sentence), what, e->text);
}

// Puts the fake back to a healthy machine and forgets what it saw.
static void reset(Test *t)
{
    FakeCuda alive = *t->fake;
    *t->fake = (FakeCuda){.devices = 1, .major = 9, .driver_version = 13000,
                          .contexts = alive.contexts, .depth = alive.depth,
                          .allocations = alive.allocations, .events = alive.events,
                          .graphs = alive.graphs};
}

typedef struct {
    RtDevice *device;
    RtModule *module;
    Plan *plan;
    ExprPool *exprs;
} Loaded;

static Plan *parse_plan(Test *t, const char *text, ExprPool *pool)
{
    Diag *d = diag_new(t->arena);
    u16 file = diag_add_file(d, "test.ptx", text, strlen(text));
    Plan *p = plan_read(t->arena, pool, d, file, "//@ ", text, strlen(text));
    if (p) plan_check(p, NULL, d);
    Buf b = {0};
    diag_print(d, &b);
    expect(t, p && !diag_errors(d), "the test's plan is legal", b.s);
    buf_free(&b);
    return p;
}

static RtCode code_of(const char *text)
{
    return (RtCode){.name = "test.ptx", .ptx = text, .ptx_bytes = strlen(text)};
}

// Opens the fake GPU, loads `ptx` (which outlives *l) and reads the plan in its head.
static bool load_text(Test *t, Loaded *l, const char *ptx)
{
    RtError e = {0};
    reset(t);
    *l = (Loaded){0};
    RtCode code = code_of(ptx);
    baton_status s = rt_cuda_open(t->library, 0, &l->device, NULL, &e);
    if (!s) s = rt_load(l->device, &code, &l->module, NULL, &e);
    l->exprs = expr_pool_new(t->arena, intern_new(t->arena));
    l->plan = parse_plan(t, ptx, l->exprs);
    expect(t, !s, "the test's module loads", e.text);
    return !s && l->plan;
}

static void unload(Test *t, Loaded *l)
{
    rt_unload(l->module);
    l->device->ops->close(l->device);
    expect(t, t->fake->contexts == 0 && t->fake->depth == 0 && t->fake->events == 0 &&
                  t->fake->allocations == 0 && t->fake->graphs == 0 &&
                  t->fake->outside_context == 0,
           "everything was given back, and no call stood outside the context", NULL);
}

// The fake lies in fake/ beside this program unless the command line says where. False: not there.
static bool bench_open(Test *t, int argc, char **argv, void **library)
{
    *t = (Test){.arena = arena_new(0)};
    const char *slash = strrchr(argv[0], '/');
    int n = slash ? (int)(slash - argv[0]) : 1;
    t->library = argc > 1 ? argv[1]
                          : arena_printf(t->arena, "%.*s/fake/libcuda.so.1", n, slash ? argv[0] : ".");
    *library = dlopen(t->library, RTLD_NOW | RTLD_LOCAL);
    void *get = *library ? dlsym(*library, "fake_cuda") : NULL;
    if (!get) {
        printf("FAILED: no fake driver at %s\n", t->library);
        return false;
    }
    FakeCudaState *state;
    memcpy(&state, &get, sizeof state);
    t->fake = state();
    reset(t);
    return true;
}

// Prints the closing line; returns the program's exit status.
static int bench_close(Test *t, void *library, const char *name)
{
    dlclose(library);
    arena_free(t->arena);
    printf("%s: %d passed, %d failed\n", name, t->passed, t->failed);
    return t->failed != 0;
}

#endif
