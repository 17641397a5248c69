// stress_child.c - the process that opens the device and launches: the quiet run, then launch after
// launch under what stress_launch says, each compared bit for bit with the quiet run of the same
// inputs.
//
// Every array lies twice on the device, at addresses that have little in common; a launch takes one
// of the two. Outputs are poisoned in front of each launch, inputs are written again when a launch
// may have changed them.
#include "diagnose.h"
#include "stress.h"
#include "stress_beside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACES = 2,
    MOST_QUESTIONS = 240,  // of a reduction
    TRIES = 6,             // launches that stand for one question
    EXPLAIN_BYTES = 8 << 20, // of arrays: what the emulator runs in seconds
    DIAGNOSES = 400,       // runs on the emulator that look for what wrong values are
    EMULATOR_STEPS = 1 << 27,
};

typedef struct {
    Stress *s;
    Job *r;
    Arena *arena;
    int fd;
    StressBeside beside;
    int sets;              // 1 when no input can have a second set of contents
    u8 **contents[STRESS_SETS]; // per array: the guarded block; NULL: no tensor
    u8 **quiet[STRESS_SETS];    // per array that is written: the result of the quiet run
    u8 **device[PLACES];        // per array: the guarded block there
    int *holds[PLACES];         // per array: the set that is there, -1: another
    Buf quiet_text;
} Child;

// ---- telling ------------------------------------------------------------------------------------
static StressTold told(StressToldKind kind) { return (StressTold){.kind = (u8)kind}; }

// Less than a pipe takes at once, so records never mix. A parent that is gone ends the child.
static void tell(const Child *c, const StressTold *t)
{
    const char *at = (const char *)t;
    for (size_t n = sizeof *t; n;) {
        ssize_t k = write(c->fd, at, n);
        if (k <= 0) _exit(EXIT_DEVICE);
        at += k;
        n -= (size_t)k;
    }
}

static void say(StressTold *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(StressTold *t, const char *fmt, ...)
{
    Buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    size_t n = MIN(b.n, sizeof t->text - 1);
    memcpy(t->text, b.s ? b.s : "", n);
    t->text[n] = 0;
    buf_free(&b);
}

static void tell_line(const Child *c, const char *text)
{
    StressTold t = told(TOLD_LINE);
    say(&t, "%s", text);
    tell(c, &t);
}

// Nothing can be launched: the messages, and the exit status.
NORETURN static void fail(const Child *c, int status)
{
    StressTold t = told(TOLD_FAILED);
    Buf b = {0};
    diag_print(c->r->diag, &b);
    say(&t, "%s", b.s ? b.s : "");
    t.status = status;
    tell(c, &t);
    _exit(0);
}

NORETURN static void fail_device(const Child *c, const RtError *e, const char *doing)
{
    fail(c, job_device_error(c->r, e, doing));
}

// ---- device and memory --------------------------------------------------------------------------
static bool on_emulator(const Child *c) { return c->r->device->ops->host_memory; }

static void load_versions(Child *c)
{
    RtError e = {0};
    for (int i = 0; i < STRESS_VERSIONS; i++) {
        StressVersion *v = &c->s->version[i];
        if (!v->made) continue;
        RtCode code = {.name = c->s->o->run.source.path, .ptx = v->ptx.s,
                       .ptx_bytes = v->ptx.n - 1, .thread = v->thread};
        RtTimes t = {0};
        if (rt_load(c->r->device, &code, &v->module, &t, &e)) fail_device(c, &e, "loading");
        const char *log = v->module->log;
        if (i == STRESS_DELAYED && strstr(log, "serialized"))
            tell_line(c, "note       the assembler puts waits behind the products of the program "
                         "with delays: races of products may not show\n");
    }
}

static size_t block_bytes(const JobArray *a) { return a->bytes + 2 * (size_t)JOB_GUARD; }

static u8 *host_block(const Child *c, const JobArray *a)
{
    u8 *b = malloc(block_bytes(a));
    if (!b) {
        diag_error(c->r->diag, (Loc){0}, NULL, "no memory for %s", a->param->name);
        fail(c, EXIT_DEVICE);
    }
    memset(b, JOB_GUARD_BYTE, block_bytes(a));
    return b;
}

// Contents that depend on the seed can be had twice.
static bool has_second_set(const JobArray *a)
{
    return a->has_spec && (a->spec.kind == DATA_UNIFORM || a->spec.kind == DATA_NORMAL) &&
           a->param->kind == PLAN_TENSOR;
}

static void make_contents(Child *c)
{
    Job *r = c->r;
    c->sets = 1;
    for (int i = 0; i < r->narrays && !c->s->from_case; i++)
        if (has_second_set(&r->array[i])) c->sets = STRESS_SETS;
    for (int k = 0; k < STRESS_SETS; k++) {
        c->contents[k] = ARENA_ARRAY(c->arena, u8 *, r->narrays + 1);
        c->quiet[k] = ARENA_ARRAY(c->arena, u8 *, r->narrays + 1);
    }
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (!a->block) continue;
        for (int k = 0; k < c->sets; k++) {
            c->contents[k][i] = a->block;
            if (a->param->out) c->quiet[k][i] = host_block(c, a);
        }
        if (c->sets < STRESS_SETS || !has_second_set(a)) continue;
        c->contents[1][i] = host_block(c, a);
        data_fill(c->arena, &a->spec, r->options->seed + 1, a->param->name, a->param->type,
                  a->count, c->contents[1][i] + JOB_GUARD);
    }
}

