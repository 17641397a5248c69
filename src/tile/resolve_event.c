// resolve_event.c - events, the triggers and waits that use them, and products in flight.
//
// An event is a ring of slots with generations. A wait or trigger names a generation by its order,
// an expression that is evaluated where the statement stands. `trigger e after f` emits nothing:
// it gives the copy f to the event, so the order must have had the same value where f was issued.
#include "resolve.h"

enum { EVENT_MAX_SLOTS = 256, EVENT_MAX_COUNT = 1 << 16, TRIGGER_MAX_COPIES = 16 };

// ---- declarations ------------------------------------------------------------------------------

static bool event_decl_rules(Resolve *r, const AstNode *s)
{
    if (!r->at || r->in_apply) {
        resolve_error(r, s->loc, NULL,
                      r->at ? "an event inside an apply"
                            : "a shared event can only stand inside `parallel`");
        return false;
    }
    if (s->storage == STOR_GLOBAL || s->storage == STOR_LOCAL) {
        resolve_unsupported(r, s->loc, "%s events", ast_storage_name(s->storage));
        return false;
    }
    if (r->roles) {
        resolve_error(r, s->loc, "declare it in front of the inthreads",
                      "the event '%s' is declared inside inthreads; those outside must see it too",
                      s->name);
        return false;
    }
    if (r->loop_depth || r->guards) {
        resolve_error(r, s->loc, "declare it in front, once for the kernel",
                      "the event '%s' is declared inside a %s", s->name,
                      r->loop_depth ? "loop" : "branch");
        return false;
    }
    if (s->list.n > 1) {
        resolve_unsupported(r, s->loc, "arrays of events with %d dimensions", s->list.n);
        return false;
    }
    return true;
}

// shared event<count> e[slots] = ready;
void resolve_event_decl(Resolve *r, const AstNode *s)
{
    TileEvent e = {.slots = 1,
                   .scalar = s->list.n == 0,
                   .ready = (s->flags & AST_F_READY) != 0,
                   .loc = s->loc};
    i64 n = 1;
    bool ok = event_decl_rules(r, s);
    if (ok && s->list.n)
        ok = resolve_const(r, s->list.at[0], "the number of slots of an event", 1, EVENT_MAX_SLOTS,
                           &n);
    e.slots = (int)n;
    n = 0;
    if (ok && s->value)
        ok = resolve_const(r, s->value, "the arrival count of an event", 1, EVENT_MAX_COUNT, &n);
    e.count = (int)n;
    if (!ok) {
        scope_add(r, s->name, s->loc, value_none());
        return;
    }
    e.name = resolve_plain(r, s->name);
    vec_push(r->arena, &r->k->events, e);
    vec_push(r->arena, &r->event_uses, (EventUse){0});
    scope_add(r, s->name, s->loc, (Value){.kind = VAL_EVENT, .event = r->k->events.n - 1});
}

// At the end of its scope: what is waited for must be triggered somewhere, and the other way round.
void resolve_event_end(Resolve *r, const Symbol *s)
{
    const EventUse *u = &r->event_uses.at[s->value.event];
    if (r->unseen) return;
    if (u->waited && !u->completed)
        resolve_error(r, s->loc, "trigger it where what it stands for has happened",
                      "the event '%s' is waited for, and nothing triggers it", s->name);
    if (u->completed && !u->waited)
        resolve_error(r, s->loc, "wait for it, or leave the trigger out",
                      "the event '%s' is triggered, and nothing waits for it", s->name);
}

// ---- references --------------------------------------------------------------------------------

typedef struct {
    int event;
    const Expr *order; // NULL: a scalar event
    Symbol *step;      // `.at(n++)`: the variable ...
    bool plus, before; // ... counts up; before the operation
    Loc loc;
} EventRef;

static const AstNode *base_of(const AstNode *ref)
{
    while (ref->kind == AST_INDEX || ref->kind == AST_AT) ref = ref->value;
    return ref;
}

static bool is_step(const AstNode *e)
{
    return e->kind == AST_UNARY && e->op >= AST_OP_PREINC && e->op <= AST_OP_POSTDEC;
}

