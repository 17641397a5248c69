// parallel.c - a counter that all threads draw their next piece from.
//
// Threads are made for each loop and joined at its end: loops here take milliseconds or more, and
// nothing of them is left behind. Which thread takes which piece is not determined; bodies must
// give the same result for every distribution.
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// Threads, the caller included; bounds the stack that parallel_for takes.
enum { MAX_WORKERS = 64 };

// One loop; it lives on the caller's stack, which waits for all threads.
typedef struct {
    atomic_llong next;
    i64 n, grain;
    ParallelBody *body;
    void *ctx;
} Loop;

typedef struct {
    Loop *loop;
    int worker;
} Start;

// Processors that are online, at most MAX_WORKERS: bounds the `worker` that a body is given.
int parallel_workers(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_WORKERS ? MAX_WORKERS : (int)n;
}

// Pieces are drawn, not dealt out: a slow thread takes fewer. Past the end everyone stops.
static void *work(void *arg)
{
    const Start *s = arg;
    Loop *l = s->loop;
    for (;;) {
        i64 lo = atomic_fetch_add(&l->next, l->grain);
        if (lo >= l->n) return NULL;
        l->body(l->ctx, lo, MIN(lo + l->grain, l->n), s->worker);
    }
}

// The caller works too. Pieces are disjoint, so bodies need no locks for what they write per
// element.
void parallel_for(i64 n, i64 grain, ParallelBody *body, void *ctx)
{
    Loop loop = {0, n, grain, body, ctx};
    Start start[MAX_WORKERS];
    pthread_t thread[MAX_WORKERS];
    int want = (int)MIN((i64)parallel_workers(), (n + grain - 1) / grain), made = 0;
    for (int i = 0; i < want; i++) start[i] = (Start){&loop, i};
    // A thread that cannot be made leaves its share to the others.
    for (int i = 1; i < want; i++) {
        if (pthread_create(&thread[made], NULL, work, &start[i]) != 0) break;
        made++;
    }
    if (want > 0) work(&start[0]);
    // The caller's loop ends when the pieces are gone; others may still be at their last one.
    for (int i = 0; i < made; i++) pthread_join(thread[i], NULL);
}
