// baton.h - run kernels that baton compiled, from C or C++.
//
// A complete program: c[i] = a[i] + b[i] on the first GPU, from the file that
// `baton build add.co -o add.ptx` wrote.
//
//     #include <baton.h>
//     #include <stdio.h>
//
//     int run(void *a, void *b, void *c, int64_t n, void *stream)  // device addresses
//     {
//         baton_context *context = NULL;
//         baton_module *module = NULL;
//         baton_tensor t[3] = {
//             {sizeof t[0], a, BATON_F32, 1, {n}},
//             {sizeof t[0], b, BATON_F32, 1, {n}},
//             {sizeof t[0], c, BATON_F32, 1, {n}},
//         };
//         if (baton_open(NULL, &context) || baton_load_file(context, "add.ptx", &module) ||
//             baton_launch(module, t, 3, stream) || baton_synchronize(context, stream)) {
//             fprintf(stderr, "%s\n", baton_last_error());
//             return 1;
//         }
//         baton_unload(module);
//         baton_close(context);
//         return 0;
//     }
//
// Compile with `cc prog.c -Iinclude build/libbaton.a -lm -ldl`. No CUDA toolkit is needed: the
// driver library libcuda.so.1 is opened when baton_open is called, and its absence is the status
// BATON_NO_DRIVER.
//
// Rules that hold for all functions
//   - Every function that can fail returns a baton_status; BATON_OK is 0. After any other value
//     baton_last_error() has one sentence that names the argument and the rule.
//   - Handles may be used by several threads at once; closing one while another thread uses it is
//     the caller's mistake.
//   - Every struct that the caller fills starts with its own size (`sizeof x`), so that programs
//     compiled against an older header keep working.
//   - Addresses of tensors are device addresses in the device's primary context, the one that the
//     CUDA runtime and PyTorch use. A `stream` is a CUstream / cudaStream_t of that context; NULL
//     is the default stream. The calling thread's current context is left as it was.
#ifndef BATON_PUBLIC_H
#define BATON_PUBLIC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BATON_VERSION_TEXT "0.1"

typedef enum {
    BATON_OK = 0,
    BATON_BAD_ARGUMENT,   // a pointer, tensor or size breaks a rule; nothing was launched
    BATON_NO_DRIVER,      // libcuda.so.1 is not there, too old, or does not start
    BATON_NO_DEVICE,      // the driver sees no GPU with that number
    BATON_WRONG_DEVICE,   // the GPU has another compute capability than 9.0
    BATON_BAD_FILE,       // not readable, or not a file that baton wrote
    BATON_NOT_ASSEMBLED,  // the driver's assembler refused the PTX; the sentence has its log
    BATON_DRIVER_ERROR,   // a call of the driver failed; the sentence has its name and code
    BATON_OUT_OF_MEMORY,  // on the device
    BATON_HAZARD,         // emulator only: the program broke a rule of the machine
    BATON_UNSUPPORTED     // right, but baton cannot do it yet
} baton_status;

// A short name of a status, such as "no driver". Never NULL; static storage.
const char *baton_status_name(baton_status status);

// The sentence of the last call that failed in the calling thread; "" when none did. For a file that
// is not right: its messages with their places, some lines. Valid until the thread's next failing
// call.
const char *baton_last_error(void);

// "0.1": of the library, where BATON_VERSION_TEXT is that of the header.
const char *baton_version(void);

// ---- Simple part --------------------------------------------------------------------------------

typedef struct baton_context baton_context; // one device
typedef struct baton_module baton_module;   // one compiled kernel file on that device

typedef struct {
    size_t size;          // sizeof(baton_open_info)
    int device;           // number of the GPU as the driver counts, from 0
    const char *driver;   // path of the driver library; NULL: libcuda.so.1 by the loader's rules
} baton_open_info;

// Opens the driver and retains the primary context of a device. `info` may be NULL: device 0. Takes
// about 0.25 s when the process has not started the driver before, microseconds otherwise. The
// caller owns *out and closes it after its modules. On failure *out is NULL.
// Fails with NO_DRIVER, NO_DEVICE, WRONG_DEVICE, DRIVER_ERROR, BAD_ARGUMENT.
baton_status baton_open(const baton_open_info *info, baton_context **out);
void baton_close(baton_context *context); // NULL is allowed

// Loads a file of `baton build`: PTX with its launch plan in the head, or machine code with the plan
// behind it (`-o FILE.cubin`), which is loaded as it is. PTX is assembled by the driver, which takes
// up to half a second, or finds the code in its own cache, which takes milliseconds:
// CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE and CUDA_CACHE_DISABLE steer that. Synchronous. The caller
// owns *out. On failure *out is NULL. The context must outlive the module.
// Fails with BAD_FILE, NOT_ASSEMBLED, DRIVER_ERROR, BAD_ARGUMENT.
baton_status baton_load_file(baton_context *context, const char *path, baton_module **out);
// The same from `bytes` of memory, which baton does not keep. `name` is for messages.
baton_status baton_load_memory(baton_context *context, const char *name, const void *data,
                               size_t bytes, baton_module **out);
