// diagnose.c - tries hypotheses about late and early reads until the wrong values come out.
//
// In: the record of a right run, right and wrong outputs, a way to run with a fault. Out: findings,
// each one hypothesis with the orders that matter. A run tests one set of orders on all blocks and
// all outputs at once, since elements are judged one by one: "some run gives this value".
#include "diagnose.h"

#include <stdlib.h>
#include <string.h>

// One wrong element.
typedef struct {
    int output;
    i64 index;
} Wrong;

typedef struct {
    int launch;
    i32 buffer;
    u32 slots, norders;    // orders of the longest block
    i32 distance;
    u8 *there;             // bits of orders: in some block the other generation was
    i32 *set;              // per wrong element: the set that explains it + 1; NULL: none does
    i64 explains;
    VEC(const u8 *) sets;  // bits of orders
    VEC(u32) size;         // orders in each
} Hypothesis;

typedef struct {
    const DiagnoseJob *j;
    DiagnoseResult *out;
    VEC(Wrong) wrong;
    VEC(Hypothesis) all;
    const u8 **result;
    bool stopped;
} Search;

// ---- runs ---------------------------------------------------------------------------------------

static bool equal_element(const DiagnoseOutput *o, i64 i, const u8 *a, const u8 *b)
{
    size_t n = dtype_bytes[o->type];
    return memcmp(a + (size_t)i * n, b + (size_t)i * n, n) == 0;
}

// One run with these late reads, `late` as in EmuFault. False when the search is over.
static bool run_with(Search *s, const Hypothesis *h, const u32 *late, bool per_cta)
{
    const DiagnoseJob *j = s->j;
    if (s->stopped) return false;
    EmuFault f = {.history = j->history, .launch = h->launch, .buffer = h->buffer,
                  .distance = h->distance, .norders = h->norders, .per_cta = per_cta,
                  .late = late};
    if (s->out->runs < j->max_runs && j->run(j->ctx, &f, s->result)) {
        s->out->runs++;
        return true;
    }
    s->stopped = s->out->cut = true;
    return false;
}

// What the run gave; the sets that explain an element with the fewest orders stay.
static void take_result(Search *s, Hypothesis *h, const u8 *orders)
{
    const DiagnoseJob *j = s->j;
    u32 size = 0;
    for (u32 n = 0; n < h->norders; n++) size += orders[n / 8] >> n % 8 & 1;
    i32 id = 0;
    for (int i = 0; i < s->wrong.n; i++) {
        Wrong w = s->wrong.at[i];
        const DiagnoseOutput *o = &j->output[w.output];
        if (h->set && h->set[i] && h->size.at[h->set[i] - 1] <= size) continue;
        if (!equal_element(o, w.index, s->result[w.output], o->wrong)) continue;
        if (!id) {
            u8 *copy = arena_alloc(j->arena, h->norders / 8 + 1);
            memcpy(copy, orders, h->norders / 8 + 1);
            vec_push(j->arena, &h->sets, copy);
            vec_push(j->arena, &h->size, size);
            id = h->sets.n;
        }
        if (!h->set) h->set = ARENA_ARRAY(j->arena, i32, s->wrong.n);
        h->explains += !h->set[i];
        h->set[i] = id;
    }
}

// ---- sets of orders -----------------------------------------------------------------------------

typedef bool Member(u32 n, u32 a, u32 b);
static bool is_all(u32 n, u32 a, u32 b) { return (void)n, (void)a, (void)b, true; }
static bool is_between(u32 n, u32 a, u32 b) { return n >= a && n < b; }
static bool is_either(u32 n, u32 a, u32 b) { return n == a || n == b; }
static bool is_slot(u32 n, u32 a, u32 b) { return n % b == a; }
static bool is_bit(u32 n, u32 a, u32 b) { return (void)b, a >> n & 1; }

