"""Walks through the batches twice: rows first, then a narrowed view for each."""


def range_tensors_by_micro_batch(ranges, batches, upload):
    starts, rows, wanted = [0], {}, []
    for batch in batches:
        for number, request in enumerate(batch.requests):
            spans = (ranges or {}).get(request) or ()
            rows[starts[-1] + number] = spans
            wanted.append(touches(spans, batch.scheduled[number]))
        starts.append(starts[-1] + batch.num_seqs)
    tensor = upload(rows if any(wanted) else None, starts[-1])
    return [
        None if tensor is None else tensor.narrow(0, start, batch.num_seqs)
        for start, batch in zip(starts, batches, strict=False)
    ]
