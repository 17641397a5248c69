// ptx_mem.c - memory, asynchronous copies and barriers of the PTX printer.
//
// In: one operation of a checked program, whose operands stand in the order of its signature; an
// address is two of them, base register and offset. Out: its instruction. Shared addresses are
// offsets into the CTA's shared window (32 bits), global ones are of the global window (64 bits).
// The coordinates that operations carry beside their addresses are for the checkers: not printed.
#include "ptx_impl.h"

#include <stdio.h>

// A pointer parameter becomes an address of the global window: ld.global takes no generic one.
void ptx_ldparam(Ptx *x, const ThreadOp *op)
{
    const ThreadParam *p = &x->fn->params.at[op->opnd[1].reg];
    PtxText d = ptx_element(x, &op->opnd[0], 0);
    ptx_line(x, op, "ld.param.%s %s, [p_%s];", ptx_type((ThreadType)op->type), d.s, p->name);
    if (p->kind == PARAM_PTR) ptx_line(x, op, "cvta.to.global.u64 %s, %s;", d.s, d.s);
}

// "shared.v2.b32": space, width and type of a plain access. Bytes are loaded with zeros above.
static PtxText access(const ThreadOp *op)
{
    bool shared = op->op == OP_LDS || op->op == OP_STS;
    PtxText t;
    char width[8] = "";
    if (op->n > 1) snprintf(width, sizeof width, ".v%d", op->n);
    snprintf(t.s, sizeof t.s, "%s%s.%s", shared ? "shared" : "global", width,
             op->type == TT_B8 ? "u8" : ptx_type((ThreadType)op->type));
    return t;
}

// A plain ld or st: the assembler may reorder it where no fence, barrier or dependence of the
// program stands between, which is what the checkers assume of it.
void ptx_load(Ptx *x, const ThreadOp *op)
{
    Buf regs = {0};
    ptx_range(x, &op->opnd[0], false, &regs);
    ptx_line(x, op, "ld.%s %s, %s;", access(op).s, regs.s, ptx_address(x, &op->opnd[1]).s);
    buf_free(&regs);
}

void ptx_store(Ptx *x, const ThreadOp *op)
{
    Buf regs = {0};
    ptx_range(x, &op->opnd[2], false, &regs);
    ptx_line(x, op, "st.%s %s, %s;", access(op).s, ptx_address(x, &op->opnd[0]).s, regs.s);
    buf_free(&regs);
}

// Relaxed, of GPU scope: atomic with each other, ordering nothing else. 64-bit integers are added
// as u64, there is no other.
void ptx_atomic(Ptx *x, const ThreadOp *op)
{
    bool shared = op->op == OP_ATOMS || op->op == OP_CASS;
    bool cas = op->op == OP_CASS || op->op == OP_CASG;
    AtomicKind kind = cas ? ATOM_CAS : (AtomicKind)op->n;
    ThreadType type = kind == ATOM_ADD && op->type == TT_S64 ? TT_U64 : (ThreadType)op->type;
    PtxText d = ptx_element(x, &op->opnd[0], 0), a = ptx_address(x, &op->opnd[1]);
    PtxText v = ptx_operand(x, &op->opnd[3], type), w = {""};
    if (cas) w = ptx_operand(x, &op->opnd[4], type);
    ptx_line(x, op, "atom.%s.%s.%s %s, %s, %s%s%s;", shared ? "shared" : "global",
             atomic_name[kind], ptx_type(type), d.s, a.s, v.s, cas ? ", " : "", w.s);
}

// The values of a print lie in 8 bytes each, as the driver's printf takes them: f32 as f64.
void ptx_print_arg(Ptx *x, const ThreadOp *op)
{
    PtxText v = ptx_operand(x, &op->opnd[0], (ThreadType)op->type);
    if (op->type != TT_F32) {
        ptx_line(x, op, "st.local.b64 [$print+%d], %s;", 8 * op->n, v.s);
        return;
    }
    ptx_line(x, NULL, "{ .reg .f64 %%$wide;");
    ptx_line(x, op, "cvt.f64.f32 %%$wide, %s;", v.s);
    ptx_line(x, op, "st.local.f64 [$print+%d], %%$wide; }", 8 * op->n);
}

