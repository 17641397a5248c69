#!/usr/bin/env python3
"""The state correction of the gated delta rule: variants of one kernel, in one process on one GPU.

    make && python3 tools/bench_correct.py [--quick] [--kernel kernels/gdn/correct.co -D NAME=VALUE ..]

One sequence of T tokens and H heads, cut into segments as context parallelism does it: chunks of 64
tokens, L = max(4, 2^round(log2(3 sqrt(H chunks / 132)))) of them a segment. Forward has 16-bit states
(bf16), reverse f32 states, the propagation matrix is bf16 in both (--matrix f32: f32 in reverse);
raw states are given, results are f32. `falls`: percent of the heads whose segments all fall back, so
that their matrices are loaded and multiplied; the others only hand states on.

Variants: `sequential` (--no-specialise), and the specialised kernel with the handoff policies `proxy`,
`delay`, `membar`, `none`. What this compiler or kernel does not have is named and left out. Others
are added with --variant "NAME=options of baton build", or "NAME=FILE.co options". `delay` needs ptxas;
where the GPU is without one, --code DIR --build-only makes all code before, and --code DIR finds it there.

Times are microseconds a launch: a CUDA graph of 16 launches between two events is one sample, a round is
the median of 15 samples, and the table has the median of 5 rounds with their range; rounds of the variants take
turns. Nothing empties the L2 cache between launches. GB/s: bytes that must be moved once (states,
results, and matrices of heads that fall back) over that time.

Correctness is of the very output that was timed: it is filled with NaN in front of each round and compared with
a chain in fp64 behind it, every element: |error| <= 0.02 (forward), 0.005 (reverse), which is what rounding can
do at most (docs/notes/gdn-correct.md; the kernel's contract has the same inputs). A wrong element of a head
that does not fall back is compared with what the slot held next: the state as many segments further on as the ring has slots.
A sound variant that is wrong ends the run with status 1; `membar` and `none` are unsound, and may be wrong.

Needs PyTorch with CUDA. Tables go to standard output and, with all samples, to the folder $OUT when it is set."""
import argparse, json, math, os, shlex, statistics, subprocess, sys, tempfile
from pathlib import Path

import record
from library import ROOT, Library

DIM, SLICES, SMS = 128, 4, 132
LAUNCHES, SAMPLES, ROUNDS = 16, 15, 5
VARIANTS = {"sequential": "--no-specialise", "proxy": "--handoff=proxy", "membar": "--handoff=membar --unsafe",
            "delay": "--handoff=delay -D EARLY=0"}
UNSOUND = ("membar", "none")


def slots(o, case):
    """Of the kernel's rings: so many segments further on is a slot's next generation."""
    return o.stages or (2 if case["matrix"] == "f32" else 4 if case["vk"] or case["reverse"] else 3)


