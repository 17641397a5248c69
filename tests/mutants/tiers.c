// tiers.c - what looks at a mutant, cheapest first. Each tier is called as its command would be:
// the checker of the thread IR, `baton check`, `baton explore`, `baton run --device=emu` and
// `baton audit`.
#include "mutants.h"
#include "../../src/cli/ptxas.h"
#include "../../src/emit/ptx.h"
#include "../../src/verify/audit.h"

#include <string.h>

enum {
    STEPS = 2000000,         // warp operations of one block: some hundred times what they need
    CASES = 12,              // of explore
    STATES = 200000,
    SEEDS = 3,               // of the tier; up to those, behind a reason:
    MANY_RANDOM = 5, MANY_ADVERSARIAL = 9,
};

// ---- static -------------------------------------------------------------------------------------
static bool law(Trial *t)
{
    Diag *d = diag_new(t->arena);
    if (thread_check(&t->edit->module, d)) return false;
    diag_print(d, &t->why);
    return true;
}

// The parts of `baton check` that look at order. Where an access lies and what is written out no
// mutant changes, so that bounds and outputs are not asked again.
static const CheckPart order_parts[] = {{"handoff", check_order, false}};

static void ask(Bench *b, const ThreadModule *m, const CheckPart *parts, int n, CheckEffort effort,
                CheckReport *r)
{
    check_module(m, b->comp.plan, b->comp.diag, parts, n, effort, r);
}

// What `baton build` refuses without being asked.
static bool quick(Trial *t)
{
    CheckReport r = {.arena = t->arena};
    ask(t->bench, &t->edit->module, quick_parts, quick_parts_n, CHECK_FULL, &r);
    if (r.broken.n) buf_printf(&t->why, "%s: %s", r.broken.at[0].rule, r.broken.at[0].text);
    return r.broken.n > 0;
}

// More than it says of the kernel as it is counts as caught, a question that stays open too.
static bool prove(Trial *t)
{
    CheckReport r = {.arena = t->arena};
    ask(t->bench, &t->edit->module, order_parts, COUNT(order_parts), CHECK_FULL, &r);
    if (r.broken.n > t->bench->check_broken)
        buf_printf(&t->why, "%s: %s", r.broken.at[0].rule, r.broken.at[0].text);
    else if (r.open.n > t->bench->check_open)
        buf_printf(&t->why, "not proved: %s: %s", r.open.at[0].rule, r.open.at[0].text);
    t->proved = !r.broken.n && !r.open.n && r.proved.n > 0;
    return t->why.n > 0;
}

bool tiers_prove(Trial *t)
{
    CheckReport r = {.arena = t->arena};
    ask(t->bench, &t->edit->module, order_parts, COUNT(order_parts), CHECK_THOROUGH, &r);
    return !r.broken.n && !r.open.n && r.proved.n > 0;
}

static bool explored(Trial *t)
{
    ExploreOptions o = {.cases = CASES, .states = STATES};
    Buf out = {0};
    ExploreVerdict v = explore_module(&t->edit->module, t->bench->comp.plan, t->bench->comp.diag, &o,
                                      &out);
    if (v == EXPLORE_VIOLATION) buf_write(&t->why, out.s, out.n);
    t->explored = v == EXPLORE_CLEAN;
    buf_free(&out);
    return v == EXPLORE_VIOLATION;
}

// ---- the emulator -------------------------------------------------------------------------------
static bool hazards(RtDevice *d, Bench *b, Buf *why)
{
    int n;
    EmuReport *const *reports = rt_emulator_reports(d, &n);
    for (int i = 0; i < n; i++) {
        if (!reports[i]->hazards.n) continue;
        emu_report_print(reports[i], b->comp.diag, why);
        return true;
    }
    return false;
}

// The outputs against the right bits, or kept as such.
static bool differs(Bench *b, RtError *e, Buf *why)
{
    Job *r = &b->run;
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        size_t n = a->bytes + 2 * (size_t)JOB_GUARD;
        if (!a->result) continue;
        if (r->device->ops->copy_out(r->device, a->result, a->device, n, e)) return false;
        if (!b->right) memcpy(a->first, a->result, n);
        else if (memcmp(a->first, a->result, n))
            return buf_printf(why, "%s has other values", a->param->name), true;
    }
    return false;
}

