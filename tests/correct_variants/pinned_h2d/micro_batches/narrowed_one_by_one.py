"""Walks through the batches twice: rows first, then a narrowed view for each."""


def range_tensors_by_micro_batch(ranges, batches, upload):
    starts, rows, wanted = [], {}, []
    for batch in batches:
        starts.append(sum(it.num_seqs for it in batches[: len(starts)]))
        for number, request in enumerate(batch.requests):
            spans = (ranges or {}).get(request) or ()
            rows[starts[-1] + number] = spans
            wanted.append(touches(spans, batch.scheduled[number]))
    total = sum(it.num_seqs for it in batches)
    tensor = upload(rows if any(wanted) else None, total)
    return [
        None if tensor is None else tensor.narrow(0, start, batch.num_seqs)
        for start, batch in zip(starts, batches, strict=False)
    ]
