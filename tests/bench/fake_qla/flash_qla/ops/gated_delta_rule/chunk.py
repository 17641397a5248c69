"""The two corrections, by their definition; sizes and types as FlashQLA has them, but any K = V.
FAKE_TORCH: qla_hangs: never ends where there are segments."""
import itertools
import signal

import torch
from torch import clock


def _correct(raw, ends, matrix, mask, offsets, vk, reverse):
    assert mask.dtype is torch.bool and offsets.dtype is torch.int32 and ends.dtype is matrix.dtype
    if clock.option("qla_hangs") and offsets.get(offsets.shape[0] - 1) > 0:
        signal.pause()
    out = torch.empty(ends.shape, dtype=raw.dtype if raw else torch.float32)
    n = ends.shape[-1]
    span = range(n)
    def state_after(s, h, state, f):
        made = [[ends.get(s, h, i, j) for j in span] for i in span]
        for i, j, x in itertools.product(span, span, span):
            k, before = (j, state[i][x]) if vk else (i, state[x][j])
            m = matrix.get(s, h, x, k) if reverse else matrix.get(s, h, k, x)
            made[i][j] += f * m * before
        return made
    def run():
        for p, h in itertools.product(range(offsets.shape[0] - 1), range(ends.shape[1])):
            state = [[raw.get(p, h, i, j) if raw else 0.0 for j in span] for i in span]
            segments = list(range(offsets.get(p), offsets.get(p + 1)))
            for s in reversed(segments) if reverse else segments:
                for i, j in itertools.product(span, span):
                    out.put(state[i][j], s, h, i, j)
                state = state_after(s, h, state, 1.0 if mask.get(s, h) else 0.0)
    clock.launch(clock.option("device_ms"), run)
    return out


def correct_initial_states(raw_h0, ht, mt, fallback_mask, seq_map_r2c, state_v_first=False):
    return _correct(raw_h0, ht, mt, fallback_mask, seq_map_r2c, state_v_first, False)


def correct_terminal_states(raw_dht, dht, mt, fallback_mask, seq_map_r2c, state_v_first=False):
    return _correct(raw_dht, dht, mt, fallback_mask, seq_map_r2c, state_v_first, True)
