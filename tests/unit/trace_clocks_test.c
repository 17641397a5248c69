// trace_clocks_test.c - clock reads on small programs: which records there are and in which rounds,
// the end of the buffer, and buffers that no kernel has written.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/emu/emu.h"
#include "../../src/thread/check.h"
#include "../../src/trace/instrument.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check(bool ok, const char *what)
{
    passed += ok;
    if (ok) return;
    failed++;
    printf("FAILED %s\n", what);
}

// ---- programs from text -------------------------------------------------------------------------
typedef struct {
    Arena *arena;
    Diag *diag;
    ExprPool *exprs;
    ThreadModule *mod;
    Plan plan;
    TraceProgram made;
} Text;

static Text instrument(const char *text)
{
    Text t = {.arena = arena_new(0)};
    t.diag = diag_new(t.arena);
    t.exprs = expr_pool_new(t.arena, intern_new(t.arena));
    u16 file = diag_add_file(t.diag, "text", text, strlen(text));
    t.mod = thread_read(t.arena, t.exprs, t.diag, file, text, strlen(text));
    if (t.mod) {
        const ThreadFn *fn = t.mod->fns.at[0];
        PlanStep *s = ARENA_NEW(t.arena, PlanStep);
        *s = (PlanStep){.kind = STEP_KERNEL, .kernel = fn->name, .block = fn->threads, .cluster = 1,
                        .smem_bytes = fn->smem_bytes};
        for (int i = 0; i < 3; i++) s->grid[i] = expr_const(t.exprs, 1);
        t.plan.name = fn->name;
        vec_push(t.arena, &t.plan.steps, s);
        Buf before = {0}, after = {0};
        thread_print(t.mod, &before);
        trace_instrument(t.mod, &t.plan, fn, &t.made);
        thread_print(t.mod, &after);
        check(thread_check(t.made.thread, t.diag) && plan_check(t.made.plan, t.made.thread, t.diag),
              "the program is lawful");
        check(strcmp(before.s, after.s) == 0, "the program that came in is as it was");
        buf_free(&before);
        buf_free(&after);
    }
    Buf b = {0};
    diag_print(t.diag, &b);
    if (b.n) printf("%s", b.s);
    buf_free(&b);
    return t;
}

enum { GUARD = 64 }; // words behind the buffer that nobody may write

// Runs block `cta` of a grid of 3 x 2 with room for `rows` records a warp and decodes.
static TraceLog run(Text *t, int cta, int rows)
{
    TraceLog log = {.arena = t->arena};
    i64 records = (i64)rows * t->made.warps, words = records * TRACE_WORDS;
    u32 *buffer = ARENA_ARRAY(t->arena, u32, words + GUARD);
    EmuArg arg[3] = {{.kind = PARAM_PTR, .ptr = buffer, .bytes = (size_t)words * sizeof(u32)},
                     {.kind = PARAM_S32, .value = cta},
                     {.kind = PARAM_S32, .value = records}};
    EmuLaunch l = {.fn = t->made.thread->fns.at[0], .mod = t->made.thread, .grid = {3, 2, 1},
                   .args = arg, .schedule = SCHED_RANDOM, .seed = 7, .hazards = true};
    EmuReport *r = emu_run(t->arena, &l);
    check(r->ok, "no hazard");
    for (int i = 0; i < GUARD; i++) check(!buffer[words + i], "nothing behind the buffer");
    const char *why = trace_decode(&t->made, buffer, records, &log);
    check(!why, why ? why : "decoded");
    return log;
}

// The records of a warp as letters, each with its round: b begin, e end, w wait, p pass, a arrive,
// c commit.
static const char *letters(Text *t, const TraceLog *log, int warp)
{
    static const char letter[] = {[TRACE_BEGIN] = 'b', [TRACE_END] = 'e', [TRACE_WAIT] = 'w',
                                  [TRACE_PASS] = 'p', [TRACE_ARRIVE] = 'a', [TRACE_COMMIT] = 'c'};
    Buf b = {0};
    i64 time = 0;
    for (int i = 0; i < log->records.n; i++) {
        const TraceRecord *r = &log->records.at[i];
        if (r->warp != warp) continue;
        check(r->time >= time, "the time of a warp does not fall");
        time = r->time;
        buf_printf(&b, "%c%u ", letter[r->kind], r->round);
    }
    const char *text = arena_strndup(t->arena, b.s, b.n);
    buf_free(&b);
    return text;
}

static void same(const char *got, const char *want, const char *what)
{
    check(strcmp(got, want) == 0, what);
    if (strcmp(got, want) != 0) printf("  got  %s\n  want %s\n", got, want);
}

// ---- rounds -------------------------------------------------------------------------------------
static void rounds(void)
{
    Text t = instrument("kernel k\n  threads 64\n  reg b32 i, j\n{\n"
                        "  for %i = 0 to 2 step 1 {\n"
                        "    for %j = 0 to 3 step 1 {\n      cp.async.commit\n    }\n  }\n"
                        "  role 1..2 {\n    unroll u 2 {\n      cp.async.commit\n    }\n  }\n}\n");
    for (int cta = 0; cta < 6; cta += 5) {
        TraceLog log = run(&t, cta, 20);
        same(letters(&t, &log, 0), "b0 c0 c1 c2 c0 c1 c2 e0 ", "rounds of a loop in a loop");
        same(letters(&t, &log, 1), "b0 c0 c1 c2 c0 c1 c2 c0 c0 e0 ", "copies have no rounds");
        check(!log.lost, "nothing is lost");
    }
    arena_free(t.arena);

    // The sides of an `if` in turns, and a loop without rounds.
    t = instrument("kernel k\n  threads 32\n  reg b32 i, odd\n  reg pred p\n{\n"
                   "  for %i = 0 to 4 step 1 {\n    and.b32 %odd, %i, 1\n"
                   "    setp.eq.s32 %p, %odd, 0\n"
                   "    if.uniform %p {\n      cp.async.commit\n    } else {\n"
                   "      cp.async.wait 0\n    }\n  }\n"
                   "  for %i = 5 to 5 step 1 {\n    cp.async.commit\n  }\n}\n");
    TraceLog log = run(&t, 0, 20);
    same(letters(&t, &log, 0), "b0 c0 w1 p1 c2 w3 p3 e0 ", "sides of an if");
    arena_free(t.arena);
}

