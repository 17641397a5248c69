// plan_test.c - launch plans: text in both directions, the law, and plans with numbers.
//
// Every tests/plan/*.plan without "# error:" lines must be read, obey the law, and print back to
// its own text, bare and behind a prefix in the head of a larger file. One with such lines must be
// refused, and each line's text must stand in the messages. The rest binds plans to arguments.
//
//     plan_test [folder of .plan files]
#include "../../src/plan/plan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int passed, failed;
} Tally;

static void expect(Tally *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    t->failed++;
    printf("FAILED %s\n%s%s", what, detail ? detail : "", detail && *detail ? "\n" : "");
}

typedef struct {
    Arena *arena;
    ExprPool *exprs;
    Diag *diag;
    Plan *plan;
} Reading;

static Reading read_text(const char *name, const char *prefix, const char *text, size_t n)
{
    Reading r = {.arena = arena_new(64 << 20)};
    r.exprs = expr_pool_new(r.arena, intern_new(r.arena));
    r.diag = diag_new(r.arena);
    u16 file = diag_add_file(r.diag, name, text, n);
    r.plan = plan_read(r.arena, r.exprs, r.diag, file, prefix, text, n);
    return r;
}

// ---- the files -------------------------------------------------------------------------------

// Lines of `text` that are neither blank nor a remark.
static void strip_remarks(const char *text, Buf *out)
{
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t n = end ? (size_t)(end - text) + 1 : strlen(text);
        if (*text != '#' && *text != '\n') buf_write(out, text, n);
        text += n;
    }
    if (!out->s) buf_puts(out, "");
}

// Puts each "# error: X" of the text against the messages; returns how many there are.
static int match_errors(Tally *t, const char *name, const char *text, const char *messages)
{
    int n = 0;
    for (const char *p = strstr(text, "# error: "); p; p = strstr(p, "# error: ")) {
        p += strlen("# error: ");
        size_t len = strcspn(p, "\n");
        char want[300];
        snprintf(want, sizeof want, "%.*s", (int)len, p);
        n++;
        Buf what = {0};
        buf_printf(&what, "%s: no message says \"%s\"", name, want);
        expect(t, strstr(messages, want) != NULL, what.s, messages);
        buf_free(&what);
    }
    return n;
}

static void test_prefixed(Tally *t, const char *name, const char *body, const Plan *plan)
{
    Buf head = {0}, again = {0};
    buf_puts(&head, "// generated\n");
    plan_print(plan, "//@ ", &head);
    buf_puts(&head, ".version 8.0\nplan not this\n");
    Reading r = read_text(name, "//@ ", head.s, head.n);
    expect(t, r.plan != NULL, "a plan in the head of a file is found", name);
    if (r.plan) plan_print(r.plan, "", &again);
    expect(t, r.plan && strcmp(again.s, body) == 0, "the plan in the head is the same", name);
    buf_free(&head);
    buf_free(&again);
    arena_free(r.arena);
}

static void test_file(Tally *t, const char *path)
{
    Buf text = {0}, body = {0}, messages = {0}, printed = {0};
    const char *err = file_read(path, &text, 1 << 20);
    expect(t, !err, path, err);
    if (err) return;
    strip_remarks(text.s, &body);
    Reading r = read_text(path, "", text.s, text.n);
    bool legal = r.plan && plan_check(r.plan, NULL, r.diag);
    diag_print(r.diag, &messages);
    if (!messages.s) buf_puts(&messages, "");
    if (match_errors(t, path, text.s, messages.s)) {
        expect(t, !legal, "a plan with an error is refused", path);
    } else {
        expect(t, legal, path, messages.s);
        if (r.plan) {
            plan_print(r.plan, "", &printed);
            expect(t, strcmp(printed.s, body.s) == 0, path, printed.s);
            test_prefixed(t, path, body.s, r.plan);
        }
    }
    buf_free(&text);
    buf_free(&body);
    buf_free(&messages);
    buf_free(&printed);
    arena_free(r.arena);
}

static int test_folder(Tally *t, const char *folder)
{
    DIR *d = opendir(folder);
    if (!d) return 0;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 5, ".plan") != 0) continue;
        Buf path = {0};
        buf_printf(&path, "%s/%s", folder, e->d_name);
        test_file(t, path.s);
        buf_free(&path);
        n++;
    }
    closedir(d);
    return n;
}

// ---- broken text -------------------------------------------------------------------------------

