// fake_cuda.c - a libcuda.so.1 without a GPU: device memory is host memory, a module is its PTX
// text, launches are written down. Calls fail where the test's script says so. Only for tests; its
// state is global because the driver's interface has no handle for it.
//
// Parameters of a kernel are read out of its PTX (`.entry NAME(.param .u64 a, ...)`), so that a
// launch copies exactly the bytes that the real driver would.
#include "fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The prototypes are private to the program under test (rt/driver.h); these are the driver's names.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static FakeCuda state = {.devices = 1, .major = 9, .minor = 0, .driver_version = 13000};

static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;

FakeCuda *fake_cuda(void) { return &state; }

static const char magic[] = "FAKE-CUBIN ";

// The code that the script wants from `symbol`, or 0.
static int scripted(const char *symbol)
{
    if (!state.fail || strcmp(state.fail, symbol) != 0) return 0;
    if (state.fail_after > 0) {
        state.fail_after--;
        return 0;
    }
    return state.fail_code;
}

#define SCRIPTED()                     \
    do {                               \
        int scripted_code = scripted(__func__); \
        if (scripted_code) return scripted_code; \
    } while (0)
#define IN_CONTEXT()                             \
    do {                                         \
        if (!state.depth) state.outside_context++; \
        SCRIPTED();                              \
    } while (0)

// ---- the driver and its devices --------------------------------------------------------------

int cuInit(unsigned flags)
{
    SCRIPTED();
    return flags ? 1 : 0;
}

int cuDriverGetVersion(int *out)
{
    SCRIPTED();
    *out = state.driver_version;
    return 0;
}

int cuGetErrorName(int r, const char **out)
{
    *out = r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *out ? 0 : 1;
}

int cuGetErrorString(int r, const char **out)
{
    *out = r == 2 ? "out of memory" : r == 700 ? "an illegal memory access was encountered" : NULL;
    return *out ? 0 : 1;
}

int cuDeviceGetCount(int *out)
{
    SCRIPTED();
    *out = state.devices;
    return 0;
}

int cuDeviceGet(int *device, int number)
{
    SCRIPTED();
    if (number < 0 || number >= state.devices) return 101;
    *device = number + 40; // handles are not numbers
    return 0;
}

int cuDeviceGetName(char *out, int bytes, int device)
{
    SCRIPTED();
    if (device < 40 || bytes < 9) return 1;
    memcpy(out, "Fake GPU", 9);
    return 0;
}

int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    SCRIPTED();
    if (device < 40) return 101;
    *out = attribute == 16 ? 132 : attribute == 75 ? state.major : attribute == 76 ? state.minor
         : attribute == 97 ? 232448 : attribute == 38 ? 50 << 20 : attribute == 13 ? 1980000 : -1;
    return *out < 0;
}

int cuDeviceGetPCIBusId(char *out, int bytes, int device)
{
    SCRIPTED();
    return snprintf(out, (size_t)bytes, "0000:%02x:00.0", device - 40 + 0x17) >= bytes;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    SCRIPTED();
    *out = &state;
    state.contexts++;
    return device < 40;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    state.contexts--;
    return device < 40;
}

int cuCtxPushCurrent_v2(void *c)
{
    SCRIPTED();
    __atomic_add_fetch(&state.depth, 1, __ATOMIC_SEQ_CST);
    return c != &state;
}

int cuCtxPopCurrent_v2(void **out)
{
    __atomic_sub_fetch(&state.depth, 1, __ATOMIC_SEQ_CST);
    *out = &state;
    return 0;
}

// ---- time ---------------------------------------------------------------------------------------

// The device works off its queue: what is put in begins when the host has put it there and all
// before it has ended. Without launch_ns a launch takes 0 to 4 ms in turn, a record 1 ms, and the
// host no time.
static uint64_t host_ns, device_ns;

static void queue(uint64_t ns)
{
    host_ns += state.call_ns;
    if (device_ns < host_ns) device_ns = host_ns;
    device_ns += ns;
}

static void wait_until(uint64_t ns)
{
    if (host_ns < ns) host_ns = ns;
}

// A stream is a recording of a graph when it is the one that was begun last.
typedef struct {
    int launches;
    uint64_t ns;
    bool ready;                // may be launched
} Graph;
static Graph *recording;
static void *recorded_stream;

static bool recorded(void *stream, uint64_t ns, int launches)
{
    if (!recording || stream != recorded_stream) return false;
    recording->ns += ns;
    recording->launches += launches;
    state.recorded += launches;
    return true;
}

// ---- memory -------------------------------------------------------------------------------------

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
    IN_CONTEXT();
    void *p = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    if (!p) return 2;
    *out = (uint64_t)(uintptr_t)p;
    state.allocations++;
    return 0;
}

