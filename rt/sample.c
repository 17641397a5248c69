// sample.c - one turn of a launch on a device. Input: a prepared launch and the order of the turn.
// Output: milliseconds of each sample, and whether they are the device's alone.
//
// The head start. A sample is true when the device never waited for the host in it. So work is put
// into the stream ahead of time, behind a kernel of one thread that looks at the clock until some
// milliseconds have passed (the hold). A kernel and no other way to make a stream wait: it keeps
// the card awake, as the load in front of a sample does, while a stream that waits for the host
// lets it fall asleep; one thread of one multiprocessor draws no power that a meter would show; it
// ends by itself, so that a full queue is no deadlock; and the peers are held in the same way.
//
// Where the device is slower than the host by half, one hold is enough and the samples follow the
// load without a gap. Where it is not, samples come in batches that fit in the driver's queue, with
// a hold in front of each. Either way a batch is queued before the one before it is read.
//
// Proof instead of trust: when the last mark of a sample has been queued, its first mark must not
// have passed. Then all that the sample consists of was waiting when it began.
#include "sample.h"

#include <math.h>
#include <time.h>

enum {
    QUEUE = 400,           // launches and marks of a batch: two batches fit in the driver's queue
    BATCH = 256,           // samples of a batch at most
    MAX_GROUP = 20000,     // launches of a sample
    TRIES = 3,             // samples from which speeds are found out
};
static const double chunk_ms = 10;      // of load between two looks at it
static const double max_hold_ms = 20;   // of queueing that is believed

static const char hold_ptx[] = ".version 8.0\n"
                               ".target sm_90\n"
                               ".address_size 64\n"
                               ".visible .entry baton_hold(.param .u64 ns)\n"
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
    const RtLaunch *launch;
    RtDevice *device;
    void *stream;
    const RtSampling *order;
    RtError *error;
    Arena *arena;
    int group;
    void *graph;           // of `group` launches, or NULL
    void *cold;            // order->cold_bytes of device memory, or NULL

    RtModule *hold_module; // NULL on a device that does not queue
    RtKernelLaunch hold;
    RtArg hold_ns;         // its argument

    double host_ms;        // that the host needs to queue one sample, found by trying
    double device_ms;      // that the sample takes on the device
    bool ahead;            // the host is faster by so much that one hold is enough
    int batch;             // samples of one
    void **marks[2];       // of two batches: see mark_before and mark_behind
    int nmarks;            // of one batch
    double span_ms;        // from the first sample's beginning to the last one's end
    void *load_from, *load_to, *first, *look[2]; // further marks
    RtSamples *out;
} Sampler;

// The fields above that are marks, for making and freeing.
static void **further_mark(Sampler *s, int i)
{
    void **const mark[] = {&s->load_from, &s->load_to, &s->first, &s->look[0], &s->look[1]};
    return i < COUNT(mark) ? mark[i] : NULL;
}

// ---- pieces of work -----------------------------------------------------------------------------

// Neighbours share a mark, except where something stands between them.
static void *mark_before(const Sampler *s, void **marks, int i)
{
    return marks[s->cold ? 2 * i : i];
}
static void *mark_behind(const Sampler *s, void **marks, int i)
{
    return marks[s->cold ? 2 * i + 1 : i + 1];
}

static baton_status put_mark(Sampler *s, void *mark)
{
    return s->device->ops->mark(s->device, mark, s->stream, s->error);
}

static baton_status put_hold(Sampler *s, double ms)
{
    if (!s->hold_module) return BATON_OK;
    // The argument is read when the kernel is put into the stream.
    s->hold_ns.value = (i64)(ms * 1e6);
    return s->device->ops->launch(s->device, &s->hold, s->stream, s->error);
}

// The work of one sample.
static baton_status put_sample(Sampler *s)
{
    if (s->graph)
        return s->device->ops->graph_launch(s->device, s->graph, s->stream, s->error);
    baton_status r = BATON_OK;
    for (int i = 0; i < s->group && !r; i++) r = rt_launch(s->launch, s->stream, s->error);
    return r;
}

// Sample `i` of a batch with its marks; the first mark of a batch without fills is there already.
static baton_status put_timed(Sampler *s, void **marks, int i)
{
    baton_status r = BATON_OK;
    if (s->cold) {
        r = s->device->ops->fill(s->device, s->cold, 0, (size_t)s->order->cold_bytes, s->stream,
                                 s->error);
        if (!r) r = put_mark(s, mark_before(s, marks, i));
    }
    if (!r) r = put_sample(s);
    if (!r) r = put_mark(s, mark_behind(s, marks, i));
    return r;
}

