// expr_test.c - integer expressions: folding against a plain evaluator on random trees, printing
// and reading back to the same pointer, ranges and divisors against enumeration, and the folds that
// the rest of the compiler counts on by name.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/base/expr.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
    ExprPool *pool;
    u64 random;
} Test;

static void check(Test *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20) printf("FAILED %s: %s\n", what, detail);
}

static u32 next_random(Test *t, u32 n)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (u32)(t->random >> 33) % n;
}

// ---- random trees against a plain evaluator ----------------------------------------------------

// The same tree unfolded.
typedef struct Tree Tree;
struct Tree {
    int op;
    i64 value;     // EX_CONST: itself; EX_VAR: index into var
    Tree *a, *b, *c;
};
enum { VARS = 5 };
static const struct {
    const char *name;
    i64 lo, hi;
} var[VARS] = {{"tid", 0, 383}, {"lane", 0, 31}, {"M", 0, 100000}, {"%i", -50, 50}, {"$u", 0, 7}};

static Tree *random_tree(Test *t, Arena *a, int depth)
{
    static const i64 constants[] = {0, 1, -1, 2, 3, 4, 8, 16, 32, 64, 127, 128, 5, -7, 1000};
    Tree *e = ARENA_NEW(a, Tree);
    if (depth == 0 || next_random(t, 5) == 0) {
        e->op = next_random(t, 2) ? EX_VAR : EX_CONST;
        e->value = e->op == EX_VAR ? next_random(t, VARS)
                                   : constants[next_random(t, COUNT(constants))];
        return e;
    }
    static const u8 likely[] = {EX_ADD, EX_ADD, EX_SUB, EX_MUL, EX_MUL,
                                EX_DIV, EX_MOD, EX_DIV, EX_MOD};
    e->op = next_random(t, 2) ? likely[next_random(t, COUNT(likely))]
                              : EX_ADD + (int)next_random(t, EX_COUNT - EX_ADD);
    e->a = random_tree(t, a, depth - 1);
    e->b = random_tree(t, a, depth - 1);
    if (e->op == EX_SELECT) e->c = random_tree(t, a, depth - 1);
    return e;
}

static const Expr *build(ExprPool *p, const Tree *t)
{
    if (t->op == EX_CONST) return expr_const(p, t->value);
    if (t->op == EX_VAR) return expr_var(p, var[t->value].name);
    const Expr *a = build(p, t->a), *b = build(p, t->b);
    if (t->op == EX_SELECT) return expr_select(p, a, b, build(p, t->c));
    return expr_bin(p, (ExprOp)t->op, a, b);
}

// False when the value does not exist or leaves 31 bits anywhere on the way: below that a sum that
// was multiplied out and reordered cannot overflow, so every value must come out.
static bool tree_value(const Tree *t, const i64 *values, i64 *out)
{
    i64 a, b, c;
    const i64 most = (i64)1 << 31;
    if (t->op == EX_CONST || t->op == EX_VAR) {
        *out = t->op == EX_CONST ? t->value : values[t->value];
        return true;
    }
    if (!tree_value(t->a, values, &a) || !tree_value(t->b, values, &b)) return false;
    if (t->op == EX_SELECT) {
        if (!tree_value(t->c, values, &c)) return false;
        *out = a ? b : c;
        return true;
    }
    __int128 v = 0;
    switch (t->op) {
    case EX_ADD: v = (__int128)a + b; break;
    case EX_SUB: v = (__int128)a - b; break;
    case EX_MUL: v = (__int128)a * b; break;
    case EX_DIV: if (!b) return false; v = a / b; break;
    case EX_MOD: if (!b) return false; v = a % b; break;
    case EX_MIN: v = a < b ? a : b; break;
    case EX_MAX: v = a > b ? a : b; break;
    case EX_AND: v = a & b; break;
    case EX_OR: v = a | b; break;
    case EX_XOR: v = a ^ b; break;
    case EX_SHL: if (b < 0 || b > 60) return false; v = (__int128)a * ((i64)1 << b); break;
    case EX_SHR: if (b < 0 || b > 63) return false; v = a >> b; break;
    case EX_EQ: v = a == b; break;
    case EX_NE: v = a != b; break;
    case EX_LT: v = a < b; break;
    case EX_LE: v = a <= b; break;
    case EX_LAND: v = a && b; break;
    case EX_LOR: v = a || b; break;
    }
    *out = (i64)v;
    return v < most && v > -most;
}

