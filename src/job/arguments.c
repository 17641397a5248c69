// arguments.c - numbers for a launch plan: symbols from the command line, from the shapes of given
// files and from the contract; extents from symbols; contents from generators and files.
//
// In: the plan, the contract and the words of the command line. Out: r->symbol, and an array for
// every parameter that the caller passes. Wrong words end in messages that name what there is; the
// rules of the plan itself are checked when the launch is prepared.
#include "job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Of one array. Far beyond any machine's memory; it only keeps the sums of sizes from overflowing.
static const size_t MAX_ARRAY = (size_t)1 << 40; // bytes

// A symbol's value may come from several places; they must agree, and a message names both.
typedef struct {
    bool known;
    const char *from; // "the command line", "dimension 1 of q.npy"
} Source;

// ---- words ------------------------------------------------------------------------------------
bool job_setting(const char *word, const char *what, const char *example, JobSetting *out,
                 Arena *a, Diag *d)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || !equals[1]) {
        diag_error(d, (Loc){0}, arena_printf(a, "for example: %s", example),
                   "%s needs NAME=VALUE, found `%s`", what, word);
        return false;
    }
    *out = (JobSetting){arena_strndup(a, word, (size_t)(equals - word)), equals + 1};
    return true;
}

void job_integer(const char *name, const char *text, i64 lo, i64 hi, i64 *out, Diag *d)
{
    i64 v;
    if (!cli_integer(text, &v) || v < lo || v > hi)
        diag_error(d, (Loc){0}, NULL, "%s takes an integer from %lld to %lld, found `%s`", name,
                   (long long)lo, (long long)hi, text);
    else
        *out = v;
}

void job_choose_device(JobOptions *o, const char *word, Diag *d)
{
    i64 n = 0;
    o->device = word;
    if (strcmp(word, "auto") == 0 || strcmp(word, "emu") == 0 || strcmp(word, "cuda") == 0) return;
    if (strncmp(word, "cuda:", 5) == 0 && cli_integer(word + 5, &n) && n >= 0 && n < 1024) {
        o->gpu = (int)n;
        return;
    }
    diag_error(d, (Loc){0}, "cuda:0 is the first GPU",
               "--device takes auto, emu or cuda:N, found `%s`", word);
}

// -1 when there is none.
static int find_symbol(const Plan *p, const char *name)
{
    for (int i = 0; i < p->symbols.n; i++)
        if (strcmp(p->symbols.at[i].name, name) == 0) return i;
    return -1;
}

// Of the caller's parameters: a workspace cannot be given.
static int find_param(const Plan *p, const char *name)
{
    for (int i = 0; i < plan_arguments(p); i++)
        if (strcmp(p->params.at[i].name, name) == 0) return i;
    return -1;
}

// "H, S" or "q, k, v", and the one that `word` was perhaps meant to be.
static const char *known_names(Job *r, bool symbols, const char *word, const char **meant)
{
    const Plan *p = r->plan;
    int n = symbols ? p->symbols.n : r->narrays;
    const char **name = ARENA_ARRAY(r->arena, const char *, n + 1);
    Buf all = {0};
    for (int i = 0; i < n; i++) {
        name[i] = symbols ? p->symbols.at[i].name : p->params.at[i].name;
        buf_printf(&all, "%s%s", i ? ", " : "", name[i]);
    }
    const char *text = arena_strndup(r->arena, all.n ? all.s : "none", all.n ? all.n : 4);
    buf_free(&all);
    *meant = cli_closest(word, name, n);
    return text;
}

// `given` is the word of the command line, as the user wrote it.
static void unknown_name(Job *r, bool symbols, const char *given, const char *name)
{
    const char *meant, *all = known_names(r, symbols, name, &meant);
    // A float scalar is no size, though it looks like one to its user.
    int k = symbols ? find_param(r->plan, name) : -1;
    bool scalar = k >= 0 && r->plan->params.at[k].kind == PLAN_SCALAR;
    diag_error(r->diag, (Loc){0},
               scalar  ? arena_printf(r->arena, "a scalar is given as --arg %s", given)
               : meant ? arena_printf(r->arena, "did you mean %s?", meant)
                       : NULL,
               "%s: the function %s has no %s `%s`; it has: %s", given, r->plan->name,
               symbols ? "size" : "parameter", name, all);
}

