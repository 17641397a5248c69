// samples.c - rt_sample and the management library on a real GPU. A kernel that lasts as long as it
// is told is timed in every way that there is, so that the right figure is known:
//
//     make build/libbaton.a
//     gcc -O2 -o build/samples tests/gpu/samples.c build/libbaton.a -ldl -lm -lpthread
//     build/samples
//
// One line a case: what is expected, what was found. Exit status 1 when something differs, 3 when
// there is no usable GPU.
#include "../../rt/meter.h"
#include "../../rt/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One thread of each CTA looks at the clock until `ns` nanoseconds have passed.
static const char ptx[] = "//@ plan wait\n"
                          "//@ param ns: s64 scalar in align 8\n"
                          "//@ param ctas: s64 scalar in align 8\n"
                          "//@ symbol ns = scalar ns\n"
                          "//@ symbol ctas = scalar ctas\n"
                          "//@ kernel wait grid (ctas, 1, 1) block 32 cluster 1 smem 0\n"
                          "//@ arg value ns\n"
                          "//@ end\n"
                          ".version 8.0\n"
                          ".target sm_90\n"
                          ".address_size 64\n"
                          ".visible .entry wait(.param .u64 ns)\n"
                          "{\n"
                          "    .reg .pred %more;\n"
                          "    .reg .b64 %ns, %start, %now;\n"
                          "    ld.param.u64 %ns, [ns];\n"
                          "    mov.u64 %start, %globaltimer;\n"
                          "again:\n"
                          "    mov.u64 %now, %globaltimer;\n"
                          "    sub.u64 %now, %now, %start;\n"
                          "    setp.lt.u64 %more, %now, %ns;\n"
                          "    @%more bra again;\n"
                          "    ret;\n"
                          "}\n";

typedef struct {
    Arena *arena;
    RtDevice *device;
    RtModule *module;
    Plan *plan;
    int wrong;
} Bench;

static void tell(Bench *b, bool ok, const char *what, const char *found)
{
    printf("%-5s %-44s %s\n", ok ? "right" : "WRONG", what, found);
    b->wrong += !ok;
}

static bool start(Bench *b, const char *library)
{
    RtError e = {0};
    RtCode code = {.name = "wait.ptx", .ptx = ptx, .ptx_bytes = sizeof ptx - 1};
    ExprPool *pool = expr_pool_new(b->arena, intern_new(b->arena));
    Diag *d = diag_new(b->arena);
    u16 file = diag_add_file(d, code.name, ptx, sizeof ptx - 1);
    b->plan = plan_read(b->arena, pool, d, file, "//@ ", ptx, sizeof ptx - 1);
    baton_status s = rt_cuda_open(library, 0, &b->device, NULL, &e);
    if (!s) s = rt_load(b->device, &code, &b->module, NULL, &e);
    if (s || !b->plan) printf("no usable GPU: %s\n", e.text);
    return !s && b->plan;
}

static int by_value(const void *pa, const void *pb)
{
    double x = *(const double *)pa, y = *(const double *)pb;
    return (x > y) - (x < y);
}

typedef struct {
    const char *what;
    double us;                 // of one launch
    int ctas;
    RtSampling order;
    double most_us;            // that the median may be
    int least_group, most_group;
} Case;

static void sample(Bench *b, const Case *c)
{
    RtError e = {0};
    RtLaunch *launch;
    PlanValue v[2] = {{.type = DT_S64, .int_value = (i64)(c->us * 1e3)},
                      {.type = DT_S64, .int_value = c->ctas}};
    int n = c->order.repeat;
    double *ms = ARENA_ARRAY(b->arena, double, n), sum = 0;
    RtSamples out = {.ms = ms};
    baton_status s = rt_prepare(b->arena, b->module, b->plan, v, &launch, NULL, &e);
    double before = rt_now_ms();
    if (!s) s = rt_sample(launch, NULL, &c->order, &out, &e);
    double all = rt_now_ms() - before;
    if (s) {
        tell(b, false, c->what, e.text);
        return;
    }
    for (int i = 0; i < n; i++) sum += ms[i] * out.group;
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    double us = ms[n / 2] * 1e3;
    bool ok = us >= c->us && us <= c->most_us && !out.host_bound &&
              out.group >= c->least_group && out.group <= c->most_group &&
              out.load_ms >= c->order.load_s * 1e3 && out.t1 - out.t0 >= sum * 0.999 &&
              out.t2 - out.t0 >= c->order.min_s * 1e3;
    tell(b, ok, c->what,
         arena_printf(b->arena, "us %.2f (%.2f to %.2f) group %d late %d host ms %.2f load ms %.1f "
                                "span ms %.2f of %.2f, in all %.0f",
                      us, ms[0] * 1e3, ms[n - 1] * 1e3, out.group, out.late, out.host_ms,
                      out.load_ms, out.t1 - out.t0, sum, all));
}

