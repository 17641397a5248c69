// pp.c - the preprocessor: splits a file into host text and islands, and expands macros in islands.
//
// Input: the bytes of a file. Output: one PpIsland after the other (verbatim text, expanded
// tokens). Directives count everywhere, expansion happens only in islands and in #if lines.
// #include is never opened. Invariants: all work is bounded by PP_MAX_WORK tokens per file,
// whatever macros say; a macro never expands inside its own expansion.
#include "tokens.h"

#include <string.h>

enum {
    PP_MAX_WORK = 1 << 18, // tokens read or made, per file: about thirty times a large kernel
    PP_MAX_PARAMS = 256,   // of a macro
    PP_MAX_INTRINSICS = 64, // #pragma croq intrinsic lines
    PP_MAX_NESTING = 64, // #if in #if, macro call in the arguments of a macro call, parentheses
    PP_MAX_ERRORS = 100  // kept per sink; DIAG_LIMIT cuts further
};

typedef struct {
    const char *name, *text; // text: the body as written
    Loc loc;
    int nparams;   // -1: object-like
    bool variadic; // the last parameter takes the rest
    bool busy;     // being expanded
    const char **params; // interned names
    Token *body;   // nbody tokens, without the end
    int nbody;
} Macro;

typedef struct {
    Loc loc;
    bool active, taken, in_else; // text counts now; some branch counted; behind #else
} Cond;

struct Pp {
    Arena *arena;
    Intern *in;
    Lexer lx;      // over the whole file
    AstSink hard;  // for directives: always reported
    AstSink *sink; // for the tokens of the current island
    Map *macros;   // name -> Macro *, NULL after #undef
    VEC(Macro *) all; // every definition, in order
    VEC(Cond) conds; // open #ifs, innermost last
    AstIntrinsicVec intrinsics;
    size_t work; // tokens spent so far, of PP_MAX_WORK
    bool dead; // work ran out: everything that follows is the end of the text
    // host text
    size_t host_at;
    Loc host_loc;
    int depth;       // of open braces
    u64 transparent; // bit d: brace d belongs to a namespace or extern "C"
    bool finished;
};

// Tokens in front of the file's own: macro bodies, arguments.
typedef struct {
    Token *at;
    int n, i;
    Macro *macro; // un-busied when the source runs dry
    Loc use;      // line 0: keep the tokens' own places
} Source;

typedef struct {
    Pp *p;
    VEC(Source) stack;
    bool base;  // goes on with the file when the stack is empty
    bool holds; // `held` comes before everything else
    Token held;
    int nesting; // macro calls within each other
} Expander;

static bool expand_next(Expander *e, Token *t);

// ---- errors -----------------------------------------------------------------------------------

// Past PP_MAX_ERRORS an error only counts: a file of garbage must not fill the memory with
// messages.
void ast_error(AstSink *s, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (s->errors++ < PP_MAX_ERRORS && (!s->quiet || !s->why)) {
        const char *text = arena_vprintf(s->arena, fmt, ap);
        if (s->quiet)
            s->why = text, s->why_loc = loc;
        else
            diag_error(s->diag, loc, hint, "%s", text);
    }
    va_end(ap);
}

void ast_warning(AstSink *s, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    if (s->quiet || s->warnings++ >= PP_MAX_ERRORS) return;
    va_start(ap, fmt);
    diag_warning(s->diag, loc, hint, "%s", arena_vprintf(s->arena, fmt, ap));
    va_end(ap);
}

// Counts work; false (with one error) when the file's budget is spent.
// Macros that double each other make 2^n tokens of n lines; the budget is what bounds them.
static bool pp_spend(Pp *p, Loc loc, size_t n)
{
    p->work += n;
    if (p->work <= PP_MAX_WORK) return true;
    if (!p->dead)
        ast_error(&p->hard, loc, "a macro may be growing without end",
                  "the tile functions and their macros have more than %d tokens", PP_MAX_WORK);
    p->dead = true;
    return false;
}

// ---- macros -----------------------------------------------------------------------------------

// Any word can be the name of a macro, reserved words and types included.
static bool is_word_token(const Token *t)
{
    return t->kind == TOK_NAME || t->kind == TOK_TYPE ||
           (t->kind >= KW_AFTER && t->kind <= KW_YIELD);
}

// C allows a definition to be repeated when it says the same; then headers may be pasted twice.
static bool same_body(const Macro *a, const Macro *b)
{
    if (a->nparams != b->nparams || a->variadic != b->variadic || a->nbody != b->nbody)
        return false;
    for (int i = 0; i < a->nparams; i++) {
        if (a->params[i] != b->params[i]) return false;
    }
    for (int i = 0; i < a->nbody; i++) {
        const Token *x = &a->body[i], *y = &b->body[i];
        bool value = x->kind == TOK_INT || x->kind == TOK_FLOAT || x->kind == TOK_CHAR;
        if (x->kind != y->kind || x->text_n != y->text_n) return false;
        if (value ? x->ival != y->ival : x->name != y->name) {
            if (x->kind != TOK_STRING || memcmp(x->name, y->name, x->text_n)) return false;
        }
    }
    return true;
}

