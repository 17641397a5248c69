// svg.c - the timeline as a picture one page wide: roles, the copy unit, the tensor cores, slots.
//
// In: spans and a window of time. Out: SVG of shapes and text alone, with classes for kinds, so
// that it stays small and can be restyled. Text stands in a span when it fits, the shortest form
// that says it; longer forms are tooltips.
#include "impl.h"
#include "write.h"

#include <stdio.h>
#include <string.h>

enum {
    // Pixels.
    WIDTH = 1000, LEFT = 124, RIGHT = 44, PLOT = WIDTH - LEFT - RIGHT, TOP = 52, SECTION = 22,
    GAP = 4, BOTTOM = 22, MOST_ROWS = 80, // lanes beyond that are not drawn
};

static const struct {
    const char *title;
    int height;
} section[LANE_KINDS] = {
    [LANE_ROLE] = {"roles", 30},
    [LANE_COPY] = {"copy unit: bulk copies in flight", 15},
    [LANE_TENSOR] = {"tensor cores: products in flight", 21},
    [LANE_SLOT] = {"slots of shared memory, by generation", 17},
};

//  kind            class  in legends
static const struct {
    const char *class, *legend;
} look[SPAN_KINDS] = {
    [SPAN_WORK] = {"w", "works (source lines)"},
    [SPAN_ISSUE] = {"i", "issues copies, products"},
    [SPAN_STALL] = {"s", "waits for"},
    [SPAN_LOAD] = {"l", "load"},
    [SPAN_STORE] = {"o", "store"},
    [SPAN_PRODUCT] = {"p", "product"},
    [SPAN_FILLING] = {"f", "slot being filled"},
    [SPAN_FULL] = {"u", "full"},
    [SPAN_READING] = {"r", "being read"},
    [SPAN_FREE] = {"e", "free"},
};

static const char style[] =
    "text{font-family:Helvetica,Arial,sans-serif;font-size:10px;fill:#333}"
    ".t{font-size:15px;font-weight:bold;fill:#222}.d{fill:#666}"
    ".h{font-size:10px;fill:#888;font-weight:bold}.n{font-weight:bold}"
    ".x{fill:#fff}.y{fill:#9c3d28}.z{fill:#4d3a10}.v{fill:#173f22}.k{text-anchor:end;fill:#888}"
    ".m{text-anchor:middle}"
    ".w{fill:#6f9fd2}.i{fill:#24476b}.s{fill:url(#q)}.l{fill:#f2a93b}.o{fill:#a678b8}"
    ".p{fill:#3d9657;stroke:#fff;stroke-width:.7}.f{fill:#fbd894}.u{fill:#d4ead6}.r{fill:#86c796}"
    ".e{fill:#fff;stroke:#ddd;stroke-width:.6}"
    ".g{stroke:#e6e6e6;stroke-width:1}.b{fill:#f7f7f7}"
    ".a{fill:none;stroke-width:1.1;opacity:.75}"
    ".a0{stroke:#c97a0a}.a1{stroke:#2c7a45}.a2{stroke:#777}";

typedef struct {
    Arena *arena;
    const Trace *trace;
    const TraceTitle *title;
    TraceWindow window;
    Buf *out;
    int rows, row[MOST_ROWS]; // lanes that are drawn, and their tops
    double y[MOST_ROWS];
    double bottom;         // of the last lane
} Page;

// ---- text ---------------------------------------------------------------------------------------

static void put_escaped(Buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '&') buf_puts(out, "&amp;");
        else if (*s == '<') buf_puts(out, "&lt;");
        else if (*s == '>') buf_puts(out, "&gt;");
        else buf_putc(out, *s);
    }
}

// Pixels of a text in the size of spans, in the widest of the usual fonts.
static double width_of(const char *s)
{
    double wide = 0;
    for (; *s; s++) {
        if (((u8)*s & 0xc0) == 0x80) continue;
        wide += strchr(" .,:;'ijl()[]tfr", *s) ? 3.9 : strchr("mwMW", *s) ? 9 : 6.3;
    }
    return wide;
}

