#!/usr/bin/env python3
"""damage.py BATON CUBIN N: audits N damaged copies of an assembled file, and copies with tables that
end too early at the end of the file. Each must end with status 0, 1 or 2 within ten seconds. The
damage is the same in every run."""
import random, struct, subprocess, sys, tempfile

baton, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
good = open(path, "rb").read()


def random_damage(seed):
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
    return data


def moved_to_end(wanted, content):
    """The file with other content for one section, behind all else."""
    data = bytearray(good)
    table, = struct.unpack_from("<Q", good, 40)
    count, names = struct.unpack_from("<HH", good, 60)
    texts, = struct.unpack_from("<Q", good, table + names * 64 + 24)
    for at in range(table, table + count * 64, 64):
        name = texts + struct.unpack_from("<I", good, at)[0]
        if good[name:good.index(0, name)] == wanted:
            struct.pack_into("<QQ", data, at + 24, len(data), len(content))
            return data + content
    sys.exit(f"{path} has no section {wanted.decode()}")


# A symbol of one byte; a table of lines that ends behind each field of its head.
line_head = struct.pack("<HIBBBbB", 4, 1, 1, 1, 1, -1, 4) + b"\x0a"
early = [moved_to_end(b".symtab", bytes(24) + b"\1")]
for length in range(len(line_head) + 1):
    head = struct.pack("<I", length) + line_head[:length]
    early.append(moved_to_end(b".debug_line", head))
with tempfile.TemporaryDirectory() as folder:
    for i, data in enumerate(early + [random_damage(seed) for seed in range(count)]):
        name = f"{folder}/damaged.cubin"
        open(name, "wb").write(data)
        status = subprocess.run([baton, "audit", name, "--list"], timeout=10,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        if status not in (0, 1, 2):
            sys.exit(f"copy {i}: exit status {status}")
print("no crash")
