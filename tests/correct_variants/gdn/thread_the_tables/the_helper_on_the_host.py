"""Passes the host's starts to the helper, and pins its table."""

from debubble.accelerator import current


def decays_of_layers(gates, cu_seqlens, cu_seqlens_cpu):
    table = chunk_tables.prepare_chunk_indices(cu_seqlens_cpu)
    if current().pin_memory:
        table = table.pin_memory()
    table = table.to(cu_seqlens.device, non_blocking=True)
    return list(map(lambda g: decay_until_end(g, cu_seqlens, table), gates))
