// cluster.c - clusters: what may differ between the blocks of one, and who arrives where.
//
// A multicast load and an arrival in all blocks only work when every block of the cluster comes to
// them equally often and for the same tile. A value differs when it depends on the block's place in
// the cluster: on its index in x other than through index / blocks, on memory read at such a place,
// or on shared memory and fragments, of which nothing is known.
#include "impl.h"

// One block of the cluster: x = blocks * cluster + place.
typedef struct {
    const Lower *l;
    const Expr *x;
} Place;

static const Expr *index_at(void *ctx, const Expr *var)
{
    const Place *p = ctx;
    return var->name == p->l->k->grid_var[0] ? p->x : NULL;
}

static bool names_differing(const Lower *l, const Expr *e)
{
    if (!e) return false;
    if (e->op == EX_VAR) return map_get(l->differs, e->name) != NULL;
    return names_differing(l, e->a) || names_differing(l, e->b) || names_differing(l, e->c);
}

// Does the index come out differently in two blocks of a cluster? Expressions are unique, so equal
// ones are one pointer.
static bool differs(Lower *l, const Expr *e)
{
    const Expr *first = NULL, *n = lower_const(l, l->tf->cluster);
    if (!e || !expr_uses(e, l->k->grid_var[0])) return names_differing(l, e);
    const char *name = intern(l->m->names, "%cluster");
    expr_set_range(l->x, name, 0, INT32_MAX / l->tf->cluster);
    const Expr *base = expr_mul(l->x, expr_var(l->x, name), n);
    for (int i = 0; i < l->tf->cluster; i++) {
        Place p = {l, expr_add(l->x, base, lower_const(l, i))};
        const Expr *at = expr_subst(l->x, e, index_at, &p);
        if (first && at != first) return true;
        first = at;
    }
    return names_differing(l, e);
}

static bool view_differs(Lower *l, const TileView *v)
{
    bool any = differs(l, v->slot);
    for (int d = 0; d < l->k->buffers.at[v->buffer].rank; d++) any |= differs(l, v->origin[d]);
    return any;
}

static bool value_differs(Lower *l, const TExpr *e)
{
    if (!e) return false;
    switch (e->kind) {
    case TX_FRAG: return true;
    case TX_SCALAR: return map_get(l->differs, l->k->scalars.at[e->scalar].name) != NULL;
    case TX_INDEX: return differs(l, e->index);
    case TX_ELEM:
        return l->k->buffers.at[e->view->buffer].kind != TB_GLOBAL || view_differs(l, e->view);
    default: return value_differs(l, e->a) || value_differs(l, e->b) || value_differs(l, e->c);
    }
}

static bool note(Lower *l, const char *name)
{
    if (map_get(l->differs, name)) return false;
    map_put(l->differs, name, l);
    return true;
}

// Finds variables that differ; true when there was a new one. `apart`: the blocks of a cluster may
// come here unequally often.
static bool find_differing(Lower *l, const TileBlock *b, bool apart)
{
    bool found = false;
    for (int i = 0; i < b->n; i++) {
        const TileOp *op = b->at[i];
        bool inside = apart;
        if (op->op == TOP_IF) inside |= value_differs(l, op->cond);
        if (op->op == TOP_FOR && (differs(l, op->lo) || differs(l, op->hi))) {
            inside = true;
            found |= note(l, op->var);
        }
        if (op->op == TOP_SET && (apart || value_differs(l, op->value)))
            found |= note(l, l->k->scalars.at[op->scalar].name);
        found |= find_differing(l, &op->body, inside);
        found |= find_differing(l, &op->other, inside);
    }
    return found;
}