typedef struct {
    const i64 *values;
} Bindings;

static bool lookup(void *ctx, const char *name, i64 *value)
{
    const Bindings *b = ctx;
    for (int i = 0; i < VARS; i++) {
        if (strcmp(name, var[i].name) != 0) continue;
        *value = b->values[i];
        return true;
    }
    return false;
}

static void random_trees(Test *t, int trees)
{
    for (int n = 0; n < trees; n++) {
        Arena *a = arena_new(0);
        Tree *tree = random_tree(t, a, 1 + (int)next_random(t, 5));
        const Expr *e = build(t->pool, tree);
        Buf text = {0};
        expr_print(e, &text);
        const char *s = text.s, *err = NULL;
        check(t, expr_read(t->pool, &s, &err) == e && *s == 0, "print, read", text.s);
        i64 lo, hi, power = expr_pow2_divisor(t->pool, e);
        expr_range(t->pool, e, &lo, &hi);
        for (int k = 0; k < 20; k++) {
            i64 values[VARS], want, got;
            for (int v = 0; v < VARS; v++)
                values[v] = var[v].lo + next_random(t, (u32)(var[v].hi - var[v].lo + 1));
            if (!tree_value(tree, values, &want)) continue;
            Bindings bind = {values};
            const char *why = expr_eval(e, lookup, &bind, &got);
            check(t, !why && got == want, "value", text.s);
            check(t, want >= lo && want <= hi, "range", text.s);
            check(t, want % power == 0, "power of two", text.s);
        }
        buf_free(&text);
        arena_free(a);
    }
}

// ---- folds by name -----------------------------------------------------------------------------

static void folds(Test *t)
{
    static const struct {
        const char *text, *want;
    } row[] = {
        {"(128*M + lane)/128", "M"},
        {"(128*M + lane)%128", "lane"},
        {"(128*M + lane + 3)/128", "M"},
        {"M + 3 - M", "3"},
        {"2*M + 3*M - 5*M", "0"},
        {"lane/32", "0"},
        {"lane%32", "lane"},
        {"tid/128*128 + tid%128", "tid"},
        {"(tid/32*32 + lane)/32", "tid/32"},
        {"(32*(tid/32) + lane)/64", "tid/64"},
        {"(64*M + 32)/64", "M"},
        {"M*64%64", "0"},
        {"%i*64%64", "0"},
        {"%i*64/64", "%i"},
        {"(tid/4)/8", "tid/32"},
        {"tid & 31", "tid % 32"},
        {"tid >> 5", "tid/32"},
        {"M << 3", "M*8"},
        {"min(lane, 40)", "lane"},
        {"max(lane, 40)", "40"},
        {"lane < 32", "1"},
        {"lane >= 32", "0"},
        {"M*(S + 1) - M*S", "M"},
        {"(S + 1)*(S - 1)", "S*S - 1"},
        {"select(lane < 32, M, S)", "M"},
        {"and(1, M == 3)", "M == 3"},
        {"128 - S", "128 - S"},
        {"-S + 128", "128 - S"},
        {"tid^tid", "0"},
        {"(2*tid + 6)/4", "(tid + 3)/2"},
        {"0x10 + 1", "17"},
        {"-9223372036854775808", "-9223372036854775808"},
    };
    for (int i = 0; i < COUNT(row); i++) {
        const char *s = row[i].text, *w = row[i].want, *err;
        const Expr *got = expr_read(t->pool, &s, &err), *want = expr_read(t->pool, &w, &err);
        Buf text = {0};
        buf_printf(&text, "%s gives ", row[i].text);
        if (got) expr_print(got, &text);
        check(t, got && got == want && !*s && !*w, "fold", text.s);
        buf_free(&text);
    }
    ExprPool *p = t->pool;
    const Expr *m = expr_var(p, "M"), *c = expr_const(p, 64);
    check(t, expr_cdiv(p, expr_mul(p, m, c), c) == m, "cdiv of a multiple", "M*64");
}

