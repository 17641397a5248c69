// audit.c - `baton audit`: what the assembler made of a kernel, checked once more. A .co file is
// compiled and assembled first (with ptxas from PATH); an assembled file is read as it is.
//
// Exit status: 0 clean, 1 a finding, 2 the command line or the input is not right.
#include "../verify/audit.h"
#include "../verify/sass.h"
#include "command.h"
#include "ptxas.h"

#include <stdio.h>
#include <string.h>

static const CliOption options[] = {
    {"--list", NULL, "print each instruction as the audit reads it: offset, operation,\n"
                     "scoreboards waited for and set"},
};

typedef struct {
    CliSource source; // its path may be one of an assembled file, or of PTX
    bool list;
    Arena *arena;
    Diag *diag;
} AuditJob;

// The table has one row.
static bool read_word(void *job, int option, const char *value, Arena *a, Diag *d)
{
    AuditJob *j = job;
    (void)value, (void)a, (void)d;
    if (option == 0) j->list = true;
    return option == 0;
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

// ---- from source to machine code ---------------------------------------------------------------

// "    // FILE:LINE", as the PTX has it in front of what a line of the source became. Gives the
// length of the file's name, 0 for any other line.
static size_t source_comment(const char *line, size_t n, const char **name, const char **number)
{
    const char *at = line, *end = line + n;
    while (at < end && *at == ' ') at++;
    if (at == line || end - at < 6 || memcmp(at, "// ", 3) != 0) return 0;
    at += 3;
    const char *digits = end;
    while (digits > at && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    if (digits == end || digits - at < 2 || digits[-1] != ':') return 0;
    *name = at;
    *number = digits;
    for (const char *p = at; p < digits; p++)
        if (*p == ' ' || *p == '"' || *p == '\\') return 0;
    return (size_t)(digits - 1 - at);
}

// The same PTX with line directives in place of those comments: the assembler then writes down
// which line each instruction came from, and the instructions stay what they were.
static void with_lines(Arena *a, const Buf *ptx, Buf *out)
{
    VEC(const char *) files = {0};
    const char *end = ptx->s + ptx->n;
    for (const char *line = ptx->s; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *name, *number;
        size_t n = (size_t)((stop ? stop : end) - line);
        size_t length = source_comment(line, n, &name, &number);
        int file = 0;
        while (length && file < files.n && (strncmp(files.at[file], name, length) != 0 ||
                                            files.at[file][length])) file++;
        if (length && file == files.n) vec_push(a, &files, arena_strndup(a, name, length));
        if (length)
            buf_printf(out, ".loc %d %.*s 0\n", file + 1, (int)(line + n - number), number);
        else
            buf_printf(out, "%.*s\n", (int)n, line);
        line += n + (stop != NULL);
    }
    for (int i = 0; i < files.n; i++) buf_printf(out, ".file %d \"%s\"\n", i + 1, files.at[i]);
}

static bool assemble(AuditJob *j, const Buf *ptx, Buf *cubin)
{
    if (!ptxas_is_here()) {
        diag_error(j->diag, (Loc){0},
                   "it comes with the CUDA toolkit; a file that is assembled already needs none",
                   "the machine code of %s needs an assembler, and ptxas is not on PATH",
                   j->source.path);
        return false;
    }
    Buf report = {0};
    const char *why = ptxas_run(j->arena, ptx->s ? ptx->s : "", ptx->n, cubin, &report);
    if (why) diag_error(j->diag, (Loc){0}, NULL, "%s: %s", j->source.path, why);
    buf_free(&report);
    return !why;
}

// `ptx` gets the text that was assembled.
static bool compile(AuditJob *j, Buf *ptx, Buf *cubin)
{
    Compilation c = {.until = FORM_PTX, .arena = j->arena, .diag = j->diag};
    bool ok = cli_read_source(&j->source, &c);
    c.options.assembled = true;
    ok = ok && pass_compile(&c);
    if (ok) with_lines(j->arena, &c.ptx, ptx);
    buf_free(&c.ptx);
    buf_free(&c.cuda);
    return ok && assemble(j, ptx, cubin);
}

static bool read_file(AuditJob *j, Buf *out)
{
    const char *why = file_read(j->source.path, out, CUBIN_MAX);
    if (why) diag_error(j->diag, (Loc){0}, NULL, "cannot read %s: %s", j->source.path, why);
    return !why;
}

// ---- the report --------------------------------------------------------------------------------

static void print_mask(unsigned mask, Buf *out)
{
    for (int i = 0; i < SASS_SCOREBOARDS; i++)
        if (mask >> i & 1) buf_printf(out, " %d", i);
}

// One line an instruction.
static void print_list(const CubinText *t, Buf *out)
{
    buf_printf(out, "%s:\n", t->name);
    for (u64 at = 0; at < t->bytes; at += CUBIN_INSTRUCTION) {
        SassInst s = sass_decode(t->code + at, at);
        const CubinLine *line = cubin_line(t, at);
        buf_printf(out, "  %04llx  %03x  ", (unsigned long long)at, s.operation);
        sass_print(&s, out);
        if (s.target) buf_printf(out, " to %04llx", (unsigned long long)s.target);
        if (s.wait) buf_puts(out, "  waits for");
        print_mask(s.wait, out);
        if (s.set < SASS_SCOREBOARDS) buf_printf(out, "  sets %d", s.set);
        if (s.set_read < SASS_SCOREBOARDS) buf_printf(out, "  sets when read %d", s.set_read);
        if (line && line->line) buf_printf(out, "  (%.200s:%u)", line->file, line->line);
        buf_putc(out, '\n');
    }
}

static int report(AuditJob *j, const Buf *code, const AuditOptions *how)
{
    Cubin cubin = {0};
    const char *why = cubin_read(j->arena, (const u8 *)(code->s ? code->s : ""), code->n, &cubin);
    if (why) {
        diag_error(j->diag, (Loc){0}, NULL, "cannot audit %s: %s", j->source.path, why);
        return EXIT_INPUT;
    }
    int found = 0;
    for (int i = 0; i < cubin.texts.n; i++) {
        Buf text = {0};
        AuditKernel k;
        if (j->list) print_list(&cubin.texts.at[i], &text);
        audit_text(j->arena, &cubin.texts.at[i], how, &k);
        audit_print(&k, &text);
        found += audit_findings(&k);
        fwrite(text.s, 1, text.n, stdout);
        buf_free(&text);
    }
    printf("%s: %s\n", j->source.path, found ? "NOT CLEAN" : "clean");
    return found ? EXIT_WRONG : EXIT_RIGHT;
}

static int audit(void *job, Arena *a, Diag *d)
{
    AuditJob *j = job;
    j->arena = a;
    j->diag = d;
    Buf ptx = {0}, code = {0};
    AuditOptions how = {0};
    bool ok;
    if (ends_in(j->source.path, ".co")) {
        ok = compile(j, &ptx, &code);
        how.closed = true;
    } else if (ends_in(j->source.path, ".ptx")) {
        ok = read_file(j, &ptx) && assemble(j, &ptx, &code);
    } else {
        ok = read_file(j, &code);
    }
    if (ptx.n) how.ptx = ptx.s;
    int status = ok ? report(j, &code, &how) : EXIT_INPUT;
    buf_free(&ptx);
    buf_free(&code);
    return status;
}

int cli_audit(int argc, char **argv)
{
    AuditJob job = {0};
    CliCommand c = {
        .name = "audit",
        .about = "baton audit FILE [options] - looks for slot races in the machine code\n\n"
                 "FILE is a .co file, which is compiled and assembled by ptxas from PATH, or an\n"
                 "assembled file (cubin), or PTX (.ptx).\n",
        .more = "Exit status: 0 clean, 1 a finding, 2 bad usage or input, 3 no memory.\n",
        .needs = "a .co file or an assembled one",
        .example = "baton audit kernels/attention/v4.co",
        .options = options, .noptions = COUNT(options), .source = &job.source, .job = &job,
        .word = read_word, .run = audit};
    return cli_command(&c, argc, argv);
}
