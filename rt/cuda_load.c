// cuda_load.c - compiled code onto a GPU: PTX through the driver's assembler into a cubin, the
// cubin into the cache and onto the device; the next time out of the cache.
//
// The assembler runs through the driver's linker, which hands out the cubin, so that no CUDA
// toolkit is needed and the second process pays nothing. Its log is asked for in full: registers
// and spills of each kernel, and every warning. A cache that cannot be read or written is a note in
// the module, never an error; an entry that the driver refuses is assembled again.
#include "driver.h"

#include <string.h>

// The verbose log has some hundred bytes a kernel; the driver cuts what does not fit.
enum { LOG_BYTES = 32 * 1024 };

// One run of the assembler: the logs must live as long as the link state.
typedef struct {
    CuLink link;
    char *info, *error;   // LOG_BYTES each
    void *code;           // owned by `link`
    size_t code_bytes;
} Assembly;

// PTX to a cubin that out->link owns. The PTX goes in with its NUL, as the driver wants it. After
// a failure out->error may say why; out->link may be open either way.
static CuResult assemble(const CudaDevice *d, Arena *a, const RtCode *c, Assembly *out)
{
    out->info = arena_alloc(a, LOG_BYTES);
    out->error = arena_alloc(a, LOG_BYTES);
    static const int option[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_BYTES, CU_JIT_ERROR_LOG,
                                 CU_JIT_ERROR_LOG_BYTES, CU_JIT_VERBOSE};
    // Sizes and flags travel in the pointer itself; the driver writes the used sizes back into the
    // array, which therefore lives in the arena. One byte stays for the NUL.
    void **value = ARENA_ARRAY(a, void *, COUNT(option));
    value[0] = out->info;
    value[1] = (void *)(uintptr_t)(LOG_BYTES - 1);
    value[2] = out->error;
    value[3] = (void *)(uintptr_t)(LOG_BYTES - 1);
    value[4] = (void *)(uintptr_t)1;
    CuResult r = d->driver.link_create(COUNT(option), option, value, &out->link);
    if (r) {
        out->link = NULL;
        return r;
    }
    r = d->driver.link_add(out->link, CU_JIT_PTX, (void *)c->ptx, c->ptx_bytes + 1, c->name,
                           0, NULL, NULL);
    return r ? r : d->driver.link_complete(out->link, &out->code, &out->code_bytes);
}

// Drops blank lines at the end, which the driver's logs have.
static void trim(char *s)
{
    size_t n = strlen(s);
    while (n && (s[n - 1] == '\n' || s[n - 1] == ' ')) s[--n] = 0;
}

// The assembler's own words when there are any; else the driver's code, told apart into "refused
// the program" and "something broke".
static baton_status assemble_failed(const CudaDevice *d, const RtCode *c, Assembly *as, CuResult r,
                                    RtError *e)
{
    trim(as->error);
    if (!*as->error) {
        baton_status s = rt_driver_fail(&d->driver, r, e, "assembling %s", c->name);
        bool refused = r == CU_ERROR_INVALID_PTX || r == CU_ERROR_NO_BINARY_FOR_GPU ||
                       r == CU_ERROR_INVALID_IMAGE;
        return e->status = refused ? BATON_NOT_ASSEMBLED : s;
    }
    return rt_fail(e, BATON_NOT_ASSEMBLED, "the driver's assembler refused %s:\n%s", c->name,
                   as->error);
}

// PTX to the device by way of the assembler; fills the cache.
// Loading comes before storing: code that the device does not take must not get into the cache.
static baton_status load_ptx(CudaModule *m, const RtCode *c, const char *cache, RtCacheKey key,
                             RtTimes *t, RtError *e)
{
    const CudaDevice *d = (const CudaDevice *)m->base.device;
    Arena *scratch = arena_new(0);
    Assembly as = {0};
    double start = rt_now_ms();
    CuResult r = assemble(d, scratch, c, &as);
    t->assemble = rt_now_ms() - start;
    baton_status s = r ? assemble_failed(d, c, &as, r, e) : BATON_OK;
    if (!s) {
        trim(as.info);
        m->base.log = arena_strndup(m->arena, as.info, strlen(as.info));
        start = rt_now_ms();
        r = d->driver.module_load(&m->module, as.code);
        t->load = rt_now_ms() - start;
        if (r) s = rt_driver_fail(&d->driver, r, e, "loading the machine code of %s", c->name);
    }
    if (!s && cache) {
        start = rt_now_ms();
        const char *note = rt_cache_put(m->arena, cache, key, as.code, as.code_bytes, m->base.log);
        if (note) m->base.cache_note = note;
        t->cache += rt_now_ms() - start;
    }
    if (as.link) d->driver.link_destroy(as.link);
    arena_free(scratch);
    return s;
}