static void try_members(Search *s, Hypothesis *h, Member *is, u32 a, u32 b)
{
    if (s->stopped) return;
    u8 *orders = calloc(h->norders / 8 + 1, 1);
    u32 *late = calloc(h->norders + 1, sizeof *late);
    if (!orders || !late) BUG("out of memory");
    bool any = false;
    for (u32 n = 0; n < h->norders; n++) {
        if (!is(n, a, b) || !(h->there[n / 8] >> n % 8 & 1)) continue;
        orders[n / 8] |= (u8)(1u << n % 8);
        late[n] = ~0u;
        any = true;
    }
    if (any && run_with(s, h, late, false)) take_result(s, h, orders);
    free(orders);
    free(late);
}

// Each order by itself; of very many, runs of neighbours.
static void try_singles(Search *s, Hypothesis *h)
{
    enum { MOST = 128 };
    u32 step = (h->norders + MOST - 1) / MOST;
    for (u32 n = 0; n < h->norders && step; n += step)
        try_members(s, h, is_between, n, n + step);
}

// Several late reads in one element.
static void try_together(Search *s, Hypothesis *h)
{
    enum { SUBSETS = 10, PAIRS = 24, ENDS = 64 };
    u32 n = h->norders;
    for (u32 a = 0; a < h->slots && h->slots > 1 && h->slots <= 16; a++)
        try_members(s, h, is_slot, a, h->slots);
    for (u32 k = 1; k < n && n <= ENDS; k++) {
        try_members(s, h, is_between, 0, k);
        try_members(s, h, is_between, k, n);
    }
    for (u32 a = 0; a < n && n <= PAIRS; a++)
        for (u32 b = a + 1; b < n; b++) try_members(s, h, is_either, a, b);
    u32 there = h->there[0] | (n > 8 ? (u32)h->there[1] << 8 : 0);
    for (u32 m = 0; n <= SUBSETS && m < 1u << n; m++)
        if (__builtin_popcount(m) > 2 && !(m & ~there)) try_members(s, h, is_bit, m, 0);
}

// ---- a walk through the orders ------------------------------------------------------------------

// The warps that read the buffer, and the number of blocks.
static u32 readers_of(const Search *s, const Hypothesis *h, size_t *ctas)
{
    u32 warps = 0;
    const EmuHistory *y = s->j->history;
    *ctas = 0;
    for (int i = 0; i < y->tracks.n; i++) {
        const EmuTrack *t = y->tracks.at[i];
        if (t->launch != h->launch || t->buffer != h->buffer) continue;
        *ctas = MAX(*ctas, (size_t)t->cta + 1);
        for (int k = 0; k < t->order.n; k++)
            for (int r = 0; t->order.at[k] && r < t->order.at[k]->readers.n; r++)
                warps |= t->order.at[k]->readers.at[r].warps;
    }
    return warps;
}

// Elements of each block that the run made as wrong, or as right, as they are.
static void count_equal(const Search *s, size_t ctas, i64 *equal)
{
    memset(equal, 0, sizeof *equal * (ctas + 1));
    for (int k = 0; k < s->j->noutputs; k++) {
        const DiagnoseOutput *o = &s->j->output[k];
        for (i64 i = 0; o->wrong && o->address && i < o->count; i++) {
            if (!equal_element(o, i, s->result[k], o->wrong)) continue;
            u32 cta = emu_history_writer(s->j->history,
                                         o->address + (size_t)i * dtype_bytes[o->type]);
            if (cta <= ctas) equal[cta]++;
        }
    }
}

// The state of a walk: which reads are late so far, and how many values of each block then are as
// they came out.
typedef struct {
    Search *s;
    Hypothesis *h;
    size_t ctas;
    u32 *late;             // [ctas][norders]
    u32 *tried;            // [ctas] the same of one order, of the best one so far
    i64 *equal, *next;     // [ctas + 1]; element 0: values of nobody
    u8 *orders;            // bits: some block has late reads there
} Walk;

