// search.c - walks through the states of a model and looks for broken rules.
//
// Full search: from each state, the next step of every entity; equal warps are sorted, so they count
// as one. The reduced search, which is the default, looks at the entities two at a time: the two
// take their steps in every order, and all others run as far as they can between them.
//
// Why nothing is lost. (1) Every agent is one line of steps. As long as no step takes another
// agent's next step away, and each arrival counts for one phase on all schedules, two steps of
// different agents that are both possible lead to the same state in either order. Then the states
// that can be reached are the sets of steps that are closed under "needs", and letting others run
// ahead closes off no position of the two that are held: it only adds steps that would remain
// possible. So for each two entities all pairs of positions are seen that any schedule can produce,
// and a race is a matter of two: an access that is made, and one that stands open. (2) Where the
// condition of (1) fails, one agent stands at a wait, an arrival or a barrier, and another one
// completes the phase under it. The first such failure of a run lies behind a part where (1) holds,
// and again it is a matter of two: it is seen with these two held. It is a fault of its own (O10,
// O11: the step counts for two generations) and is reported, so the reduction is never relied on
// where it would not hold. (3) A deadlock is a state without a step; under (1) there is at most one
// and every search ends in it.
#include "model.h"

#include <stdlib.h>
#include <string.h>

enum { FOUND_MAX = 12, GRID_MAX = 1 << 26 };

typedef struct { int who, other, x, y; const char *rule; } Pair;

typedef struct {
    Model *m;
    Search *s;
    StateLayout l;
    u32 *grid;           // of the two kinds in the run: index of the pair + 1 by positions
    int rows, columns;
    VEC(Pair) pairs;
    int held[2], kinds[2], nheld;
    bool *is_held;       // per entity
    i64 **seen;          // per agent and position, then per load: generation + 1
    // states of the run
    u32 *store;
    u32 *table;
    i64 n, room;
    u32 table_room;
    u32 *now;
} Run;

// ---- what is found ------------------------------------------------------------------------------

static i32 steps_in(const Model *m, const i32 *count)
{
    i32 n = 0;
    for (int i = 0; i < m->agents.n + m->loads.n; i++)
        n += i < m->agents.n ? count[i] : count[i] > 1;
    return n;
}

static i32 *counts(Run *r, const u32 *w)
{
    i32 *c = ARENA_ARRAY(r->m->arena, i32, r->l.entities + 1);
    for (int i = 0; i < r->l.entities; i++) c[i] = (i32)w[r->l.pos + i];
    return c;
}

// Equal faults (same rule, same two operations) count once: the shortest is kept.
static void report(Run *r, Violation v)
{
    Search *s = r->s;
    v.length = steps_in(r->m, v.count);
    for (int i = 0; i < s->found.n; i++) {
        Violation *o = &s->found.at[i];
        bool same = (o->op == v.op && o->op2 == v.op2) || (o->op == v.op2 && o->op2 == v.op);
        if (strcmp(o->rule, v.rule) || !same || o->stuck != v.stuck) continue;
        if (v.length < o->length) *o = v;
        return;
    }
    if (s->found.n < FOUND_MAX) vec_push(r->m->arena, &s->found, v);
}

static const Violation nothing = {.who = -1, .other = -1, .x = -1, .y = -1, .load = -1,
                                  .entity = -1, .generation = -1, .generation2 = -1};

static const ThreadOp *next_op(const Run *r, const u32 *w, int entity)
{
    const Model *m = r->m;
    if (entity >= m->agents.n) return m->loads.at[entity - m->agents.n].op;
    const Agent *a = &m->agents.at[entity];
    i32 p = (i32)w[r->l.pos + entity];
    return p < a->events.n ? a->events.at[p].op : NULL;
}

// A step with its checks: the generation that it counts for is the same on all schedules.
static void generation(Run *r, const u32 *w, int entity)
{
    i64 g = state_generation(r->m, &r->l, w, entity);
    if (g < 0) return;
    i64 *seen = entity < r->m->agents.n ? &r->seen[entity][w[r->l.pos + entity]]
                                        : &r->seen[entity][0];
    if (*seen && *seen != g + 1) {
        Violation v = nothing;
        const Event *e = entity < r->m->agents.n
                             ? &r->m->agents.at[entity].events.at[w[r->l.pos + entity]] : NULL;
        v.rule = e && e->kind == EV_BAR_ARRIVE ? "O11" : "O10";
        v.text = "counts for one generation here and for another on another schedule";
        v.who = v.entity = entity;
        if (entity >= r->m->agents.n) {
            v.load = entity - r->m->agents.n;
            v.who = r->m->loads.at[v.load].agent;
        }
        v.op = next_op(r, w, entity);
        v.count = counts(r, w);
        v.generation = g;
        v.generation2 = *seen - 1;
        report(r, v);
    }
    if (!*seen) *seen = g + 1;
}

