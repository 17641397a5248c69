// json.c - reads JSON with libjansson, and copies what it read into an arena: one owner, and
// lookups that can say where they failed.
#include "tree.h"

#include <limits.h>
#include <string.h>

#include <jansson.h>

static void copy(Arena *a, json_t *from, JsonValue *to, const JsonValue *up, JsonDocument *doc);

static void copy_list(Arena *a, const json_t *from, JsonValue *to)
{
    to->kind = JSON_KIND_LIST;
    to->n = (int)json_array_size(from);
    to->items = ARENA_ARRAY(a, JsonValue, to->n);
    for (int i = 0; i < to->n; i++)
        copy(a, json_array_get(from, (size_t)i), &to->items[i], to, to->document);
}

// jansson keeps the order of the text, which finding places counts on.
static void copy_object(Arena *a, json_t *from, JsonValue *to)
{
    to->kind = JSON_KIND_OBJECT;
    to->items = ARENA_ARRAY(a, JsonValue, json_object_size(from));
    to->keys = ARENA_ARRAY(a, const char *, json_object_size(from));
    const char *key;
    json_t *item;
    json_object_foreach(from, key, item) {
        to->keys[to->n] = arena_strndup(a, key, strlen(key));
        copy(a, item, &to->items[to->n++], to, to->document);
    }
}

// jansson reads at most 2048 levels, so this recursion is bounded.
static void copy(Arena *a, json_t *from, JsonValue *to, const JsonValue *up, JsonDocument *doc)
{
    to->up = up;
    to->document = doc;
    if (json_is_array(from)) {
        copy_list(a, from, to);
    } else if (json_is_object(from)) {
        copy_object(a, from, to);
    } else if (json_is_string(from)) {
        to->kind = JSON_KIND_TEXT;
        to->text = arena_strndup(a, json_string_value(from), json_string_length(from));
    } else if (json_is_number(from)) {
        to->kind = JSON_KIND_NUMBER;
        to->number = json_number_value(from);
        to->whole = json_is_integer(from);
        to->integer = json_integer_value(from);
    } else if (json_is_boolean(from)) {
        to->kind = JSON_KIND_BOOL;
        to->number = json_is_true(from);
    }
}

// The text is copied: it must live as long as the places in it.
JsonValue *json_read(Arena *a, const char *name, const char *text, size_t n, Diag *d)
{
    JsonDocument *doc = ARENA_NEW(a, JsonDocument);
    doc->name = arena_strndup(a, name, strlen(name));
    doc->text = arena_strndup(a, text, n);
    doc->diag = d;
    json_error_t error;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) {
        Loc loc = {diag_add_file(d, doc->name, doc->text, n), 0, 0};
        loc.line = (u32)MAX(error.line, 0);
        loc.col = (u16)MIN(MAX(error.column, 0), UINT16_MAX);
        diag_error(d, loc, NULL, "is not valid JSON: %s", error.text);
        return NULL;
    }
    for (int i = 0; i < COUNT(doc->empty); i++)
        doc->empty[i] = (JsonValue){.kind = i ? JSON_KIND_OBJECT : JSON_KIND_LIST, .document = doc};
    JsonValue *v = ARENA_NEW(a, JsonValue);
    copy(a, root, v, NULL, doc);
    json_decref(root);
    return v;
}

JsonValue *json_read_file(Arena *a, const char *path, Diag *d)
{
    Buf text = {0};
    const char *why = file_read(path, &text, (size_t)1 << 30);
    JsonValue *v = NULL;
    if (why)
        diag_error(d, ((Loc){diag_add_file(d, path, NULL, 0), 0, 0}), NULL, "cannot be read: %s",
                   why);
    else
        v = json_read(a, path, text.s, text.n, d);
    buf_free(&text);
    return v;
}
