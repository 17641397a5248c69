// delay.c - puts random delays into a program at its handoffs.
//
// In: a checked module and its launch plan. Out: the same program with code at every point that
// counts the warp's visits, asks a hash of seed, block, warp and visit whether to wait and how
// long, and waits; and scalars of the plan that steer it.
//
// Where points stand: in front of what may come too early for others (issues of bulk copies,
// expects, waits, barriers) and behind what lets others go on (arrivals, barriers) or lets this
// warp go on (waits, the begin of a role). Never between ordinary loads of shared memory and the
// release behind them: a loop there would wait for the loads, as any branch does, and close the
// window that an unprotected release leaves open. Never in front of an arrival: it would give its
// reads time.
#include "stress.h"

#include <string.h>

// ---- where --------------------------------------------------------------------------------------
enum { IN_FRONT = 1, BEHIND = 2 };

static const u8 place_of[OP_COUNT] = {
    [OP_MBAR_WAIT] = IN_FRONT | BEHIND,   [OP_MBAR_ARRIVE] = BEHIND,
    [OP_MBAR_ARRIVE_EXPECT] = IN_FRONT | BEHIND, [OP_MBAR_EXPECT] = IN_FRONT | BEHIND,
    [OP_MBAR_ARRIVE_CLUSTER] = BEHIND,    [OP_CPASYNC_ARRIVE] = BEHIND,
    [OP_TMA_LOAD] = IN_FRONT,             [OP_TMA_STORE] = IN_FRONT,
    [OP_BULK_WAIT] = BEHIND,              [OP_BULK_WAIT_READ] = BEHIND,
    [OP_CPASYNC_WAIT] = BEHIND,           [OP_BAR_SYNC] = IN_FRONT | BEHIND,
    [OP_BAR_ARRIVE] = BEHIND,             [OP_BAR_CLUSTER] = IN_FRONT | BEHIND,
};

static bool is_generic_load(u8 op) { return op == OP_LDS || op == OP_LDMATRIX; }

// What ends the stretch behind ordinary loads: the release itself, or a wait, at whose branch the
// loads have arrived.
static bool ends_loads(u8 op)
{
    return op == OP_MBAR_ARRIVE || op == OP_MBAR_ARRIVE_CLUSTER || op == OP_BAR_ARRIVE ||
           op == OP_BAR_SYNC || op == OP_MBAR_WAIT || op == OP_BAR_CLUSTER;
}

// ---- parameters ---------------------------------------------------------------------------------
// In the order of the plan's scalars; the masks of points follow.
enum {
    P_SEED, P_RATE, P_LONGEST, P_WARPS, P_FIRST, P_LAST, P_FIRST_BLOCK, P_LAST_BLOCK, P_IDLE,
    P_POINTS
};
static const char *const param_name[P_POINTS + 1] = {
    "delay_seed", "delay_rate", "delay_longest", "delay_warps", "delay_first", "delay_last",
    "delay_first_block", "delay_last_block", "delay_idle", "delay_points",
};

StressDelays stress_no_delays(void)
{
    StressDelays d = {.longest = 8, .warps = ~0u, .last = STRESS_ALL_VISITS,
                      .last_block = STRESS_ALL_BLOCKS};
    memset(d.points, 0xff, sizeof d.points);
    return d;
}

// Words travel as the signed numbers with the same bits: the kernel's parameters have 32.
void stress_values(const StressProgram *s, const StressDelays *d, PlanValue *out)
{
    u32 word[P_POINTS + STRESS_MASKS] = {
        d->seed, d->rate, d->longest, d->warps, (u32)d->first, (u32)d->last,
        (u32)d->first_block, (u32)d->last_block, (u32)d->idle_rounds,
    };
    memcpy(word + P_POINTS, d->points, sizeof d->points);
    for (int i = 0; i < s->nparams; i++)
        out[i] = (PlanValue){.type = DT_S32, .int_value = (i32)word[i],
                             .float_value = (i32)word[i]};
}

