"""A warm-up with short requests, and a capture with long ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from debubble.accelerator import current

from ...steps.warm_up import Captured


def warm_up_and_capture(
    forward: Callable[[int, int], torch.Tensor],
    slot_mapping: torch.Tensor,
    capture_sizes: Iterable[int],
    max_model_len: int,
) -> dict[int, Captured]:
    """Captures a graph for each size, after a warm-up with requests of 1 token. Returns the graphs
    by size."""
    slot_mapping.fill_(-1)  # writes no keys: the cache may hold requests
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, 1)  # short requests, so that it does not take long
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