// The second place of an array is allocated in the reverse order, and begins some odd number of
// kilobytes into its memory.
static void make_places(Child *c)
{
    Job *r = c->r;
    RtError e = {0};
    for (int p = 0; p < PLACES; p++) {
        c->device[p] = ARENA_ARRAY(c->arena, u8 *, r->narrays + 1);
        c->holds[p] = ARENA_ARRAY(c->arena, int, r->narrays + 1);
        for (int k = 0; k < r->narrays; k++) {
            int i = p ? r->narrays - 1 - k : k;
            const JobArray *a = &r->array[i];
            size_t shift = p ? 256 * (size_t)(5 + 2 * i) : 0;
            void *at;
            c->holds[p][i] = -1;
            if (!a->block) continue;
            if (r->device->ops->alloc(r->device, block_bytes(a) + shift, &at, &e))
                fail_device(c, &e, "memory");
            c->device[p][i] = (u8 *)at + shift;
        }
    }
}

// ---- one launch ---------------------------------------------------------------------------------
static int place_of_array(const JobArray *a, const StressLaunch *l)
{
    return a->param->out ? l->outputs_moved : l->inputs_moved;
}

static baton_status fill_arrays(Child *c, const StressLaunch *l, int set, RtError *e)
{
    const RtDeviceOps *ops = c->r->device->ops;
    baton_status s = BATON_OK;
    for (int i = 0; i < c->r->narrays && !s; i++) {
        const JobArray *a = &c->r->array[i];
        if (!a->block) continue;
        int p = place_of_array(a, l);
        if (c->holds[p][i] == set && !a->param->out) continue;
        if (c->holds[p][i] >= 0 && !a->has_spec && a->param->out && !c->s->from_case) {
            // As job_fill_arrays poisons what is only written.
            u8 byte = dtype_is_float(a->param->type) ? 0xff : JOB_GUARD_BYTE;
            s = ops->fill(c->r->device, c->device[p][i] + JOB_GUARD, byte, a->bytes, NULL, e);
            continue;
        }
        s = ops->copy_in(c->r->device, c->device[p][i], c->contents[set][i], block_bytes(a), e);
        c->holds[p][i] = set;
    }
    return s;
}

// The results, guards included, in a->result.
static baton_status fetch(Child *c, const StressLaunch *l, RtError *e)
{
    baton_status s = BATON_OK;
    for (int i = 0; i < c->r->narrays && !s; i++) {
        JobArray *a = &c->r->array[i];
        if (!a->result) continue;
        s = c->r->device->ops->copy_out(c->r->device, a->result,
                                        c->device[place_of_array(a, l)][i], block_bytes(a), e);
    }
    return s;
}

