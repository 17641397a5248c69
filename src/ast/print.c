// print.c - the syntax tree as text: one statement per line, blocks indented, expressions with
// parentheses around every operand that is an operation itself, so that grouping can be seen.
//
// Input: an AstFile. Output: text that depends on the tree only (--emit=ast, golden tests).
#include "ast.h"

#include <string.h>

const char *const ast_kind_name[AST_KIND_COUNT] = {
    [AST_ERROR] = "error",
    [AST_FUNC] = "function",
    [AST_PARAM] = "param",
    [AST_TYPE] = "type",
    [AST_ANYDIM] = "any dimension",
    [AST_SCALAR_DECL] = "scalar",
    [AST_BUFFER_DECL] = "buffer",
    [AST_FRAG_DECL] = "fragment",
    [AST_EVENT_DECL] = "event",
    [AST_SPAN_DECL] = "span",
    [AST_TUPLE_DECL] = "tuple",
    [AST_BLOCK] = "block",
    [AST_ASSIGN] = "assignment",
    [AST_EXPR] = "expression",
    [AST_XFER] = "transfer",
    [AST_MMA] = "mma",
    [AST_APPLY] = "apply",
    [AST_REDUCE] = "reduce",
    [AST_ALL_REDUCE] = "all_reduce",
    [AST_COPY] = "copy",
    [AST_SWAP] = "swap",
    [AST_ROTATE] = "rotate",
    [AST_WAIT] = "wait",
    [AST_TRIGGER] = "trigger",
    [AST_PARALLEL] = "parallel",
    [AST_PARBY] = "by",
    [AST_WITH] = "with",
    [AST_FOREACH] = "foreach",
    [AST_WITHIN] = "within",
    [AST_RANGE] = "range",
    [AST_SUFFIX] = "suffix",
    [AST_INTHREADS] = "inthreads",
    [AST_WHILE] = "while",
    [AST_IF] = "if",
    [AST_FOR] = "for",
    [AST_SYNC] = "sync",
    [AST_RETURN] = "return",
    [AST_BREAK] = "break",
    [AST_CONTINUE] = "continue",
    [AST_YIELD] = "yield",
    [AST_ASSERT] = "assert",
    [AST_PRINT] = "print",
    [AST_ASM] = "asm",
    [AST_ASM_OPERAND] = "operand",
    [AST_CPP] = "__cpp__",
    [AST_ATTR] = "attribute",
    [AST_NAME] = "name",
    [AST_WILD] = "_",
    [AST_INT] = "integer",
    [AST_FLOAT] = "float",
    [AST_BOOL] = "bool",
    [AST_INF] = "inf",
    [AST_NULLPTR] = "nullptr",
    [AST_STRING] = "string",
    [AST_SPAN] = "span literal",
    [AST_TUPLE] = "tuple literal",
    [AST_UNARY] = "unary",
    [AST_BINARY] = "binary",
    [AST_SELECT] = "?:",
    [AST_COUNT] = "element count",
    [AST_CALL] = "call",
    [AST_EXTENT] = "extent",
    [AST_INDEX] = "index",
    [AST_AT] = "element",
    [AST_MEMBER] = "member",
    [AST_VIEW] = "view",
    [AST_CAST] = "conversion",
    [AST_BITCAST] = "bitcast",
};

const char *ast_op_text(int op)
{
    static const char *const text[AST_OP_COUNT_] = {
        [AST_OP_ASSIGN] = "=",  [AST_OP_ADD] = "+",      [AST_OP_SUB] = "-",
        [AST_OP_MUL] = "*",     [AST_OP_DIV] = "/",      [AST_OP_MOD] = "%",
        [AST_OP_AND] = "&",     [AST_OP_OR] = "|",       [AST_OP_XOR] = "^",
        [AST_OP_SHL] = "<<",    [AST_OP_SHR] = ">>",     [AST_OP_LAND] = "&&",
        [AST_OP_LOR] = "||",    [AST_OP_EQ] = "==",      [AST_OP_NE] = "!=",
        [AST_OP_LT] = "<",      [AST_OP_LE] = "<=",      [AST_OP_GT] = ">",
        [AST_OP_GE] = ">=",     [AST_OP_JOIN] = "#",     [AST_OP_UB_ADD] = "#+",
        [AST_OP_UB_SUB] = "#-", [AST_OP_UB_MUL] = "#*",  [AST_OP_UB_DIV] = "#/",
        [AST_OP_UB_MOD] = "#%", [AST_OP_BIND] = "<->",   [AST_OP_MAX] = "max",
        [AST_OP_NEG] = "-",     [AST_OP_PLUS] = "+",     [AST_OP_NOT] = "!",
        [AST_OP_BITNOT] = "~",  [AST_OP_UBOUND] = "#",   [AST_OP_PREINC] = "++",
        [AST_OP_PREDEC] = "--", [AST_OP_POSTINC] = "++", [AST_OP_POSTDEC] = "--",
        [AST_OP_DEREF] = "*",   [AST_OP_ADDRESS] = "&",
    };
    return op > AST_OP_NONE && op < AST_OP_COUNT_ ? text[op] : "";
}

