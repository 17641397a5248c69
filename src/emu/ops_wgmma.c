// ops_wgmma.c - matrix products of a warpgroup, with the descriptor and register maps of Hopper.
//
// The four warps of a group issue the same sequence of products; each product is checked against
// shadow memory when a warp issues it, and computed at a point between the last issue and the first
// wait that covers it. Products of one group are computed in order. Between issue and wait the
// accumulators belong to the tensor core: they count as unwritten for everybody else (O9).
//
// Shared operands are read in chunks of 16 bytes. With K-major operands a chunk is part of one row;
// with MN-major ones it is eight rows (or columns of B) at one k.
#include "state.h"
#include "wgmma_num.h"

#include <string.h>

typedef struct {
    u32 start, lbo, sbo, base; // bytes; base: row phase that the pattern is relative to
    u32 span, mask;            // of the swizzle; span 0: none
} Desc;

// Bits of a descriptor, as read back from an H200: 0-13 start, 16-29 LBO, 32-45 SBO, all in units
// of 16 bytes; 49-51 base offset; 62-63 layout. The others are ignored by the hardware too.
static Desc desc_of(u64 bits)
{
    static const SmemLayout layout[4] = {SL_ROW, SL_SWZ128, SL_SWZ64, SL_SWZ32};
    const SmemLayoutInfo *y = &smem_layout[layout[bits >> 62]];
    return (Desc){.start = (u32)(bits & 0x3fff) << 4, .lbo = (u32)(bits >> 16 & 0x3fff) << 4,
                  .sbo = (u32)(bits >> 32 & 0x3fff) << 4, .base = (u32)(bits >> 49 & 7),
                  .span = (u32)y->span, .mask = (u32)y->mask};
}

// Absolute shared address of a chunk. K-major: row mn, bytes 16*c of the step. MN-major: rows
// 8*c .. 8*c+7 at k.
// The stride meanings change with major and swizzle: K-major with swizzle uses SBO from one group
// of 8 rows to the next and no LBO; MN-major with swizzle uses SBO from 8 k to the next 8 and LBO
// from one block of span / 2 elements to the next. The XOR works on absolute address bits, so
// plain addition to `start` steps along K inside a swizzled row.
static u32 chunk_address(const Desc *d, bool mn_major, u32 row, u32 c)
{
    u32 off;
    if (!mn_major) {
        u32 mn = row;
        if (d->span) off = mn % 8 * d->span + mn / 8 * d->sbo + 16 * c;
        else off = mn % 8 * 16 + mn / 8 * d->sbo + c * d->lbo;
    } else {
        u32 k = row, mn = 8 * c;
        if (d->span)
            off = k % 8 * d->span + k / 8 * d->sbo + mn % (d->span / 2) * 2 +
                  mn / (d->span / 2) * d->lbo;
        else off = k % 8 * 16 + k / 8 * d->lbo + mn / 8 * d->sbo;
    }
    u32 a = d->start + off;
    return d->span ? a ^ (((a >> 7) - d->base) & d->mask) << 4 : a;
}

// Operand types that the numeric model covers, -1: none of them.
static int element_type(u8 type)
{
    switch (type) {
    case TT_BF16: return DT_BF16;
    case TT_F16: return DT_F16;
    case TT_TF32: return DT_TF32;
    case TT_E4M3: return DT_E4M3;
    case TT_E5M2: return DT_E5M2;
    case TT_S8: return DT_S8;
    case TT_U8: return DT_U8;
    default: return -1;
    }
}

// ---- operands in shared memory ------------------------------------------------------------------

// One operand: rows [first, first + n) of A, or columns of B.
typedef struct {
    Desc d;
    bool mn_major;
    u32 first, n, k_steps;     // k_steps: k of the instruction (MN-major rows)
    int mem;
    i32 buffer;                // that the program names, -1 none
} Side;

// A side is read as side_rows x side_chunks chunks of 16 bytes. K-major: a k step is 32 bytes for
// every type, two chunks a row.
static u32 side_rows(const Side *s) { return s->mn_major ? s->k_steps : s->n; }
static u32 side_chunks(const Side *s) { return s->mn_major ? s->n / 8 : 2; }
static u32 side_address(const Side *s, u32 row, u32 c)
{
    return s->mn_major ? chunk_address(&s->d, true, row, s->first / 8 + c)
                       : chunk_address(&s->d, false, s->first + row, c);
}

// Bytes that the operand may touch: its buffer's, or the arena's when the program names none.
static EmuSpan span_of(const EmuWarp *w, const EmuOp *op, int mem)
{
    if (mem >= op->src->nmem) return (EmuSpan){0, w->cta->smem_bytes};
    return w->cta->run->span[op->src->mem[mem].buffer];
}

