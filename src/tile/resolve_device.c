// resolve_device.c - what the source says to the machine directly: `__atomic_*`, `__bar_*`,
// `sync.barrier` and `sync.fence`, `print`.
#include "resolve.h"

#include <string.h>

// ---- atomics -----------------------------------------------------------------------------------

typedef struct {
    const char *name;
    AtomicKind kind;
    bool minus; // of the negated value
} Atomic;
static const Atomic atomics[] = {
    {"__atomic_add", ATOM_ADD, false},   {"__atomic_sub", ATOM_ADD, true},
    {"__atomic_exch", ATOM_EXCH, false}, {"__atomic_min", ATOM_MIN, false},
    {"__atomic_max", ATOM_MAX, false},   {"__atomic_and", ATOM_AND, false},
    {"__atomic_or", ATOM_OR, false},     {"__atomic_xor", ATOM_XOR, false},
    {"__atomic_cas", ATOM_CAS, false},
};

// The hardware has them for 4 and 8 bytes; floats can be added and exchanged.
static bool atomic_type(Resolve *r, const Atomic *a, DType type, Loc loc)
{
    bool integer = !dtype_is_float(type) && type != DT_BOOL && dtype_bytes[type] >= 4;
    bool adds = type == DT_F32 && (a->kind == ATOM_ADD || a->kind == ATOM_EXCH);
    if (integer || adds) return true;
    resolve_unsupported(r, loc, "%s on elements of type %s", a->name, dtype_name[type]);
    return false;
}

static const TExpr *atomic_operand(Resolve *r, const AstNode *e, DType type, bool minus)
{
    Value v = resolve_expr(r, e);
    if (minus && v.kind != VAL_NONE) v = math_unary(r, AST_OP_NEG, v, e->loc);
    if (v.kind != VAL_NONE) v = resolve_convert(r, v, type, e->loc);
    return v.kind == VAL_NONE ? NULL : value_tree(r, &v, e->loc);
}

// The element that is changed.
static bool atomic_target(Resolve *r, const AstNode *e, const Atomic *a, Value *t)
{
    r->is_target = true;
    *t = resolve_expr(r, e);
    r->is_target = false;
    if (t->kind == VAL_NONE) return false;
    bool element = t->kind == VAL_SCALAR && t->x && t->x->kind == TX_ELEM;
    bool local = element && r->k->buffers.at[t->x->view->buffer].kind == TB_LOCAL;
    if (element && !local) return atomic_type(r, a, t->x->type, e->loc);
    resolve_error(r, e->loc, "write `x.at(i)` of a shared or global tile",
                  "%s needs an element that other threads see, found %s", a->name,
                  local ? "one of a local buffer" : value_describe(r, t));
    return false;
}

// __atomic_op(x.at(i), v): what the element was before.
static Value call_atomic(Resolve *r, const AstNode *e, const Atomic *a)
{
    int args = a->kind == ATOM_CAS ? 3 : 2;
    Value t;
    if (e->list.n != args) {
        resolve_error(r, e->loc, NULL, "'%s' takes %d arguments, found %d", a->name, args,
                      e->list.n);
        return value_none();
    }
    if (!r->at) {
        resolve_error(r, e->loc, NULL, "%s outside `parallel`", a->name);
        return value_none();
    }
    if (!atomic_target(r, e->list.at[0], a, &t)) return value_none();
    DType type = t.x->type;
    const TExpr *v = atomic_operand(r, e->list.at[args - 1], type, a->minus);
    const TExpr *was = args == 3 ? atomic_operand(r, e->list.at[1], type, false) : v;
    if (!v || !was) return value_none();
    Loc loc = e->list.at[0]->loc;
    resolve_pending(r, t.x->view, loc);
    view_used(r, t.x->view, true, loc);
    view_used(r, t.x->view, false, loc);
    int id = resolve_new_scalar(r, "was", type, e->loc);
    TileOp *o = resolve_emit(r, TOP_ATOMIC, e->loc);
    o->elem = *t.x->view;
    o->value = v;
    o->cond = was;
    o->imm = a->kind;
    o->scalar = id;
    const char *name = r->k->scalars.at[id].name;
    map_put(r->last_set, name, (void *)(intptr_t)r->serial);
    map_put(r->mutables, name, r);
    resolve_raise(r, name, LEVEL_THREAD);
    return resolve_scalar_read(r, id, e->loc);
}

