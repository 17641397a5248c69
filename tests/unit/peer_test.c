// peer_test.c - the process that speaks for other implementations, played by fake_peers.py: what it
// answers arrives, and what can go wrong with it is a sentence that says so.
//
//     peer_test [path of fake_peers.py]     (default: tests/bench/fake_peers.py)
#include "../../src/bench/child.h"
#include "../../src/bench/peer.h"
#include "../../src/json/json.h"
#include "../../rt/rt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int passed, failed;
    const char *script;
    Arena *arena;
    Buf log;
} Test;

static void expect(Test *t, bool ok, const char *what, const char *detail)
{
    t->passed += ok;
    t->failed += !ok;
    if (!ok) printf("FAILED %s: %s\n", what, detail ? detail : "(nothing)");
}

static void expect_why(Test *t, bool failed, const char *why, const char *sentence)
{
    expect(t, failed && why && strstr(why, sentence), sentence, why);
}

static Peers *open_fake(Test *t, int gpu, const char **why)
{
    PeerOptions o = {.script = t->script, .gpu = gpu, .limit_s = 20, .log = &t->log};
    return peers_open(t->arena, &o, why);
}

static const BenchOrder order = {.warmup = 5, .repeat = 4, .group = 2, .load_s = 0.25};

static void test_open(Test *t)
{
    const char *why = "";
    Peers *p = open_fake(t, 0, &why);
    expect(t, p && !why, "the process says hello", why);
    if (!p) return;
    expect(t, p->versions.n == 2 && !strcmp(p->versions.at[1].name, "PyTorch") &&
                  !strcmp(p->versions.at[0].version, "3"),
           "versions", NULL);
    const PeerBackend *b = peers_backend(p, "fa3");
    expect(t, b && !strcmp(b->why, "no module flash_attn_interface"), "what cannot be used",
           b ? b->why : NULL);
    expect(t, (b = peers_backend(p, "right")) && !*b->why && !peers_backend(p, "v1"),
           "what can, and what is not known", NULL);
    peers_close(p);
    expect(t, strstr(t->log.s, "-> {\"do\": \"hello\", \"gpu\": 0}\n<- {\"ok\": true,") &&
                  strstr(t->log.s, "-> {\"do\": \"bye\"}\n<- {\"ok\": true}\n"),
           "all that is said is logged", t->log.s);
    peers_close(NULL);
}

static void test_not_open(Test *t)
{
    static const struct {
        int gpu;
        const char *sentence;
    } row[] = {
        {1, "fake_peers.py ended with status 1 instead of an answer; the last it said:\n"
            "no module named nothing"},
        {2, "fake_peers.py gave an answer that makes no sense: "},
        {3, "fake_peers.py gave an answer that makes no sense: "},
        {4, "no GPU 4 here"},
    };
    const char *why;
    for (int i = 0; i < COUNT(row); i++) {
        Peers *p = open_fake(t, row[i].gpu, &why);
        expect_why(t, !p, why, row[i].sentence);
    }
    PeerOptions o = {.python = "/nowhere/python3", .script = t->script};
    Peers *p = peers_open(t->arena, &o, &why);
    expect_why(t, !p, why, "cannot start /nowhere/python3: No such file or directory");
    o = (PeerOptions){.script = "tests/bench/no_such_peers.py"};
    p = peers_open(t->arena, &o, &why);
    expect_why(t, !p, why, "no_such_peers.py ended with status 2");
}

// A scratch file with its name in *path.
static bool scratch(Test *t, const char *text, char **path)
{
    *path = arena_printf(t->arena, "/tmp/peer_test.XXXXXX");
    int fd = mkstemp(*path);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return ok;
}

