// parse_stmt.c - blocks, declarations, assignments and plain control flow of tile functions.
//
// Input: tokens. Output: statement nodes; a declaration of several names gives several nodes.
// Statements on whole tiles are in parse_tile.c.
#include "parse.h"

#include <string.h>

// ---- blocks -------------------------------------------------------------------------------------

// One statement and its recovery. Moves forward by at least one token, so that no input can hold
// the parser in place.
static void stmt_in_list(Parser *p, NodeVec *out)
{
    int from = p->i;
    if (p->c_mode)
        p_c_stmt(p, out);
    else
        p_stmt(p, out);
    if (p->panic) p_sync(p);
    if (p->i == from && !p_is(p, P_RBRACE)) p_next(p); // never stand still
}

// block : '{' stmt* '}'
AstNode *p_block(Parser *p, const char *what)
{
    AstNode *b = p_node(p, AST_BLOCK, p_loc(p));
    NodeVec v = {0};
    p_expect(p, P_LBRACE, "'{'");
    if (!p->panic && !p_enter(p)) { // too deep: nothing further in this function can be read
        p->i = p->n - 1;
        return b;
    }
    if (!p->panic) {
        while (!p_is(p, P_RBRACE) && !p_is(p, TOK_EOF)) stmt_in_list(p, &v);
        p_leave(p);
        // the end of the text inside a function was reported by the preprocessor
        if (!p_accept(p, P_RBRACE) && !p->sink->errors)
            p_fail(p, NULL, "'}' is missing at the end of %s", what);
    }
    b->list = p_list(&v);
    return b;
}

// The body of a loop or branch; a single statement becomes a block, so that a body is always one.
AstNode *p_body(Parser *p)
{
    if (p->panic) return p_node(p, AST_BLOCK, p_loc(p));
    if (p_is(p, P_LBRACE)) return p_block(p, "the body");
    AstNode *b = p_node(p, AST_BLOCK, p_loc(p));
    NodeVec v = {0};
    if (p_is(p, P_RBRACE) || p_is(p, TOK_EOF)) {
        p_fail(p, NULL, "expected a statement, found %s", p_found(p));
        return b;
    }
    if (!p_enter(p)) {
        p->i = p->n - 1;
        return b;
    }
    stmt_in_list(p, &v);
    p_leave(p);
    b->list = p_list(&v);
    return b;
}

// When the head of a compound statement is broken its body may still be sound: goes on there.
void p_header_done(Parser *p)
{
    if (!p->panic) return;
    while (!p_is(p, P_LBRACE) && !p_is(p, P_SEMI) && !p_is(p, P_RBRACE) && !p_is(p, TOK_EOF))
        p_next(p);
    if (p_is(p, P_LBRACE)) p->panic = false;
}

// ID { ',' ID }
void p_names(Parser *p, NodeVec *out, const char *what)
{
    do vec_push(p->arena, out, p_name_node(p, what));
    while (!p->panic && p_accept(p, P_COMMA));
}

// ref : ID | ID('[' expr ']')+ | ID '.at(' expr ')'
AstNode *p_ref(Parser *p, const char *what)
{
    if (!p->panic && !p_is(p, TOK_NAME)) (void)p_name(p, what); // reports
    if (p->panic) return p_error_node(p);
    AstNode *e = p_postfix(p);
    const AstNode *base = e;
    while (base->kind == AST_INDEX) base = base->value;
    if (base->kind == AST_AT) base = base->value;
    if (!p->panic && base->kind != AST_NAME)
        p_fail_at(p, e->loc, "the forms are e, e[i] and e.at(order)", "expected %s", what);
    return e;
}

// ---- declarations -------------------------------------------------------------------------------

// ('[' expr ']')*
// How many buffers or events the name stands for; constants, as the resolver checks.
static AstList array_counts(Parser *p)
{
    NodeVec v = {0};
    while (!p->panic && p_accept(p, P_LBRACKET)) {
        vec_push(p->arena, &v, p_expr(p));
        p_expect(p, P_RBRACKET, "']'");
    }
    return p_list(&v);
}