static baton_status between(Sampler *s, void *from, void *to, double *ms)
{
    return s->device->ops->mark_ms(s->device, from, to, ms, s->error);
}

// Long enough to queue `samples` three times over.
static double hold_for(const Sampler *s, int samples)
{
    return MIN(0.5 + 3 * s->host_ms * samples, max_hold_ms);
}

// ---- finding out --------------------------------------------------------------------------------

// Records the launches of a sample as a graph, in place of the one before. On a stream of its own:
// the default one cannot be recorded.
static baton_status make_graph(Sampler *s)
{
    RtDevice *d = s->device;
    void *stream = NULL;
    d->ops->graph_free(d, s->graph);
    s->graph = NULL;
    baton_status r = d->ops->stream_new(d, &stream, s->error);
    if (!r) r = d->ops->graph_begin(d, stream, s->error);
    if (!r) {
        baton_status in = BATON_OK, end;
        for (int i = 0; i < s->group && !in; i++) in = rt_launch(s->launch, stream, s->error);
        RtError ignored;
        end = d->ops->graph_end(d, stream, &s->graph, in ? &ignored : s->error);
        r = in ? in : end;
    }
    if (!r) r = d->ops->sync(d, stream, s->error);
    d->ops->stream_free(d, stream);
    return r;
}

static baton_status set_group(Sampler *s, int group)
{
    s->group = group;
    return s->order->graph ? make_graph(s) : BATON_OK;
}

// Takes some samples under a hold, with the marks of a batch, and keeps the shortest on the device
// and on the host: a host that was interrupted would look slow.
static baton_status try_samples(Sampler *s)
{
    int n = s->device->ops->queues ? TRIES : 1;
    void **marks = s->marks[0];
    s->host_ms = s->device_ms = INFINITY;
    baton_status r = put_hold(s, 2);
    if (!r && !s->cold) r = put_mark(s, marks[0]);
    for (int i = 0; i < n && !r; i++) {
        double start = rt_now_ms();
        r = put_timed(s, marks, i);
        s->host_ms = MIN(s->host_ms, rt_now_ms() - start);
    }
    for (int i = 0; i < n && !r; i++) {
        double ms;
        r = between(s, mark_before(s, marks, i), mark_behind(s, marks, i), &ms);
        s->device_ms = MIN(s->device_ms, ms);
    }
    return r;
}

// The shortest sample decides, so that the group is large enough for all. Groups grow from below,
// since launches behind each other take less time than one between two marks, hence the 0.999.
static baton_status choose_group(Sampler *s)
{
    baton_status r = set_group(s, 1);
    while (!r) {
        r = try_samples(s);
        if (r || s->device_ms >= RT_SAMPLE_MS || s->group >= MAX_GROUP || s->cold) break;
        double more = s->device_ms > 0 ? ceil(0.999 * s->group * RT_SAMPLE_MS / s->device_ms)
                                       : MAX_GROUP;
        r = set_group(s, (int)MIN(MAX(more, s->group + 1.0), (double)MAX_GROUP));
    }
    return r;
}

// Group, speed of host and device, and the size of batches. The first launch of all may take longer
// on the host, so it is not looked at.
static baton_status find_out(Sampler *s)
{
    const RtSampling *o = s->order;
    bool queues = s->device->ops->queues;
    baton_status r = queues ? rt_launch(s->launch, s->stream, s->error) : BATON_OK;
    if (!r && o->group) {
        r = set_group(s, o->group);
        if (!r && queues) r = try_samples(s);
    } else if (!r) {
        r = choose_group(s);
    }
    s->ahead = s->host_ms * 2 <= s->device_ms;
    int entries = (s->graph ? 1 : s->group * s->launch->nsteps) + 2;
    s->batch = s->ahead ? BATCH : MAX(1, MIN(QUEUE / entries, (int)BATCH));
    return r;
}

// ---- the turn -----------------------------------------------------------------------------------

static void sleep_s(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left)) continue;
}

// How many times the work of a sample makes a chunk.
static i64 chunk_samples(const Sampler *s)
{
    if (!s->device->ops->queues || s->device_ms <= 0) return 1;
    return (i64)MIN(MAX(chunk_ms / s->device_ms, 1.0), 1e5);
}

