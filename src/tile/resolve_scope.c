// resolve_scope.c - names and where they are visible, unique names of the tile IR, emission of
// operations, messages. Invariant: `names` maps a name to its innermost visible symbol.
#include "resolve.h"

#include <string.h>

// Opens a block. The result goes to scope_pop.
int scope_push(Resolve *r)
{
    r->depth++;
    return r->symbols.n;
}

static void check_future(Resolve *r, Symbol *s)
{
    if (!s->is_future || !s->async || s->waited || s->blamed || s->turns) return;
    bool product = s->op && s->op->op == TOP_MMA;
    resolve_error(r, s->loc,
                  product ? "write `wait` with its name before its result is used"
                          : "write `wait` with its name where its data is needed, or publish it: "
                            "`trigger event after` with its name",
                  "the asynchronous %s '%s' is never waited for", product ? "product" : "copy",
                  s->name);
    s->blamed = s->waited = true;
    product_done(r, s);
}

// Closes a block: its names become invisible, its futures must have been waited for.
void scope_pop(Resolve *r, int mark)
{
    while (r->symbols.n > mark) {
        Symbol *s = r->symbols.at[--r->symbols.n];
        check_future(r, s);
        if (s->value.kind == VAL_EVENT) resolve_event_end(r, s);
        map_put(r->names, s->name, s->hidden);
    }
    r->depth--;
}

Symbol *scope_find(const Resolve *r, const char *name)
{
    return name ? map_get(r->names, name) : NULL;
}

// Makes a name visible. One that was wrong before may be declared again without a second message.
Symbol *scope_add(Resolve *r, const char *name, Loc loc, Value v)
{
    if (!name) return NULL; // did not parse
    Symbol *hidden = scope_find(r, name);
    if (hidden && hidden->depth == r->depth && hidden->value.kind == VAL_NONE && !hidden->mutable) {
        hidden->value = v; // the first one was wrong and has been reported
        hidden->loc = loc;
        return hidden;
    }
    if (hidden && hidden->depth == r->depth) {
        resolve_error(r, loc, "give one of the two another name",
                      "'%s' is declared twice in this block; the first is in line %u", name,
                      hidden->loc.line);
        return NULL;
    }
    Symbol *s = ARENA_NEW(r->arena, Symbol);
    *s = (Symbol){.name = name,
                  .hidden = hidden,
                  .depth = r->depth,
                  .loop_depth = r->loop_depth,
                  .roles = r->roles,
                  .loc = loc,
                  .value = v,
                  .scalar = -1,
                  .future = -1};
    map_put(r->names, name, s);
    vec_push(r->arena, &r->symbols, s);
    return s;
}

// ---- unique names ------------------------------------------------------------------------------

// The n-th use of a name is `name.n`; the names of the source have no dot.
static const char *unique(Resolve *r, Map *used, const char *name)
{
    intptr_t n = (intptr_t)map_get(used, name) + 1;
    map_put(used, name, (void *)n);
    return n == 1 ? name : intern_printf(r->m->names, "%s.%d", name, (int)n);
}

const char *resolve_var(Resolve *r, const char *name)
{
    return unique(r, r->used, intern_printf(r->m->names, "%%%s", name ? name : "x"));
}

const char *resolve_plain(Resolve *r, const char *name)
{
    return unique(r, r->used_plain, name ? name : intern(r->m->names, "x"));
}

// ---- emission
// ------------------------------------------------------------------------------------

// Appends an operation with nothing in it yet. On the host level it goes nowhere.
TileOp *resolve_emit(Resolve *r, TileOpcode op, Loc loc)
{
    TileOp *o = ARENA_NEW(r->arena, TileOp);
    o->op = (u8)op;
    o->loc = loc;
    o->frag = o->frag2 = o->scalar = o->future = o->event = o->a.frag = o->b.frag = -1;
    o->dst.buffer = o->src.buffer = o->elem.buffer = -1;
    o->a.view.buffer = o->b.view.buffer = -1;
    r->serial++;
    if (r->at) vec_push(r->arena, r->at, o);
    return o;
}

int resolve_new_scalar(Resolve *r, const char *name, DType type, Loc loc)
{
    TileScalar s = {resolve_var(r, name), type, loc};
    vec_push(r->arena, &r->k->scalars, s);
    resolve_type_range(r, s.name, type);
    return r->k->scalars.n - 1;
}

// Levels of variables only rise: a variable that once depended on the thread stays suspect.
void resolve_raise(Resolve *r, const char *var, int level)
{
    intptr_t old = (intptr_t)map_get(r->var_level, var);
    map_put(r->var_level, var, (void *)MAX(old, (intptr_t)level + 1));
}

// A scalar depends on what its value depends on, and on who gets here.
void resolve_set(Resolve *r, int scalar, const TExpr *value, Loc loc)
{
    TileOp *o = resolve_emit(r, TOP_SET, loc);
    o->scalar = scalar;
    o->value = value;
    const char *set = r->k->scalars.at[scalar].name;
    bool constant = value->kind == TX_INDEX && value->index->op == EX_CONST;
    if (constant && !map_get(r->last_set, set))
        map_put(r->first_set, set, (void *)value->index);
    else if (map_get(r->first_set, set)) // set again: it need not begin there
        map_put(r->first_set, set, NULL);
    map_put(r->last_set, set, (void *)(intptr_t)r->serial);
    int level = resolve_tree_level(r, value);
    resolve_raise(r, r->k->scalars.at[scalar].name, MAX(level, r->control));
}

