// decode.c - from the structured thread IR to a flat program for one launch: unroll regions are
// expanded, regions become jumps, every operand becomes a place in the warp's register file.
//
// In:  a kernel and the launch's arguments (parameters become constants).
// Out: EmuProgram. Nothing here depends on the CTA. A kernel that breaks the shape rules of the
//      thread IR is refused with a reason, since the emulator also runs what no checker has seen.
#include "state.h"

#include <string.h>

typedef struct {
    const EmuLaunch *launch;
    const ThreadFn *fn;
    Arena *a;
    VEC(EmuOp) ops;
    VEC(u32) constants;        // 32 words a unit
    Map *known;                // constant -> unit + 1
    u32 *reg_unit;
    u32 special, first_constant;
    i64 *value;                // of the unroll variables
    const char *why;
    Loc where;
    int depth, loops;
    i64 work;                  // unroll iterations so far, empty ones included
} Decoder;

// The first reason stays; returns false so that callers can return it.
static bool refuse(Decoder *d, const ThreadOp *op, const char *why)
{
    if (!d->why) {
        d->why = why;
        d->where = op ? op->loc : (Loc){0};
    }
    return false;
}

static bool wide(u8 class) { return class == RC_B64; }

// Unit of a constant; equal 32-bit constants share one.
// Classes of 32 bits share by bits, predicates (all lanes 0 or 1) apart from them. The key is
// never 0, which a Map cannot hold.
static u32 constant_unit(Decoder *d, u64 bits, u8 class)
{
    u64 key = (class == RC_PRED ? 2ull << 40 : 1ull << 40) | (bits & 0xffffffffu);
    if (!wide(class)) {
        void *unit = map_get(d->known, (const void *)(uintptr_t)key);
        if (unit) return (u32)((uintptr_t)unit - 1);
    }
    u32 unit = d->first_constant + (u32)(d->constants.n / 32);
    for (int i = 0; i < (wide(class) ? 64 : 32); i++) {
        u32 word = (u32)bits;
        if (class == RC_PRED) word = bits ? ~0u : 0;
        if (wide(class) && i % 2) word = (u32)(bits >> 32);
        vec_push(d->a, &d->constants, word);
    }
    if (!wide(class))
        map_put(d->known, (const void *)(uintptr_t)key, (void *)(uintptr_t)(unit + 1));
    return unit;
}

// Register class of a parameter's value. A tensor map has none; it is used by index only.
static u8 param_class(u8 kind)
{
    if (kind == PARAM_F32) return RC_F32;
    return kind == PARAM_S32 ? RC_B32 : RC_B64;
}

static u64 param_bits(const EmuArg *arg, u8 kind)
{
    switch (kind) {
    case PARAM_PTR: return (u64)(uintptr_t)arg->ptr;
    case PARAM_F32: return f32_bits(arg->f32);
    case PARAM_TMAP: return 0;
    default: return (u64)arg->value;
    }
}

// Evaluates the affine index at the present values of the unroll variables and finds the units.
// `class`: what an immediate becomes; registers and parameters bring their own.
static bool decode_operand(Decoder *d, const ThreadOp *op, const Operand *from, u8 class,
                           EmuOpnd *to)
{
    i64 index = from->base;
    for (int i = 0; i < from->nterms; i++) {
        if (from->term[i].var >= d->fn->unrolls.n) return refuse(d, op, "unknown unroll variable");
        index += d->value[from->term[i].var] * from->term[i].coef;
    }
    *to = (EmuOpnd){.kind = from->kind, .class = class, .count = 1, .negate = from->negate};
    switch (from->kind) {
    case OPD_REG: {
        if (from->reg < 0 || from->reg >= d->fn->regs.n) return refuse(d, op, "unknown register");
        const ThreadReg *r = &d->fn->regs.at[from->reg];
        if (from->count < 1 || index < 0 || index + from->count > r->count)
            return refuse(d, op, "a register index leaves its array");
        to->class = r->class;
        to->count = from->count;
        to->unit = d->reg_unit[from->reg] + (u32)index * (wide(r->class) ? 2 : 1);
        return true;
    }
    case OPD_IMM:
        to->imm = index;
        to->unit = constant_unit(d, (u64)index, class);
        return true;
    case OPD_FIMM:
        to->unit = constant_unit(d, (u64)(u32)index, RC_F32);
        to->class = RC_F32;
        return true;
    case OPD_SREG:
        if (from->reg < 0 || from->reg >= SR_COUNT)
            return refuse(d, op, "unknown special register");
        to->unit = d->special + (u32)from->reg;
        to->class = RC_B32;
        return true;
    case OPD_PARAM: {
        if (from->reg < 0 || from->reg >= d->fn->params.n)
            return refuse(d, op, "unknown parameter");
        u8 kind = d->fn->params.at[from->reg].kind;
        to->imm = from->reg;
        to->class = param_class(kind);
        to->unit = constant_unit(d, param_bits(&d->launch->args[from->reg], kind), to->class);
        return true;
    }
    default: return refuse(d, op, "an operand is missing");
    }
}

