// approx_probe.cu - writes the exact tables behind the approximate instructions of a Hopper GPU.
//
// Each table is an array of 2^23 little-endian u32 (bits of the f32 result) in its own file:
//   ex2_pos   ex2.approx.ftz(+f/2^23)       ex2_neg   ex2.approx.ftz(-f/2^23)
//   rcp       rcp.approx.ftz(1 + f/2^23)
//   rsqrt_1   rsqrt.approx.ftz(1 + f/2^23)  rsqrt_2   rsqrt.approx.ftz(2*(1 + f/2^23))
//   lg2_1     lg2.approx.ftz(1 + f/2^23)    lg2_2     ... of twice that     lg2_half  ... of half
//   tanh_N    tanh.approx(2^(N - 127) * (1 + f/2^23)), N = 119 .. 129 (1/256 .. 8)
// On the screen: a CRC-32 of each table, and counts over all 2^32 floats of how often the tables do
// not determine the instruction ("differ").
//
// Build: nvcc -O2 -gencode arch=compute_90a,code=sm_90a tools/approx_probe.cu -o approx_probe
// Run:   ./approx_probe FOLDER
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

typedef uint32_t u32;
typedef uint64_t u64;
enum { ENTRIES = 1 << 23 };

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t error = (call);                                                    \
        if (error != cudaSuccess) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

enum { EX2, RCP, RSQRT, LG2, TANH };

template <int op> __device__ u32 apply(u32 bits)
{
    float x = __uint_as_float(bits), y;
    if (op == EX2) asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == RCP) asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == RSQRT) asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == LG2) asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    if (op == TANH) asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return __float_as_uint(y);
}

// Entry f of a table of mantissas with the given exponent field of the argument.
template <int op> __global__ void mantissas(u32 *out, u32 field)
{
    u32 f = blockIdx.x * blockDim.x + threadIdx.x;
    out[f] = apply<op>(field << 23 | f);
}

// Entry f of a table of fractions: argument f/2^23 with the given sign bit.
__global__ void fractions(u32 *out, u32 sign)
{
    u32 f = blockIdx.x * blockDim.x + threadIdx.x;
    out[f] = apply<EX2>(__float_as_uint((float)f / 8388608.0f) | sign);
}

// Below 2^-8 tanh is its argument, from 8 on it is 1; a negative argument changes the sign only.
__global__ void tanh_simple(u64 *differ)
{
    u64 count = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < 0x7f800001u; i += step) {
        u32 x = (u32)i, y = apply<TANH>(x);
        u32 want = x < 119u << 23 ? x : x >= 130u << 23 ? 0x3f800000 : y;
        count += y != want;
        count += apply<TANH>(x | 0x80000000) != (y | 0x80000000);
    }
    if (count) atomicAdd((unsigned long long *)differ, count);
}

// All floats: does the table of mantissas (two of them, by the parity of the exponent, for rsqrt)
// times a power of two give the instruction's result, where that is a normal number?
template <int op> __global__ void periodic(const u32 *even, const u32 *odd, u64 *differ)
{
    u64 count = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < 1ull << 32; i += step) {
        u32 x = (u32)i, field = x >> 23 & 255, f = x & 0x7fffff;
        if (field == 0 || field == 255 || (op == RSQRT && x >> 31)) continue;
        int e = (int)field - 127;
        u32 entry = op == RSQRT && (e & 1) ? odd[f] : even[f];
        int shift = op == RCP ? -e : -((e - (e & 1)) / 2);
        int result = (int)(entry >> 23) + shift;
        u32 want = result < 1 ? 0 : (u32)result << 23 | (entry & 0x7fffff);
        count += apply<op>(x) != ((x & 0x80000000) | want);
    }
    if (count) atomicAdd((unsigned long long *)differ, count);
}

static u32 crc32(const std::vector<u32> &data)
{
    static u32 table[256];
    for (u32 i = 0; i < 256; i++) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    u32 crc = ~0u;
    const unsigned char *p = (const unsigned char *)data.data();
    for (size_t i = 0; i < data.size() * 4; i++) crc = table[(crc ^ p[i]) & 255] ^ crc >> 8;
    return ~crc;
}

static void save(const char *folder, const char *name, const u32 *device, size_t n)
{
    CHECK(cudaDeviceSynchronize());
    std::vector<u32> host(n);
    CHECK(cudaMemcpy(host.data(), device, n * 4, cudaMemcpyDeviceToHost));
    FILE *f = fopen((std::string(folder) + "/" + name).c_str(), "wb");
    if (!f || fwrite(host.data(), 4, n, f) != n || fclose(f)) {
        fprintf(stderr, "cannot write %s/%s\n", folder, name);
        exit(1);
    }
    printf("%-9s %zu entries, first %08x, last %08x, crc32 %08x\n", name, n, host[0],
           host[n - 1], crc32(host));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: approx_probe FOLDER\n");
        return 2;
    }
    const char *folder = argv[1];
    u32 *even, *odd;
    u64 *differ, counts[3];
    CHECK(cudaMalloc(&even, ENTRIES * 4));
    CHECK(cudaMalloc(&odd, ENTRIES * 4));
    CHECK(cudaMalloc(&differ, sizeof counts));
    CHECK(cudaMemset(differ, 0, sizeof counts));
    int blocks = ENTRIES / 256;

    fractions<<<blocks, 256>>>(even, 0);
    save(folder, "ex2_pos", even, ENTRIES);
    fractions<<<blocks, 256>>>(even, 0x80000000);
    save(folder, "ex2_neg", even, ENTRIES);

    mantissas<RCP><<<blocks, 256>>>(even, 127);
    save(folder, "rcp", even, ENTRIES);
    periodic<RCP><<<1056, 256>>>(even, odd, &differ[0]);

    mantissas<RSQRT><<<blocks, 256>>>(even, 127);
    mantissas<RSQRT><<<blocks, 256>>>(odd, 128);
    save(folder, "rsqrt_1", even, ENTRIES);
    save(folder, "rsqrt_2", odd, ENTRIES);
    periodic<RSQRT><<<1056, 256>>>(even, odd, &differ[1]);

    const char *names[] = {"lg2_half", "lg2_1", "lg2_2"};
    for (u32 i = 0; i < 3; i++) {
        mantissas<LG2><<<blocks, 256>>>(even, 126 + i);
        save(folder, names[i], even, ENTRIES);
    }
    for (u32 field = 119; field <= 129; field++) {
        mantissas<TANH><<<blocks, 256>>>(even, field);
        save(folder, ("tanh_" + std::to_string(field)).c_str(), even, ENTRIES);
    }
    tanh_simple<<<1056, 256>>>(&differ[2]);

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(counts, differ, sizeof counts, cudaMemcpyDeviceToHost));
    printf("rcp from its table: %llu of all floats differ; rsqrt: %llu; tanh outside 2^-8 .. 8: "
           "%llu\n",
           (unsigned long long)counts[0], (unsigned long long)counts[1],
           (unsigned long long)counts[2]);
    return 0;
}
