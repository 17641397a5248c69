// json_test.c - JSON out and in: every double comes back with the same bits, texts with anything in
// them too, documents are laid out as promised, and each kind of mistake is reported with its
// place. In a build without libjansson reading must be refused with the reason.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/json/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
    Arena *arena;
} Test;

static void check(Test *t, bool ok, const char *what, const char *got)
{
    if (ok) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20) printf("FAILED %s: %s\n", what, got ? got : "(nothing)");
}

static JsonValue *read_text(Test *t, const char *text, Diag **d)
{
    *d = diag_new(t->arena);
    return json_read(t->arena, "doc.json", text, strlen(text), *d);
}

// The messages of the Diag contain `want`.
static void expect(Test *t, const Diag *d, const char *what, const char *want)
{
    Buf out = {0};
    diag_print(d, &out);
    check(t, out.s && strstr(out.s, want), what, out.s);
    buf_free(&out);
}

static void layout(Test *t)
{
    Buf out = {0};
    JsonWriter w = {.out = &out};
    json_begin(&w, NULL, '{', false);
    json_put_text(&w, "name", "a \"b\" \\ \n\t\x01 \xe4\xb8\xad");
    json_put_text(&w, "none", NULL);
    json_begin(&w, "ms", '[', true);
    json_put_number(&w, NULL, 0.1);
    json_put_number(&w, NULL, NAN);
    json_put_number(&w, NULL, 1e300 * 1e300);
    json_begin(&w, NULL, '{', false);
    json_put_bool(&w, "on", true);
    json_end(&w);
    json_end(&w);
    json_begin(&w, "empty", '[', false);
    json_end(&w);
    json_begin(&w, "list", '[', false);
    json_put_integer(&w, NULL, -7);
    json_put_u64(&w, NULL, 1ull << 63);
    json_put_u64(&w, NULL, 4);
    json_end(&w);
    json_end(&w);
    check(t, strcmp(out.s, "{\n"
                           "  \"name\": \"a \\\"b\\\" \\\\ \\n\\t\\u0001 \xe4\xb8\xad\",\n"
                           "  \"none\": null,\n"
                           "  \"ms\": [0.1, null, null, {\"on\": true}],\n"
                           "  \"empty\": [],\n"
                           "  \"list\": [\n    -7,\n    \"9223372036854775808\",\n    4\n  ]\n"
                           "}\n") == 0,
          "layout", out.s);
    buf_free(&out);
}

