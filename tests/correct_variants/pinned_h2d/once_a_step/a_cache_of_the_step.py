"""Caches each micro-batch's upload within the step."""

from .ranges import spans_of


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    if not isinstance(attn_metadata, list):
        attn_metadata = [attn_metadata]
    uploaded = {}
    for number, layers in enumerate(attn_metadata):
        for metadata in layers.values():
            if number not in uploaded:
                own = spans_of(ranges, metadata.batch.requests)
                uploaded[number] = upload(dict(enumerate(own)), metadata.batch.num_seqs)
            metadata.mm_prefix_range_tensor = uploaded[number]
