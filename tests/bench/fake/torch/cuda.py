import contextlib

from . import clock


class Event:
    def __init__(self, enable_timing=False):
        self.timing, self.time = enable_timing, None

    def record(self):
        clock.work(0.001)
        self.time = max(clock.State.device, clock.State.host)

    def query(self):
        clock.work(0.001)
        return self.time <= clock.State.host

    def synchronize(self):
        clock.wait(self.time)

    def elapsed_time(self, other):
        assert self.timing and other.timing and max(self.time, other.time) <= clock.State.host
        return other.time - self.time


class Stream:
    def wait_stream(self, other):
        pass


class CUDAGraph:
    def __init__(self):
        self.body = []

    def replay(self):
        clock.work(clock.option("host_ms"))
        for ms, run in self.body:
            clock.execute(ms, run)


@contextlib.contextmanager
def graph(made, stream):
    clock.State.capturing = made.body
    yield
    clock.State.capturing = None


class Properties:
    name, uuid = "Fake GPU", "12-34"
    pci_domain_id, pci_bus_id, pci_device_id = 0, 23, 0


def is_available():
    return not clock.option("no_gpu")


def device_count():
    return 1


def set_device(gpu):
    pass


def current_device():
    return 0


def get_device_properties(gpu):
    return Properties


def synchronize():
    clock.wait(clock.State.device)


def empty_cache():
    pass


def current_stream():
    return Stream()


def stream(s):
    return contextlib.nullcontext()


def _sleep(cycles):
    clock.launch(cycles / 2e6, lambda: None)