// One run with the reads of these warps late at order k, on top of all before; blocks that it suits
// better remember it. False when the search is over.
static bool walk_try(Walk *w, u32 k, u32 warps)
{
    u32 n = w->h->norders;
    for (size_t c = 0; c < w->ctas; c++) w->late[c * n + k] = warps;
    if (!run_with(w->s, w->h, w->late, true)) return false;
    count_equal(w->s, w->ctas, w->next);
    for (size_t c = 0; c < w->ctas; c++) {
        if (w->next[c + 1] <= w->equal[c + 1]) continue;
        w->equal[c + 1] = w->next[c + 1];
        w->tried[c] = warps;
    }
    return true;
}

// One order: all warps together, then every choice of up to four of them, or each of more.
static bool walk_order(Walk *w, u32 k, u32 warps)
{
    u32 n = w->h->norders;
    memset(w->tried, 0, sizeof *w->tried * w->ctas);
    bool on = walk_try(w, k, warps);
    if (__builtin_popcount(warps) <= 4)
        for (u32 some = (warps - 1) & warps; some && on; some = (some - 1) & warps)
            on = walk_try(w, k, some);
    else
        for (u32 rest = warps; rest && on; rest &= rest - 1) on = walk_try(w, k, rest & -rest);
    for (size_t c = 0; c < w->ctas; c++) {
        w->late[c * n + k] = w->tried[c];
        if (w->tried[c]) w->orders[k / 8] |= (u8)(1u << k % 8);
    }
    return on;
}

// A late value spoils only what comes after it, so the late reads are found in their order: what
// makes more values of its block come out stays, and the next order is tried on top of it.
static void try_walk(Search *s, Hypothesis *h)
{
    Walk w = {.s = s, .h = h};
    u32 warps = readers_of(s, h, &w.ctas), n = h->norders;
    if (!warps || w.ctas * n > 1u << 24) return;
    w.late = calloc(w.ctas * n, sizeof *w.late);
    w.tried = calloc(w.ctas, sizeof *w.tried);
    w.equal = calloc(w.ctas + 1, sizeof *w.equal);
    w.next = calloc(w.ctas + 1, sizeof *w.next);
    w.orders = calloc(n / 8 + 1, 1);
    if (!w.late || !w.tried || !w.equal || !w.next || !w.orders) BUG("out of memory");
    bool on = run_with(s, h, w.late, true);
    if (on) count_equal(s, w.ctas, w.equal);
    for (u32 k = 0; k < n && on; k++)
        if (h->there[k / 8] >> k % 8 & 1) on = walk_order(&w, k, warps);
    if (on && run_with(s, h, w.late, true)) take_result(s, h, w.orders);
    free(w.late);
    free(w.tried);
    free(w.equal);
    free(w.next);
    free(w.orders);
}

// ---- hypotheses ---------------------------------------------------------------------------------

// Orders whose reads the hypothesis changes in some block; false when there are none.
static bool find_there(const Search *s, Hypothesis *x)
{
    const EmuHistory *h = s->j->history;
    bool any = false;
    x->there = arena_alloc(s->j->arena, x->norders / 8 + 1);
    for (int i = 0; i < h->tracks.n; i++) {
        const EmuTrack *t = h->tracks.at[i];
        if (t->launch != x->launch || t->buffer != x->buffer) continue;
        for (int n = 0; n < t->order.n; n++) {
            i64 other = (i64)n + x->distance;
            if (other < 0 || other >= t->order.n) continue;
            const EmuGeneration *due = t->order.at[n], *seen = t->order.at[other];
            if (!due || !seen || !seen->bytes || !due->readers.n) continue;
            x->there[n / 8] |= (u8)(1u << n % 8);
            any = true;
        }
    }
    return any;
}