// The first definition stays when a second one differs: one mistake, one error.
static void macro_add(Pp *p, Macro *m)
{
    Macro *old = map_get(p->macros, m->name);
    if (old && !same_body(old, m)) {
        const char *hint =
            old->loc.line ? arena_printf(p->arena, "first defined in line %u; #undef it before",
                                         old->loc.line)
                          : "it came from the command line (-D); guard this with #ifndef";
        ast_error(&p->hard, m->loc, hint, "macro '%s' is defined again with another body", m->name);
        return;
    }
    map_put(p->macros, m->name, m);
    vec_push(p->arena, &p->all, m);
}

// `(a, b, ...)` behind the name of a function-like macro; the '(' is read. False on an error.
static bool macro_params(Pp *p, Lexer *line, Macro *m)
{
    VEC(const char *) names = {0};
    Token t;
    lex_next(line, &t);
    while (t.kind != P_RPAREN) {
        if (t.kind == P_ELLIPSIS) {
            vec_push(p->arena, &names, intern(p->in, "__VA_ARGS__"));
            m->variadic = true;
        } else if (is_word_token(&t) && !m->variadic) {
            vec_push(p->arena, &names, t.name);
        } else {
            break;
        }
        lex_next(line, &t);
        if (t.kind != P_COMMA) break;
        lex_next(line, &t);
    }
    m->nparams = names.n;
    m->params = names.at;
    if (t.kind == P_RPAREN && names.n <= PP_MAX_PARAMS) return true;
    if (names.n > PP_MAX_PARAMS) {
        ast_error(&p->hard, m->loc, NULL, "macro '%s' has more than %d parameters", m->name,
                  PP_MAX_PARAMS);
        return false;
    }
    ast_error(&p->hard, t.loc, "the form is #define NAME(a, b) body",
              "%s in the parameters of macro '%s'", tok_describe(p->arena, &t), m->name);
    return false;
}

// The rest of `line` is the body.
// Lexed once, here; malformed tokens are kept and complain only where the macro is used. `text` is
// the body as written, for those who read macros as host text.
static void macro_body(Pp *p, Lexer *line, Macro *m)
{
    TokenVec body = {0};
    Token t;
    size_t from = line->pos;
    for (lex_next(line, &t); t.kind != TOK_EOF; lex_next(line, &t)) {
        if (body.n >= PP_MAX_WORK) break;
        if (body.n == 0) from = line->pos - t.len;
        t.flags &= (u8)~TF_LINE_START;
        vec_push(p->arena, &body, t);
    }
    size_t to = line->n;
    while (to > from &&
           (line->s[to - 1] == ' ' || line->s[to - 1] == '\t' || line->s[to - 1] == '\r'))
        to--;
    m->text = body.n ? arena_strndup(p->arena, line->s + MIN(from, to), to - MIN(from, to)) : "";
    m->body = body.at;
    m->nbody = body.n;
}

// `#define` read. A '(' right behind the name, without a blank, makes it function-like.
static void pp_do_define(Pp *p, Lexer *line)
{
    Token t;
    lex_next(line, &t);
    if (!is_word_token(&t)) {
        ast_error(&p->hard, t.loc, "the form is #define NAME value",
                  "#define needs a name, found %s", tok_describe(p->arena, &t));
        return;
    }
    Macro *m = ARENA_NEW(p->arena, Macro);
    m->name = t.name;
    m->loc = t.loc;
    m->nparams = -1;
    if (line->pos < line->n && line->s[line->pos] == '(') {
        line->pos++;
        if (!macro_params(p, line, m)) return;
    }
    macro_body(p, line, m);
    macro_add(p, m);
}

// As if `#define name value` stood before the file; file 0 has no text to show.
void pp_define(Pp *p, const char *name, const char *value)
{
    const char *text = value ? value : "1";
    Lexer l =
        lex_open(p->arena, p->in, 0, arena_strndup(p->arena, text, strlen(text)), strlen(text));
    Macro *m = ARENA_NEW(p->arena, Macro);
    m->name = intern(p->in, name);
    m->nparams = -1;
    macro_body(p, &l, m);
    macro_add(p, m);
}

// Only what is still defined, and in its last definition.
void pp_macros(Pp *p, AstMacro **out, int *n)
{
    VEC(AstMacro) v = {0};
    for (int i = 0; i < p->all.n; i++) {
        const Macro *m = p->all.at[i];
        if (m->nparams < 0 && map_get(p->macros, m->name) == m)
            vec_push(p->arena, &v, ((AstMacro){m->name, m->text, m->loc}));
    }
    *out = v.at;
    *n = v.n;
}

// ---- #if --------------------------------------------------------------------------------------

typedef struct {
    u64 v;
    bool u; // unsigned
} Value;

typedef struct {
    Pp *p;
    Token *t;
    int n, i, nesting, skipped; // skipped > 0: the value does not count (behind `0 &&`)
    bool bad;
} Eval;

static Value eval_expr(Eval *e, int min);

// The list ends in TOK_EOF, which is never passed.
static const Token *eval_peek(const Eval *e) { return &e->t[MIN(e->i, e->n - 1)]; }

// Reports once per condition. `what` NULL: the current token is the offence.
static void eval_fail(Eval *e, const char *what)
{
    const Token *t = eval_peek(e);
    if (!e->bad && what)
        ast_error(&e->p->hard, t->loc, NULL, "%s", what);
    else if (!e->bad)
        ast_error(&e->p->hard, t->loc,
                  "only integers, macros, defined(X) and C operators count here",
                  "%s in the condition of #if", tok_describe(e->p->arena, t));
    e->bad = true;
}

