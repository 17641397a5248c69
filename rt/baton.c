// baton.c - the public library of include/baton.h on top of the runtime. Purpose: opaque handles,
// structs that may be older or newer than this file, and the sentence of the last failure.
//
// State: the handles, and one text per thread for baton_last_error (as errno is); nothing else.
// Contexts and modules do not change after they were made, so threads share them without locks.
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct baton_context {
    RtDevice *device;      // owned
    RtTimes times;         // of opening
};

struct baton_module {
    baton_context *context; // must outlive the module
    Arena *arena;          // holds this struct, the plan and the PTX
    const Plan *plan;      // read from the head of the PTX
    RtModule *code;        // owned; on the context's device
    RtTimes times;
};

// Per thread, so that a failure elsewhere cannot replace the sentence between a call and its
// reader.
static _Thread_local char last_error[sizeof ((RtError *)0)->text];

// The public element types are DType's rows. These pin the order: a row that is inserted, removed
// or moved would shift one of them.
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is " #b)
SAME(BATON_F32, DT_F32);
SAME(BATON_BF16, DT_BF16);
SAME(BATON_F8_E5M2, DT_E5M2);
SAME(BATON_S32, DT_S32);
SAME(BATON_U64, DT_U64);
SAME(BATON_S8, DT_S8);
SAME(BATON_BOOL, DT_BOOL);
SAME(BATON_BOOL + 1, DT_COUNT);
SAME(BATON_MAX_RANK, PLAN_MAX_RANK);

const char *baton_status_name(baton_status status)
{
    static const char *const name[] = {
        [BATON_OK] = "ok",
        [BATON_BAD_ARGUMENT] = "bad argument",
        [BATON_NO_DRIVER] = "no driver",
        [BATON_NO_DEVICE] = "no device",
        [BATON_WRONG_DEVICE] = "wrong device",
        [BATON_BAD_FILE] = "bad file",
        [BATON_NOT_ASSEMBLED] = "not assembled",
        [BATON_DRIVER_ERROR] = "driver error",
        [BATON_OUT_OF_MEMORY] = "out of memory",
        [BATON_HAZARD] = "hazard",
        [BATON_UNSUPPORTED] = "not supported yet",
    };
    return (unsigned)status < COUNT(name) ? name[status] : "unknown status";
}

const char *baton_last_error(void) { return last_error; }

const char *baton_version(void) { return BATON_VERSION_TEXT; }

// Keeps the sentence of a failure for baton_last_error.
static baton_status finish(const RtError *e, baton_status s)
{
    if (s) snprintf(last_error, sizeof last_error, "%s", e->text);
    return s;
}

// A failure that this file finds by itself: the caller's argument breaks a rule.
static baton_status refuse(const char *fmt, ...) PRINTF_LIKE(1, 2);
static baton_status refuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last_error, sizeof last_error, fmt, ap);
    va_end(ap);
    return BATON_BAD_ARGUMENT;
}

// ---- structs of other versions ------------------------------------------------------------------
// A struct of the caller says its size in its first field. Shorter than ours: the rest is taken as
// zero, or not written. Longer: only the part that both know is touched.

// Larger than any struct will become: beyond it the field was not set, and its neighbours must not
// be read or written.
enum { STRUCT_LIMIT = 4096 };

// The caller's struct into ours; fields that an older caller does not know are zero.
static baton_status take_struct(void *ours, size_t ours_n, const void *theirs, const char *type)
{
    size_t n;
    memcpy(&n, theirs, sizeof n);
    if (n < sizeof n || n > STRUCT_LIMIT)
        return refuse("the field size of a %s is %zu; it must be sizeof(%s) = %zu", type, n, type,
                      ours_n);
    memset(ours, 0, ours_n);
    memcpy(ours, theirs, MIN(n, ours_n));
    return BATON_OK;
}

// Our struct into the caller's, all but the size, which stays the caller's.
static baton_status give_struct(void *theirs, const void *ours, size_t ours_n, const char *type)
{
    size_t n;
    if (!theirs) return refuse("the %s is NULL", type);
    memcpy(&n, theirs, sizeof n);
    if (n < sizeof n || n > STRUCT_LIMIT)
        return refuse("the field size of a %s is %zu; it must be sizeof(%s) = %zu", type, n, type,
                      ours_n);
    size_t common = MIN(n, ours_n);
    if (common > sizeof n)
        memcpy((char *)theirs + sizeof n, (const char *)ours + sizeof n, common - sizeof n);
    return BATON_OK;
}

