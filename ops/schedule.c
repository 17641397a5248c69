// schedule.c - query tiles to CTAs: longest first, then exchanges, then the order of each CTA.
//
// A (batch, head) is an entry. Neighbouring entries, as a rule two, make a group, and a unit is one
// tile of each of them: it goes to one CTA as a whole.
//   1. Groups are taken in windows. Within a window units go longest first to the CTA with least
//      cost so far. A window is about one unit for each CTA, so that all CTAs work through the
//      entries at the same pace, and few of them are in use at one time: for 132 CTAs, 128 entries
//      and head size 128 their K and V are 31, 35 and 48 MB with 32, 64 and 128 tiles; with one
//      window for all they would be 78, 150 and 302 MB, several times the L2.
//   2. The heaviest and the lightest CTA exchange two units, or hand over one, as long as that
//      lowers the heavier of the two.
//   3. Tasks are written entry by entry, each to the end of its CTA's rows.
// Ties go to the lower number everywhere, so the list is a function of the job.
//
// Overflow: ops_schedule_size bounds the total cost by 2^62, and every sum here is a part of it.
#include "schedule.h"

#include <string.h>

enum {
    NONE = -1,
    UNITS_FOR_PAIRS = 8,   // per CTA: with fewer pairs of tasks, single tasks balance better
    EXCHANGE_BUDGET = 64,  // steps per unit or CTA: bounds the time of the exchanges
};

typedef struct {
    i64 ctas, tiles, entries;
    i64 per_unit;        // entries of a group
    i64 groups;          // the last may have fewer entries
    const i32 *key_tiles;
    i64 fixed_cost;
    i32 *order;          // [tiles] tile numbers by falling cost, equal ones by falling number
    i32 *cta_of;         // [groups * tiles] CTA of unit (group, tile)
    i32 *next;           // [groups * tiles] next unit of the same CTA, by falling cost; or NONE
    i32 *first;          // [ctas] first unit of the CTA; or NONE
    i32 *heap;           // [ctas] CTAs, least cost at the root
    i32 *count;          // [ctas] units
    i64 *load;           // [ctas] cost
} Work;

// ---- sizes --------------------------------------------------------------------------------------

static i64 keys_of(const OpsScheduleJob *job, i64 tile)
{
    return job->key_tiles ? job->key_tiles[tile] : tile + 1;
}

// entries * (the cost of one entry) must stay below 2^62, so that nothing later overflows.
static const char *check_cost(const OpsScheduleJob *job, i64 entries)
{
    i64 sum = 0, total, limit = (i64)1 << 62;
    for (i64 t = 0; t < job->tiles; t++) {
        if (keys_of(job, t) < 0) return "the number of key tiles of a query tile is negative";
        if (job->fixed_cost >= limit / 2 || (sum += 2 * keys_of(job, t) + job->fixed_cost) >= limit)
            return "the estimated costs do not fit 62 bits";
    }
    if (__builtin_mul_overflow(sum, entries, &total) || total >= limit)
        return "the estimated costs do not fit 62 bits";
    return NULL;
}

const char *ops_schedule_size(const OpsScheduleJob *job, OpsScheduleSize *out)
{
    i64 entries, tasks;
    *out = (OpsScheduleSize){0};
    if (job->ctas < 0) return "the number of CTAs is negative";
    if (job->batches < 0 || job->heads < 0 || job->tiles < 0)
        return "the number of batches, heads or tiles is negative";
    if (job->fixed_cost < 0) return "the fixed cost of a task is negative";
    if (job->together < 0) return "the number of entries that stay together is negative";
    if (__builtin_mul_overflow(job->batches, job->heads, &entries) ||
        __builtin_mul_overflow(entries, job->tiles, &tasks)) {
        // A factor of 0 makes the others harmless.
        if (job->batches && job->heads && job->tiles)
            return "the task list would have more than 2^31 - 1 rows";
        tasks = 0;
    }
    if (job->ctas > INT32_MAX || tasks > INT32_MAX - job->ctas)
        return "the task list would have more than 2^31 - 1 rows";
    if (tasks && !job->ctas) return "there are tasks and no CTA to compute them";
    const char *why = tasks ? check_cost(job, entries) : NULL;
    if (why) return why;
    out->tasks = tasks;
    out->rows = job->ctas + tasks;
    out->list_bytes = (size_t)out->rows * OPS_SCHEDULE_ROW * sizeof(i32);
    // See lay_out: units are at most as many as tasks, and so are tiles.
    out->scratch_bytes = (size_t)job->ctas * (sizeof(i64) + 3 * sizeof(i32)) +
                         (size_t)tasks * 3 * sizeof(i32);
    return NULL;
}

