// approx.h - the approximate functions of a Hopper GPU, to the last bit.
//
// ex2, rcp, rsqrt, lg2 (.approx.ftz.f32) and tanh (.approx.f32): the bits that the hardware gives,
// for every float; an H200 was compared over all 2^32 inputs. NaN gives 0x7fffffff. In the .ftz
// ones a denormal argument counts as zero of its sign.
#ifndef BATON_EMU_APPROX_H
#define BATON_EMU_APPROX_H

#include "../base/base.h"

float approx_ex2_ftz(float x);   // 2^x; results below 2^-126 are +0
float approx_rcp_ftz(float x);   // 1/x; results below 2^-126 are zero of their sign
float approx_rsqrt_ftz(float x); // 1/sqrt(x); zero gives infinity of its sign, negative NaN
float approx_lg2_ftz(float x);   // log2(x); zero gives -infinity, negative NaN
float approx_tanh(float x);      // within 2^-16 of tanh(x); denormals stay; not monotone everywhere

// The same over n lanes; `in` and `out` may be the same array.
void approx_ex2_ftz_n(float *out, const float *in, int n);
void approx_rcp_ftz_n(float *out, const float *in, int n);
void approx_rsqrt_ftz_n(float *out, const float *in, int n);
void approx_lg2_ftz_n(float *out, const float *in, int n);
void approx_tanh_n(float *out, const float *in, int n);

#endif
