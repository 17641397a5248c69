// tell.c - a violation in the words of the source: who, in which iteration, which slot, which
// generation, and the shortest row of steps that leads there.
#include "model.h"

#include <string.h>

enum { TRACE_MAX = 60 }; // lines; the last ones are kept

void tell_place(const Model *m, const ThreadOp *op, Buf *out)
{
    if (!op) return;
    buf_printf(out, "%s:%u", diag_file_name(m->diag, op->loc.file), op->loc.line);
}

static void put_agent(const Model *m, int agent, Buf *out)
{
    const Agent *a = &m->agents.at[agent];
    if (m->ctas > 1) buf_printf(out, "block %d ", a->cta);
    buf_printf(out, "warp %d", a->warp);
}

static void put_iteration(i32 iter, Buf *out)
{
    if (iter >= 0) buf_printf(out, ", iteration %d", iter);
}

static void put_slot(const Model *m, const ThreadOp *op, int mem, i32 slot, Buf *out)
{
    const char *name = "memory";
    if (mem < op->nmem) name = m->fn->buffers.at[op->mem[mem].buffer].name;
    if (slot >= 0) buf_printf(out, "%s[%d]", name, slot);
    else buf_puts(out, name);
}

static void put_barrier(const Model *m, int bar, Buf *out)
{
    const Barrier *b = &m->bars.at[bar];
    buf_printf(out, "%s[%d]", m->fn->buffers.at[b->buffer].name, b->slot);
    if (m->ctas > 1) buf_printf(out, " of block %d", b->cta);
}

static const char *const access_verb[] = {
    [ACCESS_READ] = "reads", [ACCESS_WRITE] = "writes", [ACCESS_ATOMIC] = "changes",
    [ACCESS_INIT] = "initialises", [ACCESS_USE] = "uses", [ACCESS_WGMMA] = "a product reads",
    [ACCESS_STORE] = "a bulk store reads", [ACCESS_CP] = "cp.async writes",
    [ACCESS_LOAD] = "issues a bulk load into"};

static void put_access(const Model *m, int agent, int access, Buf *out)
{
    const Access *x = &m->agents.at[agent].access.at[access];
    put_agent(m, agent, out);
    put_iteration(x->iter, out);
    buf_printf(out, ": %s ", access_verb[x->kind]);
    put_slot(m, x->op, x->mem, x->slot, out);
    buf_puts(out, "  ");
    tell_place(m, x->op, out);
}

void tell_access(const Model *m, int agent, int access, Buf *out) { put_access(m, agent, access, out); }

void tell_load(const Model *m, int load, Buf *out)
{
    const Load *x = &m->loads.at[load];
    put_agent(m, x->agent, out);
    put_iteration(x->iter, out);
    buf_puts(out, ": bulk load into ");
    put_slot(m, x->op, 0, x->slot, out);
    buf_puts(out, "  ");
    tell_place(m, x->op, out);
}

void tell_event(const Model *m, int agent, const ThreadOp *op, int bar, Buf *out)
{
    put_agent(m, agent, out);
    if (bar >= 0) {
        buf_puts(out, " at ");
        put_barrier(m, bar, out);
    }
    buf_puts(out, "  ");
    tell_place(m, op, out);
}

static void put_load(const Model *m, const StateLayout *l, const u32 *w, int load, Buf *out)
{
    const Load *x = &m->loads.at[load];
    BarrierState s;
    state_barrier(l, w, x->bar, &s);
    put_agent(m, x->agent, out);
    put_iteration(x->iter, out);
    buf_puts(out, ": bulk load into ");
    put_slot(m, x->op, 0, x->slot, out);
    buf_printf(out, ", generation %u, on the way  ", s.phase);
    tell_place(m, x->op, out);
}

// ---- the trace ----------------------------------------------------------------------------------