// Checks and notes what the operand reads.
static void touch_side(EmuWarp *w, const EmuOp *op, const Side *s, u32 access, bool note)
{
    EmuSpan span = span_of(w, op, s->mem);
    for (u32 r = 0; r < side_rows(s); r++)
        for (u32 c = 0; c < side_chunks(s); c++) {
            u32 a = side_address(s, r, c);
            if (a < EMU_SMEM_BASE + span.low || a + 16 > EMU_SMEM_BASE + span.high) {
                emu_hazard(w, op, -1, HZ_BOUNDS, NULL, 0,
                           "operand %c reads shared bytes %lld .. %lld; its buffer lies at %u .. %u"
                           " (offsets in the arena)",
                           s->mem || op->op == OP_WGMMA_RS ? 'B' : 'A',
                           (long long)a - EMU_SMEM_BASE, (long long)a - EMU_SMEM_BASE + 15,
                           span.low, span.high - 1);
                return;
            }
            emu_touch(w, access, a - EMU_SMEM_BASE, 16, EMU_ANY_LANE, false, note);
        }
}

// Copies an operand to [n][k] raw elements; bytes outside the arena read as zero.
static void gather(const EmuCta *c, int group, const Side *s, u32 elem, u8 *out)
{
    static const u8 nothing[16];
    u32 limit = EMU_SMEM_BASE + c->smem_bytes;
    for (u32 r = 0; r < side_rows(s); r++)
        for (u32 k = 0; k < side_chunks(s); k++) {
            u32 a = side_address(s, r, k);
            const u8 *from =
                a >= EMU_SMEM_BASE && a + 16 <= limit
                    ? emu_seen(c, s->buffer, a - EMU_SMEM_BASE, 15u << 4 * group)
                    : nothing;
            if (!s->mn_major) {
                memcpy(out + r * 32 + k * 16, from, 16);
            } else {
                for (u32 i = 0; i < 8; i++)
                    memcpy(out + (8 * k + i) * 32 + r * elem, from + i * elem, elem);
            }
        }
}

// A is memory reference 0 of wgmma.ss; B is 1 there, but 0 of wgmma.rs, whose A lies in registers.
static Side side_a(const EmuOp *op, u64 desc, u32 first, u32 n, u32 k)
{
    return (Side){desc_of(desc), op->flags & OPF_TRANS_A, first, n, k, 0, emu_named(op, 0)};
}

static Side side_b(const EmuOp *op, u64 desc, u32 k)
{
    int mem = op->op == OP_WGMMA_SS;
    return (Side){desc_of(desc), op->flags & OPF_TRANS_B, 0, op->n, k, mem, emu_named(op, mem)};
}

// ---- registers ----------------------------------------------------------------------------------

// Accumulator i of lane l of warp w: row 16w + l/4 + 8*(i>>1&1), column 8*(i>>2) + 2*(l%4) + (i&1).
// Between the registers of four warps and the matrix m[64][n], in either direction.
static void accumulators(EmuCta *c, int group, const EmuOpnd *o, u32 n, float *m, bool load)
{
    for (int w = 0; w < 4; w++) {
        EmuF32 *regs = (EmuF32 *)(c->warp[group * 4 + w].regs + (size_t)o->unit * 32);
        for (u32 i = 0; i < n / 2; i++) {
            EmuF32 *r = regs + i * 32;
            float *row = m + (16 * w + 8 * (i >> 1 & 1)) * n + 8 * (i >> 2) + (i & 1);
            if (load)
                for (u32 l = 0; l < 32; l++) row[l / 4 * n + 2 * (l % 4)] = r[l];
            else
                for (u32 l = 0; l < 32; l++) r[l] = row[l / 4 * n + 2 * (l % 4)];
        }
    }
}

// A register i: row 16w + l/4 + 8*(i&1), bytes 4*(l%4) + 16*(i>>1) of the step.
// The same map for every operand type, since it is one of bytes: k elements 4/size at a time,
// lowest k in the lowest bits. `out` is [64][32 bytes], as gather() makes it.
static void gather_registers(EmuCta *c, int group, const EmuOpnd *o, u8 *out)
{
    for (int w = 0; w < 4; w++)
        for (u32 i = 0; i < 4; i++) {
            const u32 *r = c->warp[group * 4 + w].regs + (size_t)(o->unit + i) * 32;
            for (u32 l = 0; l < 32; l++)
                memcpy(out + (16 * w + l / 4 + 8 * (i & 1)) * 32 + 4 * (l % 4) + 16 * (i >> 1),
                       &r[l], 4);
        }
}

