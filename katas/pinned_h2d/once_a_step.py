"""Once a step (chapter 01, easy, 15 minutes).

48 layers read the same ranges. The function below gives each layer its tensor, but uploads the
ranges again for each layer. `upload(ranges, num_seqs)` returns a tensor on the device, or None if
the ranges are empty.

Call `upload` once in each step, and give its result to all layers. The next step has an upload of
its own, even if its ranges are the same. A step in micro-batches is a list of such dicts: there one
upload for each dict is enough, and the kata `micro_batches` makes one for all.

You need to know that all layers of a step have the same requests, each layer with metadata of its
own.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_once_a_step.py

Stuck?         .venv/bin/debubble hint once_a_step
Start afresh?  .venv/bin/debubble reset once_a_step
"""

from __future__ import annotations

from katas.pinned_h2d.given import PrefixRanges, Upload, spans_of


# Yours to edit, from here on.
def _set_mm_prefix_range_for_metadata(
    attn_metadata: dict | list[dict], ranges: PrefixRanges | None, upload: Upload
) -> None:
    """Sets `mm_prefix_range_tensor` of all metadata. `attn_metadata` is a dict by layer, or a list
    of such dicts, one for each micro-batch. All layers of a dict share the result of one call of
    `upload(ranges, num_seqs)`."""
    micro_batches = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    for layers in micro_batches:
        for metadata in layers.values():
            batch = metadata.batch
            own = spans_of(ranges, batch.requests)
            tensor = upload(dict(enumerate(own)), batch.num_seqs)
            metadata.mm_prefix_range_tensor = tensor
