"""Makes the chunks of each sequence by a call of its own.

fails: test_python_does_not_count_the_sequences
says: instructions of Python for 16 sequences
says: `repeat_interleave`, `arange` and `cumsum`, on the host
"""

import torch

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    parts = [torch.empty(0, 2, dtype=torch.int64)]
    for sequence, length in enumerate(cu_seqlens_cpu.diff().tolist()):
        chunk = torch.arange(-(-length // chunk_size))
        parts.append(torch.stack([torch.full_like(chunk, sequence), chunk], dim=1))
    rows = torch.cat(parts)
    staged = torch.empty(rows.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(rows).to(cu_seqlens.device, non_blocking=True)
