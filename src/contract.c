// contract.c - reading the contract's lines and handing them to the launch plan (contract.h).
//
// Every line is read by a small cursor over its value; its errors point at the word. Continuation
// lines were joined with one blank, so a place behind the first line is only near.
#include "contract.h"
#include "ast/ast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPRESSION = 256 }; // characters: an argument repeats the values of `with` in it

// A line's value and how far it was read; lives for one line. Words that fail leave it where it
// stands, so that the message points at them.
typedef struct {
    Arena *arena;
    Intern *names;
    Diag *diag;
    const AstContractLine *line;
    const char *s; // what is left of the value
    const AstFile *file;
} Cursor;

// ---- words -------------------------------------------------------------------------------------

// The place of a byte of the value in the file.
static Loc place(const Cursor *c, const char *s)
{
    Loc loc = c->line->value_loc;
    loc.col = (u16)MIN((i64)loc.col + (s - c->line->value), 65535);
    return loc;
}

static void skip_blanks(Cursor *c)
{
    while (*c->s == ' ' || *c->s == '\t') c->s++;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Each line stops at its first error.
static bool fail(Cursor *c, const char *required)
{
    skip_blanks(c);
    size_t n = 0;
    while (c->s[n] && c->s[n] != ' ' && n < 20) n++;
    if (n)
        diag_error(c->diag, place(c, c->s), NULL, "'%.*s' found where %s must stand", (int)n, c->s,
                   required);
    else
        diag_error(c->diag, place(c, c->s), NULL, "%s is missing", required);
    return false;
}

// A word of letters, digits and '_'; interned.
static const char *take_name(Cursor *c, const char *required)
{
    skip_blanks(c);
    size_t n = 0;
    if (is_letter(*c->s))
        while (is_letter(c->s[n]) || is_digit(c->s[n])) n++;
    if (!n) {
        fail(c, required);
        return NULL;
    }
    const char *name = intern_n(c->names, c->s, n);
    c->s += n;
    return name;
}

// try_: true and taken if it stands here, behind blanks. need_: an error if not.
static bool try_char(Cursor *c, char ch)
{
    skip_blanks(c);
    if (*c->s != ch) return false;
    c->s++;
    return true;
}

static bool need_char(Cursor *c, char ch)
{
    char text[4] = {'\'', ch, '\'', 0};
    return try_char(c, ch) || fail(c, text);
}

static bool need_end(Cursor *c)
{
    skip_blanks(c);
    return !*c->s || fail(c, "the end of the line");
}

// The number at s, and where it ends; NULL: none. A sign, a point or a digit must stand first: strtod
// alone would take `inf` and `nan` as well.
static const char *number_at(const char *s, double *out)
{
    char *end = NULL;
    if (!is_digit(*s) && *s != '.' && *s != '-') return NULL;
    *out = strtod(s, &end);
    return end == s ? NULL : end;
}

// A number, or a macro of the file that is one.
static bool take_number(Cursor *c, double *out)
{
    skip_blanks(c);
    const char *end = number_at(c->s, out);
    if (!end && is_letter(*c->s)) {
        Cursor at = *c;
        const char *name = take_name(&at, "a number");
        for (int i = c->file->nmacros - 1; i >= 0 && !end; i--) {
            if (strcmp(c->file->macros[i].name, name) != 0) continue;
            const char *rest = number_at(c->file->macros[i].body, out);
            if (!rest || *rest) break;
            end = at.s;
        }
    }
    if (!end) return fail(c, "a number");
    c->s = end;
    return true;
}

// The body of a macro of the file without parameters, or NULL.
static const char *macro_body(const Cursor *c, const char *name)
{
    for (int i = c->file->nmacros - 1; i >= 0; i--)
        if (strcmp(c->file->macros[i].name, name) == 0) return c->file->macros[i].body;
    return NULL;
}

// Text up to a blank that stands outside of parentheses; also stops at one of `stop`.
// Contents such as uniform(-1, 1) are kept as written; who uses them reads them.
static const char *take_text(Cursor *c, const char *stop)
{
    skip_blanks(c);
    size_t n = 0;
    int depth = 0;
    for (; c->s[n]; n++) {
        if (c->s[n] == '(') depth++;
        if (c->s[n] == ')') depth--;
        if (depth <= 0 && (c->s[n] == ' ' || c->s[n] == '\t' || strchr(stop, c->s[n]))) break;
    }
    const char *text = arena_strndup(c->arena, c->s, n);
    c->s += n;
    return text;
}

// ---- one function a key ------------------------------------------------------------------------

// op: NAME(IN, IN) -> OUT, OUT
static void read_op(Cursor *c, Contract *out)
{
    out->op = take_name(c, "the name of the operation");
    out->op_loc = c->line->value_loc;
    if (!out->op || !need_char(c, '(')) return;
    for (bool more = !try_char(c, ')'); more;) {
        skip_blanks(c);
        ContractName n = {NULL, place(c, c->s)};
        n.name = take_name(c, "an input");
        if (!n.name) return;
        vec_push(c->arena, &out->in, n);
        more = try_char(c, ',');
        if (!more && !need_char(c, ')')) return;
    }
    if (!need_char(c, '-') || !need_char(c, '>')) return;
    do {
        skip_blanks(c);
        ContractName n = {NULL, place(c, c->s)};
        n.name = take_name(c, "an output");
        if (!n.name) return;
        vec_push(c->arena, &out->out, n);
    } while (try_char(c, ','));
    need_end(c);
}

// sizes: NAME=INT ...
static void read_sizes(Cursor *c, Contract *out)
{
    for (skip_blanks(c); *c->s; skip_blanks(c)) {
        ContractSize s = {.loc = place(c, c->s)};
        s.name = take_name(c, "a size such as S=512");
        if (!s.name || !need_char(c, '=')) return;
        skip_blanks(c);
        char *end;
        errno = 0; // strtoll gives the nearest bound, and says so here only
        s.value = strtoll(c->s, &end, 10);
        if (errno || end == c->s || (*end && *end != ' ' && *end != ',')) {
            fail(c, "a whole number of 64 bits");
            return;
        }
        c->s = end;
        try_char(c, ',');
        vec_push(c->arena, &out->sizes, s);
    }
}

// where: CONDITION, CONDITION
static void read_where(Cursor *c, Contract *out)
{
    while (true) {
        skip_blanks(c);
        size_t n = 0;
        int depth = 0;
        for (; c->s[n]; n++) {
            if (c->s[n] == '(') depth++;
            if (c->s[n] == ')') depth--;
            if (c->s[n] == ',' && depth <= 0) break;
        }
        if (!n) {
            fail(c, "a condition");
            return;
        }
        ContractText t = {arena_strndup(c->arena, c->s, n), place(c, c->s)};
        vec_push(c->arena, &out->where, t);
        c->s += n;
        if (!try_char(c, ',')) return;
    }
}

// Text up to a comma, or a closing parenthesis, that belongs to nothing inside it.
static bool take_expression(Cursor *c, const char *required, ContractText *out)
{
    skip_blanks(c);
    size_t n = 0;
    for (int depth = 0; c->s[n]; n++) {
        if (depth == 0 && (c->s[n] == ',' || c->s[n] == ')')) break;
        depth += (c->s[n] == '(') - (c->s[n] == ')');
    }
    if (!n) return fail(c, required);
    if (n > MAX_EXPRESSION) {
        diag_error(c->diag, place(c, c->s), NULL,
                   "an expression of %zu characters; it has at most %d", n, MAX_EXPRESSION);
        return false;
    }
    *out = (ContractText){arena_strndup(c->arena, c->s, n), place(c, c->s)};
    c->s += n;
    return true;
}

// One parameter has one source.
static bool is_new(const Cursor *c, const Contract *out, const ContractName *n)
{
    if (!contract_with(out, n->name) && !contract_workspace(out, n->name)) return true;
    diag_error(c->diag, n->loc, NULL, "'%s' already has its source in the contract", n->name);
    return false;
}

// NAME =, the start of an entry of `with` and `workspace`.
static bool take_target(Cursor *c, const char *required, const Contract *out, ContractName *n)
{
    skip_blanks(c);
    *n = (ContractName){NULL, place(c, c->s)};
    n->name = take_name(c, required);
    return n->name && need_char(c, '=') && is_new(c, out, n);
}

// with: NAME = EXPRESSION, NAME = EXPRESSION
static void read_with(Cursor *c, Contract *out)
{
    do {
        ContractWith w;
        if (!take_target(c, "a parameter such as ctas = device.sms", out, &w.param)) return;
        if (!take_expression(c, "its value, such as device.sms", &w.value)) return;
        vec_push(c->arena, &out->with, w);
    } while (try_char(c, ','));
    need_end(c);
}

// workspace: NAME = FUNCTION(EXPRESSION, EXPRESSION), NAME = ..
static void read_workspace(Cursor *c, Contract *out)
{
    do {
        ContractWorkspace w = {0};
        if (!take_target(c, "a parameter such as tasks = causal_tasks(..)", out, &w.param)) return;
        skip_blanks(c);
        w.function.loc = place(c, c->s);
        w.function.name = take_name(c, "the host function that fills the workspace");
        if (!w.function.name || !need_char(c, '(')) return;
        for (bool more = !try_char(c, ')'); more;) {
            ContractText t;
            if (!take_expression(c, "an argument of the host function", &t)) return;
            vec_push(c->arena, &w.args, t);
            more = try_char(c, ',');
            if (!more && !need_char(c, ')')) return;
        }
        vec_push(c->arena, &out->workspaces, w);
    } while (try_char(c, ','));
    need_end(c);
}

// inputs: NAME,NAME = SPEC  NAME = SPEC
static void read_inputs(Cursor *c, Contract *out)
{
    for (skip_blanks(c); *c->s; skip_blanks(c)) {
        int first = out->inputs.n;
        do {
            skip_blanks(c);
            ContractInput in = {.loc = place(c, c->s)};
            in.name = take_name(c, "an input such as q = uniform(-1,1)");
            if (!in.name) return;
            vec_push(c->arena, &out->inputs, in);
        } while (try_char(c, ','));
        if (!need_char(c, '=')) return;
        const char *spec = take_text(c, ",");
        if (!*spec) {
            fail(c, "where the values come from, such as uniform(-1,1)");
            return;
        }
        try_char(c, ',');
        for (int i = first; i < out->inputs.n; i++) out->inputs.at[i].spec = spec;
    }
}

// A sentence for people: it is printed, and nothing checks it here.
static void read_assume(Cursor *c, Contract *out)
{
    ContractText t = {c->line->value, c->line->value_loc};
    if (!*t.text)
        fail(c, "what is assumed");
    else
        vec_push(c->arena, &out->assume, t);
}

// reference NAME KEY=VALUE ...
static bool read_reference(Cursor *c, Contract *out)
{
    out->check_loc = place(c, c->s);
    out->reference = take_name(c, "the name of a reference");
    if (!out->reference) return false;
    for (skip_blanks(c); *c->s && *c->s != ';'; skip_blanks(c)) {
        ContractArgument arg = {.loc = place(c, c->s)};
        arg.key = take_name(c, "an argument such as causal=1");
        if (!arg.key || !need_char(c, '=')) return false;
        arg.value = take_text(c, ";");
        if (!*arg.value) return fail(c, "the value of the argument");
        const char *body = macro_body(c, arg.value);
        if (body) arg.value = body;
        vec_push(c->arena, &out->arguments, arg);
    }
    return true;
}

// check: reference ...; abs X rel Y; expect Z
static void read_check(Cursor *c, Contract *out)
{
    do {
        skip_blanks(c);
        if (!*c->s) break;
        while (*c->s && *c->s != ';') {
            skip_blanks(c);
            const char *at = c->s, *word = take_name(c, "reference, abs, rel or expect");
            if (!word) return;
            if (!strcmp(word, "reference")) {
                if (!read_reference(c, out)) return;
            } else if (!strcmp(word, "abs")) {
                if (!take_number(c, &out->abs)) return;
            } else if (!strcmp(word, "rel")) {
                if (!take_number(c, &out->rel)) return;
            } else if (!strcmp(word, "expect")) {
                if (!take_number(c, &out->expect)) return;
                out->has_expect = true;
            } else {
                diag_error(c->diag, place(c, at),
                           "the form is: reference NAME; abs X rel Y; expect Z",
                           "unknown word '%s' in the check", word);
                return;
            }
            skip_blanks(c);
        }
    } while (try_char(c, ';'));
    if (!out->reference)
        diag_error(c->diag, c->line->value_loc, "write `reference NAME`",
                   "the check names no reference");
}

// A key that repeats adds to what is there; a second line of any other would silently win or lose.
static const struct {
    const char *key;
    bool repeats;
    void (*read)(Cursor *c, Contract *out);
} keys[] = {{"op", false, read_op},        {"sizes", false, read_sizes},
            {"where", true, read_where},   {"inputs", true, read_inputs},
            {"assume", true, read_assume}, {"check", false, read_check},
            {"with", true, read_with},     {"workspace", true, read_workspace}};

// Errors do not end the reading: every line is looked at, so that all of them are told at once.
Contract *contract_read(Arena *a, Intern *names, Diag *d, const AstFile *f)
{
    if (!f->ncontract) return NULL;
    Contract *out = ARENA_NEW(a, Contract);
    bool seen[COUNT(keys)] = {0};
    for (int i = 0; i < f->ncontract; i++) {
        const AstContractLine *line = &f->contract[i];
        int k = 0;
        while (k < COUNT(keys) && strcmp(keys[k].key, line->key) != 0) k++;
        if (k == COUNT(keys)) {
            diag_error(d, line->loc, "they are op, sizes, where, with, workspace, inputs, assume and check",
                       "unknown key '%s' in the contract", line->key);
            continue;
        }
        if (seen[k] && !keys[k].repeats) {
            diag_error(d, line->loc, NULL, "a second line '%s' in the contract", line->key);
            continue;
        }
        seen[k] = true;
        Cursor c = {a, names, d, line, line->value, f};
        keys[k].read(&c, out);
    }
    return out;
}

// ---- the plan ----------------------------------------------------------------------------------

typedef struct {
    const Contract *contract; // NULL inside of a value of `with`: these do not use each other
    const AstFile *file;
    ExprPool *pool;
    Arena *arena;
    Diag *diag;
    Plan *plan;
    Loc loc; // of the expression
    bool failed;
} Apply;

static const PlanParam *find_param(const Plan *p, const char *name)
{
    for (int i = 0; i < p->params.n; i++)
        if (!strcmp(p->params.at[i].name, name)) return &p->params.at[i];
    return NULL;
}

static bool is_symbol(const Plan *p, const char *name)
{
    for (int i = 0; i < p->symbols.n; i++)
        if (!strcmp(p->symbols.at[i].name, name)) return true;
    return false;
}

// For a message: what could have been meant.
static const char *symbol_list(Arena *a, const Plan *p)
{
    Buf b = {0};
    for (int i = 0; i < p->symbols.n; i++)
        buf_printf(&b, "%s%s", i ? ", " : "the function has ", p->symbols.at[i].name);
    const char *text = b.n ? arena_strndup(a, b.s, b.n) : "the function has no symbol";
    buf_free(&b);
    return text;
}

// The value of an integer macro of the file.
// The last definition counts, as for the compiler. Only a body that is one number has a value here.
static bool macro_value(const AstFile *f, const char *name, i64 *out)
{
    for (int i = f->nmacros - 1; i >= 0; i--) {
        if (strcmp(f->macros[i].name, name) != 0 || !f->macros[i].body) continue;
        char *end;
        errno = 0;
        *out = strtoll(f->macros[i].body, &end, 10);
        return !errno && end != f->macros[i].body && !*end;
    }
    return false;
}

static bool is_property(const char *name)
{
#define X(id, text) \
    if (!strcmp(name, text)) return true;
    PLAN_DEVICE_PROPS(X)
#undef X
    return false;
}

static const Expr *read_value(Apply *x, const ContractText *t);

// Names of `with` and macros become their value; a name that means nothing is reported.
static const Expr *plan_name(void *ctx, const Expr *var)
{
    Apply *x = ctx;
    i64 v;
    if (is_symbol(x->plan, var->name) || is_property(var->name)) return NULL;
    const ContractWith *w = contract_with(x->contract, var->name);
    if (w) {
        Apply inner = *x;
        inner.contract = NULL;
        const Expr *e = read_value(&inner, &w->value);
        x->failed = x->failed || !e;
        return e;
    }
    if (macro_value(x->file, var->name, &v)) return expr_const(x->pool, v);
    const char *hint = !strncmp(var->name, "device.", 7) ? "there are device.sms and device.smem_max"
                       : x->contract ? NULL : "values of `with` do not use one another";
    if (!x->failed)
        diag_error(x->diag, x->loc, hint, "'%s' is no symbol of the function", var->name);
    x->failed = true;
    return NULL;
}

// An expression that stands alone; NULL after an error.
static const Expr *read_value(Apply *x, const ContractText *t)
{
    const char *err = NULL, *s = t->text;
    const Expr *e = expr_read(x->pool, &s, &err);
    while (e && (*s == ' ' || *s == '\t')) s++;
    if (!e || *s) {
        Loc loc = t->loc;
        loc.col = (u16)MIN((i64)loc.col + (s - t->text), 65535);
        diag_error(x->diag, loc, "for example cdiv(S, 128)", "this expression cannot be read: %s",
                   err ? err : "an operator is required here");
        return NULL;
    }
    x->loc = t->loc;
    x->failed = false;
    e = expr_subst(x->pool, e, plan_name, x);
    return x->failed ? NULL : e;
}

const Expr *contract_value(const Contract *c, const AstFile *f, ExprPool *p, Arena *a, Diag *d,
                           Plan *plan, const ContractText *t)
{
    bool inside = false;
    for (int i = 0; i < c->with.n; i++) inside = inside || &c->with.at[i].value == t;
    Apply x = {inside ? NULL : c, .file = f, .pool = p, .arena = a, .diag = d, .plan = plan};
    return read_value(&x, t);
}

// expr_read with `>` and `>=`, which the expressions of the plan do not have.
// `a > b` is `b < a`. One comparison at the top: the two forms cannot be mixed inside.
static const Expr *read_condition(ExprPool *p, const char *s, const char **err)
{
    const Expr *left = expr_read(p, &s, err);
    while (left && (*s == ' ' || *s == '\t')) s++;
    if (!left || !*s) return left;
    if (*s != '>') {
        *err = "a comparison of integers is required";
        return NULL;
    }
    bool equal = s[1] == '=';
    s += equal ? 2 : 1;
    const Expr *right = expr_read(p, &s, err);
    while (right && (*s == ' ' || *s == '\t')) s++;
    if (right && *s) *err = "a comparison of integers is required";
    if (!right || *s) return NULL;
    return expr_bin(p, equal ? EX_LE : EX_LT, right, left);
}

// One condition of `where:` becomes a check of the plan, once.
static void apply_condition(Apply *x, const ContractText *t)
{
    const char *err = NULL;
    x->loc = t->loc;
    x->failed = false;
    const Expr *e = read_condition(x->pool, t->text, &err);
    if (!e) {
        diag_error(x->diag, t->loc,
                   "conditions are separated by commas, such as `S >= 0, D == 128`",
                   "this condition cannot be read: %s", err ? err : "no expression");
        return;
    }
    e = expr_subst(x->pool, e, plan_name, x);
    i64 v;
    if (x->failed) return;
    if (expr_is_const(e, &v)) {
        if (!v) diag_error(x->diag, t->loc, NULL, "no size satisfies `%s`", t->text);
        return;
    }
    for (int i = 0; i < x->plan->checks.n; i++)
        if (x->plan->checks.at[i].cond == e) return;
    PlanCheck check = {e, t->text, t->loc};
    vec_push(x->arena, &x->plan->checks, check);
}

// Defaults of the symbols.
// An extent's default is 0 or more, as every extent is.
static void apply_sizes(const Contract *c, Arena *a, Diag *d, Plan *plan)
{
    for (int i = 0; i < c->sizes.n; i++) {
        const ContractSize *s = &c->sizes.at[i];
        PlanSymbol *sym = NULL;
        for (int k = 0; k < plan->symbols.n; k++)
            if (!strcmp(plan->symbols.at[k].name, s->name)) sym = &plan->symbols.at[k];
        if (!sym) {
            diag_error(d, s->loc, symbol_list(a, plan), "'%s' is no symbol of the function",
                       s->name);
            continue;
        }
        if (sym->source == SYM_EXTENT && s->value < 0) {
            diag_error(d, s->loc, NULL, "the extent %s is %lld; it cannot be negative", s->name,
                       (long long)s->value);
            continue;
        }
        sym->has_default = true;
        sym->default_value = s->value;
    }
}

// A parameter that the caller passes.
static const PlanParam *need_passed(const Contract *c, Diag *d, const Plan *plan,
                                    const char *name, Loc loc)
{
    const PlanParam *p = find_param(plan, name);
    if (contract_with(c, name) || contract_workspace(c, name))
        diag_error(d, loc, NULL, "the launch makes '%s', the caller does not pass it", name);
    else if (!p)
        diag_error(d, loc, NULL, "the function has no parameter '%s'", name);
    else
        return p;
    return NULL;
}

// Every parameter that the contract names exists; outputs are written by the kernel.
static void check_names(const Contract *c, Diag *d, const Plan *plan)
{
    for (int i = 0; i < c->in.n; i++)
        need_passed(c, d, plan, c->in.at[i].name, c->in.at[i].loc);
    for (int i = 0; i < c->out.n; i++) {
        const PlanParam *p = need_passed(c, d, plan, c->out.at[i].name, c->out.at[i].loc);
        if (p && !p->out)
            diag_error(d, c->out.at[i].loc, NULL, "the kernel never writes to '%s'", p->name);
    }
    for (int i = 0; i < c->inputs.n; i++)
        need_passed(c, d, plan, c->inputs.at[i].name, c->inputs.at[i].loc);
}

// Order does not matter among the three: each reads the contract and the plan as resolved.
bool contract_apply(const Contract *c, const AstFile *f, ExprPool *p, Arena *a, Diag *d, Plan *plan)
{
    int before = diag_errors(d);
    if (!c) return true;
    Apply x = {.contract = c, .file = f, .pool = p, .arena = a, .diag = d, .plan = plan};
    apply_sizes(c, a, d, plan);
    for (int i = 0; i < c->where.n; i++) apply_condition(&x, &c->where.at[i]);
    check_names(c, d, plan);
    return diag_errors(d) == before;
}