static bool has_step(const AstNode *e)
{
    if (!e) return false;
    if (is_step(e) || has_step(e->value) || has_step(e->cond) || has_step(e->alt)) return true;
    for (int i = 0; i < e->list.n; i++)
        if (has_step(e->list.at[i])) return true;
    return false;
}

// The order in `e.at(order)`. A counter may be stepped there, before or after the operation.
static bool event_order(Resolve *r, const AstNode *e, EventRef *out)
{
    Value v;
    if (is_step(e)) {
        const AstNode *name = e->value;
        Symbol *s = name && name->kind == AST_NAME ? scope_find(r, name->name) : NULL;
        v = s ? s->value : resolve_expr(r, name);
        if (v.kind == VAL_NONE) return false;
        if (!s || !s->mutable) {
            resolve_error(r, e->loc, "declare it `mutable u32`", "'%s' needs a mutable variable",
                          ast_op_text(e->op));
            return false;
        }
        out->step = s;
        out->plus = e->op == AST_OP_PREINC || e->op == AST_OP_POSTINC;
        out->before = e->op == AST_OP_PREINC || e->op == AST_OP_PREDEC;
    } else if (has_step(e)) {
        resolve_error(r, e->loc, "step the counter in a statement of its own",
                      "'++' and '--' must be the direct '.at' argument");
        return false;
    } else {
        v = resolve_expr(r, e);
    }
    if (v.kind == VAL_NONE) return false;
    if (!value_is_integer(&v)) {
        resolve_error(r, e->loc, NULL, "the order of an event must be an integer, found %s",
                      value_describe(r, &v));
        return false;
    }
    out->order = value_to_index(r, v, e->loc, "the order of an event");
    if (!out->order) return false;
    if (out->before) out->order = expr_add(r->x, out->order, expr_const(r->x, out->plus ? 1 : -1));
    i64 lo, hi;
    expr_range(r->x, out->order, &lo, &hi);
    if (hi >= 0) return true;
    resolve_error(r, e->loc, NULL, "the order %s of an event is negative",
                  resolve_text(r, out->order));
    return false;
}

// An order that was taken modulo the slots always names generation 0. A name keeps how it was made.
static bool order_runs_on(Resolve *r, const Expr *order, const TileEvent *e, const char *name,
                          Loc loc)
{
    const Expr *made = order->op == EX_VAR ? map_get(r->made_of, order->name) : order;
    i64 n;
    if (!made || made->op != EX_MOD || e->slots < 2 || !expr_is_const(made->b, &n) || e->slots % n)
        return true;
    resolve_error(r, loc,
                  arena_printf(r->arena, "pass the running order, `%s.at(n)`; buffers take n %% %d",
                               name, e->slots),
                  "the order of '%s' is taken modulo %lld, which loses its generation", name,
                  (long long)n);
    return false;
}

// e of a scalar event, e.at(order) of a ring.
static bool event_ref(Resolve *r, const AstNode *ref, const Symbol *s, EventRef *out)
{
    const TileEvent *e = &r->k->events.at[s->value.event];
    *out = (EventRef){.event = s->value.event, .loc = ref->loc};
    if (ref->kind == AST_NAME) {
        if (e->scalar) return true;
        resolve_error(r, ref->loc, arena_printf(r->arena, "write `%s.at(n)`", s->name),
                      "'%s' is an array of events; the order says which slot and generation",
                      s->name);
        return false;
    }
    if (e->scalar) {
        resolve_error(r, ref->loc, "declare it `shared event e[1]`",
                      "%s requires an event array; '%s' is a single event",
                      ref->kind == AST_AT ? "'.at(order)'" : "an index", s->name);
        return false;
    }
    if (ref->kind == AST_INDEX) {
        resolve_error(r, ref->loc, arena_printf(r->arena, "write `%s.at(n)`", s->name),
                      "'%s[..]' names a slot without its generation", s->name);
        return false;
    }
    if (ref->value->kind != AST_NAME || ref->list.n != 1) {
        resolve_error(r, ref->loc, NULL, "`.at` of a one-dimensional event array takes one order");
        return false;
    }
    if (!event_order(r, ref->list.at[0], out)) return false;
    return order_runs_on(r, out->order, e, s->name, ref->list.at[0]->loc);
}

