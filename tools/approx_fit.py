#!/usr/bin/env python3
"""approx_fit.py - finds src/emu/approx_table.h from the tables that approx_probe wrote.

Model: the top bits of the argument's fraction choose a row of three integers, x is the rest, and
    result = c0 * 2^a0 + c1 * x * 2^a1 + c2 * square(x) * 2^a2 + bias
in fixed point, cut to the digits of the result. square(x) is x*x from a folded array of bit
products, x_i * 2^(2i) and x_i * x_j * 2^(i+j+1) for j < i, without those of weight below 2^19
(17-bit x; the 16-bit x of rcp has a zero appended). Every table entry then bounds
c0 + c1*x + c2*square(x) on both sides. A linear program finds the point farthest from all bounds;
its coefficients, rounded to the grid, are checked against every entry.

Usage: approx_fit.py FOLDER_OF_TABLES > src/emu/approx_table.h      (needs numpy and scipy)
"""
import sys
import numpy as np
from scipy.optimize import linprog

ENTRIES = 1 << 23
X_BITS = 17
# file, C name, index bits, shifts of c0, c1, c2, bias; all in units of 2^-16 of the result's last
# place, which is 2^-23 for ex2 and lg2 (less its integer part) and 2^-24 for the reciprocals
FUNCTIONS = [
    ("ex2_pos", "ex2", 6, 14, 1, 1, 12228),
    ("rcp", "rcp", 7, 14, 0, 1, 4046),
    ("rsqrt_1", "rsqrt_even", 6, 14, 0, 2, 16383),
    ("rsqrt_2", "rsqrt_odd", 6, 14, 0, 2, 16383),
    ("lg2_2", "lg2", 6, 13, 1, 2, 1674),
]
# exponent of tanh's argument: index bits inside that octave
TANH_OCTAVES = {-8: 0, -7: 0, -6: 0, -5: 1, -4: 1, -3: 2, -2: 2, -1: 2, 0: 3, 1: 4, 2: 3}


def load(folder, name):
    """Bits of the results, and the results in units of 2^-23 (ex2, lg2) or 2^-24."""
    bits = np.fromfile(f"{folder}/{name}", "<u4").astype(np.int64)
    significand = (bits & 0x7FFFFF) | 1 << 23
    if name in ("rcp", "rsqrt_1", "rsqrt_2"):
        significand <<= (bits >> 23) - 126
    if name == "lg2_2":
        significand -= 1 << 23
    return bits, significand


def square(x):
    total = np.zeros_like(x)
    bit = [x >> i & 1 for i in range(X_BITS)]
    for i in range(X_BITS):
        if 2 * i >= 19:
            total += bit[i] << (2 * i)
        for j in range(i):
            if i + j + 1 >= 19:
                total += (bit[i] & bit[j]) << (i + j + 1)
    return total >> 19


def center(low, width, x, s):
    """(c0, c1, c2) of the largest margin m with low + m*width <= value <= low + width - m*width.
    The program starts with few entries and grows by the tightest ones."""
    a = np.stack([np.ones(len(x)), x / 2.0**X_BITS, s / 2.0**15], 1)
    lo, w = (low - low[0]).astype(float), width.astype(float)
    chosen = set(np.linspace(0, len(x) - 1, 50).astype(int))
    for _ in range(80):
        at = np.array(sorted(chosen))
        r = linprog([0, 0, 0, -1],
                    A_ub=np.block([[-a[at], w[at][:, None]], [a[at], w[at][:, None]]]),
                    b_ub=np.concatenate([-lo[at], lo[at] + w[at]]), bounds=[(None, None)] * 4)
        value = a @ r.x[:3]
        margin = np.minimum(value - lo, lo + w - value) / w
        if margin.min() >= r.x[3] - 1e-9:
            break
        chosen |= set(int(i) for i in np.argsort(margin)[:6])
    return r.x[0] + float(low[0]), r.x[1] / 2.0**X_BITS, r.x[2] / 2.0**15


def fit_row(low, width, x, s, fraction_bits, a0, a1, a2, bias, what):
    """The row on its grid; stops when some entry does not come out."""
    c = center(low, width, x, s)
    c0, c1, c2 = (round((c[i] * 2**fraction_bits - (bias if i == 0 else 0)) / 2**a)
                  for i, a in enumerate((a0, a1, a2)))
    value = (c0 << a0) + (c1 * x << a1) + (c2 * s << a2) + bias >> fraction_bits
    wrong = int(((value < low) | (value >= low + width)).sum())
    if wrong:
        sys.exit(f"{what}: {wrong} entries do not fit {c}")
    return c0, c1, c2


def print_rows(kind, name, rows, per_line):
    print(f"static const {kind} {name}[{len(rows)}] = {{")
    for i in range(0, len(rows), per_line):
        print("    " + " ".join("{%s}," % ", ".join(map(str, r)) for r in rows[i:i + per_line]))
    print("};\n")


def fit_function(folder, name, c_name, index_bits, a0, a1, a2, bias):
    values = load(folder, name)[1]
    size = ENTRIES >> index_bits
    x = np.arange(size) << (X_BITS + index_bits - 23)
    s = square(x)
    rows = []
    for i in range(1 << index_bits):
        first = 1 if name == "rsqrt_1" and i == 0 else 0  # 1/sqrt(1) does not follow the rule
        low = values[i * size + first:(i + 1) * size]
        rows.append(fit_row(low, np.ones_like(low), x[first:], s[first:], 16, a0, a1, a2, bias,
                            f"{name} row {i}"))
    print_rows("ApproxRow", c_name + "_rows", rows, 3)


def fit_tanh(folder):
    x = np.arange(1 << X_BITS)
    s = square(x)
    rows = []
    for exponent, index_bits in TANH_OCTAVES.items():
        bits, significand = load(folder, f"tanh_{127 + exponent}")
        ignored = 23 - X_BITS - index_bits
        if (bits.reshape(-1, 1 << ignored) != bits[::1 << ignored, None]).any():
            sys.exit(f"tanh: low bits of the argument matter in octave {exponent}")
        bits, significand = bits[::1 << ignored], significand[::1 << ignored]
        for i in range(1 << index_bits):
            part = slice(i << X_BITS, (i + 1) << X_BITS)
            field = bits[part] >> 23
            smallest = int(field.min())  # a row may run into the next exponent: steps of two
            up = field - smallest
            rows.append((smallest - 127,) + fit_row(significand[part] << up, 1 << up, x, s, 15,
                                                    15, 0, 1, 0, f"tanh {exponent} row {i}"))
    print_rows("TanhRow", "tanh_rows", rows, 3)


def main():
    folder = sys.argv[1]
    print("// approx_table.h - coefficients of approx.c, fitted to a card by tools/approx_fit.py.")
    print("// One row for each value of the top bits of the argument: c0, c1, c2; for tanh the")
    print("// exponent of the row's first result before them.")
    print("#ifndef BATON_EMU_APPROX_TABLE_H\n#define BATON_EMU_APPROX_TABLE_H\n")
    for f in FUNCTIONS:
        fit_function(folder, *f)
    fit_tanh(folder)
    print("#endif")


main()
