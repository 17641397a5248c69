#!/usr/bin/env python3
"""Speed of kernels that [[pipeline]] made, beside the ones with roles by hand, on a GPU:
tools/pipeline_speed.py [--build build] [--rounds 3] [--gpu 0] [--record FILE.json]

Each round runs both of a pair one after the other through `baton run`, which checks the result first;
the table has medians over the rounds and their ratio. Exit status 1 when a run was wrong or failed,
or when a ratio is below 0.97."""
import argparse, re, statistics, subprocess, sys

import record

PAIRS = [("attention/v2", "attention/v1_pipelined",
          ["B=4 H=32 S=4096", "B=4 H=32 S=8192", "B=4 H=32 S=16384"]),
         ("gemm/persistent", "gemm/gemm_pipelined", ["M=4096 N=4096 K=4096", "M=8192 N=8192 K=8192"])]
LEAST = 0.97


def speed(a, kernel, sizes):
    """TFLOPS of one run, or None with a word about it."""
    words = [f"{a.build}/baton", "run", f"kernels/{kernel}.co", f"--device=cuda:{a.gpu}",
             "--warmup=50", "--repeat=200"] + sizes.split()
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.search(r"^\s*speed\s+([0-9.]+) TFLOPS", p.stdout, re.M)
    if p.returncode or not found:
        print(f"{kernel} {sizes}: exit status {p.returncode}\n{p.stdout}", file=sys.stderr)
        return None
    return float(found.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpu", type=int, default=0)
    record.option(parser)
    a = parser.parse_args()
    failed, rows = False, []
    print(f"{'sizes':24} {'by hand':>10} {'pipelined':>10} {'ratio':>7}")
    for hand, made, all_sizes in PAIRS:
        for sizes in all_sizes:
            runs = [(speed(a, hand, sizes), speed(a, made, sizes)) for _ in range(a.rounds)]
            if any(x is None or y is None for x, y in runs):
                failed = True
                continue
            x, y = (statistics.median(column) for column in zip(*runs))
            failed |= y / x < LEAST
            rows.append([hand, made, sizes, x, y, y / x, ""])
            print(f"{sizes:24} {x:10.1f} {y:10.1f} {y / x:7.3f}   {hand}, {made}", flush=True)
    if a.record:
        columns = ["by_hand", "by_pipeline", "sizes", "hand:TFLOPS", "made:TFLOPS", "ratio", "note"]
        title = f"kernels that [[pipeline]] made, medians of {a.rounds} runs each, in turns"
        record.write(a.record, [record.table(columns, rows, title=title)], record.versions(a.build))
    return 1 if failed else 0


sys.exit(main())