static void test_job(Test *t, Peers *p)
{
    char *in, *out;
    const char *why = NULL;
    if (!scratch(t, "0123456789abcdef", &in) || !scratch(t, "", &out)) return;
    PeerStatus s = peers_result(p, "right", out, &why);
    expect_why(t, s == PEER_WRONG_USE, why, "no tensors are open");
    PeerTensor q = {.name = "q", .file = in, .type = DT_BF16, .rank = 2, .dim = {2, 4}};
    PeerJob job = {.op = "attention", .nflags = 1, .flags = {{"causal", true}}, .nsizes = 1,
                   .sizes = {{"S", 2}}, .ntensors = 1, .tensors = &q,
                   .result = {.name = "o", .type = DT_F32, .rank = 1, .dim = {4}}};
    s = peers_job(p, &job, &why);
    expect(t, !s && !why, "a job is opened", why);
    s = peers_result(p, "right", out, &why);
    Buf got = {0};
    const char *unread = file_read(out, &got, 100);
    expect(t, !s && !unread && got.n == 16 && !memcmp(got.s, "0123456789abcdef", 16),
           "the result is in the file", why);
    buf_free(&got);
    // What it prints on its standard error comes into the log with the next answer.
    expect(t, strstr(t->log.s, "attention; True; {'S': 2}; q bf16 [2, 4]; o f32 [4]\n"),
           "the job arrived whole", t->log.s);
    unlink(in);
    unlink(out);
}

static void test_prepare(Test *t, Peers *p)
{
    const char *why = NULL;
    BenchCase c = {0};
    BenchImpl impl = {.name = "right"};
    PeerStatus s = peers_prepare(p, "right", &c, &impl, &why);
    expect(t, !s && c.compile_ms == 12.5 && c.convert_ms == 0 && c.first_ms == 3.25 &&
                  c.state == BENCH_NOT_TRIED && !strcmp(c.proof, "kernel fake_fwd"),
           "what preparing took", why);
    expect(t, !s && !strcmp(impl.label, "Fake 1.0") && strlen(impl.source_sha256) == 64 &&
                  !*impl.code_sha256,
           "what it is", impl.label);
    s = peers_prepare(p, "missing", &c, &impl, &why);
    expect_why(t, s == PEER_MISSING && c.state == BENCH_MISSING, c.why,
               "no module flash_attn_interface");
    s = peers_prepare(p, "degraded", &c, &impl, &why);
    expect_why(t, s == PEER_DEGRADED && c.state == BENCH_FAILED, c.why, "no specialised warps");
}

static void test_turn(Test *t, Peers *p)
{
    const char *why = NULL;
    BenchTurn turn = {0};
    BenchSpan span;
    PeerStatus s = peers_turn(p, "right", &order, t->arena, &turn, &span, &why);
    expect(t, !s && turn.ms.n == 4 && turn.ms.at[0] == 1 && turn.ms.at[3] == 1.75, "samples", why);
    expect(t, turn.group == 2 && turn.host_ms == 0.5 && !turn.host_bound && turn.load_ms == 250 &&
                  span.t0 == 1000.5 && span.t1 == 1002 && span.t2 == 1003,
           "and what is said of them", NULL);
    BenchOrder other = {.repeat = 2, .group = 0};
    s = peers_turn(p, "right", &other, t->arena, &turn, &span, &why);
    expect(t, !s && turn.ms.n == 2 && turn.group == 7 && turn.host_bound,
           "a group of its own choice", why);
    other.method = BENCH_GRAPH;
    other.cold_bytes = 1 << 20;
    s = peers_turn(p, "right", &other, t->arena, &turn, &span, &why);
    expect_why(t, s == PEER_WRONG_USE, why, "a graph cannot be timed with a cold cache");
}

static void test_well(Test *t)
{
    const char *why;
    Peers *p = open_fake(t, 0, &why);
    expect(t, p, "the process says hello", why);
    if (!p) return;
    test_job(t, p);
    test_prepare(t, p);
    test_turn(t, p);
    peers_close(p);
}

// A process that is lost: the reason, and the same reason for ever.
static void expect_gone(Test *t, const char *backend, double limit_s, const char *sentence)
{
    const char *why, *again;
    BenchTurn turn = {0};
    BenchSpan span;
    Peers *p = open_fake(t, 0, &why);
    expect(t, p, "the process says hello", why);
    if (!p) return;
    double start = rt_now_ms();
    p->limit_s = limit_s;
    BenchOrder o = order;
    o.load_s = 0;
    PeerStatus s = peers_turn(p, backend, &o, t->arena, &turn, &span, &why);
    // An answer behind the answer is seen by the next request.
    if (!strcmp(backend, "twice") && !s) {
        usleep(200000);
        s = peers_turn(p, "right", &o, t->arena, &turn, &span, &why);
    }
    expect_why(t, s == PEER_GONE, why, sentence);
    s = peers_turn(p, "right", &o, t->arena, &turn, &span, &again);
    expect(t, s == PEER_GONE && why && again && !strcmp(why, again), "and it stays away", again);
    expect(t, rt_now_ms() - start < 10000, "within the limit of time", backend);
    peers_close(p);
}

