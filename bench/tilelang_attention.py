"""Attention in TileLang, forward, causal or not: a kernel of our own in the language's documented
primitives. A block has one tile of 128 queries and walks over tiles of 128 keys, whose copies
TileLang pipelines in two stages and gives to producer warps on Hopper; softmax in the exp2 domain.

q, k, v, o are [B, S, H, D], dense."""
import math

import tilelang
import tilelang.language as T

BLOCK = 128    # queries and keys of a tile
STAGES = 2
THREADS = 256  # two warp groups that compute


def build(batch, size, heads, dim, dtype, causal):
    """A compiled kernel, called as kernel(q, k, v, o)."""
    shape = [batch, size, heads, dim]
    scale = math.log2(math.e) / math.sqrt(dim)
    tiles = (size + BLOCK - 1) // BLOCK
    ragged = size % BLOCK != 0

    @T.prim_func
    def attention(q: T.Tensor(shape, dtype), k: T.Tensor(shape, dtype), v: T.Tensor(shape, dtype),
                  o: T.Tensor(shape, dtype)):
        with T.Kernel(tiles, heads, batch, threads=THREADS) as (bx, head, sequence):
            q_s = T.alloc_shared([BLOCK, dim], dtype)
            k_s = T.alloc_shared([BLOCK, dim], dtype)
            v_s = T.alloc_shared([BLOCK, dim], dtype)
            s = T.alloc_fragment([BLOCK, BLOCK], "float32")
            p = T.alloc_fragment([BLOCK, BLOCK], dtype)
            acc = T.alloc_fragment([BLOCK, dim], "float32")
            top = T.alloc_fragment([BLOCK], "float32")
            top_before = T.alloc_fragment([BLOCK], "float32")
            shrink = T.alloc_fragment([BLOCK], "float32")
            part = T.alloc_fragment([BLOCK], "float32")
            total = T.alloc_fragment([BLOCK], "float32")
            tile = tiles - 1 - bx  # long tiles of queries first
            T.copy(q[sequence, tile * BLOCK:(tile + 1) * BLOCK, head, :], q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for n in T.Pipelined(tile + 1 if causal else tiles, num_stages=STAGES):
                T.copy(k[sequence, n * BLOCK:(n + 1) * BLOCK, head, :], k_s)
                if causal:
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        s[i, j] = T.if_then_else(tile * BLOCK + i >= n * BLOCK + j, 0,
                                                 -T.infinity("float32"))
                elif ragged:
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        s[i, j] = T.if_then_else(n * BLOCK + j < size, 0, -T.infinity("float32"))
                else:
                    T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, top_before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(BLOCK):
                    shrink[i] = T.exp2((top_before[i] - top[i]) * scale)
                for i, j in T.Parallel(BLOCK, BLOCK):
                    s[i, j] = T.exp2(s[i, j] * scale - top[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(BLOCK):
                    total[i] = total[i] * shrink[i] + part[i]
                for i, j in T.Parallel(BLOCK, dim):
                    acc[i, j] *= shrink[i]
                T.copy(s, p)
                T.copy(v[sequence, n * BLOCK:(n + 1) * BLOCK, head, :], v_s)
                T.gemm(p, v_s, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BLOCK, dim):
                acc[i, j] /= total[i]
            T.copy(acc, o[sequence, tile * BLOCK:(tile + 1) * BLOCK, head, :])

    return tilelang.compile(attention)
