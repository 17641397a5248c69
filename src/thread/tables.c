// tables.c - the rows of ops.h and thread.h as arrays, and the little that follows from them
// alone: sizes of buffers, and how the text form spells attributes and flags.
#include "text.h"

const ThreadOpInfo thread_op[OP_COUNT] = {
#define X(id, name, sig, types, effect, scope, ptx, form) \
    {name, sig, types, form, EFF_##effect, SCOPE_##scope, ptx},
    THREAD_OPS(X)
#undef X
};

const char *const thread_type_name[TT_COUNT] = {
#define X(id, text, class) text,
    THREAD_TYPES(X)
#undef X
};

const u8 thread_type_class[TT_COUNT] = {
#define X(id, text, class) class,
    THREAD_TYPES(X)
#undef X
};

// In the order of ThreadCmp.
const char *const thread_cmp_name[CMP_COUNT] = {"eq", "ne", "lt", "le", "gt", "ge"};

const char *const special_reg_name[SR_COUNT] = {
#define X(id, text, ptx) text,
    SPECIAL_REGS(X)
#undef X
};

// Bytes of a shared buffer or of barriers; -1 when an extent is not a constant, is not positive,
// or the product leaves 40 bits (the checker refuses such buffers).
// 40 bits: no product of an offset and 8 can then overflow, and no shared buffer is that large.
i64 thread_buffer_bytes(const ThreadBuffer *b)
{
    i64 n = b->kind == BUF_MBAR ? 8 : dtype_bytes[b->type];
    for (int i = 0; i < b->rank; i++) {
        i64 extent;
        if (!b->dim[i] || !expr_is_const(b->dim[i], &extent) || extent < 1) return -1;
        if (extent > ((i64)1 << 40) / n) return -1;
        n *= extent;
    }
    return n;
}

// Leading dimensions (the slot, mostly) count whole tiles, the last two are laid out by b->layout.
// Barriers and row-major buffers are row-major in all dimensions.
i64 thread_buffer_offset(const ThreadBuffer *b, const i64 *coord)
{
    i64 extent[6] = {0}, slot = 0;
    for (int i = 0; i < b->rank; i++) extent[i] = b->dim[i]->value;
    if (b->kind == BUF_MBAR || b->layout == SL_ROW || b->rank < 2) {
        for (int i = 0; i < b->rank; i++) slot = slot * extent[i] + coord[i];
        return slot * (b->kind == BUF_MBAR ? 8 : dtype_bytes[b->type]);
    }
    int r = b->rank, elem = dtype_bytes[b->type];
    for (int i = 0; i < r - 2; i++) slot = slot * extent[i] + coord[i];
    return slot * smem_tile_bytes(b->layout, elem, extent[r - 2], extent[r - 1]) +
           smem_offset(b->layout, elem, extent[r - 2], extent[r - 1], coord[r - 2], coord[r - 1]);
}

// ---- text form (text.h) ------------------------------------------------------------------------

// In the order of their enums.
const char *const reg_class_name[RC_COUNT] = {"pred", "b16", "b32", "b64", "f32"};
const char *const param_kind_name[PARAM_TMAP + 1] = {"ptr", "s32", "s64", "f32", "tmap"};
const char *const atomic_name[ATOM_COUNT] = {"add", "exch", "min", "max",
                                             "and", "or",   "xor", "cas"};
const char *const shfl_mode_name[4] = {"bfly", "idx", "up", "down"};

// What the attribute `n` of an operation means, and with it how it is written.
ThreadAttr thread_attr(ThreadOpcode op)
{
    switch (op) {
    case OP_LDS:
    case OP_STS:
    case OP_LDG:
    case OP_STG: return ATTR_VECTOR;
    case OP_LDMATRIX:
    case OP_STMATRIX: return ATTR_MATRICES;
    case OP_CPASYNC: return ATTR_BYTES;
    case OP_WGMMA_SS:
    case OP_WGMMA_RS: return ATTR_EXTENT;
    case OP_SHFL: return ATTR_SHFL;
    case OP_ATOMS:
    case OP_ATOMG: return ATTR_ATOMIC;
    case OP_PRINT_ARG: return ATTR_PLACE;
    case OP_TMA_LOAD:
    case OP_TMA_STORE: return ATTR_RANK;
    case OP_CPASYNC_WAIT:
    case OP_BULK_WAIT:
    case OP_BULK_WAIT_READ:
    case OP_WGMMA_WAIT:
    case OP_SETMAXNREG_INC:
    case OP_SETMAXNREG_DEC: return ATTR_OPERAND;
    case OP_UNROLL:
    case OP_ROLE: return ATTR_REGION;
    default: return ATTR_NONE;
    }
}

// The flags that an operation may have, with their words. Register A has no major, so wgmma.rs
// lacks trans_a.
const ThreadFlag thread_flag[] = {
    {OP_LDMATRIX, "trans", OPF_TRANS},
    {OP_STMATRIX, "trans", OPF_TRANS},
    {OP_WGMMA_SS, "trans_a", OPF_TRANS_A},
    {OP_WGMMA_SS, "trans_b", OPF_TRANS_B},
    {OP_WGMMA_SS, "neg_a", OPF_NEG_A},
    {OP_WGMMA_SS, "neg_b", OPF_NEG_B},
    {OP_WGMMA_RS, "trans_b", OPF_TRANS_B},
    {OP_WGMMA_RS, "neg_a", OPF_NEG_A},
    {OP_WGMMA_RS, "neg_b", OPF_NEG_B},
    {OP_TMA_LOAD, "evict_first", OPF_EVICT_FIRST},
    {OP_TMA_LOAD, "evict_last", OPF_EVICT_LAST},
    {OP_TMA_LOAD, "multicast", OPF_MULTICAST},
    {OP_MBAR_ARRIVE_CLUSTER, "release", OPF_RELEASE},
    {OP_CVT, "rzi", OPF_RZI},
    {OP_IF, "uniform", OPF_UNIFORM},
    {OP_FOR, "lanes", OPF_LANES},
};
const int thread_flags_n = COUNT(thread_flag);

// An address is base and offset; coordinates are as many as the operation's rank.
int thread_sig_operands(const ThreadOp *op, char letter)
{
    switch (letter) {
    case 'S':
    case 'G':
    case 'B': return 2;
    case 'C': return op->n;
    default: return 1;
    }
}

// Addresses and descriptors each have a place in a buffer beside them.
int thread_sig_mems(ThreadOpcode op)
{
    int n = 0;
    for (const char *c = thread_op[op].sig; *c; c++)
        n += *c == 'S' || *c == 'G' || *c == 'B' || *c == 'L';
    return n;
}
