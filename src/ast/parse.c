// parse.c - the parser's ground: tokens, errors and recovery, nodes, types, functions, the file.
//
// Input: the islands of pp.c. Output: an AstFile. Invariants: the parser reads every token at most
// once, apart from bounded look-ahead; nesting is limited by AST_MAX_DEPTH; one statement gives at
// most one syntax error.
#include "parse.h"

#include <string.h>

// ---- tokens -----------------------------------------------------------------------------------

// Looking beyond the end gives the end again, so no production needs to ask whether it is near.
const Token *p_ahead(const Parser *p, int k) { return &p->t[MIN(p->i + k, p->n - 1)]; }
const Token *p_tok(const Parser *p) { return p_ahead(p, 0); }
bool p_is(const Parser *p, int kind) { return p_tok(p)->kind == kind; }
Loc p_loc(const Parser *p) { return p_tok(p)->loc; }
const char *p_found(const Parser *p) { return tok_describe(p->arena, p_tok(p)); }

bool p_is_method(const Parser *p, const char *name)
{
    return p_is(p, TOK_METHOD) && strcmp(p_tok(p)->name, name) == 0;
}

// Never leaves TOK_EOF: loops end by asking for it.
void p_next(Parser *p)
{
    if (p->i < p->n - 1) p->i++;
}

bool p_accept(Parser *p, int kind)
{
    if (!p_is(p, kind)) return false;
    p_next(p);
    return true;
}

bool p_accept_method(Parser *p, const char *name)
{
    if (!p_is_method(p, name)) return false;
    p_next(p);
    return true;
}

// ---- errors -----------------------------------------------------------------------------------

// Is a syntax error here only the echo of an error that was reported already: a malformed token, or
// a function that does not end?
static bool is_echo(const Parser *p)
{
    const Token *t = p_tok(p), *before = p->i > 0 ? &p->t[p->i - 1] : t;
    if (t->kind == TOK_EOF && p->sink->errors) return true;
    return t->err || before->err || (t->flags & TF_AFTER_BAD) || (before->flags & TF_AFTER_BAD);
}

// The text is formatted at once: the arguments may live on the caller's stack.
static void complain(Parser *p, Loc loc, const char *hint, const char *fmt, va_list ap)
{
    ast_error(p->sink, loc, hint, "%s", arena_vprintf(p->arena, fmt, ap));
}

// A syntax error: the statement is lost (panic), and only its first error is worth telling.
void p_fail(Parser *p, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!p->panic && !is_echo(p)) complain(p, p_loc(p), hint, fmt, ap);
    p->panic = true;
    va_end(ap);
}

void p_fail_at(Parser *p, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!p->panic && !is_echo(p)) complain(p, loc, hint, fmt, ap);
    p->panic = true;
    va_end(ap);
}

// A broken rule in a statement that could be read: reading goes on, so no panic.
void p_complain(Parser *p, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!p->panic) complain(p, loc, hint, fmt, ap);
    va_end(ap);
}

// In panic nothing is consumed, so that p_sync finds the statement's end.
bool p_expect(Parser *p, int kind, const char *what)
{
    if (p->panic) return false;
    if (p_accept(p, kind)) return true;
    p_fail(p, NULL, "expected %s, found %s", what, p_found(p));
    return false;
}

// A missing ';' is reported where it belongs, behind the last token, not at the next line's first.
void p_semi(Parser *p, const char *what)
{
    if (p->panic || p_accept(p, P_SEMI)) return;
    const Token *t = p_tok(p), *before = p->i > 0 ? &p->t[p->i - 1] : t;
    Loc loc = before->loc;
    loc.col = (u16)MIN(loc.col + before->len, 65535u);
    p_fail_at(p, loc, NULL, "expected ';' behind %s, found %s", what, p_found(p));
    // A new line or a closing brace: only the ';' was forgotten, the rest is sound.
    if ((t->flags & TF_LINE_START) || t->kind == P_RBRACE) p->panic = false;
}

// Does a token of this kind begin a statement wherever it stands?
static bool starts_statement(int kind)
{
    static const u8 kinds[] = {
        KW_PARALLEL, KW_FOREACH, KW_WHILE,      KW_IF,         KW_INTHREADS,
        KW_WITH,     KW_APPLY,   KW_WAIT,       KW_TRIGGER,    KW_SWAP,
        KW_ROTATE,   KW_COPY,    KW_REDUCE_MAX, KW_REDUCE_SUM, KW_ALL_REDUCE_SUM,
        KW_SYNC,     KW_RETURN,  KW_BREAK,      KW_CONTINUE,   KW_YIELD,
        KW_ASM,      KW_ASSERT,  KW_PRINT,      KW_PRINTLN,    KW_SHARED,
        KW_LOCAL,    KW_EVENT,   KW_FRAG,       KW_MUTABLE,    TOK_TYPE};
    return memchr(kinds, kind, sizeof kinds) != NULL;
}