const char *ast_storage_name(int s)
{
    static const char *const names[] = {"", "global", "shared", "local"};
    return s >= 0 && s < COUNT(names) ? names[s] : "";
}

const char *ast_level_name(int level)
{
    static const char *const names[] = {"",        "device", "cluster", "block",
                                        "group-4", "group",  "thread"};
    return level >= 0 && level < COUNT(names) ? names[level] : "";
}

// ---- expressions --------------------------------------------------------------------------------

// Entries that are NULL leave their comma: "lo, , step".
static void put_list(const AstList *l, Buf *b)
{
    for (int i = 0; i < l->n; i++) {
        if (i) buf_puts(b, ", ");
        if (l->at[i]) ast_expr_text(l->at[i], b);
    }
}

// open a, b, c close
static void put_in(const char *open, const AstList *l, const char *close, Buf *b)
{
    buf_puts(b, open);
    put_list(l, b);
    buf_puts(b, close);
}

// An operand: in parentheses when it is an operation.
static void put_operand(const AstNode *e, Buf *b)
{
    bool op = e->kind == AST_BINARY || e->kind == AST_SELECT ||
              (e->kind == AST_UNARY && e->op != AST_OP_POSTINC && e->op != AST_OP_POSTDEC);
    if (op) buf_putc(b, '(');
    ast_expr_text(e, b);
    if (op) buf_putc(b, ')');
}

// A string as it could be written in the source.
static void put_string(const char *s, size_t n, Buf *b)
{
    buf_putc(b, '"');
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c == '\n')
            buf_puts(b, "\\n");
        else if ((u8)c < 32 || (u8)c == 127)
            buf_printf(b, "\\x%02x", (u8)c);
        else
            buf_putc(b, c);
    }
    buf_putc(b, '"');
}

// Digits enough to tell any two values apart, always with a dot, so that it reads back as a float.
static void put_float(const AstNode *e, Buf *b)
{
    size_t from = b->n;
    buf_printf(b, e->dtype == DT_F32 ? "%.9g" : "%.17g", e->fvalue);
    bool plain = true;
    for (size_t i = from; i < b->n; i++) plain = plain && b->s[i] != '.' && b->s[i] != 'e';
    if (plain) buf_puts(b, ".0");
    if (e->dtype == DT_F32) buf_putc(b, 'f');
}

// With the suffix that makes it read back as the same type.
static void put_int(const AstNode *e, Buf *b)
{
    buf_printf(b, "%llu", (unsigned long long)e->ivalue);
    if (e->dtype == DT_U32) buf_putc(b, 'u');
    if (e->dtype == DT_S64) buf_putc(b, 'l');
    if (e->dtype == DT_U64) buf_puts(b, "ul");
}

// "f32", "f32 [M, N]", "f32 mdspan<2>"
static void put_type(const AstNode *t, Buf *b)
{
    if (!t) return;
    buf_puts(b, t->name);
    if (t->flags & AST_F_RANK_ONLY)
        buf_printf(b, " mdspan<%llu>", (unsigned long long)t->ivalue);
    else if (t->flags & AST_F_AUTO_DIMS)
        buf_puts(b, " [auto]");
    else if (t->flags & AST_F_SPANNED)
        put_in(" [", &t->list, "]", b);
}

