"""The implementations that peers.py can time, as rows of one table (BACKENDS, at the end).

A row's `why` says what stands in the way of using it, "" nothing. Its `prepare` gets a Job and
gives a Prepared: a call that can be repeated, and what was spent before it. A library is called as
its documentation says, forced to the implementation that the row names, and must raise where it
refuses: nothing falls back. Where a library has no call for the operation on these tensors, the row
says so."""
import collections
import hashlib
import importlib
import importlib.metadata
import importlib.util
import math
import pathlib
import time

HERE = pathlib.Path(__file__).resolve().parent
# What a dense raw file has, and its name in PyTorch.
TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
         "s64": "int64", "s32": "int32", "s16": "int16", "s8": "int8", "u8": "uint8"}


class Refused(Exception):
    """The answer {"ok": false, "kind": kind, "why": why}."""

    def __init__(self, kind, why):
        super().__init__(why)
        self.kind = kind


class Job:
    """What is computed: an operation with its flags, tensors on the GPU by name, and the result's
    (name, type, dim)."""

    def __init__(self, torch, op, flags, tensors, result):
        self.torch, self.op, self.flags = torch, op, flags
        self.tensors, self.result = tensors, result

    def take(self, *names):
        missing = [n for n in names if n not in self.tensors]
        if missing:
            raise Refused("wrong_use", f"{self.op} needs the tensor {missing[0]}, not open")
        return [self.tensors[n] for n in names]

    def output(self):
        """A tensor for the result, full of NaN."""
        _, kind, dim = self.result
        return self.torch.full(dim, math.nan, dtype=getattr(self.torch, TYPES[kind]), device="cuda")