// C's precedence, loosest 1. 0: no binary operator.
static int eval_level(int kind)
{
    switch (kind) {
    case P_LOR: return 1;
    case P_LAND: return 2;
    case P_OR: return 3;
    case P_XOR: return 4;
    case P_AND: return 5;
    case P_EQ:
    case P_NE: return 6;
    case P_LT:
    case P_LE:
    case P_GT:
    case P_GE: return 7;
    case P_SHL:
    case P_SHR: return 8;
    case P_ADD:
    case P_SUB: return 9;
    case P_MUL:
    case P_DIV:
    case P_MOD: return 10;
    default: return 0;
    }
}

// __has_include(<x>) and its kin: nothing is ever there. The name is read.
static Value eval_has(Eval *e)
{
    int open = 0;
    do {
        if (eval_peek(e)->kind == P_LPAREN) open++;
        if (eval_peek(e)->kind == P_RPAREN) open--;
    } while (++e->i < e->n - 1 && open > 0);
    return (Value){0};
}

// number | name (0, as in C) | '(' expr ')' | unary operator primary
// Names that are no macros count 0, as in C: `#if FEATURE` needs no definition.
static Value eval_primary(Eval *e)
{
    const Token *t = eval_peek(e);
    if (e->nesting > PP_MAX_NESTING) eval_fail(e, "#if is nested too deeply");
    if (e->bad) return (Value){0};
    if (t->err) {
        lex_report(&e->p->hard, t);
        e->bad = true;
        return (Value){0};
    }
    e->i++;
    if (t->kind == TOK_INT || t->kind == TOK_CHAR)
        return (Value){t->ival, t->dtype == DT_U32 || t->dtype == DT_U64};
    if (t->kind == KW_TRUE) return (Value){1, false};
    if (is_word_token(t)) {
        bool has = strncmp(t->name, "__has_", 6) == 0 && eval_peek(e)->kind == P_LPAREN;
        return has ? eval_has(e) : (Value){0};
    }
    Value x = {0};
    e->nesting++;
    switch (t->kind) {
    case P_LPAREN:
        x = eval_expr(e, 0);
        if (eval_peek(e)->kind != P_RPAREN) eval_fail(e, NULL);
        e->i++;
        break;
    case P_SUB:
        x = eval_primary(e);
        x.v = 0 - x.v;
        break;
    case P_ADD: x = eval_primary(e); break;
    case P_NOT: x = (Value){!eval_primary(e).v, false}; break;
    case P_TILDE:
        x = eval_primary(e);
        x.v = ~x.v;
        break;
    default:
        e->i--;
        eval_fail(e, NULL);
        break;
    }
    e->nesting--;
    return x;
}

// Arithmetic wraps in 64 bits; the operands are unsigned when one of them is, as in C. Shifts
// beyond 63 are defined here because the condition of a #if must not trap the compiler.
static Value eval_binary(Eval *e, int op, Value a, Value b)
{
    bool u = a.u || b.u;
    i64 x = (i64)a.v, y = (i64)b.v;
    bool less = u ? a.v < b.v : x < y;
    switch (op) {
    case P_OR: return (Value){a.v | b.v, u};
    case P_XOR: return (Value){a.v ^ b.v, u};
    case P_AND: return (Value){a.v & b.v, u};
    case P_EQ: return (Value){a.v == b.v, false};
    case P_NE: return (Value){a.v != b.v, false};
    case P_LT: return (Value){less, false};
    case P_GE: return (Value){!less, false};
    case P_GT: return (Value){!less && a.v != b.v, false};
    case P_LE: return (Value){less || a.v == b.v, false};
    case P_SHL: return (Value){b.v < 64 ? a.v << b.v : 0, a.u};
    case P_SHR: return (Value){a.u ? (b.v < 64 ? a.v >> b.v : 0) : (u64)(x >> MIN(b.v, 63u)), a.u};
    case P_ADD: return (Value){a.v + b.v, u};
    case P_SUB: return (Value){a.v - b.v, u};
    case P_MUL: return (Value){a.v * b.v, u};
    default: break;
    }
    if (b.v == 0) {
        if (!e->skipped) eval_fail(e, "division by zero in the condition of #if");
        return (Value){0};
    }
    if (u) return (Value){op == P_DIV ? a.v / b.v : a.v % b.v, true};
    if (y == -1) return (Value){op == P_DIV ? 0 - a.v : 0, false}; // INT64_MIN / -1 traps
    return (Value){(u64)(op == P_DIV ? x / y : x % y), false};
}

