// plot.c - a regime as an SVG: panels side by side, one a size; in each a bar for every
// implementation, from zero, as long as the speed of its median, and a whisker over the full range
// of its samples. All panels have one scale. Needs nothing to be shown but a viewer with a font.
#include "table.h"

#include <math.h>
#include <string.h>

// All that is written in a plot but names, which are the record's.
typedef enum {
    SAY_BURST, SAY_SUSTAINED, SAY_SPEED, SAY_BYTES, SAY_LEGEND, SAY_RATIO, SAY_REFUSED,
    SAY_OURS, SAY_PEERS, SAY_INCOMPLETE, SAYINGS
} Saying;
static const char *const saying[][SAYINGS] = {
    [BENCH_ENGLISH] =
        {"burst: the first launches after %g s of idleness",
         "sustained: under load, after %g s of the same launches", "TFLOPS, higher is better",
         "GB/s, higher is better",
         "bar: median of all samples; whisker: from the slowest to the fastest sample",
         "in brackets: speed relative to %s", "refused", "kernels of baton", "others",
         "INCOMPLETE: "},
    [BENCH_CHINESE] = {"突发：空闲 %g 秒后的最初几次执行",
                       "持续：相同负载运行 %g 秒之后",
                       "TFLOPS，越高越好", "GB/s，越高越好",
                       "柱长：全部样本的中位数；须线：从最慢到最快样本的完整范围",
                       "括号内：相对 %s 的速度", "已拒绝",
                       "baton 内核", "其他实现", "未完成："},
};

#define FONT "'Noto Sans','Helvetica Neue',Helvetica,Arial,'Noto Sans CJK SC','PingFang SC'," \
             "'Microsoft YaHei','DejaVu Sans',sans-serif"
#define INK "#1c2430"
#define FAINT "#5d6876"
#define GRID "#e3e7ec"
#define OURS "#2166ac"
#define PEERS "#9aa5b1"
#define BOLD 1.06 // how much wider bold letters are

// Pixels.
enum {
    MARGIN = 24, HEAD = 92, ROW = 30, BAR = 18, PANEL = 225, GAP = 86, NAMES = 96, AXIS = 46,
    FOOT = 66, IN_A_ROW = 3
};

typedef struct {
    const Bench *b;
    BenchRegime regime;
    const char *const *say;
    Buf *out;
    bool bytes;         // GB/s
    VEC(int) impls;     // that have a bar
    VEC(int) sizes;     // that have a panel
    double step, end;   // of the axis
    double names;       // width of their column
} Plot;

static double speed(const Plot *p, int size, double ms)
{
    const BenchSize *s = &p->b->sizes.at[size];
    return p->bytes ? s->bytes / ms / 1e6 : s->flops / ms / 1e9;
}

// ---- text ---------------------------------------------------------------------------------------

static void put_escaped(Buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '<') buf_puts(out, "&lt;");
        else if (*s == '>') buf_puts(out, "&gt;");
        else if (*s == '&') buf_puts(out, "&amp;");
        else if ((unsigned char)*s < 32) buf_putc(out, ' ');
        else buf_putc(out, *s);
    }
}

// About, since no font is measured here: a letter of a sans serif, and a square CJK sign.
static double text_width(const char *s, double size)
{
    double w = 0;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c & 0xc0) == 0x80) continue;
        w += c >= 0xe0                        ? 1.0
             : strchr("iljtfI.,:;|'()[] ", c) ? 0.33
             : c >= 'A' && c <= 'Z'           ? 0.7
                                              : 0.58;
    }
    return w * size;
}

static void put_text(Plot *p, double x, double y, int size, const char *style, const char *text)
{
    buf_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" %s>", x, y, size, style);
    put_escaped(p->out, text);
    buf_puts(p->out, "</text>\n");
}

// ---- the scale ----------------------------------------------------------------------------------

// Steps of 1, 2 or 5 times a power of ten: four to nine of them.
static void choose_scale(Plot *p, double most)
{
    double ten = pow(10, floor(log10(most)));
    static const double parts[] = {0.1, 0.2, 0.5, 1, 2};
    p->step = ten;
    for (int i = COUNT(parts) - 1; i >= 0; i--)
        if (most / (parts[i] * ten) > 3) {
            p->step = parts[i] * ten;
            break;
        }
    p->end = ceil(most / p->step) * p->step;
}

