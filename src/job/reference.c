// reference.c - the references, and the binding of shapes and arguments to them.
//
// Each is the definition of its operation, row by row, in double precision over the inputs as they
// are in memory (already rounded to their type). It is to be read and believed: no blocking, no
// online softmax, nothing that it shares with the kernels that it judges.
#include "reference.h"
#include "data.h"
#include "parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of the letter; each letter of a reference's shapes was bound by bind_shapes.
static i64 extent(const RefCase *c, char letter)
{
    for (int i = 0; i < c->nletters; i++)
        if (c->letter[i] == letter) return c->extent[i];
    BUG("the reference %s has no extent %c", c->ref->name, letter);
}

// Four floats become four doubles and are multiplied at once; -O2 alone leaves such loops scalar.
typedef float Float4 __attribute__((vector_size(16)));
typedef double Double4 __attribute__((vector_size(32)));

// memcpy: x need not be aligned to 16 bytes.
static inline void load4(Double4 *out, const float *x)
{
    Float4 f;
    memcpy(&f, x, sizeof f);
    *out = __builtin_convertvector(f, Double4);
}

// Sum of products in fp64, in eight partial sums so that the additions do not wait for one another.
static double dot(const float *x, const float *y, i64 n)
{
    Double4 s = {0}, t = {0}, a, b;
    double rest = 0;
    i64 i = 0;
    for (; i + 8 <= n; i += 8) {
        load4(&a, x + i);
        load4(&b, y + i);
        s += a * b;
        load4(&a, x + i + 4);
        load4(&b, y + i + 4);
        t += a * b;
    }
    for (; i < n; i++) rest += (double)x[i] * y[i];
    s += t;
    return (s[0] + s[1]) + (s[2] + s[3]) + rest;
}

// out[i] += p * x[i]
static void add_scaled(double *out, double p, const float *x, i64 n)
{
    i64 i = 0;
    for (; i + 4 <= n; i += 4) {
        Double4 a, o;
        load4(&a, x + i);
        memcpy(&o, out + i, sizeof o);
        o += a * p;
        memcpy(out + i, &o, sizeof o);
    }
    for (; i < n; i++) out[i] += p * (double)x[i];
}

// ---- attention: o = softmax(scale * q k^T) v, row by row ----------------------------------------
// q[B,S,H,D], k[B,T,G,D], v[B,T,G,D] -> o[B,S,H,D]; H is a multiple of G (heads share keys). With
// causal, query s sees keys 0..s + T - S; a query that sees none gives zeros.
static void attention_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    i64 S = extent(c, 'S'), H = extent(c, 'H'), D = extent(c, 'D');
    i64 T = extent(c, 'T'), G = extent(c, 'G');
    i64 head = row % H, s = row / H % S, batch = row / H / S;
    i64 keys = c->causal ? MIN(T, MAX(s + T - S + 1, (i64)0)) : T;
    i64 group = head / (H / G);
    const float *q = c->f32[0] + first;
    const float *k = c->f32[1] + ((batch * T) * G + group) * D;
    const float *v = c->f32[2] + ((batch * T) * G + group) * D;
    double max = -INFINITY, sum = 0;
    for (i64 t = 0; t < keys; t++) {
        // Two passes over the keys: the maximum is known before any exponential is taken, so none
        // overflows.
        scratch[t] = c->scale * dot(q, k + t * G * D, D);
        max = scratch[t] > max ? scratch[t] : max;
    }
    for (i64 d = 0; d < n; d++) out[d] = 0;
    for (i64 t = 0; t < keys; t++) {
        double p = exp(scratch[t] - max);
        sum += p;
        add_scaled(out, p, v + t * G * D, n);
    }
    for (i64 d = 0; d < n && keys; d++) out[d] /= sum;
}
static const char *attention_rule(const RefCase *c)
{
    if (extent(c, 'H') && (!extent(c, 'G') || extent(c, 'H') % extent(c, 'G')))
        return "the reference attention needs query heads in a multiple of key heads";
    return NULL;
}
// One score per key.
static i64 attention_scratch(const RefCase *c) { return extent(c, 'T'); }
// Multiply-adds of both products for one query; under the mask a query sees half of the keys on
// average.
static double attention_work(const RefCase *c)
{
    return (c->causal ? 1.0 : 2.0) * (double)extent(c, 'T') * (double)extent(c, 'D');
}
// The usual count: both products, half of them under the causal mask; no softmax.
static double attention_flops(const RefCase *c)
{
    double n = (double)extent(c, 'B') * (double)extent(c, 'H') * (double)extent(c, 'S');
    return (c->causal ? 2 : 4) * n * (double)extent(c, 'T') * (double)extent(c, 'D');
}