// ---- barriers and fences -----------------------------------------------------------------------

// __bar_sync(id, threads), __bar_arrive(id, threads): hardware barriers 1 to 15.
static void call_bar(Resolve *r, const AstNode *e, bool sync)
{
    i64 id, threads;
    if (e->list.n != 2) {
        resolve_error(r, e->loc, NULL, "'%s' takes 2 arguments, found %d", e->name, e->list.n);
        return;
    }
    if (!r->at || r->in_apply) {
        resolve_error(r, e->loc, NULL, "%s %s", e->name,
                      r->at ? "inside an apply" : "outside `parallel`");
        return;
    }
    if (!resolve_const(r, e->list.at[0], "the barrier", 1, 15, &id) ||
        !resolve_const(r, e->list.at[1], "the number of threads", 32, 1024, &threads))
        return;
    if (threads % 32) {
        resolve_error(r, e->list.at[1]->loc, NULL,
                      "%lld threads at a named barrier; a multiple of 32 is required",
                      (long long)threads);
        return;
    }
    if (r->roles && (r->role_lo % 32 || r->role_hi % 32)) {
        resolve_error(r, e->loc, NULL, "%s by a part of a warp (threads %d to %d)", e->name,
                      r->role_lo, r->role_hi - 1);
        return;
    }
    if (!resolve_together(r, e->loc, e->name, LEVEL_WARP)) return;
    TileOp *o = resolve_emit(r, TOP_BAR, e->loc);
    o->lo = expr_const(r->x, id);
    o->hi = expr_const(r->x, threads);
    o->imm = sync;
}

bool resolve_device_call(Resolve *r, const AstNode *e, Value *out)
{
    if (!e->name) return false;
    for (int i = 0; i < COUNT(atomics); i++) {
        if (strcmp(atomics[i].name, e->name)) continue;
        *out = call_atomic(r, e, &atomics[i]);
        return true;
    }
    bool sync = !strcmp(e->name, "__bar_sync");
    if (!sync && strcmp(e->name, "__bar_arrive")) return false;
    call_bar(r, e, sync);
    *out = value_none();
    return true;
}

// ---- print -------------------------------------------------------------------------------------

// A value as the text prints it: an integer, an f32, 0 or 1.
static bool print_value(Resolve *r, const AstNode *e, Value v, Buf *text, int *n)
{
    if (v.kind != VAL_SCALAR) {
        resolve_error(r, e->loc, "print numbers, conditions and texts", "print of %s",
                      value_describe(r, &v));
        return false;
    }
    if (*n == PRINT_MAX_ARGS) {
        resolve_unsupported(r, e->loc, "more than %d values in one print", PRINT_MAX_ARGS);
        return false;
    }
    DType to = dtype_is_float(v.type) ? DT_F32 : v.type == DT_U64 ? DT_U64 : DT_S64;
    if (v.type == DT_BOOL)
        v = math_select(r, v, value_index(r, expr_const(r->x, 1), DT_S64),
                        value_index(r, expr_const(r->x, 0), DT_S64), e->loc);
    v = resolve_cast(r, v, to, e->loc);
    if (v.kind == VAL_NONE) return false;
    buf_puts(text, to == DT_F32 ? "%g" : to == DT_U64 ? "%llu" : "%lld");
    TileOp *o = resolve_emit(r, TOP_PRINT_ARG, e->loc);
    o->value = value_tree(r, &v, e->loc);
    o->imm = (*n)++;
    return true;
}

// print!(..) and println!(..): while compiling, of constants.
static bool print_now(Resolve *r, const AstNode *e, const Value *v, Buf *text)
{
    i64 n;
    if (v->kind == VAL_SCALAR && v->index && expr_is_const(v->index, &n))
        buf_printf(text, "%lld", (long long)n);
    else if (v->kind == VAL_SCALAR && v->x && v->x->kind == TX_FLOAT)
        buf_printf(text, "%g", v->x->fvalue);
    else if (v->kind == VAL_SCALAR && v->index)
        buf_puts(text, resolve_text(r, v->index));
    else if (v->kind == VAL_LIST)
        for (int i = 0; i < v->n; i++)
            buf_printf(text, "%s%s%s", i ? ", " : "[", resolve_text(r, v->item[i].index),
                       i + 1 < v->n ? "" : "]");
    else
        resolve_error(r, e->loc, "leave out the '!'", "%s is not known to the compiler",
                      value_describe(r, v));
    return v->kind == VAL_LIST || (v->kind == VAL_SCALAR && (v->index || v->x));
}

