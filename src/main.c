// main.c - the command `baton`: finds the subcommand and hands it the rest of the words.
#include "cli/cli.h"
#include "../include/baton.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "baton - compiles, checks and runs GPU tile kernels (.co) for NVIDIA Hopper\n"
    "\n"
    "  baton run FILE.co [NAME=VALUE ...]   compile, run, compare with the reference\n"
    "  baton build FILE.co [-o OUT.ptx]     compile to PTX, or print an inner form\n"
    "  baton check FILE.co                  prove the handoffs of each kernel for all sizes\n"
    "  baton explore FILE.co [NAME=VALUE]   every schedule of the ring protocol, for few rounds\n"
    "  baton audit FILE.co | CUBIN          look for slot races in the machine code\n"
    "  baton stress FILE.co [NAME=VALUE]    random delays on a GPU, results compared bit for bit\n"
    "  baton diagnose FILE.co --wrong ..    which generation of a slot wrong values come from\n"
    "  baton bench attention|gemm|correct   kernels and others, checked and measured in turns\n"
    "  baton bench --cpu                    how fast compiler, emulator and verifier are\n"
    "  baton trace FILE.co [NAME=VALUE ..]  a timeline of one block: roles, slots, who waits for what\n"
    "  baton package KERNEL ... -o DIR      kernels with a program that measures them, to give away\n"
    "  baton run --help, build --help       the options of each\n"
    "  baton --version\n"
    "\n"
    "To begin with:  baton run kernels/attention/v1.co\n"
    "\n"
    "Exit status: 0 right, 1 wrong result or hazard, 2 bad usage or input, 3 device trouble,\n"
    "4 nothing was shown (stress).\n";

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
} Command;

static const Command commands[] = {
    {"build", cli_build}, {"run", cli_run}, {"check", cli_check}, {"explore", cli_explore},
    {"audit", cli_audit}, {"stress", cli_stress}, {"diagnose", cli_diagnose},
    {"bench", cli_bench}, {"trace", cli_trace}, {"package", cli_package}};

// A word that is no command: perhaps a slip of the pen, perhaps a file given without a command.
static int unknown_command(const char *word)
{
    Arena *arena = arena_new(0);
    Diag *d = diag_new(arena);
    const char *names[COUNT(commands)];
    for (int i = 0; i < COUNT(commands); i++) names[i] = commands[i].name;
    const char *meant = cli_closest(word, names, COUNT(names));
    size_t n = strlen(word);
    const char *hint = "`baton --help` lists the commands";
    if (n > 3 && strcmp(word + n - 3, ".co") == 0)
        hint = arena_printf(arena, "to run a file: baton run %s", word);
    else if (meant)
        hint = arena_printf(arena, "did you mean `baton %s`?", meant);
    diag_error(d, (Loc){0}, hint, "there is no command `%s`", word);
    cli_flush(d);
    arena_free(arena);
    return EXIT_INPUT;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_INPUT;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        fputs(usage, stdout);
        return EXIT_RIGHT;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("baton %s\n", BATON_VERSION_TEXT);
        return EXIT_RIGHT;
    }
    for (int i = 0; i < COUNT(commands); i++)
        if (strcmp(word, commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    return unknown_command(word);
}

// A report that nobody could read must not look like success to a script.
int main(int argc, char **argv)
{
    int status = dispatch(argc, argv);
    bool lost = ferror(stdout) != 0;
    errno = 0;
    lost = fflush(stdout) != 0 || lost;
    if (!lost || status == EXIT_INPUT) return status;
    fprintf(stderr, "baton: error: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return EXIT_INPUT;
}
