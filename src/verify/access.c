// access.c - sets of bytes, and which two accesses break which rule.
#include "model.h"

#include <stdlib.h>
#include <string.h>

static int by_start(const void *a, const void *b)
{
    const Span *p = a, *q = b;
    return p->from < q->from ? -1 : p->from > q->from;
}

// Equal sets are one: slots come round again and again.
int model_set(Model *m, Span *s, int n)
{
    int k = 0;
    qsort(s, (size_t)n, sizeof *s, by_start);
    for (int i = 1; i < n; i++) {
        if (s[i].from <= s[k].to) s[k].to = MAX(s[k].to, s[i].to);
        else s[++k] = s[i];
    }
    n = k + 1;
    for (int i = 0; i < m->sets.n; i++) {
        const ByteSet *b = &m->sets.at[i];
        if (b->n == n && b->hull.from == s[0].from && b->hull.to == s[n - 1].to &&
            !memcmp(&m->spans.at[b->first], s, sizeof *s * (size_t)n))
            return i;
    }
    ByteSet b = {m->spans.n, n, {s[0].from, s[n - 1].to}};
    for (int i = 0; i < n; i++) vec_push(m->arena, &m->spans, s[i]);
    vec_push(m->arena, &m->sets, b);
    return m->sets.n - 1;
}

bool model_sets_meet(const Model *m, int a, int b)
{
    if (a < 0 || b < 0) return false;
    if (a == b) return true;
    const ByteSet *p = &m->sets.at[a], *q = &m->sets.at[b];
    if (p->hull.to <= q->hull.from || q->hull.to <= p->hull.from) return false;
    const Span *s = &m->spans.at[p->first], *t = &m->spans.at[q->first];
    for (int i = 0, k = 0; i < p->n && k < q->n;) {
        if (s[i].to <= t[k].from) i++;
        else if (t[k].to <= s[i].from) k++;
        else return true;
    }
    return false;
}

bool model_is_write(u8 kind)
{
    return kind == ACCESS_WRITE || kind == ACCESS_ATOMIC || kind == ACCESS_CP || kind == ACCESS_LOAD;
}

static bool is_async(u8 kind)
{
    return kind == ACCESS_WGMMA || kind == ACCESS_STORE || kind == ACCESS_LOAD;
}

const char *model_conflict(const Access *x, const Access *y, bool together)
{
    if (x->kind == ACCESS_INIT || y->kind == ACCESS_INIT) {
        bool use = x->kind == ACCESS_USE || (together && y->kind == ACCESS_USE);
        return use ? "O8" : NULL;
    }
    if (x->kind == ACCESS_USE || y->kind == ACCESS_USE) return NULL;
    if (!model_is_write(x->kind) && !model_is_write(y->kind)) return NULL;
    if (x->kind == ACCESS_ATOMIC && y->kind == ACCESS_ATOMIC) return NULL;
    if (y->kind == ACCESS_CP || (together && x->kind == ACCESS_CP)) return "O13";
    // Asynchronous reads that nobody has waited for.
    if (y->kind == ACCESS_WGMMA) return model_is_write(x->kind) ? "O5" : NULL;
    if (y->kind == ACCESS_STORE) return model_is_write(x->kind) ? "O7" : NULL;
    if (together) return x->kind == ACCESS_LOAD || y->kind == ACCESS_LOAD ? "O3" : "O2";
    // An ordinary access long ago is open towards the other proxy only.
    if (y->kind > ACCESS_ATOMIC || !is_async(x->kind)) return NULL;
    return y->kind == ACCESS_READ ? "O6" : "O4";
}
