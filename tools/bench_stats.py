"""bench_stats.py - what the samples of a results.json of `baton bench` come to, as src/bench/stats.c computes it: a
row of figures for each implementation, size and regime. A test holds the two against each other."""
import statistics

FORMAT = "baton bench 1"
# Of the rows: name -> unit. The figures of one that the bench refused are "refused", unknown ones None.
KEYS = {"impl": "", "label": "", "size": "", "sizes": "", "regime": "", "options": "", "result": "", "why": ""}
FIGURES = {"samples": "", "rounds": "", "median": "ms", "min": "ms", "max": "ms", "low": "ms", "high": "ms",
           "us": "us", "us_low": "us", "us_high": "us", "tflops": "TFLOPS", "gbs": "GB/s", "of_ceiling": "",
           "ratio": "", "ratio_low": "", "ratio_high": "", "joules": "J", "watts": "W", "tflops_per_watt": "TFLOPS/W",
           "sm_mhz": "MHz", "celsius": "C", "limits": ""}
CHECKS = {"compile_ms": "ms", "convert_ms": "ms", "first_ms": "ms", "elements": "", "checked": "", "wrong": "",
          "worst": "", "proof": ""}
UNITS = KEYS | FIGURES | CHECKS
REASONS = {0x1: "idle", 0x2: "setting", 0x4: "power", 0x8: "hardware", 0x10: "sync", 0x20: "heat", 0x40: "heat(hw)",
           0x80: "brake", 0x100: "display"}  # RT_REASONS of rt/meter.h


def middle(values):
    return statistics.median(values) if values else None


def mean(values):
    return statistics.fmean(values) if values else None


def over(a, b):
    return None if a is None or not b else a / b


def watts(readings):
    """Between the first and the last step of the energy counter; None with fewer than two, or when it went back."""
    counted = [(r["ms"], r["joules"]) for r in readings if r["joules"] is not None]
    if any(after < before for (_, before), (_, after) in zip(counted, counted[1:])):
        return None
    steps = [at for at, before in zip(counted[1:], counted) if at[1] != before[1]]
    if len(steps) < 2 or steps[-1][0] <= steps[0][0]:
        return None
    return (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0]) * 1e3


def reasons(bits):
    known = [name for bit, name in REASONS.items() if bits & bit]
    rest = bits & ~sum(REASONS)
    return "+".join(known + ([f"{rest:#x}"] if rest else [])) or "none"


def limits(readings):
    """What held the clock back in more than half of the readings; None when nothing is known."""
    bits = [r["reasons"] for r in readings if r["has_reasons"]]
    return reasons(sum(1 << i for i in range(64) if 2 * sum(b >> i & 1 for b in bits) > len(bits))) if bits else None


def power(data, turns):
    """Joules of a launch are the watts of a turn times the mean time of its launches. Not with a cold cache: the
    counter then also counts what overwrote the cache between the launches."""
    known = [(w, w * mean(t["ms"]) / 1e3) for t in turns if (w := watts(t["during"])) is not None]
    readings = [r for t in turns for r in t["during"]]
    def values(key):
        return [r[key] for r in readings if r[key] is not None]
    return {"watts": mean([w for w, _ in known]),
            "joules": mean([j for _, j in known]) if data["cache"] == "warm" else None,
            "sm_mhz": middle(values("sm_mhz")), "celsius": middle(values("celsius")), "limits": limits(readings)}