// ---- gemm: c[M,N] = a[M,K] b[N,K]^T -------------------------------------------------------------
// One row of the result: b is stored with K innermost, so each element is a product of two runs.
static void gemm_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    i64 K = extent(c, 'K');
    (void)first;
    (void)scratch;
    for (i64 j = 0; j < n; j++) out[j] = dot(c->f32[0] + row * K, c->f32[1] + j * K, K);
}
static double gemm_work(const RefCase *c)
{
    return (double)extent(c, 'N') * (double)extent(c, 'K');
}
static double gemm_flops(const RefCase *c)
{
    return 2.0 * (double)extent(c, 'M') * (double)extent(c, 'N') * (double)extent(c, 'K');
}

// ---- rowsum: y[m] = sum over n of x[m,n] --------------------------------------------------------
// Summed in the order of the columns: in fp64 the order is far below the tolerance.
static void rowsum_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    i64 N = extent(c, 'N');
    double sum = 0;
    (void)row;
    (void)n;
    (void)scratch;
    for (i64 i = 0; i < N; i++) sum += data_get(c->in[0].type, c->in[0].data, first * N + i);
    out[0] = sum;
}
static double rowsum_work(const RefCase *c) { return (double)extent(c, 'N'); }

// ---- element by element: exact, so the result is rounded to the output's type ------------------
// A copy must be exact, so the reference is the input itself.
static void copy_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    (void)row;
    (void)scratch;
    for (i64 i = 0; i < n; i++) out[i] = data_get(c->in[0].type, c->in[0].data, first + i);
}
static void add_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    (void)row;
    (void)scratch;
    for (i64 i = 0; i < n; i++) {
        double sum = data_get(c->in[0].type, c->in[0].data, first + i) +
                     data_get(c->in[1].type, c->in[1].data, first + i);
        // Through the output's own type, in the place of the double: exact kernels must give these
        // very bits.
        data_put(c->out.type, &out[i], 0, sum);
        out[i] = data_get(c->out.type, &out[i], 0);
    }
}
static double element_work(const RefCase *c) { return (double)c->row_len; }

// ---- correction: states of segments, chained through their sequence -----------------------------
// Of segment s and head h: local[S,H,K,V] is the state at its end when it began with zeros,
// propagation[S,H,K,K] what it multiplies the state in front of it with, out[S,H,K,V] the state in
// front of it. Sequence n has the segments offsets[n] to offsets[n+1] - 1 and begins with raw[n], or
// with zeros where raw has no sequences:
//     state(s + 1) = local[s] + (fallback[s] ? propagation[s] state(s) : 0)
// reverse: the sequence is walked from its last segment to its first, and propagation is transposed.
// vk: local, raw and out are [S,H,V,K]. A segment of no sequence has no right value: NaN.
static i64 correction_first(const RefCase *c, i64 s, i64 *sequence)
{
    for (i64 n = 0; n + 1 < extent(c, 'P'); n++) {
        i64 lo = (i64)c->f32[3][n], hi = (i64)c->f32[3][n + 1];
        if (s < lo || s >= hi) continue;
        *sequence = n;
        return c->reverse ? hi - 1 : lo;
    }
    return -1;
}

// One matrix of an array in the layout of the states, as [K][V].
static void correction_read(const RefCase *c, const float *x, double *to)
{
    i64 K = extent(c, c->vk ? 'B' : 'A'), V = extent(c, c->vk ? 'A' : 'B');
    for (i64 k = 0; k < K; k++)
        for (i64 v = 0; v < V; v++) to[k * V + v] = (double)(c->vk ? x[v * K + k] : x[k * V + v]);
}