// What must be refused or reported, each with its reason.
static void refusals(Test *t)
{
    static const struct {
        const char *text, *why;
    } row[] = {
        {"", "an expression must start here: number, name, %register, $variable or ("},
        {"1 +", "an expression must start here: number, name, %register, $variable or ("},
        {"(1", "missing )"},
        {"foo(1, 2)", "unknown function; there are min, max, and, or, select, cdiv"},
        {"min(1)", "too few arguments of a function"},
        {"min(1, 2, 3)", "missing ) after the arguments of a function"},
        {"9223372036854775808", "number does not fit 64 bits"},
        {"99999999999999999999999", "number does not fit 64 bits"},
        {"12ab", "malformed number"},
    };
    for (int i = 0; i < COUNT(row); i++) {
        const char *s = row[i].text, *err = "";
        check(t, !expr_read(t->pool, &s, &err) && !strcmp(err, row[i].why), row[i].text, err);
    }
    static const struct {
        const char *text, *why;
    } eval[] = {
        {"1/(lane - lane)", "division by zero"},
        {"1%(0*M)", "division by zero"},
        {"Z + 1", "unknown variable Z"},
        {"9223372036854775807 + 1", "overflow"},
        {"M*9223372036854775807", "overflow"},
        {"1 << 63", "overflow"},
    };
    i64 values[VARS] = {1, 2, 3, 4, 5}, out;
    Bindings bind = {values};
    for (int i = 0; i < COUNT(eval); i++) {
        const char *s = eval[i].text, *err = NULL;
        const Expr *e = expr_read(t->pool, &s, &err);
        const char *why = e ? expr_eval(e, lookup, &bind, &out) : err;
        check(t, why && !strcmp(why, eval[i].why), eval[i].text, why ? why : "no reason");
    }
}

// Inputs that would blow up a careless implementation.
static void hostile(Test *t)
{
    Buf deep = {0};
    for (int i = 0; i < 100000; i++) buf_putc(&deep, '(');
    const char *s = deep.s, *err = NULL;
    check(t, !expr_read(t->pool, &s, &err), "100000 parentheses", "accepted");
    buf_free(&deep);
    for (int i = 0; i < 20000; i++) buf_printf(&deep, "v%d*v%d + ", i, i + 1);
    buf_puts(&deep, "1");
    s = deep.s;
    const Expr *e = expr_read(t->pool, &s, &err);
    check(t, e != NULL, "a sum of 20000 terms", "refused");
    const Expr *x = expr_var(t->pool, "S");
    for (int i = 0; i < 100; i++) x = expr_bin(t->pool, EX_XOR, expr_add(t->pool, x, x), x);
    Buf out = {0};
    expr_print(x, &out); // 3^100 leaves, were it not cut
    check(t, out.n < 1000000, "a tree that doubles", "too large");
    buf_free(&deep);
    buf_free(&out);
    for (int n = 0; n < 200000; n++) {
        static const char alphabet[] = "()%$+-*/<>=&|^0123456789 abmixS,.";
        char text[24];
        int len = 1 + (int)next_random(t, 22);
        for (int i = 0; i < len; i++) text[i] = alphabet[next_random(t, sizeof alphabet - 1)];
        text[len] = 0;
        s = text;
        e = expr_read(t->pool, &s, &err);
        check(t, s >= text && s <= text + len && (e || err), "random text", text);
    }
}

int main(void)
{
    Arena *a = arena_new(0);
    Test t = {.pool = expr_pool_new(a, intern_new(a)), .random = 1};
    for (int i = 0; i < VARS; i++) expr_set_range(t.pool, var[i].name, var[i].lo, var[i].hi);
    folds(&t);
    refusals(&t);
    random_trees(&t, 40000);
    hostile(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    arena_free(a);
    return t.failed != 0;
}
