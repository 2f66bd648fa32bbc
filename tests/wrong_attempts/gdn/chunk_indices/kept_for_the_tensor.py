"""Makes a table only when it is given other tensors, and the engine uses the same in all steps.

fails: test_each_step_has_its_own_table
says: Did you keep the table of an earlier step
"""

import torch

from debubble.accelerator import current


def made(starts, device, chunk_size):
    chunks = (starts.diff() + chunk_size - 1) // chunk_size
    sequence = torch.repeat_interleave(chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    rows = torch.stack([sequence, chunk], dim=1)
    staged = torch.empty(rows.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(rows).to(device, non_blocking=True)


_last = {}


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    starts, size, table = _last.get("table", (None, None, None))
    if starts is not cu_seqlens_cpu or size != chunk_size:
        table = made(cu_seqlens_cpu, cu_seqlens.device, chunk_size)
        _last["table"] = cu_seqlens_cpu, chunk_size, table
    return table
