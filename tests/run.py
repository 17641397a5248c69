#!/usr/bin/env python3
"""Runs all tests, or those whose name contains one of the given words: tests/run.py [WORD ...]

A test is one file with its expectation inside:
  tests/unit/*_test.c      a program that prints "N passed, N failed"
  tests/**/*.{co,thr,tile,plan,ptx}   lines, after `//` or `#` (files of other kinds than .co
                           without RUN are data of unit tests):
      RUN: PROGRAM WORDS   `baton` or a tool of tests/unit; %s is this file, %t a scratch file;
                           several RUN lines run one after the other (`build` alone: baton build)
      EXIT: N              status of the last RUN (default 0, or 2 when an `error:` is expected)
      CHECK: text          a line of the output contains text; several in this order
      NOT: text            no line of the output contains text
      GOLDEN:              the whole output equals FILE.golden (UPDATE=1 rewrites it)
      error: text          at the end of a line: this line is reported with this message
  tests/cli/*.test         `$ command`, then `> text` as CHECK, `! text` as NOT, `? N` as EXIT
  kernels/*/*.co           on the emulator over odd sizes, and the PTX through the assembler

UPDATE=1 rewrites golden files, JOBS=N sets the number of tests at a time. The last line is
"N passed, N failed", with ", N skipped" when an assembler is missing."""
import argparse, concurrent.futures, os, re, shutil, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {  # beside the defaults of each contract; "slow" ones are left out under the sanitizers
    "attention/v1": ["B=1 H=1 S=1", "B=1 H=1 S=127", "B=2 H=1 S=129", "B=1 H=3 S=200",
                     "B=0 H=1 S=8", "B=1 H=1 S=0", "slow B=2 H=2 S=257", "slow B=1 H=1 S=640"],
    "gemm/gemm": ["M=1 N=8 K=8", "M=129 N=136 K=72", "M=64 N=64 K=0", "M=0 N=8 K=8",
                  "M=3 N=5 K=7", "slow M=256 N=256 K=264", "M=33 N=40 K=64 -D ELEM=f16",
                  "M=129 N=248 K=72 -D TILE_N=120", "M=70 N=264 K=200 -D TILE_N=256 -D TILE_K=128",
                  "M=65 N=24 K=136 -D TILE_N=8 -D TILE_K=192"],
    "learn/copy": ["M=1 N=1", "M=64 N=64", "M=65 N=63", "M=3 N=129", "M=0 N=5", "M=7 N=0"],
    "learn/add": ["N=1", "N=255", "N=257", "N=0"],
    "learn/rowsum": ["M=1 N=1", "M=64 N=64", "M=65 N=129", "M=1 N=1000", "M=0 N=4", "M=5 N=0"],
}


class Failure(Exception):
    pass


def execute(words, cwd=ROOT, timeout=240):
    """Runs a command; returns status and merged output."""
    try:
        p = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(map(str, words))}: no end after {timeout} s")
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
    """`baton` and the tools of tests/unit by name; anything else is a bug of the test."""
    if words[0] in ("build", "run"):
        words = ["baton"] + words
    path = build / "baton" if words[0] == "baton" else build / "tests" / words[0]
    if words[0] == "sh":
        return words
    if not path.exists():
        raise Failure(f"there is no program {words[0]}")
    return [str(path)] + words[1:]


def file_test(build, path, scratch):
    text = path.read_text()
    def marks(key):
        return re.findall(rf"(?:^|\s)(?://|#)\s*{key}:[ \t]*(.*?)[ \t]*$", text, re.M)
    errors = [(n, m.group(1)) for n, line in enumerate(text.splitlines(), 1)
              if (m := re.search(r"(?://|#)\s*error:\s*(.*?)\s*$", line))]
    runs = marks("RUN") or (["build %s -o /dev/null"] if path.suffix == ".co" else [])
    if not runs:
        raise Failure("has no RUN line")
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