// ---- symbols ------------------------------------------------------------------------------------
// A second source must give the same value: which of two to believe is the user's to say.
static void set_symbol(Job *r, Source *src, int k, i64 value, const char *from)
{
    if (src[k].known && r->symbol[k] != value) {
        diag_error(r->diag, (Loc){0}, NULL, "%s is %lld by %s, and %lld by %s",
                   r->plan->symbols.at[k].name, (long long)r->symbol[k], src[k].from,
                   (long long)value, from);
        return;
    }
    src[k] = (Source){true, from};
    r->symbol[k] = value;
}

// NAME=VALUE on the command line. Every wrong word is reported, not only the first.
static void sizes_from_words(Job *r, Source *src)
{
    const JobOptions *o = r->options;
    for (int i = 0; i < o->sizes.n; i++) {
        const JobSetting *s = &o->sizes.at[i];
        int k = find_symbol(r->plan, s->name);
        i64 v;
        if (k < 0)
            unknown_name(r, true, arena_printf(r->arena, "%s=%s", s->name, s->text), s->name);
        else if (!cli_integer(s->text, &v))
            diag_error(r->diag, (Loc){0}, NULL, "%s=%s: the size must be an integer", s->name,
                       s->text);
        else if (r->plan->symbols.at[k].source == SYM_EXTENT && v < 0)
            diag_error(r->diag, (Loc){0}, NULL, "%s=%s: an extent cannot be negative", s->name,
                       s->text);
        else
            set_symbol(r, src, k, v, "the command line");
    }
}

// The shape of a given file fixes the symbols that are bare extents of its parameter. Extents that
// are expressions are compared later, once all symbols are known (bind_tensor).
static void sizes_from_files(Job *r, Source *src)
{
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        const PlanParam *p = a->param;
        if (!a->has_spec || a->spec.kind != DATA_FILE || p->kind != PLAN_TENSOR) continue;
        const NpyArray *f = &a->spec.array;
        if (f->rank != p->rank) {
            diag_error(r->diag, p->loc, NULL, "%s has %d dimensions where the parameter %s has %d",
                       a->spec.path, f->rank, p->name, p->rank);
            continue;
        }
        for (int d = 0; d < p->rank; d++) {
            // Only a bare symbol gets its value here; `2*N` would have to be solved for N.
            if (p->dim[d]->op != EX_VAR) continue;
            int k = find_symbol(r->plan, p->dim[d]->name);
            if (k >= 0)
                set_symbol(r, src, k, f->dim[d],
                           arena_printf(r->arena, "dimension %d of %s", d, a->spec.path));
        }
    }
}

// Where a symbol without a value occurs: "dimension 1 of q, dimension 0 of k".
static const char *places_of(Job *r, const char *name)
{
    Buf b = {0};
    for (int i = 0; i < r->narrays; i++) {
        const PlanParam *p = &r->plan->params.at[i];
        for (int d = 0; d < p->rank && p->kind == PLAN_TENSOR; d++)
            if (expr_uses(p->dim[d], name))
                buf_printf(&b, "%sdimension %d of %s", b.n ? ", " : "", d, p->name);
        if (p->kind == PLAN_SCALAR && strcmp(p->name, name) == 0)
            buf_printf(&b, "%sthe parameter %s", b.n ? ", " : "", name);
    }
    const char *text = arena_strndup(r->arena, b.s ? b.s : "", b.n);
    buf_free(&b);
    return text;
}

// What nothing else gave comes from the contract's `sizes:`; what is then still missing is told in
// one message with an example that can be copied.
static void fill_missing(Job *r, Source *src)
{
    Buf example = {0}, missing = {0};
    for (int k = 0; k < r->plan->symbols.n; k++) {
        const PlanSymbol *s = &r->plan->symbols.at[k];
        if (src[k].known) continue;
        if (s->has_default) {
            set_symbol(r, src, k, s->default_value, "the contract");
            continue;
        }
        // Any size would do: the line is to show the form.
        buf_printf(&example, " %s=128", s->name);
        buf_printf(&missing, "%s%s (%s)", missing.n ? "; " : "", s->name, places_of(r, s->name));
    }
    if (missing.n)
        diag_error(r->diag, (Loc){0},
                   arena_printf(r->arena, "for example: baton run %s%s", r->path, example.s),
                   "these sizes have no value: %s", missing.s);
    buf_free(&example);
    buf_free(&missing);
}

