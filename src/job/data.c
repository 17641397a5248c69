// data.c - values of inputs from generators and files.
//
// Generated values are a function of seed, parameter and index: every element is hashed by itself,
// so filling in pieces, by any number of threads, gives the same array.
#include "data.h"
#include "parallel.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// Bytes; 64 GB, so that sums of sizes stay small.
static const size_t MAX_FILE = (size_t)1 << 36;

// ---- elements as numbers ------------------------------------------------------------------------
double data_get(DType type, const void *p, i64 i)
{
    switch (type) {
    case DT_F32:
    case DT_TF32: return ((const float *)p)[i];
    case DT_F16: return f16_to_f32(((const u16 *)p)[i]);
    case DT_BF16: return bf16_to_f32(((const u16 *)p)[i]);
    case DT_E4M3: return e4m3_to_f32(((const u8 *)p)[i]);
    case DT_E5M2: return e5m2_to_f32(((const u8 *)p)[i]);
    case DT_F64: return ((const double *)p)[i];
    case DT_S32: return ((const i32 *)p)[i];
    case DT_U32: return ((const u32 *)p)[i];
    case DT_S64: return (double)((const i64 *)p)[i];
    case DT_U64: return (double)((const u64 *)p)[i];
    case DT_S16: return ((const int16_t *)p)[i];
    case DT_U16: return ((const u16 *)p)[i];
    case DT_S8: return ((const int8_t *)p)[i];
    case DT_U8:
    case DT_BOOL: return ((const u8 *)p)[i];
    case DT_COUNT: break;
    }
    BUG("element type %d", type);
}

// A double that an integer type cannot hold becomes the nearest bound; NaN becomes 0.
static i64 to_integer(double v)
{
    if (isnan(v)) return 0;
    if (v >= 9.2e18) return INT64_MAX;
    if (v <= -9.2e18) return INT64_MIN;
    return (i64)v;
}

// Types narrower than f32 are rounded twice, to f32 and from there. Integers take the double as it
// is, cut towards zero, so that every 32-bit one arrives exactly.
void data_put(DType type, void *p, i64 i, double v)
{
    float f = (float)v;
    switch (type) {
    case DT_F32: ((float *)p)[i] = f; return;
    case DT_TF32: ((u32 *)p)[i] = tf32_from_f32(f); return;
    case DT_F16: ((u16 *)p)[i] = f16_from_f32(f); return;
    case DT_BF16: ((u16 *)p)[i] = bf16_from_f32(f); return;
    case DT_E4M3: ((u8 *)p)[i] = e4m3_from_f32(f); return;
    case DT_E5M2: ((u8 *)p)[i] = e5m2_from_f32(f); return;
    case DT_F64: ((double *)p)[i] = v; return;
    case DT_S32:
    case DT_U32: ((u32 *)p)[i] = (u32)to_integer(v); return;
    case DT_S64:
    case DT_U64: ((u64 *)p)[i] = (u64)to_integer(v); return;
    case DT_S16:
    case DT_U16: ((u16 *)p)[i] = (u16)to_integer(v); return;
    case DT_S8:
    case DT_U8: ((u8 *)p)[i] = (u8)to_integer(v); return;
    case DT_BOOL: ((u8 *)p)[i] = v != 0; return;
    case DT_COUNT: break;
    }
    BUG("element type %d", type);
}

// ---- reading a SPEC -----------------------------------------------------------------------------
static const char *const spec_help =
    "one of uniform(a,b), normal(mean,deviation), iota, zeros, a number, list(0,3,7), cuts(S), "
    "FILE.npy, bf16:FILE.npy";

// `name(x,y)`: the two numbers, or false.
static bool two_numbers(const char *s, const char *name, double *x, double *y)
{
    size_t n = strlen(name);
    char *end;
    if (strncmp(s, name, n) != 0) return false;
    s += n + strspn(s + n, " ");
    if (*s++ != '(') return false;
    *x = strtod(s, &end);
    if (end == s) return false;
    s = end + strspn(end, " ");
    if (*s++ != ',') return false;
    *y = strtod(s, &end);
    if (end == s) return false;
    s = end + strspn(end, " ");
    return s[0] == ')' && !s[1 + strspn(s + 1, " ")];
}

// `list(0,3,7)`: the numbers, into the arena. False when it is another word.
static bool read_list(Arena *a, const char *s, DataSpec *out)
{
    VEC(double) v = {0};
    if (strncmp(s, "list(", 5) != 0) return false;
    for (s += 5;;) {
        char *end;
        double x = strtod(s, &end);
        if (end == s) return false;
        vec_push(a, &v, x);
        s = end + strspn(end, " ");
        if (*s == ')') break;
        if (*s++ != ',') return false;
    }
    out->kind = DATA_LIST;
    out->list = v.at;
    out->nlist = v.n;
    return !s[1];
}

