"""Measures steps of Llama-3-8B's shape in a row, in turn: the lesson's, a checkpoint's, and a
compiled PyTorch model's."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import debubble
from debubble.accelerator import Accelerator
from solutions.measure.benchmark import (
    DeviceEvent,
    Step,
    in_turns,
    record_step,
    time_in_a_row,
    write_record,
)
from solutions.measure.memory import nominal_bytes_per_s

from ..model.config import FlexConfig
from .compiled_peer import CompiledPeer, PeerShape

NAME = "flex_graph_peer"
ROUNDS = 10
LESSON, FEW, PEER = "ours", "attend", "compiled"
"""The names of the sides in the record: our step with FlexAttention, as in the lesson; our step
with the kernel `attend`, as a checkpoint's decodes run; and the compiled PyTorch model's."""
ATTENTION = ("attend_kernel", "flex_attention", "flex_decoding")
"""Parts of the names of the kernels that attend."""


class OurSteps(NamedTuple):
    """Our decode steps in one way of attending."""

    first: Step
    """Queues the first step."""
    row: Step
    """Queues all steps, as many as the peer runs in a row."""


def peer_shape(
    config: FlexConfig, cached: tuple[int, ...], max_model_len: int, num_steps: int
) -> PeerShape:
    """Returns a decoder's sizes and the requests that it decodes as the peer's PeerShape."""
    sizes = (
        config.num_layers,
        config.hidden_size,
        config.intermediate_size,
        config.num_heads,
        config.num_kv_heads,
        config.head_size,
        config.vocab_size,
    )
    return PeerShape(*sizes, cached, max_model_len, num_steps)


def measure_against_peer(
    accelerator: Accelerator,
    console: Console,
    folder: Path | None,
    shape: PeerShape,
    ours: Mapping[str, OurSteps],
) -> None:
    """Prints the time of a step of each of `ours`, by name, and of the peer, and writes the times
    to `folder`/NAME.json if a folder is given, with the kernels of each step and the rate at which
    ours read keys and values. The steps of a row are `shape.num_steps`."""
    times: dict[str, list[float]] = {name: [] for name in (*ours, PEER)}
    for steps in ours.values():
        steps.row()
    with CompiledPeer(shape) as peer:
        for name in in_turns(times, ROUNDS):
            measured = (
                peer.step_us()
                if name == PEER
                else time_in_a_row(accelerator, ours[name].row, shape.num_steps)
            )
            times[name].append(measured)
        compiled_kernels = peer.kernels()
    recorded = {name: record_step(accelerator, steps.first) for name, steps in ours.items()}
    kernels = {name: len(kernels_of(timeline)) for name, timeline in recorded.items()}
    kernels[PEER] = compiled_kernels
    contents = {
        "shape": shape._asdict(),
        "rounds": ROUNDS,
        "steps": {name: quartiles(of_name) for name, of_name in times.items()},
        "kernels": kernels,
        "attention": {
            name: attention_of(timeline, shape, nominal_bytes_per_s(accelerator))
            for name, timeline in recorded.items()
        },
    }
    console.print(
        f"A step of {shape.num_layers} layers for {len(shape.cached)} requests, in a row:"
    )
    for name, of_name in times.items():
        median = statistics.median(of_name) / 1e3
        console.print(f"  {name}: {median:.2f} ms, {kernels[name]} kernels", highlight=False)
    console.print(f"{PEER} is torch.compile with a static cache in one CUDA graph.")
    if folder is not None:
        path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents)
        console.print(f"written to {path}")


def kernels_of(timeline: debubble.Timeline) -> list[DeviceEvent]:
    """Returns the kernels of a recorded step, without the load before it."""
    return [event for event in timeline.events if event.kind == "kernel" and event.name != "sleep"]


def attention_of(
    timeline: debubble.Timeline, shape: PeerShape, nominal: float | None
) -> dict[str, float | None]:
    """Returns, for the first step, the time of the kernels that attend in µs, the bytes of bfloat16
    keys and values that they have to read, their rate in bytes per second, and that rate as a share
    of the memory's `nominal` one, which is None if that is not known."""
    kernels = kernels_of(timeline)
    us = sum(event.duration for event in kernels if any(part in event.name for part in ATTENTION))
    tokens = sum(length + 1 for length in shape.cached)
    nbytes = 2 * 2 * shape.num_layers * tokens * shape.num_kv_heads * shape.head_size
    rate = nbytes / us * 1e6
    return {
        "device_us": us,
        "kv_bytes": nbytes,
        "bytes_per_s": rate,
        "nominal_share": None if nominal is None else rate / nominal,
    }


def quartiles(times: list[float]) -> dict[str, float]:
    """Returns the three quartiles of `times`, by their names."""
    first, median, third = statistics.quantiles(times, n=4)
    return {"first_quartile_us": first, "median_us": median, "third_quartile_us": third}
