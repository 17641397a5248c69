// periodic_test.c - loops that come round and loops that do not, and those of the shipped kernels.
//
// Each case is the body of a kernel in the thread IR and one line for each of its loops:
//
//   modulus/first/last, then letters: w while, d data, s sums, f few, u a use that is not periodic
//   fixed
//   NO: a part of the reason
//
// Argument: the folder that holds kernels/ (default: the current one).
#include "../../src/pass.h"
#include "../../src/verify/periodic.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "kernel k\n  threads 128\n  smem 1088\n  param s32 S\n  param s32 T\n  param ptr tasks\n"
    "  shared t : f32[4, 64] row @0\n  mbar full[4] @1024\n  mbar empty[4] @1056\n"
    "  global tasks : s32[1024, 4] param tasks stride[4, 1]\n"
    "  reg b32 smem, tid, S, T, n, m, i, j, x, y, z, end, slot, par, at, v\n"
    "  reg b64 base, d, ptr\n  reg f32 f\n  reg pred p, q, lead\n{\n"
    "  mov.u32 %smem, smem\n  mov.u32 %tid, tid\n  ld.param.s32 %S, S\n"
    "  ld.param.s32 %T, T\n  ld.param.u64 %base, tasks\n"
    "  setp.eq.s32 %lead, %tid, 0\n  mov.b32 %n, 0\n  mov.b32 %m, 0\n  mov.b32 %x, 0\n"
    "  mov.b32 %y, 1\n  mov.b32 %z, 2\n";

// Waits at slot n % 4 for the phase of order n, as kernels do.
#define WAIT4(n)                                                                                  \
    "and.b32 %slot, %" n ", 3\nshl.b32 %slot, %slot, 3\nadd.s32 %at, %slot, 1024\n"               \
    "shr.u32 %par, %" n ", 2\nand.b32 %par, %par, 1\nmbar.wait [%at], %par ; full(%" n " % 4)\n"
#define WAIT3(n)                                                                                  \
    "rem.u32 %slot, %" n ", 3\nshl.b32 %slot, %slot, 3\nadd.s32 %at, %slot, 1024\n"               \
    "div.u32 %par, %" n ", 3\nand.b32 %par, %par, 1\nmbar.wait [%at], %par ; full(%" n " % 3)\n"
#define NEXT(n, c) "add.s32 %" n ", %" n ", " c "\n"
#define ONE "mbar.wait [%smem + 1024], 0 ; full(0)\n"
#define TASK(r, i)                                                                                \
    "mul.wide.s64 %d, %" i ", 16\nadd.s64 %ptr, %base, %d\n"                                      \
    "ld.global.b32 %" r ", [%ptr] ; tasks(%" i ", 0)\n"

