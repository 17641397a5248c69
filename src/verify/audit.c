// audit.c - the flow of pending shared loads through the machine code of one kernel.
//
// Input: one section of code. Output: an AuditKernel. The loads that may be pending at a point are
// kept by class, one load standing for all that are alike from there on: a class is the scoreboard
// that the load sets and the scoreboard of the fence that was issued behind it. Classes only appear
// while the flow is solved, so it ends after as many visits of a block as there are classes.
#include "audit.h"
#include "sass.h"

#include <stdlib.h>
#include <string.h>

enum {
    NONE = SASS_SCOREBOARDS,  // no scoreboard; no fence yet
    CLASSES = SASS_SCOREBOARDS + 1,
    CONVERGE_REGISTERS = 16
};

// For each class the number of a load that is in it, plus 1; 0: none.
typedef struct {
    int load[CLASSES][CLASSES]; // by scoreboard of the load, and of the fence
} Pending;

typedef struct {
    int from, to;
} Edge;

// Nodes: the blocks, in the order of the code, then those that stand for sets of jumps: one for all
// returns, and one for each register of a convergence barrier.
typedef struct {
    Arena *keep;    // of the findings
    Arena *arena;   // of all else, which goes with the Audit
    const AuditOptions *options;
    AuditKernel *out;
    SassInst *code;
    int n;
    int *block_of;  // per instruction
    int *first;     // per block: its first instruction; first[blocks] == n
    int blocks, nodes;
    VEC(Edge) edges;
    int *edge_from; // per node: its first edge once they are sorted
    Pending *in;    // per node
    bool *reached;
    int *queue;     // ring of `nodes` places
    bool *queued;
    int head, waiting;
} Audit;

static void found(Audit *x, AuditKind kind, u64 at, u64 load)
{
    AuditKernel *k = x->out;
    AuditFinding f = {(u8)kind, at, load};
    if (k->counts[kind]++ < AUDIT_KEPT) vec_push(x->keep, &k->findings, f);
}

static u64 offset_of(int instruction) { return (u64)instruction * CUBIN_INSTRUCTION; }

// ---- the graph ---------------------------------------------------------------------------------

// -1: no instruction of this code begins there.
static int instruction_at(const Audit *x, i64 offset)
{
    if (offset < 0 || offset % CUBIN_INSTRUCTION || offset / CUBIN_INSTRUCTION >= x->n) return -1;
    return (int)(offset / CUBIN_INSTRUCTION);
}

static bool has_target(const SassInst *s)
{
    return s->kind == SASS_BRANCH || s->kind == SASS_CALL || s->kind == SASS_CONVERGE_SET;
}

static bool ends_block(const SassInst *s)
{
    switch (s->kind) {
    case SASS_BRANCH: case SASS_CALL: case SASS_CALL_OUTSIDE: case SASS_RETURN:
    case SASS_INDIRECT: case SASS_CONVERGE: case SASS_EXIT: return true;
    default: return false;
    }
}

static void make_blocks(Audit *x)
{
    bool *leader = ARENA_ARRAY(x->arena, bool, x->n + 1);
    leader[0] = true;
    for (int i = 0; i < x->n; i++) {
        const SassInst *s = &x->code[i];
        int target = has_target(s) ? instruction_at(x, s->target) : -1;
        if (target >= 0) leader[target] = true;
        if (ends_block(s)) leader[i + 1] = true;
    }
    x->block_of = ARENA_ARRAY(x->arena, int, x->n);
    x->first = ARENA_ARRAY(x->arena, int, x->n + 1);
    for (int i = 0; i < x->n; i++) {
        if (leader[i]) x->first[x->blocks++] = i;
        x->block_of[i] = x->blocks - 1;
    }
    x->first[x->blocks] = x->n;
    x->nodes = x->blocks + 1 + CONVERGE_REGISTERS;
}

static int returns_node(const Audit *x) { return x->blocks; }
static int converge_node(const Audit *x, int reg) { return x->blocks + 1 + reg; }

