// read.c - the launch plan out of its text form (print.c has the grammar), or out of the comment
// lines at the head of a PTX file.
//
// Each line is parsed by itself, so that one mistake does not hide the next. Blank lines and lines
// that start with # are skipped. Input of any kind ends in a plan or in located errors: counts are
// limited, numbers checked, and names that do not exist are errors here, so that the indices of the
// returned plan are in range. What a plan must obey beyond that is check.c's.
#include "plan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Far above what the compiler writes; they keep a hostile file from growing the plan without end.
enum {
    MAX_PARAMS = 256,
    MAX_SYMBOLS = 256,
    MAX_CHECKS = 1024,
    MAX_STEPS = 256,
    MAX_ARGS = 256, // of one kernel
    MAX_TMAPS = 64, // of one kernel
    MAX_HOST_ARGS = 16,
};

typedef struct {
    Arena *arena;
    ExprPool *exprs;
    Intern *names;
    Diag *diag;
    Loc line;          // start of the line, with the prefix
    const char *start; // of the line's text behind the prefix, NUL-terminated
    const char *s;     // cursor in it
    int prefix;        // bytes before start
    bool failed;       // this line has its error
    Plan *plan;        // NULL before the plan line
    PlanStep *kernel;  // that tmap and arg lines belong to
    bool ended;
} Reader;

static void fail(Reader *r, const char *hint, const char *fmt, ...) PRINTF_LIKE(3, 4);
// One error per line, at the cursor; what follows on the line is not read.
static void fail(Reader *r, const char *hint, const char *fmt, ...)
{
    if (r->failed) return;
    r->failed = true;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    Loc at = r->line;
    ptrdiff_t col = r->s - r->start + r->prefix + 1;
    at.col = (u16)MIN(col, (ptrdiff_t)UINT16_MAX);
    diag_error(r->diag, at, hint, "launch plan: %s", text);
}

// ---- tokens of one line ------------------------------------------------------------------------

static void skip_space(Reader *r)
{
    while (*r->s == ' ' || *r->s == '\t') r->s++;
}

// A dot belongs to words: device.sms.
static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

// A word, interned; "" after an error.
static const char *word(Reader *r)
{
    skip_space(r);
    const char *s = r->s;
    while (word_char(*s)) s++;
    if (s == r->s) {
        fail(r, NULL, "a name was expected here");
        return "";
    }
    const char *w = intern_n(r->names, r->s, (size_t)(s - r->s));
    r->s = s;
    return w;
}

// Takes the word `w` if it stands here.
static bool take_word(Reader *r, const char *w)
{
    skip_space(r);
    size_t n = strlen(w);
    if (strncmp(r->s, w, n) != 0 || word_char(r->s[n])) return false;
    r->s += n;
    return true;
}

// need_: does nothing once the line has failed, so that callers can go on without asking.
static void need_word(Reader *r, const char *w)
{
    if (!r->failed && !take_word(r, w)) fail(r, NULL, "'%s' was expected here", w);
}

// Takes the character if it stands here, behind blanks.
static bool take(Reader *r, char c)
{
    skip_space(r);
    if (*r->s != c) return false;
    r->s++;
    return true;
}

static void need(Reader *r, char c)
{
    if (!r->failed && !take(r, c)) fail(r, NULL, "'%c' was expected here", c);
}

// A decimal number within [lo, hi]; lo after an error.
static i64 number(Reader *r, i64 lo, i64 hi)
{
    skip_space(r);
    if (r->failed) return lo;
    const char *s = r->s;
    bool negative = *s == '-';
    if (negative) s++;
    if (!isdigit((unsigned char)*s)) {
        fail(r, NULL, "a number was expected here");
        return lo;
    }
    i64 v = 0;
    bool over = false;
    for (; isdigit((unsigned char)*s); s++) {
        int digit = negative ? '0' - *s : *s - '0';
        over = over || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v);
    }
    if (over || v < lo || v > hi) {
        fail(r, NULL, "a number from %lld to %lld was expected here", (long long)lo, (long long)hi);
        return lo;
    }
    r->s = s;
    return v;
}

// Lower case only, as print.c writes them: reading and printing are exact inverses.
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

