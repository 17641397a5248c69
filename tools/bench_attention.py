#!/usr/bin/env python3
"""Causal attention: kernels of baton against cuDNN (PyTorch's SDPA), in one process on one GPU.

    make && python3 tools/bench_attention.py [--kernel A.co,B.co,...] [--sizes 4096,8192,16384]

B=4 H=32 D=128, bf16, q and k uniform(-2,2), v uniform(-1,1). TFLOPS = 2*B*H*S*S*D / time (products
under the mask; no softmax). Two regimes (tools/gpu_meter.py says more): burst, 10 launches after
idle time; sustained, turns under load that has lasted. Columns `ratio` are cuDNN's time over
this one's, W and J are of the driver's energy counter.

By default the turns are short, for tuning: under ten seconds a size with four kernels. --protocol
is what docs/measurements.md reports: after 2 s of load three rounds, in each of them every
implementation makes 50 launches to warm up and 200 between events; the median of all is reported;
bursts after 1 s of idle time, three of each.

A kernel is FILE.co with options of `baton build`, or a FILE.ptx that was built before:
    --kernel "v4.co,mine.co -D STAGES=3,/tmp/other.ptx"
Before it is timed, its result is checked on sampled rows of every head against fp32 arithmetic:
|error| <= 0.05 + 0.1 |reference|; a kernel that is wrong is named and left out, and the exit status
is 1. All read q, k, v and write o as [B, S, H, D]; cuDNN gets transposed views, as models
have them. Needs PyTorch with CUDA; nothing is compiled by nvcc. Tables go to standard output, and
with every single time and reading to the folder $OUT when it is set."""
import argparse, ctypes, json, os, shlex, subprocess, sys, tempfile, time
from pathlib import Path

import gpu_meter

ROOT = Path(__file__).resolve().parent.parent
B, H, D = 4, 32, 128
BF16, MAX_RANK = 2, 6
REFERENCE = "cuDNN"


class Tensor(ctypes.Structure):  # baton_tensor
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("type", ctypes.c_int),
                ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * MAX_RANK),
                ("int_value", ctypes.c_int64), ("float_value", ctypes.c_double)]


