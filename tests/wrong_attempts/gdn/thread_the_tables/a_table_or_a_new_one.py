"""Asks a tensor whether it is true, where it is to be asked whether it is None.

fails: test_each_layer_gets_its_decays
fails: test_an_op_that_is_given_a_table_uses_it
fails: test_24_layers_do_not_wait
fails: test_24_layers_share_one_upload
fails: test_each_step_has_its_own_table
fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: Boolean value of Tensor with more than one value is ambiguous
"""

import torch

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, chunk_size=64):
    lengths = cu_seqlens.diff().tolist()
    rows = [(s, c) for s, length in enumerate(lengths) for c in range(-(-length // chunk_size))]
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)


def sent(cu_seqlens_cpu, device):
    table = prepare_chunk_indices(cu_seqlens_cpu)
    staged = torch.empty(table.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(table).to(device, non_blocking=True)


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
    chunk_indices = chunk_indices or prepare_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(x, cu_seqlens, chunk_indices=None):
    chunk_indices = chunk_indices or prepare_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]
