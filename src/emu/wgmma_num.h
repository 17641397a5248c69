// wgmma_num.h - the arithmetic of one wgmma instruction, bit for bit as Hopper's tensor cores.
//
// The hardware does not round after each addition. One instruction adds K products and the old
// accumulator in one go, in a fixed-point window below the largest of them:
//   1. e = the largest exponent of c and of the nonzero products; a product's exponent is the sum
//      of its factors' exponents (1.5 * 1.5 counts as 0, not 1);
//   2. c and every product are cut toward zero to a multiple of 2^(e - window); the sum is exact;
//   3. the sum is cut toward zero to `fraction` bits after the leading one (and to 2^-149).
//       type            K     window  fraction
//       bf16, f16       16    25      23
//       tf32            8     25      23
//       e4m3, e5m2      32    13      13
// A zero sum is +0. Denormals are kept everywhere. NaN, inf - inf and 0 * inf give 0x7fffffff.
// (Compared with an H200 on 19 million results of pseudo-random operands: every type, denormals,
// infinities and NaN included; low 13 bits of tf32 operands are not looked at.)
// So the order inside an instruction does not matter, the order of instructions does.
#ifndef BATON_EMU_WGMMA_NUM_H
#define BATON_EMU_WGMMA_NUM_H

#include "../base/base.h"

enum { WGMMA_ROWS = 64, WGMMA_MAX_N = 256, WGMMA_MAX_K = 32 };

// K of one instruction for this element type (32 bytes of it), or 0: not an operand type.
int wgmma_k(DType ab);

// One instruction m64nNkK of a whole warpgroup with float accumulators.
//   ab         type of A and B; n: 8 .. 256; k: must be wgmma_k(ab)
//   a          [64][k] raw elements, row by row (u16, u8 or u32 each)
//   b          [n][k] raw elements, one row per column of the result
//   c          [64][n] floats, read and written
//   scale_d    false: the old c is not read, not even its NaNs
//   neg_a, neg_b  the operand counts negated (imm-scale -1)
// Uses up to 80 KB of stack. Picks the widest vector unit at run time; the bits are the same.
void wgmma_step(DType ab, int n, int k, const void *a, const void *b, float *c, bool scale_d,
                bool neg_a, bool neg_b);

// The same without choosing: what processors without AVX-512 get. For tests.
void wgmma_step_portable(DType ab, int n, int k, const void *a, const void *b, float *c,
                         bool scale_d, bool neg_a, bool neg_b);

// The same, one element, written for reading instead of speed: what the fast one is tested against,
// and what it falls back to for infinities, NaN and extreme exponents. `a` and `b` point to k raw
// elements each.
float wgmma_reference(DType ab, int k, const void *a, const void *b, float c, bool scale_d,
                      bool negate);

#endif
