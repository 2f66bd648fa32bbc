"""Makes everything behind the step neutral, and hands on as many rows as there are requests.

fails: test_sizes_and_places_are_the_same_in_every_step
says: the shape of `query_start_loc` of a step of 2 requests
says: make it compile for every number of requests anew
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
    write(buffers.kv_num_blocks, (pages >= 0).sum(1, dtype=torch.int32), 0)
    write(buffers.kv_indices, pages, -1)
    return buffers._replace(
        query_start_loc=buffers.query_start_loc[: len(query_start_loc)],
        seq_lens=buffers.seq_lens[: len(seq_lens)],
        decode_offset=buffers.decode_offset[: len(seq_lens)],
    )
