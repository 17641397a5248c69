// stress_test.c - the parts of `baton stress` that need no device: the delays that a program makes
// against the function that says which, the choice of launches, the version without fences, the
// reduction against judges with a known answer, the verdict, and the kernel that runs beside.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/cli/stress_beside.h"
#include "../../src/emu/emu.h"
#include "../../src/stress/stress.h"

#include <stdio.h>
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
} Text;

static Text read_text(const char *text)
{
    Text t = {.arena = arena_new(0)};
    t.diag = diag_new(t.arena);
    t.exprs = expr_pool_new(t.arena, intern_new(t.arena));
    u16 file = diag_add_file(t.diag, "text", text, strlen(text));
    t.mod = thread_read(t.arena, t.exprs, t.diag, file, text, strlen(text));
    if (!t.mod) {
        Buf b = {0};
        diag_print(t.diag, &b);
        printf("%s", b.s);
        buf_free(&b);
    }
    return t;
}

// Two warps, five rounds with a barrier of all and a wait of one lane: points 0 and 1 around the
// barrier, point 2 behind the wait.
static const char rounds[] =
    "kernel k\n"
    "  threads 64\n"
    "  reg b32 k, lane\n"
    "  reg pred leader\n"
    "{\n"
    "  mov.b32 %lane, lane\n"
    "  setp.eq.s32 %leader, %lane, 3\n"
    "  for %k = 0 to 5 step 1 {\n"
    "    bar.sync 0, 64\n"
    "    mov.b32 %lane, lane\n"
    "    if %leader {\n"
    "      cp.async.wait 0\n"
    "    }\n"
    "  }\n"
    "}\n";

enum { BLOCKS = 6, WARPS = 2, ROUNDS = 5 };

static Plan *plan_of(Text *t)
{
    Plan *p = ARENA_NEW(t->arena, Plan);
    PlanStep *s = ARENA_NEW(t->arena, PlanStep);
    const ThreadFn *fn = t->mod->fns.at[0];
    *s = (PlanStep){.kind = STEP_KERNEL, .kernel = fn->name, .block = fn->threads, .cluster = 1,
                    .smem_bytes = fn->smem_bytes};
    for (int i = 0; i < 3; i++) s->grid[i] = expr_const(t->exprs, 1);
    p->name = fn->name;
    vec_push(t->arena, &p->steps, s);
    return p;
}

static EmuReport *emulate(Text *t, const StressProgram *s, const StressDelays *d)
{
    PlanValue value[64];
    EmuArg arg[64];
    stress_values(s, d, value);
    for (int i = 0; i < s->nparams; i++)
        arg[i] = (EmuArg){.kind = PARAM_S32, .value = value[i].int_value};
    EmuLaunch l = {.fn = t->mod->fns.at[0], .mod = t->mod, .grid = {3, 2, 1}, .args = arg,
                   .schedule = SCHED_RANDOM, .seed = d->seed};
    return emu_run(t->arena, &l);
}

// What the program does is what stress_cycles says, visit by visit in sum.
static void delays(void)
{
    Text t = read_text(rounds);
    Plan *p = plan_of(&t);
    StressProgram s;
    stress_instrument(t.mod, p, &s);
    check(thread_check(t.mod, t.diag) && plan_check(p, t.mod, t.diag), "the program is lawful");
    check(s.points.n == 3 && s.first_param == 0 && s.nparams == p->params.n, "three points");
    check(!s.points.at[0].after && s.points.at[1].after && s.points.at[2].lanes, "their places");
    for (u32 k = 0; k < 200; k++) {
        StressLaunch l = stress_launch(k, k, WARPS);
        StressDelays d = l.delays;
        if (k % 5 == 1) d.points[0] = k % 8;
        if (k % 5 == 2) d.first = (i32)(k % 7), d.last = d.first + 2;
        if (k % 5 == 3) d.first_block = (i32)(k % 5), d.last_block = d.first_block + 2;
        i64 n = 0, cycles = 0;
        for (int block = 0; block < BLOCKS; block++)
            for (int warp = 0; warp < WARPS; warp++)
                for (int i = 0; i < ROUNDS; i++) {
                    u32 c[3] = {stress_cycles(&d, 0, false, block, warp, 2 * i),
                                stress_cycles(&d, 1, false, block, warp, 2 * i + 1),
                                stress_cycles(&d, 2, true, block, warp, i)};
                    for (int j = 0; j < 3; j++) n += c[j] > 0, cycles += c[j];
                }
        EmuReport *r = emulate(&t, &s, &d);
        check(r->ok && r->delays == n && r->delay_cycles == cycles, "delays as computed");
    }
    StressDelays none = stress_no_delays();
    check(emulate(&t, &s, &none)->delays == 0, "no delays when there are none");
    arena_free(t.arena);
}