// Every buffer of every launch that held more than one generation in some slot, or several slots.
static void add_buffer(Search *s, int launch, i32 buffer)
{
    const EmuHistory *h = s->j->history;
    u32 slots = 1, norders = 0;
    bool read = false;
    for (int i = 0; i < h->tracks.n; i++) {
        const EmuTrack *t = h->tracks.at[i];
        if (t->launch != launch || t->buffer != buffer) continue;
        slots = t->slots;
        norders = MAX(norders, (u32)t->order.n);
        for (int k = 0; k < t->order.n && !read; k++)
            read = t->order.at[k] && t->order.at[k]->readers.n;
    }
    if (!read || norders < 2) return;
    enum { GENERATIONS = 4, MOST_SLOTS = 8 };
    i32 distance[2 * GENERATIONS + 2 * MOST_SLOTS];
    int n = 0, one = (int)slots;
    distance[n++] = one;
    distance[n++] = -one;
    for (int g = 2; g <= GENERATIONS; g++) distance[n++] = g * one;
    for (int k = 1; k < one && k < MOST_SLOTS; k++) {
        distance[n++] = k;
        distance[n++] = -k;
    }
    for (int i = 0; i < n; i++) {
        if ((u32)abs(distance[i]) >= norders) continue;
        Hypothesis x = {.launch = launch, .buffer = buffer, .slots = slots, .norders = norders,
                        .distance = distance[i]};
        if (find_there(s, &x)) vec_push(s->j->arena, &s->all, x);
    }
}

static i64 left_to(const Search *s, const Hypothesis *h, const u8 *taken)
{
    i64 n = 0;
    for (int i = 0; h->set && i < s->wrong.n; i++) n += h->set[i] && !taken[i];
    return n;
}

static i64 unexplained(const Search *s)
{
    i64 n = 0;
    for (int i = 0; i < s->wrong.n; i++) {
        bool found = false;
        for (int k = 0; k < s->all.n && !found; k++)
            found = s->all.at[k].set && s->all.at[k].set[i];
        n += !found;
    }
    return n;
}

// First what is cheap, for all; then what several late reads make, the likely ones first.
static void search(Search *s)
{
    for (int k = 0; k < s->all.n; k++) try_members(s, &s->all.at[k], is_all, 0, 0);
    for (int k = 0; k < s->all.n; k++) try_singles(s, &s->all.at[k]);
    u8 *done = arena_alloc(s->j->arena, (size_t)s->all.n + 1);
    for (int round = 0; round < s->all.n && unexplained(s) && !s->stopped; round++) {
        int best = -1;
        for (int k = 0; k < s->all.n; k++)
            if (!done[k] && (best < 0 || s->all.at[k].explains > s->all.at[best].explains))
                best = k;
        done[best] = 1;
        try_walk(s, &s->all.at[best]);
        if (unexplained(s)) try_together(s, &s->all.at[best]);
    }
}

// ---- findings -----------------------------------------------------------------------------------

static void merge_readers(Arena *a, DiagnoseFinding *f, const EmuGeneration *g)
{
    for (int i = 0; i < g->readers.n; i++) {
        const EmuReader *r = &g->readers.at[i];
        bool known = false;
        for (int k = 0; k < f->readers.n && !known; k++) {
            EmuReader *x = &f->readers.at[k];
            Loc a_loc = x->op->loc, b_loc = r->op->loc;
            bool same = a_loc.line && a_loc.line == b_loc.line && a_loc.file == b_loc.file;
            if (x->op != r->op && (!same || x->kind != r->kind || x->loops != r->loops)) continue;
            known = true;
            emu_reader_join(x, r);
        }
        if (!known) vec_push(a, &f->readers, *r);
    }
}

// How far apart in the tensor the tile that was due and the one that was seen lie.
static void place(DiagnoseFinding *f, const EmuGeneration *due, const EmuGeneration *seen,
                  bool *first)
{
    if (due->param < 0 || seen->param != due->param || (!*first && f->param != due->param)) {
        f->param = -1;
        return;
    }
    for (int d = 0; d < due->rank; d++) {
        i32 offset = seen->coord[d] - due->coord[d];
        if (!*first && offset != f->offset[d]) f->even = false;
        f->offset[d] = offset;
        f->steps[d] = due->box[d] ? offset / (i32)due->box[d] : 0;
    }
    f->param = due->param;
    f->rank = due->rank;
    *first = false;
}

