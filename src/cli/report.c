// report.c - what `baton run` says at the end: few lines, each with a word in front that tells what
// it is about, understandable without knowing baton.
//
// Nothing is decided here but the wording: run.c and execute.c leave everything in the Run. A line
// never claims more than was done: "right" counts the elements that were compared.
#include "stress.h"

#include <math.h>
#include <string.h>

static bool on_emulator(const Job *r) { return strcmp(r->device->ops->kind, "emulator") == 0; }

// Right means: nothing was written outside the arrays, no schedule changed a bit or had a hazard,
// and where there is a reference, every compared element is within the tolerance and none is NaN.
bool run_is_right(const Job *r)
{
    if (r->guard || r->differs || r->unexpected || r->schedules_with_hazards) return false;
    return !r->reference || (r->found.wrong == 0 && r->found.nan == 0);
}

// Every line begins with the word that it is about, so that scripts may look for it.
static void label(Buf *out, const char *word) { buf_printf(out, "  %-10s", word); }

static void report_device(const Job *r, Buf *out)
{
    const RtDevice *d = r->device;
    label(out, "device");
    if (on_emulator(r)) {
        static const char *const name[] = {"round-robin", "random", "adversarial"};
        buf_printf(out, "emulator on this CPU%s%s; %s schedule", r->device_note ? ", " : "",
                   r->device_note ? r->device_note : "", name[r->options->schedule]);
        if (r->schedules_run > 1) buf_printf(out, "s, %d of them", r->schedules_run);
    } else {
        buf_printf(out, "%s, driver for CUDA %d.%d", d->name, d->driver_version / 1000,
                   d->driver_version % 1000 / 10);
    }
    buf_putc(out, '\n');
}

// "q, k, v: bf16[1, 512, 2, 128]": parameters of equal type and shape share an entry.
static void report_sizes(const Job *r, Buf *out)
{
    const Plan *p = r->plan;
    label(out, "sizes");
    for (int i = 0; i < p->symbols.n; i++)
        buf_printf(out, "%s%s=%lld", i ? " " : "", p->symbols.at[i].name, (long long)r->symbol[i]);
    if (!p->symbols.n) buf_puts(out, "fixed");
    buf_putc(out, '\n');
    label(out, "arrays");
    bool first = true;
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        bool shown = a->param->kind != PLAN_TENSOR;
        for (int k = 0; k < i && !shown; k++) {
            const JobArray *b = &r->array[k];
            shown = b->param->kind == PLAN_TENSOR && b->param->type == a->param->type &&
                    b->value.rank == a->value.rank &&
                    memcmp(a->value.dim, b->value.dim, sizeof a->value.dim) == 0;
        }
        // It stands in the entry of an earlier parameter already.
        if (shown) continue;
        buf_printf(out, "%s%s", first ? "" : "; ", a->param->name);
        first = false;
        for (int k = i + 1; k < r->narrays; k++) {
            const JobArray *b = &r->array[k];
            if (b->param->kind == PLAN_TENSOR && b->param->type == a->param->type &&
                b->value.rank == a->value.rank &&
                memcmp(a->value.dim, b->value.dim, sizeof a->value.dim) == 0)
                buf_printf(out, ", %s", b->param->name);
        }
        buf_printf(out, ": %s [", dtype_name[a->param->type]);
        for (int d = 0; d < a->value.rank; d++)
            buf_printf(out, "%s%lld", d ? ", " : "", (long long)a->value.dim[d]);
        buf_putc(out, ']');
    }
    buf_putc(out, '\n');
}

// Only what has a source; outputs start as NaN and are not named.
static void report_inputs(const Job *r, Buf *out)
{
    bool any = false;
    label(out, "inputs");
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (!a->has_spec) continue;
        // Neighbours with the same source share its text.
        bool last = i + 1 == r->narrays || !r->array[i + 1].has_spec ||
                    strcmp(r->array[i + 1].spec.text, a->spec.text) != 0;
        buf_puts(out, a->param->name);
        if (last)
            buf_printf(out, " = %s  ", a->spec.text);
        else
            buf_puts(out, ", ");
        any = true;
    }
    buf_printf(out, any ? "seed %llu\n" : "none\n", (unsigned long long)r->options->seed);
}

