// check.c - the result of a job against the reference that the contract names, with its tolerance.
#include "job.h"
#include "parallel.h"

#include <string.h>

const JobArray *job_array(const Job *r, const char *name)
{
    for (int i = 0; i < r->narrays; i++)
        if (strcmp(r->plan->params.at[i].name, name) == 0) return &r->array[i];
    return NULL;
}

RefTensor job_tensor(const JobArray *a, const u8 *block)
{
    RefTensor t = {.type = a->param->type, .rank = a->value.rank, .count = a->count,
                   .data = block + JOB_GUARD};
    for (int d = 0; d < t.rank; d++) t.dim[d] = a->value.dim[d];
    return t;
}

// Binds the contract's reference to the arrays. True without one: then nothing is checked.
bool job_find_reference(Job *r)
{
    const Contract *k = r->contract;
    const char *all;
    if (!k || !k->reference || r->options->once) return true;
    const Reference *ref = ref_find(k->reference, &all);
    if (!ref) {
        diag_error(r->diag, k->check_loc, arena_printf(r->arena, "there are: %s", all),
                   "there is no reference `%s`", k->reference);
        return false;
    }
    if (k->out.n != 1 || k->in.n > REF_MAX_INPUTS) {
        diag_error(r->diag, k->op_loc, "for example: //! op: add(a, b) -> c",
                   "the reference %s needs `op:` with %d inputs and one output", ref->name,
                   ref->nin);
        return false;
    }
    r->checked = job_array(r, k->out.at[0].name);
    if (!r->checked || r->checked->param->kind != PLAN_TENSOR || !r->checked->param->out) {
        diag_error(r->diag, k->out.at[0].loc, NULL, "the function does not write an array %s",
                   k->out.at[0].name);
        return false;
    }
    r->reference = ref;
    r->tolerance = (RefTolerance){k->abs, k->rel, k->has_expect, k->expect};
    return true;
}

// Compares the result. False: the reference does not fit the arrays, the reason is in the Diag.
bool job_check(Job *r)
{
    const Contract *k = r->contract;
    if (!r->reference) return true;
    r->job.nin = k->in.n;
    for (int i = 0; i < k->in.n; i++) {
        const JobArray *a = job_array(r, k->in.at[i].name);
        r->job.in[i] = a && a->block ? job_tensor(a, a->block) : (RefTensor){0};
    }
    r->job.out = job_tensor(r->checked, r->checked->result);
    RefArgument *arg = ARENA_ARRAY(r->arena, RefArgument, k->arguments.n + 1);
    for (int i = 0; i < k->arguments.n; i++)
        arg[i] = (RefArgument){k->arguments.at[i].key, k->arguments.at[i].value};
    const char *why = ref_begin(r->arena, r->reference, arg, k->arguments.n, &r->job);
    if (why) {
        diag_error(r->diag, k->check_loc, NULL, "%s", why);
        return false;
    }
    double budget = r->options->check_work;
    if (budget <= 0) budget = 3e9 * parallel_workers(); // three seconds on this machine's processors
    r->found = ref_compare(r->arena, &r->job, &r->tolerance, budget, r->options->seed);
    return true;
}
