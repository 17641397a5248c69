#!/usr/bin/env python3
"""Other implementations of baton's operations, prepared and timed on request: the process that
`baton bench` starts for its peers (cuDNN, FlashAttention, Triton, ...: the table in backends.py).

    python3 bench/peers.py                    answers requests on standard input, as below
    python3 bench/peers.py --try attention    a test of itself on a GPU, for people: what is there,
                                              is it right, how fast about (or --try gemm)

One JSON object a line, UTF-8, both ways; each request gets exactly one answer. What libraries print
goes to standard error. The process ends after `bye`, or at the end of its input. An answer is
{"ok": true, ...} or {"ok": false, "kind": .., "why": "one sentence"}, kind being
    missing     the backend, or a module it needs, is not there
    wrong_use   the request makes no sense (here, or after what came before)
    failed      the library raised; `why` is the first line of what it said
    degraded    it ran, but not as what its name says (no specialised warps, other kernels)

hello    {"do": "hello", "gpu": 0}
      -> "versions": {"Python": "3.12.3", "PyTorch": ..}, "backends": {"cudnn": "", "fa3": "no
         module flash_attn_interface"} ("": can be used), "operations": {"cudnn": "attention", ..},
         "device": {"name", "uuid", "pci"} ("" where not known)
open     {"do": "open", "op": "attention", "causal": true, "sizes": {"B": 4, ..},
          "tensors": [{"name": "q", "type": "bf16", "dim": [4, 4096, 32, 128], "file": PATH}, ..],
          "result": {"name": "o", "type": "bf16", "dim": [..]}}
         Files are dense, row-major, little-endian, and removed once this is answered. They are
         copied to the GPU: what is checked and what is timed are these tensors. Drops what the last
         open held. The operations:
         attention   q, k, v [B, S, H, D] -> o the same;  flag causal (false when left out)
         gemm        a [M, K], b [N, K] -> c = a b^T [M, N]
         correct     as kernels/gdn/correct.co;  flags reverse, vk (false when left out)
prepare  {"do": "prepare", "backend": "cudnn"}
         What may hang is tried in a process of its own first, for "limit_s" (90) at most.
      -> "compile_ms": compiling and tuning, "convert_ms": its own copies of the inputs, "first_ms":
         the first call until done, from the host's view; "label" for tables, "proof": what shows
         that it is what its name says, "source", "code": SHA-256 of a kernel of ours and of what
         was made of it, or ""
result   {"do": "result", "backend": "cudnn", "file": PATH}
         One call of what is timed, into an output that was filled with NaN before (or into a new
         one where the library gives one), written in the layout of the open's "result".
turn     {"do": "turn", "backend": "cudnn", "warmup": 50, "load_s": 2.0, "idle_s": 0, "repeat": 200,
          "group": 1, "method": "event" | "graph", "cold_bytes": 0, "min_s": 0.0}
      -> "ms": one launch of each sample, "group", "host_ms": to queue the samples, "host_bound":
         the host was not ahead, "load_ms", "t0", "t1", "t2": CLOCK_MONOTONIC in ms at the begin and
         the end of the samples and at the end of everything
         Synchronises; sleeps idle_s; launches at least `warmup` times and for at least load_s;
         takes `repeat` samples of `group` launches with a mark between neighbours; launches on
         until min_s seconds after the first sample began. group 0: the fewest that take 0.2 ms
         together. graph: a sample is one replay of a graph of `group` launches. cold_bytes: so many
         bytes are overwritten before each launch, outside its time; the group is then 1, and graph
         is refused.
bye      {"do": "bye"}
"""
import argparse
import gc
import json
import math
import mmap
import os
import platform
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backends
import graph_nodes
import timing
from backends import Refused, first_line


def map_file(path, size, write=False):
    """The file's bytes, which must be `size`; None when that is 0. A written file is made anew."""
    if write:
        with open(path, "wb") as f:
            f.truncate(size)
    elif os.path.getsize(path) != size:
        raise Refused("wrong_use", f"{path} has {os.path.getsize(path)} bytes, its tensor {size}")
    if size == 0:
        return None
    with open(path, "r+b" if write else "rb") as f:
        return mmap.mmap(f.fileno(), size, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_COPY)


