#!/usr/bin/env python3
"""Tests of tools/measurements.py, bench_stats.py and record.py on small results files. Arguments: folder of baton's
build, a scratch folder."""
import copy, csv, json, subprocess, sys, types
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import bench_stats
import measurements as m
import record

build, scratch = Path(sys.argv[1]), Path(sys.argv[2])
passed = failed = 0


def expect(what, got, wanted):
    global passed, failed
    passed, failed = passed + (got == wanted), failed + (got != wanted)
    if got != wanted:
        print(f"FAILED {what}: {got!r}, expected {wanted!r}")


SPEED = record.table(["impl", "size", "median:ms", "low:ms", "high:ms", "ratio", "launches"],
                     [["slow", "S=1", 2.0, 1.5, 2.5, 1.0, 7], ["slow", "S=2", 4.25, 4.0, 4.5, 1.0, 7],
                      ["fast", "S=1", 1.0, None, None, 2.0, 12345], ["fast", "S=2", 2.125, 2.0, 3.0, 2.0, 8]],
                     title="speed", notes=["a note"])
ABOUT = {"kind": "table", "date": "2026-11-30", "gpu": "H200", "driver": "580", "command": "measure it",
         "versions": {"CUDA": "13.0"}}


def made(template, tables=(SPEED,), pages=(), name="s"):
    """What the script makes of a template: the text of the page, or what is wrong."""
    root = scratch / str(passed + failed)
    (root / "docs/results").mkdir(parents=True)
    (root / m.TEMPLATE).write_text(template + "\n")
    (root / f"docs/results/{name}.json").write_text(record.text(ABOUT | {"tables": list(tables)}))
    for page, text in pages:
        (root / page).write_text(text)
    try:
        found = m.pages(root)
    except m.Wrong as e:
        return str(e)
    texts = {page: "\n".join(line for line, _ in lines) for page, lines in found.items()}
    return texts[pages[0][0]] if pages else texts[m.PAGE].removeprefix(m.HEAD + "\n")


# ---- markers ------------------------------------------------------------------------------------

expect("a value", made("{{value s impl=fast size=S=2 field=median digits=2}} ms"), "2.12 ms\n")
expect("a value as it is", made("{{value s impl=fast size=S=2 field=median}}"), "2.125\n")
expect("a large number", made("{{value s impl=fast size=S=1 field=launches}}"), "12,345\n")
expect("a value that all rows have", made("{{value s impl=slow field=launches}}"), "7\n")
expect("a range", made("{{range s size=S=1,S=2 impl=slow field=median digits=1}}"), "2.0 to 4.2\n")
expect("a range of one", made("{{range s impl=slow field=ratio digits=1}}"), "1.0\n")
expect("count", made("{{count s impl=slow}}"), "2\n")
expect("what made it", made("{{meta s}}"), "2026-11-30, H200, driver 580, CUDA 13.0: `measure it`\n")
expect("notes", made("{{notes s}}"), "- a note\n")
expect("no warnings of a table, and no empty line for them", made("{{count s}}\n\n{{warnings s}}\n\nx"), "4\n\nx\n")
expect("a whole table", made("{{table s impl=fast}}"), """\
| size | median, ms | low, ms | high, ms | ratio | launches |
| --- | --- | --- | --- | --- | --- |
| S=1 | 1 | – | – | 2 | 12,345 |
| S=2 | 2.125 | 2 | 3 | 2 | 8 |
""")
expect("rows", made("{{rows s size=S=2}}\n| {impl} | {median:1} ({low..high:1}) |\n{{end}}"), """\
| slow | 4.2 (4.0 to 4.5) |
| fast | 2.1 (2.0 to 3.0) |
""")
expect("rows by two columns, in the order of the words; a range that is not known", made("""\
{{rows s by=impl impl=fast,slow}}
| {impl} | {median size=S=1} ({low..high size=S=1}) | {median size=S=2:3} |
{{end}}"""), """\
| fast | 1 (–) | 2.125 |
| slow | 2 (1.5 to 2.5) | 4.250 |
""")
expect("a paragraph with markers is filled anew, others are left", made(
    "short\nlines\n\n" + "word " * 30 + "\n{{count s}}"),
    "short\nlines\n\n" + " ".join(["word"] * 23) + "\n" + " ".join(["word"] * 7) + " 4\n")
