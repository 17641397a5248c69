// number_check.cu - compares the numbers of the emulator with a Hopper GPU.
//
//   * emu/approx.c, the narrowing of base/num.c: all 2^32 floats; the widening: all patterns
//   * emu/wgmma_num.c: pseudo-random instructions of every type and family of exponents (the cases
//     of tests/unit/wgmma_cases.h), with and without old accumulator, with negated operands
// Prints a count of differences for each, the first few of them, and the digests that
// tests/unit/wgmma_test.c holds. Exit status 1 when anything differs. Arguments choose what runs
// by parts of its name ("tanh", "wgmma", "to f16"); none: everything, about a minute on 16 cores.
//
// Build: gcc -O2 -c src/base/num.c src/base/arena.c src/emu/approx.c src/emu/wgmma_num.c
//        nvcc -O2 -std=c++17 -gencode arch=compute_90a,code=sm_90a tools/number_check.cu \
//             num.o arena.o approx.o wgmma_num.o -o number_check
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

extern "C" {
#include "../src/emu/approx.h"
#include "../src/emu/wgmma_num.h"
}
#include "../tests/unit/wgmma_cases.h"

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

// ---- functions of one 32-bit word --------------------------------------------------------------
enum { EX2, RCP, RSQRT, LG2, TANH, TO_BF16, TO_F16, TO_E4M3, TO_E5M2, TO_TF32, FROM_F16,
       FROM_E4M3, FROM_E5M2, OPERATIONS };
static const char *const names[OPERATIONS] = {
    "ex2.approx.ftz", "rcp.approx.ftz", "rsqrt.approx.ftz", "lg2.approx.ftz", "tanh.approx",
    "f32 to bf16", "f32 to f16", "f32 to e4m3", "f32 to e5m2", "f32 to tf32", "f16 to f32",
    "e4m3 to f32", "e5m2 to f32"};
static const u64 inputs[OPERATIONS] = {1ull << 32, 1ull << 32, 1ull << 32, 1ull << 32,
                                       1ull << 32, 1ull << 32, 1ull << 32, 1ull << 32,
                                       1ull << 32, 1ull << 32, 1 << 16,    1 << 8,     1 << 8};

template <int op> __device__ u32 on_device(u32 i)
{
    float x = __uint_as_float(i), y = 0;
    u32 r = 0;
    u16 h = (u16)i;
    if (op == EX2) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == RCP) asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == RSQRT) asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == LG2) asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == TANH) asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op <= TANH) return __float_as_uint(y);
    if (op == TO_BF16) asm volatile("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(r) : "f"(x));
    if (op == TO_F16) asm volatile("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    if (op == TO_E4M3) asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(h) : "f"(x));
    if (op == TO_E5M2) asm volatile("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(h) : "f"(x));
    if (op == TO_TF32) asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    if (op == TO_TF32) return r;
    if (op == TO_BF16) return r & 0xffff;
    if (op == TO_F16) return h;
    if (op == TO_E4M3 || op == TO_E5M2) return h & 0xff;
    if (op == FROM_E4M3) asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(h));
    if (op == FROM_E5M2) asm volatile("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(h));
    if (op != FROM_F16) h = (u16)r;
    asm volatile("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(h));
    return __float_as_uint(y);
}

static u32 on_host(int op, u32 i)
{
    float x = f32_of_bits(i);
    switch (op) {
    case EX2: return f32_bits(approx_ex2_ftz(x));
    case RCP: return f32_bits(approx_rcp_ftz(x));
    case RSQRT: return f32_bits(approx_rsqrt_ftz(x));
    case LG2: return f32_bits(approx_lg2_ftz(x));
    case TANH: return f32_bits(approx_tanh(x));
    case TO_BF16: return bf16_from_f32(x);
    case TO_F16: return f16_from_f32(x);
    case TO_E4M3: return e4m3_from_f32(x);
    case TO_E5M2: return e5m2_from_f32(x);
    case TO_TF32: return tf32_from_f32(x);
    case FROM_F16: return f32_bits(f16_to_f32((u16)i));
    case FROM_E4M3: return f32_bits(e4m3_to_f32((u8)i));
    default: return f32_bits(e5m2_to_f32((u8)i));
    }
}

template <int op> __global__ void fill(u32 *out, u32 first, u32 n)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = on_device<op>(first + i);
}

struct Tally {
    std::atomic<u64> differ{0};
    std::atomic<int> shown{0};
};

static void compare_range(int op, const u32 *card, u64 first, u64 begin, u64 end, Tally *tally)
{
    u64 bad = 0;
    for (u64 i = begin; i < end; i++) {
        u32 input = (u32)(first + i), want = on_host(op, input);
        if (card[i] == want) continue;
        bad++;
        if (tally->shown++ < 6)
            printf("  %s(%08x): card %08x, emulator %08x\n", names[op], input, card[i], want);
    }
    tally->differ += bad;
}

template <int op> u64 compare()
{
    enum { CHUNK = 1 << 26 };
    u32 *device, *host;
    CHECK(cudaMalloc(&device, CHUNK * 4ull));
    CHECK(cudaMallocHost(&host, CHUNK * 4ull));
    Tally tally;
    for (u64 first = 0; first < inputs[op]; first += CHUNK) {
        u64 n = std::min<u64>(CHUNK, inputs[op] - first);
        fill<op><<<(unsigned)((n + 255) / 256), 256>>>(device, (u32)first, (u32)n);
        CHECK(cudaMemcpy(host, device, n * 4, cudaMemcpyDeviceToHost));
        unsigned count = std::max(1u, std::thread::hardware_concurrency());
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < count; t++)
            threads.emplace_back(compare_range, op, host, first, n * t / count,
                                 n * (t + 1) / count, &tally);
        for (std::thread &t : threads) t.join();
    }
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    u64 differ = tally.differ;
    printf("%s: %llu of %llu differ\n", names[op], (unsigned long long)differ,
           (unsigned long long)inputs[op]);
    fflush(stdout);
    return differ;
}

// ---- wgmma -------------------------------------------------------------------------------------
#define WGMMA(shape, tail)                                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\nwgmma.fence.sync.aligned;\n"      \
                 "wgmma.mma_async.sync.aligned." shape                                      \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, %10, %11" tail ";\n}"               \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d),        \
                   "n"(neg_a ? -1 : 1), "n"(neg_b ? -1 : 1))

