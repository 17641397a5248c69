// ops_async.c - copies that run beside the program: bulk tensor loads and stores, cp.async.
//
// A copy is checked and noted in shadow memory when it is issued; its bytes move at a point that
// the scheduler chooses: a load between its issue and the moment nothing else can run, a store's
// read up to the wait of its thread, cp.async likewise.
#include "state.h"

#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

// ---- the pool -----------------------------------------------------------------------------------

// Appends to the pool, which keeps the order of issue. Fields that depend on the kind are left as
// they were in the effect's former life: the caller sets them.
static EmuEffect *effect_new(EmuCta *c, const EmuWarp *w, const EmuOp *op, EmuEffectKind kind,
                             int lane)
{
    EmuEffect *e = c->fx_free;
    if (e) c->fx_free = e->next;
    else e = ARENA_NEW(c->run->arena, EmuEffect);
    e->next = NULL;
    e->op = op;
    e->kind = (u8)kind;
    e->warp = w->id;
    e->lane = (u8)lane;
    e->performed = false;
    e->access = 0;
    e->by = w->cta;
    *c->fx_last = e;
    c->fx_last = &e->next;
    c->fx_n++;
    return e;
}

// Removes the effect that *link points to.
static void effect_free(EmuCta *c, EmuEffect **link)
{
    EmuEffect *e = *link;
    *link = e->next;
    if (!*link) c->fx_last = link;
    e->next = c->fx_free;
    c->fx_free = e;
}

// ---- boxes of a tensor map ----------------------------------------------------------------------

typedef struct {
    const TensorMap *m;
    // A box as rows of its innermost dimension, packed in the order of the other dimensions. With
    // a swizzle the TMA unit gives every row a whole span (128, 64 or 32 bytes), even when the box
    // is narrower: the gap is neither written nor counted.
    u32 inner, pitch, rows, elem; // bytes of a box row, bytes between rows, rows of the box
} Box;

static Box box_of(const TensorMap *m)
{
    Box b = {.m = m, .elem = dtype_bytes[m->type], .rows = 1};
    b.inner = m->box[0] * b.elem;
    b.pitch = smem_layout[m->swizzle].span ? (u32)smem_layout[m->swizzle].span : b.inner;
    for (int i = 1; i < m->rank; i++) b.rows = (u32)MIN((u64)b.rows * m->box[i], UINT32_MAX);
    return b;
}

// Bytes of shared memory from the first row to the end of the last. Boxes that TMA accepts can have
// more than 2^32 of them; those saturate, and then fit no buffer.
static u32 box_span(const Box *b) { return (u32)MIN((u64)b->rows * b->pitch, UINT32_MAX); }

// Global address of a box row's first element, and which bytes of the row exist: [*low, *high).
// Byte offset from the tensor's base of row `row` of the box whose origin is `coord`, as if the
// tensor had no edges (it may be negative), and the bytes of the row that exist: none where an
// outer dimension is out of range. What does not exist is zero on a load and left alone by a
// store.
static i64 row_address(const Box *b, const i32 *coord, u32 row, u32 *low, u32 *high)
{
    const TensorMap *m = b->m;
    i64 at = (i64)coord[0] * b->elem;
    i64 x0 = coord[0], n = (i64)m->dim[0] - x0;
    *low = x0 < 0 ? (u32)MIN(-x0, (i64)m->box[0]) * b->elem : 0;
    *high = n <= 0 ? 0 : (u32)MIN(n, (i64)m->box[0]) * b->elem;
    for (int i = 1; i < m->rank; i++) {
        i64 x = (i64)coord[i] + row % m->box[i];
        row /= m->box[i];
        if (x < 0 || x >= (i64)m->dim[i]) *high = 0;
        else at += x * (i64)m->stride[i];
    }
    if (*high < *low) *high = *low;
    return at;
}

// A chunk of a narrow row may land anywhere in the row's span, so whole spans must be in the
// buffer.
// Arena offset where a 16-byte chunk lands: the hardware XORs bits 4.. with bits 7.. of the
// ABSOLUTE shared address, so the arena's base has to be added first.
static u32 swizzled(const Box *b, u32 offset)
{
    u32 a = offset + EMU_SMEM_BASE;
    a ^= (a >> 7 & (u32)smem_layout[b->m->swizzle].mask) << 4;
    return a - EMU_SMEM_BASE;
}

