// stress_case.c - a kernel of the thread IR with all that a launch needs, from the comments of its
// file: the lines that the tests of the emulator have.
//
//   # grid: 2 1 1
//   # arg a: f32[64,32] iota        or: iota 0.5 | mod 7 | const 3 | eye | zero | nan
//   # tmap tmap_a: a box[64,32] swz128
//   # scalar n: 5
//   # expect out == a               also: out[3] = 4.0, out = 1.0 + 2.0*i; and `# wrong: `
//
// On a GPU `# stress grid:`, `# stress arg a:` and `# stress scalar n:` come before those without
// that word: what is enough for the emulator is little there.
//
// A launch plan in the head (`//@`), as baton build --emit=thread writes it, takes the place of all
// lines but the last.
//
// In: a path. Out: a checked module, and a launch plan with numbers in it. What the comments lack
// is an error at the parameter.
#include "../emit/ptx.h"
#include "stress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MAX_CASE = (size_t)16 << 20; // bytes of a file

typedef struct {
    StressCase *out;
    const ThreadFn *fn;
    JobOptions *options;
    Arena *arena;
    ExprPool *exprs;
    Diag *diag;
    u16 file;
} Reader;

// The rest of the comment line that begins with `# key name:`; NULL when there is none. `key` alone
// when `name` is NULL. `*line` is its number.
static const char *comment(Reader *r, const char *text, const char *key, const char *name,
                           u32 *line)
{
    const char *start = name ? arena_printf(r->arena, "# %s %s:", key, name)
                             : arena_printf(r->arena, "# %s:", key);
    size_t n = strlen(start);
    *line = 1;
    for (const char *s = text; *s; ++*line) {
        const char *end = strchr(s, '\n');
        if (strncmp(s, start, n) == 0)
            return arena_strndup(r->arena, s + n, (end ? (size_t)(end - s) : strlen(s)) - n);
        if (!end) break;
        s = end + 1;
    }
    return NULL;
}

// The line for a GPU, where there is one and the run is on one that was asked for.
static const char *sized(Reader *r, const char *text, const char *key, const char *name, u32 *line)
{
    const char *s = NULL, *gpu = arena_printf(r->arena, "stress %s", key);
    if (strncmp(r->options->device, "cuda", 4) == 0) s = comment(r, text, gpu, name, line);
    return s ? s : comment(r, text, key, name, line);
}

static bool bad(Reader *r, u32 line, const char *what)
{
    Loc loc = {.file = r->file, .line = line};
    diag_error(r->diag, loc,
               "for example: # arg a: f32[64,32] iota, # tmap tmap_a: a box[64,32] swz128, "
               "# scalar n: 5, # grid: 2 1 1",
               "%s", what);
    return false;
}

// "64,32]" to numbers; NULL when it is something else.
static const char *extents(const char *s, i64 *dim, int *rank)
{
    for (*rank = 0; *s && *s != ']' && *rank < PLAN_MAX_RANK; s += *s == ',') {
        char *end;
        dim[*rank] = strtoll(s, &end, 10);
        if (end == s || dim[*rank] < 1 || dim[*rank] > INT32_MAX) return NULL;
        ++*rank;
        s = end;
    }
    return *s == ']' ? s + 1 : NULL;
}

// ---- the plan -----------------------------------------------------------------------------------
static int tensor(Reader *r, const char *text, const char *name)
{
    const Plan *p = r->out->plan;
    for (int i = 0; i < p->params.n; i++)
        if (strcmp(p->params.at[i].name, name) == 0) return i;
    u32 line;
    const char *s = sized(r, text, "arg", name, &line);
    char type[32];
    int used = 0, kind, rank;
    i64 dim[PLAN_MAX_RANK];
    if (!s) return -1;
    if (sscanf(s, " %31[a-z0-9_] [%n", type, &used) < 1 || !used ||
        (kind = dtype_by_name(type)) < 0 || !(s = extents(s + used, dim, &rank)))
        return bad(r, line, "the array is not understood"), -1;
    // Every access is allowed; what is written is found out below.
    PlanParam q = {.name = intern(expr_pool_names(r->exprs), name), .kind = PLAN_TENSOR,
                   .type = (DType)kind, .in = true, .rank = rank, .align = 16,
                   .loc = {.file = r->file, .line = line}};
    for (int d = 0; d < rank; d++) q.dim[d] = expr_const(r->exprs, dim[d]);
    vec_push(r->arena, &r->out->plan->params, q);
    return r->out->plan->params.n - 1;
}

