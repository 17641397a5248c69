// lex.c - from bytes to tokens of the .co language, and the coarse scan of host text.
//
// Input: bytes. Output: tokens (malformed ones carry an error code and a usable substitute value).
// Oddities of the language that live here: a method name and its dot are one token (`.at`),
// `group-4` is one token, a float needs digits on both sides of the dot, integers do not start
// with 0. Invariant: every call moves forward or returns the end.
#include "tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- tables ---------------------------------------------------------------------------------

typedef struct {
    const char *text;
    u8 kind;
} Word;

// Words and operators as data: what the parser calls KW_* and P_* has its spelling in tokens.h
// only.
static const Word keywords[] = {
#define X(id, text) {text, id},
    KEYWORDS(X)
#undef X
};

static const Word puncts[] = {
#define X(id, text) {text, id},
    PUNCTS(X)
#undef X
};

// Type names beyond those of DType: the compiler reads them, so that it can say what it lacks.
static const char *const other_types[] = {
    "void", "auto", "f8_ue4m3", "f8_ue8m0", "f6_e2m3", "f6_e3m2", "f4_e2m1", "s6",
    "s4",   "s2",   "u6",       "u4",       "u2",      "u1",      "bin1",
};

// One row per LexErr: what is wrong, and what would be right. The text is the user's, pinned by
// tests.
static const struct {
    const char *text, *hint;
} lex_errors[LEX_ERR_COUNT] = {
    [LEX_CHAR] = {"this character starts no token", NULL},
    [LEX_COMMENT] = {"comment is not closed", "end it with */"},
    [LEX_STRING] = {"string is not closed on its line", "end it with \""},
    [LEX_RAW_STRING] = {"raw string is not closed", "it ends with )delimiter\""},
    [LEX_ESCAPE] = {"unknown escape in a string",
                    "C escapes are \\n \\t \\r \\0 \\\\ \\\" \\' \\xHH and octal"},
    [LEX_CHAR_LITERAL] = {"character literals do not belong in tile code", "write the number"},
    [LEX_OCTAL] = {"a decimal number must not start with 0",
                   "write it without the 0, or in hex as 0x.."},
    [LEX_HEX_DIGITS] = {"hex number without digits", NULL},
    [LEX_INT_RANGE_S32] = {"integer does not fit s32, the type of a number without suffix",
                           "add u for u32, l for s64 or ul for u64"},
    [LEX_INT_RANGE] = {"integer is too large for its suffix", "u is u32, l is s64, ul is u64"},
    [LEX_SUFFIX] = {"unknown suffix of a number", "integers take u, l, ll, ul, ull; floats take f"},
    [LEX_FLOAT_DIGITS] = {"a float needs digits on both sides of its dot", "write 1.0 or 0.5"},
    [LEX_FLOAT_EXPONENT] = {"malformed exponent of a float", "write 1.0e5 or 1.0e-5f"},
    [LEX_FLOAT_RANGE] = {"float is too large for its type",
                         "f32 ends at 3.4e38; `inf` is infinity"},
    [LEX_PASTE] = {"not supported yet: token pasting (##) in tile code", "write the name out"},
    [LEX_DOT_SPACE] = {"a method name must follow its dot at once", "write .name without a blank"},
};

void lex_report(AstSink *s, const Token *t)
{
    if (t->err) ast_error(s, t->loc, lex_errors[t->err].hint, "%s", lex_errors[t->err].text);
}

// A token as a user would name it; the text may live in the arena.
const char *tok_describe(Arena *a, const Token *t)
{
    switch (t->kind) {
    case TOK_EOF: return "the end of the text";
    case TOK_INT: return arena_printf(a, "number %llu", (unsigned long long)t->ival);
    case TOK_FLOAT: return arena_printf(a, "number %g", t->fval);
    case TOK_STRING: return "a string";
    case TOK_CHAR: return "a character literal";
    case TOK_METHOD: return arena_printf(a, "'.%s'", t->name);
    case TOK_PRAGMA_UNROLL: return "#pragma unroll";
    default: return t->name ? arena_printf(a, "'%s'", t->name) : "an unknown character";
    }
}

// ---- characters -------------------------------------------------------------------------------

// ASCII only, by comparison: the C library's tests depend on the locale.
static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return is_word_start(c) || is_digit(c); }

