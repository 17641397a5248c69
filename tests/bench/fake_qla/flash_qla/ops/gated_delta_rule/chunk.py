"""The two corrections, by their definition; sizes and types as FlashQLA has them, but any K = V."""
import torch
from torch import clock


def _correct(raw, ends, matrix, mask, offsets, vk, reverse):
    assert mask.dtype is torch.bool and offsets.dtype is torch.int32 and ends.dtype is matrix.dtype
    out = torch.empty(ends.shape, dtype=raw.dtype if raw else torch.float32)
    n = ends.shape[-1]
    span = range(n)
    def run():
        for p in range(offsets.shape[0] - 1):
            for h in range(ends.shape[1]):
                state = [[raw.get(p, h, i, j) if raw else 0.0 for j in span] for i in span]
                segments = list(range(offsets.get(p), offsets.get(p + 1)))
                for s in reversed(segments) if reverse else segments:
                    for i in span:
                        for j in span:
                            out.put(state[i][j], s, h, i, j)
                    m = [[matrix.get(s, h, *((j, i) if reverse else (i, j))) for j in span] for i in span]
                    f = 1.0 if mask.get(s, h) else 0.0
                    if vk:
                        state = [[ends.get(s, h, i, j) + f * sum(state[i][x] * m[j][x] for x in span)
                                  for j in span] for i in span]
                    else:
                        state = [[ends.get(s, h, i, j) + f * sum(m[i][x] * state[x][j] for x in span)
                                  for j in span] for i in span]
    clock.launch(clock.option("device_ms"), run)
    return out


def correct_initial_states(raw_h0, ht_buffer, mt_buffer, fallback_mask, seq_map_r2c, state_v_first=False):
    return _correct(raw_h0, ht_buffer, mt_buffer, fallback_mask, seq_map_r2c, state_v_first, False)


def correct_terminal_states(raw_dht, dht_buffer, mt_buffer, fallback_mask, seq_map_r2c, state_v_first=False):
    return _correct(raw_dht, dht_buffer, mt_buffer, fallback_mask, seq_map_r2c, state_v_first, True)
