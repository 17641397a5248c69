"""`peers.py --try`: every backend of an operation on a GPU, through the requests that baton makes.

Random inputs; sampled rows of the results are compared with f32 arithmetic (no TF32); 20 samples by
events, by graph and with a cold cache. Prints a table, and why what is missing is missing. Status
1: a backend that can be used failed, or was wrong."""
import json
import math
import os
import shutil
import statistics
import tempfile
import time

import peers as protocol

LIMIT_S = 60  # for a backend that may hang
TURN = {"repeat": 20, "warmup": 10, "load_s": 0.3}
TURNS = {"event": {"method": "event"}, "graph": {"method": "graph", "group": 0},
         "cold": {"method": "event", "cold_bytes": 160 << 20}}
# (label, sizes, flags), the important ones first: time may end.
ATTENTION = [("B=4 H=32 S=4096 causal", (4, 4096, 32, 128), {"causal": True}),
             ("B=1 H=2 S=512 causal", (1, 512, 2, 128), {"causal": True}),
             ("B=4 H=32 S=4096", (4, 4096, 32, 128), {"causal": False}),
             ("B=1 H=2 S=512", (1, 512, 2, 128), {"causal": False}),
             ("B=2 H=3 S=1000 causal", (2, 1000, 3, 128), {"causal": True}),
             ("B=2 H=3 S=1000", (2, 1000, 3, 128), {"causal": False})]
GEMM = [(f"M=N=K={n}", (n, n, n), {}) for n in (4096, 512)]


