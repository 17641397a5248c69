// stress_watch.c - the process that starts the children of a stress run, reads what they tell, and
// ends those that fall silent.
//
// A launch that was begun and is not over after the limit hangs, whatever the reason; its child is
// killed and the next one goes on behind it. One hang of the kernel ends the run, and so does its
// first difference; the open version is left alone after its first hang or error.
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Seconds that what is no launch may take: the driver's start and its assembler, the reference.
enum { OTHER_SECONDS = 120, EXPLAIN_SECONDS = 60, EMULATOR_SECONDS = 3600 };

typedef struct {
    Stress *s;
    StressOutcome *out;
    StressFrom from;
    StressTold last;       // that was received
    bool over;             // no further child
} Watch;

// A kernel without points has one program only.
StressLaunch stress_launch_of(const Stress *s, u64 seed, i64 number)
{
    StressLaunch l = stress_launch(seed, number, s->warps);
    l.delayed = l.delayed && s->version[STRESS_DELAYED].delays.points.n > 0;
    return l;
}

static void seed_and_number(Buf *b, const StressTold *t)
{
    if (t->number == STRESS_QUIET) buf_puts(b, "the quiet run");
    else
        buf_printf(b, "--seed=%llu --launch=%lld", (unsigned long long)t->seed,
                   (long long)t->number);
}

// The lines about a launch that did not come out as it should.
static void tell_failure(Watch *w, const StressTold *t, const char *what)
{
    Buf *b = &w->out->report;
    buf_printf(b, "%s", t->open ? "unprotected" : "kernel     ");
    buf_printf(b, "%s%s by ", t->open ? " " : "", what);
    seed_and_number(b, t);
    if (*t->text) buf_printf(b, ": %s", t->text);
    buf_putc(b, '\n');
    if (t->number == STRESS_QUIET || t->open) return;
    StressLaunch l = stress_launch_of(w->s, t->seed, t->number);
    buf_puts(b, "           under: ");
    stress_tell_launch(&l, b);
    buf_putc(b, '\n');
}

// The child that ended at launch `t` is followed by one that begins behind it.
static void go_on_behind(Watch *w, const StressTold *t)
{
    if (t->number == STRESS_QUIET) {
        w->over = true;
        return;
    }
    w->from.again = true;
    w->from.seed = (i64)(t->seed - w->s->o->run.job.seed);
    // Replays count their launches from the start again: rare enough, and still bounded.
    w->from.number = w->s->o->only >= 0 ? w->s->o->launches : t->number + 1;
    if (t->open) w->from.with_open = false;
    else w->over = true;
}

static void hung(Watch *w)
{
    StressTally *tally = w->last.open ? &w->out->open : &w->out->kernel;
    if (w->last.kind != TOLD_BEGIN) {
        const char *why = w->last.kind == TOLD_TRY ? "a launch of the reduction hung"
                          : w->last.kind == TOLD_EXPLAINS
                              ? "too large to be explained on the emulator here: baton diagnose"
                              : "the process that launches fell silent";
        buf_printf(&w->out->report, "           %s\n", why);
        w->over = true;
        return;
    }
    if (!tally->hung++) tell_failure(w, &w->last, "hangs");
    go_on_behind(w, &w->last);
}

static void ended(Watch *w, const StressTold *t)
{
    StressTally *tally = t->open ? &w->out->open : &w->out->kernel;
    bool other = t->kind == TOLD_OTHER;
    if (t->number == STRESS_QUIET) { // told only when it is not as it should be
        tally->quiet_wrong = w->over = true;
        buf_printf(&w->out->report, "quiet      wrong: %s\n", t->text);
        return;
    }
    tally->launches++;
    tally->delayed += t->delayed;
    if (other && !tally->wrong++) tell_failure(w, t, "differs");
}

static void received(Watch *w, const StressTold *t)
{
    w->last = *t;
    switch ((StressToldKind)t->kind) {
    case TOLD_LINE: buf_puts(&w->out->report, t->text); break;
    case TOLD_BEGIN:
    case TOLD_TRY:
    case TOLD_EXPLAINS: break;
    case TOLD_SAME:
    case TOLD_OTHER: ended(w, t); break;
    case TOLD_REDUCED: buf_printf(&w->out->report, "           %s", t->text); break;
    case TOLD_FAILED:
        w->out->status = t->status;
        fputs(t->text, stderr);
        w->over = true;
        break;
    case TOLD_DIED: {
        StressTally *tally = t->open ? &w->out->open : &w->out->kernel;
        if (!tally->died++) tell_failure(w, t, "dies");
        go_on_behind(w, t);
        break;
    }
    case TOLD_OVER: w->over = true; break;
    }
}

// Seconds that the child may be silent now.
static int patience(const Watch *w)
{
    bool launch = w->last.kind == TOLD_BEGIN || w->last.kind == TOLD_TRY;
    if (w->last.kind == TOLD_EXPLAINS) return EXPLAIN_SECONDS;
    if (strcmp(w->s->o->run.job.device, "emu") == 0) return EMULATOR_SECONDS;
    return launch ? (int)w->s->o->hang_limit : OTHER_SECONDS;
}

// Reads one record; false at the end of the pipe, or after too long a silence (*silent).
static bool next_record(const Watch *w, int fd, StressTold *t, bool *silent)
{
    size_t have = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (have < sizeof *t) {
        int n = poll(&p, 1, patience(w) * 1000);
        if (n < 0 && errno == EINTR) continue;
        *silent = n == 0;
        if (n <= 0) return false;
        ssize_t k = read(fd, (char *)t + have, sizeof *t - have);
        if (k <= 0) return false;
        have += (size_t)k;
    }
    return true;
}

// One child, from its start to its end.
static void run_child(Watch *w)
{
    int fd[2];
    if (pipe(fd) != 0) BUG("no pipe: %s", strerror(errno));
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child < 0) BUG("no process: %s", strerror(errno));
    if (child == 0) {
        close(fd[0]);
        stress_child(w->s, &w->from, fd[1]);
        _exit(0);
    }
    close(fd[1]);
    w->last = (StressTold){.kind = TOLD_LINE, .number = STRESS_QUIET};
    StressTold t;
    bool silent = false, sound = false;
    while (next_record(w, fd[0], &t, &silent)) {
        received(w, &t);
        sound = t.kind == TOLD_OVER || t.kind == TOLD_DIED || w->over;
    }
    if (silent) {
        kill(child, SIGKILL);
        hung(w);
    } else if (!sound) { // it crashed, or the driver ended it
        t = w->last;
        snprintf(t.text, sizeof t.text, "the process that launches ended unexpectedly");
        t.kind = TOLD_DIED;
        received(w, &t);
    }
    close(fd[0]);
    waitpid(child, NULL, 0);
}

void stress_watch(Stress *s, StressOutcome *out)
{
    Watch w = {.s = s, .out = out};
    w.from.with_open = s->version[STRESS_OPEN].made;
    signal(SIGPIPE, SIG_IGN);
    while (!w.over && rt_now_ms() < s->deadline) run_child(&w);
}
