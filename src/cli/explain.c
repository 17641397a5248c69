// explain.c - prints the table of facts as one page for each kernel: grid and registers, roles,
// shared tiles, barriers, global tensors.
//
// Input: facts (explain.h) and the launch plan. Output: plain text of at most PAGE_WIDTH columns,
// places as file:line; a list of places in one file names it once: v4.co:72, :92. A shared tile is
// told as what happens to a slot: filled, announced by its full barrier, read, released, freed by
// its empty barrier. Barriers that stand at no tile have a section of their own.
#include "explain.h"

#include <string.h>

enum { PAGE_WIDTH = 100, LABEL_AT = 6, TEXT_AT = 22, PLACES_MAX = 6, ANY = -100 };

typedef struct {
    const Explained *x;
    const Plan *plan;
    const PlanStep *step; // that launches the kernel; NULL: none does
    const Diag *diag;
    Buf *out;
} Page;

// ---- text ---------------------------------------------------------------------------------------

static int columns(const char *s, size_t n)
{
    int c = 0;
    for (size_t i = 0; i < n; i++) c += ((u8)s[i] & 0xc0) != 0x80;
    return c;
}

// A label and text behind it, broken at blanks; further lines stand under the first.
static void put_item(Buf *out, int label_at, int text_at, const char *label, const char *text)
{
    buf_printf(out, "%*s%s", label_at, "", label);
    int at = label_at + columns(label, strlen(label));
    bool first = true;
    while (*text) {
        size_t n = strcspn(text, " ");
        int wide = columns(text, n);
        if (!first && at + 1 + wide > PAGE_WIDTH) {
            buf_printf(out, "\n%*s", text_at, "");
            at = text_at;
        } else {
            int gap = first ? MAX(text_at - at, label[0] ? 2 : 0) : 1;
            buf_printf(out, "%*s", gap, "");
            at += gap;
        }
        buf_write(out, text, n);
        at += wide;
        first = false;
        text += n;
        while (*text == ' ') text++;
    }
    buf_putc(out, '\n');
}

static void put(const Page *p, const char *label, Buf *text)
{
    if (text->n) put_item(p->out, LABEL_AT, TEXT_AT, label, text->s);
    text->n = 0;
    if (text->s) text->s[0] = 0;
}

static const char *buffer_name(const Page *p, int b)
{
    return b >= 0 && b < p->x->fn->buffers.n ? p->x->fn->buffers.at[b].name : "?";
}

// The last part of the path; lines of other files (included ones) carry theirs.
static const char *short_name(const Page *p, u16 file)
{
    const char *name = p->diag ? diag_file_name(p->diag, file) : "?";
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void put_loc(const Page *p, Loc loc, Buf *b)
{
    if (!loc.line) buf_puts(b, "made by the compiler");
    else buf_printf(b, "%s:%u", short_name(p, loc.file), loc.line);
}

static void put_role(const Page *p, int role, Buf *b)
{
    const ExplainRole *r = &p->x->roles.at[role];
    if (role == 0) buf_puts(b, "all warps");
    else if (r->warps == 1) buf_printf(b, "warp %d", r->first);
    else buf_printf(b, "warps %d-%d", r->first, r->first + r->warps - 1);
}

static bool matches(const Fact *f, int kind, int subject, int object, int role)
{
    return f->kind == kind && (subject == ANY || f->subject == subject) &&
           (object == ANY || f->object == object) && (role == ANY || f->role == role);
}

static bool any_fact(const Page *p, int kind, int subject, int object, int role)
{
    for (int i = 0; i < p->x->facts.n; i++)
        if (matches(&p->x->facts.at[i], kind, subject, object, role)) return true;
    return false;
}

// Places of the facts that are like `like` (ANY where that does not matter), each once:
// " v4.co:72, :92", or nothing when there is none.
static void put_places_of(const Page *p, const Fact *like, Buf *b)
{
    Loc seen[PLACES_MAX];
    int n = 0, more = 0;
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, like->kind, like->subject, like->object, like->role) || !f->loc.line ||
            (like->n != ANY && f->n != like->n))
            continue;
        bool known = false;
        for (int k = 0; k < n; k++)
            known |= seen[k].file == f->loc.file && seen[k].line == f->loc.line;
        if (known) continue;
        if (n == PLACES_MAX) {
            more++;
            continue;
        }
        buf_puts(b, n ? ", " : " ");
        if (n && seen[n - 1].file == f->loc.file) buf_printf(b, ":%u", f->loc.line);
        else put_loc(p, f->loc, b);
        seen[n++] = f->loc;
    }
    if (more) buf_printf(b, " and %d more", more);
}