// ---- computing ----------------------------------------------------------------------------------

// Accumulators of the running chain of products, kept as a matrix between them.
typedef struct {
    float m[64 * 256];
    const EmuOp *op;           // whose registers they are; NULL: nothing loaded
} Chain;

// Chains of products on one accumulator (the k steps of a tile) skip the registers in between.
static bool same_accumulators(const EmuOp *a, const EmuOp *b)
{
    return a->n == b->n && a->o[0].unit == b->o[0].unit;
}

static bool is_integer(DType t) { return t == DT_S8 || t == DT_U8; }

static u32 step_k(DType t) { return is_integer(t) ? 32 : (u32)wgmma_k(t); }

// Integer products are exact and wrap; the matrix holds the bits of the sums.
static void integer_step(DType type, u32 n, const u8 *a, const u8 *b, float *m, bool scale_d)
{
    for (u32 row = 0; row < 64; row++)
        for (u32 col = 0; col < n; col++) {
            u32 sum = scale_d ? f32_bits(m[row * n + col]) : 0;
            for (u32 k = 0; k < 32; k++) {
                u8 x = a[row * 32 + k], y = b[col * 32 + k];
                sum += type == DT_S8 ? (u32)((int8_t)x * (int8_t)y) : (u32)x * y;
            }
            memcpy(&m[row * n + col], &sum, 4);
        }
}

// Reads the operands as they are in memory NOW, which is the point: a slot that was overwritten
// between issue and wait gives the wrong product here as on the machine.
static void compute(EmuCta *c, int group, const EmuProduct *p, Chain *chain)
{
    const EmuOp *op = p->op;
    DType type = (DType)element_type(op->type2);
    u8 a[64 * 32], b[256 * 32];
    u32 k = step_k(type);
    if (chain->op && !same_accumulators(chain->op, op)) {
        accumulators(c, group, &chain->op->o[0], chain->op->n, chain->m, false);
        chain->op = NULL;
    }
    if (!chain->op) accumulators(c, group, &op->o[0], op->n, chain->m, true);
    chain->op = op;
    if (op->op == OP_WGMMA_RS) {
        gather_registers(c, group, &op->o[1], a);
    } else {
        Side s = side_a(op, p->desc_a, 0, 64, k);
        gather(c, group, &s, dtype_bytes[type], a);
    }
    Side s = side_b(op, p->desc_b, k);
    gather(c, group, &s, dtype_bytes[type], b);
    if (is_integer(type)) {
        integer_step(type, op->n, a, b, chain->m, p->scale_d);
        return;
    }
    wgmma_step(type, op->n, (int)k, a, b, chain->m, p->scale_d, op->flags & OPF_NEG_A,
               op->flags & OPF_NEG_B);
}

// Computes products of a group up to number `upto` while all four warps have issued them. Returns
// true when all are computed.
// A product needs rows of all four warps, so it waits for the last one to issue (mask 15).
static bool compute_upto(EmuCta *c, int group, int upto)
{
    EmuGroup *g = &c->group[group];
    Chain chain;
    chain.op = NULL;
    for (; g->done < upto && g->done < g->q.n && g->q.at[g->done].issued == 15; g->done++)
        compute(c, group, &g->q.at[g->done], &chain);
    if (chain.op) accumulators(c, group, &chain.op->o[0], chain.op->n, chain.m, false);
    return g->done >= upto;
}

bool emu_product_any(EmuCta *c)
{
    for (int i = 0; i < c->groups; i++) {
        EmuGroup *g = &c->group[i];
        int before = g->done;
        compute_upto(c, i, before + 1);
        if (g->done > before) return true;
    }
    return false;
}

// ---- issue --------------------------------------------------------------------------------------

// M is 64 always; N 8 .. 256 in steps of 8; 16-bit types alone may be MN-major.
static bool shape_legal(EmuWarp *w, const EmuOp *op)
{
    const char *why = NULL;
    bool rs = op->op == OP_WGMMA_RS;
    if (w->id / 4 >= w->cta->groups) why = "the warp belongs to no complete group of four";
    else if (op->type != (is_integer((DType)element_type(op->type2)) ? TT_S32 : TT_F32))
        why = "not supported yet: accumulators of this type";
    else if (element_type(op->type2) < 0)
        why = "the operand type is none of bf16, f16, tf32, e4m3, e5m2, s8, u8";
    else if (op->n < 8 || op->n > 256 || op->n % 8) why = "N must be a multiple of 8 from 8 to 256";
    else if (op->o[0].count != op->n / 2 || op->o[0].class == RC_B64)
        why = "N needs N/2 accumulators";
    else if (rs && (op->o[1].count != 4 || op->o[1].class == RC_B64))
        why = "register A needs 4 registers";
    else if ((op->flags & (OPF_TRANS_A | OPF_TRANS_B)) && op->type2 != TT_BF16 &&
             op->type2 != TT_F16)
        why = "only 16-bit operands can be MN-major";
    else if (rs && (op->flags & OPF_TRANS_A)) why = "register A has no major";
    if (why) emu_hazard(w, op, -1, HZ_ILLEGAL, NULL, 0, "%s", why);
    return !why;
}

