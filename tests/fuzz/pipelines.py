#!/usr/bin/env python3
"""Random kernels with [[pipeline]]: tests/fuzz/pipelines.py BATON SCRATCH FIRST COUNT

Each is a nest of loops and branches with copies, products, reads of copied tiles, breaks and
continues. On the emulator, for two numbers of rounds, the specialised program under adversarial
schedules has no hazard and no deadlock, and its result has the bits of the sequential one. Prints
each program that fails, and a last line with what was run."""
import random, subprocess, sys
from pathlib import Path

HEAD = """__co__ void f(global bf16 [320, 64] m, global f32 [256, 64] w, global s32 [8] flag,
              global f32 [{rows}, 64] o, int n) {{
  parallel b by 1 : block {{
    parallel wg by {groups} : group-4 {{
      frag f32 [64, 64] h {{0.0f}}, g {{0.0f}};
      frag bf16 [64, 64] p {{0.0f}};
      mutable int x = flag.at(0) + 1;
      mutable int y = 1;
      apply {{i, j}} in p.span
        p.at(i, j) = m.at(i, j);
      apply {{i, j}} in h.span
        h.at(i, j) = w.at(i, j);
"""
TAIL = "      mma.store h, o.subspan(64, 64).at(wg, 0);\n    }\n  }\n}\n"


class Program:
    def __init__(self, seed):
        self.rng, self.lines, self.tiles = random.Random(seed), [], 0

    def emit(self, depth, text):
        self.lines.append("  " * depth + text)

    def tile(self):
        self.tiles += 1
        return f"t{self.tiles}"

    def product(self, d, index):
        t, engine = self.tile(), self.rng.choice(["dma.copy", "tma.load"])
        self.emit(d, f"{t} = {engine}.swiz<128> m.subspan(64, 64).at(({index}) % 5, 0) => shared;")
        if self.rng.random() < 0.3:
            self.emit(d, f"x = x + {self.rng.randint(1, 3)};")
        kind = self.rng.choice(["mma.row.row", "mma.row.col"])
        if self.rng.random() < 0.4:
            self.emit(d, f"f{t} = {kind}.async h, p, {t};")
            if self.rng.random() < 0.5:
                self.emit(d, "y = y * 3 + 1;")
            self.emit(d, f"wait f{t};")
        else:
            self.emit(d, f"{kind} h, p, {t};")

    def read(self, d, index):
        t = self.tile()
        self.emit(d, f"{t} = dma.copy w.subspan(64, 64).at(({index}) % 4, 0) => shared;")
        term = f"{t}.at(i, j)"
        if self.rng.random() < 0.6:
            self.emit(d, f"apply {{i, j}} in g.span\n{'  ' * (d + 1)}g.at(i, j) = {t}.at(j, i);")
            term = "g.at(i, j)"
        self.emit(d, "apply {i, j} in h.span")
        self.emit(d + 1, f"h.at(i, j) = h.at(i, j) * 0.5f + {term};")

    def branch(self, d, index, budget, loops):
        c = self.rng.choice([f"({index}) % 2 == 0", f"flag.at(({index}) % 8) > 2", "x % 3 == 1"])
        self.emit(d, f"if ({c}) {{")
        self.body(d + 1, index, budget - 1, loops)
        if self.rng.random() < 0.4:
            self.emit(d, "} else {")
            self.body(d + 1, index, budget - 1, loops)
        self.emit(d, "}")

    def loop(self, d, index, budget, loops):
        name = f"k{len(self.lines)}"
        self.emit(d, f"foreach {name} in [{self.rng.choice(['n', '3', 'x % 4'])}] {{")
        self.body(d + 1, f"{index} + {name}", budget - 1, loops + 1)
        self.emit(d, "}")

    def body(self, d, index, budget, loops):
        for _ in range(self.rng.randint(1, 4)):
            k = self.rng.random()
            if k < 0.35:
                self.product(d, index)
            elif k < 0.6:
                self.read(d, index)
            elif k < 0.72:
                self.emit(d, "apply {i, j} in p.span")
                self.emit(d + 1, "p.at(i, j) = __to<bf16>(h.at(i, j) * 0.125f);")
            elif k < 0.86 and budget > 0:
                self.branch(d, index, budget, loops)
            elif k < 0.93 and budget > 0 and loops < 2:
                self.loop(d, index, budget, loops)
            elif self.rng.random() < 0.5:
                leave = self.rng.choice(["break", "continue"])
                self.emit(d, f"if (flag.at(({index}) % 8) == {self.rng.randint(0, 7)}) {leave};")

    def text(self):
        groups = self.rng.choice([1, 1, 2])
        for i in range(self.rng.randint(1, 2)):
            if self.rng.random() < 0.3:
                self.product(3, "0")
            rounds = self.rng.choice(["n", "n", "n + 1", "2"])
            self.emit(3, f"[[pipeline({self.rng.randint(1, 3)})]] foreach a{i} in [{rounds}] {{")
            self.body(4, f"a{i}", 2, 1)
            self.emit(3, "}")
        if self.rng.random() < 0.3:
            self.read(3, "1")
        return HEAD.format(rows=64 * groups, groups=groups) + "\n".join(self.lines) + "\n" + TAIL


def execute(words):
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def compare(baton, path, rounds, scratch):
    """None, "too large", or what went wrong."""
    inputs = ["m=uniform(-1,1)", "w=uniform(-1,1)", "flag=iota", f"n={rounds}"]
    run = [baton, "run", str(path), "--device=emu"] + [f"--arg={i}" for i in inputs]
    a, b = Path(f"{scratch}.a.npy"), Path(f"{scratch}.b.npy")
    for words in (["--schedule=adversarial", "--seeds=2", f"--out=o={a}"],
                  ["--no-specialise", f"--out=o={b}"]):
        status, text = execute(run + words)
        if status == 2 and ("of shared memory" in text or "buffers; at most" in text):
            return "too large"
        if status or "hazards   none" not in text:
            return text
    return None if a.read_bytes() == b.read_bytes() else "the results differ"


def main():
    baton, scratch, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    runs = large = bad = 0
    for seed in range(first, first + count):
        program = Program(seed)
        path = Path(f"{scratch}.co")
        path.write_text(program.text())
        for rounds in program.rng.sample([0, 1, 2, 3, 5], 2):
            why = compare(baton, path, rounds, scratch)
            runs += 1
            large += why == "too large"
            if why and why != "too large":
                bad += 1
                print(f"seed {seed}, n = {rounds}: {why}\n{path.read_text()}")
    print(f"{runs} runs, {large} too large, {bad} failed")
    return bad != 0


sys.exit(main())
