// resolve_copy.c - transfers between memories, the futures that they make, and the rules of both.
//
// A shared buffer has one swizzle: its declaration's, or that of the copies which fill it. What is
// known about each buffer of the kernel stands in r->uses.
#include "resolve.h"

// Buffers of one name (the same statement in two scopes) are told apart by a number.
int resolve_add_buffer(Resolve *r, TileBuffer b)
{
    b.name = resolve_plain(r, b.name);
    vec_push(r->arena, &r->k->buffers, b);
    vec_push(r->arena, &r->uses, (BufferUse){0});
    return r->k->buffers.n - 1;
}

// Different slots, or boxes that provably do not meet.
static bool apart(Resolve *r, const TileView *a, const TileView *b)
{
    if (a->slot != b->slot) return true;
    if (a->buffer != b->buffer) return false; // shapes of one buffer
    for (int d = 0; d < r->k->buffers.at[a->buffer].rank; d++) {
        i64 lo, hi;
        expr_range(r->x, expr_sub(r->x, a->origin[d], expr_add(r->x, b->origin[d], b->extent[d])),
                   &lo, &hi);
        if (lo != INT64_MIN && lo >= 0) return true;
        expr_range(r->x, expr_sub(r->x, b->origin[d], expr_add(r->x, a->origin[d], a->extent[d])),
                   &lo, &hi);
        if (lo != INT64_MIN && lo >= 0) return true;
    }
    return false;
}

// A name that turns, used in the block that starts its copy and before a wait for it. Elsewhere it is
// known to the machine only.
static Symbol *turning_pending(const Resolve *r, const TileView *v)
{
    for (int i = 0; i < r->symbols.n && v->slot; i++) {
        Symbol *s = r->symbols.at[i];
        bool starts = s->turns && s->async && !s->waited && s->block == r->at;
        if (starts && s->value.kind == VAL_VIEW && s->value.view.buffer == v->buffer &&
            s->value.view.slot == v->slot)
            return s;
    }
    return NULL;
}

// Reads and writes of a place that an asynchronous copy may still be writing.
void resolve_pending(Resolve *r, const TileView *v, Loc loc)
{
    if (v->buffer < 0 || v->buffer >= r->uses.n) return;
    Symbol *s = r->uses.at[tile_memory(r->k, v->buffer)].pending, *turns = turning_pending(r, v);
    if (turns) s = turns;
    if (!s || s->waited || s->blamed || s->value.kind != VAL_VIEW || apart(r, v, &s->value.view))
        return;
    resolve_error(r, loc, arena_printf(r->arena, "write `wait %s` first", s->name),
                  "'%s' is used while the copy '%s' into it is in flight",
                  turns ? s->name : r->k->buffers.at[tile_memory(r->k, v->buffer)].name, s->name);
    s->blamed = true; // once is enough
}

// ---- rules -------------------------------------------------------------------------------------

typedef struct {
    const AstNode *s;
    Value src, dst;
    bool src_shared, dst_shared, local, tma, async; // local: one side belongs to each thread
} Transfer;

static bool is_shared(const Resolve *r, const Value *v)
{
    return r->k->buffers.at[v->view.buffer].kind == TB_SHARED;
}

static bool is_local(const Resolve *r, const Value *v)
{
    return r->k->buffers.at[v->view.buffer].kind == TB_LOCAL;
}

// Which memory to which, and which modifiers each engine has.
static bool check_direction(Resolve *r, const Transfer *t)
{
    const AstNode *s = t->s;
    if (!t->src_shared && !t->dst_shared && !t->local) {
        resolve_error(r, s->loc, "go through shared memory: `x = dma.copy src => shared;`",
                      "a copy from global to global memory");
        return false;
    }
    if (t->tma && (t->src_shared == t->dst_shared || t->local)) {
        resolve_error(r, s->loc, "dma.copy can",
                      "tma copies between global and shared memory only");
        return false;
    }
    if (s->op == XFER_TMA_LOAD && !t->dst_shared) {
        resolve_error(r, s->loc, "`tma.copy` goes in both directions",
                      "tma.load goes from global to shared memory only");
        return false;
    }
    if (t->async && (t->src_shared || !t->dst_shared || t->local)) {
        resolve_error(r, s->loc, "leave out .async",
                      "an asynchronous copy goes from global to shared memory only");
        return false;
    }
    if (s->evict != EVICT_NONE && s->op != XFER_TMA_LOAD) {
        resolve_error(r, s->loc, "tma.load takes it",
                      "an eviction hint on a transfer that is no tma.load");
        return false;
    }
    if (s->promote && !t->tma) {
        resolve_error(r, s->loc, "tma.load and tma.copy take it",
                      "`.promote` belongs to a tensor map; dma.copy has none");
        return false;
    }
    return true;
}

