"""Remedies for the other waits: copies back, and waits for the device, a stream or an event."""

from .remedy import LEAVE, MEANT, Remedy

OTHERS = (
    Remedy(
        MEANT + "graphs are captured before the steps, and a capture waits for the device",
        ("device", "stream"),
        form="in a capture",
    ),
    Remedy(
        "make the target contiguous in pinned memory: a copy to memory with holes goes through "
        "pageable memory",
        ("pageable_download",),
        call=r"\w+\(.*pinned, holes.*",
    ),
    Remedy(
        "copy into pinned memory with non_blocking=True, record an event, and read the memory "
        "after the event",
        ("pageable_download",),
    ),
    Remedy(
        "capture before the steps: a capture always waits for the device",
        ("device", "stream"),
        reads=r"\b(cuda\.graph|make_graphed_callables|CUDAGraph|capture_begin|capture)\(",
    ),
    Remedy(
        "leave it out, or time with events: torch.cuda.Event(enable_timing=True), read later",
        ("device",),
    ),
    Remedy(
        "other.wait_stream(stream): it orders the streams without the host",
        ("stream",),
        operator="$",
    ),
    Remedy(
        LEAVE + "a barrier waits for all processes; in a step collectives are ordered on the "
        "device without it",
        ("stream",),
        inside=r"torch/distributed/distributed_c10d\.py:\d+: .*barrier",
    ),
    Remedy("event.query() to ask, event.wait() to order streams", ("event",)),
)
