// parse_expr.c - expressions: one precedence climber for two tables, primaries, methods and views.
//
// Input: tokens. Output: expression trees of at most AST_MAX_DEPTH levels. The tile language binds
// `& ^ |` tighter than arithmetic; where that gives another grouping than C's, a warning says so.
#include "parse.h"

#include <string.h>

// ---- operators ----------------------------------------------------------------------------------

typedef struct {
    u8 tok, op, tile, c; // level in tile code and in C text: higher binds tighter, 0: none there
} Binary;

enum { TILE_UNARY = 10, TILE_TIGHT = 13, C_UNARY = 11 }; // operands of unary operators start here

static const Binary binaries[] = {
    {P_LOR, AST_OP_LOR, 1, 1},       {P_LAND, AST_OP_LAND, 2, 2},
    {P_EQ, AST_OP_EQ, 3, 6},         {P_NE, AST_OP_NE, 3, 6},
    {P_LT, AST_OP_LT, 4, 7},         {P_LE, AST_OP_LE, 4, 7},
    {P_GT, AST_OP_GT, 4, 7},         {P_GE, AST_OP_GE, 4, 7},
    {P_SHL, AST_OP_SHL, 5, 8},       {P_SHR, AST_OP_SHR, 5, 8},
    {P_ADD, AST_OP_ADD, 6, 9},       {P_SUB, AST_OP_SUB, 6, 9},
    {P_MUL, AST_OP_MUL, 7, 10},      {P_DIV, AST_OP_DIV, 7, 10},
    {P_MOD, AST_OP_MOD, 7, 10},      {P_UB_ADD, AST_OP_UB_ADD, 8, 0},
    {P_UB_SUB, AST_OP_UB_SUB, 8, 0}, {P_UB_MUL, AST_OP_UB_MUL, 9, 0},
    {P_UB_DIV, AST_OP_UB_DIV, 9, 0}, {P_UB_MOD, AST_OP_UB_MOD, 9, 0},
    {P_AND, AST_OP_AND, 11, 5},      {P_XOR, AST_OP_XOR, 11, 4},
    {P_OR, AST_OP_OR, 11, 3},        {P_HASH, AST_OP_JOIN, 12, 0},
};

// Row of a token, NULL when it is no binary operator in either language.
static const Binary *binary_of(int tok)
{
    for (int i = 0; i < COUNT(binaries); i++) {
        if (binaries[i].tok == tok) return &binaries[i];
    }
    return NULL;
}

// Level of a token as a binary operator here and now; 0 ends the expression. Inside |x| and <x> the
// closing sign is no operator.
static int binary_level(const Parser *p, int tok)
{
    const Binary *b = binary_of(tok);
    if (!b) return 0;
    if (p->no_bar && (tok == P_OR || tok == P_LOR)) return 0;
    if (p->no_gt && (tok == P_GT || tok == P_SHR || tok == P_GE)) return 0;
    return p->c_mode ? b->c : b->tile;
}

// An operation & ^ | that no parentheses protect.
static bool is_bitwise(const AstNode *e)
{
    return e->kind == AST_BINARY && !(e->flags & AST_F_PAREN) &&
           (e->op == AST_OP_AND || e->op == AST_OP_OR || e->op == AST_OP_XOR);
}

// C's level of & ^ | : the three are one level here, but not there.
static int c_rank(int op) { return op == AST_OP_AND ? 3 : op == AST_OP_XOR ? 2 : 1; }