// Every prefix of a plan, and the plan with each byte replaced, is read or refused with a message.
static void test_damage(Tally *t, const char *folder, const char *name)
{
    Buf path = {0}, text = {0};
    buf_printf(&path, "%s/%s", folder, name);
    if (file_read(path.s, &text, 1 << 20)) {
        expect(t, false, "a plan to damage is there", path.s);
        return;
    }
    static const char junk[] = {0, '(', '9', '"', '@', '%', (char)0x80};
    int silent = 0;
    char *copy = malloc(text.n + 1);
    for (size_t i = 0; i < text.n; i++) {
        for (int k = -1; k < COUNT(junk); k++) {
            memcpy(copy, text.s, text.n);
            if (k >= 0) copy[i] = junk[k];
            Reading r = read_text("damaged", "", copy, k < 0 ? i : text.n);
            if (r.plan) plan_check(r.plan, NULL, r.diag);
            if (!r.plan && !diag_errors(r.diag)) silent++;
            arena_free(r.arena);
        }
    }
    expect(t, silent == 0, "a refused plan always has a message", NULL);
    free(copy);
    buf_free(&path);
    buf_free(&text);
}

// ---- numbers ------------------------------------------------------------------------------------

static const char bind_text[] =
    "plan f\n"
    "param q: bf16[B, S, 64] in align 16\n"
    "param k: bf16[B, S, 64] in align 16\n"
    "param o: f32[B, S*2] out result align 4\n"
    "param n: s32 scalar in align 4\n"
    "symbol B = extent q 0\n"
    "symbol S = extent q 1\n"
    "symbol n = scalar n\n"
    "check \"S is a multiple of 8\": S % 8 == 0\n"
    "kernel f_main grid (B, S/8, 1) block 128 cluster 1 smem 0\n"
    "tmap q dim (64, S, B) stride (2, 128, S*128) box (64, 8, 1) swizzle swz128\n"
    "arg tmap 0\n"
    "end\n";

static PlanValue tensor(void *data, DType type, int rank, i64 d0, i64 d1, i64 d2)
{
    return (PlanValue){.data = data, .type = type, .rank = rank, .dim = {d0, d1, d2}};
}

typedef struct {
    const char *what;
    int param;            // whose value is replaced; -1: none
    PlanValue value;
    const char *sentence; // NULL: binds
} BindCase;

static void test_bind(Tally *t)
{
    static const i64 props[PROP_COUNT] = {132, 232448};
    char *base = (char *)0x10000;
    const BindCase cases[] = {
        {"all is right", -1, {0}, NULL},
        {"another type", 1, tensor(base, DT_F16, 3, 2, 32, 64),
         "argument k has elements of type f16; the kernel takes bf16"},
        {"another rank", 0, tensor(base, DT_BF16, 2, 2, 32, 0),
         "argument q has 2 dimensions; the kernel takes 3"},
        {"a repeated extent differs", 1, tensor(base, DT_BF16, 3, 2, 40, 64),
         "extent 1 of argument k is 40; S is 32 by extent 1 of argument q"},
        {"a fixed extent differs", 0, tensor(base, DT_BF16, 3, 2, 32, 128),
         "extent 2 of argument q is 128; the kernel is made for 64"},
        {"an extent is negative", 0, tensor(base, DT_BF16, 3, 2, -32, 64),
         "extent 1 of argument q is -32; it must not be negative"},
        {"bytes overflow", 0, tensor(base, DT_BF16, 3, (i64)1 << 40, (i64)1 << 20, 64),
         "argument q has more bytes than 63 bits can count"},
        {"no address", 1, tensor(NULL, DT_BF16, 3, 2, 32, 64),
         "argument k has 4096 elements and no address"},
        {"alignment", 1, tensor(base + 8, DT_BF16, 3, 2, 32, 64),
         "argument k lies at address 0x10008; the kernel needs a multiple of 16"},
        {"a made result of the wrong size", 2, tensor(base, DT_F32, 2, 2, 65, 0),
         "extent 1 of argument o is 65; the kernel takes S*2 = 64; here S = 32"},
        {"a scalar out of range", 3, {.type = DT_S32, .int_value = (i64)1 << 31},
         "argument n is 2147483648; s32 holds -2147483648 to 2147483647"},
    };
    Reading r = read_text("bind", "", bind_text, strlen(bind_text));
    expect(t, r.plan && plan_check(r.plan, NULL, r.diag), "the plan of the bind test is legal",
           NULL);
    for (int i = 0; r.plan && i < COUNT(cases); i++) {
        PlanValue v[4] = {tensor(base, DT_BF16, 3, 2, 32, 64), tensor(base, DT_BF16, 3, 2, 32, 64),
                          {.type = DT_F32}, {.type = DT_S32, .int_value = 5}};
        if (cases[i].param >= 0) v[cases[i].param] = cases[i].value;
        PlanBinding b;
        const char *got = plan_bind(r.arena, r.plan, v, props, &b);
        const char *want = cases[i].sentence;
        expect(t, want ? got && strcmp(got, want) == 0 : !got, cases[i].what, got);
    }
    arena_free(r.arena);
}