// `cuts(12)`, `cuts(S)`: a number, or the name of a size.
static bool read_cuts(Arena *a, const char *s, DataSpec *out)
{
    size_t n = strlen(s);
    if (strncmp(s, "cuts(", 5) != 0 || n < 7 || s[n - 1] != ')') return false;
    char *end, *word = arena_strndup(a, s + 5, n - 6);
    out->kind = DATA_CUTS;
    out->a = strtod(word, &end);
    if (end != word) return !*end && out->a >= 0 && out->a < 0x1p53;
    out->size = word;
    return !strpbrk(word, "(), ");
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

// A word with parentheses is a generator, a whole number or decimal a constant, everything else
// must be a file by its name. `bf16:` and the like say what the unsigned integers of a file are the
// bits of, because NumPy has no such types.
const char *data_parse(Arena *a, const char *text, DataSpec *out)
{
    *out = (DataSpec){.raw = -1, .text = text};
    if (two_numbers(text, "uniform", &out->a, &out->b)) {
        out->kind = DATA_UNIFORM;
        // The negated form also refuses NaN bounds.
        if (!(out->a <= out->b) || !isfinite(out->b - out->a))
            return arena_printf(a, "`%s`: the lower bound must not exceed the upper one", text);
        return NULL;
    }
    if (two_numbers(text, "normal", &out->a, &out->b)) {
        out->kind = DATA_NORMAL;
        if (!(out->b >= 0) || !isfinite(out->a) || !isfinite(out->b))
            return arena_printf(a, "`%s`: the deviation must not be negative", text);
        return NULL;
    }
    if (read_list(a, text, out) || read_cuts(a, text, out)) return NULL;
    out->kind = DATA_CONSTANT;
    out->a = 0;
    if (strcmp(text, "zeros") == 0) return NULL;
    if (strcmp(text, "iota") == 0) {
        out->kind = DATA_IOTA;
        return NULL;
    }
    char *end;
    out->a = strtod(text, &end);
    // A whole word that is a number; `2x` goes on as a file name and is refused there.
    if (end != text && !*end) return NULL;

    const char *path = text, *colon = strchr(text, ':');
    if (colon) {
        const char *word = arena_strndup(a, text, (size_t)(colon - text));
        int type = dtype_by_name(word);
        if (type == DT_BF16 || type == DT_E4M3 || type == DT_E5M2 || type == DT_F16) {
            out->raw = type;
            path = colon + 1;
        }
    }
    if (!ends_with(path, ".npy"))
        return arena_printf(a, "`%s` is no source of values; required: %s", text, spec_help);
    out->kind = DATA_FILE;
    out->path = path;
    return NULL;
}

// The file is read once and stays in the arena; what its integers mean as floats is settled here.
const char *data_load(Arena *a, DataSpec *s)
{
    if (s->kind != DATA_FILE) return NULL;
    Buf b = {0};
    const char *why = file_read(s->path, &b, MAX_FILE);
    if (!why) {
        void *copy = arena_alloc(a, b.n + 1);
        if (b.n) memcpy(copy, b.s, b.n);
        why = npy_read(a, copy, b.n, &s->array);
    }
    buf_free(&b);
    if (why) return arena_printf(a, "%s: %s", s->path, why);
    if (s->raw >= 0) {
        DType bits = dtype_bytes[s->raw] == 2 ? DT_U16 : DT_U8;
        if (s->array.type != bits)
            return arena_printf(a, "%s holds %s, and `%s:` needs the bits as %s", s->path,
                                dtype_name[s->array.type], dtype_name[s->raw], dtype_name[bits]);
        s->array.type = (DType)s->raw;
    }
    return NULL;
}

// ---- generators ---------------------------------------------------------------------------------
// The finaliser of SplitMix64: every bit of the result depends on every bit of x.
static u64 mix(u64 x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// One array being filled, shared by all workers.
typedef struct {
    const DataSpec *spec;
    u64 key;        // of seed and name
    DType type;
    i64 count;      // elements
    void *out;
} Fill;

// Draw number `draw` for element i, in [0, 1) with 53 bits.
static double random_unit(const Fill *f, i64 i, u64 draw)
{
    u64 x = mix(f->key + 0x9e3779b97f4a7c15u * (2 * (u64)i + draw + 1));
    return (double)(x >> 11) * 0x1p-53;
}

// The value of element i. Integer parameters get whole numbers with both bounds of `uniform`
// included; a normal value is made of two uniform ones (Box and Muller), the first never 0, for its
// logarithm.
static double generated(const Fill *f, i64 i)
{
    const DataSpec *s = f->spec;
    bool integer = !dtype_is_float(f->type);
    switch ((DataKind)s->kind) {
    case DATA_UNIFORM: {
        double u = random_unit(f, i, 0);
        return integer ? floor(s->a + u * (floor(s->b) - s->a + 1)) : s->a + u * (s->b - s->a);
    }
    case DATA_NORMAL: {
        double u = 1 - random_unit(f, i, 0), v = random_unit(f, i, 1); // u in (0, 1]
        double z = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        return integer ? rint(s->a + s->b * z) : s->a + s->b * z;
    }
    case DATA_IOTA: return (double)i;
    case DATA_CONSTANT: return s->a;
    case DATA_FILE: return data_get(s->array.type, s->array.data, i);
    case DATA_LIST: return s->list[i];
    case DATA_CUTS: // each within half a mean piece of its even place, so they rise
        if (i == 0 || i == f->count - 1) return i ? s->a : 0;
        return floor(s->a * ((double)i + random_unit(f, i, 0) - 0.5) / (double)(f->count - 1));
    }
    BUG("data kind %d", s->kind);
}

// Elements do not depend on each other, so pieces may be filled in any order by any thread.
static void fill_piece(void *ctx, i64 lo, i64 hi, int worker)
{
    const Fill *f = ctx;
    (void)worker;
    for (i64 i = lo; i < hi; i++) data_put(f->type, f->out, i, generated(f, i));
}

// Integers of a file must fit into the parameter's type, value by value.
static const char *check_integers(Arena *a, const DataSpec *s, DType type)
{
    u8 probe[8];
    for (i64 i = 0; i < s->array.count; i++) {
        double v = data_get(s->array.type, s->array.data, i);
        data_put(type, probe, 0, v);
        if (data_get(type, probe, 0) != v)
            return arena_printf(a, "%s: element %lld is %.0f, which %s cannot hold", s->path,
                                (long long)i, v, dtype_name[type]);
    }
    return NULL;
}

// The parameter's name is in the key, so that two inputs with one generator differ.
static u64 fill_key(u64 seed, const char *name)
{
    return mix(mix(seed + 0x9e3779b97f4a7c15u) ^ hash_bytes(name, strlen(name), 0));
}

// Equal types are copied bit for bit, NaNs and all. Between floats values are rounded; between
// integers each must fit; from one kind to the other nothing is converted, as it is mostly a
// mistake.
const char *data_fill(Arena *a, const DataSpec *s, u64 seed, const char *name, DType type,
                      i64 count, void *out)
{
    Fill f = {s, fill_key(seed, name), type, count, out};
    if (s->kind == DATA_LIST && s->nlist != count)
        return arena_printf(a, "`%s` has %d numbers where %lld are required", s->text, s->nlist,
                            (long long)count);
    if (s->kind == DATA_FILE) {
        if (s->array.count != count)
            return arena_printf(a, "%s has %lld elements where %lld are required", s->path,
                                (long long)s->array.count, (long long)count);
        if (s->array.type == type) {
            if (count) memcpy(out, s->array.data, (size_t)count * dtype_bytes[type]);
            return NULL;
        }
        if (dtype_is_float(type) != dtype_is_float(s->array.type))
            return arena_printf(a, "%s holds %s where %s is required%s", s->path,
                                dtype_name[s->array.type], dtype_name[type],
                                type == DT_BF16 && s->array.type == DT_U16
                                    ? "; for the bits of bf16 write bf16:FILE"
                                    : "");
        if (!dtype_is_float(type)) {
            const char *why = check_integers(a, s, type);
            if (why) return why;
        }
    }
    parallel_for(count, 1 << 16, fill_piece, &f);
    return NULL;
}

double data_scalar(const DataSpec *s, u64 seed, const char *name, DType type)
{
    Fill f = {s, fill_key(seed, name), type, 1, NULL};
    return generated(&f, 0);
}

typedef struct {
    DType type;
    const void *p;
    _Atomic i64 found;
} Finite;

static void count_piece(void *ctx, i64 lo, i64 hi, int worker)
{
    Finite *f = ctx;
    i64 n = 0;
    (void)worker;
    for (i64 i = lo; i < hi; i++) n += !isfinite(data_get(f->type, f->p, i));
    atomic_fetch_add(&f->found, n);
}

i64 data_count_not_finite(DType type, const void *p, i64 count)
{
    Finite f = {.type = type, .p = p};
    parallel_for(count, 1 << 18, count_piece, &f);
    return f.found;
}
