"""Time, made up: the host's clock moves by what it does, the device's by what was queued.
FAKE_TORCH in the environment is JSON: device_ms and host_ms of one launch, gap_ms behind it in a
stream, `refuse` (back ends of SDPA that raise), and more for the other fakes. Replaces the clocks of
`time` in this process."""
import json
import os
import time

OPTIONS = {"device_ms": 0.05, "host_ms": 0.005, "gap_ms": 0, "refuse": []}
OPTIONS |= json.loads(os.environ.get("FAKE_TORCH", "{}"))


class State:
    host = device = 1000.0  # ms
    capturing = None        # the graph that launches go into
    launches = 0


def option(name):
    return OPTIONS.get(name)


def work(ms):
    """The host does something."""
    State.host += ms


def launch(ms, run):
    work(OPTIONS["host_ms"])
    if State.capturing is not None:
        State.capturing.append((ms, run))
    else:
        execute(ms + OPTIONS["gap_ms"], run)


def execute(ms, run):
    State.launches += 1
    State.device = max(State.device, State.host) + ms
    run()


def wait(until):
    State.host = max(State.host, until)


def _now(factor):
    def read():
        work(0.0005)
        return State.host * factor
    return read


time.monotonic = time.perf_counter = _now(1e-3)
time.sleep = lambda seconds: work(seconds * 1000)
