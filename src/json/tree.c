// tree.c - lookups in a tree of JSON, and where in its text a value stands. Knows no reader.
#include "tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_name[JSON_KINDS] = {"null",   "true or false", "a number",
                                                  "a text", "a list",        "an object"};

bool json_failed(const JsonValue *v) { return v->document->failed; }

// ---- places ------------------------------------------------------------------------------------
// The tree does not carry positions: they are found when there is something to report, by walking
// the text, which is known to be valid, along the path from the document to the value.

static const char *skip_space(const char *s) { return s + strspn(s, " \t\r\n"); }

static const char *skip_string(const char *s)
{
    for (s++; *s != '"'; s++)
        if (*s == '\\') s++;
    return s + 1;
}

static const char *skip_value(const char *s)
{
    if (*s == '"') return skip_string(s);
    if (*s != '[' && *s != '{') return s + strcspn(s, ",]} \t\r\n");
    int depth = 0;
    do {
        if (*s == '"') {
            s = skip_string(s);
            continue;
        }
        depth += (*s == '[' || *s == '{') - (*s == ']' || *s == '}');
        s++;
    } while (depth);
    return s;
}

static const char *place(const JsonValue *v)
{
    if (!v->up) return skip_space(v->document->text);
    const char *s = skip_space(place(v->up) + 1);
    for (const JsonValue *item = v->up->items;; item++) {
        if (v->up->kind == JSON_KIND_OBJECT) s = skip_space(skip_space(skip_string(s)) + 1);
        if (item == v) return s;
        s = skip_space(skip_space(skip_value(s)) + 1);
    }
}

static void print_path(const JsonValue *v, Buf *out)
{
    if (!v->up) return;
    print_path(v->up, out);
    i64 i = v - v->up->items;
    if (v->up->kind == JSON_KIND_LIST)
        buf_printf(out, "[%lld]", (long long)i);
    else
        buf_printf(out, "%s%s", v->up->up ? "." : "", v->up->keys[i]);
}

void json_error(const JsonValue *v, const char *hint, const char *fmt, ...)
{
    JsonDocument *doc = v->document;
    doc->failed = true;
    if (!doc->file) doc->file = diag_add_file(doc->diag, doc->name, doc->text, strlen(doc->text));
    Loc loc = {doc->file, 1, 1};
    const char *at = place(v), *line = doc->text;
    for (const char *s = doc->text; s < at; s++)
        if (*s == '\n') loc.line++, line = s + 1;
    loc.col = (u16)MIN(at - line + 1, (long)UINT16_MAX);
    Buf text = {0};
    print_path(v, &text);
    buf_puts(&text, text.n ? ": " : "");
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    diag_error(doc->diag, loc, hint, "%s", text.s);
    buf_free(&text);
}

// ---- lookups -----------------------------------------------------------------------------------

const JsonValue *json_find(const JsonValue *v, const char *key)
{
    if (v->kind != JSON_KIND_OBJECT) return NULL;
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->keys[i], key) == 0) return &v->items[i];
    return NULL;
}

static bool is_kind(const JsonValue *v, JsonKind kind)
{
    if (v->kind == kind) return true;
    json_error(v, NULL, "must be %s and is %s", kind_name[kind], kind_name[v->kind]);
    return false;
}

// The item, or NULL after an error. `or_null`: null is allowed as well. In an object that was made
// up for one that is missing nothing is missed again.
static const JsonValue *need(const JsonValue *v, const char *key, JsonKind kind, bool or_null)
{
    if (v == &v->document->empty[1] || !is_kind(v, JSON_KIND_OBJECT)) return NULL;
    const JsonValue *item = json_find(v, key);
    if (!item) {
        json_error(v, NULL, "the key `%s` is missing", key);
        return NULL;
    }
    if (or_null && item->kind == JSON_KIND_NULL) return item;
    return is_kind(item, kind) ? item : NULL;
}

double json_get_number(const JsonValue *v, const char *key)
{
    const JsonValue *item = need(v, key, JSON_KIND_NUMBER, true);
    return item && item->kind == JSON_KIND_NUMBER ? item->number : NAN;
}

double json_get_number_at(const JsonValue *list, int i)
{
    const JsonValue *item = &list->items[i];
    if (item->kind == JSON_KIND_NULL || !is_kind(item, JSON_KIND_NUMBER)) return NAN;
    return item->number;
}

i64 json_get_integer(const JsonValue *v, const char *key)
{
    const JsonValue *item = need(v, key, JSON_KIND_NUMBER, false);
    if (!item) return 0;
    if (!item->whole) json_error(item, NULL, "must be a whole number");
    return item->integer;
}

u64 json_get_u64(const JsonValue *v, const char *key)
{
    const JsonValue *item = json_find(v, key);
    if (item && item->kind == JSON_KIND_TEXT) {
        char *end;
        u64 x = strtoull(item->text, &end, 10);
        if (!*item->text || strspn(item->text, "0123456789") != strlen(item->text) || *end)
            json_error(item, NULL, "must be a whole number, or a text of its digits");
        return x;
    }
    i64 x = json_get_integer(v, key);
    if (x < 0) json_error(item, NULL, "must not be negative");
    return x < 0 ? 0 : (u64)x;
}

bool json_get_bool(const JsonValue *v, const char *key)
{
    const JsonValue *item = need(v, key, JSON_KIND_BOOL, false);
    return item && item->number;
}

const char *json_get_text(const JsonValue *v, const char *key)
{
    const JsonValue *item = need(v, key, JSON_KIND_TEXT, false);
    return item ? item->text : "";
}

const char *json_get_text_or_null(const JsonValue *v, const char *key)
{
    const JsonValue *item = need(v, key, JSON_KIND_TEXT, true);
    return item ? item->text : NULL;
}

// A reader may go on with an empty list or object in place of one that is not there.
static const JsonValue *or_empty(const JsonValue *v, const char *key, JsonKind kind)
{
    const JsonValue *item = need(v, key, kind, false);
    return item ? item : &v->document->empty[kind == JSON_KIND_OBJECT];
}

const JsonValue *json_get_list(const JsonValue *v, const char *key)
{
    return or_empty(v, key, JSON_KIND_LIST);
}

const JsonValue *json_get_object(const JsonValue *v, const char *key)
{
    return or_empty(v, key, JSON_KIND_OBJECT);
}

int json_get_choice(const JsonValue *v, const char *key, const char *const *names, int n)
{
    const JsonValue *item = need(v, key, JSON_KIND_TEXT, false);
    if (!item) return 0;
    Buf all = {0};
    for (int i = 0; i < n; i++) {
        if (strcmp(item->text, names[i]) == 0) {
            buf_free(&all);
            return i;
        }
        buf_printf(&all, "%s`%s`", i ? ", " : "one of ", names[i]);
    }
    json_error(item, NULL, "`%s` is not %s", item->text, all.s);
    buf_free(&all);
    return 0;
}
