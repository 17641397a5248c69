// rival_peer.h - peers as rivals of a contest. Of the command only: a package has no peers.
#ifndef BATON_BENCH_RIVAL_PEER_H
#define BATON_BENCH_RIVAL_PEER_H

#include "peer.h"

// One process and the files that it reads, shared by all peers of a contest.
typedef struct {
    Peers *peers;
    const char *op;     // "attention", as the protocol says
    const char *folder; // of the files
    bool given;         // the process has the arrays of this size
} BenchPeers;

// NULL, or why there is no folder for files.
const char *bench_peers_folder(Arena *a, BenchPeers *p);
// Removes it; files in it went as they were read.
void bench_peers_clear(BenchPeers *p);
// The rival, in the arena. `backend` is a name that the process knows.
BenchRival *bench_peer_rival(Arena *a, BenchPeers *p, const char *backend);

#endif
