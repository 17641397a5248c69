#!/usr/bin/env python3
"""Kernels by both printers, PTX through the library and CUDA C++ through its own launcher, on the
same random data: outputs are compared bit for bit, and both are timed in turns.

    python3 tools/compare_printers.py --build-only      needs baton and nvcc, no GPU
    python3 tools/compare_printers.py [WORD ...]        needs PyTorch and a Hopper GPU; nvcc too, if
                                                        it was not built before
WORDs select names of cases. Files go to --dir (build/compare_printers); with --build-only on another
machine it can be carried to the one with the GPU.

One line a case: bytes of output that differ, milliseconds of both, the ratio CUDA/PTX (least and
largest of the rounds); beyond 2% the line says so. Exit status 1 when bytes differ or anything
fails, never when it is slow. Tables also go to $OUT when it is set."""
import argparse, concurrent.futures, ctypes, os, re, shutil, statistics, subprocess, sys
from pathlib import Path

import record
from library import MAX_RANK, ROOT, Library, Tensor, ratio, turns

FLAGS = ["-std=c++17", "-O3", "-gencode", "arch=compute_90a,code=sm_90a", "--Werror", "all-warnings",
         "-Xcompiler", "-Wall,-fPIC", "-shared", "-Xlinker", "-Bsymbolic"]
LIMIT = 0.02
ATTENTION = ["B=4 S=4096 H=32", "B=1 S=8192 H=16", "B=2 S=1001 H=3", "B=1 S=1 H=1"]
GEMM = ["M=4096 N=4096 K=4096", "M=333 N=264 K=200", "M=333 N=265 K=201"]
GEMM8 = ["M=4096 N=4096 K=4096", "M=333 N=272 K=208", "M=333 N=265 K=201"]
# name: file, options, sizes. Only the first sizes are timed, the others are odd.
CASES = {
    "add": ("learn/add", "", ["N=100000001", "N=1"]),
    "copy": ("learn/copy", "", ["M=16384 N=16383", "M=65 N=63"]),
    "rowsum": ("learn/rowsum", "", ["M=100000 N=1001", "M=3 N=1"]),
    "gemm": ("gemm/gemm", "", GEMM),
    "gemm f16": ("gemm/gemm", "-D ELEM=f16", GEMM[:2]),
    "persistent": ("gemm/persistent", "", ["M=8192 N=8192 K=8192"] + GEMM),
    "persistent f16": ("gemm/persistent", "-D ELEM=f16", GEMM),
    "persistent f8": ("gemm/persistent", "-D FP8", GEMM8),
    "fp8": ("gemm/fp8", "", GEMM8),
    "v1": ("attention/v1", "", ATTENTION),
    "v2": ("attention/v2", "", ATTENTION),
    "v4": ("attention/v4", "", ATTENTION),
    "v3": ("attention/v3", "", ATTENTION),
}
CASES = {n: c for n, c in CASES.items() if (ROOT / f"kernels/{c[0]}.co").exists()}
# Types of the plan: baton_type, bytes, and how PyTorch calls them.
TYPES = {"f32": (0, 4, "float32"), "f16": (1, 2, "float16"), "bf16": (2, 2, "bfloat16"),
         "f8_e4m3": (4, 1, "float8_e4m3fn"), "f8_e5m2": (5, 1, "float8_e5m2"),
         "e4m3": (4, 1, "float8_e4m3fn"), "e5m2": (5, 1, "float8_e5m2")}


# ---- the plan in the head of a PTX file ---------------------------------------------------------


class Device:
    def __init__(self, sms):
        self.sms = sms


def value(text, sizes, sms):
    """An expression of the plan over the sizes; / divides integers, as in C for what is positive."""
    known = {"device": Device(sms), "min": min, "max": max, "__builtins__": {}}
    return eval(text.replace("/", "//"), known | sizes)  # a file that baton wrote


