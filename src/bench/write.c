// write.c - a Bench as results.json: everything, so that nothing needs to be measured again to be
// shown in another way. Reading it back and writing it gives the same bytes.
#include "fields.h"

#include "../json/json.h"

#include <string.h>

static void put_record(JsonWriter *w, const char *key, const BenchShape *shape, const char *from);

static void put_list(JsonWriter *w, const BenchField *f, const void *vec)
{
    BenchAnyVec v;
    memcpy(&v, vec, sizeof v);
    json_begin(w, f->key, '[', false);
    for (int i = 0; i < v.n; i++)
        put_record(w, NULL, f->shape, (const char *)v.at + (size_t)i * f->shape->bytes);
    json_end(w);
}

static void put_numbers(JsonWriter *w, const BenchField *f, const void *vec)
{
    BenchAnyVec v;
    memcpy(&v, vec, sizeof v);
    json_begin(w, f->key, '[', true);
    for (int i = 0; i < v.n; i++) json_put_number(w, NULL, ((const double *)v.at)[i]);
    json_end(w);
}

static void put_field(JsonWriter *w, const BenchField *f, const void *p)
{
    switch ((BenchFieldType)f->type) {
    case FIELD_TEXT: {
        const char *s = *(const char *const *)p;
        json_put_text(w, f->key, s ? s : "");
        break;
    }
    case FIELD_MAYBE: json_put_text(w, f->key, *(const char *const *)p); break;
    case FIELD_INT: json_put_integer(w, f->key, *(const int *)p); break;
    case FIELD_I64: json_put_integer(w, f->key, *(const i64 *)p); break;
    case FIELD_U64: json_put_u64(w, f->key, *(const u64 *)p); break;
    case FIELD_NUMBER: json_put_number(w, f->key, *(const double *)p); break;
    case FIELD_BOOL: json_put_bool(w, f->key, *(const bool *)p); break;
    case FIELD_CHOICE: json_put_text(w, f->key, f->names[*(const u8 *)p]); break;
    case FIELD_REGIME: {
        int regime = *(const int *)p;
        json_put_text(w, f->key, regime < 0 ? NULL : bench_regime_name[regime]);
        break;
    }
    case FIELD_NUMBERS: put_numbers(w, f, p); break;
    case FIELD_RECORD: put_record(w, f->key, f->shape, p); break;
    case FIELD_LIST: put_list(w, f, p); break;
    }
}

static void put_fields(JsonWriter *w, const BenchShape *shape, const char *from)
{
    for (int i = 0; i < shape->n; i++)
        put_field(w, &shape->field[i], from + shape->field[i].at);
}

static void put_record(JsonWriter *w, const char *key, const BenchShape *shape, const char *from)
{
    json_begin(w, key, '{', shape->on_a_line);
    put_fields(w, shape, from);
    json_end(w);
}

void bench_json(const Bench *b, Buf *out)
{
    JsonWriter w = {.out = out};
    json_begin(&w, NULL, '{', false);
    json_put_text(&w, "format", bench_format);
    put_fields(&w, &bench_shape, (const char *)b);
    json_end(&w);
}