// "base.subspan(a, b : strides).step(s).at(i, j)"
static void put_view(const AstNode *e, Buf *b)
{
    static const char *const names[] = {"chunkat", "chunk",   "subspan", "modspan",
                                        "view",    "span_as", "sqz"};
    put_operand(e->value, b);
    buf_printf(b, ".%s", names[e->op]);
    put_in("(", &e->list, "", b);
    if (e->list2.n) put_in(" : ", &e->list2, "", b);
    buf_putc(b, ')');
    if (e->list3.n) put_in(".step(", &e->list3, ")", b);
    if (e->flags & AST_F_AT) put_in(e->op == VIEW_VIEW ? ".from(" : ".at(", &e->list4, ")", b);
}

// "call f<targs>(args)"
static void put_call(const AstNode *e, Buf *b)
{
    if (e->flags & AST_F_CALL) buf_puts(b, "call ");
    buf_puts(b, e->name);
    if (e->list2.n) put_in("<", &e->list2, ">", b);
    put_in("(", &e->list, ")", b);
}

static void put_unary(const AstNode *e, Buf *b)
{
    bool post = e->op == AST_OP_POSTINC || e->op == AST_OP_POSTDEC;
    if (!post) buf_puts(b, ast_op_text(e->op));
    put_operand(e->value, b);
    if (post) buf_puts(b, ast_op_text(e->op));
}

// C casts print like the tile language's: they mean the same.
static void put_cast(const AstNode *e, Buf *b)
{
    buf_puts(b, e->kind == AST_CAST ? "__to<" : "__bitcast<");
    if (e->type)
        put_type(e->type, b);
    else
        put_string(e->text, e->text_n, b);
    buf_puts(b, ">(");
    ast_expr_text(e->value, b);
    buf_putc(b, ')');
}

static void put_count(const AstNode *e, Buf *b)
{
    buf_putc(b, '|');
    if (e->type)
        put_type(e->type, b);
    else
        ast_expr_text(e->value, b);
    buf_putc(b, '|');
}

// Base, then its indices between the brackets.
static void put_indexed(const AstNode *e, const char *open, const char *close, Buf *b)
{
    put_operand(e->value, b);
    put_in(open, &e->list, close, b);
}

void ast_expr_text(const AstNode *e, Buf *b)
{
    switch (e->kind) {
    case AST_NAME: buf_puts(b, e->name); break;
    case AST_WILD: buf_putc(b, '_'); break;
    case AST_INT: put_int(e, b); break;
    case AST_FLOAT: put_float(e, b); break;
    case AST_BOOL: buf_puts(b, e->ivalue ? "true" : "false"); break;
    case AST_INF: buf_puts(b, "inf"); break;
    case AST_NULLPTR: buf_puts(b, "nullptr"); break;
    case AST_STRING: put_string(e->text, e->text_n, b); break;
    case AST_SPAN: put_in("[", &e->list, "]", b); break;
    case AST_TUPLE: put_in("{", &e->list, "}", b); break;
    case AST_UNARY: put_unary(e, b); break;
    case AST_BINARY:
        put_operand(e->list.at[0], b);
        buf_printf(b, " %s ", ast_op_text(e->op));
        put_operand(e->list.at[1], b);
        break;
    case AST_SELECT:
        put_operand(e->cond, b);
        buf_puts(b, " ? ");
        put_operand(e->value, b);
        buf_puts(b, " : ");
        put_operand(e->alt, b);
        break;
    case AST_COUNT: put_count(e, b); break;
    case AST_CALL: put_call(e, b); break;
    case AST_EXTENT: put_indexed(e, "(", ")", b); break;
    case AST_INDEX: put_indexed(e, "[", "]", b); break;
    case AST_AT: put_indexed(e, ".at(", ")", b); break;
    case AST_MEMBER:
        put_operand(e->value, b);
        buf_printf(b, ".%s", e->name);
        break;
    case AST_VIEW: put_view(e, b); break;
    case AST_CAST:
    case AST_BITCAST: put_cast(e, b); break;
    case AST_TYPE: put_type(e, b); break;
    case AST_ANYDIM: buf_puts(b, e->flags & AST_F_UNBOUNDED ? "\?\?" : "?"); break;
    default: buf_puts(b, "<error>"); break;
    }
}

// ---- statements ---------------------------------------------------------------------------------

static void put_stmt(const AstNode *s, int indent, Buf *b);

static void put_indent(int indent, Buf *b)
{
    for (int i = 0; i < indent; i++) buf_puts(b, "  ");
}

