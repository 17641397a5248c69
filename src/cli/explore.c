// explore.c - `baton explore`: reads the words, compiles up to the thread IR and hands it to the
// explorer in src/verify.
#include "../verify/verify.h"
#include "compile.h"

#include <stdio.h>
#include <string.h>

// Order of the table below: cli_next answers with the index of the row.
enum { OPT_ENTRY, OPT_DEFINE, OPT_TRIPS, OPT_CASES, OPT_STATES, OPT_FULL, OPT_HELP, OPT_H, CLI_PROGRAM_ENUM };

static const CliOption options[] = {
    {"-e", "ENTRY", "explore this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    {"--trips", "N", "rounds of a loop that depends on sizes or data: 0 to N, at most 11.\n"
                     "Default: one more than twice the slots of the longest ring, at most 9"},
    {"--cases", "N", "stop after N combinations of rounds and conditions. Default: 100"},
    {"--states", "N", "keep at most N states of one search. Default: 1000000"},
    {"--full", NULL, "every interleaving one by one, without partial-order reduction"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
    CLI_PROGRAM_OPTIONS,
};

enum { DEFAULT_CASES = 100, DEFAULT_STATES = 1000000, MOST_TRIPS = 11 };

typedef struct {
    CliSource source;
    ExploreOptions o;
    bool help;
} ExploreJob;

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b, "baton explore FILE.co [NAME=VALUE ...] [options] - explores the ring protocol of "
                 "each kernel\n\n"
                 "Every schedule of the warps, the bulk loads and the products is followed, for "
                 "all small numbers of\n"
                 "rounds. NAME=VALUE fixes a size. A violation comes with the shortest way there."
                 "\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nExit status: 0 clean, 1 a violation or a deadlock, 2 bad usage or input, or "
                 "not supported.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

static i64 number(const char *option, const char *word, i64 most, Diag *d)
{
    i64 v;
    if (cli_integer(word, &v) && v >= 1 && v <= most) return v;
    diag_error(d, (Loc){0}, NULL, "%s takes a number from 1 to %lld, found `%s`", option,
               (long long)most, word);
    return 1;
}

static void positional(ExploreJob *j, const char *word, Arena *a, Diag *d)
{
    const char *eq = strchr(word, '=');
    i64 v;
    if (!eq && !j->source.path) {
        j->source.path = word;
    } else if (!eq) {
        diag_error(d, (Loc){0}, NULL, "baton explore takes one file, found `%s` after %s", word,
                   j->source.path);
    } else if (!cli_integer(eq + 1, &v) || v < 0) {
        diag_error(d, (Loc){0}, "for example: S=512", "a size is a number, found `%s`", word);
    } else {
        ExploreSize s = {arena_strndup(a, word, (size_t)(eq - word)), v};
        vec_push(a, &j->o.sizes, s);
    }
}

static bool read_words(ExploreJob *j, int argc, char **argv, Arena *a, Diag *d)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "explore", a, d};
    const char *value;
    for (;;) {
        switch (cli_next(&args, &value)) {
        case CLI_END: return diag_errors(d) == 0;
        case CLI_BAD: break;
        case CLI_POSITIONAL: positional(j, value, a, d); break;
        case OPT_ENTRY: j->source.entry = value; break;
        case OPT_DEFINE: cli_define(&j->source, value, a, d); break;
        case OPT_TRIPS: j->o.trips = (int)number("--trips", value, MOST_TRIPS, d); break;
        case OPT_CASES: j->o.cases = (int)number("--cases", value, 1000000, d); break;
        case OPT_STATES: j->o.states = number("--states", value, 100000000, d); break;
        case OPT_FULL: j->o.full = true; break;
        case OPT_HELP:
        case OPT_H: j->help = true; break;
        CLI_PROGRAM_CASES(&j->source, value, a, d);
        default: BUG("option without a case");
        }
    }
}

// A size that the program does not have would be passed over in silence.
static bool check_sizes(const ExploreJob *j, const Plan *p, Diag *d)
{
    for (int i = 0; i < j->o.sizes.n; i++) {
        bool known = false;
        for (int k = 0; k < p->symbols.n; k++)
            known |= strcmp(p->symbols.at[k].name, j->o.sizes.at[i].name) == 0;
        if (!known)
            diag_error(d, (Loc){0}, NULL, "%s has no size `%s`", p->name, j->o.sizes.at[i].name);
    }
    return diag_errors(d) == 0;
}

static int explore(ExploreJob *j, Arena *a, Diag *d)
{
    Compilation c = {.until = FORM_THREAD, .arena = a, .diag = d};
    if (!cli_read_source(&j->source, &c) || !pass_compile(&c) || !check_sizes(j, c.plan, d))
        return EXIT_INPUT;
    static const int status[] = {[EXPLORE_CLEAN] = EXIT_RIGHT, [EXPLORE_VIOLATION] = EXIT_WRONG,
                                 [EXPLORE_REFUSED] = EXIT_INPUT};
    Buf out = {0};
    buf_printf(&out, "%s\n", j->source.path);
    ExploreVerdict v = explore_module(c.thread, c.plan, d, &j->o, &out);
    fwrite(out.s, 1, out.n, stdout);
    buf_free(&out);
    return status[v];
}

int cli_explore(int argc, char **argv)
{
    Arena *a = arena_new((size_t)1 << 30);
    Diag *d = diag_new(a);
    ExploreJob job = {.o = {.cases = DEFAULT_CASES, .states = DEFAULT_STATES, .time = true}};
    int status = EXIT_INPUT;
    bool read = read_words(&job, argc, argv, a, d);
    if (job.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read && !job.source.path)
        diag_error(d, (Loc){0}, "for example: baton explore kernels/attention/v2.co",
                   "baton explore needs a .co file");
    else if (read)
        status = explore(&job, a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}