// Warns where the grouping differs from C's and no parentheses show that it is meant.
static void warn_grouping(Parser *p, const AstNode *e)
{
    const AstNode *inner = NULL;
    if (p->c_mode || p->panic) return;
    if (e->kind == AST_UNARY && is_bitwise(e->value)) inner = e->value;
    if (e->kind == AST_BINARY) {
        const AstNode *l = e->list.at[0], *r = e->list.at[1];
        bool bitwise = e->op == AST_OP_AND || e->op == AST_OP_OR || e->op == AST_OP_XOR;
        bool arithmetic = (e->op >= AST_OP_ADD && e->op <= AST_OP_MOD) || e->op == AST_OP_SHL ||
                          e->op == AST_OP_SHR;
        if (arithmetic && is_bitwise(l)) inner = l;
        if (arithmetic && is_bitwise(r)) inner = r;
        if (bitwise && is_bitwise(l) && c_rank(l->op) < c_rank(e->op)) inner = l;
    }
    if (inner)
        ast_warning(
            p->sink, inner->loc, "& ^ | bind tighter than arithmetic here; write the parentheses",
            "'%s' is grouped before '%s', unlike in C", ast_op_text(inner->op), ast_op_text(e->op));
}

static AstNode *p_binary(Parser *p, int min);

// Every finished node passes through p_height, which bounds the tree.
static AstNode *make_unary(Parser *p, Loc loc, int op, AstNode *value)
{
    AstNode *e = p_node(p, AST_UNARY, loc);
    e->op = (u8)op;
    e->value = value;
    warn_grouping(p, e);
    return p_height(p, e);
}

// ---- lists and strings --------------------------------------------------------------------------

// expr,*  up to `close`, which is read
void p_exprs(Parser *p, NodeVec *out, int close)
{
    bool bar = p->no_bar, gt = p->no_gt;
    p->no_bar = p->no_gt = false;
    if (!p_accept(p, close)) {
        do vec_push(p->arena, out, p_expr(p));
        while (!p->panic && p_accept(p, P_COMMA));
        p_expect(p, close,
                 close == P_RPAREN     ? "',' or ')'"
                 : close == P_RBRACKET ? "',' or ']'"
                                       : "',' or '}'");
    }
    p->no_bar = bar;
    p->no_gt = gt;
}

// At the opening bracket.
AstNode *p_bracket_list(Parser *p, AstKind kind, int close)
{
    AstNode *e = p_node(p, kind, p_loc(p));
    NodeVec v = {0};
    p_next(p);
    p_exprs(p, &v, close);
    e->list = p_list(&v);
    return p_height(p, e);
}

// STRING+
// The joined bytes go into text and text_n; NULs may be among them.
void p_string(Parser *p, AstNode *into)
{
    size_t n = 0;
    int first = p->i;
    if (!p_is(p, TOK_STRING)) {
        p_fail(p, NULL, "expected a string, found %s", p_found(p));
        into->text = "";
        return;
    }
    for (; p_is(p, TOK_STRING); p_next(p)) n += p_tok(p)->text_n;
    char *s = arena_alloc(p->arena, n + 1);
    into->text = s;
    into->text_n = n;
    for (int i = first; i < p->i; i++) {
        memcpy(s, p->t[i].name, p->t[i].text_n);
        s += p->t[i].text_n;
    }
}

// ---- primaries ----------------------------------------------------------------------------------

// INT | FLOAT | CHAR | 'true' | 'false' | 'inf' | 'nullptr' | '_'
static AstNode *literal(Parser *p, AstKind kind)
{
    AstNode *e = p_node(p, kind, p_loc(p));
    const Token *t = p_tok(p);
    e->dtype = t->dtype;
    if (kind == AST_INT) e->ivalue = t->ival;
    if (kind == AST_FLOAT) e->fvalue = t->fval;
    if (kind == AST_BOOL) e->ivalue = t->kind == KW_TRUE;
    p_next(p);
    return e;
}

// '|' (expr | TYPE) '|'
// Elements of a shape, bytes of a type.
static AstNode *count(Parser *p)
{
    AstNode *e = p_node(p, AST_COUNT, p_loc(p));
    bool bar = p->no_bar, gt = p->no_gt;
    p_next(p);
    p->no_bar = true;
    p->no_gt = false;
    if (p_is(p, TOK_TYPE))
        e->type = p_scalar_type(p, "a type or value");
    else
        e->value = p_expr(p);
    p->no_bar = bar;
    p->no_gt = gt;
    p_expect(p, P_OR, "'|' that closes the element count");
    return p_height(p, e);
}

