// cuda_wgmma.c - products of the CUDA printer, and where their registers must be held.
//
// A C++ compiler sees the accumulators as a result of the instruction that starts the product, and
// may move their uses up to it, over the wait. So each wait is followed by ptx_hold, an empty piece
// of assembly that seems to change the registers which the wait makes ready; and each fence is
// preceded by one for registers that the products behind it take, so that their values are computed
// before. A register that a product may still be writing must not be touched at all, not even so:
// hence this analysis, which follows the groups of products through the program.
#include "cuda_impl.h"

// GROUPS: waits of more than 7 are not printed, so older groups need not be told apart. ROUNDS: a
// commit moves a set back by one group, so a loop is stable after about GROUPS rounds.
enum { GROUPS = 9, ROUNDS = 32 };
// The open group is [0], [1] the newest committed one; older than [GROUPS - 1] are with it.
typedef struct {
    CudaRanges group[GROUPS];
} Flight;

// ---- sets of registers --------------------------------------------------------------------------

// Of the same array, and at least one element in common.
static bool overlap(const CudaRange *a, const CudaRange *b)
{
    return a->reg == b->reg && a->first < b->first + b->count && b->first < a->first + a->count;
}

// Ranges that another one covers are left out; neighbours are joined only when printed.
static void add_range(Cuda *x, CudaRanges *set, CudaRange r)
{
    for (int i = 0; i < set->n; i++) {
        const CudaRange *o = &set->at[i];
        if (o->reg == r.reg && o->first <= r.first && r.first + r.count <= o->first + o->count)
            return;
    }
    vec_push(x->arena, set, r);
}

static CudaRanges copy_set(Cuda *x, const CudaRanges *s)
{
    CudaRanges c = {0};
    for (int i = 0; i < s->n; i++) vec_push(x->arena, &c, s->at[i]);
    return c;
}

static Flight copy_flight(Cuda *x, const Flight *f)
{
    Flight c;
    for (int i = 0; i < GROUPS; i++) c.group[i] = copy_set(x, &f->group[i]);
    return c;
}

// Adds what is in `b`; true when `a` grew.
static bool join(Cuda *x, Flight *a, const Flight *b)
{
    bool grew = false;
    for (int i = 0; i < GROUPS; i++) {
        int n = a->group[i].n;
        for (int k = 0; k < b->group[i].n; k++) add_range(x, &a->group[i], b->group[i].at[k]);
        grew |= a->group[i].n != n;
    }
    return grew;
}

// Is any register of `r` in one of the groups [0, n)?
static bool in_flight(const Flight *f, int n, const CudaRange *r)
{
    for (int g = 0; g < n; g++)
        for (int i = 0; i < f->group[g].n; i++)
            if (overlap(&f->group[g].at[i], r)) return true;
    return false;
}

// All elements that an operand may name, over the values of the unroll variables.
static CudaRange whole_range(const Cuda *x, const Operand *o, const int *trips)
{
    i64 lo = o->base, hi = o->base;
    for (int i = 0; i < o->nterms; i++) {
        i64 reach = (i64)o->term[i].coef * (trips[o->term[i].var] - 1);
        if (reach < 0) lo += reach;
        else hi += reach;
    }
    // The bounds may reach beyond the array where coefficients are negative: cut to what exists.
    hi = MIN(hi + o->count, (i64)x->fn->regs.at[o->reg].count);
    lo = MAX(lo, 0);
    return (CudaRange){o->reg, (int)lo, (int)(hi - lo)};
}

// ---- the walk -----------------------------------------------------------------------------------

typedef struct {
    Cuda *x;
    int *trips; // of the unroll variables in force
    bool *feeds; // registers that some product reads as A
} Walk;

static bool is_product(const CudaStmt *s)
{
    return s->op.op == OP_WGMMA_SS || s->op.op == OP_WGMMA_RS;
}

// Registers of a product: the accumulator, and A when it comes from registers.
static void product_ranges(const Walk *w, const CudaStmt *s, CudaRange out[2], int *n)
{
    *n = 0;
    out[(*n)++] = whole_range(w->x, &s->op.opnd[0], w->trips);
    if (s->op.op == OP_WGMMA_RS) out[(*n)++] = whole_range(w->x, &s->op.opnd[1], w->trips);
}