// Element counts per dimension: equal, or (dma) the source smaller.
static bool check_shapes(Resolve *r, const Transfer *t)
{
    const AstNode *s = t->s;
    const TileView *a = &t->src.view, *b = &t->dst.view;
    if (t->src.type != t->dst.type) {
        resolve_error(r, s->loc, "a copy does not convert; equal element types are required",
                      "a copy from %s to %s", dtype_name[t->src.type], dtype_name[t->dst.type]);
        return false;
    }
    if (a->rank != b->rank) {
        resolve_error(r, s->loc, "`.sqz()` drops dimensions of extent 1",
                      "the source has rank %d (%s), the destination rank %d (%s)", a->rank,
                      view_text(r, &t->src), b->rank, view_text(r, &t->dst));
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        const Expr *x = a->extent[a->dim[i]], *y = b->extent[b->dim[i]];
        if (x == y) continue;
        i64 lo, hi;
        bool bounded = expr_range(r->x, expr_sub(r->x, y, x), &lo, &hi);
        bool differ = (lo != INT64_MIN && lo > 0) || (hi != INT64_MAX && hi < 0);
        if (!t->tma && lo != INT64_MIN && lo >= 0 && x->op != EX_CONST) continue; // a shorter tail
        if (!bounded || !differ || lo != hi) {
            if (resolve_host_only(r, x) && resolve_host_only(r, y) && !(bounded && differ)) {
                PlanCheck c = {
                    expr_bin(r->x, EX_EQ, x, y),
                    arena_printf(r->arena, "%s == %s", resolve_text(r, x), resolve_text(r, y)),
                    s->loc};
                vec_push(r->arena, &r->plan->checks, c);
                continue;
            }
        }
        resolve_error(r, s->loc, "both sides need equal shapes",
                      "dimension %d has extent %s in the source and %s in the destination", i,
                      resolve_text(r, x), resolve_text(r, y));
        return false;
    }
    return true;
}

// A tile for all blocks of a cluster: each brings rows / blocks of its rows to all of them, whole
// groups of eight, so that every part begins at a place that the unit can write to.
static bool check_multicast(Resolve *r, const Transfer *t)
{
    const AstNode *s = t->s;
    const TileView *v = &t->dst.view;
    int n = r->k->cluster;
    i64 rows = 0;
    if (!t->tma || !t->dst_shared) {
        resolve_error(r, s->loc, "use tma.load.async",
                      "`.multicast` on a copy that is no load by the TMA unit");
    } else if (!n) {
        resolve_error(r, s->loc, "put `parallel c by 2 : cluster` around the blocks",
                      "`.multicast` in a kernel without clusters");
    } else if (s->evict != EVICT_NONE) {
        resolve_error(r, s->loc, "leave one of them out",
                      "an eviction hint on a load with `.multicast`");
    } else if (v->rank != 2 || !expr_is_const(v->extent[v->dim[0]], &rows) || rows % (8 * n)) {
        resolve_error(r, s->loc, arena_printf(r->arena, "take a multiple of %d rows", 8 * n),
                      "each of the %d blocks of a cluster brings its part of a tile with "
                      "`.multicast`, whole groups of 8 rows; this one is %s",
                      n, view_text(r, &t->dst));
    } else {
        return true;
    }
    return false;
}

// The innermost parallel level that the place of a tile depends on.
static int view_level(const Resolve *r, const TileView *v)
{
    int level = resolve_expr_level(r, v->slot);
    for (int d = 0; d < r->k->buffers.at[v->buffer].rank; d++)
        level = MAX(level, resolve_expr_level(r, v->origin[d]));
    return level;
}

