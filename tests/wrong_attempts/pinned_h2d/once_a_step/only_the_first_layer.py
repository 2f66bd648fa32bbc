"""Gives the tensor to the first layer alone.

fails: test_every_layer_has_the_ranges
fails: test_every_layer_has_none_when_there_is_nothing_to_say
fails: test_each_step_has_its_own_ranges
fails: test_micro_batches_have_the_ranges_of_their_own_requests
says: Every layer reads its own metadata
"""


def own_ranges(ranges, batch):
    spans = [(ranges or {}).get(request, ()) for request in batch.requests]
    return dict(enumerate(spans))


def micro_batches_of(attn_metadata):
    return attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    for layers in micro_batches_of(attn_metadata):
        metadata = next(iter(layers.values()))
        own = own_ranges(ranges, metadata.batch)
        metadata.mm_prefix_range_tensor = upload(own, metadata.batch.num_seqs)