// ---- the hash, twice: here in C, below as operations --------------------------------------------
enum {
    MIX_VISIT = (i32)0x9e3779b1, MIX_A = (i32)0x85ebca6b, MIX_B = (i32)0xc2b2ae35,
    MIX_BLOCK = 0x27d4eb2f, MIX_WARP = 0x165667b1, MIX_LANES = 0x2545f491,
};

u32 stress_cycles(const StressDelays *d, int point, bool lanes, i64 block, int warp, i32 visit)
{
    if (!(d->warps >> (warp & 31) & 1) || block < d->first_block || block >= d->last_block ||
        visit < d->first || visit >= d->last || !(d->points[point / 32] >> point % 32 & 1))
        return 0;
    u32 who = d->seed + (u32)block * MIX_BLOCK + (u32)warp * MIX_WARP;
    u32 h = ((u32)visit * (u32)(lanes ? MIX_LANES : MIX_VISIT) ^ who) * (u32)MIX_A;
    h = (h ^ h >> 15) * (u32)MIX_B;
    h ^= h >> 16;
    if ((h & 0xffff) >= d->rate) return 0;
    h >>= 16;
    return ((h & 31) + 32) << ((h >> 5) * (d->longest + 1) >> 11);
}

// ---- the rewriting ------------------------------------------------------------------------------
typedef struct {
    ThreadBuilder b;
    StressProgram *out;
    int param[P_POINTS + STRESS_MASKS];  // of this kernel
    int who, visit, lane_visit;          // registers that live through the kernel
    int hash, word, length;              // of one point
    int chosen, test;                    // predicates of one point
    bool loads;                          // ordinary loads stand behind the last release or wait
    bool fresh;                          // a point stands here already
    int lanes;                           // enclosing regions that only some lanes run
} Rewrite;

static void op3(Rewrite *r, ThreadOpcode op, ThreadType t, int to, Operand a, Operand b)
{
    EMIT(&r->b, op, t, opd_reg(to, 0), a, b);
}

static void load_param(Rewrite *r, int to, int which)
{
    EMIT(&r->b, OP_LDPARAM, TT_S32, opd_reg(to, 0), opd_param(r->param[which]));
}

// r->chosen and (a CMP b).
static void also(Rewrite *r, ThreadCmp cmp, ThreadType t, Operand a, Operand b)
{
    EMIT(&r->b, OP_SETP, t, opd_reg(r->test, 0), a, b)->cmp = (u8)cmp;
    op3(r, OP_AND, TT_PRED, r->chosen, opd_reg(r->chosen, 0), opd_reg(r->test, 0));
}

// h ^= h >> by
static void fold(Rewrite *r, int by)
{
    Operand h = opd_reg(r->hash, 0), w = opd_reg(r->word, 0);
    op3(r, OP_SHR, TT_U32, r->word, h, opd_imm(by));
    op3(r, OP_XOR, TT_B32, r->hash, h, w);
}

