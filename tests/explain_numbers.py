#!/usr/bin/env python3
"""Every number on the page of `baton build --explain` against the PTX itself, and against `ptxas -v`
where there is one: tests/explain_numbers.py BATON FILE.co [WORDS of build ...]

From the PTX: threads, registers at entry and of the roles, shared memory, offsets and slots of the
mbarriers, their arrival counts, the bytes that are announced, products, named barriers, boxes of the
tensor maps. Prints `N numbers right` or what differs; exit status 1 then."""
import re, shutil, subprocess, sys, tempfile
from collections import Counter

right, wrong = 0, []


def same(what, page, ptx):
    global right
    if page == ptx:
        right += 1
    else:
        wrong.append(f"{what}: the page says {page}, the PTX {ptx}")


def kernels_of(page):
    page, _, assembler = page.partition("\nassembler\n")
    parts = re.split(r"^kernel (\w+)\n", page, flags=re.M)[1:]
    return {parts[i]: " ".join(parts[i + 1].split()) for i in range(0, len(parts), 2)}, assembler


def entries_of(ptx):
    parts = re.split(r"^\.visible \.entry (\w+)\(", ptx, flags=re.M)[1:]
    return {parts[i]: parts[i + 1] for i in range(0, len(parts), 2)}


def ints(pattern, text):
    return [int(x) for x in re.findall(pattern, text)]


def check_barriers(name, page, ptx, base):
    """Rings: offset, slots, arrivals; bytes of each announcement."""
    inits = Counter()
    count = {}
    for register, n in re.findall(r"mbarrier\.init\.shared\.b64 \[%(\w+)_base(?:\+\d+)?\], (\d+);", ptx):
        inits[register] += 1
        count[register] = int(n)
    rings = re.findall(r"(\w+),? (\d+) slots?, mbarrier, (\d+) bytes at (\d+)", page)
    same(f"{name}: names of mbarriers", sorted(r[0] for r in rings), sorted(inits))
    for ring, slots, size, offset in rings:
        same(f"{name}: slots of {ring}", int(slots), inits[ring])
        same(f"{name}: bytes of {ring}", int(size), 8 * inits[ring])
        same(f"{name}: offset of {ring}", int(offset), base.get(ring))
        body = page[page.index(f"at {offset} ") :]
        body = body[: body.index("waited for by")]
        # Announcements arrive once each: their count is 1 for one thread of a role.
        arrivals = ints(r"(\d+) arrivals?", body)
        if arrivals:
            same(f"{name}: arrivals of {ring}", arrivals[0], count[ring])
        elif "one thread of" in body:
            same(f"{name}: arrivals of {ring}", 1, min(count[ring], 1))
    announced = ints(r":\d+: (\d+) bytes,", page)
    same(f"{name}: announced bytes", sorted(set(announced)),
         sorted(set(ints(r"expect_tx\.shared::cta\.b64 (?:_, )?\[.*?\], (\d+);", ptx))))


