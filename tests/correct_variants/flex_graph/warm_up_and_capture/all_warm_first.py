"""Warms all sizes up first, and then captures all."""


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    sizes = sorted({*capture_sizes}, reverse=True)
    slot_mapping.fill_(-1)
    for size in sizes:
        forward(size, max_model_len)
    captured = {}
    for size in sizes:
        graph = current().graph()
        with graph.capture():
            output = forward(size, max_model_len)
        captured[size] = Captured(graph, output)
    return captured