static void set_emulator(Child *c, const StressLaunch *l)
{
    // Tracking is what makes loads late there (O6).
    RtEmulatorOptions o = {.schedule = SCHED_ADVERSARIAL, .seed = l->delays.seed,
                           .hazards = true, .step_limit = EMULATOR_STEPS,
                           .sms = (int)c->s->o->run.job.sms};
    if (!l->delayed) o.schedule = SCHED_ROUND_ROBIN;
    if (on_emulator(c)) rt_emulator_set(c->r->device, &o);
}

static baton_status prepare(Child *c, Arena *a, const StressVersion *v, const StressLaunch *l,
                            RtLaunch **out, RtError *e)
{
    const Job *r = c->r;
    PlanValue *value = ARENA_ARRAY(a, PlanValue, r->narrays + v->delays.nparams + 1);
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *q = &r->array[i];
        value[i] = q->value;
        if (q->block) value[i].data = c->device[place_of_array(q, l)][i] + JOB_GUARD;
    }
    stress_values(&v->delays, &l->delays, value + r->narrays);
    return rt_prepare(a, v->module, v->plan, value, out, NULL, e);
}

// The emulator comes back from a deadlock, and says so.
static baton_status emulator_stuck(const Child *c, RtError *e)
{
    int n;
    EmuReport *const *report = rt_emulator_reports(c->r->device, &n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < report[i]->hazards.n; k++)
            if (report[i]->hazards.at[k].kind == HZ_DEADLOCK)
                return rt_fail(e, BATON_HAZARD, "deadlock");
    return BATON_OK;
}

static baton_status launch(Child *c, const StressVersion *v, const StressLaunch *l, RtError *e)
{
    RtDevice *d = c->r->device;
    Arena *a = arena_new(0);
    RtLaunch *ready = NULL;
    int set = l->other_inputs && c->sets > 1;
    set_emulator(c, l);
    baton_status s = prepare(c, a, v, l, &ready, e);
    if (!s) s = fill_arrays(c, l, set, e);
    if (!s && l->cold) s = stress_empty_cache(&c->beside, e);
    if (!s) s = d->ops->sync(d, NULL, e);
    if (!s) s = stress_start_beside(&c->beside, l->writes, l->loads, e);
    if (!s) s = rt_launch(ready, NULL, e);
    if (!s && on_emulator(c)) s = emulator_stuck(c, e);
    if (!s) s = d->ops->sync(d, NULL, e);
    if (!s) s = stress_end_beside(&c->beside, e);
    if (!s) s = fetch(c, l, e);
    for (int i = 0; ready && i < ready->nsteps; i++) {
        const RtKernelLaunch *k = &ready->steps[i].kernel;
        if (ready->steps[i].kind == STEP_KERNEL)
            c->s->blocks = MAX(c->s->blocks, (i64)k->grid[0] * k->grid[1] * k->grid[2]);
    }
    rt_release(ready);
    arena_free(a);
    return s;
}

// ---- comparing ----------------------------------------------------------------------------------
static void tell_element(const JobArray *a, i64 at, const u8 *got, const u8 *want, Buf *out)
{
    i64 index[PLAN_MAX_RANK], rest = at;
    for (int d = a->value.rank - 1; d >= 0; d--) {
        index[d] = rest % a->value.dim[d];
        rest /= a->value.dim[d];
    }
    buf_printf(out, "%s[", a->param->name);
    for (int d = 0; d < a->value.rank; d++)
        buf_printf(out, "%s%lld", d ? ", " : "", (long long)index[d]);
    buf_printf(out, "] is %g, %g in the quiet run", data_get(a->param->type, got, at),
               data_get(a->param->type, want, at));
}

