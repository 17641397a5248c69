// shadow.c - shadow memory: every access is checked against the earlier ones to the same bytes.
//
// A cell covers four bytes. It keeps the last write and the reads since then that are not yet known
// to be ordered before everything that comes. Two accesses conflict when one of them writes; they
// are fine when the later agent's clock covers the earlier access, as the pair asks for:
//   generic, generic      release and acquire (O1, O2), or the same thread, or both are atomic
//   generic write, async  a proxy fence of the writing thread before the release (O4)
//   generic read, async write   a proxy fence of the reading thread, or the read's pinned use,
//                         before the release (O6)
//   bulk load, any        the mbarrier phase was observed (O3)
//   wgmma read, write     all four warps have waited, then released (O5)
//   bulk store read, write      the issuing thread's wait.read, then released (O7)
//   cp.async, any         the issuing thread's wait, then as a generic write (O13)
// The check does not look at values or at the schedule: what is unordered is reported on every run.
#include "state.h"

#include <string.h>

// What a pair of accesses lacks; the words for it stand in order_text.
typedef enum {
    ORD_OK,
    ORD_RACE,
    ORD_PROXY,
    ORD_UNBOUND,
    ORD_LOAD,
    ORD_WGMMA,
    ORD_STORE,
    ORD_CP
} Order;

// Nothing was touched, for a new CTA. Record 0 and node 0 are dummies, so that index 0 means
// "none".
void emu_shadow_reset(EmuCta *c)
{
    if (!c->cell) return;
    memset(c->cell, 0, sizeof *c->cell * (c->smem_bytes / 4 + 2));
    c->access.n = c->node.n = 0;
    c->access_base = 0;
    c->node_free = 0;
    memset(&c->memo, 0, sizeof c->memo);
    EmuAccess none = {.buffer = -1};
    EmuNode first = {.next = 0};
    vec_push(c->run->arena, &c->access, none);
    vec_push(c->run->arena, &c->node, first);
}

// ---- records of accesses ------------------------------------------------------------------------

// Records before a collection: two million of 56 bytes. A long loop makes a record for every
// memory operation, and nearly all of them are soon named by no cell any more.
enum { COLLECT_AT = 1 << 21 };

// Mark or move one reference to a record.
typedef void Visit(EmuCta *c, u32 *reference);

static void visit_cells(EmuCta *c, Visit *visit)
{
    for (u32 i = 0; i < c->smem_bytes / 4 + 1; i++) {
        EmuCell *cell = &c->cell[i];
        visit(c, &cell->w.access);
        visit(c, &cell->r[0].access);
        visit(c, &cell->r[1].access);
        for (u32 n = cell->more; n; n = c->node.at[n].next) visit(c, &c->node.at[n].e.access);
    }
}

// All places outside the records that name one.
static void visit_all(EmuCta *c, Visit *visit)
{
    visit_cells(c, visit);
    for (EmuEffect *e = c->fx_first; e; e = e->next) visit(c, &e->access);
    for (int i = 0; i < c->bars_n; i++) visit(c, &c->bar[i].init_access);
    for (int i = 0; i < c->warps; i++) {
        EmuWarp *w = &c->warp[i];
        for (u64 rest = w->live; rest; rest &= rest - 1)
            visit(c, &w->token[__builtin_ctzll(rest)].access);
    }
    for (int i = 0; i < c->groups; i++) {
        // Products that all four warps have waited for are looked at by nobody.
        u32 from = UINT32_MAX;
        for (int k = 0; k < 4; k++) from = MIN(from, c->warp[4 * i + k].waited);
        for (u32 k = from; k < (u32)c->group[i].q.n; k++)
            for (int side = 0; side < 2; side++) visit(c, &c->group[i].q.at[k].access[side]);
    }
}

static void mark(EmuCta *c, u32 *reference) { c->remap[*reference] = 1; }
static void move(EmuCta *c, u32 *reference) { *reference = c->remap[*reference]; }

