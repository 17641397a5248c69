"""Measurements without a GPU: tests/bench/*.json, for tests/run.py.

Each file is about one way to be fooled (or one part of the tables) and has a list of cases. A case
changes a recorded measurement and says what must come out; beside each case that must warn stands a
twin that must not:
  "from"      the record, another file of the folder (default clean.json, which has no warnings)
  "change"    a list of changes, one after the other. {"set": {..}} merges into the record; with
              {"in": "turns", "where": {..}} into those items of a list; a change for a list goes to
              all of its items. "ms_times": F multiplies the samples, "ms_ramp": F multiplies them by
              1 .. F along the turn, "drop": true removes the items, "copy": {..} appends changed copies
  "warnings"  all that the guards say, as "KIND IMPLEMENTATION SIZE REGIME[ refused]"
  "compare"   true: the record as it was and as it became are compared; "status" is the exit status
  "error"     reading must fail with this
  "says", "silent"  texts that must, and must not, stand in the warnings, summary.md, summary.csv, the
              tables of the terminal, or in the comparison; in "plot" for those of the plots"""
import copy, json, re, subprocess, tempfile, xml.dom.minidom
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "bench"


def merge(into, change):
    if isinstance(into, list) and isinstance(change, dict):
        for item in into:
            merge(item, change)
        return into
    for key, value in change.items():
        if isinstance(value, dict) and key in into:
            merge(into[key], value)
        else:
            if key not in into:
                raise KeyError(f"the record has no {key}")
            into[key] = copy.deepcopy(value)
    return into


def matches(record, item, where):
    names = {"impl": [i["name"] for i in record["impls"]],
             "size": [s["label"] for s in record["sizes"]]}
    return all((names[k][item[k]] if k in names else item[k]) == v for k, v in where.items())


def apply(record, change):
    items = [record]
    if "in" in change:
        items = [i for i in record[change["in"]] if matches(record, i, change.get("where", {}))]
        if not items:
            raise KeyError(f"nothing is changed by {change}")
    for item in items:
        n = len(item.get("ms", []))
        if "ms_times" in change:
            item["ms"] = [x * change["ms_times"] for x in item["ms"]]
        if "ms_ramp" in change:
            item["ms"] = [x * (1 + (change["ms_ramp"] - 1) * k / (n - 1))
                          for k, x in enumerate(item["ms"])]
        merge(item, change.get("set", {}))
        if "copy" in change:
            record[change["in"]].append(merge(copy.deepcopy(item), change["copy"]))
    if change.get("drop"):
        record[change["in"]] = [i for i in record[change["in"]] if not any(i is x for x in items)]


def run(tool, *words):
    p = subprocess.run([str(tool), *map(str, words)], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def can_read(tool):
    return tool.exists() and "without libjansson" not in run(tool, "json", FOLDER / "clean.json")[1]


def need(ok, what, output):
    if not ok:
        raise AssertionError(f"{what}\n--- output:\n{output[:6000]}")


def texts(case, key, output):
    for text in case.get("says", []) if key == "" else case.get(key, {}).get("says", []):
        need(text in output, f"missing: {text}", output)
    for text in case.get("silent", []) if key == "" else case.get(key, {}).get("silent", []):
        need(text not in output, f"must not appear: {text}", output)


def check(tool, case, folder):
    before = json.loads((FOLDER / case.get("from", "clean.json")).read_text())
    after = copy.deepcopy(before)
    for change in case.get("change", []):
        apply(after, change)
    first, second = folder / "before.json", folder / "results.json"
    first.write_text(json.dumps(before))
    second.write_text(json.dumps(after))
    status, output = run(tool, "json", second)
    if "error" in case:
        need(status == 2 and case["error"] in output, f"expected the error: {case['error']}", output)
        return
    need(status == 0, "cannot be read", output)
    # Every sample and reading is kept, whatever the guards think of it.
    need(json.loads(output) == after, "something was lost on the way", output[:2000])
    normal = folder / "normal.json"
    normal.write_text(output)
    need(run(tool, "json", normal) == (0, output), "the second writing differs", "")
    if case.get("compare"):
        status, output = run(tool, "compare", first, second)
        need(status == case.get("status", 0), f"exit status {status}", output)
        texts(case, "", output)
        return
    status, warnings = run(tool, "warnings", second)
    got = [line.split(":")[0] for line in warnings.splitlines()]
    need(got == case.get("warnings", []), f"warnings {got}, expected {case.get('warnings', [])}", warnings)
    out = folder / "out"
    for language in ([], ["zh"]):
        status, output = run(tool, "store", folder, out, *language)
        need(status == 0, "not stored", output)
        plots = ""
        for plot in sorted(out.glob("*.svg")):
            plots += plot.read_text()
            xml.dom.minidom.parse(str(plot))
        texts(case, "plot-zh" if language else "plot", plots)
    whole = "\n".join([warnings, (out / "summary.md").read_text(), (out / "summary.csv").read_text(),
                       run(tool, "text", second)[1]])
    texts(case, "", whole)
    for line in run(tool, "text", second)[1].splitlines():
        need(len(line) <= 120 or line.startswith("warning: "), "wider than 120 columns", line)


def check_rules(tool):
    """The table of docs/bench.md is that of the guards."""
    rows = run(tool, "rules", "markdown")[1]
    need(rows and rows in (FOLDER.parent.parent / "docs/bench.md").read_text(),
         "these rows must stand in docs/bench.md", rows)


def tests(build):
    """Yields (name, function without arguments)."""
    tool = build / "tests" / "bench_tool"
    yield "bench rules", lambda: check_rules(tool)
    for path in sorted(FOLDER.glob("*.json")):
        record = json.loads(path.read_text())
        for case in record.get("cases", []) if "about" in record else []:
            def one(case=case):
                with tempfile.TemporaryDirectory() as folder:
                    check(tool, case, Path(folder))
            yield f"bench {path.stem}: {case['name']}", one