// ---- units --------------------------------------------------------------------------------------

static i64 tile_cost(const Work *w, i64 tile)
{
    return 2 * (w->key_tiles ? (i64)w->key_tiles[tile] : tile + 1) + w->fixed_cost;
}

static i64 group_size(const Work *w, i64 group)
{
    return MIN(w->per_unit, w->entries - group * w->per_unit);
}

static i64 unit_cost(const Work *w, i32 unit)
{
    return group_size(w, unit / w->tiles) * tile_cost(w, unit % w->tiles);
}

// Cuts the scratch memory up; 8-byte numbers stand first.
static void lay_out(Work *w, void *scratch)
{
    i64 units = w->groups * w->tiles;
    w->load = scratch;
    w->first = (i32 *)(w->load + w->ctas);
    w->heap = w->first + w->ctas;
    w->count = w->heap + w->ctas;
    w->order = w->count + w->ctas;
    w->cta_of = w->order + w->tiles;
    w->next = w->cta_of + units;
}

// Merges the sorted runs [0, middle) and [middle, n) of `from` into `to`.
static void merge(const Work *w, const i32 *from, i64 middle, i64 n, i32 *to)
{
    i64 a = 0, b = middle;
    for (i64 k = 0; k < n; k++) {
        bool left = b == n || (a < middle && tile_cost(w, from[a]) >= tile_cost(w, from[b]));
        to[k] = left ? from[a++] : from[b++];
    }
}

// Tiles by falling cost. A causal order is ready at once; others are merged from runs of doubling
// length, with `next` as the second array.
static void order_tiles(Work *w)
{
    for (i64 k = 0; k < w->tiles; k++) w->order[k] = (i32)(w->tiles - 1 - k);
    if (!w->key_tiles) return;
    for (i64 run = 1; run < w->tiles; run *= 2) {
        for (i64 k = 0; k < w->tiles; k += 2 * run) {
            i64 n = MIN(2 * run, w->tiles - k);
            merge(w, w->order + k, MIN(run, n), n, w->next + k);
        }
        memcpy(w->order, w->next, (size_t)w->tiles * sizeof *w->order);
    }
}

// ---- longest first ------------------------------------------------------------------------------

// CTA a comes before b: less cost, or as much in fewer units, or the lower number.
static bool comes_first(const Work *w, i32 a, i32 b)
{
    if (w->load[a] != w->load[b]) return w->load[a] < w->load[b];
    if (w->count[a] != w->count[b]) return w->count[a] < w->count[b];
    return a < b;
}

