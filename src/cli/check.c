// check.c - `baton check`: compiles, or reads a kernel in the thread IR, and runs all parts of the
// static check on it. Here is the table of the parts that exist.
#include "../sets/sets.h"
#include "../verify/quick.h"
#include "command.h"
#include "proof.h"
#include "thread_file.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OPT_STRICT, OPT_THOROUGH, OPT_NO_CACHE, OPT_TIME };

static const CliOption options[] = {
    {"--strict", NULL, "a question that stays open is a failure too"},
    {"--thorough", NULL, "take minutes instead of a second where the states of a kernel are many"},
    {"--no-cache", NULL, "prove again what was proved before"},
    {"--time", NULL, "print the milliseconds of each part to standard error"},
};

// The parts beside the quick ones.
static const CheckPart slow_parts[] = {
    {"handoff", check_order, false},
    {"bounds", check_bounds, false},
    {"output", check_output, false},
};

typedef struct {
    CliSource source; // a .co or .thr file
    bool strict, thorough, no_cache, time;
    int unsound; // triggers with an unsound policy, which no part sees by itself
} CheckCommand;

static bool read_word(void *job, int option, const char *value, Arena *a, Diag *d)
{
    CheckCommand *j = job;
    (void)value, (void)a, (void)d;
    switch (option) {
    case OPT_STRICT: j->strict = true; return true;
    case OPT_THOROUGH: j->thorough = true; return true;
    case OPT_NO_CACHE: j->no_cache = true; return true;
    case OPT_TIME: j->time = true; return true;
    default: return false;
    }
}

// ---- the report ---------------------------------------------------------------------------------

static void print_place(const Diag *d, Loc loc, Buf *out)
{
    if (!loc.line) return;
    buf_printf(out, "%s:%u", diag_file_name(d, loc.file), loc.line);
    if (loc.col) buf_printf(out, ":%u", loc.col);
    buf_puts(out, ": ");
}

static void print_finding(const CheckFinding *f, const char *word, const Diag *d, Buf *out)
{
    buf_printf(out, "  %-9s", word);
    print_place(d, f->loc, out);
    buf_printf(out, "%s: %s\n", f->rule, f->text);
    if (f->other.line) {
        buf_printf(out, "  %-9s", "");
        print_place(d, f->other, out);
        buf_puts(out, "the other side\n");
    }
    if (f->hint) buf_printf(out, "  %-9shint: %s\n", "", f->hint);
}

static void print_kernel(const CheckReport *r, const char *kernel, const Diag *d, Buf *out)
{
    buf_printf(out, "kernel %s\n", kernel);
    for (int i = 0; i < r->proved.n; i++)
        if (strcmp(r->proved.at[i].kernel, kernel) == 0)
            buf_printf(out, "  proved   %s: %s\n", r->proved.at[i].part, r->proved.at[i].text);
    for (int i = 0; i < r->broken.n; i++)
        if (strcmp(r->broken.at[i].kernel, kernel) == 0)
            print_finding(&r->broken.at[i], "BROKEN", d, out);
    for (int i = 0; i < r->open.n; i++)
        if (strcmp(r->open.at[i].kernel, kernel) == 0)
            print_finding(&r->open.at[i], "open", d, out);
}

static void print_report(const CheckReport *r, const ThreadModule *m, const Diag *d, Buf *out)
{
    for (int i = 0; i < m->fns.n; i++) print_kernel(r, m->fns.at[i]->name, d, out);
    for (int i = 0; i < r->assumed.n; i++)
        buf_printf(out, "%s%s\n", i ? "         " : "assumed  ", r->assumed.at[i]);
}

// One line, the last one, that says it all.
static void print_verdict(const char *path, const Proof *p, Buf *out)
{
    const char *plural = p->open == 1 ? "" : "s";
    buf_printf(out, "%s: ", path);
    if (p->broken) buf_printf(out, "%d broken", p->broken);
    if (p->broken && p->open) buf_printf(out, ", %d question%s open", p->open, plural);
    if (!p->broken && p->open)
        buf_printf(out, "clean as far as explored, %d question%s open", p->open, plural);
    if (!p->broken && !p->open) buf_puts(out, "proved");
    buf_printf(out, "%s\n", p->cached ? " (cached)" : "");
}