static void check_together(Lower *l, const TileBlock *b, bool apart)
{
    for (int i = 0; i < b->n && !l->failed; i++) {
        const TileOp *op = b->at[i];
        bool inside = apart;
        if (op->op == TOP_IF) inside |= value_differs(l, op->cond);
        if (op->op == TOP_FOR) inside |= differs(l, op->lo) || differs(l, op->hi);
        if (op->cluster) {
            l->uses_peers = true;
            if (apart || differs(l, op->order))
                lower_error(l, op->loc,
                            "let loops, conditions and orders depend on the cluster, such as "
                            "`block / 2`, not on the block in it",
                            "the blocks of a cluster may come to this %s unequally often",
                            op->op == TOP_COPY ? "load with .multicast" : "trigger.cluster");
            else if (op->op == TOP_COPY && (view_differs(l, &op->src) || view_differs(l, &op->dst)))
                lower_error(l, op->loc, "leave out .multicast, or index the tile by the cluster, "
                                        "such as `block / 2`",
                            "the tile of this load with .multicast differs between the blocks of a "
                            "cluster");
        }
        check_together(l, &op->body, inside);
        check_together(l, &op->other, inside);
    }
}

// Before anything is lowered: the variables that differ, as the greatest fixed point, and the rules
// that rest on them.
void cluster_init(Lower *l)
{
    l->differs = map_new(l->m->arena);
    if (l->tf->cluster < 2) return;
    while (find_differing(l, &l->k->body, false)) continue;
    check_together(l, &l->k->body, false);
}

// The block's place in its cluster, 0 to blocks - 1.
const Expr *cluster_rank(Lower *l)
{
    if (l->rank < 0) {
        PrologueMark m = lower_enter_prologue(l);
        l->rank = lower_new_reg(l, "rank", RC_B32, 1);
        lower_loop_var(l, l->rank, 0, l->tf->cluster - 1);
        EMIT(&l->b, OP_MOV, TT_U32, opd_reg(l->rank, 0), opd_sreg(SR_CLUSTER_RANK));
        lower_leave_prologue(l, m);
    }
    return lower_reg_expr(l, l->rank);
}

// One arrival in each block of the cluster: of a warp by its first lanes, one for each block; of
// single threads, each in all blocks. The arrival of `publishes` also carries ordinary accesses of
// the arriving threads to the other blocks; without it, it says that products were waited for, and
// costs an eighth.
void cluster_arrive(Lower *l, Address a, bool warps, bool publishes)
{
    Operand outer = l->b.guard, block = opd_imm(0);
    int n = warps ? 1 : l->tf->cluster;
    if (warps) {
        PrologueMark m = lower_enter_prologue(l);
        const Expr *lane = expr_bin(l->x, EX_MOD, lower_reg_expr(l, lower_tid(l)),
                                    lower_const(l, 32));
        if (l->peer_lane < 0) {
            block = lower_index(l, lane);
            l->peer_lane = lower_new_reg(l, "lane", RC_B32, 1);
            lower_loop_var(l, l->peer_lane, 0, 31);
            EMIT(&l->b, OP_MOV, TT_B32, opd_reg(l->peer_lane, 0), block);
            l->peer_lanes = lower_compare(l, CMP_LT, lower_reg_expr(l, l->peer_lane),
                                          lower_const(l, l->tf->cluster)).reg;
        }
        lower_leave_prologue(l, m);
        block = opd_reg(l->peer_lane, 0);
        thread_emit0(&l->b, OP_BAR_WARP, 0);
        l->b.guard = opd_reg(l->peer_lanes, 0);
    }
    for (int i = 0; i < n; i++) {
        if (!warps) block = opd_imm(i);
        ThreadOp *x = EMIT(&l->b, OP_MBAR_ARRIVE_CLUSTER, TT_NONE, a.base, a.offset, block);
        if (publishes) x->flags |= OPF_RELEASE;
        thread_mem(&l->b, x, a.ref);
    }
    l->b.guard = outer;
}

// Without an event all blocks meet before a multicast load: then the readers of all of them are
// done with the place that it fills, and have waited for the load before it.
void cluster_meet(Lower *l, const TileOp *load)
{
    if (l->role.hi - l->role.lo != l->tf->threads || l->uniform_depth)
        lower_error(l, load->loc, "give it to an event: `trigger e after f`",
                    "not supported yet: a load with .multicast by a part of the block, without an "
                    "event");
    else
        thread_emit0(&l->b, OP_BAR_CLUSTER, 0);
}

// No block may end while another one still arrives at its barriers or writes to it.
void cluster_end(Lower *l)
{
    if (l->uses_peers) thread_emit0(&l->b, OP_BAR_CLUSTER, 0);
}
