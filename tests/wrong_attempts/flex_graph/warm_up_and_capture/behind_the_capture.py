"""Captures first, and then makes the call that warms up the graph's first replay.

fails: test_nothing_is_compiled_during_a_capture
says: before that, it had called nothing.
says: call `forward` once before you capture it, and not after
"""

from collections import namedtuple

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
