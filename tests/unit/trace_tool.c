// trace_tool.c - kernels with clock reads, for tests:
//
//   trace_tool ptx FILE OUT [-D ...]   compiles FILE.co, puts clock reads into each of its kernels
//                                      and writes the PTX
//   trace_tool thread FILE [-D ...]    the same, and prints thread IR and plan
//   trace_tool same FILE [--cta=X,Y,Z] [--sms=N] [--out=OUT] [NAME=VALUE ...] [-D ...]
//                                      runs FILE on the emulator with clock reads and without: the
//                                      outputs must have the same bits, and each warp's records
//                                      must be those that the emulator makes by itself (but for
//                                      times, and for what only the emulator sees). Then the
//                                      timeline is written to OUT.json, OUT.svg and OUT.txt
//
// Exit status: 0 as it must be, 1 it is not, 2 bad usage.
#include "../../src/cli/machine.h"
#include "../../src/cli/stress.h"
#include "../../src/cli/trace.h"
#include "../../src/emit/ptx.h"
#include "../../src/trace/instrument.h"
#include "../../src/trace/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    RunOptions o;
    TraceWanted want;
    const char *out;
    Compilation c;
    Job r;
    StressCase from_case;
} Tool;

// ---- programs -----------------------------------------------------------------------------------

// All kernels of the module, one after the other: each gets parameters of its own.
static bool instrument_all(Tool *t, const ThreadModule **m, const Plan **p)
{
    for (int i = 0; i < t->c.thread->fns.n; i++) {
        TraceProgram made;
        trace_instrument(*m, *p, (*m)->fns.at[i], &made);
        *m = made.thread;
        *p = made.plan;
    }
    return thread_check(*m, t->r.diag) && plan_check(*p, *m, t->r.diag);
}

static int print_program(Tool *t, bool thread)
{
    const ThreadModule *m = t->c.thread;
    const Plan *p = t->r.plan;
    Buf text = {0};
    bool fine = instrument_all(t, &m, &p);
    if (thread) {
        plan_print(p, "//@ ", &text);
        thread_print(m, &text);
        fputs(text.s, stdout);
    } else if (fine) {
        fine = ptx_print(m, p, t->r.diag, &text) && !file_write(t->out, text.s, text.n);
    }
    buf_free(&text);
    return fine ? 0 : 1;
}

// ---- the same run twice -------------------------------------------------------------------------

static u8 **copy_outputs(Job *r)
{
    u8 **copy = ARENA_ARRAY(r->arena, u8 *, r->narrays + 1);
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (!a->result) continue;
        copy[i] = arena_alloc(r->arena, a->bytes + 2 * (size_t)JOB_GUARD);
        memcpy(copy[i], a->result, a->bytes + 2 * (size_t)JOB_GUARD);
    }
    return copy;
}

static bool compare_outputs(Job *r, u8 **before)
{
    bool same = true;
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        if (!a->result || !memcmp(before[i], a->result, a->bytes + 2 * (size_t)JOB_GUARD)) continue;
        printf("%s has other bits with clock reads\n", a->param->name);
        same = false;
    }
    return same;
}

// What a program with clock reads cannot tell: the kinds that trace.h calls optional, and loads of
// other CTAs that land here too.
static bool is_shared(const TraceRecord *r)
{
    static const bool alone[TRACE_KIND_COUNT] = {
        [TRACE_COMPLETE] = true, [TRACE_LANDED] = true, [TRACE_STORED] = true,
        [TRACE_STARTED] = true,  [TRACE_DONE] = true,   [TRACE_READ] = true,
        [TRACE_WRITE] = true,
    };
    bool multicast = r->kind == TRACE_LOAD && r->op->flags & OPF_MULTICAST;
    return !alone[r->kind] && !multicast;
}

// Records of one warp in their order, without times and ids, as text.
static TraceLog of_warp(Tool *t, const TraceLog *log, int warp)
{
    TraceLog out = {.arena = t->r.arena, .fn = log->fn};
    for (int i = 0; i < log->records.n; i++) {
        TraceRecord r = log->records.at[i];
        if (r.warp != warp || !is_shared(&r)) continue;
        r.time = r.round; // is printed in its place
        r.id = 0;
        vec_push(out.arena, &out.records, r);
    }
    return out;
}

static bool compare_records(Tool *t, const TraceLog *emulator, const TraceLog *clocks)
{
    Arena *a = t->r.arena;
    bool same = true;
    for (int w = 0; w < emulator->fn->threads / 32; w++) {
        TraceLog x = of_warp(t, emulator, w), y = of_warp(t, clocks, w);
        for (int i = 0; i < MAX(x.records.n, y.records.n); i++) {
            Buf b[2] = {0};
            TraceLog one[2] = {{.fn = emulator->fn}, {.fn = emulator->fn}};
            for (int k = 0; k < 2; k++) {
                const TraceLog *from = k ? &y : &x;
                if (i < from->records.n) vec_push(a, &one[k].records, from->records.at[i]);
                buf_puts(&b[k], i < from->records.n ? "" : "nothing\n");
                trace_records(a, &one[k], &b[k]);
            }
            bool equal = strcmp(b[0].s, b[1].s) == 0;
            if (!equal)
                printf("record %d of warp %d\nemulator    %sclock reads %s", i, w, b[0].s, b[1].s);
            buf_free(&b[0]);
            buf_free(&b[1]);
            same &= equal;
            if (!equal) break;
        }
    }
    return same;
}

