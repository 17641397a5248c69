// layout.h - how a tile lies in shared memory, and how a fragment lies in registers. Data only; the
// formulas were read back from an H200 element by element.
#ifndef BATON_LAYOUT_H
#define BATON_LAYOUT_H

#include "../base/base.h"

// Shared tile layouts. A swizzled tile [rows, cols] is stored as column blocks of S bytes:
// [cols*e/S][rows][S bytes] ("atom-major"), and the 16-byte chunk index inside each S-byte row is
// XORed with address bits 7..9 (mask 7, 3, 1 for S = 128, 64, 32). This is what the TMA unit writes
// for a box of inner extent S and what wgmma reads with the same swizzle mode. Tiles start at a
// multiple of 1024 bytes, so that the XOR pattern relative to the tile equals the hardware's, which
// uses absolute address bits. Leading dimensions of a buffer count whole tiles of its last two.
//           id         text      S    mask  wgmma layout code (descriptor bits 62-63)
#define SMEM_LAYOUTS(X)              \
    X(SL_ROW, "row", 0, 0, 0)        \
    X(SL_SWZ128, "swz128", 128, 7, 1) \
    X(SL_SWZ64, "swz64", 64, 3, 2)   \
    X(SL_SWZ32, "swz32", 32, 1, 3)
typedef enum {
#define X(id, text, span, mask, code) id,
    SMEM_LAYOUTS(X)
#undef X
    SL_COUNT
} SmemLayout;
typedef struct {
    const char *name;
    int span;      // bytes of one swizzled row, 0: none
    int mask;      // XOR mask on the 16-byte chunk index
    int desc_code; // wgmma descriptor layout field
} SmemLayoutInfo;
extern const SmemLayoutInfo smem_layout[SL_COUNT];

// Byte offset of element (row, col) from the start of a tile with `rows` rows and `cols` columns of
// `elem` bytes. `col` counts elements.
i64 smem_offset(SmemLayout l, int elem, i64 rows, i64 cols, i64 row, i64 col);
// Bytes that a tile occupies. For swizzled layouts cols*elem must be a multiple of the span.
i64 smem_tile_bytes(SmemLayout l, int elem, i64 rows, i64 cols);

// Fragment layouts: which (row, column) of a tile is held by (warp of the warpgroup, lane,
// register, element in the register). A linear map on bits for one atom, repeated over blocks of
// columns: block b holds registers b*regs .. and columns b*cols .. .
enum { FRAG_BITS = 3 };
typedef struct {
    const char *name;
    int rows, cols;         // of one atom, elements; cols 1 for row vectors, rows 1 for col vectors
    int regs;               // registers per atom and lane
    int elems;              // elements per register (2 for packed 16-bit, 4 for packed 8-bit)
    int16_t lane_row[5], lane_col[5]; // what bit k of the lane adds
    int16_t warp_row[2];        // what bit k of the warp adds to the row
    int16_t reg_row[FRAG_BITS], reg_col[FRAG_BITS];   // what bit k of the register adds
    int16_t elem_col[2];        // what bit k of the element index adds to the column
    u8 copy_lanes;          // lane bits that hold copies (the map does not depend on them)
    bool copy_warps;        // all four warps hold the same values
} FragLayout;
//            id        meaning
// FL_ACC     wgmma accumulator, 64 x 8 atom, one 32-bit element a register
// FL_A16     wgmma register-A operand of a 16-bit type, 64 x 16 atom, two elements a register
// FL_A8      the same for 8-bit types, 64 x 32 atom, four elements a register
// FL_A32     the same for tf32, 64 x 8 atom
// FL_ROW     vector over rows: one value a row, copied over the quad
// FL_COL     vector over columns: one value a column, copied over rows and warps
typedef enum { FL_NONE, FL_ACC, FL_A16, FL_A8, FL_A32, FL_ROW, FL_COL, FL_COUNT } FragKind;
extern const FragLayout frag_layout[FL_COUNT];
typedef struct {
    int row, col;
} FragPos;
FragPos frag_position(const FragLayout *l, int warp, int lane, int reg, int elem);

#endif