typedef struct {
    const Plan *plan;
    const i64 *value;
} Symbols;

// Symbols only: extents of parameters do not depend on the device.
static bool lookup_symbol(void *ctx, const char *name, i64 *value)
{
    const Symbols *s = ctx;
    int k = find_symbol(s->plan, name);
    if (k >= 0) *value = s->value[k];
    return k >= 0;
}

// ---- extents and scalars ------------------------------------------------------------------------
// Extents, element count and bytes. An array with an extent of 0 has neither, and is legal.
static bool bind_tensor(Job *r, int i)
{
    JobArray *a = &r->array[i];
    const PlanParam *p = a->param;
    Symbols s = {r->plan, r->symbol};
    const char *why = plan_param_dims(r->arena, r->plan, i, lookup_symbol, &s, a->value.dim);
    if (why) {
        diag_error(r->diag, p->loc, NULL, "%s", why);
        return false;
    }
    a->value.rank = p->rank;
    a->count = 1;
    // Overflow is looked for in bytes, which are at least as many as elements.
    size_t bytes = dtype_bytes[p->type];
    bool empty = false, huge = false;
    for (int d = 0; d < p->rank; d++) {
        i64 n = a->value.dim[d];
        if (a->has_spec && a->spec.kind == DATA_FILE && a->spec.array.dim[d] != n) {
            diag_error(r->diag, p->loc, NULL, "%s has %lld in dimension %d where %s needs %lld",
                       a->spec.path, (long long)a->spec.array.dim[d], d, p->name, (long long)n);
            return false;
        }
        // The other extents are still looked at: a file must have them all.
        if (n == 0) empty = true;
        huge = huge || __builtin_mul_overflow(bytes, (size_t)n, &bytes) || bytes > MAX_ARRAY;
        if (!huge) a->count *= n;
    }
    if (empty) {
        a->count = 0;
        bytes = 0;
    } else if (huge) {
        diag_error(r->diag, p->loc, NULL, "%s would have more than 2^40 bytes", p->name);
        return false;
    }
    a->bytes = bytes;
    return true;
}

// A scalar that is a symbol has its value; any other needs a SPEC with a number.
static bool bind_scalar(Job *r, int i)
{
    JobArray *a = &r->array[i];
    const PlanParam *p = a->param;
    int k = find_symbol(r->plan, p->name);
    if (k >= 0) {
        a->value.int_value = r->symbol[k];
        a->value.float_value = (double)r->symbol[k];
        return true;
    }
    if (!a->has_spec || a->spec.kind == DATA_FILE) {
        diag_error(r->diag, p->loc, arena_printf(r->arena, "for example: --arg %s=1", p->name),
                   "the scalar parameter %s needs a number", p->name);
        return false;
    }
    a->value.float_value = data_scalar(&a->spec, r->options->seed, p->name, p->type);
    // The kernel's integer is what data_put makes of the number, with its clamping.
    u64 bits[2] = {0};
    data_put(DT_S64, bits, 0, a->value.float_value);
    a->value.int_value = (i64)bits[0];
    return true;
}

// ---- where contents come from -------------------------------------------------------------------
// `from` is what the report says; `label` what a message says ("--arg q").
static bool set_spec(Job *r, JobArray *a, const char *text, const char *from, const char *label)
{
    const char *why = data_parse(r->arena, text, &a->spec);
    if (!why) why = data_load(r->arena, &a->spec);
    if (why) {
        diag_error(r->diag, (Loc){0}, NULL, "%s: %s", label, why);
        return false;
    }
    a->has_spec = true;
    a->from = from;
    return true;
}