static void test_check_fails(Tally *t)
{
    static const i64 props[PROP_COUNT] = {132, 232448};
    char *base = (char *)0x10000;
    Reading r = read_text("bind", "", bind_text, strlen(bind_text));
    PlanValue v[4] = {tensor(base, DT_BF16, 3, 2, 33, 64), tensor(base, DT_BF16, 3, 2, 33, 64),
                      {.type = DT_F32}, {.type = DT_S32, .int_value = 5}};
    PlanBinding b;
    const char *got = plan_bind(r.arena, r.plan, v, props, &b);
    expect(t, got && strcmp(got, "f requires that S is a multiple of 8; here S = 33") == 0,
           "a requirement that does not hold", got);
    arena_free(r.arena);
}

typedef struct {
    i64 b, s;
} Sizes;

static bool size_of_name(void *ctx, const char *name, i64 *value)
{
    const Sizes *z = ctx;
    if (strcmp(name, "B") != 0 && strcmp(name, "S") != 0) return false;
    *value = *name == 'B' ? z->b : z->s;
    return true;
}

static void test_dims_and_maps(Tally *t)
{
    static const i64 props[PROP_COUNT] = {132, 232448};
    Reading r = read_text("bind", "", bind_text, strlen(bind_text));
    i64 dim[PLAN_MAX_RANK];
    const char *why = plan_param_dims(r.arena, r.plan, 2, size_of_name, &(Sizes){3, 32}, dim);
    expect(t, !why && dim[0] == 3 && dim[1] == 64, "extents of a result", why);
    why = plan_param_dims(r.arena, r.plan, 2, size_of_name, &(Sizes){3, INT64_MAX}, dim);
    expect(t, why && strcmp(why, "extent 1 of o, S*2: overflow") == 0, "extents that overflow",
           why);

    for (i64 batch = 1; batch <= 2; batch++) {
        void *base = (void *)0x10000;
        PlanValue v[4] = {tensor(base, DT_BF16, 3, batch, 32, 64),
                          tensor(base, DT_BF16, 3, batch, 32, 64), {.type = DT_F32},
                          {.type = DT_S32}};
        PlanBinding b;
        TensorMap m;
        why = plan_bind(r.arena, r.plan, v, props, &b);
        if (!why) why = plan_tensor_map(r.arena, &b, &r.plan->steps.at[0]->tmaps.at[0], base, &m);
        bool ok = !why && m.rank == 3 && m.dim[0] == 64 && m.dim[1] == 32 &&
                  m.dim[2] == (u64)batch && m.stride[1] == 128 && m.box[1] == 8 && m.base == base;
        // The stride of an extent of 1 means nothing, and is one that the unit accepts.
        ok = ok && m.stride[2] == (batch == 1 ? 0 : 32 * 128);
        expect(t, ok, "a tensor map with numbers", why);
    }
    arena_free(r.arena);
}

// What the runtime makes: not among the caller's arguments, its extents from symbols and device.
static void test_workspace(Tally *t)
{
    static const char text[] = "plan w\n"
                               "param x: f32[n] in align 4\n"
                               "param k: s64 scalar in align 8\n"
                               "param list: s32[device.sms + n*k, 4] in workspace align 16\n"
                               "symbol n = extent x 0\n"
                               "symbol k = scalar k\n"
                               "host causal_tasks into list args (device.sms, 1, n, k, 4, 0)\n"
                               "end\n";
    static const i64 props[PROP_COUNT] = {132, 232448};
    static const struct {
        i64 n, k, rows;
        const char *sentence;
    } cases[] = {
        {3, 5, 147, NULL},
        {0, 5, 132, NULL},
        {100, -2, 0, "extent 0 of the workspace list: it is negative"},
        {(i64)1 << 40, (i64)1 << 40, 0,
         "extent 0 of the workspace list: overflow in device.sms + n*k; here n = 1099511627776, "
         "k = 1099511627776"},
        {(i64)1 << 30, (i64)1 << 31, 0,
         "the workspace list has more bytes than 63 bits can count"},
    };
    Reading r = read_text("workspace", "", text, strlen(text));
    expect(t, r.plan && plan_check(r.plan, NULL, r.diag), "a plan with a workspace is legal", NULL);
    expect(t, r.plan && plan_arguments(r.plan) == 2, "a workspace is no argument", NULL);
    for (int i = 0; r.plan && i < COUNT(cases); i++) {
        // Only as many values as the caller passes: nothing may look at a third.
        PlanValue *v = malloc(2 * sizeof *v), w;
        v[0] = tensor((void *)0x10000, DT_F32, 1, cases[i].n, 0, 0);
        v[1] = (PlanValue){.type = DT_S64, .int_value = cases[i].k};
        PlanBinding b;
        const char *why = plan_bind(r.arena, r.plan, v, props, &b);
        expect(t, !why, "arguments without the workspace bind", why);
        if (!why) why = plan_workspace(r.arena, &b, 2, &w);
        bool ok = cases[i].sentence
                      ? why && strcmp(why, cases[i].sentence) == 0
                      : !why && w.type == DT_S32 && w.rank == 2 && w.dim[0] == cases[i].rows &&
                            w.dim[1] == 4 && !w.data;
        expect(t, ok, "extents of a workspace", why);
        free(v);
    }
    arena_free(r.arena);
}