def summary(data, impl, size, regime):
    """The figures of one implementation at one size (numbers) in one regime; {} when it was not timed there."""
    def turns(who):
        return [t for t in data["turns"] if (t["impl"], t["size"], t["regime"]) == (who, size, regime) and t["ms"]]
    def medians(turns):
        by_round = {}
        for t in turns:
            by_round.setdefault(t["round"], []).extend(t["ms"])
        return {r: middle(ms) for r, ms in sorted(by_round.items())}
    own = turns(impl)
    ms = [x for t in own for x in t["ms"]]
    if not ms:
        return {}
    job, yardstick = data["sizes"][size], turns(data["yardstick"])
    rounds, others, median = medians(own), medians(yardstick), middle(ms)
    ratios = [others[r] / m for r, m in rounds.items() if r in others]
    s = {"samples": len(ms), "rounds": len(rounds), "median": median, "min": min(ms), "max": max(ms),
         "low": min(rounds.values()), "high": max(rounds.values()),
         "tflops": job["flops"] / median / 1e9 if job["flops"] else None,
         "gbs": job["bytes"] / median / 1e6 if job["bytes"] else None,
         "ratio": over(middle([x for t in yardstick for x in t["ms"]]), median),
         "ratio_low": min(ratios, default=None), "ratio_high": max(ratios, default=None)} | power(data, own)
    s |= {us: s[name] * 1e3 for us, name in (("us", "median"), ("us_low", "low"), ("us_high", "high"))}
    s["of_ceiling"] = over(s["tflops"], data["machine"]["ceiling_tflops"])
    s["tflops_per_watt"] = job["flops"] / s["joules"] / 1e12 if job["flops"] and s["joules"] else None
    return s


def refused(data, impl, size, regime):
    """Must the figure not stand in a table?"""
    return any(w["refused"] and (w["impl"] in (-1, impl)) and (w["size"] in (-1, size)) and
               (w["regime"] in (None, regime)) for w in data["warnings"])


def rows(data):
    """A row for each size, implementation and regime in which anything was timed."""
    made, regimes = [], dict.fromkeys(t["regime"] for t in data["turns"] if t["ms"])
    cases = {(c["impl"], c["size"]): c for c in data["cases"]}
    for s, size in enumerate(data["sizes"]):
        for i, impl in enumerate(data["impls"]):
            case = cases.get((i, s), {})
            for regime in regimes:
                keys = {"impl": impl["name"], "label": impl["label"], "size": size["label"], "sizes": size["text"],
                        "regime": regime, "options": impl["options"], "result": case.get("state", "not tried"),
                        "why": case.get("why", "")}
                figures = summary(data, i, s, regime)
                if figures and refused(data, i, s, regime):
                    figures = dict.fromkeys(FIGURES, "refused")
                made.append(keys | {f: figures.get(f) for f in FIGURES} | {c: case.get(c) for c in CHECKS})
    return made


def warnings(data):
    """Everything that is doubtful, a text each."""
    def where(w):
        names = [data["impls"][w["impl"]]["name"] if w["impl"] >= 0 else None,
                 data["sizes"][w["size"]]["label"] if w["size"] >= 0 else None, w["regime"]]
        return ", ".join(filter(None, names))
    return [w["kind"] + (" (refused)" if w["refused"] else "") + (f" ({where(w)})" if where(w) else "") +
            f": {w['text']}" for w in data["warnings"]]


def compact(data):
    """Text of the same record with a line for each turn: samples with 7 digits (the marks of a GPU have no more),
    readings with three behind the point."""
    import json
    def short(x, digits=3):
        if isinstance(x, dict):
            return {k: short(v) for k, v in x.items()}
        if isinstance(x, list):
            return [short(v) for v in x]
        x = round(x, digits) if isinstance(x, float) else x
        return int(x) if isinstance(x, float) and x == int(x) else x
    def dump(x):
        return json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    lines = []
    for key, value in data.items():
        if key == "turns":
            value = [short(t) | {"ms": [short(float(f"{x:.7g}"), 12) for x in t["ms"]]} for t in value]
        if isinstance(value, list) and value:
            lines.append(f"{dump(key)}:[\n" + ",\n".join(dump(v) for v in value) + "]")
        else:
            lines.append(f"{dump(key)}:{dump(value)}")
    return "{" + ",\n".join(lines) + "}\n"
