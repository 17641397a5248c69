// parse_c.c - device helpers: the small C dialect that the compiler can inline.
//
// Input: the tokens of a `__device__` function. Output: an AST_FUNC with AST_F_DEVICE. The dialect
// has scalars, arrays of constant size, pointers and references as parameters, if, for, while,
// return, assignments, calls, and C's operators with C's precedence. Anything else is an error in
// a quiet sink: the helper is then kept as text, and the first error says why.
#include "parse.h"

#include <string.h>

// Type words of C and CUDA that are no type words of the tile language.
static const struct {
    const char *name;
    i32 dtype; // -1: goes with an int or a longer word
} c_types[] = {
    {"int8_t", DT_S8},
    {"int16_t", DT_S16},
    {"int32_t", DT_S32},
    {"int64_t", DT_S64},
    {"uint8_t", DT_U8},
    {"uint16_t", DT_U16},
    {"uint32_t", DT_U32},
    {"uint64_t", DT_U64},
    {"size_t", DT_U64},
    {"__half", DT_F16},
    {"__nv_bfloat16", DT_BF16},
    {"nv_bfloat16", DT_BF16},
    {"unsigned", -1},
    {"signed", -1},
    {"short", -1},
    {"long", -1},
    {"char", -1},
};

// C's words compare by text: they were interned as plain names.
static bool is_word(const Token *t, const char *word)
{
    return t->kind == TOK_NAME && strcmp(t->name, word) == 0;
}

// C's words are plain names for the lexer, which knows the tile language only.
static bool accept_word(Parser *p, const char *word)
{
    if (!is_word(p_tok(p), word)) return false;
    p_next(p);
    return true;
}

// Row of c_types, or -1.
static int c_type_word(const Token *t)
{
    for (int i = 0; t->kind == TOK_NAME && i < COUNT(c_types); i++) {
        if (strcmp(t->name, c_types[i].name) == 0) return i;
    }
    return -1;
}

// Name of a template parameter that is a type: it has no dtype until the call says which.
static bool is_type_param(const Parser *p, const Token *t)
{
    for (int i = 0; t->kind == TOK_NAME && i < p->type_params.n; i++)
        if (p->type_params.at[i]->name == t->name) return true;
    return false;
}

// Tells a declaration from an expression, and a cast from parentheses, by the first word: the
// dialect has no types of its own.
bool p_c_type_here(const Parser *p, int k)
{
    const Token *t = p_ahead(p, k);
    if (is_word(t, "const")) t = p_ahead(p, k + 1);
    return t->kind == TOK_TYPE || c_type_word(t) >= 0 || is_type_param(p, t) || is_word(t, "auto");
}

// (('unsigned' | 'signed') | 'short' | 'long' ['long'] | 'char' | 'int')+ as the element type
// In any order, as C allows; plain char is signed here.
static i32 integer_words(Parser *p)
{
    bool is_unsigned = false;
    int bytes = 4;
    for (;; p_next(p)) {
        const Token *t = p_tok(p);
        if (is_word(t, "unsigned"))
            is_unsigned = true;
        else if (is_word(t, "short"))
            bytes = 2;
        else if (is_word(t, "long"))
            bytes = 8;
        else if (is_word(t, "char"))
            bytes = 1;
        else if (!is_word(t, "signed") && !(t->kind == TOK_TYPE && strcmp(t->name, "int") == 0))
            break;
    }
    switch (bytes) {
    case 1: return is_unsigned ? DT_U8 : DT_S8;
    case 2: return is_unsigned ? DT_U16 : DT_S16;
    case 8: return is_unsigned ? DT_U64 : DT_S64;
    default: return is_unsigned ? DT_U32 : DT_S32;
    }
}

// ctype : ['const'] (TYPE | integer words | a typedef name of CUDA) ['const']
AstNode *p_c_type(Parser *p)
{
    AstNode *t = p_node(p, AST_TYPE, p_loc(p));
    if (accept_word(p, "const")) t->flags |= AST_F_CONST;
    const Token *k = p_tok(p);
    int i = c_type_word(k);
    t->name = k->name ? k->name : intern(p->in, "?");
    t->dtype = k->dtype;
    if (i >= 0 && c_types[i].dtype < 0) {
        t->dtype = integer_words(p);
    } else if (is_type_param(p, k)) {
        t->dtype = -1;
        p_next(p);
    } else if (i >= 0 || k->kind == TOK_TYPE) {
        if (i >= 0) t->dtype = c_types[i].dtype;
        p_next(p);
    } else {
        p_fail(p, NULL, "expected a type, found %s", p_found(p));
    }
    if (accept_word(p, "const")) t->flags |= AST_F_CONST;
    return t;
}

// ('[' [expr] ']')*
// An empty pair of brackets (`float x[]`) adds no extent.
static AstList extents(Parser *p)
{
    NodeVec v = {0};
    while (!p->panic && p_accept(p, P_LBRACKET)) {
        if (!p_is(p, P_RBRACKET)) vec_push(p->arena, &v, p_expr(p));
        p_expect(p, P_RBRACKET, "']'");
    }
    return p_list(&v);
}

