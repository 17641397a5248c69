// bench.c - `baton bench`: hands the words behind `--cpu` to its own command.
#include "cli.h"

#include <string.h>

int cli_bench(int argc, char **argv)
{
    if (argc && strcmp(argv[0], "--cpu") == 0) return cli_bench_cpu(argc - 1, argv + 1);
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    diag_error(d, (Loc){0}, "`baton bench --cpu --help` says more",
               "baton bench needs --cpu: the compiler, the emulator and the verifier are measured");
    cli_flush(d);
    arena_free(a);
    return EXIT_INPUT;
}
