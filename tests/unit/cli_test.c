// cli_test.c - the parts of the command line that stand alone: .npy files, generators, references and
// the comparison, likeness of words, and the order constraints of the pass table.
#include "../../src/cli/cli.h"
#include "../../src/job/data.h"
#include "../../src/job/reference.h"
#include "../../src/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check(bool ok, const char *what)
{
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("failed: %s\n", what);
    }
}

// ---- .npy ------------------------------------------------------------------------------------------
static void npy_round_trip(Arena *a)
{
    static const DType types[] = {DT_F32, DT_F16, DT_F64, DT_S32, DT_U32, DT_S64, DT_U64,
                                  DT_S16, DT_U16, DT_S8,  DT_U8,  DT_BOOL};
    for (int t = 0; t < COUNT(types); t++) {
        u8 data[6 * 8];
        for (int i = 0; i < COUNT(data); i++) data[i] = (u8)(i * 7);
        for (int rank = 0; rank <= 3; rank++) {
            i64 dim[3] = {2, 3, 1};
            Buf b = {0};
            NpyArray got;
            npy_write(types[t], rank, dim, data, &b);
            const char *why = npy_read(a, b.s, b.n, &got);
            i64 n = rank == 0 ? 1 : rank == 1 ? 2 : 6;
            check(!why && got.type == types[t] && got.rank == rank && got.count == n, "npy header");
            check(!why && memcmp(got.data, data, (size_t)n * dtype_bytes[types[t]]) == 0, "npy data");
            check(b.n % 8 == 0 || dtype_bytes[types[t]] < 8, "npy alignment");
            buf_free(&b);
        }
    }
}

// Every prefix of a file, and every file with one byte changed, is read or refused but never trusted.
static void npy_garbage(Arena *a)
{
    float data[4] = {1, 2, 3, 4};
    i64 dim[2] = {2, 2};
    Buf b = {0};
    npy_write(DT_F32, 2, dim, data, &b);
    bool all_refused = true, all_safe = true;
    for (size_t n = 0; n < b.n; n++) {
        u8 *copy = malloc(n ? n : 1); // exact size, so that a sanitizer sees any read beyond
        if (n) memcpy(copy, b.s, n);
        NpyArray got;
        all_refused = all_refused && npy_read(a, copy, n, &got) != NULL;
        free(copy);
    }
    check(all_refused, "npy prefixes");
    for (size_t at = 0; at < b.n - 16; at++) {
        for (int bit = 0; bit < 8; bit++) {
            u8 *copy = malloc(b.n);
            memcpy(copy, b.s, b.n);
            copy[at] ^= (u8)(1 << bit);
            NpyArray got;
            if (!npy_read(a, copy, b.n, &got))
                all_safe = all_safe && got.data + (size_t)got.count * dtype_bytes[got.type] <= copy + b.n;
            free(copy);
        }
    }
    check(all_safe, "npy bit flips");
    buf_free(&b);
    static const char *const bad[] = {
        "{'descr': '>f4', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627775, 1099511627775), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
    };
    for (int i = 0; i < COUNT(bad); i++) {
        Buf f = {0};
        buf_write(&f, "\x93NUMPY\x01\x00", 8);
        buf_putc(&f, (char)strlen(bad[i]));
        buf_putc(&f, 0);
        buf_puts(&f, bad[i]);
        buf_write(&f, data, sizeof data);
        NpyArray got;
        check(npy_read(a, f.s, f.n, &got) != NULL, bad[i]);
        buf_free(&f);
    }
}