// ('__to' | '__bitcast') '<' (TYPE | STRING) '>' '(' expr ')'
// The form with a string names a type of the host's compiler, which only --emit=cuda can honour.
static AstNode *cast(Parser *p, AstKind kind)
{
    AstNode *e = p_node(p, kind, p_loc(p));
    const char *word = p_tok(p)->name;
    p_next(p);
    p_expect(p, P_LT, arena_printf(p->arena, "'<' behind %s", word));
    if (p_is(p, TOK_STRING) && kind == AST_CAST)
        p_string(p, e);
    else
        e->type = p_scalar_type(p, "the type to convert to");
    p_expect(p, P_GT, "'>'");
    p_expect(p, P_LPAREN, arena_printf(p->arena, "'(' behind %s<..>", word));
    e->value = p->panic ? p_error_node(p) : p_expr(p);
    p_expect(p, P_RPAREN, "')'");
    return p_height(p, e);
}

// ID ('::' ID)*
// Joined to one interned text; NULL after an error.
static const char *qualified_name(Parser *p, const char *what)
{
    const char *name = p_name(p, what);
    while (name && p_is(p, P_SCOPE)) {
        p_next(p);
        const char *part = p_name(p, "a name behind '::'");
        name = part ? intern_printf(p->in, "%s::%s", name, part) : NULL;
    }
    return name;
}

// Was the name introduced by #pragma croq intrinsic?
static bool is_intrinsic(const Parser *p, const char *name)
{
    for (int i = 0; i < p->intrinsics->n; i++) {
        const AstIntrinsic *x = &p->intrinsics->at[i];
        size_t n = strlen(x->prefix);
        if (strncmp(name, x->prefix, n) == 0 &&
            (!x->is_namespace || strncmp(name + n, "::", 2) == 0))
            return true;
    }
    return false;
}

// '<' (TYPE | expr),+ '>'
// Types and constants mix, as in C++.
static void template_args(Parser *p, AstNode *call)
{
    NodeVec v = {0};
    p_next(p);
    do {
        if (p_is(p, TOK_TYPE))
            vec_push(p->arena, &v, p_scalar_type(p, "a template argument"));
        else
            vec_push(p->arena, &v, p_expr_in_angles(p));
    } while (!p->panic && p_accept(p, P_COMMA));
    p_expect(p, P_GT, "',' or '>'");
    call->list2 = p_list(&v);
}

// 'call' ID ('::' ID)* ['<' targ,+ '>'] '(' expr,* ')'
// The cache hints were calls once; they are answered with the modifier that replaced them.
static AstNode *call_expr(Parser *p)
{
    AstNode *e = p_node(p, AST_CALL, p_loc(p));
    NodeVec v = {0};
    p_next(p);
    e->flags = AST_F_CALL;
    e->name = qualified_name(p, "the function to call");
    if (!e->name) return p_error_node(p);
    if (strcmp(e->name, "croq::cuda::evict_last") == 0 ||
        strcmp(e->name, "croq::cuda::evict_first") == 0) {
        const char *hint = strrchr(e->name, ':') + 1;
        p_fail_at(p, e->loc, arena_printf(p->arena, "write f = tma.load.async.%s src => dst", hint),
                  "the cache hint call '%s' was removed, it is a modifier of tma.load now",
                  e->name);
        return p_error_node(p);
    }
    if (p_is(p, P_LT)) template_args(p, e);
    if (!p->panic && p_expect(p, P_LPAREN, "'(' behind the function to call"))
        p_exprs(p, &v, P_RPAREN);
    e->list = p_list(&v);
    return p_height(p, e);
}

// C text: f<32>(..), with numbers, types and names only between the brackets, so that a comparison
// is none.
static bool template_call_here(const Parser *p)
{
    if (!p->c_mode || !p_is(p, P_LT)) return false;
    for (int k = 1;; k += 2) {
        int kind = p_ahead(p, k)->kind, next = p_ahead(p, k + 1)->kind;
        if (kind != TOK_INT && kind != TOK_TYPE && kind != TOK_NAME) return false;
        if (next == P_GT) return p_ahead(p, k + 2)->kind == P_LPAREN;
        if (next != P_COMMA) return false;
    }
}

