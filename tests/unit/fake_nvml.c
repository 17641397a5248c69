// fake_nvml.c - a libnvidia-ml.so.1 without a GPU: answers what the test's script says. With OLD
// defined it has the older name of the clock's limits only, and no energy counter. Only for tests;
// its state is global because the library's interface has no handle for it.
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

// The prototypes are private to the program under test (rt/meter.c); these are the library's names.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static FakeNvml state;

FakeNvml *fake_nvml(void) { return &state; }

#define SCRIPTED()                                                                       \
    do {                                                                                 \
        if (state.fail && strcmp(state.fail, __func__) == 0) return state.fail_code;     \
    } while (0)

// A device is the address of its place here.
static char device[8];

static int answer(const char *d, unsigned value, unsigned *out)
{
    if (d < device || d >= device + state.gpus) return 2;
    *out = value;
    return 0;
}
#define ANSWER(value)                 \
    do {                              \
        SCRIPTED();                   \
        return answer(d, (value), out); \
    } while (0)

int nvmlInit_v2(void)
{
    SCRIPTED();
    state.starts++;
    return 0;
}

int nvmlShutdown(void)
{
    state.ends++;
    return 0;
}

const char *nvmlErrorString(int r) { return r == 3 ? "Not Supported" : "Unknown Error"; }

int nvmlDeviceGetCount_v2(unsigned *out)
{
    SCRIPTED();
    *out = state.gpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
    SCRIPTED();
    if (i >= state.gpus) return 2;
    *out = &device[i];
    return 0;
}

// Both the driver's form (four digits of domain) and the library's own (eight).
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **out)
{
    SCRIPTED();
    unsigned domain, bus, slot, function;
    if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return 2;
    if (domain || slot || function || bus < 0x17 || bus >= 0x17 + state.gpus) return 6;
    *out = &device[bus - 0x17];
    return 0;
}

#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(const char *d, unsigned long long *out)
{
    SCRIPTED();
    unsigned ignored;
    if (answer(d, 0, &ignored)) return 2;
    state.energy_calls++;
    if (state.calls_a_step && (uint64_t)state.energy_calls % state.calls_a_step == 0)
        state.millijoules += state.step;
    *out = state.millijoules;
    return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(const char *d, unsigned long long *out)
#else
int nvmlDeviceGetCurrentClocksThrottleReasons(const char *d, unsigned long long *out)
#endif
{
    SCRIPTED();
    unsigned ignored;
    *out = state.reasons;
    return answer(d, 0, &ignored);
}

int nvmlDeviceGetPowerUsage(const char *d, unsigned *out) { ANSWER(state.milliwatts); }

int nvmlDeviceGetPowerManagementLimit(const char *d, unsigned *out)
{
    ANSWER(state.limit_milliwatts);
}

int nvmlDeviceGetClockInfo(const char *d, int kind, unsigned *out)
{
    if (kind != 1 && kind != 2) return 2;
    ANSWER(kind == 1 ? state.sm_mhz : state.memory_mhz);
}

int nvmlDeviceGetMaxClockInfo(const char *d, int kind, unsigned *out)
{
    if (kind != 1) return 2;
    ANSWER(state.max_mhz);
}

int nvmlDeviceGetTemperature(const char *d, int sensor, unsigned *out)
{
    if (sensor) return 2;
    ANSWER(state.celsius);
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
    SCRIPTED();
    return snprintf(out, bytes, "580.1") >= (int)bytes;
}

int nvmlDeviceGetUUID(const char *d, char *out, unsigned bytes)
{
    SCRIPTED();
    return snprintf(out, bytes, "GPU-fake-%d", (int)(d - device)) >= (int)bytes;
}