// to += propagation of `at` (segment and head), transposed in reverse, times `state`.
static void correction_step(const RefCase *c, i64 at, const double *state, double *to)
{
    i64 K = extent(c, 'C'), V = extent(c, c->vk ? 'A' : 'B');
    const float *m = c->f32[1] + at * K * K;
    for (i64 k = 0; k < K; k++)
        for (i64 j = 0; j < K; j++) {
            double f = (double)(c->reverse ? m[j * K + k] : m[k * K + j]);
            for (i64 v = 0; v < V; v++) to[k * V + v] += f * state[j * V + v];
        }
}

// A row is the whole state of a segment and head. Its chain begins where nothing older counts: at
// the sequence's first segment, or behind a segment that does not fall back.
static void correction_row(const RefCase *c, i64 row, i64 first, i64 n, double *out, double *scratch)
{
    i64 H = extent(c, 'H'), R = extent(c, 'R'), head = row % H, s = row / H, sequence = 0;
    i64 step = c->reverse ? -1 : 1, origin = correction_first(c, s, &sequence), from = s;
    double *state = scratch, *next = scratch + n;
    (void)first;
    for (i64 i = 0; i < n; i++) state[i] = origin < 0 ? NAN : 0;
    while (origin >= 0 && from != origin && c->f32[2][(from - step) * H + head] != 0) from -= step;
    if (origin >= 0 && from != origin)
        correction_read(c, c->f32[0] + ((from - step) * H + head) * n, state);
    else if (origin >= 0 && R)
        correction_read(c, c->f32[4] + (sequence * H + head) * n, state);
    for (; origin >= 0 && from != s; from += step) {
        correction_read(c, c->f32[0] + (from * H + head) * n, next);
        correction_step(c, from * H + head, state, next);
        double *spent = state;
        state = next;
        next = spent;
    }
    i64 K = extent(c, 'C'), V = K ? n / K : 0;
    for (i64 k = 0; k < K; k++)
        for (i64 v = 0; v < V; v++) out[c->vk ? v * K + k : k * V + v] = state[k * V + v];
}
static i64 correction_scratch(const RefCase *c) { return 2 * c->row_len; }
// Half of a chain, if all sequences are one and everything falls back: too much for most.
static double correction_work(const RefCase *c)
{
    return (double)c->row_len * (double)extent(c, 'C') * (double)extent(c, 'S') / 2;
}
static const char *correction_rule(const RefCase *c)
{
    if (extent(c, c->vk ? 'B' : 'A') != extent(c, 'C'))
        return "the reference correction needs states and matrices of one K";
    if (extent(c, 'P') < 1 || (extent(c, 'R') && extent(c, 'R') != extent(c, 'P') - 1))
        return "the reference correction needs an offset more than sequences, and a raw state of "
               "each or of none";
    return NULL;
}

static i64 no_scratch(const RefCase *c)
{
    (void)c;
    return 0;
}
// Memory-bound: the report gives bytes instead.
static double no_flops(const RefCase *c)
{
    (void)c;
    return 0;
}

// Columns: name, shapes of the inputs, their number, shape of the output, trailing dimensions of a
// row, whether inputs are wanted as f32, arguments, the four functions, and the rule of the extents.
static const Reference references[] = {
    {"attention", {"BSHD", "BTGD", "BTGD"}, 3, "BSHD", 1, true, "causal scale", attention_row,
     attention_scratch, attention_work, attention_flops, attention_rule},
    {"gemm", {"MK", "NK"}, 2, "MN", 1, true, "", gemm_row, no_scratch, gemm_work, gemm_flops, NULL},
    {"correction", {"SHAB", "SHCC", "SH", "P", "RHAB"}, 5, "SHAB", 2, true, "reverse vk",
     correction_row, correction_scratch, correction_work, no_flops, correction_rule},
    {"rowsum", {"MN"}, 1, "M", 0, false, "", rowsum_row, no_scratch, rowsum_work, no_flops, NULL},
    {"copy", {NULL}, 1, NULL, 0, false, "", copy_row, no_scratch, element_work, no_flops, NULL},
    {"add", {NULL}, 2, NULL, 0, false, "", add_row, no_scratch, element_work, no_flops, NULL},
};