// ---- contexts -----------------------------------------------------------------------------------

// Nothing is kept of `info`: the driver's path is only used to open it.
baton_status baton_open(const baton_open_info *info, baton_context **out)
{
    if (!out) return refuse("baton_open: the place for the context is NULL");
    *out = NULL;
    baton_open_info mine = {.size = sizeof mine};
    baton_status s = info ? take_struct(&mine, sizeof mine, info, "baton_open_info") : BATON_OK;
    if (s) return s;
    RtError e = {0};
    RtTimes times = {0};
    RtDevice *device;
    s = rt_cuda_open(mine.driver, mine.device, &device, &times, &e);
    if (s) return finish(&e, s);
    baton_context *c = calloc(1, sizeof *c);
    if (!c) {
        device->ops->close(device);
        return refuse("baton_open: out of memory");
    }
    *c = (baton_context){device, times};
    *out = c;
    return BATON_OK;
}

void baton_close(baton_context *c)
{
    if (!c) return;
    c->device->ops->close(c->device);
    free(c);
}

// Pending errors of asynchronous work come out here, as the driver's own sentence.
baton_status baton_synchronize(baton_context *c, void *stream)
{
    RtError e = {0};
    if (!c) return refuse("baton_synchronize: the context is NULL");
    return finish(&e, c->device->ops->sync(c->device, stream, &e));
}

baton_status baton_get_device(baton_context *c, baton_device_info *info)
{
    if (!c) return refuse("baton_get_device: the context is NULL");
    const RtDevice *d = c->device;
    baton_device_info mine = {
        .major = d->major,
        .minor = d->minor,
        .driver_version = d->driver_version,
        .sm_count = d->prop[PROP_SM_COUNT],
        .shared_bytes = d->prop[PROP_SMEM_MAX],
    };
    snprintf(mine.name, sizeof mine.name, "%.*s", (int)sizeof mine.name - 1, d->name);
    return give_struct(info, &mine, sizeof mine, "baton_device_info");
}

baton_status baton_allocate(baton_context *c, size_t bytes, void **out)
{
    RtError e = {0};
    if (!c || !out) return refuse("baton_allocate: the %s is NULL", c ? "place" : "context");
    return finish(&e, c->device->ops->alloc(c->device, bytes, out, &e));
}

baton_status baton_free(baton_context *c, void *address)
{
    if (!c) return refuse("baton_free: the context is NULL");
    c->device->ops->release(c->device, address);
    return BATON_OK;
}

baton_status baton_copy_to_device(baton_context *c, void *to, const void *from, size_t bytes)
{
    RtError e = {0};
    if (!c) return refuse("baton_copy_to_device: the context is NULL");
    return finish(&e, c->device->ops->copy_in(c->device, to, from, bytes, &e));
}

baton_status baton_copy_to_host(baton_context *c, void *to, const void *from, size_t bytes)
{
    RtError e = {0};
    if (!c) return refuse("baton_copy_to_host: the context is NULL");
    return finish(&e, c->device->ops->copy_out(c->device, to, from, bytes, &e));
}

// ---- modules ------------------------------------------------------------------------------------

// A guard against the wrong file: kernels have some hundred kilobytes.
enum { FILE_LIMIT = 256 << 20 }; // bytes of a kernel file

// The plan at the head of the text; NULL with the messages in `e`.
static const Plan *find_plan(Arena *a, const char *name, const char *text, size_t n, RtError *e)
{
    Diag *d = diag_new(a);
    u16 file = diag_add_file(d, name, text, n);
    ExprPool *exprs = expr_pool_new(a, intern_new(a));
    const Plan *plan = plan_read(a, exprs, d, file, "//@ ", text, n);
    if (plan && plan_check(plan, NULL, d)) return plan;
    Buf b = {0};
    diag_print(d, &b);
    while (b.n && b.s[b.n - 1] == '\n') b.s[--b.n] = 0;
    // The count of errors at the end is for people at a terminal.
    char *count = b.s ? strrchr(b.s, '\n') : NULL;
    if (count) *count = 0;
    rt_fail(e, BATON_BAD_FILE, "%s", b.s ? b.s : name);
    buf_free(&b);
    return NULL;
}

