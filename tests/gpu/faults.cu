// faults.cu - three kernels that are wrong on purpose, one for each tool of compute-sanitizer that
// tools/sanitize.py runs: a tool that stays silent about its kernel is not to be believed about ours.
//
//     faults memcheck | racecheck | synccheck
#include <cstdio>
#include <cstring>

__global__ void beyond_the_end(int *p) { p[1 << 20] = 1; } // p has 16 bytes

__global__ void race(int *p)
{
    __shared__ int s[64];
    s[threadIdx.x] = (int)threadIdx.x;
    p[0] = s[63 - threadIdx.x]; // another warp's word, without a barrier
}

__global__ void half_a_barrier(int *p)
{
    if (threadIdx.x % 32 < 16) __syncthreads(); // half of each warp never comes
    p[threadIdx.x / 32] = 1;
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    int *p = nullptr;
    if (cudaMalloc(&p, 16) != cudaSuccess) return 3;
    if (!strcmp(which, "memcheck")) beyond_the_end<<<1, 1>>>(p);
    else if (!strcmp(which, "racecheck")) race<<<1, 64>>>(p);
    else half_a_barrier<<<1, 64>>>(p);
    printf("%s: %s\n", which, cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