typedef struct { const char *name, *body, *expect; } Case;
static const Case cases[] = {
    {"the loop's own counter",
     "for %i = 0 to %S step 1 {\n" WAIT4("i") "}\n", "8/0/0\n"},
    {"an order beside it",
     "for %i = 0 to %S step 1 {\n" WAIT4("n") NEXT("n", "1") "}\n", "8/0/0\n"},
    {"two orders a round",
     "for %i = 0 to %S step 1 {\n" WAIT4("n") NEXT("n", "1") WAIT4("n") NEXT("n", "1") "}\n",
     "4/0/0\n"},
    {"three slots, by remainder and division",
     "for %i = 0 to %S step 1 {\n" WAIT3("n") NEXT("n", "1") "}\n", "6/0/0 f\n"},
    {"a constant only", "for %i = 0 to %S step 1 {\n" ONE "}\n", "1/0/0\n"},
    {"a phase that flips",
     "for %i = 0 to %S step 1 {\nmbar.wait [%smem + 1024], %x ; full(0)\nxor.b32 %x, %x, 1\n}\n",
     "2/0/0\n"},
    {"phases in bits, turned at a slot that goes round",
     "for %i = 0 to %S step 1 {\nand.b32 %slot, %i, 1\nshr.u32 %par, %x, %slot\n"
     "and.b32 %par, %par, 1\nshl.b32 %at, %slot, 3\nadd.s32 %at, %at, 1024\n"
     "mbar.wait [%at], %par ; full(%i % 2)\nshl.b32 %v, 1, %slot\nxor.b32 %x, %x, %v\n}\n",
     "4/0/0\n"},
    {"slots that three registers pass round",
     "for %i = 0 to %S step 1 {\nshl.b32 %at, %x, 3\nadd.s32 %at, %at, 1024\n"
     "mbar.arrive [%at] ; full(%x)\nmov.b32 %v, %x\nmov.b32 %x, %y\nmov.b32 %y, %z\n"
     "mov.b32 %z, %v\n}\n", "3/0/0\n"},
    {"the slot of the round before",
     "for %i = 0 to %S step 1 {\nshl.b32 %at, %x, 3\nadd.s32 %at, %at, 1024\n"
     "mbar.arrive [%at] ; full(%x)\nand.b32 %x, %i, 1\n}\n", "2/1/0\n"},
    {"the first round is special",
     "for %i = 0 to %S step 1 {\nsetp.gt.s32 %p, %i, 0\nif.uniform %p {\n" ONE "}\n}\n",
     "1/1/0 f\n"},
    {"the first three rounds of an order that starts at 0",
     "for %i = 5 to %S step 1 {\nsetp.ge.s32 %p, %n, 3\nif.uniform %p {\n" ONE "}\n" NEXT("n", "1")
     "}\n", "1/3/0 f\n"},
    {"the last round is special",
     "for %i = 0 to %S step 1 {\nadd.s32 %v, %S, -1\nsetp.lt.s32 %p, %i, %v\nif.uniform %p {\n" ONE
     "}\n}\n", "1/0/1 f\n"},
    {"a look ahead by two, in steps of two",
     "for %i = 0 to %S step 2 {\nadd.s32 %v, %i, 2\nsetp.lt.s32 %p, %v, %S\nif.uniform %p {\n" ONE
     "}\n}\n", "1/0/1 f\n"},
    {"a bound behind a division",
     "add.s32 %v, %S, 127\nshr.u32 %v, %v, 7\nfor %i = 0 to %v step 1 {\nadd.s32 %x, %i, 3\n"
     "setp.lt.s32 %p, %x, %v\nif.uniform %p {\n" ONE "}\n}\n", "1/0/3 f\n"},
    {"an order that grows in the last round but one only as well",
     "for %i = 0 to %S step 2 {\n" WAIT4("n") NEXT("n", "1") "add.s32 %v, %i, 1\n"
     "setp.lt.s32 %p, %v, %S\nif.uniform %p {\n" WAIT4("n") NEXT("n", "1") "}\n}\n", "8/0/1 f\n"},
    {"every other round has a handoff more",
     "for %i = 0 to %S step 1 {\nand.b32 %v, %i, 1\nsetp.eq.s32 %p, %v, 0\nif.uniform %p {\n"
     WAIT4("n") NEXT("n", "1") "}\n}\n", "16/0/0\n"},
    {"inner loops of any length",
     "for %i = 0 to %S step 1 {\nfor %j = 0 to %T step 1 {\n" WAIT4("n") NEXT("n", "1") "}\n}\n",
     "8/0/0\n8/0/0\n"},
    {"inner loops of a length from a table",
     "for %i = 0 to %S step 1 {\n" TASK("z", "i") "for %j = 0 to %z step 1 {\n" WAIT4("n")
     NEXT("n", "1") "}\n}\n", "8/0/0 ds\n8/0/0\n"},
    {"an inner loop of six rounds",
     "for %i = 0 to %S step 1 {\nfor %j = 0 to 6 step 1 {\n" WAIT4("n") NEXT("n", "1") "}\n}\n",
     "4/0/0\nfixed\n"},
    {"every round of an inner loop has its own address, and there are four",
     "for %i = 0 to %S step 1 {\nfor %j = 0 to 4 step 1 {\nshl.b32 %at, %j, 8\n"
     "ld.shared.f32 %f, [%at] ; t(%j, 0)\n}\n}\n", "1/0/0\nfixed\n"},
    {"a table decides whether there is a handoff",
     "for %i = 0 to %S step 1 {\n" TASK("z", "i") "setp.eq.s32 %p, %z, 7\nif.uniform %p {\n" ONE
     "}\n}\n", "1/0/0 d\n"},
    {"a while loop",
     "mov.b32 %end, 2147483647\nfor %i = 0 to %end step 1 {\n" WAIT4("n") NEXT("n", "1")
     "add.s32 %m, %m, 3\nsetp.lt.s32 %p, %m, %S\nif.uniform %p {\nmov.b32 %end, 2147483647\n} else "
     "{\nmov.b32 %end, -2147483648\n}\n}\n", "8/0/0 w\n"},
    {"a loop whose result steers",
     "for %i = 0 to %S step 1 {\nadd.s32 %n, %n, 1\n}\n" WAIT4("n"), "8/0/0\n"},
    {"a loop that nothing asks for",
     "for %i = 0 to %S step 1 {\nadd.s32 %n, %n, 1\n}\n" ONE, ""},
    {"coordinates of copies do not steer",
     "for %i = 0 to %S step 1 {\n" ONE "mul.wide.s64 %d, %i, 16\nadd.s64 %ptr, %base, %d\n"
     "ld.global.b32 %v, [%ptr] ; tasks(%i, 0)\n}\n", "1/0/0\n"},

    {"at least four rounds, or something else is done",
     "setp.lt.s32 %p, %S, 4\nif.uniform %p {\n" ONE "}\nfor %i = 0 to %S step 1 {\n" ONE "}\n",
     "1/4/0 f\n"},
    {"the slot behind the last round, by the number of rounds",
     "for %i = 0 to %S step 1 {\n" ONE "}\nand.b32 %slot, %S, 3\nshl.b32 %at, %slot, 3\n"
     "add.s32 %at, %at, 1056\nmbar.arrive [%at] ; empty(%S % 4)\n", "4/0/0\n"},

    // ---- and what does not come round -----------------------------------------------------------
    {"an address for every round",
     "for %i = 0 to %S step 1 {\nshl.b32 %at, %i, 8\nld.shared.f32 %f, [%at] ; t(%i, 0)\n}\n",
     "NO: steers by its value\n"},
    {"a slot from a table",
     "for %i = 0 to %S step 1 {\n" TASK("z", "i") "shl.b32 %at, %z, 3\nadd.s32 %at, %at, 1024\n"
     "mbar.arrive [%at] ; full(%z)\n}\n", "NO: 'i', which changes with every round, steers\n"},
    {"a slot from shared memory",
     "for %i = 0 to %S step 1 {\nld.shared.b32 %z, [%smem] ; t(0, 0)\nand.b32 %z, %z, 3\n"
     "shl.b32 %at, %z, 3\nadd.s32 %at, %at, 1024\nmbar.arrive [%at] ; full(%z)\n}\n",
     "NO: data that a round makes\n"},
    {"a comparison with a size that is not the bound",
     "for %i = 0 to %S step 1 {\nsetp.eq.s32 %p, %i, %T\nif.uniform %p {\n" ONE "}\n}\n",
     "NO: the condition there follows from 'i'\n"},
    {"inner loops that grow with the round",
     "for %i = 0 to %S step 1 {\nfor %j = 0 to %i step 1 {\n" ONE "}\n}\n",
     "NO: the rounds of the loop there follow from 'i'\n1/0/0\n"},
    {"an order that doubles",
     "mov.b32 %n, 1\nfor %i = 0 to %S step 1 {\n" WAIT3("n") "add.s32 %n, %n, %n\n}\n",
     "NO: 'n' follows from itself\n"},
    {"a remainder with sign of what may be negative",
     "for %i = -5 to %S step 1 {\nrem.s32 %slot, %i, 4\nshl.b32 %at, %slot, 3\n"
     "add.s32 %at, %at, 1056\nmbar.arrive [%at] ; empty(%i % 4)\n}\n", "NO: steers by its value\n"},
    {"a loop that writes its counter",
     "for %i = 0 to %S step 1 {\n" ONE "add.s32 %i, %i, 1\n}\n", "NO: its own counter\n"},
    {"a thread that ends",
     "for %i = 0 to %S step 1 {\n" ONE "setp.eq.s32 %p, %i, 7\n@%p exit\n}\n", "NO: end inside\n"},
    {"growth that follows from what grows",
     "for %i = 0 to %S step 1 {\n" WAIT4("n") "and.b32 %v, %n, 1\nsetp.eq.s32 %p, %v, 0\n"
     "if.uniform %p {\n" NEXT("n", "3") "} else {\n" NEXT("n", "1") "}\n}\n",
     "NO: how much 'n' grows\n"},
    {"the size that decides the rounds decides which way to go as well",
     "for %i = 0 to %S step 1 {\nand.b32 %v, %S, 1\nadd.s32 %v, %v, %T\nsetp.eq.s32 %p, %v, 0\n"
     "if.uniform %p {\n" ONE "}\n}\nsetp.eq.s32 %p, %S, %T\nif.uniform %p {\n" ONE "}\n",
     "NO: 'S' decides how many rounds\n"},
    {"an unsigned remainder of what may be negative",
     "for %i = 0 to %S step 1 {\nrem.u32 %slot, %n, 3\nshl.b32 %at, %slot, 3\n"
     "add.s32 %at, %at, 1056\nmbar.arrive [%at] ; empty(%n % 3)\nadd.s32 %n, %n, -1\n}\n",
     "NO: steers by its value\n"},
    {"a period that is too long",
     "for %i = 0 to %S step 1 {\nrem.u32 %slot, %i, 4001\nand.b32 %v, %slot, 3\nrem.u32 %z, %i, 3\n"
     "add.s32 %v, %v, %z\nshl.b32 %at, %v, 3\nadd.s32 %at, %at, 1024\n"
     "mbar.arrive [%at] ; full(%v)\n}\n", "NO: steers by its value\n"},
};

