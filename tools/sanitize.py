#!/usr/bin/env python3
"""Every kernel under the tools of NVIDIA's compute-sanitizer, on a machine with a Hopper GPU:

    make && python3 tools/sanitize.py [FILE.co[:SIZES] ...]     default: all of kernels/

Each kernel is launched once by `baton run --once` at small sizes, several processes at a time; a
FILE may name its sizes, as in "my.co:M=64 N=8". One line a kernel and size: what each tool found
(0; of racecheck errors and warnings, 1+2w), or why it says nothing: timeout, unsupported (by the
tool), no-end(STATUS) of the tool, not-run(STATUS) of the kernel. First the tools themselves are tried
on kernels that are wrong (tests/gpu/faults.cu, built by nvcc), and must find something.

The full texts go to $OUT/sanitize, or build/sanitize. Exit status 1 when a tool found something or
did not run, 3 when there is no compute-sanitizer."""
import argparse, concurrent.futures, os, re, shutil, signal, subprocess, sys, time
from pathlib import Path

import record

ROOT = Path(__file__).resolve().parent.parent
CUDA = "/usr/local/cuda/bin/"


def sizes(kernel):
    """Sizes that reach every path: edges of tiles, several key tiles, and for persistent kernels more
    tiles than the GPU has multiprocessors. `kernel`: path below kernels/."""
    if kernel.startswith("attention/v3"):
        return ["B=2 H=35 S=257", "B=1 H=3 S=640"]
    if kernel.startswith("attention/"):
        return ["B=1 H=3 S=257", "B=1 H=1 S=640"]
    if kernel.startswith("gemm/") and not kernel.endswith("/gemm.co"):
        return ["M=264 N=520 K=200", "M=2048 N=2304 K=128"]
    if kernel.startswith("gemm/"):
        return ["M=200 N=264 K=320", "M=3 N=5 K=7"]
    return [""]


def verdict(text, status, ran):
    """What one run of a tool says, from its text and exit status; None: it did not end in time.
    `ran`: what the program prints when its kernel was launched."""
    if status is None:
        return "timeout"
    races = re.findall(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)", text)
    errors = re.findall(r"ERROR SUMMARY: (\d+) errors?", text)
    if re.search(r"Internal Sanitizer Error|is not supported", text):
        return "unsupported"
    if not races and not errors:
        return f"no-end({status})"
    found = f"{races[-1][0]}+{races[-1][1]}w" if races else errors[-1]
    if found not in ("0", "0+0w"):
        return found
    return "0" if status == 0 and ran in text else f"not-run({status})"


def run(sanitizer, tool, command, log, limit, ran):
    """Errors that calls of the driver return are none of the kernel's, and one is asked for at each load:
    the parameters of a function are counted by asking until there is none (rt/cuda.c)."""
    started = time.monotonic()
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    p = subprocess.Popen([sanitizer, "--tool", tool, *options, *command], stdout=subprocess.PIPE, cwd=ROOT,
                         stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        out, status = p.communicate(timeout=limit)[0], p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)  # the tool and the program that it started
        out, status = p.communicate()[0], None
    text = out.decode("utf-8", "replace")
    log.write_text(text)
    return verdict(text, status, ran), time.monotonic() - started


def find(program):
    return shutil.which(program) or shutil.which(CUDA + program)


def try_tools(pool, sanitizer, tools, folder, limit):
    """Lines about tools that find nothing in a kernel that is wrong; empty when all do."""
    nvcc = find("nvcc")
    if not nvcc:
        return ["the tools were not tried on wrong kernels: no nvcc"]
    program = folder / "faults"
    subprocess.run([nvcc, "-gencode", "arch=compute_90a,code=sm_90a", "-o", str(program),
                    str(ROOT / "tests/gpu/faults.cu")], check=True)
    jobs = {t: pool.submit(run, sanitizer, t, [str(program), t], folder / f"faults.{t}.txt", limit, "")
            for t in tools if t in ("memcheck", "racecheck", "synccheck")}
    program_says = {t: j.result()[0] for t, j in jobs.items()}
    return [f"{t} says {said} of a kernel that is wrong; do not believe it"
            for t, said in program_says.items() if not re.match(r"[1-9]", said)]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("kernel", nargs="*")
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--tools", default="memcheck,racecheck,synccheck")
    options.add_argument("--limit", type=float, default=120, help="seconds of one run")
    options.add_argument("--jobs", type=int, default=8)
    options.add_argument("--sanitizer", default=find("compute-sanitizer"))
    record.option(options)
    o = options.parse_args()
    if not o.sanitizer:
        print("there is no compute-sanitizer")
        return 3
    folder = Path(os.environ.get("OUT") or ROOT / "build") / "sanitize"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tools = o.tools.split(",")
    cases = []
    for item in o.kernel or sorted(map(str, ROOT.glob("kernels/*/*.co"))):
        file, _, given = item.partition(":")
        known = str(Path(file).resolve()).removeprefix(f"{ROOT}/kernels/")
        cases += [(file, s) for s in ([given] if given else sizes(known))]
    pool = concurrent.futures.ThreadPoolExecutor(o.jobs)
    notes = try_tools(pool, o.sanitizer, tools, folder, o.limit)
    jobs = {}
    for i, (file, given) in enumerate(cases):
        for tool in tools:
            command = [f"{o.build}/baton", "run", file, "--device=cuda:0", "--once", *given.split()]
            log = folder / f"{Path(file).stem}-{i}.{tool}.txt"
            jobs[i, tool] = pool.submit(run, o.sanitizer, tool, command, log, o.limit, "launched once")
    said_of = {t: [] for t in tools}
    lines = [f"{'kernel':>24} {'sizes':<20} | " + "  ".join(f"{t:>18}" for t in tools)]
    clean = True
    for i, (file, given) in enumerate(cases):
        cells = []
        for tool in tools:
            said, seconds = jobs[i, tool].result()
            clean &= said == "0"
            said_of[tool].append(said)
            cells.append(f"{said:>10} {seconds:5.1f} s")
        lines.append(f"{Path(file).stem:>24} {given or 'as in the contract':<20} | " + "  ".join(cells))
        print(("\n".join(lines) if i == 0 else lines[-1]), flush=True)
    lines += notes + ["clean" if clean else "NOT CLEAN"]
    print("\n".join(lines[-1 - len(notes):]))
    (folder / "table.txt").write_text("\n".join(lines) + "\n")
    if o.record:
        rows = [[t, len(all_said), sum(s != "0" for s in all_said)] for t, all_said in said_of.items()]
        made = record.table(["tool", "runs", "not_clean"], rows, title="compute-sanitizer", notes=notes)
        record.write(o.record, [made], record.versions(o.build))
    return int(not clean or any("believe" in n for n in notes))


if __name__ == "__main__":
    sys.exit(main())