// Sources in order of precedence: --arg, the contract's `inputs:`, and for arrays a default that
// exercises arithmetic (uniform) or stays in range as an index (zeros).
static void take_specs(Job *r)
{
    const JobOptions *o = r->options;
    for (int i = 0; i < o->args.n; i++) {
        const JobSetting *s = &o->args.at[i];
        const char *label = arena_printf(r->arena, "--arg %s", s->name);
        int k = find_param(r->plan, s->name);
        if (k < 0)
            unknown_name(r, false, label, s->name);
        else if (r->plan->params.at[k].kind == PLAN_TENSOR && !r->plan->params.at[k].in)
            diag_error(r->diag, (Loc){0},
                       r->plan->params.at[k].out
                           ? "its contents come from the kernel; they start as NaN"
                           : NULL,
                       "%s: the function %s %s", label,
                       r->plan->params.at[k].out ? "only writes" : "does not use", s->name);
        else if (r->array[k].has_spec)
            diag_error(r->diag, (Loc){0}, "which of two to take is not for baton to guess",
                       "%s is given twice", label);
        else
            set_spec(r, &r->array[k], s->text, "--arg", label);
    }
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (a->has_spec || !a->param->in) continue;
        const char *text = r->contract ? contract_input(r->contract, a->param->name) : NULL;
        const char *label = arena_printf(r->arena, "input %s", a->param->name);
        if (text)
            set_spec(r, a, text, "contract", label);
        else if (a->param->kind == PLAN_TENSOR)
            set_spec(r, a, dtype_is_float(a->param->type) ? "uniform(-1,1)" : "zeros", "default",
                     label);
    }
}

// Generators that name a size, once its value is known.
static void sizes_of_specs(Job *r)
{
    for (int i = 0; i < r->narrays; i++) {
        DataSpec *s = &r->array[i].spec;
        if (!r->array[i].has_spec || !s->size) continue;
        int k = find_symbol(r->plan, s->size);
        if (k >= 0)
            s->a = (double)r->symbol[k];
        else
            unknown_name(r, true, s->text, s->size);
    }
}

// Contents first, since the shapes of files are a source of sizes; then sizes in order of
// precedence; last the extents and scalars that follow from them. Stops between the stages when one
// had errors.
bool job_bind_sizes(Job *r)
{
    const Plan *p = r->plan;
    r->array = ARENA_ARRAY(r->arena, JobArray, r->narrays + 1);
    r->symbol = ARENA_ARRAY(r->arena, i64, p->symbols.n + 1);
    Source *src = ARENA_ARRAY(r->arena, Source, p->symbols.n + 1);
    for (int i = 0; i < r->narrays; i++) {
        r->array[i].param = &p->params.at[i];
        r->array[i].value.type = p->params.at[i].type;
    }
    take_specs(r);
    sizes_from_words(r, src);
    sizes_from_files(r, src);
    // A scalar given by --arg is a symbol's value too.
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        int k = a->param->kind == PLAN_SCALAR ? find_symbol(p, a->param->name) : -1;
        if (k < 0 || !a->has_spec) continue;
        // Below 2^53 a double holds every integer.
        if (a->spec.kind == DATA_CONSTANT && fabs(a->spec.a) < 0x1p53 &&
            a->spec.a == floor(a->spec.a))
            set_symbol(r, src, k, (i64)a->spec.a, a->from);
        else
            diag_error(r->diag, a->param->loc,
                       arena_printf(r->arena, "for example: %s=128", a->param->name),
                       "the scalar parameter %s must be an integer", a->param->name);
    }
    if (diag_errors(r->diag)) return false;
    fill_missing(r, src);
    sizes_of_specs(r);
    if (diag_errors(r->diag)) return false;
    bool ok = true;
    for (int i = 0; i < r->narrays; i++)
        ok = (p->params.at[i].kind == PLAN_TENSOR ? bind_tensor(r, i) : bind_scalar(r, i)) && ok;
    return ok;
}

// ---- blocks -------------------------------------------------------------------------------------
// Host memory of one array between two guards that hold a known byte: what the kernel writes
// outside of the array is seen there. NULL without memory, which is reported.
static u8 *new_block(Job *r, const JobArray *a)
{
    size_t n = a->bytes + 2 * (size_t)JOB_GUARD;
    u8 *b = malloc(n);
    if (!b)
        diag_error(r->diag, a->param->loc, NULL, "no memory for %s of %s", a->param->name,
                   cli_bytes(r->arena, (double)n));
    else
        memset(b, JOB_GUARD_BYTE, n);
    return b;
}

// Bytes of memory that this process may use: what is free or can be made free, or less where a
// container is limited. A process that takes more is killed by the kernel without a word.
static double memory_limit(void)
{
    double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), limit;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf kB", &limit) == 1 && limit * 1024 < have)
            have = limit * 1024;
    if (f) fclose(f);
    f = fopen("/sys/fs/cgroup/memory.max", "r");
    if (f && fscanf(f, "%lf", &limit) == 1 && limit > 0 && limit < have) have = limit;
    if (f) fclose(f);
    return have;
}