static void put_places(const Page *p, int kind, int subject, int object, int role, Buf *b)
{
    put_places_of(p, &(Fact){.kind = (u8)kind, .subject = subject, .object = object, .role = role,
                             .n = ANY}, b);
}

// "k_s v4.co:52; v_s v4.co:55": the subjects of the matching facts in order of first sight.
static void put_subjects(const Page *p, int kind, int role, Buf *b)
{
    int shown = 0;
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, kind, ANY, ANY, role)) continue;
        bool earlier = false;
        for (int k = 0; k < i && !earlier; k++)
            earlier = matches(&p->x->facts.at[k], kind, f->subject, ANY, role);
        if (earlier) continue;
        buf_printf(b, "%s%s", shown++ ? "; " : "", buffer_name(p, f->subject));
        put_places(p, kind, f->subject, ANY, role, b);
    }
}

// "warps 4-11 v4.co:74, :97; warp 0 ...": the roles of the matching facts.
static void put_roles(const Page *p, int kind, int subject, int object, const char *verb, Buf *b)
{
    for (int r = 0; r < p->x->roles.n; r++) {
        if (!any_fact(p, kind, subject, object, r)) continue;
        if (b->n) buf_puts(b, "; ");
        if (*verb) buf_printf(b, "%s, ", verb);
        put_role(p, r, b);
        put_places(p, kind, subject, object, r, b);
    }
}

static const char *plural(i64 n) { return n == 1 ? "" : "s"; }

// ---- sizes and conditions -----------------------------------------------------------------------

// The same with (x + c - 1) / c as the name `cdiv(x, c)`.
static const Expr *with_cdiv(ExprPool *x, const Expr *e)
{
    i64 c, rest = 0;
    if (e->op == EX_CONST || e->op == EX_VAR) return e;
    if (e->op == EX_DIV && expr_is_const(e->b, &c) && c > 1) {
        const Expr *up = expr_sub(x, e->a, expr_const(x, c - 1));
        if (e->a->op == EX_ADD && expr_is_const(e->a->b, &rest) && rest == c - 1) {
            Buf name = {0};
            buf_puts(&name, "cdiv(");
            expr_print(with_cdiv(x, up), &name);
            buf_printf(&name, ", %lld)", (long long)c);
            const Expr *named = expr_var(x, name.s);
            buf_free(&name);
            return named;
        }
    }
    const Expr *a = with_cdiv(x, e->a), *b = with_cdiv(x, e->b);
    if (e->op == EX_SELECT) return expr_select(x, a, b, with_cdiv(x, e->c));
    return expr_bin(x, (ExprOp)e->op, a, b);
}

static void put_expr(const Page *p, const Expr *e, Buf *b)
{
    expr_print(with_cdiv(p->x->module->exprs, e), b);
}

// A condition on sizes as one reads it: `K > 0 and K % 8 == 0`.
static void put_condition(const Page *p, const Expr *e, Buf *b)
{
    i64 c;
    if (e->op == EX_LAND) {
        put_condition(p, e->a, b);
        buf_puts(b, " and ");
        put_condition(p, e->b, b);
        return;
    }
    bool flips = e->op == EX_EQ || e->op == EX_NE || e->op == EX_LT || e->op == EX_LE;
    if (!flips || !expr_is_const(e->a, &c)) {
        put_expr(p, e, b);
        return;
    }
    const Expr *side = e->b;
    if (e->op == EX_EQ && !c && (side->op == EX_LAND || side->op == EX_EQ)) {
        buf_puts(b, "not (");
        put_condition(p, side, b);
        buf_putc(b, ')');
        return;
    }
    if (!c && side->op == EX_MUL && side->b->op == EX_CONST) side = side->a;
    put_expr(p, side, b);
    const char *sign = e->op == EX_EQ ? "==" : e->op == EX_NE ? "!=" : e->op == EX_LT ? ">" : ">=";
    buf_printf(b, " %s %lld", sign, (long long)c);
}

