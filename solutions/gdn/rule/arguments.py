"""What the delta rule takes for each token, in the chunked and in the recurrent form."""

from __future__ import annotations

import torch

from solutions.common.floats import FLOATS

from .strides import is_dense

CHUNKED_SIZES = (16, 32, 64, 128)
LARGEST_KEY = 256


def check_tokens(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> None:
    """q, k [1, T, H, K] and v [1, T, HV, V] of one type, g [1, T, HV] float32, beta [1, T, HV]; the
    heads of a token contiguous. ValueError."""
    if q.dim() != 4 or len(q) != 1 or k.shape != q.shape:
        raise ValueError(
            f"q of shape {list(q.shape)} and k of {list(k.shape)}: make both [1, T, H, K]"
        )
    num_tokens, num_heads, key_size = q.shape[1:]
    if v.dim() != 4 or v.shape[:2] != q.shape[:2] or not num_heads or v.shape[2] % num_heads:
        raise ValueError(
            f"v of shape {list(v.shape)}: make it [1, {num_tokens}, HV, V], HV a multiple of "
            f"{num_heads} key heads"
        )
    if not 1 <= key_size <= LARGEST_KEY:
        raise ValueError(
            f"keys of size {key_size}: this kernel holds 1 to {LARGEST_KEY} in its registers"
        )
    if q.dtype not in FLOATS or not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"q, k and v of {q.dtype}, {k.dtype} and {v.dtype}: use one of bfloat16, float16 and "
            "float32"
        )
    for name, tensor, dtypes in (("g", g, (torch.float32,)), ("beta", beta, FLOATS)):
        if tensor.shape != v.shape[:3] or tensor.dtype not in dtypes:
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: make it {list(v.shape[:3])}, "
                f"{dtypes[-1]}"
            )
    for name, tensor in (("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta)):
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device}, and q on {q.device}: use one device")
        if not is_dense(tensor, first_dimension=2):
            raise ValueError(
                f"{name} of strides {tensor.stride()}: the heads of a token must be contiguous"
            )


def check_chunked_sizes(q: torch.Tensor, v: torch.Tensor) -> None:
    """ValueError unless the products of a chunk can take keys and values of these sizes."""
    for name, size in (("keys", q.shape[3]), ("values", v.shape[3])):
        if size not in CHUNKED_SIZES:
            sizes = ", ".join(map(str, CHUNKED_SIZES))
            raise ValueError(f"{name} of size {size}: the chunked kernels take one of {sizes}")
