// growth_test.c - twice the source takes at most about twice the work, whatever it is made of.
//
// Each shape is a source that repeats one thing n times. It is compiled for n, 2n and 4n, and what
// is compared is not time but the basic blocks that the compiler ran and the bytes that its arena
// gave out. The steps from n to 2n and from 2n to 4n leave out what does not grow; the second is
// twice the first when the growth is linear, four times when it is quadratic. The Makefile links the
// test with the compiler built once more, with a call in every block (-fsanitize-coverage).
//
// Arguments: none; a shape or `all`, for a line each; a shape and n, which prints that source.
#include "../../src/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the counter --------------------------------------------------------------------------------
static u64 blocks;

void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { blocks++; }

// ---- the shapes ---------------------------------------------------------------------------------
#define HEAD "__co__ void f(global f32 [N] a, global f32 [N] c) {\n"
#define THREADS "  parallel tile by cdiv(N, 256) : block, t by 256 : thread {\n"
#define WARPGROUP "  parallel tile by cdiv(N, 64) : block, g by 1 : group-4, t by 128 : thread {\n"
#define ROLES                                                                          \
    "__co__ void f(global bf16 [M, K] a, global f32 [M, 64] c) {\n"                    \
    "  parallel blk by 3 : block {\n    shared bf16 [64, 64] a_s[2];\n"                \
    "    shared bf16 [64, 64] b_s[2];\n"                                               \
    "    shared event full[2], empty[2] = ready;\n"                                    \
    "    parallel p by 3 : group-4, t by 128 : thread {\n"

static void statements(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++) buf_printf(b, "    x = x * %d.5f + 1.0f;\n", i);
    buf_puts(b, "    if (tile * 256 + t < N) c.at(tile * 256 + t) = x;\n  }\n}\n");
}

static void stores(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS);
    for (int i = 0; i < n; i++)
        buf_printf(b, "    if (tile * 256 + t + %d < N)\n      c.at(tile * 256 + t + %d) = "
                   "a.at(tile * 256 + t + %d) + 1.0f;\n", i, i, i);
    buf_puts(b, "  }\n}\n");
}

static void names(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    x0 = tile * 256 + t;\n");
    for (int i = 1; i < n; i++) buf_printf(b, "    x%d = x%d + t;\n", i, i - 1);
    buf_printf(b, "    if (x%d < N) c.at(x%d) = 1.0f;\n  }\n}\n", n - 1, n - 1);
}

static void mutables(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n");
    for (int i = 0; i < n; i++) buf_printf(b, "    mutable f32 x%d = %d.0f;\n", i, i);
    buf_puts(b, "    foreach k in [N] {\n");
    for (int i = 0; i < n; i++) buf_printf(b, "      x%d = x%d + x%d;\n", i, i, (i + 1) % n);
    buf_puts(b, "    }\n");
    for (int i = 0; i < n; i++) buf_printf(b, "    if (i < N) c.at(i) = x%d;\n", i);
    buf_puts(b, "  }\n}\n");
}

static void long_sum(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    if (i < N) c.at(i) = 0.5f");
    for (int i = 0; i < n; i++) buf_printf(b, "%s + a.at(i) * %d.0f", i % 8 ? "" : "\n     ", i);
    buf_puts(b, ";\n  }\n}\n");
}

static void long_index(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t");
    for (int i = 0; i < n; i++) buf_printf(b, "%s + t / %d", i % 8 ? "" : "\n     ", i + 2);
    buf_puts(b, ";\n    if (i < N) c.at(i) = 1.0f;\n  }\n}\n");
}

static void long_condition(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    if (i < N");
    for (int i = 0; i < n; i++) buf_printf(b, "%s && i != %d", i % 8 ? "" : "\n     ", i * 3);
    buf_puts(b, ") c.at(i) = 1.0f;\n  }\n}\n");
}

static void loops(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "    foreach k in [N] { x = x + __to<f32>(k); }\n");
    buf_puts(b, "    if (tile * 256 + t < N) c.at(tile * 256 + t) = x;\n  }\n}\n");
}