// Moves all bytes of a box between memory and the arena, in chunks of 16 bytes (the unit of the
// swizzle; the rules of tensor maps make inner rows multiples of it). Touches nothing outside the
// tensor's stated bytes, whatever the map says.
static void move_box(EmuCta *c, const EmuEffect *e, bool load)
{
    Box b = box_of(&e->arg->tmap);
    u8 *base = b.m->base;
    for (u32 r = 0; r < b.rows; r++) {
        u32 low, high;
        // The largest row: 256 elements of 8 bytes.
        u8 row[256 * 8 + 16] = {0};
        i64 at = row_address(&b, e->coord, r, &low, &high);
        bool there = high > low && at + low >= 0 && at + high <= (i64)e->arg->tmap_bytes;
        if (load && there) memcpy(row + low, base + at + low, high - low);
        u32 offset = e->smem + r * b.pitch;
        for (u32 k = 0; k < b.inner; k += 16) {
            u32 place = swizzled(&b, offset + k);
            if (load) memcpy(c->smem + place, row + k, 16);
            else memcpy(row + k, emu_seen(c, emu_named(e->op, 0), place, 1u << e->warp), 16);
        }
        if (!load && there) memcpy(base + at + low, row + low, high - low);
    }
}

// An element of at most four bytes as a number, for reports.
static double value_of(DType type, const u8 *p)
{
    u32 v = 0;
    memcpy(&v, p, MIN(4, dtype_bytes[type]));
    switch (type) {
    case DT_F32: case DT_TF32: return f32_of_bits(v);
    case DT_F16: return f16_to_f32((u16)v);
    case DT_BF16: return bf16_to_f32((u16)v);
    case DT_E4M3: return e4m3_to_f32((u8)v);
    case DT_E5M2: return e5m2_to_f32((u8)v);
    case DT_S32: return (i32)v;
    default: return v;
    }
}

// False when the load has landed already, when the bytes are in the gap of a narrow row, or when
// elements are wider than four bytes.
bool emu_load_values(const EmuCta *c, u32 access, u32 offset, double *now, double *next)
{
    const EmuEffect *e = c->fx_first;
    while (e && (e->access != access || e->kind != FX_BULK_LOAD)) e = e->next;
    if (!e) return false;
    Box b = box_of(&e->arg->tmap);
    if (b.elem > 4) return false;
    offset -= offset % b.elem;
    u32 at = swizzled(&b, offset) - e->smem; // the XOR is its own inverse
    u32 low, high, row = at / b.pitch, byte = at % b.pitch;
    if (row >= b.rows || byte >= b.inner) return false;
    i64 from = row_address(&b, e->coord, row, &low, &high);
    *now = value_of(b.m->type, c->smem + offset);
    *next = 0;
    if (byte < low || byte >= high) return true;
    if (from + byte < 0 || from + byte + b.elem > (i64)e->arg->tmap_bytes) return false;
    *next = value_of(b.m->type, (const u8 *)b.m->base + from + byte);
    return true;
}

// Checks what the launch would die of. False: nothing is copied.
// Two of the rules surprise (both measured, any swizzle): the innermost start coordinate must be a
// multiple of 16 bytes, and a store, unlike a load, accepts no negative start. The machine answers
// both with "illegal instruction".
static bool box_legal(EmuWarp *w, const EmuOp *op, const EmuArg *arg, const i32 *coord, int lane)
{
    char why[200];
    const TensorMap *m = &arg->tmap;
    const char *refused = tma_check(m, why, sizeof why);
    if (refused) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0, "%s", refused);
        return false;
    }
    if (m->rank != op->n) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0, "%u coordinates for a tensor map of rank %d",
                   op->n, m->rank);
        return false;
    }
    if ((i64)coord[0] * dtype_bytes[m->type] % 16) {
        emu_hazard(
            w, op, lane, HZ_ILLEGAL, NULL, 0,
            "the innermost coordinate %d of %s is not a multiple of 16 bytes: the launch would"
            " die",
            coord[0], dtype_name[m->type]);
        return false;
    }
    for (int i = 0; i < m->rank && op->op == OP_TMA_STORE; i++)
        if (coord[i] < 0) {
            emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0,
                       "a bulk store with the negative coordinate %d: the launch would die",
                       coord[i]);
            return false;
        }
    return true;
}