// Skips the rest of a broken statement: to behind its ';', to the '}' of the block around it, or to
// a line that begins with the first word of a statement. Braces inside are skipped as pairs.
void p_sync(Parser *p)
{
    int braces = 0, from = p->i;
    for (; !p_is(p, TOK_EOF); p_next(p)) {
        const Token *t = p_tok(p);
        if (braces == 0 && t->kind == P_RBRACE) break;
        if (braces == 0 && p->i > from && (t->flags & TF_LINE_START) && starts_statement(t->kind))
            break;
        if (t->kind == P_LBRACE) braces++;
        if (t->kind == P_RBRACE) braces--;
        if (braces > 0 || (t->kind != P_SEMI && t->kind != P_RBRACE)) continue;
        bool closed = t->kind == P_RBRACE;
        if (closed && !(p_ahead(p, 1)->flags & TF_LINE_START)) continue; // `x = {1, 2} + 3;`
        p_next(p);
        break;
    }
    p->panic = false;
}

// The one guard against deep recursion: every production that can contain itself goes through it.
bool p_enter(Parser *p)
{
    if (p->depth >= AST_MAX_DEPTH) {
        p_fail(p, "use names for the parts", "nested deeper than %d levels", AST_MAX_DEPTH);
        return false;
    }
    p->depth++;
    return true;
}

void p_leave(Parser *p) { p->depth--; }

// ---- nodes ------------------------------------------------------------------------------------

// All fields zero but kind, place and dtype, where 0 would be DT_F32.
AstNode *p_node(Parser *p, AstKind kind, Loc loc)
{
    AstNode *n = ARENA_NEW(p->arena, AstNode);
    n->kind = (u8)kind;
    n->loc = loc;
    n->dtype = -1;
    return n;
}

AstNode *p_error_node(Parser *p) { return p_node(p, AST_ERROR, p_loc(p)); }

// Freezes a vector; the vector must not grow afterwards.
AstList p_list(const NodeVec *v) { return (AstList){v->at, v->n}; }

// Entries may be NULL: a range leaves out its bounds.
static int list_depth(const AstList *l)
{
    int d = 0;
    for (int i = 0; i < l->n; i++) {
        if (l->at[i]) d = MAX(d, l->at[i]->depth);
    }
    return d;
}

// Recursion guards the parser, but `a + a + ...` grows a tall tree without recursion here; those
// who walk the tree recurse. So the height is limited too, when a node is finished.
AstNode *p_height(Parser *p, AstNode *e)
{
    int d = MAX(list_depth(&e->list), list_depth(&e->list2));
    d = MAX(d, MAX(list_depth(&e->list3), list_depth(&e->list4)));
    const AstNode *kids[] = {e->value, e->cond, e->alt};
    for (int i = 0; i < COUNT(kids); i++) {
        if (kids[i]) d = MAX(d, kids[i]->depth);
    }
    if (d + 1 > AST_MAX_DEPTH) {
        p_fail_at(p, e->loc, "use names for the parts", "expression is more than %d levels deep",
                  AST_MAX_DEPTH);
        return p_node(p, AST_ERROR, e->loc);
    }
    e->depth = (u16)(d + 1);
    return e;
}

// Device text may use the tile language's words as names: it is C.
const char *p_name(Parser *p, const char *what)
{
    const Token *t = p_tok(p);
    bool reserved =
        t->kind == TOK_TYPE || t->kind == TOK_WILD || (t->kind >= KW_AFTER && t->kind <= KW_YIELD);
    if (p->panic) return NULL;
    if (t->kind == TOK_NAME || (p->c_mode && reserved && t->kind != KW_GROUP4)) {
        p_next(p);
        return t->name;
    }
    if (reserved)
        p_fail(p, "choose another name", "expected %s, found '%s', which is a reserved word", what,
               t->name);
    else
        p_fail(p, NULL, "expected %s, found %s", what, p_found(p));
    return NULL;
}

// name : ID
AstNode *p_name_node(Parser *p, const char *what)
{
    Loc loc = p_loc(p);
    const char *name = p_name(p, what);
    if (!name) return p_error_node(p);
    AstNode *n = p_node(p, AST_NAME, loc);
    n->name = name;
    return n;
}