// Refuses a job that this machine's memory cannot hold, before it starts to swap: blocks and
// results here, the reference's inputs as f32, and the device's copy when the device is the
// emulator (assumed).
static bool fits_memory(Job *r)
{
    double need = 0, have = memory_limit();
    for (int i = 0; i < r->narrays; i++) {
        const JobArray *a = &r->array[i];
        need += (double)a->bytes * (2 + a->param->out + (a->param->out && r->options->seeds > 1));
        if (r->reference && r->reference->needs_f32 && a->param->in)
            need += (double)a->count * sizeof(float);
    }
    if (need < 0.9 * have) return true;
    diag_error(r->diag, (Loc){0}, "smaller sizes",
               "this job needs %s of memory, the machine has %s free",
               cli_bytes(r->arena, need), cli_bytes(r->arena, have));
    return false;
}

// Inputs get their values, outputs NaN: an element that the kernel never writes cannot pass the
// check.
bool job_fill_arrays(Job *r)
{
    if (!fits_memory(r)) return false;
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        const PlanParam *p = a->param;
        if (p->kind != PLAN_TENSOR) continue;
        if (!(a->block = new_block(r, a))) return false;
        if (p->out && !(a->result = new_block(r, a))) return false;
        // Only with several schedules is there a first result to compare the others with.
        if (p->out && r->options->seeds > 1 && !(a->first = new_block(r, a))) return false;
        u8 *data = a->block + JOB_GUARD;
        if (!a->has_spec) { // all bits set: a NaN in every float format
            memset(data, dtype_is_float(p->type) ? 0xff : JOB_GUARD_BYTE, a->bytes);
            continue;
        }
        const char *why = data_fill(r->arena, &a->spec, r->options->seed, p->name, p->type,
                                    a->count, data);
        if (why) {
            diag_error(r->diag, (Loc){0}, NULL, "input %s: %s", p->name, why);
            return false;
        }
    }
    return true;
}

void job_free_arrays(Job *r)
{
    for (int i = 0; r->array && i < r->narrays; i++) {
        free(r->array[i].block);
        free(r->array[i].result);
        free(r->array[i].first);
    }
}

// After the run, whether or not it came out right: a wrong result is worth looking at.
bool job_write_outputs(Job *r)
{
    const JobOptions *o = r->options;
    for (int i = 0; i < o->outs.n; i++) {
        const JobSetting *s = &o->outs.at[i];
        const JobArray *a = &r->array[find_param(r->plan, s->name)];
        Buf b = {0};
        npy_write(a->param->type, a->value.rank, a->value.dim, a->result + JOB_GUARD, &b);
        const char *why = file_write(s->text, b.s, b.n);
        buf_free(&b);
        if (why) {
            diag_error(r->diag, (Loc){0}, NULL, "cannot write %s: %s", s->text, why);
            return false;
        }
    }
    return true;
}

// What will be written minutes later should not fail for a slip of the pen. Nothing is made yet:
// the job may still be refused.
static void check_writable(Job *r, const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    const char *folder = !slash ? "." : slash == path ? "/"
                         : arena_strndup(r->arena, path, (size_t)(slash - path));
    int e = 0;
    if (stat(path, &st) == 0)
        e = S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    else if (access(folder, W_OK | X_OK))
        e = errno;
    if (e) diag_error(r->diag, (Loc){0}, NULL, "cannot write %s: %s", path, strerror(e));
}

// Names after --out must be outputs. Checked before anything runs.
bool job_check_outputs(Job *r)
{
    const JobOptions *o = r->options;
    for (int i = 0; i < o->outs.n; i++) {
        const JobSetting *s = &o->outs.at[i];
        int k = find_param(r->plan, s->name);
        if (k < 0)
            unknown_name(r, false, arena_printf(r->arena, "--out %s", s->name), s->name);
        else if (!r->plan->params.at[k].out)
            diag_error(r->diag, (Loc){0}, NULL, "--out %s: the function does not write %s", s->name,
                       s->name);
        else
            check_writable(r, s->text);
    }
    return diag_errors(r->diag) == 0;
}