static void find_bars(Plot *p)
{
    const Bench *b = p->b;
    double most = 0;
    for (int impl = 0; impl < b->impls.n; impl++) {
        bool any = false;
        for (int size = 0; size < b->sizes.n; size++) {
            BenchSummary s = bench_summary(b, impl, size, p->regime);
            any |= s.samples > 0;
            if (s.samples && !bench_refused(b, impl, size, p->regime))
                most = MAX(most, speed(p, size, s.min));
        }
        if (!any) continue;
        vec_push(b->arena, &p->impls, impl);
        p->names = MAX(p->names, BOLD * text_width(b->impls.at[impl].label, 14) + 14);
    }
    for (int size = 0; size < b->sizes.n; size++)
        for (int i = 0; i < p->impls.n; i++)
            if (bench_summary(b, p->impls.at[i], size, p->regime).samples) {
                vec_push(b->arena, &p->sizes, size);
                break;
            }
    choose_scale(p, most > 0 && isfinite(most) ? most : 1);
}

// ---- panels -------------------------------------------------------------------------------------

static double to_x(const Plot *p, double left, double v) { return left + v / p->end * PANEL; }

static void put_axis(Plot *p, double left, double top, double bottom)
{
    for (int i = 0; i * p->step <= p->end * 1.0001; i++) {
        double x = to_x(p, left, i * p->step);
        buf_printf(p->out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\"/>\n", x, top, bottom,
                   i ? GRID : INK);
        put_text(p, x, bottom + 17, 12, "text-anchor=\"middle\" fill=\"" FAINT "\"",
                 arena_printf(p->b->arena, "%g", i * p->step));
    }
}

// The number stands behind the whisker; the gap between panels has room for it.
static void put_bar(Plot *p, int impl, int size, double left, double middle)
{
    const Bench *b = p->b;
    BenchSummary s = bench_summary(b, impl, size, p->regime);
    if (!s.samples) return;
    if (bench_refused(b, impl, size, p->regime)) {
        put_text(p, left + 8, middle + 5, 13, "font-style=\"italic\" fill=\"" FAINT "\"",
                 p->say[SAY_REFUSED]);
        return;
    }
    double x = to_x(p, left, speed(p, size, s.median));
    double slow = to_x(p, left, speed(p, size, s.max)), fast = to_x(p, left, speed(p, size, s.min));
    buf_printf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
               left, middle - BAR / 2.0, x - left, BAR, b->impls.at[impl].peer ? PEERS : OURS);
    buf_printf(p->out, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\" stroke=\"" INK "\""
                       " stroke-width=\"1.4\" fill=\"none\"/>\n",
               slow, middle, fast, slow, middle - 4, fast, middle - 4);
    const char *text = bench_figure(b->arena, speed(p, size, s.median), 3);
    if (!isnan(s.ratio) && impl != b->yardstick)
        text = arena_printf(b->arena, "%s (%.2f)", text, s.ratio);
    put_text(p, fast + 7, middle + 5, 13,
             "fill=\"" INK "\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"", text);
}

static void put_panel(Plot *p, int size, double left, double top)
{
    double bottom = top + p->impls.n * ROW + 8;
    put_text(p, left, top - 9, 15, "font-weight=\"600\" fill=\"" INK "\"",
             p->b->sizes.at[size].label);
    put_axis(p, left, top, bottom);
    for (int i = 0; i < p->impls.n; i++)
        put_bar(p, p->impls.at[i], size, left, top + 4 + ROW * (i + 0.5));
    put_text(p, left + PANEL / 2.0, bottom + 35, 12, "text-anchor=\"middle\" fill=\"" FAINT "\"",
             p->say[p->bytes ? SAY_BYTES : SAY_SPEED]);
}

static void put_names(Plot *p, double top)
{
    for (int i = 0; i < p->impls.n; i++) {
        const BenchImpl *m = &p->b->impls.at[p->impls.at[i]];
        put_text(p, MARGIN + p->names - 12, top + 9 + ROW * (i + 0.5), 14,
                 m->peer ? "text-anchor=\"end\" fill=\"" INK "\""
                         : "text-anchor=\"end\" font-weight=\"600\" fill=\"" INK "\"",
                 m->label);
    }
}

