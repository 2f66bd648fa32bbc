"""Gives each token a slot, so that the warm-up is like a real step.

fails: test_requests_in_the_cache_are_left_alone
says: which may be the place of a request that is still being served
"""

from collections import namedtuple

import torch

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slots = torch.arange(len(slot_mapping), dtype=slot_mapping.dtype, device=slot_mapping.device)
    slot_mapping.copy_(slots * max_model_len)
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, max_model_len)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    slot_mapping.fill_(-1)
    return captured