// Registers that the products up to the next commit take. Returns true at the commit.
static bool taken_until_commit(Walk *w, const CudaBlock *b, int from, CudaRanges *set,
                               CudaRanges *fresh)
{
    for (int i = from; i < b->stmts.n; i++) {
        const CudaStmt *s = &b->stmts.at[i];
        if (s->op.op == OP_WGMMA_COMMIT) return true;
        if (s->op.op == OP_UNROLL) w->trips[s->op.imm] = s->op.n;
        if (is_product(s)) {
            CudaRange r[2];
            int n;
            product_ranges(w, s, r, &n);
            // An accumulator that an earlier step of the same product started anew holds no old
            // value to keep.
            bool known = false;
            for (int k = 0; k < fresh->n; k++) known |= overlap(&fresh->at[k], &r[0]);
            if (s->fresh) add_range(w->x, fresh, r[0]);
            else if (!known) add_range(w->x, set, r[0]);
            if (n > 1) add_range(w->x, set, r[1]);
        }
        if (s->body && taken_until_commit(w, s->body, 0, set, fresh)) return true;
    }
    return false;
}

// Registers that products behind the fence read must be final before it; those that a product in
// flight may still be writing must not be touched.
static void hold_at_fence(Walk *w, const CudaBlock *b, int i, const Flight *f, CudaStmt *s)
{
    CudaRanges taken = {0}, fresh = {0};
    taken_until_commit(w, b, i + 1, &taken, &fresh);
    s->hold.n = 0;
    for (int k = 0; k < taken.n; k++)
        if (!in_flight(f, GROUPS, &taken.at[k])) add_range(w->x, &s->hold, taken.at[k]);
}

// Groups behind the newest n are complete.
static void hold_at_wait(Walk *w, Flight *f, CudaStmt *s)
{
    s->hold.n = 0;
    for (int g = s->op.n + 1; g < GROUPS; g++) {
        for (int i = 0; i < f->group[g].n; i++)
            if (!in_flight(f, s->op.n + 1, &f->group[g].at[i]))
                add_range(w->x, &s->hold, f->group[g].at[i]);
        f->group[g] = (CudaRanges){0};
    }
}

// The open group becomes the newest; the two oldest are joined, since only GROUPS are told apart.
static void commit(Walk *w, Flight *f)
{
    CudaRanges last = f->group[GROUPS - 1];
    for (int g = GROUPS - 1; g > 0; g--) f->group[g] = f->group[g - 1];
    for (int i = 0; i < last.n; i++) add_range(w->x, &f->group[GROUPS - 1], last.at[i]);
    f->group[0] = (CudaRanges){0};
}

// A copy of registers into the A operand of products is held behind the copy. Otherwise the
// compiler takes both for one value, and where ways meet it copies on the other one: on the way
// that the rename pass has made free of copies, in front of products that then cannot overlap.
static void hold_at_copy(const Walk *w, const Flight *f, CudaStmt *s)
{
    const CudaStmt *mov = &s->body->stmts.at[0];
    s->hold.n = 0;
    if (s->body->stmts.n != 1 || mov->op.op != OP_MOV || mov->op.opnd[1].kind != OPD_REG) return;
    CudaRange r = whole_range(w->x, &mov->op.opnd[0], w->trips);
    if (w->feeds[r.reg] && !in_flight(f, GROUPS, &r)) add_range(w->x, &s->hold, r);
}

static void walk_block(Walk *w, CudaBlock *b, Flight *f);

// Until nothing new arrives at the head of the loop.
static void walk_loop(Walk *w, CudaStmt *s, Flight *f)
{
    Flight end;
    for (int round = 0; round < ROUNDS; round++) {
        end = copy_flight(w->x, f);
        walk_block(w, s->body, &end);
        if (!join(w->x, f, &end)) break;
    }
    if (s->op.op == OP_UNROLL) *f = end; // it runs at least once
}

// What may be in flight on either way is in flight behind it.
static void walk_branches(Walk *w, CudaStmt *s, Flight *f)
{
    Flight other = copy_flight(w->x, f);
    walk_block(w, s->body, f);
    if (s->other) walk_block(w, s->other, &other);
    join(w->x, f, &other);
}