// A quoted text; \xx is the byte with that code.
static const char *quoted(Reader *r)
{
    need(r, '"');
    char *out = arena_alloc(r->arena, strlen(r->s) + 1);
    size_t n = 0;
    while (!r->failed && *r->s != '"') {
        char c = *r->s;
        int hi, lo;
        if (!c) {
            fail(r, NULL, "the text has no closing quote");
        } else if (c != '\\') {
            out[n++] = c;
            r->s++;
        } else if ((hi = hex_digit(r->s[1])) < 0 || (lo = hex_digit(r->s[2])) < 0 || !(hi | lo)) {
            fail(r, "a quote is \\22, a backslash \\5c", "two hexadecimal digits were expected "
                 "behind the backslash");
        } else {
            out[n++] = (char)(hi * 16 + lo);
            r->s += 3;
        }
    }
    if (!r->failed) r->s++;
    return out;
}

// An expression; the constant 0 after an error, so that a plan never holds NULL.
static const Expr *expression(Reader *r)
{
    skip_space(r);
    const char *err = NULL;
    const Expr *e = NULL;
    if (!r->failed) {
        e = expr_read(r->exprs, &r->s, &err);
        if (!e) fail(r, NULL, "%s", err ? err : "an expression was expected here");
    }
    return e ? e : expr_const(r->exprs, 0);
}

// "WORD (e, e, ...)" with 1 to max expressions; returns how many.
static int expressions(Reader *r, const char *w, const Expr **out, int max)
{
    need_word(r, w);
    need(r, '(');
    int n = 0;
    do {
        if (n == max) fail(r, NULL, "more than %d values", max);
        if (r->failed) break;
        out[n++] = expression(r);
    } while (take(r, ','));
    need(r, ')');
    return n;
}

// " @LINE:COLUMN" of the .co source, when it is there; the file is not named.
static Loc place(Reader *r)
{
    Loc loc = {0};
    if (!take(r, '@')) return loc;
    loc.line = (u32)number(r, 1, UINT32_MAX);
    need(r, ':');
    loc.col = (u16)number(r, 0, UINT16_MAX);
    return loc;
}

// Only parameters that stand above: so every index of the plan is in range.
static int param_index(Reader *r)
{
    const char *w = word(r);
    for (int i = 0; i < r->plan->params.n; i++)
        if (r->plan->params.at[i].name == w) return i;
    fail(r, "a parameter stands above the lines that use it", "no parameter is called %s", w);
    return 0;
}

// ---- one function per kind of line --------------------------------------------------------------

// The words behind the type in a fixed order, each at most once: in, out, result, workspace.
static void read_param(Reader *r)
{
    PlanParam q = {.name = word(r)};
    need(r, ':');
    const char *type = word(r);
    int t = dtype_by_name(type);
    if (t < 0) fail(r, NULL, "no element type is called %s", type);
    q.type = (DType)MAX(t, 0);
    if (take_word(r, "scalar")) {
        q.kind = PLAN_SCALAR;
    } else {
        need(r, '[');
        while (!r->failed && !take(r, ']')) {
            if (q.rank) need(r, ',');
            if (q.rank == PLAN_MAX_RANK) fail(r, NULL, "more than %d extents", PLAN_MAX_RANK);
            if (!r->failed) q.dim[q.rank++] = expression(r);
        }
    }
    q.in = take_word(r, "in");
    q.out = take_word(r, "out");
    q.result = take_word(r, "result");
    if (q.kind != PLAN_SCALAR && take_word(r, "workspace")) q.kind = PLAN_WORKSPACE;
    need_word(r, "align");
    q.align = (int)number(r, 1, 1 << 20);
    q.loc = place(r);
    if (r->plan->params.n == MAX_PARAMS) fail(r, NULL, "more than %d parameters", MAX_PARAMS);
    if (!r->failed) vec_push(r->arena, &r->plan->params, q);
}

// The default is for the command line; a launch takes values from the caller's arguments alone.
static void read_symbol(Reader *r)
{
    PlanSymbol s = {.name = word(r)};
    need(r, '=');
    if (take_word(r, "scalar")) {
        s.source = SYM_SCALAR;
        s.param = param_index(r);
    } else {
        need_word(r, "extent");
        s.source = SYM_EXTENT;
        s.param = param_index(r);
        s.dim = (int)number(r, 0, PLAN_MAX_RANK - 1);
    }
    s.has_default = take_word(r, "default");
    if (s.has_default) s.default_value = number(r, INT64_MIN, INT64_MAX);
    if (r->plan->symbols.n == MAX_SYMBOLS) fail(r, NULL, "more than %d symbols", MAX_SYMBOLS);
    if (!r->failed) vec_push(r->arena, &r->plan->symbols, s);
}

