// choose.c - from a seed and the number of a launch to all that is different about it. Two launches
// of one number are alike on every machine; what the machine makes of them is not.
#include "stress.h"

// A step of SplitMix64.
static u64 next(u64 *state)
{
    u64 x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static u32 below(u64 *state, u32 n) { return (u32)(next(state) >> 32) % n; }

// One launch in eight is of the kernel as it is, under all else. Few long delays find what many
// short ones hide, and the other way round; one slow warp against the rest finds most.
StressLaunch stress_launch(u64 seed, i64 number, int warps)
{
    static const u32 rates[] = {512, 4096, 8192, 32768, 65536};
    u64 r = seed * 0x2545f4914f6cdd1du + (u64)number;
    StressLaunch l = {.delays = stress_no_delays()};
    l.delayed = below(&r, 8) != 0;
    l.cold = below(&r, 2);
    l.writes = below(&r, 2);
    l.loads = below(&r, 2);
    l.inputs_moved = below(&r, 3) == 0;
    l.outputs_moved = below(&r, 3) == 0;
    l.other_inputs = below(&r, 2);
    l.delays.seed = (u32)next(&r);
    l.delays.rate = rates[below(&r, COUNT(rates))];
    l.delays.longest = below(&r, l.delays.rate > 8192 ? 7 : 11);
    if (below(&r, 2)) l.delays.warps = 1u << below(&r, (u32)MIN(warps, 32));
    // A round of the idle warps takes some 800 cycles, so these are 30 microseconds to a
    // millisecond.
    if (l.loads) l.delays.idle_rounds = 64 << below(&r, 6);
    if (!l.delayed) l.delays.rate = 0;
    return l;
}

void stress_tell_launch(const StressLaunch *l, Buf *out)
{
    const StressDelays *d = &l->delays;
    if (!l->delayed || !d->rate) {
        buf_puts(out, l->delayed ? "the program for delays without any" : "no delays");
    } else {
        buf_printf(out, "delays of 32 to %u cycles at ", 63u << d->longest);
        if (d->rate >= 65536) buf_puts(out, "each visit");
        else buf_printf(out, "1 visit of %u", 65536 / d->rate);
        if (!(d->warps & (d->warps - 1)))
            buf_printf(out, " of warp %d", __builtin_ctz(d->warps));
    }
    if (l->cold) buf_puts(out, "; cache emptied");
    if (l->writes) buf_puts(out, "; another stream writes memory");
    if (l->loads) buf_puts(out, "; others load from shared memory");
    if (l->inputs_moved) buf_puts(out, "; inputs at other addresses");
    if (l->outputs_moved) buf_puts(out, "; outputs at other addresses");
    if (l->other_inputs) buf_puts(out, "; the second inputs");
}
