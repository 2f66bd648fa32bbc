"""Lays the bytes of four host tensors into pinned ones, largest type first."""

from debubble.accelerator import current


def build_prefill_metadata(common, num_draft_tokens_cpu):
    lengths = torch.as_tensor(common.query_start_loc_cpu).diff()
    computed = torch.as_tensor(common.seq_lens_cpu) - lengths
    others = torch.as_tensor(num_draft_tokens_cpu) < 0
    decodes = 0
    while others.all() and decodes < len(lengths):
        if lengths[decodes] != 1 or computed[decodes] == 0:
            break
        decodes += 1
    own = lengths[others][decodes:]
    tokens = int(own.sum())
    if not tokens:
        return PrefillMetadata(decodes, 0, 0)
    starts = torch.nn.functional.pad(own.cumsum(0), (1, 0))
    tables = prepare_chunk_tables(starts)
    parts = [
        tables.chunk_offsets,
        starts.int(),
        tables.chunk_indices,
        computed[others][decodes:] > 0,
    ]
    sizes = [part.nbytes for part in parts]
    staged = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=current().pin_memory)
    for part, place in zip(parts, staged.split(sizes), strict=True):
        place.copy_(part.contiguous().view(-1).view(torch.uint8))
    sent = staged.to(common.query_start_loc.device, non_blocking=True).split(sizes)
    offsets, starts, indices, has_state = (
        place.view(part.dtype).view(part.shape) for place, part in zip(sent, parts, strict=True)
    )
    return PrefillMetadata(decodes, len(own), tokens, starts, has_state, indices, offsets)
