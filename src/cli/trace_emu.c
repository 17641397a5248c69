// trace_emu.c - records of one CTA from the emulator.
#include "../emu/observe.h"
#include "trace.h"

#include <string.h>

// Operations of warps in a CTA before it counts as a loop without end.
#define TRACE_STEPS_MAX ((i64)1 << 27)

static int copy_in(Job *r)
{
    RtError e = {0};
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (a->device && r->device->ops->copy_in(r->device, a->device, a->block,
                                                 a->bytes + 2 * (size_t)JOB_GUARD, &e))
            return job_device_error(r, &e, arena_printf(r->arena, "copying %s", a->param->name));
    }
    return EXIT_RIGHT;
}

int trace_on_emulator(Job *r, const TraceWanted *q, TraceLog *log)
{
    RtError e = {0};
    Buf unread = {0};
    EmuObserver observer = {.log = log, .launch = q->number, .only = true};
    memcpy(observer.cta, q->cta, sizeof observer.cta);
    RtEmulatorOptions o = {.schedule = r->options->schedule,
                           .seed = r->options->seed,
                           .hazards = true,
                           .step_limit = TRACE_STEPS_MAX,
                           .sms = (int)r->options->sms,
                           .printed = &unread,
                           .observer = &observer};
    rt_emulator_set(r->device, &o);
    int status = copy_in(r);
    if (status == EXIT_RIGHT && rt_launch(r->launch, NULL, &e) != BATON_OK)
        status = job_device_error(r, &e, "launching");
    buf_free(&unread);
    int n = 0;
    EmuReport *const *reports = rt_emulator_reports(r->device, &n);
    for (int i = 0; i < n && status == EXIT_RIGHT; i++) {
        if (reports[i]->ok) continue;
        emu_report_print(reports[i], r->diag, q->hazards);
        status = EXIT_WRONG;
    }
    return status;
}