static bool add_map(Reader *r, const char *text, const char *name, PlanStep *step)
{
    u32 line;
    const char *s = comment(r, text, "tmap", name, &line);
    char of[64], layout[32] = "row";
    int used = 0, rank, k;
    i64 box[PLAN_MAX_RANK];
    if (!s) return bad(r, 0, arena_printf(r->arena, "no `# tmap %s:` line", name));
    if (sscanf(s, " %63[A-Za-z0-9_] box[%n", of, &used) < 1 || !used ||
        !(s = extents(s + used, box, &rank)) || rank > TMA_MAX_RANK)
        return bad(r, line, "the tensor map is not understood");
    sscanf(s, "%31s", layout);
    if ((k = tensor(r, text, of)) < 0) return bad(r, line, "its array has no line");
    const PlanParam *q = &r->out->plan->params.at[k];
    if (q->rank > TMA_MAX_RANK) return bad(r, line, "its array has too many dimensions");
    PlanTensorMap m = {.param = k, .rank = q->rank};
    for (int i = 0; i < SL_COUNT; i++)
        if (strcmp(layout, smem_layout[i].name) == 0) m.swizzle = (SmemLayout)i;
    i64 stride = dtype_bytes[q->type];
    for (int d = 0; d < q->rank; d++) {
        m.dim[d] = q->dim[q->rank - 1 - d];
        m.stride[d] = expr_const(r->exprs, stride);
        m.box[d] = d < rank ? (u32)box[rank - 1 - d] : 1;
        stride *= m.dim[d]->value;
    }
    vec_push(r->arena, &step->args, ((PlanArg){.kind = ARG_TMAP, .index = step->tmaps.n}));
    vec_push(r->arena, &step->tmaps, m);
    return true;
}

static bool add_scalar(Reader *r, const char *text, const ThreadParam *p, PlanStep *step)
{
    u32 line;
    const char *s = sized(r, text, "scalar", p->name, &line);
    double value;
    if (!s || sscanf(s, "%lf", &value) != 1)
        return bad(r, 0, arena_printf(r->arena, "no `# scalar %s:` line", p->name));
    if (p->kind != PARAM_F32) {
        vec_push(r->arena, &step->args,
                 ((PlanArg){.kind = ARG_VALUE, .value = expr_const(r->exprs, (i64)value)}));
        return true;
    }
    PlanParam q = {.name = p->name, .kind = PLAN_SCALAR, .type = DT_F32, .in = true, .align = 4};
    vec_push(r->arena, &step->args,
             ((PlanArg){.kind = ARG_FLOAT, .index = r->out->plan->params.n}));
    vec_push(r->arena, &r->out->plan->params, q);
    vec_push(r->arena, &r->options->args,
             ((JobSetting){p->name, arena_printf(r->arena, "%.17g", value)}));
    return true;
}

static void mark_written(Reader *r, const PlanStep *step, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const ThreadOp *op = b->at[i];
        int k = -1;
        if (op->op == OP_TMA_STORE) k = op->opnd[0].reg;
        else if (thread_op[op->op].effect == EFF_STORE && op->nmem &&
                 r->fn->buffers.at[op->mem[0].buffer].kind == BUF_GLOBAL)
            k = r->fn->buffers.at[op->mem[0].buffer].param;
        if (k >= 0) {
            const PlanArg *g = &step->args.at[k];
            int param = g->kind == ARG_TMAP ? step->tmaps.at[g->index].param : g->index;
            if (g->kind != ARG_VALUE) r->out->plan->params.at[param].out = true;
        }
        mark_written(r, step, &op->body);
        mark_written(r, step, &op->other);
    }
}

// Arrays that the kernel does not have are there to be compared with.
static void add_other_arrays(Reader *r, const char *text)
{
    for (const char *s = text; s; s = strchr(s, '\n')) {
        char name[64];
        s += *s == '\n';
        if (sscanf(s, "# arg %63[A-Za-z0-9_]:", name) == 1 && strncmp(s, "# arg ", 6) == 0)
            tensor(r, text, name);
    }
}