// Operators of level > min, then `?:` when min is 0.
static Value eval_expr(Eval *e, int min)
{
    Value a = eval_primary(e);
    for (int level; !e->bad && (level = eval_level(eval_peek(e)->kind)) > min;) {
        int op = eval_peek(e)->kind;
        e->i++;
        bool skip = (op == P_LAND && !a.v) || (op == P_LOR && a.v);
        e->skipped += skip;
        Value b = eval_expr(e, level);
        e->skipped -= skip;
        if (op == P_LAND)
            a = (Value){a.v && b.v, false};
        else if (op == P_LOR)
            a = (Value){a.v || b.v, false};
        else
            a = eval_binary(e, op, a, b);
    }
    if (min == 0 && !e->bad && eval_peek(e)->kind == P_QUEST) {
        e->i++;
        if (++e->nesting > PP_MAX_NESTING) eval_fail(e, "#if is nested too deeply");
        e->skipped += !a.v;
        Value b = eval_expr(e, 0);
        e->skipped += a.v ? 1 : -1;
        if (eval_peek(e)->kind != P_COLON) eval_fail(e, NULL);
        e->i++;
        Value c = e->bad ? (Value){0} : eval_expr(e, 0);
        e->skipped -= a.v ? 1 : 0;
        e->nesting--;
        a = a.v ? b : c;
    }
    return a;
}

// Replaces `defined X` and `defined(X)` while the line is read, before any expansion.
static bool read_defined(Pp *p, Lexer *line, Token *t)
{
    Token name;
    lex_next(line, &name);
    bool paren = name.kind == P_LPAREN;
    if (paren) lex_next(line, &name);
    bool ok = is_word_token(&name);
    *t = (Token){.kind = TOK_INT, .dtype = DT_S32, .loc = t->loc};
    t->ival = ok && map_get(p->macros, name.name) != NULL;
    if (ok && paren) {
        lex_next(line, &name);
        ok = name.kind == P_RPAREN;
    }
    if (!ok)
        ast_error(&p->hard, name.loc, "the forms are defined X and defined(X)",
                  "%s behind `defined`", tok_describe(p->arena, &name));
    return ok;
}

// The condition of `#if` or `#elif`: `defined` first, then macros, then the value. A malformed one
// is false, after its error.
// C text: conditions may hold octal numbers and characters.
static bool pp_eval(Pp *p, Lexer *line, Loc loc)
{
    TokenVec in = {0}, out = {0};
    Token t;
    line->c_text = true;
    for (lex_next(line, &t); t.kind != TOK_EOF; lex_next(line, &t)) {
        if (!pp_spend(p, loc, 1)) return false;
        if (t.kind == TOK_NAME && strcmp(t.name, "defined") == 0 && !read_defined(p, line, &t))
            return false;
        vec_push(p->arena, &in, t);
    }
    AstSink *saved = p->sink;
    p->sink = &p->hard;
    Expander e = {.p = p};
    vec_push(p->arena, &e.stack, ((Source){.at = in.at, .n = in.n}));
    while (expand_next(&e, &t)) vec_push(p->arena, &out, t);
    p->sink = saved;
    t.loc = out.n ? t.loc : loc;
    if (!t.loc.line) t.loc = loc;
    vec_push(p->arena, &out, t); // the end
    Eval ev = {.p = p, .t = out.at, .n = out.n};
    Value v = eval_expr(&ev, 0);
    if (!ev.bad && eval_peek(&ev)->kind != TOK_EOF) eval_fail(&ev, NULL);
    return !ev.bad && v.v != 0;
}

// `#ifdef X`, `#ifndef X`.
// A -D definition counts like one in the file.
static bool eval_ifdef(Pp *p, Lexer *line, const char *word)
{
    Token t;
    lex_next(line, &t);
    if (!is_word_token(&t)) {
        ast_error(&p->hard, t.loc, NULL, "#%s needs a name, found %s", word,
                  tok_describe(p->arena, &t));
        return false;
    }
    return (map_get(p->macros, t.name) != NULL) == (strcmp(word, "ifdef") == 0);
}

// ---- directives ---------------------------------------------------------------------------------

// #if, #ifdef, #ifndef in active text.
// At the nesting limit the file is given up: skipping would have to count what it cannot hold.
static void cond_open(Pp *p, Lexer *line, const char *word, Loc loc)
{
    if (p->conds.n >= PP_MAX_NESTING && !p->dead) {
        ast_error(&p->hard, loc, NULL, "#if nests deeper than %d", PP_MAX_NESTING);
        p->dead = true;
    }
    bool on = strcmp(word, "if") == 0 ? pp_eval(p, line, loc) : eval_ifdef(p, line, word);
    vec_push(p->arena, &p->conds, ((Cond){.loc = loc, .active = on, .taken = on}));
}

// #elif, #else, #endif
static void cond_next(Pp *p, Lexer *line, const char *word, Loc loc)
{
    if (p->conds.n == 0) {
        ast_error(&p->hard, loc, NULL, "#%s without #if", word);
        return;
    }
    Cond *c = &p->conds.at[p->conds.n - 1];
    if (strcmp(word, "endif") == 0) {
        p->conds.n--;
        return;
    }
    if (c->in_else)
        ast_error(&p->hard, loc, arena_printf(p->arena, "its #if is in line %u", c->loc.line),
                  "#%s behind #else", word);
    c->in_else = c->in_else || strcmp(word, "else") == 0;
    // Behind a branch that was taken #elif is not even evaluated.
    bool on = !c->taken && (c->in_else || pp_eval(p, line, loc));
    c = &p->conds.at[p->conds.n - 1];
    c->active = on;
    c->taken = c->taken || on;
}

// The two families of conditionals: those that go on with an #if, and those that begin one.
static bool is_cond_next(const char *w)
{
    return strcmp(w, "elif") == 0 || strcmp(w, "else") == 0 || strcmp(w, "endif") == 0;
}
static bool is_cond_open(const char *w)
{
    return strcmp(w, "if") == 0 || strcmp(w, "ifdef") == 0 || strcmp(w, "ifndef") == 0;
}

