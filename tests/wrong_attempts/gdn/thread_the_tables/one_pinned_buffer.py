"""Pins a buffer once, and writes to it again in each step.

fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: Take fresh pinned memory in each
"""

import torch

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, chunk_size=64):
    lengths = cu_seqlens.diff().tolist()
    rows = [(s, c) for s, length in enumerate(lengths) for c in range(-(-length // chunk_size))]
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)


PINNED = torch.empty(1024, 2, dtype=torch.int32, pin_memory=current().pin_memory)


def sent(cu_seqlens_cpu, device):
    table = prepare_chunk_indices(cu_seqlens_cpu)
    return PINNED[: len(table)].copy_(table).to(device, non_blocking=True)


def chunk_ends(cu_seqlens, chunk_indices, num_tokens):
    sequence, chunk = chunk_indices.long().unbind(1)
    first = cu_seqlens[sequence] + chunk * 64
    end = torch.minimum(first + 64, cu_seqlens[sequence + 1])
    token = torch.arange(num_tokens, device=cu_seqlens.device)
    chunk_of_token = torch.searchsorted(end[:-1], token, right=True)
    return first[chunk_of_token], end[chunk_of_token] - 1


def decays_of_layers(gates, cu_seqlens, cu_seqlens_cpu):
    chunk_indices = sent(cu_seqlens_cpu, cu_seqlens.device)
    return [decay_until_end(g, cu_seqlens, chunk_indices) for g in gates]


def decay_until_end(g, cu_seqlens, chunk_indices=None):
    decay = chunk_local_cumsum(g, cu_seqlens, chunk_indices)
    return last_of_chunk(decay, cu_seqlens, chunk_indices) - decay


def chunk_local_cumsum(g, cu_seqlens, chunk_indices=None):
    if chunk_indices is None:
        chunk_indices = prepare_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(x, cu_seqlens, chunk_indices=None):
    if chunk_indices is None:
        chunk_indices = prepare_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]
