// parse.h - what the files of the parser share. Private to src/ast.
//
// Conventions: one function per production, with the production as its comment. A function that
// meets an error reports it through p_fail, which sets `panic`: until the statement has been left
// nothing more is reported, and every production returns a node (AST_ERROR at worst, never NULL
// unless it says so). p_sync then finds the next statement.
#ifndef BATON_AST_PARSE_H
#define BATON_AST_PARSE_H

#include "tokens.h"

typedef VEC(AstNode *) NodeVec;

typedef struct {
    Arena *arena;   // of the tree
    Intern *in;     // of the names
    AstSink *sink;  // where this island reports
    const Token *t; // ends in TOK_EOF
    int n, i;       // tokens; the current one
    bool panic;     // an error was reported, its statement is not yet over
    bool c_mode;    // device text: C's precedence, C's types, any word as a name
    NodeVec type_params; // device text: the function's template parameters that are types
    bool no_bar;    // inside |x|: `|` ends the expression
    bool no_gt;     // inside <x>: `>` ends the expression
    int depth;      // of statements and expressions being read
    const AstIntrinsicVec *intrinsics;
} Parser;

// ---- parse.c: tokens, errors, nodes -------------------------------------------------------------
const Token *p_tok(const Parser *p);            // the current token
const Token *p_ahead(const Parser *p, int k);   // k tokens further on
bool p_is(const Parser *p, int kind);
bool p_is_method(const Parser *p, const char *name);
bool p_accept(Parser *p, int kind);
bool p_accept_method(Parser *p, const char *name);
void p_next(Parser *p);
Loc p_loc(const Parser *p);
// p_fail reports at the current token, p_fail_at elsewhere; p_complain reports without panic.
void p_fail(Parser *p, const char *hint, const char *fmt, ...) PRINTF_LIKE(3, 4);
void p_fail_at(Parser *p, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
void p_complain(Parser *p, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
const char *p_found(const Parser *p);           // the current token, for messages
bool p_expect(Parser *p, int kind, const char *what); // "expected WHAT, found .."
void p_semi(Parser *p, const char *what);       // ';' behind WHAT
void p_sync(Parser *p);                         // to the next statement
bool p_enter(Parser *p);                        // one level deeper; false and an error at the limit
void p_leave(Parser *p);
const char *p_name(Parser *p, const char *what); // a new or known name; NULL on an error

AstNode *p_node(Parser *p, AstKind kind, Loc loc);
AstNode *p_error_node(Parser *p);
AstNode *p_name_node(Parser *p, const char *what);
AstList p_list(const NodeVec *v);
AstNode *p_height(Parser *p, AstNode *e); // sets e->depth from its children; an error at the limit

// type : TYPE ; dims : '[' ('?' | '??' | expr),+ ']'
AstNode *p_scalar_type(Parser *p, const char *what);
void p_dims(Parser *p, AstNode *type, bool param);
AstNode *p_function(Parser *p); // a tile function

// ---- parse_expr.c -------------------------------------------------------------------------------
AstNode *p_expr(Parser *p);              // a whole expression
AstNode *p_expr_in_angles(Parser *p);    // one that `>` ends
AstNode *p_postfix(Parser *p);           // primary with its methods, indices, calls
AstNode *p_bracket_list(Parser *p, AstKind kind, int close); // '[' expr,* ']' as kind
void p_exprs(Parser *p, NodeVec *out, int close); // expr,* up to `close`, which is read
void p_string(Parser *p, AstNode *into); // adjacent strings join: text, text_n
int p_op_of(int tok, bool c_mode);       // binary operator of a token, or AST_OP_NONE

// ---- parse_stmt.c -------------------------------------------------------------------------------
AstNode *p_block(Parser *p, const char *what); // '{' stmt* '}'
AstNode *p_body(Parser *p);                    // block, or one statement made into one
void p_header_done(Parser *p);                 // after an error in a header: go to the body
void p_stmt(Parser *p, NodeVec *out);
void p_names(Parser *p, NodeVec *out, const char *what); // ID,+
AstNode *p_ref(Parser *p, const char *what);   // ID | ID[..].. | ID.at(..)
AstNode *p_c_compound(Parser *p);              // block, if or while
AstNode *p_word_stmt(Parser *p);               // return, break, continue or asm
int p_assign_op(int tok);                      // AstOp of `=` and `op=`, or AST_OP_NONE

// ---- parse_tile.c: statements on whole tiles ----------------------------------------------------
AstNode *p_xfer(Parser *p, AstNode *result);   // at dma or tma; result: what stands before '=' or
                                               // NULL
AstNode *p_mma(Parser *p, AstNode *result);    // at mma
bool p_is_swizzle(const Parser *p);            // at `.swiz<B>`, which p_swizzle takes
int p_swizzle(Parser *p);                      // its bytes
AstNode *p_parallel(Parser *p);
AstNode *p_foreach(Parser *p);
AstNode *p_with(Parser *p);
AstNode *p_inthreads(Parser *p);
AstNode *p_apply(Parser *p);
AstNode *p_fragment_op(Parser *p);             // reduce_*, all_reduce_sum, copy, swap, rotate
AstNode *p_wait(Parser *p);
AstNode *p_trigger(Parser *p);
AstNode *p_sync_stmt(Parser *p);
bool p_removed(Parser *p);                     // a removed spelling stands here: reported
void p_attrs(Parser *p, NodeVec *out);         // '[[' ... ']]'...

// ---- parse_c.c: device helpers ------------------------------------------------------------------
AstNode *p_device_function(Parser *p);
AstNode *p_c_type(Parser *p);                  // [const] [unsigned] base, no declarator; NULL: no
                                               // type here
bool p_c_type_here(const Parser *p, int k);    // does a type start k tokens ahead?
void p_c_stmt(Parser *p, NodeVec *out);

#endif
