// ops_mem.c - loads and stores of shared and global memory, ldmatrix and stmatrix, and the address
// checks that all memory operations share.
//
// An access outside the buffer or tensor that the program names touches nothing: loads give zero.
#include "state.h"

#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

// Bytes of an element in memory. One-byte types live in 16-bit registers: PTX has none of 8 bits.
u32 emu_type_bytes(u8 type)
{
    switch (thread_type_class[type]) {
    case RC_B64: return 8;
    case RC_B16: return type == TT_B8 || type == TT_E4M3 || type == TT_E5M2 ? 1 : 2;
    default: return 4;
    }
}

// ---- addresses ----------------------------------------------------------------------------------

// The report of a shared address that cannot be used; alignment is named first, since a misaligned
// access kills the launch even inside the buffer. Always UINT32_MAX, for the caller to return.
static u32 bad_shared(EmuWarp *w, const EmuOp *op, int mem, int lane, u64 address, u32 bytes,
                      u32 align)
{
    if (address % align) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0,
                   "shared address %llu is not a multiple of %u bytes",
                   (unsigned long long)address, align);
        return UINT32_MAX;
    }
    const EmuRun *r = w->cta->run;
    const char *name =
        mem < op->src->nmem ? r->fn->buffers.at[op->src->mem[mem].buffer].name : NULL;
    EmuSpan s = {0, w->cta->smem_bytes};
    if (name) s = r->span[op->src->mem[mem].buffer];
    emu_hazard(
        w, op, lane, HZ_BOUNDS, NULL, 0,
        "shared bytes %lld .. %lld leave %s%s, which lies at %u .. %u (offsets in the arena)",
        (long long)address - EMU_SMEM_BASE, (long long)address - EMU_SMEM_BASE + bytes - 1,
        name ? "buffer " : "the arena", name ? name : "", s.low, s.high - 1);
    return UINT32_MAX;
}

u32 emu_shared_offset(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, int mem, int lane, u32 bytes,
                      u32 align)
{
    // Bounds are the named buffer's, not the arena's: running from one tile into the next is a bug
    // even where the machine would not notice. 32-bit addresses wrap as the address unit's do.
    u64 address = emu_address(w, o, lane);
    if (o->class != RC_B64) address = (u32)address;
    EmuSpan s = {0, w->cta->smem_bytes};
    if (mem < op->src->nmem) s = w->cta->run->span[op->src->mem[mem].buffer];
    u64 low = EMU_SMEM_BASE + (u64)s.low, high = EMU_SMEM_BASE + (u64)s.high;
    if (address < low || address > high || bytes > high - address || address % align)
        return bad_shared(w, op, mem, lane, address, bytes, align);
    return (u32)address - EMU_SMEM_BASE;
}

// Global addresses are host addresses. Written without sums that could wrap.
static bool inside(const EmuArg *arg, u8 kind, u64 address, u64 bytes)
{
    u64 base = (u64)(uintptr_t)(kind == PARAM_TMAP ? arg->tmap.base : arg->ptr);
    u64 size = kind == PARAM_TMAP ? arg->tmap_bytes : arg->bytes;
    if (kind != PARAM_PTR && kind != PARAM_TMAP) return false;
    return address >= base && bytes <= size && address - base <= size - bytes;
}

u8 *emu_global(EmuWarp *w, const EmuOp *op, u64 address, int mem, int lane, u32 bytes, u32 align,
               int *param)
{
    const EmuRun *r = w->cta->run;
    if (address % align) {
        emu_hazard(w, op, lane, HZ_ILLEGAL, NULL, 0,
                   "global address is %u bytes past a multiple of %u", (u32)(address % align),
                   align);
        return NULL;
    }
    const ThreadBuffer *b = NULL;
    *param = -1;
    if (mem < op->src->nmem) {
        b = &r->fn->buffers.at[op->src->mem[mem].buffer];
        if (b->kind == BUF_GLOBAL && b->param >= 0 && b->param < r->fn->params.n) *param = b->param;
    }
    // A program with a MemRef must stay in that tensor. One without (hand-written) may touch any.
    if (*param >= 0) {
        if (inside(&r->launch->args[*param], r->fn->params.at[*param].kind, address, bytes))
            return (u8 *)(uintptr_t)address;
    } else {
        for (int i = 0; i < r->fn->params.n; i++) {
            if (!inside(&r->launch->args[i], r->fn->params.at[i].kind, address, bytes)) continue;
            *param = i;
            return (u8 *)(uintptr_t)address;
        }
    }
    if (*param >= 0) {
        const EmuArg *arg = &r->launch->args[*param];
        emu_hazard(w, op, lane, HZ_BOUNDS, NULL, 0,
                   "global access of %u bytes at byte %lld of %s, which has %zu bytes", bytes,
                   (long long)(address - (u64)(uintptr_t)arg->ptr), b->name, arg->bytes);
    } else {
        emu_hazard(w, op, lane, HZ_BOUNDS, NULL, 0,
                   "global access of %u bytes outside of every tensor", bytes);
    }
    return NULL;
}