// The statements of a block, which itself takes no line when it is a body.
static void put_body(const AstNode *body, int indent, Buf *b)
{
    if (!body) return;
    for (int i = 0; i < body->list.n; i++) put_stmt(body->list.at[i], indent, b);
}

static void put_counts(const AstList *l, Buf *b)
{
    for (int i = 0; i < l->n; i++) {
        buf_putc(b, '[');
        ast_expr_text(l->at[i], b);
        buf_putc(b, ']');
    }
}

// A declaration whose name did not parse has none.
static void put_name(const char *name, Buf *b) { buf_puts(b, name ? name : "<error>"); }

// `open`, the expression and `close`; nothing at all without the expression.
static void put_init(const AstNode *value, const char *open, const char *close, Buf *b)
{
    if (!value) return;
    buf_puts(b, open);
    ast_expr_text(value, b);
    buf_puts(b, close);
}

// "buffer shared f32 [16, 64] name[2] {init}": the kind's word first, then as in the source.
static void put_decl(const AstNode *s, Buf *b)
{
    buf_puts(b, ast_kind_name[s->kind]);
    if (s->storage) buf_printf(b, " %s", ast_storage_name(s->storage));
    if (s->flags & AST_F_SWIZ) buf_printf(b, ".swiz<%d>", s->swizzle);
    if (s->flags & AST_F_MUTABLE) buf_puts(b, " mutable");
    if (s->kind == AST_EVENT_DECL && s->value) put_init(s->value, "<", ">", b);
    buf_putc(b, ' ');
    put_type(s->type, b);
    if (s->type) buf_putc(b, ' ');
    if (s->flags & AST_F_POINTER) buf_putc(b, '*');
    if (s->flags & AST_F_REF) buf_putc(b, '&');
    put_name(s->name, b);
    put_counts(&s->list, b);
    if (s->kind == AST_SCALAR_DECL || s->kind == AST_TUPLE_DECL) put_init(s->value, " = ", "", b);
    if (s->kind == AST_BUFFER_DECL || s->kind == AST_FRAG_DECL) put_init(s->value, " {", "}", b);
    if (s->kind == AST_SPAN_DECL) put_init(s->value, " : ", "", b);
    if (s->flags & AST_F_READY) buf_puts(b, " = ready");
}

// Modifiers in the order of the language.
static void put_flags(const AstNode *s, Buf *b)
{
    static const struct {
        u32 flag;
        const char *name;
    } names[] = {{AST_F_ASYNC, ".async"},
                 {AST_F_ZFILL, ".zfill"},
                 {AST_F_MULTICAST, ".multicast"},
                 {AST_F_SPARSE, ".sp"}};
    if (s->flags & AST_F_ASYNC) buf_puts(b, ".async");
    if (s->evict) buf_puts(b, s->evict == EVICT_FIRST ? ".evict_first" : ".evict_last");
    if (s->flags & AST_F_SWIZ) buf_printf(b, ".swiz<%d>", s->swizzle);
    for (int i = 1; i < COUNT(names); i++) {
        if (s->flags & names[i].flag) buf_puts(b, names[i].name);
    }
    if (s->promote) buf_printf(b, ".promote<%d>", s->promote);
}

// "transfer f = tma.load.async.swiz<128> src => dst after g"
static void put_xfer(const AstNode *s, Buf *b)
{
    static const char *const names[] = {"dma.copy", "dma.pad",  "dma.transp",
                                        "tma.copy", "tma.load", "any"};
    buf_puts(b, "transfer ");
    if (s->name) buf_printf(b, "%s = ", s->name);
    if (s->op == XFER_ANY) buf_puts(b, s->flags & AST_F_TMA ? "tma." : "dma.");
    buf_puts(b, names[s->op]);
    if (s->op == XFER_DMA_PAD) {
        put_in("<{", &s->list, "}, {", b);
        put_in("", &s->list2, "}, {", b);
        put_in("", &s->list4, "}", b);
        put_init(s->cond, ", ", "", b);
        buf_putc(b, '>');
    }
    if (s->op == XFER_DMA_TRANSP) put_in("<", &s->list, ">", b);
    put_flags(s, b);
    if (s->op == XFER_ANY) return;
    buf_putc(b, ' ');
    if (s->value) ast_expr_text(s->value, b);
    buf_puts(b, " => ");
    if (s->target)
        ast_expr_text(s->target, b);
    else
        buf_puts(b, ast_storage_name(s->storage));
    if (s->list3.n) put_in(" after ", &s->list3, "", b);
}

