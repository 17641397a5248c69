"""library.py - what the measuring scripts share: the C library through ctypes, the list of kernels that a command
line names, and turns of functions on one GPU. `torch` is PyTorch; nothing here imports it."""
import ctypes, shlex, statistics, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_RANK = 6
TYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "float8_e4m3fn": 4, "float8_e5m2": 5, "int32": 6, "uint8": 13}
HEAD_START = 4_000_000  # cycles that a waiting kernel gives the host to queue launches behind it


class Tensor(ctypes.Structure):  # baton_tensor
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("type", ctypes.c_int),
                ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * MAX_RANK),
                ("int_value", ctypes.c_int64), ("float_value", ctypes.c_double)]


class Library:
    """The C API through ctypes: one context for all modules."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(str(library))
        self.lib.baton_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.must(self.lib.baton_open(None, ctypes.byref(self.context)))

    def must(self, status):
        if status:
            raise RuntimeError(self.lib.baton_last_error().decode())

    def load(self, file):
        module = ctypes.c_void_p()
        self.must(self.lib.baton_load_file(self.context, str(file).encode(), ctypes.byref(module)))
        return module

    def arguments(self, tensors):
        args = (Tensor * len(tensors))()
        for a, t in zip(args, tensors):
            assert t.is_contiguous()
            a.size, a.data, a.rank = ctypes.sizeof(Tensor), t.data_ptr(), t.dim()
            a.type = TYPES[str(t.dtype).split(".")[1]]
            a.dim = (ctypes.c_int64 * MAX_RANK)(*t.shape)
        return args

    def launcher(self, module, tensors, stream):
        """A function that launches on `stream`; the tensors live as long as it does."""
        args, stream = self.arguments(tensors), ctypes.c_void_p(stream)
        def launch(keep=tensors):
            status = self.lib.baton_launch(module, args, len(args), stream)
            if status:
                self.must(status)
        return launch


def kernels(text, build, folder):
    """Name -> PTX file of the kernels in the list `text`, compiled: FILE.co with options, or FILE.ptx."""
    made = {}
    for item in filter(None, (i.strip() for i in text.split(","))):
        file, *options = shlex.split(item)
        name = " ".join([Path(file).stem] + [o for o in options if o != "-D"])
        base, n = name, 1
        while name in made:  # the same name from another folder
            n += 1
            name = f"{base}#{n}"
        if file.endswith(".ptx"):
            made[name] = Path(file)
            continue
        made[name] = folder / f"{len(made)}.ptx"
        words = [f"{build}/baton", "build", file, *options, "-o", str(made[name])]
        if subprocess.run(words).returncode:
            sys.exit(f"{item}: does not compile")
    return made


def turn(cuda, launch, warm, count):
    """Milliseconds of each of `count` launches behind `warm` untimed ones. The GPU waits meanwhile in a kernel that
    does nothing, so that the host is ahead of it."""
    marks = [cuda.Event(enable_timing=True) for _ in range(count + 1)]
    cuda._sleep(HEAD_START)
    for _ in range(warm):
        launch()
    marks[0].record()
    for mark in marks[1:]:
        launch()
        mark.record()
    cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def turns(cuda, launches, rounds, load, seconds, clock=time.monotonic):
    """Name -> round -> milliseconds of the launches of turns of `seconds` each, in an order that rotates, under load
    that has lasted for `load` seconds. `launches`: name -> function that queues one launch."""
    ms, end = {}, clock() + load
    while not ms or clock() < end:
        ms = {name: statistics.median(turn(cuda, launch, 0, 8)) for name, launch in launches.items()}
    made, names = {name: [] for name in launches}, list(launches)
    for r in range(rounds):
        for name in names[r % len(names):] + names[:r % len(names)]:
            count = max(5, min(2000, round(seconds * 1e3 / ms[name])))
            made[name].append(turn(cuda, launches[name], max(2, count // 3), count))
    return made


def ratio(turns, reference):
    """Time of `turns` / time of `reference`: medians of all launches, and the least and largest of a round."""
    middle = lambda rounds: statistics.median([m for r in rounds for m in r])
    rounds = [statistics.median(t) / statistics.median(r) for t, r in zip(turns, reference)]
    return middle(turns) / middle(reference), min(rounds), max(rounds)