// ---- one file -----------------------------------------------------------------------------------

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool read_input(CheckCommand *j, Arena *a, Diag *d, ThreadModule **m, Plan **plan)
{
    if (ends_in(j->source.path, ".thr")) {
        if (j->source.entry || j->source.defines.n)
            diag_error(d, (Loc){0}, NULL, "-e and -D are for .co files");
        return cli_read_thread(j->source.path, a, d, m, plan) && thread_check(*m, d) &&
               diag_errors(d) == 0;
    }
    Compilation c = {.until = FORM_THREAD, .arena = a, .diag = d};
    j->source.options.assembled = true;
    if (!cli_read_source(&j->source, &c) || !pass_compile(&c)) return false;
    j->unsound = c.tile->unsound;
    *m = c.thread;
    *plan = c.plan;
    return true;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_parts(const CheckPart *part, int n, const ThreadModule *m, const Plan *plan,
                      const Diag *d, CheckEffort effort, bool time, Proof *p)
{
    for (int i = 0; i < n; i++) {
        double start = now_ms(), took;
        check_module(m, plan, d, &part[i], 1, effort, &p->report);
        took = now_ms() - start;
        ASSERT(p->nparts < PROOF_PARTS);
        p->part[p->nparts].name = part[i].name;
        p->part[p->nparts++].ms = took;
        if (time) fprintf(stderr, "%10.3f ms  %s\n", took, part[i].name);
    }
}

void cli_prove(Arena *a, const ThreadModule *m, const Plan *plan, const Diag *d,
               CheckEffort effort, bool cache, bool time, Proof *out)
{
    ProofKey key = {{0}};
    if (cache) key = proof_key(m, plan);
    // A verdict with open questions may have been reached with less work.
    bool found = cache && proof_find(a, key, out);
    if (found && (effort != CHECK_THOROUGH || !out->open)) return;
    *out = (Proof){.report = {.arena = a}};
    run_parts(quick_parts, quick_parts_n, m, plan, d, effort, time, out);
    run_parts(slow_parts, COUNT(slow_parts), m, plan, d, effort, time, out);
    Buf text = {0};
    print_report(&out->report, m, d, &text);
    out->text = arena_strndup(a, text.s ? text.s : "", text.n);
    out->broken = out->report.broken.n;
    out->open = out->report.open.n;
    buf_free(&text);
    if (cache) proof_keep(key, out);
}

static int check(void *job, Arena *a, Diag *d)
{
    CheckCommand *j = job;
    ThreadModule *m;
    Plan *plan;
    if (!read_input(j, a, d, &m, &plan)) return EXIT_INPUT;
    Proof p;
    Buf out = {0};
    // The plan that a file of the thread IR comes with need not be a whole one.
    bool cache = !j->no_cache && !ends_in(j->source.path, ".thr");
    cli_prove(a, m, plan, d, j->thorough ? CHECK_THOROUGH : CHECK_FULL, cache, j->time, &p);
    buf_puts(&out, p.text);
    print_verdict(j->source.path, &p, &out);
    if (j->unsound)
        buf_printf(&out, "%s: UNSOUND: slots handed back while they may still be read: %d (O6, --unsafe)\n",
                   j->source.path, j->unsound);
    fwrite(out.s, 1, out.n, stdout);
    buf_free(&out);
    return p.broken || j->unsound || (j->strict && p.open) ? EXIT_WRONG : EXIT_RIGHT;
}

int cli_check(int argc, char **argv)
{
    CheckCommand job = {.strict = false};
    CliCommand c = {
        .name = "check",
        .about = "baton check FILE.co [options] - proves the handoffs of each kernel for all sizes"
                 "\n\n"
                 "FILE.co is compiled first; FILE.thr is a kernel in the thread IR. What cannot be "
                 "proved and is\n"
                 "not shown to be broken stays open, is counted and printed.\n",
        .more = "Exit status: 0 proved, or open questions only; 1 broken (with --strict: or open); "
                "2 bad usage\nor input.\n",
        .needs = "a .co or .thr file", .example = "baton check kernels/attention/v2.co",
        .options = options, .noptions = COUNT(options), .source = &job.source, .job = &job,
        .word = read_word, .run = check};
    return cli_command(&c, argc, argv);
}
