#!/usr/bin/env python3
"""bench/peers.py without a GPU: its protocol, with stand-ins for PyTorch and libraries (fake*/).
Their clocks move only by what is launched, so that every time is known."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"
ATTENTION = ("cudnn", "fa2", "fa3", "triton", "triton_ws", "tilelang")


def near(a, b, by=1e-6):
    assert abs(a - b) <= by, f"{a} is not {b}"


def pack(kind, values):
    if kind == "bf16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    code = {"f32": "f", "f16": "e", "s32": "i", "u8": "B"}[kind]
    return struct.pack(f"<{len(values)}{code}", *values)


def unpack(kind, data):
    if kind == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class Process:
    """peers.py with some of the stand-ins and made-up times; `ask` gives a request's answer."""

    def __init__(self, *fakes, **options):
        self.folder = tempfile.TemporaryDirectory()
        paths = [str(HERE / f) for f in fakes]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "FAKE_TORCH": json.dumps(options)}
        pipe = subprocess.PIPE
        self.p = subprocess.Popen([sys.executable, "-S", str(BENCH / "peers.py")], text=True,
                                  stdin=pipe, stdout=pipe, stderr=pipe, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.stdin.close()
        self.p.wait(timeout=30)
        self.p.stdout.close()
        self.p.stderr.close()
        self.folder.cleanup()

    def send(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        assert answer, "no answer: " + self.p.stderr.read()
        return json.loads(answer)

    def ask(self, do, **request):
        return self.send(json.dumps({"do": do} | request))

    def must(self, do, **request):
        answer = self.ask(do, **request)
        assert answer.pop("ok"), f"{do}: {answer}"
        return answer

    def refuses(self, kind, part, do, **request):
        answer = self.ask(do, **request)
        assert answer["ok"] is False and answer["kind"] == kind and part in answer["why"], answer

    def path(self, name):
        return os.path.join(self.folder.name, name + ".raw")

    def open(self, op, tensors, result, **more):
        """tensors: name -> (type, dim, values)."""
        for name, (kind, _, values) in tensors.items():
            Path(self.path(name)).write_bytes(pack(kind, values))
        described = [{"name": n, "type": k, "dim": d, "file": self.path(n)}
                     for n, (k, d, _) in tensors.items()]
        return self.ask("open", op=op, tensors=described, result=result, sizes={}, **more)

    def values(self, name, kind):
        self.must("result", backend=name, file=self.path("out"))
        return unpack(kind, Path(self.path("out")).read_bytes())


def start(*fakes, **options):
    p = Process("fake", *fakes, **options)
    p.hello = p.must("hello", gpu=0)
    return p


def inputs(b=2, s=5, h=3, d=4):
    """q, k, v of small random numbers that bf16 has, [B, S, H, D]."""
    r = random.Random(1)
    return {n: ("bf16", [b, s, h, d], [r.randrange(-64, 64) / 32 for _ in range(b * s * h * d)])
            for n in "qkv"}


def attention(tensors, causal):
    """By the definition, in BSHD."""
    b, s, h, d = tensors["q"][1]
    q, k, v = (tensors[n][2] for n in "qkv")
    at = lambda i, j, l: ((i * s + j) * h + l) * d
    out = [0.0] * len(q)
    for i in range(b):
        for l in range(h):
            for j in range(s):
                scores = [sum(q[at(i, j, l) + x] * k[at(i, n, l) + x] for x in range(d))
                          for n in range(j + 1 if causal else s)]
                p = [math.exp(score / math.sqrt(d)) for score in scores]
                for x in range(d):
                    total = sum(w * v[at(i, n, l) + x] for n, w in enumerate(p))
                    out[at(i, j, l) + x] = total / sum(p)
    return out


def open_attention(p, causal=True, **sizes):
    tensors = inputs(**sizes)
    answer = p.open("attention", tensors, {"name": "o", "type": "bf16", "dim": tensors["q"][1]},
                    causal=causal)
    assert answer == {"ok": True}, answer
    return attention(tensors, causal)


def same(got, want, by=0.02):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        near(g, w, by)


TINY = {"b": 1, "s": 1, "h": 1, "d": 1}  # where only times count


# ---- tests ----

def test_hello_says_what_is_there():
    with start("fake_fa3", "fake_triton") as p:
        v, b = p.hello["versions"], p.hello["backends"]
        assert v["PyTorch"] == "9.8.7" and v["cuDNN"] == "9.19.0" and v["CUDA"] == "13.0"
        assert b["cudnn"] == b["fa2"] == b["fa3"] == b["triton"] == b["cublas"] == ""
        assert b["tilelang"] == "no module tilelang" and b["fla"] == "no module fla"
        assert p.hello["operations"]["cublas"] == "gemm"
        assert p.hello["device"] == {"name": "Fake GPU", "uuid": "12-34", "pci": "00000000:17:00.0"}


def test_without_torch_and_without_gpu():
    with Process() as p:
        assert set(p.must("hello", gpu=0)["backends"].values()) == {"no module torch"}
        p.refuses("missing", "PyTorch", "open", op="attention", tensors=[], result={})
        p.refuses("wrong_use", "prepare before open", "prepare", backend="cudnn")
    with start(no_gpu=True) as p:
        assert p.hello["backends"]["cudnn"] == "PyTorch sees no GPU"
    with Process("fake") as p:
        p.refuses("wrong_use", "no GPU 3", "hello", gpu=3)


def test_results_are_in_the_layout_asked_for():
    with start("fake_fa3", "fake_triton") as p:
        for causal in (True, False):
            want = open_attention(p, causal)
            for name in ("cudnn", "fa2", "fa3", "triton", "triton_ws"):
                p.must("prepare", backend=name)
                same(p.values(name, "bf16"), want)


def test_prepare_says_what_it_took():
    with start("fake_triton") as p:
        open_attention(p)
        a = p.must("prepare", backend="cudnn")
        assert a["label"] == "cuDNN 9.19.0 (PyTorch SDPA)" and a["source"] == a["code"] == ""
        assert a["compile_ms"] == a["convert_ms"] == 0 and "CUDNN_ATTENTION alone" in a["proof"]
        assert 0.05 <= a["first_ms"] < 0.1, a
        a = p.must("prepare", backend="triton_ws")
        assert a["compile_ms"] > 1 and len(a["source"]) == len(a["code"]) == 64
        assert a["label"] == "Triton 3.6.0, own kernel, specialised warps"
        assert "12 warps in all" in a["proof"]


def test_every_sample_is_one_launch():
    with start(device_ms=0.05) as p:
        open_attention(p, **TINY)
        p.must("prepare", backend="cudnn")
        for more, group in (({}, 1), ({"group": 3}, 3), ({"group": 0}, 4),
                            ({"cold_bytes": 1000}, 1),
                            ({"cold_bytes": 1000, "group": 0}, 1),
                            ({"method": "graph"}, 1), ({"method": "graph", "group": 0}, 4)):
            a = p.must("turn", backend="cudnn", repeat=7, warmup=2, **more)
            assert len(a["ms"]) == 7 and a["group"] == group and a["host_bound"] is False, (more, a)
            for ms in a["ms"]:
                near(ms, 0.05)
            between = 6 * 0.5 if "cold_bytes" in more else 0
            near(a["t1"] - a["t0"], 7 * group * 0.05 + between, 0.01)


def test_groups_are_of_what_a_sample_takes():
    with start(device_ms=0.05, gap_ms=0.05) as p:
        open_attention(p, **TINY)
        p.must("prepare", backend="cudnn")
        for method, group, ms in (("event", 2, 0.1), ("graph", 4, 0.05)):
            a = p.must("turn", backend="cudnn", repeat=3, group=0, method=method)
            assert a["group"] == group, a
            near(a["ms"][1], ms)


def test_cold_overwrites_before_each_launch():
    with start(device_ms=0.05) as p:
        open_attention(p, **TINY)
        p.must("prepare", backend="cudnn")
        a = p.must("turn", backend="cudnn", repeat=5, cold_bytes=4096)
        near(a["t1"] - a["t0"], 5 * 0.05 + 4 * 0.5, 0.01)  # the overwriting takes 0.5 ms here
        p.refuses("wrong_use", "graph", "turn", backend="cudnn", cold_bytes=4096, method="graph")


def test_load_idle_and_the_end():
    with start(device_ms=0.5) as p:
        open_attention(p, **TINY)
        p.must("prepare", backend="cudnn")
        a = p.must("turn", backend="cudnn", repeat=4, warmup=3, load_s=0.2)
        assert 195 < a["load_ms"] < 220, a
        a = p.must("turn", backend="cudnn", repeat=4, warmup=90, load_s=0)
        assert 20 < a["load_ms"] < 46, a  # 90 launches of 0.5 ms; the last are still to come
        a = p.must("turn", backend="cudnn", repeat=4)
        assert a["load_ms"] == 0 and a["t2"] - a["t0"] < 3, a
        a = p.must("turn", backend="cudnn", repeat=4, min_s=0.1)
        near(a["t1"] - a["t0"], 2, 0.01)
        assert 100 <= a["t2"] - a["t0"] < 120, a
        before = a["t2"]
        a = p.must("turn", backend="cudnn", repeat=4, idle_s=3)
        assert 3000 < a["t0"] - before < 3010, a


def test_a_slow_host_is_noticed():
    with start(device_ms=0.05, host_ms=0.2) as p:
        open_attention(p, **TINY)
        p.must("prepare", backend="cudnn")
        def bound(group):
            return p.must("turn", backend="cudnn", repeat=20, group=group)["host_bound"]
        assert bound(1) is False  # thanks to the head start
        assert bound(100) is True
        a = p.must("turn", backend="cudnn", repeat=20, group=100, method="graph")
        assert a["host_bound"] is False
        near(a["ms"][10], 0.05)


def test_missing_is_said_and_not_replaced():
    with start() as p:
        open_attention(p)
        p.refuses("missing", "no module flash_attn_interface", "prepare", backend="fa3")
        p.refuses("missing", "there is no backend fa9", "prepare", backend="fa9")
        p.refuses("wrong_use", "was not prepared", "turn", backend="fa3")
        p.refuses("wrong_use", "computes gemm", "prepare", backend="cublas")


def test_a_backend_that_refuses_fails():
    with start(refuse=["FLASH_ATTENTION"]) as p:
        open_attention(p)
        p.refuses("failed", "No available kernel: FLASH_ATTENTION", "prepare", backend="fa2")
        p.refuses("wrong_use", "was not prepared", "result", backend="fa2", file=p.path("out"))
        p.must("prepare", backend="cudnn")


def test_lost_specialisation_is_degraded():
    with start("fake_triton", triton_roles=False) as p:
        want = open_attention(p)
        p.refuses("degraded", "asked for 4 warps that compute and roles beside them, got 4 warps "
                  "in all", "prepare", backend="triton_ws")
        p.must("prepare", backend="triton")
        same(p.values("triton", "bf16"), want)


def test_what_hangs_is_ended():
    with start("fake_triton", triton_hangs=True) as p:
        open_attention(p)
        p.refuses("failed", "did not come back within 1 s", "prepare", backend="triton_ws",
                  limit_s=1)
        p.must("prepare", backend="triton")


def test_tuning_leaves_out_what_fails():
    with start("fake_triton", triton_fails=[128]) as p:
        open_attention(p)
        a = p.must("prepare", backend="triton")
        assert a["proof"].startswith("64x128, 4 warps, 2 stages: 4 warps in all"), a
        assert "left out 128x128, 8 warps, 2 stages: out of resource" in a["proof"]
        p.refuses("failed", "out of resource: shared memory", "prepare", backend="triton_ws")


def test_products():
    with start() as p:
        a = ("f16", [2, 3], [1, 2, 3, 4, 5, 6])
        b = ("f16", [4, 3], [1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1])
        assert p.open("gemm", {"a": a, "b": b}, {"name": "c", "type": "f32", "dim": [2, 4]})["ok"]
        p.must("prepare", backend="cublas")
        same(p.values("cublas", "f32"), [1, 2, 3, 6, 4, 5, 6, 15])
        p.open("gemm", {"a": a, "b": b}, {"name": "c", "type": "f32", "dim": [4, 2]})
        p.refuses("wrong_use", "was not prepared", "turn", backend="cublas")  # open drops it


def correction(t, s, h, n, vk, reverse):
    """By the head of kernels/gdn/correct.co, of the two sequences that `offsets` cuts."""
    names = "ends", "propagation", "fallback", "offsets", "raw"
    ends, matrix, mask, offsets, raw = (t[x][2] for x in names)
    out = [0.0] * len(ends)
    for first, last, start in ((offsets[0], offsets[1], 0), (offsets[1], offsets[2], 1)):
        for head in range(h):
            base = lambda x: (x * h + head) * n * n
            state = raw[base(start):base(start) + n * n] if raw else [0.0] * (n * n)
            for x in range(first, last)[::-1 if reverse else 1]:
                out[base(x):base(x) + n * n] = state
                made = list(ends[base(x):base(x) + n * n])
                for i, j, c in ((i, j, c) for i in range(n) for j in range(n) for c in range(n)):
                    k = j if vk else i  # the row of the product
                    m = matrix[base(x) + (c * n + k if reverse else k * n + c)]
                    before = state[i * n + c if vk else c * n + j]
                    made[i * n + j] += m * before * mask[x * h + head]
                state = made
    return out


def corrections():
    """Tensors of the operation, and what the result is like."""
    r, s, h, n = random.Random(2), 5, 2, 3
    def some(count):
        return [r.randrange(-64, 64) / 64 for _ in range(count)]
    t = {"ends": ("f32", [s, h, n, n], some(s * h * n * n)),
         "propagation": ("f32", [s, h, n, n], some(s * h * n * n)),
         "fallback": ("u8", [s, h], [r.randrange(2) for _ in range(s * h)]),
         "offsets": ("s32", [3], [0, 3, 5]), "raw": ("f32", [2, h, n, n], some(2 * h * n * n))}
    return t, {"name": "corrected", "type": "f32", "dim": [s, h, n, n]}


def test_corrections():
    t, result = corrections()
    s, h, n, _ = result["dim"]
    with start("fake_qla", "fake_fla") as p:
        for vk in (False, True):
            for reverse in (False, True):
                for raw in (t["raw"], ("f32", [0, h, n, n], [])):
                    t2 = t | {"raw": raw}
                    assert p.open("correct", t2, result, vk=vk, reverse=reverse)["ok"]
                    p.must("prepare", backend="flashqla")
                    same(p.values("flashqla", "f32"), correction(t2, s, h, n, vk, reverse), 1e-4)
        p.refuses("missing", "FLA has no call for this operation", "prepare", backend="fla")
        mixed = t | {"ends": ("bf16",) + t["ends"][1:]}
        p.open("correct", mixed, result)
        p.refuses("failed", "one type", "prepare", backend="flashqla")


def test_a_trial_has_the_lengths_of_the_job():
    t, result = corrections()
    with start("fake_qla", qla_hangs=True) as p:
        p.open("correct", t, result)
        p.refuses("failed", "did not come back", "prepare", backend="flashqla", limit_s=1)


def test_a_wrong_shape_is_not_written():
    with start() as p:
        tensors = inputs()
        p.open("attention", tensors, {"name": "o", "type": "bf16", "dim": [2, 3, 5, 4]})  # BHSD
        p.must("prepare", backend="cudnn")
        p.refuses("failed", "[2, 5, 3, 4]", "result", backend="cudnn", file=p.path("out"))
        assert not os.path.exists(p.path("out"))


def test_a_result_is_not_of_an_earlier_call():
    with start("fake_triton", triton_writes=1) as p:
        open_attention(p)
        p.must("prepare", backend="triton")
        assert all(math.isnan(x) for x in p.values("triton", "bf16"))


def test_wrong_requests():
    with start() as p:
        for line in ("", "nonsense", "[1]", "7"):
            if line:
                assert p.send(line)["kind"] == "wrong_use"
        p.refuses("wrong_use", "hello, open", "dance")
        p.refuses("wrong_use", "no backend knows", "open", op="sort")
        q = {"name": "q", "type": "bf16", "dim": [2, 2], "file": p.path("q")}
        result = {"name": "o", "type": "bf16", "dim": [2, 2]}
        Path(p.path("q")).write_bytes(b"1234567")
        for changed, part in (({}, "has 7 bytes, its tensor 8"), ({"type": "f3"}, "'f3'"),
                              ({"dim": [2, -2]}, "not a list of sizes"),
                              ({"dim": [2, 2.5]}, "not a list of sizes")):
            p.refuses("wrong_use", part, "open", op="attention", tensors=[q | changed],
                      result=result)
        p.refuses("failed", "No such file", "open", op="attention",
                  tensors=[q | {"file": p.path("none")}], result=result)
        Path(p.path("q")).write_bytes(b"12345678")
        p.must("open", op="attention", tensors=[q], result=result)
        p.refuses("wrong_use", "needs the tensor k", "prepare", backend="cudnn")
        open_attention(p)
        p.must("prepare", backend="cudnn")
        for more in ({"repeat": 0}, {"repeat": 1.5}, {"warmup": -1}, {"load_s": "x"},
                     {"idle_s": -0.1}, {"method": "clock"}, {"group": True}, {"cold_bytes": -4}):
            p.refuses("wrong_use", next(iter(more)), "turn", backend="cudnn", **more)


def test_output_is_kept_clean():
    with start("fake_fa3") as p:
        open_attention(p)
        p.must("prepare", backend="fa3")
        assert p.must("bye") == {}
        assert p.p.wait(timeout=30) == 0 and p.p.stdout.read() == ""
        said = p.p.stderr.read()
        assert "talks when it is imported" in said and "past Python" in said


def test_the_end_of_input_is_an_end():
    with start() as p:
        p.p.stdin.close()
        assert p.p.wait(timeout=30) == 0 and p.p.stdout.read() == ""


def test_kernels_must_be_those_of_the_name():
    """What the driver says that a call launches, against what the backend promises."""
    sys.path.insert(0, str(BENCH))
    import backends
    import graph_nodes
    import peers
    node = graph_nodes.Node("cudnn_sdpa<7, 8>", (4, 2, 1), (384, 1, 1), 1024)
    graph_nodes.kernels_of = lambda torch, call: [node]
    def prove(**more):
        p = backends.Prepared(None, "x", proof="forced", **more)
        peers.Peers().prove(p)
        return p.proof
    assert prove(kernel="cuDNN") == "forced; launches cudnn_sdpa (4 x 2 x 1 blocks of 384 threads)"
    assert "384" in prove(kernel="sdpa", threads=384)
    for more, part in (({"kernel": "flash"}, "no kernel with flash"),
                       ({"threads": 128}, "128 threads")):
        try:
            prove(**more)
            raise AssertionError(more)
        except backends.Refused as e:
            assert e.kind == "degraded" and part in str(e), e


def main():
    tests = {n: f for n, f in globals().items() if n.startswith("test_") and
             (not sys.argv[1:] or any(w in n for w in sys.argv[1:]))}
    failed = 0
    for name, function in tests.items():
        try:
            function()
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