// Are the results those of the quiet run? Else the first differences go to `out`.
static bool same_bits(const Child *c, const StressLaunch *l, Buf *out)
{
    int set = l->other_inputs && c->sets > 1;
    bool same = true;
    for (int i = 0; i < c->r->narrays; i++) {
        const JobArray *a = &c->r->array[i];
        if (!a->result) continue;
        const u8 *got = a->result + JOB_GUARD, *want = c->quiet[set][i] + JOB_GUARD;
        bool guards = memcmp(a->result, c->quiet[set][i], JOB_GUARD) == 0 &&
                      memcmp(got + a->bytes, want + a->bytes, JOB_GUARD) == 0;
        if (guards && memcmp(got, want, a->bytes) == 0) continue;
        i64 wrong = 0, first = -1;
        int n = dtype_bytes[a->param->type];
        for (i64 k = 0; k < a->count; k++) {
            if (memcmp(got + k * n, want + k * n, (size_t)n) == 0) continue;
            if (!wrong++) first = k;
        }
        buf_puts(out, same ? "" : "; ");
        same = false;
        if (!guards) buf_printf(out, "memory beside %s was written; ", a->param->name);
        if (!wrong) continue;
        buf_printf(out, "%lld of %lld elements of %s differ, first ", (long long)wrong,
                   (long long)a->count, a->param->name);
        tell_element(a, first, got, want, out);
    }
    return same;
}

// ---- the quiet run ------------------------------------------------------------------------------
static void keep_quiet(Child *c, int set)
{
    for (int i = 0; i < c->r->narrays; i++) {
        const JobArray *a = &c->r->array[i];
        if (a->result) memcpy(c->quiet[set][i], a->result, block_bytes(a));
    }
}

// Against the contract's reference, or what a case expects.
static void check_quiet(Child *c, bool again)
{
    Job *r = c->r;
    Buf line = {0};
    const char *why = NULL;
    buf_puts(&line, "quiet      ");
    if (c->s->from_case) {
        why = stress_check_case(c->s->from_case, r);
        buf_puts(&line, !c->s->from_case->expect.n ? "not checked: the file expects nothing\n"
                                                   : "as the file expects\n");
    } else if (!job_check(r)) {
        fail(c, EXIT_INPUT);
    } else if (!r->reference) {
        buf_puts(&line, "not checked: the contract names no reference\n");
    } else {
        if (r->found.wrong || r->found.nan)
            why = arena_printf(c->arena,
                               "%lld of %lld elements of %s are wrong by the reference %s",
                               (long long)MAX(r->found.wrong, r->found.nan),
                               (long long)r->found.checked, r->checked->param->name,
                               r->reference->name);
        buf_printf(&line, "right: %lld elements of %s agree with the reference `%s`\n",
                   (long long)r->found.checked, r->checked->param->name, r->reference->name);
    }
    if (why) {
        StressTold t = told(TOLD_OTHER);
        t.number = STRESS_QUIET;
        say(&t, "%s", why);
        tell(c, &t);
        _exit(0);
    } else if (!again) {
        tell_line(c, line.s);
    }
    buf_free(&line);
}

// The kernel as it is, alone, on the first places; then the program for delays without one, which
// must compute the same.
static void run_quiet(Child *c, bool again)
{
    RtError e = {0};
    for (int set = 0; set < c->sets; set++) {
        for (int delayed = 0; delayed < 2; delayed++) {
            StressLaunch l = {.delays = stress_no_delays(), .other_inputs = set > 0};
            StressTold t = told(TOLD_BEGIN);
            t.number = STRESS_QUIET;
            t.delayed = delayed;
            tell(c, &t);
            if (launch(c, &c->s->version[delayed ? STRESS_DELAYED : STRESS_AS_IS], &l, &e)) {
                t.kind = TOLD_DIED;
                say(&t, "%s", e.text);
                tell(c, &t);
                _exit(0);
            }
            tell_line(c, ""); // the launch is over; the reference may take its time
            Buf how = {0};
            if (!delayed) {
                keep_quiet(c, set);
                if (!set) check_quiet(c, again);
            } else if (!same_bits(c, &l, &how)) {
                t.kind = TOLD_OTHER;
                say(&t, "with the program for delays %s", how.s);
                tell(c, &t);
                _exit(0);
            }
            buf_free(&how);
        }
    }
}

