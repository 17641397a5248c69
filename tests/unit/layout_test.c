// layout_test.c - shared tile layouts, fragment layouts and tensor map limits, each against the
// formula written out in another way (lane = 4 g + t), and every layout as a bijection.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/target/tma.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
} Test;

static void check(Test *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20) printf("FAILED %s: %s\n", what, detail);
}

// ---- shared tiles -------------------------------------------------------------------------------

// A tile is written by the copy unit one box of `span` bytes a row at a time; each element must lie
// where tma_smem_address puts it, no two at one place, and none outside the tile.
static void tile(Test *t, SmemLayout l, DType type, int rows, int cols)
{
    static u8 used[1 << 17];
    int elem = dtype_bytes[type], span = smem_layout[l].span;
    i64 bytes = smem_tile_bytes(l, elem, rows, cols);
    memset(used, 0, sizeof used);
    int per_box = span ? span / elem : cols;
    TensorMap m = {.type = type, .rank = 2, .box = {(u32)per_box, (u32)rows}, .swizzle = l};
    bool same = bytes <= (i64)sizeof used, once = same;
    for (int r = 0; r < rows && same; r++)
        for (int c = 0; c < cols; c++) {
            i64 at = smem_offset(l, elem, rows, cols, r, c);
            u32 pos[2] = {(u32)(c % per_box), (u32)r};
            u32 box = 4096 + (u32)(c / per_box * rows * per_box * elem);
            same &= at >= 0 && at + elem <= bytes && 4096 + at == tma_smem_address(&m, box, pos);
            for (int b = 0; same && b < elem; b++) once &= !used[at + b]++;
        }
    check(t, same, "tile against the copy unit", smem_layout[l].name);
    check(t, once, "tile is a bijection", smem_layout[l].name);
}

static void tiles(Test *t)
{
    for (int rows = 8; rows <= 256; rows *= 2) {
        tile(t, SL_SWZ128, DT_BF16, rows, 64);
        tile(t, SL_SWZ128, DT_BF16, rows, 128);
        tile(t, SL_SWZ128, DT_F32, rows, 64);
        tile(t, SL_SWZ128, DT_E4M3, rows, 256);
        tile(t, SL_SWZ64, DT_F16, rows, 96);
        tile(t, SL_SWZ32, DT_TF32, rows, 24);
        tile(t, SL_ROW, DT_BF16, rows, 40);
    }
    // By hand: bf16, row 3, column 9 is chunk 1 of its row; 1 ^ 3 = 2.
    check(t, smem_offset(SL_SWZ128, 2, 64, 64, 3, 9) == 3 * 128 + 2 * 16 + 2, "swz128", "(3, 9)");
    check(t, smem_offset(SL_SWZ128, 2, 64, 128, 0, 64) == 64 * 128, "swz128",
          "second column block");
    check(t, smem_offset(SL_SWZ64, 2, 64, 32, 2, 0) == 2 * 64 + 16, "swz64", "(2, 0)");
    check(t, smem_offset(SL_SWZ32, 2, 64, 16, 4, 8) == 4 * 32, "swz32", "(4, 8)");
    check(t, smem_offset(SL_ROW, 4, 8, 10, 2, 3) == 92, "row", "(2, 3)");
}

// ---- fragments ----------------------------------------------------------------------------------

// Row and column of register i, element e, as closed formulas.
static FragPos formula(FragKind k, int w, int lane, int i, int e)
{
    int g = lane / 4, q = lane % 4, j = i % 4, block = i / 4;
    switch (k) {
    case FL_ACC: return (FragPos){16 * w + g + 8 * ((i >> 1) & 1), 8 * block + 2 * q + (i & 1)};
    case FL_A16: return (FragPos){16 * w + g + 8 * (j & 1), 16 * block + 2 * q + 8 * (j >> 1) + e};
    case FL_A8: return (FragPos){16 * w + g + 8 * (j & 1), 32 * block + 4 * q + 16 * (j >> 1) + e};
    case FL_A32: return (FragPos){16 * w + g + 8 * (j & 1), 8 * block + q + 4 * (j >> 1)};
    case FL_ROW: return (FragPos){16 * w + g + 8 * i, 0};
    case FL_COL: return (FragPos){0, 8 * (i / 2) + 2 * q + (i & 1)};
    default: return (FragPos){0, 0};
    }
}