// Between two marks the device needs 1 to 2 us more than the kernel, and its clock steps by 1 us.
static void samples(Bench *b)
{
    const Case cases[] = {
        {"500 us, sustained for 0.3 s", 500, 132,
         {.warmup = 20, .load_s = 0.3, .repeat = 200, .group = 1, .min_s = 0.3}, 508, 1, 1},
        {"500 us, burst after 1 s of idling", 500, 132,
         {.idle_s = 1, .repeat = 50, .group = 1}, 508, 1, 1},
        {"50 us, groups of 0.2 ms", 50, 132, {.warmup = 20, .repeat = 200}, 56, 3, 4},
        {"2 us, one by one, behind holds", 2, 1,
         {.warmup = 20, .repeat = 500, .group = 1}, 9, 1, 1},
        {"2 us, groups of 0.2 ms", 2, 1, {.warmup = 20, .repeat = 100}, 8, 25, 100},
        {"20 us, graphs of ten", 20, 132,
         {.warmup = 20, .repeat = 100, .group = 10, .graph = true}, 26, 10, 10},
        {"2 us, graphs of 0.2 ms", 2, 1, {.warmup = 20, .repeat = 100, .graph = true}, 8, 25, 100},
        {"50 us behind 128 MiB of fills", 50, 132,
         {.warmup = 20, .repeat = 200, .cold_bytes = 128 << 20}, 58, 1, 1},
    };
    for (int i = 0; i < COUNT(cases); i++) sample(b, &cases[i]);
}

// Reads and writes 1 GiB by the copy engine's kernel, for the ceiling of the guards.
static void copy(Bench *b)
{
    RtDevice *d = b->device;
    RtError e = {0};
    size_t bytes = (size_t)1 << 30;
    void *from = NULL, *to = NULL, *mark[2] = {0};
    double ms = 0, best = INFINITY;
    baton_status s = d->ops->alloc(d, bytes, &from, &e);
    if (!s) s = d->ops->alloc(d, bytes, &to, &e);
    for (int i = 0; i < 2 && !s; i++) s = d->ops->mark_new(d, &mark[i], &e);
    for (int i = 0; i < 20 && !s; i++) {
        s = d->ops->mark(d, mark[0], NULL, &e);
        if (!s) s = d->ops->copy(d, to, from, bytes, NULL, &e);
        if (!s) s = d->ops->mark(d, mark[1], NULL, &e);
        if (!s) s = d->ops->mark_ms(d, mark[0], mark[1], &ms, &e);
        best = MIN(best, ms);
    }
    double tbs = 2 * (double)bytes / best / 1e9;
    tell(b, !s && tbs > 1 && tbs < 5, "copying 1 GiB on the device",
         s ? e.text : arena_printf(b->arena, "%.2f TB/s", tbs));
    for (int i = 0; i < 2; i++) d->ops->mark_free(d, mark[i]);
    d->ops->release(d, from);
    d->ops->release(d, to);
}

static void meter(Bench *b)
{
    RtMeter *m = rt_meter_open(NULL, b->device->pci);
    const char *why = rt_meter_missing(m);
    tell(b, !why, "the management library has everything", why ? why : "");
    printf("      %s, L2 %.0f MiB, up to %.0f MHz, at %s, driver %s, %s, %.0f W, %.0f MHz\n",
           b->device->name, (double)b->device->l2_bytes / 1048576, b->device->sm_mhz,
           b->device->pci, rt_meter_driver(m), rt_meter_uuid(m),
           rt_meter_power_limit(m), rt_meter_max_sm_mhz(m));
    RtReading *r = NULL;
    i64 n = 0;
    bool made = rt_meter_watch(m, 10);
    const Case c = {"500 us under the watch of the meter", 500, 132,
                    {.warmup = 20, .load_s = 1, .repeat = 500, .group = 1, .min_s = 1}, 508, 1, 1};
    sample(b, &c);
    r = rt_meter_watch_end(m, &n);
    int steps = 0;
    for (i64 i = 1; i < n; i++) steps += r[i].joules != r[i - 1].joules;
    double s = n > 1 ? (r[n - 1].ms - r[0].ms) / 1e3 : NAN;
    tell(b, made && steps >= 5, "its counter steps",
         n < 2 ? "no readings"
               : arena_printf(b->arena,
                              "%lld readings in %.2f s, %d steps, %.0f J (%.0f W), %.0f MHz, "
                              "%.0f C, limits %s",
                              (long long)n, s, steps, r[n - 1].joules - r[0].joules,
                              (r[n - 1].joules - r[0].joules) / s, r[n / 2].sm_mhz,
                              r[n / 2].celsius, rt_meter_reasons(b->arena, r[n / 2].reasons)));
    free(r);
    rt_meter_close(m);
}

// An argument is the path of another driver library.
int main(int argc, char **argv)
{
    Bench b = {.arena = arena_new(0)};
    if (!start(&b, argc > 1 ? argv[1] : NULL)) return 3;
    samples(&b);
    copy(&b);
    meter(&b);
    rt_unload(b.module);
    b.device->ops->close(b.device);
    printf("%d wrong\n", b.wrong);
    return b.wrong != 0;
}