// ID | ID '(' expr,* ')' | ('cdiv' | 'select') '(' expr,* ')'
// Whether x(i) is a call, an extent or an element is for the resolver: only it knows what x is.
static AstNode *name_or_call(Parser *p)
{
    Loc loc = p_loc(p);
    bool builtin = p_is(p, KW_CDIV) || p_is(p, KW_SELECT);
    const char *name = p_tok(p)->name;
    if (strcmp(name, "__to") == 0) return cast(p, AST_CAST);
    if (strcmp(name, "__bitcast") == 0) return cast(p, AST_BITCAST);
    if (builtin)
        p_next(p);
    else
        name = qualified_name(p, "a name");
    if (!name) return p_error_node(p);
    bool templated = template_call_here(p);
    if (!p_is(p, P_LPAREN) && !templated) {
        if (builtin) p_fail(p, NULL, "expected '(' behind %s, found %s", name, p_found(p));
        AstNode *e = p_node(p, AST_NAME, loc);
        e->name = name;
        return e;
    }
    AstNode *e = p_node(p, AST_CALL, loc);
    NodeVec v = {0};
    e->name = name;
    if (builtin || strncmp(name, "__", 2) == 0)
        e->flags |= AST_F_BUILTIN;
    else if (is_intrinsic(p, name))
        e->flags |= AST_F_INTRINSIC;
    if (templated) template_args(p, e);
    p_next(p);
    p_exprs(p, &v, P_RPAREN);
    e->list = p_list(&v);
    return p_height(p, e);
}

// '(' expr ')'  and in C text also '(' type ')' unary, TYPE '(' expr ')'
static AstNode *parenthesised(Parser *p)
{
    Loc loc = p_loc(p);
    bool bar = p->no_bar, gt = p->no_gt;
    AstNode *e;
    p_next(p);
    p->no_bar = p->no_gt = false;
    if (p->c_mode && p_c_type_here(p, 0)) {
        e = p_node(p, AST_CAST, loc);
        e->type = p_c_type(p);
        if (p_is(p, P_MUL)) p_fail(p, NULL, "not supported yet: a cast to a pointer");
        p_expect(p, P_RPAREN, "')'");
        if (p->panic || !p_enter(p)) return p_error_node(p);
        e->value = p_binary(p, C_UNARY);
        p_leave(p);
        e = p_height(p, e);
    } else {
        e = p_expr(p);
        p_expect(p, P_RPAREN, "')'");
        e->flags |= AST_F_PAREN;
    }
    p->no_bar = bar;
    p->no_gt = gt;
    return e;
}

// TYPE '(' expr ')' of C++, as in float(x)
static AstNode *c_functional_cast(Parser *p)
{
    AstNode *e = p_node(p, AST_CAST, p_loc(p));
    e->type = p_c_type(p);
    p_expect(p, P_LPAREN, "'('");
    e->value = p->panic ? p_error_node(p) : p_expr(p);
    p_expect(p, P_RPAREN, "')'");
    return p_height(p, e);
}

// Nothing here begins an expression: says what does stand here in words that fit the mistake.
static AstNode *no_expression(Parser *p)
{
    const Token *t = p_tok(p);
    if (t->kind == KW_DMA || t->kind == KW_TMA || t->kind == KW_MMA)
        p_fail(p, "give it a statement of its own: x = dma.copy a => shared; then use x",
               "'%s' is a statement and cannot stand inside an expression", t->name);
    else if (t->kind == TOK_TYPE)
        p_fail(p, "convert with __to<T>(e)", "expected a value, found the type '%s'", t->name);
    else if (t->kind >= KW_AFTER && t->kind <= KW_YIELD)
        p_fail(p, "reserved words cannot name a value",
               "expected a value, found the reserved word '%s'", t->name);
    else
        p_fail(p, NULL, "expected a value, found %s", p_found(p));
    return p_error_node(p);
}

