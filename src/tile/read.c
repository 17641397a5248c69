// read.c - text to tile IR: the inverse of print.c, driven by the same rows of ops.h. Input is
// trusted to be nothing: every word is checked, nesting and counts are bounded. What it accepts
// still has to pass tile_check.
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NESTING = 200, MAX_ITEMS = 100000 };

typedef struct {
    TileModule *m;
    u16 file;
    const char *at, *end;             // what is left; *end is a NUL
    const char *word;                 // start of the last word taken
    const char *counted, *line_start; // newlines before `counted` are in `line`
    u32 line;
    TileKernel *k;
    int depth;
    bool failed;
} Reader;

// The place of the next byte; lines are counted once.
static Loc here(Reader *r)
{
    for (; r->counted < r->at; r->counted++) {
        if (*r->counted == '\n') {
            r->line++;
            r->line_start = r->counted + 1;
        }
    }
    return (Loc){r->file, (u16)MIN(r->at - r->line_start + 1, 65535), r->line};
}

// The first error ends the reading; all takers return something harmless after it.
static bool fail(Reader *r, const char *required)
{
    if (!r->failed) {
        size_t n = 0;
        while (r->at + n < r->end && n < 20 && (unsigned char)r->at[n] > ' ') n++;
        diag_error(r->m->diag, here(r), NULL, "tile IR: '%.*s' found where %s must stand", (int)n,
                   r->at, required);
    }
    r->failed = true;
    return false;
}

// The last word was none that may stand there.
static bool fail_word(Reader *r, const char *required)
{
    if (!r->failed && r->word) r->at = r->word;
    return fail(r, required);
}

// ---- words -----------------------------------------------------------------------------------