// `#pragma`: the language's own, and unroll (handed on as a token when `out` is given).
// Other pragmas are the host compiler's.
static bool do_pragma(Pp *p, Lexer *line, Loc loc, Token *out)
{
    Token t;
    lex_next(line, &t);
    if (!t.name) return false;
    if (out && t.kind == KW_UNROLL) {
        lex_next(line, &t);
        if (t.kind == P_LPAREN) lex_next(line, &t);
        *out = (Token){.kind = TOK_PRAGMA_UNROLL, .loc = loc, .dtype = -1, .flags = TF_LINE_START};
        if (t.kind == TOK_INT && !t.err) out->ival = t.ival;
        return true;
    }
    if (strcmp(t.name, "croq") != 0) return false;
    lex_next(line, &t);
    if (!t.name || strcmp(t.name, "intrinsic") != 0) return false;
    Token what, name;
    lex_next(line, &what);
    lex_next(line, &name);
    bool space = what.name && strcmp(what.name, "namespace") == 0;
    bool full = p->intrinsics.n >= PP_MAX_INTRINSICS;
    if (full)
        ast_error(&p->hard, loc, NULL, "more than %d #pragma croq intrinsic", PP_MAX_INTRINSICS);
    else if ((space || (what.name && strcmp(what.name, "prefix") == 0)) && name.kind == TOK_NAME)
        vec_push(p->arena, &p->intrinsics, ((AstIntrinsic){name.name, space}));
    else
        ast_error(&p->hard, what.loc, "the forms are `prefix X` and `namespace X`",
                  "malformed #pragma croq intrinsic");
    return false;
}

// The directive whose `#` was just read. Returns true when it left a token in *out (out may be NULL
// in host text). The text behind it may have become inactive: see pp_skip.
static bool pp_directive(Pp *p, Token *out)
{
    Lexer line = p->lx;
    line.n = lex_line_end(&p->lx);
    line.every_hash = line.line_start = line.c_text = false;
    Token t;
    lex_next(&line, &t);
    const char *w = t.name && t.kind != TOK_STRING ? t.name : "";
    bool made = false;
    if (strcmp(w, "define") == 0) {
        pp_do_define(p, &line);
    } else if (strcmp(w, "undef") == 0) {
        lex_next(&line, &t);
        if (is_word_token(&t))
            map_put(p->macros, t.name, NULL);
        else
            ast_error(&p->hard, t.loc, NULL, "#undef needs a name");
    } else if (is_cond_open(w)) {
        cond_open(p, &line, w, t.loc);
    } else if (is_cond_next(w)) {
        cond_next(p, &line, w, t.loc);
    } else if (strcmp(w, "pragma") == 0) {
        made = do_pragma(p, &line, t.loc, out);
    } else if (strcmp(w, "error") == 0 && out) {
        size_t n = MIN(line.n - line.pos, 200u);
        ast_error(&p->hard, t.loc, NULL, "#error%.*s", (int)n, line.s + line.pos);
    }
    lex_seek(&p->lx, lex_line_end(&p->lx));
    return made;
}

// While the innermost #if is off: reads on to the directive that ends that.
// Words only matter at the start of a directive there; the text between may be anything.
static void pp_skip(Pp *p)
{
    bool every = p->lx.every_hash;
    int inner = 0;
    p->lx.every_hash = true;
    while (p->conds.n && !p->conds.at[p->conds.n - 1].active) {
        RawItem r = lex_raw(&p->lx);
        if (r.kind == RAW_EOF) break;
        if (r.kind != RAW_DIRECTIVE) continue;
        Lexer line = p->lx;
        line.n = lex_line_end(&p->lx);
        line.every_hash = line.line_start = false;
        Token t;
        lex_next(&line, &t);
        const char *w = t.name && t.kind != TOK_STRING ? t.name : "";
        if (is_cond_open(w))
            inner++;
        else if (inner == 0 && is_cond_next(w))
            cond_next(p, &line, w, t.loc);
        else if (inner > 0 && strcmp(w, "endif") == 0)
            inner--;
        lex_seek(&p->lx, lex_line_end(&p->lx));
    }
    p->lx.every_hash = every;
}

// ---- expansion --------------------------------------------------------------------------------

// The next token of the file itself.
// Directives inside a function act and leave no token, but for #pragma unroll.
static bool pp_base(Pp *p, Token *t)
{
    for (;;) {
        lex_next(&p->lx, t);
        if (t->kind == TOK_DIRECTIVE) {
            if (pp_directive(p, t)) return true;
            pp_skip(p);
            continue;
        }
        if (p->dead || (t->kind != TOK_EOF && !pp_spend(p, t->loc, 1))) t->kind = TOK_EOF;
        return t->kind != TOK_EOF;
    }
}