template <int type, bool neg_a, bool neg_b>
__device__ void instruction(float *d, const u32 *a, u64 b, int scale_d)
{
    if constexpr (type == CASE_BF16) WGMMA("m64n8k16.f32.bf16.bf16", ", 0");
    if constexpr (type == CASE_F16) WGMMA("m64n8k16.f32.f16.f16", ", 0");
    if constexpr (type == CASE_TF32) WGMMA("m64n8k8.f32.tf32.tf32", "");
    if constexpr (type == CASE_E4M3) WGMMA("m64n8k32.f32.e4m3.e4m3", "");
    if constexpr (type == CASE_E5M2) WGMMA("m64n8k32.f32.e5m2.e5m2", "");
}

static __host__ __device__ bool uses_old(u32 number) { return number % 5 != 0; }
static __host__ __device__ bool negates_a(u32 number) { return number % 3 == 1; }
static __host__ __device__ bool negates_b(u32 number) { return number % 4 == 1; }

// One block of 128 threads a case. Row g of an 8-row group and the 4 bytes t of a 16-byte half are
// the same places for every type; B lies without swizzle: 8 rows of 16 bytes, then the other half.
template <int type> __global__ void multiply(const Case *cases, float *out)
{
    __shared__ __align__(128) u8 shared_b[256];
    const Case *my = &cases[blockIdx.x];
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    u32 a[4];
    float d[4];
    for (int i = 0; i < 4; i++) {
        int row = 16 * warp + g + 8 * (i & 1);
        a[i] = *(const u32 *)(my->a + row * CASE_STEP_BYTES + 16 * (i >> 1) + 4 * t);
        d[i] = my->c[(16 * warp + g + 8 * (i >> 1)) * CASE_COLUMNS + 2 * t + (i & 1)];
    }
    for (int i = threadIdx.x; i < 256; i += 128)
        shared_b[i % 32 / 16 * 128 + i / 32 * 16 + i % 16] = my->b[i];
    u32 start = (u32)__cvta_generic_to_shared(shared_b);
    u64 descriptor = (start & 0x3ffff) >> 4 | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    int old = uses_old(blockIdx.x);
    bool neg_a = negates_a(blockIdx.x), neg_b = negates_b(blockIdx.x);
    if (neg_a && neg_b) instruction<type, true, true>(d, a, descriptor, old);
    else if (neg_a) instruction<type, true, false>(d, a, descriptor, old);
    else if (neg_b) instruction<type, false, true>(d, a, descriptor, old);
    else instruction<type, false, false>(d, a, descriptor, old);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++)
        out[blockIdx.x * CASE_ROWS * CASE_COLUMNS +
            (16 * warp + g + 8 * (i >> 1)) * CASE_COLUMNS + 2 * t + (i & 1)] = d[i];
}