void ptx_print_text(Ptx *x, const ThreadOp *op)
{
    int k = (int)op->opnd[0].base;
    ptx_line(x, NULL, "{ .reg .b64 %%$text, %%$values;");
    ptx_line(x, NULL, "mov.u64 %%$text, %s_text_%d;", x->fn->name, k);
    ptx_line(x, NULL, "cvta.global.u64 %%$text, %%$text;");
    ptx_line(x, NULL, "mov.u64 %%$values, $print;");
    ptx_line(x, NULL, "cvta.local.u64 %%$values, %%$values;");
    ptx_line(x, NULL, "{ .param .b64 text; .param .b64 values; .param .b32 result;");
    ptx_line(x, NULL, "st.param.b64 [text], %%$text;");
    ptx_line(x, NULL, "st.param.b64 [values], %%$values;");
    ptx_line(x, op, "call (result), vprintf, (text, values); } }");
}

// Matrices of 8 x 8 elements of 16 bits; lane 8i + r gives the address of row r of matrix i.
void ptx_ldmatrix(Ptx *x, const ThreadOp *op)
{
    Buf regs = {0};
    ptx_range(x, &op->opnd[0], true, &regs);
    ptx_line(x, op, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, %s;", op->n,
             op->flags & OPF_TRANS ? ".trans" : "", regs.s, ptx_address(x, &op->opnd[1]).s);
    buf_free(&regs);
}

// The reverse of ldmatrix, with the same map of lanes to elements.
void ptx_stmatrix(Ptx *x, const ThreadOp *op)
{
    Buf regs = {0};
    ptx_range(x, &op->opnd[2], true, &regs);
    ptx_line(x, op, "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, %s;", op->n,
             op->flags & OPF_TRANS ? ".trans" : "", ptx_address(x, &op->opnd[0]).s, regs.s);
    buf_free(&regs);
}

// 16 bytes go past the first-level cache; the last operand is how many bytes the source has, the
// rest is filled with zeros.
void ptx_cpasync(Ptx *x, const ThreadOp *op)
{
    ptx_line(x, op, "cp.async.%s.shared.global %s, %s, %d, %s;", op->n == 16 ? "cg" : "ca",
             ptx_address(x, &op->opnd[0]).s, ptx_address(x, &op->opnd[2]).s, op->n,
             ptx_operand(x, &op->opnd[4], TT_S32).s);
}

// "[%$p_tmap, {x, y}]" of a tensor map and op->n coordinates.
static void tensor_place(Ptx *x, const ThreadOp *op, const Operand *map, const Operand *coord,
                         Buf *out)
{
    x->tmap_used[map->reg] = 1;
    buf_printf(out, "[%%$p_%s, {", x->fn->params.at[map->reg].name);
    for (int i = 0; i < op->n; i++)
        buf_printf(out, "%s%s", i ? ", " : "", ptx_operand(x, &coord[i], TT_S32).s);
    buf_puts(out, "}]");
}

// The destination is spelled .shared::cluster: .shared::cta came later, and a CTA's own addresses
// are cluster addresses too.
void ptx_tma_load(Ptx *x, const ThreadOp *op)
{
    Buf place = {0};
    tensor_place(x, op, &op->opnd[2], &op->opnd[3], &place);
    const char *policy = "", *hint = "";
    if (op->flags & OPF_EVICT_FIRST) policy = ", %$evict_first";
    if (op->flags & OPF_EVICT_LAST) policy = ", %$evict_last";
    if (*policy) hint = ".L2::cache_hint";
    // The policy registers are made in the prologue once a copy needs them (print_prologue).
    x->policy_first |= (op->flags & OPF_EVICT_FIRST) != 0;
    x->policy_last |= (op->flags & OPF_EVICT_LAST) != 0;
    // Multicast: a bit per block of the cluster, here all of them.
    char mask[16] = "";
    if (op->flags & OPF_MULTICAST) {
        hint = ".multicast::cluster";
        snprintf(mask, sizeof mask, ", %u", (1u << x->fn->cluster) - 1);
    }
    ptx_line(x, op,
             "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes%s %s, "
             "%s, %s%s%s;",
             op->n, hint, ptx_address(x, &op->opnd[0]).s, place.s,
             ptx_address(x, &op->opnd[3 + op->n]).s, mask, policy);
    buf_free(&place);
}

// mapa turns the address of the own barrier into that of the same place in another block. Without
// `release` the arrival publishes nothing: it costs its thread 41 cycles instead of 315.
void ptx_mbar_arrive_cluster(Ptx *x, const ThreadOp *op)
{
    const char *order = op->flags & OPF_RELEASE ? ".release.cluster" : "";
    ptx_line(x, NULL, "{ .reg .b32 %%$peer;");
    ptx_line(x, op, "mapa.shared::cluster.u32 %%$peer, %s, %s;",
             ptx_element(x, &op->opnd[0], 0).s, ptx_operand(x, &op->opnd[2], TT_S32).s);
    ptx_line(x, op, "mbarrier.arrive%s.shared::cluster.b64 _, [%%$peer+%s];", order,
             ptx_operand(x, &op->opnd[1], TT_S32).s);
    ptx_line(x, NULL, "}");
}