// ---- the fewest delays --------------------------------------------------------------------------
typedef struct {
    Child *c;
    StressLaunch launch;   // that failed
    RtError error;
} Question;

// A race may keep quiet once or twice.
static bool still_fails(void *ctx, const StressDelays *d)
{
    Question *q = ctx;
    StressLaunch l = q->launch;
    l.delays = *d;
    for (int i = 0; i < TRIES; i++) {
        if (rt_now_ms() > q->c->s->deadline) return false;
        StressTold t = told(TOLD_TRY);
        tell(q->c, &t);
        Buf how = {0};
        if (launch(q->c, &q->c->s->version[STRESS_DELAYED], &l, &q->error)) {
            // The device takes no more launches from this process, so this is the end.
            tell_line(q->c, arena_printf(q->c->arena, "           a launch of the reduction died: "
                                         "%s\n", q->error.text));
            t.kind = TOLD_OVER;
            tell(q->c, &t);
            _exit(0);
        }
        bool failed = !same_bits(q->c, &l, &how);
        buf_free(&how);
        if (failed) return true;
    }
    return false;
}

static void reduce(Child *c, const StressLaunch *l, StressTold *t)
{
    Question q = {.c = c, .launch = *l};
    StressDelays d = l->delays;
    const StressProgram *p = &c->s->version[STRESS_DELAYED].delays;
    int asked = stress_reduce(&d, p->points.n, c->s->warps, c->s->blocks, still_fails, &q,
                              on_emulator(c) ? 40 : MOST_QUESTIONS);
    Buf b = {0};
    stress_tell_delays(&d, p, c->s->warps, c->r->diag, &b);
    t->kind = TOLD_REDUCED;
    say(t, "after %d trial%s it still fails %s", asked, asked == 1 ? "" : "s", b.s);
    buf_free(&b);
    tell(c, t);
}

// ---- what the wrong values are ------------------------------------------------------------------
// Line by line, since a record holds so much.
static void tell_lines(const Child *c, const char *s)
{
    while (s && *s) {
        size_t n = strcspn(s, "\n");
        tell_line(c, arena_printf(c->arena, "           %.*s\n", (int)MIN(n, (size_t)1500), s));
        s += n + (s[n] != 0);
    }
}

// The generation of a slot that they come from, where there is one. `wrong`: the outputs, kept
// before more was launched.
static void explain(Child *c, const StressLaunch *l, const u8 *const *wrong, bool open)
{
    Job *r = c->r;
    JobOptions o = *r->options;
    Job run = *r;
    int set = l->other_inputs && c->sets > 1;
    StressTold t = told(TOLD_EXPLAINS);
    tell(c, &t);
    o.sms = r->device->prop[PROP_SM_COUNT];
    run.options = &o;
    run.array = ARENA_ARRAY(c->arena, JobArray, r->narrays + 1);
    const u8 **right = ARENA_ARRAY(c->arena, const u8 *, r->narrays + 1);
    for (int i = 0; i < r->narrays; i++) {
        run.array[i] = r->array[i];
        run.array[i].block = c->contents[set][i];
        if (r->array[i].result) right[i] = c->quiet[set][i] + JOB_GUARD;
    }
    DiagnoseRequest q = {.wrong = wrong, .right = right, .runs = DIAGNOSES};
    Buf out = {0};
    if (diagnose_run(&run, &q, &out) <= EXIT_WRONG) {
        if (open) tell_line(c, "unprotected: what its wrong values are\n");
        tell_lines(c, out.s);
    }
    buf_free(&out);
}

static const u8 *const *keep_wrong(const Child *c)
{
    const u8 **wrong = ARENA_ARRAY(c->arena, const u8 *, c->r->narrays + 1);
    for (int i = 0; i < c->r->narrays; i++) {
        const JobArray *a = &c->r->array[i];
        if (!a->result) continue;
        u8 *kept = arena_alloc(c->arena, a->bytes + 1);
        memcpy(kept, a->result + JOB_GUARD, a->bytes);
        wrong[i] = kept;
    }
    return wrong;
}

