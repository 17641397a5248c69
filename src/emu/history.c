// history.c - the record of generations, and reads that see another one.
//
// In: every noted access of shared memory (from emu_touch), the boxes of bulk loads. Out: a copy of
// each generation of each slot with its readers; in a run with a fault, the bytes that a read gets.
// Both runs count generations in the same way, so that order n is the same tile in both.
#include "history.h"
#include "state.h"

#include <string.h>

const char *const emu_read_name[READ_KINDS] = {"ordinary loads", "ldmatrix", "products",
                                               "bulk stores"};

// A slot while its CTA runs.
typedef struct {
    bool begun;                // something was written
    bool dirty;                // written since the last copy
    u32 generation;
    u8 *written;               // per byte: in this generation
    EmuGeneration *g;          // its record; NULL while there is none
} Slot;

struct EmuWatch {
    struct {
        Slot *slot;            // NULL: not a shared tile
        u32 slots, bytes;      // bytes of a slot
        EmuTrack *track;       // the record; NULL in a run with a fault
        const EmuTrack *other; // of the run that a fault takes bytes from
    } *buffer;
    int n;
};

EmuHistory *emu_history_new(Arena *a, size_t limit)
{
    EmuHistory *h = ARENA_NEW(a, EmuHistory);
    h->arena = a;
    h->limit = limit;
    h->index = map_new(a);
    return h;
}

// 16 bits of launch, 36 of CTA, 12 of buffer; never 0.
static const void *key_of(int launch, i64 cta, i32 buffer)
{
    return (const void *)(uintptr_t)(((u64)launch + 1) << 48 | (u64)cta << 12 | (u64)buffer);
}

const EmuTrack *emu_history_find(const EmuHistory *h, int launch, i64 cta, i32 buffer)
{
    return map_get(h->index, key_of(launch, cta, buffer));
}

u32 emu_slots(const ThreadBuffer *b)
{
    i64 n;
    if (b->rank < 3 || !b->dim[0] || !expr_is_const(b->dim[0], &n) || n < 1 || n > 4096) return 1;
    return (u32)n;
}

// ---- a CTA begins and ends ----------------------------------------------------------------------

static void new_watch(EmuCta *c)
{
    EmuRun *r = c->run;
    const ThreadFn *fn = r->fn;
    EmuWatch *w = c->watch = ARENA_NEW(r->arena, EmuWatch);
    w->n = fn->buffers.n;
    w->buffer = arena_alloc(r->arena, sizeof *w->buffer * (size_t)(w->n + 1));
    for (int i = 0; i < w->n; i++) {
        const ThreadBuffer *b = &fn->buffers.at[i];
        i64 bytes = b->kind == BUF_SHARED ? thread_buffer_bytes(b) : 0;
        if (bytes <= 0) continue;
        w->buffer[i].slots = emu_slots(b);
        w->buffer[i].bytes = (u32)bytes / w->buffer[i].slots;
        w->buffer[i].slot = ARENA_ARRAY(r->arena, Slot, w->buffer[i].slots);
        for (u32 s = 0; s < w->buffer[i].slots; s++)
            w->buffer[i].slot[s].written = ARENA_ARRAY(r->arena, u8, w->buffer[i].bytes);
    }
}

void emu_watch_start(EmuCta *c)
{
    const EmuLaunch *l = c->run->launch;
    if (!l->history && !l->fault) return;
    if (!c->watch) new_watch(c);
    EmuHistory *h = l->history;
    for (; h && h->kernels.n <= l->number;) vec_push(h->arena, &h->kernels, l->fn);
    for (int i = 0; i < c->watch->n; i++) {
        if (!c->watch->buffer[i].slot) continue;
        u32 slots = c->watch->buffer[i].slots, bytes = c->watch->buffer[i].bytes;
        for (u32 s = 0; s < slots; s++) {
            u8 *written = c->watch->buffer[i].slot[s].written;
            memset(written, 0, bytes);
            c->watch->buffer[i].slot[s] = (Slot){.written = written};
        }
        if (l->fault)
            c->watch->buffer[i].other = emu_history_find(l->fault->history, l->number, c->index, i);
        if (!h) continue;
        EmuTrack *t = ARENA_NEW(h->arena, EmuTrack);
        *t = (EmuTrack){.launch = l->number, .cta = c->index, .buffer = i, .slots = slots,
                        .slot_bytes = bytes};
        map_put(h->index, key_of(l->number, c->index, i), t);
        vec_push(h->arena, &h->tracks, t);
        c->watch->buffer[i].track = t;
    }
}