// The completion is counted by bulk groups of the thread that issues it, not by an mbarrier.
void ptx_tma_store(Ptx *x, const ThreadOp *op)
{
    Buf place = {0};
    tensor_place(x, op, &op->opnd[0], &op->opnd[1], &place);
    ptx_line(x, op, "cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group %s, %s;", op->n,
             place.s, ptx_address(x, &op->opnd[1 + op->n]).s);
    buf_free(&place);
}

// The map is fetched into the cache of descriptors, which hides its latency from the first copy.
void ptx_tma_prefetch(Ptx *x, const ThreadOp *op)
{
    x->tmap_used[op->opnd[0].reg] = 1;
    ptx_line(x, op, "prefetch.tensormap [%%$p_%s];", x->fn->params.at[op->opnd[0].reg].name);
}

// A loop ends a basic block, and the assembler moves nothing over its end. The loop must do
// something: an empty one is removed, and a trap makes the assembler serialise wgmma (C7518). It is
// never entered, as the predicate is never true (event.c of the lowering).
void ptx_pin(Ptx *x, const ThreadOp *op)
{
    int label = x->labels++;
    buf_printf(x->out, "$pin%d:\n", label);
    ptx_line(x, NULL, "@!%s bra $end%d;", ptx_element(x, &op->opnd[0], 0).s, label);
    ptx_line(x, NULL, "nanosleep.u32 20;");
    ptx_line(x, NULL, "bra $pin%d;", label);
    buf_printf(x->out, "$end%d:\n", label);
}

// Spins on the clock of the multiprocessor: the loop depends on no memory, so it waits for no load.
// Differences of the clock are right across its wrap.
void ptx_delay(Ptx *x, const ThreadOp *op)
{
    int label = x->labels++, test = x->loops++;
    x->uses_clock = true;
    if (op->guard.kind != OPD_NONE) {
        PtxText g = ptx_element(x, &op->guard, 0);
        ptx_line(x, NULL, "@%s%s bra $end%d;", op->guard.negate ? "" : "!", g.s, label);
    }
    ptx_line(x, NULL, "mov.u32 %%$since, %%clock;");
    buf_printf(x->out, "$delay%d:\n", label);
    ptx_line(x, NULL, "mov.u32 %%$clock, %%clock;");
    ptx_line(x, NULL, "sub.u32 %%$clock, %%$clock, %%$since;");
    ptx_line(x, NULL, "setp.lt.u32 %%$loop%d, %%$clock, %s;", test,
             ptx_operand(x, &op->opnd[0], TT_U32).s);
    ptx_line(x, NULL, "@%%$loop%d bra $delay%d;", test, label);
    if (op->guard.kind != OPD_NONE) buf_printf(x->out, "$end%d:\n", label);
}

// The assembler keeps reads of the clock in their order and behind the waits in front of them.
void ptx_clock(Ptx *x, const ThreadOp *op)
{
    ptx_line(x, op, "mov.u32 %s, %%clock;", ptx_element(x, &op->opnd[0], 0).s);
}

// Waits until the phase of the given parity is complete. try_wait sleeps for a while by itself
// (some microseconds), so the loop is no busy one. A successful wait acquires: what was done before
// the arrivals, and the bytes that the phase counted, are visible behind it.
void ptx_mbar_wait(Ptx *x, const ThreadOp *op)
{
    // Each wait has a predicate of its own: nothing else may overwrite it inside the loop.
    int label = x->labels++, test = x->loops++;
    if (op->guard.kind != OPD_NONE) { // a loop cannot stand under a guard: branch around it
        PtxText g = ptx_element(x, &op->guard, 0);
        ptx_line(x, NULL, "@%s%s bra $end%d;", op->guard.negate ? "" : "!", g.s, label);
    }
    buf_printf(x->out, "$wait%d:\n", label);
    ptx_line(x, NULL, "mbarrier.try_wait.parity.shared::cta.b64 %%$loop%d, %s, %s;", test,
             ptx_address(x, &op->opnd[0]).s, ptx_operand(x, &op->opnd[2], TT_S32).s);
    ptx_line(x, NULL, "@!%%$loop%d bra $wait%d;", test, label);
    if (op->guard.kind != OPD_NONE) buf_printf(x->out, "$end%d:\n", label);
}