static void step(Run *r, u32 *w, int entity)
{
    StepFault f = {0};
    generation(r, w, entity);
    memcpy(r->now + r->l.words, w, sizeof *w * (size_t)r->l.words);
    state_step(r->m, &r->l, w, entity, &f);
    r->s->transitions++;
    if (!f.rule) return;
    const u32 *before = r->now + r->l.words;
    Violation v = nothing;
    v.rule = f.rule;
    v.text = f.text;
    v.entity = entity;
    v.who = entity < r->m->agents.n ? entity : r->m->loads.at[entity - r->m->agents.n].agent;
    if (entity >= r->m->agents.n) v.load = entity - r->m->agents.n;
    v.other = f.victim;
    v.op = next_op(r, before, entity);
    if (f.victim >= 0) v.op2 = next_op(r, before, f.victim);
    v.count = counts(r, before);
    report(r, v);
}

// ---- races --------------------------------------------------------------------------------------

static void mark(Run *r, i32 i0, i32 i1, i32 j0, i32 j1, Pair p)
{
    vec_push(r->m->arena, &r->pairs, p);
    i1 = MIN(i1, r->rows - 1);
    j1 = MIN(j1, r->columns - 1);
    for (i32 i = i0; i <= i1; i++)
        for (i32 j = j0; j <= j1; j++)
            if (!r->grid[(i64)i * r->columns + j])
                r->grid[(i64)i * r->columns + j] = (u32)r->pairs.n;
}

// All pairs of positions at which something of agents a and b collides.
static void mark_agents(Run *r, int a, int b)
{
    const AccessVec *p = &r->m->agents.at[a].access, *q = &r->m->agents.at[b].access;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < q->n; k++) {
            const Access *x = &p->at[i], *y = &q->at[k];
            const char *both = model_conflict(x, y, true), *late_x = model_conflict(x, y, false),
                       *late_y = model_conflict(y, x, false);
            if ((!both && !late_x && !late_y) || !bytes_meet(r->m->bytes, x->set, y->set)) continue;
            if (both) mark(r, x->at, x->at, y->at, y->at, (Pair){a, b, i, k, both});
            if (late_x && y->until > y->at)
                mark(r, x->at, x->at, y->at + 1, y->until, (Pair){a, b, i, k, late_x});
            if (late_y && x->until > x->at)
                mark(r, x->at + 1, x->until, y->at, y->at, (Pair){a, b, i, k, late_y});
        }
}

static int kind_length(const Model *m, int kind)
{
    for (int i = 0; i < m->agents.n; i++)
        if (m->agents.at[i].kind == kind) return m->agents.at[i].events.n + 1;
    return 1;
}

// False: too large.
static bool make_grid(Run *r, int x, int y)
{
    Model *m = r->m;
    r->rows = kind_length(m, x);
    r->columns = kind_length(m, y);
    r->pairs.n = 0;
    free(r->grid);
    if ((i64)r->rows * r->columns > GRID_MAX) {
        r->grid = NULL;
        return false;
    }
    r->grid = calloc((size_t)r->rows * (size_t)r->columns, sizeof *r->grid);
    if (!r->grid) return false;
    for (int a = 0; a < m->agents.n; a++)
        for (int b = 0; b < m->agents.n; b++)
            if (a != b && m->agents.at[a].kind == x && m->agents.at[b].kind == y)
                mark_agents(r, a, b);
    return true;
}

static void swap(i32 *c, int a, int b)
{
    i32 t = c[a];
    c[a] = c[b];
    c[b] = t;
}

// The entities at which the state stands belong to the kinds; the pair names members of them, who
// can stand there just as well.
static void race(Run *r, const u32 *w, int a, int b)
{
    u32 cell = r->grid[(i64)w[r->l.pos + a] * r->columns + w[r->l.pos + b]];
    if (!cell) return;
    const Pair *p = &r->pairs.at[cell - 1];
    Violation v = nothing;
    v.rule = p->rule;
    v.who = p->who;
    v.other = p->other;
    v.x = p->x;
    v.y = p->y;
    v.op = r->m->agents.at[v.who].access.at[v.x].op;
    v.op2 = r->m->agents.at[v.other].access.at[v.y].op;
    v.count = counts(r, w);
    swap(v.count, a, v.who);
    int at = b == v.who ? a : b;
    if (at != v.other) swap(v.count, at, v.other);
    report(r, v);
}