static const char *title(const Plot *p)
{
    return p->b->incomplete ? arena_printf(p->b->arena, "%s%s", p->say[SAY_INCOMPLETE], p->b->title)
                            : p->b->title;
}

static void put_head(Plot *p)
{
    const Bench *b = p->b;
    put_text(p, MARGIN, 36, 20, "font-weight=\"600\" fill=\"" INK "\"", title(p));
    bool burst = p->regime == BENCH_BURST;
    Buf line = {0};
    buf_printf(&line, "%s, ", b->machine.name);
    // The sayings are formats of one number each; both are.
    const char *format = p->say[burst ? SAY_BURST : SAY_SUSTAINED];
    const char *g = strstr(format, "%g");
    buf_printf(&line, "%.*s%g%s", (int)(g - format), format, burst ? b->idle_s : b->load_s, g + 2);
    put_text(p, MARGIN, 60, 14, "fill=\"" FAINT "\"", line.s);
    buf_free(&line);
}

// What colours and brackets mean, if `put`; returns where it ends.
static double put_keys(Plot *p, double y, bool put)
{
    static const struct {
        const char *color;
        Saying what;
    } keys[] = {{OURS, SAY_OURS}, {PEERS, SAY_PEERS}};
    double x = MARGIN;
    for (int i = 0; i < COUNT(keys); i++) {
        const char *text = p->say[keys[i].what];
        if (put) {
            buf_printf(p->out,
                       "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x,
                       y - 11, keys[i].color);
            put_text(p, x + 18, y, 13, "fill=\"" FAINT "\"", text);
        }
        x += 18 + text_width(text, 13) + 22;
    }
    if (p->b->yardstick < 0) return x;
    const char *format = p->say[SAY_RATIO], *s = strstr(format, "%s");
    const char *text = arena_printf(p->b->arena, "%.*s%s%s", (int)(s - format), format,
                                    p->b->impls.at[p->b->yardstick].label, s + 2);
    if (put) put_text(p, x, y, 13, "fill=\"" FAINT "\"", text);
    return x + text_width(text, 13);
}

void bench_plot(const Bench *b, BenchRegime regime, BenchLanguage language, Buf *out)
{
    Plot p = {.b = b, .regime = regime, .say = saying[language], .out = out, .names = NAMES};
    p.bytes = true;
    for (int i = 0; i < b->sizes.n; i++) p.bytes &= !(b->sizes.at[i].flops > 0);
    find_bars(&p);
    int across = MIN(MAX(p.sizes.n, 1), (int)IN_A_ROW),
        down = (p.sizes.n + IN_A_ROW - 1) / IN_A_ROW;
    double panel_height = p.impls.n * ROW + 8 + AXIS + 34;
    double width = MARGIN + p.names + across * (PANEL + GAP) + 8;
    // One panel is narrower than the lines above and below it.
    width = MAX(width, 2 * MARGIN + BOLD * text_width(title(&p), 20));
    width = MAX(width, 2 * MARGIN + text_width(p.say[SAY_LEGEND], 13));
    width = MAX(width, put_keys(&p, 0, false) + MARGIN);
    double height = HEAD + down * panel_height + FOOT;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\""
               " viewBox=\"0 0 %.0f %.0f\" font-family=\"%s\">\n",
               width, height, width, height, FONT);
    buf_puts(out, "<title>");
    put_escaped(out, b->title);
    buf_puts(out, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    put_head(&p);
    for (int i = 0; i < p.sizes.n; i++) {
        double top = HEAD + (i / IN_A_ROW) * panel_height + 12;
        if (i % IN_A_ROW == 0) put_names(&p, top);
        put_panel(&p, p.sizes.at[i], MARGIN + p.names + (i % IN_A_ROW) * (PANEL + GAP), top);
    }
    put_text(&p, MARGIN, height - FOOT + 20, 13, "fill=\"" FAINT "\"", p.say[SAY_LEGEND]);
    put_keys(&p, height - FOOT + 42, true);
    buf_puts(out, "</svg>\n");
}
