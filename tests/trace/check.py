"""Is a timeline sound? check.py TRACE.json PICTURE.svg RECORDS.txt: what must hold for any kernel. Prints
one line with how much was looked at; the first thing that does not hold ends it with status 1."""
import collections, json, re, sys, xml.etree.ElementTree as ET

STATES = ["being filled", "full", "being read", "free"]
GROUPS = {1: "roles", 2: "copy unit", 3: "tensor cores", 4: "slots of shared memory"}


def need(truth, what):
    if not truth:
        sys.exit(f"does not hold: {what}")


def check_json(path):
    with open(path) as f:
        document = json.load(f)
    need(document["otherData"]["unit"] in ("steps", "cycles"), "a unit is named")
    names, tracks, ends = {}, collections.defaultdict(list), collections.defaultdict(dict)
    for e in document["traceEvents"]:
        track = e["pid"], e["tid"]
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                names[track] = e["args"]["name"]
            if e["name"] == "process_name":
                need(e["args"]["name"] == GROUPS[e["pid"]], f"group {e['pid']} has its name")
        elif e["ph"] == "X":
            tracks[track].append(e)
        else:
            need(e["ph"] in "sf" and e["ph"] not in ends[e["id"]], "an arrow has one start, one end")
            ends[e["id"]][e["ph"]] = e
    for track, events in tracks.items():
        need(track in names, f"track {track} has a name")
        at, last = 0, (-1, 0)
        for e in events:
            need(e["dur"] > 0 and e["ts"] >= at, f"{names[track]}: {e['name']} at {e['ts']} stands "
                 f"behind what is in front of it")
            at = e["ts"] + e["dur"]
            if e["cat"] == "stall":
                need(e["name"].startswith("waits for "), "a stall says what it waits for")
            if e["cat"] in STATES:
                now = e["args"]["generation"], STATES.index(e["cat"])
                need(now > last and now[0] <= last[0] + 1, f"{names[track]}: generations rise one by "
                     f"one, and each is filled, full, read, free: {last} then {now}")
                last = now
    for arrow in ends.values():
        need(set(arrow) == {"s", "f"}, "an arrow has a start and an end")
        need(arrow["s"]["ts"] <= arrow["f"]["ts"], "an arrow goes forwards")
        for e in arrow.values():
            inside = [x for x in tracks[e["pid"], e["tid"]]
                      if x["ts"] <= e["ts"] < x["ts"] + x["dur"]]
            need(len(inside) == 1, f"arrow {e['id']} at {e['ts']} begins and ends in a span")
        end = arrow["f"]
        need([x for x in tracks[end["pid"], end["tid"]] if x["cat"] == "stall" and
              x["ts"] <= end["ts"] < x["ts"] + x["dur"]], f"arrow {end['id']} ends a stall")
    return sum(map(len, tracks.values())), len(ends), document["otherData"]["unit"]


def check_svg(path):
    with open(path, "rb") as f:
        text = f.read()
    need(len(text) < 150_000, f"a picture for a document: {len(text)} bytes")
    root = ET.fromstring(text)
    wide, high = float(root.get("width")), float(root.get("height"))
    for e in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(e.get("x", 0)), float(e.get("y", 0))
        need(x >= 0 and y >= 0 and x + float(e.get("width")) <= wide + 0.1 and
             y + float(e.get("height")) <= high + 0.1, f"a rectangle at {x},{y} is on the page")
    for e in root.iter("{http://www.w3.org/2000/svg}text"):
        need(0 <= float(e.get("x")) <= wide and e.text is not None, "a text is on the page")


def check_records(path, unit):
    """Waits and passes of each warp, phases of each warp at each mbarrier."""
    now, waiting, phases = {}, {}, {}
    loads = landed = records = 0
    for line in open(path):
        time, who, rest = re.match(r" *(\d+)  (warp \d+ *|mbarrier)  (.*)", line).groups()
        kind, what = (rest.split(None, 1) + [""])[:2]
        what, who, time = re.sub(r"  line \d+$", "", what), who.strip(), int(time)
        records += 1
        loads += kind == "load"
        landed += kind == "landed"
        if kind in ("landed", "stored", "started", "done", "complete"):
            continue
        need(time >= now.get(who, 0), f"time of {who} never falls: {line}")
        now[who] = time
        if kind == "wait":
            need(who not in waiting, f"{who} waits for one thing at a time: {line}")
            waiting[who] = what
        if kind == "pass":
            need(waiting.pop(who, None) == what, f"a wait ends that began: {line}")
        m = re.match(r"(\S+) phase (-?\d+)", what)
        if kind in ("wait", "arrive") and m:
            key = who, kind, m.group(1)
            need(int(m.group(2)) >= phases.get(key, -1), f"phases rise: {line}")
            phases[key] = int(m.group(2))
    need(not waiting, "every wait ends")
    need(landed == (loads if unit == "steps" else 0), "every load lands, and no GPU sees it")
    return records


spans, arrows, unit = check_json(sys.argv[1])
check_svg(sys.argv[2])
records = check_records(sys.argv[3], unit)
print(f"sound: {spans} spans, {arrows} arrows, {records} records")
