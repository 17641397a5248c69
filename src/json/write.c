// write.c - JSON as text, item by item. Needs no tree and no library: what is written is known to
// the writer, and only texts need care.
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the character at `s` if it is valid UTF-8 beyond ASCII, else 0: the shortest form of a
// code point that is no surrogate.
static size_t utf8_bytes(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f)) return 0;
    if ((u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f)) return 0;
    return n;
}

// UTF-8 passes as it is; control characters must be escaped, quote and backslash too. A byte that
// is no UTF-8, as in a file name of another encoding, becomes U+FFFD: the document stays readable.
static void put_string(Buf *out, const char *s)
{
    buf_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c >= 128) {
            size_t n = utf8_bytes(s);
            if (n)
                buf_write(out, s, n);
            else
                buf_puts(out, "\xef\xbf\xbd");
            s += n ? n - 1 : 0;
            continue;
        }
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '\t')
            buf_puts(out, "\\t");
        else if (c < 32 || c == 127)
            buf_printf(out, "\\u%04x", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static void new_line(JsonWriter *w)
{
    buf_putc(w->out, '\n');
    for (int i = 0; i < w->depth; i++) buf_puts(w->out, "  ");
}

static bool is_flat(const JsonWriter *w) { return w->flat && w->depth >= w->flat; }

// What stands in front of an item: a comma, its own line, its key.
static void put_key(JsonWriter *w, const char *key)
{
    if (w->some) buf_putc(w->out, ',');
    if (w->depth && !is_flat(w))
        new_line(w);
    else if (w->some)
        buf_putc(w->out, ' ');
    w->some = true;
    if (!w->depth) return;
    if ((key != NULL) != (w->closer[w->depth - 1] == '}')) BUG("key of a list, or object without");
    if (!key) return;
    put_string(w->out, key);
    buf_puts(w->out, ": ");
}

void json_begin(JsonWriter *w, const char *key, char bracket, bool on_a_line)
{
    put_key(w, key);
    ASSERT(w->depth < COUNT(w->closer));
    buf_putc(w->out, bracket);
    w->closer[w->depth++] = bracket == '{' ? '}' : ']';
    if (on_a_line && !w->flat) w->flat = w->depth;
    w->some = false;
}

void json_end(JsonWriter *w)
{
    ASSERT(w->depth > 0);
    bool flat = is_flat(w);
    if (w->flat == w->depth) w->flat = 0;
    w->depth--;
    if (w->some && !flat) new_line(w);
    buf_putc(w->out, w->closer[w->depth]);
    w->some = true;
    if (!w->depth) buf_putc(w->out, '\n');
}

// 17 digits always suffice; fewer are tried first, and whole numbers are written without exponent.
// The point is the C locale's whatever the host program has set. "-0" alone would be read as the
// integer 0.
void json_put_number(JsonWriter *w, const char *key, double x)
{
    put_key(w, key);
    char text[40] = "null";
    if (x == floor(x) && fabs(x) < 1e15) {
        snprintf(text, sizeof text, "%.0f", x);
    } else if (isfinite(x)) {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, x);
            if (strtod(text, NULL) == x) break;
        }
        char *point = text + strspn(text, "+-0123456789e");
        if (*point) *point = '.';
    }
    if (strcmp(text, "-0") == 0) strcpy(text, "-0.0");
    buf_puts(w->out, text);
}

void json_put_integer(JsonWriter *w, const char *key, i64 x)
{
    put_key(w, key);
    buf_printf(w->out, "%lld", (long long)x);
}

void json_put_u64(JsonWriter *w, const char *key, u64 x)
{
    put_key(w, key);
    buf_printf(w->out, x >> 53 ? "\"%llu\"" : "%llu", (unsigned long long)x);
}

void json_put_bool(JsonWriter *w, const char *key, bool x)
{
    put_key(w, key);
    buf_puts(w->out, x ? "true" : "false");
}

void json_put_text(JsonWriter *w, const char *key, const char *s)
{
    put_key(w, key);
    if (s)
        put_string(w->out, s);
    else
        buf_puts(w->out, "null");
}
