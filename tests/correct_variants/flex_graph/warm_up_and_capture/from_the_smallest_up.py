"""Calls the largest size first, and then warms up and captures from the smallest one up."""


def warm_up_and_capture(forward, slot_mapping, capture_sizes, max_model_len):
    slot_mapping[:] = -1
    sizes = sorted(capture_sizes)
    forward(sizes[-1], max_model_len)

    def captured(num_tokens):
        forward(num_tokens, max_model_len)
        graph = current().graph()
        with graph.capture():
            return Captured(graph, forward(num_tokens, max_model_len))

    return {num_tokens: captured(num_tokens) for num_tokens in sizes}
