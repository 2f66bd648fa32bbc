"""The operator table: what each ATen operator launches, copies and waits for on CUDA.

Measured on an H200 with torch 2.11 (`assets/effects/`). An operator that isn't listed launches one
kernel; a view launches none. Kernel counts of sorting and linear algebra depend on the size and on
library versions, and are those of small inputs unless a rule says more.
"""

from __future__ import annotations

import functools

import torch

from .copies import dense_alike
from .effects import (
    COPIED_FIRST,
    ERROR_CHECK,
    FILLED_FIRST,
    NOTHING,
    ONE_KERNEL,
    READ,
    Effects,
    Rule,
)
from .families.answers import (
    bincount,
    equal,
    histc,
    matrix_exp,
    nonzero,
    unique,
    unique_consecutive,
)
from .families.indexing import (
    concatenation,
    embedding_backward,
    fill_with_tensor,
    filled_with_tensor,
    index,
    index_put,
    index_put_,
    isin,
    one_hot,
    repeat_interleave,
    where,
)
from .families.linear_algebra import (
    cholesky,
    cholesky_inverse,
    eigenvalues,
    eigenvectors,
    ldl,
    ldl_solve,
    lu,
    singular_values,
    symmetric_eigenvalues,
)
from .families.products import (
    addmm,
    batch_normalisation,
    batch_normalisation_backward,
    convolution,
    convolution_backward,
    dot,
    normalisation,
    normalisation_backward,
    product,
)
from .families.reductions import (
    multinomial,
    normal,
    of_all,
    permutation,
    scan,
    segment_reduce,
    sort,
    topk,
    total,
)
from .families.spectra import fft_back, fft_of_complex


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
    return TABLE.get(name, ONE_KERNEL)


def clone(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `clone`: one memcpy for dense memory in any order. Other memory takes
    a kernel, and so do numbers that are negated or conjugated only when they are read."""
    if args[0].is_conj() or args[0].is_neg():
        return ONE_KERNEL
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
    "bincount": bincount,
    "histc": histc,
    "_unique2": unique,
    "unique_dim": Effects(kernels=4, reads=1, syncs=2, kernels_after=1),
    "unique_consecutive": unique_consecutive,
    "repeat_interleave.Tensor": repeat_interleave,
    "segment_reduce": segment_reduce,
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
    "_chunk_cat": Effects(pinned_uploads=1),
    "split_with_sizes_copy.out": Effects(pinned_uploads=1),
    "one_hot": one_hot,
    "isin.Tensor_Tensor": isin,
    "_efficientzerotensor": NOTHING,
    "conj_physical_": ONE_KERNEL,
    "eye": Effects(kernels=2),
    "pow.Scalar": Effects(kernels=2),
    "sort": sort,
    "sort.stable": sort,
    "topk": topk,
    "median": Effects(d2d=3, kernels=4),
    "nanmedian": Effects(d2d=3, kernels=4),
    "mode": Effects(kernels=2),
    "cumsum": scan,
    "cumsum_": scan,
    "cumprod": scan,
    "cumprod_": scan,
    "sum": total,
    "sum.dim_IntList": total,
    "all": of_all,
    "any": of_all,
    "all.dim": of_all,
    "any.dim": of_all,
    "count_nonzero": Effects(kernels=3),
    "count_nonzero.dim_IntList": Effects(kernels=3),
    "renorm": Effects(kernels=3),
    "renorm_": Effects(kernels=3),
    "randperm": permutation,
    "multinomial": multinomial,
    "normal.Tensor_Tensor": normal,
    "normal.float_Tensor": normal,
    "normal.Tensor_float": normal,
    "mm": product,
    "addmm": addmm,
    "addmv": Effects(kernels=2),
    "baddbmm": COPIED_FIRST,
    "dot": dot,
    "vdot": dot,
    "clone": clone,
    "mse_loss": Effects(kernels=2),
    "smooth_l1_loss": Effects(kernels=2),
    "_ctc_loss": Effects(uploads=3, kernels=3),
    "_ctc_loss_backward": Effects(uploads=3, kernels=4),
    "nll_loss_backward": FILLED_FIRST,
    "nll_loss2d_backward": FILLED_FIRST,
    "embedding_dense_backward": embedding_backward,
    "native_layer_norm": normalisation,
    "rms_norm": normalisation,
    "_fused_rms_norm": normalisation,
    "native_group_norm": Effects(kernels=2),
    "native_layer_norm_backward": normalisation_backward,
    "_fused_rms_norm_backward": normalisation_backward,
    "native_batch_norm": batch_normalisation,
    "_native_batch_norm_legit": batch_normalisation,
    "native_batch_norm_backward": batch_normalisation_backward,
    "scaled_dot_product_attention": ONE_KERNEL,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "lstm.input": Effects(kernels=3),
    "lstm.data": Effects(kernels=3),
    "gru.input": Effects(kernels=3),
    "gru.data": Effects(kernels=3),
    "lstm_cell": Effects(kernels=3),
    "gru_cell": Effects(kernels=3),
    "_fft_r2c": Effects(kernels=2),
    "_fft_c2r": fft_back,
    "_fft_c2c": fft_of_complex,
    "_foreach_norm.Scalar": Effects(kernels=3),
    "_linalg_check_errors": ERROR_CHECK,
    "linalg_inv_ex": lu(kernels=14),
    "linalg_cholesky_ex": Effects(kernels=4),
    "linalg_lu": lu(kernels=13),
    "linalg_lu_factor_ex": lu(kernels=7),
    "_linalg_solve_ex": lu(kernels=13),
    "_linalg_det": lu(kernels=15, d2d=1),
    "_linalg_slogdet": lu(kernels=19, d2d=1),
    "linalg_ldl_factor_ex": ldl,
    "linalg_ldl_solve": ldl_solve,
    "_linalg_svd": singular_values,
    "_linalg_eigh": symmetric_eigenvalues,
    "cholesky": cholesky,
    "cholesky_inverse": cholesky_inverse,
    "linalg_qr": Effects(kernels=16),
    "linalg_lstsq": Effects(d2d=1, kernels=14, reads=1),
    "linalg_solve_triangular": Effects(kernels=4),
    "linalg_matrix_exp": matrix_exp,
    "linalg_eig": eigenvectors,
    "linalg_eigvals": eigenvalues,
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
