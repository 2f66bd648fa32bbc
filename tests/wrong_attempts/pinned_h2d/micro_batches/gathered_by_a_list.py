"""Gathers the rows of each micro-batch with an index made of a list.

fails: test_all_micro_batches_share_one_upload
fails: test_nobody_waits
says: An index made of a list is uploaded first
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
    total = sum(batch.num_seqs for batch in batches)
    tensor = upload(ranges, total + 1) if matter(ranges, batches) else None
    if tensor is None:
        return [None] * len(batches)
    empty = total
    return [
        tensor[[*batch.requests] + [empty] * (batch.num_seqs - len(batch.requests))]
        for batch in batches
    ]