// To an instruction; one beyond the code, or none, is no edge: the code cannot go on there.
static void edge_to(Audit *x, int from, int instruction)
{
    if (instruction < 0 || instruction >= x->n) return;
    Edge e = {from, x->block_of[instruction]};
    vec_push(x->arena, &x->edges, e);
}

static void edge_to_node(Audit *x, int from, int node)
{
    Edge e = {from, node};
    vec_push(x->arena, &x->edges, e);
}

// Edges out of the block that ends with instruction i. A call leads into the subroutine, and what
// holds at any return of one holds, for all that is known here, behind every call.
static void edges_of(Audit *x, int block, int i)
{
    const SassInst *s = &x->code[i];
    int next = i + 1, target = has_target(s) ? instruction_at(x, s->target) : -1;
    switch (s->kind) {
    case SASS_BRANCH:
        if (!s->never) edge_to(x, block, target);
        if (!s->always) edge_to(x, block, next);
        break;
    case SASS_CALL:
        edge_to(x, block, target);
        if (!s->always) edge_to(x, block, next);
        edge_to(x, returns_node(x), next);
        break;
    case SASS_RETURN:
        edge_to_node(x, block, returns_node(x));
        if (!s->always) edge_to(x, block, next);
        break;
    case SASS_CONVERGE:
        edge_to_node(x, block, converge_node(x, s->converge));
        edge_to(x, block, next);
        break;
    case SASS_EXIT:
    case SASS_INDIRECT:
        if (!s->always) edge_to(x, block, next);
        break;
    default: edge_to(x, block, next);
    }
}