// primary : INT | FLOAT | 'true' | 'false' | 'inf' | 'nullptr' | '_' | STRING | '(' expr ')'
//         | '[' expr,* ']' | '{' expr,* '}' | '|' expr '|' | call | ID | ID '(' expr,* ')'
static AstNode *primary(Parser *p)
{
    AstNode *e;
    if (p->c_mode && p_c_type_here(p, 0) && p_ahead(p, 1)->kind == P_LPAREN)
        return c_functional_cast(p);
    switch (p_tok(p)->kind) {
    case TOK_INT: return literal(p, AST_INT);
    case TOK_FLOAT: return literal(p, AST_FLOAT);
    case KW_TRUE:
    case KW_FALSE: return literal(p, AST_BOOL);
    case KW_INF: return literal(p, AST_INF);
    case KW_NULLPTR: return literal(p, AST_NULLPTR);
    case TOK_WILD: return literal(p, AST_WILD);
    case TOK_CHAR: return literal(p, AST_INT);
    case TOK_STRING:
        e = p_node(p, AST_STRING, p_loc(p));
        p_string(p, e);
        return e;
    case P_LPAREN: return parenthesised(p);
    case P_LBRACKET:
        return p->c_mode ? no_expression(p) : p_bracket_list(p, AST_SPAN, P_RBRACKET);
    case P_LBRACE: return p_bracket_list(p, AST_TUPLE, P_RBRACE);
    case P_OR: return p->c_mode ? no_expression(p) : count(p);
    case KW_CALL:
        if (!p->c_mode) return call_expr(p);
        break;
    case TOK_NAME:
    case KW_CDIV:
    case KW_SELECT: return name_or_call(p);
    default: break;
    }
    bool word = p_tok(p)->kind >= KW_AFTER && p_tok(p)->kind <= KW_YIELD;
    return p->c_mode && word ? name_or_call(p) : no_expression(p);
}

// ---- methods ------------------------------------------------------------------------------------

// Views and what may follow each: strides behind ':', and the tails .at, .step and .from.
static const struct {
    const char *name;
    u8 op;
    bool strides, at, step, from;
} view_ops[] = {
    {"chunkat", VIEW_CHUNKAT, false, false, false, false},
    {"chunk", VIEW_CHUNK, false, true, false, false},
    {"subspan", VIEW_SUBSPAN, true, true, true, false},
    {"modspan", VIEW_MODSPAN, true, true, true, false},
    {"view", VIEW_VIEW, true, false, false, true},
    {"span_as", VIEW_SPAN_AS, false, false, false, false},
    {"sqz", VIEW_SQZ, false, false, false, false},
};