static void describe(const Search *s, const Hypothesis *h, DiagnoseFinding *f)
{
    const EmuHistory *y = s->j->history;
    bool first = true, lost = false;
    for (int i = 0; i < y->tracks.n; i++) {
        const EmuTrack *t = y->tracks.at[i];
        if (t->launch != h->launch || t->buffer != h->buffer) continue;
        for (int n = 0; n < t->order.n && (u32)n < f->norders; n++) {
            if (!(f->orders[n / 8] >> n % 8 & 1) || !t->order.at[n]) continue;
            i64 other = (i64)n + h->distance;
            if (other < 0 || other >= t->order.n || !t->order.at[other]) continue;
            merge_readers(s->j->arena, f, t->order.at[n]);
            if (!lost) place(f, t->order.at[n], t->order.at[other], &first);
            lost = f->param < 0;
        }
    }
}

static const char *buffer_name(const DiagnoseJob *j, int launch, i32 buffer)
{
    return j->history->kernels.at[launch]->buffers.at[buffer].name;
}

static void take(Search *s, Hypothesis *h, u8 *taken)
{
    Arena *a = s->j->arena;
    DiagnoseFinding f = {.launch = h->launch, .buffer = h->buffer, .slots = h->slots,
                         .distance = h->distance, .norders = h->norders, .param = -1,
                         .even = true};
    f.explained = left_to(s, h, taken);
    for (int k = 0; k < s->all.n; k++) {
        const Hypothesis *o = &s->all.at[k];
        if (o == h || !o->set) continue;
        bool same = true;
        for (int i = 0; i < s->wrong.n && same; i++)
            same = taken[i] || !h->set[i] || o->set[i];
        if (!same) continue;
        if (!f.alike++)
            f.alike_text = arena_printf(a, "%s at order n%+d",
                                        buffer_name(s->j, o->launch, o->buffer), o->distance);
    }
    f.orders = arena_alloc(a, h->norders / 8 + 1);
    for (int i = 0; i < s->wrong.n; i++) {
        if (taken[i] || !h->set[i]) continue;
        taken[i] = 1;
        const u8 *set = h->sets.at[h->set[i] - 1];
        for (u32 k = 0; k <= h->norders / 8; k++) f.orders[k] |= set[k];
        f.several |= h->size.at[h->set[i] - 1] > 1;
    }
    describe(s, h, &f);
    s->out->explained += f.explained;
    vec_push(a, &s->out->findings, f);
}

void diagnose(const DiagnoseJob *j, DiagnoseResult *out)
{
    *out = (DiagnoseResult){.partial = j->history->full};
    Search s = {.j = j, .out = out};
    s.result = ARENA_ARRAY(j->arena, const u8 *, j->noutputs + 1);
    for (int k = 0; k < j->noutputs; k++) {
        const DiagnoseOutput *o = &j->output[k];
        if (!o->wrong) continue;
        out->elements += o->count;
        for (i64 i = 0; i < o->count; i++)
            if (!equal_element(o, i, o->right, o->wrong))
                vec_push(j->arena, &s.wrong, ((Wrong){k, i}));
    }
    out->wrong = s.wrong.n;
    if (!s.wrong.n) return;
    for (int l = 0; l < j->history->kernels.n; l++)
        for (int b = 0; b < j->history->kernels.at[l]->buffers.n; b++)
            if (j->history->kernels.at[l]->buffers.at[b].kind == BUF_SHARED) add_buffer(&s, l, b);
    search(&s);
    u8 *taken = arena_alloc(j->arena, (size_t)s.wrong.n);
    for (;;) {
        int best = -1;
        i64 most = 0;
        for (int k = 0; k < s.all.n; k++) {
            i64 n = left_to(&s, &s.all.at[k], taken);
            if (n > most) best = k, most = n;
        }
        if (best < 0) return;
        if (most * DIAGNOSE_CHANCE < out->wrong) {
            for (int i = 0; i < s.wrong.n; i++) {
                bool met = false;
                for (int k = 0; k < s.all.n && !met; k++)
                    met = !taken[i] && s.all.at[k].set && s.all.at[k].set[i];
                out->chance += met;
            }
            return;
        }
        take(&s, &s.all.at[best], taken);
    }
}

