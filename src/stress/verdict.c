// verdict.c - what a run of many launches says about a kernel.
//
// The rule behind it: a run in which the broken kernel comes out right as well has shown nothing
// about the protected one.
#include "stress.h"

const char *const stress_verdict_name[STRESS_VERDICTS] = {
    [STRESS_CLEAN] = "clean",     [STRESS_INCONCLUSIVE] = "inconclusive",
    [STRESS_WRONG] = "wrong",     [STRESS_DIFFERS] = "differs",
    [STRESS_HANGS] = "hangs",     [STRESS_DIES] = "dies",
};

StressVerdict stress_judge(const StressTally *kernel, const StressTally *open)
{
    if (kernel->quiet_wrong) return STRESS_WRONG;
    if (kernel->wrong) return STRESS_DIFFERS;
    if (kernel->hung) return STRESS_HANGS;
    if (kernel->died) return STRESS_DIES;
    if (!kernel->launches) return STRESS_INCONCLUSIVE;
    bool failed = open && (open->wrong || open->hung || open->died);
    return open && !failed ? STRESS_INCONCLUSIVE : STRESS_CLEAN;
}
