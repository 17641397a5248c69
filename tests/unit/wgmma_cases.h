// wgmma_cases.h - pseudo-random operands for one m64n8 instruction, the same on every machine: the
// unit test computes results from them, and tools/wgmma_probe.cu lets a GPU compute the same ones.
// C and C++.
#ifndef WGMMA_CASES_H
#define WGMMA_CASES_H

#include <stdint.h>
#include <string.h>

enum { CASE_ROWS = 64, CASE_COLUMNS = 8, CASE_STEP_BYTES = 32 };

// What the exponents look like.
enum {
    FAMILY_NARROW,   // within 2^-4 .. 2^4
    FAMILY_WIDE,     // anywhere finite, small numbers of denormals and zeros
    FAMILY_SMALL,    // products and sums around the smallest normal float, many denormals
    FAMILY_SPECIAL,  // mostly narrow, with infinities, NaN, zeros, largest and smallest numbers
    FAMILY_BITS,     // any bit pattern
    FAMILIES
};

// An element format; a tf32 element has its 19 bits on top and noise in the low 13.
typedef struct {
    const char *name;
    int exp_bits, frac_bits, bytes;
} CaseType;
enum { CASE_BF16, CASE_F16, CASE_TF32, CASE_E4M3, CASE_E5M2, CASE_TYPES };
static const CaseType case_types[CASE_TYPES] = {
    {"bf16", 8, 7, 2}, {"f16", 5, 10, 2}, {"tf32", 8, 10, 4}, {"e4m3", 4, 3, 1}, {"e5m2", 5, 2, 1}};

typedef struct {
    uint8_t a[CASE_ROWS * CASE_STEP_BYTES];    // [64][k]
    uint8_t b[CASE_COLUMNS * CASE_STEP_BYTES]; // [8][k]
    float c[CASE_ROWS * CASE_COLUMNS];         // [64][8]
} Case;

static inline uint32_t case_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 32);
}

static inline uint32_t case_number(uint64_t *state, int family, int exp_bits, int frac_bits)
{
    uint32_t ones = (1u << exp_bits) - 1, bias = ones / 2, r = case_random(state);
    uint32_t frac = r & ((1u << frac_bits) - 1), sign = r >> 31, field = 0;
    uint32_t pick = case_random(state), special = pick >> 8 & 7;
    switch (family) {
    case FAMILY_BITS:
        return sign << (exp_bits + frac_bits) | (pick >> 16 & ones) << frac_bits | frac;
    case FAMILY_WIDE: field = pick % ones; break;
    case FAMILY_SMALL: field = exp_bits == 8 ? (pick & 1 ? pick / 2 % 4 : bias - 8 + pick / 2 % 28)
                                             : pick % 3; break;
    default: field = bias - 4 + pick % 9; break;
    }
    if (family != FAMILY_WIDE && (pick >> 12 & 15) == 0) field = frac = 0;
    if (family == FAMILY_SPECIAL && (pick >> 16 & 31) == 0) {
        field = special < 4 ? ones : special == 4 ? 0 : special == 5 ? ones - 1 : field;
        if (special < 3) frac = 0;                // infinity (e4m3: 256)
        if (special == 6) field = frac = 0;
    }
    return sign << (exp_bits + frac_bits) | field << frac_bits | frac;
}

// The accumulator: exponents over the range of the products and a little beyond.
static inline float case_accumulator(uint64_t *state, int family, const CaseType *t)
{
    uint32_t r = case_random(state), pick = case_random(state), field;
    int reach = t->exp_bits == 8 ? 126 : 34;
    if ((pick >> 24 & 7) == 0 && family != FAMILY_BITS) return 0;
    field = family == FAMILY_WIDE    ? (uint32_t)(127 - reach) + pick % (2 * (uint32_t)reach)
            : family == FAMILY_SMALL ? (t->exp_bits == 8 ? pick % 40 : 90 + pick % 30)
            : family == FAMILY_BITS  ? pick & 255
                                     : 127 - 9 + pick % 18;
    if (family == FAMILY_SPECIAL && (pick >> 16 & 31) == 0) field = pick & 1 ? 255 : 254;
    uint32_t bits = (r & 0x807fffff) | field << 23;
    if (family == FAMILY_SPECIAL && field == 255 && (pick & 2)) bits &= 0xff800000;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline void case_make(Case *out, int type, int family, uint32_t number)
{
    const CaseType *t = &case_types[type];
    uint64_t state = ((uint64_t)number << 8 | (uint32_t)type << 4 | (uint32_t)family) * 2654435761u;
    int k = CASE_STEP_BYTES / t->bytes;
    for (int i = 0; i < (CASE_ROWS + CASE_COLUMNS) * k; i++) {
        uint32_t bits = case_number(&state, family, t->exp_bits, t->frac_bits);
        if (t->bytes == 4) bits = bits << 13 | (case_random(&state) & 0x1fff);
        uint8_t *p = i < CASE_ROWS * k ? out->a + i * t->bytes
                                       : out->b + (i - CASE_ROWS * k) * t->bytes;
        for (int j = 0; j < t->bytes; j++) p[j] = (uint8_t)(bits >> (8 * j));
    }
    for (int i = 0; i < CASE_ROWS * CASE_COLUMNS; i++)
        out->c[i] = case_accumulator(&state, family, t);
}

// Digest of results, NaN taken as one value (all of them are 0x7fffffff on the hardware anyway).
#define CASE_DIGEST_START 14695981039346656037ull
static inline uint64_t case_digest(uint64_t h, const float *d, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &d[i], 4);
        for (int j = 0; j < 4; j++) h = (h ^ (u >> (8 * j) & 255)) * 1099511628211ull;
    }
    return h;
}

#endif
