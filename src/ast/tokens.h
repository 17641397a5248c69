// tokens.h - tokens of the .co language, the lexer, and what the preprocessor hands to the parser.
// Private to src/ast.
//
// Invariants: the lexer never fails and never reports: a malformed token carries an error code, and
// whoever uses the token reports it (a macro body is lexed long before it is known to be used).
// Every call of lex_next consumes at least one byte, or returns TOK_EOF.
#ifndef BATON_AST_TOKENS_H
#define BATON_AST_TOKENS_H

#include "ast.h"

// Reserved words that are no type names. They cannot name anything in tile code.
#define KEYWORDS(X)                                                                              \
    X(KW_AFTER, "after") X(KW_ALL_REDUCE_SUM, "all_reduce_sum") X(KW_APPLY, "apply")             \
    X(KW_ASM, "asm") X(KW_ASSERT, "assert") X(KW_BARRIER, "barrier") X(KW_BLOCK, "block")        \
    X(KW_BREAK, "break") X(KW_BY, "by") X(KW_CALL, "call") X(KW_CDIV, "cdiv")                    \
    X(KW_CLUSTER, "cluster") X(KW_CONTINUE, "continue") X(KW_COOPERATIVE, "cooperative")         \
    X(KW_COPY, "copy") X(KW_DEVICE, "device") X(KW_DMA, "dma") X(KW_ELSE, "else")                \
    X(KW_EVENT, "event") X(KW_FALSE, "false") X(KW_FENCE, "fence") X(KW_FOREACH, "foreach")      \
    X(KW_FRAG, "frag") X(KW_GLOBAL, "global") X(KW_GOTO, "goto") X(KW_GROUP, "group")            \
    X(KW_GROUP4, "group-4") X(KW_IF, "if") X(KW_IN, "in") X(KW_INF, "inf")                       \
    X(KW_INTHREADS, "inthreads") X(KW_ITUPLE, "ituple") X(KW_LOCAL, "local")                     \
    X(KW_MDSPAN, "mdspan") X(KW_MMA, "mma") X(KW_MUTABLE, "mutable") X(KW_NULLPTR, "nullptr")    \
    X(KW_PARALLEL, "parallel") X(KW_PRINT, "print") X(KW_PRINTLN, "println")                     \
    X(KW_REDUCE_MAX, "reduce_max") X(KW_REDUCE_SUM, "reduce_sum") X(KW_RETURN, "return")         \
    X(KW_ROTATE, "rotate") X(KW_SELECT, "select") X(KW_SHARED, "shared") X(KW_STREAM, "stream")  \
    X(KW_SWAP, "swap") X(KW_SYNC, "sync") X(KW_THREAD, "thread") X(KW_TMA, "tma")                \
    X(KW_TRIGGER, "trigger") X(KW_TRUE, "true") X(KW_UNROLL, "unroll")                           \
    X(KW_VECTORIZE, "vectorize") X(KW_VOLATILE, "volatile") X(KW_WAIT, "wait")                   \
    X(KW_WHERE, "where") X(KW_WHILE, "while") X(KW_WITH, "with") X(KW_YIELD, "yield")

// Longest first, so that the first match is the longest one.
#define PUNCTS(X)                                                                                \
    X(P_BIND, "<->") X(P_SHL_EQ, "<<=") X(P_SHR_EQ, ">>=") X(P_ELLIPSIS, "...")                  \
    X(P_ARROW, "=>") X(P_SHL, "<<") X(P_SHR, ">>") X(P_LE, "<=") X(P_GE, ">=") X(P_EQ, "==")     \
    X(P_NE, "!=") X(P_LAND, "&&") X(P_LOR, "||") X(P_INC, "++") X(P_DEC, "--")                   \
    X(P_ADD_EQ, "+=") X(P_SUB_EQ, "-=") X(P_MUL_EQ, "*=") X(P_DIV_EQ, "/=") X(P_MOD_EQ, "%=")    \
    X(P_AND_EQ, "&=") X(P_OR_EQ, "|=") X(P_XOR_EQ, "^=")                                         \
    X(P_UB_ADD, "#+") X(P_UB_SUB, "#-") X(P_UB_MUL, "#*") X(P_UB_DIV, "#/") X(P_UB_MOD, "#%")    \
    X(P_PASTE, "##") X(P_QQ, "\?\?") X(P_SCOPE, "::") X(P_MEMBER, "->")                            \
    X(P_LPAREN, "(") X(P_RPAREN, ")") X(P_LBRACKET, "[") X(P_RBRACKET, "]") X(P_LBRACE, "{")     \
    X(P_RBRACE, "}") X(P_COMMA, ",") X(P_SEMI, ";") X(P_COLON, ":") X(P_QUEST, "?")              \
    X(P_ADD, "+") X(P_SUB, "-") X(P_MUL, "*") X(P_DIV, "/") X(P_MOD, "%") X(P_AND, "&")          \
    X(P_OR, "|") X(P_XOR, "^") X(P_TILDE, "~") X(P_NOT, "!") X(P_LT, "<") X(P_GT, ">")           \
    X(P_ASSIGN, "=") X(P_HASH, "#") X(P_DOT, ".")