def split(text):
    """The parts of a list at its commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in parts if p]


class Plan:
    """Parameters, in order: name, type, extents as texts, kind (in, out, workspace)."""

    def __init__(self, text):
        plain = r"^//@ param (\w+): (\w+)\[(.*)\] (.*?)(?: align \d+)? @"
        self.params = [(n, t, split(d), k.split()) for n, t, d, k in re.findall(plain, text, re.M)]
        self.others = len(re.findall(r"^//@ param ", text, re.M)) - len(self.params)  # scalars
        self.hosts = [(f, into, split(a)) for f, into, a in
                      re.findall(r"^//@ host (\w+) into (\w+) args \((.*)\)", text, re.M)]
        self.name = re.search(r"^//@ plan (\w+)", text, re.M)[1]

    def extents(self, param, sizes, sms):
        return [value(d, sizes, sms) for d in param[2]]


def prototype(text, name):
    """(kind, name) of the parameters of NAME_launch: kind is "tensor" or a C type."""
    found = re.search(rf'extern "C" int {name}_launch\((.*), cudaStream_t stream\)', text)
    params = []
    for p in found[1].split(", "):
        kind, _, last = p.rpartition(" ")
        params.append(("tensor" if last.startswith("*") else kind, last.lstrip("*")))
    return params


# ---- building -----------------------------------------------------------------------------------


def find(program):
    return shutil.which(program) or shutil.which("/usr/local/cuda/bin/" + program)


def build(o, name, folder):
    """NAME.ptx and NAME.so in `folder`; a text that says what is wrong, or None."""
    file, options, _ = CASES[name]
    base = folder / name.replace(" ", "_")
    source = ROOT / f"kernels/{file}.co"
    if not source.exists():
        return f"there is no {source.relative_to(ROOT)}"
    # The PTX comes last, so that what is there is whole.
    for words in ([f"{o.build}/baton", "build", str(source), *options.split(), "--emit=cuda", "-o", f"{base}.cu"],
                  [find("nvcc") or "nvcc", *FLAGS, "-o", f"{base}.so", f"{base}.cu"],
                  [f"{o.build}/baton", "build", str(source), *options.split(), "-o", f"{base}.ptx"]):
        try:
            p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as e:
            return str(e)
        if p.returncode or p.stdout.strip():
            return f"{' '.join(words[:3])}: {p.stdout.strip()[:2000] or p.returncode}"
    return None


def stale(o, name, folder):
    """Is there no result of `build`, or an older one than the kernel or the compiler?"""
    made, source = folder / (name.replace(" ", "_") + ".ptx"), ROOT / f"kernels/{CASES[name][0]}.co"
    if not made.exists():
        return True
    newer = [p for p in (source, Path(o.build) / "baton") if p.exists() and p.stat().st_mtime > made.stat().st_mtime]
    return bool(newer and find("nvcc"))


def build_all(o, names, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return {n: e for n, e in zip(names, pool.map(lambda n: build(o, n, folder), names)) if e}


# ---- running ------------------------------------------------------------------------------------


class HostFunction(ctypes.Structure):  # OpsHostFunction of ops/host.h
    FILL = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_void_p)
    SIZE = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p)
    _fields_ = [("name", ctypes.c_char_p), ("nargs", ctypes.c_int), ("args", ctypes.c_char_p),
                ("type", ctypes.c_int), ("rank", ctypes.c_int), ("extents", ctypes.c_void_p),
                ("size", SIZE), ("fill", FILL)]


class HostSize(ctypes.Structure):  # OpsHostSize
    _fields_ = [("dim", ctypes.c_int64 * 2), ("bytes", ctypes.c_size_t), ("scratch", ctypes.c_size_t)]


def workspace(lib, function, args):
    """The bytes that a host function of the library makes: the launcher of the CUDA file leaves that
    to its caller."""
    lib.ops_host_find.restype = ctypes.POINTER(HostFunction)
    f = lib.ops_host_find(function.encode()).contents
    numbers, size = (ctypes.c_int64 * len(args))(*args), HostSize()
    why = f.size(numbers, ctypes.byref(size))
    out, scratch = ((ctypes.c_int64 * (n // 8 + 1))() for n in (size.bytes, size.scratch))
    why = why or f.fill(numbers, scratch, out)
    if why:
        raise RuntimeError(why.decode())
    return bytearray(ctypes.string_at(out, size.bytes))


def tensors(torch, plan, sizes, sms):
    """Name -> (tensor of bytes, baton_type, extents): inputs uniform(-2, 2), outputs all ones bits."""
    g, made = torch.Generator("cuda").manual_seed(7), {}
    for param in plan.params:
        name, kind, _, flags = param
        if "workspace" in flags:
            continue
        code, size, torch_type = TYPES[kind]
        dims, n = plan.extents(param, sizes, sms), 1
        for d in dims:
            n *= d
        if "in" in flags:
            data = torch.rand(n, generator=g, device="cuda").mul_(4).sub_(2).to(getattr(torch, torch_type))
        else:
            data = torch.empty(n * size, dtype=torch.uint8, device="cuda")
        made[name] = data.view(torch.uint8), code, dims
    return made


def ptx_launcher(library, module, made, stream):
    args = (Tensor * len(made))()
    for a, (data, code, dims) in zip(args, made.values()):
        a.size, a.data, a.type, a.rank = ctypes.sizeof(Tensor), data.data_ptr(), code, len(dims)
        a.dim = (ctypes.c_int64 * MAX_RANK)(*dims)
    def launch():
        library.must(library.lib.baton_launch(module, args, len(args), ctypes.c_void_p(stream)))
    return launch


def cuda_launcher(base, plan, made, spaces, sizes, stream):
    """The C launcher of the CUDA file through ctypes; pointers and 64-bit sizes by name."""
    lib = ctypes.CDLL(str(base) + ".so")
    function, message = getattr(lib, plan.name + "_launch"), getattr(lib, plan.name + "_message")
    message.restype = ctypes.c_char_p
    args = []
    for kind, name in prototype(Path(str(base) + ".cu").read_text(), plan.name):
        if kind == "tensor":
            args.append(ctypes.c_void_p((spaces[name] if name in spaces else made[name][0]).data_ptr()))
        elif kind == "int64_t":
            args.append(ctypes.c_int64(sizes[name]))
        else:
            raise RuntimeError(f"parameter {name} of type {kind} is not known to this script")
    args.append(ctypes.c_void_p(stream))
    def launch():
        code = function(*args)
        if code:
            raise RuntimeError(message(code).decode())
    return launch


def run_case(torch, library, base, sizes_text, timed):
    """The cells of one line, whether the outputs are equal, and the figures of the record."""
    plan = Plan(Path(str(base) + ".ptx").read_text())
    if plan.others:
        raise RuntimeError("it has parameters that are no tensors; not known to this script")
    sizes = {n: int(v) for n, v in (w.split("=") for w in sizes_text.split())}
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    stream = torch.cuda.current_stream().cuda_stream
    made = tensors(torch, plan, sizes, sms)
    spaces = {}
    for function, into, args in plan.hosts:
        made_by_host = workspace(library.lib, function, [value(a, sizes, sms) for a in args])
        spaces[into] = torch.frombuffer(made_by_host, dtype=torch.uint8).to("cuda")
    module = library.load(str(base) + ".ptx")
    launches = {"PTX": ptx_launcher(library, module, made, stream),
                "CUDA": cuda_launcher(base, plan, made, spaces, sizes, stream)}
    outputs = [made[p[0]][0] for p in plan.params if "out" in p[3]]
    bits = {}
    for name, launch in launches.items():
        for out in outputs:
            out.fill_(0xff)
        launch()
        torch.cuda.synchronize()
        bits[name] = torch.cat(outputs)
    differ = int((bits["PTX"] != bits["CUDA"]).sum())
    untouched = float((bits["PTX"] == 0xff).float().mean())
    line = f"{'equal' if not differ else f'DIFFERENT: {differ}':>16} of {bits['PTX'].numel():>10} bytes"
    line += f" ({untouched:5.1%} ff)"
    figures = [differ] + [None] * 5
    if timed and not differ:
        del bits
        made = turns(torch.cuda, launches, 5, 0.3, 0.1)
        ms = {n: statistics.median([m for r in rounds for m in r]) for n, rounds in made.items()}
        middle, low, high = ratio(made["CUDA"], made["PTX"])
        figures = [differ, ms["PTX"], ms["CUDA"], middle, low, high]
        line += f"  PTX {ms['PTX']:8.4f} ms  CUDA {ms['CUDA']:8.4f} ms  {middle:.3f} ({low:.3f}-{high:.3f})"
        line += "" if abs(middle - 1) <= LIMIT else "  OVER 2%"
    library.lib.baton_unload(module)
    return line, not differ and untouched < 0.5, figures


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("words", nargs="*")
    options.add_argument("--build", default=str(ROOT / "build"), help="folder of baton and libbaton.so")
    options.add_argument("--dir", default=str(ROOT / "build/compare_printers"))
    options.add_argument("--build-only", action="store_true")
    record.option(options)
    o = options.parse_args()
    folder = Path(o.dir)
    names = [n for n in CASES if not o.words or any(w in n for w in o.words)]
    missing = [n for n in names if o.build_only or stale(o, n, folder)]
    errors = build_all(o, missing, folder)
    for name, error in errors.items():
        print(f"{name}: {error}")
    if o.build_only:
        print(f"{len(names) - len(errors)} of {len(names)} built in {folder}")
        return int(bool(errors))
    import torch
    library = Library(f"{o.build}/libbaton.so")
    lines, rows, good = [], [], not errors
    for name in names:
        if name in errors:
            continue
        for i, sizes in enumerate(CASES[name][2]):
            try:
                base = folder / name.replace(" ", "_")
                text, equal, figures = run_case(torch, library, base, sizes, i == 0)
            except RuntimeError as e:
                text, equal, figures = f"FAILED: {str(e).splitlines()[0]}", False, [None] * 6
            rows.append([name, sizes, i == 0, *figures])
            good &= equal
            lines.append(f"{name:>14} {sizes:<22} {text}")
            print(lines[-1], flush=True)
            torch.cuda.empty_cache()
    lines.append("both printers agree" if good else "FAILED")
    print(lines[-1])
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], "compare_printers.txt").write_text("\n".join(lines) + "\n")
    if o.record:
        columns = ["case", "sizes", "timed", "differ:bytes", "ptx:ms", "cuda:ms", "ratio", "low", "high"]
        record.write(o.record, [record.table(columns, rows, title="CUDA C++ through nvcc, against PTX")],
                     record.versions(o.build, torch))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