// "mma.row.col.async future f into acc with a, b"; " new " when the target is declared here.
static void put_mma(const AstNode *s, Buf *b)
{
    static const char *const names[] = {".fill", ".load", "", ".scale", ".store"};
    buf_puts(b, "mma");
    buf_puts(b, names[s->op]);
    if (s->op == MMA_MUL) {
        buf_puts(b, s->flags & AST_F_A_COL ? ".col" : ".row");
        buf_puts(b, s->flags & AST_F_B_COL ? ".col" : ".row");
        if (s->flags & AST_F_SCALE) buf_puts(b, ".scale");
    }
    if (s->flags & AST_F_FRAG) buf_puts(b, ".frag");
    if (s->flags & AST_F_TRANSP) buf_puts(b, ".transp");
    if (s->flags & AST_F_MASK) buf_puts(b, ".mask");
    put_flags(s, b);
    if (s->type) buf_printf(b, ".%s", s->type->name);
    if (s->name) buf_printf(b, " future %s", s->name);
    if (s->target) put_init(s->target, s->flags & AST_F_DECLARES ? " new " : " into ", "", b);
    put_init(s->value, " from ", "", b);
    if (s->list.n) put_in(" with ", &s->list, "", b);
}

// " [[name(args)]]", or " : unroll(n)" for the suffix of a C loop.
static void put_attrs(const AstList *attrs, Buf *b)
{
    for (int i = 0; i < attrs->n; i++) {
        const AstNode *a = attrs->at[i];
        if (a->kind == AST_ATTR)
            buf_printf(b, " [[%s", a->name ? a->name : "<error>");
        else
            buf_printf(b, " : %s", a->name);
        if (a->kind == AST_ATTR || a->list.n) put_in("(", &a->list, ")", b);
        if (a->kind == AST_ATTR) buf_puts(b, "]]");
    }
}

// One line per level below the head: "by p = {x, y} in [a, b] : group-4"
static void put_parallel(const AstNode *s, int indent, Buf *b)
{
    buf_puts(b, s->flags & AST_F_ASYNC ? "parallel.async" : "parallel");
    if (s->name) buf_printf(b, "<%s>", s->name);
    put_attrs(&s->attrs, b);
    buf_putc(b, '\n');
    for (int i = 0; i < s->list.n; i++) {
        const AstNode *by = s->list.at[i];
        put_indent(indent + 1, b);
        buf_puts(b, "by ");
        if (by->name) buf_printf(b, "%s = ", by->name);
        put_in("{", &by->list, "}", b);
        put_in(" in [", &by->list2, "]", b);
        if (by->level) buf_printf(b, " : %s", ast_level_name(by->level));
        if (by->flags & AST_F_COOPERATIVE) buf_puts(b, "<cooperative>");
        buf_putc(b, '\n');
    }
    put_body(s->body, indent + 1, b);
}

// What a foreach or with runs over.
static void put_items(const AstList *items, Buf *b)
{
    for (int i = 0; i < items->n; i++) {
        const AstNode *x = items->at[i];
        buf_puts(b, i ? ", " : " ");
        if (x->kind == AST_WITHIN) {
            if (x->name) buf_printf(b, "%s = ", x->name);
            put_in(x->flags & AST_F_BRACED ? "{" : "", &x->list, x->flags & AST_F_BRACED ? "}" : "",
                   b);
            put_init(x->value, " in ", "", b);
        } else {
            if (x->target) put_init(x->target, "", " = ", b);
            put_name(x->name, b);
            for (int k = 0; k < x->list.n; k++) {
                buf_puts(b, k == 0 ? "(" : " : ");
                if (x->list.at[k]) ast_expr_text(x->list.at[k], b);
            }
            if (x->list.n) buf_putc(b, ')');
        }
    }
}