// ---- generators --------------------------------------------------------------------------------------
static void generators(Arena *a)
{
    enum { N = 200000 };
    DataSpec uniform, normal, file;
    float *x = ARENA_ARRAY(a, float, N), *y = ARENA_ARRAY(a, float, N);
    check(!data_parse(a, "uniform(-2, 2)", &uniform), "parse uniform");
    check(!data_parse(a, "normal(1,0.5)", &normal), "parse normal");
    check(!data_fill(a, &uniform, 7, "q", DT_F32, N, x), "fill");
    check(!data_fill(a, &uniform, 7, "q", DT_F32, 10, y), "fill fewer");
    check(memcmp(x, y, 10 * sizeof *x) == 0, "an element depends on its index alone");
    data_fill(a, &uniform, 7, "k", DT_F32, N, y);
    check(memcmp(x, y, 40) != 0, "names give different values");
    data_fill(a, &uniform, 8, "q", DT_F32, N, y);
    check(memcmp(x, y, 40) != 0, "seeds give different values");
    double sum = 0, squares = 0;
    bool inside = true;
    for (int i = 0; i < N; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        inside = inside && x[i] >= -2 && x[i] <= 2;
    }
    // The mean of N draws has a deviation of 1.155/sqrt(N) = 0.0026; 0.02 is eight of them.
    check(inside && fabs(sum / N) < 0.02 && fabs(squares / N - 4.0 / 3) < 0.02, "uniform moments");
    data_fill(a, &normal, 7, "q", DT_F32, N, x);
    for (int i = 0, first = 1; i < N; i++, first = 0) {
        if (first) sum = squares = 0;
        sum += x[i];
        squares += (x[i] - 1.0) * (x[i] - 1.0);
    }
    check(fabs(sum / N - 1) < 0.01 && fabs(squares / N - 0.25) < 0.01, "normal moments");
    i32 whole[1000], seen = 0;
    DataSpec dice;
    data_parse(a, "uniform(1,6)", &dice);
    data_fill(a, &dice, 1, "d", DT_S32, 1000, whole);
    for (int i = 0; i < 1000; i++) seen |= whole[i] >= 1 && whole[i] <= 6 ? 1 << whole[i] : 1;
    check(seen == 0x7e, "integers of uniform include both bounds and nothing else");
    DataSpec list, cuts;
    i32 at[9];
    check(!data_parse(a, "list(0, -3,7)", &list) && !data_fill(a, &list, 1, "x", DT_S32, 3, at) &&
              at[0] == 0 && at[1] == -3 && at[2] == 7, "a list");
    check(data_fill(a, &list, 1, "x", DT_S32, 4, at) != NULL, "a list of another length");
    check(!data_parse(a, "cuts(20)", &cuts) && cuts.a == 20 && !cuts.size, "cuts of a number");
    bool rising = true, even = true;
    for (u64 seed = 0; seed < 50; seed++) {
        data_fill(a, &cuts, seed, "x", DT_S32, 9, at);
        rising = rising && at[0] == 0 && at[8] == 20;
        for (int i = 1; i < 9; i++) rising = rising && at[i] >= at[i - 1];
        for (int i = 1; i < 9; i++) even = even && at[i] - at[i - 1] == 20 / 8;
    }
    check(rising && !even, "cuts rise from 0 to the end, unevenly");
    data_fill(a, &cuts, 1, "x", DT_S32, 1, at);
    check(at[0] == 0, "cuts into no pieces");
    check(!data_parse(a, "cuts(S)", &cuts) && !strcmp(cuts.size, "S"), "cuts of a size");
    static const char *const wrong[] = {"list()", "list(1,)", "list(1,2", "list(1)x", "cuts()",
                                        "cuts(-1)", "cuts(S,T)", "cuts(2x)", "uniform(2,1)", "uniform(1)", "uniform(1,2", "normal(0,-1)",
                                        "gauss(0,1)", "", "x.np", "1.5x", "bf16:x"};
    for (int i = 0; i < COUNT(wrong); i++)
        check(data_parse(a, wrong[i], &file) != NULL, wrong[i]);
    check(!data_parse(a, "bf16:x.npy", &file) && file.kind == DATA_FILE && file.raw == DT_BF16, "bf16:");
    check(!data_parse(a, "-1e3", &file) && file.kind == DATA_CONSTANT && file.a == -1000, "constant");
}

// ---- references ----------------------------------------------------------------------------------------
static RefTensor tensor(DType type, int rank, const i64 *dim, const void *data)
{
    RefTensor t = {.type = type, .rank = rank, .count = 1, .data = data};
    for (int d = 0; d < rank; d++) {
        t.dim[d] = dim[d];
        t.count *= dim[d];
    }
    return t;
}

// Compares `got` with the reference and returns the result.
static RefResult compare(Arena *a, const char *name, RefCase *c, const RefArgument *arg, int nargs,
                         double abs)
{
    const char *all;
    RefTolerance t = {.abs = abs};
    const Reference *ref = ref_find(name, &all);
    const char *why = ref ? ref_begin(a, ref, arg, nargs, c) : "no such reference";
    check(!why, why ? why : name);
    RefResult r = {0};
    if (!why) r = ref_compare(a, c, &t, 1e9, 1);
    ref_end(c);
    return r;
}

