// check.c - runs the parts of the check and keeps what they say.
#include "check.h"

#include <string.h>

static CheckFinding finding(const CheckJob *job, const char *rule, Loc loc, const char *text)
{
    return (CheckFinding){.rule = rule, .kernel = job->fn->name,
                          .text = arena_strndup(job->report->arena, text, strlen(text)), .loc = loc};
}

CheckFinding *check_broken(const CheckJob *job, const char *rule, Loc loc, const char *text)
{
    CheckReport *r = job->report;
    vec_push(r->arena, &r->broken, finding(job, rule, loc, text));
    return &r->broken.at[r->broken.n - 1];
}

CheckFinding *check_open(const CheckJob *job, const char *rule, Loc loc, const char *text)
{
    CheckReport *r = job->report;
    vec_push(r->arena, &r->open, finding(job, rule, loc, text));
    return &r->open.at[r->open.n - 1];
}

void check_proved(const CheckJob *job, const char *part, const char *text)
{
    CheckReport *r = job->report;
    vec_push(r->arena, &r->proved,
             ((CheckProof){job->fn->name, part, arena_strndup(r->arena, text, strlen(text))}));
}

void check_assumed(const CheckJob *job, const char *text)
{
    CheckReport *r = job->report;
    for (int i = 0; i < r->assumed.n; i++)
        if (strcmp(r->assumed.at[i], text) == 0) return;
    vec_push(r->arena, &r->assumed, arena_strndup(r->arena, text, strlen(text)));
}

void check_module(const ThreadModule *m, const Plan *plan, const Diag *d, const CheckPart *parts,
                  int nparts, CheckEffort effort, CheckReport *report)
{
    for (int i = 0; i < m->fns.n; i++) {
        CheckJob job = {m, m->fns.at[i], plan, plan_step_of(plan, m->fns.at[i]->name), d,
                        effort == CHECK_THOROUGH, report};
        for (int k = 0; k < nparts; k++)
            if (parts[k].quick || effort != CHECK_QUICK) parts[k].run(&job);
    }
}

void check_errors(const CheckReport *r, Diag *d)
{
    for (int i = 0; i < r->broken.n; i++) {
        const CheckFinding *f = &r->broken.at[i];
        diag_error(d, f->loc, f->hint, "%s: %s: %s", f->kernel, f->rule, f->text);
        if (f->other.line) diag(d, SEV_NOTE, f->other, NULL, "%s: the other side is here", f->rule);
    }
}
