// build.c - `baton build`: a .co file to PTX with its launch plan, to CUDA C++ with a launcher, or
// to one of the inner forms.
#include "../emit/ptx.h"
#include "compile.h"
#include "explain.h"
#include "machine.h"
#include "proof.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Order of the table below: cli_next answers with the index of the row.
enum { OPT_ENTRY, OPT_DEFINE, OPT_EMIT, OPT_OUT, OPT_DUMP, OPT_CHECK, OPT_CHECK_PASSES, OPT_TIME,
       OPT_EXPLAIN, OPT_HELP, OPT_H, CLI_PROGRAM_ENUM };

static const CliOption options[] = {
    {"-e", "ENTRY", "compile this tile function; needed when the file has several"},
    {"-D", "NAME=VALUE", "define a macro, as #define NAME VALUE before the first line"},
    {"--emit", "FORM", "ast, tile, thread, cuda or ptx (default)"},
    {"-o", "OUT", "write to this file; - is standard output. Default: PTX goes to FILE.ptx\n"
                  "and CUDA C++ to FILE.cu in the current folder, other forms to standard output.\n"
                  "OUT.cubin: machine code, made by ptxas from PATH and audited"},
    {"--dump", "PASS", "print the program after this pass, or after each with all; without -o\n"
                       "no file is written then"},
    {"--check", NULL, "prove the handoffs of each kernel as `baton check` does, and write nothing\n"
                      "when one is broken; without it the quick rules are checked"},
    {"--check-passes", NULL, "run the checker of the form after every pass, not only at the end"},
    {"--time", NULL, "print the milliseconds of each pass to standard error"},
    {"--explain", NULL, "print a page about each kernel: roles, barriers, shared memory; without\n"
                        "-o no file is written then"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
    CLI_PROGRAM_OPTIONS,
};

// What the command line asked for; strings are the command line's own.
typedef struct {
    CliSource source;
    const char *out, *dump;
    PassForm emit;
    bool time, check, check_passes, explain, help;
} BuildJob;

static void print_help(void)
{
    Buf b = {0};
    buf_puts(&b, "baton build FILE.co [options] - compiles one tile function to PTX or CUDA C++ "
                 "for sm_90a\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(&b, "\nPasses for --dump:");
    for (int i = 0; i < pass_count; i++) buf_printf(&b, " %s", pass_table[i].name);
    buf_puts(&b, "\n\nThe launch plan (parameters, grid, tensor maps) stands in the PTX as comment "
                 "lines, so\n"
                 "one file is enough to run. Exit status: 0 built, 2 bad usage or input, "
                 "3 no memory.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// The form's name is that of pass_form_name; anything else is an error with the likely one as a
// hint.
static bool choose_form(BuildJob *j, const char *word, Arena *a, Diag *d)
{
    for (int f = 0; f < FORM_COUNT; f++) {
        if (strcmp(word, pass_form_name[f]) == 0) {
            j->emit = (PassForm)f;
            return true;
        }
    }
    const char *meant = cli_closest(word, pass_form_name, FORM_COUNT);
    diag_error(d, (Loc){0}, meant ? arena_printf(a, "did you mean %s?", meant) : NULL,
               "--emit takes ast, tile, thread, cuda or ptx, found `%s`", word);
    return false;
}

// Before anything is compiled: a name that no pass has would otherwise print nothing, silently.
static bool check_dump(const char *word, Arena *a, Diag *d)
{
    const char *names[PASS_MAX];
    for (int i = 0; i < pass_count; i++) names[i] = pass_table[i].name;
    if (strcmp(word, "all") == 0) return true;
    for (int i = 0; i < pass_count; i++)
        if (strcmp(word, names[i]) == 0) return true;
    const char *meant = cli_closest(word, names, pass_count);
    diag_error(d, (Loc){0},
               meant ? arena_printf(a, "did you mean %s?", meant)
                     : "`baton build --help` lists the passes",
               "there is no pass `%s`", word);
    return false;
}

// Reads all words even after an error, so that one run tells every mistake. False when there was
// any.
static bool read_words(BuildJob *j, int argc, char **argv, Arena *a, Diag *d)
{
    CliArgs args = {argc, argv, 0, false, options, COUNT(options), "build", a, d};
    const char *value;
    for (;;) {
        switch (cli_next(&args, &value)) {
        case CLI_END: return diag_errors(d) == 0;
        // Reported; the other words are still read.
        case CLI_BAD: break;
        case CLI_POSITIONAL:
            if (j->source.path)
                diag_error(d, (Loc){0},
                           strchr(value, '=') ? "sizes are given to `baton run`" : NULL,
                           "baton build takes one file, found `%s` after %s", value,
                           j->source.path);
            else
                j->source.path = value;
            break;
        case OPT_ENTRY: j->source.entry = value; break;
        case OPT_DEFINE: cli_define(&j->source, value, a, d); break;
        case OPT_EMIT: choose_form(j, value, a, d); break;
        case OPT_OUT: j->out = value; break;
        case OPT_DUMP:
            j->dump = value;
            check_dump(value, a, d);
            break;
        case OPT_CHECK: j->check = true; break;
        case OPT_CHECK_PASSES: j->check_passes = true; break;
        case OPT_TIME: j->time = true; break;
        case OPT_EXPLAIN: j->explain = true; break;
        case OPT_HELP:
        case OPT_H: j->help = true; break;
        CLI_PROGRAM_CASES(&j->source, value, a, d);
        default: BUG("option without a case");
        }
    }
}

// FILE.ptx or FILE.cu in the current folder for any/where/FILE.co.
static const char *default_output(Arena *a, const char *path, PassForm form)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    // A file that is all extension (.co) keeps its name.
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    return arena_printf(a, "%.*s.%s", (int)n, base, form == FORM_PTX ? "ptx" : "cu");
}

// `-o` with the name of the source: the slip that would cost most.
static bool is_source(const char *out, const char *source)
{
    struct stat a, b;
    return !stat(out, &a) && !stat(source, &b) && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

// Machine code is what a name that ends in .cubin asks for.
static bool wants_machine_code(const BuildJob *j)
{
    size_t n = j->out ? strlen(j->out) : 0;
    return j->emit == FORM_PTX && n > 6 && strcmp(j->out + n - 6, ".cubin") == 0;
}

// With --dump or --explain and without -o nothing is written: they are what was asked for. The
// inner forms go to standard output, since they are to be read.
static bool write_output(const BuildJob *j, Compilation *c)
{
    const char *out = j->out;
    if (!out && (j->dump || j->explain)) return true;
    if (!out) out = j->emit >= FORM_PTX ? default_output(c->arena, c->path, j->emit) : "-";
    Buf text = {0};
    const char *why = NULL;
    if (!wants_machine_code(j)) {
        pass_print(c, j->emit, &text);
    } else {
        if (!cli_machine_code(c, &text)) return false;
        // Behind the image, where the driver does not look: one file is enough to launch.
        buf_putc(&text, '\n');
        plan_print(c->plan, "//@ ", &text);
    }
    if (is_source(out, c->path))
        why = "it is the source";
    else if (strcmp(out, "-") != 0)
        why = file_write(out, text.s ? text.s : "", text.n);
    else if (fwrite(text.s ? text.s : "", 1, text.n, stdout) != text.n || fflush(stdout) != 0)
        why = strerror(errno);
    buf_free(&text);
    if (why)
        diag_error(c->diag, (Loc){0}, NULL, "cannot write %s: %s",
                   strcmp(out, "-") != 0 ? out : "to standard output", why);
    return !why;
}

// The way to CUDA C++ does not lead over PTX, which the assembler needs.
static bool explain(Compilation *c)
{
    Buf page = {0};
    bool ok = c->ptx.n || ptx_print(c->thread, c->plan, c->diag, &c->ptx);
    buf_printf(&page, "%s, ", c->path);
    explain_print(c->arena, c->thread, c->plan, c->diag, &page);
    if (ok) explain_assemble(c->arena, c->thread, c->ptx.s, c->ptx.n, &page);
    fwrite(page.s, 1, page.n, stdout);
    buf_free(&page);
    return ok;
}

// What is broken is an error of the build, what stays open a warning.
static bool prove(const BuildJob *j, const Compilation *c)
{
    Proof p;
    if (c->until < FORM_THREAD) {
        diag_error(c->diag, (Loc){.file = c->file},
                   "the check reads the thread form, or what is made of it",
                   "--check has nothing to check in the form `%s`", pass_form_name[c->until]);
        return false;
    }
    cli_prove(c->arena, c->thread, c->plan, c->diag, CHECK_FULL, true, j->time, &p);
    // The cache knows how many, but not what.
    if (p.broken && p.cached)
        cli_prove(c->arena, c->thread, c->plan, c->diag, CHECK_FULL, false, j->time, &p);
    check_errors(&p.report, c->diag);
    if (p.open && !p.broken)
        diag(c->diag, SEV_WARNING, (Loc){.file = c->file}, "`baton check` tells them",
             "%d questions of the static check stay open", p.open);
    return !p.broken;
}

// The dump is printed also when the compilation failed: it shows the program up to the pass that
// did.
static int build(BuildJob *j, Arena *a, Diag *d)
{
    Buf dump = {0};
    // The page is about the kernels and what the assembler says to their PTX, whatever is written.
    PassForm until = j->explain && j->emit < FORM_PTX ? FORM_PTX : j->emit;
    Compilation c = {.until = until, .dump = j->dump, .dump_out = &dump,
                     .check_each = j->check_passes,
                     .quick = true, .arena = a, .diag = d};
    bool ok = cli_read_source(&j->source, &c);
    c.options.assembled = wants_machine_code(j);
    ok = ok && pass_compile(&c);
    if (dump.n) fwrite(dump.s, 1, dump.n, stdout);
    buf_free(&dump);
    ok = ok && (!j->check || prove(j, &c)) && (!j->explain || explain(&c)) && write_output(j, &c);
    if (j->time && ok) {
        Buf times = {0};
        pass_print_times(&c, &times);
        fputs(times.s, stderr);
        buf_free(&times);
    }
    buf_free(&c.ptx);
    buf_free(&c.cuda);
    return ok ? EXIT_RIGHT : EXIT_INPUT;
}

// One arena for the whole command, at most 1 GB: a source that needs more is hostile.
int cli_build(int argc, char **argv)
{
    Arena *a = arena_new((size_t)1 << 30);
    Diag *d = diag_new(a);
    BuildJob job = {.emit = FORM_PTX};
    int status = EXIT_INPUT;
    bool read = read_words(&job, argc, argv, a, d);
    if (job.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (read && !job.source.path)
        diag_error(d, (Loc){0}, "for example: baton build kernels/attention/v1.co",
                   "baton build needs a .co file");
    else if (read)
        status = build(&job, a, d);
    cli_flush(d);
    arena_free(a);
    return status;
}