// The event that a reference names, or NULL.
static Symbol *event_symbol(Resolve *r, const AstNode *ref)
{
    const AstNode *base = base_of(ref);
    Symbol *s = base->kind == AST_NAME ? scope_find(r, base->name) : NULL;
    return s && s->value.kind == VAL_EVENT ? s : NULL;
}

static void step_order(Resolve *r, const EventRef *e)
{
    if (e->step) resolve_step(r, e->step, e->plus, e->loc);
}

static TileOp *emit_event(Resolve *r, TileOpcode op, const EventRef *e)
{
    const Expr *order = e->order;
    if (e->before) {
        step_order(r, e);
        order = e->step->value.index;
    }
    TileOp *o = resolve_emit(r, op, e->loc);
    o->event = e->event;
    o->order = order;
    if (!e->before) step_order(r, e);
    return o;
}

bool resolve_event_wait(Resolve *r, const AstNode *ref)
{
    const Symbol *s = event_symbol(r, ref);
    EventRef e;
    if (!s) return false;
    r->event_uses.at[s->value.event].waited = true;
    if (event_ref(r, ref, s, &e) &&
        resolve_together(r, ref->loc, "a wait for an event", LEVEL_BLOCK))
        emit_event(r, TOP_EVENT_WAIT, &e);
    return true;
}

// ---- trigger -----------------------------------------------------------------------------------

// An asynchronous TMA load of this block that nobody waits for otherwise; NULL after an error.
static Symbol *published_copy(Resolve *r, const AstNode *ref)
{
    Symbol *f = ref->kind == AST_NAME ? scope_find(r, ref->name) : NULL;
    if (!f && ref->kind == AST_NAME) resolve_expr(r, ref); // says that the name is unknown
    if (f && f->value.kind == VAL_NONE && !f->op) return NULL;
    if (!f || !f->is_future) {
        if (f || ref->kind != AST_NAME)
            resolve_error(r, ref->loc, "name `f = tma.load.async ...`",
                          "`after` needs the name of an asynchronous load");
        return NULL;
    }
    if (f->op && f->op->op == TOP_MMA) {
        resolve_error(r, ref->loc, "wait for it, then trigger",
                      "the product '%s' cannot complete an event by itself", f->name);
    } else if (!f->async) {
        resolve_error(r, ref->loc, "make it .async, or leave out `after`",
                      "the copy '%s' is not asynchronous", f->name);
    } else if (f->op->engine != ENGINE_TMA) {
        resolve_error(r, ref->loc, "use tma.load.async, or wait for it and then trigger",
                      "the copy '%s' is not a load by the TMA unit", f->name);
    } else if (f->turns) {
        resolve_error(r, ref->loc, "wait for it, then trigger",
                      "'%s' takes part in swap or rotate; an event cannot follow it", f->name);
    } else if (f->published) {
        resolve_error(r, ref->loc, "publish an event for multiple consumers",
                      "the copy '%s' already completes the event '%s'", f->name, f->published);
    } else if (f->waited) {
        resolve_error(r, ref->loc, "trigger without `after`",
                      "the copy '%s' was already waited for", f->name);
    } else if (f->block != r->at) {
        resolve_error(r, ref->loc, "put both into the same block",
                      "the trigger stands in another loop, branch or role than the copy '%s'",
                      f->name);
        f->blamed = true;
    } else {
        return f;
    }
    return NULL;
}

static int last_set(const Resolve *r, const Expr *e)
{
    if (!e) return 0;
    if (e->op == EX_VAR) return (int)(intptr_t)map_get(r->last_set, e->name);
    int a = last_set(r, e->a), b = last_set(r, e->b), c = last_set(r, e->c);
    return MAX(a, MAX(b, c));
}

i64 resolve_copy_bytes(const Resolve *r, const TileOp *o)
{
    i64 n, bytes = dtype_bytes[r->k->buffers.at[o->dst.buffer].type];
    for (int i = 0; i < o->dst.rank; i++)
        if (expr_is_const(o->dst.extent[o->dst.dim[i]], &n)) bytes *= n;
    return bytes;
}

