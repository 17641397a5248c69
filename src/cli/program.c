// program.c - runs other programs and collects what they print.
#define _GNU_SOURCE // execvpe
#include "program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <string.h>
#include <unistd.h>

bool program_is_here(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];
    while (path && *path) {
        size_t n = strcspn(path, ":");
        int wrote = snprintf(file, sizeof file, "%.*s/%s", (int)n, path, name);
        if (n && wrote > 0 && (size_t)wrote < sizeof file && access(file, X_OK) == 0) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

// In the child. The program is looked up in PATH of this process, whatever `env` says.
NORETURN static void become(const char *const *argv, const char *const *env, int out)
{
    int in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    execvpe(argv[0], (char *const *)argv, env ? (char *const *)env : environ);
    _exit(127);
}

bool program_run(const char *const *argv, const char *const *env, Buf *output, int *status)
{
    int pipes[2];
    if (pipe(pipes) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        become(argv, env, pipes[1]);
    }
    close(pipes[1]);
    char part[4096];
    ssize_t n;
    while (child > 0 && (n = read(pipes[0], part, sizeof part)) > 0)
        buf_write(output, part, (size_t)n);
    close(pipes[0]);
    return child > 0 && waitpid(child, status, 0) == child;
}

bool program_succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

// mkstemp puts letters of its own in place of the six at the end.
char *program_scratch_file(Arena *a)
{
    const char *folder = getenv("TMPDIR");
    char *file = arena_printf(a, "%s/baton-XXXXXX", folder && *folder ? folder : P_tmpdir);
    int fd = mkstemp(file);
    if (fd >= 0) close(fd);
    return fd >= 0 ? file : NULL;
}