// "foreach {i, j} in [a, b] : unroll(2)", "with .. where a <-> b"
static void put_loop(const AstNode *s, int indent, Buf *b)
{
    buf_puts(b, s->kind == AST_FOREACH ? "foreach" : "with");
    put_items(&s->list, b);
    for (int i = 0; i < s->list2.n; i++) {
        const AstNode *x = s->list2.at[i];
        buf_puts(b, i == 0 ? (s->kind == AST_FOREACH ? " : " : " where ") : ", ");
        if (x->kind == AST_BINARY)
            ast_expr_text(x, b);
        else
            put_name(x->name, b);
        if (x->kind == AST_SUFFIX && x->list.n) put_in("(", &x->list, ")", b);
    }
    put_attrs(&s->attrs, b);
    buf_putc(b, '\n');
    put_body(s->body, indent + 1, b);
}

static void put_if(const AstNode *s, int indent, Buf *b)
{
    put_init(s->cond, "if ", "\n", b);
    put_body(s->body, indent + 1, b);
    if (!s->alt) return;
    put_indent(indent, b);
    buf_puts(b, "else\n");
    put_body(s->alt, indent + 1, b);
}

// Start and step statements stand deeper than the body, before and behind it.
static void put_for(const AstNode *s, int indent, Buf *b)
{
    buf_puts(b, "for");
    put_attrs(&s->attrs, b);
    put_init(s->cond, " while ", "", b);
    buf_putc(b, '\n');
    for (int i = 0; i < s->list.n; i++) put_stmt(s->list.at[i], indent + 2, b);
    put_body(s->body, indent + 1, b);
    for (int i = 0; i < s->list2.n; i++) put_stmt(s->list2.at[i], indent + 2, b);
}

static void put_sync(const AstNode *s, Buf *b)
{
    static const char *const names[] = {"sync.barrier", "sync.fence", "sync.shared"};
    buf_puts(b, names[s->op]);
    if (s->level) buf_printf(b, " : %s", ast_level_name(s->level));
    if (s->storage) buf_printf(b, "<%s>", ast_storage_name(s->storage));
}

// Operands and clobbers alike; a clobber has no value.
static void put_asm_operands(const char *head, const AstList *l, Buf *b)
{
    for (int i = 0; i < l->n; i++) {
        buf_puts(b, i ? ", " : head);
        put_string(l->at[i]->text, l->at[i]->text_n, b);
        put_init(l->at[i]->value, "(", ")", b);
    }
}

static void put_asm(const AstNode *s, Buf *b)
{
    buf_puts(b, s->flags & AST_F_VOLATILE ? "asm volatile " : "asm ");
    put_string(s->text ? s->text : "", s->text_n, b);
    put_asm_operands(" out ", &s->list, b);
    put_asm_operands(" in ", &s->list2, b);
    put_asm_operands(" clobbers ", &s->list3, b);
}

// Statements without a body: everything on one line.
static void put_simple(const AstNode *s, Buf *b)
{
    switch (s->kind) {
    case AST_SCALAR_DECL:
    case AST_BUFFER_DECL:
    case AST_FRAG_DECL:
    case AST_EVENT_DECL:
    case AST_SPAN_DECL:
    case AST_TUPLE_DECL: put_decl(s, b); break;
    case AST_ASSIGN:
        put_init(s->target, "assign ", "", b);
        buf_printf(b, " %s= ", s->op == AST_OP_ASSIGN ? "" : ast_op_text(s->op));
        ast_expr_text(s->value, b);
        break;
    case AST_EXPR: put_init(s->value, "do ", "", b); break;
    case AST_XFER:
        put_xfer(s, b);
        put_attrs(&s->attrs, b);
        break;
    case AST_MMA:
        put_mma(s, b);
        put_attrs(&s->attrs, b);
        break;
    case AST_REDUCE:
        put_in(s->op == AST_OP_MAX ? "reduce_max(" : "reduce_sum(", &s->list, ")", b);
        break;
    case AST_ALL_REDUCE: put_in("all_reduce_sum(", &s->list, ")", b); break;
    case AST_COPY: put_in("copy(", &s->list, ")", b); break;
    case AST_SWAP: put_in("swap(", &s->list, ")", b); break;
    case AST_ROTATE: put_in("rotate(", &s->list, ")", b); break;
    case AST_WAIT: put_in("wait ", &s->list, "", b); break;
    case AST_TRIGGER:
        put_in(s->flags & AST_F_CLUSTER ? "trigger.cluster " : "trigger ", &s->list, "", b);
        if (s->list2.n) put_in(" after ", &s->list2, "", b);
        break;
    case AST_SYNC: put_sync(s, b); break;
    case AST_RETURN:
        buf_puts(b, "return");
        put_init(s->value, " ", "", b);
        break;
    case AST_ASSERT:
        put_init(s->cond, "assert ", "", b);
        if (s->text) {
            buf_puts(b, ", ");
            put_string(s->text, s->text_n, b);
        }
        break;
    case AST_PRINT:
        buf_puts(b, s->flags & AST_F_NEWLINE ? "println" : "print");
        put_in(s->flags & AST_F_COMPILE_TIME ? "!(" : "(", &s->list, ")", b);
        break;
    case AST_ASM: put_asm(s, b); break;
    case AST_CPP:
        buf_puts(b, "__cpp__ ");
        put_string(s->text ? s->text : "", s->text_n, b);
        break;
    default: buf_puts(b, ast_kind_name[s->kind]); break;
    }
    buf_putc(b, '\n');
}