// ---- the report ---------------------------------------------------------------------------------

// Orders as ranges: "0..3, 6".
static void print_orders(const DiagnoseFinding *f, Buf *out)
{
    bool any = false;
    for (u32 n = 0; n < f->norders; n++) {
        if (!(f->orders[n / 8] >> n % 8 & 1)) continue;
        u32 from = n;
        while (n + 1 < f->norders && (f->orders[(n + 1) / 8] >> (n + 1) % 8 & 1)) n++;
        buf_printf(out, "%s%u", any ? ", " : "", from);
        if (n > from) buf_printf(out, "..%u", n);
        any = true;
    }
}

static void print_warps(u32 warps, Buf *out)
{
    int low = __builtin_ctz(warps), high = 31 - __builtin_clz(warps);
    if (low == high) buf_printf(out, "warp %d", low);
    else buf_printf(out, "warps %d..%d", low, high);
}

// Which generation, in words.
static void print_distance(const DiagnoseFinding *f, Buf *out)
{
    int s = (int)f->slots, g = f->distance / s;
    buf_printf(out, "what stood there at order n%+d: ", f->distance);
    if (f->distance % s) buf_puts(out, "another slot");
    else if (g == 1) buf_puts(out, "the next generation of the same slot");
    else if (g == -1) buf_puts(out, "the generation before in the same slot");
    else buf_printf(out, "%+d generations of the same slot", g);
}

// "tile of src: +2 in dimension 0 (elements +128)"; dimensions count from the outermost.
static void print_tiles(const DiagnoseJob *j, const DiagnoseFinding *f, Buf *out)
{
    if (f->param < 0) return;
    const char *name = j->history->kernels.at[f->launch]->params.at[f->param].name;
    if (strncmp(name, "tmap_", 5) == 0) name += 5;
    const char *end = strrchr(name, '_');
    int length = end && end[1] >= '0' && end[1] <= '9' ? (int)(end - name) : (int)strlen(name);
    buf_printf(out, "      tile of %.*s: ", length, name);
    if (!f->even) {
        buf_puts(out, "at distances that differ\n");
        return;
    }
    bool any = false;
    for (int d = f->rank - 1; d >= 0; d--) {
        if (!f->offset[d]) continue;
        buf_printf(out, "%s%+d in dimension %d (%+d elements)", any ? ", " : "", f->steps[d],
                   f->rank - 1 - d, f->offset[d]);
        any = true;
    }
    buf_puts(out, any ? "\n" : "the same\n");
}

static void print_reader(const DiagnoseJob *j, const DiagnoseFinding *f, const EmuReader *r,
                         Buf *out)
{
    bool file = j->files && r->op->loc.file;
    buf_printf(out, "      read at %s%u by ",
               file ? arena_printf(j->arena, "%s:", diag_file_name(j->files, r->op->loc.file))
                    : "line ",
               r->op->loc.line);
    print_warps(r->warps, out);
    buf_printf(out, " (%s)", emu_read_name[r->kind]);
    for (int k = 0; k < r->loops; k++) {
        const ThreadFn *fn = j->history->kernels.at[f->launch];
        buf_printf(out, "%s %s %u", k ? "," : ", rounds", fn->regs.at[r->loop[k]->opnd[0].reg].name,
                   r->first[k]);
        if (r->last[k] > r->first[k]) buf_printf(out, "..%u", r->last[k]);
    }
    buf_putc(out, '\n');
}

