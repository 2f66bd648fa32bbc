"""Gives every micro-batch the rows of the whole step.

fails: test_each_micro_batch_has_its_own_rows
fails: test_padding_rows_are_zero
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
    total = sum(len(batch.requests) for batch in batches)
    tensor = upload(ranges, total) if matter(ranges, batches) else None
    return [tensor] * len(batches)
