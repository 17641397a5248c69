#!/usr/bin/env python3
"""Is every element of causal attention right, at every size? On a machine with a Hopper GPU:

    make && python3 tools/verify_attention.py [--kernel A.co,B.co,...] [--large 4096,8192,16384]

By default all kernels of kernels/attention. Three parts, each for every kernel:

  odd       lengths around the edges of tiles, odd numbers of heads and batches, more heads than the
            grid has blocks, and inputs that are hard for an online softmax (sharp, rising, falling)
  large     B=4 H=32 at the lengths of --large, uniform inputs
  emulator  small sizes; the bits of the output must be those of `baton run --device=emu`, whose
            tracking of hazards is on

In the first two every element is compared with softmax(q k^T / sqrt(D)) v in fp64 (--fp32: fp32
without TF32). The limit follows from the kernels' roundings: P and O are rounded to bf16, each by at
most 2^-8 of its value, so |error| <= 2^-8 (P |v| + |o|) + SLACK, where P |v| is the output for the
absolute values of v, and SLACK is for fp32 sums and approximate exponentials. Outputs are filled with NaN before each launch and
stand between guard words, which must not change; all launches of a case must give the same bits.

One line a kernel and part; details of what failed go before it. Exit status 1 when anything is
wrong. Tables also go to $OUT/verify_attention.txt when OUT is set."""
import argparse, concurrent.futures, os, subprocess, sys, tempfile, time
from pathlib import Path

import record
from library import ROOT, Library, kernels

D = 128
SLACK = 5e-4
GUARD = 1 << 13          # elements before and after the output
GUARD_BITS = 0x2b3c
REPEATS = 3
SLAB_BYTES = 1 << 30     # of scores at a time
# (B, S, H, kind of inputs)
ODD = [(b, s, h, "uniform") for (b, h), s in zip(
    [(1, 1), (2, 3), (3, 1), (1, 5), (5, 1), (1, 7), (3, 3)] * 5,
    [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 200, 255, 256, 257, 383, 384, 385, 511, 513, 640,
     769, 1000, 1023, 1025, 1152, 1279, 2047, 2049, 3001, 4095, 4097])]
ODD += [(1, 129, 300, "uniform"), (300, 64, 1, "uniform"), (4001, 3, 1, "uniform"), (7, 130, 133, "uniform"),
        (1, 8191, 1, "uniform"), (0, 8, 1, "uniform"), (1, 0, 2, "uniform")]
ODD += [(1, s, 3, kind) for kind in ("sharp", "rising", "falling", "jump", "cliff", "zeros", "late")
        for s in (127, 640, 1500)]
EMULATOR = [(2, 1, 3), (1, 63, 3), (3, 64, 1), (1, 65, 2), (1, 127, 3), (2, 128, 1), (1, 129, 3), (1, 200, 1),
            (1, 255, 3), (1, 257, 2), (3, 385, 1), (1, 640, 1), (1, 1000, 1), (1, 1152, 1)]