// wgmma.fence orders accesses to registers before the async reads and writes of the tensor core. A
// chain on accumulators needs none. The assembler repairs a missing one silently, at the price
// of serialised products, so nobody finds out on the GPU.
static void check_fence(EmuWarp *w, const EmuOp *op, const EmuOpnd *o, const char *what)
{
    for (u32 u = o->unit; u < o->unit + o->count; u++) {
        if (w->unit[u].fences != w->fences || w->flags[u]) continue;
        emu_hazard(w, op, -1, HZ_WGMMA, "O9", 0,
                   "%s registers were accessed after the last wgmma.fence of the warp", what);
        return;
    }
}

// The registers of the product leave the program's hands until the wait.
static void take_registers(EmuWarp *w, const EmuOp *op, bool scale_d)
{
    const EmuOpnd *d = &op->o[0], *a = &op->o[1];
    bool rs = op->op == OP_WGMMA_RS;
    EmuFlight f = {.acc = d->unit, .acc_n = d->count};
    if (w->cta->run->hazards) {
        // Accumulators of a chain in flight look unwritten, which must not be reported here.
        bool flying = w->flags[d->unit] & UNIT_ACC;
        if (scale_d && !flying) emu_read_regs(w, op, d, (u32)EMU_FULL, false);
        check_fence(w, op, d, "accumulator");
        if (rs) {
            emu_read_regs(w, op, a, (u32)EMU_FULL, false);
            check_fence(w, op, a, "register-A");
            f.a = a->unit;
            f.a_n = a->count;
            for (u32 i = 0; i < a->count; i++) f.taint |= w->unit[a->unit + i].taint;
            for (u32 i = 0; i < a->count; i++) w->flags[a->unit + i] |= UNIT_A;
        }
        for (u32 u = d->unit; u < d->unit + d->count; u++) {
            w->flags[u] |= UNIT_ACC;
            w->unit[u].init = 0;
            w->unit[u].taint = 0;
        }
    }
    vec_push(w->cta->run->arena, &w->flight, f);
}

// The warp that issues first notes the reads for the group. The other three only check (what they
// know of the writers is theirs alone): B whole, of A the 16 rows that their own quarter reads.
static void check_shared(EmuWarp *w, const EmuOp *op, const EmuProduct *p, bool first)
{
    u32 k = step_k((DType)element_type(op->type2));
    if (op->op == OP_WGMMA_SS) {
        Side own = side_a(op, p->desc_a, first ? 0 : (u32)w->id % 4 * 16, first ? 64 : 16, k);
        touch_side(w, op, &own, p->access[0], first);
    }
    Side b = side_b(op, p->desc_b, k);
    touch_side(w, op, &b, p->access[1], first);
}

// The group's queue holds one entry per product; warp w's n-th issue belongs to entry n.
// Descriptors and scale are pinned uses; register A is pinned only by the wait (O6).
static EmuResult issue(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuCta *c = w->cta;
    bool rs = op->op == OP_WGMMA_RS;
    emu_converged(w, op, mask);
    if (!shape_legal(w, op)) return RUN_NEXT;
    if (c->run->hazards) {
        if (!rs) emu_read_regs(w, op, &op->o[1], mask, true);
        emu_read_regs(w, op, &op->o[2], mask, true);
        emu_read_regs(w, op, &op->o[3], mask, true);
    }
    EmuGroup *g = &c->group[w->id / 4];
    u64 desc_a = rs ? 0 : emu_reg64(w, &op->o[1])[emu_first_lane(mask)];
    u64 desc_b = emu_reg64(w, &op->o[2])[emu_first_lane(mask)];
    bool scale_d = emu_pred(w, &op->o[3]) >> emu_first_lane(mask) & 1;
    bool first = (int)w->issued == g->q.n;
    if (first) {
        EmuProduct fresh = {.op = op, .desc_a = desc_a, .desc_b = desc_b, .scale_d = scale_d};
        vec_push(c->run->arena, &g->q, fresh);
        for (int side = rs; side < 2;
             side++) // in the queue first: a new record may move the others
            g->q.at[w->issued].access[side] = emu_access_new(w, ACC_WGMMA, op, EMU_ANY_LANE,
                                                             (u32)EMU_FULL, rs ? 0 : side);
    }
    EmuProduct *p = &g->q.at[w->issued++];
    if (p->op != op || p->desc_a != desc_a || p->desc_b != desc_b || p->scale_d != scale_d)
        emu_hazard(
            w, op, -1, HZ_ILLEGAL, NULL, p->access[1],
            "the warps of a group issue different products: all four must issue the same wgmma"
            " with the same descriptors");
    take_registers(w, op, scale_d);
    if (p->access[1]) check_shared(w, op, p, first);
    p->issued |= (u8)(1u << w->id % 4);
    if (c->run->observed) emu_saw_product(w, op, p, w->issued - 1);
    if (p->issued != 15) return RUN_NEXT;
    emu_wake(c, WAIT_WGMMA, 0);
    if (!emu_chance(c, c->late_wgmma)) compute_upto(c, w->id / 4, (int)w->issued);
    return RUN_NEXT;
}