static void put_text(const Page *p, double x, double y, const char *class, const char *s)
{
    buf_printf(p->out, "<text x='%.1f' y='%.1f'", x, y);
    if (*class) buf_printf(p->out, " class='%s'", class);
    buf_putc(p->out, '>');
    put_escaped(p->out, s);
    buf_puts(p->out, "</text>\n");
}

static double x_of(const Page *p, i64 time)
{
    double span = (double)MAX(p->window.to - p->window.from, (i64)1);
    double at = (double)(time - p->window.from) / span;
    return LEFT + PLOT * (at < 0 ? 0 : at > 1 ? 1 : at);
}

// Behind the product's sign: "q_s x k_s[1]" of "acc_s += q_s x k_s[1]".
static const char *behind(const char *name, const char *sign)
{
    const char *at = name ? strstr(name, sign) : NULL;
    return at ? at + strlen(sign) : NULL;
}

// The longest form that fits into `wide` pixels; NULL.
static const char *fitting(const Page *p, const TraceSpan *s, double wide)
{
    Arena *a = p->arena;
    const char *form[5] = {0};
    int n = 0;
    u32 from = s->op ? s->op->loc.line : 0, to = s->upto ? s->upto->loc.line : 0;
    const char *g = s->generation == TRACE_UNKNOWN || s->kind == SPAN_PRODUCT
                        ? ""
                        : arena_printf(a, " g%lld", (long long)s->generation);
    switch (s->kind) {
    case SPAN_WORK:
        if (!from || !to) return NULL;
        form[n++] = arena_printf(a, from == to ? "line %u" : "lines %u\u2013%u", from, to);
        form[n++] = arena_printf(a, from == to ? "%u" : "%u\u2013%u", from, to);
        break;
    case SPAN_STALL:
        form[n++] = arena_printf(a, "waits for %s%s", s->name, g);
        form[n++] = arena_printf(a, "%s%s", s->name, g);
        form[n++] = behind(s->name, "+= ");
        form[n++] = arena_strndup(a, s->name, strcspn(s->name, " ")); // "acc_s"
        break;
    default:
        form[n++] = arena_printf(a, "%s%s", s->name, g);
        form[n++] = behind(s->name, "+= ");
        form[n++] = behind(s->name, " x ");
        break;
    }
    for (int i = 0; i < n; i++)
        if (form[i] && width_of(form[i]) + 4 <= wide) return form[i];
    return NULL;
}

// ---- spans --------------------------------------------------------------------------------------

static const char *text_class(int kind)
{
    switch (kind) {
    case SPAN_WORK:
    case SPAN_ISSUE:
    case SPAN_STORE:
    case SPAN_PRODUCT: return "x";
    case SPAN_STALL: return "y";
    case SPAN_LOAD: return "z";
    default: return "v";
    }
}

static bool in_window(const Page *p, const TraceSpan *s)
{
    return s->end > p->window.from && s->begin < p->window.to;
}

static void put_span(const Page *p, const TraceLane *l, const TraceSpan *s, double y)
{
    double x = x_of(p, s->begin), wide = x_of(p, s->end) - x, high = section[l->kind].height;
    if (wide < 0.15) return;
    buf_printf(p->out, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.0f' class='%s'", x, y,
               wide < 0.6 ? 0.6 : wide, high, look[s->kind].class);
    if (wide < 2) {
        buf_puts(p->out, "/>\n");
        return;
    }
    buf_puts(p->out, "><title>");
    put_escaped(p->out, trace_span_text(p->arena, s));
    buf_printf(p->out, " (%lld to %lld)</title></rect>\n", (long long)s->begin, (long long)s->end);
    if (l->kind == LANE_SLOT) return;
    const char *text = fitting(p, s, wide);
    if (text) put_text(p, x + 3, y + high / 2 + 3.5, text_class(s->kind), text);
}

