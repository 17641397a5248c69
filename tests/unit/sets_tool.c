// sets_tool.c - bounds and outputs of one file, for tests:
//
//   sets_tool FILE.co [NAME=VALUE ...]   compiles, then asks; NAME=VALUE defines a macro
//   sets_tool FILE.thr                   reads kernels; a launch plan may stand in lines `//@ ...`
//   sets_tool -t FILE                    also prints the milliseconds that each part took
//
// One line for each thing that was said: proved, broken, open, assumed. Exit status: 0 nothing is
// broken, 1 something is, 2 cannot be read.
#include "../../src/pass.h"
#include "../../src/sets/sets.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_DEFINES = 8 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void print_findings(const Diag *d, const char *word, const CheckFinding *f, int n, Buf *out)
{
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s: %s:%u: %s: %s: %s\n", word, diag_file_name(d, f[i].loc.file),
                   f[i].loc.line, f[i].kernel, f[i].rule, f[i].text);
}

static int check(const ThreadModule *m, const Plan *plan, const Diag *d, bool times, Buf *out)
{
    static const CheckPart parts[] = {{"bounds", check_bounds, false},
                                      {"output", check_output, false}};
    CheckReport r = {.arena = m->arena};
    for (int i = 0; i < COUNT(parts); i++) {
        double before = now_ms();
        check_module(m, plan, d, &parts[i], 1, CHECK_FULL, &r);
        if (times) buf_printf(out, "time: %s %.1f ms\n", parts[i].name, now_ms() - before);
    }
    print_findings(d, "broken", r.broken.at, r.broken.n, out);
    print_findings(d, "open", r.open.at, r.open.n, out);
    for (int i = 0; i < r.proved.n; i++)
        buf_printf(out, "proved: %s: %s: %s\n", r.proved.at[i].kernel, r.proved.at[i].part,
                   r.proved.at[i].text);
    for (int i = 0; i < r.assumed.n; i++) buf_printf(out, "assumed: %s\n", r.assumed.at[i]);
    return r.broken.n ? 1 : 0;
}

static int check_thr(const char *path, const char *text, size_t n, Arena *a, Diag *d, bool times,
                     Buf *out)
{
    u16 file = diag_add_file(d, path, text, n);
    ExprPool *e = expr_pool_new(a, intern_new(a));
    ThreadModule *m = thread_read(a, e, d, file, text, n);
    bool has = !strncmp(text, "//@ ", 4) || strstr(text, "\n//@ ");
    Plan *p = has ? plan_read(a, e, d, file, "//@ ", text, n) : NULL;
    if (!m || !thread_check(m, d) || diag_errors(d) || (p && !plan_check(p, m, d))) return 2;
    return check(m, p, d, times, out);
}

int main(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf text = {0}, out = {0};
    AstDefine define[MOST_DEFINES];
    Compilation c = {.arena = a, .diag = d, .until = FORM_PTX, .defines = define};
    bool times = argc > 1 && !strcmp(argv[1], "-t");
    argv += times;
    argc -= times;
    const char *why = argc < 2 ? "usage: sets_tool FILE" : file_read(argv[1], &text, 1 << 24);
    int status = 2;
    for (int i = 2; i < argc && i - 2 < MOST_DEFINES; i++) {
        char *eq = strchr(argv[i], '=');
        if (eq) *eq = 0;
        define[c.ndefines++] = (AstDefine){.name = argv[i], .value = eq ? eq + 1 : "1"};
    }
    buf_putc(&text, 0);
    text.n--;
    if (why) {
        buf_printf(&out, "%s\n", why);
    } else if (strstr(argv[1], ".thr")) {
        status = check_thr(argv[1], text.s, text.n, a, d, times, &out);
    } else {
        c.path = argv[1];
        c.text = text.s;
        c.text_n = text.n;
        if (pass_compile(&c)) status = check(c.thread, c.plan, d, times, &out);
    }
    diag_print(d, &out);
    if (out.s) fputs(out.s, stdout);
    buf_free(&c.ptx);
    buf_free(&c.cuda);
    buf_free(&out);
    buf_free(&text);
    arena_free(a);
    return status;
}
