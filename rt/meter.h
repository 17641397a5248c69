// meter.h - what the driver's management library (NVML, libnvidia-ml.so.1, opened at run time) says
// of one GPU: clocks, power, temperature, what holds the clock back, and the energy counter. Reads
// only; changes no setting.
#ifndef BATON_RT_METER_H
#define BATON_RT_METER_H

#include "../src/base/base.h"

// One look at the GPU. NAN: not known.
typedef struct {
    double ms;             // rt_now_ms() of it
    double sm_mhz, memory_mhz;
    double watts;          // by the library's power reading, which lags
    double celsius;
    double joules;         // of the energy counter, which steps about every 100 ms
    u64 reasons;           // bits that say what limits the clock; 0 none, also where not known
    bool has_reasons;
} RtReading;

// What may limit the clock: bit, name in tables. All but idle, setting and display mean that the
// card cannot go as fast as it was asked to.
#define RT_REASONS(X)                      \
    X(RT_REASON_IDLE, 0x1, "idle")         \
    X(RT_REASON_SETTING, 0x2, "setting")   /* clocks that somebody set */ \
    X(RT_REASON_POWER, 0x4, "power")       /* the power limit */ \
    X(RT_REASON_HARDWARE, 0x8, "hardware") /* heat or power, by the board itself */ \
    X(RT_REASON_SYNC, 0x10, "sync")        /* boosts in step with other GPUs */ \
    X(RT_REASON_HEAT, 0x20, "heat")        \
    X(RT_REASON_HEAT_HW, 0x40, "heat(hw)") /* by the board itself */ \
    X(RT_REASON_BRAKE, 0x80, "brake")      /* the power supply asked for it */ \
    X(RT_REASON_DISPLAY, 0x100, "display")
enum {
#define X(id, bit, name) id = bit,
    RT_REASONS(X)
#undef X
};

typedef struct RtMeter RtMeter;

// Opens the library (`library` NULL: libnvidia-ml.so.1) and finds the GPU by its PCI address
// ("00000000:17:00.0"), or the only one when `pci` is NULL. Never fails: without the library, the
// GPU or a function, readings have NAN and rt_meter_missing says why. Free with rt_meter_close.
RtMeter *rt_meter_open(const char *library, const char *pci);
void rt_meter_close(RtMeter *m);         // NULL is allowed; stops a watch
const char *rt_meter_missing(const RtMeter *m); // NULL: nothing is missing
RtReading rt_meter_read(RtMeter *m);
// Facts that do not change; "" and NAN where not known.
const char *rt_meter_driver(const RtMeter *m);  // "580.159.04"
const char *rt_meter_uuid(const RtMeter *m);
double rt_meter_power_limit(const RtMeter *m);  // watts
double rt_meter_max_sm_mhz(const RtMeter *m);

// Reads at once, every `period_ms` in a thread of its own, and once more at the end, which gives
// the readings to the caller (malloc'd, he frees them). One watch at a time. Without a GPU to read
// there is no thread and no reading.
bool rt_meter_watch(RtMeter *m, double period_ms); // false: no thread could be made
RtReading *rt_meter_watch_end(RtMeter *m, i64 *n); // NULL: no watch, no readings

// Names of the bits, joined with '+'; "none" for 0. Lives in the arena.
const char *rt_meter_reasons(Arena *a, u64 reasons);

#endif