class Case:
    """Inputs in files, and what the result's sampled rows must be near."""

    def __init__(self, torch, op, sizes, flags, folder):
        self.torch, self.op, self.flags, self.folder = torch, op, flags, folder
        g = torch.Generator("cuda").manual_seed(1)
        def uniform(shape, a):
            return ((torch.rand(*shape, generator=g, device="cuda") * 2 - 1) * a).bfloat16()
        if op == "attention":
            self.tensors = {n: uniform(sizes, a) for n, a in (("q", 2), ("k", 2), ("v", 1))}
            self.result, self.dim = "o", sizes
            self.flops = 4 * sizes[0] * sizes[2] * sizes[1] ** 2 * sizes[3] / (1 + flags["causal"])
        else:
            m, n, k = sizes
            self.tensors = {"a": uniform((m, k), 1), "b": uniform((n, k), 1)}
            self.result, self.dim, self.flops = "c", (m, n), 2 * m * n * k

    def request(self):
        described = []
        for name, t in self.tensors.items():
            path = os.path.join(self.folder, name + ".raw")
            data = t.reshape(-1).view(self.torch.uint8)
            file = protocol.map_file(path, data.numel(), write=True)
            self.torch.frombuffer(file, dtype=self.torch.uint8).copy_(data)
            described.append({"name": name, "type": "bf16", "dim": list(t.shape), "file": path})
        return {"do": "open", "op": self.op, **self.flags, "tensors": described,
                "result": {"name": self.result, "type": "bf16", "dim": list(self.dim)}}

    def error(self, path):
        """(largest error, all right?) of sampled rows: |error| <= 0.05 + 0.1 |reference|."""
        torch = self.torch
        file = protocol.map_file(path, math.prod(self.dim) * 2)
        got = torch.frombuffer(file, dtype=torch.uint8).cuda().view(torch.bfloat16)
        got = got.reshape(self.dim)
        count = self.dim[1] if self.op == "attention" else self.dim[0]
        rows = torch.tensor(sorted({0, 1, 63, 64, 127, 128, count // 2, count - 65, count - 1}),
                            device="cuda")
        worst, good = 0.0, True
        for part, want in self.wanted(rows):
            error = (got[part].float() - want).abs()
            good = good and bool((error <= 0.05 + 0.1 * want.abs()).all())  # false for NaN
            worst = max(worst, float(error.nan_to_num(math.inf).max()))
        return worst, good

    def wanted(self, rows):
        """(index into the result, f32 values) of the sampled rows."""
        if self.op == "gemm":
            yield rows, self.tensors["a"][rows].float() @ self.tensors["b"].float().t()
            return
        q, k, v = (self.tensors[n] for n in "qkv")
        keys = self.torch.arange(k.shape[1], device="cuda")
        for b in range(q.shape[0]):
            s = q[b, rows].float().transpose(0, 1) @ k[b].float().permute(1, 2, 0)
            s = s * q.shape[3] ** -0.5
            if self.flags["causal"]:
                s = s.masked_fill(keys[None, :] > rows[:, None], -math.inf)
            p = self.torch.softmax(s, -1)
            yield (b, rows), (p @ v[b].float().transpose(0, 1)).transpose(0, 1)


def measure(peers, case, name):
    """(columns of the table, lines about it, failed?)."""
    def ask(**request):
        return protocol.respond(peers, json.dumps(request))
    path = os.path.join(case.folder, "result.raw")
    print(f"      {name} ...", flush=True)
    prepared = ask(do="prepare", backend=name, limit_s=LIMIT_S)
    if not prepared["ok"]:
        return [prepared["kind"]], [f"{name}: {prepared['why']}"], prepared["kind"] != "missing"
    given = ask(do="result", backend=name, file=path)
    if not given["ok"]:
        return [given["kind"]], [f"{name}: {given['why']}"], True
    worst, good = case.error(path)
    columns = [("right" if good else "WRONG") + f" {worst:.1e}"]
    lines, failed = [f"{name}: {prepared['label']}; {prepared['proof']}"], not good
    for way, order in TURNS.items():
        turn = ask(do="turn", backend=name, **TURN, **order)
        if not turn["ok"]:
            columns.append(turn["kind"])
            lines.append(f"{name} by {way}: {turn['why']}")
            failed = True
            continue
        ms = statistics.median(turn["ms"])
        columns.append(f"{ms:.4f}" + ("!" if turn["host_bound"] else ""))
        if way == "graph":
            columns += [f"{case.flops / ms / 1e9:.0f}", str(turn["group"])]
    columns += [f"{prepared[k]:.0f}" for k in ("compile_ms", "convert_ms", "first_ms")]
    return columns, lines, failed


def line_of(columns):
    return "".join(f"{c:>16}" if i < 2 else f"{c:>10}" for i, c in enumerate(columns))


def run(options, until, peers):
    op = options.op
    hello = protocol.respond(peers, '{"do": "hello"}')
    if not hello["ok"]:
        print(hello["why"])
        return 1
    print(" ".join(filter(None, [hello["device"]["name"]])) or "no GPU", "|",
          ", ".join(f"{n} {v}" for n, v in hello["versions"].items()))
    mine = [n for n, o in hello["operations"].items() if o == op]
    for name in mine:
        print(f"  {name:10} {hello['backends'][name] or 'can be used'}")
    usable = [n for n in mine if not hello["backends"][n]
              and (not options.only or n in options.only.split(","))]
    usable.sort(key=["triton_ws"].count)  # what has hung before comes last
    if not usable:
        return 1
    print("ms of a launch, medians of 20; TFLOPS of the graph; ! the host was not ahead\n"
          + line_of(["", "result", "event", "graph", "TFLOPS", "group", "cold", "compile",
                     "convert", "first"]))
    failed, said = False, set()
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        for label, sizes, flags in (ATTENTION if op == "attention" else GEMM)[:options.cases]:
            if time.monotonic() > until:
                print(f"{label}: left out, no time")
                continue
            case = Case(peers.torch, op, sizes, flags, folder)
            opened = protocol.respond(peers, json.dumps(case.request()))
            print(f"{label}" + ("" if opened["ok"] else f": {opened['why']}"), flush=True)
            failed |= not opened["ok"]
            for name in usable if opened["ok"] else []:
                columns, lines, bad = measure(peers, case, name)
                failed |= bad
                print(line_of([name] + columns))
                for line in lines:
                    if line not in said:
                        print("      " + line, flush=True)
                said.update(lines)
    finally:
        shutil.rmtree(folder)
    print("FAILED" if failed else "all right")
    return int(failed)