// ---- who wrote global memory --------------------------------------------------------------------

// May `lane` (as the async proxy, if so) touch what `o`, a write of this CTA, left? A bulk store
// is complete for others only after the full wait of its thread (O7). A generic write is never
// visible to a bulk load of the same grid: that would take a proxy fence for global memory, which
// the thread IR does not have (O14).
static bool global_ordered(const EmuWarp *w, const EmuOwner *o, int lane, bool async)
{
    const EmuAccess *p = &w->cta->access.at[o->access - w->cta->access_base];
    const EmuClock *k = emu_clock_of(w, lane);
    bool same = p->warp == w->index && (int)o->lane == lane && lane < EMU_LANES;
    if (p->kind == ACC_BULK_STORE)
        return p->done[1] && (same || emu_covers(&k->g[p->warp], p->done[1], o->lane, p->mask));
    if (p->kind != ACC_WRITE && p->kind != ACC_ATOMIC) return true;
    return !async && (same || emu_covers(&k->g[p->warp], p->epoch, o->lane, p->mask));
}

// Words for a conflict in global memory. Two CTAs first: there the records of the other one are
// gone and only its number is left.
static void report_global(EmuWarp *w, const EmuOp *op, int param, const u8 *p, int lane, bool write,
                          bool async, const EmuOwner *o)
{
    EmuCta *c = w->cta;
    const EmuRun *r = c->run;
    const EmuArg *arg = &r->launch->args[param];
    const u8 *base = r->fn->params.at[param].kind == PARAM_TMAP ? arg->tmap.base : arg->ptr;
    const char *verb = write ? "writes" : "reads", *name = r->fn->params.at[param].name;
    if (o->cta != (u32)c->index + 1) {
        i64 other = (i64)o->cta - 1, gx = r->launch->grid[0], gy = r->launch->grid[1];
        emu_hazard(
            w, op, lane, async && !write ? HZ_PROXY : HZ_RACE, async && !write ? "O14" : "O2", 0,
            "%s byte %lld of %s, which CTA (%lld,%lld,%lld) writes too; nothing orders two CTAs"
            " of one grid",
            verb, (long long)(p - base), name, (long long)(other % gx),
            (long long)(other / gx % gy), (long long)(other / gx / gy));
        return;
    }
    Buf text = {0};
    u32 other = o->access - c->access_base;
    emu_access_text(c, other, (int)o->lane, &text);
    const EmuAccess *a = &c->access.at[other];
    if (a->kind == ACC_BULK_STORE)
        emu_hazard(
            w, op, lane, HZ_BULK_STORE, "O7", other,
            "%s byte %lld of %s after %s; its global write is complete only after bulk.wait of"
            " the issuing thread",
            verb, (long long)(p - base), name, text.s);
    else if (async)
        emu_hazard(
            w, op, lane, HZ_PROXY, "O14", other,
            "the bulk copy %s byte %lld of %s after %s; the proxy fence for shared memory does"
            " not order global memory",
            verb, (long long)(p - base), name, text.s);
    else
        emu_hazard(w, op, lane, HZ_RACE, "O2", other,
                   "%s byte %lld of %s after %s; nothing orders the two", verb,
                   (long long)(p - base), name, text.s);
    buf_free(&text);
}