// ['{' expr '}']
// NULL when nothing is written.
static AstNode *brace_init(Parser *p)
{
    if (p->panic || !p_accept(p, P_LBRACE)) return NULL;
    AstNode *e = p_expr(p);
    p_expect(p, P_RBRACE, "'}'");
    return e;
}

// Start of every declaration: the node at its name.
static AstNode *declared(Parser *p, AstKind kind, AstNode *type, int storage)
{
    AstNode *d = p_node(p, kind, p_loc(p));
    d->type = type;
    d->storage = (u8)storage;
    d->name = p_name(p, "the name to declare");
    return d;
}

// sdecl : ID ['=' expr | '{' expr '}']
// `type` NULL: it follows from the value (`mutable x = e`).
static void scalar_decls(Parser *p, NodeVec *out, AstNode *type, u32 flags)
{
    do {
        AstNode *d = declared(p, AST_SCALAR_DECL, type, STOR_NONE);
        d->flags = flags;
        if (!p->panic && p_accept(p, P_ASSIGN))
            d->value = p_expr(p);
        else
            d->value = brace_init(p);
        if (!p->panic && p_is(p, P_LBRACKET))
            p_fail(p, "the form is shared f32 [16, 16] name",
                   "the dimensions of a buffer stand before its name");
        vec_push(p->arena, out, d);
    } while (!p->panic && p_accept(p, P_COMMA));
    p_semi(p, "the declaration");
}

// bdecl : ID ('[' expr ']')* ['{' expr '}']
// `swizzle` 0: none was written.
static void buffer_decls(Parser *p, NodeVec *out, AstKind kind, AstNode *type, int storage,
                         int swizzle)
{
    do {
        AstNode *d = declared(p, kind, type, storage);
        d->swizzle = swizzle;
        d->flags |= swizzle ? AST_F_SWIZ : 0;
        d->list = array_counts(p);
        d->value = brace_init(p);
        if (!p->panic && p_is(p, P_ASSIGN))
            p_fail(p, "the form is name {value}",
                   "a buffer or fragment is initialised with braces, not with '='");
        vec_push(p->arena, out, d);
    } while (!p->panic && p_accept(p, P_COMMA));
    p_semi(p, "the declaration");
}

// decl : ['mutable'] [T] sdecl,+ | [stor] T dims bdecl,+
// A '[' behind the type makes buffers; without one the names are scalars, which have no storage.
static void typed_decl(Parser *p, NodeVec *out, int storage, int swizzle, u32 flags)
{
    AstNode *type = NULL;
    if (!(flags & AST_F_MUTABLE) || p_is(p, TOK_TYPE))
        type = p_scalar_type(p, "the type of the declaration");
    if (!p->panic && type && (p_is(p, P_LBRACKET) || p_is(p, KW_MDSPAN))) {
        if (flags & AST_F_MUTABLE)
            p_complain(p, type->loc, "drop the word",
                       "a buffer cannot be mutable, its elements always are");
        p_dims(p, type, false);
        buffer_decls(p, out, AST_BUFFER_DECL, type, storage, swizzle);
        return;
    }
    if (storage != STOR_NONE && !p->panic)
        p_fail(p, "the form is shared f32 [16, 16] name",
               "expected '[' and the dimensions of the %s buffer, found %s",
               ast_storage_name(storage), p_found(p));
    scalar_decls(p, out, type, flags);
}

// event : [stor] 'event' ['<' INT '>'] (ID ('[' expr ']')* ['=' 'ready']),+
// `ready` is no reserved word: it means this in this place only.
static void event_decls(Parser *p, NodeVec *out, int storage)
{
    AstNode *n = NULL;
    p_next(p);
    if (p_accept(p, P_LT)) {
        n = p_expr_in_angles(p);
        p_expect(p, P_GT, "'>' behind the arrival count of the event");
    }
    do {
        AstNode *d = declared(p, AST_EVENT_DECL, NULL, storage);
        d->list = array_counts(p);
        d->value = n;
        if (!p->panic && p_accept(p, P_ASSIGN)) {
            bool ready = p_is(p, TOK_NAME) && strcmp(p_tok(p)->name, "ready") == 0;
            if (!ready)
                p_fail(p, "the only initialiser is `= ready`",
                       "an event cannot be initialised with %s", p_found(p));
            p_next(p);
            d->flags |= AST_F_READY;
        }
        vec_push(p->arena, out, d);
    } while (!p->panic && p_accept(p, P_COMMA));
    p_semi(p, "the event");
}

