// report.c - hazards as text: who did what to which element, and what the other access was.
//
// A hazard is kept once per (kind, rule, both operations of the program, buffer) with a count; the
// text describes the first time. Operations are those of the thread IR before unrolling.
#include "state.h"

#include <stdio.h>
#include <string.h>

const char *const emu_hazard_name[HZ_COUNT] = {
#define X(id, name) name,
    EMU_HAZARDS(X)
#undef X
};

// Distinct hazards that are kept; a broken kernel has a handful, a damaged program may have
// endless.
enum { MAX_HAZARDS = 256 };

// ---- places -------------------------------------------------------------------------------------

// Element that lies at `offset` bytes of a buffer: the inverse of the layout.
static int coordinates(const ThreadBuffer *b, i64 offset, i64 *coord)
{
    i64 extent[6], elem = b->kind == BUF_MBAR ? 8 : dtype_bytes[b->type];
    for (int i = 0; i < b->rank; i++)
        if (!b->dim[i] || !expr_is_const(b->dim[i], &extent[i]) || extent[i] < 1) return 0;
    int lead = b->rank;
    i64 index = offset / elem;
    if (b->kind == BUF_SHARED && b->layout != SL_ROW && b->rank >= 2) {
        const SmemLayoutInfo *y = &smem_layout[b->layout];
        i64 rows = extent[b->rank - 2], cols = extent[b->rank - 1], span = y->span;
        i64 tile = rows * cols * elem;
        if (!tile || cols * elem % span) return 0;
        i64 in = offset % tile;
        // Relative to the tile: tiles start at multiples of 1,024 bytes, where relative and
        // absolute agree.
        in ^= ((in >> 7) & y->mask) << 4;
        i64 block = in / (rows * span), row = in % (rows * span) / span, byte = in % span;
        coord[b->rank - 2] = row;
        coord[b->rank - 1] = (block * span + byte) / elem;
        lead = b->rank - 2;
        index = offset / tile;
    }
    for (int i = lead - 1; i >= 0; i--) {
        coord[i] = index % extent[i];
        index /= extent[i];
    }
    return b->rank;
}

// A byte of the arena by the name of its buffer and the coordinates of the element, slot first.
void emu_place_shared(const EmuCta *c, i32 buffer, u32 offset, Buf *out)
{
    if (buffer < 0) {
        buf_printf(out, "arena byte %u", offset);
        return;
    }
    const ThreadBuffer *b = &c->run->fn->buffers.at[buffer];
    i64 coord[6];
    i64 at = (i64)offset - b->offset;
    int n = at >= 0 ? coordinates(b, at, coord) : 0;
    buf_puts(out, b->name);
    for (int i = 0; i < n; i++) buf_printf(out, "[%lld]", (long long)coord[i]);
    if (!n) buf_printf(out, "+%lld", (long long)at);
}

void emu_bar_text(const EmuCta *c, u32 bar, Buf *out)
{
    const EmuBar *b = &c->bar[bar];
    buf_printf(out, "%s[%d]", c->run->fn->buffers.at[b->buffer].name, b->slot);
}

// The role region of a warp, or NULL; roles stand at the top of the kernel.
static const ThreadOp *role_of(const ThreadBlock *block, int warp)
{
    for (int i = 0; i < block->n; i++) {
        const ThreadOp *op = block->at[i];
        if (op->op == OP_ROLE && warp >= op->imm && warp < op->imm + op->n) return op;
    }
    return NULL;
}

