"""Attention in Triton, forward, causal or not: kernels of our own after the FlashAttention-2 paper
(one tile of queries a block, online softmax in the exp2 domain, f32 accumulators), so that the peer
is something that can be read. Two of them:

    attention     the whole tiles of keys first, then those at the diagonal (or the ragged end) with
                  the mask
    specialised   one loop with warp_specialize=True: producer warps copy, two groups of consumers
                  compute. On Hopper Triton 3.6 specialises only a loop without branches that is
                  alone in its function; a branch or more warps asked for, and it compiles the loop
                  without roles and without a word. So the mask is applied in every round, and
                  whoever launches this must look at metadata.num_warps of what came out.

q, k, v, o are [B, H, S, D], dense; tiles come through tensor descriptors over [B*H*S, D], made by
the host (triton.tools.tensor_descriptor), but for q in `specialised`: the compiler halves its tile
for the two groups of consumers, and only a descriptor that the kernel makes is halved with it. (One
of the host brings twice the bytes that are waited for, and the kernel never ends.) Keys past S are
of the next head, or zeros, and are masked."""
import triton
import triton.language as tl


@triton.jit
def _tile(acc, m, l, q, k_tiles, v_tiles, base, start, rows, size, scale,
          MASKED: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_N: tl.constexpr):
    """One round: keys start .. start + BLOCK_N of the head that begins at row `base`."""
    k = k_tiles.load([base + start, 0])
    s = tl.dot(q, k.T)
    if MASKED:
        keys = start + tl.arange(0, BLOCK_N)
        if CAUSAL:
            s = tl.where(keys[None, :] <= rows[:, None], s, float("-inf"))
        else:
            s = tl.where(keys[None, :] < size, s, float("-inf"))
    new_m = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - new_m[:, None])
    alpha = tl.exp2(m - new_m)
    l = l * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    v = v_tiles.load([base + start, 0])
    acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, new_m, l


@triton.jit
def _begin(q_tiles, size, BLOCK_M: tl.constexpr, DIM: tl.constexpr):
    """The block's work: long tiles of queries first, as blocks start in order of number, about."""
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    base = tl.program_id(1) * size
    q = q_tiles.load([base + first, 0])
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    return first, base, q, m, l, acc


@triton.jit
def _store(o, acc, l, base, rows, size, DIM: tl.constexpr):
    at = (base + rows).to(tl.int64)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    tl.store(o + at, (acc / l[:, None]).to(o.dtype.element_ty), mask=rows[:, None] < size)


@triton.jit
def attention(q_tiles, k_tiles, v_tiles, o, size, scale, CAUSAL: tl.constexpr, EVEN: tl.constexpr,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr):
    first, base, q, m, l, acc = _begin(q_tiles, size, BLOCK_M, DIM)
    rows = first + tl.arange(0, BLOCK_M)
    whole = (first if CAUSAL else size) // BLOCK_N * BLOCK_N
    for start in range(0, whole, BLOCK_N):
        acc, m, l = _tile(acc, m, l, q, k_tiles, v_tiles, base, start, rows, size, scale,
                          False, CAUSAL, BLOCK_N)
    if CAUSAL or not EVEN:
        end = tl.minimum(first + BLOCK_M, size) if CAUSAL else size
        for start in range(whole, end, BLOCK_N):
            acc, m, l = _tile(acc, m, l, q, k_tiles, v_tiles, base, start, rows, size, scale,
                              True, CAUSAL, BLOCK_N)
    _store(o, acc, l, base, rows, size, DIM)


@triton.jit
def specialised(q, k_tiles, v_tiles, o, size, scale, CAUSAL: tl.constexpr, EVEN: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr):
    q_tiles = tl.make_tensor_descriptor(q, [tl.num_programs(1) * size, DIM], [DIM, 1],
                                        [BLOCK_M, DIM])
    first, base, q, m, l, acc = _begin(q_tiles, size, BLOCK_M, DIM)
    rows = first + tl.arange(0, BLOCK_M)
    end = tl.minimum(first + BLOCK_M, size) if CAUSAL else size
    for start in tl.range(0, end, BLOCK_N, warp_specialize=True):
        acc, m, l = _tile(acc, m, l, q, k_tiles, v_tiles, base, start, rows, size, scale,
                          CAUSAL or not EVEN, CAUSAL, BLOCK_N)
    _store(o, acc, l, base, rows, size, DIM)


# What is tried: (BLOCK_M, BLOCK_N, warps, stages).
PLAIN = ((128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 128, 4, 2), (64, 64, 4, 3))
SPECIALISED = ((128, 128, 4, 2), (128, 64, 4, 3), (128, 64, 4, 2))