// Class of an immediate at the position that a signature letter describes.
// The letters are explained in thread/ops.h.
static u8 letter_class(const ThreadOp *op, char letter)
{
    switch (letter) {
    case 'p': case 'P': return RC_PRED;
    case 't': return thread_type_class[op->type2];
    case 'L': return RC_B64;
    case 's': case 'd': case 'r': case 'F':
        if (op->op == OP_CVTPACK) return RC_F32;
        if (op->op == OP_PACK) return op->type == TT_B64 ? RC_B32 : RC_B16;
        return thread_type_class[op->type];
    default: return RC_B32;
    }
}

// Operands that a signature asks for; -1 when the letters say nothing ('*').
static int signature_count(const ThreadOp *op)
{
    int n = 0;
    for (const char *s = thread_op[op->op].sig; *s; s++) {
        if (*s == '*' && op->op != OP_CVT) return -1;
        n += *s == 'S' || *s == 'G' || *s == 'B' ? 2 : *s == 'C' ? op->n : 1;
    }
    return n;
}

// Walks the operands along the signature. Handlers trust what was checked here: counts, that a
// destination is a register, that an address is base and immediate.
static bool decode_operands(Decoder *d, const ThreadOp *op, EmuOp *to)
{
    int want = signature_count(op);
    if (want >= 0 && op->nopnd != want) return refuse(d, op, "wrong number of operands");
    // The longest: tma.load with five coordinates has ten.
    if (op->nopnd > 24) return refuse(d, op, "too many operands");
    EmuOpnd *o = ARENA_ARRAY(d->a, EmuOpnd, op->nopnd ? op->nopnd : 1);
    const char *sig = thread_op[op->op].sig;
    for (int i = 0; i < op->nopnd;) {
        char letter = want >= 0 && *sig ? *sig++ : 'x';
        int n = letter == 'S' || letter == 'G' || letter == 'B' ? 2 : letter == 'C' ? op->n : 1;
        for (int k = 0; k < n; k++, i++) {
            if (!decode_operand(d, op, &op->opnd[i], letter_class(op, letter), &o[i])) return false;
            bool address = n == 2 && letter != 'C';
            if (address && k && o[i].kind != OPD_IMM)
                return refuse(d, op, "the byte offset of an address is not an immediate");
            if ((letter == 'd' || letter == 'P' || letter == 'F' || letter == 'R') &&
                o[i].kind != OPD_REG)
                return refuse(d, op, "a destination is no register");
            if (letter == 'T' && (o[i].kind != OPD_PARAM ||
                                  d->fn->params.at[o[i].imm].kind != PARAM_TMAP))
                return refuse(d, op, "a tensor map is no tensor-map parameter");
        }
    }
    for (int i = 0; i < op->nmem; i++)
        if (op->mem[i].buffer < 0 || op->mem[i].buffer >= d->fn->buffers.n)
            return refuse(d, op, "unknown buffer");
    to->o = o;
    to->nopnd = (u8)op->nopnd;
    return true;
}

