// peer.h - implementations that are not baton's (cuDNN, FlashAttention, Triton, ...): one Python
// process, bench/peers.py, that prepares, checks and times them on request. Its protocol stands at
// the head of that file.
//
//   Peers *p = peers_open(arena, &options, &why);         // NULL: no Python, no script, broken
//   peers_job(p, &job, &why);                             // the tensors, as files
//   peers_prepare(p, "cudnn", &case, &impl, &why);        // compiled, converted, called once
//   peers_result(p, "cudnn", "o.raw", &why);              // for the comparison with the reference
//   peers_turn(p, "cudnn", &order, arena, &turn, &span, &why);
//   peers_close(p);
//
// A peer that cannot do something leaves the process as it is. A process that ends, gives no answer
// in time or talks nonsense is PEER_GONE, now and in every call to come, with the last lines of
// what it said on its standard error.
#ifndef BATON_BENCH_PEER_H
#define BATON_BENCH_PEER_H

#include "contest.h"

typedef enum {
    PEER_OK,
    PEER_MISSING,          // it, or what it needs, is not there
    PEER_WRONG_USE,        // the request makes no sense
    PEER_FAILED,           // the library failed
    PEER_DEGRADED,         // it ran, but not as what its name says
    PEER_GONE,             // the process is not there any more
    PEER_STATES
} PeerStatus;
extern const char *const peer_status_name[PEER_STATES]; // "ok" "missing" "wrong_use" ...

typedef struct {
    const char *python;    // NULL: python3, by PATH
    const char *script;    // path of bench/peers.py
    int gpu;
    double limit_s;        // for an answer, beside a turn's own time; 0: 600, since it may compile
    Buf *log;              // gets all that is said; NULL: nobody does; outlives the Peers
} PeerOptions;

typedef struct {
    const char *name;      // "cudnn"
    const char *why;       // it cannot be used; "": it can
} PeerBackend;

typedef struct Child Child;
typedef struct {
    Arena *arena;          // the caller's: all texts live in it
    Child *child;
    const char *script;
    double limit_s;
    VEC(BenchVersion) versions;
    VEC(PeerBackend) backends;
} Peers;

// Starts the process and has it look around. NULL with the reason in *why.
Peers *peers_open(Arena *a, const PeerOptions *o, const char **why);
void peers_close(Peers *p);   // NULL is allowed
// The backend of that name; NULL: the script knows none such.
const PeerBackend *peers_backend(const Peers *p, const char *name);

// A tensor as it lies in a file: dense, row-major, little-endian.
enum { PEER_MAX_RANK = 8 };
typedef struct {
    const char *name, *file; // file: NULL for the result
    DType type;
    int rank;
    i64 dim[PEER_MAX_RANK];
} PeerTensor;
typedef struct {
    const char *op;        // "attention"
    int nflags;
    struct { const char *name; bool value; } flags[8];   // "causal"
    int nsizes;
    struct { const char *name; i64 value; } sizes[16];   // "B"
    int ntensors;
    const PeerTensor *tensors;
    PeerTensor result;
} PeerJob;

// Each with the reason in *why where it is not PEER_OK; *why is NULL where it is.
PeerStatus peers_job(Peers *p, const PeerJob *j, const char **why);
// Fills compile_ms, convert_ms, first_ms and proof of the case, and label, source_sha256 and
// code_sha256 of the implementation. If it failed, `state` and `why` of the case say it as well.
PeerStatus peers_prepare(Peers *p, const char *backend, BenchCase *c, BenchImpl *impl,
                         const char **why);
// One call of what is timed, whose result is in the file then.
PeerStatus peers_result(Peers *p, const char *backend, const char *file, const char **why);

// Fills ms, group, host_ms, host_bound and load_ms of the turn; ms lives in the arena `a`. There
// are as many samples as were ordered, or it is not PEER_OK.
PeerStatus peers_turn(Peers *p, const char *backend, const BenchOrder *o, Arena *a, BenchTurn *t,
                      BenchSpan *span, const char **why);

#endif