static void read_check(Reader *r)
{
    PlanCheck c = {.text = quoted(r)};
    need(r, ':');
    c.cond = expression(r);
    c.loc = place(r);
    if (r->plan->checks.n == MAX_CHECKS) fail(r, NULL, "more than %d checks", MAX_CHECKS);
    if (!r->failed) vec_push(r->arena, &r->plan->checks, c);
}

// The step is made even when it is one too many: the line is read to its end for its own errors.
static PlanStep *new_step(Reader *r, PlanStepKind kind)
{
    PlanStep *s = ARENA_NEW(r->arena, PlanStep);
    s->kind = (u8)kind;
    if (r->plan->steps.n == MAX_STEPS) fail(r, NULL, "more than %d steps", MAX_STEPS);
    return s;
}

static void end_step(Reader *r, PlanStep *s)
{
    if (take_word(r, "when")) s->when = expression(r);
    if (!r->failed) vec_push(r->arena, &r->plan->steps, s);
    // Lines that follow a broken kernel line still get a home, so that they are read.
    r->kernel = s->kind == STEP_KERNEL ? s : NULL;
}

// The limits here are those of the fields; what a GPU can launch is the law's (check.c).
static void read_kernel(Reader *r)
{
    PlanStep *s = new_step(r, STEP_KERNEL);
    for (int i = 0; i < 3; i++) s->grid[i] = expr_const(r->exprs, 1);
    s->kernel = word(r);
    int n = expressions(r, "grid", s->grid, 3);
    if (n != 3) fail(r, NULL, "a grid has three extents, here are %d", n);
    need_word(r, "block");
    s->block = (int)number(r, 1, 1024);
    need_word(r, "cluster");
    s->cluster = (int)number(r, 1, 16);
    need_word(r, "smem");
    s->smem_bytes = number(r, 0, INT32_MAX);
    end_step(r, s);
}

// The tensor must be one that may be written, which is the law's to say.
static void read_memset(Reader *r)
{
    PlanStep *s = new_step(r, STEP_MEMSET);
    s->param = param_index(r);
    need_word(r, "byte");
    s->byte = (u8)number(r, 0, 255);
    end_step(r, s);
}

// The number of arguments, and that the function exists, is the law's to check.
static void read_host(Reader *r)
{
    PlanStep *s = new_step(r, STEP_HOST);
    s->function = word(r);
    need_word(r, "into");
    s->param = param_index(r);
    const Expr *args[MAX_HOST_ARGS];
    int n = expressions(r, "args", args, MAX_HOST_ARGS);
    for (int i = 0; i < n; i++) vec_push(r->arena, &s->host_args, args[i]);
    end_step(r, s);
}

// The names are those of the table of layouts, as printed.
static SmemLayout layout_by_name(Reader *r)
{
    const char *w = word(r);
    for (int i = 0; i < SL_COUNT; i++)
        if (strcmp(smem_layout[i].name, w) == 0) return (SmemLayout)i;
    fail(r, "row, swz128, swz64 or swz32", "no layout is called %s", w);
    return SL_ROW;
}

// Belongs to the kernel line above. Box extents are read as expressions for the sake of one reader
// of lists, and must be numbers.
static void read_tmap(Reader *r)
{
    PlanTensorMap t = {.param = param_index(r)};
    t.rank = expressions(r, "dim", t.dim, TMA_MAX_RANK);
    int strides = expressions(r, "stride", t.stride, TMA_MAX_RANK);
    const Expr *box[TMA_MAX_RANK];
    int boxes = expressions(r, "box", box, TMA_MAX_RANK);
    if (strides != t.rank || boxes != t.rank)
        fail(r, NULL, "a tensor map has as many strides and box extents as dimensions; here are "
             "%d, %d and %d", strides, boxes, t.rank);
    for (int i = 0; i < boxes && !r->failed; i++) {
        i64 v = 0;
        if (!expr_is_const(box[i], &v) || v < 1 || v > 256)
            fail(r, NULL, "box extent %d is no number from 1 to 256", i);
        t.box[i] = (u32)v;
    }
    need_word(r, "swizzle");
    t.swizzle = layout_by_name(r);
    if (take_word(r, "promote")) t.promote = (int)number(r, 0, INT32_MAX);
    if (!r->kernel) fail(r, NULL, "a tmap line stands behind its kernel line");
    if (r->kernel && r->kernel->tmaps.n == MAX_TMAPS)
        fail(r, NULL, "more than %d tensor maps", MAX_TMAPS);
    if (!r->failed) vec_push(r->arena, &r->kernel->tmaps, t);
}

