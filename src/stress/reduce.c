// reduce.c - from delays that do harm to few that still do (delta debugging). The judge is asked
// again and again; it may be of two minds, as races are. Nothing is given up that was not seen to
// fail without.
#include "stress.h"

typedef struct {
    StressDelays *best;    // failed
    StressFails *fails;
    void *ctx;
    int asked, most;
} Search;

// Takes `d` when it still fails.
static bool try(Search *s, const StressDelays *d)
{
    if (s->asked >= s->most) return false;
    s->asked++;
    if (!s->fails(s->ctx, d)) return false;
    *s->best = *d;
    return true;
}

static bool bit(const u32 *mask, int i) { return mask[i / 32] >> i % 32 & 1; }

// Leaves out ever smaller pieces of the set bits among the first n of a mask of *best, which starts
// `word` words into it... as long as one can be left out.
static void drop_bits(Search *s, size_t at, int n)
{
    for (int piece = (n + 1) / 2; piece >= 1; piece /= 2) {
        for (int from = 0; from < n && s->asked < s->most;) {
            StressDelays d = *s->best;
            u32 *mask = (u32 *)((char *)&d + at);
            int taken = 0, left = 0, i = from;
            for (; i < n && taken < piece; i++) {
                taken += bit(mask, i);
                mask[i / 32] &= ~(1u << i % 32);
            }
            for (int k = 0; k < n; k++) left += bit(mask, k);
            from = i;
            if (taken && left) try(s, &d);
        }
    }
}

// Halves the range [*first, *last) of *best from both ends. The upper end is unknown at first: it
// comes down from 2^20 in powers of two.
static void narrow(Search *s, size_t first, size_t last, i32 most)
{
#define FIELD(d, at) (*(i32 *)((char *)(d) + (at)))
    StressDelays d = *s->best;
    if (FIELD(&d, last) > most) {
        FIELD(&d, last) = most;
        if (!try(s, &d)) return; // harm by visits beyond: leave the range as it is
    }
    for (i32 step = (FIELD(s->best, last) - FIELD(s->best, first)) / 2; step >= 1; step /= 2) {
        d = *s->best;
        FIELD(&d, last) -= step;
        if (FIELD(&d, last) > FIELD(&d, first)) try(s, &d);
        d = *s->best;
        FIELD(&d, first) += step;
        if (FIELD(&d, last) > FIELD(&d, first)) try(s, &d);
    }
#undef FIELD
}

int stress_reduce(StressDelays *d, int points, int warps, i64 blocks, StressFails *fails, void *ctx,
                  int most)
{
    Search s = {.best = d, .fails = fails, .ctx = ctx, .most = most};
    StressDelays none = *d;
    none.rate = 0;
    if (try(&s, &none)) return s.asked;
    drop_bits(&s, offsetof(StressDelays, points), points);
    for (int i = points; i < STRESS_MAX_POINTS; i++) d->points[i / 32] &= ~(1u << i % 32);
    drop_bits(&s, offsetof(StressDelays, warps), MIN(warps, 32));
    if (warps < 32) d->warps &= (1u << warps) - 1;
    narrow(&s, offsetof(StressDelays, first), offsetof(StressDelays, last), 1 << 20);
    narrow(&s, offsetof(StressDelays, first_block), offsetof(StressDelays, last_block),
           (i32)MIN(blocks, (i64)STRESS_ALL_BLOCKS));
    return s.asked;
}

static int count_bits(const u32 *mask, int n)
{
    int k = 0;
    for (int i = 0; i < n; i++) k += bit(mask, i);
    return k;
}

static void tell_warps(const StressDelays *d, int warps, Buf *out)
{
    int n = count_bits(&d->warps, MIN(warps, 32));
    if (n == MIN(warps, 32)) return;
    buf_printf(out, ", warp%s", n == 1 ? "" : "s");
    for (int i = 0, said = 0; i < 32; i++)
        if (i < warps && d->warps >> i & 1) buf_printf(out, "%s%d", said++ ? ", " : " ", i);
}

static void tell_range(const char *what, i32 first, i32 last, Buf *out)
{
    if (first + 1 == last) buf_printf(out, ", %s %d", what, first);
    else buf_printf(out, ", %ss %d to %d", what, first, last - 1);
}

void stress_tell_delays(const StressDelays *d, const StressProgram *s, int warps, const Diag *files,
                        Buf *out)
{
    if (!d->rate) {
        buf_puts(out, "without any delay\n");
        return;
    }
    int n = count_bits(d->points, s->points.n);
    buf_printf(out, "with delays at %d of %d points", n, s->points.n);
    tell_warps(d, warps, out);
    if (d->first > 0 || d->last <= 1 << 20) tell_range("visit", d->first, d->last, out);
    if (d->first_block > 0 || d->last_block < STRESS_ALL_BLOCKS)
        tell_range("block", d->first_block, d->last_block, out);
    buf_putc(out, '\n');
    if (n == s->points.n) return;
    for (int i = 0; i < s->points.n; i++) {
        const StressPoint *p = &s->points.at[i];
        if (!bit(d->points, i)) continue;
        buf_printf(out, "    %s %s at %s:%u\n", p->after ? "behind" : "in front of",
                   thread_op[p->op].name, files ? diag_file_name(files, p->loc.file) : "?",
                   p->loc.line);
    }
}