// The next token before expansion. False at the end.
// Order: the token that was held back, then the innermost source, then the file. A source that
// runs dry ends the expansion of its macro, which may then be used again.
static bool pull(Expander *e, Token *t)
{
    if (e->holds) {
        e->holds = false;
        *t = e->held;
        return true;
    }
    while (e->stack.n) {
        Source *s = &e->stack.at[e->stack.n - 1];
        if (s->i < s->n && !e->p->dead) {
            *t = s->at[s->i++];
            // Messages point to where the macro is used: its body may be in no file at all (-D).
            if (s->use.line) {
                t->loc = s->use;
                t->len = 0;
                t->flags |= TF_MACRO;
            }
            return true;
        }
        if (s->macro) s->macro->busy = false;
        e->stack.n--;
    }
    if (e->base) return pp_base(e->p, t);
    *t = (Token){.kind = TOK_EOF, .loc = t->loc, .dtype = -1};
    return false;
}

typedef VEC(TokenVec) ArgVec;

// The arguments of a call of m, '(' read. Commas inside (), [] and {} do not separate. False when
// the text ends inside.
static bool read_args(Expander *e, const Macro *m, ArgVec *args)
{
    Arena *a = e->p->arena;
    TokenVec cur = {0};
    Token t;
    for (int open = 0;;) {
        if (!pull(e, &t)) return false;
        if (!pp_spend(e->p, t.loc, 1)) return false;
        bool last = m->variadic && args->n >= m->nparams - 1;
        if (open == 0 && (t.kind == P_RPAREN || (t.kind == P_COMMA && !last))) {
            vec_push(a, args, cur);
            cur = (TokenVec){0};
            if (t.kind == P_RPAREN) return true;
            continue;
        }
        if (t.kind == P_LPAREN || t.kind == P_LBRACKET || t.kind == P_LBRACE) open++;
        if (t.kind == P_RPAREN || t.kind == P_RBRACKET || t.kind == P_RBRACE) open--;
        vec_push(a, &cur, t);
    }
}

// Expands an argument on its own, as if it were the rest of the text.
// Before it is substituted, as C wants it: an argument may call the macro that it is passed to.
static TokenVec expand_arg(Expander *outer, TokenVec in)
{
    TokenVec out = {0};
    Token t = {0};
    Expander e = {.p = outer->p, .nesting = outer->nesting + 1};
    vec_push(outer->p->arena, &e.stack, ((Source){.at = in.at, .n = in.n}));
    while (expand_next(&e, &t)) vec_push(outer->p->arena, &out, t);
    return out;
}

// Puts the body of m with its parameters replaced in front of the text.
// Missing variadic arguments become nothing.
static void substitute(Expander *e, Macro *m, ArgVec *args, Loc use)
{
    Pp *p = e->p;
    TokenVec out = {0};
    for (int i = 0; i < args->n; i++) args->at[i] = expand_arg(e, args->at[i]);
    for (int i = 0; i < m->nbody && !p->dead; i++) {
        const Token *t = &m->body[i];
        int k = 0;
        while (k < m->nparams && !(is_word_token(t) && t->name == m->params[k])) k++;
        const TokenVec *arg = k < m->nparams && k < args->n ? &args->at[k] : NULL;
        if (!pp_spend(p, use, (size_t)(arg ? arg->n : 1))) return;
        if (!arg && k == m->nparams) vec_push(p->arena, &out, *t);
        for (int j = 0; arg && j < arg->n; j++) vec_push(p->arena, &out, arg->at[j]);
    }
    m->busy = true;
    vec_push(p->arena, &e->stack, ((Source){.at = out.at, .n = out.n, .macro = m, .use = use}));
}

// A call of the function-like macro m whose name is *t. False: no `(` follows, so the name stands
// for itself.
static bool expand_call(Expander *e, Macro *m, const Token *t)
{
    Token next = {.loc = t->loc};
    if (!pull(e, &next)) return false;
    if (next.kind != P_LPAREN) {
        e->held = next;
        e->holds = true;
        return false;
    }
    ArgVec args = {0};
    if (e->nesting >= PP_MAX_NESTING) {
        ast_error(e->p->sink, t->loc, NULL, "macro calls nest deeper than %d", PP_MAX_NESTING);
        e->p->dead = true;
        return true;
    }
    if (!read_args(e, m, &args)) {
        if (!e->p->dead)
            ast_error(e->p->sink, t->loc, "close it with ')'", "call of macro '%s' does not end",
                      m->name);
        return true;
    }
    // `F()` reads as one empty argument; for a macro without parameters it is none.
    int given = m->nparams == 0 && args.n == 1 && args.at[0].n == 0 ? 0 : args.n;
    if (given != m->nparams && !(m->variadic && given >= m->nparams - 1)) {
        ast_error(e->p->sink, t->loc, NULL, "macro '%s' takes %d argument%s, found %d", m->name,
                  m->nparams, m->nparams == 1 ? "" : "s", given);
        Token *zero = ARENA_NEW(e->p->arena, Token); // stands in, so that one mistake is one error
        *zero = (Token){.kind = TOK_INT, .dtype = DT_S32};
        vec_push(e->p->arena, &e->stack, ((Source){.at = zero, .n = 1, .use = t->loc}));
        return true;
    }
    substitute(e, m, &args, t->loc);
    return true;
}

