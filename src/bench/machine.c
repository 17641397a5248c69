// machine.c - facts of the machine that a contest runs on, and what its device can do at most,
// measured before the contest.
#include "../../rt/sample.h"
#include "contest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CEILING_SAMPLES = 8, COPY_BYTES = 1 << 30 };

const char *bench_host(Arena *a)
{
    char line[256], cpu[200] = "unknown processor";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %199[^\n]", cpu) == 1) break;
    if (f) fclose(f);
    struct utsname u;
    bool known = uname(&u) == 0;
    return arena_printf(a, "%s, %ld processors, %s %s", cpu, sysconf(_SC_NPROCESSORS_ONLN),
                        known ? u.sysname : "", known ? u.release : "");
}

// Copies inside device memory, bytes read and bytes written, the fastest of a few: TB/s.
static double copy_ceiling(RtDevice *d)
{
    RtError e;
    void *from = NULL, *to = NULL, *mark[2] = {NULL, NULL};
    double best = NAN;
    bool ok = !d->ops->alloc(d, COPY_BYTES, &from, &e) && !d->ops->alloc(d, COPY_BYTES, &to, &e) &&
              !d->ops->mark_new(d, &mark[0], &e) && !d->ops->mark_new(d, &mark[1], &e) &&
              !d->ops->fill(d, from, 1, COPY_BYTES, NULL, &e);
    for (int i = 0; ok && i < CEILING_SAMPLES; i++) {
        double ms = 0;
        ok = !d->ops->mark(d, mark[0], NULL, &e) &&
             !d->ops->copy(d, to, from, COPY_BYTES, NULL, &e) &&
             !d->ops->mark(d, mark[1], NULL, &e) && !d->ops->sync(d, NULL, &e) &&
             !d->ops->mark_ms(d, mark[0], mark[1], &ms, &e);
        double tbs = 2.0 * COPY_BYTES / ms / 1e9;
        if (ok && i && !(tbs <= best)) best = tbs; // the first one is cold
    }
    for (int i = 0; i < 2; i++)
        if (mark[i]) d->ops->mark_free(d, mark[i]);
    d->ops->release(d, from);
    d->ops->release(d, to);
    return best;
}

// Products of resident tiles in the first launches, the fastest of a few: TFLOPS.
static double product_ceiling(const BenchContest *c, RtDevice *d, Diag *diag)
{
    Arena *a = arena_new(0);
    JobOptions o = {.device = c->job.device, .seeds = 1, .once = true};
    const BenchKernel *k = c->products;
    Job r = {.options = &o,
             .path = k->impl.file,
             .plan = k->plan,
             .contract = k->contract,
             .code = k->code,
             .arena = a,
             .diag = diag,
             .device = d,
             .narrays = plan_arguments(k->plan)};
    double best = NAN, ms[CEILING_SAMPLES];
    if (job_bind_sizes(&r) && job_fill_arrays(&r) && !job_prepare(&r) && !job_copy_in(&r)) {
        RtSampling s = {.idle_s = 0.2, .repeat = CEILING_SAMPLES, .group = 1};
        RtSamples out = {.ms = ms};
        RtError e = {0};
        if (rt_sample(r.launch, NULL, &s, &out, &e))
            job_device_error(&r, &e, "measuring the ceiling of the tensor cores");
        for (int i = 0; !e.status && i < CEILING_SAMPLES; i++) {
            double tflops = c->products_flops * (double)d->prop[PROP_SM_COUNT] / ms[i] / 1e9;
            if (!(tflops <= best)) best = tflops;
        }
    }
    job_leave_device(&r);
    job_free_arrays(&r);
    arena_free(a);
    return best;
}

bool bench_machine(const BenchContest *c, RtDevice *device, Bench *b, Diag *d)
{
    BenchMachine *m = &b->machine;
    Arena *a = b->arena;
    bool gpu = device->ops->queues;
    *m = (BenchMachine){.name = arena_printf(a, "%s", device->name),
                        .number = gpu ? c->job.gpu : -1,
                        .uuid = "",
                        .driver = "",
                        .cuda = "",
                        .host = bench_host(a),
                        .sms = (int)device->prop[PROP_SM_COUNT],
                        .major = device->major,
                        .minor = device->minor,
                        .l2_bytes = device->l2_bytes,
                        .power_limit = NAN,
                        .max_sm_mhz = NAN,
                        .ceiling_tflops = NAN,
                        .ceiling_tbs = NAN,
                        .no_meter = c->meter ? rt_meter_missing(c->meter) : "no GPU"};
    if (device->driver_version)
        m->cuda = arena_printf(a, "%d.%d", device->driver_version / 1000,
                               device->driver_version % 1000 / 10);
    if (c->meter) {
        m->uuid = arena_printf(a, "%s", rt_meter_uuid(c->meter));
        m->driver = arena_printf(a, "%s", rt_meter_driver(c->meter));
        m->power_limit = rt_meter_power_limit(c->meter);
        m->max_sm_mhz = rt_meter_max_sm_mhz(c->meter);
    }
    if (!gpu) return true;
    m->ceiling_tbs = copy_ceiling(device);
    if (c->products) m->ceiling_tflops = product_ceiling(c, device, d);
    return !diag_errors(d);
}
