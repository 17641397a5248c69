// execute.c - a prepared job on a device: guarded memory, the launch, the results, the hazards that
// the emulator saw, and times.
//
// In: arrays with their contents on the host. Out: results beside them, and what was noticed on the
// way. The device is used through the table of operations of the runtime, the same for a GPU and
// for the emulator; functions return the exit status, with the reason in the Diag.
#include "job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- the device ---------------------------------------------------------------------------------
// Of the emulator's progress line; start_ms and shown_ms in milliseconds of the monotonic clock.
typedef struct {
    double start_ms, shown_ms;
    int schedule, schedules;
} Progress;

// One line on a terminal, renewed five times a second once a run takes longer than a second.
static void show_progress(void *ctx, i64 done, i64 total)
{
    Progress *p = ctx;
    double now = rt_now_ms();
    if (now - p->start_ms < 1000 || now - p->shown_ms < 200) return;
    p->shown_ms = now;
    fprintf(stderr, "\remulating: %lld of %lld blocks", (long long)done, (long long)total);
    if (p->schedules > 1) fprintf(stderr, ", schedule %d of %d", p->schedule, p->schedules);
    fputs("   ", stderr);
    fflush(stderr);
}

static void clear_progress(const Progress *p)
{
    if (p->shown_ms > 0) fputs("\r\033[K", stderr);
}

// Schedule k of a run has seed + k, so that one schedule can be repeated by itself with --seed.
// Progress is shown on a terminal only.
// Operations of warps in one block before it counts as a loop without end: some ten seconds. The
// largest blocks of the kernels here execute a few million.
#define EMULATOR_STEPS ((i64)1 << 27)

static RtEmulatorOptions emulator_options(const JobOptions *o, i64 schedule, Progress *p)
{
    bool terminal = isatty(STDERR_FILENO) != 0;
    return (RtEmulatorOptions){
        .schedule = o->schedule,
        .seed = o->seed + (u64)schedule,
        .hazards = !o->no_hazards,
        .step_limit = EMULATOR_STEPS,
        .sms = (int)o->sms,
        .progress = terminal && p ? show_progress : NULL,
        .progress_ctx = p,
    };
}

// Status for the shell: what the caller passed is his input, everything else the device's trouble.
int job_device_error(Job *r, const RtError *e, const char *doing)
{
    bool input = e->status == BATON_BAD_ARGUMENT || e->status == BATON_UNSUPPORTED;
    bool no_gpu = e->status == BATON_NO_DRIVER || e->status == BATON_NO_DEVICE ||
                  e->status == BATON_WRONG_DEVICE;
    diag_error(r->diag, (Loc){0},
               no_gpu ? "--device=emu runs the same program without a GPU" : NULL, "%s: %s",
               doing, e->text);
    return input ? EXIT_INPUT : EXIT_DEVICE;
}

// `auto` takes the first GPU, and the emulator without one or when an option asks for the emulator.
// The report says why no GPU was used.
int job_open_device(Job *r)
{
    const JobOptions *o = r->options;
    RtError e = {0};
    bool automatic = strcmp(o->device, "auto") == 0;
    if (strcmp(o->device, "emu") != 0 && !(automatic && o->emulator_asked)) {
        if (rt_cuda_open(NULL, o->gpu, &r->device, &r->times, &e) == BATON_OK) return EXIT_RIGHT;
        if (!automatic) return job_device_error(r, &e, "opening the GPU");
        // No driver or no GPU is the usual case of a machine without one; anything else is news.
        bool usual = e.status == BATON_NO_DRIVER || e.status == BATON_NO_DEVICE;
        r->device_note = usual ? "no GPU here" : arena_printf(r->arena, "%s", e.text);
    }
    RtEmulatorOptions emu = emulator_options(o, 0, NULL);
    if (rt_emulator_open(&emu, &r->device, &e) != BATON_OK)
        return job_device_error(r, &e, "opening the emulator");
    return EXIT_RIGHT;
}

// The device's own word: options say what was asked for, not what was opened.
bool job_on_emulator(const Job *r) { return strcmp(r->device->ops->kind, "emulator") == 0; }

// ---- memory -------------------------------------------------------------------------------------
// The kernel gets the address behind the first guard; JOB_GUARD keeps it as aligned as the block
// is.
static int make_device_arrays(Job *r, RtError *e)
{
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (a->param->kind != PLAN_TENSOR) continue;
        void *at;
        if (r->device->ops->alloc(r->device, a->bytes + 2 * (size_t)JOB_GUARD, &at, e) != BATON_OK)
            return job_device_error(r, e, arena_printf(r->arena, "memory for %s", a->param->name));
        a->device = at;
        a->value.data = a->device + JOB_GUARD;
    }
    return EXIT_RIGHT;
}

// The whole block, guards included: each schedule starts from the same bytes.
int job_copy_in(Job *r)
{
    RtError error = {0}, *e = &error;
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (!a->device) continue;
        if (r->device->ops->copy_in(r->device, a->device, a->block,
                                    a->bytes + 2 * (size_t)JOB_GUARD, e) != BATON_OK)
            return job_device_error(r, e, arena_printf(r->arena, "copying %s", a->param->name));
    }
    return EXIT_RIGHT;
}

