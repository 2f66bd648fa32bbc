"""Cuts the rows out at the index of the first request, as if no micro-batch had padding.

fails: test_padding_rows_are_zero
says: not even that of the request which begins the next micro-batch
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
    tensor = upload(ranges, total) if matter(ranges, batches) else None
    if tensor is None:
        return [None] * len(batches)
    firsts = [batch.requests.start for batch in batches]
    return [
        tensor[first : first + batch.num_seqs] for first, batch in zip(firsts, batches, strict=True)
    ]