int cuMemFree_v2(uint64_t p)
{
    IN_CONTEXT();
    free((void *)(uintptr_t)p);
    state.allocations--;
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    IN_CONTEXT();
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    IN_CONTEXT();
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream)
{
    IN_CONTEXT();
    if (recorded(stream, state.fill_ns, 0)) return 0;
    queue(state.fill_ns);
    memset((void *)(uintptr_t)to, byte, bytes);
    state.fills++;
    state.last_fill = (void *)(uintptr_t)to;
    state.last_fill_bytes = bytes;
    return 0;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    IN_CONTEXT();
    (void)stream;
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return 0;
}

// ---- code ---------------------------------------------------------------------------------------

// Writes `text` into the buffer that option `which` gives, cut to the size that option which + 1
// gives, and the length back into that, as the driver does.
static void write_log(const char *text, int which, unsigned n, const int *options, void **values)
{
    char *log = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == which) log = values[i];
        if (options[i] != which + 1) continue;
        size_t length = strlen(text) < (size_t)values[i] ? strlen(text) : (size_t)values[i];
        if (log) memcpy(log, text, length);
        values[i] = (void *)length;
    }
}

// Text is PTX, which is assembled; machine code starts with the magic or is an image. A module is a copy of it.
int cuModuleLoadDataEx(void **out, const void *code, unsigned n, const int *options, void **values)
{
    int failed = scripted(__func__);
    if (!state.depth) state.outside_context++;
    if (failed) {
        if (state.error_log) write_log(state.error_log, 5, n, options, values);
        return failed;
    }
    bool ready = !strncmp(code, magic, sizeof magic - 1) || !strncmp(code, "\177ELF", 4);
    if (!ready && !strstr(code, ".entry ")) return 200;
    if (!ready) {
        state.assembled++;
        const char *log = state.info_log ? state.info_log : getenv("FAKE_CUDA_LOG");
        if (!log) log = "fake info: 32 registers, 0 bytes spilled\n";
        write_log(log, 3, n, options, values);
    }
    *out = strdup(code);
    state.loaded++;
    return 0;
}

int cuModuleUnload(void *m)
{
    free(m);
    state.unloaded++;
    return 0;
}

// A function is the place of its name in the module's text.
int cuModuleGetFunction(void **out, void *module, const char *name)
{
    IN_CONTEXT();
    size_t n = strlen(name);
    for (char *p = module; (p = strstr(p, ".entry ")); p++) {
        if (strncmp(p + 7, name, n) != 0 || p[7 + n] != '(') continue;
        *out = p + 7;
        return 0;
    }
    return 500;
}

static int local_bytes(void)
{
    const char *text = getenv("FAKE_CUDA_LOCAL");
    return state.local_bytes || !text ? state.local_bytes : atoi(text);
}

int cuFuncGetAttribute(int *out, int attribute, void *f)
{
    SCRIPTED();
    (void)f;
    *out = attribute == 4 ? 32 : attribute == 3 ? local_bytes() : 0;
    return 0;
}

int cuFuncSetAttribute(void *f, int attribute, int value)
{
    IN_CONTEXT();
    (void)f;
    if (attribute != 8) return 1;
    state.max_dynamic_shared = value;
    return 0;
}

int cuFuncGetParamInfo(void *f, size_t index, size_t *offset, size_t *bytes)
{
    const char *end = strchr(f, ')');
    const char *p = f;
    for (size_t i = 0;; i++) {
        p = strstr(p, ".param ");
        if (!p || p > end) return 1;
        p += 7;
        if (i == index) break;
    }
    *offset = 0;
    *bytes = strncmp(p, ".u64", 4) == 0 ? 8 : strncmp(p, ".align 64 .b8", 13) == 0 ? 128 : 4;
    return 0;
}

// ---- launches -----------------------------------------------------------------------------------

typedef struct {
    uint32_t grid[3], block[3], shared_bytes;
    void *stream;
    const struct {
        int id;
        char pad[4];
        uint32_t value[16];
    } *attributes;
    uint32_t nattributes;
} Config;

static uint64_t launch_time(void)
{
    uint64_t turn = (uint64_t)state.nlaunches % 5;
    return state.launch_ns ? state.launch_ns + turn * state.launch_step_ns : turn * 1000000;
}

