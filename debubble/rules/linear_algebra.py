"""Rules for decompositions of matrices, by cuSOLVER, cuBLAS and MAGMA.

Measured on an H100 with torch 2.11, for sizes from 0 to 1024 and batches from 0 to 16. Where the
values decide how often a library waits, a rule has the number for random matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import torch

from .effects import NOTHING, Effects

MatrixRule = Callable[[tuple[int, ...], int, int, int], Effects]
"""Takes the dimensions before the matrix, the number of matrices, their rows and their columns."""


def _of_matrices(rule: MatrixRule) -> Callable[[tuple, dict], Effects]:
    @wraps(rule)
    def effects(args: tuple, kwargs: dict) -> Effects:
        *batch, rows, columns = args[0].shape
        if args[0].numel() == 0:
            return NOTHING
        return rule(tuple(batch), math.prod(batch), rows, columns)

    return effects


@_of_matrices
def singular_values(batch: tuple[int, ...], count: int, rows: int, columns: int) -> Effects:
    """Small matrices are done together, larger ones one after the other, and the host reads whether
    each iteration has converged."""
    if max(rows, columns) <= 32:
        return Effects(d2d=not batch, kernels=4, reads=2, kernels_after=2)
    each = 3 + max(5, int(math.log2(min(rows, columns))))
    return Effects(d2d=2 + count, kernels=130 * count, reads=2 + each * count)


@_of_matrices
def symmetric_eigenvalues(batch: tuple[int, ...], count: int, rows: int, _: int) -> Effects:
    if rows == 1:
        return Effects(d2d=1, kernels=5, reads=1)
    if rows < 32 or (batch and rows == 32):
        return Effects(d2d=not batch, kernels=14, reads=1 if batch else 2, kernels_after=2)
    if rows <= 512:
        each = 3 + int(math.log2(rows))
        return Effects(
            staged_uploads=count, d2d=1 + count, kernels=95 * count, reads=1 + each * count
        )
    return Effects(d2d=1, kernels=136 * count, reads=3 * count, downloads=count)


def eigenvectors(args: tuple, kwargs: dict) -> Effects:
    return _eigen(args[0], reads=3, pinned=7, downloads=12, syncs=12)


def eigenvalues(args: tuple, kwargs: dict) -> Effects:
    return _eigen(args[0], reads=2, pinned=5, downloads=8, syncs=11)


def _eigen(data: torch.Tensor, reads: int, pinned: int, downloads: int, syncs: int) -> Effects:
    """Counts those of the whole batch, and those of each matrix, whose values decide how many."""
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
    """Returns the rule of a factorisation by rows: matrices that are not square, and batches of
    large ones, are MAGMA's, which waits."""

    @_of_matrices
    def effects(batch: tuple[int, ...], _: int, rows: int, columns: int) -> Effects:
        by_magma = rows != columns or (batch and rows > 128)
        return Effects(d2d=d2d, kernels=kernels, syncs=3 if by_magma else 0)

    return effects


@_of_matrices
def ldl(_: tuple[int, ...], count: int, rows: int, __: int) -> Effects:
    """The host reads each pivot."""
    reads = math.ceil(1.25 * rows) * count
    return Effects(kernels=2 * reads + count, reads=reads)


@_of_matrices
def ldl_solve(_: tuple[int, ...], count: int, __: int, ___: int) -> Effects:
    return Effects(kernels=17 * count, reads=1, downloads=count - 1)


@_of_matrices
def cholesky(_: tuple[int, ...], __: int, ___: int, ____: int) -> Effects:
    return Effects(d2d=1, kernels=5, reads=1)


@_of_matrices
def cholesky_inverse(batch: tuple[int, ...], _: int, __: int, ___: int) -> Effects:
    return Effects(d2d=1, kernels=5, syncs=1 if batch else 0)