// The plan behind the machine code of a file, or NULL. The last one: nothing stands behind it.
static const char *plan_behind(const char *image, size_t n)
{
    static const char mark[] = "\n//@ plan ";
    for (size_t at = n; at >= sizeof mark; at--)
        if (!memcmp(image + at - sizeof mark, mark, sizeof mark - 1)) return image + at - sizeof mark + 1;
    return NULL;
}

// Plan and code of one text or machine-code image. On success the module owns `a`, which holds name
// and text; on failure the caller still does.
static baton_status load_text(baton_context *c, const char *name, const char *text, size_t n,
                              Arena *a, baton_module **out)
{
    RtError e = {0};
    baton_module *m = ARENA_NEW(a, baton_module);
    m->context = c;
    m->arena = a;
    m->times = c->times;
    bool image = n >= 4 && !memcmp(text, "\177ELF", 4);
    const char *plan = image ? plan_behind(text, n) : text;
    if (!plan) {
        rt_fail(&e, BATON_BAD_FILE, "%s is machine code without a launch plan; `baton build -o "
                "FILE.cubin` puts it there", name);
        return finish(&e, e.status);
    }
    if (!image && memchr(text, 0, n)) {
        rt_fail(&e, BATON_BAD_FILE, "%s is no PTX: it has a zero byte in it", name);
        return finish(&e, e.status);
    }
    m->plan = find_plan(a, name, plan, n - (size_t)(plan - text), &e);
    if (!m->plan) return finish(&e, e.status);
    RtCode code = {.name = name, .ptx = text, .ptx_bytes = n};
    if (image) code = (RtCode){.name = name, .cubin = text, .cubin_bytes = (size_t)(plan - text)};
    baton_status s = rt_load(c->device, &code, &m->code, &m->times, &e);
    if (!s) *out = m;
    return finish(&e, s);
}

// Copies the data: the plan's texts point into it as long as the module lives.
baton_status baton_load_memory(baton_context *c, const char *name, const void *data, size_t bytes,
                               baton_module **out)
{
    if (!c || !data || !out)
        return refuse("baton_load_memory: the %s is NULL",
                      !c ? "context" : !data ? "data" : "place for the module");
    *out = NULL;
    Arena *a = arena_new(0);
    const char *text = arena_strndup(a, data, bytes);
    name = arena_printf(a, "%s", name ? name : "kernel in memory");
    baton_status s = load_text(c, name, text, bytes, a, out);
    if (s) arena_free(a);
    return s;
}

baton_status baton_load_file(baton_context *c, const char *path, baton_module **out)
{
    if (!c || !path || !out)
        return refuse("baton_load_file: the %s is NULL",
                      !c ? "context" : !path ? "path" : "place for the module");
    *out = NULL;
    Buf text = {0};
    const char *why = file_read(path, &text, FILE_LIMIT);
    if (why) {
        buf_free(&text);
        RtError e;
        return finish(&e, rt_fail(&e, BATON_BAD_FILE, "%s: %s", path, why));
    }
    baton_status s = baton_load_memory(c, path, text.s ? text.s : "", text.n, out);
    buf_free(&text);
    return s;
}

void baton_unload(baton_module *m)
{
    if (!m) return;
    rt_unload(m->code);
    arena_free(m->arena);
}

const char *baton_module_name(const baton_module *m) { return m ? m->plan->name : ""; }

int baton_parameter_count(const baton_module *m) { return m ? plan_arguments(m->plan) : 0; }

// Workspaces, which stand behind the caller's parameters, are none of the caller's business.
baton_status baton_get_parameter(const baton_module *m, int index, baton_parameter_info *info)
{
    if (!m) return refuse("baton_get_parameter: the module is NULL");
    if (index < 0 || index >= plan_arguments(m->plan))
        return refuse("baton_get_parameter: %s has no parameter %d; it has %d", m->plan->name,
                      index, plan_arguments(m->plan));
    const PlanParam *q = &m->plan->params.at[index];
    baton_parameter_info mine = {
        .name = q->name,
        .type = (baton_type)q->type,
        .scalar = q->kind == PLAN_SCALAR,
        .in = q->in,
        .out = q->out,
        .result = q->result,
        .rank = q->rank,
        .align = q->align,
    };
    return give_struct(info, &mine, sizeof mine, "baton_parameter_info");
}

