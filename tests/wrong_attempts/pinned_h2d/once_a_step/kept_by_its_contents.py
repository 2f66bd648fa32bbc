"""Looks the dict's contents up in a cache, and computes them anew when they are None.

fails: test_none_is_an_answer_too
says: Did you take None for 'not computed yet'
"""


def own_ranges(ranges, batch):
    spans = [(ranges or {}).get(request, ()) for request in batch.requests]
    return dict(enumerate(spans))


def micro_batches_of(attn_metadata):
    return attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]


_kept = {}


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    for layers in micro_batches_of(attn_metadata):
        for metadata in layers.values():
            own = own_ranges(ranges, metadata.batch)
            key = tuple((row, tuple(spans)) for row, spans in own.items())
            if _kept.get(key) is None:
                _kept[key] = upload(own, metadata.batch.num_seqs)
            metadata.mm_prefix_range_tensor = _kept[key]