// ---- kernel and roles ---------------------------------------------------------------------------

static void print_registers(const Page *p, Buf *b)
{
    const ThreadFn *fn = p->x->fn;
    if (fn->maxnreg) {
        buf_printf(b, "%d per thread at entry", fn->maxnreg);
    } else {
        // What the assembler may give: whole multiples of 8, 255 at most.
        int most = SM_REGISTERS / (MAX(fn->threads, 1) * MAX(fn->min_ctas, 1)) / 8 * 8;
        buf_printf(b, "at most %d per thread, by the assembler", MIN(most, 255));
    }
    if (fn->min_ctas)
        buf_printf(b, "; at least %d CTA%s per SM asked for", fn->min_ctas, plural(fn->min_ctas));
    // After setmaxnreg the pool is what the roles hold together; nested roles are part of outer
    // ones.
    i64 moved = 0, threads = 0;
    for (int r = 1; r < p->x->roles.n; r++) {
        const ExplainRole *role = &p->x->roles.at[r];
        if (!role->nreg) continue;
        moved += (i64)role->nreg * role->warps * 32;
        threads += role->warps * 32;
    }
    if (moved && threads == fn->threads)
        buf_printf(b, "; %lld of %d in the roles together", (long long)moved, SM_REGISTERS);
}

static void print_head(const Page *p)
{
    const ThreadFn *fn = p->x->fn;
    Buf b = {0};
    buf_printf(p->out, "\nkernel %s\n", fn->name);
    if (p->step) {
        for (int i = 0; i < 3; i++) {
            buf_puts(&b, i ? ", " : "(");
            put_expr(p, p->step->grid[i], &b);
        }
        buf_puts(&b, ") CTAs");
        if (p->step->when) {
            buf_puts(&b, ", when ");
            put_condition(p, p->step->when, &b);
        }
        put_item(p->out, 2, 13, "grid", b.s);
        b.n = 0;
    }
    buf_printf(&b, "%d threads, %d warps; ", fn->threads, fn->threads / 32);
    if (fn->cluster > 1) buf_printf(&b, "clusters of %d CTAs", fn->cluster);
    else buf_puts(&b, "no clusters");
    put_item(p->out, 2, 13, "block", b.s);
    b.n = 0;
    print_registers(p, &b);
    put_item(p->out, 2, 13, "registers", b.s);
    b.n = 0;
    i64 per_sm = MIN(SMEM_SM / (fn->smem_bytes + SMEM_RESERVED), SM_CTAS);
    buf_printf(&b, "%lld bytes of %d (227 KB)", (long long)fn->smem_bytes, SMEM_CTA_MAX);
    if (fn->smem_bytes)
        buf_printf(&b, "; leaves room for %lld CTA%s per SM", (long long)per_sm, plural(per_sm));
    put_item(p->out, 2, 13, "shared", b.s);
    buf_free(&b);
}

// Elements along K of one instruction: 32 bytes of them.
static int product_k(int type)
{
    if (type == TT_E4M3 || type == TT_E5M2 || type == TT_S8 || type == TT_U8) return 32;
    return type == TT_TF32 ? 8 : 16;
}

static void print_products(const Page *p, int role, Buf *b)
{
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, FACT_PRODUCT, ANY, ANY, role)) continue;
        bool earlier = false;
        i64 sites = 0;
        for (int k = 0; k < p->x->facts.n; k++) {
            if (!matches(&p->x->facts.at[k], FACT_PRODUCT, f->subject, f->object, role)) continue;
            earlier |= k < i;
            sites += p->x->facts.at[k].n;
        }
        if (earlier) continue;
        buf_printf(b, "%s%lld wgmma m64n%dk%d.%s", b->n ? "; " : "", (long long)sites, f->subject,
                   product_k(f->object), thread_type_name[f->object]);
        put_places(p, FACT_PRODUCT, f->subject, f->object, role, b);
    }
}

