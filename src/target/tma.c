// tma.c - the limits of the TMA unit, as the driver enforces them when it encodes a tensor map, and
// the shared-memory address of a box element.
#include "tma.h"

#include <stdio.h>

// The driver refuses a stride of 2^40 bytes and takes 2^40 - 16; it takes an extent of 2^32.
#define TMA_STRIDE_LIMIT ((u64)1 << 40)
#define TMA_EXTENT_LIMIT ((u64)1 << 32)

// Each rule was tried on a card: the driver answers all of them with one code,
// "invalid value". It takes stride 0 and strides smaller than a row (overlapping
// rows), and boxes larger than the tensor.
const char *tma_check(const TensorMap *m, char *why, size_t why_n)
{
    if (m->rank < 1 || m->rank > TMA_MAX_RANK) {
        snprintf(why, why_n, "the tensor map has rank %d; TMA takes 1 to %d", m->rank,
                 TMA_MAX_RANK);
        return why;
    }
    if ((uintptr_t)m->base % 16) {
        snprintf(why, why_n, "the tensor's address %p is not a multiple of 16 bytes; TMA needs one",
                 m->base);
        return why;
    }
    u64 elem = dtype_bytes[m->type];
    for (int i = 0; i < m->rank; i++) {
        if (m->dim[i] < 1 || m->dim[i] > TMA_EXTENT_LIMIT) {
            snprintf(why, why_n, "the extent of dimension %d is %llu; TMA takes 1 to 2^32", i,
                     (unsigned long long)m->dim[i]);
            return why;
        }
        if (m->box[i] < 1 || m->box[i] > 256) {
            snprintf(why, why_n, "the box has %u elements in dimension %d; TMA takes 1 to 256",
                     m->box[i], i);
            return why;
        }
        // Also for a dimension of extent 1, whose stride is never used; callers put 0 there.
        if (i && m->stride[i] % 16) {
            snprintf(why, why_n,
                     "the stride of dimension %d is %llu bytes; TMA needs a multiple of 16", i,
                     (unsigned long long)m->stride[i]);
            return why;
        }
        if (i && m->stride[i] >= TMA_STRIDE_LIMIT) {
            snprintf(why, why_n,
                     "the stride of dimension %d is %llu bytes; TMA needs less than 2^40", i,
                     (unsigned long long)m->stride[i]);
            return why;
        }
    }
    if (m->stride[0] != elem) {
        snprintf(why, why_n,
                 "the innermost stride is %llu bytes; TMA needs adjacent elements of %llu",
                 (unsigned long long)m->stride[0], (unsigned long long)elem);
        return why;
    }
    u64 inner = m->box[0] * elem, span = (u64)smem_layout[m->swizzle].span;
    if (inner % 16) {
        snprintf(why, why_n, "the box's innermost row has %llu bytes; TMA needs a multiple of 16",
                 (unsigned long long)inner);
        return why;
    }
    // A row narrower than the span is fine: it still occupies a whole span in shared memory.
    if (span && inner > span) {
        snprintf(why, why_n,
                 "the box's innermost row has %llu bytes; the %s swizzle takes at most %llu",
                 (unsigned long long)inner, smem_layout[m->swizzle].name, (unsigned long long)span);
        return why;
    }
    return NULL;
}

bool tma_promotes(int bytes) { return bytes == 64 || bytes == 128 || bytes == 256; }

// The full box, whatever part of it lies outside the tensor: the hardware fills with zeros and
// counts those bytes too.
u32 tma_box_bytes(const TensorMap *m)
{
    u64 n = dtype_bytes[m->type];
    for (int i = 0; i < m->rank; i++) n = MIN(n * m->box[i], (u64)UINT32_MAX);
    return (u32)n;
}

u32 tma_smem_address(const TensorMap *m, u32 dst, const u32 *pos)
{
    const SmemLayoutInfo *swizzle = &smem_layout[m->swizzle];
    u32 elem = dtype_bytes[m->type], row = 0;
    for (int i = m->rank - 1; i >= 1; i--) row = row * m->box[i] + pos[i];
    // Under a swizzle the rows lie one span apart even if the box is narrower.
    u32 pitch = swizzle->span ? (u32)swizzle->span : m->box[0] * elem;
    u32 a = dst + row * pitch + pos[0] * elem;
    return a ^ (((a >> 7) & (u32)swizzle->mask) << 4);
}