// The next token after expansion. False (and TOK_EOF) at the end.
static bool expand_next(Expander *e, Token *t)
{
    for (;;) {
        if (!pull(e, t)) return false;
        Macro *m =
            is_word_token(t) && !(t->flags & TF_NO_EXPAND) ? map_get(e->p->macros, t->name) : NULL;
        if (!m) return true;
        // Marked for good: also when the token is looked at again outside of this expansion.
        if (m->busy) {
            t->flags |= TF_NO_EXPAND;
            return true;
        }
        if (!pp_spend(e->p, t->loc, 1 + (size_t)(m->nparams < 0 ? m->nbody : 0))) continue;
        if (m->nparams >= 0) {
            if (!expand_call(e, m, t)) return true;
            continue;
        }
        m->busy = true;
        vec_push(e->p->arena, &e->stack,
                 ((Source){.at = m->body, .n = m->nbody, .macro = m, .use = t->loc}));
    }
}

// ---- islands ------------------------------------------------------------------------------------

// Reads the expanded tokens of a function from `start` to its closing brace (or to `;` for one
// without a body).
// Stops at the start of another island, so that a forgotten '}' costs one function and not the
// file.
static void read_function(Pp *p, PpIsland *out)
{
    Expander e = {.p = p, .base = true};
    int depth = 0;
    Token t;
    bool dropped = false;
    for (bool done = false; !done;) {
        if (!expand_next(&e, &t)) {
            if (!p->dead)
                ast_error(&p->hard, out->loc, "a brace is missing somewhere in it",
                          "the function that starts here does not end");
            break;
        }
        bool island = t.kind == TOK_NAME && !(t.flags & TF_MACRO) && out->tokens.n &&
                      (strcmp(t.name, "__co__") == 0 || strcmp(t.name, "__cok__") == 0);
        if (island) { // surely a new function: a '}' is missing before it
            ast_error(p->sink, out->loc, "a '}' is missing",
                      "the function that starts here does not end before the next one in line %u",
                      t.loc.line);
            p->lx.pos -= t.len;
            break;
        }
        lex_report(p->sink, &t);
        if (t.kind == TOK_BAD || t.err == LEX_DOT_SPACE || t.err == LEX_PASTE) {
            dropped = true;
            continue;
        }
        if (dropped) t.flags |= TF_AFTER_BAD;
        dropped = false;
        vec_push(p->arena, &out->tokens, t);
        if (t.kind == P_LBRACE) depth++;
        if (t.kind == P_RBRACE) done = --depth <= 0;
        if (t.kind == P_SEMI) done = depth == 0;
    }
    while (e.stack.n) { // sources left behind
        Macro *m = e.stack.at[--e.stack.n].macro;
        if (m) m->busy = false;
    }
    t = (Token){.kind = TOK_EOF, .loc = lex_loc(&p->lx), .dtype = -1};
    vec_push(p->arena, &out->tokens, t);
}

// `__cok__ { text }`: the word is read.
static void read_block(Pp *p, PpIsland *out)
{
    int depth = 0;
    size_t from = p->lx.pos, to = from;
    for (;;) {
        RawItem r = lex_raw(&p->lx);
        if (r.kind == RAW_EOF) {
            ast_error(&p->hard, out->loc, "close it with '}'",
                      "the __cok__ block that starts here does not end");
            to = p->lx.pos;
            break;
        }
        if (r.kind == RAW_DIRECTIVE) {
            pp_directive(p, NULL);
            pp_skip(p);
        }
        if (depth == 0 && !(r.kind == RAW_CHAR && r.c == '{')) {
            ast_error(&p->hard, out->loc, "the form is __cok__ { device text }",
                      "__cok__ needs a '{' behind it");
            break;
        }
        if (r.kind != RAW_CHAR) continue;
        if (r.c == '{' && depth++ == 0) from = p->lx.pos;
        if (r.c == '}' && --depth == 0) {
            to = r.at;
            break;
        }
    }
    out->text = p->lx.s + MIN(from, to);
    out->text_n = to - MIN(from, to);
}

// Fills `out` with the island that starts at offset `start` and with the host text before it. The
// tokens of a device function go to a sink of their own: it may be C++ that nobody needs to read.
// Host text is scanned by other rules than islands (every '#' counts, C's numbers do not), so the
// lexer's switches are set around the function.
static void read_island(Pp *p, PpIsland *out, AstPartKind kind, size_t start, Loc loc)
{
    out->kind = kind;
    out->loc = loc;
    out->host = p->lx.s + p->host_at;
    out->host_n = start - p->host_at;
    out->host_loc = p->host_loc;
    out->sink = &p->hard;
    if (kind == PART_DEVICE_BLOCK) {
        read_block(p, out);
    } else {
        if (kind == PART_DEVICE) {
            out->sink = ARENA_NEW(p->arena, AstSink);
            *out->sink = (AstSink){.arena = p->arena, .diag = p->hard.diag, .quiet = true};
        }
        p->sink = out->sink;
        p->lx.every_hash = false;
        p->lx.c_text = kind == PART_DEVICE;
        read_function(p, out);
        p->lx.every_hash = true;
        p->lx.c_text = false;
        p->sink = &p->hard;
        out->text = p->lx.s + start;
        out->text_n = p->lx.pos - start;
    }
    p->host_at = p->lx.pos;
    p->host_loc = lex_loc(&p->lx);
}

// Host text is compared in place; nothing of it is interned.
static bool word_is(const Pp *p, RawItem r, const char *w)
{
    return r.kind == RAW_WORD && strlen(w) == r.n && memcmp(p->lx.s + r.at, w, r.n) == 0;
}