// True when the module came out of the cache.
// A refused entry is no error: it is assembled anew and replaced.
static bool load_cached(CudaModule *m, const char *cache, RtCacheKey key, RtTimes *t)
{
    const CudaDevice *d = (const CudaDevice *)m->base.device;
    Buf code = {0}, log = {0};
    double start = rt_now_ms();
    bool found = rt_cache_get(m->arena, cache, key, &code, &log, &m->base.cache_note);
    t->cache += rt_now_ms() - start;
    if (found) {
        start = rt_now_ms();
        found = !d->driver.module_load(&m->module, code.s);
        t->load = rt_now_ms() - start;
        if (found)
            m->base.log = arena_strndup(m->arena, log.s ? log.s : "", log.n);
        else
            m->base.cache_note = "the driver refused the stored machine code";
    }
    m->base.cached = found;
    buf_free(&code);
    buf_free(&log);
    return found;
}

// Ready machine code first, then the cache, then the assembler.
static baton_status load_code(CudaModule *m, const RtCode *c, RtTimes *t, RtError *e)
{
    const CudaDevice *d = (const CudaDevice *)m->base.device;
    if (c->cubin) {
        double start = rt_now_ms();
        CuResult r = d->driver.module_load(&m->module, c->cubin);
        t->load = rt_now_ms() - start;
        return r ? rt_driver_fail(&d->driver, r, e, "loading the machine code of %s", c->name)
                 : BATON_OK;
    }
    char *cache = NULL;
    RtCacheKey key = {0};
    if (c->no_cache) {
        m->base.cache_note = "switched off";
    } else {
        double start = rt_now_ms();
        cache = rt_cache_dir(m->arena);
        key = rt_cache_key(c->ptx, c->ptx_bytes, c->options, d->driver.version);
        t->cache = rt_now_ms() - start;
        if (!cache) m->base.cache_note = "neither BATON_CACHE, XDG_CACHE_HOME nor HOME is set";
    }
    if (cache && load_cached(m, cache, key, t)) return BATON_OK;
    return load_ptx(m, c, cache, key, t, e);
}

// The module is an arena of its own: notes, log and the struct end with cuda_unload.
baton_status cuda_load(RtDevice *device, const RtCode *c, RtModule **out, RtTimes *t, RtError *e)
{
    CudaDevice *d = (CudaDevice *)device;
    *out = NULL;
    if (!c->ptx && !c->cubin)
        return rt_fail(e, BATON_BAD_FILE, "%s has neither PTX nor machine code for a GPU", c->name);
    if (!c->cubin && strlen(c->ptx) != c->ptx_bytes)
        return rt_fail(e, BATON_BAD_FILE, "%s is no PTX: it has a zero byte in it", c->name);
    Arena *arena = arena_new(0);
    CudaModule *m = ARENA_NEW(arena, CudaModule);
    m->arena = arena;
    m->base.device = device;
    m->base.log = m->base.cache_note = "";
    baton_status s = cuda_enter(d, e);
    if (!s) {
        s = load_code(m, c, t, e);
        cuda_leave(d);
    }
    if (s) {
        arena_free(arena);
        return s;
    }
    *out = &m->base;
    return BATON_OK;
}

void cuda_unload(RtModule *module)
{
    CudaModule *m = (CudaModule *)module;
    const CudaDevice *d = (const CudaDevice *)module->device;
    RtError ignored;
    if (!cuda_enter(d, &ignored)) {
        d->driver.module_unload(m->module);
        cuda_leave(d);
    }
    arena_free(m->arena);
}
