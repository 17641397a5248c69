// read.c - results.json back into a Bench. Whoever reads results may trust indices afterwards: they
// are checked here. Unknown keys are errors, as is every other thing that bench_json never writes.
#include "fields.h"

#include "../json/json.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static void get_record(Arena *a, const JsonValue *v, const BenchShape *shape, char *to);

static int get_int(const JsonValue *v, const char *key)
{
    i64 x = json_get_integer(v, key);
    if (x >= INT_MIN && x <= INT_MAX) return (int)x;
    json_error(json_find(v, key), NULL, "is too large");
    return 0;
}

static void get_list(Arena *a, const JsonValue *list, const BenchShape *shape, void *to)
{
    char *at = arena_alloc(a, shape->bytes * (size_t)list->n);
    for (int i = 0; i < list->n; i++)
        get_record(a, &list->items[i], shape, at + shape->bytes * (size_t)i);
    memcpy(to, &(BenchAnyVec){at, list->n, list->n}, sizeof(BenchAnyVec));
}

static void get_numbers(Arena *a, const JsonValue *list, void *to)
{
    double *at = ARENA_ARRAY(a, double, list->n);
    for (int i = 0; i < list->n; i++) at[i] = json_get_number_at(list, i);
    memcpy(to, &(BenchAnyVec){at, list->n, list->n}, sizeof(BenchAnyVec));
}

static int get_regime(const JsonValue *v, const char *key)
{
    const JsonValue *item = json_find(v, key);
    if (item && item->kind == JSON_KIND_NULL) return -1;
    return json_get_choice(v, key, bench_regime_name, BENCH_REGIMES);
}

static void get_field(Arena *a, const JsonValue *v, const BenchField *f, void *p)
{
    switch ((BenchFieldType)f->type) {
    case FIELD_TEXT: *(const char **)p = json_get_text(v, f->key); break;
    case FIELD_MAYBE: *(const char **)p = json_get_text_or_null(v, f->key); break;
    case FIELD_INT: *(int *)p = get_int(v, f->key); break;
    case FIELD_I64: *(i64 *)p = json_get_integer(v, f->key); break;
    case FIELD_U64: *(u64 *)p = json_get_u64(v, f->key); break;
    case FIELD_NUMBER: *(double *)p = json_get_number(v, f->key); break;
    case FIELD_BOOL: *(bool *)p = json_get_bool(v, f->key); break;
    case FIELD_CHOICE: *(u8 *)p = (u8)json_get_choice(v, f->key, f->names, f->n); break;
    case FIELD_REGIME: *(int *)p = get_regime(v, f->key); break;
    case FIELD_NUMBERS: get_numbers(a, json_get_list(v, f->key), p); break;
    case FIELD_RECORD: get_record(a, json_get_object(v, f->key), f->shape, p); break;
    case FIELD_LIST: get_list(a, json_get_list(v, f->key), f->shape, p); break;
    }
}

static bool is_known(const BenchShape *shape, const char *key)
{
    if (shape == &bench_shape && strcmp(key, "format") == 0) return true;
    for (int i = 0; i < shape->n; i++)
        if (strcmp(shape->field[i].key, key) == 0) return true;
    return false;
}

static void get_record(Arena *a, const JsonValue *v, const BenchShape *shape, char *to)
{
    for (int i = 0; i < shape->n; i++)
        get_field(a, v, &shape->field[i], to + shape->field[i].at);
    for (int i = 0; v->kind == JSON_KIND_OBJECT && i < v->n; i++)
        if (!is_known(shape, v->keys[i]))
            json_error(&v->items[i], NULL, "the key is not one that this version of baton knows");
}

// ---- what must hold among the fields ------------------------------------------------------------

// `index` of an item of the list `of` with n items. `least` is -1 where "of all" or "none" is
// allowed.
static void in_list(const JsonValue *v, const char *key, int index, int least, int n,
                    const char *of)
{
    if (index >= least && index < n) return;
    json_error(json_find(v, key), NULL, "is %d, and there are %d %s", index, n, of);
}

static void check_pair(const Bench *b, const JsonValue *v, int impl, int size, int least)
{
    in_list(v, "impl", impl, least, b->impls.n, "implementations");
    in_list(v, "size", size, least, b->sizes.n, "sizes");
}

static void check_turn(const BenchTurn *t, const JsonValue *v)
{
    if (t->round < 0 || t->round >= 10000) json_error(json_find(v, "round"), NULL, "is no round");
    if (t->group < 1) json_error(json_find(v, "group"), NULL, "must be 1 or more");
    for (int i = 0; i < t->ms.n; i++)
        if (!(t->ms.at[i] >= 0))
            json_error(&json_find(v, "ms")->items[i], NULL, "a time must be 0 or more");
}

static void check(const Bench *b, const JsonValue *v)
{
    in_list(v, "yardstick", b->yardstick, -1, b->impls.n, "implementations");
    for (int i = 0; i < b->cases.n; i++)
        check_pair(b, &json_find(v, "cases")->items[i], b->cases.at[i].impl, b->cases.at[i].size,
                   0);
    for (int i = 0; i < b->turns.n; i++) {
        const BenchTurn *t = &b->turns.at[i];
        const JsonValue *item = &json_find(v, "turns")->items[i];
        check_pair(b, item, t->impl, t->size, 0);
        check_turn(t, item);
    }
    for (int i = 0; i < b->warnings.n; i++) {
        const BenchWarning *w = &b->warnings.at[i];
        check_pair(b, &json_find(v, "warnings")->items[i], w->impl, w->size, -1);
    }
}

Bench *bench_read(Arena *a, const char *path, Diag *d)
{
    const JsonValue *v = json_read_file(a, path, d);
    if (!v) return NULL;
    if (strcmp(json_get_text(v, "format"), bench_format) != 0 && !json_failed(v))
        json_error(json_find(v, "format"), NULL, "is `%s`; this version of baton reads `%s`",
                   json_get_text(v, "format"), bench_format);
    if (json_failed(v)) return NULL;
    Bench *b = ARENA_NEW(a, Bench);
    b->arena = a;
    get_record(a, v, &bench_shape, (char *)b);
    if (!json_failed(v)) check(b, v);
    return json_failed(v) ? NULL : b;
}

Bench *bench_load_folder_or_file(Arena *a, const char *path, Diag *d)
{
    struct stat s;
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) path = arena_printf(a, "%s/results.json", path);
    return bench_read(a, path, d);
}
