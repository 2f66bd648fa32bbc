"""Chooses the table in the op, and makes it in the stages only if they are called alone."""


def table_of(cu_seqlens, given):
    return prepare_chunk_indices(cu_seqlens) if given is None else given


def decay_until_end(g, cu_seqlens, chunk_indices=None):
    table = table_of(cu_seqlens, chunk_indices)
    decay = chunk_local_cumsum(g, cu_seqlens, chunk_indices=table)
    return last_of_chunk(decay, cu_seqlens, chunk_indices=table).sub_(decay)


def chunk_local_cumsum(g, cu_seqlens, chunk_indices=None):
    first, _ = chunk_ends(cu_seqlens, table_of(cu_seqlens, chunk_indices), len(g))
    ahead = torch.nn.functional.pad(g.cumsum(0), (1, 0))
    return ahead[1:] - ahead[first]


def last_of_chunk(x, cu_seqlens, chunk_indices=None):
    return x.index_select(0, chunk_ends(cu_seqlens, table_of(cu_seqlens, chunk_indices), len(x))[1])