// A load on the way against what agent `a` does where it stands.
static void load_race(Run *r, const u32 *w, int load, int a)
{
    Model *m = r->m;
    const Load *l = &m->loads.at[load];
    i32 at = (i32)w[r->l.pos + a];
    if (w[r->l.pos + m->agents.n + load] != 1) return;
    for (int b = 0; b < m->agents.n; b++) {
        const Agent *who = &m->agents.at[b];
        if (who->kind != m->agents.at[a].kind) continue;
        for (int i = 0; i < who->access.n; i++) {
            const Access *x = &who->access.at[i];
            if (x->at != at || x->kind == ACCESS_INIT || x->kind == ACCESS_USE ||
                (x->kind == ACCESS_LOAD && x->group == load) ||
                !bytes_meet(m->bytes, x->set, l->set))
                continue;
            Violation v = nothing;
            v.rule = "O3";
            v.who = b;
            v.x = i;
            v.load = load;
            v.other = l->agent;
            v.op = x->op;
            v.op2 = l->op;
            v.count = counts(r, w);
            swap(v.count, a, b);
            report(r, v);
        }
    }
}

static void self_faults(Run *r, const u32 *w, int a)
{
    const Agent *g = &r->m->agents.at[a];
    for (int i = 0; i < g->faults.n; i++) {
        const SelfFault *f = &g->faults.at[i];
        if (f->at != (i32)w[r->l.pos + a]) continue;
        Violation v = nothing;
        v.rule = f->rule;
        v.text = f->text;
        v.who = v.other = a;
        v.x = f->x;
        v.y = f->y;
        if (f->y < 0) v.other = -1;
        v.op = f->op;
        if (f->y >= 0) v.op2 = g->access.at[f->y].op;
        v.count = counts(r, w);
        report(r, v);
    }
}

// ---- the ends -----------------------------------------------------------------------------------

static void end_state(Run *r, const u32 *w)
{
    Model *m = r->m;
    Violation v = nothing;
    bool all = true, registers = false;
    for (int i = 0; i < m->agents.n; i++) {
        bool done = state_done(m, &r->l, w, i);
        all = all && done;
        const Agent *a = &m->agents.at[i];
        if (!done && a->events.at[w[r->l.pos + i]].kind == EV_REGS) registers = true;
    }
    v.count = counts(r, w);
    if (!all) {
        v.rule = registers ? "O12" : "deadlock";
        v.stuck = true;
        report(r, v);
        return;
    }
    for (int b = 0; b < m->bars.n; b++) {
        BarrierState s;
        state_barrier(&r->l, w, b, &s);
        if (!s.bytes) continue;
        v.rule = "O10";
        v.text = "the kernel ends in a phase whose bytes do not add up";
        v.stuck = true;
        report(r, v);
        return;
    }
}

static void end_with_load(Run *r, const u32 *w, int load)
{
    Model *m = r->m;
    if (w[r->l.pos + m->agents.n + load] != 1) return;
    for (int i = 0; i < m->warps; i++) {
        int agent = m->bars.at[m->loads.at[load].bar].cta * m->warps + i;
        if (!state_done(m, &r->l, w, agent)) return;
    }
    Violation v = nothing;
    v.rule = "O3";
    v.text = "the block may end while the load is on the way: nobody waits for it";
    v.stuck = true;
    v.load = load;
    v.who = m->loads.at[load].agent;
    v.op = m->loads.at[load].op;
    v.count = counts(r, w);
    report(r, v);
}

// ---- the walk -----------------------------------------------------------------------------------

static bool held(const Run *r, int entity) { return r->is_held[entity]; }

// All who are not held run until they wait.
static void run_others(Run *r, u32 *w)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < r->l.entities; i++)
            while (!held(r, i) && state_enabled(r->m, &r->l, w, i)) {
                step(r, w, i);
                more = true;
            }
    }
}

static int by_pair(const void *a, const void *b) { return memcmp(a, b, 8); }

// Warps of one kind without loads of their own can be exchanged: the state does not tell them apart.
static void sort_equals(Run *r, u32 *w)
{
    Model *m = r->m;
    u32 key[64][2];
    for (int k = 0; k < m->kinds; k++) {
        int n = 0;
        for (int i = 0; i < m->agents.n && n < 64; i++)
            if (m->agents.at[i].kind == k)
                key[n][0] = w[r->l.pos + i], key[n++][1] = w[r->l.note + i];
        if (n < 2) continue;
        qsort(key, (size_t)n, sizeof key[0], by_pair);
        n = 0;
        for (int i = 0; i < m->agents.n && n < 64; i++)
            if (m->agents.at[i].kind == k)
                w[r->l.pos + i] = key[n][0], w[r->l.note + i] = key[n++][1];
    }
}

