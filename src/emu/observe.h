// observe.h - records what one CTA does, for timelines (trace/trace.h). Time is counted in steps.
//
//     EmuObserver o = {.log = &log, .cta = {0, 0, 0}};
//     launch.observer = &o;
//
// Under the round-robin schedule a step is one round in which every warp that can run executes one
// operation, whatever it is. What the copy unit and the tensor cores do takes as many steps as it
// takes cycles on an H200 when nothing else disturbs it (observe.c has the numbers), and each of
// them does one thing at a time, in order of issue. So a timeline shows what overlaps and who waits
// for whom. It does not show how long anything takes: operations of warps cost different
// numbers of cycles and compete for issue slots.
//
// Under the other schedules a step is one operation of the warp that the scheduler chose, and
// copies land when it says so.
//
// Hazards are looked for as in any other run. A run without an observer pays a test of a pointer at
// each asynchronous operation and each completed phase.
#ifndef BATON_EMU_OBSERVE_H
#define BATON_EMU_OBSERVE_H

#include "../trace/trace.h"
#include "emu.h"

typedef struct EmuObserver {
    TraceLog *log;         // gets records; `arena` is set, the rest is filled in
    int launch;            // EmuLaunch.number of the launch to look at
    i64 cta[3];
    bool seen;             // that CTA ran
    // Launches and CTAs behind the observed one (of its cluster) are of no interest: not run.
    bool only;
} EmuObserver;

#endif