// Two queries, two keys, one head; small enough to do by hand.
static void attention_by_hand(Arena *a)
{
    const i64 dim[4] = {1, 2, 1, 2};
    const float q[4] = {1, 0, 0, 2}, k[4] = {1, 1, 0, 1}, v[4] = {1, 2, 3, 4};
    // Row 0 sees key 0 only. Row 1: scores 2*s and 2*s with s = 0.5, so both keys weigh the same.
    float o[4] = {1, 2, 2, 3};
    RefArgument arg[2] = {{"causal", "1"}, {"scale", "1/sqrt(D*2)"}};
    RefCase c = {.nin = 3, .in = {tensor(DT_F32, 4, dim, q), tensor(DT_F32, 4, dim, k),
                                  tensor(DT_F32, 4, dim, v)}, .out = tensor(DT_F32, 4, dim, o)};
    RefCase fresh = c;
    RefResult r = compare(a, "attention", &c, arg, 2, 1e-12);
    check(r.wrong == 0 && r.checked == 4 && c.scale == 0.5, "attention, causal");
    o[3] = 3.5f;
    c = fresh;
    r = compare(a, "attention", &c, arg, 2, 1e-12);
    check(r.wrong == 1 && r.worst_at == 3 && fabs(r.worst - 0.5) < 1e-12, "attention finds an error");
    o[3] = NAN;
    c = fresh;
    r = compare(a, "attention", &c, arg, 2, 1e9);
    check(r.wrong == 1 && r.nan == 1 && r.first_nan == 3, "a NaN is wrong under any tolerance");
    arg[1].value = "rsqrt(E)";
    c = fresh;
    const char *all;
    check(ref_begin(a, ref_find("attention", &all), arg, 2, &c) != NULL, "unknown extent");
    ref_end(&c);
    arg[1] = (RefArgument){"scal", "1"};
    c = fresh;
    check(ref_begin(a, ref_find("attention", &all), arg, 2, &c) != NULL, "unknown argument");
    ref_end(&c);
}

static void gemm_by_hand(Arena *a)
{
    const i64 da[2] = {2, 3}, db[2] = {1, 3}, dc[2] = {2, 1};
    const float x[6] = {1, 2, 3, 4, 5, 6}, y[3] = {1, -1, 2};
    const u16 z[2] = {bf16_from_f32(5), bf16_from_f32(11)};
    RefCase c = {.nin = 2, .in = {tensor(DT_F32, 2, da, x), tensor(DT_F32, 2, db, y)},
                 .out = tensor(DT_BF16, 2, dc, z)};
    RefResult r = compare(a, "gemm", &c, NULL, 0, 0);
    check(r.wrong == 0 && r.checked == 2, "gemm");
    c = (RefCase){.nin = 2, .in = {tensor(DT_F32, 2, da, x), tensor(DT_F32, 2, dc, y)},
                  .out = tensor(DT_BF16, 2, dc, z)};
    const char *all;
    check(ref_begin(a, ref_find("gemm", &all), NULL, 0, &c) != NULL, "gemm with wrong shapes");
    ref_end(&c);
}

// States of two numbers, three segments in two sequences, the second of which is empty in the middle.
static void correction_by_hand(Arena *a)
{
    const i64 dx[4] = {3, 1, 2, 1}, dm[4] = {3, 1, 2, 2}, df[2] = {3, 1}, dp[1] = {4}, dr[4] = {3, 1, 2, 1};
    const float ends[6] = {1, 2, 3, 4, 5, 6}, m[12] = {1, 2, 0, 1, 3, 0, 1, 1, 9, 9, 9, 9};
    const float raw[6] = {10, 20, -1, -1, 7, 8};
    const u8 fallback[3] = {1, 0, 1};
    const i32 offsets[4] = {0, 2, 2, 3};
    // Segment 1 of sequence 0: ends[0] + m[0] raw[0] = {1 + 10 + 40, 2 + 20}.
    float forward[6] = {10, 20, 51, 22, 7, 8};
    // Backwards segment 0 has ends[1] alone, since segment 1 does not fall back.
    const float back[6] = {3, 4, 10, 20, 7, 8};
    RefArgument arg[2] = {{"reverse", "0"}, {"vk", "0"}};
    RefCase c = {.nin = 5, .in = {tensor(DT_F32, 4, dx, ends), tensor(DT_F32, 4, dm, m),
                                  tensor(DT_U8, 2, df, fallback), tensor(DT_S32, 1, dp, offsets),
                                  tensor(DT_F32, 4, dr, raw)},
                 .out = tensor(DT_F32, 4, dx, forward)};
    const RefCase fresh = c;
    RefResult r = compare(a, "correction", &c, arg, 2, 0);
    check(r.wrong == 0 && r.checked == 6, "correction, forward");
    forward[2] = 50;
    c = fresh;
    r = compare(a, "correction", &c, arg, 2, 0);
    check(r.wrong == 1 && r.worst_at == 2, "correction finds an error");
    c = fresh;
    c.out = tensor(DT_F32, 4, dx, back);
    arg[0].value = "1";
    r = compare(a, "correction", &c, arg, 2, 0);
    check(r.wrong == 0, "correction, in reverse");
    // Everything falls back and nothing is raw: 0, then ends[1] + transposed m[1] 0.
    const u8 all[3] = {1, 1, 1};
    const i32 one[4] = {0, 0, 3, 3};
    const i64 none[4] = {0, 1, 2, 1}, vk[4] = {3, 1, 1, 2};
    // Segment 1: {5, 6}. Segment 0: {3, 4} + m[1]^T {5, 6} = {3 + 15 + 6, 4 + 6}.
    const float chain[6] = {24, 10, 5, 6, 0, 0};
    for (int layout = 0; layout < 2; layout++) {
        const i64 *dim = layout ? vk : dx;
        c = (RefCase){.nin = 5, .in = {tensor(DT_F32, 4, dim, ends), tensor(DT_F32, 4, dm, m),
                                       tensor(DT_U8, 2, df, all), tensor(DT_S32, 1, dp, one),
                                       tensor(DT_F32, 4, layout ? (i64[4]){0, 1, 1, 2} : none, raw)},
                      .out = tensor(DT_F32, 4, dim, chain)};
        arg[1].value = layout ? "1" : "0";
        r = compare(a, "correction", &c, arg, 2, 0);
        check(r.wrong == 0 && r.checked == 6, "correction without raw states");
    }
    c = fresh;
    c.in[4] = tensor(DT_F32, 4, (i64[4]){2, 1, 2, 1}, raw);
    const char *names;
    check(ref_begin(a, ref_find("correction", &names), arg, 2, &c) != NULL, "a raw state too few");
    ref_end(&c);
}

