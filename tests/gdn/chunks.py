"""Chunk tables of sequences, made from their lengths by two loops."""

import numpy as np


def starts_of(lengths):
    """Returns cu_seqlens, [num_seqs + 1] int32."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def tables_of(lengths, chunk_size):
    """Returns (rows of chunk_indices, chunk_offsets), made chunk by chunk."""
    rows, offsets = [], [0]
    for sequence, length in enumerate(lengths):
        for chunk, _ in enumerate(range(0, length, chunk_size)):
            rows.append([sequence, chunk])
        offsets.append(len(rows))
    return rows, offsets


def expect_tables(tables, lengths, chunk_size, num_rows=None):
    """Checks the types and contents of chunk tables for sequences of these lengths. If `num_rows`
    is given, chunk_indices has as many rows, and ends with rows [-1, -1] that are no chunk."""
    rows, offsets = tables_of(lengths, chunk_size)
    empty = 0 if num_rows is None else num_rows - len(rows)
    assert tables.chunk_indices.dtype.itemsize == 4
    assert tables.chunk_indices.shape == (len(rows) + empty, 2)
    assert tables.chunk_indices.tolist() == rows + [[-1, -1]] * empty
    assert tables.chunk_offsets.dtype.itemsize == 8
    assert tables.chunk_offsets.tolist() == offsets