// Parts of the block that bring different tiles need different places for them.
static bool check_places(Resolve *r, const Transfer *t)
{
    int from = view_level(r, &t->src.view), to = view_level(r, &t->dst.view);
    if (!t->dst_shared || from == LEVEL_BLOCK || to != LEVEL_BLOCK) return true;
    resolve_error(r, t->s->loc, "index the destination with the same variable, such as `x[g]`",
                  "every '%s' brings its own tile into the one place '%s'", tile_level_name[from],
                  r->k->buffers.at[t->dst.view.buffer].name);
    return false;
}

// What the TMA unit can bring: boxes of constant extents whose rows are whole 16-byte units, from a
// place that is the same for all who execute the statement.
static bool check_tma(Resolve *r, const Transfer *t)
{
    const Value *g = t->src_shared ? &t->dst : &t->src;
    Loc loc = t->s->loc;
    i64 n = 0, bytes = dtype_bytes[g->type];
    for (int i = 0; i < g->view.rank; i++) {
        const Expr *e = g->view.extent[g->view.dim[i]];
        if (expr_is_const(e, &n)) continue;
        resolve_error(r, loc, "cut tiles of constant extents, or use dma.copy",
                      "a tma copy needs a box of constant extents; this one is %s",
                      view_text(r, g));
        return false;
    }
    int last = r->k->buffers.at[g->view.buffer].rank - 1;
    if (!g->view.rank || g->view.dim[g->view.rank - 1] != last || n * bytes % 16) {
        resolve_error(r, loc, "use dma.copy for other tiles",
                      "the rows of a tma box are whole multiples of 16 bytes of the last "
                      "dimension; these have %lld bytes",
                      g->view.rank && g->view.dim[g->view.rank - 1] == last ? (long long)(n * bytes)
                                                                            : (long long)bytes);
        return false;
    }
    const Expr *step = r->k->buffers.at[g->view.buffer].stride[last];
    if (step && !(expr_is_const(step, &n) && n == 1)) {
        resolve_error(r, loc, "use dma.copy",
                      "the rows of a tma box are elements side by side; these lie %s apart",
                      resolve_text(r, step));
        return false;
    }
    // One thread issues the load: its place may not depend on who executes the statement.
    if (t->src_shared) return true;
    for (int d = 0; d <= last; d++) {
        int level = resolve_expr_level(r, g->view.origin[d]);
        if (level == LEVEL_BLOCK) continue;
        resolve_error(r, loc, "load the tile of the whole block and let each part read its own",
                      "the source of a tma load depends on a '%s' index", tile_level_name[level]);
        return false;
    }
    return true;
}

static SmemLayout layout_of(const AstNode *s)
{
    return s->swizzle == 128  ? SL_SWZ128
           : s->swizzle == 64 ? SL_SWZ64
           : s->swizzle == 32 ? SL_SWZ32
                              : SL_ROW;
}

// The swizzle written at `s`, a declaration or a copy, becomes the buffer's.
bool resolve_swizzle(Resolve *r, int buffer, const AstNode *s)
{
    TileBuffer *b = &r->k->buffers.at[buffer];
    BufferUse *use = &r->uses.at[buffer];
    SmemLayout layout = layout_of(s);
    i64 cols = 0;
    expr_is_const(b->dim[b->rank - 1], &cols);
    int span = smem_layout[layout].span;
    if (cols * dtype_bytes[b->type] % span || !cols) {
        resolve_error(
            r, s->loc, NULL,
            "swizzle %d needs rows of a multiple of %d bytes; '%s' has rows of %lld bytes", span,
            span, b->name, (long long)(cols * dtype_bytes[b->type]));
        return false;
    }
    Loc other = use->swizzle_loc.line ? use->swizzle_loc : use->plain_loc;
    if ((use->swizzle_loc.line && b->layout != layout) || use->plain_loc.line) {
        resolve_error(r, s->loc, "one buffer has one swizzle",
                      "'%s' gets swizzle %d here, but %s in line %u", b->name, span,
                      use->swizzle_loc.line ? "another one" : "none", other.line);
        return false;
    }
    if (!use->swizzle_loc.line) use->swizzle_loc = s->loc;
    use->swizzle_declared |= s->kind == AST_BUFFER_DECL;
    b->layout = layout;
    return true;
}

