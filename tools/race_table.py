#!/usr/bin/env python3
"""The table of docs/verification.md: every kernel of tests/race under every tier that exists.

    python3 tools/race_table.py [--build build] [--write | --check]

Prints the table; --write puts it between the two markers of the page, --check fails unless it stands
there already. It comes from the heads of the kernels (race, rule, place, tiers, twin, assembler) and
from runs of the tiers: a tier that a head claims must report the kernel's rule, no tier may report the
twin. Without ptxas the heads are believed about it and about machine code. Exit status 1 on any
difference, each with a line."""
import argparse, os, re, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RACE = ROOT / "tests/race"
PAGE = ROOT / "docs/verification.md"
BEGIN, END = "<!-- races: begin (tools/race_table.py --write) -->", "<!-- races: end -->"
TIERS = ["build", "emulator", "explore", "check", "audit", "stress"]
NOT_BUILT = "not built yet"
GPU_LIST, NOT_RUN = RACE / "gpu.list", "not run"
os.environ["PATH"] += ":/usr/local/cuda/bin"
PTXAS = shutil.which("ptxas")


def run(*words):
    """Status and merged output of a command in the root folder."""
    p = subprocess.run([str(w) for w in words], cwd=ROOT, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120)
    return p.returncode, p.stdout.decode("utf-8", "replace")


class Kernel:
    """One file of the corpus with its head; `twin`: the words that name the right version."""

    def __init__(self, path):
        self.path, self.name = path.relative_to(ROOT), path.stem
        self.thread = path.suffix == ".thr"
        mark = "#" if self.thread else "//"
        self.head, key = {}, None
        for line in path.read_text().splitlines():
            if not line.startswith(mark) or line.startswith("//!"):
                break
            if m := re.match(rf"{mark} (\w+)(?: (\d+))?: (.*)", line):
                key = m.group(1)
                self.head[key] = m.group(3)
                if key == "race":
                    self.kind = int(m.group(2))
            elif key and (m := re.match(rf"{mark}     +(\S.*)", line)):
                self.head[key] += " " + m.group(1)
        self.buggy = "race" in self.head
        expected = re.search(rf"^{mark} (?:hazard|maybe|CHECK): \S*{re.escape(path.name)}:(\d+):",
                             path.read_text(), re.M)
        self.expected = expected and f"line {expected.group(1)}"
        self.text = self.head.get("rule", "none").partition(" (")[0]  # as reports say it
        numbers = re.findall(r"O\d+|deadlock|^none", self.head.get("rule", "none"))
        self.rules = numbers or [self.text]    # any of them in a report is the right one
        self.claims = self.head.get("tiers", "").split()

    def twin_name(self):
        """As the record of GPU runs names the right version."""
        return Path(self.head["twin"]).stem if self.thread else self.name + " " + self.head["twin"]

    def words(self, right):
        """The file, or its twin, as arguments of baton."""
        if self.thread:
            return [self.path.parent / self.head["twin"] if right else self.path]
        return [self.path] + (self.head["twin"].split() if right else [])


def listed(name, form):
    """A list of the corpus: number -> the parts that `form` finds behind it."""
    lines = (RACE / name).read_text().splitlines()
    return {int(m.group(1)): m.groups()[1:] for l in lines if (m := re.match(r"(\d+) " + form, l))}


