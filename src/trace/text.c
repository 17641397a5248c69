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
        bool line = r->op && r->op->loc.line && kinds[r->kind].by != BY_BARRIER;
        buf_printf(out, "%7lld  warp %-2d  %-9s", (long long)r->time, r->warp, kinds[r->kind].text);
        if (detail.n) buf_printf(out, "  %.*s", (int)detail.n, detail.s);
        if (line) buf_printf(out, "  line %u", r->op->loc.line);
        buf_putc(out, '\n');
    }
    buf_free(&detail);
}
