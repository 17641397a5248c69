// mutants.c - breaks every synchronising operation of every shipped kernel, one at a time and in
// each way of operator_table, and demands that a tier of the verifier reports it, or that there is
// a reason why it is right after all.
//
//     mutants [--root DIR] [--jobs N] [--only KERNEL] [--tier TIER] [--verbose] [--write | --check]
//
// Operations at one place of one region that differ in nothing but an unrolled index count as one,
// and so do mutants whose texts are equal. The last line is `N mutants, N caught, N harmless, N
// survivors`; the exit status is 1 when there are survivors. --tier asks one tier alone, and every
// mutant that it misses, harmless ones too, counts as a survivor. --write puts the tables into
// docs/verification.md, --check demands that they stand there (with --only: the lines of those
// kernels).
#include "mutants.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 120 };      // for one mutant; one that takes longer hangs the verifier

// --only NAME: NAME, `NAME, variant` and, where it is a folder, NAME/all.
static bool chosen(const Session *s, int kernel)
{
    bool yes = !s->only.n;
    for (int i = 0; i < s->only.n; i++) {
        size_t n = strlen(s->only.at[i]);
        const char *name = kernel_table[kernel].name;
        yes |= !strncmp(name, s->only.at[i], n) && (!name[n] || name[n] == ',' || name[n] == '/');
    }
    return yes;
}

// ---- which mutants there are --------------------------------------------------------------------
typedef struct { Map *places, *texts; } Seen;

// False: it was there already.
static bool first_time(Map *m, u64 key)
{
    const void *k = (const void *)(uintptr_t)(key | 1);
    if (map_get(m, k)) return false;
    map_put(m, k, (void *)1);
    return true;
}

// What makes two operations the same one: the place in the source, the region, what they name.
static u64 place_of(const Edit *e, int oper, int mem)
{
    u64 key[] = {(u64)oper, e->op->op, e->op->loc.line, e->op->loc.col,
                 mem < e->op->nmem ? (u64)e->op->mem[mem].buffer : ~0ull, 0};
    u64 h = 0;
    for (int i = 0; i < e->depth; i++) {
        u64 at[] = {e->around[i].op->op, (u64)e->around[i].at};
        h = hash_bytes(at, sizeof at, h);
    }
    key[5] = h;
    return hash_bytes(key, sizeof key, 0);
}

static u64 text_of(const Edit *e)
{
    Buf b = {0};
    thread_print(&e->module, &b);
    u64 h = hash_bytes(b.s, b.n, 0);
    buf_free(&b);
    return h;
}

// The mutants of one operation; false when there is no operation `site`.
static bool list_site(Session *s, int kernel, int site, Seen *seen)
{
    Bench *b = &s->bench[kernel];
    Arena *a = arena_new(0);
    Edit e;
    bool found = edit_begin(&e, a, b->comp.thread, b->fn, site);
    if (!found || *thread_op[e.op->op].sig == '*' || e.op->op == OP_IF) {
        arena_free(a);
        return found;
    }
    u32 does = flow_does(e.op);
    int nmem = e.op->nmem;
    for (int k = 0; k < operator_count; k++) {
        const Operator *o = &operator_table[k];
        if (o->applies && !(does & o->applies)) continue;
        for (int mem = 0; mem < (o->each_mem ? nmem : 1); mem++) {
            edit_begin(&e, a, b->comp.thread, b->fn, site);
            u64 place = place_of(&e, k, mem);
            Mutant m = {kernel, site, k, mem, e.op->op, e.op->loc,
                        mem < nmem ? b->fn->buffers.at[e.op->mem[mem].buffer].name : NULL};
            if (o->make(&e, mem) && first_time(seen->places, place) && first_time(seen->texts, text_of(&e)))
                vec_push(s->arena, &s->mutants, m);
        }
    }
    arena_free(a);
    return true;
}

static bool list_all(Session *s)
{
    s->bench = ARENA_ARRAY(s->arena, Bench, kernel_count);
    for (int k = 0; k < kernel_count; k++) {
        if (!chosen(s, k)) continue;
        const char *why = bench_open(&s->bench[k], &kernel_table[k], s->root);
        if (!why) why = bench_settle(&s->bench[k]);
        if (why) {
            printf("%s: %s\n", kernel_table[k].name, why);
            return false;
        }
        Seen seen = {map_new(s->arena), map_new(s->arena)};
        Edit e;
        Arena *a = arena_new(0);
        edit_begin(&e, a, s->bench[k].comp.thread, s->bench[k].fn, 0);
        first_time(seen.texts, text_of(&e));
        arena_free(a);
        for (int site = 0; list_site(s, k, site, &seen);) site++;
    }
    return true;
}

