// kernel_word.h - `[NAME=]FILE.co [options of baton build]` as one word of a command line, for
// commands that take several kernels.
#ifndef BATON_CLI_KERNEL_WORD_H
#define BATON_CLI_KERNEL_WORD_H

#include "compile.h"

typedef struct {
    const char *name;    // NAME, or the file's without its ending
    const char *options; // quoted for a shell; ""
    CliSource source;
} KernelWord;

// Everything lives in the arena. False: the reason is in the Diag. `command` is for messages.
bool cli_kernel_word(const char *command, const char *item, KernelWord *out, Arena *a, Diag *d);
// The first sentence of the comment at the head of a source, without the file's name: of "// v4.co
// - causal attention, forward: .." it is "causal attention, forward".
const char *cli_kernel_title(Arena *a, const char *text);

#endif
