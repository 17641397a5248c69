// base.h - what every part of the compiler stands on: memory by lifetime, text, names, places in
// the source, and diagnostics. Nothing here knows about kernels.
//
// Ownership in one sentence: whatever lives in an Arena is never freed alone; a Buf owns its bytes
// until buf_free; everything else here is a value.
#ifndef BATON_BASE_H
#define BATON_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
// Each side is evaluated once: it may be a walk over a tree that calls itself.
#define MIN(a, b) BASE_PICK(<, a, b, __COUNTER__)
#define MAX(a, b) BASE_PICK(>, a, b, __COUNTER__)
#define BASE_PICK(op, a, b, n) BASE_PICK_NAMED(op, a, b, n)
#define BASE_PICK_NAMED(op, a, b, n)                                                      \
    __extension__({                                                                       \
        __auto_type a_##n = (a);                                                          \
        __auto_type b_##n = (b);                                                          \
        a_##n op b_##n ? a_##n : b_##n;                                                   \
    })

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF_LIKE(fmt, args)
#define NORETURN
#endif

// A state that no input may reach: prints file, line and the message of the compiler, then aborts.
NORETURN void base_bug(const char *file, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define BUG(...) base_bug(__FILE__, __LINE__, __VA_ARGS__)
#define ASSERT(cond)                            \
    do {                                        \
        if (!(cond)) BUG("assertion: %s", #cond); \
    } while (0)

// ---- arena.c: memory by lifetime ---------------------------------------------------------------
// One arena per lifetime: a compilation, a launch. Running out of memory ends the process with a
// message and exit status 3; a compilation cannot outgrow `limit` bytes (0: no limit) either, so
// that no input eats the machine.
typedef struct Arena Arena;
Arena *arena_new(size_t limit);
void arena_free(Arena *a);                      // frees the arena and all that lives in it
void *arena_alloc(Arena *a, size_t bytes);      // zeroed, aligned to 16 bytes
size_t arena_used(const Arena *a);              // bytes handed out so far
char *arena_strndup(Arena *a, const char *s, size_t n); // ends in NUL
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

// Growing array inside an arena: VEC(T) declares it, vec_push appends. The old storage stays in
// the arena until the arena dies, so pointers into a vector are valid only until the next push.
#define VEC(T)      \
    struct {        \
        T *at;      \
        int n, cap; \
    }
#define vec_push(a, v, x)                                                                \
    do {                                                                                 \
        if ((v)->n == (v)->cap)                                                          \
            (v)->at = vec_grow((a), (v)->at, (v)->n, &(v)->cap, sizeof(*(v)->at));       \
        (v)->at[(v)->n++] = (x);                                                         \
    } while (0)
void *vec_grow(Arena *a, void *old, int n, int *cap, size_t elem_bytes);

// ---- buf.c: growing text -----------------------------------------------------------------------
typedef struct {
    char *s;       // NUL-terminated once something was written; NULL before
    size_t n, cap; // bytes without the NUL
} Buf;
// Appending ends the process when there is no memory left, as arenas do.
void buf_printf(Buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(Buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
void buf_puts(Buf *b, const char *s);
void buf_write(Buf *b, const void *p, size_t n);
void buf_putc(Buf *b, char c);
void buf_free(Buf *b);

// Reads a whole file into `out` (appends). Returns NULL, or a static or arena-free reason text
// ("cannot open: No such file or directory"). Refuses directories and files above max_bytes.
const char *file_read(const char *path, Buf *out, size_t max_bytes);
// Writes through a temporary name and a rename, so that no reader sees half a file; a target that
// exists and is no regular file (/dev/null, a pipe) is opened and written in place.
const char *file_write(const char *path, const void *data, size_t n);
// Makes a folder and those on the way to it. What fails shows when a file is written there.
void folder_make(const char *path);

// ---- intern.c: one pointer per distinct string -----------------------------------------------
// Interned strings compare by pointer and live as long as the table's arena.
typedef struct Intern Intern;
Intern *intern_new(Arena *a);
const char *intern(Intern *t, const char *s);
const char *intern_n(Intern *t, const char *s, size_t n);
const char *intern_printf(Intern *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Hash map from pointer (an interned string, say) or integer key to a pointer. Keys are compared by
// value of the pointer. Lives in an arena.
typedef struct Map Map;
Map *map_new(Arena *a);
void map_put(Map *m, const void *key, void *value);      // overwrites
void *map_get(const Map *m, const void *key);            // NULL when absent

u64 hash_bytes(const void *p, size_t n, u64 seed);       // FNV-1a, 64 bits; not for adversaries

// ---- diag.c: the one door for messages to the user ---------------------------------------------
// A place: file index in the Diag's table (0: none), line and column from 1 (0: unknown).
typedef struct {
    u16 file;
    u16 col;
    u32 line;
} Loc;

typedef enum { SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

// Collects messages; prints nothing by itself. Equal messages at one place are kept once. After
// DIAG_LIMIT errors further ones are counted, not kept.
enum { DIAG_LIMIT = 20 };
typedef struct Diag Diag;
Diag *diag_new(Arena *a);
// Registers a source text and returns its file index; the text must outlive the Diag.
u16 diag_add_file(Diag *d, const char *name, const char *text, size_t n);
const char *diag_file_name(const Diag *d, u16 file);     // "?" when unknown
// `hint` may be NULL: one sentence saying what would be right. The message says what was found and
// what is required. No trailing full stop or newline in either.
void diag(Diag *d, Severity s, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
#define diag_error(d, loc, hint, ...) diag((d), SEV_ERROR, (loc), (hint), __VA_ARGS__)
#define diag_warning(d, loc, hint, ...) diag((d), SEV_WARNING, (loc), (hint), __VA_ARGS__)
int diag_errors(const Diag *d);
// Prints all kept messages in order of place: `file:line:col: error: text`, the source line, a
// caret line, and `hint: ...`. Ends with "N errors" when there are any.
void diag_print(const Diag *d, Buf *out);

// ---- num.c: number formats -----------------------------------------------------------------------
// Bit-exact with Hopper's cvt instructions: round to nearest even, denormals kept, overflow to
// infinity (except e4m3, which saturates to 448), NaN becomes the canonical NaN of the format
// (bf16 0x7fff, f16 0x7fff, e4m3 0x7f).
u16 bf16_from_f32(float x);
float bf16_to_f32(u16 h);
u16 f16_from_f32(float x);
float f16_to_f32(u16 h);
u8 e4m3_from_f32(float x);
float e4m3_to_f32(u8 b);
u8 e5m2_from_f32(float x);                      // satfinite, as cvt.rn.satfinite.e5m2x2.f32
float e5m2_to_f32(u8 b);
u32 tf32_from_f32(float x);                     // cvt.rna.tf32.f32: ties away, low 13 bits zero
static inline u32 f32_bits(float x) { union { float f; u32 u; } v = {.f = x}; return v.u; }
static inline float f32_of_bits(u32 u) { union { u32 u; float f; } v = {.u = u}; return v.f; }

// Element types of tensors, one row each: id, name, bytes, bits of a scalar register class.
//        id        name        bytes
#define DTYPES(X)                \
    X(DT_F32, "f32", 4)          \
    X(DT_F16, "f16", 2)          \
    X(DT_BF16, "bf16", 2)        \
    X(DT_TF32, "tf32", 4)        \
    X(DT_E4M3, "f8_e4m3", 1)     \
    X(DT_E5M2, "f8_e5m2", 1)     \
    X(DT_S32, "s32", 4)          \
    X(DT_U32, "u32", 4)          \
    X(DT_S64, "s64", 8)          \
    X(DT_U64, "u64", 8)          \
    X(DT_S16, "s16", 2)          \
    X(DT_U16, "u16", 2)          \
    X(DT_S8, "s8", 1)            \
    X(DT_U8, "u8", 1)            \
    X(DT_F64, "f64", 8)          \
    X(DT_BOOL, "bool", 1)
typedef enum {
#define X(id, name, bytes) id,
    DTYPES(X)
#undef X
    DT_COUNT
} DType;
extern const char *const dtype_name[DT_COUNT];
extern const u8 dtype_bytes[DT_COUNT];
int dtype_by_name(const char *name); // DType, aliases included (float half bfp16 f8 int); or -1
static inline bool dtype_is_float(DType t) { return t <= DT_E5M2 || t == DT_F64; }
static inline bool dtype_is_signed(DType t)
{
    return t == DT_S32 || t == DT_S64 || t == DT_S16 || t == DT_S8;
}

#endif
