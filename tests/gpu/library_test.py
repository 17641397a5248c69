#!/usr/bin/env python3
"""Tests of tools/library.py without a GPU: turns on a pretended one whose launches take a known time, and the
kernels that a command line names. Arguments: folder of baton's build, scratch folder."""
import itertools, sys, types
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from library import ROOT, kernels, ratio, turns

build, scratch = Path(sys.argv[1]), Path(sys.argv[2])
scratch.mkdir(exist_ok=True)
passed = failed = 0


def expect(what, got, wanted):
    global passed, failed
    passed, failed = passed + (got == wanted), failed + (got != wanted)
    if got != wanted:
        print(f"FAILED {what}: {got!r}, expected {wanted!r}")


class PretendedGpu:
    """A stream with a clock of its own: launch `name` takes ms[name]. `order`: what was launched."""

    def __init__(self, ms):
        self.ms, self.now, self.busy, self.order = ms, 0.0, 0.0, []

    def launch(self, name):
        self.order.append(name)
        self._sleep(self.ms[name] * 2e6)

    def _sleep(self, cycles):
        self.busy = max(self.now, self.busy) + cycles / 2e9

    def synchronize(self):
        self.now = max(self.now, self.busy)

    def clock(self):
        return self.now

    def Event(self, enable_timing):
        gpu, e = self, types.SimpleNamespace(at=None)
        def record():
            e.at = max(gpu.now, gpu.busy)
        e.record, e.query = record, lambda: e.at <= gpu.now
        e.elapsed_time = lambda other: (other.at - e.at) * 1000
        return e


gpu = PretendedGpu({"a": 1.0, "b": 2.0})
launches = {n: (lambda n=n: gpu.launch(n)) for n in gpu.ms}
made = turns(gpu, launches, 3, 0.5, 0.1, gpu.clock)
expect("launches of a round fill the turn", {n: [len(t) for t in ts] for n, ts in made.items()},
       {"a": [100] * 3, "b": [50] * 3})
expect("milliseconds", {n: round(ts[0][0], 6) for n, ts in made.items()}, {"a": 1.0, "b": 2.0})
runs = [(name, len(list(group))) for name, group in itertools.groupby(gpu.order)]
expect("a third more before, untimed, in an order that rotates", runs[-4:],
       [("a", 133), ("b", 2 * 66), ("a", 2 * 133), ("b", 66)])
expect("load before, of both in turns", {n for _, n in runs[:-4]}, {8})
expect("a ratio of medians", ratio([[1, 2, 9], [3, 3, 3]], [[1, 1, 1], [2, 2, 2]]), (2.0, 1.5, 2.0))

text = "kernels/learn/add.co, kernels/learn/add.co, kernels/learn/copy.co -D X=1, other.ptx"
files = kernels(text, build, scratch)
expect("names", list(files), ["add", "add#2", "copy X=1", "other"])
expect("they are compiled", [f.exists() for f in files.values()], [True, True, True, False])
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