static void test_gone(Test *t)
{
    expect_gone(t, "dies", 20, "ended with status 3 instead of an answer; the last it said:\n"
                               "line 12\nline 13\nline 14\nline 15\nline 16\nline 17\nline 18\n"
                               "line 19");
    expect_gone(t, "killed", 20, "was ended by signal 6 (Aborted)");
    expect_gone(t, "hangs", 0.5, "gave no answer within 0.5 s to {\"do\": \"turn\", \"backend\": "
                                 "\"hangs\", \"warmup\": 5, \"load_s\": 0, \"idle_s\": 0, "
                                 "\"repea...; the last it said:\nstill compiling");
    expect_gone(t, "garbage", 20, "gave an answer that makes no sense: ");
    expect_gone(t, "lacks", 20, "gave an answer that makes no sense: ");
    expect_gone(t, "short", 20, "3 samples instead of 4");
    expect_gone(t, "negative", 20, "sample 1 is no time");
    expect_gone(t, "other", 20, "samples of 3 launches");
    // Its first answer lacks all fields, or, were it right, the second would be in the way.
    expect_gone(t, "twice", 20, "gave an answer that makes no sense: ");
}

// The layer below, with programs of every machine.
static void test_child(Test *t)
{
    const char *why;
    Child *c = child_start(t->arena, (const char *const[]){"cat", NULL}, NULL, &why);
    const char *answer = child_ask(c, "to and fro", 20, &why);
    expect(t, answer && !strcmp(answer, "to and fro"), "a line there and back", why);
    char *big = arena_alloc(t->arena, 50001);
    memset(big, 'x', 50000);
    answer = child_ask(c, big, 20, &why);
    expect(t, answer && !strcmp(answer, big), "a long line", why);
    expect(t, child_end(c, 20), "the end of its input ends it", NULL);

    const char *const talks[] = {"sh", "-c", "echo one; echo two; read x", NULL};
    c = child_start(t->arena, talks, NULL, &why);
    usleep(200000);
    answer = child_ask(c, "?", 20, &why);
    expect_why(t, !answer, why, "printed what nobody asked for: \"one two \"");
    expect(t, !child_end(c, 20), "which is no good end", NULL);

    // Its own children do not keep it from being over, and do not outlive it.
    const char *const leaves[] = {"sh", "-c", "sleep 1000 & read x; exit 4", NULL};
    c = child_start(t->arena, leaves, NULL, &why);
    double start = rt_now_ms();
    answer = child_ask(c, "?", 20, &why);
    expect_why(t, !answer, why, "sh ended with status 4 instead of an answer");
    expect(t, rt_now_ms() - start < 10000, "an end with children that go on", NULL);
    child_end(c, 20);

    c = child_start(t->arena, (const char *const[]){"sh", "-c", "sleep 1000", NULL}, NULL, &why);
    start = rt_now_ms();
    expect(t, !child_end(c, 0.1) && rt_now_ms() - start < 10000, "who does not end is ended", NULL);
    expect(t, child_end(NULL, 1), "nothing ends well", NULL);
}

int main(int argc, char **argv)
{
    Test t = {.script = argc > 1 ? argv[1] : "tests/bench/fake_peers.py", .arena = arena_new(0)};
    test_child(&t);
    Diag *d = diag_new(t.arena);
    if (json_read(t.arena, "line", "1", 1, d)) {
        test_open(&t);
        test_not_open(&t);
        test_well(&t);
        test_gone(&t);
    } else {
        const char *why;
        Peers *p = open_fake(&t, 0, &why);
        expect_why(&t, !p, why, "built without libjansson");
    }
    buf_free(&t.log);
    arena_free(t.arena);
    printf("peer: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
