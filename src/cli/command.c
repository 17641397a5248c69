// command.c - the frame of a command; see command.h.
#include "command.h"

#include <stdio.h>

// Behind the command's own rows: those of every command.
enum { OPT_ENTRY, OPT_DEFINE, CLI_PROGRAM_ENUM, OPT_HELP, OPT_H };
static const CliOption common[] = {
    {"-e", "ENTRY", "take this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    CLI_PROGRAM_OPTIONS,
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
};

static const CliOption *all_options(const CliCommand *c, Arena *a)
{
    CliOption *all = ARENA_ARRAY(a, CliOption, c->noptions + COUNT(common));
    for (int i = 0; i < c->noptions; i++) all[i] = c->options[i];
    for (int i = 0; i < COUNT(common); i++) all[c->noptions + i] = common[i];
    return all;
}

static void print_help(const CliCommand *c, const CliOption *options, int n)
{
    Buf b = {0};
    buf_printf(&b, "%s\n", c->about);
    cli_print_options(options, n, &b);
    buf_printf(&b, "\n%s", c->more);
    fputs(b.s, stdout);
    buf_free(&b);
}

static void positional(const CliCommand *c, const char *word, Arena *a, Diag *d)
{
    if (c->word && c->word(c->job, CLI_POSITIONAL, word, a, d)) return;
    if (!c->source->path)
        c->source->path = word;
    else
        diag_error(d, (Loc){0}, NULL, "baton %s takes one file, found `%s` after %s", c->name, word,
                   c->source->path);
}

// True when help was asked for.
static bool common_option(const CliCommand *c, int option, const char *value, CliArgs *args)
{
    switch (option) {
    case OPT_ENTRY: c->source->entry = value; break;
    case OPT_DEFINE: cli_define(c->source, value, args->arena, args->diag); break;
    CLI_PROGRAM_CASES(c->source, value, args->arena, args->diag);
    case OPT_HELP:
    case OPT_H: return true;
    default: BUG("option without a case");
    }
    return false;
}

// Reads all words even after an error, so that one run tells every mistake. True when help was
// asked for.
static bool read_words(const CliCommand *c, CliArgs *args)
{
    bool help = false;
    const char *value;
    for (int o; (o = cli_next(args, &value)) != CLI_END;) {
        if (o == CLI_BAD) continue; // reported
        if (o == CLI_POSITIONAL) positional(c, value, args->arena, args->diag);
        else if (o >= c->noptions) help |= common_option(c, o - c->noptions, value, args);
        else if (!c->word(c->job, o, value, args->arena, args->diag))
            BUG("option without a case");
    }
    return help;
}

// One arena for the whole command, at most 1 GB: an input that needs more is hostile.
int cli_command(const CliCommand *c, int argc, char **argv)
{
    Arena *a = arena_new((size_t)1 << 30);
    Diag *d = diag_new(a);
    const CliOption *options = all_options(c, a);
    int n = c->noptions + COUNT(common), status = EXIT_INPUT;
    CliArgs args = {argc, argv, 0, false, options, n, c->name, a, d};
    if (read_words(c, &args)) {
        print_help(c, options, n);
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (!diag_errors(d) && !c->source->path)
        diag_error(d, (Loc){0}, arena_printf(a, "for example: %s", c->example),
                   "baton %s needs %s", c->name, c->needs);
    else if (!diag_errors(d))
        status = c->run(c->job, a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}

i64 cli_number(const char *option, const char *word, i64 most, Diag *d)
{
    i64 v;
    if (cli_integer(word, &v) && v >= 1 && v <= most) return v;
    diag_error(d, (Loc){0}, NULL, "%s takes a number from 1 to %lld, found `%s`", option,
               (long long)most, word);
    return 1;
}