// Two roles, a producer and a consumer of `full` and `empty`, with a loop each: what is said about
// the loops together.
#define PRODUCE(i)                                                                                \
    "and.b32 %slot, %" i ", 3\nshl.b32 %slot, %slot, 3\nadd.s32 %at, %slot, 1056\n"               \
    "mbar.wait [%at], 0 ; empty(%" i " % 4)\nmbar.arrive [%smem + 1024] ; full(0)\n"
#define CONSUME "mbar.wait [%smem + 1024], 0 ; full(0)\nmbar.arrive [%smem + 1056] ; empty(0)\n"
#define ROLES(a, b) "role 0..1 {\n" a "}\nrole 1..4 {\n" b "}\n"
static const Case pairs[] = {
    {"one size", ROLES("for %i = 0 to %S step 1 {\n" PRODUCE("i") "}\n",
                       "for %j = 0 to %S step 1 {\n" CONSUME "}\n"), "1 i = 1 j + 0\n"},
    {"one less", ROLES("for %i = 0 to %S step 1 {\n" PRODUCE("i") "}\n",
                       "add.s32 %x, %S, -1\nfor %j = 0 to %x step 1 {\n" CONSUME "}\n"),
     "1 i = 1 j + 1\n"},
    {"two a round", ROLES("shl.b32 %x, %S, 1\nfor %i = 0 to %x step 1 {\n" PRODUCE("i") "}\n",
                          "for %j = 0 to %S step 1 {\n" CONSUME "}\n"), "1 i = 2 j + 0\n"},
    {"one division", ROLES("add.s32 %x, %S, 63\nshr.u32 %x, %x, 6\nfor %i = 0 to %x step 1 {\n"
                           PRODUCE("i") "}\n",
                           "add.s32 %y, %S, 63\nshr.u32 %y, %y, 6\nfor %j = 0 to %y step 1 {\n"
                           CONSUME "}\n"), "1 i = 1 j + 0\n"},
    {"tables, the last entry read twice",
     ROLES("add.s32 %x, %S, 1\nfor %i = 0 to %x step 1 {\nadd.s32 %y, %S, -1\nmin.s32 %y, %i, %y\n"
           TASK("z", "y") "setp.lt.s32 %p, %i, %S\nif.uniform %p {\nfor %j = 0 to %z step 1 {\n"
           PRODUCE("j") "}\n}\n}\n",
           "for %n = 0 to %S step 1 {\n" TASK("y", "n") "for %m = 0 to %y step 1 {\n" CONSUME
           "}\n}\n"), "1 i = 1 n + 1\n1 j = 1 m + 0\n"},
    {"another entry of the table",
     ROLES("for %i = 0 to %S step 1 {\nadd.s32 %y, %i, 1\n" TASK("z", "y")
           "for %j = 0 to %z step 1 {\n" PRODUCE("j") "}\n}\n",
           "for %n = 0 to %S step 1 {\n" TASK("y", "n") "for %m = 0 to %y step 1 {\n" CONSUME
           "}\n}\n"), "1 i = 1 n + 0\nALONE j mbar.arrive\nALONE m mbar.arrive\n"},
    {"two sizes", ROLES("for %i = 0 to %S step 1 {\n" PRODUCE("i") "}\n",
                        "for %j = 0 to %T step 1 {\n" CONSUME "}\n"),
     "ALONE i mbar.arrive\nALONE j mbar.arrive\n"},
    {"nobody there", ROLES("for %i = 0 to %S step 1 {\n" PRODUCE("i") "}\n", CONSUME),
     "ALONE i mbar.arrive\n"},
    {"no ring between them", ROLES("for %i = 0 to %S step 1 {\n" CONSUME "}\n",
                                   "for %j = 0 to %T step 1 {\n"
                                   "ld.shared.f32 %f, [%smem] ; t(0, 0)\n}\n"), ""},
    {"rounds by the thread",
     "role 0..4 {\nfor %i = 0 to %tid step 1 {\nbar.sync 1, 128\n}\n}\n", "ALONE i\n"},
    {"while loops",
     ROLES("mov.b32 %end, %S\nmov.b32 %n, 0\nfor %i = 0 to %end step 1 {\n" PRODUCE("i")
           "add.s32 %n, %n, 3\nsetp.lt.s32 %p, %n, %T\nselp.s32 %end, 9, -9, %p\n}\n",
           "mov.b32 %end, %S\nmov.b32 %m, 0\nfor %j = 0 to %end step 1 {\n" CONSUME
           "add.s32 %m, %m, 3\nsetp.lt.s32 %p, %m, %T\nselp.s32 %end, 9, -9, %p\n}\n"),
     "1 i = 1 j + 0\n"},
    {"while loops of which one goes further",
     ROLES("mov.b32 %end, %S\nmov.b32 %n, 0\nfor %i = 0 to %end step 1 {\n" PRODUCE("i")
           "add.s32 %n, %n, 3\nsetp.lt.s32 %p, %n, %T\nselp.s32 %end, 9, -9, %p\n}\n",
           "mov.b32 %end, %S\nmov.b32 %m, 0\nfor %j = 0 to %end step 1 {\n" CONSUME
           "add.s32 %m, %m, 4\nsetp.lt.s32 %p, %m, %T\nselp.s32 %end, 9, -9, %p\n}\n"),
     "ALONE i mbar.arrive\nALONE j mbar.arrive\n"},
};

