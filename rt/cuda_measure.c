// cuda_measure.c - the part of a GPU's device record that only measuring needs: facts, copies
// inside device memory, whether a mark has passed, graphs. The driver may lack any of it; then the
// operation says so by name, and everything else works.
#include "driver.h"

static CudaDevice *cuda(RtDevice *d) { return (CudaDevice *)d; }

// Returns from the caller when the driver has no function `field`.
#define NEED(d, e, field, symbol)                                                             \
    do {                                                                                      \
        if (!(d)->driver.field)                                                               \
            return rt_fail((e), BATON_UNSUPPORTED, "the driver has no %s", (symbol));         \
    } while (0)

void cuda_facts(CudaDevice *d)
{
    const RtDriver *v = &d->driver;
    int bytes = 0, khz = 0;
    d->base.l2_bytes = v->device_attribute(&bytes, CU_DEVICE_L2_BYTES, d->device) ? -1 : bytes;
    if (!v->device_attribute(&khz, CU_DEVICE_CLOCK_KHZ, d->device)) d->base.sm_mhz = khz / 1e3;
    if (!v->device_pci || v->device_pci(d->base.pci, sizeof d->base.pci, d->device))
        d->base.pci[0] = 0;
}

baton_status cuda_copy(RtDevice *device, void *to, const void *from, size_t bytes, void *stream,
                       RtError *e)
{
    CudaDevice *d = cuda(device);
    NEED(d, e, copy_device, "cuMemcpyDtoDAsync_v2");
    if (!bytes) return BATON_OK;
    IN_CONTEXT(d, e,
               d->driver.copy_device((CuAddress)(uintptr_t)to, (CuAddress)(uintptr_t)from, bytes,
                                     stream),
               "copying %zu bytes on %s", bytes, device->name);
}

// An error of the kernels before the mark may show up here.
baton_status cuda_passed(RtDevice *device, void *mark, bool *out, RtError *e)
{
    CudaDevice *d = cuda(device);
    *out = false;
    NEED(d, e, event_query, "cuEventQuery");
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    CuResult r = d->driver.event_query(mark);
    cuda_leave(d);
    *out = !r;
    return r && r != CU_ERROR_NOT_READY
               ? rt_driver_fail(&d->driver, r, e, "asking for an event on %s", device->name)
               : BATON_OK;
}

// ---- graphs -------------------------------------------------------------------------------------

// All functions are asked for before anything is recorded, so that end and launch have them.
baton_status cuda_graph_begin(RtDevice *device, void *stream, RtError *e)
{
    CudaDevice *d = cuda(device);
    NEED(d, e, capture_begin, "cuStreamBeginCapture_v2");
    NEED(d, e, capture_end, "cuStreamEndCapture");
    NEED(d, e, graph_make, "cuGraphInstantiateWithFlags");
    NEED(d, e, graph_launch, "cuGraphLaunch");
    NEED(d, e, graph_exec_destroy, "cuGraphExecDestroy");
    NEED(d, e, graph_destroy, "cuGraphDestroy");
    IN_CONTEXT(d, e, d->driver.capture_begin(stream, CU_CAPTURE_THREAD_LOCAL),
               "beginning to record a graph");
}

// The recording itself is not needed once it can be launched. It is brought to the device at once,
// or the first launch would do it; a failure of that would show up there.
baton_status cuda_graph_end(RtDevice *device, void *stream, void **out, RtError *e)
{
    CudaDevice *d = cuda(device);
    const RtDriver *v = &d->driver;
    CuGraph graph = NULL;
    CuGraphExec ready = NULL;
    *out = NULL;
    baton_status s = cuda_enter(d, e);
    if (s) return s;
    CuResult r = v->capture_end(stream, &graph);
    if (!r) r = v->graph_make(&ready, graph, 0);
    if (graph) v->graph_destroy(graph);
    if (!r && v->graph_upload) v->graph_upload(ready, stream);
    cuda_leave(d);
    *out = ready;
    return r ? rt_driver_fail(v, r, e, "recording a graph") : BATON_OK;
}

baton_status cuda_graph_launch(RtDevice *device, void *graph, void *stream, RtError *e)
{
    CudaDevice *d = cuda(device);
    IN_CONTEXT(d, e, d->driver.graph_launch(graph, stream), "launching a graph");
}

void cuda_graph_free(RtDevice *device, void *graph)
{
    CudaDevice *d = cuda(device);
    RtError ignored;
    if (!graph || cuda_enter(d, &ignored)) return;
    d->driver.graph_exec_destroy(graph);
    cuda_leave(d);
}
