#!/usr/bin/env python3
"""Tests of tools/gpu_meter.py without a GPU: the statistics on made-up samples, the library's calls
on a fake libnvidia-ml (argument: path of a scratch name; needs gcc), and whole contests on a
pretended GPU whose launches take a known time and power."""
import os, subprocess, sys, types
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import gpu_meter
from gpu_meter import Contest, Meter, Turn

passed = failed = 0


def expect(what, got, wanted, tolerance=0):
    global passed, failed
    same = (abs(got - wanted) <= tolerance if tolerance and got is not None else got == wanted)
    passed, failed = passed + same, failed + (not same)
    if not same:
        print(f"FAILED {what}: {got!r}, expected {wanted!r}")


def test_counter():
    """The counter steps at 0.1, 0.2, 0.3 s by 70 J; only what lies between two steps counts."""
    readings = [(i / 200, 70.0 * (i // 20)) for i in range(70)]
    joules, seconds = gpu_meter.counter_steps(readings)
    expect("joules between steps", joules, 140.0)
    expect("seconds between steps", seconds, 0.2, 1e-9)
    expect("one step is too few", gpu_meter.counter_steps(readings[:30]), None)
    expect("no readings", gpu_meter.counter_steps([]), None)
    expect("watts of two turns", gpu_meter.watts([Turn([1], readings), Turn([1], readings)]), 700.0, 1e-6)
    expect("a turn without steps does not count",
           gpu_meter.watts([Turn([1], readings), Turn([1], readings[:5])]), 700.0, 1e-6)
    expect("no counter", gpu_meter.watts([Turn([1])]), None)


def test_summary():
    energy = [(i / 200, 70.0 * (i // 20)) for i in range(70)]
    mine = [Turn([1.0, 1.0, 4.0], energy, [(1500, 60, 4, 690.0)]), Turn([2.0, 1.0, 1.0], energy, [(1700, 62, 4, 0)])]
    other = [Turn([1.1] * 3), Turn([1.3, 1.2, 1.2])]
    s = gpu_meter.summary(mine, other, 5e11)
    expect("median", s["ms"], 1.0)
    expect("TFLOPS", s["tflops"], 500.0)
    expect("ratio", s["ratio"], 1.15, 1e-9)
    expect("lowest round", s["low"], 1.1, 1e-9)
    expect("highest round", s["high"], 1.2, 1e-9)
    expect("joules use the mean time", s["joules"], 700 * (10 / 6) / 1000, 1e-9)
    expect("TFLOPS per watt", s["tflops_per_watt"], 0.5 / s["joules"], 1e-9)
    expect("clock", s["mhz"], 1600)
    expect("limit", s["limits"], "power")
    bare = gpu_meter.summary([Turn([2.0])], [Turn([2.0])], 1)
    expect("nothing known", [bare[k] for k in ("watts", "joules", "mhz", "limits")], [None] * 4)
    mixed = gpu_meter.summary([Turn([1], (), [(1, 1, 0, 0), (1, 1, 0x24, 0), (1, 1, 0x20, 0)])], [Turn([1])], 1)
    expect("what holds in most samples", mixed["limits"], "heat")


FAKE = r"""
unsigned long long energy = 5000;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **h)
{ *h = (void *)0x1234567890; return uuid[4] == 'x' ? 0 : 6; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)0x1234567890; return i; }
static int bad(void *h) { return h != (void *)0x1234567890; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *mj) { *mj = energy += 250; return bad(h); }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 698500; return bad(h); }
int nvmlDeviceGetClockInfo(void *h, int which, unsigned *mhz) { *mhz = 1500 + which; return bad(h); }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *c) { *c = 61 + sensor; return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *r) { *r = 4; return bad(h); }
"""


def test_library(scratch):
    path, single = f"{scratch}.so", f"{scratch}.1.so"
    for file, count in ((path, 8), (single, 1)):
        subprocess.run(["gcc", "-shared", "-fPIC", f"-DCOUNT={count}", "-x", "c", "-", "-o", file],
                       input=FAKE.encode(), check=True)
    meter = Meter("GPU-x", path)
    expect("present", meter.missing, None)
    expect("joules", meter.joules(), 5.25)
    expect("joules again", meter.joules(), 5.5)
    expect("state; what fails is None, old name of the reasons", meter.state(), (1501, None, 4, 698.5))
    wrong = Meter("GPU-?", path)
    expect("unknown device", wrong.missing, f"{path} answers 6")
    expect("no joules", wrong.joules(), None)
    expect("the only device, by another identity", Meter("GPU-?", single).joules(), 5.25)
    expect("the only device, without identity", Meter(None, single).missing, None)
    absent = Meter(None, "libno-such-library.so.7")
    expect("no library", "libno-such-library" in absent.missing, True)
    expect("no state", absent.state(), (None, None, None, None))


class PretendedGpu:
    """A stream with a clock of its own. Launch `name` takes ms[name] at watts[name]; waiting costs
    the host 1 ms. The energy counter steps every 100 ms."""

    def __init__(self, ms, watts):
        self.ms, self.watts, self.now, self.busy, self.work = ms, watts, 0.0, 0.0, []

    def launch(self, name):
        self.add(self.ms[name] / 1000, self.watts[name], name)

    def add(self, seconds, watts, name=None):
        start = max(self.now, self.busy)
        self.busy = start + seconds
        self.work.append((start, self.busy, watts, name))

    def _sleep(self, cycles):
        self.add(cycles / 2e9, 200)

    def synchronize(self):
        self.now = max(self.now, self.busy)

    def sleep(self, seconds):
        self.now += seconds

    def clock(self):
        return self.now

    def Event(self, enable_timing):
        gpu, e = self, types.SimpleNamespace(at=None)
        def record():
            e.at = max(gpu.now, gpu.busy)
        e.record, e.query = record, lambda: e.at <= gpu.now
        e.elapsed_time = lambda other: (other.at - e.at) * 1000
        return e

    # the meter's side
    def joules(self):
        self.now += 0.0035
        end = int(self.now * 10) / 10
        return round(sum((min(b, end) - a) * w for a, b, w, _ in self.work if a < end), 6)

    def state(self):
        return (1600, 55, 4, 690.0)


def test_contest():
    gpu = PretendedGpu({"cuDNN": 1.1, "fast": 1.0, "slow": 2.0}, {"cuDNN": 600, "fast": 700, "slow": 350})
    launches = {n: (lambda n=n: gpu.launch(n)) for n in gpu.ms}
    contest = Contest(launches, gpu, gpu, gpu.clock, gpu.sleep)
    expect("rotated order", [contest.order(i)[0] for i in range(4)], ["cuDNN", "fast", "slow", "cuDNN"])
    bursts = contest.bursts(2, 1.0, 10)
    expect("launches of a burst", [len(t.ms) for t in bursts["fast"]], [10, 10])
    starts = sorted(a for a, b, _, n in gpu.work if n is None)
    expect("a second of rest before each burst", min(b - a for a, b in zip(starts, starts[1:])) > 1.0, True)
    turns = contest.sustained(2, 2.0, turn=0.5)
    s = {n: gpu_meter.summary(t, turns["cuDNN"], 1e12) for n, t in turns.items()}
    for name in gpu.ms:
        expect(f"ms of {name}", s[name]["ms"], gpu.ms[name], 1e-6)
        expect(f"ratio of {name}", s[name]["ratio"], 1.1 / gpu.ms[name], 1e-6)
        expect(f"watts of {name}", s[name]["watts"], gpu.watts[name], gpu.watts[name] * 0.04)
    expect("joules of fast", s["fast"]["joules"], 0.7, 0.03)
    exact = contest.sustained(3, 0.1, warm=50, launches=200)
    expect("the protocol's launches", [len(t.ms) for t in exact["slow"]], [200] * 3)


def test_tables():
    full = gpu_meter.summary([Turn([1.0], [], [(1500, 60, 0, 1)])], [Turn([1.1])], 5e11)
    line = gpu_meter.row("v4", full, full)
    expect("a row has as many columns as the head", line.count("|"), gpu_meter.HEAD.count("|"))
    expect("ratio in the row", " 1.100 " in line, True)
    expect("unknown joules", " - " in line, True)
    only = gpu_meter.row("v4", None, full)
    expect("no bursts", only.count("|"), gpu_meter.HEAD.count("|"))
    table = gpu_meter.ratio_table(["v4"], ["S=1"], {"S=1": {"burst": {"v4": full}}})
    expect("ratio table", table[1].split(), ["v4", "|", "1.100", "-"])
    expect("an implementation that was left out", gpu_meter.ratio_table(["x"], ["S=1"], {"S=1": {}})[1].split(),
           ["x", "|", "-", "-"])


for test in (test_counter, test_summary, lambda: test_library(sys.argv[1]), test_contest, test_tables):
    test()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
