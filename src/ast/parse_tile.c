// parse_tile.c - statements on whole tiles: transfers, mma, parallel and loops, fragments, events.
//
// Input: tokens, the current one being the statement's first word. Output: one node. Spellings that
// the language has removed are recognised here and answered with the spelling of today.
#include "parse.h"

#include <string.h>

// ---- removed spellings --------------------------------------------------------------------------

// Is the token k ahead this plain name?
static bool word_at(const Parser *p, int k, const char *word)
{
    return p_ahead(p, k)->kind == TOK_NAME && strcmp(p_ahead(p, k)->name, word) == 0;
}

// `wait<p>` and `stage<N>()` at the start of a statement.
bool p_removed(Parser *p)
{
    if (p_is(p, KW_WAIT) && p_ahead(p, 1)->kind == P_LT) {
        p_fail(p, "the order carries the phase: wait full.at(n)",
               "the spelling wait<p> was removed");
        return true;
    }
    return false;
}

// `stage<N>()` where an event is expected.
// Old kernels are full of these; "syntax error" would send their authors to the grammar.
static bool removed_stage(Parser *p)
{
    if (!word_at(p, 0, "stage") || p_ahead(p, 1)->kind != P_LT) return false;
    p_fail(p, "count the order in a mutable u32 and write trigger full.at(n++)",
           "the spelling stage<N>() was removed");
    return true;
}

// ---- modifiers ----------------------------------------------------------------------------------

// Value of a constant integer expression. Macros are gone by now, so that `D * 2` is `64 * 2`.
static bool constant(const AstNode *e, i64 *v)
{
    i64 a, b;
    if (e->kind == AST_INT && e->ivalue <= INT32_MAX) {
        *v = (i64)e->ivalue;
        return true;
    }
    if (e->kind != AST_BINARY || !constant(e->list.at[0], &a) || !constant(e->list.at[1], &b))
        return false;
    if (e->op == AST_OP_ADD)
        *v = a + b;
    else if (e->op == AST_OP_SUB)
        *v = a - b;
    else if (e->op == AST_OP_MUL)
        *v = a * b;
    else if (e->op == AST_OP_DIV && b > 0)
        *v = a / b;
    else
        return false;
    return *v >= INT32_MIN && *v <= INT32_MAX; // so that nothing above overflows
}

// '<' constant '>': the number, or 0 on an error
static int angle_int(Parser *p, const char *what)
{
    i64 v = 0;
    if (!p_expect(p, P_LT, arena_printf(p->arena, "'<' behind .%s", what))) return 0;
    AstNode *e = p_expr_in_angles(p);
    if (!p->panic && !constant(e, &v))
        p_fail_at(p, e->loc, "a macro may name it", "expected a constant number for .%s", what);
    p_expect(p, P_GT, "'>'");
    return (int)v;
}

// '.swiz' '<' (32 | 64 | 128) '>'
// The widths in bytes that the copy unit and the matrix unit have in common.
int p_swizzle(Parser *p)
{
    Loc loc = p_loc(p);
    p_next(p);
    int bytes = angle_int(p, "swiz");
    if (!p->panic && bytes != 32 && bytes != 64 && bytes != 128)
        p_complain(p, loc, "it is 32, 64 or 128 bytes", "no swizzle of %d bytes exists", bytes);
    return bytes;
}

static void swizzle(Parser *p, AstNode *s)
{
    s->flags |= AST_F_SWIZ;
    s->swizzle = p_swizzle(p);
}

// Both spellings are current; `.swizzle` is the long one.
bool p_is_swizzle(const Parser *p)
{
    return p_is_method(p, "swiz") || p_is_method(p, "swizzle");
}

enum {
    MOD_ASYNC,
    MOD_EVICT,
    MOD_SWIZ,
    MOD_ZFILL,
    MOD_MULTICAST,
    MOD_PROMOTE,
    MOD_SPARSE,
    MOD_NONE
};
static const char *const mod_names[] = {"async",     "evict_..", "swiz", "zfill",
                                        "multicast", "promote",  "sp"};

// The order of the MOD_* constants is the order in which the language wants them.
static int modifier_here(const Parser *p)
{
    if (p_is_method(p, "async")) return MOD_ASYNC;
    if (p_is_method(p, "evict_first") || p_is_method(p, "evict_last")) return MOD_EVICT;
    if (p_is_swizzle(p)) return MOD_SWIZ;
    if (p_is_method(p, "zfill")) return MOD_ZFILL;
    if (p_is_method(p, "multicast")) return MOD_MULTICAST;
    if (p_is_method(p, "promote")) return MOD_PROMOTE;
    if (p_is_method(p, "sp")) return MOD_SPARSE;
    return MOD_NONE;
}

