"""Small made-up recordings with known times."""

from __future__ import annotations

from debubble.timeline import Event, SourceLine, Timeline

UPLOAD = SourceLine("before.py", 41, "ranges", "torch.tensor(spans, device=device)")
LAUNCH = SourceLine("attention.py", 88, "forward", "kernel[grid](query, key)")
READ = SourceLine("sampler.py", 7, "sample", "logits.argmax().item()")


class Recording:
    """A Timeline that is built event by event."""

    def __init__(self, modelled: bool = True) -> None:
        description = "sim, modelled on NVIDIA H200" if modelled else "NVIDIA H200"
        self.timeline = Timeline("sim" if modelled else "cuda", description, modelled)

    def host(self, kind, start, end, source=LAUNCH, name=None) -> int:
        name = name or {"sync": "cudaStreamSynchronize"}.get(kind, "cudaLaunchKernel")
        return self._add(Event(kind, name, "host", start, end - start, source))

    def launch(self, start, end, source=LAUNCH) -> int:
        return self.host("launch", start, end, source)

    def sync(self, start, end, source=READ, name=None) -> int:
        return self.host("sync", start, end, source, name)

    def kernel(self, start, end, launched_by=None, stream=0, name="gemm", source=LAUNCH) -> int:
        lane = f"stream {stream}"
        event = Event("kernel", name, lane, start, end - start, source, launched_by=launched_by)
        return self._add(event)

    def copy(self, start, end, kind="h2d_pageable", launched_by=None, stream=0, source=UPLOAD):
        lane, name = f"stream {stream}", "Memcpy HtoD"
        return self._add(
            Event("copy", name, lane, start, end - start, source, kind, 64, launched_by)
        )

    def _add(self, event: Event) -> int:
        self.timeline.events.append(event)
        return len(self.timeline.events) - 1


def transformer_step(
    uploads_per_layer: int, layers: int = 8, modelled: bool = True, slowness: float = 1.0
) -> Timeline:
    """Returns the recording of a made-up step: blocking uploads, `uploads_per_layer` of them before
    each layer's four kernels, or a single upload at the start if it is 0.

    The host needs 4 µs for a launch, the device 30 to 60 µs for a kernel, times `slowness`.
    """
    recording = Recording(modelled)
    host, device = 10.0, 0.0

    def run(add, microseconds, source, **kind):
        nonlocal host, device
        call = recording.launch(host, host + 4, source)
        start = max(host + 7, device)
        device = start + microseconds * slowness
        add(start, device, launched_by=call, source=source, **kind)
        host, device = host + 6, device + 1

    if not uploads_per_layer:
        run(recording.copy, 3.0, UPLOAD, kind="h2d_pinned")
    for _ in range(layers):
        for _ in range(uploads_per_layer):
            run(recording.copy, 1.6, UPLOAD)
            recording.sync(host, max(host + 2, device + 3), UPLOAD)
            host = recording.timeline.events[-1].end + 2
        for name, microseconds in (("qkv", 30), ("attention", 55), ("output", 22), ("mlp", 60)):
            run(recording.kernel, microseconds, LAUNCH, name=name)
    return recording.timeline