static void unrolled(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "    foreach k in [4] : unroll { x = x + __to<f32>(k) * %d.0f; }\n", i);
    buf_puts(b, "    if (tile * 256 + t < N) c.at(tile * 256 + t) = x;\n  }\n}\n");
}

static void else_ifs(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "    if (i == %d) { x = 1.0f; } else { x = x + 2.0f; }\n", i);
    buf_puts(b, "    if (i < N) c.at(i) = x;\n  }\n}\n");
}

static void applies(Buf *b, int n)
{
    buf_puts(b, HEAD WARPGROUP "    frag f32 [64, 32] x {1.0f};\n    frag f32 [64] v {0.0f};\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "    apply {i, j} in x.span\n      x.at(i, j) = x.at(i, j) * %d.5f + 1.0f;\n"
                   "    reduce_max(v, x, 1);\n", i);
    buf_puts(b, "    apply {i} in v.span\n      if (tile * 64 + i < N)\n"
             "        c.at(tile * 64 + i) = v.at(i);\n  }\n}\n");
}

static void apply_lines(Buf *b, int n)
{
    buf_puts(b, HEAD WARPGROUP "    frag f32 [64, 32] x {1.0f};\n    frag f32 [64] v {0.0f};\n"
             "    apply {i, j} in x.span {\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "      x.at(i, j) = x.at(i, j) * %d.5f + v.at(i);\n", i);
    buf_puts(b, "    }\n    reduce_max(v, x, 1);\n    apply {i} in v.span\n"
             "      if (tile * 64 + i < N)\n        c.at(tile * 64 + i) = v.at(i);\n  }\n}\n");
}

static void fragments(Buf *b, int n)
{
    buf_puts(b, HEAD WARPGROUP);
    for (int i = 0; i < n; i++) buf_printf(b, "    frag f32 [64] v%d {%d.0f};\n", i, i);
    for (int i = 0; i < n; i++)
        buf_printf(b, "    apply {i} in v%d.span v%d.at(i) = v%d.at(i) * 2.0f + v%d.at(i);\n", i, i,
                   i, (i + 1) % n);
    for (int i = 0; i < n; i++)
        buf_printf(b, "    apply {i} in v%d.span\n      if (tile * 64 + i < N)"
                   " c.at(tile * 64 + i) = v%d.at(i);\n", i, i);
    buf_puts(b, "  }\n}\n");
}

static void copies(Buf *b, int n)
{
    buf_puts(b, "__co__ void f(global bf16 [M, K] a, global bf16 [M, K] c) {\n"
             "  parallel tile by cdiv(M, 64) : block, t by 128 : thread {\n"
             "    shared bf16 [64, 64] s;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "    dma.copy a.subspan(64, 64).at(tile, %d) => s;\n"
                   "    dma.copy s => c.subspan(64, 64).at(tile, %d);\n", i, i);
    buf_puts(b, "  }\n}\n");
    // At block level, where all threads copy together.
    char *t = strstr(b->s, ", t by 128 : thread");
    memset(t, ' ', strlen(", t by 128 : thread"));
}

static void products(Buf *b, int n)
{
    buf_puts(b, "__co__ void f(global bf16 [M, K] a, global f32 [M, 64] c) {\n"
             "  parallel tile by cdiv(M, 64) : block {\n"
             "    a_s = dma.copy.swiz<128> a.subspan(64, 64).at(tile, 0) => shared;\n"
             "    parallel g by 1 : group-4 {\n      acc = mma.fill.f32 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "      p%d = mma.row.row.async acc, a_s, a_s;\n      wait p%d;\n", i, i);
    buf_puts(b, "      mma.store acc, c.subspan(64, 64).at(tile, 0);\n    }\n  }\n}\n");
}

static void handovers(Buf *b, int n)
{
    buf_puts(b, ROLES "      inthreads.async (p == 0) {\n        mutable u32 n = 0;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "        wait empty.at(n);\n        fa%d = tma.load.async.swiz<128> "
                   "a.subspan(64, 64).at(blk, %d) => a_s[n %% 2];\n"
                   "        trigger full.at(n++) after fa%d;\n", i, i, i);
    buf_puts(b, "      }\n      inthreads.async (p == 1) {\n        mutable u32 n = 0;\n"
             "        frag f32 [64, 64] acc {0.0f};\n");
    for (int i = 0; i < n; i++)
        buf_puts(b, "        wait full.at(n);\n        mma.row.row acc, a_s[n % 2], a_s[n % 2];\n"
                 "        trigger empty.at(n++);\n");
    buf_puts(b, "        mma.store acc, c.subspan(64, 64).at(blk, 0);\n      }\n    }\n  }\n}\n");
}

static void nesting(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n");
    for (int i = 0; i < n; i++) buf_printf(b, "%s if (i > %d) {", i % 8 ? "" : "\n   ", i);
    buf_puts(b, " if (i < N) c.at(i) = 1.0f; ");
    for (int i = 0; i < n; i++) buf_puts(b, "}");
    buf_puts(b, "\n  }\n}\n");
}

static void nested_loops(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_puts(b, "    foreach i in [N] { foreach j in [N] { foreach k in [N] {\n"
                 "      x = x + 1.0f;\n    } } }\n");
    buf_puts(b, "    if (tile * 256 + t < N) c.at(tile * 256 + t) = x;\n  }\n}\n");
}

// What depends on the thread is found one name after the other, against the order of the text.
static void chain(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n");
    for (int k = 0; k <= n; k++) buf_printf(b, "    mutable int x%d = 0;\n", k);
    buf_puts(b, "    foreach k in [N] {\n");
    for (int k = 0; k < n; k++) buf_printf(b, "      x%d = x%d;\n", k, k + 1);
    buf_printf(b, "      x%d = t;\n    }\n    if (i < N && x0 < 3) c.at(i) = 1.0f;\n  }\n}\n", n);
}

static void parentheses(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    if (i < N) c.at(i) = ");
    for (int i = 0; i < n; i++) buf_printf(b, "(%s", i % 8 ? "" : "\n    ");
    buf_puts(b, "a.at(i)");
    for (int i = 0; i < n; i++) buf_printf(b, " * %d.5f)%s", i, i % 8 ? "" : "\n    ");
    buf_puts(b, ";\n  }\n}\n");
}

static void helpers(Buf *b, int n)
{
    for (int i = 0; i < n; i++)
        buf_printf(b, "__device__ float g%d(float x) {\n  if (x > %d.0f) return x;\n"
                   "  return x * 2.0f;\n}\n", i, i);
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    mutable f32 x = 1.0f;\n");
    for (int i = 0; i < n; i++) buf_printf(b, "    x = call g%d(x);\n", i);
    buf_puts(b, "    if (i < N) c.at(i) = x;\n  }\n}\n");
}

static void parameters(Buf *b, int n)
{
    buf_puts(b, "__co__ void f(");
    for (int i = 0; i < n; i++) buf_printf(b, "global f32 [N, K%d] a%d, float w%d,\n  ", i, i, i);
    buf_puts(b, "global f32 [N] c) {\n" THREADS "    i = tile * 256 + t;\n    if (i < N) {\n"
             "      mutable f32 x = 0.0f;\n");
    for (int i = 0; i < n; i++)
        buf_printf(b, "      if (K%d > 3) x = x + a%d.at(i, 3) * w%d;\n", i, i, i);
    buf_puts(b, "      c.at(i) = x;\n    }\n  }\n}\n");
}

static void macros(Buf *b, int n)
{
    for (int i = 0; i < n; i++) buf_printf(b, "#define M%d(x) ((x) + %d.0f)\n", i, i);
    buf_puts(b, HEAD THREADS "    i = tile * 256 + t;\n    mutable f32 x = 1.0f;\n");
    for (int i = 0; i < n; i++) buf_printf(b, "    x = M%d(M%d(x));\n", i, (i + 1) % n);
    buf_puts(b, "    if (i < N) c.at(i) = x;\n  }\n}\n");
}

static void host_text(Buf *b, int n)
{
    for (int i = 0; i < n; i++)
        buf_printf(b, "// the comment of number %d\nint host%d(int x) { return x + %d; }\n"
                   "#ifdef NEVER%d\nint never;\n#endif\n", i, i, i, i);
    statements(b, 4);
    for (int i = 0; i < n; i++) buf_printf(b, "/* behind %d */\n", i);
}

static void kernels(Buf *b, int n)
{
    buf_puts(b, HEAD);
    for (int i = 0; i < n; i++)
        buf_printf(b, THREADS "    if (tile * 256 + t < N) c.at(tile * 256 + t) = %d.0f;\n  }\n",
                   i);
    buf_puts(b, "}\n");
}

static void functions(Buf *b, int n)
{
    for (int i = 0; i < n; i++)
        buf_printf(b, "__co__ void g%d(global f32 [N] c) {\n" THREADS "    if (tile * 256 + t < N)"
                   " c.at(tile * 256 + t) = %d.0f;\n  }\n}\n", i, i);
    statements(b, 4);
}

static void views(Buf *b, int n)
{
    buf_puts(b, "__co__ void f(global f32 [B, N] a, global f32 [B, N] c) {\n" THREADS);
    for (int i = 0; i < n; i++)
        buf_printf(b, "    v%d = a.subspan(1, _).at(%d, 0).sqz();\n    if (tile * 256 + t < N)\n"
                   "      c.at(%d, tile * 256 + t) = v%d.at(tile * 256 + t);\n", i, i, i, i);
    buf_puts(b, "  }\n}\n");
}

#define PIPELINE "    [[pipeline(2)]] foreach i in [cdiv(K, 64)] {\n"
static void pipeline_head(Buf *b)
{
    buf_puts(b, "__co__ void f(global bf16 [64, K] a, global f32 [64, 64] c) {\n"
                "  parallel tile by 1 : block, g by 1 : group-4 {\n"
                "    shared bf16 [64, 64] s;\n    acc = mma.fill.f32 0.0f;\n");
}

static void pipeline_round(Buf *b, int i)
{
    buf_printf(b, "      dma.copy.swiz<128> a.subspan(64, 64).at(0, i + %d) => s;\n"
                  "      mma.row.row acc, s, s;\n", i);
}

static void pipelined(Buf *b, int n)
{
    pipeline_head(b);
    buf_puts(b, PIPELINE);
    for (int i = 0; i < n; i++) pipeline_round(b, i);
    buf_puts(b, "    }\n    mma.store acc, c;\n  }\n}\n");
}

static void pipelines(Buf *b, int n)
{
    pipeline_head(b);
    for (int i = 0; i < n; i++) {
        buf_puts(b, PIPELINE);
        pipeline_round(b, i);
        buf_puts(b, "    }\n");
    }
    buf_puts(b, "    mma.store acc, c;\n  }\n}\n");
}

static void asserts(Buf *b, int n)
{
    buf_puts(b, HEAD THREADS);
    for (int i = 0; i < n; i++) buf_printf(b, "    assert(N > %d, \"too small %d\");\n", i, i);
    buf_puts(b, "    if (tile * 256 + t < N) c.at(tile * 256 + t) = 1.0f;\n  }\n}\n");
}

static const struct {
    const char *name;
    void (*make)(Buf *b, int n);
    int n;
} shapes[] = {
    // a few hundred repetitions at 4n where nothing bounds them, so that a quadratic part shows
    {"statements", statements, 400}, {"stores", stores, 80}, {"names", names, 200},
    {"mutables", mutables, 100}, {"loops", loops, 150}, {"unrolled", unrolled, 150},
    {"else_ifs", else_ifs, 150}, {"applies", applies, 100}, {"apply_lines", apply_lines, 60},
    {"fragments", fragments, 50}, {"copies", copies, 8}, {"products", products, 60},
    {"handovers", handovers, 25}, {"nested_loops", nested_loops, 40}, {"chain", chain, 60},
    {"helpers", helpers, 100}, {"macros", macros, 200}, {"host_text", host_text, 400},
    {"functions", functions, 100}, {"views", views, 100}, {"asserts", asserts, 100},
    {"pipelined", pipelined, 25}, {"pipelines", pipelines, 25},
    // close to a limit of the language at 4n
    {"long_sum", long_sum, 45}, {"long_index", long_index, 45},
    {"long_condition", long_condition, 45}, {"nesting", nesting, 15},
    {"parentheses", parentheses, 45}, {"parameters", parameters, 15}, {"kernels", kernels, 15},
};

// ---- the measurement ----------------------------------------------------------------------------
typedef struct {
    u64 blocks, bytes;
    u64 to_form[FORM_COUNT];   // blocks up to that form, filled on request only
} Work;

static bool compile(const char *name, const Buf *text, PassForm until, Work *w)
{
    Arena *arena = arena_new(0);
    Compilation c = {.path = name, .text = text->s, .text_n = text->n, .until = until,
                     .entry = "f", .arena = arena, .diag = diag_new(arena)};
    u64 before = blocks;
    bool ok = pass_compile(&c);
    w->blocks = w->to_form[until] = blocks - before;
    w->bytes = arena_used(arena);
    if (!ok) {
        Buf messages = {0};
        diag_print(c.diag, &messages);
        printf("%s: does not compile\n%.2000s\n", name, messages.s);
        buf_free(&messages);
    }
    buf_free(&c.ptx);
    buf_free(&c.cuda);
    arena_free(arena);
    return ok;
}

// The slack is for logarithms and for tables that double.
static bool linear(u64 one, u64 two, u64 four)
{
    return (double)(four - two) <= 2.4 * (double)(two - one);
}

static double ratio(u64 one, u64 two, u64 four)
{
    return two > one ? (double)(four - two) / (double)(two - one) : 0;
}

// Where it grows: the ratio of the steps for each form of the program.
static void explain(const char *name, const Buf *text)
{
    Work w[3] = {0};
    for (int form = 0; form < FORM_COUNT; form++)
        for (int i = 0; i < 3; i++) compile(name, &text[i], (PassForm)form, &w[i]);
    printf("    blocks for 4n, and growth, up to:");
    for (int form = 0; form < FORM_COUNT; form++)
        printf("  %s %llu %.2f", pass_form_name[form], (unsigned long long)w[2].to_form[form],
               ratio(w[0].to_form[form], w[1].to_form[form], w[2].to_form[form]));
    printf("\n");
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    const char *only = argc > 1 ? argv[1] : NULL;
    for (int i = 0; i < COUNT(shapes); i++) {
        if (only && strcmp(only, "all") != 0 && strcmp(only, shapes[i].name) != 0) continue;
        if (argc > 2) {
            Buf b = {0};
            shapes[i].make(&b, atoi(argv[2]));
            fwrite(b.s, 1, b.n, stdout);
            return 0;
        }
        Buf text[3] = {0};
        Work w[3] = {0};
        bool ok = true;
        for (int k = 0; k < 3; k++) {
            shapes[i].make(&text[k], shapes[i].n << k);
            ok = compile(shapes[i].name, &text[k], FORM_PTX, &w[k]) && ok;
        }
        ok = ok && w[0].blocks && linear(w[0].blocks, w[1].blocks, w[2].blocks) &&
             linear(w[0].bytes, w[1].bytes, w[2].bytes);
        ok ? passed++ : failed++;
        if (!ok || only)
            printf("%s %s: n = %d: %llu blocks, growth %.2f; %llu bytes, growth %.2f\n",
                   ok ? "right" : "WRONG", shapes[i].name, shapes[i].n,
                   (unsigned long long)w[2].blocks, ratio(w[0].blocks, w[1].blocks, w[2].blocks),
                   (unsigned long long)w[2].bytes, ratio(w[0].bytes, w[1].bytes, w[2].bytes));
        if (!ok) explain(shapes[i].name, text);
        for (int k = 0; k < 3; k++) buf_free(&text[k]);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