// One line per kernel that runs at these sizes: of two variants of a kernel only the one that did.
static void report_launch(const Job *r, Buf *out)
{
    for (int i = 0; i < r->launch->nsteps; i++) {
        const struct RtStep *s = &r->launch->steps[i];
        if (s->kind != STEP_KERNEL) continue;
        const RtKernelLaunch *k = &s->kernel;
        label(out, "launch");
        buf_printf(out, "%s: %u x %u x %u blocks of %d threads", k->name, k->grid[0], k->grid[1],
                   k->grid[2], k->block);
        if (k->cluster > 1) buf_printf(out, " in clusters of %d", k->cluster);
        if (k->smem_bytes)
            buf_printf(out, ", %.1f KB of shared memory", (double)k->smem_bytes / 1024);
        RtKernelInfo info;
        RtError e = {0};
        if (rt_kernel_info(r->module, k->name, &info, &e) == BATON_OK && info.registers >= 0) {
            buf_printf(out, ", %d registers", info.registers);
            if (info.local_bytes > 0) buf_printf(out, " (%d bytes spilled)", info.local_bytes);
        }
        buf_putc(out, '\n');
    }
    if (!r->launch->nsteps) {
        label(out, "launch");
        buf_puts(out, "nothing to do at these sizes\n");
    }
}

// "o[0, 17, 1, 5]"
// Element number `at` of a dense, row-major array as indices.
static void element(const JobArray *a, i64 at, Buf *out)
{
    i64 pos[PLAN_MAX_RANK] = {0};
    for (int d = a->value.rank - 1; d >= 0; d--) {
        pos[d] = at % a->value.dim[d];
        at /= a->value.dim[d];
    }
    buf_printf(out, "%s[", a->param->name);
    for (int d = 0; d < a->value.rank; d++)
        buf_printf(out, "%s%lld", d ? ", " : "", (long long)pos[d]);
    buf_putc(out, ']');
}

// What the contract expects of the error is said of its own sizes; sums over longer rows err more.
static bool default_sizes(const Job *r)
{
    for (int i = 0; i < r->plan->symbols.n; i++) {
        const PlanSymbol *s = &r->plan->symbols.at[i];
        if (!s->has_default || s->default_value != r->symbol[i]) return false;
    }
    return true;
}

// "worst error 0.0026 (allowed 0.05 + 0.1 |reference|, usual up to 0.004)", and where it is.
static void report_error(const Job *r, Buf *out)
{
    const RefResult *f = &r->found;
    const RefTolerance *t = &r->tolerance;
    // Nothing to say of exact results. An infinite error has no size to show: it comes from a NaN,
    // which has a line of its own, or from an infinity that is counted as wrong.
    if (f->worst_at < 0 || f->worst == 0 || isinf(f->worst)) return;
    buf_printf(out, "%12sworst error %.2g (allowed ", "", f->worst);
    if (t->abs != 0 || t->rel == 0) buf_printf(out, "%g", t->abs);
    if (t->rel != 0) buf_printf(out, "%s%g |reference|", t->abs != 0 ? " + " : "", t->rel);
    if (t->has_expect && default_sizes(r))
        buf_printf(out, f->worst <= t->expect ? ", usual up to %g)" : ", MORE than the usual %g)",
                   t->expect);
    else
        buf_putc(out, ')');
    buf_printf(out, "\n%12sat ", "");
    element(r->checked, f->worst_at, out);
    buf_printf(out, ": %.6g, reference %.6g\n", f->worst_got, f->worst_want);
}

// Says what was compared and what not: a sample is called one, and an unchecked run unchecked.
static void report_result(const Job *r, Buf *out)
{
    const RefResult *f = &r->found;
    Arena *a = r->arena;
    label(out, "result");
    if (r->unexpected) {
        buf_printf(out, "WRONG: %s\n", r->unexpected);
        return;
    }
    if (r->from_case && r->from_case->expect.n) {
        buf_puts(out, "right: as the file expects\n");
        return;
    }
    if (!r->reference) {
        buf_printf(out, "unchecked: %s\n",
                   r->contract ? "the contract names no reference" : "the file has no contract");
        return;
    }
    // With tolerances of 0 the claim is stronger, and so is the word.
    const char *verb = r->tolerance.abs == 0 && r->tolerance.rel == 0 ? "equal" : "agree with";
    bool all = f->rows_checked == f->rows, wrong = f->wrong || f->nan;
    if (wrong)
        buf_printf(out, "WRONG: %s of %s compared elements of %s do not %s", cli_count(a, f->wrong),
                   cli_count(a, f->checked), r->checked->param->name, verb);
    else
        buf_printf(out, "right: %s%s elements of %s %s", all ? "all " : "",
                   cli_count(a, f->checked), r->checked->param->name, verb);
    buf_printf(out, " the fp64 reference `%s`\n", r->reference->name);
    if (!all)
        buf_printf(out, "%12sa sample: %s of %s rows, first, last and edges of tiles among them\n",
                   "", cli_count(a, f->rows_checked), cli_count(a, f->rows));
    if (!all && !f->nan)
        buf_printf(out, "%12sall %s elements were written, none is NaN\n", "",
                   cli_count(a, f->elements));
    if (f->nan) {
        buf_printf(out, "%12s%s elements are NaN or were never written, the first is ", "",
                   cli_count(a, f->nan));
        element(r->checked, f->first_nan, out);
        buf_putc(out, '\n');
    }
    report_error(r, out);
}