// One number for each generation, in its widest part that is not free.
static void put_generations(const Page *p, const TraceLane *l, double y)
{
    const TraceSpan *best = NULL;
    double most = 0;
    for (int i = 0; i <= l->spans.n; i++) {
        const TraceSpan *s = i < l->spans.n ? &l->spans.at[i] : NULL;
        if (best && (!s || s->generation != best->generation)) {
            char g[32];
            snprintf(g, sizeof g, "g%lld", (long long)best->generation);
            double x = (x_of(p, best->begin) + x_of(p, best->end)) / 2;
            if (most >= width_of(g))
                put_text(p, x, y + section[LANE_SLOT].height / 2.0 + 3.5, "m v", g);
            best = NULL;
            most = 0;
        }
        if (!s || s->kind == SPAN_FREE || !in_window(p, s)) continue;
        double wide = x_of(p, s->end) - x_of(p, s->begin);
        if (best && wide <= most) continue;
        best = s;
        most = wide;
    }
}

static double share(i64 time, i64 from, i64 to)
{
    return 100.0 * (double)time / (double)MAX(to - from, (i64)1);
}

// Of one lane; copies have no lanes of their own.
static const char *busy_text(const Page *p, const TraceLane *l)
{
    u32 kinds = l->kind == LANE_ROLE     ? TRACE_BUSY
                : l->kind == LANE_TENSOR ? 1u << SPAN_PRODUCT
                                         : 1u << SPAN_READING;
    i64 from = p->window.from, to = MIN(p->window.to, p->trace->end);
    return arena_printf(p->arena, "%.0f%%", share(trace_lane_time(l, kinds, from, to), from, to));
}

static const TraceLane *lane_of(const Page *p, int row)
{
    return &p->trace->lanes.at[p->row[row]];
}

static void put_lane(const Page *p, int i)
{
    const TraceLane *l = lane_of(p, i);
    double y = p->y[i], high = section[l->kind].height, middle = y + high / 2 + 3.5;
    if (l->what) {
        put_text(p, 8, middle - 6, "n", l->name);
        put_text(p, 8, middle + 6, "d", l->what);
    } else {
        put_text(p, 8, middle, l->kind == LANE_COPY ? "d" : "n", l->name);
    }
    if (l->kind != LANE_SLOT)
        buf_printf(p->out, "<rect x='%d' y='%.1f' width='%d' height='%.0f' class='b'/>\n", LEFT, y,
                   PLOT, high);
    for (int k = 0; k < l->spans.n; k++)
        if (in_window(p, &l->spans.at[k])) put_span(p, l, &l->spans.at[k], y);
    if (l->kind == LANE_SLOT) put_generations(p, l, y);
    if (l->kind != LANE_COPY) put_text(p, WIDTH - 8, middle, "k", busy_text(p, l));
}

// ---- arrows -------------------------------------------------------------------------------------

// From the edge of one lane to the edge of the other, with a head of three strokes.
static void put_arrow(const Page *p, const TraceArrow *a)
{
    if (!a->waited || a->from < p->window.from || a->to > p->window.to) return;
    int from = 0, to = 0;
    while (from < p->rows && p->row[from] != a->from_lane) from++;
    while (to < p->rows && p->row[to] != a->to_lane) to++;
    if (from == p->rows || to == p->rows) return;
    bool up = from > to;
    double y1 = p->y[from] + (up ? 0 : section[lane_of(p, from)->kind].height);
    double y2 = p->y[to] + (up ? section[lane_of(p, to)->kind].height : 0);
    double x1 = x_of(p, a->from), x2 = x_of(p, a->to), tip = up ? 4 : -4;
    buf_printf(p->out,
               "<path class='a a%d' d='M%.1f %.1fL%.1f %.1fm-2.5 %.1fl2.5 %.1fl2.5 %.1f'/>\n",
               a->kind, x1, y1, x2, y2, tip, -tip, tip);
}

// ---- frame --------------------------------------------------------------------------------------