// The code of one point: stress_cycles as operations, the delay, the next visit. Where only some
// lanes pass, these count by themselves, so that the lanes of a warp never wait differently at
// the points that all pass.
static void emit_delay(Rewrite *r, int point)
{
    Operand h = opd_reg(r->hash, 0), w = opd_reg(r->word, 0), n = opd_reg(r->length, 0);
    int counter = r->lanes ? r->lane_visit : r->visit;
    Operand visit = opd_reg(counter, 0), chosen = opd_reg(r->chosen, 0);
    op3(r, OP_MUL, TT_S32, r->hash, visit, opd_imm(r->lanes ? MIX_LANES : MIX_VISIT));
    op3(r, OP_XOR, TT_B32, r->hash, h, opd_reg(r->who, 0));
    op3(r, OP_MUL, TT_S32, r->hash, h, opd_imm(MIX_A));
    fold(r, 15);
    op3(r, OP_MUL, TT_S32, r->hash, h, opd_imm(MIX_B));
    fold(r, 16);
    op3(r, OP_AND, TT_B32, r->word, h, opd_imm(0xffff));
    load_param(r, r->length, P_RATE);
    EMIT(&r->b, OP_SETP, TT_S32, chosen, w, n)->cmp = CMP_LT;
    load_param(r, r->word, P_POINTS + point / 32);
    op3(r, OP_AND, TT_B32, r->word, w, opd_imm((i64)(i32)(1u << point % 32)));
    also(r, CMP_NE, TT_S32, w, opd_imm(0));
    load_param(r, r->word, P_FIRST);
    also(r, CMP_GE, TT_S32, visit, w);
    load_param(r, r->word, P_LAST);
    also(r, CMP_LT, TT_S32, visit, w);
    op3(r, OP_SHR, TT_U32, r->hash, h, opd_imm(16));
    op3(r, OP_SHR, TT_U32, r->word, h, opd_imm(5));
    load_param(r, r->length, P_LONGEST);
    op3(r, OP_ADD, TT_S32, r->length, n, opd_imm(1));
    op3(r, OP_MUL, TT_S32, r->word, w, n);
    op3(r, OP_SHR, TT_U32, r->word, w, opd_imm(11));
    op3(r, OP_AND, TT_B32, r->hash, h, opd_imm(31));
    op3(r, OP_ADD, TT_S32, r->hash, h, opd_imm(32));
    op3(r, OP_SHL, TT_B32, r->length, h, w);
    EMIT(&r->b, OP_DELAY, TT_NONE, n)->guard = chosen;
    op3(r, OP_ADD, TT_S32, counter, visit, opd_imm(1));
}

static void point(Rewrite *r, const ThreadOp *op, bool after)
{
    if (r->loads || r->fresh) return;
    if (r->out->points.n == STRESS_MAX_POINTS) {
        r->out->dropped++;
        return;
    }
    r->b.loc = op->loc;
    emit_delay(r, r->out->points.n);
    vec_push(r->b.mod->arena, &r->out->points,
             ((StressPoint){op->loc, op->op, after, r->lanes > 0}));
    r->fresh = true;
}

static void rewrite_block(Rewrite *r, ThreadBlock *block);

// A role may begin late.
static void rewrite_role(Rewrite *r, ThreadOp *op)
{
    ThreadBlock old = op->body, *saved = r->b.at;
    op->body = (ThreadBlock){0};
    r->loads = false;
    r->b.at = &op->body;
    point(r, op, true);
    r->b.at = saved;
    bool fresh = r->fresh;
    rewrite_block(r, &old);
    if (!fresh) r->fresh = false;
    for (int i = 0; i < old.n; i++) vec_push(r->b.mod->arena, &op->body, old.at[i]);
}

// Some lanes may be elsewhere.
static bool splits_lanes(const ThreadOp *op)
{
    return (op->op == OP_IF && !(op->flags & OPF_UNIFORM)) ||
           (op->op == OP_FOR && op->flags & OPF_LANES);
}

// A point stays fresh over pure operations and into a branch, which cost no time to speak of.
static void rewrite_block(Rewrite *r, ThreadBlock *block)
{
    ThreadBlock old = *block, made = {0}, *saved = r->b.at;
    r->b.at = &made;
    for (int i = 0; i < old.n; i++) {
        ThreadOp *op = old.at[i];
        u8 place = place_of[op->op], effect = thread_op[op->op].effect;
        if (place & IN_FRONT) point(r, op, false);
        if (ends_loads(op->op)) r->loads = false;
        if (is_generic_load(op->op)) r->loads = true;
        if (effect != EFF_PURE && op->op != OP_IF) r->fresh = false;
        vec_push(r->b.mod->arena, &made, op);
        r->lanes += splits_lanes(op);
        if (op->op == OP_ROLE) rewrite_role(r, op);
        else rewrite_block(r, &op->body);
        rewrite_block(r, &op->other);
        r->lanes -= splits_lanes(op);
        if (effect == EFF_CTRL) r->fresh = false;
        if (place & BEHIND) point(r, op, true);
    }
    r->b.at = saved;
    *block = made;
}