static void print_finding(const DiagnoseJob *j, const DiagnoseFinding *f, i64 wrong, Buf *out)
{
    enum { SHOWN = 4 };
    buf_printf(out, "  %lld of %lld: reads of %s at order n saw ", (long long)f->explained,
               (long long)wrong, buffer_name(j, f->launch, f->buffer));
    print_distance(f, out);
    buf_putc(out, '\n');
    print_tiles(j, f, out);
    buf_printf(out, "      orders ");
    print_orders(f, out);
    buf_printf(out, ", %u slot%s%s\n", f->slots, f->slots == 1 ? "" : "s",
               f->several ? "; some elements need several of them together" : "");
    for (int i = 0; i < f->readers.n && i < SHOWN; i++) print_reader(j, f, &f->readers.at[i], out);
    if (f->readers.n > SHOWN)
        buf_printf(out, "      and %d more operations\n", f->readers.n - SHOWN);
    if (f->alike)
        buf_printf(out, "      the same values also from %d other hypothes%cs: %s\n", f->alike,
                   f->alike == 1 ? 'i' : 'e', f->alike_text);
}

void diagnose_print(const DiagnoseJob *j, const DiagnoseResult *r, Buf *out)
{
    for (int k = 0; k < j->noutputs; k++) {
        const DiagnoseOutput *o = &j->output[k];
        i64 n = 0;
        if (!o->wrong) continue;
        for (i64 i = 0; i < o->count; i++) n += !equal_element(o, i, o->right, o->wrong);
        buf_printf(out, "%lld of %lld elements of %s are wrong\n", (long long)n,
                   (long long)o->count, o->name);
    }
    if (!r->wrong) return;
    for (int i = 0; i < r->findings.n; i++)
        print_finding(j, &r->findings.at[i], r->wrong, out);
    buf_printf(out, "  %lld of %lld: not explained by a read of another generation\n",
               (long long)(r->wrong - r->explained), (long long)r->wrong);
    if (r->chance)
        buf_printf(out, "      (%lld of them are met by some run or other: so few may be chance)\n",
                   (long long)r->chance);
    buf_printf(out, "  %d runs%s%s\n", r->runs,
               r->cut ? "; stopped there, so more could be explained (--runs)" : "",
               r->partial ? "; the record was cut at its limit, smaller sizes have all of it" : "");
}

// ---- the direct form ----------------------------------------------------------------------------

// Element i as a number.
static double number(DType type, const u8 *p, i64 i)
{
    p += (size_t)i * dtype_bytes[type];
    u64 v = 0;
    memcpy(&v, p, dtype_bytes[type]);
    double f64;
    switch (type) {
    case DT_F32:
    case DT_TF32: return f32_of_bits((u32)v);
    case DT_F16: return f16_to_f32((u16)v);
    case DT_BF16: return bf16_to_f32((u16)v);
    case DT_E4M3: return e4m3_to_f32((u8)v);
    case DT_E5M2: return e5m2_to_f32((u8)v);
    case DT_F64: memcpy(&f64, p, 8); return f64;
    case DT_S8: return (int8_t)v;
    case DT_S16: return (int16_t)v;
    case DT_S32: return (i32)v;
    case DT_S64: return (double)(i64)v;
    default: return (double)v;
    }
}

// Distances that are tried: up to eight tiles of 1, 8, 16 .. 512 indices, in both directions.
enum { MOST_TILES = 8, MOST_SHIFTS = 2 * MOST_TILES * 8 + 1 };

typedef struct {
    const DiagnoseOutput *o;
    DType type;
    const u8 *values;
    i64 inner, n, m;        // elements behind the axis; its extents in the output and in the array
    i64 shift[MOST_SHIFTS]; // nearest first; 0 is the first of them
    int shifts;
} Direct;

static void add_shift(Direct *d, i64 s)
{
    for (int i = 0; i < d->shifts; i++)
        if (d->shift[i] == s) return;
    if (llabs(s) >= MAX(d->n, d->m)) return;
    int at = d->shifts++;
    for (; at > 0 && llabs(d->shift[at - 1]) > llabs(s); at--) d->shift[at] = d->shift[at - 1];
    d->shift[at] = s;
}