// fdecl : 'frag' T dims bdecl,+ | 'frag' ['.' T] bdecl,+
static void frag_decls(Parser *p, NodeVec *out)
{
    AstNode *type = NULL;
    p_next(p);
    if (p_is(p, TOK_METHOD)) { // frag.f32 x
        type = p_node(p, AST_TYPE, p_loc(p));
        type->name = p_tok(p)->name;
        type->dtype = dtype_by_name(type->name);
        if (type->dtype < 0)
            p_fail(p, "the form is frag.f32 name", "'.%s' is no element type", type->name);
        p_next(p);
    } else if (p_is(p, TOK_TYPE)) {
        type = p_scalar_type(p, "the element type");
        p_dims(p, type, false);
    } else if (p_is(p, P_LBRACKET)) {
        p_fail(p, "the form is frag f32[64, 128] name",
               "expected the element type of the fragment, found '['");
    }
    buffer_decls(p, out, AST_FRAG_DECL, type, STOR_NONE, 0);
}

// stor decl : ('global' | 'shared' | 'local') (event | ['.swiz<B>'] T dims bdecl,+)
static void storage_decl(Parser *p, NodeVec *out)
{
    int stor = p_is(p, KW_GLOBAL) ? STOR_GLOBAL : p_is(p, KW_SHARED) ? STOR_SHARED : STOR_LOCAL;
    p_next(p);
    if (p_is(p, KW_EVENT)) {
        event_decls(p, out, stor);
        return;
    }
    if (stor != STOR_SHARED && p_is_swizzle(p))
        p_fail(p, "leave it out", "a swizzle, and the buffer is not in shared memory");
    int swizzle = p->panic || !p_is_swizzle(p) ? 0 : p_swizzle(p);
    typed_decl(p, out, stor, swizzle, 0);
}

// expr, but no tuple: `s : {1, 2}` is the usual slip.
static AstNode *span_value(Parser *p, const char *name)
{
    AstNode *e = p_expr(p);
    if (!p->panic && e->kind == AST_TUPLE && !(e->flags & AST_F_PAREN))
        p_complain(p, e->loc, arena_printf(p->arena, "write %s = {..}", name ? name : "t"),
                   "a tuple is declared with '=', ':' is for spans");
    return e;
}

// ['mdspan'] ID ':' expr
static void span_decl(Parser *p, NodeVec *out)
{
    p_accept(p, KW_MDSPAN);
    AstNode *d = declared(p, AST_SPAN_DECL, NULL, STOR_NONE);
    if (!p->panic && p_is(p, P_ASSIGN))
        p_fail(p, "write s : [a, b]", "a span is declared with ':', '=' is for tuples and values");
    p_expect(p, P_COLON, "':' behind the name of the span");
    if (!p->panic) d->value = span_value(p, d->name);
    vec_push(p->arena, out, d);
    p_semi(p, "the span");
}

// 'ituple' ID '=' expr
// A tuple without the word is an assignment for the parser, and becomes a declaration when names
// are resolved.
static void tuple_decl(Parser *p, NodeVec *out)
{
    p_next(p);
    AstNode *d = declared(p, AST_TUPLE_DECL, NULL, STOR_NONE);
    if (!p->panic && p_is(p, P_COLON))
        p_fail(p, "write t = {a, b}", "a tuple is declared with '=', ':' is for spans");
    p_expect(p, P_ASSIGN, "'=' behind the name of the tuple");
    if (!p->panic) d->value = p_expr(p);
    vec_push(p->arena, out, d);
    p_semi(p, "the tuple");
}