// cparam : ctype ['*' | '&'] ['__restrict__'] [ID] ('[' [expr] ']')*  |  ctype '(' '&' ID ')' '['
// expr ']'
static AstNode *c_param(Parser *p)
{
    AstNode *x = p_node(p, AST_PARAM, p_loc(p));
    x->type = p_c_type(p);
    x->flags = x->type->flags & AST_F_CONST;
    // `float (&x)[4]`, a reference to an array.
    bool paren = !p->panic && p_accept(p, P_LPAREN);
    if (!p->panic && p_accept(p, P_MUL))
        x->flags |= AST_F_POINTER;
    else if (!p->panic && p_accept(p, P_AND))
        x->flags |= AST_F_REF;
    if (!accept_word(p, "__restrict__")) accept_word(p, "const");
    if (!p->panic && !p_is(p, P_COMMA) && !p_is(p, P_RPAREN))
        x->name = p_name(p, "the name of a parameter");
    if (paren) p_expect(p, P_RPAREN, "')'");
    if (!p->panic && p_is(p, P_LBRACKET)) {
        x->flags |= AST_F_POINTER;
        x->list = extents(p);
    }
    return x;
}

// cdecl : ['static'] ['constexpr'] ctype (['*' | '&'] ID ('[' expr ']')* ['=' expr | '{' expr,*
// '}']),+
// Each name gets a node of its own; they share the type node.
static void c_decl(Parser *p, NodeVec *out)
{
    if (is_word(p_tok(p), "static")) p_fail(p, NULL, "a static variable in a device helper");
    accept_word(p, "constexpr");
    AstNode *type = p_c_type(p);
    do {
        AstNode *d = p_node(p, AST_SCALAR_DECL, p_loc(p));
        d->type = type;
        d->flags = (type->flags & AST_F_CONST) ? AST_F_CONST : AST_F_MUTABLE;
        if (!p->panic && p_accept(p, P_MUL))
            d->flags |= AST_F_POINTER;
        else if (!p->panic && p_accept(p, P_AND))
            d->flags |= AST_F_REF;
        d->name = p_name(p, "the name to declare");
        d->list = extents(p);
        if (!p->panic && p_accept(p, P_ASSIGN))
            d->value = p_expr(p);
        else if (!p->panic && p_is(p, P_LBRACE))
            d->value = p_bracket_list(p, AST_TUPLE, P_RBRACE);
        vec_push(p->arena, out, d);
    } while (!p->panic && p_accept(p, P_COMMA));
}

// cassign : expr [assignment operator expr]
static AstNode *c_assign(Parser *p)
{
    Loc loc = p_loc(p);
    AstNode *e = p_expr(p);
    int op = p->panic ? AST_OP_NONE : p_assign_op(p_tok(p)->kind);
    AstNode *s = p_node(p, op ? AST_ASSIGN : AST_EXPR, loc);
    if (!op) {
        s->value = e;
        return s;
    }
    s->op = (u8)op;
    s->target = e;
    p_next(p);
    s->value = p_expr(p);
    return s;
}

// `float(x)` is a conversion, `float x` a declaration.
static bool c_decl_here(const Parser *p)
{
    bool word = is_word(p_tok(p), "static") || is_word(p_tok(p), "constexpr");
    return word || (p_c_type_here(p, 0) && p_ahead(p, 1)->kind != P_LPAREN);
}