// Drops the records that nothing names any more and closes the gaps. Loads that share a token lose
// their tie: only the newest can still bind. Global memory forgets who wrote what.
static void collect(EmuCta *c)
{
    if (!c->remap) c->remap = ARENA_ARRAY(c->run->arena, u32, COLLECT_AT + 1);
    memset(c->remap, 0, sizeof *c->remap * (COLLECT_AT + 1));
    visit_all(c, mark);
    u32 kept = 1, n = (u32)c->access.n;
    c->remap[0] = 0;
    for (u32 i = 1; i < n; i++) {
        if (!c->remap[i]) continue;
        c->access.at[kept] = c->access.at[i];
        if (c->access.at[kept].kind == ACC_READ) c->access.at[kept].phase = 0;
        c->remap[i] = kept++;
    }
    visit_all(c, move);
    c->access.n = (int)kept;
    c->access_base += n;
    memset(&c->memo, 0, sizeof c->memo);
}

// 0 when nothing is tracked, or when the records that are alive fill the room.
u32 emu_access_new(EmuWarp *w, EmuAccessKind kind, const EmuOp *op, int lane, u32 mask, int mem)
{
    EmuCta *c = w->at;
    if (!c->cell) return 0;
    if (c->access.n >= COLLECT_AT) collect(c);
    if (c->access.n >= COLLECT_AT || c->access_base > 1u << 25) return 0;
    EmuAccess a = {.kind = (u8)kind, .warp = (u8)w->index, .lane = (u8)lane, .buffer = -1,
                   .mask = mask, .op = emu_op_index(w, op), .epoch = w->epoch,
                   .iter = w->loops ? w->loop_iter[w->loops - 1] : 0};
    if (mem < op->src->nmem) a.buffer = op->src->mem[mem].buffer;
    if (kind == ACC_BULK_STORE) a.epoch = 0;
    vec_push(c->run->arena, &c->access, a);
    return (u32)c->access.n - 1;
}

// Does the access go through the async proxy? cp.async does not, despite its name.
static bool is_async(u8 kind)
{
    return kind == ACC_BULK_LOAD || kind == ACC_WGMMA || kind == ACC_BULK_STORE;
}

// Is epoch `e` of a whole warp known, whichever lanes released it?
static bool covers_warp(const EmuEpoch *c, u32 e) { return c->all >= e || c->part >= e; }

// O5. The record stands for reads by four warps, each of which ends with the wait of its own;
// whoever overwrites the operand must know of all four waits.
static Order order_wgmma(const EmuWarp *w, const EmuAccess *p, const EmuClock *k)
{
    for (int i = 0; i < 4; i++) {
        u32 warp = (u32)p->warp / 4 * 4 + (u32)i;
        if (!p->done[i]) return ORD_WGMMA;
        if (warp != w->index && !covers_warp(&k->x[warp], p->done[i])) return ORD_WGMMA;
    }
    return ORD_OK;
}

// Does the async proxy see the access? By a fence that the agent knows of, or by one that the same
// lanes have made since.
static bool fenced(const EmuWarp *w, const EmuAccess *p, EmuEntry e, int lane, const EmuClock *k)
{
    if (emu_covers(&k->a[p->warp], p->epoch, e.lane, p->mask)) return true;
    if (p->warp != w->index || (lane < EMU_LANES && e.lane != lane)) return false;
    u32 lanes = e.lane < EMU_LANES ? 1u << e.lane : p->mask;
    for (int i = 0; i < EMU_LANES; i++)
        if ((lanes >> i & 1) && w->fenced[i] < p->epoch) return false;
    return true;
}