// Value of a hexadecimal digit, -1 for any other byte.
static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// Byte at pos + ahead, 0 behind the end (a NUL in the text starts no token either).
static char peek(const Lexer *l, size_t ahead)
{
    return ahead < l->n - l->pos ? l->s[l->pos + ahead] : 0;
}

// The text is not copied; token names are interned or live in the arena, so tokens may outlive it.
Lexer lex_open(Arena *a, Intern *in, u16 file, const char *text, size_t n)
{
    Lexer l = {
        .s = text, .n = n, .line = 1, .file = file, .line_start = true, .arena = a, .in = in};
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) l.pos = 3; // byte-order mark
    return l;
}

// Columns count bytes. Beyond 65,535 they stay there: such lines are machine-made.
Loc lex_loc(const Lexer *l)
{
    size_t col = l->pos - l->line_at + 1;
    return (Loc){.file = l->file, .col = (u16)MIN(col, 65535u), .line = l->line};
}

static void newline(Lexer *l) // pos stands behind the '\n'
{
    l->line++;
    l->line_at = l->pos;
}

// The one way to move over text that may hold newlines.
void lex_seek(Lexer *l, size_t pos)
{
    while (l->pos < pos) {
        if (l->s[l->pos++] == '\n') newline(l);
    }
}

void lex_rewind(Lexer *l, size_t pos, Loc at)
{
    while (l->line > at.line) { // a place on an earlier line: find that line's start again
        size_t i = l->line_at - 1;
        while (i > 0 && l->s[i - 1] != '\n') i--;
        l->line_at = i;
        l->line--;
    }
    l->pos = pos;
}

// Length of a backslash-newline at pos, or 0.
static size_t splice(const Lexer *l)
{
    if (peek(l, 0) != '\\') return 0;
    if (peek(l, 1) == '\n') return 2;
    return peek(l, 1) == '\r' && peek(l, 2) == '\n' ? 3 : 0;
}

// To the newline, which stays. A backslash before it carries the comment on, as in C.
static void skip_line_comment(Lexer *l)
{
    while (l->pos < l->n && l->s[l->pos] != '\n') {
        size_t k = splice(l);
        lex_seek(l, l->pos + (k ? k : 1));
    }
}

// Skips a block comment at pos; false when it is not closed (pos is then at the end).
// Comments do not nest.
static bool skip_block_comment(Lexer *l)
{
    const char *from = l->s + l->pos + 2;
    // Safe: the caller has seen both bytes of the opening.
    size_t left = l->n - l->pos - 2;
    for (size_t i = 0; i + 1 < left; i++) {
        if (from[i] != '*' || from[i + 1] != '/') continue;
        lex_seek(l, l->pos + 2 + i + 2);
        return true;
    }
    lex_seek(l, l->n);
    return false;
}

// Blanks, newlines, comments. Returns whether anything was skipped; *open is where a comment began
// that does not end.
static bool skip_blank(Lexer *l, Loc *open)
{
    size_t from = l->pos;
    for (;;) {
        char c = peek(l, 0);
        size_t k = splice(l);
        if (c == '\n') {
            l->pos++;
            newline(l);
            l->line_start = true;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            l->pos++;
        } else if (k) {
            lex_seek(l, l->pos + k);
        } else if (c == '/' && peek(l, 1) == '/') {
            skip_line_comment(l);
        } else if (c == '/' && peek(l, 1) == '*') {
            Loc at = lex_loc(l);
            if (!skip_block_comment(l)) *open = at;
        } else {
            return l->pos > from;
        }
    }
}

// ---- numbers ----------------------------------------------------------------------------------

typedef struct {
    bool u, l, f, bad;
} Suffix;

