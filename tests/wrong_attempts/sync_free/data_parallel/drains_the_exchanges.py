"""Waits for the stream of the exchanges before it returns.

fails: test_nobody_waits_while_the_step_is_prepared
fails: test_nobody_waits_for_the_exchange_while_the_step_is_prepared
says: Expected at most no host syncs, no pageable uploads, 1 pinned upload and 1
"""


def _run_ar(should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode, group, own=_run_ar):
    pending = own(should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode, group)
    group.stream.synchronize()
    return pending