static void list_shifts(Direct *d)
{
    add_shift(d, 0);
    for (i64 tile = 1; tile <= 512; tile *= tile == 1 ? 8 : 2)
        for (i64 k = 1; k <= MOST_TILES; k++) {
            add_shift(d, tile * k);
            add_shift(d, -tile * k);
        }
}

// Does the array, `shift` further along the axis, have the number x at element i of the output?
static bool has(const Direct *d, i64 i, i64 shift, double x)
{
    i64 in = i % d->inner, at = i / d->inner % d->n + shift, out = i / d->inner / d->n;
    if (at < 0 || at >= d->m) return false;
    return number(d->type, d->values, (out * d->m + at) * d->inner + in) == x;
}

static bool is_right(const DiagnoseOutput *o, i64 i)
{
    return o->right && equal_element(o, i, o->right, o->wrong);
}

// Index of the shift that most of the counts have, the nearest of equal ones.
static int most(const Direct *d, const i64 *count, int from)
{
    int best = from;
    for (int k = from; k < d->shifts; k++)
        if (count[k] > count[best]) best = k;
    return best;
}

// One axis. Where nobody says which elements are right, those that fit the commonest shift are.
static DiagnoseDirect along(const Direct *d, int axis)
{
    const DiagnoseOutput *o = d->o;
    i64 settled[MOST_SHIFTS] = {0}, equal[MOST_SHIFTS] = {0};
    DiagnoseDirect x = {.fits = true, .axis = axis};
    for (i64 i = 0; i < o->count; i++) {
        if (o->right && !is_right(o, i)) continue;
        x.settled_of++;
        for (int k = 0; k < d->shifts; k++)
            settled[k] += has(d, i, d->shift[k], number(o->type, o->wrong, i));
    }
    int base = most(d, settled, 0);
    x.base = d->shift[base];
    x.settled = settled[base];
    for (i64 i = 0; i < o->count; i++) {
        double v = number(o->type, o->wrong, i);
        if (o->right ? is_right(o, i) : has(d, i, x.base, v)) continue;
        x.wrong++;
        for (int k = 1; k < d->shifts; k++) equal[k] += has(d, i, x.base + d->shift[k], v);
    }
    if (!o->right) x.settled_of = x.settled;
    if (d->shifts < 2) return x;
    int found = most(d, equal, 1);
    x.distance = d->shift[found];
    x.equal = equal[found];
    return x;
}

DiagnoseDirect diagnose_direct(const DiagnoseOutput *o, DType type, int rank, const i64 *dim,
                               const u8 *values)
{
    DiagnoseDirect best = {0};
    if (rank != o->rank || !o->count) return best;
    for (int axis = 0; axis < rank; axis++) {
        Direct d = {.o = o, .type = type, .values = values, .inner = 1, .n = o->dim[axis],
                    .m = dim[axis]};
        bool agree = true;
        for (int k = 0; k < rank; k++) {
            agree = agree && (k == axis || dim[k] == o->dim[k]);
            if (k > axis) d.inner *= dim[k];
        }
        if (!agree) continue;
        list_shifts(&d);
        DiagnoseDirect x = along(&d, axis);
        if (!best.fits || x.equal > best.equal ||
            (x.equal == best.equal && x.settled > best.settled))
            best = x;
    }
    return best;
}

void diagnose_direct_print(const DiagnoseOutput *o, const char *name, const DiagnoseDirect *d,
                           Buf *out)
{
    if (!d->fits) {
        buf_printf(out, "  directly: %s and %s have shapes that cannot be compared\n", o->name,
                   name);
        return;
    }
    buf_printf(out, "  directly: %lld of %lld wrong elements of %s equal %s", (long long)d->equal,
               (long long)d->wrong, o->name, name);
    if (d->equal)
        buf_printf(out, " at %+lld in dimension %d, the other coordinates the same",
                   (long long)d->distance, d->axis);
    buf_printf(out, " (%lld of %lld right ones at %+lld)\n", (long long)d->settled,
               (long long)d->settled_of, (long long)d->base);
}
