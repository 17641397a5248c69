// json.h - JSON in and out. Writing (write.c) is part of the library. Reading is part of the
// command only: json.c has libjansson read the text and makes a tree in an arena of it; without.c
// stands in its place where that library's archive was missing, and says so.
//
//   JsonValue *doc = json_read(arena, "results.json", text, n, diag);
//   if (!doc) return NULL;                                // the reason is in the Diag
//   double watts = json_get_number(doc, "power_limit");   // null: NAN
//   const JsonValue *turns = json_get_list(doc, "turns"); // may be empty, never NULL
//   if (json_failed(doc)) return NULL;                    // something was missing or wrong
//
// A lookup that fails puts one error into the Diag, with file, line, what was looked for and where
// in the document, and returns a neutral value; a reader looks everything up and asks once at the
// end.
#ifndef BATON_JSON_H
#define BATON_JSON_H

#include "../base/base.h"

typedef enum {
    JSON_KIND_NULL, JSON_KIND_BOOL, JSON_KIND_NUMBER, JSON_KIND_TEXT, JSON_KIND_LIST,
    JSON_KIND_OBJECT, JSON_KINDS
} JsonKind;

typedef struct JsonDocument JsonDocument; // what the lookups report to
typedef struct JsonValue JsonValue;
struct JsonValue {
    u8 kind;               // JsonKind
    bool whole;            // a number written as an integer, and `integer` is its value
    double number;         // of a number; of a bool: 0 or 1
    i64 integer;
    const char *text;      // UTF-8 without NULs
    int n;                 // of a list or an object: how many items
    JsonValue *items;      // in the order of the text
    const char **keys;     // of an object: of the items; no key stands twice
    const JsonValue *up;   // the list or object that holds it; NULL: it is the document
    JsonDocument *document;
};

// Reads all n bytes as one document: a whole file, or a line of a protocol with one object a line.
// `name` stands in messages. NULL: the reason is in the Diag, with line and column. Lives in the
// arena, and so does the Diag.
JsonValue *json_read(Arena *a, const char *name, const char *text, size_t n, Diag *d);
JsonValue *json_read_file(Arena *a, const char *path, Diag *d); // up to 1 GiB

// True once a lookup anywhere in the document of `v` has failed.
bool json_failed(const JsonValue *v);
// Puts an error at the place of `v` into the Diag: a value that is read well and makes no sense.
void json_error(const JsonValue *v, const char *hint, const char *fmt, ...) PRINTF_LIKE(3, 4);

// The item of an object by its key; NULL: there is none, or `v` is no object. Reports nothing.
const JsonValue *json_find(const JsonValue *v, const char *key);
// Items that must be there, of the kind that the name says.
double json_get_number(const JsonValue *v, const char *key); // null is NAN; NAN on errors
i64 json_get_integer(const JsonValue *v, const char *key);   // 0 on errors
u64 json_get_u64(const JsonValue *v, const char *key);       // as json_put_u64 writes it
bool json_get_bool(const JsonValue *v, const char *key);     // false on errors
const char *json_get_text(const JsonValue *v, const char *key);       // "" on errors
const char *json_get_text_or_null(const JsonValue *v, const char *key);
const JsonValue *json_get_list(const JsonValue *v, const char *key);   // an empty one on errors
const JsonValue *json_get_object(const JsonValue *v, const char *key); // an empty one on errors
// Item i of a list of numbers; null is NAN.
double json_get_number_at(const JsonValue *list, int i);
// The index of a text among n names; an error naming them, and 0, when it is none of them.
int json_get_choice(const JsonValue *v, const char *key, const char *const *names, int n);

// ---- write.c -----------------------------------------------------------------------------------
// Writes one document: json_begin .. json_end around lists and objects, json_put_* in between.
// `key` is the item's in an object and NULL in a list. A line for each item, indented by two
// spaces; what stands inside of `on_a_line` shares one line.
typedef struct {
    Buf *out;
    int depth;
    int flat;          // depth from which all stands on one line; 0: none
    bool some;         // the innermost list or object has an item
    char closer[32];   // of each depth
} JsonWriter;
void json_begin(JsonWriter *w, const char *key, char bracket, bool on_a_line); // '[' or '{'
void json_end(JsonWriter *w); // a newline behind the last one
// The shortest decimal that reads back to the same double; NAN and infinities are null.
void json_put_number(JsonWriter *w, const char *key, double x);
void json_put_integer(JsonWriter *w, const char *key, i64 x);
// A text of its digits above 2^53, where many readers of JSON would round a number.
void json_put_u64(JsonWriter *w, const char *key, u64 x);
void json_put_bool(JsonWriter *w, const char *key, bool x);
void json_put_text(JsonWriter *w, const char *key, const char *s); // UTF-8; NULL is null

#endif