static u64 compare_wgmma(int type, int family)
{
    static const DType types[CASE_TYPES] = {DT_BF16, DT_F16, DT_TF32, DT_E4M3, DT_E5M2};
    enum { CASES = 1500, DIGEST_CASES = 60, OUTPUTS = CASE_ROWS * CASE_COLUMNS };
    std::vector<Case> cases(CASES);
    std::vector<float> got(CASES * OUTPUTS);
    for (u32 i = 0; i < CASES; i++) case_make(&cases[i], type, family, i);
    Case *device_cases;
    float *device_out;
    CHECK(cudaMalloc(&device_cases, sizeof(Case) * CASES));
    CHECK(cudaMalloc(&device_out, got.size() * 4));
    CHECK(cudaMemcpy(device_cases, cases.data(), sizeof(Case) * CASES, cudaMemcpyHostToDevice));
    if (type == CASE_BF16) multiply<CASE_BF16><<<CASES, 128>>>(device_cases, device_out);
    if (type == CASE_F16) multiply<CASE_F16><<<CASES, 128>>>(device_cases, device_out);
    if (type == CASE_TF32) multiply<CASE_TF32><<<CASES, 128>>>(device_cases, device_out);
    if (type == CASE_E4M3) multiply<CASE_E4M3><<<CASES, 128>>>(device_cases, device_out);
    if (type == CASE_E5M2) multiply<CASE_E5M2><<<CASES, 128>>>(device_cases, device_out);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), device_out, got.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_cases));
    CHECK(cudaFree(device_out));

    u64 differ = 0;
    for (u32 i = 0; i < CASES * OUTPUTS; i++) {
        const Case *c = &cases[i / OUTPUTS];
        u32 number = i / OUTPUTS, row = i % OUTPUTS / CASE_COLUMNS, column = i % CASE_COLUMNS;
        float want = wgmma_reference(types[type], wgmma_k(types[type]),
                                     c->a + row * CASE_STEP_BYTES, c->b + column * CASE_STEP_BYTES,
                                     c->c[i % OUTPUTS], uses_old(number),
                                     negates_a(number) != negates_b(number));
        if (f32_bits(want) == f32_bits(got[i])) continue;
        if (differ++ < 4)
            printf("  %s family %d case %u row %u column %u: card %08x, emulator %08x, c %08x\n",
                   case_types[type].name, family, number, row, column, f32_bits(got[i]),
                   f32_bits(want), f32_bits(c->c[i % OUTPUTS]));
    }
    u64 digest = case_digest(CASE_DIGEST_START, got.data(), DIGEST_CASES * OUTPUTS);
    printf("wgmma %s family %d: %llu of %d differ, digest 0x%016llx\n", case_types[type].name,
           family, (unsigned long long)differ, CASES * OUTPUTS, (unsigned long long)digest);
    fflush(stdout);
    return differ;
}

static bool wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    typedef u64 Compare();
    static Compare *const all[OPERATIONS] = {
        compare<EX2>,     compare<RCP>,     compare<RSQRT>,   compare<LG2>,      compare<TANH>,
        compare<TO_BF16>, compare<TO_F16>,  compare<TO_E4M3>, compare<TO_E5M2>,  compare<TO_TF32>,
        compare<FROM_F16>, compare<FROM_E4M3>, compare<FROM_E5M2>};
    u64 differ = 0;
    if (wanted(argc, argv, "wgmma"))
        for (int type = 0; type < CASE_TYPES; type++)
            for (int family = 0; family < FAMILIES; family++) differ += compare_wgmma(type, family);
    for (int op = 0; op < OPERATIONS; op++)
        if (wanted(argc, argv, names[op])) differ += all[op]();
    return differ ? 1 : 0;
}