// Of each kernel of the file the loops, then what goes together. All are periodic, none is alone.
// Uses of values are left out: they change with every kernel's epilogue.
static const Case kernels[] = {
    {"attention/v1", NULL,
     "2/0/0\n"},
    {"attention/v1_pipelined", NULL,
     "4/0/0\n4/0/0\n1 bn_load = 1 bn + 0\n"},
    {"attention/v2", NULL,
     "4/0/0\n4/0/0\n1 bn = 1 bn_2 + 0\n"},
    {"attention/v3", NULL,
     "4/0/1 dsf\n4/0/0\n4/0/0 ds\n4/0/1 f\n1 n = 1 n_2 + 1\n1 step = 1 step_2 + 0\n"},
    {"attention/v4", NULL,
     "4/0/0\n4/0/1 f\n1 step = 1 step_2 + 1\n"},
    {"gdn/correct", NULL, NULL}, // whatever they are, but periodic and not alone
    {"gemm/gemm", NULL,
     "2/0/0\n1/0/0\nfixed\n"},
    {"gemm/fp8", NULL,
     "8/0/0\n8/0/0\n8/0/0\n8/0/0\n1 round = 1 round_2 + 0\n1 k = 1 k_2 + 0\n8/0/0\n"
     "8/0/0\nfixed\nfixed\n8/0/0\n8/0/0\nfixed\n1 round = 1 round_2 + 0\n"
     "1 k = 1 k_2 + 0\n"},
    {"gemm/persistent", NULL,
     "8/0/0\n8/0/0\n4/0/0\n4/0/0\n1 round = 1 round_2 + 0\n1 k = 2 pair + 0\n8/0/0\n"
     "8/0/0\nfixed\nfixed\n4/0/0\n4/0/0\nfixed\nfixed\n1 round = 1 round_2 + 0\n"
     "1 k = 2 pair + 0\n"},
    {"learn/multicast", NULL,
     "6/0/0 f\n6/0/0 f\n1 k = 1 k_2 + 0\n6/0/0 f\nfixed\nfixed\n6/0/0 f\n1 k = 1 k_2 + 0\n"},
    {"learn/copy", NULL,
     ""},
    {"learn/rowsum", NULL,
     ""},
};

