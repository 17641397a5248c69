// emu_tool.c - runs kernels of the thread IR on the emulator and checks what their comments
// promise.
//
//   emu_tool FILE...          prints one line per failure and "N passed, N failed"
//   emu_tool -v FILE...       prints every report (round-robin schedule) as well
//   emu_tool -t FILE...       prints the seconds of each round-robin run
//   emu_tool -f N FILE...     runs N damaged copies of each kernel instead: no expectation, but the
//                             emulator must come back
//
// A file holds cases; "# case: NAME" starts one (a file without is one case). Comments of a case:
//   # grid: 2 1 1
//   # arg a: f32[64,32] iota        or: iota 0.5 | mod 7 | const 3 | eye | zero | nan
//   # tmap tmap_a: a box[64,32] swz128   extents in the order of the tensor's, swizzle or "row"
//   # scalar n: 5
//   # expect a[3] = 4.0             element by linear index
//   # expect out = 1.0 + 2.0*i      every element
//   # expect out == a               every element, as floats
//   # wrong: out == a               this fails on at least one schedule: the hazard changes values
//   # clean                         no hazard: round-robin, 20 seeds random, 20 seeds adversarial
//   # hazard: O6 unbound read       some report line contains this, on every schedule tried
//   # maybe: O10                    the same, on at least one schedule
//   # also: O2                      hazards with this text may occur as well; all others fail
//   # steps: 100000                 step limit
#include "../../src/emu/emu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ARGS = 16, MAX_LINES = 64, SEEDS = 20 };

typedef struct {
    char name[64];
    DType type;
    int rank;
    i64 dim[6], n;
    char init[64];
    u8 *data;
} Tensor;

typedef struct {
    char name[64], of[64];
    u32 box[6];
    int rank;
    SmemLayout swizzle;
} MapSpec;

typedef struct {
    char name[64];
    double value;
} Scalar;

typedef struct {
    const char *file;
    char name[256];
    Tensor tensor[MAX_ARGS];
    MapSpec map[MAX_ARGS];
    Scalar scalar[MAX_ARGS];
    int tensors, maps, scalars;
    char hazard[MAX_LINES][256], maybe[MAX_LINES][256], also[MAX_LINES][256],
        expect[MAX_LINES][256];
    char wrong[256];
    int hazards, maybes, alsos, expects;
    bool clean, quiet, went_wrong;
    i64 grid[3], steps;
} Case;

static int passed, failed, verbose, timing, damaged;