// The layout that the copy gives to its shared side, or finds there.
static bool apply_swizzle(Resolve *r, const Transfer *t, SmemLayout *out)
{
    const AstNode *s = t->s;
    *out = layout_of(s);
    const Value *shared = t->dst_shared ? &t->dst : &t->src;
    if (!t->dst_shared && !t->src_shared) {
        if (*out == SL_ROW) return true;
        resolve_error(r, s->loc, "leave it out", "a swizzle, and neither side is in shared memory");
        return false;
    }
    int id = tile_memory(r->k, shared->view.buffer);
    TileBuffer *b = &r->k->buffers.at[id];
    BufferUse *use = &r->uses.at[id];
    bool fills = t->dst_shared && !t->src_shared && !t->local;
    if (*out == SL_ROW && fills && use->swizzle_declared) *out = (SmemLayout)b->layout;
    if (*out == SL_ROW) {
        if (fills && use->swizzle_loc.line) {
            resolve_error(
                r, s->loc,
                arena_printf(r->arena, "write `.swiz<%d>` here too", smem_layout[b->layout].span),
                "'%s' is filled without a swizzle here and with one in line %u", b->name,
                use->swizzle_loc.line);
            return false;
        }
        if (fills && !use->plain_loc.line) use->plain_loc = s->loc;
        return true;
    }
    return !s->swizzle || resolve_swizzle(r, id, s);
}

// ---- destinations ------------------------------------------------------------------------------

// The placeholder that a copy into new shared memory fills, or NULL.
static Symbol *placeholder_of(const Resolve *r, const AstNode *s)
{
    if (!s->name || s->target || s->storage != STOR_SHARED) return NULL;
    Symbol *f = scope_find(r, s->name);
    return f && f->placeholder ? f : NULL;
}

// `x = dma.copy src => shared`: the buffer that the copy fills.
static bool implicit_buffer(Resolve *r, const AstNode *s, const Value *src, Value *out)
{
    if (s->storage != STOR_SHARED && s->storage != STOR_LOCAL) {
        resolve_error(r, s->loc, "`=> shared` and `=> local` exist", "a copy into new %s memory",
                      ast_storage_name(s->storage));
        return false;
    }
    bool local = s->storage == STOR_LOCAL;
    if (!s->name) {
        resolve_error(r, s->loc, "write `x = dma.copy src => shared;`",
                      "a copy into new %s memory needs a name", local ? "local" : "shared");
        return false;
    }
    TileBuffer b = {.name = s->name,
                    .kind = local ? TB_LOCAL : TB_SHARED,
                    .type = src->type,
                    .rank = src->view.rank,
                    .param = -1,
                    .slots = 1,
                    .handoff = resolve_handoff(r, s),
                    .loc = s->loc};
    for (int i = 0; i < b.rank; i++) {
        i64 n;
        b.dim[i] = src->view.extent[src->view.dim[i]];
        if (expr_is_const(b.dim[i], &n) && n > 0) continue;
        resolve_error(r, s->value->loc, "cut a tile: `.subspan(64, 64).at(i, j)`",
                      "a shared buffer needs constant extents; the source is %s",
                      view_text(r, src));
        return false;
    }
    if (local && b.rank > RESOLVE_LOCAL_RANK) {
        resolve_error(r, s->loc, "drop dimensions of extent 1 with .sqz()",
                      "a local buffer of rank %d; at most %d", b.rank, RESOLVE_LOCAL_RANK);
        return false;
    }
    Symbol *any = placeholder_of(r, s);
    if (any) return resolve_fill_placeholder(r, s, any, b, out);
    *out = resolve_declare_buffer(r, s, b);
    return true;
}

// Forms of the language that this compiler does not have yet.
static bool refuse_later(Resolve *r, const AstNode *s)
{
    static const char *const ops[] = {[XFER_DMA_PAD] = "dma.pad",
                                      [XFER_DMA_TRANSP] = "dma.transp"};
    const char *what = s->op < COUNT(ops) ? ops[s->op] : NULL;
    if (s->flags & AST_F_SPARSE) what = ".sp on a transfer";
    if (s->list3.n) what = "`after` on a transfer";
    if (what) resolve_unsupported(r, s->loc, "%s", what);
    return what != NULL;
}

