#!/usr/bin/env python3
"""The table of docs/verification.md about tests/race/seed: one race, and every attempt to end it.

    python3 tools/seed_table.py [--build build] [--write | --check]

Rows are those of tests/race/seed/rows.list; cells come from runs of each tier and, for the GPU, from
the record of tools/stress_corpus.py. --write puts the table between its markers, --check fails
unless it stands there. Exit status 1 on any difference between a head and a tier."""
import os, re, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from race_table import NOT_RUN, PTXAS, RACE, Kernel, Tiers, main, run

SEED = RACE / "seed"
BEGIN, END = "<!-- seed: begin (tools/seed_table.py --write) -->", "<!-- seed: end -->"
SCHEDULES = 20


def emulated(tiers, k, *words):
    """What `baton run` says: the rules that it reports, and whether all values came out right."""
    status, text = run(tiers.baton, "run", k.path, "--device=emu", *words)
    rules = sorted(set(re.findall(r"hazard: (O\d+)", text)))
    wrong = "WRONG" in text or re.search(r"^  differ", text, re.M)
    values = "values wrong" if wrong else "values right"
    if "unchecked" in text and not wrong:
        values = "values not checked"
    return f"{', '.join(rules) or 'clean'}; {values}"


def tier_cell(tiers, tier, k, wrong):
    """A tier that a head claims reports; machine code that no head complains of is clean."""
    if k.buggy and (tier in k.claims or tier != "audit"):
        return tiers.cell(tier, k, wrong) or "–"
    if k.buggy and not PTXAS:
        return "clean"
    own = getattr(tiers, tier, None) or (lambda x, right: tiers.other(tier, x, right))
    said = own(k, False)
    if said:
        wrong.append(f"{k.path}: {tier}: {said}, which its head does not say")
    return said or "clean"


def cells(tiers, k):
    wrong = []
    out = ["O6 broken" if k.buggy else "kept", emulated(tiers, k),
           emulated(tiers, k, "--schedule=adversarial", f"--seeds={SCHEDULES}", "--seed=1")]
    out += [tier_cell(tiers, t, k, wrong) for t in ("explore", "check", "audit")]
    return out + [tiers.verdicts.get(f"seed/{k.name}", NOT_RUN)], wrong


def table(build):
    tiers = Tiers(build)
    rows = [[c.strip() for c in l.split("|")] for l in (SEED / "rows.list").read_text().splitlines()
            if l and not l.startswith("#")]
    kernels = {p.stem: Kernel(p) for p in sorted(SEED.glob("*.thr"))}
    wrong = [f"{SEED}/rows.list: no kernel {r[2]}" for r in rows if r[2] not in kernels]
    wrong += [f"{k.path}: no row has it" for n, k in kernels.items() if n not in {r[2] for r in rows}]
    wrong += [f"{k.path}: the place is {k.expected}" for k in kernels.values()
              if k.buggy and k.expected != k.head.get("place")]
    if wrong:
        return "", wrong
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = dict(zip(kernels, pool.map(lambda k: cells(tiers, k), kernels.values())))
    out = ["| before the release of h | there | kernel | rules | emulator, calm | "
           f"emulator, {SCHEDULES} adversarial | explore | check | audit | H200 |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for text, page, name in rows:
        out.append(f"| {text} | {page} | [{name}](../{kernels[name].path}) | "
                   + " | ".join(said[name][0]) + " |")
    if tiers.record:
        out += ["", f"H200: {tiers.record}."]
    for _, w in said.values():
        wrong += w
    return "\n".join(out) + "\n", wrong


if __name__ == "__main__":
    sys.exit(main(__doc__, table, BEGIN, END, "tools/seed_table.py"))