// Checks and notes what the copy will touch, at issue: `write` is about shared memory (a load).
// Shared bytes as one range when rows have no gaps, since the swizzle only permutes inside it;
// else chunk by chunk. Global bytes row by row, where the kernel writes the tensor too.
static void note_box(EmuWarp *w, const EmuEffect *e, int param, bool write)
{
    Box b = box_of(&e->arg->tmap);
    if (b.inner == b.pitch) {
        emu_touch(w, e->access, e->smem, b.rows * b.pitch, e->lane, write, true);
    } else {
        for (u32 r = 0; r < b.rows; r++)
            for (u32 k = 0; k < b.inner; k += 16)
                emu_touch(w, e->access, swizzled(&b, e->smem + r * b.pitch + k), 16, e->lane, write,
                          true);
    }
    EmuRun *run = w->cta->run;
    if (w->at != w->cta) return; // its source was noted for the own CTA
    for (u32 r = 0; r < b.rows; r++) {
        u32 low, high;
        i64 at = row_address(&b, e->coord, r, &low, &high);
        if (high <= low) continue;
        if (at + low < 0 || at + high > (i64)e->arg->tmap_bytes) {
            emu_hazard(w, e->op, e->lane, HZ_BOUNDS, NULL, 0,
                       "the box touches bytes %lld .. %lld of a tensor of %zu bytes",
                       (long long)(at + low), (long long)(at + high - 1), e->arg->tmap_bytes);
            return;
        }
        if (run->hazards && run->owner[run->tensor[param]])
            emu_global_note(w, e->op, param, (const u8 *)b.m->base + at + low, high - low,
                            write ? UINT32_MAX : e->access, e->lane, !write, true);
    }
}

// ---- loads --------------------------------------------------------------------------------------

// A bulk load arrives: bytes, then their count on the mbarrier. The phase that counts them is
// known only now; the record takes it over for those who later ask whether the phase was observed.
static void land(EmuCta *c, EmuEffect *e)
{
    EmuBar *b = &c->bar[e->bar];
    Box box = box_of(&e->arg->tmap);
    move_box(c, e, true);
    if (e->access) c->access.at[e->access].phase = b->phase;
    if (c->run->observed) emu_saw_landed(c, e, b, tma_box_bytes(&e->arg->tmap));
    // Bytes of another CTA: who sees them knows that its issuer had got that far.
    for (int i = 0; e->by != c && i < c->bars_n; i++) {
        u32 *p = &b->clock->phases[emu_bar_clock(e->by, (u32)i)];
        *p = MAX(*p, e->known[i]);
    }
    emu_late_landed(c, e->smem, e->smem + box.rows * box.pitch);
    emu_bar_landed(c, b, tma_box_bytes(&e->arg->tmap), e->op);
}

// Moves the bytes, once. Stores and cp.async stay in the pool until their thread has waited,
// because waiting, not moving, is what orders them.
static void perform(EmuCta *c, EmuEffect *e)
{
    if (e->performed) return;
    e->performed = true;
    c->fx_n--;
    switch (e->kind) {
    case FX_BULK_LOAD: land(c, e); break;
    case FX_BULK_STORE: move_box(c, e, false); break;
    default:
        LANES {
            if (!(e->lanes >> i & 1)) continue;
            u8 *to = c->smem + e->dst[i];
            memset(to, 0, e->bytes);
            if (e->valid[i]) memcpy(to, e->from[i], e->valid[i]);
        }
        break;
    }
}

void emu_effect_run(EmuCta *c, EmuEffect *e)
{
    perform(c, e);
    if (e->kind != FX_BULK_LOAD) return;
    for (EmuEffect **link = &c->fx_first; *link; link = &(*link)->next) {
        if (*link != e) continue;
        effect_free(c, link);
        return;
    }
}

// Uniform among the pending ones: bulk copies complete in any order, also those of one thread.
bool emu_effect_any(EmuCta *c)
{
    if (!c->fx_n) return false;
    u32 skip = c->fx_n > 1 ? emu_random(c, (u32)c->fx_n) : 0;
    for (EmuEffect *e = c->fx_first; e; e = e->next) {
        if (e->performed || skip--) continue;
        emu_effect_run(c, e);
        return true;
    }
    return false;
}

