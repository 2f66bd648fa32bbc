"""The snippets' inputs: a small model's tensors on the device and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from debubble import Timeline

T = TypeVar("T")
CLOCKS_APART = 10_000
"""The most microseconds by which the clocks of host and device may differ in a recording."""


def only(findings: Sequence[T]) -> T:
    (finding,) = findings
    return finding


def rest_of_the_load(timeline: Timeline) -> float:
    """Returns the microseconds that the first kernel still had to run when the host queued the
    first copy; negative if the kernel was done by then."""
    load = next(event for event in timeline.events if event.kind == "kernel")
    copy = next(event for event in timeline.events if event.kind == "copy")
    asked = timeline.launch_of(copy)
    assert asked is not None
    return load.end - asked.start


class Setting:
    """Tensors for the snippets. On the device `x` [8, 8] and `logits` [4, 16] are floats, `mask`
    [8, 8] is bool, `ids` [3] and `lengths` [3] are int64, and `zero` is a float without dimensions.
    On the host `host` and `pinned` are [8, 8]."""

    def __init__(self, accelerator) -> None:
        torch.manual_seed(0)
        self.accelerator, self.device = accelerator, accelerator.device
        device = accelerator.device
        self.x = torch.randn(8, 8, device=device)
        self.logits = torch.randn(4, 16, device=device)
        self.mask = self.x > 0
        self.ids = torch.tensor([1, 5, 2], device=device)
        self.lengths = torch.tensor([2, 5, 1], device=device)
        self.zero = torch.zeros((), device=device)
        self.host = torch.randn(8, 8)
        self.pinned = torch.randn(8, 8).pin_memory()
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).to(device)
        self.side = accelerator.stream()
        self.event = accelerator.event()
        self.graph = accelerator.graph()
        self.event.record()
        self.x + 1
        with self.graph.capture():
            self.captured = self.x + 1
