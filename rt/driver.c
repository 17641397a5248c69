// driver.c - opens libcuda.so.1 and fills the table of its functions. Purpose: the rest of the
// runtime calls the driver through RtDriver and never links against it. That the library is absent,
// too old or does not start is a status with a sentence.
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// Since some moment in the past: for differences only.
double rt_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// Cuts what does not fit, such as the end of a long log.
static baton_status fail_with(RtError *e, baton_status s, const char *fmt, va_list ap)
{
    e->status = s;
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    return s;
}

baton_status rt_fail(RtError *e, baton_status s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_with(e, s, fmt, ap);
    va_end(ap);
    return s;
}

// The rows as data: where each function pointer lies in the table.
static const struct {
    const char *symbol;
    size_t at;
    bool need;
} calls[] = {
#define X(field, symbol, need, params) {symbol, offsetof(RtDriver, field), need},
    RT_DRIVER_CALLS(X)
#undef X
};

// A function that is not needed may be NULL in the table; its users ask.
static baton_status fill_table(const char *path, RtDriver *d, RtError *e)
{
    for (int i = 0; i < COUNT(calls); i++) {
        void *f = dlsym(d->library, calls[i].symbol);
        if (!f && calls[i].need)
            return rt_fail(
                e, BATON_NO_DRIVER,
                "the driver library %s has no %s; a driver of CUDA 12.0 or newer is needed", path,
                calls[i].symbol);
        // A function pointer has the size of a data pointer wherever dlsym exists (POSIX).
        *(void **)((char *)d + calls[i].at) = f;
    }
    return BATON_OK;
}

// cuInit fails in its own way on a machine without a GPU, and that is not a broken driver.
static baton_status start_driver(RtDriver *d, RtError *e)
{
    CuResult r = d->init(0);
    if (r == CU_ERROR_NO_DEVICE)
        return rt_fail(e, BATON_NO_DEVICE, "the NVIDIA driver is installed but sees no GPU");
    if (r) {
        rt_driver_fail(d, r, e, "starting the NVIDIA driver");
        return e->status = BATON_NO_DRIVER;
    }
    r = d->driver_version(&d->version);
    if (r) return rt_driver_fail(d, r, e, "asking for the driver's version");
    return BATON_OK;
}

// On failure the table is empty and closed again.
baton_status rt_driver_open(const char *path, RtDriver *out, RtError *e)
{
    *out = (RtDriver){0};
    if (!path) path = "libcuda.so.1";
    // NODELETE: the driver keeps threads and exit handlers that must not lose their code.
    out->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!out->library) {
        const char *why = dlerror();
        return rt_fail(e, BATON_NO_DRIVER, "no NVIDIA driver: %s", why ? why : path);
    }
    baton_status s = fill_table(path, out, e);
    if (!s) s = start_driver(out, e);
    if (s) rt_driver_close(out);
    return s;
}

void rt_driver_close(RtDriver *d)
{
    if (d->library) dlclose(d->library);
    d->library = NULL;
}

// Names and texts come from the driver, which may not know a code of its own successor.
baton_status rt_driver_fail(const RtDriver *d, CuResult r, RtError *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    baton_status s = r == CU_ERROR_OUT_OF_MEMORY ? BATON_OUT_OF_MEMORY : BATON_DRIVER_ERROR;
    fail_with(e, s, fmt, ap);
    va_end(ap);
    const char *name = NULL, *text = NULL;
    if (d->error_name(r, &name) || !name) name = "an error without a name";
    if (d->error_text(r, &text) || !text) text = "no description";
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s (%d: %s)", name, r, text);
    return s;
}
