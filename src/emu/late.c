// late.c - late reads in values (rule O6): what registers would hold if loads that have not bound
// were carried out only now, after a bulk load has overwritten what they read.
//
// Each warp keeps a record of its unbound loads and of the arithmetic on what they brought: in
// order, with the values of all other sources as they were. When a bulk load lands on what an
// unbound load has read, that load gets the new bytes, the record is carried out once more on a
// copy of the registers, and registers that hold results of it get theirs. So a value may be
// converted, moved and added up before its slot is handed back, and still come out as the next tile
// of the slot: arithmetic binds nothing. A fence, or pinned uses of all values, ends the record.
//
// Out of reach are values that went through a shuffle, a vote or a comparison, and those of
// ldmatrix. The hazard itself does not depend on any of this.
#include "state.h"

#include <string.h>

enum { ROOM = 1 << 18 }; // words of a warp's record; what does not fit is not seen late

typedef struct {
    const EmuOp *op;
    u32 mask;
    i32 token;           // of a load; -1: arithmetic
    u32 access;          // of a load: the token's, which another load may get later
    u32 words;           // behind this: of a load its registers, 32 words each; of arithmetic the
                         // register sources, for each unit its late lanes and 32 words
} Record;
enum { HEAD = sizeof(Record) / sizeof(u32) };

static u32 units_of(const EmuOpnd *o) { return o->class == RC_B64 ? 2 : 1; } // of one register

static bool is_on(const EmuCta *c)
{
    return c->run->launch->schedule != SCHED_ROUND_ROBIN && !c->run->launch->fault;
}

// Room for `words` behind a new record, or NULL.
static u32 *add(EmuWarp *w, Record r)
{
    if (!w->late) w->late = ARENA_ARRAY(w->cta->run->arena, u32, ROOM);
    w->late_lost |= w->late_n + HEAD + r.words + 1 > ROOM;
    if (w->late_lost) return NULL;
    u32 *at = w->late + w->late_n;
    memcpy(at, &r, sizeof r);
    w->late_n += HEAD + (r.words + 1) / 2 * 2; // heads stay aligned
    return at + HEAD;
}

// Lanes are kept at the first unit of a register.
void emu_late_mark(EmuWarp *w, const EmuOpnd *o, int n, u32 mask)
{
    for (int i = 0; i < n; i++)
        for (u32 k = 0; k < o[i].count; k++) w->late_lanes[o[i].unit + k * units_of(&o[i])] |= mask;
}

void emu_late_begin(EmuWarp *w)
{
    if (!w->late_n || w->live) return;
    w->late_n = 0;
    w->late_lost = false;
    memset(w->late_lanes, 0, sizeof *w->late_lanes * w->cta->run->prog->all_units);
}

void emu_late_load(EmuWarp *w, const EmuOp *op, u32 mask, int token)
{
    const EmuOpnd *to = &op->o[0];
    u32 words = to->count * units_of(to) * EMU_LANES;
    if (!is_on(w->cta)) return;
    u32 *at = add(w, (Record){op, mask, token, w->token[token].access, words});
    if (!at) return;
    memcpy(at, emu_reg(w, to), words * sizeof(u32));
    emu_late_mark(w, to, 1, mask);
}

bool emu_late_pure(EmuWarp *w, const EmuOp *op, u32 mask)
{
    u32 words = 0, late = 0;
    if (!w->late_n || op->op == OP_SHFL || op->op == OP_VOTE) return false;
    for (int i = 0; i < op->nopnd; i++) {
        const EmuOpnd *o = &op->o[i];
        if (i < op->ndst && o->class == RC_PRED) return false;
        if (i < op->ndst || o->kind != OPD_REG) continue;
        words += o->count * (1 + units_of(o) * EMU_LANES);
        for (u32 k = 0; k < o->count; k++) late |= w->late_lanes[o->unit + k * units_of(o)] & mask;
    }
    u32 *at = late ? add(w, (Record){op, mask, -1, 0, words}) : NULL;
    if (!at) return false;
    for (int i = op->ndst; i < op->nopnd; i++) {
        const EmuOpnd *o = &op->o[i];
        u32 n = units_of(o);
        for (u32 k = 0; o->kind == OPD_REG && k < o->count; k++, at += 1 + n * EMU_LANES) {
            at[0] = w->late_lanes[o->unit + k * n];
            memcpy(at + 1, w->regs + (size_t)(o->unit + k * n) * EMU_LANES,
                   n * EMU_LANES * sizeof(u32));
        }
    }
    return true;
}