// ---- types ------------------------------------------------------------------------------------

// scalar : TYPE | 'stream'
// After an error the type is named "?", which no later rule mistakes for one.
AstNode *p_scalar_type(Parser *p, const char *what)
{
    AstNode *t = p_node(p, AST_TYPE, p_loc(p));
    const Token *k = p_tok(p);
    if (k->kind != TOK_TYPE && k->kind != KW_STREAM) {
        p_fail(p, "types are f32 f16 bf16 f8_e4m3 s32 u32 s64 bool ...", "expected %s, found %s",
               what, p_found(p));
        t->name = intern(p->in, "?");
        return t;
    }
    t->name = k->name;
    t->dtype = k->dtype;
    p_next(p);
    return t;
}

// dim : '?' | '??' | expr
static AstNode *dim(Parser *p, bool param)
{
    bool fresh = p_is(p, P_QUEST), unbounded = p_is(p, P_QQ);
    if (!fresh && !unbounded) return p_expr(p);
    AstNode *d = p_node(p, AST_ANYDIM, p_loc(p));
    if (unbounded) d->flags |= AST_F_UNBOUNDED;
    if (!param)
        p_complain(p, d->loc, "give the extent",
                   "'%s' is only allowed in the dimensions of a parameter", p_tok(p)->name);
    p_next(p);
    return d;
}