static void complain(const Case *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void complain(const Case *c, const char *fmt, ...)
{
    if (c->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    printf("FAIL %s: %s: ", c->file, c->name);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    failed++;
}

// ---- numbers ------------------------------------------------------------------------------------

static double element(const Tensor *t, i64 i)
{
    const u8 *p = t->data + i * dtype_bytes[t->type];
    u32 v = 0;
    memcpy(&v, p, MIN(4, dtype_bytes[t->type]));
    switch (t->type) {
    case DT_F32: case DT_TF32: return f32_of_bits(v);
    case DT_F16: return f16_to_f32((u16)v);
    case DT_BF16: return bf16_to_f32((u16)v);
    case DT_E4M3: return e4m3_to_f32((u8)v);
    case DT_E5M2: return e5m2_to_f32((u8)v);
    case DT_S32: return (i32)v;
    default: return v;
    }
}

static void set_element(Tensor *t, i64 i, double x)
{
    u8 *p = t->data + i * dtype_bytes[t->type];
    u32 v;
    switch (t->type) {
    case DT_F32: case DT_TF32: v = f32_bits((float)x); break;
    case DT_F16: v = f16_from_f32((float)x); break;
    case DT_BF16: v = bf16_from_f32((float)x); break;
    case DT_E4M3: v = e4m3_from_f32((float)x); break;
    case DT_E5M2: v = e5m2_from_f32((float)x); break;
    default: v = (u32)(i64)x; break;
    }
    memcpy(p, &v, MIN(4, dtype_bytes[t->type]));
}

static void fill(Tensor *t)
{
    double x = 1;
    char word[32] = "zero";
    int n = sscanf(t->init, "%31s %lf", word, &x);
    if (n < 2) x = 1;
    for (i64 i = 0; i < t->n; i++) {
        double v = 0;
        if (!strcmp(word, "iota")) v = (double)i * x;
        else if (!strcmp(word, "mod")) v = (double)(i % (i64)MAX(x, 1));
        else if (!strcmp(word, "const")) v = x;
        else if (!strcmp(word, "eye")) v = i / t->dim[t->rank - 1] == i % t->dim[t->rank - 1];
        else if (!strcmp(word, "nan")) v = (double)NAN;
        set_element(t, i, v);
    }
}

// ---- reading the comments -----------------------------------------------------------------------

static Tensor *tensor_by_name(Case *c, const char *name)
{
    for (int i = 0; i < c->tensors; i++)
        if (!strcmp(c->tensor[i].name, name)) return &c->tensor[i];
    return NULL;
}

static const char *read_extents(const char *s, i64 *dim, int *rank)
{
    for (*rank = 0; *s && *s != ']' && *rank < 6; s += *s == ',')
        dim[(*rank)++] = strtoll(s, (char **)&s, 10);
    return *s == ']' ? s + 1 : NULL;
}

static bool read_arg(Case *c, const char *s)
{
    Tensor *t = &c->tensor[c->tensors];
    char type[32];
    int used = 0;
    if (c->tensors == MAX_ARGS ||
        sscanf(s, " %63[^: ] : %31[a-z0-9_] [%n", t->name, type, &used) < 2 || !used)
        return false;
    int d = dtype_by_name(type);
    if (d < 0) return false;
    t->type = (DType)d;
    s = read_extents(s + used, t->dim, &t->rank);
    if (!s) return false;
    t->n = 1;
    for (int i = 0; i < t->rank; i++) t->n *= t->dim[i];
    snprintf(t->init, sizeof t->init, "%s", s);
    t->data = aligned_alloc(256, (size_t)(t->n * dtype_bytes[t->type] + 511) / 256 * 256);
    c->tensors++;
    return true;
}

static bool read_map(Case *c, const char *s)
{
    MapSpec *m = &c->map[c->maps];
    int used = 0;
    i64 box[6];
    char layout[32] = "row";
    if (c->maps == MAX_ARGS || sscanf(s, " %63[^: ] : %63s box[%n", m->name, m->of, &used) < 2 ||
        !used)
        return false;
    s = read_extents(s + used, box, &m->rank);
    if (!s) return false;
    for (int i = 0; i < m->rank; i++) m->box[i] = (u32)box[i];
    sscanf(s, "%31s", layout);
    for (int i = 0; i < SL_COUNT; i++)
        if (!strcmp(layout, smem_layout[i].name)) m->swizzle = (SmemLayout)i;
    c->maps++;
    return true;
}

static bool keep(char lines[][256], int *n, const char *s)
{
    while (*s == ' ') s++;
    if (*n == MAX_LINES) return false;
    snprintf(lines[(*n)++], 256, "%s", s);
    return true;
}

static bool read_comment(Case *c, const char *s)
{
    if (!strncmp(s, "arg ", 4)) return read_arg(c, s + 4);
    if (!strncmp(s, "tmap ", 5)) return read_map(c, s + 5);
    if (!strncmp(s, "expect ", 7)) return keep(c->expect, &c->expects, s + 7);
    if (!strncmp(s, "hazard:", 7)) return keep(c->hazard, &c->hazards, s + 7);
    if (!strncmp(s, "maybe:", 6)) return keep(c->maybe, &c->maybes, s + 6);
    if (!strncmp(s, "also:", 5)) return keep(c->also, &c->alsos, s + 5);
    if (!strncmp(s, "wrong: ", 7)) return snprintf(c->wrong, sizeof c->wrong, "%s", s + 7) > 0;
    if (!strcmp(s, "clean")) return c->clean = true;
    if (!strncmp(s, "steps:", 6)) return sscanf(s + 6, "%lld", (long long *)&c->steps) == 1;
    if (!strncmp(s, "grid:", 5)) {
        long long g[3] = {1, 1, 1};
        if (sscanf(s + 5, "%lld %lld %lld", &g[0], &g[1], &g[2]) < 1) return false;
        for (int i = 0; i < 3; i++) c->grid[i] = g[i];
        return true;
    }
    if (!strncmp(s, "scalar ", 7)) {
        Scalar *k = &c->scalar[c->scalars];
        if (c->scalars == MAX_ARGS || sscanf(s + 7, " %63[^: ] : %lf", k->name, &k->value) != 2)
            return false;
        c->scalars++;
    }
    return true;
}

// ---- running ------------------------------------------------------------------------------------

static bool bind(Case *c, const ThreadFn *fn, EmuArg *args)
{
    for (int i = 0; i < fn->params.n; i++) {
        const ThreadParam *p = &fn->params.at[i];
        EmuArg *a = &args[i];
        a->kind = p->kind;
        if (p->kind == PARAM_PTR) {
            Tensor *t = tensor_by_name(c, p->name);
            if (!t) return complain(c, "no arg for parameter %s", p->name), false;
            a->ptr = t->data;
            a->bytes = (size_t)t->n * dtype_bytes[t->type];
        } else if (p->kind == PARAM_TMAP) {
            const MapSpec *m = NULL;
            for (int k = 0; k < c->maps; k++)
                if (!strcmp(c->map[k].name, p->name)) m = &c->map[k];
            Tensor *t = m ? tensor_by_name(c, m->of) : NULL;
            if (!t || t->rank > TMA_MAX_RANK)
                return complain(c, "no tmap for parameter %s", p->name), false;
            a->tmap = (TensorMap){
                .base = t->data, .type = t->type, .rank = t->rank, .swizzle = m->swizzle};
            u64 stride = dtype_bytes[t->type];
            for (int k = 0; k < t->rank; k++) {
                a->tmap.dim[k] = (u64)t->dim[t->rank - 1 - k];
                a->tmap.box[k] = k < m->rank ? m->box[m->rank - 1 - k] : 1;
                a->tmap.stride[k] = stride;
                stride *= a->tmap.dim[k];
            }
            a->tmap_bytes = (size_t)t->n * dtype_bytes[t->type];
        } else {
            const Scalar *s = NULL;
            for (int k = 0; k < c->scalars; k++)
                if (!strcmp(c->scalar[k].name, p->name)) s = &c->scalar[k];
            if (!s) return complain(c, "no scalar for parameter %s", p->name), false;
            a->value = (i64)s->value;
            a->f32 = (float)s->value;
        }
    }
    return true;
}

static bool same(double a, double b) { return a == b || (a != a && b != b); }

static bool check_expect(Case *c, const char *s, const char *schedule)
{
    char name[64], other[64];
    long long index;
    double a, b = 0;
    if (sscanf(s, "%63[a-zA-Z0-9_][%lld] = %lf", name, &index, &a) == 3) {
        Tensor *t = tensor_by_name(c, name);
        if (!t || index < 0 || index >= t->n)
            return complain(c, "expect names no element: %s", s), false;
        double v = element(t, index);
        if (!same(v, a)) complain(c, "%s: %s[%lld] is %g, not %g", schedule, name, index, v, a);
        return same(v, a);
    }
    if (sscanf(s, "%63[a-zA-Z0-9_] == %63s", name, other) == 2) {
        Tensor *t = tensor_by_name(c, name), *u = tensor_by_name(c, other);
        if (!t || !u || t->n > u->n) return complain(c, "expect compares no tensors: %s", s), false;
        for (i64 i = 0; i < t->n; i++) {
            if (same(element(t, i), element(u, i))) continue;
            return complain(c, "%s: %s[%lld] is %g, but %s has %g", schedule, name, (long long)i,
                            element(t, i), other, element(u, i)), false;
        }
        return true;
    }
    if (sscanf(s, "%63[a-zA-Z0-9_] = %lf + %lf*i", name, &a, &b) >= 2) { // b stays 0 without it
        Tensor *t = tensor_by_name(c, name);
        if (!t) return complain(c, "expect names no tensor: %s", s), false;
        for (i64 i = 0; i < t->n; i++) {
            double want = a + b * (double)i;
            if (same(element(t, i), want)) continue;
            return complain(c, "%s: %s[%lld] is %g, not %g", schedule, name, (long long)i,
                            element(t, i), want),
                   false;
        }
        return true;
    }
    return complain(c, "expect is not understood: %s", s), false;
}

// Splits the report into hazards (a line and its continuation lines) and tests each.
static bool check_report(Case *c, const EmuReport *r, const Diag *d, const char *schedule,
                         bool *maybe)
{
    bool found[MAX_LINES] = {0}, good = true;
    for (int i = 0; i < r->hazards.n && good; i++) {
        EmuReport one = {.ctas = 0};
        one.hazards.at = &r->hazards.at[i];
        one.hazards.n = 1;
        Buf text = {0};
        emu_report_print(&one, d, &text);
        bool known = false;
        for (int k = 0; k < c->hazards; k++)
            if (strstr(text.s, c->hazard[k])) known = found[k] = true;
        for (int k = 0; k < c->maybes; k++)
            if (strstr(text.s, c->maybe[k])) known = maybe[k] = true;
        for (int k = 0; k < c->alsos; k++) known |= strstr(text.s, c->also[k]) != NULL;
        if (!known) {
            complain(c, "%s: unexpected: %s", schedule, text.s);
            good = false;
        }
        buf_free(&text);
    }
    for (int k = 0; k < c->hazards && good; k++)
        if (!found[k]) complain(c, "%s: not reported: %s", schedule, c->hazard[k]), good = false;
    return good;
}

static bool run_once(Case *c, const ThreadModule *m, const Diag *d, EmuSchedule s, u64 seed,
                     bool *maybe)
{
    static const char *const name[] = {"round-robin", "random", "adversarial"};
    char schedule[64];
    snprintf(schedule, sizeof schedule, "%s seed %llu", name[s], (unsigned long long)seed);
    EmuArg args[2 * MAX_ARGS + MAX_ARGS] = {0};
    const ThreadFn *fn = m->fns.at[0];
    for (int i = 0; i < c->tensors; i++) fill(&c->tensor[i]);
    if (fn->params.n > COUNT(args) || !bind(c, fn, args)) return false;
    Arena *a = arena_new(0);
    EmuLaunch l = {.fn = fn, .mod = m, .args = args, .schedule = s, .seed = seed, .hazards = true,
                   .step_limit = c->steps};
    memcpy(l.grid, c->grid, sizeof l.grid);
    clock_t start = clock();
    EmuReport *r = emu_run(a, &l);
    if (timing && s == SCHED_ROUND_ROBIN)
        printf("%s: %s: %.4f s, %lld warp operations\n", c->file, c->name,
               (double)(clock() - start) / CLOCKS_PER_SEC, (long long)r->warp_ops);
    if (verbose && s == SCHED_ROUND_ROBIN) {
        Buf out = {0};
        emu_report_print(r, d, &out);
        printf("== %s\n%s", c->name, out.s);
        buf_free(&out);
    }
    bool good = check_report(c, r, d, schedule, maybe);
    for (int i = 0; i < c->expects && good; i++) good = check_expect(c, c->expect[i], schedule);
    if (c->wrong[0] && good) {
        c->quiet = true;
        c->went_wrong |= !check_expect(c, c->wrong, schedule);
        c->quiet = false;
    }
    arena_free(a);
    return good;
}

static void run_case(Case *c, const char *text, size_t n)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    u16 file = diag_add_file(d, c->file, text, n);
    ExprPool *p = expr_pool_new(a, intern_new(a));
    ThreadModule *m = thread_read(a, p, d, file, text, n);
    if (!m || diag_errors(d) || m->fns.n != 1) {
        Buf out = {0};
        diag_print(d, &out);
        complain(c, "cannot be read\n%s", out.s ? out.s : "one kernel a case");
        buf_free(&out);
        arena_free(a);
        return;
    }
    bool maybe[MAX_LINES] = {0}, good = true;
    if (!c->clean && !c->hazards && !c->maybes)
        complain(c, "says neither clean nor which hazard"), good = false;
    int seeds = c->clean || c->maybes || c->wrong[0] ? SEEDS : 5;
    good = good && run_once(c, m, d, SCHED_ROUND_ROBIN, 1, maybe);
    for (int i = 1; i <= seeds && good; i++) good = run_once(c, m, d, SCHED_RANDOM, (u64)i, maybe);
    for (int i = 1; i <= seeds && good; i++)
        good = run_once(c, m, d, SCHED_ADVERSARIAL, (u64)i, maybe);
    for (int k = 0; k < c->maybes && good; k++)
        if (!maybe[k]) complain(c, "on no schedule: %s", c->maybe[k]), good = false;
    if (c->wrong[0] && good && !c->went_wrong)
        complain(c, "right on every schedule: %s", c->wrong), good = false;
    passed += good;
    for (int i = 0; i < c->tensors; i++) free(c->tensor[i].data);
    arena_free(a);
}

// ---- damaged programs ---------------------------------------------------------------------------

static u32 next_random(u64 *state, u32 n)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return n ? (u32)((*state >> 33) % n) : 0;
}

