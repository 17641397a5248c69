// approx_test.c - the approximate functions against checksums of the tables that an H200 gave:
// every fraction of every function, so that one wrong bit anywhere fails; and special values.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/emu/approx.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct {
    int passed, failed;
} Tally;

static void check(Tally *t, const char *what, u32 input, u32 got, u32 want)
{
    if (got == want) {
        t->passed++;
        return;
    }
    t->failed++;
    printf("%s of %08x: got %08x, want %08x\n", what, input, got, want);
}

// ---- whole tables ------------------------------------------------------------------------------
typedef float Function(float);

// CRC-32 (the one of zip files) of the little-endian results at 2^23 arguments.
static u32 table_checksum(Function *f, bool fractions, u32 base)
{
    u32 step[256], crc = ~0u;
    for (u32 i = 0; i < 256; i++) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        step[i] = c;
    }
    for (u32 i = 0; i < 1u << 23; i++) {
        u32 argument = fractions ? f32_bits((float)i * 0x1p-23f) | base : base | i;
        u32 bits = f32_bits(f(f32_of_bits(argument)));
        for (int k = 0; k < 4; k++) crc = step[(crc ^ bits >> (8 * k)) & 255] ^ crc >> 8;
    }
    return ~crc;
}

static void tables(Tally *t)
{
    static const struct {
        const char *name;
        Function *function;
        bool fractions; // arguments i / 2^23 with the sign `base`; else `base` with fraction i
        u32 base, want; // checksum measured on the card
    } rows[] = {
        {"ex2, fractions", approx_ex2_ftz, true, 0, 0x3fe67d9b},
        {"ex2, negative fractions", approx_ex2_ftz, true, 0x80000000, 0x8af5ea7c},
        {"rcp, 1 .. 2", approx_rcp_ftz, false, 0x3f800000, 0xa9f2ecfc},
        {"rsqrt, 1 .. 2", approx_rsqrt_ftz, false, 0x3f800000, 0xefe1faf5},
        {"rsqrt, 2 .. 4", approx_rsqrt_ftz, false, 0x40000000, 0x510dc204},
        {"lg2, 1/2 .. 1", approx_lg2_ftz, false, 0x3f000000, 0x1852a07c},
        {"lg2, 1 .. 2", approx_lg2_ftz, false, 0x3f800000, 0x15f1d460},
        {"lg2, 2 .. 4", approx_lg2_ftz, false, 0x40000000, 0xf4d108df},
        {"tanh, 2^-8", approx_tanh, false, 0x3b800000, 0xc742a556},
        {"tanh, 2^-7", approx_tanh, false, 0x3c000000, 0x58833800},
        {"tanh, 2^-6", approx_tanh, false, 0x3c800000, 0x6ffb9b37},
        {"tanh, 2^-5", approx_tanh, false, 0x3d000000, 0xa0cc1295},
        {"tanh, 2^-4", approx_tanh, false, 0x3d800000, 0xc0e3159d},
        {"tanh, 2^-3", approx_tanh, false, 0x3e000000, 0x46910649},
        {"tanh, 2^-2", approx_tanh, false, 0x3e800000, 0x82a9da32},
        {"tanh, 2^-1", approx_tanh, false, 0x3f000000, 0x03669e9f},
        {"tanh, 2^0", approx_tanh, false, 0x3f800000, 0x1ac436a3},
        {"tanh, 2^1", approx_tanh, false, 0x40000000, 0xe8641d47},
        {"tanh, 2^2", approx_tanh, false, 0x40800000, 0x294d3119},
    };
    clock_t start = clock();
    for (int i = 0; i < COUNT(rows); i++)
        check(t, rows[i].name, rows[i].base,
              table_checksum(rows[i].function, rows[i].fractions, rows[i].base), rows[i].want);
    printf("tables: %.1f ns an entry\n",
           (double)(clock() - start) / CLOCKS_PER_SEC * 1e9 / ((double)COUNT(rows) * (1 << 23)));
}

