// bytes.c - sets of bytes and what is known of them.
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

ByteSets *bytes_new(Arena *a)
{
    ByteSets *b = ARENA_NEW(a, ByteSets);
    b->arena = a;
    b->room = 1 << 10;
    b->table = ARENA_ARRAY(a, int, b->room);
    b->memo = map_new(a);
    return b;
}

static int by_start(const void *a, const void *b)
{
    const Span *p = a, *q = b;
    return p->from < q->from ? -1 : p->from > q->from;
}

static int merge(Span *s, int n)
{
    int k = 0;
    bool sorted = true;
    for (int i = 1; i < n && sorted; i++) sorted = s[i - 1].from <= s[i].from;
    if (!sorted) qsort(s, (size_t)n, sizeof *s, by_start);
    for (int i = 1; i < n; i++) {
        if (s[i].from <= s[k].to)
            s[k].to = MAX(s[k].to, s[i].to);
        else
            s[++k] = s[i];
    }
    return k + 1;
}

static u32 place(const ByteSets *b, const Span *s, int n)
{
    return (u32)hash_bytes(s, sizeof *s * (size_t)n, 11) & (u32)(b->room - 1);
}

static void grow(ByteSets *b)
{
    b->room *= 2;
    b->table = ARENA_ARRAY(b->arena, int, b->room);
    for (int i = 0; i < b->sets.n; i++) {
        u32 k = place(b, &b->spans.at[b->sets.at[i].first], b->sets.at[i].n);
        while (b->table[k]) k = (k + 1) & (u32)(b->room - 1);
        b->table[k] = i + 1;
    }
}

int bytes_set(ByteSets *b, Span *s, int n)
{
    n = merge(s, n);
    u32 k = place(b, s, n);
    for (; b->table[k]; k = (k + 1) & (u32)(b->room - 1)) {
        const ByteSet *o = &b->sets.at[b->table[k] - 1];
        if (o->n == n && !memcmp(&b->spans.at[o->first], s, sizeof *s * (size_t)n))
            return b->table[k] - 1;
    }
    ByteSet set = {b->spans.n, n, {s[0].from, s[n - 1].to}};
    for (int i = 0; i < n; i++) vec_push(b->arena, &b->spans, s[i]);
    vec_push(b->arena, &b->sets, set);
    b->table[k] = b->sets.n;
    if (b->sets.n * 2 > b->room) grow(b);
    return b->sets.n - 1;
}

int bytes_recall(const ByteSets *b, u64 key)
{
    return (int)(uintptr_t)map_get(b->memo, (const void *)(uintptr_t)key) - 1;
}

void bytes_remember(ByteSets *b, u64 key, int value)
{
    map_put(b->memo, (const void *)(uintptr_t)key, (void *)(uintptr_t)(value + 1));
}

// Keys of pairs of sets: two bits tell the questions apart, and keys of callers have the highest
// bit.
enum { ASK_UNION = 1, ASK_MEET = 2 };
static u64 pair_key(int x, int y, int ask)
{
    return (u64)MIN(x, y) << 33 | (u64)MAX(x, y) << 2 | (u64)ask;
}

int bytes_union(ByteSets *b, int x, int y)
{
    if (x < 0 || x == y) return y;
    if (y < 0) return x;
    u64 key = pair_key(x, y, ASK_UNION);
    int known = bytes_recall(b, key);
    if (known >= 0) return known;
    ByteSet p = b->sets.at[x], q = b->sets.at[y];
    Span *s = ARENA_ARRAY(b->arena, Span, p.n + q.n);
    memcpy(s, &b->spans.at[p.first], sizeof *s * (size_t)p.n);
    memcpy(s + p.n, &b->spans.at[q.first], sizeof *s * (size_t)q.n);
    known = bytes_set(b, s, p.n + q.n);
    bytes_remember(b, key, known);
    return known;
}

static bool meet(const ByteSets *b, const ByteSet *p, const ByteSet *q)
{
    const Span *s = &b->spans.at[p->first], *t = &b->spans.at[q->first];
    for (int i = 0, k = 0; i < p->n && k < q->n;) {
        if (s[i].to <= t[k].from)
            i++;
        else if (t[k].to <= s[i].from)
            k++;
        else
            return true;
    }
    return false;
}

bool bytes_meet(ByteSets *b, int x, int y)
{
    if (x < 0 || y < 0) return false;
    if (x == y) return true;
    const ByteSet *p = &b->sets.at[x], *q = &b->sets.at[y];
    if (p->hull.to <= q->hull.from || q->hull.to <= p->hull.from) return false;
    if (p->n + q->n < 8) return meet(b, p, q);
    u64 key = pair_key(x, y, ASK_MEET);
    int known = bytes_recall(b, key);
    if (known < 0) bytes_remember(b, key, known = meet(b, p, q));
    return known;
}

static bool within(const ByteSets *b, const ByteSet *p, const ByteSet *q)
{
    const Span *s = &b->spans.at[p->first], *t = &b->spans.at[q->first];
    for (int i = 0, k = 0; i < p->n; i++) {
        while (k < q->n && t[k].to <= s[i].from) k++;
        if (k == q->n || t[k].from > s[i].from || t[k].to < s[i].to) return false;
    }
    return true;
}

const Neighbours *bytes_near(ByteSets *b, int set)
{
    while (b->near.n < b->sets.n) {
        int x = b->near.n;
        Neighbours own = {0};
        vec_push(b->arena, &own, ((Neighbour){x, true}));
        for (int y = 0; y < x; y++) {
            if (!bytes_meet(b, x, y)) continue;
            const ByteSet *p = &b->sets.at[x], *q = &b->sets.at[y];
            vec_push(b->arena, &own, ((Neighbour){y, within(b, q, p)}));
            vec_push(b->arena, &b->near.at[y], ((Neighbour){x, within(b, p, q)}));
        }
        vec_push(b->arena, &b->near, own);
    }
    return &b->near.at[set];
}