// "CTA (x,y,z) warp w lane l (role) at i=3, j=0"; the CTA only when there are several.
void emu_who(const EmuWarp *w, int lane, Buf *out)
{
    const ThreadFn *fn = w->cta->run->fn;
    const ThreadOp *role = role_of(&fn->body, w->id);
    const i64 *grid = w->cta->run->launch->grid;
    if (grid[0] * grid[1] * grid[2] > 1)
        buf_printf(out, "CTA (%lld,%lld,%lld) ", (long long)w->cta->id[0], (long long)w->cta->id[1],
                   (long long)w->cta->id[2]);
    buf_printf(out, "warp %d", w->id);
    if (lane >= 0 && lane < EMU_LANES) buf_printf(out, " lane %d", lane);
    if (role && role->n > 1)
        buf_printf(out, " (role of warps %d..%d)", role->imm, role->imm + role->n - 1);
    if (role && role->n == 1) buf_puts(out, " (its own role)");
    for (int i = 0; i < w->loops; i++)
        buf_printf(out, "%s%s=%d", i ? ", " : " at ",
                   fn->regs.at[w->loop_op[i]->src->opnd[0].reg].name,
                   (i32)w->regs[(size_t)w->loop_op[i]->o[0].unit * 32]);
}

// The other side of a conflict, from its record alone: its warp may be anywhere by now.
void emu_access_text(const EmuCta *c, u32 access, int lane, Buf *out)
{
    static const char *const noun[] = {"an access",     "the read",       "the write",
                                       "the atomic",    "the bulk load", "the wgmma read",
                                       "the bulk store", "the cp.async"};
    const EmuAccess *a = &c->access.at[access];
    const EmuCta *by = c->run->cta[a->warp / c->run->warp_stride];
    int warp = a->warp % (int)c->run->warp_stride;
    buf_puts(out, noun[a->kind]);
    if (a->kind == ACC_WGMMA) buf_printf(out, " of warps %d..%d", warp / 4 * 4, warp / 4 * 4 + 3);
    else buf_printf(out, " of warp %d", warp);
    if (by != c)
        buf_printf(out, " of CTA (%lld,%lld,%lld)", (long long)by->id[0], (long long)by->id[1],
                   (long long)by->id[2]);
    if (lane >= 0 && lane < EMU_LANES) buf_printf(out, " lane %d", lane);
    if (a->kind == ACC_BULK_LOAD) {
        buf_puts(out, " (phase ");
        buf_printf(out, "%u of ", a->phase);
        emu_bar_text(c, a->bar, out);
        buf_puts(out, ")");
    }
    const EmuOp *op = &c->run->prog->ops[a->op];
    if (op->src) buf_printf(out, " at line %u", op->src->loc.line);
    buf_printf(out, ", iteration %u", a->iter);
}

// ---- collecting ---------------------------------------------------------------------------------

// True when there is nothing to add: the hazard is known, and was counted, or the report is full.
// Identity is by operation and format, not by text: lanes, CTAs and iterations only count.
static bool seen(EmuRun *r, EmuHazardKind kind, const char *rule, const void *here,
                 const void *there, i32 buffer, const char *fmt)
{
    struct {
        const void *rule, *here, *there, *fmt;
        i64 kind, buffer;
    } id = {rule, here, there, fmt, kind, buffer};
    void *key = (void *)(uintptr_t)(hash_bytes(&id, sizeof id, 0) | 1);
    intptr_t index = (intptr_t)map_get(r->seen, key) - 1;
    if (index >= 0) {
        if (index < r->report->hazards.n) r->report->hazards.at[index].count++;
        return true;
    }
    r->report->ok = false;
    map_put(r->seen, key, (void *)(intptr_t)(r->report->hazards.n + 1));
    return r->report->hazards.n >= MAX_HAZARDS;
}

// Takes the text over and frees it; the copy lives as long as the report.
static void add(EmuRun *r, EmuHazardKind kind, const char *rule, Loc loc, Loc other, Buf *text)
{
    char *copy = arena_strndup(r->out, text->s ? text->s : "", text->n);
    EmuHazard h = {
        .kind = (u8)kind, .rule = rule, .loc = loc, .other = other, .count = 1, .text = copy};
    vec_push(r->out, &r->report->hazards, h);
    buf_free(text);
}

static Loc loc_of(const EmuOp *op) { return op && op->src ? op->src->loc : (Loc){0}; }