def inputs(torch, b, s, h, kind):
    """q, k, v as [B, S, H, D] bf16 with |v| <= 1."""
    g = torch.Generator("cuda").manual_seed(1000 * s + 10 * b + h)
    def uniform(a):
        return (torch.rand(b, s, h, D, generator=g, device="cuda") * 2 - 1) * a
    q, k, v = uniform(2), uniform(2), uniform(1)
    if kind == "sharp":  # scores of some 20 standard deviations: a row is nearly one value of v
        q, k = q * 3, k * 3
    elif kind in ("rising", "falling"):  # the maximum of a row moves with every key, or never
        way = torch.arange(s, device="cuda").view(1, s, 1, 1) * (400 / max(s, 1) / D ** 0.5)
        q, k = q * 0.05 + 1, k * 0.05 + (way if kind == "rising" else -way)
    elif kind in ("jump", "cliff"):  # the other half of the keys is 2^400 times as heavy, or light
        early = (torch.arange(s, device="cuda") < s // 2).view(1, s, 1, 1)
        q, k = q * 0.05 + 1, k * 0.5 + torch.where(early, 25.0, 0.0) * (1 if kind == "jump" else -1)
    elif kind == "zeros":  # equal weights
        q = q * 0
    elif kind == "late":  # one key in 100 stands out, seldom by little
        k = k * torch.where(torch.rand(b, s, h, 1, generator=g, device="cuda") > 0.99, 6.0, 0.5)
    return [t.bfloat16() for t in (q, k, v)]


class Guarded:
    """An output tensor between guard words."""

    def __init__(self, torch, like):
        self.torch = torch
        self.all = torch.empty(like.numel() + 2 * GUARD, dtype=torch.int16, device=like.device)
        self.out = self.all[GUARD:GUARD + like.numel()].view(torch.bfloat16).view(like.shape)
        self.clear()

    def clear(self):
        self.all.fill_(GUARD_BITS)
        self.out.fill_(self.torch.nan)

    def damaged(self):
        n = self.all.numel() - GUARD
        return int((self.all[:GUARD] != GUARD_BITS).sum() + (self.all[n:] != GUARD_BITS).sum())

    def bits(self):
        return self.all[GUARD:self.all.numel() - GUARD].clone()


class Tally:
    """What one kernel showed in one part."""

    def __init__(self):
        self.cases = self.elements = self.wrong = self.nan = self.guard = self.unequal = self.failed = 0
        self.worst, self.squares, self.seconds = 0.0, 0.0, 0.0

    def add(self, elements, wrong, nan, guard, unequal, worst, squares):
        self.cases, self.elements = self.cases + 1, self.elements + elements
        self.wrong, self.nan, self.guard = self.wrong + wrong, self.nan + nan, self.guard + guard
        self.unequal, self.worst = self.unequal + unequal, max(self.worst, worst)
        self.squares += squares

    def bad(self):
        return bool(self.wrong or self.nan or self.guard or self.unequal or self.failed)


def slabs(torch, q, k, v, dtype):
    """Yields (heads, rows, reference, reference with |v|), the last two as [heads, rows, D] in
    `dtype`, of q, k, v as [B*H, S, D]."""
    n, s = q.shape[0], q.shape[1]
    rows = min(s, 512)
    heads = max(1, SLAB_BYTES // (rows * s * 8)) if n and s else 1
    for h in range(0, n, heads):
        kd, vd = k[h:h + heads].to(dtype), v[h:h + heads].to(dtype)
        vd = torch.cat((vd, vd.abs()), -1)
        for r in range(0, s, rows):
            end = min(s, r + rows)
            at = torch.arange(r, end, device=q.device)[:, None]
            hidden = torch.arange(end, device=q.device)[None, :] > at
            score = q[h:h + heads, r:end].to(dtype) @ kd[:, :end].transpose(1, 2) * D ** -0.5
            p = torch.softmax(score.masked_fill_(hidden, -torch.inf), -1)
            yield slice(h, h + heads), slice(r, end), *(p @ vd[:, :end]).split(D, -1)


def compare(torch, outputs, q, k, v, dtype):
    """For each output (wrong elements, NaN, worst error, sum of squared errors)."""
    flat = lambda t: t.transpose(1, 2).reshape(t.shape[0] * t.shape[2], t.shape[1], D)
    outputs, (q, k, v) = [flat(o) for o in outputs], map(flat, (q, k, v))
    zero = lambda t: torch.zeros((), dtype=t, device=q.device)
    sums = [[zero(torch.int64), zero(torch.int64), zero(dtype), zero(dtype)] for _ in outputs]
    for heads, rows, want, weight in slabs(torch, q, k, v, dtype) if q.numel() else ():
        limit = (weight + want.abs()) * 2 ** -8 + SLACK
        for o, total in zip(outputs, sums):
            error = (o[heads, rows].to(dtype) - want).abs_()
            nan = error.isnan()
            total[0] += (~(error <= limit)).sum()
            total[1] += nan.sum()
            error.masked_fill_(nan, 0)
            total[2] = torch.maximum(total[2], error.max())
            total[3] += (error * error).sum()
    return [[x.item() for x in total] for total in sums]


def run_case(torch, library, modules, case, dtype, tallies):
    """Launches every kernel REPEATS times on the same inputs and compares what came."""
    b, s, h, kind = case
    q, k, v = inputs(torch, b, s, h, kind)
    stream = torch.cuda.current_stream().cuda_stream
    outputs = {}
    for name, module in modules.items():
        guarded, first, unequal = Guarded(torch, q), None, 0
        launch = library.launcher(module, (q, k, v, guarded.out), stream)
        try:
            for _ in range(REPEATS):
                guarded.clear()
                launch()
                bits = guarded.bits()
                unequal += first is not None and not torch.equal(first, bits)
                first = bits if first is None else first
            torch.cuda.synchronize()
        except RuntimeError as e:
            print(f"{name} B={b} S={s} H={h} {kind}: FAILED: {str(e).splitlines()[0]}", flush=True)
            tallies[name].failed += 1
            continue
        outputs[name] = guarded, unequal
    found = compare(torch, [g.out for g, _ in outputs.values()], q, k, v, dtype)
    for (name, (guarded, unequal)), (wrong, nan, worst, squares) in zip(outputs.items(), found):
        damaged = guarded.damaged()
        tallies[name].add(q.numel(), wrong, nan, damaged, unequal, worst, squares)
        if wrong or damaged or unequal:
            print(f"{name} B={b} S={s} H={h} {kind}: {wrong} of {q.numel()} elements wrong ({nan} NaN), "
                  f"worst error {worst:.3g}; {damaged} guard words changed; {unequal} of {REPEATS - 1} "
                  f"repeats differ", flush=True)


# ---- the emulator -------------------------------------------------------------------------------


def write_npy(path, bits):
    """A .npy file of 16-bit words from an int16 tensor of the host."""
    head = f"{{'descr': '<u2', 'fortran_order': False, 'shape': {tuple(bits.shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()
                     + bits.contiguous().numpy().tobytes())


def read_npy(torch, path):
    data = path.read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    return torch.frombuffer(bytearray(data[start:]), dtype=torch.int16)


def emulate(o, file, options, folder, name):
    words = [f"{o.build}/baton", "run", file, *options, "--device=emu", f"--out=o={folder / name}.npy"]
    words += [f"--arg={t}=bf16:{folder}/{t}.npy" for t in "qkv"]
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return p.returncode, p.stdout


def start_emulator(torch, o, sources, folder):
    """Starts all emulator runs on the other cores; yields them as (case, name, folder, future)."""
    pool = concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 2))
    for b, s, h in EMULATOR:
        place = folder / f"{b}-{s}-{h}"
        place.mkdir()
        for t, x in zip("qkv", inputs(torch, b, s, h, "uniform")):
            write_npy(place / f"{t}.npy", x.view(torch.int16).cpu())
        for number, (name, (file, options)) in enumerate(sources.items()):
            yield (b, s, h), name, place, str(number), pool.submit(emulate, o, file, options, place, str(number))


