"""Pins a buffer once, and writes to it again in each step.

fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: Take fresh pinned memory in each
"""

import torch

from debubble.accelerator import current

PINNED = torch.empty(1 << 16, 2, dtype=torch.int32, pin_memory=current().pin_memory)


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = (cu_seqlens_cpu.diff() + chunk_size - 1) // chunk_size
    sequence = torch.repeat_interleave(chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    staged = PINNED[: len(sequence)].copy_(torch.stack([sequence, chunk], dim=1))
    return staged.to(cu_seqlens.device, non_blocking=True)
