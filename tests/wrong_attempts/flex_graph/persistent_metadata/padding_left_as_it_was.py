"""Writes the requests of the tokens that there are, and leaves those of the padding.

fails: test_tokens_that_pad_the_batch_are_of_request_0
says: Tokens behind the last request look up a request too
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
    buffers.doc_ids.copy_(torch.where(token < last, request, buffers.doc_ids))
    write(buffers.kv_num_blocks, (pages >= 0).sum(1, dtype=torch.int32), 0)
    write(buffers.kv_indices, pages, -1)
    return buffers
