// host.c - the host steps of a plan: a function of ops/host.h fills a workspace, which goes to the
// device and stays there. Input: a function and its arguments as numbers. Output: a device address.
//
// Each module keeps its results by function and arguments, so that the second launch of the same
// sizes costs a comparison. A result is written once, before anyone sees it, and never changes;
// launches that use it are counted, and only one that nobody uses is dropped when there are many.
// Invariant: `lock` guards the list and all fields of a result but its address.
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_RESULTS = 64,                    // of one module; more only while launches use them
    KEPT_BYTES = 64 << 20,                // of device memory in them
};

struct RtHostResult {
    struct RtHostResult *next;            // the last used first
    const OpsHostFunction *function;
    i64 args[OPS_HOST_MAX_ARGS];
    void *device;                         // its address there, NULL until it is built
    size_t bytes;                         // of device memory
    int users;                            // launches that hold it
};

struct RtHostCache {
    pthread_mutex_t lock;                 // one per module: builds are rare and short
    RtHostResult *first;
    double build_ms, upload_ms;           // of all results so far
};

// Owned by the module; results are made by need.
RtHostCache *rt_host_open(void)
{
    RtHostCache *c = calloc(1, sizeof *c);
    if (c && pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        c = NULL;
    }
    return c;
}

// The address may be NULL, of a result that failed to be built.
static void drop(RtDevice *d, RtHostResult *r)
{
    d->ops->release(d, r->device);
    free(r);
}

void rt_host_close(RtDevice *d, RtHostCache *c)
{
    if (!c) return;
    for (RtHostResult *r = c->first, *next; r; r = next) {
        next = r->next;
        drop(d, r);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void rt_host_times(RtHostCache *c, double *build_ms, double *upload_ms)
{
    pthread_mutex_lock(&c->lock);
    *build_ms = c->build_ms;
    *upload_ms = c->upload_ms;
    pthread_mutex_unlock(&c->lock);
}

// ---- one result ---------------------------------------------------------------------------------

// Computes the result in host memory and copies it to the device. A copy out of ordinary memory may
// still be on its way when the call returns, and the launch may be on a stream that does not wait
// for it, so its end is awaited here.
static baton_status build(RtDevice *d, const OpsHostSize *size, RtHostResult *r, RtTimes *t,
                          RtError *e)
{
    double start = rt_now_ms();
    r->bytes = size->bytes;
    void *host = malloc(MAX(size->bytes, (size_t)1)), *scratch = malloc(size->scratch_bytes + 1);
    baton_status s = BATON_OK;
    if (!host || !scratch) {
        s = rt_fail(e, BATON_OUT_OF_MEMORY, "%zu bytes of host memory for %s",
                    size->bytes + size->scratch_bytes, r->function->name);
    } else {
        const char *why = r->function->fill(r->args, scratch, host);
        // The emulator looks; a GPU is not kept waiting for what tests have shown.
        if (!why && strcmp(d->ops->kind, "emulator") == 0)
            why = ops_host_check(r->function, r->args, size, host);
        if (why) s = rt_fail(e, BATON_BAD_ARGUMENT, "%s: %s", r->function->name, why);
    }
    double built = rt_now_ms();
    if (!s) s = d->ops->alloc(d, MAX(size->bytes, (size_t)1), &r->device, e);
    if (!s) s = d->ops->copy_in(d, r->device, host, size->bytes, e);
    if (!s) s = d->ops->sync(d, NULL, e);
    t->host += built - start;
    t->upload += rt_now_ms() - built;
    free(host);
    free(scratch);
    return s;
}

// Takes the result out of the list; NULL when it is not there.
static RtHostResult *take_out(RtHostCache *c, const OpsHostFunction *f, const i64 *args)
{
    for (RtHostResult **link = &c->first; *link; link = &(*link)->next) {
        RtHostResult *r = *link;
        if (r->function != f || memcmp(r->args, args, sizeof r->args) != 0) continue;
        *link = r->next;
        return r;
    }
    return NULL;
}

// Drops the results that were not used for longest until the rest is within the limits. Giving the
// memory back makes the driver wait for the kernels that are still reading it.
static void trim(RtDevice *d, RtHostCache *c)
{
    int n = 0;
    size_t bytes = 0;
    for (RtHostResult **link = &c->first; *link;) {
        RtHostResult *r = *link;
        bool over = ++n > KEPT_RESULTS || (bytes += r->bytes) > KEPT_BYTES;
        if (!over || r->users) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        n--;
        bytes -= r->bytes;
        drop(d, r);
    }
}

baton_status rt_host_result(RtModule *m, const OpsHostFunction *f, const i64 *args,
                            const OpsHostSize *size, RtHostResult **out, RtTimes *t, RtError *e)
{
    RtHostCache *c = m->host;
    i64 key[OPS_HOST_MAX_ARGS] = {0};
    memcpy(key, args, (size_t)f->nargs * sizeof *key);
    RtTimes mine = {0};
    baton_status s = BATON_OK;
    // Held while a result is built: another thread that wants the same one waits for it.
    pthread_mutex_lock(&c->lock);
    RtHostResult *r = take_out(c, f, key);
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r) {
            s = rt_fail(e, BATON_OUT_OF_MEMORY, "host memory for %s", f->name);
        } else {
            r->function = f;
            memcpy(r->args, key, sizeof key);
            s = build(m->device, size, r, &mine, e);
        }
        c->build_ms += mine.host;
        c->upload_ms += mine.upload;
    }
    if (s && r) {
        drop(m->device, r);
    } else if (!s) {
        r->users++;
        r->next = c->first;
        c->first = r;
        trim(m->device, c);
        *out = r;
    }
    pthread_mutex_unlock(&c->lock);
    t->host += mine.host;
    t->upload += mine.upload;
    return s;
}

void *rt_host_address(const RtHostResult *r) { return r->device; }

// The result stays in the list for the next launch of these sizes.
void rt_host_release(RtModule *m, RtHostResult *r)
{
    pthread_mutex_lock(&m->host->lock);
    r->users--;
    pthread_mutex_unlock(&m->host->lock);
}