// '(' expr,* [':' expr,+] ')'  with the strides only where `strides` allows them
static void view_args(Parser *p, AstNode *e, bool strides, const char *method)
{
    NodeVec ext = {0}, str = {0};
    bool bar = p->no_bar, gt = p->no_gt;
    if (!p_expect(p, P_LPAREN, arena_printf(p->arena, "'(' behind .%s", method))) return;
    p->no_bar = p->no_gt = false;
    if (!p_is(p, P_RPAREN) && !p_is(p, P_COLON)) {
        do vec_push(p->arena, &ext, p_expr(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    if (!p->panic && p_is(p, P_COLON)) {
        if (!strides) p_fail(p, NULL, ".%s takes no strides behind ':'", method);
        p_next(p);
        do vec_push(p->arena, &str, p_expr(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    p_expect(p, P_RPAREN, "',' or ')'");
    p->no_bar = bar;
    p->no_gt = gt;
    e->list = p_list(&ext);
    e->list2 = p_list(&str);
}

// The `.step(..)`, `.at(..)` or `.from(..)` that belongs to the tiling before it; only one of each,
// so that a second `.at` selects an element of the tile.
static void view_tail(Parser *p, AstNode *e, AstList *into, const char *method)
{
    NodeVec v = {0};
    p_next(p);
    if (p_expect(p, P_LPAREN, arena_printf(p->arena, "'(' behind .%s", method)))
        p_exprs(p, &v, P_RPAREN);
    if (into == &e->list4) e->flags |= AST_F_AT;
    *into = p_list(&v);
}

// view op k at its method token; base is what stands before it
// Views chain: `base` may be a view itself.
static AstNode *view(Parser *p, AstNode *base, int k)
{
    AstNode *e = p_node(p, AST_VIEW, p_loc(p));
    e->op = view_ops[k].op;
    e->value = base;
    p_next(p);
    view_args(p, e, view_ops[k].strides, view_ops[k].name);
    if (view_ops[k].op == VIEW_SQZ && e->list.n)
        p_complain(p, e->loc, NULL, ".sqz takes no arguments");
    else if (view_ops[k].op != VIEW_SQZ && !e->list.n && !p->panic)
        p_complain(p, e->loc, NULL, ".%s needs one argument per dimension, found none",
                   view_ops[k].name);
    if (view_ops[k].step && p_is_method(p, "step")) view_tail(p, e, &e->list3, "step");
    if (view_ops[k].at && p_is_method(p, "at")) view_tail(p, e, &e->list4, "at");
    if (view_ops[k].from && p_is_method(p, "from")) view_tail(p, e, &e->list4, "from");
    return p_height(p, e);
}

// method : '.at' '(' expr,+ ')' | '.span' | '.data' | view op
static AstNode *method(Parser *p, AstNode *base)
{
    const Token *t = p_tok(p);
    for (int k = 0; k < COUNT(view_ops); k++) {
        if (strcmp(t->name, view_ops[k].name) == 0) return view(p, base, k);
    }
    AstNode *e = p_node(p, AST_AT, t->loc);
    NodeVec v = {0};
    e->value = base;
    if (strcmp(t->name, "at") == 0) {
        p_next(p);
        if (p_expect(p, P_LPAREN, "'(' behind .at")) p_exprs(p, &v, P_RPAREN);
        if (!v.n && !p->panic) p_complain(p, e->loc, NULL, ".at needs an index, found none");
        e->list = p_list(&v);
        return p_height(p, e);
    }
    if (strcmp(t->name, "span") == 0 || strcmp(t->name, "data") == 0) {
        e->kind = AST_MEMBER;
        e->name = t->name;
        p_next(p);
        return p_height(p, e);
    }
    if (strcmp(t->name, "order") == 0)
        p_fail(p, "an event takes its order in .at: wait full.at(n)",
               "the spelling .order<..> was removed");
    else if (strcmp(t->name, "step") == 0 || strcmp(t->name, "from") == 0)
        p_fail(p, ".step follows .subspan or .modspan, .from follows .view",
               "'.%s' has no tiling before it", t->name);
    else
        p_fail(p, "known are .at .span .data .subspan .chunkat .chunk .modspan .view .span_as .sqz",
               "unknown method '.%s'", t->name);
    return p_error_node(p);
}

// postfix : primary ( '(' expr,* ')' | '[' expr,+ ']' | method | '++' | '--' )*
// Loops instead of recursing: `a.at(i).at(j)...` costs tree height only, which p_height bounds.
AstNode *p_postfix(Parser *p)
{
    AstNode *e = primary(p);
    while (!p->panic) {
        const Token *t = p_tok(p);
        NodeVec v = {0};
        if (t->kind == P_LPAREN || t->kind == P_LBRACKET) {
            bool paren = t->kind == P_LPAREN;
            AstNode *outer = p_node(p, paren ? AST_EXTENT : AST_INDEX, t->loc);
            p_next(p);
            p_exprs(p, &v, paren ? P_RPAREN : P_RBRACKET);
            if (!v.n && !p->panic)
                p_fail_at(p, t->loc, NULL, "an index is missing between the brackets");
            outer->value = e;
            outer->list = p_list(&v);
            e = p_height(p, outer);
        } else if (t->kind == TOK_METHOD) {
            e = method(p, e);
        } else if (t->kind == P_INC || t->kind == P_DEC) {
            p_next(p);
            e = make_unary(p, t->loc, t->kind == P_INC ? AST_OP_POSTINC : AST_OP_POSTDEC, e);
        } else {
            break;
        }
    }
    return e;
}

// ---- precedence ---------------------------------------------------------------------------------

// unary : ('!' | '-' | '+') binary-of-bitwise | ('~' | '#' | '++' | '--') unary | postfix
// In tile code `-a & b` is -(a & b): the operand takes whatever binds tighter than the sign. In C
// text all unary operators bind alike.
static AstNode *unary(Parser *p, int min)
{
    static const u8 loose[][2] = {
        {P_NOT, AST_OP_NOT},     {P_SUB, AST_OP_NEG},    {P_ADD, AST_OP_PLUS},
        {P_INC, AST_OP_PREINC},  {P_DEC, AST_OP_PREDEC}, {P_TILDE, AST_OP_BITNOT},
        {P_HASH, AST_OP_UBOUND}, {P_MUL, AST_OP_DEREF},  {P_AND, AST_OP_ADDRESS}};
    const Token *t = p_tok(p);
    int op = AST_OP_NONE;
    for (int i = 0; i < COUNT(loose); i++) {
        if (loose[i][0] == t->kind) op = loose[i][1];
    }
    bool c_only = op == AST_OP_DEREF || op == AST_OP_ADDRESS;
    if (op == AST_OP_NONE || (c_only && !p->c_mode) || (op == AST_OP_UBOUND && p->c_mode))
        return p_postfix(p);
    p_next(p);
    if (!p_enter(p)) return p_error_node(p);
    AstNode *value;
    if (p->c_mode)
        value = p_binary(p, C_UNARY);
    else if (op == AST_OP_BITNOT || op == AST_OP_UBOUND || op == AST_OP_PREINC ||
             op == AST_OP_PREDEC)
        value = p_binary(p, TILE_TIGHT);
    else
        value = p_binary(p, MAX(min, TILE_UNARY + 1));
    p_leave(p);
    return make_unary(p, t->loc, op, value);
}

// Operators of level >= min, left to right.
static AstNode *p_binary(Parser *p, int min)
{
    AstNode *left = unary(p, min);
    for (;;) {
        const Token *t = p_tok(p);
        int level = binary_level(p, t->kind);
        if (p->panic || level == 0 || level < min) return left;
        AstNode *e = p_node(p, AST_BINARY, t->loc);
        NodeVec v = {0};
        e->op = binary_of(t->kind)->op;
        p_next(p);
        vec_push(p->arena, &v, left);
        // A right operand recurses, a left one does not: depth is that of nesting, not of length.
        if (!p_enter(p)) return left;
        vec_push(p->arena, &v, p_binary(p, level + 1));
        p_leave(p);
        e->list = p_list(&v);
        warn_grouping(p, e);
        left = p_height(p, e);
    }
}

// expr : binary ['?' expr ':' expr]
AstNode *p_expr(Parser *p)
{
    if (!p_enter(p)) return p_error_node(p);
    AstNode *e = p_binary(p, 1);
    if (!p->panic && p_is(p, P_QUEST)) {
        AstNode *s = p_node(p, AST_SELECT, p_loc(p));
        p_next(p);
        s->cond = e;
        s->value = p_expr(p);
        p_expect(p, P_COLON, "':' of the ?: operator");
        s->alt = p->panic ? p_error_node(p) : p_expr(p);
        e = p_height(p, s);
    }
    p_leave(p);
    return e;
}

// `expr` inside '<' '>': a '>' ends it unless parentheses protect it.
AstNode *p_expr_in_angles(Parser *p)
{
    bool gt = p->no_gt;
    p->no_gt = true;
    AstNode *e = p_expr(p);
    p->no_gt = gt;
    return e;
}

// Lets a statement see that an operator follows where none can.
int p_op_of(int tok, bool c_mode)
{
    const Binary *b = binary_of(tok);
    return !b || (c_mode ? b->c : b->tile) == 0 ? AST_OP_NONE : b->op;
}
