// smoke.c - the public library on a real GPU: loads smoke.ptx (written by hand, with its plan),
// runs both of its kernels, compares every element, and prints where the time went. Run it twice:
// the second process finds the machine code in the driver's cache and loads it faster.
//
//     smoke PATH/smoke.ptx
//
// Exit status: 0 right, 1 wrong numbers, 3 no usable GPU or an error of the runtime.
#include "../../include/baton.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100003, ROWS = 13, COLUMNS = 72 }; // odd sizes: tails in every direction

typedef struct {
    float a[N], b[N], c[N];
    uint16_t x[ROWS * COLUMNS], y[ROWS * COLUMNS];
} Host;

typedef struct {
    void *a, *b, *c, *x, *y; // device addresses
} Device;

static int trouble(const char *what)
{
    printf("%s: %s\n", what, baton_last_error());
    return 3;
}

static void fill(Host *h)
{
    for (int i = 0; i < N; i++) {
        h->a[i] = (float)(i % 1000) * 0.25f;
        h->b[i] = (float)(i % 77) - 30;
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) h->x[i] = (uint16_t)(i * 7 + 1);
}

static int upload(baton_context *c, const Host *h, Device *d)
{
    return baton_allocate(c, sizeof h->a, &d->a) || baton_allocate(c, sizeof h->b, &d->b) ||
           baton_allocate(c, sizeof h->c, &d->c) || baton_allocate(c, sizeof h->x, &d->x) ||
           baton_allocate(c, sizeof h->y, &d->y) ||
           baton_copy_to_device(c, d->a, h->a, sizeof h->a) ||
           baton_copy_to_device(c, d->b, h->b, sizeof h->b) ||
           baton_copy_to_device(c, d->x, h->x, sizeof h->x);
}

static int download(baton_context *c, Host *h, const Device *d)
{
    return baton_copy_to_host(c, h->c, d->c, sizeof h->c) ||
           baton_copy_to_host(c, h->y, d->y, sizeof h->y);
}

// Number of wrong elements.
static int compare(const Host *h, float alpha)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += h->c[i] != fmaf(alpha, h->a[i], h->b[i]);
    for (int i = 0; i < ROWS * COLUMNS; i++) wrong += h->y[i] != h->x[i];
    return wrong;
}

static void print_times(const baton_module *m)
{
    baton_times t = {.size = sizeof t};
    baton_get_times(m, &t);
    printf("driver %.1f ms, context %.1f ms, load %.2f ms\n", t.driver, t.context, t.load);
}

// A kernel that the assembler must refuse, with its reason.
static int refuse(baton_context *c)
{
    static const char bad[] =
        "//@ plan bad\n//@ end\n.version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry bad() {\n    addd.u32 %r1, 1;\n}\n";
    baton_module *m = NULL;
    baton_status s = baton_load_memory(c, "bad.ptx", bad, sizeof bad - 1, &m);
    printf("a wrong program: %s\n%s\n", baton_status_name(s), baton_last_error());
    baton_unload(m);
    return s != BATON_NOT_ASSEMBLED;
}

static int run(baton_context *c, baton_module *m, Host *h)
{
    Device d = {0};
    const float alpha = 1.5f;
    if (upload(c, h, &d)) return trouble("upload");
    baton_tensor arg[6] = {
        {sizeof *arg, d.a, BATON_F32, 1, {N}, 0, 0},
        {sizeof *arg, d.b, BATON_F32, 1, {N}, 0, 0},
        {sizeof *arg, d.c, BATON_F32, 1, {N}, 0, 0},
        {sizeof *arg, NULL, BATON_F32, 0, {0}, 0, alpha},
        {sizeof *arg, d.x, BATON_BF16, 2, {ROWS, COLUMNS}, 0, 0},
        {sizeof *arg, d.y, BATON_BF16, 2, {ROWS, COLUMNS}, 0, 0},
    };
    if (baton_launch(m, arg, 6, NULL)) return trouble("launch");
    if (baton_synchronize(c, NULL)) return trouble("synchronize");
    if (download(c, h, &d)) return trouble("download");
    int wrong = compare(h, alpha);
    printf("%d of %d elements wrong\n", wrong, N + ROWS * COLUMNS);
    baton_timing t = {.size = sizeof t};
    if (baton_time(m, arg, 6, NULL, 5, 100, &t)) return trouble("time");
    printf("one launch of the plan: median %.2f us, min %.2f us of %d\n", t.median_ms * 1e3,
           t.min_ms * 1e3, t.runs);
    arg[0].dim[0] = 5;
    if (!baton_launch(m, arg, 6, NULL)) return trouble("a launch that must be refused");
    printf("a wrong argument: %s\n", baton_last_error());
    void *const memory[] = {d.a, d.b, d.c, d.x, d.y};
    for (int i = 0; i < 5; i++) baton_free(c, memory[i]);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    baton_context *c = NULL;
    baton_module *m = NULL;
    if (argc != 2) {
        printf("usage: smoke PATH/smoke.ptx\n");
        return 2;
    }
    if (baton_open(NULL, &c)) return trouble("open");
    baton_device_info info = {.size = sizeof info};
    baton_get_device(c, &info);
    printf("%s, driver %d, %d SMs\n", info.name, info.driver_version, (int)info.sm_count);
    if (baton_load_file(c, argv[1], &m)) return trouble("load");
    print_times(m);
    Host *h = malloc(sizeof *h);
    if (!h) return 3;
    fill(h);
    int status = run(c, m, h);
    if (refuse(c)) status = 1;
    free(h);
    baton_unload(m);
    baton_close(c);
    printf(status ? "FAILED\n" : "ok\n");
    return status;
}
