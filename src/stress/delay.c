// delay.c - puts random delays into a program at its handoffs.
//
// In: a checked module and its launch plan. Out: the same program with code at every point that
// counts the warp's visits, asks a hash of seed, block, warp and visit whether to wait and how long,
// and waits; and scalars of the plan that steer it.
//
// Where points stand: in front of what may come too early for others (issues of bulk copies, expects,
// waits, barriers) and behind what lets others go on (arrivals, barriers) or lets this warp go on
// (waits, the begin of a role). Never between ordinary loads of shared memory and the release behind
// them: a loop there would wait for the loads, as any branch does, and close the window that an
// unprotected release leaves open. Never in front of an arrival: it would give its reads time.
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
    P_SEED, P_RATE, P_LONGEST, P_WARPS, P_FIRST, P_LAST, P_FIRST_BLOCK, P_LAST_BLOCK, P_POINTS
};
static const char *const param_name[P_POINTS + 1] = {
    "delay_seed", "delay_rate", "delay_longest", "delay_warps", "delay_first", "delay_last",
    "delay_first_block", "delay_last_block", "delay_points",
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
        (u32)d->first_block, (u32)d->last_block,
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

// The builder knows the names that the kernel has already.
static void take_names(ThreadBuilder *b)
{
    Arena *a = b->mod->arena;
    for (int i = 0; i < NAMES_COUNT; i++) b->taken[i] = map_new(a);
    Intern *names = expr_pool_names(b->mod->exprs);
    for (int i = 0; i < b->fn->regs.n; i++)
        map_put(b->taken[NAMES_REGS], intern(names, b->fn->regs.at[i].name), (void *)1);
    for (int i = 0; i < b->fn->params.n; i++)
        map_put(b->taken[NAMES_PARAMS], intern(names, b->fn->params.at[i].name), (void *)1);
}

static bool has_points(const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        if (place_of[op->op] || op->op == OP_ROLE || has_points(&op->body) || has_points(&op->other))
            return true;
    }
    return false;
}

// Masks for all points that the module may get: how many is known behind the last kernel only, and
// every kernel gets the same arguments.
static void instrument_kernel(ThreadModule *m, ThreadFn *fn, StressProgram *out)
{
    Rewrite r = {.b = {.mod = m, .fn = fn}, .out = out};
    take_names(&r.b);
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
    ThreadBlock start = {0};
    r.b.at = &start;
    emit_start(&r);
    rewrite_block(&r, &fn->body);
    for (int i = 0; i < fn->body.n; i++) vec_push(m->arena, &start, fn->body.at[i]);
    fn->body = start;
}

// ---- the plan -----------------------------------------------------------------------------------
static const char *free_name(const Plan *p, Intern *names, const char *wanted)
{
    const char *name = intern(names, wanted);
    for (int k = 0, i = 0; i < p->params.n + p->symbols.n; i++) {
        const char *taken =
            i < p->params.n ? p->params.at[i].name : p->symbols.at[i - p->params.n].name;
        if (strcmp(taken, name) != 0) continue;
        name = intern_printf(names, "%s_%d", wanted, ++k);
        i = -1;
    }
    return name;
}

// Parameters from `at` on have moved `by` places.
static void move_params(Plan *p, int at, int by)
{
    for (int i = 0; i < p->symbols.n; i++)
        if (p->symbols.at[i].param >= at) p->symbols.at[i].param += by;
    for (int i = 0; i < p->steps.n; i++) {
        PlanStep *s = p->steps.at[i];
        if (s->kind != STEP_KERNEL && s->param >= at) s->param += by;
        for (int k = 0; k < s->args.n; k++) {
            PlanArg *g = &s->args.at[k];
            if ((g->kind == ARG_TENSOR || g->kind == ARG_FLOAT) && g->index >= at) g->index += by;
        }
        for (int k = 0; k < s->tmaps.n; k++)
            if (s->tmaps.at[k].param >= at) s->tmaps.at[k].param += by;
    }
}

// Scalars behind the caller's parameters and in front of the workspaces, each with a symbol of its
// name, and as the last arguments of every kernel.
static void extend_plan(ThreadModule *m, Plan *p, const StressProgram *out)
{
    Arena *a = m->arena;
    Intern *names = expr_pool_names(m->exprs);
    int at = out->first_param, by = out->nparams, old = p->params.n;
    move_params(p, at, by);
    for (int i = 0; i < by; i++) vec_push(a, &p->params, ((PlanParam){.name = ""}));
    memmove(&p->params.at[at + by], &p->params.at[at], sizeof p->params.at[0] * (size_t)(old - at));
    for (int i = 0; i < by; i++) {
        p->params.at[at + i] = (PlanParam){.name = ""};
        const char *name = free_name(p, names, param_name[MIN(i, (int)P_POINTS)]);
        p->params.at[at + i] = (PlanParam){.name = name, .kind = PLAN_SCALAR, .type = DT_S32,
                                           .in = true, .align = 4};
        vec_push(a, &p->symbols,
                 ((PlanSymbol){.name = name, .source = SYM_SCALAR, .param = at + i}));
        for (int k = 0; k < p->steps.n; k++) {
            PlanArg arg = {.kind = ARG_VALUE, .value = expr_var(m->exprs, name)};
            if (p->steps.at[k]->kind == STEP_KERNEL) vec_push(a, &p->steps.at[k]->args, arg);
        }
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
