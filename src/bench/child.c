// child.c - another program that is asked line by line. Its input is a socket and no pipe, because
// a write to a program that has ended must be an error here, and no signal that ends baton.
//
// Invariant: `gone` is NULL while the process runs as far as is known; once set, the process has
// been waited for, nothing of its group is alive that did not leave it, and all descriptors but
// those are closed.
#define _GNU_SOURCE // pipe2
#include "child.h"
#include "../../rt/rt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    MAX_LINE = 64 << 20,   // bytes of an answer
    TAIL_BYTES = 4096,     // of standard error that are kept for messages
    TAIL_LINES = 8,        // of them in a message
};

struct Child {
    Arena *arena;
    const char *name;      // for messages: of the script, else of the program
    Buf *log;              // or NULL
    pid_t pid;
    int in, out, err;      // its standard streams, seen from here; -1: closed
    Buf answer;            // read and not yet taken
    Buf tail;              // end of standard error
    const char *gone;      // why it is not there any more
    int status;            // of waitpid, once gone
};

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

// ---- starting -----------------------------------------------------------------------------------

// The child's ends become 0, 1 and 2 in it; every other descriptor of ours is closed by exec.
static int spawn(Child *c, const char *const *argv, const int *ends)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&actions, ends[i], i);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    // The interface takes char *const[] by tradition and writes to nothing.
    int r = posix_spawnp(&c->pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

Child *child_start(Arena *a, const char *const *argv, Buf *log, const char **why)
{
    Child *c = ARENA_NEW(a, Child);
    *c = (Child){.arena = a, .log = log, .in = -1, .out = -1, .err = -1};
    c->name = argv[1] && argv[1][0] != '-' ? argv[1] : argv[0];
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    bool made = !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) &&
                !pipe2(out, O_CLOEXEC) && !pipe2(err, O_CLOEXEC);
    int r = made ? spawn(c, argv, (int[]){in[1], out[1], err[1]}) : errno;
    close_one(&in[1]);
    close_one(&out[1]);
    close_one(&err[1]);
    c->in = in[0];
    c->out = out[0];
    c->err = err[0];
    if (!r) return c;
    *why = arena_printf(a, "cannot start %s: %s", argv[0], strerror(r));
    close_one(&c->in);
    close_one(&c->out);
    close_one(&c->err);
    return NULL;
}

// ---- ending -------------------------------------------------------------------------------------

static void log_line(Child *c, const char *mark, const char *line)
{
    if (c->log) buf_printf(c->log, "%s %s\n", mark, line);
}

static void keep_error(Child *c, const char *s, size_t n)
{
    if (c->log) buf_write(c->log, s, n);
    buf_write(&c->tail, s, n);
    if (c->tail.n <= 2 * TAIL_BYTES) return;
    memmove(c->tail.s, c->tail.s + c->tail.n - TAIL_BYTES, TAIL_BYTES + 1);
    c->tail.n = TAIL_BYTES;
}

// Reads once what is there; false: the other side has closed it.
static bool take(Child *c, int *fd)
{
    char bytes[1 << 16];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) {
        close_one(fd);
        return false;
    }
    if (fd == &c->err) keep_error(c, bytes, (size_t)n);
    else buf_write(&c->answer, bytes, (size_t)n);
    return true;
}

