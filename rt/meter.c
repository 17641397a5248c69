// meter.c - one GPU through the driver's management library. Input: the library's name and the
// GPU's PCI address. Output: readings of clocks, power, temperature and energy, one by one or from
// a thread that watches.
//
// Each quantity is a row: the function, what it writes, its unit. What the library of a machine
// does not have, or the GPU does not answer, is NAN in every reading and named once, by opening.
//
// Invariant: after rt_meter_open only the fields of the watch change, so that the watching thread
// and the caller may read at the same time; the library allows that.
#include "meter.h"
#include "rt.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int NvResult;           // 0: success
typedef struct NvDeviceOpaque *NvDevice;

// Values of the library's enums.
enum { NV_CLOCK_SM = 1, NV_CLOCK_MEMORY = 2, NV_SENSOR_GPU = 0 };

// One row per function: field, symbol, its name in older drivers, whether nothing works without it,
// result, parameters.
#define NVML_CALLS(X)                                                                              \
    X(init, "nvmlInit_v2", NULL, true, NvResult, (void))                                           \
    X(shutdown, "nvmlShutdown", NULL, true, NvResult, (void))                                      \
    X(error_text, "nvmlErrorString", NULL, false, const char *, (NvResult r))                      \
    X(count, "nvmlDeviceGetCount_v2", NULL, false, NvResult, (u32 *out))                           \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", NULL, false, NvResult, (u32 i, NvDevice *out))    \
    X(by_pci, "nvmlDeviceGetHandleByPciBusId_v2", NULL, false, NvResult,                           \
      (const char *address, NvDevice *out))                                                        \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", NULL, false, NvResult,                        \
      (NvDevice d, u64 *out))                                                                      \
    X(power, "nvmlDeviceGetPowerUsage", NULL, false, NvResult, (NvDevice d, u32 *out))             \
    X(clock, "nvmlDeviceGetClockInfo", NULL, false, NvResult, (NvDevice d, int kind, u32 *out))    \
    X(temperature, "nvmlDeviceGetTemperature", NULL, false, NvResult,                              \
      (NvDevice d, int sensor, u32 *out))                                                          \
    X(reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                           \
      "nvmlDeviceGetCurrentClocksThrottleReasons", false, NvResult, (NvDevice d, u64 *out))        \
    X(power_limit, "nvmlDeviceGetPowerManagementLimit", NULL, false, NvResult,                     \
      (NvDevice d, u32 *out))                                                                      \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, false, NvResult,                               \
      (NvDevice d, int kind, u32 *out))                                                            \
    X(driver_version, "nvmlSystemGetDriverVersion", NULL, false, NvResult, (char *out, u32 bytes)) \
    X(uuid, "nvmlDeviceGetUUID", NULL, false, NvResult, (NvDevice d, char *out, u32 bytes))

typedef struct {
#define X(field, symbol, older, need, result, params) result(*field) params;
    NVML_CALLS(X)
#undef X
} NvCalls;

// The rows as data, with the place of each pointer in the table.
static const struct {
    const char *symbol, *older;
    bool need;
    size_t at;
} calls[] = {
#define X(field, symbol, older, need, result, params) \
    {symbol, older, need, offsetof(NvCalls, field)},
    NVML_CALLS(X)
#undef X
};

struct RtMeter {
    Arena *arena;               // holds this struct and the texts
    void *library;
    bool started;               // init succeeded
    NvCalls call;
    NvDevice device;            // NULL: no GPU, all readings are NAN
    Buf missing;                // sentences joined by "; "
    char driver[96], uuid[96];
    double power_limit, max_sm_mhz;

    // The watch. `lock` guards `stop` alone: the readings belong to the thread until it has ended.
    bool watching;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;        // on the monotonic clock
    bool stop;
    double period_ms;
    RtReading *readings;        // malloc'd
    i64 n, cap;
};

// ---- quantities ---------------------------------------------------------------------------------

// One row per quantity: its words in messages, the function that says it, what that writes, its
// arguments, and the unit in one of ours: the library has mJ and mW.
//    name          words                  function     type  arguments                 unit
#define QUANTITIES(X)                                                                   \
    X(ENERGY,       "energy",              energy,      u64, (d, &v),                  1e-3) \
    X(SM_CLOCK,     "SM clock",            clock,       u32, (d, NV_CLOCK_SM, &v),     1)    \
    X(MEMORY_CLOCK, "memory clock",        clock,       u32, (d, NV_CLOCK_MEMORY, &v), 1)    \
    X(POWER,        "power",               power,       u32, (d, &v),                  1e-3) \
    X(TEMPERATURE,  "temperature",         temperature, u32, (d, NV_SENSOR_GPU, &v),   1)    \
    X(REASONS,      "limits of the clock", reasons,     u64, (d, &v),                  1)    \
    X(POWER_LIMIT,  "power limit",         power_limit, u32, (d, &v),                  1e-3) \
    X(MAX_SM_CLOCK, "largest SM clock",    max_clock,   u32, (d, NV_CLOCK_SM, &v),     1)

