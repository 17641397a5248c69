#!/usr/bin/env python3
"""Tests of tools/compare_printers.py without a GPU or PyTorch: what it reads from plans and from
the prototypes of launchers, for every kernel that it compares, and the lists that it has the library
make. Arguments: folder of baton's build, scratch folder."""
import ctypes, os, subprocess, sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.modules["torch"] = None  # must not be needed here
import compare_printers as cp

build, scratch = Path(sys.argv[1]), Path(sys.argv[2])
scratch.mkdir(exist_ok=True)
# A sanitizer build of the library needs the sanitizer's runtime before Python's first library. Python
# itself leaves memory to the end of the process.
if b"libasan" in (build / "libbaton.so").read_bytes() and "LD_PRELOAD" not in os.environ:
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True).stdout.strip()
    os.environ |= {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    os.execv(sys.executable, [sys.executable, *sys.argv])
passed = failed = 0


def expect(what, got, wanted):
    global passed, failed
    passed, failed = passed + (got == wanted), failed + (got != wanted)
    if got != wanted:
        print(f"FAILED {what}: {got!r}, expected {wanted!r}")


expect("a list", cp.split("(a, b), min(c, d), [e, f]"), ["(a, b)", "min(c, d)", "[e, f]"])
expect("an empty list", cp.split(""), [])
expect("an expression", cp.value("min(device.sms, B*((S + 127)/128))", {"B": 3, "S": 300}, 132), 9)
expect("the device", cp.value("min(device.sms, B*((S + 127)/128))", {"B": 300, "S": 300}, 132), 132)
plan = cp.Plan("""//@ plan f
//@ param x: bf16[M, (N + 7)/8] in align 16 @1:2
//@ param a: f32 in @1:3
//@ param t: s32[min(device.sms, M), 4] in workspace align 16 @1:4
//@ param y: f32[M] in out align 4 @1:5
//@ host make_list into t args (min(device.sms, M), (N + 1)/2)
""")
expect("parameters", [(n, t, k) for n, t, _, k in plan.params],
       [("x", "bf16", ["in"]), ("t", "s32", ["in", "workspace"]), ("y", "f32", ["in", "out"])])
expect("a scalar", plan.others, 1)
expect("extents", plan.extents(plan.params[0], {"M": 5, "N": 9}, 132), [5, 2])
expect("host function", plan.hosts, [("make_list", "t", ["min(device.sms, M)", "(N + 1)/2"])])

library = ctypes.CDLL(str((build / "libbaton.so").resolve()))
for name, (file, options, sizes) in cp.CASES.items():
    base = scratch / name.replace(" ", "_")
    for suffix, form in ((".ptx", []), (".cu", ["--emit=cuda"])):
        subprocess.run([build / "baton", "build", ROOT / f"kernels/{file}.co", *options.split(), *form, "-o",
                        f"{base}{suffix}"], check=True)
    plan = cp.Plan(Path(f"{base}.ptx").read_text())
    given = {n: int(v) for n, v in (w.split("=") for w in sizes[0].split())}
    launcher = cp.prototype(Path(f"{base}.cu").read_text(), plan.name)
    expect(f"{name}: tensors of plan and launcher", [n for k, n in launcher if k == "tensor"],
           [p[0] for p in plan.params])
    expect(f"{name}: sizes of the launcher", sorted(n for k, n in launcher if k == "int64_t"), sorted(given))
    expect(f"{name}: nothing else", {k for k, _ in launcher}, {"tensor", "int64_t"})
    expect(f"{name}: types", all(p[1] in cp.TYPES or "workspace" in p[3] for p in plan.params), True)
    for function, into, args in plan.hosts:
        made = cp.workspace(library, function, [cp.value(a, given, 132) for a in args])
        param = next(p for p in plan.params if p[0] == into)
        rows, columns = plan.extents(param, given, 132)
        expect(f"{name}: bytes of {into}", len(made), 4 * rows * columns)
        expect(f"{name}: {into} begins behind the rows of the blocks", int.from_bytes(made[:4], "little"), 132)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
