// ops.c - every pure operation of the thread IR, on the emulator and on a real GPU by way of the
// PTX printer, bit for bit. One kernel per row of `cases`: each thread takes three 64-bit patterns
// (edge values first, then random ones), runs the row's line on them and stores every result
// register.
//
//     ops [WORD]     only rows whose text contains WORD
//
// OPS_PTX=FILE and OPS_CUDA=FILE write the kernels as one of the printers has them, and end.
// OPS_IMAGE=FILE takes that machine code (of the CUDA C++, by nvcc -cubin) instead of the PTX.
//
// Rows marked inexact are functions that the hardware approximates in a way that the emulator
// models to a few units in the last place; their worst distance is printed and bounded.
// Exit status: 0 equal, 1 different, 3 no usable GPU.
#include "../../rt/driver.h"
#include "../../src/emit/cuda.h"
#include "../../src/emit/ptx.h"
#include "../../src/emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 15, THREADS = 128, WORDS = 6 };

// Sources: b64 A B C; b32 a b c (their low halves), f32 f g h (the same bits), b16 s u (low halves
// of a and b), pred p q (bit 0 of a and b). Results: b64 D; b32 d e; f32 F; b16 r v; pred P.
typedef struct {
    const char *text;
    int ulp; // 0: bit for bit; else the allowed distance
} Case;
static const Case cases[] = {
    {"mov.b32 %d, %a", 0}, {"mov.f32 %F, %f", 0}, {"mov.b16 %r, %s", 0}, {"mov.b64 %D, %A", 0},
    {"mov.pred %P, %p", 0}, {"mov.b32 %d, -7", 0}, {"mov.u32 %d, 4294967295", 0},
    {"mov.f32 %F, -1.25e-3", 0}, {"mov.b32 %F, %a", 0}, {"mov.b64 %D, 0x8123456789abcdef", 0},
    {"add.s32 %d, %a, %b", 0}, {"add.u32 %d, %a, -3", 0}, {"add.s64 %D, %A, %B", 0},
    {"sub.s32 %d, 5, %b", 0}, {"sub.u64 %D, %A, %B", 0},
    {"mul.s32 %d, %a, %b", 0}, {"mul.u32 %d, %a, %b", 0}, {"mul.s64 %D, %A, %B", 0},
    {"mul.wide.s64 %D, %a, %b", 0}, {"mul.wide.u64 %D, %a, %b", 0}, {"mul.wide.s64 %D, %a, -5", 0},
    {"mad.s32 %d, %a, %b, %c", 0}, {"mad.u64 %D, %A, %B, %C", 0},
    {"div.s32 %d, %a, %b", 0}, {"div.u32 %d, %a, %b", 0}, {"div.s64 %D, %A, %B", 0},
    {"div.u64 %D, %A, %B", 0}, {"rem.s32 %d, %a, %b", 0}, {"rem.u32 %d, %a, %b", 0},
    {"rem.s64 %D, %A, %B", 0}, {"rem.u64 %D, %A, %B", 0}, {"div.s32 %d, %a, 7", 0},
    {"min.s32 %d, %a, %b", 0}, {"min.u32 %d, %a, %b", 0}, {"max.s64 %D, %A, %B", 0},
    {"max.u64 %D, %A, %B", 0}, {"neg.s32 %d, %a", 0}, {"neg.u32 %d, %a", 0}, {"neg.s64 %D, %A", 0},
    {"abs.s32 %d, %a", 0}, {"abs.s64 %D, %A", 0},
    {"and.b32 %d, %a, %b", 0}, {"or.b64 %D, %A, %B", 0}, {"xor.b16 %r, %s, %u", 0},
    {"not.b32 %d, %a", 0}, {"not.b64 %D, %A", 0}, {"and.pred %P, %p, %q", 0},
    {"or.pred %P, %p, %q", 0}, {"xor.pred %P, %p, %q", 0}, {"not.pred %P, %p", 0},
    {"shl.b32 %d, %a, %b", 0}, {"shl.b64 %D, %A, %b", 0}, {"shr.s32 %d, %a, %b", 0},
    {"shr.u32 %d, %a, %b", 0}, {"shr.s64 %D, %A, %b", 0}, {"shr.u64 %D, %A, %b", 0},
    {"shl.b32 %d, %a, 31", 0}, {"shr.s32 %d, %a, 31", 0},
    {"add.f32 %F, %f, %g", 0}, {"sub.f32 %F, %f, %g", 0}, {"mul.f32 %F, %f, %g", 0},
    {"mad.f32 %F, %f, %g, %h", 0}, {"div.f32 %F, %f, %g", 0}, {"min.f32 %F, %f, %g", 0},
    {"max.f32 %F, %f, %g", 0}, {"neg.f32 %F, %f", 0}, {"abs.f32 %F, %f", 0}, {"sqrt.f32 %F, %f", 0},
    {"ex2.f32 %F, %f", 2}, {"lg2.f32 %F, %f", 2}, {"rcp.f32 %F, %f", 2}, {"rsqrt.f32 %F, %f", 2},
    {"tanh.f32 %F, %f", 200},
    {"setp.eq.s32 %P, %a, %b", 0}, {"setp.ne.u32 %P, %a, %b", 0}, {"setp.lt.s32 %P, %a, %b", 0},
    {"setp.le.u32 %P, %a, %b", 0}, {"setp.gt.s64 %P, %A, %B", 0}, {"setp.ge.u64 %P, %A, %B", 0},
    {"setp.lt.u32 %P, %a, -1", 0}, {"setp.eq.f32 %P, %f, %g", 0}, {"setp.ne.f32 %P, %f, %g", 0},
    {"setp.lt.f32 %P, %f, %g", 0}, {"setp.le.f32 %P, %f, %g", 0}, {"setp.gt.f32 %P, %f, %g", 0},
    {"setp.ge.f32 %P, %f, 0.0", 0},
    {"selp.s32 %d, %a, %b, %p", 0}, {"selp.b64 %D, %A, 3, %p", 0}, {"selp.f32 %F, %f, 1.0, %q", 0},
    {"selp.b16 %r, %s, %u, %p", 0},
    {"cvt.s64.s32 %D, %a", 0}, {"cvt.u64.u32 %D, %a", 0}, {"cvt.s32.s64 %d, %A", 0},
    {"cvt.u16.u32 %r, %a", 0}, {"cvt.s16.s32 %r, %a", 0}, {"cvt.s32.s16 %d, %s", 0},
    {"cvt.u32.u16 %d, %s", 0}, {"cvt.s64.s16 %D, %s", 0}, {"cvt.u64.s32 %D, %a", 0},
    {"cvt.u32.s16 %d, %s", 0}, {"cvt.s64.u16 %D, %s", 0}, {"cvt.s64.s64 %D, %A", 0},
    {"cvt.f32.s32 %F, %a", 0}, {"cvt.f32.u32 %F, %a", 0}, {"cvt.f32.s64 %F, %A", 0},
    {"cvt.f32.u64 %F, %A", 0}, {"cvt.f32.s16 %F, %s", 0}, {"cvt.f32.u16 %F, %s", 0},
    {"cvt.s32.f32 %d, %f", 0}, {"cvt.rzi.s32.f32 %d, %f", 0}, {"cvt.u32.f32 %d, %f", 0},
    {"cvt.rzi.u32.f32 %d, %f", 0}, {"cvt.s64.f32 %D, %f", 0}, {"cvt.rzi.u64.f32 %D, %f", 0},
    {"cvt.f16.f32 %r, %f", 0}, {"cvt.bf16.f32 %r, %f", 0}, {"cvt.f32.f16 %F, %s", 0},
    {"cvt.f32.bf16 %F, %s", 0}, {"cvt.tf32.f32 %d, %f", 0}, {"cvt.e4m3.f32 %r, %f", 0},
    {"cvt.e5m2.f32 %r, %f", 0}, {"cvt.f32.e4m3 %F, %s", 0}, {"cvt.f32.e5m2 %F, %s", 0},
    {"cvt.pack.bf16x2 %d, %f, %g", 0}, {"cvt.pack.f16x2 %d, %f, %g", 0},
    {"cvt.pack.e4m3x2 %r, %f, %g", 0}, {"cvt.pack.e5m2x2 %r, %f, %g", 0},
    {"pack.b32 %d, %s, %u", 0}, {"pack.b64 %D, %a, %b", 0}, {"unpack.b32 %r, %v, %a", 0},
    {"unpack.b64 %d, %e, %A", 0},
    {"shfl.bfly.b32 %d, %a, 5", 0}, {"shfl.idx.b32 %d, %a, 9", 0}, {"shfl.up.b32 %d, %a, 3", 0},
    {"shfl.down.b32 %F, %f, 30", 0}, {"shfl.idx.b32 %d, %a, %b", 0},
    {"@%p add.s32 %d, %a, %b", 0}, {"@!%p mov.f32 %F, %f", 0},
    {"if %p { mov.b32 %d, 1 } else { mov.b32 %e, 2 }", 0},
    {"for %d = 0 to 5 step 2 { add.s32 %e, %e, %d }", 0},
    {"unroll i 3 { mad.s32 %d, %d, 3, 2*i+1 }", 0},
};

