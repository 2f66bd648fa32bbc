"""Reads the last request, also in a step without requests.

fails: test_steps_one_after_another
says: It came from persistent_metadata of an empty step.
"""


def persistent_metadata(buffers, query_start_loc, seq_lens, pages, own=persistent_metadata):
    assert seq_lens[-1].dim() == 0
    return own(buffers, query_start_loc, seq_lens, pages)