expect("a condition", made("{{if s}}\n{{count s}}\n{{end if}}\n{{if t}}\n{{count t}}\n{{rows t}}\n{{end}}\n{{end if}}\n\nx"),
       "4\n\nx\n")
two = (SPEED | {"name": "a", "date": "2026-01-01"}, SPEED | {"name": "b"})
expect("two tables, one with a date of its own", made("{{count s.b}}, {{meta s.a}}", two),
       "4, 2026-01-01, H200, driver 580, CUDA 13.0: `measure it`\n")
page = "# P\n<!-- measured x: begin (tools/measurements.py) -->\nold\n<!-- measured x: end -->\nlast\n"
expect("a part of another page", made("{{part x}}\n{{count s}}\n{{end part}}", pages=[("README.md", page)]),
       page.replace("old", "4"))

# ---- what is wrong ------------------------------------------------------------------------------

AT, NAMES = "docs/measurements.in.md:2: ", "impl, size, median, low, high, ratio, launches"
for what, text, wanted in (
        ("a marker", "{{valve s}}", "unknown marker valve; there are value, range, count, meta, notes, warnings, "
                                    "rows, table, part, if"),
        ("a file", "{{count t}}", "there is no t in docs/results; there are s"),
        ("no bench", "{{warnings}}", "warnings needs the name of a results file"),
        ("no file", "{{count}}", "count needs the name of a results file"),
        ("a column", "{{count s color=red}}", f"s has no column color; it has {NAMES}"),
        ("a row", "{{count s impl=fast,quick}}", "s has no impl=quick there; it has slow, fast"),
        ("two conditions", "{{count s impl=fast size=S=3}}", "s has no size=S=3 there; it has S=1, S=2"),
        ("a field", "{{value s impl=fast field=mean}}", f"s has no column mean; it has {NAMES}"),
        ("no field", "{{value s}}", "field=COLUMN is missing"),
        ("several values", "{{value s impl=fast field=median}}",
         "median of s is not one value but 1.0, 2.125: say which row"),
        ("no number", "{{range s field=low}}", "low of s has other things than numbers there: 1.5, 4.0, None, 2.0"),
        ("a word", "{{count s fast}}", "`fast` is no COLUMN=VALUE"),
        ("no end", "{{rows s}}", "there is no {{end}} for it"),
        ("an end", "{{end}}", "{{end}} ends nothing"),
        ("another end", "{{end if}}", "{{end if}} ends nothing"),
        ("no end of a condition", "{{if t}}", "there is no {{end if}} for it"),
        ("rows in a line", "x {{rows s}}", "rows must stand alone in its line"),
        ("a quotation mark", "{{count s 'impl=fast}}", "No closing quotation")):
    expect(f"wrong: {what}", made("# x\n" + text), AT + wanted)
expect("wrong: in the lines of rows", made("{{rows s}}\n| {mean} |\n{{end}}"),
       AT + f"s has no column mean; it has {NAMES}")
expect("a file that nothing uses", made("text"), "docs/measurements.in.md: no marker uses s of docs/results")
expect("a part that no page has", made("{{part x}}\n{{count s}}\n{{end part}}"),
       "docs/measurements.in.md: no page has <!-- measured x: begin -->")
expect("a page with an unknown part", made("{{part y}}\n{{count s}}\n{{end part}}", pages=[("README.md", page)]),
       "README.md:2: docs/measurements.in.md has no part x; it has y")
expect("a page without the end of a part", made("{{part x}}\n{{count s}}\n{{end part}}",
                                                pages=[("README.md", page.replace("x: end", "z: end"))]),
       "README.md:2: there is no line <!-- measured x: end -->")
bad = SPEED | {"rows": [["slow", "S=1"]]}
expect("a short row", made("{{count s}}", [bad]), "docs/results/s.json: row 1 of s has 2 values for 7 columns")
short = {k: v for k, v in SPEED.items() if k != "columns"}
expect("no columns", made("{{count s}}", [short]), "docs/results/s.json: there is no 'columns' where it is expected")

