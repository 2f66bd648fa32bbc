"""Warm up what you capture (chapter 04, easy, 15 minutes).

A model is captured once for each size that a step may have, and its graphs are replayed with
requests of any length. The first call with new shapes compiles a kernel, and a capture can't
contain that. So each size is warmed up before it is captured. The function below does that, and
fails. Its warm-up uses short requests, to be quick, but its capture uses the longest requests:
shapes that no call has compiled.

Make the warm-up compile what the capture needs, for all sizes. The graphs must stay right for
requests of up to `max_model_len` tokens. The largest size must stay the first that is called: a
model may keep memory that a larger call would replace.

You need to know that a kernel is compiled when it is first launched, and that a capture must not
wait for that.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_warm_up_and_capture.py

Stuck?         .venv/bin/debubble hint warm_up_and_capture
Start afresh?  .venv/bin/debubble reset warm_up_and_capture
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from debubble.accelerator import current
from katas.flex_graph.given import Captured


# Yours to edit, from here on.
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
    slot_mapping.fill_(-1)  # writes no keys: the cache may hold requests
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, 1)  # short requests, so that it does not take long
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