// A report never changes what the program does; callers decide how to go on.
void emu_hazard(EmuWarp *w, const EmuOp *op, int lane, EmuHazardKind kind, const char *rule,
                u32 access, const char *fmt, ...)
{
    EmuRun *r = w->cta->run;
    const EmuOp *other = NULL;
    i32 buffer = -1;
    if (access) {
        const EmuAccess *a = &w->at->access.at[access];
        other = &r->prog->ops[a->op];
        buffer = a->buffer;
    }
    if (seen(r, kind, rule, op ? op->src : NULL, other ? other->src : NULL, buffer, fmt)) return;
    Buf text = {0};
    emu_who(w, lane, &text);
    buf_puts(&text, ": ");
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    add(r, kind, rule, loc_of(op), loc_of(other), &text);
}

// For what no single warp is to blame: barriers, the end of a CTA, deadlock.
void emu_hazard_cta(EmuCta *c, const EmuOp *op, EmuHazardKind kind, const char *rule,
                    const char *fmt, ...)
{
    Buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_printf(&text, "CTA (%lld,%lld,%lld): ", (long long)c->id[0], (long long)c->id[1],
               (long long)c->id[2]);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    // Without an operation the text says what it is; the CTA is no part of that.
    const void *here = op ? (const void *)op->src : NULL;
    const char *message = strchr(text.s, ':');
    u64 what = hash_bytes(message, strlen(message), 0);
    if (seen(c->run, kind, rule, here, (void *)(uintptr_t)what, -1, fmt)) {
        buf_free(&text);
        return;
    }
    add(c->run, kind, rule, loc_of(op), (Loc){0}, &text);
}

// ---- deadlock -----------------------------------------------------------------------------------

// Lists where the program arrives at a barrier: who would have had to come.
static void arrivals_text(const ThreadBlock *block, i32 buffer, const ThreadOp *role, int *n,
                          Buf *out)
{
    for (int i = 0; i < block->n; i++) {
        const ThreadOp *op = block->at[i];
        if (op->op == OP_ROLE) role = op;
        bool arrives = op->op == OP_MBAR_ARRIVE || op->op == OP_MBAR_ARRIVE_EXPECT ||
                       op->op == OP_CPASYNC_ARRIVE || op->op == OP_MBAR_ARRIVE_CLUSTER;
        if (arrives && op->nmem && op->mem[0].buffer == buffer && ++*n <= 4) {
            buf_printf(out, "%s line %u", *n == 1 ? "; arrivals stand at" : ",", op->loc.line);
            if (role) buf_printf(out, " (warps %d..%d)", role->imm, role->imm + role->n - 1);
        }
        arrivals_text(&op->body, buffer, role, n, out);
        arrivals_text(&op->other, buffer, role, n, out);
        if (op->op == OP_ROLE) role = NULL;
    }
}

// What a blocked warp waits for, and how far that is.
static void wait_text(const EmuCta *c, const EmuWarp *w, Buf *out)
{
    switch (w->wait) {
    case WAIT_MBAR: {
        const EmuBar *b = &c->bar[w->wait_bar];
        buf_puts(out, "mbarrier ");
        emu_bar_text(c, w->wait_bar, out);
        buf_printf(out, " parity %u: phase %u has %u of %u arrivals", w->wait_parity, b->phase,
                   b->count - b->pending, b->count);
        if (b->expected || b->landed)
            buf_printf(out, ", %llu bytes expected, %llu landed", (unsigned long long)b->expected,
                       (unsigned long long)b->landed);
        int n = 0;
        arrivals_text(&c->run->fn->body, b->buffer, NULL, &n, out);
        if (!n) buf_puts(out, "; nothing in the program arrives there");
        break;
    }
    case WAIT_NAMED: {
        const EmuNamed *n = &c->named[w->wait_named];
        buf_printf(out, "barrier %u: %u of %u threads have arrived", w->wait_named, n->arrived,
                   n->expect);
        break;
    }
    case WAIT_CLUSTER:
        buf_printf(out, "the cluster's barrier: %u warps have arrived", c->run->met);
        break;
    case WAIT_WGMMA: {
        buf_puts(out, "a wgmma that not all four warps of the group have issued");
        break;
    }
    case WAIT_REGISTERS:
        buf_printf(out,
                   "setmaxnreg.inc to %u: %u of %u registers (per lane of all warps) are taken",
                   w->wait_bar, c->regs_used, c->regs_limit);
        break;
    default: buf_puts(out, "nothing"); break;
    }
}