def cli_test(build, path, scratch):
    blocks = re.split(r"^\$ ", path.read_text(), flags=re.M)[1:]
    env_path = f"{build}:{os.environ['PATH']}"
    for block in blocks:
        command, *rest = block.splitlines()
        script = f"export PATH='{env_path}' BUILD='{build}' T='{scratch}'\n{command}"
        got, output = execute(["sh", "-c", script])
        take = lambda c: [line[2:] for line in rest if line.startswith(c + " ")]
        wanted = int((take("?") or ["0"])[0])
        if got != wanted:
            raise Failure(f"$ {command}\nexit status {got}, expected {wanted}\n{output}")
        expect(output, take(">"), take("!"), "$ " + command)


def unit_test(path):
    got, output = execute([str(path)])
    m = re.findall(r"(\d+) passed, (\d+) failed$", output, re.M)
    if not m or (got != 0) != (int(m[-1][1]) != 0):
        raise Failure(f"exit status {got}\n--- output:\n{output[-4000:]}")
    if int(m[-1][1]):
        raise Failure(output[-4000:])


def kernel_test(build, kernel, size):
    words = [str(build / "baton"), "run", f"kernels/{kernel}.co", "--device=emu",
             "--schedule=adversarial"] + size.split()
    got, output = execute(words)
    if got:
        raise Failure(f"{' '.join(words)}: exit status {got}\n{output}")
    expect(output, ["right"], ["unchecked"], " ".join(words))


def assemble_test(build, kernel, defines, scratch):
    got, output = execute([str(build / "baton"), "build", f"kernels/{kernel}.co", "-o",
                           f"{scratch}.ptx"] + defines)
    if got == 0:
        got, output = execute(["sh", "tools/assemble.sh", f"{scratch}.ptx"])
    if got:
        raise Failure(output)


def collect(build, sanitized):
    """Yields (name, function of a scratch path, None or the reason to skip)."""
    tag = "asan " if sanitized else ""
    for p in sorted((build / "tests").glob("*_test")):
        yield f"{tag}unit {p.name}", lambda s, p=p: unit_test(p), None
    for suffix in ("co", "thr", "tile", "plan", "ptx"):
        for p in sorted((ROOT / "tests").rglob(f"*.{suffix}")):
            if suffix == "co" or re.search(r"(//|#)\s*RUN:", p.read_text(errors="replace")):
                yield (f"{tag}{p.relative_to(ROOT)}", lambda s, p=p: file_test(build, p, s), None)
    for p in sorted((ROOT / "tests/cli").glob("*.test")):
        yield f"{tag}{p.relative_to(ROOT)}", lambda s, p=p: cli_test(build, p, s), None
    missing = None if shutil.which("ptxas") or os.path.exists("/usr/local/cuda/bin/ptxas") \
        else "no ptxas"
    for p in sorted((ROOT / "kernels").rglob("*.co")):
        kernel = str(p.relative_to(ROOT / "kernels").with_suffix(""))
        for size in [""] + SIZES.get(kernel, []):
            slow, size = size.startswith("slow"), size.removeprefix("slow ")
            if not (slow and sanitized):
                yield (f"{tag}emulator {kernel} {size}".rstrip(),
                       lambda s, k=kernel, z=size: kernel_test(build, k, z), None)
        for defines in [[]] + ([["-D", "ELEM=f16"]] if kernel == "gemm/gemm" else []):
            if not sanitized:
                yield (f"ptxas {kernel} {' '.join(defines)}".rstrip(),
                       lambda s, k=kernel, d=defines: assemble_test(build, k, d, s), missing)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default="build", help="folder with baton and tests/")
    options.add_argument("--sanitized", help="a second folder: run the quicker tests there too")
    options.add_argument("--asan", action="store_true", help="--build is a sanitizer build")
    options.add_argument("words", nargs="*")
    o = options.parse_args()
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=1"
    os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("TEST_GPU", "")
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
            except Failure as f:
                return name, "failed", str(f)
            except Exception as e:  # a broken test file must not hide the others
                return name, "failed", f"{type(e).__name__}: {e}"
            return name, "passed", f"{time.time() - started:.1f}"
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", 0)) or
                                                   os.cpu_count()) as pool:
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
