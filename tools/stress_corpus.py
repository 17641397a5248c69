#!/usr/bin/env python3
"""Every kernel of tests/race and its right twin under `baton stress`, on a machine with a Hopper GPU:

    make && python3 tools/stress_corpus.py [--write] [--record FILE.json] [--launches 400] [--minutes 10] [WORD ...]

One line a kernel: its verdict and its twin's. WORDS select files. --write puts the verdicts, with
date, GPU and driver, into tests/race/gpu.list, which the table of docs/verification.md reads. The
full reports go to $OUT/stress, or build/stress. Exit status 1 when a right version differs, hangs
or dies, 3 without a GPU."""
import argparse, datetime, os, re, subprocess, sys, time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import record

ROOT = Path(__file__).resolve().parent.parent
RACE = ROOT / "tests/race"
VERDICT = re.compile(r"^\S+: (\w+) \((.*)\)$", re.M)
DEVICE = re.compile(r"^device +(.*)$", re.M)


def head(path, key):
    mark = "#" if path.suffix == ".thr" else "//"
    m = re.search(rf"^{mark} {key}: (.*)$", path.read_text(), re.M)
    return m and m.group(1).strip()


def jobs(words):
    """(name in the list, words for baton, is it right), bugs and twins side by side."""
    out = []
    for path in sorted(RACE.rglob("*.thr")) + sorted(RACE.rglob("*.co")):
        name = str(path.relative_to(RACE).with_suffix(""))
        if words and not any(w in name for w in words):
            continue
        right = path.suffix == ".thr" and not re.search(r"^# race ", path.read_text(), re.M)
        out.append((name, [str(path.relative_to(ROOT))], right))
        twin = head(path, "twin")
        if path.suffix == ".co" and twin:
            out.append((f"{name} {twin}", [str(path.relative_to(ROOT))] + twin.split(), True))
    return out


class Runner:
    def __init__(self, options):
        self.o, self.end = options, time.monotonic() + 60 * options.minutes
        self.folder = Path(os.environ.get("OUT", ROOT / "build")) / "stress"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.device = None

    def run(self, job):
        name, words, _ = job
        left = int(self.end - time.monotonic())
        if left < 5:
            return "no time left", ""
        command = [str(Path(self.o.build).resolve() / "baton"), "stress", *words, f"--device={self.o.device}",
                   f"--launches={self.o.launches}", f"--time-limit={min(left, self.o.seconds)}",
                   "--hang-limit=4"]
        try:
            p = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, timeout=left + 60)
            text, status = p.stdout.decode("utf-8", "replace"), p.returncode
        except subprocess.TimeoutExpired as e:
            text, status = (e.stdout or b"").decode("utf-8", "replace"), None
        (self.folder / (re.sub(r"\W", "_", name) + ".txt")).write_text(text)
        if m := DEVICE.search(text):
            self.device = m.group(1)
        m = VERDICT.search(text)
        if m:
            return m.group(1), m.group(2)
        if status == 3 and "no GPU here" in text:
            return "no GPU", ""
        if status == 2:
            return "refused", next((l for l in text.splitlines() if "error" in l), "")[:100]
        return f"no verdict ({status})", text.strip().splitlines()[-1][:100] if text.strip() else ""


def write_record(o, counts, kernels, bad, seconds):
    """`counts`: (is it right, verdict) -> kernels."""
    corpus = record.table(["kernels", "launches", "not_clean", "seconds:s"],
                          [[kernels, o.launches, bad, round(seconds)]], "corpus", "tests/race under baton stress")
    verdicts = record.table(["version", "verdict", "kernels"],
                            [["right" if right else "bug", v, n] for (right, v), n in sorted(counts.items())],
                            "verdicts", "what it said of them")
    record.write(o.record, [corpus, verdicts], record.versions(o.build))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default=str(ROOT / "build"))
    options.add_argument("--device", default="cuda:0")
    options.add_argument("--launches", type=int, default=400)
    options.add_argument("--seconds", type=int, default=20, help="for one kernel")
    options.add_argument("--minutes", type=float, default=10, help="for all")
    options.add_argument("--jobs", type=int, default=4)
    options.add_argument("--write", action="store_true")
    options.add_argument("words", nargs="*")
    record.option(options)
    o = options.parse_args()
    runner, kernels, started = Runner(o), jobs(o.words), time.monotonic()
    with ThreadPoolExecutor(o.jobs) as pool:
        results = list(pool.map(runner.run, kernels))
    bad = 0
    for (name, _, right), (verdict, how) in zip(kernels, results):
        wrong = right and verdict not in ("clean", "inconclusive", "refused")
        bad += wrong
        print(f"{name:40} {'right' if right else 'bug  '} {verdict:14} {how}{'  <--' if wrong else ''}")
    print(f"{len(kernels)} kernels on {runner.device}; {bad} right ones not clean")
    if any(v == "no GPU" for v, _ in results):
        return 3
    if o.write:
        lines = [f"# baton stress, {datetime.date.today()}, {runner.device}; {o.launches} launches each"]
        lines += [f"{name}: {verdict}" for (name, _, _), (verdict, _) in zip(kernels, results)]
        (RACE / "gpu.list").write_text("\n".join(lines) + "\n")
    if o.record:
        counts = Counter((right, verdict) for (_, _, right), (verdict, _) in zip(kernels, results))
        write_record(o, counts, len(kernels), bad, time.monotonic() - started)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
