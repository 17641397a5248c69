#!/usr/bin/env python3
"""Matrix products: kernels of baton against cuBLAS (torch.matmul, torch._scaled_mm), in one process.

    make && python3 tools/bench_gemm.py [--types bf16,f16,f8] [--sizes 4096,8192,512x1024x768]

C = A B^T of A [M, K] and B [N, K], uniform(-1,1); a size is one number for all three, or MxNxK.
f8 is e4m3 with a bf16 result; cuBLAS does it with fast accumulation, in the tensor cores as
persistent.co, and without, as fp8.co (ratios are of the time of the former). TFLOPS = 2*M*N*K / time. Regimes,
turns, --protocol and the columns are those of tools/bench_attention.py, and a kernel may likewise
carry options: --kernel "kernels/gemm/persistent.co -D GROUP_M=8,other.ptx"; what chooses the type is
added, but for PTX and for fp8.co, which is left out for other types.

Before anything is timed, EVERY element is compared with the product in fp32 (no TF32) of the same
inputs: |error| <= 2^-8 |reference| + a, with a for the sums that the tensor cores cut off below
the largest addend: K * 2^-24 of the largest |reference| for 16-bit types; for f8, where 14 bits of
each sum are kept, K/32 * 2^-13 of it. The table names the root of the mean squared error beside
cuBLAS's own. A kernel that is wrong is named and left out, and the exit status is 1."""
import argparse, ctypes, json, os, sys, tempfile, time
from pathlib import Path

import gpu_meter
from bench_attention import ROOT, Library, Tensor, kernels, measure

TYPES = {"bf16": "ELEM=bf16", "f16": "ELEM=f16", "f8": "FP8"}  # what chooses the type in a kernel


class GemmLibrary(Library):
    """Arguments of several types."""

    def arguments(self, tensors):
        args = (Tensor * len(tensors))()
        for a, t in zip(args, tensors):
            assert t.is_contiguous()
            a.size, a.data, a.rank = ctypes.sizeof(Tensor), t.data_ptr(), t.dim()
            a.type = {"bfloat16": 2, "float16": 1, "float8_e4m3fn": 4}[str(t.dtype).split(".")[1]]
            a.dim = (ctypes.c_int64 * len(a.dim))(*t.shape)
        return args


def references(torch, kind, a, b):
    """Name -> launch of cuBLAS, the one that ratios are of first."""
    if kind != "f8":
        out = torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device="cuda")
        def matmul():
            torch.matmul(a, b.T, out=out)
            return out
        return {"cuBLAS": matmul}
    one = torch.ones((), device="cuda")
    def scaled(fast):
        return lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    return {"cuBLAS fast accumulation": scaled(True), "cuBLAS": scaled(False)}


def check(torch, kind, got, want, k):
    """Root of the mean squared error, the worst error, and whether every element is in tolerance."""
    large = want.abs().max()
    floor = large * (k / 32 * 2 ** -13 if kind == "f8" else k * 2 ** -24)
    good, worst, square = True, 0.0, 0.0
    for g, w in zip(got.split(1024), want.split(1024)):
        error = (g.float() - w).abs()
        good &= bool((error <= w.abs() * 2 ** -8 + floor).all())  # false for NaN
        worst = max(worst, error.max().item())
        square += error.double().square().sum().item()
    return (square / max(1, want.numel())) ** 0.5, worst, good


def implementations(torch, library, modules, kind, size, notes):
    m, n, k = size
    g = torch.Generator("cuda").manual_seed(m + n + k)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f8": torch.float8_e4m3fn}[kind]
    def uniform(rows):
        return (torch.rand(rows, k, generator=g, device="cuda") * 2 - 1).to(dtype)
    a, b = uniform(m), uniform(n)
    want = a.float() @ b.float().T
    made, errors, wrong = references(torch, kind, a, b), {}, False
    for name, launch in list(made.items()):
        try:
            errors[name] = check(torch, kind, launch(), want, k)
        except RuntimeError as e:  # cuBLAS wants multiples of 16 of f8
            notes.append(f"{kind} {m}x{n}x{k}: {name} refuses: {str(e).splitlines()[0]}")
            del made[name]
    stream = torch.cuda.current_stream().cuda_stream
    out_type = torch.bfloat16 if kind == "f8" else dtype
    for name, module in modules.items():
        out = torch.full((m, n), torch.nan, dtype=out_type, device="cuda")
        launch = library.launcher(module, (a, b, out), stream)
        try:
            for _ in range(3):  # later launches must not depend on what the first left behind
                launch()
            torch.cuda.synchronize()
            errors[name] = check(torch, kind, out, want, k)
        except RuntimeError as e:
            notes.append(f"{name} at {m}x{n}x{k} FAILED: {e}")
            wrong = True
            continue
        if errors[name][2]:
            made[name] = launch
        else:
            notes.append(f"{name} at {m}x{n}x{k} is WRONG: worst error {errors[name][1]:.3g}")
            wrong = True
    return made, errors, wrong


