// sha256.c - SHA-256, section 6.2 of FIPS 180-4; names of variables and functions are the
// standard's.
#include "sha256.h"

#include <string.h>

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const u32 K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 rotr(u32 x, int n) { return x >> n | x << (32 - n); }

static void block(u32 H[8], const u8 *M)
{
    u32 W[64];
    for (int t = 0; t < 16; t++, M += 4)
        W[t] = (u32)M[0] << 24 | (u32)M[1] << 16 | (u32)M[2] << 8 | M[3];
    for (int t = 16; t < 64; t++) {
        u32 s0 = rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3;
        u32 s1 = rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10;
        W[t] = s1 + W[t - 7] + s0 + W[t - 16];
    }
    u32 a = H[0], b = H[1], c = H[2], d = H[3], e = H[4], f = H[5], g = H[6], h = H[7];
    for (int t = 0; t < 64; t++) {
        u32 sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25), ch = (e & f) ^ (~e & g);
        u32 sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22), maj = (a & b) ^ (a & c) ^ (b & c);
        u32 T1 = h + sum1 + ch + K[t] + W[t], T2 = sum0 + maj;
        h = g, g = f, f = e, e = d + T1, d = c, c = b, b = a, a = T1 + T2;
    }
    H[0] += a, H[1] += b, H[2] += c, H[3] += d, H[4] += e, H[5] += f, H[6] += g, H[7] += h;
}

void sha256(const void *p, size_t n, u8 digest[32])
{
    // The fractional parts of the square roots of the first eight primes.
    u32 H[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const u8 *M = p;
    size_t left = n;
    for (; left >= 64; left -= 64, M += 64) block(H, M);
    // The rest, a one bit, zeros, and the length in bits: one block, or two.
    u8 end[128] = {0};
    if (left) memcpy(end, M, left);
    end[left] = 0x80;
    size_t blocks = left < 56 ? 1 : 2;
    for (int i = 0; i < 8; i++) end[64 * blocks - 1 - (size_t)i] = (u8)((u64)n * 8 >> 8 * i);
    for (size_t i = 0; i < blocks; i++) block(H, end + 64 * i);
    for (int i = 0; i < 32; i++) digest[i] = (u8)(H[i / 4] >> (24 - 8 * (i % 4)));
}

const char *sha256_hex(Arena *a, const void *p, size_t n)
{
    u8 digest[32];
    sha256(p, n, digest);
    char *s = arena_alloc(a, 65);
    for (int i = 0; i < 32; i++) {
        s[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        s[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    return s;
}

const char *sha256_file(Arena *a, const char *path)
{
    Buf text = {0};
    const char *why = file_read(path, &text, (size_t)1 << 30);
    const char *hex = why ? NULL : sha256_hex(a, text.s, text.n);
    buf_free(&text);
    return hex;
}
