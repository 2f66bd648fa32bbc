"""The cost model: how long an action takes on the host and the device, from measured constants."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

from debubble.assets import CALIBRATIONS
from debubble.timeline.event import CopyKind

from .action import Action, is_taken_over
from .kernel_table import KernelTable
from .shaped import Shaped

DEFAULT_GPU = "nvidia-h200"
VARIABLE = "DEBUBBLE_CALIBRATION"
BOUND_BY_MEMORY = 1.5
"""A kernel is bound by memory if it takes less than this many times the time for its bytes."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Constants of one GPU and its host. Times are microseconds, bandwidths bytes a microsecond.

    Host times were measured inside a running model, where the host is slower than in a loop over
    one call.
    """

    gpu: str
    op_us: float
    """Host time of an operator that launches nothing: a view."""
    launch_us: float
    """Host time that one kernel launch adds to an operator."""
    gemm_launch_us: float
    """Host time that the launch of a library matrix product takes on top of `launch_us`."""
    triton_launch_us: float
    copy_call_us: float
    """Host time of one asynchronous copy call."""
    sync_us: float
    """The time from the end of the device's work until the waiting host continues."""
    event_us: float
    graph_launch_us: float
    start_latency_us: float
    """The time from the launch call to the first instruction on an idle device."""
    gap_us: float
    """The time between two kernels of one stream if the second was queued before the first
    ended."""
    kernel_us: float
    """Device time of the shortest kernel."""
    gemm_us: float
    """Device time of the shortest library matrix product."""
    triton_us: float
    """Device time of the shortest Triton kernel that does tensor-core work."""
    copy_us: float
    """The time that a copy between host and device takes whatever its size, from when a kernel in
    its place would begin."""
    memory_bandwidth: float
    h2d_bandwidth: float
    pageable_bandwidth: float
    d2h_bandwidth: float
    tensor_flops: float
    """Tensor-core operations a microsecond that a library product reaches in bf16."""
    triton_flops: float
    """Tensor-core operations a microsecond that this project's Triton kernels reach in bf16."""
    vector_flops: float
    """fp32 operations a microsecond outside the tensor cores."""
    batch_cliff_bytes: float
    """The size from which on each piece of a batch of copies takes less host time."""
    small_piece_call_us: float
    """Host time that a piece smaller than `batch_cliff_bytes` adds to the call of its batch."""
    large_piece_call_us: float
    """Host time that a piece of at least `batch_cliff_bytes` adds to the call of its batch."""
    piece_us: float
    """Copy-engine time that each piece of a batch takes on top of the time for its bytes."""
    link_bandwidth: float
    """Bytes a microsecond that a kernel reads from pinned host memory, or writes to it."""
    graph_gap_us: float = 0.42
    """The time between two kernels of one graph. A calibration that lacks it takes the median of
    our recordings of an H100 and an H200."""
    small_copy_us: float = 0.0
    """Device time of the shortest copy to the host. The rest of `copy_us` passes before the copy
    begins. 0 if it was not measured: then a copy takes all of `copy_us`."""
    kernels: str = ""
    """The slug of the GPU whose measured kernels are used, or "" for none: all are estimated."""

    def call(self, action: Action) -> float:
        """Returns the host microseconds of the call that starts an action."""
        if action.kind == "copy":
            small, large = action.pieces
            extra_us = small * self.small_piece_call_us + large * self.large_piece_call_us
            if is_taken_over(action.copy_kind, action.nbytes):
                extra_us += action.nbytes / self.pageable_bandwidth
            return self.copy_call_us + extra_us
        if action.unit == "library":
            return self.launch_us + self.gemm_launch_us
        return self.triton_launch_us if action.unit == "triton" else self.launch_us

    def measured_us(
        self, name: str, args: Sequence[object], results: Sequence[Shaped], nbytes: float
    ) -> float | None:
        """Returns the device microseconds of a call of the operator `name`, which moves `nbytes`
        bytes, or None if nothing like it was measured. What another GPU's memory took is converted
        by the bandwidths."""
        table = KernelTable.load(self.kernels) if self.kernels else None
        found = table.time_of(name, args, results, nbytes) if table else None
        if table is None or found is None:
            return None
        there = nbytes / table.memory_bandwidth
        here = nbytes / self.memory_bandwidth
        of_memory = found.microseconds < BOUND_BY_MEMORY * there
        return found.microseconds * here / there if of_memory else found.microseconds

    def duration(self, action: Action) -> float:
        """Returns the device microseconds of an action: those measured, or else an estimate.

        A kernel's time is a roofline, the largest of: the time for its bytes, the time for its
        operations, and the shortest kernel of its kind plus the time for its bytes over the link.
        """
        if action.microseconds is not None:
            return action.microseconds
        if action.copy_kind:
            fixed = self.kernel_us if action.copy_kind == "d2d" else self._shortest_copy_us
            pieces = sum(action.pieces) * self.piece_us
            is_pinned = is_taken_over(action.copy_kind, action.nbytes)
            kind = "h2d_pinned" if is_pinned else action.copy_kind
            return fixed + pieces + action.nbytes / self._bandwidth(kind)
        if action.unit == "sleep":
            return action.flops
        shortest, rate = self.kernel_us, self.vector_flops
        if action.unit != "vector":
            of_library = action.unit == "library"
            shortest = self.gemm_us if of_library else self.triton_us
            if action.tensor_cores:
                rate = self.tensor_flops if of_library else self.triton_flops
        over_link = shortest + action.link_bytes / self.link_bandwidth
        return max(over_link, action.nbytes / self.memory_bandwidth, action.flops / rate)

    @property
    def _shortest_copy_us(self) -> float:
        return min(self.small_copy_us or self.copy_us, self.copy_us)

    def copy_starts_after(self, action: Action) -> float:
        """Returns the microseconds by which a copy between host and device begins later than a
        kernel in its place would. 0 for all other actions."""
        is_of_host = action.copy_kind not in (None, "d2d")
        return self.copy_us - self._shortest_copy_us if is_of_host else 0.0

    def _bandwidth(self, copy_kind: CopyKind) -> float:
        by_kind: dict[CopyKind, float] = {
            "h2d_pinned": self.h2d_bandwidth,
            "h2d_pageable": self.pageable_bandwidth,
            "d2h": self.d2h_bandwidth,
            "d2d": self.memory_bandwidth / 2,
        }
        return by_kind[copy_kind]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, gpu: str | None = None) -> CostModel:
        """Returns the calibration of a GPU, by its slug such as `nvidia-h200` or from a JSON file.

        The default is the value of DEBUBBLE_CALIBRATION, or else the H200's calibration. Raises
        ValueError if the file doesn't exist or is not a calibration.
        """
        gpu = gpu or os.environ.get(VARIABLE) or DEFAULT_GPU
        path = Path(gpu) if gpu.endswith(".json") else CALIBRATIONS / f"{gpu}.json"
        try:
            values = json.loads(path.read_text())
        except FileNotFoundError:
            known = ", ".join(sorted(p.stem for p in CALIBRATIONS.glob("*.json"))) or "none"
            raise ValueError(f"no calibration for {gpu!r} at {path}: known are {known}") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not a calibration: {error}") from None
        names = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        missing = needed - values.keys()
        if missing:
            raise ValueError(f"{path} is not a calibration: it lacks {', '.join(sorted(missing))}")
        return cls(**{name: values[name] for name in names & values.keys()})