baton_status baton_get_times(const baton_module *m, baton_times *times)
{
    if (!m) return refuse("baton_get_times: the module is NULL");
    const RtTimes *t = &m->times;
    baton_times mine = {.driver = t->driver, .context = t->context, .load = t->load};
    rt_host_times(m->code->host, &mine.host, &mine.upload);
    return give_struct(times, &mine, sizeof mine, "baton_times");
}

// ---- launches -----------------------------------------------------------------------------------

// The caller's arguments as the plan takes them. The array's elements are as far apart as the size
// in the first of them says.
static baton_status take_arguments(Arena *a, const baton_module *m, const baton_tensor *arguments,
                                   int count, PlanValue **out)
{
    const Plan *p = m->plan;
    if (count != plan_arguments(p))
        return refuse("%s takes %d arguments, %d were passed", p->name, plan_arguments(p), count);
    if (count && !arguments) return refuse("the array of arguments is NULL");
    PlanValue *v = *out = ARENA_ARRAY(a, PlanValue, MAX(count, 1));
    const char *at = (const char *)arguments;
    size_t step = count ? arguments->size : 0;
    for (int i = 0; i < count; i++, at += step) {
        baton_tensor t;
        baton_status s = take_struct(&t, sizeof t, at, "baton_tensor");
        if (s) return s;
        if (t.size != step)
            return refuse("argument %s says size %zu, the one before it %zu", p->params.at[i].name,
                          t.size, step);
        if (t.rank < 0 || t.rank > PLAN_MAX_RANK)
            return refuse("argument %s has %d dimensions; 0 to %d are possible",
                          p->params.at[i].name, t.rank, PLAN_MAX_RANK);
        v[i] = (PlanValue){.data = t.data, .type = (DType)t.type, .rank = t.rank,
                           .int_value = t.int_value, .float_value = t.float_value};
        for (int k = 0; k < t.rank; k++) v[i].dim[k] = t.dim[k];
    }
    return BATON_OK;
}

// Binds the arguments into a launch that lives in `a`.
static baton_status bind_arguments(Arena *a, baton_module *m, const baton_tensor *arguments,
                                   int count, RtLaunch **out)
{
    RtError e = {0};
    PlanValue *values = NULL;
    baton_status s = take_arguments(a, m, arguments, count, &values);
    if (s) return s;
    return finish(&e, rt_prepare(a, m->code, m->plan, values, out, NULL, &e));
}

// All of the launch's memory goes at once: the driver copies arguments and tensor maps during the
// call, so nothing of it is needed while the kernel runs.
baton_status baton_launch(baton_module *m, const baton_tensor *arguments, int count, void *stream)
{
    if (!m) return refuse("baton_launch: the module is NULL");
    RtError e = {0};
    RtLaunch *l = NULL;
    Arena *a = arena_new(0);
    baton_status s = bind_arguments(a, m, arguments, count, &l);
    if (!s) s = finish(&e, rt_launch(l, stream, &e));
    rt_release(l);
    arena_free(a);
    return s;
}

// Prepared once, launched many times: the preparation is not part of the times.
baton_status baton_time(baton_module *m, const baton_tensor *arguments, int count, void *stream,
                        int warmup, int runs, baton_timing *timing)
{
    if (!m) return refuse("baton_time: the module is NULL");
    RtError e = {0};
    RtLaunch *l = NULL;
    RtTiming t;
    Arena *a = arena_new(0);
    baton_status s = bind_arguments(a, m, arguments, count, &l);
    if (!s) s = finish(&e, rt_time(l, stream, warmup, runs, &t, &e));
    rt_release(l);
    arena_free(a);
    if (s) return s;
    baton_timing mine = {.median_ms = t.median_ms, .min_ms = t.min_ms, .max_ms = t.max_ms,
                         .runs = t.runs};
    return give_struct(timing, &mine, sizeof mine, "baton_timing");
}