// ---- launch after launch ------------------------------------------------------------------------
// Returns whether the results were those of the quiet run.
static bool run_one(Child *c, const StressLaunch *l, StressTold *t)
{
    RtError e = {0};
    int version = (t->open ? STRESS_OPEN : 0) + (l->delayed ? STRESS_DELAYED : 0);
    t->kind = TOLD_BEGIN;
    t->delayed = l->delayed;
    *t->text = 0;
    tell(c, t);
    if (launch(c, &c->s->version[version], l, &e)) {
        t->kind = TOLD_DIED;
        say(t, "%s", e.text);
        tell(c, t);
        _exit(0);
    }
    Buf how = {0};
    bool same = same_bits(c, l, &how);
    t->kind = same ? TOLD_SAME : TOLD_OTHER;
    say(t, "%s", how.s ? how.s : "");
    buf_free(&how);
    tell(c, t);
    return same;
}

// The first launch of the kernel that differs is reduced and ends the run; one launch that was
// asked for by number is repeated as often as there are launches.
static void run_all(Child *c, const StressFrom *from)
{
    const StressOptions *o = c->s->o;
    bool replay = o->only >= 0;
    StressLaunch failed = {.cold = false};
    const u8 *const *open_wrong = NULL;
    i64 number = from->number;
    for (i64 seed = from->seed; seed < (replay ? 1 : o->seeds); seed++, number = 0) {
        for (; number < o->launches; number++) {
            if (rt_now_ms() > c->s->deadline) break;
            StressTold t = {.seed = o->run.job.seed + (u64)seed, .number = replay ? o->only : number};
            StressLaunch l = stress_launch_of(c->s, t.seed, t.number);
            bool same = run_one(c, &l, &t);
            if (!same && !replay) {
                const u8 *const *wrong = keep_wrong(c);
                if (l.delayed) reduce(c, &l, &t);
                explain(c, &l, wrong, false);
                return;
            }
            t.open = true;
            if (!from->with_open || run_one(c, &l, &t) || open_wrong) continue;
            open_wrong = keep_wrong(c);
            failed = l;
        }
    }
    size_t bytes = 0;
    for (int i = 0; i < c->r->narrays; i++) bytes += c->r->array[i].bytes;
    if (open_wrong && bytes <= EXPLAIN_BYTES) explain(c, &failed, open_wrong, true);
}

void stress_child(Stress *s, const StressFrom *from, int fd)
{
    Child c = {.s = s, .r = s->r, .fd = fd, .arena = arena_new(0)};
    RtError e = {0};
    if (strcmp(s->o->run.job.device, "emu") == 0) {
        RtEmulatorOptions o = {.sms = (int)s->o->run.job.sms};
        if (rt_emulator_open(&o, &c.r->device, &e)) fail_device(&c, &e, "opening the emulator");
    } else if (rt_cuda_open(NULL, s->o->run.job.gpu, &c.r->device, NULL, &e)) {
        fail_device(&c, &e, "no GPU here");
    }
    const RtDevice *d = c.r->device;
    if (!from->again)
        tell_line(&c, on_emulator(&c)
                          ? "device     emulator: the plumbing of a stress run, no test of a GPU\n"
                          : arena_printf(c.arena, "device     %s, driver for CUDA %d.%d\n", d->name,
                                         d->driver_version / 1000, d->driver_version % 1000 / 10));
    load_versions(&c);
    make_contents(&c);
    make_places(&c);
    i64 smem = 0;
    for (int i = 0; i < c.r->plan->steps.n; i++)
        smem = MAX(smem, c.r->plan->steps.at[i]->smem_bytes);
    if (stress_beside_open(&c.beside, c.r->device, c.arena, smem, &e))
        fail_device(&c, &e, "preparing what runs beside");
    run_quiet(&c, from->again);
    run_all(&c, from);
    stress_beside_close(&c.beside);
    StressTold t = told(TOLD_OVER);
    tell(&c, &t);
    // The process ends here, and with it all memory, on the device too.
}
