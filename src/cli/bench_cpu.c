// bench_cpu.c - `baton bench --cpu`: chooses the kernels, measures times or counts instructions,
// and prints and writes what came out.
#include "bench_cpu.h"
#include "../sets/sets.h"
#include "command.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Order of the table below: cli_next answers with the index of the row.
enum {
    OPT_OUT,
    OPT_REPEAT,
    OPT_INSTRUCTIONS,
    OPT_AGAINST,
    OPT_RECORD,
    OPT_HISTORY,
    OPT_HELP,
    OPT_H
};

static const CliOption options[] = {
    {"-o", "DIR", "write cpu.json, with every sample, and cpu.md into this folder"},
    {"--repeat", "N", "compilations of each kernel that are timed; default 20"},
    {"--instructions", NULL,
     "count instructions with callgrind instead: build of each kernel, and the\n"
     "check and the emulation of a few"},
    {"--against-history", NULL,
     "count, and compare with the last recorded line of the same compiler and C\n"
     "library: exit status 1 when an item takes more than 10% more"},
    {"--record", NULL, "count, and append a line to the history"},
    {"--history", "FILE", "the history; default bench/history.jsonl beside the kernels"},
    {"--help", NULL, "print this"},
    {"-h", NULL, "print this"},
};

typedef struct {
    CpuJob job;
    const char *folder; // of the shipped kernels; NULL: files were given
    const char *out, *history;
    bool instructions, record, against, help;
} Command;

static void print_help(void)
{
    Buf b = {0};
    buf_puts(
        &b, "baton bench --cpu [KERNEL.co ...] [options] - how fast the compiler, the emulator and "
            "the verifier\nare on this machine\n\n"
            "Without files: the kernels that come with baton. Times are of one process and one "
            "thread; what runs\nbeside it on the machine shows in them, and not in counts of "
            "instructions.\n\n");
    cli_print_options(options, COUNT(options), &b);
    buf_puts(
        &b, "\nExit status: 0 measured; 1 a kernel is wrong or broken, or slower than the history; "
            "2 bad usage or\ninput.\n");
    fputs(b.s, stdout);
    buf_free(&b);
}

// ---- kernels ------------------------------------------------------------------------------------

// "attention/v4" of kernels/attention/v4.co: the folder tells kernels of one name apart.
static const char *short_name(const char *path, Arena *a)
{
    const char *end = path + strlen(path), *from = end;
    int slashes = 0;
    while (from > path && slashes < 2) {
        if (from[-1] == '/' && ++slashes == 2) break;
        from--;
    }
    size_t n = (size_t)(end - from);
    return arena_strndup(a, from, n > 3 && strcmp(end - 3, ".co") == 0 ? n - 3 : n);
}

static void add_kernel(CpuJob *j, const char *path)
{
    CpuKernel k = {path, short_name(path, j->arena)};
    vec_push(j->arena, &j->kernels, k);
}

// In the current folder, beside the folder of the program, or where `make install` puts them.
static const char *kernel_folder(Arena *a)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    const char *const folder[] = {"kernels", arena_printf(a, "%s/../kernels", self),
                                  arena_printf(a, "%s/../share/baton/kernels", self)};
    for (int i = 0; i < COUNT(folder); i++) {
        struct stat s;
        if (!stat(folder[i], &s) && S_ISDIR(s.st_mode)) return folder[i];
    }
    return NULL;
}