// Lane 0 speaks: what it does under a guard or alone, not what others do.
static void lanes(void)
{
    Text t = instrument("kernel k\n  threads 64\n  smem 64\n  mbar full[2] @0\n  mbar two[2] @16\n"
                        "  reg b32 lane, tid, at, smem\n  reg pred first, last, elected\n{\n"
                        "  mov.b32 %smem, smem\n  mov.b32 %lane, lane\n  mov.b32 %tid, tid\n"
                        "  setp.eq.s32 %first, %lane, 0\n  setp.eq.s32 %last, %lane, 31\n"
                        "  setp.eq.s32 %elected, %tid, 0\n"
                        "  @%elected mbar.init [%smem], 2 ; full(0)\n"
                        "  @%elected mbar.init [%smem + 8], 2 ; full(1)\n"
                        "  @%elected fence.mbar.init\n  bar.sync 0, 64\n"
                        "  shr.u32 %at, %tid, 5\n  and.b32 %at, %at, 0\n  shl.b32 %at, %at, 3\n"
                        "  add.s32 %at, %at, %smem\n"
                        "  @%first mbar.arrive [%at + 8] ; full(1 + %tid/64)\n"
                        "  if %elected {\n    cp.async.commit\n  }\n"
                        "  if %last {\n    cp.async.commit\n  }\n"
                        "  mbar.wait [%at + 8], 0 ; full(1 + %tid/64)\n}\n");
    TraceLog log = run(&t, 3, 20);
    same(letters(&t, &log, 0), "b0 w0 p0 a0 c0 w0 p0 e0 ", "lane 0 of warp 0");
    same(letters(&t, &log, 1), "b0 w0 p0 a0 w0 p0 e0 ", "lane 0 of warp 1");
    for (int i = 0; i < log.records.n; i++) {
        const TraceRecord *r = &log.records.at[i];
        bool ring = r->op && (r->op->op == OP_MBAR_WAIT || r->op->op == OP_MBAR_ARRIVE);
        check(!ring || (r->at.buffer == 0 && r->at.slot == 1 && r->at.generation == 0),
              "slot and phase");
    }
    arena_free(t.arena);
}

// ---- the buffer ---------------------------------------------------------------------------------
static void limits(void)
{
    // A wait whose end finds no place is none.
    Text w = instrument("kernel k\n  threads 32\n  reg b32 i\n{\n"
                        "  for %i = 0 to 9 step 1 {\n    bar.sync 0, 32\n  }\n}\n");
    for (int rows = 3; rows < 20; rows++) {
        TraceLog log = run(&w, 1, rows);
        int pairs = MIN((rows - 2) / 2, 9);
        check(log.records.n == 2 * pairs + 2 && log.lost == 18 - 2 * pairs, "waits by pairs");
        check(log.records.n < 3 || log.records.at[log.records.n - 2].kind == TRACE_PASS,
              "the last wait has its end");
    }
    arena_free(w.arena);


    Text t = instrument("kernel k\n  threads 64\n  reg b32 i\n{\n"
                        "  for %i = 0 to 50 step 1 {\n    cp.async.commit\n  }\n}\n");
    for (int rows = 3; rows < 60; rows++) {
        TraceLog log = run(&t, 1, rows);
        int stored = MIN(rows - 1, 51); // begin and 50 commits; the end has a place of its own
        check(log.records.n == 2 * (stored + 1) && log.lost == 2 * (51 - stored),
              "what finds no place is counted");
        check(log.records.at[stored - 1].round == (u32)MAX(stored - 2, 0), "the first are kept");
    }
    arena_free(t.arena);
}

// Whatever the buffer holds, decoding ends with records or with a reason.
static void garbage(void)
{
    Text t = instrument("kernel k\n  threads 64\n  smem 64\n  mbar full[2] @0\n  reg b32 i, at\n{\n"
                        "  mov.b32 %at, smem\n  for %i = 0 to 5 step 1 {\n"
                        "    mbar.wait [%at], %i ; full(0)\n  }\n}\n");
    enum { ROWS = 9, WORDS = ROWS * 2 * TRACE_WORDS };
    u32 *words = ARENA_ARRAY(t.arena, u32, WORDS);
    int refused = 0;
    u32 seed = 1;
    TraceLog none = {.arena = t.arena};
    check(trace_decode(&t.made, words, ROWS * 2, &none), "an empty buffer is refused");
    for (int k = 0; k < 20000; k++) {
        for (int i = 0; i < WORDS; i++) {
            seed = seed * 1664525 + 1013904223;
            u32 any = seed >> 8;
            words[i] = any % 3 ? any % 5 : any * 977;
        }
        TraceLog log = {.arena = t.arena};
        bool bad = trace_decode(&t.made, words, ROWS * 2, &log) != NULL;
        refused += bad;
        if (!bad) check(trace_build(t.arena, &log) != NULL, "what is not refused has a timeline");
    }
    check(refused > 10000 && refused < 20000, "most of them are refused");
    arena_free(t.arena);
}

int main(void)
{
    rounds();
    lanes();
    limits();
    garbage();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
