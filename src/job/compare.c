// compare.c - the kernel's output against the reference: all of it, or an honest sample.
//
// The reference is slow (fp64, no tricks), so large outputs are checked on some of their rows; the
// result says how many, and NaNs are looked for everywhere. The result depends on data, tolerance
// and seed, not on the number of threads.
#include "data.h"
#include "parallel.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Rows. Enough that a kernel which is wrong on one tile edge in a hundred does not pass by luck.
enum { MIN_SAMPLE = 2048 };

// What one worker found; merged in order of workers. Ties go to the lower element, so that the
// result does not depend on which thread drew which row.
typedef struct {
    i64 checked, wrong, nan, first_nan, worst_at;
    double worst, got, want;
    double *row, *scratch;
} Found;

// One comparison, shared by all workers; each writes its own Found only.
typedef struct {
    const RefCase *c;
    const RefTolerance *t;
    const i64 *sample; // row numbers, or NULL: all
    Found *found;
} Compare;

// Keeps the largest error; the first element wins among equal ones.
static void note(Found *f, i64 at, double error, double got, double want)
{
    if (f->worst_at >= 0 && (error < f->worst || (error == f->worst && at > f->worst_at))) return;
    f->worst = error;
    f->worst_at = at;
    f->got = got;
    f->want = want;
}

// Rows [lo, hi) of the sample. The reference is computed row by row into f->row, in double
// precision.
static void compare_rows(void *ctx, i64 lo, i64 hi, int worker)
{
    const Compare *k = ctx;
    const RefCase *c = k->c;
    Found *f = &k->found[worker];
    for (i64 r = lo; r < hi; r++) {
        i64 row = k->sample ? k->sample[r] : r;
        i64 first = row * c->row_len, n = MIN(c->row_len, c->out.count - first);
        c->ref->row(c, row, first, n, f->row, f->scratch);
        for (i64 i = 0; i < n; i++) {
            double got = data_get(c->out.type, c->out.data, first + i), want = f->row[i];
            double error = got == want ? 0 : fabs(got - want);
            // A NaN compares false, so it is wrong. An infinity allows only itself: relative to
            // it every error would be small.
            bool right = got == want ||
                         (isfinite(want) && error <= k->t->abs + k->t->rel * fabs(want));
            if (isnan(error)) error = INFINITY; // a NaN is never right
            if (!right) f->wrong++;
            f->checked++;
            note(f, first + i, error, got, want);
        }
    }
}

// Over all elements, also where only a sample is compared: unwritten ones hold NaN, so this proves
// that everything was written.
static void count_nans(void *ctx, i64 lo, i64 hi, int worker)
{
    const Compare *k = ctx;
    Found *f = &k->found[worker];
    for (i64 i = lo; i < hi; i++) {
        if (!isnan(data_get(k->c->out.type, k->c->out.data, i))) continue;
        f->nan++;
        if (f->first_nan < 0 || i < f->first_nan) f->first_nan = i;
    }
}

// ---- the sample ---------------------------------------------------------------------------------
// One step of SplitMix64: the sample depends on the seed only, not on the machine.
static u64 next_random(u64 *state)
{
    u64 x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// A coordinate in [0, n): in two of three draws one where kernels go wrong: the ends, and both
// sides of multiples of 64 and 128, preferably of the last one.
static i64 coordinate(u64 *state, i64 n)
{
    u64 r = next_random(state);
    i64 random = (i64)(next_random(state) % (u64)n), at = random;
    switch (r % 12) {
    case 0: at = 0; break;
    case 1: at = n - 1; break;
    case 2: at = (n - 1) / 128 * 128; break;
    case 3: at = (n - 1) / 128 * 128 - 1; break;
    case 4: at = random / 64 * 64; break;
    case 5: at = random / 64 * 64 + 63; break;
    case 6: at = random / 128 * 128; break;
    case 7: at = random / 128 * 128 + 127; break;
    default: break;
    }
    return at < 0 || at >= n ? random : at;
}

static int by_number(const void *pa, const void *pb)
{
    i64 a = *(const i64 *)pa, b = *(const i64 *)pb;
    return a < b ? -1 : a > b;
}

// Draws `want` different rows where it can; returns them sorted, and how many there are.
static i64 *draw_sample(Arena *a, const RefCase *c, i64 want, u64 seed, i64 *count)
{
    i64 *row = ARENA_ARRAY(a, i64, want + 2), n = 0;
    u64 state = seed;
    // The first and the last row are always there: kernels begin and end wrong.
    row[n++] = 0;
    row[n++] = c->rows - 1;
    // Doubles are thrown away and drawn again, a few times: a small output may not have that many
    // rows at the places that are preferred.
    for (i64 tries = 0; tries < 4 && n < want; tries++) {
        while (n < want) {
            i64 r = 0;
            for (int d = 0; d < c->nrow_dims; d++)
                r = r * c->row_dim[d] + coordinate(&state, c->row_dim[d]);
            row[n++] = r;
        }
        qsort(row, (size_t)n, sizeof *row, by_number);
        i64 kept = 1;
        for (i64 i = 1; i < n; i++)
            if (row[i] != row[kept - 1]) row[kept++] = row[i];
        n = kept;
    }
    *count = n;
    return row;
}

RefResult ref_compare(Arena *a, const RefCase *c, const RefTolerance *t, double budget, u64 seed)
{
    RefResult r = {.elements = c->out.count, .rows = c->rows, .worst_at = -1, .first_nan = -1};
    int workers = parallel_workers();
    Found *found = ARENA_ARRAY(a, Found, workers);
    for (int w = 0; w < workers; w++) {
        found[w].first_nan = found[w].worst_at = -1;
        found[w].row = ARENA_ARRAY(a, double, c->row_len + 1);
        found[w].scratch = ARENA_ARRAY(a, double, c->ref->scratch_len(c) + 1);
    }
    Compare k = {c, t, NULL, found};
    double row_work = c->ref->row_work(c) + (double)c->row_len;
    r.rows_checked = c->rows;
    if (row_work * (double)c->rows > budget && c->rows > MIN_SAMPLE) {
        double fit = budget / row_work;
        i64 want = fit < MIN_SAMPLE ? MIN_SAMPLE : fit > (double)c->rows ? c->rows : (i64)fit;
        k.sample = draw_sample(a, c, want, seed, &r.rows_checked);
    }
    // Pieces of about a million multiply-adds, a millisecond: large against the cost of drawing
    // one, small against the whole.
    parallel_for(r.rows_checked, 1 + (i64)(1e6 / row_work), compare_rows, &k);
    parallel_for(c->out.count, 1 << 18, count_nans, &k);
    for (int w = 0; w < workers; w++) {
        const Found *f = &found[w];
        r.checked += f->checked;
        r.wrong += f->wrong;
        r.nan += f->nan;
        if (f->first_nan >= 0 && (r.first_nan < 0 || f->first_nan < r.first_nan))
            r.first_nan = f->first_nan;
        // A worker that drew no row has found nothing.
        if (f->worst_at < 0) continue;
        bool worse = r.worst_at < 0 || f->worst > r.worst ||
                     (f->worst == r.worst && f->worst_at < r.worst_at);
        if (!worse) continue;
        r.worst = f->worst;
        r.worst_at = f->worst_at;
        r.worst_got = f->got;
        r.worst_want = f->want;
    }
    return r;
}