def number(request, key, default, least=0):
    """A finite number of the request, of the default's type."""
    value = request.get(key, default)
    kinds = (int,) if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < math.inf:
        what = "an integer" if kinds == (int,) else "a number"
        raise Refused("wrong_use", f"{key} is {value!r}, it must be {what} from {least} on")
    return type(default)(value)


def text(request, key):
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise Refused("wrong_use", f"{request.get('do')} needs {key}")
    return value


def repeated(call, times):
    def unit():
        for _ in range(times):
            call()
    return call if times == 1 else unit


class Peers:
    """What lives between requests: the open job, and what was prepared for it."""

    def __init__(self):
        self.torch = self.job = self.flushing = None
        self.prepared = {}  # name -> Prepared

    def answer(self, request):
        requests = {"hello": self.hello, "open": self.open, "prepare": self.prepare,
                    "result": self.result, "turn": self.turn, "bye": lambda r: {}}
        if not isinstance(request, dict) or request.get("do") not in requests:
            raise Refused("wrong_use", "a request is an object whose `do` is one of "
                                       + ", ".join(requests))
        return requests[request["do"]](request)

    # ---- requests ----

    def hello(self, request):
        gpu = number(request, "gpu", 0)
        device = {"name": "", "uuid": "", "pci": ""}
        try:
            import torch
        except Exception:
            torch = None
        if torch and torch.cuda.is_available():
            if gpu >= torch.cuda.device_count():
                raise Refused("wrong_use", f"there is no GPU {gpu}, PyTorch sees "
                                           f"{torch.cuda.device_count()}")
            torch.cuda.set_device(gpu)
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            self.torch = torch
            p = torch.cuda.get_device_properties(gpu)
            device = {"name": p.name, "uuid": str(getattr(p, "uuid", "")), "pci": ""}
            if hasattr(p, "pci_bus_id"):
                device["pci"] = f"{p.pci_domain_id:08x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0"
        return {"versions": {"Python": platform.python_version()} | backends.versions(),
                "backends": {b.name: b.why() for b in backends.BACKENDS},
                "operations": {b.name: b.op for b in backends.BACKENDS}, "device": device}

    def open(self, request):
        self.drop()
        torch = self.torch
        if torch is None:
            raise Refused("missing", "PyTorch with a GPU is not there, or hello was not asked")
        op = text(request, "op")
        if op not in {b.op for b in backends.BACKENDS}:
            raise Refused("wrong_use", f"no backend knows the operation {op}")
        tensors = {}
        for t in request.get("tensors", []):
            kind, dim, size = self.shape_of(t)
            data = map_file(text(t, "file"), size)
            flat = torch.frombuffer(data, dtype=torch.uint8).cuda() if data else \
                torch.empty(0, dtype=torch.uint8, device="cuda")
            tensors[text(t, "name")] = flat.view(kind).reshape(dim)
        result = request.get("result") or {}
        self.shape_of(result)
        torch.cuda.synchronize()
        flags = {k: request.get(k) for k in ("causal", "reverse", "vk")}
        self.job = backends.Job(torch, op, flags, tensors,
                                (result.get("name", ""), result["type"], result["dim"]))
        return {}

    def prepare(self, request):
        row = self.row(request)
        why = row.why()
        if why:
            raise Refused("missing", why)
        self.prepared.pop(row.name, None)
        torch = self.torch
        tried = self.probe(row, number(request, "limit_s", 90.0)) if row.probed else {}
        p = row.prepare(self.job)
        p.compile_ms += tried.get("compile_ms", 0.0)
        _, first_ms = backends.timed(torch, p.call)
        self.prove(p)
        p.host_ms = timing.host_cost(torch, p.call)
        p.launch_ms = timing.device_cost(torch, p.call, p.host_ms)
        self.prepared[row.name] = p
        return {"compile_ms": p.compile_ms, "convert_ms": p.convert_ms, "first_ms": first_ms,
                "label": p.label, "proof": p.proof, "source": p.source, "code": p.code}

    def result(self, request):
        p, torch = self.ready(request), self.torch
        if p.out is not None:
            p.out.fill_(math.nan)
        out = p.shape(p.call())
        torch.cuda.synchronize()
        _, kind, dim = self.job.result
        wanted = getattr(torch, backends.TYPES[kind])
        if list(out.shape) != dim or out.dtype != wanted:
            raise Refused("failed", f"it gives {out.dtype} {list(out.shape)}, "
                                    f"wanted is {wanted} {dim}")
        data = out.contiguous().reshape(-1).view(torch.uint8)
        file = map_file(text(request, "file"), data.numel(), write=True)
        if file is not None:
            torch.frombuffer(file, dtype=torch.uint8).copy_(data)
            file.flush()
        return {}

    def turn(self, request):
        method = request.get("method", "event")
        cold, group = number(request, "cold_bytes", 0), number(request, "group", 1)
        repeat = number(request, "repeat", 200, least=1)
        waits = {k: number(request, k, 0.0) for k in ("load_s", "idle_s", "min_s")}
        warmup = number(request, "warmup", 0)
        if method not in ("event", "graph"):
            raise Refused("wrong_use", f"method is {method!r}, it must be event or graph")
        if cold and method == "graph":
            raise Refused("wrong_use", "cold_bytes and graph: nothing can be overwritten between "
                                       "the launches of a graph outside their time")
        p = self.ready(request)
        if method == "graph":
            turn = self.graph(p, group or timing.smallest_group(self.graph_ms(p)))
        else:
            group = 1 if cold else group or timing.smallest_group(p.launch_ms)
            turn = timing.Turn(self.torch, repeated(p.call, group), group, p.host_ms * group,
                               p.launch_ms * group)
        return turn.run(repeat, warmup, flush=self.flusher(cold), **waits)

    # ---- helpers ----

    def probe(self, row, limit_s):
        """Prepares the backend in another process; its answer, or Refused. Inputs there are zeros,
        but for integers, which may say how long a loop is."""
        request = {"backend": row.name, "op": self.job.op, "flags": self.job.flags,
                   "gpu": self.torch.cuda.current_device(), "result": self.job.result,
                   "tensors": {n: [str(t.dtype).rpartition(".")[2], list(t.shape),
                                   [] if t.is_floating_point() else t.reshape(-1).tolist()]
                               for n, t in self.job.tensors.items()}}
        self.torch.cuda.synchronize()
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--probe"], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            said, _ = child.communicate(json.dumps(request), timeout=limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise Refused("failed", f"it did not come back within {limit_s:g} s: it hangs, "
                                    "compiling or on the GPU") from None
        if not said:
            raise Refused("failed", f"its process ended with status {child.returncode}")
        answer = json.loads(said)
        if not answer["ok"]:
            raise Refused(answer["kind"], answer["why"])
        return answer

    def drop(self):
        self.job, self.flushing = None, None
        self.prepared.clear()
        gc.collect()
        if self.torch:
            self.torch.cuda.empty_cache()

    def shape_of(self, t):
        """(PyTorch's type, dim, bytes) of a tensor in a request."""
        kind, dim = t.get("type"), t.get("dim")
        if kind not in backends.TYPES:
            raise Refused("wrong_use",
                          f"the type {kind!r} is not among {', '.join(backends.TYPES)}")
        if not isinstance(dim, list) or not all(type(d) is int and d >= 0 for d in dim):
            raise Refused("wrong_use", f"dim {dim!r} is not a list of sizes")
        dtype = getattr(self.torch, backends.TYPES[kind])
        return dtype, dim, math.prod(dim) * dtype.itemsize

    def row(self, request):
        name = text(request, "backend")
        rows = [b for b in backends.BACKENDS if b.name == name]
        if not rows:
            raise Refused("missing", f"there is no backend {name}; there are "
                                     + ", ".join(b.name for b in backends.BACKENDS))
        if self.job is None:
            raise Refused("wrong_use", f"{request['do']} before open")
        if rows[0].op != self.job.op:
            raise Refused("wrong_use", f"{name} computes {rows[0].op}, not {self.job.op}")
        return rows[0]

    def ready(self, request):
        row = self.row(request)
        if row.name not in self.prepared:
            raise Refused("wrong_use", f"{row.name} was not prepared")
        return self.prepared[row.name]

    def prove(self, p):
        """Compares the kernels that a call launches with what the backend's name promises."""
        try:
            kernels = graph_nodes.kernels_of(self.torch, p.call)
        except (AttributeError, OSError, RuntimeError, TypeError) as e:  # driver or PyTorch too old
            p.proof = "; ".join(filter(None, [p.proof, f"kernels not read: {first_line(e)}"]))
            return
        p.proof = "; ".join(filter(None, [p.proof, "launches " + ", ".join(map(str, kernels))]))
        mine = [k for k in kernels if p.kernel.lower() in k.name.lower()]
        if not mine:
            raise Refused("degraded",
                          f"no kernel with {p.kernel} in its name was launched: {p.proof}")
        if p.threads and all(k.threads != p.threads for k in mine):
            raise Refused("degraded", f"blocks of {p.threads} threads were compiled: {p.proof}")

    def graph(self, p, group):
        """Turns of replays of a graph of `group` launches, which is captured once."""
        if group not in p.graphs:
            replay = timing.capture(self.torch, p.call, group).replay
            host_ms = timing.host_cost(self.torch, replay)
            p.graphs[group] = timing.Turn(self.torch, replay, group, host_ms,
                                          timing.device_cost(self.torch, replay, host_ms))
        return p.graphs[group]

    def graph_ms(self, p):
        """One launch in a graph, about: there are smaller gaps between them than in a stream."""
        turn = self.graph(p, timing.smallest_group(p.launch_ms))
        return turn.device_ms / turn.group

    def flusher(self, size):
        """A function that overwrites `size` bytes; None for 0."""
        if not size:
            return None
        if self.flushing is None or self.flushing.numel() != size:
            self.flushing = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        return self.flushing.zero_