class Library:
    """The C API through ctypes: one context for all modules."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(str(library))
        self.lib.baton_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.must(self.lib.baton_open(None, ctypes.byref(self.context)))

    def must(self, status):
        if status:
            raise RuntimeError(self.lib.baton_last_error().decode())

    def load(self, ptx):
        module = ctypes.c_void_p()
        self.must(self.lib.baton_load_file(self.context, str(ptx).encode(), ctypes.byref(module)))
        return module

    def arguments(self, tensors):
        args = (Tensor * len(tensors))()
        for a, t in zip(args, tensors):
            assert t.is_contiguous() and t.element_size() == 2
            a.size, a.data, a.type, a.rank = ctypes.sizeof(Tensor), t.data_ptr(), BF16, t.dim()
            a.dim = (ctypes.c_int64 * MAX_RANK)(*t.shape)
        return args

    def launcher(self, module, tensors, stream):
        """A function that launches on `stream`; the tensors live as long as it does."""
        args, stream = self.arguments(tensors), ctypes.c_void_p(stream)
        def launch(keep=tensors):
            status = self.lib.baton_launch(module, args, len(args), stream)
            if status:
                self.must(status)
        return launch


def kernels(text, build, folder):
    """Name -> PTX file of the kernels in the list `text`, compiled."""
    made = {}
    for item in filter(None, (i.strip() for i in text.split(","))):
        file, *options = shlex.split(item)
        name = " ".join([Path(file).stem] + [o for o in options if o != "-D"])
        base, n = name, 1
        while name in made:  # the same name from another folder
            n += 1
            name = f"{base}#{n}"
        if file.endswith(".ptx"):
            made[name] = Path(file)
            continue
        made[name] = folder / f"{len(made)}.ptx"
        words = [f"{build}/baton", "build", file, *options, "-o", str(made[name])]
        if subprocess.run(words).returncode:
            sys.exit(f"{item}: does not compile")
    return made


def check(torch, o, q, k, v):
    """Sampled rows (ends, edges of tiles, random ones) of every head: the worst error, whether all
    are within the tolerance, and how many rows."""
    s = q.shape[1]
    rows = sorted(r for r in {0, 1, 63, 64, 127, 128, s // 2, s - 129, s - 128, s - 64, s - 1}
                  | set(torch.randint(s, (21,), generator=torch.Generator().manual_seed(1)).tolist())
                  if 0 <= r < s)
    at = torch.tensor(rows, device=q.device)
    mask = torch.arange(s, device=q.device)[None, :] > at[:, None]
    worst, good = torch.zeros((), device=q.device), torch.ones((), dtype=torch.bool, device=q.device)
    for b in range(q.shape[0]):  # [H, rows, S] scores of one batch
        score = q[b, at].float().transpose(0, 1) @ k[b].float().permute(1, 2, 0) * D ** -0.5
        p = torch.softmax(score.masked_fill(mask, -torch.inf), -1)
        want = p @ v[b].float().transpose(0, 1)
        error = (o[b, at].float().transpose(0, 1) - want).abs()
        good &= (error <= 0.05 + 0.1 * want.abs()).all()  # false for NaN
        worst = torch.maximum(worst, error.max())
    return worst.item(), bool(good), len(rows) * q.shape[0] * q.shape[2]


def peers(torch, q, k, v):
    """FlashAttention-3 when it is installed; a line that says so when it is not."""
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError as e:
        return {}, f"FlashAttention-3 is missing here: {e}"
    return {"FlashAttention-3": lambda: flash_attn_func(q, k, v, causal=True)}, None


def implementations(torch, library, modules, s, notes, with_peers):
    """Name -> launch of everything that is right at sequence length `s`, cuDNN first."""
    g = torch.Generator("cuda").manual_seed(s)
    def uniform(a):
        return ((torch.rand(B, s, H, D, generator=g, device="cuda") * 2 - 1) * a).bfloat16()
    q, k, v = uniform(2), uniform(2), uniform(1)
    qt, kt, vt = (t.transpose(1, 2) for t in (q, k, v))
    stream = torch.cuda.current_stream().cuda_stream
    attention = torch.nn.functional.scaled_dot_product_attention
    made, errors = {REFERENCE: lambda: attention(qt, kt, vt, is_causal=True)}, {}
    made[REFERENCE]()
    if with_peers:
        more, note = peers(torch, q, k, v)
        if note and note not in notes:
            notes.append(note)
        made |= more
        for launch in more.values():
            launch()
    wrong = False
    for name, module in modules.items():
        out = torch.full_like(q, torch.nan)
        launch = library.launcher(module, (q, k, v, out), stream)
        try:
            launch()
            torch.cuda.synchronize()
        except RuntimeError as e:
            notes.append(f"{name} at S={s} FAILED: {e}")
            wrong = True
            continue
        errors[name], good, rows = check(torch, out, q, k, v)
        if good:
            made[name] = launch
        else:
            notes.append(f"{name} at S={s} is WRONG: error {errors[name]:.3g} in {rows} rows")
            wrong = True
    return made, errors, wrong


def measure(o, contest):
    """Regime -> name -> turns."""
    turns = {}
    if o.regimes != "sustained":
        turns["burst"] = contest.bursts(3 if o.protocol else o.rounds, o.idle, 10)
    if o.regimes != "burst":
        if o.protocol:
            turns["sustained"] = contest.sustained(3, o.load, warm=50, launches=200)
        else:
            turns["sustained"] = contest.sustained(o.rounds, o.load, turn=o.turn)
    return turns


def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernel", default=str(ROOT / "kernels/attention/v4.co"))
    options.add_argument("--build", default=str(ROOT / "build"), help="folder of baton and libbaton.so")
    options.add_argument("--sizes", default="4096,8192,16384")
    options.add_argument("--protocol", action="store_true", help="the long, documented one")
    options.add_argument("--regimes", choices=("both", "burst", "sustained"), default="both")
    options.add_argument("--peers", action="store_true", help="FlashAttention-3 as well")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--turn", type=float, default=0.3, help="seconds of one sustained turn")
    options.add_argument("--load", type=float, help="seconds of load before; 0.7, or 2 with --protocol")
    options.add_argument("--idle", type=float, help="seconds before a burst; 0.3, or 1 with --protocol")
    o = options.parse_args()
    o.load = o.load if o.load is not None else 2 if o.protocol else 0.7
    o.idle = o.idle if o.idle is not None else 1 if o.protocol else 0.3
    return o


def main():
    o = parse_options()
    modules = kernels(o.kernel, o.build, Path(tempfile.mkdtemp()))
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    properties = torch.cuda.get_device_properties(0)
    meter = gpu_meter.Meter(f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None)
    library = Library(f"{o.build}/libbaton.so")
    modules = {name: library.load(ptx) for name, ptx in modules.items()}
    notes = [f"no energy and clocks: {meter.missing}"] if meter.missing else []
    lines = [f"{properties.name}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; "
             f"B={B} H={H} D={D} causal bf16; ratio = {REFERENCE} / this; "
             + ("protocol: 3 rounds of 50 + 200 launches" if o.protocol else
                f"{o.rounds} rounds of {o.turn} s")]
    print(lines[0], flush=True)
    results, raw, failed = {}, {}, False
    sizes = [int(s) for s in o.sizes.split(",")]
    for s in sizes:
        started = time.monotonic()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            launches, errors, wrong = implementations(torch, library, modules, s, notes, o.peers)
            turns = measure(o, gpu_meter.Contest(launches, torch.cuda, meter))
        failed |= wrong
        operations = 2 * B * H * s * s * D
        results[s] = {regime: {name: gpu_meter.summary(t, by_name[REFERENCE], operations)
                               for name, t in by_name.items()} for regime, by_name in turns.items()}
        raw[s] = {regime: {name: [vars(t) for t in ts] for name, ts in by_name.items()}
                  for regime, by_name in turns.items()}
        table = [gpu_meter.HEAD.replace(" " * 26, f"S={s}".rjust(26), 1)]
        for name in launches:
            table.append(gpu_meter.row(name, *(results[s].get(r, {}).get(name)
                                               for r in ("burst", "sustained")))
                         + (f" | error {errors[name]:.1e}" if name in errors else ""))
        table.append(f"{time.monotonic() - started:26.1f} s for this size")
        print("\n".join(table), flush=True)
        lines += table
        del launches
        torch.cuda.empty_cache()
    names = [n for n in next(iter(results[sizes[0]].values())) if n != REFERENCE]
    tail = gpu_meter.ratio_table(names, [f"S={s}" for s in sizes],
                                 {f"S={s}": results[s] for s in sizes}) + notes
    print("\n".join(tail))
    if os.environ.get("OUT"):
        out = Path(os.environ["OUT"])
        (out / "bench_attention.txt").write_text("\n".join(lines + tail) + "\n")
        (out / "bench_attention.json").write_text(json.dumps({"results": results, "turns": raw}))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