static void put_event(const Model *m, const StateLayout *l, const u32 *w, const Event *e, Buf *out)
{
    BarrierState s = {0};
    if (e->kind <= EV_WAIT) state_barrier(l, w, e->bar, &s);
    switch (e->kind) {
    case EV_INIT:
        buf_puts(out, "initialises ");
        put_barrier(m, e->bar, out);
        buf_printf(out, " for %lld arrivals", (long long)e->arg);
        break;
    case EV_ARRIVE:
        buf_puts(out, "arrives at ");
        put_barrier(m, e->bar, out);
        buf_printf(out, ", generation %u (%u of %u)", s.phase, MIN(s.came + (u32)e->count, s.arrivals),
                   s.arrivals);
        if (e->arg) buf_printf(out, ", expects %lld bytes", (long long)e->arg);
        break;
    case EV_EXPECT:
        buf_puts(out, "expects more bytes at ");
        put_barrier(m, e->bar, out);
        break;
    case EV_WAIT:
        buf_puts(out, "passes the wait for ");
        put_barrier(m, e->bar, out);
        if (s.phase) buf_printf(out, ", generation %u", s.phase - 1);
        else buf_puts(out, ", free from the start");
        break;
    case EV_LOAD:
        state_barrier(l, w, m->loads.at[e->load].bar, &s);
        buf_puts(out, "issues the load of ");
        put_slot(m, e->op, 0, m->loads.at[e->load].slot, out);
        buf_printf(out, ", generation %u", s.phase);
        break;
    case EV_BAR_ARRIVE: buf_printf(out, "comes to barrier %d", e->bar % NAMED_BARRIERS); break;
    case EV_BAR_PASS: buf_printf(out, "passes barrier %d", e->bar % NAMED_BARRIERS); break;
    case EV_CLUSTER_ARRIVE: buf_puts(out, "comes to the barrier of the cluster"); break;
    case EV_CLUSTER_PASS: buf_puts(out, "passes the barrier of the cluster"); break;
    default: buf_printf(out, "sets its registers to %lld", (long long)e->arg); break;
    }
}

typedef struct {
    const ThreadOp *op;
    int kind, first, last, n;   // warps that do the same, one after the other
    i32 bar;
    u8 what;
    i32 iter;
    Buf text;                   // of the last one
} Line;
typedef VEC(Line) LineVec;

static const Event *next_event(const Model *m, const StateLayout *l, const u32 *w, int i)
{
    const Agent *a = &m->agents.at[i];
    i32 p = (i32)w[l->pos + i];
    return p < a->events.n ? &a->events.at[p] : NULL;
}

// Who goes next: rather one that does what the line before did, so that equal warps stand together.
static int choose(const Model *m, const StateLayout *l, const u32 *w, const i32 *count,
                  const ThreadOp *last, u8 what)
{
    int any = -1;
    for (int i = 0; i < l->entities; i++) {
        if ((i32)w[l->pos + i] >= count[i] || !state_enabled(m, l, w, i)) continue;
        if (i < m->agents.n) {
            const Event *e = next_event(m, l, w, i);
            if (e->op == last && e->kind == what) return i;
        }
        if (any < 0) any = i;
    }
    return any;
}

static bool is_start(const Event *e)
{
    return e->kind == EV_INIT || e->kind == EV_REGS || e->kind >= EV_CLUSTER_ARRIVE ||
           ((e->kind == EV_BAR_ARRIVE || e->kind == EV_BAR_PASS) && e->bar % NAMED_BARRIERS == 0);
}

static void add_line(const Model *m, LineVec *lines, Line now)
{
    Line *last = lines->n ? &lines->at[lines->n - 1] : NULL;
    if (last && last->op == now.op && last->what == now.what && last->iter == now.iter &&
        last->kind == now.kind && last->bar == now.bar && last->kind >= 0) {
        last->last = now.last;
        last->n++;
        buf_free(&last->text);
        last->text = now.text;
        return;
    }
    vec_push(m->arena, lines, now);
}

