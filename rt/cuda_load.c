// cuda_load.c - compiled code onto a GPU: PTX, which the driver assembles, or ready machine code.
//
// PTX goes through cuModuleLoadDataEx, so no CUDA toolkit is needed. The driver keeps what it
// assembled in a cache of its own, by content and shared by all processes of the user
// (CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE, CUDA_CACHE_DISABLE=1), so the second process does not
// assemble. The assembler's log is asked for in full: registers and spills of each kernel, and
// every warning. It is empty when the code came out of the driver's cache.
//
// Not through the driver's linker (cuLinkAddData), though that would hand out the machine code:
// there the assembler works in its mode for separate compilation, ignores setmaxnreg and puts a
// wait behind every wgmma, which cost attention v2 a tenth and v4 a fifth of its speed.
#include "driver.h"

#include <string.h>

// The verbose log has some hundred bytes a kernel; the driver cuts what does not fit.
enum { LOG_BYTES = 32 * 1024 };

// Drops blank lines at the end, which the driver's logs have.
static void trim(char *s)
{
    size_t n = strlen(s);
    while (n && (s[n - 1] == '\n' || s[n - 1] == ' ')) s[--n] = 0;
}

// The assembler's own words when there are any; else the driver's code, told apart into "refused
// the program" and "something broke".
static baton_status load_failed(const CudaDevice *d, const RtCode *c, char *log, CuResult r,
                                RtError *e)
{
    trim(log);
    if (*log)
        return rt_fail(e, BATON_NOT_ASSEMBLED, "the driver's assembler refused %s:\n%s", c->name,
                       log);
    baton_status s = rt_driver_fail(&d->driver, r, e, "assembling and loading %s", c->name);
    bool refused = r == CU_ERROR_INVALID_PTX || r == CU_ERROR_NO_BINARY_FOR_GPU ||
                   r == CU_ERROR_INVALID_IMAGE;
    return e->status = refused ? BATON_NOT_ASSEMBLED : s;
}

// One call assembles and loads; `scratch` holds the logs until it is over.
static baton_status load_ptx(CudaModule *m, const RtCode *c, Arena *scratch, RtError *e)
{
    const CudaDevice *d = (const CudaDevice *)m->base.device;
    static const int option[] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_BYTES, CU_JIT_ERROR_LOG,
                                 CU_JIT_ERROR_LOG_BYTES, CU_JIT_VERBOSE};
    char *info = arena_alloc(scratch, LOG_BYTES), *error = arena_alloc(scratch, LOG_BYTES);
    // Sizes and flags travel in the pointer itself, and the driver writes the used sizes back. One
    // byte of each zeroed log stays for the NUL.
    void *value[COUNT(option)] = {info, (void *)(uintptr_t)(LOG_BYTES - 1), error,
                                  (void *)(uintptr_t)(LOG_BYTES - 1), (void *)(uintptr_t)1};
    CuResult r = d->driver.module_load(&m->module, c->ptx, COUNT(option), option, value);
    if (r) return load_failed(d, c, error, r, e);
    trim(info);
    m->base.log = arena_strndup(m->arena, info, strlen(info));
    return BATON_OK;
}

// Ready machine code comes before PTX.
static baton_status load_code(CudaModule *m, const RtCode *c, RtError *e)
{
    const CudaDevice *d = (const CudaDevice *)m->base.device;
    if (c->cubin) {
        CuResult r = d->driver.module_load(&m->module, c->cubin, 0, NULL, NULL);
        return r ? rt_driver_fail(&d->driver, r, e, "loading the machine code of %s", c->name)
                 : BATON_OK;
    }
    Arena *scratch = arena_new(0);
    baton_status s = load_ptx(m, c, scratch, e);
    arena_free(scratch);
    return s;
}

// The module is an arena of its own: log and the struct end with cuda_unload.
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
    m->base.log = "";
    baton_status s = cuda_enter(d, e);
    if (!s) {
        double start = rt_now_ms();
        s = load_code(m, c, e);
        t->load = rt_now_ms() - start;
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
