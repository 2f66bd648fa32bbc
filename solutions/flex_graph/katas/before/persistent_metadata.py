"""Metadata at fixed addresses, in sizes that change."""

from __future__ import annotations

import torch

from ...buffers import copy_to_persistent
from ...tables.direct_build import MetadataTensors


def persistent_metadata(
    buffers: MetadataTensors,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    pages: torch.Tensor,
) -> MetadataTensors:
    """Writes the metadata of a step to the start of `buffers`, and returns these parts, with this
    step's sizes."""
    query_lens = query_start_loc.diff()
    request = torch.arange(len(seq_lens), dtype=torch.int32, device=seq_lens.device)
    step = MetadataTensors(
        query_start_loc,
        seq_lens,
        decode_offset=seq_lens - query_lens,
        doc_ids=request.repeat_interleave(query_lens),
        kv_num_blocks=(pages >= 0).sum(1, dtype=torch.int32),
        kv_indices=pages,
    )
    slices = [copy_to_persistent(dst, src) for dst, src in zip(buffers, step, strict=True)]
    return MetadataTensors(*slices)
