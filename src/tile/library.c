// library.c - the built-in functions that the machine has no instruction for, as device helpers.
//
// They are written in the C of device helpers and inlined like those (resolve_call.c), so GPU,
// emulator and CUDA C++ compute the same bits: every step is an operation with an exact rule. The
// polynomials are Chebyshev fits of the named quotients, rounded to f32. docs/language.md states
// the accuracies; tests/unit/library_check.py measures them on the emulator.
#include "from_ast.h"

#include <string.h>

#define BITS(x) "__float_as_int(" x ")"

static const TileLibraryFunction library[] = {
    // Toward zero, then one down where that went up. From 2^23 on all floats are whole.
    {"__floor",
     "__device__ float __floor(float x) {\n"
     "  float t = (float)(int)x;\n"
     "  float f = t > x ? t - 1.0f : t;\n"
     "  f = __int_as_float(" BITS("f") " | (" BITS("x") " & 0x80000000u));\n"
     "  return __fabs(x) < 8388608.0f ? f : x;\n"
     "}\n"},
    {"__ceil", "__device__ float __ceil(float x) { return -__floor(-x); }\n"},
    // Halves away from zero.
    {"__round",
     "__device__ float __round(float x) {\n"
     "  float a = __fabs(x);\n"
     "  float t = (float)(int)a;\n"
     "  t = a - t >= 0.5f ? t + 1.0f : t;\n"
     "  t = __int_as_float(" BITS("t") " | (" BITS("x") " & 0x80000000u));\n"
     "  return a < 8388608.0f ? t : x;\n"
     "}\n"},
    // x = q pi/2 + r, |r| <= pi/4, q whole: pi/2 in three parts whose products with q are exact
    // sums. Beyond 6 million q would have no room for its low bits: not a number.
    {"__trig",
     "__device__ void __trig(float x, float &s, float &c, int &q) {\n"
     "  float n = __fmaf(x, 0.636619747f, 12582912.0f) - 12582912.0f;\n"
     "  float r = __fmaf(-n, 1.57079601f, x);\n"
     "  r = __fmaf(-n, 3.1391647326017846e-07f, r);\n"
     "  r = __fmaf(-n, 5.3903029534742384e-15f, r);\n"
     "  r = __fabs(x) <= 6000000.0f ? r : __int_as_float(0x7fffffff);\n"
     "  q = (int)n;\n"
     "  float z = r * r;\n"
     "  s = __fmaf(2.72499005e-06f, z, -0.00019840087f);\n"
     "  s = __fmaf(s, z, 0.00833333191f);\n"
     "  s = __fmaf(s, z, -0.166666672f);\n"
     "  s = __fmaf(s * z, r, r);\n"
     "  c = __fmaf(2.45479223e-05f, z, -0.00138883025f);\n"
     "  c = __fmaf(c, z, 0.0416666642f);\n"
     "  c = __fmaf(c, z, -0.5f);\n"
     "  c = __fmaf(c, z, 1.0f);\n"
     "}\n"},
    {"__sin",
     "__device__ float __sin(float x) {\n"
     "  float s = 0.0f; float c = 0.0f; int q = 0;\n"
     "  __trig(x, s, c, q);\n"
     "  float v = (q & 1) != 0 ? c : s;\n"
     "  return (q & 2) != 0 ? -v : v;\n"
     "}\n"},
    {"__cos",
     "__device__ float __cos(float x) {\n"
     "  float s = 0.0f; float c = 0.0f; int q = 0;\n"
     "  __trig(x, s, c, q);\n"
     "  float v = (q & 1) != 0 ? s : c;\n"
     "  return ((q + 1) & 2) != 0 ? -v : v;\n"
     "}\n"},
    {"__tan",
     "__device__ float __tan(float x) {\n"
     "  float s = 0.0f; float c = 0.0f; int q = 0;\n"
     "  __trig(x, s, c, q);\n"
     "  return (q & 1) != 0 ? -c / s : s / c;\n"
     "}\n"},
    // e^x = 2^j e^f, |f| <= ln 2 / 2. Half the scale first, so that j = 128 is one too. The bounds
    // are where the result is -1 and infinity.
    {"__expm1",
     "__device__ float __expm1(float x) {\n"
     "  float b = __min(__max(x, -20.0f), 88.9f);\n"
     "  float n = __fmaf(b, 1.44269502f, 12582912.0f) - 12582912.0f;\n"
     "  float f = __fmaf(-n, 0.693145752f, b);\n"
     "  f = __fmaf(-n, 1.42860677e-06f, f);\n"
     "  float p = __fmaf(0.00019841270f, f, 0.00138888889f);\n"
     "  p = __fmaf(p, f, 0.00833333333f);\n"
     "  p = __fmaf(p, f, 0.0416666667f);\n"
     "  p = __fmaf(p, f, 0.166666667f);\n"
     "  p = __fmaf(p, f, 0.5f);\n"
     "  p = __fmaf(p * f, f, f);\n"
     "  float s = __int_as_float(((int)n + 126) << 23);\n"
     "  float v = 2.0f * __fmaf(p, s, s - 0.5f);\n"
     "  v = __fabs(x) < 1.0e-07f ? x : v;\n"
     "  return x == x ? v : x;\n"
     "}\n"},
    // 1 + x = 2^e (1 + m), m from -1/4 to 1/2 without the rounding of the sum: x 2^-e and 2^-e - 1
    // are added. The quotient is (log(1 + m) - m) / m^2.
    {"__log1p",
     "__device__ float __log1p(float x) {\n"
     "  int e = (" BITS("1.0f + x") " - 0x3f400000) & -8388608;\n"
     "  float s = __int_as_float(0x40800000 - e);\n"
     "  float m = __fmaf(x, 0.25f * s, __fmaf(0.25f, s, -1.0f));\n"
     "  float p = __fmaf(0.03944223f, m, -0.0929186866f);\n"
     "  p = __fmaf(p, m, 0.11716111f);\n"
     "  p = __fmaf(p, m, -0.12699309f);\n"
     "  p = __fmaf(p, m, 0.142704621f);\n"
     "  p = __fmaf(p, m, -0.16656667f);\n"
     "  p = __fmaf(p, m, 0.199999258f);\n"
     "  p = __fmaf(p, m, -0.25000152f);\n"
     "  p = __fmaf(p, m, 0.333333343f);\n"
     "  p = __fmaf(p, m, -0.5f);\n"
     "  float v = __fmaf((float)(e >> 23), 0.693147182f, __fmaf(p * m, m, m));\n"
     "  v = x > 3.4028234e38f ? x : v;\n"
     "  v = x > -1.0f ? v : x == -1.0f ? -1.0f / 0.0f : __int_as_float(0x7fffffff);\n"
     "  return x == x ? v : x;\n"
     "}\n"},
    // |x| = 2^e (1 + m); log2 |x| as the sum of two floats, so that y times it is exact enough.
    {"__pow",
     "__device__ float __pow(float x, float y) {\n"
     "  float a = __fabs(x);\n"
     "  float tiny = a < 1.17549435e-38f ? 16777216.0f : 1.0f;\n"
     "  float w = a * tiny;\n"
     "  int e = (" BITS("w") " - 0x3f400000) & -8388608;\n"
     "  float m = __int_as_float(" BITS("w") " - e) - 1.0f;\n"
     "  float p = __fmaf(0.056903109f, m, -0.134053335f);\n"
     "  p = __fmaf(p, m, 0.169027746f);\n"
     "  p = __fmaf(p, m, -0.183212295f);\n"
     "  p = __fmaf(p, m, 0.205879256f);\n"
     "  p = __fmaf(p, m, -0.240304902f);\n"
     "  p = __fmaf(p, m, 0.28853792f);\n"
     "  p = __fmaf(p, m, -0.360675961f);\n"
     "  p = __fmaf(p, m, 0.48089838f);\n"
     "  float square = m * m;\n"
     "  float rest = __fmaf(m, m, -square);\n"
     "  float h = m * 1.44269502f;\n"
     "  float l = __fmaf(m, 1.44269502f, -h) + m * 1.92596303e-08f;\n"
     "  float g = square * -0.721347511f;\n"
     "  l = l + __fmaf(square, -0.721347511f, -g) + rest * -0.721347511f + p * m * square;\n"
     "  float t = h + g;\n"
     "  float back = t - h;\n"
     "  l = l + ((h - (t - back)) + (g - back));\n"
     "  float whole = (float)(e >> 23) - (tiny > 1.0f ? 24.0f : 0.0f);\n"
     "  float high = whole + t;\n"
     "  back = high - whole;\n"
     "  l = l + ((whole - (high - back)) + (t - back));\n"
     "  float sum = high + l;\n"
     "  l = l - (sum - high);\n"
     "  float z = y * sum;\n"
     "  float low = __fmaf(y, sum, -z) + y * l;\n"
     "  z = __min(__max(z, -400.0f), 400.0f);\n"
     "  float n = (z + 12582912.0f) - 12582912.0f;\n"
     "  low = __fabs(low) < 1.0f ? low : 0.0f;\n"
     "  float v = __exp2f((z - n) + low);\n"
     "  int k = (int)n;\n"
     "  int k1 = k >> 2;\n"
     "  float s = __int_as_float((k1 + 127) << 23);\n"
     "  v = v * s * s * s * __int_as_float((k - 3 * k1 + 127) << 23);\n"
     "  float flat = __floor(y);\n"
     "  float middle = y * 0.5f;\n"
     "  bool odd = flat == y && __floor(middle) != middle;\n"
     "  float infinite = 1.0f / 0.0f;\n"
     "  v = a == 0.0f ? (y < 0.0f ? infinite : 0.0f) : v;\n"
     "  v = a == infinite ? (y < 0.0f ? 0.0f : infinite) : v;\n"
     "  v = __fabs(y) == infinite ? ((a > 1.0f) == (y > 0.0f) ? infinite : 0.0f) : v;\n"
     "  v = a == 1.0f ? 1.0f : v;\n"
     "  float sign = (" BITS("x") " < 0) && odd ? -v : v;\n"
     "  v = x < 0.0f && flat != y && a < infinite ? __int_as_float(0x7fffffff) : sign;\n"
     "  v = x == x && y == y ? v : __int_as_float(0x7fffffff);\n"
     "  return x == 1.0f || y == 0.0f ? 1.0f : v;\n"
     "}\n"},
    // With u = e^(|x|/2) - 1 and v = u + 1: e^|x| - 1 = u (u + 2), and e^|x| / 2 = v / 2 v.
    {"__sinh",
     "__device__ float __sinh(float x) {\n"
     "  float a = __fabs(x);\n"
     "  float u = __expm1(a * 0.5f);\n"
     "  float v = u + 1.0f;\n"
     "  float t = u * (u + 2.0f);\n"
     "  float s = a < 1.0f ? 0.5f * (t + t / (t + 1.0f)) : 0.5f * v * v - 0.5f / (v * v);\n"
     "  s = __int_as_float(" BITS("s") " | (" BITS("x") " & 0x80000000u));\n"
     "  return x == x ? s : x;\n"
     "}\n"},
    {"__cosh",
     "__device__ float __cosh(float x) {\n"
     "  float v = __expm1(__fabs(x) * 0.5f) + 1.0f;\n"
     "  return 0.5f * v * v + 0.5f / (v * v);\n"
     "}\n"},
    // asin of s from 0 to 1/2, z = s^2: (asin(s) - s) / s^3.
    {"__arc",
     "__device__ float __arc(float s, float z) {\n"
     "  float p = __fmaf(0.0336908475f, z, 0.0171492379f);\n"
     "  p = __fmaf(p, z, 0.0311006624f);\n"
     "  p = __fmaf(p, z, 0.0445994027f);\n"
     "  p = __fmaf(p, z, 0.0750009418f);\n"
     "  p = __fmaf(p, z, 0.166666657f);\n"
     "  return __fmaf(p * z, s, s);\n"
     "}\n"},
    {"__asin",
     "__device__ float __asin(float x) {\n"
     "  float a = __fabs(x);\n"
     "  float z = a <= 0.5f ? a * a : __fmaf(-0.5f, a, 0.5f);\n"
     "  float s = a <= 0.5f ? a : __sqrt(z);\n"
     "  float v = __arc(s, z);\n"
     "  v = a <= 0.5f ? v : __fmaf(-2.0f, v, 1.57079637f);\n"
     "  v = __int_as_float(" BITS("v") " | (" BITS("x") " & 0x80000000u));\n"
     "  return a <= 1.0f ? v : __int_as_float(0x7fffffff);\n"
     "}\n"},
    {"__acos",
     "__device__ float __acos(float x) {\n"
     "  float a = __fabs(x);\n"
     "  float z = a <= 0.5f ? a * a : __fmaf(-0.5f, a, 0.5f);\n"
     "  float s = a <= 0.5f ? x : __sqrt(z);\n"
     "  float v = __arc(s, z);\n"
     "  float far = x > 0.0f ? 2.0f * v : __fmaf(-2.0f, v, 3.14159274f);\n"
     "  v = a <= 0.5f ? 1.57079637f - (v - -4.37113883e-08f) : far;\n"
     "  return a <= 1.0f ? v : __int_as_float(0x7fffffff);\n"
     "}\n"},
    // (atan(s) - s) / s^3 for s from 0 to 1; beyond 1 by the reciprocal.
    {"__atan_ratio",
     "__device__ float __atan_ratio(float small, float large, bool swapped) {\n"
     "  float s = small / large;\n"
     "  float z = s * s;\n"
     "  float p = __fmaf(-0.00238699722f, z, 0.0135077713f);\n"
     "  p = __fmaf(p, z, -0.0358715393f);\n"
     "  p = __fmaf(p, z, 0.0625016913f);\n"
     "  p = __fmaf(p, z, -0.0865688026f);\n"
     "  p = __fmaf(p, z, 0.110337645f);\n"
     "  p = __fmaf(p, z, -0.142785683f);\n"
     "  p = __fmaf(p, z, 0.199997395f);\n"
     "  p = __fmaf(p, z, -0.333333313f);\n"
     "  float v = __fmaf(p * z, s, s);\n"
     "  return swapped ? 1.57079637f - v : v;\n"
     "}\n"},
    {"__atan",
     "__device__ float __atan(float x) {\n"
     "  float a = __fabs(x);\n"
     "  float v = __atan_ratio(a > 1.0f ? 1.0f : a, a > 1.0f ? a : 1.0f, a > 1.0f);\n"
     "  v = __int_as_float(" BITS("v") " | (" BITS("x") " & 0x80000000u));\n"
     "  return x == x ? v : x;\n"
     "}\n"},
    // The angle of (x, y): of equal magnitudes, zeros and infinities among them, the ratio is 1.
    {"__atan2",
     "__device__ float __atan2(float y, float x) {\n"
     "  float a = __fabs(y);\n"
     "  float b = __fabs(x);\n"
     "  bool same = a == b;\n"
     "  float small = same ? (a == 0.0f ? 0.0f : 1.0f) : __min(a, b);\n"
     "  float large = same ? 1.0f : __max(a, b);\n"
     "  float v = __atan_ratio(small, large, a > b);\n"
     "  v = " BITS("x") " < 0 ? 3.14159274f - v : v;\n"
     "  v = __int_as_float(" BITS("v") " | (" BITS("y") " & 0x80000000u));\n"
     "  return x == x && y == y ? v : __int_as_float(0x7fffffff);\n"
     "}\n"},
};

const TileLibraryFunction *tile_library(const char *name)
{
    for (int i = 0; i < COUNT(library); i++)
        if (!strcmp(library[i].name, name)) return &library[i];
    return NULL;
}
