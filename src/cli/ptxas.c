// ptxas.c - runs the assembler. Input: PTX. Output: its report, and the code when it is asked for.
// The scratch files lie in TMPDIR and are gone when the function returns.
#include "ptxas.h"
#include "program.h"

#include <string.h>
#include <unistd.h>

// No kernel is that large; a report neither.
static const size_t MAX_CODE = (size_t)64 << 20; // bytes

bool ptxas_is_here(void) { return program_is_here("ptxas"); }

static const char *run_on_files(Arena *a, const char *in, const char *out, Buf *report)
{
    const char *const words[] = {"ptxas", "-arch=sm_90a", "-v", "-o", out, in, NULL};
    int status = 0;
    bool ran = program_run(words, NULL, report, &status);
    const char *text = report->n ? report->s : "no output";
    if (ran && program_succeeded(status) && report->n) return NULL;
    return arena_printf(a, "ptxas failed: %.*s", (int)strcspn(text, "\n"), text);
}

const char *ptxas_run(Arena *a, const char *ptx, size_t n, Buf *cubin, Buf *report)
{
    const char *in = program_scratch_file(a), *out = cubin && in ? program_scratch_file(a) : "/dev/null";
    const char *why = NULL;
    if (!in || !out)
        why = "no scratch file could be made for ptxas";
    else if (file_write(in, ptx, n))
        why = "the PTX could not be written for ptxas";
    else
        why = run_on_files(a, in, out, report);
    if (!why && cubin && file_read(out, cubin, MAX_CODE))
        why = "ptxas left no code that can be read";
    if (in) unlink(in);
    if (cubin && out && in) unlink(out);
    return why;
}

// Of several lines the one with the release counts: "Cuda compilation tools, release 13.0, V13.0.88".
const char *ptxas_version(Arena *a)
{
    const char *const words[] = {"ptxas", "--version", NULL};
    Buf report = {0};
    int status = 0;
    bool ran = ptxas_is_here() && program_run(words, NULL, &report, &status);
    const char *at = ran && report.n ? strstr(report.s, "release ") : NULL;
    const char *text = at ? arena_strndup(a, at, strcspn(at, "\n")) : NULL;
    buf_free(&report);
    return text;
}
