"""The operator table: what each ATen operator launches, copies and waits for on CUDA.

Measured on an H200 with torch 2.11 (`assets/effects/`). An operator that isn't listed launches one
kernel; a view launches none. Kernel counts of sorting and linear algebra depend on the size and on
library versions, and are those of small inputs unless a rule says more.
"""

from __future__ import annotations

import functools

import torch

from . import effects, gradients
from .copies import dense_alike
from .effects import Effects, Rule
from .families import answers, indexing, linear_algebra, products, reductions, sorting, spectra


def effects_of(name: str, args: tuple, kwargs: dict) -> Effects:
    """Returns the copies, kernels and waits of the operator with this name, such as `index.Tensor`,
    on these arguments.

    Only metadata is used, and the arguments may lie on any device that stands for CUDA.
    """
    rule = rule_of(name)
    return rule if isinstance(rule, Effects) else rule(args, kwargs)


RESULTS_GIVEN = {"values", "values_stable"}
"""Overloads of operators such as `sort` that write two results to `out=`, but whose names don't end
in "out"."""


@functools.cache
def rule_of(name: str) -> Rule:
    """Returns the effects of an operator, or a function that computes them from its arguments. An
    overload that writes to `out=` has the rule of the overload that doesn't."""
    base, _, overload = name.partition(".")
    if name not in TABLE and (overload.endswith("out") or overload in RESULTS_GIVEN):
        name = f"{base}.{overload.removesuffix('_out')}"
        name = name if name in TABLE else base
    return TABLE.get(name, effects.ONE_KERNEL)


