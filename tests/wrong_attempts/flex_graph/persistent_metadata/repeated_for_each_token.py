"""Repeats each request for its tokens, whose number the host has to be told.

fails: test_nobody_waits_and_nothing_is_sent
says: `repeat_interleave` without `output_size`
"""

from collections import namedtuple

import torch

MetadataTensors = namedtuple(
    "MetadataTensors",
    "query_start_loc seq_lens decode_offset doc_ids kv_num_blocks kv_indices",
)


def write(dst, src, behind):
    dst.fill_(behind)
    part = dst[tuple(slice(size) for size in src.shape)]
    return part.copy_(src)


def persistent_metadata(buffers, query_start_loc, seq_lens, pages):
    last, query_lens = query_start_loc[-1], query_start_loc.diff()
    write(buffers.query_start_loc, query_start_loc, last)
    write(buffers.seq_lens, seq_lens, 0)
    write(buffers.decode_offset, seq_lens - query_lens, 0)
    request = torch.arange(len(seq_lens), dtype=torch.int32, device=last.device)
    write(buffers.doc_ids, request.repeat_interleave(query_lens), 0)
    write(buffers.kv_num_blocks, (pages >= 0).sum(1, dtype=torch.int32), 0)
    write(buffers.kv_indices, pages, -1)
    return buffers