// Sorted by path, as glob does.
static void find_kernels(Command *c)
{
    CpuJob *j = &c->job;
    glob_t found = {0};
    c->folder = kernel_folder(j->arena);
    if (c->folder && !glob(arena_printf(j->arena, "%s/*/*.co", c->folder), 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_kernel(j, arena_strndup(j->arena, found.gl_pathv[i], strlen(found.gl_pathv[i])));
    globfree(&found);
    if (!j->kernels.n)
        diag_error(j->diag, (Loc){0}, "for example: baton bench --cpu my/kernel.co",
                   "found no kernels of baton here or beside the program; name files");
}

// ---- the command line ---------------------------------------------------------------------------

static void read_words(Command *c, int argc, char **argv)
{
    CpuJob *j = &c->job;
    CliArgs args = {argc,           argv,          0,        false,  options,
                    COUNT(options), "bench --cpu", j->arena, j->diag};
    const char *value;
    for (int o; (o = cli_next(&args, &value)) != CLI_END;) {
        switch (o) {
        case CLI_BAD: break; // reported
        case CLI_POSITIONAL: add_kernel(j, value); break;
        case OPT_OUT: c->out = value; break;
        case OPT_REPEAT: j->repeat = (int)cli_number("--repeat", value, 100000, j->diag); break;
        case OPT_INSTRUCTIONS: c->instructions = true; break;
        case OPT_HISTORY: c->history = value; break;
        case OPT_RECORD: c->record = c->instructions = true; break;
        case OPT_AGAINST: c->against = c->instructions = true; break;
        case OPT_HELP:
        case OPT_H: c->help = true; break;
        default: BUG("option without a case");
        }
    }
    if (c->record && c->against)
        diag_error(j->diag, (Loc){0}, "first compare, then record",
                   "--record and --against-history exclude each other");
}

// ---- results ------------------------------------------------------------------------------------

static bool write_file(Command *c, const char *name, const Buf *text)
{
    const char *path = arena_printf(c->job.arena, "%s/%s", c->out, name);
    const char *why = file_write(path, text->s, text->n);
    if (why) diag_error(c->job.diag, (Loc){0}, NULL, "cannot write %s: %s", path, why);
    return !why;
}

// Tables to the terminal, and to the folder when there is one.
static int publish(Command *c, const CpuOrigin *o, const CpuTable *const *t, int n)
{
    Buf text = {0}, json = {0}, markdown = {0};
    buf_printf(&text, "baton %s%s%s, %s, %s%s; %s\n", o->baton, *o->commit ? " " : "", o->commit,
               o->compiler, o->libc, o->sets ? "" : ", without libisl", o->host);
    for (int i = 0; i < n; i++) {
        if (t[i]->hidden) continue;
        buf_putc(&text, '\n');
        cpu_print_text(t[i], &text);
    }
    fwrite(text.s, 1, text.n, stdout);
    bool ok = true;
    if (c->out) {
        cpu_print_json(o, t, n, &json);
        cpu_print_markdown(o, t, n, &markdown);
        folder_make(c->out);
        ok = write_file(c, "cpu.json", &json) && write_file(c, "cpu.md", &markdown);
    }
    buf_free(&text);
    buf_free(&json);
    buf_free(&markdown);
    return ok ? EXIT_RIGHT : EXIT_INPUT;
}

// ---- instructions -------------------------------------------------------------------------------

// Beside the folder of the kernels.
static const char *history_path(const Command *c)
{
    if (c->history) return c->history;
    const char *folder = c->folder ? c->folder : kernel_folder(c->job.arena);
    bool here = !folder || strcmp(folder, "kernels") == 0;
    return arena_printf(c->job.arena, "%s%sbench/history.jsonl", here ? "" : folder,
                        here ? "" : "/../");
}

// Items of the history that are not counted any more: a check that shrinks must say so.
static void note_lost(Command *c, const CpuCounts *now, const CpuPoint *then, CpuTable *t)
{
    Buf lost = {0};
    for (int i = 0; i < then->counts.n && c->folder; i++) {
        bool there = false;
        for (int k = 0; k < now->n; k++)
            there |= strcmp(now->at[k].name, then->counts.at[i].name) == 0;
        if (!there) buf_printf(&lost, "%s%s", lost.n ? ", " : "", then->counts.at[i].name);
    }
    if (lost.n)
        vec_push(c->job.arena, &t->notes,
                 arena_printf(c->job.arena, "in the history and not counted: %s", lost.s));
    buf_free(&lost);
}

// One line that says it all.
static int print_verdict(Command *c, const CpuPoint *then, const Buf *slower, const Buf *faster)
{
    Arena *a = c->job.arena;
    const char *whom = arena_printf(a, "the counts of %s%s%s", then->date,
                                    *then->commit ? ", commit " : "", then->commit);
    printf("\ncompared with %s: ", whom);
    if (!slower->n)
        printf("no item takes more than %d%% more instructions\n", CPU_TOLERANCE);
    else
        printf("slower by more than %d%%: %s\n", CPU_TOLERANCE, slower->s);
    if (faster->n)
        printf("faster by more than %d%%: %s; renew the history: baton bench --cpu --record\n",
               CPU_TOLERANCE, faster->s);
    if (!slower->n) return EXIT_RIGHT;
    diag_error(c->job.diag, (Loc){0}, "where the change is worth it: baton bench --cpu --record",
               "more than %d%% slower than %s: %s", CPU_TOLERANCE, whom, slower->s);
    return EXIT_WRONG;
}

static int compare(Command *c, const CpuOrigin *o, const CpuCounts *now)
{
    Arena *a = c->job.arena;
    const char *path = history_path(c);
    CpuPoint then;
    CpuTable t;
    Buf slower = {0}, faster = {0};
    bool found;
    if (!cpu_history_last(a, path, o, &then, &found, c->job.diag)) return EXIT_INPUT;
    cpu_compare(a, now, found ? &then : NULL, &t, &slower, &faster);
    if (found) note_lost(c, now, &then, &t);
    int status = publish(c, o, (const CpuTable *const[]){&t}, 1);
    if (!found)
        printf("\nnothing to compare with: no line of %s was made by %s with %s on %s%s\n"
               "to record one: baton bench --cpu --record\n",
               path, o->compiler, o->libc, o->machine, o->sets ? "" : " without libisl");
    else if (status == EXIT_RIGHT)
        status = print_verdict(c, &then, &slower, &faster);
    buf_free(&slower);
    buf_free(&faster);
    return status;
}

static int instructions(Command *c, const CpuOrigin *o)
{
    CpuCounts now = {0};
    CpuTable t;
    int status = cpu_count(&c->job, &now);
    if (status != EXIT_RIGHT) return status;
    if (c->against) return compare(c, o, &now);
    cpu_compare(c->job.arena, &now, NULL, &t, NULL, NULL);
    status = publish(c, o, (const CpuTable *const[]){&t}, 1);
    if (status != EXIT_RIGHT || !c->record) return status;
    const char *path = history_path(c);
    if (!cpu_history_append(path, o, &now, c->job.diag)) return EXIT_INPUT;
    printf("\nrecorded in %s\n", path);
    return EXIT_RIGHT;
}

static int measure(Command *c, const CpuOrigin *o)
{
    CpuTimes t = {0};
    int status = cpu_measure(&c->job, &t);
    if (status != EXIT_RIGHT) return status;
    const CpuTable *const all[] = {&t.compile,  &t.passes,   &t.emulator,
                                   &t.verifier, &t.explorer, &t.samples};
    return publish(c, o, all, COUNT(all));
}

int cli_bench_cpu(int argc, char **argv)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Command c = {.job = {.repeat = 20, .progress = isatty(STDERR_FILENO), .arena = a, .diag = d}};
    CpuOrigin origin;
    int status = EXIT_INPUT;
    read_words(&c, argc, argv);
    if (c.help) {
        print_help();
        arena_free(a);
        return EXIT_RIGHT;
    }
    if (!c.job.kernels.n && !diag_errors(d)) find_kernels(&c);
    if (!diag_errors(d)) {
        cpu_origin(a, c.folder ? c.folder : kernel_folder(a), argc, argv, &origin);
        origin.sets = sets_are_asked();
        status = c.instructions ? instructions(&c, &origin) : measure(&c, &origin);
    }
    cli_flush(d);
    arena_free(a);
    return status;
}