static bool grow_table(Run *r)
{
    u32 room = r->table_room ? r->table_room * 2 : 1 << 12;
    u32 *t = calloc(room, sizeof *t);
    if (!t) return false;
    size_t bytes = sizeof(u32) * (size_t)r->l.words;
    for (i64 i = 0; i < r->n; i++) {
        u32 k = (u32)hash_bytes(r->store + i * r->l.words, bytes, 7) & (room - 1);
        while (t[k]) k = (k + 1) & (room - 1);
        t[k] = (u32)i + 1;
    }
    free(r->table);
    r->table = t;
    r->table_room = room;
    return true;
}

// True when the state is new.
static bool remember(Run *r, const u32 *w)
{
    size_t bytes = sizeof *w * (size_t)r->l.words;
    if (r->n * 2 >= r->table_room && !grow_table(r)) return r->s->out_of_memory = true, false;
    u32 k = (u32)hash_bytes(w, bytes, 7) & (r->table_room - 1);
    for (; r->table[k]; k = (k + 1) & (r->table_room - 1))
        if (!memcmp(r->store + (i64)(r->table[k] - 1) * r->l.words, w, bytes)) return false;
    if (r->n >= r->s->state_limit) return r->s->out_of_memory = true, false;
    if (r->n == r->room) {
        i64 room = r->room ? r->room * 2 : 256;
        u32 *p = realloc(r->store, (size_t)room * bytes);
        if (!p) return r->s->out_of_memory = true, false;
        r->store = p;
        r->room = room;
    }
    memcpy(r->store + r->n * r->l.words, w, bytes);
    r->table[k] = (u32)++r->n;
    r->s->states++;
    return true;
}

static void look(Run *r, const u32 *w)
{
    Model *m = r->m;
    int n = m->agents.n;
    for (int i = 0; i < r->l.entities; i++) {
        if (!held(r, i)) continue;
        generation(r, w, i);
        if (i >= n) end_with_load(r, w, i - n);
        else self_faults(r, w, i);
    }
    if (r->s->full) return;
    int a = r->held[0], b = r->held[1];
    if (r->nheld == 2 && b < n && r->grid) race(r, w, a, b);
    if (r->nheld == 2 && b >= n) load_race(r, w, b - n, a);
}

static void look_full(Run *r, const u32 *w)
{
    Model *m = r->m;
    for (int i = 0; i < m->agents.n; i++) {
        for (int k = 0; k < m->agents.n && r->grid; k++)
            if (i != k && m->agents.at[i].kind == r->kinds[0] && m->agents.at[k].kind == r->kinds[1])
                race(r, w, i, k);
        for (int k = 0; k < m->loads.n; k++) load_race(r, w, k, i);
    }
}

// Breadth first over the steps of those who are held.
static void walk(Run *r)
{
    r->n = 0;
    if (r->table) memset(r->table, 0, sizeof *r->table * r->table_room);
    u32 *w = r->now;
    r->s->runs++;
    state_start(r->m, &r->l, w);
    run_others(r, w);
    if (r->s->full) sort_equals(r, w);
    if (remember(r, w)) look(r, w);
    for (i64 at = 0; at < r->n && !r->s->out_of_memory; at++) {
        bool any = false;
        for (int i = 0; i < r->l.entities; i++) {
            if (!held(r, i)) continue;
            memcpy(w, r->store + at * r->l.words, sizeof *w * (size_t)r->l.words);
            if (!state_enabled(r->m, &r->l, w, i)) continue;
            any = true;
            step(r, w, i);
            run_others(r, w);
            if (r->s->full) sort_equals(r, w);
            if (!remember(r, w)) continue;
            look(r, w);
            if (r->s->full) look_full(r, w);
        }
        memcpy(w, r->store + at * r->l.words, sizeof *w * (size_t)r->l.words);
        if (!any) end_state(r, w);
    }
}

static void hold(Run *r, int n, int a, int b)
{
    memset(r->is_held, r->s->full, sizeof *r->is_held * (size_t)r->l.entities);
    r->nheld = n;
    r->held[0] = a;
    r->held[1] = b;
    if (n > 0) r->is_held[a] = true;
    if (n > 1) r->is_held[b] = true;
}

static int member(const Model *m, int kind, int nth)
{
    for (int i = 0; i < m->agents.n; i++)
        if (m->agents.at[i].kind == kind && nth-- == 0) return i;
    return -1;
}