class Tiers:
    """Runs one kernel in one tier; answers a cell of the table, or "" when nothing was reported."""

    def __init__(self, build):
        self.baton, self.tools = build / "baton", build / "tests"
        text = run(self.baton, "--help")[1]
        self.exists = {t: t in ("build", "emulator") or bool(re.search(rf"^ +(baton )?{t}\b", text, re.M))
                       for t in TIERS}
        # "NAME: VERDICT", the name as of Kernel.name and twin_name
        lines = GPU_LIST.read_text().splitlines() if GPU_LIST.exists() else []
        self.record = lines[0].lstrip("# ") if lines else ""
        self.verdicts = dict(l.split(": ", 1) for l in lines if ": " in l and not l.startswith("#"))

    def build(self, k, right):
        words = [self.tools / "thread_tool", "check"] if k.thread else [self.baton, "build"]
        status, text = run(*words, *k.words(right), *([] if k.thread else ["-o", "/dev/null"]))
        return "refuses" if status else "warns" if ": warning: " in text else ""

    def emulator(self, k, right):
        """`calm`: the round-robin schedule reports it, `seeds`: only others do."""
        if k.thread:
            status, text = run(self.tools / "emu_tool", "-v", *k.words(right))
            if status:
                return "fails its own test"
        else:
            status, text = run(self.baton, "run", *k.words(right), "--device=emu")
        calm = re.search(rf"hazard: {re.escape(k.text)}", text)
        if right:
            return "reports the twin" if "hazard:" in text else ""
        if k.text == "none":
            return "values only"
        return "calm" if calm else "seeds"

    def other(self, tier, k, right):
        """`as O2`: reported, but as a fault of another rule than the emulator's."""
        command = [self.tools / "verify_tool"] if k.thread else [self.baton, tier]
        status, text = run(*command, *k.words(right))
        if right:
            return "reports the twin" if status else ""
        if status != 1:
            return ""
        found = re.search(r"violation: (O\d+|\w+)", text)
        known = any(re.search(rf"violation: {re.escape(r)}\b", text) for r in k.rules)
        return "reports" if known or not found else f"as {found.group(1)}"

    def check(self, k, right):
        """Proved, or open: a question is no report."""
        status, text = run(self.baton, "check", "--no-cache", *k.words(right))
        broken = re.findall(r"^  BROKEN +(?:\S+: )?(O\d+|[a-z ]+):", text, re.M)
        if right:
            return "reports the twin" if status or broken else ""
        if status != 1 or not broken:
            return ""
        return "reports" if set(broken) & set(k.rules) else f"as {broken[0]}"

    def audit(self, k, right):
        """Of machine code; without ptxas the head is believed."""
        if not PTXAS:
            return "" if right else "reports"
        with tempfile.TemporaryDirectory() as folder:
            ptx, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
            if not self.ptx(k, right, ptx) or run(PTXAS, "-arch=sm_90a", "-o", cubin, ptx)[0]:
                return ""
            status, text = run(self.baton, "audit", cubin)
        if right:
            return "reports the twin" if status else ""
        return "reports" if status == 1 and k.rules[0] in text else ""

    def ptx(self, k, right, out):
        words = [self.tools / "thread_tool", "ptx", *k.words(right), out] if k.thread else \
            [self.baton, "build", *k.words(right), "-o", out]
        return run(*words)[0] == 0

    def assembler(self, k):
        """What ptxas says to the kernel, as the `assembler:` of a head."""
        with tempfile.TemporaryDirectory() as folder:
            ptx = Path(folder) / "k.ptx"
            if not self.ptx(k, False, ptx):
                return "-"
            said = run(PTXAS, "-arch=sm_90a", "-o", "/dev/null", ptx)[1]
        return f"repairs, {m.group(1)}" if (m := re.search(r"\((C\d+)\)", said)) else "takes it"

    def gpu(self, k, wrong):
        """From the record of tools/stress_corpus.py: nothing is run here."""
        bug, twin = self.verdicts.get(k.name), self.verdicts.get(k.twin_name())
        bad, calm = ("wrong", "differs", "hangs", "dies"), ("clean", "inconclusive", "refused")
        if twin in bad:
            wrong.append(f"{k.path}: {GPU_LIST.name} says of the twin: {twin}")
        return bug if bug in bad else "" if bug in calm else NOT_RUN

    def cell(self, tier, k, wrong):
        """The cell; differences between claim and result are added to `wrong`."""
        if tier == "stress":
            return self.gpu(k, wrong)
        if not self.exists[tier] or \
                (tier == "explore" and k.thread and not (self.tools / "verify_tool").exists()):
            return NOT_BUILT
        claimed = tier in k.claims
        if not claimed and tier not in ("build", "emulator"):
            return ""
        answer = getattr(self, tier, None) or (lambda x, right: self.other(tier, x, right))
        bug, twin = answer(k, False), answer(k, True)
        if twin and twin != "warns":
            wrong.append(f"{k.path}: {tier}: {twin}")
        if claimed and not bug:
            wrong.append(f"{k.path}: {tier} claims {k.text} and does not report it")
        if tier == "build" and bug == "refuses" and not claimed:
            wrong.append(f"{k.path}: refused by the build, which its head does not say")
        return bug