// ---- the kernels --------------------------------------------------------------------------------

static void kernel_text(Buf *out, int k, const char *line)
{
    buf_printf(out, "kernel op%d\n  threads %d\n  param ptr in\n  param ptr out\n", k, THREADS);
    buf_printf(out, "  global in : u64[%d, 4] param in\n  global out : u64[%d, %d] param out\n", N,
               N, WORDS);
    buf_puts(out, "  reg b64 A, B, C, D, base, wide\n  reg b32 a, b, c, d, e, i, k, x\n"
                  "  reg f32 f, g, h, F\n  reg b16 s, u, r, v, w\n  reg pred p, q, P\n{\n");
    buf_printf(out, "  mov.b32 %%i, tid\n  mov.b32 %%k, ctaid.x\n  mad.s32 %%i, %%k, %d, %%i\n",
               THREADS);
    buf_puts(out, "  ld.param.b64 %base, in\n  mul.wide.s64 %wide, %i, 32\n"
                  "  add.s64 %base, %base, %wide\n");
    for (int n = 0; n < 3; n++)
        buf_printf(out, "  ld.global.b64 %%%c, [%%base + %d] ; in(%%i, %d)\n"
                        "  unpack.b64 %%%c, %%x, %%%c\n  mov.b32 %%%c, %%%c\n",
                   "ABC"[n], 8 * n, n, "abc"[n], "ABC"[n], "fgh"[n], "abc"[n]);
    buf_puts(out, "  unpack.b32 %s, %w, %a\n  unpack.b32 %u, %w, %b\n"
                  "  and.b32 %x, %a, 1\n  setp.ne.s32 %p, %x, 0\n"
                  "  and.b32 %x, %b, 1\n  setp.ne.s32 %q, %x, 0\n"
                  "  mov.b64 %D, 0\n  mov.b32 %d, 0\n  mov.b32 %e, 0\n  mov.f32 %F, 0.0\n"
                  "  mov.b16 %r, 0\n  mov.b16 %v, 0\n  mov.pred %P, 0\n");
    buf_printf(out, "  %s\n", line);
    buf_printf(out, "  ld.param.b64 %%base, out\n  mul.wide.s64 %%wide, %%i, %d\n"
                    "  add.s64 %%base, %%base, %%wide\n", 8 * WORDS);
    buf_puts(
        out,
        "  st.global.b64 [%base], %D ; out(%i, 0)\n"
        "  pack.b64 %D, %d, %e\n  st.global.b64 [%base + 8], %D ; out(%i, 1)\n"
        "  mov.b32 %x, %F\n  cvt.u64.u32 %D, %x\n  st.global.b64 [%base + 16], %D ; out(%i, 2)\n"
        "  pack.b32 %x, %r, %v\n  cvt.u64.u32 %D, %x\n"
        "  st.global.b64 [%base + 24], %D ; out(%i, 3)\n"
        "  selp.b64 %D, 1, 0, %P\n  st.global.b64 [%base + 32], %D ; out(%i, 4)\n"
        "  st.global.b64 [%base + 40], %A ; out(%i, 5)\n}\n");
}

