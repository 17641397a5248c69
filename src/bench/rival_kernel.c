// rival_kernel.c - a kernel of baton in a contest: its job on the device that all share, with the
// model's arrays on the host.
//
// The inputs are those that the model made, so every implementation computes on the same bits; the
// kernel's own generators are not asked.
#include "../../rt/sample.h"
#include "contest.h"

typedef struct {
    const BenchKernel *kernel;
    RtDevice *device;
    const JobOptions *options;
    Diag *diag;
    Arena *arena; // of one size
    Job job;
    JobOptions own; // with the size's words
} KernelRival;

// The model's array of that name, of the same type and extents; NULL: there is none such.
static const JobArray *same_array(const Job *model, const JobArray *a)
{
    const JobArray *m = job_array(model, a->param->name);
    if (!m || m->param->kind != a->param->kind || m->param->type != a->param->type) return NULL;
    return m->bytes == a->bytes ? m : NULL;
}

// Blocks on the host: the model's. A scalar has its own value.
static const char *share_arrays(KernelRival *k, const Job *model)
{
    Job *r = &k->job;
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (a->param->kind != PLAN_TENSOR) continue;
        const JobArray *m = same_array(model, a);
        if (!m)
            return arena_printf(r->arena,
                                "%s has an array %s that %s has not, or not with this "
                                "type and these extents",
                                k->kernel->impl.name, a->param->name, model->path);
        a->block = m->block;
        a->result = m->result;
        if (a->param->out && !m->result)
            return arena_printf(r->arena, "%s writes %s, which is an input of %s",
                                k->kernel->impl.name, a->param->name, model->path);
    }
    return NULL;
}

static bool enter(BenchRival *rival, const Job *model, BenchCase *c, BenchImpl *impl)
{
    KernelRival *k = rival->self;
    const BenchKernel *kernel = k->kernel;
    (void)impl;
    k->arena = arena_new(0);
    k->own = *model->options;
    k->job = (Job){.options = &k->own,
                   .path = kernel->impl.file,
                   .plan = kernel->plan,
                   .contract = kernel->contract,
                   .code = kernel->code,
                   .arena = k->arena,
                   .diag = k->diag,
                   .device = k->device,
                   .narrays = plan_arguments(kernel->plan)};
    Job *r = &k->job;
    c->compile_ms = kernel->compile_ms;
    c->state = BENCH_FAILED;
    c->why = "the reason is in the messages";
    if (!job_bind_sizes(r) || !job_find_reference(r)) return false;
    const char *why = share_arrays(k, model);
    if (why) {
        c->why = arena_printf(model->arena, "%s", why);
        return false;
    }
    if (job_prepare(r) || job_copy_in(r)) return false;
    double start = rt_now_ms();
    if (job_launch(r)) return false;
    c->first_ms = r->times.prepare + (rt_now_ms() - start);
    c->compile_ms += r->times.load;
    c->convert_ms = 0;
    if (job_copy_out(r)) return false;
    if (r->guard) {
        c->state = BENCH_WRONG;
        c->why = arena_printf(model->arena, "it wrote %s", r->guard);
        return false;
    }
    c->state = BENCH_NOT_TRIED; // the contest compares
    return true;
}

static bool turn(BenchRival *rival, const BenchOrder *o, Arena *a, BenchTurn *t, BenchSpan *span,
                 const char **why)
{
    KernelRival *k = rival->self;
    RtError e = {0};
    RtSampling s = {.idle_s = o->idle_s,
                    .load_s = o->load_s,
                    .min_s = o->min_s,
                    .warmup = o->warmup,
                    .repeat = o->repeat,
                    .group = o->group,
                    .graph = o->method == BENCH_GRAPH,
                    .cold_bytes = o->cold_bytes};
    RtSamples out = {.ms = ARENA_ARRAY(a, double, o->repeat)};
    if (rt_sample(k->job.launch, NULL, &s, &out, &e) != BATON_OK) {
        *why = arena_printf(a, "%s", e.text);
        return false;
    }
    for (int i = 0; i < o->repeat; i++) vec_push(a, &t->ms, out.ms[i]);
    t->group = out.group;
    t->host_ms = out.host_ms;
    t->host_bound = out.host_bound;
    t->load_ms = out.load_ms;
    *span = (BenchSpan){out.t0, out.t1, out.t2};
    return true;
}

static bool again(BenchRival *rival)
{
    KernelRival *k = rival->self;
    return job_copy_out(&k->job) == EXIT_RIGHT;
}

static void leave(BenchRival *rival)
{
    KernelRival *k = rival->self;
    if (!k->arena) return;
    ref_end(&k->job.job);
    job_leave_device(&k->job);
    buf_free(&k->job.hazard_text);
    arena_free(k->arena); // blocks are the model's
    k->arena = NULL;
}

BenchRival *bench_kernel_rival(Arena *a, const BenchKernel *k, RtDevice *device,
                               const JobOptions *options, Diag *d)
{
    static const BenchRivalOps ops = {enter, turn, again, leave};
    KernelRival *self = ARENA_NEW(a, KernelRival);
    *self = (KernelRival){.kernel = k, .device = device, .options = options, .diag = d};
    BenchRival *r = ARENA_NEW(a, BenchRival);
    *r = (BenchRival){&ops, k->impl, self};
    return r;
}