def respond(peers, line):
    """The answer to one line, whatever happens."""
    return guarded(lambda: {"ok": True} | peers.answer(json.loads(line)))


def guarded(work):
    """What work() gives, or the answer that says why not."""
    try:
        return work()
    except Refused as e:
        return {"ok": False, "kind": e.kind, "why": str(e)}
    except json.JSONDecodeError as e:
        return {"ok": False, "kind": "wrong_use", "why": f"not JSON: {e}"}
    except (Exception, SystemExit) as e:  # a library's: it must not end the process
        return {"ok": False, "kind": "failed", "why": first_line(e)}


def private_output():
    """Standard output for answers alone; what anything else prints goes to standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return answers


def serve():
    answers, peers = private_output(), Peers()
    for line in sys.stdin:
        if not line.strip():
            continue
        answer = respond(peers, line)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if answer["ok"] and json.loads(line)["do"] == "bye":
            break
    return 0


def probe():
    """The other side of Peers.probe: one request, one answer."""
    answers, request = private_output(), json.load(sys.stdin)
    def work():
        import torch
        torch.cuda.set_device(request["gpu"])
        tensors = {}
        for name, (kind, dim, values) in request["tensors"].items():
            kind = getattr(torch, kind)
            tensors[name] = torch.tensor(values, dtype=kind, device="cuda").reshape(dim) if values \
                else torch.zeros(dim, dtype=kind, device="cuda")
        job = backends.Job(torch, request["op"], request["flags"], tensors, request["result"])
        row, = (b for b in backends.BACKENDS if b.name == request["backend"])
        p = row.prepare(job)
        _, first_ms = backends.timed(torch, p.call)
        return {"ok": True, "compile_ms": p.compile_ms, "first_ms": first_ms}
    answers.write(json.dumps(guarded(work)) + "\n")
    return 0


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--try", dest="op", choices=("attention", "gemm"),
                         help="a test of itself on a GPU")
    options.add_argument("--seconds", type=float, default=120,
                         help="--try begins nothing new after them")
    options.add_argument("--only", help="--try: these backends (names with commas between)")
    options.add_argument("--cases", type=int, help="--try: the first so many sizes")
    options.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    o = options.parse_args()
    if o.probe:
        return probe()
    if not o.op:
        return serve()
    import self_test
    return self_test.run(o, time.monotonic() + o.seconds, Peers())


if __name__ == "__main__":
    sys.exit(main())