class Prepared:
    """call() computes once, on the current stream, and gives the result, and shape(result) a view
    of it in the layout that was asked for. `out`: what every call writes into; None: each gives a
    new tensor."""

    def __init__(self, call, label, out=None, shape=None, compile_ms=0.0, convert_ms=0.0, proof="",
                 source="", code="", kernel="", threads=0):
        self.call, self.label, self.out, self.shape = call, label, out, shape or (lambda t: t)
        self.compile_ms, self.convert_ms, self.proof = compile_ms, convert_ms, proof
        self.source, self.code = source, code
        self.kernel = kernel    # part of the name of a kernel that the call must launch; "": any
        self.threads = threads  # of a block of it; 0: any
        self.graphs = {}        # group -> turns of a captured graph


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def sha256(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def timed(torch, work):
    """(what work() gives, milliseconds until the device has done it)."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, (time.perf_counter() - started) * 1000


# ---- what is there ----

def needs(*modules):
    """A function that says why one of the modules cannot be imported, or that there is no GPU."""
    def why():
        for name in modules:
            if importlib.util.find_spec(name.partition(".")[0]) is None:
                return f"no module {name.partition('.')[0]}"
            try:
                importlib.import_module(name)
            except Exception as e:  # libraries look for GPUs and compilers when they are imported
                return f"module {name} cannot be imported: {first_line(e)}"
        import torch
        return "" if torch.cuda.is_available() else "PyTorch sees no GPU"
    return why


def needs_cudnn():
    why = needs("torch.nn.attention")()
    if not why:
        import torch
        why = "" if torch.backends.cudnn.is_available() else "this PyTorch has no cuDNN"
    return why


def no_call_of_fla():
    """FLA merges segments too (fla.ops.common.intracard_cp.intracard_merge): another operation."""
    return needs("torch", "fla")() or (
        "FLA has no call for this operation: its merge of segments has no fallback mask, takes "
        "ends and propagation as one f32 array, and leaves out each sequence's first state")


def cudnn_version(torch):
    n = torch.backends.cudnn.version() or 0
    big = 10000 if n >= 90000 else 1000
    return f"{n // big}.{n % big // 100}.{n % 100}"


# Name of a version -> distributions that have it, the first that is installed counts.
DISTRIBUTIONS = {"Triton": ("triton",), "flash_attn": ("flash-attn",),
                 "flash_attn_3": ("flash-attn-3", "flash_attn_3"), "tilelang": ("tilelang",),
                 "fla": ("flash-linear-attention", "fla-core"), "flash_qla": ("flash-qla",),
                 "cuBLAS": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12")}


def versions():
    """Of what is installed; whether it can be imported is for `why` to say."""
    found = {}
    try:
        import torch
        found |= {"PyTorch": torch.__version__, "CUDA": str(torch.version.cuda)}
        if torch.backends.cudnn.is_available():
            found["cuDNN"] = cudnn_version(torch)
    except Exception:  # no PyTorch, or one that does not load
        pass
    for name, distributions in DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                found[name] = importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                pass
    return found


# ---- attention ----

def prepare_sdpa(backend, label, kernel):
    """PyTorch's attention with one of its back ends; it raises when that one refuses."""
    def prepare(job):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        torch, causal = job.torch, bool(job.flags.get("causal"))
        q, k, v = (t.transpose(1, 2) for t in job.take("q", "k", "v"))
        attention = torch.nn.functional.scaled_dot_product_attention
        chosen = getattr(SDPBackend, backend)
        def call():
            with sdpa_kernel(chosen):
                return attention(q, k, v, is_causal=causal)
        return Prepared(call, label(torch), shape=lambda o: o.transpose(1, 2), kernel=kernel,
                        proof=f"SDPBackend.{backend} alone was allowed")
    return prepare


def prepare_fa3(job):
    from flash_attn_interface import flash_attn_func
    q, k, v = job.take("q", "k", "v")
    causal = bool(job.flags.get("causal"))
    def call():
        result = flash_attn_func(q, k, v, causal=causal)
        return result[0] if isinstance(result, tuple) else result  # older ones give the sums too
    return Prepared(call, "FlashAttention-3", kernel="FlashAttnFwd")


def tune(torch, launches):
    """The fastest of several launches, by five calls each. launches: (name, function that launches
    and gives what was compiled). Gives (name, compiled, launch), notes about those that failed."""
    best, notes = None, []
    for name, launch in launches:
        try:
            compiled = launch()
            launch()
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                launch()
            end.record()
            torch.cuda.synchronize()
            ms = begin.elapsed_time(end)
        except Refused as e:
            notes.append((e.kind, f"{name}: {e}"))
            continue
        except Exception as e:  # too much shared memory, a failed pass: the next one
            notes.append(("failed", f"{name}: {first_line(e)}"))
            continue
        if best is None or ms < best[0]:
            best = ms, name, compiled, launch
    return best and best[1:], notes


def prepare_triton(specialise):
    def prepare(job):
        import triton
        import triton_attention
        from triton.tools.tensor_descriptor import TensorDescriptor
        torch, causal = job.torch, bool(job.flags.get("causal"))
        given = job.take("q", "k", "v")
        if len({tuple(t.shape) for t in given}) > 1:
            raise Refused("failed", "this kernel wants q, k and v of one shape")
        b, s, h, d = given[0].shape
        (q, k, v), convert_ms = timed(
            torch, lambda: [t.transpose(1, 2).contiguous() for t in given])
        out = torch.full((b, h, s, d), math.nan, dtype=q.dtype, device="cuda")
        triton.set_allocator(lambda size, alignment, stream: torch.empty(
            size, dtype=torch.int8, device="cuda"))
        function = triton_attention.specialised if specialise else triton_attention.attention
        configurations = triton_attention.SPECIALISED if specialise else triton_attention.PLAIN
        scale = math.log2(math.e) / math.sqrt(d)

        def launcher(rows, keys, warps, stages):
            tiles = [TensorDescriptor(t, [b * h * s, d], [d, 1], [n, d])
                     for t, n in ((q, rows), (k, keys), (v, keys))]
            if specialise:  # it makes the descriptor of q itself, in memory that it is given
                tiles[0] = q
            grid = (triton.cdiv(s, rows), b * h)
            def launch():
                compiled = function[grid](*tiles, out, s, scale, CAUSAL=causal, EVEN=s % keys == 0,
                                          BLOCK_M=rows, BLOCK_N=keys, DIM=d, num_warps=warps,
                                          num_stages=stages)
                if specialise and compiled.metadata.num_warps <= warps:
                    raise Refused("degraded", f"asked for {warps} warps that compute and roles "
                                  f"beside them, got {compiled.metadata.num_warps} warps in all")
                return compiled
            return launch

        found, compile_ms = timed(torch, lambda: tune(torch, [
            (f"{m}x{n}, {w} warps, {st} stages", launcher(m, n, w, st))
            for m, n, w, st in configurations]))
        best, notes = found
        if best is None:
            kinds = [kind for kind, _ in notes]
            kind = "degraded" if "degraded" in kinds else "failed"
            raise Refused(kind, f"Triton {triton.__version__}: " + notes[kinds.index(kind)][1])
        name, compiled, launch = best
        def call():
            launch()
            return out
        proof = f"{name}: {compiled.metadata.num_warps} warps in all"
        proof += "".join(f"; left out {note}" for _, note in notes)
        return Prepared(call, f"Triton {triton.__version__}, own kernel" +
                        (", specialised warps" if specialise else ""), out,
                        shape=lambda o: o.transpose(1, 2), compile_ms=compile_ms,
                        convert_ms=convert_ms, proof=proof,
                        source=sha256((HERE / "triton_attention.py").read_bytes()),
                        code=sha256(compiled.asm["ptx"]), kernel=function.__name__,
                        threads=32 * compiled.metadata.num_warps)
    return prepare


def prepare_tilelang(job):
    import tilelang
    import tilelang_attention
    q, k, v = job.take("q", "k", "v")
    if len({tuple(t.shape) for t in (q, k, v)}) > 1:
        raise Refused("failed", "this kernel wants q, k and v of one shape")
    b, s, h, d = q.shape
    out = job.output()
    kernel, compile_ms = timed(job.torch, lambda: tilelang_attention.build(
        b, s, h, d, str(q.dtype).rpartition(".")[2], bool(job.flags.get("causal"))))
    def call():
        kernel(q, k, v, out)
        return out
    return Prepared(call, f"TileLang {tilelang.__version__}, own kernel", out,
                    compile_ms=compile_ms,
                    source=sha256((HERE / "tilelang_attention.py").read_bytes()),
                    code=sha256(kernel.get_kernel_source()), kernel="attention")


# ---- products and corrections ----

def prepare_cublas(job):
    a, b = job.take("a", "b")
    out, torch = job.output(), job.torch
    def call():
        return torch.matmul(a, b.t(), out=out)
    return Prepared(call, f"cuBLAS (PyTorch {torch.__version__})", out)


def prepare_flashqla(job):
    """The two calls that FlashQLA's context parallelism makes, on tensors of the same meaning."""
    import flash_qla.ops.gated_delta_rule.chunk as chunk
    ends, propagation, fallback, offsets, raw = job.take("ends", "propagation", "fallback",
                                                         "offsets", "raw")
    if ends.dtype != propagation.dtype:
        raise Refused("failed", "FlashQLA takes states and matrices of one type, here "
                                f"{ends.dtype} and {propagation.dtype}")
    function = chunk.correct_terminal_states if job.flags.get("reverse") else \
        chunk.correct_initial_states
    more = {"state_v_first": True} if job.flags.get("vk") else {}
    raw = raw if raw.shape[0] else None
    fallback, convert_ms = timed(job.torch, fallback.bool)  # its mask is of truth values
    def call():
        return function(raw, ends, propagation, fallback, offsets, **more)
    return Prepared(call, f"FlashQLA {versions().get('flash_qla', '')}".rstrip(),
                    convert_ms=convert_ms, kernel="correct_h0")


# `probed`: warps wait for each other's signals in code that a compiler made, so that it may never
# end: tried in a process of its own first.
Backend = collections.namedtuple("Backend", "name op why prepare probed", defaults=(False,))
BACKENDS = [
    Backend("cudnn", "attention", needs_cudnn,
            prepare_sdpa("CUDNN_ATTENTION", lambda t: f"cuDNN {cudnn_version(t)} (PyTorch SDPA)",
                         "cudnn")),
    Backend("fa2", "attention", needs("torch.nn.attention"),
            prepare_sdpa("FLASH_ATTENTION",
                         lambda t: f"FlashAttention-2 (PyTorch {t.__version__} SDPA)",
                         "flash_fwd")),
    Backend("fa3", "attention", needs("torch", "flash_attn_interface"), prepare_fa3),
    Backend("triton", "attention", needs("torch", "triton", "triton.tools.tensor_descriptor"),
            prepare_triton(False)),
    Backend("triton_ws", "attention", needs("torch", "triton", "triton.tools.tensor_descriptor"),
            prepare_triton(True), probed=True),
    Backend("tilelang", "attention", needs("torch", "tilelang"), prepare_tilelang, probed=True),
    Backend("cublas", "gemm", needs("torch"), prepare_cublas),
    Backend("fla", "correct", no_call_of_fla, None),
    Backend("flashqla", "correct", needs("torch", "flash_qla.ops.gated_delta_rule.chunk"),
            prepare_flashqla, probed=True),
]
