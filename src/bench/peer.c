// peer.c - requests to bench/peers.py and what it answers, one JSON object a line. A refusal of the
// script is passed on in its own words; an answer that lacks something, or has nonsense in it, ends
// the process: nobody knows what the next line would be.
#include "peer.h"
#include "../json/json.h"
#include "child.h"

#include <math.h>
#include <string.h>

const char *const peer_status_name[PEER_STATES] = {
    "ok", "missing", "wrong_use", "failed", "degraded", "gone",
};

static const double bye_s = 5; // that it may take to end

// ---- one request --------------------------------------------------------------------------------

typedef struct {
    Buf text;
    JsonWriter w;
} Request;

static void request_begin(Request *r, const char *what, const char *backend)
{
    *r = (Request){0};
    r->w.out = &r->text;
    json_begin(&r->w, NULL, '{', true);
    json_put_text(&r->w, "do", what);
    if (backend) json_put_text(&r->w, "backend", backend);
}

// The first error in words, without the lines of the text that it stands in.
static const char *first_error(Arena *a, const Diag *d)
{
    Buf b = {0};
    diag_print(d, &b);
    const char *error = b.n ? strstr(b.s, "error: ") : NULL;
    error = error ? error + 7 : "no JSON";
    char *out = arena_strndup(a, error, strcspn(error, "\n"));
    buf_free(&b);
    return out;
}

static PeerStatus nonsense(Peers *p, const Diag *d, const char **why)
{
    *why = child_blame(p->child, "%s gave an answer that makes no sense: %s", p->script,
                       first_error(p->arena, d));
    return PEER_GONE;
}

// After the answer's fields were looked up: were all of them there?
static PeerStatus checked(Peers *p, const JsonValue *answer, const Diag *d, const char **why)
{
    return json_failed(answer) ? nonsense(p, d, why) : PEER_OK;
}

// Sends the request, which ends here, and reads the answer. On PEER_OK *out is an object whose
// lookups report to *d.
static PeerStatus ask(Peers *p, Request *r, double limit_s, const JsonValue **out, Diag **d,
                      const char **why)
{
    json_end(&r->w);
    char *line = arena_strndup(p->arena, r->text.s, strcspn(r->text.s, "\n"));
    buf_free(&r->text);
    const char *text = child_ask(p->child, line, limit_s, why);
    if (!text) return PEER_GONE;
    *d = diag_new(p->arena);
    JsonValue *answer = json_read(p->arena, "answer", text, strlen(text), *d);
    if (!answer) return nonsense(p, *d, why);
    *out = answer;
    bool ok = json_get_bool(answer, "ok");
    if (ok || json_failed(answer)) return checked(p, answer, *d, why);
    int kind = json_get_choice(answer, "kind", peer_status_name + PEER_MISSING,
                               PEER_GONE - PEER_MISSING);
    const char *words = json_get_text(answer, "why");
    if (json_failed(answer)) return nonsense(p, *d, why);
    *why = words;
    return (PeerStatus)(PEER_MISSING + kind);
}

// ---- opening and closing ------------------------------------------------------------------------

static PeerStatus hello(Peers *p, int gpu, const char **why)
{
    Request r;
    const JsonValue *answer;
    Diag *d;
    request_begin(&r, "hello", NULL);
    json_put_integer(&r.w, "gpu", gpu);
    PeerStatus s = ask(p, &r, p->limit_s, &answer, &d, why);
    if (s) return s;
    const JsonValue *versions = json_get_object(answer, "versions");
    const JsonValue *backends = json_get_object(answer, "backends");
    for (int i = 0; i < versions->n; i++) {
        BenchVersion v = {versions->keys[i], json_get_text(versions, versions->keys[i])};
        vec_push(p->arena, &p->versions, v);
    }
    for (int i = 0; i < backends->n; i++) {
        PeerBackend b = {backends->keys[i], json_get_text(backends, backends->keys[i])};
        vec_push(p->arena, &p->backends, b);
    }
    return checked(p, answer, d, why);
}

Peers *peers_open(Arena *a, const PeerOptions *o, const char **why)
{
    Peers *p = ARENA_NEW(a, Peers);
    const char *argv[] = {o->python ? o->python : "python3", o->script, NULL};
    *p = (Peers){.arena = a, .script = o->script, .limit_s = o->limit_s > 0 ? o->limit_s : 600};
    *why = NULL;
    p->child = child_start(a, argv, o->log, why);
    if (!p->child) return NULL;
    if (!hello(p, o->gpu, why)) return p;
    child_end(p->child, bye_s);
    return NULL;
}

void peers_close(Peers *p)
{
    if (!p) return;
    const char *why;
    child_ask(p->child, "{\"do\": \"bye\"}", bye_s, &why);
    child_end(p->child, bye_s);
}

const PeerBackend *peers_backend(const Peers *p, const char *name)
{
    for (int i = 0; i < p->backends.n; i++)
        if (strcmp(p->backends.at[i].name, name) == 0) return &p->backends.at[i];
    return NULL;
}

// ---- the job ------------------------------------------------------------------------------------

