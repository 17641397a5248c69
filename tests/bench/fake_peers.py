#!/usr/bin/env python3
"""fake_peers.py - answers like bench/peers.py without a GPU or any library, for the tests of src/bench/peer.c.

The backend's name says what goes wrong in the request that follows `prepare`, and the GPU's number what goes
wrong in `hello`: 0 nothing, 1 the process ends, 2 no object, 3 an answer without `versions`, 4 a refusal.
    right     all is well; the result is the first tensor
    missing   `prepare` says so        degraded  so does it say that
    dies      ends with status 3 after some words    killed  by a signal       hangs  gives no answer
    garbage   prints no JSON           twice     answers twice                 lacks  an answer without fields
    short     one sample too few       negative  a negative sample             other  another group"""
import json, os, signal, sys, time

tensors = []


def refuse(kind, why):
    return {"ok": False, "kind": kind, "why": why}


def hello(request):
    if request["gpu"] == 1:
        sys.exit("no module named nothing")
    if request["gpu"] == 2:
        print("Hello, world", flush=True)
    answer = {"ok": True, "versions": {"Python": "3", "PyTorch": "0"},
              "backends": {"right": "", "fa3": "no module flash_attn_interface"}}
    if request["gpu"] == 3:
        del answer["versions"]
    return refuse("failed", "no GPU 4 here") if request["gpu"] == 4 else answer


def misbehave(backend):
    """What a backend does instead of an answer, or None."""
    if backend == "dies":
        for i in range(20):
            print(f"line {i}", file=sys.stderr)
        sys.exit(3)
    if backend == "killed":
        os.kill(os.getpid(), signal.SIGABRT)
    if backend == "hangs":
        print("still compiling", file=sys.stderr, flush=True)
        time.sleep(1000)
    if backend == "garbage":
        print("Warning: something\t else", flush=True)
        time.sleep(1000)
    if backend == "twice":
        print(json.dumps({"ok": True}), flush=True)
    return {"ok": True} if backend == "lacks" else None


def prepare(request):
    backend = request["backend"]
    if backend == "missing":
        return refuse("missing", "no module flash_attn_interface")
    if backend == "degraded":
        return refuse("degraded", "no specialised warps")
    return {"ok": True, "compile_ms": 12.5, "convert_ms": 0, "first_ms": 3.25, "label": "Fake 1.0",
            "proof": "kernel fake_fwd", "source": "ab" * 32, "code": ""}


def result(request):
    if not tensors:
        return refuse("wrong_use", "no tensors are open")
    with open(tensors[0]["file"], "rb") as f, open(request["file"], "wb") as out:
        out.write(f.read())
    return {"ok": True}


def turn(request):
    backend, group = request["backend"], request["group"] or 7
    ms = [1 + 0.25 * i for i in range(request["repeat"])]
    if request["method"] == "graph" and request["cold_bytes"]:
        return refuse("wrong_use", "a graph cannot be timed with a cold cache")
    if backend == "short":
        ms.pop()
    if backend == "negative":
        ms[1] = -1
    if backend == "other":
        group += 1
    return {"ok": True, "ms": ms, "group": group, "host_ms": 0.5, "host_bound": request["warmup"] == 0,
            "load_ms": request["load_s"] * 1e3, "t0": 1000.5, "t1": 1002, "t2": 1003}


def open_job(request):
    global tensors
    tensors = request["tensors"]
    shape = [f"{t['name']} {t['type']} {t['dim']}" for t in tensors + [request["result"]]]
    print(request["op"], request.get("causal"), request["sizes"], *shape, sep="; ", file=sys.stderr)
    return {"ok": True}


def main():
    requests = {"hello": hello, "open": open_job, "prepare": prepare, "result": result, "turn": turn}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "bye":
            print(json.dumps({"ok": True}), flush=True)
            return
        answer = None
        if request["do"] in ("result", "turn"):
            answer = misbehave(request["backend"])
        print(json.dumps(answer or requests[request["do"]](request)), flush=True)


main()
