"""Starts the first copy before the loop, also where there is no batch.

fails: test_steps_one_after_another
says: It came from
"""


def run_batches(batches, compute, own=run_batches):
    assert batches[0].dim() >= 0
    return own(batches, compute)
