"""Computes the tensor once for each batch object, and layers of two kinds have two of them.

fails: test_all_layers_share_one_upload
fails: test_none_is_an_answer_too
says: made 2 uploads
"""


def own_ranges(ranges, batch):
    spans = [(ranges or {}).get(request, ()) for request in batch.requests]
    return dict(enumerate(spans))


def micro_batches_of(attn_metadata):
    return attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    for layers in micro_batches_of(attn_metadata):
        computed = {}
        for metadata in layers.values():
            batch = metadata.batch
            if id(batch) not in computed:
                computed[id(batch)] = upload(own_ranges(ranges, batch), batch.num_seqs)
            metadata.mm_prefix_range_tensor = computed[id(batch)]
