"""Warms up the largest size, and expects the compiler to have seen enough.

fails: test_nothing_is_compiled_during_a_capture
says: before that, it had called forward(8, 48).
says: Warm up each size with the call that you capture next
"""

from collections import namedtuple

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    captured = {}
    sizes = sorted(set(capture_sizes), reverse=True)
    forward(sizes[0], max_model_len)
    for num_tokens in sizes:
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