def clone(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `clone`: one memcpy for dense memory in any order. Other memory takes
    a kernel, and so do numbers that are negated or conjugated only when they are read."""
    if args[0].is_conj() or args[0].is_neg():
        return effects.ONE_KERNEL
    keeps_order = kwargs.get("memory_format") in (None, torch.preserve_format)
    as_it_lies = dense_alike(args[0], args[0]) if keeps_order else args[0].is_contiguous()
    return Effects(kernels=0, d2d=1) if as_it_lies else effects.ONE_KERNEL


TABLE: dict[str, Rule] = {
    "_local_scalar_dense": effects.READ,
    "is_nonzero": effects.READ,
    "nonzero": answers.nonzero,
    "nonzero_static": Effects(kernels=5),
    "masked_select": lambda args, kwargs: (
        answers.nonzero((args[1],), {}) + Effects(kernels=0, kernels_after=1)
    ),
    "equal": answers.equal,
    "bincount": answers.bincount,
    "histc": answers.histc,
    "_unique2": answers.unique,
    "unique_dim": Effects(kernels=4, reads=1, syncs=2, kernels_after=1),
    "unique_consecutive": answers.unique_consecutive,
    "repeat_interleave.Tensor": indexing.repeat_interleave,
    "segment_reduce": reductions.segment_reduce,
    "index.Tensor": indexing.index,
    "index_put_": indexing.index_put_,
    "index_put": indexing.index_put,
    "_index_put_impl_": indexing.index_put_,
    "where.self": indexing.where,
    "masked_scatter_": Effects(kernels=4),
    "masked_fill.Scalar": effects.COPIED_FIRST,
    "masked_fill.Tensor": indexing.filled_with_tensor,
    "masked_fill_.Tensor": indexing.fill_with_tensor,
    "index_fill.int_Scalar": effects.COPIED_FIRST,
    "index_fill.int_Tensor": indexing.filled_with_tensor,
    "index_fill_.int_Tensor": indexing.fill_with_tensor,
    "index_copy": effects.COPIED_FIRST,
    "index_add": gradients.copied_first,
    "scatter.src": gradients.copied_first,
    "scatter.value": effects.COPIED_FIRST,
    "scatter_add": gradients.copied_first,
    "scatter_reduce.two": Effects(d2d=2),
    "cat": indexing.concatenation,
    "_chunk_cat": Effects(pinned_uploads=1),
    "split_with_sizes_copy.out": Effects(pinned_uploads=1),
    "one_hot": indexing.one_hot,
    "isin.Tensor_Tensor": indexing.isin,
    "_efficientzerotensor": effects.NOTHING,
    "conj_physical_": effects.ONE_KERNEL,
    "eye": Effects(kernels=2),
    "pow.Scalar": Effects(kernels=2),
    "sort": sorting.sort,
    "sort.stable": sorting.sort,
    "topk": sorting.topk,
    "median": Effects(d2d=3, kernels=4),
    "nanmedian": Effects(d2d=3, kernels=4),
    "mode": Effects(kernels=2),
    "cumsum": reductions.scan,
    "cumsum_": reductions.scan,
    "cumprod": reductions.scan,
    "cumprod_": reductions.scan,
    "sum": reductions.total,
    "sum.dim_IntList": reductions.total,
    "all": reductions.of_all,
    "any": reductions.of_all,
    "all.dim": reductions.of_all,
    "any.dim": reductions.of_all,
    "count_nonzero": Effects(kernels=3),
    "count_nonzero.dim_IntList": Effects(kernels=3),
    "renorm": Effects(kernels=3),
    "renorm_": Effects(kernels=3),
    "randperm": sorting.permutation,
    "multinomial": sorting.multinomial,
    "normal.Tensor_Tensor": reductions.normal,
    "normal.float_Tensor": reductions.normal,
    "normal.Tensor_float": reductions.normal,
    "mm": products.product,
    "addmm": products.addmm,
    "addmv": Effects(kernels=2),
    "baddbmm": effects.COPIED_FIRST,
    "dot": products.dot,
    "vdot": products.dot,
    "clone": clone,
    "mse_loss": Effects(kernels=2),
    "smooth_l1_loss": Effects(kernels=2),
    "_ctc_loss": Effects(uploads=3, kernels=3),
    "_ctc_loss_backward": Effects(uploads=3, kernels=4),
    "nll_loss_backward": effects.FILLED_FIRST,
    "nll_loss2d_backward": effects.FILLED_FIRST,
    "embedding_dense_backward": sorting.embedding_backward,
    "_embedding_bag_backward": sorting.bags_backward,
    "_embedding_bag_dense_backward": sorting.bags_backward,
    "native_layer_norm": products.normalisation,
    "rms_norm": products.normalisation,
    "_fused_rms_norm": products.normalisation,
    "native_group_norm": Effects(kernels=2),
    "native_layer_norm_backward": products.normalisation_backward,
    "_fused_rms_norm_backward": products.normalisation_backward,
    "native_batch_norm": products.batch_normalisation,
    "_native_batch_norm_legit": products.batch_normalisation,
    "native_batch_norm_backward": products.batch_normalisation_backward,
    "scaled_dot_product_attention": effects.ONE_KERNEL,
    "convolution": products.convolution,
    "convolution_backward": products.convolution_backward,
    "lstm.input": Effects(kernels=3),
    "lstm.data": Effects(kernels=3),
    "gru.input": Effects(kernels=3),
    "gru.data": Effects(kernels=3),
    "lstm_cell": Effects(kernels=3),
    "gru_cell": Effects(kernels=3),
    "_fft_r2c": Effects(kernels=2),
    "_fft_c2r": spectra.fft_back,
    "_fft_c2c": spectra.fft_of_complex,
    "_foreach_norm.Scalar": Effects(kernels=3),
    "_linalg_check_errors": effects.ERROR_CHECK,
    "linalg_inv_ex": linear_algebra.lu(kernels=14),
    "linalg_cholesky_ex": Effects(kernels=4),
    "linalg_lu": linear_algebra.lu(kernels=13),
    "linalg_lu_factor_ex": linear_algebra.lu(kernels=7),
    "_linalg_solve_ex": linear_algebra.lu(kernels=13),
    "_linalg_det": linear_algebra.lu(kernels=15, d2d=1),
    "_linalg_slogdet": linear_algebra.lu(kernels=19, d2d=1),
    "linalg_ldl_factor_ex": linear_algebra.ldl,
    "linalg_ldl_solve": linear_algebra.ldl_solve,
    "_linalg_svd": linear_algebra.singular_values,
    "_linalg_eigh": linear_algebra.symmetric_eigenvalues,
    "cholesky": linear_algebra.cholesky,
    "cholesky_inverse": linear_algebra.cholesky_inverse,
    "linalg_qr": Effects(kernels=16),
    "linalg_lstsq": Effects(d2d=1, kernels=14, reads=1),
    "linalg_solve_triangular": Effects(kernels=4),
    "linalg_matrix_exp": answers.matrix_exp,
    "linalg_eig": linear_algebra.eigenvectors,
    "linalg_eigvals": linear_algebra.eigenvalues,
}

TAKEN_APART_ELSEWHERE = (
    "rms_norm",
    "one_hot",
    "convolution",
    "lstm.input",
    "lstm.data",
    "gru.input",
    "gru.data",
    "lstm_cell",
    "gru_cell",
    "linalg_eigvals",
)
"""Operators that CUDA has in one piece, and that PyTorch composes of others for an unknown
device."""
