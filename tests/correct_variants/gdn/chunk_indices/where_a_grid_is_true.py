"""Marks existing chunks in a grid of sequences and chunks, and reads where the grid is true."""

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = -(-cu_seqlens_cpu.diff() // chunk_size)
    most = int(chunks.max()) if len(chunks) else 0
    rows = (torch.arange(most) < chunks[:, None]).nonzero().int().contiguous()
    if current().pin_memory:
        rows = rows.pin_memory()
    return rows.to(cu_seqlens.device, non_blocking=True)