// One run of a module whose kernel `fn` stands in the place of the one with its name.
static bool emulate(Bench *b, Arena *scratch, ThreadFn *fn, EmuSchedule schedule, u64 seed, Buf *why)
{
    Job *r = &b->run;
    RtEmulatorOptions o = {.schedule = schedule, .seed = seed, .hazards = true, .step_limit = STEPS,
                           .sms = b->kernel->sms};
    ThreadModule m = *b->comp.thread;
    m.fns.at = ARENA_ARRAY(scratch, ThreadFn *, m.fns.n);
    for (int i = 0; i < m.fns.n; i++)
        m.fns.at[i] = strcmp(b->comp.thread->fns.at[i]->name, fn->name) ? b->comp.thread->fns.at[i] : fn;
    RtCode code = {.name = b->comp.path, .thread = &m};
    RtModule *module = NULL;
    RtLaunch *launch = NULL;
    RtError e = {0};
    bool caught = false;
    rt_emulator_set(r->device, &o);
    for (int i = 0; i < r->narrays && !e.status; i++)
        if (r->array[i].device)
            r->device->ops->copy_in(r->device, r->array[i].device, r->array[i].block,
                                    r->array[i].bytes + 2 * (size_t)JOB_GUARD, &e);
    if (!e.status && !rt_load(r->device, &code, &module, NULL, &e) &&
        !rt_prepare(scratch, module, b->comp.plan, b->values, &launch, NULL, &e) &&
        !rt_launch(launch, NULL, &e))
        caught = hazards(r->device, b, why) || differs(b, &e, why);
    if (e.status) buf_printf(why, "refused: %s", e.text);
    rt_release(launch);
    rt_unload(module);
    return caught || e.status;
}

static bool calm(Trial *t)
{
    return emulate(t->bench, t->arena, t->edit->fn, SCHED_ROUND_ROBIN, 0, &t->why);
}

static bool schedules(Trial *t, EmuSchedule kind, int from, int to)
{
    for (int seed = from; seed < to; seed++)
        if (emulate(t->bench, t->arena, t->edit->fn, kind, (u64)seed, &t->why)) return true;
    return false;
}

static bool seeds(Trial *t)
{
    return schedules(t, SCHED_ADVERSARIAL, 0, SEEDS) || schedules(t, SCHED_RANDOM, 0, SEEDS);
}

bool trial_many_schedules(Trial *t)
{
    return !schedules(t, SCHED_ADVERSARIAL, SEEDS, MANY_ADVERSARIAL) &&
           !schedules(t, SCHED_RANDOM, SEEDS, MANY_RANDOM);
}

// The machine code that ptxas makes of the mutant; nothing where there is no ptxas.
static bool machine(Trial *t)
{
    Buf ptx = {0}, code = {0}, report = {0};
    Diag *d = diag_new(t->arena);
    Cubin cubin = {0};
    int found = 0;
    bool ok = ptxas_is_here() && ptx_print(&t->edit->module, NULL, d, &ptx) &&
              !ptxas_run(t->arena, ptx.s, ptx.n, &code, &report) &&
              !cubin_read(t->arena, (const u8 *)code.s, code.n, &cubin);
    AuditOptions how = {.ptx = ptx.s, .closed = true};
    for (int i = 0; ok && i < cubin.texts.n; i++) {
        AuditKernel k;
        audit_text(t->arena, &cubin.texts.at[i], &how, &k);
        if (audit_findings(&k)) audit_print(&k, &t->why);
        found += audit_findings(&k);
    }
    buf_free(&ptx);
    buf_free(&code);
    buf_free(&report);
    return found > 0;
}

const Tier tier_table[] = {
    {"law", law},
    {"build", quick},
    {"emulator", calm},
    {"check", prove},
    {"explore", explored},
    {"seeds", seeds},
    {"audit", machine},
};
const int tier_count = COUNT(tier_table);

bool trial_clean(Trial *t)
{
    // Two changes at once are asked of what looks at all warps.
    for (int i = 0; i < tier_count; i++)
        if (tier_table[i].catches != machine && tier_table[i].catches(t)) return false;
    return true;
}

const char *bench_settle(Bench *b)
{
    Arena *a = arena_new(0);
    Edit e;
    edit_begin(&e, a, b->comp.thread, b->fn, 0);
    Trial t = {.bench = b, .edit = &e, .arena = a};
    CheckReport report = {.arena = a};
    ask(b, &e.module, order_parts, COUNT(order_parts), CHECK_FULL, &report);
    b->check_open = report.open.n;
    b->check_broken = report.broken.n;
    const char *who = NULL;
    for (int i = 0; i < tier_count && !who; i++) {
        if (tier_table[i].catches(&t)) who = tier_table[i].name;
        if (tier_table[i].catches == calm) b->right = true;
    }
    const char *text = who ? arena_printf(b->arena, "as it is, %s says: %s", who, t.why.s) : NULL;
    buf_free(&t.why);
    arena_free(a);
    return text;
}