# ---- the command --------------------------------------------------------------------------------

root = scratch / "command"
(root / "docs/results").mkdir(parents=True)
(root / m.TEMPLATE).write_text("# T\n\n{{value s impl=slow size=S=1 field=median digits=1}} ms\n")
(root / "docs/results/s.json").write_text(record.text(ABOUT | {"tables": [SPEED]}))


def command(*words):
    p = subprocess.run([sys.executable, ROOT / "tools/measurements.py", "--root", root, *words],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return p.returncode, p.stdout


expect("nothing is written", command("--check")[0], 1)
expect("writes", command(), (0, ""))
expect("agrees", command("--check"), (0, "1 pages agree\n"))
page = root / m.PAGE
page.write_text(page.read_text().replace("2.0", "1.9"))
status, text = command("--check")
expect("a changed figure fails", status, 1)
expect("its line is named", text.split("\n")[:3],
       ["docs/measurements.md:4: differs from what docs/results says (line 3 of docs/measurements.in.md)",
        "  is:     1.9 ms", "  should: 2.0 ms"])
(root / "docs/results/s.json").write_text('{"kind": "table",\n oops')
expect("no JSON", command(), (1, "docs/results/s.json:2: Expecting property name enclosed in double quotes\n"))

# ---- results of `baton bench`, against the statistics of src/bench ----------------------------------

CLEAN = json.loads((ROOT / "tests/bench/clean.json").read_text())
COLUMNS = {"implementation": "impl", "label": "label", "size": "sizes", "regime": "regime", "result": "result",
           "samples": "samples", "rounds": "rounds", "median_ms": "median", "min_ms": "min", "max_ms": "max",
           "least_round_median_ms": "low", "largest_round_median_ms": "high", "tflops": "tflops",
           "of_measured_peak": "of_ceiling", "gb_per_s": "gbs", "ratio": "ratio", "least_round_ratio": "ratio_low",
           "largest_round_ratio": "ratio_high", "joules_per_launch": "joules", "watts": "watts",
           "tflops_per_watt": "tflops_per_watt", "sm_mhz": "sm_mhz", "celsius": "celsius", "limits": "limits",
           "compile_ms": "compile_ms", "convert_ms": "convert_ms", "first_call_ms": "first_ms",
           "elements": "elements", "elements_compared": "checked", "elements_wrong": "wrong", "worst_error": "worst"}


def table_of(program, data):
    """The lines of summary.csv, or None where `program` cannot read JSON."""
    file = scratch / "bench.json"
    file.write_text(json.dumps(data))
    p = subprocess.run([program, "csv", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if "without libjansson" in p.stderr:
        return None
    expect("bench_tool reads the record", (p.returncode, p.stderr), (0, ""))
    return list(csv.DictReader(p.stdout.splitlines()))


def same(text, value):
    if value is None or text == "":
        return value in (None, "") and text in ("", "0")  # no samples: 0 there
    return text == value if isinstance(value, str) else abs(float(text) - value) <= 1e-7 * abs(value)


def compare(what, data):
    """Every figure of summary.csv is the script's."""
    lines = table_of(build / "tests/bench_tool", data)
    if lines is None:
        return
    rows = {(r["impl"], r["sizes"], r["regime"]): r for r in bench_stats.rows(data)}
    timed = 0
    for line in lines:
        row = rows.get((line["implementation"], line["size"], line["regime"]))
        if line["samples"] == "0":
            expect(f"{what}: not timed", row is None or row["samples"] is None, True)
            continue
        timed += 1
        for theirs, ours in COLUMNS.items():
            if not same(line[theirs], row[ours]) and not line["refused"]:
                expect(f"{what}: {ours} of {row['impl']} {row['size']} {row['regime']}", row[ours], line[theirs])
    expect(f"{what}: as many rows", timed, sum(r["samples"] is not None for r in rows.values()))


def changed(change):
    data = copy.deepcopy(CLEAN)
    for t in data["turns"]:
        change(data, t)
    return data


def uneven(data, t):  # an even number of samples, rounds of different lengths, several reasons
    t["ms"] = t["ms"][:4 + 2 * t["round"]]
    for i, r in enumerate(t["during"]):
        r["reasons"], r["has_reasons"] = (0x24, 0x4, 0x1000, 0x20, 0x4)[i % 5], i % 4 > 0


def reset(data, t):  # a counter that goes back in one turn
    if t["round"] == 1 and len(t["during"]) > 2:
        t["during"][-1]["joules"] = 1


def unknown(data, t):  # no counter, and a clock that is known now and then
    for i, r in enumerate(t["during"]):
        r["joules"], r["sm_mhz"], r["has_reasons"] = None, r["sm_mhz"] if i % 2 else None, False


compare("as it is", CLEAN)
compare("uneven", changed(uneven))
compare("a reset", changed(reset))
compare("unknown", changed(unknown))
compare("cold", CLEAN | {"cache": "cold", "cold_bytes": 2 ** 27})
compare("no yardstick", CLEAN | {"yardstick": -1})
compare("a round that stopped", CLEAN | {"turns": CLEAN["turns"][:-1], "incomplete": "stopped"})
compare("compact", json.loads(bench_stats.compact(CLEAN)))
expect("compact: a line for each turn", sum(line.startswith('{"impl":') and '"ms":[' in line for line in
                                            bench_stats.compact(CLEAN).split("\n")), len(CLEAN["turns"]))
steps = [{"ms": 10.0 * i, "joules": 70.0 * (i // 10)} for i in range(35)]  # at 100, 200, 300 ms
expect("watts between the first and the last step", bench_stats.watts(steps), 700.0)
expect("one step is too few", bench_stats.watts(steps[:15]), None)

def wrong(root):
    try:
        return f"nothing: {m.pages(root)}"
    except m.Wrong as e:
        return str(e)


root = scratch / "bench"
(root / "docs/results").mkdir(parents=True)
(root / m.TEMPLATE).write_text("""{{meta b}}

{{warnings b}}

{{rows b by=impl}}
| {label} | {median size=S=4096 regime=sustained:3}, {ratio size=S=4096 regime=sustained:2} |
{{end}}
""")
doubtful = CLEAN | {"incomplete": "fa3 is missing", "warnings": [
    {"kind": "drift", "impl": -1, "size": 0, "regime": "sustained", "refused": False, "text": "it drifts"},
    {"kind": "impossible", "impl": 1, "size": 0, "regime": "sustained", "refused": True, "text": "too fast"}]}
file = scratch / "results.json"
file.write_text(json.dumps(doubtful | {"command": "baton bench attention -o /somewhere/else"}))
p = subprocess.run([sys.executable, ROOT / "tools/measurements.py", "--root", root, "--add", f"b={file}"])
expect("a bench is added", p.returncode, 0)
p = subprocess.run([sys.executable, ROOT / "tools/measurements.py", "--root", root, "--add", file],
                   stdout=subprocess.PIPE, text=True)
expect("without a name", (p.returncode, p.stdout), (1, f"{file}: which name should it have? NAME={file}\n"))
expect("its page", (root / m.PAGE).read_text().split("\n", 1)[1], """\
2026-11-30T11:20:05Z, NVIDIA H200, driver 580.159.04, CUDA 13.0, baton 0.1, cuDNN 9.19: `baton bench attention`.
**Incomplete: fa3 is missing**

- drift (S=4096, sustained): it drifts
- impossible (refused) (v4, S=4096, sustained): too fast

| cuDNN 9.19 (PyTorch SDPA) | 1.060, 1.00 |
| v4: softmax under running products | refused, refused |
""")
many = [{"kind": kind, "impl": -1, "size": -1, "regime": None, "refused": False, "text": "x"}
        for kind in ["throttled"] * 5 + ["host bound"]]
t = m.bench_record("b", CLEAN | {"warnings": many})["b"]
expect("many warnings are folded", m.Writer({"b": t}).inline("warnings b").split("\n")[:3],
       ["<details><summary>6 warnings: 5 throttled, 1 host bound</summary>", "", "- throttled: x"])
w = m.Writer({"b": t, "c": m.bench_record("c", CLEAN)["c"]})
expect("warnings of several", (w.inline("warnings c"), w.inline("warnings c b").split(":")[0]),
       ("No warnings.", "<details><summary>6 warnings"))
(root / m.TEMPLATE).write_text("{{meta b}} {{value b impl=v4 size=S=8192 regime=burst field=median}}\n")
expect("warnings must be told", wrong(root),
       "docs/measurements.in.md: b is a bench: its {{warnings b}} must be on the page")
(root / m.TEMPLATE).write_text("{{warnings b}} {{meta b}} {{range b impl=v4 regime=sustained field=ratio}}\n")
expect("a refused figure in a range", "other things than numbers there: refused" in wrong(root), True)
(root / "docs/results/b.json").write_text(json.dumps(CLEAN | {"format": "baton bench 9"}))
expect("another format", subprocess.run([sys.executable, ROOT / "tools/measurements.py", "--root", root],
                                        stdout=subprocess.PIPE, text=True).stdout,
       "docs/results/b.json: its format is `baton bench 9`; this script reads `baton bench 1`\n")

# ---- records ------------------------------------------------------------------------------------

text = record.text(ABOUT | {"tables": [SPEED, SPEED]})
expect("a record is read back", json.loads(text), ABOUT | {"tables": [SPEED, SPEED]})
expect("a line for each row", sum(line.startswith('   ["') for line in text.split("\n")), 8)
file = scratch / "r.json"
p = subprocess.run([sys.executable, ROOT / "tools/record.py", file, "compile time", "kernel", "median:ms", "runs",
                    "--command", "make it", "--cpu", "--build", scratch], input="add\t0.31\t20\ncopy\t\t20\n", text=True)
data = json.loads(file.read_text())
expect("rows of a shell script", (p.returncode, data["tables"][0]["rows"], data["command"], data["gpu"]),
       (0, [["add", 0.31, 20], ["copy", None, 20]], "make it", ""))
expect("units", data["tables"][0]["columns"][1], {"name": "median", "unit": "ms"})
p = subprocess.run([sys.executable, ROOT / "tools/record.py", file, "t", "a", "b", "--command", "c"],
                   input="1\n", text=True, stdout=subprocess.PIPE)
expect("rows of another length", (p.returncode, p.stdout.split(": ")[1]),
       (1, "1 rows on standard input, each with 2 cells, are expected\n"))

import bench_correct, stress_corpus, verify_attention

# What the page asks of a results file, the scripts that make the next one write.
for name, columns in (("correct", bench_correct.COLUMNS), ("verify_attention", verify_attention.COLUMNS)):
    there = json.loads((ROOT / f"docs/results/{name}.json").read_text())["tables"][0]["columns"]
    expect(f"columns of {name}", {c["name"] for c in there} - {c.partition(":")[0] for c in columns}, set())

case = {"tokens": 4096, "heads": 4, "falls": 25, "reverse": 1, "vk": 0, "matrix": "bf16"}
results = {"sequential": {"rounds": [8.0, 10.0, 9.0], "wrong": 0, "worst": 0.001},
           "proxy": {"rounds": [4.5, 4.5, 4.0], "wrong": 2, "worst": 0.5}}
expect("rows of the correction", bench_correct.rows(case, 16, results), [
    [4096, 4, 16, "kv", "reverse", 25, "bf16", "sequential", 9.0, 8.0, 10.0, 0.0, 0, 0.001],
    [4096, 4, 16, "kv", "reverse", 25, "bf16", "proxy", 4.5, 4.0, 4.5, 50.0, 2, 0.5]])
del results["sequential"]
expect("no gain without the sequential one", bench_correct.rows(case, 16, results)[0][11], None)
expect("columns of the correction", len(bench_correct.rows(case, 16, results)[0]), len(bench_correct.COLUMNS))
stress_corpus.write_record(types.SimpleNamespace(record=file, launches=200, build=scratch),
                           {(True, "clean"): 3, (False, "differs"): 2}, 5, 0, 17.4)
data = json.loads(file.read_text())
expect("the corpus under stress", [t["rows"] for t in data["tables"]],
       [[[5, 200, 0, 17]], [["bug", "differs", 2], ["right", "clean", 3]]])

print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
