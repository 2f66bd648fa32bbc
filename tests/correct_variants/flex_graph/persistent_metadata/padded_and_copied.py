"""Pads each tensor to its buffer's size, and copies it as a whole."""


def persistent_metadata(buffers, query_start_loc, seq_lens, pages):
    def whole(buffer, numbers, behind):
        missing = []
        for room, size in zip(reversed(buffer.shape), reversed(numbers.shape), strict=True):
            missing += [0, room - size]
        buffer.copy_(F.pad(numbers, missing, value=behind))

    last = query_start_loc[-1:].expand(len(buffers.query_start_loc) - len(query_start_loc))
    buffers.query_start_loc.copy_(torch.cat([query_start_loc, last]))
    whole(buffers.seq_lens, seq_lens, 0)
    whole(buffers.decode_offset, seq_lens - query_start_loc[1:] + query_start_loc[:-1], 0)
    whole(buffers.kv_indices, pages, -1)
    whole(buffers.kv_num_blocks, (pages != -1).sum(1).int(), 0)
    buffers.doc_ids.copy_(request_of_each(query_start_loc, len(buffers.doc_ids)))
    return buffers
