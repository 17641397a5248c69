// package.c - `baton package`: kernels with a program that checks and measures them, as a folder
// that builds with a C compiler alone. Nothing runs here; src/package makes the files.
#include "../package/package.h"
#include "ptxas.h"

#include <stdio.h>
#include <string.h>

// Order of the table below: cli_next answers with the index of the row.
enum { OPT_OUT, OPT_FORCE, OPT_NO_ARCHIVE, OPT_HELP, OPT_H };

static const CliOption options[] = {
    {"-o", "DIR", "the folder to make, beside it DIR.tar.gz and DIR.tar.gz.sha256"},
    {"--force", NULL, "replace the files of a package that lies there; results stay"},
    {"--no-archive", NULL, "make the folder alone"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
};

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b,
             "baton package KERNEL ... -o DIR - kernels, and a program that checks and measures "
             "them, as a\nfolder that needs neither baton nor Python: DIR/run.sh builds and runs "
             "it on a GPU\n\n"
             "A KERNEL is `[NAME=]FILE.co [-e ENTRY] [-D NAME=VALUE] [--handoff=POLICY]`, as one "
             "word:\n"
             "  baton package kernels/gemm/gemm.co 'half=kernels/gemm/gemm.co -D ELEM=f16' -o DIR\n"
             "All compute one operation, and their contracts name a reference.\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nThe same kernels give the same bytes. With ptxas on PATH the machine code is "
                 "in it too.\nExit status: 0 written, 2 bad usage or input, 3 no memory.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// The name of a folder without the slashes behind it.
static const char *folder_of(Arena *a, const char *word)
{
    size_t n = strlen(word);
    while (n > 1 && word[n - 1] == '/') n--;
    return arena_strndup(a, word, n);
}

static void check_words(const Package *p, int items)
{
    if (!items)
        diag_error(p->diag, (Loc){0},
                   "for example: baton package kernels/attention/v4.co -o attention",
                   "baton package needs kernels");
    if (!p->folder || !*p->folder)
        diag_error(p->diag, (Loc){0}, "for example: -o attention",
                   "baton package needs the folder to make");
    else if (p->archive && strcmp(strrchr(p->folder, '/') ? strrchr(p->folder, '/') + 1 : p->folder,
                                  ".") == 0)
        diag_error(p->diag, (Loc){0}, "--no-archive makes the folder alone",
                   "an archive of %s has no name", p->folder);
}

// Every kernel is compiled even after an error, so that one run tells every mistake.
static int package(Package *p, const char *const *item, int n)
{
    p->assembler = ptxas_version(p->arena);
    for (int i = 0; i < n; i++) package_add(p, item[i]);
    bool ok = diag_errors(p->diag) == 0 && package_add_ceiling(p) && package_write(p);
    if (ok) {
        size_t bytes = 0;
        for (int i = 0; i < p->files.n; i++) bytes += p->files.at[i].n;
        printf("%s: %d kernel%s, %d files, %s", p->folder, p->kernels.n,
               p->kernels.n == 1 ? "" : "s", p->files.n, cli_bytes(p->arena, (double)bytes));
        printf("%s\n", p->archive ? arena_printf(p->arena, "; %s.tar.gz", p->folder) : "");
    }
    package_free(p);
    return ok ? EXIT_RIGHT : EXIT_INPUT;
}

// Reads all words even after an error, so that one run tells every mistake. True when help was
// asked for.
static bool read_words(Package *p, int argc, char **argv, const char **item, int *items)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "package", p->arena, p->diag};
    bool help = false;
    const char *value;
    for (int o; (o = cli_next(&args, &value)) != CLI_END;) {
        switch (o) {
        case CLI_BAD: break; // reported
        case CLI_POSITIONAL: item[(*items)++] = value; break;
        case OPT_OUT: p->folder = folder_of(p->arena, value); break;
        case OPT_FORCE: p->force = true; break;
        case OPT_NO_ARCHIVE: p->archive = false; break;
        case OPT_HELP:
        case OPT_H: help = true; break;
        default: BUG("option without a case");
        }
    }
    return help;
}

// One arena for the whole command, at most 1 GB: a source that needs more is hostile.
int cli_package(int argc, char **argv)
{
    Arena *a = arena_new((size_t)1 << 30);
    Package p = {.archive = true, .arena = a, .diag = diag_new(a)};
    const char **item = ARENA_ARRAY(a, const char *, argc + 1);
    int items = 0, status = EXIT_INPUT;
    if (read_words(&p, argc, argv, item, &items)) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (!diag_errors(p.diag)) check_words(&p, items);
    if (!diag_errors(p.diag)) status = package(&p, item, items);
    cli_flush(p.diag);
    arena_free(a);
    return status;
}
