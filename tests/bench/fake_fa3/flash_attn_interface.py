import os

import torch
from torch import clock
from torch.nn.functional import attend

print("a library that talks when it is imported")


def flash_attn_func(q, k, v, causal):
    os.write(1, b"and one that writes past Python\n")
    out = torch.empty(q.shape, dtype=q.dtype)
    clock.launch(clock.option("device_ms"), lambda: attend(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), out.transpose(1, 2), causal))
    return out, "sums"