// Tops of lanes, sections one below the other. Copies and slots of another time are left out.
static void place_lanes(Page *p)
{
    double y = TOP;
    int last = -1;
    for (int i = 0; i < p->trace->lanes.n && p->rows < MOST_ROWS; i++) {
        const TraceLane *l = &p->trace->lanes.at[i];
        bool seen = l->kind == LANE_ROLE || l->kind == LANE_TENSOR;
        for (int k = 0; k < l->spans.n; k++)
            seen |= l->spans.at[k].kind != SPAN_FREE && in_window(p, &l->spans.at[k]);
        if (!seen) continue;
        if (l->kind != last) y += SECTION;
        last = l->kind;
        p->row[p->rows] = i;
        p->y[p->rows++] = y;
        y += section[l->kind].height + GAP;
    }
    p->bottom = y;
}

// A step of 1, 2 or 5 times a power of ten that gives some ten ticks.
static i64 tick_step(i64 span)
{
    i64 step = 1;
    while (span / step > 12) {
        if (span / (step * 2) <= 12) return step * 2;
        if (span / (step * 5) <= 12) return step * 5;
        step *= 10;
    }
    return step;
}

// Lines of the grid stand behind lanes only, not behind headings.
static void put_grid(const Page *p, double x)
{
    for (int i = 0, k; i < p->rows; i = k) {
        int kind = lane_of(p, i)->kind;
        for (k = i; k < p->rows && lane_of(p, k)->kind == kind;) k++;
        buf_printf(p->out, "<path d='M%.1f %.1fV%.1f' class='g'/>\n", x, p->y[i] - 2,
                   p->y[k - 1] + section[kind].height + 2);
    }
}

static void put_axis(const Page *p)
{
    i64 step = tick_step(p->window.to - p->window.from);
    for (i64 t = (p->window.from + step - 1) / step * step; t <= p->window.to; t += step) {
        put_grid(p, x_of(p, t));
        put_text(p, x_of(p, t), p->bottom + 11, "m d", trace_commas(p->arena, t));
    }
    put_text(p, 8, p->bottom + 11, "d", trace_unit_name[p->trace->log->unit]);
}

// Above the lanes of a kind: what they are, and how busy all of them together were.
static void put_headings(const Page *p)
{
    int last = -1;
    i64 from = p->window.from, to = MIN(p->window.to, p->trace->end), time;
    for (int i = 0; i < p->rows; i++) {
        int kind = lane_of(p, i)->kind;
        if (kind == last) continue;
        last = kind;
        put_text(p, 8, p->y[i] - 7, "h", section[kind].title);
        const char *text = kind == LANE_SLOT ? "read" : "works";
        if (kind == LANE_COPY || kind == LANE_TENSOR) {
            time = trace_covered(p->trace, kind, kind == LANE_COPY ? TRACE_COPYING
                                                                   : 1u << SPAN_PRODUCT, from, to);
            text = arena_printf(p->arena, "busy %.0f%%", share(time, from, to));
        }
        put_text(p, WIDTH - 8, p->y[i] - 7, "k", text);
    }
}

// Kinds that are there, in a row that is broken where it is full. Returns the y of the last line.
static double put_legend(const Page *p, double y)
{
    u32 there = 0;
    for (int i = 0; i < p->rows; i++)
        for (int k = 0; k < lane_of(p, i)->spans.n; k++)
            if (in_window(p, &lane_of(p, i)->spans.at[k]))
                there |= 1u << lane_of(p, i)->spans.at[k].kind;
    double x = LEFT;
    for (int k = 0; k < SPAN_KINDS; k++) {
        if (!(there >> k & 1)) continue;
        double wide = 15 + width_of(look[k].legend) + 8;
        if (x + wide > WIDTH - 8) {
            x = LEFT;
            y += 16;
        }
        buf_printf(p->out, "<rect x='%.1f' y='%.1f' width='11' height='11' class='%s'/>\n", x,
                   y - 9, look[k].class);
        put_text(p, x + 15, y, "", look[k].legend);
        x += wide;
    }
    return y;
}

