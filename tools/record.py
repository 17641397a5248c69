#!/usr/bin/env python3
"""record.py - a results file for docs/results: tables of what a script measured, with what made them.

    {"kind": "table", "date": UTC, "gpu": .., "driver": .., "command": .., "versions": {NAME: VERSION},
     "tables": [{"name": .., "title": .., "columns": [{"name": .., "unit": ..}], "rows": [[..]], "notes": [..]}]}

`name` may be left out where there is one table; a table may have a date, gpu, driver, command and versions of
its own. What is not known is "" or null. tools/measurements.py makes the pages of the documentation from it.

Scripts add `option` to theirs and call `write`. A shell script writes tab-separated rows:
    printf 'attention/v1.co\\t3.7\\n' | python3 tools/record.py FILE.json TITLE kernel median:ms --command WORDS"""
import argparse, ctypes, datetime, json, os, shlex, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def gpu():
    """(name, version of the driver, of its CUDA) of the first GPU, by the management library; "" unknown."""
    name, driver, cuda = (ctypes.create_string_buffer(96), ctypes.create_string_buffer(96), ctypes.c_int())
    handle = ctypes.c_void_p()
    try:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
        if lib.nvmlInit_v2():
            return "", "", ""
        lib.nvmlSystemGetDriverVersion(driver, len(driver))
        lib.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda))
        if not lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
            lib.nvmlDeviceGetName(handle, name, len(name))
    except (OSError, AttributeError):
        pass
    version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}" if cuda.value else ""
    return name.value.decode(), driver.value.decode(), version


def baton_version(build):
    """What the compiler that was measured says of itself; "" when it cannot be asked."""
    try:
        p = subprocess.run([f"{build}/baton", "--version"], stdout=subprocess.PIPE, text=True)
    except OSError:
        return ""
    return p.stdout.strip().removeprefix("baton ")


def versions(build, torch=None):
    """Name -> version of the compiler, and of PyTorch and cuDNN where they take part."""
    made = {"baton": baton_version(build)}
    if torch:
        number = torch.backends.cudnn.version() or 0  # 91900: 9.19.0
        made |= {"PyTorch": torch.__version__, "cuDNN": f"{number // 10000}.{number // 100 % 100}.{number % 100}"}
    return made


def command():
    """The command line of this script, from the root of the tree, without where the record goes."""
    words, out = list(sys.argv), []
    script = Path(words.pop(0)).resolve()
    while words:
        w = words.pop(0)
        if w == "--record":
            words = words[1:]
        elif not w.startswith("--record="):
            out.append(w)
    return shlex.join(["python3", str(script.relative_to(ROOT) if script.is_relative_to(ROOT) else script), *out])


def text(record):
    """The file's text: a line for each row, so that a change of one figure is a change of one line."""
    dump = lambda x: json.dumps(x, ensure_ascii=False)
    tables = []
    for t in record["tables"]:
        rows = ",\n   ".join(dump(r) for r in t["rows"])
        rest = [f'  {dump(k)}: {dump(v)}' for k, v in t.items() if k != "rows"]
        tables.append(" {\n" + ",\n".join(rest + [f'  "rows": [\n   {rows}]']) + "}")
    head = [f"{dump(k)}: {dump(v)}" for k, v in record.items() if k != "tables"]
    return "{" + ",\n ".join(head + ['"tables": [\n' + ",\n".join(tables) + "]"]) + "}\n"


def table(columns, rows, name=None, title="", notes=()):
    """One table of a record. `columns`: "NAME" or "NAME:UNIT" each; `rows`: lists of as many values."""
    pairs = [c.partition(":")[::2] for c in columns]
    assert all(len(r) == len(pairs) for r in rows), f"{title}: rows of other lengths than {len(pairs)}"
    return ({"name": name} if name else {}) | {
        "title": title, "columns": [{"name": n, "unit": u} for n, u in pairs], "rows": [list(r) for r in rows],
        "notes": list(notes)}


def write(path, tables, versions=None, made_by=None, with_gpu=True):
    """Writes a record with the time and this machine. `versions`: of what took part beside driver and CUDA."""
    name, driver, cuda = gpu() if with_gpu else ("", "", "")
    record = {"kind": "table", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "gpu": name, "driver": driver, "command": made_by or command(),
              "versions": {k: v for k, v in {"CUDA": cuda, **(versions or {})}.items() if v}, "tables": tables}
    Path(path).write_text(text(record))


def option(parser):
    """Adds --record FILE.json to an argparse parser."""
    parser.add_argument("--record", metavar="FILE.json", help="write the table there as a results file as well")


def number(cell):
    """A cell of a shell script: a number where it is one, null where it is empty."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell or None


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("file")
    options.add_argument("title")
    options.add_argument("columns", nargs="+", metavar="NAME[:UNIT]")
    options.add_argument("--command", required=True, help="what made the rows")
    options.add_argument("--build", default=str(ROOT / "build"), help="folder of baton, for its version")
    options.add_argument("--cpu", action="store_true", help="no GPU took part")
    options.add_argument("--note", action="append", default=[])
    o = options.parse_args()
    rows = [[number(c) for c in line.rstrip("\n").split("\t")] for line in sys.stdin if line.strip()]
    if not rows or any(len(r) != len(o.columns) for r in rows):
        print(f"{o.file}: {len(rows)} rows on standard input, each with {len(o.columns)} cells, are expected")
        return 1
    write(o.file, [table(o.columns, rows, title=o.title, notes=o.note)], {"baton": baton_version(o.build)},
          o.command, not o.cpu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
