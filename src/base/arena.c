// arena.c - memory by lifetime: bump allocation in chunks, freed all at once.
//
// Invariant: all memory is zero when it is handed out (chunks come from calloc and nothing is used
// twice), and blocks never move. Running out is the end of the process: no caller could go on.
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *next;      // older, or full
    size_t used, cap; // bytes of data[]
    // The strictest alignment that any type of the compiler has.
    _Alignas(16) char data[];
};

struct Arena {
    Chunk *head;  // the one that small blocks come from
    size_t total; // bytes handed out
    size_t limit; // 0: none
};

// Large enough that malloc hardly shows in a profile, small enough for the many arenas of a test.
enum { CHUNK_BYTES = 64 * 1024 };

// To stderr and not to a Diag: whatever is wrong may be the Diag. abort, so that a debugger or a
// core file shows where.
void base_bug(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "baton: internal error at %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nThis is a bug in baton; the input that caused it is worth reporting.\n");
    va_end(ap);
    abort();
}

// Exit status 3 is kept for this. `limit` 0: the machine refused, not the arena's own limit.
NORETURN static void out_of_memory(size_t bytes, size_t limit)
{
    if (limit)
        fprintf(stderr, "baton: this input needs more than %zu MiB of memory; giving up\n",
                limit >> 20);
    else
        fprintf(stderr, "baton: out of memory asking for %zu bytes\n", bytes);
    exit(3);
}

Arena *arena_new(size_t limit)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a) out_of_memory(sizeof *a, 0);
    a->limit = limit;
    return a;
}

// NULL is fine, so that half-made owners can be taken down.
void arena_free(Arena *a)
{
    if (!a) return;
    for (Chunk *c = a->head; c;) {
        Chunk *next = c->next;
        free(c);
        c = next;
    }
    free(a);
}

// `total` counts what was handed out, not the unused ends of chunks: the limit is the same on
// every machine.
void *arena_alloc(Arena *a, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (a->limit && (bytes > a->limit || a->total > a->limit - bytes))
        out_of_memory(bytes, a->limit);
    Chunk *c = a->head;
    if (!c || c->cap - c->used < bytes) {
        size_t cap = MAX(bytes, (size_t)CHUNK_BYTES);
        c = calloc(1, sizeof *c + cap);
        if (!c) out_of_memory(bytes, 0);
        c->cap = cap;
        // A block larger than a chunk goes behind the current chunk, whose tail stays usable.
        if (a->head && bytes > CHUNK_BYTES / 4) {
            c->next = a->head->next;
            a->head->next = c;
        } else {
            c->next = a->head;
            a->head = c;
        }
    }
    void *p = c->data + c->used;
    c->used += bytes;
    a->total += bytes;
    return p;
}

size_t arena_used(const Arena *a) { return a->total; }

// Copies n bytes, NULs among them too; the one at the end is the arena's zero.
char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *d = arena_alloc(a, n + 1);
    if (n) memcpy(d, s, n);
    return d;
}

// Formats twice: once to learn the length.
char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

// Doubles, so a push costs constant time on average; at most as much again stays behind unused.
void *vec_grow(Arena *a, void *old, int n, int *cap, size_t elem_bytes)
{
    int next = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(a, (size_t)next * elem_bytes);
    if (n) memcpy(p, old, (size_t)n * elem_bytes);
    *cap = next;
    return p;
}
