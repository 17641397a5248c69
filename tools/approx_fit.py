#!/usr/bin/env python3
"""approx_fit.py - finds src/emu/approx_table.h from the tables that approx_probe wrote.

Model (one per function): the top bits of the 23-bit argument choose a row, x is the rest, and
    result = (c0 * 2^a0 + c1 * x * 2^a1 + c2 * square(x) * 2^a2 + bias) >> 16
in units of the last place, where square(x) is x*x from a folded array of bit products,
    sum of x_i * 2^(2i)  and  x_i * x_j * 2^(i+j+1), j < i,
whose products below column `cut` do not exist. Every entry then bounds c0 + c1*x + c2*square(x)
from both sides by one unit; the three numbers come out of a linear program over the tightest
entries, rounded to the grid, and are checked against all 2^23 entries. Exactly one choice fits.

Usage: approx_fit.py FOLDER_OF_TABLES > src/emu/approx_table.h      (needs numpy and scipy)
"""
import sys
import numpy as np
from scipy.optimize import linprog

ENTRIES = 1 << 23
# file, C name, index bits, cut, bits of c0 below 16, of c1, of c2, bias in units 2^-16
FUNCTIONS = [
    ("ex2_pos", "ex2", 6, 19, 14, 1, 1, 12228),
    ("rcp", "rcp", 7, 17, 14, 1, 1, 4046),
    ("rsqrt_1", "rsqrt_even", 6, 19, 14, 0, 2, 16383),
    ("rsqrt_2", "rsqrt_odd", 6, 19, 14, 0, 2, 16383),
    ("lg2_2", "lg2", 6, 19, 13, 1, 2, 1674),
]


def load(folder, name):
    """Results as integers: units of 2^-23 for ex2 and lg2 (whose integer part 1 is taken off),
    of 2^-24 for the reciprocals."""
    bits = np.fromfile(f"{folder}/{name}", "<u4").astype(np.int64)
    significand = (bits & 0x7FFFFF) | 1 << 23
    if name == "ex2_pos":
        return significand
    if name == "lg2_2":
        return significand - (1 << 23)
    return significand << ((bits >> 23) - 126)


def square(x, width, cut):
    total = np.zeros_like(x)
    bit = [x >> i & 1 for i in range(width)]
    for i in range(width):
        if 2 * i >= cut:
            total += bit[i] << (2 * i)
        for j in range(i):
            if i + j + 1 >= cut:
                total += (bit[i] & bit[j]) << (i + j + 1)
    return total >> cut


def chebyshev(columns, y):
    """Coefficients of the smallest maximal error; the program grows by the worst entries."""
    a = np.stack(columns, 1).astype(float)
    scale = np.abs(a).max(0)
    a /= scale
    n, k = a.shape
    chosen = set(np.linspace(0, n - 1, 40).astype(int))
    for _ in range(60):
        at = np.array(sorted(chosen))
        one = np.ones((len(at), 1))
        r = linprog([0] * k + [1], A_ub=np.block([[a[at], -one], [-a[at], -one]]),
                    b_ub=np.concatenate([y[at], -y[at]]), bounds=[(None, None)] * (k + 1))
        rest = np.abs(y - a @ r.x[:k])
        if rest.max() <= r.x[k] + 1e-7:
            break
        chosen |= set(int(i) for i in np.argsort(-rest)[:8])
    return r.x[:k] / scale


def fit_row(p, x, s, a0, a1, a2, bias):
    """All (c0, c1, c2) that give every entry of this row."""
    y = p + 0.5
    c = chebyshev([np.ones(len(x)), x, s], y - y[0])
    near1, near2 = c[1] * 2 ** (16 - a1), c[2] * 2 ** (16 - a2)
    found = []
    for c2 in range(round(near2) - 3, round(near2) + 4):
        for c1 in range(round(near1) - 6, round(near1) + 7):
            linear = (c1 * x << a1) + (c2 * s << a2) + bias
            low = int(((p << 16) - linear).max())
            high = int(((p + 1 << 16) - 1 - linear).min())
            c0 = -(-low >> a0)
            if c0 << a0 <= high:
                found.append((c0, c1, c2))
    return found


def main():
    folder = sys.argv[1]
    print("// approx_table.h - coefficients of approx.c, fitted to a card by tools/approx_fit.py.")
    print("// One row for each value of the top bits of the argument: c0, c1, c2.")
    print("#ifndef BATON_EMU_APPROX_TABLE_H\n#define BATON_EMU_APPROX_TABLE_H\n")
    for name, c_name, index_bits, cut, a0, a1, a2, bias in FUNCTIONS:
        values = load(folder, name)
        size = ENTRIES >> index_bits
        x = np.arange(size)
        s = square(x, 23 - index_bits, cut)
        rows = []
        for i in range(1 << index_bits):
            first = 1 if name == "rsqrt_1" and i == 0 else 0  # 1/sqrt(1) does not follow the rule
            found = fit_row(values[i * size + first:(i + 1) * size], x[first:], s[first:],
                            a0, a1, a2, bias)
            if len(found) != 1:
                sys.exit(f"{name} row {i}: {len(found)} choices fit")
            rows.append("{%d, %d, %d}," % found[0])
        print(f"static const ApproxRow {c_name}_rows[{1 << index_bits}] = {{")
        for i in range(0, len(rows), 3):
            print("    " + " ".join(rows[i:i + 3]))
        print("};\n")
    print("#endif")


main()