// `track`: registers are read and written exactly as the operand list says, so the main loop can
// do the bookkeeping. Other handlers do it themselves, since they pin or touch ranges.
static bool decode_op(Decoder *d, const ThreadOp *op, EmuOp *to)
{
    if (op->op >= OP_COUNT) return refuse(d, op, "unknown operation");
    *to = (EmuOp){.run = emu_handler[op->op], .src = op, .op = op->op, .type = op->type,
                  .type2 = op->type2, .cmp = op->cmp, .n = op->n, .flags = op->flags, .guard = -1};
    if (!decode_operands(d, op, to)) return false;
    if (op->guard.kind != OPD_NONE) {
        EmuOpnd g;
        if (!decode_operand(d, op, &op->guard, RC_PRED, &g)) return false;
        to->guard = (i32)g.unit;
        to->guard_negate = g.negate;
    }
    const char *sig = thread_op[op->op].sig;
    for (; sig[to->ndst] == 'd' || sig[to->ndst] == 'P'; to->ndst++) {}
    to->track = (thread_op[op->op].effect == EFF_PURE && op->op != OP_TMA_PREFETCH) ||
                op->op == OP_SHFL || op->op == OP_VOTE || op->op == OP_CLOCK;
    to->control = thread_op[op->op].effect == EFF_CTRL;
    return true;
}

static bool decode_block(Decoder *d, const ThreadBlock *block);

// The limit bounds memory on hostile input, to some hundred MB.
static bool push(Decoder *d, EmuOp op)
{
    if (d->ops.n >= EMU_MAX_OPS)
        return refuse(d, op.src, "the expanded program has more than four million operations");
    vec_push(d->a, &d->ops, op);
    return true;
}

// The body once per trip, with the variable as a constant. `work` counts empty bodies too, or
// nested regions of 65,535 trips would take forever to expand to nothing.
static bool decode_unroll(Decoder *d, const ThreadOp *op)
{
    if (op->imm < 0 || op->imm >= d->fn->unrolls.n) return refuse(d, op, "unknown unroll variable");
    if (++d->depth >= EMU_IF_DEPTH) return refuse(d, op, "regions nest too deeply");
    for (int i = 0; i < op->n; i++) {
        if (++d->work > EMU_MAX_OPS) return refuse(d, op, "too many unrolled iterations");
        d->value[op->imm] = i;
        if (!decode_block(d, &op->body)) return false;
    }
    d->depth--;
    return true;
}

// Layout of the flat program (-> target):
//   for   head -> behind next;  body;  next -> body
//   if    head -> else or endif;  body;  [else -> endif;  other;]  endif
//   role  head -> behind the body;  body
static bool decode_region(Decoder *d, const ThreadOp *op)
{
    if (op->op == OP_UNROLL) return decode_unroll(d, op);
    EmuOp head;
    if (!decode_op(d, op, &head)) return false;
    int operands = op->op == OP_FOR ? 4 : op->op == OP_IF ? 1 : 0;
    if (op->nopnd != operands) return refuse(d, op, "wrong number of operands");
    if (op->op == OP_FOR &&
        (head.o[0].kind != OPD_REG || head.o[3].kind != OPD_IMM || head.o[3].imm < 1))
        return refuse(d, op, "a loop needs a register and a positive constant step");
    d->loops += op->op == OP_FOR;
    if (++d->depth >= EMU_IF_DEPTH || d->loops >= EMU_LOOP_DEPTH)
        return refuse(d, op, "regions nest too deeply");
    u32 at = (u32)d->ops.n;
    if (!push(d, head) || !decode_block(d, &op->body)) return false;
    EmuOp tail = head;
    tail.guard = -1;
    if (op->op == OP_FOR) {
        tail.run = emu_op_next;
        tail.target = at + 1;
        if (!push(d, tail)) return false;
        d->ops.at[at].target = (u32)d->ops.n;
    } else if (op->op == OP_IF) {
        if (op->other.n) {
            u32 middle = d->ops.at[at].target = (u32)d->ops.n;
            tail.run = emu_op_else;
            if (!push(d, tail) || !decode_block(d, &op->other)) return false;
            d->ops.at[middle].target = (u32)d->ops.n;
        } else {
            d->ops.at[at].target = (u32)d->ops.n;
        }
        tail.run = emu_op_endif;
        if (!push(d, tail)) return false;
    } else {
        d->ops.at[at].target = (u32)d->ops.n;
    }
    d->depth--;
    d->loops -= op->op == OP_FOR;
    return true;
}

static bool decode_block(Decoder *d, const ThreadBlock *block)
{
    for (int i = 0; i < block->n; i++) {
        const ThreadOp *op = block->at[i];
        if (op->op >= OP_FOR && op->op < OP_COUNT) {
            if (!decode_region(d, op)) return false;
            continue;
        }
        EmuOp to;
        if (!decode_op(d, op, &to) || !push(d, to)) return false;
    }
    return true;
}