// Global memory keeps only the last writer of each granule, not its readers: a read followed by an
// unordered write goes unseen, a write followed by anything is checked. CTAs run one after the
// other, so nothing but the end of the grid orders two of them: any meeting is a hazard.
// Atomics meet each other without one, in any CTA.
void emu_global_note(EmuWarp *w, const EmuOp *op, int param, const u8 *p, u32 bytes, u32 access,
                     int lane, bool write, bool async)
{
    bool atomic = op->op == OP_ATOMG || op->op == OP_CASG;
    EmuRun *r = w->cta->run;
    if (!r->hazards || param < 0) return;
    int tensor = r->tensor[param];
    EmuOwner *owner = r->owner[tensor];
    if (!owner) return;
    const EmuArg *arg = &r->launch->args[tensor];
    bool map = r->fn->params.at[tensor].kind == PARAM_TMAP;
    const u8 *base = map ? arg->tmap.base : arg->ptr;
    size_t size = map ? arg->tmap_bytes : arg->bytes;
    if (p < base || (size_t)(p - base) + bytes > size) return;
    size_t low = (size_t)(p - base) >> r->granule[tensor];
    size_t high = ((size_t)(p - base) + bytes - 1) >> r->granule[tensor];
    u32 base_index = w->cta->access_base, mark = access + base_index;
    for (size_t i = low; i <= high; i++) {
        EmuOwner *o = &owner[i];
        if (atomic && o->atomic) {
            *o = (EmuOwner){(u32)w->cta->index + 1, true, mark, (u32)lane};
            continue;
        }
        bool mine = o->cta == (u32)w->cta->index + 1;
        // Records older than the last collection count as ordered.
        bool check = !mine || (o->access > base_index && !(write && o->access == mark));
        if (o->cta && check && (!mine || !global_ordered(w, o, lane, async))) {
            report_global(w, op, param, base + (i << r->granule[tensor]), lane, write, async, o);
            o->cta = 0; // once an element
        }
        if (write) *o = (EmuOwner){(u32)w->cta->index + 1, atomic, mark, (u32)lane};
    }
}

// ---- values between memory and registers --------------------------------------------------------

// o->count consecutive elements from memory into a lane of consecutive registers; narrow ones are
// zero-extended, as ld.b8 and ld.b16 do.
static void load_lane(EmuWarp *w, const EmuOpnd *o, u32 elem, int lane, const u8 *from)
{
    if (elem == 4) {
        u32 *r = emu_reg(w, o) + lane;
        for (u32 k = 0; k < o->count; k++) memcpy(r + k * EMU_LANES, from + 4 * k, 4);
        return;
    }
    for (u32 k = 0; k < o->count; k++) {
        EmuOpnd r = *o;
        r.unit += k * (o->class == RC_B64 ? 2 : 1);
        u64 v = 0;
        memcpy(&v, from + k * elem, elem);
        if (r.class == RC_B64) emu_reg64(w, &r)[lane] = v;
        else emu_reg(w, &r)[lane] = (u32)v;
    }
}

static void store_lane(EmuWarp *w, const EmuOpnd *o, u32 elem, int lane, u8 *to)
{
    if (elem == 4) {
        const u32 *r = emu_reg(w, o) + lane;
        for (u32 k = 0; k < o->count; k++) memcpy(to + 4 * k, r + k * EMU_LANES, 4);
        return;
    }
    for (u32 k = 0; k < o->count; k++) {
        EmuOpnd r = *o;
        r.unit += k * (o->class == RC_B64 ? 2 : 1);
        u64 v = r.class == RC_B64 ? emu_reg64(w, &r)[lane] : emu_reg(w, &r)[lane];
        memcpy(to + k * elem, &v, elem);
    }
}

// Vector accesses of the machine are 1, 2 or 4 registers and at most 16 bytes.
static bool vector_fits(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, u32 elem, u32 mask)
{
    u32 n = op->n ? op->n : 1;
    if (o->count == n && n * elem <= 16 && (n & (n - 1)) == 0 &&
        (elem == 8) == (o->class == RC_B64) && o->class != RC_PRED)
        return true;
    emu_hazard(w, op, emu_first_lane(mask), HZ_ILLEGAL, NULL, 0,
               "a vector of %u registers of %u bytes cannot be loaded or stored at once", o->count,
               elem);
    return false;
}

static const u8 zeros[16];

// Marks the loaded registers as unbound when a bulk load may overwrite what they read.
static void late_load(EmuWarp *w, const EmuOp *op, const EmuOpnd *to, u32 mask, u32 access,
                      const u32 *offset, u32 elem)
{
    if (!access || op->src->nmem < 1 || !w->cta->run->prog->async_buffer[op->src->mem[0].buffer])
        return;
    emu_late_begin(w);
    int t = emu_token_new(w, access);
    EmuToken *token = &w->token[t];
    if (token->access == access) {
        token->unit = to->unit;
        token->count = to->count;
        token->bytes = (u8)elem;
        token->mask = mask;
        if (offset) memcpy(token->addr, offset, sizeof token->addr);
        else token->mask = 0;
    }
    for (u32 k = 0; k < to->count; k++) {
        u32 unit = to->unit + k * (to->class == RC_B64 ? 2 : 1);
        w->unit[unit].taint |= 1ull << t;
    }
    if (token->mask && token->access == access) emu_late_load(w, op, mask, t);
}