// '.sp' ['<' INT ':' INT '>']: only 2:4 exists
// Two of four values kept: the one pattern of the tensor cores.
static void sparse(Parser *p, AstNode *s)
{
    s->flags |= AST_F_SPARSE;
    if (!p_accept(p, P_LT)) return;
    bool two = p_is(p, TOK_INT) && p_tok(p)->ival == 2;
    p_next(p);
    p_expect(p, P_COLON, "':' of .sp<2:4>");
    bool four = p_is(p, TOK_INT) && p_tok(p)->ival == 4;
    if (!two || !four) p_fail(p, NULL, "the only sparsity is .sp<2:4>");
    p_next(p);
    p_expect(p, P_GT, "'>'");
}

// Takes the modifier at the current token into the node.
static void modifier(Parser *p, AstNode *s, int mod)
{
    bool last = p_is_method(p, "evict_last");
    if (mod == MOD_SWIZ) {
        swizzle(p, s);
        return;
    }
    p_next(p);
    switch (mod) {
    case MOD_ASYNC: s->flags |= AST_F_ASYNC; break;
    case MOD_EVICT: s->evict = last ? EVICT_LAST : EVICT_FIRST; break;
    case MOD_ZFILL: s->flags |= AST_F_ZFILL; break;
    case MOD_MULTICAST: s->flags |= AST_F_MULTICAST; break;
    // How many bytes the L2 cache fetches at least: a field of the tensor map.
    case MOD_PROMOTE: {
        s->promote = angle_int(p, "promote");
        bool ok = s->promote == 64 || s->promote == 128 || s->promote == 256;
        if (!p->panic && !ok)
            p_complain(p, s->loc, "it is 64, 128 or 256 bytes",
                       "no L2 promotion of %d bytes exists", s->promote);
        break;
    }
    default: sparse(p, s); break;
    }
}

// mod* : '.async' ['.evict_first' | '.evict_last'] ['.swiz<B>'] ['.zfill'] ['.multicast']
// ['.promote<B>'] ['.sp']
// The fixed order makes one spelling of each transfer, and one place where each word is looked
// for.
static void modifiers(Parser *p, AstNode *s)
{
    int before = -1;
    for (int mod; !p->panic && p_is(p, TOK_METHOD); before = MAX(before, mod)) {
        mod = modifier_here(p);
        if (mod == MOD_NONE) {
            p_fail(p,
                   "they are, in this order: .async .evict_first .swiz<128> .zfill .multicast "
                   ".promote<128> .sp",
                   "unknown modifier '.%s' of a transfer", p_tok(p)->name);
            return;
        }
        if (mod == before) {
            p_fail(p, NULL, "modifier '.%s' stands here twice", p_tok(p)->name);
        } else if (mod < before) {
            p_fail(
                p,
                "the order is .async .evict_first .swiz<128> .zfill .multicast .promote<128> .sp",
                "modifier '.%s' must stand before '.%s'", p_tok(p)->name, mod_names[before]);
        } else {
            modifier(p, s, mod);
        }
        // tma.copy.async<event>: the event inside the transfer
        if (!p->panic && mod == MOD_ASYNC && p_is(p, P_LT))
            p_fail(p, "write load = tma.load.async src => dst; trigger event after load;",
                   "the spelling .async<event> was removed");
    }
}

// ---- transfers ----------------------------------------------------------------------------------

// The word behind dma or tma, not yet consumed.
// op : '.copy' | '.pad' | '.transp' | '.any'  behind dma;  '.copy' | '.load' | '.any'  behind tma
static int xfer_op(Parser *p, bool tma)
{
    const Token *t = p_tok(p);
    const char *w = t->kind == TOK_METHOD ? t->name : "";
    if (strcmp(w, "copy") == 0) return tma ? XFER_TMA_COPY : XFER_DMA_COPY;
    if (strcmp(w, "load") == 0 && tma) return XFER_TMA_LOAD;
    if (strcmp(w, "pad") == 0 && !tma) return XFER_DMA_PAD;
    if (strcmp(w, "transp") == 0 && !tma) return XFER_DMA_TRANSP;
    if (strcmp(w, "any") == 0) return XFER_ANY;
    if (strcmp(w, "store") == 0 && tma)
        p_fail(p, "write tma.copy src => dst, which goes in both directions",
               "the spelling tma.store was removed");
    else
        p_fail(p,
               tma ? "they are tma.copy, tma.load and tma.any"
                   : "they are dma.copy, dma.pad, dma.transp and dma.any",
               "unknown transfer, found %s behind '%s'", p_found(p), tma ? "tma" : "dma");
    return XFER_ANY;
}

// '{' expr,* '}'
// One number per dimension.
static AstList brace_list(Parser *p)
{
    NodeVec v = {0};
    if (p_expect(p, P_LBRACE, "'{'")) p_exprs(p, &v, P_RBRACE);
    return p_list(&v);
}

