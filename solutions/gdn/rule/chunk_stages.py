"""The mathematics and the device functions that the chunked gated delta rule's kernels share.

Inside a chunk a token i reads what the tokens j < i of the chunk wrote; what the chunks before it
wrote is in the state S [V, K]. With d the running sum of the gates inside the chunk:

    A[i, j] = beta_i exp(d_i - d_j) (k_i . k_j)  for j < i      what i has to correct of j's writing
    T       = (I + A)^-1 diag(beta)                              all corrections at once
    P[i, j] = scale exp(d_i - d_j) (q_i . k_j)  for j <= i       what i reads of j's writing
    n       = T (v - exp(d) k S^T)                               what is written
    o       = scale exp(d) q S^T + P n
    S      <- exp(d_last) S + n^T (exp(d_last - d) k)

Three kernels follow one another: chunk_solve (T and P, all chunks at once), state_pass (the S that
enters each segment of chunks) and chunk_output (n, o and S, chunk after chunk in all segments at
once). Here are the device functions that they call.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .state_slots import tokens_of


@triton.jit
def locate_chunk(chunk_indices, cu_seqlens, chunk, CHUNK: tl.constexpr, num_tokens=2**31 - 1):
    """Returns (sequence, the chunk's first token, its number of tokens) for row `chunk` of the
    table. The sequence is -1 for a row past the end of a table that was made on the device. With
    `num_tokens` no chunk goes beyond the tokens, whatever the starts on the device are, and a chunk
    without tokens has sequence -1 too."""
    sequence = tl.load(chunk_indices + 2 * chunk)
    in_sequence = tl.load(chunk_indices + 2 * chunk + 1)
    there = tl.maximum(sequence, 0)
    first, end = tokens_of(cu_seqlens, there, num_tokens)
    first += in_sequence * CHUNK
    length = tl.minimum(end - first, CHUNK)
    return tl.where((first >= 0) & (length > 0), sequence, -1), first, length


@triton.jit
def load_rows(x, row, stride, offset, exists, WIDTH: tl.constexpr):
    """Returns [rows, WIDTH] numbers of `x`, from `offset` on in each of the rows `row`; 0 where a
    row doesn't exist."""
    place = (row * stride + offset)[:, None] + tl.arange(0, WIDTH)[None, :]
    return tl.load(x + place, mask=exists[:, None], other=0.0)


@triton.jit
def product(a, b, acc, PRECISION: tl.constexpr, UPCAST: tl.constexpr):
    """Returns the matrix product `a` @ `b`, plus `acc`, in float32, with `a` rounded to the dtype
    of `b`. PRECISION is that of float32 products. With UPCAST nothing is rounded, since the
    interpreter reads bfloat16 as integers."""
    b = as_operand(b, b.dtype, UPCAST)
    return tl.dot(as_operand(a, b.dtype, UPCAST), b, acc, input_precision=PRECISION)


@triton.jit
def as_operand(x, dtype: tl.constexpr, UPCAST: tl.constexpr):
    """Returns `x` as an operand of a product: rounded to `dtype`, or in float32 with UPCAST."""
    if UPCAST:
        return x.to(tl.float32)
    else:
        return x.to(dtype)


@triton.jit
def squared_length(x):
    """Returns [rows] float32: the squared L2 norm of each row of `x`."""
    x = x.to(tl.float32)
    return tl.sum(x * x, 1)


@triton.jit
def written_by(state, keys, values, T, read_scale, PRECISION: tl.constexpr, UPCAST: tl.constexpr):
    """Returns n, transposed: [rows of the state, CHUNK] float32, what each token of a chunk writes
    if `state` enters the chunk."""
    known = product(state, tl.trans(keys), None, PRECISION, UPCAST) * read_scale[None, :]
    new = product(tl.trans(values), tl.trans(T), None, PRECISION, UPCAST)
    return product(known, tl.trans(T), new, PRECISION, UPCAST)


@triton.jit
def after_chunk(
    state, new, keys, write_scale, decay, PRECISION: tl.constexpr, UPCAST: tl.constexpr
):
    """Returns the rows of `state` after a chunk whose tokens write `new`."""
    return product(new * write_scale[None, :], keys, state * decay, PRECISION, UPCAST)


@triton.jit
def bounded(gate):
    """Returns `gate`, but at least -104, where exp is 0 in float32: after a gate of -1e6, or even
    -inf, running sums would be too coarse for the ordinary gates that follow. NaN stays NaN."""
    return tl.where(gate < -104.0, -104.0, gate)


@triton.jit
def decay_within(decay, CHUNK: tl.constexpr):
    """Returns [CHUNK, CHUNK] exp(decay_i - decay_j) where j <= i; 0 elsewhere, where it would grow
    without bound."""
    row = tl.arange(0, CHUNK)
    sees = row[:, None] >= row[None, :]
    return tl.exp(tl.where(sees, decay[:, None] - decay[None, :], float("-inf")))


@triton.jit
def inverse_of_unit_lower(A, CHUNK: tl.constexpr, KIND: tl.constexpr, UPCAST: tl.constexpr):
    """Returns (I + A)^-1 of A [CHUNK, CHUNK], strictly lower triangular, CHUNK 64.

    Inverts the diagonal blocks of 2 x 2 first, then those of twice the size, and so on: nothing in
    between is larger than the inverse itself. Products are of KIND: float16 is enough if the
    inverse is rounded to 16 bits. float32 is computed in three parts on tensor cores, nearly as
    precise as in one, and compiles in a tenth of the time.
    """
    row = tl.arange(0, CHUNK)[:, None]
    column = tl.arange(0, CHUNK)[None, :]
    X = tl.where(row == column, 1.0, tl.where(row // 2 == column // 2, -A, 0.0))
    X = twice_the_blocks(X, A, 2, CHUNK, KIND, UPCAST)
    X = twice_the_blocks(X, A, 4, CHUNK, KIND, UPCAST)
    X = twice_the_blocks(X, A, 8, CHUNK, KIND, UPCAST)
    X = twice_the_blocks(X, A, 16, CHUNK, KIND, UPCAST)
    X = twice_the_blocks(X, A, 32, CHUNK, KIND, UPCAST)
    return X


@triton.jit
def twice_the_blocks(
    X,
    A,
    SIZE: tl.constexpr,
    CHUNK: tl.constexpr,
    KIND: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Returns a matrix with the inverses of the diagonal blocks of 2 * SIZE, given X with those of
    SIZE: X - X B X, where B is the part of A inside the larger blocks and outside the smaller
    ones."""
    row = tl.arange(0, CHUNK)[:, None]
    column = tl.arange(0, CHUNK)[None, :]
    joins = (row // (2 * SIZE) == column // (2 * SIZE)) & (row // SIZE != column // SIZE)
    B = tl.where(joins, A, 0.0).to(KIND)
    return X - product(product(X, B, None, "tf32x3", UPCAST), X.to(KIND), None, "tf32x3", UPCAST)