// Both ends and every rule that does not depend on the swizzle. The order decides which of several
// faults is reported: structure, names, memories, shapes, engine.
static bool prepare(Resolve *r, const AstNode *s, Transfer *t)
{
    *t = (Transfer){.s = s, .async = s->flags & AST_F_ASYNC, .tma = s->op != XFER_DMA_COPY};
    if (refuse_later(r, s)) return false;
    if (!r->at) {
        resolve_error(r, s->loc, NULL, "a transfer can only stand inside `parallel`");
        return false;
    }
    if (r->in_apply) {
        resolve_error(r, s->loc, "put it before or behind the apply", "a transfer inside an apply");
        return false;
    }
    if (r->roles && !t->tma && (r->role_lo % 32 || r->role_hi % 32)) {
        resolve_unsupported(r, s->loc, "dma.copy by a part of a warp (threads %d to %d)",
                            r->role_lo, r->role_hi - 1);
        return false;
    }
    if (t->async && s->op == XFER_TMA_COPY)
        resolve_warning(r, s->loc, "write tma.load.async",
                        "tma.copy.async is the old spelling of a load");
    if (t->async && !s->name) {
        resolve_error(r, s->loc, "write `f = tma.load.async ...; wait f;`",
                      "an asynchronous copy needs a name to wait for");
        return false;
    }
    if (!resolve_need_view(r, s->value, "the source of a transfer", &t->src)) return false;
    if (s->target ? !resolve_need_view(r, s->target, "the destination of a transfer", &t->dst)
                  : !implicit_buffer(r, s, &t->src, &t->dst))
        return false;
    t->src_shared = is_shared(r, &t->src);
    t->dst_shared = is_shared(r, &t->dst);
    t->local = is_local(r, &t->src) || is_local(r, &t->dst);
    if (!t->local && !resolve_together(r, s->loc, "a transfer", LEVEL_BLOCK)) return false;
    return check_direction(r, t) && check_shapes(r, t) && (!t->tma || check_tma(r, t)) &&
           (!(s->flags & AST_F_MULTICAST) || check_multicast(r, t)) && check_places(r, t);
}

// A load whose name turns completes a slot of the names' event.
static bool turning_load(Resolve *r, const Transfer *t, const Symbol *any)
{
    const AstNode *s = t->s;
    if (!t->tma) {
        resolve_error(r, s->loc, "write tma.load.async, or dma.copy.async for all of them",
                      "names that turn are of loads by the TMA unit, but for this one");
    } else if (s->flags & AST_F_MULTICAST) {
        resolve_error(r, s->loc, "use a ring of events",
                      "`.multicast` of a load whose name turns");
    } else {
        return !any || resolve_turn_here(r, any, s->loc);
    }
    return false;
}

// [x =] dma.copy src => dst | shared. A refused copy still defines its name, silently.
void resolve_copy(Resolve *r, const AstNode *s)
{
    Transfer t;
    SmemLayout swizzle;
    if (s->op == XFER_ANY) {
        resolve_placeholder(r, s);
        return;
    }
    if (s->attrs.n && s->target)
        resolve_error(r, s->attrs.at[0]->loc, "put it in front of the buffer's declaration",
                      "an attribute of a copy into a buffer that is declared elsewhere");
    Symbol *any = placeholder_of(r, s);
    bool turns = any ? any->turns : resolve_turns(r, s);
    bool ok = prepare(r, s, &t) && apply_swizzle(r, &t, &swizzle);
    int event = ok && turns ? resolve_turn_event(r, any ? any->placeholder : s) : -1;
    if (event >= 0) ok = turning_load(r, &t, any);
    if (!ok) {
        if (s->name && !any) scope_add(r, s->name, s->loc, value_none());
        return;
    }
    resolve_pending(r, &t.src.view, s->value->loc);
    if (s->target) resolve_pending(r, &t.dst.view, s->target->loc);
    view_used(r, &t.src.view, false, s->value->loc);
    view_used(r, &t.dst.view, true, s->target ? s->target->loc : s->loc);
    TileOp *o = resolve_emit(r, TOP_COPY, s->loc);
    o->dst = t.dst.view;
    o->src = t.src.view;
    o->engine = t.tma ? ENGINE_TMA : ENGINE_DMA;
    o->hint = s->evict == EVICT_FIRST  ? HINT_EVICT_FIRST
              : s->evict == EVICT_LAST ? HINT_EVICT_LAST
                                       : HINT_NONE;
    o->swizzle = swizzle;
    o->promote = s->promote;
    o->cluster = s->flags & AST_F_MULTICAST && r->k->cluster > 1;
    if (!s->name) return;
    Symbol *f = any ? any : scope_add(r, s->name, s->loc, t.dst);
    if (event >= 0) {
        o->event = event;
        o->order = t.dst.view.slot;
        o->imm = resolve_copy_bytes(r, o);
    }
    if (!f) return;
    f->is_future = true;
    f->turns = turns;
    f->waited = false;
    f->loop_depth = r->loop_depth; // a placeholder starts here too
    f->async = t.async;
    f->op = o;
    f->block = r->at;
    f->serial = r->serial;
    if (event >= 0) {
        if (!t.async) resolve_turn_wait(r, f, event, s->loc);
        return;
    }
    if (!t.async) return;
    o->future = f->future = r->k->futures.n;
    vec_push(r->arena, &r->k->futures, resolve_plain(r, s->name));
    if (!turns) r->uses.at[tile_memory(r->k, t.dst.view.buffer)].pending = f;
}