def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernel", default=",".join(
        str(ROOT / f"kernels/gemm/{name}") for name in
        ("persistent.co", "persistent.co -D CLUSTER=1", "fp8.co", "fp8.co -D CLUSTER=1")))
    options.add_argument("--build", default=str(ROOT / "build"), help="folder of baton and libbaton.so")
    options.add_argument("--types", default="bf16,f16,f8")
    options.add_argument("--sizes", default="4096,8192")
    options.add_argument("--check", action="store_true", help="compare only, measure nothing")
    options.add_argument("--protocol", action="store_true", help="3 rounds of 50 + 200 launches")
    options.add_argument("--regimes", choices=("both", "burst", "sustained"), default="both")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--turn", type=float, default=0.4, help="seconds of one sustained turn")
    options.add_argument("--load", type=float, default=1, help="seconds of load before")
    options.add_argument("--idle", type=float, default=0.4, help="seconds before a burst")
    return options.parse_args()


def main():
    o = parse_options()
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    properties = torch.cuda.get_device_properties(0)
    meter = gpu_meter.Meter(f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None)
    library = GemmLibrary(f"{o.build}/libbaton.so")
    notes = [f"no energy and clocks: {meter.missing}"] if meter.missing else []
    lines = [f"{properties.name}, PyTorch {torch.__version__}; C = A B^T; ratio = cuBLAS / this"]
    print(lines[0], flush=True)
    results, failed = {}, False
    for kind in o.types.split(","):
        items = [i if i.endswith(".ptx") or "fp8.co" in i else f"{i} -D {TYPES[kind]}"
                 for i in o.kernel.split(",") if kind == "f8" or "fp8.co" not in i]
        made = kernels(",".join(items), o.build, Path(tempfile.mkdtemp()))
        modules = {name: library.load(ptx) for name, ptx in made.items()}
        for text in o.sizes.split(","):
            parts = [int(p) for p in text.split("x")]
            size = parts * 3 if len(parts) == 1 else parts
            started = time.monotonic()
            launches, errors, wrong = implementations(torch, library, modules, kind, size, notes)
            failed |= wrong
            turns = {} if o.check else measure(o, gpu_meter.Contest(launches, torch.cuda, meter))
            first, operations = next(iter(launches), None), 2 * size[0] * size[1] * size[2]
            result = {regime: {name: gpu_meter.summary(t, by_name[first], operations)
                               for name, t in by_name.items()} for regime, by_name in turns.items()}
            results[f"{kind} {text}"] = result
            table = [gpu_meter.HEAD.replace(" " * 26, f"{kind} {text}".rjust(26), 1)]
            for name in launches:
                rms, worst, good = errors[name]
                table.append(gpu_meter.row(name, *(result.get(r, {}).get(name)
                                                   for r in ("burst", "sustained")))
                             + f" | rms error {rms:.2e}, worst {worst:.2e}"
                             + ("" if good else " (out of tolerance)"))
            table.append(f"{time.monotonic() - started:26.1f} s for this size")
            print("\n".join(table), flush=True)
            lines += table
            del launches
            torch.cuda.empty_cache()
    print("\n".join(notes))
    if os.environ.get("OUT"):
        out = Path(os.environ["OUT"])
        (out / "bench_gemm.txt").write_text("\n".join(lines + notes) + "\n")
        (out / "bench_gemm.json").write_text(json.dumps(results))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
