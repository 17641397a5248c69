// tma.h - a tensor map as data, with the limits of the TMA unit. The runtime encodes it for the
// driver, the emulator copies by it, the checker asks whether it is legal.
#ifndef BATON_TMA_H
#define BATON_TMA_H

#include "layout.h"

enum { TMA_MAX_RANK = 5 };
typedef struct {
    void *base;              // global address, 16-byte aligned
    DType type;
    int rank;                // 1..5
    u64 dim[TMA_MAX_RANK];   // extents, elements, innermost first
    u64 stride[TMA_MAX_RANK]; // bytes; stride[0] is the element size; others multiples of 16
    u32 box[TMA_MAX_RANK];   // extents of the box, elements, 1..256 each
    SmemLayout swizzle;      // SL_ROW: none
    int promote;             // bytes that the L2 cache fetches at least, 0: not said
} TensorMap;

// NULL when the driver will accept the map, else the rule that it breaks, one sentence ("the stride
// of dimension 1 is 264 bytes; TMA needs a multiple of 16"). Written into `why` (bytes: why_n).
const char *tma_check(const TensorMap *m, char *why, size_t why_n);
bool tma_promotes(int bytes); // is it an L2 promotion: 64, 128 or 256?
u32 tma_box_bytes(const TensorMap *m); // bytes that a load of one box counts on its mbarrier
// Absolute shared address of box element (x, y, z, ...) of a box whose destination is `dst`, also
// absolute: the swizzle works on absolute address bits. `pos` has m->rank entries, innermost
// first.
u32 tma_smem_address(const TensorMap *m, u32 dst, const u32 *pos);

#endif