// ---- what the tables do not show ---------------------------------------------------------------
static void specials(Tally *t)
{
    static const struct {
        const char *name;
        Function *function;
        u32 input, want;
    } rows[] = {
        {"ex2", approx_ex2_ftz, 0x00000000, 0x3f800000}, // 0
        {"ex2", approx_ex2_ftz, 0x80000000, 0x3f800000}, // -0
        {"ex2", approx_ex2_ftz, 0x807fffff, 0x3f800000}, // denormal
        {"ex2", approx_ex2_ftz, 0x3f800000, 0x40000000}, // 1
        {"ex2", approx_ex2_ftz, 0xbf800000, 0x3f000000}, // -1
        {"ex2", approx_ex2_ftz, 0x42fe0000, 0x7f000000}, // 127
        {"ex2", approx_ex2_ftz, 0xc2fc0000, 0x00800000}, // -126
        {"ex2", approx_ex2_ftz, 0xc2fc0001, 0x00000000}, // just below
        {"ex2", approx_ex2_ftz, 0x43000000, 0x7f800000}, // 128
        {"ex2", approx_ex2_ftz, 0xff800000, 0x00000000},
        {"ex2", approx_ex2_ftz, 0x7f800000, 0x7f800000},
        {"ex2", approx_ex2_ftz, 0xffc00001, 0x7fffffff},
        {"rcp", approx_rcp_ftz, 0x00000000, 0x7f800000},
        {"rcp", approx_rcp_ftz, 0x80000001, 0xff800000}, // denormal
        {"rcp", approx_rcp_ftz, 0xff800000, 0x80000000},
        {"rcp", approx_rcp_ftz, 0x7fc12345, 0x7fffffff},
        {"rcp", approx_rcp_ftz, 0x7e800000, 0x00800000}, // 2^126
        {"rcp", approx_rcp_ftz, 0x7e800001, 0x00000000}, // result below 2^-126
        {"rcp", approx_rcp_ftz, 0x7f7fffff, 0x00000000},
        {"rcp", approx_rcp_ftz, 0xc0000000, 0xbf000000}, // -2
        {"rsqrt", approx_rsqrt_ftz, 0x40800000, 0x3f000000}, // 4
        {"rsqrt", approx_rsqrt_ftz, 0x00800000, 0x5f000000}, // 2^-126
        {"rsqrt", approx_rsqrt_ftz, 0xbf800000, 0x7fffffff},
        {"rsqrt", approx_rsqrt_ftz, 0x00000000, 0x7f800000},
        {"rsqrt", approx_rsqrt_ftz, 0x7f800000, 0x00000000},
        {"lg2", approx_lg2_ftz, 0x00000000, 0xff800000},
        {"lg2", approx_lg2_ftz, 0x007fffff, 0xff800000}, // denormal
        {"lg2", approx_lg2_ftz, 0xbf800000, 0x7fffffff},
        {"lg2", approx_lg2_ftz, 0x7f800000, 0x7f800000},
        {"lg2", approx_lg2_ftz, 0x3f800000, 0x00000000},
        {"lg2", approx_lg2_ftz, 0x40000000, 0x3f800000},
        {"tanh", approx_tanh, 0x7fc12345, 0x7fffffff},
        {"tanh", approx_tanh, 0xff800000, 0xbf800000},
        {"tanh", approx_tanh, 0x41000000, 0x3f800000}, // 8
        {"tanh", approx_tanh, 0xbb7fffff, 0xbb7fffff}, // just below 2^-8
        {"tanh", approx_tanh, 0x80000001, 0x80000001}, // denormal
        {"tanh", approx_tanh, 0xbb800000, 0xbb800000}, // -2^-8
    };
    for (int i = 0; i < COUNT(rows); i++)
        check(t, rows[i].name, rows[i].input,
              f32_bits(rows[i].function(f32_of_bits(rows[i].input))), rows[i].want);
}

// Every exponent: the results stay within the error that all inputs have.
static void exponents(Tally *t)
{
    for (u32 bits = 0x00800000; bits < 0x7f800000; bits += 0x00012345) {
        float x = f32_of_bits(bits);
        double r = 1 / (double)x, q = 1 / sqrt((double)x), l = log2((double)x);
        if (r >= 0x1p-126)
            check(t, "rcp error", bits, fabs(approx_rcp_ftz(x) / r - 1) < 0x1p-23, 1);
        check(t, "rsqrt error", bits, fabs(approx_rsqrt_ftz(x) / q - 1) < 1.26e-7, 1);
        check(t, "lg2 error", bits, fabs(approx_lg2_ftz(x) - l) < 0x1p-22 * fmax(1, fabs(l)), 1);
        check(t, "tanh error", bits, fabs(approx_tanh(-x) / -tanh((double)x) - 1) < 0x1p-16, 1);
        for (int sign = -1; sign <= 1; sign += 2) {
            double e = exp2(sign * (double)x);
            if (e < 0x1p-126 || e >= 0x1p128) continue;
            check(t, "ex2 error", bits, fabs(approx_ex2_ftz((float)sign * x) / e - 1) < 1.47e-7, 1);
        }
    }
}

int main(void)
{
    Tally t = {0, 0};
    tables(&t);
    specials(&t);
    exponents(&t);
    float lanes[3] = {1, 2, 4};
    approx_rcp_ftz_n(lanes, lanes, 3);
    check(&t, "lanes", 0, lanes[0] == 1 && lanes[1] == 0.5f && lanes[2] == 0.25f, 1);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed ? 1 : 0;
}