static void print_role(const Page *p, int r)
{
    static const struct {
        u8 kind;
        const char *label;
    } rows[] = {
        {FACT_TMA_LOAD, "loads by TMA"}, {FACT_CPASYNC, "cp.async to"},
        {FACT_GLOBAL_READ, "reads global"}, {FACT_READ, "reads shared"},
        {FACT_WRITE, "writes shared"}, {FACT_GLOBAL_WRITE, "writes global"},
        {FACT_TMA_STORE, "stores by TMA"},
    };
    const ExplainRole *role = &p->x->roles.at[r];
    Buf b = {0};
    put_role(p, r, &b);
    buf_printf(p->out, "    %-12s %5d threads", b.s, role->warps * 32);
    b.n = 0;
    int owner = r;
    while (owner > 0 && !p->x->roles.at[owner].nreg) owner = p->x->roles.at[owner].parent;
    int nreg = p->x->roles.at[owner].nreg;
    if (nreg) buf_printf(p->out, ", %d registers", nreg);
    if (role->parent > 0) {
        buf_puts(p->out, ", of ");
        put_role(p, role->parent, p->out);
    }
    if (role->loc.line) {
        buf_puts(p->out, "  ");
        put_loc(p, role->loc, p->out);
    }
    buf_putc(p->out, '\n');
    for (int i = 0; i < COUNT(rows); i++) {
        put_subjects(p, rows[i].kind, r, &b);
        put(p, rows[i].label, &b);
        if (i == 3) {
            print_products(p, r, &b);
            put(p, "multiplies", &b);
        }
    }
    buf_free(&b);
}

// ---- barriers -----------------------------------------------------------------------------------

// Box and bytes of the tensor map behind a kernel parameter; NULL when the plan has none.
static const PlanTensorMap *map_of(const Page *p, int param)
{
    if (!p->step || param < 0 || param >= p->step->args.n) return NULL;
    const PlanArg *a = &p->step->args.at[param];
    if (a->kind != ARG_TMAP || a->index < 0 || a->index >= p->step->tmaps.n) return NULL;
    return &p->step->tmaps.at[a->index];
}

static i64 box_bytes(const Page *p, const PlanTensorMap *t)
{
    i64 n = dtype_bytes[p->plan->params.at[t->param].type];
    for (int i = 0; i < t->rank; i++) n *= t->box[i];
    return n;
}

// ", 2 loads of 16384 into k_s" for the loads behind the announcement `at`, up to the next one of
// the same ring by the same role.
static void put_loads(const Page *p, int at, Buf *b)
{
    const Fact *expect = &p->x->facts.at[at];
    for (int i = at + 1; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (matches(f, FACT_EXPECT, expect->subject, ANY, expect->role)) return;
        if (!matches(f, FACT_TMA_LOAD, ANY, expect->subject, expect->role)) continue;
        const PlanTensorMap *t = map_of(p, f->param);
        buf_printf(b, ", %lld load%s", (long long)f->n, plural(f->n));
        if (t) buf_printf(b, " of %lld", (long long)box_bytes(p, t));
        buf_printf(b, " into %s", buffer_name(p, f->subject));
        if (p->x->peers[f->subject])
            buf_printf(b, " of all %d blocks, which each bring as much", p->x->fn->cluster);
    }
}

static void print_announcements(const Page *p, int ring)
{
    Buf b = {0};
    const char *label = "completed by";
    // Each announcement arrives once. With one arrival for each role, one thread of a role does.
    int roles = 0;
    for (int r = 0; r < p->x->roles.n; r++) roles += any_fact(p, FACT_EXPECT, ring, ANY, r);
    bool one = p->x->arrivals[ring] == roles && !any_fact(p, FACT_ARRIVE, ring, ANY, ANY);
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, FACT_EXPECT, ring, ANY, ANY)) continue;
        if (one) buf_puts(&b, "one thread of ");
        if (one && f->role == 0) buf_puts(&b, "the block");
        else put_role(p, f->role, &b);
        buf_putc(&b, ' ');
        put_loc(p, f->loc, &b);
        if (f->n == EXPECT_UNKNOWN) buf_puts(&b, ": bytes that it computes");
        else buf_printf(&b, ": %lld bytes", (long long)f->n);
        put_loads(p, i, &b);
        put(p, label, &b);
        label = "";
    }
    buf_free(&b);
}

