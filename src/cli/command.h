// command.h - the frame of a command that takes one source file: -e, -D, --help, the file's name,
// one arena, and every message printed once at the end.
#ifndef BATON_CLI_COMMAND_H
#define BATON_CLI_COMMAND_H

#include "compile.h"

typedef struct {
    const char *name;        // "explore"
    const char *about;       // of --help, in front of the options
    const char *more;        // of --help, behind them
    const char *needs;       // "a .co file"
    const char *example;     // of a whole command line
    const CliOption *options; // besides -e, -D, --help and -h
    int noptions;
    CliSource *source;       // gets the file and what -e and -D say
    void *job;               // handed to the functions
    // An option of the table above by its index, or CLI_POSITIONAL: a word that is not the file.
    // Returns false when the word is none that the command takes. May be NULL.
    bool (*word)(void *job, int option, const char *value, Arena *a, Diag *d);
    int (*run)(void *job, Arena *a, Diag *d); // exit status
} CliCommand;

// Reads the words, runs, prints messages. Returns the exit status.
int cli_command(const CliCommand *c, int argc, char **argv);

// A whole number from 1 to `most`, or an error and 1.
i64 cli_number(const char *option, const char *word, i64 most, Diag *d);

#endif
