#!/usr/bin/env python3
"""Runs all tests, or those whose name contains one of the given words: tests/run.py [WORD ...]

A test is one file with its expectation inside:
  tests/unit/*_test.c      a program that prints "N passed, N failed"
  tests/**/*.{co,thr,tile,plan,ptx}   lines after `//` or `#` (without RUN: a .co file is built,
                           others are data of unit tests):
      RUN: PROGRAM WORDS   `baton` or a tool of tests/unit; %s is this file, %t a scratch file;
                           several RUN lines run one after the other (`build` alone: baton build)
      EXIT: N              status of the last RUN (default 0, or 2 when an `error:` is expected)
      CHECK: text          a line of the output contains text; several in this order
      NOT: text            no line of the output contains text
      GOLDEN:              the whole output equals FILE.golden (UPDATE=1 rewrites it)
      error: text          at the end of a line: this line is reported with this message
  bench/history.jsonl      instructions of a few builds, checks and emulations, counted by valgrind
  tests/cli/*.test         `$ command`, then `> text` as CHECK, `! text` as NOT, `? N` as EXIT
  kernels/*/*.co           on the emulator with the sizes of tests/kernels.list, and the PTX of each
                           through the assembler
  kernels/*/*.co, tests/cuda/*.co, tests/thread/*.thr   also as CUDA C++ through nvcc
  tests/bench/*.json       recorded measurements and what must be said of them: tests/bench_suite.py

UPDATE=1 rewrites golden files, JOBS=N sets the number of tests at a time. The last line is
"N passed, N failed", with ", N skipped" when an assembler or nvcc is missing."""
import argparse, concurrent.futures, os, re, shutil, subprocess, sys, tempfile, time
from pathlib import Path

import bench_suite

ROOT = Path(__file__).resolve().parent.parent

class Failure(Exception):
    pass


def execute(words, cwd=ROOT, timeout=240):
    """Runs a command; returns status and merged output."""
    try:
        p = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{words}: no end after {timeout} s")
    return p.returncode, p.stdout.decode("utf-8", "replace")


def expect(output, checks, absent, what):
    lines, at = output.splitlines(), 0
    for text in checks:
        while at < len(lines) and text not in lines[at]:
            at += 1
        if at == len(lines):
            raise Failure(f"{what}: missing (or out of order): {text}\n--- output:\n{output}")
        at += 1
    for text in absent:
        if text in output:
            raise Failure(f"{what}: must not appear: {text}\n--- output:\n{output}")


def program(build, words):
    """`baton` and the tools of tests/unit by name, or sh and a script."""
    if words[0] == "sh":
        return words
    if words[0] in ("build", "run"):
        words = ["baton"] + words
    path = build / "baton" if words[0] == "baton" else build / "tests" / words[0]
    if not path.exists():
        raise Failure(f"there is no program {words[0]}")
    return [str(path)] + words[1:]


def file_test(build, path, scratch):
    text = path.read_text()
    def marks(key):
        return re.findall(rf"(?:^|\s)(?://|#)\s*{key}:[ \t]*(.*?)[ \t]*$", text, re.M)
    errors = [(n, m.group(1)) for n, line in enumerate(text.splitlines(), 1)
              if (m := re.search(r"(?://|#)\s*error:\s*(.*?)\s*$", line))]
    runs = marks("RUN") or (["build %s --check-passes -o /dev/null"] if path.suffix == ".co" else [])
    status = [int(s) for s in marks("EXIT")] or [2 if errors else 0]
    for i, run in enumerate(runs):
        name = str(path.relative_to(ROOT))
        words = [w.replace("%s", name).replace("%t", str(scratch)) for w in run.split()]
        got, output = execute(program(build, words))
        wanted = status[0] if i == len(runs) - 1 else 0
        if got != wanted:
            raise Failure(f"{run}: exit status {got}, expected {wanted}\n--- output:\n{output}")
    expect(output, marks("CHECK"), marks("NOT"), runs[-1])
    for line, message in errors:
        found = [o for o in output.splitlines()
                 if re.match(rf".*:{line}(:\d+)?: (error|warning): ", o) and message in o]
        if not found:
            raise Failure(f"line {line}: expected the message: {message}\n--- output:\n{output}")
    reported = len(re.findall(r": error: ", output))
    if errors and reported != len(errors):
        raise Failure(f"{reported} errors reported, {len(errors)} expected\n--- output:\n{output}")
    if re.search(r"(?://|#)\s*GOLDEN:", text):
        golden = path.with_suffix(path.suffix + ".golden")
        if os.environ.get("UPDATE"):
            golden.write_text(output)
        elif not golden.exists() or golden.read_text() != output:
            raise Failure(f"differs from {golden.name} (UPDATE=1 rewrites)\n--- output:\n{output}")


