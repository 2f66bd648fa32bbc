"""Uploads the ranges for each micro-batch with the keys of the whole step.

fails: test_each_micro_batch_has_its_own_rows
fails: test_padding_rows_are_zero
fails: test_all_micro_batches_share_one_upload
says: Row i of a micro-batch belongs to request
"""


def matter(ranges, batches):
    """Whether any valid span holds a scheduled position."""
    return any(
        start < end and start < positions.stop and end >= positions.start
        for batch in batches
        for request, positions in zip(batch.requests, batch.scheduled, strict=True)
        for start, end in (ranges or {}).get(request, ())
    )


def range_tensors_by_micro_batch(ranges, batches, upload):
    matters = matter(ranges, batches)
    return [upload(ranges if matters else None, batch.num_seqs) for batch in batches]