typedef struct { int passed, failed; } Bench;

static void describe(Arena *a, const ThreadFn *fn, bool uses, Buf *out)
{
    LoopPeriods loops = {0};
    periodic_loops(a, fn, &loops);
    for (int i = 0; i < loops.n; i++) {
        const LoopPeriod *p = &loops.at[i];
        if (p->fixed) {
            buf_puts(out, "fixed\n");
            continue;
        }
        if (!p->periodic) {
            buf_printf(out, "NO: %s\n", p->why);
            continue;
        }
        buf_printf(out, "%lld/%lld/%lld", (long long)p->modulus, (long long)p->first,
                   (long long)p->last);
        bool use = uses && p->use_at;
        if (p->conditional || p->data || p->sums || p->few || use) buf_putc(out, ' ');
        buf_printf(out, "%s%s%s%s%s\n", p->conditional ? "w" : "", p->data ? "d" : "",
                   p->sums ? "s" : "", p->few ? "f" : "", use ? "u" : "");
    }
}

static void describe_pairs(Arena *a, const ThreadFn *fn, Buf *out)
{
    LoopMatches matches = {0};
    LoopsAlone alone = {0};
    periodic_matches(a, fn, &matches, &alone);
    for (int i = 0; i < matches.n; i++)
        buf_printf(out, "%lld %s = %lld %s + %lld\n", (long long)matches.at[i].times_a,
                   fn->regs.at[matches.at[i].a->imm].name, (long long)matches.at[i].times_b,
                   fn->regs.at[matches.at[i].b->imm].name, (long long)matches.at[i].plus);
    for (int i = 0; i < alone.n; i++)
        buf_printf(out, "ALONE %s%s%s\n", fn->regs.at[alone.at[i].loop->imm].name,
                   alone.at[i].other ? " " : "",
                   alone.at[i].other ? thread_op[alone.at[i].other->op].name : "");
}

