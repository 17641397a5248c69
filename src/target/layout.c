// layout.c - the formulas of layout.h: where an element of a shared tile lies, and which element of
// a tile a lane's register holds. Data rows and two small functions; nothing here allocates.
#include "layout.h"

const SmemLayoutInfo smem_layout[SL_COUNT] = {
#define X(id, text, span, mask, code) {text, span, mask, code},
    SMEM_LAYOUTS(X)
#undef X
};

// Swizzled: column block, row in it, byte in the row; then the 16-byte chunk (bits 4..6) is XORed
// with the row's low bits (7..9). The tile starts at a multiple of 1,024, so `flat` stands for the
// address that the hardware would XOR.
i64 smem_offset(SmemLayout l, int elem, i64 rows, i64 cols, i64 row, i64 col)
{
    const SmemLayoutInfo *info = &smem_layout[l];
    if (!info->span) return (row * cols + col) * elem;
    i64 byte = col * elem;
    i64 flat = (byte / info->span * rows + row) * info->span + byte % info->span;
    return flat ^ (((flat >> 7) & info->mask) << 4);
}

i64 smem_tile_bytes(SmemLayout l, int elem, i64 rows, i64 cols)
{
    (void)l; // swizzling permutes the bytes of a tile, it adds none
    return rows * cols * elem;
}

// With g = lane / 4 and t = lane % 4: lane bits 0 and 1 are t, bits 2 to 4 are g.
const FragLayout frag_layout[FL_COUNT] = {
    [FL_NONE] = {.name = "none"},
    // row 16w + g + 8*(i >> 1), column 2t + (i & 1)
    [FL_ACC] = {.name = "acc", .rows = 64, .cols = 8, .regs = 4, .elems = 1,
                .lane_row = {0, 0, 1, 2, 4}, .lane_col = {2, 4, 0, 0, 0}, .warp_row = {16, 32},
                .reg_row = {0, 8, 0}, .reg_col = {1, 0, 0}},
    // row 16w + g + 8*(i & 1), column 2t + 8*(i >> 1) + e
    [FL_A16] = {.name = "a16", .rows = 64, .cols = 16, .regs = 4, .elems = 2,
                .lane_row = {0, 0, 1, 2, 4}, .lane_col = {2, 4, 0, 0, 0}, .warp_row = {16, 32},
                .reg_row = {8, 0, 0}, .reg_col = {0, 8, 0}, .elem_col = {1, 0}},
    // row 16w + g + 8*(i & 1), column 4t + 16*(i >> 1) + e
    [FL_A8] = {.name = "a8", .rows = 64, .cols = 32, .regs = 4, .elems = 4,
               .lane_row = {0, 0, 1, 2, 4}, .lane_col = {4, 8, 0, 0, 0}, .warp_row = {16, 32},
               .reg_row = {8, 0, 0}, .reg_col = {0, 16, 0}, .elem_col = {1, 2}},
    // row 16w + g + 8*(i & 1), column t + 4*(i >> 1)
    [FL_A32] = {.name = "a32", .rows = 64, .cols = 8, .regs = 4, .elems = 1,
                .lane_row = {0, 0, 1, 2, 4}, .lane_col = {1, 2, 0, 0, 0}, .warp_row = {16, 32},
                .reg_row = {8, 0, 0}, .reg_col = {0, 4, 0}},
    // row 16w + g + 8*i, the four lanes of a quad alike
    [FL_ROW] = {.name = "row", .rows = 64, .cols = 1, .regs = 2, .elems = 1,
                .lane_row = {0, 0, 1, 2, 4}, .warp_row = {16, 32}, .reg_row = {8, 0, 0},
                .copy_lanes = 0x03},
    // column 2t + i, all g and all warps alike
    [FL_COL] = {.name = "col", .rows = 1, .cols = 8, .regs = 2, .elems = 1,
                .lane_col = {2, 4, 0, 0, 0}, .reg_col = {1, 0, 0}, .copy_lanes = 0x1c,
                .copy_warps = true},
};

// The maps are linear over bits: contributions of the set bits add up. Registers beyond one atom
// belong to the next blocks of columns.
FragPos frag_position(const FragLayout *l, int warp, int lane, int reg, int elem)
{
    FragPos at = {0, reg / l->regs * l->cols};
    for (int k = 0; k < 5; k++) {
        if (!(lane >> k & 1)) continue;
        at.row += l->lane_row[k];
        at.col += l->lane_col[k];
    }
    for (int k = 0; k < FRAG_BITS; k++) {
        if (!(reg % l->regs >> k & 1)) continue;
        at.row += l->reg_row[k];
        at.col += l->reg_col[k];
    }
    for (int k = 0; k < 2; k++) {
        if (warp >> k & 1) at.row += l->warp_row[k];
        if (elem >> k & 1) at.col += l->elem_col[k];
    }
    return at;
}