static u64 next(u64 *state)
{
    *state += 0x9e3779b97f4a7c15u;
    u64 z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Edge values against each other, then numbers of many sizes, then anything.
static void fill(u64 (*in)[4])
{
    static const u64 edge[] = {
        0, 1, 2, 3, 31, 32, 33, 63, 64, 127, 128, 255, 0x7fff, 0x8000, 0xffff, 0x7fffffff,
        0x80000000, 0xffffffff, 0xfffffff9, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
        0xffffffffffffffff, 0x3f800000, 0xbf800000, 0x3f000000, 0x40200000, 0x7f800000, 0xff800000,
        0x7fc00000, 0x7f800001, 0xffc12345, 0x00800000, 0x00400000, 0x80000001, 0x7f7fffff,
        0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000, 0x477fe000, 0x477ff000, 0x43e00000,
        0x43e80000, 0x43f00000, 0x3a800000, 0x33000000, 0x7c00, 0x7c01, 0x7e, 0x7f, 0xfe, 0x3f80,
        0x7f80, 0x7f81, 0x0080, 0x0001};
    u64 state = 1;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++) {
            u64 r = next(&state);
            if (i < COUNT(edge) * COUNT(edge))
                r = k == 2 ? edge[r % COUNT(edge)] : edge[k ? i / COUNT(edge) : i % COUNT(edge)];
            else if (i % 3 == 0)
                r = (0x30000000 + (r & 0x8fffffff)) | (r & 0xffffffff00000000); // moderate floats
            else if (i % 3 == 1)
                r >>= r % 64;
            in[i][k] = r;
        }
        in[i][3] = 0;
    }
}

