// json.c - Chrome's trace event format: tracks in four groups, complete events, flow arrows.
//
// https://perfetto.dev and chrome://tracing open it. Groups are shown as processes, lanes as their
// threads. Arrows begin and end inside an event, so they stand half a unit in front of its end.
#include "../json/json.h"
#include "impl.h"
#include "write.h"

static const char *const group_name[LANE_KINDS] = {"roles", "copy unit", "tensor cores",
                                                   "slots of shared memory"};

typedef struct {
    Arena *arena;          // of the texts, freed at the end
    const Trace *trace;
    const TraceTitle *title;
    JsonWriter w;
} Json;

static void begin_event(Json *j, const char *ph, const char *name, int lane)
{
    json_begin(&j->w, NULL, '{', true);
    json_put_text(&j->w, "ph", ph);
    json_put_text(&j->w, "name", name);
    json_put_integer(&j->w, "pid", j->trace->lanes.at[lane].kind + 1);
    json_put_integer(&j->w, "tid", lane + 1);
}

static void put_name(Json *j, int lane, const char *what, const char *name, i64 order)
{
    begin_event(j, "M", what, lane);
    json_begin(&j->w, "args", '{', true);
    if (name) json_put_text(&j->w, "name", name);
    else json_put_integer(&j->w, "sort_index", order);
    json_end(&j->w);
    json_end(&j->w);
}

static void put_names(Json *j)
{
    int last = -1;
    for (int i = 0; i < j->trace->lanes.n; i++) {
        const TraceLane *l = &j->trace->lanes.at[i];
        if (l->kind != last) {
            put_name(j, i, "process_name", group_name[l->kind], 0);
            put_name(j, i, "process_sort_index", NULL, l->kind);
        }
        last = l->kind;
        put_name(j, i, "thread_name",
                 l->what ? arena_printf(j->arena, "%s: %s", l->name, l->what) : l->name, 0);
        put_name(j, i, "thread_sort_index", NULL, i);
    }
}

static void put_line(Json *j, const char *key, const ThreadOp *op)
{
    if (!op || !op->loc.line) return;
    const char *file = j->title->diag ? diag_file_name(j->title->diag, op->loc.file) : "?";
    json_put_text(&j->w, key, arena_printf(j->arena, "%s:%u", file, op->loc.line));
}

static const char *readers(Json *j, i64 warps)
{
    Buf b = {0};
    for (int w = 0; w < TRACE_MAX_WARPS; w++)
        if (warps >> w & 1) buf_printf(&b, "%s%d", b.n ? " " : "", w);
    const char *s = b.n ? arena_strndup(j->arena, b.s, b.n) : "";
    buf_free(&b);
    return s;
}

static void put_span(Json *j, int lane, const TraceSpan *s)
{
    begin_event(j, "X", trace_span_text(j->arena, s), lane);
    json_put_text(&j->w, "cat", trace_span_name[s->kind]);
    json_put_integer(&j->w, "ts", s->begin);
    json_put_integer(&j->w, "dur", s->end - s->begin);
    json_begin(&j->w, "args", '{', true);
    put_line(j, "line", s->op);
    if (s->kind == SPAN_WORK) put_line(j, "to", s->upto);
    if (s->generation != TRACE_UNKNOWN) json_put_integer(&j->w, "generation", s->generation);
    if (s->kind == SPAN_LOAD || s->kind == SPAN_STORE) json_put_integer(&j->w, "bytes", s->n);
    if (s->kind == SPAN_PRODUCT) json_put_integer(&j->w, "wgmma", s->n);
    if (s->kind == SPAN_READING) json_put_text(&j->w, "warps", readers(j, s->n));
    if (s->kind <= SPAN_STALL) json_put_integer(&j->w, "round", s->round);
    if (s->latest) json_put_bool(&j->w, "end_known_at_latest", true);
    json_end(&j->w);
    json_end(&j->w);
}

static void put_arrow(Json *j, const TraceArrow *a, int id)
{
    static const char *const names[] = {"bytes are there", "slot is free", "arrival"};
    for (int end = 0; end < 2; end++) {
        begin_event(j, end ? "f" : "s", names[a->kind], end ? a->to_lane : a->from_lane);
        json_put_text(&j->w, "cat", "handoff");
        json_put_integer(&j->w, "id", id);
        json_put_number(&j->w, "ts", (double)(end ? a->to : a->from) - 0.5);
        if (end) json_put_text(&j->w, "bp", "e");
        json_end(&j->w);
    }
}

static void put_other(Json *j)
{
    const TraceLog *log = j->trace->log;
    json_begin(&j->w, "otherData", '{', false);
    json_put_text(&j->w, "kernel", log->fn->name);
    json_put_text(&j->w, "file", j->title->file);
    json_put_text(&j->w, "sizes", j->title->sizes);
    json_put_text(&j->w, "device", log->device);
    json_put_text(&j->w, "unit", trace_unit_name[log->unit]);
    json_put_text(&j->w, "cta", arena_printf(j->arena, "%lld,%lld,%lld", (long long)log->cta[0],
                                             (long long)log->cta[1], (long long)log->cta[2]));
    if (log->note) json_put_text(&j->w, "note", log->note);
    if (log->slowdown > 0) json_put_number(&j->w, "slowdown", log->slowdown);
    if (log->lost) json_put_integer(&j->w, "lost_records", log->lost);
    json_end(&j->w);
}

void trace_json(const Trace *t, const TraceTitle *title, Buf *out)
{
    Json j = {.arena = arena_new(0), .trace = t, .title = title, .w = {.out = out}};
    json_begin(&j.w, NULL, '{', false);
    json_put_text(&j.w, "displayTimeUnit", "ns");
    put_other(&j);
    json_begin(&j.w, "traceEvents", '[', false);
    put_names(&j);
    for (int i = 0; i < t->lanes.n; i++)
        for (int k = 0; k < t->lanes.at[i].spans.n; k++)
            put_span(&j, i, &t->lanes.at[i].spans.at[k]);
    for (int i = 0, id = 0; i < t->arrows.n; i++)
        if (t->arrows.at[i].waited) put_arrow(&j, &t->arrows.at[i], ++id);
    json_end(&j.w);
    json_end(&j.w);
    arena_free(j.arena);
}