// Line by line; behind "NO: " a part of the reason is enough.
static bool as_expected(const char *found, const char *expect)
{
    while (*expect) {
        size_t n = strcspn(expect, "\n"), m = strcspn(found, "\n");
        if (!found[m]) return false;
        char want[200], line[400];
        snprintf(want, sizeof want, "%.*s", (int)n, expect);
        snprintf(line, sizeof line, "%.*s", (int)m, found);
        if (strncmp(want, "NO: ", 4) ? strcmp(want, line)
                                     : strncmp(line, "NO: ", 4) || !strstr(line, want + 4))
            return false;
        expect += n + 1;
        found += m + 1;
    }
    return !*found;
}

static void check(Bench *b, const char *name, const char *found, const char *expect)
{
    bool right = expect ? as_expected(found, expect)
                        : *found && !strstr(found, "NO: ") && !strstr(found, "ALONE ");
    if (right) {
        b->passed++;
        return;
    }
    b->failed++;
    printf("%s:\n  found:\n%s  expected:\n%s", name, found, expect ? expect : "all periodic\n");
}

static void run_case(Bench *b, const Case *c, bool pair)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf text = {0}, out = {0};
    buf_printf(&text, "%s%s}\n", head, c->body);
    u16 file = diag_add_file(d, c->name, text.s, text.n);
    ThreadModule *m = thread_read(a, expr_pool_new(a, intern_new(a)), d, file, text.s, text.n);
    if (m && pair) describe_pairs(a, m->fns.at[0], &out);
    else if (m) describe(a, m->fns.at[0], true, &out);
    else diag_print(d, &out);
    check(b, c->name, out.s ? out.s : "", c->expect);
    buf_free(&out);
    buf_free(&text);
    arena_free(a);
}

static void run_kernel(Bench *b, const char *root, const Case *c)
{
    Arena *a = arena_new(0);
    Buf text = {0}, out = {0};
    char *path = arena_printf(a, "%s/kernels/%s.co", root, c->name);
    const char *err = file_read(path, &text, 1 << 20);
    Compilation comp = {.path = path, .text = text.s, .text_n = text.n, .until = FORM_THREAD,
                        .arena = a, .diag = diag_new(a)};
    if (err || !pass_compile(&comp)) {
        buf_printf(&out, "%s\n", err ? err : "does not compile");
    } else {
        for (int i = 0; i < comp.thread->fns.n; i++) {
            describe(a, comp.thread->fns.at[i], false, &out);
            describe_pairs(a, comp.thread->fns.at[i], &out);
        }
    }
    check(b, c->name, out.s ? out.s : "", c->expect);
    buf_free(&out);
    buf_free(&text);
    arena_free(a);
}

int main(int argc, char **argv)
{
    Bench b = {0};
    for (int i = 0; i < COUNT(cases); i++) run_case(&b, &cases[i], false);
    for (int i = 0; i < COUNT(pairs); i++) run_case(&b, &pairs[i], true);
    for (int i = 0; i < COUNT(kernels); i++) run_kernel(&b, argc > 1 ? argv[1] : ".", &kernels[i]);
    printf("%d passed, %d failed\n", b.passed, b.failed);
    return b.failed != 0;
}
