// words.h - what every program of baton shares: the exit statuses, one table-driven option reader, and the
// way that every message reaches the user.
#ifndef BATON_JOB_WORDS_H
#define BATON_JOB_WORDS_H

#include "../base/base.h"

// What the shell sees. Documented in --help and in the man page.
enum {
    EXIT_RIGHT = 0,   // built, or ran and came out right
    EXIT_WRONG = 1,   // a wrong value or a hazard
    EXIT_INPUT = 2,   // the command line, the .co file or a data file is not right
    EXIT_DEVICE = 3,  // no such GPU, a driver error, no memory
    EXIT_UNDECIDED = 4, // ran, and showed nothing either way
};

// One row a spelling; the index in the table is what cli_next returns.
typedef struct {
    const char *name;  // "--seed" or "-e"
    const char *value; // name of its value for --help ("N"); NULL: a flag
    const char *help;  // one line, or more with '\n'
} CliOption;

// Results of cli_next beside the index of an option in the table.
enum { CLI_END = -1, CLI_POSITIONAL = -2, CLI_BAD = -3 };

// A walk over the words of one command line; cli_next moves it.
typedef struct {
    int argc;
    char **argv;
    int at;                   // next word
    bool only_positionals;    // after "--"
    const CliOption *options;
    int noptions;
    const char *command;      // for messages: "run", of baton, or a program with a dot: "run.sh"
    Arena *arena;
    Diag *diag;
} CliArgs;

// Next option or word. Accepts `--name=value`, `--name value`, `-n value` and `-nvalue`. *value is
// the value of the option (NULL for a flag) or the word itself. CLI_BAD: the reason is in the Diag.
int cli_next(CliArgs *a, const char **value);

// Prints the option table as the part of --help that lists them.
void cli_print_options(const CliOption *options, int n, Buf *out);

// The one of `names` that was probably meant, or NULL when none is close.
const char *cli_closest(const char *word, const char *const *names, int n);

// A whole word as a decimal integer, or false.
bool cli_integer(const char *s, i64 *out);

// A size for people: "1.5 MB"; digits in groups of three: "4,194,304". Both live in the arena.
const char *cli_bytes(Arena *a, double bytes);
const char *cli_count(Arena *a, i64 n);

// Prints what the Diag holds to standard error. Call it once, at the end of a command.
void cli_flush(const Diag *d);

#endif