// Runs the work of `samples` samples or more without timing, in chunks that the host looks at one
// behind, until the device has got `ms` past the mark `from`. Leaves the last chunks running.
static baton_status run_on(Sampler *s, void *from, i64 samples, double ms)
{
    bool queues = s->device->ops->queues;
    i64 done = 0;
    double passed = 0;
    baton_status r = BATON_OK;
    for (i64 k = 0; !r && (done < samples || passed < ms); k++) {
        i64 chunk = chunk_samples(s), left = samples - done;
        if (ms <= 0 && left < 2 * chunk) chunk = left;
        for (i64 i = 0; i < chunk && !r; i++) r = put_sample(s);
        done += chunk;
        if (!r) r = put_mark(s, s->look[k & 1]);
        // Nothing to wait for: the host stays ahead by all that it has queued.
        if (r || (ms <= 0 && done >= samples)) break;
        void *look = queues ? s->look[(k + 1) & 1] : s->look[k & 1];
        if (k || !queues) r = between(s, from, look, &passed);
    }
    return r;
}

static baton_status put_batch(Sampler *s, void **marks, int n, bool begins)
{
    RtDevice *d = s->device;
    baton_status r = BATON_OK;
    bool loaded = s->order->warmup || s->order->load_s > 0;
    if (!s->ahead || (begins && !loaded)) r = put_hold(s, hold_for(s, n));
    double start = rt_now_ms();
    if (!r && begins) r = put_mark(s, s->first);
    if (!r && !s->cold) r = put_mark(s, marks[0]);
    for (int i = 0; i < n && !r; i++) {
        bool begun = false;
        r = put_timed(s, marks, i);
        if (!r && d->ops->queues)
            r = d->ops->passed(d, mark_before(s, marks, i), &begun, s->error);
        s->out->late += begun;
    }
    s->out->host_ms += rt_now_ms() - start;
    return r;
}

static baton_status read_batch(Sampler *s, void **marks, int n, double *ms)
{
    baton_status r = BATON_OK;
    for (int i = 0; i < n && !r; i++) {
        r = between(s, mark_before(s, marks, i), mark_behind(s, marks, i), &ms[i]);
        ms[i] /= s->group;
    }
    return r;
}

static baton_status take_load(Sampler *s)
{
    const RtSampling *o = s->order;
    if (!o->warmup && o->load_s <= 0) return BATON_OK;
    baton_status r = BATON_OK;
    if (s->ahead) r = put_hold(s, hold_for(s, s->batch));
    if (!r) r = put_mark(s, s->load_from);
    i64 samples = (o->warmup + s->group - 1) / s->group;
    if (!r) r = run_on(s, s->load_from, samples, o->load_s * 1e3);
    if (!r) r = put_mark(s, s->load_to);
    return r;
}

// The span on the host's clock: its end is seen by the host, who waits for it; its length is the
// device's.
static baton_status read_span(Sampler *s, void *last)
{
    double load = 0;
    baton_status r = between(s, s->first, last, &s->span_ms);
    s->out->t1 = rt_now_ms();
    s->out->t0 = s->out->t1 - s->span_ms;
    bool loaded = s->order->warmup || s->order->load_s > 0;
    if (!r && loaded) r = between(s, s->load_from, s->load_to, &load);
    s->out->load_ms = load;
    return r;
}

// All batches; the last one is read when a first chunk of the launches behind it is in the stream.
static baton_status take_samples(Sampler *s)
{
    const RtSampling *o = s->order;
    baton_status r = BATON_OK;
    int n = 0, before = 0;      // samples of this batch and of the one before
    for (int done = 0, k = 0; done < o->repeat && !r; done += n, k++) {
        n = MIN(s->batch, o->repeat - done);
        r = put_batch(s, s->marks[k & 1], n, done == 0);
        if (!r && before)
            r = read_batch(s, s->marks[(k + 1) & 1], before, s->out->ms + done - before);
        before = n;
        if (done + n < o->repeat || r) continue;
        void **marks = s->marks[k & 1];
        if (o->min_s > 0) r = run_on(s, s->first, chunk_samples(s), 0);
        if (!r) r = read_span(s, mark_behind(s, marks, n - 1));
        if (!r) r = read_batch(s, marks, n, s->out->ms + done);
    }
    if (!r && o->min_s * 1e3 > s->span_ms) r = run_on(s, s->first, 0, o->min_s * 1e3);
    return r;
}

// ---- beginning and end --------------------------------------------------------------------------

