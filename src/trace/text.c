// text.c - records as lines, and what a timeline comes to in a few lines.
#include "impl.h"
#include "write.h"

#include <string.h>

// ---- records ------------------------------------------------------------------------------------

static const struct {
    const char *text;
    u8 by;
} kinds[TRACE_KIND_COUNT] = {
#define X(id, text, by) [id] = {text, by},
    TRACE_KINDS(X)
#undef X
};

static void put_phase(Arena *a, const ThreadFn *fn, TracePlace p, Buf *out)
{
    buf_puts(out, trace_place_name(a, fn, p));
    if (p.generation != TRACE_UNKNOWN) buf_printf(out, " phase %lld", (long long)p.generation);
}

static void put_detail(Arena *a, const ThreadFn *fn, const TraceRecord *r, Buf *out)
{
    switch (r->kind) {
    case TRACE_WAIT:
    case TRACE_PASS:
        if (r->at.buffer >= 0) {
            put_phase(a, fn, r->at, out);
        } else {
            buf_puts(out, r->op ? thread_op[r->op->op].name : "?");
            buf_printf(out, " %lld", (long long)(r->op && r->op->op == OP_BAR_SYNC ? r->at.slot
                                                                                   : r->n));
        }
        break;
    case TRACE_ARRIVE:
        if (r->at.buffer >= 0) put_phase(a, fn, r->at, out);
        else buf_printf(out, "barrier %d", r->at.slot);
        if (r->n) buf_printf(out, ", expects %lld bytes", (long long)r->n);
        break;
    case TRACE_COMPLETE: put_phase(a, fn, r->at, out); break;
    case TRACE_LOAD:
    case TRACE_LANDED:
        buf_printf(out, "%s, %lld bytes, ", trace_place_name(a, fn, r->at), (long long)r->n);
        put_phase(a, fn, r->other, out);
        break;
    case TRACE_STORE:
    case TRACE_STORED:
        buf_printf(out, "%s, %lld bytes", trace_place_name(a, fn, r->at), (long long)r->n);
        break;
    case TRACE_PRODUCT:
    case TRACE_STARTED:
    case TRACE_DONE: buf_puts(out, trace_product_name(a, fn, r)); break;
    case TRACE_COMMIT: buf_puts(out, r->op ? thread_op[r->op->op].name : "?"); break;
    case TRACE_READ:
    case TRACE_WRITE: buf_puts(out, trace_place_name(a, fn, r->at)); break;
    case TRACE_REGISTERS: buf_printf(out, "%lld a thread", (long long)r->n); break;
    default: break;
    }
}

void trace_records(Arena *a, const TraceLog *log, Buf *out)
{
    Buf detail = {0};
    for (int i = 0; i < log->records.n; i++) {
        const TraceRecord *r = &log->records.at[i];
        detail.n = 0;
        buf_puts(&detail, "");
        put_detail(a, log->fn, r, &detail);
        buf_printf(out, "%7lld  ", (long long)r->time);
        if (kinds[r->kind].by == BY_BARRIER) buf_puts(out, "mbarrier");
        else buf_printf(out, "warp %-3d", r->warp);
        if (detail.n) buf_printf(out, "  %-9s  %s", kinds[r->kind].text, detail.s);
        else buf_printf(out, "  %s", kinds[r->kind].text);
        if (r->op && r->op->loc.line) buf_printf(out, "  line %u", r->op->loc.line);
        buf_putc(out, '\n');
    }
    buf_free(&detail);
}

// ---- summary ------------------------------------------------------------------------------------

static double share(const Trace *t, i64 time)
{
    return 100.0 * (double)time / (double)MAX(t->end - t->begin, (i64)1);
}

static void put_lanes(const Trace *t, Buf *out)
{
    for (int i = 0; i < t->lanes.n; i++) {
        const TraceLane *l = &t->lanes.at[i];
        if (l->kind != LANE_ROLE) continue;
        buf_printf(out, "  %-14s works %3.0f%%, waits %3.0f%%%s%s\n", l->name,
                   share(t, trace_lane_time(l, TRACE_BUSY, t->begin, t->end)),
                   share(t, trace_lane_time(l, 1 << SPAN_STALL, t->begin, t->end)),
                   l->what ? "  " : "", l->what ? l->what : "");
    }
    i64 copies = trace_covered(t, LANE_COPY, TRACE_COPYING, t->begin, t->end);
    i64 products = trace_covered(t, LANE_TENSOR, 1 << SPAN_PRODUCT, t->begin, t->end);
    if (copies) buf_printf(out, "  %-14s busy  %3.0f%%\n", "copy unit", share(t, copies));
    if (products) buf_printf(out, "  %-14s busy  %3.0f%%\n", "tensor cores", share(t, products));
}

static void put_slots(const Trace *t, Buf *out)
{
    bool head = false;
    for (int i = 0; i < t->lanes.n; i++) {
        const TraceLane *l = &t->lanes.at[i];
        if (l->kind != LANE_SLOT || !l->spans.n) continue;
        if (!head) buf_puts(out, "slots            generations  filled  full  read  free\n");
        head = true;
        buf_printf(out, "  %-14s %11lld", l->name,
                   (long long)l->spans.at[l->spans.n - 1].generation + 1);
        static const u8 state[] = {SPAN_FILLING, SPAN_FULL, SPAN_READING, SPAN_FREE};
        for (int k = 0; k < COUNT(state); k++)
            buf_printf(out, " %*.0f%%", k ? 4 : 6,
                       share(t, trace_lane_time(l, 1u << state[k], t->begin, t->end)));
        buf_putc(out, '\n');
    }
}

void trace_summary(Arena *a, const Trace *t, const TraceTitle *title, Buf *out)
{
    enum { MOST_STALLS = 12 };
    const TraceLog *log = t->log;
    TraceStall stall[MOST_STALLS];
    buf_printf(out, "%s, from %s: CTA %lld,%lld,%lld\n", log->fn->name, title->file,
               (long long)log->cta[0], (long long)log->cta[1], (long long)log->cta[2]);
    if (*title->sizes) buf_printf(out, "  sizes          %s\n", title->sizes);
    buf_printf(out, "  device         %s\n", log->device);
    buf_printf(out, "  time           %s %s%s\n", trace_commas(a, t->end - t->begin),
               trace_unit_name[log->unit],
               log->unit == TRACE_STEPS ? ", which are not cycles" : "");
    if (log->slowdown > 0)
        buf_printf(out, "  slow-down      %.3f times by the clock reads\n", log->slowdown);
    if (log->lost)
        buf_printf(out, "  lost           %s records found no place\n", trace_commas(a, log->lost));
    buf_puts(out, "lanes, share of the time\n");
    put_lanes(t, out);
    int n = trace_stalls(a, t, stall, MOST_STALLS);
    if (n) buf_puts(out, "longest stalls, share of the time\n");
    for (int i = 0; i < n; i++)
        buf_printf(out, "  %-14s %5.1f%%  %s, %d time%s\n", stall[i].lane->name,
                   share(t, stall[i].time), stall[i].name, stall[i].times,
                   stall[i].times == 1 ? "" : "s");
    put_slots(t, out);
}