static bool without_hazards(Job *r)
{
    int n;
    EmuReport *const *report = rt_emulator_reports(r->device, &n);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        Buf b = {0};
        if (!report[i]->ok) emu_report_print(report[i], r->diag, &b);
        ok &= report[i]->ok;
        if (b.n) printf("%s", b.s);
        buf_free(&b);
    }
    return ok;
}

// OUT.json, OUT.svg and OUT.txt, as `baton trace` makes them of the records of a GPU.
static bool write_files(Tool *t, const TraceLog *log)
{
    static const char *const end[] = {".json", ".svg", ".txt"};
    Arena *a = t->r.arena;
    Trace *trace = trace_build(a, log);
    TraceTitle title = {t->r.path, "", t->r.diag};
    Buf text[COUNT(end)] = {{0}};
    bool fine = true;
    trace_json(trace, &title, &text[0]);
    trace_svg(a, trace, &title, trace_window(trace, -1, -1, -1), &text[1]);
    trace_records(a, log, &text[2]);
    for (int i = 0; i < COUNT(end); i++) {
        fine &= !file_write(arena_printf(a, "%s%s", t->out, end[i]), text[i].s, text[i].n);
        buf_free(&text[i]);
    }
    Buf summary = {0};
    trace_summary(a, trace, &title, &summary);
    printf("%s", summary.s);
    buf_free(&summary);
    return fine;
}

static int run_twice(Tool *t)
{
    Job *r = &t->r;
    Buf cubin = {0}, unread = {0}, hazards = {0};
    TraceLog emulator = {.arena = r->arena}, clocks = {.arena = r->arena};
    bool same = false;
    t->want.hazards = &hazards;
    if (!job_bind_sizes(r) || !job_fill_arrays(r) || job_open_device(r) ||
        !cli_code(r->c, !job_on_emulator(r), &cubin, &r->code) ||
        job_prepare(r) || job_calm(r, NULL, NULL))
        return 2;
    u8 **plain = copy_outputs(r);
    if (trace_on_emulator(r, &t->want, &emulator)) return 2;
    RtEmulatorOptions o = {.schedule = SCHED_RANDOM, .seed = 3, .hazards = true,
                           .step_limit = (i64)1 << 27, .sms = (int)r->options->sms,
                           .printed = &unread};
    rt_emulator_set(r->device, &o);
    if (trace_on_gpu(r, &t->want, &clocks) == 0 && without_hazards(r) && job_copy_out(r) == 0) {
        same = compare_outputs(r, plain);
        same &= compare_records(t, &emulator, &clocks);
        printf("%d records, %lld lost\n", clocks.records.n, (long long)clocks.lost);
    }
    buf_free(&cubin);
    buf_free(&unread);
    buf_free(&hazards);
    if (same && t->out) same = write_files(t, &clocks);
    return same && !clocks.lost ? 0 : 1;
}

// ---- words --------------------------------------------------------------------------------------

static bool read_words(Tool *t, int argc, char **argv)
{
    Arena *a = t->r.arena;
    Diag *d = t->r.diag;
    bool ptx = argc > 1 && strcmp(argv[1], "ptx") == 0;
    if (argc < (ptx ? 4 : 3)) return false;
    t->o.source.path = argv[2];
    t->out = ptx ? argv[3] : NULL;
    for (int i = ptx ? 4 : 3; i < argc; i++) {
        long long x, y, z;
        JobSetting s;
        if (strcmp(argv[i], "-D") == 0 && i + 1 < argc) {
            cli_define(&t->o.source, argv[++i], a, d);
        } else if (sscanf(argv[i], "--cta=%lld,%lld,%lld", &x, &y, &z) == 3) {
            t->want.cta[0] = x, t->want.cta[1] = y, t->want.cta[2] = z;
        } else if (strncmp(argv[i], "--out=", 6) == 0) {
            t->out = argv[i] + 6;
        } else if (strncmp(argv[i], "--sms=", 6) == 0) {
            t->o.job.sms = atoi(argv[i] + 6);
        } else if (job_setting(argv[i], "a size", "S=512", &s, a, d)) {
            vec_push(a, &t->o.job.sizes, s);
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Tool t = {.o = {.job = {.device = "emu", .seeds = 1, .schedule = SCHED_ROUND_ROBIN}},
              .c = {.until = FORM_PTX, .arena = a, .diag = d}};
    int status = 2;
    t.r = (Job){.options = &t.o.job, .c = &t.c, .arena = a, .diag = d};
    if (!read_words(&t, argc, argv)) {
        fputs("usage: trace_tool ptx FILE OUT | thread FILE | same FILE [NAME=VALUE ...]\n",
              stderr);
        return 2;
    }
    t.r.path = t.o.source.path;
    if (stress_read_program(&t.o.source, &t.r, &t.from_case))
        status = strcmp(argv[1], "same") == 0 ? run_twice(&t)
                                              : print_program(&t, strcmp(argv[1], "thread") == 0);
    job_close(&t.r);
    job_free_arrays(&t.r);
    buf_free(&t.c.ptx);
    cli_flush(d);
    arena_free(a);
    return status;
}