static int by_source(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static void make_edges(Audit *x)
{
    for (int b = 0; b < x->blocks; b++) edges_of(x, b, x->first[b + 1] - 1);
    for (int i = 0; i < x->n; i++) {
        const SassInst *s = &x->code[i];
        if (s->kind == SASS_CONVERGE_SET)
            edge_to(x, converge_node(x, s->converge), instruction_at(x, s->target));
    }
    if (x->edges.n) qsort(x->edges.at, (size_t)x->edges.n, sizeof(Edge), by_source);
    x->edge_from = ARENA_ARRAY(x->arena, int, x->nodes + 1);
    for (int node = 0, e = 0; node <= x->nodes; node++) {
        while (e < x->edges.n && x->edges.at[e].from < node) e++;
        x->edge_from[node] = e;
    }
}

// ---- the flow ----------------------------------------------------------------------------------

// Whoever waits for a scoreboard has the loads that set it, and those behind which a fence stands
// that set it.
static void wait_for(Pending *p, unsigned mask)
{
    for (int own = 0; own < CLASSES; own++)
        for (int fence = 0; fence < CLASSES; fence++)
            if ((own < NONE && (mask >> own & 1)) || (fence < NONE && (mask >> fence & 1)))
                p->load[own][fence] = 0;
}

// Binds what was issued before it once it is over: when its scoreboard is waited for. One without a
// scoreboard is over at no known point. Under a condition it may not have run.
static void pass_fence(Pending *p, const SassInst *s)
{
    if (!s->always || s->set >= SASS_SCOREBOARDS) return;
    for (int own = 0; own < CLASSES; own++) {
        int load = p->load[own][NONE];
        if (!load) continue;
        p->load[own][NONE] = 0;
        p->load[own][s->set] = load;
    }
}

// The loads of a warp come back in the order of their issue, and the assembler counts on it: of
// several in a row it may give the last one alone a scoreboard, which then stands for all of them.
// A generic load may go to global memory and come back out of turn: it stands for itself alone.
static void pass_load(Pending *p, const SassInst *s, int number)
{
    int own = s->set < SASS_SCOREBOARDS ? s->set : NONE;
    bool stands = own != NONE && s->always && s->kind == SASS_SHARED_LOAD;
    for (int fence = 0; fence < CLASSES && stands; fence++) {
        if (p->load[NONE][fence]) p->load[own][fence] = p->load[NONE][fence];
        p->load[NONE][fence] = 0;
    }
    p->load[own][NONE] = number + 1;
}

// Scoreboards are waited for before anything is issued, whatever the guard says.
static void step(Pending *p, const SassInst *s, int number)
{
    wait_for(p, s->wait);
    if (s->never) return;
    if (s->kind == SASS_SHARED_LOAD || s->kind == SASS_GENERIC_LOAD)
        pass_load(p, s, number);
    else if (s->kind == SASS_FENCE_SHARED)
        pass_fence(p, s);
}

static void enqueue(Audit *x, int node)
{
    if (x->queued[node]) return;
    x->queued[node] = true;
    x->queue[(x->head + x->waiting++) % x->nodes] = node;
}

// A class that has a load keeps it: which one stands for the others does not matter.
static void flow_into(Audit *x, int node, const Pending *p)
{
    bool more = !x->reached[node];
    Pending *in = &x->in[node];
    for (int own = 0; own < CLASSES; own++)
        for (int fence = 0; fence < CLASSES; fence++)
            if (p->load[own][fence] && !in->load[own][fence]) {
                in->load[own][fence] = p->load[own][fence];
                more = true;
            }
    x->reached[node] = true;
    if (more) enqueue(x, node);
}

static void solve(Audit *x)
{
    while (x->waiting) {
        int node = x->queue[x->head];
        x->head = (x->head + 1) % x->nodes;
        x->waiting--;
        x->queued[node] = false;
        Pending p = x->in[node];
        if (node < x->blocks)
            for (int i = x->first[node]; i < x->first[node + 1]; i++)
                step(&p, &x->code[i], i);
        for (int e = x->edge_from[node]; e < x->edge_from[node + 1]; e++)
            flow_into(x, x->edges.at[e].to, &p);
    }
}

// From the start of the code; then from each block that nothing known leads to, so that code which
// is reached in a way not seen here is looked at as well.
static void solve_all(Audit *x)
{
    static const Pending nothing;
    x->in = ARENA_ARRAY(x->arena, Pending, x->nodes);
    x->reached = ARENA_ARRAY(x->arena, bool, x->nodes);
    x->queued = ARENA_ARRAY(x->arena, bool, x->nodes);
    x->queue = ARENA_ARRAY(x->arena, int, x->nodes);
    for (int b = 0; b < x->blocks; b++) {
        if (x->reached[b]) continue;
        flow_into(x, b, &nothing);
        solve(x);
    }
}

// ---- findings ----------------------------------------------------------------------------------

// One finding for each place that gives something away and each load that stands for a class.
static void look_at(Audit *x, const Pending *p, AuditKind kind, u64 at)
{
    for (int own = 0; own < CLASSES; own++)
        for (int fence = 0; fence < CLASSES; fence++)
            if (p->load[own][fence]) found(x, kind, at, offset_of(p->load[own][fence] - 1));
}

static void check_handoffs(Audit *x)
{
    if (x->options->closed && !x->out->bulk_loads) return;
    for (int b = 0; b < x->blocks; b++) {
        Pending p = x->in[b];
        for (int i = x->first[b]; i < x->first[b + 1]; i++) {
            const SassInst *s = &x->code[i];
            step(&p, s, i);
            if (s->never) continue;
            if (s->kind == SASS_ARRIVE) look_at(x, &p, AUDIT_RELEASE, offset_of(i));
            if (s->kind == SASS_BULK_LOAD) look_at(x, &p, AUDIT_REFILL, offset_of(i));
        }
    }
}

// The assembler serialises products that it cannot prove apart: each becomes a group of its own,
// waited for at once, and the next one goes on with the same accumulator. One finding a chain.
static void check_serial(Audit *x)
{
    int size = 0, dest = -1, before = -1; // of this group; accumulator of the lone group before
    bool fresh = false, said = false;     // said: of the chain that `before` belongs to
    u64 at = 0;
    for (int i = 0; i < x->n; i++) {
        const SassInst *s = &x->code[i];
        if (x->first[x->block_of[i]] == i) before = -1;
        if (s->kind == SASS_WGMMA) {
            size++;
            dest = s->dest;
            fresh = s->fresh;
            at = offset_of(i);
        } else if (s->kind == SASS_WGMMA_WAIT && s->count == 0 && size) {
            bool chain = size == 1 && dest == before && !fresh;
            if (chain && !said) found(x, AUDIT_SERIAL, at, 0);
            said = chain;
            before = size == 1 ? dest : -1;
            size = 0;
        } else if (s->kind == SASS_WGMMA_ARRIVE && size) {
            // The group before is still in flight: that is what a pipeline looks like.
            before = -1;
            size = 0;
        }
    }
}

// The text of this kernel in the PTX: from its name to the next kernel.
static bool asks_for_registers(const char *ptx, const char *kernel)
{
    size_t n = strlen(kernel);
    for (const char *at = ptx; at && (at = strstr(at, ".entry ")); at++) {
        const char *name = at + strlen(".entry ");
        if (strncmp(name, kernel, n) != 0 || (name[n] != '(' && name[n] != ' ' && name[n] != '\n'))
            continue;
        const char *word = strstr(name, "setmaxnreg."), *next = strstr(name, ".entry ");
        return word && (!next || word < next);
    }
    return false;
}

static void count(Audit *x, const SassInst *s, u64 at)
{
    AuditKernel *k = x->out;
    switch (s->kind) {
    case SASS_UNKNOWN: found(x, AUDIT_UNKNOWN, at, 0); break;
    case SASS_INDIRECT: found(x, AUDIT_INDIRECT, at, 0); break;
    case SASS_SHARED_LOAD: k->loads += !s->never; break;
    case SASS_FENCE_SHARED: k->fences++; break;
    case SASS_ARRIVE: k->arrivals++; break;
    case SASS_BULK_LOAD: k->bulk_loads++; break;
    case SASS_SPILL: k->spills++; break;
    case SASS_CALL_OUTSIDE: k->calls_outside++; break;
    case SASS_SET_REGISTERS: k->set_registers++; break;
    case SASS_WGMMA:
        k->products++;
        k->groups += s->last;
        break;
    default: break;
    }
}

static int by_place(const void *a, const void *b)
{
    const AuditFinding *x = a, *y = b;
    if (x->at != y->at) return (x->at > y->at) - (x->at < y->at);
    return x->kind != y->kind ? x->kind - y->kind : (x->load > y->load) - (x->load < y->load);
}

void audit_text(Arena *a, const CubinText *t, const AuditOptions *options, AuditKernel *out)
{
    *out = (AuditKernel){.text = t, .instructions = (int)(t->bytes / CUBIN_INSTRUCTION)};
    Audit x = {.keep = a, .options = options, .out = out, .n = out->instructions};
    if (x.n > AUDIT_INSTRUCTIONS_MAX) {
        found(&x, AUDIT_TOO_LARGE, 0, 0);
        return;
    }
    x.arena = arena_new(0);
    x.code = ARENA_ARRAY(x.arena, SassInst, x.n);
    for (int i = 0; i < x.n; i++) {
        x.code[i] = sass_decode(t->code + offset_of(i), offset_of(i));
        count(&x, &x.code[i], offset_of(i));
    }
    make_blocks(&x);
    make_edges(&x);
    solve_all(&x);
    check_handoffs(&x);
    check_serial(&x);
    if (options->ptx && !out->set_registers && asks_for_registers(options->ptx, t->name))
        out->registers_left_out = true;
    arena_free(x.arena);
    if (out->findings.n)
        qsort(out->findings.at, (size_t)out->findings.n, sizeof(AuditFinding), by_place);
}

int audit_findings(const AuditKernel *k)
{
    int n = 0;
    for (int i = 0; i < AUDIT_KIND_COUNT; i++) n += k->counts[i];
    return n;
}

// ---- the report --------------------------------------------------------------------------------

// "0x0120 LDS.128 R4 (v4.co:83)"
static void print_place(const AuditKernel *k, u64 at, Buf *out)
{
    SassInst s = sass_decode(k->text->code + at, at);
    const CubinLine *line = cubin_line(k->text, at);
    buf_printf(out, "0x%04llx ", (unsigned long long)at);
    sass_print(&s, out);
    if (line && line->line) buf_printf(out, " (%.200s:%u)", line->file, line->line);
}

static void print_pending(const AuditKernel *k, const AuditFinding *f, const char *what, Buf *out)
{
    SassInst load = sass_decode(k->text->code + f->load, f->load);
    print_place(k, f->at, out);
    buf_printf(out, " %s\n          while the shared load ", what);
    print_place(k, f->load, out);
    buf_puts(out, " may still be pending (O6)\n          required between them: FENCE.VIEW.ASYNC");
    if (load.set < SASS_SCOREBOARDS)
        buf_printf(out, ", or a wait for scoreboard %d, on every path", load.set);
    buf_putc(out, '\n');
}

static void print_finding(const AuditKernel *k, const AuditFinding *f, Buf *out)
{
    buf_puts(out, "  FINDING ");
    switch (f->kind) {
    case AUDIT_RELEASE: print_pending(k, f, "gives a slot away", out); return;
    case AUDIT_REFILL: print_pending(k, f, "begins to overwrite shared memory", out); return;
    case AUDIT_SERIAL:
        print_place(k, f->at, out);
        buf_puts(out, " and more of its accumulator are waited for one by one:\n"
                      "          the assembler serialised them (O9)\n");
        return;
    case AUDIT_UNKNOWN:
        print_place(k, f->at, out);
        buf_puts(out, " is not in the table: what it does is not known, so nothing is proved\n");
        return;
    case AUDIT_INDIRECT:
        print_place(k, f->at, out);
        buf_puts(out, " goes where a register says: the paths behind it are not followed\n");
        return;
    default:
        buf_printf(out, "%d instructions are more than the %d that are looked at\n",
                   k->instructions, AUDIT_INSTRUCTIONS_MAX);
    }
}

static void print_more(const AuditKernel *k, Buf *out)
{
    static const char *const what[AUDIT_KIND_COUNT] = {
        "loads pending at an arrival", "loads pending at a bulk copy", "serialised products",
        "unknown instructions", "indirect branches", ""};
    for (int i = 0; i < AUDIT_KIND_COUNT; i++)
        if (k->counts[i] > AUDIT_KEPT)
            buf_printf(out, "  FINDING and %d more %s\n", k->counts[i] - AUDIT_KEPT, what[i]);
}

void audit_print(const AuditKernel *k, Buf *out)
{
    int n = audit_findings(k);
    buf_printf(out, "%s %s: %d instructions, ", k->text->entry ? "kernel" : "function",
               k->text->name, k->instructions);
    if (k->counts[AUDIT_UNKNOWN]) buf_printf(out, "%d UNKNOWN", k->counts[AUDIT_UNKNOWN]);
    else buf_puts(out, "all known");
    buf_printf(out, "; %d shared loads, %d arrivals, %d proxy fences, %d bulk loads, %d products "
                    "in %d groups\n",
               k->loads, k->arrivals, k->fences, k->bulk_loads, k->products, k->groups);
    for (int i = 0; i < k->findings.n; i++) print_finding(k, &k->findings.at[i], out);
    print_more(k, out);
    if (k->spills)
        buf_printf(out, "  remark  %d instructions access local memory: registers are spilled, or "
                        "an array is indexed\n", k->spills);
    if (k->registers_left_out)
        buf_puts(out, "  remark  setmaxnreg was asked for, and the assembler left it out\n");
    if (k->calls_outside)
        buf_printf(out, "  remark  %d calls lead to other code, which is audited by itself\n",
                   k->calls_outside);
    if (!n) buf_puts(out, "  clean\n");
    else buf_printf(out, "  %d finding%s\n", n, n == 1 ? "" : "s");
}
