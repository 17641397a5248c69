// contest.c - the rounds of a contest: everybody made ready and checked at one size, bursts, turns
// under load, and the same at the next size.
//
// In: rivals behind one record of functions, the sizes, what one turn is. Out: the Bench with every
// sample and reading. Nothing is replaced or left out silently: the first rival that cannot take
// part, or computes something wrong, ends the contest, and the record says so.
#include "../job/parallel.h"
#include "contest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WATCH_MS = 25,      // between readings during a turn: more often would slow launching down
    COOL_LIMIT_S = 900, // a card that does not cool down in that time will not
    TRY_SAMPLES = 20,
};
#define ENERGY_S 0.6   // of launches, so that the counter steps a few times
#define SHORT_MS 0.1   // launches below it are tried by events and by graphs
#define CHECK_WORK 1e9 // multiply-adds of the check by processor: a second

typedef struct {
    const BenchContest *c;
    RtDevice *device;
    Bench *b;
    Diag *diag;
    int size;
    Arena *arena; // of the size
    Job model;    // of the size: arrays on the host, the reference
    JobOptions options;
    double start_ms;           // of the contest
    double size_start_ms;      // of the turns of this size
    int turns_done, turns_due; // of this size
    const char *stopped;       // why; NULL
    bool on_line;              // the progress line is on the terminal
} Run;

static double now_ms(void) { return rt_now_ms(); }

// ---- what is said -------------------------------------------------------------------------------
static void clear_line(Run *r)
{
    if (r->on_line) fputs("\r\033[K", stderr);
    r->on_line = false;
}