def same_bits(torch, library, modules, runs, tallies):
    stream = torch.cuda.current_stream().cuda_stream
    for (b, s, h), name, place, stem, future in runs:
        status, text = future.result()
        if status:
            print(f"{name} B={b} S={s} H={h} on the emulator: exit status {status}\n{text}", flush=True)
            tallies[name].failed += 1
            continue
        q, k, v = inputs(torch, b, s, h, "uniform")
        guarded = Guarded(torch, q)
        library.launcher(modules[name], (q, k, v, guarded.out), stream)()
        got, want = guarded.bits().cpu(), read_npy(torch, place / f"{stem}.npy")
        differ = int((got != want).sum()) if got.shape == want.shape else want.numel() + 1
        tallies[name].add(q.numel(), differ, 0, 0, 0, 0.0, 0.0)
        if differ:
            print(f"{name} B={b} S={s} H={h}: {differ} of {q.numel()} elements differ from the "
                  "emulator's", flush=True)


# ---- all of it ----------------------------------------------------------------------------------

COLUMNS = ["part", "kernel", "cases", "elements", "wrong", "nan", "guard", "unequal", "failed", "worst", "rms"]


def rms(t):
    return (t.squares / t.elements) ** 0.5 if t.elements else 0


def rows(part, tallies):
    """Of the record. The emulator's bits are compared, not errors."""
    return [[part, name, t.cases, t.elements, t.wrong, t.nan, t.guard, t.unequal, t.failed,
             *([None, None] if part == "emulator" else [float(f"{t.worst:.3g}"), float(f"{rms(t):.3g}")])]
            for name, t in tallies.items()]


def table(part, tallies, seconds):
    lines = [f"{part + f' ({seconds:.0f} s)':>32} | cases   elements   wrong     NaN   guard unequal failed | "
             "worst error  rms error"]
    for name, t in tallies.items():
        lines.append(f"{name[-32:]:>32} | {t.cases:5d} {t.elements:10d} {t.wrong:7d} {t.nan:7d} {t.guard:7d} "
                     f"{t.unequal:7d} {t.failed:6d} | {t.worst:11.3e} {rms(t):10.3e} {'BAD' if t.bad() else 'ok'}")
    return lines


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernel", default=",".join(map(str, sorted(ROOT.glob("kernels/attention/*.co")))))
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--large", default="4096,8192,16384", help="lengths; empty for none")
    options.add_argument("--parts", default="odd,large,emulator")
    options.add_argument("--fp32", action="store_true", help="reference in fp32 instead of fp64")
    record.option(options)
    o = options.parse_args()
    folder, parts = Path(tempfile.mkdtemp()), o.parts.split(",")
    compiled = kernels(o.kernel, o.build, folder)
    items = [i.split() for i in o.kernel.split(",") if i.strip()]
    sources = {n: (i[0], i[1:]) for n, i in zip(compiled, items) if i[0].endswith(".co")}
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    library = Library(f"{o.build}/libbaton.so")
    modules = {name: library.load(ptx) for name, ptx in compiled.items()}
    dtype = torch.float32 if o.fp32 else torch.float64
    runs = list(start_emulator(torch, o, sources, folder)) if "emulator" in parts else []
    cases = {"odd": ODD, "large": [(4, int(s), 32, "uniform") for s in o.large.split(",") if s]}
    lines, bad, made = [], False, []
    for part in parts:
        tallies, started = {name: Tally() for name in modules}, time.monotonic()
        for case in cases.get(part, ()):
            run_case(torch, library, modules, case, dtype, tallies)
            torch.cuda.empty_cache()
        if part == "emulator":
            tallies = {name: tallies[name] for name in sources}
            same_bits(torch, library, modules, runs, tallies)
        lines += table(part, tallies, time.monotonic() - started)
        made += rows(part, tallies)
        bad |= any(t.bad() or not t.cases for t in tallies.values())
        print("\n".join(lines[-1 - len(tallies):]), flush=True)
    lines.append("WRONG" if bad else "every element is right")
    print(lines[-1])
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], "verify_attention.txt").write_text("\n".join(lines) + "\n")
    if o.record:
        record.write(o.record, [record.table(COLUMNS, made, title="every element of causal attention")],
                     record.versions(o.build, torch))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