// Belongs to the kernel line above; a tensor map is named by its number among that kernel's.
static void read_arg(Reader *r)
{
    PlanArg g = {0};
    if (take_word(r, "tensor")) {
        g.kind = ARG_TENSOR;
        g.index = param_index(r);
    } else if (take_word(r, "float")) {
        g.kind = ARG_FLOAT;
        g.index = param_index(r);
    } else if (take_word(r, "value")) {
        g.kind = ARG_VALUE;
        g.value = expression(r);
    } else {
        need_word(r, "tmap");
        g.kind = ARG_TMAP;
        int n = r->kernel ? r->kernel->tmaps.n : 0;
        if (!n) fail(r, NULL, "the kernel has no tensor map");
        g.index = (int)number(r, 0, MAX(n - 1, 0));
    }
    if (!r->kernel) fail(r, NULL, "an arg line stands behind its kernel line");
    if (r->kernel && r->kernel->args.n == MAX_ARGS)
        fail(r, NULL, "more than %d arguments", MAX_ARGS);
    if (!r->failed) vec_push(r->arena, &r->kernel->args, g);
}

// The first line that is not blank must be this one; it makes the plan that the others fill.
static void read_plan(Reader *r)
{
    const char *name = word(r);
    if (r->failed) return;
    r->plan = ARENA_NEW(r->arena, Plan);
    r->plan->name = name;
    r->plan->options = "";
}

static void read_options(Reader *r) { r->plan->options = quoted(r); }

static void read_end(Reader *r) { r->ended = true; }

// Lines of a plan by their first word; `plan` itself is not among them, as it must be the first.
static const struct {
    const char *word;
    void (*read)(Reader *);
} line_kinds[] = {
    {"options", read_options}, {"param", read_param},   {"symbol", read_symbol},
    {"check", read_check},     {"kernel", read_kernel}, {"tmap", read_tmap},
    {"arg", read_arg},         {"memset", read_memset}, {"host", read_host},
    {"end", read_end},
};

// One line without its prefix; anything left over at its end is an error.
static void read_line(Reader *r)
{
    skip_space(r);
    if (!*r->s || *r->s == '#') return;
    if (!r->plan) {
        need_word(r, "plan");
        if (!r->failed) read_plan(r);
    } else {
        int k = 0;
        while (k < COUNT(line_kinds) && !take_word(r, line_kinds[k].word)) k++;
        if (k == COUNT(line_kinds))
            fail(r, NULL, "no line of a plan starts like this");
        else
            line_kinds[k].read(r);
    }
    skip_space(r);
    if (!r->failed && *r->s) fail(r, NULL, "nothing more was expected on this line");
}

// Stops at the line `end`, so that the PTX behind the plan is not looked at. NULL when there was
// any error, since a plan with a line missing is not the plan that was compiled.
Plan *plan_read(Arena *a, ExprPool *e, Diag *d, u16 file, const char *prefix, const char *text,
                size_t n)
{
    Reader r = {.arena = a, .exprs = e, .names = expr_pool_names(e), .diag = d};
    r.prefix = (int)strlen(prefix);
    int before = diag_errors(d);
    const char *p = text, *end = text + n;
    for (u32 line = 1; p < end && !r.ended; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        // A file that went through Windows has two characters at the end of a line.
        if (stop > p && stop[-1] == '\r') stop--;
        if (stop - p >= r.prefix && memcmp(p, prefix, (size_t)r.prefix) == 0) {
            r.line = (Loc){.file = file, .line = line};
            r.start = r.s = arena_strndup(a, p + r.prefix, (size_t)(stop - p - r.prefix));
            r.failed = false;
            if (memchr(r.s, 0, (size_t)(stop - p - r.prefix)))
                fail(&r, NULL, "a zero byte in the text");
            else
                read_line(&r);
            // A text that is no plan at all is said once, not for each of its lines.
            if (!r.plan && r.failed) return NULL;
        }
        p = next;
    }
    if (!r.plan)
        diag_error(d, ((Loc){.file = file}), "baton build writes the plan at the head of the PTX",
                   "no launch plan was found");
    else if (!r.ended)
        diag_error(d, ((Loc){.file = file}), "the text may have been cut off",
                   "launch plan: the line 'end' is missing");
    return diag_errors(d) == before ? r.plan : NULL;
}
