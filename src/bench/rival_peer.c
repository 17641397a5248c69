// rival_peer.c - a peer in a contest: the model's arrays as files for the Python process, its
// result back into the model's block.
//
// Files lie in a folder of memory where there is one (/dev/shm): arrays of a size are written once
// and serve all peers; they go when the process has copied them.
#include "rival_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    BenchPeers *all;
    const char *backend;
} PeerRival;

// ---- files --------------------------------------------------------------------------------------
static const char *write_raw(Arena *a, const char *path, const u8 *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, n, f) == n;
    if (f && fclose(f)) ok = false;
    return ok ? NULL : arena_printf(a, "cannot write %s: %s", path, strerror(errno));
}

static const char *read_raw(Arena *a, const char *path, u8 *data, size_t n)
{
    FILE *f = fopen(path, "rb");
    size_t got = f ? fread(data, 1, n, f) : 0;
    bool more = f && fgetc(f) != EOF;
    if (f) fclose(f);
    if (got == n && !more) return NULL;
    return arena_printf(a, "the result in %s has %s than %zu bytes", path, more ? "more" : "fewer",
                        n);
}

static void describe(PeerTensor *t, const JobArray *a, const char *file)
{
    *t = (PeerTensor){
        .name = a->param->name, .file = file, .type = a->param->type, .rank = a->value.rank};
    memcpy(t->dim, a->value.dim, sizeof a->value.dim);
}

// The job of this size, with its inputs in files. Once a size.
static const char *give_job(BenchPeers *p, const Job *m)
{
    Arena *a = m->arena;
    const Contract *k = m->contract;
    PeerTensor *t = ARENA_ARRAY(a, PeerTensor, k->in.n + 1);
    PeerJob j = {.op = p->op, .tensors = t, .ntensors = k->in.n};
    const char *why = NULL;
    for (int i = 0; i < k->in.n && !why; i++) {
        const JobArray *x = job_array(m, k->in.at[i].name);
        if (!x || !x->block) {
            why = arena_printf(a, "there is no array %s", k->in.at[i].name);
            break;
        }
        const char *file = arena_printf(a, "%s/%s.raw", p->folder, x->param->name);
        describe(&t[i], x, file);
        why = write_raw(a, file, x->block + JOB_GUARD, x->bytes);
    }
    describe(&j.result, m->checked, NULL);
    for (int i = 0; i < m->plan->symbols.n && j.nsizes < COUNT(j.sizes); i++) {
        j.sizes[j.nsizes].name = m->plan->symbols.at[i].name;
        j.sizes[j.nsizes++].value = m->symbol[i];
    }
    // The flags of the operation are the reference's: causal=1, reverse=0.
    for (int i = 0; i < k->arguments.n && j.nflags < COUNT(j.flags); i++) {
        const char *v = k->arguments.at[i].value;
        if (strcmp(v, "0") != 0 && strcmp(v, "1") != 0) continue;
        j.flags[j.nflags].name = k->arguments.at[i].key;
        j.flags[j.nflags++].value = *v == '1';
    }
    if (!why) peers_job(p->peers, &j, &why);
    // The process has copied them: a run that is killed must not leave gigabytes of memory behind.
    for (int i = 0; i < j.ntensors; i++)
        if (t[i].file) unlink(t[i].file);
    return why;
}

// ---- the rival ----------------------------------------------------------------------------------
static bool enter(BenchRival *r, const Job *model, BenchCase *c, BenchImpl *impl)
{
    PeerRival *self = r->self;
    BenchPeers *p = self->all;
    const char *why = NULL;
    if (!p->given) {
        why = give_job(p, model);
        p->given = !why;
    }
    c->state = BENCH_FAILED;
    const char *file = arena_printf(model->arena, "%s/result.raw", p->folder);
    PeerStatus status = PEER_OK;
    if (!why) status = peers_prepare(p->peers, self->backend, c, impl, &why);
    if (!why) status = peers_result(p->peers, self->backend, file, &why);
    if (!why)
        why =
            read_raw(model->arena, file, model->checked->result + JOB_GUARD, model->checked->bytes);
    else if (status == PEER_DEGRADED)
        why = arena_printf(model->arena, "degraded: %s", why);
    unlink(file);
    if (!why) {
        c->state = BENCH_NOT_TRIED; // the contest compares
        return true;
    }
    c->why = why;
    return false;
}

static bool turn(BenchRival *r, const BenchOrder *o, Arena *a, BenchTurn *t, BenchSpan *span,
                 const char **why)
{
    PeerRival *self = r->self;
    return peers_turn(self->all->peers, self->backend, o, a, t, span, why) == PEER_OK;
}

static void leave(BenchRival *r)
{
    PeerRival *self = r->self;
    self->all->given = false;
}

BenchRival *bench_peer_rival(Arena *a, BenchPeers *p, const char *backend)
{
    static const BenchRivalOps ops = {enter, turn, NULL, leave};
    PeerRival *self = ARENA_NEW(a, PeerRival);
    *self = (PeerRival){p, backend};
    BenchRival *r = ARENA_NEW(a, BenchRival);
    *r = (BenchRival){&ops,
                      {.name = backend,
                       .label = backend,
                       .peer = true,
                       .file = "bench/peers.py",
                       .options = "",
                       .source_sha256 = "",
                       .code_sha256 = ""},
                      self};
    return r;
}

const char *bench_peers_folder(Arena *a, BenchPeers *p)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    char *path = arena_printf(a, "%s/baton-bench-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(path)) return arena_printf(a, "cannot make %s: %s", path, strerror(errno));
    p->folder = path;
    return NULL;
}

void bench_peers_clear(BenchPeers *p)
{
    if (p->folder) rmdir(p->folder);
    p->folder = NULL;
}