// The slot as it is now becomes the copy of its generation.
static void keep(EmuCta *c, i32 buffer, u32 slot)
{
    EmuHistory *h = c->run->launch->history;
    Slot *s = &c->watch->buffer[buffer].slot[slot];
    u32 bytes = c->watch->buffer[buffer].bytes;
    if (!s->dirty || !s->g) return;
    s->dirty = false;
    if (!s->g->bytes) {
        if (h->used + bytes > h->limit) {
            h->full = true;
            return;
        }
        h->used += bytes;
        s->g->bytes = arena_alloc(h->arena, bytes);
    }
    memcpy((u8 *)(uintptr_t)s->g->bytes,
           c->smem + c->run->fn->buffers.at[buffer].offset + (size_t)slot * bytes, bytes);
}

void emu_watch_end(EmuCta *c)
{
    for (int i = 0; c->watch && c->run->launch->history && i < c->watch->n; i++)
        for (u32 s = 0; c->watch->buffer[i].slot && s < c->watch->buffer[i].slots; s++)
            keep(c, i, s);
}

// Run after the last CTA: who wrote the tensors, from the bookkeeping of global accesses.
void emu_watch_grid_end(EmuRun *r)
{
    EmuHistory *h = r->launch->history;
    for (int i = 0; h && i < r->fn->params.n; i++) {
        const EmuArg *arg = &r->launch->args[i];
        const EmuOwner *owner = r->owner[i];
        if (!owner) continue;
        bool map = r->fn->params.at[i].kind == PARAM_TMAP;
        EmuWritten w = {.base = map ? arg->tmap.base : arg->ptr,
                        .bytes = map ? arg->tmap_bytes : arg->bytes, .granule = r->granule[i]};
        size_t n = (w.bytes >> w.granule) + 1;
        u32 *cta = ARENA_ARRAY(h->arena, u32, n);
        for (size_t k = 0; k < n; k++) cta[k] = owner[k].cta;
        w.cta = cta;
        vec_push(h->arena, &h->written, w);
    }
}

u32 emu_history_writer(const EmuHistory *h, const u8 *address)
{
    for (int i = h->written.n - 1; i >= 0; i--) {
        const EmuWritten *w = &h->written.at[i];
        if (address < w->base || address >= w->base + w->bytes) continue;
        u32 cta = w->cta[(size_t)(address - w->base) >> w->granule];
        if (cta) return cta;
    }
    return 0;
}

// ---- accesses -----------------------------------------------------------------------------------

// The next generation of a slot, and its record.
static void begin(EmuCta *c, i32 buffer, u32 slot)
{
    Slot *s = &c->watch->buffer[buffer].slot[slot];
    EmuTrack *t = c->watch->buffer[buffer].track;
    if (s->begun) {
        keep(c, buffer, slot);
        s->generation++;
        memset(s->written, 0, c->watch->buffer[buffer].bytes);
    }
    s->begun = true;
    s->g = NULL;
    EmuHistory *h = c->run->launch->history;
    u32 order = s->generation * c->watch->buffer[buffer].slots + slot;
    if (!t || order > 1u << 20) return;
    while ((u32)t->order.n <= order) vec_push(h->arena, &t->order, NULL);
    s->g = t->order.at[order] = ARENA_NEW(h->arena, EmuGeneration);
    s->g->param = -1;
}

static void wrote(EmuCta *c, i32 buffer, u32 slot, u32 low, u32 high)
{
    Slot *s = &c->watch->buffer[buffer].slot[slot];
    bool again = !s->begun;
    for (u32 i = low; i < high && !again; i++) again = s->written[i];
    if (again) begin(c, buffer, slot);
    memset(s->written + low, 1, high - low);
    s->dirty = true;
}

static const u8 read_kind[] = {[OP_LDMATRIX] = READ_MATRIX, [OP_WGMMA_SS] = READ_PRODUCT,
                               [OP_WGMMA_RS] = READ_PRODUCT, [OP_TMA_STORE] = READ_STORE,
                               [OP_COUNT] = 0};

