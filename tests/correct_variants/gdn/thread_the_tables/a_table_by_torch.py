"""Makes the table with torch's own operators, and passes it to the stages by name."""

from debubble.accelerator import current


def decays_of_layers(gates, cu_seqlens, cu_seqlens_cpu):
    chunks = (cu_seqlens_cpu.diff().long() + 63) // 64
    sequence = torch.repeat_interleave(chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    staged = torch.empty((len(chunk), 2), dtype=torch.int32, pin_memory=current().pin_memory)
    staged[:, 0], staged[:, 1] = sequence, chunk
    table = staged.to(cu_seqlens.device, non_blocking=True)
    return [decay_until_end(g=gate, cu_seqlens=cu_seqlens, chunk_indices=table) for gate in gates]