// May the agent (warp w, `lane`), accessing as `kind`, touch what entry `e` touched before?
static Order order_of(const EmuWarp *w, EmuEntry e, int lane, u8 kind)
{
    const EmuAccess *p = &w->at->access.at[e.access];
    const EmuClock *k = emu_clock_of(w, lane);
    bool same = p->warp == w->index && e.lane == lane && lane < EMU_LANES;
    bool known = same || emu_covers(&k->g[p->warp], p->epoch, e.lane, p->mask);
    // `g` of the clock is knowledge by release and acquire; `a` the part of it that a proxy fence
    // of the accessing thread carried over to the async proxy. An async access needs both: the
    // fence must stand before the release by which the other learned of the access.
    switch (p->kind) {
    case ACC_WRITE:
        if (!is_async(kind)) return known ? ORD_OK : ORD_RACE;
        if (known && fenced(w, p, e, lane, k)) return ORD_OK;
        return known ? ORD_PROXY : ORD_RACE;
    case ACC_ATOMIC:
        if (kind == ACC_ATOMIC) return ORD_OK;
        if (!is_async(kind)) return known ? ORD_OK : ORD_RACE;
        if (known && fenced(w, p, e, lane, k)) return ORD_OK;
        return known ? ORD_PROXY : ORD_RACE;
    case ACC_READ:
        if (!is_async(kind)) return known ? ORD_OK : ORD_RACE;
        if (known && fenced(w, p, e, lane, k)) return ORD_OK;
        // No fence, but a pinned use, which the release followed.
        if (p->bound && (same || emu_covers(&k->g[p->warp], p->bound, e.lane, p->mask)))
            return ORD_OK;
        return known ? ORD_UNBOUND : ORD_RACE;
    // Observing the phase is the only way, for the issuing thread too (O3).
    case ACC_BULK_LOAD:
        return k->phases[emu_bar_clock(w->at, p->bar)] > p->phase ? ORD_OK : ORD_LOAD;
    case ACC_WGMMA: return order_wgmma(w, p, k);
    case ACC_BULK_STORE:
        if (!p->done[0]) return ORD_STORE;
        return same || emu_covers(&k->g[p->warp], p->done[0], e.lane, p->mask) ? ORD_OK : ORD_STORE;
    // Not waited for yet; after the wait the record turns into ACC_WRITE.
    case ACC_CPASYNC: return ORD_CP;
    default: return ORD_OK;
    }
}

// ---- reports ------------------------------------------------------------------------------------

static const struct {
    u8 kind;
    const char *rule, *why;
} order_text[] = {
    [ORD_RACE] = {HZ_RACE, "O2",
                  "nothing orders the two: no barrier that the first releases and the"
                  " second acquires"},
    [ORD_PROXY] = {HZ_PROXY, "O4",
                   "the write is ordered, but no fence.proxy by the writing thread"
                   " stands between it and the release"},
    [ORD_UNBOUND] = {HZ_UNBOUND_READ, "O6",
                     "the slot was released before the read had bound: no"
                     " fence.proxy by the reading thread and no pinned use of"
                     " the value stands before the release"},
    [ORD_LOAD] = {HZ_RACE, "O3", "the bulk load's mbarrier phase was not waited for"},
    [ORD_WGMMA] = {HZ_WGMMA, "O5",
                   "the wgmma may still read its operand: not all four warps have"
                   " waited for it and released"},
    [ORD_STORE] = {HZ_BULK_STORE, "O7",
                   "the bulk store may still read its source: no bulk.wait.read"
                   " of the issuing thread stands before"},
    [ORD_CP] = {HZ_RACE, "O13",
                "the cp.async may still write: no cp.async.wait of the issuing thread"
                " stands before"},
};

// What the late read would get, when the overwriting load brings the next generation of the slot.
static void generation_text(const EmuCta *c, u32 access, const EmuAccess *read, u32 offset,
                            Buf *out)
{
    const EmuAccess *write = &c->access.at[access];
    double now, next;
    if (write->kind != ACC_BULK_LOAD) return;
    buf_printf(out, ";\n    the read expects generation %u, the load brings generation %u",
               read->gen, write->phase);
    if (write->phase == read->gen + 1)
        buf_puts(out, ": a late read would return the next generation of the same slot");
    if (emu_load_values(c, access, offset, &now, &next))
        buf_printf(out, " (%g instead of %g)", next, now);
}

