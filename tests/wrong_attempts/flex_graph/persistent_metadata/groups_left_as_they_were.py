"""Writes the counts of the groups that have tokens, and leaves the others.

fails: test_groups_without_tokens_have_no_pages
says: A group without tokens still has a program in the captured kernel
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
    token = torch.arange(len(buffers.doc_ids), dtype=torch.int32, device=last.device)
    request = torch.searchsorted(query_start_loc[1:], token, right=True, out_int32=True)
    buffers.doc_ids.copy_(request.masked_fill(token >= last, 0))
    buffers.kv_num_blocks[: len(pages)] = (pages >= 0).sum(1, dtype=torch.int32)
    write(buffers.kv_indices, pages, -1)
    return buffers