// ---- one mutant ---------------------------------------------------------------------------------
static void judge(Session *s, const Mutant *m, Result *r)
{
    Bench *b = &s->bench[m->kernel];
    const Operator *o = &operator_table[m->oper];
    Arena *a = arena_new(0);
    Edit e;
    edit_begin(&e, a, b->comp.thread, b->fn, m->site);
    o->make(&e, m->mem);
    Trial t = {.bench = b, .edit = &e, .arena = a};
    r->fate = SURVIVED;
    for (int i = 0; i < tier_count && r->fate == SURVIVED; i++) {
        if (s->tier && strcmp(s->tier, tier_table[i].name)) continue;
        if (!tier_table[i].catches(&t)) continue;
        r->fate = CAUGHT;
        r->tier = (u8)i;
        snprintf(r->why, sizeof r->why, "%s", t.why.s);
    }
    const char *reason = r->fate == SURVIVED && !s->tier ? harmless_reason(&t, o, m->site) : NULL;
    if (reason && trial_many_schedules(&t)) r->fate = HARMLESS;
    if (r->fate != CAUGHT)
        snprintf(r->why, sizeof r->why, "%s%s", t.why.n ? "only under many schedules: " : "",
                 t.why.n ? t.why.s : reason ? reason : "nothing is reported");
    buf_free(&t.why);
    arena_free(a);
}

// ---- what is printed ----------------------------------------------------------------------------
static void print_mutant(const Session *s, int i)
{
    static const char *const fates[] = {"open", "caught", "harmless", "survivor", "crash"};
    const Mutant *m = &s->mutants.at[i];
    const Result *r = &s->board->result[i];
    int line = (int)strcspn(r->why, "\n");
    printf("%s: %s:%u: %s%s%s: %s: %s%s%.*s\n", fates[r->fate], kernel_table[m->kernel].name, m->loc.line,
           thread_op[m->op].name, m->buffer ? " " : "", m->buffer ? m->buffer : "",
           operator_table[m->oper].name, r->fate == CAUGHT ? tier_table[r->tier].name : "",
           r->fate == CAUGHT ? ": " : "", line, r->why);
}

// ---- workers ------------------------------------------------------------------------------------
static void work(Session *s, int worker)
{
    for (;;) {
        int i = __atomic_fetch_add(&s->board->next, 1, __ATOMIC_RELAXED);
        if (i >= s->mutants.n) _exit(0);
        s->board->at[worker] = i;
        alarm(SECONDS);
        judge(s, &s->mutants.at[i], &s->board->result[i]);
        s->board->at[worker] = -1;
        if (s->verbose) print_mutant(s, i), fflush(stdout);
        __atomic_fetch_add(&s->board->done, 1, __ATOMIC_RELAXED);
    }
}

static pid_t start(Session *s, int worker)
{
    s->board->at[worker] = -1;
    fflush(stdout);
    pid_t p = fork();
    if (!p) work(s, worker);
    return p;
}

// A worker that dies takes its mutant with it: that is a fault of the verifier.
static void run_all(Session *s)
{
    pid_t pid[64];
    size_t bytes = sizeof(Board) + sizeof(Result) * (size_t)s->mutants.n;
    s->board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->board == MAP_FAILED) BUG("no memory for %zu bytes", bytes);
    for (int i = 0; i < s->jobs; i++) pid[i] = start(s, i);
    bool terminal = isatty(STDERR_FILENO) != 0;
    for (int running = s->jobs; running;) {
        if (terminal) fprintf(stderr, "\r%d of %d mutants ", s->board->done, s->mutants.n);
        usleep(100000);
        for (int i = 0; i < s->jobs; i++) {
            int status;
            if (pid[i] <= 0 || waitpid(pid[i], &status, WNOHANG) != pid[i]) continue;
            int lost = s->board->at[i];
            if (lost >= 0) {
                Result *r = &s->board->result[lost];
                r->fate = CRASHED;
                snprintf(r->why, sizeof r->why, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                         ? "no end after %d seconds" : "the verifier died", SECONDS);
                s->board->done++;
                pid[i] = start(s, i);
            } else {
                pid[i] = 0;
                running--;
            }
        }
    }
    if (terminal) fputs("\r\033[K", stderr);
}

int main(int argc, char **argv)
{
    Session s = {.root = ".", .jobs = 2, .arena = arena_new(0)};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--root") && more) s.root = argv[++i];
        else if (!strcmp(argv[i], "--jobs") && more) s.jobs = MAX(1, MIN(atoi(argv[++i]), 64));
        else if (!strcmp(argv[i], "--only") && more) vec_push(s.arena, &s.only, argv[++i]);
        else if (!strcmp(argv[i], "--tier") && more) s.tier = argv[++i];
        else if (!strcmp(argv[i], "--verbose")) s.verbose = true;
        else if (!strcmp(argv[i], "--write")) s.write = true;
        else if (!strcmp(argv[i], "--check")) s.check = true;
        else {
            printf("unknown word `%s`\n", argv[i]);
            return 2;
        }
    }
    if (!list_all(&s)) return 1;
    run_all(&s);
    int n[CRASHED + 1] = {0};
    for (int i = 0; i < s.mutants.n; i++) {
        u8 fate = s.board->result[i].fate;
        n[fate]++;
        if (!s.verbose && fate >= SURVIVED) print_mutant(&s, i);
    }
    bool page = s.write ? page_write(&s) : !s.check || page_check(&s);
    printf("%d mutants, %d caught, %d harmless, %d survivors\n", s.mutants.n, n[CAUGHT], n[HARMLESS],
           n[SURVIVED] + n[CRASHED]);
    return n[SURVIVED] + n[CRASHED] + n[OPEN] != 0 || !page;
}