// A job beyond the budget: a sample, with corners, still seeing NaN anywhere.
static void sampled(Arena *a)
{
    enum { M = 100000, N = 4 };
    const i64 dx[2] = {M, N}, dy[1] = {M};
    float *x = ARENA_ARRAY(a, float, M * N), *y = ARENA_ARRAY(a, float, M);
    for (int i = 0; i < M * N; i++) x[i] = (float)(i % 5);
    for (int i = 0; i < M; i++) y[i] = x[4 * i] + x[4 * i + 1] + x[4 * i + 2] + x[4 * i + 3];
    const char *all;
    RefTolerance t = {0};
    RefCase c = {.nin = 1, .in = {tensor(DT_F32, 2, dx, x)}, .out = tensor(DT_F32, 1, dy, y)};
    check(!ref_begin(a, ref_find("rowsum", &all), NULL, 0, &c), "rowsum");
    RefResult r = ref_compare(a, &c, &t, 1e4, 5);
    check(r.rows_checked >= 1900 && r.rows_checked < M / 10 && r.wrong == 0, "a sample of rows");
    y[M - 1] += 1;
    r = ref_compare(a, &c, &t, 1e4, 5);
    check(r.wrong == 1 && r.worst_at == M - 1, "the last row is in every sample");
    y[12345] = NAN;
    r = ref_compare(a, &c, &t, 1, 5);
    check(r.nan == 1 && r.first_nan == 12345, "NaN is looked for everywhere");
    r = ref_compare(a, &c, &t, 1e12, 5);
    check(r.rows_checked == M && r.wrong == 2, "all rows where the budget allows");
    ref_end(&c);
}

// ---- words and passes ----------------------------------------------------------------------------------
static bool nothing(Compilation *c) { return c != NULL; }

static void words_and_passes(void)
{
    static const char *const names[] = {"--seed", "--seeds", "--schedule", "--device"};
    const char *s = cli_closest("--shedule", names, COUNT(names));
    check(s && strcmp(s, "--schedule") == 0, "likeness");
    check(cli_closest("--frobnicate", names, COUNT(names)) == NULL, "no likeness");
    i64 v;
    check(cli_integer("-12", &v) && v == -12, "integer");
    check(!cli_integer("12x", &v) && !cli_integer("", &v) && !cli_integer("99999999999999999999", &v) &&
              !cli_integer(" 1", &v), "no integer");
    check(!pass_check_order(pass_table, pass_count), "the pass table keeps its constraints");
    const Pass late[] = {{"b", FORM_TILE, nothing, {"a"}, ""}, {"a", FORM_TILE, nothing, {NULL}, ""}};
    check(pass_check_order(late, 2) != NULL, "a pass before one that it needs");
    const Pass back[] = {{"a", FORM_PTX, nothing, {NULL}, ""}, {"b", FORM_TILE, nothing, {NULL}, ""}};
    check(pass_check_order(back, 2) != NULL, "forms that go back");
    const Pass self[] = {{"a", FORM_TILE, nothing, {"a"}, ""}};
    check(pass_check_order(self, 1) != NULL, "a pass that needs itself");
}

int main(void)
{
    Arena *a = arena_new(0);
    npy_round_trip(a);
    npy_garbage(a);
    generators(a);
    attention_by_hand(a);
    gemm_by_hand(a);
    correction_by_hand(a);
    sampled(a);
    words_and_passes();
    arena_free(a);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