// Arrivals of threads: how many, and whose. The count is the one that the barrier starts with; it
// is put beside the roles that arrive.
static void print_arrivals(const Page *p, int ring)
{
    i64 count = p->x->arrivals[ring], warps = 0;
    Buf b = {0};
    for (int r = 0; r < p->x->roles.n; r++)
        if (any_fact(p, FACT_ARRIVE, ring, ANY, r)) warps += p->x->roles.at[r].warps;
    if (!warps) return;
    put_roles(p, FACT_ARRIVE, ring, ANY, "", &b);
    if (!p->x->by_bytes[ring]) {
        buf_printf(&b, ": %lld arrival%s", (long long)count, plural(count));
        int blocks = p->x->peers[ring] ? p->x->fn->cluster : 1;
        if (count == warps * blocks) buf_printf(&b, ", one of each warp");
        else if (count == warps * 32 * blocks) buf_printf(&b, ", one of each thread");
        if (blocks > 1) buf_printf(&b, " of all %d blocks of the cluster", blocks);
    }
    put(p, p->x->by_bytes[ring] ? "and arrivals" : "completed by", &b);
    buf_free(&b);
}

// "2 slots, mbarrier, 16 bytes at 196616  v4.co:37"
static void put_ring(const Page *p, int ring, Buf *b)
{
    const ThreadBuffer *t = &p->x->fn->buffers.at[ring];
    i64 slots = 0, bytes = thread_buffer_bytes(t);
    if (t->rank == 1) expr_is_const(t->dim[0], &slots);
    buf_printf(b, "%lld slot%s, mbarrier, %lld bytes at %lld  ", (long long)slots, plural(slots),
               (long long)bytes, (long long)t->offset);
    put_loc(p, t->loc, b);
}

// Who completes a generation and who waits for it.
static void print_generation(const Page *p, int ring)
{
    Buf b = {0};
    print_announcements(p, ring);
    print_arrivals(p, ring);
    if (!any_fact(p, FACT_EXPECT, ring, ANY, ANY) && !any_fact(p, FACT_ARRIVE, ring, ANY, ANY)) {
        buf_puts(&b, "NOBODY: who waits for it never goes on");
        put(p, "completed by", &b);
    }
    put_roles(p, FACT_WAIT, ring, ANY, "", &b);
    if (!b.n) buf_puts(&b, "nobody");
    put(p, "waited for by", &b);
    buf_free(&b);
}

static bool is_empty(const Page *p, int ring, int tile)
{
    return any_fact(p, FACT_REFILL, tile, ring, ANY);
}

// The ring says when a slot of the tile is full: loads of the TMA unit complete it, or those
// arrive at it that write the tile, and other roles that read the tile wait for it.
static bool is_full(const Page *p, int ring, int tile)
{
    if (any_fact(p, FACT_TMA_LOAD, tile, ring, ANY)) return true;
    if (is_empty(p, ring, tile)) return false;
    bool announced = false, awaited = false;
    for (int r = 0; r < p->x->roles.n; r++) {
        bool writes = any_fact(p, FACT_WRITE, tile, ANY, r) ||
                      any_fact(p, FACT_CPASYNC, tile, ANY, r);
        bool reads = any_fact(p, FACT_READ, tile, ANY, r) ||
                     any_fact(p, FACT_WGMMA_READ, tile, ANY, r);
        bool arrives = any_fact(p, FACT_ARRIVE, ring, ANY, r);
        if (arrives && !writes) return false;
        announced |= arrives;
        awaited |= reads && !writes && any_fact(p, FACT_WAIT, ring, ANY, r);
    }
    return announced && awaited;
}

// The tile that a ring is printed with, the first of those that it belongs to; -1: it has none.
static int owner_of(const Page *p, int ring)
{
    for (int i = 0; i < p->x->fn->buffers.n; i++) {
        if (p->x->fn->buffers.at[i].kind != BUF_SHARED) continue;
        if (is_full(p, ring, i) || is_empty(p, ring, i)) return i;
    }
    return -1;
}

static void print_tile_rings(const Page *p, int tile, const char *label,
                             bool (*belongs)(const Page *, int, int))
{
    Buf b = {0};
    for (int i = 0; i < p->x->fn->buffers.n; i++) {
        if (p->x->fn->buffers.at[i].kind != BUF_MBAR || !belongs(p, i, tile)) continue;
        int owner = owner_of(p, i);
        buf_printf(&b, "%s, ", buffer_name(p, i));
        if (owner == tile) put_ring(p, i, &b);
        else buf_printf(&b, "see %s", buffer_name(p, owner));
        put(p, label, &b);
        if (owner == tile) print_generation(p, i);
    }
    buf_free(&b);
}

