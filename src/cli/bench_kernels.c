// bench_kernels.c - the kernels of a contest, compiled, and where they lie.
#include "bench.h"

#include "../base/sha256.h"
#include "kernel_word.h"
#include "machine.h"

#include <string.h>
#include <unistd.h>

const char *bench_root(Arena *a)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    const char *const roots[] = {arena_printf(a, "%s/..", exe),
                                 arena_printf(a, "%s/../share/baton", exe), "."};
    for (int i = 0; i < COUNT(roots); i++)
        if (access(arena_printf(a, "%s/kernels/attention/v1.co", roots[i]), R_OK) == 0)
            return roots[i];
    return NULL;
}

// Which macros were given besides those of the word; a word's own go first, so they win.
static bool add_macros(CliSource *s, const char *const *extra, int n, Arena *a, Diag *d)
{
    for (int i = 0; i < n; i++) {
        bool given = false;
        size_t length = strcspn(extra[i], "=");
        for (int k = 0; k < s->defines.n; k++)
            given |= strlen(s->defines.at[k].name) == length &&
                     strncmp(s->defines.at[k].name, extra[i], length) == 0;
        if (!given && !cli_define(s, extra[i], a, d)) return false;
    }
    return true;
}

BenchKernel *bench_compile(BenchKernels *all, const char *word, const char *name, const char *label,
                           const char *const *extra, int nextra, bool gpu, Arena *a, Diag *d)
{
    KernelWord w;
    if (!cli_kernel_word("bench", word, &w, a, d)) return NULL;
    if (!add_macros(&w.source, extra, nextra, a, d)) return NULL;
    Compilation c = {.until = FORM_PTX, .quick = true, .arena = a, .diag = d};
    double start = rt_now_ms();
    BenchKernel *k = ARENA_NEW(a, BenchKernel);
    Buf *cubin = ARENA_NEW(a, Buf), *ptx = ARENA_NEW(a, Buf);
    vec_push(a, &all->code, cubin);
    vec_push(a, &all->code, ptx);
    bool ok = cli_read_source(&w.source, &c);
    c.options.assembled = true; // audited where the handoffs need it
    ok = ok && pass_compile(&c);
    k->compile_ms = rt_now_ms() - start;
    Buf options = {0};
    buf_puts(&options, w.options);
    for (int i = 0; i < nextra; i++)
        buf_printf(&options, "%s-D %s", options.n ? " " : "", extra[i]);
    k->impl = (BenchImpl){.name = name ? name : w.name,
                          .file = w.source.path,
                          .options = arena_strndup(a, options.n ? options.s : "", options.n)};
    buf_free(&options);
    if (ok) {
        k->impl.label = label ? label : cli_kernel_title(a, c.text);
        if (!*k->impl.label) k->impl.label = k->impl.name;
        k->impl.source_sha256 = sha256_hex(a, c.text, c.text_n);
        k->plan = c.plan;
        k->contract = c.contract;
        ok = cli_code(&c, gpu, cubin, &k->code);
        k->impl.code_sha256 = cubin->n ? sha256_hex(a, cubin->s, cubin->n)
                                       : sha256_hex(a, k->code.ptx, k->code.ptx_bytes);
    }
    *ptx = c.ptx; // the code points into it
    if (ok && !k->contract) {
        diag_error(d, (Loc){0}, "//! lines at its head",
                   "%s has no contract: its inputs and its "
                   "reference are not known",
                   w.source.path);
        ok = false;
    }
    if (ok) vec_push(a, &all->kernels, k);
    return ok ? k : NULL;
}

void bench_free_kernels(BenchKernels *all)
{
    for (int i = 0; i < all->code.n; i++) buf_free(all->code.at[i]);
}
