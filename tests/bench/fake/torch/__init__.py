"""As much of PyTorch as bench/ uses, without a GPU: tensors are bytes, host and device have clocks
of their own that only work moves (clock.py), so that every time is known beforehand."""
import struct as _struct

from . import clock as _clock

__version__ = "9.8.7"


class dtype:
    def __init__(self, name, itemsize, code):
        self.name, self.itemsize, self.code = name, itemsize, code

    def __repr__(self):
        return "torch." + self.name

    def read(self, data, at):
        if self.name == "bfloat16":
            return _struct.unpack("<f", b"\0\0" + bytes(data[at:at + 2]))[0]
        return _struct.unpack_from("<" + self.code, data, at)[0]

    def write(self, data, at, value):
        if self.name == "bfloat16":  # rounds towards zero, which is near enough here
            data[at:at + 2] = _struct.pack("<f", value)[2:]
        else:
            _struct.pack_into("<" + self.code, data, at, value)


bfloat16, float16 = dtype("bfloat16", 2, ""), dtype("float16", 2, "e")
float32, float64 = dtype("float32", 4, "f"), dtype("float64", 8, "d")
int64, int32, int16 = dtype("int64", 8, "q"), dtype("int32", 4, "i"), dtype("int16", 2, "h")
int8, uint8, bool = dtype("int8", 1, "b"), dtype("uint8", 1, "B"), dtype("bool", 1, "?")


def _dense(shape):
    strides, n = [], 1
    for d in reversed(shape):
        strides.insert(0, n)
        n *= d
    return strides


def _count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Tensor:
    def __init__(self, data, kind, shape, strides=None):
        self.data, self.dtype, self.shape = data, kind, tuple(shape)
        self.strides = tuple(strides if strides is not None else _dense(shape))

    def indices(self):
        index = [0] * len(self.shape)
        for _ in range(self.numel()):
            yield tuple(index)
            for d in reversed(range(len(index))):
                index[d] += 1
                if index[d] < self.shape[d]:
                    break
                index[d] = 0

    def at(self, index):
        return sum(i * s for i, s in zip(index, self.strides)) * self.dtype.itemsize

    def get(self, *index):
        return self.dtype.read(self.data, self.at(index))

    def put(self, value, *index):
        self.dtype.write(self.data, self.at(index), value)

    def numel(self):
        return _count(self.shape)

    def is_contiguous(self):
        return list(self.strides) == _dense(self.shape)

    def transpose(self, a, b):
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return Tensor(self.data, self.dtype, shape, strides)

    def t(self):
        return self.transpose(0, 1)

    def contiguous(self):
        if self.is_contiguous():
            return self
        made = empty(self.shape, dtype=self.dtype)
        for i in self.indices():
            made.put(self.get(*i), *i)
        return made

    def view(self, kind):
        assert self.is_contiguous() and len(self.shape) == 1
        n = self.numel() * self.dtype.itemsize // kind.itemsize
        return Tensor(self.data, kind, [n])

    def reshape(self, shape):
        shape = [self.numel()] if shape == -1 else shape
        assert _count(shape) == self.numel()
        return Tensor(self.contiguous().data, self.dtype, shape)

    def is_floating_point(self):
        return self.dtype in (bfloat16, float16, float32, float64)

    def tolist(self):
        return [self.get(i) for i in range(self.numel())]

    def cuda(self):
        return Tensor(bytearray(self.data), self.dtype, self.shape, self.strides)

    def bool(self):
        made = empty(self.shape, dtype=bool)
        for i in self.indices():
            made.put(self.get(*i) != 0, *i)
        return made

    def fill_(self, value):
        def run():
            for i in self.indices():
                self.put(value, *i)
        _clock.launch(0.02, run)
        return self

    def zero_(self):
        _clock.launch(0.5, lambda: None)  # nobody reads what it was for
        return self

    def copy_(self, other):
        self.data[:] = other.data
        return self


def frombuffer(data, dtype):
    return Tensor(memoryview(data), dtype, [len(data) // dtype.itemsize])


def empty(shape, dtype=float32, device=None):
    shape = [shape] if isinstance(shape, int) else shape
    return Tensor(bytearray(_count(shape) * dtype.itemsize), dtype, shape)


def tensor(values, dtype, device=None):
    made = empty(len(values), dtype)
    for i, value in enumerate(values):
        made.put(value, i)
    return made


def zeros(shape, dtype=float32, device=None):
    return empty(shape, dtype)


def full(shape, value, dtype=float32, device=None):
    return empty(shape, dtype).fill_(value)


def matmul(a, b, out):
    def run():
        for i, j in out.indices():
            out.put(sum(a.get(i, k) * b.get(k, j) for k in range(a.shape[1])), i, j)
    _clock.launch(_clock.option("device_ms"), run)
    return out


from . import backends, cuda, nn, version  # noqa: E402