// Barriers of the program's own protocol, such as turns that are handed on.
static bool print_other_ring(const Page *p, int ring)
{
    if (p->x->fn->buffers.at[ring].kind != BUF_MBAR || owner_of(p, ring) >= 0) return false;
    buf_printf(p->out, "    %-15s ", buffer_name(p, ring));
    put_ring(p, ring, p->out);
    buf_putc(p->out, '\n');
    print_generation(p, ring);
    return true;
}

// First use of the barrier in the program; NULL: none.
static const Fact *first_use(const Page *p, int id)
{
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if ((f->kind == FACT_BAR_SYNC || f->kind == FACT_BAR_ARRIVE) && f->subject == id) return f;
    }
    return NULL;
}

static void print_named(const Page *p, int id, const Fact *first)
{
    Buf b = {0};
    if (id < 0) buf_puts(p->out, "    named, its number in a register, ");
    else if (id == 0) buf_puts(p->out, "    the block's     ");
    else buf_printf(p->out, "    named %-9d ", id);
    if (first->n < 0) buf_puts(p->out, "threads in a register\n");
    else buf_printf(p->out, "%lld threads\n", (long long)first->n);
    put_roles(p, FACT_BAR_SYNC, id, ANY, "", &b);
    put(p, "sync", &b);
    put_roles(p, FACT_BAR_ARRIVE, id, ANY, "", &b);
    put(p, "arrive", &b);
    buf_free(&b);
}

// mbarriers that stand at no tile, then named barriers by number; those whose numbers are in
// registers stand first.
static void print_barriers(const Page *p)
{
    Buf *out = p->out;
    size_t before = out->n;
    buf_puts(out, "\n  other barriers\n");
    bool any = false;
    for (int i = 0; i < p->x->fn->buffers.n; i++) any |= print_other_ring(p, i);
    for (int id = -1; id < 16; id++) {
        const Fact *first = first_use(p, id);
        if (first) print_named(p, id, first);
        any |= first != NULL;
    }
    if (any) return;
    out->n = before;
    out->s[before] = 0;
}

// ---- shared memory ------------------------------------------------------------------------------

static void put_shape(const ThreadBuffer *t, int from, Buf *b)
{
    buf_printf(b, "%s[", dtype_name[t->type]);
    for (int i = from; i < t->rank; i++) {
        if (i > from) buf_puts(b, ", ");
        expr_print(t->dim[i], b);
    }
    buf_putc(b, ']');
}

static void put_barrier(int gate, Buf *b)
{
    if (gate_of_barrier(gate) == EXPLAIN_CHOSEN_BARRIER)
        buf_puts(b, "a named barrier");
    else if (gate_of_barrier(gate) == 0)
        buf_puts(b, "the block's barrier");
    else
        buf_printf(b, "named barrier %d", gate_of_barrier(gate));
}

// Why the next fill may overwrite what was read, in the words of the machine.
static void put_protection(i64 bits, bool async_fill, Buf *b)
{
    if (bits & RELEASE_NEWER)
        buf_puts(b, "the newest products still RUN, right where they read other slots");
    else if (bits & RELEASE_WAITED)
        buf_puts(b, "its products are waited for");
    if (bits & (RELEASE_NEWER | RELEASE_WAITED) && bits & (RELEASE_FENCED | RELEASE_UNFENCED))
        buf_puts(b, "; ");
    if (bits & RELEASE_UNFENCED)
        buf_puts(b, async_fill ? "ordinary reads WITHOUT a proxy fence"
                               : "ordinary reads and writes, the barrier is enough");
    else if (bits & RELEASE_FENCED)
        buf_puts(b, "ordinary reads, proxy fence behind them");
    else if (bits == RELEASE_WAITED) buf_puts(b, ", no fence needed");
}

static bool filled_in_loop(const Page *p, int buffer)
{
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (f->subject == buffer && f->loop &&
            (f->kind == FACT_TMA_LOAD || f->kind == FACT_WRITE || f->kind == FACT_CPASYNC))
            return true;
    }
    return false;
}