// trigger e after f, g: the bytes of the loads complete the event.
static void trigger_after(Resolve *r, const AstNode *s)
{
    Symbol *e = event_symbol(r, s->list.at[0]), *copy[TRIGGER_MAX_COPIES];
    int n = 0, first = 0, errors = diag_errors(r->diag);
    if (s->list.n != 1) {
        resolve_error(r, s->loc, "trigger the others in statements of their own",
                      "`trigger .. after` completes one event, found %d", s->list.n);
    }
    if (s->list2.n > TRIGGER_MAX_COPIES) {
        resolve_unsupported(r, s->loc, "more than %d loads for one event", TRIGGER_MAX_COPIES);
        return;
    }
    for (int i = 0; i < s->list2.n; i++) {
        Symbol *f = published_copy(r, s->list2.at[i]);
        if (!f) continue;
        copy[n++] = f;
        f->waited = true;
        f->published = e->name;
    }
    EventRef ref;
    if (!event_ref(r, s->list.at[0], e, &ref) || diag_errors(r->diag) != errors || !n) return;
    if (ref.step && n > 1) {
        resolve_error(r, ref.loc, "advance it in a statement of its own",
                      "the order is stepped in a trigger after %d loads", n);
        return;
    }
    i64 bytes = 0;
    for (int i = 0; i < n; i++) {
        if (copy[i]->serial < copy[first]->serial) first = i;
        if (last_set(r, ref.order) > copy[i]->serial) {
            resolve_error(
                r, ref.loc,
                arena_printf(r->arena, "'%s' starts in line %u", copy[i]->name, copy[i]->loc.line),
                "the order must not change between the load and its trigger");
            return;
        }
        bytes += resolve_copy_bytes(r, copy[i]->op);
    }
    if (bytes >= 1 << 20) {
        resolve_error(r, s->loc, "use several events",
                      "%lld bytes complete one generation; at most %d can", (long long)bytes,
                      (1 << 20) - 1);
        return;
    }
    for (int i = 0; i < n; i++) {
        TileOp *o = copy[i]->op;
        o->future = -1;
        o->event = ref.event;
        o->order = ref.order;
        o->imm = i == first ? bytes : 0;
    }
    step_order(r, &ref);
}

static bool cluster_rules(Resolve *r, const AstNode *s)
{
    if (s->list2.n)
        resolve_error(r, s->loc, "write `trigger .. after`",
                      "loads complete the event of each block that they go to, not of the whole "
                      "cluster");
    else if (!r->k->cluster)
        resolve_error(r, s->loc, "put `parallel c by 2 : cluster` around the blocks",
                      "trigger.cluster in a kernel without clusters");
    for (int i = 0; i < s->list2.n; i++) { // they are accounted for
        const AstNode *ref = s->list2.at[i];
        Symbol *f = ref->kind == AST_NAME ? scope_find(r, ref->name) : NULL;
        if (f) f->waited = true;
    }
    return r->k->cluster && !s->list2.n;
}

// The order of the first round: a constant, a loop variable from its start, or a counter that was
// set once, at its declaration; plus a constant. False: it is not known.
static bool first_order(Resolve *r, const Expr *e, OrderStart *out)
{
    i64 plus = 0, hi;
    if (expr_is_const(e, &out->first)) return true;
    if (e->op == EX_ADD && expr_is_const(e->b, &plus)) e = e->a;
    if (e->op != EX_VAR || e->name[0] != '%') return false;
    out->var = e->name;
    for (int i = 0; i < r->k->scalars.n; i++) {
        if (r->k->scalars.at[i].name != e->name) continue;
        const Expr *first = map_get(r->first_set, e->name);
        if (first) out->first = first->value + plus;
        return first != NULL;
    }
    for (int i = 0; i < r->npar; i++)
        if (r->par[i].var == e->name) return false;
    for (int i = 0; i < r->k->ngrid; i++)
        if (r->k->grid_var[i] == e->name) return false;
    if (!expr_range(r->x, e, &out->first, &hi)) return false;
    out->first += plus;
    return true;
}

