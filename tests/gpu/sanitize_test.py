#!/usr/bin/env python3
"""Tests of tools/sanitize.py without its tool: what it reads from texts, and a whole run with a
shell script in the tool's place (arguments: folder of baton's build, scratch folder)."""
import json, os, subprocess, sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from sanitize import run, sizes, verdict

build, scratch = Path(sys.argv[1]), Path(sys.argv[2])
scratch.mkdir(exist_ok=True)
passed = failed = 0


def expect(what, got, wanted):
    global passed, failed
    passed, failed = passed + (got == wanted), failed + (got != wanted)
    if got != wanted:
        print(f"FAILED {what}: {got!r}, expected {wanted!r}")


RAN = "attention: launched once on NVIDIA H200; nothing was checked\n"
NONE = "========= ERROR SUMMARY: 0 errors\n"
RACES = "========= RACECHECK SUMMARY: {} displayed ({}, {})\n"
for what, text, status, wanted in (
        ("clean", RAN + NONE, 0, "0"),
        ("one error", RAN + "========= ERROR SUMMARY: 1 error\n", 9, "1"),
        ("errors", "========= ERROR SUMMARY: 384 errors\n", 1, "384"),
        ("no races", RAN + RACES.format("0 hazards", "0 errors", "0 warnings"), 0, "0"),
        ("races", RAN + RACES.format("3 hazards", "1 error", "2 warnings"), 0, "1+2w"),
        ("warnings only", RAN + RACES.format("1 hazard", "0 errors", "1 warning"), 0, "0+1w"),
        ("no time", RAN, None, "timeout"),
        ("no summary", RAN, 0, "no-end(0)"),
        ("crash of the tool", RAN + "========= Internal Sanitizer Error\n" + NONE, 1, "unsupported"),
        ("kernel refused", NONE, 2, "not-run(2)"),
        ("nothing launched", NONE, 0, "not-run(0)")):
    expect(what, verdict(text, status, "launched once"), wanted)
for kernel in (ROOT / "kernels").glob("*/*.co"):
    expect(f"sizes of {kernel.stem}", bool(sizes(str(kernel.relative_to(ROOT / "kernels")))), True)

tool = scratch / "tool"  # counts its runs as errors of add.co, and hangs in copy.co
tool.write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift 2; done\ncase "$*" in *copy.co*) sleep 60 ;; esac\n"$@"\n'
                'case "$*" in *add.co*) echo "ERROR SUMMARY: 2 errors" ;; *) echo "ERROR SUMMARY: 0 errors" ;; esac\n')
tool.chmod(0o755)
expect("a run that hangs ends", run(str(tool), "memcheck", ["copy.co"], scratch / "log", 0.2, "")[0], "timeout")
words = [sys.executable, str(ROOT / "tools/sanitize.py"), "--build", str(build), "--sanitizer", str(tool),
         "--tools", "memcheck", "--record", str(scratch / "r.json"), "kernels/learn/rowsum.co", "kernels/learn/add.co:N=9"]
os.environ |= {"OUT": str(scratch), "LD_LIBRARY_PATH": f"{build}/tests/fake", "PATH": "/usr/bin:/bin",
               "PYTHONDONTWRITEBYTECODE": "1"}
p = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
expect("exit status", p.returncode, 1)
lines = {line.split()[0]: line for line in p.stdout.splitlines() if line.strip()}
expect("clean kernel", lines["rowsum"].split("|")[1].split()[0], "0")
expect("kernel with errors", lines["add"].split("|")[1].split()[0], "2")
expect("a tool that is blind is named, or not tried", "of a kernel that is wrong" in p.stdout or "no nvcc" in p.stdout, True)
expect("table in OUT", "NOT CLEAN" in (scratch / "sanitize/table.txt").read_text(), True)
data = json.loads((scratch / "r.json").read_text())
expect("the record", data["tables"][0]["rows"], [["memcheck", 2, 1]])
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
