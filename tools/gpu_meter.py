"""gpu_meter.py - measures implementations of one operation in turns on one GPU: milliseconds and
joules, in two regimes that are kept apart.

    burst      the first launches after the GPU has been idle: clocks are high, cycles count
    sustained  launches under load that has lasted for seconds: power is capped, joules count

In each round every implementation has one turn, in an order that rotates, so that drift of clocks
and temperature falls on all alike. Ratios are of turns of the same round. Energy is the driver's
counter (libnvidia-ml.so.1 through ctypes), which steps about every 100 ms: watts are what it gained
between the first and the last step inside a turn, over the time between those two steps.

Nothing here imports PyTorch: `cuda` is torch.cuda, or in tests something that behaves like it."""
import ctypes, statistics, time

REASONS = {0x4: "power", 0x8: "hardware", 0x20: "heat", 0x40: "heat(hw)", 0x80: "brake"}
HEAD_START = 4_000_000  # cycles that a waiting kernel gives the host to queue launches behind it


class Meter:
    """The management library's view of one GPU. Without the library, or without one of its
    functions, the values are None: `missing` says why."""

    def __init__(self, uuid=None, library="libnvidia-ml.so.1"):
        self.missing, self.handle = None, ctypes.c_void_p()
        try:
            self.lib = ctypes.CDLL(library)
            status = self.lib.nvmlInit_v2() or self.find(uuid)
            if status:
                self.missing = f"{library} answers {status}"
        except (OSError, AttributeError) as e:
            self.missing = str(e)

    def find(self, uuid):
        """The GPU with that identity; the only one, when it is not known by it."""
        handle, count = ctypes.byref(self.handle), ctypes.c_uint()
        status = self.lib.nvmlDeviceGetHandleByUUID(uuid.encode(), handle) if uuid else 2
        if status and not self.lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) and count.value == 1:
            status = self.lib.nvmlDeviceGetHandleByIndex_v2(0, handle)
        return status

    def number(self, function, kind, *before):
        """The number that `function` writes through its last parameter, or None."""
        if self.missing or not hasattr(self.lib, function):
            return None
        value = kind()
        if getattr(self.lib, function)(self.handle, *before, ctypes.byref(value)):
            return None
        return value.value

    def joules(self):
        mj = self.number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        return None if mj is None else mj / 1000

    def state(self):
        """(SM clock in MHz, temperature in C, bits that say what limits the clock, W by the slower
        power reading). Each may be None."""
        reasons = self.number("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong)
        if reasons is None:  # its name in older drivers
            reasons = self.number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        mw = self.number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        return (self.number("nvmlDeviceGetClockInfo", ctypes.c_uint, 1),
                self.number("nvmlDeviceGetTemperature", ctypes.c_uint, 0), reasons,
                None if mw is None else mw / 1000)


class Turn:
    """One turn of one implementation: ms of each launch, (second, joules) readings, states."""

    def __init__(self, ms, energy=(), states=()):
        self.ms, self.energy, self.states = list(ms), list(energy), list(states)


# ---- statistics ---------------------------------------------------------------------------------


def counter_steps(readings):
    """(joules, seconds) between the first and the last step of the counter in `readings`, or None
    when there are fewer than two steps. A step lies half way between the two readings around it."""
    steps = [((t0 + t1) / 2, e1) for (t0, e0), (t1, e1) in zip(readings, readings[1:]) if e1 != e0]
    if len(steps) < 2:
        return None
    return steps[-1][1] - steps[0][1], steps[-1][0] - steps[0][0]


def watts(turns):
    parts = [p for t in turns if (p := counter_steps(t.energy))]
    seconds = sum(s for _, s in parts)
    return sum(j for j, _ in parts) / seconds if seconds else None


def ratios(turns, reference):
    """Of reference to this: the medians of all launches, and the least and largest of a round."""
    whole = (statistics.median([m for t in reference for m in t.ms]) /
             statistics.median([m for t in turns for m in t.ms]))
    rounds = [statistics.median(r.ms) / statistics.median(t.ms) for t, r in zip(turns, reference)]
    return whole, min(rounds), max(rounds)


def summary(turns, reference, operations):
    """What a table says about the turns of one implementation. `operations`: of one launch."""
    ms = statistics.median([m for t in turns for m in t.ms])
    ratio, low, high = ratios(turns, reference)
    states = [s for t in turns for s in t.states]
    w, mean = watts(turns), statistics.fmean([m for t in turns for m in t.ms])
    joules = None if w is None else w * mean / 1000
    middle = lambda i: statistics.median(v) if (v := [s[i] for s in states if s[i] is not None]) else None
    bits = [s[2] for s in states if s[2] is not None]
    limits = [name for bit, name in REASONS.items() if sum(bool(b & bit) for b in bits) * 2 > len(bits)]
    return {"ms": ms, "tflops": operations / ms / 1e9, "ratio": ratio, "low": low, "high": high,
            "watts": w, "joules": joules, "mhz": middle(0), "celsius": middle(1),
            "tflops_per_watt": None if not joules else operations / joules / 1e12,
            "limits": "+".join(limits) if bits else None}


# ---- turns --------------------------------------------------------------------------------------


class Contest:
    """Implementations by name, each a function that queues one launch on the current stream."""

    def __init__(self, launches, cuda, meter, clock=time.monotonic, sleep=time.sleep):
        self.launches, self.cuda, self.meter = launches, cuda, meter
        self.clock, self.sleep = clock, sleep

    def order(self, number):
        names = list(self.launches)
        k = number % len(names)
        return names[k:] + names[:k]

    def queue(self, launch, warm, count):
        """Queues warm + count launches with an event around each of the last `count`; the GPU waits
        meanwhile in a kernel that does nothing, so that the host is ahead of it."""
        marks = [self.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        self.cuda._sleep(HEAD_START)
        for _ in range(warm):
            launch()
        marks[0].record()
        for mark in marks[1:]:
            launch()
            mark.record()
        return marks

    @staticmethod
    def times(marks):
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]

    def burst_turn(self, launch, idle, count):
        self.cuda.synchronize()
        self.sleep(idle)
        marks = self.queue(launch, 0, count)
        state = self.meter.state()
        self.cuda.synchronize()
        return Turn(self.times(marks), (), [state])

    def sustained_turn(self, launch, warm, count):
        marks = self.queue(launch, warm, count)
        while not marks[0].query():
            self.sleep(0.0005)
        energy, states = [], []
        while not marks[-1].query():
            joules = self.meter.joules()
            if joules is not None:
                energy.append((self.clock(), joules))
            if len(energy) % 8 == 0:
                states.append(self.meter.state())
            if joules is None:
                self.sleep(0.01)
        self.cuda.synchronize()
        return Turn(self.times(marks), energy, states)

    def bursts(self, rounds, idle, count):
        turns = {name: [] for name in self.launches}
        for r in range(rounds):
            for name in self.order(r):
                turns[name].append(self.burst_turn(self.launches[name], idle, count))
        return turns

    def load(self, seconds):
        """Keeps the GPU busy with all of them in turns, and returns the ms of a launch of each."""
        ms, end = {}, self.clock() + seconds
        while not ms or self.clock() < end:
            for name, launch in self.launches.items():
                marks = self.queue(launch, 0, 8)
                self.cuda.synchronize()
                ms[name] = statistics.median(self.times(marks))
        return ms

    def sustained(self, rounds, load, turn=None, warm=None, launches=None):
        """Turns of `turn` seconds, a third of it again before them untimed; or of `warm` untimed
        and `launches` timed launches each."""
        ms = self.load(load)
        turns = {name: [] for name in self.launches}
        for r in range(rounds):
            for name in self.order(r):
                count = launches or max(5, min(2000, round(turn * 1e3 / ms[name])))
                before = warm if launches else max(2, count // 3)
                turns[name].append(self.sustained_turn(self.launches[name], before, count))
        return turns


# ---- tables -------------------------------------------------------------------------------------

HEAD = (f"{'':>26} | {'burst ms':>8} {'TFLOPS':>6} {'ratio':>6} {'MHz':>4} | {'sust. ms':>8} "
        f"{'TFLOPS':>6} {'ratio':>6} (of rounds)    | {'W':>4} {'J':>7} {'TF/W':>5} {'MHz':>4} "
        f"{'C':>3} limit")


def cell(value, width, digits=0):
    return "-".rjust(width) if value is None else f"{value:{width}.{digits}f}"


def row(name, burst, sustained):
    """One line of the table under HEAD; either summary may be None."""
    b = burst or dict.fromkeys(("ms", "tflops", "ratio", "mhz"))
    line = (f"{name[-26:]:>26} | {cell(b['ms'], 8, 4)} {cell(b['tflops'], 6, 1)} "
            f"{cell(b['ratio'], 6, 3)} {cell(b['mhz'], 4)} |")
    if sustained:
        s = sustained
        line += (f" {s['ms']:8.4f} {s['tflops']:6.1f} {s['ratio']:6.3f} {s['low']:6.3f}-{s['high']:.3f}"
                 f"   | {cell(s['watts'], 4)} {cell(s['joules'], 7, 4)} "
                 f"{cell(s['tflops_per_watt'], 5, 3)} {cell(s['mhz'], 4)} {cell(s['celsius'], 3)} "
                 f"{s['limits'] or ('-' if s['limits'] is None else 'none')}")
    return line


def ratio_table(names, sizes, results):
    """Ratios to the reference, burst and sustained, one line a name. results[size][regime][name]"""
    lines = [f"{'ratio to the reference':>26} | " +
             " | ".join(f"{str(s)[-20:]:>10}: burst sust." for s in sizes)]
    for name in names:
        parts = []
        for s in sizes:
            one = [results[s].get(regime, {}).get(name) for regime in ("burst", "sustained")]
            parts.append(f"{'':>11} " + " ".join(cell(o and o["ratio"], 5, 3) for o in one))
        lines.append(f"{name[-26:]:>26} | " + " | ".join(parts))
    return lines