// Over `blocks` atoms: the formula, and how many lanes hold each element.
static void fragment(Test *t, FragKind k, int blocks)
{
    static int holders[64][512];
    const FragLayout *l = &frag_layout[k];
    bool same = true, even = true;
    memset(holders, 0, sizeof holders);
    for (int w = 0; w < 4; w++)
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < l->regs * blocks; i++)
                for (int e = 0; e < l->elems; e++) {
                    FragPos p = frag_position(l, w, lane, i, e), want = formula(k, w, lane, i, e);
                    same &= p.row == want.row && p.col == want.col;
                    holders[p.row][p.col]++;
                }
    int copies = (1 << __builtin_popcount(l->copy_lanes)) * (l->copy_warps ? 4 : 1);
    for (int r = 0; r < l->rows; r++)
        for (int c = 0; c < l->cols * blocks; c++) even &= holders[r][c] == copies;
    check(t, same, "fragment by formula", l->name);
    check(t, even, "fragment holds every element", l->name);
}

// Accumulators become 16-bit A operands without lanes exchanging anything.
static void accumulator_to_operand(Test *t)
{
    bool same = true;
    for (int w = 0; w < 4; w++)
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 32; i++)
                for (int e = 0; e < 2; e++) {
                    FragPos a = frag_position(&frag_layout[FL_A16], w, lane, i, e);
                    FragPos d = frag_position(&frag_layout[FL_ACC], w, lane, 2 * i + e, 0);
                    same &= a.row == d.row && a.col == d.col;
                }
    check(t, same, "accumulator to operand", "a[i] is pack(d[2i], d[2i + 1])");
}

// ---- tensor maps --------------------------------------------------------------------------------

static TensorMap good_map(void)
{
    return (TensorMap){.base = (void *)4096, .type = DT_BF16, .rank = 3, .dim = {64, 100, 2},
                       .stride = {2, 256, 128}, .box = {64, 64, 2}, .swizzle = SL_SWZ128};
}

static void map_limits(Test *t)
{
    char why[200];
    TensorMap m = good_map();
    check(t, !tma_check(&m, why, sizeof why), "a good map", why);
    check(t, tma_box_bytes(&m) == 16384, "bytes of a box", "64 x 64 x 2 bf16");
#define REFUSED(change, word)                                                    \
    do {                                                                         \
        m = good_map();                                                          \
        change;                                                                  \
        const char *r = tma_check(&m, why, sizeof why);                          \
        check(t, r && strstr(r, word), #change, r ? r : "accepted");             \
    } while (0)
#define ACCEPTED(change)                                                         \
    do {                                                                         \
        m = good_map();                                                          \
        change;                                                                  \
        const char *r = tma_check(&m, why, sizeof why);                          \
        check(t, !r, #change, r ? r : "");                                       \
    } while (0)
    REFUSED(m.rank = 0, "rank 0");
    REFUSED(m.rank = 6, "rank 6");
    REFUSED(m.base = (void *)4104, "multiple of 16 bytes");
    REFUSED(m.dim[1] = 0, "extent of dimension 1");
    REFUSED(m.dim[0] = ((u64)1 << 32) + 1, "extent of dimension 0");
    REFUSED(m.stride[1] = 264, "stride of dimension 1 is 264");
    REFUSED(m.stride[2] = (u64)1 << 40, "less than 2^40");
    REFUSED(m.stride[0] = 4, "innermost stride");
    REFUSED(m.box[1] = 257, "257 elements");
    REFUSED(m.box[1] = 0, "0 elements");
    REFUSED(m.box[0] = 4, "8 bytes");
    REFUSED(m.box[0] = 128, "256 bytes");
    REFUSED(m.swizzle = SL_SWZ64, "swz64 swizzle takes at most 64");
    REFUSED((m.dim[1] = 1, m.stride[1] = 24), "stride of dimension 1 is 24");
    ACCEPTED(m.base = (void *)4112);
    ACCEPTED(m.dim[0] = (u64)1 << 32);
    ACCEPTED(m.stride[1] = 0);
    ACCEPTED(m.stride[2] = ((u64)1 << 40) - 16);
    ACCEPTED((m.dim[1] = 1, m.stride[1] = 0));
    ACCEPTED(m.box[0] = 8);
    ACCEPTED((m.swizzle = SL_ROW, m.box[0] = 256));
    ACCEPTED((m.swizzle = SL_ROW, m.box[1] = 256));
    // A box narrower than the span still has rows one span apart.
    m = good_map();
    m.box[0] = 32;
    u32 pos[3] = {8, 1, 0};
    check(t, tma_smem_address(&m, 1024, pos) == 1024 + 128 + 0, "narrow box",
          "chunk 1 ^ 1 of row 1");
    check(t, tma_box_bytes(&m) == 8192, "bytes of a narrow box", "only its own");
}

int main(void)
{
    Test t = {0};
    tiles(&t);
    for (int k = FL_ACC; k < FL_COUNT; k++)
        for (int blocks = 1; blocks <= (k == FL_ROW ? 1 : 12); blocks++)
            fragment(&t, (FragKind)k, blocks);
    accumulator_to_operand(&t);
    map_limits(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