static void put_tensor(JsonWriter *w, const char *key, const PeerTensor *t)
{
    json_begin(w, key, '{', true);
    json_put_text(w, "name", t->name);
    json_put_text(w, "type", dtype_name[t->type]);
    json_begin(w, "dim", '[', true);
    for (int i = 0; i < t->rank; i++) json_put_integer(w, NULL, t->dim[i]);
    json_end(w);
    if (t->file) json_put_text(w, "file", t->file);
    json_end(w);
}

PeerStatus peers_job(Peers *p, const PeerJob *j, const char **why)
{
    Request r;
    const JsonValue *answer;
    Diag *d;
    request_begin(&r, "open", NULL);
    json_put_text(&r.w, "op", j->op);
    for (int i = 0; i < j->nflags; i++)
        json_put_bool(&r.w, j->flags[i].name, j->flags[i].value);
    json_begin(&r.w, "sizes", '{', true);
    for (int i = 0; i < j->nsizes; i++)
        json_put_integer(&r.w, j->sizes[i].name, j->sizes[i].value);
    json_end(&r.w);
    json_begin(&r.w, "tensors", '[', true);
    for (int i = 0; i < j->ntensors; i++) put_tensor(&r.w, NULL, &j->tensors[i]);
    json_end(&r.w);
    put_tensor(&r.w, "result", &j->result);
    return ask(p, &r, p->limit_s, &answer, &d, why);
}

PeerStatus peers_prepare(Peers *p, const char *backend, BenchCase *c, BenchImpl *impl,
                         const char **why)
{
    Request r;
    const JsonValue *answer;
    Diag *d;
    request_begin(&r, "prepare", backend);
    PeerStatus s = ask(p, &r, p->limit_s, &answer, &d, why);
    if (!s) {
        c->compile_ms = json_get_number(answer, "compile_ms");
        c->convert_ms = json_get_number(answer, "convert_ms");
        c->first_ms = json_get_number(answer, "first_ms");
        c->proof = json_get_text(answer, "proof");
        impl->label = json_get_text(answer, "label");
        impl->source_sha256 = json_get_text(answer, "source");
        impl->code_sha256 = json_get_text(answer, "code");
        s = checked(p, answer, d, why);
    }
    if (s) {
        c->state = s == PEER_MISSING ? BENCH_MISSING : BENCH_FAILED;
        c->why = *why;
    }
    return s;
}

PeerStatus peers_result(Peers *p, const char *backend, const char *file, const char **why)
{
    Request r;
    const JsonValue *answer;
    Diag *d;
    request_begin(&r, "result", backend);
    json_put_text(&r.w, "file", file);
    return ask(p, &r, p->limit_s, &answer, &d, why);
}

// ---- turns --------------------------------------------------------------------------------------

static void put_order(JsonWriter *w, const BenchOrder *o)
{
    json_put_integer(w, "warmup", o->warmup);
    json_put_number(w, "load_s", o->load_s);
    json_put_number(w, "idle_s", o->idle_s);
    json_put_integer(w, "repeat", o->repeat);
    json_put_integer(w, "group", o->group);
    json_put_text(w, "method", o->method == BENCH_GRAPH ? "graph" : "event");
    json_put_integer(w, "cold_bytes", o->cold_bytes);
    json_put_number(w, "min_s", o->min_s);
}

// The samples into the turn; what is no time, or not as many as were ordered, is an error.
static void read_samples(const JsonValue *answer, const BenchOrder *o, Arena *a, BenchTurn *t)
{
    const JsonValue *ms = json_get_list(answer, "ms");
    if (!json_failed(answer) && ms->n != o->repeat)
        json_error(ms, NULL, "%d samples instead of %d", ms->n, o->repeat);
    for (int i = 0; i < ms->n && !json_failed(answer); i++) {
        double x = json_get_number_at(ms, i);
        if (!(x >= 0)) json_error(ms, NULL, "sample %d is no time", i);
        vec_push(a, &t->ms, x);
    }
    t->group = (int)json_get_integer(answer, "group");
    if (!json_failed(answer) && (t->group < 1 || (o->group && t->group != o->group)))
        json_error(answer, NULL, "samples of %d launches", t->group);
}

PeerStatus peers_turn(Peers *p, const char *backend, const BenchOrder *o, Arena *a, BenchTurn *t,
                      BenchSpan *span, const char **why)
{
    Request r;
    const JsonValue *answer;
    Diag *d;
    request_begin(&r, "turn", backend);
    put_order(&r.w, o);
    double limit = p->limit_s + o->idle_s + o->load_s + o->min_s;
    PeerStatus s = ask(p, &r, limit, &answer, &d, why);
    if (s) return s;
    t->ms.n = 0;
    read_samples(answer, o, a, t);
    t->host_ms = json_get_number(answer, "host_ms");
    t->host_bound = json_get_bool(answer, "host_bound");
    t->load_ms = json_get_number(answer, "load_ms");
    span->t0 = json_get_number(answer, "t0");
    span->t1 = json_get_number(answer, "t1");
    span->t2 = json_get_number(answer, "t2");
    if (!json_failed(answer) && !(span->t0 <= span->t1 && span->t1 <= span->t2))
        json_error(answer, NULL, "samples from %g to %g and an end at %g ms", span->t0, span->t1,
                   span->t2);
    return checked(p, answer, d, why);
}
