#!/usr/bin/env python3
"""docs/measurements.md, and figures in other pages, from the results files of docs/results:

    python3 tools/measurements.py            writes them
    python3 tools/measurements.py --check    fails when a page differs, and names the line
    python3 tools/measurements.py --add [NAME=]FILE..   puts results files there first, under their names or
                                             others; those of `baton bench` with a line for each turn

The text comes from docs/measurements.in.md. A results file is results.json of `baton bench` or a record
of tables as tools/record.py writes it; either is read as tables: rows of named values. Of a bench the rows are
implementation, size and regime (impl, size, regime), with the statistics of src/bench/stats.c.

    {{rows NAME [by=COLUMN,..] [COLUMN=VALUE[,VALUE]..]}}      the lines up to {{end}} once for each row that is
    | {COLUMN} | {COLUMN [COLUMN=VALUE..]:DIGITS} |        meant, or for all rows with the same values in `by`;
    | {LEAST..LARGEST:DIGITS} |                            the two with "to" between them
    {{end}}
    {{table NAME [COLUMN=VALUE..]}}      the whole table, with its names and units
    {{value NAME COLUMN=VALUE.. field=COLUMN [digits=N]}}   one value
    {{range NAME .. field=COLUMN [digits=N]}}               least and largest of several
    {{count NAME [COLUMN=VALUE..]}}      rows
    {{meta NAME}}        date, GPU, driver, versions and command; why it is incomplete
    {{warnings NAME..}}  of one bench or several: everything that is doubtful, a line each
    {{notes NAME}}       of a table
    {{if NAME}} .. {{end if}}        only where there is such a results file
    {{part NAME}} .. {{end part}}    no part of the page: it goes between the two lines
        <!-- measured NAME: begin (tools/measurements.py) -->  and  <!-- measured NAME: end -->
        of README.md or another page

NAME is the file's without .json, with .TABLE behind it where a file has several. Words with blanks stand in
quotes. A value that is not there, a file that no marker uses, and a bench whose warnings are not on the page
are errors."""
import argparse, json, re, shlex, sys, textwrap
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_stats

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE, PAGE, RESULTS = "docs/measurements.in.md", "docs/measurements.md", "docs/results"
HEAD = "<!-- written by tools/measurements.py from docs/measurements.in.md and docs/results; edit those -->"
MARKER = re.compile(r"\{\{(.*?)\}\}")
FOLDED = 5  # more warnings than that are folded on the page
FIELD = re.compile(r"\{([^{}]+?)(?::(\d+))?\}")


class Wrong(Exception):
    pass


def listed(values):
    return ", ".join(dict.fromkeys(str(v) for v in values)) or "none"


class Table:
    """Rows of named values. `where` of the functions: column -> the value as text, or several with commas."""

    def __init__(self, name, columns, rows, title="", notes=(), about=None):
        self.name, self.columns, self.rows = name, columns, rows  # columns: name -> unit
        self.title, self.notes, self.about = title, list(notes), about

    def column(self, name):
        if name not in self.columns:
            raise Wrong(f"{self.name} has no column {name}; it has {listed(self.columns)}")
        return name

    def select(self, where, rows=None):
        """The rows that `where` means, in the order of its values where it lists several."""
        rows = self.rows if rows is None else rows
        for key, text in where.items():
            there = [str(r[key]) for r in rows] if self.column(key) else []
            wanted = [text] if text in there else text.split(",")
            for w in wanted:
                if w not in there:
                    raise Wrong(f"{self.name} has no {key}={w} there; it has {listed(there)}")
            rows = sorted((r for r in rows if str(r[key]) in wanted), key=lambda r: wanted.index(str(r[key])))
        return rows

    def value(self, field, where, rows=None):
        """The one value that all rows that are meant have."""
        values = {repr(r[self.column(field)]): r[field] for r in self.select(where, rows)}
        if len(values) != 1:
            raise Wrong(f"{field} of {self.name} is not one value but {listed(values)}: say which row")
        return next(iter(values.values()))


