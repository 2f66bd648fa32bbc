"""Rules for decompositions of matrices, by cuSOLVER, cuBLAS and MAGMA.

Measured on an H100 with torch 2.11, for sizes from 0 to 1024 and batches from 0 to 16. Where the
values decide how often a library waits, a rule has the number for random matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple

import torch

from ..effects import NOTHING, Effects


class Matrices(NamedTuple):
    """The size of a tensor [..., rows, columns]."""

    is_batch: bool
    """True if there are dimensions before the last two."""
    number: int
    rows: int
    columns: int


def _of_matrices(rule: Callable[[Matrices], Effects]) -> Callable[[tuple, dict], Effects]:
    """Turns a rule for `Matrices` into a rule for an operator's arguments, which returns `NOTHING`
    for a tensor without elements."""

    @wraps(rule)
    def effects(args: tuple, kwargs: dict) -> Effects:
        *batch, rows, columns = args[0].shape
        if args[0].numel() == 0:
            return NOTHING
        return rule(Matrices(bool(batch), math.prod(batch), rows, columns))

    return effects


@_of_matrices
def singular_values(of: Matrices) -> Effects:
    """Returns the effects of `svd`: small matrices are decomposed together, larger ones one after
    the other, and the host reads whether each iteration has converged."""
    if max(of.rows, of.columns) <= 32:
        return Effects(d2d=not of.is_batch, kernels=4, reads=2, kernels_after=2)
    each = 3 + max(5, int(math.log2(min(of.rows, of.columns))))
    return Effects(d2d=2 + of.number, kernels=130 * of.number, reads=2 + each * of.number)


@_of_matrices
def symmetric_eigenvalues(of: Matrices) -> Effects:
    if of.rows == 1:
        return Effects(d2d=1, kernels=5, reads=1)
    if of.rows < 32 or (of.is_batch and of.rows == 32):
        return Effects(
            d2d=not of.is_batch, kernels=14, reads=1 if of.is_batch else 2, kernels_after=2
        )
    if of.rows <= 512:
        each = 3 + int(math.log2(of.rows))
        return Effects(
            staged_uploads=of.number,
            d2d=1 + of.number,
            kernels=95 * of.number,
            reads=1 + each * of.number,
        )
    return Effects(d2d=1, kernels=136 * of.number, reads=3 * of.number, downloads=of.number)


def eigenvectors(args: tuple, kwargs: dict) -> Effects:
    return _eigen(args[0], reads=3, pinned=7, downloads=12, syncs=12)


def eigenvalues(args: tuple, kwargs: dict) -> Effects:
    return _eigen(args[0], reads=2, pinned=5, downloads=8, syncs=11)


def _eigen(data: torch.Tensor, reads: int, pinned: int, downloads: int, syncs: int) -> Effects:
    """Returns the effects of finding the eigenvalues of random matrices: `reads` are made once for
    all matrices; `pinned` uploads, `downloads` (blocking) and `syncs` are made for each."""
    count = math.prod(data.shape[:-2]) if data.numel() else 0
    if not count:
        return Effects(d2d=1, kernels=5, reads=reads)
    return Effects(
        pinned_uploads=pinned * count,
        kernels=60 * count,
        reads=reads + downloads * count,
        syncs=1 + syncs * count,
    )


def lu(kernels: int, d2d: int = 0) -> Callable[[tuple, dict], Effects]:
    """Returns the rule of an operator built on LU factorisation, with these numbers of kernels and
    of copies. MAGMA, which waits, factorises matrices that are not square, and batches of large
    ones."""

    @_of_matrices
    def effects(of: Matrices) -> Effects:
        by_magma = of.rows != of.columns or (of.is_batch and of.rows > 128)
        return Effects(d2d=d2d, kernels=kernels, syncs=3 if by_magma else 0)

    return effects


@_of_matrices
def ldl(of: Matrices) -> Effects:
    """Returns the effects of LDL factorisation, in which the host reads each pivot."""
    reads = math.ceil(1.25 * of.rows) * of.number
    return Effects(kernels=2 * reads + of.number, reads=reads)


@_of_matrices
def ldl_solve(of: Matrices) -> Effects:
    return Effects(kernels=17 * of.number, reads=1, downloads=of.number - 1)


@_of_matrices
def cholesky(of: Matrices) -> Effects:
    return Effects(d2d=1, kernels=5, reads=1)


@_of_matrices
def cholesky_inverse(of: Matrices) -> Effects:
    return Effects(d2d=1, kernels=5, syncs=1 if of.is_batch else 0)