// Texts with anything in them give documents that can be read; what is UTF-8 comes back as it was.
static void texts(Test *t)
{
    static const struct {
        const char *in, *out;
    } row[] = {
        {"\xe4\xb8\xad\xc3\xa9\xf0\x9f\x98\x80", NULL},
        {"\x7f\x1f\r/", NULL},
        {"a\xff" "b", "a\xef\xbf\xbd" "b"},
        {"\xe4\xb8", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (int i = 0; i < COUNT(row); i++) {
        Buf out = {0};
        JsonWriter w = {.out = &out};
        json_begin(&w, NULL, '{', true);
        json_put_text(&w, "k", row[i].in);
        json_end(&w);
        Diag *d;
        JsonValue *v = read_text(t, out.s, &d);
        const char *got = v ? json_get_text(v, "k") : NULL;
        check(t, got && strcmp(got, row[i].out ? row[i].out : row[i].in) == 0, "text", out.s);
        buf_free(&out);
    }
}

// Doubles of every size: random bits, and the corners.
static void numbers(Test *t)
{
    enum { N = 20000 };
    double x[N] = {0.0,
                   -0.0,
                   1.0,
                   700.0,
                   1e5,
                   1e15,
                   1e17,
                   123456789012345680.0,
                   5e-324,
                   1e-310,
                   1.7976931348623157e308,
                   0.1,
                   1.0 / 3.0,
                   3.973,
                   -2.5e-7};
    u64 random = 1;
    for (int i = 15; i < N; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        u64 bits = random ^ random >> 29;
        memcpy(&x[i], &bits, 8);
        if (!isfinite(x[i])) x[i] = i * 0.25;
    }
    Buf out = {0};
    JsonWriter w = {.out = &out};
    json_begin(&w, NULL, '[', true);
    for (int i = 0; i < N; i++) json_put_number(&w, NULL, x[i]);
    json_end(&w);
    check(t, strstr(out.s, ", 700, ") && strstr(out.s, ", 3.973, ") && strstr(out.s, ", 0.1, "),
          "short forms", NULL);
    Diag *d;
    JsonValue *v = read_text(t, out.s, &d);
    check(t, v && v->n == N, "numbers are read", NULL);
    int wrong = 0;
    for (int i = 0; v && i < N; i++) {
        double y = json_get_number_at(v, i);
        wrong += memcmp(&x[i], &y, 8) != 0;
    }
    check(t, wrong == 0, "every double comes back", arena_printf(t->arena, "%d did not", wrong));
    buf_free(&out);
}

static void lookups(Test *t)
{
    Diag *d;
    JsonValue *v = read_text(t,
                             "{\"a\": 1, \"b\": [1.5, null], \"c\": {\"x\": \"t\", \"y\": null},\n"
                             " \"big\": \"18446744073709551615\", \"yes\": true}",
                             &d);
    check(t, v != NULL, "document", NULL);
    if (!v) return;
    check(t, json_get_integer(v, "a") == 1 && json_get_number(v, "a") == 1, "integer", NULL);
    const JsonValue *b = json_get_list(v, "b"), *c = json_get_object(v, "c");
    check(t, b->n == 2 && json_get_number_at(b, 0) == 1.5 && isnan(json_get_number_at(b, 1)),
          "list", NULL);
    check(t, strcmp(json_get_text(c, "x"), "t") == 0 && !json_get_text_or_null(c, "y"), "text",
          NULL);
    check(t, isnan(json_get_number(c, "y")), "null is NAN", NULL);
    check(t, json_get_u64(v, "big") == UINT64_MAX && json_get_u64(v, "a") == 1, "u64", NULL);
    check(t, json_get_bool(v, "yes"), "bool", NULL);
    check(t, !json_find(v, "nothing"), "no key", NULL);
    static const char *const names[] = {"s", "t"};
    check(t, json_get_choice(c, "x", names, 2) == 1, "choice", NULL);
    check(t, !json_failed(v) && diag_errors(d) == 0, "nothing failed", NULL);
}

// What is wrong with the document, asked for as `kind` says; the message contains `want`.
typedef struct {
    const char *text;
    char ask;   // of "k" in the object "o": n number, i integer, u u64, b bool, t text, l list,
                // o object (and then a number in it), c choice; e error at item 1 of the list "l"
    const char *want;
} Bad;

static const Bad bad[] = {
    {"{\"o\": {\"k\": 1}", 0, "doc.json:1:14: error: is not valid JSON: '}' expected"},
    {"{\"o\": {\"k\": NaN}}", 0, "is not valid JSON: invalid token near 'NaN'"},
    {"{\"k\": 1, \"k\": 2}", 0, "is not valid JSON: duplicate object key"},
    {"", 0, "is not valid JSON"},
    {"1 2", 0, "is not valid JSON: end of file expected"},
    {"{\"o\": {}}", 'n',
     "doc.json:1:7: error: o: the key `k` is missing\n    {\"o\": {}}\n          ^"},
    {"{\"s\": \"}\\\"{\",\n \"o\": {\"a\": [{}, \"]\"], \"k\": \"x\"}}", 'n',
     "doc.json:2:29: error: o.k: must be a number and is a text"},
    {"{\"o\": {\"k\": 1.5}}", 'i', "o.k: must be a whole number"},
    {"{\"o\": {\"k\": null}}", 'i', "o.k: must be a number and is null"},
    {"{\"o\": {\"k\": -1}}", 'u', "o.k: must not be negative"},
    {"{\"o\": {\"k\": \"12x\"}}", 'u', "o.k: must be a whole number, or a text of its digits"},
    {"{\"o\": {\"k\": 1}}", 'b', "o.k: must be true or false and is a number"},
    {"{\"o\": {\"k\": []}}", 't', "o.k: must be a text and is a list"},
    {"{\"o\": {\"k\": {}}}", 'l', "o.k: must be a list and is an object"},
    {"{\"o\": {\"k\": true}}", 'o', "o.k: must be an object and is true or false"},
    {"{\"o\": {\"k\": \"x\"}}", 'c', "o.k: `x` is not one of `s`, `t`"},
    {"[3]", 'n', "doc.json:1:1: error: must be an object and is a list"},
    {"{\"o\":{}, \"l\": [0,\n\n [7]]}", 'e', "doc.json:3:2: error: l[1]: too many"},
};

static void mistakes(Test *t)
{
    static const char *const names[] = {"s", "t"};
    for (int i = 0; i < COUNT(bad); i++) {
        Diag *d;
        JsonValue *v = read_text(t, bad[i].text, &d);
        if (v && bad[i].ask) {
            const JsonValue *o = json_get_object(v, "o");
            switch (bad[i].ask) {
            case 'n': json_get_number(o, "k"); break;
            case 'i': json_get_integer(o, "k"); break;
            case 'u': json_get_u64(o, "k"); break;
            case 'b': json_get_bool(o, "k"); break;
            case 't': json_get_text(o, "k"); break;
            case 'l': json_get_list(o, "k"); break;
            case 'o': json_get_number(json_get_object(o, "k"), "y"); break;
            case 'c': json_get_choice(o, "k", names, 2); break;
            default: json_error(&json_get_list(v, "l")->items[1], NULL, "too many");
            }
            check(t, json_failed(v), bad[i].text, "did not fail");
        }
        check(t, (v == NULL) == !bad[i].ask, bad[i].text, "read or not");
        check(t, diag_errors(d) == 1, bad[i].text, "one error each");
        expect(t, d, bad[i].text, bad[i].want);
    }
    Diag *d = diag_new(t->arena);
    check(t, !json_read_file(t->arena, "/nonexistent/x.json", d), "no file", NULL);
    expect(t, d, "no file", "/nonexistent/x.json: error: cannot be read: No such file");
}

int main(void)
{
    Test t = {.arena = arena_new(0)};
    layout(&t);
    Diag *d;
    bool can_read = read_text(&t, "1", &d) != NULL;
    if (can_read) {
        texts(&t);
        numbers(&t);
        lookups(&t);
        mistakes(&t);
    } else {
        expect(&t, d, "without libjansson",
               "this baton was built without libjansson (libjansson-dev)");
    }
    printf("%d passed, %d failed\n", t.passed, t.failed);
    arena_free(t.arena);
    return t.failed != 0;
}