// ---- comparison ---------------------------------------------------------------------------------

static int distance(u32 a, u32 b)
{
    if (a == b) return 0;
    bool nan_a = (a & 0x7fffffff) > 0x7f800000, nan_b = (b & 0x7fffffff) > 0x7f800000;
    if (nan_a || nan_b || (a ^ b) >> 31) return INT32_MAX;
    return abs((int)(a - b));
}

static bool compare(const Case *c, u64 (*in)[4], u64 (*emu)[WORDS], u64 (*gpu)[WORDS])
{
    int worst = 0, different = 0;
    for (int i = 0; i < N; i++) {
        bool equal = memcmp(emu[i], gpu[i], sizeof emu[i]) == 0;
        if (equal) continue;
        int d = distance((u32)emu[i][2], (u32)gpu[i][2]);
        if (c->ulp && d <= c->ulp) {
            worst = MAX(worst, d);
            continue;
        }
        if (different++ < 3) {
            printf("  %s\n    A %016llx B %016llx C %016llx\n", c->text,
                   (unsigned long long)in[i][0], (unsigned long long)in[i][1],
                   (unsigned long long)in[i][2]);
            for (int w = 0; w < WORDS; w++)
                if (emu[i][w] != gpu[i][w])
                    printf("    word %d: emulator %016llx, GPU %016llx\n", w,
                           (unsigned long long)emu[i][w], (unsigned long long)gpu[i][w]);
        }
    }
    if (worst) printf("  %s: within %d units in the last place\n", c->text, worst);
    if (different) printf("DIFFERENT %s: %d of %d\n", c->text, different, N);
    return !different;
}

// ---- both machines ------------------------------------------------------------------------------