// One walk in program order; `hold` of a statement is set anew each time, so the last round over a
// loop, which knows all that can be in flight at its head, has the final word.
static void walk_block(Walk *w, CudaBlock *b, Flight *f)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        switch (s->op.op) {
        case OP_WGMMA_SS:
        case OP_WGMMA_RS: {
            CudaRange r[2];
            int n;
            product_ranges(w, s, r, &n);
            for (int k = 0; k < n; k++) add_range(w->x, &f->group[0], r[k]);
            break;
        }
        case OP_WGMMA_FENCE: hold_at_fence(w, b, i, f, s); break;
        case OP_WGMMA_COMMIT: commit(w, f); break;
        case OP_WGMMA_WAIT: hold_at_wait(w, f, s); break;
        case OP_UNROLL:
            w->trips[s->op.imm] = s->op.n;
            walk_loop(w, s, f);
            hold_at_copy(w, f, s);
            break;
        case OP_FOR: walk_loop(w, s, f); break;
        default:
            if (s->body) walk_branches(w, s, f);
            break;
        }
    }
}

static void find_feeds(Walk *w, const CudaBlock *b)
{
    for (int i = 0; i < b->stmts.n; i++) {
        const CudaStmt *s = &b->stmts.at[i];
        if (s->op.op == OP_WGMMA_RS) w->feeds[s->op.opnd[1].reg] = true;
        if (s->body) find_feeds(w, s->body);
        if (s->other) find_feeds(w, s->other);
    }
}

// Unroll variables that are not in force yet count as one round, so that every range is defined.
void cu_find_held(Cuda *x, CudaBlock *body)
{
    Walk w = {x, ARENA_ARRAY(x->arena, int, x->fn->unrolls.n),
              ARENA_ARRAY(x->arena, bool, x->fn->regs.n)};
    for (int i = 0; i < x->fn->unrolls.n; i++) w.trips[i] = 1;
    find_feeds(&w, body);
    Flight f = {0};
    walk_block(&w, body, &f);
}

// ---- printing -----------------------------------------------------------------------------------

// Neighbours as one range, in the order of the registers' first range.
static CudaRanges merged(Cuda *x, const CudaRanges *set)
{
    CudaRanges out = {0};
    for (int i = 0; i < set->n; i++) {
        CudaRange *last = out.n ? &out.at[out.n - 1] : NULL, r = set->at[i];
        if (last && last->reg == r.reg && last->first + last->count == r.first)
            last->count += r.count;
        else vec_push(x->arena, &out, r);
    }
    return out;
}

// Printed per run of neighbouring registers. An empty asm with a read-and-write operand costs no
// instruction, but the compiler must have the value there and may not carry uses over it.
void cu_print_hold(Cuda *x, const CudaStmt *s)
{
    CudaRanges hold = merged(x, &s->hold);
    for (int i = 0; i < hold.n; i++) {
        const CudaRange *r = &hold.at[i];
        bool real = x->fn->regs.at[r->reg].class == RC_F32;
        if (cu_need(x, real ? "ptx_hold_f32" : "ptx_hold_b32"))
            cu_define(x,
                        "// Nothing is computed here: uses of these registers stay on their side.\n"
                        "template <int N> " CUDA_FUNCTION "void ptx_hold(%s *reg)\n"
                        "{\n"
                        "#pragma unroll\n"
                        "    for (int i = 0; i < N; i++) asm volatile(\"\" : \"+%c\"(reg[i]) :: "
                        "\"memory\");\n"
                        "}\n",
                        real ? "float" : "uint32_t", real ? 'f' : 'r');
        Operand o = {.kind = OPD_REG, .reg = r->reg, .base = r->first};
        cu_line(x, "ptx_hold<%d>(%s);", r->count, cu_start(x, &o));
    }
}

// Values that the products take are held before the fence, results behind the wait.
void cu_wgmma_fence(Cuda *x, const CudaStmt *s)
{
    cu_print_hold(x, s);
    cu_asm(x, s);
}

void cu_wgmma_wait(Cuda *x, const CudaStmt *s)
{
    cu_asm(x, s);
    cu_print_hold(x, s);
}

// "{%0, %1, ...}": operands first .. first + n of the assembly, broken into strings of one line.
static void operand_list(Buf *b, int first, int n)
{
    for (int i = 0; i < n; i++) {
        if (i % 16 == 0) buf_printf(b, "%s\n        \"", i ? "\"" : "");
        buf_printf(b, "%s%%%d%s", i ? "" : "{", first + i, i + 1 < n ? ", " : "}");
    }
}

// "+f"(d[0]), ...
static void constraint_list(Buf *b, const char *constraint, const char *name, int n)
{
    for (int i = 0; i < n; i++)
        buf_printf(b, "%s%s\"%s\"(%s[%d])", i ? "," : "",
                   i && i % 6 == 0 ? "\n          "
                   : i             ? " "
                                   : "",
                   constraint, name, i);
}

