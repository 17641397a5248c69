// compile.h - what the commands have in common: the .co file and how it is compiled.
#ifndef BATON_CLI_COMPILE_H
#define BATON_CLI_COMPILE_H

#include "../pass.h"
#include "cli.h"

typedef struct {
    const char *path;       // the .co file; NULL until it was given
    const char *entry;      // -e
    VEC(AstDefine) defines; // -D
    TileOptions options;    // that change the program
} CliSource;

// Rows and names of the options that change the program, the same in every command that compiles.
#define CLI_PROGRAM_ENUM OPT_NO_SPECIALISE, OPT_HANDOFF, OPT_UNSAFE
#define CLI_PROGRAM_OPTIONS                                                                        \
    {"--no-specialise", NULL, "loops with [[pipeline]] stay loops; the results have the same\n"     \
                              "bits"},                                                             \
    {"--handoff", "POLICY", "what stands before a slot that was read is handed back: proxy\n"      \
                            "(default), delay, membar or none; the last two are unsound"},         \
    {"--unsafe", NULL, "allow unsound handoff policies, with a warning"}
#define CLI_PROGRAM_CASES(source, value, a, d)                                                     \
    case OPT_NO_SPECIALISE: (source)->options.sequential = true; break;                            \
    case OPT_HANDOFF: cli_handoff(source, value, a, d); break;                                     \
    case OPT_UNSAFE: (source)->options.unsafe = true; break
void cli_handoff(CliSource *s, const char *word, Arena *a, Diag *d);

// `NAME=VALUE` or `NAME` of a -D. False: the reason is in the Diag.
bool cli_define(CliSource *s, const char *word, Arena *a, Diag *d);
// Reads the file and fills what Compilation needs of it. False: the reason is in the Diag.
bool cli_read_source(const CliSource *s, Compilation *c);

#endif
