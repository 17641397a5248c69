// contest.h - implementations of one operation take turns on one device. In each round every one has a
// turn, in an order that rotates, so that drift of clocks and temperature falls on all alike.
#ifndef BATON_BENCH_CONTEST_H
#define BATON_BENCH_CONTEST_H

#include "bench.h"

// What one turn does, in this order: synchronise, do nothing for idle_s; launch at least `warmup` times
// and for at least load_s seconds; then `repeat` samples; then launch on, untimed, until min_s seconds
// have passed since the first sample began, so that the energy counter steps.
typedef struct {
    double idle_s, load_s, min_s; // seconds
    int warmup, repeat;
    int group;             // launches of one sample; 0: the fewest that take 0.2 ms together
    u8 method;             // BenchMethod
    i64 cold_bytes;        // overwritten before each timed launch, outside its time; 0: nothing is
} BenchOrder;

#endif
