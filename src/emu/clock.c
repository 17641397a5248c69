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

// Arrays of a clock lie behind one another, g first: they are cleared and copied as one.
static size_t clock_bytes(const EmuRun *r)
{
    u32 warps = r->ctas * r->warp_stride, bars = r->ctas * (u32)r->cta[0]->bars_n;
    return warps * sizeof(EmuEpoch) * (r->ctas > 1 ? 3 : 2) + bars * sizeof(u32);
}

EmuClock *emu_clock_new(EmuRun *r)
{
    EmuClock *c = ARENA_NEW(r->arena, EmuClock);
    u32 warps = r->ctas * r->warp_stride;
    c->g = arena_alloc(r->arena, clock_bytes(r) + 8);
    c->a = c->g + warps;
    c->x = r->ctas > 1 ? c->a + warps : c->g;
    c->phases = (u32 *)(void *)(c->a + (r->ctas > 1 ? 2 : 1) * warps);
    emu_clock_clear(r, c);
    return c;
}

void emu_clock_clear(const EmuRun *r, EmuClock *c) { memset(c->g, 0, clock_bytes(r)); }

void emu_clock_copy(const EmuRun *r, EmuClock *to, const EmuClock *from)
{
    memcpy(to->g, from->g, clock_bytes(r));
}

// What is known to be over: the part of a clock that even an arrival without release carries.
static void join_done(const EmuRun *r, EmuClock *to, const EmuClock *from)
{
    u32 warps = r->ctas * r->warp_stride, bars = r->ctas * (u32)r->cta[0]->bars_n;
    for (u32 i = 0; to->x != to->g && i < warps; i++) epoch_join(&to->x[i], &from->x[i]);
    for (u32 i = 0; i < bars; i++) to->phases[i] = MAX(to->phases[i], from->phases[i]);
}

void emu_clock_join(const EmuCta *c, EmuClock *to, const EmuClock *from)
{
    const EmuRun *r = c->run;
    for (u32 i = 0; i < r->ctas * r->warp_stride; i++) {
        epoch_join(&to->g[i], &from->g[i]);
        epoch_join(&to->a[i], &from->a[i]);
    }
    join_done(r, to, from);
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

// The fences that the lanes in `mask` have made: their own, which no other lane knows of before the
// warp synchronises. Lanes that fenced at different times count as one at the latest.
static EmuEpoch own_fences(const EmuWarp *w, u32 mask)
{
    EmuEpoch e = {.all = mask ? UINT32_MAX : 0};
    for (int i = 0; i < EMU_LANES; i++) {
        if (!(mask >> i & 1)) continue;
        e.all = MIN(e.all, w->fenced[i]);
        e.part = MAX(e.part, w->fenced[i]);
    }
    if (mask != w->alive) {
        e.all = 0;
        e.mask = mask;
    }
    for (int i = 0; i < EMU_LANES && mask == w->alive; i++)
        if (w->fenced[i] == e.part) e.mask |= 1u << i;
    return e;
}

// The lanes in `mask` publish what they know into a barrier.
void emu_release(EmuWarp *w, u32 mask, EmuClock *into)
{
    const EmuCta *c = w->cta;
    // Lanes with knowledge of their own publish it, the others the warp's.
    if (w->part_mask & mask) emu_clock_join(c, into, w->part);
    if (!(w->part_mask & mask) || (mask & ~w->part_mask)) emu_clock_join(c, into, w->clock);
    EmuEpoch now = own_now(w, &w->clock->g[w->index], mask);
    EmuEpoch fences = own_fences(w, mask == (u32)EMU_FULL ? w->alive : mask);
    epoch_join(&into->g[w->index], &now);
    epoch_join(&into->a[w->index], &fences);
    if (into->x != into->g) epoch_join(&into->x[w->index], &now);
    advance(w);
}

// An arrival at another CTA that releases nothing: the other learns that the lanes got here, and
// of whom they knew the same, but sees none of their writes.
void emu_release_done(EmuWarp *w, u32 mask, EmuClock *into)
{
    const EmuRun *r = w->cta->run;
    if (w->part_mask & mask) join_done(r, into, w->part);
    if (!(w->part_mask & mask) || (mask & ~w->part_mask)) join_done(r, into, w->clock);
    EmuEpoch now = own_now(w, &w->clock->g[w->index], mask);
    epoch_join(&into->x[w->index], &now);
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
    if (!w->part_mask) emu_clock_copy(c->run, w->part, w->clock);
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
    w->clock->g[w->index] = (EmuEpoch){.all = w->epoch};
    w->clock->x[w->index] = (EmuEpoch){.all = w->epoch};
    EmuEpoch fences = own_fences(w, w->alive);
    epoch_join(&w->clock->a[w->index], &fences);
    advance(w);
}

// The lanes' generic accesses so far become visible to the async proxy; their loads have bound.
void emu_fence_proxy(EmuWarp *w, u32 mask)
{
    for (int i = 0; i < EMU_LANES; i++)
        if (mask >> i & 1) w->fenced[i] = w->epoch;
    advance(w);
}
