// ops_atomic.c - atomic operations on elements of shared and global memory: read, change and write
// as one. The lanes of a warp follow one another from the lowest, which is one of the orders that
// the machine may take; so do the warps as they are scheduled, so sums of floats may differ in
// their last bits between two schedules.
#include "state.h"

#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

static bool is_signed(u8 type) { return type == TT_S32 || type == TT_S64; }

// a < b as numbers of the type.
static bool less(u8 type, u64 a, u64 b)
{
    if (type == TT_S32) return (i32)a < (i32)b;
    return is_signed(type) ? (i64)a < (i64)b : a < b;
}

// Sums of f32 in global memory treat denormals as zeros, in and out; in shared memory they do not.
static float flushed(const EmuOp *op, float f)
{
    if (op->op != OP_ATOMG || (f32_bits(f) >> 23 & 255)) return f;
    return f32_of_bits(f32_bits(f) & 0x80000000u);
}

static u64 add_floats(const EmuOp *op, u32 a, u32 b)
{
    float sum = flushed(op, f32_of_bits(a)) + flushed(op, f32_of_bits(b));
    return f32_bits(flushed(op, sum));
}

// What memory holds afterwards. Narrow types are cut off by the store.
static u64 change(const EmuOp *op, u64 old, u64 v, u64 other)
{
    if (op->op == OP_CASS || op->op == OP_CASG) return old == v ? other : old;
    switch ((AtomicKind)op->n) {
    case ATOM_ADD:
        if (op->type == TT_F32) return add_floats(op, (u32)old, (u32)v);
        return old + v;
    case ATOM_MIN: return less(op->type, v, old) ? v : old;
    case ATOM_MAX: return less(op->type, old, v) ? v : old;
    case ATOM_AND: return old & v;
    case ATOM_OR: return old | v;
    case ATOM_XOR: return old ^ v;
    default: return v;
    }
}

static u64 value(EmuWarp *w, const EmuOpnd *o, int lane)
{
    return o->class == RC_B64 ? emu_reg64(w, o)[lane] : emu_reg(w, o)[lane];
}

// d, address (two operands), value, and for cas the new value behind the expected one. The operands
// are pinned uses, like those of a store (O6).
static EmuResult atomic(EmuWarp *w, const EmuOp *op, u32 mask, bool shared)
{
    const EmuOpnd *d = &op->o[0], *address = &op->o[1], *v = &op->o[3];
    bool cas = op->op == OP_CASS || op->op == OP_CASG, hazards = w->cta->run->hazards;
    u32 bytes = emu_type_bytes(op->type), access = 0;
    if (hazards) {
        emu_read_regs(w, op, address, mask, true);
        emu_read_regs(w, op, v, mask, true);
        if (cas) emu_read_regs(w, op, &op->o[4], mask, true);
        access = emu_access_new(w, ACC_ATOMIC, op, EMU_ANY_LANE, mask, 0);
    }
    LANES {
        if (!(mask >> i & 1)) continue;
        u8 *p = NULL;
        if (shared) {
            u32 offset = emu_shared_offset(w, op, address, 0, i, bytes, bytes);
            if (offset != UINT32_MAX) p = w->cta->smem + offset;
            if (p && access) emu_touch(w, access, offset, bytes, i, true, true);
        } else {
            int param;
            p = emu_global(w, op, emu_address(w, address, i), 0, i, bytes, bytes, &param);
            if (p && access) emu_global_note(w, op, param, p, bytes, access, i, true, false);
        }
        u64 old = 0;
        if (p) {
            memcpy(&old, p, bytes);
            u64 now = change(op, old, value(w, v, i), cas ? value(w, &op->o[4], i) : 0);
            memcpy(p, &now, bytes);
        }
        if (bytes == 8) emu_reg64(w, d)[i] = old;
        else emu_reg(w, d)[i] = (u32)old;
    }
    if (hazards) emu_write_regs(w, op, d, mask);
    return RUN_NEXT;
}

EmuResult emu_op_ATOMS(EmuWarp *w, const EmuOp *op, u32 mask) { return atomic(w, op, mask, true); }
EmuResult emu_op_ATOMG(EmuWarp *w, const EmuOp *op, u32 mask) { return atomic(w, op, mask, false); }
EmuResult emu_op_CASS(EmuWarp *w, const EmuOp *op, u32 mask) { return atomic(w, op, mask, true); }
EmuResult emu_op_CASG(EmuWarp *w, const EmuOp *op, u32 mask) { return atomic(w, op, mask, false); }