// Two accesses through different buffers mean that the arena's placement let them share bytes:
// that is named instead, since the handoff of neither buffer is at fault.
static void report_order(EmuWarp *w, u32 access, u32 offset, int lane, EmuEntry e, Order o)
{
    EmuCta *c = w->at;
    const EmuAccess *x = &c->access.at[access], *p = &c->access.at[e.access];
    const EmuOp *op = &c->run->prog->ops[x->op];
    EmuHazardKind kind = order_text[o].kind;
    const char *rule = order_text[o].rule;
    // The slot was never released at all: for a refill that is the same rule as a late read.
    if (o == ORD_RACE && p->kind == ACC_READ && x->kind == ACC_BULK_LOAD) rule = "O3";
    bool overlap = p->buffer >= 0 && x->buffer >= 0 && p->buffer != x->buffer;
    if (overlap) kind = HZ_OVERLAP;
    static const char *const verb[] = {"", "reads", "writes", "atomic changes",
                                       "bulk load overwrites", "wgmma reads", "bulk store reads",
                                       "cp.async writes"};
    Buf place = {0}, other = {0}, extra = {0};
    emu_place_shared(c, x->buffer, offset, &place);
    emu_access_text(c, e.access, e.lane, &other);
    if (o == ORD_UNBOUND) generation_text(c, access, p, offset, &extra);
    if (overlap) {
        buf_puts(&extra, ";\n    there it is ");
        emu_place_shared(c, p->buffer, offset, &extra);
    }
    emu_hazard(w, op, lane, kind, rule, e.access, "%s %s after %s;\n    %s%s", verb[x->kind],
               place.s, other.s, order_text[o].why, extra.s ? extra.s : "");
    buf_free(&place);
    buf_free(&other);
    buf_free(&extra);
}

// ---- one cell -----------------------------------------------------------------------------------

typedef struct {
    EmuWarp *w;
    EmuCta *c;
    u32 access;
    int lane;
    u8 kind;
    u32 offset;                // of the cell
} Touch;

// Entries are compared as one word.
static u64 entry_key(EmuEntry e)
{
    u64 key;
    memcpy(&key, &e, sizeof key);
    return key;
}

// Checks against one earlier entry; remembers in `memo` that it is fine.
static void check(const Touch *t, EmuEntry e, u64 *memo)
{
    u64 key = entry_key(e);
    if (key == *memo || e.access == t->access) return;
    Order o = order_of(t->w, e, t->lane, t->kind);
    if (o != ORD_OK) report_order(t->w, t->access, t->offset, t->lane, e, o);
    *memo = key;
}

// May move the array of nodes: pointers into it do not survive.
static u32 node_new(EmuCta *c, EmuEntry e, u32 next)
{
    u32 i = c->node_free;
    if (i) {
        c->node_free = c->node.at[i].next;
    } else {
        vec_push(c->run->arena, &c->node, ((EmuNode){.next = 0}));
        i = (u32)c->node.n - 1;
    }
    c->node.at[i] = (EmuNode){.e = e, .next = next};
    return i;
}

// A new read replaces an entry of the same agent, or one that is ordered before everything that can
// come after this read.
static bool read_replaces(const Touch *t, EmuEntry *e)
{
    const EmuAccess *p = &t->c->access.at[e->access];
    if (p->kind == t->kind && p->kind == ACC_WGMMA) return p->warp / 4 == t->w->index / 4;
    bool same = p->kind == t->kind && (t->kind == ACC_READ || t->kind == ACC_ATOMIC);
    if (same && p->warp == t->w->index) {
        // The same warp, another lane. One entry then stands for both lanes, unless the older read
        // is known to the whole warp already: then the newer one is the stronger condition.
        if (e->lane != t->lane &&
            (e->access == t->access || p->epoch > t->w->clock->g[p->warp].all))
            e->lane = EMU_ANY_LANE;
        else
            e->lane = (u8)t->lane;
        return true;
    }
    // As if an async write came: what would be ordered before that is ordered before everything.
    // An atomic is no replacement for a read: other atomics do not ask whether they follow it.
    if (t->kind == ACC_ATOMIC || e->atomic) return false;
    return order_of(t->w, *e, t->lane, ACC_BULK_LOAD) == ORD_OK;
}

