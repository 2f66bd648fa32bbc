"""Reads the first length, also in a step without sequences.

fails: test_steps_one_after_another
says: It came from
"""


def convolve_layers(layers, tokens, query_start_loc, query_start_loc_cpu, own=convolve_layers):
    assert query_start_loc_cpu.diff()[0] >= 0
    return own(layers, tokens, query_start_loc, query_start_loc_cpu)
