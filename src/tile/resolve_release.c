// resolve_release.c - a rule over a whole kernel: a slot is not handed back while a product that
// was not waited for still reads it.
//
// Which event hands back which buffer is read off the side that fills it (protect.c). Where orders
// and slots cannot be shown to be the same, the rule says nothing; the emulator watches the rest.
#include "resolve.h"

typedef struct {
    const TileOp *op;
    bool known; // the variables of its slots are what they were at its issue
} Reader;

typedef struct {
    Resolve *r;
    bool *protects; // event * buffers + buffer
    const TileOp **multicast; // per event: a load for all blocks of the cluster that it protects
    VEC(Reader) readers;
} Release;

static bool *protection(const Release *c, int event, int buffer)
{
    buffer = tile_memory(c->r->k, buffer);
    return &c->protects[event * c->r->k->buffers.n + buffer];
}

// A load for all blocks of the cluster that an event protects, by the wait in front of it.
static void find_multicast(Release *c, const TileBlock *b)
{
    int event = -1;
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        find_multicast(c, &o->body);
        find_multicast(c, &o->other);
        if (o->op == TOP_EVENT_WAIT) event = o->event;
        if (o->op == TOP_COPY && o->event >= 0 && o->cluster && event >= 0 &&
            *protection(c, event, o->dst.buffer))
            c->multicast[event] = o;
    }
}

// A slot by what it was computed from.
static const Expr *made(const Resolve *r, const Expr *e)
{
    const Expr *of = e && e->op == EX_VAR ? map_get(r->made_of, e->name) : NULL;
    return of ? of : e;
}

static bool reads_slot(const Release *c, const TileView *v, const TileOp *trigger)
{
    if (v->buffer < 0 || !*protection(c, trigger->event, v->buffer)) return false;
    const TileBuffer *b = &c->r->k->buffers.at[v->buffer];
    if (b->slots == 1) return true;
    if (!trigger->order || !v->slot) return false;
    const Expr *n = expr_const(c->r->x, c->r->k->events.at[trigger->event].slots);
    return made(c->r, v->slot) == expr_bin(c->r->x, EX_MOD, trigger->order, n);
}

static void check_trigger(Release *c, const TileOp *t)
{
    Resolve *r = c->r;
    for (int i = 0; i < c->readers.n; i++) {
        const TileOp *o = c->readers.at[i].op;
        const TileView *v = reads_slot(c, &o->b.view, t)                    ? &o->b.view
                            : o->a.frag < 0 && reads_slot(c, &o->a.view, t) ? &o->a.view
                                                                            : NULL;
        if (!c->readers.at[i].known || !v) continue;
        const char *name = r->k->futures.at[o->future];
        resolve_error(r, t->loc, arena_printf(r->arena, "write `wait %s` first", name),
                      "'%s' hands back '%s' while the product '%s' of line %u still reads it",
                      r->k->events.at[t->event].name, r->k->buffers.at[v->buffer].name, name,
                      o->loc.line);
        c->readers.at[i].known = false; // once is enough
    }
}

// A slot that every block of the cluster writes to is handed back to all of them.
static void check_cluster(Release *c, const TileOp *t)
{
    const TileOp *load = c->multicast[t->event];
    if (!load || t->cluster) return;
    resolve_error(c->r, t->loc, "write `trigger.cluster`",
                  "'%s' hands '%s' back to this block only, but all blocks of the cluster write to "
                  "it (line %u)",
                  c->r->k->events.at[t->event].name, c->r->k->buffers.at[load->dst.buffer].name,
                  load->loc.line);
    c->multicast[t->event] = NULL; // once is enough
}

static bool uses(const Release *c, const TileView *v, const char *var)
{
    return v->slot && (expr_uses(v->slot, var) || expr_uses(made(c->r, v->slot), var));
}

static void walk(Release *c, const TileBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        int n = o->op == TOP_MMA && o->future < 0 ? c->readers.n : 0; // it waits for all
        if (o->op == TOP_MMA && o->future >= 0)
            vec_push(c->r->arena, &c->readers, ((Reader){o, true}));
        if (o->op == TOP_WAIT)
            for (int k = 0; k < c->readers.n; k++)
                if (c->readers.at[k].op->future == o->future) n = k + 1; // and those before it
        for (int k = n; k < c->readers.n; k++) c->readers.at[k - n] = c->readers.at[k];
        c->readers.n -= n;
        for (int k = 0; o->op == TOP_SET && k < c->readers.n; k++) {
            const char *var = c->r->k->scalars.at[o->scalar].name;
            const TileOp *p = c->readers.at[k].op;
            if (uses(c, &p->b.view, var) || (p->a.frag < 0 && uses(c, &p->a.view, var)))
                c->readers.at[k].known = false;
        }
        if (o->op == TOP_TRIGGER) check_trigger(c, o);
        if (o->op == TOP_TRIGGER) check_cluster(c, o);
        walk(c, &o->body);
        walk(c, &o->other);
    }
}

void resolve_check_releases(Resolve *r)
{
    Release c = {.r = r};
    if (!r->k->events.n || r->first_walk) return;
    c.protects = ARENA_ARRAY(r->arena, bool, (size_t)r->k->events.n *(size_t)r->k->buffers.n + 1);
    c.multicast = ARENA_ARRAY(r->arena, const TileOp *, r->k->events.n);
    tile_protections(r->k, c.protects);
    find_multicast(&c, &r->k->body);
    walk(&c, &r->k->body);
}