// First byte of a guard that changed: its distance from the array, negative before it; else 0.
static i64 guard_damage(const u8 *before, const u8 *after)
{
    for (i64 k = 0; k < JOB_GUARD; k++) {
        if (after[k] != JOB_GUARD_BYTE) return k + 1;
        if (before[JOB_GUARD - 1 - k] != JOB_GUARD_BYTE) return -(k + 1);
    }
    return 0;
}

// Outputs come back whole; of inputs only the guards, to see whether something wrote there.
int job_copy_out(Job *r)
{
    RtError error = {0}, *e = &error;
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        u8 edge[2][JOB_GUARD];
        const u8 *before = edge[0], *after = edge[1];
        baton_status s = BATON_OK;
        if (!a->device) continue;
        if (a->result) {
            s = r->device->ops->copy_out(r->device, a->result, a->device,
                                         a->bytes + 2 * (size_t)JOB_GUARD, e);
            // The guards are the block's first and last JOB_GUARD bytes.
            before = a->result;
            after = a->result + JOB_GUARD + a->bytes;
        } else {
            s = r->device->ops->copy_out(r->device, edge[0], a->device, JOB_GUARD, e);
            if (s == BATON_OK)
                s = r->device->ops->copy_out(r->device, edge[1], a->device + JOB_GUARD + a->bytes,
                                             JOB_GUARD, e);
        }
        if (s != BATON_OK)
            return job_device_error(r, e, arena_printf(r->arena, "fetching %s", a->param->name));
        i64 at = guard_damage(before, after);
        if (at && !r->guard)
            r->guard = arena_printf(r->arena, "%lld bytes %s %s",
                                    (long long)(at < 0 ? -at : at - 1),
                                    at < 0 ? "before" : "past the end of", a->param->name);
    }
    return EXIT_RIGHT;
}

// ---- launches -----------------------------------------------------------------------------------
static int load(Job *r, RtError *e)
{
    if (rt_load(r->device, &r->code, &r->module, &r->times, e) != BATON_OK)
        return job_device_error(r, e, "loading");
    return EXIT_RIGHT;
}

// What costs a kernel speed without making it wrong is in the assembler's log: a wait behind every
// wgmma, register counts that it did not give to the roles.
static void warn_by_log(const Job *r)
{
    const char *log = r->module->log;
    for (const char *line = log; *line;) {
        size_t n = strcspn(line, "\n");
        const char *text = arena_strndup(r->arena, line, n), *body = strstr(text, " : ");
        body = body ? body + 3 : text; // "ptxas info    : (C7509) Potential ..."
        // "serialized": the assembler put a wait behind each wgmma; "ignored": roles keep their
        // registers.
        bool slow = strstr(body, "serialized") ||
                    (strstr(body, "setmaxnreg") && strstr(body, "ignored"));
        const char *first = strstr(log, arena_printf(r->arena, "%s\n", body));
        if (slow && (!first || first >= line)) // not again, where it repeats itself
            diag_warning(r->diag, (Loc){0}, NULL, "the driver's assembler: %s", body);
        line += n + (line[n] != 0);
    }
}

// The driver knows the spills of a kernel also when its cache had the code and there is no log.
static void warn_by_kernel(const Job *r)
{
    for (int i = 0; i < r->launch->nsteps; i++) {
        const RtKernelLaunch *k = &r->launch->steps[i].kernel;
        bool again = false;
        for (int j = 0; j < i; j++) again |= r->launch->steps[j].kernel.kernel == k->kernel;
        RtKernelInfo info;
        RtError e;
        if (r->launch->steps[i].kind != STEP_KERNEL || again) continue;
        if (r->device->ops->kernel_info(r->module, k->kernel, &info, &e) || info.local_bytes <= 0)
            continue;
        diag_warning(r->diag, (Loc){0}, NULL,
                     "kernel %s has too few registers: each thread spills %d bytes to memory",
                     k->name, info.local_bytes);
    }
}

// `launch` is the host's part; the emulator does its work in it, a GPU's is waited for in sync.
int job_launch(Job *r)
{
    RtError error = {0}, *e = &error;
    double start = rt_now_ms();
    if (rt_launch(r->launch, NULL, e) != BATON_OK) return job_device_error(r, e, "launching");
    r->times.launch = rt_now_ms() - start;
    if (r->device->ops->sync(r->device, NULL, e) != BATON_OK)
        return job_device_error(r, e, "running");
    return EXIT_RIGHT;
}