// The function of one instruction. `fresh`: D = A * B, else D = A * B + (accumulate ? D : 0).
static void define_wgmma(Cuda *x, const CudaStmt *s, const char *name, const char *instruction,
                         bool transposes)
{
    const ThreadOp *op = &s->op;
    bool shared_a = op->op == OP_WGMMA_SS;
    // 64 rows x n columns over 128 threads.
    int regs = op->n / 2, next = regs;
    Buf b = {0};
    bool whole = op->type == TT_S32; // integers are not scaled
    buf_printf(&b, CUDA_FUNCTION "void %s(%s *d, %s, uint64_t b%s)\n{\n", name,
               whole ? "uint32_t" : "float", shared_a ? "uint64_t a" : "const uint32_t *a", s->fresh ? "" : ", bool accumulate");
    buf_puts(&b, "    asm volatile(\n        \"{ .reg .pred p; setp.ne.b32 p, ");
    // Numbers of the operands: D takes the first n / 2, then A (a descriptor or 4 registers), B,
    // predicate.
    int a_at = next, b_at = next + (shared_a ? 1 : 4), p_at = b_at + 1;
    if (s->fresh) buf_puts(&b, "0");
    else buf_printf(&b, "%%%d", p_at);
    buf_printf(&b, ", 0;\\n\"\n        \"%s \"", instruction);
    operand_list(&b, 0, regs);
    buf_puts(&b, ", \"");
    if (shared_a) buf_printf(&b, "\n        \"%%%d", a_at);
    else operand_list(&b, a_at, 4);
    buf_printf(&b, ", %%%d, p", b_at);
    if (!whole)
        buf_printf(&b, ", %d, %d", op->flags & OPF_NEG_A ? -1 : 1, op->flags & OPF_NEG_B ? -1 : 1);
    if (transposes && shared_a) buf_printf(&b, ", %d", op->flags & OPF_TRANS_A ? 1 : 0);
    if (transposes) buf_printf(&b, ", %d", op->flags & OPF_TRANS_B ? 1 : 0);
    buf_puts(&b, "; }\"\n        : ");
    constraint_list(&b, whole ? s->fresh ? "=r" : "+r" : s->fresh ? "=f" : "+f", "d", regs);
    buf_puts(&b, "\n        : ");
    if (shared_a) buf_puts(&b, "\"l\"(a)");
    else constraint_list(&b, "r", "a", 4);
    buf_printf(&b, ", \"l\"(b)%s\n        : \"memory\");\n}\n",
               s->fresh ? "" : ", \"r\"((int)accumulate)");
    cu_define(x, "%s", b.s);
    buf_free(&b);
}

// One function per shape, type and set of flags: all of them are fixed in the instruction.
void cu_wgmma(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    ThreadType t = (ThreadType)op->type2;
    const char *type = thread_type_name[t];
    bool bytes = t == TT_E4M3 || t == TT_E5M2 || t == TT_S8 || t == TT_U8;
    int depth = t == TT_TF32 ? 8 : bytes ? 32 : 16;
    bool shared_a = op->op == OP_WGMMA_SS;
    const char *shape = cu_text(x, "m64n%dk%d", op->n, depth);
    const char *name = cu_text(
        x, "ptx_wgmma_%s_%s_%s%s%s%s%s%s", shape, type, shared_a ? "ss" : "rs",
        shared_a && op->flags & OPF_TRANS_A ? "_ta" : "", op->flags & OPF_TRANS_B ? "_tb" : "",
        op->flags & OPF_NEG_A ? "_na" : "", op->flags & OPF_NEG_B ? "_nb" : "",
        s->fresh ? "_first" : "");
    if (cu_need(x, name))
        define_wgmma(x, s, name,
                     cu_text(x, "wgmma.mma_async.sync.aligned.%s.%s.%s.%s", shape,
                             op->type == TT_S32 ? "s32" : "f32", type, type),
                     depth == 16);
    const char *a = shared_a ? cu_element(x, &op->opnd[1], 0) : cu_start(x, &op->opnd[1]);
    cu_call(x, s, "%s(%s, %s, %s%s%s)", name, cu_start(x, &op->opnd[0]), a,
              cu_element(x, &op->opnd[2], 0), s->fresh ? "" : ", ",
              s->fresh ? "" : cu_element(x, &op->opnd[3], 0));
}