static void damage_operand(Operand *o, const ThreadFn *fn, u64 *r)
{
    switch (next_random(r, 6)) {
    case 0: o->base += (i64)next_random(r, 64) - 32; break;
    case 1: o->base = (i64)next_random(r, 1u << 20) - (1 << 19); break;
    case 2: o->reg = (i32)next_random(r, (u32)fn->regs.n + 1) - 1; break;
    case 3: o->count = (u16)next_random(r, 70); break;
    case 4: o->kind = (u8)next_random(r, 6); break;
    default: o->negate = !o->negate; break;
    }
}

static void damage_op(ThreadOp *op, const ThreadFn *fn, u64 *r)
{
    switch (next_random(r, 9)) {
    case 0: op->n = (u16)next_random(r, 300); break;
    case 1: op->flags ^= (u16)(1u << next_random(r, 4)); break;
    case 2: op->type = (u8)next_random(r, TT_COUNT); break;
    case 3: op->type2 = (u8)next_random(r, TT_COUNT); break;
    case 4: op->op = (u8)next_random(r, OP_FOR); break;
    case 5: op->imm = (i32)next_random(r, 40) - 2; break;
    case 6:
        op->guard = opd_reg((int)next_random(r, (u32)fn->regs.n), 0);
        break;
    case 7:
        if (op->nmem)
            op->mem[next_random(r, (u32)op->nmem)].buffer =
                (int)next_random(r, (u32)fn->buffers.n + 1);
        break;
    default:
        if (op->nopnd) damage_operand(&op->opnd[next_random(r, (u32)op->nopnd)], fn, r);
        break;
    }
}

