// parallel.h - one loop over all processors, for filling and checking large arrays.
#ifndef BATON_JOB_PARALLEL_H
#define BATON_JOB_PARALLEL_H

#include "../base/base.h"

// Calls body(ctx, lo, hi, worker) for pieces of at most `grain` that cover [0, n) once, from as
// many threads as there are processors (from the caller alone when n <= grain). worker is in [0,
// parallel_workers()). Returns when all is done.
typedef void ParallelBody(void *ctx, i64 lo, i64 hi, int worker);
void parallel_for(i64 n, i64 grain, ParallelBody *body, void *ctx);
int parallel_workers(void);

#endif
