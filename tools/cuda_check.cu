// cuda_check.cu - each kernel by both printers, PTX through the library and CUDA C++ through its
// own launcher, on the same random data: outputs are compared bit for bit, and both are timed in
// turns. Built and started by cuda_check.sh gpu; the argument is the folder of the PTX files.
//
// One line a case: name, sizes, "equal" or how many bytes differ, milliseconds of both, their
// ratio. Exit status: 0 equal, 1 different or an error, 3 no usable GPU.
#include "../include/baton.h"
extern "C" {
#include "../ops/schedule.h"
}

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string>
#include <vector>

#define DECLARE(name, ...)                                       \
    extern "C" int name##_launch(__VA_ARGS__, cudaStream_t stream); \
    extern "C" const char *name##_message(int code);
#define DECLARE_ATTENTION(name)                                                                \
    DECLARE(name, const void *q, const void *k, const void *v, void *o, i64 B, i64 S, i64 H)
DECLARE_ATTENTION(v1)
#ifdef HAVE_v2
DECLARE_ATTENTION(v2)
#endif
#ifdef HAVE_v3
DECLARE(v3, const void *q, const void *k, const void *v, void *o, const void *tasks, i64 B, i64 S,
        i64 H)
#endif
#ifdef HAVE_v4
DECLARE_ATTENTION(v4)
#endif
DECLARE(gemm, const void *a, const void *b, void *c, i64 M, i64 K, i64 N)
DECLARE(gemm_f16, const void *a, const void *b, void *c, i64 M, i64 K, i64 N)
DECLARE(add, const void *a, const void *b, void *c, i64 N)
DECLARE(copy_tiles, const void *src, void *dst, i64 M, i64 N)
DECLARE(rowsum, const void *x, void *y, i64 M, i64 N)

// ---- data ---------------------------------------------------------------------------------------

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(e));
    std::exit(e == cudaErrorNoDevice ? 3 : 1);
}

__device__ float noise(unsigned long long i, unsigned seed)
{
    unsigned long long x = i * 0x9e3779b97f4a7c15ull + seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (float)((x ^ (x >> 31)) >> 40) * 0x1p-22f - 2.0f; // -2 to 2
}

__global__ void fill(void *p, i64 n, baton_type type, unsigned seed)
{
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n;
         i += (i64)gridDim.x * blockDim.x) {
        float f = noise((unsigned long long)i, seed);
        if (type == BATON_F32) ((float *)p)[i] = f;
        else if (type == BATON_BF16) ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(f);
        else ((__half *)p)[i] = __float2half_rn(f);
    }
}

struct Tensor {
    baton_type type;
    std::vector<i64> dim;
    bool out;
    void *p = nullptr;
    i64 elements() const
    {
        i64 n = 1;
        for (i64 d : dim) n *= d;
        return n;
    }
    size_t bytes() const { return (size_t)elements() * (type == BATON_F32 ? 4 : 2); }
};

struct Case {
    const char *ptx, *sizes;
    std::vector<Tensor> tensors;
    int (*launch)(const std::vector<Tensor> &t, cudaStream_t s);
    const char *(*message)(int code);
};

// ---- both ways ----------------------------------------------------------------------------------

static baton_context *context;
static cudaStream_t stream;

static bool by_ptx(baton_module *m, const Case &c)
{
    std::vector<baton_tensor> args;
    for (const Tensor &t : c.tensors) {
        baton_tensor a = {};
        a.size = sizeof a;
        a.data = t.p;
        a.type = t.type;
        a.rank = (int)t.dim.size();
        for (size_t i = 0; i < t.dim.size(); i++) a.dim[i] = t.dim[i];
        args.push_back(a);
    }
    if (!baton_launch(m, args.data(), (int)args.size(), stream)) return true;
    std::printf("%s %s: %s\n", c.ptx, c.sizes, baton_last_error());
    return false;
}

static bool by_cuda(const Case &c)
{
    int code = c.launch(c.tensors, stream);
    if (code) std::printf("%s %s: %s\n", c.ptx, c.sizes, c.message(code));
    return !code;
}

// Milliseconds of one launch: `n` in a row between two events.
static float time_of(baton_module *m, const Case &c, int n)
{
    cudaEvent_t a, b;
    float ms = 0;
    must(cudaEventCreate(&a), "event");
    must(cudaEventCreate(&b), "event");
    must(cudaEventRecord(a, stream), "event");
    for (int i = 0; i < n; i++)
        if (m) by_ptx(m, c);
        else by_cuda(c);
    must(cudaEventRecord(b, stream), "event");
    must(cudaEventSynchronize(b), "kernel");
    must(cudaEventElapsedTime(&ms, a, b), "event");
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    return ms / (float)n;
}