// who = seed + block * MIX_BLOCK + warp * MIX_WARP. Warps and blocks that are left out never reach
// the first visit: they count from far below 0.
static void emit_start(Rewrite *r)
{
    Operand who = opd_reg(r->who, 0), w = opd_reg(r->word, 0), h = opd_reg(r->hash, 0);
    Operand n = opd_reg(r->length, 0), chosen = opd_reg(r->chosen, 0);
    static const SpecialReg axis[] = {SR_CTAID_Z, SR_NCTAID_Y, SR_CTAID_Y, SR_NCTAID_X, SR_CTAID_X};
    for (int i = 0; i < COUNT(axis); i++) { // ((z * ny) + y) * nx + x
        int to = i ? r->word : r->hash;
        EMIT(&r->b, OP_MOV, TT_B32, opd_reg(to, 0), opd_sreg(axis[i]));
        if (i) op3(r, i % 2 ? OP_MUL : OP_ADD, TT_S32, r->hash, h, w);
    }
    load_param(r, r->word, P_FIRST_BLOCK);
    EMIT(&r->b, OP_SETP, TT_S32, chosen, h, w)->cmp = CMP_GE;
    load_param(r, r->word, P_LAST_BLOCK);
    also(r, CMP_LT, TT_S32, h, w);
    load_param(r, r->who, P_SEED);
    op3(r, OP_MUL, TT_S32, r->hash, h, opd_imm(MIX_BLOCK));
    op3(r, OP_ADD, TT_S32, r->who, who, h);
    EMIT(&r->b, OP_MOV, TT_B32, h, opd_sreg(SR_TID));
    op3(r, OP_SHR, TT_U32, r->hash, h, opd_imm(5));
    op3(r, OP_MUL, TT_S32, r->word, h, opd_imm(MIX_WARP));
    op3(r, OP_ADD, TT_S32, r->who, who, w);
    load_param(r, r->length, P_WARPS);
    op3(r, OP_SHR, TT_U32, r->length, n, h);
    op3(r, OP_AND, TT_B32, r->length, n, opd_imm(1));
    also(r, CMP_NE, TT_S32, n, opd_imm(0));
    EMIT(&r->b, OP_SELP, TT_B32, opd_reg(r->visit, 0), opd_imm(0), opd_imm(INT32_MIN), chosen);
    EMIT(&r->b, OP_MOV, TT_B32, opd_reg(r->lane_visit, 0), opd_reg(r->visit, 0));
}

// ---- warps without work -------------------------------------------------------------------------
enum { IDLE_LOADS = 8, IDLE_TILE = 4096 }; // a round; bytes: 32 lanes, a row of 128 bytes each