// print(..), println(..): texts and values, by every thread that comes here.
void resolve_print(Resolve *r, const AstNode *s)
{
    bool now = s->flags & AST_F_COMPILE_TIME, ok = true;
    Buf text = {0};
    int n = 0;
    if (!now && !r->at) {
        resolve_error(r, s->loc, "`println!` prints while compiling", "print outside `parallel`");
        return;
    }
    for (int i = 0; i < s->list.n && ok; i++) {
        const AstNode *e = s->list.at[i];
        if (e->kind == AST_STRING) {
            for (size_t k = 0; k < e->text_n && e->text[k]; k++) {
                buf_putc(&text, e->text[k]);
                if (e->text[k] == '%' && !now) buf_putc(&text, '%');
            }
            continue;
        }
        Value v = resolve_expr(r, e);
        ok = v.kind != VAL_NONE &&
             (now ? print_now(r, e, &v, &text) : print_value(r, e, v, &text, &n));
    }
    if (s->flags & AST_F_NEWLINE && !now) buf_putc(&text, '\n');
    const char *all = arena_strndup(r->arena, text.s ? text.s : "", text.n);
    buf_free(&text);
    if (ok && now && !r->first_walk) diag(r->diag, SEV_NOTE, s->loc, NULL, "%s", all);
    if (ok && !now) resolve_emit(r, TOP_PRINT, s->loc)->text = all;
}

// sync.fence : level. A warp's and a warpgroup's is the block's: the machine has none in between.
static void fence(Resolve *r, const AstNode *s)
{
    if (!r->at || r->in_apply) {
        resolve_error(r, s->loc, NULL, "a fence %s",
                      r->at ? "inside an apply" : "outside `parallel`");
        return;
    }
    if (s->level == AST_LEVEL_THREAD) return;
    resolve_emit(r, TOP_FENCE, s->loc)->imm =
        s->level == AST_LEVEL_DEVICE || s->level == AST_LEVEL_CLUSTER;
}

// sync.barrier : level
static void barrier(Resolve *r, const AstNode *s)
{
    if (s->op != SYNC_BARRIER || s->level == AST_LEVEL_DEVICE || s->level == AST_LEVEL_CLUSTER) {
        if (s->op == SYNC_SHARED)
            resolve_error(r, s->loc, "write sync.barrier : block",
                          "the spelling sync.shared was removed");
        else
            resolve_unsupported(r, s->loc, "sync.barrier of this level");
        return;
    }
    if (!r->at || r->in_apply) {
        resolve_error(r, s->loc, NULL,
                      r->at ? "a barrier inside an apply" : "a barrier outside `parallel`");
        return;
    }
    int level = s->level == AST_LEVEL_GROUP4  ? LEVEL_GROUP4
                : s->level == AST_LEVEL_GROUP ? LEVEL_WARP
                                              : LEVEL_BLOCK;
    if (s->level == AST_LEVEL_THREAD) return; // a thread always agrees with itself
    if (r->roles && level == LEVEL_BLOCK) {
        resolve_error(r, s->loc, "hand over with events, or use `sync.barrier : group-4`",
                      "a barrier of the whole block inside inthreads");
        return;
    }
    if (level == LEVEL_GROUP4 && resolve_group4(r) < 0) {
        resolve_error(r, s->loc, NULL, "a barrier of a warpgroup outside of `: group-4`");
        return;
    }
    if (!resolve_together(r, s->loc, "a barrier", level)) return;
    resolve_emit(r, TOP_BARRIER, s->loc)->level = (u8)level;
}

void resolve_sync(Resolve *r, const AstNode *s)
{
    if (s->op == SYNC_FENCE)
        fence(r, s);
    else
        barrier(r, s);
}
