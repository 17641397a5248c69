#!/usr/bin/env python3
"""gemm_peers.py - a peer of `baton bench gemm` that computes, in plain Python, from the files that it gets: so
the way of the arrays is tested. `cublas` is right, `fa2` (which knows no gemm in life) is wrong in one
element, `fa3` is missing, `triton` degraded, `tilelang` dies in its second turn."""
import array, json, struct, sys, time

job, inputs, turns = {}, [], 0


def read(path):
    words = array.array("H", open(path, "rb").read())
    return [struct.unpack("<f", struct.pack("<I", w << 16))[0] for w in words]


def to_bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def result(r):
    (m, k), (n, _) = (t["dim"] for t in job["tensors"])
    a, b = inputs
    c = [to_bf16(sum(x * y for x, y in zip(a[i * k:i * k + k], b[j * k:j * k + k])))
         for i in range(m) for j in range(n)]
    if r["backend"] == "fa2":
        c[m * n // 2] ^= 0x4000
    open(r["file"], "wb").write(array.array("H", c).tobytes())
    return {"ok": True}


def prepare(r):
    if r["backend"] == "triton":
        return {"ok": False, "kind": "degraded", "why": "4 warps, 12 were asked for"}
    return {"ok": True, "compile_ms": 1.5, "convert_ms": 0.5, "first_ms": 2.0, "label": "Python",
            "proof": "it is slow", "source": "", "code": ""}


def turn(r):
    global turns
    turns += 1
    if r["backend"] == "tilelang" and turns > 1:
        sys.exit("out of breath")
    now = time.monotonic() * 1000
    group = r["group"] or 1
    return {"ok": True, "ms": [5.0 + i % 3 / 100 for i in range(r["repeat"])], "group": group, "host_ms": 1.0,
            "host_bound": False, "load_ms": 0.0, "t0": now, "t1": now, "t2": now}


for line in sys.stdin:
    r = json.loads(line)
    answer = {"ok": True}
    if r["do"] == "hello":
        answer |= {"versions": {"Python": "3"}, "backends": {name: "" for name in
                   ("cublas", "fa2", "triton", "tilelang")} | {"fa3": "no module flash_attn_interface"}}
    elif r["do"] == "open":
        job, inputs = r, [read(t["file"]) for t in r["tensors"]]
    elif r["do"] == "prepare":
        answer = prepare(r)
    elif r["do"] == "result":
        answer = result(r)
    elif r["do"] == "turn":
        answer = turn(r)
    print(json.dumps(answer), flush=True)
    if r["do"] == "bye":
        break
