// driver.h - the NVIDIA driver as one table of functions, filled from libcuda.so.1 when the program
// runs. Declares the little of the driver's interface that the runtime needs in its own words, so
// that baton builds on a machine that has never seen CUDA.
#ifndef BATON_RT_DRIVER_H
#define BATON_RT_DRIVER_H

#include "rt.h"

// Handles are pointers of distinct types, so that the compiler tells them apart.
typedef int CuResult;           // 0: success
typedef u64 CuAddress;          // on the device
typedef struct CuContextOpaque *CuContext;
typedef struct CuModuleOpaque *CuModule;
typedef struct CuFunctionOpaque *CuFunction;
typedef struct CuStreamOpaque *CuStream;
typedef struct CuEventOpaque *CuEvent;
typedef struct CuGraphOpaque *CuGraph;         // a graph as recorded
typedef struct CuGraphExecOpaque *CuGraphExec; // ready to be launched

// Values of the driver's enums that the runtime uses.
enum {
    CU_OK = 0,
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NO_DEVICE = 100,
    CU_ERROR_INVALID_DEVICE = 101,
    CU_ERROR_INVALID_IMAGE = 200,
    CU_ERROR_NO_BINARY_FOR_GPU = 209,
    CU_ERROR_INVALID_PTX = 218,
    CU_ERROR_NOT_FOUND = 500,
    CU_ERROR_NOT_READY = 600,

    // Device attributes.
    CU_DEVICE_CLOCK_KHZ = 13,
    CU_DEVICE_SM_COUNT = 16,
    CU_DEVICE_L2_BYTES = 38,
    CU_DEVICE_MAJOR = 75,
    CU_DEVICE_MINOR = 76,
    CU_DEVICE_SMEM_OPTIN = 97,

    // Function attributes.
    CU_FUNC_SHARED_BYTES = 1,
    CU_FUNC_LOCAL_BYTES = 3,
    CU_FUNC_REGISTERS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED = 8,

    // Options of loading a module.
    CU_JIT_INFO_LOG = 3,
    CU_JIT_INFO_LOG_BYTES = 4,
    CU_JIT_ERROR_LOG = 5,
    CU_JIT_ERROR_LOG_BYTES = 6,
    CU_JIT_VERBOSE = 12,

    CU_STREAM_NON_BLOCKING = 1, // flag: work of it does not wait for the default stream

    CU_CAPTURE_THREAD_LOCAL = 1, // calls of other threads do not disturb the recording

    CU_LAUNCH_CLUSTER = 4,      // launch attribute: extents of the cluster

    // Fields of a tensor map.
    CU_TMAP_INTERLEAVE_NONE = 0,
    CU_TMAP_L2_PROMOTION_64B = 1,
    CU_TMAP_L2_PROMOTION_128B = 2,
    CU_TMAP_L2_PROMOTION_256B = 3,
    CU_TMAP_FILL_ZERO = 0,
};

typedef struct {
    _Alignas(128) u64 word[16]; // opaque, made by cuTensorMapEncodeTiled; the driver wants 64
} CuTensorMap;

// One attribute of a launch, laid out as the driver's struct.
typedef struct {
    int id; // which attribute: CU_LAUNCH_CLUSTER
    char pad[4]; // the driver's struct has its union at byte 8
    union {
        u32 cluster[3];
        char space[64];
    } value;
} CuLaunchAttribute;

typedef struct {
    u32 grid[3], block[3], shared_bytes;
    CuStream stream;
    CuLaunchAttribute *attributes; // the driver only reads them
    u32 nattributes; // entries of `attributes`
} CuLaunchConfig;

