// ptxas.c - runs the assembler. Input: PTX. Output: its report, and the code when it is asked for.
// The scratch files lie in TMPDIR and are gone when the function returns.
#include "ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// No kernel is that large; a report neither.
static const size_t MAX_CODE = (size_t)64 << 20; // bytes

bool ptxas_is_here(void)
{
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        size_t n = strcspn(path, ":");
        int wrote = snprintf(file, sizeof file, "%.*s/ptxas", (int)n, path);
        if (n && wrote > 0 && (size_t)wrote < sizeof file && access(file, X_OK) == 0) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

// Collects what the child prints. False when it could not be run.
static bool run_child(char *const *words, Buf *report, int *status)
{
    int pipes[2];
    if (pipe(pipes) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        execvp(words[0], words);
        _exit(127);
    }
    close(pipes[1]);
    char part[4096];
    ssize_t n;
    while (child > 0 && (n = read(pipes[0], part, sizeof part)) > 0)
        buf_write(report, part, (size_t)n);
    close(pipes[0]);
    return child > 0 && waitpid(child, status, 0) == child;
}

// mkstemp puts letters of its own in place of the six at the end.
static char *scratch_file(Arena *a)
{
    const char *folder = getenv("TMPDIR");
    char *file = arena_printf(a, "%s/baton-XXXXXX", folder && *folder ? folder : P_tmpdir);
    int fd = mkstemp(file);
    if (fd >= 0) close(fd);
    return fd >= 0 ? file : NULL;
}

static const char *run_on_files(Arena *a, const char *in, const char *out, Buf *report)
{
    char *words[] = {"ptxas", "-arch=sm_90a", "-v", "-o", (char *)out, (char *)in, NULL};
    int status = 0;
    bool ran = run_child(words, report, &status);
    const char *text = report->n ? report->s : "no output";
    if (ran && WIFEXITED(status) && WEXITSTATUS(status) == 0 && report->n) return NULL;
    return arena_printf(a, "ptxas failed: %.*s", (int)strcspn(text, "\n"), text);
}

const char *ptxas_run(Arena *a, const char *ptx, size_t n, Buf *cubin, Buf *report)
{
    const char *in = scratch_file(a), *out = cubin && in ? scratch_file(a) : "/dev/null";
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
    char *words[] = {"ptxas", "--version", NULL};
    Buf report = {0};
    int status = 0;
    bool ran = ptxas_is_here() && run_child(words, &report, &status);
    const char *at = ran && report.n ? strstr(report.s, "release ") : NULL;
    const char *text = at ? arena_strndup(a, at, strcspn(at, "\n")) : NULL;
    buf_free(&report);
    return text;
}
