// without_emulator.c - the runtime can use a GPU or an emulator; this program has no emulator.
#include "../rt/rt.h"

baton_status rt_emulator_open(const RtEmulatorOptions *o, RtDevice **out, RtError *e)
{
    (void)o;
    *out = NULL;
    return rt_fail(e, BATON_UNSUPPORTED, "this program has no emulator; `baton run` has one");
}

void rt_emulator_set(RtDevice *d, const RtEmulatorOptions *o)
{
    (void)d;
    (void)o;
}

EmuReport *const *rt_emulator_reports(const RtDevice *d, int *n)
{
    (void)d;
    *n = 0;
    return NULL;
}

void emu_report_print(const EmuReport *r, const Diag *d, Buf *out)
{
    (void)r;
    (void)d;
    (void)out;
}
