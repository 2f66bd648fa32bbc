"""Takes None for "not computed yet", and so computes it for every layer.

fails: test_none_is_an_answer_too
says: called `upload` 48 times
says: Did you take None for 'not computed yet'
"""


def own_ranges(ranges, batch):
    spans = [(ranges or {}).get(request, ()) for request in batch.requests]
    return dict(enumerate(spans))


def micro_batches_of(attn_metadata):
    return attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    for layers in micro_batches_of(attn_metadata):
        tensor = None
        for metadata in layers.values():
            if tensor is None:
                tensor = upload(own_ranges(ranges, metadata.batch), metadata.batch.num_seqs)
            metadata.mm_prefix_range_tensor = tensor