// Every kind of statement has a line of its own here or in put_simple, AST_ERROR too.
static void put_stmt(const AstNode *s, int indent, Buf *b)
{
    put_indent(indent, b);
    switch (s->kind) {
    case AST_BLOCK:
        buf_puts(b, "block\n");
        put_body(s, indent + 1, b);
        break;
    case AST_PARALLEL: put_parallel(s, indent, b); break;
    case AST_FOREACH:
    case AST_WITH: put_loop(s, indent, b); break;
    case AST_IF: put_if(s, indent, b); break;
    case AST_FOR: put_for(s, indent, b); break;
    case AST_WHILE:
        put_init(s->cond, "while ", "\n", b);
        put_body(s->body, indent + 1, b);
        break;
    case AST_INTHREADS:
        put_init(s->cond, s->flags & AST_F_ASYNC ? "inthreads.async " : "inthreads ", "\n", b);
        put_body(s->body, indent + 1, b);
        break;
    case AST_APPLY:
        put_in("apply {", &s->list, "}", b);
        put_init(s->value, " in ", ".span\n", b);
        put_body(s->body, indent + 1, b);
        break;
    default: put_simple(s, b); break;
    }
}

// ---- functions and the file ---------------------------------------------------------------------

// "  param global f32 [M, N] name"
static void put_param(const AstNode *x, Buf *b)
{
    buf_puts(b, "  param ");
    if (x->storage) buf_printf(b, "%s ", ast_storage_name(x->storage));
    if (x->flags & AST_F_CONST) buf_puts(b, "const ");
    put_type(x->type, b);
    if (x->flags & AST_F_REF) buf_puts(b, " &");
    if (x->flags & AST_F_POINTER) buf_puts(b, " *");
    if (x->name) buf_printf(b, " %s", x->name);
    put_counts(&x->list, b);
    buf_putc(b, '\n');
}

static void put_function(const AstNode *f, Buf *b)
{
    buf_puts(b, f->flags & AST_F_DEVICE ? "device function " : "tile function ");
    put_name(f->name, b);
    buf_puts(b, " -> ");
    put_type(f->type, b);
    buf_putc(b, '\n');
    for (int i = 0; i < f->list2.n; i++) {
        buf_puts(b, "  template");
        put_param(f->list2.at[i], b);
    }
    for (int i = 0; i < f->list.n; i++) put_param(f->list.at[i], b);
    put_body(f->body, 1, b);
}

// Host text is only counted: it is not the compiler's.
void ast_print(const AstFile *f, Buf *b)
{
    for (int i = 0; i < f->ncontract; i++)
        buf_printf(b, "contract %s: %s\n", f->contract[i].key, f->contract[i].value);
    for (int i = 0; i < f->nmacros; i++)
        buf_printf(b, "macro %s = %s\n", f->macros[i].name, f->macros[i].body);
    for (int i = 0; i < f->nparts; i++) {
        const AstPart *p = &f->parts[i];
        if (p->kind == PART_HOST)
            buf_printf(b, "host text, %zu bytes\n", p->text_n);
        else if (p->kind == PART_DEVICE_BLOCK)
            buf_printf(b, "device block, %zu bytes\n", p->text_n);
        else if (p->fn)
            put_function(p->fn, b);
        else
            buf_printf(b, "device text %s, %zu bytes, not read: %s (line %u)\n",
                       p->name ? p->name : "", p->text_n, p->why, p->why_loc.line);
    }
}