// Adds what the emulator saw in the launches of one schedule.
static void collect_hazards(Job *r, i64 schedule)
{
    int n;
    EmuReport *const *report = rt_emulator_reports(r->device, &n);
    i64 hazards = 0;
    // Counted in the first schedule only; the report takes the others to be like it.
    if (schedule == 0) r->warp_ops = 0;
    for (int i = 0; i < n; i++) {
        hazards += report[i]->hazards.n;
        if (schedule == 0) r->warp_ops += report[i]->warp_ops;
        if (!r->schedules_with_hazards && !report[i]->ok)
            emu_report_print(report[i], r->diag, &r->hazard_text);
    }
    if (!hazards) return;
    if (!r->schedules_with_hazards) r->hazards = hazards;
    r->schedules_with_hazards++;
}

// The same data under other schedules must give the same bits.
static void compare_schedules(Job *r, i64 schedule)
{
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (!a->first) continue;
        if (schedule == 0)
            memcpy(a->first, a->result, a->bytes + 2 * (size_t)JOB_GUARD);
        else if (memcmp(a->first + JOB_GUARD, a->result + JOB_GUARD, a->bytes) != 0 && !r->differs)
            r->differs = arena_printf(r->arena, "%s after schedule %llu", a->param->name,
                                      (unsigned long long)(r->options->seed + (u64)schedule));
    }
}

// A GPU runs once: its schedule cannot be chosen, so more runs on the same data would say little.
static int run_schedules(Job *r)
{
    const JobOptions *o = r->options;
    i64 schedules = job_on_emulator(r) ? o->seeds : 1;
    Buf unread = {0};
    int status = EXIT_RIGHT;
    for (i64 k = 0; k < schedules; k++) {
        Progress p = {rt_now_ms(), 0, (int)k + 1, (int)schedules};
        if (job_on_emulator(r)) {
            RtEmulatorOptions emu = emulator_options(o, k, &p);
            emu.printed = k ? &unread : NULL; // every schedule prints the same, in some order
            rt_emulator_set(r->device, &emu);
        }
        // Fresh contents for each schedule: outputs must hold NaN again, and inputs may have been
        // changed.
        status = job_copy_in(r);
        if (status == EXIT_RIGHT) status = job_launch(r);
        clear_progress(&p);
        if (status == EXIT_RIGHT) status = job_copy_out(r);
        unread.n = 0;
        if (status != EXIT_RIGHT) break;
        if (job_on_emulator(r)) {
            r->emulator_ms += r->times.launch;
            r->schedules_run++;
            collect_hazards(r, k);
            compare_schedules(r, k);
        }
    }
    buf_free(&unread);
    return status;
}

int job_calm(Job *r, struct EmuHistory *history, const struct EmuFault *fault)
{
    Buf unread = {0};
    RtEmulatorOptions emu = {.schedule = SCHED_ROUND_ROBIN,
                             .hazards = true,
                             .step_limit = EMULATOR_STEPS,
                             .sms = (int)r->options->sms,
                             .printed = &unread,
                             .history = history,
                             .fault = fault};
    rt_emulator_set(r->device, &emu);
    int status = job_copy_in(r);
    if (status == EXIT_RIGHT) status = job_launch(r);
    if (status == EXIT_RIGHT) status = job_copy_out(r);
    buf_free(&unread);
    return status;
}

int job_prepare(Job *r)
{
    RtError e = {0};
    int status = load(r, &e);
    if (status == EXIT_RIGHT) status = make_device_arrays(r, &e);
    if (status != EXIT_RIGHT) return status;
    PlanValue *values = ARENA_ARRAY(r->arena, PlanValue, r->narrays + 1);
    for (int i = 0; i < r->narrays; i++) values[i] = r->array[i].value;
    if (rt_prepare(r->arena, r->module, r->plan, values, &r->launch, &r->times, &e) != BATON_OK)
        return job_device_error(r, &e, "preparing the launch");
    warn_by_log(r);
    warn_by_kernel(r);
    return EXIT_RIGHT;
}

// After this, outputs are in `result`, and hazards and guards are known.
int job_execute(Job *r)
{
    int status = job_prepare(r);
    return status == EXIT_RIGHT ? run_schedules(r) : status;
}

// Only after the result was found right, and not with --once, which is for profilers.
int job_measure(Job *r)
{
    RtError e = {0};
    if (job_on_emulator(r) || r->options->once || !r->launch->nsteps) return EXIT_RIGHT;
    if (rt_time(r->launch, NULL, (int)r->options->warmup, (int)r->options->repeat, &r->timing,
                &e) != BATON_OK)
        return job_device_error(r, &e, "timing");
    r->timed = true;
    return EXIT_RIGHT;
}

// In the reverse order of preparing; safe after any failure, also when nothing was.
void job_leave_device(Job *r)
{
    if (!r->device) return;
    for (int i = 0; r->array && i < r->narrays; i++) {
        if (r->array[i].device) r->device->ops->release(r->device, r->array[i].device);
        r->array[i].device = NULL;
    }
    rt_release(r->launch);
    if (r->module) rt_unload(r->module);
    r->launch = NULL;
    r->module = NULL;
}

void job_close(Job *r)
{
    if (!r->device) return;
    job_leave_device(r);
    r->device->ops->close(r->device);
    r->device = NULL;
    buf_free(&r->hazard_text);
}