// Waits at most `ms` for anything, and takes it. A stream that is closed is left out.
static void take_any(Child *c, double ms)
{
    struct pollfd p[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
    if (poll(p, 2, (int)MIN(MAX(ms, 0.0), 1e6)) <= 0) return;
    if (p[0].revents) take(c, &c->out);
    if (p[1].revents) take(c, &c->err);
}

// Waits at most `ms` for the process to end. It stays there to be waited for, so that its number
// names no other process or group.
static bool ended_within(Child *c, double ms)
{
    double end = rt_now_ms() + ms;
    for (;;) {
        siginfo_t info = {0};
        if (!waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
            return true;
        if (rt_now_ms() >= end) return false;
        // What it still has to say must not keep it from ending.
        if (c->out >= 0 || c->err >= 0) take_any(c, 5);
        else nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

// Kills what is alive of the group, takes the status, and reads the end of standard error: not up
// to the end of the stream, which somebody who left the group may hold open.
static void finish(Child *c)
{
    kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR) continue;
    for (int i = 0; i < 1000 && c->err >= 0; i++) {
        struct pollfd p = {c->err, POLLIN, 0};
        if (poll(&p, 1, 0) <= 0) break;
        take(c, &c->err);
    }
    close_one(&c->in);
    close_one(&c->out);
    close_one(&c->err);
}

// The last lines of standard error, behind a sentence.
static const char *with_tail(Child *c, const char *sentence)
{
    size_t n = c->tail.n;
    while (n && c->tail.s[n - 1] == '\n') n--;
    size_t from = n;
    for (int lines = 0; from > 0; from--)
        if (c->tail.s[from - 1] == '\n' && ++lines == TAIL_LINES) break;
    if (!n) return sentence;
    return arena_printf(c->arena, "%s; the last it said:\n%.*s", sentence, (int)(n - from),
                        c->tail.s + from);
}

// Sets `gone` once and logs it.
static const char *set_gone(Child *c, const char *sentence)
{
    log_line(c, "--", sentence);
    return c->gone = with_tail(c, sentence);
}

static const char *died(Child *c)
{
    bool ended = ended_within(c, 2000);
    finish(c);
    if (!ended)
        return set_gone(c, arena_printf(c->arena, "%s closed its output without an end", c->name));
    if (WIFSIGNALED(c->status))
        return set_gone(c, arena_printf(c->arena, "%s was ended by signal %d (%s)", c->name,
                                        WTERMSIG(c->status), strsignal(WTERMSIG(c->status))));
    return set_gone(c, arena_printf(c->arena, "%s ended with status %d instead of an answer",
                                    c->name, WEXITSTATUS(c->status)));
}

const char *child_blame(Child *c, const char *fmt, ...)
{
    if (c->gone) return c->gone;
    va_list ap;
    va_start(ap, fmt);
    const char *sentence = arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    finish(c);
    return set_gone(c, sentence);
}

bool child_end(Child *c, double limit_s)
{
    if (!c) return true;
    bool well = false;
    if (!c->gone) {
        close_one(&c->in);
        bool ended = ended_within(c, limit_s * 1e3);
        finish(c);
        well = ended && WIFEXITED(c->status) && !WEXITSTATUS(c->status);
        c->gone = "it was ended";
    }
    buf_free(&c->answer);
    buf_free(&c->tail);
    return well;
}

// ---- asking -------------------------------------------------------------------------------------

// Requests are short against the socket's buffer. A failure shows up when the answer is awaited.
static void send_line(Child *c, const char *line)
{
    char *whole = arena_printf(c->arena, "%s\n", line);
    size_t n = strlen(whole), sent = 0;
    while (sent < n) {
        ssize_t r = send(c->in, whole + sent, n - sent, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) break;
        sent += (size_t)r;
    }
}

// Takes the first line out of what was read, or NULL.
static char *take_line(Child *c)
{
    char *end = c->answer.n ? memchr(c->answer.s, '\n', c->answer.n) : NULL;
    if (!end) return NULL;
    size_t n = (size_t)(end - c->answer.s);
    char *line = arena_strndup(c->arena, c->answer.s, n);
    memmove(c->answer.s, end + 1, c->answer.n - n); // with the NUL behind
    c->answer.n -= n + 1;
    return line;
}

// The beginning of what it printed, on one line.
static const char *excerpt(Child *c, const char *s, size_t n)
{
    enum { MOST = 80 };
    char *out = arena_printf(c->arena, "%.*s%s", (int)MIN(n, (size_t)MOST), s,
                             n > MOST ? "..." : "");
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    return out;
}

static const char *unasked(Child *c)
{
    return child_blame(c, "%s printed what nobody asked for: \"%s\"", c->name,
                       excerpt(c, c->answer.s, c->answer.n));
}

// Its own children may hold its output open after it has ended, so the end of the output is not
// what to wait for.
static void wait_for_output(Child *c, double ms)
{
    take_any(c, MIN(ms, 100.0));
    if (c->out < 0 || !ended_within(c, 0)) return;
    struct pollfd p = {c->out, POLLIN, 0};
    while (c->out >= 0 && poll(&p, 1, 0) > 0) take(c, &c->out);
    close_one(&c->out);
}

const char *child_ask(Child *c, const char *line, double limit_s, const char **why)
{
    *why = c->gone;
    if (c->gone) return NULL;
    take_any(c, 0);
    if (c->answer.n) {
        *why = unasked(c);
        return NULL;
    }
    log_line(c, "->", line);
    send_line(c, line);
    double end = rt_now_ms() + limit_s * 1e3;
    char *answer;
    while (!(answer = take_line(c))) {
        if (c->out < 0) *why = died(c);
        else if (c->answer.n > MAX_LINE)
            *why = child_blame(c, "%s gives an answer without an end", c->name);
        else if (rt_now_ms() >= end)
            *why = child_blame(c, "%s gave no answer within %g s to %s", c->name, limit_s,
                               excerpt(c, line, strlen(line)));
        else
            wait_for_output(c, end - rt_now_ms() + 1);
        if (c->gone) return NULL;
    }
    log_line(c, "<-", answer);
    return answer;
}