def segments(tokens, heads):
    """(segments, chunks of a segment) of one sequence."""
    chunks = -(-tokens // 64)
    length = max(4, 2 ** round(math.log2(3 * math.sqrt(heads * chunks / SMS))))
    return -(-chunks // length) if chunks > length else 1, length


def traffic(case, count):
    """Bytes that one launch must move, each once."""
    state, matrix = (2, 2) if not case["reverse"] else (4, case["matrix_bytes"])
    element = DIM * DIM * case["heads"]
    return (count * 4 + (count - 1) * state + 4 + (count - 1) * matrix * case["falls"] / 100) * element


def build(o, case, folder):
    """Name -> code of the variants that exist, and what is said about the others. `delay` is
    machine code, since it holds for nothing else. What --code has is taken as it is."""
    defines = ["-D", f"REVERSE={case['reverse']}", "-D", f"VK={case['vk']}", "-D", f"TF32={case['reverse']}",
               "-D", f"MATRIX={case['matrix']}"] + (["-D", f"STAGES={o.stages}"] if o.stages else [])
    made, notes = {}, []
    chosen = {name: VARIANTS[name] for name in o.variants.split(",") if name in VARIANTS}
    chosen |= dict(v.split("=", 1) for v in o.variant)
    if "none" in o.variants.split(","):
        chosen["none"] = "--handoff=none --unsafe"
    for name, options in chosen.items():
        words = shlex.split(options)
        file, *rest = words if words and words[0].endswith(".co") else shlex.split(o.kernel) + words
        form = "cubin" if "--handoff=delay" in words else "ptx"
        key = f"{name}-{'reverse' if case['reverse'] else 'forward'}-{'vk' if case['vk'] else 'kv'}-{case['matrix']}"
        ptx = folder / f"{key}-{o.stages or 'own'}.{form}"
        if ptx.exists():
            made[name] = ptx
            continue
        p = subprocess.run([f"{o.build}/baton", "build", file, *rest, *defines, "-o", str(ptx)],
                           capture_output=True, text=True)
        if p.returncode:
            notes.append(f"{name} is missing: {(p.stderr or p.stdout).strip().splitlines()[0]}")
        else:
            made[name] = ptx
    return made, notes


def inputs(torch, case, count):
    g = torch.Generator("cuda").manual_seed(count * 100 + case["heads"])
    heads = case["heads"]
    def uniform(shape, a):
        return (torch.rand(*shape, generator=g, device="cuda") * 2 - 1) * a
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    ends = uniform((count, heads, DIM, DIM), 1).to(torch.float32 if case["reverse"] else torch.bfloat16)
    matrix = uniform((count, heads, DIM, DIM), 1 / 32).to(types[case["matrix"]])
    raw = uniform((1, heads, DIM, DIM), 1)
    falling = torch.randperm(heads, generator=torch.Generator().manual_seed(42))[:heads * case["falls"] // 100]
    fallback = torch.zeros(count, heads, dtype=torch.uint8)
    fallback[:, falling] = 1
    offsets = torch.tensor([0, count], dtype=torch.int32)
    return ends, matrix, fallback.cuda(), offsets.cuda(), raw


def reference(torch, case, ends, matrix, fallback, offsets, raw):
    """The chain in fp64, [segments, heads, DIM, DIM] in the layout of the states."""
    want, h = torch.empty(ends.shape, dtype=torch.float64, device="cuda"), raw[0].double()
    order = range(len(ends))
    for s in reversed(order) if case["reverse"] else order:
        want[s] = h
        m = matrix[s].double()
        m = m.transpose(1, 2) if case["reverse"] else m
        product = h @ m.transpose(1, 2) if case["vk"] else m @ h
        h = ends[s].double() + product * fallback[s].double()[:, None, None]
    return want


class Judge:
    """Compares outputs with the reference, and counts wrong elements that are a slot's next contents."""

    def __init__(self, torch, case, tensors, slots):
        self.case, self.ends, self.fallback, self.slots = case, tensors[0], tensors[2], slots
        self.want = reference(torch, case, *tensors)
        self.allowed = 0.005 if case["reverse"] else 0.02

    def __call__(self, out):
        """(wrong elements, of them the slot's next generation, worst error)."""
        error = (out.double() - self.want).abs()
        bad = ~(error <= self.allowed)
        wrong = int(bad.sum())
        next_ones = 0
        if wrong:  # element s of a chain is made of ends of the segment walked before it
            back = -1 if self.case["reverse"] else 1
            n = len(self.ends)
            for s in range(n):
                source = s - back + self.slots * back
                if 0 <= source < n and 0 <= s - back < n:
                    same = (out[s].double() - self.ends[source].double()).abs() < 1e-6
                    kept = self.fallback[s - back] == 0
                    next_ones += int((bad[s] & same & kept[:, None, None]).sum())
        worst = float(error.nan_to_num(math.inf).max())
        return wrong, next_ones, worst


def measure(torch, o, library, made, tensors, judge, notes, label):
    """Name -> {"rounds": medians, "samples": .., "wrong": .., "next": .., "worst": ..}."""
    graphs, results = {}, {}
    for name, ptx in made.items():
        out = torch.full(tensors[0].shape, torch.nan, dtype=torch.float32, device="cuda")
        side = torch.cuda.Stream()
        try:
            module = library.load(ptx)
            launch = library.launcher(module, (*tensors, out), side.cuda_stream)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                launch()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                for _ in range(LAUNCHES):
                    launch()
        except RuntimeError as e:
            notes.append(f"{label} {name} FAILED: {e}")
            continue
        graphs[name] = (graph, out, launch)
        results[name] = {"rounds": [], "samples": [], "wrong": 0, "next": 0, "worst": 0.0}
    for r in range(o.rounds):
        names = list(graphs)
        k = r % max(1, len(names))
        for name in names[k:] + names[:k]:
            graph, out, _ = graphs[name]
            out.fill_(torch.nan)
            for _ in range(3):
                graph.replay()
            marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                     for _ in range(SAMPLES)]
            for start, stop in marks:
                start.record()
                graph.replay()
                stop.record()
            torch.cuda.synchronize()
            times = [start.elapsed_time(stop) * 1000 / LAUNCHES for start, stop in marks]
            wrong, next_ones, worst = judge(out)
            result = results[name]
            result["samples"].append(times)
            result["rounds"].append(statistics.median(times))
            result["wrong"] += wrong
            result["next"] += next_ones
            result["worst"] = max(result["worst"], worst)
    return results


COLUMNS = ["tokens", "heads", "segments", "layout", "direction", "falls:%", "matrix", "variant", "median:us",
           "low:us", "high:us", "gain:%", "wrong", "worst"]


def gain(results, rounds):
    """Percent that a variant takes less than the sequential one; None without that one."""
    first = results.get("sequential")
    return first and 100 * (1 - statistics.median(rounds) / statistics.median(first["rounds"]))


def rows(case, count, results):
    """Of the record."""
    return [[case["tokens"], case["heads"], count, "vk" if case["vk"] else "kv",
             "reverse" if case["reverse"] else "forward", case["falls"], case["matrix"], name,
             statistics.median(r["rounds"]), min(r["rounds"]), max(r["rounds"]), gain(results, r["rounds"]),
             r["wrong"], r["worst"]] for name, r in results.items()]


def table(case, count, length, results):
    """Lines, and the names of sound variants that were wrong."""
    lines, failed = [], []
    for name, r in results.items():
        us, percent = statistics.median(r["rounds"]), gain(results, r["rounds"])
        less = " " * 7 if percent is None else f"{percent:+6.1f}%"
        verdict = f"worst error {r['worst']:.1e}"
        if r["wrong"]:
            verdict = f"WRONG: {r['wrong']} elements in {len(r['rounds'])} rounds, {r['next']} of them the slot's next"
            if name not in UNSOUND:
                failed.append(name)
        lines.append(f"  {name:24s} {us:8.3f} ({min(r['rounds']):.3f} to {max(r['rounds']):.3f}) {less} "
                     f"{traffic(case, count) / us / 1e3:7.0f} GB/s  {verdict}")
    return lines, failed


def cases(o):
    sizes = [(32768, 32)] if o.quick else [(32768, 32)] + [(t, h) for t in (4096, 8192) for h in (4, 16, 32)]
    if o.sizes:
        sizes = [tuple(int(x) for x in s.split("x")) for s in o.sizes.split(",")]
    for tokens, heads in sizes:
        for falls in [int(f) for f in o.falls.split(",")]:
            for reverse in (0, 1):
                for vk in (0, 1):
                    matrix = o.matrix if reverse else "bf16"
                    yield {"tokens": tokens, "heads": heads, "falls": falls, "reverse": reverse, "vk": vk,
                           "matrix": matrix, "matrix_bytes": 4 if matrix == "f32" else 2}


def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernel", default=str(ROOT / "kernels/gdn/correct.co"))
    options.add_argument("--build", default=str(ROOT / "build"), help="folder of baton and libbaton.so")
    options.add_argument("--variants", default="sequential,proxy,membar,delay")
    options.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS")
    options.add_argument("--sizes", help="tokens x heads, such as 32768x32,4096x4")
    options.add_argument("--falls", default="25,100", help="percent of the heads that fall back")
    options.add_argument("--matrix", choices=("bf16", "f32"), default="bf16", help="in reverse")
    options.add_argument("--stages", type=int, help="slots of the rings; the kernel's own when not given")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--quick", action="store_true", help="32768x32 alone")
    options.add_argument("--code", type=Path, help="folder with the code of the variants; made where it is missing")
    options.add_argument("--build-only", action="store_true", help="fill --code, needs no GPU")
    record.option(options)
    return options.parse_args()


def main():
    o = parse_options()
    folder = o.code or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if o.build_only:
        said = {n for case in cases(o) for n in build(o, case, folder)[1]}
        print("\n".join(sorted(said) + sorted(str(f) for f in folder.iterdir())))
        return 0
    import torch
    torch.cuda.init()
    library = Library(f"{o.build}/libbaton.so")
    name = torch.cuda.get_device_properties(0).name
    lines = [f"{name}, PyTorch {torch.__version__}; us a launch: median of {o.rounds} rounds (range), a round is the "
             f"median of {SAMPLES} graphs of {LAUNCHES} launches; % less than sequential"]
    print(lines[0], flush=True)
    notes, raw, made, failed, built = [], [], [], False, {}
    for case in cases(o):
        key = (case["reverse"], case["vk"], case["matrix"])
        if key not in built:
            built[key], said = build(o, case, folder)
            notes += [n for n in said if n not in notes]
        count, length = segments(case["tokens"], case["heads"])
        label = (f"{case['tokens']} tokens, {case['heads']} heads, {count} segments of {length} chunks, "
                 f"{'reverse f32/' + case['matrix'] if case['reverse'] else 'forward bf16'} "
                 f"{'vk' if case['vk'] else 'kv'}, {case['falls']}% fall back")
        tensors = inputs(torch, case, count)
        results = measure(torch, o, library, built[key], tensors, Judge(torch, case, tensors, slots(o, case)),
                          notes, label)
        text, wrong = table(case, count, length, results)
        notes += [f"{label}: {w} is WRONG" for w in wrong]
        failed |= bool(wrong) or len(results) < len(built[key])
        print("\n".join([label] + text), flush=True)
        lines += [label] + text
        made += rows(case, count, results)
        raw.append({"case": case, "segments": count, "results": results})
        torch.cuda.empty_cache()
    print("\n".join(notes))
    if os.environ.get("OUT"):
        out = Path(os.environ["OUT"])
        (out / "bench_correct.txt").write_text("\n".join(lines + notes) + "\n")
        (out / "bench_correct.json").write_text(json.dumps(raw))
    if o.record:
        written = record.table(COLUMNS, made, title="state correction, one sequence cut into segments", notes=notes)
        record.write(o.record, [written], record.versions(o.build, torch))
    return int(failed or not raw or not any(r["results"] for r in raw))


if __name__ == "__main__":
    sys.exit(main())