// The part of a load that goes to one CTA (w->at): its tile and its mbarrier, at the places that
// the addresses name there.
static void load_into(EmuWarp *w, const EmuOp *op, const EmuArg *arg, const i32 *coord, int lane)
{
    EmuCta *c = w->at;
    const EmuOpnd *o = op->o;
    EmuBar *b = emu_bar_use(w, op, &o[3 + op->n], 1, lane);
    Box box = box_of(&arg->tmap);
    u32 smem = emu_shared_offset(w, op, o, 0, lane, box_span(&box), 128);
    if (!b || smem == UINT32_MAX) return;
    u32 bar = (u32)(b - c->bar);
    const EmuClock *k = emu_clock_of(w, lane);
    // O10 again: on a slower schedule these bytes would be counted in the phase before.
    if (c->run->hazards && k->phases[emu_bar_clock(c, bar)] < b->phase) {
        Buf name = {0};
        emu_bar_text(c, bar, &name);
        emu_hazard(w, op, lane, HZ_MBARRIER, "O10", 0,
                   "the bulk load's bytes count for phase %u of"
                   " mbarrier %s, but its issuer has not observed that phase %u completed",
                   b->phase, name.s, b->phase - 1);
        buf_free(&name);
    }
    EmuEffect *e = effect_new(c, w, op, FX_BULK_LOAD, lane);
    e->smem = smem;
    e->bar = bar;
    e->arg = arg;
    memcpy(e->coord, coord, sizeof e->coord);
    if (c != w->cta) {
        if (!e->known) e->known = ARENA_ARRAY(c->run->arena, u32, c->bars_n);
        memcpy(e->known, k->phases + emu_bar_clock(w->cta, 0), sizeof(u32) * (size_t)c->bars_n);
    }
    e->access = emu_access_new(w, ACC_BULK_LOAD, op, lane, 1u << lane, 0);
    if (e->access) {
        c->access.at[e->access].bar = bar;
        c->access.at[e->access].phase = b->phase;
    }
    b->loads++;
    b->last_load_phase = MAX(b->last_load_phase, b->phase + 1);
    b->load_from_peer = c != w->cta;
    b->load_op = op;
    if (c->run->hazards) {
        if (c == w->cta) b->waited[w->id].op = NULL;
        emu_bar_settle(c, b, k);
    }
    note_box(w, e, (int)o[2].imm, true);
    if (c->watch) emu_watch_load(c, e->access, smem, &arg->tmap, coord, (int)o[2].imm);
    if (c->run->observed) emu_saw_load(w, e, b, tma_box_bytes(&arg->tmap));
    // The earliest legal moment is the issue itself: it overwrites what is still being read.
    if (emu_chance(c, c->early_load)) emu_effect_run(c, e);
}

// tma.load [S], T, coordinates, [B] by one lane. Destination aligned to 128 bytes, with any
// swizzle (a TMA rule). Nothing happens after a report that leaves no sane place to copy to.
static void issue_load(EmuWarp *w, const EmuOp *op, int lane)
{
    const EmuOpnd *o = op->o;
    const EmuRun *r = w->cta->run;
    const EmuArg *arg = &r->launch->args[o[2].imm];
    i32 coord[TMA_MAX_RANK] = {0};
    for (int i = 0; i < op->n && i < TMA_MAX_RANK; i++) coord[i] = (i32)emu_reg(w, &o[3 + i])[lane];
    if (!box_legal(w, op, arg, coord, lane)) return;
    if (!(op->flags & OPF_MULTICAST)) {
        load_into(w, op, arg, coord, lane);
        return;
    }
    for (u32 k = 0; k < r->ctas; k++) {
        if (!emu_enter_peer(w, op, k, lane, "the bulk load goes to")) continue;
        load_into(w, op, arg, coord, lane);
        w->at = w->cta;
    }
}

// Every lane of the mask issues a copy of its own; programs elect one. Operand 2 is the tensor
// map, a parameter and no register.
EmuResult emu_op_TMA_LOAD(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards)
        for (int i = 0; i < op->nopnd; i++)
            if (i != 2) emu_read_regs(w, op, &op->o[i], mask, true);
    LANES if (mask >> i & 1) issue_load(w, op, i);
    return RUN_YIELD;
}

// ---- stores -------------------------------------------------------------------------------------

