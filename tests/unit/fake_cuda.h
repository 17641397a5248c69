// fake_cuda.h - what a test can tell the fake driver, and what the fake driver saw. The library is
// tests/unit/fake_cuda.c, built as libcuda.so.1; a test opens it by its path and gets the state
// from the exported function fake_cuda.
#ifndef BATON_FAKE_CUDA_H
#define BATON_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_LAUNCHES = 64, FAKE_PARAMS = 16, FAKE_MAPS = 32 };

typedef struct {
    char kernel[64];
    uint32_t grid[3], block[3], shared_bytes, cluster; // cluster 0: no attribute
    void *stream;
    int nparams;
    unsigned char param[FAKE_PARAMS][128]; // as many bytes as the kernel's parameter has
} FakeLaunch;

typedef struct {
    int type, rank, swizzle;
    void *base;
    uint64_t dim[5], stride[4];
    uint32_t box[5];
    bool aligned;              // the place of the map was a multiple of 64
} FakeMap;

typedef struct {
    // The script.
    const char *fail;          // the function with this symbol fails ...
    int fail_code;             // ... with this code
    int fail_after;            // ... after so many calls that succeed
    int devices, major, minor, driver_version;
    const char *info_log;      // what the assembler says when it succeeds; NULL: $FAKE_CUDA_LOG, else
                               // the usual
    const char *error_log;     // what it says when it fails
    int local_bytes;           // of each thread, in every kernel; 0: $FAKE_CUDA_LOCAL
    // Clocks of the host and of the device, which works off its queue. 0: as described in the .c
    // file.
    uint64_t call_ns;          // of the host, for each launch, fill and mark
    uint64_t launch_ns, launch_step_ns; // of the device: launch i takes launch_ns + i % 5 steps
    uint64_t fill_ns;          // of the device, for each fill
    // The record.
    FakeLaunch launch[FAKE_LAUNCHES];
    int nlaunches;
    FakeMap map[FAKE_MAPS];
    int nmaps;
    int assembled, loaded, unloaded;
    int contexts;              // retained and not released
    int depth;                 // contexts pushed and not popped
    int allocations, events; // alive
    int max_dynamic_shared;    // last value set on a function
    int fills;
    void *last_fill;
    size_t last_fill_bytes;
    int outside_context;       // calls that needed a current context and had none
    int graphs;                // alive, recorded and launchable ones
    int recorded, replays;     // launches into graphs; launches of graphs
    int holds;                 // launches of kernels named baton_hold, which are no launches
    uint64_t held_ns;          // the last of them lasts
} FakeCuda;

typedef FakeCuda *FakeCudaState(void);
FakeCuda *fake_cuda(void);

#endif
