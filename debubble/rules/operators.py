"""The operator table: what each ATen operator launches, copies and waits for on CUDA.

Measured on an H200 with torch 2.11 (`assets/effects/`). An operator that isn't listed launches
one kernel; a view launches none. Kernel counts of sorting and linear algebra depend on the size
and on library versions, and are those of small inputs unless a rule says more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from .action import SYNC, Action, copy
from .copies import dense_alike


class Effects(NamedTuple):
    """How often an operator does what. The order in time is the order of the fields."""

    uploads: int = 0
    """Blocking copies of a CPU value from pageable memory."""
    pinned_uploads: int = 0
    d2d: int = 0
    kernels: int = 1
    reads: int = 0
    """Blocking copies to the host."""
    syncs: int = 0
    """Host waits beyond those of the copies."""
    kernels_after: int = 0

    def actions(self, name: str, nbytes: float, flops: float, unit: str) -> list[Action]:
        """One list for the device, with bytes and operations spread over the kernels."""
        if self is ONE_KERNEL:
            return [Action("kernel", name, nbytes, flops, unit)]
        count = max(1, self.kernels + self.kernels_after)
        one = Action("kernel", name, nbytes / count, flops / count, unit)
        return (
            [copy("h2d_pageable", SCALAR_BYTES), SYNC] * self.uploads
            + [copy("h2d_pinned", SCALAR_BYTES)] * self.pinned_uploads
            + [copy("d2d", nbytes / 2)] * self.d2d
            + [one] * self.kernels
            + [copy("d2h", SCALAR_BYTES), SYNC] * self.reads
            + [SYNC] * self.syncs
            + [one] * self.kernels_after
        )

    def __add__(self, other: Effects) -> Effects:
        return Effects(*(a + b for a, b in zip(self, other, strict=True)))


SCALAR_BYTES = 8
Rule = Effects | Callable[[tuple, dict], Effects]

NOTHING = Effects(kernels=0)
READ = Effects(kernels=0, reads=1)
ERROR_CHECK = Effects(d2d=1, kernels=0, reads=1, kernels_after=1)
COPIED_FIRST = Effects(d2d=1)
"""A functional form of an in-place operator: a copy of the input, then the kernel."""

SORTED_IN_ONE_BLOCK = 4096
LARGE = 1 << 16


def effects_of(name: str, args: tuple, kwargs: dict) -> Effects:
    """The effects of an operator by its overload, such as `index.Tensor`, on these arguments.

    Only metadata is looked at, and the arguments may lie on any device that plays CUDA.
    """
    rule = TABLE.get(name)
    if rule is None:
        base, _, overload = name.partition(".")
        rule = TABLE.get(base, ONE_KERNEL) if overload.endswith("out") else ONE_KERNEL
    return rule if isinstance(rule, Effects) else rule(args, kwargs)


ONE_KERNEL = Effects()


# Reads: the host has to know something.


def nonzero(args: tuple, kwargs: dict) -> Effects:
    """Counts, tells the host how many, then writes the positions."""
    mask = args[0]
    if mask.numel() == 0:
        return NOTHING
    return Effects(kernels=3 + (mask.dim() > 1) + (mask.numel() > LARGE), reads=1)


def equal(args: tuple, kwargs: dict) -> Effects:
    a, b = args[:2]
    if a.shape != b.shape or (a.data_ptr() == b.data_ptr() and a.stride() == b.stride()):
        return NOTHING
    return Effects(kernels=2, reads=1)


def unique(args: tuple, kwargs: dict) -> Effects:
    inverse = args[2] if len(args) > 2 else kwargs.get("return_inverse", False)
    large = args[0].numel() > SORTED_IN_ONE_BLOCK
    return Effects(kernels=2 + 5 * inverse + 9 * large, reads=1, kernels_after=1)


def repeat_interleave(args: tuple, kwargs: dict) -> Effects:
    """Without `output_size` the host asks how much there will be, and for negative counts."""
    uploads = index_tensors(args[:1]) if args[0].device.type == "cpu" else NOTHING
    if kwargs.get("output_size") is not None:
        return uploads + Effects(kernels=3)
    return uploads + Effects(kernels=4, reads=2, kernels_after=1)


# Indexing.


def index_tensors(indices: Iterable[torch.Tensor | None]) -> Effects:
    """What it takes to have index tensors as integers on the device."""
    total = NOTHING
    for index in indices:
        if index is None:
            continue
        is_mask = index.dtype in (torch.bool, torch.uint8)
        if index.device.type == "cpu" and index.numel() > 0:
            total += Effects(uploads=not is_mask, pinned_uploads=is_mask, kernels=0)
        elif is_mask:
            total += nonzero((index,), {})
    return total


def index(args: tuple, kwargs: dict) -> Effects:
    return index_tensors(args[1]) + Effects(kernels=0, kernels_after=1)


def index_put_(args: tuple, kwargs: dict) -> Effects:
    """A number through one mask is a masked fill; any other value has to be on the device."""
    indices, value = args[1:3]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    from_host = value.device.type == "cpu"
    masks = [i for i in indices if i is not None and i.dtype == torch.bool]
    if (
        from_host
        and value.numel() == 1
        and len(masks) == len([i for i in indices if i is not None]) == 1
    ):
        return ONE_KERNEL
    put = Effects(kernels=0, kernels_after=21 if accumulate else 1)
    return index_tensors(indices) + put + Effects(uploads=from_host, kernels=0)


def index_put(args: tuple, kwargs: dict) -> Effects:
    return Effects(d2d=1, kernels=0) + index_put_(args, kwargs)


def fill_with_tensor(args: tuple, kwargs: dict) -> Effects:
    """`index_fill_` and `masked_fill_` want a number: a value on the device is read back."""
    return Effects(reads=args[-1].device.type != "cpu", kernels=0, kernels_after=1)


def filled_with_tensor(args: tuple, kwargs: dict) -> Effects:
    return Effects(d2d=1, kernels=0) + fill_with_tensor(args, kwargs)


def where(args: tuple, kwargs: dict) -> Effects:
    """Takes its values on the device; a CPU scalar is sent there first."""
    scalars = [a for a in args if isinstance(a, torch.Tensor) and a.device.type == "cpu"]
    return Effects(uploads=len(scalars))


def concatenation(args: tuple, kwargs: dict) -> Effects:
    tensors = args[0]
    if len(tensors) == 1:
        return Effects(kernels=0, d2d=1)
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return ONE_KERNEL
    widest = functools.reduce(torch.promote_types, dtypes)
    kept = sum(tensor.dtype == widest for tensor in tensors)
    return Effects(d2d=kept, kernels=len(tensors) - kept)


def one_hot(args: tuple, kwargs: dict) -> Effects:
    """Without `num_classes` the host asks for the largest index."""
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    return Effects(kernels=2) if classes != -1 else Effects(kernels=1, reads=1, kernels_after=2)


def isin(args: tuple, kwargs: dict) -> Effects:
    """Few test values are compared one by one, many are sorted."""
    elements, tests = args[:2]
    if tests.numel() < 10 * elements.numel() ** 0.145:
        return Effects(d2d=1, kernels=3)
    return Effects(uploads=1, d2d=5, kernels=26, reads=2)


# Sorting, scans and reductions.


def sort(args: tuple, kwargs: dict) -> Effects:
    tensor = args[0]
    length = tensor.size(dimension_of(args, kwargs)) if tensor.dim() else 1
    if tensor.numel() <= 1:
        return Effects(kernels=0, d2d=1)
    if tensor.numel() == length:
        return (
            Effects(d2d=1, kernels=7) if length > SORTED_IN_ONE_BLOCK else Effects(d2d=3, kernels=2)
        )
    return (
        Effects(d2d=2, kernels=3) if length <= SORTED_IN_ONE_BLOCK else Effects(d2d=1, kernels=11)
    )


def dimension_of(args: tuple, kwargs: dict) -> int:
    integers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    return integers[0] if integers else kwargs.get("dim", -1)


def topk(args: tuple, kwargs: dict) -> Effects:
    in_order = args[4] if len(args) > 4 else kwargs.get("sorted", True)
    return Effects(kernels=1 + (in_order and args[1] > 1) if args[0].numel() <= LARGE else 20)


def scan(args: tuple, kwargs: dict) -> Effects:
    """One dimension is scanned by a library in two kernels; another dtype is converted first."""
    return Effects(kernels=1 + _converts(args[0], kwargs) + (args[0].dim() == 1))


def total(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=1 + _converts(args[0], kwargs))


def _converts(tensor: torch.Tensor, kwargs: dict) -> bool:
    """Whether the elements are added up in another dtype: small integers are in int64."""
    whole = not tensor.is_floating_point() and not tensor.is_complex()
    wanted = kwargs.get("dtype") or (torch.int64 if whole else tensor.dtype)
    return wanted != tensor.dtype


def permutation(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=5 if args[0] < 30000 else 11)


def multinomial(args: tuple, kwargs: dict) -> Effects:
    replacement = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    return Effects(d2d=2, kernels=3) if replacement and args[1] > 1 else Effects(kernels=14)


# Matrix products and normalisation.


def product(args: tuple, kwargs: dict) -> Effects:
    """Few rows and a long inner dimension are split over the device, then summed."""
    rows, inner = args[-2].shape[-2:]
    halves = args[-1].dtype in (torch.float16, torch.bfloat16)
    return Effects(kernels=1 + (halves and rows <= 16 and inner >= 4096))


def addmm(args: tuple, kwargs: dict) -> Effects:
    """A bias vector is added by the library; a whole matrix is copied into the result first."""
    bias = args[0]
    if not bias.is_contiguous():
        return Effects(kernels=2)
    return COPIED_FIRST if bias.dim() > 1 else product(args, kwargs)


def normalisation(args: tuple, kwargs: dict) -> Effects:
    """Rows that can be read in vectors of four take one kernel, others two."""
    return Effects(kernels=1 if args[0].shape[-1] % 4 == 0 else 2)


def batch_normalisation(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=3) if args[5] else Effects(d2d=1, kernels=2)


def convolution(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=1 + (args[2] is not None))


def attention(args: tuple, kwargs: dict) -> Effects:
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    return Effects(kernels=1 if mask is None else 4)


def clone(args: tuple, kwargs: dict) -> Effects:
    """Dense memory is copied as it lies, whatever its order; other memory by a kernel."""
    keeps_order = kwargs.get("memory_format") in (None, torch.preserve_format)
    as_it_lies = dense_alike(args[0], args[0]) if keeps_order else args[0].is_contiguous()
    return Effects(kernels=0, d2d=1) if as_it_lies else ONE_KERNEL


TABLE: dict[str, Rule] = {
    "_local_scalar_dense": READ,
    "is_nonzero": READ,
    "nonzero": nonzero,
    "nonzero_static": Effects(kernels=5),
    "masked_select": lambda args, kwargs: (
        nonzero((args[1],), {}) + Effects(kernels=0, kernels_after=1)
    ),
    "equal": equal,
    "bincount": Effects(kernels=2, reads=2, kernels_after=2),
    "histc": Effects(kernels=2, reads=2, kernels_after=2),
    "_unique2": unique,
    "unique_dim": Effects(kernels=4, reads=1, syncs=2, kernels_after=1),
    "unique_consecutive": Effects(kernels=1, reads=1, kernels_after=1),
    "repeat_interleave.Tensor": repeat_interleave,
    "segment_reduce": Effects(d2d=1, kernels=6, reads=2, kernels_after=2),
    "index.Tensor": index,
    "index_put_": index_put_,
    "index_put": index_put,
    "_index_put_impl_": index_put_,
    "where.self": where,
    "masked_scatter_": Effects(kernels=4),
    "masked_fill.Scalar": COPIED_FIRST,
    "masked_fill.Tensor": filled_with_tensor,
    "masked_fill_.Tensor": fill_with_tensor,
    "index_fill.int_Scalar": COPIED_FIRST,
    "index_fill.int_Tensor": filled_with_tensor,
    "index_fill_.int_Tensor": fill_with_tensor,
    "index_copy": COPIED_FIRST,
    "index_add": COPIED_FIRST,
    "scatter.src": COPIED_FIRST,
    "scatter.value": COPIED_FIRST,
    "scatter_add": COPIED_FIRST,
    "scatter_reduce.two": Effects(d2d=2),
    "cat": concatenation,
    "one_hot": one_hot,
    "isin.Tensor_Tensor": isin,
    "resize_": NOTHING,
    "set_": NOTHING,
    "eye": Effects(kernels=2),
    "pow.Scalar": Effects(kernels=2),
    "sort": sort,
    "sort.stable": sort,
    "topk": topk,
    "median": Effects(d2d=3, kernels=4),
    "mode": Effects(kernels=2),
    "cumsum": scan,
    "cumprod": scan,
    "sum": total,
    "sum.dim_IntList": total,
    "count_nonzero": Effects(kernels=3),
    "count_nonzero.dim_IntList": Effects(kernels=3),
    "renorm": Effects(kernels=3),
    "randperm": permutation,
    "multinomial": multinomial,
    "mm": product,
    "addmm": addmm,
    "addmv": Effects(kernels=2),
    "baddbmm": COPIED_FIRST,
    "dot": Effects(kernels=2),
    "vdot": Effects(kernels=2),
    "clone": clone,
    "mse_loss": Effects(kernels=2),
    "smooth_l1_loss": Effects(kernels=2),
    "native_layer_norm": normalisation,
    "rms_norm": normalisation,
    "_fused_rms_norm": normalisation,
    "native_group_norm": Effects(kernels=2),
    "native_batch_norm": batch_normalisation,
    "_native_batch_norm_legit": batch_normalisation,
    "scaled_dot_product_attention": attention,
    "convolution": convolution,
    "convolution_backward": Effects(kernels=3),
    "lstm.input": Effects(kernels=3),
    "gru.input": Effects(kernels=3),
    "lstm_cell": Effects(kernels=3),
    "gru_cell": Effects(kernels=3),
    "_fft_r2c": Effects(kernels=2),
    "_linalg_check_errors": ERROR_CHECK,
    "linalg_inv_ex": Effects(kernels=14),
    "linalg_cholesky_ex": Effects(kernels=4),
    "linalg_lu_factor_ex": Effects(kernels=7),
    "_linalg_solve_ex": Effects(kernels=13),
    "_linalg_det": Effects(d2d=1, kernels=15),
    "_linalg_svd": Effects(d2d=1, kernels=4, reads=2, kernels_after=2),
    "_linalg_eigh": Effects(d2d=1, kernels=14, reads=2, kernels_after=2),
    "linalg_qr": Effects(kernels=16),
    "linalg_lstsq": Effects(d2d=1, kernels=14, reads=1),
    "linalg_solve_triangular": Effects(kernels=4),
}

TAKEN_APART_ELSEWHERE = (
    "rms_norm",
    "scaled_dot_product_attention",
    "one_hot",
    "convolution",
    "lstm.input",
    "gru.input",
    "lstm_cell",
    "gru_cell",
)
"""Operators that CUDA has in one piece, and PyTorch composes of others for an unknown device."""
