"""Uploads for all micro-batches first, and assigns in a second loop."""

from .ranges import spans_of


def _set_mm_prefix_range_for_metadata(attn_metadata, ranges, upload):
    parts = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    todo = []
    for layers in parts:
        found = list(layers.values())
        if found:
            batch = found[0].batch
            own = {row: spans for row, spans in enumerate(spans_of(ranges, batch.requests))}
            todo.append((found, upload(own, batch.num_seqs)))
    for found, tensor in todo:
        for metadata in found:
            metadata.mm_prefix_range_tensor = tensor
