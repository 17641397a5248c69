"""As much of Triton as bench/backends.py uses: kernels are not compiled, attention is computed by
the fake PyTorch. FAKE_TORCH: triton_hangs: what is specialised never ends; triton_roles
false: nothing is specialised; triton_fails: rows of tiles that do not compile;
triton_writes: so many launches write their result, later ones do nothing."""
import math
import signal

from torch import clock
from torch.nn.functional import attend

from . import language
from .tools.tensor_descriptor import TensorDescriptor

__version__ = "3.6.0"


def cdiv(a, b):
    return -(-a // b)


class _Compiled:
    def __init__(self, warps):
        self.metadata = type("Metadata", (), {"num_warps": warps})
        self.asm = {"ptx": f"ptx of {warps} warps"}


class _Kernel:
    written = 0

    def __init__(self, function):
        self.__name__ = function.__name__

    def __getitem__(self, grid):
        return lambda *a, **k: self.launch(grid, *a, **k)

    def launch(self, grid, q, k, v, out, size, scale, **options):
        rows, keys, warps = options["BLOCK_M"], options["BLOCK_N"], options["num_warps"]
        b, h, s, d = out.shape
        specialised = self.__name__ == "specialised"
        if specialised and clock.option("triton_hangs"):
            signal.pause()
        if specialised:
            q = TensorDescriptor(q, [b * h * s, d], [d, 1], [rows, d])
        assert grid == (cdiv(s, rows), b * h)
        assert q.block_shape == [rows, d] and k.block_shape == v.block_shape == [keys, d]
        assert abs(scale - 1.4426950408889634 / d ** 0.5) < 1e-6
        assert options["EVEN"] == (s % keys == 0) and all(t.base.is_contiguous() for t in (q, k, v))
        if rows in (clock.option("triton_fails") or []):
            raise RuntimeError("\nout of resource: shared memory\nmore")
        def run():
            if _Kernel.written < (clock.option("triton_writes") or math.inf):
                attend(q.base, k.base, v.base, out, options["CAUSAL"])
            _Kernel.written += 1
        clock.launch(clock.option("device_ms") * (2 if rows == 64 else 1), run)
        roles = specialised and clock.option("triton_roles") is not False
        return _Compiled(warps + 8 if roles else warps)


def set_allocator(function):
    pass


def jit(function):
    return _Kernel(function)
