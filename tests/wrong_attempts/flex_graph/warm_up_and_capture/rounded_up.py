"""Rounds the length up to a power of two, as one rounds shapes for a compiler.

fails: test_no_request_is_longer_than_the_model_allows
says: Your code called forward(8, 64)
says: the tables of the model have no pages behind it
"""

from collections import namedtuple

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    longest = 1 << (max_model_len - 1).bit_length()
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, longest)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, longest)
        captured[num_tokens] = Captured(graph, output)
    return captured
