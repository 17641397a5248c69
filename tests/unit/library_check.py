#!/usr/bin/env python3
"""Runs tests/lang/library.co on the emulator and compares every value with math's in double precision.
library_check.py BATON SCRATCH; prints the worst error of each function in units of the last place and
"right" when all are within what docs/language.md states."""
import math, random, struct, subprocess, sys

# name, function, largest argument, allowed units in the last place
ROWS = [("floor", lambda x, y: float(math.floor(x)), 1e30, 0), ("ceil", lambda x, y: float(math.ceil(x)), 1e30, 0),
        ("round", lambda x, y: math.copysign(math.floor(abs(x) + 0.5), x), 1e9, 0),
        ("sin", lambda x, y: math.sin(x), 6e6, 4), ("cos", lambda x, y: math.cos(x), 6e6, 4),
        ("tan", lambda x, y: math.tan(x), 6e6, 7), ("expm1", lambda x, y: math.expm1(x), 88, 2),
        ("log1p", lambda x, y: math.log1p(x), 1e38, 2), ("sinh", lambda x, y: math.sinh(x), 88, 6),
        ("cosh", lambda x, y: math.cosh(x), 88, 6), ("asin", lambda x, y: math.asin(x), 1, 3),
        ("acos", lambda x, y: math.acos(x), 1, 3), ("atan", lambda x, y: math.atan(x), 1e38, 3),
        ("atan2", lambda x, y: math.atan2(x, y), 1e38, 3), ("pow", lambda x, y: math.pow(x, y), 1e38, 20)]


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def write(path, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    head = head.ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%df" % len(values), *values))


def read(path):
    data = open(path, "rb").read()
    data = data[10 + struct.unpack("<H", data[8:10])[0]:]
    return struct.unpack("<%df" % (len(data) // 4), data)


def distance(got, want):
    """Units of the last place of a float of that size."""
    if want == 0 or math.isinf(want):
        return 0 if got == want else 1e9
    unit = math.ldexp(1, max(math.frexp(want)[1] - 24, -149))
    return abs(got - want) / unit if math.isfinite(got) else 1e9


def main(baton, scratch):
    rng = random.Random(1)
    x = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 8388607.5, 88.0, -88.0]
    for scale in (1e-6, 0.1, 1, 1, 1, 4, 40, 80, 1000, 5e6):
        x += [rng.uniform(-scale, scale) for _ in range(400)]
    x = [single(v) for v in x]
    y = [single(rng.choice([rng.uniform(-4, 4), rng.uniform(-60, 60), float(rng.randint(-9, 9))])) for _ in x]
    write(scratch + ".x.npy", x)
    write(scratch + ".y.npy", y)
    subprocess.run([baton, "run", "tests/lang/library.co", "--device=emu", f"--arg=x={scratch}.x.npy",
                    f"--arg=y={scratch}.y.npy", f"--out=c={scratch}.c.npy"], check=True,
                   stdout=subprocess.DEVNULL)
    c = read(scratch + ".c.npy")
    bad = False
    for row, (name, function, largest, allowed) in enumerate(ROWS):
        worst, at = 0, 0
        for i in range(len(x)):
            if abs(x[i]) > largest:
                continue
            try:
                want = function(x[i], y[i])
            except (ValueError, ZeroDivisionError, OverflowError):
                continue
            if isinstance(want, complex) or abs(want) > 3.4e38:
                continue
            error = distance(c[row * len(x) + i], want)
            if error > worst:
                worst, at = error, i
        bad |= worst > allowed
        print(f"{name}: {worst:.2f} at {x[at]!r}, {y[at]!r}{' TOO MUCH' if worst > allowed else ''}")
    print("wrong" if bad else "right")


main(*sys.argv[1:])