// A variable of an integer type cannot leave the range of its type. s64 is left open; of u64
// it matters that it has no sign.
void resolve_type_range(Resolve *r, const char *var, DType type)
{
    switch (type) {
    case DT_S32: expr_set_range(r->x, var, INT32_MIN, INT32_MAX); break;
    case DT_U32: expr_set_range(r->x, var, 0, UINT32_MAX); break;
    case DT_S16: expr_set_range(r->x, var, INT16_MIN, INT16_MAX); break;
    case DT_U16: expr_set_range(r->x, var, 0, UINT16_MAX); break;
    case DT_S8: expr_set_range(r->x, var, INT8_MIN, INT8_MAX); break;
    case DT_U8: expr_set_range(r->x, var, 0, UINT8_MAX); break;
    case DT_BOOL: expr_set_range(r->x, var, 0, 1); break;
    case DT_U64: expr_set_range(r->x, var, 0, INT64_MAX); break;
    default: break;
    }
}

// ---- messages
// ------------------------------------------------------------------------------------

static void report(Resolve *r, Severity severity, Loc loc, const char *hint, const char *fmt,
                   va_list ap)
{
    char *text = arena_vprintf(r->arena, fmt, ap);
    diag(r->diag, severity, loc, hint, "%s", text);
}

void resolve_error(Resolve *r, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(r, SEV_ERROR, loc, hint, fmt, ap);
    va_end(ap);
}

void resolve_warning(Resolve *r, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(r, SEV_WARNING, loc, hint, fmt, ap);
    va_end(ap);
}

void resolve_unsupported(Resolve *r, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    diag_error(r->diag, loc, NULL, "not supported yet: %s", text);
}

// An expression for people: without sigils, at most 80 bytes.
const char *resolve_text(Resolve *r, const Expr *e)
{
    Buf b = {0};
    if (e) expr_print(e, &b);
    // Variables of the tile IR show without their '%' and without the number that makes them
    // unique.
    char *out = arena_alloc(r->arena, b.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < b.n; i++) {
        bool sigil = b.s[i] == '%' && i + 1 < b.n && b.s[i + 1] != ' ';
        if (!sigil) out[n++] = b.s[i];
    }
    buf_free(&b);
    if (n > 80) strcpy(out + 77, "...");
    return out;
}

// ---- what an expression depends on
// ---------------------------------------------------------------

static bool any_var(const Expr *e, bool (*test)(const Resolve *r, const char *name),
                    const Resolve *r)
{
    if (!e) return false;
    if (e->op == EX_VAR) return test(r, e->name);
    return any_var(e->a, test, r) || any_var(e->b, test, r) || any_var(e->c, test, r);
}

static bool is_mutable(const Resolve *r, const char *name)
{
    return map_get(r->mutables, name) != NULL;
}

bool resolve_uses_mutable(const Resolve *r, const Expr *e) { return any_var(e, is_mutable, r); }

static bool is_device(const Resolve *r, const char *name)
{
    (void)r;
    return name[0] == '%';
}

// Only symbols of the plan: the host can evaluate it.
bool resolve_host_only(const Resolve *r, const Expr *e) { return !any_var(e, is_device, r); }

// The innermost level whose instances may see different values of e.
int resolve_expr_level(const Resolve *r, const Expr *e)
{
    if (!e) return LEVEL_BLOCK;
    if (e->op == EX_VAR) {
        intptr_t level = (intptr_t)map_get(r->var_level, e->name);
        return level ? (int)level - 1 : LEVEL_BLOCK;
    }
    int a = resolve_expr_level(r, e->a);
    int b = resolve_expr_level(r, e->b);
    int c = resolve_expr_level(r, e->c);
    return MAX(a, MAX(b, c));
}

int resolve_tree_level(const Resolve *r, const TExpr *x)
{
    if (!x) return LEVEL_BLOCK;
    if (x->kind == TX_FRAG) return LEVEL_THREAD;
    if (x->kind == TX_ELEM && r->k->buffers.at[x->view->buffer].kind == TB_LOCAL)
        return LEVEL_THREAD;
    int level = LEVEL_BLOCK;
    if (x->kind == TX_INDEX) level = resolve_expr_level(r, x->index);
    if (x->kind == TX_SCALAR)
        level = resolve_expr_level(r, expr_var(r->x, r->k->scalars.at[x->scalar].name));
    for (int d = 0; x->kind == TX_ELEM && d < r->k->buffers.at[x->view->buffer].rank; d++)
        level = MAX(level, resolve_expr_level(r, x->view->origin[d]));
    level = MAX(level, resolve_tree_level(r, x->a));
    if (x->kind == TX_MATH && x->math == TM_ANY) return MIN(level, LEVEL_WARP);
    level = MAX(level, resolve_tree_level(r, x->b));
    return MAX(level, resolve_tree_level(r, x->c));
}

bool resolve_together(Resolve *r, Loc loc, const char *what, int level)
{
    if (r->control <= level) return true;
    const char *whose = tile_level_name[r->control];
    if (r->control == LEVEL_GROUP4)
        resolve_unsupported(
            r, loc, "%s under the condition or loop of line %u, which depends on the '%s' index",
            what, r->control_loc.line, whose);
    else
        resolve_error(
            r, loc, "move it out of the condition",
            "%s concerns all threads, but the condition or loop of line %u depends on the "
            "'%s' index",
            what, r->control_loc.line, whose);
    return false;
}
