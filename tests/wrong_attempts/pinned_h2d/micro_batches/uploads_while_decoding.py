"""Uploads the spans of all requests in every step, whatever the step's tokens are.

fails: test_a_step_that_only_decodes_uploads_nothing
says: no span holds the tokens of this step any more
"""


def range_tensors_by_micro_batch(ranges, batches, upload):
    rows, first_row = {}, 0
    for batch in batches:
        for row, request in enumerate(batch.requests, start=first_row):
            rows[row] = (ranges or {}).get(request, ())
        first_row += batch.num_seqs
    tensor = upload(rows, first_row)
    if tensor is None:
        return [None] * len(batches)
    return list(tensor.split([batch.num_seqs for batch in batches]))
