// child.h - another program that is asked line by line: one request on its standard input, one
// answer on its standard output, whatever it likes on its standard error. That it cannot be
// started, ends, hangs or talks out of turn is a sentence for the user.
#ifndef BATON_BENCH_CHILD_H
#define BATON_BENCH_CHILD_H

#include "../base/base.h"

typedef struct Child Child;

// Starts `argv` (argv[0] is looked up in PATH; NULL at the end), in a process group of its own. The
// struct lives in the arena. Requests, answers and all of standard error are appended to `log`,
// which outlives the child; NULL: to nothing. NULL with the reason in *why when it cannot be
// started.
Child *child_start(Arena *a, const char *const *argv, Buf *log, const char **why);

// Sends `line` (without a newline) and waits at most limit_s seconds for a line, which is returned
// without its newline and lives in the arena of the child. NULL: the child has ended, was killed
// because it gave no answer in time, or printed what nobody asked for; *why says which, with the
// last lines of its standard error. It is gone then, and every further call says so.
const char *child_ask(Child *c, const char *line, double limit_s, const char **why);

// What the child is accused of by its user: an answer that makes no sense. Kills it; returns the
// sentence with the last lines of standard error, and so will every further child_ask.
const char *child_blame(Child *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Ends the input, waits at most limit_s seconds and kills what is left of the group. True: it ended
// by itself with status 0. NULL is allowed.
bool child_end(Child *c, double limit_s);

#endif