// pad : '<' '{'hi'}' ',' '{'lo'}' ',' '{'mid'}' [',' expr] '>'        transp : '<' INT,+ '>'
static void xfer_config(Parser *p, AstNode *s)
{
    NodeVec v = {0};
    if (s->op != XFER_DMA_PAD && s->op != XFER_DMA_TRANSP) return;
    if (!p_expect(p, P_LT, "'<' and the configuration of the transfer")) return;
    if (s->op == XFER_DMA_PAD) {
        s->list = brace_list(p);
        p_expect(p, P_COMMA, "','");
        s->list2 = brace_list(p);
        p_expect(p, P_COMMA, "','");
        s->list4 = brace_list(p);
        if (!p->panic && p_accept(p, P_COMMA)) s->cond = p_expr_in_angles(p);
    } else {
        do vec_push(p->arena, &v, p_expr_in_angles(p));
        while (!p->panic && p_accept(p, P_COMMA));
        s->list = p_list(&v);
    }
    p_expect(p, P_GT, "'>'");
}

// The destination: a storage word, or a view
static void xfer_target(Parser *p, AstNode *s)
{
    if (p_accept(p, KW_SHARED))
        s->storage = STOR_SHARED;
    else if (p_accept(p, KW_LOCAL))
        s->storage = STOR_LOCAL;
    else if (p_accept(p, KW_GLOBAL))
        s->storage = STOR_GLOBAL;
    else
        s->target = p_expr(p);
}

// xfer : [ID '='] ('dma' | 'tma') op cfg? mod* view '=>' (view | stor) ['after' ID,+]  |  ID '='
// ('dma' | 'tma') '.any'
// dma copies by the executing threads, tma by the copy unit on behalf of one of them.
AstNode *p_xfer(Parser *p, AstNode *result)
{
    AstNode *s = p_node(p, AST_XFER, result ? result->loc : p_loc(p));
    NodeVec after = {0};
    bool tma = p_is(p, KW_TMA);
    if (result && result->kind != AST_NAME)
        p_fail_at(p, result->loc, "write name = tma.load.async ...",
                  "a transfer is named by a plain name");
    if (result) s->name = result->name;
    if (tma) s->flags |= AST_F_TMA;
    p_next(p);
    s->op = (u8)xfer_op(p, tma);
    if (p->panic) return s;
    p_next(p);
    if (s->op == XFER_ANY) {
        if (!result)
            p_fail_at(p, s->loc, "write f = dma.any", "a placeholder transfer needs a name");
        return s;
    }
    xfer_config(p, s);
    modifiers(p, s);
    if (!p->panic) s->value = p_expr(p);
    p_expect(p, P_ARROW, "'=>' and the destination behind the source");
    if (!p->panic) xfer_target(p, s);
    if (!p->panic && p_accept(p, KW_AFTER)) {
        p_names(p, &after, "what the transfer comes after");
        s->list3 = p_list(&after);
    }
    return s;
}

// ---- mma ----------------------------------------------------------------------------------------

// e, if it names a fragment.
static AstNode *whole_fragment(Parser *p, AstNode *e, const char *what)
{
    const AstNode *named = e;
    while (named->kind == AST_INDEX) named = named->value;
    bool ok = named->kind == AST_NAME || e->kind == AST_ERROR;
    if (!p->panic && !ok)
        p_fail_at(p, e->loc, "fragments are named whole, or as x[i] in an array of them",
                  "expected the %s, a fragment", what);
    return e;
}

// ID | ID '[' expr ']'
// Views are no fragments: data has to be loaded into registers first.
static AstNode *accumulator(Parser *p, const char *what)
{
    if (p->panic) return p_error_node(p);
    return whole_fragment(p, p_postfix(p), what);
}

// ['.' T]
// The type of the accumulator; without it the resolver infers it from the use.
static void element_suffix(Parser *p, AstNode *s)
{
    if (p->panic || !p_is(p, TOK_METHOD)) return;
    s->type = p_node(p, AST_TYPE, p_loc(p));
    s->type->name = p_tok(p)->name;
    s->type->dtype = dtype_by_name(s->type->name);
    if (s->type->dtype < 0)
        p_fail(p, "the form is mma.fill.f32 0.0f", "'.%s' is no element type", s->type->name);
    p_next(p);
}

// fill : [acc '='] 'mma' '.fill' ['.' T] expr | 'mma' '.fill' ['.' T] acc ',' expr
// The form with a result declares the accumulator.
static void mma_fill(Parser *p, AstNode *s, AstNode *result)
{
    s->op = MMA_FILL;
    element_suffix(p, s);
    s->target = result;
    if (result) {
        s->flags |= AST_F_DECLARES;
    } else {
        s->target = accumulator(p, "accumulator to fill");
        p_expect(p, P_COMMA, "',' and the value");
    }
    if (!p->panic) s->value = p_expr(p);
}

// load : [a '='] 'mma' '.load' ['.swiz<B>'] ['.frag'] view | 'mma' '.load' ... view ',' frag
static void mma_load(Parser *p, AstNode *s, AstNode *result)
{
    s->op = MMA_LOAD;
    for (; !p->panic && p_is(p, TOK_METHOD);) {
        if (p_is_swizzle(p))
            swizzle(p, s);
        else if (p_accept_method(p, "frag"))
            s->flags |= AST_F_FRAG;
        else
            p_fail(p, "they are .swiz<128> and .frag", "unknown modifier '.%s' of mma.load",
                   p_tok(p)->name);
    }
    if (!p->panic) s->value = p_expr(p);
    s->target = result;
    if (result) {
        s->flags |= AST_F_DECLARES;
        return;
    }
    p_expect(p, P_COMMA, "',' and the fragment, or `a = ` in front of mma.load");
    s->target = accumulator(p, "destination of mma.load");
}

