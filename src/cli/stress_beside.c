// stress_beside.c - see stress_beside.h. Everything is asynchronous on a stream of its own.
#include "stress_beside.h"
#include "../emit/ptx.h"

#include <string.h>

enum { ROUNDS = 1500 };    // of the loads, each some thousand cycles: about a millisecond
static const size_t MEMORY = (size_t)256 << 20; // bytes; the cache of an H200 has 50 MB
enum { PIECES = 8 };       // writes that follow one another
enum {
    SMEM = 228 * 1024,     // bytes of a multiprocessor
    SMEM_RESERVED = 1024,  // of each block, by the driver
    SMEM_BESIDE = 4096,    // of a block of ours
};

// Four warps; all lanes of a warp load from one bank. What was loaded decides where the next round
// loads, so that the assembler leaves no round out. The contents do not matter: the array is never
// written, and its bits 2 to 4 choose a column.
static const char text[] =
    "//@ plan beside\n"
    "//@ param out: u32[1] in out align 16\n"
    "//@ param rounds: s32 scalar in align 4\n"
    "//@ symbol rounds = scalar rounds\n"
    "//@ kernel beside grid (2*device.sms, 1, 1) block 128 cluster 1 smem 4096\n"
    "//@ arg tensor out\n"
    "//@ arg value rounds\n"
    "//@ end\n"
    "source none\n"
    "kernel beside\n"
    "  threads 128\n"
    "  smem 4096\n"
    "  param ptr out\n"
    "  param s32 rounds\n"
    "  global out : u32[1] param out\n"
    "  shared s : u32[32, 32] row @0\n"
    "  reg b32 at, base, col, k, lane, n, smem, v[4]\n"
    "  reg b64 p\n"
    "  reg pred odd\n"
    "{\n"
    "  mov.b32 %smem, smem\n"
    "  mov.b32 %lane, lane\n"
    "  mad.s32 %base, %lane, 128, %smem\n"
    "  mov.b32 %col, 0\n"
    "  mov.b32 %v[0], 0\n"
    "  ld.param.s32 %n, rounds\n"
    "  for %k = 0 to %n step 1 {\n"
    "    mad.s32 %at, %col, 4, %base\n"
    "    unroll i 4 {\n"
    "      ld.shared.b32 %v[$i], [%at + 4*$i] ; s(%lane, %col + $i)\n"
    "    }\n"
    "    unroll i_1 3 {\n"
    "      xor.b32 %v[0], %v[0], %v[$i_1 + 1]\n"
    "    }\n"
    "    and.b32 %col, %v[0], 15\n"
    "  }\n"
    "  setp.eq.s32 %odd, %v[0], 123456789\n"
    "  ld.param.b64 %p, out\n"
    "  @%odd st.global.b32 [%p], %v[0] ; out(0)\n"
    "}\n";

const char *stress_beside_text(void) { return text; }

static bool nothing(const StressBeside *b) { return b->device->ops->host_memory; }

static baton_status load(StressBeside *b, RtError *e)
{
    ExprPool *pool = expr_pool_new(b->arena, intern_new(b->arena));
    Diag *d = diag_new(b->arena);
    u16 file = diag_add_file(d, "beside", text, sizeof text - 1);
    b->plan = plan_read(b->arena, pool, d, file, "//@ ", text, sizeof text - 1);
    const char *kernel = strstr(text, "source none");
    ThreadModule *m = thread_read(b->arena, pool, d, file, kernel, strlen(kernel));
    if (!b->plan || !m) BUG("the kernel that runs beside cannot be read");
    Buf ptx = {0};
    ptx_print(m, b->plan, d, &ptx);
    buf_putc(&ptx, '\0');
    RtCode code = {.name = "the kernel beside", .ptx = ptx.s, .ptx_bytes = ptx.n - 1, .thread = m};
    baton_status s = rt_load(b->device, &code, &b->module, NULL, e);
    buf_free(&ptx);
    PlanValue value[2] = {{.data = b->memory, .type = DT_U32, .rank = 1, .dim = {1}},
                          {.type = DT_S32, .int_value = ROUNDS, .float_value = ROUNDS}};
    return s ? s : rt_prepare(b->arena, b->module, b->plan, value, &b->launch, NULL, e);
}

baton_status stress_beside_open(StressBeside *b, RtDevice *d, Arena *a, i64 smem, RtError *e)
{
    *b = (StressBeside){.device = d, .arena = a, .bytes = MEMORY};
    b->room = smem + SMEM_RESERVED + 2 * (SMEM_BESIDE + SMEM_RESERVED) <= SMEM;
    if (nothing(b)) return BATON_OK;
    baton_status s = d->ops->stream_new(d, &b->stream, e);
    if (!s) s = d->ops->alloc(d, b->bytes, &b->memory, e);
    return s ? s : load(b, e);
}

void stress_beside_close(StressBeside *b)
{
    if (!b->device || nothing(b)) return;
    rt_release(b->launch);
    rt_unload(b->module);
    b->device->ops->release(b->device, b->memory);
    b->device->ops->stream_free(b->device, b->stream);
}

baton_status stress_empty_cache(StressBeside *b, RtError *e)
{
    return nothing(b) ? BATON_OK
                      : b->device->ops->fill(b->device, b->memory, 0, b->bytes, NULL, e);
}

// The kernel first: it holds little of a multiprocessor, and what is launched next comes to lie
// beside it. Its one store never happens, so it and the writes share the memory.
baton_status stress_start_beside(StressBeside *b, bool writes, bool loads, RtError *e)
{
    baton_status s = BATON_OK;
    if (nothing(b)) return s;
    if (loads && b->room) s = rt_launch(b->launch, b->stream, e);
    size_t piece = b->bytes / PIECES;
    for (int i = 0; i < PIECES && writes && !s; i++)
        s = b->device->ops->fill(b->device, (u8 *)b->memory + (size_t)i * piece, (u8)i, piece,
                                 b->stream, e);
    return s;
}

baton_status stress_end_beside(StressBeside *b, RtError *e)
{
    return nothing(b) ? BATON_OK : b->device->ops->sync(b->device, b->stream, e);
}
