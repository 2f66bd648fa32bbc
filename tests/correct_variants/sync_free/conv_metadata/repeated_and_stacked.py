"""Repeats sequences on the host with torch, and sends a stack of two rows."""

from functools import reduce

from debubble.accelerator import current

from ..model.conv_chunks import ConvMetadata


def convolve_layers(layers, tokens, query_start_loc, query_start_loc_cpu):
    lengths = query_start_loc_cpu.diff().long()
    chunks = (lengths + 7) // 8
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    staged = torch.empty((2, len(sequence)), dtype=torch.int32, pin_memory=current().pin_memory)
    staged[0], staged[1] = sequence, chunk * 8
    first, second = staged.to(tokens.device, non_blocking=True)
    metadata = ConvMetadata(
        first, second, num_seqs=len(lengths), num_tokens=int(query_start_loc_cpu[-1])
    )
    return reduce(lambda before, layer: layer(before, metadata), layers, tokens)