// Gives the unit to the CTA at the root of the heap, and puts that in its new place.
static void give(Work *w, i64 group, i64 tile)
{
    i32 unit = (i32)(group * w->tiles + tile), cta = w->heap[0];
    w->cta_of[unit] = cta;
    w->load[cta] += unit_cost(w, unit);
    w->count[cta]++;
    i64 at = 0;
    for (i64 child; (child = 2 * at + 1) < w->ctas; at = child) {
        if (child + 1 < w->ctas && comes_first(w, w->heap[child + 1], w->heap[child])) child++;
        if (!comes_first(w, w->heap[child], cta)) break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = cta;
}

static void assign(Work *w)
{
    for (i64 c = 0; c < w->ctas; c++) {
        w->load[c] = 0;
        w->count[c] = 0;
        w->heap[c] = (i32)c;
    }
    i64 window = MAX(w->ctas / w->tiles, 1), end;
    for (i64 start = 0; start < w->groups; start = end) {
        // What is left behind the last whole window belongs to it.
        end = w->groups - start < 2 * window ? w->groups : start + window;
        for (i64 k = 0; k < w->tiles; k++)
            for (i64 g = start; g < end; g++) give(w, g, w->order[k]);
    }
}

// ---- exchanges ----------------------------------------------------------------------------------

// The units of each CTA as a list by falling cost: pushed in front in rising order. A last group of
// fewer entries has units of its own costs, so two sorted sequences are merged.
static void link_units(Work *w)
{
    i64 rest = group_size(w, w->groups - 1);
    i64 whole = w->groups - (rest < w->per_unit);
    for (i64 c = 0; c < w->ctas; c++) w->first[c] = NONE;
    for (i64 i = w->tiles - 1, j = whole < w->groups ? i : NONE; i >= 0 || j >= 0;) {
        bool full = j < 0 || (i >= 0 && w->per_unit * tile_cost(w, w->order[i]) <=
                                            rest * tile_cost(w, w->order[j]));
        i64 tile = w->order[full ? i-- : j--];
        for (i64 g = full ? 0 : whole; g < (full ? whole : w->groups); g++) {
            i32 unit = (i32)(g * w->tiles + tile), cta = w->cta_of[unit];
            w->next[unit] = w->first[cta];
            w->first[cta] = unit;
        }
    }
}

static void move_unit(Work *w, i32 unit, i32 from, i32 to)
{
    i64 cost = unit_cost(w, unit);
    i32 *link = &w->first[from];
    while (*link != unit) link = &w->next[*link];
    *link = w->next[unit];
    for (link = &w->first[to]; *link != NONE && unit_cost(w, *link) > cost;) link = &w->next[*link];
    w->next[unit] = *link;
    *link = unit;
    w->cta_of[unit] = to;
    w->load[from] -= cost;
    w->load[to] += cost;
    w->count[from]--;
    w->count[to]++;
}

typedef struct {
    i64 off;    // how far twice the transferred cost is from the gap
    i32 given, taken; // units; taken may be NONE
} Exchange;

static void consider(const Work *w, i64 gap, i32 given, i32 taken, Exchange *best)
{
    i64 moved = unit_cost(w, given) - (taken == NONE ? 0 : unit_cost(w, taken));
    i64 off = 2 * moved > gap ? 2 * moved - gap : gap - 2 * moved;
    if (moved > 0 && off < best->off) *best = (Exchange){off, given, taken};
}

// The exchange that brings the two CTAs closest together, done; false when none brings them closer.
// Both lists fall, so the fitting partner of each next unit lies further down: one walk of each.
static bool exchange(Work *w, i32 heavy, i32 light)
{
    i64 gap = w->load[heavy] - w->load[light];
    Exchange best = {gap, NONE, NONE};
    i32 fits = w->first[light], above = NONE;
    for (i32 unit = w->first[heavy]; unit != NONE && best.off; unit = w->next[unit]) {
        while (fits != NONE && 2 * (unit_cost(w, unit) - unit_cost(w, fits)) < gap) {
            above = fits;
            fits = w->next[fits];
        }
        consider(w, gap, unit, fits, &best);
        if (above != NONE) consider(w, gap, unit, above, &best);
    }
    if (best.given == NONE) return false;
    move_unit(w, best.given, heavy, light);
    if (best.taken != NONE) move_unit(w, best.taken, light, heavy);
    return true;
}

static void extremes(const Work *w, i32 *heavy, i32 *light)
{
    *heavy = *light = 0;
    for (i32 c = 1; c < w->ctas; c++) {
        if (w->load[c] > w->load[*heavy]) *heavy = c;
        if (w->load[c] < w->load[*light]) *light = c;
    }
}

static void balance_loads(Work *w)
{
    link_units(w);
    i64 budget = EXCHANGE_BUDGET * (w->groups * w->tiles + w->ctas);
    while (budget > 0) {
        i32 heavy, light;
        extremes(w, &heavy, &light);
        budget -= w->ctas + 3 * ((i64)w->count[heavy] + w->count[light]);
        if (w->load[heavy] == w->load[light] || !exchange(w, heavy, light)) return;
    }
}

// ---- the list -----------------------------------------------------------------------------------

// Rows of every CTA, then the tasks entry by entry to the end of their CTA's rows. `first` is used
// again, for the row that each CTA's next task takes.
static void write_rows(Work *w, i64 heads, i32 *rows)
{
    i64 units = w->groups * w->tiles;
    for (i64 c = 0; c < w->ctas; c++) w->count[c] = 0;
    for (i64 u = 0; u < units; u++)
        w->count[w->cta_of[u]] += (i32)group_size(w, u / w->tiles);
    i32 row = (i32)w->ctas;
    for (i64 c = 0; c < w->ctas; c++) {
        w->first[c] = row;
        row += w->count[c];
        memcpy(rows + c * OPS_SCHEDULE_ROW, (i32[]){w->first[c], row, 0, 0},
               OPS_SCHEDULE_ROW * sizeof *rows);
    }
    for (i64 e = 0; e < w->entries && w->tiles; e++) {
        for (i64 k = 0; k < w->tiles; k++) {
            i32 tile = w->order[k];
            i32 cta = w->cta_of[e / w->per_unit * w->tiles + tile];
            i32 keys = w->key_tiles ? w->key_tiles[tile] : tile + 1;
            memcpy(rows + (i64)w->first[cta]++ * OPS_SCHEDULE_ROW,
                   (i32[]){tile, (i32)(e % heads), (i32)(e / heads), keys},
                   OPS_SCHEDULE_ROW * sizeof *rows);
        }
    }
}

static OpsScheduleBalance weigh(const Work *w)
{
    OpsScheduleBalance b = {0};
    i32 heavy, light;
    if (!w->ctas) return b;
    for (i64 c = 0; c < w->ctas; c++) b.total += w->load[c];
    extremes(w, &heavy, &light);
    b.heaviest = w->load[heavy];
    b.lightest = w->load[light];
    b.bound = (b.total + w->ctas - 1) / w->ctas;
    if (w->entries && w->tiles) b.bound = MAX(b.bound, tile_cost(w, w->order[0]));
    return b;
}

const char *ops_schedule(const OpsScheduleJob *job, void *scratch, i32 *rows,
                         OpsScheduleBalance *balance)
{
    OpsScheduleSize size;
    const char *why = ops_schedule_size(job, &size);
    if (why) return why;
    Work work = {.ctas = job->ctas, .key_tiles = job->key_tiles, .fixed_cost = job->fixed_cost};
    Work *w = &work;
    if (size.tasks) {
        w->tiles = job->tiles;
        w->entries = job->batches * job->heads;
    }
    w->per_unit = MIN(job->together, w->entries);
    if (!job->together)
        w->per_unit = (w->entries + 1) / 2 * w->tiles < UNITS_FOR_PAIRS * w->ctas ? 1 : 2;
    w->per_unit = MAX(w->per_unit, 1);
    w->groups = (w->entries + w->per_unit - 1) / w->per_unit;
    lay_out(w, scratch);
    order_tiles(w);
    if (size.tasks) {
        assign(w);
        balance_loads(w);
    } else {
        for (i64 c = 0; c < w->ctas; c++) w->load[c] = 0;
    }
    write_rows(w, job->heads, rows);
    if (balance) *balance = weigh(w);
    return NULL;
}