static bool make_plan(Reader *r, const char *text)
{
    Plan *p = r->out->plan = ARENA_NEW(r->arena, Plan);
    PlanStep *step = ARENA_NEW(r->arena, PlanStep);
    p->name = r->fn->name;
    *step = (PlanStep){.kind = STEP_KERNEL, .kernel = r->fn->name, .block = r->fn->threads,
                       .cluster = MAX(r->fn->cluster, 1), .smem_bytes = r->fn->smem_bytes};
    long long grid[3] = {1, 1, 1};
    u32 line;
    const char *s = sized(r, text, "grid", NULL, &line);
    if (s && sscanf(s, "%lld %lld %lld", &grid[0], &grid[1], &grid[2]) < 1)
        return bad(r, line, "the grid is not understood");
    for (int i = 0; i < 3; i++) step->grid[i] = expr_const(r->exprs, grid[i]);
    for (int i = 0; i < r->fn->params.n; i++) {
        const ThreadParam *q = &r->fn->params.at[i];
        if (q->kind == PARAM_PTR) {
            int k = tensor(r, text, q->name);
            if (k < 0) return bad(r, 0, arena_printf(r->arena, "no `# arg %s:` line", q->name));
            vec_push(r->arena, &step->args, ((PlanArg){.kind = ARG_TENSOR, .index = k}));
        } else if (!(q->kind == PARAM_TMAP ? add_map(r, text, q->name, step)
                                           : add_scalar(r, text, q, step))) {
            return false;
        }
    }
    vec_push(r->arena, &p->steps, step);
    mark_written(r, step, &r->fn->body);
    add_other_arrays(r, text);
    r->out->fill = ARENA_ARRAY(r->arena, const char *, p->params.n + 1);
    for (int i = 0; i < p->params.n; i++) {
        s = p->params.at[i].kind == PLAN_TENSOR
                ? sized(r, text, "arg", p->params.at[i].name, &line) : NULL;
        if (s) r->out->fill[i] = strchr(s, ']') + 1;
    }
    return true;
}

static void find_expectations(Reader *r, const char *text)
{
    for (const char *s = text; s; s = strchr(s, '\n')) {
        s += *s == '\n';
        size_t n = strncmp(s, "# expect ", 9) == 0 ? 9 : strncmp(s, "# wrong: ", 9) == 0 ? 9 : 0;
        if (!n) continue;
        vec_push(r->arena, &r->out->expect,
                 (const char *)arena_strndup(r->arena, s + n, strcspn(s + n, "\n")));
    }
}

bool stress_read_case(const char *path, JobOptions *o, Arena *a, ExprPool *e, Diag *d,
                      StressCase *out)
{
    Buf b = {0};
    const char *why = file_read(path, &b, MAX_CASE);
    if (why) {
        diag_error(d, (Loc){0}, NULL, "cannot read %s: %s", path, why);
        buf_free(&b);
        return false;
    }
    const char *text = arena_strndup(a, b.s ? b.s : "", b.n);
    size_t n = b.n;
    u16 file = diag_add_file(d, path, text, n);
    out->thread = thread_read(a, e, d, file, text, n);
    buf_free(&b);
    if (!out->thread || diag_errors(d) || !thread_check(out->thread, d)) return false;
    Reader r = {.out = out, .options = o, .arena = a, .exprs = e, .diag = d, .file = file};
    if (out->thread->fns.n != 1 && !strstr(text, "//@ plan "))
        return bad(&r, 0, "a file with one kernel is needed, and the lines for its launch");
    r.fn = out->thread->fns.at[0];
    if (strstr(text, "//@ plan ")) { // as baton build --emit=thread writes it
        out->plan = plan_read(a, e, d, file, "//@ ", text, n);
        if (!out->plan) return false;
        out->fill = ARENA_ARRAY(a, const char *, out->plan->params.n + 1);
    } else if (!make_plan(&r, text)) {
        return false;
    }
    find_expectations(&r, text);
    return plan_check(out->plan, out->thread, d);
}