// How long, how often: near what was asked for.
static void lengths(void)
{
    StressDelays d = stress_no_delays();
    for (u32 longest = 0; longest <= 10; longest += 5) {
        d.longest = longest;
        d.rate = 8192;
        int n = 0;
        u32 least = ~0u, most = 0;
        for (int block = 0; block < 64; block++)
            for (int visit = 0; visit < 1024; visit++) {
                u32 c = stress_cycles(&d, visit % 3, false, block, block % 4, visit);
                if (!c) continue;
                n++;
                least = MIN(least, c);
                most = MAX(most, c);
            }
        check(n > 7500 && n < 8900, "one visit of eight");
        check(least >= 32 && least < 40, "the shortest");
        check(most <= 63u << longest && most > 55u << longest, "the longest");
    }
}

// ---- launches -----------------------------------------------------------------------------------
static void launches(void)
{
    int cold = 0, moved = 0, plain = 0, second = 0, one_warp = 0;
    for (i64 i = 0; i < 800; i++) {
        StressLaunch a = stress_launch(7, i, 12), b = stress_launch(7, i, 12);
        check(memcmp(&a, &b, sizeof a) == 0, "the same launch twice");
        StressLaunch c = stress_launch(8, i, 12);
        check(a.delays.seed != c.delays.seed, "another seed");
        cold += a.cold;
        moved += a.inputs_moved || a.outputs_moved;
        plain += !a.delayed;
        second += a.other_inputs;
        one_warp += (a.delays.warps & (a.delays.warps - 1)) == 0;
        check((a.delays.warps & 0xfff) != 0, "a warp of the block");
        check(a.delayed || !a.delays.rate, "no delays in the kernel as it is");
    }
    check(cold > 300 && cold < 500, "half with an empty cache");
    check(moved > 350 && moved < 540, "half at other addresses");
    check(plain > 60 && plain < 140, "an eighth without delays");
    check(second > 300 && second < 500, "half with the second inputs");
    check(one_warp > 300 && one_warp < 500, "half with one slow warp");
}

// ---- fences -------------------------------------------------------------------------------------
#define RING(in_front, behind)                                                                     \
    "kernel ring\n  threads 32\n  smem 2128\n  param tmap tmap_h\n"                                \
    "  shared h : f32[2, 8, 32] row @0\n  shared g : f32[8, 2] row @2048\n  mbar full[2] @2112\n"  \
    "  reg b32 at, lane, smem\n  reg b64 d\n  reg f32 v\n  reg pred leader\n{\n"                   \
    "  mov.b32 %smem, smem\n  mov.b32 %lane, lane\n  setp.eq.s32 %leader, %lane, 0\n"              \
    "  mad.s32 %at, %lane, 4, %smem\n"                                                             \
    "  if %leader {\n"                                                                             \
    "    tma.load [%smem], tmap_h, {0, 0}, [%smem + 2112] ; h(0, 0, 0), full(0)\n  }\n"           \
    "  " in_front "\n  fence.proxy\n  mbar.arrive [%smem + 2112] ; full(0)\n  " behind "\n}\n"
#define READ_H "ld.shared.f32 %v, [%at] ; h(0, 0, %lane)\n"
#define READ_G "ld.shared.f32 %v, [%smem + 2048] ; g(0, 0)\n"
#define WRITE_G "st.shared.f32 [%smem + 2048], %v ; g(0, 0)\n"
#define STORE_G "tma.store tmap_h, {0, 0}, [%smem + 2048] ; g(0, 0)\n"

static int weakened(const char *text, int *fences)
{
    Text t = read_text(text);
    StressPlaces at = {0};
    int n = t.mod ? stress_weaken(t.mod, &at) : -1;
    Buf b = {0};
    if (t.mod) thread_print(t.mod, &b);
    *fences = 0;
    for (const char *s = b.s; s && (s = strstr(s, "fence.proxy")); s++) ++*fences;
    if (n != at.n) n = -2;
    buf_free(&b);
    arena_free(t.arena);
    return n;
}

static void fences(void)
{
    static const struct {
        const char *what, *text;
        int taken, left;
    } cases[] = {
        {"a fence behind reads of a filled buffer", RING(READ_H, ""), 1, 0},
        {"a fence behind reads of another buffer", RING(READ_G, ""), 0, 1},
        {"a fence behind nothing", RING("", ""), 0, 1},
        {"a fence that orders writes too", RING(READ_H WRITE_G, STORE_G), 0, 1},
        {"writes with a fence of their own", RING(READ_H WRITE_G, "fence.proxy\n" STORE_G), 1, 1},
        {"a fence behind the release", RING(READ_H "mbar.arrive [%smem + 2112] ; full(0)\n", ""), 0,
         1},
        {"the second of two fences", RING(READ_H "fence.proxy\n", ""), 1, 1},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        int left;
        check(weakened(cases[i].text, &left) == cases[i].taken && left == cases[i].left,
              cases[i].what);
    }
}