void baton_unload(baton_module *module); // NULL is allowed; launches in flight must have ended

typedef enum {
    BATON_F32 = 0, BATON_F16, BATON_BF16, BATON_TF32, BATON_F8_E4M3, BATON_F8_E5M2, BATON_S32,
    BATON_U32, BATON_S64, BATON_U64, BATON_S16, BATON_U16, BATON_S8, BATON_U8, BATON_F64,
    BATON_BOOL
} baton_type;

enum { BATON_MAX_RANK = 6 };

// A tensor or a scalar argument. Tensors are dense and row-major: the last dimension is contiguous.
typedef struct {
    size_t size;                 // sizeof(baton_tensor)
    void *data;                  // device address, owned by the caller; NULL for scalars
    baton_type type;
    int rank;                    // 0..BATON_MAX_RANK
    int64_t dim[BATON_MAX_RANK]; // extents, elements
    int64_t int_value;           // scalars of an integer type
    double float_value;          // scalars of a floating type
} baton_tensor;

// Launches the function with `count` arguments in the order of its parameters, results last, on
// `stream`. Asynchronous: the tensors must live until the stream has passed the launch; the array
// itself may go at once. A grid without work launches nothing and is no error. A kernel that needs
// a task list gets it made and copied, synchronously, by the first launch of each set of sizes:
// launch once before the stream is captured into a graph.
// Fails with BAD_ARGUMENT (number of arguments, type, rank, extent, alignment, a requirement of the
// kernel, a limit of the device), DRIVER_ERROR.
baton_status baton_launch(baton_module *module, const baton_tensor *arguments, int count,
                          void *stream);

// Waits until all work of `stream` is done; errors of earlier asynchronous work appear here.
// Fails with DRIVER_ERROR, BAD_ARGUMENT.
baton_status baton_synchronize(baton_context *context, void *stream);

// ---- Advanced part ------------------------------------------------------------------------------

typedef struct {
    size_t size;          // sizeof(baton_device_info)
    char name[128];       // "NVIDIA H200"
    int major, minor;     // compute capability
    int driver_version;   // as the driver says: 13000 is 13.0
    int64_t sm_count;     // multiprocessors
    int64_t shared_bytes; // shared memory that one block may use
} baton_device_info;
baton_status baton_get_device(baton_context *context, baton_device_info *info);

// Memory of the device, for programs that have no other allocator. Sizes in bytes; addresses are
// multiples of 256. The copies and baton_free are synchronous.
baton_status baton_allocate(baton_context *context, size_t bytes, void **out);
baton_status baton_free(baton_context *context, void *address); // NULL is allowed
baton_status baton_copy_to_device(baton_context *context, void *to, const void *from, size_t bytes);
baton_status baton_copy_to_host(baton_context *context, void *to, const void *from, size_t bytes);

typedef struct {
    size_t size;              // sizeof(baton_parameter_info)
    const char *name;         // lives as long as the module
    baton_type type;
    int scalar, in, out;      // flags: passed by value, read, written
    int result;               // made by the function: its extents follow from the others
    int rank;                 // of a tensor
    int align;                // bytes that its address must be a multiple of
} baton_parameter_info;
const char *baton_module_name(const baton_module *module); // of the function
int baton_parameter_count(const baton_module *module);
baton_status baton_get_parameter(const baton_module *module, int index, baton_parameter_info *info);

// Where the time of opening, loading and preparing went, milliseconds; 0 for what did not happen.
typedef struct {
    size_t size;              // sizeof(baton_times)
    double driver;            // opening the library and cuInit
    double context;           // the primary context
    double load;              // PTX assembled, or found in the driver's cache, and on the device
    // Task lists and the like, which a kernel may need from the host: made and uploaded by the
    // first launch of each set of sizes, then kept on the device. Of all launches so far.
    double host;              // making them
    double upload;            // copying them to the device
} baton_times;
baton_status baton_get_times(const baton_module *module, baton_times *times);

typedef struct {
    size_t size;              // sizeof(baton_timing)
    double median_ms, min_ms, max_ms; // of one launch, between two events of the stream
    int runs;
} baton_timing;
// Launches `warmup` times untimed, then `runs` times (1 or more) between events. Synchronous.
// Fails as baton_launch does.
baton_status baton_time(baton_module *module, const baton_tensor *arguments, int count,
                        void *stream, int warmup, int runs, baton_timing *timing);

#ifdef __cplusplus
}
#endif
#endif