def row(tiers, k):
    """One line of the table without its kind, and what does not agree."""
    wrong = []
    cells = [tiers.cell(t, k, wrong) for t in TIERS]
    refused = cells[0] == "refuses"
    head = k.head.get("assembler", "-" if refused else "takes it")
    if PTXAS and (found := tiers.assembler(k)) != head:
        wrong.append(f"{k.path}: the assembler: {found}, but the head says: {head}")
    cells.insert(5, head)
    return f"[{k.name}](../{k.path}) | {k.head['rule']} | " + \
        " | ".join(c or "–" for c in cells) + " |", wrong


def table(build):
    tiers = Tiers(build)
    kinds = listed("kinds.list", r"([^|]*?)(?: \| (.*))?$")   # name, why there is no kernel
    reports = listed("cases.list", r"(\S+) (.*)$")            # public report, what it was
    kernels = [Kernel(p) for p in sorted(RACE.glob("*.thr")) + sorted(RACE.glob("*.co"))]
    wrong = [f"{k.path}: head without {key}" for k in kernels if k.buggy
             for key in ("rule", "place", "tiers", "twin") if key not in k.head]
    wrong += [f"{k.path}: the place is {k.expected}" for k in kernels
              if k.buggy and k.expected and k.expected != k.head.get("place")]
    wrong += [f"{k.path}: kind {k.kind} is not listed" for k in kernels
              if k.buggy and k.kind not in kinds]
    if wrong:
        return "", wrong
    bugs = sorted((k for k in kernels if k.buggy), key=lambda k: (k.kind, k.name))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda k: row(tiers, k), bugs))
    out = ["| kind | kernel | rule | build | emulator | explore | check | audit | assembler | GPU |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    last = None
    for k, (text, w) in zip(bugs, rows):
        out.append(f"| {k.kind if k.kind != last else ''} | {text}")
        last = k.kind
        wrong += w
    have = {k.kind for k in bugs}
    if GPU_LIST.exists():  # its first line says when and where
        out += ["", "Column GPU: " + GPU_LIST.read_text().splitlines()[0].lstrip("# ") + "."]
    out += ["", f"{len(bugs)} kernels, each with a right twin. The kinds:", ""]
    out += [f"{n}. {name}" + (f" (no kernel: {why})" if why else "") for n, (name, why) in kinds.items()]
    wrong += [f"kind {n} has neither a kernel nor a reason" for n, (_, why) in kinds.items()
              if (n in have) == bool(why)]
    cases = {int(c[1:]): [] for k in bugs for c in k.head.get("cases", "").split()}
    for k in bugs:
        for c in k.head.get("cases", "").split():
            cases[int(c[1:])].append(k.name)
    if set(cases) != set(reports):
        wrong.append(f"cases.list and the heads differ: {sorted(set(cases) ^ set(reports))}")
        return "", wrong
    out += ["", "Bug reports of other projects that a kernel reproduces:", "",
            "| case | report | what it was | kernels |", "|---|---|---|---|"]
    out += [f"| R{n} | {reports[n][0]} | {reports[n][1]} | {', '.join(names)} |"
            for n, names in sorted(cases.items())]
    return "\n".join(out) + "\n", wrong


def put(o, text, wrong, begin, end, tool):
    """Prints the table, writes it between its markers or compares it with what stands there."""
    for line in wrong:
        print(line)
    if wrong:
        return 1
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    old, found, after = rest.partition(end)
    if o.write:
        PAGE.write_text(f"{before}{begin}\n{text}{end}{after}")
    elif o.check and (not found or old.strip() != text.strip()):
        print(f"docs/verification.md: the table is not up to date: {tool} --write")
        return 1
    elif not o.check:
        print(text, end="")
    return 0


def main(about, make, begin, end, tool):
    """The options of the tables of docs/verification.md; make(build) gives text and complaints."""
    options = argparse.ArgumentParser(description=about.splitlines()[0])
    options.add_argument("--build", default="build")
    options.add_argument("--write", action="store_true")
    options.add_argument("--check", action="store_true")
    o = options.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    text, wrong = make(Path(o.build).resolve())
    return put(o, text, wrong, begin, end, tool)


if __name__ == "__main__":
    sys.exit(main(__doc__, table, BEGIN, END, "tools/race_table.py"))