static void print_releases(const Page *p, int buffer)
{
    Buf b = {0};
    const char *label = "released";
    bool tma = any_fact(p, FACT_TMA_LOAD, buffer, ANY, ANY);
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, FACT_RELEASE, buffer, ANY, ANY)) continue;
        bool earlier = false;
        for (int k = 0; k < i && !earlier; k++) {
            const Fact *e = &p->x->facts.at[k];
            earlier = matches(e, FACT_RELEASE, buffer, f->object, f->role) && e->n == f->n;
        }
        if (earlier) continue;
        put_role(p, f->role, &b);
        buf_puts(&b, " at");
        put_places_of(p, f, &b);
        buf_puts(&b, " through ");
        if (f->object >= 0) buf_puts(&b, buffer_name(p, f->object));
        else put_barrier(f->object, &b);
        buf_puts(&b, ": ");
        put_protection(f->n, tma, &b);
        put(p, label, &b);
        label = "";
    }
    put_roles(p, FACT_STORE_WAIT, buffer, ANY, "", &b);
    if (b.n) {
        buf_puts(&b, ": the TMA store has read it (bulk wait)");
        put(p, label, &b);
    } else if (*label) {
        if (!filled_in_loop(p, buffer)) buf_puts(&b, "never, it is filled once");
        else if (any_fact(p, FACT_REFILL, buffer, ANY, ANY)) buf_puts(&b, "nobody reads it before");
        else
            buf_puts(&b, "no barrier of its own: "
                         "what stands in front of its next fill is not seen here");
        put(p, label, &b);
    }
    buf_free(&b);
}

static void print_refills(const Page *p, int buffer)
{
    Buf b = {0};
    int n = 0;
    for (int i = 0; i < p->x->facts.n; i++) {
        const Fact *f = &p->x->facts.at[i];
        if (!matches(f, FACT_REFILL, buffer, ANY, ANY) || f->object >= 0) continue;
        bool earlier = false;
        for (int k = 0; k < i && !earlier; k++) {
            const Fact *e = &p->x->facts.at[k];
            earlier = matches(e, FACT_REFILL, buffer, f->object, ANY) &&
                      e->loc.line == f->loc.line;
        }
        if (earlier) continue;
        buf_puts(&b, n++ ? ", " : "");
        put_barrier(f->object, &b);
        buf_putc(&b, ' ');
        put_loc(p, f->loc, &b);
    }
    put(p, "refilled after", &b);
    buf_free(&b);
}

static void print_neighbours(const Page *p, int buffer)
{
    const ThreadFn *fn = p->x->fn;
    const ThreadBuffer *t = &fn->buffers.at[buffer];
    Buf b = {0};
    for (int i = 0; i < fn->buffers.n; i++) {
        const ThreadBuffer *o = &fn->buffers.at[i];
        if (i == buffer || o->kind == BUF_GLOBAL) continue;
        if (o->offset >= t->offset + thread_buffer_bytes(t) ||
            t->offset >= o->offset + thread_buffer_bytes(o))
            continue;
        buf_printf(&b, "%s%s", b.n ? ", " : "", o->name);
    }
    put(p, "shares with", &b);
    buf_free(&b);
}

static void print_buffer(const Page *p, int buffer)
{
    const ThreadBuffer *t = &p->x->fn->buffers.at[buffer];
    i64 slots = 1, v, bytes = thread_buffer_bytes(t);
    int lead = t->rank > 2 ? t->rank - 2 : 0;
    Buf b = {0};
    for (int i = 0; i < lead; i++)
        if (expr_is_const(t->dim[i], &v)) slots *= v;
    put_shape(t, lead, &b);
    buf_printf(p->out, "    %-12s %lld x %s %s, %lld bytes at %lld  ", t->name, (long long)slots,
               b.s, smem_layout[t->layout].name, (long long)bytes, (long long)t->offset);
    put_loc(p, t->loc, p->out);
    buf_putc(p->out, '\n');
    b.n = 0;
    put_roles(p, FACT_TMA_LOAD, buffer, ANY, "TMA", &b);
    put_roles(p, FACT_WRITE, buffer, ANY, "ordinary stores", &b);
    put_roles(p, FACT_CPASYNC, buffer, ANY, "cp.async", &b);
    put(p, "filled by", &b);
    put_roles(p, FACT_FENCE, buffer, ANY, "", &b);
    put(p, "proxy fence", &b);
    print_tile_rings(p, buffer, "full barrier", is_full);
    put_roles(p, FACT_WGMMA_READ, buffer, ANY, "wgmma", &b);
    put_roles(p, FACT_READ, buffer, ANY, "ordinary loads", &b);
    put_roles(p, FACT_TMA_STORE, buffer, ANY, "TMA store", &b);
    if (!b.n) buf_puts(&b, "nobody");
    put(p, "read by", &b);
    print_releases(p, buffer);
    print_tile_rings(p, buffer, "empty barrier", is_empty);
    print_refills(p, buffer);
    print_neighbours(p, buffer);
    buf_free(&b);
}

