"""Calls `upload` only if a range matters.

fails: test_a_step_that_only_decodes_uploads_nothing
says: it is called once in every step
"""


def range_tensors_by_micro_batch(ranges, batches, upload):
    rows, first_row, matters = {}, 0, False
    for batch in batches:
        spans = spans_of(ranges, batch.requests)
        rows.update(enumerate(spans, start=first_row))
        matters = matters or any(map(touches, spans, batch.scheduled))
        first_row += batch.num_seqs
    if not matters:
        return [None] * len(batches)
    return list(upload(rows, first_row).split([batch.num_seqs for batch in batches]))