// Loads that all lanes of a warp make from one bank, so that everyone else's loads stand in line
// behind them. They read whatever lies at the start of the arena, and nobody uses it: each round's
// column depends on what the last one read, so that the assembler leaves none out.
static void emit_idle(Rewrite *r, int tile)
{
    ThreadBuilder *b = &r->b;
    ExprPool *e = b->mod->exprs;
    int lane = thread_add_reg(b, "idle_lane", RC_B32, 1);
    int at = thread_add_reg(b, "idle_at", RC_B32, 1);
    int col = thread_add_reg(b, "idle_col", RC_B32, 1);
    int row = thread_add_reg(b, "idle_row", RC_B32, 1);
    int round = thread_add_reg(b, "idle_round", RC_B32, 1);
    int last = thread_add_reg(b, "idle_rounds", RC_B32, 1);
    int v = thread_add_reg(b, "idle_v", RC_B32, IDLE_LOADS), var;
    Intern *names = expr_pool_names(e);
    ThreadBlock *loop, *rounds;
    EMIT(b, OP_MOV, TT_B32, opd_reg(lane, 0), opd_sreg(SR_LANE));
    EMIT(b, OP_MOV, TT_B32, opd_reg(row, 0), opd_sreg(SR_SMEM));
    EMIT(b, OP_MAD, TT_S32, opd_reg(row, 0), opd_reg(lane, 0), opd_imm(128), opd_reg(row, 0));
    EMIT(b, OP_MOV, TT_B32, opd_reg(col, 0), opd_imm(0));
    load_param(r, last, P_IDLE);
    thread_open_for(b, round, opd_imm(0), opd_reg(last, 0), 1, &loop);
    EMIT(b, OP_MAD, TT_S32, opd_reg(at, 0), opd_reg(col, 0), opd_imm(4), opd_reg(row, 0));
    ThreadOp *region = thread_open_unroll(b, "idle_i", IDLE_LOADS, &var, &rounds);
    const char *name = arena_printf(b->mod->arena, "$%s", b->fn->unrolls.at[region->imm]);
    ThreadOp *load = EMIT(b, OP_LDS, TT_B32, opd_plus(opd_reg(v, 0), var, 1), opd_reg(at, 0),
                          opd_plus(opd_imm(0), var, 4));
    load->n = 1;
    const char *lane_name = arena_printf(b->mod->arena, "%%%s", b->fn->regs.at[lane].name);
    const char *col_name = arena_printf(b->mod->arena, "%%%s", b->fn->regs.at[col].name);
    const Expr *column = expr_add(e, expr_var(e, intern(names, col_name)),
                                  expr_var(e, intern(names, name)));
    thread_mem(b, load, (MemRef){tile, 2, {expr_var(e, intern(names, lane_name)), column}});
    thread_close(b, rounds);
    for (int i = 1; i < IDLE_LOADS; i++)
        EMIT(b, OP_XOR, TT_B32, opd_reg(v, 0), opd_reg(v, 0), opd_reg(v, i));
    EMIT(b, OP_AND, TT_B32, opd_reg(col, 0), opd_reg(v, 0), opd_imm(31 - IDLE_LOADS));
    thread_close(b, loop);
    // The last column steers a delay of at most 31 cycles, so that it is needed.
    EMIT(b, OP_DELAY, TT_NONE, opd_reg(col, 0));
}

// The first range of the warps [first, first + *warps) that no role of the block takes, where it
// has roles at all: *warps are in it, from the result on.
static int idle_range(const ThreadBlock *b, int first, int *warps)
{
    bool taken[32] = {0}, roles = false;
    int end = MIN(first + *warps, 32), from = first;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (op->op != OP_ROLE) continue;
        roles = true;
        for (int w = MAX(op->imm, 0); w < op->imm + op->n && w < 32; w++) taken[w] = true;
    }
    *warps = 0;
    if (!roles) return first;
    while (from < end && taken[from]) from++;
    while (from + *warps < end && !taken[from + *warps]) ++*warps;
    return from;
}

// Puts the loads in front of the first role that leaves warps of its block without work.
static bool load_idle_warps(Rewrite *r, ThreadBlock *block, int first, int warps, int tile)
{
    int n = warps, from = idle_range(block, first, &n);
    for (int i = 0; i < block->n; i++) {
        ThreadOp *op = block->at[i];
        if (op->op != OP_ROLE) continue;
        if (load_idle_warps(r, &op->body, op->imm, op->n, tile)) return true;
        if (!n) continue;
        ThreadBlock made = {0}, *saved;
        for (int k = 0; k < i; k++) vec_push(r->b.mod->arena, &made, block->at[k]);
        r->b.at = &made;
        r->b.loc = op->loc;
        thread_open_role(&r->b, from, n, &saved);
        emit_idle(r, tile);
        thread_close(&r->b, saved);
        for (int k = i; k < block->n; k++) vec_push(r->b.mod->arena, &made, block->at[k]);
        *block = made;
        return true;
    }
    return false;
}