// store : 'mma' '.store' ['.async'] ['.transp'] ['.mask'] part ',' view [',' rows [',' cols]]
// part  : acc ['.subspan' ...]
// The mask keeps rows below the first number and columns below the second.
static void mma_store(Parser *p, AstNode *s, AstNode *result)
{
    NodeVec v = {0};
    s->op = MMA_STORE;
    if (result)
        p_fail_at(p, s->loc, "write mma.store acc, dst", "mma.store gives no value to assign");
    for (; !p->panic && p_is(p, TOK_METHOD);) {
        if (p_accept_method(p, "async"))
            s->flags |= AST_F_ASYNC;
        else if (p_accept_method(p, "transp"))
            s->flags |= AST_F_TRANSP;
        else if (p_accept_method(p, "mask"))
            s->flags |= AST_F_MASK;
        else
            p_fail(p, "they are .async, .transp and .mask", "unknown modifier '.%s' of mma.store",
                   p_tok(p)->name);
    }
    if (!p->panic) s->value = p_postfix(p);
    bool part = !p->panic && s->value->kind == AST_VIEW && s->value->op == VIEW_SUBSPAN;
    if (!p->panic) whole_fragment(p, part ? s->value->value : s->value, "accumulator to store");
    p_expect(p, P_COMMA, "',' and the destination");
    if (!p->panic) s->target = p_expr(p);
    while (!p->panic && p_accept(p, P_COMMA)) vec_push(p->arena, &v, p_expr(p));
    s->list = p_list(&v);
    bool mask = s->flags & AST_F_MASK;
    if (!p->panic && (mask ? v.n < 1 || v.n > 2 : v.n > 0))
        p_complain(p, s->loc, "the form is mma.store.mask acc, dst, rows[, columns]",
                   mask ? "mma.store.mask needs the number of rows, and maybe of columns"
                        : "mma.store takes an accumulator and a destination");
}

// mul : [f '='] 'mma' '.row|.col' '.row|.col' mod* acc ',' a ',' b [',' expr ',' expr | ',' meta]
// The two words are the layouts of a and b: row.row is A[M, K] times B[N, K].
static void mma_mul(Parser *p, AstNode *s, AstNode *result)
{
    NodeVec v = {0};
    s->op = MMA_MUL;
    for (int k = 0; k < 2 && !p->panic; k++) {
        if (p_accept_method(p, "col"))
            s->flags |= k == 0 ? AST_F_A_COL : AST_F_B_COL;
        else if (!p_accept_method(p, "row"))
            p_fail(p, "the form is mma.row.col acc, a, b",
                   "expected .row or .col, the layout of b, found %s", p_found(p));
    }
    for (; !p->panic && p_is(p, TOK_METHOD);) {
        if (p_accept_method(p, "async"))
            s->flags |= AST_F_ASYNC;
        else if (p_accept_method(p, "scale"))
            s->flags |= AST_F_SCALE;
        else if (p_accept_method(p, "sp"))
            s->flags |= AST_F_SPARSE;
        else
            p_fail(p, "they are .async, .scale and .sp", "unknown modifier '.%s' of mma",
                   p_tok(p)->name);
    }
    s->target = accumulator(p, "accumulator");
    while (!p->panic && p_accept(p, P_COMMA)) vec_push(p->arena, &v, p_expr(p));
    s->list = p_list(&v);
    // a, b, and their scales or the metadata that tells which values were kept.
    int want = s->flags & AST_F_SCALE ? 4 : s->flags & AST_F_SPARSE ? 3 : 2;
    if (!p->panic && v.n != want)
        p_complain(p, s->loc, want == 2 ? "the form is mma.row.row acc, a, b" : NULL,
                   "mma needs %d operands behind the accumulator, found %d", want, v.n);
    // A name is what `wait` needs; an operation that nobody can wait for is useless, a name for
    // one that is over already misleads.
    bool async = s->flags & AST_F_ASYNC;
    if (!p->panic && async && (!result || result->kind != AST_NAME))
        p_complain(p, s->loc, "write op = mma.row.row.async acc, a, b; and later wait op;",
                   "an async mma needs a name");
    if (!p->panic && !async && result)
        p_complain(p, s->loc, "write mma.row.row.async to name the operation, or drop the name",
                   "a synchronous mma gives no value to assign");
    if (result) s->name = result->name;
}

// scale : 'mma' '.scale' acc ',' a ',' b
static void mma_scale(Parser *p, AstNode *s)
{
    NodeVec v = {0};
    s->op = MMA_SCALE;
    s->target = accumulator(p, "accumulator to scale");
    while (!p->panic && p_accept(p, P_COMMA)) vec_push(p->arena, &v, p_expr(p));
    s->list = p_list(&v);
    if (!p->panic && v.n != 2)
        p_complain(p, s->loc, NULL, "mma.scale needs two scales behind the accumulator, found %d",
                   v.n);
}

