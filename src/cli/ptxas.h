// ptxas.h - the assembler of the CUDA toolkit, where there is one: run as a child on a scratch
// file. Nothing of baton needs it; `build --explain` and `audit` show more where it is.
#ifndef BATON_CLI_PTXAS_H
#define BATON_CLI_PTXAS_H

#include "../base/base.h"

// On PATH as an executable file.
bool ptxas_is_here(void);
// Assembles the text for sm_90a. `report` gets what it printed (with -v), `cubin`, unless NULL, the
// code. NULL, or the reason why there is no result, in the arena.
const char *ptxas_run(Arena *a, const char *ptx, size_t n, Buf *cubin, Buf *report);
// "release 13.0, V13.0.88", in the arena; NULL: there is none, or it does not say.
const char *ptxas_version(Arena *a);

#endif
