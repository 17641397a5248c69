// compile.h - what `build` and `run` have in common: the .co file and how it is compiled.
#ifndef BATON_CLI_COMPILE_H
#define BATON_CLI_COMPILE_H

#include "../pass.h"
#include "cli.h"

typedef struct {
    const char *path;       // the .co file; NULL until it was given
    const char *entry;      // -e
    VEC(AstDefine) defines; // -D
} CliSource;

// `NAME=VALUE` or `NAME` of a -D. False: the reason is in the Diag.
bool cli_define(CliSource *s, const char *word, Arena *a, Diag *d);
// Reads the file and fills what Compilation needs of it. False: the reason is in the Diag.
bool cli_read_source(const CliSource *s, Compilation *c);

#endif