static float median(std::vector<float> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

// Launches one way into fresh outputs and brings them back.
static bool run(baton_module *m, Case &c, std::vector<std::vector<char>> &out)
{
    for (Tensor &t : c.tensors)
        if (t.out) must(cudaMemset(t.p, 0xff, t.bytes()), "memset");
    if (!(m ? by_ptx(m, c) : by_cuda(c))) return false;
    must(cudaStreamSynchronize(stream), c.ptx);
    for (Tensor &t : c.tensors) {
        if (!t.out) continue;
        out.emplace_back(t.bytes());
        must(cudaMemcpy(out.back().data(), t.p, t.bytes(), cudaMemcpyDeviceToHost), "copy");
    }
    return true;
}

static bool check(const char *folder, Case &c)
{
    std::string path = std::string(folder) + "/" + c.ptx + ".ptx";
    baton_module *m = nullptr;
    if (baton_load_file(context, path.c_str(), &m)) {
        std::printf("%s\n", baton_last_error());
        return false;
    }
    unsigned seed = 1;
    for (Tensor &t : c.tensors) {
        must(cudaMalloc(&t.p, t.bytes() + 16), "malloc");
        fill<<<1024, 256>>>(t.p, t.elements(), t.type, seed++);
    }
    must(cudaDeviceSynchronize(), "fill");
    std::vector<std::vector<char>> a, b;
    bool good = run(m, c, a) && run(nullptr, c, b);
    size_t differ = 0, all = 0, untouched = 0;
    for (size_t i = 0; good && i < a.size(); i++)
        for (size_t k = 0; k < a[i].size(); k++, all++) {
            differ += a[i][k] != b[i][k];
            untouched += (unsigned char)a[i][k] == 0xff;
        }
    std::vector<float> ptx, cuda;
    time_of(m, c, 20);
    time_of(nullptr, c, 20);
    for (int round = 0; good && round < 9; round++) {
        ptx.push_back(time_of(m, c, 20));
        cuda.push_back(time_of(nullptr, c, 20));
    }
    if (good && !differ)
        std::printf("%-10s %-22s equal, %zu bytes (%zu are ff)", c.ptx, c.sizes, all, untouched);
    else if (good)
        std::printf("%-10s %-22s DIFFERENT: %zu of %zu bytes", c.ptx, c.sizes, differ, all);
    if (good)
        std::printf("  PTX %.4f ms  CUDA %.4f ms  %.3f\n", median(ptx), median(cuda),
                    median(cuda) / median(ptx));
    std::fflush(stdout);
    for (Tensor &t : c.tensors) cudaFree(t.p);
    baton_unload(m);
    return good && !differ;
}

// ---- the cases ----------------------------------------------------------------------------------

typedef const std::vector<Tensor> &T;
static int launch_gemm(T t, cudaStream_t s)
{
    return gemm_launch(t[0].p, t[1].p, t[2].p, t[0].dim[0], t[0].dim[1], t[1].dim[0], s);
}
static int launch_gemm_f16(T t, cudaStream_t s)
{
    return gemm_f16_launch(t[0].p, t[1].p, t[2].p, t[0].dim[0], t[0].dim[1], t[1].dim[0], s);
}
static int launch_add(T t, cudaStream_t s)
{
    return add_launch(t[0].p, t[1].p, t[2].p, t[0].dim[0], s);
}
static int launch_copy(T t, cudaStream_t s)
{
    return copy_tiles_launch(t[0].p, t[1].p, t[0].dim[0], t[0].dim[1], s);
}
static int launch_rowsum(T t, cudaStream_t s)
{
    return rowsum_launch(t[0].p, t[1].p, t[0].dim[0], t[0].dim[1], s);
}

// Adds one attention kernel at several sizes.
template <typename Launch, Launch launch>
static int launch_attention(T t, cudaStream_t s)
{
    return launch(t[0].p, t[1].p, t[2].p, t[3].p, t[0].dim[0], t[0].dim[1], t[0].dim[2], s);
}
#define ADD_ATTENTION(cases, name)                                                         \
    add_attention(cases, #name, launch_attention<decltype(&name##_launch), name##_launch>, \
                  name##_message)
static void add_attention(std::vector<Case> &cases, const char *name,
                          int (*launch)(const std::vector<Tensor> &, cudaStream_t),
                          const char *(*message)(int))
{
    static const struct {
        const char *text;
        i64 B, S, H;
    } size[] = {{"B=4 S=4096 H=32", 4, 4096, 32}, {"B=2 S=1001 H=3", 2, 1001, 3},
                {"B=1 S=8192 H=16", 1, 8192, 16}};
    for (const auto &z : size) {
        Tensor in = {BATON_BF16, {z.B, z.S, z.H, 128}, false}, out = in;
        out.out = true;
        cases.push_back({name, z.text, {in, in, in, out}, launch, message});
    }
}
#ifdef HAVE_v3
// The launcher takes the task list as an argument; kept for the sizes of the last call.
static int launch_v3(T t, cudaStream_t s)
{
    static i64 made[3] = {-1, -1, -1};
    static void *list;
    i64 B = t[0].dim[0], S = t[0].dim[1], H = t[0].dim[2], tiles = (S + 127) / 128;
    if (made[0] != B || made[1] != S || made[2] != H) {
        int sms;
        must(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "device");
        OpsScheduleJob job = {};
        job.ctas = std::min((i64)sms, B * H * tiles);
        job.batches = B, job.heads = H, job.tiles = tiles;
        job.fixed_cost = OPS_SCHEDULE_FIXED_COST;
        OpsScheduleSize size;
        const char *why = ops_schedule_size(&job, &size);
        std::vector<i64> scratch(size.scratch_bytes / 8 + 1);
        std::vector<i32> rows(size.list_bytes / 4 + 1);
        if (!why) why = ops_schedule(&job, scratch.data(), rows.data(), nullptr);
        if (why) {
            std::printf("v3: %s\n", why);
            std::exit(1);
        }
        cudaFree(list);
        must(cudaMalloc(&list, size.list_bytes + 16), "malloc");
        must(cudaMemcpy(list, rows.data(), size.list_bytes, cudaMemcpyHostToDevice), "copy");
        made[0] = B, made[1] = S, made[2] = H;
    }
    return v3_launch(t[0].p, t[1].p, t[2].p, t[3].p, list, B, S, H, s);
}
#endif
static Case gemm_case(const char *name, const char *sizes, baton_type t, i64 M, i64 N, i64 K)
{
    std::vector<Tensor> v = {{t, {M, K}, false}, {t, {N, K}, false}, {t, {M, N}, true}};
    if (t == BATON_F16) return {name, sizes, v, launch_gemm_f16, gemm_f16_message};
    return {name, sizes, v, launch_gemm, gemm_message};
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    if (baton_open(nullptr, &context)) {
        std::printf("%s\n", baton_last_error());
        return 3;
    }
    must(cudaStreamCreate(&stream), "stream");
    std::vector<Case> cases = {
        {"add",
         "N=10000001",
         {{BATON_F32, {10000001}, false},
          {BATON_F32, {10000001}, false},
          {BATON_F32, {10000001}, true}},
         launch_add,
         add_message},
        {"copy",
         "M=4096 N=4095",
         {{BATON_BF16, {4096, 4095}, false}, {BATON_BF16, {4096, 4095}, true}},
         launch_copy,
         copy_tiles_message},
        {"rowsum",
         "M=10000 N=1001",
         {{BATON_F32, {10000, 1001}, false}, {BATON_F32, {10000}, true}},
         launch_rowsum,
         rowsum_message},
        gemm_case("gemm", "M=4096 N=4096 K=4096", BATON_BF16, 4096, 4096, 4096),
        gemm_case("gemm", "M=333 N=264 K=200", BATON_BF16, 333, 264, 200),
        gemm_case("gemm", "M=333 N=265 K=201", BATON_BF16, 333, 265, 201), // the kernel without TMA
        gemm_case("gemm_f16", "M=2048 N=2048 K=2048", BATON_F16, 2048, 2048, 2048),
    };
    ADD_ATTENTION(cases, v1);
#ifdef HAVE_v2
    ADD_ATTENTION(cases, v2);
#endif
#ifdef HAVE_v3
    add_attention(cases, "v3", launch_v3, v3_message);
#endif
#ifdef HAVE_v4
    ADD_ATTENTION(cases, v4);
#endif
    bool good = true;
    for (Case &c : cases) good &= check(folder, c);
    std::printf(good ? "both printers agree\n" : "FAILED\n");
    return good ? 0 : 1;
}
