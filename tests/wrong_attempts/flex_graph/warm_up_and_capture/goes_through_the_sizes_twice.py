"""Warms up all sizes, then goes through them once more: a generator has nothing left.

fails: test_the_sizes_may_be_a_generator
says: Expected the sizes with a graph to be [1, 4, 8]. Your code made it [8]: it has
"""


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping.fill_(-1)
    largest = max(capture_sizes)
    forward(largest, max_model_len)
    captured = {}
    for num_tokens in sorted({largest, *capture_sizes}, reverse=True):
        forward(num_tokens, max_model_len)
        graph = current().graph()
        with graph.capture():
            output = forward(num_tokens, max_model_len)
        captured[num_tokens] = Captured(graph, output)
    return captured
