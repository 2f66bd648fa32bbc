"""Leaves `upload` out of a step without ranges.

fails: test_a_step_without_ranges_calls_upload_too
says: Expected `upload` to be called once in a step with the ranges None. Your code
says: Call it once in each step
"""


def _set_mm_prefix_range_for_metadata(
    attn_metadata, ranges, upload, own=_set_mm_prefix_range_for_metadata
):
    own(attn_metadata, ranges, upload if ranges else lambda *given: None)
