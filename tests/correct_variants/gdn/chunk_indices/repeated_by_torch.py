"""Repeats sequences with torch, and counts in each by a running sum of ones."""

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = (cu_seqlens_cpu.diff().long() + chunk_size - 1).div(chunk_size, rounding_mode="floor")
    sequence = torch.repeat_interleave(chunks)
    before = chunks.cumsum(0) - chunks
    rows = torch.stack([sequence, torch.arange(len(sequence)) - before[sequence]], dim=1)
    staged = torch.empty(rows.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(rows).to(cu_seqlens.device, non_blocking=True)
