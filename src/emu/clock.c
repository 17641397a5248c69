// clock.c - happens-before: what an agent knows of the accesses of all others.
//
// A release copies an agent's knowledge into a barrier, an acquire joins it back. Every warp has
// one clock that all its lanes share, and a second one for the lanes that acquired alone since the
// last barrier of the warp (a producer's elected lane, typically). Epochs advance at every release
// and fence, so "before the release" is a comparison of numbers.
#include "state.h"

#include <string.h>

// The newer partial knowledge wins; equally new masks unite. (Two different lane sets that release
// at different epochs between two warp barriers count as one at the later epoch: this may hide a
// missing bar.warp, it never invents one.)
static void epoch_join(EmuEpoch *to, const EmuEpoch *from)
{
    if (from->all > to->all) to->all = from->all;
    if (from->part > to->all) {
        bool alive = to->part > to->all;
        if (from->part > to->part || !alive) {
            to->mask = alive ? to->mask | from->mask : from->mask;
            to->part = from->part;
        } else {
            to->mask |= from->mask;
        }
    }
    if (to->part <= to->all) to->part = to->mask = 0;
}

void emu_clock_join(const EmuCta *c, EmuClock *to, const EmuClock *from)
{
    for (int i = 0; i < c->warps; i++) {
        epoch_join(&to->g[i], &from->g[i]);
        epoch_join(&to->a[i], &from->a[i]);
    }
    for (int i = 0; i < c->bars_n; i++) to->phases[i] = MAX(to->phases[i], from->phases[i]);
}

// Saturates: after four billion releases everything counts as one epoch, which hides, never
// invents.
static void advance(EmuWarp *w)
{
    if (w->epoch < UINT32_MAX - 1) w->epoch++;
}

// What the lanes in `mask` know of their own warp's accesses now: all of theirs, and of the other
// lanes' only what is known already.
static EmuEpoch own_now(const EmuWarp *w, const EmuEpoch *known, u32 mask)
{
    EmuEpoch e = *known;
    if (mask == (u32)EMU_FULL) return (EmuEpoch){.all = w->epoch};
    EmuEpoch now = {.all = e.all, .part = w->epoch, .mask = mask};
    return now;
}

// The lanes in `mask` publish what they know into a barrier.
void emu_release(EmuWarp *w, u32 mask, EmuClock *into)
{
    const EmuCta *c = w->cta;
    // Lanes with knowledge of their own publish it, the others the warp's.
    if (w->part_mask & mask) emu_clock_join(c, into, w->part);
    if (!(w->part_mask & mask) || (mask & ~w->part_mask)) emu_clock_join(c, into, w->clock);
    EmuEpoch now = own_now(w, &w->clock->g[w->id], mask);
    epoch_join(&into->g[w->id], &now);
    advance(w);
}

// The lanes in `mask` learn what a barrier knows. Fewer than all (an elected lane waits): the
// second clock takes it, and the other lanes learn nothing until the warp synchronises.
void emu_acquire(EmuWarp *w, u32 mask, const EmuClock *from)
{
    const EmuCta *c = w->cta;
    if (mask == (u32)EMU_FULL) {
        emu_clock_join(c, w->clock, from);
        if (w->part_mask) emu_clock_join(c, w->part, from);
        return;
    }
    if (!w->part_mask) memcpy(w->part, w->clock, sizeof *w->part);
    w->part_mask |= mask;
    emu_clock_join(c, w->part, from);
}

// After it every lane knows what any lane of the warp did or knew.
void emu_warp_sync(EmuWarp *w)
{
    if (w->part_mask) {
        emu_clock_join(w->cta, w->clock, w->part);
        w->part_mask = 0;
    }
    w->clock->g[w->id] = (EmuEpoch){.all = w->epoch};
    advance(w);
}

// The async view of the lanes' own accesses catches up with the generic one.
static void fence_into(EmuWarp *w, EmuClock *clock, u32 mask)
{
    EmuEpoch now = own_now(w, &clock->a[w->id], mask);
    epoch_join(&clock->a[w->id], &now);
}

// The lanes' generic accesses so far become visible to the async proxy; their loads have bound.
void emu_fence_proxy(EmuWarp *w, u32 mask)
{
    fence_into(w, w->clock, mask);
    if (w->part_mask) fence_into(w, w->part, mask);
    advance(w);
}