// Reads accumulate until a write to the same bytes clears them, so this keeps the set small: it
// replaces where it can, and hangs a node on the cell only when both places are taken.
static void note_read(const Touch *t, EmuCell *cell, u8 bytes)
{
    EmuEntry mine = {.access = t->access, .lane = (u8)t->lane, .bytes = bytes,
                     .atomic = t->kind == ACC_ATOMIC};
    EmuEntry *room = NULL;
    u64 *memo = t->c->memo.read;
    for (int i = 0; i < 2; i++) {
        EmuEntry *e = &cell->r[i];
        if (!e->access) {
            if (!room) room = e;
            continue;
        }
        bool agent = t->c->access.at[e->access].warp == t->w->index;
        if (!agent && entry_key(*e) == memo[i]) continue; // known not to be replaceable
        if (read_replaces(t, e)) {
            u8 kind = t->c->access.at[e->access].kind;
            bool merged = (kind == ACC_READ || kind == ACC_ATOMIC) && agent;
            if (merged) mine.lane = e->lane, mine.bytes |= e->bytes;
            *e = mine;
            return;
        }
        memo[i] = entry_key(*e);
    }
    if (room) {
        *room = mine;
        return;
    }
    for (u32 i = cell->more; i; i = t->c->node.at[i].next) {
        EmuEntry *e = &t->c->node.at[i].e;
        if (e->write || !read_replaces(t, e)) continue;
        mine.bytes |= e->bytes;
        *e = mine;
        return;
    }
    cell->more = node_new(t->c, mine, cell->more);
}

// A read is checked against writes only. Its record takes over the generation of the slot that it
// found: the phase of the bulk load that wrote the cell.
static void touch_read(const Touch *t, EmuCell *cell, u8 bytes, bool note)
{
    u8 known = cell->w.bytes;
    if (cell->w.access && (cell->w.bytes & bytes)) {
        check(t, cell->w, &t->c->memo.write);
        const EmuAccess *p = &t->c->access.at[cell->w.access];
        EmuAccess *x = &t->c->access.at[t->access];
        if (p->kind == ACC_BULK_LOAD && !x->gen) x->gen = p->phase;
    }
    for (int i = 0; i < 2; i++) {
        u64 none = 0;
        if (cell->r[i].atomic && (cell->r[i].bytes & bytes)) check(t, cell->r[i], &none);
    }
    for (u32 i = cell->more; i; i = t->c->node.at[i].next) {
        EmuEntry e = t->c->node.at[i].e;
        if (!e.write && !e.atomic) continue;
        if (e.write) known |= e.bytes;
        u64 none = 0;
        if (e.bytes & bytes) check(t, e, &none);
    }
    // Memory that nobody wrote is NaN (0xff) in the emulator and anything on the machine.
    if (bytes & ~known) {
        Buf place = {0};
        const EmuAccess *x = &t->c->access.at[t->access];
        emu_place_shared(t->c, x->buffer, t->offset, &place);
        emu_hazard(t->w, &t->c->run->prog->ops[x->op], t->lane, HZ_UNINIT, NULL, 0,
                   "reads %s, which nothing has written", place.s);
        buf_free(&place);
        EmuEntry w = {.access = 0, .bytes = 15, .write = 1};
        if (!cell->w.access) cell->w = w; // once is enough
    }
    if (note) note_read(t, cell, bytes);
}

// An atomic access needs what a read needs, must follow the reads that stand there, and stays
// beside other atomics: a later read or write is checked against every one of them.
static void touch_atomic(const Touch *t, EmuCell *cell, u8 bytes)
{
    u64 none = 0;
    for (int i = 0; i < 2; i++)
        if (cell->r[i].access && (cell->r[i].bytes & bytes)) check(t, cell->r[i], &none);
    for (u32 i = cell->more; i; i = t->c->node.at[i].next) {
        EmuEntry e = t->c->node.at[i].e;
        if (!e.write && (e.bytes & bytes)) check(t, e, &none);
    }
    touch_read(t, cell, bytes, true);
}

