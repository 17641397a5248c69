"""One turn of an implementation on the device, timed with CUDA events (src/bench/contest.h says
what a turn is).

Times are milliseconds. A *unit* is what one sample queues: `group` calls, or one replay of a graph
of `group` launches. Marks (events) stand between neighbouring units, so that nothing is lost
between samples; with a cold cache each sample has its own pair of marks, behind the overwriting.

The host must be ahead of the device while samples are taken, or gaps are measured. It gets a head
start (a kernel that only waits), and whether it stayed ahead is observed: when a unit has been
queued, the device must not have begun with it, so the unit's opening mark must still be to come."""
import collections
import math
import time

GROUP_MS = 0.2           # a sample of group 0 lasts at least this
CHUNK_MS = 5             # work that is queued at once under load; three of them are ahead
AFTER_IDLE_MS = 3        # head start of a burst at least
QUEUE = 800              # launches that a stream takes before the host has to wait
CYCLES_PER_MS = 2000000  # of the waiting kernel; clocks are below 2 GHz, so it waits no less


def now_ms():
    """CLOCK_MONOTONIC, the clock that baton's own readings have."""
    return time.monotonic() * 1000


def host_cost(torch, call, calls=8):
    """Milliseconds that the host takes to queue one call, while the device is not in its way."""
    times = []
    torch.cuda.synchronize()
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    torch.cuda.synchronize()
    return sorted(times)[calls // 2]


def device_cost(torch, call, host_ms, calls=5):
    """Milliseconds that the device takes for one call, about: groups are made from it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(int((2 * calls * host_ms + 0.2) * CYCLES_PER_MS))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return max(begin.elapsed_time(end) / calls, 1e-4)


def smallest_group(launch_ms):
    return max(1, math.ceil(GROUP_MS / launch_ms - 0.01))  # what rounding is worth


def capture(torch, call, group):
    """A graph of `group` launches, captured on a side stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(group):
            call()
    return graph


class Turn:
    """`unit` queues `group` launches, which takes the host host_ms and the device device_ms."""

    def __init__(self, torch, unit, group, host_ms, device_ms):
        self.torch, self.unit, self.group = torch, unit, group
        self.host_ms, self.device_ms, self.idled = host_ms, device_ms, False

    def run(self, repeat, warmup=0, load_s=0.0, idle_s=0.0, min_s=0.0, flush=None):
        """The answer to a request. `flush` overwrites the cache; None: it stays warm."""
        self.torch.cuda.synchronize()
        self.idled = idle_s > 0
        if self.idled:
            time.sleep(idle_s)
        load_ms = self._launch_until(now_ms() + load_s * 1000, warmup)
        begins, ends, host_ms, bound = (self._cold(repeat, flush) if flush else self._warm(repeat))
        ends[-1].synchronize()
        t1 = now_ms()
        t0 = t1 - begins[0].elapsed_time(ends[-1])
        if min_s > 0:
            self._launch_until(t0 + min_s * 1000, 0)
        self.torch.cuda.synchronize()
        ms = [b.elapsed_time(e) / self.group for b, e in zip(begins, ends)]
        return {"ms": ms, "group": self.group, "host_ms": host_ms, "host_bound": bound,
                "load_ms": load_ms, "t0": t0, "t1": t1, "t2": now_ms()}

    def _launch_until(self, until, least):
        """Launches until the clock says `until` and `least` launches are queued; never far ahead of
        the device. It may still be busy with the last of them when this returns."""
        chunk = max(1, int(CHUNK_MS / self.device_ms))
        started, done, marks = now_ms(), 0, collections.deque()
        while done < least or now_ms() < until:
            missing = math.ceil((least - done) / self.group)
            for _ in range(chunk if now_ms() < until else min(chunk, missing)):
                self.unit()
                done += self.group
            marks.append(self.torch.cuda.Event())
            marks[-1].record()
            if len(marks) > 2:
                marks.popleft().synchronize()
        return now_ms() - started if done else 0.0

    def _head_start(self, repeat, host_ms):
        """Lets the host queue all samples, or what a stream takes; less where it is much faster. After
        idle time it is not: its first calls take several times as long."""
        ahead = min(repeat * host_ms, host_ms * QUEUE / self.group)
        if self.idled:
            ahead = max(5 * ahead, AFTER_IDLE_MS)
        elif host_ms < 0.5 * self.device_ms:
            ahead = min(ahead, 4 * host_ms)
        self.torch.cuda._sleep(int((1.25 * ahead + 0.1) * CYCLES_PER_MS))

    def _warm(self, repeat):
        marks = [self.torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
        bound = False
        self._head_start(repeat, self.host_ms)
        started = time.perf_counter()
        marks[0].record()
        for before, after in zip(marks, marks[1:]):
            self.unit()
            after.record()
            bound |= before.query()
        return marks[:-1], marks[1:], (time.perf_counter() - started) * 1000, bound

    def _cold(self, repeat, flush):
        begins, ends = ([self.torch.cuda.Event(enable_timing=True) for _ in range(repeat)]
                        for _ in range(2))
        bound = False
        self._head_start(repeat, 2 * self.host_ms)
        started = time.perf_counter()
        for begin, end in zip(begins, ends):
            flush()
            begin.record()
            self.unit()
            end.record()
            bound |= begin.query()
        return begins, ends, (time.perf_counter() - started) * 1000, bound