static void put_line(const Model *m, int number, Line *l, Buf *out)
{
    buf_printf(out, "    %3d  ", number);
    if (l->kind >= 0) {
        if (m->ctas > 1) buf_printf(out, "block %d ", m->agents.at[l->first].cta);
        if (l->n > 1)
            buf_printf(out, "%d warps, %d to %d", l->n, m->agents.at[l->first].warp,
                       m->agents.at[l->last].warp);
        else
            buf_printf(out, "warp %d", m->agents.at[l->first].warp);
        put_iteration(l->iter, out);
        buf_puts(out, ": ");
    }
    buf_printf(out, "%s  ", l->text.s ? l->text.s : "");
    tell_place(m, l->op, out);
    buf_putc(out, '\n');
}

static void put_trace(const Model *m, const StateLayout *l, const Violation *v, bool start, Buf *out)
{
    u32 *w = ARENA_ARRAY(m->arena, u32, l->words);
    LineVec lines = {0};
    const ThreadOp *last = NULL;
    u8 what = 0;
    state_start(m, l, w);
    for (int i; (i = choose(m, l, w, v->count, last, what)) >= 0;) {
        Line now = {.kind = -1, .first = i, .last = i, .n = 1, .iter = -1};
        bool show = true;
        if (i < m->agents.n) {
            const Event *e = next_event(m, l, w, i);
            now.kind = m->agents.at[i].kind;
            now.op = last = e->op;
            now.what = what = e->kind;
            now.bar = e->bar;
            now.iter = e->iter;
            show = start || !is_start(e);
            if (show) put_event(m, l, w, e, &now.text);
        } else {
            const Load *load = &m->loads.at[i - m->agents.n];
            now.op = load->op;
            buf_puts(&now.text, "the load of ");
            put_slot(m, load->op, 0, load->slot, &now.text);
            buf_printf(&now.text, " lands, %d bytes", load->bytes);
        }
        StepFault f = {0};
        state_step(m, l, w, i, &f);
        if (show) add_line(m, &lines, now);
    }
    int from = MAX(lines.n - TRACE_MAX, 0);
    if (from) buf_printf(out, "         .. %d earlier lines\n", from);
    for (int i = 0; i < lines.n; i++) {
        if (i >= from) put_line(m, i + 1, &lines.at[i], out);
        buf_free(&lines.at[i].text);
    }
}

// ---- who waits for what, at a deadlock ----------------------------------------------------------

static void put_waiters(const Model *m, const StateLayout *l, const u32 *w, Buf *out)
{
    for (int i = 0; i < m->agents.n; i++) {
        const Event *e = next_event(m, l, w, i);
        bool told = false;
        if (!e) continue;
        int n = 1;
        for (int k = 0; k < i && !told; k++) told = next_event(m, l, w, k) == NULL ? false :
            m->agents.at[k].kind == m->agents.at[i].kind && w[l->pos + k] == w[l->pos + i];
        if (told) continue;
        for (int k = i + 1; k < m->agents.n; k++)
            n += m->agents.at[k].kind == m->agents.at[i].kind && w[l->pos + k] == w[l->pos + i];
        buf_puts(out, "    ");
        put_agent(m, i, out);
        if (n > 1) buf_printf(out, " and %d like it", n - 1);
        put_iteration(e->iter, out);
        if (e->kind == EV_WAIT) {
            BarrierState s;
            state_barrier(l, w, e->bar, &s);
            buf_puts(out, ": waits for ");
            put_barrier(m, e->bar, out);
            buf_printf(out, ", generation %u has %u of %u arrivals", s.phase, s.came, s.arrivals);
            if (s.bytes) buf_printf(out, " and lacks %d bytes", s.bytes);
        } else if (e->kind == EV_BAR_PASS) {
            u32 came, threads;
            state_named(l, w, e->bar, &came, &threads);
            buf_printf(out, ": waits at barrier %d, where %u of %u threads came",
                       e->bar % NAMED_BARRIERS, came, threads);
        } else if (e->kind == EV_REGS) {
            buf_printf(out, ": waits for registers, %lld a thread", (long long)e->arg);
        } else {
            buf_puts(out, ": waits at the barrier of the cluster");
        }
        buf_puts(out, "  ");
        tell_place(m, e->op, out);
        buf_putc(out, '\n');
    }
}