// The list for messages is written out: it stands beside the table that it repeats.
const Reference *ref_find(const char *name, const char **all)
{
    *all = "attention, gemm, correction, rowsum, copy, add";
    for (int i = 0; i < COUNT(references); i++)
        if (strcmp(references[i].name, name) == 0) return &references[i];
    return NULL;
}

// ---- arguments: small expressions over the extents ----------------------------------------------
typedef struct {
    const char *s;     // what is left to read
    const RefCase *c;
    bool bad;
} Reader;

static double read_sum(Reader *r, int depth);

// A number, the letter of an extent, or a parenthesis with sqrt or rsqrt in front. `depth` bounds
// the recursion, which the contract's text would otherwise choose.
static double read_atom(Reader *r, int depth)
{
    r->s += strspn(r->s, " ");
    bool inverse = strncmp(r->s, "rsqrt(", 6) == 0, root = strncmp(r->s, "sqrt(", 5) == 0;
    if (inverse || root || *r->s == '(') {
        r->s += inverse ? 6 : root ? 5 : 1;
        double v = depth < 32 ? read_sum(r, depth + 1) : 0;
        r->s += strspn(r->s, " ");
        if (depth >= 32 || *r->s != ')') {
            r->bad = true;
            return 0;
        }
        r->s++;
        return inverse ? 1 / sqrt(v) : root ? sqrt(v) : v;
    }
    // Letters come before numbers: no number begins with one, but for `inf` and `nan`, which are
    // lower case and refused as not finite.
    for (int i = 0; i < r->c->nletters; i++) {
        if (*r->s == r->c->letter[i]) {
            r->s++;
            return (double)r->c->extent[i];
        }
    }
    char *end;
    double v = strtod(r->s, &end);
    if (end == r->s) r->bad = true;
    r->s = end;
    return v;
}

// The usual precedences; both read on from r->s and stop at what they do not know.
static double read_product(Reader *r, int depth)
{
    double v = read_atom(r, depth);
    for (;;) {
        r->s += strspn(r->s, " ");
        if (r->bad || (*r->s != '*' && *r->s != '/')) return v;
        bool times = *r->s++ == '*';
        double w = read_atom(r, depth);
        v = times ? v * w : v / w;
    }
}

// A sum of products, from left to right.
static double read_sum(Reader *r, int depth)
{
    double v = read_product(r, depth);
    for (;;) {
        r->s += strspn(r->s, " ");
        if (r->bad || (*r->s != '+' && *r->s != '-')) return v;
        bool plus = *r->s++ == '+';
        double w = read_product(r, depth);
        v = plus ? v + w : v - w;
    }
}

// The key must be one whole word of the reference's list; its value a finite number over the
// extents.
static const char *bind_arguments(Arena *a, RefCase *c, const RefArgument *arg, int nargs)
{
    c->causal = c->reverse = c->vk = false;
    c->scale = 1;
    for (int i = 0; i < nargs; i++) {
        const char *known = strstr(c->ref->arguments, arg[i].key);
        size_t n = strlen(arg[i].key);
        if (!n || !known || (known[n] && known[n] != ' ') ||
            (known != c->ref->arguments && known[-1] != ' '))
            return arena_printf(a, "the reference %s has no argument `%s`; it takes: %s",
                                c->ref->name, arg[i].key,
                                *c->ref->arguments ? c->ref->arguments : "none");
        Reader r = {arg[i].value, c, false};
        double v = read_sum(&r, 0);
        if (r.bad || *r.s || !isfinite(v))
            return arena_printf(a, "the reference %s: `%s=%s` is no number over the extents %.*s",
                                c->ref->name, arg[i].key, arg[i].value, c->nletters, c->letter);
        if (strcmp(arg[i].key, "causal") == 0) c->causal = v != 0;
        if (strcmp(arg[i].key, "scale") == 0) c->scale = v;
        if (strcmp(arg[i].key, "reverse") == 0) c->reverse = v != 0;
        if (strcmp(arg[i].key, "vk") == 0) c->vk = v != 0;
    }
    return NULL;
}

