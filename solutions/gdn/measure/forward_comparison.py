"""Measures our forward beside its peer's: `python -m solutions.gdn.measure.forward_comparison`.

Both run in turn in one process, on the same random inputs, which are new in every run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from debubble.accelerator import Accelerator, current
from solutions.measure.benchmark import no_garbage

from ..host_tables import plan_chunk_tables
from ..rule.recurrent import fused_recurrent_gated_delta_rule
from .forward_calls import HEADS, SIZE, Forward, RuleInputs, Sequences, forwards
from .forward_report import Case, Comparison, Errors, Times, tables_of, write_record
from .peer import missing_peer, peer_version

LENGTHS = {
    "8192": [8192],
    "2 x 4096": [4096, 4096],
    "2048, 6144": [2048, 6144],
    "1024, 7168": [1024, 7168],
    "128 x 64": [64] * 128,
    "7 x 1, 8185": [1] * 7 + [8185],
}
SHORT = [1, 63, 64, 65, 300]
"""Lengths in tokens of the sequences on which errors are measured."""
RUNS, QUICK_RUNS = 41, 5
WARM_UPS = 3
"""Number of calls before measuring: they compile, choose among configurations, and let the
allocator grow."""
LOAD_MS = 5.0
"""Milliseconds for which the device is kept busy before a call: longer than the host needs to queue
it."""
PLANNED_SEQUENCES = (8, 256, 4096)
OTHER_BYTES = 256 * 2**20
"""Number of bytes written before each call, several times the size of an L2 cache, so that no
inputs stay there."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="folder for the figures, as JSON")
    parser.add_argument("--quick", action="store_true", help="few runs")
    options = parser.parse_args(arguments)
    runs = QUICK_RUNS if options.quick else RUNS
    compare_forward(current(), Console(), options.output, runs)


def compare_forward(
    accelerator: Accelerator, console: Console, folder: Path | None = None, runs: int = RUNS
) -> None:
    """Prints how long our forward and its peer's take, as medians of `runs` runs, and their errors;
    writes `folder`/gdn_forward.json if a folder is given. Without a GPU it prints that it measures
    nothing; without the peer it measures only ours."""
    if accelerator.modelled:
        console.print(
            "Our forward is compared with its peer on a GPU only: modelled times prove nothing."
        )
        return
    missing = missing_peer()
    if missing:
        console.print(missing)
    comparison = measure(accelerator, runs, with_peer=not missing)
    for table in tables_of(comparison):
        console.print(table)
    if folder:
        console.print(f"written to {write_record(folder, comparison)}")


@torch.no_grad()
def measure(accelerator: Accelerator, runs: int, with_peer: bool) -> Comparison:
    clock = Clock(accelerator)
    times = {
        Case(name, normalizes, with_states): times_of(
            clock, Sequences(lengths, accelerator.device), normalizes, with_states, runs, with_peer
        )
        for name, lengths in LENGTHS.items()
        for normalizes in (True, False)
        for with_states in (True, False)
    }
    return Comparison(
        accelerator=accelerator.description,
        shape={"heads": HEADS, "key_size": SIZE, "value_size": SIZE, "dtype": "bfloat16"},
        lengths=LENGTHS,
        runs=runs,
        peer=peer_version() if with_peer else None,
        times=times,
        errors=errors_of(Sequences(SHORT, accelerator.device), with_peer),
        planning_us={number: planning_us(number) for number in PLANNED_SEQUENCES},
    )


class Clock:
    """A clock that returns the microseconds of a call on the GPU, by an event before it and one
    after it."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.other_data = torch.empty(OTHER_BYTES, dtype=torch.uint8, device=accelerator.device)

    def as_called(self, call: Forward) -> float:
        """Returns the microseconds of `call` on an idle device, which has to wait until the host
        launches."""
        self.other_data.zero_()
        self.accelerator.synchronize()
        return self._time(call)

    def gpu_alone(self, call: Forward) -> float:
        """Returns the microseconds of `call` without the host's time: the device is busy with other
        work until the host has queued the call."""
        self.other_data.zero_()
        self.accelerator.sleep(LOAD_MS)
        return self._time(call)

    def _time(self, call: Forward) -> float:
        first, last = self.events
        first.record()
        call()
        last.record()
        self.accelerator.synchronize()
        return first.elapsed_time(last) * 1e3


def times_of(
    clock: Clock,
    sequences: Sequences,
    normalizes: bool,
    with_states: bool,
    runs: int,
    with_peer: bool,
) -> dict[str, Times]:
    """Returns the times of each forward on these sequences, by the forward's name: medians of
    `runs` calls."""

    def new_calls() -> dict[str, Forward]:
        inputs = RuleInputs.random(sequences, normalizes)
        return forwards(sequences, inputs, normalizes, with_states, with_peer)

    for call in new_calls().values():
        for _ in range(WARM_UPS):
            call()
    ways = {"as_called_us": clock.as_called, "gpu_us": clock.gpu_alone}
    took: dict[str, dict[str, list[float]]] = {
        name: {way: [] for way in ways} for name in new_calls()
    }
    with no_garbage():
        for run in range(runs):
            for name, call in in_turn(new_calls(), run):
                for way, measured in ways.items():
                    took[name][way].append(measured(call))
    return {
        name: Times(**{way: statistics.median(values) for way, values in of_ways.items()})
        for name, of_ways in took.items()
    }


def in_turn(calls: Mapping[str, Forward], run: int) -> Iterator[tuple[str, Forward]]:
    """Yields the calls with their names, starting with a different call in each run."""
    names = list(calls)
    at = run % len(names)
    for name in names[at:] + names[:at]:
        yield name, calls[name]


def errors_of(sequences: Sequences, with_peer: bool) -> dict[str, dict[str, Errors]]:
    """Returns how far each forward's results are from those of the recurrence in float32: first by
    where queries and keys are normalised, "in the kernel" or "before", then by the forward's
    name."""
    found = {}
    for normalizes in (True, False):
        inputs = RuleInputs.random(sequences, normalizes)
        right = recurrence(sequences, inputs, normalizes)
        of_case = {}
        for name, call in forwards(sequences, inputs, normalizes, True, with_peer).items():
            o, states = call()
            assert states is not None  # Final states were asked for.
            states = states.transpose(2, 3) if name == "peer" else states
            of_case[name] = Errors(relative_error(o, right[0]), relative_error(states, right[1]))
        found[Case("", normalizes, True).normalized] = of_case
    return found


def recurrence(
    sequences: Sequences, inputs: RuleInputs, normalizes: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the right (o, final states) for these inputs, computed token by token in float32. The
    tests compare it with plain PyTorch."""
    states = inputs.states.clone()
    o, _ = fused_recurrent_gated_delta_rule(
        inputs.q.float(),
        inputs.k.float(),
        inputs.v.float(),
        inputs.g.float(),
        inputs.beta.float(),
        initial_state=states,
        cu_seqlens=sequences.starts,
        use_qk_l2norm_in_kernel=normalizes,
    )
    return o, states


def relative_error(found: torch.Tensor, right: torch.Tensor) -> float:
    return float((found.float() - right).norm() / right.norm())


def planning_us(num_seqs: int, longest: int = 128, runs: int = 101) -> float:
    """Returns the median microseconds that the host takes to plan both tables of `num_seqs`
    sequences of 0 to `longest` tokens."""
    lengths = np.random.default_rng(0).integers(0, longest + 1, num_seqs)
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        plan_chunk_tables(cu_seqlens)
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1e6


if __name__ == "__main__":
    main()