static void use_idle_warps(Rewrite *r)
{
    ThreadFn *fn = r->b.fn;
    ExprPool *e = r->b.mod->exprs;
    if (fn->smem_bytes < IDLE_TILE) return;
    ThreadBuffer tile = {.name = "idle_tile", .kind = BUF_SHARED, .type = DT_U32, .rank = 2,
                         .dim = {expr_const(e, 32), expr_const(e, 32)}, .layout = SL_ROW};
    int buffer = thread_add_buffer(&r->b, tile);
    if (load_idle_warps(r, &fn->body, 0, fn->threads / 32, buffer)) r->out->idle = true;
    else fn->buffers.n--;
}

static bool has_points(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (place_of[op->op] || op->op == OP_ROLE) return true;
        if (has_points(&op->body) || has_points(&op->other)) return true;
    }
    return false;
}

// Masks for all points that the module may get: how many is known behind the last kernel only, and
// every kernel gets the same arguments.
static void instrument_kernel(ThreadModule *m, ThreadFn *fn, StressProgram *out)
{
    Rewrite r = {.b = {.mod = m, .fn = fn}, .out = out};
    thread_take_names(&r.b);
    for (int i = 0; i < out->nparams; i++)
        r.param[i] = thread_add_param(&r.b, param_name[MIN(i, (int)P_POINTS)], PARAM_S32);
    if (!has_points(&fn->body)) return;
    r.who = thread_add_reg(&r.b, "delay_who", RC_B32, 1);
    r.visit = thread_add_reg(&r.b, "delay_visit", RC_B32, 1);
    r.lane_visit = thread_add_reg(&r.b, "delay_lane_visit", RC_B32, 1);
    r.hash = thread_add_reg(&r.b, "delay_hash", RC_B32, 1);
    r.word = thread_add_reg(&r.b, "delay_word", RC_B32, 1);
    r.length = thread_add_reg(&r.b, "delay_length", RC_B32, 1);
    r.chosen = thread_add_reg(&r.b, "delay_chosen", RC_PRED, 1);
    r.test = thread_add_reg(&r.b, "delay_test", RC_PRED, 1);
    use_idle_warps(&r);
    ThreadBlock start = {0};
    r.b.at = &start;
    emit_start(&r);
    rewrite_block(&r, &fn->body);
    for (int i = 0; i < fn->body.n; i++) vec_push(m->arena, &start, fn->body.at[i]);
    fn->body = start;
}

// ---- the plan -----------------------------------------------------------------------------------
// Scalars behind the caller's parameters, and as the last arguments of every kernel.
static void extend_plan(ThreadModule *m, Plan *p, const StressProgram *out)
{
    for (int i = 0; i < out->nparams; i++) {
        PlanParam q = {.name = param_name[MIN(i, (int)P_POINTS)], .kind = PLAN_SCALAR,
                       .type = DT_S32, .in = true, .align = 4};
        int at = plan_add_argument(m->arena, m->exprs, p, q);
        PlanArg arg = {.kind = ARG_VALUE, .value = expr_var(m->exprs, p->params.at[at].name)};
        for (int k = 0; k < p->steps.n; k++)
            if (p->steps.at[k]->kind == STEP_KERNEL)
                vec_push(m->arena, &p->steps.at[k]->args, arg);
    }
}

// Points are counted first, for the number of masks.
static int count_points(const ThreadBlock *b)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        n += (place_of[op->op] & IN_FRONT) != 0;
        n += (place_of[op->op] & BEHIND) != 0;
        n += (op->op == OP_ROLE) + count_points(&op->body) + count_points(&op->other);
    }
    return n;
}

void stress_instrument(ThreadModule *m, Plan *p, StressProgram *out)
{
    int most = 0; // a few more than there will be: neighbours become one
    for (int i = 0; i < m->fns.n; i++) most += count_points(&m->fns.at[i]->body);
    int masks = MIN((most + 31) / 32, (int)STRESS_MASKS);
    *out = (StressProgram){.first_param = plan_arguments(p), .nparams = P_POINTS + MAX(masks, 1)};
    for (int i = 0; i < m->fns.n; i++) instrument_kernel(m, m->fns.at[i], out);
    extend_plan(m, p, out);
}