static const char *notes(const Page *p, int line)
{
    const TraceLog *log = p->trace->log;
    if (line == 0)
        return "g0, g1, ...: generations of a slot. Arrows: a copy ends a wait (orange), a reader "
               "frees a slot (green), another arrival (grey).";
    return log->note;
}

static void put_title(const Page *p)
{
    const TraceLog *log = p->trace->log;
    Buf b = {0};
    buf_printf(&b, "%s, from %s", log->fn->name, p->title->file);
    put_text(p, 8, 20, "t", b.s);
    b.n = 0;
    if (*p->title->sizes) buf_printf(&b, "%s; ", p->title->sizes);
    buf_printf(&b, "CTA %lld,%lld,%lld of the grid; %s; time in %s", (long long)log->cta[0],
               (long long)log->cta[1], (long long)log->cta[2], log->device,
               trace_unit_name[log->unit]);
    if (p->window.from > p->trace->begin || p->window.to < p->trace->end)
        buf_printf(&b, ", %s to %s of %s", trace_commas(p->arena, p->window.from),
                   trace_commas(p->arena, p->window.to), trace_commas(p->arena, p->trace->end));
    put_text(p, 8, 36, "d", b.s);
    buf_free(&b);
}

void trace_svg(Arena *a, const Trace *t, const TraceTitle *title, TraceWindow w, Buf *out)
{
    Page p = {.arena = a, .trace = t, .title = title, .window = w, .out = out};
    place_lanes(&p);
    Buf body = {0};
    p.out = &body;
    put_title(&p);
    put_headings(&p);
    put_axis(&p);
    for (int i = 0; i < p.rows; i++) put_lane(&p, i);
    for (int i = 0; i < t->arrows.n; i++) put_arrow(&p, &t->arrows.at[i]);
    double y = put_legend(&p, p.bottom + BOTTOM + 12);
    for (int i = 0; i < 2; i++)
        if (notes(&p, i)) put_text(&p, LEFT, y += 16, "d", notes(&p, i));
    buf_printf(out,
               "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%.0f' "
               "viewBox='0 0 %d %.0f'>\n<style>%s</style>\n"
               "<defs><pattern id='q' width='6' height='6' patternUnits='userSpaceOnUse' "
               "patternTransform='rotate(45)'><rect width='6' height='6' fill='#fcebe6'/>"
               "<line x1='0' y1='0' x2='0' y2='6' stroke='#f3cfc4' stroke-width='2'/></pattern>"
               "</defs>\n"
               "<rect width='%d' height='%.0f' fill='#fff'/>\n",
               WIDTH, y + 12, WIDTH, y + 12, style, WIDTH, y + 12);
    buf_write(out, body.s, body.n);
    buf_puts(out, "</svg>\n");
    buf_free(&body);
}

// ---- windows ------------------------------------------------------------------------------------

// Time at which round `rounds` of a loop begins in the records of the role that works most.
static i64 end_of_rounds(const Trace *t, i64 rounds)
{
    const TraceLane *busiest = NULL;
    i64 most = -1;
    for (int i = 0; i < t->lanes.n; i++) {
        const TraceLane *l = &t->lanes.at[i];
        if (l->kind != LANE_ROLE) continue;
        i64 time = trace_lane_time(l, TRACE_BUSY, t->begin, t->end);
        if (time > most) busiest = l, most = time;
    }
    i64 seen = 0;
    u32 before = 0;
    for (int i = 0; busiest && i < busiest->spans.n; i++) {
        const TraceSpan *s = &busiest->spans.at[i];
        if (s->round != before && ++seen >= rounds) return s->begin;
        before = s->round;
    }
    return t->end;
}

TraceWindow trace_window(const Trace *t, i64 from, i64 to, i64 rounds)
{
    TraceWindow w = {t->begin, t->end};
    if (rounds > 0) w.to = end_of_rounds(t, rounds);
    if (to >= 0) w.to = MAX(to, t->begin + 1);
    if (from >= 0) w.from = MAX(from, t->begin);
    if (w.from >= w.to) w.to = w.from + 1;
    return w;
}
