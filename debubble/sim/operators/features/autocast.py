"""`torch.autocast` on sim, with CUDA's lists of operators for half precision and for fp32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.private.torch import is_view, schema

from ...memory.tape import flat_tensors, with_tensors
from ...tensor import SimTensor


def _names(text: str) -> list[str]:
    return text.split()


IN_HALF = _names("""
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
    linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
    _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention lstm.input lstm.data gru.input gru.data
    rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
""")
IN_FP32 = _names("""
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm
    frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
    logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
    upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
    _upsample_bicubic2d_aa norm.Scalar norm.ScalarOpt_dim norm.names_ScalarOpt_dim rms_norm
""")
SUMMED_IN_FP32 = _names("""
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
    linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
""")
"""Operators that autocast gives `dtype=torch.float32` unless the caller gives another dtype."""
IN_THE_WIDEST = _names("""
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""")
"""Operators whose tensors autocast casts to the widest dtype among them."""
REFUSED = ("binary_cross_entropy",)
_KEY = "AutocastPrivateUse1"
Cast = Callable[[list[torch.Tensor]], torch.dtype]
_cast_before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""Each weight with its copy in half precision, by the weight's identity. A weight is cast once in
an autocast region, even if it is used there many times."""


def install(
    library: torch.library.Library,
    fallback: torch.library.Library,
    aside: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    fallback.fallback(torch.library.fallthrough_kernel, _KEY)
    rules: list[tuple[list[str], Cast]] = [
        (IN_HALF, lambda tensors: torch.get_autocast_dtype("sim")),
        (IN_FP32, lambda tensors: torch.float32),
        (IN_THE_WIDEST, _widest),
    ]
    for names, type_for in rules:
        for name, func in _there_are(names):
            library.impl(name, aside(partial(_cast, func, type_for)), _KEY)
    for name, func in _there_are(SUMMED_IN_FP32):
        library.impl(name, aside(partial(_sum, func)), _KEY)
    for name in REFUSED:
        library.impl(name, partial(_refuse, name), _KEY)
    torch.clear_autocast_cache = partial(_forget, torch.clear_autocast_cache)


def _forget(as_before: Callable[[], None]) -> None:
    """Replaces `torch.clear_autocast_cache`, which PyTorch calls at the end of the outermost
    region: clears the cast weights and, by `as_before`, PyTorch's own cache."""
    _cast_before.clear()
    as_before()


def _there_are(names: list[str]) -> list[tuple[str, Any]]:
    """Returns each operator of `names` that this version of PyTorch has, as its name and its
    overload."""
    found = []
    for name in names:
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None)
        func = getattr(packet, overload or "default", None) if packet is not None else None
        if func is not None:
            found.append((name, func))
    return found


def _cast(func: Any, type_for: Cast, *args: Any, **kwargs: Any) -> Any:
    tensors = flat_tensors([args, list(kwargs.values())])
    dtype = type_for(tensors)
    in_order = iter([_as(dtype, tensor) for tensor in tensors])
    args = with_tensors(args, in_order)
    values = with_tensors(list(kwargs.values()), in_order)
    with torch.autocast("sim", enabled=False):
        return func(*args, **dict(zip(kwargs, values, strict=True)))


def _sum(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an operator with `dtype=torch.float32`, so that it reads halves and sums them in fp32
    without an extra cast. Leaves a dtype that the caller gives, and float64."""
    positional = [argument.name for argument in schema(func).arguments if not argument.kwarg_only]
    is_told = "dtype" in positional[: len(args)] or kwargs.get("dtype") is not None
    if not is_told and args[0].is_floating_point() and args[0].dtype != torch.float64:
        kwargs["dtype"] = torch.float32
    with torch.autocast("sim", enabled=False):
        return func(*args, **kwargs)


def _refuse(name: str, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        f"{name} is unsafe to autocast: use binary_cross_entropy_with_logits, "
        "which takes what comes before the sigmoid"
    )


def _as(dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
    is_cast = isinstance(tensor, SimTensor) and tensor.is_floating_point()
    if not is_cast or tensor.dtype in (torch.float64, dtype):
        return tensor
    is_weight = tensor.is_leaf and tensor.requires_grad and not is_view(tensor)
    if not is_weight or dtype == torch.float32 or not torch.is_autocast_cache_enabled():
        return tensor.to(dtype)
    if id(tensor) not in _cast_before:
        _cast_before[id(tensor)] = tensor, tensor.to(dtype)
    return _cast_before[id(tensor)][1]


def _widest(tensors: list[torch.Tensor]) -> torch.dtype:
    """Returns the dtype to which autocast casts these tensors: fp32 if any is fp32, else autocast's
    half type."""
    is_wide = any(tensor.dtype == torch.float32 for tensor in tensors)
    return torch.float32 if is_wide else torch.get_autocast_dtype("sim")