// ---- assignments and expressions ----------------------------------------------------------------

// All of C's; tile code refuses the ones that its language does not have.
int p_assign_op(int tok)
{
    static const u8 ops[][2] = {
        {P_ASSIGN, AST_OP_ASSIGN}, {P_ADD_EQ, AST_OP_ADD}, {P_SUB_EQ, AST_OP_SUB},
        {P_MUL_EQ, AST_OP_MUL},    {P_DIV_EQ, AST_OP_DIV}, {P_MOD_EQ, AST_OP_MOD},
        {P_AND_EQ, AST_OP_AND},    {P_OR_EQ, AST_OP_OR},   {P_XOR_EQ, AST_OP_XOR},
        {P_SHL_EQ, AST_OP_SHL},    {P_SHR_EQ, AST_OP_SHR}};
    for (int i = 0; i < COUNT(ops); i++) {
        if (ops[i][0] == tok) return ops[i][1];
    }
    return AST_OP_NONE;
}

// target : ID | elem.  Calls and views are values.
static void check_target(Parser *p, const AstNode *e)
{
    if (p->panic || e->kind == AST_NAME || e->kind == AST_AT || e->kind == AST_INDEX) return;
    p_fail_at(p, e->loc, "assign to a name, an element x.at(i, j) or x[i]",
              "this cannot be assigned to");
}

// ID '=' expr | elem '=' expr | ID op'=' expr, the operator being the current token
// Chains (a = b = c) are refused: with names that are declared by assignment they hide typing
// slips.
static AstNode *assignment(Parser *p, AstNode *target)
{
    AstNode *s = p_node(p, AST_ASSIGN, target->loc);
    const Token *t = p_tok(p);
    s->op = (u8)p_assign_op(t->kind);
    s->target = target;
    check_target(p, target);
    if (!p->c_mode && s->op >= AST_OP_AND && s->op <= AST_OP_SHR)
        p_fail(p, "write x = x & y", "'%s' is no operator of the tile language", t->name);
    p_next(p);
    s->value = p->panic ? p_error_node(p) : p_expr(p);
    if (!p->panic && s->op == AST_OP_ASSIGN && s->value->kind == AST_SPAN &&
        !(s->value->flags & AST_F_PAREN))
        p_complain(p, t->loc, "write s : [a, b]",
                   "a span is declared with ':', '=' is for tuples and values");
    if (!p->panic && p_assign_op(p_tok(p)->kind))
        p_fail(p, "one statement assigns once", "expected ';' behind the assignment, found %s",
               p_found(p));
    return s;
}

// Can the expression stand as a statement?
static bool has_effect(const AstNode *e)
{
    if (e->kind == AST_UNARY) return e->op >= AST_OP_PREINC && e->op <= AST_OP_POSTDEC;
    return e->kind == AST_CALL || e->kind == AST_ERROR;
}

// Statements that begin with an expression: assignment, span declaration, transfer, mma, call.
// A name and a ':' can only be a span; otherwise the token behind the expression decides.
static void expr_stmt(Parser *p, NodeVec *out)
{
    if (p_is(p, TOK_NAME) && p_ahead(p, 1)->kind == P_COLON) {
        span_decl(p, out);
        return;
    }
    Loc loc = p_loc(p);
    bool prefix = p_is(p, P_INC) || p_is(p, P_DEC);
    AstNode *e = prefix ? p_expr(p) : p_postfix(p);
    int after = p_ahead(p, 1)->kind;
    AstNode *s;
    if (p->panic) {
        s = p_error_node(p);
    } else if (p_is(p, P_ASSIGN) && (after == KW_DMA || after == KW_TMA || after == KW_MMA)) {
        p_next(p);
        s = after == KW_MMA ? p_mma(p, e) : p_xfer(p, e);
    } else if (p_assign_op(p_tok(p)->kind)) {
        s = assignment(p, e);
    } else {
        s = p_node(p, AST_EXPR, loc);
        s->value = e;
        if (p_op_of(p_tok(p)->kind, false))
            p_fail(p, NULL, "expected '=' or ';', found %s", p_found(p));
        else if (!has_effect(e))
            p_fail_at(p, loc, "a statement assigns, calls, counts or moves data",
                      "this statement has no effect");
    }
    vec_push(p->arena, out, s);
    p_semi(p, "the statement");
}