typedef enum {
#define X(name, words, function, type, arguments, unit) Q_##name,
    QUANTITIES(X)
#undef X
    Q_COUNT
} Quantity;

enum { NO_FUNCTION = -1 };      // beside the library's own results, which are positive

#define X(name, words, function, type, arguments, unit)              \
    static NvResult ask_##name(const NvCalls *c, NvDevice d, u64 *raw) \
    {                                                         \
        type v = 0;                                           \
        if (!c->function) return NO_FUNCTION;                 \
        NvResult r = c->function arguments;                   \
        *raw = v;                                             \
        return r;                                             \
    }
QUANTITIES(X)
#undef X

static const struct {
    const char *words;
    NvResult (*ask)(const NvCalls *, NvDevice, u64 *);
    double unit;
} quantity[Q_COUNT] = {
#define X(name, words, function, type, arguments, unit) {words, ask_##name, unit},
    QUANTITIES(X)
#undef X
};

static double number(const RtMeter *m, Quantity q)
{
    u64 raw;
    NvResult r = quantity[q].ask(&m->call, m->device, &raw);
    return r ? NAN : (double)raw * quantity[q].unit;
}

// The counter first, between two looks at the clock: its steps are what energies are made of. The
// other answers may take milliseconds.
RtReading rt_meter_read(RtMeter *m)
{
    RtReading r = {rt_now_ms(), NAN, NAN, NAN, NAN, NAN, 0, false};
    if (!m->device) return r;
    r.joules = number(m, Q_ENERGY);
    r.ms = (r.ms + rt_now_ms()) / 2;
    r.sm_mhz = number(m, Q_SM_CLOCK);
    r.memory_mhz = number(m, Q_MEMORY_CLOCK);
    r.watts = number(m, Q_POWER);
    r.celsius = number(m, Q_TEMPERATURE);
    u64 reasons;
    r.has_reasons = !quantity[Q_REASONS].ask(&m->call, m->device, &reasons);
    if (r.has_reasons) r.reasons = reasons;
    return r;
}

const char *rt_meter_driver(const RtMeter *m) { return m->driver; }
const char *rt_meter_uuid(const RtMeter *m) { return m->uuid; }
double rt_meter_power_limit(const RtMeter *m) { return m->power_limit; }
double rt_meter_max_sm_mhz(const RtMeter *m) { return m->max_sm_mhz; }

const char *rt_meter_reasons(Arena *a, u64 reasons)
{
    static const struct {
        u64 bit;
        const char *name;
    } row[] = {
#define X(id, bit, name) {bit, name},
        RT_REASONS(X)
#undef X
    };
    char *text = NULL;
    for (int i = 0; i < COUNT(row); i++) {
        if (!(reasons & row[i].bit)) continue;
        text = arena_printf(a, "%s%s%s", text ? text : "", text ? "+" : "", row[i].name);
        reasons &= ~row[i].bit;
    }
    // A bit of a driver newer than this program.
    if (reasons)
        text = arena_printf(a, "%s%s0x%llx", text ? text : "", text ? "+" : "",
                            (unsigned long long)reasons);
    return text ? text : "none";
}

// ---- opening ------------------------------------------------------------------------------------