static void damage_block(ThreadBlock *b, const ThreadFn *fn, u64 *r)
{
    if (!b->n) return;
    u32 i = next_random(r, (u32)b->n);
    ThreadOp *op = b->at[i];
    if (next_random(r, 3) && op->body.n) {
        damage_block(op->other.n && next_random(r, 2) ? &op->other : &op->body, fn, r);
        return;
    }
    switch (next_random(r, 4)) {
    case 0: // delete
        memmove(&b->at[i], &b->at[i + 1], sizeof b->at[0] * (size_t)(b->n - (int)i - 1));
        b->n--;
        break;
    case 1: { // exchange
        u32 k = next_random(r, (u32)b->n);
        b->at[i] = b->at[k];
        b->at[k] = op;
        break;
    }
    default: damage_op(op, fn, r); break;
    }
}

static void run_damaged(Case *c, const char *text, size_t n)
{
    for (int i = 0; i < damaged; i++) {
        Arena *a = arena_new(0);
        Diag *d = diag_new(a);
        u16 file = diag_add_file(d, c->file, text, n);
        ThreadModule *m = thread_read(a, expr_pool_new(a, intern_new(a)), d, file, text, n);
        EmuArg args[3 * MAX_ARGS] = {0};
        u64 r = (u64)i * 0x9e3779b97f4a7c15ull + n;
        if (m && m->fns.n && bind(c, m->fns.at[0], args)) {
            ThreadFn *fn = m->fns.at[0];
            for (u32 k = next_random(&r, 4) + 1; k; k--) damage_block(&fn->body, fn, &r);
            EmuLaunch l = {.fn = fn,
                           .mod = m,
                           .args = args,
                           .schedule = (EmuSchedule)(i % 3),
                           .seed = (u64)i,
                           .hazards = i % 7 != 0,
                           .step_limit = 20000};
            memcpy(l.grid, c->grid, sizeof l.grid);
            EmuReport *report = emu_run(a, &l);
            Buf out = {0};
            emu_report_print(report, d, &out);
            buf_free(&out);
        }
        arena_free(a);
    }
    passed++;
    for (int i = 0; i < c->tensors; i++) free(c->tensor[i].data);
}