// Buffers that bulk loads write; a read of any other is never overwritten asynchronously.
// The overlap test is for buffers that share bytes of the arena at different times.
static bool *async_buffers(Decoder *d)
{
    const ThreadFn *fn = d->fn;
    bool *direct = ARENA_ARRAY(d->a, bool, fn->buffers.n + 1);
    for (int i = 0; i < d->ops.n; i++)
        if (d->ops.at[i].op == OP_TMA_LOAD && d->ops.at[i].src->nmem)
            direct[d->ops.at[i].src->mem[0].buffer] = true;
    bool *all = ARENA_ARRAY(d->a, bool, fn->buffers.n + 1);
    for (int i = 0; i < fn->buffers.n; i++) {
        const ThreadBuffer *b = &fn->buffers.at[i];
        all[i] = direct[i];
        for (int k = 0; k < fn->buffers.n && b->kind == BUF_SHARED; k++) {
            const ThreadBuffer *o = &fn->buffers.at[k];
            if (direct[k] && o->offset < b->offset + thread_buffer_bytes(b) &&
                b->offset < o->offset + thread_buffer_bytes(o))
                all[i] = true;
        }
    }
    return all;
}

// Parameters behind the targets of st.global and tma.store; only these get owners (run.c).
static bool *stored_params(Decoder *d)
{
    bool *stored = ARENA_ARRAY(d->a, bool, d->fn->params.n + 1);
    for (int i = 0; i < d->ops.n; i++) {
        const EmuOp *op = &d->ops.at[i];
        int param = -1;
        if (op->op == OP_TMA_STORE) param = (int)op->o[0].imm;
        bool atomic = op->op == OP_ATOMG || op->op == OP_CASG;
        if ((op->op == OP_STG || atomic) && op->src->nmem) {
            const ThreadBuffer *b = &d->fn->buffers.at[op->src->mem[0].buffer];
            if (b->kind == BUF_GLOBAL) param = b->param;
        }
        if (param >= 0 && param < d->fn->params.n) stored[param] = true;
    }
    return stored;
}

EmuProgram *emu_decode(Arena *a, const EmuLaunch *l, const char **why, Loc *where)
{
    Decoder d = {.launch = l, .fn = l->fn, .a = a, .known = map_new(a)};
    EmuProgram *p = ARENA_NEW(a, EmuProgram);
    d.reg_unit = ARENA_ARRAY(a, u32, l->fn->regs.n + 1);
    for (int i = 0; i < l->fn->regs.n; i++) {
        const ThreadReg *r = &l->fn->regs.at[i];
        if (r->count < 1 || r->count > 1024 || p->units > 1u << 16) {
            refuse(&d, NULL, "a register array has no legal size");
            break;
        }
        d.reg_unit[i] = p->units;
        p->units += (u32)r->count * (wide(r->class) ? 2 : 1);
    }
    bool *wide_unit = ARENA_ARRAY(a, bool, p->units + 2);
    for (int i = 0; i < l->fn->regs.n && !d.why; i++)
        for (int k = 0; wide(l->fn->regs.at[i].class) && k < l->fn->regs.at[i].count; k++)
            wide_unit[d.reg_unit[i] + 2 * (u32)k] = true;
    p->wide_unit = wide_unit;
    p->units += 2; // a 64-bit access to a 32-bit register stays inside
    d.special = p->units;
    d.first_constant = p->units + SR_COUNT + 1;
    d.value = ARENA_ARRAY(a, i64, l->fn->unrolls.n + 1);
    if (!d.why && decode_block(&d, &l->fn->body)) {
        EmuOp end = {.run = emu_op_end, .op = OP_EXIT, .control = true, .guard = -1};
        push(&d, end);
    }
    if (d.why) {
        *why = d.why;
        *where = d.where;
        return NULL;
    }
    constant_unit(&d, 0, RC_B64); // padding behind the last constant
    p->ops = d.ops.at;
    p->n = (u32)d.ops.n;
    p->special = d.special;
    p->constants = d.constants.at;
    p->all_units = d.first_constant + (u32)(d.constants.n / 32);
    p->async_buffer = async_buffers(&d);
    p->stored_param = stored_params(&d);
    return p;
}