static const struct { const char *rule, *name, *why; } rule_text[] = {
    {"O2", "race", "nothing orders the two accesses"},
    {"O3", "race", "the slot is filled while it is in use"},
    {"O4", "proxy", "no fence.proxy by the writing threads stands before the release"},
    {"O5", "wgmma", "the product may still read its operand: it was not waited for"},
    {"O6", "unbound read", "the slot is released before the read has bound: no fence.proxy and no "
                           "pinned use by the reading threads"},
    {"O7", "bulk store", "the bulk store may still read its source: no bulk.wait.read"},
    {"O8", "mbarrier", "no fence.mbar.init and barrier stand between the initialisation and this use"},
    {"O10", "mbarrier", ""}, {"O11", "barrier", ""},
    {"O12", "registers", "the warps ask for more registers than the block has"},
    {"O13", "race", "the cp.async may still write: it was not waited for"},
    {"O15", "cluster", ""},
    {"deadlock", "", "everybody is done or waits, and nothing is on the way"}};

const char *tell_rule(const char *rule, const char **why)
{
    *why = "";
    for (int i = 0; i < COUNT(rule_text); i++)
        if (strcmp(rule_text[i].rule, rule) == 0) return *why = rule_text[i].why, rule_text[i].name;
    return "";
}

static void put_message(const Model *m, const StateLayout *l, const Violation *v, const u32 *w,
                        Buf *out)
{
    const char *why = v->text;
    for (int i = 0; i < COUNT(rule_text); i++) {
        if (strcmp(rule_text[i].rule, v->rule)) continue;
        buf_printf(out, "%s%s%s: ", v->rule, *rule_text[i].name ? " " : "", rule_text[i].name);
        if (!why) why = rule_text[i].why;
    }
    buf_printf(out, "%s\n", why ? why : "");
    if (v->x >= 0) {
        buf_puts(out, "    ");
        put_access(m, v->who, v->x, out);
        buf_putc(out, '\n');
    } else if (v->who >= 0 && v->load < 0 && v->op) {
        const Event *e = next_event(m, l, w, v->who);
        buf_puts(out, "    ");
        put_agent(m, v->who, out);
        if (e) {
            put_iteration(e->iter, out);
            buf_puts(out, ": ");
            put_event(m, l, w, e, out);
        }
        buf_puts(out, "  ");
        tell_place(m, v->op, out);
        if (v->generation >= 0)
            buf_printf(out, "; elsewhere it is generation %lld", (long long)v->generation2);
        buf_putc(out, '\n');
    }
    if (v->load >= 0) {
        buf_puts(out, "    ");
        put_load(m, l, w, v->load, out);
        buf_putc(out, '\n');
    } else if (v->other >= 0 && v->y >= 0) {
        buf_puts(out, "    ");
        put_access(m, v->other, v->y, out);
        buf_putc(out, '\n');
    } else if (v->other >= 0) {
        buf_puts(out, "    ");
        put_agent(m, v->other, out);
        buf_puts(out, " stands at the wait  ");
        tell_place(m, v->op2, out);
        buf_putc(out, '\n');
    }
}

void tell_violation(const Model *m, const Violation *v, bool trace, Buf *out)
{
    StateLayout l = state_layout(m);
    u32 *w = ARENA_ARRAY(m->arena, u32, l.words);
    bool start = v->stuck || !strcmp(v->rule, "O8") || !strcmp(v->rule, "O11");
    state_reach(m, &l, v->count, w);
    buf_puts(out, "  violation: ");
    put_message(m, &l, v, w, out);
    if (v->stuck && v->who < 0) put_waiters(m, &l, w, out);
    if (!trace) return;
    buf_printf(out, "  the shortest way there, %d steps%s:\n", v->length,
               start ? "" : " with those that start the block");
    put_trace(m, &l, v, start, out);
}