// dims : '[' dim,+ ']' | '[' 'auto' ']' | 'mdspan' '<' INT '>'
void p_dims(Parser *p, AstNode *type, bool param)
{
    NodeVec v = {0};
    type->flags |= AST_F_SPANNED;
    if (p_accept(p, KW_MDSPAN)) {
        type->flags |= AST_F_RANK_ONLY;
        p_expect(p, P_LT, "'<' behind mdspan");
        type->ivalue = p_is(p, TOK_INT) ? p_tok(p)->ival : 0;
        p_expect(p, TOK_INT, "the rank, a number");
        p_expect(p, P_GT, "'>'");
        return;
    }
    p_expect(p, P_LBRACKET, "'['");
    if (p_is(p, TOK_TYPE) && strcmp(p_tok(p)->name, "auto") == 0) {
        type->flags |= AST_F_AUTO_DIMS;
        p_next(p);
    } else {
        do vec_push(p->arena, &v, dim(p, param));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    p_expect(p, P_RBRACKET, "',' or ']'");
    type->list = p_list(&v);
}

// ---- functions --------------------------------------------------------------------------------

// Rules that need nothing but the parameter itself.
static void check_param(Parser *p, const AstNode *x)
{
    if (x->storage == STOR_SHARED || x->storage == STOR_LOCAL)
        p_complain(p, x->loc, "parameters are global or host data", "a parameter cannot be %s",
                   ast_storage_name(x->storage));
    if (!(x->flags & AST_F_REF)) return;
    if (!(x->type->flags & AST_F_SPANNED))
        p_complain(p, x->loc, "return the value, or pass a one-element tensor",
                   "'&' is not allowed on a scalar parameter");
    else if (x->storage == STOR_GLOBAL)
        p_complain(p, x->loc, "global data is written in place; drop the '&'",
                   "'&' is not allowed on a global parameter");
    else if (!x->name)
        p_complain(p, x->loc, "name it", "a parameter with '&' needs a name");
}

// param : ['global'] (scalar | 'stream' | T dims) ['&'] [ID]
// shared and local are read too, so that check_param can say why they are wrong.
static AstNode *param(Parser *p)
{
    AstNode *x = p_node(p, AST_PARAM, p_loc(p));
    if (p_accept(p, KW_GLOBAL))
        x->storage = STOR_GLOBAL;
    else if (p_accept(p, KW_SHARED))
        x->storage = STOR_SHARED;
    else if (p_accept(p, KW_LOCAL))
        x->storage = STOR_LOCAL;
    x->type = p_scalar_type(p, "the type of a parameter");
    if (!p->panic && (p_is(p, P_LBRACKET) || p_is(p, KW_MDSPAN))) p_dims(p, x->type, true);
    if (!p->panic && p_accept(p, P_AND)) x->flags |= AST_F_REF;
    if (!p->panic && !p_is(p, P_COMMA) && !p_is(p, P_RPAREN))
        x->name = p_name(p, "the name of a parameter");
    if (!p->panic && p_is(p, P_LBRACKET))
        p_fail(p, "the form is f32 [M, N] name",
               "the dimensions of a parameter stand before its name");
    check_param(p, x);
    return x;
}

// Leaves a broken head: to the body's '{', or to the end.
static void skip_head(Parser *p)
{
    while (!p_is(p, P_LBRACE) && !p_is(p, TOK_EOF)) p_next(p);
    p->panic = false;
}

// func : '__co__' rtype ID '(' param,* ')' '{' stmt* '}'       rtype : scalar | 'void' | 'auto' | T
// dims
// At the word __co__. The node is always complete: a head that cannot be read still leaves a body
// to look at.
AstNode *p_function(Parser *p)
{
    NodeVec params = {0};
    p_next(p);
    AstNode *f = p_node(p, AST_FUNC, p_loc(p));
    f->type = p_scalar_type(p, "the return type of the function");
    if (!p->panic && p_is(p, P_LBRACKET)) p_dims(p, f->type, false);
    f->loc = p_loc(p);
    f->name = p_name(p, "the name of the function");
    p_expect(p, P_LPAREN, "'(' and the parameters");
    if (!p->panic && !p_is(p, P_RPAREN)) {
        do vec_push(p->arena, &params, param(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    f->list = p_list(&params);
    p_expect(p, P_RPAREN, "',' or ')' behind a parameter");
    if (!p->panic && p_is(p, P_SEMI))
        p_fail(p, "write the function with its body, where it is",
               "a tile function cannot be declared without a body");
    if (!p->panic && !p_is(p, P_LBRACE))
        p_fail(p, NULL, "expected '{' and the body, found %s", p_found(p));
    if (p->panic) skip_head(p);
    f->body = p_is(p, P_LBRACE) ? p_block(p, "the function") : p_node(p, AST_BLOCK, p_loc(p));
    return f;
}

// ---- the file ---------------------------------------------------------------------------------

// A parser over the tokens of one island; islands share nothing but the macros behind them.
static Parser open_parser(Arena *a, Intern *in, const PpIsland *isl, const Pp *pp)
{
    return (Parser){.arena = a,
                    .in = in,
                    .sink = isl->sink,
                    .t = isl->tokens.at,
                    .n = isl->tokens.n,
                    .intrinsics = pp_intrinsics(pp),
                    .c_mode = isl->kind == PART_DEVICE};
}

// The name of a device helper that is kept as text: the word before its first '('.
// Good enough for a message that names the helper.
static const char *guess_name(const PpIsland *isl)
{
    for (int i = 1; i < isl->tokens.n; i++) {
        if (isl->tokens.at[i].kind == P_LPAREN && isl->tokens.at[i - 1].kind == TOK_NAME)
            return isl->tokens.at[i - 1].name;
    }
    return NULL;
}

// A device helper that gave an error is kept as text with the reason, which is shown only when tile
// code calls it.
static AstPart island_part(Arena *a, Intern *in, const PpIsland *isl, const Pp *pp)
{
    AstPart part = {.kind = isl->kind, .loc = isl->loc, .text = isl->text, .text_n = isl->text_n};
    if (isl->kind == PART_DEVICE_BLOCK) return part;
    Parser p = open_parser(a, in, isl, pp);
    AstNode *f = p.c_mode ? p_device_function(&p) : p_function(&p);
    f->text = isl->text;
    f->text_n = isl->text_n;
    part.name = f->name;
    if (p.c_mode && isl->sink->errors) {
        part.why = isl->sink->why;
        part.why_loc = isl->sink->why_loc;
        part.name = guess_name(isl);
    } else {
        part.fn = f;
    }
    return part;
}

// Islands are parsed as they come out of the preprocessor: a #define between two functions counts
// for the second only.
AstFile *ast_parse(Arena *a, Intern *in, Diag *d, u16 file, const char *text, size_t n,
                   const AstDefine *defines, int ndefines)
{
    AstFile *f = ARENA_NEW(a, AstFile);
    VEC(AstPart) parts = {0};
    PpIsland isl;
    AstSink sink = {.arena = a, .diag = d};
    Pp *pp = pp_new(a, in, d, file, text, n);
    f->file = file;
    for (int i = 0; i < ndefines; i++) pp_define(pp, defines[i].name, defines[i].value);
    ast_contract(a, &sink, file, text, n, f);
    for (bool more = true; more;) {
        more = pp_next(pp, &isl);
        if (isl.host_n)
            vec_push(a, &parts,
                     ((AstPart){.kind = PART_HOST,
                                .loc = isl.host_loc,
                                .text = isl.host,
                                .text_n = isl.host_n}));
        if (more) vec_push(a, &parts, island_part(a, in, &isl, pp));
    }
    f->parts = parts.at;
    f->nparts = parts.n;
    pp_macros(pp, &f->macros, &f->nmacros);
    return f;
}
