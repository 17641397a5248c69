#!/usr/bin/env python3
"""Causal attention: a kernel of baton against cuDNN (PyTorch's SDPA), in one process on one GPU.

    make && python3 tools/bench_attention.py [--kernel FILE.co] [--sizes 4096,8192,16384]

Protocol: B=4 H=32 D=128, bf16, q and k uniform(-2,2), v uniform(-1,1). Per size three rounds; in each
round each implementation in turn makes 50 launches to warm up and 200 between CUDA events. The
median of all is reported. TFLOPS = 2*B*H*S*S*D / time (products under the mask; no softmax).
Before it is timed, baton's result is checked on sampled rows against fp32 arithmetic:
|error| <= 0.05 + 0.1 |reference|. Both read q, k, v and write o as [B, S, H, D]; cuDNN gets
transposed views, as models have them. Needs PyTorch with CUDA; nothing is compiled by nvcc."""
import argparse, ctypes, os, statistics, subprocess, sys, tempfile
from pathlib import Path
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
B, H, D = 4, 32, 128
ROUNDS, WARMUP, LAUNCHES = 3, 50, 200
BF16, MAX_RANK = 2, 6


class Tensor(ctypes.Structure):  # baton_tensor
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("type", ctypes.c_int),
                ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * MAX_RANK),
                ("int_value", ctypes.c_int64), ("float_value", ctypes.c_double)]


class Baton:
    """The C API through ctypes: one context, one module, launches on PyTorch's current stream."""

    def __init__(self, library, ptx):
        self.lib = ctypes.CDLL(str(library))
        self.lib.baton_last_error.restype = ctypes.c_char_p
        self.context, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.lib.baton_open(None, ctypes.byref(self.context)))
        self.must(self.lib.baton_load_file(self.context, str(ptx).encode(), ctypes.byref(self.module)))

    def must(self, status):
        if status:
            sys.exit(f"baton: {self.lib.baton_last_error().decode()}")

    def arguments(self, tensors):
        args = (Tensor * len(tensors))()
        for a, t in zip(args, tensors):
            assert t.is_contiguous() and t.dtype == torch.bfloat16
            a.size, a.data, a.type, a.rank = ctypes.sizeof(Tensor), t.data_ptr(), BF16, t.dim()
            a.dim = (ctypes.c_int64 * MAX_RANK)(*t.shape)
        return args

    def launch(self, args):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.must(self.lib.baton_launch(self.module, args, len(args), stream))


def time_one(launch):
    for _ in range(WARMUP):
        launch()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(LAUNCHES + 1)]
    marks[0].record()
    for mark in marks[1:]:
        launch()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def check(o, q, k, v, s):
    """Sampled rows (ends, edges of tiles, random ones) of every head; returns the worst error."""
    rows = sorted({0, 1, 63, 64, 127, 128, s // 2, s - 129, s - 128, s - 64, s - 1}
                  | set(torch.randint(s, (21,), generator=torch.Generator().manual_seed(1)).tolist()))
    worst, at = 0.0, torch.tensor(rows, device=q.device)
    mask = torch.arange(s, device=q.device)[None, :] > at[:, None]
    for b in range(B):
        for h in range(H):
            score = q[b, at, h].float() @ k[b, :, h].float().T * D ** -0.5
            p = torch.softmax(score.masked_fill(mask, -torch.inf), 1)
            want, got = p @ v[b, :, h].float(), o[b, at, h].float()
            error = (got - want).abs()
            if not bool((error <= 0.05 + 0.1 * want.abs()).all()):
                sys.exit(f"WRONG at S={s} batch {b} head {h}: error {error.max().item()}")
            worst = max(worst, error.max().item())
    return worst, len(rows) * B * H


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernel", default=str(ROOT / "kernels/attention/v1.co"))
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--sizes", default="4096,8192,16384")
    o = options.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    ptx = Path(tempfile.mkdtemp()) / "attention.ptx"
    subprocess.run([f"{o.build}/baton", "build", o.kernel, "-o", str(ptx)], check=True)
    baton = Baton(f"{o.build}/libbaton.so", ptx)
    lines = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN "
             f"{torch.backends.cudnn.version()}; B={B} H={H} D={D} causal bf16, {o.kernel}",
             "     S |  baton ms  TFLOPS |  cuDNN ms  TFLOPS | baton/cuDNN | worst error (rows checked)"]
    for s in map(int, o.sizes.split(",")):
        g = torch.Generator("cuda").manual_seed(s)
        def uniform(a):
            return ((torch.rand(B, S, H, D, generator=g, device="cuda") * 2 - 1) * a).bfloat16()
        S = s
        q, k, v = uniform(2), uniform(2), uniform(1)
        out = torch.full_like(q, torch.nan)
        args = baton.arguments([q, k, v, out])
        baton.launch(args)
        torch.cuda.synchronize()
        worst, rows = check(out, q, k, v, s)
        qt, kt, vt = (t.transpose(1, 2) for t in (q, k, v))
        def cudnn():
            torch.nn.functional.scaled_dot_product_attention(qt, kt, vt, is_causal=True)
        times = {"baton": [], "cudnn": []}
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            for _ in range(ROUNDS):
                times["baton"] += time_one(lambda: baton.launch(args))
                times["cudnn"] += time_one(cudnn)
        ms = {n: statistics.median(t) for n, t in times.items()}
        tflops = {n: 2 * B * H * s * s * D / (t * 1e9) for n, t in ms.items()}
        lines.append(f"{s:6d} | {ms['baton']:9.4f} {tflops['baton']:7.1f} | {ms['cudnn']:9.4f} "
                     f"{tflops['cudnn']:7.1f} | {ms['cudnn'] / ms['baton']:11.3f} | {worst:.2e} ({rows})")
        print(lines[-1], file=sys.stderr, flush=True)
        del q, k, v, out, args
    table = "\n".join(lines)
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], "bench_attention.txt").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