// Two triggers of one ring by the same threads that both begin with the same order, each counting
// by itself: these threads would arrive twice at one generation. The ring of a `= ready` event that
// is also triggered by hand is such a case.
static void check_restart(Resolve *r, const EventRef *e)
{
    OrderStart s = {.event = e->event, .loc = e->loc, .lo = r->roles ? r->role_lo : 0,
                    .hi = r->roles ? r->role_hi : INT32_MAX};
    if (!e->order || r->guards || !first_order(r, e->order, &s)) return;
    for (int i = 0; i < r->starts.n; i++) {
        const OrderStart *o = &r->starts.at[i];
        if (o->event != s.event || o->lo >= s.hi || s.lo >= o->hi || o->first != s.first) continue;
        if (o->var && o->var == s.var) continue;
        const TileEvent *t = &r->k->events.at[e->event];
        resolve_error(r, e->loc,
                      t->ready ? "`= ready` completes the generation before; leave out the trigger "
                                 "by hand"
                               : "count on with one variable",
                      "order %lld of '%s' is triggered in line %u already", (long long)s.first,
                      t->name, o->loc.line);
        return;
    }
    vec_push(r->arena, &r->starts, s);
}

void resolve_trigger(Resolve *r, const AstNode *s)
{
    if (!r->at || r->in_apply) {
        resolve_error(r, s->loc, NULL,
                      r->at ? "a trigger inside an apply"
                            : "trigger can only stand inside `parallel`");
        return;
    }
    for (int i = 0; i < s->list.n; i++) {
        const AstNode *ref = s->list.at[i];
        if (ref->kind == AST_ERROR) return;
        const Symbol *e = event_symbol(r, ref);
        if (!e) {
            Value v = resolve_expr(r, base_of(ref));
            if (v.kind != VAL_NONE)
                resolve_error(r, ref->loc, NULL, "trigger needs an event, found %s",
                              value_describe(r, &v));
            return;
        }
        r->event_uses.at[e->value.event].completed = true;
    }
    bool cluster = s->flags & AST_F_CLUSTER;
    if (!s->list.n || !resolve_together(r, s->loc, "a trigger", LEVEL_BLOCK) ||
        (cluster && !cluster_rules(r, s)))
        return;
    if (s->list2.n) {
        trigger_after(r, s);
        return;
    }
    for (int i = 0; i < s->list.n; i++) {
        EventRef e;
        if (!event_ref(r, s->list.at[i], event_symbol(r, s->list.at[i]), &e)) continue;
        check_restart(r, &e);
        emit_event(r, TOP_TRIGGER, &e)->cluster = cluster && r->k->cluster > 1;
    }
}

// ---- products in flight ------------------------------------------------------------------------

void product_issue(Resolve *r, Symbol *f, TileOp *o)
{
    f->is_future = f->async = true;
    f->op = o;
    o->future = f->future = r->k->futures.n;
    vec_push(r->arena, &r->k->futures, resolve_plain(r, f->name));
    vec_push(r->arena, &r->products, f);
}

void product_done(Resolve *r, const Symbol *f)
{
    int n = 0;
    for (int i = 0; i < r->products.n; i++)
        if (r->products.at[i] != f) r->products.at[n++] = r->products.at[i];
    r->products.n = n;
}

static bool in_use(Resolve *r, Symbol *f, int frag, const char *done, const char *how, Loc loc)
{
    if (!f->blamed) // once is enough
        resolve_error(r, loc, arena_printf(r->arena, "write `wait %s` first", f->name),
                      "'%s' is %s while the product '%s' in line %u %s it",
                      r->k->frags.at[frag].name, done, f->name, f->loc.line, how);
    f->blamed = true;
    return false;
}

bool product_free(Resolve *r, int frag, int slot, bool write, Loc loc)
{
    for (int i = 0; i < r->products.n; i++) {
        const TileOp *o = r->products.at[i]->op;
        bool result = o->frag == frag && o->frag_slot == slot;
        bool operand = o->a.frag == frag && o->a.frag_slot == slot;
        if (result || (operand && write))
            return in_use(r, r->products.at[i], frag, write ? "written" : "read",
                          result ? "writes" : "reads", loc);
    }
    return true;
}

// Products into one accumulator follow one another in the hardware's order.
bool product_free_acc(Resolve *r, int frag, int slot, Loc loc)
{
    for (int i = 0; i < r->products.n; i++) {
        const TileOp *o = r->products.at[i]->op;
        if (o->a.frag == frag && o->a.frag_slot == slot)
            return in_use(r, r->products.at[i], frag, "written", "reads", loc);
    }
    return true;
}