static baton_status check_order(const RtLaunch *l, const RtSampling *o, RtError *e)
{
    const char *why = NULL;
    if (o->repeat < 1 || o->repeat > RT_MAX_RUNS)
        return rt_fail(e, BATON_BAD_ARGUMENT, "%d samples; 1 to %d are possible", o->repeat,
                       RT_MAX_RUNS);
    if (o->warmup < 0 || o->warmup > RT_MAX_RUNS)
        return rt_fail(e, BATON_BAD_ARGUMENT, "%d warm-up launches; 0 to %d are possible",
                       o->warmup, RT_MAX_RUNS);
    if (o->group < 0 || o->group > MAX_GROUP)
        return rt_fail(e, BATON_BAD_ARGUMENT, "%d launches in a sample; 0 to %d are possible",
                       o->group, MAX_GROUP);
    if (!(o->idle_s >= 0 && o->load_s >= 0 && o->min_s >= 0))
        why = "seconds of idling and of load are 0 or more";
    else if (!l->nsteps)
        why = "nothing is launched for these sizes, so there is nothing to time";
    else if (o->cold_bytes < 0)
        why = "the bytes that make the cache cold are 0 or more";
    else if (o->cold_bytes && o->graph)
        why = "a graph cannot be timed with a cold cache: its launches follow each other without a "
              "place between them to overwrite it";
    else if (o->cold_bytes && o->group > 1)
        why = "with a cold cache a sample is one launch: the second of a group would find it warm";
    return why ? rt_fail(e, BATON_BAD_ARGUMENT, "%s", why) : BATON_OK;
}

static baton_status load_hold(Sampler *s)
{
    RtDevice *d = s->device;
    RtCode code = {.name = "the kernel that holds a stream", .ptx = hold_ptx,
                   .ptx_bytes = sizeof hold_ptx - 1};
    s->hold_ns = (RtArg){.kind = ARG_VALUE};
    baton_status r = rt_load(d, &code, &s->hold_module, NULL, s->error);
    if (r) return r;
    s->hold = (RtKernelLaunch){.module = s->hold_module, .name = "baton_hold", .grid = {1, 1, 1},
                               .block = 1, .cluster = 1, .nargs = 1, .args = &s->hold_ns};
    r = d->ops->kernel(s->hold_module, s->hold.name, &s->hold.kernel, s->error);
    return r ? r : d->ops->pack(d, s->arena, &s->hold, s->error);
}

static baton_status begin(Sampler *s)
{
    RtDevice *d = s->device;
    const RtSampling *o = s->order;
    baton_status r = d->ops->queues ? load_hold(s) : BATON_OK;
    if (!r && o->cold_bytes) r = d->ops->alloc(d, (size_t)o->cold_bytes, &s->cold, s->error);
    s->nmarks = 2 * MAX(MIN(o->repeat, (int)BATCH), (int)TRIES) + 1;
    for (int b = 0; b < 2; b++) {
        s->marks[b] = ARENA_ARRAY(s->arena, void *, s->nmarks);
        for (int i = 0; i < s->nmarks && !r; i++)
            r = d->ops->mark_new(d, &s->marks[b][i], s->error);
    }
    for (int i = 0; further_mark(s, i) && !r; i++)
        r = d->ops->mark_new(d, further_mark(s, i), s->error);
    return r;
}

// Also after a failure: what was not made is NULL. Waits, so that nothing is freed in use.
static void end(Sampler *s)
{
    RtDevice *d = s->device;
    RtError ignored;
    d->ops->sync(d, s->stream, &ignored);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < s->nmarks; i++)
            if (s->marks[b][i]) d->ops->mark_free(d, s->marks[b][i]);
    for (int i = 0; further_mark(s, i); i++)
        if (*further_mark(s, i)) d->ops->mark_free(d, *further_mark(s, i));
    d->ops->graph_free(d, s->graph);
    d->ops->release(d, s->cold);
    rt_unload(s->hold_module);
    arena_free(s->arena);
}

baton_status rt_sample(const RtLaunch *l, void *stream, const RtSampling *o, RtSamples *out,
                       RtError *e)
{
    baton_status r = check_order(l, o, e);
    if (r) return r;
    RtDevice *d = l->module->device;
    Sampler s = {.launch = l, .device = d, .stream = stream, .order = o, .error = e,
                 .arena = arena_new(0), .group = 1, .out = out};
    *out = (RtSamples){.ms = out->ms};
    r = begin(&s);
    if (!r) r = find_out(&s);
    if (!r) r = d->ops->sync(d, stream, e);
    if (!r && o->idle_s > 0) sleep_s(o->idle_s);
    if (!r) r = take_load(&s);
    if (!r) r = take_samples(&s);
    if (!r) r = d->ops->sync(d, stream, e);
    out->t2 = rt_now_ms();
    out->group = s.group;
    out->host_bound = out->late > 0;
    end(&s);
    return r;
}
