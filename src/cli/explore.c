// explore.c - `baton explore`: reads the words, compiles up to the thread IR and hands it to the
// explorer in src/verify.
#include "../verify/verify.h"
#include "command.h"

#include <stdio.h>
#include <string.h>

// Order of the table below: an option comes as the index of its row.
enum { OPT_TRIPS, OPT_CASES, OPT_STATES, OPT_FULL };

static const CliOption options[] = {
    {"--trips", "N", "rounds of a loop that depends on sizes or data: 0 to N, at most 11.\n"
                     "Default: one more than twice the slots of the longest ring, at most 9"},
    {"--cases", "N", "stop after N combinations of rounds and conditions. Default: 100"},
    {"--states", "N", "keep at most N states of one search. Default: 1000000"},
    {"--full", NULL, "every interleaving one by one, without partial-order reduction"},
};

enum { DEFAULT_CASES = 100, DEFAULT_STATES = 1000000, MOST_TRIPS = 11 };

typedef struct {
    CliSource source;
    ExploreOptions o;
} ExploreJob;

static bool read_size(ExploreJob *j, const char *word, Arena *a, Diag *d)
{
    const char *eq = strchr(word, '=');
    i64 v;
    if (!eq) return false;
    if (!cli_integer(eq + 1, &v) || v < 0) {
        diag_error(d, (Loc){0}, "for example: S=512", "a size is a number, found `%s`", word);
    } else {
        ExploreSize s = {arena_strndup(a, word, (size_t)(eq - word)), v};
        vec_push(a, &j->o.sizes, s);
    }
    return true;
}

static bool read_word(void *job, int option, const char *value, Arena *a, Diag *d)
{
    ExploreJob *j = job;
    switch (option) {
    case CLI_POSITIONAL: return read_size(j, value, a, d);
    case OPT_TRIPS: j->o.trips = (int)cli_number("--trips", value, MOST_TRIPS, d); return true;
    case OPT_CASES: j->o.cases = (int)cli_number("--cases", value, 1000000, d); return true;
    case OPT_STATES: j->o.states = cli_number("--states", value, 100000000, d); return true;
    case OPT_FULL: j->o.full = true; return true;
    default: return false;
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

static int explore(void *job, Arena *a, Diag *d)
{
    ExploreJob *j = job;
    Compilation c = {.until = FORM_THREAD, .arena = a, .diag = d};
    j->source.options.assembled = true;
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
    ExploreJob job = {.o = {.cases = DEFAULT_CASES, .states = DEFAULT_STATES, .time = true}};
    CliCommand c = {
        .name = "explore",
        .about = "baton explore FILE.co [NAME=VALUE ...] [options] - explores the ring protocol of "
                 "each kernel\n\n"
                 "Every schedule of the warps, the bulk loads and the products is followed, for "
                 "all small numbers of\n"
                 "rounds. NAME=VALUE fixes a size. A violation comes with the shortest way "
                 "there.\n",
        .more = "Exit status: 0 clean, 1 a violation or a deadlock, 2 bad usage or input, or "
                "not supported.\n",
        .needs = "a .co file", .example = "baton explore kernels/attention/v2.co",
        .options = options, .noptions = COUNT(options), .source = &job.source, .job = &job,
        .word = read_word, .run = explore};
    return cli_command(&c, argc, argv);
}