// ---- control flow -------------------------------------------------------------------------------

// '(' expr ')'
// `if (a = b)` is caught here: C programmers write it by accident.
static AstNode *condition(Parser *p, const char *word)
{
    if (!p_expect(p, P_LPAREN, arena_printf(p->arena, "'(' behind '%s'", word)))
        return p_error_node(p);
    AstNode *e = p_expr(p);
    if (!p->panic && p_assign_op(p_tok(p)->kind) == AST_OP_ASSIGN)
        p_fail(p, "compare with ==", "an assignment cannot stand in a condition");
    p_expect(p, P_RPAREN, "')' behind the condition");
    return e;
}

// 'while' '(' expr ')' body
static AstNode *while_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_WHILE, p_loc(p));
    p_next(p);
    s->cond = condition(p, "while");
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// 'if' '(' expr ')' body ['else' body]
static AstNode *if_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_IF, p_loc(p));
    p_next(p);
    s->cond = condition(p, "if");
    p_header_done(p);
    s->body = p_body(p);
    if (!p->panic && p_accept(p, KW_ELSE)) s->alt = p_body(p);
    return s;
}

// 'return' [expr]
static AstNode *return_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_RETURN, p_loc(p));
    p_next(p);
    if (!p_is(p, P_SEMI)) s->value = p_expr(p);
    return s;
}

// A statement of one word.
static AstNode *word_stmt(Parser *p, AstKind kind)
{
    AstNode *s = p_node(p, kind, p_loc(p));
    p_next(p);
    return s;
}

// 'assert' '(' expr [',' STRING] ')'
static AstNode *assert_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_ASSERT, p_loc(p));
    p_next(p);
    if (!p_expect(p, P_LPAREN, "'(' behind 'assert'")) return s;
    s->cond = p_expr(p);
    if (!p->panic && p_accept(p, P_COMMA)) p_string(p, s);
    p_expect(p, P_RPAREN, "')' behind the assertion");
    return s;
}

// ('print' | 'println') ['!'] '(' expr,* ')'
static AstNode *print_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_PRINT, p_loc(p));
    NodeVec v = {0};
    if (p_is(p, KW_PRINTLN)) s->flags |= AST_F_NEWLINE;
    p_next(p);
    if (p_accept(p, P_NOT)) s->flags |= AST_F_COMPILE_TIME;
    if (p_expect(p, P_LPAREN, "'(' behind 'print'")) p_exprs(p, &v, P_RPAREN);
    s->list = p_list(&v);
    return s;
}

// STRING ['[' ID ']'] '(' expr ')' ,*
static AstList asm_operands(Parser *p)
{
    NodeVec v = {0};
    while (!p->panic && !p_is(p, P_COLON) && !p_is(p, P_SCOPE) && !p_is(p, P_RPAREN)) {
        AstNode *o = p_node(p, AST_ASM_OPERAND, p_loc(p));
        if (p_accept(p, P_LBRACKET)) {
            o->name = p_name(p, "the name of the operand");
            p_expect(p, P_RBRACKET, "']'");
        }
        p_string(p, o);
        if (p_expect(p, P_LPAREN, "'(' behind the constraint")) o->value = p_expr(p);
        p_expect(p, P_RPAREN, "')' behind the operand");
        vec_push(p->arena, &v, o);
        if (!p_accept(p, P_COMMA)) break;
    }
    return p_list(&v);
}

// STRING,*
static AstList asm_clobbers(Parser *p)
{
    NodeVec v = {0};
    while (!p->panic && p_is(p, TOK_STRING)) {
        AstNode *s = p_node(p, AST_STRING, p_loc(p));
        p_string(p, s);
        vec_push(p->arena, &v, s);
        if (!p_accept(p, P_COMMA)) break;
    }
    return p_list(&v);
}

