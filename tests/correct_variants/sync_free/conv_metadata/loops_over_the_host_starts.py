"""Loops over the sequences on the host, and sends both tables one after the other."""

from debubble.accelerator import current

from ..model.conv_chunks import CHUNK_TOKENS, ConvMetadata


def convolve_layers(layers, tokens, query_start_loc, query_start_loc_cpu):
    lengths = query_start_loc_cpu.diff().tolist()
    rows = [
        (sequence, offset)
        for sequence, length in enumerate(lengths)
        for offset in range(0, length, CHUNK_TOKENS)
    ]
    flat = [sequence for sequence, _ in rows] + [offset for _, offset in rows]
    staged = torch.tensor(flat, dtype=torch.int32, pin_memory=current().pin_memory)
    sent = staged.to(tokens.device, non_blocking=True)
    metadata = ConvMetadata(sent[: len(rows)], sent[len(rows) :], len(lengths), sum(lengths))
    for layer in layers:
        tokens = layer(tokens, metadata)
    return tokens