// The letters and digits behind a number. All of them are consumed, also when they make no sense,
// so that `1abc` is one malformed number and not a number and a name.
static Suffix read_suffix(Lexer *l)
{
    char s[4] = {0};
    size_t n = 0;
    Suffix x = {0};
    for (; is_word(peek(l, 0)); l->pos++, n++) {
        char c = peek(l, 0);
        if (n < sizeof s) s[n] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    if (n == 0) return x;
    if (n == 1 && s[0] == 'f') return (Suffix){.f = true};
    size_t i = 0;
    if (s[i] == 'u') x.u = true, i++;
    if (i < n && s[i] == 'l') x.l = true, i++;
    if (i < n && x.l && s[i] == 'l') i++;
    if (i < n && !x.u && x.l && s[i] == 'u') x.u = true, i++; // 4LU, as host headers write it
    x.bad = i != n;
    return x;
}

// Type and range of an integer. The type comes from the suffix alone, never from the size:
// 3000000000 is an error and not quietly an s64, because a tile program means 32-bit arithmetic.
static void int_finish(const Lexer *l, Token *t, u64 v, bool overflow, Suffix x)
{
    t->kind = TOK_INT;
    t->ival = v;
    t->dtype = (int8_t)(x.l ? (x.u ? DT_U64 : DT_S64) : (x.u ? DT_U32 : DT_S32));
    if (x.bad || x.f) {
        t->err = LEX_SUFFIX;
        return;
    }
    u64 most = x.l ? (x.u ? UINT64_MAX : (u64)INT64_MAX) : (x.u ? UINT32_MAX : (u64)INT32_MAX);
    if (overflow || (v > most && !l->c_text)) {
        t->err = !x.l && !x.u ? LEX_INT_RANGE_S32 : LEX_INT_RANGE;
        t->ival = 0;
    } else if (v > most) { // C text: the next wider type that holds it
        t->dtype = (int8_t)(v > (u64)INT64_MAX ? DT_U64 : DT_S64);
    }
}

// At `0x`.
// hex : '0x' hexdigit+ suffix
static void lex_hex(Lexer *l, Token *t)
{
    u64 v = 0;
    int digits = 0;
    bool overflow = false;
    l->pos += 2;
    for (int h; (h = hex_value(peek(l, 0))) >= 0; l->pos++, digits++) {
        // The next shift would lose a digit.
        if (v >> 60) overflow = true;
        v = v << 4 | (u64)h;
    }
    int_finish(l, t, v, overflow, read_suffix(l));
    if (digits == 0) t->err = LEX_HEX_DIGITS;
}

// The float whose text is [from, pos): suffix and error checks.
// strtod needs a NUL, which the source need not have there.
static void float_finish(Lexer *l, Token *t, size_t from, u8 err)
{
    size_t n = l->pos - from;
    char small[64];
    char *s =
        n < sizeof small ? memcpy(small, l->s + from, n) : arena_strndup(l->arena, l->s + from, n);
    s[n] = 0;
    Suffix x = read_suffix(l);
    t->kind = TOK_FLOAT;
    t->dtype = x.f ? DT_F32 : DT_F64;
    t->fval = x.f ? (double)strtof(s, NULL) : strtod(s, NULL);
    t->err = err;
    if (!err && (x.bad || x.u || x.l)) t->err = LEX_SUFFIX;
    // Infinity minus itself is NaN: true for what does not fit.
    if (!t->err && t->fval - t->fval != 0) t->err = LEX_FLOAT_RANGE, t->fval = 0;
}

// [e[+-]digits]: false when an `e` has no digits behind it.
// *found is set when there is one.
static bool read_exponent(Lexer *l, bool *found)
{
    char c = peek(l, 0);
    if (c != 'e' && c != 'E') return true;
    size_t k = peek(l, 1) == '+' || peek(l, 1) == '-' ? 2 : 1;
    if (!is_digit(peek(l, k))) return k == 1; // `1.0e+` is broken; `1.0else` is a bad suffix
    l->pos += k;
    while (is_digit(peek(l, 0))) l->pos++;
    *found = true;
    return true;
}

// Decimal integer or float. In tile code `1.` and `.5` are errors and not floats, so that a range
// or a method behind a number can never be mistaken for one.
static void lex_number(Lexer *l, Token *t)
{
    size_t from = l->pos;
    if (peek(l, 0) == '0' && (peek(l, 1) == 'x' || peek(l, 1) == 'X')) {
        lex_hex(l, t);
        return;
    }
    u64 v = 0, octal = 0;
    bool overflow = false;
    for (; is_digit(peek(l, 0)); l->pos++) {
        u64 d = (u64)(peek(l, 0) - '0');
        if (v > (UINT64_MAX - d) / 10) overflow = true;
        v = v * 10 + d;
        octal = octal * 8 + d;
    }
    // `.5` has no lead; 0 alone is no octal number.
    bool no_lead = l->pos == from,
         leading_zero = !no_lead && l->s[from] == '0' && l->pos > from + 1;
    bool dot = peek(l, 0) == '.', exponent = false;
    u8 err = LEX_OK;
    if (dot) {
        l->pos++;
        bool no_tail = !is_digit(peek(l, 0));
        while (is_digit(peek(l, 0))) l->pos++;
        if ((no_lead || no_tail) && !l->c_text) err = LEX_FLOAT_DIGITS;
    }
    if (!read_exponent(l, &exponent)) err = LEX_FLOAT_EXPONENT, l->pos += 2;
    if (exponent && !dot && !l->c_text) err = LEX_FLOAT_DIGITS;
    // An `e` that went wrong makes it a float too: the complaint is then about the exponent.
    if (dot || exponent || err) {
        float_finish(l, t, from, err);
        return;
    }
    int_finish(l, t, l->c_text && leading_zero ? octal : v, overflow, read_suffix(l));
    if (leading_zero && !l->c_text) t->err = LEX_OCTAL;
}

// ---- strings ------------------------------------------------------------------------------------

// One escape behind the backslash. Returns the byte; *err is set for an unknown one.
static char lex_escape(Lexer *l, u8 *err)
{
    static const char from[] = "ntrabfv\\\"'?", to[] = "\n\t\r\a\b\f\v\\\"'?";
    char c = peek(l, 0);
    if (l->pos < l->n) l->pos++;
    const char *p = c ? strchr(from, c) : NULL;
    if (p) return to[p - from];
    if (c >= '0' && c <= '7') {
        int v = c - '0';
        for (int i = 0; i < 2 && peek(l, 0) >= '0' && peek(l, 0) <= '7'; i++, l->pos++)
            v = v * 8 + peek(l, 0) - '0';
        return (char)v;
    }
    if (c == 'x' && hex_value(peek(l, 0)) >= 0) {
        int v = 0;
        for (int i = 0; i < 2 && hex_value(peek(l, 0)) >= 0; i++, l->pos++)
            v = v * 16 + hex_value(peek(l, 0));
        return (char)v;
    }
    *err = LEX_ESCAPE;
    return c;
}

// At `"`. The decoded bytes are never longer than the source, so one buffer of that size is enough.
// A string ends at its line whatever happens: one forgotten quote costs one line.
static void lex_string(Lexer *l, Token *t)
{
    size_t from = ++l->pos, end = from;
    while (end < l->n && l->s[end] != '"' && l->s[end] != '\n')
        end += l->s[end] == '\\' && end + 1 < l->n && l->s[end + 1] != '\n' ? 2 : 1;
    char *out = arena_alloc(l->arena, end - from + 1);
    size_t n = 0;
    t->kind = TOK_STRING;
    while (l->pos < l->n && l->s[l->pos] != '"' && l->s[l->pos] != '\n') {
        char c = l->s[l->pos++];
        if (c == '\\' && peek(l, 0) != '\n') c = lex_escape(l, &t->err);
        out[n++] = c;
    }
    if (peek(l, 0) == '"')
        l->pos++;
    else
        t->err = LEX_STRING;
    t->name = out;
    t->text_n = n;
}

// At `R"`: finds the body of a raw string. Returns the offset behind it, n + 1 when it is not
// closed, or 0 when no `delimiter(` follows.
static size_t raw_string_end(const Lexer *l, size_t *body, size_t *body_n)
{
    size_t d = l->pos + 2, open = d;
    while (open < l->n && open - d < 16 && l->s[open] != '(') {
        char c = l->s[open];
        if (c == '"' || c == ')' || c == '\\' || c == ' ' || c == '\n') return 0;
        open++;
    }
    if (open >= l->n || l->s[open] != '(') return 0;
    size_t dn = open - d;
    *body = open + 1;
    *body_n = 0;
    for (size_t i = open + 1; i + dn + 1 < l->n; i++) {
        if (l->s[i] != ')' || l->s[i + 1 + dn] != '"' || memcmp(l->s + i + 1, l->s + d, dn))
            continue;
        *body_n = i - *body;
        return i + dn + 2;
    }
    return l->n + 1;
}

// At `R"`. A raw string that does not close takes the rest of the text, as in C++; searching for
// its end again from every later `R"(` would be quadratic.
static void lex_raw_string(Lexer *l, Token *t)
{
    size_t body = 0, n = 0, end = raw_string_end(l, &body, &n);
    t->kind = TOK_STRING;
    if (!end || end > l->n) {
        t->err = LEX_RAW_STRING;
        t->name = "";
        lex_seek(l, end ? l->n : l->pos + 2);
        return;
    }
    t->name = arena_strndup(l->arena, l->s + body, n);
    t->text_n = n;
    lex_seek(l, end);
}

// At `'`: characters exist in device text and in #if lines; elsewhere the token is malformed.
static void lex_char(Lexer *l, Token *t)
{
    t->kind = TOK_CHAR;
    t->dtype = DT_S32;
    t->name = "'";
    l->pos++;
    char c = peek(l, 0);
    if (c && c != '\n') l->pos++;
    if (c == '\\') c = lex_escape(l, &t->err);
    t->ival = (u64)(i64)c;
    if (peek(l, 0) == '\'')
        l->pos++;
    else
        t->err = LEX_CHAR_LITERAL;
    if (!l->c_text) t->err = LEX_CHAR_LITERAL;
}

// ---- words and the rest -------------------------------------------------------------------------

// Name, reserved word or type. `group-4` is read here: the hyphen belongs to the word only when the
// 4 stands alone, so that `group-4x` stays three tokens.
static void lex_word(Lexer *l, Token *t)
{
    size_t from = l->pos;
    while (is_word(peek(l, 0))) l->pos++;
    size_t n = l->pos - from;
    if (n == 5 && memcmp(l->s + from, "group", 5) == 0 && peek(l, 0) == '-' && peek(l, 1) == '4' &&
        !is_word(peek(l, 2))) {
        l->pos += 2;
        n += 2;
    }
    t->name = intern_n(l->in, l->s + from, n);
    t->kind = n == 1 && t->name[0] == '_' ? TOK_WILD : TOK_NAME;
    // Linear behind a look at the first letter: about seventy words.
    for (int i = 0; i < COUNT(keywords); i++) {
        if (keywords[i].text[0] == t->name[0] && strcmp(keywords[i].text, t->name) == 0) {
            t->kind = keywords[i].kind;
            return;
        }
    }
    int dt = dtype_by_name(t->name);
    t->dtype = (int8_t)dt;
    if (dt >= 0) t->kind = TOK_TYPE;
    for (int i = 0; dt < 0 && i < COUNT(other_types); i++) {
        if (strcmp(other_types[i], t->name) == 0) t->kind = TOK_TYPE;
    }
}

// Operators and brackets; the table is sorted by length, so `<->` is never read as `<` and `->`.
static void lex_punct(Lexer *l, Token *t)
{
    for (int i = 0; i < COUNT(puncts); i++) {
        size_t n = strlen(puncts[i].text);
        if (n > l->n - l->pos || memcmp(puncts[i].text, l->s + l->pos, n)) continue;
        t->kind = puncts[i].kind;
        t->name = puncts[i].text;
        l->pos += n;
        if (t->kind == P_PASTE) t->err = LEX_PASTE;
        if (t->kind == P_DOT) t->err = LEX_DOT_SPACE;
        return;
    }
    t->kind = TOK_BAD;
    t->err = LEX_CHAR;
    do l->pos++; // a run of bytes outside ASCII is one complaint, not twenty
    while (l->pos < l->n && (l->s[l->pos] & 0x80) && (l->s[l->pos - 1] & 0x80));
}

// Does the `#` at pos start a directive? In tile code `#` is an operator too, so that only the
// known words count there.
static bool at_directive(const Lexer *l)
{
    static const char *const words[] = {"define", "undef",   "if",    "ifdef",   "ifndef",
                                        "elif",   "else",    "endif", "include", "pragma",
                                        "error",  "warning", "line"};
    if (!l->line_start || peek(l, 0) != '#') return false;
    if (l->every_hash) return true;
    size_t i = 1, n = 0;
    while (peek(l, i) == ' ' || peek(l, i) == '\t') i++;
    while (is_word(peek(l, i + n))) n++;
    for (int k = 0; k < COUNT(words); k++) {
        if (strlen(words[k]) == n && memcmp(words[k], l->s + l->pos + i, n) == 0) return true;
    }
    return false;
}

// One token. Where two rules could apply (`.5`, `.at`, `R"`), the order of the branches decides.
void lex_next(Lexer *l, Token *t)
{
    Loc open = {0};
    *t = (Token){.dtype = -1};
    bool spaced = skip_blank(l, &open);
    t->loc = open.line ? open : lex_loc(l);
    t->flags = (u8)((l->line_start ? TF_LINE_START : 0) | (spaced ? TF_SPACE : 0));
    size_t from = l->pos;
    char c = peek(l, 0);
    if (open.line) {
        t->kind = TOK_BAD;
        t->err = LEX_COMMENT;
    } else if (l->pos >= l->n) {
        t->kind = TOK_EOF;
    } else if (at_directive(l)) {
        l->pos++;
        t->kind = TOK_DIRECTIVE;
    } else if (c == 'R' && peek(l, 1) == '"') {
        lex_raw_string(l, t);
    } else if (is_word_start(c)) {
        lex_word(l, t);
    } else if (is_digit(c) || (c == '.' && is_digit(peek(l, 1)))) {
        lex_number(l, t);
    } else if (c == '.' && is_word_start(peek(l, 1))) {
        size_t n = 1;
        while (is_word(peek(l, n))) n++;
        t->kind = TOK_METHOD;
        t->name = intern_n(l->in, l->s + l->pos + 1, n - 1);
        l->pos += n;
    } else if (c == '"') {
        lex_string(l, t);
    } else if (c == '\'') {
        lex_char(l, t);
    } else {
        lex_punct(l, t);
    }
    l->line_start = false;
    t->len = (u32)MIN(l->pos - from, 65535u);
}

// ---- host text ----------------------------------------------------------------------------------

// A directive ends with its logical line: a backslash joins lines, and a block comment that starts
// on the line carries it on to where the comment ends. Strings hide both.
size_t lex_line_end(const Lexer *at)
{
    Lexer l = *at;
    while (l.pos < l.n && l.s[l.pos] != '\n') {
        size_t k = splice(&l);
        char c = l.s[l.pos];
        if (k) {
            l.pos += k;
        } else if (c == '/' && peek(&l, 1) == '/') {
            skip_line_comment(&l);
        } else if (c == '/' && peek(&l, 1) == '*') {
            skip_block_comment(&l);
        } else if (c == '"') {
            for (l.pos++; l.pos < l.n && l.s[l.pos] != '"' && l.s[l.pos] != '\n'; l.pos++)
                if (l.s[l.pos] == '\\' && peek(&l, 1) && peek(&l, 1) != '\n') l.pos++;
            if (peek(&l, 0) == '"') l.pos++;
        } else {
            l.pos++;
        }
    }
    return MIN(l.pos, l.n);
}

// A quoted string or character of C++ text; one that does not close ends at its line.
static void raw_quote(Lexer *l, char quote)
{
    for (l->pos++; l->pos < l->n && l->s[l->pos] != '\n'; l->pos++) {
        if (l->s[l->pos] == quote) {
            l->pos++;
            return;
        }
        if (l->s[l->pos] == '\\' && l->pos + 1 < l->n && l->s[l->pos + 1] != '\n') l->pos++;
    }
}

// One item of host text, whatever language that is. Only what could hide or fake an island matters:
// comments, quotes and raw strings are skipped whole, words are told apart, the rest are
// characters.
RawItem lex_raw(Lexer *l)
{
    Loc open = {0};
    skip_blank(l, &open);
    RawItem r = {.at = l->pos};
    if (l->pos >= l->n) return r;
    char c = peek(l, 0);
    bool directive = at_directive(l);
    l->line_start = false;
    if (directive) {
        l->pos++;
        r.kind = RAW_DIRECTIVE;
    } else if (c == 'R' && peek(l, 1) == '"') {
        size_t body, n, end = raw_string_end(l, &body, &n);
        lex_seek(l, end ? MIN(end, l->n) : l->pos + 1);
        r.kind = RAW_SKIPPED;
    } else if (is_word_start(c)) {
        while (is_word(peek(l, 0))) l->pos++;
        r.kind = RAW_WORD;
        // u8R"(..)" and LR"(..)": let the next call see the R
        if (l->s[l->pos - 1] == 'R' && peek(l, 0) == '"' && l->pos - r.at <= 3) l->pos--;
    } else if (is_digit(c)) { // with 1'000 and 0x1p-3: the quote is no literal
        while (is_word(peek(l, 0)) || (peek(l, 0) == '\'' && is_word(peek(l, 1)))) l->pos++;
        r.kind = RAW_SKIPPED;
    } else if (c == '"' || c == '\'') {
        raw_quote(l, c);
        r.kind = RAW_SKIPPED;
    } else {
        l->pos++;
        r.kind = RAW_CHAR;
        r.c = c;
    }
    r.n = l->pos - r.at;
    return r;
}