// ---- shapes -------------------------------------------------------------------------------------
// Each letter gets its extent from the first tensor that has it; others must agree.
static const char *bind_shape(Arena *a, RefCase *c, const RefTensor *t, const char *letters,
                              const char *what)
{
    if (t->rank != (int)strlen(letters))
        return arena_printf(a, "the reference %s needs %s with the dimensions %s, found %d of them",
                            c->ref->name, what, letters, t->rank);
    for (int d = 0; d < t->rank; d++) {
        int k = 0;
        while (k < c->nletters && c->letter[k] != letters[d]) k++;
        if (k == c->nletters) {
            c->letter[c->nletters] = letters[d];
            c->extent[c->nletters++] = t->dim[d];
        } else if (c->extent[k] != t->dim[d]) {
            return arena_printf(a, "the reference %s: %c is %lld in an earlier tensor and "
                                   "%lld in %s",
                                c->ref->name, letters[d], (long long)c->extent[k],
                                (long long)t->dim[d], what);
        }
    }
    return NULL;
}

// Inputs first, then the output; `any shape` references compare numbers of elements only.
static const char *bind_shapes(Arena *a, RefCase *c)
{
    static const char *const nth[] = {"input 1", "input 2", "input 3", "input 4",
                                      "input 5"};
    const Reference *r = c->ref;
    for (int i = 0; i < c->nin; i++) {
        if (r->in[0]) {
            const char *why = bind_shape(a, c, &c->in[i], r->in[i], nth[i]);
            if (why) return why;
        } else if (c->in[i].count != c->out.count) {
            return arena_printf(a, "the reference %s needs inputs and output of one size", r->name);
        }
    }
    if (r->out) {
        const char *why = bind_shape(a, c, &c->out, r->out, "the output");
        if (why) return why;
    }
    return NULL;
}

// Rows are what is computed, sampled and shared out between threads. Where the reference knows no
// shape, the output is one line, cut into rows of FLAT_ROW elements.
static void set_rows(RefCase *c)
{
    enum { FLAT_ROW = 1024 }; // elements of a row where the shape does not matter
    if (!c->ref->out) {
        c->row_len = FLAT_ROW;
        c->nrow_dims = 1;
        c->row_dim[0] = (c->out.count + FLAT_ROW - 1) / FLAT_ROW;
        c->rows = c->row_dim[0];
        return;
    }
    c->rows = c->row_len = 1;
    for (int d = 0; d < c->out.rank; d++) {
        if (d >= c->out.rank - c->ref->row_rank) {
            c->row_len *= c->out.dim[d];
        } else {
            c->row_dim[c->nrow_dims++] = c->out.dim[d];
            c->rows *= c->out.dim[d];
        }
    }
    // Rows without elements: nothing to compare.
    if (!c->row_len) c->rows = 0;
}

typedef struct {
    const RefTensor *t;
    float *out;
} Widen;

static void widen_piece(void *ctx, i64 lo, i64 hi, int worker)
{
    const Widen *w = ctx;
    (void)worker;
    for (i64 i = lo; i < hi; i++) w->out[i] = (float)data_get(w->t->type, w->t->data, i);
}

// Inputs are widened to f32 once, which holds every type up to 32 bits exactly, instead of for each
// row that reads them.
const char *ref_begin(Arena *a, const Reference *r, const RefArgument *arg, int nargs, RefCase *c)
{
    c->ref = r;
    if (c->nin != r->nin)
        return arena_printf(a, "the reference %s takes %d inputs, the contract's `op:` names %d",
                            r->name, r->nin, c->nin);
    const char *why = bind_shapes(a, c);
    if (!why) why = bind_arguments(a, c, arg, nargs);
    if (!why && r->rule) why = r->rule(c);
    if (why) return why;
    set_rows(c);
    for (int i = 0; i < c->nin && r->needs_f32; i++) {
        // Not in the arena, as they are as large as the inputs: ref_end frees them.
        c->f32[i] = malloc(sizeof(float) * (size_t)c->in[i].count + 1);
        if (!c->f32[i]) return "not enough memory for the reference";
        Widen w = {&c->in[i], c->f32[i]};
        parallel_for(c->in[i].count, 1 << 16, widen_piece, &w);
    }
    return NULL;
}

void ref_end(RefCase *c)
{
    for (int i = 0; i < REF_MAX_INPUTS; i++) {
        free(c->f32[i]);
        c->f32[i] = NULL;
    }
}