// mma.wait<N>, mma.commit and mma.desc were instructions of the machine; operations with names
// replace them.
static void removed_mma(Parser *p)
{
    static const char *const old[][2] = {
        {"wait", "name the operation: op = mma.row.row.async acc, a, b; and wait op;"},
        {"commit",
         "groups follow from the operations: op = mma.row.row.async acc, a, b; and wait op;"},
        {"desc", "write the shared view as the operand: mma.row.row acc, a, b"},
    };
    for (int i = 0; i < COUNT(old); i++) {
        if (p_is_method(p, old[i][0]))
            p_fail(p, old[i][1], "the spelling mma.%s was removed", old[i][0]);
    }
}

// mma : [result '='] 'mma' (fill | load | store | scale | mul)
// `result` is what stood before '=', or NULL.
AstNode *p_mma(Parser *p, AstNode *result)
{
    AstNode *s = p_node(p, AST_MMA, result ? result->loc : p_loc(p));
    p_next(p);
    removed_mma(p);
    if (p->panic) return s;
    if (p_accept_method(p, "fill"))
        mma_fill(p, s, result);
    else if (p_accept_method(p, "load"))
        mma_load(p, s, result);
    else if (p_accept_method(p, "store"))
        mma_store(p, s, result);
    else if (p_accept_method(p, "scale"))
        mma_scale(p, s);
    else if (p_is_method(p, "row") || p_is_method(p, "col"))
        mma_mul(p, s, result);
    else
        p_fail(p, "they are .fill .load .store .scale .row.row .row.col .col.row .col.col",
               "unknown mma, found %s behind 'mma'", p_found(p));
    return s;
}

// ---- parallel, loops ----------------------------------------------------------------------------

// level : 'cluster' | 'block' | 'group-4' | 'group' | 'thread'  (and 'device' for sync)
// Outer to inner: cluster, block, warpgroup (128 threads), warp, thread.
static int level(Parser *p, bool device)
{
    static const u8 levels[][2] = {{KW_CLUSTER, AST_LEVEL_CLUSTER}, {KW_BLOCK, AST_LEVEL_BLOCK},
                                   {KW_GROUP4, AST_LEVEL_GROUP4},   {KW_GROUP, AST_LEVEL_GROUP},
                                   {KW_THREAD, AST_LEVEL_THREAD},   {KW_DEVICE, AST_LEVEL_DEVICE}};
    for (int i = 0; i < COUNT(levels); i++) {
        if (!p_is(p, levels[i][0]) || (levels[i][1] == AST_LEVEL_DEVICE && !device)) continue;
        p_next(p);
        return levels[i][1];
    }
    p_fail(p, "they are cluster, block, group-4, group and thread", "expected a level, found %s",
           p_found(p));
    return AST_LEVEL_NONE;
}

// '{' ID,+ '}'
static void braced_names(Parser *p, NodeVec *out, const char *what)
{
    if (!p_expect(p, P_LBRACE, "'{'")) return;
    p_names(p, out, what);
    p_expect(p, P_RBRACE, "',' or '}'");
}

// pby : [ID | [ID '='] '{' ID,+ '}'] 'by' (expr | '[' expr,+ ']') [':' level ['<' 'cooperative'
// '>']]
// Bounds in brackets come one per variable; without variables the bounds alone give the threads.
static AstNode *parby(Parser *p)
{
    AstNode *b = p_node(p, AST_PARBY, p_loc(p));
    NodeVec names = {0};
    if (p_is(p, TOK_NAME) && p_ahead(p, 1)->kind == P_ASSIGN) {
        b->name = p_name(p, "a name");
        p_next(p);
        braced_names(p, &names, "an index variable");
    } else if (p_is(p, P_LBRACE)) {
        braced_names(p, &names, "an index variable");
    } else if (!p_is(p, KW_BY)) {
        vec_push(p->arena, &names, p_name_node(p, "an index variable or 'by'"));
    }
    b->list = p_list(&names);
    p_expect(p, KW_BY, "'by' and the bounds");
    if (p->panic) return b;
    AstNode *bound = p_expr(p);
    // `by ([a, b])` is one bound of a wrong type, which the resolver names.
    bool span = bound->kind == AST_SPAN && !(bound->flags & AST_F_PAREN);
    NodeVec one = {0};
    if (!span) vec_push(p->arena, &one, bound);
    b->list2 = span ? bound->list : p_list(&one);
    if (!p->panic && names.n && names.n != b->list2.n)
        p_complain(p, b->loc, "each index variable has its bound",
                   "%d index variable%s but %d bound%s", names.n, names.n == 1 ? "" : "s",
                   b->list2.n, b->list2.n == 1 ? "" : "s");
    if (p->panic || !p_accept(p, P_COLON)) return b;
    b->level = (u8)level(p, false);
    if (!p->panic && p_accept(p, P_LT)) {
        p_expect(p, KW_COOPERATIVE, "'cooperative'");
        p_expect(p, P_GT, "'>'");
        b->flags |= AST_F_COOPERATIVE;
    }
    return b;
}