EmuResult emu_op_WGMMA_SS(EmuWarp *w, const EmuOp *op, u32 mask) { return issue(w, op, mask); }
EmuResult emu_op_WGMMA_RS(EmuWarp *w, const EmuOp *op, u32 mask) { return issue(w, op, mask); }

// Fences are counted; each register remembers the count at its last write (check_fence).
EmuResult emu_op_WGMMA_FENCE(EmuWarp *w, const EmuOp *op, u32 mask)
{
    emu_converged(w, op, mask);
    w->fences++;
    return RUN_NEXT;
}

EmuResult emu_op_WGMMA_COMMIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    emu_converged(w, op, mask);
    vec_push(w->cta->run->arena, &w->commits, w->issued);
    return RUN_NEXT;
}

// ---- wait ---------------------------------------------------------------------------------------

// Gives the registers of products [from, upto) back; those that later products still hold stay
// taken.
// Loads that fed register A are bound now: the tensor core has read the registers.
static void return_registers(EmuWarp *w, u32 from, u32 upto)
{
    for (u32 i = from; i < upto; i++) {
        const EmuFlight *f = &w->flight.at[i];
        for (u32 u = f->acc; u < f->acc + f->acc_n; u++) {
            w->flags[u] &= (u8)~UNIT_ACC;
            w->unit[u].init = ~0u;
        }
        for (u32 u = f->a; u < f->a + f->a_n; u++) w->flags[u] &= (u8)~UNIT_A;
        if (f->taint) emu_pin(w, f->taint);
    }
    for (u32 i = upto; i < w->issued; i++) {
        const EmuFlight *f = &w->flight.at[i];
        for (u32 u = f->acc; u < f->acc + f->acc_n; u++) {
            w->flags[u] |= UNIT_ACC;
            w->unit[u].init = 0;
        }
        for (u32 u = f->a; u < f->a + f->a_n; u++) w->flags[u] |= UNIT_A;
    }
}

// wgmma.wait_group n: all but the newest n commit groups of this warp. Blocks while another warp
// of the group has not issued one of the covered products. Uncommitted products are not waited
// for.
EmuResult emu_op_WGMMA_WAIT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    EmuCta *c = w->cta;
    emu_converged(w, op, mask);
    int commit = w->commits.n - 1 - op->n;
    u32 upto = commit >= 0 ? w->commits.at[commit] : 0;
    if (upto <= w->waited) return RUN_NEXT;
    if (!compute_upto(c, w->id / 4, (int)upto)) {
        w->wait = WAIT_WGMMA;
        return RUN_BLOCK;
    }
    if (c->run->hazards) {
        EmuGroup *g = &c->group[w->id / 4];
        for (u32 i = w->waited; i < upto; i++)
            for (int side = 0; side < 2; side++)
                c->access.at[g->q.at[i].access[side]].done[w->id % 4] = w->epoch;
        return_registers(w, w->waited, upto);
    }
    w->waited = upto;
    return RUN_NEXT;
}

// The results of products that nobody waits for are undefined, and they still read shared memory.
void emu_product_end(EmuWarp *w, const EmuOp *op)
{
    if (w->issued > w->waited) {
        const EmuProduct *p = &w->cta->group[w->id / 4].q.at[w->waited];
        emu_hazard(w, op->src ? op : p->op, -1, HZ_WGMMA, "O9", p->access[1],
                   "the warp ends with %u wgmma that it has not waited for", w->issued - w->waited);
    }
}
