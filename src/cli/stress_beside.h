// stress_beside.h - what goes on beside a stressed kernel: an emptied cache, a stream that writes
// memory, and a kernel that loads from shared memory with bank conflicts on the same
// multiprocessors.
#ifndef BATON_CLI_STRESS_BESIDE_H
#define BATON_CLI_STRESS_BESIDE_H

#include "../../rt/rt.h"

typedef struct {
    RtDevice *device;
    Arena *arena;
    void *stream;          // beside the default one
    void *memory;          // that is written, larger than the level-2 cache
    size_t bytes;
    RtModule *module;      // of the kernel that loads
    Plan *plan;
    RtLaunch *launch;
    bool room;             // its blocks fit beside one of the stressed kernel
} StressBeside;

// `smem`: bytes of shared memory that a block of the stressed kernel has. On the emulator
// everything below does nothing. Close it also after an error.
baton_status stress_beside_open(StressBeside *b, RtDevice *d, Arena *a, i64 smem, RtError *e);
void stress_beside_close(StressBeside *b);
// On the default stream, in front of a launch: nothing of the kernel's memory stays in the cache.
baton_status stress_empty_cache(StressBeside *b, RtError *e);
// Starts; some hundred microseconds of it run beside what is launched next.
baton_status stress_start_beside(StressBeside *b, bool writes, bool loads, RtError *e);
baton_status stress_end_beside(StressBeside *b, RtError *e);
// The kernel that loads, in the thread IR with its plan; for the test that checks it.
const char *stress_beside_text(void);

#endif
