// fields.h - the record as data: each struct of bench.h is a table of fields, and results.json is
// written and read by walking these tables. A field that is not in its table is neither written nor
// read; one that is, cannot be forgotten on one side.
#ifndef BATON_BENCH_FIELDS_H
#define BATON_BENCH_FIELDS_H

#include "bench.h"

// What a field is in C, and in JSON.
typedef enum {
    FIELD_TEXT,    // const char *, never NULL: a text
    FIELD_MAYBE,   // const char * or NULL: a text or null
    FIELD_INT,     // int: a whole number
    FIELD_I64,
    FIELD_U64,
    FIELD_NUMBER,  // double: a number, NAN is null
    FIELD_BOOL,
    FIELD_CHOICE,  // u8: one of the names
    FIELD_REGIME,  // int, a BenchRegime or -1: a name or null
    FIELD_NUMBERS, // VEC(double): a list of numbers
    FIELD_RECORD,  // a struct: an object
    FIELD_LIST     // VEC of a struct: a list of objects
} BenchFieldType;

typedef struct BenchShape BenchShape;
typedef struct {
    const char *key;
    u8 type;                  // BenchFieldType
    size_t at;                // bytes into the struct
    const char *const *names; // FIELD_CHOICE
    int n;                    // how many
    const BenchShape *shape;  // FIELD_RECORD, FIELD_LIST: of the struct
} BenchField;

struct BenchShape {
    const BenchField *field;
    int n;
    size_t bytes;             // of the struct
    bool on_a_line;           // in the file
};

// All VEC(T) have this form. Copied in and out, since they are other types to the compiler.
typedef VEC(void) BenchAnyVec;

extern const BenchShape bench_shape; // of Bench, but its arena
extern const char bench_format[];    // first in the file: what it is, and the version of its form

#endif
