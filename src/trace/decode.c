// decode.c - the records of a timeline out of the buffer that a kernel with clock reads filled.
//
// In: the points of the program and the words of the buffer, in the order that instrument.h
// states. Out: records for trace.h, warp by warp. Rounds of loops are found from the order of the
// points: a point that does not stand behind the one before it begins the next round of the
// innermost loop around both.
// The buffer comes from a device that other code shares: whatever it holds, the worst is a reason.
#include "instrument.h"

typedef struct {
    const TraceProgram *p;
    TraceLog *log;
    const u32 *buffer;
    i64 records;
    u32 smem;              // shared address of the arena
    u32 origin;            // clock at time 0
    int warp;
    i64 time;
    u32 *round;            // per loop
    int last;              // point before; -1: none
    TraceRecord wait;      // that has not passed; op NULL: none
    bool bad;              // a record names a slot that is not there, or no wait that began
} Decoder;

static const u32 *record(const Decoder *d, i64 k)
{
    return d->buffer + (k * d->p->warps + d->warp) * TRACE_WORDS;
}

// ---- rounds -------------------------------------------------------------------------------------

static bool is_inside(const TraceProgram *p, int loop, int outer)
{
    for (; loop >= 0; loop = p->loops.at[loop].parent)
        if (loop == outer) return true;
    return outer < 0;
}

// Do two points stand on the two sides of one `if`?
static bool are_apart(const TraceProgram *p, int a, int b)
{
    for (int i = p->points.at[a].branch; i >= 0; i = p->branches.at[i].parent)
        for (int j = p->points.at[b].branch; j >= 0; j = p->branches.at[j].parent)
            if (p->branches.at[i].op == p->branches.at[j].op &&
                p->branches.at[i].other != p->branches.at[j].other)
                return true;
    return false;
}

// The warp goes from d->last to point `to`. False: no program does.
static bool go(Decoder *d, int to)
{
    const TraceProgram *p = d->p;
    int from = d->last, loop = from < 0 ? -1 : p->points.at[from].loop;
    d->last = to;
    while (!is_inside(p, p->points.at[to].loop, loop)) loop = p->loops.at[loop].parent;
    for (int i = p->points.at[to].loop; i != loop; i = p->loops.at[i].parent) d->round[i] = 0;
    if (from < 0 || (to > from && !are_apart(p, from, to))) return true;
    if (loop >= 0) d->round[loop]++;
    return loop >= 0;
}

// As the emulator counts: of the innermost loop; copies of an unrolled region have none.
static u32 round_of(const Decoder *d, int loop)
{
    while (loop >= 0 && d->p->loops.at[loop].unrolled) loop = d->p->loops.at[loop].parent;
    return loop < 0 ? 0 : d->round[loop];
}

// ---- one record ---------------------------------------------------------------------------------

// Further word k of the record at `at`.
static u32 further(const Decoder *d, i64 at, int k)
{
    return record(d, at + 1 + k / TRACE_WORDS)[k % TRACE_WORDS];
}

static TracePlace place(Decoder *d, const TraceSlot *s, i64 at)
{
    const ThreadBuffer *b = s->buffer < 0 ? NULL : &d->p->plain->buffers.at[s->buffer];
    i64 slot = s->slot, address = 0, bytes = 8;
    u32 above = record(d, at)[0] >> 16 & 0x7fff;
    if (s->buffer < 0 && s->from == SLOT_FIXED && !s->slot) return TRACE_NOWHERE;
    switch ((TraceSlotFrom)s->from) {
    case SLOT_FIXED: break;
    case SLOT_NUMBER: slot = above & 15; break;
    case SLOT_FIRST: address = (i64)above << 3; break;
    case SLOT_ADDRESS: address = further(d, at, s->word); break;
    case SLOT_DESCRIPTOR: address = (i64)(further(d, at, s->word) & 0x3fff) << 4; break;
    }
    if (b && s->from != SLOT_FIXED) {
        if (b->kind == BUF_SHARED) bytes = thread_buffer_bytes(b) / b->dim[0]->value;
        address -= (i64)d->smem + b->offset;
        slot = address / bytes;
        d->bad |= address < 0 || address >= thread_buffer_bytes(b);
    }
    return (TracePlace){s->buffer, (i32)slot, TRACE_UNKNOWN};
}

static void put(Decoder *d, TraceRecord r) { vec_push(d->log->arena, &d->log->records, r); }

