// handoff.c - what is emitted in front of a trigger, so that what the thread did before it has
// happened for those that it lets go.
//
// A proxy fence orders the thread's ordinary accesses to shared memory before the async proxy's
// that follow the trigger: without it a slot's next load may land before a read has bound (O6),
// or a product may read what was there before a store (O4). It stands in front of each trigger
// that follows such an access. A slot that is handed back with another policy
// (src/tile/handoff.c) leaves it out for the reads of that slot, and for them alone: stores into
// the slot, and stores into buffers that other roles use too, are fenced all the same.
#include "impl.h"

static bool any_loose(const Lower *l)
{
    for (int i = 0; i < l->k->buffers.n; i++)
        if (l->sync.loose[i]) return true;
    return false;
}

void sync_fenced(Lower *l)
{
    for (int i = 0; i < LOWER_MAX_BUFFERS; i++) l->sync.loose[i] = 0;
}

bool sync_is_loose(const Lower *l) { return any_loose(l); }

// Which roles use which buffer.
static void find_roles(Lower *l, const TileBlock *b, int role);

static void note_role(Lower *l, const TileView *v, int role)
{
    if (v->buffer < 0 || l->k->buffers.at[v->buffer].kind != TB_SHARED) return;
    u8 *used = &l->used_by[tile_memory(l->k, v->buffer)];
    if (*used == 0) *used = (u8)role;
    else if (*used != role) *used = USED_BY_SEVERAL;
}

static void note_value(Lower *l, const TExpr *x, int role)
{
    if (!x) return;
    if (x->kind == TX_ELEM) note_role(l, x->view, role);
    note_value(l, x->a, role);
    note_value(l, x->b, role);
    note_value(l, x->c, role);
}

static void find_roles(Lower *l, const TileBlock *b, int role)
{
    int next = role;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        // Every role has a number of its own; more than fit count as the last one, which is used by
        // several then.
        if (op->op == TOP_ROLE) next = MIN(++l->roles_seen + 1, (int)USED_BY_SEVERAL);
        int here = op->op == TOP_ROLE ? next : role;
        note_role(l, &op->dst, here);
        note_role(l, &op->src, here);
        note_role(l, &op->elem, here);
        if (op->a.frag < 0) note_role(l, &op->a.view, here);
        note_role(l, &op->b.view, here);
        note_value(l, op->value, here);
        note_value(l, op->cond, here);
        find_roles(l, &op->body, here);
        find_roles(l, &op->other, here);
    }
}

void handoff_init(Lower *l)
{
    const TileKernel *k = l->k;
    if (!k->events.n) return;
    l->protects = ARENA_ARRAY(l->m->arena, bool, (size_t)k->events.n * (size_t)k->buffers.n + 1);
    tile_protections(k, l->protects);
    find_roles(l, &k->body, 1);
}

// Of a trigger with another policy than the fence: has the thread read the slots that it hands back
// since the last fence, and is the fence due for other accesses?
static bool others_are_due(const Lower *l, const TileOp *op, bool *reads)
{
    const bool *mine = &l->protects[op->event * l->k->buffers.n];
    bool only_slots = l->k->events.at[op->event].hands;
    *reads = false;
    for (int i = 0; i < l->k->buffers.n; i++) {
        u8 loose = l->sync.loose[i];
        if (mine[i] && (loose & LOOSE_WRITTEN)) return true;
        *reads |= mine[i] && loose;
        // The audit looks at machine code, and there at all loads that are pending.
        if (op->handoff == HANDOFF_DELAY && !mine[i] && loose &&
            tile_policy(l->m, &l->k->buffers.at[i]) < HANDOFF_MEMBAR)
            return true;
        // What another role may read behind the trigger; barriers order what only this one uses.
        if (!mine[i] && !only_slots && (loose & LOOSE_WRITTEN) && l->used_by[i] == USED_BY_SEVERAL)
            return true;
    }
    return false;
}

static void fence(Lower *l)
{
    if (any_loose(l) && !l->dry) thread_emit0(&l->b, OP_FENCE_PROXY, 0);
    sync_fenced(l);
}

// Are all loose accesses reads of slots that have an unsound policy, and another trigger? A fence
// here would hide what they are there to show. All others it fences, since the audit of the
// machine code sees loads that are pending at an arrival, and not which slot it is for.
static bool left_to_others(const Lower *l, const TileOp *op)
{
    if (!l->k->events.at[op->event].hands) return false;
    for (int i = 0; i < l->k->buffers.n; i++) {
        if (!l->sync.loose[i]) continue;
        bool slot = false;
        for (int e = 0; e < l->k->events.n; e++) slot |= l->protects[e * l->k->buffers.n + i];
        u8 policy = tile_policy(l->m, &l->k->buffers.at[i]);
        if (!slot || l->protects[op->event * l->k->buffers.n + i] ||
            (l->sync.loose[i] & LOOSE_WRITTEN) || policy < HANDOFF_MEMBAR)
            return false;
    }
    return true;
}

void handoff_protect(Lower *l, const TileOp *op)
{
    bool reads;
    if (op->handoff <= HANDOFF_PROXY) {
        if (!left_to_others(l, op)) fence(l);
        return;
    }
    if (others_are_due(l, op, &reads)) {
        fence(l);
        return;
    }
    if (reads && op->handoff == HANDOFF_MEMBAR && !l->dry) thread_emit0(&l->b, OP_MEMBAR, 0);
    for (int i = 0; i < l->k->buffers.n; i++)
        if (l->protects[op->event * l->k->buffers.n + i]) l->sync.loose[i] = 0;
}
