// sample.h - one turn of a prepared launch on its device: idle, load, and then samples, each the
// milliseconds between two marks in the stream. Host time stays out of them: the host queues ahead.
#ifndef BATON_RT_SAMPLE_H
#define BATON_RT_SAMPLE_H

#include "rt.h"

// What to do, in this order: wait until the stream is empty; do nothing for idle_s; launch at least
// `warmup` times and for at least load_s; take `repeat` samples; launch on, untimed, until min_s
// have passed since the first sample began. Seconds of load and min_s are the device's.
typedef struct {
    double idle_s, load_s, min_s;
    int warmup;            // 0..RT_MAX_RUNS
    int repeat;            // 1..RT_MAX_RUNS
    int group;             // launches of one sample; 0: the fewest that last RT_SAMPLE_MS together
    bool graph;            // a sample is one replay of a graph of `group` launches
    i64 cold_bytes;        // > 0: so many bytes are overwritten in front of each timed launch,
                           // outside its two marks; `group` is 0 or 1 then, and there is no graph
} RtSampling;
#define RT_SAMPLE_MS 0.2

typedef struct {
    double *ms;            // the caller's, room for `repeat`: milliseconds of ONE launch, in order
    int group;             // launches of one sample
    double load_ms;        // the load lasted, on the device; 0: there was none
    double t0, t1;         // rt_now_ms() at the first sample's beginning and the last one's end
    double t2;             // and at the end of all launches
    double host_ms;        // that the host took to queue the samples, waiting for a full queue too
    // Samples that had begun before the host had queued all of them, so that the device may have
    // waited for the host within. Not so: all work between the marks was in the queue when the
    // first mark passed. 0 on a device that does not queue, whose samples are the host's time.
    int late;
    bool host_bound;       // late > 0
} RtSamples;

// Takes the turn; synchronous. `stream` as for rt_launch. Beside the order some launches go in
// front of everything, from which the host's head start and the group are found; they are not
// counted. When the device is not clearly slower than the host, it is held between parts of the
// samples so that the host gets ahead again: between two samples, never within one.
baton_status rt_sample(const RtLaunch *l, void *stream, const RtSampling *o, RtSamples *out,
                       RtError *e);

#endif
