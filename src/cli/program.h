// program.h - other programs that are run as children, from start to end: ptxas, valgrind, git.
#ifndef BATON_CLI_PROGRAM_H
#define BATON_CLI_PROGRAM_H

#include "../base/base.h"

// On PATH as an executable file.
bool program_is_here(const char *name);
// Runs argv (argv[0] is looked up in PATH; NULL at the end), without input, until it ends; what it
// prints is appended to `output`. `env` is its whole environment (NULL at the end), or NULL: this
// process's. *status as waitpid gives it. False: it could not be run at all.
bool program_run(const char *const *argv, const char *const *env, Buf *output, int *status);
// True when it ended by itself with status 0.
bool program_succeeded(int status);
// An empty file of its own in TMPDIR, to be removed by the caller; NULL: it could not be made.
char *program_scratch_file(Arena *a);

#endif
