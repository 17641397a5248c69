// share.c - sums over spans: how long lanes were busy, and what stalls come to.
#include "impl.h"
#include "write.h"

#include <stdlib.h>
#include <string.h>

i64 trace_lane_time(const TraceLane *l, u32 kinds, i64 from, i64 to)
{
    i64 sum = 0;
    for (int i = 0; i < l->spans.n; i++) {
        const TraceSpan *s = &l->spans.at[i];
        if (kinds >> s->kind & 1) sum += MAX((i64)0, MIN(s->end, to) - MAX(s->begin, from));
    }
    return sum;
}

typedef struct {
    i64 time;
    int change;
} Edge;

static int by_time(const void *x, const void *y)
{
    const Edge *a = x, *b = y;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return b->change - a->change; // what begins stands before what ends
}

i64 trace_covered(const Trace *t, TraceLaneKind kind, u32 kinds, i64 from, i64 to)
{
    int n = 0, open = 0;
    for (int i = 0; i < t->lanes.n; i++) n += 2 * t->lanes.at[i].spans.n;
    Arena *a = arena_new(0);
    Edge *edge = ARENA_ARRAY(a, Edge, n + 1);
    n = 0;
    for (int i = 0; i < t->lanes.n; i++) {
        const TraceLane *l = &t->lanes.at[i];
        for (int k = 0; k < l->spans.n && l->kind == kind; k++) {
            const TraceSpan *s = &l->spans.at[k];
            if (!(kinds >> s->kind & 1) || s->end <= from || s->begin >= to) continue;
            edge[n++] = (Edge){MAX(s->begin, from), 1};
            edge[n++] = (Edge){MIN(s->end, to), -1};
        }
    }
    qsort(edge, (size_t)n, sizeof *edge, by_time);
    i64 sum = 0;
    for (int i = 0; i < n; i++) {
        if (open) sum += edge[i].time - edge[i - 1].time;
        open += edge[i].change;
    }
    arena_free(a);
    return sum;
}

// Without the numbers of slots: "k_full[1]" and "k_full[0]" are one thing to wait for.
static const char *without_slots(Arena *a, const char *name)
{
    Buf b = {0};
    for (const char *p = name; *p; p++) {
        if (*p == '[') p += strcspn(p, "]");
        else buf_putc(&b, *p);
        if (!*p) break;
    }
    const char *s = b.n ? arena_strndup(a, b.s, b.n) : "";
    buf_free(&b);
    return s;
}

static int longest_first(const void *x, const void *y)
{
    const TraceStall *a = x, *b = y;
    if (a->time != b->time) return a->time > b->time ? -1 : 1;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    return strcmp(a->name, b->name);
}

int trace_stalls(Arena *a, const Trace *t, TraceStall *out, int most)
{
    VEC(TraceStall) all = {0};
    for (int i = 0; i < t->lanes.n; i++) {
        const TraceLane *l = &t->lanes.at[i];
        int first = all.n;
        for (int k = 0; k < l->spans.n; k++) {
            const TraceSpan *s = &l->spans.at[k];
            if (s->kind != SPAN_STALL) continue;
            const char *name = without_slots(a, s->name);
            int at = first;
            while (at < all.n && strcmp(all.at[at].name, name) != 0) at++;
            if (at == all.n) vec_push(a, &all, ((TraceStall){.lane = l, .name = name}));
            all.at[at].time += s->end - s->begin;
            all.at[at].times++;
        }
    }
    if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, longest_first);
    for (int i = 0; i < MIN(all.n, most); i++) out[i] = all.at[i];
    return MIN(all.n, most);
}

static const char *lines_text(Arena *a, const TraceSpan *s)
{
    u32 from = s->op ? s->op->loc.line : 0, to = s->upto ? s->upto->loc.line : 0;
    if (!from && !to) return "works";
    if (!from) return arena_printf(a, "works up to line %u", to);
    if (!to) return arena_printf(a, "works from line %u on", from);
    if (from == to) return arena_printf(a, "works, line %u", from);
    return arena_printf(a, "works, line %u to %u", from, to);
}

const char *trace_span_text(Arena *a, const TraceSpan *s)
{
    const char *generation = s->generation == TRACE_UNKNOWN
                                 ? ""
                                 : arena_printf(a, ", generation %lld", (long long)s->generation);
    switch (s->kind) {
    case SPAN_WORK: return lines_text(a, s);
    case SPAN_ISSUE: return arena_printf(a, "issues %s", s->name);
    case SPAN_STALL: return arena_printf(a, "waits for %s%s", s->name, generation);
    case SPAN_FILLING:
    case SPAN_FULL:
    case SPAN_READING:
    case SPAN_FREE:
        return arena_printf(a, "%s%s: %s", s->name, generation, trace_span_name[s->kind]);
    case SPAN_STORE: return arena_printf(a, "store of %s", s->name);
    default: return arena_printf(a, "%s%s", s->name, generation);
    }
}

const char *trace_commas(Arena *a, i64 n)
{
    if (n < 1000) return arena_printf(a, "%lld", (long long)n);
    return arena_printf(a, "%s,%03lld", trace_commas(a, n / 1000), (long long)(n % 1000));
}