// A workspace that the compiler adds: the text that a person would have written, and extents that
// are those of the function for any arguments.
static void test_add_workspace(Tally *t)
{
    static const char before[] = "plan f\n"
                                 "param q: bf16[B, S, H] in align 16\n"
                                 "symbol B = extent q 0\n"
                                 "symbol S = extent q 1\n"
                                 "symbol H = extent q 2\n"
                                 "kernel k grid (device.sms, 1, 1) block 128 cluster 1 smem 0\n"
                                 "arg tensor q\n"
                                 "end\n";
    static const char after[] =
        "plan f\n"
        "param q: bf16[B, S, H] in align 16\n"
        "param tasks: s32[device.sms + B*H*((S + 127)/128), 4] in workspace align 16 @7:9\n"
        "symbol B = extent q 0\n"
        "symbol S = extent q 1\n"
        "symbol H = extent q 2\n"
        "host causal_tasks into tasks args (device.sms, B, H, (S + 127)/128, 4, 0)\n"
        "kernel k grid (device.sms, 1, 1) block 128 cluster 1 smem 0\n"
        "arg tensor q\n"
        "end\n";
    Reading r = read_text("add", "", before, strlen(before));
    if (!r.plan) return expect(t, false, "the plan to add to is legal", NULL);
    Intern *names = expr_pool_names(r.exprs);
    const Expr *tiles = expr_cdiv(r.exprs, expr_var(r.exprs, intern(names, "S")),
                                  expr_const(r.exprs, 128));
    const Expr *args[] = {expr_var(r.exprs, intern(names, "device.sms")),
                          expr_var(r.exprs, intern(names, "B")),
                          expr_var(r.exprs, intern(names, "H")), tiles,
                          expr_const(r.exprs, 4), expr_const(r.exprs, 0)};
    Loc at = {.line = 7, .col = 9};
    int k = plan_add_workspace(r.arena, r.exprs, r.diag, r.plan, "tasks", "causal_tasks", args, 6,
                               at);
    Buf printed = {0}, messages = {0};
    plan_print(r.plan, "", &printed);
    expect(t, k == 1 && strcmp(printed.s, after) == 0, "a workspace is added", printed.s);
    expect(t, plan_check(r.plan, NULL, r.diag), "the plan with it is legal", NULL);
    k = plan_add_workspace(r.arena, r.exprs, r.diag, r.plan, "w", "causal_task", args, 6, at);
    expect(t, k == -1 && r.plan->params.n == 2, "an unknown function adds nothing", NULL);
    k = plan_add_workspace(r.arena, r.exprs, r.diag, r.plan, "w", "causal_tasks", args, 1, at);
    expect(t, k == -1 && r.plan->params.n == 2, "too few arguments add nothing", NULL);
    diag_print(r.diag, &messages);
    expect(t, strstr(messages.s, "there is no host function causal_task\n") &&
                  strstr(messages.s, "1 argument for the host function causal_tasks, which takes") &&
                  strstr(messages.s, "hint: causal_tasks(ctas, batches, heads, tiles, fixed cost"),
           "and say why", messages.s);
    buf_free(&printed);
    buf_free(&messages);
    arena_free(r.arena);
}

int main(int argc, char **argv)
{
    Tally t = {0};
    const char *folder = argc > 1 ? argv[1] : "tests/plan";
    int files = test_folder(&t, folder);
    expect(&t, files >= 8, "the folder of plans is there", folder);
    test_damage(&t, folder, "gemm.plan");
    test_damage(&t, folder, "workspace.plan");
    test_bind(&t);
    test_check_fails(&t);
    test_dims_and_maps(&t);
    test_workspace(&t);
    test_add_workspace(&t);
    printf("plan: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
