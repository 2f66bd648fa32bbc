"""Keeps every load, so that its memory is never given to another one.

fails: test_nothing_is_kept_of_each_call
says: what belongs to a call to be dropped after it
"""

KEPT = []


def load_beside(blocks, copying):
    with copying:
        KEPT.append(blocks.to(current().device, non_blocking=True))
    current().current_stream().wait_event(copying.record_event())
    return KEPT[-1]