// ---- files --------------------------------------------------------------------------------------

// Runs the case whose lines are [start, end); the lines before it become empty, so that places fit.
static void run_part(const char *file, const char *text, const char *start, const char *end)
{
    Case *c = calloc(1, sizeof *c);
    c->file = file;
    snprintf(c->name, sizeof c->name, "the kernel");
    c->grid[0] = c->grid[1] = c->grid[2] = 1;
    Buf part = {0};
    for (const char *s = text; s < start; s++)
        if (*s == '\n') buf_putc(&part, '\n');
    bool any = false;
    for (const char *s = start; s < end;) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        if (!stop) stop = end;
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)MIN(stop - s, 250), s);
        if (!strncmp(line, "# case:", 7)) snprintf(c->name, sizeof c->name, "%s", line + 8);
        else if (line[0] == '#' && line[1] == ' ' && !read_comment(c, line + 2))
            complain(c, "comment is not understood: %s", line);
        any |= !strncmp(line, "kernel ", 7);
        s = stop + 1;
    }
    buf_write(&part, start, (size_t)(end - start));
    if (any) (damaged ? run_damaged : run_case)(c, part.s, part.n);
    buf_free(&part);
    free(c);
}

static void run_file(const char *file)
{
    Buf text = {0};
    const char *why = file_read(file, &text, 1 << 24);
    if (why) {
        printf("FAIL %s: %s\n", file, why);
        failed++;
        return;
    }
    const char *start = text.s, *end = text.s + text.n;
    while (start < end) {
        const char *next = strstr(start + 1, "\n# case:");
        next = next ? next + 1 : end;
        run_part(file, text.s, start, next);
        start = next;
    }
    buf_free(&text);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v")) verbose = 1;
        else if (!strcmp(argv[i], "-t")) timing = 1;
        else if (!strcmp(argv[i], "-f") && i + 1 < argc) damaged = atoi(argv[++i]);
        else run_file(argv[i]);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