static void put_products(Decoder *d, TraceRecord r, const TracePoint *p, i64 at)
{
    for (int i = 0; i < p->products.n; i++) {
        r.op = p->products.at[i].op;
        r.at = place(d, &p->products.at[i].a, at);
        r.other = place(d, &p->products.at[i].b, at);
        put(d, r);
    }
}

static void put_point(Decoder *d, const TracePoint *p, i64 at)
{
    TraceRecord r = {.time = d->time, .op = p->op, .kind = p->kind, .warp = (u8)d->warp, .n = p->n,
                     .round = round_of(d, p->loop), .at = TRACE_NOWHERE, .other = TRACE_NOWHERE};
    // Nothing stands between a wait and its end.
    bool passes = p->kind == TRACE_PASS;
    d->bad |= d->wait.op ? !passes || p->op != d->wait.op : passes;
    if (p->kind == TRACE_PRODUCT) {
        put_products(d, r, p, at);
        return;
    }
    r.at = place(d, &p->at, at);
    r.other = place(d, &p->other, at);
    if (p->bytes_word >= 0) r.n = further(d, at, p->bytes_word);
    if (p->parity) r.n = record(d, at)[0] >> 31;
    if (passes) r.at = d->wait.at, r.n = d->wait.n;
    d->wait = p->kind == TRACE_WAIT ? r : (TraceRecord){0};
    put(d, r);
}

// ---- one warp -----------------------------------------------------------------------------------

// Clocks of one multiprocessor, modulo 2^32. Two reads that follow each other may come out in the
// other order by a few cycles.
static void advance(Decoder *d, u32 clock)
{
    i32 by = (i32)(clock - (u32)(d->origin + (u32)d->time));
    d->time += MAX(by, 0);
}

static const char *decode_warp(Decoder *d)
{
    const TraceProgram *p = d->p;
    Arena *a = d->log->arena;
    const u32 *end = record(d, 0);
    i64 total = ((i64)end[0] - d->warp) / p->warps, rows = d->records / p->warps, k = 1;
    if (!end[0]) return arena_printf(a, "warp %d did not come to its end", d->warp);
    d->time = 0;
    d->last = -1;
    d->wait = (TraceRecord){0};
    while (k < MIN(total, rows)) {
        int point = (int)(record(d, k)[0] & 0xffff) - 1;
        bool known = point >= 0 && point < p->points.n;
        if (!known || !go(d, point))
            return arena_printf(a, "warp %d: record %lld is no point of the program", d->warp,
                                (long long)k);
        const TracePoint *q = &p->points.at[point];
        i64 next = k + 1 + (q->words + TRACE_WORDS - 1) / TRACE_WORDS;
        if (next > MIN(total, rows)) break;
        advance(d, record(d, k)[1]);
        if (q->kind != TRACE_KIND_COUNT) put_point(d, q, k);
        if (d->bad)
            return arena_printf(a, "warp %d: record %lld cannot be", d->warp, (long long)k);
        k = next;
    }
    d->log->lost += total - k;
    if (d->wait.op) { // its end found no place, so it goes as well
        d->log->records.n--;
        d->log->lost++;
    }
    advance(d, end[1]);
    put(d, (TraceRecord){.time = d->time, .kind = TRACE_END, .warp = (u8)d->warp,
                         .at = TRACE_NOWHERE, .other = TRACE_NOWHERE});
    return NULL;
}

const char *trace_decode(const TraceProgram *p, const u32 *buffer, i64 records, TraceLog *log)
{
    Decoder d = {.p = p, .log = log, .buffer = buffer, .records = records,
                 .round = ARENA_ARRAY(log->arena, u32, p->loops.n + 1)};
    log->fn = p->plain;
    log->unit = TRACE_CYCLES;
    if (records < TRACE_MIN_RECORDS * p->warps) return "a buffer with no room for a record of each warp";
    for (int k = 0; k < 2; k++) { // the earliest first record is time 0
        for (d.warp = 0; d.warp < p->warps; d.warp++) {
            u32 clock = record(&d, 1)[1];
            if (!d.warp && !k) d.origin = clock;
            if ((i32)(clock - d.origin) < 0) d.origin = clock;
        }
    }
    for (d.warp = 0; d.warp < p->warps; d.warp++) {
        if (p->plain->smem_bytes) d.smem = further(&d, 1, 0);
        const char *why = decode_warp(&d);
        if (why) return why;
    }
    trace_phases(log);
    return NULL;
}