// ---- wait --------------------------------------------------------------------------------------

// wait f: f is asynchronous, was not waited for, and starts as often as the wait stands.
static void wait_one(Resolve *r, const AstNode *ref)
{
    if (ref->kind == AST_ERROR || resolve_event_wait(r, ref)) return;
    const AstNode *base = ref;
    while (base->kind == AST_INDEX || base->kind == AST_AT) base = base->value;
    Symbol *s = base->kind == AST_NAME ? scope_find(r, base->name) : NULL;
    if (!s) {
        Value v = resolve_expr(r, base);
        if (v.kind != VAL_NONE)
            resolve_error(r, ref->loc, NULL, "wait needs a future, found %s",
                          value_describe(r, &v));
        return;
    }
    if (s->value.kind == VAL_NONE) return;
    if (!s->is_future || base != ref) {
        resolve_error(r, ref->loc, NULL, "wait needs a future, found %s",
                      value_describe(r, &s->value));
        return;
    }
    if (!s->async) {
        resolve_error(r, ref->loc, "leave the wait out, or make the copy .async",
                      "the copy '%s' is not asynchronous; there is nothing to wait for", s->name);
        return;
    }
    int event = s->turns ? resolve_turn_event(r, s->placeholder ? s->placeholder
                                                 : r->uses.at[s->value.view.buffer].decl)
                         : -1;
    if (event >= 0) {
        if (resolve_turn_here(r, s, ref->loc) &&
            resolve_together(r, ref->loc, "a wait", LEVEL_BLOCK))
            resolve_turn_wait(r, s, event, ref->loc);
        s->waited = true;
        return;
    }
    if (s->turns) { // which copy it is, the machine knows
        s->waited = true;
        if (resolve_together(r, ref->loc, "a wait", LEVEL_BLOCK))
            resolve_emit(r, TOP_WAIT, ref->loc)->future = s->future;
        return;
    }
    if (s->published) {
        resolve_error(r, ref->loc, arena_printf(r->arena, "wait for '%s'", s->published),
                      "the copy '%s' completes the event '%s'; it cannot be waited for itself",
                      s->name, s->published);
        return;
    }
    if (s->waited) {
        resolve_error(r, ref->loc, NULL, "'%s' is waited for a second time", s->name);
        return;
    }
    if (r->loop_depth > s->loop_depth) {
        resolve_error(r, ref->loc, "wait in front of the loop",
                      "'%s' starts once but this wait stands in a loop", s->name);
        s->waited = true;
        product_done(r, s);
        return;
    }
    s->waited = true;
    bool product = s->op->op == TOP_MMA;
    if (product) product_done(r, s);
    if (r->roles > s->roles) {
        resolve_error(r, ref->loc, "wait where it starts, or hand it over with an event",
                      "'%s' starts outside of this inthreads", s->name);
        return;
    }
    if (!resolve_together(r, ref->loc, "a wait", product ? LEVEL_GROUP4 : LEVEL_BLOCK)) return;
    TileOp *o = resolve_emit(r, TOP_WAIT, ref->loc);
    o->future = s->future;
}

void resolve_wait(Resolve *r, const AstNode *s)
{
    if (!r->at || r->in_apply) {
        resolve_error(r, s->loc, NULL,
                      r->at ? "a wait inside an apply" : "wait can only stand inside `parallel`");
        return;
    }
    for (int i = 0; i < s->list.n; i++) wait_one(r, s->list.at[i]);
}
