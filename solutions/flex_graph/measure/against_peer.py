"""Measures steps of Llama-3-8B's shape in a row: ours and a compiled PyTorch model's, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from debubble.accelerator import Accelerator
from solutions.measure.benchmark import in_turns, time_in_a_row, write_record

from ..model.config import FlexConfig
from .compiled_peer import CompiledPeer, PeerShape

NAME = "flex_graph_peer"
ROUNDS = 10


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
    row: Callable[[], object],
) -> None:
    """Prints the time of one of our steps and of one of the peer's, and writes both to
    `folder`/NAME.json if a folder is given. `row` queues `shape.num_steps` of our steps."""
    times: dict[str, list[float]] = {"ours": [], "compiled": []}
    row()
    with CompiledPeer(shape) as peer:
        measured = {
            "ours": lambda: time_in_a_row(accelerator, row, shape.num_steps),
            "compiled": peer.step_us,
        }
        for name in in_turns(measured, ROUNDS):
            times[name].append(measured[name]())
    steps = {name: quartiles(of_name) for name, of_name in times.items()}
    ours, compiled = (steps[name]["median_us"] / 1e3 for name in ("ours", "compiled"))
    console.print(
        f"A step of {shape.num_layers} layers for {len(shape.cached)} requests, in a row: "
        f"{ours:.2f} ms, and {compiled:.2f} ms by torch.compile with a static cache in one CUDA "
        f"graph, {compiled / ours:.2f} times as long."
    )
    if folder is not None:
        contents = {"shape": shape._asdict(), "rounds": ROUNDS, "steps": steps}
        path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents)
        console.print(f"written to {path}")


def quartiles(times: list[float]) -> dict[str, float]:
    """Returns the three quartiles of `times`, by their names."""
    first, median, third = statistics.quantiles(times, n=4)
    return {"first_quartile_us": first, "median_us": median, "third_quartile_us": third}