// A write is checked against everything on its bytes, and then it is all that the cell remembers
// of them: whoever is ordered after this write is ordered after what this write was ordered after.
static void touch_write(const Touch *t, EmuCell *cell, u8 bytes)
{
    EmuEntry mine = {.access = t->access, .lane = (u8)t->lane, .bytes = bytes, .write = 1};
    u64 none = 0;
    if (cell->w.access && (cell->w.bytes & bytes)) {
        check(t, cell->w, &t->c->memo.write);
        // Several lanes of one instruction write the cell.
        if (cell->w.access == t->access && cell->w.lane != t->lane) mine.lane = EMU_ANY_LANE;
    }
    for (int i = 0; i < 2; i++) {
        EmuEntry *e = &cell->r[i];
        if (!e->access || !(e->bytes & bytes)) continue;
        check(t, *e, &t->c->memo.read[i]);
        e->bytes &= (u8)~bytes;
        if (!e->bytes) *e = (EmuEntry){0};
    }
    for (u32 *link = &cell->more; *link;) {
        EmuNode *n = &t->c->node.at[*link];
        if (n->e.bytes & bytes) check(t, n->e, &none);
        n = &t->c->node.at[*link];
        n->e.bytes &= (u8)~bytes;
        if (n->e.bytes) {
            link = &n->next;
            continue;
        }
        u32 dead = *link;
        *link = n->next;
        n->next = t->c->node_free;
        t->c->node_free = dead;
    }
    // Bytes of the cell that the old write keeps: 16-bit elements written by different lanes.
    u8 rest = cell->w.bytes & (u8)~bytes;
    if (rest && (cell->w.access != t->access || cell->w.lane != mine.lane)) {
        EmuEntry old = cell->w;
        old.bytes = rest;
        old.write = 1;
        u32 node = node_new(t->c, old, cell->more);
        cell->more = node;
    } else {
        mine.bytes |= rest;
    }
    cell->w = mine;
}

// Data that lands on a live mbarrier. Its own initialisation does not come here: the barrier is
// not live at that moment.
static void check_barrier_bytes(EmuWarp *w, u32 access, u32 offset, u32 bytes, int lane)
{
    EmuCta *c = w->at;
    for (u32 i = offset / 8; i <= (offset + bytes - 1) / 8; i++) {
        i32 bar = i < c->smem_bytes / 8 ? c->bar_at[i] : -1;
        if (bar < 0 || !c->bar[bar].init) continue;
        const EmuAccess *x = &c->access.at[access];
        Buf place = {0}, name = {0};
        emu_place_shared(c, x->buffer, offset, &place);
        emu_bar_text(c, (u32)bar, &name);
        emu_hazard(w, &c->run->prog->ops[x->op], lane, HZ_OVERLAP, NULL, 0,
                   "%s shares bytes with the live mbarrier %s", place.s, name.s);
        buf_free(&place);
        buf_free(&name);
        return;
    }
}

// The memo is good for consecutive touches by one agent for one access only.
void emu_touch(EmuWarp *w, u32 access, u32 offset, u32 bytes, int lane, bool write, bool note)
{
    EmuCta *c = w->at;
    if (!access || !bytes) return;
    Touch t = {.w = w, .c = c, .access = access, .lane = lane, .kind = c->access.at[access].kind};
    if (offset < c->bars_high && offset + bytes > c->bars_low)
        check_barrier_bytes(w, access, offset, bytes, lane);
    if (c->watch && note) emu_watch_touch(w, access, offset, bytes, write);
    EmuMemo *m = &c->memo;
    if (m->access != access || m->warp != w->index || m->lane != (u32)lane)
        *m = (EmuMemo){.access = access, .warp = w->index, .lane = (u32)lane};
    u32 end = offset + bytes;
    for (u32 at = offset & ~3u; at < end; at += 4) {
        u8 mask = 15;
        if (at < offset) mask &= (u8)(15u << (offset - at));
        if (at + 4 > end) mask &= (u8)(15u >> (at + 4 - end));
        t.offset = at < offset ? offset : at;
        if (t.kind == ACC_ATOMIC) touch_atomic(&t, &c->cell[at / 4], mask);
        else if (write) touch_write(&t, &c->cell[at / 4], mask);
        else touch_read(&t, &c->cell[at / 4], mask, note);
    }
}