bool stress_read_program(const CliSource *source, Job *r, StressCase *out)
{
    const char *path = source->path;
    size_t n = strlen(path);
    if (n < 4 || strcmp(path + n - 4, ".thr") != 0) {
        if (!cli_read_source(source, r->c)) return false;
        r->c->options.assembled = true; // a GPU gets audited code where that matters (cli_code)
        if (!pass_compile(r->c)) return false;
        r->plan = r->c->plan;
        r->contract = r->c->contract;
    } else {
        ExprPool *exprs = expr_pool_new(r->arena, intern_new(r->arena));
        if (!stress_read_case(path, (JobOptions *)r->options, r->arena, exprs, r->diag, out))
            return false;
        ptx_print(out->thread, out->plan, r->diag, &r->c->ptx);
        if (diag_errors(r->diag)) return false;
        r->c->path = path;
        r->c->thread = out->thread;
        r->plan = out->plan;
        r->from_case = out;
    }
    r->narrays = plan_arguments(r->plan);
    return true;
}

// ---- contents -----------------------------------------------------------------------------------
void stress_fill_case(const StressCase *c, Job *r)
{
    for (int i = 0; i < r->narrays; i++) {
        JobArray *a = &r->array[i];
        if (!a->block || !c->fill[i] || (a->has_spec && strcmp(a->from, "--arg") == 0)) continue;
        const PlanParam *p = a->param;
        i64 row = p->rank ? p->dim[p->rank - 1]->value : 1;
        double x = 1, v;
        char word[32] = "zero";
        if (sscanf(c->fill[i], "%31s %lf", word, &x) < 2) x = 1;
        for (i64 k = 0; k < a->count; k++) {
            if (strcmp(word, "iota") == 0) v = (double)k * x;
            else if (strcmp(word, "mod") == 0) v = (double)(k % (i64)MAX(x, 1));
            else if (strcmp(word, "const") == 0) v = x;
            else if (strcmp(word, "eye") == 0) v = k / row == k % row;
            else v = strcmp(word, "nan") == 0 ? (double)NAN : 0;
            data_put(p->type, a->block + JOB_GUARD, k, v);
        }
    }
}

static const JobArray *array(const Job *r, const char *name)
{
    for (int i = 0; i < r->narrays; i++)
        if (strcmp(r->array[i].param->name, name) == 0 && r->array[i].block) return &r->array[i];
    return NULL;
}

// As it is after the launch.
static double element(const JobArray *a, i64 i)
{
    return data_get(a->param->type, (a->result ? a->result : a->block) + JOB_GUARD, i);
}

static const char *differs(Job *r, const JobArray *a, i64 i, double want)
{
    double v = element(a, i);
    if (v == want || (isnan(v) && isnan(want))) return NULL;
    return arena_printf(r->arena, "%s[%lld] is %g, %g is expected", a->param->name, (long long)i, v,
                        want);
}

static const char *check_one(Job *r, const char *s)
{
    char name[64], other[64];
    long long index;
    double a, b = 0;
    const JobArray *t, *u;
    const char *why = NULL;
    if (sscanf(s, "%63[a-zA-Z0-9_][%lld] = %lf", name, &index, &a) == 3) {
        if (!(t = array(r, name)) || index < 0 || index >= t->count) return "it names no element";
        return differs(r, t, index, a);
    }
    if (sscanf(s, "%63[a-zA-Z0-9_] == %63s", name, other) == 2) {
        if (!(t = array(r, name)) || !(u = array(r, other)) || t->count > u->count)
            return "it compares no arrays";
        for (i64 i = 0; i < t->count && !why; i++) why = differs(r, t, i, element(u, i));
        return why;
    }
    if (sscanf(s, "%63[a-zA-Z0-9_] = %lf + %lf*i", name, &a, &b) < 2) return "it is not understood";
    if (!(t = array(r, name))) return "it names no array";
    for (i64 i = 0; i < t->count && !why; i++) why = differs(r, t, i, a + b * (double)i);
    return why;
}

const char *stress_check_case(const StressCase *c, Job *r)
{
    for (int i = 0; i < c->expect.n; i++) {
        const char *why = check_one(r, c->expect.at[i]);
        if (why) return arena_printf(r->arena, "expect %s: %s", c->expect.at[i], why);
    }
    return NULL;
}