// ld.shared: alignment is that of the whole vector. The address is a pinned use: a load cannot run
// before the value that it is addressed by.
EmuResult emu_op_LDS(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *to = &op->o[0], *address = &op->o[1];
    u32 elem = emu_type_bytes(op->type), bytes = elem * to->count, offset[EMU_LANES];
    if (!vector_fits(w, op, to, elem, mask)) return RUN_NEXT;
    bool hazards = w->cta->run->hazards;
    if (hazards) emu_read_regs(w, op, address, mask, true);
    LANES if (mask >> i & 1) offset[i] = emu_shared_offset(w, op, address, 0, i, bytes, bytes);
    u32 access = hazards ? emu_access_new(w, ACC_READ, op, EMU_ANY_LANE, mask, 0) : 0;
    LANES {
        if (!(mask >> i & 1)) continue;
        bool good = offset[i] != UINT32_MAX;
        if (good && access) emu_touch(w, access, offset[i], bytes, i, false, true);
        load_lane(w, to, elem, i,
                  good ? emu_seen(w->cta, emu_named(op, 0), offset[i], 1u << w->id) : zeros);
    }
    if (hazards) {
        emu_write_regs(w, op, to, mask);
        late_load(w, op, to, mask, access, offset, elem);
    }
    return RUN_NEXT;
}

// st.shared: both address and value are pinned uses, so storing a value that came from a slot is
// one way to bind the read of the slot before its release (O6).
EmuResult emu_op_STS(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *address = &op->o[0], *from = &op->o[2];
    u32 elem = emu_type_bytes(op->type), bytes = elem * from->count;
    if (!vector_fits(w, op, from, elem, mask)) return RUN_NEXT;
    bool hazards = w->cta->run->hazards;
    u32 access = 0;
    if (hazards) {
        emu_read_regs(w, op, address, mask, true);
        emu_read_regs(w, op, from, mask, true);
        access = emu_access_new(w, ACC_WRITE, op, EMU_ANY_LANE, mask, 0);
    }
    LANES {
        if (!(mask >> i & 1)) continue;
        u32 offset = emu_shared_offset(w, op, address, 0, i, bytes, bytes);
        if (offset == UINT32_MAX) continue;
        if (access) emu_touch(w, access, offset, bytes, i, true, true);
        store_lane(w, from, elem, i, w->cta->smem + offset);
    }
    return RUN_NEXT;
}

// Global loads get no token: no bulk load writes global memory, so they cannot be overtaken.
EmuResult emu_op_LDG(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *to = &op->o[0], *address = &op->o[1];
    u32 elem = emu_type_bytes(op->type), bytes = elem * to->count;
    if (!vector_fits(w, op, to, elem, mask)) return RUN_NEXT;
    bool hazards = w->cta->run->hazards;
    if (hazards) emu_read_regs(w, op, address, mask, true);
    LANES {
        if (!(mask >> i & 1)) continue;
        int param;
        const u8 *p = emu_global(w, op, emu_address(w, address, i), 0, i, bytes, bytes, &param);
        if (p && hazards) emu_global_note(w, op, param, p, bytes, UINT32_MAX, i, false, false);
        load_lane(w, to, elem, i, p ? p : zeros);
    }
    if (hazards) emu_write_regs(w, op, to, mask);
    return RUN_NEXT;
}

EmuResult emu_op_STG(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *address = &op->o[0], *from = &op->o[2];
    u32 elem = emu_type_bytes(op->type), bytes = elem * from->count;
    if (!vector_fits(w, op, from, elem, mask)) return RUN_NEXT;
    bool hazards = w->cta->run->hazards;
    u32 access = 0;
    if (hazards) {
        emu_read_regs(w, op, address, mask, true);
        emu_read_regs(w, op, from, mask, true);
        access = emu_access_new(w, ACC_WRITE, op, EMU_ANY_LANE, mask, 0);
    }
    LANES {
        if (!(mask >> i & 1)) continue;
        int param;
        u8 *p = emu_global(w, op, emu_address(w, address, i), 0, i, bytes, bytes, &param);
        if (!p) continue;
        if (access) emu_global_note(w, op, param, p, bytes, access, i, true, false);
        store_lane(w, from, elem, i, p);
    }
    return RUN_NEXT;
}

// ---- matrices of 8 x 8 x 16 bits ----------------------------------------------------------------