def cli_test(build, path, scratch, sanitized=False):
    """SAN: what programs that a test compiles, and that load libraries of the build, need too."""
    san = "-fsanitize=address,undefined" if sanitized else ""
    for block in re.split(r"^\$ ", path.read_text(), flags=re.M)[1:]:
        command, *rest = block.splitlines()
        script = (f"export PATH='{build}':$PATH BUILD='{build}' T='{scratch}' SAN='{san}'\n"
                  f"{command}")
        got, output = execute(["sh", "-c", script])
        take = lambda c: [line[2:] for line in rest if line.startswith(c + " ")]
        wanted = int((take("?") or ["0"])[0])
        if got != wanted:
            raise Failure(f"$ {command}\nexit status {got}, expected {wanted}\n{output}")
        expect(output, take(">"), take("!"), "$ " + command)


def unit_test(path):
    got, output = execute([str(path)])
    if got or not re.search(r"\d+ passed, 0 failed$", output, re.M):
        raise Failure(f"exit status {got}\n--- output:\n{output[-4000:]}")


def kernel_test(build, kernel, sizes):
    words = [str(build / "baton"), "run", f"kernels/{kernel}.co", "--device=emu",
             "--schedule=adversarial"] + sizes
    got, output = execute(words)
    if got:
        raise Failure(f"{' '.join(words)}: exit status {got}\n{output}")
    expect(output, ["right"], ["unchecked"], " ".join(words))


def check_test(build, kernel):
    """The static check shows nothing broken in it; what stays open is told in the report."""
    got, output = execute([str(build / "baton"), "check", f"kernels/{kernel}.co", "--no-cache"])
    if got:
        raise Failure(f"baton check {kernel}: exit status {got}\n{output}")
    expect(output, [f"kernels/{kernel}.co: "], ["BROKEN"], f"baton check {kernel}")


def assemble_test(build, source, defines, scratch):
    """PTX that ptxas takes without a warning, a spill or a repair of its own."""
    ptx = f"{scratch}.ptx"
    for words in ([str(build / "baton"), "build", source, "--check-passes", "-o", ptx] + defines,
                  ["sh", "tools/assemble.sh", ptx]):
        got, output = execute(words)
        if got:
            raise Failure(output)


def clocks_test(build, source, scratch):
    """With clock reads, as `baton trace` runs it on a GPU."""
    for words in ([str(build / "tests" / "trace_tool"), "ptx", source, f"{scratch}.ptx"],
                  ["sh", "tools/assemble.sh", f"{scratch}.ptx"]):
        got, output = execute(words)
        if got:
            raise Failure(output)


def cuda_test(build, words, scratch):
    """What a command prints as CUDA C++ compiles without a warning or a spill."""
    got, output = execute(program(build, words + [f"{scratch}.cu"]))
    if got == 0:
        got, output = execute(["sh", "tools/cuda_check.sh", "compile", f"{scratch}.cu"])
    if got:
        raise Failure(output)


def count_test(build):
    """No build, check or emulation of the fixed list takes 10% more instructions than was recorded."""
    got, output = execute([str(build / "baton"), "bench", "--cpu", "--against-history"])
    if got:
        raise Failure(f"baton bench --cpu --against-history: exit status {got}\n{output}")
    expect(output, ["build attention/v4", "compar"], [], "baton bench --cpu --against-history")


def without_sets(build):
    """Was libisl missing when this was built?"""
    tool = build / "tests" / "sets_tool"
    return tool.exists() and "without libisl" in execute([str(tool), "kernels/learn/add.co"])[1]


# Valgrind does not run instrumented programs, and Python loads no instrumented library.
NOT_SANITIZED = ("bench-instructions.test", "measure.test")