def check_kernel(name, page, ptx, plan):
    threads = ints(r"\.reqntid (\d+), 1, 1", ptx)[0]
    same(f"{name}: threads", ints(r"block (\d+) threads", page)[0], threads)
    same(f"{name}: warps", ints(r"threads, (\d+) warps;", page)[0], threads // 32)
    cluster = ints(r"\.reqnctapercluster (\d+)", ptx) or [1]
    same(f"{name}: cluster", (ints(r"clusters of (\d+) CTAs", page) or [1])[0], cluster[0])
    entry = ints(r"\.maxnreg (\d+)", ptx)
    if entry:
        same(f"{name}: registers at entry", ints(r"(\d+) per thread at entry", page)[0], entry[0])
    moved = set(ints(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+);", ptx))
    same(f"{name}: registers of roles", set(ints(r"\d+ threads, (\d+) registers", page)), moved)
    head = re.search(rf"^//@ kernel {name} grid .* block (\d+) cluster \d+ smem (\d+)", plan, re.M)
    same(f"{name}: shared memory", ints(r"shared (\d+) bytes of", page)[0], int(head[2]))
    base = {r: int(o) for r, o in re.findall(r"add\.s32 %(\w+)_base, %smem, (\d+);", ptx)}
    for tile, size, offset in re.findall(r"(\w+) \d+ x \w+\[[\d, ]+\] \w+, (\d+) bytes at (\d+)", page):
        if tile in base:
            same(f"{name}: offset of {tile}", int(offset), base[tile])
    check_barriers(name, page, ptx, base)
    same(f"{name}: products", sum(ints(r"(\d+) wgmma m64", page)),
         len(re.findall(r"\bwgmma\.mma_async", ptx)))
    same(f"{name}: shapes of products", set(re.findall(r"wgmma (m64n\d+k\d+)", page)),
         set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k\d+)", ptx)))
    if "in a register" not in page.partition("other barriers")[2]:
        named = {(int(i), int(n)) for i, n in re.findall(r"named (\d+) (\d+) threads", page)}
        named |= {(0, int(n)) for n in re.findall(r"the block's (\d+) threads", page)}
        same(f"{name}: named barriers", named,
             {(int(i), int(n)) for i, n in re.findall(r"\bbar\.(?:sync|arrive) (\d+), (\d+);", ptx)})
    part = plan[head.start() :].partition("//@ end")[0]
    boxes = [[int(x) for x in b.split(", ")][::-1] for b in re.findall(r"box \((.*?)\)", part)]
    shown = [[int(x) for x in b.split(" x ")] for b in re.findall(r"TMA box (\d+(?: x \d+)*) ", page)]
    same(f"{name}: boxes", sorted(shown), sorted(boxes))


def check_assembler(report, text):
    """Registers, spills and barriers that ptxas reports itself, and what they leave room for."""
    for name, body in re.findall(r"entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", report, re.S):
        line = re.search(rf"^  {name} +(.*)$", text, re.M)[1]
        same(f"{name}: registers by ptxas", ints(r"(\d+) registers", line),
             ints(r"Used (\d+) registers", body))
        spills = ints(r"(\d+) bytes spill", body)
        same(f"{name}: spills by ptxas", [int(x) for x in re.findall(r"SPILLS (\d+) \+ (\d+)", line)]
             or [0, 0], spills)
        same(f"{name}: barriers by ptxas", ints(r"(\d+) barriers?;", line),
             ints(r"used (\d+) barriers", body))


def occupancy(threads, registers, shared):
    """CTAs on one multiprocessor, from the table of compute capability 9.0."""
    warp = -(-registers * 32 // 256) * 256
    by_registers = 16384 // warp * 4 // (threads // 32)
    return min(by_registers, 2048 // threads, 233472 // (shared + 1024), 32)


def main():
    baton, words = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/k.ptx"
        run = subprocess.run([baton, "build", *words, "--explain", "-o", path], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if run.returncode:
            sys.exit(run.stderr)
        ptx = open(path).read()
        pages, assembler = kernels_of(run.stdout)
        entries = entries_of(ptx)
        same("kernels", sorted(pages), sorted(entries))
        for name in entries:
            check_kernel(name, pages[name], entries[name], ptx)
        if shutil.which("ptxas"):
            report = subprocess.run(["ptxas", "-arch=sm_90a", "-v", "-o", "/dev/null", path], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            check_assembler(report, assembler)
            for name in entries:
                line = re.search(rf"^  {name} +(.*)$", assembler, re.M)[1]
                same(f"{name}: CTAs of an SM", ints(r"(\d+) CTAs? \(", line)[0],
                     occupancy(ints(r"\.reqntid (\d+)", entries[name])[0],
                               ints(r"(\d+) registers", line)[0],
                               ints(r"shared (\d+) bytes", pages[name])[0]))
    print("\n".join(wrong) if wrong else f"{right} numbers right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
