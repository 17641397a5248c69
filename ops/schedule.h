// schedule.h - the task list of a persistent attention kernel: which CTA computes which query
// tiles, in which order. A causal tile costs the more the later it lies in the sequence, so equal
// numbers of tiles are not equal work; this file gives every CTA of the grid about the same cost,
// with tasks of the same (batch, head) next to each other, so that their K and V are still in the
// L2 cache.
//
// The list is static and made on the host, once per set of sizes. It depends on nothing but its
// input, so that two machines make the same one. No state, no allocation: the caller gives the
// memory. Any number of tiles, heads, batches and CTAs whose list has at most 2^31 - 1 rows.
#ifndef BATON_OPS_SCHEDULE_H
#define BATON_OPS_SCHEDULE_H

#include "../src/base/base.h"

// The list: rows of OPS_SCHEDULE_ROW 32-bit integers, `ctas + tasks` of them, row after row.
//
//     row c, 0 <= c < ctas     {first, end, 0, 0}: CTA c has the rows first <= r < end;
//                              first == end: it has no task
//     row r >= ctas            {tile, head, batch, key tiles of this query tile}: one task
//
// The rows of CTA 0 stand first, then those of CTA 1, and so on without a gap. Within a CTA they
// are in order of (batch, head), and within one of those by falling cost.
enum {
    OPS_SCHEDULE_ROW = 4,
    OPS_SCHEDULE_FIXED_COST = 4, // the usual OpsScheduleJob.fixed_cost
};

typedef struct {
    i64 ctas;             // of the grid, however many; 0 only when there are no tasks
    i64 batches, heads;   // 0 or more
    i64 tiles;            // query tiles of each (batch, head), 0 or more
    // Key tiles that each query tile meets, `tiles` numbers of 0 or more, only read. NULL: causal
    // with query and key tiles of one size, tile + 1.
    const i32 *key_tiles;
    // The estimated cost of a task is 2 * (key tiles) + fixed_cost: two products for each key tile,
    // and what a task costs before and after them (Croqtile's page on causal prefill, step 4, whose
    // value is OPS_SCHEDULE_FIXED_COST). 0 or more; both terms have this unit, half a key tile.
    i64 fixed_cost;
    // Neighbouring (batch, head) entries whose tiles of one number go to the same CTA: 2 pairs them
    // as that page does, 1 lets each go its own way. 0: pairs, or singles when there are few tasks.
    i64 together;
} OpsScheduleJob;

typedef struct {
    i64 tasks;            // batches * heads * tiles
    i64 rows;             // ctas + tasks
    size_t list_bytes;    // of the list, 16 per row
    size_t scratch_bytes; // of working memory for ops_schedule
} OpsScheduleSize;

typedef struct {
    i64 total;              // cost of all tasks
    i64 heaviest, lightest; // cost of the CTA with most and least of it
    i64 bound;              // max(ceil(total / ctas), dearest task): no heaviest CTA is below
} OpsScheduleBalance;

// What the job needs. Returns NULL, or a sentence (static) that says which rule the job breaks: a
// negative number, no CTAs for some tasks, too many rows, costs beyond 62 bits. Linear in `tiles`.
const char *ops_schedule_size(const OpsScheduleJob *job, OpsScheduleSize *out);

// Writes the whole list to `rows` (list_bytes, aligned to 4). `scratch` (scratch_bytes, aligned to
// 8) may hold anything and is free afterwards. `balance` may be NULL. Both stay the caller's. Takes
// O(n log n) time in n = ctas + tasks. Returns as ops_schedule_size, and writes nothing then.
const char *ops_schedule(const OpsScheduleJob *job, void *scratch, i32 *rows,
                         OpsScheduleBalance *balance);

#endif
