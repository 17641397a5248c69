// regs.c - what is known about register values: written or not, in flight for wgmma, and which
// unbound shared loads they depend on (rule O6).
//
// A load of shared memory that a bulk load may overwrite gets a token; registers carry the set of
// tokens that their value depends on, through arithmetic, conversions and shuffles. A pinned use
// (store, address, branch, wgmma operand that was waited for) binds all tokens of the value.
#include "state.h"

#include <string.h>

// Slow path: lanes `missing` of a source were never written, or belong to a wgmma in flight (whose
// accumulators count as unwritten so that the fast path has one test only).
static void report_read(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 unit, u32 missing)
{
    int lane = emu_first_lane(missing);
    if (w->flags[unit] & UNIT_ACC)
        emu_hazard(w, op, lane, HZ_WGMMA, "O9", 0,
                   "reads an accumulator register of a wgmma that is still in flight; a wgmma.wait"
                   " that covers it must stand before");
    else if (o->kind == OPD_REG)
        emu_hazard(w, op, lane, HZ_UNINIT, NULL, 0, "reads a register that was never written");
    w->unit[unit].init |= missing; // once is enough
}

// O9 for writes: neither accumulators nor register A may change before the wait.
static void report_write(EmuWarp *w, const EmuOp *op, u32 unit, u32 mask)
{
    const char *what = w->flags[unit] & UNIT_ACC ? "an accumulator" : "the register-A operand";
    emu_hazard(w, op, emu_first_lane(mask), HZ_WGMMA, "O9", 0,
               "writes %s of a wgmma that is still in flight; a wgmma.wait that covers it must"
               " stand before", what);
}

// Units from one register of a range to the next. State of a 64-bit value is that of its first
// unit.
static u32 stride_of(const EmuOpnd *o) { return o->class == RC_B64 ? 2 : 1; }

// A write by some lanes leaves the other lanes' values, and with them their taint.
static void written(EmuWarp *w, const EmuOp *op, u32 unit, u32 mask, u64 taint)
{
    EmuUnit *u = &w->unit[unit];
    if (w->flags[unit]) report_write(w, op, unit, mask);
    u->taint = mask == (u32)EMU_FULL ? taint : taint | u->taint;
    u->fences = w->fences;
    u->init |= mask;
    w->late_lanes[unit] &= ~mask;
}

// Sources to destinations by the operand list: the result depends on all loads that a source or
// the guard depends on. Arithmetic does not pin: the assembler can move it behind a release.
void emu_track(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u64 taint = 0;
    u32 missing = 0;
    EmuUnit *unit = w->unit;
    for (int i = op->ndst; i < op->nopnd; i++) {
        EmuUnit *u = &unit[op->o[i].unit];
        missing |= ~u->init;
        taint |= u->taint;
        u->fences = w->fences;
    }
    if (missing & mask)
        for (int i = op->ndst; i < op->nopnd; i++)
            if (~unit[op->o[i].unit].init & mask)
                report_read(w, op, &op->o[i], op->o[i].unit, ~unit[op->o[i].unit].init & mask);
    if (op->guard >= 0) taint |= unit[op->guard].taint;
    // Bits of tokens that have bound meanwhile are dropped lazily, here and in sweep.
    taint &= w->live;
    bool late = emu_late_pure(w, op, mask);
    for (int i = 0; i < op->ndst; i++) written(w, op, op->o[i].unit, mask, taint);
    if (late) emu_late_mark(w, op->o, op->ndst, mask);
}

// A range of registers is read by an operation that tracks for itself; `pin`: by a pinned use
// (O6).
void emu_read_regs(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 mask, bool pin)
{
    u64 taint = 0;
    bool product = op->op == OP_WGMMA_SS || op->op == OP_WGMMA_RS;
    for (u32 i = 0, unit = o->unit; i < o->count; i++, unit += stride_of(o)) {
        if (!product) w->unit[unit].fences = w->fences;
        u32 missing = ~w->unit[unit].init & mask;
        if (missing) report_read(w, op, o, unit, missing);
        taint |= w->unit[unit].taint;
    }
    taint &= w->live;
    if (pin && taint) emu_pin(w, taint);
}

// The value comes from memory or another warp: it depends on no load but the one being made, which
// the caller adds.
void emu_write_regs(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 mask)
{
    for (u32 i = 0, unit = o->unit; i < o->count; i++, unit += stride_of(o))
        written(w, op, unit, mask, 0);
}

// Binds the loads: from here on nothing can overwrite what they read.
void emu_pin(EmuWarp *w, u64 taint)
{
    for (taint &= w->live; taint; taint &= taint - 1) {
        int i = __builtin_ctzll(taint);
        // The cut keeps a pin cheap when thousands of loads share one token; those beyond stay
        // unbound.
        for (u32 a = w->token[i].access, n = 0; a && n < 4096; n++) {
            EmuAccess *access = &w->cta->access.at[a];
            if (!access->bound) access->bound = w->epoch;
            a = access->phase; // loads that share the token
        }
        w->live &= ~(1ull << i);
    }
}

// Tokens whose value lies in no register any more can never be pinned: they stay unbound and make
// room. Dead bits are wiped, so that a token can be used again.
static void sweep(EmuWarp *w)
{
    u32 n = w->cta->run->prog->units;
    u64 held = 0;
    for (u32 i = 0; i < n; i++) held |= w->unit[i].taint;
    w->live &= held;
    for (u32 i = 0; i < n; i++) w->unit[i].taint &= w->live;
    w->clean = ~w->live;
}

// A token for a load. With 64 unbound loads alive the newest token is shared: a pin of either value
// then binds both (this may hide a hazard, it never invents one).
int emu_token_new(EmuWarp *w, u32 access)
{
    if (!w->clean) sweep(w);
    if (!w->clean) {
        w->cta->access.at[access].phase = w->token[EMU_TOKENS - 1].access;
        w->token[EMU_TOKENS - 1].access = access;
        w->token[EMU_TOKENS - 1].mask = 0;
        return EMU_TOKENS - 1;
    }
    int i = __builtin_ctzll(w->clean);
    w->clean &= w->clean - 1;
    w->live |= 1ull << i;
    memset(&w->token[i], 0, sizeof w->token[i]);
    w->token[i].access = access;
    return i;
}