// par : attr* 'parallel' ['.async'] ['<' ID '>'] pby,+ body
// Attributes were read before the word and are added by the caller.
AstNode *p_parallel(Parser *p)
{
    AstNode *s = p_node(p, AST_PARALLEL, p_loc(p));
    NodeVec v = {0};
    p_next(p);
    if (p_accept_method(p, "async"))
        s->flags |= AST_F_ASYNC;
    else if (p_is(p, TOK_METHOD))
        p_fail(p, "the only one is .async", "unknown modifier '.%s' of parallel", p_tok(p)->name);
    if (!p->panic && p_accept(p, P_LT)) {
        s->name = p_name(p, "the stream");
        p_expect(p, P_GT, "'>'");
    }
    if (!p->panic) {
        do vec_push(p->arena, &v, parby(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    s->list = p_list(&v);
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// within : [ID '='] '{' ID,+ '}' 'in' expr | ID 'in' expr
static AstNode *within(Parser *p)
{
    AstNode *w = p_node(p, AST_WITHIN, p_loc(p));
    NodeVec names = {0};
    if (p_is(p, TOK_NAME) && p_ahead(p, 1)->kind == P_ASSIGN) {
        w->name = p_name(p, "a name");
        p_next(p);
    }
    if (p_is(p, P_LBRACE)) {
        w->flags |= AST_F_BRACED;
        braced_names(p, &names, "an index variable");
    } else {
        vec_push(p->arena, &names, p_name_node(p, "an index variable"));
    }
    w->list = p_list(&names);
    p_expect(p, KW_IN, "'in' and the bounds");
    w->value = p->panic ? p_error_node(p) : p_expr(p);
    bool plain = w->value->kind == AST_SPAN && !(w->value->flags & AST_F_PAREN);
    if (!p->panic && plain && names.n != w->value->list.n)
        p_complain(p, w->loc, "each index variable has its bound",
                   "%d index variable%s but %d bound%s", names.n, names.n == 1 ? "" : "s",
                   w->value->list.n, w->value->list.n == 1 ? "" : "s");
    return w;
}

// range : [ID '='] ID ['(' [expr] ':' [expr] [':' expr] ')']
// lo and hi are offsets to the variable's bounds; what is not written stays NULL.
static AstNode *range(Parser *p)
{
    AstNode *r = p_node(p, AST_RANGE, p_loc(p));
    if (p_ahead(p, 1)->kind == P_ASSIGN) {
        r->target = p_name_node(p, "a name");
        p_next(p);
    }
    r->name = p_name(p, "a bounded variable");
    if (p->panic || !p_accept(p, P_LPAREN)) return r;
    AstNode *part[3] = {NULL, NULL, NULL};
    int k = 0;
    for (bool more = true; more && k < 3 && !p->panic; k++) {
        if (!p_is(p, P_COLON) && !p_is(p, P_RPAREN)) part[k] = p_expr(p);
        more = !p->panic && p_accept(p, P_COLON);
    }
    if (!p->panic && k < 2)
        p_fail(p, "the form is i(lo : hi : step)", "expected ':' in the range, found %s",
               p_found(p));
    p_expect(p, P_RPAREN, "')' behind the range");
    NodeVec v = {0};
    for (int i = 0; i < 3; i++) vec_push(p->arena, &v, part[i]);
    r->list = p_list(&v);
    return r;
}

// suffix : 'unroll' ['(' expr ')'] | 'vectorize' '(' expr,+ ')'
static AstNode *suffix(Parser *p)
{
    AstNode *x = p_node(p, AST_SUFFIX, p_loc(p));
    NodeVec v = {0};
    if (!p_is(p, KW_UNROLL) && !p_is(p, KW_VECTORIZE)) {
        p_fail(p, NULL, "expected 'unroll' or 'vectorize', found %s", p_found(p));
        return x;
    }
    x->name = p_tok(p)->name;
    p_next(p);
    if (p_accept(p, P_LPAREN)) p_exprs(p, &v, P_RPAREN);
    x->list = p_list(&v);
    if (!p->panic && p_tok(p)->kind != P_COMMA && strcmp(x->name, "unroll") == 0 && v.n > 1)
        p_complain(p, x->loc, NULL, "unroll takes one factor, found %d", v.n);
    return x;
}

// each : 'foreach' (within | range),+ [':' suffix,+] body
// `within` and `range` both begin with a name; the word behind it tells them apart.
AstNode *p_foreach(Parser *p)
{
    AstNode *s = p_node(p, AST_FOREACH, p_loc(p));
    NodeVec items = {0}, suffixes = {0};
    p_next(p);
    do {
        int k = p_ahead(p, 1)->kind == P_ASSIGN ? 2 : 0; // behind `x =`
        bool in = p_ahead(p, k)->kind == P_LBRACE || p_ahead(p, k + 1)->kind == KW_IN;
        vec_push(p->arena, &items, in ? within(p) : range(p));
    } while (!p->panic && p_accept(p, P_COMMA));
    if (!p->panic && p_accept(p, P_COLON)) {
        do vec_push(p->arena, &suffixes, suffix(p));
        while (!p->panic && p_accept(p, P_COMMA));
    }
    s->list = p_list(&items);
    s->list2 = p_list(&suffixes);
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// with : 'with' within,+ ['where' ID '<->' ID,+] body
// Binds are kept as binary nodes, though nothing is computed.
AstNode *p_with(Parser *p)
{
    AstNode *s = p_node(p, AST_WITH, p_loc(p));
    NodeVec items = {0}, binds = {0};
    p_next(p);
    do vec_push(p->arena, &items, within(p));
    while (!p->panic && p_accept(p, P_COMMA));
    if (!p->panic && p_accept(p, KW_WHERE)) {
        do {
            AstNode *b = p_node(p, AST_BINARY, p_loc(p));
            NodeVec two = {0};
            b->op = AST_OP_BIND;
            vec_push(p->arena, &two, p_name_node(p, "an index variable"));
            p_expect(p, P_BIND, "'<->'");
            vec_push(p->arena, &two, p_name_node(p, "an index variable"));
            b->list = p_list(&two);
            vec_push(p->arena, &binds, b);
        } while (!p->panic && p_accept(p, P_COMMA));
    }
    s->list = p_list(&items);
    s->list2 = p_list(&binds);
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// 'inthreads' ['.async'] '(' expr ')' body
// Which threads satisfy the predicate is worked out when names are known; without .async a barrier
// of the block ends it.
AstNode *p_inthreads(Parser *p)
{
    AstNode *s = p_node(p, AST_INTHREADS, p_loc(p));
    p_next(p);
    if (p_accept_method(p, "async"))
        s->flags |= AST_F_ASYNC;
    else if (p_is(p, TOK_METHOD))
        p_fail(p, "the only one is .async", "unknown modifier '.%s' of inthreads", p_tok(p)->name);
    p_expect(p, P_LPAREN, "'(' and the predicate behind 'inthreads'");
    s->cond = p->panic ? p_error_node(p) : p_expr(p);
    p_expect(p, P_RPAREN, "')' behind the predicate");
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// ---- fragments ----------------------------------------------------------------------------------

// apply : 'apply' '{' ID,+ '}' 'in' ID '.span' body
// The names are the logical coordinates of the elements that a thread owns.
AstNode *p_apply(Parser *p)
{
    AstNode *s = p_node(p, AST_APPLY, p_loc(p));
    NodeVec names = {0};
    p_next(p);
    braced_names(p, &names, "a coordinate");
    s->list = p_list(&names);
    p_expect(p, KW_IN, "'in' and the fragment's span");
    AstNode *e = p->panic ? p_error_node(p) : p_postfix(p);
    bool span = e->kind == AST_MEMBER && strcmp(e->name, "span") == 0;
    if (!p->panic && !span)
        p_fail_at(p, e->loc, "the form is apply {i, j} in acc.span",
                  "apply runs over the span of a fragment");
    s->value = span ? e->value : e;
    const AstNode *named = s->value;
    while (named->kind == AST_INDEX) named = named->value;
    if (!p->panic && named->kind != AST_NAME)
        p_fail_at(p, s->value->loc, NULL, "apply needs the name of a fragment before .span");
    p_header_done(p);
    s->body = p_body(p);
    return s;
}

// Calls with reserved words for names: how many arguments each takes, and its form for messages.
static const struct {
    u8 tok, kind, op;
    int least, most;
    const char *form;
} frag_ops[] = {
    {KW_REDUCE_MAX, AST_REDUCE, AST_OP_MAX, 3, 3, "reduce_max(dst, src, dimension)"},
    {KW_REDUCE_SUM, AST_REDUCE, AST_OP_ADD, 3, 3, "reduce_sum(dst, src, dimension)"},
    {KW_ALL_REDUCE_SUM, AST_ALL_REDUCE, AST_OP_ADD, 1, 1, "all_reduce_sum(fragment)"},
    {KW_COPY, AST_COPY, AST_OP_NONE, 2, 2, "copy(dst, src)"},
    {KW_SWAP, AST_SWAP, AST_OP_NONE, 2, 2, "swap(f, g)"},
    {KW_ROTATE, AST_ROTATE, AST_OP_NONE, 2, 64, "rotate(f, g, h)"},
};

// ('reduce_max' | 'reduce_sum' | 'all_reduce_sum' | 'copy' | 'swap' | 'rotate') '(' expr,+ ')'
// Each is one statement on whole fragments or futures, so arguments are few and fixed.
AstNode *p_fragment_op(Parser *p)
{
    int k = 0;
    while (!p_is(p, frag_ops[k].tok)) k++;
    AstNode *s = p_node(p, (AstKind)frag_ops[k].kind, p_loc(p));
    NodeVec v = {0};
    const char *word = p_tok(p)->name;
    s->op = frag_ops[k].op;
    p_next(p);
    if (p_expect(p, P_LPAREN, arena_printf(p->arena, "'(' behind '%s'", word)))
        p_exprs(p, &v, P_RPAREN);
    s->list = p_list(&v);
    if (!p->panic && (v.n < frag_ops[k].least || v.n > frag_ops[k].most))
        p_complain(p, s->loc, arena_printf(p->arena, "the form is %s", frag_ops[k].form),
                   "%s takes %d argument%s, found %d", word, frag_ops[k].least,
                   frag_ops[k].least == 1 ? "" : "s", v.n);
    return s;
}

// ---- events, synchronisation --------------------------------------------------------------------

// ref,+
static void refs(Parser *p, NodeVec *out, const char *what)
{
    do {
        if (removed_stage(p)) return;
        vec_push(p->arena, out, p_ref(p, what));
    } while (!p->panic && p_accept(p, P_COMMA));
}

// 'wait' ref,+
// Events and futures look alike here.
AstNode *p_wait(Parser *p)
{
    AstNode *s = p_node(p, AST_WAIT, p_loc(p));
    NodeVec v = {0};
    p_next(p);
    refs(p, &v, "an event or a future to wait for");
    s->list = p_list(&v);
    return s;
}

// 'trigger' ['.cluster'] ref,+ ['after' ref,+]
// Without `after` the executing threads arrive; with it the named loads complete the event.
AstNode *p_trigger(Parser *p)
{
    AstNode *s = p_node(p, AST_TRIGGER, p_loc(p));
    NodeVec v = {0}, after = {0};
    p_next(p);
    if (p_accept_method(p, "cluster"))
        s->flags |= AST_F_CLUSTER;
    else if (p_is(p, TOK_METHOD))
        p_fail(p, "the only one is .cluster", "unknown modifier '.%s' of trigger", p_tok(p)->name);
    if (!p->panic) refs(p, &v, "an event to trigger");
    if (!p->panic && p_accept(p, KW_AFTER)) refs(p, &after, "a future behind 'after'");
    s->list = p_list(&v);
    s->list2 = p_list(&after);
    return s;
}

// 'sync' ('.barrier' ':' level | '.fence' ':' level ['<' stor '>'] | '.shared')
// A barrier waits for threads, a fence orders memory; `sync.shared` is the old word for a barrier.
AstNode *p_sync_stmt(Parser *p)
{
    AstNode *s = p_node(p, AST_SYNC, p_loc(p));
    p_next(p);
    if (p_accept_method(p, "shared")) {
        s->op = SYNC_SHARED;
        return s;
    }
    if (p_accept_method(p, "fence"))
        s->op = SYNC_FENCE;
    else if (p_accept_method(p, "barrier"))
        s->op = SYNC_BARRIER;
    else
        p_fail(p, "they are sync.barrier : block and sync.fence : block", "unknown sync, found %s",
               p_found(p));
    p_expect(p, P_COLON, "':' and the level");
    if (!p->panic) s->level = (u8)level(p, true);
    if (!p->panic && s->op == SYNC_FENCE && p_accept(p, P_LT)) {
        if (p_accept(p, KW_SHARED))
            s->storage = STOR_SHARED;
        else if (p_accept(p, KW_GLOBAL))
            s->storage = STOR_GLOBAL;
        else
            p_fail(p, NULL, "expected shared or global, found %s", p_found(p));
        p_expect(p, P_GT, "'>'");
    }
    return s;
}

// ---- attributes ---------------------------------------------------------------------------------

// attr : '[' '[' ID ['(' expr,* ')'] ']' ']'
// The caller saw both brackets. The names are few, so a misspelt one is an error and not ignored.
static AstNode *attr(Parser *p)
{
    static const char *const known[] = {"launch_bounds", "maxnreg",  "schedule",
                                        "pipeline",      "handoff", "no_specialise"};
    AstNode *a = p_node(p, AST_ATTR, p_loc(p));
    NodeVec v = {0};
    p_next(p);
    p_next(p);
    Loc loc = p_loc(p);
    a->name = p_name(p, "the name of an attribute");
    bool ok = false;
    for (int i = 0; a->name && i < COUNT(known); i++) ok = ok || strcmp(a->name, known[i]) == 0;
    if (!ok)
        p_fail_at(p, loc,
                  "known are launch_bounds, maxnreg, schedule, pipeline, handoff and no_specialise",
                  "unknown attribute '%s'", a->name ? a->name : "");
    bool bare = ok && strcmp(a->name, "no_specialise") == 0;
    if (!bare && p_expect(p, P_LPAREN, "'(' and the values of the attribute"))
        p_exprs(p, &v, P_RPAREN);
    a->list = p_list(&v);
    p_expect(p, P_RBRACKET, "']]'");
    p_expect(p, P_RBRACKET, "']]'");
    return a;
}

// attr*
void p_attrs(Parser *p, NodeVec *out)
{
    while (!p->panic && p_is(p, P_LBRACKET) && p_ahead(p, 1)->kind == P_LBRACKET)
        vec_push(p->arena, out, attr(p));
}
