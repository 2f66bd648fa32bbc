"""Warm-up and capture of a model alone: the same call twice, first eagerly, then into a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current


class Captured(NamedTuple):
    graph: Graph
    output: torch.Tensor
    """The tensor to which each replay writes its result."""


def warm_up_and_capture(
    forward: Callable[[int, int], torch.Tensor],
    slot_mapping: torch.Tensor,
    capture_sizes: Iterable[int],
    max_model_len: int,
) -> dict[int, Captured]:
    """Captures a graph for each size, which can be replayed with requests of any length (vLLM
    #36298).

    `forward(num_tokens, seq_len)` runs the model on the first `num_tokens` tokens of its inputs,
    and reads the first `seq_len` tokens of each request's cache, `max_model_len` at most. It writes
    each token's key to its slot: `slot_mapping` [most tokens of a step] int32 on the device has the
    slots, and -1 for a token whose key is not stored.
    """
    # The cache may hold requests: a warm-up must not write there.
    slot_mapping.fill_(-1)
    captured = {}
    # Memory that the model keeps for all steps grows in the first step, before a graph has its
    # address.
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, max_model_len)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
