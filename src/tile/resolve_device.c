// resolve_device.c - what the source says to the machine directly: `__atomic_*`, `__bar_*`,
// `sync.barrier` and `sync.fence`.
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
