"""Calls itself for each micro-batch of a list, and asks the last layer for the requests."""

from .ranges import spans_of


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    if isinstance(attn_metadata, list):
        for layers in attn_metadata:
            _set_mm_prefix_range_for_metadata(layers, ranges, upload)
        return
    *_, last = attn_metadata.values()
    own = {row: list(spans) for row, spans in enumerate(spans_of(ranges, last.batch.requests))}
    tensor = upload(own, last.batch.num_seqs)
    for name in attn_metadata:
        attn_metadata[name].mm_prefix_range_tensor = tensor