static void lack(RtMeter *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void lack(RtMeter *m, const char *fmt, ...)
{
    va_list ap;
    if (m->missing.n) buf_puts(&m->missing, "; ");
    va_start(ap, fmt);
    buf_vprintf(&m->missing, fmt, ap);
    va_end(ap);
}

// `what` is the function or the wish that the library answered with `r`.
static void lack_answer(RtMeter *m, const char *what, NvResult r)
{
    const char *text = m->call.error_text ? m->call.error_text(r) : NULL;
    lack(m, "%s: the management library answers %d%s%s%s", what, r, text ? " (" : "",
         text ? text : "", text ? ")" : "");
}

const char *rt_meter_missing(const RtMeter *m) { return m->missing.n ? m->missing.s : NULL; }

// False: what nothing works without is not there.
static bool fill_table(RtMeter *m, const char *library)
{
    for (int i = 0; i < COUNT(calls); i++) {
        void *f = dlsym(m->library, calls[i].symbol);
        if (!f && calls[i].older) f = dlsym(m->library, calls[i].older);
        if (!f) lack(m, "the management library %s has no %s", library, calls[i].symbol);
        if (!f && calls[i].need) return false;
        // A function pointer has the size of a data pointer wherever dlsym exists (POSIX).
        *(void **)((char *)&m->call + calls[i].at) = f;
    }
    return true;
}

// A GPU at another address is another GPU, so there is no second guess.
static void find_device(RtMeter *m, const char *pci)
{
    const NvCalls *c = &m->call;
    u32 count = 0;
    NvResult r = NO_FUNCTION;
    if (pci) {
        if (c->by_pci) r = c->by_pci(pci, &m->device);
        if (r > 0) lack_answer(m, arena_printf(m->arena, "the GPU at %s", pci), r);
    } else if (c->count && c->by_index) {
        r = c->count(&count);
        if (!r && count != 1) {
            lack(m, "the management library sees %u GPUs, and which one is meant is not known",
                 count);
            return;
        }
        if (!r) r = c->by_index(0, &m->device);
        if (r) lack_answer(m, "the only GPU", r);
    }
    if (r) m->device = NULL;
}

// A function that exists may still have no answer for this GPU.
static void find_unanswered(RtMeter *m)
{
    for (int q = 0; q < Q_COUNT; q++) {
        u64 raw;
        NvResult r = quantity[q].ask(&m->call, m->device, &raw);
        if (r > 0) lack_answer(m, quantity[q].words, r);
    }
}

static void open_library(RtMeter *m, const char *library, const char *pci)
{
    m->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) {
        const char *why = dlerror();
        lack(m, "no management library: %s", why ? why : library);
        return;
    }
    if (!fill_table(m, library)) return;
    NvResult r = m->call.init();
    m->started = !r;
    if (r) lack_answer(m, "starting", r);
    else find_device(m, pci);
}

RtMeter *rt_meter_open(const char *library, const char *pci)
{
    Arena *a = arena_new(0);
    RtMeter *m = ARENA_NEW(a, RtMeter);
    m->arena = a;
    m->power_limit = m->max_sm_mhz = NAN;
    open_library(m, library ? library : "libnvidia-ml.so.1", pci);
    if (m->started && m->call.driver_version &&
        m->call.driver_version(m->driver, sizeof m->driver))
        m->driver[0] = 0;
    if (!m->device) return m;
    if (m->call.uuid && m->call.uuid(m->device, m->uuid, sizeof m->uuid)) m->uuid[0] = 0;
    m->power_limit = number(m, Q_POWER_LIMIT);
    m->max_sm_mhz = number(m, Q_MAX_SM_CLOCK);
    find_unanswered(m);
    return m;
}

void rt_meter_close(RtMeter *m)
{
    if (!m) return;
    i64 n;
    free(rt_meter_watch_end(m, &n));
    if (m->started) m->call.shutdown();
    if (m->library) dlclose(m->library);
    buf_free(&m->missing);
    arena_free(m->arena);
}

// ---- the watch ----------------------------------------------------------------------------------

// What there is no memory for is not kept: fewer readings are no wrong ones.
static void keep(RtMeter *m, RtReading r)
{
    if (m->n == m->cap) {
        i64 cap = m->cap ? 2 * m->cap : 256;
        RtReading *more = realloc(m->readings, (size_t)cap * sizeof *more);
        if (!more) return;
        m->readings = more;
        m->cap = cap;
    }
    m->readings[m->n++] = r;
}

// Sleeps until `ms` on the clock of rt_now_ms, or until the watch ends. True: it has ended.
static bool ended_before(RtMeter *m, double ms)
{
    struct timespec until = {.tv_sec = (time_t)(ms / 1e3)};
    until.tv_nsec = (long)((ms - (double)until.tv_sec * 1e3) * 1e6);
    pthread_mutex_lock(&m->lock);
    int r = 0;
    while (!m->stop && r != ETIMEDOUT) r = pthread_cond_timedwait(&m->wake, &m->lock, &until);
    bool stop = m->stop;
    pthread_mutex_unlock(&m->lock);
    return stop;
}

// The period is kept on average: a slow answer makes the next pause shorter. The last reading comes
// after the end was asked for, so that a short watch has two.
static void *watch(void *arg)
{
    RtMeter *m = arg;
    double next = rt_now_ms();
    do {
        keep(m, rt_meter_read(m));
        next = MAX(next + m->period_ms, rt_now_ms());
    } while (!ended_before(m, next));
    keep(m, rt_meter_read(m));
    return NULL;
}

bool rt_meter_watch(RtMeter *m, double period_ms)
{
    ASSERT(!m->watching && period_ms > 0);
    if (!m->device) return true;
    pthread_condattr_t attributes;
    m->stop = false;
    m->period_ms = period_ms;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    m->watching = !pthread_create(&m->thread, NULL, watch, m);
    if (m->watching) return true;
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    return false;
}

RtReading *rt_meter_watch_end(RtMeter *m, i64 *n)
{
    *n = 0;
    if (!m->watching) return NULL;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    RtReading *readings = m->readings;
    *n = m->n;
    m->watching = false;
    m->readings = NULL;
    m->n = m->cap = 0;
    return readings;
}