typedef enum {
    TOK_EOF,
    TOK_BAD,       // a byte that starts no token
    TOK_NAME,      // identifier that is not reserved
    TOK_WILD,      // `_`
    TOK_METHOD,    // `.word`: name is the word without the dot
    TOK_TYPE,      // scalar type, `void` or `auto`; dtype as in AST_TYPE
    TOK_INT,       // ival, dtype
    TOK_FLOAT,     // fval, dtype
    TOK_STRING,    // name: decoded bytes, text_n of them
    TOK_CHAR,      // 'c', for #if and device text only: ival
    TOK_DIRECTIVE, // `#` that starts a directive line; the lexer stands behind it
    TOK_PRAGMA_UNROLL, // made by the preprocessor in device text: ival = factor, 0 when none
#define X(id, text) id,
    KEYWORDS(X) PUNCTS(X)
#undef X
    TOK_COUNT
} TokKind;

enum {
    TF_LINE_START = 1, // first token of its line
    TF_SPACE = 2,      // blanks or a comment before it
    TF_NO_EXPAND = 4,  // name of a macro that was being expanded: never expand it again
    TF_MACRO = 8,      // came out of a macro: loc is the place of use
    TF_AFTER_BAD = 16  // a malformed token before it was reported and dropped
};

typedef enum {
    LEX_OK, // rows of lex_errors (lex.c) have the words
    LEX_CHAR, LEX_COMMENT, LEX_STRING, LEX_RAW_STRING, LEX_ESCAPE, LEX_CHAR_LITERAL,
    LEX_OCTAL, LEX_HEX_DIGITS, LEX_INT_RANGE_S32, LEX_INT_RANGE, LEX_SUFFIX, LEX_FLOAT_DIGITS,
    LEX_FLOAT_EXPONENT, LEX_FLOAT_RANGE, LEX_PASTE, LEX_DOT_SPACE,
    LEX_ERR_COUNT
} LexErr;

typedef struct {
    u8 kind;  // TokKind
    u8 flags; // TF_*
    u8 err;   // LexErr
    int8_t dtype;// TOK_TYPE, TOK_INT, TOK_FLOAT
    u32 len;  // bytes of source text
    Loc loc;
    const char *name; // words: interned; punctuation: its text; strings: the decoded bytes
    size_t text_n;    // of a string
    union {
        u64 ival;
        double fval;
    };
} Token;

typedef VEC(Token) TokenVec;

// Where errors go: to the user, or (quiet, for device text that need not be in our dialect) only
// the first one is remembered.
typedef struct {
    Arena *arena;
    Diag *diag;
    bool quiet;
    int errors, warnings;
    const char *why; // first error of a quiet sink
    Loc why_loc;
} AstSink;
void ast_error(AstSink *s, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
void ast_warning(AstSink *s, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);

// ---- lex.c ----------------------------------------------------------------------------------
typedef struct {
    const char *s;
    size_t n, pos;
    size_t line_at;  // offset of the first byte of the line
    u32 line;        // from 1
    u16 file;
    bool line_start; // nothing but blanks since the line began
    bool c_text;     // C rules for numbers (octal, `1.f`, `1e5`), wide integers
    bool every_hash; // any `#` at a line start is a directive (host text)
    Arena *arena;
    Intern *in;
} Lexer;

Lexer lex_open(Arena *a, Intern *in, u16 file, const char *text, size_t n);
void lex_next(Lexer *l, Token *t);
Loc lex_loc(const Lexer *l);
void lex_seek(Lexer *l, size_t pos);      // forward only; keeps the line number right
void lex_rewind(Lexer *l, size_t pos, Loc at); // back to a place that was read before
size_t lex_line_end(const Lexer *l);      // end of the logical line: splices and comments joined
void lex_report(AstSink *s, const Token *t); // reports t->err, if any
const char *tok_describe(Arena *a, const Token *t); // for messages: "'foo'", "number 12", "end of
                                                    // ..."

// Items of host text, which is never tokenised: words, strings and comments are skipped whole.
typedef enum { RAW_EOF, RAW_WORD, RAW_DIRECTIVE, RAW_CHAR, RAW_SKIPPED } RawKind;
typedef struct {
    RawKind kind;
    size_t at, n; // bytes of the item
    char c;       // RAW_CHAR
} RawItem;
RawItem lex_raw(Lexer *l);

// ---- pp.c -----------------------------------------------------------------------------------
typedef struct {
    const char *prefix; // interned; "X" of `#pragma croq intrinsic prefix X`
    bool is_namespace;
} AstIntrinsic;
typedef VEC(AstIntrinsic) AstIntrinsicVec;

typedef struct Pp Pp;
Pp *pp_new(Arena *a, Intern *in, Diag *d, u16 file, const char *text, size_t n);
void pp_define(Pp *p, const char *name, const char *value); // -D
const AstIntrinsicVec *pp_intrinsics(const Pp *p);

// The next island of the file. `host` is the verbatim text before it. Returns false at the end,
// with the text behind the last island in `host`.
typedef struct {
    AstPartKind kind;       // PART_TILE, PART_DEVICE or PART_DEVICE_BLOCK
    Loc loc, host_loc;
    const char *host, *text;
    size_t host_n, text_n;
    TokenVec tokens;        // expanded, ends in TOK_EOF; empty for PART_DEVICE_BLOCK
    AstSink *sink;          // where the parser of this island reports
} PpIsland;
bool pp_next(Pp *p, PpIsland *out);
// Final state, for the file node: object-like macros in the order of their definition.
void pp_macros(Pp *p, AstMacro **out, int *n);

// ---- parse_contract.c ------------------------------------------------------------------------
void ast_contract(Arena *a, AstSink *s, u16 file, const char *text, size_t n, AstFile *out);

#endif
