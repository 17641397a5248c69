// sha256.h - SHA-256 (FIPS 180-4), to say which sources and which generated code were measured.
#ifndef BATON_SHA256_H
#define BATON_SHA256_H

#include "base.h"

void sha256(const void *p, size_t n, u8 digest[32]);
// As 64 lower-case hexadecimal digits, which live in the arena.
const char *sha256_hex(Arena *a, const void *p, size_t n);
// Of a whole file; NULL when it cannot be read.
const char *sha256_file(Arena *a, const char *path);

#endif
