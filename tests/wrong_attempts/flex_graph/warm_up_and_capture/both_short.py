"""Warms up and captures with short requests: the same shapes, of which only one page is read.

fails: test_a_replay_is_right_at_any_length
says: Captured with `seq_len` 1 it reads 1 page of each request in every replay
"""

from collections import namedtuple

from debubble.accelerator import current

Captured = namedtuple("Captured", "graph output")


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    captured = {}
    for num_tokens in sorted(set(capture_sizes), reverse=True):
        forward(num_tokens, 1)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, 1)
        captured[num_tokens] = Captured(graph, output)
    return captured
