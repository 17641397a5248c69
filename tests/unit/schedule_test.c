// schedule_test.c - the task list of persistent attention: every task once, in order, balanced, the
// same every time, within its memory, for any sizes; the loads of the Croqtile page within 1%.
//
//     schedule_test            prints the balance and the time of the page's loads as well
#include "../../ops/host.h"
#include "../../ops/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int passed, failed;
} Tally;

static void expect(Tally *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    t->failed++;
    printf("FAILED %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// ---- one list -----------------------------------------------------------------------------------

typedef struct {
    OpsScheduleJob job;
    OpsScheduleSize size;
    OpsScheduleBalance balance;
    i32 *rows;
    double ms;
    const char *why;     // the job was refused
    bool damaged;        // bytes behind the list or the scratch memory were written
} List;

enum { GUARD = 64 };

// Builds the list in memory that holds `junk` before, with guards behind it.
static List build(OpsScheduleJob job, u8 junk)
{
    List l = {.job = job};
    l.why = ops_schedule_size(&job, &l.size);
    if (l.why) return l;
    u8 *rows = malloc(l.size.list_bytes + GUARD), *scratch = malloc(l.size.scratch_bytes + GUARD);
    if (!rows || !scratch) abort();
    memset(rows, junk, l.size.list_bytes + GUARD);
    memset(scratch, junk, l.size.scratch_bytes + GUARD);
    double start = now_ms();
    l.why = ops_schedule(&job, scratch, (i32 *)rows, &l.balance);
    l.ms = now_ms() - start;
    for (int i = 0; i < GUARD; i++)
        if (rows[l.size.list_bytes + i] != junk || scratch[l.size.scratch_bytes + i] != junk)
            l.damaged = true;
    l.rows = (i32 *)rows;
    free(scratch);
    return l;
}

static i64 keys_of(const OpsScheduleJob *j, i32 tile)
{
    return j->key_tiles ? j->key_tiles[tile] : tile + 1;
}

static i64 cost_of(const OpsScheduleJob *j, i32 tile)
{
    return 2 * keys_of(j, tile) + j->fixed_cost;
}

// What is wrong with the tasks of one CTA; NULL when nothing is. Marks them in `seen`.
static const char *check_cta(const List *l, const i32 *head, u8 *seen, i64 *cost)
{
    const OpsScheduleJob *j = &l->job;
    i64 last_entry = -1, last_cost = 0;
    *cost = 0;
    for (i32 r = head[0]; r < head[1]; r++) {
        const i32 *row = l->rows + (i64)r * OPS_SCHEDULE_ROW;
        if (row[0] < 0 || row[0] >= j->tiles || row[1] < 0 || row[1] >= j->heads || row[2] < 0 ||
            row[2] >= j->batches)
            return "a task that does not exist";
        if (row[3] != keys_of(j, row[0])) return "the wrong number of key tiles";
        i64 entry = row[2] * j->heads + row[1], c = cost_of(j, row[0]);
        if (seen[entry * j->tiles + row[0]]++) return "a task twice";
        if (entry < last_entry) return "entries out of order";
        if (entry == last_entry && c > last_cost) return "tasks of one entry out of order";
        last_entry = entry;
        last_cost = c;
        *cost += c;
    }
    return NULL;
}

// What is wrong with the list; NULL when nothing is.
static const char *check_list(const List *l)
{
    i64 tasks = l->size.tasks, ctas = l->job.ctas, total = 0, heaviest = 0, lightest = INT64_MAX;
    if (l->damaged) return "memory beyond its own was written";
    if (l->size.rows != ctas + tasks || l->size.list_bytes != (size_t)l->size.rows * 16)
        return "the wrong size";
    u8 *seen = calloc((size_t)tasks + 1, 1);
    const char *why = NULL;
    i64 next = ctas;
    for (i64 c = 0; c < ctas && !why; c++) {
        const i32 *head = l->rows + c * OPS_SCHEDULE_ROW;
        i64 cost;
        if (head[0] != next || head[1] < head[0] || head[1] > l->size.rows || head[2] || head[3])
            why = "a CTA's row is wrong";
        else
            why = check_cta(l, head, seen, &cost);
        // Kernels rely on it where the launch has no more blocks than tasks.
        if (!why && l->job.together <= 1 && ctas <= tasks && head[0] == head[1])
            why = "a CTA without a task";
        if (why) break;
        next = head[1];
        total += cost;
        heaviest = MAX(heaviest, cost);
        lightest = MIN(lightest, cost);
    }
    if (!why && next != l->size.rows) why = "not all tasks are there";
    for (i64 k = 0; k < tasks && !why; k++)
        if (!seen[k]) why = "a task is missing";
    const OpsScheduleBalance *b = &l->balance;
    if (!why && ctas && (b->total != total || b->heaviest != heaviest || b->lightest != lightest))
        why = "the balance is not that of the list";
    i64 bound = ctas ? (total + ctas - 1) / ctas : 0;
    for (i64 k = 0; tasks && k < l->job.tiles; k++) bound = MAX(bound, cost_of(&l->job, (i32)k));
    if (!why && (b->bound != bound || heaviest < bound)) why = "the bound is wrong";
    free(seen);
    return why;
}

// ---- any sizes ----------------------------------------------------------------------------------

static u64 next_random(u64 *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

// Longest first alone keeps the heaviest CTA within one unit of the mean; so must the result.
static bool is_balanced(const List *l)
{
    i64 largest = 0, together = MIN(MAX(l->job.together, 2), l->job.batches * l->job.heads + 2);
    if (!l->size.tasks) return true;
    for (i64 k = 0; k < l->job.tiles; k++) largest = MAX(largest, cost_of(&l->job, (i32)k));
    return l->balance.heaviest <= l->balance.bound + together * largest;
}

static void test_one(Tally *t, OpsScheduleJob job)
{
    List a = build(job, 0x00), b = build(job, 0xa5);
    Buf what = {0};
    buf_printf(&what, "ctas %lld batches %lld heads %lld tiles %lld fixed %lld together %lld%s",
               (long long)job.ctas, (long long)job.batches, (long long)job.heads,
               (long long)job.tiles, (long long)job.fixed_cost, (long long)job.together,
               job.key_tiles ? " with key tiles" : "");
    expect(t, !a.why && !b.why, what.s, a.why);
    if (!a.why && !b.why) {
        const char *why = check_list(&a);
        expect(t, !why, what.s, why);
        expect(t, memcmp(a.rows, b.rows, a.size.list_bytes) == 0, what.s, "not the same twice");
        expect(t, is_balanced(&a), what.s, "not balanced");
    }
    free(a.rows);
    free(b.rows);
    buf_free(&what);
}

static void test_corners(Tally *t)
{
    static const i64 some[] = {0, 1, 2, 3, 17};
    for (int b = 0; b < COUNT(some); b++)
        for (int h = 0; h < COUNT(some); h++)
            for (int n = 0; n < COUNT(some); n++)
                for (int c = 1; c < COUNT(some); c++)
                    for (int k = 0; k < 3; k++)
                        test_one(t, (OpsScheduleJob){some[c], some[b], some[h], some[n], NULL,
                                                     OPS_SCHEDULE_FIXED_COST, k});
    // Far beyond the tasks, without tasks at all, and more than 8 and 6 bits can count.
    test_one(t, (OpsScheduleJob){5000, 1, 3, 2, NULL, 4, 0});
    test_one(t, (OpsScheduleJob){0, 1, 0, 2, NULL, 4, 0});
    test_one(t, (OpsScheduleJob){7, INT64_MAX, 0, INT64_MAX, NULL, 4, 0});
    test_one(t, (OpsScheduleJob){132, 1, 1, 1000, NULL, 4, 0});
    test_one(t, (OpsScheduleJob){132, 1, 300, 5, NULL, 4, 0});
    test_one(t, (OpsScheduleJob){132, 300, 1, 5, NULL, 4, 7});
    test_one(t, (OpsScheduleJob){3, 2, 2, 5, NULL, 4, INT64_MAX});
    test_one(t, (OpsScheduleJob){3, 2, 2, 5, NULL, (i64)1 << 56, 0});
}

static void test_random(Tally *t)
{
    u64 state = 2026;
    i32 keys[64];
    for (int i = 0; i < 1500; i++) {
        OpsScheduleJob job = {
            .ctas = 1 + (i64)next_random(&state) % (i % 3 ? 20 : 200),
            .batches = (i64)next_random(&state) % 5,
            .heads = (i64)next_random(&state) % 12,
            .tiles = (i64)next_random(&state) % COUNT(keys),
            .fixed_cost = (i64)next_random(&state) % 9,
            .together = (i64)next_random(&state) % 5,
        };
        if (i % 2) {
            // All alike, none at all, a few giants: not only what a triangle gives.
            i64 most = (i64[]){1, 2, 50, 1000}[i / 2 % 4];
            for (int k = 0; k < COUNT(keys); k++) keys[k] = (i32)((i64)next_random(&state) % most);
            if (i % 7 == 0) keys[i % COUNT(keys)] = 100000;
            job.key_tiles = keys;
        }
        test_one(t, job);
    }
}

// Key tiles that say what the causal case says give the same list.
static void test_key_tiles(Tally *t)
{
    i32 keys[33];
    for (int k = 0; k < COUNT(keys); k++) keys[k] = k + 1;
    List a = build((OpsScheduleJob){13, 2, 5, COUNT(keys), NULL, 4, 0}, 1);
    List b = build((OpsScheduleJob){13, 2, 5, COUNT(keys), keys, 4, 0}, 2);
    expect(t, !a.why && !b.why && memcmp(a.rows, b.rows, a.size.list_bytes) == 0,
           "causal key tiles given by the caller", a.why);
    free(a.rows);
    free(b.rows);
}

// A list known by hand: tiles of cost 2, 4 and 6 in two entries, one after the other, on 3 CTAs.
static void test_by_hand(Tally *t)
{
    static const i32 want[][OPS_SCHEDULE_ROW] = {
        {3, 5, 0, 0}, {5, 7, 0, 0}, {7, 9, 0, 0},
        {2, 0, 0, 3}, {0, 1, 0, 1}, // cost 6 + 2
        {1, 0, 0, 2}, {1, 1, 0, 2}, // cost 4 + 4
        {0, 0, 0, 1}, {2, 1, 0, 3}, // cost 2 + 6
    };
    List l = build((OpsScheduleJob){3, 1, 2, 3, NULL, 0, 1}, 9);
    expect(t, !l.why && l.size.rows == COUNT(want) && !memcmp(l.rows, want, sizeof want),
           "the list that one finds by hand", l.why);
    expect(t, l.balance.total == 24 && l.balance.bound == 8 && l.balance.heaviest == 8 &&
                  l.balance.lightest == 8, "its balance", NULL);
    free(l.rows);
}

// ---- refusals -----------------------------------------------------------------------------------

static void test_refusals(Tally *t)
{
    static const i32 negative[] = {1, -1, 1};
    static const struct {
        OpsScheduleJob job;
        const char *sentence;
    } cases[] = {
        {{-1, 1, 1, 1, NULL, 4, 0}, "the number of CTAs is negative"},
        {{1, -1, 1, 1, NULL, 4, 0}, "the number of batches, heads or tiles is negative"},
        {{1, 1, -1, 1, NULL, 4, 0}, "the number of batches, heads or tiles is negative"},
        {{1, 1, 1, -1, NULL, 4, 0}, "the number of batches, heads or tiles is negative"},
        {{1, 1, 1, 1, NULL, -1, 0}, "the fixed cost of a task is negative"},
        {{1, 1, 1, 1, NULL, 4, -1}, "the number of entries that stay together is negative"},
        {{0, 1, 1, 1, NULL, 4, 0}, "there are tasks and no CTA to compute them"},
        {{1, 1, 1, 3, negative, 4, 0}, "the number of key tiles of a query tile is negative"},
        {{1, 1, 1, INT32_MAX, NULL, 4, 0}, "the task list would have more than 2^31 - 1 rows"},
        {{(i64)1 << 40, 1, 1, 1, NULL, 4, 0}, "the task list would have more than 2^31 - 1 rows"},
        {{1, (i64)1 << 40, (i64)1 << 40, 1, NULL, 4, 0},
         "the task list would have more than 2^31 - 1 rows"},
        {{1, (i64)1 << 31, (i64)1 << 31, 4, NULL, 4, 0},
         "the task list would have more than 2^31 - 1 rows"},
        {{1, 1, 1, 3, NULL, INT64_MAX, 0}, "the estimated costs do not fit 62 bits"},
        {{1, 1, 1, 3, NULL, (i64)1 << 61, 0}, "the estimated costs do not fit 62 bits"},
        {{1, 8, 8, 3, NULL, (i64)1 << 56, 0}, "the estimated costs do not fit 62 bits"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        OpsScheduleSize size;
        const char *why = ops_schedule_size(&cases[i].job, &size);
        expect(t, why && !strcmp(why, cases[i].sentence), cases[i].sentence, why);
        i32 rows[4] = {7, 7, 7, 7};
        why = ops_schedule(&cases[i].job, NULL, rows, NULL);
        expect(t, why && rows[0] == 7, "a refused job writes nothing", why);
    }
}

// ---- the page's loads ---------------------------------------------------------------------------

// Each tile of entries 2k and 2k+1 lies on one CTA.
static bool is_paired(const List *l)
{
    const OpsScheduleJob *j = &l->job;
    i64 entries = j->batches * j->heads;
    i32 *cta_of = calloc((size_t)l->size.tasks + 1, sizeof *cta_of);
    for (i32 c = 0; c < j->ctas; c++)
        for (i32 r = l->rows[c * 4]; r < l->rows[c * 4 + 1]; r++) {
            const i32 *row = l->rows + (i64)r * 4;
            cta_of[(row[2] * j->heads + row[1]) * j->tiles + row[0]] = c;
        }
    bool ok = true;
    for (i64 e = 0; e + 1 < entries; e += 2)
        ok = ok && !memcmp(cta_of + e * j->tiles, cta_of + (e + 1) * j->tiles,
                           (size_t)j->tiles * sizeof *cta_of);
    free(cta_of);
    return ok;
}

// Entries that some CTA works on at one time, the mean over the whole job, when every task takes as
// long as its cost says.
static double entries_in_use(const List *l)
{
    enum { MOMENTS = 100 };
    const OpsScheduleJob *j = &l->job;
    u8 *used = calloc((size_t)(j->batches * j->heads * MOMENTS), 1);
    for (i64 c = 0; c < j->ctas; c++) {
        i64 at = 0, m = 0;
        for (i32 r = l->rows[c * 4]; r < l->rows[c * 4 + 1]; r++) {
            const i32 *row = l->rows + (i64)r * 4;
            at += cost_of(j, row[0]);
            for (; m < MOMENTS && m * l->balance.heaviest < at * MOMENTS; m++)
                used[(row[2] * j->heads + row[1]) * MOMENTS + m] = 1;
        }
    }
    double n = 0;
    for (i64 k = 0; k < j->batches * j->heads * MOMENTS; k++) n += used[k];
    free(used);
    return n / MOMENTS;
}

static void test_page(Tally *t)
{
    static const i64 tiles[] = {32, 64, 128}, ctas[] = {114, 132};
    for (int i = 0; i < COUNT(tiles); i++) {
        for (int k = 0; k < COUNT(ctas); k++) {
            List l = build((OpsScheduleJob){ctas[k], 4, 32, tiles[i], NULL,
                                            OPS_SCHEDULE_FIXED_COST, 0}, 3);
            const OpsScheduleBalance *b = &l.balance;
            double over = 100.0 * (double)(b->heaviest - b->bound) / (double)b->bound;
            double used = entries_in_use(&l);
            printf("%lld tasks on %lld CTAs: %.2f%% over the bound (lightest %.2f%% under), %.0f "
                   "of 128 entries in use, %.2f ms to build\n", (long long)l.size.tasks,
                   (long long)ctas[k], over,
                   100.0 * (double)(b->bound - b->lightest) / (double)b->bound, used, l.ms);
            const char *why = check_list(&l);
            expect(t, !why, "a load of the page", why);
            expect(t, over <= 1, "a load of the page is within 1% of the bound", NULL);
            expect(t, is_paired(&l), "pairs stay together", NULL);
            // Without windows 36 to 47 entries are in use whatever the sequence length.
            expect(t, used <= 1000.0 / (double)tiles[i] + 8, "few entries are in use at a time",
                   NULL);
            free(l.rows);
        }
    }
}

// Sixteen times the tasks take about sixteen times the time: far from the square.
static void test_growth(Tally *t)
{
    double ms[2];
    for (int i = 0; i < 2; i++) {
        ms[i] = 1e9;
        for (int k = 0; k < 3; k++) {
            List l = build((OpsScheduleJob){132, 4, 64, i ? 4096 : 256, NULL, 4, 0}, 0);
            ms[i] = MIN(ms[i], l.ms);
            free(l.rows);
        }
    }
    printf("65536 tasks in %.2f ms, 1048576 in %.2f ms\n", ms[0], ms[1]);
    expect(t, ms[1] < 128 * ms[0] + 1, "the time grows about as the tasks do", NULL);
}

// What host.h says about the elements of the list, on which the verifier rests.
static void test_bounds(Tally *t)
{
    const OpsHostFunction *f = ops_host_find("causal_tasks");
    u64 state = 7;
    const char *why = f && f->bounds ? NULL : "nothing is said";
    for (int i = 0; i < 3000 && !why; i++) {
        // Few tasks for many CTAs and the other way round.
        i64 args[OPS_HOST_MAX_ARGS] = {
            1 + (i64)next_random(&state) % (i % 2 ? 140 : 12), (i64)next_random(&state) % 4,
            (i64)next_random(&state) % 9, (i64)next_random(&state) % 20,
            (i64)next_random(&state) % 9, (i64)next_random(&state) % 4};
        OpsHostSize size;
        if (f->size(args, &size)) continue;
        i32 *rows = malloc(size.bytes + 4);
        void *scratch = malloc(size.scratch_bytes + 8);
        why = f->fill(args, scratch, rows);
        if (!why) why = ops_host_check(f, args, &size, rows);
        free(rows);
        free(scratch);
    }
    expect(t, !why, "the list keeps the bounds that are stated", why);

    // And the check sees what does not.
    static const struct { int row, column; i32 value; } wrong[] = {
        {0, 1, 2}, {1, 0, 1}, {2, 3, 0}, {3, 0, -1}, {4, 2, -1}, {5, 3, 9}};
    i64 args[OPS_HOST_MAX_ARGS] = {2, 1, 2, 2, 4, 0};
    for (int i = 0; i < COUNT(wrong); i++) {
        OpsHostSize size;
        i32 rows[32];
        i64 scratch[64];
        f->size(args, &size);
        why = size.bytes > sizeof rows || size.scratch_bytes > sizeof scratch ? "too large" : NULL;
        if (!why) why = f->fill(args, scratch, rows);
        expect(t, !why, "a small list", why);
        rows[wrong[i].row * 4 + wrong[i].column] = wrong[i].value;
        expect(t, ops_host_check(f, args, &size, rows) != NULL, "a wrong element is found", NULL);
    }
}

int main(void)
{
    Tally t = {0};
    test_bounds(&t);
    test_by_hand(&t);
    test_corners(&t);
    test_random(&t);
    test_key_tiles(&t);
    test_refusals(&t);
    test_page(&t);
    test_growth(&t);
    printf("schedule: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
