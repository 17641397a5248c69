// proof.h - the static check of one compiled file, for `check` and `build --check`, and the cache
// of its verdicts.
//   check.c         the table of parts, and the command
//   proof_cache.c   verdicts by content
#ifndef BATON_CLI_PROOF_H
#define BATON_CLI_PROOF_H

#include "../verify/check.h"

enum { PROOF_PARTS = 16 };

typedef struct {
    int broken, open;    // how many
    bool cached;         // the text was proved by an earlier run
    const char *text;    // the report without its last line; in the arena
    CheckReport report;  // empty when cached
    int nparts;          // that ran, in order: 0 when cached
    struct { const char *name; double ms; } part[PROOF_PARTS];
} Proof;

// Runs all parts on every kernel, or finds the verdict in the cache. `time`: the milliseconds of
// each part go to standard error.
void cli_prove(Arena *a, const ThreadModule *m, const Plan *plan, const Diag *d,
               CheckEffort effort, bool cache, bool time, Proof *out);

// Verdicts are kept in $BATON_CACHE, or else in `baton` in $XDG_CACHE_HOME or ~/.cache, one file
// each, named after what was checked and which program did it. An empty $BATON_CACHE, or no folder
// that can be written, means that nothing is kept. Many processes may use it at once: a file is
// written under another name and renamed.
typedef struct { u64 half[2]; } ProofKey;
ProofKey proof_key(const ThreadModule *m, const Plan *plan);
// False: not there, or damaged.
bool proof_find(Arena *a, ProofKey key, Proof *out);
void proof_keep(ProofKey key, const Proof *p);

#endif
