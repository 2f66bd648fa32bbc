"""Names all requests in a list of rows, with empty spans for the padding, and slices."""

from itertools import accumulate


def range_tensors_by_micro_batch(ranges, batches, upload):
    rows, matters = [], False
    for batch in batches:
        own = spans_of(ranges, batch.requests)
        matters |= any(touches(*pair) for pair in zip(own, batch.scheduled, strict=False))
        rows += [*own, *[()] * (batch.num_seqs - len(own))]
    tensor = upload(dict(enumerate(rows)) if matters else None, len(rows))
    ends = [*accumulate(batch.num_seqs for batch in batches)]
    if tensor is None:
        return [None for _ in batches]
    return [tensor[end - it.num_seqs : end] for it, end in zip(batches, ends, strict=False)]