// ---- when a bulk load lands ---------------------------------------------------------------------

// Word i of a register of `units` units that belongs to the lane: 64-bit registers are 32 pairs.
static void copy_lanes(u32 *to, const u32 *from, u32 lanes, u32 units)
{
    for (int l = 0; l < EMU_LANES; l++)
        if (lanes >> l & 1) memcpy(to + (u32)l * units, from + (u32)l * units, units * sizeof(u32));
}

// A load's registers get what lies there now. Returns whether it reads what has landed.
static bool reread(EmuWarp *w, const Record *r, u32 *values, u32 low, u32 high)
{
    const EmuToken *t = &w->token[r->token];
    bool any = false;
    if (!(w->live >> r->token & 1) || t->access != r->access) return false; // it has bound
    u32 units = units_of(&r->op->o[0]);
    for (int l = 0; l < EMU_LANES; l++) {
        if (!(t->mask >> l & 1) || t->addr[l] == UINT32_MAX) continue;
        if (t->addr[l] < low || t->addr[l] + (u32)t->count * t->bytes > high) continue;
        for (u32 k = 0; k < t->count; k++)
            memcpy(values + k * units * EMU_LANES + (u32)l * units,
                   w->cta->smem + t->addr[l] + k * t->bytes, t->bytes);
        any = true;
    }
    return any;
}

// The sources as they were: what the record does not make is put back.
static void restore_sources(EmuWarp *w, const EmuOp *op, const u32 *at)
{
    for (int i = op->ndst; i < op->nopnd; i++) {
        const EmuOpnd *o = &op->o[i];
        u32 n = units_of(o);
        for (u32 k = 0; o->kind == OPD_REG && k < o->count; k++, at += 1 + n * EMU_LANES) {
            u32 *to = w->regs + (size_t)(o->unit + k * n) * EMU_LANES;
            if (o->class == RC_PRED) memcpy(to, at + 1, EMU_LANES * sizeof(u32));
            else copy_lanes(to, at + 1, ~at[0], n);
        }
    }
}

static void run_again(EmuWarp *w)
{
    const EmuProgram *p = w->cta->run->prog;
    EmuCta *c = w->cta;
    size_t words = (size_t)(p->all_units + 1) * EMU_LANES;
    if (!c->late_regs) c->late_regs = ARENA_ARRAY(c->run->arena, u32, words);
    u32 *regs = w->regs, *copy = c->late_regs;
    memcpy(copy, regs, words * sizeof(u32));
    w->regs = copy;
    Record r;
    for (u32 at = 0; at < w->late_n; at += HEAD + (r.words + 1) / 2 * 2) {
        memcpy(&r, w->late + at, sizeof r);
        const u32 *values = w->late + at + HEAD;
        const EmuOpnd *to = &r.op->o[0];
        u32 n = units_of(to);
        if (r.token < 0) {
            restore_sources(w, r.op, values);
            r.op->run(w, r.op, r.mask);
        }
        for (u32 k = 0; r.token >= 0 && k < to->count; k++)
            copy_lanes(copy + (size_t)(to->unit + k * n) * EMU_LANES, values + k * n * EMU_LANES,
                       r.mask, n);
    }
    w->regs = regs;
    // The second unit of a 64-bit register has no lanes of its own: its pairs begin in the first.
    for (u32 u = 0; u < p->units; u++)
        if (w->late_lanes[u])
            copy_lanes(regs + (size_t)u * EMU_LANES, copy + (size_t)u * EMU_LANES,
                       w->late_lanes[u], p->wide_unit[u] ? 2 : 1);
}

void emu_late_landed(EmuCta *c, u32 low, u32 high)
{
    EmuSchedule s = c->run->launch->schedule;
    if (!is_on(c) || !c->run->hazards || !emu_chance(c, s == SCHED_RANDOM ? 128 : 224)) return;
    for (int i = 0; i < c->warps; i++) {
        EmuWarp *w = &c->warp[i];
        bool any = false;
        Record r;
        emu_late_begin(w);
        for (u32 at = 0; at < w->late_n; at += HEAD + (r.words + 1) / 2 * 2) {
            memcpy(&r, w->late + at, sizeof r);
            if (r.token >= 0) any |= reread(w, &r, w->late + at + HEAD, low, high);
        }
        if (any) run_again(w);
    }
}