// ---- global memory ------------------------------------------------------------------------------

static void put_map(const Page *p, int param, Buf *b)
{
    const PlanTensorMap *t = map_of(p, param);
    if (!t) return;
    buf_printf(b, "box ");
    for (int i = t->rank - 1; i >= 0; i--) buf_printf(b, "%u%s", t->box[i], i ? " x " : "");
    buf_printf(b, " %s, %lld bytes", smem_layout[t->swizzle].name, (long long)box_bytes(p, t));
}

// One item a tensor: shape, place, tensor maps, and who else accesses it.
static void print_tensor(const Page *p, int buffer)
{
    const ThreadFn *fn = p->x->fn;
    const ThreadBuffer *t = &fn->buffers.at[buffer];
    Buf b = {0}, who = {0};
    buf_printf(&b, "%s[", dtype_name[t->type]);
    for (int i = 0; i < t->rank; i++) {
        buf_puts(&b, i ? ", " : "");
        put_expr(p, t->dim[i], &b);
    }
    buf_puts(&b, "] ");
    put_loc(p, t->loc, &b);
    // A tensor map belongs to the tensor that its argument describes.
    for (int k = 0; k < fn->params.n; k++) {
        const PlanTensorMap *m = map_of(p, k);
        if (!m || p->step->args.at[t->param].kind != ARG_TENSOR ||
            m->param != p->step->args.at[t->param].index)
            continue;
        buf_puts(&b, "; TMA ");
        put_map(p, k, &b);
        for (int i = 0, n = 0; i < p->x->facts.n; i++) {
            const Fact *f = &p->x->facts.at[i];
            if ((f->kind != FACT_TMA_LOAD && f->kind != FACT_TMA_STORE) || f->param != k) continue;
            buf_printf(&b, "%s %s %s ", n++ ? "," : "", f->kind == FACT_TMA_LOAD ? "to" : "from",
                       buffer_name(p, f->subject));
            put_loc(p, f->loc, &b);
        }
    }
    put_roles(p, FACT_GLOBAL_READ, buffer, ANY, "", &who);
    if (who.n) buf_printf(&b, "; read by %s", who.s);
    who.n = 0;
    put_roles(p, FACT_GLOBAL_WRITE, buffer, ANY, "", &who);
    if (who.n) buf_printf(&b, "; written by %s", who.s);
    put_item(p->out, 4, 17, t->name, b.s);
    buf_free(&b);
    buf_free(&who);
}

// ---- the page -----------------------------------------------------------------------------------

static void print_section(const Page *p, BufferKind kind, const char *title,
                          void (*print)(const Page *, int))
{
    bool head = false;
    for (int i = 0; i < p->x->fn->buffers.n; i++) {
        if (p->x->fn->buffers.at[i].kind != kind) continue;
        if (!head) buf_printf(p->out, "\n  %s\n", title);
        head = true;
        print(p, i);
    }
}

void explain_print(Arena *a, const ThreadModule *m, const Plan *plan, const Diag *d, Buf *out)
{
    if (plan) buf_printf(out, "%s: %d kernel%s\n", plan->name, m->fns.n, plural(m->fns.n));
    for (int i = 0; i < m->fns.n; i++) {
        const ThreadFn *fn = m->fns.at[i];
        Page p = {explain_collect(a, m, fn), plan, plan_step_of(plan, fn->name), d, out};
        print_head(&p);
        buf_puts(out, "\n  roles\n");
        for (int r = 0; r < p.x->roles.n; r++) print_role(&p, r);
        print_section(&p, BUF_SHARED, "shared memory", print_buffer);
        print_barriers(&p);
        print_section(&p, BUF_GLOBAL, "global tensors", print_tensor);
    }
}