// Both mean that the kernel is wrong whatever the reference says.
static void report_memory(const Job *r, Buf *out)
{
    if (!r->guard && !r->differs) return;
    label(out, "memory");
    if (r->guard) buf_printf(out, "WRONG: the kernel wrote outside an array, %s\n", r->guard);
    if (r->differs)
        buf_printf(out, "WRONG: the result depends on the schedule: %s differs\n", r->differs);
}

// Only the emulator sees them, in the first schedule that has any.
static void report_hazards(const Job *r, Buf *out)
{
    label(out, "hazards");
    if (!on_emulator(r))
        buf_puts(out, "not seen on a GPU; the same program with --device=emu shows them\n");
    else if (r->options->no_hazards)
        buf_puts(out, "not looked for (--no-hazards)\n");
    else if (!r->schedules_with_hazards)
        buf_printf(out, "none: every access is ordered by the rules of the machine\n");
    else
        buf_printf(out, "%lld, in %d of %d schedule%s:\n%s", (long long)r->hazards,
                   r->schedules_with_hazards, r->schedules_run, r->schedules_run == 1 ? "" : "s",
                   r->hazard_text.s ? r->hazard_text.s : "");
}

// Each array once, and twice when it is both read and written: what a kernel cannot do without.
static double bytes_moved(const Job *r)
{
    double n = 0;
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (a->param->kind == PLAN_TENSOR)
            n += (double)a->bytes * ((a->param->in ? 1 : 0) + (a->param->out ? 1 : 0));
    }
    return n;
}

// The emulator's time says nothing about a GPU, so no speed is made of it. TFLOPS where the
// reference has a usual count of operations, else bytes.
static void report_time(const Job *r, Buf *out)
{
    if (on_emulator(r)) {
        label(out, "time");
        buf_printf(out, "%.2f s to emulate %s operations of warps\n", r->emulator_ms / 1e3,
                   cli_count(r->arena, r->warp_ops * r->schedules_run));
        return;
    }
    if (!r->timed) return;
    const RtTiming *t = &r->timing;
    label(out, "time");
    buf_printf(out, "%.4f ms, the median of %d launches (%.4f to %.4f)\n", t->median_ms, t->runs,
               t->min_ms, t->max_ms);
    double flops = r->reference ? r->reference->flops(&r->job) : 0;
    label(out, "speed");
    if (flops > 0)
        buf_printf(out, "%.1f TFLOPS\n", flops / (t->median_ms * 1e9));
    else
        buf_printf(out, "%.0f GB/s, every array read or written once\n",
                   bytes_moved(r) / (t->median_ms * 1e6));
}

// A slot whose reads nothing binds fails however the values came out.
static void report_handoff(const Job *r, Buf *out)
{
    if (!r->c->tile || !r->c->tile->unsound) return; // a .thr file has none
    label(out, "handoff");
    buf_printf(out, "UNSOUND: %d trigger%s hand%s back what may still be read (--unsafe)\n",
               r->c->tile->unsound, r->c->tile->unsound == 1 ? "" : "s",
               r->c->tile->unsound == 1 ? "s" : "");
}

// The order in which a reader asks: what ran, on what, with what, is it right, how fast.
void run_report(const Job *r, Buf *out)
{
    buf_printf(out, "%s, from %s\n", r->plan->name, r->path);
    report_device(r, out);
    report_sizes(r, out);
    report_inputs(r, out);
    report_launch(r, out);
    report_result(r, out);
    report_memory(r, out);
    report_hazards(r, out);
    report_handoff(r, out);
    report_time(r, out);
}