// Offsets of the 8 * n rows; lane 8i + r addresses row r of matrix i. False after a report.
// Lanes beyond 8 * n take part in the operation but their addresses are not looked at (measured).
static bool matrix_rows(EmuWarp *w, const EmuOp *op, const EmuOpnd *address, const EmuOpnd *regs,
                        u32 mask, u32 access, u32 *row)
{
    bool good = true;
    if (regs->count != op->n || op->n > 4 || regs->class == RC_B64) {
        emu_hazard(w, op, -1, HZ_ILLEGAL, NULL, 0, "%u matrices need %u registers of 32 bits",
                   op->n, op->n);
        return false;
    }
    bool write = op->op == OP_STMATRIX;
    for (int i = 0; i < 8 * op->n; i++) {
        row[i] = mask >> i & 1 ? emu_shared_offset(w, op, address, 0, i, 16, 16) : UINT32_MAX;
        if (row[i] == UINT32_MAX) good = false;
        else if (access) emu_touch(w, access, row[i], 16, EMU_ANY_LANE, write, true);
    }
    return good;
}

// Register m of lane l gets two 16-bit elements of matrix m: row l/4, columns 2*(l%4) and the
// next; with .trans rows 2*(l%4) and the next, column l/4. The first of the two is the low half.
EmuResult emu_op_LDMATRIX(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *to = &op->o[0], *address = &op->o[1];
    u32 row[EMU_LANES], access = 0;
    bool hazards = w->cta->run->hazards;
    emu_converged(w, op, mask);
    if (hazards) {
        emu_read_regs(w, op, address, op->n >= 4 ? mask : mask & ((1u << 8 * op->n) - 1), true);
        access = emu_access_new(w, ACC_READ, op, EMU_ANY_LANE, mask, 0);
    }
    if (matrix_rows(w, op, address, to, mask, access, row)) {
        const u8 *at[EMU_LANES];
        for (int i = 0; i < 8 * op->n; i++)
            at[i] = emu_seen(w->cta, emu_named(op, 0), row[i], 1u << w->id);
        for (u32 m = 0; m < to->count; m++) {
            u32 *d = w->regs + (size_t)(to->unit + m) * 32;
            LANES {
                if (!(mask >> i & 1)) continue;
                if (!(op->flags & OPF_TRANS)) {
                    memcpy(&d[i], at[8 * m + i / 4] + i % 4 * 4, 4);
                } else {
                    u16 low, high;
                    memcpy(&low, at[8 * m + i % 4 * 2] + i / 4 * 2, 2);
                    memcpy(&high, at[8 * m + i % 4 * 2 + 1] + i / 4 * 2, 2);
                    d[i] = (u32)high << 16 | low;
                }
            }
        }
    }
    if (hazards) {
        emu_write_regs(w, op, to, mask);
        // No offsets: a register is gathered from two rows, so late.c does not reread it. The
        // token, and with it the report, works all the same.
        late_load(w, op, to, mask, access, NULL, 4);
    }
    return RUN_NEXT;
}

// The maps of ldmatrix, in the other direction. A generic write: wgmma or a bulk store of the tile
// needs the proxy fence (O4).
EmuResult emu_op_STMATRIX(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *address = &op->o[0], *from = &op->o[2];
    u32 row[EMU_LANES], access = 0;
    emu_converged(w, op, mask);
    if (w->cta->run->hazards) {
        emu_read_regs(w, op, address, op->n >= 4 ? mask : mask & ((1u << 8 * op->n) - 1), true);
        emu_read_regs(w, op, from, mask, true);
        access = emu_access_new(w, ACC_WRITE, op, EMU_ANY_LANE, mask, 0);
    }
    if (!matrix_rows(w, op, address, from, mask, access, row)) return RUN_NEXT;
    u8 *smem = w->cta->smem;
    for (u32 m = 0; m < from->count; m++) {
        const u32 *s = w->regs + (size_t)(from->unit + m) * 32;
        LANES {
            if (!(mask >> i & 1)) continue;
            if (!(op->flags & OPF_TRANS)) {
                memcpy(smem + row[8 * m + i / 4] + i % 4 * 4, &s[i], 4);
            } else {
                u16 low = (u16)s[i], high = (u16)(s[i] >> 16);
                memcpy(smem + row[8 * m + i % 4 * 2] + i / 4 * 2, &low, 2);
                memcpy(smem + row[8 * m + i % 4 * 2 + 1] + i / 4 * 2, &high, 2);
            }
        }
    }
    return RUN_NEXT;
}