// 'asm' ['volatile'] '(' STRING [':' operand,* [':' operand,* [':' STRING,*]]] ')'
// The text is not looked at here: back ends decide whether they can take it.
static AstNode *asm_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_ASM, p_loc(p));
    p_next(p);
    if (p_accept(p, KW_VOLATILE)) s->flags |= AST_F_VOLATILE;
    if (p_is(p, KW_GOTO)) p_fail(p, NULL, "not supported: asm goto, a jump out of asm text");
    p_expect(p, P_LPAREN, "'(' behind 'asm'");
    if (!p->panic) p_string(p, s);
    for (int part = 0; !p->panic && part < 3; part++) {
        bool twice = p_is(p, P_SCOPE); // `::` is two colons with nothing between
        if (!twice && !p_is(p, P_COLON)) break;
        p_next(p);
        if (twice) part++;
        if (part == 0)
            s->list = asm_operands(p);
        else if (part == 1)
            s->list2 = asm_operands(p);
        else
            s->list3 = asm_clobbers(p);
    }
    p_expect(p, P_RPAREN, "')' at the end of asm");
    return s;
}

// '__cpp__' '(' STRING ')'
static AstNode *cpp_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_CPP, p_loc(p));
    p_next(p);
    if (p_expect(p, P_LPAREN, "'(' behind '__cpp__'")) p_string(p, s);
    p_expect(p, P_RPAREN, "')'");
    return s;
}

// ---- dispatch -----------------------------------------------------------------------------------

// The statements that device helpers share with tile code.
AstNode *p_c_compound(Parser *p)
{
    return p_is(p, P_LBRACE) ? p_block(p, "the block")
           : p_is(p, KW_IF)  ? if_stmt(p)
                             : while_stmt(p);
}

// 'return' [expr] | 'break' | 'continue' | asm        at one of these words
AstNode *p_word_stmt(Parser *p)
{
    switch (p_tok(p)->kind) {
    case KW_RETURN: return return_stmt(p);
    case KW_BREAK: return word_stmt(p, AST_BREAK);
    case KW_CONTINUE: return word_stmt(p, AST_CONTINUE);
    default: return asm_stmt(p);
    }
}

// Statements that end in a body. NULL: none begins here.
// compound : block | par | each | with | inthreads | apply | while | if
static AstNode *compound(Parser *p)
{
    switch (p_tok(p)->kind) {
    case P_LBRACE: return p_block(p, "the block");
    case KW_PARALLEL: return p_parallel(p);
    case KW_FOREACH: return p_foreach(p);
    case KW_WITH: return p_with(p);
    case KW_INTHREADS: return p_inthreads(p);
    case KW_APPLY: return p_apply(p);
    case KW_WHILE: return while_stmt(p);
    case KW_IF: return if_stmt(p);
    default: return NULL;
    }
}

// Statements that begin with a word of their own and end in ';'. NULL: none begins here.
// simple : xfer | mma | fragment op | wait | trigger | sync | word | assert | print | cpp
static AstNode *simple(Parser *p)
{
    switch (p_tok(p)->kind) {
    case KW_DMA:
    case KW_TMA: return p_xfer(p, NULL);
    case KW_MMA: return p_mma(p, NULL);
    case KW_REDUCE_MAX:
    case KW_REDUCE_SUM:
    case KW_ALL_REDUCE_SUM:
    case KW_COPY:
    case KW_SWAP:
    case KW_ROTATE: return p_fragment_op(p);
    case KW_WAIT: return p_wait(p);
    case KW_TRIGGER: return p_trigger(p);
    case KW_SYNC: return p_sync_stmt(p);
    case KW_RETURN:
    case KW_BREAK:
    case KW_CONTINUE:
    case KW_ASM: return p_word_stmt(p);
    case KW_YIELD: return word_stmt(p, AST_YIELD);
    case KW_ASSERT: return assert_stmt(p);
    case KW_PRINT:
    case KW_PRINTLN: return print_stmt(p);
    default: break;
    }
    if (p_is(p, TOK_NAME) && strcmp(p_tok(p)->name, "__cpp__") == 0) return cpp_stmt(p);
    return NULL;
}

