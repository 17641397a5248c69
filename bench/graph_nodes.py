"""Which kernels a call launches, and with how many threads: read from the driver, out of a captured
graph.

This is evidence that no library can colour: a peer that is forced to a back end must launch that
back end's kernels, and a kernel with specialised warps must have more threads than it asked for. No
profiler takes part, so nothing stays attached to the process that is timed."""
import ctypes
import re


class _Params(ctypes.Structure):  # CUDA_KERNEL_NODE_PARAMS_v2
    _fields_ = [("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3),
                ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("arguments", ctypes.c_void_p), ("extra", ctypes.c_void_p),
                ("kern", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class Node:
    """A kernel of a graph: its name as the driver has it, blocks, threads of a block."""

    def __init__(self, name, grid, block, shared):
        self.name, self.grid, self.block, self.shared = name, grid, block, shared
        self.threads = block[0] * block[1] * block[2]

    def __str__(self):
        """Name without the arguments of its templates, blocks x threads."""
        name = re.sub(r"<.*", "", self.name)
        name = name if len(name) <= 90 else name[:87] + "..."
        return f"{name} ({' x '.join(map(str, self.grid))} blocks of {self.threads} threads)"


def _must(driver, status, what):
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {(text.value or b'?').decode()}")


def _name(driver, params):
    name = ctypes.c_char_p()
    ask = driver.cuFuncGetName if params.func else driver.cuKernelGetName
    kernel = ctypes.c_void_p(params.func or params.kern)
    _must(driver, ask(ctypes.byref(name), kernel), "name of a kernel")
    return name.value.decode(errors="replace")


def kernels_of(torch, call):
    """The kernels that `call` launches, in the order of the graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=side):
        call()
    driver = ctypes.CDLL("libcuda.so.1")
    handle, count = ctypes.c_void_p(graph.raw_cuda_graph()), ctypes.c_size_t()
    _must(driver, driver.cuGraphGetNodes(handle, None, ctypes.byref(count)), "nodes of the graph")
    nodes = (ctypes.c_void_p * count.value)()
    _must(driver, driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)), "nodes of the graph")
    found = []
    for node in nodes:
        node, kind, params = ctypes.c_void_p(node), ctypes.c_int(), _Params()
        _must(driver, driver.cuGraphNodeGetType(node, ctypes.byref(kind)), "a node")
        if kind.value == 0:  # CU_GRAPH_NODE_TYPE_KERNEL
            _must(driver, driver.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(params)),
                  "a kernel's node")
            found.append(Node(_name(driver, params), tuple(params.grid), tuple(params.block),
                              params.shared))
    return found