// One row per function: field, symbol in the library, whether the runtime can live without it,
// parameters.
//   field             symbol                        need   parameters
#define RT_DRIVER_CALLS(X)                                                                        \
    X(init, "cuInit", true, (unsigned flags))                                                     \
    X(driver_version, "cuDriverGetVersion", true, (int *out))                                     \
    X(error_name, "cuGetErrorName", true, (CuResult r, const char **out))                         \
    X(error_text, "cuGetErrorString", true, (CuResult r, const char **out))                       \
    X(device_count, "cuDeviceGetCount", true, (int *out))                                         \
    X(device_get, "cuDeviceGet", true, (int *device, int number))                                 \
    X(device_name, "cuDeviceGetName", true, (char *out, int bytes, int device))                   \
    X(device_attribute, "cuDeviceGetAttribute", true, (int *out, int attribute, int device))      \
    X(context_retain, "cuDevicePrimaryCtxRetain", true, (CuContext *out, int device))             \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", true, (int device))                        \
    X(context_push, "cuCtxPushCurrent_v2", true, (CuContext c))                                   \
    X(context_pop, "cuCtxPopCurrent_v2", true, (CuContext *out))                                  \
    X(mem_alloc, "cuMemAlloc_v2", true, (CuAddress *out, size_t bytes))                           \
    X(mem_free, "cuMemFree_v2", true, (CuAddress p))                                              \
    X(copy_in, "cuMemcpyHtoD_v2", true, (CuAddress to, const void *from, size_t bytes))           \
    X(copy_out, "cuMemcpyDtoH_v2", true, (void *to, CuAddress from, size_t bytes))                \
    X(fill, "cuMemsetD8Async", true, (CuAddress to, unsigned char b, size_t bytes, CuStream s))   \
    X(module_load, "cuModuleLoadDataEx", true,                                                    \
      (CuModule *out, const void *code, unsigned n, const int *options, void **values))           \
    X(module_unload, "cuModuleUnload", true, (CuModule m))                                        \
    X(module_function, "cuModuleGetFunction", true, (CuFunction *out, CuModule m, const char *n)) \
    X(function_get, "cuFuncGetAttribute", true, (int *out, int attribute, CuFunction f))          \
    X(function_set, "cuFuncSetAttribute", true, (CuFunction f, int attribute, int value))         \
    X(function_param, "cuFuncGetParamInfo", false, /* from 12.4 on */                             \
      (CuFunction f, size_t index, size_t *offset, size_t *bytes))                                \
    X(launch, "cuLaunchKernelEx", true,                                                           \
      (const CuLaunchConfig *c, CuFunction f, void **params, void **extra))                       \
    X(encode_tiled, "cuTensorMapEncodeTiled", true,                                               \
      (CuTensorMap *out, int type, u32 rank, void *base, const u64 *dim, const u64 *stride,       \
       const u32 *box, const u32 *element_stride, int interleave, int swizzle, int l2, int fill)) \
    X(stream_create, "cuStreamCreate", true, (CuStream *out, unsigned flags))                     \
    X(stream_destroy, "cuStreamDestroy_v2", true, (CuStream s))                                   \
    X(stream_sync, "cuStreamSynchronize", true, (CuStream s))                                     \
    X(event_create, "cuEventCreate", true, (CuEvent *out, unsigned flags))                        \
    X(event_record, "cuEventRecord", true, (CuEvent e, CuStream s))                               \
    X(event_sync, "cuEventSynchronize", true, (CuEvent e))                                        \
    X(event_ms, "cuEventElapsedTime", true, (float *out, CuEvent from, CuEvent to))               \
    X(event_destroy, "cuEventDestroy_v2", true, (CuEvent e))                                      \
    /* For measuring and messages: the runtime can live without. */                               \
    X(device_pci, "cuDeviceGetPCIBusId", false, (char *out, int bytes, int device))               \
    X(event_query, "cuEventQuery", false, (CuEvent e))                                            \
    X(copy_device, "cuMemcpyDtoDAsync_v2", false,                                                 \
      (CuAddress to, CuAddress from, size_t bytes, CuStream s))                                   \
    X(capture_begin, "cuStreamBeginCapture_v2", false, (CuStream s, int mode))                    \
    X(capture_end, "cuStreamEndCapture", false, (CuStream s, CuGraph *out))                       \
    X(graph_make, "cuGraphInstantiateWithFlags", false,                                           \
      (CuGraphExec *out, CuGraph g, unsigned long long flags))                                    \
    X(graph_upload, "cuGraphUpload", false, (CuGraphExec g, CuStream s))                          \
    X(graph_launch, "cuGraphLaunch", false, (CuGraphExec g, CuStream s))                          \
    X(graph_exec_destroy, "cuGraphExecDestroy", false, (CuGraphExec g))                           \
    X(graph_destroy, "cuGraphDestroy", false, (CuGraph g))

typedef struct {
    void *library;              // handle of dlopen
    int version;                // 13000 is 13.0
#define X(field, symbol, need, params) CuResult (*field) params;
    RT_DRIVER_CALLS(X)
#undef X
} RtDriver;

// Opens the library, fills the table and starts the driver. `path` NULL: libcuda.so.1. The table is
// part of the caller's struct. Fails with NO_DRIVER, NO_DEVICE, DRIVER_ERROR.
baton_status rt_driver_open(const char *path, RtDriver *out, RtError *e);
void rt_driver_close(RtDriver *d);
// The failed call `r` as a status: "<what baton was doing>: CUDA_ERROR_X (its text)".
baton_status rt_driver_fail(const RtDriver *d, CuResult r, RtError *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

// ---- a GPU as the runtime's device (cuda.c, cuda_load.c, cuda_measure.c) ------------------------
typedef struct {
    RtDevice base;
    RtDriver driver;
    Arena *arena;               // holds this struct
    int device;                 // the driver's handle
    CuContext context;          // the primary context
} CudaDevice;

typedef struct {
    RtModule base;
    Arena *arena;               // holds this struct and its texts
    CuModule module;            // the driver's handle
} CudaModule;

// Makes the device's context the calling thread's; cuda_leave restores the one before.
baton_status cuda_enter(const CudaDevice *d, RtError *e);
void cuda_leave(const CudaDevice *d);

// Runs `call` (an expression of type CuResult) inside the context and returns its status.
#define IN_CONTEXT(d, e, call, ...)                                                    \
    do {                                                                               \
        baton_status entered = cuda_enter((d), (e));                                   \
        if (entered) return entered;                                                   \
        CuResult result = (call);                                                      \
        cuda_leave(d);                                                                 \
        return result ? rt_driver_fail(&(d)->driver, result, (e), __VA_ARGS__) : BATON_OK; \
    } while (0)

// PTX, which the driver assembles, or machine code onto the device. See RtDeviceOps.load.
baton_status cuda_load(RtDevice *device, const RtCode *c, RtModule **out, RtTimes *t, RtError *e);
void cuda_unload(RtModule *m);

// cuda_measure.c: see RtDeviceOps.
baton_status cuda_copy(RtDevice *device, void *to, const void *from, size_t bytes, void *stream,
                       RtError *e);
baton_status cuda_passed(RtDevice *device, void *mark, bool *out, RtError *e);
baton_status cuda_graph_begin(RtDevice *device, void *stream, RtError *e);
baton_status cuda_graph_end(RtDevice *device, void *stream, void **out, RtError *e);
baton_status cuda_graph_launch(RtDevice *device, void *graph, void *stream, RtError *e);
void cuda_graph_free(RtDevice *device, void *graph);
// Facts of the record that the device can do without: RtDevice.l2_bytes, .sm_mhz, .pci.
void cuda_facts(CudaDevice *d);

#endif