// tma.store T, coordinates, [S] by one lane, into the open bulk group of that lane.
static void issue_store(EmuWarp *w, const EmuOp *op, int lane)
{
    EmuCta *c = w->cta;
    const EmuOpnd *o = op->o;
    const EmuArg *arg = &c->run->launch->args[o[0].imm];
    i32 coord[TMA_MAX_RANK] = {0};
    for (int i = 0; i < op->n && i < TMA_MAX_RANK; i++) coord[i] = (i32)emu_reg(w, &o[1 + i])[lane];
    if (!box_legal(w, op, arg, coord, lane)) return;
    Box box = box_of(&arg->tmap);
    u32 smem = emu_shared_offset(w, op, &o[1 + op->n], 0, lane, box_span(&box), 128);
    if (smem == UINT32_MAX) return;
    EmuEffect *e = effect_new(c, w, op, FX_BULK_STORE, lane);
    e->smem = smem;
    e->arg = arg;
    e->group = w->bulk_group[lane];
    memcpy(e->coord, coord, sizeof coord);
    e->access = emu_access_new(w, ACC_BULK_STORE, op, lane, 1u << lane, 0);
    note_box(w, e, (int)o[0].imm, false);
    if (c->run->observed) emu_saw_store(w, e, tma_box_bytes(&arg->tmap));
    if (!emu_chance(c, c->late_store)) perform(c, e);
}

EmuResult emu_op_TMA_STORE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    if (w->cta->run->hazards)
        for (int i = 1; i < op->nopnd; i++) emu_read_regs(w, op, &op->o[i], mask, true);
    LANES if (mask >> i & 1) issue_store(w, op, i);
    return RUN_YIELD;
}

// Groups are counted per thread: a wait by another thread than the issuer waits for nothing (O7).
EmuResult emu_op_BULK_COMMIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)op;
    LANES if (mask >> i & 1) w->bulk_group[i]++;
    return RUN_NEXT;
}

// Waits for all but the newest `keep` groups of each lane; `full`: for the global writes too.
// done[0] is the epoch from which the source may be written again, done[1] the one from which the
// global bytes may be read; an effect stays in the pool between the two.
static void bulk_wait(EmuWarp *w, u32 mask, u32 keep, bool full)
{
    EmuCta *c = w->cta;
    for (EmuEffect **link = &c->fx_first; *link;) {
        EmuEffect *e = *link;
        bool mine = e->kind == FX_BULK_STORE && e->warp == w->id && (mask >> e->lane & 1) &&
                    e->group + keep < w->bulk_group[e->lane];
        if (!mine) {
            link = &e->next;
            continue;
        }
        perform(c, e);
        if (e->access) {
            EmuAccess *a = &c->access.at[e->access];
            if (!a->done[0]) a->done[0] = w->epoch;
            if (full) a->done[1] = w->epoch;
        }
        if (full) effect_free(c, link);
        else link = &e->next;
    }
}

EmuResult emu_op_BULK_WAIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    bulk_wait(w, mask, op->n, true);
    return RUN_NEXT;
}

EmuResult emu_op_BULK_WAIT_READ(EmuWarp *w, const EmuOp *op, u32 mask)
{
    bulk_wait(w, mask, op->n, false);
    return RUN_NEXT;
}

// ---- cp.async -----------------------------------------------------------------------------------

// One lane's copy of op->n bytes: o[4] of them from memory, the rest zeros (the zero-fill form;
// with 0 the address is not looked at). A lane that is reported copies nothing.
static void cpasync_lane(EmuWarp *w, const EmuOp *op, EmuEffect *e, int lane)
{
    const EmuOpnd *o = op->o;
    u32 bytes = emu_reg(w, &o[4])[lane];
    int param;
    if (bytes > op->n) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0, "cp.async of %u bytes out of %u", bytes,
                   op->n);
        return;
    }
    u32 dst = emu_shared_offset(w, op, o, 0, lane, op->n, op->n);
    if (dst == UINT32_MAX) return;
    u8 *from = NULL;
    if (bytes) {
        from = emu_global(w, op, emu_address(w, &o[2], lane), 1, lane, bytes, 1, &param);
        if (!from) return;
        if ((uintptr_t)from % op->n)
            emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0,
                       "cp.async from an address that is not a multiple"
                       " of %u bytes",
                       op->n);
        emu_global_note(w, op, param, from, bytes, UINT32_MAX, lane, false, false);
    }
    e->lanes |= 1u << lane;
    e->dst[lane] = dst;
    e->from[lane] = from;
    e->valid[lane] = (u8)bytes;
    emu_touch(w, e->access, dst, op->n, lane, true, true);
}

