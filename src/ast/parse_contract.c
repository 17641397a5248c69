// parse_contract.c - the contract at the head of a file: `//! key: value` lines, collected raw.
//
// Input: the file's bytes. Output: key and value of each line, in order. The head is what stands
// before the first line that is neither blank nor a comment nor a directive. A line whose text
// begins with more than one blank goes on with the value above it. Keys are judged by others.
#include "tokens.h"

#include <string.h>

typedef struct {
    Arena *arena;
    AstSink *sink;
    VEC(AstContractLine) lines;
    VEC(char) value; // of the last line, still growing
    u16 file;
} Contract;

// A NUL counts as a blank: contract texts are C strings later.
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == 0; }
static bool is_key(char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '-'; }

// Appends s[0..n) without blanks at both ends to the value; NULs in it become blanks. Returns how
// many blanks stood in front.
static size_t add_value(Contract *c, const char *s, size_t n)
{
    size_t b = 0;
    while (b < n && is_blank(s[b])) b++;
    while (n > b && is_blank(s[n - 1])) n--;
    if (c->value.n && n > b) vec_push(c->arena, &c->value, ' ');
    for (size_t i = b; i < n; i++) vec_push(c->arena, &c->value, s[i] ? s[i] : ' ');
    return b;
}

// The last line is complete.
static void finish_value(Contract *c)
{
    if (!c->lines.n) return;
    c->lines.at[c->lines.n - 1].value =
        c->value.n ? arena_strndup(c->arena, c->value.at, (size_t)c->value.n) : "";
    c->value.n = 0;
}

// One line behind `//!`, which stands in column col.
static void contract_line(Contract *c, const char *s, size_t n, u32 line, size_t col)
{
    size_t blanks = 0, k;
    Loc loc = {c->file, (u16)MIN(col, 65535u), line};
    while (blanks < n && is_blank(s[blanks])) blanks++;
    if (blanks == n) return; // an empty line separates
    if (blanks > 1) {
        if (!c->lines.n) {
            ast_error(c->sink, loc, "start it with one blank: //! key: value",
                      "this contract line goes on with a line that is not there");
            return;
        }
        add_value(c, s, n);
        return;
    }
    for (k = blanks; k < n && is_key(s[k]); k++) {
    }
    if (k == blanks || k >= n || s[k] != ':') {
        ast_error(c->sink, loc, "more than one blank behind //! goes on with the line above",
                  "a contract line has the form //! key: value");
        return;
    }
    finish_value(c);
    AstContractLine x = {.key = arena_strndup(c->arena, s + blanks, k - blanks), .loc = loc};
    size_t from = add_value(c, s + k + 1, n - k - 1);
    x.value_loc = loc;
    x.value_loc.col = (u16)MIN(col + 3 + k + 1 + from, 65535u);
    vec_push(c->arena, &c->lines, x);
}

// Does the line s[0..n) belong to the head? *in_comment: inside of /* .. */, kept across lines.
static bool head_line(const char *s, size_t n, bool *in_comment)
{
    size_t i = 0;
    for (;;) {
        while (!*in_comment && i < n && is_blank(s[i])) i++;
        if (i >= n) return true;
        if (*in_comment) {
            while (i + 1 < n && !(s[i] == '*' && s[i + 1] == '/')) i++;
            if (i + 1 >= n) return true;
            *in_comment = false;
            i += 2;
        } else if (i + 1 < n && s[i] == '/' && s[i + 1] == '*') {
            *in_comment = true;
            i += 2;
        } else {
            return s[i] == '#' || (i + 1 < n && s[i] == '/' && s[i + 1] == '/');
        }
    }
}

// Does a misplaced line look like a contract, and not like documentation of the host's own?
static bool known_key(const char *s, size_t n)
{
    static const char *const keys[] = {"op",     "sizes",  "where", "with",
                                       "workspace", "inputs", "assume", "check"};
    for (int i = 0; i < COUNT(keys); i++) {
        size_t k = strlen(keys[i]);
        if (n > k && memcmp(s, keys[i], k) == 0 && s[k] == ':') return true;
    }
    return false;
}

// Goes line by line, not token by token: the contract is a comment for everyone else.
// Errors of the contract do not stop the parser: a kernel without one still compiles.
void ast_contract(Arena *a, AstSink *sink, u16 file, const char *text, size_t n, AstFile *out)
{
    Contract c = {.arena = a, .sink = sink, .file = file};
    bool head = true, in_comment = false, spliced = false;
    u32 line = 1;
    size_t bom = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t at = bom; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at), *s = text + at;
        size_t len = end ? (size_t)(end - s) : n - at, i = 0;
        while (i < len && is_blank(s[i])) i++;
        bool mark = !in_comment && len - i >= 3 && memcmp(s + i, "//!", 3) == 0;
        if (mark && head)
            contract_line(&c, s + i + 3, len - i - 3, line, i + 1);
        else if (mark && len - i > 4 && known_key(s + i + 4, len - i - 4))
            ast_warning(sink, (Loc){file, (u16)MIN(i + 1, 65535u), line},
                        "move it to the head of the file",
                        "a contract line behind the head of the file does not count");
        // a directive that goes on with a backslash takes its next line with it
        if (head && !spliced) head = head_line(s, len, &in_comment);
        size_t tail = len && s[len - 1] == '\r' ? len - 1 : len;
        spliced = head && tail && s[tail - 1] == '\\';
        at += len + 1;
    }
    finish_value(&c);
    out->contract = c.lines.at;
    out->ncontract = c.lines.n;
}
