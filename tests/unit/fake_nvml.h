// fake_nvml.h - what a test can tell the fake management library, and what that saw. The library is
// tests/unit/fake_nvml.c, built as libnvidia-ml.so.1, and once more as it was before some functions
// had their names (libnvidia-ml-old.so.1). State through the exported function fake_nvml.
#ifndef BATON_FAKE_NVML_H
#define BATON_FAKE_NVML_H

#include <stdint.h>

typedef struct {
    const char *fail;          // the function with this symbol answers ...
    int fail_code;             // ... this code
    unsigned gpus;             // at 0000:17:00.0, 0000:18:00.0, ...
    uint64_t millijoules;      // of GPU 0: the counter
    uint64_t step, calls_a_step; // it gains `step` with every calls_a_step-th question; 0: never
    uint64_t reasons;
    unsigned sm_mhz, memory_mhz, max_mhz, milliwatts, limit_milliwatts, celsius;
    int starts, ends;          // of the library
    int energy_calls;          // read it when no watch runs
} FakeNvml;

typedef FakeNvml *FakeNvmlState(void);
FakeNvml *fake_nvml(void);

#endif