static bool emulate(Arena *a, const ThreadModule *m, int k, u64 (*in)[4], u64 (*out)[WORDS])
{
    EmuArg args[2] = {{.kind = PARAM_PTR, .ptr = in, .bytes = sizeof(u64) * 4 * N},
                      {.kind = PARAM_PTR, .ptr = out, .bytes = sizeof(u64) * WORDS * N}};
    EmuLaunch l = {.fn = m->fns.at[k], .mod = m, .grid = {N / THREADS, 1, 1}, .args = args};
    EmuReport *r = emu_run(a, &l);
    Buf text = {0};
    if (!r->ok) {
        emu_report_print(r, NULL, &text);
        printf("%s", text.s ? text.s : "hazard\n");
    }
    buf_free(&text);
    return r->ok;
}

typedef struct {
    RtDriver driver;
    CuModule module;
    CuAddress in, out;
} Gpu;

static bool gpu_open(Gpu *g, const char *ptx, const void *in)
{
    RtError e;
    CuContext c;
    int device;
    if (rt_driver_open(NULL, &g->driver, &e)) return false;
    const RtDriver *d = &g->driver;
    return !d->device_get(&device, 0) && !d->context_retain(&c, device) && !d->context_push(c) &&
           !d->module_load(&g->module, ptx, 0, NULL, NULL) && !d->mem_alloc(&g->in, sizeof(u64) * 4 * N) &&
           !d->mem_alloc(&g->out, sizeof(u64) * WORDS * N) &&
           !d->copy_in(g->in, in, sizeof(u64) * 4 * N);
}

static bool gpu_run(Gpu *g, const char *name, void *out)
{
    const RtDriver *d = &g->driver;
    CuFunction f;
    void *params[2] = {&g->in, &g->out};
    CuLaunchConfig c = {.grid = {N / THREADS, 1, 1}, .block = {THREADS, 1, 1}};
    return !d->module_function(&f, g->module, name) && !d->launch(&c, f, params, NULL) &&
           !d->stream_sync(NULL) && !d->copy_out(out, g->out, sizeof(u64) * WORDS * N);
}

int main(int argc, char **argv)
{
    static u64 in[N][4], emu[N][WORDS], gpu[N][WORDS];
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf text = {0}, ptx = {0}, cuda = {0}, image = {0}, errors = {0};
    const Case *row[COUNT(cases)];
    int n = 0, failed = 0;
    for (int i = 0; i < COUNT(cases); i++)
        if (argc < 2 || strstr(cases[i].text, argv[1])) row[n++] = &cases[i];
    for (int i = 0; i < n; i++) kernel_text(&text, i, row[i]->text);
    ThreadModule *m = thread_read(a, expr_pool_new(a, intern_new(a)), d,
                                  diag_add_file(d, "cases", text.s, text.n), text.s, text.n);
    if (!m || !thread_check(m, d) || !ptx_print(m, NULL, d, &ptx)) {
        diag_print(d, &errors);
        printf("%s", errors.s ? errors.s : "");
        return 1;
    }
    if (getenv("OPS_PTX")) return file_write(getenv("OPS_PTX"), ptx.s, ptx.n) != NULL;
    if (getenv("OPS_CUDA")) {
        CudaSource source = {
            .module = m, .path = "cases", .text = text.s, .text_n = text.n, .entry = "ops"};
        if (!cuda_print(&source, d, &cuda)) return 1;
        return file_write(getenv("OPS_CUDA"), cuda.s, cuda.n) != NULL;
    }
    const char *why = getenv("OPS_IMAGE") ? file_read(getenv("OPS_IMAGE"), &image, 64 << 20) : NULL;
    if (why) {
        printf("%s: %s\n", getenv("OPS_IMAGE"), why);
        return 1;
    }
    fill(in);
    Gpu g = {0};
    bool device = gpu_open(&g, image.n ? image.s : ptx.s, in);
    for (int i = 0; i < n; i++) {
        memset(emu, 0, sizeof emu);
        bool good = emulate(a, m, i, in, emu);
        if (device && good) {
            good = gpu_run(&g, m->fns.at[i]->name, gpu);
            if (!good) printf("  %s: the GPU refused\n", row[i]->text);
            else good = compare(row[i], in, emu, gpu);
        }
        failed += !good;
    }
    if (!device) puts("no usable GPU: the emulator alone");
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed ? 1 : device ? 0 : 3;
}