// Blanks and comments. The lines of the launch plan, `//@`, are no comments.
static void skip_blanks(Reader *r)
{
    while (r->at < r->end) {
        if ((unsigned char)*r->at <= ' ')
            r->at++;
        else if (r->at[0] == '/' && r->at[1] == '/' && r->at[2] != '@')
            while (r->at < r->end && *r->at != '\n') r->at++;
        else
            break;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '%' || c == '$' || c == '-';
}

// The next word (a name, a keyword, a number with sign), interned; NULL when there is none.
static const char *peek_word(Reader *r, size_t *n)
{
    skip_blanks(r);
    *n = 0;
    while (r->at + *n < r->end && is_word(r->at[*n])) (*n)++;
    return *n ? intern_n(r->m->names, r->at, *n) : NULL;
}

static const char *take_word(Reader *r, const char *required)
{
    size_t n;
    const char *w = peek_word(r, &n);
    if (!w) {
        fail(r, required);
        return NULL;
    }
    r->word = r->at;
    r->at += n;
    return w;
}

// Whether `word` comes next, and as a whole word.
static bool next_is(Reader *r, const char *word)
{
    size_t n;
    const char *w = peek_word(r, &n);
    return w && strcmp(w, word) == 0;
}

static bool try_word(Reader *r, const char *word)
{
    if (!next_is(r, word)) return false;
    r->at += strlen(word);
    return true;
}

static bool try_char(Reader *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool need_char(Reader *r, char c)
{
    char text[4] = {'\'', c, '\'', 0};
    return try_char(r, c) || fail(r, text);
}

// '"' characters '"', with \xHH for what cannot stand there.
static const char *take_text(Reader *r)
{
    Buf b = {0};
    need_char(r, '"');
    while (!r->failed && *r->at && *r->at != '"' && *r->at != '\n') {
        unsigned byte;
        char c = *r->at++;
        if (c == '\\' && *r->at == 'x' && sscanf(r->at + 1, "%2x", &byte) == 1 && byte) {
            c = (char)byte;
            r->at += 3;
        }
        buf_putc(&b, c);
    }
    const char *text = arena_strndup(r->m->arena, b.s ? b.s : "", b.n);
    buf_free(&b);
    need_char(r, '"');
    return text;
}

static bool need_word(Reader *r, const char *word) { return try_word(r, word) || fail(r, word); }

static i64 take_int(Reader *r)
{
    const char *w = take_word(r, "a number");
    if (!w) return 0;
    char *end;
    long long v = strtoll(w, &end, 10);
    if (*end) fail_word(r, "a whole number");
    return v;
}

static int take_small(Reader *r)
{
    i64 v = take_int(r);
    if (v < 0 || v > 1 << 30) {
        fail(r, "a number from 0 to 2^30");
        return 0;
    }
    return (int)v;
}

// Up to where the expression ends; expr_read knows.
static const Expr *take_expr(Reader *r)
{
    skip_blanks(r);
    if (r->failed) return NULL;
    const char *s = r->at, *err = NULL;
    const Expr *e = expr_read(r->m->exprs, &s, &err);
    if (!e) {
        fail(r, err ? err : "an integer expression");
        return NULL;
    }
    r->at = s;
    return e;
}

static DType take_type(Reader *r)
{
    const char *w = take_word(r, "a type");
    int t = w ? dtype_by_name(w) : -1;
    if (t < 0) fail_word(r, "a type");
    return t < 0 ? DT_F32 : (DType)t;
}

// One of n words, as its index.
static int take_choice(Reader *r, const char *const *name, int n, const char *required)
{
    const char *w = take_word(r, required);
    for (int i = 0; w && i < n; i++)
        if (strcmp(name[i], w) == 0) return i;
    fail_word(r, required);
    return 0;
}

static SmemLayout take_layout(Reader *r)
{
    const char *w = take_word(r, "a shared layout");
    for (int i = 0; w && i < SL_COUNT; i++)
        if (strcmp(smem_layout[i].name, w) == 0) return (SmemLayout)i;
    fail_word(r, "a shared layout");
    return SL_ROW;
}

// ---- names of the kernel ---------------------------------------------------------------------

#define FIND(vec, word)                                                                            \
    do {                                                                                           \
        for (int i_ = 0; (word) && i_ < (vec).n; i_++)                                             \
            if ((vec).at[i_].name == (word)) return i_;                                            \
    } while (0)

static int find_buffer(const TileKernel *k, const char *w)
{
    FIND(k->buffers, w);
    return -1;
}

static int find_frag(const TileKernel *k, const char *w)
{
    FIND(k->frags, w);
    return -1;
}

static int find_scalar(const TileKernel *k, const char *w)
{
    FIND(k->scalars, w);
    return -1;
}

static void take_frag(Reader *r, int *frag, int *slot)
{
    *frag = find_frag(r->k, take_word(r, "a fragment"));
    if (*frag < 0) {
        fail_word(r, "a declared fragment");
        *frag = 0;
        return;
    }
    *slot = try_word(r, "slot") ? take_small(r) : 0;
}

// at(0, 1): which apply variable indexes each dimension.
static void take_at(Reader *r, u8 *at)
{
    need_word(r, "at");
    need_char(r, '(');
    at[0] = (u8)(take_small(r) & 255);
    if (try_char(r, ',')) at[1] = (u8)(take_small(r) & 255);
    need_char(r, ')');
}

// BUFFER [slot (EXPR)] [ORIGIN : EXTENT : LIMIT, ...]
static TileView take_view(Reader *r)
{
    TileView v = {.buffer = -1};
    if (try_word(r, "none")) return v;
    v.buffer = find_buffer(r->k, take_word(r, "a buffer"));
    if (v.buffer < 0) {
        fail_word(r, "a declared buffer");
        return v;
    }
    if (try_word(r, "slot")) {
        need_char(r, '(');
        v.slot = take_expr(r);
        need_char(r, ')');
    }
    need_char(r, '[');
    int rank = r->k->buffers.at[v.buffer].rank;
    for (int i = 0; i < rank && !r->failed; i++) {
        if (i) need_char(r, ',');
        if (!try_char(r, '!')) v.dim[v.rank++] = (u8)i;
        v.origin[i] = take_expr(r);
        need_char(r, ':');
        v.extent[i] = take_expr(r);
        need_char(r, ':');
        v.limit[i] = take_expr(r);
    }
    need_char(r, ']');
    return v;
}

// ---- scalars ---------------------------------------------------------------------------------

static const TExpr *take_texpr(Reader *r);

static void take_args(Reader *r, TExpr *x, int n)
{
    const TExpr **arg[3] = {&x->a, &x->b, &x->c};
    need_char(r, '(');
    for (int i = 0; i < n && !r->failed; i++) {
        if (i) need_char(r, ',');
        *arg[i] = take_texpr(r);
    }
    need_char(r, ')');
}

// The words of `%.17g`, inf and nan.
static double take_float(Reader *r)
{
    const char *w = take_word(r, "a number");
    if (!w) return 0;
    if (r->at < r->end && *r->at == '+') { // 1e+30: the sign ends a word
        size_t n = 1;
        while (r->at + n < r->end && is_word(r->at[n])) n++;
        w = intern_printf(r->m->names, "%s%.*s", w, (int)n, r->at);
        r->at += n;
    }
    char *end;
    double v = strtod(w, &end);
    if (*end) fail(r, "a number");
    return v;
}

// Kinds written `word.type ...`; the word before the last dot is the kind or a row of TILE_MATHS.
static void take_typed(Reader *r, TExpr *x, const char *word)
{
    const char *dot = strrchr(word, '.');
    int type = dot ? dtype_by_name(dot + 1) : -1;
    if (type < 0) {
        fail_word(r, "a scalar expression");
        return;
    }
    x->type = (DType)type;
    size_t n = (size_t)(dot - word);
    if (n == 5 && !strncmp(word, "float", n)) {
        x->kind = TX_FLOAT;
        x->fvalue = take_float(r);
    } else if (n == 3 && !strncmp(word, "int", n)) {
        x->kind = TX_INDEX;
        need_char(r, '(');
        x->index = take_expr(r);
        need_char(r, ')');
    } else if (n == 4 && !strncmp(word, "elem", n)) {
        x->kind = TX_ELEM;
        x->view = ARENA_NEW(r->m->arena, TileView);
        *x->view = take_view(r);
    } else if ((n == 4 && !strncmp(word, "cast", n)) || (n == 7 && !strncmp(word, "bitcast", n))) {
        x->kind = n == 4 ? TX_CAST : TX_BITCAST;
        take_args(r, x, 1);
    } else {
        for (int i = 0; i < TM_COUNT; i++) {
            if (strlen(tile_math[i].name) != n || strncmp(tile_math[i].name, word, n)) continue;
            x->kind = TX_MATH;
            x->math = (u8)i;
            take_args(r, x, tile_math[i].args);
            return;
        }
        fail_word(r, "a scalar expression");
    }
}

static const TExpr *take_texpr(Reader *r)
{
    TExpr *x = ARENA_NEW(r->m->arena, TExpr);
    skip_blanks(r);
    x->loc = here(r);
    if (r->failed || ++r->depth > MAX_NESTING) {
        fail(r, "an expression that nests less deep");
        return x;
    }
    if (try_word(r, "scalar")) {
        x->kind = TX_SCALAR;
        x->scalar = find_scalar(r->k, take_word(r, "a scalar"));
        if (x->scalar < 0)
            fail_word(r, "a declared scalar");
        else
            x->type = r->k->scalars.at[x->scalar].type;
    } else if (try_word(r, "frag")) {
        x->kind = TX_FRAG;
        take_frag(r, &x->frag, &x->slot);
        if (!r->failed) x->type = r->k->frags.at[x->frag].type;
        take_at(r, x->at);
    } else {
        const char *w = take_word(r, "a scalar expression");
        if (w) take_typed(r, x, w);
    }
    r->depth--;
    return x;
}

// ---- operations ------------------------------------------------------------------------------

static void take_block(Reader *r, TileBlock *b);

// reg FRAG | tile VIEW, and `trans`.
static void take_operand(Reader *r, TileOperand *o)
{
    o->frag = -1;
    o->view.buffer = -1;
    if (try_word(r, "reg")) {
        take_frag(r, &o->frag, &o->frag_slot);
    } else {
        need_word(r, "tile");
        o->view = take_view(r);
    }
    o->trans = try_word(r, "trans");
}

static int take_future(Reader *r)
{
    if (try_word(r, "sync")) return -1;
    need_word(r, "future");
    const char *w = take_word(r, "a future");
    for (int i = 0; w && i < r->k->futures.n; i++)
        if (r->k->futures.at[i] == w) return i;
    fail_word(r, "a declared future");
    return -1;
}

// The inverse of print_field, letter by letter.
static void take_event(Reader *r, TileOp *o)
{
    if (o->op == TOP_COPY && !next_is(r, "on")) return;
    need_word(r, "on");
    const char *w = take_word(r, "an event");
    for (int i = 0; w && i < r->k->events.n; i++)
        if (r->k->events.at[i].name == w) o->event = i;
    if (o->event < 0) fail_word(r, "a declared event");
    if (try_char(r, '(')) {
        o->order = take_expr(r);
        need_char(r, ')');
    }
    if (o->op == TOP_TRIGGER) o->cluster = try_word(r, "cluster");
    if (o->op == TOP_TRIGGER && try_word(r, "handoff"))
        o->handoff = (u8)take_choice(r, tile_handoff_name, HANDOFF_COUNT, "a policy");
}

static void take_field(Reader *r, TileOp *o, char letter)
{
    switch (letter) {
    case 'v':
        if (try_word(r, "-")) break;
        o->var = take_word(r, "a variable");
        if (o->op == TOP_APPLY && try_char(r, ',')) o->var2 = take_word(r, "a variable");
        break;
    case 'l': o->level = (u8)take_choice(r, tile_level_name, LEVEL_COUNT, "a level"); break;
    case 'n':
        need_char(r, '(');
        if (o->op != TOP_PAR) {
            o->lo = take_expr(r);
            need_char(r, ',');
        }
        o->hi = take_expr(r);
        if (o->op != TOP_PAR) {
            need_char(r, ',');
            o->step = take_expr(r);
        }
        need_char(r, ')');
        break;
    case 'c': o->cond = take_texpr(r); break;
    case 'x':
        need_char(r, '=');
        o->value = take_texpr(r);
        break;
    case 'd':
        need_word(r, "dst");
        o->dst = take_view(r);
        break;
    case 's':
        need_word(r, "src");
        o->src = take_view(r);
        break;
    case 'f': take_frag(r, &o->frag, &o->frag_slot); break;
    case 'g': take_frag(r, &o->frag2, &o->frag2_slot); break;
    case 'k':
        o->scalar = find_scalar(r->k, take_word(r, "a scalar"));
        if (o->scalar < 0) fail_word(r, "a declared scalar");
        break;
    case 'e':
        if (o->op != TOP_MMA || next_is(r, "future")) o->future = take_future(r);
        break;
    case 'a': take_operand(r, &o->a); break;
    case 'b': take_operand(r, &o->b); break;
    case 'E':
        if (o->op == TOP_FSET)
            take_at(r, o->elem_at);
        else
            o->elem = take_view(r);
        break;
    case 'y':
        o->engine = (u8)take_choice(r, tile_engine_name, 2, "dma or tma");
        o->swizzle = take_layout(r);
        o->hint = (u8)take_choice(r, tile_hint_name, 3, "an eviction hint or -");
        o->cluster = try_word(r, "multicast");
        if (try_word(r, "promote")) o->promote = take_small(r);
        break;
    case 'm': o->imm = take_int(r); break;
    case 'q':
        if (try_word(r, "order")) o->imm = take_int(r);
        break;
    case 'P':
        if (!try_word(r, "pipeline")) break;
        o->stages = take_small(r);
        o->load_regs = take_small(r);
        o->compute_regs = take_small(r);
        break;
    case 'p':
        if (try_word(r, "from")) o->imm = take_int(r);
        break;
    case 'r':
        need_char(r, '(');
        o->lo = take_expr(r);
        need_char(r, ',');
        o->hi = take_expr(r);
        need_char(r, ')');
        break;
    case 't': take_event(r, o); break;
    case 'T': o->text = take_text(r); break;
    case 'B': take_block(r, &o->body); break;
    case 'O':
        if (try_word(r, "else")) take_block(r, &o->other);
        break;
    default: BUG("field letter %c of the tile IR", letter);
    }
}

// Indices that no field sets stay -1.
static TileOp *new_op(Reader *r, int opcode)
{
    TileOp *o = ARENA_NEW(r->m->arena, TileOp);
    o->op = (u8)opcode;
    o->loc = here(r);
    o->frag = o->frag2 = o->scalar = o->future = o->event = o->a.frag = o->b.frag = -1;
    o->dst.buffer = o->src.buffer = o->elem.buffer = -1;
    o->a.view.buffer = o->b.view.buffer = -1;
    return o;
}

static void take_block(Reader *r, TileBlock *b)
{
    need_char(r, '{');
    if (++r->depth > MAX_NESTING) fail(r, "a program that nests less deep");
    while (!r->failed && !try_char(r, '}')) {
        Loc loc = (skip_blanks(r), here(r));
        const char *w = take_word(r, "an operation or '}'");
        int opcode = 0;
        while (w && opcode < TOP_COUNT && strcmp(tile_op[opcode].name, w) != 0) opcode++;
        if (!w || opcode == TOP_COUNT || b->n > MAX_ITEMS) {
            fail_word(r, "an operation or '}'");
            break;
        }
        TileOp *o = new_op(r, opcode);
        o->loc = loc;
        for (const char *f = tile_op[opcode].fields; *f && !r->failed; f++) take_field(r, o, *f);
        vec_push(r->m->arena, b, o);
    }
    r->depth--;
}

// ---- declarations ----------------------------------------------------------------------------

static void take_buffer(Reader *r, TileBufferKind kind)
{
    TileBuffer b = {.kind = (u8)kind, .slots = 1, .loc = here(r)};
    b.name = take_word(r, "a name");
    b.type = take_type(r);
    need_char(r, '[');
    while (!r->failed && !try_char(r, ']')) {
        if (b.rank == TILE_MAX_RANK) {
            fail(r, "']': a buffer has at most 6 dimensions");
            return;
        }
        if (b.rank) need_char(r, ',');
        b.dim[b.rank++] = take_expr(r);
    }
    if (kind == TB_GLOBAL) {
        need_word(r, "param");
        b.param = take_small(r);
        if (try_word(r, "stride")) {
            for (int d = 0; d < b.rank; d++) {
                need_char(r, d ? ',' : '[');
                b.stride[d] = take_expr(r);
            }
            need_char(r, ']');
        }
    } else {
        b.layout = take_layout(r);
        need_word(r, "slots");
        b.slots = take_small(r);
        if (kind == TB_SHARED && try_word(r, "handoff"))
            b.handoff = (u8)take_choice(r, tile_handoff_name, HANDOFF_COUNT, "a policy");
        if (kind == TB_SHARED && try_word(r, "as")) {
            const char *of = take_word(r, "a buffer");
            for (int i = 0; of && i < r->k->buffers.n; i++)
                if (r->k->buffers.at[i].name == of) b.alias = i + 1;
            if (!b.alias) fail_word(r, "a buffer that is declared in front");
        }
    }
    vec_push(r->m->arena, &r->k->buffers, b);
}

static void take_frag_decl(Reader *r)
{
    TileFrag f = {.rank = 1, .loc = here(r)};
    f.name = take_word(r, "a name");
    f.type = take_type(r);
    need_char(r, '[');
    f.dim[0] = take_small(r);
    if (try_char(r, ',')) {
        f.dim[1] = take_small(r);
        f.rank = 2;
    }
    need_char(r, ']');
    f.level = (u8)take_choice(r, tile_level_name, LEVEL_COUNT, "a level");
    f.layout = (u8)take_choice(r, tile_frag_layout_name, FL_COUNT, "a fragment layout");
    need_word(r, "slots");
    f.slots = take_small(r);
    vec_push(r->m->arena, &r->k->frags, f);
}

static void take_event_decl(Reader *r)
{
    static const char *const shape[] = {"scalar", "ring"}, *const start[] = {"empty", "ready"};
    TileEvent e = {.loc = here(r)};
    e.name = take_word(r, "a name");
    e.scalar = take_choice(r, shape, 2, "scalar or ring") == 0;
    need_word(r, "slots");
    e.slots = take_small(r);
    e.ready = take_choice(r, start, 2, "ready or empty") == 1;
    need_word(r, "count");
    e.count = take_small(r);
    e.turns = try_word(r, "turns");
    e.hands = try_word(r, "hands");
    e.gives = try_word(r, "gives");
    vec_push(r->m->arena, &r->k->events, e);
}

static void take_decls(Reader *r)
{
    while (!r->failed && !next_is(r, "body")) {
        if (try_word(r, "global")) {
            take_buffer(r, TB_GLOBAL);
        } else if (try_word(r, "shared")) {
            take_buffer(r, TB_SHARED);
        } else if (try_word(r, "local")) {
            take_buffer(r, TB_LOCAL);
        } else if (try_word(r, "frag")) {
            take_frag_decl(r);
        } else if (try_word(r, "scalar")) {
            TileScalar s = {.loc = here(r)};
            s.name = take_word(r, "a name");
            s.type = take_type(r);
            vec_push(r->m->arena, &r->k->scalars, s);
        } else if (try_word(r, "future")) {
            const char *w = take_word(r, "a name");
            if (w) vec_push(r->m->arena, &r->k->futures, w);
        } else if (try_word(r, "event")) {
            take_event_decl(r);
        } else {
            fail(r, "a declaration or 'body'");
        }
    }
}

static TileKernel *take_kernel(Reader *r)
{
    TileKernel *k = r->k = ARENA_NEW(r->m->arena, TileKernel);
    k->loc = here(r);
    k->name = take_word(r, "a name");
    need_char(r, '{');
    if (try_word(r, "when")) k->when = take_expr(r);
    need_word(r, "grid");
    do {
        k->grid_var[k->ngrid] = take_word(r, "a variable");
        need_char(r, '=');
        k->grid[k->ngrid++] = take_expr(r);
    } while (!r->failed && k->ngrid < 3 && try_char(r, ','));
    if (try_word(r, "cluster")) k->cluster = take_small(r);
    need_word(r, "threads");
    k->threads = take_small(r);
    need_word(r, "max");
    k->max_threads = take_small(r);
    need_word(r, "min");
    k->min_blocks = take_small(r);
    need_word(r, "maxnreg");
    k->maxnreg = take_small(r);
    k->sequential = try_word(r, "sequential");
    take_decls(r);
    need_word(r, "body");
    take_block(r, &k->body);
    need_char(r, '}');
    return k;
}

// The plan's lines stand together behind `fn NAME {`.
static Plan *take_plan(Reader *r)
{
    size_t prefix = strlen(TILE_PLAN_PREFIX);
    const char *start = r->at, *end = r->at;
    for (const char *s = r->at; s < r->end;) {
        const char *line = s;
        while (line < r->end && (*line == ' ' || *line == '\t')) line++;
        const char *stop = memchr(s, '\n', (size_t)(r->end - s));
        stop = stop ? stop + 1 : r->end;
        bool plan = (size_t)(r->end - line) >= prefix && !strncmp(line, TILE_PLAN_PREFIX, prefix);
        bool blank = (line == stop - 1 && *line == '\n') || (!plan && !strncmp(line, "//", 2));
        if (!plan && !blank) break;
        if (plan) end = stop;
        s = stop;
    }
    if (end == start) return NULL;
    r->at = end;
    Plan *p = plan_read(r->m->arena, r->m->exprs, r->m->diag, r->file, TILE_PLAN_PREFIX, start,
                        (size_t)(end - start));
    if (!p) r->failed = true; // plan_read has reported it
    return p;
}

TileModule *tile_read(Arena *a, Intern *names, ExprPool *p, Diag *d, u16 file, const char *text,
                      size_t n)
{
    TileModule *m = ARENA_NEW(a, TileModule);
    *m = (TileModule){.arena = a, .names = names, .exprs = p, .diag = d};
    const char *copy = arena_strndup(a, text, n); // ends in NUL, as expr_read wants it
    Reader r = {.m = m,
                .file = file,
                .at = copy,
                .end = copy + strlen(copy),
                .counted = copy,
                .line_start = copy,
                .line = 1};
    if ((size_t)(r.end - copy) != n) fail(&r, "text without NUL bytes");
    for (skip_blanks(&r); !r.failed && r.at < r.end; skip_blanks(&r)) {
        need_word(&r, "fn");
        TileFn *f = ARENA_NEW(a, TileFn);
        f->loc = here(&r);
        f->name = take_word(&r, "a name");
        need_char(&r, '{');
        f->plan = take_plan(&r);
        while (!r.failed && !try_char(&r, '}')) {
            need_word(&r, "kernel");
            TileKernel *k = r.failed ? NULL : take_kernel(&r);
            if (k) vec_push(a, &f->kernels, k);
        }
        vec_push(a, &m->fns, f);
    }
    return r.failed ? NULL : m;
}