int cuLaunchKernelEx(const Config *c, void *f, void **params, void **extra)
{
    IN_CONTEXT();
    if (extra) return 1;
    FakeLaunch l = {.shared_bytes = c->shared_bytes, .stream = c->stream};
    memcpy(l.kernel, f, strcspn(f, "("));
    memcpy(l.grid, c->grid, sizeof l.grid);
    memcpy(l.block, c->block, sizeof l.block);
    for (uint32_t i = 0; i < c->nattributes; i++)
        if (c->attributes[i].id == 4) l.cluster = c->attributes[i].value[0];
    size_t offset, bytes;
    while (!cuFuncGetParamInfo(f, (size_t)l.nparams, &offset, &bytes)) {
        memcpy(l.param[l.nparams], params[l.nparams], bytes);
        l.nparams++;
    }
    pthread_mutex_lock(&record_lock);
    if (!strcmp(l.kernel, "baton_hold")) {
        state.holds++;
        memcpy(&state.held_ns, l.param[0], sizeof state.held_ns);
        queue(state.held_ns);
    } else if (!recorded(c->stream, launch_time(), 1)) {
        queue(launch_time());
        state.launch[state.nlaunches++ % FAKE_LAUNCHES] = l;
    }
    pthread_mutex_unlock(&record_lock);
    return 0;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    IN_CONTEXT();
    if (!stream || mode != 1 || recording) return 900;
    recording = calloc(1, sizeof *recording);
    recorded_stream = stream;
    state.graphs++;
    return 0;
}

int cuStreamEndCapture(void *stream, void **out)
{
    if (!recording || stream != recorded_stream) return 901;
    *out = recording;
    recording = NULL;
    SCRIPTED();
    return 0;
}

int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags)
{
    IN_CONTEXT();
    Graph *g = malloc(sizeof *g);
    *g = *(Graph *)graph;
    g->ready = true;
    state.graphs++;
    *out = g;
    return flags != 0;
}

int cuGraphUpload(void *graph, void *stream)
{
    IN_CONTEXT();
    (void)stream;
    return !((Graph *)graph)->ready;
}

int cuGraphLaunch(void *graph, void *stream)
{
    IN_CONTEXT();
    Graph *g = graph;
    if (!g->ready || (recording && stream == recorded_stream)) return 1;
    queue(g->ns);
    state.replays++;
    return 0;
}

static int free_graph(void *graph)
{
    free(graph);
    state.graphs--;
    return 0;
}

int cuGraphExecDestroy(void *graph) { return free_graph(graph); }
int cuGraphDestroy(void *graph) { return free_graph(graph); }

int cuTensorMapEncodeTiled(void *out, int type, uint32_t rank, void *base, const uint64_t *dim,
                           const uint64_t *stride, const uint32_t *box,
                           const uint32_t *element_stride, int interleave, int swizzle, int l2,
                           int fill)
{
    SCRIPTED();
    (void)l2;
    if (interleave || fill || rank < 1 || rank > 5) return 1;
    FakeMap m = {.type = type, .rank = (int)rank, .swizzle = swizzle, .base = base,
                 .aligned = (uintptr_t)out % 64 == 0};
    for (uint32_t i = 0; i < rank; i++) {
        m.dim[i] = dim[i];
        m.box[i] = box[i];
        if (i) m.stride[i - 1] = stride[i - 1];
        if (element_stride[i] != 1) return 1;
    }
    memset(out, 0x5a, 128);
    pthread_mutex_lock(&record_lock);
    memcpy(out, &state.nmaps, sizeof state.nmaps); // so that a launch shows which map it got
    state.map[state.nmaps++ % FAKE_MAPS] = m;
    pthread_mutex_unlock(&record_lock);
    return 0;
}

// FAKE_CUDA_HANG=N: the process's launch number N never ends.
int cuStreamSynchronize(void *stream)
{
    IN_CONTEXT();
    const char *hang = getenv("FAKE_CUDA_HANG");
    while (hang && state.nlaunches >= atoi(hang)) pause();
    (void)stream;
    wait_until(device_ns);
    return 0;
}

int cuStreamCreate(void **out, unsigned flags)
{
    IN_CONTEXT();
    *out = flags == 1 ? calloc(1, 1) : NULL;
    return !*out;
}

int cuStreamDestroy_v2(void *stream)
{
    IN_CONTEXT();
    free(stream);
    return 0;
}

typedef struct {
    uint64_t at;               // when it passes, on the device's clock
} Event;

int cuEventCreate(void **out, unsigned flags)
{
    IN_CONTEXT();
    *out = calloc(1, sizeof(Event));
    state.events++;
    return flags ? 1 : 0;
}

int cuEventRecord(void *e, void *stream)
{
    IN_CONTEXT();
    (void)stream;
    queue(state.launch_ns ? 0 : 1000000);
    ((Event *)e)->at = device_ns;
    return 0;
}

int cuEventQuery(void *e)
{
    IN_CONTEXT();
    return ((Event *)e)->at <= host_ns ? 0 : 600;
}

int cuEventSynchronize(void *e)
{
    IN_CONTEXT();
    if (!e) return 1;
    wait_until(((Event *)e)->at);
    return 0;
}

int cuEventElapsedTime(float *out, void *from, void *to)
{
    *out = (float)((double)(((Event *)to)->at - ((Event *)from)->at) / 1e6);
    return 0;
}

int cuEventDestroy_v2(void *e)
{
    free(e);
    state.events--;
    return 0;
}