// Words that may stand before `__device__`.
static bool is_device_prefix(const Pp *p, RawItem r)
{
    static const char *const words[] = {"template", "static",    "inline",       "__forceinline__",
                                        "__host__", "constexpr", "__noinline__", "__inline__"};
    for (int i = 0; i < COUNT(words); i++) {
        if (word_is(p, r, words[i])) return true;
    }
    return false;
}

// Behind `template`: skips `<...>`, without looking beyond a ';' or '{'.
// Templates nest in the angle brackets; `>>` arrives here as two characters.
static void skip_template(Pp *p)
{
    int open = 0;
    for (;;) {
        Lexer before = p->lx;
        RawItem r = lex_raw(&p->lx);
        bool stop = r.kind == RAW_EOF || r.kind == RAW_DIRECTIVE || (open == 0 && r.c != '<') ||
                    (r.kind == RAW_CHAR && (r.c == ';' || r.c == '{'));
        if (stop) {
            p->lx = before;
            return;
        }
        if (r.kind == RAW_CHAR && r.c == '<') open++;
        if (r.kind == RAW_CHAR && r.c == '>' && --open == 0) return;
    }
}

// Keeps the brace depth. `opens_scope`: the declaration began with `namespace` or `extern`.
static void host_brace(Pp *p, char c, bool opens_scope)
{
    if (c == '{') {
        // Deeper than the mask: counts as closed, which at_top_level then says too.
        if (p->depth < 64)
            p->transparent = (p->transparent & ~(1ull << p->depth)) | (u64)opens_scope << p->depth;
        p->depth++;
    } else if (p->depth > 0) {
        p->depth--;
    }
}

// Only namespaces and extern "C" are open: a `__device__` member of a class is no helper of ours.
static bool at_top_level(const Pp *p)
{
    for (int i = 0; i < p->depth; i++) {
        if (i >= 64 || !(p->transparent >> i & 1)) return false;
    }
    return true;
}

// Walks host text to the next island. `__co__` and `__cok__` start one wherever they stand; a
// `__device__` only where a declaration begins, behind its template head and specifiers, because in
// `[] __device__ (int i)` and in a class it is part of host text.
bool pp_next(Pp *p, PpIsland *out)
{
    *out = (PpIsland){.sink = &p->hard};
    if (p->finished) return false;
    bool boundary = true, opens_scope = false, prefixed = false; // a declaration begins; its words
    size_t prefix_at = 0;
    Loc prefix_loc = {0};
    p->lx.every_hash = true;
    for (;;) {
        RawItem r = lex_raw(&p->lx);
        Loc loc = lex_loc(&p->lx);
        loc.col = (u16)MIN(MAX((int)loc.col - (int)r.n, 1), 65535);
        if (r.kind == RAW_EOF || p->dead) break;
        if (r.kind == RAW_DIRECTIVE) {
            pp_directive(p, NULL);
            pp_skip(p);
            boundary = true;
            prefixed = false;
            continue;
        }
        bool co = word_is(p, r, "__co__"), cok = word_is(p, r, "__cok__");
        if (co || word_is(p, r, "__device__") || word_is(p, r, "__co_device__")) {
            if (co || ((boundary || prefixed) && at_top_level(p))) {
                bool back = prefixed && !co;
                p->lx.pos = r.at; // the function's tokens start with this word
                if (back) lex_rewind(&p->lx, prefix_at, prefix_loc);
                read_island(p, out, co ? PART_TILE : PART_DEVICE, back ? prefix_at : r.at,
                            back ? prefix_loc : loc);
                return true;
            }
        } else if (cok) {
            read_island(p, out, PART_DEVICE_BLOCK, r.at, loc);
            return true;
        }
        if ((boundary || prefixed) && is_device_prefix(p, r)) {
            if (!prefixed) prefix_at = r.at, prefix_loc = loc;
            prefixed = true;
            if (word_is(p, r, "template")) skip_template(p);
        } else {
            prefixed = false;
        }
        if (boundary) opens_scope = word_is(p, r, "namespace") || word_is(p, r, "extern");
        boundary = r.kind == RAW_CHAR && (r.c == ';' || r.c == '{' || r.c == '}');
        if (r.kind == RAW_CHAR && (r.c == '{' || r.c == '}')) host_brace(p, r.c, opens_scope);
    }
    for (int i = 0; i < p->conds.n && !p->dead; i++)
        ast_error(&p->hard, p->conds.at[i].loc, "close it with #endif", "#if without #endif");
    p->finished = true;
    out->host = p->lx.s + p->host_at;
    out->host_n = p->lx.n - p->host_at;
    out->host_loc = p->host_loc;
    return false;
}

// ---- life -------------------------------------------------------------------------------------

// The text must outlive the islands: their texts point into it.
Pp *pp_new(Arena *a, Intern *in, Diag *d, u16 file, const char *text, size_t n)
{
    Pp *p = ARENA_NEW(a, Pp);
    p->arena = a;
    p->in = in;
    p->lx = lex_open(a, in, file, text, n);
    p->hard = (AstSink){.arena = a, .diag = d};
    p->sink = &p->hard;
    p->macros = map_new(a);
    p->host_loc = (Loc){file, 1, 1};
    return p;
}

const AstIntrinsicVec *pp_intrinsics(const Pp *p) { return &p->intrinsics; }
