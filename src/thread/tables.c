// tables.c - the rows of ops.h and thread.h as arrays, and the little that follows from them alone.
#include "thread.h"

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

const char *const thread_cmp_name[CMP_COUNT] = {"eq", "ne", "lt", "le", "gt", "ge"};

const char *const special_reg_name[SR_COUNT] = {
#define X(id, text, ptx) text,
    SPECIAL_REGS(X)
#undef X
};

// Bytes of a shared buffer or of barriers; -1 when an extent is not a constant, is not positive,
// or the product leaves 40 bits (the checker refuses such buffers).
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

// Leading dimensions count whole tiles, the last two are laid out by b->layout.
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
