#!/usr/bin/env python3
"""damage.py BATON CUBIN N: audits N damaged copies of an assembled file. Each must end with status
0, 1 or 2 within ten seconds. The damage is the same in every run."""
import random, subprocess, sys, tempfile

baton, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
good = open(path, "rb").read()
with tempfile.TemporaryDirectory() as folder:
    for seed in range(count):
        dice = random.Random(seed)
        data = bytearray(good)
        if seed % 4 == 0:
            del data[dice.randrange(len(data)):]
        for _ in range(dice.choice((1, 4, 64, 1024))):
            # Heads and tables are few among many bytes: half of the damage goes there.
            end = len(data) if dice.random() < 0.5 else min(len(data), 64)
            start = 0 if dice.random() < 0.5 else max(0, len(data) - 2048)
            if data:
                data[min(dice.randrange(max(1, end)) + start, len(data) - 1)] = dice.randrange(256)
        name = f"{folder}/damaged.cubin"
        open(name, "wb").write(data)
        status = subprocess.run([baton, "audit", name, "--list"], timeout=10,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        if status not in (0, 1, 2):
            sys.exit(f"seed {seed}: exit status {status}")
print("no crash")