// A line that stays: on standard error and in the log.
static void say(Run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(Run *r, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    clear_line(r);
    fprintf(stderr, "%s\n", line);
    if (r->c->log) buf_printf(r->c->log, "%10.3f %s\n", (now_ms() - r->start_ms) / 1e3, line);
}

// What remains: the turns of this size at the speed so far; sizes to come by their work.
static double seconds_left(const Run *r)
{
    if (!r->turns_done) return NAN;
    double one = (now_ms() - r->size_start_ms) / r->turns_done / 1e3;
    double left = one * (r->turns_due - r->turns_done), work = r->b->sizes.at[r->size].work;
    for (int s = r->size + 1; s < r->b->sizes.n && work > 0; s++)
        left += one * r->turns_due * MIN(r->b->sizes.at[s].work / work, 8.0);
    return left;
}

static void progress(Run *r, const char *what, const BenchTurn *t)
{
    if (r->c->log)
        buf_printf(r->c->log, "%10.3f %s %s %s, round %d: %s\n", (now_ms() - r->start_ms) / 1e3,
                   r->b->sizes.at[t->size].label, bench_regime_name[t->regime],
                   r->b->impls.at[t->impl].name, t->round + 1, what);
    if (!r->c->terminal) return;
    double left = seconds_left(r);
    char remains[64] = "";
    if (isfinite(left))
        snprintf(remains, sizeof remains, "; about %d min %02d s left", (int)left / 60,
                 (int)left % 60);
    fprintf(stderr, "\r\033[K%s: %s, round %d of %d, %s: %s (%d of %d turns%s)",
            r->b->sizes.at[t->size].label, bench_regime_name[t->regime], t->round + 1, r->b->rounds,
            r->b->impls.at[t->impl].name, what, r->turns_done, r->turns_due, remains);
    fflush(stderr);
    r->on_line = true;
}

static void stop(Run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void stop(Run *r, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    r->stopped = arena_printf(r->b->arena, "%s", line);
    say(r, "stopped: %s", line);
}

// ---- one turn -----------------------------------------------------------------------------------
static void pause_s(double s)
{
    if (s <= 0) return;
    struct timespec t = {(time_t)s, (long)((s - floor(s)) * 1e9)};
    nanosleep(&t, NULL);
}

// Until the card is as cool as was asked for. What it was is in the reading before the turn.
static void cool_down(Run *r, BenchTurn *t)
{
    double start = now_ms();
    while (r->c->meter && r->b->cool > 0) {
        RtReading now = rt_meter_read(r->c->meter);
        bool cool = !(now.celsius > r->b->cool);
        if (cool || now_ms() - start > COOL_LIMIT_S * 1e3) break;
        char text[64];
        snprintf(text, sizeof text, "cooling down, %.0f C", now.celsius);
        progress(r, text, t);
        pause_s(0.5);
    }
    t->cool_ms = now_ms() - start;
}

// Nothing is known without a meter.
static RtReading read_meter(const Run *r)
{
    if (r->c->meter) return rt_meter_read(r->c->meter);
    return (RtReading){.ms = now_ms(),
                       .sm_mhz = NAN,
                       .memory_mhz = NAN,
                       .watts = NAN,
                       .celsius = NAN,
                       .joules = NAN};
}

// Readings of the span only: what the card did in front of the first sample is not the launch's.
static void keep_readings(Bench *b, BenchTurn *t, const RtReading *all, i64 n, const BenchSpan *s)
{
    for (i64 i = 0; i < n; i++)
        if (all[i].ms >= s->t0 && all[i].ms <= s->t2) vec_push(b->arena, &t->during, all[i]);
}

static bool take_turn(Run *r, int rival, BenchRegime regime, int round)
{
    Bench *b = r->b;
    BenchRival *who = r->c->rivals.at[rival];
    bool burst = regime == BENCH_BURST;
    BenchOrder order = {.idle_s = burst ? b->idle_s : 0,
                        .load_s = burst ? 0 : b->load_s,
                        .min_s = burst || !r->c->meter ? 0 : ENERGY_S,
                        .warmup = burst ? 0 : b->warmup,
                        .repeat = burst ? r->c->burst : b->repeat,
                        .group = b->cold_bytes ? 1 : 0,
                        .method = b->method,
                        .cold_bytes = b->cold_bytes};
    BenchTurn t = {.impl = rival,
                   .size = r->size,
                   .round = round,
                   .regime = (u8)regime,
                   .idle_ms = order.idle_s * 1e3};
    cool_down(r, &t);
    progress(r, "measuring", &t);
    t.before = read_meter(r);
    bool watched = r->c->meter && rt_meter_watch(r->c->meter, WATCH_MS);
    BenchSpan span = {0};
    const char *why = NULL;
    bool ok = who->ops->turn(who, &order, b->arena, &t, &span, &why);
    i64 n = 0;
    RtReading *all = watched ? rt_meter_watch_end(r->c->meter, &n) : NULL;
    keep_readings(b, &t, all, ok ? n : 0, &span);
    free(all);
    t.after = read_meter(r);
    if (!ok) {
        stop(r, "%s at %s: %s", who->impl.name, b->sizes.at[r->size].label,
             why ? why : "no reason given");
        return false;
    }
    vec_push(b->arena, &b->turns, t);
    r->turns_done++;
    return true;
}

static bool take_rounds(Run *r)
{
    int n = r->c->rivals.n;
    r->turns_done = 0;
    r->turns_due = n * r->b->rounds * (r->c->regime[BENCH_BURST] + r->c->regime[BENCH_SUSTAINED]);
    r->size_start_ms = now_ms();
    for (int regime = 0; regime < BENCH_REGIMES; regime++) {
        if (!r->c->regime[regime]) continue;
        for (int round = 0; round < r->b->rounds; round++)
            for (int i = 0; i < n; i++)
                if (!take_turn(r, (round + i) % n, (BenchRegime)regime, round)) return false;
    }
    return true;
}

// ---- made ready and checked ---------------------------------------------------------------------
// Inputs must be what the contract says, and numbers: on others a kernel may be fast or slow for
// reasons that no user has.
static bool inputs_are_finite(Run *r)
{
    for (int i = 0; i < r->model.narrays; i++) {
        const JobArray *a = &r->model.array[i];
        if (!a->has_spec || a->param->kind != PLAN_TENSOR || !dtype_is_float(a->param->type))
            continue;
        i64 bad = data_count_not_finite(a->param->type, a->block + JOB_GUARD, a->count);
        if (!bad) continue;
        diag_error(r->diag, (Loc){0}, NULL, "input %s (%s) has %lld elements that are not finite",
                   a->param->name, a->spec.text, (long long)bad);
        return false;
    }
    return true;
}

// The tensor cores multiply 8-bit operands twice as fast as 16-bit ones, and 32-bit ones half as
// fast.
static double product_rate(const Job *m)
{
    for (int i = 0; i < m->narrays; i++) {
        const PlanParam *p = m->array[i].param;
        if (p->kind == PLAN_TENSOR && p->in && dtype_is_float(p->type))
            return 2.0 / (double)dtype_bytes[p->type];
    }
    return 1;
}

static void describe_size(Run *r)
{
    const Job *m = &r->model;
    BenchSize *s = &r->b->sizes.at[r->size];
    Buf text = {0};
    for (int k = 0; k < m->plan->symbols.n; k++)
        buf_printf(&text, "%s%s=%lld", k ? " " : "", m->plan->symbols.at[k].name,
                   (long long)m->symbol[k]);
    s->text = arena_strndup(r->b->arena, text.n ? text.s : "", text.n);
    buf_free(&text);
    r->b->product_rate = product_rate(m);
    s->bytes = 0;
    for (int i = 0; i < m->narrays; i++)
        if (m->array[i].param->kind == PLAN_TENSOR)
            s->bytes +=
                (double)m->array[i].bytes * (m->array[i].param->in + m->array[i].param->out);
}

static bool open_size(Run *r)
{
    const BenchContest *c = r->c;
    r->arena = arena_new(0);
    r->options = c->job;
    r->options.check_work = CHECK_WORK * parallel_workers();
    r->options.sizes.n = 0;
    const BenchSizeWords *words = &c->sizes.at[r->size];
    for (int i = 0; i < words->n; i++) vec_push(r->arena, &r->options.sizes, words->at[i]);
    r->model = (Job){.options = &r->options,
                     .path = c->model->impl.file,
                     .plan = c->model->plan,
                     .contract = c->model->contract,
                     .arena = r->arena,
                     .diag = r->diag,
                     .narrays = plan_arguments(c->model->plan)};
    Job *m = &r->model;
    if (!job_bind_sizes(m) || !job_find_reference(m)) return false;
    describe_size(r);
    if (!m->reference) {
        diag_error(r->diag, (Loc){0}, "a `check:` line in the contract",
                   "%s names no reference: what is not checked is not measured", m->path);
        return false;
    }
    say(r, "%s: %s", r->b->sizes.at[r->size].label, r->b->sizes.at[r->size].text);
    return job_fill_arrays(m) && inputs_are_finite(r);
}

static void close_size(Run *r)
{
    for (int i = 0; i < r->c->rivals.n; i++) r->c->rivals.at[i]->ops->leave(r->c->rivals.at[i]);
    ref_end(&r->model.job);
    job_free_arrays(&r->model);
    arena_free(r->arena);
}

// The output's block full of NaN, so that what was never written is seen.
static void poison_result(Run *r)
{
    const JobArray *a = r->model.checked;
    bool is_float = dtype_is_float(a->param->type);
    memset(a->result + JOB_GUARD, is_float ? 0xff : JOB_GUARD_BYTE, a->bytes);
}

// Compares the model's result block with the reference. False: wrong, and the contest is over.
static bool compare(Run *r, BenchCase *c, const char *when)
{
    Job *m = &r->model;
    ref_end(&m->job);
    m->job = (RefCase){0};
    if (!job_check(m)) return false;
    const RefResult *f = &m->found;
    const Reference *ref = m->reference;
    BenchSize *s = &r->b->sizes.at[r->size];
    s->flops = ref->flops(&m->job);
    s->work = s->flops > 0 ? s->flops : s->bytes;
    c->elements = f->elements;
    c->checked = f->checked;
    c->rows = f->rows;
    c->rows_checked = f->rows_checked;
    c->wrong = f->wrong + (f->nan && !f->wrong ? f->nan : 0);
    c->worst = f->worst;
    c->allowed_abs = m->tolerance.abs;
    c->allowed_rel = m->tolerance.rel;
    c->reference = arena_printf(r->b->arena, "%s in fp64 on the CPU", ref->name);
    const char *name = r->b->impls.at[c->impl].name;
    c->why = "";
    if (!c->wrong) {
        c->state = BENCH_RIGHT;
        return true;
    }
    c->state = BENCH_WRONG;
    c->why =
        arena_printf(r->b->arena,
                     "%lld of %lld elements that were compared are wrong%s, worst "
                     "error %.3g; %lld of all are not a number",
                     (long long)f->wrong, (long long)f->checked, when, f->worst, (long long)f->nan);
    stop(r, "%s is wrong at %s: %s", name, s->label, c->why);
    return false;
}

static bool enter_rival(Run *r, int rival)
{
    Bench *b = r->b;
    BenchRival *who = r->c->rivals.at[rival];
    vec_push(b->arena, &b->cases,
             ((BenchCase){.impl = rival,
                          .size = r->size,
                          .why = "",
                          .reference = "",
                          .proof = "",
                          .worst = NAN,
                          .compile_ms = NAN,
                          .convert_ms = NAN,
                          .first_ms = NAN,
                          .event_ms = NAN,
                          .graph_ms = NAN}));
    BenchCase *c = &b->cases.at[b->cases.n - 1];
    poison_result(r);
    if (!who->ops->enter(who, &r->model, c, &b->impls.at[rival])) {
        c->why = arena_printf(b->arena, "%s", c->why);
        stop(r, "%s at %s: %s: %s", who->impl.name, b->sizes.at[r->size].label,
             bench_state_name[c->state], c->why);
        return false;
    }
    c->proof = arena_printf(b->arena, "%s", c->proof);
    if (!compare(r, c, "")) return false;
    say(r,
        "  %-12s right, worst error %.2g in %lld of %lld rows; compiled in %.0f ms, first call "
        "%.1f ms",
        who->impl.name, c->worst, (long long)c->rows_checked, (long long)c->rows, c->compile_ms,
        c->first_ms);
    return true;
}

// Median of a few launches by one method; NAN: it cannot.
static double try_method(Run *r, BenchRival *who, BenchMethod method)
{
    BenchOrder o = {.warmup = 3, .repeat = TRY_SAMPLES, .method = method};
    BenchTurn t = {0};
    BenchSpan span;
    const char *why;
    if (!who->ops->turn(who, &o, r->arena, &t, &span, &why)) return NAN;
    return bench_median(r->arena, t.ms.at, t.ms.n);
}

// Events add to a short launch what stands between two, graphs leave out what the host does: where
// both say the same, neither fools us.
static void try_both_methods(Run *r, int rival)
{
    BenchRival *who = r->c->rivals.at[rival];
    BenchCase *c = &r->b->cases.at[r->b->cases.n - r->c->rivals.n + rival];
    if (!r->device->ops->queues) return;
    double event = try_method(r, who, BENCH_EVENT);
    if (!(event < SHORT_MS)) return;
    c->event_ms = event;
    c->graph_ms = try_method(r, who, BENCH_GRAPH);
}

// What was timed must still be right after the last launch.
static bool check_again(Run *r)
{
    for (int i = 0; i < r->c->rivals.n; i++) {
        BenchRival *who = r->c->rivals.at[i];
        if (!who->ops->again) continue;
        poison_result(r);
        BenchCase *c = &r->b->cases.at[r->b->cases.n - r->c->rivals.n + i];
        if (!who->ops->again(who) || !compare(r, c, " after the last round")) return false;
    }
    return true;
}

static bool run_size(Run *r)
{
    bool ok = open_size(r);
    for (int i = 0; ok && i < r->c->rivals.n; i++) ok = enter_rival(r, i);
    for (int i = 0; ok && i < r->c->rivals.n; i++) try_both_methods(r, i);
    ok = ok && take_rounds(r) && check_again(r);
    clear_line(r);
    close_size(r);
    return ok;
}

// ---- the contest --------------------------------------------------------------------------------
int bench_contest(const BenchContest *c, RtDevice *device, Bench *b, Diag *d)
{
    Run r = {.c = c, .device = device, .b = b, .diag = d, .start_ms = now_ms()};
    for (int i = 0; i < c->rivals.n; i++) vec_push(b->arena, &b->impls, c->rivals.at[i]->impl);
    for (int s = 0; s < c->sizes.n; s++)
        vec_push(b->arena, &b->sizes, ((BenchSize){.text = "", .label = c->labels.at[s]}));
    if (b->cache == BENCH_COLD) b->cold_bytes = 2 * MAX(device->l2_bytes, (i64)0) + (1 << 20);
    bool ok = true;
    for (r.size = 0; ok && r.size < c->sizes.n; r.size++) {
        ok = run_size(&r);
        b->seconds = (now_ms() - r.start_ms) / 1e3;
        bool last = r.size + 1 == c->sizes.n;
        b->incomplete = !ok     ? r.stopped ? r.stopped : "an error, see the messages"
                        : !last ? "it is still running, or was ended from outside"
                                : NULL;
        bench_warn(b);
        if (c->keep) c->keep(c->keep_ctx, b);
    }
    return ok ? EXIT_RIGHT : diag_errors(d) ? EXIT_INPUT : EXIT_WRONG;
}