// cassign,* up to `close`, which stays
// The comma separates statements here: the dialect has no comma operator.
static AstList c_assigns(Parser *p, int close)
{
    NodeVec v = {0};
    if (!p->panic && !p_is(p, close)) {
        do vec_push(p->arena, &v, c_assign(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    return p_list(&v);
}

// 'for' '(' (cdecl | cassign,*) ';' [expr] ';' cassign,* ')' body
// A variable that is declared in the head lives in the loop.
static AstNode *c_for(Parser *p)
{
    AstNode *s = p_node(p, AST_FOR, p_loc(p));
    NodeVec init = {0};
    p_next(p);
    p_expect(p, P_LPAREN, "'(' behind 'for'");
    if (!p->panic && c_decl_here(p)) {
        c_decl(p, &init);
        s->list = p_list(&init);
    } else {
        s->list = c_assigns(p, P_SEMI);
    }
    p_expect(p, P_SEMI, "';'");
    if (!p->panic && !p_is(p, P_SEMI)) s->cond = p_expr(p);
    p_expect(p, P_SEMI, "';'");
    s->list2 = c_assigns(p, P_RPAREN);
    p_expect(p, P_RPAREN, "')'");
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// '#pragma unroll [n]' for
static AstNode *unrolled_for(Parser *p)
{
    AstNode *x = p_node(p, AST_SUFFIX, p_loc(p));
    NodeVec attrs = {0}, factor = {0};
    x->name = intern(p->in, "unroll");
    if (p_tok(p)->ival) {
        AstNode *n = p_node(p, AST_INT, p_loc(p));
        n->dtype = DT_S32;
        n->ivalue = p_tok(p)->ival;
        vec_push(p->arena, &factor, n);
    }
    x->list = p_list(&factor);
    vec_push(p->arena, &attrs, x);
    p_next(p);
    if (!is_word(p_tok(p), "for")) {
        p_fail(p, NULL, "#pragma unroll before something that is no for loop");
        return p_error_node(p);
    }
    AstNode *s = c_for(p);
    s->attrs = p_list(&attrs);
    return s;
}

// cstmt : '{' cstmt* '}' | if | while | for | cdecl ';' | 'return' [expr] ';' | 'break' ';' |
// 'continue' ';'
//       | asm ';' | cassign ';' | ';'
// What C has beyond the dialect is named, so that the reason for keeping a helper as text is
// clear.
void p_c_stmt(Parser *p, NodeVec *out)
{
    static const char *const foreign[] = {"do",    "switch",  "goto", "struct",
                                          "using", "typedef", "try",  "extern"};
    const Token *t = p_tok(p);
    for (int i = 0; i < COUNT(foreign); i++) {
        if (is_word(t, foreign[i]))
            p_fail(p, NULL, "'%s' is outside the C that device helpers may use", foreign[i]);
    }
    if (p->panic || p_accept(p, P_SEMI)) return;
    AstNode *s = NULL;
    if (t->kind == TOK_PRAGMA_UNROLL)
        s = unrolled_for(p);
    else if (is_word(t, "for"))
        s = c_for(p);
    else if (t->kind == P_LBRACE || t->kind == KW_IF || t->kind == KW_WHILE)
        s = p_c_compound(p);
    if (s) {
        vec_push(p->arena, out, s);
        return;
    }
    if (c_decl_here(p)) {
        c_decl(p, out);
    } else {
        bool word = t->kind == KW_RETURN || t->kind == KW_BREAK || t->kind == KW_CONTINUE ||
                    t->kind == KW_ASM;
        s = word ? p_word_stmt(p) : c_assign(p);
        vec_push(p->arena, out, s);
    }
    p_semi(p, "the statement");
}

// 'template' '<' (ctype | 'typename' | 'class') ID ,* '>'
// A parameter that is a type has no type node.
static AstList template_params(Parser *p)
{
    NodeVec v = {0};
    p_expect(p, P_LT, "'<'");
    if (!p->panic && !p_is(p, P_GT)) {
        do {
            AstNode *x = p_node(p, AST_PARAM, p_loc(p));
            bool is_type = accept_word(p, "typename") || accept_word(p, "class");
            if (!is_type) x->type = p_c_type(p);
            x->name = p_name(p, "the name of a template parameter");
            if (is_type) vec_push(p->arena, &p->type_params, x);
            vec_push(p->arena, &v, x);
        } while (!p->panic && p_accept(p, P_COMMA));
    }
    p_expect(p, P_GT, "'>'");
    return p_list(&v);
}

// dfunc : ['template' '<' .. '>'] word* '__device__' word* ctype ['*'] ID '(' cparam,* ')' '{'
// cstmt* '}'
// Errors go to the quiet sink of the island: the function is then kept as text.
AstNode *p_device_function(Parser *p)
{
    static const char *const words[] = {"static",     "inline",     "__forceinline__",
                                        "__host__",   "constexpr",  "__noinline__",
                                        "__inline__", "__device__", "__co_device__"};
    AstNode *f = p_node(p, AST_FUNC, p_loc(p));
    NodeVec params = {0};
    f->flags |= AST_F_DEVICE;
    p->type_params.n = 0;
    if (accept_word(p, "template")) f->list2 = template_params(p);
    for (int i = 0; i < COUNT(words); i++) {
        if (accept_word(p, words[i])) i = -1; // in any order
    }
    f->type = p_c_type(p);
    if (p_is(p, P_MUL) || p_is(p, P_AND))
        p_fail(p, NULL, "a device helper that returns a pointer or reference");
    f->loc = p_loc(p);
    f->name = p_name(p, "the name of the function");
    p_expect(p, P_LPAREN, "'(' and the parameters");
    bool none =
        p_is(p, TOK_TYPE) && strcmp(p_tok(p)->name, "void") == 0 && p_ahead(p, 1)->kind == P_RPAREN;
    if (none) p_next(p);
    if (!p->panic && !p_is(p, P_RPAREN)) {
        do vec_push(p->arena, &params, c_param(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    f->list = p_list(&params);
    p_expect(p, P_RPAREN, "')' behind the parameters");
    if (!p->panic && !p_is(p, P_LBRACE)) p_fail(p, NULL, "a declaration without a body");
    f->body = p->panic ? p_node(p, AST_BLOCK, p_loc(p)) : p_block(p, "the function");
    return f;
}