// ---- the reduction ------------------------------------------------------------------------------
// Fails when the delays reach point 3 and 17, warp 5, visit 41 and block 9 - every third time not.
typedef struct {
    int asked;
    bool moody, always;
} Judge;

static bool fails(void *ctx, const StressDelays *d)
{
    Judge *j = ctx;
    j->asked++;
    if (j->always) return true;
    bool reach = d->rate && (d->points[0] >> 3 & 1) && (d->points[0] >> 17 & 1) &&
                 (d->warps >> 5 & 1) && d->first <= 41 && d->last > 41 && d->first_block <= 9 &&
                 d->last_block > 9;
    return reach && !(j->moody && j->asked % 3 == 0);
}

static void reductions(void)
{
    Judge j = {0};
    StressDelays d = stress_no_delays();
    d.rate = 65536;
    int asked = stress_reduce(&d, 40, 12, 132, fails, &j, 500);
    check(asked == j.asked && asked < 120, "few questions");
    check(d.points[0] == (1u << 3 | 1u << 17) && !d.points[1] && !d.points[7], "two points");
    check(d.warps == 1u << 5, "one warp");
    check(d.first == 41 && d.last == 42, "one visit");
    check(d.first_block == 9 && d.last_block == 10, "one block");

    j = (Judge){.moody = true};
    d = stress_no_delays();
    d.rate = 65536;
    stress_reduce(&d, 40, 12, 132, fails, &j, 500);
    j.moody = false;
    check(fails(&j, &d), "what a moody judge leaves still fails");
    check(__builtin_popcount(d.points[0]) + __builtin_popcount(d.points[1]) < 10,
          "and it is less than before");

    j = (Judge){0};
    d = stress_no_delays();
    d.rate = 65536;
    check(stress_reduce(&d, 40, 12, 132, fails, &j, 7) == 7 && j.asked == 7, "so many questions");
    j = (Judge){.always = true};
    d.rate = 65536;
    check(stress_reduce(&d, 40, 12, 132, fails, &j, 500) == 1 && !d.rate, "no delays needed");
}

// ---- the verdict --------------------------------------------------------------------------------
static void verdicts(void)
{
    static const struct {
        StressTally kernel, open;
        bool has_open;
        StressVerdict want;
    } cases[] = {
        {{.launches = 400}, {0}, false, STRESS_CLEAN},
        {{.launches = 400}, {.launches = 400, .wrong = 1}, true, STRESS_CLEAN},
        {{.launches = 400}, {.launches = 12, .hung = 1}, true, STRESS_CLEAN},
        {{.launches = 400}, {.launches = 400}, true, STRESS_INCONCLUSIVE},
        {{.launches = 0}, {0}, false, STRESS_INCONCLUSIVE},
        {{.launches = 17, .wrong = 1}, {.launches = 16}, true, STRESS_DIFFERS},
        {{.launches = 17, .hung = 1}, {.launches = 16, .wrong = 3}, true, STRESS_HANGS},
        {{.launches = 17, .died = 1}, {0}, false, STRESS_DIES},
        {{.quiet_wrong = true}, {0}, false, STRESS_WRONG},
    };
    for (int i = 0; i < COUNT(cases); i++)
        check(stress_judge(&cases[i].kernel, cases[i].has_open ? &cases[i].open : NULL) ==
                  cases[i].want,
              stress_verdict_name[cases[i].want]);
}

// ---- beside -------------------------------------------------------------------------------------
static void beside(void)
{
    const char *text = stress_beside_text();
    Text t = read_text(strstr(text, "source none"));
    u16 file = diag_add_file(t.diag, "beside", text, strlen(text));
    Plan *p = plan_read(t.arena, t.exprs, t.diag, file, "//@ ", text, strlen(text));
    bool ok = t.mod && p && thread_check(t.mod, t.diag) && plan_check(p, t.mod, t.diag);
    Buf b = {0};
    diag_print(t.diag, &b);
    check(ok, b.n ? b.s : "the kernel beside is lawful");
    buf_free(&b);
    arena_free(t.arena);
}

int main(void)
{
    delays();
    lengths();
    launches();
    fences();
    reductions();
    verdicts();
    beside();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