// cp.async [S], [G], bytes: goes through the generic proxy, so only the thread's own wait orders
// it (O13), and a wgmma that reads the bytes needs a proxy fence after that (O4).
EmuResult emu_op_CPASYNC(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuCta *c = w->cta;
    if (op->n != 4 && op->n != 8 && op->n != 16) {
        emu_hazard(w, op, -1, HZ_ILLEGAL, NULL, 0, "cp.async copies 4, 8 or 16 bytes, not %u",
                   op->n);
        return RUN_NEXT;
    }
    if (c->run->hazards) {
        emu_read_regs(w, op, &op->o[0], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
        emu_read_regs(w, op, &op->o[4], mask, true);
    }
    // Lanes whose open group has the same number share an effect: nearly always all.
    for (u32 rest = mask; rest;) {
        u32 group = w->cp_group[emu_first_lane(rest)], same = 0;
        LANES if ((rest >> i & 1) && w->cp_group[i] == group) same |= 1u << i;
        rest &= ~same;
        EmuEffect *e = effect_new(c, w, op, FX_CPASYNC, EMU_ANY_LANE);
        e->group = group;
        e->mask = same;
        e->lanes = 0;
        e->bytes = op->n;
        e->access = emu_access_new(w, ACC_CPASYNC, op, EMU_ANY_LANE, same, 0);
        LANES if (same >> i & 1) cpasync_lane(w, op, e, i);
        if (!emu_chance(c, c->late_cp)) perform(c, e);
    }
    return RUN_NEXT;
}

EmuResult emu_op_CPASYNC_COMMIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    (void)op;
    LANES if (mask >> i & 1) w->cp_group[i]++;
    return RUN_NEXT;
}

// The lanes have waited: their copies count as generic writes of theirs from now on.
// Waits for all but the newest `keep` committed groups of each lane; `open_too`: also for copies
// not committed yet, which cp.async.mbarrier.arrive covers. An effect is done when all its lanes
// waited.
static void cpasync_wait(EmuWarp *w, u32 lanes, u32 keep, bool open_too)
{
    EmuCta *c = w->cta;
    for (EmuEffect **link = &c->fx_first; *link;) {
        EmuEffect *e = *link;
        if (e->kind != FX_CPASYNC || e->warp != w->id) {
            link = &e->next;
            continue;
        }
        u32 done = 0;
        LANES if ((e->mask & lanes) >> i & 1)
            if (open_too || e->group + keep < w->cp_group[i]) done |= 1u << i;
        if (done) perform(c, e);
        e->mask &= ~done;
        if (e->mask) {
            link = &e->next;
            continue;
        }
        if (e->access) {
            c->access.at[e->access].kind = ACC_WRITE;
            c->access.at[e->access].epoch = w->epoch;
        }
        effect_free(c, link);
    }
}

EmuResult emu_op_CPASYNC_WAIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    cpasync_wait(w, mask, op->n, false);
    return RUN_NEXT;
}

void emu_cpasync_complete(EmuWarp *w, u32 lanes, u32 keep) { cpasync_wait(w, lanes, keep, true); }

// ---- the end of threads -------------------------------------------------------------------------

// Loads left in flight are found at the end of the CTA (ops_sync.c), through their mbarriers.
void emu_async_end(EmuWarp *w, const EmuOp *op, u32 lanes)
{
    EmuCta *c = w->cta;
    for (EmuEffect *e = c->fx_first; e; e = e->next) {
        if (e->kind != FX_BULK_STORE || e->warp != w->id || !(lanes >> e->lane & 1)) continue;
        if (!e->access || c->access.at[e->access].done[0]) continue;
        emu_hazard(w, op->src ? op : e->op, e->lane, HZ_BULK_STORE, "O7", e->access,
                   "the thread ends before bulk.wait.read: the bulk store may still read its source"
                   " after the CTA's shared memory is gone");
        c->access.at[e->access].done[0] = w->epoch;
    }
}
