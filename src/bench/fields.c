// fields.c - the tables of fields, in the order of the file. A change here changes the form of
// results.json: files of another form are refused by name (bench_format).
#include "fields.h"

#include <stddef.h>

const char bench_format[] = "baton bench 1";

const char *const bench_regime_name[BENCH_REGIMES] = {"burst", "sustained"};
const char *const bench_state_name[BENCH_STATES] = {"not tried", "right", "wrong", "missing",
                                                    "failed"};
static const char *const method_name[] = {"event", "graph"};
static const char *const cache_name[] = {"warm", "cold"};

// A table is a list of rows F(type, member); CHOICE and RECORD rows carry what they refer to.
#define SIMPLE(T, type, member) {#member, FIELD_##type, offsetof(T, member), NULL, 0, NULL}
#define CHOICE(T, member, names) \
    {#member, FIELD_CHOICE, offsetof(T, member), names, COUNT(names), NULL}
#define RECORD(T, member, shape) {#member, FIELD_RECORD, offsetof(T, member), NULL, 0, &shape}
#define LIST(T, member, shape) {#member, FIELD_LIST, offsetof(T, member), NULL, 0, &shape}
#define SHAPE(name, T, on_a_line) \
    static const BenchShape name = {name##_field, COUNT(name##_field), sizeof(T), on_a_line}

static const BenchField machine_field[] = {
#define F(type, member) SIMPLE(BenchMachine, type, member)
    F(TEXT, name), F(INT, number), F(TEXT, uuid), F(INT, sms), F(INT, major), F(INT, minor),
    F(I64, l2_bytes), F(TEXT, driver), F(TEXT, cuda), F(TEXT, host), F(NUMBER, power_limit),
    F(NUMBER, max_sm_mhz), F(MAYBE, no_meter), F(NUMBER, ceiling_tflops), F(NUMBER, ceiling_tbs),
#undef F
};
SHAPE(machine, BenchMachine, false);

static const BenchField version_field[] = {
#define F(type, member) SIMPLE(BenchVersion, type, member)
    F(TEXT, name), F(TEXT, version),
#undef F
};
SHAPE(version, BenchVersion, true);

static const BenchField impl_field[] = {
#define F(type, member) SIMPLE(BenchImpl, type, member)
    F(TEXT, name), F(TEXT, label), F(BOOL, peer), F(TEXT, file), F(TEXT, options),
    F(TEXT, source_sha256), F(TEXT, code_sha256),
#undef F
};
SHAPE(impl, BenchImpl, false);

static const BenchField size_field[] = {
#define F(type, member) SIMPLE(BenchSize, type, member)
    F(TEXT, text), F(TEXT, label), F(NUMBER, flops), F(NUMBER, bytes), F(NUMBER, work),
#undef F
};
SHAPE(size, BenchSize, true);

static const BenchField check_field[] = {
#define F(type, member) SIMPLE(BenchCase, type, member)
    F(INT, impl), F(INT, size), CHOICE(BenchCase, state, bench_state_name), F(TEXT, why),
    F(NUMBER, compile_ms), F(NUMBER, convert_ms), F(NUMBER, first_ms), F(I64, elements),
    F(I64, checked), F(I64, rows), F(I64, rows_checked), F(I64, wrong), F(NUMBER, worst),
    F(NUMBER, allowed_abs), F(NUMBER, allowed_rel), F(TEXT, reference), F(TEXT, proof),
    F(NUMBER, event_ms), F(NUMBER, graph_ms),
#undef F
};
SHAPE(check, BenchCase, false);

static const BenchField reading_field[] = {
#define F(type, member) SIMPLE(RtReading, type, member)
    F(NUMBER, ms), F(NUMBER, sm_mhz), F(NUMBER, memory_mhz), F(NUMBER, watts), F(NUMBER, celsius),
    F(NUMBER, joules), F(U64, reasons), F(BOOL, has_reasons),
#undef F
};
SHAPE(reading, RtReading, true);

static const BenchField turn_field[] = {
#define F(type, member) SIMPLE(BenchTurn, type, member)
    F(INT, impl), F(INT, size), F(INT, round), CHOICE(BenchTurn, regime, bench_regime_name),
    F(INT, group), F(NUMBER, load_ms), F(NUMBER, idle_ms), F(NUMBER, cool_ms), F(NUMBERS, ms),
    F(NUMBER, host_ms), F(BOOL, host_bound), RECORD(BenchTurn, before, reading),
    RECORD(BenchTurn, after, reading), LIST(BenchTurn, during, reading),
#undef F
};
SHAPE(turn, BenchTurn, false);

static const BenchField warning_field[] = {
    {"kind", FIELD_CHOICE, offsetof(BenchWarning, kind), bench_warning_name, BENCH_WARNINGS, NULL},
#define F(type, member) SIMPLE(BenchWarning, type, member)
    F(INT, impl), F(INT, size), F(REGIME, regime), F(BOOL, refused), F(TEXT, text),
#undef F
};
SHAPE(warning, BenchWarning, false);

static const BenchField bench_field[] = {
#define F(type, member) SIMPLE(Bench, type, member)
    F(TEXT, op), F(TEXT, title), F(MAYBE, incomplete), F(TEXT, inputs), F(TEXT, formula),
    F(TEXT, unit_of_small), F(TEXT, command), F(TEXT, started), F(NUMBER, seconds), F(U64, seed),
    F(INT, warmup), F(INT, repeat), F(INT, rounds), F(NUMBER, cool), F(NUMBER, load_s),
    F(NUMBER, idle_s), CHOICE(Bench, method, method_name), CHOICE(Bench, cache, cache_name),
    F(I64, cold_bytes), F(NUMBER, product_rate), F(BOOL, causal), F(BOOL, has_causal), F(INT, yardstick),
    RECORD(Bench, machine, machine), LIST(Bench, versions, version), LIST(Bench, impls, impl),
    LIST(Bench, sizes, size), LIST(Bench, warnings, warning), LIST(Bench, cases, check),
    LIST(Bench, turns, turn),
#undef F
};
const BenchShape bench_shape = {bench_field, COUNT(bench_field), sizeof(Bench), false};
