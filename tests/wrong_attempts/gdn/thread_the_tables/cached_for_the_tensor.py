"""Lets all ops share a cache that knows the starts by the tensor that they are in.

fails: test_an_op_that_is_given_a_table_uses_it
fails: test_24_layers_do_not_wait
fails: test_each_step_has_its_own_table
says: Did you keep the table of an earlier step
says: A table was given, and the op still asks the device
"""

import torch


def prepare_chunk_indices(cu_seqlens, chunk_size=64):
    lengths = cu_seqlens.diff().tolist()
    rows = [(s, c) for s, length in enumerate(lengths) for c in range(-(-length // chunk_size))]
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)


_last = {}


def cached_chunk_indices(cu_seqlens):
    starts, table = _last.get("table", (None, None))
    if starts is not cu_seqlens:
        table = prepare_chunk_indices(cu_seqlens)
        _last["table"] = cu_seqlens, table
    return table


def chunk_ends(cu_seqlens, chunk_indices, num_tokens):
    sequence, chunk = chunk_indices.long().unbind(1)
    first = cu_seqlens[sequence] + chunk * 64
    end = torch.minimum(first + 64, cu_seqlens[sequence + 1])
    token = torch.arange(num_tokens, device=cu_seqlens.device)
    chunk_of_token = torch.searchsorted(end[:-1], token, right=True)
    return first[chunk_of_token], end[chunk_of_token] - 1


def decays_of_layers(gates, cu_seqlens, cu_seqlens_cpu):
    return [decay_until_end(g, cu_seqlens) for g in gates]


def decay_until_end(g, cu_seqlens, chunk_indices=None):
    decay = chunk_local_cumsum(g, cu_seqlens)
    return last_of_chunk(decay, cu_seqlens) - decay


def chunk_local_cumsum(g, cu_seqlens, chunk_indices=None):
    chunk_indices = cached_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(x, cu_seqlens, chunk_indices=None):
    chunk_indices = cached_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]
