// cubin.h - the parts of an assembled GPU program that the audit reads: the code of each kernel
// and, where the assembler wrote it, which source line an instruction came from.
//
// Input: the bytes of an ELF file of 64 bits for sm_90, from anywhere. Every offset and count in it
// is checked against the file before it is followed, so that no file, damaged or hostile, leads a
// read outside of it or takes memory beyond a small multiple of its size.
#ifndef BATON_VERIFY_CUBIN_H
#define BATON_VERIFY_CUBIN_H

#include "../base/base.h"

// From this byte of the code on, up to the next row; rows are in order of the offset.
typedef struct {
    u64 offset;
    u32 line;
    const char *file;
} CubinLine;

// One section of code: a kernel with the subroutines that the assembler put behind it, or a device
// function that was compiled by itself.
typedef struct {
    const char *name; // without ".text."
    const u8 *code;   // inside the bytes of the file
    size_t bytes;     // a multiple of 16
    bool entry;       // a kernel: something that can be launched
    VEC(CubinLine) lines;
} CubinText;

typedef struct {
    VEC(CubinText) texts;
} Cubin;

// Size of one instruction of sm_90, and the largest file that is taken, in bytes.
enum { CUBIN_INSTRUCTION = 16, CUBIN_MAX = 64 << 20 };

// NULL, or why the bytes are no such file; the result points into `bytes`.
const char *cubin_read(Arena *a, const u8 *bytes, size_t n, Cubin *out);
// Row that covers the offset, or NULL when there is none.
const CubinLine *cubin_line(const CubinText *t, u64 offset);

#endif
