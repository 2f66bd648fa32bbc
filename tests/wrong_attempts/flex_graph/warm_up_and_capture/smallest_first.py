"""Begins with the smallest size, whose graph is the first one that is needed.

fails: test_no_graph_keeps_memory_that_was_given_up
says: captured size 1, and a later call made larger scratch memory
says: begin with the largest size
"""

from collections import namedtuple

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    captured = {}
    for num_tokens in sorted(set(capture_sizes)):
        forward(num_tokens, max_model_len)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