void emu_reader_join(EmuReader *to, const EmuReader *from)
{
    to->warps |= from->warps;
    for (int k = 0; k < to->loops; k++) {
        to->first[k] = MIN(to->first[k], from->first[k]);
        to->last[k] = MAX(to->last[k], from->last[k]);
    }
}

static void was_read(const EmuWarp *w, i32 buffer, u32 slot, const EmuAccess *a)
{
    enum { MOST_READERS = 64 };
    EmuCta *c = w->at;
    Slot *s = &c->watch->buffer[buffer].slot[slot];
    if (!s->g) return;
    keep(c, buffer, slot);
    const EmuOp *op = &c->run->prog->ops[a->op];
    EmuReader r = {.op = op->src, .kind = read_kind[op->op], .warps = 1u << w->id};
    if (r.kind == READ_PRODUCT) r.warps = 15u << w->id / 4 * 4;
    for (; r.loops < MIN(w->loops, (int)READER_LOOPS); r.loops++) {
        r.loop[r.loops] = w->loop_op[r.loops]->src;
        r.first[r.loops] = r.last[r.loops] = w->loop_iter[r.loops];
    }
    for (int i = s->g->readers.n - 1; i >= 0; i--) {
        if (s->g->readers.at[i].op != r.op) continue;
        emu_reader_join(&s->g->readers.at[i], &r);
        return;
    }
    if (s->g->readers.n < MOST_READERS)
        vec_push(c->run->launch->history->arena, &s->g->readers, r);
}

void emu_watch_touch(const EmuWarp *w, u32 access, u32 offset, u32 bytes, bool write)
{
    EmuCta *c = w->at;
    const EmuAccess *a = &c->access.at[access];
    if (a->buffer < 0 || !c->watch->buffer[a->buffer].slot) return;
    u32 base = (u32)c->run->fn->buffers.at[a->buffer].offset;
    u32 size = c->watch->buffer[a->buffer].bytes, slots = c->watch->buffer[a->buffer].slots;
    if (offset < base) return;
    u32 end = offset - base + bytes;
    for (u32 at = offset - base; at < end;) {
        u32 slot = at / size, stop = MIN(end, (slot + 1) * size);
        if (slot >= slots) return;
        if (write) wrote(c, a->buffer, slot, at % size, stop - slot * size);
        else if (c->run->launch->history) was_read(w, a->buffer, slot, a);
        at = stop;
    }
}

void emu_watch_load(EmuCta *c, u32 access, u32 offset, const TensorMap *m, const i32 *coord,
                    int param)
{
    i32 buffer = access ? c->access.at[access].buffer : -1;
    if (buffer < 0 || !c->watch->buffer[buffer].slot || !c->run->launch->history) return;
    u32 slot = (offset - (u32)c->run->fn->buffers.at[buffer].offset) /
               c->watch->buffer[buffer].bytes;
    if (slot >= c->watch->buffer[buffer].slots) return;
    EmuGeneration *g = c->watch->buffer[buffer].slot[slot].g;
    if (!g || g->param >= 0) return;
    g->param = param;
    g->rank = m->rank;
    memcpy(g->coord, coord, sizeof g->coord);
    memcpy(g->box, m->box, sizeof(u32) * (size_t)m->rank);
}

// ---- faults -------------------------------------------------------------------------------------

const u8 *emu_seen_late(const EmuCta *c, i32 buffer, u32 offset, u32 warps)
{
    const EmuFault *f = c->run->launch->fault;
    const u8 *now = c->smem + offset;
    if (f->buffer != buffer || f->launch != c->run->launch->number) return now;
    u32 at = offset - (u32)c->run->fn->buffers.at[buffer].offset;
    u32 size = c->watch->buffer[buffer].bytes, slots = c->watch->buffer[buffer].slots;
    const EmuTrack *t = c->watch->buffer[buffer].other;
    if (!t || at / size >= slots) return now;
    const Slot *s = &c->watch->buffer[buffer].slot[at / size];
    u32 order = s->generation * slots + at / size;
    if (!s->begun || order >= f->norders) return now;
    u32 late = f->late[(f->per_cta ? (size_t)c->index * f->norders : 0) + order];
    if (!(late & warps)) return now;
    i64 other = (i64)order + f->distance;
    if (other < 0 || other >= t->order.n || !t->order.at[other] || !t->order.at[other]->bytes)
        return now;
    return t->order.at[other]->bytes + at % size;
}
