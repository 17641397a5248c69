// intern.c - interned strings and the one hash map, both open addressing in an arena. Invariants:
// capacities are powers of two and tables at most half full, so a search always meets a free slot;
// nothing is ever removed. Growing leaves the old table in the arena: at most as much again.
#include "base.h"

#include <stdio.h>
#include <string.h>

// FNV-1a, with a last step since the tables use the low bits only.
u64 hash_bytes(const void *p, size_t n, u64 seed)
{
    const u8 *s = p;
    u64 h = 0xcbf29ce484222325u ^ seed;
    for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 0x100000001b3u;
    return h ^ (h >> 29);
}

// Strings themselves are the entries; hashes are computed again when the table grows.
struct Intern {
    Arena *arena;
    const char **slot;
    int n, cap; // cap is a power of two
};

Intern *intern_new(Arena *a)
{
    Intern *t = ARENA_NEW(a, Intern);
    t->arena = a;
    t->cap = 256;
    t->slot = ARENA_ARRAY(a, const char *, t->cap);
    return t;
}

// Rehashes; the strings stay where they are, so pointers that were handed out stay valid.
static void intern_grow(Intern *t)
{
    const char **old = t->slot;
    int old_cap = t->cap;
    t->cap *= 2;
    t->slot = ARENA_ARRAY(t->arena, const char *, t->cap);
    for (int i = 0; i < old_cap; i++) {
        if (!old[i]) continue;
        u64 h = hash_bytes(old[i], strlen(old[i]), 0);
        while (t->slot[h & (u64)(t->cap - 1)]) h++;
        t->slot[h & (u64)(t->cap - 1)] = old[i];
    }
}

// The one string equal to s[0 .. n), which has no NUL in it; made when it is new.
const char *intern_n(Intern *t, const char *s, size_t n)
{
    if (t->n * 2 >= t->cap) intern_grow(t);
    u64 h = hash_bytes(s, n, 0);
    for (;; h++) {
        const char **p = &t->slot[h & (u64)(t->cap - 1)];
        if (!*p) {
            t->n++;
            return *p = arena_strndup(t->arena, s, n);
        }
        if (strncmp(*p, s, n) == 0 && (*p)[n] == 0) return *p;
    }
}

const char *intern(Intern *t, const char *s) { return intern_n(t, s, strlen(s)); }

// Names are short: the stack serves nearly all, and nothing is left in the arena for known ones.
const char *intern_printf(Intern *t, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if ((size_t)n < sizeof small) return intern_n(t, small, (size_t)n);
    va_start(ap, fmt);
    char *s = arena_vprintf(t->arena, fmt, ap);
    va_end(ap);
    return intern(t, s);
}

// Two arrays, so that searching touches keys only.
struct Map {
    Arena *arena;
    const void **key;
    void **value;
    int n, cap;
};

Map *map_new(Arena *a)
{
    Map *m = ARENA_NEW(a, Map);
    m->arena = a;
    m->cap = 32;
    m->key = ARENA_ARRAY(a, const void *, m->cap);
    m->value = ARENA_ARRAY(a, void *, m->cap);
    return m;
}

// The slot of the key, or the free one where it belongs. The product's high bits: those of a
// pointer that differ are in the middle.
static int map_find(const Map *m, const void *key)
{
    u64 h = (u64)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    int i = (int)(h >> 40) & (m->cap - 1);
    while (m->key[i] && m->key[i] != key) i = (i + 1) & (m->cap - 1);
    return i;
}

// NULL is no key (it marks free slots); a NULL value reads like absence.
void map_put(Map *m, const void *key, void *value)
{
    ASSERT(key);
    if (m->n * 2 >= m->cap) {
        Map old = *m;
        m->cap *= 2;
        m->n = 0;
        m->key = ARENA_ARRAY(m->arena, const void *, m->cap);
        m->value = ARENA_ARRAY(m->arena, void *, m->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.key[i]) map_put(m, old.key[i], old.value[i]);
    }
    int i = map_find(m, key);
    if (!m->key[i]) m->n++;
    m->key[i] = key;
    m->value[i] = value;
}

// Keys are pointers or small integers cast to one; both are compared as they are.
void *map_get(const Map *m, const void *key)
{
    int i = map_find(m, key);
    return m->key[i] ? m->value[i] : NULL;
}