static bool touches(const Model *m, int load, int kind)
{
    for (int a = 0; a < m->agents.n; a++) {
        const Agent *g = &m->agents.at[a];
        for (int i = 0; g->kind == kind && i < g->access.n; i++)
            if (g->access.at[i].kind != ACCESS_USE && g->access.at[i].kind != ACCESS_INIT &&
                !(g->access.at[i].kind == ACCESS_LOAD && g->access.at[i].group == load) &&
                bytes_meet(m->bytes, g->access.at[i].set, m->loads.at[load].set))
                return true;
    }
    return false;
}

void search_model(Model *m, Search *s)
{
    Run r = {.m = m, .s = s, .l = state_layout(m)};
    r.now = ARENA_ARRAY(m->arena, u32, 2 * r.l.words);
    r.is_held = ARENA_ARRAY(m->arena, bool, r.l.entities + 1);
    r.seen = ARENA_ARRAY(m->arena, i64 *, r.l.entities + 1);
    for (int i = 0; i < r.l.entities; i++)
        r.seen[i] = ARENA_ARRAY(m->arena, i64, i < m->agents.n ? m->agents.at[i].events.n + 1 : 1);
    for (int x = 0; x < m->kinds && !s->out_of_memory; x++)
        for (int y = x; y < m->kinds && !s->out_of_memory; y++) {
            int a = member(m, x, 0), b = member(m, y, x == y);
            r.kinds[0] = x;
            r.kinds[1] = y;
            if (b >= 0 && !make_grid(&r, x, y)) s->out_of_memory = true;
            hold(&r, b >= 0 ? 2 : 1, a, b);
            if (!s->out_of_memory) walk(&r);
        }
    for (int k = 0; k < m->loads.n && !s->full && !s->out_of_memory; k++) {
        int any = 0;
        for (int x = 0; x < m->kinds; x++) {
            if (!touches(m, k, x)) continue;
            hold(&r, 2, member(m, x, 0), m->agents.n + k);
            walk(&r);
            any++;
        }
        if (any) continue;
        hold(&r, 1, m->agents.n + k, -1);
        walk(&r);
    }
    free(r.grid);
    free(r.store);
    free(r.table);
}

// ---- the shortest way ---------------------------------------------------------------------------

bool state_reach(const Model *m, const StateLayout *l, const i32 *count, u32 *w)
{
    StepFault f;
    state_start(m, l, w);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < l->entities; i++)
            while ((i32)w[l->pos + i] < count[i] && state_enabled(m, l, w, i)) {
                f = (StepFault){0};
                state_step(m, l, w, i, &f);
                more = true;
            }
    }
    for (int i = 0; i < l->entities; i++)
        if ((i32)w[l->pos + i] != count[i]) return false;
    return true;
}

// Does the state still show it?
static bool still_there(const Model *m, const StateLayout *l, const Violation *v, u32 *w)
{
    if (v->generation >= 0) return state_generation(m, l, w, v->entity) == v->generation;
    if (v->entity < 0) return true;
    StepFault f = {0};
    if (!state_enabled(m, l, w, v->entity)) return false;
    state_step(m, l, w, v->entity, &f);
    return f.rule && f.text == v->text;
}

void search_shorten(Model *m, Violation *v)
{
    StateLayout l = state_layout(m);
    u32 *w = ARENA_ARRAY(m->arena, u32, l.words);
    if (v->stuck) return; // the only state where it ends
    i32 *c = v->count;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < l.entities; i++) {
            bool fixed = i == v->who || i == v->other ||
                         (v->load >= 0 && i == m->agents.n + v->load);
            // Loads are not taken back from 1 to 0 alone: they go with the step that issues them.
            for (i32 cut = c[i]; !fixed && cut > 0; cut /= 2) {
                i32 *t = ARENA_ARRAY(m->arena, i32, l.entities);
                memcpy(t, c, sizeof *t * (size_t)l.entities);
                t[i] -= cut;
                if (i >= m->agents.n && c[i] != 2) break;
                if (i >= m->agents.n) t[i] = 1;
                // Loads follow their issuer.
                for (int k = 0; k < m->loads.n; k++) {
                    const Load *load = &m->loads.at[k];
                    if (t[load->agent] <= load->event) t[m->agents.n + k] = 0;
                }
                if (!state_reach(m, &l, t, w) || !still_there(m, &l, v, w)) continue;
                memcpy(c, t, sizeof *t * (size_t)l.entities);
                more = true;
            }
        }
    }
    v->length = steps_in(m, c);
}