// Neighbours that wait at one place for one thing take one line of the report.
static bool waits_alike(const EmuWarp *a, const EmuWarp *b)
{
    return a->state == b->state && a->pc == b->pc && a->wait == b->wait &&
           a->wait_bar == b->wait_bar;
}

// The warps of one CTA, line by line. Returns the operation that the first of them waits at.
static const EmuOp *waiters_text(const EmuCta *c, Buf *text)
{
    const EmuOp *first = NULL;
    for (int i = 0; i < c->warps;) {
        const EmuWarp *w = &c->warp[i];
        int n = 1;
        while (i + n < c->warps && waits_alike(w, w + n)) n++;
        buf_printf(text, "\n    warp%s %d", n > 1 ? "s" : "", i);
        if (n > 1) buf_printf(text, "..%d", i + n - 1);
        if (w->state == WARP_DONE) {
            buf_puts(text, n > 1 ? " are done" : " is done");
        } else {
            const EmuOp *op = &c->run->prog->ops[w->pc];
            if (!first) first = op;
            if (w->loops)
                buf_printf(text, " (iteration %u)", w->loop_iter[w->loops - 1]);
            buf_printf(text, " wait%s at line %u for ", n > 1 ? "" : "s", loc_of(op).line);
            wait_text(c, w, text);
        }
        i += n;
    }
    return first;
}

// All warps are blocked and nothing is pending that could wake one.
void emu_deadlock(EmuCta *c)
{
    EmuRun *r = c->run;
    Buf text = {0};
    const EmuOp *first = NULL;
    buf_puts(&text, "every warp is done or waits, and nothing is pending");
    for (u32 k = 0; k < r->ctas; k++) {
        const EmuCta *peer = r->cta[k];
        if (r->ctas > 1)
            buf_printf(&text, "\n    CTA (%lld,%lld,%lld) of the cluster:", (long long)peer->id[0],
                       (long long)peer->id[1], (long long)peer->id[2]);
        const EmuOp *op = waiters_text(peer, &text);
        if (!first) first = op;
        r->cta[k]->dead = true;
    }
    emu_hazard_cta(c, first, HZ_DEADLOCK, NULL, "%s", text.s);
    buf_free(&text);
}

// ---- printing -----------------------------------------------------------------------------------

static void print_place(const Diag *files, Loc loc, Buf *out)
{
    if (loc.line)
        buf_printf(out, "%s:%u:%u: ", files ? diag_file_name(files, loc.file) : "?", loc.line,
                   loc.col);
}

void emu_report_print(const EmuReport *r, const Diag *files, Buf *out)
{
    for (int i = 0; i < r->hazards.n; i++) {
        const EmuHazard *h = &r->hazards.at[i];
        print_place(files, h->loc, out);
        buf_printf(out, "hazard: %s%s%s: %s\n", h->rule ? h->rule : "", h->rule ? " " : "",
                   emu_hazard_name[h->kind], h->text);
        if (h->other.line) {
            buf_puts(out, "    ");
            print_place(files, h->other, out);
            buf_puts(out, "the other access\n");
        }
        if (h->count > 1) buf_printf(out, "    seen %lld times\n", (long long)h->count);
    }
    if (r->hazards.n >= MAX_HAZARDS) buf_puts(out, "further hazards were not kept\n");
    buf_printf(out, "%d hazard%s, %lld CTA%s, %lld warp operations\n", r->hazards.n,
               r->hazards.n == 1 ? "" : "s", (long long)r->ctas, r->ctas == 1 ? "" : "s",
               (long long)r->warp_ops);
}