def form(value, digits=None):
    """A value as it stands in a page."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and digits is not None:
        return f"{value:{',' if abs(value) >= 1e4 else ''}.{int(digits)}f}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1e4 else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).replace("|", "\\|")


# ---- results files ------------------------------------------------------------------------------


def table_record(name, data):
    """The tables of a file that tools/record.py wrote."""
    tables = {}
    for t in data["tables"]:
        full = f"{name}.{t['name']}" if t.get("name") else name
        columns = {c["name"]: c.get("unit", "") for c in t["columns"]}
        for i, row in enumerate(t["rows"]):
            if len(row) != len(columns):
                raise Wrong(f"row {i + 1} of {full} has {len(row)} values for {len(columns)} columns")
        about = {k: t.get(k, data.get(k)) for k in ("date", "gpu", "driver", "command", "versions")}
        rows = [dict(zip(columns, row)) for row in t["rows"]]
        tables[full] = Table(full, columns, rows, t.get("title", ""), t.get("notes", ()), about)
    return tables


def bench_record(name, data):
    """The one table of a file that `baton bench` wrote."""
    if data["format"] != bench_stats.FORMAT:
        raise Wrong(f"its format is `{data['format']}`; this script reads `{bench_stats.FORMAT}`")
    machine = data["machine"]
    versions = ({"CUDA": machine["cuda"]} if machine["cuda"] else {}) | {
        v["name"]: v["version"] for v in data["versions"]}
    about = {"date": data["started"], "gpu": machine["name"], "driver": machine["driver"], "versions": versions,
             "command": data["command"], "incomplete": data["incomplete"], "warnings": bench_stats.warnings(data)}
    return {name: Table(name, bench_stats.UNITS, bench_stats.rows(data), data["title"], (), about)}


def read_results(root):
    """Table name -> Table of all results files."""
    tables = {}
    for path in sorted((root / RESULTS).glob("*.json")):
        where = path.relative_to(root)
        try:
            data = json.loads(path.read_text())
            made = (table_record if data.get("kind") == "table" else bench_record)(path.stem, data)
        except json.JSONDecodeError as e:
            raise Wrong(f"{where}:{e.lineno}: {e.msg}")
        except KeyError as e:
            raise Wrong(f"{where}: there is no {e} where it is expected")
        except Wrong as e:
            raise Wrong(f"{where}: {e}")
        tables |= made
    return tables


# ---- the template -------------------------------------------------------------------------------


class Writer:
    """Turns the template's lines into those of the page and of its parts."""

    def __init__(self, tables):
        self.tables, self.used, self.told, self.line = tables, set(), {"meta": set(), "warnings": set()}, 0

    def table(self, name):
        if name not in self.tables:
            raise Wrong(f"there is no {name} in {RESULTS}; there are {listed(self.tables)}")
        self.used.add(name)
        return self.tables[name]

    def words(self, text):
        """Kind, table, options and conditions of a marker's text."""
        kind, *rest = shlex.split(text)
        if kind not in self.KINDS:
            alone = kind in ("rows", "table", "part", "if", "end")
            raise Wrong(f"{kind} must stand alone in its line" if alone else
                        f"unknown marker {kind}; there are {listed([*self.KINDS, 'warnings', 'rows', 'table', 'part', 'if'])}")
        if not rest:
            raise Wrong(f"{kind} needs the name of a results file")
        return kind, self.table(rest[0]), *self.pairs(rest[1:])

    @staticmethod
    def pairs(words, keys=("by", "field", "digits")):
        pairs = {}
        for w in words:
            key, equal, value = w.partition("=")
            if not equal:
                raise Wrong(f"`{w}` is no COLUMN=VALUE")
            pairs[key] = value
        return {k: pairs.pop(k) for k in keys if k in pairs}, pairs

    def inline(self, text):
        if text.split()[:1] == ["warnings"]:
            return self.warnings(shlex.split(text)[1:])
        kind, table, options, where = self.words(text)
        return self.KINDS[kind](self, table, options, where)

    def field(self, options):
        if "field" not in options:
            raise Wrong("field=COLUMN is missing")
        return options["field"]

    def value(self, table, options, where):
        return form(table.value(self.field(options), where), options.get("digits"))

    def numbers(self, table, options, where):
        field = table.column(self.field(options))
        values = [r[field] for r in table.select(where)]
        if not values or not all(isinstance(v, (int, float)) for v in values):
            raise Wrong(f"{field} of {table.name} has other things than numbers there: {listed(values)}")
        return values

    def span(self, table, options, where):
        values = self.numbers(table, options, where)
        low, high = (form(f(values), options.get("digits")) for f in (min, max))
        return low if low == high else f"{low} to {high}"

    def count(self, table, options, where):
        return form(len(table.select(where)))

    def meta(self, table, options, where):
        a = table.about
        self.told["meta"].add(table.name)
        driver = a.get("driver") and f"driver {a['driver']}"
        versions = [f"{k} {v}" for k, v in (a.get("versions") or {}).items()]
        said = ", ".join(filter(None, [a.get("date"), a.get("gpu"), driver, *versions]))
        if a.get("command"):
            said += f": {a['command']}" if "`" in a["command"] else f": `{a['command']}`"
        return said + (f". **Incomplete: {a['incomplete']}**" if a.get("incomplete") else "")

    def warnings(self, names):
        if not names:
            raise Wrong("warnings needs the name of a results file")
        tables = [self.table(name) for name in names]
        self.told["warnings"].update(names)
        texts = [t for table in tables for t in table.about.get("warnings") or ()]
        if not texts:
            return "No warnings." if any("warnings" in table.about for table in tables) else ""
        lines = [f"- {t}" for t in texts]
        if len(lines) > FOLDED:
            kinds = Counter(re.match(r"[^(:]+", t)[0].strip() for t in texts)
            what = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
            lines = [f"<details><summary>{len(lines)} warnings: {what}</summary>", "", *lines, "", "</details>"]
        return "\n".join(lines)

    def notes(self, table, options, where):
        return "\n".join(f"- {n}" for n in table.notes)

    KINDS = {"value": value, "range": span, "count": count, "meta": meta, "notes": notes}

    def whole(self, words):
        """Lines of {{table ..}}."""
        table, (_, where) = self.table(words[0] if words else ""), self.pairs(words[1:])
        heads = [f"{c}, {u}" if u else c for c, u in table.columns.items() if c not in where]
        rows = [[form(v) for c, v in r.items() if c not in where] for r in table.select(where)]
        return ["| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads)] + rows]

    def repeated(self, words, body):
        """Lines of {{rows ..}} .. {{end}}; `body`: (line number, text)."""
        table, (options, where) = self.table(words[0] if words else ""), self.pairs(words[1:])
        rows = table.select(where)
        if "by" in options:
            columns = [table.column(c) for c in options["by"].split(",")]
            grouped = {}
            for r in rows:
                grouped.setdefault(tuple(r[c] for c in columns), []).append(r)
            groups = list(grouped.values())
        else:
            groups = [[r] for r in rows]
        for group in groups:
            for number, text in body:
                self.line = number
                yield number, FIELD.sub(lambda m: self.cell(table, group, m), text)

    def cell(self, table, group, match):
        field, *conditions = shlex.split(match[1])
        where = self.pairs(conditions, ())[1]
        texts = [form(table.value(f, where, group), match[2]) for f in field.split("..")]
        return " to ".join(texts if set(texts) != {"–"} else ["–"])

    def there(self, name):
        """Is there a results file of this name?"""
        return any(t == name or t.startswith(name + ".") for t in self.tables)

    @staticmethod
    def behind(rest, end):
        """What comes behind the line `end`."""
        size = next((i for i, (_, t) in enumerate(rest) if t == end), None)
        if size is None:
            raise Wrong(f"there is no {end} for it")
        return rest[size + 1:]

    def lines(self, template):
        """(part or "", line number, text) of everything that the template makes."""
        rest, part, inside = list(enumerate(template, 1)), "", False
        while rest:
            self.line, text = rest.pop(0)
            block = re.fullmatch(r"\{\{(rows|table|part|if|end)\b(.*)\}\}", text)
            kind, words = (block[1], shlex.split(block[2])) if block else (None, [])
            if kind == "part":
                part = words[0]
            elif kind == "end" and words == ["part"]:
                part = ""
            elif kind == "end" and words == ["if"] and inside:
                inside = False
            elif kind == "if":
                inside = self.there(words[0] if words else "")
                rest = rest if inside else self.behind(rest, "{{end if}}")
            elif kind == "end":
                raise Wrong(f"{text} ends nothing")
            elif kind == "table":
                yield from ((part, self.line, made) for made in self.whole(words))
            elif kind == "rows":
                after = self.behind(rest, "{{end}}")
                body, rest = rest[:len(rest) - len(after) - 1], after
                yield from ((part, number, made) for number, made in self.repeated(words, body))
            else:
                made = MARKER.sub(lambda m: self.inline(m[1]), text)
                if text and not made:  # with the empty line behind it
                    rest = rest[1:] if rest and not rest[0][1] else rest
                    continue
                yield from ((part, self.line, line) for line in made.split("\n"))

    def forgotten(self):
        """What the pages must not leave out."""
        for name, table in self.tables.items():
            if not any(u.partition(".")[0] == name.partition(".")[0] for u in self.used):
                yield f"no marker uses {name} of {RESULTS}"
            if table.about and table.about.get("warnings") is not None:
                for kind, names in self.told.items():
                    if name not in names:
                        yield f"{name} is a bench: its {{{{{kind} {name}}}}} must be on the page"


# ---- the pages ----------------------------------------------------------------------------------


def filled(lines, template):
    """(line, line of the template) with paragraphs that had markers in them broken into lines anew."""
    out, paragraph = [], []
    for line, number in lines + [("", 0)]:
        if line and line[0] not in "|#-<> ":
            paragraph.append((line, number))
            continue
        if any("{{" in template[n - 1] for _, n in paragraph):
            text = textwrap.wrap(" ".join(line.strip() for line, _ in paragraph), 118, break_long_words=False,
                                 break_on_hyphens=False)
            paragraph = [(t, paragraph[0][1]) for t in text]
        out, paragraph = out + paragraph + [(line, number)], []
    return out[:-1]


def splice(text, parts, where, used):
    """[(text, line of the template or 0)] of a page with its parts as they should be."""
    out, lines = [], list(enumerate(text.split("\n"), 1))
    while lines:
        number, line = lines.pop(0)
        out.append((line, 0))
        begin = re.match(r"<!-- measured (\S+): begin", line)
        if not begin:
            continue
        name, end = begin[1], f"<!-- measured {begin[1]}: end -->"
        if name not in parts:
            raise Wrong(f"{where}:{number}: {TEMPLATE} has no part {name}; it has {listed(parts)}")
        while lines and lines[0][1] != end:
            lines.pop(0)
        if not lines:
            raise Wrong(f"{where}:{number}: there is no line {end}")
        used.add(name)
        out += parts[name]
    return out


def pages(root):
    """Page -> [(line, line of the template or 0)], for all that have something measured in them."""
    template = (root / TEMPLATE).read_text().rstrip("\n").split("\n")
    writer, parts = Writer(read_results(root)), {"": []}
    try:
        for part, number, line in writer.lines(template):
            parts.setdefault(part, []).append((line, number))
    except (Wrong, ValueError) as e:  # ValueError: of shlex
        raise Wrong(f"{TEMPLATE}:{writer.line}: {e}")
    for missing in writer.forgotten():
        raise Wrong(f"{TEMPLATE}: {missing}")
    parts = {name: filled(lines, template) for name, lines in parts.items()}
    made, used = {PAGE: [(HEAD, 0), *parts.pop(""), ("", 0)]}, set()
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        name = str(path.relative_to(root))
        if name not in (TEMPLATE, PAGE) and path.exists() and "<!-- measured " in path.read_text():
            made[name] = splice(path.read_text(), parts, name, used)
    for name in parts:
        if name not in used:
            raise Wrong(f"{TEMPLATE}: no page has <!-- measured {name}: begin -->")
    return made


def differences(root, made):
    """One text for each page that is not what it should be: the first line that differs."""
    for name, wanted in made.items():
        path = root / name
        there = path.read_text().split("\n") if path.exists() else []
        for i in range(max(len(there), len(wanted))):
            has, should, line = (there[i] if i < len(there) else None), *(wanted[i] if i < len(wanted) else (None, 0))
            if has != should:
                of = f" (line {line} of {TEMPLATE})" if line else ""
                yield (f"{name}:{i + 1}: differs from what {RESULTS} says{of}\n  is:     {has}\n  should: {should}")
                break


def add(root, name, file):
    """Puts a file into docs/results, as `name` if that is not empty."""
    text = Path(file).read_text()
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise Wrong(f"{file}:{e.lineno}: {e.msg}")
    name = name or Path(file).stem
    if name == "results":
        raise Wrong(f"{file}: which name should it have? NAME={file}")
    where = re.compile(r" (-o[ =]?|--record[ =])\S+")  # of that machine, and nobody's business
    if data.get("kind") == "table":
        text = text.replace(json.dumps(data["command"], ensure_ascii=False),
                            json.dumps(where.sub("", data["command"]), ensure_ascii=False))
    else:
        text = bench_stats.compact(data | {"command": where.sub("", data["command"])})
    (root / RESULTS / f"{name}.json").write_text(text)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true", help="write nothing, fail when something differs")
    options.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options.add_argument("--add", nargs="+", default=[], metavar="[NAME=]FILE", help="puts results files there first")
    o = options.parse_args()
    try:
        for file in o.add:
            add(o.root, *file.rpartition("=")[::2])
        made = pages(o.root)
    except (Wrong, OSError) as e:
        print(e)
        return 1
    found = list(differences(o.root, made))
    if o.check:
        print("\n".join(found + ["run python3 tools/measurements.py"] if found else [f"{len(made)} pages agree"]))
        return int(bool(found))
    for name, lines in made.items():
        (o.root / name).write_text("\n".join(line for line, _ in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
