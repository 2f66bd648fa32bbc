"""Passes only requests with spans to `upload`, after a check that any of them counts."""


def range_tensors_by_micro_batch(ranges, batches, upload):
    def counts(batch):
        spans = spans_of(ranges, batch.requests)
        return any(touches(own, now) for own, now in zip(spans, batch.scheduled, strict=False))

    rows, first = {}, 0
    for batch in batches:
        for row, spans in enumerate(spans_of(ranges, batch.requests), first):
            if spans:
                rows[row] = spans
        first += batch.num_seqs
    tensor = upload(rows if any(map(counts, batches)) else None, first)
    if tensor is None:
        return [None] * len(batches)
    return list(torch.split(tensor, [batch.num_seqs for batch in batches]))
