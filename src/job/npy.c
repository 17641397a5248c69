// npy.c - reads and writes .npy files. A file is the magic "\x93NUMPY", two bytes of version, the
// length of the header (2 bytes in version 1, else 4), a Python dictionary
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// padded with blanks, and the elements.
#include "npy.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *descr; // without the byte-order character
    DType type;
} Descr;

// NumPy's letters: f float, i and u integers, b bool; then the size in bytes.
static const Descr descrs[] = {
    {"f4", DT_F32}, {"f2", DT_F16}, {"f8", DT_F64}, {"i4", DT_S32}, {"u4", DT_U32}, {"i8", DT_S64},
    {"u8", DT_U64}, {"i2", DT_S16}, {"u2", DT_U16}, {"i1", DT_S8},  {"u1", DT_U8},  {"b1", DT_BOOL},
};

// Finds `'key':` in the header and returns what follows, blanks skipped; NULL when absent.
static const char *value_of(Arena *a, const char *header, const char *key)
{
    const char *at = strstr(header, arena_printf(a, "'%s'", key));
    if (!at) return NULL;
    at += strlen(key) + 2;
    at += strspn(at, " \t");
    if (*at++ != ':') return NULL;
    return at + strspn(at, " \t");
}

// `descr` is a byte order (< little, > big, | none), a kind and a size in bytes, in quotes.
static const char *read_descr(Arena *a, const char *header, DType *out)
{
    const char *s = value_of(a, header, "descr");
    if (!s || *s != '\'') return "its header has no 'descr' with a simple type";
    size_t n = strcspn(s + 1, "'");
    if (n < 3 || n > 4) return "its element type is not one that baton reads";
    if (s[1] == '>') return "it is big-endian; write it little-endian";
    for (int i = 0; i < COUNT(descrs); i++) {
        // Three characters: longer types (16-byte floats, dates) are none that kernels have.
        if (n == 3 && strncmp(s + 2, descrs[i].descr, 2) == 0) {
            *out = descrs[i].type;
            return NULL;
        }
    }
    return arena_printf(a, "its element type '%.*s' is not one that baton reads", (int)n, s + 1);
}

// The limits of 2^40 and 2^44 keep products of extents and element sizes inside 63 bits.
// A tuple such as (3, 4) or (3,), or () for a scalar.
static const char *read_shape(Arena *a, const char *header, NpyArray *out)
{
    const char *s = value_of(a, header, "shape");
    if (!s || *s++ != '(') return "its header has no 'shape'";
    out->count = 1;
    for (;;) {
        s += strspn(s, " ,");
        if (*s == ')') return NULL;
        if (*s < '0' || *s > '9') return "its shape is not a tuple of numbers";
        // Sign and blanks were excluded above, so strtoull reads digits only; too many give its
        // maximum.
        char *end;
        unsigned long long d = strtoull(s, &end, 10);
        if (out->rank == NPY_MAX_RANK)
            return arena_printf(a, "it has more than %d dimensions", NPY_MAX_RANK);
        if (d > (1ull << 40)) return "an extent is beyond 2^40";
        out->dim[out->rank++] = (i64)d;
        if (__builtin_mul_overflow(out->count, (i64)d, &out->count) || out->count > (1ll << 44))
            return "it has too many elements";
        s = end;
    }
}

// The elements are not copied: out->data points into `bytes`.
const char *npy_read(Arena *a, const void *bytes, size_t n, NpyArray *out)
{
    const u8 *p = bytes;
    *out = (NpyArray){0};
    if (n < 10 || memcmp(p, "\x93NUMPY", 6) != 0) return "it is not a .npy file";
    if (p[6] < 1 || p[6] > 3) return "its .npy version is not 1, 2 or 3";
    size_t start = p[6] == 1 ? 10 : 12;
    if (n < start) return "it ends inside its header";
    size_t header_n = p[8] | (size_t)p[9] << 8;
    if (p[6] != 1) header_n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (header_n > n - start) return "it ends inside its header";
    if (header_n > 65536) return "its header is too long";
    // A NUL inside the header ends the search there, which the checks below report.
    const char *header = arena_strndup(a, (const char *)p + start, header_n);

    const char *why = read_descr(a, header, &out->type);
    if (!why) why = read_shape(a, header, out);
    if (why) return why;
    const char *order = value_of(a, header, "fortran_order");
    if (!order || strncmp(order, "False", 5) != 0)
        return "it is in Fortran order; save it with numpy.ascontiguousarray";
    size_t have = n - start - header_n, need = (size_t)out->count * dtype_bytes[out->type];
    if (have < need)
        return arena_printf(a, "it holds %zu bytes of elements where its shape needs %zu", have,
                            need);
    out->data = p + start + header_n;
    return NULL;
}

// What NumPy calls the type, or the integer type that holds its bits.
static const char *descr_of(DType type)
{
    switch (type) {
    case DT_BF16: return "<u2";
    case DT_TF32: return "<f4";
    case DT_E4M3:
    case DT_E5M2:
    case DT_U8: return "|u1";
    case DT_S8: return "|i1";
    case DT_BOOL: return "|b1";
    default: break;
    }
    // In the order of descrs; types of one byte have no byte order and were answered above.
    static const char *const text[] = {"<f4", "<f2", "<f8", "<i4", "<u4",
                                       "<i8", "<u8", "<i2", "<u2"};
    for (int i = 0; i < COUNT(text); i++)
        if (descrs[i].type == type) return text[i];
    BUG("no .npy type for %s", dtype_name[type]);
}

// Version 1: the header's length, a multiple of 64 with what stands before it, is two bytes.
void npy_write(DType type, int rank, const i64 *dim, const void *data, Buf *out)
{
    enum { ALIGN = 64 };
    Buf h = {0};
    i64 count = 1;
    buf_printf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(type));
    for (int i = 0; i < rank; i++) {
        buf_printf(&h, "%s%lld", i ? ", " : "", (long long)dim[i]);
        count *= dim[i];
    }
    // A tuple of one element needs its comma, or Python reads a number.
    buf_puts(&h, rank == 1 ? ",), }" : "), }");
    while ((10 + h.n + 1) % ALIGN) buf_putc(&h, ' ');
    buf_putc(&h, '\n');
    const char start[10] = "\x93NUMPY\x01\x00";
    buf_write(out, start, 8);
    buf_putc(out, (char)(h.n & 255));
    buf_putc(out, (char)(h.n >> 8));
    buf_write(out, h.s, h.n);
    buf_write(out, data, (size_t)count * dtype_bytes[type]);
    buf_free(&h);
}