// Declarations. False: none begins here.
// decl : 'mutable' .. | T .. | stor .. | event | frag | span | tuple        by the first word
// alone
static bool declaration(Parser *p, NodeVec *out)
{
    switch (p_tok(p)->kind) {
    case KW_MUTABLE:
        p_next(p);
        typed_decl(p, out, STOR_NONE, 0, AST_F_MUTABLE);
        return true;
    case TOK_TYPE:
    case KW_STREAM: typed_decl(p, out, STOR_NONE, 0, 0); return true;
    case KW_GLOBAL:
    case KW_SHARED:
    case KW_LOCAL: storage_decl(p, out); return true;
    case KW_EVENT: event_decls(p, out, STOR_NONE); return true;
    case KW_FRAG: frag_decls(p, out); return true;
    case KW_MDSPAN: span_decl(p, out); return true;
    case KW_ITUPLE: tuple_decl(p, out); return true;
    default: return false;
    }
}

// Attributes, then the statement that they belong to.
// attr+ stmt
static void attributed(Parser *p, NodeVec *out)
{
    NodeVec attrs = {0};
    Loc loc = p_loc(p);
    int first = out->n;
    p_attrs(p, &attrs);
    if (p->panic) return;
    p_stmt(p, out);
    AstNode *s = out->n > first ? out->at[first] : NULL;
    bool takes = s && (s->kind == AST_PARALLEL || s->kind == AST_MMA || s->kind == AST_FOREACH ||
                       s->kind == AST_BUFFER_DECL || s->kind == AST_XFER || s->kind == AST_ERROR);
    if (!takes)
        p_complain(p, loc,
                   "they stand before parallel, foreach, mma, a copy or a shared buffer",
                   "these attributes belong to no statement");
    for (int i = first; takes && i < out->n; i++) out->at[i]->attrs = p_list(&attrs);
}

// Skips `for (..)` or `do`, whose semicolons end no statement; the body is then read as a block.
// Without this the two semicolons of a C loop would give two more errors.
static void skip_for(Parser *p)
{
    int open = 0;
    do {
        p_next(p);
        if (p_is(p, P_LPAREN)) open++;
        if (p_is(p, P_RPAREN)) open--;
    } while (open > 0 && !p_is(p, P_LBRACE) && !p_is(p, P_RBRACE) && !p_is(p, TOK_EOF));
    p_accept(p, P_RPAREN);
    if (p_is(p, P_LBRACE)) p->panic = false;
}

// stmt : decl | compound | simple ';' | expression statement | ';'
// May add several nodes (a declaration of several names) or none (an error).
void p_stmt(Parser *p, NodeVec *out)
{
    const Token *t = p_tok(p);
    if (p_accept(p, P_SEMI) || p_removed(p) || declaration(p, out)) return;
    if (t->kind == P_LBRACKET && p_ahead(p, 1)->kind == P_LBRACKET) {
        if (p_enter(p)) {
            attributed(p, out);
            p_leave(p);
        }
        return;
    }
    AstNode *s = compound(p);
    if (s) {
        vec_push(p->arena, out, s);
        return;
    }
    s = simple(p);
    if (s) {
        vec_push(p->arena, out, s);
        p_semi(p, "the statement");
    } else if (t->kind == KW_ELSE) {
        p_fail(p, NULL, "'else' without an 'if' before it");
    } else if (t->kind == TOK_PRAGMA_UNROLL) {
        p_fail(p, "write foreach .. : unroll", "#pragma unroll does not count in tile code");
    } else if (t->kind == TOK_NAME && (strcmp(t->name, "for") == 0 || strcmp(t->name, "do") == 0)) {
        p_fail(p, "write foreach i in [n]", "the tile language has no '%s' loop", t->name);
        skip_for(p);
    } else {
        expr_stmt(p, out);
    }
}