def collect(build, sanitized):
    """Yields (name, function of a scratch path, None or the reason to skip)."""
    tag = "asan " if sanitized else ""
    valgrind = None if shutil.which("valgrind") else "no valgrind"
    if not sanitized:  # the longest first
        yield "instructions against the history", lambda s: count_test(build), valgrind
    for p in sorted((build / "tests").glob("*_test")):
        yield f"{tag}unit {p.name}", lambda s, p=p: unit_test(p), None
    missing = None if bench_suite.can_read(build / "tests" / "bench_tool") else "no libjansson"
    for name, test in bench_suite.tests(build):
        yield tag + name, lambda s, test=test: test(), missing
    for p in [] if sanitized else sorted((ROOT / "tests").glob("*/*_test.py")):
        if not os.access(p, os.X_OK):
            continue  # takes words of a tests/cli/*.test
        yield f"python {p.relative_to(ROOT)}", lambda s, p=p: unit_test(p), None
    for suffix in ("co", "thr", "tile", "plan", "ptx"):
        for p in sorted((ROOT / "tests").rglob(f"*.{suffix}")):
            text = p.read_text(errors="replace")
            if suffix == "co" or re.search(r"(//|#)\s*RUN:", text):
                skip = "no ptxas" if suffix == "ptx" and not shutil.which("ptxas") else None
                if "RUN: sets_tool" in text and without_sets(build):
                    skip = "no libisl"
                yield (f"{tag}{p.relative_to(ROOT)}", lambda s, p=p: file_test(build, p, s), skip)
    for p in sorted((ROOT / "tests/cli").glob("*.test")):
        skip = "no ptxas" if p.name == "audit.test" and not shutil.which("ptxas") else None
        if p.name == "sets.test" and without_sets(build):
            skip = "no libisl"
        if sanitized and p.name in NOT_SANITIZED:
            continue
        if p.name == "bench-instructions.test":
            skip = valgrind
        yield (f"{tag}{p.relative_to(ROOT)}", lambda s, p=p: cli_test(build, p, s, sanitized),
               skip)
    missing = None if shutil.which("ptxas") else "no ptxas"
    runs = [line for line in (ROOT / "tests/kernels.list").read_text().splitlines()
            if line[:1] != "#" and not (sanitized and line.endswith("# slow"))]
    for p in sorted((ROOT / "kernels").rglob("*.co")):
        kernel = str(p.relative_to(ROOT / "kernels").with_suffix(""))
        for run in [kernel] + [r for r in runs if r.split()[0] == kernel]:
            words = run.partition("#")[0].split()[1:]
            yield (" ".join([f"{tag}emulator", kernel] + words),
                   lambda s, k=kernel, w=words: kernel_test(build, k, w), None)
        if not sanitized:
            yield f"check {kernel}", lambda s, k=kernel: check_test(build, k), None
        types = {"attention/v1": ["CAUSAL=0"], "attention/v2": ["CAUSAL=0"],
                 "attention/v4": ["CAUSAL=0"], "gemm/gemm": ["ELEM=f16"],
                 "gemm/gemm_pipelined": ["ELEM=f16"],
                 "gemm/persistent": ["ELEM=f16", "FP8"],
                 "gdn/correct": ["VK=1", "REVERSE=1 STATE=f16 MATRIX=f16", "TF32=1 VK=1",
                                 "REVERSE=1 TF32=1", "REVERSE=1 TF32=1 MATRIX=f32 VK=1"]}
        for defines in [[]] + [[w for d in t.split() for w in ("-D", d)]
                               for t in types.get(kernel, [])]:
            if not sanitized:
                yield (f"ptxas {kernel} {' '.join(defines)}".rstrip(),
                       lambda s, p=p, d=defines: assemble_test(build, str(p), d, s), missing)
        if not sanitized:
            yield (f"ptxas {kernel} with clock reads",
                   lambda s, p=p: clocks_test(build, str(p), s), missing)
    if sanitized:
        return
    for folder in ("bench",) + tuple(f"tests/{f}" for f in (
            "docs", "exec", "hazard", "lang", "lower", "pipeline")):
        for p in sorted((ROOT / folder).glob("*.co")):
            if not re.search(r"// error:", p.read_text()):
                yield (f"ptxas {p.relative_to(ROOT)}",
                       lambda s, p=p: assemble_test(build, str(p), [], s), missing)
    missing = None if shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc") \
        else "no nvcc"
    for p in sorted((ROOT / "kernels").rglob("*.co")) + sorted((ROOT / "tests/cuda").glob("*.co")):
        text, name = p.read_text(), str(p.relative_to(ROOT))
        run = re.search(r"// RUN: build %s --emit=cuda -o /dev/null(.*)", text)
        words = ["build", name] + (run.group(1).split() if run else []) + ["--emit=cuda", "-o"]
        if not re.search(r"// error:", text):
            yield f"nvcc {name}", lambda s, w=words: cuda_test(build, w, s), missing
    for p in sorted((ROOT / "tests/thread").glob("*.thr")):
        if "error" not in p.name:
            words = ["thread_tool", "cuda", str(p.relative_to(ROOT))]
            yield f"nvcc {words[2]}", lambda s, w=words: cuda_test(build, w, s), missing


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default="build", help="folder with baton and tests/")
    options.add_argument("--asan", action="store_true", help="--build is a sanitizer build")
    options.add_argument("--sanitized", help="a second folder: the quicker tests run there too")
    options.add_argument("words", nargs="*")
    o = options.parse_args()
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=1"
    os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same results with and without a GPU
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    tests = list(collect(Path(o.build).resolve(), o.asan))
    if o.sanitized:
        tests += list(collect(Path(o.sanitized).resolve(), True))
    tests = [t for t in tests if not o.words or any(w in t[0] for w in o.words)]
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as folder:
        def one(numbered):
            number, (name, function, skip) = numbered
            if skip:
                return name, "skipped", skip
            started = time.time()
            try:
                function(Path(folder) / f"t{number}")
            except Exception as e:  # a broken test file must not hide the others
                return name, "failed", str(e) if isinstance(e, (Failure, AssertionError)) else repr(e)
            return name, "passed", f"{time.time() - started:.1f}"
        jobs = int(os.environ.get("JOBS", 0)) or os.cpu_count()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, result, text in pool.map(one, enumerate(tests)):
                count[result] += 1
                if result == "failed":
                    print(f"FAILED {name}\n    " + text.replace("\n", "\n    "), flush=True)
                elif os.environ.get("VERBOSE"):
                    print(f"{result} {name} ({text})", flush=True)
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
