"""Batches by their lengths, and their tables as two loops make them."""

import numpy as np


def starts_of(lengths):
    """[num_seqs + 1] int32: cu_seqlens."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def tables_of(lengths, chunk_size):
    """(rows of chunk_indices, chunk_offsets), chunk by chunk."""
    rows, offsets = [], [0]
    for sequence, length in enumerate(lengths):
        for chunk, _ in enumerate(range(0, length, chunk_size)):
            rows.append([sequence, chunk])
        offsets.append(len(rows))
    return rows, offsets


def expect_tables(tables, lengths, chunk_size, num_rows=None):
    """Those of these lengths; with `num_rows` the table is so long, without chunks at its end."""
    rows, offsets = tables_of(lengths, chunk_size)
    empty = 0 if num_rows is None else num_rows - len(rows)
    assert tables.chunk_indices.dtype.itemsize == 4
    assert tables.chunk_indices.shape == (len(rows) + empty, 2)
    assert tables.chunk_indices.tolist() == rows + [[-1, -1]] * empty
    assert tables.chunk_offsets.dtype.itemsize == 8
    assert tables.chunk_offsets.tolist() == offsets
